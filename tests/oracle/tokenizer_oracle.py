#!/usr/bin/env python3
"""The oracle of runner/text: PyPI's `tokenizers`. Run by hand; what it makes is committed.

  tokenizer_oracle.py corpus FILE [MB]        a text of that size from this machine: translations in all
                                              languages, code, emoji, runs of whitespace, characters
                                              of every script, bytes that are no UTF-8
  tokenizer_oracle.py train DIR CORPUS [SIZE] a tokenizer.json of each family, DIR/NAME.json
  tokenizer_oracle.py real DIR PACKAGES       the same of vocabularies that PyPI packages carry (wheels
                                              of mistral-common, dashscope, litellm in PACKAGES)
  tokenizer_oracle.py compare BENCH CORPUS JSON...   token for token against bench_tokenizer
  tokenizer_oracle.py fixtures CORPUS         tests/oracle/fixtures/tokenizers.tar.xz

Needs: pip install tokenizers==0.23.3 transformers==5.*; `real` also sentencepiece and tiktoken.
"""
import array
import gettext
import glob
import io
import json
import os
import random
import subprocess
import sys
import tarfile
import tempfile
import unicodedata
import zipfile

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers,
                        processors, trainers)

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
          r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")


# ---- texts ----

def translations(rng):
    paths = sorted(glob.glob("/usr/share/locale*/**/*.mo", recursive=True))
    rng.shuffle(paths)
    for path in paths:
        try:
            with open(path, "rb") as file:
                catalogue = gettext.GNUTranslations(file)
        except Exception:
            continue
        lines = [text for key, text in catalogue._catalog.items() if isinstance(key, str) and text]
        if lines:
            yield "\n".join(str(line) for line in lines[1:]) + "\n"


def code(rng):
    paths = [path for pattern in ("/usr/lib/python3*/**/*.py", "/usr/include/**/*.h",
                                  "/usr/share/doc/**/*.html", "/usr/share/perl/**/*.pm")
             for path in glob.glob(pattern, recursive=True)]
    paths.sort()
    rng.shuffle(paths)
    for path in paths:
        try:
            with open(path, encoding="utf-8") as file:
                yield file.read(200000)
        except Exception:
            continue


BLANKS = [" ", " ", " ", "  ", "\t", "\n", "\r\n", "\r", "\n\n\n", "\u00a0", "\u2003", "\u3000", "\u1680",
          "\u2028", "\u2029", "\u0085", "\u000b", "\u000c", "\u180e", "\u200b", "\u202f", " " * 40, "\t" * 9]
EMOJI = ["😀", "👩‍👩‍👧‍👦", "👍🏽", "🇩🇪🇫🇷", "❤️", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "1️⃣", "🤷🏿‍♀️", "☕", "𓂀"]


def assigned(rng):
    """A character that every Unicode since 9.0 has."""
    while True:
        c = rng.choice((rng.randrange(0x20, 0x250), rng.randrange(0x250, 0x3000),
                        rng.randrange(0x3000, 0xd800), rng.randrange(0xf900, 0x10000),
                        rng.randrange(0x10000, 0x30000)))
        if unicodedata.ucd_3_2_0.category(chr(c)) not in ("Cn", "Cs"):
            return chr(c)


