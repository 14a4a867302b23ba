/* Tests, `x is NAME`, and global functions. */
#include "core/base/text.h"
#include "runner/text/jinja/internal.h"

#include <string.h>
#include <time.h>

#define TEST(name, condition)                                                                      \
    static bool name(struct jinja_run *run, struct jinja_value v, const struct jinja_arguments *a) \
    {                                                                                              \
        (void)run;                                                                                 \
        (void)a;                                                                                   \
        return condition;                                                                          \
    }

/* Value that a test compares with. */
static struct jinja_value other(struct jinja_run *run, const struct jinja_arguments *a)
{
    return a->count > 0 ? a->item[0] : sw_jinja_fail(run, "the test needs a value to compare with");
}

/* True if `as` changes no letter of a text, and the opposite case changes one. */
static bool is_cased(struct jinja_run *run, struct jinja_value v, enum jinja_case as)
{
    if (v.kind != JINJA_TEXT || run->failed)
        return false;
    return sw_jinja_equal(run, v, sw_jinja_recase(run, v.of.text, as)) &&
           !sw_jinja_equal(
               run, v,
               sw_jinja_recase(run, v.of.text, as == JINJA_UPPER ? JINJA_LOWER : JINJA_UPPER));
}

/* v % by == rest */
static bool is_divisible(struct jinja_run *run, struct jinja_value v, struct jinja_value by,
                         int64_t rest)
{
    const struct jinja_value part = sw_jinja_arithmetic(run, "%", v, by);
    return sw_jinja_equal(run, part, jinja_int(rest)) && !run->failed;
}

TEST(is_defined, v.kind != JINJA_UNDEFINED)
TEST(is_undefined, v.kind == JINJA_UNDEFINED)
TEST(is_none, v.kind == JINJA_NONE)
TEST(is_boolean, v.kind == JINJA_BOOLEAN)
TEST(is_true, v.kind == JINJA_BOOLEAN && v.of.integer != 0)
TEST(is_false, v.kind == JINJA_BOOLEAN && v.of.integer == 0)
TEST(is_integer, v.kind == JINJA_INT || v.kind == JINJA_BIG)
TEST(is_float, v.kind == JINJA_REAL)
TEST(is_number, sw_jinja_are_numbers(v, v))
TEST(is_string, v.kind == JINJA_TEXT)
TEST(is_mapping, v.kind == JINJA_MAPPING)
TEST(is_sequence, v.kind == JINJA_TEXT || v.kind == JINJA_SEQUENCE || v.kind == JINJA_MAPPING ||
                      v.kind == JINJA_UNDEFINED)
TEST(is_callable, v.kind >= JINJA_LOOP)
TEST(is_odd, is_divisible(run, v, jinja_int(2), 1))
TEST(is_even, is_divisible(run, v, jinja_int(2), 0))
TEST(is_divisibleby, is_divisible(run, v, other(run, a), 0))
TEST(is_eq, sw_jinja_equal(run, v, other(run, a)))
TEST(is_ne, !sw_jinja_equal(run, v, other(run, a)))
TEST(is_lt, sw_jinja_compare(run, "<", v, other(run, a)))
TEST(is_le, sw_jinja_compare(run, "<=", v, other(run, a)))
TEST(is_gt, sw_jinja_compare(run, ">", v, other(run, a)))
TEST(is_ge, sw_jinja_compare(run, ">=", v, other(run, a)))
TEST(is_in, sw_jinja_contains(run, other(run, a), v))
TEST(is_same, v.kind == other(run, a).kind && sw_jinja_equal(run, v, other(run, a)))
TEST(is_lower, is_cased(run, v, JINJA_LOWER))
TEST(is_upper, is_cased(run, v, JINJA_UPPER))

static const struct jinja_test tests[] = {
    {"defined", is_defined},
    {"undefined", is_undefined},
    {"none", is_none},
    {"boolean", is_boolean},
    {"true", is_true},
    {"false", is_false},
    {"integer", is_integer},
    {"float", is_float},
    {"number", is_number},
    {"string", is_string},
    {"mapping", is_mapping},
    {"sequence", is_sequence},
    {"iterable", is_sequence},
    {"callable", is_callable},
    {"odd", is_odd},
    {"even", is_even},
    {"divisibleby", is_divisibleby},
    {"eq", is_eq},
    {"equalto", is_eq},
    {"==", is_eq},
    {"ne", is_ne},
    {"!=", is_ne},
    {"lt", is_lt},
    {"lessthan", is_lt},
    {"<", is_lt},
    {"le", is_le},
    {"<=", is_le},
    {"gt", is_gt},
    {"greaterthan", is_gt},
    {">", is_gt},
    {"ge", is_ge},
    {">=", is_ge},
    {"in", is_in},
    {"sameas", is_same},
    {"lower", is_lower},
    {"upper", is_upper},
};

