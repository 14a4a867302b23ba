/* Levels of recomputation, from nothing to everything, value by value and, for each value, layer by
 * layer, in the order of most bytes freed for least time. Bytes and times of one layer come from a
 * program with full recomputation; they order the levels and guide the search. Only a level's own
 * program tells if it fits and how long it takes. */
#include "planner/search/internal.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NOBODY = -1 };

/* State of reading one program's values, by the logical value of each version. */
struct reading {
    const struct sw_program *p;
    const struct sw_region *region;   /* backward region of the layers */
    bool *again;                      /* [value_count]: true if recomputed */
    bool *counted;                    /* [value_count]: true once a unit has its bytes */
    int32_t *owner;                   /* [value_count]: unit that it is recomputed for, or NOBODY */
    int32_t *writer;                  /* [value_count]: writing op in the region, or -1 */
    int32_t of_name[SW_LAYER_VALUES]; /* unit of each value that backward itself reads */
    struct sw_units *out;
};

static bool is_gather(const struct sw_op *op)
{
    return sw_op_is_collective(op->kind) && sw_op_collective(op->kind) == SW_ALL_GATHER;
}

/* Index of the layer's value that is recomputed as that one, -1: none. */
static int32_t name_of(const struct reading *r, int32_t base)
{
    return r->again[base] ? r->p->values[base].ordinal : -1;
}

/* Counts the bytes of a value that backward reads, if it were kept. A gathered value is kept as
 * before its gather. */
static void count_read(struct reading *r, int32_t value)
{
    struct sw_units *out = r->out;
    while (r->writer[value] >= 0 && is_gather(&r->p->ops[r->writer[value]]))
        value = r->p->ops[r->writer[value]].in[0].value;
    const struct sw_value *v = &r->p->values[value];
    const int32_t stored = v->alias >= 0 ? v->alias : value, name = name_of(r, v->base);
    if (name < 0 || r->counted[stored])
        return;
    r->counted[stored] = true;
    if (r->of_name[name] == NOBODY) {
        r->of_name[name] = out->count;
        sw_layer_values_add(&out->values[out->count++], name);
    }
    out->kept[out->kept_count++] = (struct sw_unit_part){value, r->of_name[name]};
}

/* Merges two values made by one op into one unit. */
static void join(struct reading *r, int32_t into, int32_t name)
{
    struct sw_units *out = r->out;
    const int32_t from = r->of_name[name];
    if (from == NOBODY || from == into)
        return;
    out->values[into] = sw_layer_values_join(out->values[into], out->values[from]);
    out->values[from] = (struct sw_layer_values){0};
    for (int32_t i = 0; i < out->kept_count; i++)
        out->kept[i].unit = out->kept[i].unit == from ? into : out->kept[i].unit;
    for (int32_t i = 0; i < out->made_count; i++)
        out->made[i].unit = out->made[i].unit == from ? into : out->made[i].unit;
    for (int32_t i = 0; i < SW_LAYER_VALUES; i++)
        r->of_name[i] = r->of_name[i] == from ? into : r->of_name[i];
}

/* The unit for which an op recomputes, by its readers. */
static int32_t unit_of(struct reading *r, const struct sw_op *op)
{
    int32_t unit = NOBODY;
    for (uint16_t k = 0; k < op->n_out; k++) {
        const int32_t base = r->p->values[op->out[k].value].base;
        const int32_t name = name_of(r, base);
        if (!r->again[base])
            continue;
        if (unit != NOBODY && name >= 0)
            join(r, unit, name);
        if (unit == NOBODY)
            unit = name >= 0 && r->of_name[name] != NOBODY ? r->of_name[name] : r->owner[base];
    }
    return unit;
}

