/* How much is made again: levels from nothing to everything, value by value and, of each value,
 * layer by layer, those first that free most bytes for least time. Bytes and times of one layer are
 * read off a program in which everything is made again; they order the levels and say where to
 * look. What fits, and how long it takes, only the level's own program says. */
#include "planner/search/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TRIES = 10, NOBODY = -1 };

/* What is known of the values of one program, by the logical value that each is a version of. */
struct reading {
    const struct sw_program *p;
    const struct sw_run_config *run;
    const struct sw_region *region; /* backward through a layer */
    bool *again;                    /* [value_count]: made again */
    bool *counted;                  /* [value_count]: its bytes are in a unit */
    int32_t *owner;                 /* [value_count]: the unit that it is made for, or NOBODY */
    struct sw_unit unit[SW_LAYER_VALUES];
    int32_t of_name[SW_LAYER_VALUES]; /* the unit of a value that backward itself reads */
    int32_t count;
};

/* Which of a layer's values a value made again ("r n1") is; -1: one without a name. */
static int32_t name_of(const struct reading *r, int32_t base)
{
    const char *name = r->p->values[base].name;
    return name[0] == 'r' && name[1] == ' ' ? sw_layer_value_find(name + 2) : -1;
}

static const struct sw_op *writer_in_region(const struct reading *r, int32_t value)
{
    for (int32_t i = r->region->first_op; i < r->region->first_op + r->region->op_count; i++)
        for (uint16_t k = 0; k < r->p->ops[i].n_out; k++)
            if (r->p->ops[i].out[k].value == value)
                return &r->p->ops[i];
    return NULL;
}

static bool is_gather(const struct sw_op *op)
{
    return op != NULL && sw_op_is_collective(op->kind) &&
           sw_op_collective(op->kind) == SW_ALL_GATHER;
}

/* Backward reads it: kept, it would take these bytes. What was gathered is kept as it was before. */
static void count_read(struct reading *r, int32_t value)
{
    const struct sw_op *made = writer_in_region(r, value);
    while (is_gather(made)) {
        value = made->in[0].value;
        made = writer_in_region(r, value);
    }
    const struct sw_value *v = &r->p->values[value];
    const int32_t stored = v->alias >= 0 ? v->alias : value;
    const int32_t name = r->again[v->base] ? name_of(r, v->base) : -1;
    if (name < 0 || r->counted[stored])
        return;
    r->counted[stored] = true;
    if (r->of_name[name] == NOBODY) {
        r->of_name[name] = r->count;
        r->unit[r->count++] = (struct sw_unit){.values = UINT32_C(1) << name};
    }
    r->unit[r->of_name[name]].bytes += (double)v->slot_bytes;
}

/* Two values that one op makes are one unit. */
static void join(struct reading *r, int32_t into, int32_t name)
{
    const int32_t from = r->of_name[name];
    if (from == NOBODY || from == into)
        return;
    r->unit[into].values |= r->unit[from].values;
    r->unit[into].bytes += r->unit[from].bytes;
    r->unit[from] = (struct sw_unit){0};
    for (int32_t i = 0; i < SW_LAYER_VALUES; i++)
        r->of_name[i] = r->of_name[i] == from ? into : r->of_name[i];
}

/* The unit that an op makes something of, on behalf of what comes behind it. */
static int32_t unit_of(struct reading *r, const struct sw_op *op)
{
    int32_t unit = NOBODY;
    for (uint16_t k = 0; k < op->n_out; k++) {
        const int32_t base = r->p->values[op->out[k].value].base;
        if (!r->again[base])
            continue;
        const int32_t name = name_of(r, base);
        const int32_t mine = name >= 0 && r->of_name[name] != NOBODY ? r->of_name[name]
                                                                     : r->owner[base];
        if (unit != NOBODY && name >= 0)
            join(r, unit, name);
        unit = unit == NOBODY ? mine : unit;
    }
    return unit;
}

