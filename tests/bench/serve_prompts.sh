#!/usr/bin/env bash
# What a long prompt takes and what it costs the texts beside it, on one CPU rank: the time of one prompt of
# 2,000 tokens with max_batch 1, 4, 16 and 64, predicted and as `runner generate` has it; then, of
# `runner serve`, the time between two tokens of 7 texts that run, before and while a prompt of 2,048 tokens
# comes in, that prompt's time to its first token, with several budgets, and that of the same prompt once more.
#
#   tests/bench/serve_prompts.sh [--build build] [--model configs/models/quickstart.yaml] [--checkpoint DIR]
#       [--budgets '512 128 32 16'] [--precision fp32] [--clock wall] [--port 8917] [--tokens 1500]
#
# The weights are those of one step of training or, for a model too large for that here, of a Hugging Face directory
# DIR; ladder_weights.py makes one of random weights. --tokens: of each of the 7 texts, more than come while a prompt is read.
# Prints two tables. A machine that does something else shows in the 99th percentiles first; `--clock processor`
# takes the server's processor time for the second one. Every text is of one letter, so that each token shows.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
build=build model=configs/models/quickstart.yaml budgets='512 128 32 16' port=8917
precision=fp32 clock=wall checkpoint='' tokens=1500
while [ $# -gt 0 ]; do
    case $1 in
        --build) build=${2:-} && shift ;;
        --model) model=${2:-} && shift ;;
        --checkpoint) checkpoint=$(realpath "${2:-}") && shift ;;
        --tokens) tokens=${2:-} && shift ;;
        --budgets) budgets=${2:-} && shift ;;
        --precision) precision=${2:-} && shift ;;
        --clock) clock=${2:-} && shift ;;
        --port) port=${2:-} && shift ;;
        *)
            sed -n '7,8s/^# *//p' "$0" >&2
            exit 2
            ;;
    esac
    shift
done
build=$(cd "$build" && pwd) || exit 2
work=$(mktemp -d "$build/serve-prompts.XXXXXX") || exit 3
server=
leave() {
    [ -z "$server" ] || kill "$server" 2>/dev/null
    rm -rf "$work"
}
trap leave EXIT
fail() {
    echo "serve_prompts: $*" >&2
    exit 3
}
bash examples/make_text.sh || fail "no text to train on"
settings=(--mesh_dim "1,1,1,1" --set "model=$model" --set cluster.accelerators_per_node=1
    --set "directory=$work/run" --set serve.max_tokens=2560
    --set serve.prompt_tokens=2000 --set "precision.compute=$precision" --set data.format=bytes
    --set data.holdout=0 --set "cluster.accelerator.memory=64 GB") # which training, that is planned, too, would need
emit() { # FOLDER [SETTINGS]
    "$build/plan" emit configs/runs/quickstart.yaml -o "$work/$1" "${settings[@]}" "${@:2}" \
        >"$work/log" 2>&1 || fail "plan emit: $(tail -n 2 "$work/log")"
}
emit 1
if [ -z "$checkpoint" ]; then
    checkpoint=$work/run
    "$build/runner" train "$work/1/quickstart.plan.yaml" --steps 1 >"$work/log" 2>&1 </dev/null ||
        fail "training: $(tail -n 2 "$work/log")"
fi
python3 -c 'import json; print(json.dumps({"tokens": [7 * i * i % 96 + 32 for i in range(2000)]}))' \
    >"$work/prompt.jsonl"
echo "| max_batch | 2,000 tokens predicted s | measured s, best of 3 |"
echo "| ---: | ---: | ---: |"
for batch in 1 4 16 64; do
    emit "b$batch" --set "serve.max_batch=$batch"
    "$build/plan" explain configs/runs/quickstart.yaml "${settings[@]}" --set "serve.max_batch=$batch" \
        --json >"$work/explained" 2>/dev/null || fail "plan explain"
    : >"$work/said"
    for _ in 1 2 3; do
        "$build/runner" generate "$work/b$batch/quickstart.plan.yaml" --checkpoint "$checkpoint" \
            --prompts "$work/prompt.jsonl" --max-new-tokens 1 -o "$work/out" 2>>"$work/said" \
            </dev/null || fail "generate: $(tail -n 2 "$work/said")"
    done
    python3 - "$batch" "$work/explained" "$work/said" <<'END' || fail "no figures"
