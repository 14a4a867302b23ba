/* Ops of serving: the cache of keys and values, and the last tokens. */
#include "core/base/number.h"
#include "core/ops/rows.h"
#include "core/ir/serving.h"

static const struct sw_attribute append_attributes[] = {
    {.name = "head_dim",
     .type = SW_ATTRIBUTE_INT,
     .prints = SW_PRINT_SET,
     .costs = true,
     .offset = offsetof(union sw_attributes, append.head_dim)},
    {.name = "chunk",
     .type = SW_ATTRIBUTE_INT,
     .offset = offsetof(union sw_attributes, append.chunk)},
    {.name = "ring",
     .type = SW_ATTRIBUTE_FLAG,
     .asks = true,
     .offset = offsetof(union sw_attributes, append.ring)},
    {.type = SW_ATTRIBUTE_END}};

static const struct sw_attribute merge_attributes[] = {
    {.name = "sink",
     .type = SW_ATTRIBUTE_FLAG,
     .asks = true,
     .offset = offsetof(union sw_attributes, merge.sink)},
    {.type = SW_ATTRIBUTE_END}};

static int32_t form_of_merge(const struct sw_program *p, const struct sw_op *op)
{
    (void)p;
    return op->as.merge.sink;
}

static int32_t form_of_append(const struct sw_program *p, const struct sw_op *op)
{
    return sw_has_scales(p->values[op->in[0].value].dtype);
}

/* Appended elements are read and written; in int8, a byte for each element and a scale for each
 * head. The rest of the cache is not touched. */
static struct sw_op_cost cost_append(const struct sw_program *p, const struct sw_op *op)
{
    const int64_t elems = sw_ref_elems(p, op->in[1]), bytes = sw_ref_bytes(p, op->in[1]);
    if (op->as.append.head_dim == 0)
        return (struct sw_op_cost){0, 2 * bytes};
    return (struct sw_op_cost){0, bytes + elems +
                                      elems / op->as.append.head_dim * (int64_t)sizeof(float)};
}

/* Rows are read and written. */
static struct sw_op_cost cost_rows(const struct sw_program *p, const struct sw_op *op)
{
    return (struct sw_op_cost){0, 2 * sw_ref_bytes(p, op->out[0])};
}

/* Picks the last token of each row or, if there are settings for fewer rows, of that many first
 * rows. */
static struct sw_op_cost cost_pick(const struct sw_program *p, const struct sw_op *op)
{
    return (struct sw_op_cost){0, 2 * sw_ref_bytes(p, op->out[0])};
}

static struct sw_op_met met_top(const struct sw_program *p, const struct sw_op *op,
                                const struct sw_workload *workload)
{
    (void)p;
    (void)op;
    const double share = workload != NULL ? workload->top_share : 0;
    return (struct sw_op_met){share, share};
}

/* Adjustments are read up to a row's number; most rows have none. */
static struct sw_op_cost cost_sample(const struct sw_program *p, const struct sw_op *op)
{
    struct sw_op_cost cost = sw_cost_memory(p, op);
    cost.memory_bytes -= sw_ref_bytes(p, op->in[3]);
    return cost;
}

/* Bytes of a number and an index for each candidate. */
static int64_t workspace_sample(const struct sw_program *p, const struct sw_op *op)
{
    const struct sw_value *logits = &p->values[op->in[0].value];
    return sw_align(logits->local[2] * (int64_t)(sw_dtype_bytes(logits->dtype) + sizeof(int32_t)),
                    SW_ARENA_ALIGNMENT);
}

const struct sw_op_info sw_row_cache_append = {.name = "cache_append",
                                               .factors = "btg,bsg,bn->btg|btg,bsg,bn,btg->btg,btg",
                                               .form = form_of_append,
                                               .pair = "ts",
                                               .pairing = SW_PAIR_CO_SPLIT,
                                               .attributes = append_attributes,
                                               .cost_class = SW_CLASS_MEMORY,
                                               .cost = cost_append};
const struct sw_op_info sw_row_cache_rows = {.name = "cache_rows",
                                             .factors = "btg,bn->btg",
                                             .cost_class = SW_CLASS_MEMORY,
                                             .cost = cost_rows};
const struct sw_op_info sw_row_softmax_merge = {.name = "softmax_merge",
                                                .factors = "bsht,bshu->bsh|bsht,bshu,h->bsh",
                                                .form = form_of_merge,
                                                .whole = "u",
                                                .attributes = merge_attributes,
                                                .cost_class = SW_CLASS_MEMORY,
                                                .cost = sw_cost_memory};
const struct sw_op_info sw_row_pick_token = {.name = "pick_token",
                                             .factors = "bse,bn->bue|ase,an,ck->cue",
                                             .pair = "ca",
                                             .pairing = SW_PAIR_CO_SPLIT,
                                             .cost_class = SW_CLASS_MEMORY,
                                             .cost = cost_pick};
const struct sw_op_info sw_row_sample = {.name = "sample",
                                         .factors = "buv,bw,bk,ba->bn",
                                         .whole = "v",
                                         .cost_class = SW_CLASS_MEMORY,
                                         .cost = cost_sample,
                                         .workspace = workspace_sample};
const struct sw_op_info sw_row_top_tokens = {.name = "top_tokens",
                                             .factors = "buv,bk,bp->bn",
                                             .whole = "v",
                                             .cost_class = SW_CLASS_MEMORY,
                                             .cost = sw_cost_memory,
                                             .met = met_top};
const struct sw_op_info sw_row_lm_head_logprobs = {.name = "lm_head_logprobs",
                                                   .factors = "bsv,bs->bs",
                                                   .whole = "v",
                                                   .cost_class = SW_CLASS_MEMORY,
                                                   .cost = sw_cost_memory};
