#!/usr/bin/env bash
# Jobs that plan keeps no record of, and job arrays, with plan status, logs, cancel and submit: on a
# controller without nodes, where jobs wait for ever or get nodes that never wake.
#
#   tests/cluster/test_by_hand.sh BUILD-FOLDER       exit code 77: this machine cannot (said why)
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
build=$(cd "${1:-build}" && pwd) || exit 2
plan=$build/plan
scratch=$build/tests/by_hand
rm -rf "$scratch"
mkdir -p "$scratch"
scratch=$(realpath "$scratch")
export XDG_STATE_HOME=$scratch/state
bad=0

complain() {
    echo "FAIL: $*"
    bad=$((bad + 1))
}
# A plugin of the site's, which Slurm's clients load, explains in several lines.
lua=$(find /usr/lib*/ -name cli_filter_lua.so 2>/dev/null | head -n 1)
: >"$scratch/more.conf"
[ -z "$lua" ] || echo 'CliFilterPlugins=lua' >"$scratch/more.conf"
line=$(bash tests/cluster/controller.sh up nodes 8 conf "$scratch/more.conf")
status=$?
if [ $status -ne 0 ]; then
    echo "$line"
    exit $status
fi
trap 'bash tests/cluster/controller.sh down "$SLURM_CONF"' EXIT
trap 'exit 3' INT TERM
export SLURM_CONF=${line#SLURM_CONF=}

cat >"$(dirname "$SLURM_CONF")/cli_filter.lua" <<'END'
function slurm_cli_setup_defaults(options, early_pass) return slurm.SUCCESS end
function slurm_cli_pre_submit(options, offset)
    if options["job-name"] ~= "refused" then return slurm.SUCCESS end
    slurm.log_error("jobs of this site need a project")
    slurm.log_error("'sprojects' lists yours")
    return slurm.ERROR
end
function slurm_cli_post_submit(offset, job_id, step_id) return slurm.SUCCESS end
END

expect() { # CODE TEXT ARGUMENTS...: of plan
    local code=$1 text=$2
    shift 2
    "$plan" "$@" >"$scratch/said" 2>&1
    local status=$?
    [ $status -eq "$code" ] || complain "plan $*: exit $status, not $code: $(cat "$scratch/said")"
    grep -qF -- "$text" "$scratch/said" || complain "plan $*: not '$text' but: $(cat "$scratch/said")"
}
queue() { squeue -h -r -o '%i' | wc -l; }
record() { # FOLDER JOB
    cat >"$1/submission.json" <<END
{"schema": "shardwright.submission/1", "state": "submitted", "jobs": ["$2"], "token": "0123456789abcdef",
 "run": "demo", "attempt": 1, "plan_digest": "0123456789abcdef", "plan": "/x", "script_digest":
 "0123456789abcdef", "script": "/x", "log": "$1/slurm-%j.out", "checkpoints": "/x", "submitted_at":
 "2026-11-22T11:30:00Z", "cluster": "c", "mesh_dim": "1,1,1,1", "nodes": 1, "ranks": 1, "steps": 10,
 "predicted_step_seconds": null, "band_low_seconds": null, "band_high_seconds": null, "predicted_run_seconds": null}
END
}
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

# ---- A script that somebody gave to sbatch. The run's directory is another than the script's.
run=$scratch/by\ hand
"$plan" emit "$scratch/run.yaml" -o "$scratch/scripts" --set directory="$run" >/dev/null 2>&1 || complain "emit"
expect 2 "is not a run's directory" status "$run"
job=$(sbatch --parsable --hold "$scratch/scripts/demo.sbatch") || complain "sbatch"
for target in "$run" "$job" "$scratch/scripts/demo.plan.yaml"; do
    expect 0 "pending, job $job" status "$target"
    grep -q '^  now .*held' "$scratch/said" || complain "status of a held job: $(cat "$scratch/said")"
done
expect 1 "job $job has printed nothing yet (pending: " logs "$run"
expect 1 "job $job of this folder is waiting: two jobs would write the same files" \
    submit "$scratch/run.yaml" --set directory="$run"
# one of before is over, and on record; the new one is not
record "$run" 4711
expect 0 "pending, job $job" status "$run"
# as the job would have begun
mkdir -p "$run"
echo "it begins" >"$run/slurm-$job.out"
expect 0 "it begins" logs "$run"
expect 0 "demo: lost" cancel "$run"
[ "$(queue)" -eq 0 ] || complain "cancel leaves $(squeue -h)"
rm "$run/submission.json"
# what works in the folder without being a run's job is none of it
sbatch --parsable --hold --chdir="$run" --wrap=true >"$scratch/other" || complain "sbatch"
expect 2 "is not a run's directory" status "$run"
scancel "$(cat "$scratch/other")"

# ---- What a site's plugin says of a job that it refuses: every line.
if [ -n "$lua" ]; then
    expect 1 "Slurm refuses the job: lua: jobs of this site need a project; lua: 'sprojects' lists yours; cli_filter plugin terminated with error" \
        submit "$scratch/run.yaml" --set directory="$scratch/refused" --set slurm.job_name=refused
    [ ! -e "$scratch/refused/submission.json" ] || complain "a record of a job that was refused"
fi

# ---- Why a job waits, in Slurm's whole sentences: requeued and held; then for nodes that are drained.
until_true() { # WHAT: of squeue's reason
    local i
    for ((i = 0; i < 100; i++)); do
        case $(squeue -h -j "$job" -o %r) in *"$1"*) return ;; esac
        sleep 0.2
    done
    complain "no '$1': $(squeue)"
}
job=$("$plan" submit "$scratch/run.yaml" --set directory="$scratch/waits" 2>"$scratch/said") || complain "submit: $(cat "$scratch/said")"
for ((i = 0; i < 100; i++)); do
    [ "$(squeue -h -j "$job" -o %t)" = CF ] && break
    sleep 0.1
