#!/usr/bin/env python3
"""Every key of the JSON that the programs print, with its type, stands in docs/reference/json.md, and
every key that stands there is printed for one of these examples.

  test_json.py BUILD SCRATCH      from the root of the tree
"""
import json
import os
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True  # the tree stays as it is
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from scratch import scratch_in  # noqa: E402

build, scratch = os.path.realpath(sys.argv[1]), scratch_in(sys.argv[2])
PAGE = "docs/reference/json.md"
complaints = []


def complain(text):
    if text not in complaints:
        complaints.append(text)
        print("FAIL:", text)


def read_page():
    """{heading: {key: set of types}}; rows without a type column (kinds of memory) have none."""
    sections, part = {}, None
    for line in open(PAGE):
        if line.startswith("## "):
            part = sections.setdefault(line[3:].strip(), {})
        row = re.match(r"\| `([^`]+)` \| ([^|]*) \|", line)
        if row:
            part[row[1]] = set(row[2].replace(" or ", " ").split())
    return sections


def type_of(value):
    for kind, name in ((bool, "boolean"), (str, "string"), (dict, "object"), (list, "array")):
        if isinstance(value, kind):
            return name
    return "null" if value is None else "number"


def walk(value, path):
    """(path, type) of everything inside."""
    if isinstance(value, dict):
        for key, inside in value.items():
            at = f"{path}.{key}" if path else key
            yield at, type_of(inside)
            yield from walk(inside, at)
    elif isinstance(value, list):
        for inside in value:
            yield from walk(inside, path + "[]")


# What has the same keys is described once.
SERVING = r"^(chosen|candidates\[\]|mesh)\."
SAME = (
    (r"^(chosen|fastest|whole_weights|candidates\[\]|mesh)\.", "candidate."),
    (r"^rejected\[\]\.", "rejected."),
    (r"^(fewer|better)_nodes\[\]\.", "node_counts[]."),
    (r"^frontier\.counts\[\]\.run_cost\.", "run_cost."),
    (r"^totals\.run_cost\.", "run_cost."),
    (r"^rejected\.suggestion(\.and)+\.", "rejected.suggestion."),
    (r"\.backward_layer\.", ".forward_layer."),
    (r"^(files\[\])\.new\.", r"\1.old."),
    (r"^(files\[\]\.collectives\[\])\.new\.", r"\1.old."),
    (r"^(files\[\])\.decision\[\]\.", r"\1.settings[]."),
    (r"^(files\[\]\.meshes)\.fitting\[\]\.", r"\1.rejected[]."),
)
KINDS = ("memory_profile.at_peak.", "memory_profile.most.", "memory_profile.over_step[].")
page = read_page()
seen = {}


def check(command, value, prefix=""):
    """Compares one document with the sections of its command; candidates are described under search."""
    known = dict(page[command])
    for key, types in page["plan search --json"].items():
        if key.startswith(("candidate.", "rejected.", "run_cost.")):
            known[key] = types
    serving = "--for serve" in command
    if serving:
        known.update(page["plan search --for serve --json"])
    used = seen.setdefault(command, set())
    for path, kind in walk(value, prefix):
        path = re.sub(SERVING, "serving_mesh.", path) if serving else path
        for pattern, replacement in SAME:
            path = re.sub(pattern, replacement, path)
        for start in KINDS:
            if path.startswith(start) and "kind." + path[len(start):] in known:
                path = "kind." + path[len(start):]
        used.add(path)
        if path not in known:
            complain(f"{command} prints '{path}', which {PAGE} does not name")
        elif not path.startswith("kind.") and kind not in known[path]:
            complain(f"{command}: '{path}' is {kind}, {PAGE} says {' or '.join(sorted(known[path]))}")


# mpirun takes variables for its ranks from this one or from -x, which our scripts use: here all programs get them.
for setting in os.environ.pop("OMPI_MCA_mca_base_env_list", "").split(";"):
    name, _, value = setting.partition("=")
    if name:
        os.environ[name] = value


