#!/usr/bin/env python3
"""Where a job asks Slurm to put its nodes: segments of blocks. Drawn clusters and runs; Slurm's commands are stand-ins.

    test_placement.py PLAN SCRATCH [DRAWS [SEED]]

The price of a job with segments is told a second time by a cluster file without a topology, whose links span the segment.
"""
import json
import os
import pathlib
import random
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "support"))
from scratch import scratch_in

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PLAN = pathlib.Path(sys.argv[1]).resolve()
SCRATCH = pathlib.Path(scratch_in(sys.argv[2]))
DRAWS = int(sys.argv[3]) if len(sys.argv) > 3 else 4
SEED = int(sys.argv[4]) if len(sys.argv) > 4 else 1
AXES = ["dp", "fsdp", "tp", "sp"]
wrong = 0


def complain(text):
    global wrong
    wrong += 1
    print("FAIL:", text)


def plan(*arguments):
    environment = dict(os.environ, PATH=f"{SCRATCH}/bin:{os.environ['PATH']}")
    environment.pop("SLURM_CONF", None)
    return subprocess.run([SCRATCH / "bin" / "plan", *map(str, arguments)], cwd=SCRATCH, env=environment, text=True,
                          capture_output=True)


def write(name, cluster, run, slurm, spans=None):
    """A cluster of blocks and a run on it; spans: of the inner link, in place of a block's accelerators."""
    per, nodes = cluster["per"], run["nodes"]
    settings = {"partition": "gpu", "gpus_per_node": per, **slurm}
    spans = spans or cluster["block"] * per
    inner = f"  - {{name: nvlink, spans: {spans}, bandwidth: 450 GB/s, latency: 2 us}}\n" if spans < nodes * per else ""
    only = inner or f"  - {{name: nvlink, spans: all, bandwidth: 450 GB/s, latency: 2 us}}\n"
    outer = f"  - {{name: ib, spans: all, bandwidth: {cluster['outer']} GB/s, latency: 6 us}}\n" if inner else ""
    (SCRATCH / f"{name}-cluster.yaml").write_text(
        f"name: blocks\nnodes: {nodes}\naccelerators_per_node: {per}\n"
        f"accelerator: {ROOT}/configs/accelerators/h100-sxm-80gb.yaml\nlinks:\n{only}{outer}"
        f"launcher: slurm\nslurm: {json.dumps(settings)}\n")
    (SCRATCH / f"{name}.yaml").write_text(
        f"name: {name}\nmodel: {ROOT}/configs/models/llama-8b.yaml\ncluster: {name}-cluster.yaml\n"
        f"sequence_length: {run['sequence']}\nglobal_batch_size: {run['batch']}\noptimizer: {{total_steps: 1000}}\n"
        f"data: {{path: text.bin, format: bytes}}\nprefer_within: {run['within']}\n")


def emitted(name, *arguments):
    done = plan("emit", f"{name}.yaml", "-o", f"{name}-out", "--json", *arguments)
    if done.returncode != 0:
        return done, None, ""
    return done, json.loads(done.stdout)["plans"][-1], (SCRATCH / f"{name}-out" / f"{name}.sbatch").read_text()


def decision(name):
    text = (SCRATCH / f"{name}-out" / f"{name}.plan.yaml").read_text()
    mesh = [int(n) for n in re.search(r"mesh_dim: '([\d,]+)'", text)[1].split(",")]
    return dict(zip(AXES, mesh)), re.search(r"axis_order: '([\w,]+)'", text)[1].split(","), text


def step_of(name, mesh_dim):
    done = plan("search", f"{name}.yaml", "--json", "--mesh_dim", mesh_dim)
    return json.loads(done.stdout)["chosen"]["step_seconds"] if done.returncode == 0 else None


