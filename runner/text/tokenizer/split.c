/* Pre-tokenizers: each stage changes and splits the text parts of the previous one; the last
 * stage's parts are the model's words. */
#include "runner/text/tokenizer/internal.h"

#include <string.h>

/* Walk through one text at one stage. */
struct cutting {
    const struct sw_tokenizer *t;
    struct sw_text_scratch *scratch;
    int32_t stage;
    const char *text;
    const size_t *origin; /* origins of its bytes; NULL: offsets are not requested */
    bool first;           /* true if the text begins the whole text */
    struct sw_ids *ids;
    struct sw_error *err;
    /* part that may still grow */
    bool open, previous;
    size_t begin, end;
};

static int run_stage(const struct sw_tokenizer *t, struct sw_text_scratch *scratch, int32_t stage,
                     const char *text, size_t bytes, const size_t *origin, bool first,
                     struct sw_ids *ids, struct sw_error *err);

static int encode_piece(const struct sw_tokenizer *t, struct sw_text_scratch *scratch,
                        const char *text, size_t bytes, const size_t *origin, struct sw_ids *ids,
                        struct sw_error *err)
{
    const size_t before = ids->count;
    if (sw_bpe_encode(t, scratch, text, bytes, ids, err) != 0)
        return -1;
    if (origin != NULL && ids->count > before &&
        sw_offsets_of_piece(t, scratch, text, bytes, origin, ids->id + before,
                            ids->count - before) != 0)
        return sw_out_of_memory(t, err);
    return 0;
}

static int pass_on(const struct cutting *c, size_t begin, size_t end)
{
    const size_t *origin = c->origin != NULL ? c->origin + begin : NULL;
    if (begin == end)
        return 0;
    if (c->stage + 1 == c->t->pre_count)
        return encode_piece(c->t, c->scratch, c->text + begin, end - begin, origin, c->ids, c->err);
    return run_stage(c->t, c->scratch, c->stage + 1, c->text + begin, end - begin, origin,
                     c->first && begin == 0, c->ids, c->err);
}

static int pass_open(struct cutting *c)
{
    const bool open = c->open;
    c->open = false;
    return open ? pass_on(c, c->begin, c->end) : 0;
}

/* Takes a part and passes on the previous one if it is final. */
static int take(struct cutting *c, size_t begin, size_t end, bool matches)
{
    const struct sw_pre *p = &c->t->pre[c->stage];
    bool joins = false;
    matches = matches != p->inverted;
    switch (p->behavior) {
    case SW_SPLIT_REMOVED:
        return matches ? 0 : pass_on(c, begin, end);
    case SW_SPLIT_ISOLATED:
        return pass_on(c, begin, end);
    case SW_SPLIT_CONTIGUOUS:
        joins = c->open && matches == c->previous;
        break;
    case SW_SPLIT_WITH_PREVIOUS:
        joins = c->open && matches && !c->previous;
        break;
    case SW_SPLIT_WITH_NEXT:
        joins = c->open && !matches && c->previous;
        break;
    }
    c->previous = matches;
    if (joins) {
        c->end = end;
        return 0;
    }
    if (pass_open(c) != 0)
        return -1;
    c->open = true;
    c->begin = begin;
    c->end = end;
    return 0;
}

static int cut(struct cutting *c, size_t bytes)
{
    const struct sw_pre *p = &c->t->pre[c->stage];
    struct sw_matches matches = sw_matches_of(&p->pattern, &c->scratch->matcher, c->text, bytes);
    size_t done = 0, begin, end;
    int found;
    while ((found = sw_matches_next(&matches, &begin, &end)) > 0) {
        if ((done != begin && take(c, done, begin, false) != 0) || take(c, begin, end, true) != 0)
            return -1;
        done = end;
    }
    if (found < 0)
        return sw_refuse(c->t, c->err,
                         "a pattern of the pre-tokenizer takes too many steps on this text");
    if (done != bytes && take(c, done, bytes, false) != 0)
        return -1;
    return pass_open(c);
}

static int replace_spaces(const struct sw_pre *p, const char *text, size_t bytes,
                          struct sw_chars *out)
{
    while (bytes > 0) {
        const char *space = memchr(text, ' ', bytes);
        const size_t before = space == NULL ? bytes : (size_t)(space - text);
        if (sw_chars_add(out, text, before) != 0 ||
            (space != NULL && sw_chars_add(out, p->mark, p->mark_bytes) != 0))
            return -1;
        text += before + (space != NULL);
        bytes -= before + (space != NULL);
    }
    return 0;
}

static bool begins_with_mark(const struct sw_pre *p, const char *text, size_t bytes)
{
    if (p->replaces && text[0] == ' ')
        return true;
    return bytes >= p->mark_bytes && memcmp(text, p->mark, p->mark_bytes) == 0;
}

/* replace, for origins. */
static int replace_origins(const struct sw_pre *p, const char *text, size_t bytes,
                           const size_t *origin, bool prefixed, struct sw_origins *out)
{
    int status = prefixed ? sw_origins_fill(out, origin[0], p->mark_bytes) : 0;
    for (size_t i = 0; status == 0 && i < bytes; i++)
        status = sw_origins_fill(out, origin[i], p->replaces && text[i] == ' ' ? p->mark_bytes : 1);
    return status;
}

/* The text with marks for spaces and before it; unchanged if neither is wanted. */
static int mark(struct cutting *c, const struct sw_pre *p, size_t *bytes)
{
    struct sw_chars *out = &c->scratch->stage[c->stage];
    struct sw_origins *origins = &c->scratch->stage_origin[c->stage];
    const bool prefixed =
        (p->prefix == SW_PREFIX_ALWAYS || (p->prefix == SW_PREFIX_FIRST && c->first)) &&
        !begins_with_mark(p, c->text, *bytes);
    if (!p->replaces && !prefixed)
        return 0;
    out->count = origins->count = 0;
    if (prefixed && sw_chars_add(out, p->mark, p->mark_bytes) != 0)
        return -1;
    if ((p->replaces ? replace_spaces(p, c->text, *bytes, out)
                     : sw_chars_add(out, c->text, *bytes)) != 0)
        return -1;
    if (c->origin != NULL) {
        if (replace_origins(p, c->text, *bytes, c->origin, prefixed, origins) != 0)
            return -1;
        c->origin = origins->at;
    }
    c->text = out->byte;
    *bytes = out->count;
    return 0;
}

static int run_stage(const struct sw_tokenizer *t, struct sw_text_scratch *scratch, int32_t stage,
                     const char *text, size_t bytes, const size_t *origin, bool first,
                     struct sw_ids *ids, struct sw_error *err)
{
    struct cutting c = {t, scratch, stage, text, origin, first, ids, err, false, false, 0, 0};
    if (mark(&c, &t->pre[stage], &bytes) != 0)
        return sw_out_of_memory(t, err);
    return t->pre[stage].splits ? cut(&c, bytes) : pass_on(&c, 0, bytes);
}

int sw_pre_tokenize(const struct sw_tokenizer *t, struct sw_text_scratch *scratch, const char *text,
                    size_t bytes, const size_t *origin, bool first, struct sw_ids *ids,
                    struct sw_error *err)
{
    if (bytes == 0)
        return 0;
    if (t->pre_count == 0)
        return encode_piece(t, scratch, text, bytes, origin, ids, err);
    return run_stage(t, scratch, 0, text, bytes, origin, first, ids, err);
}
