/* Expressions, with Python's rules. */
#include "runner/text/jinja/internal.h"

#include <string.h>

static struct jinja_value fail_undefined(struct jinja_run *run, struct jinja_value v)
{
    return v.of.name != NULL ? sw_jinja_fail(run, "'%.60s' is undefined", v.of.name)
                             : sw_jinja_fail(run, "there is no such element");
}

/* ---- arithmetic ---- */

static struct jinja_value repeat(struct jinja_run *run, struct jinja_value v, int64_t times)
{
    struct jinja_value list = v.kind == JINJA_SEQUENCE ? sw_jinja_list(run, 0) : jinja_none();
    struct jinja_out out = {.run = run};
    const bool empty = v.kind == JINJA_TEXT ? v.of.text->count == 0 : v.of.list->count == 0;
    for (int64_t i = 0; i < times && !empty && !run->failed; i++) {
        sw_jinja_charge(run, 0);
        if (v.kind == JINJA_TEXT)
            sw_jinja_put_value(&out, v);
        for (size_t k = 0; v.kind == JINJA_SEQUENCE && k < v.of.list->count && !run->failed; k++)
            sw_jinja_push(run, list.of.list, v.of.list->item[k]);
    }
    return v.kind == JINJA_TEXT ? sw_jinja_text_of(&out) : list;
}

static bool is_safe(struct jinja_value v)
{
    return v.kind == JINJA_TEXT && v.of.text->is_safe;
}

struct jinja_value sw_jinja_arithmetic(struct jinja_run *run, const char *op, struct jinja_value a,
                                       struct jinja_value b)
{
    struct jinja_out out = {.run = run};
    if (run->failed)
        return jinja_undefined(NULL);
    if (op[0] == '~' || (op[0] == '+' && a.kind == JINJA_TEXT && b.kind == JINJA_TEXT)) {
        const bool safe = op[0] == '+' && (is_safe(a) || is_safe(b)); /* '~' never escapes */
        safe && !is_safe(a) ? sw_jinja_put_escaped(&out, a) : sw_jinja_put_value(&out, a);
        safe && !is_safe(b) ? sw_jinja_put_escaped(&out, b) : sw_jinja_put_value(&out, b);
        return safe ? sw_jinja_safe(&out) : sw_jinja_text_of(&out);
    }
    if (a.kind == JINJA_UNDEFINED || b.kind == JINJA_UNDEFINED)
        return fail_undefined(run, a.kind == JINJA_UNDEFINED ? a : b);
    if (sw_jinja_are_numbers(a, b))
        return sw_jinja_calculate(run, op, a, b);
    if (op[0] == '+' && a.kind == JINJA_SEQUENCE && b.kind == JINJA_SEQUENCE) {
        struct jinja_value list = sw_jinja_list(run, a.of.list->count + b.of.list->count);
        for (size_t i = 0; i < a.of.list->count && !run->failed; i++)
            sw_jinja_push(run, list.of.list, a.of.list->item[i]);
        for (size_t i = 0; i < b.of.list->count && !run->failed; i++)
            sw_jinja_push(run, list.of.list, b.of.list->item[i]);
        return list;
    }
    if (strcmp(op, "*") == 0 && (a.kind == JINJA_TEXT || a.kind == JINJA_SEQUENCE) &&
        b.kind == JINJA_INT)
        return repeat(run, a, b.of.integer);
    if (strcmp(op, "*") == 0 && a.kind == JINJA_INT && b.kind == JINJA_TEXT)
        return repeat(run, b, a.of.integer);
    return sw_jinja_fail(run, "no '%s' between %s and %s", op, sw_jinja_kind_name(a),
                         sw_jinja_kind_name(b));
}

/* ---- parts ---- */

static struct jinja_value loop_attribute(const struct jinja_loop *l, const char *name)
{
    const int64_t index = (int64_t)l->index, count = (int64_t)l->items->count;
    const struct {
        const char *name;
        struct jinja_value value;
    } attributes[] = {
        {"index", jinja_int(index + 1)},
        {"index0", jinja_int(index)},
        {"first", jinja_bool(index == 0)},
        {"last", jinja_bool(index + 1 == count)},
        {"length", jinja_int(count)},
        {"revindex", jinja_int(count - index)},
        {"revindex0", jinja_int(count - index - 1)},
        {"depth", jinja_int(l->depth + 1)},
        {"depth0", jinja_int(l->depth)},
        {"previtem", index > 0 ? l->items->item[index - 1] : jinja_undefined("loop.previtem")},
        {"nextitem",
         index + 1 < count ? l->items->item[index + 1] : jinja_undefined("loop.nextitem")},
    };
    for (size_t i = 0; i < sizeof attributes / sizeof attributes[0]; i++)
        if (strcmp(attributes[i].name, name) == 0)
            return attributes[i].value;
    return jinja_undefined(name);
}

