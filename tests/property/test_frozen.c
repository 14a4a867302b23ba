/* Frozen parameters (docs/architecture.md, Differentiation): on every mesh of 1, 2 and 4 ranks the
 * others train as they do when nothing is frozen, the frozen ones keep every bit, and gradients,
 * moments and arena are smaller.
 *
 * In double. A step without clipping changes each parameter by its own gradient alone, so a
 * training of all parameters on one rank is the oracle of a first step. */
#include "core/models/parameters.h"
#include "tests/support/harness.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#define TOLERANCE 1e-10 /* as test_meshes has it, and why */

enum { STEPS = 3, SETS = 6 };

static const char *const weights[] = {
    "embedding", "attention_norm", "wq",         "wk",     "wv", "wo", "mlp_norm",
    "w_up",      "head",           "final_norm", "w_down", "bq", NULL};

/* Hugging Face's names of what is frozen, with commas, and the same in ours. */
static const struct set {
    const char *patterns;
    const char *names;
} sets[SETS] = {
    {"model.embed_tokens,lm_head", " embedding head "},
    {"model.layers.*.mlp,model.layers.*.self_attn.q_proj.bias", " w_gate w_up w_down bq "},
    {"*layernorm.weight,model.norm", " attention_norm mlp_norm final_norm "},
    {"model.layers.*.self_attn.?_proj", " wq wk wv wo bq bk bv "},
    {"model.layers.*,model.embed*",
     " embedding attention_norm wq wk wv wo mlp_norm w_gate w_up w_down bq bk bv "},
    {"model",
     " embedding attention_norm wq wk wv wo mlp_norm w_gate w_up w_down bq bk bv final_norm "}};

static bool is_frozen(const struct set *set, const char *name)
{
    char word[SW_NAME_BYTES + 2];
    snprintf(word, sizeof word, " %s ", name);
    return set != NULL && strstr(set->names, word) != NULL;
}

static struct sw_program_options make_options(struct sw_mesh mesh, const struct set *set,
                                              bool accumulate)
{
    struct sw_program_options o = {
        .model = {.vocab_size = 24,
                  .hidden_size = 16,
                  .intermediate_size = 24,
                  .layers = 2,
                  .heads = 8,
                  .kv_heads = 4,
                  .head_dim = 2,
                  .rope.theta = 100.0,
                  .rms_norm_eps = 1e-5,
                  .qkv_bias = true},
        .sequence_length = 16,
        .global_batch = 8,
        .micro_batch_per_rank = 8 / (mesh.size[SW_DP] * mesh.size[SW_FSDP]) / (accumulate ? 2 : 1),
        .compute = SW_F64,
        .params = SW_F64,
        .reduce = SW_F64,
        .mesh = mesh,
        .layout = SW_ZIGZAG,
        .recompute = accumulate ? sw_recompute_full() : sw_recompute_none(),
    };
    sw_rules_default(&o.rules, SW_ATTENTION_RING);
    o.freeze = set != NULL ? set->patterns : NULL;
    return o;
}

static void train(struct sw_mesh mesh, const struct set *set, bool accumulate, int32_t steps,
                  double learning_rate, struct sw_harness_result *result)
{
    const struct sw_program_options options = make_options(mesh, set, accumulate);
    const struct sw_harness harness = {
        .options = &options,
        .seed = 5,
        .stddev = 0.3,
        .spread_norms = true,
        .ignored = 7,
        .steps = steps,
        .step = {.learning_rate = learning_rate,
                 .beta1 = 0.9,
                 .beta2 = 0.95,
                 .eps = 1e-8,
                 .weight_decay = learning_rate > 0 ? 0.1 : 0},
        .values = weights,
    };
    struct sw_error err = {0};
    if (sw_harness_run(&harness, result, &err) != 0) {
        char text[64];
        fail_msg("%s, set %s: %s", sw_mesh_format(&mesh, text, sizeof text),
                 set != NULL ? set->names : "none", err.message);
    }
}

enum { MESHES = 8 };

static struct sw_mesh mesh_at(int32_t m)
{
    static const int32_t sizes[MESHES][4] = {{1, 1, 1, 1}, {1, 2, 1, 1}, {1, 1, 2, 1},
                                             {1, 1, 1, 2}, {2, 1, 1, 1}, {1, 2, 2, 1},
                                             {1, 1, 2, 2}, {2, 2, 1, 1}};
    return sw_mesh_make(sizes[m][0], sizes[m][1], sizes[m][2], sizes[m][3]);
}

/* How many of the values are not as they should be: frozen ones as they began, the others as
 * trained. */
static int32_t differences(const struct sw_harness_result *result, const struct set *set,
                           const struct sw_harness_result *began,
                           const struct sw_harness_result *trained)
{
    int32_t wrong = 0;
    for (int32_t i = 0; i < result->value_count; i++) {
        const struct sw_harness_value *is = &result->value[i];
        const struct sw_harness_value *was = sw_harness_find(began, is->name);
        const struct sw_harness_value *full = sw_harness_find(trained, is->name);
        const bool kept = memcmp(is->data, was->data, (size_t)is->elems * sizeof *is->data) == 0;
        const double off = sw_harness_difference(is->data, full->data, is->elems);
        const bool frozen = is_frozen(set, is->name);
        if ((frozen != kept || (!frozen && !(off <= TOLERANCE))) && ++wrong)
            print_error("'%s' %s, %g off\n", is->name, kept ? "stayed" : "changed", off);
    }
    return wrong;
}

