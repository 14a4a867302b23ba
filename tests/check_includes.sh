#!/usr/bin/env bash
# Who may include whom: planner -> core, runner -> core; inside core plan -> config, program;
# cost -> config, program; program -> sharding; everything -> base. Devices and collectives know
# programs, never YAML. Project headers are included by their path from the root, with quotes.
#
#   tests/check_includes.sh [DIR]     DIR: the tree to check (default: this one)
set -uo pipefail
cd "${1:-$(dirname "$0")/..}" || exit 2

bad=0
checked=0
# Folder, then every folder of this project that its files may include: each names only folders above
# it in this list, so that there is no circle. First match wins; a file may always include its own
# folder. What stands in planner/ and runner/ themselves is the executables' main, and knows all.
rules='
core/base:
core/model: core/base
core/config: core/model core/base
core/sharding: core/base
core/program: core/sharding core/model core/base
core/cost: core/program core/sharding core/config core/base
core/plan: core/program core/sharding core/config core/base
core/run: core/base
planner/command: core
planner/search: core planner/command
planner/fit: core planner/command
planner/scheduler: core planner/command
planner/slurm: core planner/command planner/scheduler
planner/job: core planner/command planner/scheduler
planner/emit: core planner/command planner/search planner/scheduler planner/job
planner/submit: core planner/command planner/search planner/scheduler planner/job planner/emit planner/slurm
planner/check: core planner/command planner/search planner/emit
planner/breakdown: core planner/command planner/search
planner/html: core planner/command planner/breakdown
planner/explain: core planner/command planner/search planner/breakdown planner/html
planner/diff: core planner/command planner/search
planner: core
runner/device: core/program core/sharding core/base
runner/collective: core/program core/sharding core/base runner/device
runner/rank: core runner/device runner/collective
runner/checkpoint: core runner/rank
runner/text: core runner/rank runner/checkpoint
runner/calibrate: core runner/device runner/collective runner/rank
runner/preflight: core runner/device runner/collective runner/rank runner/calibrate
runner/train: core runner/rank runner/checkpoint
runner/generate: core runner/rank runner/checkpoint runner/text
runner/serve: core runner/rank runner/checkpoint runner/text runner/generate
runner: core
'
while IFS= read -r file; do
    checked=$((checked + 1))
    folder=$(dirname "$file")
    allowed=''
    own=''
    while IFS=: read -r prefix list; do
        [ -n "$prefix" ] || continue
        case $prefix:$folder/ in */*:"$prefix"/* | "$prefix:$prefix/")
            own=$prefix allowed=$list
            break
            ;;
        esac
    done <<<"$rules"
    if [ -z "$own" ]; then
        echo "$file:1: the folder '$folder' is not in the list of tests/check_includes.sh" >&2
        bad=$((bad + 1))
        continue
    fi
    while IFS=: read -r line header; do
        [ -n "$header" ] || continue
        if [ ! -e "$header" ]; then
            echo "$file:$line: '$header' is not a path from the root" >&2
            bad=$((bad + 1))
            continue
        fi
        ok=''
        for prefix in $own $allowed; do
            case $header in "$prefix"/*) ok=1 ;; esac
        done
        if [ -z "$ok" ]; then
            echo "$file:$line: '$own' may not include '$header'" >&2
            bad=$((bad + 1))
        fi
    done < <(grep -nE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' "$file" |
        sed -E 's/^([0-9]+):[^"]*"([^"]*)".*/\1:\2/')
    # What a part must not know at all, whatever the header's name.
    forbidden=''
    case $folder/ in
        core/*) forbidden='mpi\.h|cuda|nccl|cudnn|slurm/' ;;
        planner/*) forbidden='mpi\.h|cuda|nccl|cudnn|yaml\.h' ;;
        runner/*) forbidden='yaml\.h|slurm/' ;;
    esac
    found=''
    [ -n "$forbidden" ] &&
        found=$(grep -nE "^[[:space:]]*#[[:space:]]*include[[:space:]]*<($forbidden)" "$file")
    if [ -n "$found" ]; then
        echo "$file:$found: not for '${folder%%/*}'" >&2
        bad=$((bad + 1))
    fi
done < <(find core planner runner -type f \( -name '*.c' -o -name '*.h' -o -name '*.cu' \
    -o -name '*.inc' \) 2>/dev/null | sort)

if [ "$checked" -eq 0 ]; then
    echo "check_includes: no files found" >&2
    exit 2
fi
if [ "$bad" -ne 0 ]; then
    echo "check_includes: $bad wrong includes in $checked files" >&2
    exit 1
fi
echo "check_includes: $checked files, every include goes the allowed way"
