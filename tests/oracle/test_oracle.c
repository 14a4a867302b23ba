/* Loss, gradient of every parameter and logits against an independent implementation
 * (make_fixtures.py: JAX, float64).
 *
 * The program runs in fp32, the oracle in float64. A sum of K fp32 products has a relative error of
 * about eps sqrt(K) with eps = 6e-8; K is at most 64 (a row of a matrix) and 64 tokens (a weight
 * gradient), and some 30 such sums follow each other through 3 layers and back: 6e-8 * 8 * 30
 * = 1.4e-5. TOLERANCE leaves a factor of 7. */
#include "tests/oracle/fixture.h"

#define TOLERANCE 1e-4

static const char *folder = "tests/oracle/fixtures";

/* The layout is in make_fixtures.py. */
static void read_fixture(const char *name, struct fixture *f)
{
    int64_t n[12], count;
    double x[5];
    memset(f, 0, sizeof *f);
    f->tolerance = TOLERANCE;
    FILE *in = open_fixture(folder, name, "SWORACLE");
    assert_int_equal(fread(n, sizeof n[0], 12, in), 12);
    assert_int_equal(fread(x, sizeof x[0], 5, in), 5);
    f->options = (struct sw_program_options){
        .model.vocab_size = n[0],
        .model.hidden_size = n[1],
        .model.intermediate_size = n[2],
        .model.layers = (int32_t)n[3],
        .model.heads = (int32_t)n[4],
        .model.kv_heads = (int32_t)n[5],
        .model.head_dim = (int32_t)n[6],
        .model.tied = n[7] != 0,
        .sequence_length = n[8],
        .global_batch = n[9],
        .model.rope.theta = x[0],
        .model.rms_norm_eps = x[1],
    };
    f->seed = (uint64_t)n[10];
    f->ignored = n[11];
    f->stddev = x[2];
    f->loss = x[3];
    f->grad_norm = x[4];
    assert_int_equal(fread(&count, sizeof count, 1, in), 1);
    assert_in_range(count, 1, MAX_TENSORS);
    for (f->count = 0; f->count < count; f->count++) {
        struct tensor *t = &f->tensor[f->count];
        int64_t ndim, size[4];
        assert_int_equal(fread(t->name, 1, sizeof t->name, in), sizeof t->name);
        assert_int_equal(fread(&ndim, sizeof ndim, 1, in), 1);
        assert_int_equal(fread(size, sizeof size[0], 4, in), 4);
        t->elems = size[0] * size[1] * size[2] * size[3];
        read_numbers(in, t);
    }
    fclose(in);
}

static const struct tensor *find_tensor(const struct fixture *f, const char *name)
{
    for (int32_t i = 0; i < f->count; i++)
        if (strcmp(f->tensor[i].name, name) == 0)
            return &f->tensor[i];
    fail_msg("the fixture has no '%s'", name);
    return NULL;
}

/* Eight steps of AdamW with clipping and decay; the constants are make_fixtures.py's. */
static void compare_training(struct fixture *f)
{
    const struct tensor *losses = find_tensor(f, "losses");
    const struct sw_harness harness = {
        .options = &f->options,
        .seed = f->seed,
        .stddev = f->stddev,
        .spread_norms = true,
        .ignored = f->ignored,
        .steps = losses->elems,
        .step = {.learning_rate = 1e-2,
                 .beta1 = 0.9,
                 .beta2 = 0.95,
                 .eps = 1e-8,
                 .weight_decay = 0.1,
                 .grad_clip = 1.0},
    };
    struct sw_harness_result result;
    struct sw_error err = {0};
    if (sw_harness_run(&harness, &result, &err) != 0)
        fail_msg("%s", err.message);
    for (int64_t s = 0; s < losses->elems; s++) {
        const double difference = sw_harness_difference(&result.loss[s], &losses->data[s], 1);
        if (!(difference <= TOLERANCE))
            fail_msg("loss of step %d is %.9g, the oracle's %.9g", (int)s + 1, result.loss[s],
                     losses->data[s]);
    }
    assert_int_equal(result.rank_differences, 0);
    sw_harness_result_free(&result);
}

static void check(const char *name, struct sw_mesh mesh)
{
    struct fixture f;
    read_fixture(name, &f);
    use_mesh(&f, mesh);
    assert_int_equal(compare(&f, false), f.options.model.tied ? 11 : 12);
    compare_training(&f);
    assert_int_equal(compare(&f, true), 1);
    free_fixture(&f);
}

static void test_untied_one_rank(void **state)
{
    (void)state;
    check("untied_gqa", sw_mesh_make(1, 1, 1, 1));
}

static void test_untied_mesh(void **state)
{
    (void)state;
    check("untied_gqa", sw_mesh_make(1, 2, 2, 2));
}

static void test_tied_one_rank(void **state)
{
    (void)state;
    check("tied_mha", sw_mesh_make(1, 1, 1, 1));
}

static void test_tied_mesh(void **state)
{
    (void)state;
    check("tied_mha", sw_mesh_make(1, 2, 2, 2));
}

int main(int argc, char **argv)
{
    if (argc > 1)
        folder = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_untied_one_rank),
        cmocka_unit_test(test_untied_mesh),
        cmocka_unit_test(test_tied_one_rank),
        cmocka_unit_test(test_tied_mesh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
