#!/usr/bin/env python3
"""plan import-cluster on sites as they are written down: stand-ins for Slurm's commands answer (tests/mistakes/slurm.sh).

    test_import_sites.py PLAN SCRATCH [DRAWS [SEED]]

A table of sites with the lines that the file must have and must not have; then draws of nodes of several kinds in random
states, whose number is counted here a second time.
"""
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
DRAWS = int(sys.argv[3]) if len(sys.argv) > 3 else 20
SEED = int(sys.argv[4]) if len(sys.argv) > 4 else 1
PARTITION = ("PartitionName={name} Default=YES State=UP Nodes={nodes} MaxTime=2-00:00:00 DefaultTime=NONE "
             "MaxNodes=UNLIMITED MinNodes=0 MaxCPUsPerNode=UNLIMITED AllowAccounts=ALL AllowQos=ALL AllowGroups=ALL")
wrong = 0


def complain(text):
    global wrong
    wrong += 1
    print("FAIL:", text)


def node(name, gres="(null)", features="(null)", state="IDLE", cpus=64, memory=500000):
    return (f"NodeName={name} CoresPerSocket={cpus // 2} CPUTot={cpus} Gres={gres} AvailableFeatures={features} "
            f"State={state} ThreadsPerCore=1 Sockets=2 RealMemory={memory}")


def config(version, plugin, **others):
    """As `scontrol show config` prints the keys that matter here (Slurm, src/api/config_info.c)."""
    keys = {"ClusterName": "standin", "SLURM_VERSION": version, "TopologyPlugin": plugin, "TopologyParam": "(null)"}
    return "".join(f"{key:<24}= {value}\n" for key, value in {**keys, **others}.items())


def site(nodes, topology="", partition=None, settings=None, files=None):
    names = ",".join(line.split()[0].split("=")[1] for line in nodes)
    (SCRATCH / "slurm" / "node").write_text("\n".join(nodes) + "\n")
    (SCRATCH / "slurm" / "partition").write_text((partition or PARTITION.format(name="gpu", nodes=names)) + "\n")
    (SCRATCH / "slurm" / "topology").write_text(topology)
    for name, text in {"config": settings, **(files or {})}.items():
        if text is None:
            (SCRATCH / "slurm" / name).unlink(missing_ok=True)
        else:
            (SCRATCH / "slurm" / name).write_text(text)


def plan(*arguments):
    environment = dict(os.environ, PATH=f"{SCRATCH}/bin:{os.environ['PATH']}")
    environment.pop("SLURM_CONF", None)
    return subprocess.run([SCRATCH / "bin" / "plan", *arguments], cwd=SCRATCH, env=environment, text=True, capture_output=True)


def imported(*arguments):
    done = plan("import-cluster", *arguments)
    # comments are wrapped
    return done, re.sub(r"\n *# ", " ", done.stdout)


def many(first, last, *arguments, **others):
    return [node(f"n{i}", *arguments, **others) for i in range(first, last + 1)]


