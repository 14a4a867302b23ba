#!/usr/bin/env bash
# The script of a job that makes texts, scores or serves, and what 'plan status' tells of it, with stand-ins
# for Slurm's commands: parts of an array are the whole; a job that is ended at its limit is requeued and
# goes on; a server is announced when it listens; values of any kind reach the runner as they are.
#
#   tests/unit/test_inference_job.sh PLAN RUNNER SCRATCH      from the root of the tree
set -uo pipefail
plan=$(realpath "$1") && [ -x "$plan" ] || exit 2
runner=$(realpath "$2") && [ -x "$runner" ] || exit 2
# shellcheck source=tests/support/scratch.sh
. "$(dirname "$0")/../support/scratch.sh"
out=$(scratch_in "$3") && mkdir "$out/bin" || exit 2
export OMP_NUM_THREADS=1

fail() {
    echo "FAIL: $*"
    tail -n 20 "$out"/*.log 2>/dev/null
    exit 1
}
expect() { # CODE TEXT COMMAND...: of stderr and stdout together
    local code=$1 text=$2 status
    shift 2
    "$@" >"$out/said" 2>&1
    status=$?
    [ "$status" -eq "$code" ] || fail "$*: exit $status, not $code: $(cat "$out/said")"
    grep -qF -- "$text" "$out/said" || fail "$*: it does not say '$text' but: $(cat "$out/said")"
}

# srun starts the runner once; scancel ends what it started; scontrol knows one job, which runs.
cat >"$out/bin/srun" <<'END'
#!/usr/bin/env bash
while [[ "$1" == --* ]]; do shift; done
"$@" &
echo $! >"$STAND_IN/ranks.pid"
wait $!
END
cat >"$out/bin/scancel" <<'END'
#!/usr/bin/env bash
echo "scancel $*" >>"$STAND_IN/calls"
kill -TERM "$(cat "$STAND_IN/ranks.pid")"
END
cat >"$out/bin/scontrol" <<'END'
#!/usr/bin/env bash
if [ "$1" = show ]; then # once nothing, then what it is
    if [ -e "$STAND_IN/silent" ]; then rm "$STAND_IN/silent" && exit 1; fi
    echo "JobId=42 JobState=$(cat "$STAND_IN/state" 2>/dev/null || echo RUNNING)"
else
    echo "scontrol $*" >>"$STAND_IN/calls"
fi
END
export SHARDWRIGHT_PAUSE_SECONDS=0.1
cat >"$out/bin/squeue" <<'END'
#!/usr/bin/env bash
cat "$STAND_IN/squeue" 2>/dev/null || true
END
printf '#!/bin/sh\nexit 1\n' >"$out/bin/sacct"
chmod +x "$out/bin/"*
export STAND_IN=$out
job() { # SCRIPT ARGUMENT...: as Slurm would start it
    PATH=$out/bin:$PATH SLURM_JOB_ID=${id:-42} SLURM_JOB_NUM_NODES=1 bash "$@"
}

model=(--set cluster.launcher=slurm --set cluster.accelerators_per_node=1 --set 'mesh_dim=1,1,1,1'
    --set model.hidden_size=64 --set model.intermediate_size=96 --set model.num_hidden_layers=2
    --set model.num_attention_heads=4 --set model.num_key_value_heads=1
    --set model.tie_word_embeddings=true --set sequence_length=64 --set data.path="$out/text"
    --set optimizer.warmup_steps=0 --set optimizer.total_steps=1 --set serve.max_batch=3
    --set serve.max_tokens=256 --set slurm.time=1:00:00)
emit() { # FOLDER SETTING...
    "$plan" emit configs/runs/quickstart.yaml -o "$1" "${model[@]}" --set directory="$1" "${@:2}"
}
for ((i = 0; i < 400; i++)); do echo -n 'the quick brown fox jumps over the lazy dog. '; done >"$out/text"
emit "$out/trained" >"$out/emit.log" 2>&1 || fail "emit of a training"
"$runner" train "$out/trained/quickstart.plan.yaml" >"$out/train.log" 2>&1 </dev/null || fail "training"
weights=(--set job.checkpoint="$out/trained/checkpoints")
for ((i = 0; i < 12; i++)); do
    echo "{\"prompt\": \"text $i\", \"max_new_tokens\": $((60 + i * 37 % 120)), \"temperature\": 1}"
done >"$out/prompts.jsonl"
sed 's/"prompt": \("[^"]*"\).*/"text": \1}/' "$out/prompts.jsonl" >"$out/texts.jsonl"