/* Last op first, so that what an op is made for is known when it comes. */
static void count_made(struct reading *r, const struct sw_op *op)
{
    const int32_t unit = sw_op_is_wait(op->kind) ? NOBODY : unit_of(r, op);
    if (unit == NOBODY)
        return;
    if (!is_gather(op)) /* which backward would do as well */
        r->unit[unit].seconds += sw_cost_op_seconds(r->p, op, r->run);
    for (uint16_t k = 0; k < op->n_out; k++) {
        const int32_t name = name_of(r, r->p->values[op->out[k].value].base);
        if (name >= 0)
            r->unit[unit].values |= UINT32_C(1) << name;
    }
    for (uint16_t k = 0; k < op->n_in; k++) {
        const int32_t base = r->p->values[op->in[k].value].base;
        const int32_t name = r->again[base] ? name_of(r, base) : -1;
        if (r->again[base] && (name < 0 || r->of_name[name] == NOBODY))
            r->owner[base] = unit;
    }
}

static int by_price(const void *a, const void *b)
{
    const struct sw_unit *x = a, *y = b;
    const double mine = x->seconds * y->bytes, theirs = y->seconds * x->bytes;
    if (mine != theirs)
        return mine < theirs ? -1 : 1;
    return (x->values > y->values) - (x->values < y->values);
}

static void read_units(struct reading *r, struct sw_levels *out)
{
    const int32_t first = r->region->first_op, end = first + r->region->op_count;
    for (int32_t v = 0; v < r->p->value_count; v++)
        r->owner[v] = NOBODY;
    for (int32_t i = 0; i < SW_LAYER_VALUES; i++)
        r->of_name[i] = NOBODY;
    for (int32_t i = first; i < end; i++)
        for (uint16_t k = 0; k < r->p->ops[i].n_out; k++)
            if (r->p->ops[i].stage == SW_STAGE_RECOMPUTE)
                r->again[r->p->ops[i].out[k].value] = true;
    /* what a sum over ranks replaced stands for its base */
    for (int32_t v = 0; v < r->p->value_count; v++)
        r->again[r->p->values[v].base] |= r->again[v];
    for (int32_t i = first; i < end; i++)
        for (uint16_t k = 0; r->p->ops[i].stage == SW_STAGE_BACKWARD && k < r->p->ops[i].n_in; k++)
            count_read(r, r->p->ops[i].in[k].value);
    for (int32_t i = end; i-- > first;)
        if (r->p->ops[i].stage == SW_STAGE_RECOMPUTE || r->p->ops[i].stage == SW_STAGE_RESHARD)
            count_made(r, &r->p->ops[i]);
    for (int32_t i = 0; i < r->count; i++)
        if (r->unit[i].values != 0)
            out->unit[out->count++] = r->unit[i];
    qsort(out->unit, (size_t)out->count, sizeof *out->unit, by_price);
}

int sw_levels_find(const struct sw_program *full, const struct sw_run_config *run,
                   struct sw_levels *out, struct sw_error *err)
{
    struct reading r = {.p = full, .run = run};
    const size_t values = (size_t)full->value_count + 1;
    *out = (struct sw_levels){.layers = full->layers};
    for (int32_t i = 0; i < full->region_count && r.region == NULL; i++)
        if (full->regions[i].phase == SW_PHASE_BACKWARD && full->regions[i].carry >= 0)
            r.region = &full->regions[i];
    if (r.region == NULL)
        return 0;
    r.again = calloc(values, sizeof *r.again);
    r.counted = calloc(values, sizeof *r.counted);
    r.owner = malloc(values * sizeof *r.owner);
    const bool failed = r.again == NULL || r.counted == NULL || r.owner == NULL;
    if (!failed)
        read_units(&r, out);
    free(r.again);
    free(r.counted);
    free(r.owner);
    return failed ? sw_fail(err, SW_ENVIRONMENT, "out of memory while searching") : 0;
}

int32_t sw_levels_last(const struct sw_levels *levels)
{
    return levels->count * levels->layers;
}

struct sw_recompute sw_level_recompute(const struct sw_levels *levels, int32_t level)
{
    const int32_t whole = level / levels->layers, layers = level % levels->layers;
    uint32_t rest = 0;
    if (level >= sw_levels_last(levels))
        return sw_recompute_full();
    for (int32_t i = 0; i < whole; i++)
        rest |= levels->unit[i].values;
    const struct sw_recompute chosen = {rest | levels->unit[whole].values, layers, rest};
    return sw_recompute_normal(chosen, levels->layers);
}

