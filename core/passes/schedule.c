/* Schedule: collectives run beside compute on their own stream, in order. Eight rewrites, region by
 * region: drop copies into gradients, fold additions of gradients and other sums into products,
 * prefetch parameters one layer ahead, start reductions early and together, keep at most one whole
 * gradient alive, reduce gradients while the rest of backward computes, and wait as late as
 * possible. */
#include "core/passes/schedule_internal.h"

#include <stdlib.h>
#include <string.h>

/* A reduction of a gradient that moves from the update to the region that completes the
 * gradient. */
struct early {
    struct sw_op op;
    const struct sw_op *from; /* op in the update */
    int32_t region;
    bool waited; /* true if waited for in its own region */
};

/* Drops ops whose results only the head's forward read, if its loss is made in backward. */
static void drop_unread(struct schedule *s)
{
    for (int32_t i = s->list.count - 1; i >= 0; i--) {
        const struct sw_op *op = s->list.ops[i];
        if (sw_op_info(op->kind)->always_recompute &&
            s->p->values[op->out[0].value].role == SW_ROLE_ACTIVATION &&
            sw_schedule_only_between(s, op->out[0].value, i, i))
            sw_schedule_erase(&s->list, i);
    }
}

/* ---- 1. With one micro-step, the first or only contribution to a gradient is written straight
 * into it ---- */

/* Number of contributions to the instance that an op's ref at that position refers to. No other
 * region runs this one's layers. */
static int32_t contributions(const struct schedule *s, struct sw_ref gradient, uint8_t position)
{
    const struct sw_program *p = s->p;
    const bool here = gradient.mode == SW_INDEX_LAYER;
    const int32_t first = here ? s->region->first_op : 0;
    const int32_t end = here ? first + s->region->op_count : p->op_count;
    int32_t count = 0;
    for (int32_t i = first; i < end; i++)
        count += sw_op_accumulates(&p->ops[i]) && p->ops[i].in[0].value == gradient.value &&
                 (!here || p->ops[i].position == position);
    return count;
}

static void write_in_place(struct schedule *s)
{
    struct list *list = &s->list;
    if (s->p->accumulation_steps != 1)
        return;
    for (int32_t i = 0; i < list->count; i++) {
        if (!sw_op_accumulates(list->ops[i]))
            continue;
        const struct sw_op op = *list->ops[i];
        if (contributions(s, op.in[0], op.position) != 1 && !op.as.accumulate.first)
            continue;
        const struct sw_value *total = &s->p->values[op.in[0].value];
        const struct sw_value *x = &s->p->values[op.in[1].value];
        if (total->dtype != x->dtype || x->alias >= 0)
            continue;
        int32_t producer = -1, users = 0;
        uint8_t which = 0;
        for (int32_t j = sw_schedule_next(s, TOUCHES, op.in[1].value, 0, list->count);
             j < list->count;
             j = sw_schedule_next(s, TOUCHES, op.in[1].value, j + 1, list->count)) {
            users += sw_schedule_is(s, READS, op.in[1].value, j);
            for (uint16_t k = 0; k < list->ops[j]->n_out; k++)
                if (list->ops[j]->out[k].value == op.in[1].value) {
                    producer = j;
                    which = k;
                }
        }
        if (producer < 0 || users != 1)
            continue;
        list->ops[producer]->out[which] = op.out[0];
        sw_schedule_name(list, producer);
        sw_schedule_erase(list, i--);
    }
}

/* ---- 2. The op that makes a weight's gradient adds it to the sum ---- */

/* Type of the numbers added: that of its first operand that is no list of tokens. */
static enum sw_dtype added_dtype(const struct sw_program *p, const struct sw_op *op)
{
    const enum sw_dtype first = p->values[op->in[0].value].dtype;
    return sw_accumulate_dtype(first == SW_I32 ? p->values[op->in[1].value].dtype : first);
}

