/* A suggestion is a promise: for every rejected mesh of many searches, applying the change makes
 * the verdict flip. */
#include "planner/search/search.h"
#include "tests/support/share.h"
#include "tests/unit/plan_support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void apply(struct sw_run_config *run, const char *setting, const char *to)
{
    if (strcmp(setting, "mesh_dim") == 0)
        run->mesh_dim = to;
    else if (strcmp(setting, "recompute") == 0)
        run->recompute_auto = strcmp(to, "auto") == 0;
    else if (strcmp(setting, "micro_batch_size") == 0)
        run->micro_batch_size = strcmp(to, "auto") == 0 ? 0 : strtoll(to, NULL, 10);
    else if (strcmp(setting, "sequence_length") == 0)
        run->sequence_length = strtoll(to, NULL, 10);
    else if (strcmp(setting, "global_batch_size") == 0)
        run->global_batch_size = strtoll(to, NULL, 10);
    else if (strcmp(setting, "memory_headroom") == 0)
        assert_int_equal(sw_quantity_parse(to, '%', &run->memory_headroom, NULL), 0);
    else if (strcmp(setting, "cluster.accelerator.memory") == 0) {
        double bytes = 0;
        assert_int_equal(sw_quantity_parse(to, 'B', &bytes, NULL), 0);
        run->cluster.accelerator.memory_bytes = (int64_t)bytes;
    } else {
        fail_msg("an unknown setting: %s", setting);
    }
}

static void check_flip(const struct sw_run_config *run, const struct sw_candidate *c,
                       const char *what)
{
    struct sw_run_config changed = *run;
    struct sw_search s;
    struct sw_error err = {0};
    char mesh[64], order[64];
    sw_mesh_format(&c->decision.mesh, mesh, sizeof mesh);
    if (c->suggestion.count == 0)
        fail_msg("%s: %s is rejected (%s) without a suggestion", what, mesh, c->detail);
    changed.mesh_dim = mesh;
    for (int32_t i = 0; i < c->suggestion.count; i++)
        apply(&changed, c->suggestion.change[i].setting, c->suggestion.change[i].to);
    if (sw_search_run(&changed, SW_FOR_TRAIN, SW_EVERY_ROW, &s, &err) != 0)
        fail_msg("%s: %s: %s", what, mesh, err.message);
    if (s.count != 1 || s.feasible != 1)
        fail_msg("%s: %s (%s), %s: '%s' does not help: %s %s", what, mesh,
                 sw_mesh_format_order(&c->decision.mesh, order, sizeof order), c->detail, c->help,
                 sw_reject_name(s.mesh[0].reason), s.mesh[0].detail);
    sw_search_free(&s);
}

/* Every `stride`-th rejected mesh; returns how many there were. */
static int32_t check_run(const struct sw_run_config *run, int32_t stride, const char *what)
{
    struct sw_search s;
    struct sw_error err = {0};
    if (sw_search_run(run, SW_FOR_TRAIN, SW_EVERY_ROW, &s, &err) != 0 ||
        sw_search_explain(run, &s, s.feasible, s.count, &err) != 0)
        fail_msg("%s: %s", what, err.message);
    for (int32_t i = s.feasible; i < s.count; i++) {
        assert_true(s.mesh[i].detail[0] != '\0' && s.mesh[i].help[0] != '\0');
        if ((i - s.feasible) % stride == 0)
            check_flip(run, &s.mesh[i], what);
    }
    const int32_t rejected = s.count - s.feasible;
    sw_search_free(&s);
    return rejected;
}

static struct sw_test_run grouped(void)
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

static void every_rejection(void **state)
{
    (void)state;
    static const char *const memories[] = {"80 GB", "10 GB", "7 GB", "1 GB"};
    static const long batches[] = {64, 24, 7};
    for (size_t m = 0; m < sizeof memories / sizeof memories[0]; m++)
        for (size_t b = 0; b < sizeof batches / sizeof batches[0]; b++) {
            char what[64];
            struct sw_test_run t = grouped();
            t.memory = memories[m];
            t.global_batch_size = batches[b];
            struct sw_config *config = sw_test_read_run(&t);
            snprintf(what, sizeof what, "%s, batch %ld", memories[m], batches[b]);
            assert_true(check_run(sw_config_run(config), 7, what) > 0);
            sw_config_free(config);
        }
}

