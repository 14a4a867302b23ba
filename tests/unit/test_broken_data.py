#!/usr/bin/env python3
"""Data files that are broken, each refused in one line with its file and place before anything is made of it; and whole ones,
whose tokens, documents and labels that count are found here a second time.

    test_broken_data.py BUILD SCRATCH [DRAWS [SEED]]

A table of broken files for `runner tokenize` and `runner train`; then DRAWS files of lines as people have them, and for each
a damage, which is refused where Python's json refuses it; and as many damages of tokens and their index.
"""
import gzip
import json
import os
import pathlib
import pty
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "support"))
from scratch import scratch_in

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(sys.argv[1]).resolve()
SCRATCH = pathlib.Path(scratch_in(sys.argv[2]))
DRAWS = int(sys.argv[3]) if len(sys.argv) > 3 else 20
SEED = int(sys.argv[4]) if len(sys.argv) > 4 else 1
SPECIAL = ("<|end|>", "<|im_start|>", "<|im_end|>")
END, START, TURN = 256, 257, 258
wrong = 0


def complain(text):
    global wrong
    wrong += 1
    print("FAIL:", text)


def runner(*arguments):
    return subprocess.run([BUILD / "runner", *arguments], cwd=SCRATCH, text=True, errors="replace", capture_output=True)


# ---- a tokenizer whose tokens are bytes, and what it makes of texts ----

