#!/usr/bin/env bash
# What `plan explain --sources` says: of the shipped runs, of mistakes, and commands that work.
#
#   tests/unit/test_sources.sh PLAN SCRATCH      from the root of the tree
set -uo pipefail
plan=$(realpath "$1") && [ -x "$plan" ] || exit 2
# shellcheck source=tests/support/scratch.sh
. "$(dirname "$0")/../support/scratch.sh"
scratch=$(scratch_in "$2") || exit 2
run=configs/runs/llama-8b-64.yaml
bad=0

complain() {
    echo "FAIL: $*"
    bad=$((bad + 1))
}
# says TEXT ARGUMENTS...: exit 0, and stdout has the line but for runs of blanks.
says() {
    local text=$1
    shift
    "$plan" explain "$@" >"$scratch/stdout" 2>"$scratch/stderr" || complain "explain $*: exit $?"
    tr -s ' ' <"$scratch/stdout" | grep -qF -- "$text" || complain "explain $*: no '$text' in $(cat "$scratch/stdout")"
}
refuses() {
    "$plan" explain "$run" --sources "$@" >"$scratch/stdout" 2>"$scratch/stderr"
    [ $? -eq 2 ] || complain "explain --sources $*: no exit 2"
    [ ! -s "$scratch/stdout" ] || complain "explain --sources $*: printed $(cat "$scratch/stdout")"
    grep -qxF 'plan: error: --sources goes with none of --program, --html and --rejected; ask for one after the other' \
        "$scratch/stderr" || complain "explain --sources $*: $(cat "$scratch/stderr")"
}

refuses --rejected
refuses --program
refuses --for serve --program decode
refuses --html "$scratch/page.html"

mesh=(--mesh_dim '1,64,1,1' --prefer time)
fitted=configs/profiles/llm-foundry-2023-h100-sxm-80gb.yaml
says ' none: fitted to all rows, step -30 to +30 % default of cuda devices' "$run" --sources "${mesh[@]}"
says 'links.nvlink.collectives 0.00423 to 1 1.10 % -0.011 % 6.5 %, signed -0.8 % configs/curves/nccl-nvlink-h100.yaml:' "$run" --sources "${mesh[@]}"
says ' 9.1 %, signed +3.8 % configs/clusters/h100-8x8.yaml:10' "$run" --sources "${mesh[@]}"
# what was measured beside other steps says nothing of this one's
says 'links.nvlink.latency 2.00 us 0.66 % +0.007 % none: its curve tells nothing of it ' "$run" --sources "${mesh[@]}" \
    --set cluster.links.nvlink.latency='2 us'
says 'largest uncertainty: profile.matmul; its share times its error is ' "$run" --sources "${mesh[@]}"
says ' none: shares are of it configs/accelerators/h100-sxm-80gb.yaml:14' "$run" --sources "${mesh[@]}"
says 'accelerator.memory_bandwidth 3.35 TB/s' "$run" --sources "${mesh[@]}"
says 'accelerator.products 0.159 to 0.916 ' "$run" --sources "${mesh[@]}"
says ' 4.6 %, signed +0.5 % configs/accelerators/h100-sxm-80gb.yaml:' "$run" --sources "${mesh[@]}"
says ' srun --nodes=1 --ntasks-per-node=1 --distribution=block --gpus-per-node=1 runner calibrate --device cuda -o configs/clusters/h100-8x8.profile.yaml' \
    "$run" --sources "${mesh[@]}"
says 'device.contention 0.19 2.59 % +0.026 % none: assumed default of cuda devices' "$run" --sources "${mesh[@]}"
says "2.9 %, signed +0.4 %, step -5 to +5 % $fitted:" "$run" --sources "${mesh[@]}" --set profile=$fitted
says ' plan fit runs.csv configs/clusters/h100-8x8.yaml configs/models/llama-8b.yaml' \
    "$run" --sources "${mesh[@]}" --set profile=$fitted

