/* Gathers of parameters one layer ahead, inside a period of layers and over its end. */
#include "core/passes/schedule_internal.h"

/* True if an op with one operand gathers a parameter's instance, or makes the operand of such a
 * gather. */
static bool makes_gathered(const struct sw_program *p, const struct sw_region *region, int32_t i)
{
    const struct sw_op *op = &p->ops[i];
    const int32_t end = region->first_op + region->op_count;
    if (op->n_in != 1 || op->n_out != 1)
        return false;
    if (sw_schedule_is_collective(op, SW_ALL_GATHER))
        return true;
    if (!sw_op_info(op->kind)->always_recompute)
        return false;
    for (int32_t j = i + 1; j < end; j++)
        if (sw_schedule_names(p->values, p->ops[j].in, p->ops[j].n_in, op->out[0].value))
            return sw_schedule_is_collective(&p->ops[j], SW_ALL_GATHER);
    return false;
}

static bool same_move(const struct sw_program *p, const struct sw_op *a, const struct sw_op *b)
{
    const struct sw_value *x = &p->values[a->out[0].value], *y = &p->values[b->out[0].value];
    return a->kind == b->kind && a->n_in == 1 && a->n_out == 1 && a->position != b->position &&
           sw_axes_equal(a->axes, b->axes) &&
           sw_schedule_storage(p, a->in[0].value) == sw_schedule_storage(p, b->in[0].value) &&
           x->dtype == y->dtype && sw_sharding_equal(&x->sharding, &y->sharding);
}

/* The value that op i of a region may overwrite: the same value of an earlier layer in the period,
 * if no value of op i's layer overwrites it yet. -1: none. */
static int32_t find_buffer(const struct sw_program *p, const struct sw_region *region, int32_t i)
{
    const struct sw_op *op = &p->ops[i];
    for (int32_t j = region->first_op; j < i; j++) {
        if (!same_move(p, &p->ops[j], op) || p->values[p->ops[j].out[0].value].alias >= 0)
            continue;
        bool taken = false;
        for (int32_t k = j + 1; k < i; k++)
            taken |= p->ops[k].position == op->position && p->ops[k].n_out == 1 &&
                     p->values[p->ops[k].out[0].value].alias == p->ops[j].out[0].value;
        if (!taken)
            return p->ops[j].out[0].value;
    }
    return -1;
}

void sw_schedule_share_gathers(struct sw_program *p, const struct sw_region *region)
{
    const int32_t end = region->first_op + region->op_count;
    for (int32_t i = region->first_op; region->period > 1 && i < end; i++)
        if (p->ops[i].n_in == 1 && !p->values[p->ops[i].out[0].value].gathered &&
            p->ops[i].in[0].mode == SW_INDEX_LAYER && makes_gathered(p, region, i))
            p->values[p->ops[i].out[0].value].alias = find_buffer(p, region, i);
}

static bool is_ahead_result(const struct list *list, struct sw_ref ref)
{
    for (int32_t i = 0; i < list->count; i++)
        if (list->ops[i]->ahead && list->ops[i]->out[0].value == ref.value)
            return true;
    return false;
}

/* True if only this op reads the value, whatever else shares its buffer. */
static bool only_reader(const struct schedule *s, int32_t value, int32_t op)
{
    for (int32_t i = 0; i < s->list.count; i++)
        for (uint16_t k = 0; k < s->list.ops[i]->n_in; k++)
            if (s->list.ops[i]->in[k].value == value && i != op)
                return false;
    return true;
}

/* Moves the op that makes the operand of the gather at `at` right before it, and so on: a cast left
 * in place would overwrite the operand that this iteration's gather may still read. */
static void move_makers(struct list *list, int32_t at)
{
    for (int32_t j = 0; j < at; j++)
        if (list->ops[j]->ahead && list->ops[j]->out[0].value == list->ops[at]->in[0].value) {
            sw_schedule_move(list, j, at--);
            j = -1; /* the maker of this op's input may stand anywhere before it */
        }
}

