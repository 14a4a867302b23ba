#!/usr/bin/env python3
"""Makes the fixtures of adapters: losses of 20 steps and the first gradients by PEFT, in fp64.

    pip install torch transformers peft numpy
    python3 tests/oracle/make_adapter_fixtures.py [NAME...]     # rewrites tests/oracle/fixtures/adapters/*

The models are those of make_family_fixtures.py but the fused ones, with their parameters and tokens, which go on from
step to step. Targets, ranks and alphas are drawn. A is the generator's uniform number by the root of its inputs, B its
normal one, not zero, so that A has a gradient; both as our program has them, under its names (wq_a.0, wq_b.0).

NAME.bin, little endian; projections in the order of core/base/lora.h:

    8 bytes    "SWADAPTR"
    int64[4]   sequence, batch, seed, number of tensors
    int64[7]   ranks, 0: no adapter
    float64[7] what each adapter is multiplied by
    float64[3] stddev, norm of the first gradient, how far off losses are that PEFT computes in fp32
    float64[20] losses
    each tensor: as in make_family_fixtures.py
"""
import pathlib
import struct
import sys

import numpy as np
import peft
import torch

import make_family_fixtures as families
from generator import MASK, fnv1a64, normal, splitmix64, token_rows

STEPS, RATE, BETAS, EPS, DECAY, CLIP = 20, 1e-3, (0.9, 0.95), 1e-8, 0.1, 1.0
TARGETS = {"q_proj": "wq", "k_proj": "wk", "v_proj": "wv", "o_proj": "wo", "gate_proj": "w_gate", "up_proj": "w_up",
           "down_proj": "w_down"}
LIES_AS_STORED = ("wo_b", "w_down_b")


def uniform(seed, name, shape):
    key = splitmix64(np.array([seed ^ fnv1a64(name)], dtype=np.uint64))
    with np.errstate(over="ignore"):
        a = splitmix64(key + np.uint64(2) * np.arange(int(np.prod(shape)), dtype=np.uint64))
    return (2 * (((a >> np.uint64(11)).astype(np.float64) + 1.0) / 2.0**53) - 1).reshape(shape)


def draw(seed):
    """The configuration of PEFT, rank and scale by projection."""
    rng = np.random.default_rng(seed)
    targets = [t for t in TARGETS if rng.random() < 0.75] or ["q_proj"]
    ranks = {t: int(rng.integers(1, 7)) for t in targets}
    alphas = {t: int(rng.integers(1, 17)) for t in targets}
    rslora = bool(rng.random() < 0.5)
    config = peft.LoraConfig(r=4, lora_alpha=8, target_modules=targets, rank_pattern=ranks, alpha_pattern=alphas,
                             use_rslora=rslora, lora_dropout=0.0, bias="none", task_type="CAUSAL_LM")
    return config, ranks, {t: alphas[t] / (ranks[t] ** (0.5 if rslora else 1)) for t in targets}


def known_adapters(model, ranks, layers):
    """Parameters by what they are called here: (name, layer, whether theirs is the transpose)."""
    of = dict(model.named_parameters())
    known = {}
    for layer in range(layers):
        for target in ranks:
            block = "self_attn" if target[0] in "qkvo" else "mlp"
            for part in "AB":
                theirs = f"base_model.model.model.layers.{layer}.{block}.{target}.lora_{part}.default.weight"
                ours = f"{TARGETS[target]}_{part.lower()}"
                known[theirs] = (ours, layer, ours not in LIES_AS_STORED)
    trained = {name for name, parameter in of.items() if parameter.requires_grad}
    assert trained == set(known), trained ^ set(known)
    return known


def fill(parameter, seed, ours, layer, transposed):
    shape = tuple(parameter.shape)[::-1] if transposed else tuple(parameter.shape)
    name = f"{ours}.{layer}"
    if ours.endswith("_a"):
        value = uniform(seed, name, shape) / np.sqrt(shape[0])
    else:
        value = normal(seed, name, shape, families.STDDEV)  # rounded, as tests/support/harness.c has it
    with torch.no_grad():
        parameter.copy_(torch.from_numpy((value.T if transposed else value).astype(np.float64).copy()))


def clip(parameters):
    norm = float(torch.sqrt(sum((p.grad.double() ** 2).sum() for p in parameters)))
    for p in parameters:
        p.grad.mul_(min(1.0, CLIP / norm))
    return norm


def train(model, parameters, known, seed, vocab, sequence):
    rows = torch.from_numpy(token_rows(seed, vocab, STEPS * families.BATCH, sequence))
    optimizer = torch.optim.AdamW([parameters[name] for name in known], lr=RATE, betas=BETAS, eps=EPS,
                                  weight_decay=DECAY)
    losses, first, norm = [], {}, 0
    for step in range(STEPS):
        batch = rows[step * families.BATCH : (step + 1) * families.BATCH]
        loss = torch.nn.functional.cross_entropy(families.run(model, batch[:, :-1]).flatten(0, 1),
                                                 batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            first = {name: parameters[name].grad.clone() for name in known}
        this = clip([parameters[name] for name in known])
        norm = this if step == 0 else norm
        optimizer.step()
    return losses, first, norm


def run(seed, config_class, changes):
    """Of the precision that torch.float32 is: see make_family_fixtures.in_fp64."""
    config, model, _ = families.build(seed, config_class, changes)
    settings, ranks, scales = draw(seed)
    model = peft.get_peft_model(model, settings).to(torch.float32)
    model.train()
    known = known_adapters(model, ranks, config.num_hidden_layers)
    parameters = dict(model.named_parameters())
    for theirs, (ours, layer, transposed) in known.items():
        fill(parameters[theirs], seed, ours, layer, transposed)
    sequence = families.LONG if families.is_windowed(config) else families.SEQUENCE
    return known, ranks, scales, sequence, train(model, parameters, known, seed, config.vocab_size, sequence)


def make(folder, name, seed, config_class, changes):
    with families.in_fp64():
        known, ranks, scales, sequence, (losses, first, norm) = run(seed, config_class, changes)
    narrow = run(seed, config_class, changes)[-1][0]
    own = max(abs(a / b - 1) for a, b in zip(narrow, losses))
    stacks = {}
    for theirs, (ours, layer, transposed) in known.items():
        stacks.setdefault(ours, []).append((first[theirs].T if transposed else first[theirs]).numpy())
    with open(folder / f"{name}.bin", "wb") as out:
        out.write(b"SWADAPTR")
        out.write(struct.pack("<4q", sequence, families.BATCH, seed, len(stacks)))
        out.write(struct.pack("<7q", *(ranks.get(t, 0) for t in TARGETS)))
        out.write(struct.pack("<7d", *(scales.get(t, 0) for t in TARGETS)))
        out.write(struct.pack("<3d", families.STDDEV, norm, own))
        out.write(struct.pack(f"<{STEPS}d", *losses))
        for ours, gradients in sorted(stacks.items()):
            value = np.stack(gradients)
            out.write(struct.pack("<40sq", f"grad {ours}".encode(), value.size))
            out.write(np.ascontiguousarray(value, dtype="<f4").tobytes())
    print(f"{name}: ranks {ranks}, losses {losses[0]:.6f} to {losses[-1]:.6f}, of fp32 off by {own:.1e}, "
          f"gradient norm {norm:.6f}")


def main():
    folder = pathlib.Path(__file__).parent / "fixtures" / "adapters"
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or [n for n in families.FAMILIES if not n.startswith("phi")]:
        make(folder, name, *families.FAMILIES[name])


if __name__ == "__main__":
    main()