def run(*command, codes=(0,)):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in codes:
        complain(f"{' '.join(command)}: exit {done.returncode}: {done.stderr}")
    return done.stdout


def plan(*arguments, codes=(0,)):
    return json.loads(run(build + "/plan", *arguments, codes=codes) or "{}")


for program in ("plan", "runner"):
    version = json.loads(run(f"{build}/{program}", "--version", "--json"))
    check(f"{program} --version --json", version)
    if not run(f"{build}/{program}", "--version").startswith(f"{program} {version['version']}\n"):
        complain(f"{program} --version and its JSON name two versions: {version['version']}")
    if not re.fullmatch("[0-9a-f]{40}(-dirty)?|null", version["commit"] or "null"):
        complain(f"{program} --version --json: the commit is {version['commit']}")

runs = sorted("configs/runs/" + name for name in os.listdir("configs/runs") if name.endswith(".yaml"))
for path in runs:
    for command in ("search", "explain"):
        value = plan(command, path, "--json", "--rejected")
        # of stages, an object for each
        for one in value.get("stages", [value]):
            check(f"plan {command} --json", one)
        if command == "search" and "stages" in value:
            check("plan search --json, of stages", {**value, "stages": []})
value = plan("search", "configs/runs/lwm-7b-stages.yaml", "--json", "--top", "1", "--nodes", "64")
check("plan search --json", {"frontier": value["frontier"]})
check("plan search --json, of stages", {**value, "stages": [], "frontier": {}})
small = "configs/runs/llama-8b-64.yaml"
check("plan explain --json", plan("explain", small, "--json", "--set", "serve.max_batch=16"))
check("plan search --for serve --json", plan("search", small, "--for", "serve", "--json", "--rejected", "--set",
                                             "serve.max_batch=8", "--set", "serve.token_latency=10 ms", "--set",
                                             "serve.first_token_latency=10 s"))
check("plan search --for serve --json", plan("search", small, "--for", "serve", "--json", "--set", "serve.max_batch=8",
                                             "--set", "serve.first_token_latency=1 us", codes=(1,)))
check("plan search --for serve --json", plan("search", small, "--for", "serve", "--json", "--set", "serve.max_batch=8"))
check("plan explain --for serve --json", plan("explain", small, "--for", "serve", "--json", "--set",
                                              "serve.max_batch=8"))
check("plan explain --sources --json", plan("explain", small, "--sources", "--json", "--set",
                                            "profile=configs/profiles/llm-foundry-2023-h100-sxm-80gb.yaml"))
# tp stays inside a node, though an order that takes it out is faster.
check("plan search --json", plan("search", small, "--json", "--top", "1", "--set",
                                 "model=configs/models/llama-3.1-405b.yaml", "--set",
                                 "cluster=configs/clusters/h100-64x8.yaml"))
# Segments of nodes, each in one block: worth it, and asked for anyway.
for more in "", ", segment: 8":
    check("plan search --json", plan("search", small, "--json", "--top", "1", "--set", "nodes=32", "--set", "mesh_dim=1,2,4,16",
                                     "--set", "cluster=configs/clusters/gb200-nvl72-36x4.yaml", "--set",
                                     "sequence_length=131072", "--set",
                                     f"cluster.slurm={{topology: block, block_nodes: 18, slurm_version: '24.05'{more}}}"))
# Nothing fits; one change is not enough.
check("plan search --json", plan("search", "configs/runs/quickstart-slurm.yaml", "--json", "--set", "nodes=3-4",
                                 "--set", "mesh_dim=auto", "--set", "global_batch_size=12"))
