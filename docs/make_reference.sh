#!/usr/bin/env bash
# Writes the pages of docs/reference that the programs know themselves: the keys of every kind of
# file and the commands. Run it when a test says that a page is out of date, and commit the result.
#
#   docs/make_reference.sh [BUILD [OUT]]     default: build, docs/reference
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(realpath "${1:-$here/../build}")
out=${2:-$here/reference}
mkdir -p "$out"

for kind in $("$build/plan" schema --help | sed -nE 's/^usage: plan schema ([a-z|]+) .*/\1/p' | tr '|' ' '); do
    "$build/plan" schema "$kind" --markdown >"$out/$kind.md"
done

block() { # COMMAND...
    echo '```text'
    "$@"
    echo '```'
}

{
    cat <<'END'
<!-- Written by docs/make_reference.sh from what the programs print. -->

# Commands

Data goes to stdout, everything for people to stderr.

## plan

END
    block "$build/plan" --help
    "$build/plan" --help | sed -nE 's/^  plan ([a-z][a-z-]*) .*/\1/p' | while read -r command; do
        printf '\n### plan %s\n\n' "$command"
        block "$build/plan" "$command" --help
    done
    cat <<'END'

### Conditions of --fail-if

    [NAME:] SIDE < | <= | > | >= | == | != SIDE
    [NAME:] WORD == | != WORD
    [NAME:] rejected

They judge what changed: of a run whose plan is the same, with the same memory and time, none is tested. `--fail-all`
tests all.

A side is made of numbers with units, measures, `+ - * /` and parentheses: `memory > limit - headroom`. A percentage
with a sign, alone on the right, is a change against OLD: `tokens_per_second < -5%`. `old.` before a measure or a word
takes it from OLD: `accelerators > old.accelerators`, `mesh != old.mesh`.

| measure | unit | what |
| --- | --- | --- |
| `step` | s | time of one step, of a run that trains; it alone has `duration`, `accelerator_hours`, `mfu` and what a whole run costs, too |
| `duration` | s | of all steps of the run; units `min`, `h` and `days`, too |
| `end` | s | of the whole run: from its first job's start to its last save, with evaluations, saves, starts, what failures repeat and waits between jobs: `end > 36 h` |
| `run_hours` | | accelerator-hours of the whole run: `run_hours > 2000 GPU-hours` |
| `money` | | of these, at `price_per_accelerator_hour`; units are currencies, and another one than the cluster's fails: `money > 5000 USD` |
| `energy` | J | of these, at `power` of the accelerator; units `Wh`, `kWh`, `MWh`, too |
| `accelerator_hours` | | of all steps x the accelerators of the run (of its `nodes`): `accelerator_hours > +5%`, or a number of hours, also with a unit: `2000 GPU-hours`. Saves, evaluations, starts and steps that are made again do not count |
| `memory` | bytes | in use on each accelerator |
| `limit` | bytes | that each accelerator has |
| `headroom` | bytes | of these, what `memory_headroom` wants to stay free |
| `tokens_per_second` | tokens/s | over all accelerators |
| `mfu` | fraction | model FLOP over the accelerators' peak |
| `communication` | s | of a step, or a token, in which compute waits for communication |
| `communication_bytes` | bytes | that one rank sends in a step, or for a token |
| `accelerators` | | number of them |
| `nodes` | | likewise |
| `time_limit` | s | of a job, as the script asks for it |
| `token` | s | of a run that serves: for one token more of every sequence, while no prompt is read |
| `first` | s | likewise: to the first token of a prompt that is read alone |
| `beside` | s | likewise: for a token while prompts are read |

| word | what |
| --- | --- |
| `mesh` | sizes of dp,fsdp,tp,sp: `mesh == 1,64,1,1` |
| `recompute` | what backward computes again: `recompute == full` |
| `verdict` | `fits` or `fits_without_headroom` |
| `partition` | `slurm.partition`; of a list any: `partition == debug` |

`rejected` holds when the run fits on no mesh, or on none that keeps its latency goals. Without it, too, a run that is new, or fitted before, ends in exit code 1
then.

## runner

END
    block "$build/runner" --help
    "$build/runner" --help | sed -nE 's/^  runner ([a-z][a-z-]*) .*/\1/p' | while read -r command; do
        printf '\n### runner %s\n\n' "$command"
        block "$build/runner" "$command" --help
    done
    cat <<'END'

## Environment

| variable | read by | what |
| --- | --- | --- |
| `OMP_NUM_THREADS` | runner | threads of a rank; default: its share of the node's cores |
| `SHARDWRIGHT_STALL_SECONDS` | runner | seconds after which a rank that hears nothing from another ends the job; default of a training: 20 predicted steps, at least 60 s and at most 240 s, or 4 steps where these are longer; 60 s before the first step |
| `SHARDWRIGHT_START_SECONDS` | runner | seconds for the ranks of a job to find each other; default 300, or `SHARDWRIGHT_STALL_SECONDS` where that is more |
| `SHARDWRIGHT_GRACE_SECONDS` | runner | seconds between TERM and KILL; default 30: a training that is told to end saves if it will be done by then |
| `SHARDWRIGHT_CORE` | runner | when set, a training that crashes leaves core dumps, as the system has it |
| `SHARDWRIGHT_RUNNER` | `plan supervise`, job scripts of mpirun | another `runner` than the one beside the `plan` that wrote the script |
| `SHARDWRIGHT_PLAN` | job scripts of Slurm | another `plan` than the one that wrote the script, to be the job's process |
| `SHARDWRIGHT_PAUSE_SECONDS` | plan supervise | seconds before a scheduler that did not answer, or took no order, is asked again; default 10 |
| `SHARDWRIGHT_HOSTFILE` | job scripts of mpirun | the machines of a mesh on several nodes; in a job of Slurm: its own |
| `NCCL_GRAPH_MIXING_SUPPORT`, `NCCL_RUNTIME_CONNECT` | runner, device cuda | NCCL's own, set to 0 unless they are set: NCCL's calls do not mix with the capture of a CUDA graph, and connections are made at the start, before the arena is allocated |
| `SW_COLLECTIVES` | runner, device cuda | `nccl`, or `staged` through the host; default: nccl where it is built in |
| `SW_CUDA_ATTENTION` | runner, device cuda | `cudnn`, or `own` kernels; default: cudnn where it is built in |
| `NO_COLOR` | plan | when set, messages have no colour |
| `COLUMNS` | plan | columns of the terminal, where it does not say itself, 60 at least: tables leave columns out and long texts are wrapped; a line of figures stays whole |
| `LC_ALL`, `LC_CTYPE`, `LANG` | plan | the first that is set: where it is not UTF-8, marks are `*` and `x` |
| `SLURM_CONF` | plan | Slurm's configuration, where it is not in its usual place |
| `SHARDWRIGHT_SITE` | plan | the centre's [advice](../slurm.md#for-centre-staff) in the place of /etc/shardwright/site.yaml; empty: none |
| `SLURM_CONF_SERVER` | plan | Slurm's own: where clients without a configuration get it; then `plan check` and `plan diff` ask Slurm, too |
| `SLURM_CLUSTERS` | plan | refused unless it names the cluster that is asked anyway |
| `XDG_STATE_HOME` | plan | where it keeps [what Slurm said of its jobs](json.md#plan-submit---dry-run---json); default ~/.local/state |

Launchers say who is who in `OMPI_COMM_WORLD_RANK`, `OMPI_COMM_WORLD_SIZE`, `OMPI_COMM_WORLD_LOCAL_RANK`, `PMIX_RANK`,
`PMI_RANK`, `PMI2_RANK`, `PMI_LOCAL_RANK`, `SLURM_PROCID`, `SLURM_LOCALID` and `SLURM_STEP_NUM_TASKS`; `runner
calibrate` notes `SLURM_JOB_PARTITION` of the job `SLURM_JOB_ID` in the cluster file it writes, `runner train` the job
in attempt.json. `plan supervise` reads of its job `SLURM_JOB_NODELIST`, `SLURM_JOB_NUM_NODES`, `SLURM_RESTART_COUNT`,
`SLURM_ARRAY_JOB_ID` and `SLURM_ARRAY_TASK_ID`; for mpirun it sets `SLURM_OVERLAP` and takes away `SLURM_CPUS_PER_TASK` and
`SRUN_CPUS_PER_TASK`, so that its daemons have the whole job. Where nodes are put in order it sets `SLURM_HOSTFILE` for srun.
`runner preflight` reads where its node is from `SLURM_TOPOLOGY_ADDR` and `SLURM_TOPOLOGY_ADDR_PATTERN`.

## Exit codes

| code | meaning |
| --- | --- |
| 0 | done |
| 1 | the request cannot be met: no mesh fits, or the one that is named does not (its product is not the accelerators', it does not divide the model, or it takes too much memory), a `--fail-if` holds, a folder has a live job already, Slurm refuses a job, or a training's loss or gradient norm is zero or not finite |
| 2 | bad input: the command line or a file |
| 3 | the environment failed: memory, disk, network, another rank; Slurm does not answer |
| 4 | `plan diff`, `runner checkpoint diff`: the two differ |
| 75 | `runner train`: stopped by USR1 after the current step, to resume in another job |
| 76 | `runner train`: as 3, and the node that attempt.json names is broken |
| 93 | `runner train`: as 75, but no step was gained since the attempt before: another job would gain none |
| 130 | `runner train`: stopped by INT after the current step |
| 141 | `plan`: whoever reads the output went away before its end, as with `plan search ... \| head`; what should be written is |
| 143 | `runner train`: stopped by TERM or HUP after the current step |

`plan status --watch` ends with the verdict of the run: 0 done, else one of these.

Launchers do not pass on the exit code of every rank; what counts is the verdict in
[attempt.json](json.md#attemptjson), which is durable before any rank leaves. The scripts of `plan emit` end with it.
END
} >"$out/commands.md"
