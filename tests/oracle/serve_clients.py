#!/usr/bin/env python3
"""The `openai` client and lm-evaluation-harness against `runner serve`, as they come from PyPI.

    python3 -m venv VENV && VENV/bin/pip install openai 'lm_eval[api]' transformers
    VENV/bin/python tests/oracle/serve_clients.py BUILD

wants what tests/property/test_serve.sh BUILD left in BUILD/tests/serve (a model of bytes, its plan,
a tokenizer). Leaves with 77 where a package is missing. Nothing is asked of the network.
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

TASK = """task: fox
dataset_path: json
dataset_kwargs:
  data_files:
    test: {data}
output_type: multiple_choice
test_split: test
doc_to_text: "{{{{question}}}}"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: "{{{{answer}}}}"
target_delimiter: ""
metric_list:
  - metric: acc
"""
QUESTIONS = [("the quick brown fox jumps over the", [" lazy dog", " shining moon"], 0),
             ("pack my box with", [" nine grey stones", " five dozen liquor jugs"], 1),
             ("five dozen liquor", [" jugs", " cups"], 0)]


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


def with_harness(url, tokenizer, folder):
    data, task = os.path.join(folder, "fox.jsonl"), os.path.join(folder, "fox.yaml")
    with open(data, "w") as file:
        for question, choices, answer in QUESTIONS:
            file.write(json.dumps({"question": question, "choices": choices, "answer": answer}) + "\n")
    with open(task, "w") as file:
        file.write(TASK.format(data=data))
    result = lm_eval.simple_evaluate(
        model="local-completions", tasks=["fox"],
        task_manager=lm_eval.tasks.TaskManager(include_path=folder, include_defaults=False),
        model_args=f"model=small,base_url={url}/v1/completions,tokenizer={tokenizer},"
                   "tokenizer_backend=huggingface,num_concurrent=4,max_length=96",
        bootstrap_iters=0, log_samples=True)
    # each answer's log-probability, from the same server token by token
    client = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
    compared = 0
    for sample in result["samples"]["fox"]:
        question, choices, _ = QUESTIONS[sample["doc_id"]]
        for choice, response in zip(choices, sample["filtered_resps"]):
            known = client.completions.create(model="small", prompt=question + choice, echo=True,
                                              max_tokens=0, logprobs=0).choices[0].logprobs
            wanted = sum(known.token_logprobs[len(question):])
            assert abs(float(response[0]) - wanted) < 1e-4, (question, choice, response, wanted)
            compared += 1
    accuracy = result["results"]["fox"]["acc,none"]
    assert compared == 6 and accuracy == 1, (compared, accuracy)
    print(f"lm_eval {lm_eval.__version__}, transformers {transformers.__version__}: "
          f"local-completions, a local task, {compared} answers scored as asked directly, "
          f"accuracy {accuracy}")


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
            with_harness(url.group(1), os.path.join(made, "model"), folder)
        finally:
            server.terminate()
            code = server.wait()
        assert code == 0, f"the server left with {code}"


main()
