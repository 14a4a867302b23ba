#!/usr/bin/env bash
# A prompt of 2,000 tokens beside 7 texts that run, with default settings and with other ones, in turns in one run: the time between
# two tokens of the texts without the prompt and beside it, and the prompt's time to its first token alone and beside them.
#
#   tests/bench/serve_beside.sh [--build build] [--model configs/models/gpt2-size.yaml] [--checkpoint DIR] [--precision bf16]
#       [--settings 'default serve.interleave=false'] [--passes 5] [--tokens 400] [--clock wall] [--port 8950]
#
# --settings: those of each server, one word each; `default`: none. All servers run at once, of which one is asked at a time, in turn
# the first. The weights are those of one step of training or, for a model too large for that here, of a Hugging Face directory DIR.
# --tokens: of each text, more than come while the prompt is read. `--clock processor` takes the server's processor time, for a
# machine that does something else: then give one thread (OMP_NUM_THREADS=1). Prints each pass, then medians over the passes.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
build=build model=configs/models/gpt2-size.yaml port=8950 precision=bf16 clock=wall checkpoint='' tokens=400 passes=5
settings='default serve.interleave=false'
while [ $# -gt 0 ]; do
    case $1 in
        --build) build=${2:-} && shift ;;
        --model) model=${2:-} && shift ;;
        --checkpoint) checkpoint=$(realpath "${2:-}") && shift ;;
        --precision) precision=${2:-} && shift ;;
        --settings) settings=${2:-} && shift ;;
        --passes) passes=${2:-} && shift ;;
        --tokens) tokens=${2:-} && shift ;;
        --clock) clock=${2:-} && shift ;;
        --port) port=${2:-} && shift ;;
        *)
            sed -n '5,6s/^# *//p' "$0" >&2
            exit 2
            ;;
    esac
    shift
done
build=$(cd "$build" && pwd) || exit 2
work=$(mktemp -d "$build/serve-beside.XXXXXX") || exit 3
servers=()
leave() {
    [ ${#servers[@]} -eq 0 ] || kill "${servers[@]}" 2>/dev/null
    rm -rf "$work"
}
trap leave EXIT
trap 'exit 3' INT TERM
fail() {
    echo "serve_beside: $*" >&2
    exit 3
}
bash examples/make_text.sh || fail "no text to train on"
names=()
for setting in $settings; do
    more=()
    [ "$setting" = default ] || more=(--set "$setting")
    "$build/plan" emit configs/runs/quickstart.yaml -o "$work/${#names[@]}" --mesh_dim 1,1,1,1 --set "model=$model" \
        --set cluster.accelerators_per_node=1 --set "directory=$work/run" --set serve.max_tokens=2560 --set serve.max_batch=8 \
        --set serve.prompt_tokens=2000 --set "precision.compute=$precision" --set data.format=bytes --set data.holdout=0 \
        --set "cluster.accelerator.memory=64 GB" "${more[@]}" >"$work/log" 2>&1 || fail "plan emit: $(tail -n 2 "$work/log")"
    names+=("$setting")
done
if [ -z "$checkpoint" ]; then
    checkpoint=$work/run
    "$build/runner" train "$work/0/quickstart.plan.yaml" --steps 1 >"$work/log" 2>&1 </dev/null ||
        fail "training: $(tail -n 2 "$work/log")"
fi
for i in "${!names[@]}"; do
    "$build/runner" serve "$work/$i/quickstart.plan.yaml" --checkpoint "$checkpoint" --listen "127.0.0.1:$((port + i))" \
        >"$work/log$i" 2>&1 </dev/null &
    servers+=($!)
done
python3 - "$port" "$passes" "$tokens" "$clock" "${names[@]}" "${servers[@]}" <<'END' || fail "serving: $(tail -n 2 "$work"/log?)"
import http.client, json, statistics, sys, threading, time
port, passes, tokens, clock = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
names, processes = sys.argv[5:][: len(sys.argv[5:]) // 2], [int(p) for p in sys.argv[5:][len(sys.argv[5:]) // 2 :]]
TEXTS, PROMPT, prompts = 7, 2000, 0

def now(server):
    if clock != "processor":
        return time.monotonic()
    try:  # the rank that the command started, where it did
        worker = int(open(f"/proc/{processes[server]}/task/{processes[server]}/children").read().split()[0])
    except (OSError, IndexError):
        worker = processes[server]
    return time.clock_gettime((~worker << 3) | 2)  # clock_gettime(3): another process's processor time

def ask(server, prompt, count, times):
    c = http.client.HTTPConnection("127.0.0.1", port + server, timeout=600)
    body = {"prompt": prompt, "max_tokens": count, "temperature": 0, "stream": True, "logit_bias": {"97": 100}}
    c.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    answer = c.getresponse()
    assert answer.status == 200, answer.read()
    for line in answer:
        if line.startswith(b"data: {"):
            times.append(now(server))

def first_token(server):  # another prompt each time: nothing of it stands in the cache
    global prompts
    prompts += 1
    times, begin = [], now(server)
    ask(server, [33 + prompts % 90, 33 + prompts // 90] + [7 * i * i % 96 + 32 for i in range(2, PROMPT)], 1, times)
    return begin, times[0]

def measure(server):
    begin, end = first_token(server)
    alone, lists = end - begin, [[] for _ in range(TEXTS)]
    threads = [threading.Thread(target=ask, args=(server, [65 + i] * 16, tokens, lists[i])) for i in range(TEXTS)]
    for t in threads:
        t.start()
    while min(map(len, lists)) < 80:
        time.sleep(0.01)
    begin, end = first_token(server)
    assert all(t.is_alive() for t in threads), "a text ended before the prompt was read; give more --tokens"
    for t in threads:
        t.join()
    gaps = {False: [], True: []}
    for times in lists:
        for a, b in zip(times[20:], times[21:]):
            if b <= begin or a >= begin and b <= end:
                gaps[b > begin].append(1e3 * (b - a))
    at = lambda values, share: sorted(values)[min(len(values) - 1, int(share * len(values)))]
    median, slow = at(gaps[False], 0.5), at(gaps[True], 0.99)
    assert median > 0, "the client got tokens later than they came: the machine does something else"
    return [median, at(gaps[False], 0.99), at(gaps[True], 0.5), slow, slow / median, alone, end - begin, (end - begin) / alone]

def row(name, figures):
    print(f"| {name} | " + " | ".join(f"{f:.{p}f}" for f, p in zip(figures, (1, 1, 1, 1, 2, 3, 3, 2))) + " |", flush=True)

for server in range(len(names)):
    for _ in range(600):
        try:
            ask(server, [65], 1, [])
            break
        except OSError:
            time.sleep(0.1)
print("| settings | a token p50 ms | p99 ms | beside a prompt p50 ms | p99 ms | of the median | first token alone s | beside s | of alone |")
print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
found = [[] for _ in names]
for i in range(passes):
    for server in range(len(names))[:: 1 if i % 2 == 0 else -1]:
        found[server].append(measure(server))
        row(names[server], found[server][-1])
for server, name in enumerate(names):
    row(f"{name}, median of {passes}", [statistics.median(column) for column in zip(*found[server])])
END
