/* Logical program -> the program of one rank (docs/architecture.md, Sharding): every op claims mesh
 * axes for its factors, operands that are sharded otherwise are resharded, and results of a
 * reduction over a split factor become partial. No code here names FSDP or TP: they follow from the
 * rule table. */
#include "core/passes/partition_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ref to a version, made in this region, of the instance that `ref` refers to. */
static struct sw_ref version_ref(struct sw_ref ref, int32_t version)
{
    return (struct sw_ref){version, ref.mode, 0};
}

/* Suffixes of names, by step of a reshard. */
static const char *const suffixes[] = {[SW_SLICE] = ".slice",
                                       [SW_ALL_GATHER] = ".full",
                                       [SW_REDUCE_SCATTER] = ".scattered",
                                       [SW_ALL_REDUCE] = ".sum",
                                       [SW_ALL_TO_ALL] = ".exchanged"};

/* Adds a new version of the instance(s) that `like` refers to. */
static int32_t add_version(struct sw_partition *part, struct sw_ref like, const char *suffix,
                           struct sw_sharding sharding)
{
    const struct sw_program *p = part->b.program;
    const enum sw_dtype dtype = p->values[like.value].dtype;
    const int32_t base = p->values[like.value].base;
    int32_t stack = 1;
    if (like.mode == SW_INDEX_WHOLE)
        stack = p->values[like.value].stack;
    int32_t version = sw_builder_value_like(&part->b, like.value, "", dtype, stack);
    struct sw_value *value = sw_partition_value(part, version);
    if (like.mode == SW_INDEX_LAYER)
        sw_builder_instances(&p->regions[part->b.region], part->b.position, value);
    sw_builder_name(value->name, value->name, 28, suffix, 11);
    value->base = base;
    value->sharding = sharding;
    return version;
}

/* Makes the version stand for everything that `old` stood for: the value that both are versions of,
 * or results of constraints. */
static void replace_current(struct sw_partition *part, int32_t old, int32_t version)
{
    int32_t *current = part->current;
    const int32_t base = sw_partition_value(part, old)->base;
    current[base] = current[base] == old ? version : current[base];
    for (int32_t i = 0; i < part->constrained_count; i++) {
        const int32_t v = part->constrained[i];
        current[v] = current[v] == old ? version : current[v];
    }
}

/* Steps of sw_reshard for that value; 0: none, or an error. */
static const struct route *find_route(struct sw_partition *part, const struct sw_value *source,
                                      const struct sw_sharding *to)
{
    for (int32_t i = 0; i < ROUTES && part->routes[i].count > 0; i++) {
        const struct route *r = &part->routes[i];
        if (sw_sharding_equal(&r->from, &source->sharding) && sw_sharding_equal(&r->to, to) &&
            memcmp(r->padded, source->padded, sizeof r->padded) == 0 &&
            memcmp(r->unit, source->unit, sizeof r->unit) == 0)
            return r;
    }
    struct route *r = &part->routes[part->oldest_route];
    part->oldest_route = (part->oldest_route + 1) % ROUTES;
    r->from = source->sharding;
    r->to = *to;
    memcpy(r->padded, source->padded, sizeof r->padded);
    memcpy(r->unit, source->unit, sizeof r->unit);
    r->count = sw_reshard(&part->b.program->mesh, source->padded, source->unit, &source->sharding,
                          to, r->steps, part->err);
    return r;
}

/* Fails with the rows of the rule table that split the value, one of which may be wrong. */
static int fail_reshard(struct sw_partition *part, const struct sw_value *value)
{
    char rows[96] = "";
    size_t used = 0;
    for (uint8_t d = 0; d < value->ndim && used < sizeof rows; d++)
        used += (size_t)snprintf(rows + used, sizeof rows - used, "%s%s", d > 0 ? ", " : "",
                                 sw_logical_name((enum sw_logical)value->axis[d]));
    return sw_fail_context(part->err, "resharding '%s' [%s]", value->name, rows);
}

/* Emits the steps from `from` to sharding `to`. If `into` is not NULL, the last step writes
 * there. */
