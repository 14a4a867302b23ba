/* Conditions, flat lists of settings, paths seen from a folder, and a comment's limit. */
#include "planner/diff/diff.h"
#include "planner/scheduler/scheduler.h"
#include "core/plan/inputs.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct sw_measures before = {.value = {[SW_MEASURE_STEP] = 1.82,
                                                    [SW_MEASURE_MEMORY] = 71.2e9,
                                                    [SW_MEASURE_LIMIT] = 80e9,
                                                    [SW_MEASURE_TOKENS_PER_SECOND] = 1000,
                                                    [SW_MEASURE_MFU] = 0.40,
                                                    [SW_MEASURE_COMMUNICATION] = 0.2,
                                                    [SW_MEASURE_COMMUNICATION_BYTES] = 10e9,
                                                    [SW_MEASURE_HEADROOM] = 4e9,
                                                    [SW_MEASURE_ACCELERATORS] = 64,
                                                    [SW_MEASURE_DURATION] = 7000,
                                                    [SW_MEASURE_ACCELERATOR_HOURS] = 124,
                                                    [SW_MEASURE_END] = 36000,
                                                    [SW_MEASURE_RUN_HOURS] = 130,
                                                    [SW_MEASURE_MONEY] = 310,
                                                    [SW_MEASURE_ENERGY] = 3.6e8,
                                                    [SW_MEASURE_NODES] = 8,
                                                    [SW_MEASURE_TIME_LIMIT] = 86400},
                                          .word = {"1,64,1,1", "none", "fits", "gpu"},
                                          .currency = "USD"};
static const struct sw_measures after = {
    .value = {[SW_MEASURE_STEP] = 1.95,
              [SW_MEASURE_MEMORY] = 77.1e9,
              [SW_MEASURE_LIMIT] = 80e9,
              [SW_MEASURE_TOKENS_PER_SECOND] = 900,
              [SW_MEASURE_MFU] = 0.36,
              [SW_MEASURE_COMMUNICATION] = 0.4,
              [SW_MEASURE_COMMUNICATION_BYTES] = 20e9,
              [SW_MEASURE_HEADROOM] = 4e9,
              [SW_MEASURE_ACCELERATORS] = 128,
              [SW_MEASURE_DURATION] = 7500,
              [SW_MEASURE_ACCELERATOR_HOURS] = 267,
              [SW_MEASURE_END] = 39600,
              [SW_MEASURE_RUN_HOURS] = 280,
              [SW_MEASURE_MONEY] = 667.5,
              [SW_MEASURE_ENERGY] = 7.2e8,
              [SW_MEASURE_NODES] = 16,
              [SW_MEASURE_TIME_LIMIT] = INFINITY},
    .word = {"1,128,1,1", "full", "fits_without_headroom", "gpu,long"},
    .currency = "USD"};

