#!/usr/bin/env bash
# A real Slurm cluster of four nodes on one machine.
#
#   slurm_cluster.sh up [NAME]     starts it and prints how to reach it (SLURM_CONF=...)
#   slurm_cluster.sh down [NAME]   stops every process, and removes every interface and file of it
#   slurm_cluster.sh conf [NAME]   prints the path of its slurm.conf
#   slurm_cluster.sh kill NAME N   ends every process of node N at once, as a power cut does
#   slurm_cluster.sh cut NAME N    pulls the cable of node N; `mend` puts it back
#   slurm_cluster.sh mend NAME [STATES]  all cables in, and nodes that are down started again
#   slurm_cluster.sh pause NAME N  stops slurmd of node N, not its jobs; `resume NAME N` lets it go on
#   slurm_cluster.sh restart NAME [SECONDS]  ends the controller at once and starts it again, so much later
#
# NAME (default: test; or play, bench) picks the addresses, so that a test does not disturb a playground.
# Each node is a network namespace on one bridge and a slurmd with its own host name, process ids and
# PMIx directory; file systems are shared, as on most clusters. Nothing outside /run is written.
# SW_CLUSTER_LEAVES='n[1,3] n[2,4]': leaf switches with these nodes (topology/tree); none: no topology.
# Exit code 77 and one line "SKIP: ..." when this machine cannot do it.
set -uo pipefail

action=${1:-}
name=${2:-test}
nodes=4
cpus_per_node=2

skip() {
    echo "SKIP: Slurm cluster: $*"
    exit 77
}
fail() {
    echo "slurm_cluster: $*" >&2
    exit 3
}

case $name in
    test) net=213 port=16817 ;;
    play) net=214 port=16917 ;;
    bench) net=215 port=17017 ;;
    *) fail "unknown cluster '$name' (test, play or bench)" ;;
esac
# Interface names have at most 15 characters.
prefix=sw$name
bridge=${prefix}br
subnet=10.197.$net
state=/run/shardwright-slurm-$name
# Per node: slurmstepd's PMIx directories bear only the job's number, so nodes must not share them.
node_tmp=$state/node-tmp

check_machine() {
    [ "$(uname -s)" = Linux ] || skip "needs Linux"
    [ "$(id -u)" -eq 0 ] || skip "needs root (network namespaces)"
    local tool
    for tool in ip nsenter unshare munged slurmctld slurmd sinfo scontrol; do
        command -v "$tool" >/dev/null 2>&1 || skip "'$tool' is not installed (tests/install.sh test)"
    done
    ip netns add "${prefix}probe" 2>/dev/null || skip "no permission to make network namespaces"
    ip netns del "${prefix}probe" 2>/dev/null
    unshare --mount --uts --pid --fork true 2>/dev/null || skip "no permission to unshare"
    ip link add "${prefix}probe" type bridge 2>/dev/null || skip "no permission to make a bridge"
    ip link del "${prefix}probe" 2>/dev/null
}

# Ends the process of a pid file, if it still is the program that wrote it.
end_process() { # PIDFILE WORD [SIGNAL]
    local pid
    pid=$(cat "$1" 2>/dev/null) || return 0
    [ -r "/proc/$pid/cmdline" ] || return 0
    tr '\0' ' ' <"/proc/$pid/cmdline" | grep -q -- "$2" || return 0
    kill "-${3:-TERM}" "$pid" 2>/dev/null
    local i
    for ((i = 0; i < 50; i++)); do
        # A dead process whose parent never waits (containers) has no command line left.
        [ -n "$(tr -d '\0' <"/proc/$pid/cmdline" 2>/dev/null)" ] || return 0
        sleep 0.1
    done
    kill -KILL "$pid" 2>/dev/null
    sleep 0.2
}

down() {
    local i
    # unshare ignores TERM while it waits; --kill-child takes slurmd, the steps and their tasks along.
    for ((i = 1; i <= nodes; i++)); do end_process "$state/n$i.pid" unshare KILL; done
    end_process "$state/slurmctld.pid" "$state"
    end_process "$state/munged.pid" "$state"
    for ((i = 1; i <= nodes; i++)); do
        ip netns del "${prefix}n$i" 2>/dev/null
        ip link del "${prefix}v$i" 2>/dev/null
    done
    ip link del "$bridge" 2>/dev/null
    rm -rf "$state"
    return 0
}

