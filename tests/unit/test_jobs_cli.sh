#!/usr/bin/env bash
# submit, status, runs, logs and cancel where there is no Slurm, or one that cannot be asked: exit
# codes, one line for each mistake, and what the folders tell all the same.
#
#   tests/unit/test_jobs_cli.sh PLAN RUNNER SCRATCH      from the root of the tree
set -uo pipefail
plan=$(realpath "$1") && [ -x "$plan" ] || exit 2
runner=$(realpath "$2") && [ -x "$runner" ] || exit 2
# shellcheck source=tests/support/scratch.sh
. "$(dirname "$0")/../support/scratch.sh"
scratch=$(scratch_in "$3") && mkdir "$scratch/bin" || exit 2
bad=0

complain() {
    echo "FAIL: $*"
    bad=$((bad + 1))
}
# expect CODE STDERR-LINE ARGUMENTS...: '' means that stderr is empty, '*' that its text does not matter.
# No program of Slurm is in PATH.
expect() {
    local code=$1 said=$2 status
    shift 2
    (PATH=$scratch/bin && "$plan" "$@") >"$scratch/stdout" 2>"$scratch/stderr"
    status=$?
    [ $status -eq "$code" ] || complain "plan $*: exit $status, not $code: $(cat "$scratch/stderr")"
    case $said in
        '') [ ! -s "$scratch/stderr" ] || complain "plan $*: said $(cat "$scratch/stderr")" ;;
        '*') [ -s "$scratch/stderr" ] || complain "plan $*: said nothing" ;;
        *) grep -qxF -- "$said" "$scratch/stderr" ||
            complain "plan $*: said '$(cat "$scratch/stderr")', not '$said'" ;;
    esac
}
shows() { grep -qF -- "$1" "$scratch/stdout" || complain "not shown: '$1' in: $(cat "$scratch/stdout")"; }

no_squeue="plan: error: there is no 'squeue' on this machine; do this where Slurm's commands are (Debian: slurm-client)"

# What is no run.
mkdir "$scratch/empty"
expect 2 "plan: error: '$scratch/empty' is not a run's directory; name one, a run file or a job's number ('plan runs' lists the runs below a folder)" status "$scratch/empty"
expect 2 '*' status "$scratch/nowhere.yaml"
expect 2 'plan: error: one run at a time; '"'plan runs' shows all of a folder" status a b
expect 0 "no run in '$scratch/empty' or below it" runs "$scratch/empty"
expect 2 "plan: error: cannot read the folder '$scratch/nowhere': No such file or directory" runs "$scratch/nowhere"
expect 2 "plan: error: --lines must be a whole number from 0, not 'x'; see 'plan logs --help'" logs -n x
expect 2 "plan: error: name a run file, as in 'plan search configs/runs/quickstart.yaml'" submit
expect 2 "plan: error: the launcher of cluster 'laptop' is mpirun, so there is no job to submit; write the script with 'plan emit' and start it with bash" \
    submit configs/runs/quickstart.yaml --set directory="$scratch/mpi"
expect 3 "$no_squeue" submit configs/runs/quickstart-slurm.yaml --set data.path=README.md --set directory="$scratch/submitted"
[ ! -e "$scratch/submitted/submission.json" ] || complain "a record of a job that cannot be"
[ ! -e "$scratch/submitted/quickstart-slurm.sbatch" ] || complain "a script of a job that cannot be"
(cd "$scratch/empty" && PATH=$scratch/bin "$plan" status 4711) >/dev/null 2>"$scratch/stderr"
[ $? -eq 3 ] || complain "a job's number without Slurm: not exit 3"
grep -qxF "$no_squeue" "$scratch/stderr" || complain "a job's number without Slurm: $(cat "$scratch/stderr")"

# A plan is submitted with the script that was written with it.
"$plan" emit configs/runs/quickstart-slurm.yaml -o "$scratch/emitted" --set data.path=README.md --set directory="$scratch/emitted" \
    >/dev/null || complain "emit failed"