static void settings_of_the_run(void **state)
{
    (void)state;
    struct sw_test_run t = grouped();
    t.memory = "9 GB";
    struct sw_config *config = sw_test_read_run(&t);
    struct sw_run_config run = *sw_config_run(config);
    run.recompute_auto = false;
    run.micro_batch_size = 4;
    assert_true(check_run(&run, 7, "no recomputation, four sequences") > 0);
    run.strategy = SW_ATTENTION_AUTO;
    assert_true(check_run(&run, 11, "any attention") > 0);
    run = *sw_config_run(config);
    run.sequence_length = 8192 + 64;
    check_run(&run, 7, "an uneven sequence");
    sw_config_free(config);
}

/* One mesh that the run names: a setting first, another mesh only when none helps. */
static void a_mesh_that_is_asked_for(void **state)
{
    (void)state;
    static const char *const meshes[] = {"64,1,1,1", "1,1,1,64", "1,1,64,1",
                                         "!2,2,4,4", "1,3,2,2",  "sp:1,tp:1,fsdp:1,dp:64"};
    struct sw_test_run t = grouped();
    t.memory = "9 GB";
    struct sw_config *config = sw_test_read_run(&t);
    struct sw_run_config run = *sw_config_run(config);
    for (size_t i = 0; i < sizeof meshes / sizeof meshes[0]; i++) {
        run.mesh_dim = meshes[i];
        check_run(&run, 1, meshes[i]);
    }
    run.mesh_dim = "1,8,8,1";
    run.recompute_auto = false;
    struct sw_search s;
    assert_int_equal(sw_search_run(&run, SW_FOR_TRAIN, SW_EVERY_ROW, &s, NULL), 0);
    if (s.feasible == 0)
        assert_string_equal(s.mesh[0].suggestion.change[0].setting, "recompute");
    sw_search_free(&s);
    sw_config_free(config);
}

/* "tp 4 -> 8 frees X, Y needed": X >= Y. */
static void numbers_of_memory(void **state)
{
    (void)state;
    struct sw_test_run t = grouped();
    t.memory = "9 GB";
    struct sw_config *config = sw_test_read_run(&t);
    struct sw_search s;
    int32_t moves = 0;
    assert_int_equal(sw_search_run(sw_config_run(config), SW_FOR_TRAIN, SW_EVERY_ROW, &s, NULL), 0);
    assert_int_equal(sw_search_explain(sw_config_run(config), &s, 0, s.count, NULL), 0);
    assert_true(s.feasible > 0);
    for (int32_t i = s.feasible; i < s.count; i++) {
        const char *frees = strstr(s.mesh[i].help, " frees ");
        double freed = 0, needed = 0;
        char unit[4], other[4], text[64];
        if (s.mesh[i].reason != SW_REJECT_MEMORY || frees == NULL)
            continue;
        assert_int_equal(
            sscanf(frees, " frees %lf %3[A-Z], %lf %3[A-Z] needed", &freed, unit, &needed, other),
            4);
        snprintf(text, sizeof text, "%g %s", freed, unit);
        assert_int_equal(sw_quantity_parse(text, 'B', &freed, NULL), 0);
        snprintf(text, sizeof text, "%g %s", needed, other);
        assert_int_equal(sw_quantity_parse(text, 'B', &needed, NULL), 0);
        assert_true(freed >= needed * 0.99); /* both are rounded to three digits */
        moves++;
    }
    assert_true(moves > 0);
    sw_search_free(&s);
    sw_config_free(config);
}

/* ---- Where nothing fits: the printed help, as somebody would paste it ---- */

enum { MAX_SETS = 6 };
struct sets {
    char text[MAX_SETS][160];
    struct sw_override override[MAX_SETS + 1];
    int32_t count;
};

