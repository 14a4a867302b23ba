/* Templates: values reach a shell as the words they are, whatever they contain. */
#include "planner/template.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct sw_template_value values[] = {
    {"plain", "a/b-1.yaml"}, {"nasty", "it's $(touch x) `id` \"q\" \\ #"},
    {"empty", ""},           {"unset", NULL},
    {"newline", "a\nb"},     {NULL, NULL},
};

static void fills(void **state)
{
    (void)state;
    struct sw_error err = {0};
    char *text =
        sw_template_fill("t", "a={{plain}}\nb={{nasty}}\nc={{empty}} {{unset}}\nend", values, &err);
    assert_non_null(text);
    assert_string_equal(text, "a=a/b-1.yaml\n"
                              "b='it'\\''s $(touch x) `id` \"q\" \\ #'\n"
                              "c='' ''\nend");
    free(text);
    text = sw_template_fill("t",
                            "#SBATCH --a={{plain}}\n#SBATCH --b={{unset}}\n#SBATCH --c{{empty}}\n"
                            "#SBATCH --d={{nasty}}\n# {{plain}} {{unset}}.\n",
                            values, &err);
    assert_non_null(text);
    assert_string_equal(text, "#SBATCH --a=a/b-1.yaml\n#SBATCH --c\n"
                              "#SBATCH --d=\"it's $(touch x) `id` \\\"q\\\" \\\\ #\"\n"
                              "# a/b-1.yaml .\n");
    free(text);
}

static void survives_the_shell(void **state)
{
    (void)state;
    struct sw_error err = {0};
    char read[256] = {0};
    char *text = sw_template_fill("t", "printf %s {{nasty}}", values, &err);
    FILE *shell = popen(text, "r");
    assert_non_null(shell);
    const size_t bytes = fread(read, 1, sizeof read - 1, shell);
    read[bytes] = '\0';
    assert_int_equal(pclose(shell), 0);
    assert_string_equal(read, values[1].value);
    free(text);
}

static void says_where(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"x\n y {{plane}}",
         "t:2:6: error: unknown placeholder '{{plane}}'; did you mean '{{plain}}'?"},
        {"{{zzzzzz}}", "t:1:3: error: unknown placeholder '{{zzzzzz}}'"},
        {"{{z\x1bz}}", "t:1:3: error: unknown placeholder '{{z?z}}'"},
        {"a {{plain\n}}", "t:1:3: error: '{{' without '}}'"},
        {"{{newline}}", "t:1:1: error: the value of '{{newline}}' has a control character"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sw_error err = {0};
        assert_null(sw_template_fill("t", cases[i].text, values, &err));
        assert_int_equal(err.status, SW_BAD_INPUT);
        char said[SW_ERROR_TEXT_BYTES];
        assert_string_equal(sw_error_format(&err, NULL, said), cases[i].message);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fills),
        cmocka_unit_test(survives_the_shell),
        cmocka_unit_test(says_where),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
