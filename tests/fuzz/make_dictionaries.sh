#!/usr/bin/env bash
# Writes the fuzzers' dictionaries: the keys and words of `plan schema`, and what YAML, quantities
# and a plan are made of. Run it after a key was added:
#
#   tests/fuzz/make_dictionaries.sh build/plan
set -euo pipefail
plan=$(realpath "${1:?the plan program}")
cd "$(dirname "$0")"

schemas() {
    local kind
    for kind in model accelerator profile curve cluster run plan; do "$plan" schema "$kind"; done
}

keys() {
    schemas | grep -oE '"[A-Za-z_0-9]+": \{' | cut -d'"' -f2 |
        grep -vE '^(additionalProperties|properties|items)$' | sort -u | sed 's/.*/"&: "/'
}

words() {
    schemas | grep -oE '"enum": \[[^]]*\]' | cut -d: -f2 | grep -oE '"[^"]+"' | sort -u
}

yaml() {
    cat <<'END'
"- "
": "
", "
"{"
"}"
"["
"]"
"|\x0a"
">-\x0a"
"&a "
"*a"
"<<: "
"!!str "
"? "
"# "
"---\x0a"
"...\x0a"
"%YAML 1.1\x0a"
"%%\x0a"
"1.yaml"
"2.yaml"
"main.yaml"
"\x09"
"\x0d\x0a"
"\xef\xbb\xbf"
"\xc2\x85"
"\xe2\x80\xa8"
"\\x1b"
"\\u0085"
"\\0"
"null"
"~"
"true"
"false"
".inf"
".nan"
"0x10"
"1e308"
"-1"
"9007199254740993"
" GB"
" GiB"
" GB/s"
" Gbit/s"
" TFLOP/s"
" us"
" \xc2\xb5s"
"[[1e9, 0.5]]"
"!1,-1,4,1"
"sp:2,tp:8,fsdp:-1,dp:1"
"../"
"/./"
"optimizer.learning_rate="
"cluster.accelerator.peak.bf16="
"rules.embed=[fsdp, sp]"
END
}

plan_words() {
    cat <<'END'
"# Written by 'plan emit'. The digest finds every change: edit the run file and emit again.\x0aschema: shardwright.plan/1\x0adigest: '"
"decision:\x0a"
"  mesh_dim: '1,1,1,1'\x0a"
"  axis_order: 'dp,fsdp,sp,tp'\x0a"
"  accumulation_steps: "
"  residual_seq: 'sp,tp'\x0a"
"prediction:\x0a"
"  step_seconds: "
"  memory_total: "
"  arena_bytes: "
"  save_seconds: "
"programs:\x0a  train: '0123456789abcdef'\x0a  evaluate: '0123456789abcdef'\x0a  save: '0123456789abcdef'\x0a"
"inputs: []\x0a"
"inputs:\x0a  - {digest: '0123456789abcdef', path: '../a%20b.yaml'}\x0a"
"run:\x0a"
"2147483647"
"9223372036854775807"
"%25"
"%0A"
END
}

{
    keys
    words
    yaml
} >fuzz_config.dict
{
    keys
    words
    plan_words
    yaml
} >fuzz_plan.dict
{
    schemas | grep -oE '"[A-Za-z_0-9]+": \{' | cut -d'"' -f2 |
        grep -vE '^(additionalProperties|properties|items)$' | sort -u | sed 's/.*/"&="/'
    words
    for word in model. cluster. cluster.accelerator. optimizer. rules. rules.embed= rules.heads= \
        rules.kv_heads= rules.mlp= rules.vocab= rules.batch= rules.seq= rules.residual_seq= \
        rules.attn_seq= rules.key_seq= rules.attn_heads= attention. precision. fsdp tp sp dp '[' ']' \
        ', ' 1,-1,4,1 sp:2,tp:8,fsdp:-1,dp:1 '!' auto 1073741824 4096 2147483647 ' GB' ' TB/s' ' us' \
        1e30 1e-300; do
        echo "\"$word\""
    done
} >fuzz_search.dict
{
    # columns of tables, lines of nccl-tests, keys of metrics
    for word in model d_model n_heads n_layers arch_notes gpu n_gpus seq_len micro_batch grad_accum \
        local_batch_seqs act_ckpt precision fp8 tok_s_gpu n_params pp dp fsdp tp sp_cp reduce \
        residual_seq collective payload_bytes gpus busbw_GBps all_reduce all_gather reduce_scatter \
        alltoall selective True vocab50368 mlp4x small a100_40gb bf16 sp+tp sum none inf nan 1e400 \
        1e-320 9223372036854775807; do
        echo "\"$word\""
    done
    cat <<'END'
"#  Rank  0\x0a"
"\"step\":"
"\"step_seconds\":"
"\""
","
"     1048576        262144     float     sum      -1    63.24   16.58   29.02      0\x0a"
END
} >fuzz_fit.dict
{
    for word in step memory limit tokens_per_second mfu communication communication_bytes headroom \
        accelerators duration accelerator_hours end run_hours money energy nodes time_limit partition mesh recompute verdict rejected 1,64,1,1 full fits old. GB GiB ms us min h days GPU-hours kWh USD EUR tokens/s GB/s '<=' '>=' '==' '!=' + - '*' / '(' ')' % +5% 0x10 1e308 ': '; do
        echo "\"$word\""
    done
} >fuzz_fail_if.dict
{
    for word in '{{' '}}' '{{name}}' '{{slurm.qos}}' '{{nodes}}' '#SBATCH --x=' '# '; do
        echo "\"$word\""
    done
    cat <<'END'
"\x0a%%\x0a"
"'"
"\""
"\\"
END
} >fuzz_template.dict
{
    cat <<'END'
"\"dtype\":\""
"\"shape\":["
"\"data_offsets\":["
"\"__metadata__\":{"
"F32"
"BF16"
"F16"
"F64"
"I64"
"U8"
"BOOL"
"F4"
"F8_E4M3"
"},"
"]"
"9223372036854775807"
"4294967296"
"\\u0000"
END
} >fuzz_safetensors.dict
{
    cat <<'END'
"\"weight_map\":{"
"\"metadata\":{"
"\"total_size\":"
".safetensors\""
".bin\""
"../"
"\\u001b"
"\\u0000"
"},"
END
} >fuzz_model_index.dict
{
    cat <<'END'
"\"peft_type\":\"LORA\""
"\"r\":4"
"\"lora_alpha\":8"
"\"target_modules\":["
"\"target_modules\":\"all-linear\""
"\"rank_pattern\":{"
"\"alpha_pattern\":{"
"\"layers_to_transform\":["
"\"exclude_modules\":"
"\"use_rslora\":true"
"\"bias\":\"none\""
"\"init_lora_weights\":"
"\"q_proj\""
"model.layers.0.self_attn.q_proj"
".*\\\\.q_proj"
"(?:"
"\\\\d+"
"[0-9]"
"null"
END
} >fuzz_adapter_config.dict
