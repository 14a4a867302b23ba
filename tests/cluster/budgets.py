"""Drawn accounts for test_budgets.sh: limits on minutes in a tree of accounts and in a qos, usage that a controller starts
with, a job for each; and what plan says of them against sacctmgr, sshare, scontrol and what Slurm does with the job.

    budgets.py write  FOLDER DRAWS SEED SAFE FIRST   conf, sacctmgr's commands and jobs, into FOLDER; FIRST: number in names
    budgets.py usage  FOLDER                         files of StateSaveLocation: needs slurmdbd's ids; and the usage that follows
    budgets.py limits FOLDER                         compares limits and usage with what plan said; the controller runs
    budgets.py jobs   FOLDER                         the same of what became of the jobs
"""
import json
import os
import pathlib
import pwd
import random
import re
import struct
import subprocess
import sys
import time

TRES = ["cpu", "mem", "node", "billing", "gres/gpu"]
HALF_LIFE = 7 * 86400
folder = pathlib.Path(sys.argv[2])
me = pwd.getpwuid(os.getuid()).pw_name


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def listed(text):
    """Of "cpu=5,gres/gpu=3"."""
    return {k: int(float(v)) for k, v in (p.split("=") for p in text.split(",") if "=" in p)}


def drawn(rng, need, keys):
    """Limits near what the job needs, with what is used before it."""
    return {t: max(1, int(need[t] * rng.choice([0.9, 1.5, 3, 6]))) for t in keys}


def write(draws, seed, safe, first):
    rng = random.Random(seed)
    sites, conf, commands, jobs = [], [], [], []
    for k in range(first, first + draws):
        nodes, minutes = rng.randint(1, 4), rng.choice([20, 90, 600, 1440])
        weights = {"CPU": rng.choice([0.5, 1, 2]), "Mem": rng.choice([0, 0.25]), "GRES/gpu": rng.choice([0, 8, 12.5])}
        factor, factor_safe = rng.choice([1, 1, 2, 0.5]), rng.random() < 0.3
        need = {"cpu": 96 * nodes * minutes, "mem": 2000000 * nodes * minutes, "node": nodes * minutes,
                "gres/gpu": 8 * nodes * minutes, "billing": 200 * nodes * minutes}
        site = {"nodes": nodes, "minutes": minutes, "factor": factor, "factor_safe": factor_safe, "safe": safe,
                "no_decay": rng.random() < 0.5, "name": k, "limits": {}, "need": need}
        for holder in ["top", "mid", "leaf", "user", "qos"]:
            keys = [t for t in TRES if rng.random() < 0.15]
            site["limits"][holder] = drawn(rng, need, keys)
        site["usage"] = {who: {t: int(need[t] * 60 * rng.choice([0, 0.1, 0.4])) for t in TRES}
                         for who in ["user", "other", "aunt", "qos"]}
        site["wall"] = rng.choice([None, minutes * 3]) if rng.random() < 0.4 else None
        sites.append(site)
        conf.append(f"PartitionName=p{k} Nodes=gpu[{4 * (k - first)}-{4 * (k - first) + 3}] State=UP TRESBillingWeights=" +
                    ",".join(f"{n}={w}{'G' if n == 'Mem' else ''}" for n, w in weights.items()))
        tres = {h: ",".join(f"{t}={v}" for t, v in site["limits"][h].items()) for h in site["limits"]}
        flags = (["NoDecay"] if site["no_decay"] else []) + (["UsageFactorSafe"] if factor_safe else [])
        commands += [f"add qos q{k}", f"modify qos q{k} set UsageFactor={factor}" +
                     (f" GrpTRESMins={tres['qos']}" if tres["qos"] else "") +
                     (f" flags={','.join(flags)}" if flags else ""),
                     f"add account top{k}", f"add account mid{k} parent=top{k}", f"add account leaf{k} parent=mid{k}",
                     f"add account aunt{k} parent=top{k}",
                     f"add user {me} account=leaf{k} qos=q{k}", f"add user other{k} account=leaf{k}",
                     f"add user aunt{k} account=aunt{k}"]
        for holder, where in [("top", f"account top{k}"), ("mid", f"account mid{k}"), ("leaf", f"account leaf{k}")]:
            if tres[holder]:
                commands.append(f"modify {where} set GrpTRESMins={tres[holder]}")
        if site["wall"]:
            commands.append(f"modify account mid{k} set GrpWall={site['wall']}")
        if tres["user"]:
            commands.append(f"modify user {me} where account=leaf{k} set GrpTRESMins={tres['user']}")
        jobs.append(f"{nodes} {minutes // 60}:{minutes % 60:02d}:00 p{k} leaf{k} q{k}")
    (folder / "sites.json").write_text(json.dumps(sites))
    (folder / "conf").write_text("\n".join(conf) + "\n")
    (folder / "commands").write_text("\n".join(commands) + "\n")
    (folder / "jobs").write_text("\n".join(jobs) + "\n")


