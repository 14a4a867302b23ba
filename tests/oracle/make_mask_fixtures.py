#!/usr/bin/env python3
"""Makes tests/oracle/fixtures/masks.bin: attention with masks, softcaps and sinks, by NumPy in float64.

    pip install numpy
    python3 tests/oracle/make_mask_fixtures.py

Nothing here shares code with the C program. Inputs are not in the file: element i of an operand is
2 (2 u - 1), u = (x >> 33) / 2^31 of x <- 6364136223846793005 x + 1442695040888963407 mod 2^64, from
x = 1000 case + operand (q 1, k 2, v 3, dO 4), and sinks are told.

File format, little endian: 8 bytes "SWMASKS1"; int32 number of cases; of each:

    int32[8]  batch, length, heads, kv heads, head_dim, window (0: none), documents (0, 1), sinks (0, 1)
    float64   softcap (0: none)
    int32[]   with documents [batch, length]
    float32[] with sinks [heads]
    float32[] every STEP-th element of o [batch, length, heads, head_dim], lse [batch, length, heads],
              dq, dk, dv; with sinks dsink [heads], whole, and the sum of sizes of what it adds up
"""
import pathlib
import struct

import numpy as np

STEP, SCALE_OF_INPUTS = 17, 2.0


def attention(q, k, v, do, window, segments, softcap, sink):
    """q, do [b, s, h, d]; k, v [b, s, g, d]; segments [b, s]; sink [h], -inf: none."""
    b, s, h, d = q.shape
    group = h // k.shape[2]
    kh, vh = (np.repeat(x, group, axis=2) for x in (k, v))
    raw = np.einsum("bqhd,bkhd->bhqk", q, kh) / np.sqrt(d)
    tanh = np.tanh(raw / softcap) if softcap else np.zeros_like(raw)
    score = softcap * tanh if softcap else raw
    distance = np.arange(s)[:, None] - np.arange(s)[None, :]
    seen = (distance >= 0) & (distance < (window or s))
    seen = seen[None, None] & (segments[:, None, :, None] == segments[:, None, None, :])
    score = np.where(seen, score, -np.inf)
    sink = np.broadcast_to(sink[None, :, None], (b, h, s))
    most = np.maximum(score.max(-1), sink)
    lse = most + np.log(np.exp(score - most[..., None]).sum(-1) + np.exp(sink - most))
    p = np.exp(score - lse[..., None])
    o = np.einsum("bhqk,bkhd->bqhd", p, vh)
    dp = np.einsum("bqhd,bkhd->bhqk", do, vh)
    delta = np.einsum("bqhd,bqhd->bhq", o, do)
    ds = p * (dp - delta[..., None]) * (1 - tanh**2) / np.sqrt(d)
    share = lambda x: x.reshape(b, s, -1, group, d).sum(3)  # noqa: E731
    return (o, lse.transpose(0, 2, 1), np.einsum("bhqk,bkhd->bqhd", ds, kh),
            share(np.einsum("bhqk,bqhd->bkhd", ds, q)), share(np.einsum("bhqk,bqhd->bkhd", p, do)),
            -(np.exp(sink - lse) * delta).sum((0, 2)), abs(np.exp(sink - lse) * delta).sum((0, 2)))


def numbers(seed, *shape):
    x, out = seed, np.empty(int(np.prod(shape)))
    for i in range(out.size):
        x = (6364136223846793005 * x + 1442695040888963407) % 2**64
        out[i] = 2 * (x >> 33) / 2**31 - 1
    return (SCALE_OF_INPUTS * out).reshape(shape)


def draw_documents(draw, batch, length):
    segments = np.zeros((batch, length), np.int32)
    for row in segments:
        at, number = 0, 0
        while at < length:
            step = int(draw.choice([1, 1, 3, 10, 64, 65, 200]))
            number = (number + 37) % 257
            row[at:at + step] = number
            at += step
    return segments


def main():
    draw = np.random.default_rng(45)
    out = [b"SWMASKS1", struct.pack("<i", 24)]
    for case in range(24):
        b, s = int(draw.integers(1, 3)), int(draw.choice([1, 13, 64, 65, 130, 200]))
        g = int(draw.choice([1, 2]))
        h, d = g * int(draw.choice([1, 2])), int(draw.choice([2, 8, 16, 20]))
        window = int(draw.choice([0, 1, 2, 17, 63, 64, 65, 100, 300]))
        softcap = float(draw.choice([0, 0, 0.7, 3]))
        documents, sinks = int(draw.integers(2)), int(draw.integers(2))
        q, k, v, do = (numbers(1000 * case + i + 1, b, s, n, d) for i, n in enumerate([h, g, g, h]))
        segments = draw_documents(draw, b, s) if documents else np.zeros((b, s), np.int32)
        sink = draw.uniform(-4, 4, h).astype(np.float32)
        made = attention(q, k, v, do, window, segments, softcap,
                         sink.astype(np.float64) if sinks else np.full(h, -np.inf))
        out.append(struct.pack("<8id", b, s, h, g, d, window, documents, sinks, softcap))
        out += [segments.astype("<i4").tobytes()] * documents + [sink.astype("<f4").tobytes()] * sinks
        out += [x.reshape(-1)[::STEP].astype("<f4").tobytes() for x in made[:5]]
        out += [x.astype("<f4").tobytes() for x in made[5:]] * sinks
    path = pathlib.Path(__file__).parent / "fixtures" / "masks.bin"
    path.write_bytes(b"".join(out))
    print(path, path.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
