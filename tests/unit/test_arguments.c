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

enum { HERE = 1, ELSEWHERE = 2 };

static struct got {
    const char *plan, *text, *prompt, *kind, *maybe;
    bool flag, other, asked;
    int64_t number;
    int32_t small, taken, stops;
    enum sw_continue how;
    struct sw_arguments_words words, rest;
    struct sw_meant meant;
    char **files;
    int32_t file_count;
} got;

static int take_even(const struct sw_argument *row, void *to, const char *value,
                     struct sw_error *err)
{
    (void)row;
    if (strcmp(value, "odd") == 0)
        return sw_fail(err, SW_BAD_INPUT, "an even number, not '%s'", value);
    *(int32_t *)to = 2;
    return strcmp(value, "even") == 0 ? 0 : -1;
}

static int take_stop(const struct sw_argument *row, void *to, const char *value,
                     struct sw_error *err)
{
    (void)row;
    (void)value;
    (void)err;
    ++*(int32_t *)to;
    return 0;
}

static int take_maybe(const struct sw_argument *row, void *to, const char *value,
                      struct sw_error *err)
{
    (void)row;
    (void)err;
    ((struct got *)to)->asked = true;
    ((struct got *)to)->maybe = value;
    return 0;
}

#define INTO(member) SW_ARGUMENT_TO(struct got, member)
static const struct sw_argument rows[] = {
    {.name = "--flag", .other = "-f", INTO(flag)},
    {.name = "--text", .other = "-t", .value = "TEXT", INTO(text)},
    {.name = "--prompt", .value = "TEXT", .empty = SW_EMPTY_TAKEN, INTO(prompt)},
    {.name = "--skipped", .value = "TEXT", .empty = SW_EMPTY_SKIPPED, INTO(text)},
    {.name = "--kind", .value = "a|bc|d", .is_choice = true, INTO(kind)},
    {.name = "--number", .value = "N", .least = 1, .most = 9, INTO(number)},
    {.name = "--small", .value = "N", INTO(small)},
    {.name = "--large", .value = "N", INTO(number)},
    {.name = "--mesh_dim", .value = "M", INTO(text)},
    {.name = "--listen", .value = "ADDRESS", INTO(text)},
    {.name = "max_new_tokens", .value = "N", INTO(number)},
    {.name = "top_k", .value = "K", .take = take_even, INTO(taken)},
    {.name = "--stop", .value = "TEXT", .take = take_stop, INTO(stops)},
    {.name = "--maybe", .value = "[NAME]", .take = take_maybe, .kind = SW_ARGUMENT_OTHER},
    {.name = "--continue", .value = "none|requeue|chain", .words = sw_words_continue, INTO(how)},
    {.name = "--words", .value = "N WORD...", INTO(words)},
    {.name = "--other", .bit = ELSEWHERE, INTO(other)},
    SW_ARGUMENT_DIGEST(struct got, meant),
    {.name = NULL}};
#undef INTO

static char *argv[24];

/* plan: one is needed; wanted: what is said, NULL: nothing, "": the help is asked for. */
static void parse(bool plan, int32_t most, const char *wanted, ...)
{
    struct sw_command_line line = {.tool = "runner",
                                   .command = "command",
                                   .options = rows,
                                   .accepted = HERE,
                                   .to = &got,
                                   .plan = plan ? &got.plan : NULL,
                                   .most_files = most,
                                   .rest = most < 0 ? &got.rest : NULL};
    struct sw_error err = {0};
    char all[SW_ERROR_BYTES];
    int argc = 0;
    va_list words;
    line.most_files = most < 0 ? 0 : most;
    va_start(words, wanted);
    while ((argv[argc] = va_arg(words, char *)) != NULL)
        argc++;
    va_end(words);
    memset(&got, 0, sizeof got);
    assert_int_equal(sw_arguments_parse(argc, argv, &line, &err), wanted == NULL ? 0 : -1);
    assert_int_equal(err.status, wanted == NULL || *wanted == '\0' ? SW_OK : SW_BAD_INPUT);
    got.files = line.files;
    got.file_count = line.file_count;
    if (wanted == NULL)
        wanted = "";
    snprintf(all, sizeof all, "%s%s", wanted,
             *wanted == '\0' || strchr(wanted, ';') != NULL ? "" : "; see 'runner command --help'");
    assert_string_equal(err.message, all);
}

