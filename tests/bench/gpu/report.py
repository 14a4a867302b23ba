#!/usr/bin/env python3
"""Small helpers of gpu.sh. report.py COMMAND ...

tokens FILE VOCAB COUNT         random tokens as the runner reads them (plain, little-endian)
model FOLDER HIDDEN INTERMEDIATE LAYERS HEADS KV_HEADS HEAD_DIM VOCAB TIED(true|false)
                                a Llama of random bf16 weights, for times, not for texts
losses A.jsonl B.jsonl TOL      exit code 1 when two runs' losses differ by more than TOL
step METRICS [SKIP]             "SECONDS MFU PREDICTED ARENA_BYTES PREDICTED_MEMORY", median step
flops METRICS PEAK              model flops of a step, as the runner counts them
row METRICS USED_MIB            a line of the table of `bench`
gap UNTRACED TRACED REPORT N    launch gaps: busy time of a traced step against an untraced one
peer METRICS PEER.json PEAK     a line of the table of `torch`
errors NAME METRICS PREDICTED.. a line of the table of `calibrate`
"""
import array
import json
import math
import os
import random
import statistics
import struct
import sys


def rows(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def steps(path):
    return [row for row in rows(path) if "step_seconds" in row]


def median_step(path, skip=3):
    """Steps after the first ones: the first chooses kernels, the second records."""
    seen = steps(path)[skip:]
    if not seen:
        sys.exit(f"report: {path} has too few steps")
    return statistics.median(row["step_seconds"] for row in seen)


def median_mfu(path, skip=3):
    return statistics.median(row["mfu"] for row in steps(path)[skip:])


def header(path):
    return next(row for row in rows(path) if "schema" in row)


def tokens(path, vocab, count):
    """Uniform, so that no two tokens of the embedding's gradient meet more often than in text."""
    vocab, count = int(vocab), int(count)
    random.seed(1)
    values = array.array("H" if vocab <= 65536 else "I", random.choices(range(vocab), k=count))
    with open(path, "wb") as file:
        values.tofile(file)


def model(folder, *sizes):
    """Weights repeat every 64 Ki: gigabytes are written as fast as the disk takes them."""
    hidden, inner, layers, heads, kv_heads, dim, vocab = (int(word) for word in sizes[:7])
    tied = sizes[7] == "true"
    random.seed(2)
    some = struct.pack("<65536H", *(0x3C00 | random.getrandbits(8) | random.getrandbits(1) << 15
                                    for _ in range(65536)))  # of about 1 / 100, of both signs
    ones = struct.pack("<H", 0x3F80)
    shapes = {"model.embed_tokens.weight": [vocab, hidden], "model.norm.weight": [hidden]}
    if not tied:
        shapes["lm_head.weight"] = [vocab, hidden]
    for i in range(layers):
        for part, shape in {"self_attn.q_proj": [heads * dim, hidden], "self_attn.k_proj": [kv_heads * dim, hidden],
                            "self_attn.v_proj": [kv_heads * dim, hidden], "self_attn.o_proj": [hidden, heads * dim],
                            "mlp.gate_proj": [inner, hidden], "mlp.up_proj": [inner, hidden],
                            "mlp.down_proj": [hidden, inner], "input_layernorm": [hidden],
                            "post_attention_layernorm": [hidden]}.items():
            shapes[f"model.layers.{i}.{part}.weight"] = shape
    head, at = {}, 0
    for name, shape in shapes.items():
        size = 2 * math.prod(shape)
        head[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/config.json", "w", encoding="utf-8") as file:
        json.dump({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden,
                   "intermediate_size": inner, "num_hidden_layers": layers, "num_attention_heads": heads,
                   "num_key_value_heads": kv_heads, "head_dim": dim, "vocab_size": vocab, "rms_norm_eps": 1e-5,
                   "rope_theta": 500000.0, "tie_word_embeddings": tied, "torch_dtype": "bfloat16"}, file)
    with open(f"{folder}/tokenizer.json", "w", encoding="utf-8") as file:  # each token is seen
        json.dump({"version": "1.0", "added_tokens": [], "normalizer": None, "post_processor": None,
                   "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
                   "decoder": {"type": "ByteLevel"},
                   "model": {"type": "BPE", "vocab": {f"t{i}": i for i in range(vocab)}, "merges": []}}, file)
    with open(f"{folder}/model.safetensors", "wb") as file:
        text = json.dumps(head).encode()
        text += b" " * (-len(text) % 8)
        file.write(struct.pack("<Q", len(text)) + text)
        for shape in shapes.values():
            size = 2 * math.prod(shape)
            if len(shape) == 1:
                file.write(ones * shape[0])
                continue
            for done in range(0, size, len(some)):
                file.write(some[:size - done])


def losses(a, b, tolerance):
    first, second = steps(a), steps(b)
    if len(first) != len(second) or not first:
        sys.exit(f"report: {len(first)} and {len(second)} steps")
    worst = max(abs(x["loss"] / y["loss"] - 1) for x, y in zip(first, second))
    print(f"{len(first)} steps, worst difference {worst:.2g}, allowed {tolerance}")
    sys.exit(not worst <= float(tolerance))


def step(path, skip="3"):
    top = header(path)
    print(f"{median_step(path, int(skip)):.6f} {median_mfu(path, int(skip)):.4f} "
          f"{top['predicted_step_seconds']} {top['arena_bytes']} {top['predicted_memory']}")


def model_flops(path, peak):
    return median_mfu(path) * float(peak) * median_step(path)


def flops(path, peak):
    print(f"{model_flops(path, peak):.6g}")


def row(path, used_mib):
    seconds, top = median_step(path), header(path)
    planned = top["predicted_memory"] / 2**20
    used = float(used_mib)
    print(f"| {top['run']} | {seconds * 1e3:.1f} | {steps(path)[-1]['tokens'] / seconds:.0f} | "
          f"{100 * median_mfu(path):.1f} % | {top['predicted_step_seconds'] * 1e3:.1f} | "
          f"{100 * (top['predicted_step_seconds'] / seconds - 1):+.1f} % | "
          f"{planned:.0f} | {used:.0f} | {100 * (planned / used - 1):+.1f} % |")


def gap(untraced, traced, report, count):
    words = open(report, encoding="utf-8").readline().split()
    values = dict(zip(words[::2], words[1::2]))
    if "busy_s" not in values:
        sys.exit("report: no GPU activity was seen")
    busy, plain = float(values["busy_s"]) / int(count), median_step(untraced)
    print(f"step {plain * 1e3:.2f} ms untraced, {median_step(traced) * 1e3:.2f} ms traced; busy "
          f"{busy * 1e3:.2f} ms of a step: gaps {100 * (1 - busy / plain):.2f} % of the untraced "
          f"step, {100 * (1 - float(values['busy_share'])):.2f} % of the traced window")


def peer(path, other, peak):
    ours, theirs = median_step(path), json.load(open(other, encoding="utf-8"))
    work = model_flops(path, peak)
    print(f"| {header(path)['run']} | {ours * 1e3:.1f} | {100 * work / ours / float(peak):.1f} % | "
          f"{theirs['step_seconds'] * 1e3:.1f} | "
          f"{100 * work / theirs['step_seconds'] / float(peak):.1f} % | "
          f"{theirs['step_seconds'] / ours:.2f} | {theirs['how']} |")


def errors(name, path, *predicted):
    seconds = median_step(path)
    cells = "".join(f" {float(p) * 1e3:.1f} ({100 * (float(p) / seconds - 1):+.1f} %) |"
                    for p in predicted)
    print(f"| {name} | {seconds * 1e3:.1f} |{cells}")


COMMANDS = {f.__name__: f for f in (tokens, model, losses, step, flops, row, gap, peer, errors)}

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        sys.exit(__doc__)
    COMMANDS[sys.argv[1]](*sys.argv[2:])
