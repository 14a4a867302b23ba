/* A region's ops while they are moved about, and the ops that name a value. */
#include "core/passes/schedule_internal.h"

#include <string.h>

static uint64_t named_by(const struct sw_value *values, const struct sw_ref *refs, uint16_t count)
{
    uint64_t bits = 0;
    for (uint16_t i = 0; i < count; i++) {
        const int32_t alias = values[refs[i].value].alias;
        bits |= UINT64_C(1) << (refs[i].value & 63);
        bits |= alias >= 0 ? UINT64_C(1) << (alias & 63) : 0;
    }
    return bits;
}

void sw_schedule_name(struct list *list, int32_t at)
{
    const struct sw_op *op = list->ops[at];
    list->named[at] = (struct named){named_by(list->values, op->in, op->n_in),
                                     named_by(list->values, op->out, op->n_out)};
}

void sw_schedule_insert(struct list *list, int32_t at, struct sw_op *op)
{
    const size_t behind = (size_t)(list->count - at);
    memmove(&list->ops[at + 1], &list->ops[at], behind * sizeof *list->ops);
    memmove(&list->named[at + 1], &list->named[at], behind * sizeof *list->named);
    list->ops[at] = op;
    list->count++;
    sw_schedule_name(list, at);
}

void sw_schedule_erase(struct list *list, int32_t at)
{
    const size_t behind = (size_t)(--list->count - at);
    memmove(&list->ops[at], &list->ops[at + 1], behind * sizeof *list->ops);
    memmove(&list->named[at], &list->named[at + 1], behind * sizeof *list->named);
}

void sw_schedule_move(struct list *list, int32_t from, int32_t to)
{
    struct sw_op *op = list->ops[from];
    const struct named named = list->named[from];
    const int32_t at = to - (to > from);
    const int32_t into = at < from ? at + 1 : from, out_of = at < from ? at : from + 1;
    const size_t between = (size_t)(at < from ? from - at : at - from);
    memmove(&list->ops[into], &list->ops[out_of], between * sizeof *list->ops);
    memmove(&list->named[into], &list->named[out_of], between * sizeof *list->named);
    list->ops[at] = op;
    list->named[at] = named;
}

bool sw_schedule_touches(const struct sw_program *p, const struct sw_op *op, int32_t value)
{
    const int32_t stored = sw_schedule_storage(p, value);
    return sw_schedule_names(p->values, op->in, op->n_in, stored) ||
           sw_schedule_names(p->values, op->out, op->n_out, stored);
}

/* In only_in: no region, or several, name that storage; else the number of the one region. */
enum { IN_NONE = -1, IN_SEVERAL = -2 };

/* Returns a bit for each storage that the refs name, as in struct named. */
static uint64_t note_region(struct schedule *s, const struct sw_ref *refs, uint16_t count,
                            int32_t r)
{
    uint64_t bits = 0;
    for (uint16_t k = 0; k < count; k++) {
        const int32_t value = refs[k].value, stored = sw_schedule_storage(s->p, value);
        int32_t *in = &s->only_in[stored];
        *in = *in == IN_NONE || *in == r ? r : IN_SEVERAL;
        bits |= UINT64_C(1) << (value & 63) | UINT64_C(1) << (stored & 63);
    }
    return bits;
}

void sw_schedule_find_regions(struct schedule *s)
{
    const struct sw_program *p = s->p;
    for (int32_t v = 0; v < p->value_count; v++)
        s->only_in[v] = IN_NONE;
    for (int32_t r = 0; r < p->region_count; r++) {
        const int32_t first = p->regions[r].first_op, end = first + p->regions[r].op_count;
        for (int32_t i = first; i < end; i++) {
            const struct sw_op *op = &p->ops[i];
            s->named[i] = (struct named){note_region(s, op->in, op->n_in, r),
                                         note_region(s, op->out, op->n_out, r)};
        }
    }
}

bool sw_schedule_only_between(const struct schedule *s, int32_t value, int32_t a, int32_t b)
{
    const int32_t end = s->list.count;
    for (int32_t i = sw_schedule_next(s, TOUCHES, value, 0, end); i < end;
         i = sw_schedule_next(s, TOUCHES, value, i + 1, end))
        if (i != a && i != b)
            return false;
    const int32_t only = s->only_in[sw_schedule_storage(s->p, value)];
    return only == IN_NONE || only == (int32_t)(s->region - s->p->regions);
}
