#!/usr/bin/env bash
# `runner generate` and `runner score` on what a short training leaves: the same texts on one rank and on
# eight, of a plan that trains; what they say of prompts that are no good, a line for each.
#
#   tests/property/test_generate.sh [BUILD-FOLDER]
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
build=$(cd "${1:-build}" && pwd) || exit 2
out=$build/tests/generate

fail() {
    echo "FAIL: $*"
    [ -f "$out/log" ] && tail -n 20 "$out/log"
    exit 1
}

# shellcheck source=tests/support/ranks.sh
. tests/support/ranks.sh

emit() { # RANKS MESH [SETTINGS]
    "$build/plan" emit configs/runs/quickstart.yaml -o "$out/plan$1" --mesh_dim "$2" \
        --set name=small --set directory="$out/run" --set cluster.accelerators_per_node="$1" \
        --set model.hidden_size=64 --set model.intermediate_size=96 \
        --set model.num_hidden_layers=2 --set model.num_attention_heads=4 \
        --set model.num_key_value_heads=1 --set model.tie_word_embeddings=true \
        --set sequence_length=64 --set data.path="$out/text" \
        --set optimizer.learning_rate=0.003 --set optimizer.total_steps=400 "${@:3}" \
        >"$out/log" 2>&1 || fail "plan emit $2"
}
one() { "$build/runner" "$1" "$out/plan1/small.plan.yaml" --checkpoint "$out/run" "${@:2}"; }
eight() {
    mpirun -q -np 8 "$build/runner" "$1" "$out/plan8/small.plan.yaml" --checkpoint "$out/run" \
        "${@:2}"
}
expect() { # WANTED FILE WHAT
    printf '%s' "$1" | diff - "$2" >"$out/log" || fail "$3"
}

rm -rf "$out"
mkdir -p "$out"
for ((i = 0; i < 2000; i++)); do
    echo -n 'the quick brown fox jumps over the lazy dog. pack my box with five dozen liquor jugs. '
done >"$out/text"
emit 1 1,1,1,1
emit 8 1,2,2,2
"$build/runner" train "$out/plan1/small.plan.yaml" >"$out/log" 2>&1 </dev/null || fail training

# a prompt of the command line: its text comes as it is made, and ends with the line
one generate --prompt 'the quick brown' --max-new-tokens 29 >"$out/said" 2>"$out/log" ||
    fail "generate --prompt"
expect ' fox jumps over the lazy dog.
' "$out/said" "another text than it learned"
one generate --prompt 'the quick brown' --stop ' dog' --stop 'lazy' >"$out/said" 2>"$out/log" ||
    fail "generate --stop"
expect ' fox jumps over the 
' "$out/said" "a stop text is in the text, or the text behind it"

# lines: more than slots, of many lengths, with wishes of their own; the same on eight ranks
cat >"$out/prompts.jsonl" <<'LINES'
{"prompt": "pack my box", "max_new_tokens": 20}
{"tokens": [116, 104, 101, 32], "n": 2, "temperature": 0.9, "top_k": 20, "seed": 3}

{"prompt": "five dozen", "stop": [" jugs", "xyz"]}
{"prompt": "fox jumps over the lazy dog. pack my box with five dozen li", "max_new_tokens": 50}
{"prompt": "the quick ", "temperature": 0.5, "top_p": 0.9, "min_p": 0.1, "repetition_penalty": 1.2, "presence_penalty": 0.25, "frequency_penalty": 0.5, "min_new_tokens": 3}
LINES
for i in 1 2 3 4 5 6 7; do
    echo "{\"prompt\": \"the $i\", \"max_new_tokens\": $i}"
done >>"$out/prompts.jsonl"
one generate --prompts "$out/prompts.jsonl" -o "$out/one.jsonl" --logprobs 2>"$out/log" ||
    fail "generate --prompts"
one generate --prompts - --logprobs <"$out/prompts.jsonl" >"$out/piped.jsonl" 2>"$out/log" ||
    fail "generate --prompts -"
cmp "$out/one.jsonl" "$out/piped.jsonl" >"$out/log" 2>&1 || fail "stdin and stdout make a difference"
eight generate --prompts "$out/prompts.jsonl" -o "$out/eight.jsonl" --logprobs 2>"$out/log" ||
    fail "generate on eight ranks"
