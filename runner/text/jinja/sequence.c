/* Filters of lists and dicts. */
#include "runner/text/jinja/internal.h"

#include <string.h>

static struct jinja_value length(struct jinja_run *run, struct jinja_value v,
                                 const struct jinja_arguments *a)
{
    (void)a;
    if (v.kind == JINJA_TEXT)
        return jinja_int((int64_t)sw_jinja_characters(run, v.of.text));
    if (v.kind == JINJA_SEQUENCE && !v.of.list->is_lazy)
        return jinja_int((int64_t)v.of.list->count);
    if (v.kind == JINJA_MAPPING)
        return jinja_int((int64_t)v.of.dict->count);
    return v.kind == JINJA_UNDEFINED ? jinja_int(0)
                                     : sw_jinja_fail(run, "no length of %s", sw_jinja_kind_name(v));
}

static struct jinja_value end_of(struct jinja_run *run, struct jinja_value v, bool first)
{
    const struct jinja_list *items = sw_jinja_items(run, v);
    return items->count > 0 ? items->item[first ? 0 : items->count - 1]
                            : jinja_undefined(first ? "first" : "last");
}

static struct jinja_value first(struct jinja_run *run, struct jinja_value v,
                                const struct jinja_arguments *a)
{
    (void)a;
    return end_of(run, v, true);
}

static struct jinja_value last(struct jinja_run *run, struct jinja_value v,
                               const struct jinja_arguments *a)
{
    (void)a;
    return end_of(run, v, false);
}

static struct jinja_value list(struct jinja_run *run, struct jinja_value v,
                               const struct jinja_arguments *a)
{
    const struct jinja_list *items = sw_jinja_items(run, v);
    const struct jinja_value made = sw_jinja_list(run, items->count);
    (void)a;
    for (size_t i = 0; i < items->count && !run->failed; i++)
        sw_jinja_push(run, made.of.list, items->item[i]);
    return made;
}

static struct jinja_value reverse(struct jinja_run *run, struct jinja_value v,
                                  const struct jinja_arguments *a)
{
    const struct jinja_value part[3] = {jinja_none(), jinja_none(), jinja_int(-1)};
    (void)a;
    return sw_jinja_slice(run, v.kind == JINJA_MAPPING ? list(run, v, a) : v, part);
}

static struct jinja_value join(struct jinja_run *run, struct jinja_value v,
                               const struct jinja_arguments *a)
{
    const struct jinja_list *items = sw_jinja_items(run, v);
    const struct jinja_text *between =
        sw_jinja_as_text(run, sw_jinja_argument(a, 0, "d", sw_jinja_text(run, "")));
    struct jinja_out out = {.run = run};
    for (size_t i = 0; i < items->count && !run->failed; i++) {
        if (i > 0)
            sw_jinja_put_text(&out, between, 0, between->count);
        sw_jinja_put_value(&out,
                           sw_jinja_has_argument(a, 1, "attribute")
                               ? sw_jinja_path(run, items->item[i],
                                               sw_jinja_argument(a, 1, "attribute", jinja_none()))
                               : items->item[i]);
    }
    return sw_jinja_text_of(&out);
}

static struct jinja_value items(struct jinja_run *run, struct jinja_value v,
                                const struct jinja_arguments *a)
{
    const struct jinja_value made = sw_jinja_list(run, 0);
    (void)a;
    if (v.kind != JINJA_MAPPING && v.kind != JINJA_UNDEFINED)
        return sw_jinja_fail(run, "no items of %s", sw_jinja_kind_name(v));
    for (size_t i = 0; v.kind == JINJA_MAPPING && i < v.of.dict->count && !run->failed; i++)
        sw_jinja_push(run, made.of.list,
                      sw_jinja_pair(run, v.of.dict->key[i], v.of.dict->value[i]));
    return made;
}

/* ---- order ---- */

/* Sort key of an element: the element or a part of it, in lower case unless `cased`. */
static struct jinja_value key_of(struct jinja_run *run, struct jinja_value v,
                                 struct jinja_value path, bool cased)
{
    if (path.kind != JINJA_NONE)
        v = sw_jinja_path(run, v, path);
    return v.kind == JINJA_TEXT && !cased ? sw_jinja_recase(run, v.of.text, JINJA_LOWER) : v;
}

/* Stable merge of item[] by key[], both moved alike. */
static void merge(struct jinja_run *run, struct jinja_value *item, struct jinja_value *key,
                  struct jinja_value *spare, size_t count, bool reversed)
{
    for (size_t width = 1; width < count && !run->failed; width *= 2)
        for (size_t from = 0; from + width < count && !run->failed; from += 2 * width) {
            const size_t middle = from + width,
                         to = middle + width < count ? middle + width : count;
            size_t a = from, b = middle;
            for (size_t i = from; i < to && !run->failed; i++) {
                sw_jinja_charge(run, 0);
                const int32_t order =
                    a < middle && b < to ? sw_jinja_order(run, key[a], key[b]) : 0;
                const bool left = a < middle && (b == to || (reversed ? order >= 0 : order <= 0));
                spare[2 * i] = item[left ? a : b];
                spare[2 * i + 1] = key[left ? a : b];
                a += left;
                b += !left;
            }
            for (size_t i = from; i < to && !run->failed; i++) {
                item[i] = spare[2 * i];
                key[i] = spare[2 * i + 1];
            }
        }
}

