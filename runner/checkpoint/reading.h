/* Reads one rank's part of the files of a checkpoint, a stream of bytes
 * (core/checkpoint/exchange.h), by all threads of the rank's device. Each byte is read once. A
 * block is compared with the manifest before it is handed on, a chunk as far as its slices are
 * whole: the one that it ends within, with the next. So nothing counts until all was read.
 *
 * A *block* is some whole slices of a file, or what of them lies in the part. Threads take blocks
 * in their order, and the disk is asked for those to come. Either each block is handed on by the
 * thread that read it, from memory of its own that its cache holds, or a chunk of the exchange is
 * read as a whole. Owns its tables; borrows the rest. */
#ifndef SW_CHECKPOINT_READING_H
#define SW_CHECKPOINT_READING_H

#include "core/checkpoint/exchange.h"
#include "core/checkpoint/manifest.h"
#include "runner/rank/execute.h"

struct sw_reading_block;

struct sw_reading {
    const char *folder;
    const struct sw_exchange *exchange;
    const struct sw_manifest *manifest; /* NULL: nothing is compared */
    struct sw_device *device;           /* whose threads read */
    int32_t rank;
    /* its own */
    bool by_blocks;                 /* every block ends at a whole element */
    struct sw_reading_block *block; /* [block_count], in the order of the stream */
    int64_t block_count, most_bytes;
    int32_t *fd, *file_of; /* [threads]: an open file of each; fd -1: none */
    struct sw_checksum_stream *stream;
    int64_t bytes, reads; /* of data, so far */
};

/* The members above `its own` are set. Errors (SW_ENVIRONMENT): memory. */
int sw_reading_open(struct sw_reading *reading, struct sw_error *err);
void sw_reading_close(struct sw_reading *reading); /* also a half-opened or closed one */

/* Called on any of the threads, several at once. */
typedef int (*sw_stretch_visitor)(void *context, const struct sw_stretch *stretch, const char *data,
                                  struct sw_error *err);

/* Errors of both: SW_BAD_INPUT at the file: a checksum is wrong, the file is shorter;
 * SW_ENVIRONMENT. Of several the first in the stream.
 *
 * All of the part, if `by_blocks`; stops when visit fails. */
int sw_reading_run(struct sw_reading *reading, sw_stretch_visitor visit, void *context,
                   struct sw_error *err);
/* The chunk of a round, to `data`; rounds in order. */
int sw_reading_chunk(struct sw_reading *reading, int32_t round, char *data, struct sw_error *err);

/* Calls visit for a stretch, in pieces, on all threads. */
int sw_reading_visit(const struct sw_reading *reading, const struct sw_stretch *stretch,
                     const char *data, sw_stretch_visitor visit, void *context,
                     struct sw_error *err);

#endif
