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

build, scratch = os.path.realpath(sys.argv[1]), sys.argv[2]
shutil.rmtree(scratch, ignore_errors=True)
os.makedirs(scratch)
scratch = os.path.realpath(scratch)
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
SAME = (
    (r"^(chosen|fastest|candidates\[\]|mesh)\.", "candidate."),
    (r"^rejected\[\]\.", "rejected."),
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
        if key.startswith(("candidate.", "rejected.")):
            known[key] = types
    used = seen.setdefault(command, set())
    for path, kind in walk(value, prefix):
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


def run(*command, codes=(0,)):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in codes:
        complain(f"{' '.join(command)}: exit {done.returncode}: {done.stderr}")
    return done.stdout


def plan(*arguments, codes=(0,)):
    return json.loads(run(build + "/plan", *arguments, codes=codes) or "{}")


runs = sorted("configs/runs/" + name for name in os.listdir("configs/runs"))
for path in runs:
    check("plan search --json", plan("search", path, "--json", "--rejected"))
    check("plan explain --json", plan("explain", path, "--json", "--rejected"))
small = "configs/runs/llama-8b-64.yaml"
# Nothing fits; one change is not enough.
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
run(build + "/plan", "emit", tiny, "-o", scratch)
run(build + "/runner", "train", f"{scratch}/tiny.plan.yaml")
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

# Two checkpoints, one of which is not whole.
run(build + "/tests/make_checkpoints", f"{scratch}/checkpoints", "10", "20")
os.remove(f"{scratch}/checkpoints/step-000010/config.json")
check("runner checkpoint ls --json", json.loads(run(build + "/runner", "checkpoint", "ls", "--json", scratch)))

for command, keys in page.items():
    for key in keys:
        everywhere = key.startswith(("candidate.", "rejected."))
        if not any(key in used for name, used in seen.items() if everywhere or name == command):
            complain(f"{PAGE} names '{key}' under '{command}', which no example prints")
print(f"{sum(map(len, seen.values()))} keys, {len(complaints)} mistakes")
sys.exit(bool(complaints))
