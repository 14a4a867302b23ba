/* Reads one rank's part of a checkpoint's files, a stream of bytes (core/checkpoint/exchange.h), by
 * all threads of its device, each byte once. A block is compared with the manifest before it is
 * used; a chunk only in its whole slices, the last one with the next chunk. So results count only
 * when all was read.
 *
 * A *block* is whole slices of a file, or their parts in the stream. Threads take blocks in order,
 * and the disk prefetches the next. Either the reading thread uses each block itself, from its
 * cached buffer, or a whole chunk of the exchange is read. Owns its tables; borrows the rest. */
#ifndef SW_CHECKPOINT_READING_H
#define SW_CHECKPOINT_READING_H

#include "core/checkpoint/exchange.h"
#include "core/checkpoint/manifest.h"
#include "runner/rank/execute.h"

struct sw_reading_block;

struct sw_reading {
    const char *folder;
    const struct sw_exchange *exchange;
    const struct sw_manifest *manifest; /* NULL: no comparison */
    struct sw_device *device;           /* its threads read */
    int32_t rank;
    /* private */
    bool by_blocks;                 /* true if every block ends at a whole element */
    struct sw_reading_block *block; /* [block_count], in stream order */
    int64_t block_count, most_bytes;
    int32_t *fd, *file_of; /* [threads]: each one's open file; fd -1: none */
    struct sw_checksum_stream *stream;
    int64_t bytes, reads; /* counts of data so far */
};

/* The caller sets the members above `private`. Errors (SW_ENVIRONMENT): memory. */
int sw_reading_open(struct sw_reading *reading, struct sw_error *err);
void sw_reading_close(struct sw_reading *reading); /* may be half-open or closed */

/* Called on any thread, several at once. */
typedef int (*sw_stretch_visitor)(void *context, const struct sw_stretch *stretch, const char *data,
                                  struct sw_error *err);

/* Errors of both: SW_BAD_INPUT at the file: wrong checksum, too short; SW_ENVIRONMENT. Of several,
 * the first in the stream.
 *
 * Reads the whole part, if `by_blocks`; stops if visit fails. */
int sw_reading_run(struct sw_reading *reading, sw_stretch_visitor visit, void *context,
                   struct sw_error *err);
/* Reads a round's chunk into `data`; rounds in order. */
int sw_reading_chunk(struct sw_reading *reading, int32_t round, char *data, struct sw_error *err);

/* Calls visit for pieces of a stretch on all threads. */
int sw_reading_visit(const struct sw_reading *reading, const struct sw_stretch *stretch,
                     const char *data, sw_stretch_visitor visit, void *context,
                     struct sw_error *err);

#endif
