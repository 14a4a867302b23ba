#include "runner/generate/engine.h"

#include "core/base/clock.h"
#include "core/base/hash.h"
#include "core/ir/serving.h"
#include "runner/generate/prefix.h"
#include "runner/generate/rows.h"
#include "runner/generate/batch_scheduler.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct slot {
    struct sw_sequence sequence;
    int64_t cached;  /* positions in the cache */
    int64_t made;    /* new tokens */
    int32_t pending; /* newest token, not yet in the cache */
};

struct sw_engine {
    struct sw_executor *executor;
    int64_t max_tokens, vocab;
    struct slot *slot;
    int32_t *seen; /* [slots, words], bitmaps of tokens that occurred */
    struct sw_batch_scheduler scheduler;
    struct sw_prefixes prefixes;
    struct sw_adjustments adjustments;
    struct sw_engine_counts counts;
    struct sw_rows rows;
    /* If the set interleaves: rows of the tokens made during a call of chunks, which keeps `rows`;
     * seconds per token, and time of the latest one; points at which calls could pause, and the
     * interval of those that do (0: decided by time). */
    bool interleaves;
    struct sw_rows beside;
    double token_seconds, token_at;
    bool is_steady; /* true if the last program made tokens alone, outside a call of chunks */
    int32_t points, every;
};

/* ---- The engine ---- */

/* Some program with a serving shape; NULL: none serves. */
static const struct sw_program *any_program(const struct sw_program_set *set)
{
    static const enum sw_program_kind kinds[] = {SW_PROGRAM_PREFILL, SW_PROGRAM_SCORE};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (set->program[kinds[i]] != NULL)
            return set->program[kinds[i]];
    return NULL;
}

static bool allocate(struct sw_engine *e, const struct sw_program *p)
{
    const struct sw_program_set *set = sw_executor_set(e->executor);
    if (!sw_rows_create(set, p, &e->rows))
        return false;
    e->interleaves = set->decode_shift_bytes > 0;
    if (e->interleaves && !sw_rows_create(set, p, &e->beside))
        return false;
    const int64_t slots = e->rows.slots;
    e->max_tokens = p->max_tokens;
    e->vocab = sw_state_find(&set->state, "embedding")->size[0];
    e->slot = calloc((size_t)slots, sizeof *e->slot);
    e->seen = calloc((size_t)(slots * e->rows.words), sizeof *e->seen);
    return e->slot != NULL && e->seen != NULL &&
           sw_batch_scheduler_create(slots, e->rows.shards, &e->scheduler) &&
           sw_adjustments_create(slots, e->rows.adjustments, &e->adjustments) &&
           sw_prefixes_create(slots, e->max_tokens + 1, e->rows.chunk, &e->prefixes);
}

/* Finds the positions kept by layers with a window, if fewer than a sequence's. */
static void find_ring(const struct sw_program *p, struct sw_prefixes *prefixes)
{
    for (int32_t i = 0; i < p->op_count; i++) {
        const struct sw_op *op = &p->ops[i];
        if (op->kind == SW_OP_CACHE_APPEND && op->as.append.ring)
            prefixes->ring = p->values[op->in[0].value].size[1];
        if (op->kind == SW_OP_ATTENTION && op->as.attention.window > 0)
            prefixes->window = op->as.attention.window;
    }
}

int sw_engine_create(struct sw_executor *executor, struct sw_engine **out, struct sw_error *err)
{
    const struct sw_program *p = any_program(sw_executor_set(executor));
    struct sw_engine *e = calloc(1, sizeof *e);
    if (p == NULL || e == NULL) {
        free(e);
        return sw_fail(err, SW_ENVIRONMENT,
                       p == NULL ? "no program generates text" : "out of memory for the engine");
    }
    e->executor = executor;
    if (!allocate(e, p)) {
        sw_engine_free(e);
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the engine");
    }
    find_ring(p, &e->prefixes);
    e->scheduler.mixes = e->rows.mixes;
    *out = e;
    return 0;
}