static struct jinja_value sorted(struct jinja_run *run, const struct jinja_list *from,
                                 struct jinja_value path, bool cased, bool reversed)
{
    const size_t count = from->count;
    const struct jinja_value made = sw_jinja_list(run, count);
    struct jinja_value *key = sw_jinja_take(run, (count + 1) * sizeof *key);
    struct jinja_value *spare = sw_jinja_take(run, (2 * count + 1) * sizeof *spare);
    for (size_t i = 0; i < count && !run->failed; i++) {
        sw_jinja_push(run, made.of.list, from->item[i]);
        key[i] = key_of(run, from->item[i], path, cased);
    }
    if (!run->failed)
        merge(run, made.of.list->item, key, spare, count, reversed);
    return made;
}

static struct jinja_value sort(struct jinja_run *run, struct jinja_value v,
                               const struct jinja_arguments *a)
{
    return sorted(run, sw_jinja_items(run, v), sw_jinja_argument(a, 2, "attribute", jinja_none()),
                  sw_jinja_is_true(sw_jinja_argument(a, 1, "case_sensitive", jinja_bool(false))),
                  sw_jinja_is_true(sw_jinja_argument(a, 0, "reverse", jinja_bool(false))));
}

static struct jinja_value dictsort(struct jinja_run *run, struct jinja_value v,
                                   const struct jinja_arguments *a)
{
    const struct jinja_text *by =
        sw_jinja_as_text(run, sw_jinja_argument(a, 1, "by", sw_jinja_text(run, "key")));
    const struct jinja_arguments none = {.count = 0};
    const struct jinja_value pairs = items(run, v, &none);
    if (run->failed)
        return pairs;
    return sorted(run, pairs.of.list, jinja_int(strcmp(by->byte, "value") == 0),
                  sw_jinja_is_true(sw_jinja_argument(a, 0, "case_sensitive", jinja_bool(false))),
                  sw_jinja_is_true(sw_jinja_argument(a, 2, "reverse", jinja_bool(false))));
}

static struct jinja_value unique(struct jinja_run *run, struct jinja_value v,
                                 const struct jinja_arguments *a)
{
    const struct jinja_list *from = sw_jinja_items(run, v);
    const struct jinja_value path = sw_jinja_argument(a, 1, "attribute", jinja_none());
    const struct jinja_value made = sw_jinja_list(run, 0), seen = sw_jinja_list(run, 0);
    const bool cased =
        sw_jinja_is_true(sw_jinja_argument(a, 0, "case_sensitive", jinja_bool(false)));
    for (size_t i = 0; i < from->count && !run->failed; i++) {
        const struct jinja_value key = key_of(run, from->item[i], path, cased);
        if (sw_jinja_contains(run, seen, key))
            continue;
        sw_jinja_push(run, seen.of.list, key);
        sw_jinja_push(run, made.of.list, from->item[i]);
    }
    return made;
}

static struct jinja_value extreme(struct jinja_run *run, struct jinja_value v,
                                  const struct jinja_arguments *a, bool reversed)
{
    const struct jinja_value list = sorted(
        run, sw_jinja_items(run, v), sw_jinja_argument(a, 1, "attribute", jinja_none()),
        sw_jinja_is_true(sw_jinja_argument(a, 0, "case_sensitive", jinja_bool(false))), reversed);
    return run->failed ? list : end_of(run, list, true);
}

static struct jinja_value least(struct jinja_run *run, struct jinja_value v,
                                const struct jinja_arguments *a)
{
    return extreme(run, v, a, false);
}

static struct jinja_value most(struct jinja_run *run, struct jinja_value v,
                               const struct jinja_arguments *a)
{
    return extreme(run, v, a, true);
}

static struct jinja_value sum(struct jinja_run *run, struct jinja_value v,
                              const struct jinja_arguments *a)
{
    const struct jinja_list *from = sw_jinja_items(run, v);
    const struct jinja_value path = sw_jinja_argument(a, 0, "attribute", jinja_none());
    struct jinja_value total = sw_jinja_argument(a, 1, "start", jinja_int(0));
    for (size_t i = 0; i < from->count && !run->failed; i++)
        total = sw_jinja_arithmetic(
            run, "+", total,
            path.kind == JINJA_NONE ? from->item[i] : sw_jinja_path(run, from->item[i], path));
    return total;
}

/* ---- each element ---- */

