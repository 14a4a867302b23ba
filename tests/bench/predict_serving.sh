#!/usr/bin/env bash
# How well `plan` predicts serving: `runner calibrate`, then the time of a token and the time to the
# first one on eight meshes, predicted and as `runner generate` has them.
#
#   tests/bench/predict_serving.sh [--ranks 8] [--quick] [--repeats 3] [--mesh dp,fsdp,tp,sp]...
#       [--model configs/models/quickstart.yaml] [--build build] [-o FILE]
#
# Every mesh makes 4 texts of 128 tokens behind prompts of 128 in a cache of 256, all slots busy; of
# the repeats the fastest counts. A plan prices a token with full caches, and these grow from half
# full to full: a token is predicted as the mean of the prices with caches of 128 and of 256. Ranks are
# bound to cores: where two share one, the scheduler otherwise leaves three on one core for seconds. Writes a table to FILE (default tests/bench/results/predict_serving.md)
# and prints it. All ranks are on this machine.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2

ranks=8 repeats=3 build=build output=tests/bench/results/predict_serving.md quick=() meshes=()
model=configs/models/quickstart.yaml
while [ $# -gt 0 ]; do
    case $1 in
        --ranks) ranks=${2:-} && shift ;;
        --repeats) repeats=${2:-} && shift ;;
        --model) model=${2:-} && shift ;;
        --build) build=${2:-} && shift ;;
        -o) output=${2:-} && shift ;;
        --mesh) meshes+=("${2:-}") && shift ;;
        --quick) quick=(--quick) ;;
        *)
            sed -n '5,6s/^# *//p' "$0" >&2
            exit 2
            ;;
    esac
    shift
done
build=$(cd "$build" && pwd) || exit 2
export OMP_NUM_THREADS=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=core:overload-allowed
export OMPI_MCA_mpi_yield_when_idle=1
if [ "$(id -u)" -eq 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
[ ${#meshes[@]} -gt 0 ] || case $ranks in
    1) meshes=('1,1,1,1') ;;
    2) meshes=('2,1,1,1' '1,2,1,1' '1,1,2,1' '1,1,1,2') ;;
    4) meshes=('4,1,1,1' '1,4,1,1' '1,1,4,1' '1,1,1,4' '2,1,2,1' '1,2,2,1' '1,2,1,2' '1,1,2,2') ;;
    *) meshes=('4,1,2,1' '1,4,2,1' '1,2,4,1' '1,1,4,2' '1,1,2,4' '1,1,1,8' '1,2,2,2' '2,1,2,2') ;;
esac
slots=4 prompt=128 tokens=128

fail() {
    echo "predict_serving: $*" >&2
    exit 3
}
load=$(cut -d' ' -f1 /proc/loadavg)
work=$(mktemp -d "$build/predict-serving.XXXXXX") || exit 3
trap 'rm -rf "$work"' EXIT

bash examples/make_text.sh || fail "no text to train on"
echo "calibrate: $ranks ranks" >&2
mpirun -q -np "$ranks" "$build/runner" calibrate -o "$work/cluster.profile.yaml" \
    --cluster "$work/cluster.yaml" ${quick[@]+"${quick[@]}"} >"$work/log" 2>&1 ||
    fail "calibrate failed: $(tail -n 3 "$work/log")"
cat >"$work/run.yaml" <<END
name: predict
model: $PWD/$model
cluster: cluster.yaml
sequence_length: 256
global_batch_size: 8
precision: {compute: fp32, params: fp32, reduce: fp32}
optimizer: {type: adamw, learning_rate: 1.0e-3, total_steps: 1000, warmup_steps: 10}
data: {path: $PWD/examples/data/text.txt, format: bytes, seed: 1}
directory: $work/run
serve: {max_batch: $slots, max_tokens: $((prompt + tokens)), chunk: $prompt, prompt_tokens: $prompt}
END
python3 - "$slots" "$prompt" >"$work/prompts.jsonl" <<'END'
import json, sys
for slot in range(int(sys.argv[1])):
    print(json.dumps({"tokens": [(7 * i + slot) % 96 + 32 for i in range(int(sys.argv[2]))]}))