python3 - "$out/one.jsonl" "$out/eight.jsonl" >"$out/log" 2>&1 <<'PYTHON' || fail "other texts on eight ranks"
import json, sys
one, eight = ([json.loads(line) for line in open(path)] for path in sys.argv[1:])
assert len(one) == len(eight) == 13, (len(one), len(eight))
for a, b in zip(one, eight):
    assert all(abs(x - y) < 1e-5 for x, y in zip(a.pop("logprobs"), b.pop("logprobs"))), a
    assert a == b, (a, b)
assert [(t["index"], t["sample"]) for t in one[:4]] == [(0, 0), (1, 0), (1, 1), (2, 0)], one[:4]
assert one[0]["text"] == " with five dozen liq" and one[0]["finish_reason"] == "length", one[0]
assert one[1]["tokens"] != one[2]["tokens"], one[1:3]
assert one[3]["text"] == " liquor" and one[3]["finish_reason"] == "stop", one[3]
assert len(one[4]["tokens"]) == 64 - one[4]["prompt_tokens"], one[4]  # the cache is full
PYTHON

# the most probable tokens: as many as are asked for, the chosen one's number among them, the same on every mesh
one generate --prompts "$out/prompts.jsonl" --logprobs --top-logprobs 7 >"$out/top1.jsonl" 2>"$out/log" ||
    fail "generate --top-logprobs"
eight generate --prompts "$out/prompts.jsonl" --top-logprobs 7 >"$out/top8.jsonl" 2>"$out/log" ||
    fail "generate --top-logprobs on eight ranks"
python3 - "$out/one.jsonl" "$out/top1.jsonl" "$out/top8.jsonl" >"$out/log" 2>&1 <<'PYTHON' || fail "the most probable tokens"
import json, sys
plain, one, eight = ([json.loads(line) for line in open(path)] for path in sys.argv[1:])
assert len(plain) == len(one) == len(eight)
for p, a, b in zip(plain, one, eight):
    lists, others = a.pop("top_logprobs"), b.pop("top_logprobs")
    assert a == p, (a, p)
    assert len(lists) == len(a["tokens"]) and all(len(l) == 7 for l in lists), a
    assert all(l == sorted(l, key=lambda x: (-x["logprob"], x["token"])) for l in lists), lists
    for token, logprob, list_ in zip(a["tokens"], a["logprobs"], lists):
        assert all(x["logprob"] == logprob for x in list_ if x["token"] == token), (token, logprob, list_)
        assert token in (x["token"] for x in list_) or logprob <= list_[-1]["logprob"], (token, list_)
    # those of fp32 logits that are all but equal may change places
    for l, o in zip(lists, others):
        assert all(abs(x["logprob"] - y["logprob"]) < 1e-5 for x, y in zip(l, o)), (l, o)
PYTHON
for wrong in 21 -1 2.5 many ''; do
    one generate --prompt a --top-logprobs "$wrong" >"$out/said" 2>&1
    [ $? -eq 2 ] || fail "--top-logprobs '$wrong' is taken"
    problem="must be a whole number from 0 to 20, not '$wrong'"
    [ -n "$wrong" ] || problem='needs a value: N'
    [ "$(cat "$out/said")" = "runner generate: error: --top-logprobs $problem; see 'runner generate --help'" ] ||
        { cp "$out/said" "$out/log" && fail "what is said of --top-logprobs '$wrong'"; }
done

# a plan that says what it serves: the same texts, a cache of its own size, digests that are checked
for ranks in 1 8; do
    mesh=1,1,1,1
    [ "$ranks" -eq 1 ] || mesh=1,2,2,2
    emit "$ranks" "$mesh" --set serve.max_batch=3 --set serve.max_tokens=96 --set serve.chunk=8 \
        --set serve.stream_weights=true
    grep -q '^  decode: ' "$out/plan$ranks/small.plan.yaml" || fail "the plan has no digest of decode"
    "$build/plan" check "$out/plan$ranks/small.plan.yaml" >"$out/log" 2>&1 || fail "plan check"