check("plan search --json", plan("search", "configs/runs/quickstart-slurm.yaml", "--json", "--set", "nodes=3-4"))
# Numbers of nodes compared, with and without one that keeps the limits.
check("plan search --json", plan("search", small, "--json", "--top", "1", "--nodes", "1,6,9", "--budget", "4000 GPU-hours"))
check("plan search --json", plan("search", small, "--json", "--top", "1", "--nodes", "6,8", "--deadline", "1 h", codes=(1,)))
check("plan search --json", plan("search", small, "--json", "--top", "1", "--deadline", "2096-12-24", "--budget", "9 MWh",
                                 "--set", "optimizer.total_steps=4000"))
check("plan search --json", plan("search", small, "--json", "--rejected", "--set",
                                 "model.hidden_size=1048576", codes=(0, 1)))
check("plan search --json", plan("search", small, "--json", "--rejected", "--set",
                                 "global_batch_size=3", codes=(0, 1)))
# The same files, longer sequences, and one more run: what fits changes both ways.
for side, length in (("old", "8192"), ("new", "131072")):
    os.makedirs(f"{scratch}/{side}")
    for path in (small, "configs/runs/quickstart.yaml"):
        text = open(path).read().replace("../", os.path.realpath("configs") + "/")
        text = re.sub(r"(?m)^sequence_length: 8192.*", "sequence_length: " + length, text)
        if side == "new" or path == small:
            open(f"{scratch}/{side}/{os.path.basename(path)}", "w").write(text)
for old, new in (("old", "new"), ("new", "old")):
    check("plan diff --json", plan("diff", "--json", f"{scratch}/{old}", f"{scratch}/{new}",
                                   "--fail-if", "step > +5%", codes=(0, 1, 4)))
check("plan diff --json", plan("diff", "--json", small, "configs/runs/llama-7b-256.yaml", codes=(4,)))

# One rank, two steps, something held out.
tiny = f"{scratch}/tiny.yaml"
open(f"{scratch}/text.txt", "w").write("to be or not to be, that is the question\n" * 100)
open(tiny, "w").write("""name: tiny
model: {vocab_size: 256, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 1, num_attention_heads: 2}
cluster: {name: one, nodes: 1, accelerators_per_node: 1, accelerator: %s, launcher: mpirun}
sequence_length: 32
global_batch_size: 2
precision: {compute: fp32}
optimizer: {total_steps: 2}
data: {path: text.txt, holdout: 0.1}
directory: run
""" % os.path.realpath("configs/accelerators/cpu-core.yaml"))
check("plan check --json", plan("check", "--json", tiny, f"{scratch}/no such file", codes=(2,)))
check("plan emit --json", plan("emit", "--json", "configs/runs/quickstart-slurm.yaml", "-o", f"{scratch}/slurm", "--set",
                               f"directory={scratch}/slurm"))
check("plan emit --json", plan("emit", "--json", tiny, "-o", scratch))
run(build + "/runner", "train", f"{scratch}/tiny.plan.yaml")
# Two stages, beside it, too.
staged = scratch_in(f"{sys.argv[2]}/staged")
check("plan emit --json", plan("emit", "--json", tiny, "-o", staged, "--set", f"directory={staged}/run", "--set",
                               "stages=[{}, {sequence_length: 16}]"))
run("bash", f"{staged}/tiny.sh")
check("stages.json", json.load(open(f"{staged}/run/stages.json")))
check("manifest.json", json.load(open(f"{staged}/run/stage2/checkpoints/latest/manifest.json")))
check("plan status --json", plan("status", f"{staged}/run", "--json", codes=(0, 3)))
# Packed, mixed, with files to evaluate; its run lies beside the folder: plan runs looks at what is below.
beside = scratch_in(f"{sys.argv[2]}/packed")
run(build + "/tests/write_documents", f"{scratch}/packed.bin", "40", "40", "1", "one")
packed = "data={path: [packed.bin, packed.bin], weights: [1, 2], pack: true, validation: packed.bin}"
check("runner data --json", json.loads(run(build + "/runner", "data", tiny, "--json", "--rows", "1")))
here = os.getcwd()
os.chdir(scratch)  # a path of --set is one of the working directory
check("runner data --json", json.loads(run(build + "/runner", "data", "tiny.yaml", "--json", "--set", packed)))
run(build + "/plan", "emit", "tiny.yaml", "--set", packed, "--set", "name=packed", "--set", f"directory={beside}")
os.chdir(here)
run(build + "/runner", "train", f"{scratch}/packed.plan.yaml")
check("manifest.json", json.load(open(f"{beside}/checkpoints/latest/manifest.json")))
for line in open(f"{beside}/metrics.jsonl"):
    if "loss" in json.loads(line):
        check("metrics.jsonl", json.loads(line), "step")
