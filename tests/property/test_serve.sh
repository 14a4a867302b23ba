#!/usr/bin/env bash
# `runner serve` on one, two and four ranks, of each two axes of the mesh: the answers of `runner generate` and `runner score`, streams,
# clients side by side, requests that are wrong or hostile, clients that leave, and every way to end.
#
#   tests/property/test_serve.sh [BUILD-FOLDER [HOSTILE-REQUESTS [CLIENTS [SECONDS [SEED]]]]]
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
build=$(cd "${1:-build}" && pwd) || exit 2
hostile=${2:-120} clients=${3:-8} seconds=${4:-0} seed=${5:-$RANDOM}
out=$build/tests/serve
echo "seed $seed"

server=''
fail() {
    echo "FAIL: $*"
    [ -f "$out/log" ] && tail -n 20 "$out/log"
    [ -f "$out/server.log" ] && tail -n 5 "$out/server.log"
    exit 1
}
# shellcheck disable=SC2317
leave() {
    [ -z "$server" ] || kill -KILL "$server" 2>/dev/null
}
trap leave EXIT

# shellcheck source=tests/support/ranks.sh
. tests/support/ranks.sh

declare -A ranks_of
emit() { # NAME RANKS MESH SLOTS [SETTINGS]
    ranks_of[$1]=$2
    "$build/plan" emit configs/runs/quickstart.yaml -o "$out/plan$1" --mesh_dim "$3" \
        --set name=small --set directory="$out/run" --set cluster.accelerators_per_node="$2" \
        --set model.hidden_size=64 --set model.intermediate_size=96 --set model.vocab_size=264 \
        --set model.num_hidden_layers=2 --set model.num_attention_heads=4 \
        --set model.num_key_value_heads=1 --set model.tie_word_embeddings=true \
        --set sequence_length=64 --set data.path="$out/text" --set data.format=bytes \
        --set optimizer.learning_rate=0.003 --set optimizer.total_steps=60 \
        --set serve.max_batch="$4" --set serve.max_tokens=90 --set "serve.chunk=${5:-16}" "${@:6}" \
        >"$out/log" 2>&1 || fail "plan emit $3"
}
start() { # NAME [OPTIONS]; $url is where it is
    local name=$1 ranks=${ranks_of[$1]} command=("$build/runner")
    shift
    : >"$out/server.log" # the last server's address is not this one's
    [ "$ranks" -eq 1 ] || command=(mpirun -q --mca ess_base_forward_signals '40,41' -np "$ranks" "$build/runner")
    "${command[@]}" serve "$out/plan$name/small.plan.yaml" --checkpoint "$out/model" \
        --listen 127.0.0.1:0 --client-timeout 2 "$@" >"$out/server.log" 2>&1 </dev/null &
    server=$!
    for ((i = 0; i < 600; i++)); do
        url=$(sed -n 's/^serving small at \([^ ]*\): .*/\1/p' "$out/server.log" 2>/dev/null)
        [ -z "$url" ] || return 0
        kill -0 "$server" 2>/dev/null || fail "the server does not start"
        sleep 0.1
    done
    fail "the server does not come up"
}
ended() { # CODE
    wait "$server"
    local code=$?
    server=''
    [ $code -eq "$1" ] || fail "the server left with $code, not $1"
}
client() {
    python3 tests/property/serve_client.py "$1" "$url" "${@:2}" >"$out/log" 2>&1 || fail "$1"
    [ ! -s "$out/log" ] || tail -n 1 "$out/log"
}
rank() { # the process of the only one
    pgrep -P "$server" || echo "$server"
}
begin() { # HOW [PROCESS [SIGNAL [TEXTS]]]; a long stream, into $out/long
    python3 tests/property/serve_client.py long "$url" "$@" >"$out/long" 2>&1 &
    reader=$!
    for ((i = 0; i < 100; i++)); do
        ! grep -q begun "$out/long" || return 0
        sleep 0.05
    done
    fail "the stream does not begin"
}
streamed() { # ENDED
    wait "$reader" || fail "the reader of the stream"
    [ "$(tail -n 1 "$out/long")" = "$1" ] || fail "the stream ended '$(tail -n 1 "$out/long")', not '$1'"
}

rm -rf "$out"
mkdir -p "$out"
for ((i = 0; i < 2000; i++)); do
    echo -n 'the quick brown fox jumps over the lazy dog. pack my box with five dozen liquor jugs. '
