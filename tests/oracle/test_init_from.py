#!/usr/bin/env python3
"""Published models as a user trains them: every directory of the checkpoint fixtures, which
transformers wrote (make_checkpoint_fixtures.py), is planned with its own config.json, evaluated on
one rank and on four, started from with `init: from`, and exported.

  test_init_from.py BUILD FIXTURES SCRATCH [NAME...]      from the root of the tree

Losses are in fp32 on both sides, also those of files in bf16 and fp16, whose numbers fp32 has: they
are equal to 1e-5, the bound of test_checkpoints.c. Only the Python standard library is needed.
"""
import glob
import json
import math
import os
import re
import struct
import subprocess
import sys

sys.dont_write_bytecode = True  # the tree stays as it is
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from scratch import scratch_in  # noqa: E402

build, fixtures = (os.path.realpath(path) for path in sys.argv[1:3])
scratch = scratch_in(sys.argv[3])
TOLERANCE = 1e-5
ENVIRONMENT = dict(os.environ, OMPI_MCA_mpi_yield_when_idle="1", OMPI_MCA_rmaps_base_oversubscribe="1",
                   OMPI_MCA_hwloc_base_binding_policy="none", OMP_NUM_THREADS="1",
                   OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
FIRST_STEP = r"step 1/\d+ .*"
failed = 0


def check(good, *text):
    global failed
    if not good:
        failed += 1
        print("FAIL:", *text)


def run(*command, code=0, ranks=1):
    if ranks > 1:
        command = ("mpirun", "-q", "-np", str(ranks)) + command
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=120)
    check(done.returncode == code, " ".join(command), "exits with", done.returncode, "not", code,
          "\n" + done.stderr)
    return done


def plan(name, model, mesh, **more):
    """The path of a plan of a run in SCRATCH/NAME."""
    ranks = math.prod(mesh)
    folder = f"{scratch}/{name}"
    os.makedirs(folder, exist_ok=True)
    settings = dict(learning_rate=1e-3, total_steps=2, warmup_steps=0, schedule="constant")
    settings.update(more.pop("optimizer", {}))
    lines = ["name: run", f"model: {model}/config.json",
             f"cluster: {{name: here, nodes: 1, accelerators_per_node: {ranks}, launcher: mpirun,"
             f" accelerator: {os.path.realpath('configs/accelerators/cpu-core.yaml')},"
             f" links: [{{name: l, spans: {ranks}, bandwidth: 1 GB/s, latency: 1 us}}]}}",
             "sequence_length: 32", "global_batch_size: 2",
             f"mesh_dim: '{','.join(map(str, mesh))}'",
             "precision: {compute: fp32, params: fp32, reduce: fp32}",
             f"optimizer: {json.dumps(settings)}",
             f"data: {{path: {fixtures}/tokens.bin, holdout: 0.5}}", f"directory: {folder}"]
    lines += [f"{key}: {json.dumps(value)}" for key, value in more.items()]
    with open(f"{folder}/run.yaml", "w") as out:
        out.write("\n".join(lines) + "\n")
    run(build + "/plan", "emit", f"{folder}/run.yaml", "-o", folder)
    return f"{folder}/run.plan.yaml"


def evaluate(path, checkpoint, ranks=1, code=0):
    done = run(build + "/runner", "evaluate", path, "--checkpoint", checkpoint, "--json",
               code=code, ranks=ranks)
    return json.loads(done.stdout) if code == 0 and done.returncode == 0 else done


def close(ours, theirs):
    return abs(ours - theirs) <= TOLERANCE * abs(theirs)


def tensors(folder):
    """{name: (dtype, shape, bytes)} of a directory."""
    found = {}
    for path in glob.glob(glob.escape(folder) + "/*.safetensors"):
        data = open(path, "rb").read()
        length, = struct.unpack("<Q", data[:8])
        for name, t in json.loads(data[8:8 + length]).items():
            if name != "__metadata__":
                begin, end = (8 + length + at for at in t["data_offsets"])
                found[name] = t["dtype"], tuple(t["shape"]), data[begin:end]
    return found


def same_tensors(name, left, right):
    left, right = tensors(left), tensors(right)
    for parts in left, right:  # what follows from the rest, and is left out
        for key in [k for k in parts if k.endswith("inv_freq")]:
            del parts[key]
        if name == "qwen2_equal_head":  # saved without its copy, exported with it
            copy = parts.pop("lm_head.weight", None)
            check(copy in (None, parts["model.embed_tokens.weight"]), name, "another head")
    check(left.keys() == right.keys(), name, "tensors", left.keys() ^ right.keys())
    for key in left.keys() & right.keys():
        check(left[key] == right[key], name, key, "is not bit-equal")