void sw_engine_free(struct sw_engine *e)
{
    if (e == NULL)
        return;
    free(e->slot);
    free(e->seen);
    sw_rows_free(&e->rows);
    sw_rows_free(&e->beside);
    sw_batch_scheduler_free(&e->scheduler);
    sw_adjustments_free(&e->adjustments);
    sw_prefixes_free(&e->prefixes);
    free(e);
}

void sw_engine_limit(struct sw_engine *e, int64_t max_tokens)
{
    e->max_tokens = max_tokens < e->max_tokens ? max_tokens : e->max_tokens;
}

int64_t sw_engine_max_tokens(const struct sw_engine *e)
{
    return e->max_tokens;
}

int64_t sw_engine_slots(const struct sw_engine *e)
{
    return e->rows.slots;
}

const struct sw_engine_counts *sw_engine_counts(const struct sw_engine *e)
{
    return &e->counts;
}

/* ---- Slots ---- */

/* Number of prompt tokens to read: a scored prompt's last one is only predicted, and `decode`
 * continues from there. */
static int64_t read_tokens(const struct slot *s)
{
    return s->sequence.scored ? s->sequence.token_count - 1 : s->sequence.token_count;
}

/* Number of those in chunks of several tokens. */
static int64_t chunked_tokens(const struct sw_engine *e, const struct slot *s)
{
    const int64_t all = read_tokens(s);
    if (s->sequence.scored)
        return all;
    return e->rows.mixes ? 0 : e->rows.tails ? all - sw_serving_tail(all, e->rows.chunk) : all;
}

/* True if `read` takes the rest of the prompt. */
static bool has_tail(const struct sw_engine *e, const struct slot *s)
{
    return e->rows.tails && s->cached >= chunked_tokens(e, s) && s->cached < read_tokens(s);
}

static bool is_busy(const struct sw_engine *e, int64_t slot)
{
    return sw_batch_scheduler_is_busy(&e->scheduler, slot);
}

/* Uniform fp32 number in [0, 1) from the sequence's seed and the token's position. */
static float draw(const struct slot *s)
{
    const uint64_t mixed = sw_hash_mix(sw_hash_mix(s->sequence.seed) +
                                       (uint64_t)s->made * UINT64_C(0x9e3779b97f4a7c15));
    return (float)(mixed >> 40) * 0x1p-24f;
}

static void set_settings(struct sw_engine *e, int64_t row, int64_t slot)
{
    const struct slot *s = &e->slot[slot];
    float *to = sw_rows_settings(&e->rows, row);
    if (to == NULL)
        return;
    const bool rests = sw_rows_tokens(&e->rows, row) == 0;
    to[SW_SAMPLING_TOP] = rests ? 0 : (float)s->sequence.top;
    if (rests || (s->cached + 1 < s->sequence.token_count &&
                  !sw_batch_scheduler_reads(&e->scheduler, slot))) { /* only ranks tokens */
        to[SW_SAMPLING_TEMPERATURE] = to[SW_SAMPLING_TOP_K] = to[SW_SAMPLING_MIN_P] = 0;
        to[SW_SAMPLING_DRAW] = to[SW_SAMPLING_ADJUSTED] = 0;
        to[SW_SAMPLING_TOP_P] = to[SW_SAMPLING_PENALTY] = 1;
        return;
    }
    to[SW_SAMPLING_TEMPERATURE] = (float)s->sequence.sampling.temperature;
    to[SW_SAMPLING_TOP_K] = (float)s->sequence.sampling.top_k;
    to[SW_SAMPLING_TOP_P] = (float)s->sequence.sampling.top_p;
    to[SW_SAMPLING_MIN_P] = (float)s->sequence.sampling.min_p;
    to[SW_SAMPLING_PENALTY] = (float)s->sequence.sampling.penalty;
    to[SW_SAMPLING_DRAW] = draw(s);
    to[SW_SAMPLING_ADJUSTED] = (float)e->adjustments.count[slot];
}

static void mark_seen(struct sw_engine *e, int64_t i, int32_t token)
{
    if (token >= 0 && token < e->vocab)
        e->seen[i * e->rows.words + token / 32] |= (int32_t)(UINT32_C(1) << (token % 32));
}