def byte_names():
    """GPT-2's characters for bytes."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    names, more = {byte: chr(byte) for byte in kept}, 256
    for byte in range(256):
        if byte not in names:
            names[byte] = chr(more)
            more += 1
    return names


def write_model(folder, template=None):
    (SCRATCH / folder).mkdir(exist_ok=True)
    added = [{"id": 256 + i, "content": word, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": True} for i, word in enumerate(SPECIAL)]
    (SCRATCH / folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "added_tokens": added, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": {name: byte for byte, name in byte_names().items()}, "merges": []}}))
    (SCRATCH / folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": SPECIAL[0]}))
    if template is not None:
        (SCRATCH / folder / "chat_template.jinja").write_text(template)


def as_bytes(text):
    return list(re.sub("[\ud800-\udfff]", "\ufffd", text).encode())


def tokens_of(line):
    """Tokens of a line, and for each whether it counts, in ChatML."""
    if line.get("text") is not None:
        tokens = as_bytes(line["text"]) + [END]
        return tokens, [True] * len(tokens)
    tokens, counts = [], []
    for message in line["messages"]:
        head = [START, *as_bytes(message["role"] + "\n")]
        said = [*as_bytes(message["content"]), TURN]
        tokens += [*head, *said, *as_bytes("\n")]
        counts += [False] * len(head) + [message["role"] == "assistant"] * len(said) + [False]
    return tokens, counts


def read_index(name):
    data = (SCRATCH / (name + ".index")).read_bytes()
    version, flags, size, _, tokens, documents, largest, counted, spans, source = struct.unpack_from("<IIQQqqqqqQ", data, 8)
    numbers = struct.unpack_from(f"<{documents + 2 * spans}Q", data, 128)
    assert data[:8] == b"SWTOKIDX" and version == 1 and len(data) == 128 + 8 * len(numbers) + source
    assert size == os.path.getsize(SCRATCH / name)
    return {"masked": flags == 1, "tokens": tokens, "largest": largest, "counted": counted, "end": list(numbers[:documents]),
            "span": list(zip(numbers[documents::2], numbers[documents + 1::2])), "source": json.loads(data[-source:-1])}


def expect_made(name, lines, about):
    """The tokens in `name`, their documents and what counts are those of the lines."""
    tokens, counts, ends = [], [], []
    for line in lines:
        more, counted = tokens_of(line)
        tokens += more
        counts += counted
        ends.append(len(tokens))
    data = (SCRATCH / name).read_bytes()
    made = list(struct.unpack_from(f"<{(len(data) - 1024) // 2}H", data, 1024))
    if made != tokens or struct.unpack_from("<III", data) != (20240520, 1, len(tokens)):
        return complain(f"{about}: other tokens")
    index = read_index(name)
    begins = {0, *ends}
    labels = sum(counted and i not in begins for i, counted in enumerate(counts))
    found = [not index["masked"]] * len(tokens)
    for begin, end in index["span"]:
        found[begin:end] = [True] * (end - begin)
    if (index["tokens"], index["largest"], index["end"]) != (len(tokens), max(tokens), ends):
        complain(f"{about}: other documents in the index")
    if found != counts or index["counted"] != labels:
        complain(f"{about}: other labels count: {index['counted']}, not {labels}")
    return None


# ---- refusals ----

def files():
    return {path.name: path.read_bytes() for path in SCRATCH.iterdir() if path.is_file()}


def expect_refused(about, done, before, pattern, gone=()):
    """In one line that the pattern, a regular expression, describes; no file came, went or changed but `gone`."""
    lines = done.stderr.splitlines()
    if done.returncode != 2 or len(lines) != 1 or not re.search(pattern, lines[0]) or done.stdout:
        complain(f"{about}: left with {done.returncode}; not {pattern}:\n{done.stdout}{done.stderr[:600]}")
    after = files()
    if {n: d for n, d in after.items() if n not in gone} != {n: d for n, d in before.items() if n not in gone}:
        complain(f"{about}: files changed: {sorted(set(after) ^ set(before)) or 'contents'}")


GOOD = b'{"text": "good"}\n'
CHAT = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]


def with_messages(messages, **others):
    return json.dumps({"messages": messages, **others}).encode()


def where(line, column, what):
    return rf"^in\.jsonl:{line}:{column}: error: {what}"


BROKEN = [
    ("cut within a text", GOOD + b'{"text": "ab', where(2, 13, "not valid JSON: the text ends")),
    ("cut within an escape", GOOD + b'{"text": "ab\\u00', where(2, r"\d+", "not valid JSON")),
    ("cut behind a key", GOOD + b'{"text"', where(2, r"\d+", "not valid JSON")),
    ("cut within messages", GOOD * 2 + with_messages(CHAT)[:-9], where(3, r"\d+", "not valid JSON")),
    ("no UTF-8", GOOD + b'{"text": "\xe9t\xe9"}\n', where(2, 11, "not valid JSON: a text that is not UTF-8")),
    ("UTF-8 that is cut", GOOD + b'{"text": "\xe2\x82"}\n', where(2, 11, "not valid JSON: a text that is not UTF-8")),
    ("UTF-8 longer than needed", b'{"text": "\xc0\xaf"}\n', where(1, 11, "not valid JSON: a text that is not UTF-8")),
    ("no UTF-8 in another key", GOOD + b'{"\xff": 1, "text": "a"}\n', where(2, r"\d+", "not valid JSON")),
    ("empty", b"", r"^in\.jsonl: error: the file is empty"),
    ("a mark and blank lines", b"\xef\xbb\xbf\r\n \n\t\n", r"^in\.jsonl: error: the file is empty"),
    ("neither", GOOD + b'{"prompt": "a", "completion": "b"}\n', where(2, 1, "no object with a 'text' or with 'messages'")),
    ("only nulls", b'{"text": null, "messages": null}', where(1, 1, "no object with a 'text' or with 'messages'")),
    ("both", GOOD + with_messages(CHAT, text="a"), where(2, 1, "both a 'text' and 'messages'")),
    ("a list", b'[{"text": "a"}]\n', where(1, 1, "no object")),
    ("a number", GOOD + b"17\n", where(2, 1, "no object")),
    ("two objects in a line", b'{"text": "a"} {"text": "b"}\n', where(1, 15, "not valid JSON")),
    ("Python's quotes", b"{'text': 'a'}\n", where(1, 2, "not valid JSON")),
    ("a line break in a text", b'{"text": "a\nb"}\n', where(1, r"\d+", "not valid JSON")),
    ("a text that is a number", GOOD + b' {"a": {"text": 1}, "text": 1}\n', where(2, 21, "'text' must be a string")),
    ("messages that are a text", b'{"messages": "a"}\n', where(1, 2, "'messages' must be a list")),
    ("no messages", b'{"messages": []}\n', where(1, 2, "'messages' must be a list of one or more")),
    ("a message that is a text", with_messages([*CHAT, "a"]), where(1, 2, "message 3 is no object")),
    ("no role", with_messages([*CHAT, {"content": "a"}]), where(1, 2, "message 3 has no 'role'")),
    ("a role that is null", with_messages([{"role": None, "content": "a"}]), where(1, 2, "message 1 has no 'role'")),
    ("no content", with_messages([CHAT[0], {"role": "assistant"}]), where(1, 2, "message 2 has no 'content'")),
    ("a content that is null", with_messages([{"role": "user", "content": None}]), where(1, 2, "message 1 has no 'content'")),
    ("a content that is a number", with_messages([{"role": "user", "content": 7}]), where(1, 2, "message 1: 'content' must be")),
    ("a picture", with_messages([{"role": "user", "content": [{"type": "image"}]}]), where(1, 2, "message 1: part 1 is not text")),
    ("tools that are a number", with_messages(CHAT, tools=3), where(1, 2, "'tools' must be a list of objects")),
    ("tools that the template does not write", with_messages(CHAT, tools=[{"name": "f"}]), where(1, 2, "the chat template writes no")),
    ("another key nested too deep", b'{"text": "a", "b": ' + b"[" * 3000 + b"]" * 3000 + b"}", where(1, r"\d+", "not valid JSON")),
    ("a content nested too deep", b'{"messages": [{"role": "user", "content": ' + b"[" * 3000, where(1, r"\d+", "not valid JSON")),
    ("zero bytes", GOOD + b'{"text": "a\0b"}\n', where(2, r"\d+", "not valid JSON")),
    ("UTF-16", '{"text": "a"}\n'.encode("utf-16"), r"^in\.jsonl: error: has zero bytes.*iconv"),
    ("packed", gzip.compress(GOOD * 99, mtime=0), r"^in\.jsonl: error: is compressed, no text; unpack it"),
]
TEXTS = [
    ("zero bytes behind the first page", b"ab\n" * 40000 + "é".encode() + b"\0", r"^in\.txt:40001:2: error: a zero byte"),
    ("zero bytes", b"a\0b", r"^in\.txt: error: has zero bytes"),
    ("packed text", gzip.compress(b"text", mtime=0), r"^in\.txt: error: is compressed"),
    ("an empty text", b"", r"^in\.txt: error: the file is empty"),
]
TEMPLATES = [
    ("a template's refusal", "{{ raise_exception('no ' + messages[0].role) }}", where(2, 2, ".*no user")),
    ("a template that fails", "\n{{ messages[0].content + 1 }}",
     where(2, 2, r".*chat_template\.jinja:2:24: no '\+' between str and int")),
    ("a template that is none", "a\n{% for %}", r"chat_template\.jinja:2:\d+: error: "),
    ("no template", None, where(2, 2, "messages need a chat template")),
]


def tokenize_broken():
    (SCRATCH / "in.jsonl").write_bytes(GOOD)
    done = runner("tokenize", "--tokenizer", "model", "in.jsonl", "out.bin")
    assert done.returncode == 0, done.stderr
    count = 0
    for table, name in ((BROKEN, "in.jsonl"), (TEXTS, "in.txt")):
        for about, data, pattern in table:
            (SCRATCH / name).write_bytes(data)
            done = runner("tokenize", "--tokenizer", "model", "text.txt", name, "out.bin")
            expect_refused(about, done, {**files(), name: data}, pattern)
            count += 1
    (SCRATCH / "in.jsonl").write_bytes(GOOD + with_messages(CHAT))
    for about, template, pattern in TEMPLATES:
        shutil.rmtree(SCRATCH / "other", ignore_errors=True)
        write_model("other", template)
        options = [] if template is not None else ["--chat-template", "none"]
        before = files()
        expect_refused(about, runner("tokenize", "--tokenizer", "other", *options, "in.jsonl", "out.bin"), before, pattern)
        count += 1
    for about, arguments, pattern in (
            ("a folder", ["model", "out.bin"], r"^model: error: this is a folder"),
            ("no file", ["text.txt", "nosuch.jsonl", "out.bin"], r"^nosuch\.jsonl: error: cannot open"),
            ("the index as an input", ["out.bin.index", "out.bin"], r"^out\.bin\.index: error: this is the file to tokenize")):
        before = files()
        expect_refused(about, runner("tokenize", "--tokenizer", "model", *arguments), before, pattern)
        count += 1
    return count


# ---- training ----

def patched(data, at, more):
    return data[:at] + more + data[at + len(more):]


def train(about, pattern, tokens=None, index=None):
    """With these bytes as t.bin and t.bin.index; None: no file."""
    for name, data in (("t.bin", tokens), ("t.bin.index", index)):
        (SCRATCH / name).unlink(missing_ok=True)
        if data is not None:
            (SCRATCH / name).write_bytes(data)
    before = files()
    done = runner("train", "tiny.plan.yaml", "--resume", "none", "--overwrite")
    if pattern is None:
        if done.returncode != 0 or "step 2/2" not in done.stdout + done.stderr:
            complain(f"{about}: left with {done.returncode}: {done.stdout}{done.stderr[:600]}")
    else:
        expect_refused(about, done, before, pattern)


def train_broken():
    done = runner("tokenize", "--bytes", "text.txt", "t.bin")
    assert done.returncode == 0, done.stderr
    subprocess.run([BUILD / "plan", "emit", "run.yaml", "-o", ".", "--set", "data.path=t.bin"], cwd=SCRATCH, check=True,
                   capture_output=True)
    raw = (SCRATCH / "text.txt").read_bytes() * 20
    (SCRATCH / "long.txt").write_bytes(raw)
    done = runner("tokenize", "--bytes", "long.txt", "t.bin")
    good, index = (SCRATCH / "t.bin").read_bytes(), (SCRATCH / "t.bin.index").read_bytes()
    count, last = len(raw), len(good) - 2
    other, damaged = r"^t\.bin\.index: error: the index of other data", r"^t\.bin\.index: error: the index is damaged"
    beyond = struct.pack("<H", 300)
    train("whole tokens", None, good, index)
    train("whole tokens without an index", None, good)
    (SCRATCH / "wide.jsonl").write_bytes(GOOD * 4000)
    done = runner("tokenize", "--tokenizer", "model", "wide.jsonl", "wide.bin")
    wide = (SCRATCH / "wide.bin").read_bytes(), (SCRATCH / "wide.bin.index").read_bytes()
    table = [
        ("the first token beyond the vocabulary", r"'t\.bin': token 300 at position 0 ", patched(good, 1024, beyond), None),
        ("a late token beyond it", rf"t\.bin: error: token 300 at position {count - 1000} ", patched(good, last - 1998, beyond), None),
        ("the last token beyond it", rf"t\.bin: error: token 300 at position {count - 1} ", patched(good, last, beyond), None),
        ("the same with an index", other, patched(good, last, beyond), index),
        ("a token in the middle, with an index", other, patched(good, count // 2 * 2, b"\1\1"), index),
        ("tokens of a larger vocabulary with their index", r"t\.bin'?:.* token 256 at position 4 ", *wide),
        ("no bytes", r"t\.bin: error: the data file is empty", b"", None),
        ("no tokens behind a header", r"t\.bin: error: 0 tokens to train on",
         struct.pack("<III", 20240520, 1, 0) + bytes(1012), None),
        ("half a token", r"'t\.bin': .*no whole number of 2-byte tokens", bytes(range(1, 200)) * 9, None),
        ("half a token behind a header", r"'t\.bin': the header says", good + b"\0", None),
        ("fewer tokens than the header says", r"'t\.bin': the header says", good[:-2], None),
        ("another version", r"'t\.bin': a token file of version 3", patched(good, 4, b"\3"), None),
        ("an evaluation's questions", r"'t\.bin': llm\.c's questions", patched(good, 0, struct.pack("<I", 20240522)), None),
        ("an unknown header", r"'t\.bin': a header of the unknown magic", patched(good, 0, struct.pack("<I", 20260131)), None),
        ("too few tokens", r"t\.bin: error: 32 tokens to train on, a sequence takes 33",
         struct.pack("<III", 20240520, 1, 32) + bytes(1012 + 64), None),
        ("text in a file of tokens", r"'t\.bin' is plain text", raw, None),
        ("an index of fewer tokens", other, struct.pack("<III", 20240520, 1, count - 1) + good[12:-2], index),
        ("an index of the same length", other, patched(good, 5000, b"\7\0\7\0"), index),
        ("an index that is cut in its header", r"^t\.bin\.index: error: not an index", good, index[:100]),
        ("an index that is cut behind it", damaged, good, index[:-3]),
        ("an index without bytes", r"^t\.bin\.index: error: not an index", good, b""),
        ("an index with a flipped bit", damaged, good, patched(index, 131, b"\1")),
        ("an index of another magic", r"^t\.bin\.index: error: not an index", good, patched(index, 0, b"MMIDIDX\0")),
        ("an index of a later version", r"^t\.bin\.index: error: an index of version 9", good, patched(index, 8, b"\x09")),
    ]
    for about, pattern, tokens, beside in table:
        train(about, pattern, tokens, beside)
    (SCRATCH / "long.txt").write_bytes(raw * (20000000 // count))
    done = runner("tokenize", "--bytes", "long.txt", "t.bin")
    with open(SCRATCH / "t.bin", "r+b") as out:
        out.seek(1024 + 2 * 9990000)
        out.write(beyond)
    expect_refused("a token beyond the vocabulary where no digest looks",
                   runner("train", "tiny.plan.yaml", "--resume", "none", "--overwrite"), files(),
                   r"^t\.bin: error: token 300 at position 9990000 ")
    (SCRATCH / "long.txt").unlink()
    return len(table) + 1, good, index


# ---- drawn lines and damages ----

def draw_text(rng, escapes):
    """With half of a pair, which only an escape can write."""
    pieces = ["a", "bc ", "é", "漢", "🙂", "\n", '"', "\\", "\t", "<|im_end|>", "<|end|>", "\u2028", "\x7f", "end", "\0"]
    return "".join(rng.choice(pieces + ["\ud800"] * escapes) for _ in range(rng.randrange(12)))


def draw_other(rng):
    """A value of another key, as it is written."""
    return rng.choice(("NaN", "-Infinity", "1e999", "123456789012345678901234567890", "-0.0", "null", "true", '"\\ud800"',
                       '{"text": 1, "messages": {}}', "[[], [1, {}]]", '"\\u0000"', "0.1e-400", '""'))


def draw_line(rng):
    """A line as its value and as it is written."""
    escapes = rng.random() < 0.5
    if rng.random() < 0.5:
        line = {"text": draw_text(rng, escapes)}
    else:
        roles = [rng.choice(("system", "user", "assistant", "assistant")) for _ in range(rng.randrange(1, 6))]
        line = {"messages": [{"role": role, "content": draw_text(rng, escapes)} for role in roles]}
    written = json.dumps(line, ensure_ascii=escapes)
    for _ in range(rng.randrange(3)):
        name = rng.choice(("id", "x", "score", "weight", "é", "a\\u0000b"))
        if rng.random() < 0.5:
            written = f'{{"{name}": {draw_other(rng)}, {written[1:]}'
        else:
            written = f'{written[:-1]},\t"{name}":{draw_other(rng)}}}'
    if rng.random() < 0.1: # the last of two counts
        key = next(iter(line))
        written = f'{{"{key}": 7, {written[1:]}'
    if rng.random() < 0.1:
        written = f'{{"{"messages" if "text" in line else "text"}": null, {written[1:]}'
    return line, written


def draw_file(rng):
    lines, data = [], b"\xef\xbb\xbf" if rng.random() < 0.3 else b""
    for _ in range(rng.randrange(1, 8)):
        line, written = draw_line(rng)
        lines.append(line)
        data += written.encode() + rng.choice((b"\n", b"\r\n", b"\n\n", b" \n", b"\n \t\r\n"))
    return lines, data[:-1] if rng.random() < 0.3 and data.endswith(b"}\n") else data


def damage(rng, data):
    at = rng.randrange(len(data))
    kind = rng.randrange(5)
    if kind == 0:
        return data[:at]
    if kind == 1:
        return patched(data, at, bytes([data[at] ^ 1 << rng.randrange(8)]))
    if kind == 2:
        return data[:at] + rng.choice((b"\0", b"\xff", b'"', b"}", b"{", b"\\", b",", b"\n")) + data[at:]
    if kind == 3:
        return data[:at] + data[at + rng.randrange(1, 30):]
    return data.replace(rng.choice((b'"role"', b'"content"', b'"text"', b'"messages"', b'"assistant"')), b'"other"')


def whole(line):
    """True if a line's value is one that can be tokenized."""
    if not isinstance(line, dict) or (line.get("text") is None) == (line.get("messages") is None):
        return False
    if line.get("text") is not None:
        return isinstance(line["text"], str)
    return isinstance(line["messages"], list) and len(line["messages"]) > 0 and all(
        isinstance(m, dict) and m.get("role") in ("system", "user", "assistant") and isinstance(m.get("content"), str)
        for m in line["messages"])


