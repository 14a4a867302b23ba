#include "runner/generate/rows.h"

#include "core/ir/sampling.h"
#include "core/ir/serving.h"

#include <stdlib.h>
#include <string.h>

static void read_shapes(const struct sw_program_set *set, const struct sw_program *p,
                        struct sw_rows *r)
{
    const struct sw_value *tokens = &p->values[sw_program_input(p, "tokens")];
    const struct sw_value *out = &p->values[p->outputs.at[0].value];
    const int64_t vocab = sw_state_find(&set->state, "embedding")->size[0];
    const struct sw_program *read = set->program[SW_PROGRAM_READ];
    *r = (struct sw_rows){.set = set,
                          .slots = p->sizes[SW_SIZE_SLOTS],
                          .read_rows = read != NULL ? read->micro_batch : 0,
                          .chunk_rows = tokens->size[0],
                          .chunk = tokens->size[1],
                          .shards = tokens->size[0] / tokens->local[0],
                          .words = sw_sampling_words(vocab),
                          .adjustments = sw_sampling_adjustments(vocab, p->max_tokens),
                          .wide = out->dtype == SW_F64,
                          .mixes = out->size[0] < tokens->size[0]};
    r->tails = read != NULL && !r->mixes;
}

bool sw_rows_create(const struct sw_program_set *set, const struct sw_program *program,
                    struct sw_rows *out)
{
    struct sw_rows r;
    read_shapes(set, program, &r);
    const size_t slots = (size_t)r.slots;
    const size_t chunks = (size_t)(r.read_rows > r.chunk_rows ? r.read_rows : r.chunk_rows);
    const size_t rows = slots > chunks ? slots : chunks, tokens = chunks * (size_t)r.chunk;
    r.tokens = calloc(tokens > slots ? tokens : slots, sizeof *r.tokens);
    r.labels = calloc(tokens > slots ? tokens : slots, sizeof *r.labels);
    r.where = calloc(rows * SW_SLOT_FIELDS, sizeof *r.where);
    r.settings = calloc(rows * SW_SAMPLING_SETTINGS, sizeof *r.settings);
    r.output = calloc(tokens + SW_SAMPLED_NUMBERS * rows, sizeof(double));
    const size_t sampled = slots > (size_t)r.chunk_rows ? slots : (size_t)r.chunk_rows;
    r.row_seen = calloc(sampled * (size_t)r.words, sizeof *r.row_seen);
    r.row_adjustments =
        calloc(sampled * (size_t)r.adjustments * SW_ADJUSTMENT_NUMBERS, sizeof *r.row_adjustments);
    *out = r;
    if (r.tokens != NULL && r.labels != NULL && r.where != NULL && r.settings != NULL &&
        r.output != NULL && r.row_seen != NULL && r.row_adjustments != NULL)
        return true;
    sw_rows_free(out);
    return false;
}

void sw_rows_free(struct sw_rows *r)
{
    free(r->tokens);
    free(r->labels);
    free(r->where);
    free(r->settings);
    free(r->output);
    free(r->row_seen);
    free(r->row_adjustments);
    *r = (struct sw_rows){0};
}

void sw_rows_begin(struct sw_rows *r, enum sw_program_kind kind, int64_t wanted)
{
    int64_t rows[SW_SERVING_SIZES];
    int32_t sizes = 0;
    const struct sw_program *p;
    while (sizes < SW_SERVING_SIZES && (p = sw_program_set_size(r->set, kind, sizes)) != NULL)
        rows[sizes++] = p->micro_batch / r->shards;
    r->kind = kind;
    r->size = sizes > 0 ? sw_serving_size(rows, sizes, wanted) : 0;
    p = sw_program_set_size(r->set, kind, r->size);
    r->count = p != NULL ? p->micro_batch : 0;
    r->length = p != NULL ? p->sequence_length : 0;
    r->sampled = p != NULL ? p->values[p->outputs.at[0].value].size[0] : 0;
}

/* Index of a row among the sampled ones; -1: not sampled. */
static int64_t sampled_of(const struct sw_rows *r, int64_t row)
{
    const int64_t each = r->count / r->shards, sampled = r->sampled / r->shards;
    return row % each < sampled ? row / each * sampled + row % each : -1;
}

static int64_t row_of_sampled(const struct sw_rows *r, int64_t i)
{
    const int64_t each = r->count / r->shards, sampled = r->sampled / r->shards;
    return i / sampled * each + i % sampled;
}

void sw_rows_set(struct sw_rows *r, int64_t row, int64_t slot, int64_t first, int64_t count)
{
    int32_t *to = r->where + row * SW_SLOT_FIELDS;
    to[SW_SLOT_FIRST] = (int32_t)first;
    to[SW_SLOT_TOKENS] = (int32_t)count;
    to[SW_SLOT_NUMBER] = (int32_t)slot;
}

