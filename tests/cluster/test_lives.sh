#!/usr/bin/env bash
# Runs that go on by themselves, on a real Slurm cluster of four nodes: what ends an attempt, who is
# named, what comes next, and that the losses are those of a run that nothing happened to.
#
#   tests/cluster/test_lives.sh [BUILD-FOLDER [LIFE...]]       exit code 77: this machine cannot
#
# LIFE: shrink (of a job that lowers its limit a node dies), limit (time limit, then a killed rank: bit-equal), chain, unchain (plan cancel of one), node
# (a node dies: three go on), cancel (never comes back), array (two jobs, one folder), cut (a link),
# host (the batch host dies), stop (a rank hangs), library (missing on one node), crash (of a start),
# slow (the preflight names a node), full (the disk), readonly (that of the checkpoints), slowd (a slurmd
# that does not answer while the limit's signal is delivered), mpirun (starts the ranks, not srun), starting (a node is lost while MPI starts),
# overwrite (a node dies of a job that deleted the run before it), requeue, hold, suspend, preempt, drain (by
# an administrator or another job), controller (down for 40 s while a rank dies), random (faults as they
# come). LIFE:SEED is another choice of steps and ranks.
# Without any: slowd node mpirun starting stop library readonly; tests/soak.sh does the others.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
build=$(cd "${1:-build}" && pwd) || exit 2
shift
[ $# -gt 0 ] || set -- slowd node mpirun starting stop library readonly
name=quickstart-slurm
out=$build/slurm-lives
cluster=tests/cluster/slurm_cluster.sh
job='' run=''

fail() {
    echo "FAIL: $*"
    [ -n "$job" ] && scontrol show job "$job" 2>/dev/null | head -n 12
    find "$run" -maxdepth 1 -type f \( -name 'slurm-*.out' -o -name attempt.json -o -name '*.log' \) \
        -exec tail -n 40 {} +
    exit 1
}

# A disk that can be filled; the nodes see what is mounted before they are up.
disk=$out/disk
mkdir -p "$disk"
umount -l "$disk" 2>/dev/null
mount -t tmpfs -o size=256m tmpfs "$disk" 2>/dev/null || { echo "SKIP: Slurm cluster: needs root (a disk to fill)" && exit 77; }
end() {
    bash tests/cluster/slurm_cluster.sh down test
    umount -l "$disk"
}
trap end EXIT
trap 'exit 3' INT TERM
line=$(bash $cluster up test)
status=$?
if [ $status -ne 0 ]; then
    echo "$line"
    exit $status
fi
fill_disk() { dd if=/dev/zero of="$disk/filler" bs=4k status=none 2>/dev/null || true; } # dd ends for want of room
free_disk() { rm -f "$disk/filler"; }
export SLURM_CONF=${line#SLURM_CONF=}
bash $cluster mend test || fail "a node does not come up"
# SBATCH_*, SLURM_* of a surrounding job would change what is submitted.
while IFS= read -r variable; do
    unset "$variable"
done < <(compgen -e | grep -E '^(SBATCH|SLURM|PMI|PMIX|OMPI)_' | grep -vx SLURM_CONF)
bash examples/make_text.sh || fail "no text to learn"

# ---- Jobs
# Of a small model, whose steps take that long, mostly by waiting (tests/support/pace_shim.c).
pace=0.4
small=(model.hidden_size=64 model.intermediate_size=128 model.num_hidden_layers=2 sequence_length=64)
write_job() { # PACE SETTING...: of $run, in its folder
    local setting=() one environment
    environment="LD_PRELOAD: \"$build/tests/libpace_shim.so\", PACE_SECONDS: \"$1\""
    shift
    for one in "${small[@]}" "$@"; do
        case $one in
            'slurm.environment={'*) environment+=", ${one#*'{'}" && environment=${environment%'}'} ;;
            *) setting+=(--set "$one") ;;
        esac
    done
    "$build/plan" emit configs/runs/$name.yaml -o "$run" --set directory="$run" --set optimizer.warmup_steps=4 \
        --set "slurm.environment={$environment}" "${setting[@]}" >/dev/null || fail "plan emit failed"
}
emit() { # LIFE SETTING...: the run of this life, in a folder of its own
    run=$out/$1
    shift
    rm -rf "$run"
    write_job "$pace" "$@"
}
submit() { job=$(sbatch --parsable "$@" "$run/$name.sbatch") || fail "sbatch refused the script"; }
state() { scontrol show job "$job" 2>/dev/null | sed -nE 's/.*JobState=([A-Z_]+).*/\1/p'; }
# In between Slurm says REQUEUED, SIGNALING or, when it is busy, nothing at all.
is_over() { # STATE
    case $1 in
        COMPLETED | CANCELLED | FAILED | TIMEOUT | NODE_FAIL | PREEMPTED | BOOT_FAIL | DEADLINE | OUT_OF_MEMORY) ;;
        *) false ;;
    esac
}
field() { scontrol show job "$job" 2>/dev/null | sed -nE "s/.*\b$1=([^ ]*).*/\1/p"; }
logs() { cat "$run"/slurm-*.out; }
until_logged() { # PATTERN SECONDS
    local i
    for ((i = 0; i < $2 * 5; i++)); do
        logs 2>/dev/null | grep -aq "$1" && return
        sleep 0.2
    done
    fail "the log does not say '$1'"
}
until_checkpoint() {
    local i
    for ((i = 0; i < 600; i++)); do
        [ -e "$run/checkpoints/latest" ] && return
        sleep 0.3
    done
    fail "no checkpoint"
}
# Slurm waits two minutes before it starts a requeued job. At once is too early: the steps before
# are still being cleared away.
hurry() {
    if [ "$(state)" != PENDING ] || [ "$(field Reason)" != BeginTime ]; then return 0; fi
    sleep 1
    scontrol update JobId="$job" StartTime=now 2>/dev/null
}
until_over() { # SECONDS
    local i now
    for ((i = 0; i < $1 * 2; i++)); do
        now=$(state)
        if is_over "$now"; then return; fi
        hurry
        sleep 0.5
    done
    fail "job $job is $now after $1 s"
}
until_ended_once() { # SECONDS: the first attempt has a verdict, or nobody is left to give one
    local i
    for ((i = 0; i < $1 * 5; i++)); do
        grep -qsE '"verdict": [0-9]+,' "$run/attempt.json" && return
        sleep 0.2
    done
    fail "the attempt does not end"
}
finished() {
    [ "$(state)" = COMPLETED ] || fail "job $job is $(state), not COMPLETED"
    "$build/runner" checkpoint verify "$run/checkpoints/latest" >/dev/null || fail "its checkpoint is not whole"
}
# Of the two processes of a rank the one that trains.
signal_rank() { # RANK SIGNAL
    local pid parent
    for pid in $(pgrep -f "runner train $run"); do
        parent=$(awk '/^PPid:/ { print $2 }' "/proc/$pid/status" 2>/dev/null)
        [ "$(cat "/proc/${parent:-0}/comm" 2>/dev/null)" = runner ] || continue
        { tr '\0' '\n' <"/proc/$pid/environ"; } 2>/dev/null | grep -qx "SLURM_PROCID=$1" &&
            kill "-$2" "$pid" && return
    done
    fail "there is no rank $1"
}
nothing_runs() { ! pgrep -f "runner train $run" >/dev/null; }
# "STEP LOSS" of the last time that each step was done.
losses() {
    sed -nE 's/.*"step": *([0-9]+),.*"loss": *([-+.0-9eE]+),.*/\1 \2/p' "$1/metrics.jsonl" |
        awk '{ loss[$1] = $2 } END { for (s in loss) print s, loss[s] }' | sort -n
}
same_to() { # RELATIVE RUN: every step's loss
    paste <(losses "$run") <(losses "$2") | awk -v most="$1" '
        NF != 4 || $1 != $3 { other = 1; exit }
        { d = ($2 - $4) / $4; if (d < 0) d = -d; if (d > worst) worst = d }
        END {
            if (other) print "other steps"
            else printf "losses differ by %.1e at most in %d steps\n", worst, NR
            exit other || NR == 0 || worst > most + 0
        }'
}
undisturbed() { # the run of this life again, in one job without any trouble
    local kept=$run
    cp -r "$run" "$run.reference" && run=$run.reference
    rm -rf "$run"/{checkpoints,metrics.jsonl,attempt.json,slurm-*.out,lock,excluded_nodes.jsonl}
    sed -i "s,$kept,$run,g" "$run/$name.sbatch"
    write_job 0 "$@"
    submit --no-requeue --time=30
    until_over 240
    finished
    run=$kept
}
said_once() { # PATTERN: in the logs
    [ "$(logs | grep -acE "$1")" -eq 1 ] || fail "the log does not say once: $1"
}