static void judges(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum sw_fail_if_verdict verdict;
        const char *detail;
    } cases[] = {
        {"memory > 0.92*limit", SW_FAIL_IF_FAIL, "77.1 GB > 73.6 GB"},
        {"memory > 0.97 * limit", SW_FAIL_IF_PASS, "77.1 GB <= 77.6 GB"},
        {"step > +5%", SW_FAIL_IF_FAIL, "1.95 s > 1.91 s, which is 1.82 s +5 %"},
        {"step > +10%", SW_FAIL_IF_PASS, "1.95 s <= 2.00 s, which is 1.82 s +10 %"},
        {"tokens_per_second < -5 %", SW_FAIL_IF_FAIL, "900 < 950, which is 1,000 -5 %"},
        {"mfu < 40%", SW_FAIL_IF_FAIL, "0.36 < 0.4"},
        {"mfu<0.3", SW_FAIL_IF_PASS, "0.36 >= 0.3"},
        {"slow: step >= 1950 ms", SW_FAIL_IF_FAIL, "1.95 s >= 1.95 s"},
        {"memory > 70 GiB", SW_FAIL_IF_FAIL, "77.1 GB > 75.2 GB"},
        {"memory > 77.2e9", SW_FAIL_IF_PASS, "77.1 GB <= 77.2 GB"},
        {"communication/step > 0.2", SW_FAIL_IF_FAIL, "0.2051 > 0.2"},
        {"communication > 2*(old.communication - 10 ms) + 0", SW_FAIL_IF_FAIL, "400 ms > 380 ms"},
        {"limit - memory < 3 GB", SW_FAIL_IF_FAIL, "2.9 GB < 3.0 GB"},
        {"communication_bytes/step > 12 GB/s", SW_FAIL_IF_PASS, "10.3 GB/s <= 12.0 GB/s"},
        {"tokens_per_second == 900 tokens/s", SW_FAIL_IF_FAIL, "900 == 900"},
        {"-mfu != -(0.36)", SW_FAIL_IF_PASS, "-0.36 == -0.36"},
        {"step/(limit-limit) > 1", SW_FAIL_IF_FAIL, "a division by zero"},
        {"room: memory > limit - headroom", SW_FAIL_IF_FAIL, "77.1 GB > 76.0 GB"},
        {"limit - memory - headroom < 0", SW_FAIL_IF_FAIL, "-1.1 GB < 0 B"},
        {"tokens_per_second * 500 > 1", SW_FAIL_IF_FAIL, "450,000 > 1"},
        {"duration > 2 h", SW_FAIL_IF_FAIL, "2.1 h > 2.0 h"},
        {"duration > 126min", SW_FAIL_IF_PASS, "2.1 h <= 2.1 h"},
        {"duration - old.duration > 8 min", SW_FAIL_IF_FAIL, "8.3 min > 8.0 min"},
        {"accelerator_hours > +5%", SW_FAIL_IF_FAIL, "267 > 130.2, which is 124 +5 %"},
        {"accelerator_hours > 300", SW_FAIL_IF_PASS, "267 <= 300"},
        {"accelerators > old.accelerators", SW_FAIL_IF_FAIL, "128 > 64"},
        {"accelerators > +0%", SW_FAIL_IF_FAIL, "128 > 64, which is 64 +0 %"},
        {"mesh != old.mesh", SW_FAIL_IF_FAIL, "1,128,1,1 != 1,64,1,1"},
        {"mesh == old.mesh", SW_FAIL_IF_PASS, "1,128,1,1 != 1,64,1,1"},
        {"mesh == 1, 128, 1, 1", SW_FAIL_IF_FAIL, "1,128,1,1 == 1,128,1,1"},
        {"moved: old.mesh != mesh", SW_FAIL_IF_FAIL, "1,64,1,1 != 1,128,1,1"},
        {"recompute != old.recompute", SW_FAIL_IF_FAIL, "full != none"},
        {"recompute == partial", SW_FAIL_IF_PASS, "full != partial"},
        {"verdict != fits", SW_FAIL_IF_FAIL, "fits_without_headroom != fits"},
        {"verdict==fits", SW_FAIL_IF_PASS, "fits_without_headroom != fits"},
        {" rejected ", SW_FAIL_IF_PASS, "a mesh fits"},
        {"accelerator_hours > 266 GPU-hours", SW_FAIL_IF_FAIL, "267 > 266"},
        {"accelerator_hours > 20000 GPU-minutes", SW_FAIL_IF_PASS, "267 <= 333.3"},
        {"accelerator_hours-old.accelerator_hours>142.5", SW_FAIL_IF_FAIL, "143 > 142.5"},
        {"run_hours > 1 GPU-days", SW_FAIL_IF_FAIL, "280 > 24"},
        {"run_hours > +120%", SW_FAIL_IF_PASS, "280 <= 286, which is 130 +120 %"},
        {"money > 600 USD", SW_FAIL_IF_FAIL, "667.5 USD > 600 USD"},
        {"money > 668", SW_FAIL_IF_PASS, "667.5 USD <= 668 USD"},
        {"money > 600 EUR", SW_FAIL_IF_FAIL, "money is in USD, not in EUR"},
        {"money - old.money > 350 USD", SW_FAIL_IF_FAIL, "357.5 USD > 350 USD"},
        {"money > +120%", SW_FAIL_IF_PASS, "667.5 USD <= 682 USD, which is 310 USD +120 %"},
        {"money / accelerator_hours > 2.4", SW_FAIL_IF_FAIL, "2.5 USD > 2.4 USD"},
        {"end > 0.5 days", SW_FAIL_IF_PASS, "11.0 h <= 12.0 h"},
        {"end > 10 h", SW_FAIL_IF_FAIL, "11.0 h > 10.0 h"},
        {"end-old.end>59 min", SW_FAIL_IF_FAIL, "1.0 h > 59.0 min"},
        {"energy > 0.15 MWh", SW_FAIL_IF_FAIL, "200 kWh > 150 kWh"},
        {"nodes > 2 * old.nodes", SW_FAIL_IF_PASS, "16 <= 16"},
        {"time_limit > 24 h", SW_FAIL_IF_FAIL, "no end > 24.0 h"},
        {"time_limit < 24 h", SW_FAIL_IF_PASS, "no end >= 24.0 h"},
        {"time_limit > +10%", SW_FAIL_IF_FAIL, "no end > 26.4 h, which is 24.0 h +10 %"},
        {"time_limit - time_limit > 0", SW_FAIL_IF_FAIL, "a division by zero"},
        {"partition == long", SW_FAIL_IF_FAIL, "gpu,long == long"},
        {"partition == lon", SW_FAIL_IF_PASS, "gpu,long != lon"},
        {"partition != old.partition", SW_FAIL_IF_PASS, "gpu,long == gpu"},
        {"2 - 1 - 1 < 1", SW_FAIL_IF_FAIL, "0 < 1"},
        {"8 / 4 / 2 > 1", SW_FAIL_IF_PASS, "1 <= 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sw_fail_if condition;
        struct sw_error err = {0};
        char detail[160];
        if (sw_fail_if_parse(cases[i].text, &condition, &err) != 0)
            fail_msg("%s: %s", cases[i].text, err.message);
        assert_int_equal(sw_fail_if_test(&condition, &before, &after, detail, sizeof detail),
                         cases[i].verdict);
        assert_string_equal(detail, cases[i].detail);
    }
}

