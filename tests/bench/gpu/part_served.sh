# shellcheck shell=bash disable=SC2154,SC2317
# A part of gpu.sh, which sources this: a served model.

# served_runs MODEL: its times behind HTTP
served_runs() {
    local name=$1 batch prompt weights run server port=8917
    model "$name"
    attempt "random weights of $name" 60 "${report[@]}" model "$work/$name" "$hidden" "$intermediate" \
        "$layers" "$heads" "$kv_heads" "$head_dim" "$vocab" "$tied" || return
    : >"$work/served.md"
    for run in 1-512 1-4096 32-512 32-4096 1-512-int8 1-512-e4m3 32-512-int8 32-512-e4m3; do
        IFS=- read -r batch prompt weights <<<"$run"
        run=$name-served-$run
        emit "$run" "$name" cuda bf16 8192 4 1,1,1,1 "$steps" \
            "serve: {max_batch: $batch, max_tokens: $((prompt + 256)), prompt_tokens: $prompt, weights: ${weights:-auto}}" || continue
        attempt "what plan says of it" 20 sh -c "'$bin/plan' explain '$work/$run.yaml' --json >'$work/$run.json'" ||
            continue
        port=$((port + 1))
        timeout --kill-after=10 "$(time_for 120)" "$bin/runner" serve "$work/$run.plan.yaml" \
            --checkpoint "$work/$name" --model "$run" --listen "127.0.0.1:$port" \
            >"$work/$run.server" 2>&1 </dev/null &
        server=$!
        attempt "$name served, $batch texts, prompts of $prompt, weights in ${weights:-bf16}" 100 sh -c \
            "python3 tests/bench/gpu/served.py '$run' $port '$work/$run.json' $batch $prompt 192 >>'$work/served.md'" ||
            tail -5 "$work/$run.server" | sed 's/^/      /'
        kill "$server" 2>/dev/null
        wait "$server" 2>/dev/null
    done
    echo
    echo "Random weights, bf16 but for layers' where int8 or e4m3 is said; planned with the data sheet's figures: a first token behind others'"
    echo "prompts, a token with full caches."
    echo
    echo "| model | max_batch | prompt | sampling | first token, ms | planned | a token, ms | planned |"
    echo "| --- | --- | --- | --- | --- | --- | --- | --- |"
    cat "$work/served.md"
    echo
    rm -rf "${work:?}/$name"
}

part_served() {
    served_runs 1b-d128
}
