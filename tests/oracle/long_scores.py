#!/usr/bin/env python3
"""Log-probabilities of a text of 3,000 tokens, `runner score` in fp32 against NumPy in float64.

    python3 -m venv VENV && VENV/bin/pip install numpy
    VENV/bin/python tests/oracle/long_scores.py BUILD [MESH]        by hand; MESH: 1,1,1,1, 1,1,2,2 ...

Two layers with random weights, large enough that attention is far from uniform: a Llama with the three
ways in which rotary angles are stretched, and the other families of `runner`, whose layers differ from
it by biases, by norms of queries and keys, by a head that is the embedding or by none of these. Leaves
with 77 without NumPy.
"""
import json
import os
import struct
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

LAYERS, HIDDEN, MIDDLE, HEADS, KV_HEADS, VOCAB, LENGTH = 2, 256, 512, 4, 2, 512, 3000
THETA, EPS, STDDEV = 10000.0, 1e-5, 0.12
# Sums of up to 512 products in fp32 give 4e-5 here; fp32 angles gave 9e-4.
TOLERANCE = 2e-4
ROPES = {"plain": None, "linear": {"rope_type": "linear", "factor": 4.0},
         "llama3": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                    "original_max_position_embeddings": 512}}


class Family:
    def __init__(self, model_type, rope="plain", tied=False, biases=False, normed=False, dim=HIDDEN // HEADS, **keys):
        self.model_type, self.rope, self.tied, self.biases, self.normed = model_type, ROPES[rope], tied, biases, normed
        self.dim, self.keys = dim, keys

    def config(self):
        architecture = {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3"}[self.model_type]
        keys = {"architectures": [architecture + "ForCausalLM"], "model_type": self.model_type, "vocab_size": VOCAB,
                "hidden_size": HIDDEN, "intermediate_size": MIDDLE, "num_hidden_layers": LAYERS,
                "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "hidden_act": "silu",
                "max_position_embeddings": 4096, "rope_theta": THETA, "rms_norm_eps": EPS,
                "tie_word_embeddings": self.tied, "torch_dtype": "float32", **self.keys}
        if self.dim != HIDDEN // HEADS:
            keys["head_dim"] = self.dim
        if self.rope is not None:
            keys["rope_scaling"] = self.rope
        return keys


# Yi, SmolLM2 and Llama 2 are Llamas in their config.json, too.
FAMILIES = {"llama": Family("llama"), "llama, linear": Family("llama", "linear"),
            "llama, llama3": Family("llama", "llama3"), "llama, tied": Family("llama", tied=True),
            "mistral": Family("mistral", sliding_window=4096),
            "qwen2": Family("qwen2", biases=True), "qwen2, tied": Family("qwen2", tied=True, biases=True),
            "qwen3": Family("qwen3", normed=True, dim=96)}


def weights(draw, family):
    shapes = {"model.embed_tokens.weight": (VOCAB, HIDDEN), "model.norm.weight": (HIDDEN,)}
    if not family.tied:
        shapes["lm_head.weight"] = (VOCAB, HIDDEN)
    dim = family.dim
    for layer in range(LAYERS):
        of = f"model.layers.{layer}.self_attn."
        if family.biases:
            shapes.update({of + "q_proj.bias": (HEADS * dim,), of + "k_proj.bias": (KV_HEADS * dim,),
                           of + "v_proj.bias": (KV_HEADS * dim,)})
        if family.normed:
            shapes.update({of + "q_norm.weight": (dim,), of + "k_norm.weight": (dim,)})
        for name, shape in (("input_layernorm", (HIDDEN,)), ("post_attention_layernorm", (HIDDEN,)),
                            ("self_attn.q_proj", (HEADS * dim, HIDDEN)),
                            ("self_attn.k_proj", (KV_HEADS * dim, HIDDEN)),
                            ("self_attn.v_proj", (KV_HEADS * dim, HIDDEN)),
                            ("self_attn.o_proj", (HIDDEN, HEADS * dim)), ("mlp.gate_proj", (MIDDLE, HIDDEN)),
                            ("mlp.up_proj", (MIDDLE, HIDDEN)), ("mlp.down_proj", (HIDDEN, MIDDLE))):
            shapes[f"model.layers.{layer}.{name}.weight"] = shape
    return {name: (STDDEV * draw.standard_normal(shape) if len(shape) > 1 or name.endswith("bias")
                   else 1 + 0.1 * draw.standard_normal(shape)).astype(np.float32)
            for name, shape in shapes.items()}


def write_model(folder, tensors, family):
    head, at = {}, 0
    for name, value in tensors.items():
        head[name] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [at, at + value.nbytes]}
        at += value.nbytes
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(folder, "model.safetensors"), "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for value in tensors.values():
            out.write(value.tobytes())
    with open(os.path.join(folder, "config.json"), "w") as out:
        json.dump(family.config(), out)


def frequencies(family):
    rope, dim = family.rope, family.dim
    plain = THETA ** (-2.0 * np.arange(dim // 2) / dim)
    if rope is None:
        return plain
    if rope["rope_type"] == "linear":
        return plain / rope["factor"]
    # as transformers' _compute_llama3_parameters says it
    turns = rope["original_max_position_embeddings"] * plain / (2 * np.pi)
    kept = (turns - rope["low_freq_factor"]) / (rope["high_freq_factor"] - rope["low_freq_factor"])
    kept = np.clip(kept, 0, 1)
    return kept * plain + (1 - kept) * plain / rope["factor"]


def logprobs(tensors, tokens, family):
    w, dim = {name: value.astype(np.float64) for name, value in tensors.items()}, family.dim
    angle = np.arange(LENGTH)[:, None, None] * frequencies(family)
    cosine, sine = np.cos(angle), np.sin(angle)

    def norm(x, gain):
        return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + EPS) * gain

    def turned(x, heads, gain):
        x = x.reshape(LENGTH, heads, dim)
        a, b = np.split(x if gain is None else norm(x, gain), 2, -1)
        return np.concatenate([a * cosine - b * sine, b * cosine + a * sine], -1)

    x = w["model.embed_tokens.weight"][tokens]
    future = np.triu(np.full((LENGTH, LENGTH), -np.inf), 1)
    for layer in range(LAYERS):
        of = {name.split(f"layers.{layer}.")[1].removesuffix(".weight"): value for name, value in w.items()
              if f"layers.{layer}." in name}
        n = norm(x, of["input_layernorm"])
        q, k, v = (n @ of[f"self_attn.{part}_proj"].T + of.get(f"self_attn.{part}_proj.bias", 0) for part in "qkv")
        q = turned(q, HEADS, of.get("self_attn.q_norm"))
        k = turned(k, KV_HEADS, of.get("self_attn.k_norm"))
        v = v.reshape(LENGTH, KV_HEADS, dim)
        merged = np.empty((LENGTH, HEADS, dim))
        for head in range(HEADS):
            kv = head * KV_HEADS // HEADS
            p = q[:, head] @ k[:, kv].T / np.sqrt(dim) + future
            p = np.exp(p - p.max(-1, keepdims=True))
            merged[:, head] = p / p.sum(-1, keepdims=True) @ v[:, kv]
        x = x + merged.reshape(LENGTH, -1) @ of["self_attn.o_proj"].T
        n = norm(x, of["post_attention_layernorm"])
        gate = n @ of["mlp.gate_proj"].T
        x = x + (gate / (1 + np.exp(-gate)) * (n @ of["mlp.up_proj"].T)) @ of["mlp.down_proj"].T
    z = norm(x, w["model.norm.weight"]) @ w["model.embed_tokens.weight" if family.tied else "lm_head.weight"].T
    z -= z.max(-1, keepdims=True)
    z -= np.log(np.exp(z).sum(-1, keepdims=True))
    return z[np.arange(LENGTH - 1), tokens[1:]]


def scored(build, mesh, folder, tokens):
    ranks = int(np.prod([int(size) for size in mesh.split(",")]))
    model, plan = os.path.join(folder, "model"), os.path.join(folder, "plan")
    texts, data = os.path.join(folder, "texts.jsonl"), os.path.join(folder, "data.bin")
    with open(texts, "w") as out:
        print(json.dumps({"tokens": tokens}), file=out)
    np.zeros(20000, np.uint16).tofile(data)
    settings = {"name": "long", "model": os.path.join(model, "config.json"), "sequence_length": 3072,
                "serve.max_batch": 1, "serve.max_tokens": 3072, "data.path": data,
                "directory": os.path.join(folder, "run"), "cluster.accelerators_per_node": ranks}
    command = [build + "/plan", "emit", "configs/runs/quickstart.yaml", "-o", plan, "--mesh_dim", mesh]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    start = ["mpirun", "-q", "-np", str(ranks)] if ranks > 1 else []
    said = subprocess.run(start + [build + "/runner", "score", plan + "/long.plan.yaml", "--checkpoint", model,
                                   "--texts", texts, "--logprobs"], check=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True).stdout
    return np.array(json.loads(said.splitlines()[0])["logprobs"])


def main(build, mesh="1,1,1,1"):
    wrong = 0
    for name, family in FAMILIES.items():
        draw = np.random.default_rng(5)
        tensors = weights(draw, family)
        tokens = [int(token) for token in draw.integers(0, VOCAB, LENGTH)]
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "model"))
            write_model(os.path.join(folder, "model"), tensors, family)
            off = np.abs(scored(build, mesh, folder, tokens) - logprobs(tensors, tokens, family))
        wrong += off.max() > TOLERANCE
        print(f"{name}, mesh {mesh}: log-probabilities off by {off.max():.1e} at most, {off.mean():.1e} on average; "
              f"{off[:300].max():.1e} in the first 300 tokens, {off[-300:].max():.1e} in the last")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