/* Runs the program on the prepared rows. */
static int run_rows(struct sw_engine *e, enum sw_program_kind kind, struct sw_error *err)
{
    struct sw_slots_state state = {.adjustments = &e->adjustments};
    for (int64_t i = 0; i < e->rows.slots; i++) {
        if (!is_busy(e, i))
            continue;
        if (e->slot[i].sequence.sampling.penalty != 1)
            state.seen = e->seen;
        if (e->adjustments.count[i] > state.most)
            state.most = e->adjustments.count[i];
    }
    sw_batch_scheduler_run(&e->scheduler, kind);
    return sw_rows_run(&e->rows, e->executor, &state, err);
}

/* ---- Texts ---- */

static void end_sequence(struct sw_engine *e, int64_t slot, const struct sw_engine_calls *calls,
                         bool full)
{
    sw_batch_scheduler_end(&e->scheduler, slot);
    if (calls->ended != NULL)
        calls->ended(calls->context, &e->slot[slot].sequence, full);
}

static void read_top(const struct sw_engine *e, int64_t row, struct sw_top *top)
{
    const int32_t wanted = e->slot[sw_rows_slot(&e->rows, row)].sequence.top;
    *top = (struct sw_top){0};
    for (; top->count < wanted && sw_rows_sampled(&e->rows, row, 2 + 2 * top->count) >= 0;) {
        top->token[top->count] = (int32_t)sw_rows_sampled(&e->rows, row, 2 + 2 * top->count);
        top->logprob[top->count] = sw_rows_sampled(&e->rows, row, 3 + 2 * top->count);
        top->count++;
    }
}

/* Records a new token for penalties and adjustments. */
static void note_made(struct sw_engine *e, int64_t i, int32_t token)
{
    const struct sw_sequence *sequence = &e->slot[i].sequence;
    mark_seen(e, i, token);
    if ((sequence->sampling.presence != 0 || sequence->sampling.frequency != 0) && token >= 0 &&
        token < e->vocab)
        sw_adjustments_made(&e->adjustments, i, token, sequence->sampling.presence,
                            sequence->sampling.frequency);
    if (e->slot[i].made + 1 == sequence->min_tokens && sequence->biases != NULL)
        sw_adjustments_allow(&e->adjustments, i, sequence->biases);
}

/* Takes the token sampled after the row's last one. */
static void take_token(struct sw_engine *e, int64_t row, const struct sw_engine_calls *calls)
{
    struct slot *s = &e->slot[sw_rows_slot(&e->rows, row)];
    struct sw_top top;
    s->pending = (int32_t)sw_rows_sampled(&e->rows, row, 0);
    note_made(e, sw_rows_slot(&e->rows, row), s->pending);
    read_top(e, row, &top);
    e->counts.new_tokens++;
    const bool more = calls->token(calls->context, &s->sequence, s->made, s->pending,
                                   sw_rows_sampled(&e->rows, row, 1), &top);
    s->made++;
    if (!more || s->made >= s->sequence.max_new_tokens)
        end_sequence(e, sw_rows_slot(&e->rows, row), calls, false);
    else if (s->cached + 1 >= e->max_tokens) /* the newest token counts too */
        end_sequence(e, sw_rows_slot(&e->rows, row), calls, true);
}

/* After a scored prompt's chunks: leaves the rest to `decode`. */
static void leave_chunks(struct sw_engine *e, int64_t slot, const struct sw_engine_calls *calls)
{
    struct slot *s = &e->slot[slot];
    sw_batch_scheduler_is_read(&e->scheduler, slot);
    if (s->sequence.top > 0)
        s->cached = 0;
    if (s->sequence.max_new_tokens == 0 && s->cached + 1 >= s->sequence.token_count)
        end_sequence(e, slot, calls, false);
}

/* Free slot whose cache saves the most; -1: none saves more than it loses. */
static int64_t slot_with_prefix(const struct sw_engine *e, const struct sw_sequence *sequence)
{
    const int64_t chunked = chunked_tokens(e, &(struct slot){.sequence = *sequence});
    int64_t best = -1, most = 0;
    for (int64_t i = 0; i < e->rows.slots && !sequence->scored; i++) {
        if (is_busy(e, i))
            continue;
        const int64_t found =
            sw_prefixes_found(&e->prefixes, i, sequence->tokens, sequence->token_count, chunked);
        if (found > most && sw_prefixes_pays(&e->prefixes, i, found)) {
            most = found;
            best = i;
        }
    }
    return best;
}

