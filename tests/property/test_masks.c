/* A mask means the same on every mesh. Windows, documents, softcaps and sinks are drawn together:
 * on each mesh, for both layouts and all strategies, loss, gradient norm and gradients are those of
 * one rank, and documents that share a sequence have together the loss and the gradients that each
 * has alone. The argument is the number of draws that each mesh is tried with. */
#include "tests/support/harness.h"
#include "tests/support/share.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { SEQUENCE = 32, BATCH = 8, TOKENS = BATCH * SEQUENCE, VOCAB = 24, LAYERS = 3 };

/* Of a difference, by the largest element: rounding of sums in another order. */
static double tolerance(const struct sw_program_options *o)
{
    return o->compute == SW_F64 ? 1e-10 : 2e-4;
}

static int32_t draws = 1;
static uint64_t state_of_draws = 20261129;

static int32_t draw(int32_t below)
{
    state_of_draws = state_of_draws * 6364136223846793005u + 1442695040888963407u;
    return (int32_t)((state_of_draws >> 33) % (uint64_t)below);
}

static const char *const gradients[] = {"grad embedding", "grad wq",         "grad wk",
                                        "grad wv",        "grad wo",         "grad w_gate",
                                        "grad sinks",     "grad final_norm", NULL};

/* Softcaps and sinks of the size of scores, and windows from one token on to more than all. */
static struct sw_program_options draw_options(void)
{
    static const int32_t windows[] = {0, 1, 2, 3, 5, 8, 13, 21, 31, 32, 40};
    static const double softcaps[] = {0, 0, 0.5, 2};
    struct sw_program_options o = {.model.vocab_size = VOCAB,
                                   .model.hidden_size = 16,
                                   .model.intermediate_size = 24,
                                   .model.layers = LAYERS,
                                   .model.heads = 8,
                                   .model.kv_heads = draw(2) == 0 ? 2 : 8,
                                   .model.head_dim = 4,
                                   .model.rope.theta = 100.0,
                                   .model.rms_norm_eps = 1e-5,
                                   .model.sliding_window = windows[draw(11)],
                                   .model.attention_softcap = softcaps[draw(4)],
                                   .model.sinks = draw(2) == 0,
                                   .sequence_length = SEQUENCE,
                                   .global_batch = BATCH};
    if (draw(2) == 0) {
        o.model.period = (uint8_t)(1 + draw(3));
        o.model.local = (uint64_t)draw(1 << o.model.period);
        o.model.local_rope = o.model.rope;
    }
    o.global_batch -= draw(2) * draw(4); /* some ranks have places that are padding alone */
    o.segments = draw(3) > 0;
    o.target.halos = draw(4) > 0;
    o.compute = o.params = o.reduce = draw(3) > 0 ? SW_F64 : SW_F32;
    return o;
}

static void take_mesh(struct sw_program_options *o, struct sw_mesh mesh, int32_t strategy)
{
    o->mesh = mesh;
    const int32_t ways = mesh.size[SW_DP] * mesh.size[SW_FSDP];
    o->micro_batch_per_rank = (o->global_batch + ways - 1) / ways;
    sw_rules_default(&o->rules, (enum sw_attention_strategy)strategy);
}

/* Documents of one token up to more than a sequence; numbers of neighbours do not ascend. */
static void draw_segments(int32_t *segment)
{
    for (int32_t i = 0, left = 0, number = 0; i < TOKENS; i++, left--) {
        if (left == 0) {
            static const int32_t lengths[] = {1, 2, 5, 11, 24, 50};
            left = 1 + draw(lengths[draw(6)]);
            number = (number + 37) % 257;
        }
        segment[i] = number;
    }
}

static void run(const struct sw_program_options *options, const int32_t *rows,
                const int32_t *segments, struct sw_harness_result *result)
{
    static const char *wanted[sizeof gradients / sizeof *gradients];
    int32_t n = 0;
    for (int32_t i = 0; gradients[i] != NULL; i++)
        if (options->model.sinks || strcmp(gradients[i], "grad sinks") != 0)
            wanted[n++] = gradients[i];
    wanted[n] = NULL;
    const struct sw_harness harness = {
        .options = options,
        .seed = 5,
        .stddev = 0.4,
        .spread_norms = true,
        .rows = rows,
        .segments = options->segments ? segments : NULL,
        .steps = 1,
        .step = {.learning_rate = 1e-2, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .grad_clip = 1e9},
        .values = wanted,
    };
    struct sw_error err = {0};
    if (sw_harness_run(&harness, result, &err) != 0)
        fail_msg("%s", err.message);
}

static void describe(const struct sw_program_options *o, char text[256])
{
    char sizes[64];
    snprintf(text, 256,
             "mesh %s %s, batch %d, layout %d, window %d of layers %x by %d, softcap %g%s%s%s%s",
             sw_mesh_format(&o->mesh, sizes, sizeof sizes),
             o->rules.axes[SW_L_KEY_SEQ].count > 0    ? "ring"
             : o->rules.axes[SW_L_ATTN_SEQ].count > 0 ? "gather"
                                                      : "ulysses",
             (int)o->global_batch, (int)o->layout, (int)o->model.sliding_window,
             (unsigned)o->model.local, (int)o->model.period, o->model.attention_softcap,
             o->model.sinks ? ", sinks" : "", o->segments ? ", documents" : "",
             o->target.halos ? ", halos" : "", o->compute == SW_F64 ? ", fp64" : "");
}