# Steps that take the seconds on this machine, 40 at least: tried with a few.
steps_of() { # SECONDS
    emit probe optimizer.total_steps=8
    submit
    until_over 120
    finished
    sed -nE 's/.*"step_seconds": *([.0-9eE+-]+),.*/\1/p' "$run/metrics.jsonl" | sort -g |
        awk -v seconds="$1" -v pace=$pace '{ step[NR] = $1 }
            END { n = seconds / (pace + step[int((NR + 1) / 2)]); printf "%d\n", n < 40 ? 40 : n }'
}

# ---- Lives
life_limit() { # its time limit is near; then a rank is killed
    local begin restarts steps settings=()
    steps=$(steps_of 45) || { echo "$steps" && exit 1; } # the signal comes half a minute before the limit of one
    settings=(optimizer.total_steps="$steps" checkpoint.every_steps=5)
    emit limit slurm.continue=requeue slurm.time=1 "${settings[@]}"
    submit
    until_logged '^attempt 1 ended: the checkpoint signal' 120
    said_once '^attempt 1 ended: the checkpoint signal, after step [0-9]+ of '"$steps"'; attempt 2 resumes from step [0-9]+ when the job is requeued$'
    local saved
    saved=$(readlink "$run/checkpoints/latest")
    for ((i = 0; i < 600; i++)); do # until the second attempt has a checkpoint of its own
        hurry
        [ "$(readlink "$run/checkpoints/latest")" = "$saved" ] || break
        sleep 0.2
    done
    signal_rank 5 KILL
    begin=$SECONDS
    for ((i = 0; i < 100; i++)); do
        case $(state) in '' | RUNNING | SIGNALING) ;; *) break ;; esac
        sleep 0.1
    done
    [ $((SECONDS - begin)) -lt 8 ] || fail "it took $((SECONDS - begin)) s to end after a rank was killed"
    said_once '^rank 5 \(host n3\): error: ended by signal 9 \(Killed\) after step '
    said_once '^attempt 2 ended: rank 5 \(host n3\): ended by signal 9 .*; attempt 3 resumes from step [0-9]+ when the job is requeued$'
    until_over 240
    finished
    restarts=$(field Restarts)
    [ "$restarts" -ge 2 ] || fail "it was requeued $restarts times"
    undisturbed optimizer.total_steps="$steps"
    diff <(losses "$run") <(losses "$run.reference") >/dev/null || fail "the losses are not those of an undisturbed run"
    echo "limit: requeued $restarts times, $(losses "$run" | wc -l) steps, every loss bit-equal"
}
life_chain() {
    local i first steps
    steps=$(steps_of 45) || { echo "$steps" && exit 1; }
    emit chain slurm.continue=chain slurm.time=1 optimizer.total_steps="$steps"
    submit
    first=$job
    for ((i = 0; i < 800; i++)); do
        grep -qs '"verdict": 0' "$run/attempt.json" && break
        sleep 0.5
    done
    for ((i = 0; i < 60; i++)); do [ -z "$(squeue -h -n $name)" ] || sleep 0.5; done
    [ -z "$(squeue -h -n $name)" ] || fail "a link is left: $(squeue -h -n $name)"
    [ "$(find "$run" -name 'slurm-*.out' | wc -l)" -ge 2 ] || fail "there was one job only"
    # links that saved and were followed, and the last one, are well for the site; the one behind that is not needed
    squeue -h -t all -j "$first,$(paste -sd , "$run/submission.jobs")" -o '%i %T' >"$out/links"
    grep -vqE ' (COMPLETED|CANCELLED)$' "$out/links" && fail "a link did not end well: $(cat "$out/links")"
    grep -qx "$first COMPLETED" "$out/links" || fail "the first link is not told: $(cat "$out/links")"
    job=$first
    undisturbed optimizer.total_steps="$steps"
    same_to 0 "$run.reference" || fail "the losses are not those of an undisturbed run"
    echo "chain: $(find "$run" -name 'slurm-*.out' | wc -l) jobs"
}
life_unchain() { # plan cancel of a chain: saved, and its link is gone as well
    emit unchain slurm.continue=chain optimizer.total_steps=100000 checkpoint.every_steps=5 global_batch_size=2
    job=$("$build/plan" submit "$run/$name.plan.yaml") || fail "plan submit"
    until_checkpoint
    [ "$(squeue -h -n $name | wc -l)" -eq 2 ] || fail "no link is queued: $(squeue)"
    "$build/plan" cancel "$run" || fail "plan cancel"
    sleep 3
    nothing_runs || fail "plan cancel left a process"
    [ -z "$(squeue -h -n $name)" ] || fail "plan cancel left a job: $(squeue)"
    grep -qx '  "verdict": 130,' "$run/attempt.json" || fail "another verdict"
    "$build/runner" checkpoint verify "$run/checkpoints/latest" >/dev/null || fail "no whole checkpoint"
    [ "$(find "$run" -name 'slurm-*.out' | wc -l)" -eq 1 ] || fail "the link has started"
}
elastic() { # LIFE [STEPS [SETTING...]]
    emit "$1" slurm.continue=requeue optimizer.total_steps="${2:-20}" checkpoint.every_steps=5 nodes=3-4 \
        mesh_dim=auto global_batch_size=12 "${@:3}"
    if [ "${elastic_submit:-}" ]; then
        job=$("$build/plan" submit "$run/$name.4.plan.yaml") || fail "plan submit"
    else
        submit
    fi
    until_checkpoint
}
# The same run as `elastic`, without any trouble: made once.
elastic_reference() { # [STEPS]
    local kept=$run kept_job=$job steps=${1:-20}
    reference=$out/four-$steps
    grep -qs '"verdict": 0,' "$reference/attempt.json" && return
    elastic "four-$steps" "$steps"
    until_over 240
    finished
    run=$kept job=$kept_job
}
# A job stays COMPLETING as long as one of its nodes does not answer.
until_ranks_are_over() { # SECONDS
    local i
    for ((i = 0; i < $1 * 2; i++)); do
        hurry
        grep -qs '"verdict": 0,' "$run/attempt.json" && return
        if is_over "$(state)"; then return; fi
        sleep 0.5
    done
    fail "job $job is $(state) after $1 s"
}
goes_on_with_three() { # NODE
    until_ranks_are_over 300
    bash $cluster mend test || fail "the node did not start back"
    until_over 60
    finished
    grep -q "^{\"node\":\"$1\"," "$run/excluded_nodes.jsonl" || fail "$1 is not among the excluded nodes"
    [ "$(grep -c . "$run/excluded_nodes.jsonl")" -eq 1 ] || fail "another node is excluded as well"
    logs | grep -q 'on mesh [0-9,]* (6 ranks)' || fail "it did not go on with three nodes"
}
life_node() {
    local begin
    elastic node
    bash $cluster kill test 3
    begin=$SECONDS
    until_logged '^attempt 1 ended' 90
    said_once '^attempt 1 ended: .*n3.* with the 3 nodes that are left, without n3$'
    echo "node: known after $((SECONDS - begin)) s"
    goes_on_with_three n3
    elastic_reference
    same_to 1e-6 "$reference" || fail "the losses are not those of an undisturbed run"
}
minutes_of() { # a limit of scontrol's
    awk -F '[-:]' '{ print NF == 4 ? $1 * 1440 + $2 * 60 + $3 : $1 * 60 + $2 }' <<<"$(field TimeLimit)"
}
life_shrink() { # a job that is not started again lowers its limit; then a node dies, and three go on inside of it
    local before after steps=200 settings=(slurm.continue=none slurm.time=40 slurm.shrink_limit=true)
    elastic shrink $steps checkpoint.every_steps=10 "${settings[@]}" \
        'slurm.environment={SHARDWRIGHT_PAUSE_SECONDS: "2", SHARDWRIGHT_STALL_SECONDS: "20"}'
    before=$(minutes_of)
    [ "$before" -eq 40 ] || fail "the limit is $before min, not 40"
    until_logged "the job's time limit is lowered by " 240
    after=$(minutes_of)
    [ "$after" -lt 40 ] || fail "the limit is $after min still"
    bash $cluster kill test 3
    until_logged '^attempt 1 ended' 90
    goes_on_with_three n3
    said_once "^where the time of job $job went:\$"
    [ "$(minutes_of)" -le "$after" ] || fail "the limit was raised"
    nothing_runs || fail "a process is left"
    elastic_reference $steps
    same_to 1e-6 "$reference" || fail "the losses are not those of an undisturbed run"
    "$build/plan" status "$run" --report
    logs | grep -E 'time limit is lowered'
    echo "shrink: $before min became $after min, then $(run=$out/shrink minutes_of) min; it took $(field RunTime)"
}
life_mpirun() { # mpirun starts the ranks: warned, requeued and cancelled, with the losses of srun's
    local begin=$SECONDS saved steps i
    elastic_submit=1 elastic mpirun 20 slurm.mpi=mpirun
    grep -q '^#SBATCH --signal=B:USR1@' "$run/$name.sbatch" || fail "Slurm would signal the daemons"
    squeue -h -s -j "$job" -o '%j' | grep -qx orted || fail "mpirun's daemons are no step of Slurm's: $(squeue -s)"
    scancel --batch --signal=USR1 "$job" # as before the limit
    until_logged '^attempt 1 ended: the checkpoint signal, after step .* when the job is requeued$' 30
    saved=$(readlink "$run/checkpoints/latest")
    for ((i = 0; i < 300; i++)); do # until the second attempt has a checkpoint of its own
        hurry
        [ "$(readlink "$run/checkpoints/latest")" = "$saved" ] || break
        sleep 0.2
    done
    "$build/plan" cancel "$run" || fail "plan cancel"
    nothing_runs || fail "plan cancel left a process"
    grep -qx '  "verdict": 130,' "$run/attempt.json" || fail "another verdict"
    grep -qx '  "attempt": 2,' "$run/attempt.json" || fail "another attempt"
    "$build/runner" checkpoint verify "$run/checkpoints/latest" >/dev/null || fail "no whole checkpoint"
    logs | grep -q "resuming from .*$saved" || fail "the second attempt did not resume from $saved"
    local took=$((SECONDS - begin))
    elastic_reference
    steps=$(losses "$run" | wc -l)
    diff <(losses "$run") <(losses "$reference" | head -n "$steps") || fail "the losses are not those of ranks that srun started"
    echo "mpirun: requeued and cancelled, $steps steps, every loss bit-equal ($took s)"
}
life_overwrite() { # what the script was given holds for the first attempt: the second resumes, and deletes nothing
    local i
    elastic_reference
    emit overwrite slurm.continue=requeue optimizer.total_steps=20 checkpoint.every_steps=5 nodes=3-4 \
        mesh_dim=auto global_batch_size=12
    cp -a "$reference/checkpoints" "$run" || fail "no run to overwrite"
    job=$(sbatch --parsable "$run/$name.sbatch" --resume none --overwrite) || fail "sbatch refused the script"
    for ((i = 0; i < 600; i++)); do
        case $(readlink "$run/checkpoints/latest") in *0005 | *0010) break ;; esac
        sleep 0.3
    done
    [ $i -lt 600 ] || fail "the run before was not overwritten"
    bash $cluster kill test 3
    goes_on_with_three n3
    logs | grep -qE 'resuming from .*, after step (5|10)$' || fail "the second attempt did not resume"
    [ "$(logs | grep -c 'resuming from')" -eq 1 ] || fail "it was resumed more than once"
    same_to 1e-6 "$reference" || fail "the losses are not those of an undisturbed run"
}
life_cut() {
    elastic cut
    bash $cluster cut test 2
    goes_on_with_three n2
    elastic_reference
    same_to 1e-6 "$reference" || fail "the losses are not those of an undisturbed run"
}
fewer_nodes() { # as 'plan status' says it, once it does
    local i advice
    for ((i = 0; i < 120; i++)); do
        hurry
        advice=$("$build/plan" status "$run" | sed -nE "s/.*'(scontrol update JobId=$job NumTasks=6)' lets it continue with 3 nodes.*/\1/p")
        [ -z "$advice" ] || break
        sleep 0.5
    done
    [ -n "$advice" ] || fail "plan status does not say how it goes on: $("$build/plan" status "$run")"
    $advice || fail "Slurm does not take '$advice'"
}
life_host() { # Slurm requeues by itself, once it knows; then 'plan status' says how it goes on with three
    elastic_submit=yes elastic host
    bash $cluster kill test 1
    scontrol update NodeName=n1 State=DOWN Reason=test
    fewer_nodes
    until_ranks_are_over 300
    bash $cluster mend test || fail "the node did not start back"
    until_over 60
    finished
    logs | grep -q 'on mesh [0-9,]* (6 ranks)' || fail "it did not go on with three nodes"
    scontrol update NodeName=n1 State=RESUME 2>/dev/null
    elastic_reference
    same_to 1e-6 "$reference" || fail "the losses are not those of an undisturbed run"
}
life_cancel() {
    local when i saved
    for when in step save now; do
        emit cancel slurm.continue=requeue optimizer.total_steps=100000 checkpoint.every_steps=5 \
            checkpoint.bandwidth='1 MB/s' global_batch_size=2
        submit
        until_checkpoint
        for ((i = 0; i < 300; i++)); do
            [ $when != save ] && break
            [ -n "$(find "$run/checkpoints" -maxdepth 1 -name '.step-*partial*' 2>/dev/null)" ] && break
            sleep 0.1
        done
        if [ $when = now ]; then
            "$build/plan" cancel --now "$run" || fail "plan cancel --now"
        else
            scancel "$job"
        fi
        until_over 40
        [ "$(state)" = CANCELLED ] || fail "job $job is $(state) after scancel in a $when"
        sleep 3
        nothing_runs || fail "scancel in a $when left a process"
        [ -z "$(squeue -h -n $name 2>/dev/null)" ] || fail "the cancelled job came back"
        tail -n 1 "$run/slurm-$job.out" | grep -qE 'resumes|continues' && fail "the log's last line promises more"
        [ ! -e "$run/excluded_nodes.jsonl" ] || fail "a node is left out: $(cat "$run/excluded_nodes.jsonl")"
        [ $when != now ] || continue
        grep -qx '  "verdict": 143,' "$run/attempt.json" || fail "scancel in a $when: another verdict"
        "$build/runner" checkpoint verify "$run/checkpoints/latest" >/dev/null ||
            fail "scancel in a $when: no whole checkpoint"
        saved=$(readlink "$run/checkpoints/latest")
        echo "cancel in a $when: $saved is whole"
    done
}
life_stop() {
    emit stop optimizer.total_steps=100000 slurm.continue=requeue checkpoint.every_steps=5 \
        'slurm.environment={SHARDWRIGHT_STALL_SECONDS: "10"}'
    submit
    until_checkpoint
    signal_rank 5 STOP
    until_logged '^attempt 1 ended' 90
    said_once '^attempt 1 ended: .*rank 5 \(host n3\) does not answer'
    logs | grep -aE '^rank [0-9]+ .*does not answer' | grep -qv 'rank 5 (host n3) does not answer' &&
        fail "another rank is named"
    scancel "$job"
    until_over 40
    echo "stop: only rank 5 is named"
}
life_slow() { # a tenth of the others' speed
    emit slow slurm.continue=requeue optimizer.total_steps=16 nodes=3-4 mesh_dim=auto \
        global_batch_size=12 slurm.preflight=quick
    bash tests/cluster/throttle.sh test 400mbit || fail "no throttle"
    tc qdisc replace dev swtestv3 root tbf rate 40mbit burst 68kb limit 16mb
    tc -n swtestn3 qdisc replace dev eth0 root tbf rate 40mbit burst 68kb limit 16mb
    submit
    until_logged '^attempt 1 ended: preflight: n3: is slow' 120
    bash tests/cluster/throttle.sh test off
    said_once '^attempt 1 ended: preflight: n3: is slow: messages to another node .* with the 3 nodes that are left, without n3$'
    goes_on_with_three n3
    "$build/plan" status "$run" | grep -q ' n3: excluded_nodes.jsonl says why' ||
        fail "plan status does not name n3: $("$build/plan" status "$run")"
}
life_array() { # two jobs of one array: the second one is refused, the first goes on
    emit array optimizer.total_steps=20 nodes=2 mesh_dim=auto
    submit --array=0-1
    local i
    for ((i = 0; i < 240; i++)); do [ -n "$(squeue -h -j "$job" 2>/dev/null)" ] || break; sleep 0.5; done
    [ "$(grep -c '"schema"' "$run/metrics.jsonl")" -eq 1 ] || fail "two jobs wrote one metrics.jsonl"
    logs | grep -q 'is in use by pid' || fail "the second job was not refused by name"
    [ "$(losses "$run" | wc -l)" -eq 20 ] || fail "the first job did not finish"
    echo "array: the second job is refused"
}