static void test_rows(void **state)
{
    (void)state;
    parse(true, 0, NULL, "--flag", "--text", "a", "p", "--number", "9", "--prompt", "", "--top-k",
          "even", "--digest", "00000000000000ff", "--kind", "bc", "--continue", "chain", "--small",
          "0", NULL);
    assert_true(got.flag && got.meant.given && got.meant.digest == 255);
    assert_string_equal(got.text, "a");
    assert_string_equal(got.plan, "p");
    assert_string_equal(got.prompt, "");
    assert_string_equal(got.kind, "bc");
    assert_true(got.number == 9 && got.taken == 2 && got.how == SW_CONTINUE_CHAIN);
    /* the other spelling, and '_' for '-' */
    parse(false, 0, NULL, "-f", "-t", "a", "--top_k", "even", "--max-new_tokens=7", NULL);
    assert_true(got.flag && got.taken == 2 && got.number == 7);
    assert_string_equal(got.text, "a");
}

/* "--x=V" is "--x V", and all behind the first '=' is the value. */
static void test_equals(void **state)
{
    (void)state;
    parse(false, 0, NULL, "--text=a=b", "--prompt=", "--number=3", "--top-k=even", NULL);
    assert_string_equal(got.text, "a=b");
    assert_string_equal(got.prompt, "");
    assert_true(got.number == 3 && got.taken == 2);
    parse(false, 0, NULL, "-t=--flag", NULL); /* a value, whatever it looks like */
    assert_string_equal(got.text, "--flag");
    assert_false(got.flag);
    parse(false, 0, "option '--flag' takes no value", "--flag=yes", NULL);
    parse(false, 0, "option '--flag' takes no value", "-f=", NULL);
    parse(false, 0, "--text needs a value: TEXT", "--text=", NULL);
    parse(false, 0, "--text needs a value: TEXT; write '--text=--flag' if that is meant", "--text",
          "--flag", NULL);
    parse(false, 0, "--text needs a value: TEXT; write '-t=--number=3' if that is meant", "-t",
          "--number=3", NULL);
    parse(false, 0, NULL, "--text", "--other", NULL); /* no option of this command */
    parse(false, 0, NULL, "--text", "-", NULL);
    parse(false, 0, "unknown option '--cheese'", "--cheese=--text", NULL);
}

/* The last one counts; those that collect have all. */
static void test_repeated(void **state)
{
    (void)state;
    parse(false, 0, NULL, "--number", "1", "--number=2", "--stop", "a", "--stop", "b", "--flag",
          "--flag", NULL);
    assert_true(got.number == 2 && got.stops == 2 && got.flag);
    parse(false, 0, "--number must be a whole number from 1 to 9, not 'x'", "--number", "x",
          "--number", "2", NULL);
}

static void test_places(void **state)
{
    (void)state;
    parse(true, 6, NULL, "p", "a", "--flag", "b", NULL);
    assert_int_equal(got.file_count, 2);
    assert_string_equal(got.files[0], "a");
    assert_string_equal(got.files[1], "b");
    parse(false, 6, NULL, "a", "--flag", "b", "-", NULL); /* no plan is among them; '-' is stdin */
    assert_int_equal(got.file_count, 3);
    assert_string_equal(got.files[0], "a");
    assert_string_equal(got.files[2], "-");
    parse(true, 0, "one plan at a time, not also 'q'", "p", "q", NULL);
    parse(true, 0, "command needs a plan file", NULL);
    parse(true, 0, "command needs a plan file", "", NULL);
    parse(false, 0, NULL, "--flag", NULL);
    parse(false, 0, "unexpected argument 'p'", "p", NULL);
    parse(false, 1, "unexpected argument 'q'", "p", "q", NULL);
}

/* Behind "--" stand files, or the words of another program. */
static void test_rest(void **state)
{
    (void)state;
    parse(false, 6, NULL, "a", "--", "--flag", "--", NULL);
    assert_int_equal(got.file_count, 3);
    assert_string_equal(got.files[1], "--flag");
    assert_string_equal(got.files[2], "--");
    assert_false(got.flag);
    parse(true, -1, NULL, "p", "--flag", "--", "--text", "--", NULL);
    assert_int_equal(got.rest.count, 2);
    assert_string_equal(got.rest.word[0], "--text");
    assert_string_equal(got.rest.word[1], "--");
    assert_true(got.text == NULL && got.flag);
    parse(true, -1, NULL, "p", "--", NULL);
    assert_int_equal(got.rest.count, 0);
}

