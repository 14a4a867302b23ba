#!/usr/bin/env python3
"""Makes the oracle fixtures: loss, gradients and logits of two small Llamas, by JAX in float64.

    pip install jax numpy
    python3 tests/oracle/make_fixtures.py            # rewrites tests/oracle/fixtures/*.bin

Nothing here shares code with the C program. The model is written with jax.numpy from its definition
(Touvron et al. 2023: RMSNorm, rotary positions in Hugging Face's half-split layout, grouped-query
attention, SwiGLU) and differentiated by jax.grad; only these conventions are taken over, so that
fixtures need not hold inputs:

* parameters: the counter-based generator of runner/rank/init.h, reimplemented in generator.py with
  numpy and rounded to float32. Norm weights are 1 there; here they are 1 + that generator's value, so that a
  forgotten weight shows. tests/support/harness.h does the same.
* training: "losses" are the mean losses of STEPS steps of AdamW (Loshchilov & Hutter 2019; decay only on
  matrices, the gradient scaled by min(1, CLIP / norm) first) with the constants below; step s reads sequences
  (s - 1) batch onwards of the same stream, with the same labels left out.
* tokens: x <- 6364136223846793005 x + 1442695040888963407 mod 2^64 (Knuth's MMIX), starting at
  x = seed; token = (x >> 33) mod vocab. Row by row, sequence + 1 tokens each: inputs are the first
  `sequence` of a row, labels the last. Where `ignored` is k > 0, the label of every k-th token
  (flat index i with i mod k = k - 1) is -1: no loss, not counted in the mean either.

File format, little endian:

    8 bytes   "SWORACLE"
    int64[12] vocab, hidden, intermediate, layers, heads, kv_heads, head_dim, tied, sequence, batch,
              seed, ignored
    float64[5] rope_theta, rms_norm_eps, stddev, loss, gradient norm
    int64     number of tensors, then each:
        char[40]  name, zero-padded ("grad wq", "logits", "losses")
        int64     number of dimensions
        int64[4]  sizes, 1 beyond the last
        float32[] row-major elements; layer weights are stacks, the layer is the first dimension
"""
import pathlib
import struct

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp  # noqa: E402

from generator import normal, token_rows  # noqa: E402

STEPS, LEARNING_RATE, BETA1, BETA2, EPS, WEIGHT_DECAY, CLIP = 8, 1e-2, 0.9, 0.95, 1e-8, 0.1, 1.0
MODELS = {
    "untied_gqa": dict(vocab=64, hidden=32, intermediate=48, layers=3, heads=4, kv_heads=2, head_dim=8,
                       tied=0, sequence=32, batch=2, seed=7, ignored=0,
                       rope_theta=10000.0, rms_norm_eps=1e-5, stddev=0.15),
    "tied_mha": dict(vocab=48, hidden=32, intermediate=64, layers=2, heads=4, kv_heads=4, head_dim=8,
                     tied=1, sequence=32, batch=2, seed=11, ignored=5,
                     rope_theta=500000.0, rms_norm_eps=1e-6, stddev=0.2),
}


def parameters(m):
    e, f, q, kv = m["hidden"], m["intermediate"], m["heads"] * m["head_dim"], m["kv_heads"] * m["head_dim"]
    layer = {"attention_norm": (e,), "wq": (e, q), "wk": (e, kv), "wv": (e, kv), "wo": (e, q),
             "mlp_norm": (e,), "w_gate": (e, f), "w_up": (e, f), "w_down": (e, f)}
    single = {"embedding": (m["vocab"], e), "final_norm": (e,)}
    if not m["tied"]:
        single["head"] = (m["vocab"], e)

    def make(name, shape, tensor):
        value = normal(m["seed"], name, shape, m["stddev"])
        return np.float32(1.0) + value if tensor.endswith("norm") else value

    result = {t: make(t, s, t) for t, s in single.items()}
    for t, s in layer.items():
        result[t] = np.stack([make(f"{t}.{l}", s, t) for l in range(m["layers"])])
    return {t: jnp.asarray(v, dtype=jnp.float64) for t, v in result.items()}


def batch(m, step=1):
    """The tokens and labels of a step, from 1."""
    rows = token_rows(m["seed"], m["vocab"], step * m["batch"], m["sequence"])[-m["batch"]:]
    tokens, labels = rows[:, :-1], rows[:, 1:].copy()
    if m["ignored"]:
        k = m["ignored"]
        labels.reshape(-1)[k - 1::k] = -1
    return tokens, labels


def rmsnorm(x, w, eps):
    return x / jnp.sqrt(jnp.mean(x * x, axis=-1, keepdims=True) + eps) * w