expect 2 "plan: error: a plan is submitted unchanged; --set, --mesh_dim, --prefer and --template need a run file" \
    submit "$scratch/emitted/quickstart-slurm.plan.yaml" --set global_batch_size=4
expect 3 "$no_squeue" submit "$scratch/emitted/quickstart-slurm.plan.yaml"

# A run that says no directory and lies in a git checkout fills that.
mkdir -p "$scratch/checkout/.git"
sed -e "s#: \.\./#: $PWD/configs/#" -e "s#path: $PWD/configs/\.\./#path: $PWD/#" -e '/^directory:/d' \
    configs/runs/quickstart-slurm.yaml >"$scratch/checkout/run.yaml"
"$plan" emit "$scratch/checkout/run.yaml" -o "$scratch/checkout" >/dev/null 2>"$scratch/stderr" || complain "emit failed"
grep -qxF "$scratch/checkout/run.yaml: note: the run writes its logs and checkpoints to $scratch/checkout/runs/quickstart-slurm, inside the git checkout $scratch/checkout; 'directory' in the run file names another folder" \
    "$scratch/stderr" || complain "nothing is said of the checkout: $(cat "$scratch/stderr")"
"$plan" emit "$scratch/checkout/run.yaml" -o "$scratch/checkout" --set directory="$scratch/checkout/own" >/dev/null 2>"$scratch/stderr"
grep -q 'git checkout' "$scratch/stderr" && complain "a directory that was chosen: $(cat "$scratch/stderr")"

# A run of mpirun has a status, too: it needs nothing of Slurm.
cat >"$scratch/tiny.yaml" <<END
name: tiny
model: {vocab_size: 256, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 1, num_attention_heads: 2}
cluster: {name: one, nodes: 1, accelerators_per_node: 1, accelerator: $PWD/configs/accelerators/cpu-core.yaml, launcher: mpirun}
sequence_length: 32
global_batch_size: 2
precision: {compute: fp32}
optimizer: {total_steps: 1000000}
data: {path: text.txt}
directory: run
END
for ((i = 0; i < 100; i++)); do echo "to be or not to be, that is the question"; done >"$scratch/text.txt"
"$plan" emit "$scratch/tiny.yaml" -o "$scratch" >/dev/null || complain "emit failed"
expect 0 '' status "$scratch/tiny.yaml"
shows "step 0 of 1,000,000"
expect 0 '' status "$scratch/tiny.yaml" --set cluster.launcher=slurm \
    --set 'job={type: serve, checkpoint: latest, token_file: text.txt}'
if grep -q steps "$scratch/stdout"; then complain "a server has steps: $(cat "$scratch/stdout")"; fi
"$runner" train "$scratch/tiny.plan.yaml" >"$scratch/log" 2>&1 &
pid=$!
for ((i = 0; i < 200; i++)); do
    [ -f "$scratch/run/metrics.jsonl" ] && [ "$(wc -l <"$scratch/run/metrics.jsonl")" -ge 5 ] && break
    sleep 0.1
