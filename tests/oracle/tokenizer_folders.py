#!/usr/bin/env python3
"""Tokenizer folders as transformers 4 and 5 write them, and as people edit them, with what both read from each.

  tokenizer_folders.py fixtures PYTHON4 PYTHON5       makes tests/oracle/fixtures/tokenizer_folders.tar.xz
  tokenizer_folders.py draw PYTHON4 PYTHON5 DIR COUNT SEED   folders with drawn edits, for
                                                       build/tests/test_tokenizer_folders DIR

PYTHON4 and PYTHON5 are interpreters with transformers 4 and 5, sentencepiece and Jinja2. Each folder gets
expected.json: the texts, what transformers 4 and 5 make of them, and which version wrote the folder (0: both
read it alike, or it was edited by hand). Run by hand; what it makes is committed.
"""
import json
import os
import random
import shutil
import subprocess
import sys
import tarfile
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
CORPUS = ("the quick brown fox jumps over the lazy dog. a tool calls a tool, the user asks; an assistant answers\n"
          "user: hello world! system: be brief. 1234 + 567 = 1801, naïve café, Straße, 字词 слово\n") * 40
CHAT = ("{{ bos_token }}{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}{{ eos_token }}\n"
        "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
MESSAGES = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello world"}]
TOOLS = [{"type": "function", "function": {"name": "f", "description": "d",
                                           "parameters": {"type": "object", "properties": {}}}}]


# ---- tokenizers ----

def train(directory, name):
    """A tokenizer.json, or a sentencepiece model, made on the spot."""
    if name in ("spm", "unigram"):
        import sentencepiece
        os.chdir(directory)  # the model has these paths in it
        with open("corpus.txt", "w", encoding="utf-8") as file:
            file.write(CORPUS)
        sentencepiece.SentencePieceTrainer.train(
            input="corpus.txt", model_prefix=name, model_type="bpe" if name == "spm" else "unigram",
            vocab_size=420 if name == "spm" else 330, byte_fallback=True, character_coverage=0.99,
            normalization_rule_name="identity", num_threads=1, minloglevel=2, unk_id=0, bos_id=1, eos_id=2, pad_id=-1,
            remove_extra_whitespaces=False, hard_vocab_limit=False)
        return
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    pattern = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
               r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
    if name in ("wordpiece", "wordlevel"):  # not trained: its trainer has another order each time
        vocab = {"[UNK]": 0, "hello": 1, "world": 2, "be": 3, "##low": 4}
        t = Tokenizer((models.WordPiece if name == "wordpiece" else models.WordLevel)(vocab=vocab, unk_token="[UNK]"))
        t.pre_tokenizer = pre_tokenizers.Whitespace()
    else:
        t = Tokenizer(models.BPE())
        t.decoder = decoders.ByteLevel()
        special = []
        if name == "gpt2":
            t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        if name == "qwen2":
            t.normalizer = normalizers.NFC()
            pattern = pattern.replace("{1,3}", "")
        if name in ("qwen2", "llama3"):
            t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), byte_level])
        if name == "lower":  # what is added with normalized=True is found after this
            t.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace("Q", "q")])
            t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = trainers.BpeTrainer(vocab_size=330, special_tokens=special, show_progress=False,
                                      initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
        t.train_from_iterator(CORPUS.splitlines(), trainer)
    t.save(os.path.join(directory, name + ".json"))


def fast(directory, name, **options):
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_file(os.path.join(directory, name + ".json")), **options)


