#!/usr/bin/env python3
"""What pages and comments say of this tree: files and folders that they name exist, a page's counts are those of the code,
and a header's include guard is its path.

    tests/check_facts.py [DIR]     DIR: the tree to check (default: this one)

A name of a file stands for the end of a path: `walk.h`, `ir/walk.h`. What begins with a folder of the tree's root is a
whole path. Names of patterns (`*`, `{a,b}`) and paths that begin otherwise, as in somebody else's tree, are not looked at.
"""
import os
import re
import subprocess
import sys

SOURCES = (".c", ".h", ".inc", ".cu", ".cuh", ".def")
# Of others: llm.c, Slurm, oneDNN; and what a page or a script makes.
FOREIGN = {"llm.c", "train_gpt2.c", "slurm.h", "dnnl_version.h", "dnnl_config.h", "a.c", "b.c", "NAME.c", "templates.c", "commit.c"}
ROOTS = "core|planner|runner|tests|docs|templates"
FILE = re.compile(r"(?<![\w/.<$*{}-])([A-Za-z_][\w/]*\.(?:c|h|inc|cu|cuh|def))(?!\w)")
PATH = re.compile(rf"(?<![\w/.$}}{{-])((?:{ROOTS})/[\w./*{{}},-]*[\w}}*])")
COMMENT = {SOURCES: re.compile(r"/\*.*?\*/|//[^\n]*", re.S), (".txt", ".cmake", ".sh", ".py"): re.compile(r"#[^\n]*")}
NUMBERS = "zero one two three four five six seven eight nine ten eleven twelve".split()


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def says(path, text):
    """Stretches of the file that people read, with their offsets."""
    if path.endswith(".md"):
        return [(0, text)]
    for endings, pattern in COMMENT.items():
        if path.endswith(endings):
            return [(m.start(), m[0]) for m in pattern.finditer(text)]
    return []


def guards(headers):
    seen = {}
    for path in headers:
        guard = re.search(r"^#ifndef (SW_\w+_H)$", read(path), re.M)
        if guard is None:
            continue
        parts = re.sub(r"\W", "_", path[:-2]).upper().split("_")
        whole = "_".join(parts)
        wanted = guard[1][len("SW_"):-len("_H")]
        if path.startswith("tests/"):
            wanted = re.sub("^TESTS?_", "", wanted)
        if not f"_{whole}".endswith(f"_{wanted}"):
            yield f"{path}: the guard {guard[1]} is not of its path, as SW_{'_'.join(path[:-2].upper().split('/')[-2:])}_H is"
        if guard[1] in seen:
            yield f"{path}: the guard {guard[1]} is that of {seen[guard[1]]}, too"
        seen[guard[1]] = path


def counts():
    kinds = re.findall(r'\[SW_PROGRAM_\w+\] = \{"(\w+)"', read("core/ir/program.c"))
    axes = re.findall(r"\bSW_(DP|FSDP|TP|SP)\b(?=,| = )", read("core/sharding/mesh.h"))
    for page, pattern, count in [
        ("docs/architecture.md", r"There are (\w+) kinds: `train`", len(kinds)),
        ("README.md", r"(\w+) kinds of parallelism", len(set(axes))),
    ]:
        said = re.search(pattern, read(page))
        if said is None:
            yield f"{page}: nothing there says '{pattern}' any more: mend tests/check_facts.py"
        elif said[1].lower() not in (NUMBERS[count], str(count)):
            yield f"{page}: '{said[0]}', but there are {count}"
    page = read("docs/architecture.md")
    for kind in kinds:
        if f"`{kind}`" not in page:
            yield f"docs/architecture.md: does not name the kind of program `{kind}`"


def names(files):
    known, folders = set(), set()
    for path in files:
        parts = path.split("/")
        known.update("/".join(parts[i:]) for i in range(len(parts)))
        folders.update("/".join(parts[:i]) for i in range(1, len(parts)))
    for path in files:
        if path.startswith(("tests/bench/results/", "tests/walks/")):
            continue
        text = read(path)
        for start, stretch in says(path, text):
            found = [(m.start(), m[1]) for m in FILE.finditer(stretch) if m[1] not in known]
            for m in PATH.finditer(stretch):
                plain = not re.search(r"[*{}A-Z]", m[1].replace("README", "").replace("CMakeLists", "").replace("TABLE", ""))
                if plain and m[1] not in known and m[1] not in folders:
                    found.append((m.start(), m[1]))
            for at, name in sorted(set(found)):
                if name not in FOREIGN and not name.startswith(("src/", "tests/test_", "karpathy/", "dnnl/", "archive/")):
                    yield f"{path}:{text.count(chr(10), 0, start + at) + 1}: names '{name}', which does not exist"


def main():
    os.chdir(sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True)
    if listed.returncode != 0:
        print("SKIP: check_facts: not a clone")
        return 77
    files = [path for path in listed.stdout.splitlines() if os.path.isfile(path)]
    wrong = [*names(files), *guards(path for path in files if path.endswith(".h")), *counts()]
    for line in wrong:
        print(line, file=sys.stderr)
    if not wrong:
        print(f"check_facts: {len(files)} files")
    return 1 if wrong else 0


sys.exit(main())