static void skips_without_old(void **state)
{
    (void)state;
    static const char *const texts[] = {"step > +5%", "step > old.step", "mesh != old.mesh"};
    for (size_t i = 0; i < 3; i++) {
        struct sw_fail_if condition;
        char detail[160];
        assert_int_equal(sw_fail_if_parse(texts[i], &condition, NULL), 0);
        assert_int_equal(sw_fail_if_test(&condition, NULL, &after, detail, sizeof detail),
                         SW_FAIL_IF_SKIPPED);
        assert_string_equal(detail, "there is no old plan to compare with");
    }
}

/* In a file of a site's. */
static void conditions_on_one_plan(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"nodes > old.nodes", "site.yaml:7:23: error: there is no old plan here; write what the "
                              "plan itself must not be, as in 'nodes > 64'"},
        {"step > +5%", "site.yaml:7:22: error: there is no old plan here; write what the plan "
                       "itself must not be, as in 'nodes > 64'"},
        {"mesh != old.mesh", "site.yaml:7:23: error: there is no old plan here; write what the "
                             "plan itself must not be, as in 'nodes > 64'"},
        {"old.mesh != mesh", "site.yaml:7:15: error: there is no old plan here; write what the "
                             "plan itself must not be, as in 'nodes > 64'"},
    };
    const struct sw_place at = {"site.yaml", 7, 15};
    struct sw_fail_if condition;
    struct sw_measures measures = after;
    char detail[160], said[SW_ERROR_TEXT_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sw_error err = {0};
        assert_int_equal(sw_fail_if_parse_alone(cases[i].text, &at, &condition, &err), -1);
        assert_string_equal(sw_error_format(&err, NULL, said), cases[i].message);
    }
    assert_int_equal(sw_fail_if_parse_alone("money > 600 EUR", &at, &condition, NULL), 0);
    assert_int_equal(sw_fail_if_test(&condition, NULL, &after, detail, sizeof detail),
                     SW_FAIL_IF_SKIPPED);
    measures.value[SW_MEASURE_MONEY] = NAN;
    assert_int_equal(sw_fail_if_test(&condition, NULL, &measures, detail, sizeof detail),
                     SW_FAIL_IF_SKIPPED);
    assert_string_equal(detail, "the run does not say cluster.price_per_accelerator_hour");
}

