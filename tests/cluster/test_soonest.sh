#!/usr/bin/env bash
# A queue played out: three of four real nodes are taken by a job that sleeps. The plan that --soonest
# picks, a small mesh on the free node, must be done before the fastest mesh, which has to wait.
#
#   tests/cluster/test_soonest.sh [BUILD-FOLDER]       exit code 77: this machine cannot (said why)
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
build=$(cd "${1:-build}" && pwd) || exit 2
out=$build/soonest-test
file=configs/runs/quickstart-slurm.yaml

fail() {
    echo "FAIL: $*"
    squeue -t all 2>/dev/null | head -n 20
    find "$out" -type f \( -name '*.out' -o -name 'said*' \) -exec tail -n 20 {} +
    exit 1
}
line=$(bash tests/cluster/slurm_cluster.sh up bench)
status=$?
if [ $status -ne 0 ]; then
    echo "$line"
    exit $status
fi
trap 'bash tests/cluster/slurm_cluster.sh down bench' EXIT
trap 'exit 3' INT TERM
export SLURM_CONF=${line#SLURM_CONF=}
bash examples/make_text.sh || fail "no text to learn"
rm -rf "$out"
mkdir -p "$out"
export XDG_STATE_HOME=$out/state
run=(--set optimizer.total_steps=12 --set optimizer.warmup_steps=2 --set mesh_dim=auto --set slurm.time=0:10:00)

sleeper=$(sbatch --parsable -N3 --exclusive -t 3 -o /dev/null --wrap 'sleep 60') || fail "sbatch"
for ((i = 0; i < 100; i++)); do
    [ "$(squeue -h -j "$sleeper" -o '%t')" = R ] && break
    sleep 0.1
done
"$build/plan" submit "$file" "${run[@]}" --dry-run --json >"$out/said.json" 2>"$out/said" || fail "the dry run"
"$build/plan" submit "$file" "${run[@]}" --set directory="$out/soon" --soonest >"$out/soon.id" 2>>"$out/said" ||
    fail "submit --soonest"
"$build/plan" submit "$file" "${run[@]}" --set directory="$out/fast" --prefer time >"$out/fast.id" 2>>"$out/said" ||
    fail "submit --prefer time"
soon=$(cat "$out/soon.id") fast=$(cat "$out/fast.id")
state() { scontrol show job "$1" | sed -nE 's/.*JobState=([A-Z_]+).*/\1/p'; }
moment() { # JOB: when it ended
    date -d "$(scontrol show job "$1" | sed -nE 's/.*EndTime=([^ ]+).*/\1/p')" +%s
}
[ "$(state "$fast")" = PENDING ] || fail "the fastest mesh does not wait"
# what is on record must still be there at the end: MinJobAge is five minutes
for ((i = 0; i < 360; i++)); do
    case $(state "$fast") in PENDING | CONFIGURING | RUNNING | COMPLETING) ;; *) break ;; esac
    sleep 1
done
for job in "$soon" "$fast"; do
    [ "$(state "$job")" = COMPLETED ] || fail "job $job is $(state "$job")"
done
nodes=$(scontrol show job "$soon" | sed -nE 's/.*NumNodes=([0-9]+).*/\1/p')
[ "$nodes" = 1 ] || fail "the soonest has $nodes nodes"
early=$(moment "$soon") late=$(moment "$fast")
[ "$early" -lt "$late" ] || fail "the soonest plan ended at $early, the fastest mesh at $late"
echo "the plan that starts now was done $((late - early)) s before the fastest mesh"
