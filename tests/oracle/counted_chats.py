#!/usr/bin/env python3
"""Tokens of a conversation that count in training, by `transformers`: apply_chat_template with
return_assistant_tokens_mask=True, beside runner/text/chat_counted.c.

    python3 -m venv v && v/bin/pip install transformers==5.* jinja2
    v/bin/python tests/oracle/counted_chats.py check build/tests/count_chats TOKENIZERS DIR [--draws N] [--seed N] [--table FILE]
    v/bin/python tests/oracle/counted_chats.py blocks build/tests/render_chats [--draws N] [--seed N]
    v/bin/python tests/oracle/counted_chats.py fixtures TOKENIZERS     tests/oracle/fixtures/counted_chats.tar.xz

TOKENIZERS: build/tests/tokenizers, which test_tokenizers unpacks. check: DIR holds published chat templates NAME.jinja,
each with a copy NAME.generation.jinja that has {% generation %} put in; nothing of them is kept. Of conversations that
are drawn, three must give the same tokens: our method of beginnings on the template, our blocks on the copy, and
transformers on the copy. What the method of beginnings refuses is counted, and said with its first reason.
"""
import argparse, collections, io, json, os, random, re, subprocess, sys, tarfile, tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
# of tests/oracle/tokenizer_oracle.py: byte-level BPE, one that normalizes, two that fall back on bytes
TOKENIZERS = ("llama3", "qwen2", "llama2", "mistral")
# and two more of their kinds: offsets without spaces, special tokens that take white space with them (Phi-3)
VARIANTS = {"trimmed": "gpt2", "stripping": "llama2"}

WORDS = ["the", "Wort", "a", "1,80 m", "слово", "字词", "é", "e\u0301", "\u0338x", "ﬁ", "😀", "👩‍👩‍👧", "İ", "ß", "=", "<b>", "{}", "\"", "\\",
         "\n", "\n\n", "  ", "\t", " ", "한국", "กำ", "\u00a0", "\u3000", "don't", "x" * 30, "3.14", "▁", "Ġ", "\r\n"]
# what looks like a token of a template: not for transformers, which takes it for one
SPECIALS = ["<|im_end|>", "<|eot_id|>", "</s>", "<think>", "</think>", "<|end|>", "[INST]", "<end_of_turn>", "<|assistant|>"]


def text(rng, specials=False, least=0):
    words = [rng.choice(SPECIALS if specials and rng.random() < 0.15 else WORDS) for _ in range(rng.randrange(least, 9))]
    return rng.choice(["", " "]).join(words)


def tool(rng):
    return {"type": "function", "function": {"name": rng.choice(["add", "get_weather"]), "description": text(rng, least=1),
            "parameters": {"type": "object", "properties": {"a": {"type": "string", "description": text(rng)}}, "required": ["a"]}}}


def assistant(rng, kinds, specials):
    message = {"role": "assistant", "content": text(rng, specials)}
    if "reasoning" in kinds and rng.random() < 0.3:
        # under both names: transformers gives templates one for the other
        message["reasoning_content"] = message["thinking"] = text(rng, least=1)
    if "think" in kinds and rng.random() < 0.3:
        message["content"] = "<think>\n" + text(rng) + "\n</think>\n\n" + message["content"]
    if "tools" in kinds and rng.random() < 0.3:
        message["tool_calls"] = [{"id": "abcdef123", "type": "function", "function": {
            "name": rng.choice(["add", "get_weather"]), "arguments": {"a": text(rng), "n": rng.choice([1, 2.5, True, [1, "x"]])}}}]
    return message


