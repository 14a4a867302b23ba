/* Where in a shell text one is. `@` marks the place that is asked about; what the marks of a case
 * must be stands beside it, a letter each. */
#include "core/base/shell.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const char letters[] = {
    [SW_SHELL_WORD] = 'w',    [SW_SHELL_COMMENT] = 'c',   [SW_SHELL_SINGLE] = 's',
    [SW_SHELL_DOUBLE] = 'd',  [SW_SHELL_ANSI] = 'a',      [SW_SHELL_BACKTICK] = 'b',
    [SW_SHELL_HEREDOC] = 'h', [SW_SHELL_PARAMETER] = 'p', [SW_SHELL_ARITHMETIC] = 'n',
    [SW_SHELL_ESCAPED] = 'e', [SW_SHELL_DOLLAR] = '$',    [SW_SHELL_OPEN] = 'o'};

static void places(void **state)
{
    (void)state;
    static const struct {
        const char *text, *are;
    } cases[] = {
        {"@ a=@ b@", "www"},
        {"'@' @ \"@\" @", "swdw"},
        {"\"'@'\" '\"@\"' @", "dsw"},
        {"$'@\\'@' @", "aaw"},
        {"$\"@\" @", "dw"},
        {"\\@ \\\\@", "ew"},
        {"\"\\@ \\\"@\" @", "edw"},
        {"'\\' @", "w"},
        {"$@ $$@", "$$"},
        {"`@ '@'` @", "bsw"},
        {"`\"@\"` @", "bw"},
        {"\"`@`\" @", "bw"},
        {"$(@) $(\"@\" @) @", "wdww"},
        {"\"$(@ '@' \"@\")@\" @", "wsddw"},
        {"${x:-@} \"${x:-'@'}@\" @", "ppdw"},
        {"${x:-'@'} @", "sw"},
        {"$((@ + (@))) @", "nnw"},
        {"((@)) @ ( @ ) @", "nwww"},
        {"a[@]=1 b[x]=@ c[1] @", "nww"},
        {"[ @ = @ ] && [[ @ ]]", "www"},
        {"# @ 'it\n@", "cw"},
        {"a#@ b # @\n@", "wcw"},
        {"$#@", "w"},
        {"cat <<E\n@\nE\n@", "hw"},
        {"cat <<'E' @\n@ '\nE\n@", "whw"},
        {"cat <<-E\n\t@\n\tE\n@", "hw"},
        {"cat <<E\n E\n@\nE\n@", "hw"},
        {"cat <<A <<B\n@\nA\n@\nB\n@", "hhw"},
        {"cat <<@", "h"},
        {"cat <<<@ <<< '@'", "ws"},
        {"f() { @; }\n@", "ww"},
        {"case @ in a) @ ;; esac @", "www"},
        {"x=$(cat <<E\n@\nE\n) @", "hw"},
        {"a 2>&1 @ >@ <@ |& @", "wwww"},
        {"((@", "n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sw_shell_scan scan = {.text = cases[i].text};
        char are[16] = "";
        size_t count = 0;
        for (const char *p = strchr(cases[i].text, '@'); p != NULL; p = strchr(p + 1, '@')) {
            sw_shell_scan_to(&scan, p);
            are[count++] = letters[sw_shell_scan_context(&scan)];
            sw_shell_scan_word(&scan, p + 1);
        }
        if (strcmp(are, cases[i].are) != 0)
            print_error("%s\n", cases[i].text);
        assert_string_equal(are, cases[i].are);
    }
}

static void left_open(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum sw_shell_context is;
    } cases[] = {
        {"", SW_SHELL_WORD},
        {"a 'b' \"c\" $(d) # it's\n", SW_SHELL_WORD},
        {"a # it's", SW_SHELL_WORD},
        {"echo $", SW_SHELL_WORD},
        {"cat <<E\nx\nE\n", SW_SHELL_WORD},
        {"cat <<E\nx\nE", SW_SHELL_WORD},
        {"a 'b", SW_SHELL_SINGLE},
        {"a \"b\n", SW_SHELL_DOUBLE},
        {"a $'b\\'", SW_SHELL_ANSI},
        {"a `b", SW_SHELL_BACKTICK},
        {"a \\", SW_SHELL_ESCAPED},
        {"a $(b\n", SW_SHELL_OPEN},
        {"a ${b\n", SW_SHELL_PARAMETER},
        {"a $((b\n", SW_SHELL_ARITHMETIC},
        {"cat <<E\nx\n", SW_SHELL_HEREDOC},
        {"cat <<E", SW_SHELL_HEREDOC},
        {"cat <<", SW_SHELL_HEREDOC},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (sw_shell_leaves_open(cases[i].text) != cases[i].is)
            print_error("%s\n", cases[i].text);
        assert_int_equal(sw_shell_leaves_open(cases[i].text), cases[i].is);
    }
    assert_string_equal(sw_shell_context_name(SW_SHELL_HEREDOC), "a here-document");
}

static void depth_has_an_end(void **state)
{
    (void)state;
    char text[4 * SW_SHELL_DEPTH + 8] = "";
    for (int32_t i = 0; i < 2 * SW_SHELL_DEPTH; i++)
        strcat(text, "$(");
    struct sw_shell_scan scan = {.text = text};
    sw_shell_scan_to(&scan, text + strlen(text));
    assert_int_equal(sw_shell_scan_context(&scan), SW_SHELL_DOUBLE); /* nothing may stand there */
}

/* What write_value of job scripts expands, and paths are refused for. */
static void variables(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t length;
    } rows[] = {{"$A", 2},      {"$A/b", 2}, {"$_a1-", 4}, {"${A}", 4},
                {"${A}b", 4},   {"$", 0},    {"$$", 0},    {"$1", 0},
                {"${1}", 0},    {"${A", 0},  {"${}", 0},   {"$(A)", 0},
                {"${A:-b}", 0}, {"A", 0},    {"", 0},      {"$\xc3\xa9", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (sw_shell_variable_length(rows[i].text) != rows[i].length)
            fail_msg("'%s': %zu", rows[i].text, sw_shell_variable_length(rows[i].text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variables),
        cmocka_unit_test(places),
        cmocka_unit_test(left_open),
        cmocka_unit_test(depth_has_an_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