done >"$out/text"
# tokens are made inside calls of chunks
emit 1 1 1,1,1,1 4 16 --set serve.interleave=true
emit 2 2 1,2,1,1 8
emit 4 4 1,1,2,2 4
emit sp 2 1,1,1,2 4
# whose calls mix: prompts, tokens, and prompts alone in more rows
emit tp 2 1,1,2,1 4 1 --set serve.token_budget=8
emit mixed 1 1,1,1,1 4 1 --set serve.token_budget=8
"$build/runner" train "$out/plan1/small.plan.yaml" >"$out/log" 2>&1 </dev/null || fail training
"$build/runner" export "$out/run" "$out/model" >"$out/log" 2>&1 || fail "runner export"
# bytes, and the two special tokens of chatml
python3 - "$out/model" <<'PYTHON' || fail "the tokenizer"
import json, sys
plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
others = [b for b in range(256) if b not in plain]
letter = {b: chr(b) for b in plain} | {b: chr(256 + i) for i, b in enumerate(others)}
special = [{"id": 256 + i, "content": text, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": True} for i, text in enumerate(("<|im_start|>", "<|im_end|>"))]
bytes_of = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
json.dump({"version": "1.0", "truncation": None, "padding": None, "added_tokens": special, "normalizer": None,
           "pre_tokenizer": bytes_of, "post_processor": None, "decoder": bytes_of,
           "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                     "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                     "vocab": {letter[b]: b for b in range(256)}, "merges": []}},
          open(sys.argv[1] + "/tokenizer.json", "w"))
json.dump({"eos_token": "<|im_end|>"}, open(sys.argv[1] + "/tokenizer_config.json", "w"))
PYTHON
cat >"$out/prompts.jsonl" <<'LINES'
{"prompt": "the quick", "max_new_tokens": 40}
{"tokens": [116, 104, 101, 32], "n": 3, "temperature": 0.9, "top_k": 20, "seed": 3, "max_new_tokens": 30}
{"prompt": "five dozen, quick and brown", "stop": [" q", "e", "o"]}
{"prompt": "fox jumps over the lazy dog. pack my box with five dozen li", "max_new_tokens": 500}
{"prompt": "the ", "temperature": 2.5, "top_p": 0.99, "min_p": 0.001, "repetition_penalty": 1.2, "seed": 9}
{"prompt": "lazy dog", "presence_penalty": 0.5, "frequency_penalty": 0.75, "repetition_penalty": 1.1, "max_new_tokens": 30}
{"prompt": "pack", "temperature": 4, "frequency_penalty": -0.5, "min_new_tokens": 12, "stop": ["e", "o"], "seed": 2, "max_new_tokens": 30}
LINES
# `runner generate` gives a line's place in the file to what is drawn, a request has but one
while read -r line; do
    echo "$line" >"$out/one.jsonl"
    "$build/runner" generate "$out/plan1/small.plan.yaml" --checkpoint "$out/model" \
        --prompts "$out/one.jsonl" --logprobs 2>"$out/log" || fail "runner generate"
done <"$out/prompts.jsonl" >"$out/generated.jsonl"
echo -n 'the quick brown fox is not so lazy as it was, so they say' >"$out/known"
"$build/runner" score "$out/plan1/small.plan.yaml" --checkpoint "$out/model" --json "$out/known" \
    >"$out/score.json" 2>"$out/log" || fail "runner score"

start 1 --queue 500 --connections 64
client page
client same "$out/prompts.jsonl" "$out/generated.jsonl"
client echo "$out/score.json"
client top
client chat
client wrong
client nothing
client prefix
client ends
client adjusted
client histograms
client half_closed
client silent 64
client busy
client delay 5 200
client turns
client gone
client vanished "$(rank)"
client parallel "$clients" "$seed" "$seconds"
files=$(find "/proc/$server/fd" | wc -l)
client hostile "$hostile" "$seed"
# what a sanitizer keeps of freed memory is not the server's
grep -q '__[alt]san_init' "$build/runner" || client flat "$(rank)" $((3 * hostile)) "$clients"
for ((i = 0; $(find "/proc/$server/fd" | wc -l) > files; i++)); do
    [ $i -lt 100 ] || fail "hostile requests leave files open"
    sleep 0.1
done
# TERM: what runs is finished, nothing new is taken
begin drain "$server"
streamed whole
ended 0
grep -q '^stopping: ' "$out/server.log" || fail "nothing is said of stopping"

# Under a sanitizer a share of them: calls that mix on two ranks, and two axes.
plans=(mixed tp sp 2 4)
if [ "${SW_TEST_SHARE:-1}" -gt 1 ] && grep -q '__[alt]san_init' "$build/runner"; then plans=(tp 4); fi
for plan in "${plans[@]}"; do
    [ -z "$server" ] || { kill -TERM "$server" && wait "$server"; }
    start "$plan" --drain 300 --queue 600
    client same "$out/prompts.jsonl" "$out/generated.jsonl" greedy
    client echo "$out/score.json"
    client top
    client adjusted
    client parallel 4 "$seed"
    client gone
    case $plan in
        mixed | tp)
            client continued
            client delay 3 256
            ;;
    esac
