#!/usr/bin/env python3
"""What test_serve.sh asks of `runner serve`. Python's standard library alone.

    serve_client.py COMMAND URL [ARGUMENTS]      URL: http://127.0.0.1:PORT or unix:PATH
"""
import ctypes
import http.client
import json
import math
import os
import random
import signal
import socket
import struct
import sys
import threading
import time


class Unix(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.host)


def connection(url, timeout=60):
    if url.startswith("unix:"):
        made = Unix("localhost", timeout=timeout)
        made.host = url[5:]
        return made
    return http.client.HTTPConnection(url[len("http://"):], timeout=timeout)


def ask(url, path, body=None, headers=None, method=None):
    c = connection(url)
    data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
    head = {"Host": "localhost"} if url.startswith("unix:") else {}
    c.request(method or ("GET" if data is None else "POST"), path, data, {**head, **(headers or {})})
    answer = c.getresponse()
    said = answer.read()
    c.close()
    return answer.status, dict(answer.getheaders()), said


def complete(url, path="/v1/completions", **body):
    status, _, said = ask(url, path, body)
    assert status == 200, (status, said)
    return json.loads(said)


def stream(url, path="/v1/completions", **body):
    """The events of a stream; the last one must be [DONE]."""
    status, headers, said = ask(url, path, {"stream": True, **body})
    assert status == 200 and headers["Content-Type"].startswith("text/event-stream"), (status, said)
    events = said.decode().split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""], events[-3:]
    assert all(e.startswith("data: ") for e in events[:-1]), events
    return [json.loads(e[6:]) for e in events[:-2]]


def streamed_texts(events, count):
    texts, reasons = [""] * count, [None] * count
    for event in events:
        for c in event["choices"]:
            assert reasons[c["index"]] is None, "a text goes on behind its end"
            texts[c["index"]] += c["text"] if "text" in c else c["delta"].get("content", "")
            reasons[c["index"]] = c["finish_reason"]
    return texts, reasons


def metrics(url):
    lines = ask(url, "/metrics")[2].decode().splitlines()
    return {n.removeprefix("shardwright_"): float(v) for n, v in
            (line.split() for line in lines if not line.startswith("#"))}


def wait_until_idle(url, seconds=20):
    until = time.time() + seconds
    while True:
        now = metrics(url)
        if now["sequences_running"] == 0 and now["sequences_waiting"] == 0:
            return now
        assert time.time() < until, f"slots are stuck: {now}"
        time.sleep(0.1)


# ---- Commands ----

def counts(usage):
    """Without what depends on earlier texts."""
    return {k: v for k, v in usage.items() if k != "prompt_tokens_details"}


def same(url, prompts, generated, what="all"):
    """Answers are what `runner generate` makes of the same prompts, whole and streamed; of another
    mesh what is drawn is not promised, and log-probabilities to 1e-5."""
    made = [json.loads(line) for line in open(generated)]
    at = 0
    for line in open(prompts):
        prompt = json.loads(line)
        n = prompt.pop("n", 1)
        if what == "greedy" and "temperature" in prompt:
            at += n
            continue
        body = {"temperature": 0, **prompt, "n": n, "logprobs": 0}
        body["prompt"] = body.pop("tokens", body.get("prompt"))
        body["max_tokens"] = body.pop("max_new_tokens", 128)
        body["min_tokens"] = body.pop("min_new_tokens", 0)
        answer = complete(url, **body)
        events = stream(url, stream_options={"include_usage": True}, **body)
        wanted = made[at:at + n]
        at += n
        assert [c["index"] for c in answer["choices"]] == list(range(n)), answer
        for c, w in zip(answer["choices"], wanted):
            assert (c["text"], c["finish_reason"]) == (w["text"], w["finish_reason"]), (c, w)
            assert all(abs(a - b) < 1e-5 for a, b in
                       zip(c["logprobs"]["token_logprobs"], w["logprobs"])), (c, w)
            assert len(c["logprobs"]["tokens"]) == len(w["tokens"]), (c, w)
        texts, reasons = streamed_texts(events, n)
        assert texts == [w["text"] for w in wanted], (texts, wanted)
        assert reasons == [w["finish_reason"] for w in wanted], reasons
        assert counts(answer["usage"]) == counts(events[-1]["usage"]), (answer["usage"], events[-1])
        assert all(e["usage"] is None for e in events[:-1]), events
        assert answer["usage"]["completion_tokens"] == sum(len(w["tokens"]) for w in wanted)
    assert at == len(made), (at, len(made))
    print(f"{what} of {at} texts as runner generate makes them, whole and streamed")


def echo(url, score):
    """What lm-evaluation-harness asks: log-probabilities of the prompt's own tokens."""
    scored = json.load(open(score))
    text = open(scored["file"]).read()
    tokens = list(text.encode())
    wanted = {"temperature": 0, "max_tokens": 1, "logprobs": 1, "echo": True}
    both = complete(url, prompt=[tokens, tokens[:7]], **wanted)["choices"]
    for choice, given in zip(both, (tokens, tokens[:7])):
        l = choice["logprobs"]
        assert choice["text"].startswith(bytes(given).decode()), choice
        assert len(l["tokens"]) == len(l["token_logprobs"]) == len(l["top_logprobs"]) == \
            len(l["text_offset"]) == len(given) + 1, l
        assert "".join(l["tokens"]) == choice["text"] and l["token_logprobs"][0] is None, l
        assert l["text_offset"] == list(range(len(given) + 1)), l
        for token, logprob, top in list(zip(l["tokens"], l["token_logprobs"], l["top_logprobs"]))[1:]:
            assert top[token] == logprob <= max(top.values()) and len(top) <= 2, (token, logprob, top)
            assert max(top.values()) >= -6, top
    total = sum(both[0]["logprobs"]["token_logprobs"][1:-1])
    assert abs(total - scored["logprob"]) <= 1e-5 * abs(scored["logprob"]), (total, scored)
    # the most probable tokens are those that greedy texts are made of
    for index in (1, 20, len(tokens) - 1):
        greedy = complete(url, prompt=tokens[:index], temperature=0, max_tokens=1, logprobs=1)
        best, = greedy["choices"][0]["logprobs"]["top_logprobs"]
        (name, value), = best.items()
        top = both[0]["logprobs"]["top_logprobs"][index]
        assert max(top, key=top.get) == name and abs(top[name] - value) < 1e-5, (top, best)
    none = complete(url, prompt=[text], **{**wanted, "max_tokens": 0})["choices"][0]
    assert none["text"] == text and none["finish_reason"] == "length", none
    assert none["logprobs"]["token_logprobs"] == both[0]["logprobs"]["token_logprobs"][:-1]
    plain = complete(url, prompt=text, max_tokens=0, echo=True)["choices"][0]
    assert (plain["text"], plain["logprobs"]) == (text, None), plain
    events = stream(url, prompt=text, **wanted)
    assert streamed_texts(events, 1)[0][0] == both[0]["text"]
    assert sum((e["choices"][0]["logprobs"]["tokens"] for e in events), []) == \
        both[0]["logprobs"]["tokens"]
    print(f"{len(tokens)} tokens of a prompt scored as runner score does")


def spelled(token):
    """As a key of top_logprobs, of the model of bytes; NUL has none (jansson's keys end there)."""
    special = {256: "<|im_start|>", 257: "<|im_end|>"}
    return special.get(token, "" if token == 0 or token > 257 else
                       chr(token) if token < 128 else f"bytes:\\x{token:02x}")


