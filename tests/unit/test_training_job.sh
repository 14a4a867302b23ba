#!/usr/bin/env bash
# The script of a training around the end of its ranks, with stand-ins for Slurm's commands and for the
# ranks: whatever a controller says or does not say, the run goes on, or the log tells that it does not;
# a start that hangs goes on without the node whose ranks did not start; the controller is left alone.
#
#   tests/unit/test_training_job.sh PLAN RUNNER SCRATCH      from the root of the tree
set -uo pipefail
plan=$(realpath "$1") && [ -x "$plan" ] || exit 2
runner=$(realpath "$2") && [ -x "$runner" ] || exit 2
# shellcheck source=tests/support/scratch.sh
. "$(dirname "$0")/../support/scratch.sh"
out=$(scratch_in "$3") && mkdir "$out/bin" || exit 2
name=quickstart-slurm
unset SLURM_CPUS_PER_TASK

fail() {
    echo "FAIL: $*"
    tail -n 20 "$out/job.log" "$out/calls" 2>/dev/null
    exit 1
}

# What Slurm says of the job: the lines of $STAND_IN/states one after the other, the last one for ever.
cat >"$out/bin/scontrol" <<'END'
#!/usr/bin/env bash
case "$1 $2" in
    'show hostnames') printf 'n1\nn2\nn3\nn4\n' ;;
    'show job')
        echo show >>"$STAND_IN/calls"
        if [ "$3" = 18 ]; then # the next link of a chain
            echo "   JobState=$(cat "$STAND_IN/link") Reason=Dependency" && exit
        fi
        state=$(head -n 1 "$STAND_IN/states")
        [ "$(wc -l <"$STAND_IN/states")" -eq 1 ] || sed -i 1d "$STAND_IN/states"
        [ "$state" != silent ] || exit 1
        echo "   JobState=$state Reason=None Dependency=(null)"
        echo "   RunTime=00:03:20 TimeLimit=12:00:00 TimeMin=N/A"
        echo "   StartTime=2026-11-23T20:00:00 EndTime=$(cat "$STAND_IN/end") Deadline=N/A"
        ;;
    'requeue incomplete' | 'requeuehold incomplete')
        if [ -e "$STAND_IN/refuse" ]; then mv "$STAND_IN/refuse" "$STAND_IN/states" && exit 1; fi
        echo "$*" >>"$STAND_IN/calls"
        ;;
    'update JobId=17')
        echo "$*" >>"$STAND_IN/calls"
        case $3 in TimeLimit=*) date -d "+${3#*=} minutes -200 seconds" +%FT%T >"$STAND_IN/end" ;; esac
        ;;
    'update JobId=18')
        echo "$*" >>"$STAND_IN/calls"
        [ ! -e "$STAND_IN/stubborn" ]
        ;;
    *) echo "$*" >>"$STAND_IN/calls" ;;
esac
END
# A start of the ranks does what $STAND_IN/ranks says; asking a node whether it is there works, but of
# those in $STAND_IN/deaf.
cat >"$out/bin/srun" <<'END'
#!/usr/bin/env bash
case " $* " in *" --quiet "*) ! grep -qsF -e "$(grep -oE 'nodelist=[^ ]+' <<<"$*" | cut -d = -f 2)" "$STAND_IN/deaf"; exit ;; esac
echo "srun $1 $2 $3 $4 $5" >>"$STAND_IN/calls"
. "$STAND_IN/ranks"
END
# An hour is three seconds: ten seconds of a pause are a hundredth of one.
export SHARDWRIGHT_PAUSE_SECONDS=0.008
real=$(command -v sleep)
# A new job is number 18 where $STAND_IN/link is there, which says its state; else none is taken.
# shellcheck disable=SC2016 # the stand-in's
printf '#!/bin/sh\necho "sbatch $*" >>"$STAND_IN/calls"; [ -e "$STAND_IN/link" ] && echo 18\n' >"$out/bin/sbatch"
# shellcheck disable=SC2016 # the stand-in's
printf '#!/bin/sh\necho "scancel $*" >>"$STAND_IN/calls"\n' >"$out/bin/scancel"
printf '#!/bin/sh\nexit 1\n' >"$out/bin/sinfo"
chmod +x "$out/bin/"*
export STAND_IN=$out SLURM_JOB_ID=17 SLURM_JOB_NUM_NODES=4 SLURM_JOB_NODELIST='n[1-4]'

