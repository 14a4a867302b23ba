/* Text to tokens: finds added tokens; normalizes, splits and merges the text between. */
#include "runner/text/tokenizer/internal.h"
#include "runner/text/tokenizer/utf8.h"

#include <stdlib.h>
#include <string.h>

int sw_text_scratch_new(const struct sw_tokenizer *t, struct sw_text_scratch **out,
                        struct sw_error *err)
{
    struct sw_text_scratch *s = calloc(1, sizeof *s);
    if (s == NULL ||
        (!t->is_bytes && (sw_matcher_make(&s->matcher) != 0 ||
                          (s->cache = calloc(SW_CACHE_SLOTS, sizeof *s->cache)) == NULL))) {
        sw_text_scratch_free(s);
        return sw_out_of_memory(t, err);
    }
    *out = s;
    return 0;
}

void sw_text_scratch_free(struct sw_text_scratch *s)
{
    if (s == NULL)
        return;
    sw_matcher_free(&s->matcher);
    sw_chars_free(&s->repaired);
    for (int32_t i = 0; i < 2; i++)
        sw_chars_free(&s->normal[i]);
    for (int32_t i = 0; i < SW_TEXT_STAGES; i++)
        sw_chars_free(&s->stage[i]);
    free(s->cache);
    free(s->symbol);
    free(s->heap);
    free(s->character);
    free(s->given_origin.at);
    for (int32_t i = 0; i < 2; i++)
        free(s->normal_origin[i].at);
    for (int32_t i = 0; i < SW_TEXT_STAGES; i++)
        free(s->stage_origin[i].at);
    free(s);
}

struct encoding {
    const struct sw_tokenizer *t;
    struct sw_text_scratch *scratch;
    const struct sw_encode_options *options;
    struct sw_ids *ids;
    struct sw_error *err;
    const size_t *origin; /* for the text being split; NULL: offsets are not requested */
    bool at_beginning;    /* true if the text being split begins the whole text */
};

static int add_token(void *self, int32_t id, size_t begin, size_t end)
{
    const struct encoding *e = self;
    if (sw_ids_reserve(e->ids, 1) != 0 ||
        (e->origin != NULL &&
         sw_offsets_add(e->scratch, e->origin[begin], e->origin[end - 1]) != 0))
        return sw_out_of_memory(e->t, e->err);
    e->ids->id[e->ids->count++] = id;
    return 0;
}

static int add_normal(void *self, const char *text, size_t begin, size_t end)
{
    const struct encoding *e = self;
    return sw_pre_tokenize(e->t, e->scratch, text + begin, end - begin,
                           e->origin != NULL ? e->origin + begin : NULL,
                           e->at_beginning && begin == 0, e->ids, e->err);
}

static bool holds_literal(const struct sw_encode_options *o, size_t begin, size_t end)
{
    for (size_t i = 0; i < o->literal_count; i++)
        if (o->literal[i].begin < end && o->literal[i].end > begin)
            return true;
    return false;
}

static int add_rest(void *self, const char *text, size_t begin, size_t end)
{
    static const struct sw_encode_options none = {0};
    struct encoding *e = self;
    const char *normal = text + begin;
    size_t bytes = end - begin;
    const struct sw_added_visitor visitor = {e, add_normal, add_token};
    struct sw_encode_options options = none;
    options.plain_special = e->options->plain_special || holds_literal(e->options, begin, end);
    const size_t *const origin = e->origin;
    e->at_beginning = begin == 0;
    e->origin = origin != NULL ? origin + begin : NULL;
    int status = sw_normalize(e->t, e->scratch, &normal, &bytes, &e->origin, e->err);
    if (status == 0)
        status = sw_added_split(e->t, &e->t->normal_tree, normal, bytes, &options, &visitor);
    e->origin = origin;
    return status;
}

static int add_ids(const struct encoding *e, const struct sw_ids *more)
{
    if (more->count == 0)
        return 0;
    if (sw_ids_reserve(e->ids, more->count) != 0)
        return sw_out_of_memory(e->t, e->err);
    memcpy(e->ids->id + e->ids->count, more->id, more->count * sizeof *more->id);
    e->ids->count += more->count;
    for (size_t i = 0; e->scratch->offsets != NULL && i < more->count; i++)
        if (sw_text_spans_add(e->scratch->offsets, 0, 0) != 0)
            return sw_out_of_memory(e->t, e->err);
    return 0;
}