static void names(void **state)
{
    (void)state;
    struct sw_fail_if condition;
    assert_int_equal(sw_fail_if_parse(" head room : memory > limit", &condition, NULL), 0);
    assert_string_equal(condition.name, "head room");
    assert_int_equal(sw_fail_if_parse("memory > limit ", &condition, NULL), 0);
    assert_string_equal(condition.name, "memory > limit");
}

static void points_at_mistakes(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"memry > 1", "1: error: unknown name 'memry'; did you mean 'memory'?"},
        {"x: memory > limit * zzz",
         "21: error: unknown name 'zzz'; use step, duration, end, accelerator_hours, run_hours, "
         "money, "
         "energy, memory, limit, headroom, tokens_per_second, mfu, communication, "
         "communication_bytes, accelerators, nodes or time_limit; of serving token, first or "
         "beside; mesh, recompute, verdict or partition with == or !=; or rejected"},
        {"mesh > old.mesh", "6: error: words are only equal or not; use == or !="},
        {"mesh != 1,64,1", "9: error: no mesh; use sizes of dp,fsdp,tp,sp as in 1,64,1,1, or "
                           "old.mesh"},
        {"mesh != 1,0,1,1", "9: error: no mesh; use sizes of dp,fsdp,tp,sp as in 1,64,1,1, or "
                            "old.mesh"},
        {"recompute == auto", "14: error: no recompute; use none, partial, full, or "
                              "old.recompute"},
        {"verdict == good", "12: error: no verdict; use fits, fits_without_headroom, or "
                            "old.verdict"},
        {"mesh != recompute", "9: error: these two do not compare; compare with the old one, as in "
                              "'mesh != old.mesh'"},
        {"mesh != old.mesh + 1", "18: error: the condition should end here; write another "
                                 "--fail-if for another comparison"},
        {"mesh", "5: error: expected a comparison; use < <= > >= == or !="},
        {"rejected == 1", "1: error: 'rejected' is not a number; it stands alone, as in 'mesh != "
                          "old.mesh', 'recompute == full' or 'rejected'"},
        {"1 < mesh", "5: error: 'mesh' is not a number; it stands alone, as in 'mesh != old.mesh', "
                     "'recompute == full' or 'rejected'"},
        {"rejectd", "1: error: unknown name 'rejectd'; did you mean 'rejected'?"},
        {"",
         "1: error: the condition ends too early; write it as in 'memory > limit - headroom' or "
         "'step > +5%'"},
        {"memory >", "9: error: the condition ends too early; write it as in 'memory > limit - "
                     "headroom' or 'step > +5%'"},
        {"memory limit", "8: error: expected a comparison; use < <= > >= == or !="},
        {"memory => limit", "8: error: expected a comparison; use < <= > >= == or !="},
        {"memory > 3 parsecs", "12: error: unknown unit 'parsecs'; use B, kB, MB, GB, TB, GiB, s, "
                               "ms, us, min, h, days, GB/s, tokens/s, GPU-hours, kWh, a currency "
                               "such as USD, or '*' to multiply"},
        {"accelerator_hours > 3 node-hours",
         "23: error: unknown unit 'node'; use B, kB, MB, GB, TB, GiB, s, ms, us, min, h, days, "
         "GB/s, tokens/s, GPU-hours, kWh, a currency such as USD, or '*' to multiply"},
        {"money > 1 USD + 1 EUR",
         "19: error: two currencies in one condition; write all amounts in that of the cluster"},
        {"money > 3 h", "9: error: money and seconds do not compare; give both sides the same "
                        "unit; a change against the old plan is +5% or -5%"},
        {"end > 3 USD", "7: error: seconds and money do not compare; give both sides the same "
                        "unit; a change against the old plan is +5% or -5%"},
        {"memory > 3 GPU-hours",
         "10: error: bytes and a pure number do not compare; give both sides the same unit; a "
         "change against the old plan is +5% or -5%"},
        {"partition > gpu", "11: error: words are only equal or not; use == or !="},
        {"partition ==", "13: error: no partition; use a partition's name, or old.partition"},
        {"memory > 1.5 s", "10: error: bytes and seconds do not compare; give both sides the same "
                           "unit; a change against the old plan is +5% or -5%"},
        {"step > 5%", "8: error: seconds and a pure number do not compare; give both sides the "
                      "same unit; a change against the old plan is +5% or -5%"},
        {"memory + step > 1", "8: error: bytes and seconds do not compare; give both sides the "
                              "same unit; a change against the old plan is +5% or -5%"},
        {"(((mfu}", "7: error: a ')' is missing; close the parenthesis"},
        {"(memory > 1", "9: error: a ')' is missing; close the parenthesis"},
        {"memory > limit > 1", "16: error: the condition should end here; write another --fail-if "
                               "for another comparison"},
        {"memory > 0x10", "10: error: no number; write it as in 0.92 or 70 GB"},
        {"memory > $",
         "10: error: no number and no name; write it as in 'memory > limit - headroom' "
         "or 'step > +5%'"},
        {": memory > 1", "1: error: the name before ':' is empty or too long; write it as in "
                         "'room: memory > limit - headroom'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sw_fail_if condition;
        struct sw_error err = {0};
        char wanted[480];
        snprintf(wanted, sizeof wanted, "--fail-if:1:%s", cases[i].message);
        assert_int_equal(sw_fail_if_parse(cases[i].text, &condition, &err), -1);
        char said[SW_ERROR_TEXT_BYTES];
        assert_string_equal(sw_error_format(&err, NULL, said), wanted);
        assert_int_equal(err.status, SW_BAD_INPUT);
    }
    char deep[400];
    struct sw_fail_if condition;
    memset(deep, '(', sizeof deep);
    deep[sizeof deep - 1] = '\0';
    assert_int_equal(sw_fail_if_parse(deep, &condition, NULL), -1);
    memset(deep, '-', sizeof deep - 1);
    assert_int_equal(sw_fail_if_parse(deep, &condition, NULL), -1);
    for (size_t i = 0; i + 2 < sizeof deep; i += 2)
        memcpy(deep + i, "1+", 2);
    deep[sizeof deep - 2] = '\0';
    assert_int_equal(sw_fail_if_parse(deep, &condition, NULL), -1);
}

