#!/usr/bin/env bash
# What plan reads of Slurm's accounting, from a real slurmdbd on a database of its own: jobs that the
# controller has forgotten, the waits of like jobs; and that both go on without it once it is down.
#
#   tests/cluster/test_accounting.sh BUILD-FOLDER       exit code 77: this machine cannot (said why)
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
build=$(cd "${1:-build}" && pwd) || exit 2
plan=$build/plan
scratch=$build/tests/accounting
bad=0
skip() {
    echo "SKIP: Slurm accounting: $*"
    exit 77
}
complain() {
    echo "FAIL: $*"
    bad=$((bad + 1))
}
rm -rf "$scratch"
mkdir -p "$scratch/tmp"
# shellcheck source=tests/cluster/database.sh
. tests/cluster/database.sh
# shellcheck disable=SC2317 # called by its name
end() {
    [ -z "${SLURM_CONF:-}" ] || bash tests/cluster/controller.sh down "$SLURM_CONF"
    kill "${database_pids[@]}" 2>/dev/null
    wait
}
trap end EXIT
trap 'exit 3' INT TERM
database_up
export TMPDIR=$scratch/tmp XDG_STATE_HOME=$scratch/state
line=$(bash tests/cluster/controller.sh up nodes 8 conf "$scratch/more.conf")
status=$?
if [ $status -ne 0 ]; then
    echo "$line"
    exit $status
