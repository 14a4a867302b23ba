/* Claims: the axes that split each factor of an op, and from them the wanted shardings of its
 * operands and the actual ones of its results. */
#include "core/passes/partition_internal.h"

#include <string.h>

/* An op's factors, with the axes that split them. */
struct factors {
    struct sw_dims *in, *out;
    struct sw_axes claim[SW_FACTORS]; /* axes of decided factors */
    uint32_t decided;                 /* bit for each decided factor */
    sw_axis_set claimed;
};

/* Parses the operands' patterns of one side; returns their end. */
static const char *parse_side(struct sw_partition *part, const char *at, struct factors *f,
                              struct sw_dims *dims, const struct sw_ref *refs, uint16_t count)
{
    const char *end = at;
    for (uint16_t i = 0; i < count; i++) {
        end = sw_dims_read(at, sw_partition_value(part, refs[i].value)->ndim, &dims[i]);
        f->decided |= dims[i].inner;     /* whole: only the major factor of a dimension is split */
        at = *end == ',' ? end + 1 : at; /* the last pattern repeats: grad_norm's scalars */
    }
    return end + strcspn(end, "-|");
}

static void parse_factors(struct sw_partition *part, const struct sw_op *logical,
                          const struct sw_op *op, struct factors *f)
{
    f->in = part->dims;
    f->out = part->dims + op->n_in;
    memset(f->claim, 0, sizeof f->claim);
    f->decided = 1u << SW_FACTOR_SCALAR;
    f->claimed = 0;
    const char *arrow =
        parse_side(part, sw_op_factors(part->logical, logical), f, f->in, op->in, op->n_in);
    parse_side(part, *arrow == '-' ? arrow + 2 : arrow, f, f->out, op->out, op->n_out);
}

static struct sw_axes common_prefix(struct sw_axes a, struct sw_axes b)
{
    uint8_t n = 0;
    while (n < a.count && n < b.count && a.axis[n] == b.axis[n])
        n++;
    a.count = n;
    return a;
}

/* The axes on which all operands that have the factor agree. */
static struct sw_axes agreement(struct sw_partition *part, const struct sw_op *op,
                                const struct factors *f, uint8_t factor, const struct sw_ref *in)
{
    struct sw_axes axes = {0};
    bool any = false;
    for (uint16_t i = 0; i < op->n_in; i++)
        for (uint8_t d = 0; f->in[i].set >> factor & 1u && d < f->in[i].count; d++)
            if (f->in[i].factor[d] == factor) {
                struct sw_axes split = sw_partition_value(part, in[i].value)->sharding.spec.dim[d];
                axes = any ? common_prefix(axes, split) : split;
                any = true;
            }
    return axes;
}

static bool is_decided(const struct factors *f, uint8_t factor)
{
    return f->decided >> factor & 1u;
}

static void claim(struct factors *f, uint8_t factor, struct sw_axes axes)
{
    struct sw_axes free_axes = {0};
    for (uint8_t i = 0; i < axes.count; i++)
        if (!(f->claimed & (1u << axes.axis[i])))
            free_axes.axis[free_axes.count++] = axes.axis[i];
    f->claim[factor] = free_axes;
    f->decided |= 1u << factor;
    f->claimed |= sw_axes_set(free_axes);
}

/* The queries' axes; also the keys', which travel along them, if both are split alike. */
static void claim_ring(struct sw_partition *part, struct sw_op *op, struct factors *f,
                       const struct sw_ref *in, uint8_t queries, uint8_t keys)
{
    const struct sw_axes axes = agreement(part, op, f, queries, in);
    claim(f, queries, axes);
    if (axes.count > 0 && sw_axes_equal(axes, agreement(part, op, f, keys, in)))
        f->claim[keys] = op->axes = axes;
}

/* An operand appended to a cache claims the cache's axes if it is split by them, too; a whole one
 * stays whole, and every rank keeps the part that is its own. */
static void claim_co_split(struct sw_partition *part, const struct sw_op *op, struct factors *f,
                           const struct sw_ref *in, uint8_t there, uint8_t put)
{
    const struct sw_axes axes = agreement(part, op, f, there, in);
    claim(f, there, axes);
    if (sw_axes_equal(axes, agreement(part, op, f, put, in)))
        f->claim[put] = axes;
}

