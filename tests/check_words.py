#!/usr/bin/env python3
"""A comment begins with its subject, a noun or a verb, so that a reader in a hurry knows what it is about. Counts those that
begin with a conjunction or a relative word instead: What, Of, That, Whether, ...

    tests/check_words.py [DIR]     DIR: the tree to check (default: this one)

A line of // below another one continues it, and is not looked at. A comment without letters has no words.
"""
import os
import re
import sys

FOLDERS = ("core", "planner", "runner")
SOURCES = (".c", ".h", ".inc", ".cu", ".cuh", ".def")
WRONG = "what of that whether how where which as so but and or nor than else who whom whose why".split()
TOKEN = re.compile(r"""R"\((?:.*?)\)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|/\*.*?\*/|//[^\n]*""", re.S)
# Rooms that are not rewritten yet: how many such comments they may have. Numbers only fall, and a room at 0 leaves.
CEILING = {
}


def comments(text):
    """(offset, words) of each comment; the lines of // that follow each other are one."""
    end = None
    for token in TOKEN.finditer(text):
        if not token[0].startswith("/"):
            continue
        line_begin = text.rfind("\n", 0, token.start()) + 1
        continues = (end is not None and token[0].startswith("//") and not text[line_begin:token.start()].strip()
                     and text[end:line_begin] == "\n")
        end = token.end() if token[0].startswith("//") else None
        if not continues:
            yield token.start(), token[0].strip("/*!< \t\n")


def room_of(path):
    parts = path.split("/")
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]


def main():
    os.chdir(sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    wrong, count = {}, 0
    for folder in FOLDERS:
        for at, _, files in os.walk(folder):
            for path in sorted(os.path.join(at, name) for name in files if name.endswith(SOURCES)):
                with open(path, encoding="utf-8") as file:
                    text = file.read()
                for start, words in comments(text):
                    count += 1
                    first = re.match(r"[A-Za-z]+(?![\w(])", words)
                    if first and first[0].lower() in WRONG:
                        line = text.count("\n", 0, start) + 1
                        wrong.setdefault(room_of(path), []).append(f"{path}:{line}: '{' '.join(words.split()[:6])}'")
    if count < 1000:
        print(f"check_words: only {count} comments found", file=sys.stderr)
        return 2
    bad = False
    for room, lines in sorted(wrong.items()):
        if len(lines) > CEILING.get(room, 0):
            bad = True
            print("\n".join(lines), file=sys.stderr)
            print(f"{room}: {len(lines)} comments begin without a subject, {CEILING.get(room, 0)} may: begin each with the noun"
                  " that it is about, or a verb", file=sys.stderr)
    if not bad:
        print(f"check_words: {count} comments, {sum(map(len, wrong.values()))} begin without a subject")
    return 1 if bad else 0


sys.exit(main())
