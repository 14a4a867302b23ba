#!/usr/bin/env python3
"""What predictions are held to, and what they reach: a table of each bound, the figure and the command that shows it.

    tests/bench/published/bounds.py BUILD_FOLDER TABLE [--check]

TABLE: TABLE.md, with its bounds or without. --check: fails where a bound is not kept. Instructions of a search are
counted by callgrind where it is installed.
"""
import glob
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

build, table = os.path.realpath(sys.argv[1]), sys.argv[2]
here = os.path.dirname(os.path.realpath(__file__))
root = os.path.realpath(f"{here}/../../..")
plan = f"{build}/plan"
chips = {"dgx-a100-16x8": "A100", "h100-8x8": "H100", "h200-16x8": "H200", "dgx-b200-8x8": "B200", "l40s-pcie-1x8": "L40S"}
clusters = [f"configs/clusters/{name}.yaml" for name in chips]
data = "tests/bench/published/data"
rows = []


def run(*command):
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout


def bound(what, wanted, keeps, figure, command):
    rows.append((what, wanted, keeps, figure, command))


# Runs of the sections of table.sh, in its order: (accelerators, tokens of a micro-batch, error in %, length, label).
sections = [s for s in re.split(r"^## ", open(table, encoding="utf-8").read(), flags=re.M)[1:] if not s.startswith("Bounds")]


def runs(section):
    found = re.findall(r"^\| ([^|]*?) x(\d+) s(\d+) b(\d+) \|[^|]*\|[^|]*\|[^|]*\| ([+-][\d.]+) % \|", section, flags=re.M)
    return [(int(n), int(s) * int(b), float(e), int(s), label) for label, n, s, b, e in found]


foundry, others, default = (runs(sections[i]) for i in (0, 2, 3))


def mean(some):
    return statistics.mean(abs(r[2]) for r in some)


made, serves = "`table.sh build`", "`serving.sh build --check`"
own = foundry + others
bound("training, each model predicted by a profile of its software's other models, mean", "10 %", mean(own) <= 10,
      f"{mean(own):.1f} % of {len(own)} runs", made)
bound("the same of llm-foundry", "5 %", mean(foundry) <= 5, f"{mean(foundry):.1f} % of {len(foundry)}", made)
many = [r for r in foundry if r[0] >= 128]
bound("of it, on 128 accelerators and more", "5 %", mean(many) <= 5, f"{mean(many):.1f} % of {len(many)}", made)
few = [r for r in own if r[1] <= 4096]
bound("micro-batches of at most 4,096 tokens (no run has fewer)", "10 %", mean(few) <= 10, f"{mean(few):.1f} % of {len(few)}", made)


def sign(some):
    return statistics.mean(r[2] for r in some)


shorter = [r for r in default if r[3] < 65536]
bound("default profile, runs of fewer than 64k tokens, most of which it was fitted to: mean", "15.7 %", mean(shorter) <= 15.7,
      f"{mean(shorter):.1f} % of {len(shorter)}", made)
bound("the same, signed mean", "±5 %", abs(sign(shorter)) <= 5, f"{sign(shorter):+.1f} %", made)
# llm-foundry has a profile of its own; the default's attention was fitted to the others
longer = [r for r in foundry if r[3] >= 65536] + [r for r in default if r[3] >= 65536 and "0_80gb" not in r[4]]
bound("runs of 64k tokens and more by their software's profile of other models, else by the default, fitted to them: mean", "10 %",
      mean(longer) <= 10, f"{mean(longer):.1f} % of {len(longer)}", made)
bound("the same, signed mean", "±5 %", abs(sign(longer)) <= 5, f"{sign(longer):+.1f} %", made)
classes = {name: (int(n), int(inside)) for name, n, inside in
           re.findall(r"^\| ([^|]+) \| (\d+) \|[^|]*\|[^|]*\| (\d+) % \|$", sections[3].split("| class |")[1], flags=re.M)}
many_runs = {name: inside for name, (n, inside) in classes.items() if n >= 20}
bound("default profile, inside the band, each class of length and of model size with 20 runs and more", "80 %",
      min(many_runs.values()) >= 80, ", ".join(f"{k} {v} %" for k, v in many_runs.items()), made)

wide, names = 0, glob.glob(f"{root}/configs/profiles/*.yaml")
for name in names:
    for low_or_high in re.findall(r"^band_(?:low|high): ([\d.]+)", open(name, encoding="utf-8").read(), flags=re.M):
        wide = max(wide, abs(float(low_or_high) - 1))
bound("bands of the shipped profiles", "±30 %", wide <= 0.3, f"at most {100 * wide:.0f} % to a side; ±30 % where none is told",
      "`configs/profiles/*.yaml`")
