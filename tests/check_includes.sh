#!/usr/bin/env bash
# Who may include whom, folder by folder: planner -> core, runner -> core; inside core plan -> config, programs;
# config -> schema; cost -> config, programs; programs -> passes, models -> ir -> sharding; everything -> base. Devices and
# collectives know programs, never YAML. Project headers are included by their path from the root, with quotes.
#
#   tests/check_includes.sh [DIR]     DIR: the tree to check (default: this one)
set -uo pipefail
cd "${1:-$(dirname "$0")/..}" || exit 2

bad=0
checked=0
# Every folder of this project, then those that its files may include besides their own; 'core/' are core and all folders
# in it. Each names only folders above it in this list, so that there is no circle: that is looked after, too. What
# stands in planner/ and runner/ themselves is the executables' main, and knows all.
rules='
core/base:
core/schema: core/base
core/config: core/schema core/base
core/sharding: core/base
core/ir: core/sharding core/base
core/passes: core/ir core/sharding core/base
core/ops: core/passes core/ir core/sharding core/base
core/models: core/passes core/ir core/base
core/checkpoint: core/passes core/ir core/base
core/programs: core/passes core/models core/checkpoint core/ir core/base
core/cost: core/programs core/checkpoint core/ir core/sharding core/config core/base
core/plan: core/programs core/models core/ir core/sharding core/config core/base
core/run: core/checkpoint core/base
planner/command: core/
planner/scheduler: core/ planner/command
planner/scheduler/slurm/libslurm: core/base
planner/scheduler/slurm/srun: core/base core/run
planner/scheduler/slurm: core/ planner/command planner/scheduler planner/scheduler/slurm/libslurm planner/scheduler/slurm/srun
planner/scheduler/mpirun: core/ planner/command planner/scheduler
planner/scheduler/rows: core/ planner/command planner/scheduler planner/scheduler/slurm planner/scheduler/mpirun
planner/search: core/ planner/command planner/scheduler
planner/fit: core/ planner/command planner/scheduler
planner/job: core/ planner/command planner/scheduler
planner/supervise: core/ planner/command planner/scheduler
planner/policy: core/ planner/command planner/scheduler planner/search
planner/emit: core/ planner/command planner/search planner/scheduler planner/job planner/policy
planner/submit: core/ planner/command planner/search planner/scheduler planner/job planner/policy planner/emit
planner/check: core/ planner/command planner/scheduler planner/search planner/policy planner/emit
planner/breakdown: core/ planner/command planner/search
planner/html: core/ planner/command planner/breakdown
planner/explain: core/ planner/command planner/scheduler planner/search planner/breakdown planner/html
planner/diff: core/ planner/command planner/scheduler planner/search planner/policy planner/emit
planner: core/ planner/
runner/device: core/ir core/sharding core/base
runner/device/cpu: core/ir core/sharding core/base runner/device
runner/device/cuda: core/ir core/sharding core/base runner/device
runner/collective: core/ir core/sharding core/base runner/device/
runner/rank: core/ runner/device/ runner/collective
runner/checkpoint: core/ runner/rank
runner/text/tokenizer: core/base runner/checkpoint
runner/text/jinja: core/base runner/checkpoint runner/text/tokenizer
runner/text: core/ runner/rank runner/checkpoint runner/text/tokenizer runner/text/jinja
runner/calibrate: core/ runner/device/ runner/collective runner/rank
runner/preflight: core/ runner/device/ runner/collective runner/rank runner/calibrate
runner/train: core/ runner/rank runner/checkpoint
runner/generate: core/ runner/rank runner/checkpoint runner/text/
runner/serve: core/ runner/rank runner/checkpoint runner/text/ runner/generate
runner: core/ runner/ planner/scheduler/slurm/srun
'
# may_include FOLDER ALLOWED...: whether one of these is it, or has it inside.
may_include() {
    local folder=$1 one
    shift
    for one; do
        case $folder/ in "$one/") return 0 ;; esac
        case $one in */) case $folder/ in "$one"*) return 0 ;; esac ;; esac
    done
    return 1
}
above='' closed=''
while IFS=: read -r folder list; do
    [ -n "$folder" ] || continue
    # shellcheck disable=SC2086 # words
    if may_include "$folder" $closed; then
        echo "check_includes: '$folder' stands below a line that may include it: a circle" >&2
        bad=$((bad + 1))
    fi
    for one in $list; do
        # shellcheck disable=SC2086 # words
        case $one in
            */) closed="$closed $one" && [[ " $above " == *" $one"* ]] ;;
            *) may_include "$one" $above ;;
        esac && continue
        echo "check_includes: '$folder' names '$one', which does not stand above it: a circle" >&2
        bad=$((bad + 1))
    done
    above="$above $folder"
done <<<"$rules"
allowed_of() {
    own='' allowed=''
    while IFS=: read -r own allowed; do
        [ "$own" = "$1" ] && return 0
    done <<<"$rules"
    return 1
}
files=$(find core planner runner -type f \( -name '*.c' -o -name '*.h' -o -name '*.cu' \
    -o -name '*.cuh' -o -name '*.def' -o -name '*.inc' \) 2>/dev/null | sort)
while IFS= read -r file; do
    [ -n "$file" ] || continue
    checked=$((checked + 1))
    allowed_of "${file%/*}" && continue
    echo "$file:1: the folder '${file%/*}' is not in the list of tests/check_includes.sh" >&2
    bad=$((bad + 1))
done <<<"$files"
# What is included with quotes, as FILE:LINE:HEADER.
while IFS=: read -r file line header; do
    if [ -z "$file" ] || ! allowed_of "${file%/*}"; then
        continue
    elif [ ! -e "$header" ]; then
        echo "$file:$line: '$header' is not a path from the root" >&2
        bad=$((bad + 1))
    elif
        # shellcheck disable=SC2086 # words
        ! may_include "${header%/*}" "$own" $allowed
    then
        echo "$file:$line: '$own' may not include '$header'" >&2
        bad=$((bad + 1))
    fi
done < <(xargs -r grep -nHE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' <<<"$files" |
    sed -E 's/^([^:]*:[0-9]+):[^"]*"([^"]*)".*/\1:\2/')
# What a part must not know at all, whatever the header's name.
while read -r part forbidden; do
    while IFS= read -r found; do
        echo "$found: not for '$part'" >&2
        bad=$((bad + 1))
    done < <(grep "^$part/" <<<"$files" |
        xargs -r grep -nHE "^[[:space:]]*#[[:space:]]*include[[:space:]]*<($forbidden)")
done <<'PARTS'
core mpi\.h|cuda|nccl|cudnn|slurm/
planner mpi\.h|cuda|nccl|cudnn|yaml\.h
runner yaml\.h|slurm/
PARTS

# core keeps the settings of a scheduler as a section that it does not understand, and names none.
named=$(grep -rniE 'slurm|sbatch|squeue|srun|scontrol|sacct' core 2>/dev/null)
if [ -n "$named" ]; then
    echo "$named" >&2
    echo "check_includes: core names a scheduler" >&2
    bad=$((bad + 1))
fi

if [ "$checked" -eq 0 ]; then
    echo "check_includes: no files found" >&2
    exit 2
fi
if [ "$bad" -ne 0 ]; then
    echo "check_includes: $bad wrong includes in $checked files" >&2
    exit 1
fi
echo "check_includes: $checked files, every include goes the allowed way"