const struct jinja_test *sw_jinja_test_find(const char *name)
{
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
        if (strcmp(tests[i].name, name) == 0)
            return &tests[i];
    return NULL;
}

/* ---- functions ---- */

static struct jinja_value range(struct jinja_run *run, const struct jinja_arguments *a)
{
    const int64_t from = a->count > 1 ? a->item[0].of.integer : 0;
    const int64_t step = a->count > 2 ? a->item[2].of.integer : 1;
    const struct jinja_value made = sw_jinja_list(run, 0);
    for (size_t i = 0; i < a->count; i++)
        if (a->item[i].kind != JINJA_INT)
            return sw_jinja_fail(run, "range takes whole numbers");
    if (a->count < 1 || a->count > 3 || step == 0)
        return sw_jinja_fail(run, "range takes 1 to 3 whole numbers, the last of them not 0");
    const int64_t to = a->item[a->count > 1 ? 1 : 0].of.integer;
    for (int64_t i = from; (step > 0 ? i < to : i > to) && !run->failed;) {
        sw_jinja_charge(run, 0);
        sw_jinja_push(run, made.of.list, jinja_int(i));
        if (__builtin_add_overflow(i, step, &i))
            break;
    }
    return made;
}

/* Makes a dict from an optional dict and named values. */
static struct jinja_value dict(struct jinja_run *run, const struct jinja_arguments *a)
{
    const struct jinja_value made = sw_jinja_dict(run, 0);
    for (size_t i = 0; i < a->count && !run->failed; i++) {
        if (a->item[i].kind != JINJA_MAPPING)
            return sw_jinja_fail(run, "a dict is made of a dict and of NAME=VALUE");
        for (size_t k = 0; k < a->item[i].of.dict->count && !run->failed; k++)
            sw_jinja_dict_set(run, made.of.dict, a->item[i].of.dict->key[k],
                              a->item[i].of.dict->value[k]);
    }
    for (size_t i = 0; i < a->named_count && !run->failed; i++)
        sw_jinja_dict_set(run, made.of.dict, sw_jinja_text(run, a->named[i].name),
                          a->named[i].value);
    return made;
}

static struct jinja_value namespace(struct jinja_run *run, const struct jinja_arguments *a)
{
    struct jinja_value made = dict(run, a);
    if (!run->failed)
        made.kind = JINJA_NAMESPACE;
    return made;
}

static struct jinja_value raise_exception(struct jinja_run *run, const struct jinja_arguments *a)
{
    const struct jinja_text *text = sw_jinja_as_text(
        run, a->count > 0 ? a->item[0] : sw_jinja_text(run, "the chat template refuses this"));
    char shown[304];
    if (!run->failed)
        sw_fail(run->err, SW_BAD_INPUT, "%s", sw_text_shown(text->byte, 300, shown));
    run->failed = true;
    return jinja_undefined(NULL);
}

static struct jinja_value strftime_now(struct jinja_run *run, const struct jinja_arguments *a)
{
    const struct jinja_text *form = sw_jinja_as_text(run, a->count > 0 ? a->item[0] : jinja_none());
    const time_t now = (time_t)run->now;
    char text[256];
    struct tm local;
    struct jinja_out out = {.run = run};
    if (run->failed || form->count == 0 || form->count > 64 || localtime_r(&now, &local) == NULL)
        return sw_jinja_fail(run, "strftime_now takes a format of 1 to 64 letters");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    const size_t bytes = strftime(text, sizeof text, form->byte, &local);
#pragma GCC diagnostic pop
    sw_jinja_put(&out, text, bytes, false);
    return sw_jinja_text_of(&out);
}

static const struct jinja_function functions[] = {
    {"range", range},
    {"dict", dict},
    {"namespace", namespace},
    {"raise_exception", raise_exception},
    {"strftime_now", strftime_now},
};

const struct jinja_function *sw_jinja_function_find(const char *name)
{
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        if (strcmp(functions[i].name, name) == 0)
            return &functions[i];
    return NULL;
}
