/* Conditions on words: 'mesh != old.mesh', 'recompute == full', 'rejected'. */
#include "planner/policy/fail_if_internal.h"

#include "core/sharding/mesh.h"
#include "planner/search/search.h"

#include <ctype.h>
#include <string.h>

static const char *const aspects[SW_ASPECT_COUNT] = {"mesh", "recompute", "verdict", "partition"};

const char *sw_aspect_name(enum sw_aspect aspect)
{
    return aspects[aspect];
}

int sw_fail_if_refuse_before(struct sw_fail_if_parser *p, const char *at)
{
    if (p->out->at.file == NULL)
        return 0;
    return sw_fail_if_mistake(p, sw_fail_if_column(p, at), "there is no old plan here",
                              "write what the plan itself must not be, as in 'nodes > 64'");
}

/* Parses the aspect at p->at, with its "old."; false: none, and nothing was read. */
static bool parse_aspect(struct sw_fail_if_parser *p, struct sw_fail_if_word *out)
{
    const char *from = p->at;
    const bool is_old = strncmp(from, "old.", 4) == 0;
    from += is_old ? 4 : 0;
    size_t length = 0;
    while (isalnum((unsigned char)from[length]) || from[length] == '_')
        length++;
    for (int32_t i = 0; i < SW_ASPECT_COUNT; i++)
        if (strlen(aspects[i]) == length && memcmp(aspects[i], from, length) == 0) {
            *out = (struct sw_fail_if_word){.is_old = is_old, .aspect = (enum sw_aspect)i};
            p->at = from + length;
            return true;
        }
    return false;
}

static bool is_mesh(const char *text)
{
    for (int32_t i = 0; i < SW_AXIS_COUNT; i++) {
        const size_t digits = strspn(text, "0123456789");
        if (digits == 0 || digits > 9 || text[0] == '0')
            return false;
        text += digits;
        if (*text != (i + 1 < SW_AXIS_COUNT ? ',' : '\0'))
            return false;
        text += *text == ',';
    }
    return true;
}

/* Lists the words of an aspect; those of a mesh are not listed. Returns their number. */
static int32_t list_words(enum sw_aspect aspect, const char *out[16])
{
    int32_t count = 0;
    if (aspect == SW_ASPECT_VERDICT) /* a mesh that does not fit is not compared */
        for (int32_t v = 0; v < SW_VERDICT_DOES_NOT_FIT; v++)
            out[count++] = sw_verdict_name((enum sw_fit_verdict)v);
    if (aspect == SW_ASPECT_RECOMPUTE)
        for (int32_t i = 0; sw_recompute_words[i] != NULL; i++)
            out[count++] = sw_recompute_words[i];
    return count;
}

/* The rest of the condition, without spaces. */
static int parse_literal(struct sw_fail_if_parser *p, enum sw_aspect aspect,
                         struct sw_fail_if_word *out)
{
    const char *from = p->at, *words[16];
    char what[128], help[160] = "use ";
    size_t used = 0;
    *out = (struct sw_fail_if_word){.is_literal = true, .aspect = aspect};
    for (; *p->at != '\0' && used + 1 < sizeof out->text; p->at++)
        if (!isspace((unsigned char)*p->at))
            out->text[used++] = *p->at;
    const int32_t count = list_words(aspect, words);
    if (aspect == SW_ASPECT_PARTITION && *p->at == '\0' && used > 0)
        return 0;
    for (int32_t i = 0; i < count && *p->at == '\0'; i++)
        if (strcmp(words[i], out->text) == 0)
            return 0;
    if (aspect == SW_ASPECT_MESH && *p->at == '\0' && is_mesh(out->text))
        return 0;
    snprintf(what, sizeof what, "no %s", aspects[aspect]);
    for (int32_t i = 0; i < count; i++) {
        const size_t length = strlen(help);
        snprintf(help + length, sizeof help - length, "%s, ", words[i]);
    }
    const size_t length = strlen(help);
    const char *any = aspect == SW_ASPECT_MESH        ? "sizes of dp,fsdp,tp,sp as in 1,64,1,1"
                      : aspect == SW_ASPECT_PARTITION ? "a partition's name"
                                                      : "";
    if (p->out->at.file != NULL && any[0] != '\0')
        snprintf(help + length, sizeof help - length, "%s", any);
    else if (p->out->at.file != NULL)
        help[length - 2] = '\0'; /* the last comma */
    else
        snprintf(help + length, sizeof help - length, "%s%sor old.%s", any,
                 any[0] != '\0' ? ", " : "", aspects[aspect]);
    return sw_fail_if_mistake(p, sw_fail_if_column(p, from), what, help);
}

