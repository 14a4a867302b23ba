#!/usr/bin/env python3
"""Makes the fixtures of the model families: loss and gradients by Hugging Face transformers, fp32.

    pip install torch transformers numpy
    python3 tests/oracle/make_family_fixtures.py [NAME...]     # rewrites tests/oracle/fixtures/families/*

A fixture is two files: NAME.json, the config.json as transformers writes it, which the C test reads
as any user's would be; and NAME.bin, what transformers computes from it. Parameters are those of
the generator in generator.py under the names of our program (wq.0 is layer 0's wq); weights of norms
are 1 + its value and biases its value, so that a forgotten one shows (tests/support/harness.c does the
same). Tokens are token_rows of generator.py: inputs the first `sequence` of a row, labels the last.

Models with a window shorter than their sequence run by transformers' eager attention on masks that are made
here, one number for each query and key, so that nothing of transformers decides which keys a query sees; and in
fp64: of five layers and 64 tokens transformers' fp32 is off by up to 1e-5, as much as a test allows ours.

NAME.bin, little endian:

    8 bytes    "SWFAMILY"
    int64[4]   sequence, batch, seed, number of tensors
    float64[3] stddev, loss, gradient norm
    each tensor:
        char[40]  name, zero-padded ("grad wq", "logits")
        int64     number of elements
        float32[] row-major elements; gradients of layers are stacks, the layer is the first dimension
"""
import contextlib
import pathlib
import struct
import sys

import numpy as np
import torch
import transformers
from transformers import (Gemma2Config, Gemma3TextConfig, GraniteConfig, LlamaConfig, MistralConfig, Olmo2Config,
                          Olmo3Config, Phi3Config, Qwen2Config, Qwen3Config)

from generator import normal, token_rows

SEQUENCE, BATCH, STDDEV = 32, 2, 0.2
LONG, WINDOW = 64, 12  # of models with a window that is shorter, than a rank's part of 1,2,2,2 too
SMALL = dict(vocab_size=32, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256,
             rms_norm_eps=1e-5, attention_dropout=0.0)
LLAMA3 = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0,
              high_freq_factor=4.0, original_max_position_embeddings=64)
# With heads of 8 the wavelengths are 6, 63, 628 and 6283 tokens: one stays, one lies between, two stretch.
# Its ramp leaves two pairs of four alone, and the factor of cosines and sines is 1.139.
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=64)
# As DeepSeek has it: the bounds not rounded, another factor by mscale and mscale_all_dim.
YARN_MSCALE = dict(YARN, factor=8.0, truncate=False, mscale=1.0, mscale_all_dim=0.4, beta_fast=4.0, beta_slow=0.5)
# Of each pair another divisor; sequences of 32 tokens are longer than the original 16, and no longer than 64.
LONGROPE = dict(rope_type="longrope", rope_theta=10000.0, short_factor=[1.0, 1.1, 1.3, 2.0],
                long_factor=[1.05, 1.5, 4.0, 30.0])
