#!/usr/bin/env bash
# plan's submit, status, logs and cancel with every variable that Slurm's commands read set to a wrong value: the same
# as with none, on a controller without nodes, whose own squeue and scancel are shown to be led astray by them.
#
#   tests/cluster/test_environment.sh [BUILD-FOLDER [each]]      exit code 77: this machine cannot (said why)
#       each: all commands with each variable, also with a value that nobody can mean; else with those of a program at once
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
build=$(cd "${1:-build}" && pwd) || exit 2
each=${2:-}
plan=$build/plan
scratch=$build/tests/slurm_environment
rm -rf "$scratch"
mkdir -p "$scratch"
scratch=$(realpath "$scratch")
export XDG_STATE_HOME=$scratch/state
bad=0

complain() {
    echo "FAIL: $*"
    bad=$((bad + 1))
}
line=$(bash tests/cluster/controller.sh up nodes 8)
status=$?
if [ $status -ne 0 ]; then
    echo "$line"
    exit $status
fi
trap 'bash tests/cluster/controller.sh down "$SLURM_CONF"' EXIT
trap 'exit 3' INT TERM
export SLURM_CONF=${line#SLURM_CONF=}

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
waits() { # FOLDER: submits a job that is held
    local job
    job=$("$plan" submit "$scratch/run.yaml" --set directory="$1" --set slurm.begin=now+1hour 2>"$1.err") ||
        complain "submit: $(cat "$1.err")"
    scontrol uhold "$job" || complain "hold"
    echo "$job" >"$1.job"
}
run=$scratch/run
waits "$run"
echo "it begins" >"$run/slurm-$(cat "$run.job").out"
variables=() programs=()
while read -r name value; do
    name=${name#+}
    variables+=("$name=$value")
    [[ " ${programs[*]} " == *" ${name%%_*} "* ]] || programs+=("${name%%_*}")
    [ -z "$each" ] || variables+=("$name=no such thing")
done < <(grep -v '^#' tests/support/slurm_variables.txt)

asks() { # WHAT VARIABLES...
    case $1 in
        status) env "${@:2}" "$plan" status "$run" ;;
        logs) env "${@:2}" "$plan" logs "$run" ;;
        submit) env "${@:2}" "$plan" submit "$scratch/run.yaml" --set directory="$run" ;;
        dry) env "${@:2}" "$plan" submit --dry-run "$scratch/run.yaml" --set directory="$scratch/dry" --json | sed -E 's/[0-9]{10}|20[0-9-]+T[0-9:]+//; /"(wait|result)_seconds"/d' ;;
        import) env "${@:2}" "$plan" import-cluster ;;
    esac >"$scratch/$1.said" 2>&1
    echo "exit $?" >>"$scratch/$1.said"
}
same() { # WHAT VARIABLES...
    asks "$@"
    cmp -s "$scratch/$1.said" "$scratch/$1.plain" || complain "$1 with ${*:2}: $(diff "$scratch/$1.plain" "$scratch/$1.said")"
}
for what in status logs submit dry import; do
    asks $what A=b
    mv "$scratch/$what.said" "$scratch/$what.plain"
done
{ grep -q 'pending, job ' "$scratch/status.plain" && grep -q 'job .* of this folder is waiting' "$scratch/submit.plain" &&
    grep -qx 'exit 0' "$scratch/import.plain" && grep -qx 'it begins' "$scratch/logs.plain"; } || complain "without variables: $(cat "$scratch"/*.plain)"

# What they do to Slurm's own commands, so that the values are known to be wrong.
astray=0
for variable in "${variables[@]}"; do
    [ "$(env "$variable" squeue -h --me 2>&1)" = "$(squeue -h --me 2>&1)" ] || astray=$((astray + 1))
done
[ $astray -ge 8 ] || complain "only $astray variables change squeue"

for variable in "${variables[@]}"; do
    same status "$variable"
    [ -z "$each" ] || for what in logs submit dry; do same $what "$variable"; done
