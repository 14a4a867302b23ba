# shellcheck shell=bash disable=SC2154,SC2317
# A part of gpu.sh, which sources this: PyTorch beside us.

# torch_runs MODEL...: each beside ours
torch_runs() {
    local name micro arguments
    # as if we were not there: what our folders hold is not for PyTorch's own libraries
    local -a peer=(env -u OPAL_PREFIX -u OPAL_PKGDATADIR -u OPAL_BINDIR -u LD_LIBRARY_PATH
        ${came_with:+LD_LIBRARY_PATH="$came_with"} python3)
    if ! "${peer[@]}" -c 'import torch' 2>/dev/null; then
        echo "- left out: python3 has no torch"
        return
    fi
    "${peer[@]}" -c 'import torch; print("PyTorch", torch.__version__, "cuDNN", torch.backends.cudnn.version())'
    for name in "$@"; do
        bench_run "$name" || continue
        model "$name"
        micro=$(sed -n 's/^ *micro_batch_size: *\([0-9]*\).*/\1/p' "$state/$name.plan.yaml" | head -1)
        arguments=(--hidden "$hidden" --intermediate "$intermediate" --layers "$layers" --heads "$heads"
            --kv-heads "$kv_heads" --head-dim "$head_dim" --vocab "$vocab" --sequence 8192 --batch 4
            --micro "${micro:-4}" --steps 10)
        [ "$tied" = true ] && arguments+=(--tied)
        attempt "$name in PyTorch" 240 sh -c "${peer[*]} tests/bench/gpu/torch_peer.py ${arguments[*]} \
            >'$work/$name.log'"
        # what was measured before it ran out of time counts
        grep '^{' "$work/$name.log" | tail -1 >"$work/$name.peer.json"
    done
    echo
    echo "| model | ours, ms | utilisation | PyTorch, ms | utilisation | PyTorch / ours | how |"
    echo "| --- | --- | --- | --- | --- | --- | --- |"
    for name in "$@"; do
        [ -s "$work/$name.peer.json" ] && "${report[@]}" peer "$state/$name.metrics.jsonl" \
            "$work/$name.peer.json" "$peak"
    done
}

part_torch() {
    torch_runs 1b-d128
}