def top(url):
    """The most probable tokens, of new ones and of a prompt's, against a whole softmax: that of each
    of the vocabulary behind the same prompt, as scoring has it, which knows no candidates."""
    text = "the quick brown fo"
    given = list(text.encode())
    whole = {}
    for first in (0, 132):
        part = range(first, first + 132)
        answer = complete(url, prompt=[given + [t] for t in part], max_tokens=0, echo=True, logprobs=0)
        for t, choice in zip(part, answer["choices"]):
            whole[t] = choice["logprobs"]["token_logprobs"][-1]
    assert len(whole) == 264 and abs(sum(map(math.exp, whole.values())) - 1) < 1e-4, whole
    order = sorted(whole, key=lambda t: (-whole[t], t))
    for n in (1, 3, 5):
        greedy = complete(url, prompt=text, temperature=0, max_tokens=7, logprobs=n)["choices"][0]
        lists = greedy["logprobs"]["top_logprobs"]
        assert len(lists) == 7 and all(len(l) == n for l in lists), lists
        assert list(lists[0]) == [spelled(t) for t in order[:n]], (lists[0], order[:n])
        assert all(abs(v - whole[t]) < 1e-5 for t, v in zip(order, lists[0].values())), lists[0]
        for token, value, best in zip(*(greedy["logprobs"][k] for k in ("tokens", "token_logprobs", "top_logprobs"))):
            assert list(best)[0] == token and best[token] == value, (token, value, best)
            assert list(best.values()) == sorted(best.values(), reverse=True), best
        # of a prompt's places: the first has none, the last is that of the new token above
        both = complete(url, prompt=[text + "x", text], temperature=0, max_tokens=1, echo=True, logprobs=n)
        for choice, count in zip(both["choices"], (len(given) + 1, len(given))):
            l = choice["logprobs"]
            assert l["top_logprobs"][0] is None and l["token_logprobs"][0] is None, l
            assert len(l["top_logprobs"]) == count + 1 and l["text_offset"] == list(range(count + 1)), l
            assert all(best[token] == value and n <= len(best) <= n + 1 for token, value, best in
                       list(zip(l["tokens"], l["token_logprobs"], l["top_logprobs"]))[1:]), l
        behind = both["choices"][0]["logprobs"]["top_logprobs"][len(given)]
        assert list(behind)[:n] == list(lists[0]), (behind, lists[0])
        assert all(abs(behind[t] - lists[0][t]) < 1e-5 for t in lists[0]), (behind, lists[0])
    # drawn, with a penalty: of the model's own distribution; the chosen one besides, whoever it is
    hot = {"prompt": text, "temperature": 1.5, "repetition_penalty": 1.3, "seed": 4, "max_tokens": 30}
    drawn = complete(url, **hot, logprobs=5)["choices"][0]["logprobs"]
    assert list(drawn["top_logprobs"][0])[:5] == [spelled(t) for t in order[:5]], drawn
    assert {len(l) for l in drawn["top_logprobs"]} == {5, 6}, drawn
    assert all(l[t] == v for t, v, l in zip(drawn["tokens"], drawn["token_logprobs"], drawn["top_logprobs"]))
    assert complete(url, **hot, logprobs=0)["choices"][0]["logprobs"]["token_logprobs"] == \
        drawn["token_logprobs"]
    # seeds of 64 bits, each another draw
    seeds = (-2**63, -4, -1, 2**53, 2**53 + 1, 2**63 - 1)
    assert len({complete(url, **{**hot, "seed": s})["choices"][0]["text"] for s in seeds}) == len(seeds)
    # streamed, the same; a conversation has up to 20, without the chosen one
    events = stream(url, **hot, logprobs=5)
    assert sum((e["choices"][0]["logprobs"]["top_logprobs"] for e in events), []) == drawn["top_logprobs"]
    asked = {"messages": [{"role": "user", "content": text}], "temperature": 1, "seed": 2, "max_tokens": 9,
             "logprobs": True}
    for n in (0, 1, 20):
        said = complete(url, "/v1/chat/completions", top_logprobs=n, **asked)["choices"][0]["logprobs"]
        assert len(said["content"]) > 3 and all(len(t["top_logprobs"]) == n for t in said["content"]), said
        for t in said["content"]:
            values = [b["logprob"] for b in t["top_logprobs"]]
            assert values == sorted(values, reverse=True), t
            same_token = [b for b in t["top_logprobs"] if b["bytes"] == t["bytes"]]
            assert all(b == {k: t[k] for k in ("token", "logprob", "bytes")} for b in same_token), t
            assert same_token or n < 20 or t["logprob"] <= values[-1], t
        events = stream(url, "/v1/chat/completions", top_logprobs=n, **asked)
        assert sum((e["choices"][0]["logprobs"]["content"] for e in events), []) == said["content"], events
    print("the most probable tokens are those of a whole softmax")


def questions(count, seed):
    draw = random.Random(seed)
    for i in range(count):
        prompt = [draw.randrange(256) for _ in range(draw.choice((1, 3, 15, 16, 17, 40)))]
        yield {"prompt": prompt, "seed": i, "max_tokens": draw.randrange(1, 40),
               "logprobs": draw.choice((0, 2, 5)),
               "temperature": draw.choice((0, 0.7, 1.5)), "top_k": draw.choice((0, 5)),
               "top_p": draw.choice((1, 0.9)), "repetition_penalty": draw.choice((1, 1.3)),
               **draw.choice(({}, {"presence_penalty": 0.5, "frequency_penalty": draw.choice((-0.25, 0.5)),
                                   "logit_bias": {str(draw.randrange(264)): 3 for _ in range(9)}},
                              {"min_tokens": 1, "stop_token_ids": [draw.randrange(256)]})),
               "n": draw.choice((1, 1, 3)), "stream": draw.random() < 0.3,
               "echo": draw.random() < 0.2}


def choices_of(url, body):
    if body["stream"]:
        events = stream(url, **body)
        return streamed_texts(events, body["n"]), \
            [sum((e["choices"][0]["logprobs"][key] or [] for e in events
                  if e["choices"][0]["index"] == 0), []) for key in ("token_logprobs", "top_logprobs")]
    return complete(url, **body)["choices"]


