/* Errors: the first one stays, its place is data, and what people read is made of it. */
#include "core/base/error.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *said(const struct sw_error *err, const char *program)
{
    static _Thread_local char text[SW_ERROR_TEXT_BYTES];
    return sw_error_format(err, program, text);
}

static void keeps_the_first(void **state)
{
    (void)state;
    struct sw_error err = {0};
    assert_int_equal(sw_fail(&err, SW_UNMET, "no %s", "mesh"), -1);
    assert_int_equal(sw_fail_at(&err, SW_BAD_INPUT, (struct sw_place){"a.yaml", 1, 2}, "more"), -1);
    assert_int_equal(err.status, SW_UNMET);
    assert_string_equal(said(&err, "plan"), "plan: error: no mesh");
    assert_string_equal(said(&err, NULL), "error: no mesh");
    assert_int_equal(sw_fail(NULL, SW_UNMET, "x"), -1);
    assert_int_equal(sw_fail_at(NULL, SW_UNMET, (struct sw_place){"a", 1, 1}, "x"), -1);
    assert_int_equal(sw_fail_place(NULL, (struct sw_place){"a", 1, 1}), -1);
    assert_int_equal(sw_fail_as(NULL, &err), -1);
}

static void says_where(void **state)
{
    (void)state;
    struct sw_error err = {0}, copy = {0};
    char name[] = "a: error: b.yaml";
    sw_fail_at(&err, SW_BAD_INPUT, (struct sw_place){name, 8, 11}, "no mesh");
    memset(name, 'x', strlen(name)); /* the name was the config's, which is gone */
    assert_string_equal(said(&err, "plan"), "a: error: b.yaml:8:11: error: no mesh");
    sw_fail_context(&err, "these rules");
    sw_fail_place(&err, (struct sw_place){"other.yaml", 1, 1});
    sw_fail_as(&copy, &err);
    assert_string_equal(said(&copy, NULL), "a: error: b.yaml:8:11: error: these rules: no mesh");
    assert_int_equal(copy.status, SW_BAD_INPUT);
    memset(&err, 0, sizeof err);
    sw_fail_at(&err, SW_ENVIRONMENT, (struct sw_place){.file = "data.bin"}, "cannot read it");
    assert_string_equal(said(&err, "plan"), "data.bin: error: cannot read it");
    memset(&err, 0, sizeof err);
    sw_fail_at(&err, SW_ENVIRONMENT, (struct sw_place){.line = 3}, "no file");
    sw_fail_place(&err, (struct sw_place){"late.yaml", 4, 5});
    assert_string_equal(said(&err, "plan"), "late.yaml:4:5: error: no file");
}

static void has_room(void **state)
{
    (void)state;
    struct sw_error err = {0};
    char text[SW_ERROR_TEXT_BYTES], name[5000];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    sw_fail_at(&err, SW_BAD_INPUT, (struct sw_place){name, INT32_MAX, INT32_MAX}, "%s", name);
    sw_fail_context(&err, "%s", name);
    assert_int_equal(strlen(err.file), SW_ERROR_BYTES - 1);
    sw_error_format(&err, NULL, text);
    assert_string_equal(text + strlen(text) - strlen(err.message), err.message);
}

/* A message may quote anybody's text: JSON, HTTP and a log take it as it stands. */
static void is_one_line(void **state)
{
    (void)state;
    struct sw_error err = {0};
    sw_fail(&err, SW_BAD_INPUT, "'%s' is no token", "a\tb\n\x1b[2J\xe2\x80\xae");
    assert_string_equal(err.message, "'a?b??[2J?' is no token");
    sw_fail_context(&err, "line\r");
    assert_string_equal(err.message, "line?: 'a?b??[2J?' is no token");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_the_first),
        cmocka_unit_test(says_where),
        cmocka_unit_test(has_room),
        cmocka_unit_test(is_one_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
