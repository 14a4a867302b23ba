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

/* Numbers of documents from 0 on in each row, made of its tokens. */
static int read_segments(void *context, const struct sw_ask *ask, void *to, struct sw_error *err)
{
    const struct sw_batch *batch = context;
    if (batch->read(batch->context, ask, to, err) != 0)
        return -1;
    for (int64_t row = 0; row < ask->rows; row++) {
        int32_t *token = (int32_t *)to + row * ask->row_elems, number = 0;
        for (int64_t i = 0; i < ask->row_elems; i++) {
            const bool ends = token[i] == batch->document_end;
            token[i] = number;
            number += ends;
        }
    }
    return 0;
}

int32_t sw_batch_feeds(const struct sw_batch *batch, const struct sw_program *program,
                       struct sw_feed out[SW_BATCH_FEEDS])
{
    const sw_feed_reader read = batch->read;
    void *context = batch->context, *whole = (void *)batch;
    const struct sw_feed feeds[SW_BATCH_FEEDS] = {
        {.name = "tokens", .read = read, .context = context},
        {.name = "labels", .read = read, .context = context, .padding = -1},
        {.name = "positions", .read = read_positions},
        {.name = "segments", .read = read_segments, .context = whole},
        {.name = "key segments", .read = read_segments, .context = whole}};
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
