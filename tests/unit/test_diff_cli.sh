#!/usr/bin/env bash
# `plan diff`, `plan check --format github`, and plans whose inputs changed.
#
#   tests/unit/test_diff_cli.sh PLAN SCRATCH      from the root of the tree
set -uo pipefail
plan=$(realpath "$1") && [ -x "$plan" ] || exit 2
# shellcheck source=tests/support/scratch.sh
. "$(dirname "$0")/../support/scratch.sh"
scratch=$(scratch_in "$2") || exit 2
root=$PWD
bad=0

complain() {
    echo "FAIL: $*"
    bad=$((bad + 1))
}
# expect CODE ARGUMENTS...
expect() {
    local code=$1 status
    shift
    "$plan" "$@" >"$scratch/stdout" 2>"$scratch/stderr"
    status=$?
    [ $status -eq "$code" ] || complain "plan $*: exit $status, not $code: $(cat "$scratch/stderr")"
}
silent() {
    if [ -s "$scratch/stdout" ] || [ -s "$scratch/stderr" ]; then complain "not silent: $*"; fi
}
says() { grep -qE -- "$1" "$scratch/stdout" || complain "no '$1' in: $(cat "$scratch/stdout")"; }
complains() { grep -qxF -- "$1" "$scratch/stderr" || complain "no '$1' in: $(cat "$scratch/stderr")"; }

run=runs/quickstart.yaml
cp -r configs "$scratch/old"
cp -r configs "$scratch/new"
sed -i 's,\(path: *\)[^,}]*,\1/nonexistent/text,' "$scratch/old/$run" "$scratch/new/$run"

# Times of different software are not compared as if only the runs differed.
sed -e "s|: \.\./|: $scratch/old/|" "$scratch/old/runs/llama-8b-64.yaml" >"$scratch/default.yaml"
cp "$scratch/default.yaml" "$scratch/foundry.yaml"
echo "profile: $scratch/old/profiles/llm-foundry-2023-h100-sxm-80gb.yaml" >>"$scratch/foundry.yaml"
expect 4 diff "$scratch/default.yaml" "$scratch/foundry.yaml"
says '; times by different profiles$'
says '^  times: profile default, assumed .* -> profile llm-foundry-2023, in 80 % of cases .*; two profiles: '
expect 4 diff "$scratch/default.yaml" "$scratch/foundry.yaml" --markdown && says 'two profiles: part of the difference'
expect 4 diff "$scratch/default.yaml" "$scratch/foundry.yaml" --json
python3 - "$scratch/stdout" <<'PYTHON' || complain "JSON of different profiles"
import json, sys
f = json.load(open(sys.argv[1]))["files"][0]
assert f["profiles_differ"] and f["old"]["profile"] == "default" and f["new"]["profile"] == "llm-foundry-2023"
assert f["new"]["band_low_seconds"] < f["new"]["step"] < f["new"]["band_high_seconds"]
PYTHON
sed 's/^global_batch_size: .*/global_batch_size: 64/' "$scratch/default.yaml" >"$scratch/smaller.yaml"
expect 4 diff "$scratch/default.yaml" "$scratch/smaller.yaml"
says '^  times: profile default, '
# What all steps take, in money's unit.
says '^  all steps: [0-9.]+ [a-z]+, [0-9,.]+ accelerator-hours -> [0-9.]+ [a-z]+, [0-9,.]+ accelerator-hours \(-[0-9.]+ %\)$'
sed '/total_steps/d' "$scratch/default.yaml" >"$scratch/endless.yaml"
sed 's/^global_batch_size: .*/global_batch_size: 64/' "$scratch/endless.yaml" >"$scratch/endless-64.yaml"
expect 4 diff "$scratch/endless.yaml" "$scratch/endless-64.yaml"
grep -q 'all steps' "$scratch/stdout" && complain "the time of steps that nobody says: $(cat "$scratch/stdout")"
expect 4 diff "$scratch/endless.yaml" "$scratch/endless-64.yaml" --fail-if 'duration > 1 s' --fail-if 'accelerator_hours > +1%'
says '^    skipped duration > 1 s: the new run does not say optimizer\.total_steps$'
says '^    skipped accelerator_hours > \+1%: the new run does not say optimizer\.total_steps$'
expect 4 diff "$scratch/endless.yaml" "$scratch/smaller.yaml" --fail-if 'accelerator_hours > +1%'
says '^    skipped accelerator_hours > \+1%: the old run does not say optimizer\.total_steps$'
expect 4 diff "$scratch/endless.yaml" "$scratch/endless-64.yaml" --json
python3 - "$scratch/stdout" <<'PYTHON' || complain "JSON of runs without steps"
import json, sys
f = json.load(open(sys.argv[1]))["files"][0]
for side in "old", "new":
    assert f[side]["duration"] is None and f[side]["accelerator_hours"] is None and f[side]["step"] > 0