def rotate(x, theta):
    """x [batch, sequence, heads, head_dim]; pairs (j, j + head_dim / 2)."""
    d = x.shape[-1]
    angle = jnp.outer(jnp.arange(x.shape[1]), theta ** (-jnp.arange(0, d, 2) / d))
    cos, sin = jnp.cos(angle)[None, :, None, :], jnp.sin(angle)[None, :, None, :]
    a, b = x[..., : d // 2], x[..., d // 2:]
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def forward(p, tokens, m):
    b, s, d = m["batch"], m["sequence"], m["head_dim"]
    x = p["embedding"][tokens]
    causal = jnp.tril(jnp.ones((s, s), dtype=bool))
    for l in range(m["layers"]):
        n = rmsnorm(x, p["attention_norm"][l], m["rms_norm_eps"])
        q = rotate((n @ p["wq"][l]).reshape(b, s, m["heads"], d), m["rope_theta"])
        k = rotate((n @ p["wk"][l]).reshape(b, s, m["kv_heads"], d), m["rope_theta"])
        v = (n @ p["wv"][l]).reshape(b, s, m["kv_heads"], d)
        k, v = (jnp.repeat(t, m["heads"] // m["kv_heads"], axis=2) for t in (k, v))
        score = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(d)
        weight = jax.nn.softmax(jnp.where(causal, score, -jnp.inf), axis=-1)
        o = jnp.einsum("bhqk,bkhd->bqhd", weight, v).reshape(b, s, m["heads"] * d)
        x = x + o @ p["wo"][l].T
        n = rmsnorm(x, p["mlp_norm"][l], m["rms_norm_eps"])
        x = x + (jax.nn.silu(n @ p["w_gate"][l]) * (n @ p["w_up"][l])) @ p["w_down"][l].T
    x = rmsnorm(x, p["final_norm"], m["rms_norm_eps"])
    return x @ p["embedding" if m["tied"] else "head"].T


def loss(p, tokens, labels, m):
    logits = forward(p, tokens, m)
    log_p = jax.nn.log_softmax(logits, axis=-1)
    picked = jnp.take_along_axis(log_p, jnp.maximum(labels, 0)[..., None], axis=-1)[..., 0]
    return -jnp.sum(jnp.where(labels >= 0, picked, 0.0)) / jnp.sum(labels >= 0)


def train(p, m):
    first = {t: jnp.zeros_like(v) for t, v in p.items()}
    second = dict(first)
    step_of = jax.value_and_grad(lambda p, tokens, labels: loss(p, tokens, labels, m))
    losses = []
    for s in range(1, STEPS + 1):
        value, gradient = step_of(p, *batch(m, s))
        losses.append(float(value))
        norm = jnp.sqrt(sum(jnp.sum(jnp.square(g)) for g in gradient.values()))
        gradient = {t: g * jnp.minimum(1.0, CLIP / norm) for t, g in gradient.items()}
        first = {t: BETA1 * first[t] + (1 - BETA1) * g for t, g in gradient.items()}
        second = {t: BETA2 * second[t] + (1 - BETA2) * g * g for t, g in gradient.items()}
        for t in p:
            update = (first[t] / (1 - BETA1**s)) / (jnp.sqrt(second[t] / (1 - BETA2**s)) + EPS)
            decay = 0.0 if t.endswith("norm") else WEIGHT_DECAY
            p = {**p, t: p[t] - LEARNING_RATE * (update + decay * p[t])}
    return np.array(losses)


def write(path, m):
    p = parameters(m)
    tokens, labels = batch(m)
    value, gradient = jax.value_and_grad(loss)(p, tokens, labels, m)
    tensors = {f"grad {t}": np.asarray(g) for t, g in sorted(gradient.items())}
    tensors["logits"] = np.asarray(forward(p, tokens, m))
    tensors["losses"] = train(p, m)
    norm = np.sqrt(sum(float(np.sum(np.square(g))) for g in gradient.values()))
    with open(path, "wb") as out:
        out.write(b"SWORACLE")
        names = ("vocab", "hidden", "intermediate", "layers", "heads", "kv_heads", "head_dim", "tied",
                 "sequence", "batch", "seed", "ignored")
        out.write(struct.pack("<12q", *(m[n] for n in names)))
        out.write(struct.pack("<5d", m["rope_theta"], m["rms_norm_eps"], m["stddev"], float(value), norm))
        out.write(struct.pack("<q", len(tensors)))
        for name, tensor in tensors.items():
            sizes = list(tensor.shape) + [1] * (4 - tensor.ndim)
            out.write(struct.pack("<40sq4q", name.encode(), tensor.ndim, *sizes))
            out.write(tensor.astype("<f4").tobytes())
    print(f"{path.name}: loss {float(value):.6f}, gradient norm {norm:.6f}, {path.stat().st_size} bytes")


def main():
    folder = pathlib.Path(__file__).parent / "fixtures"
    folder.mkdir(exist_ok=True)
    for name, model in MODELS.items():
        write(folder / f"{name}.bin", model)


if __name__ == "__main__":
    main()
