#!/usr/bin/env python3
"""Counts circles between source files, by the linker's symbols, and refuses more than docs/architecture.md names.

    tests/check_circles.py BUILD      the objects of that build folder: who needs a symbol that another file defines
    tests/check_circles.py BUILD -v   also each circle's arrows with one symbol each

A circle is a set of files each of which needs, perhaps through others, every other one. Allowed circles stand in
docs/architecture.md, a line each between the marks `circles` and `end of circles`: `folder: files`. A circle may lose files, and go;
it may not gain any.
"""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def objects(build):
    """Source file -> its object, of the libraries and programs of core, planner and runner."""
    found = {}
    for folder, _, files in os.walk(os.path.join(build, "parts")):
        for name in files:
            match = re.search(r"parts/(.*)/CMakeFiles/[^/]+\.dir/(.*)\.o$", os.path.join(folder, name))
            if match:
                source = os.path.normpath(os.path.join(match[1], match[2].replace("__/", "../")))
                if os.path.exists(os.path.join(ROOT, source)):
                    found[source] = os.path.join(folder, name)
    return found


def graph(found):
    """Source file -> {source file that it needs: a symbol}."""
    owner, needs = {}, {}
    listing = subprocess.run(["nm", "-A", *found.values()], capture_output=True, text=True, check=True).stdout
    source_of = {path: source for source, path in found.items()}
    for line in listing.splitlines():
        path, rest = line.split(":", 1)
        fields = rest.split()
        kind, symbol = fields[-2], fields[-1]
        if kind == "U":
            needs.setdefault(source_of[path], []).append(symbol)
        elif kind in "TDRBVW":
            owner[symbol] = source_of[path]
    arrows = {source: {} for source in found}
    for source, symbols in needs.items():
        for symbol in symbols:
            if symbol in owner and owner[symbol] != source:
                arrows[source].setdefault(owner[symbol], symbol)
    return arrows


def circles(arrows):
    """Strongly connected components of more than one file (Tarjan 1972), the largest first."""
    index, low, on, stack, out = {}, {}, set(), [], []

    def visit(file):
        index[file] = low[file] = len(index)
        stack.append(file)
        on.add(file)
        for other in arrows[file]:
            if other not in index:
                visit(other)
                low[file] = min(low[file], low[other])
            elif other in on:
                low[file] = min(low[file], index[other])
        if low[file] == index[file]:
            part = []
            while not part or part[-1] != file:
                part.append(stack.pop())
                on.discard(part[-1])
            if len(part) > 1:
                out.append(sorted(part))

    sys.setrecursionlimit(10000)
    for file in sorted(arrows):
        if file not in index:
            visit(file)
    return sorted(out, key=lambda part: (-len(part), part))


def allowed():
    with open(os.path.join(ROOT, "docs/architecture.md"), encoding="utf-8") as page:
        match = re.search(r"<!-- circles -->(.*?)<!-- end of circles -->", page.read(), re.S)
    rows = re.findall(r"^\* ([^:]+): (.*?)(?:\. |\.$)", match[1] if match else "", re.M)
    return [{f"{folder.strip('`')}/{file}" for file in re.findall(r"`([^`]+)`", files)} for folder, files in rows]


def main():
    arrows = graph(objects(sys.argv[1]))
    if len(arrows) < 100:
        sys.exit(f"check_circles: {len(arrows)} objects in '{sys.argv[1]}': nothing to judge")
    bad, named = 0, allowed()
    for part in circles(arrows):
        fine = any(set(part) <= one for one in named)
        if not fine or "-v" in sys.argv:
            print(f"{len(part)} files: {' '.join(part)}" + ("" if fine else ": not named in docs/architecture.md"))
        if "-v" in sys.argv:
            for file in part:
                for other in part:
                    if other in arrows[file]:
                        print(f"    {file} -> {other}: {arrows[file][other]}")
        bad += not fine
    print(f"check_circles: {len(arrows)} files, {len(circles(arrows))} circles, {bad} of them not named")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