life_full() { # the run's disk is full: it goes on, says so, and has kept everything once it is not
    elastic disk/full 20
    fill_disk
    until_logged 'error: the checkpoint of step 10 is abandoned: .*No space left on device' 90
    "$build/plan" status "$run" | grep -qx "  note     disk: no room is left in $run: nothing is saved until some is freed" ||
        fail "plan status does not say so: $("$build/plan" status "$run")"
    until_ended_once 120 # the disk holds what was there before: the log, and why it ended
    "$build/plan" status "$run" >"$out/said"
    free_disk
    grep -qE '"cause": "rank [0-7] \(host n[1-4]\): error: the run is done, but its last checkpoint could not be written to .*: No space left on device' \
        "$run/attempt.json" || fail "the cause is not in attempt.json"
    until_ranks_are_over 300
    until_over 60
    finished
    elastic_reference 20
    same_to 1e-6 "$reference" || fail "the losses are not those of an undisturbed run"
}
life_readonly() { # of the checkpoints: refused before the first step, in one line, here and in the status
    emit readonly slurm.continue=requeue optimizer.total_steps=8 nodes=3-4 mesh_dim=auto global_batch_size=12 \
        checkpoint.directory="$disk/readonly"
    mount -o remount,ro "$disk" || fail "no read-only disk"
    job=$("$build/plan" submit "$run/$name.4.plan.yaml") || { mount -o remount,rw "$disk" && fail "plan submit"; }
    until_over 60
    mount -o remount,rw "$disk"
    [ "$(state)" = FAILED ] || fail "job $job is $(state) on a read-only disk"
    said_once "^the ranks ended before the first step: rank 0 \\(host n1\\): cannot .*'$disk/readonly.*: Read-only file system$"
    "$build/plan" status "$run" | grep "^  end " | grep -q "rank 0 (host n1): cannot .*'$disk/readonly.*: Read-only file system" ||
        fail "plan status does not say so: $("$build/plan" status "$run")"
    [ "$(tail -n 1 "$run"/slurm-*.out)" = "$(logs | grep '^the ranks ended before')" ] || fail "that is not the last line"
}