/* Copies of kv heads: blocks of the few heads nest in those of the many along a common prefix. */
static void claim_nested(struct sw_partition *part, const struct sw_op *op, struct factors *f,
                         const struct sw_ref *in, uint8_t few, uint8_t many)
{
    const bool forward = f->in[0].set >> few & 1u; /* from few to many */
    const uint8_t d = (uint8_t)(f->in[0].count - 1);
    const struct sw_axes source = sw_partition_value(part, in[0].value)->sharding.spec.dim[d];
    const struct sw_axes declared =
        sw_partition_value(part, op->out[0].value)->declared.spec.dim[d];
    f->claim[many] = forward ? declared : source;
    f->claim[few] = common_prefix(source, declared);
    f->claimed |= sw_axes_set(f->claim[many]);
}

static void claim_pair(struct sw_partition *part, struct sw_op *op, struct factors *f,
                       const struct sw_ref *in)
{
    const struct sw_op_info *info = sw_op_info(op->kind);
    if (info->pair == NULL)
        return;
    const uint8_t first = sw_factor_of(info->pair[0]), second = sw_factor_of(info->pair[1]);
    if (info->pairing == SW_PAIR_RING)
        claim_ring(part, op, f, in, first, second);
    else if (info->pairing == SW_PAIR_NESTED)
        claim_nested(part, op, f, in, first, second);
    else
        claim_co_split(part, op, f, in, first, second);
    f->decided |= 1u << first | 1u << second;
}

/* A factor padded in one operand but not in another is split in neither, since their shards would
 * have different elements. */
static void leave_padded_whole(struct sw_partition *part, const struct sw_op *op, struct factors *f,
                               const struct sw_ref *in)
{
    if (!part->pads)
        return;
    int64_t length[SW_FACTORS] = {0};
    uint32_t padded = 0, differ = 0; /* one bit for each factor */
    for (uint16_t i = 0; i < op->n_in + op->n_out; i++) {
        const bool given = i < op->n_in;
        const struct sw_value *value =
            sw_partition_value(part, given ? in[i].value : op->out[i - op->n_in].value);
        const struct sw_dims *dims = given ? &f->in[i] : &f->out[i - op->n_in];
        for (uint8_t d = 0; d < dims->count; d++) {
            const uint32_t bit = 1u << dims->factor[d];
            int64_t *known = &length[dims->factor[d]];
            padded |= value->padded[d] != value->size[d] ? bit : 0;
            if (dims->inner != 0 && dims->inner_of[d] != 0) { /* its length is the product of
                                                                 several factors */
                f->decided |= value->padded[d] != value->size[d] ? bit : 0;
                continue;
            }
            differ |= *known != 0 && *known != value->padded[d] ? bit : 0;
            *known = value->padded[d];
        }
    }
    f->decided |= padded & differ;
}

static void decide_claims(struct sw_partition *part, struct sw_op *op, struct factors *f,
                          const struct sw_ref *in)
{
    const char *whole = sw_op_info(op->kind)->whole;
    uint32_t in_every_result = UINT32_MAX;
    for (; whole != NULL && *whole != '\0'; whole++)
        f->decided |= 1u << sw_factor_of(*whole);
    leave_padded_whole(part, op, f, in);
    claim_pair(part, op, f, in);
    for (uint16_t i = 0; i < op->n_out; i++)
        in_every_result &= f->out[i].set;
    for (uint16_t i = 0; i < op->n_in; i++)
        for (uint8_t d = 0; d < f->in[i].count; d++) {
            const uint8_t factor = f->in[i].factor[d];
            if (!is_decided(f, factor) && !(in_every_result >> factor & 1u))
                claim(f, factor, agreement(part, op, f, factor, in));
        }
    for (uint16_t i = 0; i < op->n_out; i++)
        for (uint8_t d = 0; d < f->out[i].count; d++)
            if (!is_decided(f, f->out[i].factor[d]))
                claim(f, f->out[i].factor[d],
                      sw_partition_value(part, op->out[i].value)->declared.spec.dim[d]);
}

static struct sw_sharding claimed_sharding(const struct factors *f, const struct sw_dims *dims)
{
    struct sw_sharding sharding;
    memset(&sharding, 0, sizeof sharding);
    sharding.spec.ndim = dims->count;
    for (uint8_t d = 0; d < dims->count; d++)
        sharding.spec.dim[d] = f->claim[dims->factor[d]];
    return sharding;
}