/* False if the sum is narrower than its addends: these are rounded once, outside. */
static bool can_add_in_place(const struct schedule *s, int32_t sum, int32_t maker)
{
    const struct sw_op *op = s->list.ops[sum], *made_by = s->list.ops[maker];
    const struct sw_value *total = &s->p->values[op->in[0].value];
    const struct sw_value *x = &s->p->values[op->in[1].value];
    const struct sw_op_info *info = sw_op_info(made_by->kind);
    if (info->gradient == 0 || made_by->as.gradient.adds ||
        !sw_ref_equal(made_by->out[info->gradient - 1], op->in[1]) || x->alias >= 0 ||
        total->dtype != x->dtype || total->dtype != added_dtype(s->p, made_by) ||
        !sw_schedule_only_between(s, op->in[1].value, sum, maker))
        return false;
    return sw_schedule_next(s, TOUCHES, op->out[0].value, maker, sum) == sum;
}

static void add_in_place(struct schedule *s)
{
    struct list *list = &s->list;
    for (int32_t i = 0; i < list->count; i++) {
        if (!sw_op_accumulates(list->ops[i]))
            continue;
        const struct sw_op op = *list->ops[i];
        const int32_t maker = sw_schedule_last(s, WRITES, op.in[1].value, i);
        if (maker < 0 || !can_add_in_place(s, i, maker))
            continue;
        struct sw_op *into = list->ops[maker];
        if (sw_refs_append(s->p, &into->in, &into->n_in, op.in[0]) != 0) {
            s->failed = true;
            return;
        }
        into->out[sw_op_info(into->kind)->gradient - 1] = op.out[0];
        into->as.gradient.first = op.as.accumulate.first;
        into->as.gradient.adds = true;
        sw_schedule_name(list, maker);
        sw_schedule_erase(list, i--);
    }
}

/* ---- 3. A sum with the result of a product or a norm's gradient becomes an operand of that op:
 * residuals, and cotangents of values with several readers, are not moved once more ---- */

/* True if the op at `maker` can make the sum at `sum` instead: its result is one of the sum's
 * operands and has no other reader; `addend` is the other. */
static bool can_fold(const struct schedule *s, int32_t sum, int32_t maker, struct sw_ref addend)
{
    const struct sw_op *op = s->list.ops[sum], *made_by = s->list.ops[maker];
    const int32_t result = made_by->out[0].value;
    if (made_by->n_in != sw_op_addend(s->p, made_by) || op->in[0].value == op->in[1].value ||
        s->p->values[result].alias >= 0 || sw_schedule_storage(s->p, addend.value) == result ||
        sw_schedule_storage(s->p, addend.value) == sw_schedule_storage(s->p, op->out[0].value) ||
        s->p->values[addend.value].dtype != s->p->values[result].dtype ||
        s->p->values[op->out[0].value].dtype != s->p->values[result].dtype)
        return false;
    if (!sw_schedule_only_between(s, result, sum, maker))
        return false;
    /* the addend must exist by then; if a collective made it, `maker` would wait for it; another
     * layer's value counts as another iteration's */
    const int32_t from = sw_schedule_last(s, WRITES, addend.value, sum);
    if (from > maker || (from >= 0 && sw_op_is_collective(s->list.ops[from]->kind) &&
                         s->list.ops[from]->position == op->position))
        return false;
    return sw_schedule_next(s, TOUCHES, op->out[0].value, maker, sum) == sum;
}

static void fold_sums(struct schedule *s)
{
    struct list *list = &s->list;
    for (int32_t i = 0; i < list->count; i++) {
        if (!sw_op_is_sum(list->ops[i]) || sw_op_accumulates(list->ops[i]))
            continue;
        const struct sw_op op = *list->ops[i];
        for (int k = 1; k >= 0; k--) {
            const int32_t maker = sw_schedule_last(s, WRITES, op.in[k].value, i);
            if (maker < 0 || !sw_ref_equal(list->ops[maker]->out[0], op.in[k]) ||
                !can_fold(s, i, maker, op.in[1 - k]))
                continue;
            struct sw_op *into = list->ops[maker];
            if (sw_refs_append(s->p, &into->in, &into->n_in, op.in[1 - k]) != 0) {
                s->failed = true;
                return;
            }
            into->out[0] = op.out[0];
            sw_schedule_name(list, maker);
            sw_schedule_erase(list, i--);
            break;
        }
    }
}

/* ---- 4. Parameters one layer ahead: schedule_prefetch.c ---- */