def of_class(directory, name, base, **options):
    """A class of its own, from what train() made: of a sentencepiece model, or of vocabulary and merges."""
    import transformers
    folder = os.path.join(directory, "class-" + name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    if base == "spm":
        shutil.copy(os.path.join(directory, "spm.model"), os.path.join(folder, "tokenizer.model"))
    else:
        with open(os.path.join(directory, base + ".json"), encoding="utf-8") as file:
            model = json.load(file)["model"]
        with open(os.path.join(folder, "vocab.json"), "w", encoding="utf-8") as file:
            json.dump(model["vocab"], file)
        with open(os.path.join(folder, "merges.txt"), "w", encoding="utf-8") as file:
            file.write("#version: 0.2\n" + "".join("%s %s\n" % tuple(m) for m in model["merges"]))
    return getattr(transformers, name).from_pretrained(folder, **options)


def write_all(directory, version):
    """The folders that this version writes."""
    from tokenizers import AddedToken, processors
    from transformers import set_seed  # noqa: F401 (fails early where the package is not there)
    flags = [AddedToken("<tool>"), AddedToken("<tool>x", normalized=False), AddedToken("<|l|>", lstrip=True),
             AddedToken("<|r|>", rstrip=True, special=True), AddedToken("<|lr|>", lstrip=True, rstrip=True, normalized=False),
             AddedToken("dog", single_word=True), AddedToken("Quick", normalized=True), AddedToken("Quick", normalized=False),
             AddedToken(" two", normalized=True), AddedToken("fox", normalized=False, special=True)]
    ends = dict(bos_token="<|endoftext|>", eos_token="<|im_end|>", pad_token="<|pad|>")
    more = "extra_special_tokens" if version == 5 else "additional_special_tokens"

    def put(name, t, model_type="llama", **config):
        if config.pop("chat", True):
            t.chat_template = CHAT
        save = {"save_jinja_files": config.pop("jinja")} if "jinja" in config else {}
        folder = os.path.join(directory, "%d_%s" % (version, name))
        t.save_pretrained(folder, **save)
        written = get(folder, "tokenizer_config.json")
        if written.pop("vocab_file", None):  # a path of this machine
            set_json(folder, "tokenizer_config.json", written)
        put_config(folder, model_type, **config)

    for base in ("gpt2", "qwen2", "llama3", "lower"):
        put(base + "_plain", fast(directory, base))
        put(base + "_limit", fast(directory, base, model_max_length=2048, **ends))
        t = fast(directory, base, **ends)
        t.add_tokens(flags)
        put(base + "_flags", t, eos_token_id=t.eos_token_id)
        t = fast(directory, base, bos_token="<|endoftext|>", eos_token=AddedToken("<|im_end|>", lstrip=True, special=True),
                 **{more: ["<|im_start|>", AddedToken("<|im_start|>!", rstrip=True, special=True)]})
        put(base + "_special", t, generation=dict(eos_token_id=[t.eos_token_id, t.bos_token_id]))
    t = fast(directory, "gpt2")
    t.add_special_tokens({"pad_token": "<|pad|>", "eos_token": "!", more: ["<|a|>", "<|a|>b"]})
    t.add_tokens(["<|a|>bc", "ab"])
    put("added_later", t, jinja=False)
    t = fast(directory, "qwen2", extra_special_tokens={"image_token": "<image>", "boi_token": "<boi>"}, **ends)
    put("model_specific", t)
    t = fast(directory, "llama3", bos_token="<|begin_of_text|>", eos_token="<|eot_id|>")
    t.backend_tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
        single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|> $B",
        special_tokens=[("<|begin_of_text|>", t.bos_token_id)])])
    put("llama3_framed", t, generation=dict(bos_token_id=t.bos_token_id, eos_token_id=[t.eos_token_id]))
    t = fast(directory, "gpt2", **ends)
    t.chat_template = {"default": CHAT, "tool_use": "T{{ tools | length }}" + CHAT, "rag": "R" + CHAT}
    put("templates", t, chat=False)
    put("templates_inside", t, chat=False, jinja=False)
    for name, options in (("Llama2", dict(legacy=False, pad_token="<unk>")), ("Llama2Legacy", dict(legacy=True)),
                          ("Llama2Ends", dict(legacy=False, add_bos_token=False, add_eos_token=True))):
        put(name.lower(), of_class(directory, "LlamaTokenizerFast", "spm", **options), eos_token_id=2, bos_token_id=1)
    t = of_class(directory, "LlamaTokenizerFast", "spm", legacy=False, pad_token="<|pad|>")
    t.add_tokens(["<|user|>", AddedToken("<|end|>", rstrip=True, special=True), AddedToken("<tool>"), AddedToken("<tool>x", lstrip=True)])
    put("phi3", t, eos_token_id=2, bos_token_id=1, generation=dict(eos_token_id=[2, t.convert_tokens_to_ids("<|end|>")]))
    put("gemma", of_class(directory, "GemmaTokenizerFast", "spm", bos_token="<s>", eos_token="</s>", pad_token="<unk>"), eos_token_id=2)
    for name, base in (("Qwen2Tokenizer", "qwen2"), ("GPT2Tokenizer", "gpt2")):
        t = of_class(directory, name + "Fast", base)
        t.add_special_tokens({more: ["<|im_start|>", "<|im_end|>"]})
        t.add_tokens([AddedToken("<tool_call>", special=False, normalized=False), AddedToken("</tool_call>", normalized=False)])
        t.add_special_tokens({"eos_token": "<|im_end|>"})
        put(name.lower(), t, "qwen2" if base == "qwen2" else "llama", eos_token_id=t.eos_token_id)
    if version == 4:
        t = of_class(directory, "LlamaTokenizer", "spm", legacy=False)
        t.add_tokens(["<tool>", AddedToken("<|end|>", special=True)])
        put("slow_llama", t)
        put("slow_gpt2", of_class(directory, "GPT2Tokenizer", "gpt2"))
    for base in ("wordpiece", "wordlevel"):
        put(base, fast(directory, base, unk_token="[UNK]"))
    put("unigram", __import__("transformers").T5TokenizerFast.from_pretrained(folder_of_unigram(directory)), "t5")