H100 = "gpu:h100:8(S:0-1)"
BLOCKS = "".join(f"BlockName=b{i} BlockIndex={i} Nodes=n[{4 * i + 1}-{4 * i + 4}] BlockSize=4\n" for i in range(4))
BLOCKS += "AggregatedBlock=b[0-1] BlockIndex=4 Nodes=n[1-8] BlockSize=8\nAggregatedBlock=b[2-3] BlockIndex=5 Nodes=n[9-16] BlockSize=8\n"
# name: nodes, topology, arguments, what stands in the file, what does not
SITES = {
    "MIG by gigabytes": (many(1, 4, "gpu:h100-47:8"), "", [],
                         ["accelerator: h100-47.yaml", "gpus_per_node: 'h100-47:8'", "no data sheet is shipped", "a slice"],
                         ["SXM", "nvlink"]),
    "a card with another memory": (many(1, 4, "gpu:h100_96gb:4"), "", [],
                                   ["accelerator: h100_96gb.yaml", "h100-sxm-96gb-hbm2e-500w.yaml may be it"],
                                   ["SXM", "nvlink"]),
    "whole GPUs before slices of other nodes": (
        many(1, 11, "gpu:a100:4", "a100,sxm4,gpu80") + many(12, 13, "gpu:a100_1g.10gb:56"), "", [],
        ["nodes: 11", "accelerators_per_node: 4", "name: a100-sxm-80gb", "2 nodes of partition gpu with other accelerators left out"],
        []),
    "drained today": (many(1, 56, H100) + many(57, 64, H100, state="IDLE+DRAIN"), "", [],
                      ["nodes: 64", "8 nodes drained, and counted: n[57-64]"], []),
    "every state": (
        many(1, 2, H100, state="MIXED+PLANNED") + many(3, 3, H100, state="IDLE+CLOUD+POWERED_DOWN") +
        many(4, 4, H100, state="DOWN*+NOT_RESPONDING") + many(5, 5, H100, state="MIXED+MAINTENANCE") +
        many(6, 6, H100, state="FUTURE") + many(7, 7, H100, state="IDLE+FAIL") + many(8, 8, H100, state="DOWN+DRAIN") +
        many(9, 9, H100, state="IDLE*+NOT_RESPONDING") + many(10, 10, H100, state="IDLE+RESERVED"), "", [],
        ["nodes: 6", "2 nodes down, and not counted: n[4,8]", "1 node in maintenance, and counted: n5",
         "1 node not there yet (FUTURE), and not counted: n6", "1 node about to fail, and not counted: n7",
         "1 node not responding, and counted: n9", "1 node in a reservation, and counted: n10"], []),
    "features with colons": (
        many(1, 8, "gpu:4", "CPU_GEN:RME,GPU_GEN:AMP,GPU_SKU:A100_SXM4,GPU_MEM:80GB") +
        many(9, 12, "gpu:4", "CPU_GEN:RME,GPU_GEN:AMP,GPU_SKU:A100_SXM4,GPU_MEM:40GB"), "", [],
        ["nodes: 8", "name: a100-sxm-80gb", "constraint: 'GPU_MEM:80GB'", "gpus_per_node: '4'"], []),
    "blocks": (many(1, 16, H100), BLOCKS, [],
               ["{name: block, spans: 32,", "{name: level-8, spans: 64,", "4 nodes in one block", "slurm.segment"],
               ["knows no topology", "under one switch"]),
    "the version": (many(1, 2, H100), "", [], ["slurm_version: '22.05.8'"], []),
    "cores and their memory": (many(1, 4, cpus=32, memory=192000), "", [], ["accelerators_per_node: 32", "memory: 6000 MiB"],
                               ["memory: 2 GB"]),
    "memory that is not told": (many(1, 4, cpus=32, memory=1), "", [], ["memory: 2 GB"], ["memory: 0 MiB"]),
    "no type, a shipped accelerator": (many(1, 4, "gpu:8"), "", ["--accelerator", "h100-sxm-80gb"],
                                       ["name: h100-sxm-80gb", "gpus_per_node: '8'", "name: nvlink"], ["assumed SXM", "no data sheet"]),
    "no type, a file": (many(1, 4, "gpu:8"), "", ["--accelerator", "mine/card.yaml"],
                        ["accelerator: 'mine/card.yaml'", "gpus_per_node: '8'"], ["no data sheet"]),
    "GH200": (many(1, 4, "gpu:nvidia_gh200_480gb:4"), "", [], ["name: gh200-96gb", "name: slingshot"], ["no data sheet"]),
    "A40": (many(1, 4, "gpu:nvidia_a40:4"), "", [], ["name: a40-48gb", "name: pcie"], ["no data sheet"]),
    "LUMI": (many(1, 4, "gpu:mi250:8(S:0-3)"), "", [], ["name: mi250x-64gb", "assumed MI250X"], ["no data sheet"]),
}


