#!/usr/bin/env bash
# examples/finetune.sh, with weights and with adapters: both go through, and leave a model and its tokenizer.
#
#   test_finetune.sh BUILD [STEPS]     fewer steps than the example's; without STEPS all, which must be learnt from
set -uo pipefail
build=${1:?build folder} steps=${2:-}
out=$(mktemp -d) || exit 3
trap 'rm -rf "$out"' EXIT
for kind in whole lora; do
    arguments=()
    [ "$kind" = whole ] || arguments=(--lora)
    if ! SW_FINETUNE_BUILD=$build SW_FINETUNE_OUT=$out SW_FINETUNE_STEPS=${steps:-400} \
        bash examples/finetune.sh ${arguments[@]+"${arguments[@]}"} >"$out/log" 2>&1 </dev/null; then
        tail -n 30 "$out/log"
        exit 1
    fi
    for file in config.json model.safetensors.index.json tokenizer.json; do
        [ -s "$out/$kind/exported/$file" ] || {
            echo "$kind: exported/$file is not there"
            exit 1
        }
    done
    grep -q 'labels count' "$out/log" || {
        echo "$kind: runner data did not say what counts"
        exit 1
    }
    if [ -z "$steps" ] && ! grep -q '^Oslo is the capital of Norway' "$out/log"; then
        grep -A2 'ask it' "$out/log"
        exit 1
    fi
done
if [ -e "$out/whole/chat/checkpoints/latest/adapter_model.safetensors" ] ||
    [ ! -s "$out/lora/chat/checkpoints/latest/adapter_model.safetensors" ]; then
    echo "the checkpoints are not of weights and of adapters"
    exit 1
fi
