#!/usr/bin/env python3
"""The keys that transformers' configuration classes of our families write, each with its default.

  config_keys.py PYTHON... >tests/oracle/fixtures/config_keys.txt    PYTHON: of transformers 4, of 5, ...

A line a key: its family, and "key": value. Keys that every file of ours has are left out, and so are
names of classes and versions, by which a file is known to be transformers' own.
"""
import json
import subprocess
import sys

PROGRAM = """
import json
from transformers import LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config
for config in LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config:
    print(json.dumps([config.__name__[:-6], json.loads(config(num_hidden_layers=2).to_json_string(use_diff=False))]))
"""
OURS = {"vocab_size", "intermediate_size", "num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads",
        "head_dim", "sliding_window", "rms_norm_eps", "architectures", "model_type", "transformers_version", "torch_dtype"}
found = set()
for python in sys.argv[1:]:
    for line in subprocess.run([python, "-c", PROGRAM], capture_output=True, check=True, text=True).stdout.splitlines():
        family, keys = json.loads(line)
        found |= {f"{family} {json.dumps(key)}: {json.dumps(value)}" for key, value in keys.items() if key not in OURS}
print("\n".join(sorted(found)))
