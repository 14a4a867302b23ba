#!/usr/bin/env bash
# Fine-tunes a chat model, all of it made on the spot: a small model with a tokenizer and a chat template, trained for
# a moment on a text; conversations about capitals. They become tokens of which the assistant's words count, whole
# conversations are packed into rows, four CPU ranks (fsdp 2, sp 2) fine-tune on them, and the result is judged on
# conversations that were kept aside, asked something over HTTP, and exported as Hugging Face has it.
#
#   examples/finetune.sh            every weight is trained
#   examples/finetune.sh --lora     adapters are, beside the frozen model; export merges them into it
#
# SW_FINETUNE_OUT=DIR puts the results elsewhere than in runs/finetune; SW_FINETUNE_STEPS=N trains N steps instead
# of 400. Run it again as often as you like: the last results are moved aside.
set -euo pipefail
cd "$(dirname "$0")/.."

kind=whole lora='{}' rate=2.0e-3
case ${1:-} in
    '') ;;
    --lora) kind=lora lora='{rank: 16, alpha: 32, targets: all-linear}' rate=1.0e-2 ;;
    *)
        echo "usage: examples/finetune.sh [--lora]" >&2
        exit 2
        ;;
esac
out=${SW_FINETUNE_OUT:-runs/finetune}/$kind
steps=${SW_FINETUNE_STEPS:-400}
case $steps in
    '' | *[!0-9]* | 0)
        echo "finetune: SW_FINETUNE_STEPS is '$steps', not a number of steps" >&2
        exit 2
        ;;
esac
say() {
    printf '\n== %s\n' "$*"
}

build=${SW_FINETUNE_BUILD:-build}
if [ ! -x "$build/plan" ] || [ ! -x "$build/runner" ]; then
    say "install what is missing, build"
    bash tests/install.sh build
    cmake -S . -B "$build" -G Ninja >/dev/null
    cmake --build "$build" --target plan runner
fi
bash examples/make_text.sh
if [ -e "$out" ]; then
    rm -rf "$out.previous"
    mv "$out" "$out.previous"
fi
mkdir -p "$out/model"
top=$PWD build=$(cd "$build" && pwd)
out=$(cd "$out" && pwd)

# Four ranks share this machine's cores: as the script that plan emit wrote starts them.
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_hwloc_base_binding_policy=none OMP_NUM_THREADS=1
if [ "$(id -u)" -eq 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi

say "a model's folder, $out/model: config.json, a tokenizer of single bytes, a chat template"
cat >"$out/model/config.json" <<'END'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 260, "hidden_size": 128,
 "intermediate_size": 352, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
 "max_position_embeddings": 1024, "rope_theta": 10000.0, "rms_norm_eps": 1e-5, "tie_word_embeddings": false,
 "eos_token_id": 257}
END
cat >"$out/model/tokenizer_config.json" <<'END'
{"eos_token": "<|end|>", "chat_template": "{% for message in messages %}{{ '<|' + message['role'] + '|>' }}{% if message['role'] == 'assistant' %}{% generation %}{{ message['content'] + '<|end|>' }}{% endgeneration %}{% else %}{{ message['content'] + '<|end|>' }}{% endif %}{{ '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"}
END
# Every byte is a token, under the name that GPT-2 gave it; then four special ones.
LC_ALL=C awk 'BEGIN {
    others = 256
    for (byte = 0; byte < 256; byte++) {
        own = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174
        point = own ? byte : others++
        if (point < 128)
            name = sprintf("%c", point)
        else
            name = sprintf("%c%c", 192 + int(point / 64), 128 + point % 64)
        if (name == "\"" || name == "\\")
            name = "\\" name
        vocabulary = vocabulary (byte > 0 ? ", " : "") "\"" name "\": " byte
    }
    split("<|system|> <|end|> <|user|> <|assistant|>", special, " ")
    for (i = 1; i <= 4; i++)
        added = added (i > 1 ? ", " : "") "{\"id\": " 255 + i ", \"content\": \"" special[i] \
            "\", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, \"normalized\": false, \"special\": true}"
    printf "{\"version\": \"1.0\", \"truncation\": null, \"padding\": null, \"added_tokens\": [%s], \"normalizer\": null, ", added
    printf "\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, \"use_regex\": true}, "
    printf "\"post_processor\": null, \"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": true, \"trim_offsets\": true, \"use_regex\": true}, "
    printf "\"model\": {\"type\": \"BPE\", \"dropout\": null, \"unk_token\": null, \"continuing_subword_prefix\": null, "
    printf "\"end_of_word_suffix\": null, \"fuse_unk\": false, \"byte_fallback\": false, \"vocab\": {%s}, \"merges\": []}}\n", vocabulary
}' >"$out/model/tokenizer.json"

