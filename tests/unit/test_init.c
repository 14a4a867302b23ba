/* The generator of initial parameters against values from an independent implementation (Python
 * integers, math.log and math.cos, from the formula in init.h). */
#include "runner/rank/init.h"

#include "core/ir/program.h"
#include "core/programs/compile.h"
#include "runner/collective/comm.h"
#include "runner/rank/execute.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

struct known {
    uint64_t seed;
    const char *name;
    uint64_t key;
    double value[3]; /* of elements 0, 1 and 12345678901 */
};

static void test_known_values(void **state)
{
    (void)state;
    static const struct known known[] = {
        {0, "", 0xc3817c016ba4ff30u, {-1.3755128194778081, 0.1636940236570777, 0.2829540404457851}},
        {1,
         "embedding",
         0x7eded2a8884b9140u,
         {-0.2674912957952652, 0.4425594657773878, 1.2594262619848067}},
        {42,
         "wq.0",
         0xc56ad53d32d3ebd0u,
         {0.09118309759453304, 0.10118294195328922, -0.4846307938163598}},
        {UINT64_MAX,
         "w_down.31",
         0xe775f5e82e75640du,
         {-0.7863448685068344, 0.9005724679359658, -0.5697778042351334}}};
    static const uint64_t index[3] = {0, 1, 12345678901u};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        const uint64_t key = sw_init_key(known[i].seed, known[i].name);
        assert_true(key == known[i].key);
        /* log, sqrt and cos may differ by an ulp each between libraries; near a zero of the cosine
         * its argument's rounding shows: 8 * 2^-52 of the largest factor, sqrt(-2 ln 2^-53) < 9 */
        for (int j = 0; j < 3; j++)
            assert_true(fabs(sw_init_normal(key, index[j]) - known[i].value[j]) <= 8 * 9 * 0x1p-52);
    }
}

/* Mean, variance and the correlation of neighbours, each within five standard errors. */
static void test_is_standard_normal(void **state)
{
    (void)state;
    enum { COUNT = 200000 };
    const uint64_t key = sw_init_key(7, "w_up.3");
    double sum = 0, squares = 0, neighbours = 0, last = 0;
    for (uint64_t i = 0; i < COUNT; i++) {
        const double x = sw_init_normal(key, i);
        assert_true(isfinite(x));
        sum += x;
        squares += x * x;
        neighbours += x * last;
        last = x;
    }
    assert_true(fabs(sum / COUNT) < 5 / sqrt(COUNT));
    assert_true(fabs(squares / COUNT - 1) < 5 * sqrt(2.0 / COUNT));
    assert_true(fabs(neighbours / COUNT) < 5 / sqrt(COUNT));
}

static int (*copy_in)(struct sw_device *device, void *to, const void *host, size_t bytes);
static size_t copied_bytes;

static int count_copy(struct sw_device *device, void *to, const void *host, size_t bytes)
{
    copied_bytes += bytes;
    return copy_in(device, to, host, bytes);
}

/* Moments are zeros, as the arena is. */
static size_t bytes_to_copy(const struct sw_state *state)
{
    size_t bytes = 0;
    for (int32_t i = 0; i < state->count; i++)
        if (state->row[i].initial != SW_INITIAL_ZEROS)
            bytes += (size_t)(state->row[i].instance_bytes * state->row[i].stack);
    return bytes;
}