# ---- as published models look ----

LIMIT = 1000000000000000019884624838656
INST = ("{{ bos_token }}{% for m in messages %}{% if m['role'] == 'user' %}{{ '[INST] ' + m['content'] + ' [/INST]' }}"
        "{% elif m['role'] == 'assistant' %}{{ ' ' + m['content'] + eos_token }}{% endif %}{% endfor %}")


def typed(content, **flags):
    return dict(entry(content, **flags), __type="AddedToken")


def published(directory):
    """Files of the shapes that models of these families came with, small, from what version 4 wrote."""
    pieces = {"add_bos_token": True, "add_eos_token": False, "clean_up_tokenization_spaces": False,
              "model_max_length": LIMIT, "sp_model_kwargs": {}, "tokenizer_class": "LlamaTokenizer"}
    plain = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    flat = {key: {k: v for k, v in entry(text).items() if k != "special"} for key, text in plain.items()}

    def put(name, base, config, model_type, map=None, files=None, **more):
        folder = os.path.join(directory, "p_" + name)
        shutil.copytree(os.path.join(directory, base), folder)
        for old in ("special_tokens_map.json", "chat_template.jinja", "tokenizer.model", "added_tokens.json"):
            if os.path.exists(os.path.join(folder, old)):
                os.unlink(os.path.join(folder, old))
        set_json(folder, "tokenizer_config.json", config)
        set_json(folder, "special_tokens_map.json", map)
        for key, value in (files or {}).items():
            set_json(folder, key, value)
        put_config(folder, model_type, **more)

    def decoder(base):
        return {str(a["id"]): {k: v for k, v in a.items() if k != "id"}
                for a in get(os.path.join(directory, base), "tokenizer.json")["added_tokens"]}

    put("llama2", "4_llama2legacy", dict(pieces, legacy=False, pad_token=None, padding_side="right", chat_template=INST,
                                         **{key: typed(text) for key, text in plain.items()}),
        "llama", flat, bos_token_id=1, eos_token_id=2, generation=dict(bos_token_id=1, eos_token_id=2, pad_token_id=0))
    put("tinyllama", "4_llama2", dict(pieces, legacy=False, pad_token="</s>", padding_side="right", chat_template=INST, **plain),
        "llama", dict(flat, pad_token=flat["eos_token"]), bos_token_id=1, eos_token_id=2,
        generation=dict(bos_token_id=1, eos_token_id=2, max_length=2048, pad_token_id=0))
    put("mistral", "4_llama2", dict(pieces, added_tokens_decoder=decoder("4_llama2"), additional_special_tokens=[],
                                    legacy=True, pad_token=None, spaces_between_special_tokens=False,
                                    use_default_system_prompt=False, chat_template=INST, **plain),
        "mistral", flat, bos_token_id=1, eos_token_id=2, generation=dict(_from_model_config=True, bos_token_id=1, eos_token_id=2))
    put("phi3", "4_phi3", dict(pieces, add_bos_token=False, added_tokens_decoder=decoder("4_phi3"), legacy=False,
                               padding_side="left", use_default_system_prompt=False, model_max_length=4096,
                               pad_token="<|end|>", chat_template=CHAT, **plain),
        "llama", dict(flat, pad_token=flat["eos_token"]), bos_token_id=1, eos_token_id=2, generation=dict(bos_token_id=1, eos_token_id=[2, 422]))
    put("qwen3", "4_qwen2tokenizer", {
        "add_bos_token": False, "add_prefix_space": False, "added_tokens_decoder": decoder("4_qwen2tokenizer"),
        "additional_special_tokens": ["<|im_start|>", "<|im_end|>", "<tool_call>"], "bos_token": None, "chat_template": CHAT,
        "clean_up_tokenization_spaces": False, "eos_token": "<|im_end|>", "errors": "replace", "model_max_length": 131072,
        "pad_token": "<|endoftext|>", "split_special_tokens": False, "tokenizer_class": "Qwen2Tokenizer", "unk_token": None},
        "qwen3", bos_token_id=330, eos_token_id=332, generation=dict(bos_token_id=330, do_sample=True, eos_token_id=[332, 330], pad_token_id=330))
    put("llama3", "4_llama3_framed", {
        "added_tokens_decoder": decoder("4_llama3_framed"), "bos_token": "<|begin_of_text|>", "chat_template": CHAT,
        "clean_up_tokenization_spaces": True, "eos_token": "<|eot_id|>", "model_input_names": ["input_ids", "attention_mask"],
        "model_max_length": LIMIT, "tokenizer_class": "PreTrainedTokenizerFast"},
        "llama", {"bos_token": entry("<|begin_of_text|>"), "eos_token": entry("<|eot_id|>")}, bos_token_id=330,
        eos_token_id=[331], generation=dict(bos_token_id=330, do_sample=True, eos_token_id=[331, 330], temperature=0.6))
    put("smollm2", "4_gpt2_special", {
        "add_prefix_space": False, "added_tokens_decoder": decoder("4_gpt2_special"),
        "additional_special_tokens": ["<|im_start|>", "<|im_start|>!"], "bos_token": "<|im_start|>", "chat_template": CHAT,
        "clean_up_tokenization_spaces": False, "eos_token": "<|im_end|>", "model_max_length": 8192, "pad_token": "<|im_end|>",
        "tokenizer_class": "GPT2Tokenizer", "unk_token": "<|endoftext|>", "vocab_size": 49152},
        "llama", {"additional_special_tokens": ["<|im_start|>", "<|im_start|>!"], "bos_token": entry("<|im_start|>"),
                  "eos_token": entry("<|im_end|>")}, bos_token_id=1, eos_token_id=331)
    put("deepseek", "4_llama3_framed", {
        "add_bos_token": True, "add_eos_token": False, "bos_token": typed("<|begin_of_text|>"), "chat_template": CHAT,
        "clean_up_tokenization_spaces": False, "eos_token": typed("<|eot_id|>"), "legacy": True, "model_max_length": 16384,
        "pad_token": typed("<|eot_id|>"), "sp_model_kwargs": {}, "unk_token": None, "tokenizer_class": "LlamaTokenizerFast"},
        "llama", bos_token_id=330, eos_token_id=331)
    put("gemma", "4_gemma", dict(pieces, added_tokens_decoder=decoder("4_gemma"), bos_token="<s>", eos_token="</s>", pad_token="<unk>",
                                 unk_token="<unk>", additional_special_tokens=["<s>"], spaces_between_special_tokens=False,
                                 tokenizer_class="GemmaTokenizer", chat_template=CHAT),
        "llama", flat, eos_token_id=2, generation=dict(bos_token_id=1, eos_token_id=[2, 0]))
    put("finetuned", "4_llama2", dict(pieces, legacy=False, **plain), "llama",
        dict(flat, pad_token="[PAD]", additional_special_tokens=["<|im_start|>"]),
        {"added_tokens.json": {"[PAD]": 420, "<|im_start|>": 421, "<|im_end|>": 422}}, bos_token_id=1, eos_token_id=2)


