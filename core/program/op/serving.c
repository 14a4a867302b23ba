/* Serving: the cache of keys and values, attention over it, and what becomes of the last token. */
#include "core/base/number.h"
#include "core/program/op/rows.h"

#define CACHE(field) .offset = offsetof(union sw_attributes, cache.field)
static const struct sw_attribute append_attributes[] = {
    {.name = "chunk", .type = SW_ATTRIBUTE_INT, CACHE(chunk)}, {.type = SW_ATTRIBUTE_END}};
static const struct sw_attribute append_int8_attributes[] = {
    {.name = "head_dim", .type = SW_ATTRIBUTE_INT, .costs = true, CACHE(head_dim)},
    {.name = "chunk", .type = SW_ATTRIBUTE_INT, CACHE(chunk)},
    {.type = SW_ATTRIBUTE_END}};
static const struct sw_attribute attention_attributes[] = {
    {.name = "head_dim", .type = SW_ATTRIBUTE_INT, .costs = true, CACHE(head_dim)},
    {.name = "group",
     .type = SW_ATTRIBUTE_INT,
     .symbol = SW_SIZE_GROUP,
     .costs = true,
     CACHE(group)},
    {.name = "chunk", .type = SW_ATTRIBUTE_INT, CACHE(chunk)},
    {.name = "scale", .type = SW_ATTRIBUTE_REAL, .prints = SW_PRINT_NEVER, CACHE(scale)},
    {.type = SW_ATTRIBUTE_END}};
static const struct sw_attribute chunk_attributes[] = {
    {.name = "head_dim", .type = SW_ATTRIBUTE_INT, .costs = true, CACHE(head_dim)},
    {.name = "group",
     .type = SW_ATTRIBUTE_INT,
     .symbol = SW_SIZE_GROUP,
     .costs = true,
     CACHE(group)},
    {.name = "chunk", .type = SW_ATTRIBUTE_INT, CACHE(chunk)},
    {.name = "parts", .type = SW_ATTRIBUTE_INT, .symbol = SW_SIZE_PARTS, CACHE(parts)},
    {.name = "scale", .type = SW_ATTRIBUTE_REAL, .prints = SW_PRINT_NEVER, CACHE(scale)},
    {.type = SW_ATTRIBUTE_END}};
#undef CACHE

/* What is appended is read and written; the rest of the cache is not touched. */
static struct sw_op_cost cost_append(const struct sw_program *p, const struct sw_op *op)
{
    return (struct sw_op_cost){0, 2 * sw_ref_bytes(p, op->in[1])};
}

/* A byte of each element, and a scale of each head. */
static struct sw_op_cost cost_append_int8(const struct sw_program *p, const struct sw_op *op)
{
    const int64_t elems = sw_ref_elems(p, op->in[1]);
    return (struct sw_op_cost){0, sw_ref_bytes(p, op->in[1]) + elems +
                                      elems / op->as.cache.head_dim * (int64_t)sizeof(float)};
}

/* With a full cache, which is read once: 2 products over every pair of a query and a position that
 * this rank has. */
static struct sw_op_cost cost_attention(const struct sw_program *p, const struct sw_op *op)
{
    const struct sw_value *q = &p->values[op->in[0].value], *keys = &p->values[op->in[1].value];
    return (struct sw_op_cost){4.0 * (double)q->local[0] * (double)q->local[1] *
                                   (double)q->local[2] * (double)keys->local[1],
                               sw_operand_bytes(p, op)};
}

/* One row in, one out. */
static struct sw_op_cost cost_pick(const struct sw_program *p, const struct sw_op *op)
{
    return (struct sw_op_cost){0, 2 * sw_ref_bytes(p, op->out[0])};
}

/* Nobody asks for the most probable tokens, but now and then: the logits are not read. */
static struct sw_op_cost cost_top(const struct sw_program *p, const struct sw_op *op)
{
    return (struct sw_op_cost){0, sw_ref_bytes(p, op->in[2]) + sw_ref_bytes(p, op->out[0])};
}