emit() { # FOLDER SETTING...
    "$plan" emit configs/runs/$name.yaml -o "$out/$1" --set directory="$out/$1" --set slurm.continue=requeue \
        "${@:2}" >"$out/emit.log" 2>&1 || fail "emit: $(cat "$out/emit.log")"
    bash -n "$out/$1/$name.sbatch" || fail "bash -n"
}
attempt() { # FOLDER NUMBER VERDICT STEP
    printf '{\n  "schema": "shardwright.attempt/1",\n  "attempt": %s,\n  "verdict": %s,\n  "nodes": [],\n' "$2" "$3"
    printf '  "cause": "the checkpoint signal",\n  "first_step": 0,\n  "step": %s,\n  "job": "17"\n}\n' "$4"
}
# STATES: of the job, with blanks between; sets status
job() { # FOLDER STATES [ARGUMENTS of the script]
    tr ' ' '\n' <<<"$2" >"$out/states"
    : >"$out/calls"
    PATH=$out/bin:$PATH SHARDWRIGHT_RUNNER=$runner timeout -k 5 60 bash "$out/$1/$name.sbatch" "${@:3}" >"$out/job.log" 2>&1
    status=$?
}
was_called() { # TIMES CALL
    [ "$(grep -cxE "$2" "$out/calls")" -eq "$1" ] || fail "not $1 times: $2"
}
last_line_is() { # PATTERN
    tail -n 1 "$out/job.log" | grep -qxE "$1" || fail "the last line is not: $1"
}
never() { date -d '+1 day' +%FT%T; }

# The ranks saved because the limit is near. Slurm still delivers that signal, or does not answer at
# first, or does not take the requeue at first.
emit limit
folder=$out/limit
{
    attempt limit 1 75 5 >"$out/saved.json"
    # shellcheck disable=SC2016 # the stand-in's
    echo 'cp "$STAND_IN/saved.json" "'"$folder"'/attempt.json"; exit 75'
} >"$out/ranks"
mkdir -p "$folder/checkpoints/step-000005"
never >"$out/end"
promise='attempt 1 ended: the checkpoint signal; attempt 2 resumes .* when the job is requeued'
for states in SIGNALING RUNNING 'silent silent silent RUNNING' 'silent silent SIGNALING'; do
    rm -f "$folder/attempt.json"
    job limit "$states"
    was_called 1 'requeue incomplete 17'
    last_line_is "$promise"
    [ $status -eq 75 ] || fail "$states: exit $status, not 75"
done
rm -f "$folder/attempt.json"
echo RUNNING >"$out/refuse" # and no new job either, then
job limit RUNNING
was_called 1 'requeue incomplete 17'
was_called 1 'sbatch .*'
rm -f "$folder/attempt.json"
echo COMPLETING >"$out/refuse" # 'plan cancel --now' forbids the requeue, kills the ranks, and cancels
job limit RUNNING
was_called 0 'sbatch .*'
last_line_is 'no other job is asked for: this one is COMPLETING, .*'
# One that was cancelled, or whose controller is gone for good: no last line that promises more.
for states in COMPLETING CANCELLED; do
    rm -f "$folder/attempt.json"
    job limit "$states"
    was_called 0 'requeue .*'
    last_line_is "no other job is asked for: this one is $states, by a cancel or by Slurm itself"
done
rm -f "$folder/attempt.json"
job limit silent
was_called 0 'requeue .*'
last_line_is "no other job follows: Slurm does not answer; 'plan submit' resumes it"

# In a job that is being cancelled no node answers: none is left out for that.
folder=$out/limit
# shellcheck disable=SC2016 # the stand-in's
echo 'sed "s/75/3/; s/the checkpoint signal/rank 0 (host n1): ended by signal 9/" "$STAND_IN/saved.json" >"'"$folder"'/attempt.json"; exit 137' >"$out/ranks"
echo n1 >"$out/deaf"
for states in RUNNING COMPLETING; do
    rm -f "$folder/attempt.json"
    job limit "$states"
    [ $states != RUNNING ] || rm "$folder/excluded_nodes.jsonl" || fail "n1, which does not answer, is not left out"
done
[ ! -e "$folder/excluded_nodes.jsonl" ] || fail "a node of a cancelled job is left out: $(cat "$folder/excluded_nodes.jsonl")"
rm "$out/deaf"

