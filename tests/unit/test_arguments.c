/* Options: what a row takes, what is said of what it does not, and its help. */
#include "core/base/arguments.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct {
    const char *plan, *text, *prompt, *more[8];
    bool flag;
    double number;
    int32_t taken, more_count;
    struct sw_meant meant;
} got;

static int take_even(void *to, const char *value, struct sw_problem *problem)
{
    if (strcmp(value, "odd") == 0)
        return sw_problem_is(problem, "an even number, not ", value);
    *(int32_t *)to = 2;
    return strcmp(value, "even") == 0 ? 0 : -1;
}

/* wanted: what is said, NULL: nothing. */
static void parse(bool plan, bool more, const char *wanted, ...)
{
    const struct sw_argument options[] = {
        {.name = "--flag", .flag = &got.flag},
        {.name = "--text", .text = &got.text},
        {.name = "--prompt", .text = &got.prompt, .may_be_empty = true},
        {.name = "--number",
         .needs = "--number is from 1 to 9",
         .number = &got.number,
         .least = 1,
         .most = 9},
        {.name = "--listen", .text = &got.text},
        {.name = "max_new_tokens", .number = &got.number, .most = 9},
        {.name = "top_k", .needs = " needs two", .take = take_even, .to = &got.taken},
        sw_argument_digest(&got.meant),
        {.name = NULL}};
    char *argv[16] = {"runner", "command"}, said[256];
    struct sw_problem problem;
    int argc = 2;
    va_list words;
    va_start(words, wanted);
    while ((argv[argc] = va_arg(words, char *)) != NULL)
        argc++;
    va_end(words);
    memset(&got, 0, sizeof got);
    const int status =
        sw_arguments_parse(argc, argv, options, plan ? &got.plan : NULL,
                           more ? (char **)got.more : NULL, &got.more_count, &problem);
    assert_int_equal(status, wanted == NULL ? 0 : -1);
    if (wanted == NULL)
        return;
    snprintf(said, sizeof said, problem.near[0] != '\0' ? "%s%s; did you mean %s?" : "%s%s",
             problem.what, problem.which, problem.near);
    assert_string_equal(said, wanted);
    char all[SW_PROBLEM_BYTES], text[SW_PROBLEM_BYTES];
    snprintf(all, sizeof all, "%s%s", said,
             problem.near[0] != '\0' ? "" : "; see 'runner command --help'");
    assert_string_equal(sw_problem_text(&problem, "command", text), all);
}

static void test_rows(void **state)
{
    (void)state;
    parse(true, false, NULL, "--flag", "--text", "a", "p", "--number", "9", "--prompt", "",
          "--top-k", "even", "--digest", "00000000000000ff", NULL);
    assert_true(got.flag && got.meant.given && got.meant.digest == 255);
    assert_string_equal(got.text, "a");
    assert_string_equal(got.plan, "p");
    assert_string_equal(got.prompt, "");
    assert_true(got.number == 9 && got.taken == 2);
}

static void test_places(void **state)
{
    (void)state;
    parse(true, true, NULL, "p", "a", "--flag", "b", NULL);
    assert_int_equal(got.more_count, 2);
    assert_string_equal(got.more[1], "b");
    parse(false, true, NULL, "a", "--flag", "b", NULL); /* no plan is among them */
    assert_int_equal(got.more_count, 2);
    assert_string_equal(got.more[0], "a");
    parse(true, false, "one plan at a time, not also q", "p", "q", NULL);
    parse(true, false, "command needs a plan file", NULL);
    parse(true, false, "command needs a plan file", "", NULL);
    parse(false, false, NULL, "--flag", NULL);
    parse(false, false, "unexpected argument p", "p", NULL);
}

/* Another spelling, another tool's name, a slip, some of the words; or like none. */
static void test_near(void **state)
{
    (void)state;
    parse(true, true, "unknown option --flags; did you mean --flag?", "p", "--flags", NULL);
    parse(true, true, "unknown option --top_k; did you mean --top-k?", "--top_k", "even", NULL);
    parse(true, true, "unknown option -top-k; did you mean --top-k?", "-top-k", "even", NULL);
    parse(true, true, "unknown option --text=a; did you mean --text?", "--text=a", NULL);
    parse(true, true, "unknown option --port; did you mean --listen?", "--port", "3", NULL);
    parse(true, true, "unknown option --max-tokens; did you mean --max-new-tokens?", "--max-tokens",
          NULL);
    parse(true, true, "unknown option --cheese", "--cheese", NULL);
    parse(true, true, "unknown option -c", "-c", NULL);
}

static void test_values(void **state)
{
    (void)state;
    parse(true, false, "--text needs a value", "p", "--text", NULL);
    parse(true, false, "--text needs a value", "p", "--text", "", NULL);
    parse(true, false, "--prompt needs a value", "p", "--prompt", NULL);
    parse(true, false, "--number is from 1 to 9", "p", "--number", "0", NULL);
    parse(true, false, "--number is from 1 to 9", "p", "--number", "1.5", NULL);
    parse(true, false, "--number is from 1 to 9", "p", "--number", "2x", NULL);
    parse(true, false, "--number is from 1 to 9", "p", "--number", "nan", NULL);
    parse(true, false, "--number is from 1 to 9", "p", "--number", NULL);
    parse(true, false, "--top-k needs two", "p", "--top-k", "3", NULL);
    parse(true, false, "an even number, not odd", "p", "--top-k", "odd", NULL);
    parse(true, false, "--digest needs the 16 digits of a plan's digest", "p", "--digest", "ff",
          NULL);
}

/* Every row that says something has a line; long ones go on in others, at the same column. */
static void test_help(void **state)
{
    (void)state;
    static const char wanted[] =
        "  --top-k K                the most probable tokens\n"
        "  --max-new-tokens-of-all NUMBER\n"
        "                           one two three four five six seven eight nine ten eleven twelve "
        "thirteen\n"
        "                           fourteen\n"
        "  -o FILE                  a file\n";
    const struct sw_argument options[] = {
        {.name = "top_k", .value = "K", .about = "the most probable tokens"},
        {.name = "--hidden", .value = "N"},
        {.name = "--max-new-tokens-of-all",
         .value = "NUMBER",
         .about = "one two three four five six seven eight nine ten eleven twelve thirteen "
                  "fourteen"},
        {.name = "-o", .value = "FILE", .about = "a file"},
        {.name = NULL}};
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    sw_arguments_help(out, options);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, wanted);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_help), cmocka_unit_test(test_rows),
                                       cmocka_unit_test(test_places), cmocka_unit_test(test_near),
                                       cmocka_unit_test(test_values)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
