/* The plan file: what is written is read back, and any edited byte is found. */
#include "core/plan/plan.h"
#include "tests/unit/plan_support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static char path[4096];

static struct sw_decision decision_of(void)
{
    return (struct sw_decision){.mesh = {{2, 4, 8, 4}, {SW_TP, SW_DP, SW_SP, SW_FSDP}},
                                .micro_batch_size = 2,
                                .accumulation_steps = 1,
                                .recompute = SW_RECOMPUTE_ATTENTION,
                                .strategy = SW_STRATEGY_GATHER,
                                .layout = SW_LAYOUT_CONTIGUOUS};
}

static const struct sw_plan_prediction prediction = {1.25, 30000000000, 29000000000};

static char *write_text(const struct sw_run_config *run, size_t *bytes)
{
    char *text = NULL;
    struct sw_error err = {0};
    const struct sw_decision decision = decision_of();
    /* a path with all that YAML could stumble over */
    static char odd[] = "../a b/it's 100%, {\xc3\xa9}: #\n.yaml", plain[] = "cluster.yaml";
    const struct sw_plan_inputs inputs = {{{odd, 0xfedcba9876543210u}, {plain, 7}}, 2};
    FILE *out = open_memstream(&text, bytes);
    assert_int_equal(
        sw_plan_write(out, run, &inputs, &decision, &prediction, 0x0123456789abcdefu, &err), 0);
    fclose(out);
    return text;
}

static void store(const char *text, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, bytes, file), bytes);
    fclose(file);
}

static void reads_back(void **state)
{
    (void)state;
    struct sw_config *config = sw_test_read_run(&sw_test_llama_7b);
    const struct sw_run_config *run = sw_config_run(config);
    assert_non_null(run);
    size_t bytes, again_bytes;
    char *text = write_text(run, &bytes), *again = write_text(run, &again_bytes);
    assert_int_equal(bytes, again_bytes);
    assert_memory_equal(text, again, bytes);
    store(text, bytes);
    struct sw_plan plan;
    struct sw_error err = {0};
    if (sw_plan_read(path, &plan, &err) != 0)
        fail_msg("%s", err.message);
    const struct sw_decision wanted = decision_of();
    assert_memory_equal(&plan.decision.mesh, &wanted.mesh, sizeof wanted.mesh);
    assert_int_equal(plan.decision.micro_batch_size, 2);
    assert_int_equal(plan.decision.accumulation_steps, 1);
    assert_int_equal(plan.decision.recompute, SW_RECOMPUTE_ATTENTION);
    assert_int_equal(plan.decision.strategy, SW_STRATEGY_GATHER);
    assert_int_equal(plan.decision.layout, SW_LAYOUT_CONTIGUOUS);
    assert_true(plan.program_digest == 0x0123456789abcdefu);
    assert_true(plan.prediction.step_seconds == 1.25);
    assert_int_equal(plan.prediction.memory_total, prediction.memory_total);
    assert_int_equal(plan.prediction.arena_bytes, prediction.arena_bytes);
    assert_int_equal(plan.inputs.count, 2);
    assert_string_equal(plan.inputs.input[0].path, "../a b/it's 100%, {\xc3\xa9}: #\n.yaml");
    assert_true(plan.inputs.input[0].digest == 0xfedcba9876543210u);
    assert_string_equal(plan.inputs.input[1].path, "cluster.yaml");
    assert_true(plan.inputs.input[1].digest == 7);
    assert_int_equal(plan.run->sequence_length, 1 << 18);
    assert_int_equal(plan.run->cluster.nodes, 64);
    assert_string_equal(plan.run->directory, run->directory);
    /* a plan's run written again is the same plan */
    char *third = write_text(plan.run, &again_bytes);
    assert_int_equal(bytes, again_bytes);
    assert_memory_equal(text, third, bytes);
    sw_plan_free(&plan);
    free(text);
    free(again);
    free(third);
    sw_config_free(config);
}