done
{ scontrol update jobid="$job" requeue=1 && scontrol requeuehold "$job"; } || complain "requeuehold"
until_true 'held state'
expect 0 "now      it was requeued and is held: 'scontrol release $job' lets it go" status "$scratch/waits"
grep -qF 'where    wants 8 nodes, and does not start by itself' "$scratch/said" || complain "a held job: $(cat "$scratch/said")"
"$plan" status "$scratch/waits" --json >"$scratch/said" || complain "status --json"
grep -q '"starts_at":.*null' "$scratch/said" || complain "a held job has a start: $(cat "$scratch/said")"
scontrol update nodename='gpu[0-3]' state=drain reason=test
scontrol update jobid="$job" starttime=now
scontrol release "$job"
until_true DRAINED
expect 0 "now      too few of the nodes that it may have are up: " status "$scratch/waits"
expect 0 "" cancel "$scratch/waits"
scontrol update nodename='gpu[0-3]' state=resume
[ "$(queue)" -eq 0 ] || complain "cancel leaves $(squeue -h)"

# ---- Arrays: more tasks than a record holds jobs.
for ((i = 0; i < 5; i++)); do echo "{\"prompt\": \"text $i\"}"; done >"$scratch/prompts.jsonl"
mkdir -p "$scratch/model"
echo "{}" >"$scratch/model/config.json"
cat >"$scratch/many.yaml" <<END
name: many
model: $PWD/configs/models/llama-8b.yaml
cluster: $PWD/configs/clusters/h100-8x8.yaml
nodes: 1
sequence_length: 8192
global_batch_size: 8
serve: {max_batch: 8, max_tokens: 1024}
job: {type: generate, checkpoint: $scratch/model, input: $scratch/prompts.jsonl, output: $scratch/texts.jsonl, shards: 100, at_once: 90}
slurm: {partition: gpu, time: '1:00:00', account: null}
directory: $scratch/many
END
begun() { # what the first task of an array tells
    echo "{\"schema\": \"shardwright.job/1\", \"type\": \"generate\", \"job\": \"$job\", \"output\": \"$scratch/texts.jsonl\", \"shards\": 100, \"lines\": 5}" \
        >"$scratch/many/job.json"
}
have_nodes() { # eight tasks get the eight nodes
    for ((i = 0; i < 100; i++)); do
        [ "$(squeue -h -r -t CF -o '%i' | wc -l)" -eq 8 ] && return
        sleep 0.1
    done
    complain "no task gets a node: $(squeue)"
}
job=$("$plan" submit "$scratch/many.yaml" --set slurm.begin=now+1hour 2>"$scratch/said") || complain "submit of an array: $(cat "$scratch/said")"
[ "$(queue)" -eq 100 ] || complain "not 100 tasks: $(squeue)"
expect 0 "many: pending, job $job" status "$scratch/many"
grep -qE "job $job(,|\$)" "$scratch/said" || complain "an array that waits: $(cat "$scratch/said")"
expect 1 "job $job has printed nothing yet" logs "$scratch/many.yaml"
expect 1 "job $job of this folder is waiting: two jobs" submit "$scratch/many.yaml"
grep -qF "'plan cancel $job'" "$scratch/said" || complain "what ends an array: $(cat "$scratch/said")"
expect 0 "many: " cancel "$job"
[ "$(queue)" -eq 0 ] || complain "cancel leaves $(queue) tasks: $(squeue -h)"

