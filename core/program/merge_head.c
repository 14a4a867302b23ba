/* The loss where its gradient is made. Where every rank has the whole head, a chunk of logits says
 * all that its tokens' gradient needs: lm_head_grad makes the loss too, and the logits are made
 * once in a step instead of twice. Not for a vocabulary in shards: a gradient then waits for the
 * statistics of the others, and logits do not stay that long. Nor where the head is gathered, once
 * in each direction as every weight is. */
#include "core/program/builder.h"

#include <stdlib.h>
#include <string.h>

/* The only op of that kind; -1 when there is none, or several. */
static int32_t find_kind(const struct sw_program *p, enum sw_op_kind kind)
{
    int32_t found = -1;
    for (int32_t i = 0; i < p->op_count; i++)
        if (p->ops[i].kind == kind) {
            if (found >= 0)
                return -1;
            found = i;
        }
    return found;
}

/* How many operands of ops that are not `gone` name the value; *reader: the last such op. */
static int32_t uses(const struct sw_program *p, const bool *gone, int32_t value, int32_t *reader)
{
    int32_t count = 0;
    for (int32_t i = 0; i < p->op_count; i++)
        for (uint16_t k = 0; !gone[i] && k < p->ops[i].n_in; k++)
            if (p->ops[i].in[k].value == value || p->values[p->ops[i].in[k].value].alias == value) {
                count++;
                *reader = i;
            }
    return count;
}

static bool is_collected(const struct sw_program *p, int32_t value)
{
    for (int32_t i = 0; i < p->op_count; i++)
        for (uint16_t k = 0; sw_op_is_collective(p->ops[i].kind) && k < p->ops[i].n_out; k++)
            if (p->ops[i].out[k].value == value)
                return true;
    return false;
}

/* Nothing between the three ops but themselves, all on the same tokens. Returns the op that adds
 * the micro-step's loss to the step's, or -1. */
static int32_t find_accumulate(const struct sw_program *p, const bool *gone, int32_t stats,
                               int32_t loss, int32_t grad)
{
    int32_t reader = -1, accumulate = -1;
    const struct sw_op *s = &p->ops[stats], *l = &p->ops[loss], *g = &p->ops[grad];
    const bool same = l->in[0].value == s->out[0].value && g->in[3].value == l->out[1].value &&
                      g->in[2].value == s->in[2].value && l->in[1].value == s->in[2].value &&
                      sw_spec_equal(&p->values[g->in[0].value].sharding.spec,
                                    &p->values[s->in[0].value].sharding.spec) &&
                      sw_spec_equal(&p->values[g->in[1].value].sharding.spec,
                                    &p->values[s->in[1].value].sharding.spec);
    if (!same || is_collected(p, s->in[0].value) || is_collected(p, s->in[1].value) ||
        uses(p, gone, s->out[0].value, &reader) != 1 ||
        uses(p, gone, l->out[1].value, &reader) != 1 ||
        uses(p, gone, l->out[0].value, &accumulate) != 1 ||
        sw_op_info(p->ops[accumulate].kind)->lowering != SW_LOWER_ACCUMULATE)
        return -1;
    return accumulate;
}

/* What the statistics alone read: a cast of the head in forward. */
static void drop_unread(const struct sw_program *p, bool *gone, int32_t before)
{
    int32_t reader;
    for (int32_t i = before; i >= 0; i--) {
        const struct sw_op *op = &p->ops[i];
        if (sw_op_info(op->kind)->cheap && op->n_out == 1 &&
            p->values[op->out[0].value].role == SW_ROLE_ACTIVATION &&
            p->values[op->out[0].value].alias < 0 && uses(p, gone, op->out[0].value, &reader) == 0)
            gone[i] = true;
    }
}

int sw_merge_head(struct sw_program *p, struct sw_error *err)
{
    const int32_t stats = find_kind(p, SW_OP_LM_HEAD_STATS),
                  loss = find_kind(p, SW_OP_LM_HEAD_LOSS), grad = find_kind(p, SW_OP_LM_HEAD_GRAD);
    if (stats < 0 || loss < 0 || grad < 0)
        return 0;
    bool *gone = calloc((size_t)p->op_count, sizeof *gone);
    struct sw_op *ops = malloc((size_t)p->op_count * sizeof *ops);
    if (gone == NULL || ops == NULL) {
        free(gone);
        free(ops);
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while scheduling the program");
    }
    const int32_t accumulate = find_accumulate(p, gone, stats, loss, grad);
    if (accumulate < 0) {
        free(gone);
        free(ops);
        return 0;
    }
    gone[stats] = gone[loss] = gone[accumulate] = true;
    drop_unread(p, gone, stats);
    struct sw_op *g = &p->ops[grad];
    g->n_in = 3;
    if (sw_refs_append(p, &g->out, &g->n_out, p->ops[loss].out[0]) != 0 ||
        sw_refs_append(p, &g->out, &g->n_out, p->ops[loss].out[1]) != 0) {
        free(gone);
        free(ops);
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while scheduling the program");
    }
    int32_t count = 0;
    for (int32_t r = 0; r < p->region_count; r++) {
        struct sw_region *region = &p->regions[r];
        const int32_t first = region->first_op, end = first + region->op_count;
        region->first_op = count;
        for (int32_t i = first; i < end; i++) {
            if (!gone[i])
                ops[count++] = p->ops[i];
            if (i == grad)
                ops[count++] = p->ops[accumulate];
        }
        region->op_count = count - region->first_op;
    }
    free(gone);
    free(p->ops);
    p->ops = ops;
    p->op_capacity = p->op_count;
    p->op_count = count;
    return 0;
}