# A chain: a link that saved and is followed ended well for the site, while attempt.json keeps the verdict.
# Where the job's process is may be said in the settings, for the script keeps nothing of its submitter's.
emit moved --set "slurm.environment={SHARDWRIGHT_PLAN: $plan}"
sed -i "s|^plan='*/.*|plan=/gone/plan|" "$out/moved/$name.sbatch"
grep -q '^plan=/gone/plan' "$out/moved/$name.sbatch" || fail "the script names no plan"
echo 'exit 75' >"$out/ranks"
job moved RUNNING
if grep -q 'no plan at' "$out/job.log"; then fail "slurm.environment names the plan in vain"; fi
was_called 3 'srun.*' # none of them began anything

emit chain --set slurm.continue=chain
folder=$out/chain
mkdir -p "$folder/checkpoints/step-000005"
# shellcheck disable=SC2016 # the stand-in's
echo 'echo "$*" >"$STAND_IN/words"; cp "$STAND_IN/saved.json" "'"$folder"'/attempt.json"; exit 75' >"$out/ranks"
promise='attempt 1 ended: the checkpoint signal; attempt 2 resumes .* in the next link of the chain'
for states in RUNNING silent COMPLETING; do # the link is queued, whatever is said of this job
    rm -f "$folder/attempt.json" "$folder/submission.jobs"
    echo PENDING >"$out/link"
    job chain "$states" --resume none --steps 7 --overwrite
    [ $status -eq 0 ] || fail "chain, $states: exit $status, not 0"
    grep -qxE '.* train .* --resume none --steps 7 --overwrite' "$out/words" || fail "the ranks get: $(cat "$out/words")"
    last_line_is "$promise"
    grep -qx '  "verdict": 75,' "$folder/attempt.json" || fail "attempt.json lost the verdict"
    grep -qx 18 "$folder/submission.jobs" || fail "the link is not on record"
    was_called 1 'sbatch .*--dependency=afterany:17 .*\.sbatch --link -- --steps 7'
    was_called 0 'scancel .*'
done
# The link itself: what it was submitted with, and nothing that deletes what the first job saved.
cp "$out/saved.json" "$out/first.json"
attempt chain 2 75 6 >"$out/saved.json"
job chain RUNNING --link -- --steps 7 --resume none --overwrite
[ $status -eq 0 ] || fail "a link: exit $status, not 0"
grep -qxE '.* train .* --digest [0-9a-f]{16} --steps 7' "$out/words" || fail "a link's ranks get: $(cat "$out/words")"
was_called 1 'sbatch .*\.sbatch --link -- --steps 7'
# Arguments may stand behind '--', as scripts of older versions, which hand all their words on, need it.
cp "$out/chain/$name.sbatch" "$out/new.sbatch"
for script in new old; do
    if [ $script = old ]; then
        # shellcheck disable=SC2016 # the script's
        sed -i -e '/^if \[ "${1:-}" = --/d' -e 's/ ${link.*$/ "$@"/' "$out/chain/$name.sbatch"
        tail -n 1 "$out/chain/$name.sbatch" | grep -q '[[]@]}"} "$@"$' || fail "this is no older script"
    fi
    for link in '' --link; do
        rm -f "$out/words" "$folder/attempt.json"
        # shellcheck disable=SC2086 # none, or one word
        job chain RUNNING $link -- --steps 7
        [ $status -eq 0 ] || fail "$script script, $link -- --steps 7: exit $status, not 0"
        grep -qxE '.* train .* --digest [0-9a-f]{16} --steps 7' "$out/words" || fail "$script script: $(cat "$out/words")"
        was_called 1 'sbatch .*\.sbatch --link -- --steps 7'
        rm -f "$out/words" "$folder/attempt.json"
        # shellcheck disable=SC2086
        job chain RUNNING $link
        [ $status -eq 0 ] || fail "$script script, $link: exit $status, not 0"
        grep -qxE '.* train .* --digest [0-9a-f]{16}' "$out/words" || fail "$script script: $(cat "$out/words")"
        was_called 1 'sbatch .*\.sbatch --link'
    done
