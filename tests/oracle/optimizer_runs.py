"""The runs of the optimizer's fixtures: a small Llama with weights of a fixed generator, data with
some sequences that are nothing like the others, and what each case asks of the optimizer. Shared by
make_optimizer_fixtures.py, which trains them in PyTorch, and test_optimizer.py, which trains them
here. Only the Python standard library is needed.
"""
import json
import os
import random
import struct

VOCAB, HIDDEN, MLP, LAYERS, HEADS, KV_HEADS = 256, 64, 128, 2, 4, 2
LENGTH, BATCH, STEPS, SEED, SEQUENCES = 32, 4, 20, 3, 160
CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": VOCAB,
          "hidden_size": HIDDEN, "intermediate_size": MLP, "num_hidden_layers": LAYERS,
          "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "rms_norm_eps": 1e-5,
          "max_position_embeddings": 64, "rope_theta": 10000.0, "tie_word_embeddings": False,
          "torch_dtype": "float32"}
SPIKES = {"spike_window": 4, "spike_threshold": 3.0}
CASES = {
    "int8_wsd": {"moments": "int8", "schedule": "wsd", "decay_steps": 8},
    "bf16_inverse_sqrt": {"moments": "bf16", "schedule": "inverse_sqrt",
                          "no_decay": "[lm_head, 'model.layers.*.mlp']"},
    "skip": {"on_spike": "skip", **SPIKES},
    "rewind": {"on_spike": "rewind", "max_rewinds": 6, **SPIKES},
    "int8_skip": {"moments": "int8", "on_spike": "skip", **SPIKES},
}
COMMON = {"learning_rate": 8e-3, "min_learning_rate": 8e-4, "warmup_steps": 3,
          "total_steps": STEPS, "weight_decay": 0.1, "eps": 1e-8, "grad_clip": 1.0}
EVERY = 3  # steps from one checkpoint to the next


def shapes():
    """Name and shape of every tensor, in the order in which the generator fills them."""
    yield "model.embed_tokens.weight", (VOCAB, HIDDEN)
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        for name, rows, columns in (("q_proj", HIDDEN, HIDDEN), ("o_proj", HIDDEN, HIDDEN),
                                    ("k_proj", HIDDEN // 2, HIDDEN), ("v_proj", HIDDEN // 2, HIDDEN)):
            yield f"{at}self_attn.{name}.weight", (rows, columns)
        yield f"{at}mlp.gate_proj.weight", (MLP, HIDDEN)
        yield f"{at}mlp.up_proj.weight", (MLP, HIDDEN)
        yield f"{at}mlp.down_proj.weight", (HIDDEN, MLP)
        yield f"{at}input_layernorm.weight", (HIDDEN,)
        yield f"{at}post_attention_layernorm.weight", (HIDDEN,)
    yield "model.norm.weight", (HIDDEN,)
    yield "lm_head.weight", (VOCAB, HIDDEN)


def weights():
    """name -> (shape, numbers that fp32 has)."""
    draw = random.Random(11)
    out = {}
    for name, shape in shapes():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        numbers = [1 + 0.1 * draw.uniform(-1, 1) if len(shape) == 1 else draw.uniform(-0.15, 0.15)
                   for _ in range(count)]
        out[name] = (shape, list(struct.unpack(f"<{count}f", struct.pack(f"<{count}f", *numbers))))
    return out


def tokens():
    """Counting upwards, but some sequences jump about."""
    draw = random.Random(12)
    out = []
    for sequence in range(SEQUENCES):
        first = draw.randrange(VOCAB)
        strange = sequence % 23 == 7
        out += [draw.randrange(VOCAB) if strange else (first + i) % VOCAB for i in range(LENGTH)]
    return out + [0]


def write(folder):
    """A Hugging Face directory MODEL and data.bin, 16 bits a token."""
    os.makedirs(f"{folder}/model", exist_ok=True)
    with open(f"{folder}/model/config.json", "w") as out:
        json.dump(CONFIG, out)
    header, data = {}, b""
    for name, (shape, numbers) in weights().items():
        body = struct.pack(f"<{len(numbers)}f", *numbers)
        header[name] = {"dtype": "F32", "shape": shape,
                        "data_offsets": [len(data), len(data) + len(body)]}
        data += body
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(f"{folder}/model/model.safetensors", "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + data)
    with open(f"{folder}/data.bin", "wb") as out:
        out.write(struct.pack(f"<{len(tokens())}H", *tokens()))


def _mix(x):
    word = (1 << 64) - 1
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & word
    x = (x ^ x >> 27) * 0x94D049BB133111EB & word
    return x ^ x >> 31


def window(sequence):
    """Where sequence number `sequence` of the data begins (runner/train/dataset.h)."""
    golden, word = 0x9E3779B97F4A7C15, (1 << 64) - 1
    windows = (len(tokens()) - 1) // LENGTH
    key = _mix((SEED * golden + sequence // windows + 1) & word)
    half = 1
    while half < 31 and 1 << 2 * half < windows:
        half += 1
    x, mask = sequence % windows, (1 << half) - 1
    while True:
        left, right = x >> half, x & mask
        for turn in range(4):
            left, right = right, left ^ (_mix((key + turn * golden + right) & word) & mask)
        x = left << half | right
        if x < windows:
            return x * LENGTH
