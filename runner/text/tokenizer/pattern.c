#include "runner/text/tokenizer/pattern.h"

#include "core/base/text.h"
#include "runner/text/tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>

/* Limits for exploding expressions: a fixed number of steps and some per byte. Searching a newline
 * behind ten million spaces, and backtracking, stays below. */
enum {
    MOST_STEPS = 1000000,
    STEPS_PER_BYTE = 16,
    MOST_HEAP_KIB = 65536,
    MOST_STACK_BYTES = 1 << 20
};

/* White_Space; PCRE2's \s also has U+180E, removed in Unicode 6.3. */
#define SPACE "\\t-\\r\\x{85}\\p{Z}"
/* Oniguruma's word: Alphabetic, marks, digits, connectors. */
#define WORD                                                                                       \
    "\\p{L}\\p{M}\\p{Nl}\\p{Nd}\\p{Pc}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}"                    \
    "\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}"

/* An expression being rewritten. */
struct rewrite {
    const char *at, *end;
    bool in_class;
    struct sw_chars out;
    const char *refused; /* syntax without an equivalent; NULL: none so far */
};

static int put(struct rewrite *r, const char *text, size_t bytes)
{
    return sw_chars_add(&r->out, text, bytes);
}

static int put_text(struct rewrite *r, const char *text)
{
    return put(r, text, strlen(text));
}

static int rewrite_set(struct rewrite *r, const char *set, bool negated)
{
    if (r->in_class) {
        if (negated)
            r->refused = "\\S or \\W within brackets";
        return put_text(r, set);
    }
    return put_text(r, negated ? "[^" : "[") != 0 || put_text(r, set) != 0 || put_text(r, "]") != 0;
}

static int rewrite_escape(struct rewrite *r)
{
    const char letter = r->at + 1 < r->end ? r->at[1] : '\0';
    r->at += r->at + 1 < r->end ? 2 : 1;
    switch (letter) {
    case '\0':
        r->refused = "a backslash at its end";
        return 0;
    case 's':
    case 'S':
        return rewrite_set(r, SPACE, letter == 'S');
    case 'w':
    case 'W':
        return rewrite_set(r, WORD, letter == 'W');
    case 'h':
    case 'H':
    case 'b':
    case 'B':
    case 'K':
    case 'u':
        r->refused = "one of \\h \\H \\b \\B \\K \\u";
        return 0;
    default:
        return put(r, r->at - 2, 2);
    }
}

static int rewrite_in_class(struct rewrite *r)
{
    const char *at = r->at++;
    const bool more = r->at < r->end;
    if (*at == ']')
        r->in_class = false;
    if (*at == '&' && more && *r->at == '&')
        r->refused = "&& within brackets";
    if (*at == '[' && !(more && *r->at == ':'))
        r->refused = "brackets within brackets";
    return put(r, at, 1);
}

/* Rewrites {2}, {2,}, {2,3}, {,3}; both engines take other braces as text. */
static int rewrite_braces(struct rewrite *r)
{
    const char *at = r->at + 1, *digits = at;
    while (at < r->end && *at >= '0' && *at <= '9')
        at++;
    const bool first = at > digits;
    bool second = false;
    if (at < r->end && *at == ',')
        for (at++; at < r->end && *at >= '0' && *at <= '9'; at++)
            second = true;
    if (at == r->end || *at != '}' || !(first || second)) {
        r->at++;
        return put_text(r, "{");
    }
    if (at + 1 < r->end && at[1] == '+')
        r->refused = "{}+"; /* possessive in PCRE2, repeated in Oniguruma */
    const char *from = r->at;
    r->at = at + 1;
    return put_text(r, first ? "{" : "{0") != 0 || put(r, from + 1, (size_t)(at - from)) != 0;
}

/* Oniguruma's (?m), dot matches newlines, is (?s) here. */
static int rewrite_options(struct rewrite *r)
{
    const char *at = r->at + 2;
    while (at < r->end && strchr("imx-", *at) != NULL && *at != '\0')
        at++;
    if (at == r->end || at == r->at + 2 || (*at != ')' && *at != ':')) {
        r->at += 2;
        return put_text(r, "(?");
    }
    for (const char *from = r->at; from < at; from++)
        if (put(r, *from == 'm' ? "s" : from, 1) != 0)
            return -1;
    r->at = at;
    return 0;
}

static int rewrite_all(struct rewrite *r)
{
    while (r->at < r->end && r->refused == NULL) {
        int status;
        if (*r->at == '\\') {
            status = rewrite_escape(r);
        } else if (r->in_class) {
            status = rewrite_in_class(r);
        } else if (*r->at == '{') {
            status = rewrite_braces(r);
        } else if (*r->at == '(' && r->end - r->at > 2 && r->at[1] == '?') {
            status = rewrite_options(r);
        } else if (*r->at == '(' && r->end - r->at > 1 && r->at[1] == '*') {
            r->refused = "a verb '(*'";
            status = 0;
        } else {
            size_t count = 1;
            if (*r->at == '[') {
                r->in_class = true;
                count += r->end - r->at > 1 && r->at[1] == '^';
                /* a first bracket is literal */
                count += (size_t)(r->end - r->at) > count && r->at[count] == ']';
            }
            status = put(r, r->at, count);
            r->at += count;
        }
        if (status != 0)
            return -1;
    }
    return 0;
}

