/* The vocabulary: every value has one word, every word one value. */
#include "core/base/hash.h"
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
    struct sw_layer_values n1 = {0}, h = {0}, none = {0};
    sw_layer_values_add(&n1, sw_layer_value_find("n1"));
    sw_layer_values_add(&h, sw_layer_value_find("h"));
    const struct sw_recompute every = {n1, 80, none}, some = {sw_layer_values_join(n1, h), 56, n1},
                              one = {h, 1, none}, other = {h, 2, n1};
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
}

/* Sets drawn, against an array of bool: the list's length decides how wide they are. */
static void sets_of_values(void **state)
{
    (void)state;
    uint64_t x = 7;
    char text[SW_VALUES_BYTES];
    for (int32_t round = 0; round < 200; round++) {
        bool in[2][SW_LAYER_VALUES];
        struct sw_layer_values set[2] = {{{0}}, {{0}}};
        for (int32_t i = 0; i < 2 * SW_LAYER_VALUES; i++) {
            x = sw_hash_mix(x + 1);
            in[i % 2][i / 2] = x % 3 == 0 || round % 7 == 0;
            if (in[i % 2][i / 2])
                sw_layer_values_add(&set[i % 2], i / 2);
        }
        const struct sw_layer_values join = sw_layer_values_join(set[0], set[1]),
                                     common = sw_layer_values_common(set[0], set[1]),
                                     without = sw_layer_values_without(set[0], set[1]);
        bool cover = true;
        int last = 0;
        for (int32_t i = 0; i < SW_LAYER_VALUES; i++) {
            assert_int_equal(sw_layer_values_has(join, i), in[0][i] || in[1][i]);
            assert_int_equal(sw_layer_values_has(common, i), in[0][i] && in[1][i]);
            assert_int_equal(sw_layer_values_has(without, i), in[0][i] && !in[1][i]);
            cover = cover && (in[0][i] || !in[1][i]);
            last = in[0][i] != in[1][i] ? in[0][i] - in[1][i] : last;
            assert_int_equal(sw_layer_value_find(sw_layer_value_name(i)), i);
            assert_true(strlen(sw_layer_value_about(i)) > 10);
        }
        assert_int_equal(sw_layer_values_cover(set[0], set[1]), cover);
        assert_int_equal(sw_layer_values_compare(set[0], set[1]), last);
        assert_int_equal(sw_layer_values_equal(set[0], set[1]), last == 0);
        assert_false(sw_layer_values_equal(join, sw_layer_values_all()));
        assert_true(sw_layer_values_cover(sw_layer_values_all(), join));
        size_t listed = 0;
        for (const char *at = sw_layer_values_format(join, text); *at != '\0';
             at += strcspn(at, " ") + (at[strcspn(at, " ")] == ' '))
            listed++;
        for (int32_t i = 0; i < SW_LAYER_VALUES; i++)
            listed -= in[0][i] || in[1][i];
        assert_int_equal(listed, 0);
    }
}

static void values_of_a_layer_have_ordinals(void **state)
{
    (void)state;
    char text[SW_VALUES_BYTES];
    struct sw_layer_values has = {0}, first = {0};
    sw_layer_values_add(&has, sw_layer_value_find("q0+b"));
    sw_layer_values_add(&has, sw_layer_value_find("n1"));
    sw_layer_values_add(&first, sw_layer_value_find("n1"));
    assert_int_equal(sw_layer_value_find("q"), -1);
    assert_string_equal(sw_layer_values_format(has, text), "n1, q0+b");
    assert_string_equal(sw_layer_values_format((struct sw_layer_values){0}, text), "");
    assert_true(sw_layer_values_equal(sw_layer_values_before(has, "q0+b"), first));
    assert_true(sw_layer_values_equal(sw_layer_values_before(has, "h"), sw_layer_values_all()));
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
        cmocka_unit_test(sets_of_values), cmocka_unit_test(values_of_a_layer_have_ordinals),
        cmocka_unit_test(recomputation_is_told_of_the_layers_there_are),
        cmocka_unit_test(every_value_has_one_word)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
