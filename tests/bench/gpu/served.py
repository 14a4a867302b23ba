#!/usr/bin/env python3
"""Times of a served model beside plan's. served.py NAME PORT EXPLAINED.json MAX_BATCH PROMPT TOKENS

The server is `runner serve` on PORT of this machine, whose model is NAME. Prints two lines of a
table: greedy, and of the smallest set with nine tenths of the probability; each with the median
time to the first token of one prompt that is alone, and, MAX_BATCH texts running, the median time
between two of a text's tokens, while all of them run if there is such a time. No two prompts begin alike: none finds another's rows. plan's time
to a first token is that of a prompt that waits behind others' (`plan explain`), its time of a token
that with caches as full as they may be.
"""
import http.client
import json
import statistics
import sys
import threading
import time

AGAIN = 3
KINDS = {"greedy": {"temperature": 0}, "top_p 0.9": {"temperature": 1, "top_p": 0.9}}


def ask(port, name, prompt, tokens, how, times):
    """Streams one text; times gets when each of its tokens came."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    body = {"model": name, "prompt": prompt, "max_tokens": tokens, "ignore_eos": True, "stream": True}
    connection.request("POST", "/v1/completions", json.dumps({**body, **how}),
                       {"Content-Type": "application/json"})
    answer = connection.getresponse()
    if answer.status != 200:
        sys.exit(f"served: {answer.status}: {answer.read().decode()}")
    for line in answer:
        if line.startswith(b"data: {") and b'"choices":[{' in line.replace(b" ", b""):
            times.append(time.monotonic())


def wait_for(port, seconds):
    end = time.monotonic() + seconds
    while True:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            connection.request("GET", "/health")
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        if time.monotonic() > end:
            sys.exit(f"served: no server on port {port} after {seconds} s")
        time.sleep(0.2)


def main():
    name, port, explained = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    batch, length, tokens = (int(word) for word in sys.argv[4:7])
    with open(explained, encoding="utf-8") as file:
        plan = json.load(file)["serving"]
    made = 0

    def prompt():
        nonlocal made
        made += 1
        return [1 + (17 * made + 31 * i * i + made * i) % 200 for i in range(length)]

    wait_for(port, 300)
    for how in KINDS.values():  # every shape is met and recorded
        for _ in range(2):
            ask(port, name, prompt(), 4, how, [])
    for kind, how in KINDS.items():
        firsts = []
        for _ in range(AGAIN):
            times, begun = [], time.monotonic()
            ask(port, name, prompt(), 1, how, times)
            firsts.append(times[0] - begun)
        lists = [[] for _ in range(batch)]
        threads = [threading.Thread(target=ask, args=(port, name, prompt(), tokens, how, one))
                   for one in lists]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        # from where all run to where the first is at its end
        begin, end = max(one[0] for one in lists), min(one[-1] for one in lists)
        pairs = [(a, b) for one in lists for a, b in zip(one, one[1:])]
        together = [b - a for a, b in pairs if a >= begin and b <= end]
        token = statistics.median(together or [b - a for a, b in pairs])
        print(f"| {name} | {batch} | {length} | {kind} | {1e3 * statistics.median(firsts):.1f} | "
              f"{1e3 * plan['first_token_seconds']:.1f} | {1e3 * token:.2f} | "
              f"{1e3 * plan['token_seconds']:.2f} |", flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 7:
        sys.exit(__doc__)
    main()