/* A number and the place of each candidate. */
static int64_t workspace_sample(const struct sw_program *p, const struct sw_op *op)
{
    const struct sw_value *logits = &p->values[op->in[0].value];
    return sw_align(logits->local[2] * (int64_t)(sw_dtype_bytes(logits->dtype) + sizeof(int32_t)),
                    SW_ARENA_ALIGNMENT);
}

const struct sw_op_info sw_row_rope_slots = {.name = "rope_slots",
                                             .factors = "bsh,bn->bsh",
                                             .attributes = sw_op_rope_attributes,
                                             .cost_class = SW_CLASS_MEMORY,
                                             .cost = sw_cost_memory};
const struct sw_op_info sw_row_cache_append = {.name = "cache_append",
                                               .factors = "btg,bsg,bn->btg",
                                               .beside = "ts",
                                               .attributes = append_attributes,
                                               .cost_class = SW_CLASS_MEMORY,
                                               .cost = cost_append};
const struct sw_op_info sw_row_decode_attention = {.name = "decode_attention",
                                                   .factors = "bsh,bth,bth,bn->bsht,bsht",
                                                   .attributes = attention_attributes,
                                                   .cost_class = SW_CLASS_ATTENTION,
                                                   .cost = cost_attention,
                                                   .workspace = sw_workspace_decode_attention};
const struct sw_op_info sw_row_softmax_merge = {.name = "softmax_merge",
                                                .factors = "bsht,bshu->bsh",
                                                .whole = "u",
                                                .cost_class = SW_CLASS_MEMORY,
                                                .cost = sw_cost_memory};
const struct sw_op_info sw_row_pick_token = {.name = "pick_token",
                                             .factors = "bse,bn->bue",
                                             .cost_class = SW_CLASS_MEMORY,
                                             .cost = cost_pick};
const struct sw_op_info sw_row_sample = {.name = "sample",
                                         .factors = "buv,bw,bk->bn",
                                         .whole = "v",
                                         .cost_class = SW_CLASS_MEMORY,
                                         .cost = sw_cost_memory,
                                         .workspace = workspace_sample};
const struct sw_op_info sw_row_top_tokens = {.name = "top_tokens",
                                             .factors = "buv,bk,bp->bn",
                                             .whole = "v",
                                             .cost_class = SW_CLASS_MEMORY,
                                             .cost = cost_top};
const struct sw_op_info sw_row_lm_head_logprobs = {.name = "lm_head_logprobs",
                                                   .factors = "bsv,bs->bs",
                                                   .whole = "v",
                                                   .cost_class = SW_CLASS_MEMORY,
                                                   .cost = sw_cost_memory};
const struct sw_op_info sw_row_cache_append_int8 = {.name = "cache_append_int8",
                                                    .factors = "btg,bsg,bn,btg->btg,btg",
                                                    .beside = "ts",
                                                    .attributes = append_int8_attributes,
                                                    .cost_class = SW_CLASS_MEMORY,
                                                    .cost = cost_append_int8};
const struct sw_op_info sw_row_decode_attention_int8 = {.name = "decode_attention_int8",
                                                        .factors =
                                                            "bsh,bth,bth,bn,bth,bth->bsht,bsht",
                                                        .attributes = attention_attributes,
                                                        .cost_class = SW_CLASS_ATTENTION,
                                                        .cost = cost_attention,
                                                        .workspace = sw_workspace_decode_attention};
const struct sw_op_info sw_row_chunk_attention = {.name = "chunk_attention",
                                                  .factors = "bsh,buh,buh,bn->bsh",
                                                  .whole = "u",
                                                  .attributes = chunk_attributes,
                                                  .cost_class = SW_CLASS_ATTENTION,
                                                  .cost = cost_attention};