static int32_t differs(const struct sw_program_options *o, const char *text, const char *what,
                       double difference)
{
    if (difference <= tolerance(o))
        return 0;
    print_error("%s: %s differs by %g\n", text, what, difference);
    return 1;
}

static int32_t check(const struct sw_program_options *o, const struct sw_harness_result *kept,
                     const int32_t *rows, const int32_t *segments)
{
    struct sw_harness_result r;
    char text[256];
    describe(o, text);
    run(o, rows, segments, &r);
    int32_t wrong = differs(o, text, "the loss", fabs(r.loss[0] / kept->loss[0] - 1)) +
                    differs(o, text, "the norm", fabs(r.grad_norm[0] / kept->grad_norm[0] - 1));
    for (int32_t i = 0; i < kept->value_count; i++)
        wrong += differs(
            o, text, kept->value[i].name,
            sw_harness_difference(r.value[i].data, kept->value[i].data, kept->value[i].elems));
    if (r.rank_differences != 0 && ++wrong)
        print_error("%s: replicas differ\n", text);
    sw_harness_result_free(&r);
    return wrong;
}

static void draw_rows(int32_t rows[BATCH * (SEQUENCE + 1)])
{
    for (int32_t i = 0; i < BATCH * (SEQUENCE + 1); i++)
        rows[i] = draw(VOCAB);
}

static void every_mesh_makes_the_same(void **state)
{
    (void)state;
    static int32_t rows[BATCH * (SEQUENCE + 1)], segments[TOKENS];
    struct sw_mesh meshes[SW_HARNESS_MESHES];
    int32_t wrong = 0;
    const int32_t share = sw_test_share();
    sw_harness_meshes(meshes);
    for (int32_t i = 0; i < draws; i++)
        for (int32_t m = 1 + i % share; m < SW_HARNESS_MESHES; m += share) {
            struct sw_program_options o = draw_options();
            struct sw_harness_result kept;
            draw_rows(rows);
            draw_segments(segments);
            take_mesh(&o, sw_mesh_make(1, 1, 1, 1), 0);
            run(&o, rows, segments, &kept);
            take_mesh(&o, meshes[m], draw(3));
            o.layout = draw(2) == 0 ? SW_ZIGZAG : SW_CONTIGUOUS;
            if (meshes[m].size[SW_SP] == 8 && draw(2) == 0)
                o.inner_ring = 2 << draw(2);
            if (sw_program_admits(&o, NULL, NULL) == SW_FITS)
                wrong += check(&o, &kept, rows, segments);
            sw_harness_result_free(&kept);
        }
    assert_int_equal(wrong, 0);
}

/* One sequence of documents, and each of these by itself. */
static void documents_are_as_they_are_alone(void **state)
{
    (void)state;
    static int32_t rows[BATCH * (SEQUENCE + 1)], segments[TOKENS];
    for (int32_t i = 0; i < 4 * draws; i++) {
        struct sw_program_options o = draw_options();
        struct sw_harness_result all, one;
        char text[256];
        double loss = 0, *sum[SW_HARNESS_MAX_VALUES];
        draw_rows(rows);
        draw_segments(segments);
        o.segments = true;
        o.global_batch = 1;
        take_mesh(&o, sw_mesh_make(1, 1, 1, 1), 0);
        run(&o, rows, segments, &all);
        describe(&o, text);
        for (int32_t v = 0; v < all.value_count; v++)
            sum[v] = calloc((size_t)all.value[v].elems, sizeof *sum[v]);
        o.segments = false;
        for (int32_t from = 0, end; from < SEQUENCE; from = end) {
            for (end = from + 1; end < SEQUENCE && segments[end] == segments[from];)
                end++;
            o.sequence_length = end - from;
            run(&o, rows + from, NULL, &one);
            loss += one.loss[0] * (end - from) / SEQUENCE;
            for (int32_t v = 0; v < all.value_count; v++)
                for (int64_t e = 0; e < all.value[v].elems; e++)
                    sum[v][e] += one.value[v].data[e] * (end - from) / SEQUENCE;
            sw_harness_result_free(&one);
        }
        assert_int_equal(differs(&o, text, "the loss of documents", fabs(all.loss[0] / loss - 1)),
                         0);
        for (int32_t v = 0; v < all.value_count; v++) {
            assert_int_equal(
                differs(&o, text, all.value[v].name,
                        sw_harness_difference(all.value[v].data, sum[v], all.value[v].elems)),
                0);
            free(sum[v]);
        }
        sw_harness_result_free(&all);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1)
        draws = (int32_t)strtol(argv[1], NULL, 10);
    if (argc > 2)
        state_of_draws = strtoull(argv[2], NULL, 10);
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_mesh_makes_the_same),
                                       cmocka_unit_test(documents_are_as_they_are_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