static int emit_reshard(struct sw_partition *part, struct sw_ref from, const struct sw_sharding *to,
                        const struct sw_ref *into, struct sw_ref *result)
{
    struct sw_program *p = part->b.program;
    const struct route *route = find_route(part, &p->values[from.value], to);
    const struct sw_reshard_step *steps = route->steps;
    const int count = route->count;
    if (count < 0)
        return fail_reshard(part, &p->values[from.value]);
    struct sw_ref at = from;
    for (int i = 0; i < count; i++) {
        const bool reduce = steps[i].kind == SW_ALL_REDUCE;
        struct sw_ref next;
        if (i == count - 1 && into != NULL) {
            next = *into;
        } else {
            int32_t version = add_version(part, at, suffixes[steps[i].kind], steps[i].after);
            next = reduce ? (struct sw_ref){version, at.mode, at.shift} : version_ref(at, version);
            if (reduce) { /* in place: the sum replaces its summands for every later use */
                struct sw_value *value = sw_partition_value(part, version);
                const struct sw_value *summand = sw_partition_value(part, at.value);
                value->alias = summand->alias >= 0 ? summand->alias : at.value;
                value->stack = summand->stack;
                value->first_layer = summand->first_layer;
                value->period = summand->period;
                value->part = summand->part;
                value->role = summand->role;
                replace_current(part, at.value, version);
            }
        }
        int32_t op = sw_builder_op(&part->b, sw_op_of_collective(steps[i].kind), SW_STAGE_RESHARD);
        sw_builder_in(&part->b, op, at);
        sw_builder_out(&part->b, op, next);
        struct sw_op *o = &p->ops[op];
        o->axes = steps[i].axes;
        o->as.move = (struct sw_move_attributes){steps[i].dim, steps[i].dim_to};
        at = next;
    }
    *result = at;
    return 0;
}

/* Reshards a value once per (instance, target) and region. */
static int reshard(struct sw_partition *part, struct sw_ref from, const struct sw_sharding *to,
                   struct sw_ref *result)
{
    if (sw_sharding_equal(&sw_partition_value(part, from.value)->sharding, to)) {
        *result = from;
        return 0;
    }
    for (int32_t i = 0; i < part->memo_count; i++)
        if (sw_ref_equal(part->memo[i].from, from) &&
            sw_sharding_equal(&part->memo[i].target, to)) {
            *result = part->memo[i].to;
            return 0;
        }
    if (emit_reshard(part, from, to, NULL, result) != 0)
        return -1;
    if (part->memo_count == part->memo_capacity) {
        const int32_t wanted = part->memo_capacity * 2;
        struct memo *grown = realloc(part->memo, (size_t)wanted * sizeof *grown);
        if (grown == NULL)
            return sw_fail(part->err, SW_ENVIRONMENT,
                           "out of memory while partitioning the program");
        part->memo = grown;
        part->memo_capacity = wanted;
    }
    part->memo[part->memo_count++] = (struct memo){from, *result, *to};
    return 0;
}

/* The version of a logical operand that this region uses. */
static int current_ref(struct sw_partition *part, struct sw_ref logical, struct sw_ref *result)
{
    const int32_t source = part->view_of[logical.value];
    if (source < 0) {
        *result = (struct sw_ref){part->current[logical.value], logical.mode, logical.shift};
        return 0;
    }
    struct sw_ref from;
    if (current_ref(part, (struct sw_ref){source, logical.mode, logical.shift}, &from) != 0)
        return -1;
    return reshard(part, from, &sw_partition_value(part, logical.value)->declared, result);
}

/* Completes a partial operand: reduces it to its declared sharding, for this and every later
 * use. */
static int resolve(struct sw_partition *part, struct sw_ref *ref)
{
    const struct sw_value *value = sw_partition_value(part, ref->value);
    if (value->sharding.partial == 0)
        return 0;
    const struct sw_sharding declared = value->declared;
    const int32_t old = ref->value;
    struct sw_ref result;
    if (emit_reshard(part, *ref, &declared, NULL, &result) != 0)
        return -1;
    replace_current(part, old, result.value);
    *ref = result;
    return 0;
}

/* True if a constraint's result has storage of its own: weights that several regions read, and a
 * gradient's part in its master's sharding. */
