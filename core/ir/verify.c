/* Verifies a program after a pass: operands exist and fit their op's factors, values are written
 * before they are read, sums over ranks are complete where they must be. */
#include "core/ir/builder.h"

#include <stdlib.h>
#include <string.h>

struct verify {
    const struct sw_program *p;
    bool *written; /* [value_count]: true if an earlier op, or the runner, writes it */
    const struct sw_region *region;
    int32_t at; /* index of the current op */
    struct sw_error *err;
};

static int wrong(struct verify *v, const char *what, const struct sw_value *value)
{
    return sw_fail(v->err, SW_ENVIRONMENT, "op %d, %s of '%s': '%s' %s", v->at,
                   sw_op_info(v->p->ops[v->at].kind)->name, v->region->name, value->name, what);
}

/* Checks that a ref's instances exist in every iteration. */
static int check_ref(struct verify *v, struct sw_ref ref)
{
    const struct sw_program *p = v->p;
    if (ref.value < 0 || ref.value >= p->value_count)
        return sw_fail(v->err, SW_ENVIRONMENT, "op %d of '%s' names a value that does not exist",
                       v->at, v->region->name);
    const struct sw_value *value = &p->values[ref.value];
    const bool fixed = ref.mode == SW_INDEX_FIXED && ref.shift >= 0 && ref.shift < value->stack;
    const int32_t position = p->ops[v->at].position, times = sw_region_times(v->region, position);
    const int32_t from = sw_region_first(v->region, position);
    const int32_t last = sw_ref_instance(p, ref, from + (times - 1) * v->region->period);
    const bool layer = ref.mode == SW_INDEX_LAYER &&
                       (times <= 0 || (sw_ref_instance(p, ref, from) >= 0 && last < value->stack));
    if (!fixed && !layer && ref.mode != SW_INDEX_WHOLE)
        return wrong(v, "has no such instance", value);
    return 0;
}

static int32_t storage(const struct sw_program *p, int32_t value)
{
    return p->values[value].alias >= 0 ? p->values[value].alias : value;
}

/* True if a loop writes the value later: in the iteration before, or one ahead. */
static bool written_in_loop(const struct verify *v, int32_t value)
{
    const struct sw_region *region = v->region;
    for (int32_t i = region->first_op;
         sw_region_loops(region) && i < region->first_op + region->op_count; i++)
        for (uint16_t k = 0; k < v->p->ops[i].n_out; k++)
            if (storage(v->p, v->p->ops[i].out[k].value) == storage(v->p, value) &&
                (v->p->ops[i].ahead || v->p->values[storage(v->p, value)].carried))
                return true;
    return false;
}

static int check_read(struct verify *v, struct sw_ref ref)
{
    if (check_ref(v, ref) != 0)
        return -1;
    if (!v->written[storage(v->p, ref.value)] && !written_in_loop(v, ref.value))
        return wrong(v, "is read and was not written", &v->p->values[ref.value]);
    return 0;
}

/* First dimension of a factor outside compound dimensions. */
struct alone {
    const struct sw_value *value; /* NULL: not yet */
    size_t dim;
};

/* One side of an op: its operands, or its results, with their patterns. */
struct side {
    const char *pattern;
    const struct sw_ref *refs;
    uint16_t count;
};

/* True if one of them is padded and the other not, or differently: their shards have different
 * elements. */
static bool splits_unlike(const struct verify *v, const struct alone *known,
                          const struct sw_value *value, size_t d)
{
    const struct sw_value *other = known->value;
    const bool padded =
        value->padded[d] != value->size[d] || other->padded[known->dim] != other->size[known->dim];
    return v->p->stage >= SW_PARTITIONED && padded &&
           value->padded[d] != other->padded[known->dim] &&
           (value->sharding.spec.dim[d].count > 0 ||
            other->sharding.spec.dim[known->dim].count > 0);
}

/* True if a side has a pattern for each of so many operands. */
static bool fits_count(const char *side, uint16_t count)
{
    uint16_t patterns = 1;
    for (; *side != '\0' && *side != '-' && *side != '|'; side++)
        patterns += *side == ',';
    return patterns == count;
}