done
expect 0 '' status "$scratch/tiny.yaml"
shows "run: running, attempt 1"
shows " of 1,000,000, loss "
expect 1 "plan: error: mpirun started it, not Slurm: press Ctrl-C there, or send TERM to its script" cancel "$scratch/run"
expect 1 "plan: error: a run that mpirun started prints where it was started; there is no log file" logs "$scratch/run"
kill -INT "$pid"
wait "$pid"
[ $? -eq 130 ] || complain "the runner did not end with 130"
expect 0 '' status "$scratch/tiny.plan.yaml"
shows "run: stopped, attempt 1"
shows "a person stopped it: SIGINT, after step "
shows "starting it again resumes from the last checkpoint"
expect 130 '' status --watch "$scratch/run"
shows " stopped, step "
expect 0 '' runs "$scratch"
[ "$(wc -l <"$scratch/stdout")" -eq 2 ] || complain "not one run: $(cat "$scratch/stdout")"
# Where there are no symlinks, `latest` is a file with the name.
expect 0 '' status "$scratch/run"
newest=$(readlink "$scratch/run/checkpoints/latest")
# A machine that is fast enough passes step 999 before the signal: from there on digits are grouped.
saved=$(sed -E ':a; s/^([0-9]+)([0-9]{3})/\1,\2/; ta' <<<"$((10#${newest#step-}))")
shows "  saved    step $saved, "
rm "$scratch/run/checkpoints/latest"
echo "$newest" >"$scratch/run/checkpoints/latest"
expect 0 '' status "$scratch/run"
shows "  saved    step $saved, "
"$runner" checkpoint ls "$scratch/run/checkpoints/$newest" | grep -q '  latest$' || complain "checkpoint ls of one: not the latest"
echo step-999999 >"$scratch/run/checkpoints/latest"
expect 0 '' status "$scratch/run"
grep -q '  saved  ' "$scratch/stdout" && complain "a checkpoint that is not there: $(cat "$scratch/stdout")"

# A run that was told to do fewer steps than its plan has did not do all of it.
"$plan" emit "$scratch/tiny.yaml" -o "$scratch/early" --set directory="$scratch/early/run" >/dev/null || complain "emit failed"
"$runner" train "$scratch/early/tiny.plan.yaml" --steps 2 >"$scratch/log" 2>&1 || complain "train --steps 2: $(cat "$scratch/log")"
expect 0 '' status "$scratch/early/tiny.plan.yaml"
shows "run: stopped at step 2 of 1,000,000, as asked, attempt 1"
expect 0 '' status "$scratch/early/tiny.plan.yaml" --json
grep -qE '"state":[[:space:]]*"done"' "$scratch/stdout" || complain "a state of another name: $(cat "$scratch/stdout")"

# Every verdict in words.
verdict() { # VERDICT STATE TEXT
    mkdir -p "$scratch/ends/$1"
    cat >"$scratch/ends/$1/attempt.json" <<END
{"schema": "shardwright.attempt/1", "attempt": 2, "verdict": $1, "nodes": ["n3"], "cause": "why", "first_step": 3,
"step": 7, "job": "42"}
END
    # Slurm might still know the job, and is not there
    expect 3 "$no_squeue" status "$scratch/ends/$1"
    shows "$1: $2, job 42, attempt 2"
    shows "$3"
}
verdict 0 "done" "step 7"
verdict 1 failed "the loss or the gradient norm is zero or not finite: why"
verdict 2 failed "cannot be used: why"
# after these the run may go on in this job or another, which nobody tells now
verdict 3 unknown "it failed: why; whether it continues Slurm does not say"
verdict 75 unknown "with a durable checkpoint, to resume in another job: why; whether it continues Slurm does not say"
verdict 76 unknown "a node is broken: why; whether it continues Slurm does not say"
verdict 137 unknown "it failed: why; whether it continues Slurm does not say"
verdict 93 failed "gained no step since the attempt before: why"
verdict 130 stopped "a person stopped it: why"
verdict 143 stopped "told to end: why"
verdict null unknown "Slurm does not say whether its job still runs"
# Slurm says of job 42, and only of it: STATE, REASON and STARTS. Without STATE it does not answer.
mkdir "$scratch/slurm"
cat >"$scratch/slurm/squeue" <<'END'
#!/bin/sh
[ -n "$STATE" ] || { echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1; }
case $* in *--me*) exit ;; esac
printf '42\037%s\037%s\0371\037%s\037%s\037%s\0370:10\03730:00\037n1\037\037\037\036' "$STATE" "$REASON" $STARTS $STARTS $STARTS
END
printf '#!/bin/sh\nexit 1\n' >"$scratch/slurm/sacct"
chmod +x "$scratch/slurm/squeue" "$scratch/slurm/sacct"
asks() { # FOLDER STATE REASON STARTS: status by that Slurm
    env STATE="$2" REASON="$3" STARTS="$(date -d "$4" +%FT%T)" PATH="$scratch/slurm:/usr/bin:/bin" "$plan" status "$1" \
        >"$scratch/stdout" 2>"$scratch/stderr"
}
# A job that started again after its last verdict, and ended before it trained, has an end of its own.
asks "$scratch/ends/75" TIMEOUT TimeLimit '+1 minute'
shows "its time limit was reached before it trained again"
shows "75: failed, job 42"
asks "$scratch/ends/75" TIMEOUT TimeLimit '-1 minute'
shows "75: stopped, job 42, attempt 2"
shows "with a durable checkpoint, to resume in another job: why"
asks "$scratch/ends/3" FAILED NonZeroExitCode '-1 minute'
shows "3: failed, job 42, attempt 2"
shows "  end      it failed: why"
asks "$scratch/ends/76" FAILED NonZeroExitCode '-1 minute'
shows "76: failed, job 42, attempt 2"
shows "  end      a node is broken: why"
# A script that was killed: Slurm then ends the ranks, which nobody asked for. It says JobLaunchFailure.
asks "$scratch/ends/143" FAILED NonZeroExitCode '-1 minute'
shows "143: stopped, job 42, attempt 2"
shows "  end      it was told to end: why"
for killed in 143 null; do
    asks "$scratch/ends/$killed" FAILED JobLaunchFailure '-1 minute'
    shows "$killed: failed, job 42, attempt 2"
    shows "  end      its job's script was killed, so that Slurm ended the ranks"
    shows "  next     'plan submit' resumes from the last checkpoint"