def folder_of_unigram(directory):
    folder = os.path.join(directory, "class-unigram")
    os.makedirs(folder, exist_ok=True)
    shutil.copy(os.path.join(directory, "unigram.model"), os.path.join(folder, "spiece.model"))
    return folder


def put_config(folder, model_type, generation=None, **config):
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(dict(config, model_type=model_type), file)
    if generation is not None:
        with open(os.path.join(folder, "generation_config.json"), "w", encoding="utf-8") as file:
            json.dump(generation, file)


# ---- edits by hand ----

def get(folder, name):
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def set_json(folder, name, value):
    path = os.path.join(folder, name)
    if value is None:
        if os.path.exists(path):
            os.unlink(path)
        return
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, ensure_ascii=False, indent=2)


def entry(content, **flags):
    whole = dict(content=content, lstrip=False, normalized=False, rstrip=False, single_word=False, special=False)
    whole.update(flags)
    return whole


def edit(name):
    def wrap(function):
        EDITS[name] = function
        return function
    return wrap


EDITS = {}


def next_id(folder):
    t = get(folder, "tokenizer.json")
    return 1 + max(list(t["model"]["vocab"].values()) + [a["id"] for a in t["added_tokens"]])


def config_of(folder):
    return get(folder, "tokenizer_config.json") or {}


