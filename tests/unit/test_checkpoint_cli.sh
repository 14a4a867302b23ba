#!/usr/bin/env bash
# `runner checkpoint ls|verify|diff`: texts and exit codes.
#
#   tests/unit/test_checkpoint_cli.sh RUNNER MAKE_CHECKPOINTS SHIM SCRATCH
set -uo pipefail
runner=$(realpath "$1") && make=$(realpath "$2") && shim=$(realpath "$3") || exit 2
# shellcheck source=tests/support/scratch.sh
. "$(dirname "$0")/../support/scratch.sh"
scratch=$(scratch_in "$4") && cd "$scratch" || exit 2
bad=0

complain() {
    echo "FAIL: $*"
    bad=$((bad + 1))
}
# expect CODE ARGUMENTS...
expect() {
    local code=$1 status
    shift
    "$runner" checkpoint "$@" >stdout 2>stderr
    status=$?
    [ $status -eq "$code" ] || complain "$*: exit $status, not $code: $(cat stderr)"
}
prints() { [ "$(cat stdout)" = "$1" ] || complain "stdout is not '$1' but '$(cat stdout)'"; }
says() { grep -qE -- "$1" stdout || complain "no '$1' in: $(cat stdout)"; }
complains() { [ "$(cat stderr)" = "$1" ] || complain "stderr is not '$1' but '$(cat stderr)'"; }
silent() { complains ''; }

# ---- ls and verify ----
"$make" run/checkpoints 90 100 || exit 2
date='20[0-9]{2}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}'
for folder in run run/ run/checkpoints ./run/checkpoints//; do
    expect 0 ls "$folder" && silent
    says '^checkpoint        size  written         $'
    says "^step-000090     4\.[0-9] kB  $date\$"
    says "^step-000100     4\.[0-9] kB  $date  latest\$"
    [ "$(wc -l <stdout)" = 3 ] || complain "ls $folder: $(cat stdout)"
done
expect 0 ls run/checkpoints/step-000090 && silent
[ "$(wc -l <stdout)" = 2 ] || complain "ls of one: $(cat stdout)"
expect 0 ls run/checkpoints/latest
says '^latest '
expect 0 verify run/checkpoints/step-000090 && silent
prints 'run/checkpoints/step-000090: good, 2.9 kB, 4 files'
expect 0 verify run run/checkpoints/latest/ && silent
prints 'run/checkpoints/step-000090: good, 2.9 kB, 4 files
run/checkpoints/step-000100: good, 2.9 kB, 4 files
run/checkpoints/latest: good, 2.9 kB, 4 files'
cp -r run/checkpoints/step-000090 renamed
expect 0 verify renamed && prints 'renamed: good, 2.9 kB, 4 files'
(cd run/checkpoints/step-000090 && "$runner" checkpoint verify .) >stdout 2>stderr || complain "verify of ."
prints '.: good, 2.9 kB, 4 files'

expect 0 ls --json run
python3 - <<'PYTHON' || complain "ls --json: $(cat stdout)"
import json
r = json.load(open("stdout"))
assert r["schema"] == "shardwright.checkpoints/1"
assert [c["step"] for c in r["checkpoints"]] == [90, 100]
assert [c["latest"] for c in r["checkpoints"]] == [False, True]
assert all(c["good"] and c["problem"] is None and c["bytes"] > 2870 for c in r["checkpoints"])
assert r["checkpoints"][0]["path"] == "run/checkpoints/step-000090"
PYTHON

# One byte, then a missing file, then nothing but a link.
file=run/checkpoints/step-000100/model-00002-of-00002.safetensors
printf '\377' | dd of=$file bs=1 seek=600 conv=notrunc status=none
expect 0 ls run && silent # it looks at sizes
expect 2 verify run
prints 'run/checkpoints/step-000090: good, 2.9 kB, 4 files'
complains "$file: error: bytes 512 to 768 are not what was written: their checksum is wrong"
rm $file
expect 0 ls run
says "^step-000100     2\.[0-9] kB  $date  latest  not whole: model-00002-of-00002.safetensors: it is missing\$"
note="'run/checkpoints/latest' names step-000100, which is not a whole checkpoint"
note="$note (model-00002-of-00002.safetensors: it is missing)"
complains "$note; taking step-000090"
expect 0 ls run --json
python3 - <<'PYTHON' || complain "ls --json: $(cat stdout)"
import json
c = json.load(open("stdout"))["checkpoints"][1]
assert not c["good"] and c["problem"] == "model-00002-of-00002.safetensors: it is missing"
PYTHON
expect 2 verify run
complains "$file: error: it is missing"
rm -r run/checkpoints/step-000100
expect 2 verify run # the checkpoint is good, `latest` is not
prints 'run/checkpoints/step-000090: good, 2.9 kB, 4 files'
missing='(manifest.json: it is missing; a folder without it is not a checkpoint)'
complains "'run/checkpoints/latest' names step-000100, which is not a whole checkpoint $missing; taking step-000090"
mkdir run/checkpoints/step-000095
expect 2 verify run/checkpoints/step-000095
complains 'run/checkpoints/step-000095/manifest.json: error: it is missing; a folder without it is not a checkpoint'

