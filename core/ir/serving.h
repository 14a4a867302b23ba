/* Serving on a mesh: from the options of a training run to those of `prefill`, `decode` and
 * `score`, and where in the cache a position lies (docs/architecture.md, Sharding).
 *
 * The cache has a slot for each text. Prefill and score take rows of a chunk each, as many as a
 * budget of tokens has room for, whatever the number of slots: a row says which slot's prompt it is
 * of, any slot that lies with it on a rank of the batch, and a prompt may have several rows of a
 * call, one behind the other. Decoding has a row for every slot, or fewer (sizes, below).
 *
 * Where the device makes a row alike in calls of any size (invariant_rows of its target) and a
 * rank's budget lies between its slots and 64, chunks are single tokens and prefill mixes: its rows
 * have the next tokens of texts that run as well as those of prompts, each made as `decode` makes
 * it, to the bit; the first ones of a rank, as many as slots at most, are sampled. `read` is the
 * same program of many more rows, for prompts beside which nobody waits for a token: its rows have
 * the same bits, and take less each.
 *
 * Where prefill does not mix but there is `read` (sw_serving_has), it has what is behind the whole
 * chunks of a prompt where that is less than half a chunk, and the next tokens of texts that run:
 * so a short prompt costs its own tokens. What makes a position depends on the prompt's length
 * alone.
 *
 * Programs of single tokens have sizes: the same ops with fewer rows on a rank of the batch, over
 * the same state. A call takes the smallest that has room for what the fullest rank has, since all
 * compute alike. Only where the device makes a row alike in any number of them.
 *
 * A chunk is laid out contiguously over the ranks of the sequence: rank r has tokens
 * [r block, (r + 1) block) of it, block = chunk / ranks. The cache stays as that leaves it:
 * position p is on rank (p / block) % ranks, in storage order of rank, then position. Keys carry
 * their rotation, so the order of storage means nothing to attention. Decoding puts each new token
 * where prefill would have. Pure functions; nothing is owned.
 *
 * A layer with a window of w tokens keeps the last w - 1 positions before those that a call appends
 * to a slot, and these: w - 1 and the longest such run, in whole chunks, where that is less than
 * max_tokens. They are a ring: position p lies where p modulo that number would, on the same rank.
 *
 * A cache in int8 keeps head h of position p as integers q and one number s in fp32, which stand
 * for q s: s = max|x| / 127 and q = x / s, rounded to the nearest, of ties to the even one. So zero
 * stays zero, -127 .. 127 are used, an element is off by s / 2 at most, and a row depends on
 * nothing but itself: neither on its neighbours nor on the mesh. Symmetric and with a scale for
 * each token and head, as llama.cpp's q8_0 (scale max / 127 of each 32 elements, in fp16) and
 * LMDeploy's cache (each token and head) have it; a head's own scale is nowhere split, and shards
 * as its head does. A head with an element that is no finite number gets NaN for a scale, so that
 * it shows. The scale is 0 where max|x| / 127 underflows. */
#ifndef SW_SERVING_H
#define SW_SERVING_H

#include "core/base/quantize.h"
#include "core/ir/options.h"

enum {
    /* Of the input `slots`, for each row of a call: the first position, the number of tokens (0:
     * the row rests), the slot of the cache, counted over all ranks. */
    SW_SLOT_FIRST = 0,
    SW_SLOT_TOKENS,
    SW_SLOT_NUMBER,
    SW_SLOT_FIELDS,
    SW_MAX_SLOTS = 1 << 16,
    SW_SERVING_SIZES =
        18, /* of a program: the powers of two up to SW_MAX_SLOTS, and all its rows */
    SW_CACHE_INT8_MOST = SW_INT8_MOST /* what the largest element of a head becomes */
};

/* What is gathered for a chunk of prompts, whose queries are split over the ranks of the sequence
 * as the cache is. The queries: every rank attends with all of them over its part, and the parts of
 * the softmax are merged (the cache stays where it is). Or keys and values, a layer's at a time:
 * every rank attends with its own queries over all, as far as the cache has room. Fewer bytes
 * where the chunk is not much shorter than max_tokens and kv heads are few. Decoding always gathers
 * its queries. */
enum sw_prefill_gather {
    SW_GATHER_FEWEST, /* whichever is fewer bytes; of equal ones the queries */
    SW_GATHER_QUERIES,
    SW_GATHER_KV,
    SW_GATHER_KINDS
};
const char *
sw_prefill_gather_name(enum sw_prefill_gather gathers); /* "queries", "keys and values" */