done
one generate --prompts "$out/prompts.jsonl" -o "$out/served.jsonl" 2>"$out/log" ||
    fail "generate of a plan that serves"
eight generate --prompts "$out/prompts.jsonl" -o "$out/served8.jsonl" 2>"$out/log" ||
    fail "generate of a plan that serves, on eight ranks"
cmp "$out/served.jsonl" "$out/served8.jsonl" >"$out/log" 2>&1 || fail "other texts on eight ranks"
python3 - "$out/one.jsonl" "$out/served.jsonl" >"$out/log" 2>&1 <<'PYTHON' || fail "a longer cache makes other texts"
import json, sys
one, served = ([json.loads(line) for line in open(path)] for path in sys.argv[1:])
for a, b in zip(one, served):
    assert b["tokens"][:len(a["tokens"])] == a["tokens"], (a, b)
assert len(served[4]["tokens"]) == 96 - served[4]["prompt_tokens"], served[4]
PYTHON
run=(configs/runs/quickstart.yaml --set serve.max_batch=6)
for tokens in 1024 65536; do
    "$build/plan" explain "${run[@]}" --set serve.max_tokens=$tokens --json >"$out/explain.$tokens" \
        2>"$out/log" || fail "explain --json"
done
python3 - "$out/explain.1024" "$out/explain.65536" >"$out/log" 2>&1 <<'PYTHON' || fail "what explain says of serving"
import json, sys
short, long = (json.load(open(path))["serving"] for path in sys.argv[1:])
assert short["texts"] == 6 and long["max_tokens"] == 65536, (short, long)
assert long["cache_bytes"] == 64 * short["cache_bytes"], (short, long)
assert long["sent_bytes_per_token"] == short["sent_bytes_per_token"], (short, long)
assert long["token_seconds"] > short["token_seconds"] > 0, (short, long)
assert short["arena_bytes"] > short["weight_bytes"] + short["cache_bytes"], short
PYTHON
"$build/plan" explain "${run[@]}" --program decode >"$out/said" 2>"$out/log" || fail "explain --program"
grep -q 'attention(q1\[l\], key cache\[l\]' "$out/said" || fail "decode is not printed"
"$build/plan" explain configs/runs/quickstart.yaml --program prefill >"$out/said" 2>&1
[ $? -eq 2 ] || fail "a program that is not there gives another exit code than 2"
expect 'plan: error: the run has no serve section; add serve: {max_batch: 8}, or --set serve.max_batch=8
' "$out/said" "what is said of a run that does not serve"
"$build/plan" emit "${run[@]}" --set serve.max_tokens=1048576 --set serve.max_batch=64 -o "$out/none" \
    >"$out/said" 2>&1
[ $? -eq 1 ] || fail "a cache that does not fit gives another exit code than 1"
grep -q 'error: serve: .* of 2.0 GB per accelerator; use a smaller max_batch or max_tokens' "$out/said" ||
    fail "what is said of a cache that does not fit"

# a cache in int8: the same text of the most probable tokens on every mesh, and what it takes
printf '{"prompt": "%s", "max_new_tokens": 30}\n' 'pack my box' 'the quick brown' 'five dozen' \
    'fox jumps over the lazy dog. pack my b' >"$out/greedy.jsonl"
emit 1 1,1,1,1 --set serve.cache=int8 --set serve.chunk=8
one generate --prompts "$out/greedy.jsonl" -o "$out/int8.jsonl" 2>"$out/log" ||
    fail "generate with a cache in int8"
grep -q '" with five dozen liquor jugs. ' "$out/int8.jsonl" || fail "a cache in int8 makes another text"
for mesh in 1,1,1,8 1,1,4,2 1,2,2,2 2,1,2,2 8,1,1,1; do
    emit 8 $mesh --set serve.cache=int8 --set serve.chunk=8
    eight generate --prompts "$out/greedy.jsonl" -o "$out/int8.8.jsonl" 2>"$out/log" ||
        fail "generate with a cache in int8 on $mesh"
    cmp "$out/int8.jsonl" "$out/int8.8.jsonl" >"$out/log" 2>&1 || fail "other texts in int8 on $mesh"