/* Free slot on the batch's shard with the fewest sequences, since rows are a shard's own: the least
 * recently used, whose cache is least likely to be reused. */
static int64_t slot_of_fewest(const struct sw_engine *e)
{
    const int64_t each = e->rows.slots / e->rows.shards;
    const int64_t *used = e->prefixes.used;
    int64_t best = -1, fewest = each;
    for (int64_t shard = 0; shard < e->rows.shards; shard++) {
        int64_t busy = 0, oldest = -1;
        for (int64_t i = shard * each; i < (shard + 1) * each; i++) {
            busy += is_busy(e, i);
            if (!is_busy(e, i) && (oldest < 0 || used[i] < used[oldest]))
                oldest = i;
        }
        if (busy < fewest) {
            fewest = busy;
            best = oldest;
        }
    }
    return best;
}

bool sw_engine_has_room(const struct sw_engine *e)
{
    return slot_of_fewest(e) >= 0;
}

int64_t sw_engine_free_slot(const struct sw_engine *e, const struct sw_sequence *sequence)
{
    const int64_t slot = slot_with_prefix(e, sequence);
    return slot >= 0 ? slot : slot_of_fewest(e);
}

bool sw_engine_is_busy(const struct sw_engine *e)
{
    for (int64_t i = 0; i < e->rows.slots; i++)
        if (is_busy(e, i))
            return true;
    return false;
}

/* Positions of the sequence already in its slot. A scored one reuses and leaves none: it must
 * report every token, and `score` and `decode` compute its positions. */
static int64_t keep_prefix(struct sw_engine *e, int64_t slot, const struct sw_sequence *sequence)
{
    const int64_t chunked = chunked_tokens(e, &e->slot[slot]);
    int64_t found = 0;
    if (!sequence->scored)
        found =
            sw_prefixes_found(&e->prefixes, slot, sequence->tokens, sequence->token_count, chunked);
    sw_prefixes_take(&e->prefixes, slot, sequence->tokens, sequence->token_count, chunked, found);
    e->counts.cached_tokens += found;
    return found;
}

void sw_engine_admit(struct sw_engine *e, int64_t slot, const struct sw_sequence *sequence,
                     const struct sw_engine_calls *calls, int64_t *kept)
{
    struct slot *s = &e->slot[slot];
    /* a scored sequence's last token is only predicted */
    const int64_t room =
        sequence->max_new_tokens > 0 ? e->max_tokens - 1 : e->max_tokens + sequence->scored;
    *s = (struct slot){.sequence = *sequence};
    sw_batch_scheduler_begin(&e->scheduler, slot,
                             sequence->scored ? SW_PROGRAM_SCORE : SW_PROGRAM_PREFILL,
                             sequence->ahead);
    memset(e->seen + slot * e->rows.words, 0, (size_t)e->rows.words * sizeof *e->seen);
    for (int64_t t = 0; t < sequence->token_count; t++)
        mark_seen(e, slot, sequence->tokens[t]);
    sw_adjustments_begin(&e->adjustments, slot, sequence->biases, sequence->min_tokens > 0);
    if (sequence->token_count > room) {
        end_sequence(e, slot, calls, true);
        return;
    }
    s->cached = keep_prefix(e, slot, sequence);
    if (kept != NULL)
        *kept = s->cached;
    if (has_tail(e, s))
        sw_batch_scheduler_goes_on(&e->scheduler, slot);
    if (read_tokens(s) == 0)
        leave_chunks(e, slot, calls);
}

void sw_engine_drop(struct sw_engine *e, int64_t slot)
{
    sw_batch_scheduler_end(&e->scheduler, slot);
}