/* "use KEY: VALUE and KEY: VALUE", or "use mesh_dim M: why". */
static void read_help(const char *help, struct sets *out)
{
    const char *at = help;
    out->count = 0;
    if (strncmp(at, "use ", 4) != 0)
        fail_msg("this help cannot be pasted: %s", help);
    for (at += 4; at != NULL && out->count < MAX_SETS;) {
        const char *next = strstr(at, " and ");
        const int length = next != NULL ? (int)(next - at) : (int)strlen(at);
        int key = (int)strcspn(at, ": "), value = key + (int)strspn(at + key, ": ");
        int end = length;
        const char *other = strstr(at, ", or mesh_dim: "); /* beside memory_headroom */
        if (other != NULL && other < at + length)
            end = (int)(other - at);
        if (strncmp(at, "mesh_dim ", 9) == 0)
            end = value + (int)strcspn(at + value, ":");
        snprintf(out->text[out->count], sizeof out->text[0], "%.*s=%.*s", key, at, end - value,
                 at + value);
        out->override[out->count].text = out->text[out->count];
        out->count++;
        at = next != NULL ? next + 5 : NULL;
    }
}

static struct sw_config *read_run(const char *text, const struct sets *sets)
{
    struct sw_error err = {0};
    struct sw_config *config = sw_config_read_text("r.yaml", text, strlen(text), SW_CONFIG_RUN,
                                                   NULL, sets->override, sets->count, &err);
    if (config == NULL || sw_config_run(config) == NULL)
        fail_msg("%s: %s, with %s:\n%s", err.message,
                 config != NULL ? sw_config_diagnostic(config, 0)->message : "",
                 sets->count > 0 ? sets->text[0] : "nothing", text);
    return config;
}

/* Every `stride`-th rejected mesh's help makes the run fit; those of the closest ones are what is
 * printed. Returns how many were tried. *wanted (may be NULL): the first setting of the closest. */
static int32_t check_helps(const char *text, int32_t stride, char wanted[64])
{
    struct sw_search s, again;
    struct sw_error err = {0};
    struct sets sets = {.count = 0};
    int32_t tried = 0;
    struct sw_config *config = read_run(text, &sets);
    if (sw_search_run(sw_config_run(config), SW_FOR_TRAIN, SW_EVERY_ROW, &s, &err) != 0 ||
        sw_search_explain(sw_config_run(config), &s, s.feasible, s.count, &err) != 0)
        fail_msg("%s:\n%s", err.message, text);
    for (int32_t i = s.feasible; i < s.count; i += i < s.feasible + 3 ? 1 : stride) {
        const char *help = s.mesh[i].help;
        if (s.mesh[i].suggestion.count == 0)
            fail_msg("no help for %s: %s", s.mesh[i].detail, text);
        if (wanted != NULL && i == s.feasible)
            snprintf(wanted, 64, "%s", s.mesh[i].suggestion.change[0].setting);
        if (s.mesh[i].reason == SW_REJECT_PRODUCT && strncmp(help, "use mesh_dim: auto", 18) == 0)
            help = "use mesh_dim: auto";
        read_help(help, &sets);
        struct sw_config *changed = read_run(text, &sets);
        if (sw_search_run(sw_config_run(changed), SW_FOR_TRAIN, SW_EVERY_ROW, &again, &err) != 0)
            fail_msg("%s: %s:\n%s", help, err.message, text);
        /* a mesh that was rejected among others may need to be named */
        if (again.feasible == 0)
            fail_msg("'%s' does not help: %s:\n%s", help, again.mesh[0].detail, text);
        sw_search_free(&again);
        sw_config_free(changed);
        tried++;
    }
    sw_search_free(&s);
    sw_config_free(config);
    return tried;
}

