#!/usr/bin/env python3
"""A prompt read by Hugging Face's transformers on the processor, for ladder.sh.

Loads a directory as AutoModelForCausalLM in the precision asked for, and reads prompts into a cache
as `generate` would: under inference_mode, logits of the last position only. Says the
log-probabilities behind the first prompt, all of them, as JSON once it has read it. Then, for each
line on standard input, which is a number of prompts, reads so many, in turn, and prints their
seconds as JSON. With --about it says its versions only.
"""
import argparse
import json
import sys
import time

try:
    import torch
    import transformers
except ImportError as why:
    print(f"SKIP: {why}")
    raise SystemExit(77)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--about", action="store_true")
    p.add_argument("--folder", help="a Hugging Face directory")
    p.add_argument("--prompts", help='lines of {"tokens": [...]}')
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--compute", choices=("fp32", "bf16"), default="fp32")
    a = p.parse_args()
    if a.about:
        print(f"transformers {transformers.__version__} with PyTorch {torch.__version__}")
        return
    torch.set_num_threads(a.threads)
    transformers.logging.disable_progress_bar()
    model = transformers.AutoModelForCausalLM.from_pretrained(
        a.folder, dtype=torch.bfloat16 if a.compute == "bf16" else torch.float32).eval()
    prompts = [torch.tensor([json.loads(line)["tokens"]]) for line in open(a.prompts)]
    read = 0

    def step():
        nonlocal read
        begun = time.perf_counter()
        with torch.inference_mode():
            logits = model(prompts[read % len(prompts)], use_cache=True, logits_to_keep=1).logits[0, -1].float()
        read += 1
        return time.perf_counter() - begun, logits

    _, logits = step()
    print(json.dumps(torch.log_softmax(logits, -1).tolist()), flush=True)
    for line in sys.stdin:
        print(json.dumps([step()[0] for _ in range(int(line))]), flush=True)


if __name__ == "__main__":
    main()
