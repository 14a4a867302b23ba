/* Any bytes as any kind of description: no crash, no leak, and what is accepted is written and read
 * back. */
#include "core/config/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void fail(const char *what)
{
    fprintf(stderr, "fuzz_config: %s\n", what);
    abort();
}

static void check_run(const struct sw_run_config *run)
{
    char *texts[2] = {NULL, NULL};
    size_t sizes[2] = {0, 0};
    struct sw_config *again = NULL;
    for (int i = 0; i < 2; i++) {
        FILE *out = open_memstream(&texts[i], &sizes[i]);
        if (out == NULL)
            fail("no memory");
        sw_run_config_write(out, i == 0 ? run : sw_config_run(again), 0);
        fclose(out);
        if (i == 0) {
            again = sw_config_read_text("run", texts[0], sizes[0], SW_CONFIG_RUN, NULL, 0, NULL);
            if (again == NULL || sw_config_run(again) == NULL)
                fail("what was written is not accepted");
        }
    }
    if (sizes[0] != sizes[1] || memcmp(texts[0], texts[1], sizes[0]) != 0)
        fail("what was written reads back differently");
    sw_config_free(again);
    free(texts[0]);
    free(texts[1]);
}

static void check(const char *text, size_t bytes, enum sw_config_kind kind,
                  const struct sw_override *overrides, int32_t count)
{
    struct sw_error err = {0};
    struct sw_config *config =
        sw_config_read_text("fuzz.yaml", text, bytes, kind, overrides, count, &err);
    if (config == NULL)
        fail(err.message);
    FILE *out = fopen("/dev/null", "w");
    if (out == NULL)
        fail("no /dev/null");
    for (int32_t i = 0; i < sw_config_diagnostic_count(config); i++)
        sw_diagnostic_print(out, sw_config_diagnostic(config, i), i % 2 == 0);
    fclose(out);
    bool described = sw_config_run(config) != NULL || sw_config_model(config) != NULL ||
                     sw_config_cluster(config) != NULL || sw_config_accelerator(config) != NULL;
    if ((sw_config_error_count(config) == 0) != described)
        fail("no description and no error, or both");
    if (sw_config_run(config) != NULL)
        check_run(sw_config_run(config));
    sw_config_free(config);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const char run[] =
        "{name: r, sequence_length: 8, global_batch_size: 8, model: {vocab_size: 256, hidden_size: "
        "64, intermediate_size: 128, num_hidden_layers: 2, num_attention_heads: 4}, cluster: "
        "{name: "
        "c, nodes: 1, accelerators_per_node: 1, accelerator: {name: a, device: cpu, memory: 2 GB, "
        "peak: {fp32: 1 TFLOP/s}, memory_bandwidth: 10 GB/s}}}";
    check((const char *)data, bytes, SW_CONFIG_UNKNOWN, NULL, 0);
    char *text = malloc(bytes + 1);
    if (text == NULL)
        fail("no memory");
    if (bytes > 0)
        memcpy(text, data, bytes);
    text[bytes] = 0;
    double value;
    struct sw_error err = {0};
    sw_quantity_parse(text, "Bbsf"[bytes % 4], &value, &err);
    if (bytes < 4096) {
        struct sw_override override = {text};
        check(run, sizeof run - 1, SW_CONFIG_RUN, &override, 1);
    }
    free(text);
    return 0;
}

#ifndef SW_LIBFUZZER
int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        FILE *in = fopen(argv[i], "rb");
        if (in == NULL) {
            perror(argv[i]);
            return 3;
        }
        size_t used = 0, capacity = 1 << 20;
        uint8_t *bytes = malloc(capacity);
        if (bytes != NULL)
            used = fread(bytes, 1, capacity, in);
        fclose(in);
        LLVMFuzzerTestOneInput(bytes, used);
        free(bytes);
    }
    return 0;
}
#endif
