#!/usr/bin/env bash
# `runner generate --resume` and `runner score --resume`: killed in the middle, with half a line behind what
# is whole, and started again, they end with the file that an undisturbed run writes, and no line was made
# twice; parts of the prompts, one after the other, are that file as well.
#
#   tests/property/test_generate_resume.sh [BUILD-FOLDER]
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
build=$(cd "${1:-build}" && pwd) || exit 2
out=$build/tests/generate_resume
texts=30

fail() {
    echo "FAIL: $*"
    [ -f "$out/log" ] && tail -n 20 "$out/log"
    exit 1
}

export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_hwloc_base_binding_policy=none OMP_NUM_THREADS=1
if [ "$(id -u)" -eq 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi

emit() { # RANKS MESH
    "$build/plan" emit configs/runs/quickstart.yaml -o "$out/plan$1" --mesh_dim "$2" \
        --set name=small --set directory="$out/run" --set cluster.accelerators_per_node="$1" \
        --set model.hidden_size=64 --set model.intermediate_size=96 \
        --set model.num_hidden_layers=2 --set model.num_attention_heads=4 \
        --set model.num_key_value_heads=1 --set model.tie_word_embeddings=true \
        --set sequence_length=64 --set data.path="$out/text" --set serve.max_batch=3 \
        --set serve.max_tokens=256 --set optimizer.warmup_steps=0 --set optimizer.total_steps=2 >"$out/log" 2>&1 ||
        fail "plan emit $2"
}
runner() { "$build/runner" "$1" "$out/plan1/small.plan.yaml" --checkpoint "$out/run" "${@:2}"; }
lines() {
    if [ -e "$1" ]; then wc -l <"$1"; else echo 0; fi
}
# Kills a run with an output of so many lines, and leaves half a line behind it. A run takes less than a
# second: on a busy machine it may end before it is killed, and is begun again.
kill_at() { # LINES COMMAND OUTPUT ARGUMENT...
    local attempt process i
    for attempt in 1 2 3 4 5 6 7 8 9 10; do
        rm -f "$3"
        "$build/runner" "$2" "$out/plan1/small.plan.yaml" --checkpoint "$out/run" "${@:4}" -o "$3" \
            --resume >"$out/log" 2>&1 </dev/null &
        process=$!
        for ((i = 0; i < 12000; i++)); do
            [ "$(lines "$3")" -lt "$1" ] || break
            sleep 0.01
        done
        kill -KILL "$process"
        wait "$process" 2>/dev/null
        there=$(lines "$3")
        [ "$there" -ge "$texts" ] || break
    done
    if [ "$there" -lt "$1" ] || [ "$there" -ge "$texts" ]; then
        fail "$2 was to be killed at line $1 of $texts, and has written $there ($attempt attempts)"
    fi
    head -n "$there" "$3" >"$out/whole" && mv "$out/whole" "$3"
    printf '{"index": %d, "sam' "$there" >>"$3"
}

rm -rf "$out"
mkdir -p "$out"
for ((i = 0; i < 400; i++)); do echo -n 'the quick brown fox jumps over the lazy dog. '; done >"$out/text"
emit 1 1,1,1,1
emit 2 1,1,1,2
"$build/runner" train "$out/plan1/small.plan.yaml" >"$out/log" 2>&1 </dev/null || fail training
for ((i = 0; i < texts; i++)); do # of many lengths: they end in another order than they begin
    echo "{\"prompt\": \"text $i\", \"max_new_tokens\": $((40 + i * 37 % 120)), \"temperature\": $((i % 2))}"
done >"$out/prompts.jsonl"

runner generate --prompts "$out/prompts.jsonl" -o "$out/whole.jsonl" 2>"$out/log" || fail "generate"
kill_at 7 generate "$out/killed.jsonl" --prompts "$out/prompts.jsonl"
head -n "$there" "$out/killed.jsonl" | cmp - <(head -n "$there" "$out/whole.jsonl") >"$out/log" 2>&1 ||
    fail "a killed run wrote other lines"
runner generate --prompts "$out/prompts.jsonl" -o "$out/killed.jsonl" --resume 2>"$out/log" ||
    fail "generate --resume"
cmp "$out/whole.jsonl" "$out/killed.jsonl" >>"$out/log" 2>&1 || fail "another output after a restart"
grep -qE "^$there texts were there already; $((texts - there)) texts?: " "$out/log" ||
    fail "lines that were there were made again"
# all is there: nothing is done, and nothing changes
runner generate --prompts "$out/prompts.jsonl" -o "$out/killed.jsonl" --resume 2>"$out/log" ||
    fail "generate --resume of a whole output"
cmp "$out/whole.jsonl" "$out/killed.jsonl" >>"$out/log" 2>&1 || fail "a whole output changed"
grep -q "^$texts texts were there already; 0 texts: 0 prompt tokens" "$out/log" ||
    fail "something of a whole output was made again"
# two ranks go on with what one has begun
head -n 5 "$out/whole.jsonl" >"$out/two.jsonl"
mpirun -q -np 2 "$build/runner" generate "$out/plan2/small.plan.yaml" --checkpoint "$out/run" \
    --prompts "$out/prompts.jsonl" -o "$out/two.jsonl" --resume 2>"$out/log" || fail "two ranks"
[ "$(lines "$out/two.jsonl")" -eq "$texts" ] || fail "two ranks wrote another number of lines"
head -n 5 "$out/two.jsonl" | cmp - <(head -n 5 "$out/whole.jsonl") >"$out/log" 2>&1 ||
    fail "two ranks changed what was there"

# parts, more of them than a batch and not of one size
for part in 0 1 2 3; do
    runner generate --prompts "$out/prompts.jsonl" -o "$out/part.$part" --shard "$part/4" --resume \
        2>"$out/log" || fail "generate --shard $part/4"
done
cat "$out"/part.? | cmp - "$out/whole.jsonl" >"$out/log" 2>&1 || fail "the parts are not the whole"

# scores
for ((i = 0; i < texts; i++)); do # some longer than the cache
    printf '{"text": "%s"}\n' "$(head -c $((20 + i * 331 % 1500)) "$out/text")"
done >"$out/texts.jsonl"
runner score --texts "$out/texts.jsonl" -o "$out/scores.jsonl" --logprobs 2>"$out/log" || fail "score --texts"
kill_at 4 score "$out/killed.jsonl" --texts "$out/texts.jsonl" --logprobs
runner score --texts "$out/texts.jsonl" -o "$out/killed.jsonl" --logprobs --resume 2>"$out/log" ||
    fail "score --resume"
cmp "$out/scores.jsonl" "$out/killed.jsonl" >>"$out/log" 2>&1 || fail "other scores after a restart"
grep -qE "^$there texts were there already; $((texts - there)) texts?: " "$out/log" ||
    fail "scores that were there were made again"
head -n 3 "$out/texts.jsonl" | while read -r line; do
    line=${line#*: \"}
    printf '%s' "${line%\"\}}" >"$out/one"
    runner score --json "$out/one" 2>/dev/null
done >"$out/files.jsonl"
python3 - "$out/scores.jsonl" "$out/files.jsonl" >"$out/log" 2>&1 <<'PYTHON' || fail "other scores than of files"
import json, math, sys
lines, files = ([json.loads(line) for line in open(path)] for path in sys.argv[1:])
assert len(files) == 3 and len(lines) == 30
for a, b in zip(lines, files):
    assert a["tokens"] == b["tokens"] == len(a["logprobs"]), (a, b)
    assert math.isclose(a["logprob"], b["logprob"], rel_tol=1e-6), (a, b)
    assert math.isclose(sum(a["logprobs"]), a["logprob"], rel_tol=1e-6), a
PYTHON

# what is not an output of these prompts stays as it is
refused() { # WHAT STATUS MESSAGE COMMAND...
    cp "$out/other.jsonl" "$out/before"
    runner generate "${@:4}" >"$out/said" 2>&1
    [ $? -eq "$2" ] || fail "$1: another exit code than $2"
    sed "s#$out/##" "$out/said" >"$out/log"
    grep -qxF -e "$3" "$out/log" || fail "$1: it does not say: $3"
    cmp "$out/before" "$out/other.jsonl" >"$out/log" 2>&1 || fail "$1: the file changed"
}
all=(--prompts "$out/prompts.jsonl" -o "$out/other.jsonl" --resume)
sed -n 2,9p "$out/whole.jsonl" >"$out/other.jsonl"
refused "other prompts" 2 \
    "other.jsonl:1:1: error: it is not of prompt 0, sample 0: it was made from other prompts or with other options; to start anew, move the file away" "${all[@]}"
cat "$out/whole.jsonl" "$out/whole.jsonl" >"$out/other.jsonl"
refused "more lines than prompts" 2 \
    "other.jsonl:31:1: error: there is no prompt for it: it was made from other prompts; to start anew, move the file away" "${all[@]}"
{
    head -n 2 "$out/whole.jsonl"
    echo 'no JSON'
    tail -n +3 "$out/whole.jsonl"
} >"$out/other.jsonl"
refused "a bad line in the middle" 2 \
    "other.jsonl:3:1: error: not a line of JSON, and others follow it; to start anew, move the file away" "${all[@]}"
head -n 2 "$out/whole.jsonl" >"$out/other.jsonl"
exec 9>>"$out/other.jsonl"
flock 9
refused "a file that another process has" 3 \
    "other.jsonl: error: another process is writing it; wait until that has ended" "${all[@]}"
exec 9>&-
for text in 8/8 -1/8 1 1/ x/2 1/2x 1/99999999; do
    runner generate --prompts "$out/prompts.jsonl" --shard "$text" >"$out/said" 2>&1
    [ $? -eq 2 ] || fail "--shard $text: another exit code than 2"
    grep -q -e "--shard must be I/N, as in 0/8: part I of N, from 0, not '$text'" "$out/said" ||
        fail "--shard $text: what it says"
done
echo "ok"