def any_flags(rng):
    return {key: rng.random() < 0.3 for key in ("lstrip", "rstrip", "normalized", "single_word", "special")}


def any_text(rng):
    return rng.choice(["<tool>", "<|a|>", "<|a|>b", "<|im_start|>", "<|im_end|>", "dog", "Quick", " two", "字", "!", "fo",
                       "<pad2>", "</s>", "<s>", "the", "ab", "é", "<|r|>"])


@edit("decoder_adds")
def decoder_adds(folder, rng):
    config, at = config_of(folder), next_id(folder)
    tokens = config.setdefault("added_tokens_decoder", {})
    for i in range(rng.randrange(1, 3)):
        tokens[str(at + i * rng.choice((1, 1, 5)))] = entry(any_text(rng), **any_flags(rng))
    set_json(folder, "tokenizer_config.json", config)


@edit("decoder_changes")
def decoder_changes(folder, rng):
    """Flags that differ from tokenizer.json's."""
    config, t = config_of(folder), get(folder, "tokenizer.json")
    config["added_tokens_decoder"] = {str(a["id"]): {key: value for key, value in a.items() if key != "id"}
                                      for a in t["added_tokens"]}
    for a in config["added_tokens_decoder"].values():
        if rng.random() < 0.5:
            a.update(any_flags(rng))
    set_json(folder, "tokenizer_config.json", config)


@edit("decoder_only")
def decoder_only(folder, rng):
    """Tokens that stand in tokenizer_config.json and no longer in tokenizer.json."""
    decoder_changes(folder, random.Random(rng.random()))
    t = get(folder, "tokenizer.json")
    t["added_tokens"] = [a for a in t["added_tokens"] if rng.random() < 0.5]
    t["post_processor"] = None
    set_json(folder, "tokenizer.json", t)