write_configuration() {
    umask 022
    mkdir -p "$state" "$state/ctld" "$state/munge" "$node_tmp"
    chmod 755 "$state" "$state/munge"
    (umask 077 && head -c 1024 /dev/urandom >"$state/munge.key")
    local i
    {
        echo "ClusterName=shardwright-$name"
        echo "SlurmctldHost=$(uname -n)($subnet.254)"
        echo "SlurmctldPort=$port"
        echo "SlurmdPort=$((port + 1))"
        echo "SlurmUser=root"
        echo "SlurmdUser=root"
        echo "AuthType=auth/munge"
        echo "AuthInfo=socket=$state/munge/socket"
        echo "CredType=cred/munge"
        echo "StateSaveLocation=$state/ctld"
        echo "SlurmdSpoolDir=$state/%n"
        echo "SlurmctldPidFile=$state/slurmctld.pid"
        echo "SlurmdPidFile=$state/%n.slurmd.pid"
        echo "SlurmctldLogFile=$state/slurmctld.log"
        echo "SlurmdLogFile=$state/%n.log"
        # The outer machine's limits and cgroups are none of our business.
        echo "ProctrackType=proctrack/linuxproc"
        echo "TaskPlugin=task/none"
        echo "JobAcctGatherType=jobacct_gather/none"
        echo "SelectType=select/cons_tres"
        echo "SelectTypeParameters=CR_Core"
        echo "SlurmdParameters=config_overrides"
        echo "ReturnToService=2"
        echo "MpiDefault=pmix"
        echo "SchedulerParameters=batch_sched_delay=0,sched_interval=5"
        echo "PropagateResourceLimits=NONE"
        echo "SlurmdTimeout=300"
        echo "KillWait=15" # 30 by default
        echo "TaskProlog=$state/task_prolog.sh"
        for ((i = 1; i <= nodes; i++)); do
            echo "NodeName=n$i NodeHostname=n$i NodeAddr=$subnet.$i CPUs=$cpus_per_node" \
                "Boards=1 SocketsPerBoard=1 CoresPerSocket=$cpus_per_node ThreadsPerCore=1" \
                "RealMemory=4096 State=UNKNOWN"
        done
        # A partition that a test makes, with a higher tier, takes the nodes of the other's jobs.
        echo "PreemptType=preempt/partition_prio"
        echo "PreemptMode=REQUEUE"
        echo "PartitionName=play Nodes=n[1-$nodes] Default=YES MaxTime=2:00:00 State=UP"
    } >"$state/slurm.conf"
    if [ -n "${SW_CLUSTER_LEAVES:-}" ]; then
        # topology/tree: the nodes of each leaf switch, as in 'n[1,3] n[2,4]'
        echo "TopologyPlugin=topology/tree" >>"$state/slurm.conf"
        local leaf=0 hosts
        for hosts in $SW_CLUSTER_LEAVES; do
            echo "SwitchName=leaf$leaf Nodes=$hosts"
            leaf=$((leaf + 1))
        done >"$state/topology.conf"
        echo "SwitchName=spine Switches=leaf[0-$((leaf - 1))]" >>"$state/topology.conf"
    fi
    echo "PMIxCliTmpDirBase=$node_tmp" >"$state/mpi.conf"
    # All nodes share this machine's cores: ranks that wait must let others run. Measured with a
    # 1 MiB ring over eight ranks on two cores: 38 MB/s spinning, 150 MB/s yielding.
    {
        echo "#!/bin/sh"
        echo "echo export OMPI_MCA_mpi_yield_when_idle=1"
    } >"$state/task_prolog.sh"
    chmod 755 "$state/task_prolog.sh"
}

make_network() {
    local i
    ip link add "$bridge" type bridge && ip addr add "$subnet.254/24" dev "$bridge" &&
        ip link set "$bridge" up || return 1
    for ((i = 1; i <= nodes; i++)); do
        ip netns add "${prefix}n$i" &&
            ip link add "${prefix}v$i" type veth peer name eth0 netns "${prefix}n$i" &&
            ip link set "${prefix}v$i" master "$bridge" up &&
            ip -n "${prefix}n$i" addr add "$subnet.$i/24" dev eth0 &&
            ip -n "${prefix}n$i" link set eth0 up &&
            ip -n "${prefix}n$i" link set lo up || return 1
    done
}

# The caller's files are none of a daemon's: it would keep them open for days.
close_files() {
    local file
    for file in /proc/self/fd/*; do
        file=${file##*/}
        [ "$file" -le 2 ] || eval "exec $file>&-"
    done 2>/dev/null
}

