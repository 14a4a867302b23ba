#!/usr/bin/env python3
"""Makes the fixtures of packed chats: losses, gradient norms and gradients by Hugging Face transformers, in fp64.

    pip install torch transformers numpy
    python3 tests/oracle/make_packed_fixtures.py     # rewrites tests/oracle/fixtures/packed_*

Twenty AdamW steps are made by hand: every document of a batch goes through the model alone, from position 0 on; its
labels are its own next tokens, of which those in its answers count; the loss is the sum over all labels that count in
the global batch by their number. Which documents a batch has follows from the packing that runner/train/packing.h
tells, written here once more.

A fixture is NAME.json, the config.json as transformers writes it, and NAME.bin, little endian:

    8 bytes     "SWPACKED"
    int64[9]    sequence, batch, steps, seed of the parameters, seed of the data, documents of a block,
                documents, tokens, tensors
    float64[6]  stddev of the parameters, learning rate, beta1, beta2, weight decay, gradient clip
    int64[]     where each document ends [documents]
    int32[]     tokens [tokens]
    uint8[]     1 of tokens that count as labels [tokens]
    of each step: int64 labels that count; float64 loss, gradient norm
    each tensor as in make_family_fixtures.py: gradients of step 1
"""
import pathlib
import struct

import numpy as np
import torch
from transformers import LlamaConfig, MistralConfig

from generator import MASK
from make_family_fixtures import build, in_fp64

SEQUENCE, BATCH, STEPS, DOCUMENTS, BLOCK, STDDEV = 48, 4, 20, 70, 20, 0.2
RATE, BETA1, BETA2, EPS, DECAY, CLIP = 2e-3, 0.9, 0.95, 1e-6, 0.1, 1.0
FAMILIES = {
    "packed_llama": (41, LlamaConfig, dict(head_dim=8, rope_theta=100.0, rope_parameters=dict(
        rope_type="yarn", rope_theta=100.0, factor=4.0, original_max_position_embeddings=16))),
    "packed_mistral": (42, MistralConfig, dict(sliding_window=9)),
}


def mix(x):
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK
    return x ^ x >> 31


def permute(key, count, i):
    """Four Feistel rounds over the next even number of bits, again until inside."""
    half = 1
    while half < 31 and 1 << 2 * half < count:
        half += 1
    mask = (1 << half) - 1
    while True:
        left, right = i >> half, i & mask
        for turn in range(4):
            left, right = right, left ^ mix((key + turn * 0x9E3779B97F4A7C15 + right) & MASK) & mask
        i = left << half | right
        if i < count:
            return i


def epoch_rows(seed, epoch, lengths):
    """Documents of each row of an epoch, in the order of the rows."""
    key, out = mix((seed * 0x9E3779B97F4A7C15 + epoch + 1) & MASK), []
    for number, first in enumerate(range(0, len(lengths), BLOCK)):
        rows = []
        for i in range(first, min(first + BLOCK, len(lengths))):
            document = permute(key, len(lengths), i)
            length = min(lengths[document], SEQUENCE)
            row = next((r for r in rows if sum(min(lengths[d], SEQUENCE) for d in r) + length <= SEQUENCE), None)
            if row is None:
                rows.append(row := [])
            row.append(document)
        out += [rows[permute((key + number + 1) & MASK, len(rows), r)] for r in range(len(rows))]
    return out


def draw_chats(draw, vocab):
    """Tokens of each document, and which of them count: answers between questions; some have none."""
    chats = []
    for i in range(DOCUMENTS):
        tokens, counts = [], []
        for _ in range(int(draw.integers(1, 4))):
            question, answer = int(draw.integers(1, 12)), int(draw.integers(0, 10))
            counts += [0] * question + [1] * answer
        if i == 7:
            counts = [0] + [1] * (SEQUENCE + 10)  # longer than a row
        if i == 8:
            counts = [0]
        tokens = draw.integers(0, vocab, len(counts))
        chats.append((tokens.astype(np.int64), np.array(counts, dtype=np.uint8)))
    return chats