# The runner behind a script that does something first.
runner_after() { # LINE of shell
    printf '#!/bin/sh\n%s\nexec %s "$@"\n' "$1" "$build/runner" >"$run/runner"
    chmod +x "$run/runner"
    sed -i "s,^runner=.*,runner=$run/runner," "$run/$name.sbatch"
}
life_library() { # one node lacks a library: what the loader says and does
    emit library slurm.continue=requeue optimizer.total_steps=8 nodes=3-4 mesh_dim=auto \
        global_batch_size=12
    # shellcheck disable=SC2016 # expanded on the nodes
    runner_after 'if [ "$(hostname)" = n2 ]; then echo "error while loading shared libraries: libx.so" >&2; exit 127; fi'
    submit
    until_ranks_are_over 200
    until_over 30
    finished
    said_once '^the ranks ended before the first step: tasks? [-0-9]+ \(host n2\): the runner does not start there: .* with the 3 nodes that are left, without n2$'
    grep -q '^{"node":"n2",' "$run/excluded_nodes.jsonl" || fail "n2 is not among the excluded nodes"
}
life_crash() { # a start that dies before its first step is tried again
    emit crash optimizer.total_steps=8 slurm.continue=requeue
    runner_after "if [ \"\$SLURM_PROCID\" = 3 ] && [ \"\$1\" = train ] && mkdir '$run/crashed' 2>/dev/null; then kill -SEGV \$\$; fi"
    submit
    until_over 200
    finished
    said_once '^the ranks ended before the first step: task 3 \(host n2\): Segmentation fault.*; start 2 of 3 follows$'
    [ "$(grep -c '"schema"' "$run/metrics.jsonl")" -eq 1 ] || fail "the crash counts as an attempt"
}