done
# weights in 8 bits: the same text on every mesh, and how far they are from those as they were
printf '{"text": "%s"}\n' 'the quick brown fox jumps over the lazy dog. pack my box with five' 'pack my dog' \
    'liquor jugs. the quick brown zzyzx' >"$out/texts.jsonl"
emit 1 1,1,1,1
one score --texts "$out/texts.jsonl" --logprobs -o "$out/wide.jsonl" 2>"$out/log" || fail "score --logprobs"
one score --texts "$out/texts.jsonl" --against "$out/wide.jsonl" >"$out/said" 2>"$out/log" || fail "score --against"
grep -q "^against $out/wide.jsonl: 108 log-probabilities are 0 apart on average, 0 at most " "$out/log" ||
    fail "a model is apart from itself"
for weights in int8 e4m3; do
    meshes='1,1,1,8 1,1,4,2 1,2,2,2 2,1,2,2 8,1,1,1'
    [ $weights = int8 ] || meshes=1,2,2,2
    for mesh in 1,1,1,1 $meshes; do
        ranks=8 ask=eight
        [ "$mesh" != 1,1,1,1 ] || { ranks=1 && ask=one; }
        emit $ranks "$mesh" --set serve.weights=$weights --set serve.chunk=8
        $ask generate --prompts "$out/greedy.jsonl" -o "$out/$weights.$mesh.jsonl" 2>"$out/log" ||
            fail "generate with weights in $weights on $mesh"
        cmp "$out/$weights.1,1,1,1.jsonl" "$out/$weights.$mesh.jsonl" >"$out/log" 2>&1 ||
            fail "other texts of weights in $weights on $mesh"
        $ask score --texts "$out/texts.jsonl" --against "$out/wide.jsonl" --logprobs \
            -o "$out/narrow.$weights.$mesh.jsonl" 2>"$out/log" || fail "score with weights in $weights on $mesh"
        grep '^against' "$out/log" >"$out/apart.$weights.$mesh" || fail "nothing is said of $weights on $mesh"
    done
    grep -q '" with five dozen liquor jugs. ' "$out/$weights.1,1,1,1.jsonl" ||
        fail "weights in $weights make another text"
done
python3 - "$out" >"$out/log" 2>&1 <<'PYTHON' || fail "how far weights in 8 bits are"
import glob, json, re, sys
out = sys.argv[1]
def logprobs(path):
    return [x for line in open(path) for x in json.loads(line)["logprobs"]]
wide, average = logprobs(out + "/wide.jsonl"), {}
for weights, count in ("int8", 5), ("e4m3", 1):
    one = logprobs(f"{out}/narrow.{weights}.1,1,1,1.jsonl")
    apart = [abs(a - b) for a, b in zip(wide, one)]
    # as it is stated, and small
    said = re.fullmatch(r"against \S+: (\d+) log-probabilities are (\S+) apart on average, (\S+) at most "
                        r"\(text (\d+), token (\d+)\); perplexity (\S+), there (\S+)\n",
                        open(f"{out}/apart.{weights}.1,1,1,1").read())
    print(said[0])
    assert int(said[1]) == len(apart) == len(wide), said
    assert abs(float(said[2]) - sum(apart) / len(apart)) < 0.01 * float(said[2]), said
    assert abs(float(said[3]) - max(apart)) < 0.01 * float(said[3]), said
    assert 0 < float(said[2]) < 0.05 and float(said[3]) < 0.5, said
    assert abs(float(said[6]) / float(said[7]) - 1) < 0.05, said
    average[weights] = float(said[2])
    # the sums of other meshes are rounded otherwise, their weights are not
    meshes = [path for path in glob.glob(f"{out}/narrow.{weights}.*.jsonl") if "1,1,1,1" not in path]
    assert len(meshes) == count, meshes
    for path in meshes:
        assert max(abs(a - b) for a, b in zip(logprobs(path), one)) < 1e-4, path
# a number has three bits where an integer has up to seven
assert average["e4m3"] > average["int8"], average
PYTHON
cp "$out/log" "$out/said.narrow"
printf '{"index": 0, "logprobs": [-1, -2]}\n' >"$out/other.jsonl"
one score --texts "$out/texts.jsonl" --against "$out/other.jsonl" >"$out/said" 2>"$out/log"
[ $? -eq 2 ] || fail "--against another file gives another exit code than 2"
grep -q "other.jsonl:1:1: error: text 0 has 2 log-probabilities, not 65; score the same texts with --logprobs" \
    "$out/log" || fail "what is said of another file"