/* A split factor that is not in the result leaves an unreduced sum there, except along a ring,
 * which visits every block of keys or queries. */
static sw_axis_set partial_of(const struct sw_op *op, const struct factors *f, uint16_t out)
{
    const char *pair = sw_op_info(op->kind)->pair;
    const uint32_t visited =
        pair != NULL ? 1u << sw_factor_of(pair[0]) | 1u << sw_factor_of(pair[1]) : 0;
    sw_axis_set partial = 0, split = f->out[out].set & visited ? sw_axes_set(op->axes) : 0;
    for (uint16_t i = 0; i < op->n_in; i++)
        for (uint8_t d = 0; d < f->in[i].count; d++)
            if (!(f->out[out].set >> f->in[i].factor[d] & 1u))
                partial |= sw_axes_set(f->claim[f->in[i].factor[d]]);
    for (uint8_t d = 0; d < f->out[out].count; d++)
        split |= sw_axes_set(f->claim[f->out[out].factor[d]]);
    return partial & (sw_axis_set)~split;
}

/* Sets the wanted shardings of operands, scalars unchanged, and the actual ones of results. */
static void claim_all(struct sw_partition *part, const struct sw_op *logical, struct sw_op *op,
                      struct sw_sharding *wanted, struct sw_sharding *results)
{
    struct factors f;
    parse_factors(part, logical, op, &f);
    decide_claims(part, op, &f, op->in);
    for (uint16_t i = 0; i < op->n_in; i++) {
        const bool scalar = f.in[i].count > 0 && f.in[i].factor[0] == SW_FACTOR_SCALAR;
        wanted[i] = scalar ? sw_partition_value(part, op->in[i].value)->sharding
                           : claimed_sharding(&f, &f.in[i]);
    }
    for (uint16_t i = 0; i < op->n_out; i++) {
        results[i] = claimed_sharding(&f, &f.out[i]);
        results[i].partial = partial_of(op, &f, i);
    }
}

static bool is_like(struct sw_partition *part, const struct decision *d, const struct sw_op *op)
{
    if (d->n_in != op->n_in || d->n_out != op->n_out)
        return false;
    for (uint16_t i = 0; i < op->n_in; i++)
        if (!sw_sharding_equal(&d->given[i], &sw_partition_value(part, op->in[i].value)->sharding))
            return false;
    for (uint16_t i = 0; i < op->n_out; i++)
        if (!sw_sharding_equal(&d->given[op->n_in + i],
                               &sw_partition_value(part, op->out[i].value)->declared))
            return false;
    return true;
}

/* The decision of claim_all, from the recent ones of the op's kind if it is among them. */
static const struct decision *find_decision(struct sw_partition *part, const struct sw_op *logical,
                                            struct sw_op *op)
{
    const char *factors = sw_op_factors(part->logical, logical);
    struct decision *last = &part->decisions[op->kind * DECISIONS], *d = last;
    const uint16_t n = op->n_in;
    for (; d < last + DECISIONS && d->factors != NULL; d++)
        if (d->factors == factors && is_like(part, d, op))
            return d;
    d = d < last + DECISIONS ? d : last;
    d->factors = factors;
    d->n_in = n;
    d->n_out = op->n_out;
    for (uint16_t i = 0; i < n; i++)
        d->given[i] = sw_partition_value(part, op->in[i].value)->sharding;
    for (uint16_t i = 0; i < op->n_out; i++)
        d->given[n + i] = sw_partition_value(part, op->out[i].value)->declared;
    claim_all(part, logical, op, d->sharding, &d->sharding[n]);
    d->axes = op->axes;
    return d;
}

const struct sw_sharding *sw_claims_decide(struct sw_partition *part, const struct sw_op *logical,
                                           struct sw_op *op)
{
    /* with padded dimensions, claims follow from sizes, too */
    if (part->pads || op->n_in + op->n_out > MOST_DECIDED) {
        claim_all(part, logical, op, part->wanted, part->results);
        return part->wanted;
    }
    const struct decision *d = find_decision(part, logical, op);
    memcpy(part->results, &d->sharding[op->n_in], op->n_out * sizeof *part->results);
    op->axes = d->axes;
    return d->sharding;
}