# One run under two or three faults, each after steps were gained since the last one.
until_gained() { # CHECKPOINT: until the run has a newer one; false: it is done
    local i now
    for ((i = 0; i < 1200; i++)); do
        saved=$(readlink "$run/checkpoints/latest" 2>/dev/null)
        now=$(state)
        case $now in
            PENDING) hurry ;;
            COMPLETED) return 1 ;;
            RUNNING)
                [ -z "$saved" ] || [ "$saved" = "$1" ] || nothing_runs || return 0
                ;;
            *) if is_over "$now"; then fail "the job is $now"; fi ;;
        esac
        sleep 0.3
    done
    fail "no step is gained"
}
fault() { # sets last: the cluster has no fifth node
    local rank=$((RANDOM % 6)) node=$((2 + RANDOM % 3)) before
    case $((RANDOM % 8)) in
        0 | 1) echo "  rank $rank killed at $saved" && (signal_rank $rank KILL) ;;
        2) echo "  rank $rank stopped at $saved" && (signal_rank $rank STOP) ;;
        3) echo "  controller restarted at $saved" && bash $cluster restart test ;;
        4) echo "  node n$node killed at $saved" && bash $cluster kill test $node && last=yes ;;
        5) echo "  link of n$node cut at $saved" && bash $cluster cut test $node && last=yes ;;
        6) echo "  disk full for 15 s at $saved" && fill_disk && sleep 15 && free_disk ;;
        7)
            echo "  rank $rank killed on a full disk at $saved"
            before=$(grep -E '"(attempt|verdict)"' "$run/attempt.json")
            fill_disk
            sleep 5
            (signal_rank $rank KILL)
            for ((i = 0; i < 100; i++)); do
                [ "$(grep -E '"(attempt|verdict)"' "$run/attempt.json")" = "$before" ] || break
                sleep 0.3
            done
            free_disk
            ;;
    esac
}
life_random() { # SEED
    local faults node n i saved=none last=''
    elastic_reference 20
    RANDOM=$1
    emit disk/random slurm.continue=requeue optimizer.total_steps=20 checkpoint.every_steps=3 nodes=3-4 \
        mesh_dim=auto global_batch_size=12 slurm.max_attempts=20 \
        'slurm.environment={SHARDWRIGHT_STALL_SECONDS: "20", SHARDWRIGHT_START_SECONDS: "20"}'
    submit
    faults=$((2 + RANDOM % 2))
    for ((n = 0; n < faults; n++)); do
        until_gained "$saved" || break
        fault
        [ -z "$last" ] || break
    done
    until_ranks_are_over 400
    bash $cluster mend test || fail "a node does not come back"
    until_over 60
    finished
    for ((i = 0; i < 100; i++)); do if nothing_runs; then break; fi; sleep 0.3; done
    nothing_runs || fail "a process is left"
    same_to 1e-6 "$reference" || fail "other losses"
    for node in 1 2 3 4; do scontrol update NodeName=n$node State=RESUME 2>/dev/null; done
}

