#!/usr/bin/env bash
# A real Slurm cluster of four nodes on this machine, to try `plan` and `runner` on before the real one.
#
#   sudo examples/slurm-playground.sh up      starts it, says how to use it
#   sudo examples/slurm-playground.sh down    stops it and removes every trace
#
# The nodes are network namespaces (Linux, root). Nothing of an existing Slurm installation is touched.
set -euo pipefail
cd "$(dirname "$0")/.."

case ${1:-} in
    up)
        bash tests/install.sh test
        status=0
        line=$(bash tests/cluster/slurm_cluster.sh up play) || status=$?
        if [ $status -ne 0 ]; then
            echo "$line" >&2
            exit $status
        fi
        bash examples/make_text.sh
        cat <<END
Four nodes, two ranks each, partition 'play' (configs/clusters/playground.yaml). Now:

    export $line
    sinfo
    build/plan emit configs/runs/quickstart-slurm.yaml -o runs/quickstart-slurm
    sbatch runs/quickstart-slurm/quickstart-slurm.sbatch
    squeue
    tail -f runs/quickstart-slurm/metrics.jsonl

Stop it with: examples/slurm-playground.sh down
END
        ;;
    down) bash tests/cluster/slurm_cluster.sh down play ;;
    *)
        echo "usage: examples/slurm-playground.sh up|down" >&2
        exit 2
        ;;
esac
