#!/usr/bin/env bash
# No test empties a folder that it was told: a slip of the keyboard would name the tree. Those that are told one work in
# a folder of their own inside it (support/scratch.sh, support/scratch.py), and what else stands there stays.
#
#   tests/check_scratch.sh [DIR]     DIR: the tree to check (default: this one)
set -uo pipefail
cd "${1:-$(dirname "$0")/..}" || exit 2
bad=0
checked=0
complain() {
    echo "$1: empties a folder that it is told; let it work in what scratch_in makes (tests/support/scratch.sh)" >&2
    bad=1
}
while IFS= read -r file; do
    checked=$((checked + 1))
    # The arguments, and the variables that are one of them or one's default; a guard before 'rm' on its line is one.
    told='[0-9]'
    # shellcheck disable=SC2016
    while IFS= read -r name; do told+="|$name"; done < <(
        grep -oE '\b[a-z_]+="?\$(\{?[0-9])' "$file" | sed -E 's/=.*//' | sort -u)
    while IFS= read -r line; do complain "$file:$line"; done < <(
        grep -nE "^rm -rf \"?\\$\{?($told)\}?\"?( |\$)" "$file" | cut -d: -f1)
done < <(find tests -name '*.sh' -not -path '*/bench/*' | sort)
while IFS= read -r file; do
    checked=$((checked + 1))
    if grep -q 'rmtree(scratch' "$file" && grep -q 'sys.argv' "$file"; then complain "$file"; fi
done < <(find tests -name '*.py' -not -path '*/support/*' | sort)
[ "$checked" -gt 50 ] || {
    echo "check_scratch: only $checked scripts found" >&2
    exit 2
}

# What scratch_in does, of a folder with something in it: twice, for the second finds the first's.
folder=$(mktemp -d) || exit 3
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/mine" && echo mine >"$folder/mine/file" || exit 3
# shellcheck source=tests/support/scratch.sh
. tests/support/scratch.sh
for _ in 1 2; do
    # shellcheck disable=SC2015
    made=$(scratch_in "$folder/mine") && [ "$made" = "$(realpath "$folder")/mine/check_scratch.scratch" ] &&
        [ -z "$(ls -A "$made")" ] && [ "$(cat "$folder/mine/file")" = mine ] && : >"$made/left" || {
        echo "check_scratch: scratch_in does not make an empty folder beside what is there" >&2
        exit 1
    }
done
[ $bad -eq 0 ] || exit 1
echo "check_scratch: $checked scripts, none empties a folder that it is told"