# Lives that an administrator, another job or Slurm itself disturbs, at a checkpoint that the seed chooses.
begin_life() { # LIFE [SETTING...]: until the run is at that checkpoint
    local n
    RANDOM=$seed
    elastic_reference 20
    emit "$1" slurm.continue=requeue optimizer.total_steps=20 checkpoint.every_steps=3 nodes=3-4 \
        mesh_dim=auto global_batch_size=12 "${@:2}"
    if [ -n "${wrap:-}" ]; then
        runner_after "$wrap"
        submit
    else
        job=$("$build/plan" submit "$run/$name.4.plan.yaml") || fail "plan submit"
    fi
    saved=none
    for ((n = 1 + RANDOM % 3; n > 0; n--)); do
        until_gained "$saved" || fail "it is over before anything happened"
    done
    echo "  $1 (seed $seed): at $saved"
}
ends_well() { # DIFFERENCE RESTARTS: at most, and at least
    local node i
    until_ranks_are_over 400
    for node in 1 2 3 4; do scontrol update NodeName=n$node State=RESUME 2>/dev/null; done
    bash $cluster mend test || fail "a node does not come back"
    until_over 60
    finished
    [ "$(field Restarts)" -ge "$2" ] || fail "it was requeued $(field Restarts) times"
    for ((i = 0; i < 100; i++)); do if nothing_runs; then break; fi; sleep 0.3; done
    nothing_runs || fail "a process is left"
    same_to "$1" "$reference" || fail "the losses are not those of an undisturbed run"
}
until_state() { # PATTERN SECONDS
    local i
    for ((i = 0; i < $2 * 5; i++)); do
        [[ $(state) =~ ^($1)$ ]] && return
        sleep 0.2
    done
    fail "job $job is $(state), not $1"
}
life_requeue() {
    begin_life requeue
    scontrol requeue "$job" || fail "scontrol requeue"
    ends_well 0 1
}
life_hold() {
    begin_life hold
    scontrol requeuehold "$job" || fail "scontrol requeuehold"
    until_state PENDING 30
    sleep 5
    [ "$(state)" = PENDING ] || fail "a held job is $(state)"
    scontrol release "$job"
    ends_well 0 1
}
life_suspend() {
    begin_life suspend
    scontrol suspend "$job" || fail "scontrol suspend"
    sleep 8
    "$build/plan" status "$run" | grep -q 'suspended' || fail "plan status: $("$build/plan" status "$run")"
    scontrol resume "$job"
    ends_well 0 0
}
life_preempt() {
    begin_life preempt
    scontrol create PartitionName=urgent Nodes=n[1-4] PriorityTier=100 || fail "no partition"
    sbatch --quiet --wait --partition=urgent --nodes=4 --output=/dev/null --wrap 'sleep 3' || fail "sbatch"
    scontrol delete PartitionName=urgent
    ends_well 0 1
}
life_drain() {
    begin_life drain
    scontrol update NodeName=n2 State=DRAIN Reason=test || fail "scontrol update"
    scontrol requeue "$job" || fail "scontrol requeue"
    fewer_nodes
    ends_well 1e-6 1
    logs | grep -q 'on mesh [0-9,]* (6 ranks)' || fail "it did not go on with three nodes"
}
life_controller() { # a rank dies, and nobody can be asked for 40 s
    local rank
    begin_life controller
    rank=$((RANDOM % 8))
    bash $cluster restart test 40 &
    sleep 2
    signal_rank $rank KILL
    wait "$!" || fail "the controller does not come back"
    ends_well 0 1
}
life_slowd() { # a slurmd that does not answer while the signal before the limit is delivered
    local steps i signaling='' tries
    steps=$(steps_of 36) || { echo "$steps" && exit 1; }
    emit slowd slurm.continue=requeue slurm.time=1 optimizer.total_steps="$steps" checkpoint.every_steps=5
    submit
    for ((tries = 1; tries <= 3; tries++)); do # Slurm may be quicker than we
        until_logged "^training .*$([ $tries -eq 1 ] || echo ", attempt $tries")\$" 120
        bash $cluster pause test 3
        for ((i = 0; i < 300; i++)); do
            case $(state) in
                SIGNALING) signaling=yes ;;
                RUNNING | '') ;;
                *) break ;;
            esac
            logs | grep -aq "^attempt $tries ended" && [ $((i % 10)) -eq 9 ] && break
            sleep 0.2
        done
        sleep 3
        bash $cluster resume test 3
        [ -z "$signaling" ] || break
        hurry
    done
    [ -n "$signaling" ] || fail "Slurm never was SIGNALING"
    until_over 240
    finished
    [ "$(field Restarts)" -ge 1 ] || fail "it was not requeued"
    undisturbed optimizer.total_steps="$steps"
    same_to 0 "$run.reference" || fail "the losses are not those of an undisturbed run"
}
life_starting() { # a node is lost while MPI starts, and is back before the others give up
    local i
    # Forty seconds: on a busy machine a start takes half of them.
    # shellcheck disable=SC2016 # expanded on the nodes
    wrap='if [ "$1" = train ] && [ "$(hostname)" = n3 ] && [ -e "${0%/*}/armed" ]; then touch "${0%/*}/waits" && exec sleep 1000; fi' \
        begin_life starting 'slurm.environment={SHARDWRIGHT_STALL_SECONDS: "20", SHARDWRIGHT_START_SECONDS: "40"}'
    touch "$run/armed"
    scontrol requeue "$job" || fail "scontrol requeue"
    for ((i = 0; i < 300; i++)); do
        hurry
        [ ! -e "$run/waits" ] || break
        sleep 0.2
    done
    bash $cluster kill test 3
    rm "$run/armed"
    bash $cluster mend test 'idle|allocated|mixed|completing' || fail "the node does not come back"
    ends_well 1e-6 1
    said_once '^the ranks ended before the first step: rank [0-7] \(host n[124]\): MPI does not start for 40 s: .*; ranks 4-5 \(host n3\) did not start; start 2 of 3 follows$'
    [ ! -e "$run/excluded_nodes.jsonl" ] || fail "a node that answers again is left out: $(cat "$run/excluded_nodes.jsonl")"
}

for life; do
    seed=1
    [ "$life" = "${life#*:}" ] || seed=${life#*:}
    life=${life%%:*}
    declare -F "life_$life" >/dev/null || { echo "which life is '$life'?" >&2; exit 2; }
    begin=$SECONDS
    "life_$life" "$seed"
    echo "$life: $((SECONDS - begin)) s"
done
