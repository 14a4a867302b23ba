#!/usr/bin/env bash
# Limits of sites drawn at random, each with a partition, two qos, two accounts and a user of its own under a real
# controller with slurmdbd: what Slurm does with the job, what plan says of it, and what the naive rules of
# tests/property/limits_draw.c say, which other draws are held against without a controller.
#
#   tests/cluster/test_limits.sh BUILD-FOLDER [DRAWS [SEED]]      exit code 77: this machine cannot (said why)
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
build=$(cd "${1:-build}" && pwd) || exit 2
draws=${2:-16} seed=${3:-1}
drawn=$build/tests/test_limits_drawn
scratch=$build/tests/limits
bad=0
skip() {
    echo "SKIP: limits under slurmdbd: $*"
    exit 77
}
[ -x "$drawn" ] || skip "there is no test_limits_drawn (it needs cmocka)"
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
database_up
export TMPDIR=$scratch/tmp
cat >>"$scratch/more.conf" <<'END'
AccountingStorageTRES=gres/gpu,gres/gpu:h100
SchedulerParameters=bf_interval=1,sched_min_interval=0,default_queue_depth=1000
END
# sacctmgr asks slurmdbd alone: accounts stand before the controller starts, which looks for the qos of its partitions
printf 'ClusterName=shardwright\nSlurmctldHost=localhost\nAuthType=auth/none\nCredType=cred/none\n' >"$scratch/sacctmgr.conf"
cat "$scratch/more.conf" >>"$scratch/sacctmgr.conf"

# a controller makes slurmdbd know the GPUs
line=$(bash tests/cluster/controller.sh up nodes 1 leaf 0 conf "$scratch/more.conf") || {
    echo "$line"
    exit 3
}
# shellcheck disable=SC2317 # called by its name
knows_gpus() { SLURM_CONF=${line#SLURM_CONF=} sacctmgr -nP show tres format=type,name | grep -qx 'gres|gpu:h100'; }
until_true 30 knows_gpus || skip "slurmdbd does not learn of the controller's GPUs"
bash tests/cluster/controller.sh down "${line#SLURM_CONF=}"

# Half of the draws with `safe`, which holds groups to their minutes.
batch() { # SAFE COUNT SEED
    local line i id state
    "$drawn" write "$3" "$2" "$1" $done >"$scratch/draws" || exit 3
    cp "$scratch/more.conf" "$scratch/batch.conf"
    echo "AccountingStorageEnforce=associations,limits,qos$([ "$1" = 0 ] || echo ,safe)" >>"$scratch/batch.conf"
    sed -n 's/^conf //p' "$scratch/draws" >>"$scratch/batch.conf"
    export SLURM_CONF=$scratch/sacctmgr.conf
    {
        sacctmgr -i add cluster shardwright
        # one after the other: two at a time mistake the tree of accounts
        sed -n 's/^sacctmgr //p' "$scratch/draws" | sacctmgr -i
    } >"$scratch/sacctmgr.log" 2>&1
    if grep -iE 'error|unknown|nothing modified|not found' "$scratch/sacctmgr.log"; then exit 3; fi
    line=$(bash tests/cluster/controller.sh up nodes $(($2 * 4)) cpus 16 gpus 4 memory 64000 leaf 0 conf "$scratch/batch.conf") || {
        echo "$line"
        exit 3
    }
    controller=${line#SLURM_CONF=}
    export SLURM_CONF=$controller
    until_true 90 eval "scontrol show assoc_mgr flags=assoc | grep -q 'Account=m$((done + $2 - 1)) '" || { echo "the controller knows no accounts" && exit 3; }
    sed -n 's/^job //p' "$scratch/draws" >"$scratch/jobs"
    while read -ra job; do
        printf '#SBATCH %s\n' "${job[@]}"
        echo end
    done <"$scratch/jobs" >"$scratch/scripts"
    "$drawn" ask <"$scratch/scripts" >"$scratch/plan" || exit 3
    : >"$scratch/ids"
    while read -ra job; do
        sbatch --parsable -o /dev/null --wrap true "${job[@]}" 2>>"$scratch/refused" || echo refused
    done <"$scratch/jobs" >"$scratch/ids"
    # every job starts or has a reason that is no turn of the queue
    # shellcheck disable=SC2317 # called by its name
    settled() { ! squeue -h -o '%t %r' | grep -qE '^PD (None|Priority|Resources)$'; }
    until_true 15 settled
    squeue -h -o '%A %F %t %r' >"$scratch/queue"
    sed -n 's/^naive //p' "$scratch/draws" >"$scratch/naive"
    i=0
    while read -r id; do
        state=0
        if [ "$id" != refused ] && grep -qE "^([0-9]+ $id|$id [0-9]+) (R|CF|CG) " "$scratch/queue"; then state=1; fi
        line=$(sed -n "$((i + 1))p" "$scratch/plan")
        naive=$(sed -n "$((i + 1))p" "$scratch/naive")
        if [ "$state" != "${line%% *}" ] || [ "$state" != "$naive" ]; then
            echo "FAIL: draw $i of seed $3, safe $1: Slurm $([ $state = 1 ] && echo starts || echo holds) it ($id $(
                grep -E "^([0-9]+ $id|$id )" "$scratch/queue" | head -n 1)), naive $naive, plan $line"
            awk -v i=$i '/^naive/ { n++; next } n == i' "$scratch/draws"
            bad=$((bad + 1))
        fi
        started=$((started + state))
        i=$((i + 1))
    done <"$scratch/ids"
    bash tests/cluster/controller.sh down "$controller"
    controller=
}
started=0 done=0 most=32
while [ $done -lt "$draws" ]; do
    count=$((draws - done < most ? draws - done : most))
    batch $((done / most % 2)) $count $((seed + done / most))
    done=$((done + count))
done
[ $bad -eq 0 ] && echo "limits: $draws draws from seed $seed, of which $started start: Slurm, plan and the naive rules agree"
exit $((bad > 0))
