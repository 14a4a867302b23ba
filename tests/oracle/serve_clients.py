#!/usr/bin/env python3
"""The `openai` client and lm-evaluation-harness against `runner serve`, as they come from PyPI.

    python3 -m venv VENV && VENV/bin/pip install openai 'lm_eval[api]' transformers torch accelerate
    VENV/bin/python tests/oracle/serve_clients.py BUILD

wants what tests/property/test_serve.sh BUILD left in BUILD/tests/serve (a model of bytes, its plan,
a tokenizer). Leaves with 77 where a package is missing; without torch or accelerate the harness's own
backend (hf) is left out. Nothing is asked of the network.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import time

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
try:
    import lm_eval
    import openai
    import transformers
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

# A local file each. `words` asks for the last word of a line, as lambada does; `lines` for whole
# texts, longer than the model's context among them.
TASKS = {
    "fox": """output_type: multiple_choice
doc_to_text: "{{{{question}}}}"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: "{{{{answer}}}}"
target_delimiter: ""
metric_list:
  - metric: acc
  - metric: acc_norm
""",
    "words": """output_type: loglikelihood
doc_to_text: "{{{{text.rsplit(' ', 1)[0]}}}}"
doc_to_target: "{{{{' ' + text.rsplit(' ', 1)[1]}}}}"
target_delimiter: ""
metric_list:
  - metric: perplexity
    higher_is_better: false
  - metric: acc
""",
    "lines": """output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{{{text}}}}"
metric_list:
  - metric: word_perplexity
    higher_is_better: false
  - metric: byte_perplexity
    higher_is_better: false
  - metric: bits_per_byte
    higher_is_better: false
""",
    "next": """output_type: generate_until
doc_to_text: "{{{{question}}}}"
doc_to_target: "{{{{choices[0]}}}}"
target_delimiter: ""
generation_kwargs:
  until: [".", ","]
  do_sample: false
  max_gen_toks: 24
metric_list:
  - metric: exact_match
""",
}
TASK = """task: {name}
dataset_path: json
dataset_kwargs:
  data_files:
    test: {data}
