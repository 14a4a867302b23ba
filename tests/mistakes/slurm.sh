#!/usr/bin/env bash
# Stand-ins for Slurm's commands: a controller of four nodes that answers from files. `sh bash $ROOT/tests/mistakes/slurm.sh`
# puts them into ./bin with a plan that has no plan-slurm beside it; `run PATH=bin:$PATH plan submit ...` uses them.
#
#   slurm/node, slurm/partition, slurm/topology    what scontrol shows, a line each; may be changed afterwards
#   slurm/config                                   what scontrol show config does; none: the name and 22.05.8
#   slurm/topology-NAME                            what scontrol show topology NAME does, of a topology.yaml
#   slurm/qos, slurm/assoc, slurm/accounts, slurm/user    what sacctmgr shows; no assoc: there is no accounting
#   slurm/refusal                                  what sbatch --test-only says when it refuses; none: it starts now
#   slurm/submitted                                the arguments of sbatch, written by it
#   slurm/asked                                    those of sbatch --test-only, likewise
set -euo pipefail

answer() { # the text of a file, if there is one
    if [ -e "slurm/$1" ]; then cat "slurm/$1"; fi
}
case ${0##*/} in
scontrol)
    case "$*" in
    'show config')
        if [ -e slurm/config ]; then answer config; else printf 'ClusterName             = standin\nSLURM_VERSION           = 22.05.8\n'; fi
        ;;
    *' show node '*) answer node ;;
    *' show partition '*) answer partition ;;
    *topology) answer topology ;;
    'show topology '*) answer "topology-${!#}" ;;
    esac
    ;;
sacctmgr)
    [ -e slurm/assoc ] || exit 1
    case "$*" in
    *' qos '*) answer qos ;;
    *' accounts='*) answer accounts ;;
    *' assoc '*) answer assoc ;;
    *' user '*) answer user ;;
    esac
    ;;
sbatch)
    if [ "$1" = --test-only ]; then
        echo "$*" >>slurm/asked
        # as many nodes as are idle start
        idle=$(grep -c 'State=IDLE ' slurm/node || true)
        if [ -e slurm/refusal ] && ! { [ "$idle" -lt 4 ] && [[ " $* " == *" --nodes=$idle "* ]]; }; then
            cat slurm/refusal >&2
            exit 1
        fi
        echo "sbatch: Job 8 to start at $(date +%FT%T) using 4 processors on nodes n1 in partition gpu" >&2
    else
        echo "$*" >>slurm/submitted
        echo 4242
    fi
    ;;
squeue | sacct) ;;
*)
    mkdir -p bin slurm
    cp "$(command -v plan)" bin/plan
    for name in scontrol sacctmgr sbatch squeue sacct; do cp "${BASH_SOURCE[0]}" "bin/$name"; done
    chmod +x bin/*
    for i in 1 2 3 4; do
        echo "NodeName=n$i CoresPerSocket=4 CPUTot=8 Gres=gpu:h100:1 AvailableFeatures=nvme State=IDLE ThreadsPerCore=1" \
            "Sockets=2 RealMemory=64000"
    done >slurm/node
    echo "PartitionName=gpu Default=YES State=UP Nodes=n[1-4] MaxTime=2-00:00:00 DefaultTime=NONE MaxNodes=UNLIMITED" \
        "MinNodes=0 MaxCPUsPerNode=UNLIMITED AllowAccounts=ALL AllowQos=ALL AllowGroups=ALL" >slurm/partition
    ;;
esac
