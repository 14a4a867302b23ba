/* Attention over the ring or over a cache, and the ops that prepare its operands: positions and
 * copies of kv heads. */
#include "core/ops/rows.h"
#include "core/ir/ring.h"
#include "core/ir/serving.h"

#include <math.h>

static const struct sw_word words_keys[] = {{"sequence", SW_KEYS_SEQUENCE, NULL},
                                            {"cache_part", SW_KEYS_CACHE_PART, NULL},
                                            {"cache", SW_KEYS_CACHE, NULL},
                                            {NULL, 0, NULL}};

static const struct sw_attribute attention_attributes[] = {
    {.name = "keys",
     .type = SW_ATTRIBUTE_WORD,
     .words = words_keys,
     .costs = true,
     .offset = offsetof(union sw_attributes, attention.keys)},
    {.name = "positions",
     .type = SW_ATTRIBUTE_FLAG,
     .costs = true,
     .asks = true,
     .offset = offsetof(union sw_attributes, attention.positions)},
    {.name = "segments",
     .type = SW_ATTRIBUTE_FLAG,
     .costs = true,
     .asks = true,
     .offset = offsetof(union sw_attributes, attention.segments)},
    {.name = "sink",
     .type = SW_ATTRIBUTE_FLAG,
     .costs = true,
     .asks = true,
     .offset = offsetof(union sw_attributes, attention.sink)},
    {.name = "window",
     .type = SW_ATTRIBUTE_LONG,
     .prints = SW_PRINT_SET,
     .costs = true,
     .asks = true,
     .offset = offsetof(union sw_attributes, attention.window)},
    {.name = "softcap",
     .type = SW_ATTRIBUTE_REAL,
     .prints = SW_PRINT_SET,
     .costs = true,
     .asks = true,
     .offset = offsetof(union sw_attributes, attention.softcap)},
    {.name = "head_dim",
     .type = SW_ATTRIBUTE_INT,
     .costs = true,
     .offset = offsetof(union sw_attributes, attention.head_dim)},
    {.name = "group",
     .type = SW_ATTRIBUTE_INT,
     .symbol = SW_SIZE_GROUP,
     .costs = true,
     .offset = offsetof(union sw_attributes, attention.group)},
    {.name = "layout",
     .type = SW_ATTRIBUTE_WORD,
     .words = sw_words_layout,
     .costs = true,
     .offset = offsetof(union sw_attributes, attention.sequence_layout)},
    {.name = "sequence_shards",
     .type = SW_ATTRIBUTE_INT,
     .prints = SW_PRINT_NEVER,
     .symbol = SW_SIZE_SHARDS,
     .offset = offsetof(union sw_attributes, attention.sequence_shards)},
    {.name = "chunk",
     .type = SW_ATTRIBUTE_INT,
     .prints = SW_PRINT_SET,
     .offset = offsetof(union sw_attributes, attention.chunk)},
    {.name = "parts",
     .type = SW_ATTRIBUTE_INT,
     .prints = SW_PRINT_SET,
     .symbol = SW_SIZE_PARTS,
     .offset = offsetof(union sw_attributes, attention.parts)},
    {.name = "bf16_hops",
     .type = SW_ATTRIBUTE_FLAG,
     .costs = true,
     .offset = offsetof(union sw_attributes, attention.bf16_hops)},
    {.name = "inner_ring",
     .type = SW_ATTRIBUTE_INT,
     .prints = SW_PRINT_SET,
     .symbol = SW_SIZE_INNER,
     .may_be_zero = true,
     .costs = true,
     .offset = offsetof(union sw_attributes, attention.inner_ring)},
    {.name = "halo",
     .type = SW_ATTRIBUTE_FLAG,
     .costs = true,
     .asks = true,
     .offset = offsetof(union sw_attributes, attention.halo)},
    {.name = "scale",
     .type = SW_ATTRIBUTE_REAL,
     .prints = SW_PRINT_NEVER,
     .offset = offsetof(union sw_attributes, attention.scale)},
    {.type = SW_ATTRIBUTE_END}};

