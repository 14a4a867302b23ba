/* What an independent implementation makes of a model's first step, read from a file, and the same
 * made by our program: what test_oracle.c and test_families.c share. */
#ifndef SW_TEST_ORACLE_FIXTURE_H
#define SW_TEST_ORACLE_FIXTURE_H

#include "tests/support/harness.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MAX_TENSORS = SW_HARNESS_MAX_VALUES };

struct tensor {
    char name[SW_NAME_BYTES];
    int64_t elems;
    double *data;
};

struct fixture {
    struct sw_program_options options;
    uint64_t seed;
    int64_t ignored;
    double stddev, loss, grad_norm;
    double tolerance; /* of a difference, by the largest element */
    int32_t count;
    struct tensor tensor[MAX_TENSORS];
};

/* FOLDER/NAME.bin, behind its magic of eight letters. */
static inline FILE *open_fixture(const char *folder, const char *name, const char *magic)
{
    char path[512], begin[8];
    snprintf(path, sizeof path, "%s/%s.bin", folder, name);
    FILE *in = fopen(path, "rb");
    if (in == NULL)
        fail_msg("cannot open '%s'", path);
    assert_int_equal(fread(begin, 1, sizeof begin, in), sizeof begin);
    assert_memory_equal(begin, magic, sizeof begin);
    return in;
}

/* t->elems numbers in fp32. */
static inline void read_numbers(FILE *in, struct tensor *t)
{
    assert_in_range(t->elems, 1, 1 << 20);
    t->data = malloc((size_t)t->elems * sizeof *t->data);
    assert_non_null(t->data);
    for (int64_t i = 0; i < t->elems; i++) {
        float value;
        assert_int_equal(fread(&value, sizeof value, 1, in), 1);
        t->data[i] = (double)value;
    }
}

/* Name, size and numbers of `count` tensors. */
static inline void read_tensors(FILE *in, int64_t count, struct fixture *f)
{
    assert_in_range(count, 1, MAX_TENSORS);
    for (f->count = 0; f->count < count; f->count++) {
        struct tensor *t = &f->tensor[f->count];
        assert_int_equal(fread(t->name, 1, sizeof t->name, in), sizeof t->name);
        assert_int_equal(fread(&t->elems, sizeof t->elems, 1, in), 1);
        read_numbers(in, t);
    }
}

static inline void free_fixture(struct fixture *f)
{
    for (int32_t i = 0; i < f->count; i++)
        free(f->tensor[i].data);
}

/* On a mesh, in fp32. */
static inline void use_mesh(struct fixture *f, struct sw_mesh mesh)
{
    struct sw_program_options *o = &f->options;
    o->mesh = mesh;
    o->compute = o->params = o->reduce = SW_F32;
    o->micro_batch_per_rank = o->global_batch / (mesh.size[SW_DP] * mesh.size[SW_FSDP]);
    o->layout = mesh.size[SW_SP] > 1 ? SW_ZIGZAG : SW_CONTIGUOUS;
    sw_rules_default(&o->rules, SW_ATTENTION_RING);
}

static inline void expect_close(const struct fixture *f, const char *name, double difference)
{
    if (!(difference <= f->tolerance))
        fail_msg("%s differs by %g of its largest element", name, difference);
}

static inline void compare_values(const struct fixture *f, const struct sw_harness_result *result,
                                  int32_t wanted)
{
    for (int32_t i = 0; i < f->count; i++) {
        const struct tensor *expected = &f->tensor[i];
        const struct sw_harness_value *value = sw_harness_find(result, expected->name);
        if (value == NULL)
            continue;
        wanted--;
        assert_int_equal(value->elems, expected->elems);
        expect_close(f, expected->name,
                     sw_harness_difference(value->data, expected->data, expected->elems));
    }
    assert_int_equal(wanted, 0);
}

/* The parts of a fixture that one run can give, "logits" or all "grad ...", the loss and the norm
 * of the gradient. Returns how many parts there were. */
static inline int32_t compare(struct fixture *f, bool logits)
{
    const char *names[MAX_TENSORS + 1] = {NULL};
    int32_t wanted = 0;
    for (int32_t i = 0; i < f->count; i++)
        if (strncmp(f->tensor[i].name, logits ? "logits" : "grad ", logits ? 7 : 5) == 0)
            names[wanted++] = f->tensor[i].name;
    f->options.kind = logits ? SW_PROGRAM_EVALUATE : SW_PROGRAM_TRAIN;
    f->options.logits = logits;
    const struct sw_harness harness = {
        .options = &f->options,
        .seed = f->seed,
        .stddev = f->stddev,
        .spread_norms = true,
        .ignored = f->ignored,
        .steps = 1,
        .step = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8}, /* learning rate 0 */
        .values = names,
    };
    struct sw_harness_result result;
    struct sw_error err = {0};
    if (sw_harness_run(&harness, &result, &err) != 0)
        fail_msg("%s", err.message);
    expect_close(f, "loss", fabs(result.loss[0] - f->loss) / f->loss);
    if (!logits)
        expect_close(f, "gradient norm", fabs(result.grad_norm[0] - f->grad_norm) / f->grad_norm);
    compare_values(f, &result, wanted);
    assert_int_equal(result.rank_differences, 0);
    sw_harness_result_free(&result);
    return wanted;
}

#endif
