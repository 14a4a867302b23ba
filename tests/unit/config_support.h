/* Texts and helpers that the tests of core/config share. */
#ifndef CONFIG_SUPPORT_H
#define CONFIG_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/config/config.h"
#include "planner/scheduler/scheduler.h"
#include "planner/scheduler/slurm/settings.h"

#define MODEL                                                                                      \
    "{vocab_size: 256, hidden_size: 64, intermediate_size: 128, num_hidden_layers: 2, "            \
    "num_attention_heads: 4}"
#define ACCELERATOR                                                                                \
    "{name: a, device: cpu, memory: 2 GB, peak: {fp32: 1 TFLOP/s}, memory_bandwidth: 10 GB/s}"
#define CLUSTER "{name: c, nodes: 1, accelerators_per_node: 1, accelerator: " ACCELERATOR "}"
#define RUN_HEAD                                                                                   \
    "name: r\nmodel: " MODEL "\ncluster: " CLUSTER "\nsequence_length: 128\n"                      \
    "global_batch_size: 8\n"

static inline struct sw_config *read_named(const char *name, const char *text,
                                           enum sw_config_kind kind, const char *const *sets)
{
    struct sw_override overrides[8] = {{NULL}};
    int32_t count = 0;
    for (; sets != NULL && sets[count] != NULL; count++)
        overrides[count].text = sets[count];
    struct sw_error err = {0};
    struct sw_config *config =
        sw_config_read_text(name, text, strlen(text), kind, &sw_launchers, overrides, count, &err);
    assert_non_null(config);
    return config;
}

/* Every diagnostic as "file:line:column: message | help" lines, with "note: " or "warning: " before
 * what is no error. */
static inline char *report(const struct sw_config *config)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    for (int32_t i = 0; i < sw_config_diagnostic_count(config); i++) {
        const struct sw_diagnostic *d = sw_config_diagnostic(config, i);
        /* what is wrong, and what to do */
        if (!d->is_note && d->help == NULL && strstr(d->message, "; did you mean '") == NULL)
            fail_msg("no help: %s", d->message);
        fprintf(out, "%s:%d:%d: %s%s", d->file, (int)d->line, (int)d->column,
                d->is_warning ? "warning: "
                : d->is_note  ? "note: "
                              : "",
                d->message);
        if (d->help != NULL)
            fprintf(out, " | %s", d->help);
        fputc('\n', out);
    }
    fclose(out);
    return text;
}

/* The report of a text, with overrides that end with NULL (or none at all). */
static inline void expect_named(const char *name, enum sw_config_kind kind, const char *text,
                                const char *const *sets, const char *expected)
{
    struct sw_config *config = read_named(name, text, kind, sets);
    char *got = report(config);
    assert_string_equal(got, expected);
    free(got);
    sw_config_free(config);
}

static inline void expect(enum sw_config_kind kind, const char *text, const char *expected)
{
    expect_named("t", kind, text, NULL, expected);
}

#endif
