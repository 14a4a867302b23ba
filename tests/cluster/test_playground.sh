#!/usr/bin/env bash
# The cluster of the playground: a dead slurmd is started again, a taken port is said at once, nothing
# of the caller's stays open, and who is not root is told what to type.
#
#   tests/cluster/test_playground.sh [BUILD-FOLDER [CLUSTER]]      exit code 77: this machine cannot (said why)
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
build=$(cd "${1:-build}" && pwd) || exit 2
cluster=${2:-test}
out=$build/playground-test
script=tests/cluster/slurm_cluster.sh

fail() {
    echo "FAIL: $*"
    exit 1
}
rm -rf "$out"
mkdir -p "$out"

if unshare --user true 2>/dev/null; then
    unshare --user bash examples/slurm-playground.sh up >"$out/said" 2>&1
    [ $? -eq 3 ] || fail "not root: not exit 3: $(cat "$out/said")"
    [ "$(cat "$out/said")" = "network namespaces need root: sudo examples/slurm-playground.sh up" ] ||
        fail "not root: $(cat "$out/said")"
fi
bash examples/slurm-playground.sh >"$out/said" 2>&1
[ $? -eq 2 ] || fail "without a word: not exit 2"

exec 9>"$out/nine"
line=$(bash $script up "$cluster")
status=$?
exec 9>&-
if [ $status -ne 0 ]; then
    echo "$line"
    exit $status
fi
trap 'bash $script down "$cluster"' EXIT
trap 'exit 3' INT TERM
export SLURM_CONF=${line#SLURM_CONF=}
port=$(sed -n 's/^SlurmctldPort=//p' "$SLURM_CONF")
for file in /proc/[0-9]*/fd/*; do
    [ "$(readlink "$file")" != "$out/nine" ] || fail "$file: a file of the caller's"
done

bash $script kill "$cluster" 3
bash $script up "$cluster" >"$out/said" 2>&1 || fail "up with a dead node: $(cat "$out/said")"
grep -qx 'n3: its slurmd was gone, and is started again' "$out/said" || fail "up with a dead node: $(cat "$out/said")"
srun -w n3 -N1 -n1 true || fail "n3 runs nothing"
bash $script up "$cluster" >"$out/said" 2>&1 || fail "up while up"
[ "$(cat "$out/said")" = "$line" ] || fail "up while up: $(cat "$out/said")"

bash $script down "$cluster"
python3 -c 'import socket, sys, time
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("0.0.0.0", int(sys.argv[1])))
s.listen()
print("listens", flush=True)
time.sleep(60)' "$port" >"$out/listener" &
listener=$!
for ((i = 0; i < 50; i++)); do
    [ -s "$out/listener" ] && break
    sleep 0.1
done
begun=$SECONDS
bash $script up "$cluster" >"$out/said" 2>&1
status=$?
kill "$listener"
[ $status -eq 3 ] || fail "a taken port: exit $status"
[ $((SECONDS - begun)) -le 5 ] || fail "a taken port: said after $((SECONDS - begun)) s"
grep -qx "slurm_cluster: port $port is taken by python3 (pid $listener); end it first" "$out/said" ||
    fail "a taken port: $(cat "$out/said")"
echo "the playground mends itself, and says what it lacks"