/* "key value" lines. */
static void read_list(const char *text, struct sw_settings *out)
{
    struct sw_error err = {0};
    char key[64], value[64];
    int used = 0;
    *out = (struct sw_settings){0};
    for (; sscanf(text, "%63s %63s%n", key, value, &used) == 2; text += used)
        if (sw_settings_add(out, key, value, &err) != 0)
            fail_msg("%s", err.message);
    sw_settings_sort(out);
}

static void list(void *context, const char *key, const char *value)
{
    assert_int_equal(sw_settings_add(context, key, value, NULL), 0);
}

static void flattens(void **state)
{
    (void)state;
    struct sw_settings s = {0};
    struct sw_run_config run = {.name = "it's",
                                .mesh_dim = "auto",
                                .directory = "a\nb",
                                .checkpoint_directory = "c",
                                .checkpoint_signal = SIGUSR1,
                                .serve_weights = SW_DTYPE_COUNT};
    run.cluster.launchers = &sw_launchers;
    run.cluster.name = run.cluster.accelerator.name = "x";
    run.cluster.link_count = 2;
    run.cluster.link[0] = (struct sw_link_config){
        .name = "a, b", .spans = 8, .efficiency = {2, {{1, 0.5}, {2, 0.6}}}};
    run.cluster.link[1] = (struct sw_link_config){.name = "far", .spans = 64};
    run.optimizer.beta1 = 0.9;
    run.optimizer.beta2 = 0.95;
    run.rule_count = 1;
    run.rule[0] = (struct sw_rule_config){.logical = "embed", .count = 2, .axis = {"fsdp", "sp"}};
    sw_run_config_visit(&run, "run", list, &s);
    sw_settings_sort(&s);
    for (int32_t i = 1; i < s.count; i++)
        assert_true(strcmp(s.item[i - 1].key, s.item[i].key) < 0);
    assert_string_equal(sw_settings_find(&s, "run.name"), "it's");
    assert_string_equal(sw_settings_find(&s, "run.directory"), "\"a\\x0ab\"");
    assert_string_equal(sw_settings_find(&s, "run.cluster.links.a, b.spans"), "8");
    assert_string_equal(sw_settings_find(&s, "run.cluster.links.a, b.efficiency"),
                        "[[1.0, 0.5], [2.0, 0.6]]");
    assert_null(sw_settings_find(&s, "run.cluster.links.far.efficiency"));
    assert_string_equal(sw_settings_find(&s, "run.cluster.links.far.spans"), "64");
    assert_string_equal(sw_settings_find(&s, "run.cluster.launcher"), "slurm");
    assert_string_equal(sw_settings_find(&s, "run.optimizer.betas"), "[0.9, 0.95]");
    assert_string_equal(sw_settings_find(&s, "run.rules.embed"), "[fsdp, sp]");
    assert_string_equal(sw_settings_find(&s, "run.checkpoint.signal"), "USR1");
    assert_null(sw_settings_find(&s, "run.cluster.host_memory"));
    assert_null(sw_settings_find(&s, "run.init.from"));
    assert_null(sw_settings_find(&s, "run.cluster"));
    assert_null(sw_settings_find(&s, "run.slurm.exclusive"));
    sw_settings_free(&s);
}

