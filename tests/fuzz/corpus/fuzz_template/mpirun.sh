#!/usr/bin/env bash
# Written by plan {{version}} from {{run_path}}: do not edit, change the run file and emit again.
# mesh_dim {{mesh_dim}} ({{axis_order}}), plan digest {{digest}}
# predicted: {{memory}} of {{memory_limit}} per accelerator, {{step_seconds}} a step
#
# Arguments go to `runner train`. SHARDWRIGHT_RUNNER names another runner, SHARDWRIGHT_HOSTFILE the
# machines of a mesh on several nodes.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
plan=$here/{{plan_name}}
runner={{runner}}
if [ -n "${SHARDWRIGHT_RUNNER:-}" ]; then
    runner=$SHARDWRIGHT_RUNNER
fi
if [ ! -x "$runner" ]; then
    echo "no runner at $runner; set SHARDWRIGHT_RUNNER to its path" >&2
    exit 3
fi
ranks={{ranks}}
nodes={{nodes}}
per_node={{ranks_per_node}}

export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
options=(-np "$ranks" --bind-to none -x OMP_NUM_THREADS)
if [ "$per_node" -gt "$(nproc)" ]; then
    # More ranks than cores: let a rank that waits leave the core to the others.
    options+=(--oversubscribe --mca mpi_yield_when_idle 1)
else
    # Open MPI counts cores, nproc hardware threads.
    options+=(--use-hwthread-cpus)
fi
if [ "$(id -u)" -eq 0 ]; then
    options+=(--allow-run-as-root)
fi
if [ -n "${SHARDWRIGHT_HOSTFILE:-}" ]; then
    options+=(--hostfile "$SHARDWRIGHT_HOSTFILE" --map-by "ppr:$per_node:node")
elif [ "$nodes" -gt 1 ]; then
    echo "the mesh spans $nodes nodes: set SHARDWRIGHT_HOSTFILE to a file that lists them" >&2
    exit 2
fi
exec mpirun "${options[@]}" "$runner" train "$plan" "$@"
