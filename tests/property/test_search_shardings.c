/* Shardings over random plausible trainings, 135M to 70B on 1 to 8 nodes.
 *
 * On every mesh `zero: auto` is as fast, but for 2 %, as the fastest of the six that a run can
 * write itself, on the fastest mesh but for 0.5 %, and fits wherever one of them does; of each mesh
 * it looks at no program twice. A run that says nothing has the table of `zero: 3`, and is told of
 * zero 1 or 2 where the fastest mesh of either is more than 5 % faster than its choice, and nowhere
 * else.
 *
 *     test_search_shardings [RUNS [SEED]]       the last line is the summary */
#include "core/programs/compile.h"
#include "planner/search/search.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int runs = 6;
static uint64_t seed = 20261130;

static uint32_t draw(uint32_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % below;
}

#define DRAW(array) ((array)[draw((uint32_t)(sizeof(array) / sizeof(array)[0]))])

static const char *const models[] = {
    ("{vocab_size: 49152, hidden_size: 576, intermediate_size: 1536, num_hidden_layers: 30, "
     "num_attention_heads: 9, num_key_value_heads: 3, tie_word_embeddings: true}"),
    "configs/models/llama-3.2-1b.yaml",
    "configs/models/smollm2-1.7b.yaml",
    "configs/models/qwen2.5-7b.yaml",
    "configs/models/llama-8b.yaml",
    "configs/models/qwen3-8b.yaml",
    "configs/models/llama-3.1-70b.yaml"};
static const char *const clusters[] = {"h100-8x8", "dgx-a100-40gb-16x8", "dgx-b200-8x8",
                                       "p5-efa-16x8", "h100-pcie-4x4"};
/* Each of the six as lines of a run file; the first is what a run that says nothing has. */
static const char *const written[] = {"zero: 3\n",
                                      "zero: 2\n",
                                      "zero: 1\n",
                                      "rules: {embed: [fsdp]}\n",
                                      "rules: {moment_embed: [fsdp, sp, dp]}\n",
                                      "reshard_after_forward: false\n"};
enum {
    WRITTEN = sizeof written / sizeof written[0],
    ZERO_2 = 1,
    ZERO_1 = 2,
    OVER_FSDP = 3,
    OVER_DP = 4
};

static struct sw_config *read_run(const char *text, const char *more, int32_t nodes)
{
    char all[1200], setting[32];
    const struct sw_override over = {setting};
    struct sw_error err = {0};
    snprintf(setting, sizeof setting, "cluster.nodes=%d", nodes);
    const int bytes = snprintf(all, sizeof all, "%s%s", text, more);
    struct sw_config *config =
        sw_config_read_text("random.yaml", all, (size_t)bytes, SW_CONFIG_RUN, NULL, &over, 1, &err);
    if (config == NULL || sw_config_run(config) == NULL)
        fail_msg("%s%s", all, config != NULL ? sw_config_diagnostic(config, 0)->message : "");
    return config;
}

static void draw_run(char text[1024], int32_t *nodes)
{
    static const int32_t counts[] = {1, 2, 3, 4, 8};
    static const long sequences[] = {1024, 4096, 8192, 32768}, batches[] = {8, 32, 60, 128, 512};
    static const char *const steps[] = {"", "micro_batch_size: 1\n", "recompute: full\n"};
    const long batch = DRAW(batches), sequence = DRAW(sequences);
    const char *cluster = DRAW(clusters), *model = DRAW(models), *step = DRAW(steps);
    *nodes = DRAW(counts);
    snprintf(text, 1024,
             "name: random\nmodel: %s\ncluster: configs/clusters/%s.yaml\nsequence_length: %ld\n"
             "global_batch_size: %ld\nprefer: time\n%s",
             model, cluster, sequence, batch, step);
}

static struct sw_search search_all(const char *text, const char *more, int32_t nodes)
{
    struct sw_config *config = read_run(text, more, nodes);
    struct sw_error err = {0};
    struct sw_search s;
    if (sw_search_meshes_alone(sw_config_run(config), 1, &s, &err) != 0)
        fail_msg("%s:\n%s%s", err.message, text, more);
    sw_config_free(config);
    return s;
}