done
of=()
for program in "${programs[@]}"; do
    mapfile -t of < <(printf '%s\n' "${variables[@]}" | grep "^${program}[_=]")
    for what in logs submit import; do same $what "${of[@]}"; done
done
same dry "${variables[@]}"

# One job for each variable of scancel's, or for all of them: gone after plan cancel, and nothing else is.
count=0
cancel() { # VARIABLES...
    count=$((count + 1))
    waits "$scratch/job$count"
    {
        env "$@" "$plan" cancel "$scratch/job$count" >"$scratch/job$count.said" 2>&1 ||
            echo "cancel with $*: $(cat "$scratch/job$count.said")"
        squeue -h -j "$(cat "$scratch/job$count.job")" | grep -q . && echo "cancel with $* leaves the job"
    } >"$scratch/job$count.bad" &
    [ $((count % 8)) -ne 0 ] || wait
}
cancel "${variables[@]}"
for variable in "${variables[@]}"; do
    [[ $variable == SCANCEL_* ]] && { [ -n "$each" ] || [[ $variable =~ STATE|PARTITION|INTERACTIVE ]]; } && cancel "$variable"
done
wait
for ((i = 1; i <= count; i++)); do [ ! -s "$scratch/job$i.bad" ] || complain "$(cat "$scratch/job$i.bad")"; done
[ "$(squeue -h -o %i)" = "$(cat "$run.job")" ] || complain "not one job is left: $(squeue)"

# A cluster of another name is refused by name, and this one's own is not.
for command in status cancel submit; do
    target=$run
    [ $command != submit ] || target="$scratch/run.yaml --set directory=$run"
    # shellcheck disable=SC2086 # words
    SLURM_CLUSTERS=other "$plan" $command $target >"$scratch/said" 2>&1 && complain "$command in another cluster: $(cat "$scratch/said")"
    grep -qF "SLURM_CLUSTERS is 'other', and plan asks one cluster only, here 'shardwright'" "$scratch/said" ||
        complain "$command in another cluster: $(cat "$scratch/said")"
done
same status SLURM_CLUSTERS=shardwright
same submit SLURM_CLUSTERS=Shardwright

# A job in a hidden partition, as a user who may not see it without being told: only root can become one here.
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
    chmod -R a+rX "$(dirname "$SLURM_CONF")"
    scontrol update partition=short Hidden=YES || complain "no partition is hidden"
    as_user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    hidden=$(cd / && "${as_user[@]}" sbatch --parsable --hold -p short -t 1 -o /dev/null --wrap=true) || complain "sbatch as a user"
    [ -z "$("${as_user[@]}" squeue -h --me)" ] || complain "the partition is not hidden"
    mkdir -p "$scratch/bin"
    cp "$plan" "$scratch/bin/"
    folder=$(mktemp -d) # which such a user reads
    chmod a+rx "$folder" "$scratch/bin/plan"
    cp "$scratch/bin/plan" "$folder/"
    mkdir "$folder/run"
    sed -e "s#\"jobs\": \[[^]]*\]#\"jobs\": []#" -e 's/"state": "submitted"/"state": "submitting"/' "$run/submission.json" >"$folder/run/submission.json"
    token=$(sed -n 's/^  "token": "\(.*\)",$/\1/p' "$folder/run/submission.json")
    scontrol update jobid="$hidden" comment="shardwright:$token" || complain "no comment"
    chmod -R a+rX "$folder"
    (cd "$folder" && "${as_user[@]}" ./plan status run) >"$scratch/said" 2>&1
    grep -q "pending, job $hidden" "$scratch/said" || complain "a job in a hidden partition: $(cat "$scratch/said")"
    rm -rf "$folder"
fi

[ $bad -eq 0 ] && echo "${#variables[@]} wrong values, $astray of which lead squeue astray: status, submit, logs and cancel do as without"
exit $((bad > 0))