def talk(rng, kinds=(), specials=False):
    """A conversation: turns of user and assistant, with what `kinds` names besides."""
    messages = []
    if "system" in kinds and rng.random() < 0.5:
        messages.append({"role": "system", "content": text(rng, specials)})
    if "greeting" in kinds and rng.random() < 0.1:
        messages.append(assistant(rng, (), specials))
    for _ in range(rng.choice([1, 1, 2, 3, 4])):
        messages.append({"role": "user", "content": text(rng, specials, least=1)})
        if "twice" in kinds and rng.random() < 0.15:
            messages.append({"role": "user", "content": text(rng, specials)})
        messages.append(assistant(rng, kinds, specials))
        while messages[-1].get("tool_calls"):
            for _ in range(rng.choice([1, 1, 2])):
                messages.append({"role": "tool", "name": "add", "tool_call_id": "abcdef123", "content": text(rng)})
            messages.append(assistant(rng, kinds, specials))
        if "twice" in kinds and rng.random() < 0.15:
            messages.append(assistant(rng, kinds, specials))
    if "partial" in kinds and rng.random() < 0.5:
        messages[-1]["partial"] = True
    if "open" in kinds and rng.random() < 0.2:
        messages.append({"role": "user", "content": text(rng, specials)})
    tools = [tool(rng) for _ in range(rng.choice([1, 2]))] if "tools" in kinds and rng.random() < 0.5 else None
    return messages, tools


# ---- tokenizers ----

def with_tokens(folder, kind, tokens):
    """tokenizer.json of this kind with these added tokens, behind those that are there; (token, special)."""
    made = json.load(open(os.path.join(folder, VARIANTS.get(kind, kind) + ".json"), encoding="utf-8"))
    known = {t["content"] for t in made["added_tokens"]}
    next_id = 1 + max(list(made["model"]["vocab"].values()) + [t["id"] for t in made["added_tokens"]])
    for token, special in tokens:
        if token in known:
            continue
        at = made["model"]["vocab"].get(token)
        made["added_tokens"].append({"id": next_id if at is None else at, "content": token, "special": special, "normalized": False,
                                     "lstrip": False, "rstrip": False, "single_word": False})
        if kind == "stripping":
            made["added_tokens"][-1]["rstrip" if next_id % 3 else "lstrip"] = True
        next_id += at is None
        known.add(token)
    if kind == "trimmed":
        made["post_processor"] = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    made["added_tokens"].sort(key=lambda t: t["id"])
    return made


def put_folder(folder, tokenizer, template, special):
    os.makedirs(folder, exist_ok=True)
    json.dump(tokenizer, open(os.path.join(folder, "tokenizer.json"), "w"))
    json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False, **special},
              open(os.path.join(folder, "tokenizer_config.json"), "w"))
    open(os.path.join(folder, "chat_template.jinja"), "w", encoding="utf-8", newline="").write(template)


def mask(tokenizer, messages, tools, variables):
    """Of transformers: ids and which count; None: it refuses."""
    try:
        out = tokenizer.apply_chat_template(messages, tools=tools, return_dict=True, return_assistant_tokens_mask=True, **variables)
    except Exception as e:
        return None, f"{type(e).__name__}: {e}"
    return out["input_ids"], out["assistant_masks"]


def ours(program, asked):
    done = subprocess.run([program], input="".join(json.dumps(a) + "\n" for a in asked).encode(), stdout=subprocess.PIPE, check=True)
    said = [json.loads(line) for line in done.stdout.decode().splitlines()]
    assert len(said) == len(asked), (len(said), len(asked))
    return said


# ---- published templates ----

def tokens_of(template):
    """What a template writes that its model's tokenizer has as one token, as far as one can see; with whether it is special."""
    found = re.findall(r"<\|[^|<>\s]{1,40}\|>|\[\|[^|<>\s]{1,40}\|\]|<｜[^｜<>\s]{1,40}｜>|\[/?[A-Z_]{3,30}\]|</?(?:start|end)_of_\w+>|</?(?:think|tool_call|tool_response)>|<\w*turn\|>|</?s>", template)
    return [(t, not re.match(r"</?(think|tool)", t)) for t in dict.fromkeys(found)] + [("<s>", True), ("</s>", True)]


