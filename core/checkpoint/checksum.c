#include "core/checkpoint/manifest.h"

#include <stdlib.h>
#include <xxhash.h>

/* The library's state is allocated by the library: it must be aligned. */
struct sw_checksum_stream {
    XXH3_state_t *state;
};

static struct sw_checksum checksum_of(XXH128_hash_t hash)
{
    return (struct sw_checksum){.low = hash.low64, .high = hash.high64};
}

struct sw_checksum sw_checksum_of(const void *data, size_t bytes)
{
    return checksum_of(XXH3_128bits(data, bytes));
}

bool sw_checksum_equal(struct sw_checksum a, struct sw_checksum b)
{
    return a.low == b.low && a.high == b.high;
}

struct sw_checksum_stream *sw_checksum_begin(void)
{
    struct sw_checksum_stream *stream = malloc(sizeof *stream);
    if (stream == NULL)
        return NULL;
    stream->state = XXH3_createState();
    if (stream->state != NULL && XXH3_128bits_reset(stream->state) == XXH_OK)
        return stream;
    sw_checksum_free(stream);
    return NULL;
}

/* The library refuses only a missing state or missing data. */
void sw_checksum_add(struct sw_checksum_stream *stream, const void *data, size_t bytes)
{
    if (bytes > 0)
        (void)XXH3_128bits_update(stream->state, data, bytes);
}

struct sw_checksum sw_checksum_take(struct sw_checksum_stream *stream)
{
    const struct sw_checksum sum = checksum_of(XXH3_128bits_digest(stream->state));
    (void)XXH3_128bits_reset(stream->state);
    return sum;
}

void sw_checksum_free(struct sw_checksum_stream *stream)
{
    if (stream != NULL)
        (void)XXH3_freeState(stream->state);
    free(stream);
}