static int encode_bytes(const struct encoding *e, const char *text, size_t bytes)
{
    struct sw_text_spans *offsets = e->options->offsets;
    if (sw_ids_reserve(e->ids, bytes) != 0)
        return sw_out_of_memory(e->t, e->err);
    for (size_t i = 0; offsets != NULL && i < bytes; i++)
        if (sw_text_spans_add(offsets, i, i + 1) != 0)
            return sw_out_of_memory(e->t, e->err);
    for (size_t i = 0; i < bytes; i++)
        e->ids->id[e->ids->count++] = (unsigned char)text[i];
    return 0;
}

static int encode_text(struct encoding *e, const char *text, size_t bytes)
{
    const struct sw_added_visitor visitor = {e, add_rest, add_token};
    if (e->options->add_special && add_ids(e, &e->t->before) != 0)
        return -1;
    const size_t first = e->ids->count;
    if (sw_added_split(e->t, &e->t->plain_tree, text, bytes, e->options, &visitor) != 0)
        return -1;
    const size_t count = e->ids->count - first;
    if (e->origin != NULL && e->t->trims_offsets && count > 0) {
        struct sw_text_spans *offsets = e->scratch->offsets;
        sw_offsets_strip(e->t, text, e->ids->id + first, offsets->span + offsets->count - count,
                         count);
    }
    return e->options->add_special ? add_ids(e, &e->t->after) : 0;
}

/* Makes the text valid UTF-8 and adapts its options. */
static int repair(struct encoding *e, struct sw_encode_options *options, const char **text,
                  size_t *bytes)
{
    struct sw_chars *repaired = &e->scratch->repaired;
    if (options->offsets != NULL)
        return sw_refuse(e->t, e->err, "offsets are asked for of a text that is not UTF-8");
    options->plain_special |= options->literal_count > 0; /* span positions are lost */
    options->literal_count = 0;
    repaired->count = 0;
    if (sw_utf8_repair(*text, *bytes, repaired) != 0)
        return sw_out_of_memory(e->t, e->err);
    *text = repaired->byte;
    *bytes = repaired->count;
    return 0;
}

/* Prepares to keep origins for offsets. */
static int keep_origins(struct encoding *e, const char *text, size_t bytes)
{
    struct sw_text_scratch *s = e->scratch;
    s->given_origin.count = 0;
    if (sw_origins_of_text(&s->given_origin, text, bytes) != 0)
        return sw_out_of_memory(e->t, e->err);
    s->given = text;
    s->offsets = e->options->offsets;
    e->origin = s->given_origin.at;
    return 0;
}

int sw_tokenizer_encode(const struct sw_tokenizer *t, struct sw_text_scratch *scratch,
                        const char *text, size_t bytes, const struct sw_encode_options *options,
                        struct sw_ids *ids, struct sw_error *err)
{
    static const struct sw_encode_options none = {0};
    struct encoding e = {t, scratch, options != NULL ? options : &none, ids, err, NULL, true};
    struct sw_text_spans *offsets = e.options->offsets;
    const size_t before = ids->count, offsets_before = offsets != NULL ? offsets->count : 0;
    int status = 0;
    if (t->is_bytes)
        status = encode_bytes(&e, text, bytes);
    struct sw_encode_options plain = *e.options;
    plain.plain_special |= t->splits_special;
    e.options = &plain;
    if (!t->is_bytes && sw_utf8_valid(text, bytes) != bytes)
        status = repair(&e, &plain, &text, &bytes);
    if (status == 0 && !t->is_bytes && offsets != NULL)
        status = keep_origins(&e, text, bytes);
    if (status == 0 && !t->is_bytes)
        status = encode_text(&e, text, bytes);
    scratch->offsets = NULL;
    if (status == 0)
        return 0;
    ids->count = before;
    if (offsets != NULL)
        offsets->count = offsets_before;
    return -1;
}
