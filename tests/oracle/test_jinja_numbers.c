/* Expressions of numbers in templates have Python's values: jinja_numbers.py. */
#include "runner/text/jinja/jinja.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *draws;

static void expect_number(const char *expression, const char *wanted, int number)
{
    char source[600];
    struct sw_jinja *jinja = NULL;
    struct sw_chars text = {0};
    struct sw_error err = {0};
    snprintf(source, sizeof source, "{{ %s }}", expression);
    if (sw_jinja_parse("t", source, strlen(source), &jinja, &err) != 0)
        fail_msg("draw %d: %s: %s", number, expression, err.message);
    const int status =
        sw_jinja_render(jinja, NULL, 0, &SW_JINJA_USUAL_LIMITS, 0, &text, NULL, NULL, &err);
    if (strcmp(wanted, "?") != 0 && status != 0)
        fail_msg("draw %d: %s is %s: %s", number, expression, wanted, err.message);
    if (strcmp(wanted, "?") != 0 &&
        (text.count != strlen(wanted) || memcmp(text.byte, wanted, text.count) != 0))
        fail_msg("draw %d: %s is %s, not %.*s", number, expression, wanted, (int)text.count,
                 text.byte);
    sw_chars_free(&text);
    sw_jinja_free(jinja);
}

static void numbers_are_pythons(void **state)
{
    FILE *file = fopen(draws, "re");
    char *expression = NULL, *wanted = NULL;
    size_t room = 0, other_room = 0;
    int count = 0;
    (void)state;
    assert_non_null(file);
    for (; getline(&expression, &room, file) > 0; count++) {
        assert_true(getline(&wanted, &other_room, file) > 0);
        expression[strcspn(expression, "\n")] = wanted[strcspn(wanted, "\n")] = '\0';
        expect_number(expression, wanted, count);
    }
    free(expression);
    free(wanted);
    fclose(file);
    assert_true(count >= 1000);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(numbers_are_pythons)};
    draws = argc > 1 ? argv[1] : "build/tests/jinja_numbers.txt";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
