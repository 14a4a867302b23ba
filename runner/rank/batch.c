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

void sw_batch_feeds(sw_feed_reader read, void *context, struct sw_feed out[SW_BATCH_FEEDS])
{
    out[0] = (struct sw_feed){.name = "tokens", .read = read, .context = context};
    out[1] = (struct sw_feed){.name = "labels", .read = read, .context = context, .padding = -1};
    out[2] = (struct sw_feed){.name = "positions", .read = read_positions};
}

bool sw_batch_wants_labels(const struct sw_ask *ask)
{
    return strcmp(ask->name, "labels") == 0;
}