def text(value):
    data = value.encode() + b"\0"
    return struct.pack(">I", len(data)) + data


def usage():
    """As slurmctld packs assoc_usage, qos_usage and priority_last_decay_ran (22.05: 38 << 8): decayed for one half-life
    when it starts."""
    sites = json.loads((folder / "sites.json").read_text())
    ids = dict(line.split("|") for line in run("sacctmgr", "-nP", "show", "qos", "format=name,id").split())
    kinds = {}
    for line in run("sacctmgr", "-nP", "show", "tres", "format=type,name,id").split():
        kind, name, number = line.split("|")
        kinds[kind + ("/" + name if name else "")] = number
    found = {}
    for line in run("sacctmgr", "-nP", "show", "assoc", "format=account,user,id").split("\n"):
        if line.count("|") == 2:
            account, user, number = line.split("|")
            found[account, user] = int(number)
    head = struct.pack(">HQ", 38 << 8, int(time.time()))
    associations, qos = head, head
    for k, site in ((site["name"], site) for site in sites):
        def record(number, who):
            raw = site["usage"][who]
            return struct.pack(">I", number) + text(f"{raw['billing']:.6f}") + \
                text(",".join(f"{kinds[t]}={raw[t]}" for t in TRES)) + struct.pack(">I", raw["node"] // site["nodes"])
        associations += record(found[f"leaf{k}", me], "user") + record(found[f"leaf{k}", f"other{k}"], "other") + \
            record(found[f"aunt{k}", f"aunt{k}"], "aunt")
        qos += record(int(ids[f"q{k}"]), "qos")
    state = folder / "state"
    state.mkdir(exist_ok=True)
    (state / "assoc_usage").write_bytes(associations)
    (state / "qos_usage").write_bytes(qos)
    (state / "priority_last_decay_ran").write_bytes(struct.pack(">QQ", int(time.time()) - HALF_LIFE, 0))


def same(a, b):
    return abs(a - b) <= 1e-9 * max(abs(a), abs(b), 1)


def oracle():
    """Limits by sacctmgr, usage by sshare, and of qos by scontrol, which alone tells it."""
    limits, used, running = {}, {}, {}
    for line in run("sacctmgr", "-nP", "show", "assoc", "format=account,user,GrpTRESMins,GrpWall").splitlines():
        account, user, tres, wall = line.split("|")
        limits[account, user] = (tres, wall)
    for line in run("sshare", "-nPa", "-o", "Account,User,GrpTRESMins,GrpTRESRaw,TRESRunMins").splitlines():
        account, user, most, raw, left = (f.strip() for f in line.split("|"))
        used[account, user], running[account, user] = listed(raw), listed(left)
        assert megabytes(most) == megabytes(limits[account, user][0]), (account, user, most)
    for line in run("sacctmgr", "-nP", "show", "qos", "format=name,GrpTRESMins,GrpWall").splitlines():
        name, tres, wall = line.split("|")
        limits["qos", name] = (tres, wall)
    name = None
    for line in run("scontrol", "show", "assoc_mgr", "flags=qos").splitlines():
        if line.startswith("QOS="):
            name = line[4:].split("(")[0]
        part = line.strip().split("=", 1)
        if name and part[0] in ("GrpTRESMins", "GrpTRESRunMins"):
            figures = {k: int(v) for k, v in re.findall(r"([a-z/0-9:]+)=[^,(]*\((\d+)\)", part[1])}
            (used if part[0] == "GrpTRESMins" else running)["qos", name] = figures
    return limits, used, running


def megabytes(tres):
    out = {}
    for key, value in (p.split("=") for p in tres.split(",") if "=" in p):
        unit = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024 ** 2, "P": 1024 ** 3}.get(value[-1], None)
        out[key] = int(float(value[:-1]) * unit) if unit else int(value)
    return out


