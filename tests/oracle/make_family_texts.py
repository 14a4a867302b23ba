#!/usr/bin/env python3
"""Makes the texts of the model families: 200 greedy tokens of Hugging Face transformers' generate, fp32.

    pip install torch transformers numpy
    python3 tests/oracle/make_family_texts.py [NAME...]     # rewrites tests/oracle/fixtures/families/*.texts

The models are those of make_family_fixtures.py (where the window is as long as the sequence there, without it),
their caches fp32; beyond a window every token comes from a forward pass of its own over all tokens before it,
without a cache. Of random prompts of each length the first is taken for which the best two
candidates of every step differ by more than 1e-3 in logit, so that rounding cannot make another text.
A text's log-probabilities are those of one forward pass over all of it, without a cache.

NAME.texts, little endian:

    8 bytes   "SWTEXTS1"
    int64[2]  texts, seed
    float64   stddev of the parameters
    each text:
        int64[2]  tokens of the prompt, new tokens
        int32[]   all of them
        float32[] log-probability of every token but the first, given those before it
"""
import pathlib
import struct
import sys

import numpy as np
import torch

import make_family_fixtures
from make_family_fixtures import FAMILIES, SEQUENCE, build, is_windowed, run

# With larger parameters than the fixtures of gradients have, so that texts do not end up repeating a token.
STDDEV = 0.5
OTHERS = {"gemma3": 1.2,  # whose embeddings are multiplied: else a token is its own best successor
          "olmo3": 0.4,  # which has six layers
          "phi3_long": 0.22}  # whose scores are twice as large: else fp32 has no four digits of them
NEW_TOKENS, GAP, TRIES = 200, 1e-3, 400
LENGTHS = (1, 5, 16, 17, 33)
# Beyond the original length of their longrope from the first token on: transformers changes the list on the
# way, serving takes one for all (docs/limitations.md).
BEYOND = {"phi3_long": (17, 33, 40), "llama_rope_longrope": (17, 33, 40)}


def text(model, prompt):
    """The prompt with its new tokens, log-probabilities and the smallest gap between two candidates."""
    with torch.no_grad():
        ids = torch.from_numpy(prompt)[None]
        if is_windowed(model.config):
            for _ in range(NEW_TOKENS):
                ids = torch.cat([ids, run(model, ids)[:, -1].argmax(-1, keepdim=True)], 1)
            made = ids[0]
        else:
            made = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, use_cache=True,
                                  max_new_tokens=NEW_TOKENS, eos_token_id=None, pad_token_id=0)[0]
        logits = run(model, made[None])[0].double()
    assert len(made) == len(prompt) + NEW_TOKENS
    best = torch.topk(logits[len(prompt) - 1:-1], 2).values
    gap = float((best[:, 0] - best[:, 1]).min())
    assert gap <= GAP or torch.equal(logits[len(prompt) - 1:-1].argmax(-1), made[len(prompt):])
    logprobs = torch.log_softmax(logits[:-1], -1).gather(1, made[1:, None])[:, 0]
    return made.numpy(), logprobs.float().numpy(), gap


def main():
    folder = pathlib.Path(__file__).parent / "fixtures" / "families"
    torch.set_num_threads(1)
    for name in sys.argv[1:] or FAMILIES:
        seed, config_class, changes = FAMILIES[name]
        make_family_fixtures.STDDEV = stddev = OTHERS.get(name, STDDEV)
        if changes.get("sliding_window", 0) >= SEQUENCE:
            changes = {**changes, "sliding_window": 4096 if "layer_types" in changes else None}
        config, model, _ = build(seed, config_class, changes)
        model.eval()
        random = np.random.default_rng(seed)
        texts, smallest = [], float("inf")
        for length in BEYOND.get(name, LENGTHS):
            for _ in range(TRIES):
                tokens, logprobs, gap = text(model, random.integers(config.vocab_size, size=length))
                if gap > GAP:
                    break
            else:
                raise SystemExit(f"{name}: no prompt of {length} tokens in {TRIES} tries")
            smallest = min(smallest, gap)
            texts.append((length, tokens, logprobs))
        with open(folder / f"{name}.texts", "wb") as out:
            out.write(b"SWTEXTS1" + struct.pack("<2qd", len(texts), seed, stddev))
            for length, tokens, logprobs in texts:
                out.write(struct.pack("<2q", length, NEW_TOKENS))
                out.write(np.ascontiguousarray(tokens, dtype="<i4").tobytes())
                out.write(np.ascontiguousarray(logprobs, dtype="<f4").tobytes())
        kinds = sorted(len(set(tokens[length:].tolist())) for length, tokens, _ in texts)
        print(f"{name}: {len(texts)} texts, smallest gap {smallest:.4f}, {kinds} different tokens in them", flush=True)


if __name__ == "__main__":
    main()
