#!/usr/bin/env python3
"""The runs of optimizer_runs.py against fixtures/optimizer.json (make_optimizer_fixtures.py), on one
rank and on meshes: losses, spikes, where the data goes on; and the same to the bit when a run is
killed, before or right behind a rewind, and goes on, also on another mesh up to rounding.

  test_optimizer.py BUILD SCRATCH [all]      from the root of the tree

Losses are in fp32 here, the oracle's in float64: equal to 1e-5 over 20 steps. With moments in 8
bits a difference of 1e-7 may move a number to the code beside it, 1.4 % of a block's largest away:
to 1e-3 of the loss; in bf16 to the number beside it, 0.8 % away: to 1e-4.
"""
import glob
import hashlib
import json
import os
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True  # the tree stays as it is
here = os.path.dirname(os.path.abspath(__file__))
sys.path += [here, os.path.join(here, "..", "support")]
import optimizer_runs as runs  # noqa: E402
from scratch import scratch_in  # noqa: E402

build = os.path.realpath(sys.argv[1])
scratch = scratch_in(sys.argv[2])
every_mesh = len(sys.argv) > 3
ENVIRONMENT = dict(os.environ, OMPI_MCA_mpi_yield_when_idle="1", OMPI_MCA_rmaps_base_oversubscribe="1",
                   OMPI_MCA_hwloc_base_binding_policy="none", OMP_NUM_THREADS="1",
                   OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
MESHES = ["1,1,1,1", "1,4,1,1", "1,2,2,1", "2,1,1,2", "1,1,2,2"]
failed = 0


def check(good, *text):
    global failed
    if not good:
        failed += 1
        print("FAIL:", *text)


def run(*command, ranks=1, code=0):
    command = ("mpirun", "-q", "-np", str(ranks)) + command if ranks > 1 else command
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=120)
    check(done.returncode == code, " ".join(command), "exits with", done.returncode, "\n", done.stderr)
    return done


def plan(case, mesh, kind="", data="", more=""):
    """Folder and ranks of a planned run."""
    ranks = eval(mesh.replace(",", "*"))
    folder = f"{scratch}/{kind}{case}-{mesh.replace(',', '')}"
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    settings = {**runs.COMMON, **runs.CASES[case]}
    text = ", ".join(f"{key}: {value}" for key, value in settings.items())
    with open(f"{folder}/run.yaml", "w") as out:
        out.write(f"""name: run
model: {scratch}/model/config.json
cluster: {{name: here, nodes: 1, accelerators_per_node: {ranks}, launcher: mpirun,
  accelerator: {os.path.realpath('configs/accelerators/cpu-core.yaml')},
  links: [{{name: l, spans: {ranks}, bandwidth: 1 GB/s, latency: 1 us}}]}}
sequence_length: {runs.LENGTH}
global_batch_size: {runs.BATCH}
mesh_dim: '{mesh}'
precision: {{compute: fp32, params: fp32, reduce: fp32}}
optimizer: {{{text}, betas: [0.9, 0.95]}}
data: {{path: {scratch}/data.bin, seed: {runs.SEED}{data}}}
init: {{from: {scratch}/model}}
directory: {folder}/out
checkpoint: {{every_steps: {runs.EVERY}, keep: 100}}
{more}
""")
    run(f"{build}/plan", "emit", f"{folder}/run.yaml", "-o", folder)
    return folder, ranks


def train(folder, ranks, *more, code=0):
    return run(f"{build}/runner", "train", f"{folder}/run.plan.yaml", "--quiet", *more, ranks=ranks,
               code=code)


def lines(folder):
    with open(f"{folder}/out/metrics.jsonl") as file:
        return [line for line in map(json.loads, file) if "loss" in line]


