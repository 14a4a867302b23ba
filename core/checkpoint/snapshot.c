/* The program `save`: one op over the whole state, round by round. It is built laid out. */
#include "core/checkpoint/snapshot.h"

#include "core/passes/passes.h"

#include <string.h>

static int32_t add_value(struct sw_builder *b, const struct sw_state_row *row)
{
    struct sw_dim dims[SW_MAX_DIMS];
    for (uint8_t d = 0; d < row->ndim; d++)
        dims[d] = (struct sw_dim){(enum sw_logical)row->axis[d], row->size[d], 1, SW_SIZE_FIXED};
    const int32_t index =
        sw_builder_value(b, row->name, row->role, row->dtype, row->ndim, dims, row->stack);
    struct sw_value *value = &b->program->values[index];
    value->initial = (uint8_t)row->initial;
    value->decay = row->decay;
    value->frozen = row->frozen;
    value->saved = row->saved;
    value->origin = row->origin;
    memcpy(value->padded, row->padded, sizeof value->padded);
    value->declared = value->sharding = row->sharding;
    return index;
}

static struct sw_snapshot_attributes describe(const struct sw_exchange *x)
{
    const struct sw_exchange_traffic most = sw_exchange_most_traffic(x);
    const uint64_t tables = sw_placement_digest(x->placement);
    struct sw_snapshot_attributes s = {.bytes = sw_placement_bytes(x->placement),
                                       .owned_bytes = sw_placement_most_bytes(x->placement),
                                       .chunk_bytes = x->chunk_bytes,
                                       .sent_bytes = most.sent_bytes,
                                       .messages = most.messages,
                                       .files = x->placement->file_count,
                                       .rounds = x->rounds};
    memcpy(&s.tables, &tables, sizeof s.tables);
    return s;
}

int sw_build_snapshot(const struct sw_program_options *options, const struct sw_exchange *exchange,
                      struct sw_program **out, struct sw_error *err)
{
    struct sw_program *p = sw_program_new();
    if (p == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while building the program");
    struct sw_builder b = {.program = p, .options = options, .region = -1};
    const sw_axis_set all = (1u << SW_AXIS_COUNT) - 1;
    p->kind = SW_PROGRAM_SAVE;
    p->mesh = options->mesh;
    p->layers = options->model.layers;
    p->sequence_length = options->sequence_length;
    p->tokens_per_step = options->global_batch * options->sequence_length;
    p->accumulation_steps = p->sequence_shards = 1;
    sw_builder_region(&b, "save", SW_PHASE_FORWARD, exchange->rounds, false);
    const int32_t op = sw_builder_op(&b, SW_OP_SNAPSHOT, SW_STAGE_MODEL);
    p->ops[op].as.snapshot = describe(exchange);
    p->ops[op].axes = sw_axes_effective(&p->mesh, sw_axes_from_set(all));
    for (int32_t i = 0; i < exchange->state->count; i++)
        if (!exchange->state->row[i].copy)
            sw_builder_in(
                &b, op,
                (struct sw_ref){add_value(&b, &exchange->state->row[i]), SW_INDEX_WHOLE, 0});
    p->stage = SW_SCHEDULED;
    if (b.failed)
        sw_fail(err, SW_ENVIRONMENT, "out of memory while building the program");
    if (b.failed || sw_layout(p, exchange->state, err) != 0) {
        sw_program_free(p);
        return -1;
    }
    *out = p;
    return 0;
}