/* As many words as the number says, whatever they look like. */
static void test_words(void **state)
{
    (void)state;
    parse(true, 0, NULL, "--words", "2", "--help", "--", "p", "--flag", NULL);
    assert_int_equal(got.words.count, 2);
    assert_string_equal(got.words.word[0], "--help");
    assert_string_equal(got.words.word[1], "--");
    assert_string_equal(got.plan, "p");
    assert_true(got.flag);
    parse(true, 0, NULL, "p", "--words", "0", NULL);
    assert_int_equal(got.words.count, 0);
    static const char *const wrong[] = {"2", "-1", "x", "1x", "", "99999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char said[128];
        snprintf(said, sizeof said, "--words needs a number and that many words, not '%s'",
                 wrong[i]);
        parse(true, 0, said, "p", "--words", wrong[i], "a", NULL);
    }
    parse(true, 0, "--words needs a value: N WORD...", "p", "--words", NULL);
    parse(true, 0, "--words needs a value: N WORD...", "p", "--words=1", "a", NULL);
}

/* A value that need not be there: a word, but neither a file nor an option. */
static void test_optional(void **state)
{
    (void)state;
    static const char *const none[] = {"a.yaml", "./a", "--flag", "-"};
    parse(false, 0, NULL, "--maybe", NULL);
    assert_true(got.asked && got.maybe == NULL);
    parse(false, 0, NULL, "--maybe", "name", NULL);
    assert_string_equal(got.maybe, "name");
    parse(false, 0, NULL, "--maybe=a.yaml", NULL);
    assert_string_equal(got.maybe, "a.yaml");
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        parse(false, 6, NULL, "--maybe", none[i], NULL);
        assert_true(got.asked && got.maybe == NULL);
    }
}

/* Asked for before a mistake; not by a value or a file. */
static void test_help_is_asked(void **state)
{
    (void)state;
    parse(true, 0, "", "--help", NULL);
    parse(true, 0, "", "p", "-h", "--cheese", NULL);
    parse(true, 0, "unknown option '--cheese'", "--cheese", "--help", NULL);
    parse(true, 0, NULL, "p", "--text", "--help", NULL);
    parse(true, 1, NULL, "p", "--", "--help", NULL);
    assert_int_equal(got.file_count, 1);
}

/* Another tool's name, a slip, some of the words; or like none. */
static void test_near(void **state)
{
    (void)state;
    parse(true, 6, "unknown option '--flags'; did you mean '--flag'?", "p", "--flags", NULL);
    parse(true, 6, "unknown option '-top-k'; did you mean '--top-k'?", "-top-k", "even", NULL);
    parse(true, 6, "unknown option '--texd'; did you mean '--text'?", "--texd=a", NULL);
    parse(true, 6, "unknown option '--port'; did you mean '--listen'?", "--port", "3", NULL);
    parse(true, 6, "unknown option '--max-tokens'; did you mean '--max-new-tokens'?",
          "--max-tokens", NULL);
    parse(true, 6, "unknown option '--dim'; did you mean '--mesh_dim'?", "--dim", NULL);
    parse(true, 6, "unknown option '--cheese'", "--cheese", NULL);
    parse(true, 6, "unknown option '-c'", "-c", NULL);
    /* another command's is no guess */
    parse(true, 6, "'runner command' has no option '--other'", "--other", NULL);
    parse(true, 6, "unknown option '--othar'", "--othar", NULL);
}

