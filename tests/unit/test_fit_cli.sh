#!/bin/bash
# `plan fit` from the command line, and the catalogue: test_fit_cli.sh PLAN
set -eu
plan=$1
published=tests/bench/published
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

fail()
{
    echo "$*" >&2
    exit 1
}

# what it prints is a profile
"$plan" fit $published/data/published_fsdp.csv $published/clusters/foundry-a100-40gb.yaml \
    >"$out/fit.yaml" 2>"$out/errors"
grep -q '^# accelerator a100-sxm-40gb: 35 runs of 8 models' "$out/fit.yaml" || fail "no heading"
grep -q 'leave one model out:  *mean error' "$out/fit.yaml" || fail "no error of left out models"
grep -q 'no cluster was given with that accelerator' "$out/errors" || fail "silent about H100 rows"
"$plan" check "$out/fit.yaml" | grep -q 'ok, a profile' || fail "it is no YAML of ours"

# so are the links
"$plan" fit $published/data/published_collectives.csv configs/clusters/b200-efa-4x8.yaml >"$out/links"
grep -q 'efa: 20 collectives, mean error' "$out/links" || fail "no links"
{
    sed '/^links:/,$d' configs/clusters/b200-efa-4x8.yaml |
        sed "s|\.\./accelerators|$PWD/configs/accelerators|"
    cat "$out/links"
} >"$out/c.yaml"
"$plan" check "$out/c.yaml" | grep -q 'ok, a cluster' || fail "the links are no YAML of ours"

# mistakes
expect()
{
    local code=$1 text=$2
    shift 2
    local status=0
    "$plan" fit "$@" >/dev/null 2>"$out/errors" || status=$?
    [ $status -eq "$code" ] || fail "exit code $status, not $code: $*"
    grep -qF -- "$text" "$out/errors" || fail "not '$text' but '$(cat "$out/errors")'"
}
expect 2 "nothing to fit; as in 'plan fit runs.csv clusters/*.yaml'"
expect 2 "missing.csv: error: cannot read it: No such file or directory" missing.csv
expect 1 "none of the 101 runs could be priced; the reasons stand above" \
    $published/data/published_fsdp.csv
echo '{}' >"$out/metrics.jsonl"
expect 2 "metrics of which run? give its plan file before it" "$out/metrics.jsonl"
expect 2 "takes clusters, models and plans beside measurements" configs/runs/quickstart.yaml

# our own logs: the plan and what `runner train` wrote
"$plan" emit configs/runs/quickstart.yaml -o "$out" >/dev/null
expect 2 "fewer than 3 steps; let it run longer" "$out/quickstart.plan.yaml" "$out/metrics.jsonl"
for step in 1 2 3 4 5; do
    echo "{\"step\":$step,\"loss\":5.0,\"step_seconds\":0.31,\"tokens\":1}"
done >"$out/metrics.jsonl"
"$plan" fit "$out/quickstart.plan.yaml" "$out/metrics.jsonl" | grep -q '1 runs of 1 models' ||
    fail "metrics were not fitted"

# the catalogue
"$plan" check configs/accelerators/*.yaml configs/clusters/*.yaml $published/*/*.yaml >"$out/check" ||
    fail "$(cat "$out/check")"
