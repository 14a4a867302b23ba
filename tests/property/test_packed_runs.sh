#!/usr/bin/env bash
# Runs on packed, masked and mixed documents, as a user starts them: the losses, the labels that
# count and the held-out loss are those of one rank on every mesh, and of a run that was killed in
# the middle of a block; a step in which no label counts changes nothing; 'runner data' shows what
# the steps see; and what changes the data's order is said when a run resumes.
#
#   tests/property/test_packed_runs.sh [BUILD-FOLDER]
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
build=$(cd "${1:-build}" && pwd) || exit 2
out=$build/tests/packed-runs
steps=24

fail() {
    echo "FAIL: $*"
    [ -f "$out/log" ] && tail -n 20 "$out/log"
    exit 1
}

# shellcheck source=tests/support/ranks.sh
. tests/support/ranks.sh

rm -rf "$out"
mkdir -p "$out/data"
write=$build/tests/write_documents
for file in "data/a.bin 300 90 1 some" "data/b.bin 200 40 2 all" "data/c.bin 90 20 3 some" "held.bin 20 60 4 some" \
    "one.bin 60 60 5 one"; do
    read -r name rest <<<"$file"
    # shellcheck disable=SC2086
    "$write" "$out/$name" $rest || fail "write_documents $file"
done

# Writes $out/NAME/NAME.plan.yaml of a run in $out/NAME/run.
emit() { # NAME MESH ARGUMENTS...
    local name=$1 mesh=$2
    shift 2
    "$build/plan" emit configs/runs/quickstart.yaml -o "$out/$name" --mesh_dim "$mesh" \
        --set name="$name" --set directory="$out/$name/run" \
        --set cluster.accelerators_per_node=$((${mesh//,/*})) --set model.hidden_size=32 \
        --set model.intermediate_size=64 --set model.num_hidden_layers=2 --set sequence_length=64 \
        --set global_batch_size=6 --set micro_batch_size=1 --set optimizer.total_steps=$steps \
        --set optimizer.warmup_steps=2 --set checkpoint.every_steps=5 "$@" >"$out/log" 2>&1 ||
        fail "plan emit $name"
}
mixed="data={path: ['$out/data/[ab].bin', '$out/data/c.bin'], weights: [3, 1], pack: true, validation: '$out/h*.bin', seed: 3}"

train() { # NAME ARGUMENTS...
    local plan=$out/$1/$1.plan.yaml ranks
    shift
    ranks=$(sed -nE "s/.*mesh_dim: '([0-9,]+)'.*/\1/p" "$plan" | head -n 1)
    timeout 120 mpirun -q -np $((${ranks//,/*})) "$build/runner" train "$plan" "$@" >"$out/log" 2>&1 </dev/null
}

# 'step labels loss' a line, the last of each step; then the held-out loss.
told() { # NAME
    sed -nE 's/^\{"step":([0-9]+),"loss":([^,]+),.*"labels":([0-9]+).*/\1 \3 \2/p' "$out/$1/run/metrics.jsonl" |
        sort -snk 1,1 | awk '{ last[$1] = $0 } END { for (i = 1; i in last; i++) print last[i] }'
    sed -nE 's/.*"held_out_bits_per_token":([^,]+),.*/held 0 \1/p' "$out/$1/run/metrics.jsonl" | tail -n 1
}

close() { # NAME NAME
    paste -d ' ' <(told "$1") <(told "$2") | awk '
        {
            difference = ($3 - $6) / $6
            if (difference < 0) difference = -difference
            if ($1 != $4 || $2 != $5 || !(difference <= 1e-5)) {
                print
                bad = 1
            }
        }
        END { exit bad || NR != '$((steps + 1))' }' || fail "what $2 tells is not what $1 does"
}

for run in one:1,1,1,1 data:1,4,1,1 all:1,2,1,2 tensor:2,1,2,1; do
    emit "${run%:*}" "${run#*:}" --set "$mixed"
    train "${run%:*}" --quiet || fail "$run"
    close one "${run%:*}"
done

# ---- Killed in the middle of a block, that is of the only one of each source ----
emit killed 1,2,1,2 --set "$mixed"
timeout 120 mpirun -q -np 4 "$build/runner" train "$out/killed/killed.plan.yaml" --quiet >"$out/log" 2>&1 </dev/null &
for _ in $(seq 400); do
    grep -qs '^{"step":13,' "$out/killed/run/metrics.jsonl" && break
    sleep 0.02
done
kill -9 $! 2>/dev/null
wait $! 2>/dev/null
for _ in $(seq 20); do # ranks that lost their launcher end by themselves, and hold the folder until then
    train killed --quiet && break
    sleep 0.5
done
cmp <(told all) <(told killed) || fail "a run that was killed goes on with other rows"

# ---- What a step sees ----
for step in 1 9 $steps; do
    "$build/runner" data "$out/one/one.plan.yaml" --step "$step" --json >"$out/log" || fail "runner data"
    python3 - "$out/log" "$step" "$(told one | sed -n "${step}p" | cut -d ' ' -f 2)" <<'END' || fail "runner data --step $step"
import json
import sys
data, step, labels = json.load(open(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3])
rows = data["rows"]
assert [r["row"] for r in rows] == list(range(6 * (step - 1), 6 * step)), "rows"
assert sum(x >= 0 for r in rows for x in r["labels"]) == labels == data["labels"], "labels"
for r in rows:
    for i in range(63):
        alike = r["segments"][i] == r["segments"][i + 1]
        assert r["positions"][i + 1] == (r["positions"][i] + 1 if alike else 0), "positions"
        assert r["labels"][i] == -1 or alike and r["labels"][i] == r["tokens"][i + 1], "label"
END
done
"$build/runner" data "$out/one/one.plan.yaml" >"$out/log" || fail "runner data"
grep -q '^packed: 590 documents in .* % full; [1-9][0-9]* cut, by ' "$out/log" || fail "runner data does not tell of rows"

# ---- A step in which no label counts ----
saved() { echo "$out/few/run/checkpoints/step-$(printf %06d "$1")"; } # STEP
emit few 1,2,1,1 --set "data={path: '$out/one.bin', pack: true}" --set checkpoint.every_steps=0 --set checkpoint.keep=9
train few --steps 12 || fail "few labels"
none=$(sed -nE 's/^note: no label of step ([0-9]+) counts: it changes nothing$/\1/p' "$out/log")
last=$(echo "$none" | tail -n 1)
[ "${last:-0}" -gt 2 ] || fail "no step without labels"
rm -rf "$out/few/run"
for steps_done in $((last - 1)) "$last"; do
    train few --steps "$steps_done" || fail "few labels, $steps_done steps"
done
[ "$(grep -c . <<<"$none")" -eq "$(sed -nE 's/^  "idle_steps": ([0-9]+),$/\1/p' "$(saved "$last")/manifest.json")" ] ||
    fail "the manifest does not have as many steps without labels"
diff -rq -x manifest.json "$(saved $((last - 1)))" "$(saved "$last")" || fail "step $last changed something"

# ---- What changes the order is said ----
emit all 1,2,1,2 --set "${mixed/3, 1/1, 1}" --set data.pack=false --set data.document_end=7
train all --steps $((steps + 1)) || fail "another order"
for note in "data.document_end is 7 now, it was -1 in the checkpoint: other tokens see each other" \
    "data.pack is false now, it was blocks of 65536 in the checkpoint: the data comes in another order" \
    "data.weights is 1:1 now, it was 3:1 in the checkpoint: the data comes in another order"; do
    grep -qxF "note: $note" "$out/log" || fail "not said: $note"
done
echo "packed runs: $steps steps on four meshes, a kill, $(echo "$none" | wc -w) steps without labels"