# what is gathered for a chunk of prompts: the queries, or keys and values of a short cache
for tokens in 512 4096; do
    "$build/plan" explain "${run[@]}" --mesh_dim 1,1,1,8 --set serve.max_tokens=$tokens --json \
        >"$out/explain.$tokens" 2>"$out/log" || fail "explain of a cache of $tokens tokens"
    "$build/plan" explain "${run[@]}" --mesh_dim 1,1,1,8 --set serve.max_tokens=$tokens >"$out/said.$tokens" \
        2>"$out/log" || fail "explain of a cache of $tokens tokens"
done
python3 - "$out/explain.512" "$out/explain.4096" >"$out/log" 2>&1 <<'PYTHON' || fail "what explain says is gathered"
import json, sys
short, long = (json.load(open(path))["serving"] for path in sys.argv[1:])
queries, cache = "sent_bytes_passing_queries", "sent_bytes_passing_cache"
assert short["passes"] == "keys and values" and long["passes"] == "queries", (short, long)
assert short[queries] == long[queries] and short[cache] < short[queries] < long[cache], (short, long)
# keys and values of 4 layers, 4 heads of 32 in fp32, for one row of 6 slots: what another rank has of 3584 tokens more
assert long[cache] - short[cache] == 2 * 4 * 4 * 32 * 4 * 3584 * 7 // 8, (short, long)
PYTHON
grep -q 'for a chunk of prompts keys and values are gathered: it sends ' "$out/said.512" || fail "explain hides what is gathered"
grep -q 'for a chunk of prompts queries are gathered: it sends ' "$out/said.4096" || fail "explain hides what is gathered"
"$build/plan" explain "${run[@]}" --mesh_dim 1,1,8,1 >"$out/said" 2>"$out/log" || fail "explain without sp"
! grep -q 'are gathered' "$out/said" || fail "something is gathered without sp"
for cache in fp32 int8; do
    "$build/plan" explain "${run[@]}" --mesh_dim 1,2,2,2 --set serve.max_tokens=65536 \
        --set serve.cache=$cache --json >"$out/explain.$cache" 2>"$out/log" || fail "explain of a cache in $cache"
done
python3 - "$out/explain.fp32" "$out/explain.int8" >"$out/log" 2>&1 <<'PYTHON' || fail "what explain says of int8"
import json, sys
fp32, int8 = (json.load(open(path))["serving"] for path in sys.argv[1:])
heads = 6 * 65536 * 4 * 4 * 2 // 8  # slots, positions, kv heads, layers; keys and values; of a rank
assert fp32["cache_bytes"] == heads * 32 * 4 and fp32["scale_bytes"] == 0, fp32
assert int8["cache_bytes"] == heads * (32 + 4) and int8["scale_bytes"] == heads * 4, int8
assert int8["cache"] == "i8" and int8["token_seconds"] < fp32["token_seconds"] / 2, (fp32, int8)
assert int8["sent_bytes_per_token"] == fp32["sent_bytes_per_token"], (fp32, int8)
PYTHON
"$build/plan" explain "${run[@]}" --set serve.cache=int8 >"$out/said" 2>"$out/log" || fail "explain of int8"
grep -qE 'cache [0-9.]+ [kMG]B in i8 \(scales [0-9.]+ [kMG]B\);' "$out/said" || fail "what explain says of scales"
# on GPUs as well
for cache in bf16 int8; do
    "$build/plan" explain configs/runs/llama-8b-64.yaml --mesh_dim 1,8,8,1 --set serve.max_batch=64 \
        --set serve.max_tokens=65536 --set serve.cache=$cache --json >"$out/gpu.$cache" 2>"$out/log" ||
        fail "explain of a cache in $cache on GPUs"