static void others_train_as_without(void **state)
{
    (void)state;
    struct sw_harness_result began, trained;
    int32_t wrong = 0;
    train(mesh_at(0), NULL, false, 1, 0, &began);
    train(mesh_at(0), NULL, false, 1, 1e-2, &trained);
    for (int32_t s = 0; s < SETS; s++)
        for (int32_t m = 0; m < MESHES; m++) {
            const struct sw_mesh mesh = mesh_at(m);
            struct sw_harness_result result;
            char text[64];
            train(mesh, &sets[s], (m + s) % 2, 1, 1e-2, &result);
            int32_t here = differences(&result, &sets[s], &began, &trained);
            here += !(sw_harness_difference(result.loss, trained.loss, 1) <= TOLERANCE);
            here += !(result.grad_norm[0] < trained.grad_norm[0]);
            here += result.rank_differences != 0;
            here += result.arena_bytes != result.planned_arena_bytes;
            if (here > 0)
                print_error("%s, frozen%s: %d differences\n",
                            sw_mesh_format(&mesh, text, sizeof text), sets[s].names, (int)here);
            wrong += here;
            sw_harness_result_free(&result);
        }
    sw_harness_result_free(&began);
    sw_harness_result_free(&trained);
    assert_int_equal(wrong, 0);
}

/* Several steps, with moments: all meshes as one rank. */
static void meshes_agree(void **state)
{
    (void)state;
    int32_t wrong = 0;
    for (int32_t s = 0; s < SETS; s++) {
        struct sw_harness_result one, began;
        train(mesh_at(0), &sets[s], false, STEPS, 1e-2, &one);
        train(mesh_at(0), &sets[s], false, 1, 0, &began);
        assert_true(one.loss[STEPS - 1] < one.loss[0]);
        for (int32_t m = 1 + s % 2; m < MESHES; m += 2) {
            struct sw_harness_result result;
            train(mesh_at(m), &sets[s], s % 2, STEPS, 1e-2, &result);
            wrong += !(sw_harness_difference(result.loss, one.loss, STEPS) <= TOLERANCE);
            wrong += differences(&result, &sets[s], &began, &one);
            sw_harness_result_free(&result);
        }
        sw_harness_result_free(&one);
        sw_harness_result_free(&began);
    }
    assert_int_equal(wrong, 0);
}

/* What is frozen has neither gradient nor moments, and its bytes are gone. */
static void program_has_less(void **state)
{
    (void)state;
    struct sw_error err = {0};
    for (int32_t m = 0; m < MESHES; m++)
        for (int32_t s = 0; s < SETS; s++) {
            const struct sw_program_options whole = make_options(mesh_at(m), NULL, s % 2);
            const struct sw_program_options options = make_options(mesh_at(m), &sets[s], s % 2);
            struct sw_program_set *full = NULL, *set = NULL;
            int32_t frozen = 0;
            assert_int_equal(sw_program_set_compile(&whole, &full, &err), 0);
            assert_int_equal(sw_program_set_compile(&options, &set, &err), 0);
            for (int32_t i = 0; i < set->state.count; i++) {
                const struct sw_state_row *row = &set->state.row[i];
                char moment[SW_NAME_BYTES + 8];
                snprintf(moment, sizeof moment, "adam_m %s", row->name);
                if (row->role != SW_ROLE_PARAMETER)
                    continue;
                assert_int_equal(row->frozen, is_frozen(&sets[s], row->name));
                assert_int_equal(sw_state_find(&set->state, moment) == NULL, row->frozen);
                frozen += row->frozen;
            }
            assert_int_equal(set->state.count, full->state.count - 2 * frozen);
            const struct sw_program *less = set->program[SW_PROGRAM_TRAIN];
            const struct sw_program *more = full->program[SW_PROGRAM_TRAIN];
            assert_int_equal(less->parameter_bytes, more->parameter_bytes);
            assert_true(less->gradient_bytes < more->gradient_bytes);
            assert_true(less->optimizer_bytes < more->optimizer_bytes);
            assert_true(less->arena_bytes < more->arena_bytes);
            assert_true(less->op_count < more->op_count);
            assert_true(sw_program_digest(less) != sw_program_digest(more));
            sw_program_set_free(full);
            sw_program_set_free(set);
        }
}

/* A name that nothing has, a module, a tied head, and what a model lacks. */
static void names_of_parameters(void **state)
{
    (void)state;
    struct sw_model model = {.layers = 2};
    const int32_t all = sw_parameters_count(&model, NULL);
    assert_int_equal(all, 12);
    assert_int_equal(sw_parameters_count(&model, "model.embed_tokens.weight"), 1);
    assert_int_equal(sw_parameters_count(&model, "lm_head.weight"), 1);
    assert_int_equal(sw_parameters_count(&model, "model.embed_tokens"), 1);
    assert_int_equal(sw_parameters_count(&model, "model.embed"), 0);
    assert_int_equal(sw_parameters_count(&model, "model.layers.0.mlp"), 0);
    assert_int_equal(sw_parameters_count(&model, "*.bias"), 0);
    assert_int_equal(sw_parameters_count(&model, "model"), all - 1);
    assert_int_equal(sw_parameters_count(&model, "model,,lm_head,model.norm"), all);
    model.tied = true;
    assert_int_equal(sw_parameters_count(&model, "lm_head"), 1);
    assert_int_equal(sw_parameters_count(&model, "lm_head,model.embed_tokens"), 1);
    assert_int_equal(sw_parameters_count(&model, "model"), all - 1);
    assert_int_equal(sw_parameters_count(&model, NULL), all - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(others_train_as_without), cmocka_unit_test(meshes_agree),
        cmocka_unit_test(program_has_less), cmocka_unit_test(names_of_parameters)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
