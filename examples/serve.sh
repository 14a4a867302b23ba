#!/usr/bin/env bash
# The quickstart's model behind HTTP, on the eight ranks that trained it: starts the server, asks it
# something with curl, and stops it. Where nothing was trained yet it trains for a few steps first
# (quickstart.sh), so that what the model says is short of sense.
#
#   examples/serve.sh          asks, and stops
#   examples/serve.sh stay     goes on until Ctrl-C: open the address that it prints in a browser
#
# SW_QUICKSTART_OUT=DIR and SW_QUICKSTART_STEPS=N are as in quickstart.sh (here 40 steps).
set -euo pipefail
cd "$(dirname "$0")/.."

out=${SW_QUICKSTART_OUT:-runs/quickstart}
if [ ! -e "$out/checkpoints/latest" ] || [ ! -x build/runner ]; then
    SW_QUICKSTART_STEPS=${SW_QUICKSTART_STEPS:-40} bash examples/quickstart.sh
fi
# as the script that plan emit wrote starts ranks on one machine
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_hwloc_base_binding_policy=none OMP_NUM_THREADS=1
if [ "$(id -u)" -eq 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi

log=$(mktemp)
server=''
stop() { # mpirun passes 40 on as it is; TERM it follows with KILL
    [ -z "$server" ] || kill -40 "$server" 2>/dev/null || true
    wait || true
    rm -f "$log"
}
trap stop EXIT
mpirun -q --mca ess_base_forward_signals 40,41 -np 8 build/runner serve "$out/quickstart.plan.yaml" --checkpoint "$out" \
    --listen 127.0.0.1:0 >"$log" 2>&1 </dev/null &
server=$!
until url=$(sed -n 's/^serving .* at \(http[^ ]*\): .*/\1/p' "$log") && [ -n "$url" ]; do
    if ! kill -0 "$server" 2>/dev/null; then
        cat "$log" >&2
        exit 3
    fi
    sleep 0.2
done
cat "$log"

printf '\n== curl %s/v1/completions: how the text goes on, word by word\n' "$url"
curl -sS -N "$url/v1/completions" -H 'Content-Type: application/json' \
    -d '{"prompt": "A hacker is ", "max_tokens": 32, "temperature": 0, "stream": true}' |
    sed -n 's/.*"text":"\(\([^"\\]\|\\.\)*\)".*/\1/p' | tr -d '\n'
printf '\n\n== three others, drawn, as one answer\n'
curl -sS "$url/v1/completions" -H 'Content-Type: application/json' \
    -d '{"prompt": "A hacker is ", "max_tokens": 32, "temperature": 0.8, "seed": 7, "n": 3}'
if [ "${1:-}" = stay ]; then
    printf '\n== open %s in a browser; Ctrl-C ends it\n' "$url"
    trap 'kill -40 "$server" 2>/dev/null' INT TERM
    wait "$server" || wait "$server" || true
    server=''
fi
