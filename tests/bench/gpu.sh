#!/usr/bin/env bash
# Everything that needs a GPU, on a machine with one NVIDIA GPU and no network.
#
#   tests/bench/gpu.sh [OPTIONS] [PART...]        PARTs in the order given; default: all of them, in
#                                                 this one, which tells most first
#
#   build       the tools, tests and benchmarks, here; or unpacks gpu/pack.sh's archive
#   machine     what the GPU, its driver and its host are; that everything finds its libraries; the
#               rate of a copy and of a large product
#   check       every op against the CPU device and in f64, cuDNN's attention against the own kernels,
#               marks of the GPU's clock, losses of 20 steps against the CPU device in fp32 and bf16
#   bench       a 1B model, traced, and an 8B-shaped one: step, utilisation, memory, launch gaps
#   ops         1B model: every kind of op, measured against planned
#   serving     its ops and texts against the CPU device; attention over a cache beside a copy
#   served      a 1B model behind HTTP: time to the first token and of a token, one text and 32,
#               prompts of 512 and 4,096 tokens, greedy and top-p, beside planned; of 512 also with
#               weights in int8 and e4m3
#   attention   causal attention, 8k and 16k tokens, against cuDNN called alone
#   torch       the 1B model in PyTorch, where it is installed
#   calibrate   predicted against measured steps of three models, calibrated
#   nccl        NCCL with one rank: recordings, what they refuse, registration, memory
#   seeds       check's ops with other random numbers, every fifth mesh, bad accesses of every op
#   sanitize    compute-sanitizer: races; bad accesses of attention
#   meshes      1, 2, 4, 8 ranks sharing the GPU: 35 meshes in one process; under mpirun
#   more        the other models, there, served and in PyTorch; micro-batches; attention of 64k tokens; what
#               holds four kernels back
#
# A part that fails or takes too long does not stop the next. gpu-report.md is the page of all parts,
# logs/ has the whole output of what failed.
#
#   --build DIR      default build-gpu
#   --pack FILE      an archive of gpu/pack.sh, default DIR/pack.tar.xz
#   --results DIR    default tests/bench/results, with $OUT DIR/gpu-results of --build; each part
#                    writes gpu-PART.md there. All of it is one file, too, $OUT/gpu-results.tar.gz,
#                    where there is an $OUT: such places take few files
#   --limit SECONDS  of each part, at most; each has one of its own besides
#   --total SECONDS  of all parts; what finds no time is left out. Default 560; 0: as long as it takes
#   --steps N        of each benchmark run, default 12
#
# Exit code: 0 all agree, 1 something differs, failed or ran out of time, 2 bad usage, 77 no GPU.
#
# Parts are called by name.
# shellcheck disable=SC2317
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
root=$PWD
script=$root/tests/bench/gpu.sh
all_parts=(build machine check bench ops serving served attention torch calibrate nccl seeds sanitize meshes more)

# Seconds that a part may take when all of them share --total.
share_of() {
    case $1 in
        build) if [ -f "$pack" ]; then echo 60; else echo 520; fi ;;
        machine | nccl) echo 40 ;;
        ops | serving | attention) echo 60 ;;
        check | bench | torch | calibrate | seeds) echo 120 ;;
        served) echo 180 ;;
        *) echo 300 ;;
    esac
}

peak=989e12 # dense bf16 FLOP/s of an H100 or H200 by its data sheet

usage() {
    sed -n '4,41s/^# \{0,1\}//p' "$script" >&2
    exit 2
}

came_with=${LD_LIBRARY_PATH:-} # what is not ours runs with
build=build-gpu pack='' results='' archive=${OUT:+$OUT/gpu-results.tar.gz} limit=520 total=560 steps=12 inside='' parts=()
while [ $# -gt 0 ]; do
    case $1 in
        --build | --pack | --results | --limit | --total | --steps | --inside)
            [ $# -ge 2 ] || usage
            declare "${1#--}=$2"
            shift
            ;;
        *)
            case " ${all_parts[*]} " in
                *" $1 "*) parts+=("$1") ;;
                *) echo "gpu.sh: unknown part or option '$1'" >&2 && usage ;;
            esac
            ;;
    esac
    shift
