/* Shared by the files of schedule: a region's ops while they are moved about, and the ops that name
 * a value. Included only in core/passes/schedule*.c. */
#ifndef SW_SCHEDULE_INTERNAL_H
#define SW_SCHEDULE_INTERNAL_H

#include "core/passes/passes.h"

/* Storages that an op names, one bit for all whose numbers are equal modulo 64: a quick test that
 * mostly says no. */
struct named {
    uint64_t in, out;
};

/* One region's ops while they are moved about: pointers, so that moving is cheap. */
struct list {
    struct sw_op **ops;  /* [count] into the old program's ops and the waits */
    struct named *named; /* [count]: storages named by each */
    int32_t count;
    const struct sw_value *values;
};

struct schedule {
    struct sw_program *p;
    struct list list;
    struct sw_op *waits;
    int32_t wait_count;
    const struct sw_region *region;
    struct early *early; /* [early_count] */
    int32_t early_count;
    int32_t *only_in;    /* [value_count]: sw_schedule_find_regions */
    struct named *named; /* [op_count]: storages named by the program's ops before they are moved */
    bool failed;         /* true once out of memory */
};

static inline bool sw_schedule_is_collective(const struct sw_op *op, enum sw_collective kind)
{
    return sw_op_is_collective(op->kind) && sw_op_collective(op->kind) == kind;
}

/* ---- Parameters one layer ahead (schedule_prefetch.c) ---- */

/* Lets the layers of a period gather a parameter into one buffer, one after another. */
void sw_schedule_share_gathers(struct sw_program *program, const struct sw_region *region);
/* Moves gathers of parameters, with the cast or slice before them, one layer ahead, behind the last
 * use of the current layer's: they share its buffer, so prefetching costs no memory. */
void sw_schedule_prefetch(struct schedule *schedule);

/* ---- The list ---- */

/* The list has room for every op and one wait for each. */
void sw_schedule_insert(struct list *list, int32_t at, struct sw_op *op);
void sw_schedule_erase(struct list *list, int32_t at);
/* Moves the op at `from` to before the op that is at `to` now. */
void sw_schedule_move(struct list *list, int32_t from, int32_t to);
/* Must follow every change of an op's operands or results. */
void sw_schedule_name(struct list *list, int32_t at);

/* ---- Ops that name a value: itself, or its storage ---- */

/* Ways in which an op names a storage. */
enum naming { READS = 1, WRITES = 2, TOUCHES = READS | WRITES };

static inline int32_t sw_schedule_storage(const struct sw_program *p, int32_t value)
{
    return p->values[value].alias >= 0 ? p->values[value].alias : value;
}

/* True if one of the refs names that storage. */
static inline bool sw_schedule_names(const struct sw_value *values, const struct sw_ref *refs,
                                     uint16_t count, int32_t stored)
{
    for (uint16_t i = 0; i < count; i++)
        if (refs[i].value == stored || values[refs[i].value].alias == stored)
            return true;
    return false;
}

/* For any op, of the list or not. */
bool sw_schedule_touches(const struct sw_program *p, const struct sw_op *op, int32_t value);

/* Storages that an op may name in that way. */
static inline uint64_t sw_schedule_may_name(const struct named *named, enum naming how)
{
    return (how & READS ? named->in : 0) | (how & WRITES ? named->out : 0);
}

/* True if op i, which may name that storage, does. */
static inline bool sw_schedule_names_at(const struct schedule *s, enum naming how, int32_t stored,
                                        int32_t i)
{
    const struct sw_op *op = s->list.ops[i];
    return (how & READS && sw_schedule_names(s->p->values, op->in, op->n_in, stored)) ||
           (how & WRITES && sw_schedule_names(s->p->values, op->out, op->n_out, stored));
}

/* The first op of the list from `from` on, before `end`, that names the value's storage in that
 * way; `end`: none. The innermost loop of this pass. */
static inline int32_t sw_schedule_next(const struct schedule *s, enum naming how, int32_t value,
                                       int32_t from, int32_t end)
{
    const int32_t stored = sw_schedule_storage(s->p, value);
    const uint64_t bit = UINT64_C(1) << (stored & 63);
    for (; from < end; from++)
        if ((sw_schedule_may_name(&s->list.named[from], how) & bit) != 0 &&
            sw_schedule_names_at(s, how, stored, from))
            return from;
    return end;
}

/* The last op before `end` that names the value's storage in that way; -1: none. */
static inline int32_t sw_schedule_last(const struct schedule *s, enum naming how, int32_t value,
                                       int32_t end)
{
    const int32_t stored = sw_schedule_storage(s->p, value);
    const uint64_t bit = UINT64_C(1) << (stored & 63);
    while (--end >= 0)
        if ((sw_schedule_may_name(&s->list.named[end], how) & bit) != 0 &&
            sw_schedule_names_at(s, how, stored, end))
            return end;
    return -1;
}

/* True if op i names it in that way. */
static inline bool sw_schedule_is(const struct schedule *s, enum naming how, int32_t value,
                                  int32_t i)
{
    return sw_schedule_next(s, how, value, i, i + 1) == i;
}

/* Finds, for each storage, the one region that names it. Scheduling never makes an op name a
 * storage that was not named in its region before. */
void sw_schedule_find_regions(struct schedule *s);
/* True if these two ops of the region, and nothing in another region, touch the value. */
bool sw_schedule_only_between(const struct schedule *s, int32_t value, int32_t a, int32_t b);

#endif
