#!/usr/bin/env python3
"""JAX with the package `ringattention` on two of the processor's devices, for ladder.sh.

A training step of the model whose weights ladder_weights.py makes: the text is split over the ring
as ringattention splits it, contiguously, weights and AdamW's state are on every device. Says what
the first step's loss and norm of the gradient are, as JSON, once it is compiled; then, for each
line on standard input, which is a number of steps, runs them and prints their seconds as JSON. With
--about it says its versions only.
"""
import argparse
import json
import os
import sys
import time
import types
from functools import partial

RANKS = 2
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={RANKS}"
try:
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax import lax
    from jax.sharding import Mesh, PartitionSpec as P

    if not hasattr(jax.lib, "xla_bridge"):  # where it was when ringattention 0.1 was written
        jax.lib.xla_bridge = types.SimpleNamespace(get_backend=lambda: jax.devices()[0].client)
    from ringattention import ringattention
except ImportError as why:
    print(f"SKIP: {why}")
    raise SystemExit(77)
from importlib.metadata import version

from ladder_weights import tensors

LEARNING_RATE, BETAS, EPSILON, DECAY, CLIP = 1e-4, (0.9, 0.95), 1e-8, 0.1, 1.0
CHUNKS = (512, 1024, 2048)  # of queries and keys; the fastest one is taken


def rms_norm(x, weight):
    wide = x.astype(jnp.float32)
    return (wide * lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + 1e-5) * weight).astype(x.dtype)


def rotate(x, cos, sin):
    first, second = jnp.split(x, 2, -1)
    return jnp.concatenate((first * cos - second * sin, second * cos + first * sin), -1)


def local_loss(weights, tokens, labels, shape, dtype, chunk):
    """The mean over the whole text, of this device's part of it [1, length / RANKS]."""
    b, s = tokens.shape
    positions = lax.axis_index("sp") * s + jnp.arange(s)
    angles = positions[:, None] * shape["theta"] ** (-jnp.arange(0, shape["head_dim"], 2) / shape["head_dim"])
    cos, sin = (f(angles)[None, :, None, :].astype(dtype) for f in (jnp.cos, jnp.sin))
    kwargs = dict(causal_block_size=1, deterministic=True, dropout_rng=None, attn_pdrop=0.0, query_chunk_size=chunk,
                  key_chunk_size=chunk, dtype=dtype, policy=jax.checkpoint_policies.nothing_saveable, precision=None,
                  prevent_cse=False)

    def linear(x, name):
        return x @ weights[name + ".weight"].astype(dtype).T

    x = weights["model.embed_tokens.weight"][tokens].astype(dtype)
    for layer in range(shape["layers"]):
        of = f"model.layers.{layer}."
        y = rms_norm(x, weights[of + "input_layernorm.weight"])
        q, k, v = (linear(y, of + f"self_attn.{name}_proj").reshape(b, s, n, shape["head_dim"])
                   for name, n in (("q", shape["heads"]), ("k", shape["kv_heads"]), ("v", shape["kv_heads"])))
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        k, v = (jnp.repeat(t, shape["heads"] // shape["kv_heads"], 2) for t in (k, v))
        # float32_logits widens q and k, whose gradients it then hands back as wide as that
        q, k = q.astype(jnp.float32), k.astype(jnp.float32)
        o = ringattention(q, k, v, None, None, None, "sp", True, kwargs)
        x = x + linear(o.reshape(b, s, -1), of + "self_attn.o_proj")
        y = rms_norm(x, weights[of + "post_attention_layernorm.weight"])
        x = x + linear(jax.nn.silu(linear(y, of + "mlp.gate_proj")) * linear(y, of + "mlp.up_proj"),
                       of + "mlp.down_proj")
    y = rms_norm(x, weights["model.norm.weight"])
    logits = linear(y, "model.embed_tokens" if shape["tied"] else "lm_head").astype(jnp.float32)
    logprobs = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], -1)
    return -jnp.sum(logprobs) / (RANKS * b * s)


def step(state, tokens, labels, shape, dtype, chunk):
    weights, first, second, count = state
    loss, gradients = jax.value_and_grad(local_loss)(weights, tokens, labels, shape, dtype, chunk)
    loss, gradients = lax.psum((loss, gradients), "sp")
    norm = jnp.sqrt(sum(jnp.sum(g * g) for g in gradients.values()))
    count, scale = count + 1, jnp.minimum(1.0, CLIP / (norm + 1e-6))
    for name, g in gradients.items():
        g = g * scale
        first[name] = BETAS[0] * first[name] + (1 - BETAS[0]) * g
        second[name] = BETAS[1] * second[name] + (1 - BETAS[1]) * g * g
        mean, square = first[name] / (1 - BETAS[0] ** count), second[name] / (1 - BETAS[1] ** count)
        decay = DECAY if weights[name].ndim > 1 else 0.0
        weights[name] = weights[name] - LEARNING_RATE * (mean / (jnp.sqrt(square) + EPSILON) + decay * weights[name])
    return (weights, first, second, count), loss, norm


def compiled(shape, dtype, chunk):
    mesh = Mesh(np.array(jax.devices()[:RANKS]), ("sp",))
    part = P(None, "sp")
    inner = partial(step, shape=shape, dtype=dtype, chunk=chunk)
    # the carry of ringattention's scans does not say that it varies over the ring
    return jax.jit(jax.shard_map(inner, mesh=mesh, in_specs=(P(), part, part), out_specs=(P(), P(), P()),
                                 check_vma=False))


def start(shape):
    weights = {name: jnp.asarray(values) for name, values in tensors(shape)}
    zeros = {name: jnp.zeros_like(values) for name, values in weights.items()}
    return weights, zeros, dict(zeros), jnp.float32(0)


class Run:
    def __init__(self, shape, dtype, chunk, text):
        self.step, self.state = compiled(shape, dtype, chunk), start(shape)
        self.tokens, self.labels = jnp.asarray(text[None, :-1]), jnp.asarray(text[None, 1:])
        self.first = self.seconds() and (self.loss, self.norm)

    def seconds(self):
        begun = time.perf_counter()
        self.state, loss, norm = self.step(self.state, self.tokens, self.labels)
        self.loss, self.norm = float(loss), float(norm)
        return time.perf_counter() - begun


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--about", action="store_true")
    p.add_argument("--model", help="the shape as JSON")
    p.add_argument("--text", help="a file of one token a byte, one more than a sequence has")
    p.add_argument("--compute", choices=("fp32", "bf16"), default="fp32")
    a = p.parse_args()
    if a.about:
        print(f"JAX {jax.__version__} with ringattention {version('ringattention')}")
        return
    shape, text = json.loads(a.model), np.frombuffer(open(a.text, "rb").read(), np.uint8).astype(np.int32)
    dtype = jnp.bfloat16 if a.compute == "bf16" else jnp.float32
    local = (len(text) - 1) // RANKS
    best = None
    for chunk in [c for c in CHUNKS if local % c == 0] or [local]:
        run = Run(shape, dtype, chunk, text)
        took = run.seconds()
        if best is None or took < best[0]:
            best = took, chunk, run
    _, chunk, run = best
    print(json.dumps({"loss": run.first[0], "grad_norm": run.first[1], "chunk": chunk}), flush=True)
    for line in sys.stdin:
        print(json.dumps([run.seconds() for _ in range(int(line))]), flush=True)


if __name__ == "__main__":
    main()
