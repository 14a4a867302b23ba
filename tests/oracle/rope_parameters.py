#!/usr/bin/env python3
"""Draws models with stretched rotary positions, and writes what transformers makes of each.

    pip install torch transformers
    python3 tests/oracle/rope_parameters.py [SEED COUNT] > tests/oracle/fixtures/rope_parameters.txt

Of each model two lines: its config.json, in one of the spellings that files have; then the kind, the
factor of cosines and sines and the angles of position 1 (inv_freq) for sequences of the original length,
and, of longrope, the angles beyond it: KIND FACTOR PAIRS ANGLE... [ANGLE...]. The numbers come from the
class that reads the file and ROPE_INIT_FUNCTIONS of transformers 5, in fp32.
"""
import json
import math
import random
import sys

import torch
from transformers import LlamaConfig, Phi3Config
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.phi3.modeling_phi3 import Phi3RotaryEmbedding

SIZES = dict(vocab_size=32, intermediate_size=24, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2,
             rms_norm_eps=1e-5)


def maybe(draw, share=0.5):
    return draw.random() < share


def yarn(draw, original):
    rope = dict(factor=draw.choice([1.0, 1.5, 2.0, 4.0, 8.0, 16.0, 32.0, 40.0, round(draw.uniform(1, 64), 3)]))
    if maybe(draw, 0.7):
        rope["original_max_position_embeddings"] = original
    if maybe(draw, 0.3):
        rope["attention_factor"] = round(draw.uniform(0.5, 2), 4)
    if maybe(draw):
        rope["beta_fast"] = draw.choice([32.0, 16, 64.0, 4.0, 1.0, 0])
    if maybe(draw):
        rope["beta_slow"] = draw.choice([1.0, 2, 0.5, 4.0, 0])
    if maybe(draw, 0.4):
        rope["mscale"] = draw.choice([1.0, 0.707, 0.0, 2.0])
    if maybe(draw, 0.4):
        rope["mscale_all_dim"] = draw.choice([1.0, 0.707, 0.0, 0.3])
    if maybe(draw):
        rope["truncate"] = maybe(draw)
    return rope


def longrope(draw, original, pairs):
    def divisors(most):
        return [round(1 + (most - 1) * (j / max(pairs - 1, 1)) ** 2 * draw.uniform(0.5, 1), 6) for j in range(pairs)]
    rope = dict(short_factor=divisors(3), long_factor=divisors(64))
    if maybe(draw, 0.3):
        rope["factor"] = round(draw.uniform(1, 64), 2)
    if maybe(draw, 0.3):
        rope["attention_factor"] = round(draw.uniform(0.5, 2), 4)
    return rope


def draw_model(draw):
    """A config.json and its kind."""
    dim = draw.choice([8, 16, 32, 64, 96, 128])
    original = draw.choice([64, 256, 2048, 4096, 8192, 32768])
    kind = draw.choice(["yarn"] * 6 + ["longrope"] * 5 + ["default"])
    phi = kind == "default" or (kind == "longrope" and maybe(draw, 0.6))
    share = draw.choice([1.0, 0.5, 0.75, 0.25]) if phi else 1.0
    longest = original * draw.choice([1, 2, 4, 32]) + draw.choice([0, 0, 100])
    rope = {"yarn": lambda: yarn(draw, original), "default": dict,
            "longrope": lambda: longrope(draw, original, int(dim * share) // 2)}[kind]()
    config = dict(SIZES, hidden_size=4 * dim, max_position_embeddings=longest,
                  model_type="phi3" if phi else "llama")
    theta = draw.choice([10000.0, 500000.0, 1000000.0, 100.0, 2.0])
    new = maybe(draw)
    if new:
        rope.update(rope_type=kind, rope_theta=theta)
    else:
        rope[draw.choice(["type", "rope_type"])] = draw.choice(["su", "yarn", kind]) if phi and rope else kind
        config["rope_theta"] = theta
    if phi:
        config["original_max_position_embeddings"] = original
        if share != 1 or maybe(draw):
            (rope if new and maybe(draw) else config)["partial_rotary_factor"] = share
    elif kind == "longrope":
        rope["original_max_position_embeddings"] = original
    if rope and (kind != "default" or new):
        config["rope_parameters" if new else "rope_scaling"] = rope
    return config, kind, original


def angles(config, kind, original):
    model = {"phi3": Phi3Config, "llama": LlamaConfig}[config["model_type"]].from_dict(json.loads(json.dumps(config)))
    if kind == "default":
        inverse, factor = Phi3RotaryEmbedding.compute_default_rope_parameters(model)
        return factor, [inverse]
    assert model.rope_parameters["rope_type"] == kind, (model.rope_parameters, kind)
    make = ROPE_INIT_FUNCTIONS[kind]
    short, factor = make(model, torch.device("cpu"), seq_len=original)
    if kind == "yarn":
        return factor, [short]
    return factor, [short, make(model, torch.device("cpu"), seq_len=original + 1)[0]]


def main():
    seed, count = (int(a) for a in sys.argv[1:]) if len(sys.argv) > 1 else (45, 60)
    draw = random.Random(seed)
    while count > 0:
        config, kind, original = draw_model(draw)
        try:
            factor, lists = angles(config, kind, original)
        except KeyError:  # version 5 does not find the original length where Phi-3's longrope is called su
            continue
        if not all(math.isfinite(x) for one in lists for x in one.tolist()):
            continue
        print(json.dumps(config))
        print(kind, repr(float(factor)), len(lists[0]), *(f"{x:.9g}" for one in lists for x in one.tolist()))
        count -= 1


if __name__ == "__main__":
    main()
