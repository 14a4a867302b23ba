#!/usr/bin/env bash
# The commands of `plan`: exit codes, what is said, JSON, files.
#
#   tests/unit/test_plan_cli.sh PLAN SCRATCH      from the root of the tree
set -uo pipefail
plan=$(realpath "$1") && [ -x "$plan" ] || exit 2
# shellcheck source=tests/support/scratch.sh
. "$(dirname "$0")/../support/scratch.sh"
scratch=$(scratch_in "$2") || exit 2
runs=configs/runs
bad=0

complain() {
    echo "FAIL: $*"
    bad=$((bad + 1))
}
# expect CODE STDERR-LINE ARGUMENTS...: '' means that stderr is empty, '*' that its text does not matter.
expect() {
    local code=$1 said=$2 status
    shift 2
    "$plan" "$@" >"$scratch/stdout" 2>"$scratch/stderr"
    status=$?
    # the long runs among the shipped ones are warned of, which is tested where $long is, and those whose data
    # nobody has made here yet, whose device nobody has run (tests/mistakes/submit.cases), and the slow meshes that many
    # ask for here, tested where the rules are
    cp "$scratch/stderr" "$scratch/stderr.whole"
    sed -i "/ more than the job's time limit, /d; / the data file '.*' is not here: /d; / note: device cuda has never run /d; / longer than the fastest mesh, /d; / nodes \(is\|are\) faster: /d; / fewer accelerator-hours/d" "$scratch/stderr"
    [ $status -eq "$code" ] || complain "plan $*: exit $status, not $code: $(cat "$scratch/stderr")"
    case $said in
        '') [ ! -s "$scratch/stderr" ] || complain "plan $*: said $(cat "$scratch/stderr")" ;;
        '*') [ -s "$scratch/stderr" ] || complain "plan $*: said nothing" ;;
        *) grep -qxF -- "$said" "$scratch/stderr" ||
            complain "plan $*: said '$(cat "$scratch/stderr")', not '$said'" ;;
    esac
}
# What a GitHub workflow gets: check FILE... says LINE on stdout.
annotates() {
    local said=$1
    shift
    "$plan" check --format github "$@" >"$scratch/stdout" 2>"$scratch/stderr"
    [ $? -eq 2 ] || complain "plan check --format github $*: no exit 2"
    [ ! -s "$scratch/stderr" ] || complain "plan check --format github $*: $(cat "$scratch/stderr")"
    grep -qxF -- "$said" "$scratch/stdout" ||
        complain "plan check --format github $*: said '$(cat "$scratch/stdout")', not '$said'"
}

# Help, and mistakes on the command line.
expect 0 '' --help
for command in check search explain emit schema; do
    grep -q "plan $command " "$scratch/stdout" || complain "--help lacks $command"
done
expect 0 '' --version
grep -q '^plan [0-9]' "$scratch/stdout" || complain "--version"
# what is there, each in a line: nothing of CUDA, which is the runner's
grep -qx "  devices: none, it only plans; see 'runner --version'" "$scratch/stdout" || complain "--version: devices"
if [ -x "$(dirname "$plan")/plan-slurm" ]; then
    grep -qE '^  libslurm: [0-9]+\.[0-9]+\.[0-9]+$' "$scratch/stdout" || complain "--version lacks libslurm"
fi
expect 2 "plan: error: unknown argument '--jsn' of --version; it takes --json" --version --jsn
expect 2 "plan: error: unknown argument 'now' of --version; it takes --json" --version --json now
for command in check search explain emit schema; do expect 0 '' $command --help; done
# Help fits 100 columns, and `help COMMAND` is that of `COMMAND --help`.
for tool in "$plan" "$(dirname "$plan")/runner"; do
    commands=$("$tool" --help | sed -nE "s/^  ${tool##*/} ([a-z][a-z-]*) .*/\1/p")
    [ "$(wc -w <<<"$commands")" -ge 10 ] || complain "${tool##*/} --help lists: $commands"
    for command in --help $commands; do
        "$tool" "$command" --help >"$scratch/help" 2>&1 || complain "$tool $command --help: exit $?"
        awk -v of="${tool##*/} $command" 'length > 100 { print "FAIL: help of " of ": " length " columns: " $0; bad = 1 }
            END { exit bad }' "$scratch/help" || bad=$((bad + 1))
        "$tool" help "$command" 2>&1 | cmp -s - "$scratch/help" || complain "${tool##*/} help $command: another help"
    done
done
expect 2 "plan: error: unknown command 'serch'; did you mean 'search'?" help serch
expect 2 "plan: error: unknown command '--verison'; did you mean '--version'?" --verison
expect 2 "plan: error: give a command; see 'plan --help'"
expect 2 "plan: error: unknown command 'serch'; did you mean 'search'?" serch
expect 2 "plan: error: unknown command 'frobnicate'; see 'plan --help'" frobnicate
expect 2 "plan: error: unknown option '--jsno'; did you mean '--json'?" search --jsno
expect 2 "plan: error: 'plan emit' has no option '--top'; see 'plan emit --help'" emit --top 3
expect 2 "plan: error: --json or --format github, not both" check --json --format github $runs/quickstart.yaml
# What check and emit tell, for scripts: every file with its messages, and what was written.
sed 's/^mesh_dim: .*/mesh_dim: 2,2,2,2/' $runs/quickstart.yaml | sed "s,: \.\./,: $PWD/configs/,; s,path: $PWD/configs/,path: $PWD/," >"$scratch/sixteen.yaml"
expect 1 '' check --json configs/models/quickstart.yaml "$scratch/sixteen.yaml"
python3 - "$scratch/stdout" <<'PYTHON' || complain "check --json: $(cat "$scratch/stdout")"
import json, sys
r = json.load(open(sys.argv[1]))
good, bad = r["files"]
assert r["schema"] == "shardwright.check/1" and good["ok"] and good["kind"] == "model" and not good["messages"]
[message] = [m for m in bad["messages"] if m["level"] == "error"]
assert not bad["ok"] and bad["kind"] == "run" and (bad["meshes"], bad["feasible"]) == (1, 0)
assert message["file"].endswith("sixteen.yaml") and message["line"] > 0 and "16 accelerators" in message["message"]
PYTHON
expect 0 '' emit $runs/quickstart.yaml --json -o "$scratch/json" --set directory="$scratch/json/run"
python3 - "$scratch/stdout" <<'PYTHON' || complain "emit --json: $(cat "$scratch/stdout")"
import json, os, sys
r = json.load(open(sys.argv[1]))
[plan] = r["plans"]
assert r["starter"] == "bash" and os.access(r["script"], os.X_OK) and os.path.exists(plan["path"])
assert plan["mesh_dim"] == "1,2,2,2" and plan["digest"] in open(plan["path"]).read() and plan["step_seconds"] > 0
PYTHON
# What a call reads: of a budget that mixes the rows of one, else a chunk of each prompt.
for budget in '16 16 tokens per call' '64 64 tokens per call' '128 128 tokens at a time'; do
    expect 0 '' search $runs/quickstart.yaml --for serve --mesh_dim 1,1,8,1 --set serve.max_batch=1 \
        --set serve.token_budget="${budget%% *}"
    grep -qxF "          1 sequence at a time of 256 tokens, prompts ${budget#* }" "$scratch/stdout" ||
        complain "a token budget of $budget: $(cat "$scratch/stdout")"
done
# Prices of serving on GPUs are of other software, and say so: in text, in JSON, and where a job is made of them.
whose='the prediction is of vLLM and TensorRT-LLM; runner serve was never measured on GPUs'
serving=(--set serve.max_batch=8 --mesh_dim '1,8,8,1')
expect 0 '' explain $runs/llama-8b-64.yaml --for serve "${serving[@]}"
grep -qxF "          $whose" "$scratch/stdout" || complain "explain does not say whose time it is: $(cat "$scratch/stdout")"
expect 0 '' explain $runs/llama-8b-64.yaml --for serve "${serving[@]}" --json
grep -qF "\"note\":	\"$whose\"" "$scratch/stdout" || complain "JSON does not say whose time it is"
expect 0 '' explain $runs/quickstart.yaml --for serve --mesh_dim 1,1,8,1 --set serve.max_batch=1 --json
grep -qF '"note":	""' "$scratch/stdout" || complain "a CPU's time is not the runner's"
echo secret >"$scratch/token"
expect 0 "$runs/llama-8b-64.yaml: note: $whose" emit $runs/llama-8b-64.yaml -o "$scratch/serves" \
    "${serving[@]}" --set directory="$scratch/served" --set "job={type: serve, checkpoint: latest, token_file: $scratch/token}"
grep -qxF '      name: default-serving' "$scratch/serves/llama-8b-64.plan.yaml" || complain "emit holds another profile"
# Training is not priced with it, whoever names it; of a CPU there is none.
expect 0 '' explain $runs/llama-8b-64.yaml --mesh_dim '1,64,1,1'
grep -qE '^all_gather +fsdp +64 .* 30\.6 GB +[0-9]+ ms +3\.8 GB  infiniband$' "$scratch/stdout" ||
    complain "what passes a port of the link: $(grep '^all_gather' "$scratch/stdout")"
mv "$scratch/stdout" "$scratch/trains"
expect 0 '' explain $runs/llama-8b-64.yaml --mesh_dim '1,64,1,1' --set 'profile={name: default-serving}'
cmp -s "$scratch/stdout" "$scratch/trains" || complain "training is priced as serving"
# What is written of the default counts, and a launch's latency whatever the software.
for told in 'profile={name: default, matmul: 0.2}' 'cluster.accelerator.launch_latency=50us'; do
    "$plan" explain $runs/llama-8b-64.yaml --for serve "${serving[@]}" --set "$told" --json >"$scratch/stdout" 2>/dev/null
    python3 -c 'import json, sys; sys.exit(json.load(open(sys.argv[1]))["mesh"]["token_seconds"] < 6e-3)' "$scratch/stdout" ||
        complain "$told: changes nothing"
done
# What a token takes while fewer texts are made than there are slots, and with how many.
expect 0 '' search $runs/quickstart.yaml --for serve --mesh_dim 1,4,2,1 --set serve.max_batch=16
grep -qE '^          with fewer sequences: [0-9.]+ [a-z]+ for 8, [0-9.]+ [a-z]+ for 4$' "$scratch/stdout" ||
    complain "no time of a token of fewer sequences: $(cat "$scratch/stdout")"