def oddities(rng):
    marks = "\u0301\u0327\u0323\u0308\u030a\u0345\u05b0\u0653\u3099\u1161\u11a8\u09d7"
    while True:
        words = []
        for _ in range(400):
            kind = rng.randrange(9)
            if kind == 0:
                words.append(rng.choice(BLANKS) * rng.choice((1, 1, 1, 2, 5, 30)))
            elif kind == 1:
                words.append(rng.choice(EMOJI) * rng.choice((1, 1, 3)))
            elif kind == 2:
                words.append("".join(assigned(rng) for _ in range(rng.randrange(1, 9))))
            elif kind == 3:
                words.append("".join(rng.choice("aeiouAEnK가ㄱ각ᄀあか") + rng.choice(marks) * rng.randrange(3)
                                     for _ in range(rng.randrange(1, 5))))
            elif kind == 4:
                words.append(rng.choice(["don't", "I'LL", "we'Ve", "it's", "'S", "'ſ", "x'reY", "''d", "▁a", "▁▁"]))
            elif kind == 5:
                words.append(str(rng.randrange(10 ** rng.randrange(1, 12))) + rng.choice(["", "٣", "Ⅷ", "½", "²"]))
            elif kind == 6:
                words.append(rng.choice("abcxyzé中-=_/.") * rng.choice((1, 2, 17, 70)))
            elif kind == 7:
                words.append("".join(rng.choice("{}[]()<>=+-*/%&|^!~?:;,.'\"\\#@$") for _ in range(rng.randrange(1, 7))))
            else:
                words.append(rng.choice(["the", " Wort", " mot", " слово", "字词", " คำ", " शब्द", " كلمة", "ἀρχή", "<0x41>", "<s>"]))
        yield "".join(words)


def broken(rng):
    while True:
        text = bytearray("".join(assigned(rng) + rng.choice(["", " ", "x"]) for _ in range(200)).encode())
        for _ in range(30):
            at = rng.randrange(len(text))
            text[at:at + rng.randrange(3)] = bytes(rng.randrange(128, 256) for _ in range(rng.randrange(1, 4)))
        yield bytes(text)


def corpus(path, megabytes, seed=1):
    rng = random.Random(seed)
    sources = [(0.5, translations(rng)), (0.3, code(rng)), (0.17, oddities(rng)), (0.03, broken(rng))]
    total, size, written = int(megabytes * 1e6), 0, [0] * len(sources)
    with open(path, "wb") as out:
        while size < total:
            left = [i for i, (share, source) in enumerate(sources) if source is not None]
            i = min(left, key=lambda i: written[i] / sources[i][0])
            piece = next(sources[i][1], None)
            if piece is None:
                sources[i] = (sources[i][0], None)
                continue
            data = (piece.encode("utf-8", "surrogatepass") if isinstance(piece, str) else piece)[:total - size]
            out.write(data)
            size += len(data)
            written[i] += len(data)
    print(path, size, "bytes:", dict(zip(("translations", "code", "oddities", "broken"), written)))


# ---- tokenizers ----

def byte_level(pre, normalizer=None):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre
    t.decoder = decoders.ByteLevel()
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    if normalizer is not None:
        t.normalizer = normalizer
    return t


def gpt2():
    return byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False)), ["<|endoftext|>"]


def split(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def llama3():
    return byte_level(split(LLAMA3)), ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>",
                                       "<|end_header_id|>", "<|eot_id|>"]


def qwen2():
    return byte_level(split(QWEN2), normalizers.NFC()), ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def smollm():
    return byte_level(pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False)])), \
        ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def nfkc_prefixed():
    return byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True), normalizers.NFKC()), ["<pad>"]


def behaviors():
    return byte_level(pre_tokenizers.Sequence([
        pre_tokenizers.Split(",", "removed"), pre_tokenizers.Split(Regex(r"\s+"), "merged_with_next"),
        pre_tokenizers.Split("-", "merged_with_previous"), pre_tokenizers.Split(Regex(r"[a-z]"), "contiguous", invert=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])), ["<pad>"]


def metaspace(pre, decoder, normalizer=None):
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    if normalizer is not None:
        t.normalizer = normalizer
    if pre is not None:
        t.pre_tokenizer = pre
    t.decoder = decoder
    return t


def llama_decoder():
    return decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                              decoders.Strip(" ", 1, 0)])


def llama2():
    return metaspace(None, llama_decoder(), normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])), \
        ["<unk>", "<s>", "</s>"]


def mistral():
    return metaspace(pre_tokenizers.Metaspace(prepend_scheme="first", split=False), llama_decoder()), ["<unk>", "<s>", "</s>"]