done
mv "$out/new.sbatch" "$out/chain/$name.sbatch"
mv "$out/first.json" "$out/saved.json"
# Nothing follows: 75 stands. 'plan cancel --now' cancelled the link, or Slurm takes no new job.
echo CANCELLED >"$out/link"
rm -f "$folder/attempt.json"
job chain RUNNING
[ $status -eq 75 ] || fail "chain, cancelled: exit $status, not 75"
last_line_is "no other job follows: the next link, job 18, was cancelled; 'plan submit' resumes it"
rm -f "$folder/attempt.json" "$out/link"
job chain RUNNING
[ $status -eq 75 ] || fail "chain, no link: exit $status, not 75"
last_line_is 'no other job follows: Slurm takes neither a requeue nor a new one; .*'
# A crash is one for the site, too; and the link goes on although Slurm does not keep it off a bad node.
echo PENDING >"$out/link"
# shellcheck disable=SC2016 # the stand-in's
echo 'sed "s/75/76/; s/\[\]/[\"n3\"]/; s/the checkpoint signal/n3 is broken/" "$STAND_IN/saved.json" >"'"$folder"'/attempt.json"; exit 76' >"$out/ranks"
for stubborn in '' yes; do
    rm -f "$folder/attempt.json" "$folder/excluded_nodes.jsonl" "$out/stubborn"
    [ -z "$stubborn" ] || touch "$out/stubborn"
    job chain RUNNING
    [ $status -eq 76 ] || fail "chain, a bad node: exit $status, not 76"
    grep -qx 'update JobId=18 ExcNodeList=n3' "$out/calls" || fail "the link is not kept off n3"
    if [ -n "$stubborn" ]; then
        last_line_is 'job 18, the next link of the chain, continues, but Slurm does not keep it off n3'
    else
        last_line_is 'attempt 1 ended: n3 is broken; .* in the next link of the chain, without n3'
    fi
done
rm -f "$out/stubborn" "$out/link"

# A long life: the controller is asked when it begins, and when the signal is due; a wrong answer or
# none does not end that.
folder=$out/limit
# shellcheck disable=SC2016 # the stand-in's
{
    echo 'trap "echo told >>\$STAND_IN/calls; cp \$STAND_IN/saved.json '"$folder"'/attempt.json; exit 75" USR1'
    echo 'for ((i = 0; i < 15; i++)); do '"$real"' 0.1; done; exit 3'
} >"$out/ranks"
rm -f "$folder/attempt.json"
job limit RUNNING
was_called 0 told
[ "$(grep -cx show "$out/calls")" -le 2 ] || fail "the controller was asked $(grep -cx show "$out/calls") times in a quiet life"
for states in RUNNING 'silent silent RUNNING'; do
    rm -f "$folder/attempt.json"
    date -d '+31 seconds' +%FT%T >"$out/end" # the lead is 30 s
    job limit "$states"
    was_called 1 told
    was_called 1 'requeue incomplete 17'
done

# A node is missing while MPI starts, and the ranks that are there say so. Once it may be late: all four start
# again. Twice, or when it does not answer, it is left out, and three go on.
emit elastic --set nodes=3-4 --set mesh_dim=auto --set global_batch_size=12
folder=$out/elastic
never >"$out/end"
# shellcheck disable=SC2016 # the stand-in's
{
    echo 'echo start >>"$STAND_IN/starts"'
    echo 'if [ "$2" = --nodes=3 ] || [ "$(wc -l <"$STAND_IN/starts")" -gt "$(cat "$STAND_IN/late")" ]; then'
    echo '    sed "s/\"attempt\": 1/\"attempt\": 3/; s/75/0/" "$STAND_IN/saved.json" >"'"$folder"'/attempt.json"; exit 0'
    echo 'fi'
    echo 'for ((r = 0; r < 8; r++)); do'
    echo '    [ $((r / 2)) -eq 2 ] || echo "rank $r (host n$((r / 2 + 1))): error: MPI does not start for 180 s: not all are there"'
    echo 'done; exit 3'
} >"$out/ranks"
mkdir -p "$folder/checkpoints"
hangs() { # STARTS: that n3 misses
    rm -f "$folder/excluded_nodes.jsonl" "$out/starts"
    echo "$1" >"$out/late"
    attempt elastic 2 75 5 >"$folder/attempt.json"
    job elastic RUNNING
}
missing='the ranks ended before the first step: rank 0 \(host n1\): MPI does not start for 180 s: .*; ranks 4-5 \(host n3\) did not start'
hangs 1
[ $status -eq 0 ] || fail "four nodes do not go on: exit $status"
was_called 2 'srun --mpi=pmix --nodes=4 --ntasks=8 .*'
last_line_is "$missing; start 2 of 3 follows"
[ ! -e "$folder/excluded_nodes.jsonl" ] || fail "a node that was late once is left out: $(cat "$folder/excluded_nodes.jsonl")"
[ "$(grep -c 'MPI does not start' "$out/job.log")" -eq 2 ] || fail "every rank says it in the log"
hangs 9
[ $status -eq 0 ] || fail "three nodes do not go on: exit $status"
was_called 2 'srun --mpi=pmix --nodes=4 --ntasks=8 .*'
grep -qxE "$missing, not in the start before either; attempt 3 resumes .* with the 3 nodes that are left, without n3" "$out/job.log" ||
    fail "n3 and its ranks are not named"
