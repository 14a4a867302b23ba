#include "core/cost/traffic.h"

#include "core/ir/messages.h"

#include <stdlib.h>
#include <string.h>

bool sw_traffic_of_batch(const struct sw_value *value)
{
    for (uint8_t d = 0; d < value->ndim; d++)
        if (value->axis[d] == SW_L_BATCH)
            return true;
    return false;
}

bool sw_traffic_op_of_batch(const struct sw_program *p, const struct sw_op *op)
{
    for (uint16_t k = 0; k < op->n_in; k++)
        if (sw_traffic_of_batch(&p->values[op->in[k].value]))
            return true;
    for (uint16_t k = 0; k < op->n_out; k++)
        if (sw_traffic_of_batch(&p->values[op->out[k].value]))
            return true;
    return false;
}

enum { UNKNOWN = -2 };

struct sw_traffic_walk sw_traffic_begin(const struct sw_program *program)
{
    return (struct sw_traffic_walk){
        .program = program, .at = sw_walk_begin(program), .last_again = UNKNOWN};
}

static struct sw_traffic_sent count_sent(const struct sw_program *p, const struct sw_op *op)
{
    struct sw_traffic_sent sent = {.bytes = (double)sw_op_communication_bytes(p, op)};
    if (!sw_op_is_collective(op->kind))
        return sent;
    const struct sw_collective_blocks blocks = sw_collective_blocks(p, op);
    for (int32_t c = 0; c < SW_CARRIER_COUNT; c++)
        sent.messages[c] =
            (double)(sw_collective_route((enum sw_carrier)c, sw_op_collective(op->kind), &blocks)
                         .messages -
                     1);
    return sent;
}

bool sw_traffic_at(struct sw_traffic_walk *w, const struct sw_region *region,
                   const struct sw_op *op)
{
    if (!sw_op_is_collective(op->kind) && !sw_op_is_ring(op) && !sw_op_is_exchange(op->kind))
        return false;
    w->axes = sw_axes_effective(&w->program->mesh, op->axes);
    if (w->axes.count == 0)
        return false;
    w->op = op;
    w->calls = sw_walk_count(w->program, region, op);
    if (w->known == NULL) {
        w->sent = count_sent(w->program, op);
        return true;
    }
    struct sw_traffic_sent *known =
        &w->known[sw_program_first_equal_op(w->program, (int32_t)(op - w->program->ops))];
    if (known->bytes < 0)
        *known = count_sent(w->program, op);
    w->sent = *known;
    return true;
}

bool sw_traffic_next(struct sw_traffic_walk *w)
{
    const struct sw_program *p = w->program;
    for (int32_t region = w->at.region; sw_walk_each(&w->at); region = w->at.region) {
        if (w->at.region != region)
            w->last_again = UNKNOWN;
        const struct sw_op *op = &p->ops[w->at.op];
        if (op->axes.count > 0 && sw_traffic_at(w, &p->regions[w->at.region], op))
            return true;
    }
    return false;
}

/* The last recomputed op: recomputation and its collectives begin a layer's backward region. */
static const struct sw_op *find_last_again(const struct sw_program *p,
                                           const struct sw_region *region)
{
    const struct sw_op *first = &p->ops[region->first_op], *op = first + region->op_count;
    while (op > first && op[-1].stage != SW_STAGE_RECOMPUTE)
        op--;
    return op > first ? op - 1 : NULL;
}

enum sw_traffic_part sw_traffic_part(struct sw_traffic_walk *w)
{
    const struct sw_program *p = w->program;
    const struct sw_region *region = &p->regions[w->at.region];
    if (sw_op_is_ring(w->op))
        return SW_TRAFFIC_RING;
    /* whole weights are gathered, and their gradients scattered, beside a micro-step's compute */
    if (w->op->first_micro_step && region->phase == SW_PHASE_FORWARD)
        return SW_TRAFFIC_WEIGHT_FORWARD;
    if (w->op->last_micro_step && region->phase == SW_PHASE_BACKWARD &&
        w->op->kind == SW_OP_REDUCE_SCATTER)
        return SW_TRAFFIC_WEIGHT_BACKWARD;
    if (region->phase == SW_PHASE_UPDATE || w->op->last_micro_step || w->op->first_micro_step)
        return SW_TRAFFIC_ONCE;
    if (!sw_traffic_of_batch(&p->values[w->op->in[0].value]))
        return region->phase == SW_PHASE_FORWARD ? SW_TRAFFIC_WEIGHT_FORWARD
                                                 : SW_TRAFFIC_WEIGHT_BACKWARD;
    if (w->last_again == UNKNOWN) {
        const struct sw_op *last =
            region->phase == SW_PHASE_BACKWARD ? find_last_again(p, region) : NULL;
        w->last_again = last != NULL ? (int32_t)(last - p->ops) : -1;
    }
    return w->op->stage == SW_STAGE_RECOMPUTE || w->op - p->ops < w->last_again ? SW_TRAFFIC_AGAIN
                                                                                : SW_TRAFFIC_BATCH;
}

static struct sw_traffic *find(const struct sw_traffics *list, const struct sw_traffic_walk *walk,
                               enum sw_traffic_part part)
{
    for (int32_t i = 0; i < list->count; i++)
        if (list->entry[i].kind == (enum sw_op_kind)walk->op->kind && list->entry[i].part == part &&
            sw_axes_equal(list->entry[i].axes, walk->axes))
            return &list->entry[i];
    return NULL;
}

struct sw_traffic *sw_traffics_add(struct sw_traffics *list, const struct sw_traffic_walk *walk,
                                   enum sw_traffic_part part, struct sw_error *err)
{
    struct sw_traffic *t = find(list, walk, part);
    if (t == NULL && list->count == list->capacity) {
        const int32_t capacity = list->capacity == 0 ? 16 : 2 * list->capacity;
        struct sw_traffic *grown = realloc(list->entry, (size_t)capacity * sizeof *grown);
        if (grown == NULL) {
            sw_fail(err, SW_ENVIRONMENT, "out of memory while counting communication");
            return NULL;
        }
        list->entry = grown;
        list->capacity = capacity;
    }
    if (t == NULL) {
        t = &list->entry[list->count++];
        *t = (struct sw_traffic){.kind = walk->op->kind,
                                 .part = part,
                                 .axes = walk->axes,
                                 .op = (int32_t)(walk->op - walk->program->ops)};
    }
    t->calls += walk->calls;
    t->bytes += walk->calls * walk->sent.bytes;
    for (int32_t c = 0; c < SW_CARRIER_COUNT; c++)
        t->messages[c] += walk->calls * walk->sent.messages[c];
    return t;
}

void sw_traffics_free(struct sw_traffics *list)
{
    free(list->entry);
    *list = (struct sw_traffics){0};
}
