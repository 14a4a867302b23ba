#!/usr/bin/env bash
# Writes tests/bench/published/SERVING.md: published rows of servers beside what `plan explain --for
# serve` says of them, with the default profile.
#   tests/bench/published/serving.sh BUILD_FOLDER [--check]
#
# --check: writes nothing, and fails where the mean error is above 20 %, the signed mean of a tp above
# 15 %, or the default's band holds less than 75 or more than 90 % of the rows.
#
# A row's time per output token is one of a full server: between two tokens of its `sequences`, each
# of which has its prompt and half of its new tokens in the cache in the mean, prompts of those that
# took the place of finished ones are read, sequences / new_tokens of them:
#   tpot = token + sequences / new_tokens x first.
# fp8 is priced as int8, of TensorRT-LLM the cache too. Rows whose sequences do not fit, so that fewer
# ran, are not priced.
set -euo pipefail
build=$(realpath "${1:?the build folder}")
check=${2:-}
here=$(realpath "$(dirname "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 - "$build/plan" "$here" "$work" "$check" <<'END'
import csv, json, os, re, statistics, subprocess, sys
from concurrent.futures import ThreadPoolExecutor

plan, here, work, check = sys.argv[1:5]
configs = os.path.realpath(os.path.join(here, "../../../configs"))
rows = list(csv.DictReader(open(f"{here}/data/published_serving.csv")))

def cluster_of(row):
    """One node of that cluster, of as many accelerators as the row has."""
    text = open(f"{configs}/clusters/{row['cluster']}.yaml").read()
    text = re.sub(r"^slurm:.*(\n .*)*", "", text, flags=re.M).replace("../", configs + "/")
    text = re.sub(r"^nodes:.*", "nodes: 1", text, flags=re.M)
    text = re.sub(r"^accelerators_per_node:.*", f"accelerators_per_node: {row['tp']}", text, flags=re.M)
    if row["tp"] == "1":
        text = re.sub(r"^links:\n( .*\n|#.*\n)*", "", text, flags=re.M)
    return text

def price(i):
    row = rows[i]
    prompt, new, sequences = (int(row[k]) for k in ("prompt_tokens", "new_tokens", "sequences"))
    cache = "int8" if row["software"] == "tensorrt-llm" else "auto"
    open(f"{work}/{i}.cluster.yaml", "w").write(cluster_of(row))
    open(f"{work}/{i}.yaml", "w").write(f"""name: row
model: {configs}/models/{row['model']}.yaml
cluster: {i}.cluster.yaml
sequence_length: 2048
global_batch_size: 8
mesh_dim: 1,1,{row['tp']},1
precision: {{compute: bf16}}
data: {{path: none}}
serve: {{max_batch: {sequences}, max_tokens: {prompt + new // 2}, prompt_tokens: {prompt}, chunk: {min(prompt, 2048)},
        weights: int8, cache: {cache}}}
""")
    ran = subprocess.run([plan, "explain", f"{work}/{i}.yaml", "--for", "serve", "--json"], capture_output=True, text=True)
    try:
        mesh = json.loads(ran.stdout)["mesh"]
    except ValueError:
        sys.exit(f"row {i}: {ran.stderr}")
    if mesh["verdict"] != "fits":
        return None
    scale = 1 + sequences / new * mesh["first_token_seconds"] / mesh["token_seconds"]
    return [scale * mesh[k] * 1e3 for k in ("token_seconds", "band_low_seconds", "band_high_seconds")]

with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
    prices = list(pool.map(price, range(len(rows))))
told = [(r, p, float(r["tpot_ms"])) for r, p in zip(rows, prices) if p is not None]

def summary(name, some):
    errors = [p[0] / m - 1 for _, p, m in some]
    inside = sum(p[1] <= m <= p[2] for _, p, m in some) / len(some)
    sizes = sorted(map(abs, errors))
    return (f"| {name} | {len(some)} | {statistics.mean(sizes):.1%} | {sizes[(len(sizes) - 1) * 9 // 10]:.1%} | "
            f"{statistics.mean(errors):+.1%} | {statistics.median(errors):+.1%} | {inside:.0%} |"), errors, inside

head = "| rows of | rows | mean error | 90th percentile | signed mean | signed median | inside the band |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
out = ["# Published times of servers and their prediction", "",
       "Written by `tests/bench/published/serving.sh BUILD`. How to read it: README.md. Times are milliseconds for a token;",
       "errors are of times: above 0 when predicted slower than what was measured.", "", head]
wrong = []
for key in ("tp", "software", "cluster", "model"):
    for value in sorted({r[key] for r, _, _ in told}):
        line, errors, _ = summary(f"{key} {value}", [t for t in told if t[0][key] == value])
        out.append(line)
        if key == "tp" and abs(statistics.mean(errors)) > 0.15:
            wrong.append(f"tp {value}: signed mean {statistics.mean(errors):+.1%}")
line, errors, inside = summary("all", told)
out += [line, "", f"{len(rows) - len(told)} rows whose sequences do not fit are not priced.", ""]
if statistics.mean(map(abs, errors)) > 0.20:
    wrong.append(f"mean error {statistics.mean(map(abs, errors)):.1%}")
if not 0.75 <= inside <= 0.90:
    wrong.append(f"inside the band {inside:.1%}")
out += ["| software | model | cluster | tp | prompt | new | sequences | measured | predicted | error |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
out += [f"| {r['software']} {r['version']} | {r['model']} | {r['cluster']} | {r['tp']} | {r['prompt_tokens']} | {r['new_tokens']} | "
        f"{r['sequences']} | {m:.1f} | {p[0]:.1f} | {p[0] / m - 1:+.0%} |" for r, p, m in told]
if check:
    print("\n".join(out[5:out.index("", 6)]))
    sys.exit("serving.sh: " + "; ".join(wrong) if wrong else 0)
open(f"{here}/SERVING.md", "w").write("\n".join(out) + "\n")
END
