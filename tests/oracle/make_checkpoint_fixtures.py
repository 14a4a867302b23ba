#!/usr/bin/env python3
"""Makes the fixtures of checkpoints: Hugging Face model directories that transformers writes, with
the logits and the loss that it computes from them in fp32.

    pip install torch 'transformers<5' safetensors numpy     # and, in another environment, >= 5
    python3 tests/oracle/make_checkpoint_fixtures.py FOLDER [NAME...]  # once with either
    python3 tests/oracle/make_checkpoint_fixtures.py --pack FOLDER    # rewrites the archive

Both versions make every family, because their config.json differ (5 has `dtype` and
`rope_parameters`, 4 `rope_scaling` and `rope_theta`; 4 reads those of 5 without a word and computes
something else). What version 4 wrote is called NAME.hf4, with the same parameters as NAME. The rest
comes from version 5. The archive, which tests unpack, is tests/oracle/fixtures/checkpoints.tar.xz
and holds

    fixtures.txt    of each fixture a line: name, dtype of its files, what a load must do
                    ("load", or "refuse": the head is tied and stored with other numbers)
    tokens.bin      2 (ROWS SEQUENCE + 1) tokens, little-endian uint16; the second half is what
                    `holdout: 0.5` holds out, ROWS sequences one behind the other
    NAME/           the model directory
    NAME.logits     what transformers computes from it, unless it must be refused; little endian:
                    8 bytes "SWLOGITS", int64[3] ROWS, SEQUENCE, vocab_size, float64 the mean loss
                    of the held-out labels, float32[ROWS][SEQUENCE][vocab_size] the logits

Parameters come from the generator in generator.py under the names that the files have; weights of
norms are 1 + its value. No token is vocab_size - 1: in models whose head is not tied, that row of
the embedding holds the numbers that conversions get wrong (zeros of both signs, the least and the
largest of the dtype, subnormal ones).
"""
import argparse
import json
import lzma
import pathlib
import shutil
import struct
import tarfile

import numpy as np

SEQUENCE, ROWS, STDDEV, SEED = 32, 2, 0.2, 41
SMALL = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256,
             rms_norm_eps=1e-5, attention_dropout=0.0)
LLAMA3 = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0,
              high_freq_factor=4.0, original_max_position_embeddings=64)
TIED = dict(tie_word_embeddings=True)
FAST = dict(rope_type="default", rope_theta=500.0)
# As make_family_fixtures.py has them, each with another of the things that files differ in.
FAMILIES = {
    "llama": ("Llama", dict()),
    "llama_rope_llama3": ("Llama", dict(rope=LLAMA3, **TIED)),
    "llama_bias": ("Llama", dict(attention_bias=True, mlp_bias=True, rope=FAST)),
    "mistral": ("Mistral", dict(sliding_window=SEQUENCE)),
    "qwen2": ("Qwen2", dict(rms_norm_eps=1e-6, **TIED)),
    "qwen3": ("Qwen3", dict(head_dim=16, rms_norm_eps=1e-6)),
    # Projections in one tensor; beyond the original length, so that the long list counts.
    "phi3": ("Phi3", dict(original_max_position_embeddings=16, pad_token_id=0, rope=dict(
        rope_type="longrope", rope_theta=10000.0, short_factor=[1.0, 1.1, 1.3, 2.0],
        long_factor=[1.05, 1.5, 4.0, 30.0]))),
}


def tokens(vocab):
    from generator import token_rows
    return token_rows(SEED, vocab - 1, 1, 2 * (ROWS * SEQUENCE + 1) - 1)[0]


def odd_numbers(dtype):
    """Bit patterns of finite numbers, as a tensor of the dtype."""
    import torch
    exponent, mantissa, integer = {torch.float32: (8, 23, torch.int32),
                                   torch.bfloat16: (8, 7, torch.int16),
                                   torch.float16: (5, 10, torch.int16)}[dtype]
    sign = 1 << (exponent + mantissa)
    largest = (((1 << exponent) - 1) << mantissa) - 1
    least_normal = 1 << mantissa
    bits = [0, 1, 2, least_normal - 1, least_normal, least_normal + 1, largest, largest - 1]
    bits += [b - sign for b in bits]  # negative, in two's complement
    return torch.tensor(bits, dtype=integer).view(dtype)


def build(model_class, changes, dtype):
    import torch
    import transformers
    from generator import normal
    changes = dict(changes)
    rope = changes.pop("rope", None)
    if rope is not None and transformers.__version__.startswith("4."):
        changes["rope_theta"] = rope["rope_theta"]
        if rope["rope_type"] != "default":
            changes["rope_scaling"] = {k: v for k, v in rope.items() if k != "rope_theta"}
        if rope["rope_type"] == "longrope":
            changes["rope_scaling"]["type"] = changes["rope_scaling"].pop("rope_type")
    elif rope is not None:
        changes["rope_parameters"] = rope
    config = getattr(transformers, model_class + "Config")(
        **{**SMALL, "tie_word_embeddings": False, **changes})
    model = getattr(transformers, model_class + "ForCausalLM")(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            value = normal(SEED, name, tuple(parameter.shape), STDDEV)
            parameter.copy_(torch.from_numpy(value + np.float32(1.0 if "norm" in name else 0.0)))
        model.to(dtype)
        if not config.tie_word_embeddings:
            odd = odd_numbers(dtype)
            model.get_input_embeddings().weight[-1, :odd.numel()] = odd
    return model


def write_logits(path, directory):
    """From the directory as it lies there, in fp32."""
    import torch
    import transformers
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        directory, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    assert not info["missing_keys"] and not info["mismatched_keys"], info
    model.eval()
    held_out = torch.from_numpy(tokens(model.config.vocab_size)[ROWS * SEQUENCE + 1:])
    with torch.no_grad():
        logits = model(input_ids=held_out[:-1].reshape(ROWS, SEQUENCE), use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).double(), held_out[1:])
    with open(path, "wb") as out:
        out.write(b"SWLOGITS")
        out.write(struct.pack("<3qd", ROWS, SEQUENCE, model.config.vocab_size, loss.item()))
        out.write(np.ascontiguousarray(logits.numpy(), dtype="<f4").tobytes())
    return loss.item()


