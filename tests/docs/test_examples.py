#!/usr/bin/env python3
"""Runs what the documentation tells people to type, and compares what it shows with what is printed.

  test_examples.py BUILD SCRATCH PAGE...      from the root of the tree

A comment on the line before a fenced block says what the block is:

  <!-- file: PATH -->     a file; it is written there
  <!-- run -->            commands; they exit with 0. <!-- run: CODE -->: the last exits with CODE
  <!-- shows -->          lines of what the commands before it printed, in this order; "..." stands for
                          any lines
  <!-- not run: WHY -->   neither

Blocks of sh and yaml must have one. Each page has a folder of its own with copies of configs/ and
templates/, the programs in build/ and the tests' data, in which its blocks are run from top to
bottom. Moreover every link of every page leads somewhere.
"""
import glob
import os
import re
import shutil
import subprocess
import sys

build, scratch, pages = os.path.realpath(sys.argv[1]), sys.argv[2], sys.argv[3:]
bad = ran = 0


def complain(page, line, text):
    global bad
    bad += 1
    print(f"FAIL: {page}:{line}: {text}")


def blocks(path):
    """(line, language, mark, text) of every fenced block."""
    mark, language, start, body = "", None, 0, []
    for number, line in enumerate(open(path), 1):
        fence = re.match(r"```(\w*)", line)
        if language is None and fence:
            language, start, body = fence[1], number, []
        elif language is not None and fence:
            yield start, language, mark, "".join(body)
            language, mark = None, ""
        elif language is not None:
            body.append(line)
        elif line.strip():
            found = re.match(r"<!-- (.*) -->", line)
            mark = found[1] if found else ""
    if language is not None:
        complain(path, start, "a block without an end")


def shows(wanted, printed):
    """The first line of `wanted` that is not among the printed ones where it should be, or None."""
    at, anywhere = 0, True
    for line in wanted.splitlines():
        if line.strip() == "...":
            anywhere = True
            continue
        if anywhere:
            while at < len(printed) and printed[at] != line:
                at += 1
        if at >= len(printed) or printed[at] != line:
            return line
        at, anywhere = at + 1, False
    return None


def environment():
    """mpirun takes variables for its ranks from this one or from -x, which our scripts use: here
    all programs get them."""
    env = dict(os.environ)
    for setting in env.pop("OMPI_MCA_mca_base_env_list", "").split(";"):
        name, _, value = setting.partition("=")
        if name:
            env[name] = value
    env["LC_ALL"] = "C.UTF-8"  # the pages show plan's marks as it prints them there
    return env


def prepare(page):
    folder = os.path.join(scratch, os.path.splitext(page.replace("/", "_"))[0])
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder + "/build")
    for name in ("plan", "runner"):
        os.symlink(f"{build}/{name}", f"{folder}/build/{name}")
    for name in ("configs", "templates"):
        shutil.copytree(name, f"{folder}/{name}")
    shutil.copytree("tests/bench/published", f"{folder}/tests/bench/published")
    os.makedirs(f"{folder}/tests/oracle/fixtures")
    shutil.copy("tests/oracle/fixtures/tokenizers.tar.xz", f"{folder}/tests/oracle/fixtures")
    return folder


def anchors(path):
    """As GitHub makes them of headings."""
    for line in open(path):
        if line.startswith("#"):
            text = re.sub(r"[^\w\- ]", "", line.lstrip("#").strip().lower())
            yield text.replace(" ", "-")


def check_links(page):
    for number, line in enumerate(open(page), 1):
        for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", line)):
            if "://" in link:
                continue
            path, _, anchor = link.partition("#")
            path = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
            if not os.path.exists(path):
                complain(page, number, f"a link to '{path}', which does not exist")
            elif anchor and anchor not in anchors(path):
                complain(page, number, f"a link to '{anchor}', a heading that '{path}' does not have")


for page in ["README.md", *sorted(glob.glob("docs/**/*.md", recursive=True))]:
    check_links(page)
for page in pages:
    folder, printed, count = prepare(page), [], 0
    for line, language, mark, text in blocks(page):
        kind, _, what = mark.partition(":")
        what = what.strip()
        if kind == "file":
            path = os.path.join(folder, what)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            open(path, "w").write(text)
        elif kind == "run":
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", text], cwd=folder,
                                  env=environment(), stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, check=False)
            printed, count = (done.stdout + done.stderr).splitlines(), count + 1
            if done.returncode != int(what or 0):
                complain(page, line, f"exit {done.returncode}:\n{text}{done.stdout}{done.stderr}")
        elif kind == "shows":
            missing = shows(text, printed)
            if missing is not None:
                complain(page, line, f"this is not what is printed there: {missing}")
        elif kind == "not run" and what:
            pass
        elif language in ("sh", "yaml") or mark:
            complain(page, line, f"a block of {language} that says not what it is: '{mark}'")
    print(f"{page}: {count} blocks were run")
    ran += count
if ran == 0:
    complain("no page", 0, "nothing was run")
sys.exit(bad > 0)