def check_segment(what, cluster, run, entry, script):
    """What the job asks for is what its mesh fills, and worth it."""
    size, order, text = decision("placed")
    per, nodes, block = cluster["per"], run["nodes"], cluster["block"]
    products, product = [1], 1
    for axis in reversed(order):
        product *= size[axis]
        products.append(product)
    segment = re.search(r"^#SBATCH --segment=(\d+)$", script, re.M)
    largest = max(p for p in products if p <= block * per)
    may = largest % per == 0 and largest > per and nodes % (largest // per) == 0
    named = ",".join(f"{axis}:{size[axis]}" for axis in order)
    mesh = ",".join(str(size[axis]) for axis in AXES)
    apart = step_of("apart", mesh)
    if segment is None:
        # the same mesh costs what it costs where nobody knows of blocks
        if abs(entry["step_seconds"] / apart - 1) > 0.011:
            complain(f"{what}: {mesh} takes {entry['step_seconds']} without a segment, {apart} without a topology")
        return 0
    nodes_of = int(segment[1])
    write("spans", cluster, run, {}, spans=nodes_of * per)
    spans = step_of("spans", named)
    if not may or nodes_of * per != largest or nodes_of > block:
        complain(f"{what}: --segment={nodes_of} for {named}, blocks of {block} nodes of {per}")
    if spans is None or abs(entry["step_seconds"] / spans - 1) > 0.011:  # the options may differ by 1 %
        complain(f"{what}: {named} takes {entry['step_seconds']}, {spans} where links span {nodes_of} nodes")
    if not entry["step_seconds"] * (1 + run["within"]) < apart * 1.011:
        complain(f"{what}: {entry['step_seconds']} with --segment={nodes_of}, {apart} without: not worth it")
    if f"\n# --segment={nodes_of} keeps each {nodes_of} nodes in one block of {block}: a step takes " not in script:
        complain(f"{what}: the script does not say why: {script[:1500]}")
    told = json.loads(plan("search", "placed.yaml", "--json", "--top", "1").stdout)["chosen"]["segment"]
    if told["accelerators"] != nodes_of * per or told["step_seconds_without"] * (1 + 0.011) < entry["step_seconds"] * (1 + run["within"]):
        complain(f"{what}: 'plan search --json' tells the segment {told}, of {nodes_of} nodes and a step of {entry['step_seconds']}")
    if not re.search(rf"^ +segment: {nodes_of}$", text, re.M):
        complain(f"{what}: the plan does not hold the segment")
    return 1


def check_unasked(what, cluster, run, known, base):
    """Where one condition is missing nothing is asked for, and the price is that of no topology."""
    lacks = [{"slurm_version": "23.11"}, {"slurm_version": None}, {"block_nodes": None}, {"topology": "unknown", "block_nodes": None},
             {"topology": "flat", "block_nodes": None}]
    slurm = {key: value for key, value in {**known, **random.choice(lacks)}.items() if value is not None}
    write("lacks", cluster, run, slurm)
    done, entry, script = emitted("lacks")
    if entry is None or "--segment" in script or entry["step_seconds"] != base["step_seconds"]:
        complain(f"{what}: {slurm}: {done.stderr}{entry} {'--segment' in script}")


def draw(i):
    per = random.choice([2, 4, 8])
    cluster = {"per": per, "block": random.choice([3, 4, 5, 6, 9, 18]), "outer": random.choice([10, 25, 50])}
    run = {"nodes": random.choice([6, 8, 12, 16, 24]), "sequence": random.choice([2048, 8192, 32768]),
           "batch": random.choice([16, 32, 48, 96]), "within": random.choice([0.01, 0.05, 0.05, 0.2])}
    known = {"topology": "block", "block_nodes": cluster["block"], "slurm_version": random.choice(["24.05", "25.11.1"])}
    what = f"draw {i} (seed {SEED}): {cluster} {run}"
    write("apart", cluster, run, {})
    write("placed", cluster, run, known)
    (done, base, _), (_, entry, script) = emitted("apart"), emitted("placed")
    if base is None or entry is None:
        if (base is None) != (entry is None):
            complain(f"{what}: {done.stderr}")
        return 0
    if entry["step_seconds"] > base["step_seconds"] * (1 + run["within"]) * 1.011:
        complain(f"{what}: {entry['step_seconds']} with blocks, {base['step_seconds']} without")
    asks = check_segment(what, cluster, run, entry, script)
    if asks:
        check_unasked(what, cluster, run, known, base)
    return asks


def elastic():
    """No segment divides two numbers that follow each other."""
    cluster, run = {"per": 4, "block": 18, "outer": 10}, {"nodes": 16, "sequence": 8192, "batch": 48, "within": 0.05}
    write("placed", cluster, run, {"topology": "block", "block_nodes": 18, "slurm_version": "25.11"})
    done = plan("emit", "placed.yaml", "-o", "elastic-out", "--set", "nodes=15-16")
    script = (SCRATCH / "elastic-out" / "placed.sbatch").read_text() if done.returncode == 0 else ""
    if done.returncode != 0 or "--segment" in script:
        complain(f"an elastic run: {done.stderr}")


def topology(blocks, version, kind):
    """As `scontrol show topology` of 24.05.8, 25.11.7 (topology/block) and 22.05.8 (topology/tree) prints it: formats of
    src/plugins/topology/block/topology_block.c and src/api/topo_info.c."""
    lines = []
    for i, names in enumerate(blocks):
        size = " BlockSize=18" if version > "24.05" else ""
        lines.append(f"BlockName=b{i} BlockIndex={i} Nodes={','.join(names)}{size}" if kind == "block" else
                     f"SwitchName=leaf{i} Level=0 LinkSpeed=1 Nodes={','.join(names)}")
    every = ",".join(name for names in blocks for name in names)
    if kind == "tree":
        lines.append(f"SwitchName=spine Level=1 LinkSpeed=1 Nodes={every} Switches=leaf[0-{len(blocks) - 1}]")
    elif version > "24.05":
        lines.append(f"AggregatedBlock=b[0-{len(blocks) - 1}] BlockIndex={len(blocks)} Nodes={every} BlockSize=36")
    return "\n".join(lines) + "\n"


SRUN = """#!/bin/sh
echo "$*" >>slurm/started
[ -z "${SLURM_HOSTFILE:-}" ] || cp "$SLURM_HOSTFILE" slurm/hosts
"""


def supervise(i):
    """The ranks of a job on some nodes: those of a block, or of a leaf switch, next to each other."""
    kind, version = random.choice([("block", "24.05.8"), ("block", "25.11.7"), ("tree", "22.05.8"), ("tree", "25.11.7")])
    nodes, per = random.choice([2, 4, 8]), random.choice([1, 2])
    names = [f"n{k:02}" for k in range(24)]
    own = "topology-t1" if random.random() < 0.3 else "topology"  # of the job's partition (25.05), or the cluster's
    random.shuffle(names)
    cuts = sorted(random.sample(range(1, 24), random.randint(1, 5)))
    blocks = [sorted(names[a:b]) for a, b in zip([0] + cuts, cuts + [24])]
    if random.random() < 0.2:
        blocks = blocks[1:]  # nodes that no block has
    job = sorted(random.sample(names, nodes))
    if random.random() < 0.2:
        blocks = []  # the controller tells nothing
    size = {"topology": kind, "block_nodes" if kind == "block" else "leaf_nodes": 2, "slurm_version": version}
    write("placed", {"per": per, "block": 2, "outer": 10}, {"nodes": nodes, "sequence": 256, "batch": 16, "within": 0.05}, size)
    done = plan("emit", "placed.yaml", "-o", "placed-out", "--set", f"model={ROOT}/configs/models/quickstart.yaml")
    script = SCRATCH / "placed-out" / "placed.sbatch"
    if done.returncode != 0 or f" --topology {kind}" not in script.read_text():
        return complain(f"supervise {i}: {done.stderr}")
    (SCRATCH / "slurm" / "topology").write_text(topology([["other"]], version, kind) if own != "topology" else "")
    (SCRATCH / "slurm" / own).write_text(topology(blocks, version, kind) if blocks else "")
    (SCRATCH / "slurm" / "partition").write_text(
        f"PartitionName=gpu Default=YES {'Topology=t1 ' if own != 'topology' else ''}State=UP Nodes=n[00-23]\n")
    for name in ("started", "hosts"):
        (SCRATCH / "slurm" / name).unlink(missing_ok=True)
    (SCRATCH / "bin" / "srun").write_text(SRUN.replace("slurm/", f"{SCRATCH}/slurm/"))
    (SCRATCH / "bin" / "srun").chmod(0o755)
    environment = dict(os.environ, PATH=f"{SCRATCH}/bin:{os.environ['PATH']}", SHARDWRIGHT_RUNNER="/bin/true",
                       SHARDWRIGHT_PAUSE_SECONDS="0.001", SLURM_JOB_ID="7", SLURM_JOB_NODELIST=",".join(job),
                       SLURM_JOB_NUM_NODES=str(nodes), SLURM_JOB_PARTITION="gpu", SLURM_HOSTFILE="/stale")
    environment.pop("SLURM_CONF", None)
    done = subprocess.run(["bash", script], cwd=SCRATCH, env=environment, text=True, capture_output=True, timeout=60)
    started = (SCRATCH / "slurm" / "started").read_text().splitlines()[0] if (SCRATCH / "slurm" / "started").exists() else ""
    groups = [[name for name in job if name in names_of] for names_of in blocks]
    groups = sorted((group for group in groups if group), key=lambda group: -len(group))
    wanted = [name for group in groups for name in group]
    wanted += [name for name in job if name not in wanted]
    what = f"supervise {i} (seed {SEED}): {kind} {version} {blocks} job {job}"
    if wanted == job:
        if "--distribution=block:block" not in started or (SCRATCH / "slurm" / "hosts").exists():
            complain(f"{what}: in order, and started as {started}: {done.stderr}")
        return
    hosts = (SCRATCH / "slurm" / "hosts").read_text().split() if (SCRATCH / "slurm" / "hosts").exists() else []
    if "--distribution=arbitrary" not in started or hosts != [name for name in wanted for _ in range(per)]:
        complain(f"{what}: not {wanted} but {hosts}: {started}: {done.stderr}")
    if list((SCRATCH / "runs").rglob("*.hosts")):
        complain(f"{what}: the file of hosts stays")


def dry_run():
    """Slurm is asked for each number of nodes with the segment that its own mesh wants."""
    cluster, run = {"per": 4, "block": 18, "outer": 10}, {"nodes": 32, "sequence": 8192, "batch": 32, "within": 0.05}
    write("placed", cluster, run, {"topology": "block", "block_nodes": 18, "slurm_version": "25.11"})
    (SCRATCH / "slurm" / "node").write_text("".join(
        f"NodeName=n{i} CoresPerSocket=32 CPUTot=64 Gres=gpu:4 AvailableFeatures=x State=IDLE ThreadsPerCore=1 Sockets=2 "
        f"RealMemory=500000\n" for i in range(1, 33)))
    text = (SCRATCH / "slurm" / "partition").read_text()
    (SCRATCH / "slurm" / "partition").write_text(text.replace("n[1-4]", "n[1-32]"))
    (SCRATCH / "slurm" / "asked").unlink(missing_ok=True)
    done = plan("submit", "placed.yaml", "--dry-run", "--json")
    asked = (SCRATCH / "slurm" / "asked").read_text().splitlines() if done.returncode == 0 else []
    segments = {}
    for line in asked:
        nodes = int(re.search(r"--nodes=(\d+)", line)[1])
        segment = re.search(r"--segment=(\d+)", line)
        segments.setdefault(nodes, set()).add(int(segment[1]) if segment else 0)
        if segment and (nodes % int(segment[1]) != 0 or int(segment[1]) > 18):
            complain(f"dry run: {line}")
    if done.returncode != 0 or not any(segments.get(32, set())) or len(segments) < 3:
        complain(f"dry run: {done.returncode} {segments} {done.stderr}")
    # a plan's own script is asked with as it stands
    entry = emitted("placed")[1]
    (SCRATCH / "slurm" / "asked").unlink(missing_ok=True)
    done = plan("submit", "placed-out/placed.plan.yaml", "--dry-run", "--json")
    steps = [c["step_seconds"] for c in json.loads(done.stdout)["choices"]] if done.returncode == 0 else []
    if len(steps) != 1 or abs(steps[0] / entry["step_seconds"] - 1) > 1e-9:
        complain(f"dry run of a plan: a step takes {steps}, and {entry['step_seconds']} as emitted")
    asked = (SCRATCH / "slurm" / "asked").read_text() if done.returncode == 0 else ""
    wanted = re.search(r"#SBATCH (--segment=\d+)\n", (SCRATCH / "placed-out" / "placed.sbatch").read_text())
    if wanted is None or wanted[1] not in asked:
        complain(f"dry run of a plan: {done.stderr}{asked}")


os.makedirs(SCRATCH, exist_ok=True)
subprocess.run(["bash", ROOT / "tests" / "mistakes" / "slurm.sh"], cwd=SCRATCH, check=True,
               env=dict(os.environ, PATH=f"{PLAN.parent}:{os.environ['PATH']}"))
(SCRATCH / "text.bin").write_bytes(b"a" * 9_000_000)
random.seed(SEED)
asking = sum(draw(i) for i in range(DRAWS))
elastic()
dry_run()
for number in range(DRAWS):
    supervise(number)
print(f"placement: {DRAWS} draws (seed {SEED}), {asking} ask for segments, {wrong} wrong")
sys.exit(wrong != 0)