# A profile that tells no band has none; what kernels do is measured, and only a run tells more.
printf 'name: shardwright\nmatmul: 0.5\n' >"$scratch/mine.yaml"
says " none: its file tells none $scratch/mine.yaml:2" "$run" --sources "${mesh[@]}" --set profile="$scratch/mine.yaml"
# An error of exactly 0 to either side is told like any other, in a plan, too.
printf 'name: shardwright\nmatmul: 0.5\nerror: 0.1\nsigned_error: 0\n' >"$scratch/even.yaml"
says " 10.0 %, signed +0.0 %, step " "$run" --sources "${mesh[@]}" --set profile="$scratch/even.yaml" --set profile.band_low=0.9
"$plan" emit "$run" "${mesh[@]}" --set profile="$scratch/even.yaml" --set directory="$scratch/run" -o "$scratch" >"$scratch/stdout" 2>&1
grep -qx ' *signed_error: 0.0' "$scratch/llama-8b-64.plan.yaml" || complain "emit: $(cat "$scratch/stdout")"
# A peak that its own file tells is what shares are of, like a data sheet's: no run tells more of it.
printf 'name: shardwright\nmatmul: 0.5\nattention: 0.5\npeak: {bf16: 900 TFLOP/s}\nmemory_bandwidth: 3 TB/s\nerror: 0.1\n' >"$scratch/peak.yaml"
says 'profile.peak.bf16 900 TFLOP/s 91.46 % -0.915 % none: shares are of it ' "$run" --sources "${mesh[@]}" --set profile="$scratch/peak.yaml"
says 'largest uncertainty: profile.matmul; ' "$run" --sources "${mesh[@]}" --set profile="$scratch/peak.yaml"
# Ranks that share a machine are measured together, however few cores it has.
says ' mpirun -n 8 --oversubscribe --map-by slot runner calibrate --device cpu -o configs/clusters/laptop.profile.yaml' \
    configs/runs/quickstart.yaml --sources
says ' plan fit llama-8b-64.plan.yaml ' "$run" --sources "${mesh[@]}" --set profile="$scratch/mine.yaml"
says ' plan fit runs.csv configs' "$run" --sources "${mesh[@]}" --set profile=$fitted

# The command that it names takes the measurements of one run.
cat >"$scratch/runs.csv" <<'CSV'
software,gpu,model,n_gpus,seq_len,micro_batch,tok_s_gpu
mine,h100_80gb,llama-8b,64,8192,2,9000
CSV
command=$(sed -n 's/^ *plan fit runs.csv //p' "$scratch/stdout")
# shellcheck disable=SC2086 # two paths without blanks
"$plan" fit "$scratch/runs.csv" $command >"$scratch/fit" 2>&1 ||
    complain "plan fit runs.csv $command: $(cat "$scratch/fit")"

# A model of the command line stands in no file yet.
says ' plan fit runs.csv configs/clusters/h100-8x8.yaml model.yaml' "$run" --sources --mesh_dim 1,64,1,1 --set profile=$fitted \
    --set 'model={vocab_size: 32000, hidden_size: 4096, num_hidden_layers: 8, num_attention_heads: 32, intermediate_size: 11008}'

# What is assumed of tiles and depths where no kernels were measured.
says 'device.half_depth 128 0.78 % +0.008 % none: assumed default of cuda devices' configs/runs/llama-7b-256.yaml --prefer time --sources
says 'device.small_tile 0.65 71.01 % -0.710 % none: assumed default of cuda devices' "$run" --sources --for serve \
    --set serve.max_batch=8 --set cluster="$PWD/configs/clusters/mi300x-8x8.yaml"

# Where the runner has no device only the user's own software measures, in tables that are taken.
tpu=configs/runs/llama-7b-256.yaml
says ' plan fit runs.csv configs/clusters/tpu-v4-256.yaml configs/models/llama-7b.yaml' "$tpu" --sources
says "runs.csv: what your software reached here, as 'plan fit --help' says" "$tpu" --sources
printf 'software,gpu,model,n_gpus,seq_len,micro_batch,tok_s_gpu\nmine,tpu-v4,llama-7b,256,4096,1,1500\n' >"$scratch/runs.csv"
amd=(--for serve --set serve.max_batch=8 --mesh_dim '1,1,8,8' --set cluster="$PWD/configs/clusters/mi300x-8x8.yaml")
says " plan fit collectives.csv $PWD/configs/clusters/mi300x-8x8.yaml" "$run" --sources "${amd[@]}"
says 'the output of nccl-tests and rccl-tests is taken as it is' "$run" --sources "${amd[@]}"
printf 'op,message_bytes,accelerators,latency_us\nall_reduce,65536,8,30\nall_gather,16777216,64,1050\n' >"$scratch/collectives.csv"
# A cluster and a model inside the run are read from there.
sed -e "s|^model:.*|model: {vocab_size: 32000, hidden_size: 4096, num_hidden_layers: 32, num_attention_heads: 32, intermediate_size: 11008}|" \
    -e "s|^cluster:.*|cluster: {name: mine, nodes: 32, accelerators_per_node: 8, accelerator: $PWD/configs/accelerators/mi300x-192gb.yaml, launcher: mpirun, links: [{name: a, spans: all, bandwidth: 50 GB/s, latency: 6 us}]}|" \
    "$tpu" >"$scratch/inside.yaml"
