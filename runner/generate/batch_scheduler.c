#include "runner/generate/batch_scheduler.h"

#include <stdlib.h>

bool sw_batch_scheduler_create(int64_t slots, int64_t shards, struct sw_batch_scheduler *out)
{
    *out = (struct sw_batch_scheduler){.slots = slots,
                                       .shards = shards,
                                       .of = calloc((size_t)slots, sizeof *out->of),
                                       .last = SW_PROGRAM_KINDS};
    for (int64_t i = 0; out->of != NULL && i < slots; i++)
        out->of[i].waits = SW_PROGRAM_KINDS;
    return out->of != NULL;
}

void sw_batch_scheduler_free(struct sw_batch_scheduler *t)
{
    free(t->of);
    *t = (struct sw_batch_scheduler){0};
}

void sw_batch_scheduler_begin(struct sw_batch_scheduler *t, int64_t slot, enum sw_program_kind kind,
                              bool ahead)
{
    t->of[slot] = (struct sw_scheduled_slot){kind, ahead, t->arrivals++};
}

void sw_batch_scheduler_goes_on(struct sw_batch_scheduler *t, int64_t slot)
{
    t->of[slot].waits = SW_PROGRAM_READ;
}

void sw_batch_scheduler_is_read(struct sw_batch_scheduler *t, int64_t slot)
{
    t->of[slot].waits = SW_PROGRAM_DECODE;
}

void sw_batch_scheduler_end(struct sw_batch_scheduler *t, int64_t slot)
{
    t->of[slot].waits = SW_PROGRAM_KINDS;
}

bool sw_batch_scheduler_is_busy(const struct sw_batch_scheduler *t, int64_t slot)
{
    return t->of[slot].waits != SW_PROGRAM_KINDS;
}

bool sw_batch_scheduler_reads(const struct sw_batch_scheduler *t, int64_t slot)
{
    return sw_batch_scheduler_is_busy(t, slot) && t->of[slot].waits != SW_PROGRAM_DECODE;
}

bool sw_batch_scheduler_any_waits(const struct sw_batch_scheduler *t, enum sw_program_kind kind)
{
    for (int64_t i = 0; i < t->slots; i++)
        if (t->of[i].waits == kind)
            return true;
    return false;
}

static bool is_before(const struct sw_batch_scheduler *t, int64_t slot, int64_t other)
{
    const struct sw_scheduled_slot *a = &t->of[slot], *b = &t->of[other];
    return a->ahead != b->ahead ? a->ahead != t->others_first : a->arrival < b->arrival;
}

/* First of all waiting prompts; -1: none. */
static int64_t first_prompt(const struct sw_batch_scheduler *t)
{
    int64_t best = -1;
    for (int64_t i = 0; i < t->slots; i++)
        if (sw_batch_scheduler_reads(t, i) && (best < 0 || is_before(t, i, best)))
            best = i;
    return best;
}

/* True if calls for prompts also give running sequences their next tokens. */
static bool gives_tokens(const struct sw_batch_scheduler *t, enum sw_program_kind kind)
{
    return kind == SW_PROGRAM_READ || (t->mixes && kind == SW_PROGRAM_PREFILL);
}

enum sw_program_kind sw_batch_scheduler_next(const struct sw_batch_scheduler *t)
{
    const int64_t first = first_prompt(t);
    if (sw_batch_scheduler_any_waits(t, SW_PROGRAM_DECODE) &&
        (first < 0 || t->last != SW_PROGRAM_DECODE))
        return SW_PROGRAM_DECODE;
    return first >= 0 ? t->of[first].waits : SW_PROGRAM_KINDS;
}

enum sw_program_kind sw_batch_scheduler_next_of_many(const struct sw_batch_scheduler *t)
{
    static const enum sw_program_kind kinds[] = {SW_PROGRAM_PREFILL, SW_PROGRAM_READ,
                                                 SW_PROGRAM_SCORE, SW_PROGRAM_DECODE};
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
        if (sw_batch_scheduler_any_waits(t, kinds[k]))
            return kinds[k];
    return SW_PROGRAM_KINDS;
}

int64_t sw_batch_scheduler_first(const struct sw_batch_scheduler *t, enum sw_program_kind kind,
                                 int64_t shard, int64_t behind)
{
    const int64_t each = t->slots / t->shards;
    int64_t best = -1;
    for (int64_t i = shard * each; i < (shard + 1) * each; i++)
        if (t->of[i].waits == kind && (behind < 0 || is_before(t, behind, i)) &&
            (best < 0 || is_before(t, i, best)))
            best = i;
    return best;
}

void sw_batch_scheduler_run(struct sw_batch_scheduler *t, enum sw_program_kind kind)
{
    const int64_t first = first_prompt(t);
    bool others = false;
    for (int64_t i = 0; i < t->slots; i++)
        others |= sw_batch_scheduler_reads(t, i) && !t->of[i].ahead;
    if (kind != SW_PROGRAM_DECODE && first >= 0)
        t->others_first = others && t->of[first].ahead;
    t->last = gives_tokens(t, kind) ? SW_PROGRAM_DECODE : kind;
}
