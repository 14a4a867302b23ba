/* adapter_config.json: what PEFT's mean, what is refused, and ours read back. */
#include "runner/checkpoint/adapter_config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD "{\"peft_type\": \"LORA\", \"r\": 4, \"lora_alpha\": 8, "
#define TARGETS "\"target_modules\": [\"q_proj\", \"v_proj\"]"

static struct sw_adapter_config parsed(const char *text)
{
    struct sw_adapter_config out;
    struct sw_error err = {0};
    if (sw_adapter_config_parse("f", text, strlen(text), &out, &err) != 0)
        fail_msg("%s: %s", text, err.message);
    return out;
}

static void expect(const char *text, const char *module, int32_t rank, double scale)
{
    struct sw_adapter_config config = parsed(text);
    int32_t found;
    double by;
    sw_adapter_config_of(&config, module, &found, &by);
    if (found != rank || by != scale)
        fail_msg("%s of %s: rank %d, scale %g", module, text, (int)found, by);
    sw_adapter_config_free(&config);
}

static const char q0[] = "model.layers.0.self_attn.q_proj",
                  q1[] = "model.layers.1.self_attn.q_proj",
                  q11[] = "model.layers.11.self_attn.q_proj",
                  down0[] = "model.layers.0.mlp.down_proj";

static void modules_have_what_peft_gives_them(void **state)
{
    (void)state;
    expect(HEAD TARGETS "}", q0, 4, 2);
    expect(HEAD TARGETS "}", down0, 0, 0);
    expect(HEAD TARGETS "}", "model.layers.0.self_attn.other_q_proj", 0, 0);
    expect(HEAD "\"target_modules\": \"all-linear\"}", down0, 4, 2);
    expect(HEAD "\"target_modules\": \"all-linear\"}", "lm_head", 0, 0);
    expect(HEAD TARGETS ", \"use_rslora\": true}", q0, 4, 4);
    expect(HEAD "\"target_modules\": [\"model.layers.1.self_attn.q_proj\"]}", q1, 4, 2);
    expect(HEAD "\"target_modules\": [\"model.layers.1.self_attn.q_proj\"]}", q11, 0, 0);
    /* a pattern is matched as a whole, a name from a '.' on */
    expect(HEAD "\"target_modules\": \".*\\\\.q_proj\"}", q0, 4, 2);
    expect(HEAD "\"target_modules\": \"q_proj\"}", q0, 0, 0);
    expect(HEAD "\"target_modules\": \"model\\\\.layers\\\\.\\\\d+\\\\.(self_attn|mlp)\\\\."
                "(?:q|down)_proj\"}",
           down0, 4, 2);
    expect(HEAD "\"target_modules\": \".*layers\\\\.[1-9]\\\\d*\\\\..*?q_proj\"}", q11, 4, 2);
    expect(HEAD "\"target_modules\": \".*layers\\\\.[1-9]\\\\d*\\\\..*?q_proj\"}", q0, 0, 0);
    expect(HEAD TARGETS ", \"rank_pattern\": {\"q_proj\": 16}}", q0, 16, 0.5);
    expect(HEAD TARGETS ", \"rank_pattern\": {\"layers.1.self_attn.q_proj\": 16}}", q0, 4, 2);
    expect(HEAD TARGETS ", \"rank_pattern\": {\"layers.1.self_attn.q_proj\": 16}}", q1, 16, 0.5);
    expect(HEAD TARGETS ", \"rank_pattern\": {\"layers.1.self_attn.q_proj\": 16}}", q11, 4, 2);
    expect(HEAD TARGETS ", \"rank_pattern\": {\"^model.layers.0.*q_proj\": 16}}", q0, 16, 0.5);
    expect(HEAD TARGETS ", \"alpha_pattern\": {\"layers\\\\.\\\\d\\\\..*_proj\": 1}}", q0, 4, 0.25);
    expect(HEAD TARGETS ", \"alpha_pattern\": {\"layers\\\\.\\\\d\\\\..*_proj\": 1}}", q11, 4, 2);
    expect(HEAD TARGETS ", \"exclude_modules\": [\"model.layers.0.self_attn.q_proj\"]}", q0, 0, 0);
    expect(HEAD TARGETS ", \"exclude_modules\": \".*layers.0.*\"}", q1, 4, 2);
    expect(HEAD TARGETS ", \"layers_to_transform\": [1, 2]}", q0, 0, 0);
    expect(HEAD TARGETS ", \"layers_to_transform\": [1, 2]}", q1, 4, 2);
    expect(HEAD TARGETS ", \"layers_to_transform\": 11}", q11, 4, 2);
    /* of training, or as if they were not there */
    expect(HEAD TARGETS
           ", \"lora_dropout\": 0.1, \"init_lora_weights\": \"gaussian\", \"bias\": "
           "\"none\", \"modules_to_save\": [], \"use_dora\": false, \"a_new_key\": {}, "
           "\"peft_version\": \"9.9\", \"loftq_config\": {\"x\": 1}}",
           q0, 4, 2);
}

