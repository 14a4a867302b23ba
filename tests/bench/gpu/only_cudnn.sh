#!/usr/bin/env bash
# Runs `runner` for a benchmark, and ends it as soon as it says that attention is not cuDNN's: with
# our own kernels a step in bf16 takes fifty times as long, and the figures are not what they seem.
#
#   only_cudnn.sh COMMAND...     its exit code; 1 when it was ended
set -uo pipefail
log=$(mktemp) || exit 3
trap 'rm -f "$log"' EXIT
"$@" >"$log" 2>&1 &
pid=$! line=
while [ -z "$line" ]; do
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
    line=$(grep -m1 'attention: ' "$log")
done
[ -n "$line" ] || line=$(grep -m1 'attention: ' "$log")
case $line in
    *'attention: cuDNN'* | '') ;;
    *)
        kill "$pid" 2>/dev/null
        wait "$pid" 2>/dev/null
        cat "$log"
        echo "attention is not cuDNN's, but ${line##*attention: }; not measured:" \
            "install libcudnn9-cuda-13, or name its folder with CUDNN_PATH, and build again"
        exit 1
        ;;
esac
wait "$pid"
code=$?
cat "$log"
exit "$code"
