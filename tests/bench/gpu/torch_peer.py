#!/usr/bin/env python3
"""The model of a run in PyTorch, for comparison: the same layers, batch and precision.

Llama-style: RMSNorm, rotary positions, grouped-query attention through scaled_dot_product_attention,
SwiGLU, the head tied or not. f32 weights, gradients and AdamW state, bf16 compute (autocast),
clipped gradients, fused AdamW, torch.compile. Prints lines of JSON: the median step and how it
was run. Attention is cuDNN's where PyTorch has it, then what PyTorch chooses by itself; the last line
is the faster one, and the first is there as soon as it is known.
"""
import argparse
import json
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel


class RMSNorm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return (wide * self.weight).to(x.dtype)


def rotate(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


class Layer(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.heads, self.kv_heads, self.dim = a.heads, a.kv_heads, a.head_dim
        self.norm = RMSNorm(a.hidden, 1e-5)
        self.q = nn.Linear(a.hidden, a.heads * a.head_dim, bias=False)
        self.k = nn.Linear(a.hidden, a.kv_heads * a.head_dim, bias=False)
        self.v = nn.Linear(a.hidden, a.kv_heads * a.head_dim, bias=False)
        self.o = nn.Linear(a.heads * a.head_dim, a.hidden, bias=False)
        self.mlp_norm = RMSNorm(a.hidden, 1e-5)
        self.gate = nn.Linear(a.hidden, a.intermediate, bias=False)
        self.up = nn.Linear(a.hidden, a.intermediate, bias=False)
        self.down = nn.Linear(a.intermediate, a.hidden, bias=False)

    def forward(self, x, cos, sin):
        b, s, _ = x.shape
        y = self.norm(x)
        q = self.q(y).view(b, s, self.heads, self.dim).transpose(1, 2)
        k = self.k(y).view(b, s, self.kv_heads, self.dim).transpose(1, 2)
        v = self.v(y).view(b, s, self.kv_heads, self.dim).transpose(1, 2)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True,
                                           enable_gqa=self.heads != self.kv_heads)
        x = x + self.o(o.transpose(1, 2).reshape(b, s, self.heads * self.dim))
        y = self.mlp_norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Model(nn.Module):
    def __init__(self, a, dtype=torch.bfloat16):
        super().__init__()
        self.dtype = dtype
        self.embedding = nn.Embedding(a.vocab, a.hidden)
        self.layers = nn.ModuleList(Layer(a) for _ in range(a.layers))
        self.norm = RMSNorm(a.hidden, 1e-5)
        self.head = nn.Linear(a.hidden, a.vocab, bias=False)
        if a.tied:
            self.head.weight = self.embedding.weight
        angles = torch.outer(torch.arange(a.sequence).float(),
                             a.theta ** (-torch.arange(0, a.head_dim, 2).float() / a.head_dim))
        self.register_buffer("cos", angles.cos().to(dtype), persistent=False)
        self.register_buffer("sin", angles.sin().to(dtype), persistent=False)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens, labels):
        x = self.embedding(tokens).to(self.dtype)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.float().view(-1, logits.shape[-1]), labels.view(-1))


def measure(a, micro, backends, name):
    torch.manual_seed(1)
    torch._dynamo.reset()
    model = Model(a).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), eps=1e-8,
                                  weight_decay=0.1, fused=True)
    compiled = torch.compile(model)
    tokens = torch.randint(a.vocab, (a.batch, a.sequence + 1), device="cuda")
    seconds = []
    with sdpa_kernel(backends, set_priority=True):
        for i in range(a.steps):
            torch.cuda.synchronize()
            begun = time.perf_counter()
            for at in range(0, a.batch, micro):
                part = tokens[at:at + micro]
                with torch.autocast("cuda", dtype=torch.bfloat16):
                    loss = compiled(part[:, :-1].contiguous(), part[:, 1:].contiguous())
                (loss * (micro / a.batch)).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            value = loss.item()
            seconds.append(time.perf_counter() - begun)
    if not value == value:
        raise SystemExit("torch_peer: the loss is not a number")
    return {"step_seconds": statistics.median(seconds[3:]), "how": f"{name}, micro-batch {micro}",
            "peak_bytes": torch.cuda.max_memory_allocated()}


def main():
    p = argparse.ArgumentParser(description=__doc__)
    for name in ("hidden", "intermediate", "layers", "heads", "kv-heads", "head-dim", "vocab",
                 "sequence", "batch", "micro"):
        p.add_argument("--" + name, type=int, required=True)
    p.add_argument("--theta", type=float, default=500000.0)
    p.add_argument("--tied", action="store_true")
    p.add_argument("--steps", type=int, default=10)
    a = p.parse_args()
    if a.batch % a.micro != 0 or a.steps < 4:
        p.error("--micro must divide --batch, --steps be at least 4")
    if not torch.cuda.is_available():
        print("SKIP: no GPU")
        raise SystemExit(77)
    torch.backends.cuda.matmul.allow_tf32 = True
    everything = [SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION,
                  SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    cudnn_first = [SDPBackend.CUDNN_ATTENTION] + [e for e in everything
                                                  if e != SDPBackend.CUDNN_ATTENTION]
    best, micro = None, a.micro
    for backends, name in ((cudnn_first, "cuDNN"), (everything, "flash")):
        while True:
            try:
                seen = measure(a, micro, backends, name)
                break
            except torch.cuda.OutOfMemoryError:
                torch.cuda.empty_cache()
                if micro == 1:
                    raise
                micro = max(d for d in range(1, micro) if a.batch % d == 0)
        torch.cuda.empty_cache()
        if best is None or seen["step_seconds"] < best["step_seconds"]:
            best = {**seen, "torch": torch.__version__}
        print(json.dumps(best), flush=True)


if __name__ == "__main__":
    main()