def last(folder):
    """Where the data goes on, what is known of spikes, and a digest of every other file."""
    at = f"{folder}/out/checkpoints/latest"
    with open(f"{at}/manifest.json") as file:
        manifest = json.load(file)
    digest = hashlib.sha256()
    for path in sorted(glob.glob(f"{at}/**/*.safetensors", recursive=True)):
        with open(path, "rb") as file:
            digest.update(file.read())
    return manifest["step"], manifest["next_sequence"], manifest.get("spikes"), digest.hexdigest()


def compare(case, mesh, want):
    folder, ranks = plan(case, mesh)
    train(folder, ranks)
    got = lines(folder)
    tolerance = 1e-3 if "int8" in case else 1e-4 if "bf16" in case else 1e-5
    check([g["step"] for g in got] == [w["step"] for w in want["lines"]], case, mesh, "steps",
          [g["step"] for g in got])
    worst = max(abs(g["loss"] - w["loss"]) / w["loss"] for g, w in zip(got, want["lines"]))
    check(worst <= tolerance, case, mesh, "losses differ by", worst)
    check([g.get("spike") is not None for g in got] == [w["spike"] for w in want["lines"]], case,
          mesh, "spikes")
    step, sequence, spikes, _ = last(folder)
    check((step, sequence) == (runs.STEPS, want["next_sequence"]), case, mesh, "ends at", step, sequence)
    check(spikes is None or spikes["rewinds"] == want["rewinds"], case, mesh, "rewinds", spikes)
    print(f"{case} {mesh}: {len(got)} steps, {sum(w['spike'] for w in want['lines'])} spikes, "
          f"losses within {worst:.1e}")
    return folder, ranks


def killed(case, folder, ranks):
    """As if the run had been killed when each checkpoint was the last: it ends alike to the bit."""
    whole = last(folder)
    out = f"{folder}/out/checkpoints"
    shutil.copytree(out, f"{folder}/kept", symlinks=True)
    steps = sorted(int(path[-6:]) for path in glob.glob(f"{out}/step-*"))
    for step in steps[:-1] if every_mesh else steps[1:2]:
        shutil.rmtree(out)
        shutil.copytree(f"{folder}/kept", out, symlinks=True)
        for later in steps:
            if later > step:
                shutil.rmtree(f"{out}/step-{later:06d}")
        os.remove(f"{out}/latest")
        os.symlink(f"step-{step:06d}", f"{out}/latest")
        train(folder, ranks)
        check(last(folder) == whole, case, "resumed from step", step, last(folder), "not", whole)


def adapters_go_back(mesh):
    """What adapters stand on is the same behind a rewind: a run judges its last checkpoint as
    `evaluate` does, which reads the model anew."""
    folder, ranks = plan("rewind", mesh, "adapters-", ", holdout: 0.2", "lora: {rank: 2, targets: all-linear}")
    train(folder, ranks)
    with open(f"{folder}/out/metrics.jsonl") as file:
        rows = [json.loads(line) for line in file]
    check(any(row.get("spike") for row in rows), "no rewind with adapters")
    held = [row["held_out_bits_per_token"] for row in rows if "held_out_bits_per_token" in row]
    done = run(f"{build}/runner", "evaluate", f"{folder}/run.plan.yaml", "--checkpoint", f"{folder}/out/checkpoints",
               "--json", ranks=ranks)
    bits = json.loads(done.stdout)["bits_per_token"]
    check(len(held) == 1 and abs(held[0] / bits - 1) < 1e-6, "behind a rewind", held, "not", bits)
    print(f"adapters {mesh}: {held[0]} bits a token, {bits} of the checkpoint")


runs.write(scratch)
with open(f"{here}/fixtures/optimizer.json") as fixture:
    wanted = json.load(fixture)
for index, name in enumerate(runs.CASES):
    meshes = MESHES if every_mesh else [MESHES[0 if index % 3 else 2 - index // 3]]
    for of in meshes:
        where, count = compare(name, of, wanted[name])
        if every_mesh or name in ("int8_wsd", "rewind"):
            killed(name, where, count)
for of in MESHES if every_mesh else MESHES[2:3]:
    adapters_go_back(of)
sys.exit(failed > 0)
