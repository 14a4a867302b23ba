#!/usr/bin/env python3
"""Texts as Python's json.dumps writes them, and what Python reads in them.

  json_texts.py SEED COUNT FILE

Three lines a draw, as hexadecimal digits: the text, its values in a form of their own, and what
transformers' tojson makes of the member "w". Half a surrogate pair, which is in no UTF-8, is U+FFFD
in what is expected.
"""
import json
import random
import struct
import sys

seed, count, out = int(sys.argv[1]), int(sys.argv[2]), open(sys.argv[3], "w")
draw = random.Random(seed)
ODD = ["\0", "\x01", "\x1f", '"', "\\", "/", "\b", "\f", "\n", "\r", "\t", "\x7f", "\x85", "\u2028", "\ud800", "\udbff",
       "\udc00", "\udfff", "\ufeff", "\ufffe", "\U0001f600", "\U0010ffff", "é", "漢", "<|im_end|>", "'", "{{", "#", ": ", "é"]


def text():
    kind = draw.random()
    if kind < 0.4:
        return "".join(draw.choice("abcdefghij_ ") for _ in range(draw.randrange(12)))
    return "".join(draw.choice(ODD) if draw.random() < 0.5 else chr(draw.choice([draw.randrange(128), draw.randrange(0x110000)]))
                   for _ in range(draw.randrange(1, 9)))


def number():
    sign = draw.choice([1, -1])
    return draw.choice([
        lambda: sign * draw.randrange(100), lambda: sign * (2**63 + draw.randrange(-2, 3)),
        lambda: sign * draw.randrange(10**18, 10**40), lambda: sign * 10**draw.randrange(400), lambda: int(1e30),
        lambda: 2**64 - 1, lambda: sign * draw.random(), lambda: sign * draw.random() * 10.0**draw.randrange(-320, 308),
        lambda: float(draw.randrange(10**6)), lambda: struct.unpack("<d", struct.pack("<Q", draw.getrandbits(64)))[0],
        lambda: float("nan"), lambda: sign * float("inf"), lambda: -0.0, lambda: 5e-324, lambda: 1.7976931348623157e308])()


def value(depth):
    kind = draw.random()
    if depth < 5 and kind < 0.25:
        return {text(): value(depth + 1) for _ in range(draw.randrange(6))}
    if depth < 5 and kind < 0.45:
        return [value(depth + 1) for _ in range(draw.randrange(6))]
    return draw.choice([text, number, number, lambda: draw.choice([True, False, None])])()


def dumped(root):
    options = {"ensure_ascii": draw.random() < 0.6, "sort_keys": draw.random() < 0.2,
               "indent": draw.choice([None, None, 0, 2, "\t"]), "separators": draw.choice([None, (",", ":"), (" , ", " : ")])}
    written = json.dumps(root, **options)
    if not options["ensure_ascii"]:  # no file can hold half a pair
        written = clean(written)
    if draw.random() < 0.2:  # as PHP writes it
        written = written.replace("/", "\\/")
    return draw.choice(["", "", "", "\ufeff", "\n "]) + written + draw.choice(["", "\n", " \r\n"])


def clean(text):
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def cleaned(root):
    if isinstance(root, str):
        return clean(root)
    if isinstance(root, list):
        return [cleaned(one) for one in root]
    return {clean(key): cleaned(one) for key, one in root.items()} if isinstance(root, dict) else root


def shape(root):
    if root is None or root is True or root is False:
        return {None: "n", True: "t", False: "f"}[root]
    if isinstance(root, int):
        return f"i{root};"
    if isinstance(root, float):
        return "nan;" if root != root else "d" + struct.pack(">d", root).hex() + ";"
    if isinstance(root, str):
        return "s" + root.encode().hex() + ";"
    if isinstance(root, list):
        return "[" + "".join(map(shape, root)) + "]"
    return "{" + "".join(shape(key) + shape(one) for key, one in root.items()) + "}"


# what other programs write, and the two that began it
FIXED = ['{"model_max_length": 1000000000000000019884624838656, "w": 1}', '{"w": [1e400, -1e400, 1E+2, 0e0, -0, 1e-999]}',
         '{"w": 1.' + "1234567890" * 90 + 'e-5}', '{"w": ' + "9" * 1000 + "}", '{"w": 1, "b": {"a": 2, "a": 3}, "w": 4}',
         '{"w": "\\uD83D\\uDE00 \\ud83d\\ud83d\\ude00 \\ude00\\ud83d"}', '{"simhash": 18446744073709551615, "w": NaN}']
for i in range(count):
    root = {"w": value(0)} if i % 2 else {"key " + text(): value(0), "other": value(0), "w": value(0)}
    written = FIXED[i] if i < len(FIXED) else dumped(root)
    read = cleaned(json.loads(written.lstrip("\ufeff")))
    print(written.encode().hex(), file=out)
    print(shape(read).encode().hex(), file=out)
    print(json.dumps(read["w"], ensure_ascii=False).encode().hex(), file=out)