def check_site(k, limits, used, running, budgets):
    names = {"your share of account leaf%d" % k: ("leaf%d" % k, me), "account leaf%d" % k: ("leaf%d" % k, ""),
             "account mid%d" % k: ("mid%d" % k, ""), "account top%d" % k: ("top%d" % k, ""),
             "qos q%d" % k: ("qos", "q%d" % k)}
    got = {(names[b["holder"]], b["resource"]): b for b in budgets}
    assert len(got) == len(budgets), budgets
    of_qos = megabytes(limits["qos", f"q{k}"][0])
    wanted = {(("qos", f"q{k}"), t) for t in of_qos}
    for holder in list(names.values())[:4]:
        wanted |= {(holder, t) for t in megabytes(limits[holder][0]) if t not in of_qos}
        if limits[holder][1]:
            wanted.add((holder, "wall"))
    assert set(got) == wanted, (k, set(got) ^ wanted)
    for (holder, tres), b in got.items():
        if tres == "wall":
            hours, minutes, _ = limits[holder][1].split("-")[-1].split(":")
            days = int(limits[holder][1].split("-")[0]) if "-" in limits[holder][1] else 0
            assert b["most"] == (days * 24 + int(hours)) * 60 + int(minutes), b
            continue
        assert b["most"] == megabytes(limits[holder][0])[tres], (k, b, limits[holder])
        assert b["used"] == used[holder][tres] and b["held"] == running[holder][tres], (k, b, used[holder], running[holder])
        assert b["left"] == max(0, b["most"] - b["used"] - b["held"]), (k, b)


def job_of(number):
    line = run("scontrol", "-o", "show", "job", number)
    return dict(part.split("=", 1) for part in line.split() if "=" in part)


def said(k):
    """What plan says of a site: minutes, and licenses."""
    budgets = json.loads((folder / f"said.{k}").read_text())["budgets"]
    return [b for b in budgets if b["unit"] == "minutes"], [b for b in budgets if b["unit"] == "licenses"]


def check_limits():
    sites = json.loads((folder / "sites.json").read_text())
    limits, used, running = oracle()
    for site in sites:
        k = site["name"]
        budgets, licenses = said(k)
        check_site(k, limits, used, running, budgets)
        shown = dict(p.split("=") for p in run("scontrol", "-o", "show", "lic", licenses[0]["resource"]).split())
        assert len(licenses) == 1 and licenses[0]["most"] == int(shown["Total"]), licenses
        assert licenses[0]["used"] == int(shown["Used"]) and licenses[0]["asked"] == 2, licenses
        # the sums of accounts: the user's own, the other's beside, and the aunt's above; halved by decay
        users = {"leaf": ["user", "other"], "mid": ["user", "other"], "top": ["user", "other", "aunt"]}
        for holder, who in users.items():
            for tres in TRES:
                minutes = sum(site["usage"][w][tres] for w in who) / 120
                assert abs(used[f"{holder}{k}", ""][tres] - minutes) <= 4 + minutes * 1e-3, (k, holder, tres, minutes)
        for tres in TRES:
            minutes = site["usage"]["qos"][tres] / (60 if site["no_decay"] else 120)
            assert abs(used["qos", f"q{k}"][tres] - minutes) <= 4 + minutes * 1e-3, (k, tres, minutes)


def check_jobs():
    sites = json.loads((folder / "sites.json").read_text())
    counts = {"enough": 0, "waits": 0, "killed": 0}
    for site in sites:
        k = site["name"]
        budgets, _ = said(k)
        job = job_of((folder / f"job.{k}").read_text().strip())
        ends = {b["end"] for b in budgets}
        worst = next((e for e in ("waits", "killed") if e in ends), "enough")
        counts[worst] += 1
        waits = job["JobState"] == "PENDING"
        assert waits == (worst == "waits"), (k, job["JobState"], job["Reason"], budgets)
        if waits:
            assert any(f"({job['Reason']})" in b["message"] for b in budgets if b["end"] == "waits"), \
                (k, job["Reason"], budgets)
            continue
        factor = site["factor"] if not site["safe"] or site["factor_safe"] else 1
        given = {"wall": 1, **megabytes(job["TRES"])}
        for b in budgets:
            assert same(b["asked"], given[b["resource"]] * site["minutes"] * factor), (k, b, given)
    print("%d draws: %d with enough, %d that wait, %d to be killed" % (len(sites), *counts.values()))


if sys.argv[1] == "write":
    write(int(sys.argv[3]), int(sys.argv[4]), sys.argv[5] == "1", int(sys.argv[6]))
elif sys.argv[1] == "usage":
    usage()
elif sys.argv[1] == "limits":
    check_limits()
else:
    check_jobs()
