/* Non-mutating methods of Python's str, list and dict, and code shared with filters. */
#include "runner/text/jinja/internal.h"
#include "runner/text/tokenizer/utf8.h"

#include <string.h>
#include <utf8proc.h>

/* ---- texts ---- */

static bool is_stripped(const struct jinja_text *chars, const char *p, size_t bytes)
{
    if (chars != NULL)
        return memmem(chars->byte, chars->count, p, bytes) != NULL;
    size_t step;
    const uint32_t c = sw_utf8_get(p, &step);
    return sw_utf8_is_space(c) || (c >= 0x1c && c <= 0x1f);
}

struct jinja_value sw_jinja_strip(struct jinja_run *run, const struct jinja_text *text,
                                  const struct jinja_text *chars, bool left, bool right)
{
    size_t from = 0, to = text->count, step = 0;
    sw_jinja_charge(run, text->count);
    while (left && from < to) {
        (void)sw_utf8_get(text->byte + from, &step);
        if (step > to - from || !is_stripped(chars, text->byte + from, step))
            break;
        from += step;
    }
    while (right && to > from) {
        step = 1;
        while (step < to - from && ((unsigned char)text->byte[to - step] & 0xc0) == 0x80)
            step++;
        if (!is_stripped(chars, text->byte + to - step, step))
            break;
        to -= step;
    }
    return sw_jinja_part(run, text, from, to);
}

/* Position of `what` at or after `from`; text->count: not found. */
static size_t find_from(struct jinja_run *run, const struct jinja_text *text,
                        const struct jinja_text *what, size_t from)
{
    const char *p = memmem(text->byte + from, text->count - from, what->byte, what->count);
    const size_t at = p != NULL ? (size_t)(p - text->byte) : text->count;
    sw_jinja_charge(run, at - from);
    return at;
}

struct jinja_value sw_jinja_replace(struct jinja_run *run, const struct jinja_text *text,
                                    const struct jinja_text *from, const struct jinja_text *to,
                                    int64_t most)
{
    struct jinja_out out = {.run = run};
    size_t at = 0;
    for (int64_t i = 0; i != most && !run->failed; i++) {
        size_t end = from->count > 0 ? find_from(run, text, from, at) : at;
        if (from->count == 0 && i > 0) { /* like Python: before each character, and at the end */
            end = at < text->count ? at + 1 : text->count + 1;
            while (end < text->count && ((unsigned char)text->byte[end] & 0xc0) == 0x80)
                end++;
        }
        if (from->count > 0 ? end >= text->count : end > text->count)
            break;
        sw_jinja_put_text(&out, text, at, end);
        sw_jinja_put_text(&out, to, 0, to->count);
        at = end + from->count;
    }
    sw_jinja_put_text(&out, text, at, text->count);
    return sw_jinja_text_of(&out);
}

enum { SHARP_S = 0xdf };

struct jinja_value sw_jinja_recase(struct jinja_run *run, const struct jinja_text *text,
                                   enum jinja_case as)
{
    struct jinja_out out = {.run = run};
    bool within = false; /* inside a word */
    for (size_t i = 0, step; i < text->count && !run->failed; i += step) {
        char made[4];
        const int32_t c = (int32_t)sw_utf8_get(text->byte + i, &step);
        if (step > text->count - i)
            step = text->count - i;
        const bool large =
            as == JINJA_UPPER || (as == JINJA_TITLE && !within) || (as == JINJA_CAPITAL && i == 0);
        const int32_t other = large ? utf8proc_toupper(c) : utf8proc_tolower(c);
        const unsigned char mark = jinja_mark(text, i);
        if (c == SHARP_S && large) /* like Python, not U+1E9E */
            sw_jinja_put(&out, as == JINJA_UPPER ? "SS" : "Ss", 2, mark);
        else
            sw_jinja_put(&out, made, sw_utf8_put((uint32_t)other, made), mark);
        /* Jinja's filter begins words after white space and -([{< */
        within = !sw_utf8_is_space((uint32_t)c) && strchr("-([{<", c < 128 ? c : 'a') == NULL;
    }
    return sw_jinja_text_of(&out);
}

/* Argument `at` as a text; NULL: it is not a text. */
static const struct jinja_text *text_at(const struct jinja_arguments *a, size_t at,
                                        const char *name)
{
    const struct jinja_value v = sw_jinja_argument(a, at, name, jinja_none());
    return v.kind == JINJA_TEXT ? v.of.text : NULL;
}

static struct jinja_value strip(struct jinja_run *run, struct jinja_value self,
                                const struct jinja_arguments *a)
{
    return sw_jinja_strip(run, self.of.text, text_at(a, 0, "chars"), true, true);
}