expect 2 "plan: error: --set needs a value: KEY=VALUE; see 'plan search --help'" search --set
expect 2 "plan: error: option '--json' takes no value; see 'plan search --help'" search --json=1
expect 2 "plan: error: --top must be a whole number from 1, not '0'; see 'plan search --help'" search --top 0
expect 2 "plan: error: --prefer must be fsdp, fsdp-strict, time or cost, not 'speed'; see 'plan search --help'" search --prefer speed
expect 2 "plan: error: name a run file, as in 'plan search configs/runs/quickstart.yaml'" search
expect 2 "plan: error: name the files to check, as in 'plan check configs/runs/*.yaml'" check
expect 2 "plan: error: no schema 'modle'; did you mean 'model'?" schema modle
expect 2 '*' search "$scratch/nonexistent.yaml"

# check
no_data='the run names no data to train on, so its plan is good for planning only; '
no_data+="add data: {path: FILE} before 'runner train'"
expect 0 "$runs/llama-8b-64.yaml:2:1: note: $no_data" check configs/*/*.yaml
no_device="note: 'runner' has no device for tpu-v4-32gb, which is for planning only; name a cluster that it can run on"
[ "$(grep -v "note: $no_data\$" "$scratch/stderr" | grep -vc "$no_device\$")" -eq 0 ] || complain "check says more than notes"
[ "$(grep -c ': ok, ' "$scratch/stdout")" -eq "$(find configs -name '*.yaml' | wc -l)" ] ||
    complain "check: not one line per file"
# Both figures of each link, whichever the file gives.
expect 0 '' check configs/clusters/p4d-efa-16x8.yaml
[ "$(sed 1d "$scratch/stdout")" = "\
    nvlink joins 8 (a node): 300 GB/s = 2400 Gb/s per accelerator, 2.4 TB/s = 19.2 Tb/s per node, one direction
    efa joins 128: 6.25 GB/s = 50 Gb/s per accelerator, 50 GB/s = 400 Gb/s per node, one direction" ] ||
    complain "check: the links are $(cat "$scratch/stdout")"
expect 0 '*' check $runs/llama-8b-64.yaml --set cluster.nodes=128
grep -qxF '    infiniband joins 1024: 50 GB/s = 400 Gb/s per accelerator, 400 GB/s = 3200 Gb/s per node, one direction' \
    "$scratch/stdout" || complain "check: the links of a run are $(cat "$scratch/stdout")"
expect 0 '' check $runs/quickstart.yaml
"$plan" check --format github $runs/llama-8b-64.yaml 2>&1 |
    grep -qxF "::notice file=$runs/llama-8b-64.yaml,line=2,col=1::$no_data" || complain "no notice without data"
printf 'hiden_size: 4\n' >"$scratch/bad.yaml"
expect 2 '*' check "$scratch/bad.yaml" configs/models/llama-7b.yaml
grep -q 'llama-7b.yaml: ok, a model' "$scratch/stdout" || complain "check stops at the first bad file"

# A file may be called anything: its name is no sentence to take a place out of.
odd="$scratch/a: error: b.yaml"
escaped=${odd//:/%3A}
sed -e "s,\.\./,$PWD/configs/,; s/^mesh_dim: .*/mesh_dim: '1,3,'/" $runs/quickstart.yaml >"$odd"
annotates "::error file=$escaped,line=8,col=11::mesh_dim '1,3,' has 3 sizes, not 4; write dp,fsdp,tp,sp as in '1,-1,4,1', or names as in 'tp:8,fsdp:-1'" "$odd"
expect 2 "$odd:8:11: error: mesh_dim '1,3,' has 3 sizes, not 4; write dp,fsdp,tp,sp as in '1,-1,4,1', or names as in 'tp:8,fsdp:-1'" check "$odd"
sed -e "s,\.\./,$PWD/configs/,; s/^mesh_dim: .*/rules: {embed: [dp, fsdp, tp, sp], mlp: [dp, fsdp, tp, sp]}/" $runs/quickstart.yaml >"$odd"
annotates "::error file=$escaped,line=8,col=9::these rules do not go together, let each axis split a tensor once: layer, linear: resharding 'w_gate' [embed, mlp]: the given sharding uses axis fsdp twice" "$odd"
sed -e "s,\.\./,$PWD/configs/,; s/^mesh_dim: .*/rules: {embed: [dp, tp]}/" $runs/quickstart.yaml >"$odd"
expect 0 '' search "$odd" --json --rejected
tr '\t' ' ' <"$scratch/stdout" | grep -q '"reason": *"rules"' || complain "rules: no mesh is rejected for them alone"
printf 'hidden_size: 4\nhiden_size: 4\n' >"$odd"
annotates "::error file=$escaped,line=2,col=1::unknown key 'hiden_size'; did you mean 'hidden_size'?" "$odd"

# Notes: 'check' shows the line, the others one line each, and nothing of them is in what machines read.
notes=(--set recompute=attention --set precision.params=bf16)
old="--set:1:11: note: 'recompute: attention' is an old name for the values before attention; write the values that 'plan search' prints"
lost="--set:1:18: note: 'params: bf16' keeps no fp32 weights: updates below 2^-9 of a weight vanish; use params: fp32"
for command in "check" "search" "search --json" "explain" "explain --json" "emit -o $scratch/notes --set directory=$scratch/run"; do
    # shellcheck disable=SC2086 # options
    expect 0 "$old" $command $runs/quickstart.yaml "${notes[@]}"
    grep -qxF -- "$lost" "$scratch/stderr" || complain "$command: no note about bf16 parameters"
    wanted=2
    [ "$command" = check ] && wanted=6
    [ "$(wc -l <"$scratch/stderr")" -eq $wanted ] || complain "$command: $(cat "$scratch/stderr")"
    ! grep -q 'note:' "$scratch/stdout" || complain "$command: a note among the data"
    ! grep -qE 'recompute("|:)? *:? *"?attention' "$scratch/stdout" || complain "$command: the old word"
done
grep -qxF '  recompute: {values: [n1, q0, k0, v0, q1, k1, k2, v2], layers: 4}' "$scratch/notes/quickstart.plan.yaml" || complain "emit: the old word"
"$plan" search $runs/quickstart.yaml --json "${notes[@]}" 2>/dev/null >"$scratch/partial.json"
grep -q '"recompute":.*"partial"' "$scratch/partial.json" ||
    complain "search --json: not partial"
expect 0 '' search $runs/quickstart.yaml --set 'recompute={values: [h, n1], layers: 2}'
expect 2 "--set:1:11: error: 'recompute' must be none, full, auto or {values: [...], layers: ...}, not 'attn'" \
    search $runs/quickstart.yaml --set recompute=attn

# A file of another kind, an empty one, and standard input.
for command in search explain "emit -o $scratch/none"; do
    # shellcheck disable=SC2086 # options
    expect 2 "configs/clusters/laptop.yaml:3:1: error: this is a cluster, not a run" $command configs/clusters/laptop.yaml
    grep -qxF "    help: name it in a run, 'cluster: configs/clusters/laptop.yaml', beside model, sequence_length and global_batch_size, and give that" \
        "$scratch/stderr" || complain "$command of a cluster: $(cat "$scratch/stderr")"
done
expect 2 "tests/oracle/published_configs/yi-6b.json:1:1: error: this is a model, not a run" search tests/oracle/published_configs/yi-6b.json
expect 2 "configs/accelerators/cpu-core.yaml:5:1: error: this is an accelerator, not a run" search configs/accelerators/cpu-core.yaml
: >"$scratch/empty.yaml"
for command in check search; do
    expect 2 "$scratch/empty.yaml:1:1: error: the file is empty" $command "$scratch/empty.yaml"
    grep -q "^    help: a model has 'hidden_size', " "$scratch/stderr" || complain "$command of nothing: no help"
done
(
    cd configs/runs && expect 0 '' search - <quickstart.yaml && cp "$scratch/stdout" "$scratch/piped"
    expect 0 '' check - <quickstart.yaml && [ "$(head -1 "$scratch/stdout")" = '<stdin>: ok, a run: 1 of 1 meshes fit' ] ||
        complain "check -: $(cat "$scratch/stdout")"
    printf 'name: x\ncolour: 3\nmodel: ../models/quickstart.yaml\n' >"$scratch/piped.yaml"
    expect 2 "<stdin>:2:1: error: unknown key 'colour'" search - <"$scratch/piped.yaml"
    expect 0 '' emit - -o "$scratch/piped-plan" --set "directory=$scratch/run" <quickstart.yaml
    expect 0 '' check "$scratch/piped-plan/quickstart.plan.yaml"
    expect 2 "<stdin>:1:1: error: a plan cannot be read from standard input: its inputs lie beside its file; name the file" \
        check - <"$scratch/piped-plan/quickstart.plan.yaml"
    exit "$bad"
) || bad=$((bad + 1))
"$plan" search $runs/quickstart.yaml | grep -v '^searched' | cmp -s - <(grep -v '^searched' "$scratch/piped") ||
    complain "search - says something else"
expect 2 "$scratch/piped-plan/quickstart.plan.yaml:2:1: error: this is a plan, not a run" search "$scratch/piped-plan/quickstart.plan.yaml"
expect 0 '' emit $runs/quickstart.yaml -o "$scratch/piped-plan" --set "directory=$scratch/run"
expect 2 '*' search "$scratch/piped-plan/quickstart.plan.yaml"
grep -qE "help: give the run file that it was written from, '.*configs/runs/quickstart.yaml'; 'plan check', " "$scratch/stderr" ||
    complain "search of a plan: $(cat "$scratch/stderr")"
# At 80 columns a table of rows still tells their options.
COLUMNS=80 LC_ALL=C "$plan" search $runs/llama-8b-64.yaml --prefer fsdp-strict 2>/dev/null | awk '
    /^  mesh_dim/ { table = 1; if (!/ micro  steps  recompute /) print "no options: " $0 }
    /^\.\.\./ { table = 0 }
    table && length > 80 { print length " columns: " $0 }' >"$scratch/narrow"
[ ! -s "$scratch/narrow" ] || complain "search at 80 columns: $(cat "$scratch/narrow")"
expect 0 '' search $runs/llama-8b-64.yaml --mesh_dim sp:2,tp:8,fsdp:-1
grep -q '^mesh      mesh_dim 1,4,8,2: .* in the order dp,sp,tp,fsdp$' "$scratch/stdout" || complain "axes by name: $(grep '^mesh' "$scratch/stdout")"
# No suggestion is better than one that means something else.
sed 's/"model_type": "llama"/"model_type": "llama4"/' tests/oracle/published_configs/yi-6b.json >"$scratch/other.json"
expect 2 '*' check "$scratch/other.json"
! grep -q 'did you mean' "$scratch/stderr" || complain "llama4: $(cat "$scratch/stderr")"
sed 's/"vocab_size"/"v_head_dim": 64, "vocab_size"/' tests/oracle/published_configs/yi-6b.json >"$scratch/other.json"
expect 2 '*' check "$scratch/other.json"
! grep -q 'did you mean' "$scratch/stderr" || complain "v_head_dim: $(cat "$scratch/stderr")"
grep -q 'help:' "$scratch/stderr" || complain "v_head_dim: no help"