def lines_of(data):
    """The lines as Python reads them; None: it refuses one, or a line is none to tokenize."""
    lines = []
    data = data.removeprefix(b"\xef\xbb\xbf")
    for line in data.split(b"\n"):
        if line.strip(b" \t\r"):
            try:
                lines.append(json.loads(line.decode("utf-8")))
            except ValueError:
                return None
    return lines if lines and all(map(whole, lines)) else None


def expect_lines(about, data, bare):
    """As a file, or through a pipe without an ending in its name."""
    lines = lines_of(data)
    before = files()
    for name in ("drawn.bin", "drawn.bin.index"):
        (SCRATCH / name).unlink(missing_ok=True)
        before.pop(name, None)
    name, more = ("/dev/fd/0", ["--jsonl"]) if bare else ("drawn.jsonl", [])
    (SCRATCH / "drawn.jsonl").write_bytes(data)
    before["drawn.jsonl"] = data
    done = subprocess.run([BUILD / "runner", "tokenize", "--tokenizer", "model", *more, name, "drawn.bin"], cwd=SCRATCH,
                          input=data.decode("latin-1") if bare else None, encoding="latin-1", capture_output=True)
    if lines is None:
        expect_refused(f"{about}, {data!r}", done, before, rf"^{re.escape(name)}:(\d+:\d+:)? error: ")
    elif done.returncode != 0:
        complain(f"{about}, {data!r}: refused: {done.stderr}")
    else:
        expect_made("drawn.bin", lines, f"{about}, {data!r}")
    return lines is not None


