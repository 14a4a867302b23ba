#!/usr/bin/env python3
"""Random weights of a Llama's shape, for ladder.sh: what ours and a peer both compute with.

ladder_weights.py SHAPE FOLDER POSITIONS writes them as a Hugging Face directory in bf16; SHAPE is
JSON. Needs NumPy only; a peer that has no reader of such files takes `tensors`.
"""
import json
import os
import sys

import numpy as np

SEED, DEVIATION = 1, 0.02


def tensors(shape):
    """Name and values, fp32 that bf16 holds exactly, in the order of the layers."""
    random = np.random.default_rng(SEED)

    def matrix(name, rows, columns):
        bits = (random.standard_normal((rows, columns), dtype=np.float32) * np.float32(DEVIATION)).view(np.uint32)
        bits += 0x8000
        bits &= 0xFFFF0000
        return name + ".weight", bits.view(np.float32)

    def norm(name):
        return name + ".weight", np.ones(shape["hidden"], np.float32)

    q, kv = shape["heads"] * shape["head_dim"], shape["kv_heads"] * shape["head_dim"]
    hidden, wide = shape["hidden"], shape["intermediate"]
    yield matrix("model.embed_tokens", shape["vocab"], hidden)
    for layer in range(shape["layers"]):
        of = f"model.layers.{layer}."
        yield norm(of + "input_layernorm")
        yield matrix(of + "self_attn.q_proj", q, hidden)
        yield matrix(of + "self_attn.k_proj", kv, hidden)
        yield matrix(of + "self_attn.v_proj", kv, hidden)
        yield matrix(of + "self_attn.o_proj", hidden, q)
        yield norm(of + "post_attention_layernorm")
        yield matrix(of + "mlp.gate_proj", wide, hidden)
        yield matrix(of + "mlp.up_proj", wide, hidden)
        yield matrix(of + "mlp.down_proj", hidden, wide)
    yield norm("model.norm")
    if not shape["tied"]:
        yield matrix("lm_head", shape["vocab"], hidden)


def write(shape, folder, positions):
    os.makedirs(folder, exist_ok=True)
    with open(folder + "/config.json", "w") as out:
        json.dump({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16",
                   "hidden_act": "silu", "vocab_size": shape["vocab"], "hidden_size": shape["hidden"],
                   "intermediate_size": shape["intermediate"], "num_hidden_layers": shape["layers"],
                   "num_attention_heads": shape["heads"], "num_key_value_heads": shape["kv_heads"],
                   "head_dim": shape["head_dim"], "max_position_embeddings": positions,
                   "rope_theta": shape["theta"], "rms_norm_eps": 1e-5, "tie_word_embeddings": shape["tied"],
                   "attention_bias": False, "mlp_bias": False, "bos_token_id": None, "eos_token_id": None},
                  out, indent=1)
    header, at = {"__metadata__": {"format": "pt"}}, 0
    with open(folder + "/values", "wb") as out:
        for name, values in tensors(shape):
            raw = (values.view(np.uint32) >> 16).astype(np.uint16).tobytes()
            header[name] = {"dtype": "BF16", "shape": list(values.shape), "data_offsets": [at, at + len(raw)]}
            at += len(raw)
            out.write(raw)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(folder + "/model.safetensors", "wb") as out, open(folder + "/values", "rb") as values:
        out.write(len(text).to_bytes(8, "little") + text)
        while part := values.read(1 << 24):
            out.write(part)
    os.remove(folder + "/values")


if __name__ == "__main__":
    write(json.loads(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
