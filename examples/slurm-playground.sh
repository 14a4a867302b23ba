#!/usr/bin/env bash
# A real Slurm cluster of four nodes on this machine, to try `plan` and `runner` on before the real one.
#
#   sudo examples/slurm-playground.sh up         starts it, or what of it is dead, and says how to use it
#   sudo examples/slurm-playground.sh tour       a run's life in five minutes: submitted, watched, a node
#                                                killed under it, going on with three
#   sudo examples/slurm-playground.sh kill N     node N (1 to 4) dies, with all that runs on it
#   sudo examples/slurm-playground.sh mend       dead nodes come back
#   sudo examples/slurm-playground.sh down       stops it and removes every trace
#
# The nodes are network namespaces (Linux, root). Nothing of an existing Slurm installation is touched.
set -euo pipefail
cd "$(dirname "$0")/.."

case ${1:-} in
    up | tour | kill | mend | down) ;;
    *)
        echo "usage: examples/slurm-playground.sh up|tour|kill N|mend|down" >&2
        exit 2
        ;;
esac
if [ "$(id -u)" -ne 0 ]; then
    echo "network namespaces need root: sudo examples/slurm-playground.sh $*" >&2
    exit 3
fi

up() { # sets line
    local status=0
    bash tests/install.sh test
    line=$(bash tests/cluster/slurm_cluster.sh up play) || status=$?
    if [ $status -ne 0 ]; then
        [ -z "$line" ] || echo "${line#SKIP: }" >&2
        exit 3
    fi
    bash examples/make_text.sh
}

key() { # KEY: of the run's status
    build/plan status "$folder" --json 2>/dev/null | sed -nE "s/^\t*\"$1\":\t\"?([^\",]*)\"?,?\$/\1/p" | head -n 1
}

# Shows a command and runs it.
try() {
    printf '\n$ %s\n' "${*/#build\/plan/plan}"
    "$@"
}

tour() {
    folder=runs/playground-tour
    if [ ! -x build/plan ] || [ ! -x build/runner ]; then
        echo "build it first: examples/quickstart.sh" >&2
        exit 3
    fi
    export "${line?}"
    rm -rf "$folder"
    echo "A run that may have three nodes or four, saves every 10 steps, and continues by itself:"
    try build/plan submit configs/runs/quickstart-slurm.yaml --set directory="$PWD/$folder" \
        --set nodes=3-4 --set mesh_dim=auto --set slurm.continue=requeue --set checkpoint.every_steps=10
    until [ "$(key checkpoint)" != null ]; do
        case $(key state) in done | failed | stopped | lost) break ;; esac
        sleep 2
    done
    try build/plan status "$folder"
    printf '\nNow node 3 dies:\n'
    try bash tests/cluster/slurm_cluster.sh kill play 3
    local attempt
    attempt=$(key attempt)
    until [ "$(key attempt)" != "$attempt" ]; do
        case $(key state) in done | failed | stopped | lost) break ;; esac
        sleep 2
    done
    printf '\nIt resumes from its checkpoint with the other three:\n'
    try build/plan status "$folder"
    local status=0
    try build/plan status --watch "$folder" || status=$?
    try build/plan status "$folder"
    try build/plan runs runs
    try bash tests/cluster/slurm_cluster.sh mend play
    exit $status
}

case $1 in
    up)
        up
        cat <<END
Four nodes, two ranks each, partition 'play' (configs/clusters/playground.yaml). Now:

    export $line
    build/plan submit configs/runs/quickstart-slurm.yaml
    build/plan status runs/quickstart-slurm --watch
    build/plan logs -f runs/quickstart-slurm
    build/plan cancel runs/quickstart-slurm
    build/plan runs

A life in five minutes, with a node that dies: sudo examples/slurm-playground.sh tour
Stop it with: sudo examples/slurm-playground.sh down
END
        ;;
    tour)
        up
        tour
        ;;
    kill) bash tests/cluster/slurm_cluster.sh kill play "${2:-}" ;;
    mend) bash tests/cluster/slurm_cluster.sh mend play ;;
    down) bash tests/cluster/slurm_cluster.sh down play ;;
esac