/* ---- 5. Reductions early, small ones together ---- */

static void hoist_reductions(struct schedule *s)
{
    struct list *list = &s->list;
    if (s->region->phase != SW_PHASE_UPDATE)
        return;
    int32_t front = 0;
    for (int32_t i = 0; i < list->count; i++) {
        if (!sw_schedule_is_collective(list->ops[i], SW_ALL_REDUCE))
            continue;
        if (sw_schedule_next(s, TOUCHES, list->ops[i]->in[0].value, 0, i) == i)
            sw_schedule_move(list, i, front++);
    }
}

/* Norm weights and scalars, whose latency counts, not their bytes. Decided by shape, not size, so
 * that the ops of a program do not depend on its dimensions' sizes (sw_program_retarget). */
static bool small(const struct sw_program *p, const struct sw_op *op)
{
    return sw_schedule_is_collective(op, SW_ALL_REDUCE) && p->values[op->in[0].value].ndim <= 1;
}

static void coalesce(struct schedule *s)
{
    struct list *list = &s->list;
    for (int32_t i = 0; i < list->count; i++) {
        if (!small(s->p, list->ops[i]))
            continue;
        for (int32_t j = i + 1; j < list->count; j++) {
            struct sw_op *into = list->ops[i];
            if (!small(s->p, list->ops[j]))
                continue;
            const struct sw_op other = *list->ops[j];
            if (!sw_axes_equal(other.axes, into->axes) || other.position != into->position ||
                s->p->values[other.in[0].value].dtype != s->p->values[into->in[0].value].dtype ||
                into->n_in == SW_COLLECTIVE_MAX_OPERANDS)
                continue;
            if (sw_schedule_next(s, TOUCHES, other.in[0].value, i, j) != j)
                continue;
            if (sw_refs_append(s->p, &into->in, &into->n_in, other.in[0]) != 0 ||
                sw_refs_append(s->p, &into->out, &into->n_out, other.out[0]) != 0) {
                s->failed = true;
                return;
            }
            sw_schedule_name(list, i);
            sw_schedule_erase(list, j--);
        }
    }
}

/* ---- 6. A scattered gradient is added to its sum only when the next one is about to be made ----
 */

static int32_t next_gradient(const struct list *list, int32_t after)
{
    int32_t i = after;
    while (i < list->count && sw_op_info(list->ops[i]->kind)->gradient == 0)
        i++;
    return i;
}

static void sink_accumulates(struct schedule *s)
{
    struct list *list = &s->list;
    for (int32_t i = list->count - 1; i > 0; i--) {
        const struct sw_op *op = list->ops[i];
        if (!sw_op_accumulates(op) ||
            !sw_schedule_is_collective(list->ops[i - 1], SW_REDUCE_SCATTER) ||
            !sw_schedule_is(s, READS, list->ops[i - 1]->out[0].value, i))
            continue;
        const int32_t to = next_gradient(list, i + 1);
        if (to > i + 1)
            sw_schedule_move(list, i, to);
    }
}

/* ---- 7. A reduction made once a step starts as soon as the last micro-step has the gradient
 * ---- */

/* The last region before `before` in which backward writes the value, and the ref of the instance;
 * -1: none */
static int32_t completed_in(const struct sw_program *p, int32_t before, int32_t value,
                            struct sw_ref *ref)
{
    for (int32_t r = before - 1; r >= 0; r--) {
        const struct sw_region *region = &p->regions[r];
        if (region->phase != SW_PHASE_BACKWARD)
            continue;
        for (int32_t i = region->first_op; i < region->first_op + region->op_count; i++)
            for (uint16_t k = 0; k < p->ops[i].n_out; k++)
                if (sw_schedule_storage(p, p->ops[i].out[k].value) ==
                    sw_schedule_storage(p, value)) {
                    *ref = p->ops[i].out[k];
                    return r;
                }
    }
    return -1;
}

/* Adds reduction `op` of the update for the part that backward completes in that region at that
 * position. */