run(build + "/runner", "train", f"{scratch}/tiny.plan.yaml", "--steps", "3")  # from a checkpoint
for line in open(f"{scratch}/run/metrics.jsonl"):
    value = json.loads(line)
    check("metrics.jsonl", value, "header" if "schema" in value
          else "step" if "loss" in value else "checkpoint" if "checkpoint_step" in value
          else "held_out")
check("attempt.json", json.load(open(f"{scratch}/run/attempt.json")))
check("manifest.json", json.load(open(f"{scratch}/run/checkpoints/latest/manifest.json")))
check("runner evaluate --json", json.loads(run(build + "/runner", "evaluate", f"{scratch}/tiny.plan.yaml",
                                               "--checkpoint", f"{scratch}/run/checkpoints", "--json")))
weights = (f"{scratch}/tiny.plan.yaml", "--checkpoint", f"{scratch}/run/checkpoints")
check("runner generate", json.loads(run(build + "/runner", "generate", *weights, "--prompt", "a", "--logprobs",
                                        "--top-logprobs", "2", "--max-new-tokens", "3")))
lines = f"{scratch}/lines.jsonl"
open(lines, "w").write('{"text": "to be"}\n')
check("runner score --texts", json.loads(run(build + "/runner", "score", *weights, "--texts", lines, "--logprobs")))
check("runner score --json", json.loads(run(build + "/runner", "score", *weights, PAGE, "--json")))

# A run that a job did: what its folder tells is shown whether Slurm answers here (0) or not (3).
lost = scratch + ".lost"  # beside it: plan runs looks at what is below
shutil.rmtree(lost, ignore_errors=True)
os.mkdir(lost)
with open(f"{lost}/attempt.json", "w") as out:
    json.dump({"schema": "shardwright.attempt/1", "attempt": 1, "verdict": 3, "nodes": ["n3"], "cause": "x",
               "step": 2, "first_step": 0, "job": "42"}, out)
run(build + "/runner", "next", lost, "--status", "137", "--before", "0", "--nodes", "4", "--plans", "3-4",
    "--dead", "n3", "--continue", "requeue", "--checkpoints", f"{lost}/checkpoints")
check("excluded_nodes.jsonl", json.loads(open(f"{lost}/excluded_nodes.jsonl").readline()))
# Jobs that do not train: what their scripts write (tests/unit/test_inference_job.sh runs them).
for kind, more in (("generate", {"output": f"{scratch}/texts.jsonl", "shards": 1, "lines": 4}),
                   ("serve", {"host": "n1", "port": 8000, "token_file": "/token"})):
    folder = f"{scratch}.{kind}"
    shutil.rmtree(folder, ignore_errors=True)
    os.mkdir(folder)
    told = {"schema": "shardwright.job/1", "type": kind, "job": "4000000000", **more}
    check("job.json", told)
    json.dump(told, open(f"{folder}/job.json", "w"))
    open(f"{folder}/job.ended", "w").write("4000000000 0 0\n")
    status = plan("status", folder, "--json", codes=(0, 3))
    check("plan status --json", status)
    if (status["state"], status["inference"]["type"]) != ("done", kind):
        complain(f"a job of type {kind} is not shown: {status}")