/* What a run wants of serving. */
struct sw_serving {
    int64_t max_batch;     /* texts at a time; rounded up to a multiple of the batch's ranks */
    int64_t planned_batch; /* of the plan, where that has more than there are; 0: as many */
    int64_t max_tokens;    /* of one text, prompt and all; rounded up to a multiple of the chunk */
    int64_t chunk; /* tokens of a prompt at a time; rounded up to a multiple of the sequence's
                      ranks; 0: 1 where prefill mixes, else 512, or max_tokens or a rank's
                      budget where that is less */
    int64_t token_budget; /* of prompts' tokens in a call, over the whole mesh: rows of a chunk, as
                             many on a rank of the batch as fit, one at least; 0: one */
    enum sw_dtype cache;  /* of keys and values: the compute precision, fp32, or int8 with scales */
    enum sw_dtype weights; /* SW_I8, SW_E4M3: the layers' matrices so, with scales
                              (core/base/quantize.h); SW_I4: in blocks (int4.h), the head as
                              SW_I8; any other: the compute precision */
    bool stream_weights; /* weights stay split over fsdp and are gathered layer by layer, one layer
                            ahead; else every rank of fsdp has them all */
    enum sw_prefill_gather gathers; /* sw_serving_options takes FEWEST for QUERIES */
};

/* What the data is like that its programs are priced with. */
struct sw_workload {
    int64_t prompt_tokens; /* 0: no more than a chunk */
    double top_share;      /* of the steps in which somebody asks for the most probable tokens */
    int64_t running;       /* of a call of prompts: rows of a rank that have the next tokens of
                              sequences that run, with full caches */
};

/* The options of a program of that kind over the state that all of them share: weights in the
 * compute precision or 8 bits (norms and biases in that of the parameters) and the cache.
 * `training`: of the run, whose mesh, model and rules it takes. Errors (SW_BAD_INPUT): a number out
 * of range; (SW_UNMET): the mesh cannot serve the model. */
int sw_serving_options(const struct sw_program_options *training, const struct sw_serving *want,
                       enum sw_program_kind kind, struct sw_program_options *out,
                       struct sw_error *err);

/* Whether there is that program. All are but `read`, which takes rows that are alike, one rank of
 * the sequence and weights that are not streamed; and where prefill mixes room for at least twice
 * as many rows as that has, elsewhere chunks of 3 tokens at least and more rows than a rank has
 * slots. Its rows are 128, or max_tokens or, where prefill does not mix, the tokens of a call of
 * chunks where that is less. */
bool sw_serving_has(const struct sw_program_options *training, const struct sw_serving *want,
                    enum sw_program_kind kind);

/* The rows that the sizes of that program have on a rank of the batch, the most first: its own,
 * then the powers of two below, down to 1. Returns how many; 1 where there is no other. options: of
 * sw_serving_options. */
int32_t sw_serving_sizes(const struct sw_program_options *options, int64_t rows[SW_SERVING_SIZES]);
/* The same program with so many rows on a rank of the batch. */
void sw_serving_resize(struct sw_program_options *options, int64_t rows);

/* Which of these sizes a call has in which a rank of the batch has `wanted` rows at most: the
 * smallest with room for them, or the largest. Servers go by it, and prices do. */
static inline int32_t sw_serving_size(const int64_t *rows, int32_t count, int64_t wanted)
{
    int32_t size = count - 1;
    while (size > 0 && rows[size] < wanted)
        size--;
    return size;
}

/* Whether the next call of prompts beside which nobody waits for a token is one of `read`, where a
 * rank of the batch has at most `left` tokens of them and a call of prefill `rows` rows of it.
 * Servers go by it, and prices do. */
static inline bool sw_serving_widens(int64_t left, int64_t rows)
{
    return left > rows;
}

/* Tokens at the end of a prompt of `count` that `read` has where prefill does not mix. Servers go
 * by it, and prices do. */
static inline int64_t sw_serving_tail(int64_t count, int64_t chunk)
{
    return 2 * (count % chunk) < chunk ? count % chunk : 0;
}

/* Whether keys and values may be gathered: there are several parts, in a number format that is
 * moved, and the device has the op. */
bool sw_serving_may_gather_kv(const struct sw_program_options *training,
                              const struct sw_serving *want);

/* Which of `ranks` keeps position p, and at which of its places. */
static inline int64_t sw_cache_owner(int64_t p, int64_t block, int64_t ranks)
{
    return p / block % ranks;
}
static inline int64_t sw_cache_index(int64_t p, int64_t block, int64_t ranks)
{
    return p / (block * ranks) * block + p % block;
}
/* The position at a place of a rank's part. */
static inline int64_t sw_cache_position(int64_t index, int64_t rank, int64_t block, int64_t ranks)
{
    return (index / block * ranks + rank) * block + index % block;
}

#endif
