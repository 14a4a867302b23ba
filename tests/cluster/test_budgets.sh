#!/usr/bin/env bash
# What is left to accounts, drawn at random: trees of accounts and qos with GrpTRESMins and GrpWall, usage that decayed for a
# half-life (but of qos with NoDecay), billing by weights. plan's limits are held against sacctmgr's, its usage against
# sshare's, and what it says of the job against what a real controller does with that.
#
#   tests/cluster/test_budgets.sh BUILD-FOLDER [DRAWS [SEED]]      exit code 77: this machine cannot (said why)
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
build=$(cd "${1:-build}" && pwd) || exit 2
draws=${2:-16} seed=${3:-1}
plan=$build/plan
scratch=$build/tests/budgets
skip() {
    echo "SKIP: budgets under slurmdbd: $*"
    exit 77
}
fail() {
    echo "FAIL: $*"
    exit 1
}
rm -rf "$scratch"
mkdir -p "$scratch/tmp"
# shellcheck source=tests/cluster/database.sh
. tests/cluster/database.sh
# shellcheck disable=SC2317 # called by its name
end() {
    [ -z "${controller:-}" ] || bash tests/cluster/controller.sh down "$controller"
    kill "${database_pids[@]}" 2>/dev/null
    wait
}
trap end EXIT
trap 'exit 3' INT TERM
[[ $(slurmctld -V 2>/dev/null) == *" 22.05."* ]] || skip "the files of usage are written for Slurm 22.05"
database_up
export TMPDIR=$scratch/tmp XDG_STATE_HOME=$scratch/state
cat >>"$scratch/more.conf" <<'END'
AccountingStorageTRES=gres/gpu,gres/gpu:h100
PriorityType=priority/multifactor
PriorityDecayHalfLife=7-00:00:00
PriorityCalcPeriod=60
SchedulerParameters=bf_interval=1,sched_min_interval=0,default_queue_depth=1000
END
printf 'ClusterName=shardwright\nSlurmctldHost=localhost\nAuthType=auth/none\nCredType=cred/none\n' >"$scratch/sacctmgr.conf"
cat "$scratch/more.conf" >>"$scratch/sacctmgr.conf"
cat >"$scratch/run.yaml" <<END
name: demo
model: $PWD/configs/models/llama-8b.yaml
cluster: $PWD/configs/clusters/h100-8x8.yaml
sequence_length: 8192
global_batch_size: 64
optimizer: {total_steps: 1000}
data: {path: $PWD/README.md, format: bytes}
slurm: {cpus_per_task: 12, licenses: 'scratch:2'}
END

# a controller makes slurmdbd know the GPUs
controller=$(bash tests/cluster/controller.sh up nodes 1 leaf 0 conf "$scratch/more.conf") || fail "$controller"
controller=${controller#SLURM_CONF=}
# shellcheck disable=SC2317 # called by its name
knows_gpus() { SLURM_CONF=$controller sacctmgr -nP show tres format=type,name | grep -qx 'gres|gpu:h100'; }
until_true 30 knows_gpus || skip "slurmdbd does not learn of the controller's GPUs"
bash tests/cluster/controller.sh down "$controller"
controller=

batch() { # SAFE COUNT SEED
    local folder=$scratch/$done first=$done k=$done nodes time partition account qos
    mkdir -p "$folder"
    python3 tests/cluster/budgets.py write "$folder" "$2" "$3" "$1" "$first" || exit 3
    {
        cat "$scratch/more.conf" "$folder/conf"
        echo "AccountingStorageEnforce=associations,limits,qos$([ "$1" = 0 ] || echo ,safe)"
    } >"$folder/more.conf"
    export SLURM_CONF=$scratch/sacctmgr.conf
    sacctmgr -i <"$folder/commands" >"$folder/sacctmgr.log" 2>&1
    if grep -iE 'error|unknown|nothing modified|not found' "$folder/sacctmgr.log"; then exit 3; fi
    python3 tests/cluster/budgets.py usage "$folder" || exit 3
    controller=$(bash tests/cluster/controller.sh up nodes $(($2 * 4)) leaf 0 conf "$folder/more.conf" state "$folder/state") || fail "$controller"
    controller=${controller#SLURM_CONF=}
    export SLURM_CONF=$controller
    until_true 90 eval "scontrol show assoc_mgr flags=assoc | grep -q 'Account=leaf$((first + $2 - 1)) '" || fail "the controller knows no accounts"
    # decay comes within seconds of the start
    sleep 2
    while read -r nodes time partition account qos; do
        if ! "$plan" emit "$scratch/run.yaml" -o "$folder/$k" --set "nodes=$nodes" --set "slurm.time=$time" --set "slurm.partition=$partition" \
            --set "slurm.account=$account" --set "slurm.qos=$qos" --set "directory=$folder/$k" >"$folder/log" 2>&1; then
            fail "emit: $(cat "$folder/log")"
        fi
        "$plan" submit "$folder/$k/demo.plan.yaml" --dry-run --json >"$folder/said.$k" 2>"$folder/log"
        # 1: one that would wait for ever, however little is used
        [ $? -le 1 ] || fail "dry run: $(cat "$folder/log")"
        k=$((k + 1))
    done <"$folder/jobs"
    python3 tests/cluster/budgets.py limits "$folder" || exit 1
    for ((k = first; k < first + $2; k++)); do
        (cd "$folder/$k" && sbatch --parsable demo.sbatch) >"$folder/job.$k" 2>"$folder/log" || fail "sbatch: $(cat "$folder/log")"
    done
    # every job starts or has a reason that is no turn of the queue
    # shellcheck disable=SC2317 # called by its name
    settled() { ! squeue -h -o '%t %r' | grep -qE '^PD (None|Priority|Resources)$'; }
    until_true 15 settled
    python3 tests/cluster/budgets.py jobs "$folder" || exit 1
    bash tests/cluster/controller.sh down "$controller"
    controller=
}
# Half of the draws with `safe`; a controller has licenses for forty jobs.
done=0
for ((n = 0; done < draws; n++)); do
    count=$((draws - done < (draws + 1) / 2 ? draws - done : (draws + 1) / 2))
    count=$((count < 40 ? count : 40))
    batch $((n % 2)) $count $((seed + n))
    done=$((done + count))
done
echo "budgets: $draws draws from seed $seed: limits are sacctmgr's, usage is sshare's, and Slurm does with the jobs what plan says"