# Warnings: what is allowed and hardly meant, with its place, in what people read; the result is the same.
warned="--set:1:31: warning: 'bf16: 989' has no unit, so it is FLOP/s"
for command in check search explain; do
    expect 0 "$warned" $command $runs/quickstart.yaml --set cluster.accelerator.peak.bf16=989
    grep -qxF "    help: did you mean '989 TFLOP/s'?" "$scratch/stderr" || complain "$command: no help beside a warning"
    ! grep -q 'warning:' "$scratch/stdout" || complain "$command: a warning among the data"
done
"$plan" check --format github $runs/quickstart.yaml --set cluster.accelerator.peak.bf16=989 |
    grep -qxF "::warning file=--set,line=1,col=31::'bf16: 989' has no unit, so it is FLOP/s; did you mean '989 TFLOP/s'?" ||
    complain "check: no warning for GitHub"
expect 0 "--set:1:17: warning: 'sequence_length: 4096' is beyond the model's 'max_position_embeddings: 2048'" \
    search $runs/quickstart.yaml --set sequence_length=4096

# Requests that cannot be met.
expect 1 "plan: error: mesh_dim 1,3,2,2 needs 12 accelerators, but there are 8; write -1 for the axis that takes whatever is left" \
    search $runs/quickstart.yaml --mesh_dim 1,3,2,2
sed -e "s,\.\./,$PWD/configs/,; s/^mesh_dim: .*/mesh_dim: '3,1,1,1'/" $runs/quickstart.yaml \
    >"$scratch/three.yaml"
expect 1 "$scratch/three.yaml:8:11: error: mesh_dim 3,1,1,1 needs 3 accelerators, but there are 8; write -1 for the axis that takes whatever is left" \
    check "$scratch/three.yaml"
expect 2 "plan: error: mesh_dim '1,3,' has 3 sizes, not 4; write dp,fsdp,tp,sp as in '1,-1,4,1', or names as in 'tp:8,fsdp:-1'" \
    search $runs/quickstart.yaml --mesh_dim 1,3,
expect 2 "--set:1:7: error: these rules do not go together, let each axis split a tensor once: layer, linear: resharding 'wq' [embed, heads]: the given sharding uses axis tp twice" \
    search $runs/quickstart.yaml --set 'rules.embed=[dp, tp]'
expect 1 "    help: use global_batch_size: 8" \
    search $runs/quickstart.yaml --mesh_dim 1,8,1,1 --set global_batch_size=4
sed -e 's/^memory: .*/memory: 201 MB/' configs/accelerators/cpu-core.yaml >"$scratch/tiny.yaml"
sed -e 's,\.\./accelerators/cpu-core.yaml,tiny.yaml,' configs/clusters/laptop.yaml \
    >"$scratch/cluster.yaml"
sed -e "s,\.\./models,$PWD/configs/models,; s,\.\./clusters/laptop.yaml,cluster.yaml," \
    -e 's/^mesh_dim.*/mesh_dim: auto/; s,^data:.*,,; s,^directory:.*,,' \
    $runs/quickstart.yaml >"$scratch/tiny-run.yaml"
expect 1 '*' search "$scratch/tiny-run.yaml"
grep -q "^$scratch/tiny-run.yaml:8:11: error: none of 20 meshes fits 'quickstart'; the closest is mesh_dim .*: needs .* of 201 MB" \
    "$scratch/stderr" || complain "no closest mesh: $(cat "$scratch/stderr")"
grep -q '^    help: ' "$scratch/stderr" || complain "no help when nothing fits"
[ -s "$scratch/stdout" ] && complain "a search without a result writes to stdout"
expect 1 '*' search "$scratch/tiny-run.yaml" --json --rejected
grep -q '"chosen": *null' <(tr '\t' ' ' <"$scratch/stdout") || complain "JSON without a choice"
expect 1 '*' emit "$scratch/tiny-run.yaml" -o "$scratch/none"
[ -e "$scratch/none" ] && complain "emit of nothing leaves a folder"

# The rule that chose, every clause of it, wherever a choice is told.
rule='the largest fsdp of the meshes that fit with headroom and are at most 5 % slower than the fastest; tp leaves the fastest link domain (8 of nvlink) only for more than 5 %; ties by time (prefer: fsdp)'
strict='the largest fsdp that fits with headroom, then tp within the fastest link domain (8 of nvlink), then the least tp x sp, then time (prefer: fsdp-strict)'
for command in search explain; do
    for prefer in fsdp fsdp-strict; do
        [ $prefer = fsdp ] && says=$rule || says=$strict
        expect 0 '' $command $runs/llama-8b-64.yaml --prefer $prefer
        told=$(sed -n '/^why/,/^[^ ]/p' "$scratch/stdout" | tr '\n' ' ' | tr -s ' ')
        [[ $told == "why $says "* ]] || complain "$command: why $(grep '^why' "$scratch/stdout")"
        expect 0 '' $command $runs/llama-8b-64.yaml --json --prefer $prefer
        grep -qF "\"$says\"" "$scratch/stdout" || complain "$command --json: no why"
    done
    expect 0 '' $command $runs/llama-8b-64.yaml --prefer time
    grep -qxF 'why       the fastest of the meshes that fit with headroom (prefer: time)' "$scratch/stdout" || complain "$command: why by time"
    expect 0 '' $command $runs/quickstart.yaml --set cluster.accelerators_per_node=1 --mesh_dim auto
    grep -qxF 'why       the only mesh of one accelerator' "$scratch/stdout" || complain "$command: why of one accelerator"
    expect 0 '' $command $runs/quickstart.yaml
    grep -qxF 'why       the only mesh that mesh_dim allows' "$scratch/stdout" || complain "$command: why of one mesh"
done
expect 0 '' explain $runs/llama-8b-64.yaml --html "$scratch/why.html"
grep -qF "Why this mesh: $rule." "$scratch/why.html" || complain "explain --html: no why"
# A choice that is much slower than the fastest is warned of by all that make one, and so are nodes that do not help.
said() { # WHAT ARGUMENTS...: a line of stderr
    local what=$1
    shift
    "$plan" "$@" >"$scratch/stdout" 2>"$scratch/stderr"
    grep -qE "$what" "$scratch/stderr" || complain "plan $*: no '$what': $(cat "$scratch/stderr")"
}
many=$scratch/many.yaml
cat >"$many" <<END
name: many
model: {vocab_size: 49152, hidden_size: 576, intermediate_size: 1536, num_hidden_layers: 30, num_attention_heads: 9, num_key_value_heads: 3, tie_word_embeddings: true, max_position_embeddings: 16384}
cluster: $PWD/configs/clusters/h100-64x8.yaml
sequence_length: 16384
global_batch_size: 16
directory: $scratch/many
END
slow='warning: mesh_dim [0-9,]+ takes [0-9.]+ m?s a step, [0-9]{3} % longer than the fastest mesh, [0-9,]+ \([0-9.]+ ms\);'
fewer='many.yaml: warning: [0-9]+ of the 32 nodes (is|are) faster: [0-9.]+ ms a step with mesh_dim [0-9,]+, [0-9.]+ ms with all'
for command in search emit; do
    more=()
    [ $command = emit ] && more=(-o "$scratch/many")
    said "many.yaml: $slow 'prefer: fsdp' takes" $command "$many" --set cluster.nodes=32 --prefer fsdp-strict "${more[@]}"
    said "many.yaml: $slow 'prefer_within: 5 %' takes" $command "$many" --set cluster.nodes=32 --set 'prefer_within=400 %' "${more[@]}"
    said "many.yaml: $slow 'mesh_dim: auto' takes" $command "$many" --set cluster.nodes=32 --mesh_dim 1,16,1,16 "${more[@]}"
    said "$fewer" $command "$many" --set cluster.nodes=32 "${more[@]}"
    grep -q 'longer than' "$scratch/stderr" && complain "$command: the default is warned of"
    "$plan" $command "$many" --set cluster.nodes=1 "${more[@]}" 2>&1 | grep -q 'nodes \(is\|are\) \|longer than' &&
        complain "$command: one node is warned of"
done
"$plan" search "$many" --set cluster.nodes=32 --json 2>/dev/null | python3 -c '
import json, sys
found = json.load(sys.stdin)
assert found["prefer"] == "fsdp" and found["prefer_within"] == 0.05, found["prefer"]
assert found["slower"]["share"] == found["chosen"]["step_seconds"] / found["fastest"]["step_seconds"] - 1
steps = {n["nodes"]: n["step_seconds"] for n in found["fewer_nodes"]}
assert 16 in steps and max(steps.values()) <= found["chosen"]["step_seconds"], steps
' || complain "search --json: fewer_nodes"

# A torus is one domain whatever its hosts: tp 16 over four of them, not 1,1,4,64.
expect 0 '' search $runs/llama-7b-256.yaml --set sequence_length=16384 --set global_batch_size=1 --prefer fsdp-strict
grep -q '^mesh      mesh_dim 1,1,16,16:' "$scratch/stdout" || complain "a torus: $(grep '^mesh  ' "$scratch/stdout")"