PHI = dict(pad_token_id=None, eos_token_id=2)
FAMILIES = {
    "llama": (11, LlamaConfig, dict(num_key_value_heads=4, tie_word_embeddings=True)),
    "llama_rope_llama3": (12, LlamaConfig, dict(head_dim=8, rope_parameters=LLAMA3,
                                                tie_word_embeddings=True)),
    "llama_rope_linear": (13, LlamaConfig, dict(rope_parameters=dict(
        rope_type="linear", factor=4.0, rope_theta=10000.0))),
    "llama_bias": (14, LlamaConfig, dict(attention_bias=True, mlp_bias=True)),
    # As far as its window reaches: attention is not cut.
    "mistral": (15, MistralConfig, dict(sliding_window=SEQUENCE)),
    "qwen2": (16, Qwen2Config, dict(num_key_value_heads=1, rms_norm_eps=1e-6,
                                    tie_word_embeddings=True)),
    "qwen3": (17, Qwen3Config, dict(head_dim=8, rms_norm_eps=1e-6)),
    "qwen3_bias": (18, Qwen3Config, dict(head_dim=4, rms_norm_eps=1e-6, attention_bias=True,
                                         tie_word_embeddings=True)),
    # Without a padding token, whose row of the embedding transformers does not train.
    "olmo2": (19, Olmo2Config, dict(num_key_value_heads=4, pad_token_id=None, eos_token_id=2)),
    "olmo2_gqa": (20, Olmo2Config, dict(head_dim=8, num_key_value_heads=1, attention_bias=True,
                                        pad_token_id=None, eos_token_id=2)),
    # Periods of three layers and a rest of two; the whole sequence is within the window.
    "gemma3": (23, Gemma3TextConfig, dict(
        num_hidden_layers=5, head_dim=8, rms_norm_eps=1e-6, query_pre_attn_scalar=5,
        sliding_window=SEQUENCE, pad_token_id=None, eos_token_id=2,
        layer_types=((["sliding_attention"] * 2 + ["full_attention"]) * 2)[:5],
        rope_parameters=dict(
            full_attention=dict(rope_type="linear", factor=8.0, rope_theta=100000.0),
            sliding_attention=dict(rope_type="default", rope_theta=100.0)))),
    "llama_rope_yarn": (24, LlamaConfig, dict(head_dim=8, rope_parameters=YARN)),
    "qwen2_rope_yarn": (25, Qwen2Config, dict(hidden_size=32, rms_norm_eps=1e-6, rope_parameters=YARN_MSCALE)),
    "llama_rope_longrope": (26, LlamaConfig, dict(head_dim=8, rope_parameters=dict(
        LONGROPE, factor=4.0, attention_factor=0.9, original_max_position_embeddings=16))),
    # Phi-3-mini: all of a head rotates, within its window.
    "phi3": (27, Phi3Config, dict(PHI, num_key_value_heads=4, sliding_window=SEQUENCE)),
    # Phi-3-mini-128k and Phi-4-mini: three quarters of a head; beyond the original length, and within it.
    "phi3_long": (28, Phi3Config, dict(
        PHI, hidden_size=32, num_key_value_heads=4, original_max_position_embeddings=16,
        rope_parameters=LONGROPE)),
    "phi4": (29, Phi3Config, dict(
        PHI, hidden_size=64, tie_word_embeddings=True, original_max_position_embeddings=64,
        rope_parameters=dict(LONGROPE, partial_rotary_factor=0.75, short_factor=[1.0, 1.1, 1.3, 2.0, 2.5, 3.0],
                             long_factor=[1.05, 1.5, 4.0, 30.0, 40.0, 50.0]))),
    "granite": (21, GraniteConfig, dict(embedding_multiplier=3.0, attention_multiplier=0.25,
                                        residual_multiplier=0.22, logits_scaling=2.5)),
    # Most at what they are unless told: attention's scores are not scaled at all.
    "granite_tied": (22, GraniteConfig, dict(attention_bias=True, mlp_bias=True, logits_scaling=0.3,
                                             tie_word_embeddings=True)),
}
# Beyond their windows. Softcaps are small, and scores and logits large enough to be bent by them.
FAMILIES |= {
    "mistral_window": (24, MistralConfig, dict(sliding_window=WINDOW)),
    # The last of the layers have a window: 5 layers, of which nothing repeats.
    "qwen2_window": (25, Qwen2Config, dict(num_hidden_layers=5, use_sliding_window=True, sliding_window=WINDOW,
                                           max_window_layers=2)),
    "qwen3_window": (26, Qwen3Config, dict(head_dim=8, num_hidden_layers=4, use_sliding_window=True, sliding_window=7,
                                           layer_types=["full_attention", "sliding_attention"] * 2)),
    "gemma2": (27, Gemma2Config, dict(
        num_hidden_layers=5, head_dim=8, rms_norm_eps=1e-6, query_pre_attn_scalar=1, sliding_window=WINDOW,
        tie_word_embeddings=False,
        attn_logit_softcapping=5.0, final_logit_softcapping=6.0, pad_token_id=None, eos_token_id=2)),
    "gemma3_window": (28, Gemma3TextConfig, dict(
        num_hidden_layers=5, head_dim=8, rms_norm_eps=1e-6, query_pre_attn_scalar=5, sliding_window=WINDOW,
        tie_word_embeddings=False,
        pad_token_id=None, eos_token_id=2, layer_types=((["sliding_attention"] * 2 + ["full_attention"]) * 2)[:5],
        rope_parameters=dict(
            full_attention=dict(rope_type="linear", factor=8.0, rope_theta=100000.0),
            sliding_attention=dict(rope_type="default", rope_theta=100.0)))),
    "olmo3": (29, Olmo3Config, dict(
        num_hidden_layers=6, num_key_value_heads=4, sliding_window=WINDOW, pad_token_id=None, eos_token_id=2,
        rope_parameters=dict(
            full_attention=dict(rope_type="linear", factor=8.0, rope_theta=10000.0),
            sliding_attention=dict(rope_type="default", rope_theta=10000.0)))),
    # As OLMo 3 is published: yarn in layers without a window, whose original length a text outgrows.
    "olmo3_yarn": (30, Olmo3Config, dict(
        head_dim=8, num_hidden_layers=4, num_key_value_heads=4, sliding_window=WINDOW, pad_token_id=None,
        eos_token_id=2, rope_parameters=dict(
            full_attention=dict(rope_type="yarn", factor=8.0, original_max_position_embeddings=16, beta_fast=4.0,
                                beta_slow=1.0, attention_factor=1.2079441541679836, rope_theta=10000.0),
            sliding_attention=dict(rope_type="default", rope_theta=10000.0)))),
}
# Ours: (theirs in a layer, whether theirs is the transpose).
LAYER = {
    "attention_norm": ("input_layernorm.weight", False),
    "wq": ("self_attn.q_proj.weight", True),
    "wk": ("self_attn.k_proj.weight", True),
    "wv": ("self_attn.v_proj.weight", True),
    "wo": ("self_attn.o_proj.weight", False),
    "bq": ("self_attn.q_proj.bias", False),
    "bk": ("self_attn.k_proj.bias", False),
    "bv": ("self_attn.v_proj.bias", False),
    "bo": ("self_attn.o_proj.bias", False),
    "q_norm": ("self_attn.q_norm.weight", False),
    "k_norm": ("self_attn.k_norm.weight", False),
    "mlp_norm": ("post_attention_layernorm.weight", False),
    "w_gate": ("mlp.gate_proj.weight", True),
    "w_up": ("mlp.up_proj.weight", True),
    "w_down": ("mlp.down_proj.weight", False),
    "b_gate": ("mlp.gate_proj.bias", False),
    "b_up": ("mlp.up_proj.bias", False),
    "b_down": ("mlp.down_proj.bias", False),
}
# With norms behind their blocks.
POST_NORMS = {
    "attention_post_norm": ("post_attention_layernorm.weight", False),
    "mlp_post_norm": ("post_feedforward_layernorm.weight", False),
    **{ours: theirs for ours, theirs in LAYER.items() if ours not in ("attention_norm", "mlp_norm")},
}
# With norms before them, too.
BOTH_NORMS = {
    **POST_NORMS,
    "attention_norm": ("input_layernorm.weight", False),
    "mlp_norm": ("pre_feedforward_layernorm.weight", False),
}
# Ours: (theirs in a layer, which has several of ours, one's outputs behind the other's).
FUSED = {"wq": "self_attn.qkv_proj.weight", "wk": "self_attn.qkv_proj.weight", "wv": "self_attn.qkv_proj.weight",
         "w_gate": "mlp.gate_up_proj.weight", "w_up": "mlp.gate_up_proj.weight"}
