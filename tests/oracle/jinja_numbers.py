#!/usr/bin/env python3
"""Expressions of numbers, and what Python makes of them.

  jinja_numbers.py SEED COUNT FILE [--jinja]

Two lines a draw: a Jinja expression, and its value as str() has it; "?" for a value: Python fails, or
has an integer of more than 64 bits, and so may we. --jinja: compared with Jinja2, where it is
installed, before anything is written.
"""
import math
import operator
import random
import struct
import sys

seed, count, out = int(sys.argv[1]), int(sys.argv[2]), open(sys.argv[3], "w")
draw = random.Random(seed)


def number():
    """(its text in a template, its value)"""
    value = draw.choice([
        lambda: draw.randrange(-20, 20), lambda: draw.randrange(-10**6, 10**6), lambda: draw.randrange(-10**18, 10**18),
        lambda: draw.choice([1, -1]) * 2**draw.randrange(59), lambda: draw.choice([1, -1]) * (2**53 + draw.randrange(-3, 4)),
        lambda: draw.randrange(-40, 40) / 2, lambda: draw.randrange(-4000, 4000) / 8, lambda: draw.randrange(-10**6, 10**6) / 1000,
        lambda: draw.uniform(-100, 100), lambda: draw.uniform(-1, 1) * 10.0**draw.randrange(-30, 30),
        lambda: float(draw.choice([1e16, 1e15, 1e17, 1e22, 1e23, 5e-324, 0.5, 1.5, 2.5, 2.675, 1.005, 0.1, 0.0, -0.0, 2.0**53, 2.0**63])),
        lambda: struct.unpack("<d", struct.pack("<Q", draw.getrandbits(64)))[0], lambda: draw.choice([True, False])])()
    if isinstance(value, float) and (not math.isfinite(value) or len(repr(abs(value))) > 40):
        return number()
    text = {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(abs(value))
    negative = not isinstance(value, bool) and (value < 0 or math.copysign(1, value) < 0)
    return (f"(-{text})" if negative else text), value


def round_as_filter(value, precision, method):
    if method == "common":
        return round(value, precision)
    return getattr(math, method)(value * (10**precision)) / (10**precision)


OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
             "%": operator.mod, "**": operator.pow, "<": operator.lt, "<=": operator.le, ">": operator.gt,
             ">=": operator.ge, "==": operator.eq, "!=": operator.ne}
TESTS = {"odd": lambda v: v % 2 == 1, "even": lambda v: v % 2 == 0, "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
         "float": lambda v: isinstance(v, float), "number": lambda v: True}


def expression():
    (a, x), (b, y) = number(), number()
    kind = draw.random()
    if kind < 0.5:
        op = draw.choice(list(OPERATORS))
        if op == "**":
            b, y = draw.choice([(b, y), ("2", 2), ("0.5", 0.5), ("3", 3), ("(-1)", -1)])
            if isinstance(y, int) and abs(y) > 1000:  # digits without end
                b, y = "7", 7
        return f"{a} {op} {b}", lambda: OPERATORS[op](x, y)
    if kind < 0.8:
        places, method = draw.choice([0, 0, 1, 2, 3, -1, -2, -3, draw.randrange(-20, 20)]), draw.choice(["common"] * 4 + ["floor", "ceil"])
        if method != "common":
            places = max(-5, min(places, 15))
        return f"{a}|round({places}, '{method}')", lambda: round_as_filter(x, places, method)
    if kind < 0.9:
        test = draw.choice(list(TESTS))
        return f"{a} is {test}", lambda: TESTS[test](x)
    if kind < 0.95:
        return f"{a} is divisibleby({b})", lambda: x % y == 0
    return draw.choice([(f"{a}|int", lambda: int(x)), (f"{a}|abs", lambda: abs(x)), (f"'{x!r}'|int", lambda: int(float(x)) if isinstance(x, float) else int(x)),
                        (f"{a}|float", lambda: float(x)), (f"[{a}, {b}]|max", lambda: max(x, y)), (f"[{a}, {b}]|sum", lambda: x + y)])


FIXED = [("7|round", 7), ("25|round(-1)", 20), ("35|round(-1)", 40), ("2.675|round(2)", 2.67), ("2.5|round", 2.0), ("2.5 is odd", False),
         ("1e16 % 3", 1.0), ("(-7.5) // 2", -4.0), ("9007199254740993 == 9007199254740992.0", False), ("(-1) ** 1000000000", 1),
         ("0.1 + 0.2 == 0.3", False), ("'99999999999999999999'|int % 7", 99999999999999999999 % 7), ("1e19|int", 10**19)]
environment = None
if "--jinja" in sys.argv:
    import jinja2.sandbox
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment()
written = 0
while written < count:
    if written < len(FIXED):
        text, found = FIXED[written]
    else:
        text, value = expression()
        if "'True'" in text or "'False'" in text:
            continue
        try:
            found = value()
        except (ArithmeticError, ValueError):
            found = None
        if isinstance(found, complex) or (isinstance(found, int) and not -2**63 <= found < 2**63):
            found = None
        if environment is not None:
            try:
                said = environment.from_string("{{ " + text + " }}").render()
            except (ArithmeticError, ValueError):
                said = None
            assert found is None or said == str(found), (text, said, found)
    print(text, file=out)
    print("?" if found is None else found, file=out)
    written += 1