printf 'software,gpu,model,n_gpus,seq_len,micro_batch,tok_s_gpu\nmine,mi300x,inside,256,4096,1,1500\n' >"$scratch/inside.csv"
says " plan fit runs.csv $scratch/inside.yaml" "$scratch/inside.yaml" --sources
for told in 'runs.csv configs/clusters/tpu-v4-256.yaml configs/models/llama-7b.yaml' \
    'collectives.csv configs/clusters/mi300x-8x8.yaml' "inside.csv $scratch/inside.yaml"; do
    # shellcheck disable=SC2086 # paths without blanks
    "$plan" fit "$scratch/"$told >"$scratch/fit" 2>&1 || complain "plan fit $told: $(cat "$scratch/fit")"
    [ -s "$scratch/fit" ] || complain "plan fit $told: nothing"
done

serve=(--for serve --set serve.max_batch=8 --mesh_dim '1,1,8,8')
says ': a token ' "$run" --sources "${serve[@]}"
says 'accelerator.attention.decode 0.000471 to 0.935 ' "$run" --sources "${serve[@]}"
says ' srun --nodes=2 --ntasks-per-node=8 --distribution=block --gpus-per-node=8 runner calibrate --device cuda -o configs/clusters/h100-8x8-measured.profile.yaml --cluster configs/clusters/h100-8x8-measured.yaml' \
    "$run" --sources "${serve[@]}"

# The last one is mostly messages.
for purpose in train serve messages; do
    case $purpose in
    messages) set -- configs/runs/quickstart.yaml --set cluster="$PWD/configs/clusters/tpu-v4-256.yaml" --mesh_dim 8,1,8,4 ;;
    *) set -- "$run" --for $purpose --set serve.max_batch=8 --mesh_dim 1,1,8,8 ;;
    esac
    "$plan" explain "$@" --sources --json >"$scratch/$purpose.json" 2>"$scratch/stderr"
    python3 - "$scratch/$purpose.json" ${purpose/messages/train} <<'PYTHON' || complain "--json --for $purpose"
import json, os, re, sys

with open(sys.argv[1], encoding="utf-8") as f:
    told = json.load(f)
assert told["schema"] == "shardwright.explain.sources/1" and told["for"] == sys.argv[2]
shares = [c["share"] for c in told["constants"]]
assert shares == sorted(shares, reverse=True) and shares[-1] > 0
# times and rates: twice the rates and half of the times are half of the time
whole = sum(c["share"] for c in told["constants"] if c["unit"] in ("s", "FLOP/s", "B/s"))
assert abs(whole - 1) < 0.01, whole
assert told["measure"]["constant"] in [c["name"] for c in told["constants"]]
for c in told["constants"]:
    assert c["share"] == abs(c["elasticity"]) and c["least"] <= c["most"]
    # an error with its sign, or why there is none
    assert ("error" in c and "signed_error" in c) != ("untold" in c), c
    assert "signed_error" not in c or abs(c["signed_error"]) <= c["error"], c
    if c["file"] is None:
        assert c["default"].startswith("default of ")
        continue
    # the line that is named holds the value, or the points that end there
    with open(c["file"], encoding="utf-8") as f:
        line = f.read().split("\n")[c["line"] - 1]
    key = "points" if c["name"].endswith("efficiency") else c["name"].split(".")[-1]
    assert re.search(r"\b%s\b" % key, line) or "bandwidth_per_node" in line, (c, line)
PYTHON
done
[ "$bad" -eq 0 ] && echo "ok" || exit 1
