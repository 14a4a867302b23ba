#!/usr/bin/env bash
# plan submit --dry-run and --soonest, and what is checked before a job is submitted, on a real
# controller whose queue is filled: its nodes are a cloud's that never wakes, so jobs get them and
# keep them.
#
#   tests/cluster/test_dry_run.sh BUILD-FOLDER       exit code 77: this machine cannot (said why)
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
build=$(cd "${1:-build}" && pwd) || exit 2
plan=$build/plan
scratch=$build/tests/dry_run
rm -rf "$scratch"
mkdir -p "$scratch"
export XDG_STATE_HOME=$scratch/state
bad=0

complain() {
    echo "FAIL: $*"
    bad=$((bad + 1))
}
cat >"$scratch/more.conf" <<'END'
PartitionName=closed Nodes=ALL AllowAccounts=physics State=UP
PartitionName=down Nodes=ALL State=DOWN
PartitionName=capped Nodes=gpu[0-7] MaxCPUsPerNode=64 State=UP
PartitionName=narrow Nodes=ALL MaxNodes=2 MinNodes=2 State=UP
NodeName=thin[1-2] CPUs=4 Boards=1 SocketsPerBoard=1 CoresPerSocket=4 ThreadsPerCore=1 RealMemory=4000 State=CLOUD
PartitionName=thin Nodes=thin[1-2] State=UP
END
line=$(bash tests/cluster/controller.sh up nodes 8 conf "$scratch/more.conf")
status=$?
if [ $status -ne 0 ]; then
    echo "$line"
    exit $status
