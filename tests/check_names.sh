#!/usr/bin/env bash
# A name with our prefix means one thing: no two files define a struct, enum or union of it. Tags share one space of
# names in C; two that are never seen together by a compiler still confuse readers, searches and debuggers.
#
# Its words are known ones: each word of an sw_ identifier is a term of docs/glossary.md or stands in
# tests/names.words, so that a thing which has a word gets no second one. Words with a digit are not looked at.
#
#   tests/check_names.sh [DIR]     DIR: the tree to check (default: this one)
set -uo pipefail
export LC_ALL=C
cd "${1:-$(dirname "$0")/..}" || exit 2
in_sources() { grep -rEo "$@" --include='*.[ch]' --include='*.cu' --include='*.cuh' --include='*.inc' --include='*.def' \
    core planner runner; }
defined=$(in_sources -H '^(typedef )?(struct|enum|union) sw_[a-z0-9_]+ \{' | sort)
names=$(in_sources -h '\bsw_[a-z0-9_]+' | sort -u)
if [ -z "$defined" ]; then
    echo "check_names: no definitions found" >&2
    exit 2
fi
twice=$(sed -E 's/.* (sw_[a-z0-9_]+) \{$/\1/' <<<"$defined" | sort | uniq -d)
for name in $twice; do
    grep -E " $name \{\$" <<<"$defined" | sed -E "s/^([^:]*):.*/\1: defines '$name', as another file does/" >&2
done

known=$({ grep -v '^#' tests/names.words; grep -oE '^\| [^|]+' docs/glossary.md; } | tr '[:upper:]' '[:lower:]' | grep -oE '[a-z]+' | sort -u)
new=$(tr _ '\n' <<<"$names" | grep -E '^[a-z]+$' | sort -u | comm -23 - <(echo "$known"))
for word in $new; do
    echo "'$word' in $(grep -E "_$word(_|\$)" <<<"$names" | head -3 | paste -sd ' '): a new word; take one of" \
        "docs/glossary.md, or add it there with its meaning (tests/names.words: words of plain English)" >&2
done
[ -z "$twice$new" ] || exit 1
echo "check_names: $(wc -l <<<"$defined") structs, enums and unions, each name once; $(wc -l <<<"$names") names of known words"
