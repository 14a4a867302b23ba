/* core/config: the values of every kind of description, their defaults, and every message about
 * them. */
#include "config_support.h"

#include <math.h>
#include <signal.h>

struct one {
    const char *text, *expected;
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void scalars(void **state)
{
    (void)state;
    static const struct one cases[] = {
        {"prefer: fdsp\n",
         "t:6:9: 'prefer' must be one of fsdp, fsdp-strict, time, cost, not 'fdsp'; "
         "did you mean 'fsdp'?\n"},
        {"prefer: quickly\n", "t:6:9: 'prefer' must be one of fsdp, fsdp-strict, time, cost, not "
                              "'quickly' | for example: prefer: fsdp\n"},
        {"prefer: [fsdp]\n",
         "t:6:9: 'prefer' must be one of fsdp, fsdp-strict, time, cost, not a list | "
         "for example: prefer: fsdp\n"},
        {"micro_batch_size: many\n", "t:6:19: 'micro_batch_size' must be an integer or 'auto', not "
                                     "the string 'many' | for example: "
                                     "micro_batch_size: auto\n"},
        {"micro_batch_size: -1\n", "t:6:19: 'micro_batch_size' must be at least 1, not -1 | for "
                                   "example: micro_batch_size: auto\n"},
        {"micro_batch_size: 1.5\n", "t:6:19: 'micro_batch_size' must be an integer or 'auto', not "
                                    "the number 1.5 | for example: "
                                    "micro_batch_size: auto\n"},
        {"micro_batch_size: 99999999999999999999\n",
         "t:6:19: 'micro_batch_size' must be at most 1073741824, not 99999999999999999999 | for "
         "example: micro_batch_size: auto\n"},
        {"micro_batch_size: {a: 1}\n",
         "t:6:19: 'micro_batch_size' must be an integer or 'auto', not a mapping | for example: "
         "micro_batch_size: auto\n"},
        {"mesh_dim: [1, 1]\n",
         "t:6:11: 'mesh_dim' must be a string, not a list | for example: mesh_dim: '1,64,1,1'\n"},
        {"mesh_dim: ''\n", "t:6:11: 'mesh_dim' must be 'auto' or a mesh, not '' | for example: "
                           "mesh_dim: '1,64,1,1'\n"},
        {"data: {holdout: 0.75}\n",
         "t:6:17: 'holdout' must be at most 0.5, not 0.75 | for example: holdout: 0.05\n"},
        {"data: {holdout: nan}\n",
         "t:6:17: 'holdout' must be a number, not the string 'nan' | for example: holdout: 0.05\n"},
        {"data: {holdout: '0.1'}\n",
         "t:6:17: 'holdout' must be a number, not the string '0.1' | write it without quotes\n"},
        {"data: {seed: -1}\n",
         "t:6:14: 'seed' must be 0 to 18446744073709551615, not -1 | for example: seed: 1\n"},
        {"data: {seed: 18446744073709551616}\n",
         "t:6:14: 'seed' must be 0 to 18446744073709551615, not 18446744073709551616 | for "
         "example: seed: 1\n"},
        {"data: {path: ''}\n",
         "t:6:14: 'path' is an empty path | for example: path: data/text.txt\n"},
        {"data: {path: {x: y}}\n",
         "t:6:14: 'path' must be a path or a list of paths, not a mapping | for example: path: "
         "data/text.txt\n"},
        {"data: {path: []}\n",
         "t:6:14: 'path' must be a path or a list of paths, not a list | for example: path: "
         "data/text.txt\n"},
        {"data: {path: [a, [b]]}\n",
         "t:6:18: 'path' must be a path or a list of paths, not a list | for example: path: "
         "data/text.txt\n"},
        {"data: {path: [a, '']}\n",
         "t:6:18: 'path' is an empty path | for example: path: data/text.txt\n"},
        {"data: {path: [a, b], weights: [1]}\n",
         "t:6:31: 'weights' has 1 number for 2 of 'path' | give one for each file or pattern of "
         "the list\n"},
        {"data: {path: a, weights: [1, 0]}\n",
         "t:6:30: a weight must be 1e-9 to 1e9, not 0 | for example: weights: [0.7, 0.3]\n"},
        {"data: {path: a, weights: [x]}\n",
         "t:6:27: 'weights' must be a number, not the string 'x' | for example: weights: [0.7, "
         "0.3]\n"},
        {"data: {path: a, weights: 1}\n",
         "t:6:26: 'weights' must be a list of numbers, not the number 1 | for example: weights: "
         "[0.7, 0.3]\n"},
        {"data: {path: a, holdout: 0.1, validation: b}\n",
         "t:6:43: 'validation' and 'holdout' both say what is evaluated | remove one of them\n"},
        {"data: {path: a, validation: 0.1}\n",
         "t:6:29: 'validation' names files, not a share of the data | use holdout: 0.1 for a "
         "share\n"},
        {"data: {path: a, pack: true, format: bytes}\n",
         "t:6:23: 'pack' needs documents, which data.format: bytes has not | make tokens and an "
         "index with 'runner tokenize'\n"},
        {"data: {path: a, pack: 1}\n",
         "t:6:23: 'pack' must be 'true' or 'false', not the number 1 | for example: pack: true\n"},
        {"data: x\n",
         "t:6:7: 'data' must be a mapping, not the string 'x' | for example: data: {path: "
         "data/text.txt, seed: 1}\n"},
        {"checkpoint: {keep: 0}\n",
         "t:6:20: 'keep' must be at least 1, not 0 | for example: keep: 3\n"},
        {"checkpoint: {keep_every: -1}\n",
         "t:6:26: 'keep_every' must be at least 0, not -1 | for example: keep_every: 1000\n"},
        {"memory_headroom: 150 %\n",
         "t:6:18: 'memory_headroom' must be at most 90 %, not 150 % | for example: "
         "memory_headroom: 5 %\n"},
        {"memory_headroom: 5\n", "t:6:18: 'memory_headroom' must be at most 0.9, not 5 | for "
                                 "example: memory_headroom: 5 %\n"},
        {"memory_headroom: -1 %\n",
         "t:6:18: 'memory_headroom' must be at least 0 %, not -1 % | for "
         "example: memory_headroom: 5 %\n"},
        {"memory_headroom: 4 GB\n", "t:6:18: 'memory_headroom' has the unknown unit 'GB' in '4 GB' "
                                    "| units: %\n"},
        {"memory_headroom: some\n", "t:6:18: 'memory_headroom' must be a percentage or a fraction, "
                                    "not the string 'some' | for "
                                    "example: memory_headroom: 5 %\n"},
        {"memory_headroom: 0 %\n", ""},
        {"memory_headroom: 12.5%\n", ""},
        {"memory_headroom: 0.125\n", ""},
        {"checkpoint: {bandwidth: fast}\n", "t:6:25: 'bandwidth' must be a bandwidth with a unit, "
                                            "not the string 'fast' | for example: "
                                            "bandwidth: 2 GB/s\n"},
        {"checkpoint: {signal: TERM}\n",
         "t:6:22: 'signal' must be one of USR1, USR2, not 'TERM' | for example: signal: USR1\n"},
        {"checkpoint: {signal: SIGUSR1}\n",
         "t:6:22: 'signal' must be one of USR1, USR2, not 'SIGUSR1' | for example: signal: USR1\n"},
        {"init: {from: ''}\n",
         "t:6:14: 'from' is an empty path | for example: from: ../models/Llama-3.1-8B\n"},
        {"init: {form: x}\n", "t:6:8: unknown key 'form'; did you mean 'from'?\n"},
        {"optimizer: {type: sgd}\n",
         "t:6:19: 'type' must be adamw, not 'sgd' | for example: type: adamw\n"},
        {"optimizer: {eps: 0}\n",
         "t:6:18: 'eps' must be more than 0, not 0 | for example: eps: 1.0e-8\n"},
        {"optimizer: {betas: 0.9}\n",
         "t:6:20: 'betas' must be a list of two numbers, not the number 0.9 | for example: betas: "
         "[0.9, 0.95]\n"},
        {"optimizer: {betas: [0.9]}\n",
         "t:6:20: 'betas' must be two numbers, not a list | for example: betas: [0.9, 0.95]\n"},
        {"optimizer: {betas: [0.9, 1]}\n",
         "t:6:26: a beta must be at least 0 and less than 1, not 1 | for example: betas: [0.9, "
         "0.95]\n"},
        {"optimizer: {warmup_steps: 11, total_steps: 10}\n",
         "t:6:27: 'warmup_steps' (11) is more than 'total_steps' (10) | use warmup_steps <= 10\n"},
        {"optimizer: {schedule: wsd, warmup_steps: 4, decay_steps: 7, total_steps: 10}\n",
         "t:6:58: 'decay_steps' (7) is more than 'total_steps' less 'warmup_steps' (6) | use "
         "decay_steps <= 6\n"},
        {"optimizer: {schedule: inverse_sqrt}\n",
         "t:6:23: schedule 'inverse_sqrt' needs a warm-up, and 'warmup_steps' is 0 | use "
         "warmup_steps >= 1, or another schedule\n"},
        {"optimizer: {learning_rate: 1e-4, min_learning_rate: 1e-3}\n",
         "t:6:53: 'min_learning_rate' (0.001) is more than 'learning_rate' (0.0001) | use "
         "min_learning_rate <= 0.0001\n"},
        {"rules: {seq: [sp, pp]}\n",
         "t:6:19: unknown mesh axis 'pp' | mesh axes: dp, fsdp, tp, sp, each at most once\n"},
        {"rules: {seq: [sp, sp]}\n", "t:6:19: the mesh axis 'sp' appears twice | mesh axes: dp, "
                                     "fsdp, tp, sp, each at most once\n"},
        {"rules: {seq: [[sp]]}\n", "t:6:15: a mesh axis must be a string, not a list | mesh axes: "
                                   "dp, fsdp, tp, sp, each at most "
                                   "once\n"},
        {"rules: {'a b': sp}\n",
         "t:6:9: 'a b' is not the name of a logical axis | for example: rules: "
         "{residual_seq: [sp, tp]}\n"},
        {"rules: [a]\n",
         "t:6:8: 'rules' must be a mapping, not a list | for example: rules: {residual_seq: [sp, "
         "tp]}\n"},
        {"rules: {a: , b: , c: , d: , e: , f: , g: , h: , i: , j: , k: , l: , m: , n: , o: , p: , "
         "q: }\n",
         "t:6:8: 17 rules; at most 16 are allowed | for example: rules: {residual_seq: [sp, "
         "tp]}\n"},
        {"presicion: {}\n", "t:6:1: unknown key 'presicion'; did you mean 'precision'?\n"},
        {"Prefer: fsdp\n", "t:6:1: unknown key 'Prefer'; did you mean 'prefer'?\n"},
        {"precision: {colour: red}\n",
         "t:6:13: unknown key 'colour' | known keys: compute, params, reduce, ring, keep_copy\n"},
        {"slurm: {time: 1:2:3:4}\n",
         "t:6:15: 'time' must be a time limit of Slurm (minutes, minutes:seconds, "
         "hours:minutes:seconds, days-hours, days-hours:minutes, days-hours:minutes:seconds or "
         "UNLIMITED), not '1:2:3:4' | for example: time: '24:00:00'\n"},
        {"slurm: {partition: 'a; rm -rf /'}\n",
         "t:6:20: 'partition' must be letters, digits and any of _ . , : = + @ / % - without "
         "spaces, "
         "not 'a; rm -rf /' | for example: partition: gpu\n"},
        {"slurm: {account: \"a\\nb\"}\n",
         "t:6:18: 'account' must be letters, digits and any of _ . , : = + @ / % - without spaces, "
         "not 'a\\x0ab' | for example: account: research\n"},
        {"slurm: {gpus_per_node: 'h100:0'}\n",
         "t:6:24: 'gpus_per_node' must be a number of GPUs or 'type:number', not 'h100:0' | for "
         "example: gpus_per_node: 'h100:8'\n"},
        {"slurm: {mem: 10 GB}\n", "t:6:14: 'mem' must be a whole number of megabytes, or a number "
                                  "with K, M, G or T, not '10 "
                                  "GB' | for example: mem: '0'\n"},
        {"slurm: {constraint: 'a b'}\n",
         "t:6:21: 'constraint' must be letters, digits and any of _ . , : = + @ / % - & | * [ ] ( "
         ") "
         "without spaces, not 'a b' | for example: constraint: 'a100&nvme'\n"},
        {"slurm: {exclusive: yes}\n", "t:6:20: 'exclusive' must be one of auto, true, false, user, "
                                      "mcs, not 'yes' | for example: "
                                      "exclusive: true\n"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[2048];
        snprintf(text, sizeof text, "%s%s", RUN_HEAD, cases[i].text);
        expect(SW_CONFIG_RUN, text, cases[i].expected);
    }
}

static void required_keys(void **state)
{
    (void)state;
    expect(SW_CONFIG_RUN, "\n{mesh_dim: auto, name: }\n",
           "t:2:1: missing key 'model' | for example: model: ../models/llama-7b.yaml\n"
           "t:2:1: missing key 'cluster' | for example: cluster: ../clusters/h100-8x8.yaml\n"
           "t:2:1: missing key 'sequence_length' | for example: sequence_length: 32768\n"
           "t:2:1: missing key 'global_batch_size' | for example: global_batch_size: 64\n"
           "t:2:24: 'name' has no value | for example: name: llama-7b-32k\n");
    expect(
        SW_CONFIG_RUN,
        "model: " MODEL "\ncluster: " CLUSTER "\nname: ../x\nsequence_length: 1\n"
        "global_batch_size: 1\n",
        "t:3:7: 'name' must be 1 to 64 letters, digits, '.', '_' or '-', starting with a letter, "
        "digit or '_', not '../x' | for example: name: llama-7b-32k\n");
}

static void models(void **state)
{
    (void)state;
#define M "vocab_size: 32\nintermediate_size: 8\nnum_hidden_layers: 1\n"
    static const struct one cases[] = {
        {M "hidden_size: 10\nnum_attention_heads: 4\n",
         "t:5:22: 'num_attention_heads' (4) does not divide 'hidden_size' (10) | give 'head_dim' "
         "where the heads are wider or narrower\n"},
        {M "hidden_size: 12\nnum_attention_heads: 4\n",
         "t:5:22: 'hidden_size' / 'num_attention_heads' is 3; a head must be even and at most "
         "65536 wide | give 'head_dim' where the heads are wider or narrower\n"},
        {M "hidden_size: 16\nnum_attention_heads: 4\nnum_key_value_heads: 3\n",
         "t:6:22: 'num_key_value_heads' (3) does not divide 'num_attention_heads' (4) | use a "
         "divisor of 4\n"},
        {M "hidden_size: 10\nnum_attention_heads: 4\nhead_dim: 5\n",
         "t:6:11: 'head_dim' must be even, not 5 | rotary positions turn pairs of elements\n"},
        {M "hiden_size: 16\nnum_attention_heads: 4\n",
         "t:4:1: unknown key 'hiden_size'; did you mean 'hidden_size'?\n"},
        {M "hidden_size: 16\nnum_attention_heads: 4\narchitectures: []\n",
         "t:6:16: 'architectures' is an empty list | for example: architectures: "
         "[LlamaForCausalLM]\n"},
        {M "hidden_size: 16\nnum_attention_heads: 4\nhidden_act: gelu\n",
         "t:6:13: 'hidden_act' must be one of silu, gelu_pytorch_tanh, not 'gelu' | for example: "
         "hidden_act: silu\n"},
        {M "hidden_size: 16\nnum_attention_heads: 4\nrope_theta: -1\n",
         "t:6:13: 'rope_theta' must be more than 0, not -1 | for example: rope_theta: 10000.0\n"},
        /* Outside a hub's file an unknown key stays a mistake. */
        {M "hidden_size: 16\nnum_attention_heads: 4\narchitectures: [LlamaForCausalLM]\nfoo: 1\n",
         "t:7:1: unknown key 'foo' | known keys: architectures, model_type, vocab_size, "
         "hidden_size, "
         "intermediate_size, num_hidden_layers, num_attention_heads, num_key_value_heads, "
         "head_dim, "
         "max_position_embeddings, rope_theta, original_max_position_embeddings, "
         "partial_rotary_factor, rope_parameters, rope_scaling, sliding_window, "
         "use_sliding_window, max_window_layers, layer_types, sliding_window_pattern, "
         "rope_local_base_freq, query_pre_attn_scalar, attn_logit_softcapping, "
         "final_logit_softcapping, hidden_activation, "
         "quantization_config, rms_norm_eps, initializer_range, tie_word_embeddings, hidden_act, "
         "attention_bias, mlp_bias, embedding_multiplier, attention_multiplier, "
         "residual_multiplier, logits_scaling\n"},
    };
#undef M
    for (size_t i = 0; i < COUNT(cases); i++)
        expect(SW_CONFIG_MODEL, cases[i].text, cases[i].expected);
}

static const char config_json[] =
    "{\n  \"architectures\": [\"LlamaForCausalLM\"],\n  \"attention_bias\": false,\n"
    "  \"attention_dropout\": 0.0,\n  \"bos_token_id\": 128000,\n  \"eos_token_id\": [1, 2],\n"
    "  \"hidden_act\": \"silu\",\n  \"hidden_size\": 4096,\n  \"initializer_range\": 0.02,\n"
    "  \"intermediate_size\": 14336,\n  \"max_position_embeddings\": 8192,\n"
    "  \"model_type\": \"llama\",\n  \"num_attention_heads\": 32,\n  \"num_hidden_layers\": 32,\n"
    "  \"num_key_value_heads\": 8,\n  \"pretraining_tp\": 1,\n  \"rms_norm_eps\": 1e-05,\n"
    "  \"rope_scaling\": null,\n  \"rope_theta\": 500000.0,\n  \"tie_word_embeddings\": false,\n"
    "  \"torch_dtype\": \"bfloat16\",\n  \"transformers_version\": \"4.40.0\",\n"
    "  \"use_cache\": true,\n  \"vocab_size\": 128256,\n  \"something_new\": {\"a\": [1]}\n}\n";

static void a_config_json_is_a_model(void **state)
{
    (void)state;
    struct sw_config *c = read_named("config.json", config_json, SW_CONFIG_UNKNOWN, NULL);
    char *got = report(c);
    assert_string_equal(got,
                        "config.json:1:1: note: ignored keys: attention_dropout, bos_token_id, "
                        "eos_token_id, pretraining_tp, torch_dtype, transformers_version, "
                        "use_cache, something_new\n");
    free(got);
    assert_int_equal(sw_config_error_count(c), 0);
    assert_int_equal(sw_config_get_kind(c), SW_CONFIG_MODEL);
    const struct sw_model *m = &sw_config_model(c)->shape;
    assert_non_null(m);
    assert_int_equal(m->kv_heads, 8);
    assert_int_equal(m->head_dim, 128);
    assert_true(m->rms_norm_eps == 1e-5 && m->rope.theta == 5e5);
    assert_null(sw_config_run(c));
    sw_config_free(c);

    /* A near miss of a key that is not there is a mistake even here. */
    expect(SW_CONFIG_MODEL,
           "{model_type: llama, vocab_size: 32, hiden_size: 16, intermediate_size: 8, "
           "num_hidden_layers: 1, num_attention_heads: 2, num_kv_heads: 2, hidden_sizes: 3}\n",
           "t:1:1: note: ignored keys: num_kv_heads\n"
           "t:1:37: unknown key 'hiden_size'; did you mean 'hidden_size'?\n"
           "t:1:138: unknown key 'hidden_sizes'; did you mean 'hidden_size'?\n");
}

static void accelerators(void **state)
{
    (void)state;
#define A "name: a\ndevice: cuda\nmemory_bandwidth: 3.35 TB/s\n"
#define P "peak: {fp32: 67 TFLOP/s}\n"
#define OLDER(key)                                                                                 \
    "'" key "' belongs in a profile, since it describes software; it is used only where the "      \
    "cluster has no profile: "
    static const struct one cases[] = {
        {A P "memory: 80 GX\n", "t:5:9: 'memory' has the unknown unit 'GX' in '80 GX' | units: B, "
                                "kB, MB, GB, TB, PB, KiB, "
                                "MiB, GiB, TiB\n"},
        {A P "memory: 80 GB/s\n",
         "t:5:9: 'memory' has the unknown unit 'GB/s' in '80 GB/s' | units: B, kB, MB, GB, TB, PB, "
         "KiB, MiB, GiB, TiB\n"},
        {A P "memory: lots\n",
         "t:5:9: 'memory' must be a size with a unit, not the string 'lots' | "
         "for example: memory: 80 "
         "GB\n"},
        {A P "memory: 0\n",
         "t:5:9: 'memory' must be at least 1, not 0 | for example: memory: 80 GB\n"},
        {A P "memory: 1e999\n", "t:5:9: 'memory' must be at most 9007199254740992, not 1e999 | for "
                                "example: memory: 80 GB\n"},
        {A P "memory: 1 GB\nreserved_memory: 1000 MB\n",
         "t:6:18: 'reserved_memory' leaves nothing of 'memory' | use less for reserved_memory; a "
         "number without a unit is bytes\n"},
        {A P "memory: 1 GB\nlaunch_latency: 3 min\n",
         "t:6:1: note: " OLDER("launch_latency") "move it there, or leave it out\n"
                                                 "t:6:17: 'launch_latency' has the unknown unit "
                                                 "'min' in '3 min' | units: s, ms, us, ns\n"},
        {A "memory: 1 GB\npeak: {bf16: 1 TFLOPS}\n",
         "t:5:7: missing key 'fp32' | for example: fp32: 67 TFLOP/s\n"
         "t:5:14: 'bf16' has the unknown unit 'TFLOPS' in '1 TFLOPS'; did you mean '1 TFLOP/s'? | "
         "units: FLOP/s, kFLOP/s, "
         "MFLOP/s, GFLOP/s, TFLOP/s, PFLOP/s, EFLOP/s\n"},
        {A P "memory: 1 GB\nefficiency: {memory: fast}\n",
         "t:6:1: note: " OLDER("efficiency") "move its keys to a file of their own and name that "
                                             "as the cluster's 'profile'\n"
                                             "t:6:22: 'memory' must be a fraction or a list of "
                                             "[size, fraction], not the string 'fast' | "
                                             "for example: memory: 0.64\n"},
        {A P "memory: 1 GB\nlaunch_latency: 3 us\n",
         "t:6:1: note: " OLDER("launch_latency") "move it there, or leave it out\n"},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        expect(SW_CONFIG_ACCELERATOR, cases[i].text, cases[i].expected);

    struct sw_config *c = read_named(
        "t",
        A P "memory: 80 GiB\nefficiency: {attention: [[1, 0.25], [2.5e9, 1]], source: me}\n"
            "launch_latency: 3 us\n",
        SW_CONFIG_UNKNOWN, NULL);
    const struct sw_accelerator_config *a = sw_config_accelerator(c);
    assert_non_null(a);
    assert_int_equal(a->device, SW_DEVICE_CUDA);
    assert_int_equal(a->memory_bytes, INT64_C(80) << 30);
    assert_true(a->peak_bf16_flops == 67e12 && a->memory_bandwidth == 3.35e12);
    assert_true(a->older.launch_latency_s == 3e-6);
    assert_int_equal(a->older.attention.count, 2);
    assert_true(a->older.attention.point[1].size == 2.5e9 &&
                a->older.attention.point[0].fraction == 0.25);
    assert_int_equal(a->older.matmul.count, 0);
    sw_config_free(c);
#undef A
#undef P
}

static void clusters(void **state)
{
    (void)state;
#define C "name: c\nnodes: 2\naccelerators_per_node: 4\naccelerator: " ACCELERATOR "\n"
#define L "links: [{name: a, spans: 8, bandwidth: 1 GB/s, latency: 1 us}]\n"
    static const struct one cases[] = {
        {C, "t:1:1: 8 accelerators need at least one entry in 'links' | for example: links: "
            "[{name: nvlink, spans: node, bandwidth: 450 GB/s, latency: 3 us}, {name: infiniband, "
            "spans: all, bandwidth: 400 Gb/s, latency: 6 us}]\n"},
        {C L "host_memory: 0\n",
         "t:6:14: 'host_memory' must be more than 0, not 0 | for example: host_memory: 2 TB\n"},
        {C L "storage: {bandwidth: 0}\n",
         "t:6:22: 'bandwidth' must be more than 0, not 0 | for example: bandwidth: 10 GB/s\n"},
        {C L "reliability: {failures_per_1000_node_days: -1}\n",
         "t:6:44: 'failures_per_1000_node_days' must be at least 0, not -1 | for example: "
         "failures_per_1000_node_days: 3.8\n"},
        {C L "host_memory: 2 TB\nstorage: {bandwidth: 10 GB/s}\n"
             "reliability: {failures_per_1000_node_days: 0}\n",
         ""},
        {C "links:\n- {name: a, spans: 4, bandwidth: 1 GB/s, latency: 1 us}\n",
         "t:6:20: the outermost link spans 4 of 8 accelerators (2 nodes of 4) | add a link that "
         "joins the nodes, for example: {name: infiniband, spans: all, bandwidth: 400 Gb/s, "
         "latency: 6 us}\n"},
        {C "links:\n- {name: a, spans: 6, bandwidth: 1 GB/s, latency: 1 us}\n",
         "t:6:20: the outermost link spans 6 of 8 accelerators (2 nodes of 4) | write 'spans: "
         "all', which follows the size of the cluster\n"},
        {C "links:\n- {name: a, spans: 8, bandwidth: 1 GB/s, latency: 1 us}\n"
           "- {name: b, spans: 8, bandwidth: 1 GB/s, latency: 1 us}\n",
         "t:7:20: 'spans' must ascend from link to link: 8 comes after 8 | write the links "
         "innermost "
         "first\n"},
        {C "links:\n- {name: a, spans: 8, bandwidth: 80 GX, latency: 1 us}\n- 3\n",
         "t:6:34: 'bandwidth' has the unknown unit 'GX' in '80 GX' | units: B/s, kB/s, MB/s, GB/s, "
         "TB/s, PB/s, KiB/s, MiB/s, GiB/s, TiB/s; in bits: Mb/s, Gb/s, Tb/s, Mbit/s, Gbit/s, "
         "Tbit/s\n"
         "t:7:3: 'links' must be a list of mappings, not the number 3 | for example: links: "
         "[{name: nvlink, spans: node, bandwidth: 450 GB/s, latency: 3 us}, {name: infiniband, "
         "spans: all, bandwidth: 400 Gb/s, latency: 6 us}]\n"},
        {C "links: [{name: a, spans: all, latency: 1 us}]\n",
         "t:5:9: missing key 'bandwidth' or 'bandwidth_per_node' | write 'bandwidth', what one "
         "accelerator sends in one direction, or 'bandwidth_per_node', what all of a node send "
         "together\n"},
        {C "links: [{name: a, spans: all, bandwidth: 1 GB/s, bandwidth_per_node: 4 GB/s, latency: "
           "1 us}]\n",
         "t:5:70: 'bandwidth' and 'bandwidth_per_node' say the same; give one of them | write "
         "'bandwidth', what one accelerator sends in one direction, or 'bandwidth_per_node', what "
         "all of a node send together\n"},
        {C "links: [{name: a, spans: all, bandwidth_per_nodes: 4 GB/s, latency: 1 us}]\n",
         "t:5:31: unknown key 'bandwidth_per_nodes'; did you mean 'bandwidth_per_node'?\n"},
        {C "links: [{name: a, spans: alle, bandwidth: 4 GB/s, latency: 1 us}]\n",
         "t:5:26: 'spans' must be an integer, 'node' or 'all', not the string 'alle'; did you mean "
         "'all'?\n"},
        {C "links:\n- {name: a, spans: all, bandwidth: 1 GB/s, latency: 1 us}\n"
           "- {name: b, spans: node, bandwidth: 1 GB/s, latency: 1 us}\n",
         "t:7:20: 'spans' must ascend from link to link: 4 comes after 8 | write the links "
         "innermost first\n"},
        {C "links: [a, b, c, d, e, f, g, h, i]\n",
         "t:5:8: 9 links; at most 8 are allowed | for example: links: [{name: nvlink, spans: node, "
         "bandwidth: 450 GB/s, latency: 3 us}, {name: infiniband, spans: all, bandwidth: 400 Gb/s, "
         "latency: 6 us}]\n"},
    };
#undef L
#undef C
    for (size_t i = 0; i < COUNT(cases); i++)
        expect(SW_CONFIG_CLUSTER, cases[i].text, cases[i].expected);
}

/* Words follow the cluster's size, whatever sets it; a link that joins nothing more goes. */
static void links_in_words(void **state)
{
    (void)state;
    static const char text[] =
        "name: r\nmodel: " MODEL "\ncluster: {name: c, nodes: 8, accelerators_per_node: 4, "
        "accelerator: " ACCELERATOR
        ", links: [{name: in, spans: node, bandwidth: 80 GB/s, latency: "
        "1 us}, {name: leaf, spans: 16, bandwidth: 400 Gb/s, latency: 1 us}, {name: out, spans: "
        "all, bandwidth_per_node: 0.8 Tb/s, latency: 1 us}]}\nsequence_length: 128\n"
        "global_batch_size: 8\n";
    static const struct {
        const char *sets[5];
        int32_t links, spans[4];
        double bandwidth[4];
    } cases[] = {
        {{NULL}, 3, {4, 16, 32}, {80e9, 50e9, 25e9}},
        {{"cluster.nodes=128", NULL}, 3, {4, 16, 512}, {80e9, 50e9, 25e9}},
        {{"cluster.accelerators_per_node=8", NULL}, 3, {8, 16, 64}, {80e9, 50e9, 12.5e9}},
        {{"cluster.links.leaf.bandwidth=100 Gb/s", "cluster.links.0.spans=2", NULL},
         3,
         {2, 16, 32},
         {80e9, 12.5e9, 25e9}},
        {{"cluster.links.out={name: far, spans: all, bandwidth: 1 GB/s, latency: 1 us}", NULL},
         3,
         {4, 16, 32},
         {80e9, 50e9, 1e9}},
        {{"cluster.nodes=4",
          "cluster.links.new={name: new, spans: all, bandwidth: 3 GB/s, latency: 1 us}",
          "cluster.links.out.spans=8", "cluster.links.leaf.spans=6", NULL},
         4,
         {4, 6, 8, 16},
         {80e9, 50e9, 25e9, 3e9}},
        {{"cluster.links.leaf.bandwidth_per_node=8 GB/s", "cluster.links.out.bandwidth=1 GB/s",
          NULL},
         3,
         {4, 16, 32},
         {80e9, 2e9, 1e9}},
        {{"cluster.nodes=4", NULL}, 2, {4, 16}, {80e9, 50e9}},
        {{"cluster.nodes=1", NULL}, 2, {4, 16}, {80e9, 50e9}},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct sw_config *c = read_named("t", text, SW_CONFIG_RUN, cases[i].sets);
        const struct sw_run_config *run = sw_config_run(c);
        assert_non_null(run);
        assert_int_equal(run->cluster.link_count, cases[i].links);
        for (int32_t l = 0; l < cases[i].links; l++) {
            assert_int_equal(run->cluster.link[l].spans, cases[i].spans[l]);
            assert_true(run->cluster.link[l].bandwidth == cases[i].bandwidth[l]);
            assert_true(run->cluster.link[l].bandwidth_per_node == 0);
            assert_int_equal(run->cluster.link[l].spans_all, l == (cases[i].links > 3 ? 3 : 2));
        }
        sw_config_free(c);
    }
}

static void links_that_are_not_there(void **state)
{
    (void)state;
    static const struct {
        const char *set, *expected;
    } cases[] = {
        {"cluster.links.inner.bandwidth=1 GB/s",
         "--set:1:15: 'links' has no 'inner' | it has: a, b\n"},
        {"cluster.links.inner={name: other, spans: all, bandwidth: 1 GB/s, latency: 1 us}",
         "--set:1:15: 'links' has no 'inner' | it has: a, b\n"},
        {"cluster.links.2.bandwidth=1 GB/s", "--set:1:15: 'links' has no '2' | it has: a, b\n"},
        {"cluster.links.a.bandwith=1 GB/s",
         "--set:1:17: unknown key 'bandwith'; did you mean 'bandwidth'?\n"},
        {"cluster.links.a.bandwidth.x=1 GB/s",
         "--set:1:17: 'bandwidth' has no keys inside | set it as a whole: --set "
         "cluster.links.a.bandwidth=...\n"},
        {"cluster.links.a.spans=0",
         "--set:1:23: 'spans' must be at least 1, not 0 | for example: spans: node\n"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *const sets[] = {cases[i].set, NULL};
        expect_named(
            "t", SW_CONFIG_RUN,
            "name: r\nmodel: " MODEL "\ncluster: {name: c, nodes: 2, "
            "accelerators_per_node: 4, accelerator: " ACCELERATOR
            ", links: [{name: a, spans: node, bandwidth: 2 GB/s, latency: 1 us}, {name: b, "
            "spans: all, bandwidth: 1 GB/s, latency: 1 us}]}\nsequence_length: 128\n"
            "global_batch_size: 8\n",
            sets, cases[i].expected);
    }
    const char *const sets[] = {"cluster.links.a.spans=1", NULL};
    expect_named(
        "t", SW_CONFIG_RUN, RUN_HEAD, sets,
        "--set:1:15: 'links' has no 'a' | for example: links: [{name: nvlink, spans: node, "
        "bandwidth: 450 GB/s, latency: 3 us}, {name: infiniband, spans: all, bandwidth: 400 "
        "Gb/s, latency: 6 us}]\n");
}

static void slurm_texts_that_are_fine(void **state)
{
    (void)state;
    static const char *const fine[] = {"time: 90",
                                       "time: 1:30",
                                       "time: 24:00:00",
                                       "time: 2-12",
                                       "time: 2-12:30",
                                       "time: 2-12:30:15",
                                       "time: UNLIMITED",
                                       "gpus_per_node: 8",
                                       "gpus_per_node: a:1,b:2",
                                       "mem: 0",
                                       "mem: 64G",
                                       "partition: a,b",
                                       "constraint: a&b|c",
                                       "exclusive: true",
                                       "cpus_per_task: 2",
                                       "account: 1234",
                                       "qos: high@site.org"};
    static const char *const wrong[] = {"time: ''",
                                        "time: '1:'",
                                        "time: ':1'",
                                        "time: '1-'",
                                        "time: '-1'",
                                        "time: 1 day",
                                        "time: '1:234'",
                                        "gpus_per_node: ':8'",
                                        "gpus_per_node: 'a:'",
                                        "gpus_per_node: a",
                                        "gpus_per_node: 8,",
                                        "mem: G",
                                        "partition: -x",
                                        "partition: $(id)",
                                        "qos: a`b`",
                                        "account: \"a\\\"b\"",
                                        "reservation: a'b",
                                        "constraint: a;b"};
    char text[2048];
    for (size_t i = 0; i < COUNT(fine); i++) {
        snprintf(text, sizeof text, "%sslurm:\n  %s\n", RUN_HEAD, fine[i]);
        expect(SW_CONFIG_RUN, text, "");
    }
    for (size_t i = 0; i < COUNT(wrong); i++) {
        snprintf(text, sizeof text, "%sslurm:\n  %s\n", RUN_HEAD, wrong[i]);
        struct sw_config *c = read_named("t", text, SW_CONFIG_RUN, NULL);
        if (sw_config_error_count(c) != 1)
            print_error("accepted: %s\n", wrong[i]);
        assert_int_equal(sw_config_error_count(c), 1);
        sw_config_free(c);
    }
}

static void slurm_times_in_seconds(void **state)
{
    (void)state;
    static const struct {
        const char *time;
        double seconds;
    } cases[] = {
        {"90", 5400},     {"1:30", 90},           {"24:00:00", 86400}, {"0:00:01", 1},
        {"2-12", 216000}, {"2-12:30", 217800},    {"2-0:0:5", 172805}, {"UNLIMITED", INFINITY},
        {"0", INFINITY},  {"INFINITE", INFINITY}, {NULL, INFINITY}};
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_true(sw_slurm_time_seconds(cases[i].time) == cases[i].seconds);
}

static void defaults_of_a_run(void **state)
{
    (void)state;
    struct sw_config *c = read_named("some/dir/t.yaml", RUN_HEAD, SW_CONFIG_UNKNOWN, NULL);
    const struct sw_run_config *r = sw_config_run(c);
    assert_non_null(r);
    assert_int_equal(sw_config_get_kind(c), SW_CONFIG_RUN);
    assert_string_equal(r->mesh_dim, "auto");
    assert_int_equal(r->mesh_dim_place.line, 0);
    assert_string_equal(r->mesh_dim_place.file, "some/dir/t.yaml");
    assert_int_equal(r->batch_place.line, 5);
    assert_int_equal(r->batch_place.column, 20);
    assert_int_equal(r->prefer, SW_PREFER_FSDP);
    assert_true(r->memory_headroom == 0.05);
    assert_int_equal(r->micro_batch_size, 0);
    assert_true(r->recompute_auto);
    assert_int_equal(r->compute, SW_BF16_T);
    assert_int_equal(r->params, SW_F32);
    assert_int_equal(r->reduce, SW_F32);
    assert_int_equal(r->strategy, SW_ATTENTION_RING);
    assert_int_equal(r->layout, SW_ZIGZAG);
    assert_int_equal(r->optimizer.schedule, SW_SCHEDULE_COSINE);
    assert_true(r->optimizer.beta1 == 0.9 && r->optimizer.beta2 == 0.95);
    assert_true(r->optimizer.learning_rate == 3e-4 && r->optimizer.eps == 1e-8);
    assert_int_equal(r->optimizer.total_steps, 1000);
    assert_null(r->data_path);
    assert_int_equal(r->data_seed, 1);
    assert_string_equal(r->directory, "some/dir/runs/r");
    assert_string_equal(r->checkpoint_directory, "some/dir/runs/r/checkpoints");
    assert_int_equal(r->checkpoint_keep, 3);
    assert_int_equal(r->checkpoint_every_steps, -1);
    assert_int_equal(r->checkpoint_keep_every, 0);
    assert_true(r->checkpoint_bandwidth == 0);
    assert_int_equal(r->checkpoint_signal, SIGUSR1);
    assert_null(r->init_from);
    assert_true(r->cluster.host_memory_bytes == 0 && r->cluster.storage_bandwidth == 0);
    assert_true(r->cluster.failures_per_1000_node_days == 3.8);
    assert_string_equal(sw_scheduler_of(&r->cluster)->name, "slurm");
    assert_null(sw_slurm_settings(&r->cluster)->partition);
    assert_int_equal(r->model.shape.kv_heads, 4);
    assert_int_equal(r->model.shape.head_dim, 16);
    assert_true(r->model.shape.rope.theta == 1e4 && r->model.shape.initializer_range == 0.02);
    assert_int_equal(r->model.shape.max_position_embeddings, 2048);
    sw_config_free(c);
}

static void slurm_settings_of_the_run_win(void **state)
{
    (void)state;
    struct sw_config *c =
        read_named("t",
                   "slurm: {time: '5', exclusive: false}\nname: r\nmodel: " MODEL
                   "\nsequence_length: 1\nglobal_batch_size: 1\ncluster: {name: c, nodes: 1, "
                   "accelerators_per_node: 1, accelerator: " ACCELERATOR
                   ", slurm: {time: '9', partition: p, exclusive: true}}\n",
                   SW_CONFIG_RUN, NULL);
    const struct sw_run_config *r = sw_config_run(c);
    assert_non_null(r);
    assert_string_equal(sw_slurm_settings(&r->cluster)->time, "5");
    assert_string_equal(sw_slurm_settings(&r->cluster)->partition, "p");
    assert_int_equal(sw_slurm_settings(&r->cluster)->exclusive, SW_EXCLUSIVE_NO);
    sw_config_free(c);
}

static void overrides(void **state)
{
    (void)state;
    static const char *const good[] = {"global_batch_size=64",
                                       "slurm.time=2:00:00",
                                       "mesh_dim=!1,-1,4,1",
                                       "optimizer={betas: [0.5, 0.75]}",
                                       "cluster.accelerator.memory=3 GB",
                                       "rules.residual_seq=[sp, tp]",
                                       "data.path= x/y.bin ",
                                       NULL};
    struct sw_config *c = read_named("dir/t", RUN_HEAD, SW_CONFIG_RUN, good);
    char *got = report(c);
    assert_string_equal(got, "");
    free(got);
    const struct sw_run_config *r = sw_config_run(c);
    assert_int_equal(r->global_batch_size, 64);
    assert_string_equal(r->batch_place.file, "--set");
    assert_int_equal(r->batch_place.column, 19);
    assert_string_equal(sw_slurm_settings(&r->cluster)->time, "2:00:00");
    assert_string_equal(r->mesh_dim, "!1,-1,4,1");
    assert_true(r->optimizer.beta2 == 0.75);
    assert_int_equal(r->cluster.accelerator.memory_bytes, 3000000000);
    assert_int_equal(r->rule_count, 1);
    assert_string_equal(r->rule[0].axis[1], "tp");
    assert_string_equal(r->data_path, "x/y.bin"); /* relative to where the command runs */
    sw_config_free(c);

    static const struct one cases[] = {
        {"foo", "--set:1:1: 'foo' is not 'key=value' | for example: --set "
                "optimizer.learning_rate=1e-4\n"},
        {"=1", "--set:1:1: '=1' is not 'key=value' | for example: --set "
               "optimizer.learning_rate=1e-4\n"},
        {"slurm.tme=1", "--set:1:7: unknown key 'tme'; did you mean 'time'?\n"},
        {"model.hidden_siz=1",
         "--set:1:7: unknown key 'hidden_siz'; did you mean 'hidden_size'?\n"},
        {"precision.\xc3\xa9=1", "--set:1:11: unknown key '\xc3\xa9' | known keys: compute, "
                                 "params, reduce, ring, keep_copy\n"},
        {"name.x=1", "--set:1:1: 'name' has no keys inside | set it as a whole: --set name=...\n"},
        {"rules.a.b=1", "--set:1:7: 'a' has no keys inside | set it as a whole: --set KEY=VALUE\n"},
        {"global_batch_size=x",
         "--set:1:19: 'global_batch_size' must be an integer, not the string 'x' | for example: "
         "global_batch_size: 64\n"},
        {"optimizer.betas=[0.9, ",
         "--set:1:23: not valid YAML: did not find expected node content | check the quotes, "
         "brackets and indentation before this place\n"},
        {"rules={a: [sp, sp]}",
         "--set:1:16: the mesh axis 'sp' appears twice | mesh axes: dp, fsdp, tp, sp, each at most "
         "once\n"},
        {"model=nowhere.yaml", "--set:1:7: cannot open 'nowhere.yaml': no such file | a path after "
                               "--set is relative to the working directory\n"},
        {"model.vocab_size=1",
         "--set:1:18: 'vocab_size' must be at least 2, not 1 | for example: vocab_size: 32000\n"},
        {"name=\xff",
         "--set:1:6: not UTF-8 text (byte 0xff) | descriptions are plain UTF-8 text\n"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *const sets[] = {cases[i].text, NULL};
        expect_named("t", SW_CONFIG_RUN, RUN_HEAD, sets, cases[i].expected);
    }
}

static void quantities(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        char dimension;
        double value;
    } good[] = {{"80 GB", 'B', 80e9}, {"80GB", 'B', 80e9},          {"1.5 KiB", 'B', 1536},
                {"17", 'B', 17},      {"2.5 TB/s", 'b', 2.5e12},    {"400 Gbit/s", 'b', 50e9},
                {"3 us", 's', 3e-6},  {"3 \xc2\xb5s", 's', 3e-6},   {"1e-3", 's', 1e-3},
                {"5 ns", 's', 5e-9},  {"989 TFLOP/s", 'f', 989e12}, {".5 PFLOP/s", 'f', 5e14},
                {"-2 MB", 'B', -2e6}};
    for (size_t i = 0; i < COUNT(good); i++) {
        double value = 0;
        struct sw_error err = {0};
        assert_int_equal(sw_quantity_parse(good[i].text, good[i].dimension, &value, &err), 0);
        assert_true(value == good[i].value);
    }
    static const struct {
        const char *text;
        char dimension;
        const char *message;
    } bad[] = {
        {"80 GX", 'B',
         "unknown unit 'GX' in '80 GX'; units: B, kB, MB, GB, TB, PB, KiB, MiB, GiB, TiB"},
        {"3 S", 's', "unknown unit 'S' in '3 S'; units: s, ms, us, ns"},
        {"", 's', "'' is not a number with a unit; units: s, ms, us, ns"},
        {"inf", 's', "'inf' is not a number with a unit; units: s, ms, us, ns"},
        {"0x10", 's', "unknown unit 'x10' in '0x10'; units: s, ms, us, ns"},
        {"1e308 TB", 'B', "'1e308 TB' is too large"},
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        double value = 0;
        struct sw_error err = {0};
        assert_int_equal(sw_quantity_parse(bad[i].text, bad[i].dimension, &value, &err), -1);
        assert_string_equal(err.message, bad[i].message);
        assert_int_equal(err.status, SW_BAD_INPUT);
    }
}

/* Whatever their digits and exponents, to the bit. */
static void numbers_are_those_of_strtod(void **state)
{
    (void)state;
    uint64_t random = 1;
    for (int32_t i = 0; i < 200000; i++) {
        char text[64];
        double value = 0;
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        const int digits = 1 + (int)(random >> 59) % 20, behind = (int)(random >> 40) % 12;
        const double size = (double)(random >> 11) * pow(10, digits - 16);
        const int power = (int)(random >> 20) % 61 - 30;
        const char *const forms[] = {"%.*f", "%.*fe%d", "-%.*fE%+d", "+%.*fe%03d"};
        snprintf(text, sizeof text, forms[i % 4], behind, size, power);
        assert_int_equal(sw_quantity_parse(text, 's', &value, NULL), 0);
        const double expected = strtod(text, NULL);
        assert_memory_equal(&value, &expected, sizeof value);
    }
    static const char *const edges[] = {"9007199254740992",
                                        "9007199254740993",
                                        "9007199254740991e22",
                                        "0.1",
                                        "-0",
                                        "-.0e9",
                                        "0e99",
                                        "1e22",
                                        "1e23",
                                        "1e-22",
                                        "1e-23",
                                        "00000000000000000000001.50",
                                        "5e-324",
                                        "4.e1",
                                        "1e007"};
    for (size_t i = 0; i < COUNT(edges); i++) {
        double value = 1;
        assert_int_equal(sw_quantity_parse(edges[i], 's', &value, NULL), 0);
        const double expected = strtod(edges[i], NULL);
        assert_memory_equal(&value, &expected, sizeof value);
    }
}

#define PLAN_HEAD                                                                                  \
    "schema: shardwright.plan/1\ndigest: 'fedcba9876543210'\n"                                     \
    "programs: {train: '0000000000000010', evaluate: '0000000000000011', save: "                   \
    "'0000000000000012'}\nprediction: "                                                            \
    "{step_seconds: 1e-05, memory_total: 2, "                                                      \
    "arena_bytes: 1}\ndecision: {mesh_dim: '1,2,3,4', axis_order: 'dp,fsdp,sp,tp', "               \
    "micro_batch_size: 1, accumulation_steps: 1,\n  recompute: full, strategy: ring, layout: "     \
    "zigzag, residual_seq: 'sp,tp'}\ninputs: [{digest: '000000000000000f', path: "                 \
    "'../a%25b %27c%27%0'}, {digest: '0000000000000001', path: '%00'}]\n"

#define SETTLED_CLUSTER                                                                            \
    "{name: c, nodes: 1, accelerators_per_node: 1, accelerator: " ACCELERATOR                      \
    ", profile: {name: default}}"

static void notes(void **state)
{
    (void)state;
    expect(SW_CONFIG_RUN,
           RUN_HEAD "recompute: attention\nprecision: {compute: bf16,\n  params: bf16}\n",
           "t:6:12: note: 'recompute: attention' is an old name for the values before attention; "
           "write the values that 'plan search' prints\n"
           "t:8:11: note: 'params: bf16' keeps no fp32 weights: updates below 2^-9 of a weight "
           "vanish; use params: fp32\n");
    expect(SW_CONFIG_RUN, RUN_HEAD "precision: {keep_copy: true, compute: bf16}\n", "");
    expect(SW_CONFIG_RUN, RUN_HEAD "zero: 1\n", "");
    expect(SW_CONFIG_RUN, RUN_HEAD "precision: {keep_copy: true, compute: bf16}\nzero: 2\n",
           "t:6:24: note: 'keep_copy' has no effect with zero: 1 or 2 or reshard_after_forward: "
           "false, which keep weights in 'compute' already; remove it\n");
    expect(SW_CONFIG_RUN, RUN_HEAD "zero: auto\nreshard_after_forward: true\n", "");
    expect(SW_CONFIG_RUN, RUN_HEAD "reshard_after_forward: false\n", "");
    expect(SW_CONFIG_RUN, RUN_HEAD "reshard_after_forward: false\nzero: 2\n",
           "t:6:24: 'reshard_after_forward: false' needs zero: 3, where weights are gathered layer "
           "by layer | leave it out, or use zero: 3\n");
    expect(SW_CONFIG_RUN, RUN_HEAD "precision: {keep_copy: true, compute: fp32}\n",
           "t:6:24: note: 'keep_copy' has no effect here: it keeps a bf16 copy of fp32 weights; "
           "remove it, or use compute: bf16 and params: fp32\n");
    expect(SW_CONFIG_RUN, RUN_HEAD "recompute: before_attention\n",
           "t:6:12: note: 'recompute: before_attention' is an old name for the values before "
           "attention; write the values that 'plan search' prints\n");
}

/* "n1 h", "all" */
static void assert_values(const struct sw_values_config *values, const char *wanted)
{
    char text[64] = "";
    for (int32_t i = 0; i < values->count; i++) {
        assert_int_equal(values->of[i].place.line, 6);
        strcat(strcat(text, i > 0 ? " " : ""), values->of[i].name);
    }
    assert_string_equal(values->all ? "all" : text, wanted);
}

static void read_recompute(const char *text, const char *values, int32_t layers, const char *rest)
{
    char run[512];
    snprintf(run, sizeof run, "%srecompute: %s\n", RUN_HEAD, text);
    struct sw_config *c = read_named("t", run, SW_CONFIG_RUN, NULL);
    const struct sw_run_config *r = sw_config_run(c);
    assert_non_null(r);
    assert_int_equal(sw_config_error_count(c), 0);
    assert_int_equal(r->recompute_auto, strcmp(text, "auto") == 0);
    assert_values(&r->recompute.values, values);
    assert_int_equal(r->recompute.layers, layers);
    assert_values(&r->recompute.rest, rest);
    sw_config_free(c);
}

static void recompute(void **state)
{
    (void)state;
    read_recompute("auto", "", 0, "");
    read_recompute("none", "", 0, "");
    read_recompute("full", "all", SW_ALL_LAYERS, "");
    read_recompute("{values: [h, n1], layers: 3}", "h n1", 3, "");
    read_recompute("{layers: 3, rest: [n1, h]}", "all", 3, "n1 h");
    read_recompute("{values: [h, any]}", "h any", SW_ALL_LAYERS, "");
    read_recompute("{layers: 3}", "all", 3, "");
    read_recompute("{values: all, layers: all}", "all", SW_ALL_LAYERS, "");
    read_recompute("{values: []}", "", SW_ALL_LAYERS, "");
    expect(SW_CONFIG_RUN, RUN_HEAD "recompute: ful\n",
           "t:6:12: 'recompute' must be none, full, auto or {values: [...], layers: ...}, not "
           "'ful'; did you mean 'full'?\n");
    expect(SW_CONFIG_RUN, RUN_HEAD "recompute: some\n",
           "t:6:12: 'recompute' must be none, full, auto or {values: [...], layers: ...}, not "
           "'some' | for example: recompute: {values: [n1, n2, h], layers: 8}\n");
    expect(SW_CONFIG_RUN, RUN_HEAD "recompute: {layers: 3, rest: n1}\n",
           "t:6:30: 'rest' must be 'all' or a list of values, not the string 'n1' | for example: "
           "rest: [n1]\n");
    expect(SW_CONFIG_RUN, RUN_HEAD "recompute: [n1]\n",
           "t:6:12: 'recompute' must be a word or a mapping, not a list | for example: recompute: "
           "{values: [n1, n2, h], layers: 8}\n");
    expect(SW_CONFIG_RUN, RUN_HEAD "recompute: {values: [n1, [h], g], layers: 0, layer: 3}\n",
           "t:6:26: a value of a layer must be a name, not a list | for example: values: [n1, n2, "
           "h]\n"
           "t:6:43: 'layers' must be 'all' or a number of layers, at least 1, not the number 0 | "
           "for example: layers: 8\n"
           "t:6:46: unknown key 'layer' | recompute: {values: [n1, n2, h], layers: 8}\n");
    expect(SW_CONFIG_RUN, RUN_HEAD "recompute: {values: n1}\n",
           "t:6:21: 'values' must be 'all' or a list of values, not the string 'n1' | for example: "
           "values: [n1, n2, h]\n");
}

/* What is allowed and hardly meant, and what was probably meant for it. */
static void warnings(void **state)
{
    (void)state;
#define GPU                                                                                        \
    "{name: a, device: cuda, memory: 80 GB, peak: {bf16: 989 TFLOP/s, fp32: 67 TFLOP/s}, "         \
    "memory_bandwidth: 3.35 TB/s}"
#define LINKED(links, more)                                                                        \
    "name: c\nnodes: 4\naccelerators_per_node: 8\naccelerator: " GPU "\nlinks:\n" links more
#define NODE "- {name: in, spans: node, bandwidth: 450 GB/s, latency: 3 us}\n"
    static const struct {
        enum sw_config_kind kind;
        const char *text, *expected;
    } cases[] = {
        {SW_CONFIG_ACCELERATOR,
         "{name: a, device: cuda, memory: 80, peak: {bf16: 989, fp32: 67e30 FLOP/s}, "
         "memory_bandwidth: 3350, launch_latency: 0.5 s}",
         "t:1:33: warning: 'memory: 80' has no unit, so it is bytes | did you mean '80 GB'?\n"
         "t:1:50: warning: 'bf16: 989' has no unit, so it is FLOP/s | did you mean '989 TFLOP/s'?\n"
         "t:1:61: 'fp32' must be at most 1.0e+30, not 67e30 FLOP/s | for example: fp32: 67 "
         "TFLOP/s\n"
         "t:1:94: warning: 'memory_bandwidth: 3350' has no unit, so it is bytes per second | did "
         "you mean '3350 GB/s'?\n"
         "t:1:100: note: 'launch_latency' belongs in a profile, since it describes software; it is "
         "used only where the cluster has no profile: move it there, or leave it out\n"
         "t:1:116: warning: 'launch_latency: 0.5 s' is more than any known one | look at the "
         "unit: a usual figure is '4 us'\n"},
        {SW_CONFIG_CLUSTER,
         LINKED(NODE "- {name: out, spans: all, bandwidth: 1e3, latency: 6}\n", ""),
         "t:7:38: warning: 'bandwidth: 1e3' has no unit, so it is bytes per second | did you mean "
         "'1e3 GB/s', or in bits '1e3 Gb/s'?\n"
         "t:7:52: warning: 'latency: 6' has no unit, so it is seconds | did you mean '6 us'?\n"},
        {SW_CONFIG_CLUSTER,
         LINKED(NODE "- {name: out, spans: all, bandwidth: 1e20 B/s, latency: 6 us}\n", ""),
         "t:7:38: warning: 'bandwidth: 1e20 B/s' is more than any known one | look at the "
         "unit: "
         "a usual figure is '450 GB/s'\n"
         "t:7:38: warning: 'out' is faster than 'in' inside it: 1e+11 against 450 GB/s per "
         "accelerator | is one of them the figure of a whole node ('bandwidth_per_node'), or of "
         "bits (Gb/s)?\n"},
        {SW_CONFIG_CLUSTER,
         LINKED(NODE "- {name: out, spans: all, bandwidth_per_node: 3.6 TB/s, latency: 6 us}\n",
                ""),
         ""},
        {SW_CONFIG_CLUSTER,
         LINKED(
             NODE
             "- {name: nvlink-out, spans: all, bandwidth: 500 GB/s, oversubscription: 2, latency: "
             "6 us}\n",
             ""),
         ""},
        {SW_CONFIG_CLUSTER,
         LINKED("- {name: nvlink, spans: 6, bandwidth: 450 Gb/s, latency: 3 us}\n"
                "- {name: ib, spans: all, bandwidth: 400 GB/s, latency: 6 ms, rails: false}\n",
                ""),
         "t:6:25: warning: a node of 8 accelerators is no whole number of domains of 'nvlink' of 6 "
         "| did you mean 'spans: node'?\n"
         "t:6:39: warning: '450 Gb/s' of 'nvlink' is 56.25 GB/s: NVLink is sold in bytes, both "
         "directions together | did you mean '450 GB/s'?\n"
         "t:7:37: warning: '400 GB/s' of 'ib' is 400 GB/s of each accelerator, more than a port of "
         "800 Gb/s | did you mean '400 Gb/s', or the figure of a whole node "
         "('bandwidth_per_node')?\n"
         "t:7:37: warning: 'ib' is faster than 'nvlink' inside it: 400 against 56.25 GB/s per "
         "accelerator | is one of them the figure of a whole node ('bandwidth_per_node'), or of "
         "bits (Gb/s)?\n"
         "t:7:56: warning: 'latency: 6 ms' is more than any known one | look at the unit: a usual "
         "figure is '0.83 us'\n"
         "t:7:69: warning: 'rails: false' with 'bandwidth': the 8 accelerators of a node share 8 "
         "times that, 3200 GB/s | for ports that they share write 'bandwidth_per_node', the sum of "
         "the ports\n"},
        {SW_CONFIG_CLUSTER,
         LINKED(NODE "- {name: in, spans: all, bandwidth: 50 GB/s, latency: 6 us}\n", ""),
         "t:7:10: two links have the name 'in' | give each its own, for example: nvlink, "
         "infiniband\n"},
        {SW_CONFIG_CLUSTER,
         LINKED("- {name: in, spans: 20, bandwidth: 450 GB/s, latency: 3 us}\n"
                "- {name: out, spans: 64, bandwidth: 50 GB/s, latency: 3 us}\n",
                ""),
         "t:6:21: warning: a domain of 'in' spans 20 accelerators, which is not a whole number of "
         "nodes of 8 | "
         "did you mean 'spans: 16', 2 nodes?\n"},
        {SW_CONFIG_CLUSTER,
         LINKED("- {name: all, spans: all, bandwidth: 450 GB/s, latency: 3 us}\n",
                "slurm: {gpus_per_node: 'h100:4'}\n"),
         "t:7:24: warning: 'gpus_per_node' asks for 4 of a node, but 'accelerators_per_node' is 8 "
         "| "
         "did you mean 'gpus_per_node: h100:8', or 'accelerators_per_node: 4'?\n"},
        {SW_CONFIG_CLUSTER,
         LINKED("- {name: all, spans: all, bandwidth: 450 GB/s, latency: 3 us}\n",
                "slurm: {gpus_per_node: 'a:4,b:4'}\n"),
         ""},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        expect(cases[i].kind, cases[i].text, cases[i].expected);
#undef NODE
#undef LINKED
    static const struct one runs[] = {
        {"sequence_length: 1\nglobal_batch_size: 8\n",
         "t:4:18: warning: 'sequence_length: 1' leaves nothing to attend to | it is the number of "
         "tokens of one sequence, for example: sequence_length: 4096\n"},
        {"sequence_length: 8192\nglobal_batch_size: 4194304\n",
         "t:5:20: warning: 'global_batch_size: 4194304' sequences of 8192 tokens are a step of "
         "3.44e+10 tokens | it counts sequences; did you mean that many tokens, "
         "'global_batch_size: 512'?\n"},
        {"sequence_length: 128\nglobal_batch_size: 8\nslurm: {gpus_per_node: 2}\n",
         "t:6:24: warning: 'gpus_per_node' asks for 2 of a node, but 'accelerators_per_node' is 1 "
         "| "
         "did you mean 'gpus_per_node: 1', or 'accelerators_per_node: 2'?\n"},
        {"sequence_length: 128\nglobal_batch_size: 8\noptimizer: {learning_rate: 300}\n"
         "recompute: {values: [n1], layers: 99}\nslurm: {gpus_per_node: 1}\n",
         "t:6:28: warning: 'learning_rate: 300' is more than any known one | look at the exponent: "
         "a usual figure is 'learning_rate: 3.0e-4'\n"
         "t:7:35: warning: 'layers: 99' of a model that has 2 | use layers: 2, or 'all'\n"},
        {"sequence_length: 128\nglobal_batch_size: 8\nserve: {prompt_tokens: 129}\n"
         "slurm: {gpus_per_node: 1}\n",
         "t:6:24: 'prompt_tokens: 129' is more than a sequence has room for, 128 tokens | write "
         "max_tokens, or fewer prompt_tokens\n"},
        {"sequence_length: 128\nglobal_batch_size: 8\nprefer_within: 5\nslurm: {gpus_per_node: "
         "1}\n",
         "t:6:16: warning: 'prefer_within: 5' lets a step take 6 times as long as that of the "
         "fastest mesh | did you mean '5 %'?\n"},
        {"sequence_length: 128\nglobal_batch_size: 8\nprefer_within: 500 %\n"
         "slurm: {gpus_per_node: 1}\n",
         ""},
        {"sequence_length: 8193\nglobal_batch_size: 8\nslurm: {gpus_per_node: 1}\n", ""},
    };
    for (size_t i = 0; i < COUNT(runs); i++) {
        char text[2048];
        snprintf(text, sizeof text,
                 "name: r\nmodel: " MODEL
                 "\ncluster: {name: c, nodes: 1, accelerators_per_node: 1, "
                 "accelerator: " GPU ", slurm: {gpus_per_node: 3}}\n%s",
                 runs[i].text);
        /* the run's setting counts; where it has none, the cluster's */
        char expected[1024];
        snprintf(expected, sizeof expected, "%s%s",
                 strstr(runs[i].text, "slurm") == NULL
                     ? "t:3:206: warning: 'gpus_per_node' asks for 3 of a node, but "
                       "'accelerators_per_node' is 1 | did you mean 'gpus_per_node: 1', or "
                       "'accelerators_per_node: 3'?\n"
                     : "",
                 runs[i].expected);
        expect(SW_CONFIG_RUN, text, expected);
    }
    /* a default is no limit, a figure that stands in the model is one */
    static const char longer[] =
        "name: r\nmodel: {vocab_size: 256, hidden_size: 64, intermediate_size: 128, "
        "num_hidden_layers: 2, num_attention_heads: 4, max_position_embeddings: 4096}\n"
        "cluster: " CLUSTER "\nsequence_length: 8192\nglobal_batch_size: 8\n";
    expect(SW_CONFIG_RUN, longer,
           "t:4:18: warning: 'sequence_length: 8192' is beyond the model's "
           "'max_position_embeddings: 4096' | to make the model longer, say so in it "
           "(max_position_embeddings, and a larger rope_theta or rope_scaling); else use "
           "sequence_length: 4096\n");
    static const char served[] =
        "name: r\nmodel: {vocab_size: 256, hidden_size: 64, intermediate_size: 128, "
        "num_hidden_layers: 2, num_attention_heads: 4, max_position_embeddings: 4096}\n"
        "cluster: " CLUSTER "\nsequence_length: 2048\nglobal_batch_size: 8\n"
        "serve: {max_tokens: 8192, prompt_tokens: 9000}\n";
    expect(
        SW_CONFIG_RUN, served,
        "t:6:42: 'prompt_tokens: 9000' is more than a sequence has room for, 8192 tokens | use a "
        "larger max_tokens, or fewer prompt_tokens\n");
    expect_named("t", SW_CONFIG_RUN, served, (const char *const[]){"serve.prompt_tokens=64", NULL},
                 "t:6:21: warning: 'max_tokens: 8192' is beyond the model's "
                 "'max_position_embeddings: 4096' | use max_tokens: 4096\n");
#undef GPU
}

static void plans(void **state)
{
    (void)state;
    expect(
        SW_CONFIG_PLAN, "run: {}\n",
        "t:1:1: not a plan file: 'schema' must be 'shardwright.plan/1' | write one with 'plan emit "
        "RUN.yaml'\n");
    expect(
        SW_CONFIG_UNKNOWN, "schema: shardwright.plan/2\nrun: {}\n",
        "t:1:9: this plan has the version 'shardwright.plan/2', and this program reads "
        "'shardwright.plan/1' | write it again with 'plan emit RUN.yaml', or use the program that "
        "wrote it\n");
    expect(SW_CONFIG_PLAN, PLAN_HEAD,
           "t:1:1: missing key 'run' | for example: run: {name: "
           "quickstart}\n");
    expect(
        SW_CONFIG_PLAN, PLAN_HEAD "run: ../run.yaml\n",
        "t:8:6: the description of a run must be a mapping, not the string '../run.yaml' | write "
        "'key: value' lines\n");
    expect(SW_CONFIG_PLAN, "[1]\n",
           "t:1:1: the description of a plan must be a mapping, not a list | write 'key: value' "
           "lines\n");
    expect(SW_CONFIG_PLAN, PLAN_HEAD "run: {name: r, model: " MODEL ",\n  cluster: " CLUSTER "}\n",
           "t:9:3: this plan was written by an older version: its 'cluster' has no 'profile' | "
           "write it again with 'plan "
           "emit'\n");
    struct sw_config *c =
        read_named("dir/p.plan.yaml",
                   PLAN_HEAD "run: {name: r, model: " MODEL ", cluster: " SETTLED_CLUSTER
                             ", sequence_length: 1, global_batch_size: 1, directory: d}\n",
                   SW_CONFIG_UNKNOWN, NULL);
    const struct sw_plan_config *plan = sw_config_plan(c);
    assert_non_null(plan);
    assert_string_equal(plan->mesh_dim, "1,2,3,4");
    assert_true(plan->recompute.values.all);
    assert_int_equal(plan->recompute.layers, SW_ALL_LAYERS);
    assert_int_equal(plan->residual_seq, SW_RESIDUAL_SP_TP);
    assert_true(plan->program[SW_PROGRAM_TRAIN] == 0x10);
    assert_true(plan->program[SW_PROGRAM_EVALUATE] == 0x11);
    assert_int_equal(plan->inputs.count, 2);
    assert_true(plan->inputs.input[0].digest == 0xf);
    assert_string_equal(plan->inputs.input[0].path, "../a%b 'c'%0");
    assert_string_equal(plan->inputs.input[1].path, "%00");
    assert_int_equal(sw_config_digest_place(c).line, 2);
    assert_int_equal(sw_config_digest_place(c).column, 9);
    assert_int_equal(sw_config_get_kind(c), SW_CONFIG_PLAN);
    assert_non_null(sw_config_run(c));
    assert_string_equal(sw_config_run(c)->directory, "dir/d");
    sw_config_free(c);
}

static void schemas(void **state)
{
    (void)state;
    for (int kind = SW_CONFIG_MODEL; kind < SW_CONFIG_UNKNOWN; kind++) {
        char *text = NULL;
        size_t bytes = 0;
        FILE *out = open_memstream(&text, &bytes);
        sw_config_schema(out, (enum sw_config_kind)kind, &sw_launchers);
        fclose(out);
        /* JSON is YAML: the only complaint is that a schema is no description. */
        struct sw_config *c = read_named("schema.json", text, SW_CONFIG_UNKNOWN, NULL);
        assert_int_equal(sw_config_error_count(c), 1);
        assert_non_null(strstr(sw_config_diagnostic(c, 0)->message, "neither a model"));
        sw_config_free(c);
        assert_true(kind != SW_CONFIG_RUN || strstr(text, "\"global_batch_size\": {\"type\": "
                                                          "\"integer\", \"minimum\": 1") != NULL);
        /* a link's words, and one of its two bandwidths */
        assert_true(kind != SW_CONFIG_CLUSTER ||
                    (strstr(text, "{\"const\": \"node\"}") != NULL &&
                     strstr(text, "\"oneOf\": [{\"required\": [\"bandwidth\"]}, {\"required\": "
                                  "[\"bandwidth_per_node\"]}]") != NULL));
        free(text);
    }
}

/* Which cache there is, and which device has it. */
static void caches(void **state)
{
    (void)state;
    static const struct one cases[] = {
        {"serve: {cache: int8}\n", ""},
        {"serve: {cache: int4}\n", "t:6:16: 'cache' must be one of bf16, fp32, int8, auto, not "
                                   "'int4' | for example: cache: bf16\n"},
        {"serve: {cache: itn8}\n", "t:6:16: 'cache' must be one of bf16, fp32, int8, auto, not "
                                   "'itn8'; did you mean 'int8'?\n"},
        {"serve: {cache: e4m3}\n",
         "t:6:16: 'cache' must be one of bf16, fp32, int8, auto, not 'e4m3' | for example: cache: "
         "bf16\n"},
        {"serve: {cache: 8}\n",
         "t:6:16: 'cache' must be one of bf16, fp32, int8, auto, not '8' | for example: "
         "cache: bf16\n"},
        {"serve: {cache: [int8]}\n",
         "t:6:16: 'cache' must be one of bf16, fp32, int8, auto, not a list | for example: cache: "
         "bf16\n"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[1024];
        snprintf(text, sizeof text, "%s%s", RUN_HEAD, cases[i].text);
        expect(SW_CONFIG_RUN, text, cases[i].expected);
    }
    struct sw_config *c = read_named("t", RUN_HEAD "serve: {cache: int8}\n", SW_CONFIG_RUN, NULL);
    assert_int_equal(sw_config_run(c)->serve_cache, SW_I8);
    sw_config_free(c);
    const char *const settings[] = {"cluster.accelerator.device=cuda", NULL};
    c = read_named("t", RUN_HEAD "serve: {cache: int8}\n", SW_CONFIG_RUN, settings);
    assert_int_equal(sw_config_run(c)->serve_cache, SW_I8);
    sw_config_free(c);
}

/* Which weights there are; every device multiplies with them. */
static void weights(void **state)
{
    (void)state;
    static const struct one cases[] = {
        {"serve: {weights: auto}\n", ""},
        {"serve: {weights: int3}\n", "t:6:18: 'weights' must be one of int8, e4m3, int4, auto, not "
                                     "'int3' | for example: weights: "
                                     "int8\n"},
        {"serve: {weights: fp8}\n", "t:6:18: 'weights' must be one of int8, e4m3, int4, auto, not "
                                    "'fp8' | for example: weights: "
                                    "int8\n"},
        {"serve: {weights: e4mm3}\n",
         "t:6:18: 'weights' must be one of int8, e4m3, int4, auto, not "
         "'e4mm3'; did you mean 'e4m3'?\n"},
        {"serve: {weights: 8}\n",
         "t:6:18: 'weights' must be one of int8, e4m3, int4, auto, not '8' | for example: weights: "
         "int8\n"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[1024];
        snprintf(text, sizeof text, "%s%s", RUN_HEAD, cases[i].text);
        expect(SW_CONFIG_RUN, text, cases[i].expected);
    }
    static const char *const values[] = {"int8", "e4m3"};
    static const enum sw_dtype dtypes[] = {SW_I8, SW_E4M3};
    const char *const on_gpus[] = {"cluster.accelerator.device=cuda", NULL};
    for (size_t i = 0; i < 2 * COUNT(values); i++) {
        char text[1024];
        snprintf(text, sizeof text, RUN_HEAD "serve: {weights: %s}\n", values[i / 2]);
        struct sw_config *c = read_named("t", text, SW_CONFIG_RUN, i % 2 ? on_gpus : NULL);
        assert_int_equal(sw_config_error_count(c), 0);
        assert_int_equal(sw_config_run(c)->serve_weights, dtypes[i / 2]);
        sw_config_free(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights),
        cmocka_unit_test(scalars),
        cmocka_unit_test(required_keys),
        cmocka_unit_test(models),
        cmocka_unit_test(a_config_json_is_a_model),
        cmocka_unit_test(accelerators),
        cmocka_unit_test(clusters),
        cmocka_unit_test(links_in_words),
        cmocka_unit_test(links_that_are_not_there),
        cmocka_unit_test(slurm_texts_that_are_fine),
        cmocka_unit_test(slurm_times_in_seconds),
        cmocka_unit_test(defaults_of_a_run),
        cmocka_unit_test(slurm_settings_of_the_run_win),
        cmocka_unit_test(overrides),
        cmocka_unit_test(quantities),
        cmocka_unit_test(numbers_are_those_of_strtod),
        cmocka_unit_test(warnings),
        cmocka_unit_test(plans),
        cmocka_unit_test(notes),
        cmocka_unit_test(recompute),
        cmocka_unit_test(schemas),
        cmocka_unit_test(caches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