def save(folder, name, model, verdict="load", edit=None, **options):
    import torch
    directory = folder / name
    shutil.rmtree(directory, ignore_errors=True)
    model.save_pretrained(directory, **options)
    if edit is not None:
        edit(directory)
    dtype = {torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16"}[model.dtype]
    (folder / f"{name}.row").write_text(f"{name} {dtype} {verdict}\n")
    if verdict == "load":
        print(f"{name}: loss {write_logits(folder / f'{name}.logits', directory):.6f}")
    else:
        print(f"{name}: to be refused")


def add_tensors(directory, make):
    """Writes model.safetensors anew with what make(tensors) adds."""
    from safetensors.torch import load_file, save_file
    path = directory / "model.safetensors"
    stored = load_file(path)
    stored.update(make(stored))
    save_file(stored, path, metadata={"format": "pt"})


def head(change):
    def make(stored):
        embedding = stored["model.embed_tokens.weight"]
        assert "lm_head.weight" not in stored
        copy = embedding.clone()
        copy[3, 5] += change
        return {"lm_head.weight": copy}
    return lambda directory: add_tensors(directory, make)


def frequencies(directory):
    """What files of older versions hold: buffers that follow from the configuration."""
    import torch
    def make(stored):
        value = 10000.0 ** (-torch.arange(0, 8, 2, dtype=torch.float32) / 8)
        return {f"model.layers.{layer}.self_attn.rotary_emb.inv_freq": value.clone()
                for layer in range(SMALL["num_hidden_layers"])}
    add_tensors(directory, make)


def tokenizer(directory):
    """Files that belong to the model and that nobody here reads: copied through."""
    words = {f"<{i}>": i for i in range(SMALL["vocab_size"])}
    text = {
        "tokenizer.json": {"version": "1.0", "truncation": None, "padding": None,
                           "added_tokens": [], "normalizer": None,
                           "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None,
                           "decoder": None,
                           "model": {"type": "WordLevel", "vocab": words, "unk_token": "<0>"}},
        "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast",
                                  "unk_token": "<0>"},
        "special_tokens_map.json": {"unk_token": "<0>"},
    }
    for name, content in text.items():
        (directory / name).write_text(json.dumps(content, indent=2) + "\n")
    (directory / "chat_template.jinja").write_text("{{ messages }}\n")


def make(folder, only):
    import torch
    import transformers
    folder.mkdir(parents=True, exist_ok=True)
    version_4 = transformers.__version__.startswith("4.")
    for name, (model_class, changes) in FAMILIES.items():
        if only and name not in only:
            continue
        save(folder, name + (".hf4" if version_4 else ""), build(model_class, changes, torch.float32))
    if version_4 or only:
        return
    np.asarray(tokens(SMALL["vocab_size"]), dtype="<u2").tofile(folder / "tokens.bin")
    save(folder, "llama_bf16", build("Llama", {}, torch.bfloat16))
    save(folder, "qwen3_fp16", build("Qwen3", FAMILIES["qwen3"][1], torch.float16))
    save(folder, "llama_sharded", build("Llama", {}, torch.float32), edit=tokenizer,
         max_shard_size="24KB")
    tied = FAMILIES["qwen2"][1]
    save(folder, "qwen2_equal_head", build("Qwen2", tied, torch.float32), edit=head(0.0))
    save(folder, "qwen2_other_head", build("Qwen2", tied, torch.float32), "refuse", edit=head(0.5))
    save(folder, "llama_inv_freq", build("Llama", {}, torch.float32), edit=frequencies)


def pack(folder, path):
    rows = sorted(row.read_text() for row in folder.glob("*.row"))
    (folder / "fixtures.txt").write_text("".join(rows))
    names = [folder / "fixtures.txt", folder / "tokens.bin"]
    for row in rows:
        name = row.split()[0]
        names += sorted((folder / name).iterdir())
        if row.split()[2] == "load":
            names.append(folder / f"{name}.logits")
    with lzma.open(path, "wb", preset=9 | lzma.PRESET_EXTREME) as out, \
            tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in names:
            entry = tarfile.TarInfo(str(name.relative_to(folder)))
            entry.size, entry.mode = name.stat().st_size, 0o644
            with open(name, "rb") as data:
                archive.addfile(entry, data)
    print(f"{path}: {len(rows)} fixtures, {path.stat().st_size} bytes")


def main():
    parser = argparse.ArgumentParser(description="makes the fixtures of checkpoints")
    parser.add_argument("--pack", action="store_true", help="write the archive of FOLDER")
    parser.add_argument("folder", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("names", nargs="*", metavar="NAME", help="families, and no more; default: all there is")
    arguments = parser.parse_args()
    if arguments.pack:
        pack(arguments.folder,
             pathlib.Path(__file__).parent / "fixtures" / "checkpoints.tar.xz")
    else:
        make(arguments.folder, arguments.names)


if __name__ == "__main__":
    main()