done
for number in "$limit" "$total" "$steps"; do
    case $number in '' | *[!0-9]*) usage ;; esac
done
[ "$steps" -ge 6 ] || { echo "gpu.sh: --steps must be at least 6" >&2 && exit 2; }
[ ${#parts[@]} -gt 0 ] || parts=("${all_parts[@]}")
[ -n "$results" ] || { if [ -n "$archive" ]; then results=$build/gpu-results; else results=tests/bench/results; fi; }
mkdir -p "$build" "$results" || exit 2
build=$(cd "$build" && pwd) && results=$(cd "$results" && pwd) || exit 2
[ -n "$pack" ] || pack=$build/pack.tar.xz
state=$build/gpu-state # what one part leaves for another
# Every run saves at its end, 15 GB of a 1B model: in memory, where it has room for two, for disks
# that are lent take minutes for that, and not many of them. Only the newest is kept.
saves=/dev/shm/gpu-saves-$(printf %s "$build" | cksum | cut -d' ' -f1)
[ "$(df --output=avail -k /dev/shm 2>/dev/null | tail -1)" -ge 40000000 ] 2>/dev/null ||
    saves=$build/gpu-saves
report=(python3 "$root/tests/bench/gpu/report.py")

have_gpu() {
    command -v nvidia-smi >/dev/null 2>&1 && nvidia-smi -L 2>/dev/null | grep -q GPU
}

# ---- Running things ----

failed=0

# Seconds for something that may take $1, so that it ends before its part is ended: a part's end does
# not reach what runs under a `timeout` of its own, which would then run beside the next part.
time_for() {
    local left=$((limit - SECONDS - 15))
    if [ "$1" -lt "$left" ]; then echo "$1"; else echo "$left"; fi
}

# attempt NAME SECONDS COMMAND...: one line of outcome; the end of the output when it failed
attempt() {
    local name=$1 most log begun=$SECONDS code
    most=$(time_for "$2")
    shift 2
    if [ "$most" -lt 1 ]; then
        echo "- FAIL: $name: no time left"
        failed=1
        return 124
    fi
    log=$(mktemp)
    timeout --kill-after=10 "$most" "$@" >"$log" 2>&1
    code=$?
    if [ "$code" -eq 77 ] && grep -q 'SKIP: no GPU' "$log"; then code=1; fi # there is one
    case $code in
        0) echo "- ok: $name ($((SECONDS - begun)) s)" ;;
        77) echo "- left out: $name: $(grep -m1 SKIP "$log")" ;;
        124 | 137) echo "- FAIL: $name: not done after $most s" ;;
        *) echo "- FAIL: $name (exit code $code)" ;;
    esac
    [ "$code" -ne 0 ] || grep -E '^(attention: |note: |rank 0|test_cuda_meshes: )' "$log" | sort -u |
        sed 's/^/    /'
    if [ "$code" -ne 0 ] && [ "$code" -ne 77 ]; then
        tail -25 "$log" | sed 's/^/      /'
        mkdir -p "$results/logs"
        cp "$log" "$results/logs/$inside-$(printf '%s' "$name" | tr -c 'A-Za-z0-9.\n' '-').log"
        failed=1
    fi
    rm -f "$log"
    return "$code"
}

# tables WHAT SECONDS PROGRAM ARGUMENTS...: a benchmark, and what it printed
tables() {
    local what=$1 most=$2 program=$bin/bench/$3 page=$work/$3.md
    shift 3
    if [ ! -x "$program" ]; then
        echo "- left out: ${program##*/} is not in this build"
        return
    fi
    attempt "$what" "$most" sh -c "'$program' $* >'$page'
        code=\$?
        [ \$code -eq 0 ] || cat '$page'
        exit \$code"
    echo
    [ ! -s "$page" ] || cat "$page"
    echo
}