SINGLE = {"embedding": "model.embed_tokens.weight", "final_norm": "model.norm.weight",
          "head": "lm_head.weight"}


def fill(parameter, seed, name, transposed, ones):
    shape = tuple(parameter.shape)
    fp64 = torch.float32 is torch.float64
    rounded = not fp64 or "norm" in name or name[0] == "b"  # as tests/support/harness.c has them
    value = normal(seed, name, shape[::-1] if transposed else shape, STDDEV, np.float32 if rounded else np.float64)
    value = value.astype(np.float64 if fp64 else np.float32)
    if "norm" in name and ones:
        value = value.dtype.type(1.0) + value
    with torch.no_grad():
        parameter.copy_(torch.from_numpy(value.T.copy() if transposed else value))


def is_windowed(config):
    return (getattr(config, "sliding_window", None) or SEQUENCE) < SEQUENCE


def masks(config, length):
    """What transformers adds to the scores [1, 1, queries, keys]: of layers of each kind, where there are kinds."""
    query, key = torch.arange(length)[:, None], torch.arange(length)[None]
    seen, hidden = (torch.tensor(x, dtype=torch.float32) for x in (0.0, torch.finfo(torch.float32).min))
    full = torch.where(key <= query, seen, hidden)[None, None]
    local = torch.where((key <= query) & (query - key < config.sliding_window), seen, hidden)[None, None]
    if getattr(config, "layer_types", None) is None:
        return local
    return {"full_attention": full, "sliding_attention": local}


@contextlib.contextmanager
def in_fp64():
    """Makes fp32 another name of fp64: models round to it here and there, whatever their own type."""
    names = [(torch, "float32", torch.float64), (torch, "float", torch.float64), (torch.Tensor, "float", torch.Tensor.double)]
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in names]
    for owner, name, value in names:
        setattr(owner, name, value)
    yield
    for owner, name, value in before:
        setattr(owner, name, value)


def run(model, ids):
    """Logits of every token, without a cache."""
    mask = masks(model.config, ids.shape[1]) if is_windowed(model.config) else None
    return model(input_ids=ids, attention_mask=mask, use_cache=False).logits