struct jinja_value sw_jinja_attribute(struct jinja_run *run, struct jinja_value a, const char *name)
{
    if (run->failed)
        return jinja_undefined(NULL);
    if (a.kind == JINJA_UNDEFINED)
        return fail_undefined(run, a);
    const struct jinja_method_row *row = sw_jinja_method_find(name, a.kind);
    if (row != NULL) {
        struct jinja_method *method = sw_jinja_take(run, sizeof *method);
        if (method == NULL)
            return jinja_undefined(NULL);
        *method = (struct jinja_method){a, row};
        return (struct jinja_value){JINJA_METHOD, {.method = method}};
    }
    if (a.kind == JINJA_LOOP)
        return loop_attribute(a.of.loop, name);
    if (a.kind == JINJA_MAPPING || a.kind == JINJA_NAMESPACE) {
        const struct jinja_value *found = sw_jinja_dict_get(run, a.of.dict, name);
        return found != NULL ? *found : jinja_undefined(name);
    }
    return jinja_undefined(name);
}

/* Byte offset of the character at `index`. */
static size_t offset_of(struct jinja_run *run, const struct jinja_text *text, int64_t index)
{
    size_t i = 0;
    sw_jinja_charge(run, (size_t)index);
    while (i < text->count && index-- > 0)
        do
            i++;
        while (i < text->count && ((unsigned char)text->byte[i] & 0xc0) == 0x80);
    return i;
}

struct jinja_value sw_jinja_index(struct jinja_run *run, struct jinja_value a, struct jinja_value b)
{
    if (run->failed)
        return jinja_undefined(NULL);
    if (a.kind == JINJA_UNDEFINED)
        return fail_undefined(run, a);
    if (a.kind == JINJA_MAPPING || a.kind == JINJA_NAMESPACE) {
        const struct jinja_value *found = sw_jinja_dict_find(run, a.of.dict, b);
        if (found != NULL)
            return *found;
    }
    if (b.kind == JINJA_INT && (a.kind == JINJA_SEQUENCE || a.kind == JINJA_TEXT)) {
        const int64_t count = a.kind == JINJA_SEQUENCE
                                  ? (int64_t)a.of.list->count
                                  : (int64_t)sw_jinja_characters(run, a.of.text);
        const int64_t at = b.of.integer < 0 ? b.of.integer + count : b.of.integer;
        if (at < 0 || at >= count)
            return jinja_undefined(NULL);
        if (a.kind == JINJA_SEQUENCE)
            return a.of.list->item[at];
        const size_t from = offset_of(run, a.of.text, at);
        const struct jinja_text rest = {.byte = a.of.text->byte + from,
                                        .count = a.of.text->count - from};
        return sw_jinja_part(run, a.of.text, from, from + offset_of(run, &rest, 1));
    }
    return b.kind == JINJA_TEXT ? sw_jinja_attribute(run, a, b.of.text->byte)
                                : jinja_undefined(NULL);
}

struct jinja_value sw_jinja_path(struct jinja_run *run, struct jinja_value a,
                                 struct jinja_value path)
{
    if (path.kind != JINJA_TEXT)
        return sw_jinja_index(run, a, path);
    for (const char *p = path.of.text->byte; !run->failed;) {
        const size_t bytes = strcspn(p, ".");
        struct jinja_out name = {.run = run};
        sw_jinja_put(&name, p, bytes, false);
        const struct jinja_value part = sw_jinja_text_of(&name);
        const bool number = bytes > 0 && strspn(p, "0123456789") == bytes && bytes < 10;
        int64_t index = 0;
        for (size_t i = 0; number && i < bytes; i++)
            index = index * 10 + (p[i] - '0');
        a = sw_jinja_index(run, a, number ? jinja_int(index) : part);
        if (p[bytes] == '\0')
            break;
        p += bytes + 1;
    }
    return a;
}