grep -q '^{"node":"n3",' "$folder/excluded_nodes.jsonl" || fail "n3 is not left out later"
was_called 1 'srun --mpi=pmix --nodes=3 --ntasks=6 --exclude=n3 --overlap'
echo n3 >"$out/deaf"
hangs 9
[ $status -eq 0 ] || fail "three nodes do not go on: exit $status"
was_called 1 'srun --mpi=pmix --nodes=4 --ntasks=8 .*'
grep -qxE "$missing; n3 does not answer; attempt 3 resumes .* with the 3 nodes that are left, without n3" "$out/job.log" ||
    fail "n3 is not asked"
rm "$out/deaf"

# Starts that fail for good leave their own word, not that of the attempt before.
rm -f "$folder/excluded_nodes.jsonl"
sed -i 's/-eq 2 \]/-eq 9 ]/; s/--nodes=3 /never /' "$out/ranks"
attempt elastic 2 75 5 >"$folder/attempt.json"
job elastic RUNNING
[ $status -eq 3 ] || fail "exit $status, not 3"
was_called 3 'srun --mpi=pmix .*'
last_line_is 'the ranks ended before the first step: .*; it ends here, after 3 starts'
grep -qx '  "verdict": 3,' "$folder/attempt.json" || fail "attempt.json has the old verdict"
grep -qx '  "idle_jobs": 1' "$folder/attempt.json" || fail "the job that began nothing is not counted"
grep -q '^  "cause": "the ranks ended before the first step: rank 0 (host n1): MPI does not start' "$folder/attempt.json" ||
    fail "attempt.json has the old cause"
# In a row only in jobs that Slurm or the run itself started: what a person submits begins anew.
echo 99 >"$out/late"
SLURM_RESTART_COUNT=1 job elastic RUNNING
grep -qx '  "idle_jobs": 2' "$folder/attempt.json" || fail "the second job that began nothing is not counted"
job elastic RUNNING
grep -qx '  "idle_jobs": 1' "$folder/attempt.json" || fail "a job of a person is counted with those before"

# One that runs once: the script is one srun, whose exit code is its own; what Slurm sends to script and ranks
# alike ends only these, and nobody is asked anything.
emit once --set slurm.continue=none
folder=$out/once
# shellcheck disable=SC2016 # the stand-in's
{
    echo 'trap "echo told >>\$STAND_IN/calls; cp \$STAND_IN/saved.json '"$folder"'/attempt.json; exit 75" TERM USR1'
    echo 'kill -TERM "$PPID"; kill -USR1 "$PPID"; '"$real"' 0.3; kill -TERM $$; '"$real"' 5; exit 3'
} >"$out/ranks"
job once RUNNING
[ $status -eq 75 ] || fail "a job that runs once: exit $status, not 75"
was_called 1 'srun --mpi=pmix --nodes=4 --ntasks=8 --kill-on-bad-exit=1 --wait=60'
was_called 1 told
[ "$(wc -l <"$out/calls")" -eq 2 ] || fail "a job that runs once asks or orders something: $(cat "$out/calls")"
grep -qx '  "verdict": 75,' "$folder/attempt.json" || fail "attempt.json lost the verdict"
echo 'exit 0' >"$out/ranks"
job once RUNNING
[ $status -eq 0 ] || fail "a job that runs once and is done: exit $status"

