/* Loss, gradient of every parameter and logits of a small model of every family against Hugging
 * Face transformers (make_family_fixtures.py: fp32), from the config.json that transformers writes.
 *
 * Both sides compute in fp32. A sum of K fp32 products has a relative error of about eps sqrt(K)
 * with eps = 6e-8; K is at most 64 (the tokens of a weight gradient), and some 20 such sums follow
 * each other through 2 layers and back, their errors adding like a random walk: 6e-8 * 8 * sqrt(20)
 * = 2e-6 on either side. TOLERANCE is five times that. */
#include "core/config/config.h"
#include "tests/support/harness.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define TOLERANCE 1e-5

enum { MAX_TENSORS = SW_HARNESS_MAX_VALUES };

struct tensor {
    char name[SW_NAME_BYTES];
    int64_t elems;
    double *data;
};

struct fixture {
    struct sw_program_options options;
    uint64_t seed;
    double stddev, loss, grad_norm;
    int32_t count;
    struct tensor tensor[MAX_TENSORS];
};

static const char *folder = "tests/oracle/fixtures/families";

static void read_model(const char *name, struct sw_model *model)
{
    char path[512];
    struct sw_error err = {0};
    snprintf(path, sizeof path, "%s/%s.json", folder, name);
    struct sw_config *config = sw_config_read(path, SW_CONFIG_MODEL, NULL, NULL, 0, &err);
    assert_non_null(config);
    if (sw_config_model(config) == NULL)
        fail_msg("'%s': %s", path, sw_config_diagnostic(config, 0)->message);
    *model = sw_config_model(config)->shape;
    sw_config_free(config);
}

/* The layout is in make_family_fixtures.py. */
static void read_fixture(const char *name, struct fixture *f)
{
    char path[512], magic[8];
    int64_t n[4];
    double x[3];
    memset(f, 0, sizeof *f);
    read_model(name, &f->options.model);
    snprintf(path, sizeof path, "%s/%s.bin", folder, name);
    FILE *in = fopen(path, "rb");
    if (in == NULL)
        fail_msg("cannot open '%s'", path);
    assert_int_equal(fread(magic, 1, 8, in), 8);
    assert_memory_equal(magic, "SWFAMILY", 8);
    assert_int_equal(fread(n, sizeof n[0], 4, in), 4);
    assert_int_equal(fread(x, sizeof x[0], 3, in), 3);
    f->options.sequence_length = n[0];
    f->options.global_batch = n[1];
    f->seed = (uint64_t)n[2];
    f->stddev = x[0];
    f->loss = x[1];
    f->grad_norm = x[2];
    assert_in_range(n[3], 1, MAX_TENSORS);
    for (f->count = 0; f->count < n[3]; f->count++) {
        struct tensor *t = &f->tensor[f->count];
        assert_int_equal(fread(t->name, 1, sizeof t->name, in), sizeof t->name);
        assert_int_equal(fread(&t->elems, sizeof t->elems, 1, in), 1);
        assert_in_range(t->elems, 1, 1 << 20);
        t->data = malloc((size_t)t->elems * sizeof *t->data);
        assert_non_null(t->data);
        for (int64_t i = 0; i < t->elems; i++) {
            float value;
            assert_int_equal(fread(&value, sizeof value, 1, in), 1);
            t->data[i] = (double)value;
        }
    }
    fclose(in);
}

static void expect_close(const char *name, double difference)
{
    if (!(difference <= TOLERANCE))
        fail_msg("%s differs by %g of its largest element", name, difference);
}

/* The parts of a fixture that one run can give: gradients, or logits. */
static void compare(struct fixture *f, bool logits)
{
    const char *names[MAX_TENSORS + 1] = {NULL};
    int32_t wanted = 0;
    for (int32_t i = 0; i < f->count; i++)
        if ((strcmp(f->tensor[i].name, "logits") == 0) == logits)
            names[wanted++] = f->tensor[i].name;
    f->options.kind = logits ? SW_PROGRAM_EVALUATE : SW_PROGRAM_TRAIN;
    f->options.logits = logits;
    const struct sw_harness harness = {
        .options = &f->options,
        .seed = f->seed,
        .stddev = f->stddev,
        .spread_norms = true,
        .steps = 1,
        .step = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8}, /* learning rate 0 */
        .values = names,
    };
    struct sw_harness_result result;
    struct sw_error err = {0};
    if (sw_harness_run(&harness, &result, &err) != 0)
        fail_msg("%s", err.message);
    expect_close("loss", fabs(result.loss[0] - f->loss) / f->loss);
    if (!logits)
        expect_close("gradient norm", fabs(result.grad_norm[0] - f->grad_norm) / f->grad_norm);
    for (int32_t i = 0; i < f->count; i++) {
        const struct tensor *expected = &f->tensor[i];
        const struct sw_harness_value *value = sw_harness_find(&result, expected->name);
        if (value == NULL)
            continue;
        wanted--;
        assert_int_equal(value->elems, expected->elems);
        expect_close(expected->name,
                     sw_harness_difference(value->data, expected->data, expected->elems));
    }
    assert_int_equal(wanted, 0);
    assert_int_equal(result.rank_differences, 0);
    sw_harness_result_free(&result);
}

static void check(const char *name, struct sw_mesh mesh)
{
    struct fixture f;
    read_fixture(name, &f);
    f.options.mesh = mesh;
    f.options.compute = f.options.params = f.options.reduce = SW_F32;
    f.options.micro_batch_per_rank =
        f.options.global_batch / (mesh.size[SW_DP] * mesh.size[SW_FSDP]);
    f.options.layout = mesh.size[SW_SP] > 1 ? SW_ZIGZAG : SW_CONTIGUOUS;
    sw_rules_default(&f.options.rules, SW_ATTENTION_RING);
    compare(&f, false);
    compare(&f, true);
    for (int32_t i = 0; i < f.count; i++)
        free(f.tensor[i].data);
}

static void on_one_rank(void **state)
{
    check(*state, sw_mesh_make(1, 1, 1, 1));
}

static void on_a_mesh(void **state)
{
    check(*state, sw_mesh_make(1, 2, 2, 2));
}

#define FAMILY(name)                                                                               \
    {#name " on one rank", on_one_rank, NULL, NULL, #name},                                        \
    {                                                                                              \
#name " on 1,2,2,2", on_a_mesh, NULL, NULL, #name                                          \
    }

int main(int argc, char **argv)
{
    if (argc > 1)
        folder = argv[1];
    const struct CMUnitTest tests[] = {
        FAMILY(llama),      FAMILY(llama_rope_llama3),
        FAMILY(llama_bias), FAMILY(llama_rope_linear),
        FAMILY(mistral),    FAMILY(qwen2),
        FAMILY(qwen3),      FAMILY(qwen3_bias),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
