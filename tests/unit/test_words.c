/* The vocabulary: every value has one word, every word one value. */
#include "core/model/recompute.h"
#include "core/base/words.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void recomputation_is_told_of_the_layers_there_are(void **state)
{
    (void)state;
    char text[SW_RECOMPUTE_BYTES];
    const uint32_t n1 = sw_layer_values_named("n1"), h = sw_layer_values_named("h");
    const struct sw_recompute every = {n1, 80, 0}, some = {n1 | h, 56, n1}, one = {h, 1, 0},
                              other = {h, 2, n1};
    assert_string_equal(sw_recompute_describe(every, 80, text), "n1 in all layers");
    assert_string_equal(sw_recompute_describe(every, 0, text), "n1 in the first 80 layers");
    assert_string_equal(sw_recompute_describe(some, 80, text),
                        "n1 in all layers, h in the first 56 of 80 layers");
    assert_string_equal(sw_recompute_describe(one, 80, text), "h in the first 1 of 80 layers");
    assert_string_equal(sw_recompute_describe(one, 0, text), "h in the first 1 layer");
    assert_string_equal(sw_recompute_describe(other, 4, text),
                        "h in the first 2 of 4 layers, n1 in the rest");
    assert_string_equal(sw_recompute_describe(sw_recompute_full(), 80, text), "full");
    assert_string_equal(sw_recompute_describe(sw_recompute_none(), 80, text), "none");
    for (int32_t v = 0; sw_layer_values[v].name != NULL; v++) {
        assert_true(strlen(sw_layer_values[v].about) > 10);
        assert_int_equal(sw_layer_value_find(sw_layer_values[v].name), v);
        assert_int_equal(sw_layer_values_named(sw_layer_values[v].name), UINT32_C(1) << v);
        assert_string_equal(sw_layer_values_format(UINT32_C(1) << v, text),
                            sw_layer_values[v].name);
    }
    assert_true(sw_layer_values_named("n1, none, h] y") == (n1 | h));
    assert_string_equal(sw_layer_values_format(sw_layer_values_before("q1"), text),
                        "n1, q0, q0+b, k0, k0+b, v0, v0+b, qn, kn");
    const struct sw_model plain = {.mlp_bias = true};
    assert_string_equal(sw_layer_values_format(sw_model_layer_values(&plain), text),
                        "n1, q0, k0, v0, q1, k1, k2, v2, o, lse, y, n2, gate, gate+b, up, up+b, h");
}

static void every_value_has_one_word(void **state)
{
    (void)state;
    static const struct {
        const struct sw_word *words;
        int32_t values;
    } tables[] = {{sw_words_strategy, SW_ATTENTION_AUTO + 1},
                  {sw_words_layout, SW_ZIGZAG + 1},
                  {sw_words_precision, SW_BF16_T + 1},
                  {sw_words_device, SW_DEVICE_CUDA + 1}};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        const struct sw_word *words = tables[i].words;
        for (int32_t value = 0; value < tables[i].values; value++)
            assert_non_null(sw_word(words, value));
        assert_null(sw_word(words, tables[i].values));
        int32_t known = 0;
        for (int32_t a = 0; words[a].text != NULL; a++) {
            if (words[a].why != NULL) {
                assert_non_null(sw_word(words, words[a].value));
                assert_string_not_equal(sw_word(words, words[a].value), words[a].text);
                continue;
            }
            known++;
            assert_true(a < tables[i].values); /* old words are the last */
            assert_string_equal(sw_word(words, words[a].value), words[a].text);
            /* what a plan leaves out is the last of the others */
            assert_true(strcmp(words[a].text, "auto") != 0 || a + 1 == tables[i].values);
        }
        assert_int_equal(known, tables[i].values);
    }
    assert_string_equal(sw_word(sw_words_layout, SW_ZIGZAG), "zigzag");
    assert_string_equal(sw_word(sw_words_precision, SW_F32), "fp32");
    assert_string_equal(sw_word(sw_words_signal, SIGUSR1), "USR1");
    assert_string_equal(sw_word(sw_words_signal, SIGUSR2), "USR2");
    assert_null(sw_word(sw_words_signal, SIGTERM));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recomputation_is_told_of_the_layers_there_are),
        cmocka_unit_test(every_value_has_one_word)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