fi
export SLURM_CONF=${line#SLURM_CONF=}
{
    until_true 30 sacctmgr -n show cluster
    sacctmgr -i add account research
    sacctmgr -i add user "$(id -un)" account=research
} >"$scratch/sacctmgr.log" 2>&1 || complain "no accounting: $(tail -n 3 "$scratch/sacctmgr.log" "$scratch/slurmdbd.log")"

cat >"$scratch/run.yaml" <<END
name: demo
model: $PWD/configs/models/llama-8b.yaml
cluster: $PWD/configs/clusters/h100-8x8.yaml
sequence_length: 8192
global_batch_size: 64
optimizer: {total_steps: 1000}
data: {path: $PWD/README.md, format: bytes}
directory: $scratch/run
slurm: {partition: gpu, time: '1-00:00:00', account: null}
END
job=$("$plan" submit "$scratch/run.yaml" 2>"$scratch/stderr") || complain "submit: $(cat "$scratch/stderr")"
scancel "$job"
# forgotten by the controller, known to the accounting
# shellcheck disable=SC2317 # called by its name
forgotten() { ! scontrol show job "$job" >/dev/null 2>&1; }
until_true 180 forgotten || complain "the controller does not forget job $job"
# shellcheck disable=SC2317 # called by its name
known() { sacct -n -X -j "$job" -o State | grep -q CANCELLED; }
until_true 20 known || complain "sacct: $(sacct -X -j "$job")"
said=$("$plan" status "$scratch/run") || complain "status: exit code $?"
grep -qE "^run: stopped, job $job|^demo: stopped, job $job" <<<"$said" || complain "status of a job of the accounting: $said"
grep -q 'it was cancelled' <<<"$said" || complain "status of a job of the accounting: $said"

# Waits of like jobs: twelve that began at once.
for ((i = 0; i < 12; i++)); do
    sbatch --parsable -N8 --exclusive -p gpu -t 1-00:00:00 --wrap true >"$scratch/job" || complain "sbatch"
    until_true 20 eval "[ \"\$(squeue -h -j \$(cat $scratch/job) -o %t)\" = CF ]" || complain "no start: $(squeue)"
    scancel "$(cat "$scratch/job")"
done
sleep 2
"$plan" submit "$scratch/run.yaml" --dry-run --json >"$scratch/said" 2>"$scratch/stderr" || complain "dry run: $(cat "$scratch/stderr")"
python3 -c 'import json, sys
c = next(c for c in json.load(open(sys.argv[1]))["choices"] if c["nodes"] == 8 and c["submitted"])
assert c["like_jobs"] >= 10 and 0 <= c["wait_low_seconds"] <= c["wait_high_seconds"] < 120, c' "$scratch/said" ||
    complain "the waits of like jobs: $(cat "$scratch/said")"

# A limit that the controller does not enforce (AccountingStorageEnforce is none here) is none.
sacctmgr -i modify qos normal set MaxTRESPerUser=node=2 >"$scratch/sacctmgr.log" 2>&1 || complain "no limit: $(cat "$scratch/sacctmgr.log")"
"$plan" submit "$scratch/run.yaml" --dry-run >"$scratch/said" 2>"$scratch/stderr" || complain "a limit that nobody enforces: $(cat "$scratch/stderr")"
grep -q 'MaxTRESPU' "$scratch/said" && complain "a limit that nobody enforces: $(cat "$scratch/said")"

# Where it is enforced plan refuses the job, and Slurm lets that of a bare sbatch wait for ever, for the reason that plan gave.
bash tests/cluster/controller.sh down "$SLURM_CONF"
echo 'AccountingStorageEnforce=limits,qos' >>"$scratch/more.conf"
line=$(bash tests/cluster/controller.sh up nodes 8 conf "$scratch/more.conf") || complain "a second controller: $line"
export SLURM_CONF=${line#SLURM_CONF=}
never() { # WHAT PLAN-SAYS REASON: of eight nodes
    local id
    "$plan" submit "$scratch/run.yaml" --set directory="$scratch/never" --set slurm.account=research >"$scratch/said" 2>"$scratch/stderr"
    [ $? -eq 1 ] || complain "$1: exit code is not 1: $(cat "$scratch/said" "$scratch/stderr")"
    grep -qxF "plan: error: the job cannot start: 8 nodes asked for, but $2 is 2: it would wait for ever" "$scratch/stderr" ||
        complain "$1: $(cat "$scratch/stderr")"
    id=$(sbatch --parsable -A research -N8 --exclusive -p gpu -t 10 --wrap true) || complain "$1: sbatch refuses it"
    until_true 20 eval "squeue -h -j $id -o %r | grep -qx $3" || complain "$1: Slurm says $(squeue -h -j "$id" -o '%t %r')"
    scancel "$id"
}
until_true 30 eval "scontrol show assoc_mgr flags=assoc | grep -q research" || complain "the second controller knows no accounts"
never "a limit of the qos" "MaxTRESPU of qos normal" QOSMaxNodePerUserLimit
sacctmgr -i modify qos normal set MaxTRESPerUser=node=-1 >"$scratch/sacctmgr.log" 2>&1 || complain "no limit: $(cat "$scratch/sacctmgr.log")"
sacctmgr -i modify account research set GrpTRES=node=2 >"$scratch/sacctmgr.log" 2>&1 || complain "no limit: $(cat "$scratch/sacctmgr.log")"
never "a limit of the account" "GrpTRES of account research" AssocGrpNodeLimit
sacctmgr -i modify account research set GrpTRES=node=-1 >"$scratch/sacctmgr.log" 2>&1 || complain "no limit: $(cat "$scratch/sacctmgr.log")"
"$plan" submit "$scratch/run.yaml" --set directory="$scratch/free" --set slurm.account=research >"$scratch/said" 2>"$scratch/stderr" || complain "no limit: $(cat "$scratch/stderr")"
scancel "$(cat "$scratch/said")"

# Without slurmdbd the folder and the controller speak alone.
kill "$dbd" && wait "$dbd" 2>/dev/null
begin=$SECONDS
said=$("$plan" status "$scratch/run" 2>&1)
[ $((SECONDS - begin)) -le 6 ] || complain "status without slurmdbd takes $((SECONDS - begin)) s"
grep -q "job $job" <<<"$said" || complain "status without slurmdbd: $said"
"$plan" submit "$scratch/run.yaml" --dry-run >"$scratch/said" 2>"$scratch/stderr" ||
    complain "a dry run without slurmdbd: exit code $?: $(cat "$scratch/stderr")"
[ $bad -eq 0 ] && echo "accounting: a forgotten job is found, waits have a band, limits that are enforced are told, and without slurmdbd both go on"
exit $((bad > 0))
