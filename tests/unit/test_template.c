/* Templates: values reach a shell as the words they are, whatever they contain. */
#include "planner/command/template.h"
#include "planner/scheduler/slurm/job_script.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct sw_template_value values[] = {
    {.name = "plain", .value = "a/b-1.yaml"},
    {.name = "nasty", .value = "it's $(touch x) `id` \"q\" \\ #"},
    {.name = "empty", .value = ""},
    {.name = "unset", .value = NULL},
    {.name = "newline", .value = "a\nb"},
    {.name = "equals", .value = "=eth0"},
    {.name = "words", .value = "--a 'b c'", .kind = SW_TEMPLATE_WORDS},
    {.name = "no_words", .value = "", .kind = SW_TEMPLATE_WORDS},
    {.name = "lines", .value = "export A=1\nexport B=2\n", .kind = SW_TEMPLATE_LINES},
    {.name = "no_lines", .value = NULL, .kind = SW_TEMPLATE_LINES},
    {.name = "directives", .value = "#SBATCH --x\n", .kind = SW_TEMPLATE_DIRECTIVES},
    {.name = NULL},
};
#define ALL                                                                                        \
    "; there are: plain, nasty, empty, unset, newline, equals, words, no_words, lines, no_lines, " \
    "directives"

static void fills(void **state)
{
    (void)state;
    struct sw_error err = {0};
    char *text = sw_template_fill("t", "a={{plain}}\nb={{nasty}}\nc={{empty}} {{unset}}\nend",
                                  values, sw_slurm_script.dialect, &err);
    assert_non_null(text);
    assert_string_equal(text, "a=a/b-1.yaml\n"
                              "b='it'\\''s $(touch x) `id` \"q\" \\ #'\n"
                              "c='' ''\nend");
    free(text);
    text = sw_template_fill("t",
                            "#SBATCH --a={{plain}}\n#SBATCH --b={{unset}}\n#SBATCH --c{{empty}}\n"
                            "#SBATCH --d={{nasty}}\n# {{plain}} {{unset}}.\n",
                            values, sw_slurm_script.dialect, &err);
    assert_non_null(text);
    assert_string_equal(text, "#SBATCH --a=a/b-1.yaml\n#SBATCH --c\n"
                              "#SBATCH --d=\"it's $(touch x) `id` \\\"q\\\" \\\\ #\"\n"
                              "# a/b-1.yaml .\n");
    free(text);
}

static void fills_words_and_lines(void **state)
{
    (void)state;
    struct sw_error err = {0};
    char *text = sw_template_fill("t",
                                  "#!/bin/sh\n  #SBATCH --a={{plain}}\n\t#SBATCH --b={{unset}}\n"
                                  "#SBATCH\t--c={{nasty}}\n{{directives}}\n{{no_lines}}\n"
                                  "run {{words}} x {{no_words}} y {{no_words}}\n  {{lines}}\n"
                                  "z={{equals}} \"$(echo {{plain}})\" # it's {{plain}}\n",
                                  values, sw_slurm_script.dialect, &err);
    assert_non_null(text);
    assert_string_equal(text, "#!/bin/sh\n#SBATCH --a=a/b-1.yaml\n"
                              "#SBATCH\t--c=\"it's $(touch x) `id` \\\"q\\\" \\\\ #\"\n"
                              "#SBATCH --x\n"
                              "run --a 'b c' x y \n  export A=1\nexport B=2\n"
                              "z='=eth0' \"$(echo a/b-1.yaml)\" # it's a/b-1.yaml\n");
    free(text);
}

static void survives_the_shell(void **state)
{
    (void)state;
    struct sw_error err = {0};
    char read[256] = {0};
    char *text =
        sw_template_fill("t", "printf %s {{nasty}}", values, sw_slurm_script.dialect, &err);
    FILE *shell = popen(text, "r");
    assert_non_null(shell);
    const size_t bytes = fread(read, 1, sizeof read - 1, shell);
    read[bytes] = '\0';
    assert_int_equal(pclose(shell), 0);
    assert_string_equal(read, values[1].value);
    free(text);
}