static void refused(const char *text, const char *wanted)
{
    struct sw_adapter_config out;
    struct sw_error err = {0};
    assert_int_equal(sw_adapter_config_parse("f", text, strlen(text), &out, &err), -1);
    assert_int_equal(err.status, SW_BAD_INPUT);
    assert_string_equal(err.file, "f");
    if (strncmp(err.message, wanted, strlen(wanted)) != 0)
        fail_msg("%s: '%s', not '%s'", text, err.message, wanted);
    assert_null(out.root);
}

static void other_adapters_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *more, *wanted;
    } cases[] = {
        {"\"use_dora\": true", "it has 'use_dora', which is not supported"},
        {"\"modules_to_save\": [\"lm_head\"]", "it has 'modules_to_save', which"},
        {"\"trainable_token_indices\": [1]", "it has 'trainable_token_indices', which"},
        {"\"layer_replication\": [[0, 1]]", "it has 'layer_replication', which"},
        {"\"lora_bias\": true", "it has 'lora_bias', which"},
        {"\"fan_in_fan_out\": true", "it has 'fan_in_fan_out', which"},
        {"\"layers_pattern\": \"h\"", "it has 'layers_pattern', which"},
        {"\"use_qalora\": true", "it has 'use_qalora', which"},
        {"\"something_new\": 1", "it has 'something_new', which"},
        {"\"bias\": \"lora_only\"", "its 'bias' is 'lora_only', not none"},
        {"\"task_type\": \"SEQ_CLS\"", "its 'task_type' is 'SEQ_CLS', not CAUSAL_LM"},
        {"\"init_lora_weights\": \"pissa_niter_4\"",
         "its 'init_lora_weights' is 'pissa_niter_4', not true, false"},
        {"\"init_lora_weights\": \"olora\"", "its 'init_lora_weights' is 'olora', not"},
        {"\"rank_pattern\": {\"q_proj\": 0}", "its 'rank_pattern' is another, not ranks"},
        {"\"rank_pattern\": {\"(?<!x)q_proj\": 4}", "its 'rank_pattern' is another, not ranks"},
        {"\"rank_pattern\": {\"(q_proj\": 4}", "its 'rank_pattern' is another, not ranks"},
        {"\"rank_pattern\": {\"q{9,99999}\": 4}", "its 'rank_pattern' is another, not ranks"},
        {"\"alpha_pattern\": {\"q_proj\": \"x\"}", "its 'alpha_pattern' is another, not numbers"},
        {"\"alpha_pattern\": {\"q_proj\": NaN}", "its 'alpha_pattern' is another, not numbers"},
        {"\"layers_to_transform\": [\"x\"]", "its 'layers_to_transform' is another, not numbers"},
    };
    char text[512];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(text, sizeof text, HEAD TARGETS ", %s}", cases[i].more);
        refused(text, cases[i].wanted);
    }
    refused("{}", "has no 'peft_type'");
    refused("[1]", "is not a JSON object");
    refused("{\"peft_type\": \"LORA\"", "not valid JSON: ");
    refused("{\"peft_type\": \"IA3\"}", "its 'peft_type' is 'IA3', not LORA");
    refused(HEAD "\"target_modules\": []}", "its 'target_modules' is another, not a list");
    refused(HEAD "\"target_modules\": [7]}", "its 'target_modules' is another, not a list");
    refused("{\"peft_type\": \"LORA\", \"r\": 1e400, \"lora_alpha\": 8, " TARGETS "}",
            "its 'r' is another, not a rank");
    refused("{\"peft_type\": \"LORA\", \"r\": 65537, \"lora_alpha\": 8, " TARGETS "}",
            "its 'r' is another, not a rank");
}

