#!/usr/bin/env bash
# Slurm's settings against a controller without nodes: random valid runs and hostile values.
#
#   tests/cluster/test_settings.sh [BUILD-FOLDER [RUNS [VALUES [FOLDER]]]]
#       FOLDER keeps what held: an interrupted trial goes on there. Exit code 77: this machine cannot
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
build=$(cd "${1:-build}" && pwd) || exit 2
line=$(bash tests/cluster/controller.sh up nodes 8) || {
    status=$?
    echo "$line"
    exit $status
}
export SLURM_CONF=${line#SLURM_CONF=}
trap 'bash tests/cluster/controller.sh down "$SLURM_CONF"' EXIT
trap 'exit 3' INT TERM
folder=${4:-$build/slurm-settings}
[ -n "${4:-}" ] || rm -rf "$folder"
python3 tests/cluster/settings.py "$build/plan" "$folder" "${2:-40}" "${3:-300}"