/* Bound of a slice, as in Python's slice.indices. */
static int64_t bound(struct jinja_value v, int64_t otherwise, int64_t count, int64_t least)
{
    if (v.kind != JINJA_INT)
        return otherwise;
    int64_t at = v.of.integer < 0 ? v.of.integer + count : v.of.integer;
    at = at < least ? least : at;
    return at > count + least ? count + least : at;
}

struct jinja_value sw_jinja_slice(struct jinja_run *run, struct jinja_value v,
                                  const struct jinja_value part[3])
{
    const int64_t step = part[2].kind == JINJA_INT ? part[2].of.integer : 1;
    if (run->failed)
        return jinja_undefined(NULL);
    if (v.kind == JINJA_UNDEFINED)
        return fail_undefined(run, v);
    if ((v.kind != JINJA_TEXT && v.kind != JINJA_SEQUENCE) || step == 0)
        return sw_jinja_fail(run, step == 0 ? "a slice in steps of 0" : "no part of %s",
                             sw_jinja_kind_name(v));
    const int64_t count = v.kind == JINJA_TEXT ? (int64_t)sw_jinja_characters(run, v.of.text)
                                               : (int64_t)v.of.list->count;
    const int64_t least = step > 0 ? 0 : -1;
    const int64_t from = bound(part[0], step > 0 ? 0 : count - 1, count, least);
    const int64_t to = bound(part[1], step > 0 ? count : -1, count, least);
    if (v.kind == JINJA_TEXT && step == 1) {
        const size_t begin = offset_of(run, v.of.text, from);
        return sw_jinja_part(run, v.of.text, begin,
                             to > from ? offset_of(run, v.of.text, to) : begin);
    }
    const struct jinja_list *items = sw_jinja_items(run, v);
    struct jinja_value list = sw_jinja_list(run, 0);
    struct jinja_out out = {.run = run};
    for (int64_t i = from; (step > 0 ? i < to : i > to) && !run->failed;) {
        if (v.kind == JINJA_TEXT)
            sw_jinja_put_value(&out, items->item[i]);
        else
            sw_jinja_push(run, list.of.list, items->item[i]);
        if (step > 0 ? step >= to - i : step <= to - i)
            break;
        i += step;
    }
    return v.kind == JINJA_TEXT ? sw_jinja_text_of(&out) : list;
}

/* ---- nodes ---- */

static struct jinja_value compare(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_value left = sw_jinja_eval(run, node->a);
    bool holds = true;
    for (size_t i = 0; i < node->list.count && holds && !run->failed; i++) {
        const struct jinja_node *operand = node->list.item[i];
        const struct jinja_value right = sw_jinja_eval(run, operand->a);
        const char *op = operand->text;
        run->at = operand;
        if (strcmp(op, "==") == 0 || strcmp(op, "!=") == 0) {
            holds = sw_jinja_equal(run, left, right) == (op[0] == '=');
        } else if (strcmp(op, "in") == 0 || strcmp(op, "not in") == 0) {
            holds = sw_jinja_contains(run, right, left) == (op[0] == 'i');
        } else if (left.kind == JINJA_UNDEFINED || right.kind == JINJA_UNDEFINED) {
            fail_undefined(run, left.kind == JINJA_UNDEFINED ? left : right);
        } else {
            holds = sw_jinja_compare(run, op, left, right);
        }
        left = right;
    }
    return jinja_bool(holds);
}

static struct jinja_value collect(struct jinja_run *run, const struct jinja_node *node)
{
    const bool dict = node->kind == JINJA_DICT;
    struct jinja_value made = dict ? sw_jinja_dict(run, 0) : sw_jinja_list(run, node->list.count);
    for (size_t i = 0; i < node->list.count && !run->failed; i++) {
        const struct jinja_value one = sw_jinja_eval(run, node->list.item[i]);
        if (!dict)
            sw_jinja_push(run, made.of.list, one);
        else if (++i < node->list.count)
            sw_jinja_dict_set(run, made.of.dict, one, sw_jinja_eval(run, node->list.item[i]));
    }
    if (!dict && !run->failed)
        made.of.list->is_tuple = node->kind == JINJA_TUPLE;
    return made;
}