def check(asked):
    from transformers import AutoTokenizer
    settings = json.load(open(os.path.join(asked.directory, "settings.json"))) if os.path.exists(os.path.join(asked.directory, "settings.json")) else {}
    names = sorted(n[:-len(".generation.jinja")] for n in os.listdir(asked.directory) if n.endswith(".generation.jinja"))
    rows, failed = [], 0
    for name in names:
        plain, copy = (open(os.path.join(asked.directory, name + e), encoding="utf-8", newline="").read() for e in (".jinja", ".generation.jinja"))
        row = collections.Counter()
        reason = ""
        for kind in TOKENIZERS + tuple(VARIANTS):
            rng = random.Random(f"{asked.seed} {name} {kind}")
            of = settings.get(name, {})
            special = {"bos_token": "<s>", "eos_token": of.get("eos", "</s>")}
            tokenizer = with_tokens(asked.tokenizers, kind, tokens_of(plain) + [(special["eos_token"], True)])
            with tempfile.TemporaryDirectory() as folder:
                a, b = os.path.join(folder, "a"), os.path.join(folder, "b")
                put_folder(a, tokenizer, plain, special)
                put_folder(b, tokenizer, copy, special)
                loaded = AutoTokenizer.from_pretrained(b)
                kinds = of.get("kinds", ["system", "tools", "twice", "greeting", "open", "reasoning", "think"])
                talks = [talk(rng, kinds if i % 2 else kinds[:1], specials=i % 5 == 4) for i in range(asked.draws)]
                lines = []
                for messages, tools in talks:
                    for f in (a, b):
                        lines.append({"folder": f, "messages": messages, "tools": tools, "variables": of.get("variables", {})})
                        if tools is None:
                            lines[-1].pop("tools")
                # all of one folder first: each is read once
                said = ours(asked.program, lines[0::2] + lines[1::2])
                for i, (messages, tools) in enumerate(talks):
                    first, block = said[i], said[len(talks) + i]
                    ids, counts = mask(loaded, messages, tools, of.get("variables", {})) if i % 5 != 4 else ("?", "?")
                    row["talks"] += 1
                    if "error" in block or ids is None:
                        if ("error" in block) != (ids is None) and ids != "?":
                            row["differ"] += 1
                            print(f"{name} {kind}: only one refuses: {block.get('error')} / {counts}\n  {json.dumps(messages)}")
                        row["refused by the template"] += 1
                        continue
                    if ids != "?" and (block["ids"] != ids or block["counts"] != counts):
                        row["differ"] += 1
                        theirs = {"ids": ids, "counts": counts}
                        ids = "?"
                        print(f"{name} {kind}: blocks: {show(loaded, block, theirs)}\n  transformers: {show(loaded, theirs, block)}\n  {json.dumps(messages)}")
                    row["by transformers"] += ids != "?"
                    if "error" in first:
                        row["refused by beginnings"] += 1
                        reason = reason or first["error"]
                        if asked.verbose:
                            print(name, first["error"], [m["role"] for m in messages])
                    elif first["ids"] != block["ids"] or first["counts"] != block["counts"]:
                        row["differ"] += 1
                        print(f"{name} {kind}: beginnings: {show(loaded, first, block)}\n  blocks: {show(loaded, block, first)}\n  {json.dumps(messages)}")
                    else:
                        row["same"] += 1
                        row["counted"] += sum(first["counts"])
        rows.append((name, row, reason))
        failed += row["differ"]
    out = open(asked.table, "w", encoding="utf-8") if asked.table else sys.stdout
    import transformers
    print(f"# Tokens that count, of published chat templates\n\n`tests/oracle/counted_chats.py check`, seed {asked.seed}, {asked.draws} conversations for each of "
          f"{len(TOKENIZERS) + len(VARIANTS)} tokenizers; transformers {transformers.__version__}. The method of beginnings refuses a conversation when the template writes a "
          "beginning of it otherwise: reasoning that is dropped once an answer follows (Qwen3), a system message or tools before the last question (Mistral), "
          "another end in the middle (gpt-oss), nothing that may stand before an assistant's first message.\n\n"
          "| template | conversations | refused by the template | by the method of beginnings | by transformers, the same | beginnings and blocks the same | tokens that count | differ |\n|---|---|---|---|---|---|---|---|", file=out)
    for name, row, reason in rows:
        print(f"| {name} | {row['talks']} | {row['refused by the template']} | {row['refused by beginnings']} | {row['by transformers']} | {row['same']} | {row['counted']} | {row['differ']} |", file=out)
    for name, row, reason in rows:
        if reason:
            print(f"{name}: {reason}", file=sys.stderr)
    return 1 if failed else 0


