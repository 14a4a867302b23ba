#!/usr/bin/env python3
"""`plan search --nodes`, `--budget`, `--deadline` and `prefer: cost` as people use them.

    test_frontier_cli.py PLAN SCRATCH      from the root of the tree
"""
import html.parser
import json
import os
import re
import subprocess
import sys
import time

sys.dont_write_bytecode = True  # the tree stays as it is
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from scratch import scratch_in  # noqa: E402

PLAN, SCRATCH = os.path.realpath(sys.argv[1]), scratch_in(sys.argv[2])
RUN = "configs/runs/llama-8b-64.yaml"
wrong = 0


def complain(text):
    global wrong
    wrong += 1
    print("FAIL:", text)


def plan(*arguments, code=0, stdin=None):
    done = subprocess.run([PLAN, *arguments], input=stdin, capture_output=True, text=True)
    if done.returncode != code:
        complain(f"plan {' '.join(arguments)}: exit {done.returncode}, not {code}: {done.stderr}")
    return done


def search(*arguments, code=0, run=RUN, stdin=None):
    return plan("search", run, *arguments, code=code, stdin=stdin)


def read(*arguments, **more):
    return json.loads(search("--json", "--top", "1", *arguments, **more).stdout or "{}")


# Mistakes: one line each, exit code 2, nothing on stdout.
MISTAKES = [("--nodes", nodes, what) for nodes, what in
            [("0", "has 0 nodes"), ("0..4", "has 0 nodes"), ("64..4", "ends before it begins"), ("abc", "no list of numbers"),
             ("4..", "without an end"), ("4..8:0", "a step that is not 1 or more"), ("4,,8", "no list of numbers"), ("4 8", "no list"),
             ("4..8,", "no list of numbers"), ("-4", "no list of numbers"), ("1.5", "no list of numbers"), ("1..600", "more than 512"),
             ("99999999999999999999", "more than 1,048,576"), ("1..9:99999999999999999999,x", "no list"), ("1048577", "more than 1,048,576")]]
MISTAKES += [("--budget", "2000", "has no unit"), ("--budget", "36 h", "use --deadline '36 h'"), ("--budget", "5 EUR", "is in EUR"),
             ("--budget", "0 USD", "is nothing"), ("--deadline", "36", "is no time"), ("--deadline", "2026-02-30", "no date that exists"),
             ("--deadline", "2001-01-01", "has passed, now is 20"), ("--budget", "500 USD", "set price_per_accelerator_hour in the cluster"),
             ("--html", os.path.join(SCRATCH, "none.html"), "give some with --nodes")]
for option, value, what in MISTAKES:
    done = search(f"{option}={value}", code=2)
    lines = done.stderr.splitlines()
    if done.stdout or len(lines) != 1 or what not in lines[0] or ";" not in lines[0]:
        complain(f"{option} {value!r}: {done.stderr!r}, not '{what}'")
for arguments, what in [(("--nodes", "2..4", "--for", "serve", "--set", "serve.max_batch=8"), "about a training"),
                        (("--budget", "9 GPU-hours", "--set", "optimizer.total_steps=null", "--set", "optimizer.warmup_steps=9"), "set optimizer.total_steps"),
                        (("--nodes", "2..4", "--set", "cluster=configs/clusters/l40s-pcie-1x8.yaml"), "joins nodes"),
                        (("--budget", "1 MWh") * 5, "more than 4 times --budget")]:
    done = search(*arguments, code=2)
    if what not in done.stderr or done.stdout:
        complain(f"{arguments}: {done.stderr!r}, not '{what}'")
if os.path.exists(os.path.join(SCRATCH, "none.html")):
    complain("a page is written beside a mistake")

# The members: every row is its search alone, from a file or standard input, and the rest is about the one that is chosen.
told = read("--nodes", "3,6..16:5,8", "--prefer", "cost")
f = told["frontier"]
if [row["nodes"] for row in f["counts"]] != [3, 6, 8, 11, 16]:
    complain(f"counts {[row['nodes'] for row in f['counts']]}")
for row in f["counts"]:
    more = ["--set", f"cluster.nodes={row['nodes']}"]
    alone = read("--prefer", "cost", *more, run="-", stdin=open(RUN).read().replace("../", "configs/")) if row["nodes"] == 6 else \
        read("--prefer", "cost", *more)
    same = {"mesh_dim": alone["chosen"]["mesh_dim"], "step_seconds": alone["chosen"]["step_seconds"], "run_cost": alone["run_cost"]}
    if any(row[key] != value for key, value in same.items()):
        complain(f"{row['nodes']} nodes: {row}, alone {same}")


def better(a, b):
    pair = [(x["run_cost"]["wall_seconds"]["value"], x["run_cost"]["accelerator_hours"]["value"]) for x in (a, b)]
    return pair[0] != pair[1] and pair[0][0] <= pair[1][0] and pair[0][1] <= pair[1][1]


for row in f["counts"]:
    if row["undominated"] != (not any(better(other, row) for other in f["counts"])):
        complain(f"{row['nodes']} nodes: undominated {row['undominated']}")