job=$("$plan" submit "$scratch/many.yaml" 2>"$scratch/said") || complain "submit of an array: $(cat "$scratch/said")"
have_nodes
begun
echo "task 3 speaks" >"$scratch/many/slurm-${job}_3.out"
sleep 0.1
echo "task 7 speaks" >"$scratch/many/slurm-${job}_7.out"
echo "of another job" >"$scratch/many/slurm-${job}9_1.out"
touch -d '1 hour ago' "$scratch/many/slurm-${job}_3.out"
touch -d '1 minute' "$scratch/many/slurm-${job}9_1.out"
expect 0 "task 7 speaks" logs "$scratch/many"
grep -q "of another" "$scratch/said" && complain "the log of another job"
(cd "$scratch" && "$plan" logs "${job}_3") >"$scratch/said" 2>&1
[ "$(cat "$scratch/said")" = "task 3 speaks" ] || complain "logs of task 3: $(cat "$scratch/said")"
(cd "$scratch" && "$plan" status "${job}_3") >"$scratch/said" 2>&1
grep -q "^many: starting, job $job" "$scratch/said" || complain "an array that begins: $(cat "$scratch/said")"
grep -q '0 of 5, in 100 parts, 0 of them done' "$scratch/said" || complain "its parts: $(cat "$scratch/said")"
# the record is gone: what the tasks told leads to the array
rm "$scratch/many/submission.json"
expect 0 ", job $job" status "$scratch/many"
grep -q lost "$scratch/said" && complain "an array without a record is lost: $(cat "$scratch/said")"
expect 0 "task 7 speaks" logs "$scratch/many"
expect 1 "job $job" submit "$scratch/many.yaml"
expect 0 "" cancel "$scratch/many"
[ "$(queue)" -eq 0 ] || complain "cancel leaves $(queue) tasks: $(squeue -h)"

# ---- Slurm's words for many tasks that wait: with a step, and cut short.
for step in 2 random; do
    job=$("$plan" submit "$scratch/many.yaml" --set slurm.begin=now+1hour 2>/dev/null) || complain "submit"
    if [ $step = 2 ]; then
        seq 1 2 99
    else
        printf '%s\n' 3 5 8 9 14 17 19 22 25 31 33 37 41 42 47 51 52 58 61 64 66 69 73 75 80 82 87 91 94 98
    fi | sed "s/^/${job}_/" | xargs scancel
    if [ $step = 2 ]; then word=':2%' ; else word=,20; fi
    [ $step = 2 ] || ! squeue -h -o %i | grep -qF ']' || complain "Slurm names all tasks: $(squeue -h -o %i)"
    squeue -h -o %i | grep -qF -- "$word" || complain "Slurm's word for the tasks: $(squeue -h -o %i)"
    expect 0 "many: pending, job $job" status "$scratch/many"
    expect 0 "many: " cancel "$scratch/many"
    [ "$(queue)" -eq 0 ] || complain "cancel leaves $(queue) tasks: $(squeue -h)"
done

[ $bad -eq 0 ] && echo "jobs submitted by hand are found, arrays watched, read and cancelled"
exit $((bad > 0))
