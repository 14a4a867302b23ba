#!/usr/bin/env python3
"""SKILL.md and CHANGELOG.md say what is: commands and options are those of --help, schemas those of docs/reference/json.md
(which test_json.py compares with what is printed), exit codes those of docs/reference/commands.md, the version the build's.

  test_skill.py BUILD      from the root of the tree
"""
import json
import os
import re
import subprocess
import sys

build = os.path.realpath(sys.argv[1])
skill, page, codes = (open(path).read() for path in ("SKILL.md", "docs/reference/json.md", "docs/reference/commands.md"))
bad = 0


def complain(text):
    global bad
    bad += 1
    print("FAIL:", text)


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        complain(f"{' '.join(command)}: exit {done.returncode}: {done.stderr}")
    return done.stdout


def same(what, documented, real):
    for name in sorted(set(documented) - set(real)):
        complain(f"SKILL.md has the {what} '{name}', which is not there")
    for name in sorted(set(real) - set(documented)):
        complain(f"SKILL.md lacks the {what} '{name}'; add a line for it")


def rows(text):
    """Cells of the rows of all tables; `\\|` is no border."""
    for line in text.splitlines():
        if line.startswith("| ") and not line.startswith("| ---"):
            yield [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


# ---- Commands, with each argument and option that a row names
listed = []
for program in ("plan", "runner"):
    there = re.findall(rf"^  {program} ([a-z][a-z-]*) ", run(f"{build}/{program}", "--help"), re.M)
    named = [cells for cells in rows(skill) if cells[0].startswith(f"`{program} ")]
    same("command", {f"{program} {cells[0].strip('`').split()[1]}" for cells in named}, {f"{program} {name}" for name in there})
    for command, *said in named:
        words = command.strip("`").replace("\\|", "|").split()
        listed.append(words)
        help_text = run(f"{build}/{program}", words[1], "--help")
        options = [word for word in words if word.startswith("--")]
        options += re.findall(r"`(--?[a-z][a-z_-]*)", " ".join(said))
        for option in options:
            if not re.search(rf"(^|[\s\[,]){option}\b", help_text):
                complain(f"SKILL.md: {' '.join(words[:2])} has no option {option}")
        for word in words[2:]:
            name = re.sub(r"[\[\].]+", " ", word).split("|")[0].strip()
            if name.isupper() and "KIND" not in name and name not in re.sub(r"[\[\].]+", " ", help_text):
                complain(f"SKILL.md: {' '.join(words[:2])} takes no {name}")
        if "`--json`" in said[-1] and not re.search(r"--json\b", help_text):
            complain(f"SKILL.md: {' '.join(words[:2])} has no --json")

# ---- Schemas: each in the row of the command whose section in the reference has it
same("schema", re.findall(r"shardwright\.[a-z]+/\d+", skill), re.findall(r"shardwright\.[a-z]+/\d+", page))
sections = {}
for part in re.split(r"^## ", page, flags=re.M)[1:]:
    found = re.search(r"shardwright\.[a-z]+/\d+", part)
    if found:
        sections[part.splitlines()[0].strip()] = found[0]
for command, _, said in (cells for cells in rows(skill) if len(cells) == 3):
    schema = re.search(r"`--json`: `(shardwright\.[a-z]+/\d+)`", said)
    if not schema:
        continue
    words = [word for word in command.strip("`").split() if re.fullmatch(r"[a-z-]+", word) and word != "--checkpoint"]
    wanted = sections.get(" ".join(words) + " --json", sections.get("submission.json" if words[1:] == ["submit"] else ""))
    if schema[1] != wanted:
        complain(f"SKILL.md: {' '.join(words)} prints {wanted}, not {schema[1]}")

# ---- Exit codes
exits = re.compile(r"^\| (\d+) \|", re.M)
same("exit code", exits.findall(skill), exits.findall(codes[codes.index("## Exit codes"):]))

# ---- Links, and the version of the change log
for link in re.findall(r"\]\(([^)#]+)", skill + open("CHANGELOG.md").read()):
    if not link.startswith("http") and not os.path.exists(link):
        complain(f"a link leads nowhere: {link}")
version = json.loads(run(f"{build}/plan", "--version", "--json"))["version"]
newest = re.search(r"^## (\S+)", open("CHANGELOG.md").read(), re.M)
if not newest or newest[1] != version:
    complain(f"CHANGELOG.md begins with {newest and newest[1]}, plan is {version}")

if bad == 0:
    print(f"SKILL.md: {len(listed)} commands as they are")
sys.exit(bad > 0)
