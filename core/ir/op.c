/* Answers of an op's row. */
#include "core/base/quantize.h"
#include "core/ir/op.h"

#include <string.h>

/* ---- Factors ---- */

static void add_factor(struct sw_dims *dims, uint8_t factor)
{
    if (dims->count < SW_MAX_DIMS)
        dims->factor[dims->count] = factor;
    dims->count += dims->count <= SW_MAX_DIMS;
    dims->set |= 1u << factor;
}

/* Adds one compound dimension, '(' to ')'; returns the ')'. */
static const char *add_compound(const char *at, struct sw_dims *dims)
{
    uint32_t inner = 0;
    if (dims->inner == 0)
        memset(dims->inner_of, 0, sizeof dims->inner_of);
    add_factor(dims, sw_factor_of(*++at));
    while (*++at != ')')
        inner |= 1u << sw_factor_of(*at);
    if (dims->count <= SW_MAX_DIMS)
        dims->inner_of[dims->count - 1] = inner;
    dims->inner |= inner;
    dims->set |= inner;
    return at;
}

/* Number of dimensions that a pattern lists, without those of '.'. */
static uint8_t count_listed(const char *at)
{
    uint8_t count = 0;
    for (bool inside = false; *at != '\0' && *at != ',' && *at != '-' && *at != '|'; at++) {
        inside = *at == '(' || (inside && *at != ')');
        count += *at != '.' && !inside;
    }
    return count;
}

const char *sw_dims_read(const char *pattern, uint8_t ndim, struct sw_dims *out)
{
    const char *at = pattern;
    out->count = 0;
    out->set = out->inner = 0;
    for (; *at != '\0' && *at != ',' && *at != '-' && *at != '|'; at++) {
        if (*at == '(') {
            at = add_compound(at, out);
        } else if (*at != '.') {
            add_factor(out, sw_factor_of(*at));
        } else {
            const int rest = ndim - count_listed(pattern);
            for (int d = 0; d < rest; d++)
                add_factor(out, (uint8_t)(SW_FACTOR_REST + d));
        }
    }
    return at;
}

/* Matches patterns up to the end of a side with the operands' numbers of dimensions. */
static const char *match_side(const struct sw_program *p, const char *at, const struct sw_ref *refs,
                              uint16_t count, bool *fits)
{
    for (uint16_t i = 0; *fits; i++) {
        const uint8_t ndim = i < count ? p->values[refs[i].value].ndim : 0;
        struct sw_dims dims;
        dims.count = (uint8_t)strcspn(at, ",-|(."); /* letters only */
        const char after = at[dims.count];
        at = after == '(' || after == '.' ? sw_dims_read(at, ndim, &dims) : at + dims.count;
        *fits = i < count && dims.count == ndim;
        if (*at != ',') {
            *fits = *fits && i + 1 == count;
            break;
        }
        at++;
    }
    return at;
}

uint16_t sw_op_addend(const struct sw_program *p, const struct sw_op *op)
{
    const uint16_t addend = sw_op_rows[op->kind]->addend;
    return addend > 0 ? addend + sw_has_scales(p->values[op->in[1].value].dtype) : 0;
}

bool sw_op_takes_tiles(const struct sw_program *p, const struct sw_op *op, uint16_t operand)
{
    const struct sw_ref ref = op->in[operand];
    return operand > 0 && sw_op_rows[op->kind]->tiled == operand && ref.mode != SW_INDEX_WHOLE &&
           sw_parameter_is_turned(p->values[ref.value].parameter) == (op->kind != SW_OP_LINEAR);
}

uint16_t sw_op_own_operands(const struct sw_program *p, const struct sw_op *op)
{
    const uint16_t addend = sw_op_addend(p, op);
    if (addend > 0 && op->n_in > addend)
        return addend;
    return op->n_in - sw_op_adds_gradient(op);
}