def other_files(folder):
    kept = ("tokenizer*", "special_tokens_map.json", "chat_template.*", "generation_config.json")
    return {os.path.basename(path): open(path, "rb").read()
            for pattern in kept for path in glob.glob(f"{glob.escape(folder)}/{pattern}")}


def refused(name, model):
    line = (f"{model}: error: its config.json ties the head to the embedding, but lm_head.weight "
            "differs from model.embed_tokens.weight; set tie_word_embeddings to false")
    for ranks, mesh in (1, (1, 1, 1, 1)), (4, (1, 2, 2, 1)):
        path = plan(f"{name}-{ranks}", model, mesh, init={"from": model})
        said = evaluate(path, model, ranks, code=2).stderr.splitlines()
        check([text for text in said if "error:" in text] == [line], name, said)
        said = run(build + "/runner", "train", path, code=2, ranks=ranks).stderr.splitlines()
        check([text for text in said if "error:" in text] == [line], name, said)
        check(not any(re.match(FIRST_STEP, text) for text in said), name, "a step was done")


def trained(name, model):
    """Two steps from the model, on four ranks: what is left evaluates as the run did at its end."""
    folder = f"{scratch}/{name}-trained"
    path = plan(f"{name}-trained", model, (1, 2, 2, 1), init={"from": model})
    said = run(build + "/runner", "train", path, ranks=4).stderr
    check(f"starting from the model in {model}\n" in said, name, said)
    lines = [json.loads(line) for line in open(f"{folder}/metrics.jsonl")]
    check(lines[0]["loaded"]["folder"] == model, name, lines[0])
    at_end = [line["held_out_bits_per_token"] for line in lines if "held_out_bits_per_token" in line]
    checkpoint = f"{folder}/checkpoints/latest"
    found = evaluate(path, checkpoint, ranks=4)
    check(len(at_end) == 1 and found["bits_per_token"] == at_end[0], name, at_end, found)
    check(found["step"] == 2, name, found)
    one = evaluate(plan(f"{name}-one", model, (1, 1, 1, 1)), checkpoint)
    check(close(one["loss"], found["loss"]), name, one, found)
    check(other_files(checkpoint) == other_files(model), name, "other files of the model",
          other_files(checkpoint).keys() ^ other_files(model).keys())


def copied(name, model, word):
    """Loaded, saved and exported, and exported as it is: every number is the same bits. A step this
    small changes none: where a number is small enough, its gradient is zero."""
    path = plan(f"{name}-copied", model, (1, 2, 1, 1), init={"from": model},
                optimizer=dict(learning_rate=1e-30, total_steps=1))
    run(build + "/runner", "train", path, ranks=2)
    checkpoint = f"{scratch}/{name}-copied/checkpoints/latest"
    for source, out in (checkpoint, "through"), (model, "direct"):
        out = f"{scratch}/{name}-{out}"
        run(build + "/runner", "export", "--dtype", word, source, out)
        same_tensors(name, model, out)
        check(other_files(out) == other_files(model), name, "other files of", out)
        theirs = json.load(open(f"{out}/config.json"))
        check(theirs.get("torch_dtype") == {"fp32": "float32", "bf16": "bfloat16",
                                            "fp16": "float16"}[word], name, theirs)
    if word == "fp32":
        same_tensors(name, model, checkpoint)


def main():
    rows = [line.split() for line in open(f"{fixtures}/fixtures.txt")]
    check(len(rows) > 10, "there are few fixtures")
    rows = [row for row in rows if len(sys.argv) == 4 or row[0] in sys.argv[4:]]
    check(len(rows) >= len(sys.argv[4:]), "a fixture is missing")
    # of all directories every n-th is trained, and another n-th copied (tests/support/share.h)
    share = int(os.environ.get("SW_TEST_SHARE", 1)) if len(sys.argv) == 4 else 1
    for turn, (name, dtype, verdict) in enumerate(rows):
        model = f"{fixtures}/{name}"
        if verdict == "refuse":
            refused(name, model)
            continue
        loss, = struct.unpack("<d", open(f"{model}.logits", "rb").read()[32:40])
        found = [evaluate(plan(f"{name}-{math.prod(mesh)}", model, mesh), model, math.prod(mesh))
                 for mesh in ((1, 1, 1, 1), (1, 2, 2, 1))]
        for one in found:
            check(close(one["loss"], loss), name, "has loss", one["loss"], "not", loss)
            check(one["labels"] == 64 and one["checkpoint"] == model, name, one)
        if turn % share == 0:
            trained(name, model)
        if turn % share == share - 1:
            copied(name, model, {"F32": "fp32", "BF16": "bf16", "F16": "fp16"}[dtype])
        print(f"{name}: loss {loss:.9f}, ours {found[0]['loss']:.9f} on 1 rank, "
              f"{found[1]['loss']:.9f} on 4", flush=True)
    print(f"{len(rows)} directories, {failed} mistakes")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