static bool is_kept(const struct sw_value *value)
{
    return value->gathered || value->role == SW_ROLE_GRADIENT;
}

/* Lets a sum of scattered parts be made in place. */
static void share_sum(struct sw_partition *part, const struct sw_op *last)
{
    struct sw_value *summand = sw_partition_value(part, last->in[0].value);
    if (last->kind == sw_op_of_collective(SW_ALL_REDUCE))
        summand->alias = last->out[0].value;
}

/* Makes such a result from `from` at the op's position, by any steps; a copy if there are none. */
static int keep(struct sw_partition *part, const struct sw_op *op, struct sw_ref from)
{
    const struct sw_ref into = op->out[0];
    const struct sw_sharding target = sw_partition_value(part, into.value)->declared;
    const int32_t first = part->b.program->op_count;
    struct sw_ref result;
    if (sw_sharding_equal(&sw_partition_value(part, from.value)->sharding, &target)) {
        const int32_t copy = sw_builder_op(&part->b, SW_OP_SCALE, SW_STAGE_RESHARD);
        sw_builder_in(&part->b, copy, from);
        sw_builder_out(&part->b, copy, into);
        part->b.program->ops[copy].as.scale.factor = 1;
    } else if (emit_reshard(part, from, &target, &into, &result) != 0) {
        return -1;
    }
    for (int32_t i = first; i < part->b.program->op_count; i++)
        part->b.program->ops[i].first_micro_step = op->first_micro_step;
    if (!part->b.failed)
        share_sum(part, &part->b.program->ops[part->b.program->op_count - 1]);
    return 0;
}

/* A sharding constraint emits no op: the value continues with another sharding. A constraint that
 * enlarges the value is a gather in each region that uses it; any other replaces the value. */
int sw_partition_constrain(struct sw_partition *part, const struct sw_op *op)
{
    const int32_t out = op->out[0].value;
    const struct sw_sharding target = sw_partition_value(part, out)->declared;
    struct sw_ref from, result;
    if (current_ref(part, op->in[0], &from) != 0)
        return -1;
    if (is_kept(sw_partition_value(part, out)))
        return keep(part, op, from);
    const struct sw_sharding *sharding = &sw_partition_value(part, from.value)->sharding;
    /* compared by axes, not by their sizes: sw_program_structure */
    const sw_axis_set now = sw_spec_axes(&sharding->spec), then = sw_spec_axes(&target.spec);
    if (sharding->partial == 0 && (now | then) == now && now != then) {
        part->view_of[out] = op->in[0].value;
        return 0;
    }
    if (reshard(part, from, &target, &result) != 0)
        return -1;
    part->current[out] = result.value;
    part->constrained[part->constrained_count++] = out;
    return 0;
}

/* A gradient keeps its weight's PartitionSpec, and stays partial only over axes that do not split
 * the weight. */
int sw_partition_accumulate(struct sw_partition *part, const struct sw_op *op)
{
    const int32_t total = op->in[0].value;
    struct sw_ref x;
    if (current_ref(part, op->in[1], &x) != 0)
        return -1;
    struct sw_value *sum = sw_partition_value(part, total);
    if (!part->gradient_placed[total]) {
        sum->sharding.spec = sum->declared.spec;
        sum->sharding.partial = sw_partition_value(part, x.value)->sharding.partial &
                                (sw_axis_set)~sw_spec_axes(&sum->declared.spec);
        part->gradient_placed[total] = true;
    }
    const struct sw_sharding target = sum->sharding;
    if (reshard(part, x, &target, &x) != 0)
        return -1;
    struct sw_op copy = *op;
    sw_builder_detach(&part->b, &copy);
    if (part->b.failed)
        return 0;
    copy.in[1] = x;
    sw_builder_add(&part->b, &copy);
    return 0;
}

/* ---- Ops ---- */

/* Emits the op. Results have their actual sharding; pinned values are resharded where they are
 * written. `op` is detached. */