def show(tokenizer, said, other):
    """The tokens round the first one that differs; '*': it counts."""
    pairs, others = (list(zip(s["ids"], s["counts"])) for s in (said, other))
    at = next((i for i, (a, b) in enumerate(zip(pairs, others)) if a != b), 0)
    return repr([("*" if c else "") + tokenizer.convert_ids_to_tokens(i) for i, c in pairs[max(0, at - 8):at + 12]])


# ---- generation blocks ----

def drawn_tag(rng, words):
    return "{%" + rng.choice(["", "-", ""]) + " " + words + " " + rng.choice(["", "-", ""]) + "%}"


def drawn_body(rng, depth, in_loop):
    return "".join(drawn_piece(rng, depth, in_loop) for _ in range(rng.randrange(1, 4)))


def drawn_piece(rng, depth, in_loop):
    """A piece of a template: text, an output, a set, or a block, a loop, a condition or a with round more of them."""
    kind, tag = rng.randrange(13) if depth > 0 else rng.randrange(4), lambda words: drawn_tag(rng, words)
    if kind == 2:
        words = rng.choice(["m.content", "x", "'q\\n'", "m.role", "ns.v", "messages|length", "y", "x|upper"] + ["loop.index", "loop.last"] * in_loop)
        return drawn_tag(rng, words).replace("{%", "{{").replace("%}", "}}")
    if kind == 3:
        return tag(rng.choice(["set x = x ~ 'z'", "set ns.v = ns.v + 1", "set y = m.content|trim"]))
    if kind in (4, 5, 6):
        return tag("generation") + drawn_body(rng, depth - 1, in_loop) + tag("endgeneration")
    if kind in (7, 8):
        return tag("for m in messages") + drawn_body(rng, depth - 1, True) + tag("endfor")
    if kind == 9:
        return tag("if " + rng.choice(["m.role == 'assistant'", "x", "ns.v > 2"])) + drawn_body(rng, depth - 1, in_loop) + tag("else") + drawn_body(rng, depth - 1, in_loop) + tag("endif")
    if kind == 10 and in_loop and rng.random() < 0.5:
        return tag(rng.choice(["break", "continue"]))
    if kind == 11:
        return tag("with x = m.role") + drawn_body(rng, depth - 1, in_loop) + tag("endwith")
    return rng.choice(["", " ", "\n", "  \n  ", "a", "<|x|>", "é\n", "\n\n b"])