const char *sw_op_factors(const struct sw_program *p, const struct sw_op *op)
{
    const struct sw_op_info *info = sw_op_rows[op->kind];
    const char *first = info->factors, *form = first;
    if (first == NULL || strchr(first, '|') == NULL)
        return first;
    if (info->form != NULL) {
        for (int32_t before = info->form(p, op); before > 0; before--)
            form = strchr(form, '|') + 1;
        return form;
    }
    const uint16_t given = sw_op_own_operands(p, op);
    while (form != NULL) {
        bool fits = true;
        const char *end = match_side(p, form, op->in, given, &fits);
        if (fits)
            (void)match_side(p, end + strlen("->"), op->out, op->n_out, &fits);
        if (fits)
            return form;
        form = strchr(form, '|');
        if (form != NULL)
            form++;
    }
    return first; /* no form fits: verify reports it */
}

bool sw_op_returns_to_owner(enum sw_op_kind kind)
{
    const struct sw_op_info *info = sw_op_rows[kind];
    if (info->pair == NULL || info->pairing != SW_PAIR_RING)
        return false;
    const char *results = strstr(info->factors, "->"); /* the first form: a sequence */
    return memchr(results, info->pair[1], strcspn(results, "|")) != NULL;
}

bool sw_op_reads(const struct sw_program *p, const struct sw_op *op, enum sw_role role)
{
    for (uint16_t i = 0; i < op->n_in; i++)
        if (op->in[i].value >= 0 && p->values[op->in[i].value].role == role)
            return true;
    return false;
}

int32_t sw_attention_operand(const struct sw_op *op, enum sw_attention_pair pair)
{
    const struct sw_attention_attributes *as = &op->as.attention;
    const int32_t first = op->kind == SW_OP_ATTENTION_GRAD ? 6 : 3; /* q, k, v (, o, lse, do) */
    if (as->keys != SW_KEYS_SEQUENCE ||
        !(pair == SW_ATTENTION_POSITIONS ? as->positions : as->segments))
        return -1;
    return first + (pair == SW_ATTENTION_SEGMENTS && as->positions ? 2 : 0);
}

/* ---- Costs ---- */

struct sw_op_cost sw_op_cost(const struct sw_program *p, const struct sw_op *op)
{
    const struct sw_op_info *info = sw_op_rows[op->kind];
    struct sw_op_cost cost = {0, 0};
    if (info->cost != NULL)
        cost = info->cost(p, op);
    if (info->products != NULL) {
        struct sw_product product[SW_OP_MAX_PRODUCTS];
        const int32_t count = info->products(p, op, product);
        for (int32_t i = 0; i < count; i++)
            cost.flops += 2 * product[i].m * product[i].n * product[i].k;
    }
    return cost;
}

int64_t sw_op_addend_bytes(const struct sw_program *program, const struct sw_op *op)
{
    const uint16_t addend = sw_op_addend(program, op);
    return addend > 0 && op->n_in > addend ? sw_ref_bytes(program, op->in[addend]) : 0;
}

int64_t sw_op_communication_bytes(const struct sw_program *program, const struct sw_op *op)
{
    const struct sw_op_info *info = sw_op_rows[op->kind];
    return info->communication != NULL ? info->communication(program, op) : 0;
}

int64_t sw_program_sent_bytes(const struct sw_program *p)
{
    int64_t bytes = 0;
    for (int32_t r = 0; r < p->region_count; r++)
        for (int32_t i = p->regions[r].first_op;
             i < p->regions[r].first_op + p->regions[r].op_count; i++)
            bytes += sw_op_communication_bytes(p, &p->ops[i]) *
                     sw_region_times(&p->regions[r], p->ops[i].position);
    return bytes;
}

/* ---- Attributes ---- */

int64_t sw_attribute_int(const struct sw_op *op, const struct sw_attribute *attribute)
{
    const char *at = (const char *)&op->as + attribute->offset;
    switch ((enum sw_attribute_type)attribute->type) {
    case SW_ATTRIBUTE_INT:
    case SW_ATTRIBUTE_WORD:
        return *(const int32_t *)(const void *)at;
    case SW_ATTRIBUTE_LONG:
        return *(const int64_t *)(const void *)at;
    case SW_ATTRIBUTE_FLAG:
        return *(const bool *)at;
    case SW_ATTRIBUTE_REAL:
    case SW_ATTRIBUTE_END:
        break;
    }
    return 0;
}

double sw_attribute_real(const struct sw_op *op, const struct sw_attribute *attribute)
{
    return *(const double *)(const void *)((const char *)&op->as + attribute->offset);
}
