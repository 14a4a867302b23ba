/* `stages` of a run: what each is, and how mistakes in them are told, at their own lines. */
#include "config_support.h"

#define STAGES_HEAD                                                                                \
    "name: r\nmodel: " MODEL "\ncluster: " CLUSTER "\nglobal_batch_size: 8\n"                      \
    "optimizer: {total_steps: 10, warmup_steps: 2}\n"

static struct sw_config *read_good(const char *text, const char *const *sets)
{
    struct sw_config *config = read_named("runs/a.yaml", text, SW_CONFIG_RUN, sets);
    char *got = report(config);
    assert_string_equal(got, "");
    free(got);
    return config;
}

static void each_is_the_run_with_its_keys(void **state)
{
    (void)state;
    struct sw_config *config =
        read_good(STAGES_HEAD
                  "data: {path: a.bin, seed: 3}\n"
                  "stages:\n"
                  "- sequence_length: 64\n"
                  "- {name: long, sequence_length: 128, global_batch_size: 4, rope_theta: 5.0e6,\n"
                  "   optimizer: {total_steps: 25}, data: {path: b.bin}, mesh_dim: '1,1,1,1',\n"
                  "   continue_schedule: true}\n"
                  "- {sequence_length: 256, evaluate: {every_steps: 5}}\n",
                  NULL);
    assert_int_equal(sw_config_stage_count(config), 3);
    assert_null(sw_config_stage(config, 3));
    assert_null(sw_config_stage(config, -1));
    const struct sw_run_config *a = sw_config_stage(config, 0), *b = sw_config_stage(config, 1),
                               *c = sw_config_stage(config, 2);
    assert_ptr_equal(a, sw_config_run(config));
    assert_string_equal(a->stage.name, "stage1");
    assert_string_equal(b->stage.name, "long");
    assert_string_equal(c->stage.name, "stage3");
    assert_int_equal(b->stage.number, 2);
    assert_int_equal(b->stage.count, 3);
    assert_int_equal(a->sequence_length, 64);
    assert_int_equal(b->sequence_length, 128);
    assert_int_equal(b->global_batch_size, 4);
    assert_int_equal(c->global_batch_size, 8); /* the run's own, not the stage's before */
    assert_true(b->model.shape.rope.theta == 5e6);
    assert_true(c->model.shape.rope.theta == 10000);
    assert_string_equal(b->mesh_dim, "1,1,1,1");
    assert_string_equal(c->mesh_dim, "auto");
    /* sections are merged */
    assert_int_equal(b->optimizer.total_steps, 25);
    assert_int_equal(b->optimizer.warmup_steps, 2);
    assert_string_equal(b->data_path, "runs/b.bin");
    assert_int_equal(b->data_seed, 3);
    assert_int_equal(c->evaluate_every_steps, 5);
    assert_int_equal(b->evaluate_every_steps, 0);
    /* folders, and where each begins */
    assert_string_equal(a->directory, "runs/runs/r/stage1");
    assert_string_equal(b->checkpoint_directory, "runs/runs/r/long/checkpoints");
    assert_null(a->stage.from);
    assert_string_equal(b->stage.from, "runs/runs/r/stage1/checkpoints");
    assert_string_equal(c->stage.from, "runs/runs/r/long/checkpoints");
    assert_true(b->stage.continue_schedule);
    assert_int_equal(b->stage.steps_before, 10);
    assert_int_equal(sw_run_steps(b), 15);
    assert_int_equal(sw_run_steps(c), 10);
    sw_config_free(config);
    config = read_good(STAGES_HEAD "sequence_length: 64\ncheckpoint: {directory: /c}\n"
                                   "stages: [{}, {name: b}]\n",
                       NULL);
    assert_string_equal(sw_config_stage(config, 1)->checkpoint_directory, "/c/b");
    assert_string_equal(sw_config_stage(config, 1)->stage.from, "/c/stage1");
    sw_config_free(config);
    config = read_good(STAGES_HEAD "sequence_length: 64\nstages: []\n", NULL);
    assert_int_equal(sw_config_stage_count(config), 0);
    assert_string_equal(sw_config_run(config)->directory, "runs/runs/r");
    assert_null(sw_config_run(config)->stage.name);
    sw_config_free(config);
}

