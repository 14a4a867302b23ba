#!/usr/bin/env bash
# A Slurm controller without nodes: slurmctld alone, as the calling user, without munge and slurmd.
# It knows as many nodes as wanted, all idle, and answers what a controller answers: sbatch and its
# --test-only, hold, cancel, sinfo, scontrol, topology. No job ever starts a process.
#
#   controller.sh up [nodes N] [gpus N] [cpus N] [memory MB] [leaf N] [type T] [conf FILE] [gres FILE] [state DIR]
#       starts one and prints SLURM_CONF=PATH when it answers; several may run side by side
#       nodes: gpu0.. (8), gpus per node (8, of type h100; 0: none), CPUs per node (96), memory (2000000),
#       leaf: nodes of a leaf switch (4, of more than 64 nodes 32: slurmctld needs long for thousands of
#       switches; 0: no topology), conf: lines that are added to slurm.conf, gres: a gres.conf,
#       state: files of an earlier controller's StateSaveLocation
#       partitions: gpu (default, 2-00:00:00 at most), short (30 minutes), all (no limit)
#   controller.sh down [PATH]
#       ends the controller of PATH (or of $SLURM_CONF) and removes its folder
#
# Exit code 77 and one line "SKIP: ..." when this machine cannot do it.
set -uo pipefail

skip() {
    echo "SKIP: Slurm controller: $*"
    exit 77
}
fail() {
    echo "controller: $*" >&2
    exit 3
}
usage() {
    sed -n '5,15s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
    exit 2
}

down() { # SLURM_CONF
    local folder pid i
    folder=$(dirname "$1")
    case ${folder##*/} in
        shardwright-slurmctld.*) ;;
        *) fail "'$1' is no controller of this script" ;;
    esac
    pid=$(cat "$folder/slurmctld.pid" 2>/dev/null) || pid=
    if [ -n "$pid" ] && tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -q -- "$folder"; then
        kill -TERM "$pid" 2>/dev/null
        for ((i = 0; i < 100; i++)); do
            # A dead child of nobody (containers) has no command line left.
            [ -n "$(tr -d '\0' 2>/dev/null <"/proc/$pid/cmdline")" ] || break
            sleep 0.05
        done
        kill -KILL "$pid" 2>/dev/null
    fi
    rm -rf "$folder"
}

# The kernel's choice of a port that nobody uses now.
free_port() {
    python3 -c 'import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])'
}

write_topology() { # FOLDER NODES LEAF
    local leaves=$((($2 + $3 - 1) / $3)) i last
    {
        for ((i = 0; i < leaves; i++)); do
            last=$(((i + 1) * $3 - 1))
            [ $last -lt "$2" ] || last=$(($2 - 1))
            echo "SwitchName=leaf$i Nodes=gpu[$((i * $3))-$last]"
        done
        echo "SwitchName=spine Switches=leaf[0-$((leaves - 1))]"
    } >"$1/topology.conf"
}

write_conf() { # FOLDER PORT
    local gres='' types='' topology=topology/none
    if [ "$gpus" -gt 0 ]; then
        types='GresTypes=gpu'
        gres="Gres=gpu:$type:$gpus"
    fi
    if [ "$leaf" -gt 0 ]; then
        topology=topology/tree
        write_topology "$1" "$nodes" "$leaf"
    fi
    cat >"$1/slurm.conf" <<END
ClusterName=shardwright
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$2
SlurmctldParameters=enable_configless
AuthType=auth/none
CredType=cred/none
SlurmUser=$(id -un)
StateSaveLocation=$1/state
SlurmctldPidFile=$1/slurmctld.pid
SlurmctldLogFile=$1/slurmctld.log
SlurmdSpoolDir=$1/spool
SlurmdPort=$(($2 == 65535 ? 65534 : $2 + 1))
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
TopologyPlugin=$topology
SchedulerType=sched/backfill
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
Licenses=scratch:100
MessageTimeout=20
# The cloud's nodes need no slurmd to count as idle; nothing wakes them.
SuspendProgram=/bin/true
ResumeProgram=/bin/true
SuspendTime=3600
ResumeTimeout=3600
PrivateData=cloud
$types
NodeName=gpu[0-$((nodes - 1))] CPUs=$cpus Boards=1 SocketsPerBoard=1 CoresPerSocket=$cpus ThreadsPerCore=1 RealMemory=$memory $gres Feature=nvme State=CLOUD
PartitionName=gpu Nodes=ALL Default=YES MaxTime=2-00:00:00 State=UP
PartitionName=short Nodes=ALL MaxTime=30 State=UP
PartitionName=all Nodes=ALL State=UP
END
    if [ -n "$extra" ]; then
        cat "$extra" >>"$1/slurm.conf" || fail "cannot read $extra"
    fi
    if [ -n "$gres_file" ]; then
        cat "$gres_file" >"$1/gres.conf" || fail "cannot read $gres_file"
    fi
}