/* Checks that a factor has one size in all dimensions with the same axis and units. Heads of
 * queries and of keys are two. */
static int check_dimension(struct verify *v, const struct sw_value *value, uint8_t d,
                           struct alone *known)
{
    const struct sw_value *first = known->value;
    if (first == NULL) {
        *known = (struct alone){value, d};
        return 0;
    }
    for (uint8_t e = 0; e < first->ndim; e++)
        if (first->axis[e] == value->axis[d] && first->unit[e] == value->unit[d] &&
            value->axis[d] != SW_L_NONE && first->symbol[e] == value->symbol[d] &&
            first->size[e] * sw_value_group(v->p, first, e) !=
                value->size[d] * sw_value_group(v->p, value, d))
            return wrong(v, "disagrees with another operand about a size", value);
    if (splits_unlike(v, known, value, d))
        return wrong(v, "is split along what another operand pads otherwise", value);
    return 0;
}

/* Checks that a compound dimension has the product of its factors' sizes, and is split in whole
 * blocks of the minor ones. A factor without a dimension of its own has any size. */
static int check_compound(struct verify *v, const struct sw_value *value, uint8_t d,
                          const struct sw_dims *dims, const struct alone alone[SW_FACTORS])
{
    const uint32_t factors = dims->inner_of[d] | 1u << dims->factor[d];
    int64_t all = 1, minor = 1;
    for (uint32_t factor = 0; factor < SW_FACTORS; factor++) {
        if (!(factors >> factor & 1u))
            continue;
        if (alone[factor].value == NULL)
            return 0;
        const int64_t size = alone[factor].value->size[alone[factor].dim];
        all *= size;
        minor *= dims->factor[d] == factor ? 1 : size;
    }
    if (value->size[d] != all)
        return wrong(v, "is not as long as the factors of its dimension", value);
    return value->unit[d] % minor == 0
               ? 0
               : wrong(v, "may be split inside of its dimension's minor factors", value);
}

/* Checks the number of dimensions; then those of single factors, or the compound ones. */
static int check_side(struct verify *v, struct side side, bool compound,
                      struct alone alone[SW_FACTORS])
{
    const bool sizes = !sw_op_is_ring(&v->p->ops[v->at]);
    for (uint16_t i = 0; i < side.count; i++) {
        const struct sw_value *value = &v->p->values[side.refs[i].value];
        const char *begin = side.pattern;
        struct sw_dims dims;
        const char *end = sw_dims_read(begin, value->ndim, &dims);
        side.pattern = *end == ',' ? end + 1 : begin; /* the last pattern repeats */
        if (end - begin == 1 && (*begin == '.' || *begin == '1'))
            continue;
        if (dims.count != value->ndim)
            return wrong(v, "has another number of dimensions than its op's factors", value);
        for (uint8_t d = 0; d < dims.count && sizes; d++) {
            const bool is_compound = dims.inner != 0 && dims.inner_of[d] != 0;
            if (is_compound != compound)
                continue;
            if ((compound ? check_compound(v, value, d, &dims, alone)
                          : check_dimension(v, value, d, &alone[dims.factor[d]])) != 0)
                return -1;
        }
    }
    return 0;
}

static int check_factors(struct verify *v, const struct sw_op *op)
{
    struct alone alone[SW_FACTORS] = {{NULL, 0}};
    const char *factors = sw_op_factors(v->p, op);
    if (factors == NULL)
        return 0;
    /* operands that a later pass added are shaped as the result */
    const struct side in = {factors, op->in, sw_op_own_operands(v->p, op)};
    const char *arrow = strstr(factors, "->");
    if (arrow == NULL)
        return wrong(v, "has no result in its op's factors", &v->p->values[op->in[0].value]);
    if (sw_op_info(op->kind)->form != NULL &&
        (!fits_count(factors, in.count) || !fits_count(arrow + 2, op->n_out)))
        return sw_fail(v->err, SW_ENVIRONMENT,
                       "op %d, %s of '%s' has %d operands and %d results, its form '%.*s'", v->at,
                       sw_op_info(op->kind)->name, v->region->name, in.count, op->n_out,
                       (int)strcspn(factors, "|"), factors);
    const size_t results = strcspn(arrow, "|");
    const struct side out = {arrow + 2, op->out,
                             op->n_out > 1 && memchr(arrow, ',', results) == NULL ? 1 : op->n_out};
    if (check_side(v, in, false, alone) != 0 || check_side(v, out, false, alone) != 0)
        return -1;
    return memchr(factors, '(', (size_t)(arrow - factors) + results) != NULL &&
                   (check_side(v, in, true, alone) != 0 || check_side(v, out, true, alone) != 0)
               ? -1
               : 0;
}

