/* Serving on a mesh: options of `prefill`, `decode` and `score`, derived from those of a training
 * run, and the rank and index of each position in the cache (docs/architecture.md, Sharding).
 *
 * The cache has one slot for each sequence. Prefill and score take rows of one chunk each, as many
 * as fit into a token budget, whatever the number of slots. A row names the slot of its prompt,
 * which must be on the same rank of the batch; a prompt may have several consecutive rows in one
 * call. Decode has a row for every slot, or fewer (sizes, below).
 *
 * Prefill *mixes* if the device is batch invariant (invariant_rows of its target) and a rank's
 * budget is between its slots and 64. Chunks are then single tokens: next tokens of running
 * sequences stand in rows beside tokens of prompts, with the same bits as in `decode`. The first
 * rows of a rank are sampled, at most as many as it has slots. `read` is the same program with many
 * more rows, for prompts that delay no running sequence: same bits, less time for each row.
 *
 * If prefill does not mix and `read` exists (sw_serving_has), `read` takes the tokens behind a
 * prompt's last whole chunk if they are fewer than half a chunk, and the next tokens of running
 * sequences: a short prompt costs only its own tokens. A prompt's length alone decides which
 * program computes a position.
 *
 * Programs of single tokens come in sizes: the same ops over the same state, with fewer rows on a
 * rank of the batch. A call takes the smallest size that has room for the rows of the fullest rank.
 * Sizes exist only on devices that are batch invariant for any number of rows.
 *
 * A chunk is split contiguously over the ranks of the sequence: rank r has tokens [r block, (r + 1)
 * block) of the chunk, block = chunk / ranks. The cache keeps this order: position p is on rank (p
 * / block) % ranks, sorted by rank, then by position. Keys are stored rotated, so attention does
 * not depend on the order. Decode puts each new token where prefill would have. Pure functions;
 * nothing is owned.
 *
 * A layer with a window of w tokens keeps the last w - 1 positions before those that a call appends
 * to a slot, and the appended ones: w - 1 plus the longest such run, in whole chunks, if that is
 * less than max_tokens. They form a ring: position p is stored at p modulo that number, on the same
 * rank.
 *
 * A cache in int8 stores head h of position p as integers q and one fp32 scale s, with x = q s: s =
 * max|x| / 127 and q = x / s, rounded to nearest, ties to even. Zero stays zero, q is in -127 ..
 * 127, the error of an element is at most s / 2, and a row depends on itself alone, neither on its
 * neighbours nor on the mesh. Other symmetric caches: llama.cpp's q8_0 (scale max / 127 of each 32
 * elements, in fp16) and LMDeploy's (a scale for each token and head, as here). A head is never
 * split, and its scale is sharded with it. A head with an element that is not finite gets NaN as
 * its scale, so that the fault shows. The scale is 0 where max|x| / 127 underflows. */
#ifndef SW_SERVING_H
#define SW_SERVING_H

#include "core/base/number.h"
#include "core/base/quantize.h"
#include "core/ir/options.h"

enum {
    /* Fields of input `slots` for each row of a call: first position, number of tokens (0: the row
     * rests), slot of the cache, counted over all ranks. */
    SW_SLOT_FIRST = 0,
    SW_SLOT_TOKENS,
    SW_SLOT_NUMBER,
    SW_SLOT_FIELDS,
    SW_MAX_SLOTS = 1 << 16,
    SW_SERVING_SIZES =
        18, /* most sizes of a program: the powers of two up to SW_MAX_SLOTS, and all rows */
    SW_CACHE_INT8_MOST = SW_INT8_MOST /* integer for the largest element of a head */
};

/* Operands gathered for a chunk of prompts, whose queries are split over the ranks of the sequence
 * as the cache is. Queries: every rank attends with all of them over its part of the cache, and the
 * partial softmaxes are merged. Keys and values, one layer at a time: every rank attends with its
 * own queries over all positions that the cache has room for. The latter sends fewer bytes where
 * the chunk is almost as long as max_tokens and kv heads are few. Decode always gathers queries. */
enum sw_prefill_gather {
    SW_GATHER_FEWEST, /* fewest bytes; if equal, queries */
    SW_GATHER_QUERIES,
    SW_GATHER_KV,
    SW_GATHER_KINDS
};
const char *
sw_prefill_gather_name(enum sw_prefill_gather gathers); /* "queries", "keys and values" */

/* Settings of serving in a run. */
struct sw_serving {
    int64_t max_batch;     /* sequences at a time; rounded up to a multiple of the batch's ranks */
    int64_t planned_batch; /* sequences that the plan has room for; 0: max_batch */
    int64_t max_tokens; /* tokens of one sequence with its prompt; rounded up to a multiple of the
                           chunk */
    int64_t chunk; /* prompt tokens of a row; rounded up to a multiple of the sequence's ranks; 0: 1
                      where prefill mixes, else 512, or max_tokens or a rank's budget if less */
    int64_t token_budget; /* prompt tokens of a call over the whole mesh: a rank of the batch has as
                             many rows of a chunk as fit, at least one; 0: one */
    /* type of keys and values: the compute precision, fp32, or int8 with scales */
    enum sw_dtype cache;
    enum sw_dtype weights; /* SW_I8, SW_E4M3: the layers' matrices in 8 bits with scales
                              (core/base/quantize.h); SW_I4: in blocks (int4.h), with the head as
                              SW_I8; any other: the compute precision */
    bool stream_weights;   /* true if weights stay split over fsdp and are gathered layer by layer,
                              one layer ahead; false: every rank of fsdp has all weights */
    bool interleave;       /* true if calls of chunks pause for tokens of the running sequences
                              (sw_serving_interleaves) */
    enum sw_prefill_gather gathers; /* sw_serving_options takes FEWEST for QUERIES */
};