static struct jinja_value lstrip(struct jinja_run *run, struct jinja_value self,
                                 const struct jinja_arguments *a)
{
    return sw_jinja_strip(run, self.of.text, text_at(a, 0, "chars"), true, false);
}

static struct jinja_value rstrip(struct jinja_run *run, struct jinja_value self,
                                 const struct jinja_arguments *a)
{
    return sw_jinja_strip(run, self.of.text, text_at(a, 0, "chars"), false, true);
}

static struct jinja_value upper(struct jinja_run *run, struct jinja_value self,
                                const struct jinja_arguments *a)
{
    (void)a;
    return sw_jinja_recase(run, self.of.text, JINJA_UPPER);
}

static struct jinja_value lower(struct jinja_run *run, struct jinja_value self,
                                const struct jinja_arguments *a)
{
    (void)a;
    return sw_jinja_recase(run, self.of.text, JINJA_LOWER);
}

static struct jinja_value title(struct jinja_run *run, struct jinja_value self,
                                const struct jinja_arguments *a)
{
    (void)a;
    return sw_jinja_recase(run, self.of.text, JINJA_TITLE);
}

static struct jinja_value capitalize(struct jinja_run *run, struct jinja_value self,
                                     const struct jinja_arguments *a)
{
    (void)a;
    return sw_jinja_recase(run, self.of.text, JINJA_CAPITAL);
}

static struct jinja_value replace(struct jinja_run *run, struct jinja_value self,
                                  const struct jinja_arguments *a)
{
    const struct jinja_text *from = text_at(a, 0, "old"), *to = text_at(a, 1, "new");
    const struct jinja_value most = sw_jinja_argument(a, 2, "count", jinja_int(-1));
    if (from == NULL || to == NULL || most.kind != JINJA_INT)
        return sw_jinja_fail(run, "replace takes two strings, the old and the new one");
    return sw_jinja_replace(run, self.of.text, from, to, most.of.integer);
}

/* True if the text begins (or ends) with this text, or one of these. */
static struct jinja_value is_at_end(struct jinja_run *run, struct jinja_value self,
                                    const struct jinja_arguments *a, bool begins)
{
    const struct jinja_text *text = self.of.text;
    const struct jinja_value asked = sw_jinja_argument(a, 0, "prefix", jinja_none());
    const size_t count = asked.kind == JINJA_SEQUENCE ? asked.of.list->count : 1;
    for (size_t i = 0; i < count; i++) {
        const struct jinja_value v = asked.kind == JINJA_SEQUENCE ? asked.of.list->item[i] : asked;
        if (v.kind != JINJA_TEXT)
            return sw_jinja_fail(run, "%s takes a text, not %s", begins ? "startswith" : "endswith",
                                 sw_jinja_kind_name(v));
        const struct jinja_text *what = v.of.text;
        sw_jinja_charge(run, what->count);
        if (what->count <= text->count &&
            memcmp(begins ? text->byte : text->byte + text->count - what->count, what->byte,
                   what->count) == 0)
            return jinja_bool(true);
    }
    return jinja_bool(false);
}

static struct jinja_value startswith(struct jinja_run *run, struct jinja_value self,
                                     const struct jinja_arguments *a)
{
    return is_at_end(run, self, a, true);
}

static struct jinja_value endswith(struct jinja_run *run, struct jinja_value self,
                                   const struct jinja_arguments *a)
{
    return is_at_end(run, self, a, false);
}

/* Splits at white space at most `most` times; the rest is one piece. */
static struct jinja_value split_words(struct jinja_run *run, const struct jinja_text *text,
                                      int64_t most)
{
    const struct jinja_value made = sw_jinja_list(run, 0);
    size_t step;
    for (size_t i = 0; i < text->count && !run->failed;) {
        (void)sw_utf8_get(text->byte + i, &step);
        if (is_stripped(NULL, text->byte + i, step)) {
            i += step;
            continue;
        }
        size_t end = i;
        if (most-- == 0) {
            const struct jinja_value rest = sw_jinja_part(run, text, i, text->count);
            if (!run->failed)
                sw_jinja_push(run, made.of.list,
                              sw_jinja_strip(run, rest.of.text, NULL, false, true));
            break;
        }
        while (end < text->count && !is_stripped(NULL, text->byte + end, 1)) {
            (void)sw_utf8_get(text->byte + end, &step);
            end += step;
        }
        sw_jinja_push(run, made.of.list, sw_jinja_part(run, text, i, end));
        i = end;
    }
    return made;
}

