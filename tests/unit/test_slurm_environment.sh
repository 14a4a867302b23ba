#!/usr/bin/env bash
# No variable that Slurm's commands read reaches them from plan, whose submit, status, logs and cancel do with all of
# them set what they do without: stand-ins for Slurm note their environment. SLURM_CONF, SLURM_CONF_SERVER and SLURM_JWT
# do reach them; SLURM_CLUSTERS of another cluster is refused. Jobs that the record does not name are cancelled, too.
#
#   tests/unit/test_slurm_environment.sh PLAN SCRATCH [each]      from the root of the tree
#       each: every job is cancelled, which takes a second; else it is looked at and few are
set -uo pipefail
plan=$(realpath "$1") && [ -x "$plan" ] || exit 2
# shellcheck source=tests/support/scratch.sh
. "$(dirname "$0")/../support/scratch.sh"
scratch=$(scratch_in "$2") && mkdir "$scratch/real" || exit 2
mode=${3:-few}
bad=0
root=$PWD

complain() {
    echo "FAIL: $*"
    bad=$((bad + 1))
}
cd "$scratch" || exit 2
PATH=$(dirname "$plan"):$PATH bash "$root/tests/mistakes/slurm.sh" || exit 2
rm bin/plan
# The queue is a file: "JOB STATE COMMENT COMMAND FOLDER"; --me lists it all, --jobs=LIST what is in it.
cat >real/squeue <<'END'
#!/bin/sh
while read -r job state comment command folder; do
    case " $* " in *" --me "*) ;; *[=,]$job[,\ ]*) ;; *) continue ;; esac
    printf '%s\037%s\037None\0371\037N/A\037N/A\0372026-11-22T11:52:33\0370:10\03730:00\037\037%s\037%s\037%s\036\n' \
        "$job" "$state" "$comment" "$command" "$folder"
done <queue
END
cat >real/scancel <<'END'
#!/bin/sh
echo "$*" >>cancelled
for job; do sed -i "/^$job /d" queue; done
END
cp "$plan" plan && plan=$scratch/plan # without plan-slurm beside it
for name in scontrol sacctmgr sbatch sacct; do mv "bin/$name" real/ || exit 2; done
ln -s scontrol real/sinfo
for name in scontrol sacctmgr sbatch sacct squeue scancel sinfo; do
    # shellcheck disable=SC2016 # the stand-in's own variables
    printf '#!/bin/sh\nenv >>"%s/seen"\necho "%s $*" >>"%s/calls"\nexec "%s/real/%s" "$@"\n' \
        "$scratch" $name "$scratch" "$scratch" $name >bin/$name
done
chmod +x bin/* real/*
cat >run.yaml <<END
name: tiny
model: {vocab_size: 256, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 1, num_attention_heads: 2}
cluster:
  name: one
  nodes: 1
  accelerators_per_node: 1
  accelerator: $root/configs/accelerators/cpu-core.yaml
  launcher: slurm
  slurm: {partition: gpu, time: '1:00:00'}
sequence_length: 32
global_batch_size: 2
precision: {compute: fp32}
optimizer: {total_steps: 100}
data: {path: $root/README.md}
directory: run
END
names=() wrong=()
while read -r name value; do
    names+=("${name#+}")
    wrong+=("${name#+}=$value")
done < <(grep -v '^#' "$root/tests/support/slurm_variables.txt")
# and what a release to come may read
RANDOM=42
for prefix in SQUEUE SCANCEL SINFO SACCT SCONTROL SACCTMGR SBATCH SLURM SRUN SPRIO SSHARE SREPORT SSTAT SDIAG; do
    names+=("${prefix}_X$RANDOM") && wrong+=("${names[-1]}=1")
done
kept=(SLURM_CONF_SERVER=localhost:1 SLURM_JWT=token)

# play LABEL VARIABLES...: a submission, another one, status and logs of the job that runs, its cancel
play() {
    local label=$1 asks=(env "${@:2}" "$plan")
    : >queue && : >cancelled
    rm -rf run seen calls slurm/submitted
    {
        "${asks[@]}" submit run.yaml
        echo "exit $?"
        echo "4242 RUNNING $(sed -n 's/.*--comment=\([^ ]*\).*/\1/p' slurm/submitted) $scratch/run/tiny.sbatch $scratch/run" >queue
        "${asks[@]}" submit run.yaml
        echo "exit $?"
        "${asks[@]}" status 4242
        echo "exit $?"
        echo "it prints" >run/slurm-4242.out
        "${asks[@]}" logs run
        echo "exit $?"
        "${asks[@]}" cancel run
        echo "exit $?"
        sed 's/shardwright:[0-9a-f]*/TOKEN/' slurm/submitted cancelled calls
    } >"$label" 2>&1
}
export PATH=$scratch/bin:/usr/bin:/bin XDG_STATE_HOME=$scratch/state
play plain
{ grep -qx 'it prints' plain && grep -q '^tiny: running\|^tiny: starting' plain && grep -qx 4242 cancelled; } ||
    complain "without any variable: $(cat plain)"
