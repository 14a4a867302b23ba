/* Which elements go from which rank to which when a state that is sharded over a mesh is written to
 * files that are dealt to ranks otherwise, or read from them.
 *
 * The rank that has a part of the files (placement.h) is its *owner*, a rank in whose shard
 * elements lie their *holder*. An owner's extents, one behind the other, are a stream of bytes,
 * which is cut into *chunks* of at most chunk_bytes; in *round* r every owner's chunk r is at hand.
 * What lies in one chunk and one holder's shard is a list of *pieces*, boxes of a tensor: the runs
 * of elements that a chunk is, cut along rows (a part of a row, whole rows, a part of a row),
 * intersected with the shard. The message between owner and holder is the pieces one behind the
 * other, each as the holder has it: row-major in the orientation and the dtype of the state's row.
 *
 * Saving: where several ranks hold the same shard, the one with the owner's coordinates along the
 * axes that do not split the tensor sends: the owner itself wherever it can. Loading: all of them
 * receive. A pure function of the tables, which every rank has. Borrows state and placement. */
#ifndef SW_CHECKPOINT_EXCHANGE_H
#define SW_CHECKPOINT_EXCHANGE_H

#include "core/checkpoint/placement.h"

enum { SW_CHUNK_LEAST_BYTES = 64 };

struct sw_exchange {
    const struct sw_state *state;
    const struct sw_placement *placement;
    struct sw_mesh mesh;
    bool loading;
    int64_t chunk_bytes; /* no chunk is longer, and no message: these have the row's dtype, so where
                            that is wider than the file's, chunks are shorter */
    int32_t rounds;      /* of the owner with the most */
    /* its own */
    int64_t step_bytes; /* of a stream, from round to round */
    int64_t *stream;    /* [extents]: where an extent begins in its owner's stream */
};

/* chunk_bytes 0: sw_exchange_chunk_bytes without room; else at least SW_CHUNK_LEAST_BYTES. The
 * placement is dealt to as many ranks as the mesh has. Errors (SW_ENVIRONMENT): memory. */
int sw_exchange_make(const struct sw_state *state, const struct sw_placement *placement,
                     const struct sw_mesh *mesh, bool loading, int64_t chunk_bytes,
                     struct sw_exchange *out, struct sw_error *err);
void sw_exchange_free(struct sw_exchange *exchange); /* also a zeroed one */

/* A chunk has a MiB for each rank, so that messages are long enough for their latency not to count
 * and short enough for caches, from 4 up to 64 MiB. But two take no more than room_bytes (what is
 * there anyway: the transients of training) or, where that is more, each a sixteenth of the largest
 * owner's bytes, at least 64 KiB: saving is no reason for a larger arena. */
int64_t sw_exchange_chunk_bytes(const struct sw_placement *placement, int64_t room_bytes);

/* Consecutive bytes of a file that are a part of a chunk. */
struct sw_span_of_file {
    int32_t file;
    int64_t begin, end;
    int64_t at; /* offset in the chunk */
};
/* The spans of an owner's chunk, in order: span number `i`; false: there are no more. The bytes of
 * the chunk: 0 beyond the owner's last. Chunks end at whole elements. */
bool sw_exchange_span(const struct sw_exchange *exchange, int32_t owner, int32_t round, int32_t i,
                      struct sw_span_of_file *out);
int64_t sw_exchange_chunk(const struct sw_exchange *exchange, int32_t owner, int32_t round);

/* Bytes [begin, end) of an owner's stream, at whole elements. */
struct sw_stretch {
    int32_t owner;
    int64_t begin, end;
};
/* A chunk's stretch; and the nearest byte at or before `at` that no element of the owner's stream
 * lies across, where a stretch may end. */
struct sw_stretch sw_exchange_stretch(const struct sw_exchange *exchange, int32_t owner,
                                      int32_t round);
int64_t sw_exchange_whole(const struct sw_exchange *exchange, int32_t owner, int64_t at);
/* The same as sw_exchange_span, with `at` counted from where the stretch begins. */
bool sw_exchange_stretch_span(const struct sw_exchange *exchange, const struct sw_stretch *stretch,
                              int32_t i, struct sw_span_of_file *out);

struct sw_piece {
    int32_t tensor;            /* of the placement */
    int64_t start[2], size[2]; /* box in the file's tensor, its orientation; ndim 1: start[1] 0,
                                  size[1] 1 */
    int64_t at; /* offset in the chunk of element (0, 0) of the tensor, or of the matrix of a stack
                   that the piece is of: may be negative; element (i, j) is at + (i size[1] of the
                   tensor + j) elements of the file's dtype */
    int64_t local[2]; /* where it begins in the holder's shard, in the orientation of the state; the
                         matrices of a stack are one behind the other, as rows of one matrix */
    int64_t message;  /* offset in the message, bytes */
};
typedef int (*sw_piece_visitor)(void *context, const struct sw_piece *piece, struct sw_error *err);
/* Calls visit for the pieces between owner and holder in a round, in order; stops when it fails.
 * *bytes (may be NULL): of the message. visit may be NULL. */
int sw_exchange_pieces(const struct sw_exchange *exchange, int32_t owner, int32_t holder,
                       int32_t round, sw_piece_visitor visit, void *context, int64_t *bytes,
                       struct sw_error *err);

/* The same for a stretch: `at` and `message` as if it were a chunk. */
int sw_exchange_stretch_pieces(const struct sw_exchange *exchange, const struct sw_stretch *stretch,
                               int32_t holder, sw_piece_visitor visit, void *context,
                               int64_t *bytes, struct sw_error *err);

/* In sub-step s of a round, 0 <= s < ranks, rank i sends to peer (i + s) mod ranks and receives
 * from (i - s) mod ranks: saving, it sends as a holder to an owner; loading, as an owner to a
 * holder. s 0: with itself, without a message. Both sides know which messages are empty. */

/* What a rank sends to others in the whole exchange, and in how many messages. For prices; takes as
 * long as there are chunks. */
struct sw_exchange_traffic {
    int64_t sent_bytes, messages;
};
struct sw_exchange_traffic sw_exchange_traffic(const struct sw_exchange *exchange, int32_t rank);
/* Of the rank that sends most; of many thousands only some are looked at. */
struct sw_exchange_traffic sw_exchange_most_traffic(const struct sw_exchange *exchange);

#endif