def blocks(asked):
    """Drawn templates with blocks: the same text of render_chats and transformers, the same parts of it generated."""
    from transformers.utils import chat_template_utils as u
    rng, talked = random.Random(asked.seed), [said("user", " Hi "), said("assistant", "Yo\né"), said("user", "x"), said("assistant", "")]
    templates = ["{% set ns = namespace(v=1) %}{% set x = 's' %}{% set y = 't' %}{% set m = messages[1] %}" + drawn_body(rng, 4, False) for _ in range(asked.draws)]
    own = ours(asked.program, [{"template": t, "variables": {"messages": talked}, "now": 0} for t in templates])
    row = collections.Counter()
    for template, one in zip(templates, own):
        try:
            text, spans = u._render_with_assistant_indices(compiled_template=u._compile_jinja_template(template), messages=talked, tools=None, documents=None,
                                                           add_generation_prompt=False)
        except Exception as e:  # a break in a block, a condition on what is no number
            text, spans = None, str(e)
        if text is None or "error" in one:
            same = text is None and "error" in one
        else:
            at = [len(text[:i].encode()) for i in range(len(text) + 1)]
            theirs = {i for a, b in spans for i in range(at[a], at[b])}
            same = one["text"] == text and theirs == {i for a, b in zip(one["generated"][::2], one["generated"][1::2]) for i in range(a, b)}
        row["refused" if text is None and same else "same" if same else "differ"] += 1
        if not same:
            print(f"{template!r}\n  transformers: {text!r} {spans}\n  here: {one}")
    print(f"{asked.draws} templates, seed {asked.seed}: {row['same']} the same, {row['refused']} refused by both, {row['differ']} differ")
    return 1 if row["differ"] else 0


def said(role, content):
    return {"role": role, "content": content}


# ---- fixtures ----