# JSON: the keys of the contract, every mesh once, and nothing changes from run to run.
expect 0 '' search $runs/llama-8b-64.yaml --json --rejected
cp "$scratch/stdout" "$scratch/search.json"
python3 - "$scratch/search.json" <<'PYTHON' || complain "search --json"
import json, sys
r = json.load(open(sys.argv[1]))
assert r["schema"] == "shardwright.search/1" and r["run"] == "llama-8b-64"
assert r["accelerators"] == 64 and r["evaluated"] == 84
assert r["feasible"] == len(r["candidates"]) and len(r["candidates"]) + len(r["rejected"]) == 84
meshes = [c["mesh_dim"] for c in r["candidates"] + r["rejected"]]
assert len(set(meshes)) == 84
assert r["chosen"] == r["candidates"][0]
assert r["fastest"]["step_seconds"] == min(c["step_seconds"] for c in r["candidates"])
reasons = "product batch heads kv_heads hidden intermediate vocab sequence memory".split()
assert all(x["reason"] in reasons and x["detail"] and x["help"] for x in r["rejected"])
for c in r["candidates"]:
    assert {"mesh_dim", "axis_order", "micro_batch_size", "accumulation_steps", "recompute", "memory",
            "step_seconds", "compute_seconds", "exposed_communication_seconds", "communication_bytes",
            "tokens_per_second", "tokens_per_second_per_accelerator", "mfu"} <= c.keys()
    m = c["memory"]
    assert set(m) == {"limit", "headroom", "total", "arena", "parameters", "gradients", "optimizer", "activations",
                      "workspace", "reserved"}
    assert m["headroom"] == m["limit"] * 5 // 100 and c["verdict"] == "fits"
    assert m["total"] == m["arena"] + m["reserved"] <= m["limit"] - m["headroom"]
    assert m["arena"] == sum(m[k] for k in ("parameters", "gradients", "optimizer", "activations", "workspace"))
    for k in ("exposed_communication_seconds", "communication_bytes"):
        assert set(c[k]) == {"dp", "fsdp", "tp", "sp"}
PYTHON
# Headroom: the search leaves it, a mesh that is asked for may use it up and is told so.
full=(--set micro_batch_size=2 --set recompute=none --mesh_dim '1,64,1,1')
tight='fits without headroom: 84.7 GB of 85.5 GB are used, 822 MB stay free; memory_headroom asks for 4.3 GB'
expect 0 '' search $runs/llama-8b-64.yaml
grep -qxE 'memory    [0-9.]+ GB of 85.5 GB per accelerator: fits' "$scratch/stdout" || complain "search: no verdict"
expect 0 '' search $runs/llama-8b-64.yaml "${full[@]}"
grep -qxF 'memory    84.7 GB of 85.5 GB per accelerator: fits without headroom' "$scratch/stdout" ||
    complain "search: another verdict: $(grep ^memory "$scratch/stdout")"
grep -qxF "warning   $tight" "$scratch/stdout" || complain "search: no warning: $(grep ^warning "$scratch/stdout")"
expect 0 '' search $runs/llama-8b-64.yaml "${full[@]}" --set 'memory_headroom=0.5 %'
! grep -q '^warning' "$scratch/stdout" || complain "search: a warning with headroom enough"
expect 0 '' explain $runs/llama-8b-64.yaml "${full[@]}" --json
python3 - "$scratch/stdout" <<'PYTHON' || complain "explain --json: verdict"
import json, sys
mesh = json.load(open(sys.argv[1]))["mesh"]
m = mesh["memory"]
assert mesh["verdict"] == "fits_without_headroom" and m["limit"] - m["headroom"] < m["total"] <= m["limit"]
PYTHON
expect 0 '' explain $runs/llama-8b-64.yaml "${full[@]}" --html "$scratch/tight.html"
for line in '<span>memory per accelerator: fits without headroom</span>' "The mesh $tight."; do
    grep -qF "$line" "$scratch/tight.html" || complain "explain --html lacks: $line"
done
expect 0 "$runs/llama-8b-64.yaml: warning: mesh_dim 1,64,1,1 $tight" emit $runs/llama-8b-64.yaml "${full[@]}" \
    -o "$scratch/tight" --set "directory=$scratch/run"
expect 0 '' check "$scratch/tight/llama-8b-64.plan.yaml"
named=("${full[@]:0:4}" --set 'mesh_dim=1,64,1,1')
expect 0 "$runs/llama-8b-64.yaml: warning: $tight" check $runs/llama-8b-64.yaml "${named[@]}"
"$plan" check --format github $runs/llama-8b-64.yaml "${named[@]}" |
    grep -qxF "::warning file=$runs/llama-8b-64.yaml::$tight" || complain "check --format github: no warning"
# Where no mesh leaves it, nothing is chosen: both ways out are said, and are ways out.
none=(--set cluster.nodes=1 --set global_batch_size=16 --set 'memory_headroom=76 %'
    --set 'cluster.links=[{name: nvlink, spans: 8, bandwidth: 450 GB/s, latency: 3 us}]')
expect 1 '*' search $runs/llama-8b-64.yaml "${none[@]}"
grep -qE "^$runs/llama-8b-64.yaml:7:11: error: none of 20 meshes leaves the memory_headroom of 'llama-8b-64'; the closest is mesh_dim [0-9,]+: fits without headroom \([0-9.]+ GB free, not 65.0 GB\): needs " \
    "$scratch/stderr" || complain "no word about headroom: $(cat "$scratch/stderr")"
ways=$(sed -nE 's/^    help: use memory_headroom: ([0-9.]+ %), or mesh_dim: ([0-9,]+), which may use it up$/\1|\2/p' "$scratch/stderr")
[ -n "$ways" ] || complain "no way out: $(cat "$scratch/stderr")"
expect 0 '' search $runs/llama-8b-64.yaml "${none[@]}" --set "memory_headroom=${ways%|*}"
grep -q '^memory .*: fits$' "$scratch/stdout" || complain "less headroom is no way out"
expect 0 '' search $runs/llama-8b-64.yaml "${none[@]}" --mesh_dim "${ways#*|}"
grep -q '^memory .*: fits without headroom$' "$scratch/stdout" || complain "to ask for the mesh is no way out"
expect 1 '*' emit $runs/llama-8b-64.yaml "${none[@]}" -o "$scratch/none" --set "directory=$scratch/run"
[ -e "$scratch/none" ] && complain "emit without headroom leaves a folder"
expect 2 "--set:1:17: error: 'memory_headroom' must be at most 0.9, not 5" search $runs/llama-8b-64.yaml --set memory_headroom=5
grep -qxF '    help: for example: memory_headroom: 5 %' "$scratch/stderr" || complain "no help for memory_headroom: 5"

# A mesh that does not fit has a price, and a speed that goes with it.
expect 1 '*' explain $runs/llama-8b-64.yaml --mesh_dim 64,1,1,1
grep -qxF 'memory    138 GB of 85.5 GB per accelerator: does not fit' "$scratch/stdout" || complain "explain: no verdict"
grep -qE 'tokens/s, .* MFU [1-9][0-9.]* %$' "$scratch/stdout" || complain "explain: no MFU: $(grep MFU "$scratch/stdout")"
expect 1 '*' explain $runs/llama-8b-64.yaml --mesh_dim 64,1,1,1 --json
python3 - "$scratch/stdout" "$scratch/search.json" <<'PYTHON' || complain "explain --json: the speed of what does not fit"
import json, sys
mesh = json.load(open(sys.argv[1]))["mesh"]
assert mesh["verdict"] == "does_not_fit"
# as of every other, MFU is tokens/s times what a token takes
c = json.load(open(sys.argv[2]))["chosen"]
assert abs(mesh["mfu"] / mesh["tokens_per_second"] / (c["mfu"] / c["tokens_per_second"]) - 1) < 1e-4
PYTHON
expect 1 '*' explain $runs/llama-8b-64.yaml --mesh_dim 64,1,1,1 --html "$scratch/unfit.html"
! grep -qF '<b>0.0 %</b>' "$scratch/unfit.html" || complain "explain --html: an utilization of nothing"
grep -qF 'The mesh does not fit: 138 GB of 85.5 GB are needed, 52.4 GB more than there is.' "$scratch/unfit.html" ||
    complain "explain --html: no verdict"
printf '[]\n' >"$scratch/list.yaml"
expect 2 "$scratch/list.yaml:1:1: error: the description of an accelerator must be a mapping, not a list" \
    search $runs/llama-8b-64.yaml --set "cluster.accelerator=$scratch/list.yaml"

expect 0 '' search $runs/llama-8b-64.yaml --json --top 3
[ "$(grep -c '"mesh_dim"' "$scratch/stdout")" -eq 6 ] || complain "--top 3 with --json"
expect 0 '' explain $runs/llama-8b-64.yaml --json
cp "$scratch/stdout" "$scratch/explain.json"
expect 0 "$runs/llama-8b-64.yaml:2:1: warning: $no_data" emit $runs/llama-8b-64.yaml -o "$scratch/programs" --set "directory=$scratch/run"
python3 - "$scratch/explain.json" "$scratch/programs/llama-8b-64.plan.yaml" <<'PYTHON' || complain "explain --json: programs"
import json, sys
r = json.load(open(sys.argv[1]))
assert [p["name"] for p in r["programs"]] == ["train", "evaluate", "save"]
for p in r["programs"]:
    assert set(p) == {"name", "seconds", "arena_bytes", "state_bytes", "transient_bytes", "digest"}
    assert p["arena_bytes"] == p["state_bytes"] + p["transient_bytes"] and p["transient_bytes"] > 0
train, evaluate, save = r["programs"]
assert save["seconds"] == r["checkpoint"]["exchange_seconds"]
assert train["seconds"] == r["mesh"]["step_seconds"] > evaluate["seconds"] > 0
assert train["arena_bytes"] == r["mesh"]["memory"]["arena"]
assert train["state_bytes"] == evaluate["state_bytes"] == save["state_bytes"]
assert train["seconds"] > save["seconds"] > 0 and save["transient_bytes"] == 128 << 20 # two of the longest messages
plan = open(sys.argv[2]).read()
assert f"\nprograms:\n  train: '{train['digest']}'\n  evaluate: '{evaluate['digest']}'\n  save: '{save['digest']}'\n" in plan
PYTHON
for kind in model accelerator profile curve cluster run; do
    expect 0 '' schema $kind
    python3 -m json.tool "$scratch/stdout" >/dev/null || complain "schema $kind is no JSON"
done

# explain
expect 0 '' explain $runs/llama-8b-64.yaml --mesh_dim 2,8,4,1
grep -q '^mesh      mesh_dim 2,8,4,1:' "$scratch/stdout" || complain "explain: another mesh"
grep -qE "^evaluation [0-9.]+ m?s a batch; its [0-9.]+ [MG]B lie in the step's [0-9.]+ [MG]B$" "$scratch/stdout" ||
    complain "explain: no evaluation: $(grep evaluation "$scratch/stdout")"
grep -qxE 'run       100,000 steps take [0-9.]+ (days|h), [0-9],[0-9]{3} accelerator-hours' "$scratch/stdout" ||
    complain "explain: no time of the run"
grep -qxF "          more than the job's time limit, 24:00:00: it saves a checkpoint before, and the next 'plan submit' resumes it; with slurm.continue: requeue or chain it resumes by itself" \
    "$scratch/stdout" || complain "explain: nothing about the time limit"
grep -qxF 'checkpoint           96.4 GB in 150 files, at most 1.5 GB of one rank' "$scratch/stdout" ||
    complain "explain: no checkpoint: $(grep '^checkpoint' "$scratch/stdout")"
