#!/usr/bin/env python3
"""Makes fixtures/optimizer.json: losses of 20 steps of the runs of optimizer_runs.py, trained by
transformers' Llama in PyTorch, float64, with optimizers and spikes as documented, written anew here
in NumPy and PyTorch: AdamW (torch.optim.AdamW where moments are fp32), block-wise codes after
Dettmers et al. 2022, schedules of transformers, exponentially weighted means.

  make_optimizer_fixtures.py OUT.json            needs torch, transformers, numpy
"""
import copy
import json
import math
import sys

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.optimization import (_get_cosine_schedule_with_warmup_lr_lambda,
                                       _get_inverse_sqrt_schedule_lr_lambda,
                                       _get_wsd_scheduler_lambda)

import optimizer_runs as runs

BETAS = (0.9, 0.95)


def table(signed):
    """bitsandbytes' create_dynamic_map: middles of equal parts of each decade."""
    entries = [0.0, 1.0]
    for i in range(7):
        edges = np.linspace(0.1, 1, 2 ** (i + (0 if signed else 1)) + 1)
        middles = 10.0 ** (i - 6) * (edges[:-1] + edges[1:]) / 2
        entries += list(middles) + (list(-middles) if signed else [])
    return np.sort(np.array(entries, dtype=np.float64))


def block_of(row):
    """Elements of a block in rows of that length (core/base/blockwise.h)."""
    for ranks in (8, 4, 2, 1):
        for elems in (128, 64, 32, 16):
            if row % (ranks * elems) == 0:
                return elems
    return 0


def quantized(x, signed, block):
    """x [rows, columns] through codes by blocks of its rows."""
    entries = table(signed)
    middles = (entries[1:] + entries[:-1]) / 2
    blocks = x.reshape(-1, block)
    most = np.float32(np.abs(blocks).max(1, keepdims=True)).astype(np.float64)
    ratio = np.divide(blocks, most, out=np.zeros_like(blocks), where=most > 0)
    codes = np.searchsorted(middles, ratio, side="left")
    if not signed:
        codes = np.maximum(codes, blocks > 0)
    return (entries[codes] * most).reshape(x.shape)


def kept(x, moments, signed, turned):
    """A moment as the run keeps it; turned: rows are the file's columns."""
    if moments == "bf16":
        return x.to(torch.float32).to(torch.bfloat16).to(torch.float64)
    if moments == "fp32" or x.ndim < 2:
        return x.to(torch.float32).to(torch.float64)
    rows = x.numpy().T if turned else x.numpy()
    out = quantized(np.ascontiguousarray(rows), signed, block_of(rows.shape[1]))
    return torch.from_numpy(np.ascontiguousarray(out.T if turned else out))


def schedule(o):
    """step from 1 -> learning rate, by transformers' own functions."""
    ratio, warm = o["min_learning_rate"] / o["learning_rate"], o["warmup_steps"]
    kind = o.get("schedule", "cosine")
    if kind == "wsd":
        decay = o["decay_steps"]
        def of(step):
            return _get_wsd_scheduler_lambda(
                step, num_warmup_steps=warm, num_stable_steps=runs.STEPS - decay - warm,
                num_decay_steps=decay, warmup_type="linear", decay_type="linear",
                min_lr_ratio=0 if step <= warm else ratio,  # our warm-up begins at zero
                num_cycles=0.5)
    elif kind == "inverse_sqrt":
        def of(step):
            return max(ratio if step > warm else 0,
                       _get_inverse_sqrt_schedule_lr_lambda(step, num_warmup_steps=warm,
                                                            timescale=warm))
    else:
        def of(step):
            plain = _get_cosine_schedule_with_warmup_lr_lambda(
                step, num_warmup_steps=warm, num_training_steps=runs.STEPS, num_cycles=0.5)
            return plain if step <= warm else ratio + (1 - ratio) * plain
    return lambda step: o["learning_rate"] * of(step)