static const struct sw_attribute rope_attributes[] = {
    {.name = "head_dim",
     .type = SW_ATTRIBUTE_INT,
     .costs = true,
     .offset = offsetof(union sw_attributes, rope.head_dim)},
    {.name = "theta",
     .type = SW_ATTRIBUTE_REAL,
     .offset = offsetof(union sw_attributes, rope.rope.theta)},
    {.name = "rotated",
     .type = SW_ATTRIBUTE_INT,
     .prints = SW_PRINT_SET,
     .costs = true,
     .offset = offsetof(union sw_attributes, rope.rotated)},
    {.name = "scaling",
     .type = SW_ATTRIBUTE_INT,
     .prints = SW_PRINT_SET,
     .offset = offsetof(union sw_attributes, rope.rope.scaling)},
    {.name = "factor",
     .type = SW_ATTRIBUTE_REAL,
     .prints = SW_PRINT_SET,
     .offset = offsetof(union sw_attributes, rope.rope.factor)},
    {.name = "low_freq_factor",
     .type = SW_ATTRIBUTE_REAL,
     .prints = SW_PRINT_SET,
     .offset = offsetof(union sw_attributes, rope.rope.low_freq_factor)},
    {.name = "high_freq_factor",
     .type = SW_ATTRIBUTE_REAL,
     .prints = SW_PRINT_SET,
     .offset = offsetof(union sw_attributes, rope.rope.high_freq_factor)},
    {.name = "original_positions",
     .type = SW_ATTRIBUTE_LONG,
     .prints = SW_PRINT_SET,
     .offset = offsetof(union sw_attributes, rope.rope.original_positions)},
    {.name = "attention_factor",
     .type = SW_ATTRIBUTE_REAL,
     .prints = SW_PRINT_SET,
     .offset = offsetof(union sw_attributes, rope.rope.attention_factor)},
    {.name = "truncate",
     .type = SW_ATTRIBUTE_INT,
     .prints = SW_PRINT_SET,
     .offset = offsetof(union sw_attributes, rope.rope.truncate)},
    {.name = "inverse",
     .type = SW_ATTRIBUTE_FLAG,
     .offset = offsetof(union sw_attributes, rope.inverse)},
    {.name = "slots",
     .type = SW_ATTRIBUTE_FLAG,
     .costs = true,
     .offset = offsetof(union sw_attributes, rope.slots)},
    {.name = "rows",
     .type = SW_ATTRIBUTE_FLAG,
     .prints = SW_PRINT_SET,
     .costs = true,
     .offset = offsetof(union sw_attributes, rope.rows)},
    {.type = SW_ATTRIBUTE_END}};

static const struct sw_attribute copies_attributes[] = {
    {.name = "head_dim",
     .type = SW_ATTRIBUTE_INT,
     .costs = true,
     .offset = offsetof(union sw_attributes, copies.head_dim)},
    {.name = "copies",
     .type = SW_ATTRIBUTE_INT,
     .symbol = SW_SIZE_COPIES,
     .costs = true,
     .offset = offsetof(union sw_attributes, copies.copies)},
    {.type = SW_ATTRIBUTE_END}};

#define TWO_PI 6.283185307179586476925286766559

/* The pair that makes that many turns over the original length, as a real number: j where turns =
 * original / 2 pi theta^(-2j / rotated). */
static double pair_of_turns(const struct sw_rope *rope, double turns, double rotated)
{
    return rotated * log((double)rope->original_positions / (turns * TWO_PI)) /
           (2 * log(rope->theta));
}

/* Peng et al. 2023, as in transformers 5 (_compute_yarn_parameters): pairs up to the one that turns
 * high_freq_factor times keep their angles, from the one that turns low_freq_factor times on they
 * are divided, between them linearly. */