grep -qE '^set                  every_steps: 500, [0-9.]+ min: paused 0.[0-9]+ % of the time, 0.[0-9]+ % computed again' \
    "$scratch/stdout" || complain "explain: not how often it is saved"
! grep -q '^snapshot .* while' "$scratch/stdout" || complain "explain: a GPU's snapshot is not in its memory"
grep -Eq '^(all_reduce|reduce_scatter)  *tp ' "$scratch/stdout" || complain "explain: nothing is reduced over tp"
expect 0 '' explain $runs/quickstart.yaml
grep -qE '^snapshot +5.[0-9] MB  while a checkpoint is written$' "$scratch/stdout" ||
    complain "explain: no snapshot in the memory: $(grep '^snapshot' "$scratch/stdout")"
! grep -q 'time limit' "$scratch/stdout" || complain "explain: mpirun has no time limit"
# 5 MB do not fit beside what is reserved: written in the pause
expect 0 '' explain $runs/quickstart.yaml --set 'cluster.accelerator.memory=230 MB' --set memory_headroom=0 --set prefer=time --json
python3 - "$scratch/stdout" <<'PYTHON' || complain "explain --json: a checkpoint in the pause"
import json, sys
c = json.load(open(sys.argv[1]))["checkpoint"]
assert c["background"] is False and c["snapshot_bytes"] == c["copy_seconds"] == 0
assert abs(c["stall_seconds"] - c["exchange_seconds"] - c["write_seconds"]) < 1e-9
PYTHON
expect 0 '' explain $runs/llama-8b-64.yaml --json --set cluster.storage.bandwidth=20\ GB/s \
    --set checkpoint.bandwidth=10\ GB/s --set cluster.reliability.failures_per_1000_node_days=0
python3 - "$scratch/stdout" <<'PYTHON' || complain "explain --json: checkpoint"
import json, sys
r = json.load(open(sys.argv[1]))
c = r["checkpoint"]
assert c["background"] is True and c["snapshot_bytes"] == c["most_bytes_of_a_rank"] > 0
assert c["write_bandwidth"] == 1e10 and c["write_bandwidth_from"] == "checkpoint.bandwidth"
assert abs(c["write_seconds"] - c["bytes"] / 1e10) < 1e-9 * c["write_seconds"]
assert abs(c["save_seconds"] - c["stall_seconds"] - c["write_seconds"]) < 1e-9 * c["save_seconds"]
assert c["failure_seconds"] is None and c["interval_seconds"] is None and c["interval_steps"] == 0
assert c["every_steps"] == 500
assert abs(c["every_steps_seconds"] / (500 * r["mesh"]["step_seconds"]) - 1) < 1e-15 * 4
assert 0 < c["every_steps_paused_share"] < 1e-3 and abs(r["run_seconds"] / (1e5 * r["mesh"]["step_seconds"]) - 1) < 1e-15 * 4
PYTHON
expect 0 '' explain $runs/quickstart.yaml --program
grep -q 'attention' "$scratch/stdout" || complain "explain --program"
grep -q 'adamw' "$scratch/stdout" || complain "explain --program is not of a step"
cp "$scratch/stdout" "$scratch/step"
for spelling in "--program train" "--program=train"; do
    # shellcheck disable=SC2086 # options
    expect 0 '' explain $runs/quickstart.yaml $spelling
    cmp -s "$scratch/stdout" "$scratch/step" || complain "explain $spelling is another program"
done
expect 0 '' explain --program $runs/quickstart.yaml
cmp -s "$scratch/stdout" "$scratch/step" || complain "explain --program takes the file for a name"
expect 0 '' explain $runs/quickstart.yaml --program evaluate
! grep -q 'adamw' "$scratch/stdout" || complain "explain --program evaluate has an update"
for file in step stdout; do grep ': parameter ' "$scratch/$file" >"$scratch/$file.parameters"; done
cmp "$scratch/step.parameters" "$scratch/stdout.parameters" || complain "the programs do not share their parameters"
[ -s "$scratch/step.parameters" ] || complain "explain --program lists no parameters"
expect 2 "plan: error: this run has no program 'read': its tokens are not read one by one (docs/serving.md)" \
    explain $runs/quickstart.yaml --program read --mesh_dim 1,4,1,2 --set serve.max_batch=8
expect 0 '' explain $runs/quickstart.yaml --program read --mesh_dim 1,4,2,1 --set serve.max_batch=8
grep -q 'pick_token' "$scratch/stdout" || complain "explain --program read samples nothing"
expect 0 '' explain $runs/quickstart.yaml --program save
grep -qE '^  snapshot\(embedding, .*adam_v head\) files=3 .* over \(fsdp,tp,sp\)$' "$scratch/stdout" ||
    complain "explain --program save has no snapshot"
grep ': parameter ' "$scratch/stdout" >"$scratch/stdout.parameters"
cmp "$scratch/step.parameters" "$scratch/stdout.parameters" || complain "save does not share the parameters"
expect 2 "plan: error: no program 'evalute'; did you mean 'evaluate'?" explain $runs/quickstart.yaml --program evalute
expect 2 "plan: error: no program 'forwards'; use train, evaluate, save, prefill, decode, score or read" explain $runs/quickstart.yaml --program=forwards
expect 2 "plan: error: no program ''; use train, evaluate, save, prefill, decode, score or read" explain $runs/quickstart.yaml --program=
expect 0 '' explain --help
grep -A 1 -xF '  --program [NAME]         the program that every rank runs: train, evaluate, save, prefill, decode,' \
    "$scratch/stdout" | grep -qxE ' {27}score or read' || complain "explain --help: no --program"

# emit: the same bytes twice, a valid script, and paths that need quotes.
expect 0 '' emit $runs/quickstart.yaml -o "$scratch/a b" --set "directory=$scratch/run it's 1%"
cp -r "$scratch/a b" "$scratch/first"
[ "$(wc -l <"$scratch/stdout")" -eq 3 ] || complain "emit says more: $(cat "$scratch/stdout")"
grep -qE '^  save_seconds: 0.[0-9]+$' "$scratch/a b/quickstart.plan.yaml" || complain "emit: no save_seconds"
expect 0 "configs/runs/llama-8b-64.yaml:2:1: warning: the run names no data to train on, so its plan is good for planning only; add data: {path: FILE} before 'runner train'" emit $runs/llama-8b-64.yaml -o "$scratch/programs" --set "directory=$scratch/run"
# Longer than the job may: a warning where slurm.time stands, of the run or of the cluster.
long="warning: 100,000 steps take [0-9.]+ (days|h), more than the job's time limit, LIMIT: it saves a checkpoint before, and the next 'plan submit' resumes it; with slurm.continue: requeue or chain it resumes by itself"
for command in check search "emit -o $scratch/programs --set directory=$scratch/run"; do
    # shellcheck disable=SC2086 # options
    "$plan" $command $runs/llama-8b-64.yaml >"$scratch/stdout" 2>"$scratch/stderr"
    grep -qxE "configs/clusters/h100-8x8.yaml:[0-9]+:[0-9]+: ${long/LIMIT/24:00:00}" "$scratch/stderr" ||
        complain "$command: nothing about the time limit: $(cat "$scratch/stderr")"
    # shellcheck disable=SC2086 # options
    "$plan" $command $runs/llama-8b-64.yaml --set slurm.time=12:00:00 >"$scratch/stdout" 2>"$scratch/stderr"
    grep -qxE -- "--set:1:12: ${long/LIMIT/12:00:00}" "$scratch/stderr" || complain "$command: not the run's own limit"
    # One that goes on by itself takes as many jobs as it needs.
    # shellcheck disable=SC2086 # options
    said=$("$plan" $command $runs/llama-8b-64.yaml --set slurm.time=10:00:00 --set slurm.continue=chain 2>&1 >/dev/null)
    if grep -q 'warning: 100,000 steps' <<<"$said" ||
        ! grep -qE 'note: 100,000 steps take [0-9.]+ (days|h), about [0-9]+ jobs of 10:00:00 one after the other, each of which resumes where the one before was saved' <<<"$said"; then
        complain "$command: nothing about the number of jobs: $said"
    fi
    # shellcheck disable=SC2086 # options
    "$plan" $command $runs/llama-8b-64.yaml --set slurm.time=UNLIMITED 2>&1 | grep 'time limit' && complain "$command: UNLIMITED"
done
# A limit that the signal before it takes up: at its place, where the run goes on by itself.
short="warning: jobs of 0:01:00 leave hardly a step to train: they are told to save [0-9]+ s before their limit, which Slurm may do a minute early; slurm.time [0-9:]+ is enough"
for command in check "emit -o $scratch/programs --set directory=$scratch/run"; do
    for setting in slurm.time=0:01:00 slurm.time=3:00:00; do
        # shellcheck disable=SC2086 # options
        said=$("$plan" $command $runs/quickstart-slurm.yaml --set $setting --set slurm.continue=requeue 2>&1 >/dev/null)
        found=$(grep -cxE -- "--set:1:12: $short" <<<"$said")
        [ "$found" -eq "$([ $setting = slurm.time=0:01:00 ] && echo 1 || echo 0)" ] ||
            complain "$command with $setting: $said"
    done
    # shellcheck disable=SC2086 # options
    "$plan" $command $runs/quickstart-slurm.yaml --set slurm.time=0:01:00 2>&1 | grep 'hardly a step' &&
        complain "$command: a run that does not continue by itself"
done
"$plan" check --format github $runs/llama-8b-64.yaml | grep -qE "^::warning file=configs/clusters/h100-8x8.yaml,line=[0-9]+,col=[0-9]+::100,000 steps take " ||
    complain "check: no warning of the time for GitHub"
# The time of all steps is told where the run says how many there are.
expect 0 '' search $runs/llama-8b-64.yaml
grep -qxE 'run       100,000 steps take [0-9.]+ (days|h), [0-9],[0-9]{3} accelerator-hours' "$scratch/stdout" || complain "search: no time of the run"
grep -qxF '          MFU: model FLOP/s over the bf16 peak of 989 TFLOP/s; causal attention counts as half of' "$scratch/stdout" ||
    complain "search: what MFU is"