class Spikes:
    def __init__(self, o):
        self.window, self.threshold = o["spike_window"], o["spike_threshold"]
        self.values = []  # all that are no spikes, in order

    def limit(self, k):
        seen = [v[k] for v in self.values]
        if len(seen) < self.window:
            return math.inf
        weights = np.ones(len(seen))
        for i in range(len(seen)):
            share = 1 / min(i + 1, self.window)
            weights[:i] *= 1 - share
            weights[i] = share
        mean = float(np.dot(weights, seen))
        variance = float(np.dot(weights, (np.array(seen) - mean) ** 2))
        return mean + self.threshold * max(math.sqrt(variance), 1e-3 * abs(mean))


def train(case):
    o = {**runs.COMMON, "moments": "fp32", **runs.CASES[case]}
    torch.set_default_dtype(torch.float64)
    model = LlamaForCausalLM(LlamaConfig(**{k: v for k, v in runs.CONFIG.items()
                                            if k not in ("architectures", "torch_dtype")},
                                         attn_implementation="eager")).double()
    initial = runs.weights()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            shape, numbers = initial[name]
            parameter.copy_(torch.tensor(numbers).reshape(shape))
    parameters = dict(model.named_parameters())
    plain = {n: ("lm_head" in n or ".mlp." in n) and "no_decay" in o for n in parameters}
    rate, data = schedule(o), runs.tokens()
    state = {n: [torch.zeros_like(p), torch.zeros_like(p)] for n, p in parameters.items()}
    spikes = Spikes(o) if "on_spike" in o else None
    lines, saved, step, sequence, rewinds, margin = [], None, 0, 0, 0, math.inf
    while step < runs.STEPS:
        number = step + 1
        at = [runs.window(sequence + i) for i in range(runs.BATCH)]
        sequence += runs.BATCH
        rows = torch.tensor([data[a:a + runs.LENGTH + 1] for a in at])
        model.zero_grad()
        logits = model(input_ids=rows[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, runs.VOCAB),
                                                 rows[:, 1:].reshape(-1))
        loss.backward()
        loss = loss.detach()
        norm = math.sqrt(sum(float((p.grad ** 2).sum()) for p in parameters.values()))
        spiked = False
        if spikes is not None:
            limits = [spikes.limit(0), spikes.limit(1)]
            spiked = float(loss) > limits[0] or norm > limits[1]
            ratio = max(float(loss) / limits[0], norm / limits[1])
            margin = min(margin, abs(ratio - 1))
        lines.append({"step": number, "loss": loss.item(), "grad_norm": norm, "spike": spiked})
        if spiked and o["on_spike"] == "rewind":
            rewinds += 1
            assert saved is not None and rewinds <= o["max_rewinds"]
            model.load_state_dict(saved[0])
            state, step = copy.deepcopy(saved[1]), saved[2]
            spikes.values = list(saved[3])
            continue
        if spiked:
            continue
        if spikes is not None:
            spikes.values.append((float(loss), norm))
        with torch.no_grad():
            for name, p in parameters.items():
                g = p.grad * min(1, o["grad_clip"] / norm)
                m, v = state[name]
                m = BETAS[0] * m + (1 - BETAS[0]) * g
                v = BETAS[1] * v + (1 - BETAS[1]) * g * g
                decay = 0 if p.ndim < 2 or plain[name] else o["weight_decay"]
                root = (v / (1 - BETAS[1] ** number)).sqrt() + o["eps"]
                p.mul_(1 - rate(number) * decay)
                p.sub_(rate(number) * m / (1 - BETAS[0] ** number) / root)
                turned = any(f".{w}_proj" in name for w in ("q", "k", "v", "gate", "up"))
                state[name] = [kept(m, o["moments"], True, turned),
                               kept(v, o["moments"], False, turned)]
        step = number
        if step % runs.EVERY == 0:
            saved = (copy.deepcopy(model.state_dict()), copy.deepcopy(state), step,
                     list(spikes.values) if spikes is not None else [])
    print(case, "spikes at", [l["step"] for l in lines if l["spike"]], "nearest to a limit",
          f"{margin:.3f}", [round(l["loss"], 4) for l in lines][::4])
    return {"lines": lines, "next_sequence": sequence, "rewinds": rewinds}


if __name__ == "__main__":
    out = {case: train(case) for case in runs.CASES}
    with open(sys.argv[1], "w") as file:
        json.dump(out, file, indent=1)
        file.write("\n")