# Templates of our own in the forms that are published; what stands in [[ ]] is in a generation block of the copy. kinds:
# what conversations have besides turns of user and assistant; refuses: the method of beginnings may.
ASK = "{% if add_generation_prompt %}"
FORMS = {
    "chatml": {"kinds": ["system", "twice", "greeting", "open"], "template": "{% for m in messages %}{{ '<|im_start|>' ~ m.role ~ '\\n' }}{% if m.role == 'assistant' %}"
               "[[{{ m.content ~ '<|im_end|>' }}]]{{ '\\n' }}{% else %}{{ m.content ~ '<|im_end|>\\n' }}{% endif %}{% endfor %}" + ASK + "{{ '<|im_start|>assistant\\n' }}{% endif %}"},
    "headers": {"kinds": ["system", "twice", "open"], "template": "{{- bos_token -}}{%- for m in messages %}{{- '<|start_header_id|>' + m['role'] + '<|end_header_id|>\\n\\n' }}{%- if m['role'] == 'assistant' %}"
                "[[{{- m['content'] | trim + '<|eot_id|>' }}]]{%- else %}{{- m['content'] | trim + '<|eot_id|>' }}{%- endif %}{%- endfor %}" + ASK + "{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}"},
    "instructions": {"kinds": ["system"], "template": "{% set first = messages[0].content ~ '\\n\\n' if messages[0].role == 'system' else '' %}{% set turns = messages[1:] if first else messages %}{{ bos_token }}{% for m in turns %}"
                     "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('turns alternate') }}{% endif %}{% if m.role == 'user' %}{{ '[INST] ' ~ (first if loop.first else '') ~ m.content ~ ' [/INST]' }}"
                     "{% else %}[[{{ ' ' ~ m.content ~ eos_token }}]]{% endif %}{% endfor %}"},
    "turns": {"kinds": ["open"], "template": "{{ bos_token }}{% for m in messages %}{% set role = 'model' if m.role == 'assistant' else m.role %}{{ '<start_of_turn>' ~ role }}\n{% if role == 'model' %}"
              "[[{{ m.content | trim }}<end_of_turn>]]{% else %}{{ m.content | trim }}<end_of_turn>{% endif %}{{ '\\n' }}{% endfor %}" + ASK + "{{ '<start_of_turn>model\\n' }}{% endif %}"},
    "closed": {"kinds": ["system", "twice", "open"], "template": "{% for m in messages %}{{ '<|' ~ m.role ~ '|>\\n' }}{% if m.role == 'assistant' %}[[{{ m.content }}<|end|>]]{% else %}{{ m.content }}<|end|>{% endif %}{{ '\\n' }}{% endfor %}"
               + ASK + "{{ '<|assistant|>\\n' }}{% else %}{{ eos_token }}{% endif %}"},
    "forgets": {"kinds": ["system", "think", "open"], "template": "{{ bos_token }}{% for m in messages %}{% set c = m.content %}{% if m.role == 'assistant' %}{% if '</think>' in c %}{% set c = c.split('</think>')[-1] %}{% endif %}"
                "<｜Assistant｜>[[{{ c }}<｜end▁of▁sentence｜>]]{% elif m.role == 'user' %}<｜User｜>{{ c }}{% else %}{{ c }}{% endif %}{% endfor %}" + ASK + "{{ '<｜Assistant｜><think>\\n' }}{% endif %}"},
    "tools": {"kinds": ["system", "tools", "twice", "greeting"], "template": "{%- if tools %}{{- '<|im_start|>system\\n' + tools | tojson + '<|im_end|>\\n' }}{%- endif %}{%- for m in messages %}{%- if m.role == 'tool' %}{%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}"
              "{{- '<|im_start|>user' }}{%- endif %}{{- '\\n<tool_response>\\n' + m.content + '\\n</tool_response>' }}{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{- '<|im_end|>\\n' }}{%- endif %}"
              "{%- elif m.role == 'assistant' %}{{- '<|im_start|>assistant\\n' }}[[{{- m.content }}{%- for call in m.tool_calls or [] %}{{- '' if loop.first and not m.content else '\\n' }}"
              "{{- '<tool_call>\\n' + {'name': call.function.name, 'arguments': call.function.arguments} | tojson + '\\n</tool_call>' }}{%- endfor %}{{- '<|im_end|>' }}]]{{- '\\n' }}"
              "{%- else %}{{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{%- endif %}{%- endfor %}" + ASK + "{{- '<|im_start|>assistant\\n' }}{%- endif %}"},
    "thinks": {"kinds": ["system", "reasoning", "open"], "refuses": True, "template": "{% set ns = namespace(last=-1) %}{% for m in messages if m.role == 'user' %}{% set ns.last = ns.last + 1 %}{% endfor %}{% set seen = namespace(users=-1) %}"
               "{% for m in messages %}{{ '<|im_start|>' ~ m.role ~ '\\n' }}{% if m.role == 'user' %}{% set seen.users = seen.users + 1 %}{% endif %}{% if m.role == 'assistant' %}{% set late = seen.users == ns.last %}{% if late %}{{ '<think>\\n' }}{% endif %}"
               "[[{% if late %}{{ (m.reasoning_content or '') ~ '\\n</think>\\n\\n' }}{% endif %}{{ m.content }}<|im_end|>]]{% else %}{{ m.content }}<|im_end|>{% endif %}{{ '\\n' }}{% endfor %}" + ASK + "{{ '<|im_start|>assistant\\n<think>\\n' }}{% endif %}"},
    "labels": {"kinds": ["system", "twice", "open"], "template": "{% for m in messages %}{% if m.role == 'system' %}{{ m.content ~ '\\n\\n' }}{% elif m.role == 'user' %}{{ 'USER: ' ~ m.content ~ '\\n' }}{% else %}ASSISTANT:[[{{ ' ' ~ m.content ~ eos_token }}]]{{ '\\n' }}{% endif %}{% endfor %}" + ASK + "ASSISTANT:{% endif %}"},
    "responses": {"kinds": ["system", "open"], "template": "{{ bos_token }}{% for m in messages %}<|START_OF_TURN_TOKEN|>{% if m.role == 'assistant' %}<|CHATBOT_TOKEN|><|START_RESPONSE|>[[{{ m.content }}<|END_RESPONSE|><|END_OF_TURN_TOKEN|>]]"
                  "{% else %}<|USER_TOKEN|>{{ m.content }}<|END_OF_TURN_TOKEN|>{% endif %}{% endfor %}" + ASK + "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|><|START_RESPONSE|>{% endif %}"},
    "endless": {"kinds": ["system", "twice", "greeting", "open"], "template": "{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'assistant' %}[[{{ '\\n' ~ m.content.strip() }}]]{% else %}{{ '\\n' ~ m.content }}{% endif %}{% endfor %}" + ASK + "<|assistant|>{% endif %}"},
    "returns": {"kinds": ["system", "open"], "refuses": True, "template": "{% for m in messages %}<|start|>{{ m.role }}{% if m.role == 'assistant' %}[[<|channel|>final<|message|>{{ m.content }}{{ '<|return|>' if loop.last else '<|end|>' }}]]"
                "{% else %}<|message|>{{ m.content }}<|end|>{% endif %}{% endfor %}" + ASK + "<|start|>assistant{% endif %}"},
    "unfinished": {"kinds": ["system", "partial"], "template": "{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'assistant' %}[[{{ m.content }}{% if not m.partial %}<|end|>{% endif %}]]{% else %}{{ m.content }}<|end|>{% endif %}{% endfor %}" + ASK + "<|assistant|>{% endif %}"},
}