PYTHON
says_nothing_of_double() { ! grep -q 'x accelerator-hours' "$scratch/stdout" || complain "a doubling: $(cat "$scratch/stdout")"; }
# Twice the nodes for the same batch: the speed hardly moves, the cost doubles, and the row says so.
for given in default endless; do
    sed "s|^cluster: .*|cluster: {name: twice, nodes: 16, accelerators_per_node: 8, accelerator: $scratch/old/accelerators/h100-sxm-80gb.yaml, links: [{name: nvlink, spans: 8, bandwidth: 450 GB/s, latency: 3 us}, {name: slow, spans: all, bandwidth: 2 GB/s, latency: 6 us}]}|" \
        "$scratch/$given.yaml" >"$scratch/twice.yaml"
    expect 4 diff "$scratch/$given.yaml" "$scratch/twice.yaml" --markdown
    says '^\| .*fits, \*\*[0-9.]+ x accelerator-hours\*\* \|$'
    says '^(All steps|A billion tokens): .* accelerator-hours -&gt; .* accelerator-hours \(\+[0-9]+ %\)$'
done
expect 4 diff "$scratch/twice.yaml" "$scratch/endless.yaml" --markdown && says_nothing_of_double
cp "$scratch/endless.yaml" "$scratch/endless-too.yaml"
expect 0 diff "$scratch/endless.yaml" "$scratch/endless-too.yaml" --json
expect 4 diff "$scratch/default.yaml" "$scratch/smaller.yaml" --markdown && says '^All steps: .* accelerator-hours -&gt; '
expect 1 diff "$scratch/smaller.yaml" "$scratch/default.yaml" --fail-if 'accelerator_hours > +20%'
expect 4 diff "$scratch/default.yaml" "$scratch/smaller.yaml"
grep -q 'different profiles' "$scratch/stdout" && complain "one profile is called two"

# Nothing changed: the same files at another place say the same.
expect 0 diff "$scratch/old/$run" "$scratch/new/$run" && silent two files
expect 0 diff "$scratch/old" "$scratch/new" --markdown && silent two folders
# A new file that is no YAML may have been meant as a run.
printf 'name: [x\nmodel: {\n' >"$scratch/new/runs/broken.yaml"
expect 0 diff "$scratch/old" "$scratch/new"
complains "$scratch/new/runs/broken.yaml:2:6: note: not valid YAML: did not find expected ',' or ']', while parsing a flow sequence that starts in line 1; skipped"
rm "$scratch/new/runs/broken.yaml"
expect 0 diff "$scratch/old" "$scratch/new" --json
python3 - "$scratch/stdout" <<'PYTHON' || complain "JSON of no difference"
import json, sys
r = json.load(open(sys.argv[1]))
assert r["schema"] == "shardwright.diff/1" and r["differs"] is False and r["files"] == []
PYTHON
echo '# a comment is no difference' >>"$scratch/new/$run"
expect 0 diff "$scratch/old/$run" "$scratch/new/$run" && silent comment

# --set changes both runs, or one that is named alone; a plan stays as it is.
expect 0 diff "$scratch/old/$run" "$scratch/new/$run" --set sequence_length=64 && silent both with --set
expect 4 diff "$scratch/old/$run" --set sequence_length=64
says '^    sequence_length +[0-9]+ -> 64$'
expect 0 diff "$scratch/old" "$scratch/new" --set sequence_length=64 && silent two folders with --set
expect 2 diff "$scratch/old/$run" --set sequence_lenth=64
complains "--set:1:1: error: unknown key 'sequence_lenth'; did you mean 'sequence_length'?"
expect 2 diff "$scratch/old" --set sequence_length=64
complains "plan: error: --set with one name changes a run, not a folder; name the run file"

