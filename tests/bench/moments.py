#!/usr/bin/env python3
"""What moments in bf16 and in 8 bits cost in accuracy, and save in memory: a small model trained on
a text with each, on one rank.

  moments.py BUILD TEXT [STEPS]          from the root of the tree; the standard library alone

error of updates: of the moments that the fp32 run saved last, stored as the others store them, the
mean of |u' - u| / |u| over all numbers of matrices, u = m / (sqrt(v) + eps) with bias correction.
"""
import bisect
import glob
import json
import math
import os
import struct
import subprocess
import sys
import tempfile

build, text = (os.path.realpath(path) for path in sys.argv[1:3])
steps = int(sys.argv[3]) if len(sys.argv) > 3 else 200
BETAS, EPS, BLOCK = (0.9, 0.95), 1e-8, 16  # of rows of 64 and 192 (core/base/blockwise.h)
RUN = """name: run
model: {{vocab_size: 256, hidden_size: 64, intermediate_size: 192, num_hidden_layers: 2,
  num_attention_heads: 4, num_key_value_heads: 4, tie_word_embeddings: false}}
cluster: {{name: here, nodes: 1, accelerators_per_node: 1, launcher: mpirun,
  accelerator: {accelerator}, links: [{{name: l, spans: 1, bandwidth: 1 GB/s, latency: 1 us}}]}}
sequence_length: 64
global_batch_size: 8
mesh_dim: '1,1,1,1'
precision: {{compute: fp32, params: fp32, reduce: fp32}}
optimizer: {{learning_rate: 3.0e-3, betas: [0.9, 0.95], warmup_steps: 20, total_steps: {steps},
  min_learning_rate: 3.0e-4, moments: {moments}}}
data: {{path: {text}, seed: 1}}
directory: {folder}/out
"""


def train(folder, moments):
    os.makedirs(folder)
    with open(f"{folder}/run.yaml", "w") as out:
        out.write(RUN.format(accelerator=os.path.realpath("configs/accelerators/cpu-core.yaml"),
                             steps=steps, moments=moments, text=text, folder=folder))
    found = subprocess.run([f"{build}/plan", "search", f"{folder}/run.yaml", "--json"], check=True,
                           capture_output=True, text=True)
    subprocess.run([f"{build}/plan", "emit", f"{folder}/run.yaml", "-o", folder], check=True,
                   capture_output=True)
    subprocess.run([f"{build}/runner", "train", f"{folder}/run.plan.yaml", "--quiet"], check=True,
                   env=dict(os.environ, OMP_NUM_THREADS="1"))
    with open(f"{folder}/out/metrics.jsonl") as file:
        losses = [line["loss"] for line in map(json.loads, file) if "loss" in line]
    return json.loads(found.stdout)["chosen"]["memory"]["optimizer"], sum(losses[-20:]) / 20


def tensors(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    for name, info in header.items():
        if name != "__metadata__" and len(info["shape"]) == 2:
            begin, end = info["data_offsets"]
            yield name, info["shape"], struct.unpack(f"<{(end - begin) // 4}f", data[begin:end])


def rows_of(name, shape, numbers):
    """Rows as blocks lie in them: of projections that files turn, their columns."""
    if any(f".{w}_proj" in name for w in ("q", "k", "v", "gate", "up")):
        return [numbers[c::shape[1]] for c in range(shape[1])]
    return [numbers[r * shape[1]:(r + 1) * shape[1]] for r in range(shape[0])]


def table(signed):
    entries, parts, decade = [0.0, 1.0], 64 if signed else 128, 1.0
    for _ in range(7):
        for i in range(parts):
            middle = decade * (0.1 + 0.9 * (i + 0.5) / parts)
            entries += [middle, -middle] if signed else [middle]
        parts, decade = parts // 2, decade / 10
    return sorted(entries)


def in_codes(row, signed, entries, middles):
    out = []
    for at in range(0, len(row), BLOCK):
        most = max(map(abs, row[at:at + BLOCK]))
        for x in row[at:at + BLOCK]:
            code = bisect.bisect_left(middles, x / most) if most > 0 else 0
            out.append(entries[max(code, 0 if signed or x == 0 else 1)] * most)
    return out


def in_bf16(row):
    bits = (struct.unpack("<I", struct.pack("<f", x))[0] for x in row)
    return [struct.unpack("<f", struct.pack("<I", (b + 0x7FFF + (b >> 16 & 1)) & 0xFFFF0000))[0]
            for b in bits]


def error_of_updates(folder, how):
    tables = []
    for signed in (True, False):
        entries = table(signed)
        tables.append((entries, [(a + b) / 2 for a, b in zip(entries, entries[1:])]))
    at = f"{folder}/out/checkpoints/latest/optimizer"
    pairs = zip(*(tensors(glob.glob(f"{at}/{kind}-*")[0]) for kind in ("exp_avg", "exp_avg_sq")))
    total = count = 0
    bias = [1 - beta ** steps for beta in BETAS]
    for (name, shape, m), (_, _, v) in pairs:
        for one, two in zip(rows_of(name, shape, m), rows_of(name, shape, v)):
            if how == "bf16":
                kept = in_bf16(one), in_bf16(two)
            else:
                kept = in_codes(one, True, *tables[0]), in_codes(two, False, *tables[1])
            for a, b, c, d in zip(one, two, *kept):
                u = a / bias[0] / (math.sqrt(b / bias[1]) + EPS)
                if u != 0:
                    total += abs(c / bias[0] / (math.sqrt(d / bias[1]) + EPS) - u) / abs(u)
                    count += 1
    return total / count


with tempfile.TemporaryDirectory() as scratch:
    print(f"{'moments':8} {'planned bytes':>14} {'loss, last 20 of ' + str(steps):>24} "
          f"{'of fp32':>8} {'error of updates':>17}")
    first = None
    for kind in ("fp32", "bf16", "int8"):
        planned, loss = train(f"{scratch}/{kind}", kind)
        first = first or loss
        error = "" if kind == "fp32" else f"{error_of_updates(f'{scratch}/fp32', kind):.4f}"
        print(f"{kind:8} {planned:14} {loss:24.5f} {loss / first:8.5f} {error:>17}")