static void add_early(struct schedule *s, const struct sw_op *op, int32_t region, struct sw_ref ref,
                      uint8_t position)
{
    struct early *early = &s->early[s->early_count++];
    *early = (struct early){.op = *op, .from = op, .region = region};
    early->op.last_micro_step = true;
    early->op.position = position;
    early->op.n_in = early->op.n_out = 0;
    const struct sw_ref in = {op->in[0].value, ref.mode, ref.shift};
    const struct sw_ref out = {op->out[0].value, ref.mode, ref.shift};
    s->failed = s->failed || sw_refs_append(s->p, &early->op.in, &early->op.n_in, in) != 0 ||
                sw_refs_append(s->p, &early->op.out, &early->op.n_out, out) != 0;
}

/* Adds it for each layer of the region's period. */
static void add_early_layers(struct schedule *s, const struct sw_op *op, int32_t r,
                             struct sw_ref ref)
{
    const struct sw_region *region = &s->p->regions[r];
    int32_t position = -1;
    for (int32_t i = region->first_op; i < region->first_op + region->op_count; i++) {
        const struct sw_op *from = &s->p->ops[i];
        if (from->position != position &&
            sw_schedule_names(s->p->values, from->out, from->n_out,
                              sw_schedule_storage(s->p, op->in[0].value)))
            add_early(s, op, r, ref, (uint8_t)(position = from->position));
    }
}

/* Moves an all_reduce of a reduce_scatter's result behind that op, wherever it was moved to. False:
 * there is none. */
static bool add_behind_scatter(struct schedule *s, const struct sw_op *op)
{
    const int32_t scatters = s->early_count;
    bool found = false;
    for (int32_t e = 0; e < scatters && !s->failed; e++) {
        struct early *first = &s->early[e];
        if (!sw_schedule_is_collective(&first->op, SW_REDUCE_SCATTER) ||
            sw_schedule_storage(s->p, op->in[0].value) !=
                sw_schedule_storage(s->p, first->op.out[0].value))
            continue;
        first->waited = true; /* the stream is in order: ops behind it are waited for */
        add_early(s, op, first->region, first->op.out[0], first->op.position);
        found = true;
    }
    return found;
}

/* Moves a reduction of the update to where its operand is complete, or leaves it. */
static void move_early(struct schedule *s, int32_t r, int32_t i)
{
    const struct sw_program *p = s->p;
    const struct sw_op *op = &p->ops[i];
    const bool scatters = sw_schedule_is_collective(op, SW_REDUCE_SCATTER);
    struct sw_ref ref;
    if ((!scatters && !sw_schedule_is_collective(op, SW_ALL_REDUCE)) || op->n_in != 1 ||
        small(p, op))
        return;
    const int32_t in = sw_schedule_storage(p, op->in[0].value),
                  out = sw_schedule_storage(p, op->out[0].value);
    if ((!scatters && in != out) || add_behind_scatter(s, op) ||
        p->values[in].role != SW_ROLE_GRADIENT)
        return;
    bool ready = true;
    for (int32_t j = p->regions[r].first_op; j < i && ready; j++)
        ready = !sw_schedule_touches(p, &p->ops[j], op->in[0].value);
    int32_t from = ready ? completed_in(p, r, op->in[0].value, &ref) : -1;
    while (from >= 0 && !s->failed) {
        add_early_layers(s, op, from, ref);
        from = ref.mode == SW_INDEX_LAYER ? completed_in(p, from, op->in[0].value, &ref) : -1;
    }
}

/* Finds reductions to move. Norms' gradients stay in the update, in a single all_reduce: their
 * latency counts. Layers' gradients are complete in their layer. */
static void find_early(struct schedule *s)
{
    const struct sw_program *p = s->p;
    for (int32_t r = 0; r < p->region_count; r++) {
        const struct sw_region *region = &p->regions[r];
        for (int32_t i = 0; region->phase == SW_PHASE_UPDATE && i < region->op_count; i++)
            move_early(s, r, region->first_op + i);
    }
}

static void drop_moved(struct schedule *s)
{
    struct list *list = &s->list;
    for (int32_t i = 0; s->region->phase == SW_PHASE_UPDATE && i < list->count; i++)
        for (int32_t e = 0; e < s->early_count; e++)
            if (list->ops[i] == s->early[e].from) {
                sw_schedule_erase(list, i--);
                break;
            }
}