static struct jinja_value negative(struct jinja_run *run, const struct jinja_node *node)
{
    const struct jinja_value v = sw_jinja_eval(run, node->a);
    run->at = node;
    if (run->failed || !sw_jinja_are_numbers(v, v))
        return sw_jinja_fail(run, "cannot negate a value that is %s", sw_jinja_kind_name(v));
    if (node->kind == JINJA_POSITIVE)
        return v.kind == JINJA_BOOLEAN ? jinja_int(v.of.integer) : v;
    return sw_jinja_negate(run, v);
}

static struct jinja_value slice(struct jinja_run *run, const struct jinja_node *node)
{
    const struct jinja_value of = sw_jinja_eval(run, node->a);
    struct jinja_value part[3];
    for (size_t i = 0; i < 3; i++)
        part[i] =
            node->list.item[i] != NULL ? sw_jinja_eval(run, node->list.item[i]) : jinja_none();
    run->at = node;
    return sw_jinja_slice(run, of, part);
}

static struct jinja_value choose(struct jinja_run *run, const struct jinja_node *node)
{
    if (sw_jinja_is_true(sw_jinja_eval(run, node->b)))
        return sw_jinja_eval(run, node->a);
    return node->c != NULL ? sw_jinja_eval(run, node->c)
                           : jinja_undefined("the value of an if without else");
}

static struct jinja_value junction(struct jinja_run *run, const struct jinja_node *node)
{
    const struct jinja_value left = sw_jinja_eval(run, node->a);
    return sw_jinja_is_true(left) == (node->kind == JINJA_AND) && !run->failed
               ? sw_jinja_eval(run, node->b)
               : left;
}

static struct jinja_value binary(struct jinja_run *run, const struct jinja_node *node)
{
    const struct jinja_value a = sw_jinja_eval(run, node->a), b = sw_jinja_eval(run, node->b);
    run->at = node;
    return node->kind == JINJA_ITEM ? sw_jinja_index(run, a, b)
                                    : sw_jinja_arithmetic(run, node->text, a, b);
}

/* Evaluates a call, filter or test; their arguments take a stack frame of their own. */
static struct jinja_value apply(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_arguments a = {.count = 0};
    const struct jinja_value of = sw_jinja_eval(run, node->a);
    sw_jinja_arguments(run, node, &a);
    run->at = node;
    if (run->failed)
        return jinja_undefined(NULL);
    if (node->kind == JINJA_FILTER)
        return node->filter->apply(run, of, &a);
    if (node->kind == JINJA_TEST)
        return jinja_bool(node->test->holds(run, of, &a));
    if (of.kind == JINJA_UNDEFINED)
        return fail_undefined(run, of);
    return sw_jinja_call(run, of, &a);
}

static struct jinja_value evaluate(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_value v;
    switch (node->kind) {
    case JINJA_CONSTANT:
        return node->constant;
    case JINJA_VARIABLE:
        return sw_jinja_lookup(run, node->text, &v) ? v : jinja_undefined(node->text);
    case JINJA_NOT:
        return jinja_bool(!sw_jinja_is_true(sw_jinja_eval(run, node->a)));
    case JINJA_NEGATIVE:
    case JINJA_POSITIVE:
        return negative(run, node);
    case JINJA_AND:
    case JINJA_OR:
        return junction(run, node);
    case JINJA_CONDITIONAL:
        return choose(run, node);
    case JINJA_BINARY:
    case JINJA_ITEM:
        return binary(run, node);
    case JINJA_COMPARE:
        return compare(run, node);
    case JINJA_ATTRIBUTE:
        v = sw_jinja_eval(run, node->a);
        run->at = node;
        return sw_jinja_attribute(run, v, node->text);
    case JINJA_SLICE:
        return slice(run, node);
    case JINJA_CALL:
    case JINJA_FILTER:
    case JINJA_TEST:
        return apply(run, node);
    default:
        return collect(run, node);
    }
}

struct jinja_value sw_jinja_eval(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_value v = jinja_undefined(NULL);
    if (run->failed || node == NULL)
        return v;
    run->at = node;
    sw_jinja_charge(run, 0);
    if (++run->depth > JINJA_DEPTH)
        sw_jinja_fail(run, "the chat template goes too deep");
    else
        v = evaluate(run, node);
    run->depth--;
    return v;
}