done
# what mpirun passes on as it is
begin plain "$server" 40 40
streamed whole
ended 0

# a rank that is killed: the client hears of it within 5 s, and so does the launcher, in one line
start 2
begin timed "$(pgrep -P "$(pgrep -P "$server" | tail -n 1)")" 9
wait "$reader" || fail "the reader of the stream"
[ "$(tail -n 1 "$out/long")" != whole ] || fail "a stream that lost a rank ends as if it were whole"
ended 3
sed -i '/^serving /d; /: note: /d' "$out/server.log"
[ "$(wc -l <"$out/server.log")" -eq 1 ] || fail "a rank that is killed is said in more than a line"
grep -q "^rank 1 (host .*): error: ended by signal 9 (Killed)" "$out/server.log" ||
    fail "what is said of a rank that was killed"

# an end that cannot wait; a socket in the file system; a token
start 1 --drain 0 --deadline 2 --listen "unix:$out/socket"
[ "$(stat -c %a "$out/socket")" = 600 ] || fail "others may use the socket"
client ready
client late "$(rank)"
begin plain "$server"
streamed error
ended 143
[ ! -e "$out/socket" ] || fail "the socket is left behind"
start 1 --drain 300 --queue 100000
client cut "$server"
ended 143
echo 'se-cret' >"$out/token"
start 1 --token-file "$out/token" --listen 0.0.0.0:0
url=http://127.0.0.1:${url##*:}
client token se-cret
kill -INT "$server"
ended 0

refused() { # CODE TEXT OPTIONS...
    "$build/runner" serve "$out/plan1/small.plan.yaml" --checkpoint "$out/model" "${@:3}" >"$out/said" 2>&1
    [ $? -eq "$1" ] || fail "'${*:3}' gives another exit code than $1"
    sed -i "s#$out/##g" "$out/said"
    printf '%s\n' "$2" | diff - "$out/said" >"$out/log" || fail "what is said of '${*:3}'"
}
: >"$out/empty"
printf 'a\0secret\n' >"$out/cut"
refused 2 "runner: error: '0.0.0.0:0' can be reached from other machines; give --token-file FILE, or listen at 127.0.0.1" \
    --listen 0.0.0.0:0
refused 2 "runner: error: 'here' is not an address to listen at; give HOST:PORT, PORT or unix:PATH" --listen here
refused 2 "runner: error: cannot listen at 'unix:/nowhere/socket': No such file or directory; name a socket elsewhere with --listen" --listen unix:/nowhere/socket
refused 2 "nothing: error: cannot read it: No such file or directory; --token-file names a file of one line" --token-file "$out/nothing" --listen 0
refused 2 "empty: error: its first line is not a token; write letters and digits there" --token-file "$out/empty" --listen 0
refused 2 "cut: error: its first line is not a token; write letters and digits there" --token-file "$out/cut" --listen 0
refused 2 "runner: error: no chat template is named 'jinja'; there are llama-3, chatml and mistral" --chat-template jinja
refused 2 "runner serve: error: --queue must be a whole number from 1 to 1000000, not '0'; see 'runner serve --help'" --queue 0
refused 2 "runner serve: error: --deadline must be a whole number from 0 to 864000, not '-1'; see 'runner serve --help'" --deadline -1
refused 2 "runner: error: cannot listen at 'unix:model': the file is no socket; name another one with --listen" --listen "unix:$out/model"
refused 2 "runner serve: error: --model must be a name in UTF-8, in one line; see 'runner serve --help'" --model $'caf\xe9'
refused 2 "runner serve: error: --model must be a name in UTF-8, in one line; see 'runner serve --help'" --model $'a\nb'
refused 2 "runner serve: error: --listen needs a value: ADDRESS; see 'runner serve --help'" --listen
refused 2 "runner serve: error: unknown option '--colour'; see 'runner serve --help'" --colour
echo "served on one, two and four ranks: $hostile hostile requests, $clients clients, seed $seed"