#define CODE                                                                                       \
    ", where its value could be read as code; give it to a variable, name={{plain}}, and use "     \
    "\"$name\""
#define QUOTED                                                                                     \
    ": error: '{{plain}}' stands in quotes or behind a backslash; values are quoted for sbatch "   \
    "where they need it: leave yours out"
static void says_where(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"x\n y {{plane}}",
         "t:2:6: error: unknown placeholder '{{plane}}'; did you mean '{{plain}}'?" ALL},
        {"{{zzzzzz}}", "t:1:3: error: unknown placeholder '{{zzzzzz}}'" ALL},
        {"{{z\x1bz}}", "t:1:3: error: unknown placeholder '{{z?z}}'" ALL},
        {"a {{plain\n}}", "t:1:3: error: '{{' without '}}'"},
        {"'{{plain}}'", "t:1:2: error: '{{plain}}' stands in "
                        "single quotes" CODE},
        {"\"a {{plain}}\"", "t:1:4: error: '{{plain}}' stands in "
                            "double quotes" CODE},
        {"$'{{plain}}'", "t:1:3: error: '{{plain}}' stands in "
                         "$'...' quotes" CODE},
        {"a=`ls {{plain}}`", "t:1:7: error: '{{plain}}' stands in "
                             "backticks" CODE},
        {"cat <<END\n# {{plain}}\nEND\n", "t:2:3: error: '{{plain}}' stands in "
                                          "a here-document" CODE},
        {"cat <<{{plain}}", "t:1:7: error: '{{plain}}' stands in "
                            "a here-document" CODE},
        {"${a:-{{plain}}}", "t:1:6: error: '{{plain}}' stands in "
                            "${...}" CODE},
        {"$(( {{plain}} ))", "t:1:5: error: '{{plain}}' stands in "
                             "arithmetic" CODE},
        {"a[{{plain}}]=1", "t:1:3: error: '{{plain}}' stands in "
                           "arithmetic" CODE},
        {"\\{{plain}}", "t:1:2: error: '{{plain}}' stands in "
                        "a backslash's escape" CODE},
        {"${{plain}}", "t:1:2: error: '{{plain}}' stands in "
                       "a '$'" CODE},
        {"a='x\n# {{plain}}\n'", "t:2:3: error: '{{plain}}' stands in "
                                 "single quotes" CODE},
        {"#SBATCH --a=\"{{plain}}\"", "t:1:14" QUOTED},
        {"#SBATCH --a='x {{plain}}'", "t:1:16" QUOTED},
        {"#SBATCH --a=\\{{plain}}", "t:1:14" QUOTED},
        {"#SBATCH {{words}}",
         "t:1:9: error: '{{words}}' cannot stand in a comment or an #SBATCH line"},
        {"# {{lines}}", "t:1:3: error: '{{lines}}' cannot stand in a comment or an #SBATCH line"},
        {"a {{lines}}\n",
         "t:1:3: error: '{{lines}}' stands for whole lines: put it in a line of its own"},
        {"{{lines}} b\n",
         "t:1:1: error: '{{lines}}' stands for whole lines: put it in a line of its own"},
        {"a\n{{directives}}\n", "t:2:1: error: '{{directives}}' stands behind the first command, "
                                "where sbatch reads no directives"},
        {"\na\n #SBATCH --b\n", "t:3:2: error: sbatch reads no '#SBATCH' behind the first "
                                "command; put it further up"},
        {"{{newline}}", "t:1:1: error: the value of '{{newline}}' has a control character; "
                        "rename the file or folder that has it"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sw_error err = {0};
        assert_null(sw_template_fill("t", cases[i].text, values, sw_slurm_script.dialect, &err));
        assert_int_equal(err.status, SW_BAD_INPUT);
        char said[SW_ERROR_TEXT_BYTES];
        assert_string_equal(sw_error_format(&err, NULL, said), cases[i].message);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fills),
        cmocka_unit_test(fills_words_and_lines),
        cmocka_unit_test(survives_the_shell),
        cmocka_unit_test(says_where),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
