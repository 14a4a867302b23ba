/* The vocabulary: every value has one word, every word one value. */
#include "core/base/recompute.h"
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
    struct sw_layer_values values = {.count = 0};
    const uint32_t n1 = UINT32_C(1) << sw_layer_values_add(&values, "n1", "first"),
                   h = UINT32_C(1) << sw_layer_values_add(&values, "h", "last");
    const struct sw_recompute every = {n1, 80, 0}, some = {n1 | h, 56, n1}, one = {h, 1, 0},
                              other = {h, 2, n1};
    assert_string_equal(sw_recompute_describe(every, &values, 80, text), "n1 in all layers");
    assert_string_equal(sw_recompute_describe(every, &values, 0, text),
                        "n1 in the first 80 layers");
    assert_string_equal(sw_recompute_describe(some, &values, 80, text),
                        "n1 in all layers, h in the first 56 of 80 layers");
    assert_string_equal(sw_recompute_describe(one, &values, 80, text),
                        "h in the first 1 of 80 layers");
    assert_string_equal(sw_recompute_describe(one, &values, 0, text), "h in the first 1 layer");
    assert_string_equal(sw_recompute_describe(other, &values, 4, text),
                        "h in the first 2 of 4 layers, n1 in the rest");
    assert_string_equal(sw_recompute_describe(sw_recompute_full(), &values, 80, text), "full");
    assert_string_equal(sw_recompute_describe(sw_recompute_none(), &values, 80, text), "none");
}

static void values_of_a_layer_have_ordinals(void **state)
{
    (void)state;
    char text[SW_VALUES_BYTES];
    struct sw_layer_values values = {.count = 0};
    assert_int_equal(sw_layer_values_add(&values, "n1", "first"), 0);
    assert_int_equal(sw_layer_values_add(&values, "q0+b", "second"), 1);
    assert_int_equal(sw_layer_values_add(&values, "n1", "another"), 0);
    assert_string_equal(values.of[0].about, "first");
    assert_int_equal(sw_layer_values_find(&values, "q0+b"), 1);
    assert_int_equal(sw_layer_values_find(&values, "q0"), -1);
    assert_string_equal(sw_layer_values_format(&values, SW_ALL_VALUES, text), "n1, q0+b");
    assert_string_equal(sw_layer_values_format(&values, 2, text), "q0+b");
    assert_int_equal(sw_layer_values_before(&values, "q0+b"), 1);
    assert_true(sw_layer_values_before(&values, "h") == SW_ALL_VALUES);
    assert_int_equal(sw_layer_values_add(&values, "longer than names", NULL), -1);
    for (char name[] = "a"; values.count < SW_MOST_LAYER_VALUES; name[0]++) {
        const int32_t ordinal = sw_layer_values_add(&values, name, NULL);
        assert_int_equal(ordinal, values.count - 1);
    }
    assert_int_equal(sw_layer_values_add(&values, "more", NULL), -1);
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
        cmocka_unit_test(values_of_a_layer_have_ordinals),
        cmocka_unit_test(recomputation_is_told_of_the_layers_there_are),
        cmocka_unit_test(every_value_has_one_word)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