def draw_lines():
    accepted = 0
    for i in range(DRAWS):
        rng = random.Random(SEED * 1000003 + i)
        lines, data = draw_file(rng)
        if lines_of(data) is None:
            complain(f"draw {i} of seed {SEED}: the test's own lines are none")
        expect_lines(f"draw {i} of seed {SEED}", data, rng.random() < 0.3)
        accepted += expect_lines(f"damage {i} of seed {SEED}", damage(rng, data), rng.random() < 0.3)
    return accepted


def draw_damages(good, index):
    """Of tokens or of their index: refused, unless the file is as it was."""
    for i in range(DRAWS // 4):
        rng = random.Random(SEED * 2000003 + i)
        of_index = rng.random() < 0.5
        data = damage(rng, index if of_index else good)
        same = data == (index if of_index else good)
        train(f"damaged {'index' if of_index else 'tokens'} {i} of seed {SEED}", None if same else r"t\.bin(\.index)?\b.*; |t\.bin",
              good if of_index else data, data if of_index else index)


# ---- pipes, signals, a terminal ----

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def hear_signals():
    """A shell's background command begins with some of them ignored."""
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)


def start(*arguments, **others):
    return subprocess.Popen([BUILD / "runner", "tokenize", "--tokenizer", "model", *arguments], cwd=SCRATCH,
                            stdout=subprocess.PIPE, preexec_fn=hear_signals, **others)


