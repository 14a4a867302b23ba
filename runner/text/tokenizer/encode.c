/* Text to tokens: added tokens are found, what is between them is normalized, cut and merged. */
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
    free(s);
}

struct encoding {
    const struct sw_tokenizer *t;
    struct sw_text_scratch *scratch;
    const struct sw_encode_options *options;
    struct sw_ids *ids;
    struct sw_error *err;
    bool at_beginning; /* of the text: what is being cut, before it was normalized */
};

static int add_token(void *self, int32_t id)
{
    const struct encoding *e = self;
    if (sw_ids_reserve(e->ids, 1) != 0)
        return sw_out_of_memory(e->t, e->err);
    e->ids->id[e->ids->count++] = id;
    return 0;
}

static int add_normal(void *self, const char *text, size_t begin, size_t end)
{
    const struct encoding *e = self;
    return sw_pre_tokenize(e->t, e->scratch, text + begin, end - begin,
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
    e->at_beginning = begin == 0;
    if (sw_normalize(e->t, e->scratch, &normal, &bytes, e->err) != 0)
        return -1;
    return sw_added_split(e->t, &e->t->normal_tree, normal, bytes, &options, &visitor);
}

static int add_ids(const struct encoding *e, const struct sw_ids *more)
{
    if (more->count == 0)
        return 0;
    if (sw_ids_reserve(e->ids, more->count) != 0)
        return sw_out_of_memory(e->t, e->err);
    memcpy(e->ids->id + e->ids->count, more->id, more->count * sizeof *more->id);
    e->ids->count += more->count;
    return 0;
}

static int encode_bytes(const struct encoding *e, const char *text, size_t bytes)
{
    if (sw_ids_reserve(e->ids, bytes) != 0)
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
    if (sw_added_split(e->t, &e->t->plain_tree, text, bytes, e->options, &visitor) != 0)
        return -1;
    return e->options->add_special ? add_ids(e, &e->t->after) : 0;
}

int sw_tokenizer_encode(const struct sw_tokenizer *t, struct sw_text_scratch *scratch,
                        const char *text, size_t bytes, const struct sw_encode_options *options,
                        struct sw_ids *ids, struct sw_error *err)
{
    static const struct sw_encode_options none = {0};
    struct encoding e = {t, scratch, options != NULL ? options : &none, ids, err, true};
    const size_t before = ids->count;
    int status = 0;
    if (t->is_bytes)
        return encode_bytes(&e, text, bytes);
    struct sw_encode_options plain = *e.options;
    plain.plain_special |= t->splits_special;
    e.options = &plain;
    if (sw_utf8_valid(text, bytes) != bytes) {
        plain.plain_special |= plain.literal_count > 0; /* the spans' places are lost */
        plain.literal_count = 0;
        scratch->repaired.count = 0;
        if (sw_utf8_repair(text, bytes, &scratch->repaired) != 0)
            status = sw_out_of_memory(t, err);
        text = scratch->repaired.byte;
        bytes = scratch->repaired.count;
    }
    if (status == 0)
        status = encode_text(&e, text, bytes);
    if (status != 0)
        ids->count = before;
    return status == 0 ? 0 : -1;
}