static void test_values(void **state)
{
    (void)state;
    parse(true, 0, "--text needs a value: TEXT", "p", "--text", NULL);
    parse(true, 0, "--text needs a value: TEXT", "p", "-t", "", NULL);
    parse(true, 0, "--prompt needs a value: TEXT", "p", "--prompt", NULL);
    parse(true, 0, NULL, "p", "--text", "a", "--skipped", "", NULL);
    assert_string_equal(got.text, "a");
    static const char *const wrong[] = {"0", "10", "1.5", "2x", "nan", "9223372036854775808"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char said[128];
        snprintf(said, sizeof said, "--number must be a whole number from 1 to 9, not '%s'",
                 wrong[i]);
        parse(true, 0, said, "p", "--number", wrong[i], NULL);
    }
    static const char *const small[] = {"1000", "1e3", "1000.0", "+1000", "10000e-1"};
    for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
        parse(true, 0, NULL, "p", "--small", small[i], NULL);
        assert_int_equal(got.small, 1000);
    }
    parse(true, 0, "--small must be a whole number from 0, not '-1e3'", "p", "--small", "-1e3",
          NULL);
    parse(true, 0, "--small must be a whole number from 0 to 2147483647, not '3e9'", "p", "--small",
          "3e9", NULL);
    parse(true, 0, NULL, "p", "--large", "9007199254740993", NULL);
    assert_true(got.number == 9007199254740993);
    parse(true, 0, NULL, "p", "--large", "1e15", NULL);
    assert_true(got.number == 1000000000000000);
    parse(true, 0, "--large must be a whole number from 0, not '1e16'", "p", "--large", "1e16",
          NULL);
    static const char *const broken[] = {"1e-3", "1.5", "inf", "nan", "1e3x", "1e400", "e3", " "};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        char said[128];
        snprintf(said, sizeof said, "--small must be a whole number from 0, not '%s'", broken[i]);
        parse(true, 0, said, "p", "--small", broken[i], NULL);
    }
    parse(true, 0, "--number needs a value: N", "p", "--number", NULL);
    parse(true, 0, "--small must be a whole number from 0, not '-1'", "p", "--small", "-1", NULL);
    parse(true, 0, "--small must be a whole number from 0 to 2147483647, not '2147483648'", "p",
          "--small", "2147483648", NULL);
    parse(true, 0, "--kind must be a, bc or d, not 'b'", "p", "--kind", "b", NULL);
    parse(true, 0, "--kind must be a, bc or d, not 'a|bc'", "p", "--kind", "a|bc", NULL);
    parse(true, 0, "--kind needs a value: a, bc or d", "p", "--kind", NULL);
    parse(true, 0, "--continue must be none, requeue or chain, not 'x'", "p", "--continue", "x",
          NULL);
    parse(true, 0,
          "--continue must be none, requeue or chain, not 'reque'; did you mean 'requeue'?", "p",
          "--continue", "reque", NULL);
    parse(true, 0, "--kind must be a, bc or d, not 'BC'; did you mean 'bc'?", "p", "--kind", "BC",
          NULL);
    parse(true, 0, "--top-k must be K, not '3'", "p", "--top-k", "3", NULL);
    parse(true, 0, "an even number, not 'odd'", "p", "--top-k", "odd", NULL);
    parse(true, 0, "--digest must be the 16 hexadecimal digits of a plan's digest, not 'ff'", "p",
          "--digest", "ff", NULL);
}

static void test_range(void **state)
{
    (void)state;
    int32_t least = 0, most = 0;
    assert_int_equal(sw_arguments_range("4", &least, &most), 0);
    assert_true(least == 4 && most == 4);
    assert_int_equal(sw_arguments_range("3-12", &least, &most), 0);
    assert_true(least == 3 && most == 12);
    static const char *const wrong[] = {"", "0", "4-3", "3-", "-3", "3-4x", "1-2147483648", "a"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(sw_arguments_range(wrong[i], &least, &most), -1);
    assert_true(least == 3 && most == 12);
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
        "  -o FILE                  a file\n"
        "  -n, --lines N            at most N\n";
    const struct sw_argument options[] = {
        {.name = "top_k", .value = "K", .about = "the most probable tokens"},
        {.name = "--hidden", .value = "N"},
        {.name = "--max-new-tokens-of-all",
         .value = "NUMBER",
         .about = "one two three four five six seven eight nine ten eleven twelve thirteen "
                  "fourteen"},
        {.name = "-o", .value = "FILE", .about = "a file"},
        {.name = "--lines", .other = "-n", .value = "N", .about = "at most N", .bit = HERE},
        {.name = "--other", .about = "not here", .bit = ELSEWHERE},
        {.name = NULL}};
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    sw_arguments_help(out, options, HERE);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, wanted);
    free(text);
}

static void test_is(void **state)
{
    (void)state;
    assert_true(sw_arguments_is("--top-k", "--top-k"));
    assert_true(sw_arguments_is("--top_k=5", "--top-k"));
    assert_true(sw_arguments_is("--top-k=", "top_k"));
    assert_false(sw_arguments_is("--top-k5", "--top-k"));
    assert_false(sw_arguments_is("--top", "--top-k"));
    assert_false(sw_arguments_is("top_k", "top_k"));
    assert_false(sw_arguments_is("5", "--top-k"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_help),   cmocka_unit_test(test_rows),
        cmocka_unit_test(test_equals), cmocka_unit_test(test_repeated),
        cmocka_unit_test(test_places), cmocka_unit_test(test_rest),
        cmocka_unit_test(test_words),  cmocka_unit_test(test_optional),
        cmocka_unit_test(test_near),   cmocka_unit_test(test_values),
        cmocka_unit_test(test_range),  cmocka_unit_test(test_help_is_asked),
        cmocka_unit_test(test_is)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
