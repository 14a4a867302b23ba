#!/usr/bin/env bash
# A name with our prefix means one thing: no two files define a struct, enum or union of it. Tags share one space of
# names in C; two that are never seen together by a compiler still confuse readers, searches and debuggers.
#
#   tests/check_names.sh [DIR]     DIR: the tree to check (default: this one)
set -uo pipefail
cd "${1:-$(dirname "$0")/..}" || exit 2
defined=$(grep -rEoH --include='*.[ch]' --include='*.cu' --include='*.cuh' --include='*.inc' \
    '^(typedef )?(struct|enum|union) sw_[a-z0-9_]+ \{' core planner runner | sort)
if [ -z "$defined" ]; then
    echo "check_names: no definitions found" >&2
    exit 2
fi
twice=$(sed -E 's/.* (sw_[a-z0-9_]+) \{$/\1/' <<<"$defined" | sort | uniq -d)
for name in $twice; do
    grep -E " $name \{\$" <<<"$defined" | sed -E "s/^([^:]*):.*/\1: defines '$name', as another file does/" >&2
done
[ -z "$twice" ] || exit 1
echo "check_names: $(wc -l <<<"$defined") structs, enums and unions, each name once"