def parts(config, theirs):
    """The outputs of each of ours in a fused tensor."""
    heads, kv = config.num_attention_heads, config.num_key_value_heads
    dim = config.hidden_size // heads
    if "qkv" in theirs:
        return {"wq": heads * dim, "wk": kv * dim, "wv": kv * dim}
    return {"w_gate": config.intermediate_size, "w_up": config.intermediate_size}


def fill_parts(parameter, seed, layer, sizes):
    value = [normal(seed, f"{ours}.{layer}", (parameter.shape[1], rows), STDDEV) for ours, rows in sizes.items()]
    with torch.no_grad():
        parameter.copy_(torch.from_numpy(np.concatenate(value, axis=1).T.copy()))


def build(seed, config_class, changes):
    """The model with the generator's parameters, and what each of them is called here."""
    config = config_class(**{**SMALL, **changes})
    config.architectures = [config_class.__name__.replace("Text", "").replace("Config", "ForCausalLM")]
    if is_windowed(config):
        config._attn_implementation = "eager"
    model = getattr(transformers, config.architectures[0])(config).to(torch.float32)
    parameters = dict(model.named_parameters())
    known, ones = {}, config_class not in (Gemma2Config, Gemma3TextConfig)  # whose norms multiply by 1 + weight
    for ours, theirs in SINGLE.items():
        if theirs in parameters:
            known[theirs] = (ours, None, False)
            fill(parameters[theirs], seed, ours, False, ones)
    for layer in range(config.num_hidden_layers):
        names = {Olmo2Config: POST_NORMS, Olmo3Config: POST_NORMS, Gemma2Config: BOTH_NORMS,
                 Gemma3TextConfig: BOTH_NORMS}.get(config_class, LAYER)
        for ours, (theirs, transposed) in names.items():
            full = f"model.layers.{layer}.{theirs}"
            if full in parameters:
                known[full] = (ours, layer, transposed)
                fill(parameters[full], seed, f"{ours}.{layer}", transposed, ones)
        for theirs in sorted(set(FUSED.values())):
            full = f"model.layers.{layer}.{theirs}"
            if full in parameters:
                known[full] = (parts(config, theirs), layer, True)
                fill_parts(parameters[full], seed, layer, known[full][0])
    assert set(known) == set(parameters), set(parameters) - set(known)
    return config, model, known


def make(folder, name, seed, config_class, changes):
    if changes.get("sliding_window", SEQUENCE) >= SEQUENCE:
        return make_one(folder, name, seed, config_class, changes)
    with in_fp64():
        return make_one(folder, name, seed, config_class, changes)


def make_one(folder, name, seed, config_class, changes):
    config, model, known = build(seed, config_class, changes)
    model.train()
    parameters = dict(model.named_parameters())

    sequence = LONG if is_windowed(config) else SEQUENCE
    rows = torch.from_numpy(token_rows(seed, config.vocab_size, BATCH, sequence))
    logits = run(model, rows[:, :-1])
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
    loss.backward()

    stacks = {}
    for theirs, (ours, layer, transposed) in known.items():
        gradient = parameters[theirs].grad
        if isinstance(ours, dict):
            for part, rows in zip(ours, gradient.split(list(ours.values()))):
                stacks.setdefault(part, []).append(rows.T.numpy())
            continue
        stacks.setdefault(ours, []).append((gradient.T if transposed else gradient).numpy())
    tensors = {f"grad {t}": np.stack(g) for t, g in sorted(stacks.items())}
    norm = np.sqrt(sum(float(np.sum(np.square(g.astype(np.float64)))) for g in tensors.values()))
    tensors["logits"] = logits.detach().numpy()

    (folder / f"{name}.json").write_text(config.to_json_string())
    with open(folder / f"{name}.bin", "wb") as out:
        out.write(b"SWFAMILY")
        out.write(struct.pack("<4q", sequence, BATCH, seed, len(tensors)))
        out.write(struct.pack("<3d", STDDEV, loss.item(), norm))
        for tensor, value in tensors.items():
            out.write(struct.pack("<40sq", tensor.encode(), value.size))
            out.write(np.ascontiguousarray(value, dtype="<f4").tobytes())
    print(f"{name}: {len(tensors)} tensors, loss {loss.item():.6f}, gradient norm {norm:.6f}")


def main():
    folder = pathlib.Path(__file__).parent / "fixtures" / "families"
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or FAMILIES:
        seed, config_class, changes = FAMILIES[name]
        make(folder, name, seed, config_class, changes)


if __name__ == "__main__":
    main()