def wait_for(what, done):
    for _ in range(2000):
        if done():
            return
        time.sleep(0.005)
    complain(f"{what} was waited for in vain")


def read_pipes():
    """Two pipes, opened once each, as their writers see it."""
    for name in ("one.jsonl", "two.jsonl"):
        os.mkfifo(SCRATCH / name)
    odd = "a\udcff\u200b\nb.jsonl"  # not UTF-8, a character that nobody sees, a line break
    (SCRATCH / odd).write_bytes(GOOD)
    process = start("one.jsonl", "in.jsonl", odd, "two.jsonl", "piped.bin", stderr=subprocess.DEVNULL)
    lines = [{"text": "é" * 40000}, {"messages": CHAT}]
    for name in ("one.jsonl", "two.jsonl"):
        with open(SCRATCH / name, "w") as out:
            for line in lines:
                out.write(json.dumps(line) + "\n")
    if process.wait(60) != 0:
        complain("pipes: not read")
    else:
        expect_made("piped.bin", [*lines, {"text": "good"}, {"messages": CHAT}, {"text": "good"}, *lines], "pipes")
        source = read_index("piped.bin")["source"]
        if (source["inputs"], source["tokenizer"], source["template"], source["input_count"]) != (
                ["one.jsonl", "in.jsonl", "a\ufffd?\nb.jsonl", "two.jsonl"], "model", "chatml", 4):
            complain(f"pipes: made of {source}")