[ "$(sed -n '/^rejected/,$p' "$scratch/stdout" | wc -L)" -le 100 ] || complain "search: rejected meshes in lines of $(wc -L <"$scratch/stdout")"
"$plan" search $runs/llama-8b-64.yaml --json >"$scratch/stdout" 2>/dev/null
python3 - "$scratch/stdout" <<'PYTHON' || complain "search --json: time of the run"
import json, sys
r = json.load(open(sys.argv[1]))
assert abs(r["run_seconds"] / (1e5 * r["chosen"]["step_seconds"]) - 1) < 1e-15 * 4
assert abs(r["accelerator_hours"] - r["run_seconds"] * 64 / 3600) < 1e-6 * r["accelerator_hours"]
PYTHON
sed '/^optimizer:/,$d; s,\.\./,'"$PWD"'/configs/,' $runs/llama-8b-64.yaml >"$scratch/no-steps.yaml"
expect 0 '' search "$scratch/no-steps.yaml"
if grep -q '^run  ' "$scratch/stdout" || grep -q 'time limit' "$scratch/stderr.whole"; then
    complain "a run without steps has a time"
fi
expect 0 '' search "$scratch/no-steps.yaml" --json
grep -q '"run_seconds":.*null' "$scratch/stdout" || complain "search --json: the time of no steps"
# One accelerator waits for nobody, and there is one of it.
for command in search explain "explain --html $scratch/one.html"; do
    # shellcheck disable=SC2086 # options
    expect 0 '' $command $runs/quickstart.yaml --set cluster.accelerators_per_node=1 --mesh_dim auto
    [ "$command" = "explain --html $scratch/one.html" ] && cp "$scratch/one.html" "$scratch/stdout"
    ! grep -nE '(^|[^0-9,.])1 (accelerators|sequences|nodes|steps)|waiting for communication|0\.00 us' "$scratch/stdout" ||
        complain "$command of one accelerator"
done
expect 0 '' explain $runs/llama-8b-64.yaml --html "$scratch/band.html"
grep -q 'A measured step takes [0-9.]* s to [0-9.]* s (assumed). Times rest on profile default: fitted to 155 published runs' "$scratch/band.html" || complain "explain --html: the band"
# Keys of a config.json that are known to be without effect are told when it is checked itself, not by every run that
# names it; unknown ones always.
sed "s,^model:.*,model: $PWD/tests/oracle/published_configs/llama-3.1-8b.json,; s,\.\./,$PWD/configs/," $runs/llama-8b-64.yaml >"$scratch/hub.yaml"
expect 0 '' search "$scratch/hub.yaml"
expect 0 '*' check "$scratch/hub.yaml"
grep -q 'ignored keys' "$scratch/stderr" && complain "check of a run: its model's keys that are without effect"
expect 0 '*' check tests/oracle/published_configs/llama-3.1-8b.json
grep -q 'llama-3.1-8b.json:1:1: note: ignored keys: attention_dropout, ' "$scratch/stderr" || complain "check: no note of ignored keys"
sed '2i "something_new": 1,' tests/oracle/published_configs/llama-3.1-8b.json >"$scratch/new.json"
sed "s,^model:.*,model: new.json," "$scratch/hub.yaml" >"$scratch/new.yaml"
expect 0 "$scratch/new.json:1:1: note: ignored keys: something_new" search "$scratch/new.yaml"
expect 0 '' emit $runs/quickstart.yaml -o "$scratch/a b" --set "directory=$scratch/run it's 1%"
diff -r "$scratch/first" "$scratch/a b" || complain "emit: other bytes the second time"
# The run file named in another way, as from another folder.
expect 0 '' emit "$PWD/$runs/quickstart.yaml" -o "$scratch/a b" --set "directory=$scratch/run it's 1%"
diff -r "$scratch/first" "$scratch/a b" || complain "emit: other bytes from another folder"
# What was written from the root on stays so; all else is seen from the plan's folder.
grep -qxF "  directory: '$scratch/run it''s 1%'" "$scratch/a b/quickstart.plan.yaml" ||
    complain "emit: an absolute directory does not stay: $(grep -F directory: "$scratch/a b/quickstart.plan.yaml")"
grep -qxF "    directory: '$scratch/run it''s 1%/checkpoints'" "$scratch/a b/quickstart.plan.yaml" ||
    complain "emit: the checkpoints of an absolute directory are not in it"
[ "$(find "$scratch/a b" -mindepth 1 | wc -l)" -eq 2 ] || complain "emit leaves other files behind"
[ -d "$scratch/run it's 1%" ] || complain "emit: no folder for the run"
bash -n "$scratch/a b/quickstart.sh" || complain "the script is no shell script"
expect 0 '' check "$scratch/a b/quickstart.plan.yaml"
# signed PLAN SED-COMMAND: an edited plan with the digest that belongs to it.
signed() {
    sed -e "$2" "$1" >"$scratch/signed.yaml"
    python3 - "$scratch/signed.yaml" <<'PYTHON'
import sys
text = open(sys.argv[1], "rb").read()
at = text.index(b"digest: '") + len(b"digest: '")
digest = 0xcbf29ce484222325
for byte in text[:at] + text[at + 16:]:
    digest = (digest ^ byte) * 0x100000001b3 & 0xffffffffffffffff
open(sys.argv[1], "wb").write(text[:at] + b"%016x" % digest + text[at + 16:])
PYTHON
}
for program in train:19 evaluate:20 save:21; do
    signed "$scratch/a b/quickstart.plan.yaml" "s/^  ${program%:*}: .*/  ${program%:*}: '0123456789abcdef'/"
    expect 2 "$scratch/signed.yaml:${program#*:}:3: error: this version makes another '${program%:*}' program of the plan than the version that wrote it, or numbers it otherwise; write it again with 'plan emit': its checkpoints can be resumed" \
        check "$scratch/signed.yaml"
done
signed "$scratch/a b/quickstart.plan.yaml" "/^  train: /d; /^  evaluate: /d; /^  save: /d; s/^programs:/program: '0123456789abcdef'/"
expect 2 "$scratch/signed.yaml:18:1: error: this plan was written by an older version: it has 'program' in place of 'programs'" \
    check "$scratch/signed.yaml"
grep -qxF "    help: write it again with 'plan emit'" "$scratch/stderr" || complain "check: no help for an older plan"
signed "$scratch/a b/quickstart.plan.yaml" '/^  save: /d'
expect 2 "$scratch/signed.yaml:18:1: error: this plan was written by an older version: 'programs' has no digest of 'save'" \
    check "$scratch/signed.yaml"
sed -i 's/warmup_steps: 20/warmup_steps: 21/' "$scratch/first/quickstart.plan.yaml"
cp "$scratch/first/quickstart.plan.yaml" "$odd"
annotates "$("$plan" check "$odd" 2>&1 | sed "s,^.*:3:10: error: ,::error file=$escaped\,line=3\,col=10::,")" "$odd"
cmp -s "$scratch/first/quickstart.plan.yaml" "$scratch/a b/quickstart.plan.yaml" &&
    complain "the test's own edit changed nothing"
expect 2 '*' check "$scratch/first/quickstart.plan.yaml"
expect 0 '' emit $runs/quickstart-slurm.yaml -o "$scratch/a b" --set "directory=$scratch/run it's 1%"
script="$scratch/a b/quickstart-slurm.sbatch"
bash -n "$script" || complain "the sbatch script is no shell script"
for line in '#SBATCH --job-name=quickstart-slurm' '#SBATCH --nodes=4' '#SBATCH --ntasks-per-node=2' \
    '#SBATCH --cpus-per-task=1' '#SBATCH --partition=play' '#SBATCH --time=0:15:00' \
    "#SBATCH --output=\"$scratch/run it's 1%%/slurm-%j.out\"" \
    '#SBATCH --no-requeue' '#SBATCH --signal=USR1@30' \
    "runner=$(dirname "$plan")/runner"; do
    grep -qxF -- "$line" "$script" || complain "sbatch script lacks: $line"
done
grep -qE '^#SBATCH --(account|qos|gpus|mem|exclusive|constraint|reservation)' "$script" &&
    complain "sbatch script has settings that nobody made"
for line in '#SBATCH --no-requeue' '#SBATCH --export=NONE' '#SBATCH --kill-on-invalid-dep=yes' \
    "#SBATCH --chdir=\"$scratch/run it's 1%\"" 'export SLURM_EXPORT_ENV=ALL'; do
    grep -qxF -- "$line" "$script" || complain "sbatch script lacks: $line"
done
# The limit follows from the steps where nobody says it: half as long again, ten minutes, and up to five.
limits() { # WANTED STDERR SETTINGS...
    local wanted=$1 said=$2 script=$scratch/limits/llama-8b-64.sbatch
    shift 2
    expect 0 "$said" emit $runs/llama-8b-64.yaml -o "$scratch/limits" --set directory="$scratch/run" \
        --set data.path="$scratch/tokens.bin" --set cluster.slurm.time=null "$@"
    case $wanted in
        '') ! grep -E '^#SBATCH --(time|signal)=' "$script" || complain "a limit that nobody set" ;;
        *) grep -qE -- "^#SBATCH --time=$wanted$" "$script" || complain "$*: $(grep -e --time= "$script"), not $wanted" ;;
    esac
}
limits '' "$runs/llama-8b-64.yaml: warning: the job has no time limit but its partition's; set 'slurm.time', or 'optimizer.total_steps', from which it follows" \
    --set optimizer=null
limits '0:15:00' '' --set optimizer='{total_steps: 1}'
# a cluster's limit is the most that a job asks for
limits '0:15:00' '' --set optimizer='{total_steps: 1}' --set cluster.slurm.time=24:00:00
limits '24:00:00' '' --set optimizer='{total_steps: 100000}' --set cluster.slurm.time=24:00:00
limits '24:00:00' '' --set optimizer='{total_steps: 1}' --set slurm.time=24:00:00 --set cluster.slurm.time=12:00:00
limits '24:00:00' '' --set optimizer=null --set cluster.slurm.time=24:00:00
limits '2:00:00' '' --set optimizer='{total_steps: 1}' --set cluster.slurm.time=24:00:00 --set slurm.time_min=2:00:00
limits '1:25:00' '' --set optimizer='{total_steps: 1}' --set cluster.slurm.time=24:00:00 --set slurm.signal=USR1@1200
limits '0:15:00' '' --set optimizer='{total_steps: 1}'
grep -qxF "time limit 0:15:00, from the predicted time of all steps; 'slurm.time' sets another" "$scratch/stdout" ||
    complain "the predicted limit is not told"