static double yarn_frequency(const struct sw_rope *rope, double rotated, double plain, int64_t j)
{
    double low = pair_of_turns(rope, rope->high_freq_factor, rotated);
    double high = pair_of_turns(rope, rope->low_freq_factor, rotated);
    if (rope->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = low > 0 ? low : 0;
    high = high < rotated - 1 ? high : rotated - 1;
    if (low == high)
        high += 0.001; /* width of transformers' step */
    const double ramp = ((double)j - low) / (high - low);
    const double stretched = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
    return plain / rope->factor * stretched + plain * (1 - stretched);
}

double sw_rope_frequency(const struct sw_rope_attributes *a, const float *divisors, int64_t j)
{
    const struct sw_rope *rope = &a->rope;
    const double plain = pow(rope->theta, -2.0 * (double)j / (double)sw_rope_rotated(a));
    if (rope->scaling == SW_ROPE_LINEAR)
        return plain / rope->factor;
    if (rope->scaling == SW_ROPE_YARN)
        return yarn_frequency(rope, (double)sw_rope_rotated(a), plain, j);
    if (rope->scaling == SW_ROPE_LONGROPE)
        return plain / (double)divisors[j];
    if (rope->scaling != SW_ROPE_LLAMA3)
        return plain;
    /* turns of the pair over the model's original length */
    const double turns = (double)rope->original_positions * plain / TWO_PI;
    if (turns < rope->low_freq_factor)
        return plain / rope->factor;
    if (turns > rope->high_freq_factor)
        return plain;
    const double kept =
        (turns - rope->low_freq_factor) / (rope->high_freq_factor - rope->low_freq_factor);
    return kept * plain + (1 - kept) * plain / rope->factor;
}

/* Sequences with positions (1), segments (2), a sink (4) as further operands; a part of a cache,
 * then one in int8; a whole cache, then one with a sink. Segments of keys are those of the whole
 * sequence: the ring does not send them. */
enum { FORM_PART = 8, FORM_PART_SCALED, FORM_CACHE };
static const char attention_factors[] = "bqh,bkh,bkh->bqh,bqh"
                                        "|bqh,bkh,bkh,q,k->bqh,bqh"
                                        "|bqh,bkh,bkh,bq,bw->bqh,bqh"
                                        "|bqh,bkh,bkh,q,k,bq,bw->bqh,bqh"
                                        "|bqh,bkh,bkh,h->bqh,bqh"
                                        "|bqh,bkh,bkh,q,k,h->bqh,bqh"
                                        "|bqh,bkh,bkh,bq,bw,h->bqh,bqh"
                                        "|bqh,bkh,bkh,q,k,bq,bw,h->bqh,bqh"
                                        "|bsh,bth,bth,bn->bsht,bsht"
                                        "|bsh,bth,bth,bn,bth,bth->bsht,bsht"
                                        "|bsh,buh,buh,bn->bsh"
                                        "|bsh,buh,buh,bn,h->bsh";
static const char attention_grad_factors[] = "bqh,bkh,bkh,bqh,bqh,bqh->bqh,bkh,bkh"
                                             "|bqh,bkh,bkh,bqh,bqh,bqh,q,k->bqh,bkh,bkh"
                                             "|bqh,bkh,bkh,bqh,bqh,bqh,bq,bw->bqh,bkh,bkh"
                                             "|bqh,bkh,bkh,bqh,bqh,bqh,q,k,bq,bw->bqh,bkh,bkh"
                                             "|bqh,bkh,bkh,bqh,bqh,bqh,h->bqh,bkh,bkh,h"
                                             "|bqh,bkh,bkh,bqh,bqh,bqh,q,k,h->bqh,bkh,bkh,h"
                                             "|bqh,bkh,bkh,bqh,bqh,bqh,bq,bw,h->bqh,bkh,bkh,h"
                                             "|bqh,bkh,bkh,bqh,bqh,bqh,q,k,bq,bw,h->bqh,bkh,bkh,h";

static int32_t form_of_attention(const struct sw_program *p, const struct sw_op *op)
{
    const struct sw_attention_attributes *as = &op->as.attention;
    if (as->keys == SW_KEYS_SEQUENCE)
        return as->positions + 2 * as->segments + 4 * as->sink;
    if (as->keys == SW_KEYS_CACHE)
        return FORM_CACHE + as->sink;
    return sw_has_scales(p->values[op->in[1].value].dtype) ? FORM_PART_SCALED : FORM_PART;
}

static int32_t form_of_rope(const struct sw_program *p, const struct sw_op *op)
{
    (void)p;
    return op->as.rope.rows ? 2 : op->as.rope.slots;
}

/* Keys that the first n positions of a sequence see in total, with a window. */
static double seen_up_to(double n, double window)
{
    return n <= window ? n * (n + 1) / 2 : window * (window + 1) / 2 + (n - window) * window;
}

/* Query-key pairs that the busiest rank scores, per sequence and head. Causal: half of the square
 * of its own block; then, for every hop, half a block (zigzag) or at worst a whole one
 * (contiguous). With a window: those of the last chunk (contiguous), or of the two in the
 * middle. */
static double causal_pairs(const struct sw_program *p, const struct sw_op *op)
{
    const double queries = (double)p->values[op->in[0].value].local[1];
    const double length = (double)p->values[op->in[0].value].size[1];
    const double window = (double)op->as.attention.window;
    const bool zigzag = op->as.attention.sequence_layout == SW_ZIGZAG && queries < length;
    if (window > 0 && window < length) {
        const double behind = zigzag ? (length + queries) / 2 : length;
        return seen_up_to(behind, window) - seen_up_to(behind - queries, window);
    }
    if (op->as.attention.sequence_layout == SW_ZIGZAG || queries == length)
        return queries * length / 2;
    return queries * (length - queries / 2);
}

static struct sw_op_cost cost_pairs(const struct sw_program *p, const struct sw_op *op,
                                    double products)
{
    const struct sw_value *q = &p->values[op->in[0].value];
    return (struct sw_op_cost){products * 2.0 * (double)q->local[0] * (double)q->local[2] *
                                   causal_pairs(p, op),
                               sw_operand_bytes(p, op)};
}

/* Share of a full cache's positions that a row's queries see: behind a window those before the
 * first query, and their own. */
static double seen_share(const struct sw_program *p, const struct sw_op *op)
{
    const int64_t window = op->as.attention.window, queries = p->values[op->in[0].value].local[1];
    const int64_t kept = p->values[op->in[1].value].size[1], seen = window + queries - 1;
    return window > 0 && seen < kept ? (double)seen / (double)kept : 1;
}

/* Cost with full slots, each read once for a row, as far as the row sees: 2 products over every
 * pair of a query and a position of this rank. Rows have at most as many slots as the cache. */
static struct sw_op_cost cost_cached(const struct sw_program *p, const struct sw_op *op)
{
    const struct sw_value *q = &p->values[op->in[0].value], *keys = &p->values[op->in[1].value];
    const double seen = seen_share(p, op);
    const int64_t slots = keys->local[0], rows = slots < q->local[0] ? slots : q->local[0];
    int64_t unread = 0; /* bytes of slots without rows, and of positions that no query sees */
    for (uint16_t i = 1; i < op->n_in; i++)
        if (p->values[op->in[i].value].size[1] == keys->size[1] && i != SW_ATTENTION_SLOTS) {
            const int64_t bytes = sw_ref_bytes(p, op->in[i]) / slots;
            unread += bytes * (slots - rows) + (int64_t)((double)(bytes * rows) * (1 - seen));
        }
    return (struct sw_op_cost){4.0 * (double)q->local[0] * (double)q->local[1] *
                                   (double)q->local[2] * (double)keys->local[1] * seen,
                               sw_operand_bytes(p, op) - unread};
}

/* Forward 2 matrix products over every pair (q kT, p v), backward 5 (q kT again, dv, dp, dq, dk).
 * Dao et al. 2022. */
static struct sw_op_cost cost_attention(const struct sw_program *p, const struct sw_op *op)
{
    return sw_op_is_ring(op) ? cost_pairs(p, op, 2) : cost_cached(p, op);
}

/* Mean share over `count` rows: the first `running` count as 1, the others as `share`. */
static double met_by(double count, double running, double share)
{
    return running < count ? (running + (count - running) * share) / count : 1;
}

/* A prompt's query follows half of the prompt, in the mean over its chunks and rows. A decoded
 * token is priced with a full cache, in a slot of its own. */
static struct sw_op_met met_attention(const struct sw_program *p, const struct sw_op *op,
                                      const struct sw_workload *workload)
{
    if (sw_op_is_ring(op) || p->kind == SW_PROGRAM_DECODE)
        return (struct sw_op_met){1, 1};
    const struct sw_value *keys = &p->values[op->in[1].value];
    const double cached = (double)keys->size[1] * seen_share(p, op), slots = (double)keys->local[0];
    const double rows = (double)p->values[op->in[0].value].local[0];
    const double running = workload != NULL ? (double)workload->running : 0;
    const int64_t prompt = workload != NULL ? workload->prompt_tokens : 0;
    const double mean = (double)(prompt > p->sequence_length ? prompt : p->sequence_length) / 2;
    const double share = mean < cached ? mean / cached : 1;
    return (struct sw_op_met){met_by(rows, running, share),
                              met_by(slots < rows ? slots : rows, running, share)};
}

static struct sw_op_cost cost_attention_grad(const struct sw_program *p, const struct sw_op *op)
{
    return cost_pairs(p, op, 5);
}

static double model_share_attention_grad(const struct sw_op *op)
{
    (void)op;
    return 4.0 / 5.0; /* the pairs are scored a second time */
}

/* k and v go to all other ranks; dk and dv go around, and from each inner ring to the next, back to
 * their owner. */
static int64_t communication_attention(const struct sw_program *p, const struct sw_op *op)
{
    struct sw_ring_blocks blocks;
    if (!sw_op_is_ring(op))
        return 0;
    sw_ring_blocks_of(p, op, &blocks);
    return sw_ring_sum(&blocks).bytes;
}

/* Operands: q, k, v, o, lse, do, then those behind q, k and v. */
static int vjp_attention(struct sw_autodiff *a, const struct sw_op *op, struct sw_error *err)
{
    (void)err;
    enum { MOST = 11 };
    const struct sw_ref dy = sw_autodiff_cotangent(a, op->out[0]);
    struct sw_ref in[MOST];
    int32_t n = 0;
    for (int32_t i = 0; i < 3; i++)
        in[n++] = sw_autodiff_use(a, op->in[i]);
    for (int32_t i = 0; i < 2; i++)
        in[n++] = sw_autodiff_use(a, op->out[i]);
    in[n++] = dy;
    for (uint16_t i = 3; i < op->n_in && n < MOST; i++)
        in[n++] = sw_autodiff_use(a, op->in[i]);
    const int32_t g = sw_autodiff_op(a, SW_OP_ATTENTION_GRAD);
    sw_autodiff_get(a, g)->as = op->as;
    for (int32_t i = 0; i < n; i++)
        sw_autodiff_in(a, g, in[i]);
    for (int32_t i = 0; i < 3; i++)
        sw_autodiff_out(a, g, op->in[i]);
    if (op->as.attention.sink)
        sw_autodiff_out(a, g, op->in[op->n_in - 1]);
    return 0;
}

static int vjp_rope(struct sw_autodiff *a, const struct sw_op *op, struct sw_error *err)
{
    (void)err;
    const struct sw_ref dy = sw_autodiff_cotangent(a, op->out[0]);
    const int32_t g = sw_autodiff_op(a, SW_OP_ROPE);
    struct sw_op *rotate = sw_autodiff_get(a, g);
    rotate->as = op->as;
    rotate->as.rope.inverse = !op->as.rope.inverse;
    sw_autodiff_in(a, g, dy);
    sw_autodiff_in(a, g, op->in[1]);
    sw_autodiff_out(a, g, op->in[0]);
    return 0;
}

static int vjp_replicate_heads(struct sw_autodiff *a, const struct sw_op *op, struct sw_error *err)
{
    (void)err;
    return sw_vjp_usual(a, op, 0, 1);
}

const struct sw_op_info sw_row_rope = {.name = "rope",
                                       .factors = "bsh,s->bsh|bsh,bn->bsh|bsh,bs->bsh",
                                       .form = form_of_rope,
                                       .attributes = rope_attributes,
                                       .cost_class = SW_CLASS_MEMORY,
                                       .vjp = vjp_rope,
                                       .cost = sw_cost_memory};
const struct sw_op_info sw_row_replicate_heads = {.name = "replicate_heads",
                                                  .factors = "bsg->bsh",
                                                  .pair = "gh",
                                                  .pairing = SW_PAIR_NESTED,
                                                  .attributes = copies_attributes,
                                                  .cost_class = SW_CLASS_MEMORY,
                                                  .gradient_kind = SW_OP_REPLICATE_HEADS_GRAD,
                                                  .vjp = vjp_replicate_heads,
                                                  .cost = sw_cost_memory};
const struct sw_op_info sw_row_replicate_heads_grad = {.name = "replicate_heads_grad",
                                                       .factors = "bsh->bsg",
                                                       .pair = "gh",
                                                       .pairing = SW_PAIR_NESTED,
                                                       .attributes = copies_attributes,
                                                       .cost_class = SW_CLASS_MEMORY,
                                                       .cost = sw_cost_memory};
const struct sw_op_info sw_row_attention = {.name = "attention",
                                            .factors = attention_factors,
                                            .form = form_of_attention,
                                            .pair = "qk",
                                            .pairing = SW_PAIR_RING,
                                            .whole = "uw",
                                            .attributes = attention_attributes,
                                            .cost_class = SW_CLASS_ATTENTION,
                                            .vjp = vjp_attention,
                                            .held = 2,
                                            .cost = cost_attention,
                                            .met = met_attention,
                                            .communication = communication_attention,
                                            .workspace = sw_workspace_attention};
const struct sw_op_info sw_row_attention_grad = {.name = "attention_grad",
                                                 .factors = attention_grad_factors,
                                                 .form = form_of_attention,
                                                 .pair = "qk",
                                                 .pairing = SW_PAIR_RING,
                                                 .attributes = attention_attributes,
                                                 .cost_class = SW_CLASS_ATTENTION,
                                                 .cost = cost_attention_grad,
                                                 .model_share = model_share_attention_grad,
                                                 .communication = communication_attention,
                                                 .workspace = sw_workspace_attention_grad};