/* Reports the log-probabilities of the tokens after those just fed. */
static void tell_scores(struct sw_engine *e, int64_t row, const struct sw_engine_calls *calls)
{
    const struct slot *s = &e->slot[sw_rows_slot(&e->rows, row)];
    const int64_t count = sw_rows_tokens(&e->rows, row);
    for (int64_t t = 0; t < count && calls->scored != NULL; t++)
        calls->scored(calls->context, &s->sequence, s->cached - count + t + 1,
                      sw_rows_output(&e->rows, row * e->rows.length + t));
}

/* Takes the program's results for a row. */
static void take_chunk(struct sw_engine *e, int64_t row, const struct sw_engine_calls *calls)
{
    struct slot *s = &e->slot[sw_rows_slot(&e->rows, row)];
    s->cached += sw_rows_tokens(&e->rows, row);
    e->counts.prompt_tokens += sw_rows_tokens(&e->rows, row);
    if (s->sequence.scored)
        tell_scores(e, row, calls);
    else
        sw_prefixes_made(&e->prefixes, sw_rows_slot(&e->rows, row), s->cached);
    if (has_tail(e, s))
        sw_batch_scheduler_goes_on(&e->scheduler, sw_rows_slot(&e->rows, row));
    if (s->cached < read_tokens(s))
        return;
    if (s->sequence.scored) {
        leave_chunks(e, sw_rows_slot(&e->rows, row), calls);
    } else {
        sw_batch_scheduler_is_read(&e->scheduler, sw_rows_slot(&e->rows, row));
        take_token(e, row, calls);
    }
}

/* Makes the row idle. */
static void rest_row(struct sw_engine *e, int64_t row)
{
    const int64_t shard = row / (e->rows.count / e->rows.shards);
    (void)sw_rows_read(&e->rows, row, shard * (e->rows.slots / e->rows.shards), NULL, 0, 0, false);
    set_settings(e, row, sw_rows_slot(&e->rows, row));
}

/* Sets a row to tokens [first, ..) of `end` of the slot's prompt, as many as fit. Returns the next
 * row's first token. */
static int64_t read_row(struct sw_engine *e, int64_t row, int64_t slot, int64_t first, int64_t end)
{
    const struct slot *s = &e->slot[slot];
    const int64_t next =
        sw_rows_read(&e->rows, row, slot, s->sequence.tokens, first, end, s->sequence.scored);
    set_settings(e, row, slot);
    return next;
}

/* Sets a row to the slot's newest token. */
static void feed_row(struct sw_engine *e, int64_t row, int64_t slot)
{
    const struct slot *s = &e->slot[slot];
    sw_rows_set(&e->rows, row, slot, s->cached, 1);
    set_settings(e, row, slot);
    e->rows.tokens[row] =
        s->cached < s->sequence.token_count ? s->sequence.tokens[s->cached] : s->pending;
}

/* Program for prompts whose tokens are read one by one. */
static enum sw_program_kind singles(const struct sw_engine *e)
{
    return e->rows.tails ? SW_PROGRAM_READ : SW_PROGRAM_PREFILL;
}

/* True if calls of the program give every running sequence its next token. */
static bool has_tokens(const struct sw_engine *e, enum sw_program_kind kind)
{
    return kind == SW_PROGRAM_DECODE || kind == SW_PROGRAM_READ ||
           (e->rows.mixes && kind == SW_PROGRAM_PREFILL);
}

/* True if running sequences wait for tokens while prompts are read. */
static bool is_interleaved(const struct sw_engine *e)
{
    return e->interleaves && sw_batch_scheduler_any_waits(&e->scheduler, SW_PROGRAM_DECODE);
}

/* Rows of single tokens that the program could use on the fullest shard, for all its prompts and
 * running sequences. */
static int64_t wanted_rows(const struct sw_engine *e, enum sw_program_kind kind)
{
    const int64_t each = e->rows.slots / e->rows.shards;
    int64_t wanted = 0, most = 0;
    for (int64_t i = 0; i < e->rows.slots; i++) {
        const enum sw_program_kind waits = e->scheduler.of[i].waits;
        wanted = i % each == 0 ? 0 : wanted;
        if (waits == SW_PROGRAM_DECODE)
            wanted++;
        else if (waits == singles(e) && kind != SW_PROGRAM_DECODE)
            wanted += read_tokens(&e->slot[i]) - e->slot[i].cached;
        most = wanted > most ? wanted : most;
    }
    if (kind == SW_PROGRAM_READ && is_interleaved(e)) {
        const int64_t rows = sw_serving_read_beside(each, e->rows.read_rows / e->rows.shards);
        return most < rows ? most : rows;
    }
    return most;
}

