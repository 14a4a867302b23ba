#!/usr/bin/env bash
# `runner serve` beside llama.cpp's server on the same processors with the same bf16 weights and a bf16 cache, in turns in one run:
# the time to the first token of prompts, and tokens a second while several clients generate.
#
#   tests/bench/serve_peer.sh LLAMA_BUILD [--build build] [--model configs/models/gpt2-size.yaml] [--checkpoint DIR] [--threads N]
#       [--mesh 1,1,1,1] [--clients '1 4 8'] [--prompt 512] [--tokens 64] [--rounds 3] [--set KEY=VALUE]... [--port 8931]
#
# LLAMA_BUILD is a build folder of llama.cpp with bin/llama-server. Python converts the weights with the package `gguf`, which a
# temporary environment gets from PyPI. The weights are those of one step of training or, for a model too large for that here,
# of a Hugging Face directory DIR; ladder_weights.py makes one of random weights. In each round each number of clients asks ours
# and the peer, in turn the first: once for one token of a prompt of its own each, all at the same time, and once for TOKENS
# tokens of a short one. Both take token numbers, sample greedily, end at no token, and read each prompt anew. That both compute
# the same is shown first: the log-probability of the likeliest token behind a prompt. Prints medians over the rounds. Exit
# status 1: others had more than 10 % of the processors.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
usage() {
    sed -n '5,6s/^# *//p' "$0" >&2
    exit 2
}
[ $# -ge 1 ] || usage
llama=$1 && shift
build=build model=configs/models/gpt2-size.yaml mesh=1,1,1,1 clients='1 4 8' prompt=512 tokens=64 rounds=3 port=8931 checkpoint=''
threads=$(env -u OMP_NUM_THREADS nproc) settings=()
while [ $# -gt 0 ]; do
    case $1 in
        --build) build=${2:-} && shift ;;
        --model) model=${2:-} && shift ;;
        --checkpoint) checkpoint=$(realpath "${2:-}") && shift ;;
        --threads) threads=${2:-} && shift ;;
        --mesh) mesh=${2:-} && shift ;;
        --clients) clients=${2:-} && shift ;;
        --prompt) prompt=${2:-} && shift ;;
        --tokens) tokens=${2:-} && shift ;;
        --rounds) rounds=${2:-} && shift ;;
        --set) settings+=(--set "${2:-}") && shift ;;
        --port) port=${2:-} && shift ;;
        *) usage ;;
    esac
    shift
