/* Exchange of a state that is sharded over a mesh with files that are distributed over ranks: the
 * elements that go from each rank to each, for saving and loading.
 *
 * The rank that has a part of the files (placement.h) is its *owner*, a rank whose shard has
 * elements their *holder*. An owner's extents, one after another, are a stream of bytes, which is
 * cut into *chunks* of at most chunk_bytes; *round* r handles every owner's chunk r. The elements
 * in one chunk and one holder's shard are a list of *pieces*, boxes of a tensor: a chunk's run of
 * elements is cut along rows (a part of a row, whole rows, a part of a row), then intersected with
 * the shard. The message between owner and holder is the pieces one after another, each as in the
 * holder: row-major, in the orientation and the type of the state's row.
 *
 * Saving: if several ranks hold the same shard, the sender is the one with the owner's coordinates
 * along axes that do not split the tensor: the owner itself if possible. Loading: all of them
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
    int64_t chunk_bytes; /* limit of chunks and messages; messages have the row's type, so if
                            that is wider than the file's, chunks are shorter */
    int32_t rounds;      /* rounds of the owner with the most bytes */
    /* owned by the exchange */
    int64_t step_bytes; /* bytes of a stream from one round to the next */
    int64_t *stream;    /* [extents]: start of each extent in its owner's stream */
};

/* chunk_bytes 0: sw_exchange_chunk_bytes with room 0; else at least SW_CHUNK_LEAST_BYTES. The
 * placement must be dealt to the mesh's number of ranks. Errors (SW_ENVIRONMENT): memory. */
int sw_exchange_make(const struct sw_state *state, const struct sw_placement *placement,
                     const struct sw_mesh *mesh, bool loading, int64_t chunk_bytes,
                     struct sw_exchange *out, struct sw_error *err);
void sw_exchange_free(struct sw_exchange *exchange); /* accepts a zeroed one */

/* Bytes of a chunk: a MiB for each rank, so that messages are long enough to hide latency and short
 * enough for caches, from 4 to 64 MiB. Two chunks take at most room_bytes (memory that exists
 * anyway: training's transients) or, if more, each a sixteenth of the largest owner's bytes, at
 * least 64 KiB: saving must not enlarge the arena. */
int64_t sw_exchange_chunk_bytes(const struct sw_placement *placement, int64_t room_bytes);

/* Consecutive bytes of a file inside a chunk. */
struct sw_span_of_file {
    int32_t file;
    int64_t begin, end;
    int64_t at; /* offset in the chunk */
};
/* Span number `i` of an owner's chunk, in order; false: no more. sw_exchange_bytes: bytes of the
 * chunk, 0 beyond the owner's last. Chunks end at whole elements. */
bool sw_exchange_span(const struct sw_exchange *exchange, int32_t owner, int32_t round, int32_t i,
                      struct sw_span_of_file *out);
int64_t sw_exchange_chunk(const struct sw_exchange *exchange, int32_t owner, int32_t round);

/* Bytes [begin, end) of an owner's stream, at whole elements. */
struct sw_stretch {
    int32_t owner;
    int64_t begin, end;
};
/* A chunk's stretch; and the last byte up to `at` that is not inside an element of the owner's
 * stream, where a stretch may end. */
struct sw_stretch sw_exchange_stretch(const struct sw_exchange *exchange, int32_t owner,
                                      int32_t round);
int64_t sw_exchange_whole(const struct sw_exchange *exchange, int32_t owner, int64_t at);
/* sw_exchange_span, with `at` counted from the stretch's start. */
bool sw_exchange_stretch_span(const struct sw_exchange *exchange, const struct sw_stretch *stretch,
                              int32_t i, struct sw_span_of_file *out);

struct sw_piece {
    int32_t tensor;            /* index in the placement */
    int64_t start[2], size[2]; /* box in the file's tensor, its orientation; ndim 1: start[1] 0,
                                  size[1] 1 */
    int64_t at;       /* offset in the chunk of element (0, 0) of the tensor, or of the piece's
                         matrix in a stack: may be negative; element (i, j) is at + (i size[1] of the
                         tensor + j) elements of the file's type */
    int64_t local[2]; /* its start in the holder's shard, in the orientation of the state;
                         matrices of a stack follow one another, as rows of one matrix */
    int64_t message;  /* byte offset in the message */
};
typedef int (*sw_piece_visitor)(void *context, const struct sw_piece *piece, struct sw_error *err);
/* Calls visit for the pieces between owner and holder in a round, in order; stops when it fails.
 * *bytes (may be NULL): length of the message. visit may be NULL. */
int sw_exchange_pieces(const struct sw_exchange *exchange, int32_t owner, int32_t holder,
                       int32_t round, sw_piece_visitor visit, void *context, int64_t *bytes,
                       struct sw_error *err);

/* The same for a stretch; `at` and `message` as for a chunk. */
int sw_exchange_stretch_pieces(const struct sw_exchange *exchange, const struct sw_stretch *stretch,
                               int32_t holder, sw_piece_visitor visit, void *context,
                               int64_t *bytes, struct sw_error *err);

/* In sub-step s of a round, 0 <= s < ranks, rank i sends to peer (i + s) mod ranks and receives
 * from (i - s) mod ranks: saving, as a holder to an owner; loading, as an owner to a holder. s 0:
 * with itself, without a message. Both sides know which messages are empty. */

/* Bytes and messages that a rank sends to others in the whole exchange. For prices; takes time
 * proportional to the chunks. */
struct sw_exchange_traffic {
    int64_t sent_bytes, messages;
};
struct sw_exchange_traffic sw_exchange_traffic(const struct sw_exchange *exchange, int32_t rank);
/* Traffic of the busiest rank; of many thousands only some are examined. */
struct sw_exchange_traffic sw_exchange_most_traffic(const struct sw_exchange *exchange);

#endif
