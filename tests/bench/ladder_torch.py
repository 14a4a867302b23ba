#!/usr/bin/env python3
"""PyTorch on the processor, for ladder.sh: trains the model of gpu/torch_peer.py, compiled.

With --attention it is scaled_dot_product_attention of one layer alone, causal, forward and
backward, by the thread's processor time. Says that it is ready once its steps are compiled. Then, for each line on standard input, which is a
number of steps, runs them and prints their seconds as JSON. With --about it says its version only.
"""
import argparse
import json
import os
import sys
import time

try:
    import torch
except ImportError as why:
    print(f"SKIP: {why}")
    raise SystemExit(77)
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "gpu"))
from torch_peer import Model  # noqa: E402


def attention_step(shape, dtype):
    def heads(n):
        x = torch.rand(1, shape.sequence, n, shape.head_dim) * 2 - 1
        return x.to(dtype).transpose(1, 2)

    q, k, v = (heads(n).requires_grad_() for n in (shape.heads, shape.kv_heads, shape.kv_heads))
    cotangent = heads(shape.heads)

    def step():
        begun = time.thread_time()
        o = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True,
                                                       enable_gqa=shape.heads != shape.kv_heads)
        o.backward(cotangent)
        return time.thread_time() - begun

    return step


def serve(step):
    for _ in range(2):
        step()
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps([step() for _ in range(int(line))]), flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--about", action="store_true")
    p.add_argument("--model", help="model.yaml's numbers as JSON")
    p.add_argument("--attention", action="store_true")
    p.add_argument("--sequence", type=int)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--compute", choices=("fp32", "bf16"), default="fp32")
    a = p.parse_args()
    if a.about:
        print(f"PyTorch {torch.__version__}")
        return
    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    narrow = a.compute == "bf16"
    shape = argparse.Namespace(sequence=a.sequence, **json.loads(a.model))
    if a.attention:
        serve(attention_step(shape, torch.bfloat16 if narrow else torch.float32))
        return
    model = Model(shape, torch.bfloat16 if narrow else torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), eps=1e-8,
                                  weight_decay=0.1, fused=True)
    compiled = torch.compile(model)
    tokens = torch.randint(shape.vocab, (1, a.sequence + 1))

    def step():
        begun = time.perf_counter()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=narrow):
            loss = compiled(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if loss.item() != loss.item():
            raise SystemExit("ladder_torch: the loss is not a number")
        return time.perf_counter() - begun

    serve(step)


if __name__ == "__main__":
    main()