/* 1: a condition on words; 0: it is none; -1: failed. */
int sw_fail_if_parse_words(struct sw_fail_if_parser *p)
{
    struct sw_fail_if *out = p->out;
    sw_fail_if_skip_spaces(p);
    const char *from = p->at;
    if (strncmp(from, "rejected", 8) == 0 && from[8 + strspn(from + 8, " \t")] == '\0') {
        out->form = SW_FAIL_IF_REJECTED;
        return 1;
    }
    if (!parse_aspect(p, &out->word[0]))
        return 0;
    out->form = SW_FAIL_IF_WORDS;
    if (out->word[0].is_old && sw_fail_if_refuse_before(p, from) != 0)
        return -1;
    sw_fail_if_skip_spaces(p);
    const char *sign = p->at;
    if (sw_fail_if_parse_comparison(p) != 0)
        return -1;
    if (out->comparison[0] == '<' || out->comparison[0] == '>')
        return sw_fail_if_mistake(p, sw_fail_if_column(p, sign), "words are only equal or not",
                                  "use == or !=");
    sw_fail_if_skip_spaces(p);
    const char *right = p->at;
    if (!parse_aspect(p, &out->word[1]))
        return parse_literal(p, out->word[0].aspect, &out->word[1]) != 0 ? -1 : 1;
    if (out->word[1].is_old && sw_fail_if_refuse_before(p, right) != 0)
        return -1;
    sw_fail_if_skip_spaces(p);
    if (out->word[1].aspect != out->word[0].aspect)
        return sw_fail_if_mistake(p, sw_fail_if_column(p, right), "these two do not compare",
                                  "compare with the old one, as in 'mesh != old.mesh'");
    if (*p->at != '\0')
        return sw_fail_if_mistake(p, sw_fail_if_column(p, p->at), "the condition should end here",
                                  "write another --fail-if for another comparison");
    return 1;
}

static const char *word_of(const struct sw_fail_if_word *word, const struct sw_measures *was,
                           const struct sw_measures *is)
{
    return word->is_literal ? word->text : (word->is_old ? was : is)->word[word->aspect];
}

/* True if two comma-separated lists share a name, or both are empty. */
static bool shares_name(const char *a, const char *b)
{
    if (a[0] == '\0' || b[0] == '\0')
        return a[0] == b[0];
    for (const char *x = a; *x != '\0'; x += strcspn(x, ","), x += *x == ',')
        for (const char *y = b; *y != '\0'; y += strcspn(y, ","), y += *y == ',')
            if (strcspn(x, ",") == strcspn(y, ",") && strncmp(x, y, strcspn(x, ",")) == 0)
                return true;
    return false;
}

enum sw_fail_if_verdict sw_fail_if_test_words(const struct sw_fail_if *c,
                                              const struct sw_measures *was,
                                              const struct sw_measures *is, char *detail,
                                              size_t detail_bytes)
{
    if (was == NULL && (c->word[0].is_old || c->word[1].is_old)) {
        snprintf(detail, detail_bytes, "there is no old plan to compare with");
        return SW_FAIL_IF_SKIPPED;
    }
    const char *a = word_of(&c->word[0], was, is), *b = word_of(&c->word[1], was, is);
    const bool same =
        c->word[0].aspect == SW_ASPECT_PARTITION ? shares_name(a, b) : strcmp(a, b) == 0;
    snprintf(detail, detail_bytes, "%s %s %s", a[0] != '\0' ? a : "none",
             same ? "==" : "!=", b[0] != '\0' ? b : "none");
    return same == (c->comparison[0] == '=') ? SW_FAIL_IF_FAIL : SW_FAIL_IF_PASS;
}