fi
trap 'bash tests/cluster/controller.sh down "$SLURM_CONF"' EXIT
trap 'exit 3' INT TERM
export SLURM_CONF=${line#SLURM_CONF=}
export TMPDIR=$scratch/tmp
mkdir -p "$TMPDIR"

# A thousand steps of about a second on all 64 accelerators.
cat >"$scratch/run.yaml" <<END
name: demo
model: $PWD/configs/models/llama-8b.yaml
cluster: $PWD/configs/clusters/h100-8x8.yaml
sequence_length: 8192
global_batch_size: 64
optimizer: {total_steps: 1000}
data: {path: $PWD/README.md, format: bytes}
slurm: {partition: gpu, time: '1-00:00:00', account: null}
END
# choice KEY... : of the choices, as JSON lines "nodes partition KEY..."
choices() {
    python3 - "$@" "$scratch/stdout" <<'END'
import json, sys
for c in json.load(open(sys.argv[-1]))["choices"]:
    print(c["nodes"], c["partition"], *(c.get(key) for key in sys.argv[1:-1]))
END
}
dry_run() { # ARGUMENTS...: to stdout, with exit code 0
    "$plan" submit "$scratch/run.yaml" --dry-run "$@" >"$scratch/stdout" 2>"$scratch/stderr" ||
        complain "submit --dry-run $*: exit code $?: $(cat "$scratch/stderr")"
}
# refuses WHY ARGUMENTS...: neither the dry run nor the submission takes it
refuses() {
    local why=$1
    shift
    "$plan" submit "$scratch/run.yaml" --set directory="$scratch/refused" "$@" >"$scratch/stdout" 2>"$scratch/stderr"
    [ $? -eq 1 ] || complain "submit $*: not exit code 1"
    grep -qxF -- "plan: error: the job cannot start: $why" "$scratch/stderr" ||
        complain "submit $* says '$(cat "$scratch/stderr")', not '$why'"
    "$plan" submit "$scratch/run.yaml" --dry-run "$@" >"$scratch/stdout" 2>"$scratch/stderr"
    grep -qF -- "$why" "$scratch/stdout" || complain "submit --dry-run $*: $(cat "$scratch/stdout" "$scratch/stderr")"
}
queue() { squeue -h -o '%i' | wc -l; }

# An empty cluster: all nodes are the fastest, and nothing is left behind. The controller's estimate
# is of whole seconds and may begin with its next turn: a few seconds are no wait.
dry_run --json
choices starts soonest like_jobs wait_seconds | sed -n 1p |
    awk '$1 " " $2 " " $3 " " $4 " " $5 != "8 gpu True True 0" || $6 > 30 { exit 1 }' ||
    complain "an empty cluster: $(choices starts soonest wait_seconds like_jobs)"
[ "$(choices submitted | grep -c True)" -eq 1 ] || complain "not one choice is what would be submitted"
steps() { python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); print(d["steps"], d["steps_assumed"])' "$scratch/stdout"; }
[ "$(steps)" = '1000 False' ] || complain "a thousand steps that the run says: $(steps)"
dry_run --json --set optimizer.total_steps=null
[ "$(steps)" = '1000 True' ] || complain "steps that no one says: $(steps)"
dry_run --json --set 'stages=[{optimizer: {total_steps: 300}}, {optimizer: {total_steps: 500}}]'
python3 -c 'import json, sys
d = json.load(open(sys.argv[1]))
s, step = d["stages"], [c for c in d["choices"] if c["submitted"]][0]["step_seconds"]
assert d["steps"] == 300 and s["count"] == 2 and s["steps"] == 800, (d["steps"], s)
assert 1 <= s["run_seconds"] / (800 * step) < 1.1, (s, step)' "$scratch/stdout" || complain "stages in a dry run"
dry_run --set 'stages=[{optimizer: {total_steps: 300}}, {optimizer: {total_steps: 500}}]'
grep -q '^stage 1 of 2; the steps of all stages, 800, take ' "$scratch/stdout" || complain "stages: $(cat "$scratch/stdout")"
dry_run
grep -q '^✓ .* no history .* 8  gpu ' "$scratch/stdout" || complain "the text: $(cat "$scratch/stdout")"
[ "$(queue)" -eq 0 ] || complain "a dry run submits"
[ -z "$(find "$TMPDIR" -mindepth 1)" ] || complain "a dry run leaves $(find "$TMPDIR" -mindepth 1)"
[ ! -e "$scratch/runs" ] || complain "a dry run makes the run's folder"
# what the controller says is what the dry run says
for nodes in 8 2; do
    wanted=$(sbatch --test-only -N$nodes --ntasks-per-node=8 --cpus-per-task=12 --gpus-per-node=h100:8 -p gpu \
        -t 1-00:00:00 --wrap true 2>&1 | sed -nE 's/.* on nodes ([^ ]*) in .*/\1/p')
    dry_run --json
    choices node_list | grep -xF "$nodes gpu $wanted" >/dev/null || complain "$nodes nodes: not $wanted: $(choices node_list)"
done

# Six of eight nodes are taken for twelve hours: two that are free win.
busy=$(sbatch --parsable -N6 --exclusive -p all -t 12:00:00 --wrap 'sleep 1') || complain "sbatch"
for ((i = 0; i < 100; i++)); do
    [ "$(squeue -h -j "$busy" -o '%D %t')" = '6 CF' ] && break
    sleep 0.1
    [ $i -lt 99 ] || complain "job $busy does not start: $(squeue)"
done
dry_run --json
first=$(choices soonest submitted jobs | sed -n 1p)
[ "$first" = '2 gpu True False 1' ] || complain "with six nodes taken the soonest is $first"
choices wait_seconds submitted | awk '$1 == 8 && $NF == "True" && $3 > 42000 && $3 < 43300 {found = 1} END {exit !found}' ||
    complain "the wait for all nodes is not twelve hours: $(choices wait_seconds submitted)"
dry_run
grep -qE '^✓ .* 12\.[0-9] h ' "$scratch/stdout" || complain "the text of a wait: $(cat "$scratch/stdout")"
"$plan" submit "$scratch/run.yaml" --soonest --set directory="$scratch/soonest" >"$scratch/stdout" 2>"$scratch/stderr" ||
    complain "submit --soonest: $(cat "$scratch/stderr")"
grep -q '^soonest: 2 nodes of partition gpu, mesh_dim .*: starts now, done in ' "$scratch/stderr" ||
    complain "--soonest says $(cat "$scratch/stderr")"
job=$(cat "$scratch/stdout")
[ "$(squeue -h -j "$job" -o '%D %P')" = '2 gpu' ] || complain "job $job has $(squeue -h -j "$job" -o '%D %P')"
grep -qE '^    *nodes: 2$' "$scratch/soonest/demo.plan.yaml" || complain "the plan is not for two nodes"
python3 -c 'import json, sys
line = json.loads(open(sys.argv[1]).read())
assert line["cluster"] == "shardwright" and line["job"] == int(sys.argv[2]), line
assert abs(line["estimate"] - line["asked"]) < 60, line' "$XDG_STATE_HOME/shardwright/starts.jsonl" "$job" ||
    complain "the log of starts: $(cat "$XDG_STATE_HOME/shardwright/starts.jsonl")"
scancel "$job"

# Six jobs of ours waited half of what the controller had said.
for ((i = 1; i <= 6; i++)); do
    echo "{\"cluster\":\"shardwright\",\"job\":9000$i,\"asked\":1000000,\"estimate\":1010000}"
    echo "{\"cluster\":\"shardwright\",\"job\":9000$i,\"started\":$((1004000 + i * 500))}"
    echo "{\"cluster\":\"elsewhere\",\"job\":9000$i,\"asked\":1000000,\"estimate\":1010000,\"started\":1990000}"
    echo 'no JSON'
done >"$XDG_STATE_HOME/shardwright/starts.jsonl"
dry_run --json
python3 -c 'import json, sys
d = json.load(open(sys.argv[1]))
assert d["log_jobs"] == 6 and abs(d["log_ratio"] - 0.575) < 1e-9, (d["log_jobs"], d["log_ratio"])
c = next(c for c in d["choices"] if c["nodes"] == 8 and c["submitted"])
estimate = c["starts_at"] - d["asked_at"]
assert abs(c["wait_seconds"] - 0.575 * estimate) < 1, c
assert abs(c["wait_low_seconds"] - 0.475 * estimate) < 1 and abs(c["wait_high_seconds"] - 0.675 * estimate) < 1, c' \
    "$scratch/stdout" || complain "the log corrects nothing: $(cat "$scratch/stdout")"
rm "$XDG_STATE_HOME/shardwright/starts.jsonl"
scancel "$busy"

# The list of partitions: each is asked.
dry_run --json --set slurm.partition=gpu,short --set slurm.time=0:20:00
for partition in gpu short; do
    choices starts | grep -xF "8 $partition True" >/dev/null || complain "partition $partition is not asked"
done
# Steps that a job's limit does not hold take several.
[ "$(choices jobs | sed -n 1p)" = '8 gpu 1' ] || complain "1000 steps in 20 minutes: $(choices jobs)"
dry_run --json --set slurm.time=0:05:00
[ "$(choices jobs | sed -n 1p)" = '8 gpu 5' ] || complain "1000 steps in jobs of five minutes: $(choices jobs)"

# Without a limit of the run's own, each number of nodes asks for what its steps need: no job follows another.
dry_run --json --set slurm.partition=all --set slurm.time=null
choices jobs | awk '$1 <= 2 {few = 1} $3 != 1 {exit 1} END {exit !few}' || complain "limits that follow: $(choices jobs limit_seconds)"
choices limit_seconds | sort -n | awk '$3 > last && NR > 1 {exit 1} {last = $3}' ||
    complain "fewer nodes do not ask for more time: $(choices limit_seconds)"

# What Slurm takes without a word, and what it refuses.
refuses 'its time limit, 3-00:00:00, is more than the 2.0 days of partition gpu: it would wait for ever' \
    --set slurm.time=3-00:00:00
refuses "there is no partition 'nosuch'; see 'sinfo'" --set slurm.partition=nosuch
refuses 'partition down starts no jobs now' --set slurm.partition=down
refuses '8 nodes asked for, but partition narrow gives a job at most 2' --set slurm.partition=narrow
# sbatch does not take the one, and takes the other
refuses 'whole nodes asked for, but partition capped gives a job 64 processors of a node: set slurm.exclusive to false' \
    --set slurm.partition=capped --set slurm.cpus_per_task=8
sbatch --test-only -N8 --exclusive -p capped -t 10 --wrap true 2>/dev/null && complain "whole nodes of a capped partition start"
dry_run --set slurm.partition=capped --set slurm.cpus_per_task=8 --set slurm.exclusive=false
refuses "account 'maths' may not use partition closed: physics may" --set slurm.partition=closed \
    --set slurm.account=maths
refuses "8 nodes with GPUs 'a100:8' asked for, but partition gpu has 0" --set slurm.gpus_per_node=a100:8
refuses '8 nodes with 104 processors asked for (tasks of a node times cpus_per_task), but partition gpu has 0' \
    --set slurm.cpus_per_task=13
refuses '8 nodes asked for, but partition thin has 2' --set slurm.partition=thin
refuses '8 nodes with 3145728 MB of memory asked for, but partition gpu has 0' --set slurm.mem=3T
[ "$(queue)" -le 1 ] || complain "something was submitted: $(squeue)"
"$plan" submit "$scratch/run.yaml" --dry-run --set slurm.partition=down >/dev/null 2>"$scratch/stderr"
[ $? -eq 1 ] || complain "a dry run of what cannot start has exit code 0"
grep -qx 'plan: error: no job of this run can start: partition down starts no jobs now' "$scratch/stderr" ||
    complain "a dry run of what cannot start says $(cat "$scratch/stderr")"
cat >"$scratch/site.sbatch" <<'END'
#!/bin/bash
#SBATCH --dependency=afterok:4711
#SBATCH --nodes={{nodes}} --time="1:00:00"
true {{plan}} {{digest}}
END
refuses 'it depends on job 4711, which the controller does not know (any more)' --template "$scratch/site.sbatch"
"$plan" submit "$scratch/run.yaml" --dry-run --set launcher=x >/dev/null 2>&1 && complain "nonsense is taken"

# A drained node of all that a job wants: sbatch queues what its --test-only refuses, and so does plan.
scontrol update nodename=gpu3 state=drain reason=test || complain "drain"
"$plan" submit "$scratch/run.yaml" --set directory="$scratch/drained" >"$scratch/stdout" 2>"$scratch/stderr" ||
    complain "submit with a drained node: $(cat "$scratch/stderr")"
job=$(cat "$scratch/stdout")
grep -qxF 'plan: warning: the job waits for gpu3 (drained); --set nodes=7 starts now' "$scratch/stderr" ||
    complain "submit with a drained node says $(cat "$scratch/stderr")"
[ "$(squeue -h -j "$job" -o %t)" = PD ] || complain "the job is $(squeue -h)"
dry_run
grep -qxF '✗ 8 nodes, partition gpu: waits for gpu3 (drained)' "$scratch/stdout" || complain "a dry run: $(cat "$scratch/stdout")"
scancel "$job"
# what is advised is accepted, and where the mesh needs all nodes nothing is
job=$("$plan" submit "$scratch/run.yaml" --set directory="$scratch/advised" --set nodes=7 2>"$scratch/stderr") ||
    complain "what was advised is refused: $(cat "$scratch/stderr")"
grep -q 'waits for' "$scratch/stderr" && complain "what was advised waits: $(cat "$scratch/stderr")"
scancel "$job"
dry_run --mesh_dim '!1,64,1,1'
job=$("$plan" submit "$scratch/run.yaml" --set directory="$scratch/whole" --mesh_dim '!1,64,1,1' 2>"$scratch/stderr") ||
    complain "a mesh of all nodes: $(cat "$scratch/stderr")"
grep -qxF 'plan: warning: the job waits for gpu3 (drained)' "$scratch/stderr" || complain "a mesh of all nodes: $(cat "$scratch/stderr")"
scancel "$job"
scontrol update nodename=gpu3 state=resume || complain "resume"

# A plan is asked for as it is: its nodes, its mesh, what its script says, in each partition.
"$plan" emit "$scratch/run.yaml" -o "$scratch/settled" --set directory="$scratch/settled" --set nodes=4 \
    --set slurm.partition=gpu,short --set slurm.time=0:20:00 >/dev/null 2>&1 || complain "emit"
"$plan" submit "$scratch/settled/demo.plan.yaml" --dry-run --json >"$scratch/stdout" 2>"$scratch/stderr" ||
    complain "a dry run of a plan: $(cat "$scratch/stderr")"
mesh=$(sed -nE 's/^# Mesh +([0-9,]+) .*/\1/p' "$scratch/settled/demo.sbatch")
[ "$(choices mesh_dim starts | sort)" = "$(printf '4 %s %s True\n' gpu "$mesh" short "$mesh")" ] ||
    complain "a dry run of a plan of mesh $mesh on 4 nodes: $(choices mesh_dim starts)"
[ "$(choices submitted | grep -c True)" -eq 1 ] || complain "not one choice is what would be submitted"
"$plan" submit "$scratch/settled/demo.plan.yaml" --dry-run >"$scratch/stdout" 2>&1
grep -q '^✓ .* 4  ' "$scratch/stdout" || complain "a dry run of a plan, the text: $(cat "$scratch/stdout")"
grep -q soonest "$scratch/stdout" && complain "a dry run of a plan speaks of --soonest"
[ "$(queue)" -le 1 ] || complain "a dry run of a plan submits"
sed -i -E 's/(digests=4:|--digest )[0-9a-f]{16}/\10123456789abcdef/; /plan digest/d' "$scratch/settled/demo.sbatch"
"$plan" submit "$scratch/settled/demo.plan.yaml" --dry-run >/dev/null 2>"$scratch/stderr"
[ $? -eq 2 ] || complain "a dry run of a plan with another's script: not exit code 2"
grep -qxE "plan: error: '$scratch/settled/demo.sbatch' was not written with this plan, whose digest is [0-9a-f]{16}; 'plan emit' writes both" \
    "$scratch/stderr" || complain "a dry run of a plan with another's script says $(cat "$scratch/stderr")"
"$plan" submit demo.plan.yaml --soonest >/dev/null 2>"$scratch/stderr"
grep -qx 'plan: error: a plan is submitted unchanged; --soonest chooses nodes and mesh and needs a run file; --dry-run tells when the plan could start' \
    "$scratch/stderr" || complain "--soonest of a plan says $(cat "$scratch/stderr")"

# Twenty estimates take less than two seconds.
for backing in library commands; do
    [ $backing = commands ] || [ -x "$build/plan-slurm" ] || continue
    used=$( { TIMEFORMAT='%U %S'; time "$build/slurm_backings" $backing 20 >"$scratch/said"; } 2>&1 |
        awk '{print $1 + $2}')
    grep -q '^20 estimates' "$scratch/said" || complain "estimates by $backing: $(cat "$scratch/said")"
    awk -v used="$used" 'BEGIN {exit !(used < 2)}' || complain "20 estimates by $backing: $used s of processor time"
done

[ $bad -eq 0 ] && echo "a dry run: waits, limits, and the soonest plan"
exit $((bad > 0))
