#!/usr/bin/env bash
# How long `plan search` takes on one core: Llama 3 70B on clusters of H100 of several sizes, and a 12,288-wide model on
# 98,304, where more meshes divide, all with every option open (attention.strategy: auto). And how much longer it takes
# where kernels were measured by size: products of each kind and attention.
#   tests/bench/bench_search.sh [PLAN] [REPEATS]
# Prints the meshes, how many fit, the time, and the peak memory. The time is the least of REPEATS runs, and of each run
# the lesser of the search's wall time and the whole command's CPU time: both bound what the search takes on an idle
# core, and the machine may be shared. Of the two searches that are compared it is the median processor time of as many
# runs of each, in turn. Exits 1 when a time, their ratio or the memory is over its limit.
set -euo pipefail
cd "$(dirname "$0")/../.."
plan=${1:-build/plan}
repeats=${2:-5}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
root=$PWD
failed=0
core=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')

cluster() { # NODES PER_NODE: three levels as in configs/clusters/h100-64x8.yaml
    local all=$(($1 * $2)) leaf=$(($2 * 32))
    [ "$leaf" -lt "$all" ] || leaf=$((all / 2))
    cat <<END
name: cluster
nodes: $1
accelerators_per_node: $2
accelerator: $root/configs/accelerators/h100-sxm-80gb.yaml
links:
  - {name: nvlink, spans: $2, bandwidth: 450 GB/s, latency: 3 us}
  - {name: leaf, spans: $leaf, bandwidth: 50 GB/s, latency: 6 us}
  - {name: spine, spans: $all, bandwidth: 50 GB/s, latency: 8 us}
END
}

wide() { # a model with sizes that 3 divides: 98,304 = 3 x 2^15
    cat <<END
vocab_size: 98304
hidden_size: 12288
intermediate_size: 49152
num_hidden_layers: 96
num_attention_heads: 96
num_key_value_heads: 96
END
}

run() { # MODEL SEQUENCES
    cat <<END
name: bench
model: $1
cluster: cluster.yaml
sequence_length: 8192
global_batch_size: $2
mesh_dim: auto
attention: {strategy: auto}
END
}

measure() { # NAME MODEL NODES PER_NODE SEQUENCES MESHES LIMIT_MS
    local best=999999 rss=0 meshes feasible ms
    cluster "$3" "$4" >"$scratch/cluster.yaml"
    run "$2" "$5" >"$scratch/run.yaml"
    for _ in $(seq "$repeats"); do
        python3 - "$core" "$plan" "$scratch" <<'END'
import json, os, resource, subprocess, sys
core, plan, scratch = int(sys.argv[1]), sys.argv[2], sys.argv[3]
os.sched_setaffinity(0, {core})
with open(scratch + "/out.json", "w") as out:
    subprocess.run([plan, "search", scratch + "/run.yaml", "--json", "--top", "1"], stdout=out, check=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
found = json.load(open(scratch + "/out.json"))
with open(scratch + "/result", "w") as out:
    seconds = min(used.ru_utime + used.ru_stime, found["search_seconds"])
    print(found["evaluated"], found["feasible"], round(seconds * 1000, 1), used.ru_maxrss, file=out)
END
        read -r meshes feasible ms kib <"$scratch/result"
        best=$(awk -v a="$best" -v b="$ms" 'BEGIN { print b < a ? b : a }')
        rss=$((kib > rss ? kib : rss))
    done
    local verdict=ok
    if [ "$meshes" != "$6" ] || [ "$rss" -gt 32768 ] || awk -v a="$best" -v b="$7" 'BEGIN { exit !(a > b) }'; then
        verdict=over
        failed=1
    fi
    printf '%-16s %9d %7d %7d %9.1f %9d %8.1f  %s\n' "$1" $(($3 * $4)) "$meshes" "$feasible" "$best" "$7" \
        "$(awk -v k="$rss" 'BEGIN { print k / 1024 }')" "$verdict"
}

# The cluster of 64 nodes whose profile tells shares by size, or (plain) one share for all sizes.
sized_cluster() { # KIND: plain or surfaces
    local accelerator=$root/configs/accelerators/h100-sxm-80gb.yaml grid heads length size kind
    sed '/^products: \[/,$d' "$accelerator" >"$scratch/plain-accelerator.yaml"
    grid=$(sed -n '/^products: \[/,$p' "$accelerator" | sed 's/^products: //' | tr '\n' ' ')
    cluster 64 8 | sed "s|^accelerator:.*|accelerator: plain-accelerator.yaml|"
    printf 'profile:\n  {name: bench, matmul: 0.7, attention: 0.5, memory: 0.7, launch_latency: 3 us'
    if [ "$1" = surfaces ]; then
        printf ',\n  products: {'
        for kind in linear linear_t linear_dw; do
            printf '%s_bf16: %s, ' "$kind" "$grid"
        done
        printf '}, products_scale: [[1e9, 0.95], [1e12, 0.9]],\n  attention_by_size: {'
        for kind in forward backward; do
            printf '%s_bf16: [' "$kind"
            for heads in 8 64 512; do
                for length in 1024 8192 65536; do
                    for size in 64 128; do
                        printf '[%d, %d, %d, 0.%d], ' "$heads" "$length" "$size" \
                            $((30 + heads / 64 + length / 8192 + size / 32))
                    done
                done
            done
            printf '], '
        done
        printf '}'
    fi
    printf '}\n'
}

surfaces() { # LIMIT: the most times as long
    local kind
    run "$seventy" 1024 >"$scratch/run.yaml"
    for kind in plain surfaces; do
        sized_cluster "$kind" >"$scratch/$kind.yaml"
        sed "s/^cluster:.*/cluster: $kind.yaml/" "$scratch/run.yaml" >"$scratch/run-$kind.yaml"
    done
    python3 - "$core" "$plan" "$scratch" "$repeats" "$1" <<'END' || failed=1
import os, resource, statistics, subprocess, sys
core, plan, scratch, repeats, limit = int(sys.argv[1]), *sys.argv[2:4], int(sys.argv[4]), float(sys.argv[5])
os.sched_setaffinity(0, {core})
def used():
    u = resource.getrusage(resource.RUSAGE_CHILDREN)
    return u.ru_utime + u.ru_stime
seconds = {"plain": [], "surfaces": []}
for _ in range(repeats):
    for kind in seconds:
        before = used()
        subprocess.run([plan, "search", f"{scratch}/run-{kind}.yaml", "--json", "--top", "1"],
                       stdout=subprocess.DEVNULL, check=True)
        seconds[kind].append(used() - before)
plain, sized = (statistics.median(seconds[kind]) for kind in ("plain", "surfaces"))
print(f"kernels by size: {1000 * sized:.1f} ms, one share for all sizes: {1000 * plain:.1f} ms, "
      f"{sized / plain:.2f} times, limit {limit}  {'ok' if sized <= limit * plain else 'over'}")
sys.exit(0 if sized <= limit * plain else 1)
END
}

printf '%-16s %9s %7s %7s %9s %9s %8s\n' model accelerators meshes fit ms 'limit ms' MiB
wide >"$scratch/wide.yaml"
seventy=$root/configs/models/llama-70b.yaml
measure llama-70b "$seventy" 8 8 128 84 60
measure llama-70b "$seventy" 64 8 1024 220 100
measure llama-70b "$seventy" 512 8 4096 455 150
measure llama-70b "$seventy" 12288 8 98304 3264 500
measure 12288-wide "$scratch/wide.yaml" 12288 8 98304 3264 500
measure llama-70b "$seventy" 65536 16 1048576 1771 300
surfaces 1.2
exit $failed
