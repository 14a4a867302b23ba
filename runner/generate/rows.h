/* Rows of a call: inputs and outputs of the serving programs. A row has a slot's next tokens: from
 * a prompt's chunk or, in `decode`, its newest one. Owns buffers for the program with most rows;
 * knows neither sequences nor scheduling. Allocates only at creation. */
#ifndef SW_GENERATE_ROWS_H
#define SW_GENERATE_ROWS_H

#include "runner/generate/adjustments.h"
#include "runner/rank/execute.h"

struct sw_rows {
    const struct sw_program_set *set;
    int64_t slots;
    int64_t chunk_rows, chunk; /* rows of a call of prefill or score; tokens per row */
    int64_t read_rows;         /* rows of a call of read; 0: no such program */
    int64_t shards;            /* batch shards: each has equally many consecutive rows and slots */
    int64_t words;             /* bitmap of the vocabulary, in words */
    int64_t adjustments;       /* most per row */
    bool wide;                 /* true if outputs are f64 */
    bool mixes; /* true if prefill takes tokens of any sequence; a shard's first rows, one
                 * per slot, are sampled */
    bool tails; /* true if prefill does not mix and read takes ends of prompts */
    /* The call being prepared. */
    enum sw_program_kind kind;
    int32_t size;          /* the program's (core/ir/serving.h) */
    int64_t count, length; /* rows; tokens per row */
    int32_t *tokens;       /* [count, length] */
    int32_t *labels;       /* same shape, next tokens of prompts */
    int32_t *where;        /* [count, SW_SLOT_FIELDS] */
    int64_t sampled;       /* number of sampled rows */
    float *settings;       /* [sampled, SW_SAMPLING_SETTINGS] */
    void *output;          /* [sampled, SW_SAMPLED_NUMBERS] or [count, length], f32 or f64 */
    /* Copies of the slots' data. */
    int32_t *row_seen;      /* [sampled, words] */
    float *row_adjustments; /* [sampled, adjustments, SW_ADJUSTMENT_NUMBERS] */
};

/* State of all slots' sequences besides their tokens. */
struct sw_slots_state {
    const int32_t *seen; /* [slots, words] tokens that occurred; NULL: not needed */
    const struct sw_adjustments *adjustments;
    int64_t most; /* most adjustments of a slot; 0: no adjustments */
};

/* Creates rows for the set's programs; `program`: one that reads chunks. False: out of memory, with
 * nothing left behind. */
bool sw_rows_create(const struct sw_program_set *set, const struct sw_program *program,
                    struct sw_rows *out);
void sw_rows_free(struct sw_rows *rows); /* may be zeroed */

/* Prepares a call of the program in its size for `wanted` rows on the fullest shard; then set all
 * rows. */
void sw_rows_begin(struct sw_rows *rows, enum sw_program_kind kind, int64_t wanted);
/* Gives the row `count` tokens of the slot from position `first`; 0: the row is idle. */
void sw_rows_set(struct sw_rows *rows, int64_t row, int64_t slot, int64_t first, int64_t count);
/* Sets a row to tokens [first, ..) of `count`, as many as fit; idle if none. labels: true to set
 * each token's successor. Returns the next row's first token. */
int64_t sw_rows_read(struct sw_rows *rows, int64_t row, int64_t slot, const int32_t *tokens,
                     int64_t first, int64_t count, bool labels);
int64_t sw_rows_slot(const struct sw_rows *rows, int64_t row);
int64_t sw_rows_tokens(const struct sw_rows *rows, int64_t row);
/* Settings of a row; NULL: not sampled. */
float *sw_rows_settings(struct sw_rows *rows, int64_t row);

/* Collective: runs the program on the prepared rows. Errors: the executor's. */
int sw_rows_run(struct sw_rows *rows, struct sw_executor *executor,
                const struct sw_slots_state *state, struct sw_error *err);
/* Output of `score` for a token, rows being consecutive; below, one of the numbers that `sample`
 * gives for a sampled row. */
double sw_rows_output(const struct sw_rows *rows, int64_t i);
double sw_rows_sampled(const struct sw_rows *rows, int64_t row, int64_t number);

#endif
