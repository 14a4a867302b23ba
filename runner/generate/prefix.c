#include "runner/generate/prefix.h"

#include <stdlib.h>
#include <string.h>

bool sw_prefixes_create(int64_t slots, int64_t capacity, int64_t chunk, struct sw_prefixes *out)
{
    *out = (struct sw_prefixes){.slots = slots,
                                .capacity = capacity,
                                .chunk = chunk,
                                .tokens =
                                    calloc((size_t)slots * (size_t)capacity, sizeof *out->tokens),
                                .standing = calloc((size_t)slots, sizeof *out->standing),
                                .prompt = calloc((size_t)slots, sizeof *out->prompt),
                                .chunked = calloc((size_t)slots, sizeof *out->chunked),
                                .reached = calloc((size_t)slots, sizeof *out->reached),
                                .used = calloc((size_t)slots, sizeof *out->used)};
    if (out->tokens != NULL && out->standing != NULL && out->prompt != NULL &&
        out->chunked != NULL && out->reached != NULL && out->used != NULL)
        return true;
    sw_prefixes_free(out);
    return false;
}

void sw_prefixes_free(struct sw_prefixes *p)
{
    free(p->tokens);
    free(p->standing);
    free(p->prompt);
    free(p->chunked);
    free(p->reached);
    free(p->used);
    *p = (struct sw_prefixes){0};
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* `found`, or 0 if a position that the next one sees was overwritten. */
static int64_t still_seen(const struct sw_prefixes *p, int64_t slot, int64_t found)
{
    const int64_t passed = found - p->window + 1, first = passed > 0 ? passed : 0;
    return p->ring == 0 || first + p->ring >= p->reached[slot] ? found : 0;
}

int64_t sw_prefixes_found(const struct sw_prefixes *p, int64_t slot, const int32_t *tokens,
                          int64_t count, int64_t chunked)
{
    const int32_t *have = p->tokens + slot * p->capacity;
    const int64_t most = p->standing[slot] < count - 1 ? p->standing[slot] : count - 1;
    int64_t same = 0;
    while (same < most && have[same] == tokens[same])
        same++;
    if (same >= chunked && chunked == p->chunked[slot])
        return still_seen(p, slot, same);
    same = least(same, least(chunked, p->chunked[slot]));
    return still_seen(p, slot, same - same % p->chunk);
}

bool sw_prefixes_pays(const struct sw_prefixes *p, int64_t slot, int64_t found)
{
    return found > 0 && 2 * found >= p->prompt[slot];
}

void sw_prefixes_take(struct sw_prefixes *p, int64_t slot, const int32_t *tokens, int64_t count,
                      int64_t chunked, int64_t kept)
{
    memcpy(p->tokens + slot * p->capacity, tokens, (size_t)count * sizeof *tokens);
    p->standing[slot] = p->prompt[slot] = kept;
    p->chunked[slot] = chunked;
    p->reached[slot] = kept > 0 ? p->reached[slot] : 0;
    p->used[slot] = ++p->uses;
}

void sw_prefixes_made(struct sw_prefixes *p, int64_t slot, int64_t made)
{
    p->standing[slot] = made;
    sw_prefixes_wrote(p, slot, made);
    p->prompt[slot] = made > p->chunked[slot] ? made : made - made % p->chunk;
}

void sw_prefixes_wrote(struct sw_prefixes *p, int64_t slot, int64_t positions)
{
    if (positions > p->reached[slot])
        p->reached[slot] = positions;
}

void sw_prefixes_add(struct sw_prefixes *p, int64_t slot, int64_t at, int32_t token)
{
    if (p->standing[slot] != at)
        return;
    p->tokens[slot * p->capacity + at] = token;
    p->standing[slot] = at + 1;
}
