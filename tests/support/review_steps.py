#!/usr/bin/env python3
"""The commands of a job of examples/review, as the forge would run them: review_steps.py FILE [STEP]

STEP: the name of a step (GitHub); without it the whole script (GitLab).
"""
import sys

lines = open(sys.argv[1]).read().split("\n")
def block(at, indent):  # the lines of a "|" block
    out = []
    while at < len(lines) and (not lines[at].strip() or len(lines[at]) - len(lines[at].lstrip()) >= indent):
        out.append(lines[at][indent:])
        at += 1
    return "\n".join(out) + "\n"
if len(sys.argv) > 2:
    at = next(i for i, line in enumerate(lines) if line.strip() == "- name: " + sys.argv[2])
    at = next(i for i in range(at, len(lines)) if lines[i].strip() == "run: |")
    sys.stdout.write(block(at + 1, 10))
else:
    at = lines.index("  script:") + 1
    while lines[at].startswith("    "):
        if lines[at] == "    - |":
            sys.stdout.write(block(at + 1, 6))
        elif lines[at].startswith("    - "):
            print(lines[at][6:])
        at += 1
