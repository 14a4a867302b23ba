#!/usr/bin/env bash
# Subjects of commits since ecabae84: `area: verb object`, at most 72 characters; figures and reasons stand in the body.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2

first=ecabae84
if ! git cat-file -e "$first^{commit}" 2>/dev/null; then
    echo "SKIP: check_commits: this checkout does not reach back to $first"
    exit 77
fi
count=0 bad=0
while IFS= read -r subject; do
    count=$((count + 1))
    if [ ${#subject} -gt 72 ] || ! [[ $subject =~ ^[a-z0-9][a-z0-9_/.-]*(,\ [a-z0-9_/.-]+)*:\ [^\ ] ]]; then
        echo "check_commits: '$subject' (${#subject} characters) is not 'area: verb object' in 72" >&2
        bad=$((bad + 1))
    fi
done < <(git log --no-merges --format=%s "$first..HEAD")
[ "$bad" -eq 0 ] && echo "check_commits: $count commits"
exit $((bad > 0))