def step_loss(model, batch, chats):
    """The sum over labels that count by their number, and the number."""
    total, counted = 0.0, 0
    for row in batch:
        for document in row:
            tokens, counts = (x[:SEQUENCE] for x in chats[document])
            wanted = torch.from_numpy(np.where(counts[1:] == 1, tokens[1:], -100))
            counted += int((wanted >= 0).sum())
            ids = torch.from_numpy(tokens)[None]
            mask = None
            if getattr(model.config, "sliding_window", None):
                distance = torch.arange(len(tokens))[:, None] - torch.arange(len(tokens))[None]
                seen = (distance >= 0) & (distance < model.config.sliding_window)
                hidden = torch.full(seen.shape, -1e300, dtype=torch.float64)
                mask = hidden.masked_fill(seen, 0.0)[None, None]
            logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits[0, :-1]
            if len(wanted) > 0:
                total = total + torch.nn.functional.cross_entropy(logits, wanted, ignore_index=-100, reduction="sum")
    return total / counted, counted


def make(folder, name, seed, config_class, changes):
    config, model, known = build(seed, config_class, changes)
    config._attn_implementation = "eager"
    model.train()
    draw = np.random.default_rng(seed)
    chats = draw_chats(draw, config.vocab_size)
    lengths = [len(tokens) for tokens, _ in chats]
    rows, epoch = [], 0
    while len(rows) < STEPS * BATCH:
        rows += epoch_rows(seed, epoch, lengths)
        epoch += 1
    parameters = dict(model.named_parameters())
    moments = {k: (torch.zeros_like(p), torch.zeros_like(p)) for k, p in parameters.items()}
    steps, stacks = [], {}
    for step in range(1, STEPS + 1):
        model.zero_grad()
        loss, counted = step_loss(model, rows[(step - 1) * BATCH:step * BATCH], chats)
        loss.backward()
        norm = torch.sqrt(sum((p.grad**2).sum() for p in parameters.values())).item()
        steps.append((counted, loss.item(), norm))
        if step == 1:
            for theirs, (ours, _, transposed) in known.items():
                gradient = parameters[theirs].grad
                stacks.setdefault(ours, []).append((gradient.T if transposed else gradient).numpy().copy())
        with torch.no_grad():
            for key, p in parameters.items():
                gradient, (mean, square) = p.grad * min(1.0, CLIP / norm), moments[key]
                mean.mul_(BETA1).add_(gradient, alpha=1 - BETA1)
                square.mul_(BETA2).addcmul_(gradient, gradient, value=1 - BETA2)
                p.mul_(1 - RATE * DECAY if p.dim() > 1 else 1)
                p.sub_(RATE * (mean / (1 - BETA1**step)) / (torch.sqrt(square / (1 - BETA2**step)) + EPS))
    tensors = {f"grad {t}": np.stack(g) for t, g in sorted(stacks.items())}
    (folder / f"{name}.json").write_text(config.to_json_string())
    with open(folder / f"{name}.bin", "wb") as out:
        out.write(b"SWPACKED")
        out.write(struct.pack("<9q", SEQUENCE, BATCH, STEPS, seed, seed, BLOCK, DOCUMENTS, sum(lengths), len(tensors)))
        out.write(struct.pack("<6d", STDDEV, RATE, BETA1, BETA2, DECAY, CLIP))
        out.write(np.cumsum(lengths).astype("<i8").tobytes())
        out.write(np.concatenate([t for t, _ in chats]).astype("<i4").tobytes())
        out.write(np.concatenate([c for _, c in chats]).tobytes())
        for one in steps:
            out.write(struct.pack("<q2d", *one))
        for tensor, value in tensors.items():
            out.write(struct.pack("<40sq", tensor.encode(), value.size))
            out.write(np.ascontiguousarray(value, dtype="<f4").tobytes())
    print(f"{name}: {len(rows)} rows in {epoch} epochs, labels {[s[0] for s in steps]}, loss {steps[0][1]:.6f} "
          f"to {steps[-1][1]:.6f}, norm {steps[0][2]:.6f}")


def main():
    folder = pathlib.Path(__file__).parent / "fixtures"
    with in_fp64():
        for name, (seed, config_class, changes) in FAMILIES.items():
            make(folder, name, seed, config_class, changes)


if __name__ == "__main__":
    main()