/* That mesh in another search. */
static const struct sw_candidate *find(const struct sw_search *s, const struct sw_mesh *mesh)
{
    for (int32_t i = 0; i < s->count; i++)
        if (memcmp(s->mesh[i].decision.mesh.size, mesh->size, sizeof mesh->size) == 0)
            return &s->mesh[i];
    fail();
    return NULL;
}

static double seconds_of(const struct sw_candidate *c)
{
    return c->reason == SW_FITS ? c->fastest_seconds : 1e300;
}

/* What guesses may miss: of the fastest mesh as between options of one sharding; of any. */
static const double as_fast = 1.005, nearly = 1.02;

struct seen {
    int32_t meshes, whole, other, lines; /* whole: of ZeRO-1 and 2; other: than zero 3 */
};

static void check_meshes(const struct sw_search *all, const struct sw_search one[WRITTEN],
                         const char *text, struct seen *seen)
{
    double least = 1e300;
    for (int32_t i = 0; i < all->count; i++) {
        const struct sw_candidate *c = &all->mesh[i];
        const char *which = "";
        double best = 1e300;
        const int32_t *size = c->decision.mesh.size;
        for (int32_t k = 0; k < WRITTEN; k++) {
            if ((k == OVER_DP && size[SW_FSDP] * size[SW_SP] == 1) ||
                (k == OVER_FSDP && size[SW_FSDP] == 1))
                continue; /* whole weights, which are zero 1's and another mesh's */
            const double seconds = seconds_of(find(&one[k], &c->decision.mesh));
            which = seconds < best ? written[k] : which;
            best = seconds < best ? seconds : best;
        }
        least = best < least ? best : least;
        if (seconds_of(c) > best * nearly)
            fail_msg("mesh %d,%d,%d,%d: %g s of zero: auto (%s), %g s of %sin\n%s", size[0],
                     size[1], size[2], size[3], seconds_of(c), c->sharding.text, best, which, text);
        seen->meshes += c->reason == SW_FITS;
        const struct sw_sharding_decision *is = &c->decision.train.sharding;
        seen->whole += c->reason == SW_FITS && is->zero != SW_ZERO_3;
        seen->other +=
            c->reason == SW_FITS && (is->embed_fsdp || is->moments_over_dp || is->keep_gathered);
    }
    if (all->feasible > 0 && seconds_of(&all->mesh[all->fastest]) > least * as_fast)
        fail_msg("%g s of zero: auto, %g s of one of the six:\n%s",
                 seconds_of(&all->mesh[all->fastest]), least, text);
}

/* The line on whole weights against the whole searches of zero 1 and 2. */
static void check_line(const struct sw_run_config *run, const struct sw_search one[WRITTEN],
                       const char *text, struct seen *seen)
{
    static const double worth = 1.05;
    struct sw_search s;
    struct sw_error err = {0};
    double best = 1e300;
    if (sw_search_meshes_alone(run, 1, &s, &err) != 0 ||
        sw_search_whole_weights(run, &s, &err) != 0)
        fail_msg("%s:\n%s", err.message, text);
    for (int32_t k = ZERO_2; k <= ZERO_1; k++)
        if (one[k].feasible > 0 && seconds_of(&one[k].mesh[one[k].fastest]) < best)
            best = seconds_of(&one[k].mesh[one[k].fastest]);
    const double told = s.whole_weights.cost.step_seconds;
    if (s.feasible > 0) {
        const double chosen = s.mesh[0].cost.step_seconds;
        const bool is_due = chosen > worth * best * as_fast * as_fast;
        if (told > 0 ? told > chosen / worth || told < best / as_fast : is_due)
            fail_msg("%g s chosen, %g s of zero 1 or 2, %g s told:\n%s", chosen, best, told, text);
        seen->lines += told > 0;
    }
    sw_search_free(&s);
}

