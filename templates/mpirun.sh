#!/usr/bin/env bash
# Written by 'plan emit'. The next emit overwrites every change: edit the run file and emit again.
# Asks for     {{asked}}.
# Mesh         {{mesh_dim}} of dp,fsdp,tp,sp, ranks in the order {{axis_order}}: {{why}}.
# Memory       {{memory}} planned of {{memory_limit}} per accelerator.
# Time         {{step_seconds}} a step predicted; {{run_time}}.
# Checkpoints  {{saves}}.
# At the limit none of its own; in a job of Slurm TERM or USR1 ends the run after the step at hand, saved.
# A lost node  the run ends; starting this script again resumes from the last checkpoint.
# Made from    {{source}}; plan digest {{digest}}.
# To look      {{look}}
#
# Arguments go to `runner train`. SHARDWRIGHT_RUNNER names another runner, SHARDWRIGHT_HOSTFILE the
# machines of a mesh on several nodes; in a job of Slurm (salloc, sbatch) they are the job's. INT (Ctrl-C), TERM and USR1 end the run after the step at
# hand; the exit code is the verdict in the run's attempt.json.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
plan=$here/{{plan_name}}
runner={{runner}}
attempt={{directory}}/attempt.json
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
# nproc answers OMP_NUM_THREADS or OMP_THREAD_LIMIT where they are set.
if [ "$per_node" -gt "$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)" ]; then
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
elif [ -n "${SLURM_JOB_ID:-}" ]; then
    # mpirun takes the job's nodes, and Slurm's count of tasks for room.
    if [ "${SLURM_JOB_NUM_NODES:-1}" -lt "$nodes" ]; then
        echo "the mesh spans $nodes nodes, and job $SLURM_JOB_ID has ${SLURM_JOB_NUM_NODES:-1}" >&2
        exit 2
    fi
    options+=(--oversubscribe --map-by "ppr:$per_node:node")
elif [ "$nodes" -gt 1 ]; then
    echo "the mesh spans $nodes nodes: set SHARDWRIGHT_HOSTFILE to a file that lists them, or start it in a job of Slurm" >&2
    exit 2
fi

member() { # of attempt.json: a number, or nothing
    sed -nE "s/^ *\"$1\": *([0-9]+),?\$/\\1/p" "$attempt" 2>/dev/null || true
}
before=$(member attempt)

# mpirun makes TERM of INT and kills the ranks a second later; the numbers 40 (for TERM) and 41 (for
# INT) it passes on as they are. Its kill timeout stays at that second: it would wait as long, twice,
# when a rank died. -quiet: the runner says in one line who died of what, mpirun in twelve. A process
# group of its own (set -m): Ctrl-C reaches this script only.
exec 3> >(trap '' INT TERM HUP && exec tee -p /dev/null >&2)
tee=$! # mpirun would end the run when the reader of its standard error goes away
set -m
mpirun -quiet --mca ess_base_forward_signals 40,41 "${options[@]}" \
    "$runner" train "$plan" --digest {{digest}} "$@" </dev/null 2>&3 3>&- &
mpirun=$!
set +m
exec 3>&-
# What comes while mpirun runs ends only the `wait` below.
trap 'passed=1; kill -40 "$mpirun" 2>/dev/null || true' TERM HUP
trap 'passed=1; kill -41 "$mpirun" 2>/dev/null || true' INT
trap 'passed=1; kill -USR1 "$mpirun" 2>/dev/null || true' USR1
trap 'passed=1; kill -USR2 "$mpirun" 2>/dev/null || true' USR2
status=127
while :; do
    passed='' code=0
    wait "$mpirun" || code=$?
    [ "$code" -eq 127 ] || status=$code
    [ -n "$passed" ] || break
done
wait "$tee" || true

verdict=$(member verdict)
if [ "$(member attempt)" != "$before" ]; then
    # Ranks that outlive a killed mpirun say so within seconds.
    for ((tries = 0; tries < 6; tries++)); do
        [ -z "$verdict" ] || break
        sleep 0.5
        verdict=$(member verdict)
    done
    if [ -n "$verdict" ]; then
        exit "$verdict"
    fi
    echo "mpirun ended with exit code $status and no rank could say why: a node may be gone" >&2
    if [ "$status" -eq 0 ]; then
        status=3
    fi
elif [ "$status" -ne 0 ]; then
    # What -quiet hides when mpirun itself cannot start the ranks.
    mpirun "${options[@]}" "$runner" --version </dev/null >/dev/null || true
fi
exit "$status"