done

# What ended the ranks is what Slurm says, not the signal that it sent.
asks "$scratch/ends/143" TIMEOUT TimeLimit '-1 minute'
shows "143: stopped, job 42, attempt 2"
shows "  end      its time limit was reached: why"
shows "  next     a longer slurm.time gives it more steps a job; 'plan submit' resumes from the last checkpoint"
asks "$scratch/ends/143" PREEMPTED None '-1 minute'
shows "  end      another job took its nodes: why"
asks "$scratch/ends/null" OUT_OF_MEMORY OutOfMemory '-1 minute'
shows "  end      a node ran out of memory"
shows "  next     slurm.mem asks for more; 'plan submit' resumes from the last checkpoint"
for state in NODE_FAIL BOOT_FAIL DEADLINE; do
    asks "$scratch/ends/143" $state None '-1 minute'
    if grep -qE 'told to end|SIGTERM' "$scratch/stdout"; then complain "$state: $(cat "$scratch/stdout")"; fi
done
# A job that Slurm has not ended yet, whose attempt ended since its last start, is not about to begin; one that started
# after that is.
for verdict in 0 1 2 75 93 130 143; do
    asks "$scratch/ends/$verdict" RUNNING None '-1 hour'
    shows "$verdict: ending, job 42"
    shows "  now      it has ended: why; its job is about to"
    asks "$scratch/ends/$verdict" RUNNING None '+1 minute'
    shows "$verdict: starting, job 42"
    shows "its job has nodes, and has not begun to train"
done
for verdict in 3 76 137; do
    asks "$scratch/ends/$verdict" RUNNING None '-1 hour'
    shows "$verdict: starting, job 42"
    shows "  now      attempt 2 ended: why; its job may start its ranks again"
done
# Held jobs start at no time that Slurm may still name.
mkdir "$scratch/held"
cp "$scratch/ends/null/attempt.json" "$scratch/held/"
for reason in 'job requeued in held state' JobHeldUser 'launch failed requeued held'; do
    asks "$scratch/held" PENDING "$reason" '+1 hour'
    shows "'scontrol release 42'"
    shows "  where    wants 1 node, and does not start by itself"