/* Places prompts in order, each on as many rows of its shard as it needs; the other rows are
 * idle. */
static void fill_rows(struct sw_engine *e, enum sw_program_kind kind)
{
    const int64_t each = e->rows.count / e->rows.shards;
    for (int64_t shard = 0; shard < e->rows.shards; shard++) {
        const int64_t end = (shard + 1) * each;
        int64_t row = shard * each, slot = sw_batch_scheduler_first(&e->scheduler, kind, shard, -1);
        for (; row < end && slot >= 0;
             slot = sw_batch_scheduler_first(&e->scheduler, kind, shard, slot)) {
            const int64_t chunked = chunked_tokens(e, &e->slot[slot]);
            int64_t at = e->slot[slot].cached;
            for (; row < end && at < chunked; row++)
                at = read_row(e, row, slot, at, chunked);
        }
        for (; row < end; row++)
            rest_row(e, row);
    }
}

/* Places prompts in order into rows [front, back) of a shard: their last tokens, which are sampled,
 * from the front, the others from the back, a prompt's being adjacent. Free rows between:
 * [returned, *back). */
static int64_t fill_prompts(struct sw_engine *e, int64_t shard, int64_t front, int64_t *back)
{
    for (int64_t slot = sw_batch_scheduler_first(&e->scheduler, singles(e), shard, -1);
         slot >= 0 && front < *back;
         slot = sw_batch_scheduler_first(&e->scheduler, singles(e), shard, slot)) {
        const struct slot *s = &e->slot[slot];
        const int64_t left = read_tokens(s) - s->cached;
        const bool ends = left <= *back - front;
        const int64_t behind = ends ? left - 1 : *back - front;
        *back -= behind;
        for (int64_t i = 0; i < behind; i++)
            (void)read_row(e, *back + i, slot, s->cached + i, read_tokens(s));
        if (ends)
            (void)read_row(e, front++, slot, s->cached + behind, read_tokens(s));
    }
    return front;
}

/* Places every running sequence's next token, then, except in `decode`, prompts. */
static void fill_tokens(struct sw_engine *e, enum sw_program_kind kind)
{
    const int64_t each = e->rows.count / e->rows.shards, slots = e->rows.slots / e->rows.shards;
    for (int64_t shard = 0; shard < e->rows.shards; shard++) {
        int64_t front = shard * each;
        int64_t back = front + each;
        for (int64_t i = shard * slots; i < (shard + 1) * slots; i++)
            if (is_busy(e, i) && !sw_batch_scheduler_reads(&e->scheduler, i))
                feed_row(e, front++, i);
        if (kind != SW_PROGRAM_DECODE)
            front = fill_prompts(e, shard, front, &back);
        for (; front < back; front++)
            rest_row(e, front);
    }
}

/* Takes the token sampled after a slot's newest: a new one or, in a ranked prompt, the most
 * probable ones at the next position. */
static void take_decoded(struct sw_engine *e, int64_t row, const struct sw_engine_calls *calls)
{
    const int64_t slot = sw_rows_slot(&e->rows, row);
    struct slot *s = &e->slot[slot];
    sw_prefixes_wrote(&e->prefixes, slot, s->cached + 1);
    if ((e->rows.mixes || e->rows.tails) && !s->sequence.scored) /* like its prompt */
        sw_prefixes_add(&e->prefixes, slot, s->cached, e->rows.tokens[row]);
    s->cached++;
    if (s->cached >= s->sequence.token_count) {
        take_token(e, row, calls);
        return;
    }
    if (calls->ranked != NULL) {
        struct sw_top top;
        read_top(e, row, &top);
        calls->ranked(calls->context, &s->sequence, s->cached, &top);
    }
    if (s->sequence.max_new_tokens == 0 && s->cached + 1 >= s->sequence.token_count)
        end_sequence(e, slot, calls, false);
}