mkdir empty
expect 2 ls empty && complains "empty: error: there is no checkpoint in it; name a checkpoint, or a run's folder"
expect 2 verify nothing && complains 'nothing: error: cannot open it: No such file or directory'
expect 2 verify stdout && complains 'stdout: error: it is not a folder'
expect 2 verify nothing run/checkpoints/step-000090 # the others are looked at
prints 'run/checkpoints/step-000090: good, 2.9 kB, 4 files'
expect 2 ls && complains "runner checkpoint: error: checkpoint ls needs a folder; see 'runner checkpoint --help'"
expect 2 ls a b && complains "runner checkpoint: error: one folder at a time, not also 'b'; see 'runner checkpoint --help'"
expect 2 ls --jsn a && complains "runner checkpoint: error: unknown option '--jsn'; did you mean '--json'?"
expect 2 verify && complains "runner checkpoint: error: checkpoint verify needs a folder; see 'runner checkpoint --help'"
expect 2 verify -x && complains "runner checkpoint: error: unknown option '-x'; see 'runner checkpoint --help'"
expect 2 diff a && complains "runner checkpoint: error: checkpoint diff takes two folders; see 'runner checkpoint --help'"
expect 2 && complains "runner checkpoint: error: checkpoint needs ls, verify or diff; see 'runner checkpoint --help'"
expect 2 lst && complains "runner checkpoint: error: unknown command 'checkpoint lst'; did you mean 'checkpoint ls'?"
"$runner" checkpoint verify run/checkpoints/step-000090 >/dev/full 2>stderr && complain "a full disk"
complains 'runner: error: cannot write the output: No space left on device'

# A disk that cannot be read. (Sanitizers want to be the first library.)
if ! grep -q __asan_init "$runner" && ! grep -q __tsan_init "$runner"; then
    LD_PRELOAD=$shim SHIM_UNDER=$PWD/run SHIM_AT=13 SHIM_MODE=fail SHIM_LOG=$PWD/log \
        "$runner" checkpoint verify run/checkpoints/step-000090 >stdout 2>stderr
    [ $? -eq 3 ] || complain "a disk that fails: exit code"
    grep -qE '^run/checkpoints/step-000090/.*: error: cannot read it: Input/output error$' stderr ||
        complain "a disk that fails: $(cat stderr log)"
    [ "$(head -n 1 log)" = "1 open $PWD/run/checkpoints/step-000090/manifest.json" ] ||
        complain "the shim's log: $(cat log)"
fi

# ---- diff ----
cat >make_model.py <<'PYTHON'
import json, struct, sys
def write(path, tensors):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, dtype, shape, raw in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + data)
def f32(*numbers): return struct.pack("<%df" % len(numbers), *numbers)
def bf16(*numbers): return b"".join(struct.pack("<f", n)[2:] for n in numbers)
PYTHON
python3 - <<'PYTHON' || exit 2
import os
from make_model import *
config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 16, "hidden_size": 8,
          "intermediate_size": 12, "num_hidden_layers": 2, "num_attention_heads": 2}
def model(folder, tensors, optimizer=None):
    os.makedirs(folder + "/optimizer" if optimizer else folder)
    json.dump(config, open(folder + "/config.json", "w"))
    write(folder + "/model.safetensors", tensors)
    if optimizer:
        for kind in ("exp_avg", "exp_avg_sq"):
            write(f"{folder}/optimizer/{kind}-00001-of-00001.safetensors", optimizer)
a = [("model.norm.weight", "F32", [4], f32(3, 4, 0, 0)), ("b", "F32", [2, 2], f32(1, 2, 3, 4)),
     ("long", "F32", [300000], f32(*[1.0] * 300000))]
model("a", a, [("b", "F32", [2, 2], f32(1, 2, 3, 4))])
model("same", a[::-1], [("b", "F32", [2, 2], f32(1, 2, 3, 4))])
c = [("model.norm.weight", "F32", [4], f32(3, 4, 0, 0.5)), ("b", "F32", [4], f32(1, 2, 3, 4)),
     ("long", "F32", [300000], f32(*([1.0] * 299999 + [float("nan")]))), ("more", "F32", [0], b"")]
model("c", c)
model("half", [("model.norm.weight", "BF16", [4], bf16(3, 4, 0, 0)), a[1], a[2]])
PYTHON
expect 0 diff a same && prints equal && silent
expect 0 diff a a/ && prints equal
expect 4 diff a c && silent
prints 'tensor              max |a-b|  |a-b| / |a|
b                  F32 [2, 2], but F32 [4]
long                      nan         nan
model.norm.weight         0.5         0.1
more               only in c
exp_avg b          only in a
exp_avg_sq b       only in a
model: 4 of 4 tensors differ, max nan, relative nan
exp_avg: 1 of 1 tensors differ
exp_avg_sq: 1 of 1 tensors differ'
expect 4 diff half a
says '^model.norm.weight  +0  +0  BF16, but F32$'
expect 2 diff a empty && complains "empty: error: there is no checkpoint in it; name a checkpoint, or a run's folder"
expect 2 diff nothing a && complains 'nothing: error: cannot open it: No such file or directory'

[ "$bad" -eq 0 ] || exit 1
echo "runner checkpoint: all as expected"