@edit("no_decoder")
def no_decoder(folder, rng):
    config = config_of(folder)
    config.pop("added_tokens_decoder", None)
    set_json(folder, "tokenizer_config.json", config)


@edit("added_tokens_json")
def added_tokens_json(folder, rng):
    no_decoder(folder, rng)
    at = next_id(folder)
    set_json(folder, "added_tokens.json", {any_text(rng): at + i * rng.choice((1, 1, 3)) for i in range(3)})


@edit("special_map")
def special_map(folder, rng):
    if rng.random() < 0.7:
        no_decoder(folder, rng)
    value = get(folder, "special_tokens_map.json") or {}
    for key in ("eos_token", "bos_token", "pad_token", "unk_token"):
        if rng.random() < 0.4:
            text = any_text(rng)
            value[key] = text if rng.random() < 0.5 else {key: v for key, v in entry(text, **any_flags(rng)).items() if key != "special"}
    if rng.random() < 0.6:
        value["additional_special_tokens"] = [any_text(rng) for _ in range(2)]
        if rng.random() < 0.3:
            value["additional_special_tokens"] = [{key: v for key, v in entry(text).items() if key != "special"}
                                                  for text in value["additional_special_tokens"]]
    set_json(folder, "special_tokens_map.json", value)


@edit("additional")
def additional(folder, rng):
    config = config_of(folder)
    config[rng.choice(("additional_special_tokens", "additional_special_tokens", "extra_special_tokens"))] = [any_text(rng), any_text(rng)]
    set_json(folder, "tokenizer_config.json", config)


@edit("additional_typed")
def additional_typed(folder, rng):
    config = config_of(folder)
    config["additional_special_tokens"] = [dict(entry(any_text(rng), **any_flags(rng)), __type="AddedToken")]
    set_json(folder, "tokenizer_config.json", config)


@edit("named")
def named(folder, rng):
    """Special tokens by name, as texts and as AddedToken; one may be none."""
    config = config_of(folder)
    for key in ("eos_token", "bos_token", "pad_token", "image_token"):
        if rng.random() < 0.6:
            config[key] = rng.choice((any_text(rng), any_text(rng), None, dict(entry(any_text(rng), **any_flags(rng)), __type="AddedToken")))
    set_json(folder, "tokenizer_config.json", config)


@edit("named_special")
def named_special(folder, rng):
    config = config_of(folder)
    config["extra_special_tokens"] = {"image_token": any_text(rng), "audio_token": any_text(rng)}
    set_json(folder, "tokenizer_config.json", config)


@edit("adds_ends")
def adds_ends(folder, rng):
    config = config_of(folder)
    config["add_bos_token"], config["add_eos_token"] = rng.random() < 0.5, rng.random() < 0.5
    set_json(folder, "tokenizer_config.json", config)


@edit("no_config")
def no_config(folder, rng):
    set_json(folder, "tokenizer_config.json", None)


@edit("class")
def other_class(folder, rng):
    config = config_of(folder)
    config["tokenizer_class"] = rng.choice(("PreTrainedTokenizerFast", "LlamaTokenizer", "LlamaTokenizerFast", "Qwen2Tokenizer", "GPT2Tokenizer", "PreTrainedTokenizer", "TokenizersBackend"))
    set_json(folder, "tokenizer_config.json", config)


@edit("prefix")
def prefix(folder, rng):
    config = config_of(folder)
    config["add_prefix_space"] = rng.random() < 0.5
    set_json(folder, "tokenizer_config.json", config)


@edit("split_special")
def split_special(folder, rng):
    config = config_of(folder)
    config["split_special_tokens"] = True
    set_json(folder, "tokenizer_config.json", config)