static void the_command_line_changes_them(void **state)
{
    (void)state;
    static const char two[] = STAGES_HEAD "sequence_length: 64\nstages: [{}, {name: b}]\n";
    static const char *const sets[] = {"stages.stage1.sequence_length=32",
                                       "stages.b.optimizer.total_steps=7",
                                       "stages.1.rope_theta=2e6",
                                       "stages.b.optimizer.warmup_steps=1",
                                       "global_batch_size=16",
                                       NULL};
    struct sw_config *config = read_good(two, sets);
    assert_int_equal(sw_config_stage(config, 0)->sequence_length, 32);
    assert_int_equal(sw_config_stage(config, 1)->sequence_length, 64);
    assert_int_equal(sw_config_stage(config, 1)->optimizer.total_steps, 7);
    assert_int_equal(sw_config_stage(config, 1)->optimizer.warmup_steps, 1);
    assert_int_equal(sw_config_stage(config, 0)->optimizer.total_steps, 10);
    assert_true(sw_config_stage(config, 1)->model.shape.rope.theta == 2e6);
    for (int32_t i = 0; i < 2; i++)
        assert_int_equal(sw_config_stage(config, i)->global_batch_size, 16);
    sw_config_free(config);
    static const char *const all[] = {"stages=[{name: x}, {name: y, nodes: 1}, {}]", NULL};
    config = read_good(two, all);
    assert_int_equal(sw_config_stage_count(config), 3);
    assert_string_equal(sw_config_stage(config, 2)->stage.name, "stage3");
    sw_config_free(config);
    static const char *const added[] = {"stages.c={name: c, sequence_length: 8}", NULL};
    config = read_good(two, added);
    assert_int_equal(sw_config_stage(config, 2)->sequence_length, 8);
    sw_config_free(config);
}

/* Programs keep parts of them that are no run. */
static void their_record_is_no_run(void **state)
{
    (void)state;
    static const char text[] =
        "{\"schema\": \"shardwright.stages/1\", \"run\": \"toy\", \"stages\": [{\"name\": \"a\"}]}";
    struct sw_config *config = read_named("stages.json", text, SW_CONFIG_UNKNOWN, NULL);
    assert_int_equal(sw_config_get_kind(config), SW_CONFIG_UNKNOWN);
    sw_config_free(config);
}

static void a_setting_that_no_stage_takes_is_told(void **state)
{
    (void)state;
    static const char text[] = STAGES_HEAD "sequence_length: 64\nstages:\n"
                                           "- {sequence_length: 32, rope_theta: 3.0e6}\n"
                                           "- {name: b, sequence_length: 16, rope_theta: 4.0e6}\n";
    static const char *const sets[] = {"sequence_length=8", "model.rope_theta=5.0e6",
                                       "global_batch_size=4", "global_batch_size=16", NULL};
    expect_named("a.yaml", SW_CONFIG_RUN, text, sets,
                 "--set:1:1: warning: this has no effect: every stage sets its own value | set it "
                 "in a stage: --set stages.stage1.sequence_length=8\n--set:1:1: warning: this has "
                 "no effect: every stage sets its own value | set it in a stage: --set "
                 "stages.stage1.rope_theta=5.0e6\n");
    static const char *const one[] = {"stages.b.sequence_length=8", NULL};
    expect_named("a.yaml", SW_CONFIG_RUN, text, one, "");
}

