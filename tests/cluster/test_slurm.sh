#!/usr/bin/env bash
# The emitted Slurm script runs on a real Slurm cluster of four nodes: eight ranks train the
# quickstart's model over four hosts, and the loss falls.
#
#   tests/cluster/test_slurm.sh [BUILD-FOLDER]       exit code 77: this machine cannot (said why)
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
build=$(cd "${1:-build}" && pwd) || exit 2
steps=12
name=quickstart-slurm
out=$build/slurm-test
job=

fail() {
    echo "FAIL: $*"
    [ -n "$job" ] && scontrol show job "$job" 2>/dev/null | head -n 30
    find "$out" -type f \( -name '*.out' -o -name '*.log' -o -name '*.err' -o -name 'slurm-*' \) \
        -exec tail -n 40 {} +
    exit 1
}

line=$(bash tests/cluster/slurm_cluster.sh up test)
status=$?
if [ $status -ne 0 ]; then
    echo "$line"
    exit $status
fi
trap 'bash tests/cluster/slurm_cluster.sh down test' EXIT
trap 'exit 3' INT TERM
export SLURM_CONF=${line#SLURM_CONF=}

bash examples/make_text.sh || fail "no text to learn"
rm -rf "$out"
mkdir -p "$out/run"
"$build/plan" emit configs/runs/$name.yaml -o "$out" --set directory="$out/run" \
    --set optimizer.total_steps=$steps --set optimizer.warmup_steps=2 || fail "plan emit failed"
bash -n "$out/$name.sbatch" || fail "the script is not valid shell"

# SBATCH_*, SLURM_* of a surrounding job would change what is submitted.
while IFS= read -r variable; do
    unset "$variable"
done < <(compgen -e | grep -E '^(SBATCH|SLURM|PMI|PMIX|OMPI)_' | grep -vx SLURM_CONF)

job=$(sbatch --parsable "$out/$name.sbatch") || fail "sbatch refused the script"
tasks_seen=0
state=
for ((i = 0; i < 400; i++)); do
    description=$(scontrol show job "$job")
    state=$(sed -nE 's/.*JobState=([A-Z_]+).*/\1/p' <<<"$description")
    # The step as Slurm runs it: the most tasks it has at once.
    tasks=$(scontrol show step "$job" 2>/dev/null | sed -nE 's/.*Tasks=([0-9]+).*/\1/p' | sort -n |
        tail -n 1)
    [ "${tasks:-0}" -gt "$tasks_seen" ] && tasks_seen=$tasks
    case $state in PENDING | CONFIGURING | RUNNING | COMPLETING) ;; *) break ;; esac
    sleep 1
done
[ "$state" = COMPLETED ] || fail "job $job is $state, not COMPLETED"
grep -q 'NodeList=n\[1-4\]' <<<"$description" || fail "the job did not get the four nodes"
grep -qE 'NumNodes=4 .*NumTasks=8' <<<"$description" || fail "the job had not 4 nodes and 8 tasks"
[ "$tasks_seen" -eq 8 ] || fail "the largest step that Slurm ran had $tasks_seen tasks, not 8"

metrics=$out/run/metrics.jsonl
[ -s "$metrics" ] || fail "no metrics.jsonl"
awk -v want=$steps '
    match($0, /"step": *[0-9]+/) && match($0, /"loss": *[-+.0-9eE]+/) {
        loss = substr($0, RSTART, RLENGTH); sub(/.*: */, "", loss); loss += 0
        if (!seen++) first = loss
        last = loss
    }
    END {
        printf "%d steps, loss %.3f -> %.3f\n", seen, first, last
        exit !(seen == want && first > 5 && first < 7 && last < first - 0.5)
    }' "$metrics" || fail "the loss did not fall as it should in $steps steps"
echo "job $job: eight ranks over four nodes"