limits '[0-9]+-[0-9][0-9]:[0-5][05]:00' '' --set optimizer='{total_steps: 100000}'
limits '36:00:00' '' --set optimizer='{total_steps: 100000}' --set slurm.time=36:00:00
grep -qE '^#SBATCH --signal=USR1@[0-9]+$' "$scratch/limits/llama-8b-64.sbatch" || complain "no signal before the limit"
limits '2' '' --set optimizer='{total_steps: 100000}' --set slurm.time=2
! grep "^#SBATCH --signal" "$scratch/limits/llama-8b-64.sbatch" || complain "a signal at once"
limits '36:00:00' '' --set optimizer='{total_steps: 100000}' --set slurm.time=36:00:00 --set slurm.signal=USR1@600
grep -qxF '#SBATCH --signal=USR1@600' "$scratch/limits/llama-8b-64.sbatch" || complain "slurm.signal"
# Containers: every folder that the run needs, at its own path; what the user mounts already is not mounted twice.
contained() { # WANTED SETTINGS...
    local wanted=$1
    shift
    expect 0 '' emit $runs/llama-8b-64.yaml -o "$scratch/contained" --set directory="$scratch/run" \
        --set data.path="$scratch/data/x.bin" "$@"
    grep -qF -- "$wanted" "$scratch/contained/llama-8b-64.sbatch" ||
        complain "container: $(grep -A 2 -E '^(options=|srun )' "$scratch/contained/llama-8b-64.sbatch"), not $wanted"
}
own="$scratch/run:$scratch/run,$scratch/contained:$scratch/contained,$scratch/data:$scratch/data"
goes_on=(--set slurm.preflight=quick)
contained "options=(--container-image=a/b --container-mounts=$own,$(dirname "$plan"):$(dirname "$plan")) " "${goes_on[@]}" --set slurm.container.image=a/b
contained "--container-mounts=$own,/x:/y:ro --z) container=()" "${goes_on[@]}" --set slurm.container='{image: a/b, runner: /r, mounts: [/x:/y:ro], options: [--z]}'
contained "--distribution=block:block --container-image=a/b --container-mounts=$own,/x:/y:ro --z \"\$runner\" train " \
    --set slurm.container='{image: a/b, runner: /r, mounts: [/x:/y:ro], options: [--z]}'
grep -qx "inside=/r #.*" "$scratch/contained/llama-8b-64.sbatch" || complain "the runner in the image is not named"
contained "--container-mounts=$scratch:$scratch) " "${goes_on[@]}" --set slurm.container="{image: a/b, runner: /r, mounts: ['$scratch:$scratch']}"
contained "--distribution=block:block apptainer exec --nv --bind=$own a.sif \"\$runner\" train " \
    --set slurm.container='{image: a.sif, type: apptainer, runner: /r}'
contained "options=() container=(apptainer exec --nv --bind=$own a.sif)" "${goes_on[@]}" --set slurm.container='{image: a.sif, type: apptainer, runner: /r}'
expect 2 "plan: error: the folder '$scratch/a,b' cannot be mounted in a container: ',' and ':' separate mounts; move it" \
    emit $runs/llama-8b-64.yaml -o "$scratch/contained" --set directory="$scratch/a,b" --set slurm.container.image=a
# No directive after the first command, where Slurm does not read it.
awk '/^[^#]/ && NF { code = 1 } code && /^#SBATCH/ { exit 1 }' "$script" || complain "late directive"
# The scripts start the runner, and end with its verdict where it leaves one: a stand-in for srun and mpirun shows with what.
mkdir -p "$scratch/bin"
for name in srun mpirun runner; do
    # shellcheck disable=SC2016 # expanded when it runs
    printf '#!/usr/bin/env bash\nprintf "%%s|" "$0" "$@"; echo "$OMP_NUM_THREADS"\n' >"$scratch/bin/$name"
    chmod +x "$scratch/bin/$name"
done
# What comes next is decided without the runner, and mpirun's script asks one that is not there: the verdict
# is the exit code.
# shellcheck disable=SC2016 # expanded when it runs
sed -i '2i [ "$1" = next ] && exit 3' "$scratch/bin/runner"
printf '#!/bin/sh\necho JobState=RUNNING\n' >"$scratch/bin/scontrol"
printf '#!/bin/sh\nexit 1\n' >"$scratch/bin/sinfo"
chmod +x "$scratch/bin/scontrol" "$scratch/bin/sinfo"
digest_of() { sed -n "s/^digest: '\?\([0-9a-f]*\).*/\1/p" "$1"; }
digest=$(digest_of "$scratch/a b/quickstart.plan.yaml")
[ ${#digest} -eq 16 ] || complain "the plan has no digest"
said=$(cd / && env -u OMP_NUM_THREADS PATH="$scratch/bin:$PATH" SHARDWRIGHT_RUNNER="$scratch/bin/runner" \
    "$scratch/a b/quickstart.sh" --steps 3)
case $said in
    */mpirun\|-quiet\|--mca\|ess_base_forward_signals\|40,41\|-np\|8\|*"|$scratch/bin/runner|train|$scratch/a b/quickstart.plan.yaml|--digest|$digest|--steps|3|1") ;;
    *) complain "quickstart.sh runs $said" ;;
esac
# What nproc says of a node, which is OMP_NUM_THREADS or OMP_THREAD_LIMIT where they are set, is not asked with a rank's threads.
# shellcheck disable=SC2016 # expanded when it runs
printf '#!/bin/sh\necho "${OMP_THREAD_LIMIT:-${OMP_NUM_THREADS:-64}}"\n' >"$scratch/bin/nproc"
chmod +x "$scratch/bin/nproc"
said=$(PATH="$scratch/bin:$PATH" SHARDWRIGHT_RUNNER="$scratch/bin/runner" OMP_NUM_THREADS=2 OMP_THREAD_LIMIT=1 "$scratch/a b/quickstart.sh")
case $said in
    *"|--oversubscribe|"* | *"|mpi_yield_when_idle|"*) complain "eight ranks on 64 processors: $said" ;;
    *"|--use-hwthread-cpus|"*) ;;
    *) complain "quickstart.sh on 64 processors runs $said" ;;
esac
rm "$scratch/bin/nproc"
# Outside a job srun would take an allocation of its own.
(env -u SLURM_JOB_ID PATH="$scratch/bin:$PATH" SHARDWRIGHT_RUNNER="$scratch/bin/runner" bash "$script") \
    >"$scratch/stdout" 2>"$scratch/stderr"
status=$?
if [ $status -ne 2 ] || [ -s "$scratch/stdout" ] ||
    ! grep -qxF "this is a job script: submit it with 'sbatch $script'" "$scratch/stderr"; then
    complain "the sbatch script starts outside a job"
fi
export SLURM_JOB_ID=17 SLURM_JOB_NUM_NODES=4 SLURM_JOB_NODELIST='n[1-4]'
digest=$(digest_of "$scratch/a b/quickstart-slurm.plan.yaml")
said=$(cd / && env -u SLURM_CPUS_PER_TASK PATH="$scratch/bin:$PATH" \
    SHARDWRIGHT_RUNNER="$scratch/bin/runner" bash "$script")
case $said in
    */srun\|--mpi=pmix\|--nodes=4\|--ntasks=8\|*"|$scratch/bin/runner|train|$scratch/a b/quickstart-slurm.plan.yaml|--digest|$digest|1") ;;
    *) complain "the sbatch script runs $said" ;;
esac
# mpirun in a job of Slurm has its nodes, as many ranks on each as the mesh wants.
expect 0 '' emit $runs/quickstart-slurm.yaml -o "$scratch/salloc" --set directory="$scratch/salloc" --set cluster.launcher=mpirun
said=$(PATH="$scratch/bin:$PATH" SHARDWRIGHT_RUNNER="$scratch/bin/runner" bash "$scratch/salloc/quickstart-slurm.sh" 2>&1)
case $said in
    */mpirun\|*"|-np|8|"*"|--oversubscribe|--map-by|ppr:2:node|$scratch/bin/runner|train|"*) ;;
    *) complain "the mpirun script in a job of Slurm runs $said" ;;
esac
said=$(SLURM_JOB_NUM_NODES=3 PATH="$scratch/bin:$PATH" SHARDWRIGHT_RUNNER="$scratch/bin/runner" \
    bash "$scratch/salloc/quickstart-slurm.sh" 2>&1)
[ "$? $said" = "2 the mesh spans 4 nodes, and job 17 has 3" ] || complain "three nodes for a mesh of four: $said"
said=$(env -u SLURM_JOB_ID PATH="$scratch/bin:$PATH" SHARDWRIGHT_RUNNER="$scratch/bin/runner" \
    bash "$scratch/salloc/quickstart-slurm.sh" 2>&1)
[ "$? $said" = "2 the mesh spans 4 nodes: set SHARDWRIGHT_HOSTFILE to a file that lists them, or start it in a job of Slurm" ] ||
    complain "a mesh of four nodes outside a job: $said"
# Without a verdict of this attempt the launcher's exit code counts.
for name in srun mpirun; do
    cat >>"$scratch/bin/$name" <<'END'
told $ATTEMPT >"$ENDS/attempt.json"
exit 9
END
done
told() { # ATTEMPT VERDICT: attempt.json
    printf '{\n  "schema": "shardwright.attempt/1",\n  "attempt": %s,\n  "verdict": %s,\n  "nodes": [],\n' "$1" "$2"
    printf '  "cause": "a test",\n  "first_step": 0,\n  "step": 1,\n  "job": "17"\n}\n'
}
export -f told
export SHARDWRIGHT_PAUSE_SECONDS=0.1
ends() { # CODE SCRIPT FOLDER ATTEMPT-AND-VERDICT
    rm -rf "$3" && mkdir -p "$3" && told 3 75 >"$3/attempt.json"
    ENDS=$3 ATTEMPT=$4 PATH="$scratch/bin:$PATH" SHARDWRIGHT_RUNNER="$scratch/bin/runner" \
        bash "$2" >"$scratch/stdout" 2>"$scratch/stderr"
    local status=$?
    [ $status -eq "$1" ] || complain "$2 with attempt and verdict $4: exit $status, not $1"
}
folder="$scratch/run it's 1%"
# A job that runs once is one srun: its exit code is that.
[ "$(wc -l <"$script")" -lt 80 ] || complain "the script of a job that runs once is long"
if grep -q supervise "$script"; then complain "a job that runs once is supervised"; fi
for verdict in "4 0" "4 143" "3 75"; do
    ends 9 "$script" "$folder" "$verdict"
done
for setting in slurm.continue=requeue slurm.continue=chain slurm.preflight=quick slurm.requeue=true 'nodes=2-4 --set mesh_dim=auto'; do
    # shellcheck disable=SC2086 # two settings
    expect 0 '' emit $runs/quickstart-slurm.yaml -o "$scratch/goes on" --set "directory=$folder" --set $setting
    grep -q '^exec .* supervise ' "$scratch/goes on/quickstart-slurm.sbatch" || complain "$setting: not supervised"
