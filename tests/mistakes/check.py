#!/usr/bin/env python3
"""Wrong inputs, and what is said of each: message, place and exit code. The tables are *.cases beside this file.

    tests/mistakes/check.py BUILD SCRATCH [TABLE...]      from the root of the tree; [TABLE]: names without .cases

A table is a list of cases. A case begins with its title in brackets and runs in a folder of its own, which holds
what tests/mistakes/start/ holds: a run that is right (run.yaml, a tiny model on one CPU rank). The lines of a case, in order:

    sh COMMAND          prepares the folder (bash, must end with 0); `plan` and `runner` are those of BUILD, $ROOT is the tree
    file NAME           writes a file: the lines below that begin with `| ` (or are `|`) are its text
    change NAME: A => B replaces A, which must be there, by B
    run COMMAND         the command to judge (bash); its two outputs are judged together
    exit N              its exit code (0 unless said)
    says LINE           a whole line of its output; DIR stands for the case's folder
    has TEXT            text within a line of its output
    not TEXT            text that no line of its output holds

After `exit`, `says`, `has` and `not` a further `run` begins another judgement in the same folder. Lines that begin
with # and empty lines are for people. Everything must hold; every fault found is printed, not the first alone.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True  # the tree stays as it is
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from scratch import scratch_in  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT_S = 120  # a command that takes longer hangs, sanitizers and loaded machines included


class Wrong(Exception):
    pass


def read_table(path):
    """[(title, place, [[word, rest, block]])], block: the text of a `file`."""
    cases = []
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            line = line.rstrip("\n")
            place = f"{os.path.relpath(path)}:{number}"
            if re.match(r"\[.*\]$", line):
                cases.append((line[1:-1], place, []))
            elif line == "|" or line.startswith("| "):
                if not cases or not cases[-1][2] or cases[-1][2][-1][0] != "file":
                    sys.exit(f"{place}: error: text that belongs to no 'file'")
                cases[-1][2][-1][2].append(line[2:] + "\n")
            elif line and not line.startswith("#"):
                word, _, rest = line.partition(" ")
                if not cases or word not in ("sh", "file", "change", "run", "exit", "says", "has", "not"):
                    sys.exit(f"{place}: error: '{word}' is no word of this table")
                cases[-1][2].append([word, rest.strip() if word != "says" else rest, []])
    return cases


def shell(command, folder, environment):
    try:
        done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired as late:
        return None, (late.stdout or b"").decode(errors="replace")
    return done.returncode, done.stdout.decode(errors="replace")


def change(folder, rest):
    name, _, swap = rest.partition(": ")
    old, arrow, new = swap.partition(" => ")
    path = os.path.join(folder, name)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if not arrow or old not in text:
        raise Wrong(f"'{old}' is not in {name}")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace(old, new, 1))


def judge(word, rest, code, output, folder):
    lines = output.splitlines()
    if word == "exit" and code != int(rest):
        raise Wrong(f"exit code {'none, it hangs' if code is None else code}, not {rest}")
    wanted = rest.replace("DIR", folder)
    if word == "says" and wanted not in lines:
        raise Wrong(f"nowhere: {wanted}")
    if word == "has" and not any(wanted in line for line in lines):
        raise Wrong(f"in no line: {wanted}")
    if word == "not" and any(wanted in line for line in lines):
        raise Wrong(f"in a line: {wanted}")


def try_case(steps, folder, environment):
    """The faults of a case, each a line."""
    faults = []
    ran = None  # [command, code, output, whether a code was asked for]

    def settle():
        if ran and not ran[3] and ran[1] != 0:
            faults.append(f"`{ran[0]}` gave {ran[1]}, not 0\n{ran[2]}")

    if not any(word == "run" for word, _, _ in steps):
        return ["nothing is run"]
    for word, rest, block in steps:
        try:
            if word == "file":
                path = os.path.join(folder, rest)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as file:
                    file.write("".join(block))
            elif word == "change":
                change(folder, rest)
            elif word == "sh":
                code, output = shell(rest, folder, environment)
                if code != 0:
                    return faults + [f"`{rest}` gave {code}:\n{output}"]
            elif word == "run":
                settle()
                ran = [rest, *shell(rest, folder, environment), False]
            else:
                ran[3] = ran[3] or word == "exit"
                judge(word, rest, ran[1], ran[2], folder)
        except Wrong as wrong:
            faults.append(f"{wrong}\n{ran[2] if ran else ''}")
    settle()
    return faults


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    build, scratch, chosen = os.path.abspath(sys.argv[1]), scratch_in(sys.argv[2]), sys.argv[3:]
    environment = dict(os.environ, PATH=build + os.pathsep + os.environ["PATH"], ROOT=os.getcwd(), LC_ALL="C.UTF-8",
                       OMP_NUM_THREADS="1")
    environment.pop("NO_COLOR", None)
    tables = sorted(name[:-6] for name in os.listdir(HERE) if name.endswith(".cases"))
    count = failed = 0
    for table in chosen or tables:
        for title, place, steps in read_table(os.path.join(HERE, table + ".cases")):
            count += 1
            folder = tempfile.mkdtemp(prefix=f"{table}-{count}-", dir=scratch)
            shutil.copytree(os.path.join(HERE, "start"), folder, dirs_exist_ok=True)
            faults = try_case(steps, folder, environment)
            failed += bool(faults)
            for fault in faults:
                print(f"FAIL {place}: {title}: {fault}")
    print(f"{count} wrong inputs, {failed} answered wrongly")
    sys.exit(1 if failed or not count else 0)


main()
