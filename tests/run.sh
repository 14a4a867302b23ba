#!/usr/bin/env bash
# Compiles every public header alone, strictly.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
passed=0 failed=0
for header in $(git ls-files '*.h'); do
    if gcc -std=c11 -Wall -Wextra -Werror -I. -fsyntax-only -x c "$header"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