# The folder where `plan` and `runner` are, with what they need to start.
use_build() {
    local library folder
    bin=$build
    [ -x "$build/runner" ] || bin=$build/pack
    if [ ! -x "$bin/runner" ]; then
        echo "- FAIL: nothing is built in $build: run 'tests/bench/gpu.sh build' first"
        failed=1
        return 1
    fi
    if [ -d "$bin/openmpi" ]; then
        export OPAL_PREFIX=$bin/openmpi OPAL_PKGDATADIR=$bin/openmpi/share
        export OPAL_BINDIR=$bin/openmpi/bin PATH=$bin/openmpi/bin:$PATH
        export OMPI_MCA_mca_base_component_path=$bin/openmpi/plugins
        export PMIX_MCA_mca_base_component_path=$bin/openmpi/pmix
        export OMPI_MCA_plm=isolated # else it wants ssh, for one machine too
        export OMPI_MCA_btl=self,vader OMPI_MCA_btl_vader_single_copy_mechanism=none
    fi
    LD_LIBRARY_PATH=$bin/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    # CUDA's libraries, from the toolkit or from Python packages
    for library in libcudart.so.13 libcublasLt.so.13 libcudnn.so.9 libnvrtc.so.13 libnccl.so.2 \
        libcupti.so.13; do
        folder=$(cuda_folder "$library") && case :$LD_LIBRARY_PATH: in
            *":$folder:"*) ;;
            *) LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$folder ;;
        esac
    done
    export LD_LIBRARY_PATH OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export OMPI_MCA_rmaps_base_oversubscribe=1
    if ! "$bin/runner" --version >/dev/null; then
        echo "- FAIL: $bin/runner does not start:"
        "$bin/runner" --version 2>&1 | sed 's/^/      /'
        ldd "$bin/runner" | grep 'not found' | sed 's/^/      /'
        failed=1
        return 1
    fi
    if "$bin/runner" --version | grep 'CUDA: none'; then # says which library, which package
        echo "- FAIL: $bin/runner does not load the CUDA device"
        failed=1
        [ "$inside" = machine ] || return 1 # what else there is
    fi
}

# Prints the folder of a library that the loader does not find by itself.
cuda_folder() {
    local found
    if ldconfig -p 2>/dev/null | grep -q "$1 "; then return 1; fi
    found=$(find /usr/local/cuda*/ -name "$1" -not -path '*/stubs/*' 2>/dev/null | head -1)
    [ -n "$found" ] || found=$(python3 -c 'import nvidia; print("\n".join(nvidia.__path__))' \
        2>/dev/null | while read -r folder; do find "$folder" -name "$1"; done | head -1)
    [ -n "$found" ] && dirname "$found"
}

# ---- Runs ----

# model NAME: its size as variables; vocabularies are those of Llama 3, and a small one where the
# layers are the point
model() {
    tied=false heads=32 kv_heads=8
    case $1 in
        1b-d128) hidden=2048 intermediate=8192 layers=16 heads=16 head_dim=128 vocab=128256 tied=true ;;
        1b-d64) hidden=2048 intermediate=8192 layers=16 head_dim=64 vocab=128256 tied=true ;;
        8b-layers) hidden=4096 intermediate=14336 layers=4 head_dim=128 vocab=32768 ;;
        small) hidden=256 intermediate=768 layers=3 heads=8 kv_heads=4 head_dim=64 vocab=512 ;;
    esac
}
models=(1b-d128 8b-layers 1b-d64)