/* A table's shards that several threads fill: every element is the generator's, whoever has it. */
static void check_large_shards(int64_t vocab, bool rows)
{
    enum { WIDTH = 1024, RANKS = 2 };
    const double stddev = 0.02;
    const struct sw_mesh mesh = sw_mesh_make(1, RANKS, 1, 1);
    struct sw_program_options o = {.model.vocab_size = vocab,
                                   .model.hidden_size = WIDTH,
                                   .model.intermediate_size = 8,
                                   .model.layers = 1,
                                   .model.heads = 2,
                                   .model.kv_heads = 2,
                                   .model.head_dim = 4,
                                   .model.rope.theta = 100,
                                   .model.rms_norm_eps = 1e-5,
                                   .model.tied = true,
                                   .sequence_length = 4,
                                   .global_batch = RANKS,
                                   .micro_batch_per_rank = 1,
                                   .mesh = mesh,
                                   .layout = SW_ZIGZAG};
    struct sw_error err = {0};
    struct sw_program *program = NULL;
    struct sw_comm *comms[RANKS];
    sw_rules_default(&o.rules, SW_ATTENTION_RING);
    struct sw_program_set *set = NULL;
    assert_int_equal(sw_program_compile(&o, SW_LAID_OUT, &program, &err), 0);
    assert_int_equal(sw_program_set_single(program, SW_PROGRAM_TRAIN, &set, &err), 0);
    assert_int_equal(sw_comm_threads_create(&mesh, comms, &err), 0);
    struct sw_device *device = sw_cpu_device_create(1, &err);
    assert_non_null(device);
    copy_in = device->vtable->copy_in;
    struct sw_device_vtable counting = *device->vtable;
    counting.copy_in = count_copy;
    device->vtable = &counting;
    const struct sw_state_row *value = sw_state_find(&set->state, "embedding");
    assert_non_null(value);
    const uint64_t key = sw_init_key(3, "embedding");
    for (int32_t r = 0; r < RANKS; r++) {
        struct sw_executor *executor = NULL;
        counting.in_host_memory = r > 0; /* filled where they lie, or copied once */
        assert_int_equal(sw_executor_create(set, device, comms[r], NULL, &executor, &err), 0);
        copied_bytes = 0;
        assert_int_equal(sw_executor_init_state(executor, 3, stddev, &err), 0);
        assert_int_equal(copied_bytes, r > 0 ? 0 : bytes_to_copy(&set->state));
        const float *shard = sw_executor_state(executor, value, 0);
        assert_true(value->local[0] == (rows ? vocab / RANKS : vocab) &&
                    value->local[1] == (rows ? WIDTH : WIDTH / RANKS));
        const int64_t first = r * (rows ? value->local[0] * WIDTH : value->local[1]);
        for (int64_t i = 0; i < value->local[0] * value->local[1]; i++) {
            const int64_t row = i / value->local[1], column = i % value->local[1];
            const int64_t index = first + row * WIDTH + column;
            if (shard[i] != (float)(stddev * sw_init_normal(key, (uint64_t)index)))
                fail_msg("element %lld of rank %d", (long long)i, (int)r);
        }
        sw_executor_free(executor);
    }
    for (int32_t r = 0; r < RANKS; r++)
        comms[r]->vtable->destroy(comms[r]);
    device->vtable->destroy(device);
    sw_program_set_free(set);
}

static void test_large_shards(void **state)
{
    (void)state;
    check_large_shards(6002, true);
    check_large_shards(6003, false); /* no rows for two ranks: columns are split */
}

/* A set with `save`: the executor has room for its messages; who fetches them runs its rounds. */
static void test_save_needs_a_fetch(void **state)
{
    (void)state;
    struct sw_program_options o;
    memset(&o, 0, sizeof o);
    o.model = (struct sw_model){.vocab_size = 64,
                                .hidden_size = 32,
                                .intermediate_size = 48,
                                .layers = 2,
                                .heads = 4,
                                .kv_heads = 2,
                                .head_dim = 8,
                                .rope.theta = 10000,
                                .rms_norm_eps = 1e-5};
    o.sequence_length = 32;
    o.global_batch = o.micro_batch_per_rank = 1;
    o.mesh = sw_mesh_make(1, 1, 1, 1);
    sw_rules_default(&o.rules, SW_ATTENTION_RING);
    struct sw_error err = {0};
    struct sw_program_set *set = NULL;
    struct sw_comm *comm = NULL;
    struct sw_executor *x = NULL;
    struct sw_device *device = sw_cpu_device_create(1, &err);
    struct sw_step step = {.step = 1};
    assert_int_equal(sw_program_set_compile(&o, &set, &err), 0);
    assert_int_equal(sw_comm_single_create(&comm, &err), 0);
    if (sw_executor_create(set, device, comm, NULL, &x, &err) != 0)
        fail_msg("%s", err.message);
    const struct sw_op *op = &set->program[SW_PROGRAM_SAVE]->ops[0];
    const char *arena = sw_executor_state(x, &set->state.row[0], 0);
    char *workspace = sw_executor_workspace(x);
    assert_ptr_equal(workspace, arena - set->state.row[0].offset + op->workspace_offset);
    memset(workspace, 0x5a, (size_t)op->workspace_bytes); /* all of it is the arena's */
    assert_int_equal(sw_executor_run(x, SW_PROGRAM_SAVE, &step, NULL, 0, NULL, 0, &err), -1);
    assert_int_equal(err.status, SW_ENVIRONMENT);
    assert_string_equal(err.message,
                        "save, snapshot: the program needs a callback that takes its output");
    sw_executor_free(x);
    sw_program_set_free(set);

    struct sw_program *program = NULL; /* a set of one program has none */
    memset(&err, 0, sizeof err);
    assert_int_equal(sw_program_compile(&o, SW_LAID_OUT, &program, &err), 0);
    assert_int_equal(sw_program_set_single(program, SW_PROGRAM_TRAIN, &set, &err), 0);
    assert_int_equal(sw_executor_create(set, device, comm, NULL, &x, &err), 0);
    assert_null(sw_executor_workspace(x));
    sw_executor_free(x);
    sw_program_set_free(set);
    comm->vtable->destroy(comm);
    device->vtable->destroy(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_values),
        cmocka_unit_test(test_is_standard_normal),
        cmocka_unit_test(test_large_shards),
        cmocka_unit_test(test_save_needs_a_fetch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