test_split: test
"""
QUESTIONS = [("the quick brown fox jumps over the", [" lazy dog", " shining moon"], 0),
             ("pack my box with", [" nine grey stones", " five dozen liquor jugs"], 1),
             ("five dozen liquor", [" jugs", " cups"], 0),
             ("over the", [" lazy fox", " lazy dog"], 1),
             ("the lazy dog. pack my", [" bag", " box"], 1),
             ("how many jugs? ", ["five dozen", "a few"], 1)]
TEXTS = ["the quick brown fox jumps over the lazy dog", "pack my box with five dozen liquor jugs",
         "the dog is not so lazy as it was, so they say", "two foxes, four jugs and a box",
         "five dozen quick brown foxes pack liquor jugs over the box with my lazy dog. the jugs jump, "
         "the dog packs, and the quick fox is in the box with the five dozen dogs that it packed"]
LENGTH = 90  # tokens, of the server's plan
# fp32 on both sides, of other orders of the same sums: 264 logits up to 16, texts up to 200 tokens
TOLERANCE = 2e-5


def with_openai(url):
    client = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
    model, = [m.id for m in client.models.list()]
    asked = {"model": model, "prompt": "the quick", "temperature": 0, "max_tokens": 24}
    whole = client.completions.create(**asked, logprobs=1)
    streamed = "".join(c.choices[0].text for c in client.completions.create(**asked, stream=True))
    assert whole.choices[0].text == streamed, (whole, streamed)
    lists = whole.choices[0].logprobs
    assert len(lists.token_logprobs) == len(lists.tokens) == whole.usage.completion_tokens, lists
    talk = {"model": model, "temperature": 0, "max_tokens": 12,
            "messages": [{"role": "user", "content": "the quick"}]}
    said = client.chat.completions.create(**talk, logprobs=True, top_logprobs=1)
    events = client.chat.completions.create(**talk, stream=True)
    assert said.choices[0].message.content == "".join(
        e.choices[0].delta.content or "" for e in events), said
    assert len(said.choices[0].logprobs.content) == said.usage.completion_tokens, said
    try:
        client.completions.create(model=model, prompt="a", temperature=-1)
        raise AssertionError("a temperature of -1 is taken")
    except openai.BadRequestError as refused:
        assert refused.body["param"] == "temperature", refused.body
    print(f"openai {openai.__version__}: models, completions and conversations, whole and streamed, "
          "log-probabilities, an error")


def write_tasks(folder, questions):
    documents = {"questions": [dict(zip(("question", "choices", "answer"), q)) for q in questions],
                 "texts": [{"text": t} for t in TEXTS]}
    for name, lines in documents.items():
        with open(os.path.join(folder, name + ".jsonl"), "w") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
    for name, task in TASKS.items():
        data = os.path.join(folder, ("questions" if "question" in task else "texts") + ".jsonl")
        with open(os.path.join(folder, name + ".yaml"), "w") as file:
            file.write((TASK + task).format(name=name, data=data))


def evaluate(folder, model, arguments):
    return lm_eval.simple_evaluate(
        model=model, model_args=arguments, tasks=list(TASKS), bootstrap_iters=0, log_samples=True,
        task_manager=lm_eval.tasks.TaskManager(include_path=folder, include_defaults=False))


def with_harness(url, tokenizer, folder):
    client = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
    # one whose answer is what the model itself would say: greedy, and an exact match
    own = client.completions.create(model="small", prompt="the quick", temperature=0, max_tokens=24,
                                    stop=[".", ","]).choices[0].text
    questions = QUESTIONS + [("the quick", [own, " slow"], 0)]
    write_tasks(folder, questions)
    result = evaluate(folder, "local-completions",
                      f"model=small,base_url={url}/v1/completions,tokenizer={tokenizer},"
                      f"tokenizer_backend=huggingface,num_concurrent=4,max_length={LENGTH}")
    # each answer's log-probability, from the same server token by token
    compared = 0
    for sample in result["samples"]["fox"]:
        question, choices, _ = questions[sample["doc_id"]]
        for choice, response in zip(choices, sample["filtered_resps"]):
            known = client.completions.create(model="small", prompt=question + choice, echo=True,
                                              max_tokens=0, logprobs=0).choices[0].logprobs
            # the harness moves blanks at a question's end to the answer
            wanted = sum(known.token_logprobs[len(question.rstrip()):])
            assert abs(float(response[0]) - wanted) < 1e-4, (question, choice, response, wanted)
            compared += 1
    greedy = [r[1] for s in result["samples"]["fox"] if s["doc_id"] == len(QUESTIONS)
              for r in s["filtered_resps"]]
    assert compared == 2 * len(questions) and greedy == [True, False], (compared, greedy)
    print(f"lm_eval {lm_eval.__version__}, transformers {transformers.__version__}: "
          f"local-completions, {len(TASKS)} local tasks, {compared} answers scored as asked directly")
    return result


def flat(response):
    """The numbers and texts of a response, however deep it nests them."""
    if isinstance(response, (list, tuple)):
        return [x for part in response for x in flat(part)]
    return [response]


def compare_backends(served, model, folder):
    """The numbers of the harness's own backend: the same model in transformers, on this processor. It
    counts what is fed, local-completions every token and one that it asks for: two less, and both
    cut and roll long texts alike. Its logits_cache takes " lazy dog" behind "the" and " dog" behind
    "the lazy", which are fed the same tokens, for one request; so it is off."""
    try:
        import accelerate
        import torch
    except ImportError as missing:
        print(f"hf: left out, {missing}")
        return
    own = evaluate(folder, "hf", f"pretrained={model},dtype=float32,device=cpu,batch_size=4,"
                                 f"max_length={LENGTH - 2},logits_cache=False")
    print(f"hf: torch {torch.__version__}, accelerate {accelerate.__version__}")
    print("| task | metric | local-completions | hf |\n| --- | --- | --- | --- |")
    metrics = responses = 0
    for task, numbers in sorted(own["results"].items()):
        for name, value in numbers.items():
            if isinstance(value, float) and "stderr" not in name:
                got = served["results"][task][name]
                print(f"| {task} | {name.partition(',')[0]} | {got:.7g} | {value:.7g} |")
                assert abs(got - value) <= TOLERANCE * max(1, abs(value)), (task, name, got, value)
                metrics += 1
        for mine, theirs in zip(*(sorted(r["samples"][task], key=lambda s: s["doc_id"])
                                  for r in (served, own)), strict=True):
            assert mine["doc_hash"] == theirs["doc_hash"], (mine, theirs)
            for a, b in zip(flat(mine["filtered_resps"]), flat(theirs["filtered_resps"]), strict=True):
                alike = a == b if isinstance(b, (str, bool)) else \
                    abs(float(a) - float(b)) <= TOLERANCE * max(1, abs(float(b)))
                assert alike, (task, mine["doc"], a, b)
                responses += 1
    assert metrics >= 8 and responses > 30, (metrics, responses)
    print(f"{metrics} numbers of {len(TASKS)} tasks and {responses} responses are those of the hf backend")


def main():
    build = sys.argv[1] if len(sys.argv) > 1 else "build"
    made = os.path.join(build, "tests", "serve")
    with tempfile.TemporaryDirectory() as folder, open(os.path.join(folder, "log"), "w+") as log:
        server = subprocess.Popen(
            [os.path.join(build, "runner"), "serve", os.path.join(made, "plan1", "small.plan.yaml"),
             "--checkpoint", os.path.join(made, "model"), "--listen", "127.0.0.1:0"],
            stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        try:
            url = None
            while url is None:
                assert server.poll() is None, "the server does not start"
                time.sleep(0.2)
                with open(log.name) as said:
                    url = re.search(r"at (http\S+?): ", said.read())
            with_openai(url.group(1))
            model = os.path.join(made, "model")
            compare_backends(with_harness(url.group(1), model, folder), model, folder)
        finally:
            server.terminate()
            code = server.wait()
        assert code == 0, f"the server left with {code}"


main()
