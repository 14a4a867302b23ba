#!/usr/bin/env bash
# What `plan diff` of two eight-rank runs takes: processor seconds, best of five; the limit is 0.1.
#
#   tests/bench/bench_diff.sh [PLAN]
set -euo pipefail
cd "$(dirname "$0")/../.."
plan=${1:-build/plan}
changed=$(mktemp -d)
trap 'rm -rf "$changed"' EXIT
cp -r configs/. "$changed"
sed -i 's/^global_batch_size: .*/global_batch_size: 16/' "$changed/runs/quickstart.yaml"
TIMEFORMAT='%U %S'
for _ in 1 2 3 4 5; do
    { time "$plan" diff configs/runs/quickstart.yaml "$changed/runs/quickstart.yaml" >/dev/null 2>&1; } 2>&1 || true
done | awk '{ spent = $1 + $2; if (NR == 1 || spent < best) best = spent }
    END { printf "plan diff: %.3f s of processor time, limit 0.1 s: %s\n", best, best < 0.1 ? "ok" : "over" }'