static uint64_t next(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *seed >> 33;
}

static void ours_are_read_back(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (int32_t n = 0; n < 200; n++) {
        struct sw_adapter_facts facts = {.base = next(&seed) % 2 ? "/models/a \"b\"" : NULL,
                                         .rank = 1 + (int32_t)(next(&seed) % 64),
                                         .alpha = (double)(1 + next(&seed) % 640) / 8,
                                         .rslora = next(&seed) % 2};
        char difference[240], *text;
        bool any = false;
        for (int32_t t = 0; t < SW_LORA_TARGETS; t++) {
            facts.lora.rank[t] = next(&seed) % 2 ? facts.rank : (int32_t)(next(&seed) % 9);
            facts.alpha_of[t] = next(&seed) % 3 ? 0 : (double)(1 + next(&seed) % 100) / 7;
            facts.lora.scale[t] =
                facts.lora.rank[t] == 0
                    ? 0
                    : sw_lora_scale(facts.alpha_of[t] > 0 ? facts.alpha_of[t] : facts.alpha,
                                    facts.lora.rank[t], facts.rslora);
            any = any || facts.lora.rank[t] > 0;
        }
        if (!any)
            continue;
        assert_int_equal(sw_adapter_config_json(&facts, &text, NULL), 0);
        struct sw_adapter_config config = parsed(text);
        const char *other = sw_adapter_config_difference(&config, &facts.lora, 3, difference);
        if (other != NULL)
            fail_msg("%s: %s", text, other);
        assert_string_equal(config.base, facts.base != NULL ? facts.base : "");
        const int32_t t = (int32_t)(next(&seed) % SW_LORA_TARGETS);
        facts.lora.rank[t]++;
        assert_non_null(sw_adapter_config_difference(&config, &facts.lora, 3, difference));
        sw_adapter_config_free(&config);
        free(text);
    }
}

static void differences_name_both(void **state)
{
    (void)state;
    struct sw_lora lora = {.rank = {[SW_LORA_Q] = 4, [SW_LORA_V] = 4},
                           .scale = {[SW_LORA_Q] = 2, [SW_LORA_V] = 2}};
    char said[240];
    struct sw_adapter_config config = parsed(HEAD TARGETS "}");
    assert_null(sw_adapter_config_difference(&config, &lora, 2, said));
    lora.rank[SW_LORA_Q] = 8;
    assert_string_equal(
        sw_adapter_config_difference(&config, &lora, 2, said),
        "its rank for model.layers.0.self_attn.q_proj is 4, and that of 'lora' is 8");
    lora.rank[SW_LORA_Q] = 0;
    assert_string_equal(sw_adapter_config_difference(&config, &lora, 2, said),
                        "its target_modules have model.layers.0.self_attn.q_proj, and "
                        "'lora.targets' does not");
    lora.rank[SW_LORA_Q] = 4;
    lora.scale[SW_LORA_V] = 1;
    assert_string_equal(sw_adapter_config_difference(&config, &lora, 2, said),
                        "it multiplies the adapter of model.layers.0.self_attn.v_proj by 2 "
                        "(lora_alpha / r), and 'lora' by 1");
    sw_adapter_config_free(&config);
    lora.scale[SW_LORA_V] = 2;
    config = parsed(HEAD TARGETS ", \"layers_to_transform\": [0]}");
    assert_string_equal(sw_adapter_config_difference(&config, &lora, 2, said),
                        "its target_modules leave out model.layers.1.self_attn.q_proj, and "
                        "'lora.targets' has it");
    sw_adapter_config_free(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(modules_have_what_peft_gives_them),
        cmocka_unit_test(other_adapters_are_refused),
        cmocka_unit_test(ours_are_read_back),
        cmocka_unit_test(differences_name_both),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