# A changed model counts for the run that names it; run files are untouched.
sed -i 's/^num_hidden_layers:.*/num_hidden_layers: 8/' "$scratch/new/models/quickstart.yaml"
expect 4 diff "$scratch/old/$run" "$scratch/new/$run"
says '^[0-9,]+ -> [0-9,]+ tokens/s \(-[0-9.]+ %\), step [0-9.]+ (ms )?-> [0-9.]+ m?s \(\+[0-9.]+ %\), memory [0-9.]+ -> [0-9.]+ of [0-9.]+ GB, mesh 1,2,2,2; 3.08 M -> 6.03 M parameters \(\+96 %\); 1 setting changed$'
says '^    model.num_hidden_layers +[0-9]+ -> 8$'
says '^    ~ all_gather +fsdp'
expect 4 diff "$scratch/old" "$scratch/new" --json
python3 - "$scratch/stdout" <<'PYTHON' || complain "diff --json"
import json, sys
r = json.load(open(sys.argv[1]))
assert r["differs"] and r["added"] == r["removed"] == 0 and r["changed"] == len(r["files"])
f = {x["path"]: x for x in r["files"]}["runs/quickstart.yaml"]
assert f["status"] == "changed" and f["new"]["step"] > f["old"]["step"]
assert f["new"]["memory"] > f["old"]["memory"] and f["new"]["limit"] == f["old"]["limit"]
assert [s["key"] for s in f["settings"]] == ["model.num_hidden_layers"]
assert all(c["change"] == "changed" and c["new"]["bytes"] > c["old"]["bytes"] for c in f["collectives"])
PYTHON

# Conditions.
expect 1 diff "$scratch/old/$run" "$scratch/new/$run" --fail-if 'slow: step > +5%' --fail-if 'memory > limit'
says '^    FAILED  slow: .* m?s > .* \+5 %$'
says '^    ok      memory > limit: .* <= '
expect 4 diff "$scratch/old/$run" "$scratch/new/$run" --fail-if 'step < -5%'
expect 1 diff "$scratch/old/$run" "$scratch/new/$run" --fail-if 'tokens_per_second < -5%' --fail-if 'mesh != old.mesh' \
    --fail-if 'accelerators != old.accelerators' --fail-if 'recompute != old.recompute' --fail-if rejected --fail-if 'duration > 1 h'
says '^    FAILED  tokens_per_second < -5%: [0-9],[0-9]{3} < [0-9]{2},[0-9]{3}, which is [0-9]{2},[0-9]{3} -5 %$'
says '^    ok      mesh != old.mesh: 1,2,2,2 == 1,2,2,2$'
says '^    ok      accelerators != old.accelerators: 8 == 8$'
says '^    ok      recompute != old.recompute: none == none$'
says '^    ok      rejected: a mesh fits$'
says '^    ok      duration > 1 h: [0-9.]+ s <= 1.0 h$'