/* A run that says nothing has each number of zero: 3. */
static void check_default(const struct sw_search *none, const struct sw_search *three)
{
    assert_int_equal(none->count, three->count);
    for (int32_t i = 0; i < none->count; i++) {
        assert_memory_equal(&none->mesh[i].decision, &three->mesh[i].decision,
                            sizeof none->mesh[i].decision);
        assert_memory_equal(&none->mesh[i].memory, &three->mesh[i].memory,
                            sizeof none->mesh[i].memory);
        assert_true(none->mesh[i].cost.step_seconds == three->mesh[i].cost.step_seconds);
    }
}

static void random_runs(void **state)
{
    (void)state;
    struct seen seen = {0};
    char text[1024];
    for (int i = 0; i < runs; i++) {
        struct sw_search one[WRITTEN];
        int32_t nodes;
        draw_run(text, &nodes);
        for (int32_t k = 0; k < WRITTEN; k++)
            one[k] = search_all(text, written[k], nodes);
        struct sw_search none = search_all(text, "", nodes);
        struct sw_search all = search_all(text, "zero: auto\n", nodes);
        struct sw_config *config = read_run(text, "", nodes);
        check_default(&none, &one[0]);
        check_meshes(&all, one, text, &seen);
        check_line(sw_config_run(config), one, text, &seen);
        sw_config_free(config);
        sw_search_free(&all);
        sw_search_free(&none);
        for (int32_t k = 0; k < WRITTEN; k++)
            sw_search_free(&one[k]);
    }
    printf(
        "%d random trainings: of %d meshes with zero: auto %d have whole weights, %d another form "
        "of zero 3; %d lines on whole weights\n",
        runs, seen.meshes, seen.whole, seen.other, seen.lines);
}

/* Programs of one mesh differ; with whole weights, moments over dp are those of ZeRO-1 on another
 * mesh, which alone has them. */
static void each_program_once(void **state)
{
    (void)state;
    struct sw_config *config =
        read_run("name: once\nmodel: configs/models/llama-3.2-1b.yaml\n"
                 "cluster: configs/clusters/h100-8x8.yaml\nsequence_length: 1024\n"
                 "global_batch_size: 64\n",
                 "zero: auto\n", 1);
    const struct sw_run_config *run = sw_config_run(config);
    const struct sw_mesh meshes[] = {sw_mesh_make(1, 8, 1, 1), sw_mesh_make(8, 1, 1, 1),
                                     sw_mesh_make(2, 4, 1, 1), sw_mesh_make(1, 1, 8, 1),
                                     sw_mesh_make(2, 2, 1, 2), sw_mesh_make(4, 1, 1, 2)};
    static const int32_t expected[] = {4, 1, 5, 1, 6, 5};
    for (size_t m = 0; m < sizeof meshes / sizeof meshes[0]; m++) {
        struct sw_sharding_decision choice[SW_SHARDINGS];
        uint64_t digest[SW_SHARDINGS];
        const int32_t count = sw_plan_shardings(run, &meshes[m], choice, NULL);
        assert_int_equal(count, expected[m]);
        for (int32_t i = 0; i < count; i++) {
            struct sw_candidate c;
            struct sw_program *program = NULL;
            const struct sw_decision decision = {.mesh = meshes[m],
                                                 .train.micro_batch_size = 1,
                                                 .train.strategy = SW_ATTENTION_RING,
                                                 .train.layout = SW_ZIGZAG,
                                                 .train.sharding = choice[i]};
            assert_int_equal(sw_search_evaluate(run, &decision, 1, &c, &program, NULL), 0);
            assert_non_null(program);
            digest[i] = sw_program_digest(program);
            sw_program_free(program);
            for (int32_t k = 0; k < i; k++)
                assert_true(digest[k] != digest[i]);
        }
    }
    sw_config_free(config);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_runs),
        cmocka_unit_test(each_program_once),
    };
    runs = argc > 1 ? atoi(argv[1]) : runs;
    seed = argc > 2 ? strtoull(argv[2], NULL, 10) : seed;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