/* Goes backwards, so that an op's unit is known before the op. */
static void count_made(struct reading *r, int32_t index)
{
    const struct sw_op *op = &r->p->ops[index];
    const int32_t unit = sw_op_is_wait(op->kind) ? NOBODY : unit_of(r, op);
    if (unit == NOBODY)
        return;
    if (!is_gather(op)) /* backward would gather as well */
        r->out->made[r->out->made_count++] = (struct sw_unit_part){index, unit};
    for (uint16_t k = 0; k < op->n_out; k++) {
        const int32_t name = name_of(r, r->p->values[op->out[k].value].base);
        if (name >= 0)
            sw_layer_values_add(&r->out->values[unit], name);
    }
    for (uint16_t k = 0; k < op->n_in; k++) {
        const int32_t base = r->p->values[op->in[k].value].base, name = name_of(r, base);
        if (r->again[base] && (name < 0 || r->of_name[name] == NOBODY))
            r->owner[base] = unit;
    }
}

static void find_made_again(struct reading *r)
{
    const int32_t first = r->region->first_op, end = first + r->region->op_count;
    for (int32_t v = 0; v < r->p->value_count; v++) {
        r->owner[v] = NOBODY;
        r->writer[v] = -1;
    }
    for (int32_t i = first; i < end; i++)
        for (uint16_t k = 0; k < r->p->ops[i].n_out; k++) {
            const int32_t v = r->p->ops[i].out[k].value;
            r->writer[v] = i;
            if (r->p->ops[i].stage == SW_STAGE_RECOMPUTE)
                r->again[r->p->values[v].base] = true;
        }
}

static void read_units(struct reading *r)
{
    const int32_t first = r->region->first_op, end = first + r->region->op_count;
    find_made_again(r);
    for (int32_t i = 0; i < SW_LAYER_VALUES; i++)
        r->of_name[i] = NOBODY;
    for (int32_t i = first; i < end; i++)
        for (uint16_t k = 0; r->p->ops[i].stage == SW_STAGE_BACKWARD && k < r->p->ops[i].n_in; k++)
            count_read(r, r->p->ops[i].in[k].value);
    for (int32_t i = end; i-- > first;)
        if (r->p->ops[i].stage == SW_STAGE_RECOMPUTE || r->p->ops[i].stage == SW_STAGE_RESHARD)
            count_made(r, i);
}

/* Class of a unit's cost for a byte: first moves of memory, last attention, whose cost grows with
 * the sequence; others are separated by factors of four. */
static int price_class(const struct sw_unit *unit)
{
    if (unit->attends)
        return INT_MAX;
    return unit->moves ? INT_MIN : ilogb(unit->seconds / unit->bytes) / 2;
}

/* Sorts the cheapest class first; inside a class in the layer's order, for any sizes, so that a
 * search meets few sets. */
static int by_price(const void *a, const void *b)
{
    const struct sw_unit *x = a, *y = b;
    const int mine = price_class(x), theirs = price_class(y);
    if (mine != theirs)
        return mine < theirs ? -1 : 1;
    return sw_layer_values_compare(x->values, y->values);
}

/* Merges small units of equal cost, up to the size of the largest: fewer sets to try, with no
 * coarser steps. */
static void gather_small(struct sw_levels *levels)
{
    double largest = 0;
    int32_t count = 0;
    for (int32_t i = 0; i < levels->count; i++)
        largest = levels->unit[i].bytes > largest ? levels->unit[i].bytes : largest;
    for (int32_t i = 0; i < levels->count; i++) {
        struct sw_unit *into = &levels->unit[count > 0 ? count - 1 : 0];
        const struct sw_unit unit = levels->unit[i];
        if (count > 0 && price_class(into) == price_class(&unit) &&
            into->bytes + unit.bytes <= largest) {
            into->values = sw_layer_values_join(into->values, unit.values);
            into->bytes += unit.bytes;
            into->seconds += unit.seconds;
            into->attends |= unit.attends;
        } else {
            levels->unit[count++] = unit;
        }
    }
    levels->count = count;
}