static struct jinja_value split(struct jinja_run *run, struct jinja_value self,
                                const struct jinja_arguments *a)
{
    const struct jinja_text *by = text_at(a, 0, "sep"), *text = self.of.text;
    const struct jinja_value limit = sw_jinja_argument(a, 1, "maxsplit", jinja_int(-1));
    int64_t most = limit.kind == JINJA_INT ? limit.of.integer : -1;
    const struct jinja_value made = sw_jinja_list(run, 0);
    size_t at = 0;
    if (by == NULL)
        return split_words(run, text, most);
    if (by->count == 0)
        return sw_jinja_fail(run, "split by an empty text");
    while (!run->failed) {
        const size_t end = most-- == 0 ? text->count : find_from(run, text, by, at);
        sw_jinja_push(run, made.of.list, sw_jinja_part(run, text, at, end));
        if (end >= text->count)
            break;
        at = end + by->count;
    }
    return made;
}

/* split from the right: differs only with a limit. */
static struct jinja_value rsplit(struct jinja_run *run, struct jinja_value self,
                                 const struct jinja_arguments *a)
{
    const struct jinja_text *by = text_at(a, 0, "sep");
    const struct jinja_value limit = sw_jinja_argument(a, 1, "maxsplit", jinja_int(-1));
    const struct jinja_arguments all = {.item = {a->count > 0 ? a->item[0] : jinja_none()},
                                        .count = 1};
    const struct jinja_value made = split(run, self, &all), less = sw_jinja_list(run, 0);
    struct jinja_out out = {.run = run};
    if (run->failed || limit.kind != JINJA_INT || limit.of.integer < 0)
        return made;
    if (by == NULL)
        return sw_jinja_fail(run, "rsplit takes a string to split by");
    const size_t count = made.of.list->count, most = (size_t)limit.of.integer;
    for (size_t i = 0; i < count && !run->failed; i++) {
        if (i > 0 && i + most < count)
            sw_jinja_put_text(&out, by, 0, by->count);
        if (i + most < count)
            sw_jinja_put_value(&out, made.of.list->item[i]);
        if (i + most + 1 == count || (i == 0 && most >= count))
            sw_jinja_push(run, less.of.list,
                          most >= count ? made.of.list->item[0] : sw_jinja_text_of(&out));
        else if (i + most >= count)
            sw_jinja_push(run, less.of.list, made.of.list->item[i]);
    }
    return less;
}

static struct jinja_value splitlines(struct jinja_run *run, struct jinja_value self,
                                     const struct jinja_arguments *a)
{
    const struct jinja_text *text = self.of.text;
    const struct jinja_value made = sw_jinja_list(run, 0);
    (void)a;
    for (size_t i = 0; i < text->count && !run->failed;) {
        size_t end = i;
        while (end < text->count && text->byte[end] != '\n' && text->byte[end] != '\r')
            end++;
        sw_jinja_push(run, made.of.list, sw_jinja_part(run, text, i, end));
        end += end + 1 < text->count && text->byte[end] == '\r' && text->byte[end + 1] == '\n';
        i = end + 1;
    }
    return made;
}

/* Index of the character where it begins; -1: not found. */
static struct jinja_value find(struct jinja_run *run, struct jinja_value self,
                               const struct jinja_arguments *a)
{
    const struct jinja_text *what = text_at(a, 0, "sub");
    if (what == NULL)
        return sw_jinja_fail(run, "find takes a string");
    const size_t at = find_from(run, self.of.text, what, 0);
    if (at >= self.of.text->count && what->count > 0)
        return jinja_int(-1);
    const struct jinja_text before = {.byte = self.of.text->byte,
                                      .count = what->count > 0 ? at : 0};
    return jinja_int((int64_t)sw_jinja_characters(run, &before));
}

static struct jinja_value count(struct jinja_run *run, struct jinja_value self,
                                const struct jinja_arguments *a)
{
    const struct jinja_text *what = text_at(a, 0, "sub");
    int64_t found = 0;
    if (what == NULL || what->count == 0)
        return sw_jinja_fail(run, "count takes a string that is not empty");
    for (size_t at = 0; !run->failed; at += what->count, found++) {
        at = find_from(run, self.of.text, what, at);
        if (at >= self.of.text->count)
            break;
    }
    return jinja_int(found);
}

static bool all_characters(const struct jinja_text *text, bool letters, bool digits)
{
    for (size_t i = 0, step; i < text->count; i += step) {
        const int32_t c = (int32_t)sw_utf8_get(text->byte + i, &step);
        const utf8proc_category_t kind = utf8proc_category(c);
        const bool letter = kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
        if (!(letters && letter) && !(digits && kind == UTF8PROC_CATEGORY_ND))
            return false;
    }
    return text->count > 0;
}