@edit("ends")
def ends_of_generation(folder, rng):
    top = next_id(folder)
    pick = lambda: rng.choice((rng.randrange(top), [rng.randrange(top), rng.randrange(top)], None))
    config = get(folder, "config.json")
    config.pop("eos_token_id", None)
    set_json(folder, "generation_config.json", None)
    if rng.random() < 0.7:
        config["eos_token_id"] = pick()
    if rng.random() < 0.5:
        value = {"temperature": 0.5}
        if rng.random() < 0.8:
            value["eos_token_id"] = pick()
        set_json(folder, "generation_config.json", value)
    set_json(folder, "config.json", config)


@edit("template_list")
def template_list(folder, rng):
    config = config_of(folder)
    config["chat_template"] = [{"name": name, "template": name[0] + CHAT} for name in rng.sample(("default", "tool_use", "rag"), 2)]
    set_json(folder, "tokenizer_config.json", config)


@edit("template_files")
def template_files(folder, rng):
    if rng.random() < 0.6:
        with open(os.path.join(folder, "chat_template.jinja"), "w", encoding="utf-8") as file:
            file.write("J" + CHAT)
    os.makedirs(os.path.join(folder, "additional_chat_templates"), exist_ok=True)
    for name in rng.sample(("default", "tool_use", "rag"), rng.randrange(1, 3)):
        with open(os.path.join(folder, "additional_chat_templates", name + ".jinja"), "w", encoding="utf-8") as file:
            file.write("F" + name[0] + CHAT)


@edit("template_json")
def template_json(folder, rng):
    set_json(folder, "chat_template.json", {"chat_template": "P" + CHAT})


# ---- reading ----

def texts_of(folder):
    """Each special or added text, wherever it is written, in nasty places."""
    words = set()

    def walk(value, key=""):
        if isinstance(value, dict):
            if isinstance(value.get("content"), str):
                words.add(value["content"])
            for k, v in value.items():
                walk(v, k)
        elif isinstance(value, list):
            for v in value:
                walk(v, key)
        elif isinstance(value, str) and (key.endswith("_token") or key.endswith("special_tokens")):
            words.add(value)
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        walk(get(folder, name) or {})
    walk({"added": (get(folder, "tokenizer.json") or {}).get("added_tokens", [])})
    words.update(get(folder, "added_tokens.json") or {})
    words = sorted(words)[:24]
    rng = random.Random(7)
    out = ["", "hello world", " the  quick brown fox\n", "".join(words), " ".join(words), "\n ".join(reversed(words)) + " "]
    for i in range(14):
        out.append("".join(rng.choice(words or ["x"]) + rng.choice(("", "", " ", "  ", "a", "\n", " a ", "é", "Q", ".", "\u00a0"))
                           for _ in range(rng.randrange(1, 7))))
    for word in words[:8]:
        out.append("a" + word[:-1] + word + word[1:] + "b " + word)
    return out


def stops_of(folder, t):
    import transformers
    from transformers import AutoConfig, GenerationConfig
    try:
        return GenerationConfig.from_pretrained(folder).eos_token_id
    except OSError:
        pass
    if (get(folder, "config.json") or {}).get("eos_token_id") is None:
        return None  # version 4 has 2 for a class Llama, whatever token that is
    if transformers.__version__.startswith("4"):
        return GenerationConfig.from_model_config(AutoConfig.from_pretrained(folder)).eos_token_id
    return GenerationConfig.from_pretrained(folder, config_file_name="config.json").eos_token_id


def read_one(folder):
    from transformers import AutoTokenizer
    t = AutoTokenizer.from_pretrained(folder)
    texts, answer = texts_of(folder), {}
    answer["framed"] = [t(text).input_ids for text in texts]
    answer["plain"] = [t(text, add_special_tokens=False).input_ids for text in texts]
    answer["skipped"] = [t.decode(ids, skip_special_tokens=True) for ids in answer["plain"]]
    answer["bos"], answer["eos"], answer["size"] = t.bos_token_id, t.eos_token_id, len(t)
    answer["special"] = sorted(i for i, a in t.added_tokens_decoder.items() if a.special or (
        t.decode([i]) != "" and t.decode([i], skip_special_tokens=True) == ""))
    answer["class"] = type(t).__name__
    chats = []
    for tools in (None, TOOLS):
        try:
            chats.append(t.apply_chat_template(MESSAGES, tools=tools, tokenize=False, add_generation_prompt=True))
        except Exception as error:
            chats.append({"error": "%s: %.200s" % (type(error).__name__, error)})
    answer["chats"] = chats
    stops = stops_of(folder, t)
    answer["stops"] = stops if isinstance(stops, list) or stops is None else [stops]
    return answer


