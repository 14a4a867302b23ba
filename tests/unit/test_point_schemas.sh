#!/usr/bin/env bash
# `plan schema` and `plan check` agree on lists of points: each case is right to both or wrong to
# both. What a schema cannot say (an order, a full grid) is right to it alone, and in no case here.
#
#   tests/unit/test_point_schemas.sh PLAN SCRATCH
set -uo pipefail
plan=$(realpath "$1") && [ -x "$plan" ] || exit 2
# shellcheck source=tests/support/scratch.sh
. "$(dirname "$0")/../support/scratch.sh"
scratch=$(scratch_in "$2") && cd "$scratch" || exit 2
"$plan" schema profile >schema.json || exit 2

cat >cases.json <<'END'
{
    "products": {
        "right": [{}, [[1, 8, 4, 0.1], [1, 8, 16, 0.2], [1, 64, 4, 0.3], [1, 64, 16, 0.4],
                   [9, 8, 4, 0.5], [9, 8, 16, 0.6], [9, 64, 4, 0.7], [9, 64, 16, 1]],
                  {"linear_dw_fp32": [[1, 8, 4, 0.1], [1, 8, 16, 0.2], [1, 64, 4, 0.3], [1, 64, 16, 0.4],
                   [9, 8, 4, 0.5], [9, 8, 16, 0.6], [9, 64, 4, 0.7], [9, 64, 16, 1]]}],
        "wrong": [0.7, [], [[1, 8, 4, 0.1]], {"linear": []}, {"linear_bf16": [[1, 8, 4, 0.1]]},
                  [[0.5, 8, 4, 0.1]], [[1, 0.5, 4, 0.1]], [[1, 8, 0, 0.1]], [[1, 8, 1e30, 0.1]],
                  [[1, 8, 4, 0]], [[1, 8, 4, 1.1]], [[1, 8, 4]], [[1, 8, 4, 0.1, 2]], [["1", 8, 4, 0.1]]]
    },
    "matmul": {
        "right": [1, 0.5, [[1e9, 1]], [[1e6, 0.2], [1e9, 0.8]]],
        "wrong": [0, 1.1, "fast", [[0, 0.5]], [[-1, 0.5]], [[1e6, 0]], [[1e6, 1.5]], [[1e6]], [[1e6, 0.5, 1]]]
    },
    "few_rows": {
        "right": [{"linear_fp32": [[1, 1e8, 12e9], [4, 1e8, 7e9]]}],
        "wrong": [{"linear_fp32": 1}, {"linear_fp32": [[0, 1e8, 1e9]]}, {"linear_fp32": [[1, 0, 1e9]]},
                  {"linear_fp32": [[1, 1e8, 0]]}, {"linear_fp32": [[1e30, 1e8, 1e9]]}, {"linear_fp32": [[1, 1e30, 1e9]]},
                  {"linear_fp32": [[1, 1e8, 1e30]]}, {"linear_fp32": [[1, 1e8]]}, {"linear_fp32": [[1, 1e8, 1, 1]]},
                  {"linear": [[1, 1e8, 1e9]]}]
    }
}
END

python3 - "$plan" <<'END'
import json, subprocess, sys

plan, bad, count = sys.argv[1], 0, 0

KNOWN = {"type", "minItems", "maxItems", "prefixItems", "items", "minimum", "maximum", "exclusiveMinimum",
         "exclusiveMaximum", "anyOf", "allOf", "properties", "additionalProperties", "required", "description", "default",
         "examples", "pattern", "title", "$schema"}


def fits(x, s):
    """Whether x is right to a schema; of JSON Schema what ours use."""
    if s is True or s is False:
        return s
    unknown = set(s) - KNOWN
    assert not unknown, f"a keyword that this test does not know: {unknown}"
    if not all(fits(x, one) for one in s.get("allOf", [])):
        return False
    if "anyOf" in s and not any(fits(x, one) for one in s["anyOf"]):
        return False
    number = isinstance(x, (int, float)) and not isinstance(x, bool)
    kinds = {"array": isinstance(x, list), "object": isinstance(x, dict), "number": number,
             "integer": isinstance(x, int), "string": isinstance(x, str)}
    types = s.get("type", list(kinds))
    if not any(kinds[t] for t in ([types] if isinstance(types, str) else types)):
        return False
    if number and not (s.get("minimum", x) <= x <= s.get("maximum", x) and s.get("exclusiveMinimum", x - 1) < x
                       and x < s.get("exclusiveMaximum", x * 2 + 1 if x >= 0 else 1)):
        return False
    if isinstance(x, list):
        first = s.get("prefixItems", [])
        return (s.get("minItems", 0) <= len(x) <= s.get("maxItems", len(x))
                and all(fits(i, one) for i, one in zip(x, first))
                and all(fits(i, s.get("items", True)) for i in x[len(first):]))
    if isinstance(x, dict):
        return (set(s.get("required", [])) <= set(x)
                and all(fits(v, s.get("properties", {}).get(k, s.get("additionalProperties", True))) for k, v in x.items()))
    return True


schema = json.load(open("schema.json"))
for key, cases in json.load(open("cases.json")).items():
    for verdict in ("right", "wrong"):
        for case in cases[verdict]:
            count += 1
            json.dump({"name": "mine", "runs": 3, key: case}, open("case.profile.json", "w"))
            checked = subprocess.run([plan, "check", "case.profile.json"], capture_output=True, text=True)
            said = {"schema": fits({key: case}, schema), "check": checked.returncode == 0}
            for who, good in said.items():
                if good != (verdict == "right"):
                    bad += 1
                    print(f"FAIL: {key} {case} is {verdict}, and not so to {who}: {checked.stdout}{checked.stderr}")
print(f"{count} cases, {bad} failures")
sys.exit(1 if bad else 0)
END