# `scontrol show topology` prints these lines of topology/block in 24.05.8 (without sizes) and from 24.11 on
# (src/plugins/topology/block/topology_block.c, _print_topo_record), these of topology/tree in all releases
# (src/api/topo_info.c, src/plugins/topology/tree/topology_tree.c).
NVL72 = [f"BlockName=b{i} BlockIndex={i} Nodes=n[{18 * i + 1}-{18 * i + 18}]" for i in range(4)]
OLD_BLOCKS = "\n".join(NVL72) + "\n"
NEW_BLOCKS = "\n".join(line + " BlockSize=18" for line in NVL72) + "\n" + "".join(
    f"AggregatedBlock=b[{i}-{i + 1}] BlockIndex={4 + i // 2} Nodes=n[{18 * i + 1}-{18 * i + 36}] BlockSize=36\n" for i in (0, 2))
TREE = "".join(f"SwitchName=leaf{i} Level=0 LinkSpeed=1 Nodes=n[{8 * i + 1}-{8 * i + 8}]\n" for i in range(3)) + \
    "SwitchName=spine Level=1 LinkSpeed=1 Nodes=n[1-24] Switches=leaf[0-2]\n"
GB200 = "gpu:h100:4"
TOPOLOGY_CONF = "# ours\nBlockName=b0 Nodes=n[1-18]\n blocksizes = 16,32 # planned\n"
CONF = str(SCRATCH / "slurm" / "slurm.conf")
# name: nodes, what scontrol shows of the topology, of the settings, other files, what stands under slurm, what does not
TOPOLOGIES = {
    "blocks of 24.05": (many(1, 72, GB200), OLD_BLOCKS, config("24.05.8", "topology/block"), {},
                        ["topology: block", "block_nodes: 18", "slurm_version: '24.05.8'"], ["leaf_nodes", "max_switch_wait"]),
    "blocks of 24.05, and a topology.conf": (
        many(1, 72, GB200), OLD_BLOCKS, config("24.05.8", "topology/block", SLURM_CONF=CONF), {"topology.conf": TOPOLOGY_CONF},
        ["topology: block", "block_nodes: 16"], []),
    "blocks of 25.11": (many(1, 72, GB200), NEW_BLOCKS, config("25.11.0", "topology/block", TopologyParam="BlockAsNodeRank"), {},
                        ["topology: block", "block_nodes: 18", "{name: block, spans: 72,", "{name: level-36, spans: 144,"], []),
    "larger blocks than are planned": (
        many(1, 72, GB200), NEW_BLOCKS.replace("BlockSize=18", "BlockSize=16"), config("25.11.0", "topology/block"), {},
        ["block_nodes: 16", "{name: block, spans: 72,"], []),
    "a topology.yaml": (many(1, 72, GB200), NEW_BLOCKS, config("25.11.0", "topology/flat"), {}, ["topology: block"], []),
    "a tree": (many(1, 24, GB200), TREE, config("22.05.8", "topology/tree", SchedulerParameters="bf_max,max_switch_wait=3600"), {},
               ["topology: tree", "leaf_nodes: 8", "max_switch_wait: 3600 s"], ["block_nodes"]),
    "a tree, and Slurm's own wait": (many(1, 24, GB200), TREE, config("25.11.0", "topology/tree"), {},
                                     ["topology: tree", "max_switch_wait: 300 s"], []),
    "a dragonfly": (many(1, 24, GB200), TREE, config("25.11.0", "topology/tree", TopologyParam="Dragonfly"), {}, [],
                    ["topology:", "leaf_nodes"]),
    "none, until 23.02": (many(1, 4, GB200), "", config("22.05.8", "topology/none"), {}, ["topology: flat"], ["_nodes:"]),
    "none, 23.11 and 24.05": (many(1, 4, GB200), "", config("24.05.8", "topology/default"), {}, ["topology: flat"], []),
    "none, since": (many(1, 4, GB200), "", config("25.11.0", "topology/flat"), {}, ["topology: flat"], []),
    "a torus": (many(1, 4, GB200), "", config("22.05.8", "topology/3d_torus"), {}, [], ["topology:"]),
    "a tree that is not told": (many(1, 4, GB200), "", config("22.05.8", "topology/tree"), {}, [], ["topology:"]),
    "of nodes that are not ours": (many(1, 4, GB200), "SwitchName=s Level=0 LinkSpeed=1 Nodes=x[1-4]\n",
                                   config("22.05.8", "topology/tree"), {}, [], ["topology:"]),
}