record = {"schema": "shardwright.submission/1", "state": "submitted", "jobs": ["4000000000"],
          "token": "0123456789abcdef", "run": "tiny", "attempt": 2, "plan_digest": "0123456789abcdef",
          "plan": "/x.plan.yaml", "script_digest": "0123456789abcdef", "script": "/x.sbatch",
          "log": "/slurm-%j.out", "checkpoints": f"{scratch}/run/checkpoints",
          "submitted_at": "2026-11-22T11:30:00Z", "cluster": "one", "mesh_dim": "1,1,1,1", "nodes": 1,
          "ranks": 1, "steps": 3, "predicted_step_seconds": 0.5, "band_low_seconds": 0.25,
          "band_high_seconds": None, "predicted_run_seconds": 1.5}
check("submission.json", record)
json.dump(record, open(f"{scratch}/run/submission.json", "w"))
status = plan("status", f"{scratch}/run", "--json", codes=(0, 3))
check("plan status --json", status)
if status["note"] is not None:
    complain(f"the record is not as the program wants it: {status['note']}")
if (status["state"], status["job"], status["steps"]) != ("done", "4000000000", 3):
    complain(f"the record is not shown: {status}")
with open(f"{scratch}/run/allocations.jsonl", "w") as lines:
    for line in ({"job": "4000000000", "restarts": 0, "accelerators": 1, "began": 1764478801.25},
                 {"job": "4000000000", "restarts": 0, "ended": 1764478811.25, "code": 0, "limit_seconds": 600}):
        check("allocations.jsonl", line, "begin" if "began" in line else "end")
        lines.write(json.dumps(line) + "\n")
status = plan("status", f"{scratch}/run", "--report", "--json", codes=(0, 3))
check("plan status --json", status)
told = status["efficiency"]
if abs(sum(told["parts"].values()) - told["accelerator_hours"]) > 1e-9 or told["accelerator_hours"] < 10 / 3600:
    complain(f"the parts are not what was held: {told}")
every = plan("runs", scratch, "--json", codes=(0, 3))
for one in every["runs"]:
    check("plan status --json", one)
check("plan runs --json", {**every, "runs": []})
if len(every["runs"]) != 1:
    complain(f"plan runs finds {len(every['runs'])} runs, not one")

# A dry run, where this machine can have a controller.
up = subprocess.run(["bash", "tests/cluster/controller.sh", "up", "nodes", "8"], capture_output=True, text=True)
if up.returncode == 0:
    os.environ["SLURM_CONF"] = up.stdout.strip().removeprefix("SLURM_CONF=")
    os.environ["XDG_STATE_HOME"] = scratch
    try:
        for partition in ("gpu,short", "nosuch,gpu"):
            check("plan submit --dry-run --json", plan("submit", small, "--dry-run", "--json", "--set",
                                                       "slurm.partition=" + partition, "--set",
                                                       "slurm.time=0:20:00", "--set",
                                                       "slurm.licenses=scratch:2"))
        check("plan submit --dry-run --json", plan("submit", small, "--dry-run", "--json", "--set",
                                                   "stages=[{optimizer: {total_steps: 3000}}, {optimizer: {total_steps: 5000}}]"))
    finally:
        run("bash", "tests/cluster/controller.sh", "down")
else:
    print(up.stdout.strip())
    del page["plan submit --dry-run --json"]

# Two checkpoints, one of which is not whole.
run(build + "/tests/make_checkpoints", f"{scratch}/checkpoints", "10", "20")
os.remove(f"{scratch}/checkpoints/step-000010/config.json")
check("runner checkpoint ls --json", json.loads(run(build + "/runner", "checkpoint", "ls", "--json", scratch)))

for command, keys in page.items():
    for key in keys:
        everywhere = key.startswith(("candidate.", "rejected.", "run_cost."))
        if not any(key in used for name, used in seen.items() if everywhere or name == command):
            complain(f"{PAGE} names '{key}' under '{command}', which no example prints")
print(f"{sum(map(len, seen.values()))} keys, {len(complaints)} mistakes")
sys.exit(bool(complaints))