END

: >"$work/rows"
for mesh in "${meshes[@]}"; do
    folder=$work/m-${mesh//,/-}
    if ! "$build/plan" emit "$work/run.yaml" -o "$folder" --mesh_dim "$mesh" >"$work/log" 2>&1; then
        echo "$mesh: not planned: $(tail -n 1 "$work/log")" >&2
        continue
    fi
    [ -d "$work/run/checkpoints" ] ||
        mpirun -q -np "$ranks" "$build/runner" train "$folder/predict.plan.yaml" --steps 1 \
            >"$work/log" 2>&1 </dev/null || fail "training: $(tail -n 3 "$work/log")"
    for cache in $prompt $((prompt + tokens)); do
        "$build/plan" explain "$work/run.yaml" --mesh_dim "$mesh" \
            --set "serve.max_tokens=$cache" --json >"$work/explained.$cache.json" ||
            fail "explain $mesh"
    done
    : >"$work/said"
    for ((i = 0; i < repeats; i++)); do
        mpirun -q -np "$ranks" "$build/runner" generate "$folder/predict.plan.yaml" \
            --checkpoint "$work/run" --prompts "$work/prompts.jsonl" --max-new-tokens "$tokens" \
            -o "$work/out.jsonl" 2>>"$work/said" </dev/null || fail "generate: $(tail -n 3 "$work/said")"
    done
    python3 - "$mesh" "$work/explained.$prompt.json" "$work/explained.$((prompt + tokens)).json" \
        "$work/said" "$slots" "$prompt" >>"$work/rows" <<'END' ||
import json, re, sys
mesh, half, full, said, slots, prompt = *sys.argv[1:5], int(sys.argv[5]), int(sys.argv[6])
plans = [json.load(open(path))["serving"] for path in (half, full)]
rates = re.findall(r"prompt tokens, (\d+) tokens/s; \d+ new tokens, (\d+) tokens/s", open(said).read())
first = min(slots * prompt / float(r[0]) for r in rates)
token = min(slots / float(r[1]) for r in rates)
predicted = sum(plan["token_seconds"] for plan in plans) / 2
print(mesh, predicted, token, plans[1]["first_token_seconds"], first)
END
        fail "no figures of $mesh"
    tail -n 1 "$work/rows" >&2
done

mkdir -p "$(dirname "$output")"
python3 - "$work/rows" >"$work/table" <<'END' || fail "no table"
import statistics, sys
rows = [line.split() for line in open(sys.argv[1])]
print("| mesh dp,fsdp,tp,sp | token predicted ms | measured ms | error | first token predicted ms | measured ms | error |")
print("| --- | --- | --- | --- | --- | --- | --- |")
errors = [[], []]
for mesh, *numbers in rows:
    p, m, fp, fm = map(float, numbers)
    errors[0].append(p / m - 1)
    errors[1].append(fp / fm - 1)
    print(f"| {mesh} | {p * 1e3:.3f} | {m * 1e3:.3f} | {p / m - 1:+.1%} | {fp * 1e3:.2f} | {fm * 1e3:.2f} | {fp / fm - 1:+.1%} |")
print()
print("Median of the absolute errors: " + ", ".join(
    f"{name} {statistics.median(map(abs, e)):.1%}" for name, e in zip(("a token", "the first token"), errors)) + ".")
END
{
    echo "# Predicted and measured times of serving, $ranks ranks on one machine"
    echo
    echo "Command: \`tests/bench/predict_serving.sh --ranks $ranks --repeats $repeats${quick[*]+ ${quick[*]}}" \
        "--model $model\`, $(date -u +%Y-%m-%d), $("$build/runner" --version | head -n 1)," \
        "$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc) cores for all ranks" \
        "($(grep -m 1 'model name' /proc/cpuinfo | sed 's/.*: //')), load $load at the start and" \
        "$(cut -d' ' -f1 /proc/loadavg) at the end. $slots texts of $tokens tokens behind prompts of $prompt; fp32."
    echo
    cat "$work/table"
} >"$output" || fail "cannot write $output"
cat "$output"