def topologies():
    """What a job may ask of a site's topology; a partition's own comes before the cluster's."""
    for name, (nodes, topology, settings, files, has, lacks) in TOPOLOGIES.items():
        for own in (False, True):
            names = ",".join(line.split()[0].split("=")[1] for line in nodes)
            partition = PARTITION.format(name="gpu", nodes=names)
            if own:
                if not topology:
                    continue
                site(nodes, "SwitchName=x Level=0 LinkSpeed=1 Nodes=n[1-2]\n", partition.replace(" State=", " Topology=t1 State="),
                     settings, {**files, "topology-t1": topology})
            else:
                site(nodes, topology, partition, settings, {"topology.conf": None, **files})
            done = plan("import-cluster")
            text = "\n".join(line for line in done.stdout.split("slurm:\n")[-1].splitlines() if "#" not in line)
            for part in has:
                if part not in done.stdout.replace("\n     ", " "):
                    complain(f"{name}: no '{part}' in\n{done.stdout}{done.stderr}")
            for part in lacks:
                if part in text:
                    complain(f"{name}: '{part}' in\n{done.stdout}")
            (SCRATCH / "topology.yaml").write_text(done.stdout)
            for tries in range(2):  # what is written stands, and a second import changes nothing
                again = plan("import-cluster", "--into", "topology.yaml")
                if again.returncode != 0 or (SCRATCH / "topology.yaml").read_text() != done.stdout:
                    complain(f"{name}, again: {again.stderr}{again.stdout}")
    site(many(1, 4, H100))


def table():
    (SCRATCH / "mine").mkdir()
    (SCRATCH / "mine" / "card.yaml").write_text(
        "name: card\ndevice: cuda\nmemory: 24 GB\npeak: {bf16: 100 TFLOP/s, fp32: 30 TFLOP/s}\nmemory_bandwidth: 900 GB/s\n")
    for name, (nodes, topology, arguments, has, lacks) in SITES.items():
        site(nodes, topology)
        done, text = imported(*arguments)
        if done.returncode != 0:
            complain(f"{name}: exit code {done.returncode}: {done.stderr}")
        for part in has:
            if part not in text:
                complain(f"{name}: no '{part}' in\n{text}")
        for part in lacks:
            if part in text:
                complain(f"{name}: '{part}' in\n{text}")
        if "no data sheet" not in text:
            (SCRATCH / "out.yaml").write_text(done.stdout)
            checked = plan("check", "out.yaml")
            if checked.returncode != 0:
                complain(f"{name}: check: {checked.stderr}")


def named_accelerators():
    """Where the new file lies decides how it names the accelerator's."""
    site(many(1, 4, "gpu:8"))
    (SCRATCH / "sub" / "deep").mkdir(parents=True)
    done = plan("import-cluster", "--accelerator", "mine/card.yaml", "-o", "sub/deep/new.yaml")
    text = (SCRATCH / "sub" / "deep" / "new.yaml").read_text()
    if done.returncode != 0 or "accelerator: '../../mine/card.yaml'" not in text:
        complain(f"a file beside others: {done.stderr}{text}")
    checked = plan("check", "sub/deep/new.yaml")
    if checked.returncode != 0:
        complain(f"a file beside others: check: {checked.stderr}")
    for name, said in (("nosuch", "is none of "), ("slurm/node", "slurm/node:1:")):
        done = plan("import-cluster", "--accelerator", name)
        if done.returncode != 2 or said not in done.stderr or done.stdout:
            complain(f"--accelerator {name}: {done.returncode}: {done.stderr}")