/* Assumed requests, for prices. */
struct sw_workload {
    int64_t prompt_tokens; /* mean length of prompts; 0: at most a chunk */
    double top_share;      /* share of steps in which a request asks for the most probable tokens */
    int64_t running;       /* rows of a rank in a call of prompts that hold next tokens of running
                              sequences, with full caches */
};

/* Options of a program of that kind over the state that all serving programs share: weights in the
 * compute precision or 8 bits (norms and biases in that of the parameters) and the cache.
 * `training`: a run's options, for its mesh, model and rules. Errors (SW_BAD_INPUT): a number out
 * of range; (SW_UNMET): the mesh cannot serve the model. */
int sw_serving_options(const struct sw_program_options *training, const struct sw_serving *want,
                       enum sw_program_kind kind, struct sw_program_options *out,
                       struct sw_error *err);

/* True if that program exists. All do but `read`, which needs batch-invariant rows, one rank of the
 * sequence and weights that are not streamed. Where prefill mixes, `read` must have room for twice
 * as many rows as prefill; elsewhere, chunks must have at least 3 tokens and `read` more rows than
 * a rank has slots. `read` has 128 rows, or fewer if max_tokens or, where prefill does not mix, the
 * tokens of a call of chunks are fewer. */
bool sw_serving_has(const struct sw_program_options *training, const struct sw_serving *want,
                    enum sw_program_kind kind);

/* Numbers of rows of the program's sizes on a rank of the batch, largest first: all rows, then the
 * powers of two below, down to 1. Returns the number of sizes; 1: a single size. options: from
 * sw_serving_options. */
int32_t sw_serving_sizes(const struct sw_program_options *options, int64_t rows[SW_SERVING_SIZES]);
/* Gives the program that many rows on a rank of the batch. */
void sw_serving_resize(struct sw_program_options *options, int64_t rows);

/* Index of the size for a call in which a rank of the batch has at most `wanted` rows: the smallest
 * with room for them, or the largest size. Servers and prices both ask. */
static inline int32_t sw_serving_size(const int64_t *rows, int32_t count, int64_t wanted)
{
    int32_t size = count - 1;
    while (size > 0 && rows[size] < wanted)
        size--;
    return size;
}

/* True if the next call of prompts that delay no running sequence runs `read`. left: most prompt
 * tokens that a rank of the batch still has; rows: rows of prefill on a rank. Servers and prices
 * both ask. */
static inline bool sw_serving_widens(int64_t left, int64_t rows)
{
    return left > rows;
}

/* Tokens at the end of a prompt of `count` tokens that `read` takes where prefill does not mix.
 * Servers and prices both ask. */
static inline int64_t sw_serving_tail(int64_t count, int64_t chunk)
{
    return 2 * (count % chunk) < chunk ? count % chunk : 0;
}

/* True if calls of chunks pause between their ops for tokens of the running sequences: the plan
 * says so, and prefill does not mix. A pause changes no result: the same program reads each
 * position, with the same rows. */
bool sw_serving_interleaves(const struct sw_program_options *training,
                            const struct sw_serving *want);

/* Bytes by which the transients of `decode` move behind those of all other programs, which take the
 * arena up to `others_bytes`; state_bytes: weights and cache. */
static inline int64_t sw_serving_decode_shift(int64_t others_bytes, int64_t state_bytes)
{
    return sw_align(others_bytes - state_bytes, SW_ARENA_ALIGNMENT);
}

/* Seconds of a call of chunks between two tokens of the running sequences, each of which takes
 * token_seconds. A token beside the call then takes 2.2 times as long as alone, and the rest of an
 * op in addition, so that the 99th percentile stays below 3.5 times; the prompt's first token takes
 * 1.8 times as long as alone. Used by server and prices. */
static inline double sw_serving_slice_seconds(double token_seconds)
{
    return 1.2 * token_seconds;
}

/* Rows of single tokens in a call of `read` beside running sequences, on a rank of the batch with
 * `slots` slots, if calls interleave; at most `rows`. Used by server and prices. */
static inline int64_t sw_serving_read_beside(int64_t slots, int64_t rows)
{
    const int64_t wanted = 2 * slots > 32 ? 2 * slots : 32;
    return wanted < rows ? wanted : rows;
}

/* True if keys and values may be gathered: the cache has several parts, in a type that collectives
 * move, and the device has the op. */
bool sw_serving_may_gather_kv(const struct sw_program_options *training,
                              const struct sw_serving *want);

/* Rank, of `ranks`, that stores position p, and its index there. */
static inline int64_t sw_cache_owner(int64_t p, int64_t block, int64_t ranks)
{
    return p / block % ranks;
}
static inline int64_t sw_cache_index(int64_t p, int64_t block, int64_t ranks)
{
    return p / (block * ranks) * block + p % block;
}
/* Position stored at an index of a rank's part. */
static inline int64_t sw_cache_position(int64_t index, int64_t rank, int64_t block, int64_t ranks)
{
    return (index / block * ranks + rank) * block + index % block;
}

#endif