/* Counts a token's time, limited to near the median: while the processor was taken away, a token
 * says little. Tokens behind other programs do not count, since weights come from memory again. */
static void note_token(struct sw_engine *e, double seconds)
{
    const double before = e->token_seconds, most = 1.25 * before;
    if (!(before > 0))
        e->token_seconds = seconds;
    else if (e->is_steady)
        e->token_seconds += ((seconds < most ? seconds : most) - before) / 8;
    e->is_steady = true;
}

/* Counts a program run since `begin`; `inside_seconds` of it went to tokens made during it. */
static void count_call(struct sw_engine *e, enum sw_program_kind kind, double begin,
                       double inside_seconds)
{
    const double now = sw_clock_now(), seconds = now - begin - inside_seconds;
    if (has_tokens(e, kind))
        e->token_at = now;
    if (kind == SW_PROGRAM_DECODE) {
        note_token(e, seconds);
        e->counts.decodes++;
        e->counts.decode_rows += e->rows.count;
        e->counts.decode_seconds += seconds;
        return;
    }
    e->is_steady = false;
    e->counts.prefills++;
    e->counts.prefill_rows += e->rows.count * e->rows.length;
    e->counts.reads += kind == SW_PROGRAM_READ;
    e->counts.prefill_seconds += seconds;
}

/* Context of a pause in a call of chunks. */
struct pause {
    struct sw_engine *engine;
    const struct sw_engine_calls *calls;
};
static int pause_for_tokens(void *context, struct sw_error *err);

/* Runs the next chunks of the prompts that wait for this program, a token of every running
 * sequence, or, if it mixes, both. */
static int run_program(struct sw_engine *e, enum sw_program_kind kind,
                       const struct sw_engine_calls *calls, struct sw_error *err)
{
    const double begin = sw_clock_now(), decoded = e->counts.decode_seconds;
    const bool tokens = has_tokens(e, kind), mixes = tokens && kind != SW_PROGRAM_DECODE;
    struct pause pause = {e, calls};
    sw_rows_begin(&e->rows, kind, tokens ? wanted_rows(e, kind) : 0);
    if (tokens)
        fill_tokens(e, kind);
    else
        fill_rows(e, kind);
    if (!tokens && is_interleaved(e))
        sw_executor_pause(e->executor, pause_for_tokens, &pause);
    if (run_rows(e, kind, err) != 0)
        return -1;
    const double inside_seconds = e->counts.decode_seconds - decoded;
    for (int64_t i = 0; i < e->rows.count; i++) {
        const int64_t row = mixes ? e->rows.count - 1 - i : i; /* a prompt's last row at its end */
        if (sw_rows_tokens(&e->rows, row) == 0)
            continue;
        if (sw_batch_scheduler_reads(&e->scheduler, sw_rows_slot(&e->rows, row)))
            take_chunk(e, row, calls);
        else
            take_decoded(e, row, calls);
    }
    count_call(e, kind, begin, inside_seconds);
    return 0;
}

/* Makes a token of every running sequence during a call of chunks, which then continues with its
 * own rows. After that call a token is still made before the next one. */
static int make_tokens_inside(struct sw_engine *e, const struct sw_engine_calls *calls,
                              struct sw_error *err)
{
    const struct sw_rows chunks = e->rows;
    const enum sw_program_kind last = e->scheduler.last;
    e->rows = e->beside;
    e->is_steady = false;
    const int status = run_program(e, SW_PROGRAM_DECODE, calls, err);
    e->beside = e->rows;
    e->rows = chunks;
    e->scheduler.last = last;
    e->counts.inside++;
    return status;
}

static int pause_for_tokens(void *context, struct sw_error *err)
{
    const struct pause *pause = context;
    struct sw_engine *e = pause->engine;
    const double passed = sw_clock_now() - e->token_at;
    bool now = e->every > 0 ? ++e->points % e->every == 0
                            : passed >= sw_serving_slice_seconds(e->token_seconds);
    now = now && sw_batch_scheduler_any_waits(&e->scheduler, SW_PROGRAM_DECODE);
    return now ? make_tokens_inside(e, pause->calls, err) : 0;
}