done
asks "$scratch/held" PENDING Priority '+1 hour'
shows "  where    waits for 1 node, starts at "
asks "$scratch/held" PENDING 'Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions' '+1 hour'
shows "'sinfo -R' says which and why"
# The steps that are told are not fewer than those that are saved.
mkdir -p "$scratch/held/checkpoints/step-000010"
ln -s step-000010 "$scratch/held/checkpoints/latest"
for state in PENDING FAILED CANCELLED NODE_FAIL COMPLETING; do
    asks "$scratch/held" $state None '-1 hour'
    shows "  steps    step 10"
    shows "  saved    step 10, "
done
asks "$scratch/held" RUNNING None '+1 hour' # its attempt goes on from step 3, and may have begun anew
shows "  steps    step 7"
# A controller that does not answer, as a person has it.
asks "$scratch/ends/3" '' '' now
shows "3: unknown, job 42, attempt 2"
asks "$scratch/ends/0" '' '' now
shows "0: done, job 42, attempt 2"
# a run whose files grow goes on, whoever does not answer
cp -r "$scratch/ends/null" "$scratch/grows"
cp "$scratch/run/metrics.jsonl" "$scratch/grows/"
asks "$scratch/grows" '' '' now
shows "grows: running, job 42, attempt 2"
touch -d '-1 hour' "$scratch/grows/metrics.jsonl"
asks "$scratch/grows" '' '' now
shows "grows: unknown, job 42, attempt 2"
shows "Slurm does not say whether its job still runs"
record() { # FOLDER STATE JOBS: of a submission
    mkdir -p "$1"
    cat >"$1/submission.json" <<END
{"schema": "shardwright.submission/1", "state": "$2", "jobs": [$3], "token": "0123456789abcdef",
 "run": "waits", "attempt": 1, "plan_digest": "0123456789abcdef", "plan": "/x", "script_digest":
 "0123456789abcdef", "script": "/x", "log": "$1/slurm-%j.out", "checkpoints": "/x", "submitted_at": "2026-11-22T11:30:00Z",
 "cluster": "c", "mesh_dim": "1,1,1,1", "nodes": 1, "ranks": 1, "steps": 0, "predicted_step_seconds": null,
 "band_low_seconds": null, "band_high_seconds": null, "predicted_run_seconds": null}
END
}
# A disk that is full says why nobody else could.
if mkdir -p "$scratch/full" && mount -t tmpfs -o size=64k none "$scratch/full" 2>/dev/null; then
    record "$scratch/full" submitted '"42"'
    sed -i "s#\"log\": \"[^\"]*\"#\"log\": \"$scratch/full/slurm-%j.out\"#" "$scratch/full/submission.json"
    asks "$scratch/full" FAILED NonZeroExitCode '-1 hour'
    umount "$scratch/full"
    shows "  end      it failed before training began: no room is left in $scratch/full"
fi
# sbatch was cut off: whether there is a job
record "$scratch/cut" submitting ''
asks "$scratch/cut" '' '' now
shows "waits: submitting"
shows "  now      its submission did not finish, and Slurm does not say whether there is a job"
asks "$scratch/cut" RUNNING None now
shows "waits: none"
shows "its submission did not finish, and Slurm has no job of it"
exec 8>"$scratch/cut/.submission.lock" # as 'plan submit' holds it
flock 8
asks "$scratch/cut" RUNNING None now
shows "waits: submitting"
shows "  now      its submission is still running"
exec 8>&-
asks "$scratch/cut" RUNNING None now
shows "waits: none"
# submitted by hand, perhaps, and nothing of it is written down
mkdir "$scratch/hand"
asks "$scratch/hand" '' '' now
[ $? -eq 3 ] || complain "a folder without records, and no controller: not exit 3"
grep -qxF "plan: error: Slurm does not answer: Unable to contact slurm controller (connect failure)" \
    "$scratch/stderr" || complain "a folder without records, and no controller: $(cat "$scratch/stderr")"