int sw_units_read(const struct sw_program *full, struct sw_units *out, struct sw_error *err)
{
    struct reading r = {.p = full, .out = out};
    const size_t values = (size_t)full->value_count + 1, ops = (size_t)full->op_count + 1;
    *out = (struct sw_units){.known = true};
    for (int32_t i = 0; i < full->region_count && r.region == NULL; i++)
        if (full->regions[i].phase == SW_PHASE_BACKWARD && full->regions[i].carry >= 0)
            r.region = &full->regions[i];
    if (r.region == NULL)
        return 0;
    r.again = calloc(values, sizeof *r.again);
    r.counted = calloc(values, sizeof *r.counted);
    r.owner = malloc(values * sizeof *r.owner);
    r.writer = malloc(values * sizeof *r.writer);
    out->kept = malloc(values * sizeof *out->kept);
    out->made = malloc(ops * sizeof *out->made);
    const bool failed = r.again == NULL || r.counted == NULL || r.owner == NULL ||
                        r.writer == NULL || out->kept == NULL || out->made == NULL;
    if (!failed)
        read_units(&r);
    free(r.again);
    free(r.counted);
    free(r.owner);
    free(r.writer);
    return failed ? sw_fail(err, SW_ENVIRONMENT, "out of memory while searching") : 0;
}

void sw_units_free(struct sw_units *units)
{
    free(units->kept);
    free(units->made);
    *units = (struct sw_units){0};
}

void sw_levels_find_each(const struct sw_units *units, const struct sw_program *p,
                         const struct sw_run_config *run, const double *seconds,
                         struct sw_levels *out)
{
    struct sw_unit unit[SW_LAYER_VALUES] = {0};
    for (int32_t i = 0; i < units->count; i++)
        unit[i].moves = true;
    *out = (struct sw_levels){.layers = p->layers};
    for (int32_t i = 0; i < units->kept_count; i++)
        unit[units->kept[i].unit].bytes += (double)p->values[units->kept[i].at].slot_bytes;
    for (int32_t i = 0; i < units->made_count; i++) {
        const int32_t op = units->made[i].at;
        unit[units->made[i].unit].attends |= p->ops[op].kind == SW_OP_ATTENTION;
        unit[units->made[i].unit].moves &=
            sw_op_info(p->ops[op].kind)->cost_class == SW_CLASS_MEMORY;
        unit[units->made[i].unit].seconds +=
            sw_op_is_collective(p->ops[op].kind)
                ? sw_cost_op_seconds(p, &p->ops[op], &run->cluster, NULL)
                : seconds[op];
    }
    for (int32_t i = 0; i < units->count; i++)
        if (!sw_layer_values_empty(units->values[i])) {
            unit[i].values = units->values[i];
            out->unit[out->count++] = unit[i];
        }
    qsort(out->unit, (size_t)out->count, sizeof *out->unit, by_price);
}

void sw_levels_find(const struct sw_units *units, const struct sw_program *p,
                    const struct sw_run_config *run, const double *seconds, struct sw_levels *out)
{
    sw_levels_find_each(units, p, run, seconds, out);
    gather_small(out);
}

int sw_sized_levels(const struct sw_sized *full, const struct sw_run_config *run,
                    struct sw_levels *out, struct sw_error *err)
{
    if (!full->units->known && sw_units_read(full->program, full->units, err) != 0)
        return -1;
    sw_levels_find(full->units, full->program, run, full->counted->seconds, out);
    return 0;
}

int32_t sw_levels_last(const struct sw_levels *levels)
{
    return levels->count * levels->layers;
}

struct sw_recompute sw_level_recompute(const struct sw_levels *levels, int32_t level)
{
    const int32_t whole = level / levels->layers, layers = level % levels->layers;
    struct sw_layer_values rest = {0};
    if (level >= sw_levels_last(levels))
        return sw_recompute_full();
    for (int32_t i = 0; i < whole; i++)
        rest = sw_layer_values_join(rest, levels->unit[i].values);
    const struct sw_recompute chosen = {sw_layer_values_join(rest, levels->unit[whole].values),
                                        layers, rest};
    return sw_recompute_normal(chosen, levels->layers);
}

double sw_level_bytes(const struct sw_levels *levels, int32_t level)
{
    double bytes = 0;
    for (int32_t i = 0; i < levels->count; i++) {
        const int32_t again = level - i * levels->layers;
        bytes +=
            levels->unit[i].bytes * (levels->layers - (again < 0                ? 0
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