static void compares(void **state)
{
    (void)state;
    struct sw_settings a, b;
    struct sw_setting_change *change;
    char text[SW_SETTING_TEXT];
    read_list("run.a 1 run.b 2 run.data.path /old/tree/data.txt run.gone x", &a);
    read_list("run.a 1 run.b 3 run.came y run.data.path /new/tree/data.txt", &b);
    assert_int_equal(sw_settings_compare(&a, "/old/tree/runs", &b, "/new/tree/runs", &change, NULL),
                     3);
    assert_string_equal(change[0].key, "run.b");
    assert_string_equal(change[0].old_value, "2");
    assert_string_equal(change[0].new_value, "3");
    assert_string_equal(change[1].key, "run.came");
    assert_null(change[1].old_value);
    assert_string_equal(change[2].key, "run.gone");
    assert_null(change[2].new_value);
    free(change);
    assert_int_equal(sw_settings_compare(&a, "/old/tree", &b, "/new/tree/runs", &change, NULL), 4);
    free(change);
    assert_int_equal(sw_settings_compare(&a, "/x", &a, "/y", &change, NULL), 0);
    assert_null(change);
    sw_settings_free(&a);
    sw_settings_free(&b);
    assert_string_equal(
        sw_setting_format("run.cluster.accelerator.memory", "80000000000", ".", text), "80 GB");
    assert_string_equal(sw_setting_format("x.latency", "3.0e-6", ".", text), "3 us");
    /* memory that is round in the other units */
    assert_string_equal(sw_setting_format("x.memory", "85520809984", ".", text), "81559 MiB");
    assert_string_equal(sw_setting_format("x.memory", "34359738368", ".", text), "32 GiB");
    assert_string_equal(sw_setting_format("x.memory", "1342177280", ".", text), "1.25 GiB");
    assert_string_equal(sw_setting_format("x.memory", "81219908608", ".", text), "81219908608");
    assert_string_equal(sw_setting_format("run.recompute", "auto", ".", text), "auto");
    assert_string_equal(sw_setting_format("decision.train.recompute",
                                          "{values: [n1, up, h], layers: 56, rest: [n1, h]}", ".",
                                          text),
                        "n1, h in all layers, up in the first 56 layers");
    assert_string_equal(
        sw_setting_format("run.recompute", "{values: all, layers: 3, rest: [q0+b]}", ".", text),
        "all in the first 3 layers, q0+b in the rest");
    assert_string_equal(
        sw_setting_format("run.recompute", "{values: [n1, h], layers: all}", ".", text),
        "n1, h in all layers");
    assert_string_equal(sw_setting_format("run.data.path", "/a/b/c", "/a/d", text), "../b/c");
    assert_string_equal(sw_setting_format("run.init.from", "/a/b/c", "/a/d", text), "../b/c");
    assert_string_equal(sw_setting_format("run.cluster.host_memory", "2000000000000", ".", text),
                        "2 TB");
    assert_string_equal(sw_setting_format("run.checkpoint.bandwidth", "2000000000.0", ".", text),
                        "2 GB/s");
    assert_string_equal(sw_setting_format("run.memory_headroom", "0.05", ".", text), "5 %");
    assert_string_equal(sw_setting_format("run.memory_headroom", "0.0", ".", text), "0 %");
    assert_string_equal(sw_setting_format("run.nodes", "8", ".", text), "8");
}