up() {
    local tool folder i try pid
    for tool in slurmctld sinfo scontrol sbatch python3; do
        command -v "$tool" >/dev/null 2>&1 || skip "'$tool' is not installed (tests/install.sh test)"
    done
    host=$(hostname -s 2>/dev/null || uname -n)
    folder=$(mktemp -d "${TMPDIR:-/tmp}/shardwright-slurmctld.XXXXXX") || fail "no folder to work in"
    export SLURM_CONF=$folder/slurm.conf
    # Between the choice of a port and its use another process may take it.
    for try in 1 2 3; do
        mkdir -p "$folder/state" "$folder/spool"
        [ -z "$state" ] || cp "$state"/* "$folder/state/" || fail "cannot copy $state"
        write_conf "$folder" "$(free_port)"
        # No descriptor of the caller's: a pipe that the daemon keeps open never ends.
        (
            cd / && exec setsid slurmctld -D -i -f "$folder/slurm.conf" \
                </dev/null >"$folder/out.log" 2>&1 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
        ) &
        pid=$!
        disown "$pid"
        echo "$pid" >"$folder/slurmctld.pid"
        for ((i = 0; i < 400; i++)); do
            kill -0 "$pid" 2>/dev/null || break
            # A ping of a port where nobody listens yet is retried for seconds.
            if grep -qs 'Running as primary controller' "$folder/slurmctld.log" &&
                scontrol ping 2>/dev/null | grep -q 'is UP'; then
                echo "SLURM_CONF=$folder/slurm.conf"
                return 0
            fi
            sleep 0.05
        done
        grep -qs 'Address already in use' "$folder/slurmctld.log" "$folder/out.log" || break
        down "$folder/slurm.conf"
        mkdir -p "$folder"
        echo "controller: its port was taken, trying another ($try)" >&2
    done
    tail -n 5 "$folder/slurmctld.log" "$folder/out.log" >&2
    if grep -qsE 'auth/none|cred/none|plugin.*not found' "$folder/slurmctld.log" "$folder/out.log"; then
        down "$folder/slurm.conf"
        skip "this Slurm has no auth/none"
    fi
    down "$folder/slurm.conf"
    fail "slurmctld does not start"
}

nodes=8 gpus=8 cpus=96 memory=2000000 leaf='' type=h100 extra='' gres_file='' state=''
action=${1:-}
[ $# -eq 0 ] || shift
case $action in
    up)
        while [ $# -ge 2 ]; do
            case $1 in
                nodes) nodes=$2 ;;
                gpus) gpus=$2 ;;
                cpus) cpus=$2 ;;
                memory) memory=$2 ;;
                leaf) leaf=$2 ;;
                type) type=$2 ;;
                conf) extra=$2 ;;
                gres) gres_file=$2 ;;
                state) state=$2 ;;
                *) usage ;;
            esac
            shift 2
        done
        [ $# -eq 0 ] || usage
        [ -n "$leaf" ] || leaf=$((nodes > 64 ? 32 : 4))
        [[ $nodes$gpus$cpus$memory$leaf =~ ^[0-9]+$ && $nodes -gt 0 ]] || usage
        up
        ;;
    down)
        [ $# -le 1 ] || usage
        [ -n "${1:-${SLURM_CONF:-}}" ] || fail "down of which one? name its slurm.conf"
        down "${1:-$SLURM_CONF}"
        ;;
    *) usage ;;
esac