done
build=$(cd "$build" && pwd) || exit 2
model=$(realpath "$model") || exit 2
work=$(mktemp -d "$build/serve-peer.XXXXXX") || exit 3
servers=()
leave() {
    [ ${#servers[@]} -eq 0 ] || kill "${servers[@]}" 2>/dev/null
    rm -rf "$work"
}
trap leave EXIT
trap 'exit 3' INT TERM
fail() {
    echo "serve_peer: $*" >&2
    exit 3
}
[ -x "$llama/bin/llama-server" ] || fail "no program '$llama/bin/llama-server'"
if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q gguf numpy; } >"$work/log" 2>&1; then
    fail "$(tail -n 3 "$work/log")"
fi
bash examples/make_text.sh || fail "no text to train on"

most=0
for n in $clients; do [ "$n" -le "$most" ] || most=$n; done
ranks=$((${mesh//,/*}))
"$build/plan" emit configs/runs/quickstart.yaml -o "$work" --mesh_dim "$mesh" --set "model=$model" --set "directory=$work/run" \
    --set "cluster.accelerators_per_node=$ranks" --set "cluster.accelerator.memory=64 GB" --set "serve.max_batch=$most" \
    --set "serve.max_tokens=$((prompt + tokens + 64))" --set "serve.prompt_tokens=$prompt" --set precision.compute=bf16 \
    --set data.format=bytes --set data.holdout=0 "${settings[@]}" >"$work/log" 2>&1 || fail "plan emit: $(tail -n 2 "$work/log")"
start=()
[ "$ranks" -eq 1 ] || start=(mpirun -q -np "$ranks")
if [ -z "$checkpoint" ]; then # those of a step of training, as a Hugging Face directory
    checkpoint=$work/run
    OMP_NUM_THREADS=$((threads / ranks)) "${start[@]}" "$build/runner" train "$work/quickstart.plan.yaml" --steps 1 >"$work/log" 2>&1 \
        </dev/null || fail "training: $(tail -n 2 "$work/log")"
fi

"$work/venv/bin/python" - "$checkpoint" "$work/model.gguf" >"$work/log" 2>&1 <<'END' || fail "$(tail -n 3 "$work/log")"
import glob
import json
import struct
import sys

import gguf
import numpy as np

folder = sorted(glob.glob(sys.argv[1] + "/**/config.json", recursive=True))[-1].rsplit("/", 1)[0]
config = json.load(open(folder + "/config.json"))
heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
dim = config.get("head_dim") or config["hidden_size"] // heads
tensors = {}
for path in glob.glob(folder + "/*.safetensors"):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        base = file.tell()
        for name, about in header.items():
            if name == "__metadata__" or not name.endswith(".weight"):
                continue
            file.seek(base + about["data_offsets"][0])
            raw = file.read(about["data_offsets"][1] - about["data_offsets"][0])
            if about["dtype"] == "F32":
                bits = np.frombuffer(raw, np.uint32).astype(np.uint64)
                wide = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16  # to the nearest, ties to even
                values = wide.astype(np.uint16)
            else:
                assert about["dtype"] == "BF16", about["dtype"]
                values = np.frombuffer(raw, np.uint16)
            tensors[name] = values.reshape(about["shape"])
out = gguf.GGUFWriter(sys.argv[2], "llama")
out.add_block_count(config["num_hidden_layers"])
out.add_context_length(config["max_position_embeddings"])
out.add_embedding_length(config["hidden_size"])
out.add_feed_forward_length(config["intermediate_size"])
out.add_head_count(heads)
out.add_head_count_kv(kv_heads)
out.add_rope_dimension_count(dim)
out.add_key_length(dim)
out.add_value_length(dim)
out.add_rope_freq_base(config.get("rope_theta", 10000.0))
out.add_layer_norm_rms_eps(config["rms_norm_eps"])
out.add_vocab_size(config["vocab_size"])
out.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)
# a tokenizer that is never asked for more than a token's text
out.add_tokenizer_model("llama")
size, byte = config["vocab_size"], gguf.TokenType.BYTE
at = size - 256  # bytes, which a text may not end within, are the last tokens
words = [f"<0x{i - at:02X}>" if i >= at else f"word{i} " for i in range(size)]
out.add_token_list(words)
out.add_token_scores([0.0] * size)
out.add_token_types([byte if i >= at else gguf.TokenType.NORMAL for i in range(size)])
out.add_bos_token_id(size - 1)
out.add_eos_token_id(size - 1)


def matrix(name, values):
    out.add_tensor(name, np.ascontiguousarray(values).view(np.uint8), raw_dtype=gguf.GGMLQuantizationType.BF16)


def norm(name, values):
    out.add_tensor(name, (values.astype(np.uint32) << 16).view(np.float32))


def turned(values, count):  # llama.cpp turns neighbours, Hugging Face halves
    return values.reshape(count, 2, dim // 2, -1).swapaxes(1, 2).reshape(values.shape)


matrix("token_embd.weight", tensors["model.embed_tokens.weight"])
norm("output_norm.weight", tensors["model.norm.weight"])
if "lm_head.weight" in tensors and not config.get("tie_word_embeddings"):
    matrix("output.weight", tensors["lm_head.weight"])
for layer in range(config["num_hidden_layers"]):
    theirs, ours = f"blk.{layer}.", f"model.layers.{layer}."
    norm(theirs + "attn_norm.weight", tensors[ours + "input_layernorm.weight"])
    norm(theirs + "ffn_norm.weight", tensors[ours + "post_attention_layernorm.weight"])
    matrix(theirs + "attn_q.weight", turned(tensors[ours + "self_attn.q_proj.weight"], heads))
    matrix(theirs + "attn_k.weight", turned(tensors[ours + "self_attn.k_proj.weight"], kv_heads))
    for a, b in (("attn_v", "self_attn.v_proj"), ("attn_output", "self_attn.o_proj"), ("ffn_gate", "mlp.gate_proj"),
                 ("ffn_up", "mlp.up_proj"), ("ffn_down", "mlp.down_proj")):
        matrix(f"{theirs}{a}.weight", tensors[f"{ours}{b}.weight"])
out.write_header_to_file()
out.write_kv_data_to_file()
out.write_tensors_to_file()
out.close()
END

OMP_NUM_THREADS=$((threads / ranks)) "${start[@]}" "$build/runner" serve "$work/quickstart.plan.yaml" --checkpoint "$checkpoint" \
    --listen "127.0.0.1:$port" >"$work/ours.log" 2>&1 </dev/null &
servers+=($!)
"$llama/bin/llama-server" -m "$work/model.gguf" -t "$threads" -tb "$threads" -np "$most" -c $((most * (prompt + tokens + 64))) \
    -ctk bf16 -ctv bf16 --host 127.0.0.1 --port $((port + 1)) >"$work/peer.log" 2>&1 </dev/null &
servers+=($!)
"$work/venv/bin/python" - "$port" "$prompt" "$tokens" "$rounds" "$clients" <<'END'
import http.client
import json
import statistics
import sys
import threading
import time

port, length, tokens, rounds = map(int, sys.argv[1:5])
counts = list(map(int, sys.argv[5].split()))


def send(peer, path, body):
    c = http.client.HTTPConnection("127.0.0.1", port + peer, timeout=600)
    c.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    answer = c.getresponse()
    said = answer.read()
    assert answer.status == 200, said
    return json.loads(said)


def ask(peer, prompt, count):
    if peer:
        answer = send(1, "/completion", {"prompt": prompt, "n_predict": count, "temperature": 0, "ignore_eos": True,
                                         "cache_prompt": False, "stream": False})
        assert answer["tokens_predicted"] == count, answer
    else:
        answer = send(0, "/v1/completions", {"model": "quickstart", "prompt": prompt, "max_tokens": count, "temperature": 0,
                                             "ignore_eos": True})
        assert answer["usage"]["completion_tokens"] == count, answer["usage"]


def likeliest(peer, prompt):
    if peer:
        answer = send(1, "/completion", {"prompt": prompt, "n_predict": 1, "temperature": 0, "n_probs": 1,
                                         "cache_prompt": False})
        return answer["completion_probabilities"][0]["logprob"]
    answer = send(0, "/v1/completions", {"model": "quickstart", "prompt": prompt, "max_tokens": 1, "temperature": 0,
                                         "logprobs": 1})
    return answer["choices"][0]["logprobs"]["token_logprobs"][0]


def busy():
    fields = list(map(int, open("/proc/stat").readline().split()[1:9]))
    return sum(fields) - fields[3] - fields[4], sum(fields)


for peer in (0, 1):
    for attempt in range(600):
        try:
            ask(peer, [65], 1)
            break
        except (OSError, AssertionError):
            time.sleep(0.1)
    else:
        sys.exit("serve_peer: no answer from " + ("llama.cpp" if peer else "runner serve"))
text = [7 * i * i % 96 + 32 for i in range(length)]
ours, theirs = likeliest(0, text), likeliest(1, text)
print(f"log-probability of the likeliest token behind {length}: {ours:.4f} ours, {theirs:.4f} llama.cpp")
assert abs(ours - theirs) < 0.05, "they do not compute the same"

seed, others = [0], []


def turn(peer, clients, size, count):
    prompts = []
    for _ in range(clients):
        seed[0] += 1
        prompts.append([seed[0] % 90 + 33, seed[0] // 90 + 33] + [(7 * i * i + seed[0]) % 96 + 32 for i in range(2, size)])
    took = [0.0] * clients

    def run(i):
        begin = time.monotonic()
        ask(peer, prompts[i], count)
        took[i] = time.monotonic() - begin

    before = busy()
    time.sleep(0.5)
    after = busy()
    others.append((after[0] - before[0]) / max(1, after[1] - before[1]))
    threads = [threading.Thread(target=run, args=(i,)) for i in range(clients)]
    begin = time.monotonic()
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return statistics.mean(took), time.monotonic() - begin


print(f"| clients | first token of {length}, s | llama.cpp | times as fast | tokens a second | llama.cpp | times as fast |")
print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
for clients in counts:
    first, rate = {0: [], 1: []}, {0: [], 1: []}
    for round in range(rounds):
        for peer in (round % 2, 1 - round % 2):
            first[peer].append(turn(peer, clients, length, 1)[0])
            rate[peer].append(clients * tokens / turn(peer, clients, 16, tokens)[1])
    f, r = ({peer: statistics.median(x[peer]) for peer in (0, 1)} for x in (first, rate))
    print(f"| {clients} | {f[0]:.3f} | {f[1]:.3f} | {f[1] / f[0]:.2f} | {r[0]:.1f} | {r[1]:.1f} | {r[0] / r[1]:.2f} |", flush=True)
print(f"others had up to {100 * max(others):.0f} % of the processors" + (": these figures are none" if max(others) > 0.1 else ""))
sys.exit(max(others) > 0.1)
END
