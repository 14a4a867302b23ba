#!/usr/bin/env bash
# Every C file is as clang-format would write it. Fix with: clang-format -i FILE
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2

if ! command -v clang-format >/dev/null 2>&1; then
    echo "SKIP: check_format: clang-format is not installed"
    exit 77
fi
# Releases of clang-format differ in details; the house's is Debian 12's.
version=$(clang-format --version | sed -E 's/.*version ([0-9]+).*/\1/')
if [ "$version" != 14 ]; then
    echo "SKIP: check_format: clang-format $version, the files are formatted with 14"
    exit 77
fi
if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    mapfile -t files < <(git ls-files '*.c' '*.h' '*.inc')
else
    mapfile -t files < <(find core planner runner tests -name '*.[ch]' -o -name '*.inc')
fi
[ ${#files[@]} -gt 0 ] || exit 2
clang-format --dry-run -Werror --style=file "${files[@]}" || exit 1
echo "check_format: ${#files[@]} files"