/* The first op of that position that is not prefetched. */
static int32_t layer_begin(const struct list *list, uint8_t position)
{
    int32_t i = 0;
    while (i < list->count && (list->ops[i]->position != position || list->ops[i]->ahead))
        i++;
    return i;
}

/* Moves the prefetched op at `at`, preceded by the maker of its operand, to before the op at `to`.
 * Returns the position behind them. */
static int32_t move_early(struct list *list, int32_t at, int32_t to)
{
    for (int32_t j = to; j < at; j++)
        if (list->ops[j]->ahead && list->ops[j]->position == list->ops[at]->position &&
            list->ops[j]->out[0].value == list->ops[at]->in[0].value) {
            to = move_early(list, j, to);
            break;
        }
    sw_schedule_move(list, at, to);
    return to + 1;
}

/* Prefetches for all layers of a period but the first: each gather moves to the layer before,
 * behind the last use there of the buffer it overwrites. */
static void prefetch_inside(struct schedule *s, uint8_t first)
{
    struct list *list = &s->list;
    for (int32_t i = 0; i < list->count; i++) {
        const struct sw_op *op = list->ops[i];
        if (!op->ahead || op->position == first || !sw_schedule_is_collective(op, SW_ALL_GATHER))
            continue;
        const int32_t before = op->position + (s->region->reverse ? 1 : -1);
        int32_t to = layer_begin(list, (uint8_t)before);
        for (int32_t j = to; j < i; j++)
            if (list->ops[j]->position == before && !list->ops[j]->ahead &&
                sw_schedule_is(s, TOUCHES, op->out[0].value, j))
                to = j + 1;
        if (to < i)
            move_early(list, i, to);
    }
    for (int32_t i = 0; i < list->count; i++)
        list->ops[i]->ahead &= list->ops[i]->position == first;
}

void sw_schedule_prefetch(struct schedule *s)
{
    struct list *list = &s->list;
    const uint8_t first_position = (uint8_t)(s->region->reverse ? s->region->period - 1 : 0);
    if (!sw_region_loops(s->region))
        return;
    for (int32_t i = 0; i < list->count; i++) {
        struct sw_op *op = list->ops[i];
        const bool parameter = op->n_in == 1 && op->in[0].mode == SW_INDEX_LAYER &&
                               s->p->values[op->in[0].value].role == SW_ROLE_PARAMETER;
        if (sw_schedule_is_collective(op, SW_ALL_GATHER) &&
            (parameter || is_ahead_result(list, op->in[0]))) {
            op->ahead = true;
        } else if (sw_op_info(op->kind)->always_recompute && parameter) {
            for (int32_t j = i + 1; j < list->count; j++)
                if (sw_schedule_is_collective(list->ops[j], SW_ALL_GATHER) &&
                    list->ops[j]->in[0].value == op->out[0].value &&
                    only_reader(s, op->out[0].value, j))
                    op->ahead = true;
        }
    }
    prefetch_inside(s, first_position);
    /* each chain goes behind the last use of its result, in the last layer of an iteration */
    const int32_t begin =
        s->region->period == 1
            ? 0
            : layer_begin(list, (uint8_t)(s->region->period - 1 - first_position));
    for (int32_t i = list->count - 1; i >= 0; i--) {
        if (!list->ops[i]->ahead || !sw_schedule_is_collective(list->ops[i], SW_ALL_GATHER))
            continue;
        int32_t last = i;
        const int32_t made = list->ops[i]->out[0].value;
        for (int32_t j = sw_schedule_next(s, READS, made, 0, list->count); j < list->count;
             j = sw_schedule_next(s, READS, made, j + 1, list->count))
            if (!list->ops[j]->ahead)
                last = j;
        last = last < begin - 1 ? begin - 1 : last;
        if (last == i)
            continue;
        sw_schedule_move(list, i, last + 1);
        move_makers(list, last);
    }
}