start_node() {
    # The variables are the inner shell's.
    # shellcheck disable=SC2016
    { close_files && exec setsid nsenter --net="/run/netns/${prefix}n$1" \
        unshare --uts --mount --pid --fork --kill-child --mount-proc \
        sh -c 'hostname "$1" && mount -t tmpfs -o mode=1777 tmpfs "$2" &&
            mount -t tmpfs -o mode=1777 tmpfs /dev/shm &&
            exec slurmd -D -N "$1" -f "$3"' \
        sh "n$1" "$node_tmp" "$state/slurm.conf"; } \
        >"$state/n$1.out" 2>&1 </dev/null &
    # nsenter becomes unshare, which waits: its pid is the node's.
    echo $! >"$state/n$1.pid"
}

# Whoever listens there already would answer in the controller's place, or keep it from starting.
check_port() {
    local listener
    listener=$(ss -Hltnp "sport = :$port" 2>/dev/null) && [ -n "$listener" ] || return 0
    listener=$(sed -nE 's/.*users:\(\("([^"]*)",pid=([0-9]+).*/\1 (pid \2)/p' <<<"$listener" | head -n 1)
    fail "port $port is taken by ${listener:-another process}; end it first"
}

start_daemons() {
    export SLURM_CONF=$state/slurm.conf
    # --force: run as root, with the state directory that we made.
    (close_files && exec munged --force --key-file="$state/munge.key" --socket="$state/munge/socket" \
        --pid-file="$state/munged.pid" --log-file="$state/munged.log" \
        --seed-file="$state/munged.seed") || return 1
    (close_files && exec slurmctld -f "$state/slurm.conf") || return 1
    local i
    for ((i = 1; i <= nodes; i++)); do start_node "$i"; done
    wait_for_nodes idle
}

# Until all nodes are in one of these states (of sinfo, joined by '|'), or the controller is dead.
wait_for_nodes() { # STATES
    local i pid
    for ((i = 0; i < 120; i++)); do
        if [ "$(timeout 5 sinfo -h -N -o '%T' 2>/dev/null | grep -cxE "$1")" -eq "$nodes" ]; then
            return 0
        fi
        pid=$(cat "$state/slurmctld.pid" 2>/dev/null || true)
        if [ "$i" -ge 4 ] && [ -z "$(tr -d '\0' 2>/dev/null <"/proc/${pid:-0}/cmdline")" ]; then
            echo "slurmctld ended: $(grep -aE 'fatal|error' "$state/slurmctld.log" | tail -n 1)" >&2
            return 1
        fi
        sleep 0.5
    done
    return 1
}

show_logs() {
    local log
    for log in "$state"/*.log "$state"/*.out; do
        [ -s "$log" ] && echo "--- ${log##*/}" && tail -n 15 "$log"
    done >&2
}

up() {
    check_machine
    if [ -f "$state/slurm.conf" ] &&
        SLURM_CONF=$state/slurm.conf timeout 5 sinfo >/dev/null 2>&1; then
        mend 'idle|allocated|mixed|completing'
        echo "SLURM_CONF=$state/slurm.conf"
        return 0
    fi
    down
    check_port
    trap 'down; exit 3' INT TERM
    if ! write_configuration || ! make_network || ! start_daemons; then
        show_logs
        down
        fail "the cluster did not come up"
    fi
    echo "SLURM_CONF=$state/slurm.conf"
}

is_node_alive() {
    local pid
    pid=$(cat "$state/n$1.pid" 2>/dev/null) &&
        { tr "\0" " " <"/proc/$pid/cmdline"; } 2>/dev/null | grep -q unshare
}
mend() { # STATES: as of wait_for_nodes
    export SLURM_CONF=$state/slurm.conf
    local i
    for ((i = 1; i <= nodes; i++)); do
        ip link set "${prefix}v$i" up
        is_node_alive "$i" || {
            echo "n$i: its slurmd was gone, and is started again" >&2
            start_node "$i"
        }
    done
    wait_for_nodes "$1" || fail "the nodes did not come back"
}
check_node() {
    { [[ ${1:-} =~ ^[1-9]$ ]] && [ "$1" -le "$nodes" ]; } || fail "which node, 1 to $nodes?"
}

case $action in
    up) up ;;
    kill)
        check_node "${3:-}"
        end_process "$state/n$3.pid" unshare KILL
        ;;
    cut)
        check_node "${3:-}"
        ip link set "${prefix}v$3" down
        ;;
    pause | resume)
        check_node "${3:-}"
        word=STOP
        [ "$action" = pause ] || word=CONT
        pkill "-$word" -x -P "$(cat "$state/n$3.pid")" slurmd
        ;;
    mend) mend "${3:-idle}" ;;
    restart)
        end_process "$state/slurmctld.pid" "$state" KILL
        sleep "${3:-0}"
        (close_files && SLURM_CONF=$state/slurm.conf exec slurmctld -f "$state/slurm.conf") || fail "no controller"
        ;;
    down)
        [ "$(id -u)" -eq 0 ] || skip "needs root"
        down
        ;;
    conf) echo "$state/slurm.conf" ;;
    *)
        echo "usage: slurm_cluster.sh up|down|conf|kill|cut|pause|resume|mend|restart [test|play|bench] [NODE|SECONDS]" >&2
        exit 2
        ;;
esac