/* Places the reduction behind the op that completes the gradient. If that is a reduce_scatter, it
 * goes before the next gradient and before any wait: the stream is in order, and a reduction issued
 * only after compute wakes up would leave the link idle until then. */
static void reduce_early(struct schedule *s)
{
    struct list *list = &s->list;
    const int32_t region = (int32_t)(s->region - s->p->regions);
    for (int32_t e = 0; e < s->early_count; e++) {
        struct early *early = &s->early[e];
        if (early->region != region)
            continue;
        int32_t at = list->count;
        do
            at = sw_schedule_last(s, WRITES, early->op.in[0].value, at);
        while (at > 0 && list->ops[at]->position != early->op.position);
        at = sw_schedule_is_collective(list->ops[at], SW_REDUCE_SCATTER)
                 ? next_gradient(list, at + 1)
                 : at + 1;
        sw_schedule_insert(list, at, &early->op);
    }
}

/* ---- 8. Waits ---- */

/* Adds a wait, ahead if an op ahead uses the awaited value. */
static void add_wait(struct schedule *s, int32_t at, const struct sw_op *op)
{
    const bool ahead = op->ahead && at < s->list.count && s->list.ops[at]->ahead;
    struct sw_op *wait = &s->waits[s->wait_count++];
    memset(wait, 0, sizeof *wait);
    wait->kind = SW_OP_WAIT; /* the only kind of op that this pass makes */
    wait->stage = op->stage;
    wait->axes = op->axes;
    wait->ahead = ahead;
    wait->position = op->position;
    wait->n_in = 1;
    wait->in = op->out; /* a wait reads only the first */
    sw_schedule_insert(&s->list, at, wait);
}

/* True if op i reduces, once a step, the result of a reduce_scatter before it: the stream does
 * both, in order. */
static bool follows_scatter(const struct schedule *s, int32_t i)
{
    if (!s->list.ops[i]->last_micro_step)
        return false;
    const int32_t from = sw_schedule_last(s, WRITES, s->list.ops[i]->in[0].value, i);
    return from >= 0 && sw_schedule_is_collective(s->list.ops[from], SW_REDUCE_SCATTER);
}

static bool is_wait_for(const struct sw_op *wait, struct sw_ref ref)
{
    return sw_op_is_wait(wait->kind) && wait->in[0].value == ref.value;
}

/* Position, at most `at`, of the wait for a once-a-step reduction, so that the workspaces of all
 * these are not alive together: before the next such reduction; if that one follows a
 * reduce_scatter, at the wait for it, behind which this one is done. */
static int32_t wait_before_next(const struct schedule *s, int32_t from, int32_t at, bool *found)
{
    const struct list *list = &s->list;
    for (int32_t j = from; j < at; j++) {
        if (!list->ops[j]->last_micro_step)
            continue;
        *found = true;
        const int32_t scattered = next_gradient(list, j + 1);
        return !follows_scatter(s, j) ? j : scattered < at ? scattered : at;
    }
    return at;
}

static void waits(struct schedule *s)
{
    struct list *list = &s->list;
    for (int32_t i = 0; i < list->count; i++) {
        if (!sw_op_is_collective(list->ops[i]->kind) || list->ops[i]->n_out == 0)
            continue;
        const struct sw_op op = *list->ops[i];
        const bool scatters = sw_schedule_is_collective(&op, SW_REDUCE_SCATTER);
        bool next = false; /* true if another once-a-step reduction follows */
        int32_t at = list->count;
        /* a prefetched value is waited for in the next iteration, before its first use */
        const int32_t from = op.ahead ? 0 : i + 1;
        for (uint16_t k = 0; k < op.n_out; k++) {
            const int32_t value = op.out[k].value;
            int32_t first = sw_schedule_next(s, TOUCHES, value, from, at);
            /* skip itself, the wait for the op that scattered its operand, ops of the stream alone,
             * and other layers' gradients */
            while (first < at &&
                   (first == i || (scatters && follows_scatter(s, first)) ||
                    (op.last_micro_step && (is_wait_for(list->ops[first], op.in[0]) ||
                                            list->ops[first]->position != op.position))))
                first = sw_schedule_next(s, TOUCHES, value, first + 1, at);
            at = first;
        }
        /* one whole gradient at a time, except those that are kept whole */
        for (int32_t j = from; scatters && !op.last_micro_step && j < at; j++)
            if (sw_op_info(list->ops[j]->kind)->gradient > 0)
                at = j;
        if (op.last_micro_step)
            at = wait_before_next(s, from, at, &next);
        if (at < list->count && is_wait_for(list->ops[at], op.out[0]))
            continue; /* the op found is the wait for this one */
        if (op.last_micro_step && at == list->count && !next)
            continue; /* the update needs its sum */
        for (int32_t e = 0; op.last_micro_step && e < s->early_count; e++)
            s->early[e].waited = s->early[e].waited || list->ops[i] == &s->early[e].op;
        add_wait(s, at, &op);
        i += at <= i;
    }
}