# parts of an array are the file of one job
for type in generate score; do
    input=$out/prompts.jsonl flag=--prompts
    [ "$type" = generate ] || { input=$out/texts.jsonl flag=--texts; }
    emit "$out/$type" "${weights[@]}" --set job.type=$type --set job.input="$input" --set job.shards=3 \
        --set job.at_once=2 >"$out/emit.log" 2>&1 || fail "emit of $type"
    script=$out/$type/quickstart.sbatch
    bash -n "$script" || fail "$type: bash -n"
    if command -v shellcheck >/dev/null; then
        shellcheck "$script" >"$out/shellcheck.log" || fail "$type: shellcheck"
    fi
    grep -qx '#SBATCH --array=0-2%2' "$script" || fail "$type: no array"
    grep -qx "#SBATCH --output=$out/$type/slurm-%A_%a.out" "$script" || fail "$type: the log"
    "$plan" check "$out/$type/quickstart.plan.yaml" >"$out/check.log" 2>&1 || fail "$type: plan check"
    for task in 2 0 1; do
        id=$((43 + task)) SLURM_ARRAY_JOB_ID=42 SLURM_ARRAY_TASK_ID=$task job "$script" \
            >"$out/job.log" 2>&1 || fail "$type: task $task"
    done
    "$runner" $type "$out/$type/quickstart.plan.yaml" --checkpoint "$out/trained/checkpoints" \
        $flag "$input" -o "$out/whole.jsonl" 2>"$out/whole.log" || fail "$type: all at once"
    cat "$out/$type/$type.jsonl".*-of-00003 | cmp - "$out/whole.jsonl" || fail "$type: the parts are not the whole"
done

# what its folder tells when Slurm no longer knows it
record() { # FOLDER
    cat >"$1/submission.json" <<END
{"schema": "shardwright.submission/1", "state": "submitted", "jobs": ["42"], "token": "0123456789abcdef",
 "run": "quickstart", "attempt": 1, "plan_digest": "0123456789abcdef", "plan": "/x", "script_digest":
 "0123456789abcdef", "script": "/x", "log": "/x", "checkpoints": "/x", "submitted_at": "2026-11-22T11:30:00Z",
 "cluster": "c", "mesh_dim": "1,1,1,1", "nodes": 1, "ranks": 1, "steps": 0, "predicted_step_seconds": null,
 "band_low_seconds": null, "band_high_seconds": null, "predicted_run_seconds": null}
END
}
status() { PATH=$out/bin:$PATH "$plan" status "$@"; }
record "$out/generate"
expect 0 'quickstart: done, job 42' status "$out/generate"
expect 0 '  lines    12 of 12, in 3 parts, 3 of them done' status "$out/generate"
expect 0 "  output   $out/generate/generate.jsonl.*-of-*" status "$out/generate"
echo '42 1 3' >>"$out/generate/job.ended"
expect 0 'quickstart: failed, job 42' status "$out/generate"
expect 0 '  end      task 1 of the array ended with exit code 3' status "$out/generate"
expect 0 "  next     'plan submit' resumes it and keeps the lines that are finished" status "$out/generate"

# at its limit it is requeued, and goes on
emit "$out/limit" "${weights[@]}" --set job.type=generate --set job.input="$out/prompts.jsonl" \
    --set job.output="$out/limit/texts.jsonl" --set slurm.continue=requeue >"$out/emit.log" 2>&1 ||
    fail "emit with slurm.continue"