say "conversations: $out/chats.jsonl, and some that are kept aside"
awk -v out="$out" 'BEGIN {
    srand(7)
    places = split("Norway Oslo|Japan Tokyo|Peru Lima|Kenya Nairobi|France Paris|Egypt Cairo|Cuba Havana|Greece Athens|" \
                   "Canada Ottawa|Nepal Kathmandu|Ghana Accra|Italy Rome", place, "|")
    split("What is the capital of %s?|Which city is the capital of %s?|%s has which capital?", question, "|")
    for (i = 0; i < 1600; i++) {
        line = "{\"messages\": [{\"role\": \"system\", \"content\": \"You know capitals.\"}"
        for (turn = 0; turn <= int(rand() * 3); turn++) {
            split(place[1 + int(rand() * places)], is, " ")
            line = line ", {\"role\": \"user\", \"content\": \"" sprintf(question[1 + int(rand() * 3)], is[1]) "\"}"
            line = line ", {\"role\": \"assistant\", \"content\": \"" is[2] " is the capital of " is[1] ".\"}"
        }
        print line "]}" > (out "/" (i < 1500 ? "chats" : "aside") ".jsonl")
    }
}'
head -n 1 "$out/chats.jsonl"

say "runner tokenize: texts and conversations become tokens, with an index of what counts"
"$build/runner" tokenize --tokenizer "$out/model" examples/data/text.txt "$out/text.bin"
"$build/runner" tokenize --tokenizer "$out/model" "$out/chats.jsonl" "$out/chats.bin"
"$build/runner" tokenize --tokenizer "$out/model" "$out/aside.jsonl" "$out/aside.bin"

cat >"$out/cluster.yaml" <<END
name: four-ranks
nodes: 1
accelerators_per_node: 4
accelerator: $top/configs/accelerators/cpu-core.yaml
links: [{name: shared-memory, spans: node, bandwidth: 2 GB/s, latency: 2 us}]
launcher: mpirun
END
cat >"$out/base.yaml" <<END
name: base
model: model/config.json
cluster: cluster.yaml
sequence_length: 256
global_batch_size: 8
mesh_dim: '1,2,1,2'
precision: {compute: fp32}
optimizer: {learning_rate: 2.0e-3, warmup_steps: 10, total_steps: 150}
data: {path: text.bin}
directory: base
END
cat >"$out/chat.yaml" <<END
name: chat
model: model/config.json
cluster: cluster.yaml
sequence_length: 256
global_batch_size: 8
mesh_dim: '1,2,1,2'                # dp,fsdp,tp,sp
precision: {compute: fp32}
init: {from: start}
lora: $lora
optimizer: {learning_rate: $rate, warmup_steps: 5, total_steps: $steps, weight_decay: 0.0}
data: {path: chats.bin, pack: true, validation: aside.bin}
directory: chat
END

say "a model to begin with: 150 steps on the text"
"$build/plan" emit "$out/base.yaml" -o "$out"
bash "$out/base.sh"
"$build/runner" export "$out/base/checkpoints/latest" "$out/start"
cp "$out/model/tokenizer.json" "$out/model/tokenizer_config.json" "$out/start"

say "runner data chat.yaml: what a step sees"
"$build/runner" data "$out/chat.yaml" --rows 1

say "fine-tune: four ranks, $steps steps"
"$build/plan" emit "$out/chat.yaml" -o "$out"
bash "$out/chat.sh"

say "judge it on the conversations that were kept aside"
mpirun -q -np 4 "$build/runner" evaluate "$out/chat.plan.yaml" --checkpoint "$out/chat/checkpoints/latest"

say "ask it something, over HTTP"
log=$out/serve.log
server=''
stop() { # mpirun passes 40 on as it is; TERM it follows with KILL
    [ -z "$server" ] || kill -40 "$server" 2>/dev/null || true
    wait || true
}
trap stop EXIT
mpirun -q --mca ess_base_forward_signals 40,41 -np 4 "$build/runner" serve "$out/chat.plan.yaml" --checkpoint \
    "$out/chat/checkpoints/latest" --listen 127.0.0.1:0 >"$log" 2>&1 </dev/null &
server=$!
until url=$(sed -n 's/^serving .* at \(http[^ ]*\): .*/\1/p' "$log") && [ -n "$url" ]; do
    if ! kill -0 "$server" 2>/dev/null; then
        cat "$log" >&2
        exit 3
    fi
    sleep 0.2
done
body='{"messages": [{"role": "system", "content": "You know capitals."}, {"role": "user", "content": "What is the capital of Norway?"}], "max_tokens": 32, "temperature": 0}'
address=${url#http://}
exec 3<>"/dev/tcp/${address%:*}/${address##*:}"
printf 'POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s' \
    "$address" "${#body}" "$body" >&3
echo "What is the capital of Norway?"
sed -n 's/.*"content": *"\([^"]*\)".*/\1/p' <&3
exec 3<&- 3>&-
stop
server=''

say "export: a model as Hugging Face has it"
"$build/runner" export "$out/chat/checkpoints/latest" "$out/exported"
(cd "$out/exported" && wc -c -- *)
echo "the checkpoint is in $out/chat/checkpoints, the model in $out/exported"