static void finds_every_edit(void **state)
{
    (void)state;
    struct sw_config *config = sw_test_read_run(&sw_test_llama_7b);
    size_t bytes;
    char *text = write_text(sw_config_run(config), &bytes);
    struct sw_plan plan;
    for (size_t i = 0; i < bytes; i++) {
        struct sw_error err = {0};
        text[i] ^= 1;
        store(text, bytes);
        assert_int_equal(sw_plan_read(path, &plan, &err), -1);
        assert_int_equal(err.status, SW_BAD_INPUT);
        assert_non_null(strstr(err.message, ": error: "));
        assert_null(plan.config);
        text[i] ^= 1;
    }
    for (size_t cut = 0; cut < bytes; cut += 97) {
        struct sw_error err = {0};
        store(text, cut);
        assert_int_equal(sw_plan_read(path, &plan, &err), -1);
    }
    free(text);
    sw_config_free(config);
}

static void says_what_is_wrong(void **state)
{
    (void)state;
    struct sw_config *config = sw_test_read_run(&sw_test_llama_7b);
    size_t bytes;
    struct sw_plan plan;
    struct sw_error err = {0};
    char *text = write_text(sw_config_run(config), &bytes), wanted[4300];
    *strstr(text, "sequence_length: 2") = 'S';
    store(text, bytes);
    assert_int_equal(sw_plan_read(path, &plan, &err), -1);
    snprintf(wanted, sizeof wanted,
             "%s:3:10: error: the plan was changed after it was written: its digest is '", path);
    assert_memory_equal(err.message, wanted, strlen(wanted));
    memset(&err, 0, sizeof err);
    store("name: x\n", 8);
    assert_int_equal(sw_plan_read(path, &plan, &err), -1);
    snprintf(wanted, sizeof wanted,
             "%s:1:1: error: this is no plan of this version; write one with 'plan emit'", path);
    assert_string_equal(err.message, wanted);
    memset(&err, 0, sizeof err);
    assert_int_equal(sw_plan_read("/nonexistent/x", &plan, &err), -1);
    assert_string_equal(err.message,
                        "/nonexistent/x: error: cannot open the plan: No such file or directory");
    free(text);
    sw_config_free(config);
}

static void maps_options(void **state)
{
    (void)state;
    struct sw_test_run t = sw_test_llama_7b;
    t.more = "rules: {residual_seq: [sp, tp]}\nprecision: {compute: bf16, params: fp32, reduce: "
             "bf16}\n";
    struct sw_config *config = sw_test_read_run(&t);
    const struct sw_run_config *run = sw_config_run(config);
    const struct sw_decision decision = decision_of();
    struct sw_program_options options;
    struct sw_error err = {0};
    assert_int_equal(sw_plan_program_options(run, &decision, &options, &err), 0);
    assert_int_equal(options.vocab_size, 32000);
    assert_int_equal(options.head_dim, 128);
    assert_int_equal(options.compute, SW_BF16_T);
    assert_int_equal(options.params, SW_F32);
    assert_int_equal(options.reduce, SW_BF16_T);
    assert_int_equal(options.recompute, 1);
    assert_int_equal(options.layout, SW_CONTIGUOUS);
    assert_int_equal(options.micro_batch_per_rank, 2);
    const struct sw_axes wanted = {2, {SW_SP, SW_TP}};
    assert_true(sw_axes_equal(options.rules.axes[SW_L_RESIDUAL_SEQ], wanted));
    assert_int_equal(options.rules.axes[SW_L_KEY_SEQ].count, 0); /* strategy gather */
    struct sw_run_config wrong = *run;
    wrong.rule[0].logical = "residual_sek";
    assert_int_equal(sw_plan_program_options(&wrong, &decision, &options, &err), -1);
    assert_int_equal(err.status, SW_BAD_INPUT);
    assert_non_null(strstr(err.message, "test.yaml:"));
    assert_non_null(strstr(
        err.message, "error: unknown logical axis 'residual_sek'; did you mean 'residual_seq'?"));
    sw_config_free(config);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_back),
        cmocka_unit_test(finds_every_edit),
        cmocka_unit_test(says_what_is_wrong),
        cmocka_unit_test(maps_options),
    };
    snprintf(path, sizeof path, "%s/unit_plan.plan.yaml", argc > 1 ? argv[1] : ".");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
