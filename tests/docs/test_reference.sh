#!/usr/bin/env bash
# docs/reference says what the programs do: its generated pages are what they print, and what is
# written by hand names every placeholder, option and environment variable.
#
#   tests/docs/test_reference.sh BUILD SCRATCH      from the root of the tree
# Backquotes and dollars in the patterns below are meant.
# shellcheck disable=SC2016
set -uo pipefail
build=$(realpath "$1") && [ -x "$build/plan" ] || exit 2
# shellcheck source=tests/support/scratch.sh
. "$(dirname "$0")/../support/scratch.sh"
scratch=$(scratch_in "$2") || exit 2
reference=docs/reference
bad=0

complain() {
    echo "FAIL: $*"
    bad=$((bad + 1))
}
# same WHAT FILE FILE: both hold the same lines, and some
same() {
    if [ ! -s "$2" ] || ! diff "$2" "$3"; then
        complain "$1: the left is documented, the right is there"
    fi
}
# Words in backquotes that start the rows of a page's tables.
rows() { sed -nE 's/^\| `([^`]+)` \|.*/\1/p' "$1"; }

docs/make_reference.sh "$build" "$scratch/pages" || complain "make_reference.sh failed"
pages=0
for page in "$scratch"/pages/*.md; do
    pages=$((pages + 1))
    diff "$reference/$(basename "$page")" "$page" ||
        complain "$reference/$(basename "$page") is out of date: run docs/make_reference.sh"
done
[ "$pages" -ge 6 ] || complain "only $pages pages were written"
grep -nE '\| +\|$' "$scratch"/pages/{model,accelerator,cluster,run,plan}.md && complain "a key without a meaning"

docs/make_pictures.sh "$build" "$scratch/pictures" || complain "make_pictures.sh failed"
for picture in "$scratch"/pictures/*.svg; do
    cmp -s "docs/pictures/$(basename "$picture")" "$picture" ||
        complain "docs/pictures/$(basename "$picture") is out of date: run docs/make_pictures.sh"
done

# Placeholders: those that emit knows, and all of them can be filled.
sed -nE 's/^ +X\([A-Z_]+, "([a-z_.]+)", .*/{{\1}}/p' planner/emit/script.h planner/scheduler/*/job_script.c | sort >"$scratch/known"
rows $reference/template.md | sort >"$scratch/documented"
same "placeholders" "$scratch/documented" "$scratch/known"
form() { sed -nE "s/^ +X\\([A-Z_]+, \"([a-z_.]+)\", $1,.*/\\1/p" planner/emit/script.h planner/scheduler/*/job_script.c; }
{
    form TEXT | grep -vx plan | sed 's/.*/# {{&}}/'
    form DIRECTIVES | sed 's/.*/{{&}}/'
    form LINES | sed 's/.*/{{&}}/'
    form WORDS | sed 's/.*/echo {{&}} x/'
    echo 'echo {{plan}}'
} >"$scratch/all.sbatch"
[ "$(grep -c '{{' "$scratch/all.sbatch")" -eq "$(wc -l <"$scratch/documented")" ] || complain "a placeholder of no form"
"$build/plan" emit configs/runs/quickstart.yaml --template "$scratch/all.sbatch" -o "$scratch/emitted" \
    --set "directory=$scratch/run" >"$scratch/log" 2>&1 || complain "emit: $(cat "$scratch/log")"
cat templates/* | grep -oE '\{\{[^}]*\}\}' | sort -u | comm -23 - "$scratch/documented" | grep . &&
    complain "a template has placeholders that are not documented"

# Environment variables: every name that is looked up or stands in a list that is. (CAUSAL_LM is a task of PEFT, F8_E4M3 and its
# like are dtypes of safetensors, some others states of Slurm's jobs and nodes and what it sends mail about, SLURM_VERSION a line
# of its controller's, PMIX_MCA_ and SLURM_PMIX_ what a run may set.)
grep -rhoE '"[A-Z][A-Z0-9]*_[A-Z0-9_]+"|\$\{?(SHARDWRIGHT_[A-Z_]+)' planner runner templates --include='*.[ch]' \
    --include='*.sh' --include='*.sbatch' | tr -d '"${' | grep -vE '^F[0-9]_E[0-9]M[0-9]$|^(NODE|BOOT)_FAIL$|^OUT_OF_MEMORY$|^STAGE_OUT$|^SLURM_VERSION$|^(INVALID_REG|NOT_RESPONDING|REBOOT_ISSUED)$|^INVALID_DEPEND$|^CAUSAL_LM$|^TIME_LIMIT(_[0-9]0)?$|^(PMIX_MCA|SLURM_PMIX)_$' |
    sort -u >"$scratch/known"
grep -oE '`[A-Z][A-Z0-9]*_[A-Z0-9_]+`' $reference/commands.md | tr -d '`' | sort -u >"$scratch/documented"
same "environment variables" "$scratch/documented" "$scratch/known"

# Options of the runner, whose help is a text.
options=0
# In a file: grep -q leaves early, and whoever still writes to it is ended.
sed -n '/^## runner/,/^## Environment/p' $reference/commands.md >"$scratch/runner"
while IFS= read -r option; do
    options=$((options + 1))
    grep -qE -- "(^|[ [])$option( |$)" "$scratch/runner" ||
        complain "runner --help does not explain '$option'"
done < <(grep -hoE '"--?[a-z][a-z-]*"' runner/*.c | tr -d '"' | sort -u)
[ $options -ge 5 ] || complain "only $options options of the runner were found"

# What comments in the code cite is there.
cited=0
while IFS=: read -r file line section; do
    cited=$((cited + 1))
    section=${section##*architecture.md, }
    grep -qx "## $section" docs/architecture.md || complain "$file:$line cites '$section'"
done < <(grep -rnoE 'docs/architecture\.md, [A-Z][a-z]+( [a-z]+)*' core planner runner tests \
    --include='*.[ch]' --include='*.inc' --include='*.cu' --include='*.cuh')
[ $cited -gt 0 ] || complain "no comment cites the architecture"
# Another page with a capital name is one that readers do not have.
grep -rnE '(DESIGN|INTERFACE|STYLE)(\.md| section)' core planner runner templates examples configs tests \
    --exclude-dir=bench --exclude="$(basename "$0")" -I && complain "a page is cited that is not here"

[ $bad -eq 0 ] && echo "docs/reference is up to date"
exit $((bad > 0))