static struct jinja_value isdigit_of(struct jinja_run *run, struct jinja_value self,
                                     const struct jinja_arguments *a)
{
    (void)a;
    sw_jinja_charge(run, self.of.text->count);
    return jinja_bool(all_characters(self.of.text, false, true));
}

static struct jinja_value isalpha_of(struct jinja_run *run, struct jinja_value self,
                                     const struct jinja_arguments *a)
{
    (void)a;
    sw_jinja_charge(run, self.of.text->count);
    return jinja_bool(all_characters(self.of.text, true, false));
}

static struct jinja_value join(struct jinja_run *run, struct jinja_value self,
                               const struct jinja_arguments *a)
{
    const struct jinja_list *items = sw_jinja_items(run, a->count > 0 ? a->item[0] : jinja_none());
    struct jinja_out out = {.run = run};
    for (size_t i = 0; i < items->count && !run->failed; i++) {
        if (items->item[i].kind != JINJA_TEXT)
            return sw_jinja_fail(run, "join takes strings, not %s",
                                 sw_jinja_kind_name(items->item[i]));
        if (i > 0)
            sw_jinja_put_value(&out, self);
        sw_jinja_put_value(&out, items->item[i]);
    }
    return sw_jinja_text_of(&out);
}

/* Replaces "{}", "{0}" and "{name}" with values; "{{" is a brace. */
static struct jinja_value format(struct jinja_run *run, struct jinja_value self,
                                 const struct jinja_arguments *a)
{
    const struct jinja_text *text = self.of.text;
    struct jinja_out out = {.run = run};
    size_t next = 0;
    for (size_t i = 0; i < text->count && !run->failed; i++) {
        const char c = text->byte[i];
        if ((c != '{' && c != '}') || text->byte[i + 1] == c) {
            sw_jinja_put_text(&out, text, i, i + 1);
            i += c == '{' || c == '}';
            continue;
        }
        const char *name = text->byte + i + 1, *end = c == '{' ? strchr(name, '}') : NULL;
        const size_t bytes = end != NULL ? (size_t)(end - name) : 0;
        struct jinja_value v = jinja_undefined(NULL);
        size_t at = bytes == 0 ? next++ : JINJA_ARGUMENTS;
        if (bytes == 1 && *name >= '0' && *name <= '9')
            at = (size_t)(*name - '0');
        if (at < a->count)
            v = a->item[at];
        for (size_t k = 0; k < a->named_count; k++)
            if (strlen(a->named[k].name) == bytes && memcmp(a->named[k].name, name, bytes) == 0)
                v = a->named[k].value;
        if (end == NULL || v.kind == JINJA_UNDEFINED)
            return sw_jinja_fail(run, "format has {}, {0} or {name}, and a value for each");
        sw_jinja_put_value(&out, v);
        i += bytes + 1;
    }
    return sw_jinja_text_of(&out);
}

static struct jinja_value removed(struct jinja_run *run, struct jinja_value self,
                                  const struct jinja_arguments *a, bool begins)
{
    const struct jinja_value is = is_at_end(run, self, a, begins);
    const struct jinja_text *what = text_at(a, 0, "prefix"), *text = self.of.text;
    if (run->failed || is.of.integer == 0 || what == NULL)
        return self;
    return sw_jinja_part(run, text, begins ? what->count : 0,
                         begins ? text->count : text->count - what->count);
}

static struct jinja_value removeprefix(struct jinja_run *run, struct jinja_value self,
                                       const struct jinja_arguments *a)
{
    return removed(run, self, a, true);
}

static struct jinja_value removesuffix(struct jinja_run *run, struct jinja_value self,
                                       const struct jinja_arguments *a)
{
    return removed(run, self, a, false);
}

/* ---- dicts, lists, loops ---- */

static struct jinja_value items(struct jinja_run *run, struct jinja_value self,
                                const struct jinja_arguments *a)
{
    return sw_jinja_filter_find("items")->apply(run, self, a);
}

static struct jinja_value keys(struct jinja_run *run, struct jinja_value self,
                               const struct jinja_arguments *a)
{
    return sw_jinja_filter_find("list")->apply(run, self, a);
}

static struct jinja_value values(struct jinja_run *run, struct jinja_value self,
                                 const struct jinja_arguments *a)
{
    const struct jinja_value made = sw_jinja_list(run, self.of.dict->count);
    (void)a;
    for (size_t i = 0; i < self.of.dict->count && !run->failed; i++)
        sw_jinja_push(run, made.of.list, self.of.dict->value[i]);
    return made;
}