done
python3 - "$out/gpu.bf16" "$out/gpu.int8" >"$out/log" 2>&1 <<'PYTHON' || fail "what explain says of int8 on GPUs"
import json, sys
bf16, int8 = (json.load(open(path))["serving"] for path in sys.argv[1:])
heads = 8 * 65536 * 1 * 32 * 2  # slots, positions and kv heads of a rank, layers; keys and values
assert bf16["cache_bytes"] == heads * 128 * 2 and int8["cache_bytes"] == heads * (128 + 4), (bf16, int8)
PYTHON
emit 1 1,1,1,1
emit 8 1,2,2,2

# scores: as `evaluate` has them of windows, and on eight ranks but for the last of six digits
head -c 640 "$out/text" >"$out/known"
echo 'zzyzx' >"$out/unknown"
one score "$out/known" "$out/unknown" >"$out/one.txt" 2>"$out/log" || fail score
eight score "$out/known" "$out/unknown" >"$out/eight.txt" 2>"$out/log" || fail "score on eight ranks"
python3 - "$out/one.txt" "$out/eight.txt" >"$out/log" 2>&1 <<'END' || fail "other scores on eight ranks"
import re, sys
one, eight = (re.split(r"(-?\d+(?:\.\d+)?)", open(name).read()) for name in sys.argv[1:])
assert len(one) == len(eight), (one, eight)
for a, b in zip(one[::2], eight[::2]):
    assert a == b, (a, b)
for a, b in zip(one[1::2], eight[1::2]):
    assert abs(float(a) - float(b)) <= 2 * max(10.0 ** -len(a.partition(".")[2]), 1e-6 * abs(float(a))), (a, b)
END
one score --json "$out/known" "$out/unknown" >"$out/scores.jsonl" 2>"$out/log" || fail "score --json"
python3 - "$out/scores.jsonl" >"$out/log" 2>&1 <<'PYTHON' || fail "scores that cannot be"
import json, math, sys
known, unknown = (json.loads(line) for line in open(sys.argv[1]))
assert known["tokens"] == 639 and unknown["tokens"] == 5, (known, unknown)
assert known["perplexity"] < 1.3 and unknown["perplexity"] > 30, (known, unknown)
assert math.isclose(known["logprob"], known["logprob_per_token"] * 639, rel_tol=1e-6), known
PYTHON