def interrupt():
    """While a pipe is waited for, and behind a line of it."""
    for number, text in zip(ENDING, ("", '{"text": "a"}\n', '{"text": ')):
        before = files()
        process = start("one.jsonl", "out.bin", stderr=subprocess.DEVNULL)
        with open(SCRATCH / "one.jsonl", "w") as out:
            out.write(text)
            out.flush()
            wait_for("the file aside", lambda: any(path.name.startswith(".out.bin.") for path in SCRATCH.iterdir()))
            process.send_signal(number)
            if process.wait(60) != -number:
                complain(f"{number.name}: left with {process.returncode}")
        if files() != before:
            complain(f"{number.name}: files changed: {sorted(set(files()) ^ set(before)) or 'contents'}")


def show_progress():
    ours, theirs = pty.openpty()
    process = start("one.jsonl", "piped.bin", stderr=theirs)
    os.close(theirs)
    with open(SCRATCH / "one.jsonl", "w") as out:
        for _ in range(3):
            out.write('{"text": "abc"}\n')
            out.flush()
            time.sleep(0.15)
    said = b""
    while process.poll() is None or not said.endswith(b"more\r\n"):
        try:
            said += os.read(ours, 4096)
        except OSError:
            break
    os.close(ours)
    if process.wait(60) != 0 or not re.search(rb"\r\x1b\[K0\.0 MB, [12] documents?, [48] tokens.*\r\x1b\[Kpiped\.bin: 12 tokens",
                                            said):
        complain(f"a terminal saw {said!r}")


def main():
    for name in ("run.yaml", "model.yaml", "cluster.yaml", "text.txt"):
        shutil.copy(ROOT / "tests/mistakes/start" / name, SCRATCH)
    write_model("model")
    count = tokenize_broken()
    trained, good, index = train_broken()
    accepted = draw_lines()
    draw_damages(good, index)
    read_pipes()
    interrupt()
    show_progress()
    print(f"{count + trained} broken files, {DRAWS} drawn ones and as many damages of them ({accepted} left lines that are whole), "
          f"{DRAWS // 4} of tokens and indices, seed {SEED}: {wrong} answered wrongly")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