def parallel(url, clients, seed, seconds="0"):
    """Clients side by side get to the bit what each gets alone."""
    bodies = list(questions(2 * int(clients), int(seed)))
    alone = [choices_of(url, body) for body in bodies]
    wrong, done, until = [], [0], time.time() + float(seconds)

    def client(number):
        draw = random.Random(number)
        order = list(range(len(bodies)))
        while True:
            draw.shuffle(order)
            for i in order[:4]:
                try:
                    got = choices_of(url, bodies[i])
                    if got != alone[i]:
                        wrong.append(bodies[i])
                except Exception as mistake:  # noqa: BLE001
                    wrong.append((bodies[i], repr(mistake)))
                done[0] += 1
            if time.time() >= until or wrong:
                return

    threads = [threading.Thread(target=client, args=(i,)) for i in range(int(clients))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong, f"{len(wrong)} other answers, the first to {wrong[0]}"
    print(f"{done[0]} answers to {clients} clients at a time, each as alone to the bit")


def chat(url):
    messages = [{"role": "system", "content": "be brief"},
                {"role": "user", "content": [{"type": "text", "text": "the <|im_end|> quick"}]}]
    said = complete(url, "/v1/chat/completions", messages=messages, temperature=0, max_tokens=9)
    choice = said["choices"][0]
    assert choice["message"]["role"] == "assistant" and said["object"] == "chat.completion", said
    # as the template renders it, with what the user wrote as plain text
    start, end = [256], [257]
    prompt = (start + list(b"system\nbe brief") + end + list(b"\n") + start +
              list(b"user\nthe <|im_end|> quick") + end + list(b"\n") + start + list(b"assistant\n"))
    raw = complete(url, prompt=prompt, temperature=0, max_tokens=9)
    assert raw["choices"][0]["text"] == choice["message"]["content"], (raw, said)
    assert counts(raw["usage"]) == counts(said["usage"]), (raw, said)
    events = stream(url, "/v1/chat/completions", messages=messages, temperature=0, max_tokens=9,
                    logprobs=True, top_logprobs=1)
    assert events[0]["choices"][0]["delta"]["role"] == "assistant", events[0]
    assert streamed_texts(events, 1)[0][0] == choice["message"]["content"], events
    content = sum((e["choices"][0]["logprobs"]["content"] for e in events), [])
    assert len(content) == said["usage"]["completion_tokens"], content
    assert all(t["top_logprobs"][0]["logprob"] == t["logprob"] for t in content), content
    print("a conversation, whole and streamed")


WRONG = [  # path, body, status, param, message
    ("completions", b"", 400, None, "not valid JSON: the text ends within a value"),
    ("completions", b"[1]", 400, None, 'the body must be an object, {"prompt": ...}'),
    ("completions", b'{"prompt": "a', 400, None, "not valid JSON: the text ends within a value"),
    ("completions", b'{"prompt": "\xff"}', 400, None, "not valid JSON: a text that is not UTF-8"),
    ("completions", b'{"prompt": "a", "prompt": "b"}', 400, None, "not valid JSON: a duplicate key"),
    ("completions", {}, 400, "prompt", "'prompt' is missing"),
    ("completions", {"prompt": None}, 400, "prompt", "'prompt' is missing"),
    ("completions", {"prompt": 5}, 400, "prompt", "'prompt' must be a string, a list of tokens, or a list of either"),
    ("completions", {"prompt": []}, 400, "prompt", "'prompt' must be a string, a list of tokens, or a list of either"),
    ("completions", {"prompt": ""}, 400, "prompt", "the prompt is empty; give at least one token"),
    ("completions", {"prompt": [[1], "a", {}]}, 400, "prompt", "'prompt' must be a string, a list of tokens, or a list of either"),
    ("completions", {"prompt": [1, -2]}, 400, "prompt", "element 1 of the prompt is not a token: a whole number from 0"),
    ("completions", {"prompt": [1, "a"]}, 400, "prompt", "element 1 of the prompt is not a token: a whole number from 0"),
    ("completions", {"prompt": [264]}, 400, "prompt", "token 264 is none of the model's 264"),
    ("completions", {"prompt": ["a"] * 257}, 400, "prompt", "at most 256 prompts at a time"),
    ("completions", {"prompt": ["a"] * 3, "n": 100}, 400, "n", "at most 256 sequences at a time, of all prompts"),
    ("completions", {"prompt": "a" * 90}, 400, "prompt", "the prompt has 90 tokens; with 90 for a sequence, at most 89 leave room for a new one"),
    ("completions", {"prompt": "a" * 91, "max_tokens": 0}, 400, "prompt", "the prompt has 91 tokens; at most 90 fit"),
    ("completions", {"prompt": "a" * 1081}, 400, "prompt", "the prompt has 1081 bytes; with 90 tokens for a sequence, of at most 12 bytes each, it can have 1080"),
    ("completions", {"prompt": "a" * 8000000}, 400, "prompt", "the prompt has 8000000 bytes; with 90 tokens for a sequence, of at most 12 bytes each, it can have 1080"),
    ("completions", {"prompt": "a", "temperature": -1}, 400, "temperature", "'temperature' must be a number from 0 to 100"),
    ("completions", {"prompt": "a", "temperature": "hot"}, 400, "temperature", "'temperature' must be a number from 0 to 100"),
    ("completions", {"prompt": "a", "top_p": 0}, 400, "top_p", "'top_p' must be a number above 0 and at most 1"),
    ("completions", {"prompt": "a", "n": 0}, 400, "n", "'n' must be a whole number from 1 to 10000"),
    ("completions", {"prompt": "a", "seed": 2 ** 63}, 400, "seed", "'seed' must be a whole number from -9223372036854775808 to 9223372036854775807"),
    ("completions", {"prompt": "a", "max_tokens": 1.5}, 400, "max_tokens", "'max_tokens' must be a whole number from 0"),
    ("completions", {"prompt": "a", "max_tokens": -1}, 400, "max_tokens", "'max_tokens' must be a whole number from 0"),
    ("completions", {"prompt": "a", "stop": ""}, 400, "stop", "'stop' must be a string or a list of strings, none empty"),
    ("completions", {"prompt": "a", "stop": ["a"] * 17}, 400, "stop", "'stop' has at most 16 strings"),
    ("completions", {"prompt": "a", "stream": 1}, 400, "stream", "'stream' must be true or false"),
    ("completions", {"prompt": "a", "stream_options": {"include_usage": True}}, 400, "stream_options", "'stream_options' needs stream: true"),
    ("completions", {"prompt": "a", "n": 52, "logprobs": 5}, 400, "logprobs", "the most probable tokens of so many sequences need stream: true"),
    ("completions", {"prompt": "a", "logprobs": 6}, 400, "logprobs", "'logprobs' must be a whole number from 0 to 5"),
    ("completions", {"prompt": "a", "logprobs": -1}, 400, "logprobs", "'logprobs' must be a whole number from 0 to 5"),
    ("completions", {"prompt": "a", "logprobs": 1.5}, 400, "logprobs", "'logprobs' must be a whole number from 0 to 5"),
    ("completions", {"prompt": "a", "logprobs": "5"}, 400, "logprobs", "'logprobs' must be a whole number from 0 to 5"),
    ("completions", {"prompt": "a", "logprobs": True}, 400, "logprobs", "'logprobs' must be a whole number from 0 to 5"),
    ("completions", {"prompt": "a", "logprobs": []}, 400, "logprobs", "'logprobs' must be a whole number from 0 to 5"),
    ("completions", {"prompt": "a", "logprobs": 10 ** 18}, 400, "logprobs", "'logprobs' must be a whole number from 0 to 5"),
    ("completions", {"prompt": "a", "best_of": 3}, 400, "best_of", "'best_of' other than n is not supported; leave it out"),
    ("completions", b'{"prompt": "a", "presence_penalty": NaN}', 400, "presence_penalty", "'presence_penalty' must be a number from -2 to 2"),
    ("completions", b'{"prompt": "a", "temperature": 1e400}', 400, "temperature", "'temperature' must be a number from 0 to 100"),
    ("completions", b'{"prompt": "a", "max_tokens": 100000000000000000000}', 400, "max_tokens", "'max_tokens' must be a whole number from 0"),
    ("completions", b'{"prompt": "a", "stop": "a\\u0000"}', 400, "stop", "'stop' has a NUL character, which ends no text here"),
    ("completions", {"prompt": "a", "presence_penalty": 2.5}, 400, "presence_penalty", "'presence_penalty' must be a number from -2 to 2"),
    ("completions", {"prompt": "a", "presence_penalty": "NaN"}, 400, "presence_penalty", "'presence_penalty' must be a number from -2 to 2"),
    ("completions", {"prompt": "a", "suffix": "b"}, 400, "suffix", "'suffix' is not supported; leave it out"),
    ("completions", {"prompt": "a", "user": 5}, 400, "user", "'user' must be a string"),
    ("completions", {"prompt": "a", "stream": True, "stream_options": {"include_obfuscation": True}}, 400, "stream_options", "'stream_options' has include_usage; 'include_obfuscation' is not supported"),
    ("completions", {"prompt": "a", "stop_token_ids": 5}, 400, "stop_token_ids", "'stop_token_ids' is a list of at most 64 tokens"),
    ("completions", {"prompt": "a", "stop_token_ids": [1] * 65}, 400, "stop_token_ids", "'stop_token_ids' is a list of at most 64 tokens"),
    ("completions", {"prompt": "a", "stop_token_ids": [1, 264]}, 400, "stop_token_ids", "element 1 of 'stop_token_ids' is none of the model's 264 tokens"),
    ("completions", {"prompt": "a", "ignore_eos": 1}, 400, "ignore_eos", "'ignore_eos' must be true or false"),
    ("completions", {"prompt": "a", "frequency_penalty": -2.01}, 400, "frequency_penalty", "'frequency_penalty' must be a number from -2 to 2"),
    ("completions", {"prompt": "a", "frequency_penalty": []}, 400, "frequency_penalty", "'frequency_penalty' must be a number from -2 to 2"),
    ("completions", {"prompt": "a", "repetition_penalty": 1e-38}, 400, "repetition_penalty", "'repetition_penalty' must be a number from 0.01 to 100"),
    ("completions", {"prompt": "a", "top_k": -2}, 400, "top_k", "'top_k' must be a whole number from 0 to 16777216"),
    ("completions", {"prompt": "a", "min_tokens": -1}, 400, "min_tokens", "'min_tokens' must be a whole number from 0 to 2147483647"),
    ("completions", {"prompt": "a", "min_tokens": 1.5}, 400, "min_tokens", "'min_tokens' must be a whole number from 0 to 2147483647"),
    ("completions", {"prompt": "a", "min_tokens": "1"}, 400, "min_tokens", "'min_tokens' must be a whole number from 0 to 2147483647"),
    ("completions", {"prompt": "a", "min_tokens": 17}, 400, "min_tokens", "'min_tokens' is 17, but a sequence gets at most 16 new tokens, by max_tokens and behind its prompt"),
    ("completions", {"prompt": "a", "min_tokens": 9, "max_tokens": 8}, 400, "min_tokens", "'min_tokens' is 9, but a sequence gets at most 8 new tokens, by max_tokens and behind its prompt"),
    ("completions", {"prompt": ["a", "a" * 80], "min_tokens": 11, "max_tokens": 40}, 400, "min_tokens", "'min_tokens' is 11, but a sequence gets at most 10 new tokens, by max_tokens and behind its prompt"),
    ("completions", {"prompt": "a", "logit_bias": 5}, 400, "logit_bias", "'logit_bias' must be an object of at most 300 tokens, as in {\"50256\": -100}"),
    ("completions", {"prompt": "a", "logit_bias": [5, 1]}, 400, "logit_bias", "'logit_bias' must be an object of at most 300 tokens, as in {\"50256\": -100}"),
    ("completions", {"prompt": "a", "logit_bias": {str(i): 1 for i in range(301)}}, 400, "logit_bias", "'logit_bias' must be an object of at most 300 tokens, as in {\"50256\": -100}"),
    ("completions", {"prompt": "a", "logit_bias": {"264": 1}}, 400, "logit_bias", "'logit_bias': '264' is none of the model's 264 tokens"),
    ("completions", {"prompt": "a", "logit_bias": {"-1": 1}}, 400, "logit_bias", "'logit_bias': '-1' is none of the model's 264 tokens"),
    ("completions", {"prompt": "a", "logit_bias": {"05": 1}}, 400, "logit_bias", "'logit_bias': '05' is none of the model's 264 tokens"),
    ("completions", {"prompt": "a", "logit_bias": {" 5": 1}}, 400, "logit_bias", "'logit_bias': ' 5' is none of the model's 264 tokens"),
    ("completions", {"prompt": "a", "logit_bias": {"": 1}}, 400, "logit_bias", "'logit_bias': '' is none of the model's 264 tokens"),
    ("completions", {"prompt": "a", "logit_bias": {"18446744073709551621": 1}}, 400, "logit_bias", "'logit_bias': '18446744073709551621' is none of the model's 264 tokens"),
    ("completions", {"prompt": "a", "logit_bias": {"the": 1}}, 400, "logit_bias", "'logit_bias': 'the' is none of the model's 264 tokens"),
    ("completions", {"prompt": "a", "logit_bias": {"5": 100.5}}, 400, "logit_bias", "'logit_bias' of token '5' must be a number from -100 to 100"),
    ("completions", {"prompt": "a", "logit_bias": {"5": "1"}}, 400, "logit_bias", "'logit_bias' of token '5' must be a number from -100 to 100"),
    ("completions", {"prompt": "a", "logit_bias": {"5": None}}, 400, "logit_bias", "'logit_bias' of token '5' must be a number from -100 to 100"),
    ("chat/completions", {"messages": [{"role": "user", "content": "a"}], "min_tokens": 90}, 400, "min_tokens", "'min_tokens' is 90, but a sequence gets at most 70 new tokens, by max_tokens and behind its prompt"),
    ("completions", {"prompt": "a", "colour": 1}, 400, None, "unknown key 'colour'"),
    ("completions", {"prompt": "a", "temprature": 1}, 400, None, "unknown key 'temprature'; did you mean 'temperature'?"),
    ("completions", {"prompt": "a", "model": "gpt-4"}, 404, "model", "the model 'gpt-4' is not served here; this server has 'small'"),
    ("chat/completions", {"messages": [{"role": "user", "content": "a" * 600}] * 2}, 400, "messages", "the prompt has 1200 bytes; with 90 tokens for a sequence, of at most 12 bytes each, it can have 1080"),
    ("chat/completions", {"messages": [{"role": "user", "content": ""}] * 100}, 400, "messages", "the prompt has 2822 bytes; with 90 tokens for a sequence, of at most 12 bytes each, it can have 1080"),
    ("chat/completions", {"messages": []}, 400, "messages", "'messages' must be a list of 1 to 4096 messages"),
    ("chat/completions", {"prompt": "a"}, 400, None, "unknown key 'prompt'"),
    ("chat/completions", {"messages": ["a"]}, 400, "messages", "message 1 is an object with 'role' and 'content'"),
    ("chat/completions", {"messages": [{"role": "user", "content": 5}]}, 400, "messages", "message 1: 'content' must be a string"),
    ("chat/completions", {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, 400, "messages", "message 1: part 1 is not text; only text can be read"),
    ("chat/completions", {"messages": [{"role": "tool", "content": "a"}]}, 400, "messages", "message 1: the role 'tool' is none of system, user and assistant"),
    ("chat/completions", {"messages": [{"role": "user", "content": "a", "tool_calls": [1]}]}, 400, "messages", "message 1: 'tool_calls' is not supported"),
    ("chat/completions", {"messages": [{"role": "user", "content": "a"}], "tools": [1]}, 400, "tools", "'tools' must be a list of objects"),
    ("chat/completions", {"messages": [{"role": "user", "content": "a"}], "tools": [{"type": "function"}]}, 400, "tools", "the chat template writes no 'tools'; leave it out"),
    ("chat/completions", {"messages": [{"role": "user", "content": "a"}], "chat_template_kwargs": 1}, 400, "chat_template_kwargs", "'chat_template_kwargs' must be an object"),
    ("chat/completions", {"messages": [{"role": "user", "content": "a"}], "chat_template_kwargs": {"enable_thinking": True}}, 400, "chat_template_kwargs", "the chat template has no variable 'enable_thinking'"),
    ("chat/completions", {"messages": [{"role": "user", "content": "a"}], "logprobs": True, "top_logprobs": 21}, 400, "top_logprobs", "'top_logprobs' must be a whole number from 0 to 20"),
    ("chat/completions", {"messages": [{"role": "user", "content": "a"}], "logprobs": True, "top_logprobs": -1}, 400, "top_logprobs", "'top_logprobs' must be a whole number from 0 to 20"),
    ("chat/completions", {"messages": [{"role": "user", "content": "a"}], "logprobs": True, "top_logprobs": "1"}, 400, "top_logprobs", "'top_logprobs' must be a whole number from 0 to 20"),
    ("chat/completions", {"messages": [{"role": "user", "content": "a"}], "logprobs": True, "top_logprobs": True}, 400, "top_logprobs", "'top_logprobs' must be a whole number from 0 to 20"),
    ("chat/completions", {"messages": [{"role": "user", "content": "a"}], "logprobs": 5}, 400, "logprobs", "'logprobs' must be true or false"),
    ("chat/completions", {"messages": [{"role": "user", "content": "a"}], "logprobs": False, "top_logprobs": 1}, 400, "top_logprobs", "'top_logprobs' needs logprobs: true"),
    ("chat/completions", {"messages": [{"role": "user", "content": "a"}], "top_logprobs": 1}, 400, "top_logprobs", "'top_logprobs' needs logprobs: true"),
    ("chat/completions", {"messages": [{"role": "user", "content": "a"}], "tool_choice": "required"}, 400, "tool_choice", "'tool_choice' is not supported; leave it out"),
    ("chat/completions", {"messages": [{"role": "user", "content": "a"}], "tool_choice": {"type": "function", "function": {"name": "f"}}}, 400, "tool_choice", "'tool_choice' is not supported; leave it out"),
    ("chat/completions", {"messages": [{"role": "user", "content": "a"}], "functions": [1]}, 400, "functions", "'functions' is not supported; leave it out"),
    ("chat/completions", {"messages": [{"role": "user", "content": "a"}], "function_call": {"name": "f"}}, 400, "function_call", "'function_call' is not supported; leave it out"),
    ("chat/completions", {"messages": [{"role": "user", "content": "a"}], "modalities": ["text", "audio"]}, 400, "modalities", "'modalities' is not supported; leave it out"),
    ("chat/completions", {"messages": [{"role": "user", "content": "a"}], "audio": {"voice": "a"}}, 400, "audio", "'audio' is not supported; leave it out"),
    ("chat/completions", {"messages": [{"role": "user", "content": "a"}], "prediction": {"type": "content", "content": "a"}}, 400, "prediction", "'prediction' is not supported; leave it out"),
    ("chat/completions", {"messages": [{"role": "user", "content": "a"}], "reasoning_effort": "high"}, 400, "reasoning_effort", "'reasoning_effort' is not supported; leave it out"),
    ("chat/completions", {"messages": [{"role": "user", "content": "a"}], "verbosity": "low"}, 400, "verbosity", "'verbosity' is not supported; leave it out"),
    ("chat/completions", {"messages": [{"role": "user", "content": "a"}], "service_tier": "flex"}, 400, "service_tier", "'service_tier' is not supported; leave it out"),
    ("chat/completions", {"messages": [{"role": "user", "content": "a"}], "web_search_options": {"a": 1}}, 400, "web_search_options", "'web_search_options' is not supported; leave it out"),
    ("chat/completions", {"messages": [{"role": "user", "content": "a"}], "metadata": {"a": "b"}}, 400, "metadata", "'metadata' is not supported; leave it out"),
    ("chat/completions", {"messages": [{"role": "user", "content": "a"}], "store": True}, 400, "store", "'store' is not supported; leave it out"),
    ("chat/completions", {"messages": [{"role": "user", "content": "a"}], "response_format": {"type": "json_object"}}, 400, "response_format", "'response_format' is not supported; leave it out"),
    ("chat/completions", {"messages": [{"role": "user", "content": "a"}], "parallel_tool_calls": 1}, 400, "parallel_tool_calls", "'parallel_tool_calls' must be true or false"),
    ("chat/completions", {"messages": [{"role": "user", "content": "a"}], "max_tokens": 5, "max_completion_tokens": 5}, 400, "max_completion_tokens", "give 'max_tokens' or 'max_completion_tokens', one of them"),
    ("chat/completions", {"messages": [{"role": "user", "content": "a", "name": "b"}]}, 400, "messages", "message 1: 'name' is not supported; write it into 'content'"),
    ("chat/completions", {"messages": [{"role": "user", "content": "a", "refusal": "b"}]}, 400, "messages", "message 1: 'refusal' is not supported"),
    ("chat/completions", {"messages": [{"role": "user", "content": [{"type": "text", "text": "a", "cache_control": 1}]}]}, 400, "messages", "message 1: part 1: 'cache_control' is not supported"),
]


def wrong(url):
    for path, body, status, param, message in WRONG:
        got, headers, said = ask(url, "/v1/" + path, body)
        error = json.loads(said)["error"]
        assert (got, error["param"], error["message"]) == (status, param, message), (body, got, error)
        assert error["type"] == "invalid_request_error", error
        assert headers["Content-Type"] == "application/json", headers
    for path, method, status, code in (("/v1/nothing", "GET", 404, "not_found"),
                                       ("/v1/completions", "GET", 405, "method_not_allowed"),
                                       ("/health", "POST", 405, "method_not_allowed")):
        got, headers, said = ask(url, path, b"" if method == "POST" else None, method=method)
        assert (got, json.loads(said)["error"]["code"]) == (status, code), (path, got, said)
        assert status != 405 or headers["Allow"] in ("GET", "POST"), headers
    for headers in ({"Origin": "http://elsewhere.example"}, {"Host": "elsewhere.example"}):
        got, _, said = ask(url, "/v1/models", headers=headers)
        assert (got, json.loads(said)["error"]["code"]) == (403, "foreign_origin"), (got, said)
    said = raw(url, b"GET /v1/models/\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert said.startswith(b"HTTP/1.1 404 "), said
    got, headers, said = ask(url, "/v1/completions", {"prompt": "a"}, {"Content-Encoding": "gzip"})
    assert (got, json.loads(said)["error"]["code"]) == (415, "unsupported_encoding"), (got, said)
    assert headers["Accept-Encoding"] == "identity", headers
    # of which a proxy may believe the other one, or understand what the server does not
    for status, other in ((400, b"Content-Length: 5"), (400, b"Transfer-Encoding: chunked"), (400, b"Host: localhost"),
                          (400, b"Content-Length : 5"), (415, b"Transfer-Encoding: gzip, chunked")):
        body = post(b'{"prompt": "a"}', other + b"\r\n")
        if status == 415:
            body = body.replace(b"Content-Length: 15\r\n", b"")
        said = raw(url, body)
        assert said.startswith(b"HTTP/1.1 %d " % status) and said.count(b"HTTP/1.1") == 1, (other, said)
        assert b"\r\nConnection: close\r\n" in said, said
    # the whole address, as a proxy is asked
    for host, status in ((b"localhost", 200), (b"LOCALHOST.example", 403), (b"127.0.0.1:99", 200)):
        said = raw(url, b"GET http://%s/v1/models/small HTTP/1.1\r\nHost: localhost\r\n\r\n" % host)
        assert said.startswith(b"HTTP/1.1 %d " % status), (host, said)
    got, said = too_large(url)
    assert got == 413 and json.loads(said)["error"]["code"] == "body_too_large", (got, said)
    host = url[len("http://"):]
    assert ask(url, "/", headers={"Origin": "http://" + host})[0] == 200
    print(f"{len(WRONG) + 15} requests refused, each as it should be")


def too_large(url):
    c = connection(url)
    c.putrequest("POST", "/v1/completions")
    c.putheader("Content-Length", str(10 ** 12))
    c.endheaders()
    answer = c.getresponse()
    return answer.status, answer.read()


def page(url):
    status, headers, said = ask(url, "/")
    text = said.decode()
    assert status == 200 and headers["Content-Type"].startswith("text/html"), (status, headers)
    for outside in ("http://", "https://", "src=", "@import", "url("):
        assert outside not in text, f"the page names something outside: {outside}"
    assert "default-src 'none'" in headers["Content-Security-Policy"], headers
    assert ask(url, "/health")[2] == b'{"status":"ok"}\n'
    model, = json.loads(ask(url, "/v1/models")[2])["data"]
    assert (model["id"], model["object"], model["max_model_len"]) == ("small", "model", 90), model
    assert json.loads(ask(url, "/v1/models/small")[2]) == model, model
    status, _, said = ask(url, "/v1/models/other")
    assert (status, json.loads(said)["error"]["message"]) == \
        (404, "the model 'other' is not served here; this server has 'small'"), said
    print("the page needs nothing from elsewhere")


def raw(url, data, wait=5.0):
    """Sends bytes; what comes back, as far as it does in time."""
    host, port = url[len("http://"):].split(":")
    said = b""
    with socket.create_connection((host, int(port)), timeout=wait) as s:
        try:
            s.sendall(data)
            while chunk := s.recv(65536):
                said += chunk
                if b"\r\n\r\n" in said and b"HTTP/1.1 100" not in said:
                    break
        except OSError:
            pass
    return said


def post(body, headers=b""):
    return (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n%s\r\n" %
            (len(body), headers)) + body


def mutated(draw, data):
    data = bytearray(data)
    for _ in range(draw.randrange(1, 8)):
        at = draw.randrange(len(data) + 1)
        what = draw.randrange(4)
        if what == 0:
            data[at:at + 1] = bytes([draw.randrange(256)])
        elif what == 1:
            del data[at:at + draw.randrange(1, 20)]
        elif what == 2:
            data[at:at] = data[:draw.randrange(30)]
        else:
            data[at:at] = draw.choice((b"[" * 3000, b'"', b"\\u0000", b"\xed\xa0\x80", b"1e999",
                                       b"-9223372036854775809", b"null", b"\x00"))
    return bytes(data)


def hostile_request(url, draw, held):
    host, port = url[len("http://"):].split(":")
    good = {"prompt": "the quick", "max_tokens": draw.choice((1, 5, 80)), "temperature": 1,
            "n": draw.choice((1, 1, 2, 9)), "stream": draw.random() < 0.5}
    numbers = (-1, 0, 1, -0.0, 1e308, -1e308, 2 ** 53, 2 ** 63 - 1, -2 ** 63, 1e-320, 0.5, "1", [],
               {}, True, None)
    kind = draw.randrange(10)
    if kind == 0:  # no JSON, perhaps no text
        return raw(url, post(draw.randbytes(draw.randrange(2000))))
    if kind in (1, 2):  # nearly JSON
        return raw(url, post(mutated(draw, json.dumps(good).encode())))
    if kind in (3, 4):  # no sense in it
        key = draw.choice(("max_tokens", "temperature", "n", "top_k", "top_p", "min_p", "seed",
                           "stop", "logprobs", "echo", "repetition_penalty", "prompt", "stream",
                           "presence_penalty", "frequency_penalty", "min_tokens", "logit_bias"))
        return raw(url, post(json.dumps({**good, key: draw.choice(numbers)}).encode()), 30)
    if kind == 5:  # headers without end
        return raw(url, b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 65536 + b"\r\n\r\n")
    if kind == 6:  # no HTTP
        return raw(url, draw.randbytes(draw.randrange(1, 300)) + b"\r\n\r\n", 0.2)
    if kind == 7:  # a length that is none, or not reached
        length = draw.choice((b"-1", b"1e3", b"99999999999999999999999", b"1000"))
        return raw(url, b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
                   length + b"\r\n\r\n{}", 0.2)
    s = socket.create_connection((host, int(port)), timeout=30)
    if kind == 8:  # never ends its request
        s.sendall(draw.choice((b"POST /v1/comp", post(b"{}")[:-1], b"GET / HTTP/1.1\r\nHost: loc")))
        held.append(s)
        return b""
    s.sendall(post(json.dumps(good).encode()))  # leaves in the middle, perhaps with a reset
    if draw.random() < 0.5:
        s.recv(draw.randrange(1, 400))
    if draw.random() < 0.5:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()
    return b""


def hostile(url, count, seed):
    draw, held, kinds = random.Random(int(seed)), [], {}
    sane = {"prompt": "the quick brown", "temperature": 0, "max_tokens": 20, "logprobs": 0}
    before = complete(url, **sane)["choices"]
    for i in range(int(count)):
        said = hostile_request(url, draw, held)
        status = said.split(b" ")[1].decode() if said.startswith(b"HTTP/1.") else "none"
        kinds[status] = kinds.get(status, 0) + 1
        assert not status.startswith("5") or status == "505", (i, said)
    for s in held:  # the server hangs up on those who never end, within its client time-out
        s.settimeout(10)
        try:
            while s.recv(65536):
                pass
        except ConnectionResetError:
            pass
        s.close()
    now = wait_until_idle(url)
    assert now["requests_failed_total"] == 0, now
    assert complete(url, **sane)["choices"] == before
    print(f"{count} hostile requests, seed {seed}: " +
          ", ".join(f"{n} x {status}" for status, n in sorted(kinds.items())) +
          f"; {int(now['requests_gone_total'])} clients gone; all slots free")


def busy(url):
    """Too many sequences wait: 429, and when to come again; another client's are taken, though what it shows begins
    alike; then all is as before."""
    stop, key = threading.Event(), {"Authorization": "Bearer " + "x" * 60 + "a"}
    body = {"prompt": "a", "max_tokens": 90, "n": 250, "temperature": 1, "seed": 1}
    first = threading.Thread(target=lambda: ask(url, "/v1/completions", body, key)[0] == 200 and stop.set())
    before = metrics(url)
    first.start()
    while metrics(url)["sequences_waiting"] == 0:
        time.sleep(0.01)
    status, headers, said = ask(url, "/v1/completions", {**body, "n": 100}, key)
    assert status == 429 and 1 <= int(headers["Retry-After"]) <= 60, (status, headers, said)
    assert json.loads(said)["error"]["code"] == "queue_full", said
    other = {"Authorization": key["Authorization"][:-1] + "b"}
    assert ask(url, "/v1/completions", {**body, "n": 100, "max_tokens": 1}, other)[0] == 200
    first.join()
    after = metrics(url)
    assert stop.is_set() and after["requests_busy_total"] == 1
    assert after["requests_refused_total"] == before["requests_refused_total"], "it is valid, and counted as busy"
    complete(url, prompt="a")
    print("too many: 429, and when to come again")


def ends(url):
    """Tokens that end a sequence, and a sequence that none of the model's does."""
    asked = {"prompt": "the quick", "temperature": 0, "max_tokens": 40, "logprobs": 0}
    whole, = complete(url, **asked)["choices"]
    last = whole["text"][5]
    at = whole["text"].index(last)
    for streams in (False, True):
        body = {**asked, "stop_token_ids": [3, ord(last)], "stream": streams, "n": 1}
        got = choices_of(url, body)
        text, reason = (got[0][0][0], got[0][1][0]) if streams else (got[0]["text"], got[0]["finish_reason"])
        assert (text, reason) == (whole["text"][:at], "stop"), (text, reason)
    # drawn from nearly all tokens 257 comes soon, which ends a sequence of this model
    hot = {"prompt": "the", "temperature": 50, "max_tokens": 80, "n": 60, "seed": 3, "logprobs": 0}
    ended, gone_on = (complete(url, **hot, ignore_eos=i)["choices"] for i in (False, True))
    assert "stop" in {c["finish_reason"] for c in ended}, "no text ends by itself"
    for a, b in zip(ended, gone_on):
        assert b["finish_reason"] == "length" and len(b["logprobs"]["tokens"]) == 80, b
        count = len(a["logprobs"]["tokens"])
        assert a["finish_reason"] == "length" or b["logprobs"]["tokens"][count] == "<|im_end|>", (a, b)
        assert a["logprobs"]["token_logprobs"] == b["logprobs"]["token_logprobs"][:count], (a, b)
    print("texts end where they are told to, and nowhere else")


def adjusted(url):
    """Biases, bans and penalties, told by what the model itself says of every token, and by what greedy
    texts are then made of; whole, streamed, of conversations."""
    asked = {"prompt": "the quick", "temperature": 0, "max_tokens": 24, "logprobs": 5}
    plain, = complete(url, **asked)["choices"]

    def said(**more):
        (whole,), body = complete(url, **asked, **more)["choices"], {**asked, **more, "n": 1, "stream": True}
        texts, reasons = choices_of(url, body)[0]
        assert (texts[0], reasons[0]) == (whole["text"], whole["finish_reason"]), (whole, texts)
        return whole

    # what is banned does not come, what is wanted comes alone; log-probabilities stay the model's
    first = plain["text"][0]
    without = said(logit_bias={str(ord(first)): -100})
    assert first not in without["text"] and without["text"][0] == \
        list(plain["logprobs"]["top_logprobs"][0])[1], (plain, without)
    assert without["logprobs"]["top_logprobs"][0] == plain["logprobs"]["top_logprobs"][0], without
    wanted = said(logit_bias={str(ord("#")): 100})
    assert wanted["text"] == "#" * 24 and wanted["logprobs"]["token_logprobs"][0] < \
        min(plain["logprobs"]["top_logprobs"][0].values()), wanted
    # 100, and 2 less each time that it came, against 60 always: the other one's turn comes behind 20 or so;
    # what is taken off once brings it forward, or puts it off
    first_turn = {}
    for presence in (2, 0, -2):
        turns = said(logit_bias={str(ord("#")): 100, str(ord("+")): 60}, frequency_penalty=2,
                     presence_penalty=presence)["text"]
        assert set(turns) == {"#", "+"} and turns.startswith("#" * 12), turns
        first_turn[presence] = turns.index("+")
    assert first_turn[2] <= first_turn[0] <= first_turn[-2] and first_turn[2] < first_turn[-2], first_turn
    # tokens of a prompt are not counted
    assert complete(url, prompt="#" * 40, temperature=0, max_tokens=3, frequency_penalty=2, presence_penalty=2,
                    logit_bias={str(ord("#")): 100, str(ord("+")): 60})["choices"][0]["text"] == "###"
    # texts that would end do not before they have so many tokens, nor with a stop
    end = {"logit_bias": {"257": 100}}
    assert (said(**end)["text"], said(**end)["finish_reason"]) == ("", "stop")
    for least in (1, 7, 24):
        later = said(**end, min_tokens=least)
        assert later["text"] == plain["text"][:least], (later, plain)
        assert later["finish_reason"] == ("stop" if least < 24 else "length"), later
        stopped = said(stop=[plain["text"][0], plain["text"][12]], min_tokens=least)
        assert len(stopped["logprobs"]["tokens"]) >= least, stopped
    last = ord(plain["text"][5])
    none = said(stop_token_ids=[last], min_tokens=24)
    assert chr(last) not in none["text"] and len(none["text"]) == 24, none
    assert said(**end, ignore_eos=True, min_tokens=3)["logprobs"]["tokens"] == ["<|im_end|>"] * 24
    talk = {"messages": [{"role": "user", "content": "the"}], "temperature": 0, "max_tokens": 12}
    for more, text, reason in (({"logit_bias": {"35": 100}}, "#" * 12, "length"), ({**end}, "", "stop"),
                               ({"logit_bias": {"257": 100, "35": 90}, "min_tokens": 5}, "#" * 5, "stop")):
        choice, = complete(url, "/v1/chat/completions", **talk, **more)["choices"]
        assert (choice["message"]["content"], choice["finish_reason"]) == (text, reason), (more, choice)
    every = complete(url, **{**asked, "n": 9, "temperature": 1}, logit_bias={str(t): -100 for t in range(264)
                                                                         if t not in (65, 66)}, min_tokens=24)
    assert {len(c["text"]) for c in every["choices"]} == {24} and \
        set("".join(c["text"] for c in every["choices"])) == {"A", "B"}, every
    print("biases, bans and penalties do what they say, and nothing else")


def histograms(url):
    """/metrics, as Prometheus reads it: a type for each name, buckets that grow, sums, all that is
    counted."""
    before = wait_until_idle(url)
    stream(url, prompt="the", temperature=0, max_tokens=30, n=2)
    complete(url, prompt="the", temperature=0, max_tokens=5)
    after = wait_until_idle(url)
    for name, more in (("first_token", 2), ("token", 2 * 29 + 4), ("answer", 2)):
        counts = [v for n, v in after.items() if n.startswith(name + "_seconds_bucket{le=")]
        assert counts == sorted(counts) and len(counts) == 19, (name, counts)
        assert counts[-1] == after[name + "_seconds_count"], (name, counts)
        assert counts[-1] - before[name + "_seconds_count"] == more, (name, before, after)
        assert after[name + "_seconds_sum"] > before[name + "_seconds_sum"], after
    assert after["cache_tokens"] == 4 * 90 and after["cache_tokens_used"] == 0 and after["slots"] == 4, after
    text = ask(url, "/metrics")[2].decode()
    for line in text.splitlines():
        name = line.split()[2 if line.startswith("#") else 0].split("{")[0]
        kinds = [k for n, k in (l.split()[2:4] for l in text.splitlines() if l.startswith("# TYPE"))
                 if name in (n, n + "_bucket", n + "_sum", n + "_count")]
        assert len(kinds) == 1 and (kinds[0] != "counter" or name.endswith("_total")), (line, kinds)
    print("histograms of the time to the first token, between tokens and of whole answers")


def turns(url):
    """Who asks for many texts makes nobody wait: another gets a slot at once, by the key that is
    shown, and the text that gave it up is the same in the end."""
    body = {"prompt": "the quick", "max_tokens": 80, "n": 200, "temperature": 1.5, "seed": 4, "logprobs": 2,
            "stream": True, "frequency_penalty": 0.25, "min_tokens": 20, "logit_bias": {"35": 1.5}}
    alone = choices_of(url, body)
    got, before = [], wait_until_idle(url)
    many = threading.Thread(target=lambda: got.append(choices_of(url, body)))
    many.start()
    while metrics(url)["sequences_waiting"] == 0:
        time.sleep(0.01)
    others = 0
    while metrics(url)["sequences_waiting"] > 100:
        for key in "abcdef":
            status, _, said = ask(url, "/v1/completions", {"prompt": "a", "max_tokens": 3},
                                  {"Authorization": "Bearer " + key})
            assert status == 200, said
            others += 1
    waiting = metrics(url)["sequences_waiting"]
    many.join()
    after = wait_until_idle(url)
    assert got[0] == alone, "texts that gave up their slots are others"
    assert waiting > 0 and others >= 6, (waiting, others)
    assert after["sequences_yielded_total"] > before["sequences_yielded_total"], after
    assert after["sequences_total"] - before["sequences_total"] == 200 + others, (before, after)
    print(f"{others} others were answered before 200 texts, of which "
          f"{int(after['sequences_yielded_total'] - before['sequences_yielded_total'])} began again")


def delay(url, at_most, texts):
    """How many programs run between a request and its first token while another client has every slot and
    its other sequences wait: what runs when it comes, its own, and between them at most one of those prompts'
    and, where calls do not mix, a token of the texts that are made before and behind it; however long the
    prompts are."""
    most, asked, at_most, texts = 0, 0, int(at_most), int(texts)
    def first_token_calls(key):
        before = metrics(url)["first_token_calls_total"]
        status, _, said = ask(url, "/v1/completions", {"prompt": "a", "max_tokens": 1},
                              {"Authorization": "Bearer " + key})
        assert status == 200, said
        return int(metrics(url)["first_token_calls_total"] - before)

    wait_until_idle(url)
    assert first_token_calls("b") == 1, "nothing ran, and more than a prompt was read"
    for length, tokens in ((9, 60), (70, 19), (70, 2)):
        wait_until_idle(url)
        many = threading.Thread(target=complete, args=(url,), kwargs={
            "prompt": [[33 + t % 90, 33 + t // 90] + [3 * i * i % 90 + 33 for i in range(2, length)]
                       for t in range(texts)], # none begins like another's
            "max_tokens": tokens, "temperature": 1, "ignore_eos": True, "seed": 1})
        many.start()
        while metrics(url)["sequences_running"] == 0:
            time.sleep(0.001)
        before = metrics(url)
        while metrics(url)["new_tokens_total"] == before["new_tokens_total"]:
            time.sleep(0.001)
        calls = []
        while metrics(url)["sequences_waiting"] > 20 and len(calls) < 100:
            calls.append(first_token_calls("cdef"[len(calls) % 4]))
        many.join()
        # one in twenty may come later: of a busy machine, which lets the server's thread of a request wait
        late = sorted(calls)[len(calls) - 1 - len(calls) // 20] if calls else 0
        assert calls and late <= at_most, (length, tokens, calls)
        most, asked = max(most, late), asked + len(calls)
    print(f"{asked} first tokens within {most} programs, beside another client's {texts} texts")


def gone(url):
    """The slots of clients that leave are free at once, whether they stream or not."""
    host, port = url[len("http://"):].split(":")
    for streams in (False, True):
        before = metrics(url)
        s = socket.create_connection((host, int(port)))
        s.sendall(post(json.dumps({"prompt": "a", "max_tokens": 90, "n": 250, "temperature": 1,
                                   "stream": streams}).encode()))
        while metrics(url)["sequences_running"] == 0:
            time.sleep(0.01)
        s.close()
        after = wait_until_idle(url, 10)
        assert after["requests_gone_total"] == before["requests_gone_total"] + 1, after
        assert after["sequences_total"] - before["sequences_total"] < 250, "all texts were made for nobody"
    print("clients leave, their slots are free")


def vanished(url, process):
    """The slots of a client whose machine is gone, which says nothing, are free once --client-timeout (2 s) is
    over, whether it streams or not; one that is there and takes as long to be answered gets its answer. The
    server's rank is stopped meanwhile, for its texts would be made sooner; its system goes on."""
    host, port = url[len("http://"):].split(":")
    nothing_arrives = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0))  # a filter: return 0
    for _ in range(3):
        before, held = metrics(url), []
        for drops, streams in ((False, False), (True, False), (True, True)):
            body = {"prompt": "a", "max_tokens": 90, "n": 150, "temperature": 1, "ignore_eos": True, "stream": streams}
            s = socket.create_connection((host, int(port)))
            s.sendall(post(json.dumps(body).encode(), b"Authorization: Bearer %d\r\n" % len(held)))
            held.append((s, drops))
        while metrics(url)["requests_total"] < before["requests_total"] + 3:
            pass
        os.kill(int(process), signal.SIGSTOP)
        try:
            for s, drops in held:
                if drops:
                    s.setsockopt(socket.SOL_SOCKET, 26, struct.pack("HP", 1, ctypes.addressof(nothing_arrives)))
            time.sleep(3.5)
        finally:
            os.kill(int(process), signal.SIGCONT)
        answer = http.client.HTTPResponse(held[0][0])
        answer.begin()
        assert answer.status == 200 and len(json.loads(answer.read())["choices"]) == 150
        after = wait_until_idle(url, 10)
        for s, _ in held:
            s.close()
        if after["requests_answered_total"] == before["requests_answered_total"] + 1:
            break  # else they were answered before it was stopped
    assert after["requests_gone_total"] == before["requests_gone_total"] + 2, (before, after)
    assert after["sequences_total"] - before["sequences_total"] < 450, "all sequences were made for nobody"
    print("clients whose machines are gone leave, their slots are free")


def late(url, process):
    """An answer that is not whole after --deadline (2 s) ends with 504, a stream with an error, and its slots are
    free. The server's rank is stopped for as long."""
    before, ends = wait_until_idle(url), []

    def client(streams):
        body = {"prompt": "a", "max_tokens": 90, "n": 250, "temperature": 1, "ignore_eos": True, "stream": streams}
        status, _, said = ask(url, "/v1/completions", body, {"Authorization": f"Bearer {streams}"})
        ends.append((streams, status, json.loads(said[said.rindex(b'{"error"'):])["error"]["code"]))

    threads = [threading.Thread(target=client, args=(streams,)) for streams in (False, True)]
    for t in threads:
        t.start()
    while metrics(url)["sequences_running"] + metrics(url)["sequences_waiting"] < 350:
        pass
    os.kill(int(process), signal.SIGSTOP)
    time.sleep(2.2)
    os.kill(int(process), signal.SIGCONT)
    for t in threads:
        t.join()
    after = wait_until_idle(url)
    assert sorted(ends) == [(False, 504, "deadline"), (True, 200, "deadline")], ends
    assert after["requests_late_total"] == before["requests_late_total"] + 2, after
    assert after["requests_answered_total"] == before["requests_answered_total"], after
    print("who is late is told, and the slots are free")


def flat(url, process, requests, clients="8"):
    """The server's memory does not grow with the requests it answered. Before it is looked at, as many are."""
    begun = wait_until_idle(url)["requests_total"]

    def resident():
        return next(int(line.split()[1]) for line in open(f"/proc/{process}/status") if line.startswith("VmRSS"))

    def client(number):
        draw = random.Random(number)
        for i in range(int(requests) // int(clients)):
            body = {"max_tokens": draw.randrange(1, 12), "temperature": 1, "n": draw.choice((1, 1, 3)),
                    "stream": i % 2 == 0, "logprobs": draw.randrange(6), "echo": i % 3 == 0,
                    "prompt": [draw.randrange(256) for _ in range(draw.randrange(1, 40))]}
            complete_or_stream = stream if body.pop("stream") else complete
            complete_or_stream(url, **body)

    sizes = []
    for _ in range(2):
        threads = [threading.Thread(target=client, args=(i,)) for i in range(int(clients))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        made = wait_until_idle(url)["requests_total"] - begun
        sizes.append(resident())
    assert made == 2 * (int(requests) // int(clients) * int(clients)), made
    assert sizes[1] - sizes[0] < 1024, f"{sizes[0]} kB, then {sizes[1]} kB"
    print(f"{int(made)} requests of {clients} clients: {sizes[0]} kB, then {sizes[1]} kB")


def nothing(url):
    """What asks for nothing is taken; a text with its prompt is never longer than is said."""
    plain = {"prompt": "the quick", "temperature": 0, "max_tokens": 9}
    said = complete(url, **plain, suffix="", user="a", logit_bias={}, presence_penalty=0,
                    frequency_penalty=0, min_tokens=0, repetition_penalty=1, top_k=-1)
    assert said["choices"] == complete(url, **plain)["choices"], said
    assert said["choices"] == complete(url, **{**plain, "n": 1.0, "max_tokens": 9.0})["choices"], said
    assert complete(url, **{**plain, "max_tokens": 2 ** 63 - 1})["usage"]["total_tokens"] == 90
    talk = {"messages": [{"role": "user", "content": "the", "name": None, "type": "text"}], "temperature": 0}
    same_talk = {**talk, "tools": [], "tool_choice": "auto", "parallel_tool_calls": False, "store": False,
                 "functions": [], "function_call": "none", "modalities": ["text"], "verbosity": "medium",
                 "service_tier": "auto", "metadata": {}, "response_format": {"type": "text"},
                 "safety_identifier": "a", "prompt_cache_key": "b", "max_tokens": 9}
    answer = complete(url, "/v1/chat/completions", **same_talk)
    # a message as OpenAI's answers have it
    again = {**talk, "messages": talk["messages"] + [{"role": "assistant", "content": "a", "refusal": None, "annotations": [],
                                                      "audio": None, "function_call": None, "tool_calls": []}]}
    short = {**talk, "messages": again["messages"][:1] + [{"role": "assistant", "content": "a"}]}
    assert complete(url, "/v1/chat/completions", **again, max_tokens=9)["choices"] == \
        complete(url, "/v1/chat/completions", **short, max_tokens=9)["choices"]
    for choice in ("auto", "none"):
        assert answer["choices"] == complete(url, "/v1/chat/completions", **talk, max_completion_tokens=9,
                                             tool_choice=choice)["choices"], answer
    for length in (1, 74, 88, 89):
        used = complete(url, prompt=[97] * length, temperature=0, max_tokens=100)["usage"]
        assert used["prompt_tokens"] == length and used["total_tokens"] <= 90, used
    assert used["completion_tokens"] == 1, used
    print("what asks for nothing is taken")


def prefix(url):
    """A prompt that begins like an earlier one is read from there on, and answered alike: behind as many chunks of
    16 token by token, else in whole chunks."""
    def asked(prompt, **more):
        answer = complete(url, prompt=prompt, temperature=0, max_tokens=5, logprobs=1, **more)
        return answer["usage"]["prompt_tokens_details"]["cached_tokens"], answer["choices"]

    prompt = [3 * i * i % 90 + 33 for i in range(70)]
    before = metrics(url)
    first = asked(prompt)
    again = asked(prompt)
    assert first[0] == 0 and again == (69, first[1]), (first, again)
    other = prompt[:50] + [34] * 20
    assert asked(other)[0] == 48
    whole = asked(prompt, echo=True)
    assert whole[0] == 0, whole  # every token's log-probability is wanted
    streamed = stream(url, prompt=[35] + other, temperature=0, max_tokens=2, stream_options={"include_usage": True})
    assert streamed[-1]["usage"]["prompt_tokens_details"] == {"cached_tokens": 0}, streamed[-1]
    several = complete(url, prompt=other, n=3, temperature=0, max_tokens=2)["usage"]
    assert several["prompt_tokens_details"]["cached_tokens"] <= several["prompt_tokens"] == len(other), several
    after = metrics(url)
    read, kept = (after[k] - before[k] for k in ("prompt_tokens_total", "prompt_tokens_cached_total"))
    assert kept >= 69 + 48 and read + kept == 3 * 70 - 1 + 70 + 71 + 3 * 70, (read, kept)
    print("a prompt's beginning that stands in the cache is not read again")


def continued(url):
    """Where calls mix, a conversation is read from its newest message on, whose answer is that of a server
    that knows nothing of it: a request for scores reads all."""
    wait_until_idle(url)
    prompt = [5 * i * i % 90 + 33 for i in range(31)]
    first = complete(url, prompt=prompt, temperature=0, max_tokens=12, ignore_eos=True, logprobs=0)
    made = list(first["choices"][0]["text"].encode())
    assert len(made) == 12, first  # of bytes, each a token
    longer = prompt + made + [77, 78, 79]
    answer = complete(url, prompt=longer, temperature=0, max_tokens=9, logprobs=0)
    assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == 31 + 11, answer["usage"]
    for other in range(4): # slots of others: nothing of it stands in them
        complete(url, prompt=[34 + other] + longer, temperature=0, max_tokens=1)
    again = complete(url, prompt=longer, temperature=0, max_tokens=9, logprobs=0)
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] == 0, again["usage"]
    assert again["choices"] == answer["choices"], (again, answer)
    print("a conversation is read from its newest message on")


def half_closed(url):
    """A client that closes its side, and reads, gets its answer."""
    host, port = url[len("http://"):].split(":")
    wanted = complete(url, prompt="the quick", temperature=0, max_tokens=60, n=60)["choices"]
    for version, streams in (("1.1", False), ("1.1", True), ("1.0", False), ("1.0", True)):
        body = json.dumps({"prompt": "the quick", "temperature": 0, "max_tokens": 60, "n": 60,
                           "stream": streams}).encode()
        with socket.create_connection((host, int(port)), timeout=60) as s:
            s.sendall(post(body).replace(b"HTTP/1.1", b"HTTP/" + version.encode()))
            s.shutdown(socket.SHUT_WR)
            answer = http.client.HTTPResponse(s)
            answer.begin()
            said = answer.read()
        assert answer.status == 200, (version, streams, answer.status)
        if streams:
            assert said.endswith(b"data: [DONE]\n\n"), said[-200:]
        else:
            assert json.loads(said)["choices"] == wanted, said
    print("clients that close their side get their answers")


def silent(url, connections):
    """Who opens connections and says nothing, more than there are, shuts nobody out."""
    host, port = url[len("http://"):].split(":")
    held = []
    for i in range(2 * int(connections)):
        held.append(socket.create_connection((host, int(port)), timeout=30))
        held[-1].sendall((b"", b"GET / HT", post(b"{}")[:-1])[i % 3])
        if i % 16 == 0:
            begin = time.time()
            complete(url, prompt="a", max_tokens=1)
            assert time.time() - begin < 1, f"an answer took {time.time() - begin:.1f} s behind {i}"
    for s in held:
        s.close()
    print(f"{len(held)} connections say nothing, others are answered")


def token(url, secret):
    for headers in ({}, {"Authorization": "Bearer x"}, {"Authorization": "Bearer " + secret + "x"},
                    {"Authorization": "Bearer " + secret[:-1]}, {"Authorization": secret}):
        status, got, said = ask(url, "/v1/models", headers=headers)
        assert (status, got["WWW-Authenticate"]) == (401, "Bearer"), (headers, status)
        assert json.loads(said)["error"]["code"] == "invalid_api_key", said
    for scheme in ("Bearer", "bearer", "BEARER"):
        assert ask(url, "/v1/models", headers={"Authorization": f"{scheme} {secret}"})[0] == 200
    assert ask(url, "/metrics")[0] == 401 and ask(url, "/health")[0] == 200
    # a page of another site: what its browser asks first, and what it may read
    page = {"Origin": "http://elsewhere.example", "Host": "elsewhere.example"}
    status, got, said = ask(url, "/v1/completions", method="OPTIONS", headers={
        **page, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,x-a"})
    assert (status, said, got["Access-Control-Allow-Origin"]) == (204, b"", "*"), (status, got)
    assert (got["Access-Control-Allow-Methods"], got["Access-Control-Allow-Headers"]) == ("POST", "authorization,x-a"), got
    for shown, wanted in (("x", 401), (secret, 200)):
        for streams in (False, True):
            status, got, _ = ask(url, "/v1/completions", {"prompt": "a", "max_tokens": 2, "stream": streams},
                                 {**page, "Authorization": "Bearer " + shown})
            assert (status, got["Access-Control-Allow-Origin"]) == (wanted, "*"), (status, got)
    print("who has the token may ask")


def long(url, how, process="0", number=signal.SIGTERM, n="250"):
    """A stream in whose midst a process gets a signal; prints how the stream ended."""
    body = {"prompt": "a", "max_tokens": 90, "n": int(n), "temperature": 1, "seed": 3, "stream": True}
    c = connection(url)
    c.request("POST", "/v1/completions", json.dumps(body))
    answer = c.getresponse()
    first = answer.read(200)
    print("begun", flush=True)
    begin = time.time()
    if int(process) > 0:
        os.kill(int(process), int(number))
    if how == "drain":
        closed(url)
    try:
        said = first + answer.read()
        ended = "whole" if said.endswith(b"data: [DONE]\n\n") else \
            "error" if b'data: {"error"' in said[-400:] else "cut"
    except (http.client.IncompleteRead, ConnectionError):
        ended = "cut"
    if how == "timed":
        assert time.time() - begin < 5, "the client was told after 5 s"
    print(ended, flush=True)


def cut(url, process):
    """Two TERMs while far more is asked than is made between them: whoever has no whole answer gets an error."""
    body = {"prompt": "a", "max_tokens": 90, "n": 250, "temperature": 1, "seed": 3, "ignore_eos": True}
    ends = []

    def client(streams):
        status, _, said = ask(url, "/v1/completions", {**body, "stream": streams})
        whole = said.endswith(b"data: [DONE]\n\n") if streams else status == 200
        error = said[said.rindex(b'{"error"'):] if not whole else b"{}"
        ends.append((whole, json.loads(error).get("error", {}).get("code")))

    threads = [threading.Thread(target=client, args=(i % 2 == 0,)) for i in range(40)]
    for t in threads:
        t.start()
    while metrics(url)["sequences_waiting"] < 30 * 250:
        time.sleep(0.01)
    os.kill(int(process), signal.SIGTERM)
    time.sleep(2.5)  # two within a second of the server, which may be slow to see the first, are one
    os.kill(int(process), signal.SIGTERM)
    for t in threads:
        t.join()
    assert len(ends) == len(threads) and set(ends) <= {(True, None), (False, "draining")}, ends
    assert (False, "draining") in ends, ends
    print(f"{len(threads)} clients, of whom {sum(not whole for whole, _ in ends)} are told that it is over")


def ready(url, seconds="60"):
    until = time.time() + float(seconds)
    while True:
        try:
            if ask(url, "/health")[0] == 200:
                return
        except OSError:
            pass
        assert time.time() < until, "the server does not come up"
        time.sleep(0.1)


def closed(url):
    """While the server stops, new requests are told so."""
    until = time.time() + 5
    while ask(url, "/health")[0] != 503:
        assert time.time() < until, "the server does not stop"
    status, _, said = ask(url, "/v1/completions", {"prompt": "a"})
    assert (status, json.loads(said)["error"]["code"]) == (503, "draining"), (status, said)


COMMANDS = {f.__name__: f for f in (same, echo, top, parallel, chat, wrong, page, hostile, busy, gone, vanished, flat, late, nothing, prefix, continued, ends, adjusted, delay, turns, histograms,
                                    half_closed, silent, token, long, cut, ready)}
if __name__ == "__main__":
    COMMANDS[sys.argv[1]](*sys.argv[2:])
