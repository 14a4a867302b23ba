#!/usr/bin/env bash
# Instructions of our kernels and of a search, counted by callgrind, against the counts of tests/bench/instructions.txt.
#
#   tests/bench/instructions.sh [--write] [BUILD]
#
# Prints each with its ratio to what is written there. Exit status 1: one takes over 10 % more, or is not written there;
# 77: these counts are of another compiler or other libraries, or there is no valgrind. --write renews the file.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
write=
[ "${1:-}" != --write ] || { write=1 && shift; }
build=${1:-build}
program=$build/bench/instructions
file=tests/bench/instructions.txt
skip() {
    echo "SKIP: instructions: $*"
    exit 77
}
fail() {
    echo "instructions: $*" >&2
    exit 3
}
command -v valgrind >/dev/null || skip "no valgrind"
[ -x "$program" ] || skip "no program '$program', which gcc builds for Release on x86-64"
[ -x "$build/plan" ] || fail "no program '$build/plan'"
# Words are copied by the same instructions whatever the caches of this machine are.
export OMP_NUM_THREADS=1
export GLIBC_TUNABLES=glibc.cpu.x86_non_temporal_threshold=0xc0000:glibc.cpu.x86_rep_movsb_threshold=0x4000000:glibc.cpu.x86_rep_stosb_threshold=0x4000000
made="$("$program" versions), $(valgrind --version)" || fail "'$program versions' failed"
[ -n "$write" ] || [ "# $made" = "$(head -n 1 "$file")" ] ||
    skip "the counts are of $(head -n 1 "$file" | cut -c 3-), and here is $made"
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT

count() { # FILE COMMAND...: all that is not told otherwise
    local out=$1
    shift
    taskset -c "$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')" valgrind --tool=callgrind --callgrind-out-file="$out" "$@" 2>"$work/log" ||
        fail "$(tail -n 5 "$work/log")"
}
# one file of each call of `counted`, in their order
count "$work/part" --toggle-collect=counted --dump-after=counted "$program" >"$work/names"
number=0
while IFS= read -r name; do
    number=$((number + 1))
    echo "$(sed -n 's/^summary: //p' "$work/part.$number") $name"
done <"$work/names" >"$work/counts"
[ "$number" -gt 0 ] || fail "'$program' ran nothing"
# one thread, that of the only processor
count "$work/search" "$build/plan" search configs/runs/llama-8b-64.yaml --json >"$work/rows"
[ -s "$work/rows" ] || fail "the search found nothing"
echo "$(sed -n 's/^summary: //p' "$work/search") plan search" >>"$work/counts"
grep -qvE '^[1-9][0-9]* ' "$work/counts" && fail "not counted: $(grep -vE '^[1-9][0-9]* ' "$work/counts")"

if [ -n "$write" ]; then
    { echo "# $made" && cat "$work/counts"; } >"$file"
fi
awk -v most=1.10 '
    { name = $0; sub(/^[0-9]+ /, "", name) }
    NR == FNR { if (!/^#/) was[name] = $1; next }
    {
        seen[name] = 1
        verdict = !(name in was) ? "not written yet" : $1 > most * was[name] ? "MORE" : "ok"
        if (verdict != "ok") failed = 1
        printf "%12d %7s  %-28s %s\n", $1, name in was ? sprintf("%.3f", $1 / was[name]) : "", name, verdict
    }
    END {
        for (name in was)
            if (!(name in seen)) { print "gone: " name; failed = 1 }
        if (failed) print "FAIL: more than 10 % more, or not the same list; where that is meant: tests/bench/instructions.sh --write"
        exit failed
    }' "$file" "$work/counts"
