#!/usr/bin/env bash
# The config.json of published models: accepted as they are, with every key, and priced on a
# cluster; no key that changes the arithmetic among those that are only noted.
#
#   tests/unit/test_published_configs.sh PLAN SCRATCH      from the root of the tree
set -uo pipefail
plan=$(realpath "$1") && [ -x "$plan" ] || exit 2
# shellcheck source=tests/support/scratch.sh
. "$(dirname "$0")/../support/scratch.sh"
scratch=$(scratch_in "$2") || exit 2
root=$PWD
bad=0

complain() {
    echo "FAIL: $*"
    bad=$((bad + 1))
}

noted="attention_dropout bos_token_id eos_token_id is_llama_config pad_token_id pretraining_tp
       rope_interleaved torch_dtype transformers_version use_cache use_mrope"
count=0
for config in tests/oracle/published_configs/*.json; do
    name=$(basename "$config" .json)
    count=$((count + 1))
    said=$("$plan" check "$config" 2>"$scratch/notes") || complain "check $name: exit $?"
    [[ "$said" == "$config: ok, a model"*" parameters, "* ]] || complain "check $name said '$said'"
    for key in $(sed -n 's/.*note: ignored keys: //p' "$scratch/notes" | tr -d ,); do
        [[ " ${noted//$'\n'/ } " == *" $key "* ]] || complain "$name: '$key' is only noted"
    done
    cat >"$scratch/$name.yaml" <<YAML
name: $name
model: $root/$config
cluster: $root/configs/clusters/h100-64x8.yaml
sequence_length: 4096
global_batch_size: 1024
mesh_dim: auto
YAML
    "$plan" search "$scratch/$name.yaml" --json >"$scratch/$name.search" 2>"$scratch/errors" ||
        complain "search $name: exit $?: $(cat "$scratch/errors")"
    python3 - "$scratch/$name.search" <<'PYTHON' || complain "search $name"
import json, sys
r = json.load(open(sys.argv[1]))
assert r["feasible"] > 0 and r["chosen"]["step_seconds"] > 0 and r["chosen"]["mfu"] > 0
PYTHON
done
[ "$count" -eq 12 ] || complain "$count configurations, not 12"

# A model for copying is the published one.
for model in llama-3.1-8b llama-3.1-70b llama-3.1-405b llama-3.2-1b mistral-7b-v0.3 qwen2.5-7b \
    qwen3-8b smollm2-1.7b; do
    run="$scratch/$model-copy.yaml"
    sed "s|^model: .*|model: $root/configs/models/$model.yaml|" "$scratch/$model.yaml" >"$run"
    for kind in published copy; do
        from=$([ $kind = copy ] && echo "$run" || echo "$scratch/$model.yaml")
        "$plan" emit "$from" --output "$scratch/$kind" >/dev/null 2>&1 || complain "emit $model"
        sed -n '/^  model:/,/^  cluster:/p' "$scratch/$kind"/*.plan.yaml >"$scratch/$kind.model"
        rm -rf "${scratch:?}/$kind"
    done
    [ -s "$scratch/published.model" ] || complain "no plan of $model"
    cmp "$scratch/published.model" "$scratch/copy.model" || complain "$model.yaml is another model"
done

[ "$bad" -eq 0 ] && echo "published configurations: $count"
exit $((bad > 0))
