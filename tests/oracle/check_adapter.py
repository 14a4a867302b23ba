#!/usr/bin/env python3
"""Loads our checkpoints of adapters as a user of PEFT does, and computes their loss.

    pip install torch transformers peft numpy
    python3 tests/oracle/check_adapter.py --data FILE --sequence N [--holdout F] [--base DIR] DIR...

Run by hand, on what test_adapter_folders.py leaves in its scratch folder. Each DIR goes to
PeftModel.from_pretrained, on the model that its adapter_config.json names (--base: on another), and,
where it names one, to AutoModelForCausalLM.from_pretrained. Fails when a tensor is missing, one is
not expected, a number is not that of the file, or the loss is not, to 1e-5, what the run's
metrics.jsonl says of that step. One line a folder: DIR, versions, tensors, labels, loss.
"""
import argparse
import json
import math
import pathlib
import sys

import peft
import safetensors.torch
import torch
import transformers

from check_checkpoint import held_out, mean_loss, read_tokens


def said(directory):
    """The held-out loss of the run that wrote it, at its end; None: there is none."""
    path = directory.resolve().parent.parent / "metrics.jsonl"
    step = int(directory.resolve().name.removeprefix("step-"))
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return next((line["held_out_bits_per_token"] * math.log(2) for line in reversed(lines)
                 if "held_out_bits_per_token" in line and line.get("step", step) == step), None)


def check(directory, arguments):
    config = json.loads((directory / "adapter_config.json").read_text())
    base = arguments.base or config["base_model_name_or_path"]
    plain = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    model = peft.PeftModel.from_pretrained(plain, directory)
    stored = safetensors.torch.load_file(directory / "adapter_model.safetensors")
    held = peft.get_peft_model_state_dict(model)
    if held.keys() != stored.keys():
        yield f"tensors {sorted(held.keys() ^ stored.keys())}"
    for name in held.keys() & stored.keys():
        if not torch.equal(held[name].float(), stored[name].float()):
            yield f"{name} is another"
    tokens = held_out(read_tokens(arguments.data, model.config.vocab_size), arguments.holdout)
    loss, labels = mean_loss(model.eval(), tokens, arguments.sequence, None)
    ours = said(directory)
    if ours is not None and abs(ours - loss) > 1e-5 * abs(loss):
        yield f"the run's loss is {ours:.9f}"
    if arguments.base is None:
        whole = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
        other, _ = mean_loss(whole.eval(), tokens, arguments.sequence, None)
        if abs(other - loss) > 1e-6 * abs(loss):
            yield f"transformers has loss {other:.9f}"
    print(directory, f"peft {peft.__version__}", f"transformers {transformers.__version__}", len(stored),
          labels, f"{loss:.9f}", "no line of the run" if ours is None else f"{ours:.9f}", sep="\t",
          flush=True)


def main():
    parser = argparse.ArgumentParser(description="loads checkpoints of adapters with PEFT")
    parser.add_argument("--data", type=pathlib.Path, required=True, metavar="FILE")
    parser.add_argument("--sequence", type=int, required=True, metavar="N")
    parser.add_argument("--holdout", type=float, default=0.0, metavar="F")
    parser.add_argument("--base", type=pathlib.Path, metavar="DIR")
    parser.add_argument("folders", type=pathlib.Path, nargs="+", metavar="DIR")
    arguments = parser.parse_args()
    transformers.utils.logging.disable_progress_bar()
    failed = 0
    for directory in arguments.folders:
        try:
            wrong = list(check(directory, arguments))
        except Exception as error:  # the next folder is still worth a look
            wrong = [f"{type(error).__name__}: {error}"]
        for line in wrong:
            print(f"{directory}: {line}", file=sys.stderr)
        failed += bool(wrong)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