def into():
    """A byte order mark and the ends of lines stay; a second time changes nothing."""
    site(many(1, 4, H100))
    text = ("name: ours\naccelerator: h100.yaml\naccelerators_per_node: 8\nnodes: 3 # rented\n"
            "slurm:\n  partition: gpu\n  # ours\n  time: '1:00:00'\nlauncher: slurm\n")
    (SCRATCH / "h100.yaml").write_text((ROOT / "configs" / "accelerators" / "h100-sxm-80gb.yaml").read_text())
    for mark in (b"", b"\xef\xbb\xbf"):
        for end in (b"\n", b"\r\n"):
            for last in (True, False):
                for where in ("", "links:\n  - {name: a, spans: all, bandwidth: 1 GB/s, latency: 1 us}\n"):
                    whole = (text + where).encode()
                    old = mark + (whole if last else whole[:-1]).replace(b"\n", end)
                    path = SCRATCH / "old.yaml"
                    path.write_bytes(old)
                    done = plan("import-cluster", "--into", "old.yaml")
                    new = path.read_bytes()
                    if not where and b"links" not in old:
                        # several nodes want links; the file stays as it was
                        if done.returncode == 2 and new == old:
                            continue
                    lines = new[len(mark):].replace(end, b"\0")
                    if (done.returncode != 0 or not new.startswith(mark + b"name") or b"\n" in lines or b"\r" in lines or
                            b"nodes: 4 # rented" not in new or b"slurm_version: '22.05.8'" not in new):
                        complain(f"--into {mark} {end} {last}: {done.returncode} {done.stderr} {new}")
                    plan("import-cluster", "--into", "old.yaml")
                    if path.read_bytes() != new:
                        complain(f"--into, twice: {path.read_bytes()}")


def draws():
    """Nodes of several kinds in random states: the number of nodes, counted a second time."""
    random.seed(SEED)
    kinds = [("gpu:h100:8", 8, True), ("gpu:a100:4", 4, True), ("gpu:h100-47:16", 16, False), ("gpu:a100_1g.10gb:56", 56, False),
             ("gpu:l40s:8", 8, True), ("gpu:nvidia_h100_80gb_hbm3_3g.40gb:16", 16, False), ("(null)", 0, False)]
    bases, flags = ["IDLE", "MIXED", "ALLOCATED", "DOWN", "FUTURE", "UNKNOWN", "ERROR"], \
        ["DRAIN", "PLANNED", "RESERVED", "MAINTENANCE", "CLOUD", "POWERED_DOWN", "FAIL", "NOT_RESPONDING", "COMPLETING", "INVALID_REG"]
    for draw in range(DRAWS):
        nodes, counts = [], {}
        for i in range(random.randint(1, 40)):
            kind = random.choice(kinds)
            words = [random.choices(bases, [6, 3, 3, 1, 1, 1, 1])[0]] + random.sample(flags, random.choice([0, 0, 1, 1, 2]))
            nodes.append(node(f"n{i}", kind[0], state="+".join(words).replace("IDLE+NOT", "IDLE*+NOT")))
            if not {"DOWN", "FUTURE", "UNKNOWN", "ERROR", "FAIL"} & set(words):
                counts[kind] = counts.get(kind, 0) + 1
        site(nodes)
        done, text = imported()
        if not counts:
            if done.returncode != 1:
                complain(f"draw {draw}: nothing is up: {done.returncode}")
            continue
        best = max((kind[2], kind[1] > 0, kind[1] * count) for kind, count in counts.items())
        wanted = {(count, kind[1] or 64) for kind, count in counts.items()
                  if (kind[2], kind[1] > 0, kind[1] * count) == best}
        got = re.search(r"^nodes: (\d+)\naccelerators_per_node: (\d+)$", done.stdout, re.M)
        if done.returncode != 0 or got is None or (int(got[1]), int(got[2])) not in wanted:
            complain(f"draw {draw}: {got and got.groups()}, not {wanted}: {done.stderr}")


os.makedirs(SCRATCH, exist_ok=True)
subprocess.run(["bash", ROOT / "tests" / "mistakes" / "slurm.sh"], cwd=SCRATCH, check=True,
               env=dict(os.environ, PATH=f"{PLAN.parent}:{os.environ['PATH']}"))
table()
topologies()
named_accelerators()
into()
draws()
print(f"import of sites: {len(SITES) + len(TOPOLOGIES)} of tables, {DRAWS} draws (seed {SEED}), {wrong} wrong")
sys.exit(wrong != 0)