void sw_engine_pause_at(struct sw_engine *e, int32_t every)
{
    e->every = every;
}

/* Prompts with more tokens on a shard than a call of `prefill` are read by `read`. waits: true if a
 * running sequence waits for a token, which `prefill` gives sooner. */
static enum sw_program_kind widened(const struct sw_engine *e, enum sw_program_kind kind,
                                    bool waits)
{
    const struct sw_rows *r = &e->rows;
    if (kind != SW_PROGRAM_PREFILL || !r->mixes || r->read_rows == 0 ||
        (waits && sw_batch_scheduler_any_waits(&e->scheduler, SW_PROGRAM_DECODE)))
        return kind;
    return sw_serving_widens(wanted_rows(e, kind), r->chunk_rows / r->shards) ? SW_PROGRAM_READ
                                                                              : kind;
}

int sw_engine_step(struct sw_engine *e, const struct sw_engine_calls *calls, struct sw_error *err)
{
    const enum sw_program_kind kind = widened(e, sw_batch_scheduler_next(&e->scheduler), true);
    return kind != SW_PROGRAM_KINDS ? run_program(e, kind, calls, err) : 0;
}

/* Puts a sequence into every free slot, while there are any. */
static int fill_slots(struct sw_engine *e, const struct sw_engine_calls *calls, bool *none_left,
                      struct sw_error *err)
{
    while (!*none_left && sw_engine_has_room(e)) {
        struct sw_sequence sequence = {0};
        const int got = calls->next(calls->context, &sequence, err);
        if (got < 0)
            return -1;
        *none_left = got == 0;
        if (got > 0)
            sw_engine_admit(e, sw_engine_free_slot(e, &sequence), &sequence, calls, NULL);
    }
    return 0;
}

int sw_engine_run(struct sw_engine *e, const struct sw_engine_calls *calls, struct sw_error *err)
{
    bool none_left = false;
    for (;;) {
        if (fill_slots(e, calls, &none_left, err) < 0)
            return -1;
        if (!sw_engine_is_busy(e))
            return 0;
        /* no client waits for a token */
        const enum sw_program_kind kind =
            widened(e,
                    e->every > 0 ? sw_batch_scheduler_next(&e->scheduler)
                                 : sw_batch_scheduler_next_of_many(&e->scheduler),
                    false);
        if (run_program(e, kind, calls, err) != 0)
            return -1;
    }
}

/* ---- Scores ---- */

struct scores {
    float *const *logprobs; /* owned by the caller */
};

static void keep_score(void *context, const struct sw_sequence *sequence, int64_t index,
                       double logprob)
{
    const struct scores *scores = context;
    scores->logprobs[sequence->number][index - 1] = (float)logprob;
}

int sw_engine_score(struct sw_engine *e, const struct sw_sequence *sequences, int64_t count,
                    float *const *logprobs, struct sw_error *err)
{
    struct scores scores = {logprobs};
    const struct sw_engine_calls calls = {.scored = keep_score, .context = &scores};
    int64_t longest = 0;
    for (int64_t i = 0; i < count; i++)
        longest = sequences[i].token_count - 1 > longest ? sequences[i].token_count - 1 : longest;
    if (count > e->rows.slots || longest > e->max_tokens)
        return sw_fail(err, SW_ENVIRONMENT, "texts of %lld tokens do not fit the cache",
                       (long long)longest);
    assert(!sw_engine_is_busy(e));
    for (int64_t i = 0; i < count; i++) {
        struct sw_sequence sequence = sequences[i];
        sequence.number = i;
        sequence.scored = true;
        sequence.max_new_tokens = sequence.top = 0;
        sw_engine_admit(e, sw_engine_free_slot(e, &sequence), &sequence, &calls, NULL);
    }
    while (sw_engine_is_busy(e))
        if (run_program(e, SW_PROGRAM_SCORE, &calls, err) != 0)
            return -1;
    return 0;
}
