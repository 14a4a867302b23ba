/* A suggestion is a promise: for every rejected mesh of many searches, applying the change makes
 * the verdict flip. */
#include "planner/search/search.h"
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
    if (sw_search_run(&changed, &s, &err) != 0)
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
    if (sw_search_run(run, &s, &err) != 0 ||
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
    assert_int_equal(sw_search_run(&run, &s, NULL), 0);
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
    assert_int_equal(sw_search_run(sw_config_run(config), &s, NULL), 0);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rejection),
        cmocka_unit_test(settings_of_the_run),
        cmocka_unit_test(a_mesh_that_is_asked_for),
        cmocka_unit_test(numbers_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
