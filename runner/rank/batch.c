#include "runner/rank/batch.h"

#include <string.h>

static int read_positions(void *context, const struct sw_ask *ask, void *to, struct sw_error *err)
{
    int32_t *position = to;
    (void)context;
    (void)err;
    for (int64_t i = 0; i < ask->rows * ask->row_elems; i++)
        position[i] = (int32_t)(i % ask->row_elems);
    return 0;
}

static int read_segments(void *context, const struct sw_ask *ask, void *to, struct sw_error *err)
{
    (void)context;
    (void)err;
    memset(to, 0, (size_t)(ask->rows * ask->row_elems) * sizeof(int32_t));
    return 0;
}

int32_t sw_batch_feeds(const struct sw_batch *batch, const struct sw_program *program,
                       struct sw_feed out[SW_BATCH_FEEDS])
{
    const sw_feed_reader read = batch->read;
    const sw_feed_reader segments = batch->documents ? read : read_segments;
    const int32_t positions = sw_program_input(program, "positions");
    const bool own = batch->documents && positions >= 0 && program->values[positions].ndim > 1;
    void *context = batch->context;
    const struct sw_feed feeds[SW_BATCH_FEEDS] = {
        {.name = "tokens", .read = read, .context = context},
        {.name = "labels", .read = read, .context = context, .padding = -1},
        {.name = "positions", .read = own ? read : read_positions, .context = context},
        {.name = "segments", .read = segments, .context = context},
        {.name = "key segments", .read = segments, .context = context}};
    int32_t count = 0;
    for (int32_t i = 0; i < SW_BATCH_FEEDS; i++)
        if (sw_program_input(program, feeds[i].name) >= 0)
            out[count++] = feeds[i];
    return count;
}

bool sw_batch_wants_labels(const struct sw_ask *ask)
{
    return strcmp(ask->name, "labels") == 0;
}