def marked():
    return metaspace(pre_tokenizers.Metaspace(prepend_scheme="always", split=True),
                     decoders.Metaspace(prepend_scheme="always")), ["<unk>", "<s>", "</s>"]


def unknown():
    t, special = marked()
    t.model = models.BPE(unk_token="<unk>", fuse_unk=False, byte_fallback=False)
    return t, special


FAMILIES = {f.__name__: f for f in (gpt2, llama3, qwen2, smollm, nfkc_prefixed, behaviors, llama2, mistral, marked, unknown)}
CHARACTERS = ("llama2", "mistral", "marked", "unknown")




def train(directory, corpus_path, size):
    os.makedirs(directory, exist_ok=True)
    lines = open(corpus_path, "rb").read().decode("utf-8", "replace").splitlines()
    random.Random(2).shuffle(lines)
    lines = lines[:60000]
    for name, family in FAMILIES.items():
        t, special = family()
        fallback = ["<0x%02X>" % i for i in range(256)] if name in ("llama2", "mistral", "marked") else []
        alphabet = pre_tokenizers.ByteLevel.alphabet() if name not in CHARACTERS else []
        trainer = trainers.BpeTrainer(vocab_size=size, show_progress=False, special_tokens=special + fallback,
                                      initial_alphabet=alphabet, limit_alphabet=min(size // 3, 3000))
        if name in ("llama2", "mistral"):  # words are cut for training only, as sentencepiece does
            t.normalizer = normalizers.Replace(" ", "▁")
            t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
        t.train_from_iterator(lines, trainer)
        data = json.loads(t.to_str())
        if name in ("llama2", "mistral"):
            reference = json.loads(family()[0].to_str())
            data["normalizer"], data["pre_tokenizer"] = reference["normalizer"], reference["pre_tokenizer"]
            data["model"].update(fuse_unk=True, byte_fallback=True, unk_token="<unk>")
        finish(data, name, special)
        with open(os.path.join(directory, name + ".json"), "w", encoding="utf-8") as out:
            json.dump(data, out, ensure_ascii=False)
        print(name, len(data["model"]["vocab"]), "tokens,", len(data["model"]["merges"]), "merges")


def finish(data, name, special):
    """What a trainer does not set: added tokens of all kinds, templates, forms of merges."""
    vocab = data["model"]["vocab"]
    data["added_tokens"] = [dict(id=vocab[text], content=text, special=True, normalized=False, lstrip=False,
                                 rstrip=False, single_word=False) for text in special]
    more = {"gpt2": [dict(content="<mask>", lstrip=True), dict(content="<r>", rstrip=True),
                     dict(content="cat", single_word=True), dict(content="Ätzend", normalized=True)],
            "qwen2": [dict(content="<tool_call>"), dict(content="<tool_call>x"), dict(content="e\u0301t\u00e9", normalized=True)],
            "llama2": [dict(content="<pad>", special=True), dict(content=" two", normalized=True), dict(content="▁▁▁▁a", normalized=False)],
            "mistral": [dict(content="[INST]", special=True), dict(content="[/INST]", special=True, lstrip=True, rstrip=True)],
            "smollm": [dict(content="   "), dict(content="\n\n\n", normalized=True, rstrip=True)]}.get(name, [])
    for token in more:
        whole = dict(id=0, special=False, normalized=False, lstrip=False, rstrip=False,
                     single_word=False)
        whole.update(token)
        whole["id"] = vocab.get(token["content"], max([max(vocab.values())] + [t["id"] for t in data["added_tokens"]]) + 1)
        data["added_tokens"].append(whole)
    if name == "llama3":
        data["model"]["ignore_merges"] = True
        bos = "<|begin_of_text|>"
        data["post_processor"] = {"type": "Sequence", "processors": [
            {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}, template([bos], vocab)]}
    if name in ("llama2", "mistral"):
        data["post_processor"] = template(["<s>"], vocab)
    if name == "marked":
        data["post_processor"] = template(["<s>"], vocab, ["</s>"])
    if name in ("gpt2", "llama2"):  # as old files have them; a side with a space cannot be written so
        merges = [tuple(m) if not isinstance(m, str) else tuple(m.split(" ")) for m in data["model"]["merges"]]
        data["model"]["merges"] = ["%s %s" % m for m in merges]


def template(before, vocab, after=()):
    def side(tokens):
        return [{"SpecialToken": {"id": t, "type_id": 0}} for t in tokens]
    return {"type": "TemplateProcessing", "single": side(before) + [{"Sequence": {"id": "A", "type_id": 0}}] + side(after),
            "pair": side(before) + [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {t: {"id": t, "ids": [vocab[t]], "tokens": [t]} for t in list(before) + list(after)}}


# ---- vocabularies of packages ----

def real(directory, packages):
    from transformers.convert_slow_tokenizer import TikTokenConverter
    os.makedirs(directory, exist_ok=True)
    for wheel in sorted(glob.glob(os.path.join(packages, "*.whl"))):
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                base = os.path.basename(name)
                target = os.path.join(directory, os.path.basename(wheel).split("-")[0] + "-" + base)
                if base.endswith("tokenizer.json"):
                    open(target, "wb").write(archive.read(name))
                    print(target)
                elif base.endswith(".tiktoken") or (base == "tokenizer.model" and "llama3" in name):
                    with tempfile.TemporaryDirectory() as scratch:
                        path = os.path.join(scratch, base)
                        open(path, "wb").write(archive.read(name))
                        qwen = "qwen" in base
                        t = TikTokenConverter(path, pattern=QWEN2 if qwen else LLAMA3).converted()
                    if qwen:
                        t.normalizer = normalizers.NFC()
                        t.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
                    t.save(target + ".json")
                    print(target + ".json")
                elif ".model" in base and "mistral" in wheel and archive.getinfo(name).file_size > 10000:
                    from_sentencepiece(archive.read(name), target + ".json")
                    print(target + ".json")


def from_sentencepiece(data, target):
    import sentencepiece.sentencepiece_model_pb2 as model_pb2
    from transformers.convert_slow_tokenizer import generate_merges
    proto = model_pb2.ModelProto()
    proto.ParseFromString(data)
    vocab = {piece.piece: i for i, piece in enumerate(proto.pieces)}
    scores = {piece.piece: piece.score for piece in proto.pieces}
    merges = generate_merges(vocab, scores)
    t, special = llama2()
    shape = json.loads(t.to_str())
    shape["model"].update(vocab=vocab, merges=[list(m) for m in merges], fuse_unk=True, byte_fallback=True, unk_token="<unk>")
    shape["added_tokens"] = [dict(id=vocab[piece.piece], content=piece.piece, special=True, normalized=False, lstrip=False,
                                  rstrip=False, single_word=False) for piece in proto.pieces if piece.type in (2, 3)]
    shape["post_processor"] = template(["<s>"], vocab)
    with open(target, "w", encoding="utf-8") as out:
        json.dump(shape, out, ensure_ascii=False)


# ---- comparing ----

def without_new(text):
    """The text without characters that this Python's Unicode does not have: 14 with Python 3.11, as PCRE2 10.42 has."""
    return "".join("\ufffd" if unicodedata.category(c) == "Cn" else c for c in text)


def compare_text(bench, text, path, oracle, what):
    with tempfile.NamedTemporaryFile() as source, tempfile.NamedTemporaryFile() as out:
        source.write(text if isinstance(text, bytes) else text.encode())
        source.flush()
        said = subprocess.run([bench, path, source.name, out.name], capture_output=True, text=True)
        if said.returncode != 0:
            print(path, said.stderr.strip())
            return False
        ours = array.array("i", open(out.name, "rb").read())
    theirs = oracle.encode(text.decode("utf-8", "replace") if isinstance(text, bytes) else text, add_special_tokens=False).ids
    same = list(ours) == theirs
    print("%s, %s: %s; %s" % (os.path.basename(path), what, "%d tokens, all the same" % len(theirs) if same else "DIFFERENT",
                              said.stdout.strip().replace("\n", "; ")), flush=True)
    if not same:
        at = next((i for i in range(min(len(ours), len(theirs))) if ours[i] != theirs[i]), min(len(ours), len(theirs)))
        print("  at", at, "of", len(ours), len(theirs), [oracle.id_to_token(i) for i in ours[max(0, at - 3):at + 6]],
              [oracle.id_to_token(i) for i in theirs[max(0, at - 3):at + 6]])
    return same


def compare(bench, corpus_path, paths):
    data = open(corpus_path, "rb").read()
    bad = 0
    for path in paths:
        oracle = Tokenizer.from_file(path)
        oracle.no_truncation()
        if not compare_text(bench, data, path, oracle, "all"):
            bad += not compare_text(bench, without_new(data.decode("utf-8", "replace")), path, oracle,
                                    "without characters newer than Unicode %s" % unicodedata.unidata_version)
    return bad


# ---- fixtures ----

def cases(path, corpus_text, rng):
    oracle = Tokenizer.from_file(path)
    special = [t["content"] for t in json.load(open(path, encoding="utf-8"))["added_tokens"]]
    texts = ["", " ", "a", "Hello, world!", "  two  spaces", "\n", "\ufffd", "cat catalog cat", "x <mask> y<r>  z",
             "Ätzend", "e\u0301t\u00e9 e\u0301te\u0301", "   \n\n\n   b", " two  two", "▁▁▁▁a", "[INST] hi [/INST]  there",
             "<tool_call>xy<tool_call>", "a" * 300, " " * 200 + "b", "ab" * 400, "0123456789 12 345", "<0x41><0xE4>"]
    texts += [s + "x " + s for s in special] + ["".join(rng.choice(special) + rng.choice(["", " ", "a", "\n", "é"]) for _ in range(8))]
    for _ in range(25):
        at = rng.randrange(len(corpus_text) - 500)
        texts.append(corpus_text[at:at + rng.randrange(1, 400)])
    odd = oddities(rng)
    texts += [next(odd)[:500] for _ in range(10)]
    for text in texts:
        case = {"hex": text.encode("utf-8", "surrogatepass").hex()}
        case["ids"] = oracle.encode(text, add_special_tokens=False).ids
        case["framed"] = oracle.encode(text).ids
        case["decoded"] = oracle.decode(case["ids"], skip_special_tokens=False)
        case["skipped"] = oracle.decode(case["framed"], skip_special_tokens=True)
        yield case
    oracle.encode_special_tokens = True
    for text in texts[-12:] + [" ".join(special)]:
        yield {"hex": text.encode("utf-8", "surrogatepass").hex(), "plain": oracle.encode(text, add_special_tokens=False).ids}
    size = oracle.get_vocab_size()
    for _ in range(20):  # any tokens in any order: bytes that are no UTF-8 among them
        ids = [rng.randrange(size) for _ in range(12)] + [rng.randrange(min(size, 300)) for _ in range(12)]
        yield {"ids_only": ids, "decoded": oracle.decode(ids, skip_special_tokens=False)}
    for _ in range(5):
        data = bytes(rng.choice((rng.randrange(256), 0xe4, 0xbd, 0xa0, 0xf0, 0x9f)) for _ in range(60))
        yield {"hex": data.hex(), "ids": oracle.encode(data.decode("utf-8", "replace"), add_special_tokens=False).ids}


# The forms that runner/text/chat.c writes, for jinja: Meta's of Llama 3, ChatML, Mistral's v1.
CHATS = {
    "llama-3": ("llama3", "<|begin_of_text|>", "<|eot_id|>", """
{%- for m in messages %}
{{- bos_token if loop.first else '' }}<|start_header_id|>{{ m.role }}<|end_header_id|>

{{ m.content | trim }}<|eot_id|>
{%- endfor %}
{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' if add_generation_prompt else '' }}"""),
    "chatml": ("qwen2", None, "<|im_end|>", """
{%- for m in messages %}
{{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}
{%- endfor %}
{{- '<|im_start|>assistant\\n' if add_generation_prompt else '' }}"""),
    "mistral": ("mistral", "<s>", "</s>", """
{{- bos_token }}
{%- set system = messages[0].content + '\\n\\n' if messages[0].role == 'system' else '' %}
{%- for m in (messages[1:] if system else messages) %}
{{- ' [INST] ' + (system if loop.first else '') + m.content + ' [/INST]' if m.role == 'user' else ' ' + m.content + eos_token }}
{%- endfor %}"""),
}
TALKS = [[("user", "Hi")], [("system", "Be brief."), ("user", "  What is 2 + 2?\n")],
         [("user", "Größe?"), ("assistant", "\u3000 1,80 m \x1d"), ("user", "日本語で 😀")],
         [("system", "a\n\nb "), ("user", ""), ("assistant", "x"), ("user", "y"), ("assistant", "z ")]]


def chats(directory):
    """What transformers makes of conversations, as text and as tokens."""
    from transformers import PreTrainedTokenizerFast
    for name, (tokenizer, bos, eos, template_text) in CHATS.items():
        t = PreTrainedTokenizerFast(tokenizer_file=os.path.join(directory, tokenizer + ".json"), bos_token=bos, eos_token=eos,
                                    chat_template=template_text)
        for talk in TALKS:
            for answer in (False, True):
                messages = [{"role": role, "content": content} for role, content in talk]
                text = t.apply_chat_template(messages, tokenize=False, add_generation_prompt=answer)
                yield {"chat": name, "tokenizer": tokenizer, "messages": messages, "answer": answer, "text": text,
                       "ids": t(text, add_special_tokens=False)["input_ids"]}


def fixtures(corpus_path):
    text = open(corpus_path, "rb").read().decode("utf-8", "replace")
    here = os.path.dirname(os.path.abspath(__file__))
    target = os.path.join(here, "fixtures", "tokenizers.tar.xz")
    with tempfile.TemporaryDirectory() as scratch:
        train(scratch, corpus_path, 900)
        with tarfile.open(target, "w:xz", format=tarfile.USTAR_FORMAT) as archive:
            talks = "".join(json.dumps(c) + "\n" for c in chats(scratch)).encode()
            info = tarfile.TarInfo("chats.cases")
            info.size = len(talks)
            archive.addfile(info, io.BytesIO(talks))
            for name in sorted(FAMILIES):
                path = os.path.join(scratch, name + ".json")
                found = cases(path, text, random.Random(name))
                for base, data in ((name + ".json", open(path, "rb").read()),
                                   (name + ".cases", "".join(json.dumps(c) + "\n" for c in found).encode())):
                    info = tarfile.TarInfo(base)
                    info.size = len(data)
                    archive.addfile(info, io.BytesIO(data))
    print(target, os.path.getsize(target), "bytes")


def main(arguments):
    if len(arguments) >= 2 and arguments[0] == "corpus":
        corpus(arguments[1], float(arguments[2]) if len(arguments) > 2 else 20)
    elif len(arguments) >= 3 and arguments[0] == "train":
        train(arguments[1], arguments[2], int(arguments[3]) if len(arguments) > 3 else 32000)
    elif len(arguments) == 3 and arguments[0] == "real":
        real(arguments[1], arguments[2])
    elif len(arguments) >= 4 and arguments[0] == "compare":
        return 1 if compare(arguments[1], arguments[2], arguments[3:]) else 0
    elif len(arguments) == 2 and arguments[0] == "fixtures":
        fixtures(arguments[1])
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
