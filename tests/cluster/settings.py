#!/usr/bin/env python3
"""Slurm's settings, from YAML to what a controller makes of the script.

  settings.py PLAN SCRATCH RUNS VALUES      SLURM_CONF: of tests/cluster/controller.sh

RUNS random valid runs: each script is good for bash, shellcheck and `sbatch --test-only`, and the
held job is what was asked for; where submit_held is built (beside PLAN, it speaks libslurm), the job
that libslurm makes of the script's options is the same. VALUES hostile values, spread over every key
that takes a text: a value is refused, or arrives as it is; nothing is executed and no directive comes
or goes.

SCRATCH/progress.json says what held already; a trial that was interrupted goes on behind it."""
import json
import os
import random
import re
import shlex
import subprocess
import sys
import zlib

plan, scratch, runs, values = sys.argv[1], os.path.realpath(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
root = os.getcwd()
submit_held = os.path.join(os.path.dirname(os.path.realpath(plan)), "submit_held")
progress = {"runs": 0, "compared": 0, "described_not": 0, "values": 0, "refused": 0, "accepted": 0}
canary = f"{scratch}/canary"
bad = 0


def complain(what):
    global bad
    bad += 1
    print("FAIL:", what)


def advance(key, value):
    """What held so far is kept; nothing is, once something did not."""
    progress[key] = value
    if bad == 0:
        with open(f"{scratch}/progress.new", "w") as file:
            json.dump(progress, file)
        os.replace(f"{scratch}/progress.new", f"{scratch}/progress.json")


def call(*command, **more):
    return subprocess.run(command, capture_output=True, text=True, errors="surrogateescape", **more)


def base(name, nodes, per_node, slurm):
    """A run small enough for any mesh of 64."""
    return {"name": name, "model": f"{root}/configs/models/quickstart.yaml", "sequence_length": 512,
            "global_batch_size": 64, "memory_headroom": "0 %", "directory": f"{scratch}/run",
            "optimizer": {"total_steps": 1000, "warmup_steps": 1},
            "data": {"path": f"{root}/README.md", "format": "bytes"},
            "cluster": {"name": "controller", "nodes": nodes, "accelerators_per_node": per_node,
                        "accelerator": f"{root}/configs/accelerators/h100-sxm-80gb.yaml",
                        "links": [{"name": "nvlink", "spans": "node", "bandwidth": "450 GB/s", "latency": "3 us"},
                                  {"name": "net", "spans": "all", "bandwidth": "50 GB/s", "latency": "6 us"}],
                        "slurm": {"partition": "all", "cpus_per_task": 2}},
            "slurm": slurm}


def emit(run, out):
    path = f"{scratch}/run.yaml"
    with open(path, "w") as file:
        json.dump(run, file)
    done = call(plan, "emit", path, "-o", out)
    return done, f"{out}/{run['name']}.sbatch"


def directives(script):
    """Those that sbatch reads: the lines before the first command."""
    found = []
    with open(script, errors="surrogateescape") as file:
        for line in file:
            if line.strip() and not line.lstrip().startswith("#"):
                break
            if line.startswith("#SBATCH"):
                found.append(line[8:].rstrip("\n"))
    return found


# ---- Random valid runs ----

def random_slurm(rng, nodes, per_node, job):
    """Each key with a probability, each with a value that the controller of the test has."""
    name = f"gpu{rng.randrange(8)}"
    known = {
        "partition": lambda: rng.choice(["gpu", "all", ["gpu", "all"], "short,all"]),
        "account": lambda: "research",
        "time": lambda: rng.choice(["30", "0:20:00", "12:00:00", "1-12", "2-0:0:0", "90:30"]),
        "time_min": lambda: "5",
        "constraint": lambda: rng.choice(["nvme", "[nvme]", "nvme*1"]),
        "reservation": lambda: "night",
        "nodelist": lambda: name if nodes > 0 else None,
        "cpus_per_task": lambda: rng.choice([1, 2, 12]),
        "cpu_bind": lambda: rng.choice(["none", "cores", "verbose,rank", "map_cpu:0,1,2"]),
        "gpu_bind": lambda: "none",
        "mem": lambda: rng.choice(["0", "64G", "1024"]),
        "exclusive": lambda: rng.choice([True, False, "user", "auto"]),
        "gpus_per_node": lambda: rng.choice([str(per_node), f"h100:{per_node}"]),
        "switches": lambda: rng.choice(["2", "1@0:10:00"]),
        "dependency": lambda: rng.choice(["singleton", f"afterok:{job}", [f"afterany:{job}", "singleton"]]),
        "begin": lambda: rng.choice(["now+1hour", "23:59", "2031-01-02T03:04:05", "tomorrow"]),
        "nice": lambda: rng.choice([-5, 1, 1000]),
        "licenses": lambda: rng.choice(["scratch:1", ["scratch:2"]]),
        "mail": lambda: {"type": ["END", "FAIL"], "user": "me@example.org"},
        "comment": lambda: rng.choice(["ablation 3", "it's \"quoted\" \\ $(x) `y` # é", "a;b|c&d"]),
        "job_name": lambda: "named",
        "wckey": lambda: "key",
        "log": lambda: rng.choice(["%x-%j.out", "log %4j.txt", "a%%b-%j"]),
        "signal": lambda: rng.choice(["USR1", "USR1@60", "none"]),
        "requeue": lambda: rng.choice([True, False, "auto"]),
        "mpi": lambda: "pmix_v4",
        "modules": lambda: ["cuda/12.4", "openmpi"],
        "setup": lambda: rng.choice([["ulimit -c 0", "umask 027"], "if true; then\n  umask 027\nfi\n"]),
        "environment": lambda: {"NCCL_SOCKET_IFNAME": "=eth0", "A": rng.choice(["$x", "/x:$PATH", "a${HOME}b'$$ `", "it's", "", "a b", "é\\"])},
        "fabric": lambda: f"{root}/configs/fabrics/{rng.choice(['infiniband', 'roce', 'efa', 'ethernet'])}.yaml",
        "container": lambda: {"image": "docker://a/b:1", "type": rng.choice(["pyxis", "apptainer", "singularity"]),
                              "mounts": ["/data:/data:ro"], "runner": "/opt/runner"},
        "directives": lambda: ["--tmp=0", "--get-user-env"],
        "srun_options": lambda: ["--unbuffered"],
        "slurm_version": lambda: "22.05",
        "continue": lambda: rng.choice(["requeue", "chain"]),
    }
    slurm = {key: make() for key, make in known.items() if rng.random() < 0.35}
    if rng.random() < 0.3:
        slurm.pop("mem", None)
        slurm.update(rng.choice([{"mem_per_cpu": "2G"}, {"mem_per_gpu": "16G"}]))
    if rng.random() < 0.3:
        slurm["setup_node"] = rng.choice([["umask 027", "true"], "if true; then\n  umask 027\nfi\n"])
    if slurm.get("requeue") == "auto":
        del slurm["requeue"]
    if slurm.get("requeue") is False and slurm.get("continue") == "requeue":
        slurm["continue"] = "chain"
    if "time" in slurm and "time_min" in slurm and slurm["time"] == "30":
        slurm["time_min"] = "10"
    if rng.random() < 0.2:
        slurm.pop("gpus_per_node", None)
        slurm["gres"] = [f"gpu:h100:{per_node}"]
    if str(slurm.get("time", "")) in ("30", "0:20:00") and slurm.get("signal") == "USR1@60":
        slurm["signal"] = "USR1@30"
    return slurm


def field(job, name):
    found = re.search(rf"(?:^|\s){re.escape(name)}=(\S*)", job)
    return found.group(1) if found else None


def minutes(text):
    days, _, rest = text.rpartition("-")
    hours, mins, _ = rest.split(":")
    return (int(days or 0) * 24 + int(hours)) * 60 + int(mins)


def check_job(run, script, shown):
    """What the controller made of the script."""
    nodes, per_node = run["cluster"]["nodes"], run["cluster"]["accelerators_per_node"]
    slurm = run["slurm"]
    with open(script, errors="surrogateescape") as file:
        text = file.read()
    mesh = [int(x) for x in re.search(r"^# Mesh +([\d,]+) ", text, re.M).group(1).split(",")]
    product = mesh[0] * mesh[1] * mesh[2] * mesh[3]
    if product != nodes * per_node or field(shown, "NumTasks") != str(product) or \
            field(shown, "NumNodes").split("-")[0] != str(nodes):
        complain(f"{nodes} nodes of {per_node}, mesh {mesh}: {shown}")
    supervised = f" --plans {nodes}-{nodes} " in text and f" --ranks-per-node {per_node} " in text
    if supervised != (slurm.get("continue", "none") != "none" or slurm.get("requeue") is True) or \
            (not supervised and f" --nodes={nodes} --ntasks={product} " not in text):
        complain(f"the script does not start {product} ranks")
    wanted = {"JobName": slurm.get("job_name", run["name"]), "UserId": f"{whoami}({os.getuid()})",
              "WorkDir": run["directory"], "Nice": str(slurm.get("nice", 0)),
              "Requeue": "1" if slurm.get("requeue", slurm.get("continue") == "requeue") is True else "0"}
    if "partition" in slurm:
        partition = slurm["partition"]
        wanted["Partition"] = partition if isinstance(partition, str) else ",".join(partition)
    if "account" in slurm:
        wanted["Account"] = "research"
    if "reservation" in slurm:
        wanted["Reservation"] = "night"
    if "nodelist" in slurm:
        wanted["ReqNodeList"] = slurm["nodelist"]
    for key, value in wanted.items():
        if field(shown, key) != value:
            complain(f"{key} is {field(shown, key)}, not {value}: {slurm}")
    if "comment" in slurm and f"Comment={slurm['comment']}" not in shown:
        complain(f"comment {slurm['comment']!r}: {shown}")
    if "gpu" not in (field(shown, "TresPerNode") or "") or not field(shown, "TresPerNode").endswith(f":{per_node}"):
        complain(f"GPUs: {field(shown, 'TresPerNode')}, not {per_node}")
    if field(shown, "TimeLimit") in (None, "UNLIMITED", "Partition_Limit"):
        complain(f"no time limit: {shown}")
    memory = {"mem_per_cpu": ("MinMemoryCPU", "2G"), "mem_per_gpu": ("MemPerTres", "gpu:16384")}
    for key, (name, value) in memory.items():
        # newer Slurms write "gres/gpu:16384", 22.05 "gres:gpu:16384"
        if (field(shown, name) or "").endswith(value) != (key in slurm):
            complain(f"{key}: {shown}")
    exclusive = slurm.get("exclusive", "auto")
    if (field(shown, "OverSubscribe") == "NO") != (exclusive in (True, "auto")):
        complain(f"exclusive {exclusive}: {field(shown, 'OverSubscribe')}")


def check_scripts(scripts):
    for at in range(0, len(scripts), 25):
        some = scripts[at:at + 25]
        for script in some:
            done = call("bash", "-n", script)
            if done.returncode != 0:
                complain(f"bash -n {script}: {done.stderr}")
        if shellcheck:
            done = call("shellcheck", *some)
            if done.returncode != 0:
                complain(f"shellcheck: {done.stdout}")


# ---- sbatch and libslurm ----

# What the options that say nothing about when and where a job starts come to, what depends on the
# moment, and what sbatch fills in of a script that it has read.
NOT_COMPARED = set("""JobId JobName Comment MailUser MailType Requeue Reboot WorkDir StdErr StdIn StdOut Command WCKey
    SubmitTime EligibleTime AccrueTime StartTime EndTime Deadline LastSchedEval Priority KillOInInDep
    KillOInInvalidDependent AllocNode:Sid CPU_max_freq BatchFlag Reason JobState RunTime
    SuspendTime SecsPreSuspend Power ExitCode Restarts Contiguous""".split())


def fields(shown):
    found = dict(re.findall(r"(?:^|\s)([A-Z][\w:/]*)=(\S*)", shown))
    return {key: value for key, value in found.items() if key not in NOT_COMPARED}


def compare_with_libslurm(script, shown):
    """Both ways to describe the job come to the same one. Only what libslurm is asked about."""
    options = {}
    for line in directives(script):
        for word in shlex.split(line):
            name, _, value = word[2:].partition("=")
            options[name] = value
    held = call(submit_held, input=json.dumps(options) + "\n")
    answer = held.stdout.split()
    if held.returncode == 3 and answer[:1] == ["unknown"]:
        # left to sbatch --test-only by plan as well
        progress["described_not"] += 1
        if answer[1] not in NOT_DESCRIBED:
            complain(f"libslurm's description does not know --{answer[1]}={options.get(answer[1])!r}")
        return
    if held.returncode != 0:
        complain(f"libslurm: {held.stdout}{held.stderr}{json.dumps(options)}")
        return
    other = call("scontrol", "show", "job", answer[0]).stdout
    call("scancel", answer[0])
    mine, theirs = fields(shown), fields(other)
    differ = {key: (mine.get(key), theirs.get(key)) for key in sorted(set(mine) | set(theirs)) if mine.get(key) != theirs.get(key)}
    if differ:
        complain(f"sbatch and libslurm differ: {differ}: {json.dumps(options)}")
    progress["compared"] += 1


# The option that plan-slurm leaves to sbatch: its words are many, and only sbatch reads them.
NOT_DESCRIBED = {"begin"}


def random_run(i, job):
    """Emits, tries, holds and looks at the run of that number; its script, or None."""
    rng = random.Random(f"20260914 {i}")
    nodes, per_node = rng.choice([1, 2, 4, 8]), rng.choice([1, 2, 4, 8])
    run = base(f"run-{i}", nodes, per_node, random_slurm(rng, nodes, per_node, job))
    run["directory"] = f"{scratch}/{rng.choice(['run', 'run it', 'run%j', 'ru[n]'])}"
    field_safe = " " not in run["directory"]
    done, script = emit(run, f"{scratch}/out")
    if done.returncode != 0:
        complain(f"emit {json.dumps(run['slurm'])}: {done.stderr}")
        return None
    with open(script, "rb") as file:
        text = file.read()
    emit(run, f"{scratch}/out")
    with open(script, "rb") as file:
        if file.read() != text:
            complain("the same input gives other bytes")
    tried = call("sbatch", "--test-only", script)
    if tried.returncode != 0 and "Requested node configuration is not available" not in tried.stderr:
        complain(f"--test-only: {tried.stderr}{json.dumps(run['slurm'])}")
    held = call("sbatch", "--parsable", "--hold", script)
    if held.returncode != 0:
        complain(f"sbatch: {held.stderr}{json.dumps(run['slurm'])}")
        return script
    shown = call("scontrol", "show", "job", held.stdout.strip()).stdout
    if field_safe:
        check_job(run, script, shown)
    if os.access(submit_held, os.X_OK):
        compare_with_libslurm(script, shown)
    call("scancel", held.stdout.strip())
    return script


def random_runs():
    at_once = 25
    for first in range(progress["runs"], runs, at_once):
        job = call("sbatch", "--parsable", "--hold", "--time=1", "--wrap=true").stdout.strip()
        last = min(first + at_once, runs)
        scripts = [random_run(i, job) for i in range(first, last)]
        check_scripts([script for script in scripts if script is not None])
        call("scancel", job)
        advance("runs", last)
    alike = f", libslurm's job the same as sbatch's {progress['compared']} times" if progress["compared"] else ""
    print(f"{progress['runs']} random runs: bash{', shellcheck' if shellcheck else ''}, sbatch --test-only, the held job{alike}")


# ---- Hostile values ----

HOSTILE = [
    "$(touch CANARY)", "`touch CANARY`", "; touch CANARY", "| touch CANARY", "&& touch CANARY", "x\ntouch CANARY",
    "x\n#SBATCH --uid=0", "\n#SBATCH --wrap=x", "x\r\ntouch CANARY", "' ; touch CANARY ; '", "\" ; touch CANARY ; \"",
    "'$(touch CANARY)'", "\"$(touch CANARY)\"", "\\", "\\\\", "\\\"", "\\'", "a\\", "'", "\"", "''", "\"\"", "$'x'",
    "${IFS}touch${IFS}CANARY", "$((1))", "a b", " a", "a ", "--uid=0", "-p evil", "--partition=evil", "x --uid=0",
    "x #y", "#SBATCH --uid=0", "# x", "a,b", "a=b", "=a", "%j", "%", "%%", "{{name}}", "{{", "}}", "é", "\u202e", "\u2028",
    "\u200b", "\u0085", "\x01", "\x7f", "\t", "", " ", "*", "?", "[a]", "~", "!x", "!!", "<x", ">CANARY", "<(touch CANARY)",
    "x" * 300, "x" * 5000, "0", "-1", "null", "true", "../../x", "/etc/passwd", "a;b", "a&b", "a|b", "(a)", "1-99:99:99",
    "now; touch CANARY", "afterok:1;touch CANARY", "h100:8;touch CANARY", "eval touch CANARY", "x$(touch CANARY)%j",
    "USR1@1;touch CANARY", "a[$(touch CANARY)]", "--x=$(touch CANARY)", "--x=' '--uid=0", "--comment=x", "--comm=x",
    "--wrap=touch CANARY", "--x=a\nb", "--export=ALL", "/a:/b;touch CANARY", "/a:/b,/c:/d", "/$(touch CANARY):/b",
]

# Where a text goes: a path of keys in the run; None stands for the name of a key.
PLACES = [["slurm", key] for key in (
    "slurm_version partition account qos time time_min gpus_per_node gres constraint reservation nodelist exclude "
    "cpu_bind gpu_bind mem exclusive switches dependency begin licenses comment wckey job_name log signal requeue "
    "mpi setup fabric continue max_attempts").split()] + [
    ["slurm", "partition", 0], ["slurm", "mail", "type"], ["slurm", "mail", "user"], ["slurm", "modules", 0],
    ["slurm", "environment", "A"], ["slurm", "environment", None], ["slurm", "fabric", "name"],
    ["slurm", "fabric", "environment", "A"], ["slurm", "container", "image"], ["slurm", "container", "type"],
    ["slurm", "container", "mounts", 0], ["slurm", "container", "runner"], ["slurm", "container", "options", 0],
    ["slurm", "directives", 0], ["slurm", "srun_options", 0], ["slurm", "setup", 0],
    ["name"], ["directory"], ["checkpoint", "directory"], ["data", "path"], ["init", "from"]]

# Those of later keys, and of the script of a job that does not train. They are tried behind the
# others, whose order is that of before.
LATER_PLACES = [["slurm", key] for key in "topology block_nodes leaf_nodes max_switch_wait segment nice cpus_per_task preflight mem_per_cpu mem_per_gpu setup_node".split()] + [
    ["job", key] for key in "type checkpoint input output host token_file port shards".split()]


def put(run, path, value):
    at = run
    for i, key in enumerate(path[:-1]):
        step = [] if path[i + 1] == 0 else {}
        if isinstance(at, list):
            at.append(step)
            at = step
        else:
            if not isinstance(at.get(key), (dict, list)):
                at[key] = step
            at = at[key]
    if isinstance(at, list):
        at.append(value)
    elif path[-1] is None:
        at[value] = "x"
    else:
        at[path[-1]] = value


def names(script):
    return sorted(re.split(r"[=\s]", line, maxsplit=1)[0] for line in directives(script))


# The directives that a setting may add or change; all others stay what they are.
ADDS = {"gres": {"--gres", "--gpus-per-node"}, "mail": {"--mail-type", "--mail-user"}, "signal": {"--signal"},
        "requeue": {"--requeue", "--no-requeue", "--requeue=expedite"}, "exclusive": {"--exclusive", "--mem"},
        "time": {"--time", "--signal"}, "slurm_version": set(), "log": set(), "job_name": set(), "mpi": set(),
        "name": set(), "directory": set(), "checkpoint": set(), "data": set(), "init": set(), "setup": set(), "setup_node": set(),
        "mem_per_cpu": {"--mem", "--mem-per-cpu"}, "mem_per_gpu": {"--mem", "--mem-per-gpu"},
        "fabric": set(), "continue": {"--requeue", "--no-requeue", "--signal"}, "max_attempts": set(), "environment": set(), "container": set(), "srun_options": set(), "modules": set(),
        "cpu_bind": set(), "gpu_bind": set()}


def run_it(script):
    """The script with stand-ins for Slurm and module: what it would execute, it executes."""
    environment = dict(os.environ, SLURM_JOB_ID="1", SLURM_JOB_NODELIST="gpu[0-1]", SLURM_JOB_NUM_NODES="2", PATH=f"{scratch}/bin:/usr/bin:/bin",
                       SHARDWRIGHT_RUNNER=f"{scratch}/bin/runner", BASH_ENV=f"{scratch}/module")
    return call("bash", script, env=environment, cwd=scratch, timeout=20)


def hostile_values():
    os.makedirs(f"{scratch}/bin", exist_ok=True)
    for name in ("srun", "runner"):
        with open(f"{scratch}/bin/{name}", "w") as file:
            file.write("#!/bin/sh\nexit 0\n")
        os.chmod(f"{scratch}/bin/{name}", 0o755)
    for name in ("scontrol", "sinfo", "sbatch", "scancel"):  # the job is over when its ranks are
        with open(f"{scratch}/bin/{name}", "w") as file:
            file.write("#!/bin/sh\necho JobState=COMPLETING\nexit 1\n")
        os.chmod(f"{scratch}/bin/{name}", 0o755)
    with open(f"{scratch}/module", "w") as file:
        file.write("module() { :; }\n")
    plain = [names(emit(base("r", 2, 2, slurm), f"{scratch}/hostile")[1]) for slurm in ({}, {"continue": "requeue"})]
    cases, later = ([(path, value) for path in places for value in HOSTILE] for places in (PLACES, LATER_PLACES))
    random.Random(3).shuffle(cases)
    random.Random(4).shuffle(later)
    # of few a share is of the later ones
    share = min(values // 5, len(later))
    cases = cases[:values - share] + later[:share]
    at_once = 50
    last = min(values, len(cases))
    for first in range(progress["values"], last, at_once):
        scripts = {}
        for path, value in cases[first:min(first + at_once, last)]:
            hostile_value(path, value.replace("CANARY", canary), plain, scripts)
        kept = []
        for i, (what, text) in enumerate(scripts.items()):
            with open(f"{scratch}/kept-{i}.sbatch", "wb") as file:
                file.write(text)
            if "setup" not in what:
                kept.append(f"{scratch}/kept-{i}.sbatch")
        check_scripts(kept)
        advance("values", min(first + at_once, last))
    print(f"{progress['values']} hostile values over {len(PLACES) + len(LATER_PLACES)} keys: {progress['refused']} refused, "
          f"{progress['accepted']} as they are, nothing executed")


def hostile_value(path, value, plain, scripts):
    """One value in one place; the script, where it was taken, goes into scripts."""
    path_shown = ".".join(str(key) for key in path)
    what = f"{path_shown}: {value!r}"
    # half of the trainings are one srun, half are supervised
    goes_on = path[0] != "job" and path[1:2] != ["continue"] and zlib.crc32(what.encode()) % 2 == 1
    run = base("r", 2, 2, {"continue": "requeue"} if goes_on else {})
    if path == ["slurm", "fabric", "name"]:
        put(run, ["slurm", "fabric", "environment", "B"], "x")
    if path[0] == "job":
        run["serve"] = {"max_batch": 8, "max_tokens": 1024}
        serves = path[1] in ("host", "token_file", "port")
        run["job"] = {"type": "serve", "token_file": f"{root}/README.md", "checkpoint": "/c"} if serves else \
            {"type": "generate", "checkpoint": "/c", "input": f"{root}/README.md", "output": f"{scratch}/texts"}
    put(run, path, value)
    if path[:2] == ["slurm", "container"] and path[2] != "image":
        put(run, ["slurm", "container", "image"], "docker://a/b:1")
    done, script = emit(run, f"{scratch}/hostile")
    if os.path.exists(canary):
        complain(f"{what}: executed by plan")
        os.remove(canary)
    if done.returncode == 2 or (done.returncode == 3 and path[0] in ("name", "directory", "checkpoint", "data", "init", "job")):
        progress["refused"] += 1
        if "error: " not in done.stderr:
            complain(f"{what}: refused with no word: {done.stderr}")
        if re.search(r"[\x00-\x08\x0b-\x1f\x7f]", done.stderr):
            complain(f"{what}: the message has control characters")
        return
    if done.returncode != 0:
        complain(f"{what}: exit {done.returncode}: {done.stderr}")
        return
    progress["accepted"] += 1
    script = f"{scratch}/hostile/{run['name']}.sbatch"
    changed = set(names(script)) ^ set(plain[goes_on])
    key = path[1] if path[0] == "slurm" else path[0]
    may = ADDS.get(key, {"--" + key.replace("_", "-")})
    if path[0] == "job":
        may = {"--array", "--signal", "--time"}  # a training knows how long it takes
    if key == "directives":
        may = {value.split("=")[0]}
    if not changed <= may or len(set(names(script))) != len(names(script)):
        complain(f"{what}: directives {changed}")
    if key not in ("setup", "setup_node"):
        run_it(script)
    if os.path.exists(canary):
        complain(f"{what}: executed by the script")
        os.remove(canary)
    held = call("sbatch", "--parsable", "--hold", script)
    if held.returncode == 0:
        job = held.stdout.strip()
        shown = call("scontrol", "show", "job", job).stdout
        # a job that does not train takes the nodes that serve best
        nodes, tasks = field(shown, "NumNodes").split("-")[0], field(shown, "NumTasks")
        if field(shown, "UserId") != f"{whoami}({os.getuid()})" or \
                (path[0] != "job" and (nodes, tasks) != ("2", "4")):
            complain(f"{what}: the job is another: {shown}")
        call("scancel", job)
    if os.path.exists(canary):
        complain(f"{what}: executed by sbatch")
        os.remove(canary)
    with open(script, "rb") as file:
        scripts[what] = file.read()


os.makedirs(scratch, exist_ok=True)
if os.path.exists(f"{scratch}/progress.json"):
    with open(f"{scratch}/progress.json") as saved:
        progress.update(json.load(saved))
whoami = call("id", "-un").stdout.strip()
shellcheck = call("sh", "-c", "command -v shellcheck").returncode == 0
for variable in list(os.environ):
    if re.match(r"(SBATCH|SLURM|PMI|PMIX)_", variable) and variable != "SLURM_CONF":
        del os.environ[variable]
done = call("scontrol", "create", "reservation", "ReservationName=night", "StartTime=now", "Duration=30-0",
            f"Users={whoami}", "Nodes=ALL", "Flags=FLEX,OVERLAP")
if done.returncode != 0:
    complain(f"no reservation: {done.stderr}")
random_runs()
hostile_values()
sys.exit(bad > 0)