/* Makes the update wait for reductions that backward left running; if several regions have parts of
 * one, for the last. */
static void wait_for_early(struct schedule *s)
{
    struct list *list = &s->list;
    for (int32_t e = 0; e < s->early_count; e++) {
        bool known = s->early[e].waited;
        for (int32_t f = 0; f < e; f++)
            known = known || (s->early[f].from == s->early[e].from && !s->early[f].waited);
        if (known)
            continue;
        const int32_t first =
            sw_schedule_next(s, TOUCHES, s->early[e].op.out[0].value, 0, list->count);
        if (first < list->count)
            add_wait(s, first, s->early[e].from);
    }
}

static void schedule_free(struct schedule *s)
{
    free(s->list.ops);
    free(s->list.named);
    free(s->waits);
    free(s->early);
    free(s->only_in);
    free(s->named);
}

int sw_schedule(struct sw_program *program, struct sw_error *err)
{
    struct schedule s = {.p = program, .list.values = program->values};
    const size_t count = (size_t)program->op_count;
    /* at most one wait for each op */
    struct sw_op *done = malloc(2 * count * sizeof *done);
    s.list.ops = malloc(2 * count * sizeof *s.list.ops);
    s.list.named = malloc(2 * count * sizeof *s.list.named);
    s.waits = malloc(count * sizeof *s.waits);
    s.early = malloc(count * sizeof *s.early);
    s.only_in = malloc(((size_t)program->value_count + 1) * sizeof *s.only_in);
    s.named = malloc(count * sizeof *s.named);
    if (done == NULL || s.list.ops == NULL || s.list.named == NULL || s.waits == NULL ||
        s.early == NULL || s.only_in == NULL || s.named == NULL) {
        free(done);
        schedule_free(&s);
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while scheduling the program");
    }
    for (int32_t r = 0; r < program->region_count; r++)
        sw_schedule_share_gathers(program, &program->regions[r]);
    sw_schedule_find_regions(&s);
    find_early(&s);
    int32_t total = 0;
    for (int32_t r = 0; r < program->region_count; r++) {
        struct sw_region *region = &program->regions[r];
        s.region = region;
        s.list.count = region->op_count;
        for (int32_t i = 0; i < region->op_count; i++)
            s.list.ops[i] = &program->ops[region->first_op + i];
        memcpy(s.list.named, s.named + region->first_op,
               (size_t)region->op_count * sizeof *s.named);
        drop_moved(&s);
        drop_unread(&s);
        write_in_place(&s);
        add_in_place(&s);
        fold_sums(&s);
        sw_schedule_prefetch(&s);
        hoist_reductions(&s);
        coalesce(&s);
        sink_accumulates(&s);
        reduce_early(&s);
        waits(&s);
        if (region->phase == SW_PHASE_UPDATE)
            wait_for_early(&s);
        region->first_op = total;
        region->op_count = s.list.count;
        for (int32_t i = 0; i < s.list.count; i++)
            done[total++] = *s.list.ops[i];
    }
    schedule_free(&s);
    if (s.failed) {
        free(done);
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while scheduling the program");
    }
    free(program->ops);
    program->ops = done;
    program->op_count = total;
    program->op_capacity = (int32_t)(2 * count);
    program->stage = SW_SCHEDULED;
    return 0;
}