# mpirun starts the ranks, also of a job that runs once: on the nodes that it is given, by a daemon on each
# with all processors of the job; Slurm's signal is for this process, which passes it.
emit mpirun --set slurm.mpi=mpirun --set slurm.continue=none --set slurm.preflight=off --set slurm.signal=USR1@90
folder=$out/mpirun
grep -qx '#SBATCH --signal=B:USR1@90' "$folder/$name.sbatch" || fail "the signal is for the daemons"
# shellcheck disable=SC2016 # the stand-in's
{
    echo '#!/usr/bin/env bash'
    echo 'echo "mpirun $* ${SLURM_OVERLAP-} ${SRUN_CPUS_PER_TASK-all}" >>"$STAND_IN/calls"'
    echo 'end() { echo "told $1" >>"$STAND_IN/calls"; cp "$STAND_IN/saved.json" '"$folder"'/attempt.json; exit "$2"; }'
    echo 'trap "end USR1 75" USR1; trap "end TERM 75" 40; trap "end INT 75" 41'
    echo 'kill -"$(cat "$STAND_IN/signal")" "$PPID"; for ((i = 0; i < 50; i++)); do '"$real"' 0.1; done; exit 3'
} >"$out/bin/mpirun"
chmod +x "$out/bin/mpirun"
for signal in USR1:USR1 TERM:TERM INT:INT HUP:TERM; do
    rm -f "$folder/attempt.json"
    echo "${signal%:*}" >"$out/signal"
    job mpirun RUNNING
    [ $status -eq 75 ] || fail "mpirun: exit $status, not 75"
    was_called 1 'mpirun --quiet .*--mca ess_base_forward_signals 40,41 -np 8 --host n1:2 --host n2:2 --host n3:2 --host n4:2 .*--map-by ppr:2:node --bind-to none .*runner train .* 1 all'
    was_called 1 "told ${signal#*:}"
    was_called 0 'srun .*'
done

# A job that is not started again lowers its own limit once its speed is known: 3,400 steps of a second are
# left, a third more than that is kept, and what stays beyond it is given back in whole minutes, once.
speed() { # LAST-STEP SECONDS-OF-A-STEP
    printf '{"schema":"shardwright.metrics/1","attempt":1,"time":%s,"elapsed_seconds":0,"last_step":%s}\n' $(($(date +%s) - 200)) "$1"
    seq 200 | awk -v s="$2" '{ printf "{\"step\":%d,\"step_seconds\":%s,\"elapsed_seconds\":%g}\n", $1, s, $1 * s }'
}
shrinks() { # FOLDER SETTING...: a job with this run's speed, whose ranks end a second later
    emit "$1" --set slurm.continue=none --set slurm.preflight=off --set slurm.signal=USR1@90 --set slurm.time=12:00:00 "${@:2}"
    folder=$out/$1
    sed "s/75/0/" "$out/saved.json" >"$out/done.json"
    # shellcheck disable=SC2016 # the stand-in's
    echo 'cat "$STAND_IN/speed" >"'"$folder"'/metrics.jsonl"; '"$waits"'; '"$real"' 0.4; cp "$STAND_IN/done.json" "'"$folder"'/attempt.json"' >"$out/ranks"
    date -d '+720 minutes -200 seconds' +%FT%T >"$out/end"
    job "$1" RUNNING
    [ $status -eq 0 ] || fail "a job that lowers its limit: exit $status"
}
speed 3600 1 >"$out/speed"
# shellcheck disable=SC2016 # the stand-in's
waits='for ((i = 0; i < 300; i++)); do if grep -q "^update" "$STAND_IN/calls"; then break; fi; '"$real"' 0.1; done'
shrinks lower --set slurm.shrink_limit=true
limit=$(sed -nE 's/^update JobId=17 TimeLimit=([0-9]+)$/\1/p' "$out/calls")
if [ "$(wc -l <<<"$limit")" -ne 1 ] || [ "${limit:-0}" -lt 65 ] || [ "$limit" -gt 95 ]; then
    fail "the limit is not lowered once to little more than an hour: $(cat "$out/calls")"
fi
grep -q "^step 200 of 3,600: the job's time limit is lowered by 10.* h" "$out/job.log" || fail "the log does not say so"
waits=:
shrinks requeued --set slurm.shrink_limit=true --set slurm.continue=requeue
was_called 0 'update .*'
shrinks stays
was_called 0 'update .*'
speed 43000 1 >"$out/speed" # it cannot end inside of its limit
shrinks full --set slurm.shrink_limit=true
was_called 0 'update .*'

echo "the script of a training goes on, or says that it does not"