play set "${wrong[@]}" "${kept[@]}"
diff plain set || complain "variables of Slurm's commands change what plan does"
for name in "${names[@]}"; do
    case $name in LC_ALL | SLURM_TIME_FORMAT) continue ;; esac
    grep -q "^$name=" seen && complain "$name reaches Slurm: $(grep -m 1 "^$name=" seen)"
done
for line in "${kept[@]}" LC_ALL=C SLURM_TIME_FORMAT=standard; do
    [ "$(grep -cxF "$line" seen)" -eq "$(wc -l <calls)" ] || complain "$line does not reach all of Slurm's commands"
done
# squeue lists jobs of hidden partitions only if told so
grep '^squeue' calls | grep -v -- ' -a ' && complain "squeue leaves out hidden partitions"

# ---- Another cluster
play plain
echo "4242 RUNNING c $scratch/run/tiny.sbatch $scratch/run" >queue
refused="plan: error: SLURM_CLUSTERS is 'other', and plan asks one cluster only, here 'standin'; unset it, or set SLURM_CONF to the slurm.conf of the other"
for command in 'submit run.yaml' 'submit --dry-run run.yaml' 'status run' 'cancel run' 'status 4711' 'logs 4711' runs import-cluster; do
    # shellcheck disable=SC2086
    SLURM_CLUSTERS=other "$plan" $command >said 2>said.err
    status=$?
    # runs and logs may have words of their own before it
    { [ $status -ge 2 ] && grep -qF "${refused#plan: error: }" said.err; } || complain "$command in another cluster: exit $status, $(cat said.err)"
done
[ "$(cat queue)" = "4242 RUNNING c $scratch/run/tiny.sbatch $scratch/run" ] || complain "a job was cancelled"
for own in '' standin StandIn; do
    SLURM_CLUSTERS=$own "$plan" status run >said 2>said.err || complain "SLURM_CLUSTERS='$own': $(cat said.err)"
done

# ---- Jobs that the record does not name
# FOLDER OWNED COMMENT COMMAND WORKS-IN: what submit names is what cancel ends
folder=$scratch/run script=$scratch/run/tiny.sbatch
mkdir -p other elsewhere
cp run/submission.json other/
token=$(sed -n 's/^  "token": "\(.*\)",$/\1/p' run/submission.json)
[ -n "$token" ] || complain "no token: $(cat run/submission.json)"
tried=0
# record: of the job at hand, of one that is over, none; comment: of the record, older, none
for record in current none; do
    for comment in "shardwright:$token" shardwright:0123456789abcdef nothing; do
        for command in "$script" "$scratch/elsewhere/tiny.sbatch" /bin/other; do
            for works in "$folder" "$scratch/other" "$scratch/elsewhere"; do
                rm -f run/submission.json && : >cancelled
                [ $record = none ] || cp other/submission.json run/
                cp "$scratch/run/tiny.sbatch" elsewhere/
                echo "4300 PENDING $comment $command $works" >queue
                "$plan" submit run.yaml >said 2>&1
                status=$?
                refused=false
                grep -q 'job 4300 of this folder' said && refused=true
                [ $refused = true ] || [ $status -eq 0 ] || complain "submit beside $(cat queue): $(cat said)"
                [ $refused = true ] || { [ $record = none ] && rm run/submission.json; } || cp other/submission.json run/
                case $(cat said) in
                    *"'plan cancel 4300'"*) expected=4300 ;;
                    *"'scancel 4300'"*) expected= ;;
                    *) expected= ;;
                esac
                echo "4300 PENDING $comment $command $works" >queue
                "$plan" status run >said 2>&1
                [ "$(grep -o 'pending, job 4300' said)" = "${expected:+pending, job 4300}" ] ||
                    complain "record $record, job $comment $command in $works: submit names '$expected', status shows $(cat said)"
                case $mode,$comment,$command,$works in
                    each,* | "few,shardwright:0123456789abcdef,$script,$folder")
                        "$plan" cancel run >said 2>&1
                        [ "$(cat cancelled)" = "$expected" ] || complain "record $record, job $comment $command in $works: submit names '$expected', cancel ends '$(cat cancelled)': $(cat said)"
                        ;;
                esac
                # a job that works here is this run's, whatever its token; one of another run's folder is not
                case $works in
                    "$folder") want=$([ "$command" = /bin/other ] && [ "$comment" = nothing ] || echo 4300) ;;
                    "$scratch/other") want=$([ "$comment" != "shardwright:$token" ] || [ $record = none ] || echo 4300) ;;
                    *) want=$expected ;;
                esac
                [ "$want" = "$expected" ] || complain "record $record, job $comment $command in $works: '$expected' is cancelled, not '$want'"
                tried=$((tried + 1))
            done
        done
    done
done
# an older job beside the recorded one: one cancel ends both
cp other/submission.json run/
printf '4242 PENDING shardwright:%s %s %s\n4100 RUNNING shardwright:0123456789abcdef %s %s\n' \
    "$token" "$script" "$folder" "$script" "$folder" >queue
: >cancelled
"$plan" cancel run >said 2>&1
[ "$(sort cancelled | tr '\n' ' ')" = '4100 4242 ' ] || complain "two jobs of a run: $(cat cancelled said)"

[ $bad -eq 0 ] && echo "${#names[@]} variables do not reach Slurm; $tried jobs: what submit names is what cancel ends"
exit $((bad > 0))