cheapest = min(f["counts"], key=lambda row: row["run_cost"]["accelerator_hours"]["value"])
first = min(f["counts"], key=lambda row: row["run_cost"]["wall_seconds"]["value"])
if (f["chosen"], f["fewest_hours"], f["first_end"], f["own"]) != (cheapest["nodes"], cheapest["nodes"], first["nodes"], 8):
    complain(f"chosen {f['chosen']}, fewest {f['fewest_hours']}, first {f['first_end']}, own {f['own']}")
if told["accelerators"] != 8 * f["chosen"] or told["chosen"]["mesh_dim"] != cheapest["mesh_dim"]:
    complain(f"the rest is about {told['accelerators']} accelerators")

# People: undominated rows, the best by each named, the run's own marked, the others counted, or listed with --rejected.
text = search("--nodes", "3,6..16:5,8").stdout
rows = re.findall(r"^(.) +(\d+)  [\d,]+ .*$", text, re.M)
listed = [int(number) for _, number in rows]
wanted = [row["nodes"] for row in f["counts"] if row["undominated"] or row["nodes"] == 8]
if listed != wanted or "fewest accelerator-hours" not in text or "ends first" not in text or "the run's own" not in text:
    complain(f"rows {listed}, not {wanted}: {text}")
text = search("--nodes", "3,6..16:5,8", "--rejected").stdout
if [int(n) for _, n in re.findall(r"^(.) +(\d+)  [\d,]+ .*$", text, re.M)] != [3, 6, 8, 11, 16]:
    complain(f"--rejected lacks rows: {text}")

# Limits: with numbers of nodes to choose among, and of a run as it is.
hours = {row["nodes"]: row["run_cost"]["accelerator_hours"]["value"] for row in f["counts"]}
ends = {row["nodes"]: row["run_cost"]["wall_seconds"]["value"] for row in f["counts"]}
middle = (min(ends.values()) + max(ends.values())) / 2
kept = [n for n in ends if ends[n] <= middle]
chosen = read("--nodes", "3,6..16:5,8", "--deadline", f"{middle:.0f} s", "--prefer", "time")["frontier"]
if chosen["chosen"] != min(kept, key=lambda n: hours[n]):
    complain(f"a deadline takes {chosen['chosen']}")
for row in chosen["counts"]:
    if row["keeps_limits"] != (row["nodes"] in kept) or abs(row["over"][0] - (ends[row["nodes"]] - round(middle))) > 60:
        complain(f"{row['nodes']} nodes are {row['over']} over {middle}, {row['keeps_limits']}")
done = search("--nodes", "3,6", "--deadline", "1 h", code=1)
if "on no number of nodes; the closest is 6, which misses --deadline '1 h' by" not in done.stderr:
    complain(f"none keeps 1 h: {done.stderr}")
none = read("--nodes", "3,6", "--deadline", "1 h", code=1)["frontier"]
if none["chosen"] is not None or none["closest"] != 6:
    complain(f"none keeps 1 h: chosen {none['chosen']}, closest {none['closest']}")
done = search("--budget", "100 node-hours", "--top", "1", code=1)
if "limit     --budget '100 node-hours': the run takes" not in done.stdout or "misses --budget" not in done.stderr:
    complain(f"a budget of the run itself: {done.stdout[-300:]} {done.stderr}")
search("--budget", "9,999,999 GPU-hours", "--budget", "900 GWh", "--top", "1")
date = time.strftime("%Y-%m-%dT%H:%M", time.localtime(time.time() + 400 * 86400))
done = search("--deadline", date, "--top", "1")
if f"deadline  {date.replace('T', ' ')} " not in done.stdout or " days from now, 20" not in done.stdout:
    complain(f"a date: {done.stdout[-300:]}")
none = read("--nodes", "6..8", "--set", "cluster.price_per_accelerator_hour=2.5", "--budget", "$1", code=1)["frontier"]
if none["closest"] != none["fewest_hours"] or none["limits"][0]["of"] != "money":
    complain(f"of what costs too much {none['closest']} is closest, {none['fewest_hours']} the cheapest: {none['limits']}")
for row in none["counts"]:
    cost = row["run_cost"]
    if abs(cost["money"]["value"] - 2.5 * cost["accelerator_hours"]["value"]) > 1e-6 * cost["money"]["value"] or \
            abs(row["over"][0] - (cost["money"]["value"] - 1)) > 1e-6 * cost["money"]["value"]:
        complain(f"{row['nodes']} nodes: {cost['money']}, {row['over']} over")


# A run that never ends keeps nothing and is on no frontier.
NEVER = ("--set", "cluster.reliability.failures_per_1000_node_days=1000000", "--set", "checkpoint.every_steps=1000")
none = read("--nodes", "4,8", *NEVER, code=1)["frontier"]
if none["chosen"] is not None or none["fewest_hours"] is not None or any(row["undominated"] for row in none["counts"]):
    complain(f"a run that never ends: {none['chosen']}, {none['fewest_hours']}")