/* Elements of a value; none if it is falsy, as in Jinja's filters. */
static const struct jinja_list *elements(struct jinja_run *run, struct jinja_value v)
{
    return sw_jinja_items(run, sw_jinja_is_true(v) ? v : jinja_undefined(NULL));
}

/* Marks a list as a generator. */
static struct jinja_value lazy(struct jinja_value list)
{
    if (list.kind == JINJA_SEQUENCE)
        list.of.list->is_lazy = true;
    return list;
}

/* Arguments after the first `skip`, for the filter or test that those name. */
static struct jinja_arguments rest_of(const struct jinja_arguments *a, size_t skip)
{
    struct jinja_arguments rest = *a;
    rest.count = 0;
    for (size_t i = skip; i < a->count; i++)
        rest.item[rest.count++] = a->item[i];
    return rest;
}

static struct jinja_value map(struct jinja_run *run, struct jinja_value v,
                              const struct jinja_arguments *a)
{
    const struct jinja_list *from = elements(run, v);
    const struct jinja_value made = sw_jinja_list(run, from->count);
    const struct jinja_value path =
        sw_jinja_argument(a, JINJA_ARGUMENTS, "attribute", jinja_none());
    const struct jinja_value otherwise =
        sw_jinja_argument(a, JINJA_ARGUMENTS, "default", jinja_none());
    const struct jinja_filter *filter = a->count > 0 && a->item[0].kind == JINJA_TEXT
                                            ? sw_jinja_filter_find(a->item[0].of.text->byte)
                                            : NULL;
    const struct jinja_arguments rest = rest_of(a, 1);
    if (path.kind == JINJA_NONE && filter == NULL)
        return sw_jinja_fail(run, "map takes the name of a filter, or attribute='...'");
    for (size_t i = 0; i < from->count && !run->failed; i++) {
        sw_jinja_charge(run, 0);
        struct jinja_value one = path.kind != JINJA_NONE ? sw_jinja_path(run, from->item[i], path)
                                                         : filter->apply(run, from->item[i], &rest);
        if (path.kind != JINJA_NONE && one.kind == JINJA_UNDEFINED &&
            sw_jinja_has_argument(a, JINJA_ARGUMENTS, "default"))
            one = otherwise;
        sw_jinja_push(run, made.of.list, one);
    }
    return lazy(made);
}

/* Elements whose test (or, without one, truth) is `wanted`, applied to an attribute or to
 * themselves. */
static struct jinja_value pick(struct jinja_run *run, struct jinja_value v,
                               const struct jinja_arguments *a, bool attribute, bool wanted)
{
    const struct jinja_list *from = elements(run, v);
    const struct jinja_value made = sw_jinja_list(run, 0);
    const size_t at = attribute ? 1 : 0;
    const struct jinja_arguments rest = rest_of(a, at + 1);
    const struct jinja_test *test = NULL;
    if (attribute && a->count == 0)
        return sw_jinja_fail(run, "the name of an attribute is missing");
    if (a->count > at) {
        test =
            a->item[at].kind == JINJA_TEXT ? sw_jinja_test_find(a->item[at].of.text->byte) : NULL;
        if (test == NULL)
            return sw_jinja_fail(run, "no test has this name");
    }
    for (size_t i = 0; i < from->count && !run->failed; i++) {
        sw_jinja_charge(run, 0);
        const struct jinja_value one =
            attribute ? sw_jinja_path(run, from->item[i], a->item[0]) : from->item[i];
        if ((test != NULL ? test->holds(run, one, &rest) : sw_jinja_is_true(one)) == wanted)
            sw_jinja_push(run, made.of.list, from->item[i]);
    }
    return lazy(made);
}

static struct jinja_value select_true(struct jinja_run *run, struct jinja_value v,
                                      const struct jinja_arguments *a)
{
    return pick(run, v, a, false, true);
}

static struct jinja_value reject(struct jinja_run *run, struct jinja_value v,
                                 const struct jinja_arguments *a)
{
    return pick(run, v, a, false, false);
}

static struct jinja_value selectattr(struct jinja_run *run, struct jinja_value v,
                                     const struct jinja_arguments *a)
{
    return pick(run, v, a, true, true);
}

static struct jinja_value rejectattr(struct jinja_run *run, struct jinja_value v,
                                     const struct jinja_arguments *a)
{
    return pick(run, v, a, true, false);
}

const struct jinja_filter sw_jinja_sequence_filters[] = {
    {"length", length},
    {"count", length},
    {"first", first},
    {"last", last},
    {"list", list},
    {"reverse", reverse},
    {"join", join},
    {"items", items},
    {"sort", sort},
    {"dictsort", dictsort},
    {"unique", unique},
    {"min", least},
    {"max", most},
    {"sum", sum},
    {"map", map},
    {"select", select_true},
    {"reject", reject},
    {"selectattr", selectattr},
    {"rejectattr", rejectattr},
    {NULL, NULL},
};