/* In `out`, whose room is enough. */
static const char *tight_run(char out[2048], int nodes, const char *memory, long sequence,
                             long batch, const char *more)
{
    snprintf(
        out, 2048,
        "name: tight\n"
        "model: {vocab_size: 32000, hidden_size: 4096, intermediate_size: 11008, "
        "num_hidden_layers: 32, num_attention_heads: 32, num_key_value_heads: 8}\n"
        "cluster:\n  name: c\n  nodes: %d\n  accelerators_per_node: 8\n"
        "  accelerator: {name: a, device: cuda, memory: %s, peak: {bf16: 275 TFLOP/s, fp32: 46 "
        "TFLOP/s}, memory_bandwidth: 1.2 TB/s}\n"
        "  links: [{name: in, spans: node, bandwidth: 300 GB/s, latency: 3 us}, {name: out, "
        "spans: all, bandwidth: 25 GB/s, latency: 6 us}]\n"
        "sequence_length: %ld\nglobal_batch_size: %ld\n%s",
        nodes, memory, sequence, batch, more);
    return out;
}

static void nothing_fits(void **state)
{
    (void)state;
    static const struct {
        int nodes;
        const char *memory;
        long sequence, batch;
        const char *more, *wanted;
    } cases[] = {
        /* the state lacks room: other nodes */
        {3, "4 GB", 4096, 24, "", "cluster.nodes"},
        {2, "3 GB", 4096, 16, "", "cluster.nodes"},
        {3, "4 GB", 4096, 24, "mesh_dim: '1,8,3,1'\n", "cluster.nodes"},
        {3, "4 GB", 4096, 24, "mesh_dim: '1,8,8,1'\n", "cluster.nodes"},
        /* the activations do: more nodes share them, too, unless a length has no divisors */
        {8, "5 GB", 524288, 64, "", "cluster.nodes"},
        {8, "5 GB", 524288, 64, "mesh_dim: '1,8,8,1'\n", "cluster.nodes"},
        {8, "5 GB", 262143, 64, "", "sequence_length"},
        {8, "5 GB", 262139, 64, "mesh_dim: '1,8,8,1'\n", "sequence_length"},
        /* what the run fixed */
        {8, "5 GB", 8192, 512, "recompute: none\nmicro_batch_size: 8\n", "recompute"},
        {8, "2 GB", 8192, 512, "micro_batch_size: 8\n", "micro_batch_size"},
        /* no number of nodes is enough for a layer's weights */
        {1, "0.05 GB", 128, 8, "", "cluster.accelerator.memory"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[2048], wanted[64] = "";
        tight_run(text, cases[i].nodes, cases[i].memory, cases[i].sequence, cases[i].batch,
                  cases[i].more);
        assert_true(check_helps(text, 9, wanted) > 0);
        if (strcmp(wanted, cases[i].wanted) != 0)
            fail_msg("case %zu: %s first, not %s:\n%s", i, wanted, cases[i].wanted, text);
    }
}

/* The least number of nodes that fits, every smaller one tried; 0: none is named. */
static void the_fewest_nodes(void **state)
{
    (void)state;
    static const struct {
        const char *model, *cluster;
        int nodes;
        long sequence, batch;
        int wanted;
    } cases[] = {
        {"llama-3.1-70b", "dgx-a100-40gb-16x8", 3, 8192, 64, 5},
        {"llama-3.1-405b", "h100-8x8", 8, 8192, 64, 12},
        {"llama-3.1-70b", "h100-8x8", 1, 32768, 16, 2}, /* its file has no link between nodes */
        {"llama-3.1-405b", "dgx-a100-40gb-16x8", 1, 8192, 8, 0},
        {"llama-3.1-405b", "p4d-efa-16x8", 7, 8192, 64, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[1024], nodes[32];
        struct sets sets = {.override = {{nodes}}, .count = 1};
        struct sw_search s, fewer;
        struct sw_error err = {0};
        snprintf(text, sizeof text,
                 "name: r\nmodel: configs/models/%s.yaml\ncluster: configs/clusters/%s.yaml\n"
                 "sequence_length: %ld\nglobal_batch_size: %ld\n",
                 cases[i].model, cases[i].cluster, cases[i].sequence, cases[i].batch);
        snprintf(nodes, sizeof nodes, "cluster.nodes=%d", cases[i].nodes);
        struct sw_config *config = read_run(text, &sets);
        assert_int_equal(sw_search_run(sw_config_run(config), SW_FOR_TRAIN, SW_EVERY_ROW, &s, &err),
                         0);
        assert_int_equal(s.feasible, 0);
        assert_string_equal(s.mesh[0].suggestion.change[0].setting, "cluster.nodes");
        const int said = atoi(s.mesh[0].suggestion.change[0].to);
        if (cases[i].wanted > 0 && said != cases[i].wanted)
            fail_msg("%s on %s: %d nodes are said to fit, not %d", cases[i].model, cases[i].cluster,
                     said, cases[i].wanted);
        for (int n = 1; n <= said; n++) {
            struct sw_run_config run = *sw_config_run(config);
            sw_cluster_resize(&run.cluster, n);
            assert_int_equal(sw_search_meshes_alone(&run, SW_EVERY_ROW, &fewer, &err), 0);
            if ((fewer.feasible > 0) != (n == said))
                fail_msg("%s on %s: %d nodes are said to fit, but %d %s", cases[i].model,
                         cases[i].cluster, said, n, fewer.feasible > 0 ? "do" : "do not");
            sw_search_free(&fewer);
        }
        sw_search_free(&s);
        sw_config_free(config);
    }
}

/* So many nodes that nothing divides: fewer, not a batch or a memory that nobody has. */
static void far_too_many_nodes(void **state)
{
    (void)state;
    struct sw_search s;
    struct sw_error err = {0};
    struct sw_config *config =
        sw_config_read("configs/runs/llama-8b-64.yaml", SW_CONFIG_RUN, NULL,
                       (const struct sw_override[]){{"cluster.nodes=100000"}}, 1, &err);
    assert_non_null(config);
    assert_int_equal(sw_search_run(sw_config_run(config), SW_FOR_TRAIN, SW_EVERY_ROW, &s, &err), 0);
    assert_int_equal(s.feasible, 0);
    assert_string_equal(s.mesh[0].suggestion.change[0].setting, "cluster.nodes");
    struct sw_run_config run = *sw_config_run(config);
    sw_cluster_resize(&run.cluster, atoi(s.mesh[0].suggestion.change[0].to));
    sw_search_free(&s);
    assert_int_equal(sw_search_meshes_alone(&run, SW_EVERY_ROW, &s, &err), 0);
    assert_true(s.feasible > 0);
    sw_search_free(&s);
    sw_config_free(config);
}

static void random_runs_that_do_not_fit(void **state)
{
    (void)state;
    static const int nodes[] = {1, 2, 3, 4, 6, 8};
    static const char *const memories[] = {"1 GB", "2 GB", "4 GB", "6 GB", "9 GB"};
    static const long sequences[] = {2048, 16384, 131072}, batches[] = {1, 3, 8, 64};
    static const char *const more[] = {"",
                                       "recompute: none\n",
                                       "micro_batch_size: 4\n",
                                       "mesh_dim: '1,-1,2,1'\n",
                                       "mesh_dim: '2,2,2,1'\n",
                                       "attention: {strategy: auto}\n"};
    uint32_t seed = 7;
    int32_t tried = 0;
    for (int i = 0; i < 40 / sw_test_share(); i++) {
        char text[2048];
        uint32_t draw[5];
        for (int k = 0; k < 5; k++)
            draw[k] = (seed = seed * 1664525u + 1013904223u) >> 10;
        tight_run(text, nodes[draw[0] % 6], memories[draw[1] % 5], sequences[draw[2] % 3],
                  batches[draw[3] % 4], more[draw[4] % 6]);
        tried += check_helps(text, 31, NULL);
    }
    assert_true(tried > 60 / sw_test_share());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rejection),
        cmocka_unit_test(settings_of_the_run),
        cmocka_unit_test(a_mesh_that_is_asked_for),
        cmocka_unit_test(numbers_of_memory),
        cmocka_unit_test(nothing_fits),
        cmocka_unit_test(the_fewest_nodes),
        cmocka_unit_test(far_too_many_nodes),
        cmocka_unit_test(random_runs_that_do_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