script=$out/limit/quickstart.sbatch
grep -qx '#SBATCH --signal=B:USR1@60' "$script" || fail "no signal before the limit"
grep -qx '#SBATCH --requeue' "$script" || fail "it cannot be requeued"
cat >"$out/slow" <<END # the runner, but for a while after its third line
#!/usr/bin/env bash
"$runner" "\$@" &
runner=\$!
# twelve lines take some thirty milliseconds: no program is started to count them
until { mapfile -t lines <"$out/limit/texts.jsonl"; } 2>/dev/null && [ \${#lines[@]} -ge 3 ]; do :; done
kill -STOP \$runner
trap 'kill -KILL \$runner; exit 143' TERM
touch "$out/slowed"
while :; do sleep 0.1; done
END
chmod +x "$out/slow"
# Nobody may look while all lines are made, on a machine with much to do: then once more.
for ((try = 0; try < 20; try++)); do
    rm -rf "$out/slowed" "$out/limit/texts.jsonl"*
    : >"$out/calls"
    echo SIGNALING >"$out/state" # while Slurm delivers the signal
    touch "$out/silent"
    PATH=$out/bin:$PATH SLURM_JOB_ID=42 SLURM_JOB_NUM_NODES=1 SHARDWRIGHT_RUNNER=$out/slow bash "$script" \
        >"$out/job.log" 2>&1 &
    process=$!
    for ((i = 0; i < 3000; i++)); do
        [ ! -e "$out/slowed" ] || break
        sleep 0.02
    done
    kill -USR1 "$process"
    ! wait "$process" || fail "a job that was ended at its limit ends with 0"
    there=$(wc -l <"$out/limit/texts.jsonl")
    [ "$there" -ge 12 ] || break
done
grep -qx 'scancel --signal=TERM 42' "$out/calls" || fail "the ranks were not told"
grep -qx 'scontrol requeue incomplete 42' "$out/calls" || fail "it was not requeued: $(cat "$out/job.log")"
[ ! -e "$out/limit/job.ended" ] || fail "it said that it has ended"
if [ "$there" -lt 3 ] || [ "$there" -ge 12 ]; then fail "$there lines were to be there"; fi
SLURM_RESTART_COUNT=1 job "$script" >"$out/job.log" 2>&1 || fail "it does not go on"
grep -q "^$there texts were there already; $((12 - there)) texts\?: " "$out/job.log" || fail "lines were made again"
cat "$out/generate/generate.jsonl".*-of-00003 | cmp - "$out/limit/texts.jsonl" || fail "another output after a requeue"
grep -qx '42 0 0' "$out/limit/job.ended" || fail "it did not say that it has ended"

# what makes nothing is not started a hundred times, and the log says what comes next
printf '#!/bin/sh\necho "error while loading shared libraries: libx.so" >&2; exit 127\n' >"$out/broken"
chmod +x "$out/broken"
cp "$out/limit/texts.jsonl" "$out/kept.jsonl"
: >"$out/calls"
SHARDWRIGHT_RUNNER=$out/broken expect 127 'it ended with exit code 127 without any output: it is not tried again' job "$script"
[ ! -s "$out/calls" ] || fail "what makes nothing was requeued: $(cat "$out/calls")"
printf '#!/bin/sh\necho line >>"%s"; exit 3\n' "$out/limit/texts.jsonl" >"$out/broken"
SHARDWRIGHT_RUNNER=$out/broken expect 3 'it ended with exit code 3, and resumes in a new job' job "$script"
grep -qx 'scontrol requeue incomplete 42' "$out/calls" || fail "what made a line was not requeued"
# the last task of an array may have the number that stands for all of them
SHARDWRIGHT_RUNNER=$out/broken SLURM_ARRAY_JOB_ID=42 SLURM_ARRAY_TASK_ID=2 expect 3 'and resumes in a new job' job "$script"
grep -qx 'scontrol requeue incomplete 42_2' "$out/calls" || fail "an array was requeued: $(cat "$out/calls")"
echo COMPLETING >"$out/state"
SHARDWRIGHT_RUNNER=$out/broken expect 3 "it ended with exit code 3, and is not requeued: Slurm says 'COMPLETING' of it" job "$script"
cp "$out/kept.jsonl" "$out/limit/texts.jsonl"
rm "$out/state"

# bad input is as bad the next time, and another plan is refused
: >"$out/calls"
echo 'no JSON' >"$out/bad.jsonl"
emit "$out/bad" "${weights[@]}" --set job.type=generate --set job.input="$out/bad.jsonl" \
    --set slurm.continue=requeue >"$out/emit.log" 2>&1 || fail "emit"
job "$out/bad/quickstart.sbatch" >"$out/job.log" 2>&1
[ $? -eq 2 ] || fail "bad input: not exit 2"
[ ! -s "$out/calls" ] || fail "bad input was requeued"
grep -qx '42 0 2' "$out/bad/job.ended" || fail "bad input: no end was told"
sed -i "s/^digest: .*/digest: '0123456789abcdef'/" "$out/bad/quickstart.plan.yaml"
expect 2 'is another plan than the one that this script was written with; emit both again' job "$out/bad/quickstart.sbatch"

# values of any kind reach the runner as they are
cat >"$out/shows" <<'END'
#!/usr/bin/env python3
import json, os, sys
json.dump(sys.argv[1:], open(os.environ["STAND_IN"] + "/arguments", "w"))
END
chmod +x "$out/shows"
i=0
# shellcheck disable=SC2016 # they are to stay as they are
for value in 'a b' "it's" 'x"y' '$(touch canary)' '`touch canary`' 'back\slash' '-rf' '*' ';touch canary' '&' 'ä€'; do
    folder="$out/hostile/$((i += 1))"
    mkdir -p "$folder/$value"
    echo '{"prompt": "a"}' >"$folder/$value/in"
    # in quotes of JSON, as a run file has it
    quoted=$(python3 -c 'import json, sys; print(json.dumps(sys.argv[1], ensure_ascii=False))' "$folder/$value")
    emit "$folder/job" --set "job.checkpoint=${quoted%\"}/c\"" --set job.type=generate \
        --set "job.input=${quoted%\"}/in\"" --set "job.output=${quoted%\"}/out\"" >"$out/emit.log" 2>&1 ||
        fail "emit of '$value'"
    (cd "$folder" && SHARDWRIGHT_RUNNER=$out/shows job "$folder/job/quickstart.sbatch" --seed 3) \
        >"$out/job.log" 2>&1 || fail "the job of '$value'"
    python3 - "$out/arguments" "$folder/$value" "$folder/job" <<'PYTHON' || fail "other arguments of '$value'"
import json, sys
got, value, folder = json.load(open(sys.argv[1])), *sys.argv[2:]
wanted = ["generate", folder + "/quickstart.plan.yaml", "--checkpoint", value + "/c", "--prompts", value + "/in",
          "-o", value + "/out", "--resume", "--seed", "3"]
assert got == wanted, (got, wanted)
assert json.load(open(folder + "/job.json")) == {
    "schema": "shardwright.job/1", "type": "generate", "job": "42", "output": value + "/out", "shards": 1,
    "lines": 1}
PYTHON
done
[ -z "$(find "$out" -name canary)" ] || fail "a value was executed"

# a server is announced when it listens, and drains at the signal
cat >"$out/serves" <<'END'
#!/usr/bin/env python3
import signal, socket, sys, time
options = dict(zip(sys.argv[3::2], sys.argv[4::2]))
assert sys.argv[1] == "serve" and open(options["--token-file"]).read() == "secret\n", sys.argv
def drain(*_):
    print("drained", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, drain)
time.sleep(0.5)
host, port = options["--listen"].split(":")
s = socket.create_server((host, int(port)))
while True:
    s.accept()[0].close()
END
chmod +x "$out/serves"
(umask 077 && echo secret >"$out/token")
port=$((20000 + $$ % 10000))
emit "$out/serve" "${weights[@]}" --set job.type=serve --set job.token_file="$out/token" --set job.port=$port \
    >"$out/emit.log" 2>&1 || fail "emit of a server"
script=$out/serve/quickstart.sbatch
grep -qx '#SBATCH --signal=TERM@60' "$script" || fail "a server is not told of its limit"
record "$out/serve"
printf '{"schema": "shardwright.job/1", "type": "serve", "job": "42", "host": "old", "port": 1, "token_file": "/x"}' \
    >"$out/serve/job.json" # of a start before
PATH=$out/bin:$PATH SLURM_JOB_ID=42 SLURM_JOB_NUM_NODES=1 SHARDWRIGHT_RUNNER=$out/serves bash "$script" \
    >"$out/job.log" 2>&1 &
process=$!
for ((i = 0; i < 1500; i++)); do
    ! grep -qs "\"port\": $port" "$out/serve/job.json" || break
    sleep 0.02
done
grep -qxF "serving at http://$(hostname):$port; the token of requests is in $out/token" "$out/job.log" ||
    fail "it was not announced: $(cat "$out/job.log")"
grep -qxF "from elsewhere: ssh -N -L $port:$(hostname):$port LOGIN-NODE, then http://127.0.0.1:$port" \
    "$out/job.log" || fail "no tunnel was named"
printf '%s\037' 42 RUNNING None 1 2026-11-22T11:30:00 N/A 2026-11-22T11:29:00 0:10 1:00:00 n1 \
    shardwright:0123456789abcdef "$script" >"$out/squeue"
printf '%s\036' "$out/serve" >>"$out/squeue"
expect 0 'quickstart: running, job 42' status "$out/serve"
expect 0 "  serves   http://$(hostname):$port, with the token in $out/token" status "$out/serve"
expect 0 "  tunnel   ssh -N -L $port:$(hostname):$port LOGIN-NODE, then http://127.0.0.1:$port" status "$out/serve"
expect 0 "$(printf '"port":\t%s' "$port")" status "$out/serve" --json
kill -TERM "$(cat "$out/ranks.pid")"
wait "$process" || fail "a server that drained does not end with 0"
grep -qx drained "$out/job.log" || fail "the server was not told"
grep -qx '42 0 0' "$out/serve/job.ended" || fail "a server did not say that it has ended"
rm "$out/squeue"
expect 0 'quickstart: done, job 42' status "$out/serve"

# Ranks that mpirun starts hear of the limit from the job's process alone, whatever they do.
cat >"$out/bin/mpirun" <<END
#!/usr/bin/env bash
trap 'echo told >>"\$STAND_IN/calls"; exit 0' 40
touch "$out/started"
for ((i = 0; i < 100; i++)); do sleep 0.1; done
END
chmod +x "$out/bin/mpirun"
for kind in generate:USR1 serve:TERM; do
    rm -rf "$out/started" "$out/mpirun"
    : >"$out/calls"
    more=(--set job.input="$out/prompts.jsonl")
    [ "${kind%:*}" != serve ] || more=(--set job.token_file="$out/token")
    emit "$out/mpirun" "${weights[@]}" --set job.type="${kind%:*}" --set slurm.mpi=mpirun --set slurm.continue=requeue \
        "${more[@]}" >"$out/emit.log" 2>&1 || fail "emit for mpirun: $(cat "$out/emit.log")"
    script=$out/mpirun/quickstart.sbatch
    grep -qx "#SBATCH --signal=B:${kind#*:}@60" "$script" || fail "mpirun: the signal is for its daemons"
    PATH=$out/bin:$PATH SLURM_JOB_ID=42 SLURM_JOB_NUM_NODES=1 SHARDWRIGHT_RUNNER=$out/serves bash "$script" \
        >"$out/job.log" 2>&1 &
    process=$!
    for ((i = 0; i < 500; i++)); do
        [ ! -e "$out/started" ] || break
        sleep 0.02
    done
    kill "-${kind#*:}" "$process"
    wait "$process" || fail "mpirun: exit code $?: $(cat "$out/job.log")"
    [ "$(cat "$out/calls")" = told ] || fail "mpirun: $(cat "$out/calls")"
done

# what is refused
expect 2 "'job' of type generate needs 'input'" emit "$out/no" --set job.type=generate
expect 2 "'job' of type serve needs 'token_file'" emit "$out/no" --set job.type=serve
expect 2 "'shards' applies only to generate and score" emit "$out/no" --set job.type=serve --set job.token_file=x --set job.shards=2
expect 2 "'slurm.continue: chain' is for training" emit "$out/no" --set job.type=score --set job.input=x --set slurm.continue=chain
expect 2 "a job of type score needs a scheduler, and the launcher is mpirun" emit "$out/no" --set job.type=score \
    --set job.input=x --set cluster.launcher=mpirun
expect 2 "did you mean 'generate'?" emit "$out/no" --set job.type=genrate --set job.input=x
expect 1 "mesh_dim 1,1,1,1 cannot serve 'quickstart': needs " emit "$out/no" --set job.type=score --set job.input=x --set mesh_dim=auto \
    --set serve.max_tokens=100000000
[ ! -e "$out/no" ] || fail "something was written of what is refused"
echo ok