# a machine of no cluster: no job of this folder can wait
mkdir "$scratch/nowhere"
cat >"$scratch/nowhere/squeue" <<'END'
#!/bin/sh
echo 'squeue: error: fetch_config: DNS SRV lookup failed' >&2
echo 'squeue: fatal: Could not establish a configuration source' >&2
exit 1
END
chmod +x "$scratch/nowhere/squeue"
nowhere() { # COMMAND TARGET CODE WORDS
    PATH="$scratch/nowhere:/usr/bin:/bin" "$plan" "$1" "$2" >"$scratch/stdout" 2>"$scratch/stderr"
    [ $? -eq "$3" ] || complain "$1 on a machine of no cluster: not exit $3"
    grep -qF -- "$4" "$scratch/stderr" || complain "$1 on a machine of no cluster: $(cat "$scratch/stderr")"
}
nowhere status "$scratch/hand" 2 "plan: error: '$scratch/hand' is not a run's directory"
nowhere cancel "$scratch/hand" 2 "plan: error: '$scratch/hand' is not a run's directory"
for command in status cancel; do
    nowhere $command "$scratch/cut" 3 'plan: error: cannot query Slurm: Could not establish a configuration source; do this on a machine of the cluster, or set SLURM_CONF to its slurm.conf'
done
sed "s#^directory: run#directory: $scratch/hand#" "$scratch/tiny.yaml" >"$scratch/desk.yaml"
asks "$scratch/desk.yaml" '' '' now || complain "a run of mpirun without records asks for Slurm's answer: $(cat "$scratch/stderr")"
shows "  end      nothing was started here"
sed 's/launcher: mpirun/launcher: slurm/' "$scratch/desk.yaml" >"$scratch/hand.yaml"
asks "$scratch/hand.yaml" '' '' now
[ $? -eq 3 ] || complain "a run without records, and no controller: not exit 3"
shows "  now      there is no record of a job here, and Slurm does not say whether there is one"
for command in cancel logs; do
    PATH="$scratch/slurm:/usr/bin:/bin" "$plan" $command "$scratch/hand.yaml" >"$scratch/stdout" 2>"$scratch/stderr"
    [ $? -eq 3 ] || complain "$command without records, and no controller: not exit 3"
    grep -q '^plan: error: Slurm does not answer: ' "$scratch/stderr" || complain "$command: $(cat "$scratch/stderr")"
done
# an array of which one task failed
record "$scratch/array" submitted '"42"'
cat >"$scratch/array/job.json" <<END
{"schema": "shardwright.job/1", "type": "generate", "job": "42", "output": "$scratch/array/o.jsonl", "shards": 3, "lines": 9}
END
echo '42 1 3' >"$scratch/array/job.ended"
asks "$scratch/array" '' '' now
shows "waits: unknown, job 42"
shows "  now      task 1 of the array ended with exit code 3; whether it continues Slurm does not say"
asks "$scratch/array" FAILED NonZeroExitCode now
shows "waits: failed, job 42"

# What a job waited for ended otherwise: Slurm cancels it, nobody else does.
record "$scratch/depends" submitted '"42"'
asks "$scratch/depends" CANCELLED DependencyNeverSatisfied now
shows "waits: failed, job 42"
shows "  end      it never began: the job that it depends on did not end as the dependency requires"
shows "  next     see how that one ended; 'plan submit' submits this one again"
asks "$scratch/depends" CANCELLED None now
shows "waits: stopped, job 42"
shows "  end      it was cancelled before training began"
# Its script was killed before its ranks began, or Slurm could not write the log.
asks "$scratch/depends" FAILED JobLaunchFailure now
shows "  end      its job's script was killed, or Slurm could not start it"
record "$scratch/depends" submitted '"42"'
sed -i 's#"log": "[^"]*"#"log": "/nowhere/at/all/slurm-%j.out"#' "$scratch/depends/submission.json"
asks "$scratch/depends" FAILED JobLaunchFailure now
shows "  end      Slurm could not start it: the folder of its log is missing or cannot be written"

expect 3 "$no_squeue" runs "$scratch/ends"
(cd "$scratch/ends" && PATH=$scratch/bin "$plan" status 42) >/dev/null 2>"$scratch/stderr"
grep -qxF "plan: error: 11 runs below this folder had a job 42, '0' for one; name the run's directory" "$scratch/stderr" ||
    complain "a number of several runs: $(cat "$scratch/stderr")"
