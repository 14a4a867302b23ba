#!/usr/bin/env python3
"""Makes folders of adapters as PEFT writes them, with the loss that it computes with them in fp32.

    pip install torch transformers peft safetensors numpy
    python3 tests/oracle/make_adapter_folders.py CHECKPOINTS FOLDER [COUNT [SEED]]
    python3 tests/oracle/make_adapter_folders.py --pack CHECKPOINTS FOLDER     # rewrites the archive

CHECKPOINTS: fixtures/checkpoints.tar.xz, unpacked (make_checkpoint_fixtures.py), whose models the
adapters stand on. Targets, how they are written, patterns, ranks, scales and number formats are
drawn. The archive that tests unpack is tests/oracle/fixtures/adapter_folders.tar.xz and holds

    N/adapter_config.json, N/adapter_model.safetensors
    N/case.json     base: a name in CHECKPOINTS; lora: what a run writes; loss: of the second half of
                    tokens.bin, by PEFT
"""
import json
import lzma
import pathlib
import random
import shutil
import sys
import tarfile

import make_checkpoint_fixtures as checkpoints
from generator import normal

BASES = ("llama", "qwen2", "mistral", "qwen3", "llama_bf16", "llama_sharded", "llama_bias")
TARGETS = {"q_proj": "self_attn", "k_proj": "self_attn", "v_proj": "self_attn", "o_proj": "self_attn",
           "gate_proj": "mlp", "up_proj": "mlp", "down_proj": "mlp"}
LAYERS = checkpoints.SMALL["num_hidden_layers"]


def written(rng, targets):
    """One of the ways in which PEFT's users name modules."""
    way = rng.randrange(5)
    if way == 0:
        return r".*\.(" + "|".join(targets) + ")"
    if way == 1:
        return r"model\.layers\.\d+\.(?:self_attn|mlp)\.(" + "|".join(targets) + ")"
    if way == 2:
        return [f"model.layers.{layer}.{TARGETS[t]}.{t}" for layer in range(LAYERS) for t in targets]
    if way == 3:
        return [f"{TARGETS[t]}.{t}" for t in targets]
    return targets


def pattern(rng, target):
    return rng.choice((target, f"{TARGETS[target]}.{target}", rf".*\.{TARGETS[target]}\.{target}",
                       rf"layers\.\d+\..*{target}", f"^model.layers.[0-9]+.{TARGETS[target]}.{target}"))


def draw(rng):
    """A run's `lora`, and PEFT's configuration of the same."""
    import peft
    targets = [t for t in TARGETS if rng.random() < 0.5] or ["v_proj"]
    rank, alpha = rng.randrange(1, 5), rng.choice((1, 3, 8, 12))
    lora = dict(rank=rank, alpha=alpha, targets=targets, rslora=rng.random() < 0.5)
    ranks = {t: rng.randrange(1, 7) for t in targets if rng.random() < 0.3}
    alphas = {t: rng.choice((0.5, 2, 5)) for t in targets if rng.random() < 0.3}
    if ranks:
        lora["rank_pattern"] = ranks
    if alphas:
        lora["alpha_pattern"] = alphas
    config = peft.LoraConfig(
        r=rank, lora_alpha=alpha, target_modules=written(rng, targets), use_rslora=lora["rslora"],
        rank_pattern={pattern(rng, t): r for t, r in ranks.items()},
        alpha_pattern={pattern(rng, t): a for t, a in alphas.items()}, task_type="CAUSAL_LM",
        lora_dropout=rng.choice((0.0, 0.1)), init_lora_weights=rng.choice((True, "gaussian")))
    return lora, config


def loss_of(model):
    import torch
    held_out = torch.from_numpy(checkpoints.tokens(64)[checkpoints.ROWS * checkpoints.SEQUENCE + 1:])
    model.eval()
    with torch.no_grad():
        logits = model(input_ids=held_out[:-1].reshape(checkpoints.ROWS, checkpoints.SEQUENCE),
                       use_cache=False).logits
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1).double(), held_out[1:]).item()


def load(folder):
    import torch
    import transformers
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32,
                                                             attn_implementation="eager")


def make(models, folder, count, seed):
    import peft
    import torch
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        rng = random.Random(seed * 1000003 + number)
        base = BASES[number % len(BASES)]
        lora, config = draw(rng)
        model = peft.get_peft_model(load(models / base), config, autocast_adapter_dtype=False)
        dtype = rng.choice((torch.float32, torch.float32, torch.bfloat16, torch.float16))
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if "lora_" in name:
                    value = torch.from_numpy(normal(seed + number, name, tuple(parameter.shape), 0.1))
                    parameter.copy_(value.to(dtype).float())
        directory = folder / str(number)
        shutil.rmtree(directory, ignore_errors=True)
        loss = loss_of(model)
        for name, parameter in model.named_parameters():
            if "lora_" in name:
                parameter.data = parameter.data.to(dtype)
        model.save_pretrained(directory)
        (directory / "README.md").unlink()
        path = directory / "adapter_config.json"  # without a path of this machine
        text = json.loads(path.read_text())
        text["base_model_name_or_path"] = f"models/{base}"
        path.write_text(json.dumps(text, indent=2, sort_keys=True) + "\n")
        (directory / "case.json").write_text(
            json.dumps(dict(base=base, lora=lora, loss=loss), sort_keys=True) + "\n")
        print(f"{number}: {base}, {lora}, {dtype}, loss {loss:.6f}, without "
              f"{loss_of(load(models / base)):.6f}")


def pack(folder, path):
    names = [name for number in sorted(folder.iterdir()) for name in sorted(number.iterdir())]
    with lzma.open(path, "wb", preset=9 | lzma.PRESET_EXTREME) as out, \
            tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in names:
            entry = tarfile.TarInfo(str(name.relative_to(folder)))
            entry.size, entry.mode = name.stat().st_size, 0o644
            with open(name, "rb") as data:
                archive.addfile(entry, data)
    print(f"{path}: {path.stat().st_size} bytes")


def main():
    arguments = sys.argv[1:]
    if arguments[0] == "--pack":
        pack(pathlib.Path(arguments[2]),
             pathlib.Path(__file__).parent / "fixtures" / "adapter_folders.tar.xz")
        return
    make(pathlib.Path(arguments[0]), pathlib.Path(arguments[1]),
         int(arguments[2]) if len(arguments) > 2 else len(BASES),
         int(arguments[3]) if len(arguments) > 3 else 1)


if __name__ == "__main__":
    main()
