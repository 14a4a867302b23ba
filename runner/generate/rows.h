/* The rows of a call: what the programs that serve are fed, and what they give. A row has a slot's
 * next tokens: of a chunk of a prompt or, where `decode` runs, its newest one. Owns the buffers,
 * for whichever program has most rows; knows neither texts nor whose turn it is. Nothing is
 * allocated after the beginning. */
#ifndef SW_GENERATE_ROWS_H
#define SW_GENERATE_ROWS_H

#include "runner/generate/adjustments.h"
#include "runner/rank/execute.h"

struct sw_rows {
    const struct sw_program_set *set;
    int64_t slots;
    int64_t chunk_rows, chunk; /* rows of a call of prefill or score; tokens of each */
    int64_t read_rows;         /* of a call of read; 0: the set has none */
    int64_t shards;      /* of the batch: each has as many rows and slots, one behind the other */
    int64_t words;       /* a bit for each token of the vocabulary */
    int64_t adjustments; /* most of a row */
    bool wide;           /* outputs are f64 */
    bool mixes;          /* prefill has tokens of any texts, and samples the first rows of a shard,
                            as many as it has slots */
    bool tails;          /* prefill does not mix, and read has the ends of prompts (serving.h) */
    /* Of the call that is made ready. */
    enum sw_program_kind kind;
    int32_t size;          /* of the program (core/ir/serving.h) */
    int64_t count, length; /* rows, and tokens of each */
    int32_t *tokens;       /* [count, length] */
    int32_t *labels;       /* as tokens of prompts */
    int32_t *where;        /* [count, SW_SLOT_FIELDS] */
    int64_t sampled;       /* of its rows */
    float *settings;       /* [sampled, SW_SAMPLING_SETTINGS] */
    void *output;          /* [sampled, SW_SAMPLED_NUMBERS] or [count, length], f32 or f64 */
    /* Copies of what slots have. */
    int32_t *row_seen;      /* [sampled, words] */
    float *row_adjustments; /* [sampled, adjustments, SW_ADJUSTMENT_NUMBERS] */
};

/* What the texts of all slots have beside their tokens. */
struct sw_slots_state {
    const int32_t *seen; /* [slots, words] tokens that were there before; NULL: nobody asks */
    const struct sw_adjustments *adjustments;
    int64_t most; /* adjustments of the slot with most; 0: nobody has any */
};

/* For the programs of the set, of which `program` reads chunks. false: out of memory, and nothing
 * is left behind. */
bool sw_rows_create(const struct sw_program_set *set, const struct sw_program *program,
                    struct sw_rows *out);
void sw_rows_free(struct sw_rows *rows); /* zeros are allowed */

/* A call of the program is made ready, of the size that it has for `wanted` rows on the shard with
 * most: all of its rows are to be placed. */
void sw_rows_begin(struct sw_rows *rows, enum sw_program_kind kind, int64_t wanted);
/* The row has `count` tokens of the slot from position `first` on; 0: it rests. */
void sw_rows_set(struct sw_rows *rows, int64_t row, int64_t slot, int64_t first, int64_t count);
/* As that, fed tokens [first, ..) of `count`, as many as a row has; of none it rests. labels:
 * each token's is the one behind it. Returns where the next row begins. */
int64_t sw_rows_read(struct sw_rows *rows, int64_t row, int64_t slot, const int32_t *tokens,
                     int64_t first, int64_t count, bool labels);
int64_t sw_rows_slot(const struct sw_rows *rows, int64_t row);
int64_t sw_rows_tokens(const struct sw_rows *rows, int64_t row);
/* The settings of a row; NULL: it is not sampled. */
float *sw_rows_settings(struct sw_rows *rows, int64_t row);

/* Collective: the program over the rows that were made ready. Errors: of the executor. */
int sw_rows_run(struct sw_rows *rows, struct sw_executor *executor,
                const struct sw_slots_state *state, struct sw_error *err);
/* What it gave: of `score` that of a token, rows one behind the other; else a number of those that
 * `sample` gives of the row, which is sampled. */
double sw_rows_output(const struct sw_rows *rows, int64_t i);
double sw_rows_sampled(const struct sw_rows *rows, int64_t row, int64_t number);

#endif