/* A model's own file may say it in another place: the stage's goes before both. */
static void positions_go_before_the_models(void **state)
{
    (void)state;
    static const char text[] =
        "name: r\ncluster: " CLUSTER "\nglobal_batch_size: 8\nsequence_length: 64\n"
        "model: {vocab_size: 256, hidden_size: 64, intermediate_size: 128, num_hidden_layers: 2, "
        "num_attention_heads: 4, max_position_embeddings: 4096,\n"
        "        rope_parameters: {rope_type: default, rope_theta: 500000.0}}\n"
        "stages:\n- {rope_theta: 1.0e6}\n"
        "- {rope_parameters: {rope_type: linear, rope_theta: 2.0e6, factor: 4.0}}\n- {}\n";
    struct sw_config *config = read_good(text, NULL);
    assert_true(sw_config_stage(config, 0)->model.shape.rope.theta == 1e6);
    assert_true(sw_config_stage(config, 1)->model.shape.rope.theta == 2e6);
    assert_true(sw_config_stage(config, 1)->model.shape.rope.factor == 4);
    assert_true(sw_config_stage(config, 2)->model.shape.rope.theta == 5e5);
    assert_true(sw_config_stage(config, 2)->model.shape.rope.scaling == SW_ROPE_PLAIN);
    sw_config_free(config);
}

#define AT_LINE_7 STAGES_HEAD "sequence_length: 64\n"
static const struct {
    const char *stages, *expected; /* with how each line begins */
} wrong[] = {
    {"stages: 3\n", "a.yaml:7:9: 'stages' must be a list of mappings, not the number 3"},
    {"stages: [3]\n", "a.yaml:7:10: 'stages' must be a list of mappings, not the number 3"},
    {"stages:\n- {sequence_lenght: 3}\n",
     "a.yaml:8:4: unknown key 'sequence_lenght'; did you mean 'sequence_length'?"},
    {"stages:\n- {}\n- {xyz: 1}\n",
     "a.yaml:9:4: unknown key 'xyz' of a stage | known keys: name, "},
    {"stages:\n- {model: a}\n", "a.yaml:8:4: 'model' is the same in all stages of a run; a stage "
                                "cannot set it | write it outside"},
    {"stages:\n- {stages: []}\n", "a.yaml:8:4: unknown key 'stages' of a stage"},
    {"stages:\n- {}\n- {optimizer: {total_step: 3}}\n",
     "a.yaml:9:16: unknown key 'total_step'; did you mean 'total_steps'?"},
    {"stages:\n- {}\n- {global_batch_size: many}\n",
     "a.yaml:9:23: 'global_batch_size' must be an integer, not the string 'many'"},
    {"stages:\n- {name: b}\n- {}\n- {name: b}\n",
     "a.yaml:10:10: two stages have the name 'b', the first in line 8"},
    {"stages:\n- {}\n- {name: stage1}\n",
     "a.yaml:9:10: two stages have the name 'stage1', the first in line 8"},
    {"stages:\n- {name: a/b}\n", "a.yaml:8:10: 'name' must be 1 to 64 letters"},
    {"stages:\n- {name: '4'}\n", "a.yaml:8:10: 'name' must be 1 to 64 letters"},
    {"stages:\n- {name: checkpoints}\n", "a.yaml:8:10: 'name' must be 1 to 64 letters"},
    {"stages:\n- {checkpoint: {directory: x, keep: 2}}\n",
     "a.yaml:8:17: 'checkpoint.directory' is the same in all stages"},
    {"stages:\n- {}\n- {optimizer: {total_steps: 1}}\n", /* the run's warmup_steps */
     "a.yaml:5:44: 'warmup_steps' (2) is more than 'total_steps' (1) (in stage 'stage2')"},
    {"stages:\n- {continue_schedule: true}\n",
     "a.yaml:8:3: the first stage has none before it to continue"},
    {"stages:\n- {}\n- {name: b, continue_schedule: true}\n",
     "a.yaml:9:3: stage 'b' continues behind step 10 of 'stage1', and its 'total_steps', which "
     "count from there, are 10 | for example: optimizer: {total_steps: 20}"},
    {"stages:\n- {}\n- {continue_schedule: 3}\n",
     "a.yaml:9:23: 'continue_schedule' must be 'true' or 'false', not the number 3"},
    {"stages:\n- {}\nstage: {from: x}\n", "a.yaml:9:1: 'stage' makes the run one stage"},
    {"stages:\n- {}\njob: {type: score, input: x}\n", "a.yaml:9:13: a run with 'stages' trains"},
    {"stages:\n- {}\n- {optimizer: {moments: int8}}\n",
     "a.yaml:9:25: stage 'stage2' begins with the moments of 'stage1', which are fp32 and cannot "
     "become int8 | use moments: int8 in all"},
    {"stages:\n- {rope_theta: -3}\n", "a.yaml:8:16: 'rope_theta' must be more than 0, not -3"},
    {"stages:\n- {nodes: 3}\n- {nodes: 2}\n",
     "a.yaml:8:11: 'nodes: 3' is more than the cluster has, 1 | use nodes: 1\n"
     "a.yaml:9:11: 'nodes: 2' is more than the cluster has, 1 | use nodes: 1"},
    /* the run's own mistakes are told once */
    {"prefer: best\nstages: [{}, {}, {}]\n", "a.yaml:7:9: 'prefer' must be one of"},
};