static void sees_paths_from_folders(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"/a/b", "/a/b/c.yaml", "c.yaml"}, {"/a/b", "/a/bc/d", "../bc/d"},
        {"/a/b/", "/a//b/./c/../d", "d"},  {"/", "/a", "a"},
        {"/a/b/c", "/", "../../.."},       {"/a/b", "/a/b", "."},
        {"/a/b/c", "/a", "../.."},         {"/a", "/a/../b/x", "../b/x"},
        {"x/y", "x/z/f", "../z/f"},        {"/../a", "/a/f", "f"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *got = sw_path_relative(cases[i][0], cases[i][1]);
        assert_string_equal(got, cases[i][2]);
        free(got);
    }
}

/* A comment of any size fits, says when it was cut, and keeps what failed. */
static void fits_a_comment(void **state)
{
    (void)state;
    enum { FILES = 300, ROWS = 100 };
    static const size_t limits[] = {1 << 30, 65536, 20000, 8000};
    struct sw_fail_if condition;
    assert_int_equal(sw_fail_if_parse("room: memory > limit", &condition, NULL), 0);
    struct sw_setting_change *change = calloc(ROWS, sizeof *change);
    char value[600];
    memset(value, '|', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    for (int32_t i = 0; i < ROWS; i++)
        change[i] = (struct sw_setting_change){"run.@team", value, "</code><b>"};
    struct sw_diff_outcome outcome = {&condition, SW_FAIL_IF_FAIL, "77.1 GB > 73.6 GB"};
    struct sw_diff_file *file = calloc(FILES, sizeof *file);
    struct sw_diff diff = {.file = calloc(FILES, sizeof *diff.file),
                           .count = FILES,
                           .changed = FILES,
                           .is_directory = true,
                           .headline = "300 changed"};
    assert_non_null(file);
    for (int32_t i = 0; i < FILES; i++) {
        diff.file[i] = &file[i];
        file[i].path = value;
        file[i].status = SW_DIFF_CHANGED;
        file[i].before.base = file[i].after.base = ".";
        file[i].setting = change;
        file[i].setting_count = ROWS;
        strcpy(file[i].headline, "step 1.82 -> 1.61 s");
    }
    file[FILES - 1].outcome = &outcome;
    file[FILES - 1].outcome_count = file[FILES - 1].failed_count = 1;
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        char *text = NULL;
        size_t bytes = 0;
        struct sw_error err = {0};
        if (i == 0)
            diff.count = 2; /* all of it is not written in a test */
        FILE *out = open_memstream(&text, &bytes);
        if (sw_diff_print_markdown(out, &diff, limits[i], &err) != 0)
            fail_msg("%s", err.message);
        fclose(out);
        diff.count = FILES;
        assert_true(bytes <= limits[i]);
        assert_int_equal(strstr(text, "Shortened to fit a comment") != NULL, i > 0);
        assert_null(strstr(text, "||"));
        assert_null(strstr(text, "@team"));
        assert_null(strstr(text, "<b>"));
        if (i > 0)
            assert_non_null(strstr(text, "**failed** <code>room</code>"));
        free(text);
    }
    free(diff.file);
    free(file);
    free(change);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(judges),
        cmocka_unit_test(skips_without_old),
        cmocka_unit_test(conditions_on_one_plan),
        cmocka_unit_test(names),
        cmocka_unit_test(points_at_mistakes),
        cmocka_unit_test(flattens),
        cmocka_unit_test(compares),
        cmocka_unit_test(sees_paths_from_folders),
        cmocka_unit_test(fits_a_comment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