static int emit_op(struct sw_partition *part, struct sw_op *op)
{
    for (uint16_t i = 0; i < op->n_out; i++) {
        const int32_t v = op->out[i].value;
        const struct sw_sharding *result = &part->results[i];
        part->into[i] = op->out[i];
        if (!part->pinned[v]) {
            sw_partition_value(part, v)->sharding = *result;
            part->current[v] = v;
            part->view_of[v] = -1;
            continue;
        }
        const struct sw_value pinned = *sw_partition_value(part, v);
        if (sw_sharding_equal(result, &pinned.declared))
            continue;
        int32_t version = add_version(part, op->out[i], ".partial", *result);
        op->out[i] = version_ref(op->out[i], version);
        if (sw_spec_equal(&result->spec, &pinned.declared.spec)) { /* summed in place */
            sw_partition_value(part, version)->alias = v;
            sw_partition_value(part, version)->stack = pinned.stack;
            sw_partition_value(part, version)->first_layer = pinned.first_layer;
            sw_partition_value(part, version)->period = pinned.period;
            sw_partition_value(part, version)->part = pinned.part;
            op->out[i] = (struct sw_ref){version, part->into[i].mode, part->into[i].shift};
        }
    }
    sw_builder_add(&part->b, op);
    for (uint16_t i = 0; i < op->n_out; i++) {
        const struct sw_sharding declared = sw_partition_value(part, part->into[i].value)->declared;
        struct sw_ref ignored;
        if (op->out[i].value != part->into[i].value &&
            emit_reshard(part, op->out[i], &declared, &part->into[i], &ignored) != 0)
            return -1;
    }
    return 0;
}

/* Makes room for the records of an op's operands and results. */
static int make_room(struct sw_partition *part, const struct sw_op *op)
{
    const int32_t wanted = op->n_in + op->n_out;
    if (wanted <= part->dims_capacity)
        return 0;
    struct sw_dims *dims = realloc(part->dims, (size_t)wanted * 2 * sizeof *dims);
    part->dims = dims != NULL ? dims : part->dims;
    struct sw_ref *into = realloc(part->into, (size_t)wanted * 2 * sizeof *into);
    part->into = into != NULL ? into : part->into;
    struct sw_sharding *results = realloc(part->results, (size_t)wanted * 2 * sizeof *results);
    part->results = results != NULL ? results : part->results;
    struct sw_sharding *asked = realloc(part->wanted, (size_t)wanted * 2 * sizeof *asked);
    part->wanted = asked != NULL ? asked : part->wanted;
    if (dims == NULL || into == NULL || results == NULL || asked == NULL)
        return sw_fail(part->err, SW_ENVIRONMENT, "out of memory while partitioning the program");
    part->dims_capacity = wanted * 2;
    return 0;
}

/* Reshards operands as the op wants them; sets the results' shardings in part->results. */
static int decide(struct sw_partition *part, const struct sw_op *logical, struct sw_op *op)
{
    const struct sw_sharding *wanted = sw_claims_decide(part, logical, op);
    for (uint16_t i = 0; i < op->n_in; i++)
        if (reshard(part, op->in[i], &wanted[i], &op->in[i]) != 0)
            return -1;
    return 0;
}

int sw_partition_claims(struct sw_partition *part, const struct sw_op *logical)
{
    struct sw_op op = *logical;
    sw_builder_detach(&part->b, &op);
    if (part->b.failed)
        return 0; /* reported at the end */
    if (make_room(part, &op) != 0)
        return -1;
    bool same = sw_op_info(op.kind)->linear; /* true if, besides, all operands are sharded alike */
    for (uint16_t i = 0; i < op.n_in; i++) {
        if (current_ref(part, logical->in[i], &op.in[i]) != 0)
            return -1;
        same = same && sw_sharding_equal(&sw_partition_value(part, op.in[i].value)->sharding,
                                         &sw_partition_value(part, op.in[0].value)->sharding);
    }
    if (same) {
        part->results[0] = sw_partition_value(part, op.in[0].value)->sharding;
        return emit_op(part, &op);
    }
    for (uint16_t i = 0; i < op.n_in; i++) {
        /* a repeated operand was completed with its first occurrence */
        if (current_ref(part, logical->in[i], &op.in[i]) != 0 || resolve(part, &op.in[i]) != 0)
            return -1;
    }
    return decide(part, logical, &op) != 0 ? -1 : emit_op(part, &op);
}