def pack(archive, name, text):
    data = text.encode()
    info = tarfile.TarInfo(name)
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))


def fixtures(asked):
    """A folder for each template and tokenizer: its files, `copy` with the generation blocks, and conversations with the
    tokens and masks of transformers on the copy."""
    from transformers import AutoTokenizer
    path, cases = os.path.join(HERE, "fixtures", "counted_chats.tar.xz"), 0
    with tarfile.open(path, "w:xz", preset=9) as archive:
        for name, form in FORMS.items():
            plain = form["template"].replace("[[", "").replace("]]", "")
            copy = form["template"].replace("[[", "{% generation %}").replace("]]", "{% endgeneration %}")
            special = {"bos_token": "<s>", "eos_token": "</s>"}
            for kind in TOKENIZERS + tuple(VARIANTS):
                rng = random.Random(f"{asked.seed} {name} {kind}")
                tokenizer = with_tokens(asked.tokenizers, kind, tokens_of(plain) + SPECIAL_ROLES)
                with tempfile.TemporaryDirectory() as folder:
                    put_folder(folder, tokenizer, copy, special)
                    loaded = AutoTokenizer.from_pretrained(folder)
                    config = open(os.path.join(folder, "tokenizer_config.json")).read()
                lines = []
                for i in range(asked.draws):
                    messages, tools = talk(rng, form["kinds"] if i % 3 else ())
                    ids, counts = mask(loaded, messages, tools, {})
                    assert ids is not None, (name, counts)
                    lines.append(json.dumps({"messages": messages, "tools": tools, "ids": ids, "counts": "".join(map(str, counts)), "refuses": form.get("refuses", False) or messages[0]["role"] == "assistant"}))
                cases += len(lines)
                for where, text in (("tokenizer.json", json.dumps(tokenizer)), ("tokenizer_config.json", config), ("chat_template.jinja", plain),
                                    ("copy/tokenizer_config.json", config), ("copy/chat_template.jinja", copy), ("cases.jsonl", "\n".join(lines) + "\n")):
                    pack(archive, f"{name}.{kind}/{where}", text)
    print(path, os.path.getsize(path), "bytes,", cases, "cases")
    return 0


SPECIAL_ROLES = [(t, True) for t in ("<|system|>", "<|user|>", "<|assistant|>", "<|tool|>")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("check")
    one.add_argument("program")
    one.add_argument("tokenizers")
    one.add_argument("directory")
    one.add_argument("--draws", type=int, default=50)
    one.add_argument("--seed", type=int, default=1)
    one.add_argument("--table")
    one.add_argument("--verbose", action="store_true")
    one = commands.add_parser("blocks")
    one.add_argument("program")
    one.add_argument("--draws", type=int, default=3000)
    one.add_argument("--seed", type=int, default=1)
    one = commands.add_parser("fixtures")
    one.add_argument("tokenizers")
    one.add_argument("--draws", type=int, default=9)
    one.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    return {"check": check, "blocks": blocks, "fixtures": fixtures}[asked.command](asked)


if __name__ == "__main__":
    sys.exit(main())