# emit NAME MODEL DEVICE COMPUTE SEQUENCE BATCH MESH STEPS [KEY: VALUE]: a plan in $work; where the
# accelerator is no file, the data sheet's figures; with those of $profile, or the default
emit() {
    local name=$1 ranks memory
    model "$2"
    ranks=$((${7//,/*}))
    memory=$(nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits 2>/dev/null | head -1)
    [ -s "$work/tokens-$vocab.bin" ] || "${report[@]}" tokens "$work/tokens-$vocab.bin" "$vocab" \
        $((2 * 1024 * 1024)) || return 1
    cat >"$work/$name.yaml" <<YAML
name: $name
model: {vocab_size: $vocab, hidden_size: $hidden, intermediate_size: $intermediate,
        num_hidden_layers: $layers, num_attention_heads: $heads, num_key_value_heads: $kv_heads,
        head_dim: $head_dim, rope_theta: 500000.0, tie_word_embeddings: $tied}
cluster:
  name: here
  nodes: 1
  accelerators_per_node: $ranks
  accelerator: ${accelerator:-{name: here, device: $3, memory: ${memory:-8192} MiB, reserved_memory: 5 GB, peak: {bf16: 989 TFLOP/s, fp32: 67 TFLOP/s\}, memory_bandwidth: 4.8 TB/s, compute_units: 132\}}
  profile: ${profile:-auto}
  links: [{name: shared, spans: $ranks, bandwidth: 10 GB/s, latency: 20 us}]
  launcher: mpirun
sequence_length: $5
global_batch_size: $6
mesh_dim: '$7'
precision: {compute: $4, params: fp32, reduce: fp32}
optimizer: {type: adamw, learning_rate: 1.0e-3, warmup_steps: 5, total_steps: $8}
data: {path: $work/tokens-$vocab.bin, seed: 1}
directory: $work/$name
checkpoint: {directory: $saves/$name}
${9:-}
YAML
    rm -rf "${work:?}/$name" "${saves:?}"
    "$bin/plan" emit "$work/$name.yaml" -o "$work" >"$work/$name.emit" 2>&1 ||
        { echo "- FAIL: plan emit of $name" && sed 's/^/      /' "$work/$name.emit" && failed=1 && return 1; }
}

# The largest memory that the driver shows in use until stop_watching goes to FILE, in MiB: one
# process of the driver's, since starting one takes locks that a step waits for.
start_watching() { # FILE
    nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits --loop-ms=500 >"$1.all" \
        2>/dev/null &
    watcher=$! watched=$1
}

stop_watching() {
    kill "$watcher" 2>/dev/null
    wait "$watcher" 2>/dev/null
    sort -n "$watched.all" | tail -1 >"$watched"
}

# ---- Parts ----

# shellcheck source=tests/bench/gpu/part_served.sh
. "$root/tests/bench/gpu/part_served.sh"
# shellcheck source=tests/bench/gpu/part_torch.sh
. "$root/tests/bench/gpu/part_torch.sh"

part_build() {
    local architecture cudnn
    if [ -f "$pack" ]; then
        if command -v xz >/dev/null 2>&1 || [ "${pack%.xz}" = "$pack" ]; then
            attempt "unpack $(basename "$pack")" 60 tar -C "$build" -xf "$pack" || return
        else
            attempt "unpack $(basename "$pack") by Python" 60 python3 -c 'import sys, tarfile
with tarfile.open(sys.argv[1]) as pack:
    if hasattr(tarfile, "fully_trusted_filter"):
        pack.extraction_filter = tarfile.fully_trusted_filter
    pack.extractall(sys.argv[2])' "$pack" "$build" || return
        fi
    else
        architecture=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -1 |
            tr -d '. ')
        cudnn=$(python3 -c 'import nvidia.cudnn as c; print(list(c.__path__)[0])' 2>/dev/null)
        attempt configure 120 env ${cudnn:+CUDNN_PATH="$cudnn"} cmake -S . -B "$build" -DSW_CUDA=ON \
            -DSW_CUDA_ARCHITECTURES="${architecture:-90}" || return
        attempt compile "$limit" cmake --build "$build" -j "$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)" || return
    fi
    use_build || return
    "$bin/runner" --version | sed 's/^/    /'
}

part_machine() {
    local tool
    nvidia-smi --query-gpu=name,driver_version,memory.total,power.limit,clocks.max.sm,clocks.max.mem \
        --format=csv,noheader 2>&1 | sed 's/^/    /'
    grep -E '^(MemTotal|MemAvailable)' /proc/meminfo | sed 's/^/    /'
    for tool in runner runner-cuda.so tests/test_cuda_ops bench/bench_attention; do
        [ -e "$bin/$tool" ] || continue
        if ldd "$bin/$tool" | grep 'not found'; then
            echo "- FAIL: $tool does not find these libraries"
            failed=1
        else
            echo "- ok: $tool finds its libraries"
        fi
    done
    if command -v mpirun >/dev/null 2>&1; then
        attempt "mpirun starts two runners" 30 mpirun -np 2 "$bin/runner" --version
    fi
    "$bin/runner" --version | sed 's/^/    /'
    tables "what the GPU reaches at its best" 30 ceilings
}

# cuDNN compiles a kernel for every shape, most of a second each: few rounds of them
check_seed() { # SEED
    attempt "ops against the CPU device, seed $1" 120 "$bin/tests/test_cuda_ops" 6 "$1"
    attempt "cuDNN's attention against f64 and the own kernels, seed $1" 120 \
        "$bin/tests/test_cudnn_attention" 2 "$1"
}

part_check() {
    local device compute
    check_seed 1
    attempt "attention's masks against f64" 60 "$bin/tests/test_cuda_masks" 4
    attempt "marks of the GPU's clock; what they find" 60 "$bin/tests/test_cuda_calibrate"
    for compute in fp32 bf16; do
        for device in cpu cuda; do
            emit "check-$compute-$device" small "$device" "$compute" 256 8 1,1,1,1 20 &&
                attempt "20 steps in $compute on $device" 200 "$bin/runner" train \
                    "$work/check-$compute-$device.plan.yaml"
        done
        # fp32: issue 4. bf16: activations have 8 bits; means of 2048 tokens near log 512
        attempt "their losses in $compute agree" 20 "${report[@]}" losses \
            "$work/check-$compute-cuda/metrics.jsonl" "$work/check-$compute-cpu/metrics.jsonl" \
            "$([ "$compute" = fp32 ] && echo 1e-4 || echo 5e-3)"
    done
    emit check-own small cuda bf16 256 8 1,1,1,1 20 &&
        attempt "20 steps in bf16, SW_CUDA_ATTENTION=own" 200 env SW_CUDA_ATTENTION=own \
            "$bin/runner" train "$work/check-own.plan.yaml"
    attempt "their losses agree with cuDNN's" 20 "${report[@]}" losses \
        "$work/check-own/metrics.jsonl" "$work/check-bf16-cuda/metrics.jsonl" 5e-3
}

sanitizer() { # NAME SECONDS TOOL COMMAND...
    local name=$1 most=$2 tool=$3 program
    shift 3
    program=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
    if [ -z "$program" ]; then
        echo "- left out: $name: compute-sanitizer is not installed"
        return
    fi
    # calls that fail are the tests' own business: one asks for more memory than there is. Shared
    # memory only in kernels of ours, all named so: racecheck does not follow the libraries' barriers
    [ "$tool" != racecheck ] || set -- --kernel-regex kns=_kernel "$@"
    attempt "$name" "$most" "$program" --tool "$tool" --report-api-errors no --error-exitcode 1 "$@"
}

part_seeds() {
    local seed
    for seed in 2 3; do check_seed "$seed"; done
    attempt "5 steps, every fifth mesh, ranks as threads sharing the GPU" $((limit * 4 / 10)) \
        "$bin/tests/test_cuda_meshes" 5 5
    sanitizer "memcheck: every op" $((limit * 4 / 10)) memcheck "$bin/tests/test_cuda_ops" 1
}

part_sanitize() {
    sanitizer "racecheck: every op" $((limit * 4 / 10)) racecheck "$bin/tests/test_cuda_ops" 1
    sanitizer "racecheck: attention over a cache" $((limit * 2 / 10)) racecheck \
        "$bin/tests/test_cuda_cached" 1
    sanitizer "racecheck: serving" $((limit * 1 / 10)) racecheck "$bin/tests/test_cuda_serving" 1
    sanitizer "memcheck: attention, cuDNN's kernels too" $((limit * 3 / 10)) memcheck \
        "$bin/tests/test_cudnn_attention" 1
}

part_meshes() {
    local mesh ranks compute name
    attempt "20 steps, 35 meshes, 4 variants, fp32 and bf16, ranks as threads sharing the GPU" \
        $((limit * 6 / 10)) "$bin/tests/test_cuda_meshes" 20
    if ! command -v mpirun >/dev/null 2>&1; then
        echo "- left out: ranks as processes: no mpirun"
        return
    fi
    # heads of 64: bf16's attention is cuDNN's, cut into pieces over the ring
    for compute in fp32 bf16; do
        emit "mesh-$compute-one" small cuda "$compute" 256 8 1,1,1,1 10 || continue
        attempt "one rank, $compute" 60 "$bin/runner" train "$work/mesh-$compute-one.plan.yaml" ||
            continue
        for mesh in 1,2,1,1 1,1,1,2 1,1,2,2 1,1,1,4 1,2,2,2 2,1,1,4; do
            ranks=$((${mesh//,/*}))
            name=mesh-$compute-${mesh//,/.}
            emit "$name" small cuda "$compute" 256 8 "$mesh" 10 &&
                attempt "mpirun -np $ranks, staged, mesh $mesh, $compute" 60 \
                    env SW_COLLECTIVES=staged mpirun -np "$ranks" "$bin/runner" train \
                    "$work/$name.plan.yaml" &&
                attempt "its losses are those of one rank" 20 "${report[@]}" losses \
                    "$work/$name/metrics.jsonl" "$work/mesh-$compute-one/metrics.jsonl" \
                    "$([ "$compute" = fp32 ] && echo 1e-4 || echo 5e-3)"
        done
    done
}

# bench_run MODEL: a run of it in $state, unless an earlier part left one
bench_run() {
    local name=$1 code
    [ -s "$state/$name.metrics.jsonl" ] && return 0
    emit "$name" "$name" cuda bf16 8192 4 1,1,1,1 "$steps" || return 1
    start_watching "$work/$name.mib"
    attempt "$name, $steps steps of 4 x 8192 tokens" 150 "$root/tests/bench/gpu/only_cudnn.sh" \
        "$bin/runner" train "$work/$name.plan.yaml"
    code=$?
    stop_watching
    [ "$code" -eq 0 ] || return 1
    sed -n '/^decision:/,/^prediction:/s/^  \(micro_batch_size\|accumulation_steps\|recompute\): /    \1 /p' \
        "$work/$name.plan.yaml"
    cp "$work/$name/metrics.jsonl" "$state/$name.metrics.jsonl"
    cp "$work/$name.plan.yaml" "$state/$name.plan.yaml"
    cp "$work/$name.mib" "$state/$name.mib"
}

# bench_table MODEL...: of those that ran
bench_table() {
    local name
    echo
    echo "bf16, f32 weights and optimizer state, batch 4 x 8192; utilisation of 989 TFLOP/s without"
    echo "recomputation, causal pairs only; predicted with the data sheet's figures; memory in MiB."
    echo
    echo "| model | step, ms | tokens/s | utilisation | predicted, ms | error | planned | in use | error |"
    echo "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    for name in "$@"; do
        [ -s "$state/$name.mib" ] && "${report[@]}" row "$state/$name.metrics.jsonl" \
            "$(cat "$state/$name.mib")"
    done
    echo
}

# trace_run MODEL: its kernels in four steps and the gaps between them, after its bench_run
trace_run() {
    local name=$1 seconds
    [ -s "$state/$name.metrics.jsonl" ] || return
    if [ ! -f "$bin/bench/kernel_times.so" ]; then
        echo "- left out: launch gaps: no CUPTI in this build"
        return
    fi
    seconds=$("${report[@]}" step "$state/$name.metrics.jsonl" | awk '{ print 4 * $1 }')
    emit "$name-traced" "$name" cuda bf16 8192 4 1,1,1,1 "$steps" || return
    attempt "$name, traced" 120 env SW_KERNEL_WINDOW="$seconds" \
        SW_KERNEL_REPORT="$work/$name.kernels" \
        CUDA_INJECTION64_PATH="$bin/bench/kernel_times.so" \
        "$bin/runner" train "$work/$name-traced.plan.yaml" || return
    if ! grep -q '^window_s' "$work/$name.kernels" 2>/dev/null; then
        echo "- FAIL: launch gaps of $name: CUPTI saw nothing"
        failed=1
        return
    fi
    echo
    echo "Launch gaps of $name, four steps: $("${report[@]}" gap "$state/$name.metrics.jsonl" \
        "$work/$name-traced/metrics.jsonl" "$work/$name.kernels" 4)"
    echo
    tail -n +3 "$work/$name.kernels"
    echo
}

part_bench() {
    rm -f "$state"/*.metrics.jsonl
    bench_run 1b-d128
    trace_run 1b-d128
    bench_run 8b-layers
    bench_table 1b-d128 8b-layers
}

part_ops() {
    local name=1b-d128 code
    emit "$name-ops" "$name" cuda bf16 8192 4 1,1,1,1 "$steps" || return
    attempt "every op of $name, measured" 150 sh -c \
        "'$bin/bench/op_times' '$work/$name-ops.plan.yaml' 6 >'$work/ops.md'"
    code=$?
    [ "$code" -eq 0 ] || return
    echo
    echo "One step of $name, median of 6; planned with the data sheet's figures:"
    echo
    cat "$work/ops.md"
    grep -q '^attention: cuDNN' "$work/ops.md" || {
        echo "- FAIL: attention is not cuDNN's: $(head -1 "$work/ops.md")"
        failed=1
    }
}

part_nccl() {
    tables "NCCL with one rank" 60 nccl_one
}

part_serving() {
    attempt "tensor cores lay matrices out as documented" 20 "$bin/tests/test_cuda_mma"
    attempt "attention over a cache against the CPU device" 60 "$bin/tests/test_cuda_cached" 2
    attempt "weights in int8 and e4m3 against the CPU device" 30 "$bin/tests/test_cuda_quantized" 2
    attempt "ops of serving against the CPU device" 60 "$bin/tests/test_cuda_serving" 2
    attempt "texts of every fifth mesh, ranks as threads sharing the GPU" 60 \
        "$bin/tests/test_cuda_texts" 5
    tables "attention over a cache" 60 bench_cache
}

part_attention() {
    tables "heads of 128" $((limit / 2)) bench_attention 32 8 128 16384
    tables "heads of 64" $((limit / 2)) bench_attention 32 8 64 8192
}

# micro_runs MODEL: its step by the size of its micro-batches
micro_runs() {
    local name=$1 micro
    echo
    echo "| $name, micro-batch | step, ms |"
    echo "| --- | --- |"
    for micro in 1 2 4; do
        emit "$name-micro-$micro" "$name" cuda bf16 8192 4 1,1,1,1 "$steps" \
            "micro_batch_size: $micro" || continue
        timeout --kill-after=10 "$(time_for 60)" "$bin/runner" train \
            "$work/$name-micro-$micro.plan.yaml" >"$work/$name-micro-$micro.log" 2>&1
        "${report[@]}" step "$work/$name-micro-$micro/metrics.jsonl" |
            awk -v micro="$micro" '{ printf "| %d | %.1f |\n", micro, 1e3 * $1 }'
    done
    echo
}

# What holds back the kernels that move most, by Nsight Compute's own words.
kernel_reasons() {
    local kernel
    if ! command -v ncu >/dev/null 2>&1; then
        echo "- left out: what holds kernels back: ncu is not installed"
        return
    fi
    for kernel in swiglu_grad logits_loss rmsnorm_dx embedding_grad; do
        emit 1b-d128-ncu 1b-d128 cuda bf16 8192 4 1,1,1,1 6 || continue
        attempt "ncu of $kernel" 60 sh -c "ncu --kernel-name-base function \
            --kernel-name regex:${kernel}_kernel --launch-count 1 --section SpeedOfLight \
            --section WarpStateStats '$bin/runner' train '$work/1b-d128-ncu.plan.yaml' \
            >'$work/$kernel.ncu'" || continue
        echo
        grep -E 'Throughput|Duration|Stall' "$work/$kernel.ncu" | sed 's/^/    /'
    done
}

part_more() {
    bench_run 1b-d64
    bench_table 1b-d64
    served_runs 8b-layers
    torch_runs 8b-layers 1b-d64
    micro_runs 1b-d128
    tables "long sequences" 120 bench_attention 32 8 128 65536
    kernel_reasons
}

# Predictions of a model's run with a profile, on the accelerator's data sheet; prints seconds.
predicted_with() { # MODEL FILE
    local profile=$2 accelerator=$PWD/configs/accelerators/h200-sxm-141gb.yaml
    emit "$1-predicted" "$1" cuda bf16 8192 4 1,1,1,1 "$steps" >&2 || return 1
    awk '/^ *step_seconds:/ { print $2; exit }' "$work/$1-predicted.plan.yaml"
}

part_calibrate() {
    local name other calibrated='' fitted values
    local -a others
    for name in "${models[@]}"; do bench_run "$name"; done
    attempt "runner calibrate --device cuda" 150 "$bin/runner" calibrate --device cuda \
        -o "$work/here.yaml" && calibrated=$work/here.yaml
    if [ -n "$calibrated" ]; then
        echo
        sed 's/^/    /' "$calibrated"
    fi
    echo
    echo "Predicted steps: with the data sheet's figures; with 'plan fit' of the other models' runs;"
    echo "after 'runner calibrate --device cuda'."
    echo
    echo "| model | measured, ms | data sheet | fitted to the others |${calibrated:+ calibrated |}"
    echo "| --- | --- | --- | --- |${calibrated:+ --- |}"
    for name in "${models[@]}"; do
        [ -s "$state/$name.metrics.jsonl" ] || continue
        others=()
        for other in "${models[@]}"; do
            [ "$other" != "$name" ] && [ -s "$state/$other.metrics.jsonl" ] &&
                others+=("$state/$other.plan.yaml" "$state/$other.metrics.jsonl")
        done
        values=("$("${report[@]}" step "$state/$name.metrics.jsonl" | cut -d' ' -f3)")
        fitted=$work/$name.fitted.yaml
        if "$bin/plan" fit "${others[@]}" >"$fitted" 2>"$work/fit.errors"; then
            values+=("$(predicted_with "$name" "$fitted")")
        else
            values+=(nan)
        fi
        [ -z "$calibrated" ] || values+=("$(predicted_with "$name" "$calibrated")")
        "${report[@]}" errors "$name" "$state/$name.metrics.jsonl" "${values[@]}"
    done
}

# ---- One part, in a process of its own ----

if [ -n "$inside" ]; then
    work=$build/gpu-work/$inside
    rm -rf "$work" "${saves:?}"
    trap 'rm -rf "${saves:?}"' EXIT
    mkdir -p "$work" "$state"
    [ "$inside" = build ] || use_build || exit 1
    "part_$inside"
    exit "$failed"
fi

status=0
if ! have_gpu; then
    if [ "${parts[*]}" != build ]; then
        echo "SKIP: no GPU"
        exit 77
    fi
fi
# One page: how each part ended, what failed, and the tables.
write_report() {
    local part
    {
        echo "# gpu.sh, $(date -u +%Y-%m-%d)"
        echo
        nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null
        echo
        for part in "${done_parts[@]}"; do echo "- $(tail -1 "$results/gpu-$part.md")"; done
        echo
        for part in "${done_parts[@]}"; do
            grep '^- FAIL' "$results/gpu-$part.md" | sed "s/^- FAIL/- FAIL in $part/"
        done
        for part in "${done_parts[@]}"; do
            if grep -q '^|' "$results/gpu-$part.md"; then
                printf '\n## %s\n\n' "$part"
                grep -E '^(\||Launch gaps)' "$results/gpu-$part.md"
            fi
        done
        if [ -d "$results/logs" ]; then printf '\nWhole output of what failed: logs/\n'; fi
    } >"$results/gpu-report.md"
    # after each part: whoever ends us has what there is
    [ -z "$archive" ] || tar -C "$results" -czf "$archive" .
}

done_parts=()
rm -rf "$results/logs"
for part in "${parts[@]}"; do
    begun=$SECONDS
    most=$limit
    done_parts+=("$part")
    if [ "$total" -gt 0 ]; then
        left=$((total - SECONDS))
        if [ "$left" -lt 20 ]; then
            echo "$part: left out, $total s are over" | tee "$results/gpu-$part.md"
            status=1
            continue
        fi
        if [ ${#parts[@]} -gt 1 ] && [ "$(share_of "$part")" -lt "$most" ]; then
            most=$(share_of "$part")
        fi
        [ "$most" -lt "$left" ] || most=$left
    fi
    {
        echo "# gpu.sh $part, $(date -u +%Y-%m-%d)"
        echo
        nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null
        echo
        timeout --kill-after=10 "$most" bash "$script" --build "$build" --pack "$pack" \
            --results "$results" --limit "$most" --steps "$steps" --inside "$part" 2>&1
        code=$?
        echo
        case $code in
            0) echo "$part: all ok, $((SECONDS - begun)) s" ;;
            124 | 137) echo "$part: stopped after $most s" ;;
            *) echo "$part: FAILED, $((SECONDS - begun)) s" ;;
        esac
        echo "$code" >"$build/gpu-code"
    } | tee "$results/gpu-$part.md"
    [ "$(cat "$build/gpu-code")" = 0 ] || status=1
    write_report
done
write_report
rm -rf "$build/gpu-code" "${saves:?}" # of a part that was stopped
exit "$status"
