#!/usr/bin/env python3
"""Chat templates as `transformers` renders them, beside what runner/text/jinja*.c makes of them.

    python3 -m venv v && v/bin/pip install transformers jinja2
    v/bin/python tests/oracle/chat_templates.py build/tests/render_chats DIR [--table FILE]

DIR holds published templates (*.jinja), llama.cpp's models/templates for one; nothing of them is kept. Each is rendered
with the conversations below by transformers.utils.chat_template_utils and by render_chats. Equal means: the same text,
or both refuse. The table says so for each template; the exit code is 1 where one differs.
"""
import argparse, json, os, subprocess, sys, time

TOOLS = [{"type": "function", "function": {
    "name": "get_weather", "description": "The weather at a place; \"now\" \\ <b>'later'</b>",
    "parameters": {"type": "object", "properties": {
        "city": {"type": "string", "description": "Größe der Stadt, 東京"},
        "days": {"type": "integer", "enum": [1, 2, 3], "default": 1},
        "units": {"type": ["string", "null"], "enum": ["c", "f"]},
        "place": {"type": "object", "properties": {"lat": {"type": "number"}, "tags": {"type": "array", "items": {"type": "string"}}},
                  "required": ["lat"]}},
        "required": ["city"]}, "return": {"type": "string"}}},
    {"type": "function", "function": {"name": "stop", "description": "", "parameters": {"type": "object", "properties": {}}}}]

PLAIN = [{"type": "function", "function": {"name": "add", "description": "Adds", "parameters": {"type": "object", "properties": {
    "a": {"type": "number", "description": "one"}, "b": {"type": "string"}}, "required": ["a"]}}}]


def call(name, arguments, number="abcdef123"):
    return {"id": number, "type": "function", "function": {"name": name, "arguments": arguments}}


def said(role, content, **more):
    return {"role": role, "content": content, **more}


HI, ANSWER = said("user", "  Hi <|im_end|> there\n"), said("assistant", "Hello!\n\nHow are you? ")
SYSTEM = said("system", " Be brief.\n")
USE = said("assistant", "", tool_calls=[call("get_weather", {"city": "東京", "days": 2, "ok": True, "x": None, "f": 1.5})])
RESULT = said("tool", '{"t": 21}', name="get_weather", tool_call_id="abcdef123")
TALKS = {
    "user": ([HI], {}),
    "system": ([SYSTEM, HI], {}),
    "turns": ([HI, ANSWER, said("user", "Größe? 日本語 😀"), said("assistant", "<think>\nhm\n</think>\n\n1,80 m"), said("user", "ok")], {}),
    "system, turns": ([SYSTEM, HI, ANSWER, said("user", "More")], {}),
    "ends with the assistant": ([HI, ANSWER], {}),
    "reasoning": ([HI, said("assistant", "Yes", reasoning_content="because"), said("user", "Why?")], {}),
    "out of turn": ([HI, said("user", "again"), ANSWER], {}),
    "tools": ([SYSTEM, HI], {"tools": TOOLS}),
    "tools, no system": ([HI], {"tools": TOOLS}),
    "plain tools": ([SYSTEM, HI, said("assistant", "", tool_calls=[call("add", {"a": 1})]), said("tool", "3", name="add", tool_call_id="abcdef123")], {"tools": PLAIN}),
    "a call": ([SYSTEM, HI, USE, RESULT], {"tools": TOOLS}),
    "a call and its answer": ([HI, USE, RESULT, ANSWER, said("user", "Thanks")], {"tools": TOOLS}),
    "two calls": ([HI, said("assistant", "Let me see.", tool_calls=[call("get_weather", {"city": "Rom"}), call("stop", {}, "zyxwvu987")]),
                   RESULT, said("tool", "done", name="stop", tool_call_id="zyxwvu987")], {"tools": TOOLS}),
    "no content": ([HI, said("assistant", None, tool_calls=[call("get_weather", {"city": "a'b\"c"})]), RESULT], {"tools": TOOLS}),
    "parts": ([said("system", [{"type": "text", "text": "Be brief."}]), said("user", [{"type": "text", "text": "Hi"}, {"type": "text", "text": " you"}])], {}),
    "functions": ([SYSTEM, HI], {"functions": "[]", "datetime": "now", "custom_tools": PLAIN}),
    "no thinking": ([SYSTEM, HI], {"enable_thinking": False}),
    "thinking": ([HI, ANSWER, HI], {"enable_thinking": True, "thinking": True, "reasoning_effort": "high"}),
    "another role": ([said("developer", "Be kind."), HI], {}),
    "no messages": ([], {}),
}
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
NOW = 1_750_000_000


def oracle(template, messages, answer, more):
    from transformers.utils import chat_template_utils as u
    try:
        compiled = u._compile_jinja_template(template)
        # strftime_now of a fixed moment, in place of this one
        def strftime_now(form):
            return time.strftime(form, time.localtime(NOW))
        compiled.globals["strftime_now"] = strftime_now
        text = compiled.render(messages=messages, tools=more.get("tools"), documents=None, add_generation_prompt=answer,
                               **{k: v for k, v in more.items() if k != "tools"}, **SPECIAL)
        return {"text": text}
    except Exception as e:  # whatever the template does
        return {"error": f"{type(e).__name__}: {e}"}


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("renderer")
    arguments.add_argument("directory")
    arguments.add_argument("--table")
    asked = arguments.parse_args()
    names = sorted(n for n in os.listdir(asked.directory) if n.endswith(".jinja"))
    cases, lines = [], []
    for name in names:
        template = open(os.path.join(asked.directory, name), encoding="utf-8").read()
        for talk, (messages, more) in TALKS.items():
            for answer in (True, False):
                cases.append((name, talk, answer, oracle(template, messages, answer, more)))
                variables = {"messages": messages, "tools": None, "documents": None, "add_generation_prompt": answer, **more, **SPECIAL}
                lines.append(json.dumps({"template": template, "variables": variables, "now": NOW}) + "\n")
    done = subprocess.run([asked.renderer], input="".join(lines).encode(), stdout=subprocess.PIPE, check=True)
    ours = [json.loads(line) for line in done.stdout.decode().splitlines()]
    assert len(ours) == len(cases), (len(ours), len(cases))
    rows, differ = {}, 0
    for (name, talk, answer, theirs), own in zip(cases, ours):
        row = rows.setdefault(name, [0, 0, 0])
        same = theirs.get("text") == own.get("text")
        row[0 if same and "text" in own else 1 if same else 2] += 1
        if not same:
            differ += 1
            print(f"{name}: {talk}, answer {answer}\n  transformers: {str(theirs)[:1500]}\n  here:         {str(own)[:1500]}")
    out = open(asked.table, "w", encoding="utf-8") if asked.table else sys.stdout
    import transformers, jinja2
    print(f"# Published chat templates, as transformers renders them\n\n"
          f"`tests/oracle/chat_templates.py`, transformers {transformers.__version__}, Jinja2 {jinja2.__version__}: "
          f"{len(TALKS)} conversations, each with and without `add_generation_prompt`.\n\n"
          f"| template | the same text | both refuse | differ |\n|---|---|---|---|", file=out)
    for name, row in rows.items():
        print(f"| {name.removesuffix('.jinja')} | {row[0]} | {row[1]} | {row[2]} |", file=out)
    print(f"| {len(rows)} templates | {sum(r[0] for r in rows.values())} | {sum(r[1] for r in rows.values())} | {differ} |", file=out)
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