[ "$(wc -l <"$scratch/stdout")" -eq 12 ] || complain "not eleven runs: $(cat "$scratch/stdout")"

# Files that are none.
mkdir "$scratch/broken"
echo '{"schema": "shardwright.submission/1"' >"$scratch/broken/submission.json"
expect 0 '' status "$scratch/broken"
shows "note     submission.json: line "
shows "none"

# A run with stages: the first is done, the second was not begun; then it is at its third step; then all are.
mkdir -p "$scratch/staged/short" "$scratch/staged/long"
cat >"$scratch/staged/stages.json" <<END
{"schema": "shardwright.stages/1", "run": "toy", "stages": [
 {"name": "short", "steps": 5, "first_step": 0, "step_seconds": 1, "fewest_nodes": 1, "nodes": 1},
 {"name": "long", "steps": 9, "first_step": 5, "step_seconds": 100, "fewest_nodes": 1, "nodes": 1}]}
END
stage() { # NAME STEP VERDICT
    printf '{"schema": "shardwright.attempt/1", "attempt": 1, "verdict": %s, "nodes": [], "cause": "x", "step": %d, "first_step": 0, "job": ""}\n' \
        "$3" "$2" >"$scratch/staged/$1/attempt.json"
}
stage short 3 75
expect 0 '' status "$scratch/staged"
shows "stage short (1 of 2), step 3 of 5"
shows "stages   short, long; 3 of 9 steps of all"
stage short 5 0
expect 0 '' status "$scratch/staged"
shows "end      stage 'short' is done, and 'long' was not begun"
shows "stages   short done, long; 5 of 9 steps of all"
stage long 7 130
expect 0 '' status "$scratch/staged"
shows "stage long (2 of 2), step 7 of 9"
shows "7 of 9 steps of all"
(PATH=$scratch/bin && "$plan" status "$scratch/staged" --json) | grep -qE '"steps_done":[[:space:]]*7,' || complain "--json of stages"
stage long 9 0
expect 0 '' status "$scratch/staged"
shows "staged: done"
expect 0 '' runs "$scratch/staged"
[ "$(grep -c staged "$scratch/stdout")" -eq 1 ] || complain "stages are listed as runs: $(cat "$scratch/stdout")"
# A broken list is said, and counts as none.
echo '{"schema": "shardwright.stages/1", "stages": [{"name": "../x"}]}' >"$scratch/staged/stages.json"
expect 0 '' status "$scratch/staged"
shows "note     stages.json: a stage lacks"

# A configuration that cannot be read, and a controller that is not there: one line within 5 s.
slow() { # WHAT SLURM_CONF
    local begun=$SECONDS
    SLURM_CONF=$2 "$plan" status "$scratch/ends/0" >"$scratch/stdout" 2>"$scratch/stderr"
    [ $? -eq 3 ] || complain "$1: not exit 3"
    [ $((SECONDS - begun)) -le 5 ] || complain "$1: took $((SECONDS - begun)) s"
    [ "$(wc -l <"$scratch/stderr")" -eq 1 ] || complain "$1: not one line: $(cat "$scratch/stderr")"
    grep -q '^plan: error: Slurm does not answer: ' "$scratch/stderr" || complain "$1: $(cat "$scratch/stderr")"
    shows "0: done, job 42, attempt 2"
}
if command -v squeue >/dev/null; then
    echo garbage >"$scratch/garbage.conf"
    cat >"$scratch/dead.conf" <<END
ClusterName=dead
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=1
AuthType=auth/none
END
    slow "no configuration" "$scratch/nowhere.conf"
    slow "a broken configuration" "$scratch/garbage.conf"
    slow "no controller" "$scratch/dead.conf"
fi

[ $bad -eq 0 ] && echo "plan's job commands without Slurm: passed"
exit $((bad > 0))
