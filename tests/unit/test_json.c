/* JSON as it is written: styles, numbers, texts. */
#include "core/base/json.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

/* Everything once: nested, empty, and one after the other. */
static void write_sample(struct sw_json *j)
{
    sw_json_object(j, NULL);
    sw_json_integer(j, "one", 1);
    sw_json_array(j, "list");
    sw_json_bool(j, NULL, true);
    sw_json_object(j, NULL);
    sw_json_null(j, "nothing");
    sw_json_text(j, "text", NULL);
    sw_json_end(j);
    sw_json_array(j, NULL);
    sw_json_end(j);
    sw_json_end(j);
    sw_json_inline(j, "in");
    sw_json_raw(j, NULL, &"{\"a\": 0}"[1], 6);
    sw_json_bool(j, "b", false);
    sw_json_object(j, "c");
    sw_json_end(j);
    sw_json_end(j);
    sw_json_end(j);
}

static void expect(enum sw_json_style style, void (*write)(struct sw_json *), const char *wanted)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    struct sw_json j = {.out = out, .style = style};
    write(&j);
    assert_int_equal(j.depth, 0);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, wanted);
    free(text);
}

static void styles(void **state)
{
    (void)state;
    expect(SW_JSON_LINE, write_sample,
           "{\"one\":1,\"list\":[true,{\"nothing\":null,\"text\":null},[]],"
           "\"in\":{\"a\": 0,\"b\":false,\"c\":{}}}");
    expect(SW_JSON_TABS, write_sample,
           "{\n"
           "\t\"one\":\t1,\n"
           "\t\"list\":\t[true, {\n"
           "\t\t\t\"nothing\":\tnull,\n"
           "\t\t\t\"text\":\tnull\n"
           "\t\t}, []],\n"
           "\t\"in\":\t{\"a\": 0, \"b\":\tfalse, \"c\":\t{\n"
           "\t\t}}\n"
           "}");
    expect(SW_JSON_SPACES, write_sample,
           "{\n"
           "  \"one\": 1,\n"
           "  \"list\": [true, {\n"
           "    \"nothing\": null,\n"
           "    \"text\": null\n"
           "  }, []],\n"
           "  \"in\": {\"a\": 0, \"b\": false, \"c\": {\n"
           "    }}\n"
           "}");
}

static void write_numbers(struct sw_json *j)
{
    static const double values[] = {
        0, -0.0, 1, 0.1, 1.0 / 3, 1e15, 1e300, 123456789012345680.0, 0.1 + 0.2, NAN, -INFINITY};
    sw_json_array(j, NULL);
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        sw_json_number(j, NULL, values[i]);
    sw_json_digits(j, NULL, 1.0 / 3, 4);
    sw_json_digits(j, NULL, 0.1, 17);
    sw_json_digits(j, NULL, NAN, 4);
    sw_json_integer(j, NULL, INT64_MIN);
    sw_json_end(j);
}

static void numbers(void **state)
{
    (void)state;
    /* 0.1 + 0.2 is 0.3 but for its last bit: not worth two digits */
    expect(SW_JSON_LINE, write_numbers,
           "[0,-0,1,0.1,0.33333333333333331,1e+15,1e+300,1.2345678901234568e+17,0.3,"
           "null,null,0.3333,0.10000000000000001,null,-9223372036854775808]");
}

static void write_texts(struct sw_json *j)
{
    sw_json_object(j, NULL);
    sw_json_text(j, "a\"b", "\\ / \b\f\n\r\t \x01\x1f\x7f \xc3\xbc");
    sw_json_text(j, "", "");
    sw_json_end(j);
}

static void texts(void **state)
{
    (void)state;
    expect(SW_JSON_LINE, write_texts,
           "{\"a\\\"b\":\"\\\\ / \\b\\f\\n\\r\\t \\u0001\\u001f\x7f \xc3\xbc\",\"\":\"\"}");
}

static void write_deep(struct sw_json *j)
{
    for (int32_t i = 0; i < SW_JSON_DEPTH; i++)
        sw_json_array(j, NULL);
    for (int32_t i = 0; i < SW_JSON_DEPTH; i++)
        sw_json_end(j);
}

static void depth(void **state)
{
    (void)state;
    expect(SW_JSON_TABS, write_deep,
           "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(styles),
        cmocka_unit_test(numbers),
        cmocka_unit_test(texts),
        cmocka_unit_test(depth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