static void mistakes_are_at_their_lines(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char text[2000];
        snprintf(text, sizeof text, AT_LINE_7 "%s", wrong[i].stages);
        struct sw_config *config = read_named("a.yaml", text, SW_CONFIG_RUN, NULL);
        char *got = report(config);
        const char *at = got, *expected = wrong[i].expected;
        for (bool more = true; more;) {
            const size_t length = strcspn(expected, "\n");
            if (strncmp(at, expected, length) != 0)
                fail_msg("%s: '%s', not '%s'", wrong[i].stages, at, expected);
            at += strcspn(at, "\n") + 1;
            more = expected[length] == '\n';
            expected += length + 1;
        }
        if (*at != '\0')
            fail_msg("%s: also '%s'", wrong[i].stages, at);
        assert_true(sw_config_error_count(config) > 0);
        assert_null(sw_config_stage(config, 0));
        free(got);
        sw_config_free(config);
    }
}

/* Nothing that stages hold makes a plan read otherwise: what one stage writes reads back. */
static void a_stage_reads_back(void **state)
{
    (void)state;
    struct sw_config *config =
        read_good(AT_LINE_7 "stages: [{}, {name: b, rope_theta: 3.0e6, continue_schedule: true, "
                            "optimizer: {total_steps: 12}}]\n",
                  NULL);
    const struct sw_run_config *b = sw_config_stage(config, 1);
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    sw_run_config_write(out, b, 0);
    fclose(out);
    struct sw_config *again = read_named("runs/x.yaml", text, SW_CONFIG_RUN, NULL);
    assert_int_equal(sw_config_error_count(again), 0);
    assert_int_equal(sw_config_stage_count(again), 0);
    const struct sw_run_config *c = sw_config_run(again);
    assert_string_equal(c->stage.name, "b");
    assert_int_equal(c->stage.number, 2);
    assert_int_equal(c->stage.count, 2);
    assert_int_equal(c->stage.steps_before, 10);
    assert_true(c->stage.continue_schedule);
    assert_non_null(strstr(c->stage.from, "stage1/checkpoints"));
    assert_true(c->model.shape.rope.theta == 3e6);
    free(text);
    sw_config_free(again);
    sw_config_free(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_is_the_run_with_its_keys),
        cmocka_unit_test(the_command_line_changes_them),
        cmocka_unit_test(their_record_is_no_run),
        cmocka_unit_test(a_setting_that_no_stage_takes_is_told),
        cmocka_unit_test(positions_go_before_the_models),
        cmocka_unit_test(mistakes_are_at_their_lines),
        cmocka_unit_test(a_stage_reads_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
