#!/usr/bin/env bash
# Makes the network of slurm_cluster.sh's nodes as slow as a real one, or undoes it.
#
#   throttle.sh NAME RATE     each node sends and receives at most RATE (tc's form: 400mbit)
#   throttle.sh NAME off      as fast as this machine again
#   throttle.sh NAME show     what is set, one line per node
#
# NAME: test, play or bench; the cluster must be up. A token bucket (tc-tbf) sits at both ends of
# every node's cable: what the node sends waits in the node, what it gets waits at the bridge.
# Exit code 77 and one line "SKIP: ..." when this machine cannot do it.
set -uo pipefail

name=${1:-} rate=${2:-}
nodes=4
prefix=sw$name
# The bucket: what may pass at once, just more than one 64 KiB segment that the kernel hands down
# whole.
burst=68kb
# What may wait: more than eight ranks' socket buffers hold, so that nothing is dropped. A cable
# does not drop either.
limit=16mb

usage() {
    echo "usage: throttle.sh test|play|bench RATE|off|show" >&2
    exit 2
}
fail() {
    echo "throttle: $*" >&2
    exit 3
}

case $name in test | play | bench) ;; *) usage ;; esac
[ -n "$rate" ] || usage
if [ "$rate" != off ] && [ "$rate" != show ] &&
    ! [[ $rate =~ ^[1-9][0-9]*(kbit|mbit|gbit)$ ]]; then
    echo "throttle: '$rate' is no rate; write for example 400mbit" >&2
    exit 2
fi
command -v tc >/dev/null 2>&1 || { echo "SKIP: throttle: 'tc' is not installed (iproute2)"; exit 77; }
[ "$(id -u)" -eq 0 ] || { echo "SKIP: throttle: needs root"; exit 77; }
ip link show "${prefix}v1" >/dev/null 2>&1 ||
    fail "the cluster '$name' is not up; start it with slurm_cluster.sh up $name"

for ((i = 1; i <= nodes; i++)); do
    case $rate in
        off)
            # Deleting what is not there is no mistake.
            tc qdisc del dev "${prefix}v$i" root 2>/dev/null
            tc -n "${prefix}n$i" qdisc del dev eth0 root 2>/dev/null
            ;;
        show) echo "n$i: $(tc -n "${prefix}n$i" qdisc show dev eth0 | head -n 1)" ;;
        *)
            tc qdisc replace dev "${prefix}v$i" root tbf rate "$rate" burst $burst limit $limit ||
                fail "tc cannot throttle what node n$i receives"
            tc -n "${prefix}n$i" qdisc replace dev eth0 root tbf rate "$rate" burst $burst \
                limit $limit || fail "tc cannot throttle what node n$i sends"
            ;;
    esac
done
exit 0