def read_all(directory, version):
    for name in sorted(os.listdir(directory)):
        folder = os.path.join(directory, name)
        if not os.path.exists(os.path.join(folder, "config.json")):
            continue
        try:
            answer = read_one(folder)
        except Exception as error:
            answer = {"error": "%s: %.300s" % (type(error).__name__, error)}
        expected = get(folder, "expected.json") or {"messages": MESSAGES, "tools": TOOLS, "texts": texts_of(folder), "read": {}}
        expected["read"][version] = answer
        with open(os.path.join(folder, "expected.json"), "w", encoding="utf-8") as file:
            json.dump(expected, file, ensure_ascii=False, separators=(",", ":"))


# ---- whole ----

def python(interpreter, *arguments):
    subprocess.run([interpreter, os.path.abspath(__file__), *map(str, arguments)], check=True,
                   env=dict(os.environ, HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", PYTHONHASHSEED="0"))


def draw(written, out, count, seed):
    """One to three edits of a folder that a version wrote."""
    rng = random.Random(seed)
    bases = sorted(name for name in os.listdir(written) if name[:2] in ("4_", "5_", "p_") and
                   not any(word in name for word in ("slow", "unigram", "wordpiece", "wordlevel")))
    for i in range(count):
        base = rng.choice(bases)
        edits = [list(EDITS)[i % len(EDITS)]] + rng.sample(sorted(EDITS), rng.choice((0, 0, 1, 2)))
        folder = os.path.join(out, "%03d_%s_%s" % (i, base, "_".join(edits)))
        shutil.copytree(os.path.join(written, base), folder)
        for name in edits:
            EDITS[name](folder, rng)


def main(arguments):
    if arguments[0] == "train":
        for name in ("gpt2", "qwen2", "llama3", "lower", "wordpiece", "wordlevel", "spm", "unigram"):
            train(arguments[1], name)
    elif arguments[0] == "write":
        write_all(arguments[1], int(arguments[2]))
        if arguments[2] == "4":
            published(arguments[1])
    elif arguments[0] == "read":
        read_all(arguments[1], arguments[2])
    elif arguments[0] == "draw":
        python4, python5, out, count, seed = arguments[1:]
        with tempfile.TemporaryDirectory() as scratch:
            python(python4, "train", scratch)
            python(python4, "write", scratch, 4)
            python(python5, "write", scratch, 5)
            os.makedirs(out)
            draw(scratch, out, int(count), int(seed))
        python(python4, "read", out, 4)
        python(python5, "read", out, 5)
    elif arguments[0] == "fixtures":
        fixtures(*arguments[1:])
    else:
        sys.exit(__doc__)


def fixtures(python4, python5, *keep):
    with tempfile.TemporaryDirectory() as scratch:
        written = os.path.abspath(keep[0]) if keep else scratch
        os.makedirs(written, exist_ok=True)
        python(python4, "train", written)
        python(python4, "write", written, 4)
        python(python5, "write", written, 5)
        draw(written, written, 2 * len(EDITS), 1)
        python(python4, "read", written, 4)
        python(python5, "read", written, 5)
        with tarfile.open(os.path.join(HERE, "fixtures", "tokenizer_folders.tar.xz"), "w:xz", preset=9) as archive:
            for name in sorted(os.listdir(written)):
                if os.path.exists(os.path.join(written, name, "expected.json")):
                    archive.add(os.path.join(written, name), name, filter=lambda i: setattr(i, "mtime", 0) or i)


if __name__ == "__main__":
    main(sys.argv[1:])
