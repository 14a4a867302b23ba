#!/usr/bin/env bash
# Slurm's settings against a controller without nodes: random valid runs and hostile values.
#
#   tests/cluster/test_settings.sh [BUILD-FOLDER [RUNS [VALUES]]]     exit code 77: this machine cannot
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
rm -rf "$build/slurm-settings"
python3 tests/cluster/settings.py "$build/plan" "$build/slurm-settings" "${2:-40}" "${3:-300}"