for arguments in (("--nodes", "4,8"), ("--nodes", "4,8", "--deadline", "1 h"), ("--budget", "9 GWh", "--top", "1")):
    done = search(*arguments, *NEVER, code=1)
    if "never ends" not in done.stderr or re.search(r"\b(nan|inf)\b|000,000 min", (done.stdout if "--nodes" in arguments else "") + done.stderr):
        complain(f"a run that never ends: {arguments}: {done.stderr}")


# The page: well-formed, nothing loaded, a point for every row.
class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.points, self.rows, self.texts = [], 0, 0, []

    def handle_starttag(self, tag, attributes):
        if tag not in ("meta", "path", "rect"):
            self.open.append(tag)
        attributes = dict(attributes)
        self.points += tag == "circle" and attributes["class"] in ("fit", "other")
        self.rows += tag == "tr"
        if tag in ("script", "link", "img") or "href" in attributes or "src" in attributes:
            complain(f"the page loads something: {tag} {attributes}")

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            complain(f"the page closes {tag}, which is not open")

    def handle_data(self, data):
        self.texts.append(data)


path = os.path.join(SCRATCH, "nodes.html")
search("--nodes", "3,6..16:5,8", "--html", path, "--deadline", f"{middle:.0f} s")
page = Page()
page.feed(open(path).read())
if page.open or page.points != 5 or page.rows != 6 or "llama-8b-64" not in page.texts:
    complain(f"the page: {page.open} open, {page.points} points, {page.rows} rows")
if search("--nodes", "3,6", "--html", os.path.join(SCRATCH, "no", "where.html"), code=2).stdout:
    complain("a page that cannot be written is no failure")

# prefer: cost of an elastic run: the cheapest number, for every command; of one number a note, and the fastest mesh.
elastic = ("--set", "nodes=2-4", "--set", "prefer=cost")
told = read(*elastic)
best = told["frontier"]["chosen"]
costs = {n: read("--set", f"nodes={n}", "--prefer", "time")["run_cost"]["accelerator_hours"]["value"] for n in (2, 3, 4)}
if best != min(costs, key=costs.get):
    complain(f"prefer: cost takes {best} of {costs}")
explained = json.loads(plan("explain", RUN, "--json", *elastic).stdout)
emitted = json.loads(plan("emit", RUN, "-o", SCRATCH, "--json", *elastic, "--set", f"directory={SCRATCH}/run").stdout)
if [entry["nodes"] for entry in emitted["plans"]] != [best] or emitted["plans"][0]["mesh_dim"] != told["chosen"]["mesh_dim"]:
    complain(f"emit writes {emitted['plans']}, not one for {best} nodes")
if explained["mesh"]["mesh_dim"] != told["chosen"]["mesh_dim"]:
    complain(f"explain tells of {explained['mesh']['mesh_dim']}, search of {told['chosen']['mesh_dim']}")
done = search("--prefer", "cost", "--top", "1")
if "there is one: the fastest mesh costs least" not in done.stderr:
    complain(f"prefer: cost of one number: {done.stderr}")
if read("--prefer", "cost")["chosen"] != read("--prefer", "time")["chosen"]:
    complain("prefer: cost of one number is not prefer: time")
# Stages are compared together: sums of what each takes alone.
STAGES = "configs/runs/lwm-7b-stages.yaml"
together = read("--nodes", "32,64", "--prefer", "cost", run=STAGES)
for row in together["frontier"]["counts"]:
    sums = sum(one["run_cost"]["accelerator_hours"]["value"] for one in
               read("--set", f"nodes={row['nodes']}", "--prefer", "cost", run=STAGES)["stages"])
    if abs(row["run_cost"]["accelerator_hours"]["value"] - sums) > 1e-9 * sums:
        complain(f"stages on {row['nodes']} nodes: {row['run_cost']['accelerator_hours']}, not {sums}")
if {one["accelerators"] for one in together["stages"]} != {4 * together["frontier"]["chosen"]}:
    complain("stages are told on other nodes than those that are chosen")
if "misses --deadline '1 h'" not in search("--deadline", "1 h", run=STAGES, code=1).stderr:
    complain("stages miss no deadline")

# Every search says where other nodes that the cluster has are clearly better, and only there.
LONG = ("--set", "sequence_length=32768", "--set", "global_batch_size=256")
advised = read("--set", "nodes=12", *LONG, run="configs/runs/llama-70b-512.yaml")
more = read("--set", "nodes=16", *LONG, run="configs/runs/llama-70b-512.yaml")
if [(n["nodes"], n["step_seconds"]) for n in advised["better_nodes"]] != [(16, more["chosen"]["step_seconds"])] or more["better_nodes"]:
    complain(f"12 nodes: {advised['better_nodes']} are better, 16: {more['better_nodes']}")
if not more["accelerator_hours"] <= 0.9 * advised["accelerator_hours"]:
    complain(f"16 nodes take {more['accelerator_hours']} hours, 12 take {advised['accelerator_hours']}")
if read("--set", "cluster.nodes=12", *LONG, run="configs/runs/llama-70b-512.yaml")["better_nodes"]:
    complain("more nodes than the cluster has are named")
print(f"frontier: {wrong} wrong")
sys.exit(wrong > 0)