done
expect 0 '' emit $runs/quickstart-slurm.yaml -o "$scratch/goes on" --set "directory=$folder" --set slurm.continue=requeue
grep -qxF "plan=$plan" "$scratch/goes on/quickstart-slurm.sbatch" || complain "the script names no plan"
[ "$(wc -l <"$scratch/goes on/quickstart-slurm.sbatch")" -lt 80 ] || complain "the script of a job that goes on is long"
for name in "$scratch/a b/quickstart.sh" "$scratch/goes on/quickstart-slurm.sbatch"; do
    ends 0 "$name" "$folder" "4 0"
    ends 143 "$name" "$folder" "4 143"
    ends 9 "$name" "$folder" "3 75"
    ends 9 "$name" "$folder" "4 null"
done
printf '#!/bin/sh\necho {{name}} {{ranks}} {{plan}}\n' >"$scratch/template"
expect 0 '' emit $runs/quickstart.yaml -o "$scratch/t" --template "$scratch/template" --set "directory=$scratch/run"
[ "$(sh "$scratch/t/quickstart.sh")" = "quickstart 8 $scratch/t/quickstart.plan.yaml" ] ||
    complain "--template"
printf 'x {{rank}}\n' >"$scratch/template"
# the error lists all that the reference has
# shellcheck disable=SC2016 # the page's own backticks
names=$(sed -n 's/^| `{{\(.*\)}}` | .*/\1/p' docs/reference/template.md | paste -sd , | sed 's/,/, /g; s/^/; there are: /')
expect 2 "$scratch/template:1:5: error: unknown placeholder '{{rank}}'; did you mean '{{ranks}}'?$names" \
    emit $runs/quickstart.yaml -o "$scratch/t" --template "$scratch/template" --set "directory=$scratch/run"

printf '#!/bin/sh\n# of {{plan}}\nhostname\n' >"$scratch/template"
expect 2 "$scratch/template:1:1: error: the template names no plan, so its job would run nothing of this one; write {{plan}} where the runner or 'plan supervise' gets it, as templates/ has it" \
    emit $runs/quickstart.yaml -o "$scratch/t" --template "$scratch/template" --set "directory=$scratch/run"

# The same tree in two places, of other depths and lengths: the same bytes from the same commands.
places=("$scratch/one" "$scratch/two/a longer name/further down")
for place in "${places[@]}"; do
    mkdir -p "$place/said"
    cp -r configs "$place"
    sed -e 's/^global_batch_size: .*/global_batch_size: 16/; s,^directory:.*,directory: ../../others,' \
        -e 's,^data: {path: [^,]*,data: {path: other.txt,' \
        $runs/quickstart.yaml >"$place/configs/runs/changed.yaml"
    (
        cd "$place" || exit 2
        for name in quickstart llama-8b-64; do
            run=configs/runs/$name.yaml
            "$plan" emit $run -o out >said/$name.emit || complain "emit of $name in $place"
            "$plan" check out/$name.plan.yaml >said/$name.check 2>&1 || complain "check of $name in $place"
            # how long it took is the one thing that may differ
            "$plan" search $run --json --rejected | grep -v '"search_seconds"' >said/$name.search.json
            "$plan" explain $run --json >said/$name.explain.json
            "$plan" explain $run --html said/$name.html >/dev/null || complain "explain --html in $place"
        done
        "$plan" diff configs/runs/quickstart.yaml configs/runs/changed.yaml --json >said/runs.diff.json
        "$plan" emit configs/runs/changed.yaml -o out/changed --set name=quickstart >/dev/null
        "$plan" diff out out/changed --json >said/folders.diff.json
        "$plan" diff out/quickstart.plan.yaml out/changed/quickstart.plan.yaml --json >said/plans.diff.json
        # paths given to --set are seen from the working directory
        cd said && "$plan" emit ../configs/runs/quickstart.yaml -o ../out/set --set directory=here \
            --set data.path=../x.txt >/dev/null
        [ "$bad" -eq 0 ]
    ) || bad=$((bad + 1))
done
for file in out/{quickstart,llama-8b-64,changed/quickstart,set/quickstart}.plan.yaml \
    said/{quickstart,llama-8b-64}.{emit,check,search.json,explain.json,html} said/{runs,folders,plans}.diff.json; do
    [ -s "${places[0]}/$file" ] || complain "$file is empty"
    cmp "${places[0]}/$file" "${places[1]}/$file" || complain "$file depends on where the tree lies"
    ! grep -F "$scratch" "${places[0]}/$file" || complain "$file says where the tree lies"
done
for line in "    path: '../examples/data/text.txt'" "  directory: '../runs/quickstart'" \
    "    directory: '../runs/quickstart/checkpoints'"; do
    grep -qxF "$line" "${places[0]}/out/quickstart.plan.yaml" || complain "the plan lacks: $line"
done
for line in "    path: '../../x.txt'" "  directory: '../../said/here'" \
    "    directory: '../../said/here/checkpoints'"; do
    grep -qxF "$line" "${places[0]}/out/set/quickstart.plan.yaml" || complain "--set: the plan lacks: $line"
done
grep -q '"key":.*"directory"' "${places[0]}/said/plans.diff.json" || complain "diff: no change of directory"

# The environment fails: one line, exit 3.
expect 2 "plan: error: '$scratch/template/x' is not a folder; -o names one for plan and script" \
    emit $runs/quickstart.yaml -o "$scratch/template/x" --set "directory=$scratch/run"
expect 2 "plan: error: cannot write '/proc/self/fd/quickstart.plan.yaml': No such file or directory; name another folder with -o" \
    emit $runs/quickstart.yaml -o /proc/self/fd --set "directory=$scratch/run"
expect 2 "plan: error: the run's job does not train, and --program and --html tell of training; add --for train, with which '--program decode' prints a program of serving, too" \
    explain $runs/llama-8b-64.yaml --program decode "${serving[@]}" --set "job={type: serve, token_file: $scratch/token}"
"$plan" search $runs/quickstart.yaml >/dev/full 2>"$scratch/stderr"
[ $? -eq 3 ] || complain "a full disk is no exit 3"
[ "$(wc -l <"$scratch/stderr")" -eq 1 ] || complain "a full disk: $(cat "$scratch/stderr")"
# A reader that went away, as head does, is no failure: as quiet as a program that SIGPIPE ends, and with its code, unless
# there is a verdict; and what should be written is.
python3 - "$plan" "$scratch" $runs <<'PYTHON' || complain "a broken pipe"
import os, subprocess, sys
plan, scratch, runs = sys.argv[1:]
def closed(*arguments):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([plan, *arguments], stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    return done.returncode, done.stderr
large = f"{runs}/llama-70b-512.yaml"
assert closed("search", f"{runs}/quickstart.yaml") == (141, "")
assert closed("search", large, "--json", "--rejected", "--set", "slurm.time=UNLIMITED") == (141, "")
assert closed("explain", large, "--json", "--html", f"{scratch}/piped.html") == (141, "")
assert os.path.getsize(f"{scratch}/piped.html") > 10000
assert closed("diff", f"{runs}/quickstart.yaml", large) == (4, "")
code, said = closed("search", f"{runs}/quickstart.yaml", "--mesh_dim", "1,3,2,2")
assert code == 1 and said.startswith("plan: error: mesh_dim 1,3,2,2 needs 12")
PYTHON
"$plan" search $runs/llama-70b-512.yaml --json --rejected --set slurm.time=UNLIMITED 2>"$scratch/stderr" | head -n 1 >/dev/null
[ "${PIPESTATUS[0]}" -eq 141 ] || complain "| head: exit ${PIPESTATUS[0]}"
[ ! -s "$scratch/stderr" ] || complain "| head: $(cat "$scratch/stderr")"

# plan runs where no MPI, CUDA or Slurm is installed.
if ldd "$plan" | grep -iE 'libmpi|libopen-(rte|pal)|libcuda|libcublas|libnccl|libslurm|libpmi'; then
    complain "plan is linked with what only runner may need"
fi

# A large search: processor seconds, since the machine may be busy. The bound is ten times what it takes.
TIMEFORMAT='%U %S'
spent=$({ time "$plan" search $runs/llama-70b-512.yaml >/dev/null; } 2>&1)
awk -v spent="$spent" 'BEGIN { split(spent, s, " "); exit !(s[1] + s[2] < 1.5) }' ||
    complain "the search over 512 accelerators took $spent processor seconds"

# A limit on nodes is no obstacle: a million accelerators, and the most that a cluster may have.
links='cluster.links=[{name: nvlink, spans: PER, bandwidth: 450 GB/s, latency: 3 us}, {name: net, spans: ALL, bandwidth: 50 GB/s, latency: 8 us}]'
for size in "131072 8" "1048576 1024"; do
    read -r nodes per <<<"$size"
    large=(--set "cluster.nodes=$nodes" --set "cluster.accelerators_per_node=$per" --set "slurm.gpus_per_node=$per" --set global_batch_size=1048576)
    spans=${links/PER/$per}
    large+=(--set "${spans/ALL/$((nodes * per))}" --set directory="$scratch/run")
    spent=$({ time "$plan" emit $runs/llama-70b-512.yaml -o "$scratch/large" "${large[@]}" >/dev/null; } 2>&1)
    awk -v spent="$spent" 'BEGIN { split(spent, s, " "); exit !(s[1] + s[2] < 3) }' ||
        complain "the search over $nodes nodes took $spent processor seconds"
    expect 0 '' check "$scratch/large/llama-70b-512.plan.yaml"
    expect 0 '' search $runs/llama-70b-512.yaml "${large[@]}"
    grep -q "^llama-70b-512: .* accelerators" "$scratch/stdout" || complain "$nodes nodes: $(head -1 "$scratch/stdout")"
done
expect 2 "--set:1:15: error: 'nodes' must be at most 1048576, not 1048577" \
    search $runs/llama-70b-512.yaml --set cluster.nodes=1048577

# On one node the network between nodes joins nothing: the plan is without it, and can be read.
for nodes in 1 2 1-2; do
    expect 0 '*' emit $runs/llama-8b-64.yaml -o "$scratch/few" --set nodes=$nodes --set mesh_dim=auto \
        --set directory="$scratch/few"
    expect 0 '' check "$scratch"/few/*.plan.yaml
    rm -r "$scratch/few"
done

[ "$bad" -eq 0 ] || exit 1
echo "plan: all as expected"
