/* What a typo probably meant, and texts cut and escaped. */
#include "core/base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void distances(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        int32_t distance;
    } cases[] = {
        {"", "", 0},
        {"", "abc", 3},
        {"search", "search", 0},
        {"serch", "search", 1},
        {"Search", "sEARCH", 0},
        {"saerch", "search", 1},
        {"kitten", "sitting", 3},
        {"ca", "abc", 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(sw_text_distance(cases[i].a, cases[i].b), cases[i].distance);
        assert_int_equal(sw_text_distance(cases[i].b, cases[i].a), cases[i].distance);
    }
    char longest[50];
    memset(longest, 'x', sizeof longest);
    longest[48] = '\0';
    assert_int_equal(sw_text_distance(longest, "x"), 47);
    longest[48] = 'x';
    longest[49] = '\0';
    assert_int_equal(sw_text_distance(longest, "x"), 1000);
    assert_int_equal(sw_text_distance("x", longest), 1000);
}

static void near_is_a_third(void **state)
{
    (void)state;
    int32_t distance = -1;
    assert_true(sw_text_is_near("hiden_size", "hidden_size", &distance));
    assert_int_equal(distance, 1);
    assert_true(sw_text_is_near("abc", "abd", &distance));
    assert_false(sw_text_is_near("gpu", "cpu", &distance));
    assert_false(sw_text_is_near("ab", "ac", &distance));
    distance = -1;
    assert_false(sw_text_is_near("a", "abcdefgh", &distance));
    assert_int_equal(distance, -1); /* not even compared */
}

static void nearest(void **state)
{
    (void)state;
    static const char *const words[] = {"check", "search", "emit", "fit"};
    assert_string_equal(sw_text_nearest("serch", words, 4), "search");
    assert_string_equal(sw_text_nearest("fit", words, 4), "fit");
    assert_string_equal(sw_text_nearest("emti", words, 4), "emit");
    assert_null(sw_text_nearest("it", words, 0));
    assert_null(sw_text_nearest("sear", words + 2, 2));
    assert_null(sw_text_nearest("fxx", words, 4));   /* two of three letters */
    assert_null(sw_text_nearest("srhhh", words, 4)); /* three letters */
    static const char *const alike[] = {"best", "rest"};
    assert_string_equal(sw_text_nearest("test", alike, 2), "best");
}

static void shown(void **state)
{
    (void)state;
    char buffer[64];
    assert_string_equal(sw_text_shown("model.norm", 60, buffer), "model.norm");
    assert_string_equal(sw_text_shown("a\nb\x1b[2J\x7f", 60, buffer), "a?b?[2J?");
    assert_string_equal(sw_text_shown("\xc2\x9b \xc2\xa0 \xc3\x9b", 60, buffer),
                        "? \xc2\xa0 \xc3\x9b"); /* one for a character of two bytes */
    assert_string_equal(sw_text_shown("abc\n", 3, buffer), "abc...");
}

static void shorten(void **state)
{
    (void)state;
    char buffer[16];
    assert_string_equal(sw_text_shorten("abcdef", 6, buffer), "abcdef");
    assert_string_equal(sw_text_shorten("abcdef", 5, buffer), "abcde...");
    assert_ptr_equal(sw_text_shorten("", 0, buffer), buffer);
    assert_string_equal(buffer, "");
    /* u umlaut has two bytes, the euro sign three */
    assert_string_equal(sw_text_shorten("ab\xc3\xbc"
                                        "cd",
                                        3, buffer),
                        "ab...");
    assert_string_equal(sw_text_shorten("ab\xc3\xbc"
                                        "cd",
                                        4, buffer),
                        "ab\xc3\xbc...");
    assert_string_equal(sw_text_shorten("\xe2\x82\xac\xe2\x82\xac", 5, buffer), "\xe2\x82\xac...");
}

static void html(void **state)
{
    (void)state;
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    sw_text_write_html(out, "<a href=\"x\">'&'\n\xc3\xbc</a>");
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39; \xc3\xbc&lt;/a&gt;");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distances), cmocka_unit_test(near_is_a_third), cmocka_unit_test(nearest),
        cmocka_unit_test(shorten),   cmocka_unit_test(shown),           cmocka_unit_test(html),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
