/* A run from text with the sizes that a test wants. */
#ifndef SW_TEST_PLAN_SUPPORT_H
#define SW_TEST_PLAN_SUPPORT_H

#include "core/config/config.h"

#include <stdio.h>
#include <string.h>

struct sw_test_run {
    int nodes, per_node, kv_heads, layers;
    long sequence_length, global_batch_size;
    const char *device;        /* NULL: cuda */
    const char *memory;        /* of an accelerator */
    const char *inner, *outer; /* bandwidth of the links */
    const char *latency, *launch;
    const char *more; /* lines at the end of the run, or "" */
};

static const struct sw_test_run sw_test_llama_7b = {.nodes = 64,
                                                    .per_node = 4,
                                                    .kv_heads = 32,
                                                    .layers = 32,
                                                    .sequence_length = 1 << 18,
                                                    .global_batch_size = 16,
                                                    .memory = "32 GB",
                                                    .inner = "90 GB/s",
                                                    .outer = "45 GB/s",
                                                    .latency = "1 us",
                                                    .launch = "0",
                                                    .more = ""};

/* Eight layers of it on eight nodes of eight. */
static inline struct sw_test_run sw_test_small_run(void)
{
    struct sw_test_run t = sw_test_llama_7b;
    t.nodes = 8;
    t.per_node = 8;
    t.kv_heads = 8;
    t.layers = 8;
    t.sequence_length = 8192;
    t.global_batch_size = 64;
    return t;
}

static inline struct sw_config *sw_test_read_run(const struct sw_test_run *t)
{
    char text[4096];
    struct sw_error err = {0};
    const int bytes = snprintf(
        text, sizeof text,
        "name: test\n"
        "model: {vocab_size: 32000, hidden_size: 4096, intermediate_size: 11008, "
        "num_hidden_layers: %d, num_attention_heads: 32, num_key_value_heads: %d, "
        "max_position_embeddings: 1048576}\n"
        "cluster:\n"
        "  name: c\n  nodes: %d\n  accelerators_per_node: %d\n"
        "  accelerator: {name: a, device: %s, memory: %s, peak: {bf16: 275 TFLOP/s, fp32: 46 "
        "TFLOP/s}, memory_bandwidth: 1.2 TB/s}\n"
        "  profile: {launch_latency: %s}\n"
        "  links:\n"
        "    - {name: inner, spans: %d, bandwidth: %s, latency: %s}\n"
        "    - {name: outer, spans: %d, bandwidth: %s, latency: %s}\n"
        "sequence_length: %ld\nglobal_batch_size: %ld\n%s",
        t->layers, t->kv_heads, t->nodes, t->per_node, t->device != NULL ? t->device : "cuda",
        t->memory, t->launch, t->per_node, t->inner, t->latency, t->nodes * t->per_node, t->outer,
        t->latency, t->sequence_length, t->global_batch_size, t->more);
    struct sw_config *config =
        sw_config_read_text("test.yaml", text, (size_t)bytes, SW_CONFIG_RUN, NULL, NULL, 0, &err);
    for (int32_t i = 0; config != NULL && i < sw_config_diagnostic_count(config); i++)
        sw_diagnostic_print(stderr, sw_config_diagnostic(config, i), false);
    return config;
}

#endif