int sw_partition_op(struct sw_partition *part, const struct sw_op *op)
{
    const struct sw_op_info *info = sw_op_info(op->kind);
    return info->partition != NULL ? info->partition(part, op) : sw_partition_claims(part, op);
}

const struct sw_program *sw_partition_logical(const struct sw_partition *part)
{
    return part->logical;
}

static void find_pinned(struct sw_partition *part)
{
    const struct sw_program *l = part->logical;
    for (int32_t i = 0; i < l->op_count; i++)
        for (uint16_t j = 0; j < l->ops[i].n_out; j++)
            if (l->values[l->ops[i].out[j].value].carried)
                part->pinned[l->ops[i].out[j].value] = true;
}

static bool begin(struct sw_partition *part)
{
    const struct sw_program *l = part->logical;
    const size_t n = (size_t)l->value_count;
    part->current = malloc(n * sizeof *part->current);
    part->view_of = malloc(n * sizeof *part->view_of);
    part->constrained = malloc(((size_t)l->op_count + 1) * sizeof *part->constrained);
    part->pinned = calloc(n, sizeof *part->pinned);
    part->gradient_placed = calloc(n, sizeof *part->gradient_placed);
    part->memo = malloc(FIRST_MEMOS * sizeof *part->memo);
    part->routes = malloc(ROUTES * sizeof *part->routes);
    part->decisions = malloc(SW_OP_COUNT * DECISIONS * sizeof *part->decisions);
    part->memo_capacity = FIRST_MEMOS;
    if (part->current == NULL || part->view_of == NULL || part->constrained == NULL ||
        part->pinned == NULL || part->gradient_placed == NULL || part->memo == NULL ||
        part->routes == NULL || part->decisions == NULL)
        return false;
    for (int32_t i = 0; i < SW_OP_COUNT * DECISIONS; i++)
        part->decisions[i].factors = NULL;
    for (int32_t i = 0; i < ROUTES; i++)
        part->routes[i].count = 0;
    for (int32_t v = 0; v < l->value_count; v++) {
        part->current[v] = v;
        part->view_of[v] = -1;
        part->pads = part->pads ||
                     memcmp(l->values[v].padded, l->values[v].size, sizeof l->values[v].size) != 0;
    }
    find_pinned(part);
    return true;
}

static void end(struct sw_partition *part)
{
    free(part->current);
    free(part->view_of);
    free(part->constrained);
    free(part->pinned);
    free(part->gradient_placed);
    free(part->memo);
    free(part->routes);
    free(part->decisions);
    free(part->dims);
    free(part->into);
    free(part->results);
    free(part->wanted);
}

int sw_partition(const struct sw_program *logical, struct sw_program **out, struct sw_error *err)
{
    int status = -1;
    struct sw_program *p = sw_program_next_stage(logical);
    struct sw_partition state = {.logical = logical, .b = {.program = p, .region = -1}, .err = err};
    struct sw_partition *part = &state;
    if (p == NULL || !begin(part))
        goto memory;
    for (int32_t r = 0; r < logical->region_count; r++) {
        const struct sw_region *region = &logical->regions[r];
        sw_builder_region_like(&part->b, region->name, region->phase, region, region->reverse);
        if (part->b.failed)
            goto memory;
        p->regions[part->b.region].carry = region->carry;
        part->memo_count = 0;
        for (int32_t i = 0; i < region->op_count; i++) {
            const struct sw_op *op = &logical->ops[region->first_op + i];
            if (op->position != part->b.position)
                part->memo_count = 0; /* a layer's gathers do not last beyond it */
            part->b.position = op->position;
            if (sw_partition_op(part, op) != 0) {
                sw_fail_context(err, "%s, %s", region->name, sw_op_info(op->kind)->name);
                goto out;
            }
        }
    }
    for (int32_t i = 0; i < p->outputs.count; i++)
        p->outputs.at[i].value = part->current[p->outputs.at[i].value];
    if (part->b.failed)
        goto memory;
    p->stage = SW_PARTITIONED;
    status = 0;
    goto out;
memory:
    sw_fail(err, SW_ENVIRONMENT, "out of memory while partitioning the program");
out:
    end(part);
    if (status == 0)
        *out = p;
    else
        sw_program_free(p);
    return status;
}