double sw_level_bytes(const struct sw_levels *levels, int32_t level)
{
    double bytes = 0;
    for (int32_t i = 0; i < levels->count; i++) {
        const int32_t again = level - i * levels->layers;
        bytes += levels->unit[i].bytes *
                 (levels->layers - (again < 0                ? 0
                                    : again > levels->layers ? levels->layers
                                                             : again));
    }
    return bytes;
}

double sw_level_seconds(const struct sw_levels *levels, int32_t level)
{
    double seconds = 0;
    for (int32_t i = 0; i < levels->count && level > 0; i++, level -= levels->layers)
        seconds += levels->unit[i].seconds * (level < levels->layers ? level : levels->layers);
    return seconds;
}

int32_t sw_level_keeping(const struct sw_levels *levels, double bytes)
{
    int32_t level = sw_levels_last(levels);
    for (int32_t i = levels->count; i-- > 0; level -= levels->layers) {
        const double all = levels->unit[i].bytes * levels->layers;
        if (bytes < all)
            return bytes <= 0 ? level : level - (int32_t)floor(bytes / levels->unit[i].bytes);
        bytes -= all;
    }
    return level;
}

/* ---- The level that just fits ---- */

/* Levels known to fit and not to. */
struct bounds {
    int32_t fits, fails;
};

/* One level's memory; its price where it fits. */
static int try_level(struct sw_searcher *s, const struct sw_decision *decision, int64_t limit,
                     struct sw_sized *sized, int64_t *total, struct sw_error *err)
{
    struct sw_candidate c;
    if (sw_searcher_size(s, decision, sized, err) != 0)
        return -1;
    *total = sized->least_bytes;
    if (sized->program == NULL || *total > limit)
        return 0;
    if (sw_searcher_measure(s, sized, &c, err) != 0)
        return -1;
    *total = c.memory.total;
    return 0;
}

/* The level to try after one that takes so much: within what is known. */
static int32_t next_level(const struct sw_levels *levels, double times, int32_t level,
                          int64_t total, int64_t limit, const struct bounds *known)
{
    const double kept = sw_level_bytes(levels, level) + (double)(limit - total) / times;
    const int32_t next = sw_level_keeping(levels, kept);
    if (total > limit) { /* more has to be made again */
        const int32_t more = next > level ? next : level + 1;
        return known->fits >= 0 && more >= known->fits ? known->fits - 1 : more;
    }
    const int32_t fewer = next < level ? next : level;
    return fewer <= known->fails ? known->fails + 1 : fewer;
}

int sw_searcher_fit(struct sw_searcher *s, const struct sw_decision *base,
                    const struct sw_levels *levels, double times, int32_t level, int64_t limit,
                    struct sw_candidate *out, struct sw_error *err)
{
    const int32_t last = sw_levels_last(levels);
    struct bounds known = {.fits = -1, .fails = -1};
    struct sw_decision decision = *base;
    struct sw_sized sized;
    int64_t total = 0;
    out->reason = SW_REJECT_MEMORY;
    for (int32_t tries = 0; tries < MAX_TRIES; tries++) {
        level = level > last ? last : level < 0 ? 0 : level;
        decision.recompute = sw_level_recompute(levels, level);
        if (try_level(s, &decision, limit, &sized, &total, err) != 0)
            return -1;
        if (sized.program == NULL)
            return 0;
        *(total > limit ? &known.fails : &known.fits) = level;
        if (known.fails >= last || known.fits == known.fails + 1)
            break;
        const int32_t next = next_level(levels, times, level, total, limit, &known);
        if (next == level)
            break; /* what is left is less than one value of one layer */
        level = next;
    }
    if (known.fits < 0)
        return 0;
    decision.recompute = sw_level_recompute(levels, known.fits);
    if (sw_searcher_size(s, &decision, &sized, err) != 0)
        return -1;
    return sw_searcher_price(s, &sized, false, out, err);
}