# What did not change is not judged, unless all is: neither the same files, nor a run whose plan is the same.
expect 0 diff "$scratch/old/$run" "$scratch/old/$run" --fail-if 'memory > 0' && silent an unchanged run
expect 1 diff "$scratch/old/$run" "$scratch/old/$run" --fail-if 'memory > 0' --fail-all
says '^    FAILED  memory > 0: 2[0-9]{2} MB > 0 B$'
expect 0 diff "$scratch/old" "$scratch/old" --fail-if 'memory > 0' && silent an unchanged folder
expect 1 diff "$scratch/old" "$scratch/old" --fail-if 'memory > 0' --fail-all
runs=(configs/runs/*.yaml)
stages=$(grep -c '^  - name:' configs/runs/lwm-7b-stages.yaml) # each is judged
says "^0 changed, 0 added, 0 removed; $((${#runs[@]} - 1 + stages)) conditions failed$"
sed 's/learning_rate: [^,}]*/learning_rate: 1.0e-5/' "$scratch/old/$run" >"$scratch/old/runs/other.yaml"
expect 4 diff "$scratch/old/$run" "$scratch/old/runs/other.yaml" --fail-if 'memory > 0' --fail-if 'step > 0'
says '^  conditions not judged: the plan is the same \(--fail-all judges it, too\)$'
expect 4 diff "$scratch/old/$run" "$scratch/old/runs/other.yaml" --fail-if 'memory > 0' --markdown
says '^Conditions not judged: '
expect 4 diff "$scratch/old/$run" "$scratch/old/runs/other.yaml" --fail-if 'memory > 0' --json
python3 - "$scratch/stdout" <<'PYTHON' || complain "JSON of the same plan"
import json, sys
f, = json.load(open(sys.argv[1]))["files"]
assert f["status"] == "changed" and f["same_plan"] is True and [o["result"] for o in f["fail_if"]] == ["skipped"]
assert f["old"]["verdict"] == f["new"]["verdict"] == "fits" and f["new"]["recompute"] == "none"
assert f["new"]["accelerators"] == 8 and f["new"]["headroom"] == 1e8 and f["new"]["duration"] == 250 * f["new"]["step"]
PYTHON
expect 1 diff "$scratch/old/$run" "$scratch/old/runs/other.yaml" --fail-if 'memory > 0' --fail-all
rm "$scratch/old/runs/other.yaml"
# Twice the batch takes twice as long, and is no slower.
sed 's/^global_batch_size:.*/global_batch_size: 256/' "$scratch/old/runs/llama-8b-64.yaml" >"$scratch/old/runs/other.yaml"
expect 4 diff "$scratch/old/runs/llama-8b-64.yaml" "$scratch/old/runs/other.yaml" --fail-if 'tokens_per_second < -5%'
expect 1 diff "$scratch/old/runs/llama-8b-64.yaml" "$scratch/old/runs/other.yaml" --fail-if 'step > +5%'
rm "$scratch/old/runs/other.yaml"
# A plan without headroom that somebody asked for passes what judges it as it is, and not what judges headroom.
sed 's/^mesh_dim:.*/mesh_dim: 1,64,1,1\nmicro_batch_size: 2\nrecompute: none/' "$scratch/old/runs/llama-8b-64.yaml" >"$scratch/old/runs/other.yaml"
expect 4 diff "$scratch/old/runs/llama-8b-64.yaml" "$scratch/old/runs/other.yaml" --fail-if 'memory > limit'
says ', memory [0-9.]+ -> 84.7 of 85.5 GB \(without headroom\), mesh 1,64,1,1; '
for condition in 'memory > limit - headroom' 'verdict != fits' 'verdict == fits_without_headroom'; do
    expect 1 diff "$scratch/old/runs/llama-8b-64.yaml" "$scratch/old/runs/other.yaml" --fail-if "$condition"
done
expect 0 diff "$scratch/old/runs/other.yaml" "$scratch/old/runs/other.yaml" --fail-if 'verdict != fits'
expect 1 diff "$scratch/old/runs/other.yaml" "$scratch/old/runs/other.yaml" --fail-if 'verdict != fits' --fail-all
rm "$scratch/old/runs/other.yaml"
expect 2 diff "$scratch/old/$run" "$scratch/new/$run" --fail-if 'memory > 0.92*limti'
complains "--fail-if:1:15: error: unknown name 'limti'; did you mean 'limit'?"

# Folders: added, removed, changed; a folder of others' YAML and a broken one do not stand in the way.
cp "$scratch/new/$run" "$scratch/new/runs/another.yaml"
rm "$scratch/new/runs/quickstart-slurm.yaml"
mkdir "$scratch/new/other" "$scratch/new/.hidden"
printf 'a: 1\n' >"$scratch/new/other/other.yaml"
cp "$scratch/new/$run" "$scratch/new/.hidden/run.yaml"
expect 4 diff "$scratch/old" "$scratch/new"
says '^1 changed, 1 added, 1 removed; tokens/s change most in runs/quickstart.yaml: -[0-9]+ %$'
says '^runs/another.yaml: added: [0-9,]+ tokens/s, step '
says '^runs/quickstart-slurm.yaml: removed: [0-9,]+ tokens/s, step '
expect 4 diff "$scratch/old" "$scratch/new" --markdown
[ "$(wc -c <"$scratch/stdout")" -le 65536 ] || complain "the comment is too long"
[ "$(grep -c '<details>' "$scratch/stdout")" -eq "$(grep -c '</details>' "$scratch/stdout")" ] ||
    complain "details that do not close"
[ "$(head -n 1 "$scratch/stdout")" = '<!-- shardwright plan diff -->' ] || complain "no mark to find the comment by"
# First the cost of all, then one row for each run, with numbers that can be read.
says '^Total of [0-9]+ runs: [0-9.,]+ accelerator-hours -&gt; [0-9.,]+ accelerator-hours'
[ "$(sed -n 6p "$scratch/stdout")" = '| run | old tokens/s | new tokens/s | delta | step | memory | verdict |' ] ||
    complain "no overview: $(head -n 9 "$scratch/stdout")"
says '^\| <code>runs/another.yaml</code> \| none \| [0-9],[0-9]{3} \|  \| [0-9]+ ms \| 0.[0-9]+ of 2.00 GB \| fits \|$'
says '^\| <code>runs/quickstart-slurm.yaml</code> \| [0-9,]+ \| none \|  \| [0-9]+ ms \| 0.[0-9]+ of 2.00 GB \| removed \|$'
says '^\| <code>runs/quickstart.yaml</code> \| [0-9]{2},[0-9]{3} \| [0-9],[0-9]{3} \| -[0-9]+ % \| [0-9]+ ms -> [0-9]+ ms \| 0.[0-9]+ -&gt; 0.[0-9]+ of 2.00 GB \| fits, \*\*[0-9.]+ x accelerator-hours\*\* \|$'
! grep -qE '[0-9]e[+-][0-9]' "$scratch/stdout" || complain "an exponent: $(grep -E '[0-9]e[+-][0-9]' "$scratch/stdout")"
expect 1 diff "$scratch/old" "$scratch/new" --markdown --fail-if 'slower: tokens_per_second < -5%'
says '^\| <code>runs/quickstart.yaml</code> .* \| \*\*failed\*\* <code>slower</code>, \*\*[0-9.]+ x accelerator-hours\*\* \|$'

# A run that no longer fits: exit 1, and which meshes it was.
sed -i 's/^memory: .*/memory: 201 MB/; s/^reserved_memory:.*/reserved_memory: 200 MB/' "$scratch/new/accelerators/cpu-core.yaml"
expect 1 diff "$scratch/old/$run" "$scratch/new/$run"
says '^no longer fits: [0-9,]+ tokens/s, step .* -> does not fit: needs '
says '1,2,2,2 is rejected now \(memory'
expect 1 diff "$scratch/old/$run" "$scratch/new/$run" --fail-if rejected
says '^    FAILED  rejected: no mesh fits$'
expect 1 diff "$scratch/old/$run" "$scratch/new/$run" --markdown
says '^\| <code>.*quickstart.yaml</code> \| [0-9,]+ \| does not fit \| .* \| does not fit \|$'
# What did not fit before is no news.
cp "$scratch/new/$run" "$scratch/new/runs/other.yaml"
sed -i 's/learning_rate: [^,}]*/learning_rate: 1.0e-5/' "$scratch/new/runs/other.yaml"
expect 4 diff "$scratch/new/$run" "$scratch/new/runs/other.yaml" --fail-if rejected
expect 1 diff "$scratch/new/$run" "$scratch/new/runs/other.yaml" --fail-if rejected --fail-all
expect 0 diff "$scratch/new/$run" "$scratch/new/$run" && silent a run that fits nowhere
expect 1 diff "$scratch/new/$run" "$scratch/new/$run" --fail-all
says '^does not fit: needs '
rm "$scratch/new/runs/other.yaml"
expect 4 diff "$scratch/new/$run" "$scratch/old/$run"
says '^fits now: [0-9,]+ tokens/s, step '

# Wrong arguments.
expect 2 diff "$scratch/old"
complains "plan: error: name two runs, plans or folders, as in 'plan diff old/run.yaml new/run.yaml', or one run and --set KEY=VALUE"
expect 2 diff "$scratch/old" "$scratch/old/$run"
complains "plan: error: one is a folder and one is a file; compare two of a kind"
expect 2 diff "$scratch/old" "$scratch/nothing"
complains "$scratch/nothing: error: cannot open: No such file or directory"
expect 2 diff "$scratch/old" "$scratch/new" --json --markdown
complains "plan: error: --json or --markdown, not both"
expect 2 diff configs/models/quickstart.yaml configs/models/quickstart.yaml
complains "configs/models/quickstart.yaml:1:1: error: neither a run nor a plan; compare those"

# Keys of checkpoints, of what a run starts from and of the cluster are settings like any other.
mkdir -p "$scratch/saves"
sed -e 's/^directory:.*/&\ninit: {from: ..\/hf}\ncheckpoint: {every_steps: 5, keep_every: 10, bandwidth: 2 GB\/s, signal: USR2}/' \
    -e "s,\.\./\(models\|clusters\|data\),$PWD/configs/\1,; s,\.\./\.\./,$PWD/," configs/$run >"$scratch/saves/quickstart.yaml"
expect 4 diff configs/$run "$scratch/saves/quickstart.yaml"
for line in 'checkpoint.every_steps  *auto -> 5' 'checkpoint.keep_every  *0 -> 10' 'checkpoint.bandwidth  *0.0 -> 2 GB/s' \
    'checkpoint.signal  *USR1 -> USR2' 'init.from  *\(none\) -> ../hf'; do
    says "^    $line$"
done
says '; 5 settings changed$'
sed -e "s,\.\./accelerators,$PWD/configs/accelerators," -e '$a host_memory: 2 TB\nstorage: {bandwidth: 10 GB/s}' \
    -e '$a reliability: {failures_per_1000_node_days: 0.5}' configs/clusters/laptop.yaml >"$scratch/saves/cluster.yaml"
sed 's,^cluster: .*,cluster: cluster.yaml,' "$scratch/saves/quickstart.yaml" >"$scratch/saves/other.yaml"
expect 4 diff "$scratch/saves/quickstart.yaml" "$scratch/saves/other.yaml"
for line in 'cluster.host_memory  *\(none\) -> 2 TB' 'cluster.storage.bandwidth  *\(none\) -> 10 GB/s' \
    'cluster.reliability.failures_per_1000_node_days *3.8 -> 0.5'; do
    says "^    $line$"
done

# Plans: the same against themselves and their run; what they were written from, changed since.
expect 0 emit "$scratch/old/$run" -o "$scratch/old/out"
job="$scratch/old/out/quickstart.plan.yaml"
expect 0 diff "$job" "$job" && silent a plan and itself
expect 0 diff "$job" "$scratch/old/$run" && silent a plan and its run
grep -qF "path: '../models/quickstart.yaml'}" "$job" || complain "the plan does not name its model"
grep -A5 '^inputs:' "$job" | grep -qF "$root" && complain "inputs with absolute paths"
expect 0 check "$job"
[ ! -s "$scratch/stderr" ] || complain "check of a fresh plan: $(cat "$scratch/stderr")"
echo '# later' >>"$scratch/old/models/quickstart.yaml"
(cd / && "$plan" check "$job" 2>"$scratch/stderr" >/dev/null) || complain "check of a plan with a changed model"
complains "$job: warning: '../models/quickstart.yaml' changed since this plan was written; write it again with 'plan emit'"
cp "$job" "$scratch/alone.plan.yaml"
(cd / && "$plan" check "$scratch/alone.plan.yaml" 2>"$scratch/stderr" >/dev/null)
[ ! -s "$scratch/stderr" ] || complain "a plan that travels alone: $(cat "$scratch/stderr")"
sed -i 's/every_steps: /every_steps: 1/' "$scratch/alone.plan.yaml"
expect 2 check --format github "$scratch/alone.plan.yaml"
says "^::error file=$scratch/alone.plan.yaml,line=3,col=10::the plan was changed after it was written"

# What serves is judged as a server: its token, its cache, its goals; and so is its plan.
echo secret >"$scratch/token"
(cat "$scratch/old/runs/quickstart-slurm.yaml" && echo "job: {type: serve, checkpoint: latest, token_file: $scratch/token}" &&
    echo 'serve: {max_batch: 4, max_tokens: 256}') >"$scratch/old/runs/serves.yaml"
served="$scratch/old/runs/serves.yaml" wider="$scratch/old/runs/wider.yaml" slow="$scratch/old/runs/slow.yaml"
sed 's/max_batch: 4/max_batch: 8/' "$served" >"$wider"
expect 4 diff "$served" "$wider" --fail-if 'step > 1 us' --fail-if 'token > 1 h' --fail-if 'first > 1 h' --fail-if 'beside > 1 h'
says '^[0-9,]+ -> [0-9,]+ tokens/s \(.*\), token .*, first .*, memory '
says '^  collectives \(calls and bytes sent by one rank in a token\)$'
says '^    skipped step > 1 us: the new run does not train$'
for measure in token first beside; do says "^    ok      $measure > 1 h: "; done
expect 4 diff "$served" "$scratch/old/runs/quickstart-slurm.yaml" --fail-if 'token > 1 us'
says '^trains now: [0-9,]+ tokens/s, step '
says '^    skipped token > 1 us: the new run does not serve$'
sed 's/max_batch: 4/max_batch: 65536/' "$served" >"$wider"
expect 1 diff "$served" "$wider" --fail-if rejected
says '^no longer fits: .* -> cannot serve: needs .* cache '
says '^    FAILED  rejected: no mesh serves it$'
sed 's/max_batch: 4/token_latency: 1 us, max_batch: 4/' "$served" >"$slow"
expect 1 diff "$served" "$slow" --fail-if rejected
says ' -> cannot serve: mesh_dim [0-9,]+ misses serve\.token_latency 1\.00 us with '
expect 0 emit "$served" -o "$scratch/old/out"
expect 0 diff "$served" "$scratch/old/out/quickstart-slurm.plan.yaml" && silent a plan that serves and its run
expect 4 diff "$served" --set job=null
says '^trains now: '
says '^    job.type +serve -> train$'
expect 2 diff "$served" "$scratch/old/out/quickstart-slurm.plan.yaml" --set name=other
complains "$scratch/old/out/quickstart-slurm.plan.yaml: error: a plan is compared unchanged; --set needs a run file"
expect 0 check "$served"
says ': ok, a run: [0-9]+ of [0-9]+ meshes can serve'
sed '/^serve:/d' "$served" >"$scratch/old/runs/none.yaml"
expect 2 check "$scratch/old/runs/none.yaml"
complains "$scratch/old/runs/none.yaml:14:6: error: the run has no serve section; add serve: {max_batch: 8}, or --set serve.max_batch=8"
expect 1 check "$wider" --format github
says "^::error file=$wider,line=[0-9]+,col=[0-9]+::none of [0-9]+ meshes can serve 'quickstart-slurm': needs "
expect 1 check "$slow" --format github
says "::none of [0-9]+ meshes keeps the latency goals of 'quickstart-slurm': mesh_dim [0-9,]+ misses serve.token_latency"

# Annotations.
printf 'hidden_size: 4096\nhiden_size: 50%%\n' >"$scratch/bad, odd.yaml"
expect 2 check --format github "$scratch/bad, odd.yaml"
says "^::error file=$scratch/bad%2C odd.yaml,line=2,col=1::unknown key 'hiden_size'"
[ ! -s "$scratch/stderr" ] || complain "annotations on stderr too"
expect 1 check --format github configs/$run --set mesh_dim=1,3,2,2
says '^::error file=configs/runs/quickstart.yaml::none of 1 meshes fits'
expect 2 check --format githab configs/$run
complains "plan: error: --format must be text or github, not 'githab'; did you mean 'github'?"

[ "$bad" -eq 0 ] || exit 1
echo "plan diff: all as expected"