# lines that are no good: one line for each, and nothing is written
{
    printf '{"prompt": "fine"}\n{"prompt": \n[1]\n"text"\n{}\n'
    printf '{"prompt": "a", "tokens": [1]}\n{"tokens": [1, -2]}\n{"tokens": [1, 2.5]}\n'
    printf '{"tokens": [300]}\n{"tokens": 7}\n{"tokens": []}\n{"prompt": ""}\n{"prompt": 5}\n'
    printf '{"prompt": "a", "temperatur": 1}\n{"prompt": "a", "colour": 1}\n'
    printf '{"prompt": "a", "temperature": -1}\n{"prompt": "a", "top_p": 0}\n'
    printf '{"prompt": "a", "n": 1e9}\n{"prompt": "a", "top_k": 1.5}\n{"prompt": "a", "seed": "x"}\n'
    printf '{"prompt": "a", "stop": ["b", ""]}\n{"prompt": "a", "stop": "a\\u0000b"}\n{"prompt": "\xff"}\n'
    printf '{"prompt": "a", "prompt": "b"}\n{"tokens": [123456789012345678901234567890]}\n'
    printf '{"prompt": "%080d"}\n' 7
    printf '{"prompt": "a", "min_new_tokens": 9, "max_new_tokens": 8}\n{"prompt": "a", "frequency_penalty": 3}\n'
    printf '{"prompt": "a", "seed": 9223372036854775808}\n' # not one of 64 bits
    for ((i = 0; i < 5000; i++)); do printf '['; done
} >"$out/bad.jsonl"
one generate --prompts "$out/bad.jsonl" -o "$out/none.jsonl" >"$out/said" 2>&1
[ $? -eq 2 ] || fail "bad lines give another exit code than 2"
[ ! -e "$out/none.jsonl" ] || fail "something was written of bad lines"
sed -i "s#$out/##" "$out/said"
expect "bad.jsonl:2: error: not valid JSON: the text ends within a value
bad.jsonl:3: error: a line must be an object, {\"prompt\": ...}
bad.jsonl:4: error: a line must be an object, {\"prompt\": ...}
bad.jsonl:5: error: give 'prompt' or 'tokens', one of them
bad.jsonl:6: error: give 'prompt' or 'tokens', one of them
bad.jsonl:7: error: element 1 of 'tokens' is not a token: a whole number from 0
bad.jsonl:8: error: element 1 of 'tokens' is not a token: a whole number from 0
bad.jsonl:9: error: token 300 is none of the model's 256
bad.jsonl:10: error: 'tokens' must be a list of numbers
bad.jsonl:11: error: the prompt is empty; give at least one token
bad.jsonl:12: error: the prompt is empty; give at least one token
bad.jsonl:13: error: 'prompt' must be a string
bad.jsonl:14: error: unknown key 'temperatur'; did you mean 'temperature'?
bad.jsonl:15: error: unknown key 'colour'; a line has prompt or tokens, and perhaps stop, temperature, top_k, top_p, min_p, repetition_penalty, presence_penalty, frequency_penalty, min_new_tokens, max_new_tokens, seed and n
bad.jsonl:16: error: 'temperature' must be a number from 0 to 100
bad.jsonl:17: error: 'top_p' must be a number above 0 and at most 1
bad.jsonl:18: error: 'n' must be a whole number from 1 to 10000
bad.jsonl:19: error: 'top_k' must be a whole number from 0 to 16777216
bad.jsonl:20: error: 'seed' must be a whole number from -9223372036854775808 to 9223372036854775807
bad.jsonl:21: error: 'stop' must be a string or a list of strings, none empty
bad.jsonl:22: error: 'stop' has a NUL character, which ends no text here
bad.jsonl:23: error: not valid JSON: a text that is not UTF-8
bad.jsonl:24: error: not valid JSON: a duplicate key
bad.jsonl:25: error: element 0 of 'tokens' is not a token: a whole number from 0
bad.jsonl:26: error: the prompt has 80 tokens; with 64 for a sequence, at most 63 leave room for a new one; shorten it, or emit the plan with a larger serve.max_tokens
bad.jsonl:27: error: 'min_new_tokens' is 9, above 'max_new_tokens', 8
bad.jsonl:28: error: 'frequency_penalty' must be a number from -2 to 2
bad.jsonl:29: error: 'seed' must be a whole number from -9223372036854775808 to 9223372036854775807
bad.jsonl:30: error: not valid JSON: values nested too deeply
bad.jsonl: error: 29 of its lines cannot be used; nothing was generated
" "$out/said" "what is said of bad lines"
: >"$out/empty.jsonl"
one generate --prompts "$out/empty.jsonl" >"$out/said" 2>&1
[ $? -eq 2 ] || fail "an empty file gives another exit code than 2"
sed -i "s#$out/##" "$out/said"
expect 'empty.jsonl: error: no prompt in it; give a line {"prompt": ...} for each
' "$out/said" "what is said of an empty file"
for arguments in "--prompt" "" "--prompt a --prompts b" "--prompt a --top-k -1" "--prompt a --n x" \
    "--prompt a --stop" "--colour" "--prompt a b"; do
    # shellcheck disable=SC2086  # words
    one generate $arguments >"$out/said" 2>&1
    [ $? -eq 2 ] || fail "'$arguments' gives another exit code than 2"
    [ "$(wc -l <"$out/said")" -eq 1 ] || fail "'$arguments' is said in more than a line"
done
one score "$out/nothing" >"$out/said" 2>&1
[ $? -eq 2 ] || fail "a file that is not there gives another exit code than 2"
sed -i "s#$out/##" "$out/said"
expect 'nothing: error: cannot read it: No such file or directory; name a file that can be read
' "$out/said" "what is said of a file that is not there"
mpirun -q -np 2 "$build/runner" generate "$out/plan8/small.plan.yaml" --checkpoint "$out/run" \
    --prompt a >"$out/said" 2>&1
grep -q 'small.plan.yaml: error: the plan needs 8 ranks, 2 were started; start it with mpirun -np 8' \
    "$out/said" || fail "what is said of two ranks for eight"
echo "the same texts and scores on one rank and on eight; 29 bad lines, a line for each"