/* Checks that an unreduced sum is only added to, reduced, moved, or waited for. */
static int check_partials(struct verify *v, const struct sw_op *op)
{
    const struct sw_op_info *info = sw_op_info(op->kind);
    for (uint16_t i = 0; i < op->n_in && v->p->stage >= SW_PARTITIONED; i++) {
        const struct sw_value *value = &v->p->values[op->in[i].value];
        const bool added = i >= sw_op_own_operands(v->p, op);
        if (value->sharding.partial != 0 && !info->linear && !sw_op_is_move(op->kind) && !added &&
            !sw_op_is_wait(op->kind))
            return wrong(v, "is an unreduced sum", value);
    }
    return 0;
}

/* Checks that an op which writes a parameter also writes its copy. */
static int check_copy(struct verify *v, const struct sw_op *op, struct sw_ref written)
{
    const struct sw_program *p = v->p;
    struct sw_ref copy = written;
    copy.value++;
    if (copy.value >= p->value_count || !p->values[copy.value].copy)
        return 0;
    for (uint16_t i = 0; i < op->n_out; i++)
        if (sw_ref_equal(op->out[i], copy))
            return 0;
    return wrong(v, "is written without its copy", &p->values[written.value]);
}

static int check_op(struct verify *v, const struct sw_op *op)
{
    for (uint16_t i = 0; i < op->n_in; i++) {
        if (check_read(v, op->in[i]) != 0)
            return -1;
        const struct sw_value *value = &v->p->values[op->in[i].value];
        if (value->tiled && !sw_op_takes_tiles(v->p, op, i))
            return wrong(v, "lies in tiles, which its products alone read", value);
    }
    for (uint16_t i = 0; i < op->n_out; i++)
        if (check_ref(v, op->out[i]) != 0 || check_copy(v, op, op->out[i]) != 0)
            return -1;
    if (check_factors(v, op) != 0 || check_partials(v, op) != 0)
        return -1;
    for (uint16_t i = 0; i < op->n_out; i++)
        v->written[storage(v->p, op->out[i].value)] = true;
    return 0;
}

static int check_outputs(struct verify *v)
{
    const struct sw_program *p = v->p;
    for (int32_t i = 0; i < p->outputs.count; i++) {
        const int32_t value = p->outputs.at[i].value;
        if (value < 0 || value >= p->value_count)
            return sw_fail(v->err, SW_ENVIRONMENT, "output '%s' is not a value",
                           p->outputs.at[i].name);
        if (p->stage >= SW_PARTITIONED && p->values[value].sharding.partial != 0)
            return sw_fail(v->err, SW_ENVIRONMENT, "output '%s' is an unreduced sum",
                           p->outputs.at[i].name);
    }
    return 0;
}

int sw_program_verify(const struct sw_program *program, struct sw_error *err)
{
    struct verify v = {.p = program, .err = err};
    int status = -1;
    v.written = calloc((size_t)program->value_count + 1, sizeof *v.written);
    if (v.written == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while verifying the program");
    for (int32_t i = 0; i < program->value_count; i++)
        v.written[i] = program->values[i].role != SW_ROLE_ACTIVATION;
    for (int32_t r = 0; r < program->region_count; r++) {
        v.region = &program->regions[r];
        for (v.at = v.region->first_op; v.at < v.region->first_op + v.region->op_count; v.at++)
            if (check_op(&v, &program->ops[v.at]) != 0)
                goto out;
    }
    status = check_outputs(&v);
out:
    free(v.written);
    return status;
}