int64_t sw_rows_read(struct sw_rows *r, int64_t row, int64_t slot, const int32_t *tokens,
                     int64_t first, int64_t count, bool labels)
{
    const int64_t left = count - first, n = left < r->length ? left : r->length;
    int32_t *to = r->tokens + row * r->length, *label = r->labels + row * r->length;
    sw_rows_set(r, row, slot, first, n);
    for (int64_t t = 0; t < r->length; t++) {
        to[t] = t < n ? tokens[first + t] : 0;
        label[t] = t < n && labels ? tokens[first + t + 1] : -1;
    }
    return first + n;
}

int64_t sw_rows_slot(const struct sw_rows *r, int64_t row)
{
    return r->where[row * SW_SLOT_FIELDS + SW_SLOT_NUMBER];
}

int64_t sw_rows_tokens(const struct sw_rows *r, int64_t row)
{
    return r->where[row * SW_SLOT_FIELDS + SW_SLOT_TOKENS];
}

float *sw_rows_settings(struct sw_rows *r, int64_t row)
{
    const int64_t i = sampled_of(r, row);
    return i < 0 ? NULL : r->settings + i * SW_SAMPLING_SETTINGS;
}

static const int32_t *seen_by_rows(struct sw_rows *r, const int32_t *seen)
{
    for (int64_t i = 0; seen != NULL && i < r->sampled; i++)
        memcpy(r->row_seen + i * r->words, seen + sw_rows_slot(r, row_of_sampled(r, i)) * r->words,
               (size_t)r->words * sizeof *seen);
    return seen != NULL ? r->row_seen : NULL;
}

/* Adjustments of every row's sequence; NULL: none. */
static const float *adjustments_of_rows(struct sw_rows *r, const struct sw_slots_state *state)
{
    const int64_t width = r->adjustments * SW_ADJUSTMENT_NUMBERS;
    for (int64_t i = 0; state->most > 0 && i < r->sampled; i++) {
        const int64_t slot = sw_rows_slot(r, row_of_sampled(r, i));
        memcpy(r->row_adjustments + i * width, sw_adjustments_of(state->adjustments, slot),
               (size_t)state->adjustments->count[slot] * SW_ADJUSTMENT_NUMBERS *
                   sizeof *r->row_adjustments);
    }
    return state->most > 0 ? r->row_adjustments : NULL;
}

int sw_rows_run(struct sw_rows *r, struct sw_executor *executor, const struct sw_slots_state *state,
                struct sw_error *err)
{
    const bool scores = r->kind == SW_PROGRAM_SCORE;
    const size_t rows = (size_t)r->count, tokens = rows * (size_t)r->length;
    const size_t sampled = (size_t)r->sampled;
    const size_t element = r->wide ? sizeof(double) : sizeof(float);
    struct sw_feed feeds[5] = {
        {.name = "tokens", .data = r->tokens, .bytes = tokens * sizeof *r->tokens},
        {.name = "slots", .data = r->where, .bytes = rows * SW_SLOT_FIELDS * sizeof *r->where},
        {.name = "settings",
         .data = r->settings,
         .bytes = sampled * SW_SAMPLING_SETTINGS * sizeof *r->settings},
        {.name = "seen",
         .data = scores ? NULL : seen_by_rows(r, state->seen),
         .bytes = sampled * (size_t)r->words * sizeof *r->row_seen},
        {.name = "adjustments",
         .data = scores ? NULL : adjustments_of_rows(r, state),
         .bytes = sampled * (size_t)r->adjustments * SW_ADJUSTMENT_NUMBERS * sizeof(float),
         .used = (size_t)state->most * SW_ADJUSTMENT_NUMBERS * sizeof(float)}};
    const struct sw_fetch fetch = {.name = scores ? "logprobs" : "sampled",
                                   .data = r->output,
                                   .bytes =
                                       (scores ? tokens : SW_SAMPLED_NUMBERS * sampled) * element};
    if (scores)
        feeds[2] = (struct sw_feed){
            .name = "labels", .data = r->labels, .bytes = tokens * sizeof *r->labels};
    return sw_executor_run_size(executor, r->kind, r->size, NULL, feeds, scores ? 3 : 5, &fetch, 1,
                                err);
}

double sw_rows_output(const struct sw_rows *r, int64_t i)
{
    return r->wide ? ((const double *)r->output)[i] : (double)((const float *)r->output)[i];
}

double sw_rows_sampled(const struct sw_rows *r, int64_t row, int64_t number)
{
    return sw_rows_output(r, SW_SAMPLED_NUMBERS * sampled_of(r, row) + number);
}