covered = [int(x) for x in re.findall(r"^\| [\w-]+ \| \d+ \|.*\| (\d+) % \|$", sections[0], flags=re.M)]
bound("runs of a left out model inside the others' band, profiles of ten runs and more", "75 to 90 %",
      all(75 <= x <= 90 for x in covered), " %, ".join(map(str, covered)) + " %", made)

serving = open(f"{here}/SERVING.md", encoding="utf-8").read()
groups = {k: [float(x) for x in re.findall(r"[+-]?[\d.]+(?=%)", v)]
          for k, v in re.findall(r"^\| (tp \d|all) \| \d+ \| (.*) \|$", serving, flags=re.M)}
bound("servers, rows of a stated precision, mean", "20 %", groups["all"][0] <= 20, f"{groups['all'][0]:.1f} %", serves)
signs = {k: v[2] for k, v in groups.items() if k != "all"}
bound("servers, signed mean of each tp", "±15 %", all(abs(x) <= 15 for x in signs.values()),
      ", ".join(f"{k[3:]}: {v:+.1f} %" for k, v in signs.items()), serves)
bound("servers, inside the band", "75 to 90 %", 75 <= groups["all"][4] <= 90, f"{groups['all'][4]:.0f} %", serves)

lines = [line.split("|")[1:-1] for line in
         run(f"{build}/bench/bench_published", "--collectives", *clusters, f"{data}/published_nccl.csv").splitlines()[2:]]
worst = [max(lines, key=lambda line: float(line[k].strip(" %"))) for k in (4, 5)]
bound(f"NCCL's collectives, each of {len(lines)} of a chip and number of ranks: median, 90th percentile", "15 %, 30 %",
      all(float(line[4].strip(" %")) <= 15 and float(line[5].strip(" %")) <= 30 for line in lines),
      "; ".join(f"at most {line[k].strip()} ({chips[line[0].strip()]}, {line[1].strip()} of {line[2].strip()})"
                for k, line in zip((4, 5), worst)), "`bench_published --collectives`")

for what, file, kinds in (("matrix products", "published_gemm.csv", ("",)),
                          ("attention over a cache", "published_attention.csv", (" of prompts", " decoding"))):
    told = {}
    for cluster in clusters if kinds == ("",) else clusters[:-1]:
        of = re.findall(r"measured sizes that are none of these points: .* median ([\d.]+) %", run(plan, "fit", f"{data}/{file}", cluster))
        for kind, median in zip(kinds, of):
            told.setdefault(kind, {})[chips[os.path.basename(cluster)[:-5]]] = float(median)
    for kind, of in told.items():
        bound(f"{what}{kind}, sizes left out of the grid, median", "10 %", max(of.values()) <= 10,
              ", ".join(f"{k} {v:.1f} %" for k, v in of.items()), f"`plan fit {file}`")


def instructions(configs, more):
    """Of a search by one thread, so that they are the same each time."""
    one = {min(os.sched_getaffinity(0))}
    with tempfile.NamedTemporaryFile() as out:
        told = subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out.name}", plan, "search",
                               f"{configs}/runs/llama-8b-64.yaml", *more], cwd=root, capture_output=True, text=True, check=True,
                              preexec_fn=lambda: os.sched_setaffinity(0, one))
        return int(re.search(r"Collected : (\d+)", told.stderr).group(1))


if shutil.which("valgrind"):
    with tempfile.TemporaryDirectory() as bare:
        shutil.copytree(f"{root}/configs", f"{bare}/configs")
        chip = f"{bare}/configs/accelerators/h100-sxm-80gb.yaml"
        text = open(chip, encoding="utf-8").read()
        text = re.sub(r"^(products|attention)(_error|_signed_error)?:.*\n((?!\w).*\n)*", "", text, flags=re.M)
        open(chip, "w", encoding="utf-8").write(text)
        told = []
        for more in ([], ["--for", "serve", "--set", "serve.max_batch=8"]):
            without = instructions(f"{bare}/configs", more)
            told.append(instructions("configs", more) / without)
    bound("instructions of a search with the chip's kernels, of those without", "1.2", max(told) <= 1.2,
          f"{told[0]:.2f} for training, {told[1]:.2f} for serving (llama-8b-64)", "`valgrind --tool=callgrind plan search`")

print("| what | bound | reached | command |\n| --- | ---: | --- | --- |")
for what, wanted, keeps, figure, command in rows:
    print(f"| {what} | {wanted} | {'' if keeps else '**not kept**: '}{figure} | {command} |")
if "--check" in sys.argv[3:] and not all(row[2] for row in rows):
    sys.exit("bounds.py: not kept: " + "; ".join(row[0] for row in rows if not row[2]))
