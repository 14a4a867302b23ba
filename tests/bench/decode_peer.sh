#!/usr/bin/env bash
# Decoding of texts beside llama.cpp: a model of the same shape and size, random weights, the same
# threads, in turns in one run. Medians of all rounds, least and most in brackets, by the wall's clock.
#
#   tests/bench/decode_peer.sh [--few-bits] LLAMA_BUILD [BUILD [THREADS [LAYERS [ROUNDS [TEXTS...]]]]]
#
# Weights in bf16; with --few-bits also in int8, e4m3 and int4 here, in Q8_0, Q4_0 and Q4_K_M there, which
# bin/llama-quantize makes.
# LLAMA_BUILD is a build folder of llama.cpp with bin/llama-bench, for one text, and bin/llama-batched-bench, for
# several (cmake -DGGML_NATIVE=ON, targets of these names). TEXTS: `1 8`, or those whose program is there.
# Python writes the model with the package `gguf`, which a temporary environment gets from PyPI.
# Exit status 1: others had more than 10 % of the processors.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
formats=(bf16) peers=(bf16)
[ "${1:-}" != --few-bits ] || { formats+=(int8 e4m3 int4) peers+=(Q8_0 Q4_0 Q4_K_M) && shift; }
[ $# -ge 1 ] || { sed -n '2,12p' "$0" >&2 && exit 2; }
. tests/bench/quiet.sh
peer=$1/bin
bench=${2:-build}/bench/bench_decode
threads=${3:-2} layers=${4:-16} rounds=${5:-3} texts=("${@:6}")
cached=64 tokens=16
fail() {
    echo "decode_peer: $*" >&2
    exit 3
}
if [ ${#texts[@]} -eq 0 ]; then
    [ ! -x "$peer/llama-bench" ] || texts+=(1)
    [ ! -x "$peer/llama-batched-bench" ] || texts+=(8)
fi
[ ${#texts[@]} -gt 0 ] || fail "no program '$peer/llama-bench'"
[ -x "$bench" ] || fail "no program '$bench'"
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT
if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q gguf numpy; } >"$work/log" 2>&1; then
    fail "$(tail -3 "$work/log")"
fi

# the shape of bench_decode's model: a tied head, so there is no output.weight
"$work/venv/bin/python" - "$work/bf16.gguf" "$layers" >"$work/log" 2>&1 <<'END' || fail "$(tail -3 "$work/log")"
import sys
import gguf
import numpy as np

vocab, hidden, wide, heads, kv_heads, head_dim = 32000, 2048, 8192, 32, 8, 64
layers = int(sys.argv[2])
random = np.random.default_rng(1)
out = gguf.GGUFWriter(sys.argv[1], "llama")
out.add_block_count(layers)
out.add_context_length(2048)
out.add_embedding_length(hidden)
out.add_feed_forward_length(wide)
out.add_head_count(heads)
out.add_head_count_kv(kv_heads)
out.add_rope_dimension_count(head_dim)
out.add_rope_freq_base(500000.0)
out.add_layer_norm_rms_eps(1e-5)
out.add_vocab_size(vocab)
out.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)
out.add_tokenizer_model("none")


def matrix(name, rows, columns):
    values = ((random.random((rows, columns), dtype=np.float32) - 0.5) * 0.06).view(np.uint32) >> 16
    out.add_tensor(name, values.astype(np.uint16).view(np.uint8), raw_dtype=gguf.GGMLQuantizationType.BF16)


def norm(name):
    out.add_tensor(name, np.ones(hidden, dtype=np.float32))


matrix("token_embd.weight", vocab, hidden)
norm("output_norm.weight")
for layer in range(layers):
    block = f"blk.{layer}."
    norm(block + "attn_norm.weight")
    norm(block + "ffn_norm.weight")
    matrix(block + "attn_q.weight", heads * head_dim, hidden)
    matrix(block + "attn_k.weight", kv_heads * head_dim, hidden)
    matrix(block + "attn_v.weight", kv_heads * head_dim, hidden)
    matrix(block + "attn_output.weight", hidden, heads * head_dim)
    matrix(block + "ffn_gate.weight", wide, hidden)
    matrix(block + "ffn_up.weight", wide, hidden)
    matrix(block + "ffn_down.weight", hidden, wide)
out.write_header_to_file()
out.write_kv_data_to_file()
out.write_tensors_to_file()
out.close()
END

for peer_format in "${peers[@]:1}"; do
    "$peer/llama-quantize" "$work/bf16.gguf" "$work/$peer_format.gguf" "$peer_format" "$threads" >"$work/log" 2>&1 ||
        fail "llama-quantize: $(tail -3 "$work/log")"
done

ours() { # FORMAT TEXTS
    "$bench" "$1" "$threads" "$2" "$cached" 5 "$layers" 0 wall >>"$work/ours.$1.$2" 2>"$work/log" ||
        fail "$(tail -3 "$work/log")"
}
theirs() { # FORMAT TEXTS: JSON's lines
    if [ "$2" -eq 1 ]; then
        "$peer/llama-bench" -m "$work/$1.gguf" -t "$threads" -p 0 -n "$tokens" -d "$cached" -r 3 -ctk bf16 -ctv bf16 \
            -o jsonl >>"$work/peer.$1.1" 2>"$work/log"
    else
        for _ in 1 2 3; do
            "$peer/llama-batched-bench" -m "$work/$1.gguf" -t "$threads" -tb "$threads" -npp "$cached" -ntg "$tokens" \
                -npl "$2" -c $(($2 * (cached + tokens))) -ctk bf16 -ctv bf16 --output-format jsonl 2>"$work/log" |
                grep '^{' >>"$work/peer.$1.$2" || return
        done
    fi
}
for n in "${texts[@]}"; do
    for ((round = 0; round < rounds; round++)); do
        for ((i = 0; i < ${#formats[@]}; i++)); do
            look_around "$work/others"
            for turn in 0 1; do
                if [ $(((round + turn) % 2)) -eq 0 ]; then
                    ours "${formats[i]}" "$n"
                else
                    theirs "${peers[i]}" "$n" || fail "llama.cpp: $(tail -3 "$work/log")"
                fi
            done
        done
    done
    "$work/venv/bin/python" - "$work" "$threads" "$layers" "$n" "${formats[*]}" "${peers[*]}" <<'END'
import json
import re
import statistics
import sys

work, threads, layers, texts = sys.argv[1:5]
print(f"{threads} thread(s), {layers} layers, a token of each of {texts} text(s), ms: median (least to most)")
for name in sys.argv[5].split():
    said = open(f"{work}/ours.{name}.{texts}").read()
    ours = [float(ms) for ms in re.findall(r"median ([0-9.]+) ms", said)]
    shares = re.findall(r"([0-9.]+) median of the rounds", said)
    print(f"  here {name:10} {statistics.median(ours):7.1f} ({min(ours):.1f} to {max(ours):.1f}), "
          f"{', '.join(shares)} of the sweep")
for name in sys.argv[6].split():
    peer = []
    for line in open(f"{work}/peer.{name}.{texts}"):
        said = json.loads(line)
        peer += [1e3 / rate for rate in said["samples_ts"]] if texts == "1" else [1e3 * said["t_tg"] / said["tg"]]
    print(f"  llama.cpp {name:5} {statistics.median(peer):7.1f} ({min(peer):.1f} to {max(peer):.1f})")
END
done
what_others_had "$work/others"