static int compile(const char *file, const char *expression, const struct sw_chars *text,
                   struct sw_pattern *out, struct sw_error *err)
{
    int number;
    PCRE2_SIZE offset;
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (context == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for '%s'", file);
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    out->code = pcre2_compile((PCRE2_SPTR)text->byte, text->count,
                              PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                              &number, &offset, context);
    pcre2_compile_context_free(context);
    if (out->code == NULL) {
        char shown[64], why[160] = "";
        sw_text_shown(expression, 60, shown);
        pcre2_get_error_message(number, (PCRE2_UCHAR *)why, sizeof why);
        return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = file},
                          "the regular expression '%s' is not accepted: %s", shown, why);
    }
    out->jit = pcre2_jit_compile(out->code, PCRE2_JIT_COMPLETE) == 0;
    return 0;
}

int sw_pattern_compile(const char *file, const char *expression, size_t bytes,
                       struct sw_pattern *out, struct sw_error *err)
{
    const struct sw_place place = {.file = file};
    struct rewrite r = {.at = expression, .end = expression + bytes};
    int status = -1;
    *out = (struct sw_pattern){0};
    if (bytes > SW_PATTERN_BYTES)
        return sw_fail_at(err, SW_BAD_INPUT, place,
                          "a regular expression of %zu bytes, of %d at most", bytes,
                          (int)SW_PATTERN_BYTES);
    if (put_text(&r, "") != 0 || rewrite_all(&r) != 0) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory for '%s'", file);
    } else if (r.refused != NULL) {
        char shown[64];
        sw_text_shown(expression, 60, shown);
        sw_fail_at(err, SW_BAD_INPUT, place,
                   "the regular expression '%s' uses %s, which is not supported", shown, r.refused);
    } else {
        status = compile(file, expression, &r.out, out, err);
    }
    sw_chars_free(&r.out);
    return status;
}

int sw_pattern_plain(const char *text, size_t bytes, struct sw_pattern *out)
{
    *out = (struct sw_pattern){.text = malloc(bytes + 1), .bytes = bytes};
    if (out->text == NULL)
        return -1;
    memcpy(out->text, text, bytes);
    out->text[bytes] = '\0';
    return 0;
}

void sw_pattern_free(struct sw_pattern *pattern)
{
    free(pattern->text);
    pcre2_code_free(pattern->code);
    *pattern = (struct sw_pattern){0};
}

int sw_matcher_make(struct sw_matcher *out)
{
    *out = (struct sw_matcher){.data = pcre2_match_data_create(1, NULL),
                               .context = pcre2_match_context_create(NULL),
                               .stack = pcre2_jit_stack_create(32768, MOST_STACK_BYTES, NULL)};
    if (out->data == NULL || out->context == NULL) {
        sw_matcher_free(out);
        return -1;
    }
    pcre2_set_heap_limit(out->context, MOST_HEAP_KIB);
    if (out->stack != NULL) /* without it PCRE2 uses 32 KiB of the thread's stack */
        pcre2_jit_stack_assign(out->context, NULL, out->stack);
    return 0;
}

void sw_matcher_free(struct sw_matcher *matcher)
{
    pcre2_match_data_free(matcher->data);
    pcre2_match_context_free(matcher->context);
    pcre2_jit_stack_free(matcher->stack);
    *matcher = (struct sw_matcher){0};
}

static int find_plain(const struct sw_pattern *p, const char *text, size_t bytes, size_t from,
                      size_t *begin, size_t *end)
{
    if (p->bytes == 0 || from > bytes)
        return 0;
    const char *at = memmem(text + from, bytes - from, p->text, p->bytes);
    if (at == NULL)
        return 0;
    *begin = (size_t)(at - text);
    *end = *begin + p->bytes;
    return 1;
}

int sw_pattern_find(const struct sw_pattern *p, const struct sw_matcher *m, const char *text,
                    size_t bytes, size_t from, size_t *begin, size_t *end)
{
    if (p->text != NULL)
        return find_plain(p, text, bytes, from, begin, end);
    const PCRE2_SPTR subject = (PCRE2_SPTR)text;
    const int found =
        p->jit
            ? pcre2_jit_match(p->code, subject, bytes, from, 0, m->data, m->context)
            : pcre2_match(p->code, subject, bytes, from, PCRE2_NO_UTF_CHECK, m->data, m->context);
    if (found == PCRE2_ERROR_NOMATCH)
        return 0;
    if (found < 0)
        return -1;
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(m->data);
    if (span[0] > span[1] || span[0] < from)
        return -1;
    *begin = span[0];
    *end = span[1];
    return 1;
}

static void limit_steps(const struct sw_matches *m)
{
    const uint64_t most = MOST_STEPS + STEPS_PER_BYTE * (uint64_t)m->bytes;
    pcre2_set_match_limit(m->matcher->context, most < UINT32_MAX ? (uint32_t)most : UINT32_MAX);
}

int sw_matches_next(struct sw_matches *m, size_t *begin, size_t *end)
{
    if (m->from == 0 && m->pattern->code != NULL)
        limit_steps(m);
    while (m->from <= m->bytes) {
        const int found =
            sw_pattern_find(m->pattern, m->matcher, m->text, m->bytes, m->from, begin, end);
        if (found <= 0)
            return found;
        if (*begin != *end || *end != m->last_end) {
            m->from = m->last_end = *end;
            return 1;
        }
        do
            m->from++;
        while (m->from < m->bytes && ((unsigned char)m->text[m->from] & 0xc0) == 0x80);
    }
    return 0;
}