static struct jinja_value get(struct jinja_run *run, struct jinja_value self,
                              const struct jinja_arguments *a)
{
    if (a->count < 1)
        return sw_jinja_fail(run, "get takes a key");
    const struct jinja_value *found = sw_jinja_dict_find(run, self.of.dict, a->item[0]);
    return found != NULL ? *found : sw_jinja_argument(a, 1, "default", jinja_none());
}

static struct jinja_value index_of(struct jinja_run *run, struct jinja_value self,
                                   const struct jinja_arguments *a)
{
    for (size_t i = 0; a->count > 0 && i < self.of.list->count && !run->failed; i++)
        if (sw_jinja_equal(run, self.of.list->item[i], a->item[0]))
            return jinja_int((int64_t)i);
    return sw_jinja_fail(run, "the list does not have this element");
}

static struct jinja_value count_items(struct jinja_run *run, struct jinja_value self,
                                      const struct jinja_arguments *a)
{
    int64_t found = 0;
    for (size_t i = 0; a->count > 0 && i < self.of.list->count && !run->failed; i++)
        found += sw_jinja_equal(run, self.of.list->item[i], a->item[0]);
    return jinja_int(found);
}

static struct jinja_value cycle(struct jinja_run *run, struct jinja_value self,
                                const struct jinja_arguments *a)
{
    return a->count > 0 ? a->item[self.of.loop->index % a->count]
                        : sw_jinja_fail(run, "cycle takes values");
}

/* Refuses methods that change a list or dict, as `transformers` does. */
static struct jinja_value change(struct jinja_run *run, struct jinja_value self,
                                 const struct jinja_arguments *a)
{
    (void)a;
    return sw_jinja_fail(run, "a template cannot change a %s", sw_jinja_kind_name(self));
}

static const struct jinja_method_row methods[] = {
    {"strip", JINJA_TEXT, strip},
    {"lstrip", JINJA_TEXT, lstrip},
    {"rstrip", JINJA_TEXT, rstrip},
    {"upper", JINJA_TEXT, upper},
    {"lower", JINJA_TEXT, lower},
    {"title", JINJA_TEXT, title},
    {"capitalize", JINJA_TEXT, capitalize},
    {"replace", JINJA_TEXT, replace},
    {"startswith", JINJA_TEXT, startswith},
    {"endswith", JINJA_TEXT, endswith},
    {"split", JINJA_TEXT, split},
    {"rsplit", JINJA_TEXT, rsplit},
    {"splitlines", JINJA_TEXT, splitlines},
    {"find", JINJA_TEXT, find},
    {"count", JINJA_TEXT, count},
    {"isdigit", JINJA_TEXT, isdigit_of},
    {"isalpha", JINJA_TEXT, isalpha_of},
    {"join", JINJA_TEXT, join},
    {"format", JINJA_TEXT, format},
    {"removeprefix", JINJA_TEXT, removeprefix},
    {"removesuffix", JINJA_TEXT, removesuffix},
    {"items", JINJA_MAPPING, items},
    {"keys", JINJA_MAPPING, keys},
    {"values", JINJA_MAPPING, values},
    {"get", JINJA_MAPPING, get},
    {"index", JINJA_SEQUENCE, index_of},
    {"count", JINJA_SEQUENCE, count_items},
    {"append", JINJA_SEQUENCE, change},
    {"extend", JINJA_SEQUENCE, change},
    {"insert", JINJA_SEQUENCE, change},
    {"pop", JINJA_SEQUENCE, change},
    {"remove", JINJA_SEQUENCE, change},
    {"clear", JINJA_SEQUENCE, change},
    {"sort", JINJA_SEQUENCE, change},
    {"reverse", JINJA_SEQUENCE, change},
    {"update", JINJA_MAPPING, change},
    {"pop", JINJA_MAPPING, change},
    {"setdefault", JINJA_MAPPING, change},
    {"clear", JINJA_MAPPING, change},
    {"cycle", JINJA_LOOP, cycle},
};
enum { METHODS = sizeof methods / sizeof methods[0] };

const struct jinja_method_row *sw_jinja_method_find(const char *name, enum jinja_kind of)
{
    for (size_t i = 0; i < METHODS; i++)
        if (methods[i].of == of && strcmp(methods[i].name, name) == 0)
            return &methods[i];
    return NULL;
}

bool sw_jinja_is_method(const char *name)
{
    for (size_t i = 0; i < METHODS; i++)
        if (strcmp(methods[i].name, name) == 0)
            return true;
    return false;
}
