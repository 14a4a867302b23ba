#!/usr/bin/env bash
# However many runs are watched, Slurm's controller is asked at most once every 5 s: a thousand jobs
# that are held, on a controller without nodes, and what it counted itself.
#
#   tests/cluster/test_polling.sh [BUILD-FOLDER]      exit code 77: this machine cannot (said why)
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
build=$(cd "${1:-build}" && pwd) || exit 2
out=$build/polling-test
jobs=1000
seconds=17

fail() {
    echo "FAIL: $*"
    exit 1
}
line=$(bash tests/cluster/controller.sh up nodes 8)
status=$?
if [ $status -ne 0 ]; then
    echo "$line"
    exit $status
fi
export SLURM_CONF=${line#SLURM_CONF=}
trap 'bash tests/cluster/controller.sh down "$SLURM_CONF"' EXIT
trap 'exit 3' INT TERM

rm -rf "$out"
mkdir -p "$out"
printf '#!/bin/sh\nsleep 1\n' >"$out/job.sh"
for ((i = 0; i < jobs; i++)); do
    id=$(sbatch --parsable --hold -o /dev/null "$out/job.sh") || fail "sbatch"
    mkdir "$out/$i"
    cat >"$out/$i/submission.json" <<END
{"schema": "shardwright.submission/1", "state": "submitted", "jobs": ["$id"], "token": "t$i", "run": "run-$i", "attempt": 1,
"plan_digest": "0123456789abcdef", "plan": "/p", "script_digest": "0123456789abcdef", "script": "/s$i", "log": "/l",
"checkpoints": "/c", "submitted_at": "", "cluster": "c", "mesh_dim": "1,1,1,1", "nodes": 1, "ranks": 1, "steps": 10,
"predicted_step_seconds": 0.5, "band_low_seconds": null, "band_high_seconds": null, "predicted_run_seconds": null}
END
done

asked() { # of all kinds but sdiag's own
    sdiag | awk '/by message type/ { on = 1; next } /by user/ { on = 0 }
        on && /count:/ && !/REQUEST_STATS_INFO|MESSAGE_|PING/ { sub(/.*count:/, ""); n += $1 } END { print n + 0 }'
}
before=$(asked)
timeout --signal=INT $seconds "$build/plan" runs --watch --json "$out" >"$out/said" 2>"$out/said.err"
count=$(($(asked) - before))
[ -s "$out/said" ] || fail "nothing was told: $(cat "$out/said.err")"
for word in '"state":"pending"' '"scheduler_state":"PENDING"' '"reason":"JobHeldUser\|"reason":"JobHeldAdmin'; do
    [ "$(head -n 1 "$out/said" | grep -o "$word" | wc -l)" -eq $jobs ] || fail "not $jobs times $word"
done
most=$((1 + seconds / 5))
{ [ $count -ge 1 ] && [ $count -le $most ]; } || fail "$count calls in $seconds s, not 1 to $most"
rm -rf "$out"
echo "$jobs jobs watched for $seconds s: $count calls of the controller"
