#!/usr/bin/env python3
"""Loads checkpoints as a user of Hugging Face transformers does, and computes their loss.

    pip install torch 'transformers<5' numpy     # and, in another environment, >= 5
    python3 tests/oracle/check_checkpoint.py --data FILE --sequence N [--holdout F] [--count M] DIR...

Run by hand with both versions. Each DIR goes to AutoModelForCausalLM.from_pretrained without a dtype
argument. Fails when a parameter is not float32 (--dtype: of an export; version 4 loads every dtype
as float32), or when transformers misses a tensor, does not expect one, or finds one of another
shape; when config.json or a file's metadata do not say what they must for both versions. A
tokenizer that is there must load.

FILE is as a run's `data: file:`, F its `holdout`: the loss is that of `runner evaluate`, the mean
over the held-out labels (of the first M sequences), in fp32. F 0: over the whole file. One line a
folder on stdout, tab-separated: DIR, version, class, tensors, dtype, labels, loss.
"""
import argparse
import json
import os
import pathlib
import struct
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch
import transformers


def read_tokens(path, vocab):
    """As sw_dataset_open has them (runner/train/dataset.h)."""
    data = path.read_bytes()
    if path.suffix != ".bin":
        return np.frombuffer(data, np.uint8).astype(np.int64)
    width = "<u2" if vocab <= 65536 else "<u4"
    if len(data) >= 1024 and struct.unpack("<i", data[:4])[0] == 20240520:
        version, count = struct.unpack("<2i", data[4:12])
        width = {1: "<u2", 7: "<u4"}[version]
        data = data[1024:1024 + count * np.dtype(width).itemsize]
    return np.frombuffer(data, width).astype(np.int64)


def held_out(tokens, holdout):
    return tokens[len(tokens) - int(len(tokens) * holdout):] if holdout > 0 else tokens


def mean_loss(model, tokens, sequence, count):
    """Over windows of `sequence` labels one behind the other; the last may be shorter."""
    total, labels = 0.0, 0
    starts = range(0, len(tokens) - 1, sequence)
    for start in starts[:count]:
        window = torch.from_numpy(tokens[start:start + sequence + 1])
        with torch.no_grad():
            logits = model(input_ids=window[None, :-1], use_cache=False).logits[0].double()
        total += torch.nn.functional.cross_entropy(logits, window[1:], reduction="sum").item()
        labels += len(window) - 1
    return total / labels, labels


def metadata(path):
    with open(path, "rb") as file:
        length, = struct.unpack("<Q", file.read(8))
        return json.loads(file.read(length)).get("__metadata__")


def complaints(directory, model, info, dtype, foreign):
    """What is wrong with it."""
    loaded = dtype if transformers.__version__ >= "5" else "float32"
    dtypes = {str(parameter.dtype).split(".")[1] for parameter in model.parameters()}
    if dtypes != {loaded}:
        yield f"parameters are {', '.join(sorted(dtypes))}"
    for name, parameter in model.named_parameters():
        if not torch.isfinite(parameter).all():
            yield f"{name} is not finite"
    for what, keys in info.items():
        if keys:
            yield f"{what}: {keys}"
    config = json.loads((directory / "config.json").read_text())
    if config.get("dtype") != dtype:
        yield f"config.json has dtype {config.get('dtype')}"
    # Version 4 knows dtype since 4.56 only, and passes over rope_parameters without a word.
    if not foreign and config.get("torch_dtype") != dtype:
        yield f"config.json has torch_dtype {config.get('torch_dtype')}"
    if not foreign and "rope_theta" not in config:
        yield "config.json has no rope_theta"
    for path in sorted(directory.glob("*.safetensors")):
        if (metadata(path) or {}).get("format") != "pt":
            yield f"{path.name} has metadata {metadata(path)}"


def check(directory, arguments):
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        directory, output_loading_info=True)
    wrong = list(complaints(directory, model, info, arguments.dtype, arguments.foreign))
    if (directory / "tokenizer.json").exists():
        transformers.AutoTokenizer.from_pretrained(directory)
    dtypes = "/".join(sorted({str(p.dtype).split(".")[1] for p in model.parameters()}))
    tokens = held_out(read_tokens(arguments.data, model.config.vocab_size), arguments.holdout)
    loss, labels = mean_loss(model.float().eval(), tokens, arguments.sequence, arguments.count)
    print(directory, f"transformers {transformers.__version__}", type(model).__name__,
          len(model.state_dict()), dtypes, labels, f"{loss:.9f}", sep="\t", flush=True)
    return wrong


def main():
    parser = argparse.ArgumentParser(description="loads checkpoints with transformers")
    parser.add_argument("--data", type=pathlib.Path, required=True, metavar="FILE")
    parser.add_argument("--sequence", type=int, required=True, metavar="N")
    parser.add_argument("--holdout", type=float, default=0.0, metavar="F")
    parser.add_argument("--count", type=int, metavar="M", help="sequences; all without it")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16", "float16"])
    parser.add_argument("--foreign", action="store_true",
                        help="not of ours: config.json need not be for both versions")
    parser.add_argument("folders", type=pathlib.Path, nargs="+", metavar="DIR")
    arguments = parser.parse_args()
    transformers.utils.logging.disable_progress_bar()
    failed = 0
    for directory in arguments.folders:
        try:
            wrong = check(directory, arguments)
        except Exception as error:  # the next folder is still worth a look
            wrong = [f"{type(error).__name__}: {error}"]
        for line in wrong:
            print(f"{directory}: {line}", file=sys.stderr)
        failed += bool(wrong)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
