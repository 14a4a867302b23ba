#!/usr/bin/env bash
# plan import-cluster, and the answers that it rests on, with real controllers of 8, 512 and 10,000
# nodes; and what plan says when there is none.
#
#   tests/cluster/test_import.sh BUILD-FOLDER       exit code 77: this machine cannot (said why)
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
build=$(cd "${1:-build}" && pwd) || exit 2
plan=$build/plan
scratch=$build/tests/import
rm -rf "$scratch"
mkdir -p "$scratch/clusters"
ln -s "$PWD/configs/accelerators" "$PWD/configs/curves" "$scratch/"
bad=0
started=()
paused=

complain() {
    echo "FAIL: $*"
    bad=$((bad + 1))
}
# up ARGUMENTS...: a controller; SLURM_CONF is set.
up() {
    local line status
    line=$(bash tests/cluster/controller.sh up "$@")
    status=$?
    if [ $status -ne 0 ]; then
        echo "$line"
        exit $status
    fi
    export SLURM_CONF=${line#SLURM_CONF=}
    started+=("$SLURM_CONF")
}
# shellcheck disable=SC2317 # the trap calls it
end() {
    local conf
    [ -z "$paused" ] || kill -CONT "$paused" 2>/dev/null
    for conf in "${started[@]}"; do bash tests/cluster/controller.sh down "$conf"; done
}
trap end EXIT
trap 'exit 3' INT TERM
# holds FILE LINE...: each line stands in the file
holds() {
    local file=$1 line
    shift
    for line in "$@"; do
        grep -qxF -- "$line" "$file" || complain "$file lacks '$line': $(cat "$file")"
    done
}
# says LINE STATUS COMMAND...: what comes on stderr, alone, and without a hang: within five seconds, and
# as many again because other tests have the processors too
says() {
    local line=$1 status=$2
    shift 2
    timeout 10 "$@" >"$scratch/stdout" 2>"$scratch/stderr"
    [ $? -eq "$status" ] || complain "$*: not exit code $status"
    [ "$(cat "$scratch/stderr")" = "$line" ] || complain "$* says '$(cat "$scratch/stderr")', not '$line'"
}
compare() {
    [ -x "$build/plan-slurm" ] || return 0
    "$build/slurm_backings" >"$scratch/compared" 2>&1 || complain "the backings: $(cat "$scratch/compared")"
}
# seconds COMMAND...: the processor time of a command and all that it starts. It is printed, not
# judged: a sanitizer's build and a slow machine take several times as long.
seconds() {
    { TIMEFORMAT='%U %S'; time "$@" >/dev/null 2>&1; } 2>&1 | awk '{printf "%.2f s", $1 + $2}'
}

# Eight nodes: a whole file, to the byte.
up nodes 8
"$plan" import-cluster >"$scratch/eight.yaml" 2>"$scratch/stderr" || complain "import: $(cat "$scratch/stderr")"
holds "$scratch/eight.yaml" 'name: shardwright-gpu' 'nodes: 8' 'accelerators_per_node: 8' '  name: h100-sxm-80gb' \
    'host_memory: 2000000 MiB' '  - {name: nvlink, spans: node, bandwidth: 450 GB/s, launch: 4.5 us, latency: 0.81 us,' \
    '  - {name: leaf, spans: 32, bandwidth: 400 Gb/s, latency: 6 us,' \
    '  - {name: spine, spans: all, bandwidth: 400 Gb/s, latency: 6 us,' 'launcher: slurm' '  partition: gpu' \
    "  time: '2-00:00:00'" "  gpus_per_node: 'h100:8'" '  cpus_per_task: 12' \
    "# note: accelerator: 'h100' does not say which; assumed SXM (others are PCIe cards)" \
    '# note: no accounting (sacctmgr): limits of accounts and qos are not known'
"$plan" check "$scratch/eight.yaml" >"$scratch/stdout" 2>&1 || complain "check: $(cat "$scratch/stdout")"
"$plan" search configs/runs/llama-8b-64.yaml --set cluster="$scratch/eight.yaml" --json >"$scratch/stdout" \
    2>"$scratch/stderr" || complain "search: $(cat "$scratch/stderr")"
grep -qP '"accelerators":\s*64,' "$scratch/stdout" || complain "the imported cluster has not 64 accelerators"
"$plan" import-cluster --partition short >"$scratch/stdout" 2>/dev/null || complain "import --partition"
holds "$scratch/stdout" '  partition: short' '  time: '"'"'0:30:00'"'"
"$plan" import-cluster --partition all >"$scratch/stdout" 2>/dev/null || complain "import --partition"
grep -q ' time:' "$scratch/stdout" && complain "a partition without a limit has a time"
says "plan: error: the controller has no partition 'nosuch'; it has gpu, short, all" 2 "$plan" import-cluster \
    --partition nosuch
says "plan: error: import-cluster reads the controller, not a file: 'x.yaml'; did you mean '--into x.yaml'?" 2 "$plan" \
    import-cluster x.yaml
says "$scratch/eight.yaml: error: already exists: --into $scratch/eight.yaml merges, and keeps what was measured" 2 \
    "$plan" import-cluster -o "$scratch/eight.yaml"
says "$scratch/absent.yaml: error: cannot open it: No such file or directory" 2 "$plan" import-cluster --into \
    "$scratch/absent.yaml"
compare

# Beside configs/accelerators it names the files; down nodes are left out, and said.
scontrol update nodename=gpu7 state=down reason=test 2>/dev/null
"$plan" import-cluster -o "$scratch/clusters/here.yaml" >"$scratch/stdout" 2>"$scratch/stderr" ||
    complain "import -o: $(cat "$scratch/stderr")"
holds "$scratch/clusters/here.yaml" 'nodes: 7' 'accelerator: ../accelerators/h100-sxm-80gb.yaml' \
    '     efficiency: ../curves/nccl-network.yaml}' '# note: 1 node down, and not counted: gpu7'
holds "$scratch/stdout" "wrote $scratch/clusters/here.yaml: 7 nodes of 8 h100-sxm-80gb, partition gpu"
holds "$scratch/stderr" "$scratch/clusters/here.yaml: note: 1 node down, and not counted: gpu7"
"$plan" check "$scratch/clusters/here.yaml" >"$scratch/stdout" 2>&1 || complain "check: $(cat "$scratch/stdout")"
compare

# Into a file: what was measured or written by hand stays, to the byte.
cat >"$scratch/clusters/mine.yaml" <<'END'
# Ours. Measured on a Tuesday.
name: ours   # ü
accelerator: ../accelerators/h100-sxm-80gb.yaml
accelerators_per_node: 8
nodes: 4     # rented

links:
  - {name: nvlink, spans: node, bandwidth: 391 GB/s, latency: 4.1 us} # measured
  # measured, too
  - {name: ib, spans: all, bandwidth: 44 GB/s, latency: 7.7 us}
slurm: {partition: gpu, time: '3-00:00:00', cpus_per_task: 8, account: physics} # ask Eve
reliability: {failures_per_1000_node_days: 9}
END
cp "$scratch/clusters/mine.yaml" "$scratch/before.yaml"
"$plan" import-cluster --into "$scratch/clusters/mine.yaml" >"$scratch/stdout" 2>"$scratch/stderr" ||
    complain "import --into: $(cat "$scratch/stderr")"
diff "$scratch/before.yaml" "$scratch/clusters/mine.yaml" >"$scratch/changed"
cat >"$scratch/expected" <<'END'
5c5
< nodes: 4     # rented
---
> nodes: 7     # rented
11c11
< slurm: {partition: gpu, time: '3-00:00:00', cpus_per_task: 8, account: physics} # ask Eve
---
> slurm: {partition: gpu, time: '2-00:00:00', cpus_per_task: 8, account: physics, slurm_version: 'VERSION', gpus_per_node: 'h100:8', topology: tree, leaf_nodes: 4, max_switch_wait: 300 s} # ask Eve
12a13
> host_memory: 2000000 MiB
END
sed -i "s/VERSION/$(scontrol --version | cut -d ' ' -f 2)/" "$scratch/expected"
diff "$scratch/expected" "$scratch/changed" || complain "import --into changes something else"
holds "$scratch/stderr" "$scratch/clusters/mine.yaml: note: nodes: 4 became 7" \
    "$scratch/clusters/mine.yaml: note: slurm.time: 3-00:00:00 became '2-00:00:00'" \
    "$scratch/clusters/mine.yaml: note: links are kept; 4 nodes, 32 accelerators, are under one switch: see that a link spans them"
cp "$scratch/clusters/mine.yaml" "$scratch/before.yaml"
"$plan" import-cluster --into "$scratch/clusters/mine.yaml" >/dev/null 2>&1 || complain "import --into again"
cmp "$scratch/before.yaml" "$scratch/clusters/mine.yaml" || complain "a second import changes something"
"$plan" import-cluster --into "$scratch/before.yaml" --partition short -o "$scratch/clusters/other.yaml" >/dev/null 2>&1 ||
    complain "import --into -o"
cmp -s "$scratch/before.yaml" "$scratch/clusters/mine.yaml" || complain "--into with -o changes its file"
grep -q "partition: 'short', time: '0:30:00'" "$scratch/clusters/other.yaml" || complain "--into with --partition"

# Without libslurm's program, the commands give the same bytes.
if [ -x "$build/plan-slurm" ]; then
    mkdir -p "$scratch/bin"
    cp "$plan" "$scratch/bin/plan"
    "$plan" import-cluster >"$scratch/library.yaml" 2>/dev/null
    "$scratch/bin/plan" import-cluster >"$scratch/commands.yaml" 2>/dev/null
    cmp "$scratch/library.yaml" "$scratch/commands.yaml" || complain "the commands say something else"
    "$plan" --version | grep -qE '^  libslurm: [0-9]+\.[0-9]+\.[0-9]+$' || complain "--version lacks libslurm"
    "$scratch/bin/plan" --version | grep -q '^  libslurm: none (Slurm is asked by its commands; ' || complain "--version without libslurm"
    plan=$scratch/bin/plan
    # and without either
    says "plan: error: there is no 'scontrol' on this machine; do this where Slurm's commands are (Debian: slurm-client)" \
        3 env PATH=/nowhere "$plan" import-cluster
    plan=$build/plan
fi

# No configuration, one that is none, a controller that is down, one that hangs.
says "plan: error: Slurm's configuration '/nowhere/slurm.conf' cannot be read: No such file or directory; set SLURM_CONF to the slurm.conf of the cluster, or unset it" \
    3 env SLURM_CONF=/nowhere/slurm.conf "$plan" import-cluster
echo 'Nonsense=1' >"$scratch/slurm.conf"
says "plan: error: cannot query Slurm: Unable to process configuration file; do this on a machine of the cluster, or set SLURM_CONF to its slurm.conf" \
    3 env SLURM_CONF="$scratch/slurm.conf" "$plan" import-cluster
paused=$(cat "$(dirname "$SLURM_CONF")/slurmctld.pid")
kill -STOP "$paused"
says "plan: error: the Slurm controller does not answer within 3.5 s; see 'scontrol ping'" 3 "$plan" import-cluster
kill -CONT "$paused"
paused=
# a port where nobody listens
port=$(python3 -c 'import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])')
sed "s/^SlurmctldPort=.*/SlurmctldPort=$port/" "$SLURM_CONF" >"$scratch/down.conf"
says "plan: error: the Slurm controller does not answer within 3.5 s; see 'scontrol ping'" 3 \
    env SLURM_CONF="$scratch/down.conf" "$plan" import-cluster

# Two kinds of GPUs, types that are written in full, a partition with limits, and no topology.
cat >"$scratch/mixed.conf" <<'END'
NodeName=old[1-3] CPUs=64 Boards=1 SocketsPerBoard=2 CoresPerSocket=16 ThreadsPerCore=2 RealMemory=500000 MemSpecLimit=4000 Gres=gpu:nvidia_a100-sxm4-40gb:4 State=CLOUD
NodeName=odd[1-2] CPUs=16 Boards=1 SocketsPerBoard=1 CoresPerSocket=16 ThreadsPerCore=1 RealMemory=100000 Gres=gpu:v100:2 State=CLOUD
NodeName=thin[01-12] CPUs=32 Boards=1 SocketsPerBoard=2 CoresPerSocket=16 ThreadsPerCore=1 RealMemory=64000 State=CLOUD
PartitionName=old Nodes=old[1-3],thin[01-02] MaxTime=1:00:00 MaxNodes=2 AllowAccounts=physics,chemistry State=UP
PartitionName=odd Nodes=odd[1-2] State=UP
PartitionName=thin Nodes=thin[01-12] State=UP
PartitionName=tight Nodes=old[1-3] MaxMemPerNode=300000 DefMemPerNode=1000 TRESBillingWeights=CPU=1.0,Mem=0.25G ReqResv=YES RootOnly=YES State=UP
PartitionName=cores Nodes=old[1-3] MaxMemPerCPU=4000 DefMemPerCPU=500 OverSubscribe=EXCLUSIVE State=UP
MaxArraySize=4001
MaxMemPerCPU=9000
SchedulerParameters=bf_continue,max_array_tasks=500
END
up nodes 2 leaf 0 conf "$scratch/mixed.conf"
"$plan" import-cluster --partition old >"$scratch/old.yaml" 2>/dev/null || complain "import of old"
holds "$scratch/old.yaml" 'nodes: 2' 'accelerators_per_node: 4' '  name: a100-sxm-40gb' 'host_memory: 496000 MiB' \
    "  time: '1:00:00'" "  gpus_per_node: 'nvidia_a100-sxm4-40gb:4'" '  cpus_per_task: 16' \
    '  - {name: infiniband, spans: all, bandwidth: 200 Gb/s, latency: 6 us,' \
    '# note: 2 nodes of partition old with other accelerators left out: thin[01-02]' \
    '# note: partition old has 3 such nodes, and gives a job at most 2' \
    '# note: only these accounts may use the partition: physics,chemistry' \
    '# note: the controller knows no topology: one network joins all nodes, as far as is known'
"$plan" import-cluster --partition thin >"$scratch/thin.yaml" 2>/dev/null || complain "import of thin"
holds "$scratch/thin.yaml" 'nodes: 12' 'accelerators_per_node: 32' '  name: cpu-core' '  cpus_per_task: 1' \
    '  - {name: network, spans: all, bandwidth_per_node: 10 Gb/s, latency: 50 us, rails: false}'
grep -q gpus_per_node "$scratch/thin.yaml" && complain "nodes without GPUs ask for some"
"$plan" import-cluster --partition tight >"$scratch/tight.yaml" 2>/dev/null || complain "import of tight"
holds "$scratch/tight.yaml" "  mem: '300000M'" '# note: partition tight takes only jobs of a reservation: set slurm.reservation'
"$plan" import-cluster --partition cores >"$scratch/cores.yaml" 2>/dev/null || complain "import of cores"
holds "$scratch/cores.yaml" "  mem: '256000M'"
for file in old thin tight cores; do
    "$plan" check "$scratch/$file.yaml" >"$scratch/stdout" 2>&1 || complain "check: $(cat "$scratch/stdout")"
done
"$plan" import-cluster --partition odd >"$scratch/odd.yaml" 2>/dev/null || complain "import of odd"
holds "$scratch/odd.yaml" 'accelerator: v100.yaml' \
    "# note: no data sheet is shipped for gres type 'v100': write its accelerator file ('plan schema" \
    '# accelerator'"'"') and name it with --accelerator FILE'
sed 's/h100-sxm-80gb/v100/' configs/accelerators/h100-sxm-80gb.yaml >"$scratch/v100.yaml"
"$plan" check "$scratch/odd.yaml" >"$scratch/stdout" 2>&1 || complain "check: $(cat "$scratch/stdout")"
compare

# 512 and 10,000 nodes: right, and soon.
for count in 512 10000; do
    up nodes $count
    "$plan" import-cluster -o "$scratch/clusters/$count.yaml" >/dev/null 2>"$scratch/stderr" ||
        complain "import of $count: $(cat "$scratch/stderr")"
    holds "$scratch/clusters/$count.yaml" "nodes: $count" 'accelerators_per_node: 8' \
        '  - {name: leaf, spans: 256, bandwidth: 400 Gb/s, latency: 6 us,' '  partition: gpu'
    "$plan" check "$scratch/clusters/$count.yaml" >"$scratch/stdout" 2>&1 || complain "check: $(cat "$scratch/stdout")"
    echo "import of $count nodes: $(seconds "$plan" import-cluster) of processor time"
    [ ! -x "$scratch/bin/plan" ] || echo "with Slurm's commands: $(seconds "$scratch/bin/plan" import-cluster)"
    compare
done

[ $bad -eq 0 ] && echo "import-cluster: eight to 10,000 nodes"
exit $((bad > 0))
