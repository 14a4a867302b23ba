#!/usr/bin/env python3
"""Adapters as a user has them: folders that PEFT wrote (make_adapter_folders.py) are evaluated on
one rank and on four, gone on with, saved, resumed, merged, and the merged model evaluated.

  test_adapter_folders.py BUILD CHECKPOINTS ADAPTERS SCRATCH [NUMBER...]      from the root of the tree

Losses are in fp32 on both sides and equal PEFT's to 1e-5, the bound of test_init_from.py. NUMBER:
of a folder; default: all. Only the Python standard library is needed.
"""
import glob
import json
import math
import os
import random
import shutil
import struct
import subprocess
import sys

sys.dont_write_bytecode = True  # the tree stays as it is
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from scratch import scratch_in  # noqa: E402

build, models, adapters = (os.path.realpath(path) for path in sys.argv[1:4])
scratch = scratch_in(sys.argv[4])
TOLERANCE = 1e-5
ENVIRONMENT = dict(os.environ, OMPI_MCA_mpi_yield_when_idle="1", OMPI_MCA_rmaps_base_oversubscribe="1",
                   OMPI_MCA_hwloc_base_binding_policy="none", OMP_NUM_THREADS="1",
                   OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
MODULES = {"q_proj": "self_attn", "k_proj": "self_attn", "v_proj": "self_attn", "o_proj": "self_attn",
           "gate_proj": "mlp", "up_proj": "mlp", "down_proj": "mlp"}
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


def runner(*arguments, code=0, ranks=1):
    return run(build + "/runner", *arguments, code=code, ranks=ranks)


def plan(name, base, mesh, steps=2, code=0, **more):
    """The path of a plan of a run in SCRATCH/NAME."""
    ranks = math.prod(mesh)
    folder = f"{scratch}/{name}"
    os.makedirs(folder, exist_ok=True)
    settings = dict(learning_rate=1e-2, total_steps=steps, warmup_steps=0, schedule="constant")
    lines = ["name: run", f"model: {models}/{base}/config.json",
             f"cluster: {{name: here, nodes: 1, accelerators_per_node: {ranks}, launcher: mpirun,"
             f" accelerator: {os.path.realpath('configs/accelerators/cpu-core.yaml')},"
             f" links: [{{name: l, spans: {ranks}, bandwidth: 1 GB/s, latency: 1 us}}]}}",
             "sequence_length: 32", "global_batch_size: 2",
             f"mesh_dim: '{','.join(map(str, mesh))}'",
             "precision: {compute: fp32, params: fp32, reduce: fp32}",
             f"optimizer: {json.dumps(settings)}",
             f"data: {{path: {models}/tokens.bin, holdout: 0.5}}", f"directory: {folder}"]
    lines += [f"{key}: {json.dumps(value)}" for key, value in more.items()]
    with open(f"{folder}/run.yaml", "w") as out:
        out.write("\n".join(lines) + "\n")
    run(build + "/plan", "emit", f"{folder}/run.yaml", "-o", folder, code=code)
    return f"{folder}/run.plan.yaml"


def evaluate(path, checkpoint, ranks=1):
    done = runner("evaluate", path, "--checkpoint", checkpoint, "--json", ranks=ranks)
    return json.loads(done.stdout)["loss"] if done.returncode == 0 else math.nan


def close(ours, theirs):
    return abs(ours - theirs) <= TOLERANCE * abs(theirs)


def tensors(folder):
    """{name: (dtype, shape, numbers)} of a directory."""
    found = {}
    for path in glob.glob(glob.escape(folder) + "/*.safetensors"):
        data = open(path, "rb").read()
        length, = struct.unpack("<Q", data[:8])
        for name, t in json.loads(data[8:8 + length]).items():
            if name != "__metadata__":
                begin, end = (8 + length + at for at in t["data_offsets"])
                found[name] = t["dtype"], t["shape"], numbers(t["dtype"], data[begin:end])
    return found


def numbers(dtype, data):
    if dtype == "BF16":
        return [struct.unpack("<f", b"\0\0" + data[i:i + 2])[0] for i in range(0, len(data), 2)]
    return list(struct.unpack(f"<{len(data) // {'F32': 4, 'F16': 2}[dtype]}{ {'F32': 'f', 'F16': 'e'}[dtype]}",
                              data))


def rounded(value, dtype):
    """Once, to nearest, ties to even, of a number that has no more than 53 bits."""
    if dtype == "F32":
        return struct.unpack("<f", struct.pack("<f", value))[0]
    if value == 0:
        return value
    step = 2.0 ** (math.frexp(value)[1] - 8)
    return round(value / step) * step


def scale(lora, target):
    rank = lora.get("rank_pattern", {}).get(target, lora["rank"])
    alpha = lora.get("alpha_pattern", {}).get(target, lora["alpha"])
    return alpha / (math.sqrt(rank) if lora["rslora"] else rank)


def merged(name, adapter, base, lora, out, dtype):
    """Every weight of OUT is W + scale B A, added in fp64, to the rounding of its format."""
    of, were, are = tensors(adapter), tensors(base), tensors(out)
    check(were.keys() == are.keys(), name, "tensors of the merged model")
    worst = 0.0
    for key, (kind, shape, found) in are.items():
        check(kind == dtype and shape == were[key][1], name, key, kind, shape)
        target = key.split(".")[-2]
        prefix = "base_model.model." + key[:-len(".weight")]
        if target not in lora["targets"] or not key.endswith(".weight"):
            check(found == [rounded(x, dtype) for x in were[key][2]], name, key, "is not its model's")
            continue
        a, b = of[prefix + ".lora_A.weight"], of[prefix + ".lora_B.weight"]
        rank, width = a[1]
        by = scale(lora, target)
        for i, x in enumerate(were[key][2]):
            row, column = divmod(i, width)
            exact = x + by * math.fsum(b[2][row * rank + k] * a[2][k * width + column]
                                       for k in range(rank))
            # half a place of the format, and what adding in fp64 leaves
            place = abs(exact) * 2.0 ** (-24 if dtype == "F32" else -8) + 1e-15
            worst = max(worst, abs(found[i] - exact) / place)
    check(worst <= 1.0 + 1e-6, name, "a merged weight is", worst, "half places off")


def parts(checkpoint):
    return {os.path.relpath(os.path.join(folder, name), checkpoint)
            for folder, _, names in os.walk(checkpoint) for name in names}


def same(name, left, right):
    for file in "adapter_model.safetensors", *(f"optimizer/{m}-00001-of-00001.safetensors"
                                               for m in ("exp_avg", "exp_avg_sq")):
        check(open(f"{left}/{file}", "rb").read() == open(f"{right}/{file}", "rb").read(), name,
              file, "is not equal to the bit")


def trained(name, case, adapter):
    """From PEFT's folder, on four ranks; killed and resumed; on another mesh."""
    base, lora = f"{models}/{case['base']}", case["lora"]
    more = dict(lora=lora, init={"from": base, "adapter": adapter}, checkpoint={"every_steps": 2})
    path = plan(f"{name}-trained", case["base"], (1, 2, 2, 1), steps=4, **more)
    said = runner("train", path, ranks=4).stderr
    check(f"starting from the adapters in {adapter}\n" in said, name, said)
    half, last = (f"{scratch}/{name}-trained/checkpoints/step-00000{n}" for n in (2, 4))
    whole = parts(last)
    check({file for file in whole if "token" not in file and "generation" not in file and
           "special" not in file and "template" not in file} ==
          {"adapter_config.json", "adapter_model.safetensors", "manifest.json",
           "optimizer/exp_avg-00001-of-00001.safetensors",
           "optimizer/exp_avg_sq-00001-of-00001.safetensors"}, name, whole)
    files = [f for f in whole if f.endswith(".safetensors")]
    elements = sum(len(t[2]) for t in tensors(adapter).values())
    for file in files:  # the size is the adapter's: a header, and its numbers
        bytes = os.path.getsize(f"{last}/{file}")
        check(elements * 4 <= bytes <= elements * 4 + 16384, name, file, bytes)
    written = json.load(open(f"{last}/adapter_config.json"))
    check(written["base_model_name_or_path"] == base, name, written)
    loss = evaluate(path, last, ranks=4)
    for mesh in (1, 2, 2, 1), (1, 1, 1, 1):
        again = f"{name}-again-{math.prod(mesh)}"
        other = plan(again, case["base"], mesh, steps=4, **more)
        os.makedirs(f"{scratch}/{again}/checkpoints")
        shutil.copytree(half, f"{scratch}/{again}/checkpoints/step-000002")
        said = runner("train", other, ranks=math.prod(mesh)).stderr
        check("resuming from" in said and f"they stand on the model in {base}\n" in said, name, said)
        found = f"{scratch}/{again}/checkpoints/step-000004"
        if math.prod(mesh) == 4:
            same(name, last, found)
        check(close(evaluate(other, found, math.prod(mesh)), loss), name, "resumed on", mesh)
    return last, path, loss


def texts(name, case, checkpoint, model):
    """Log-probabilities of a text and the tokens behind it: with adapters on four ranks, and of the
    merged model on one."""
    rows = [{"tokens": [random.randrange(60) for _ in range(9)]} for _ in range(2)]
    with open(f"{scratch}/{name}.jsonl", "w") as out:
        out.write("".join(json.dumps(row) + "\n" for row in rows))
    found = []
    for number, (mesh, weights, lora) in enumerate((((1, 1, 2, 2), checkpoint, True),
                                                    ((1, 1, 1, 1), checkpoint, True),
                                                    ((1, 1, 1, 1), model, False))):
        more = dict(lora=case["lora"], init={"from": f"{models}/{case['base']}"}) if lora else {}
        path = plan(f"{name}-serve-{number}", case["base"], mesh, **more)
        ranks = math.prod(mesh)
        scored = runner("score", path, "--checkpoint", weights, "--texts", f"{scratch}/{name}.jsonl",
                        "--logprobs", ranks=ranks).stdout.splitlines()
        made = runner("generate", path, "--checkpoint", weights, "--prompts",
                      f"{scratch}/{name}.jsonl", "--max-new-tokens", "6", ranks=ranks)
        found.append(([json.loads(line) for line in scored],
                      [json.loads(line)["tokens"] for line in made.stdout.splitlines()]))
    for scored, made in found:
        check(len(made) == 2 and made == found[0][1], name, "tokens", made, found[0][1])
        for row, first in zip(scored, found[0][0]):
            check(len(row["logprobs"]) >= 8 and
                  all(abs(x - y) <= 2e-5 * max(1, abs(y))
                      for x, y in zip(row["logprobs"], first["logprobs"]) if x is not None), name,
                  row, first)


def eight_bits(name, case, adapter):
    """A base held in int8 is the model whose matrices of layers are rounded so, one scale a row."""
    base, held = f"{models}/{case['base']}", f"{scratch}/{name}-rounded"
    shutil.copytree(base, held)
    path = f"{held}/model.safetensors"
    data = bytearray(open(path, "rb").read())
    length, = struct.unpack("<Q", data[:8])
    for key, t in json.loads(data[8:8 + length]).items():
        if not key.startswith("model.layers.") or len(t["shape"]) != 2:
            continue
        width = t["shape"][1]
        for at in range(8 + length + t["data_offsets"][0], 8 + length + t["data_offsets"][1], 4 * width):
            row = struct.unpack_from(f"<{width}f", data, at)
            by = rounded(max(map(abs, row)) / 127, "F32")
            struct.pack_into(f"<{width}f", data, at,
                             *(max(-127, min(127, round(x / by))) * by for x in row))
    open(path, "wb").write(data)
    found = []
    for mesh, word, model in ((1, 1, 1, 1), "fp32", held), ((1, 1, 1, 1), "int8", base), ((1, 2, 2, 1), "int8", base):
        plan_path = plan(f"{name}-{word}-{math.prod(mesh)}", case["base"], mesh,
                         lora=dict(case["lora"], base=word), init={"from": model})
        found.append(evaluate(plan_path, adapter, math.prod(mesh)))
    check(close(found[1], found[0]) and close(found[2], found[0]), name, "a base in int8 has losses", found)
    check(not close(found[0], case["loss"]), name, "rounding changes nothing", found)


def refusals(case, adapter, checkpoint):
    """One line each, and nothing left behind."""
    base = f"{models}/{case['base']}"
    more = dict(lora=case["lora"], init={"from": base})

    def refused(text, *arguments):
        done = runner(*arguments, code=2)
        lines = [line for line in done.stderr.splitlines() if "error:" in line]
        check(len(lines) == 1 and text in lines[0], text, "is not in", done.stderr)
        check(not os.path.exists(f"{scratch}/out"), "something is left behind")

    path = plan("refusals", case["base"], (1, 1, 1, 1), **more)
    plain = plan("plain", case["base"], (1, 1, 1, 1))
    refused("holds adapters, and the plan has none", "evaluate", plain, "--checkpoint", adapter)
    refused("holds a model, and the plan's 'lora' has adapters", "evaluate", path, "--checkpoint", base)
    other = plan("other", case["base"], (1, 1, 1, 1), lora=dict(case["lora"], alpha=77, alpha_pattern={}),
                 init={"from": base})
    refused("holds other adapters than the plan: it multiplies", "evaluate", other, "--checkpoint", adapter)
    refused("which is not a folder here", "export", adapter, f"{scratch}/out")
    refused("--base and --unmerged are of adapters", "export", "--unmerged", base, f"{scratch}/out")

    def damaged(text, change, *more):
        shutil.rmtree(f"{scratch}/damaged", ignore_errors=True)
        shutil.copytree(adapter, f"{scratch}/damaged")
        change(f"{scratch}/damaged")
        refused(text, "evaluate", path, "--checkpoint", f"{scratch}/damaged")
        refused(text, "export", "--base", base, f"{scratch}/damaged", f"{scratch}/out")

    def keys(**values):
        def change(folder):
            text = json.load(open(f"{folder}/adapter_config.json"))
            text.update(values)
            json.dump(text, open(f"{folder}/adapter_config.json", "w"))
        return change

    damaged("'use_dora', which is not supported", keys(use_dora=True))
    damaged("'bias' is 'all'", keys(bias="all"))
    damaged("only adapter_model.bin", lambda folder: os.rename(f"{folder}/adapter_model.safetensors",
                                                              f"{folder}/adapter_model.bin"))
    damaged("has no adapter_model.safetensors", lambda folder: os.remove(f"{folder}/adapter_model.safetensors"))

    def header(change):
        """The file anew, with what change(tensors) makes of {name: (dtype, shape, bytes)}."""
        def write(folder):
            data = open(f"{folder}/adapter_model.safetensors", "rb").read()
            length, = struct.unpack("<Q", data[:8])
            of = {name: (t["dtype"], t["shape"], data[8 + length + t["data_offsets"][0]:8 + length + t["data_offsets"][1]])
                  for name, t in json.loads(data[8:8 + length]).items() if name != "__metadata__"}
            change(of)
            said, at = {}, 0
            for name, (dtype, shape, raw) in of.items():
                said[name] = dict(dtype=dtype, shape=shape, data_offsets=[at, at + len(raw)])
                at += len(raw)
            text = json.dumps(said).encode()
            open(f"{folder}/adapter_model.safetensors", "wb").write(
                struct.pack("<Q", len(text)) + text + b"".join(raw for _, _, raw in of.values()))
        return write

    first = sorted(tensors(adapter))[0]
    damaged(first.split("lora_A")[0], header(lambda of: of.pop(first)))
    damaged("lora_magnitude", header(lambda of: of.update(
        {first.replace("lora_A.weight", "lora_magnitude_vector.weight"): of[first]})))
    damaged(first, header(lambda of: of.update({first: (of[first][0], of[first][1][::-1], of[first][2])})))
    damaged(first, header(lambda of: of.update({first: ("I8", [1, len(of[first][2])], of[first][2])})))
    damaged("layers.7", header(lambda of: of.update({first.replace("layers.0", "layers.7"): of[first],
                                                     first.replace("layers.0", "layers.7").replace("_A", "_B"): of[first]})))

    # another model under the path, and the same one elsewhere
    moved = f"{scratch}/moved"
    shutil.copytree(base, moved)
    path = plan("moved-run", case["base"], (1, 1, 1, 1), lora=case["lora"], init={"from": moved})
    evaluate(path, checkpoint)
    weights = f"{moved}/model.safetensors"
    data = bytearray(open(weights, "rb").read())
    for at in range(8 + struct.unpack("<Q", data[:8])[0], len(data), 4):
        data[at] ^= 1
    open(weights, "wb").write(data)
    refused("has other weights", "evaluate", path, "--checkpoint", checkpoint)
    refused("has other weights", "export", "--base", moved, checkpoint, f"{scratch}/out")


def main():
    random.seed(1)
    numbers = sorted((n for n in os.listdir(adapters) if n.isdigit()), key=int)
    check(len(numbers) >= 7, "there are few adapters")
    numbers = [n for n in numbers if len(sys.argv) == 5 or n in sys.argv[5:]]
    check(len(numbers) >= len(sys.argv[5:]), "a folder is missing")
    for number in numbers:
        adapter = f"{adapters}/{number}"
        case = json.load(open(f"{adapter}/case.json"))
        base, lora = f"{models}/{case['base']}", case["lora"]
        losses = [evaluate(plan(f"{number}-{math.prod(mesh)}", case["base"], mesh, lora=lora,
                                init={"from": base}), adapter, math.prod(mesh))
                  for mesh in ((1, 1, 1, 1), (1, 2, 2, 1))]
        check(all(close(loss, case["loss"]) for loss in losses), number, case, losses)
        checkpoint, path, loss = trained(number, case, adapter)
        # others have numbers in rows of no token that bf16 has not
        words = [("F32", "fp32")] + [("BF16", "bf16")] * (case["base"] in ("qwen2", "llama_bf16"))
        for dtype, word in words:
            out = f"{scratch}/{number}-{word}"
            runner("export", "--dtype", word, checkpoint, out)
            merged(number, checkpoint, base, lora, out, dtype)
        plain = plan(f"{number}-plain", case["base"], (1, 1, 1, 1))
        found = evaluate(plain, f"{scratch}/{number}-fp32")
        check(close(found, loss), number, "merged has loss", found, "not", loss)
        runner("export", "--unmerged", adapter, f"{scratch}/{number}-unmerged")
        check(tensors(f"{scratch}/{number}-unmerged") == tensors(adapter), number, "unmerged")
        texts(number, case, checkpoint, f"{scratch}/{number}-fp32")
        if case["base"] == "qwen2":
            eight_bits(number, case, adapter)
        if number == numbers[0]:
            refusals(case, adapter, checkpoint)
        print(f"{number}: loss {case['loss']:.9f}, ours {losses[0]:.9f} on 1 rank, {losses[1]:.9f} "
              "on 4", flush=True)
    print(f"{len(numbers)} folders, {failed} mistakes")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
