#!/usr/bin/env bash
# Each walk of tests/walks/README.md that is a patch applies to this tree and changes no more files, tests
# not counted, than its line `files: N` allows.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2

bad=0
count=0
for patch in tests/walks/*.patch; do
    count=$((count + 1))
    allowed=$(sed -n 's/^files: //p;/^diff /q' "$patch")
    if ! git apply --check "$patch"; then
        echo "$patch does not apply; what it shows changed: write it anew on this tree"
        bad=1
        continue
    fi
    files=$(git apply --numstat "$patch" | awk '{print $3}' | grep -cv '^tests/')
    if [ "$files" -gt "${allowed:-0}" ]; then
        echo "$patch changes $files files, not ${allowed:-0} at most"
        bad=1
    fi
done
[ "$count" -gt 0 ] || exit 2
echo "check_walks: $count patches"
exit "$bad"