import json, re, sys
rates = re.findall(r"prompt tokens, (\d+) tokens/s", open(sys.argv[3]).read())
print(f"| {sys.argv[1]} | {json.load(open(sys.argv[2]))['serving']['first_token_seconds']:.3f} "
      f"| {2000 / max(map(float, rates)):.3f} |")
END
done
echo
echo "| budget | between two tokens p50 ms | p99 ms | beside a prompt p50 ms | p99 ms | its first token alone s | beside 7 texts s | again, once they ended s |"
echo "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
for budget in $budgets; do
    emit "s$budget" --set serve.max_batch=8 --set "serve.token_budget=$budget"
    "$build/runner" serve "$work/s$budget/quickstart.plan.yaml" --checkpoint "$checkpoint" \
        --listen "127.0.0.1:$port" >"$work/log" 2>&1 </dev/null &
    server=$!
    python3 - "$port" "$budget" "$clock" "$server" "$tokens" <<'END' || fail "serving: $(tail -n 2 "$work/log")"
import http.client, json, sys, threading, time
port, budget, clock, server, tokens, texts = int(sys.argv[1]), *sys.argv[2:4], int(sys.argv[4]), int(sys.argv[5]), 7

def find_worker(): # the rank that the command started, where it did
    try:
        return int(open(f"/proc/{server}/task/{server}/children").read().split()[0])
    except (OSError, IndexError):
        return server

def now(): # clock_gettime(3): the clock of another process's processor time
    return time.clock_gettime((~find_worker() << 3) | 2) if clock == "processor" else time.monotonic()

def ask(prompt, tokens, times):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    c.request("POST", "/v1/completions", json.dumps({"model": "quickstart", "prompt": prompt, "max_tokens": tokens,
                                                     "temperature": 0, "stream": True,
                                                     "logit_bias": {"97": 100}}),
              {"Content-Type": "application/json"})
    answer = c.getresponse()
    assert answer.status == 200, answer.read()
    for line in answer:
        if line.startswith(b"data: {"):
            times.append(now())

def first_token(first): # another one each time: nothing of the prompt stands in the cache
    times, begin = [], now()
    ask([first] + [7 * i * i % 96 + 32 for i in range(1, 2048)], 1, times)
    return begin, times[0]

for _ in range(300):
    try:
        ask([65], 1, [])
        break
    except OSError:
        time.sleep(0.1)
begin, end = first_token(33)
alone = end - begin
lists = [[] for _ in range(texts)]
threads = [threading.Thread(target=ask, args=([65 + i] * 16, tokens, lists[i])) for i in range(texts)]
for t in threads:
    t.start()
while min(map(len, lists)) < 150:
    time.sleep(0.01)
begin, end = first_token(34)
ended = [t for t in threads if not t.is_alive()]
assert not ended, "a text ended before the prompt was read; give a larger model"
for t in threads:
    t.join()
again, answered = first_token(34) # what stands in its slot is not read
gaps = {False: [], True: []}
for times in lists:
    for a, b in zip(times[20:], times[21:]):
        if b <= begin or a >= begin and b <= end:
            gaps[b > begin].append(1e3 * (b - a))
at = lambda values, share: sorted(values)[min(len(values) - 1, int(share * len(values)))]
print("| " + " | ".join([budget] + [f"{at(gaps[k], share):.1f}" for k in (False, True) for share in (0.5, 0.99)] +
                        [f"{alone:.3f}", f"{end - begin:.3f}", f"{answered - again:.3f}"]) + " |")
END
    kill "$server" && wait "$server" 2>/dev/null
    server=
done
