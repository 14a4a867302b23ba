#include "runner/generate/engine.h"

#include "core/base/clock.h"
#include "core/base/hash.h"
#include "core/program/serving.h"

#include <stdlib.h>
#include <string.h>

struct slot {
    struct sw_text text;
    bool busy, in_chunks; /* in_chunks: of the prompt, until all of them are in the cache */
    int64_t cached;       /* positions that the cache has */
    int64_t made;         /* new tokens */
    int32_t pending;      /* the newest token, which the cache has not */
};

struct sw_engine {
    struct sw_executor *executor;
    int64_t slot_count, chunk, max_tokens, vocab, words;
    bool wide;                 /* outputs are f64 */
    enum sw_program_kind last; /* what ran last */
    struct slot *slot;
    struct sw_engine_counts counts;
    /* what the programs are fed, what they give */
    int32_t *tokens; /* [slots, chunk] */
    int32_t *labels; /* [slots, chunk] */
    int32_t *where;  /* [slots, SW_SLOT_FIELDS] */
    int32_t *seen;   /* [slots, words] */
    float *settings; /* [slots, SW_SAMPLING_SETTINGS] */
    void *output;    /* [slots, SW_SAMPLED_NUMBERS] or [slots, chunk], f32 or f64 */
};

/* ---- The engine ---- */

/* A program of the set from which shapes can be read; NULL: none serves. */
static const struct sw_program *any_program(const struct sw_program_set *set)
{
    static const enum sw_program_kind kinds[] = {SW_PROGRAM_PREFILL, SW_PROGRAM_SCORE};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (set->program[kinds[i]] != NULL)
            return set->program[kinds[i]];
    return NULL;
}

static void read_shapes(struct sw_engine *e, const struct sw_program *p)
{
    const struct sw_state *state = &sw_executor_set(e->executor)->state;
    const struct sw_value *tokens = &p->values[sw_program_input(p, "tokens")];
    e->slot_count = tokens->size[0];
    e->chunk = tokens->size[1];
    e->max_tokens = sw_state_find(state, "key cache")->size[1];
    e->vocab = sw_state_find(state, "embedding")->size[0];
    e->words = sw_sampling_words(e->vocab);
    e->wide = p->values[p->outputs.at[0].value].dtype == SW_F64;
}

int sw_engine_create(struct sw_executor *executor, struct sw_engine **out, struct sw_error *err)
{
    const struct sw_program *p = any_program(sw_executor_set(executor));
    struct sw_engine *e = calloc(1, sizeof *e);
    if (p == NULL || e == NULL) {
        free(e);
        return sw_fail(err, SW_ENVIRONMENT,
                       p == NULL ? "no program makes texts" : "out of memory for the engine");
    }
    e->executor = executor;
    read_shapes(e, p);
    const size_t slots = (size_t)e->slot_count, row = slots * (size_t)e->chunk;
    e->slot = calloc(slots, sizeof *e->slot);
    e->tokens = calloc(row, sizeof *e->tokens);
    e->labels = calloc(row, sizeof *e->labels);
    e->where = calloc(slots * SW_SLOT_FIELDS, sizeof *e->where);
    e->seen = calloc(slots * (size_t)e->words, sizeof *e->seen);
    e->settings = calloc(slots * SW_SAMPLING_SETTINGS, sizeof *e->settings);
    e->output = calloc(row + SW_SAMPLED_NUMBERS * slots, sizeof(double));
    if (e->slot == NULL || e->tokens == NULL || e->labels == NULL || e->where == NULL ||
        e->seen == NULL || e->settings == NULL || e->output == NULL) {
        sw_engine_free(e);
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the engine");
    }
    *out = e;
    return 0;
}

void sw_engine_free(struct sw_engine *e)
{
    if (e == NULL)
        return;
    free(e->slot);
    free(e->tokens);
    free(e->labels);
    free(e->where);
    free(e->seen);
    free(e->settings);
    free(e->output);
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
    return e->slot_count;
}

const struct sw_engine_counts *sw_engine_counts(const struct sw_engine *e)
{
    return &e->counts;
}

/* ---- One run of a program ---- */

static double output(const struct sw_engine *e, int64_t i)
{
    return e->wide ? ((const double *)e->output)[i] : (double)((const float *)e->output)[i];
}

/* ---- Slots ---- */

/* Tokens of the prompt that are fed in chunks: of one that is scored the last is only predicted,
 * and `decode` takes it from there. */
static int64_t chunked_tokens(const struct slot *s)
{
    return s->text.scored ? s->text.token_count - 1 : s->text.token_count;
}

/* The program that a slot waits for; SW_PROGRAM_KINDS: it is free. */
static enum sw_program_kind stage(const struct slot *s)
{
    if (!s->busy)
        return SW_PROGRAM_KINDS;
    if (s->in_chunks)
        return s->text.scored ? SW_PROGRAM_SCORE : SW_PROGRAM_PREFILL;
    return SW_PROGRAM_DECODE;
}

static bool any_waits(const struct sw_engine *e, enum sw_program_kind kind)
{
    for (int64_t i = 0; i < e->slot_count; i++)
        if (stage(&e->slot[i]) == kind)
            return true;
    return false;
}

/* Uniform in [0, 1), as an fp32 number: of the text's seed and the token's place in it. */
static float draw(const struct slot *s)
{
    const uint64_t mixed =
        sw_hash_mix(sw_hash_mix(s->text.seed) + (uint64_t)s->made * UINT64_C(0x9e3779b97f4a7c15));
    return (float)(mixed >> 40) * 0x1p-24f;
}

static void set_settings(struct sw_engine *e, int64_t i)
{
    const struct slot *s = &e->slot[i];
    float *to = e->settings + i * SW_SAMPLING_SETTINGS;
    to[SW_SAMPLING_TOP] = s->busy ? (float)s->text.top : 0;
    if (s->cached + 1 < s->text.token_count && !s->in_chunks) { /* which is the most probable? */
        to[SW_SAMPLING_TEMPERATURE] = to[SW_SAMPLING_TOP_K] = to[SW_SAMPLING_MIN_P] = 0;
        to[SW_SAMPLING_DRAW] = 0;
        to[SW_SAMPLING_TOP_P] = to[SW_SAMPLING_PENALTY] = 1;
        return;
    }
    to[SW_SAMPLING_TEMPERATURE] = (float)s->text.sampling.temperature;
    to[SW_SAMPLING_TOP_K] = (float)s->text.sampling.top_k;
    to[SW_SAMPLING_TOP_P] = (float)s->text.sampling.top_p;
    to[SW_SAMPLING_MIN_P] = (float)s->text.sampling.min_p;
    to[SW_SAMPLING_PENALTY] = (float)s->text.sampling.penalty;
    to[SW_SAMPLING_DRAW] = draw(s);
}

static void mark_seen(struct sw_engine *e, int64_t i, int32_t token)
{
    if (token >= 0 && token < e->vocab)
        e->seen[i * e->words + token / 32] |= (int32_t)(UINT32_C(1) << (token % 32));
}

static void set_where(struct sw_engine *e, int64_t i, int64_t first, int64_t count)
{
    e->where[i * SW_SLOT_FIELDS] = (int32_t)first;
    e->where[i * SW_SLOT_FIELDS + 1] = (int32_t)count;
}

/* `length`: tokens of a slot that the program takes. */
static int call(struct sw_engine *e, enum sw_program_kind kind, int64_t length,
                struct sw_error *err)
{
    const size_t slots = (size_t)e->slot_count, row = slots * (size_t)length;
    const size_t element = e->wide ? sizeof(double) : sizeof(float);
    const bool scores = kind == SW_PROGRAM_SCORE;
    bool penalties = false;
    for (int64_t i = 0; i < e->slot_count; i++)
        penalties |= e->slot[i].busy && e->slot[i].text.sampling.penalty != 1;
    struct sw_feed feeds[4] = {
        {.name = "tokens", .data = e->tokens, .bytes = row * sizeof *e->tokens},
        {.name = "slots", .data = e->where, .bytes = slots * SW_SLOT_FIELDS * sizeof *e->where},
        {.name = "settings",
         .data = e->settings,
         .bytes = slots * SW_SAMPLING_SETTINGS * sizeof *e->settings},
        {.name = "seen",
         .data = penalties ? e->seen : NULL,
         .bytes = slots * (size_t)e->words * sizeof *e->seen}};
    const struct sw_fetch fetch = {.name = scores ? "logprobs" : "sampled",
                                   .data = e->output,
                                   .bytes = (scores ? row : SW_SAMPLED_NUMBERS * slots) * element};
    if (scores)
        feeds[2] =
            (struct sw_feed){.name = "labels", .data = e->labels, .bytes = row * sizeof *e->labels};
    return sw_executor_run(e->executor, kind, NULL, feeds, scores ? 3 : 4, &fetch, 1, err);
}

/* ---- Texts ---- */

static void end_text(struct slot *s, const struct sw_engine_calls *calls, bool full)
{
    s->busy = false;
    if (calls->ended != NULL)
        calls->ended(calls->context, &s->text, full);
}

static double sampled(const struct sw_engine *e, int64_t i, int64_t number)
{
    return output(e, SW_SAMPLED_NUMBERS * i + number);
}

static void read_top(const struct sw_engine *e, int64_t i, struct sw_top *top)
{
    const int32_t wanted = e->slot[i].text.top;
    *top = (struct sw_top){0};
    for (; top->count < wanted && sampled(e, i, 2 + 2 * top->count) >= 0;) {
        top->token[top->count] = (int32_t)sampled(e, i, 2 + 2 * top->count);
        top->logprob[top->count] = sampled(e, i, 3 + 2 * top->count);
        top->count++;
    }
}

/* What the program sampled behind the slot's last token. */
static void take_token(struct sw_engine *e, int64_t i, const struct sw_engine_calls *calls)
{
    struct slot *s = &e->slot[i];
    struct sw_top top;
    s->pending = (int32_t)sampled(e, i, 0);
    mark_seen(e, i, s->pending);
    read_top(e, i, &top);
    e->counts.new_tokens++;
    const bool more =
        calls->token(calls->context, &s->text, s->made, s->pending, sampled(e, i, 1), &top);
    s->made++;
    if (!more || s->made >= s->text.max_new_tokens)
        end_text(s, calls, false);
    else if (s->cached + 1 >= e->max_tokens) /* the newest one counts, too */
        end_text(s, calls, true);
}

/* Behind the chunks of a scored prompt: what is left for `decode`. */
static void leave_chunks(struct slot *s, const struct sw_engine_calls *calls)
{
    s->in_chunks = false;
    if (s->text.top > 0)
        s->cached = 0;
    if (s->text.max_new_tokens == 0 && s->cached + 1 >= s->text.token_count)
        end_text(s, calls, false);
}

int64_t sw_engine_free_slot(const struct sw_engine *e)
{
    for (int64_t i = 0; i < e->slot_count; i++)
        if (!e->slot[i].busy)
            return i;
    return -1;
}

bool sw_engine_is_busy(const struct sw_engine *e)
{
    for (int64_t i = 0; i < e->slot_count; i++)
        if (e->slot[i].busy)
            return true;
    return false;
}

void sw_engine_admit(struct sw_engine *e, int64_t slot, const struct sw_text *text,
                     const struct sw_engine_calls *calls)
{
    struct slot *s = &e->slot[slot];
    const int64_t room = text->max_new_tokens > 0 ? e->max_tokens - 1 : e->max_tokens;
    *s = (struct slot){.text = *text, .busy = true, .in_chunks = true};
    memset(e->seen + slot * e->words, 0, (size_t)e->words * sizeof *e->seen);
    for (int64_t t = 0; t < text->token_count; t++)
        mark_seen(e, slot, text->tokens[t]);
    if (text->token_count > room)
        end_text(s, calls, true);
    else if (chunked_tokens(s) == 0)
        leave_chunks(s, calls);
}

void sw_engine_drop(struct sw_engine *e, int64_t slot)
{
    e->slot[slot].busy = false;
}

/* The log-probabilities of the tokens behind those that were just fed. */
static void tell_scores(struct sw_engine *e, int64_t i, int64_t count,
                        const struct sw_engine_calls *calls)
{
    const struct slot *s = &e->slot[i];
    for (int64_t t = 0; t < count && calls->scored != NULL; t++)
        calls->scored(calls->context, &s->text, s->cached - count + t + 1,
                      output(e, i * e->chunk + t));
}

/* What the program said of a slot's `count` tokens. */
static void take_chunk(struct sw_engine *e, int64_t i, int64_t count,
                       const struct sw_engine_calls *calls)
{
    struct slot *s = &e->slot[i];
    s->cached += count;
    e->counts.prompt_tokens += count;
    if (s->text.scored)
        tell_scores(e, i, count, calls);
    if (s->cached < chunked_tokens(s))
        return;
    if (s->text.scored) {
        leave_chunks(s, calls);
    } else {
        s->in_chunks = false;
        take_token(e, i, calls);
    }
}

/* The next chunk of every prompt that waits for this program; the other slots rest. */
static int run_chunk(struct sw_engine *e, enum sw_program_kind kind,
                     const struct sw_engine_calls *calls, struct sw_error *err)
{
    const double begin = sw_clock_now();
    for (int64_t i = 0; i < e->slot_count; i++) {
        const struct slot *s = &e->slot[i];
        const int64_t left = stage(s) == kind ? chunked_tokens(s) - s->cached : 0;
        const int64_t n = left < e->chunk ? left : e->chunk;
        set_where(e, i, n > 0 ? s->cached : 0, n);
        set_settings(e, i);
        for (int64_t t = 0; t < e->chunk; t++) {
            const bool scored = t < n && kind == SW_PROGRAM_SCORE;
            e->tokens[i * e->chunk + t] = t < n ? s->text.tokens[s->cached + t] : 0;
            e->labels[i * e->chunk + t] = scored ? s->text.tokens[s->cached + t + 1] : -1;
        }
    }
    if (call(e, kind, e->chunk, err) != 0)
        return -1;
    e->counts.prefills++;
    for (int64_t i = 0; i < e->slot_count; i++)
        if (e->where[i * SW_SLOT_FIELDS + 1] > 0)
            take_chunk(e, i, e->where[i * SW_SLOT_FIELDS + 1], calls);
    e->counts.prefill_seconds += sw_clock_now() - begin;
    return 0;
}

/* What was sampled behind the token that a slot was fed: a new one, or, of a prompt that is ranked,
 * what would be most probable in the place of the next. */
static void take_decoded(struct sw_engine *e, int64_t i, const struct sw_engine_calls *calls)
{
    struct slot *s = &e->slot[i];
    s->cached++;
    if (s->cached >= s->text.token_count) {
        take_token(e, i, calls);
        return;
    }
    if (calls->ranked != NULL) {
        struct sw_top top;
        read_top(e, i, &top);
        calls->ranked(calls->context, &s->text, s->cached, &top);
    }
    if (s->text.max_new_tokens == 0 && s->cached + 1 >= s->text.token_count)
        end_text(s, calls, false);
}

static int decode_token(struct sw_engine *e, const struct sw_engine_calls *calls,
                        struct sw_error *err)
{
    const double begin = sw_clock_now();
    for (int64_t i = 0; i < e->slot_count; i++) {
        const struct slot *s = &e->slot[i];
        const bool waits = stage(s) == SW_PROGRAM_DECODE;
        set_where(e, i, waits ? s->cached : 0, waits);
        set_settings(e, i);
        e->tokens[i] = !waits                            ? 0
                       : s->cached < s->text.token_count ? s->text.tokens[s->cached]
                                                         : s->pending;
    }
    if (call(e, SW_PROGRAM_DECODE, 1, err) != 0)
        return -1;
    e->counts.decodes++;
    for (int64_t i = 0; i < e->slot_count; i++)
        if (e->where[i * SW_SLOT_FIELDS + 1] > 0)
            take_decoded(e, i, calls);
    e->counts.decode_seconds += sw_clock_now() - begin;
    return 0;
}

static int run_program(struct sw_engine *e, enum sw_program_kind kind,
                       const struct sw_engine_calls *calls, struct sw_error *err)
{
    e->last = kind;
    return kind == SW_PROGRAM_DECODE ? decode_token(e, calls, err) : run_chunk(e, kind, calls, err);
}

int sw_engine_step(struct sw_engine *e, const struct sw_engine_calls *calls, struct sw_error *err)
{
    static const enum sw_program_kind kinds[] = {SW_PROGRAM_PREFILL, SW_PROGRAM_SCORE,
                                                 SW_PROGRAM_DECODE};
    enum { KINDS = sizeof kinds / sizeof kinds[0] };
    int32_t first = 0;
    for (int32_t i = 0; i < KINDS; i++)
        if (kinds[i] == e->last)
            first = i + 1;
    for (int32_t i = 0; i < KINDS; i++)
        if (any_waits(e, kinds[(first + i) % KINDS]))
            return run_program(e, kinds[(first + i) % KINDS], calls, err);
    return 0;
}

/* A text into every free slot, as far as there are any. */
static int fill_slots(struct sw_engine *e, const struct sw_engine_calls *calls, bool *none_left,
                      struct sw_error *err)
{
    for (int64_t slot; !*none_left && (slot = sw_engine_free_slot(e)) >= 0;) {
        struct sw_text text = {0};
        const int got = calls->next(calls->context, &text, err);
        if (got < 0)
            return -1;
        *none_left = got == 0;
        if (got > 0)
            sw_engine_admit(e, slot, &text, calls);
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
        /* all prompts first: nobody waits for a token */
        const enum sw_program_kind kind = any_waits(e, SW_PROGRAM_PREFILL) ? SW_PROGRAM_PREFILL
                                          : any_waits(e, SW_PROGRAM_SCORE) ? SW_PROGRAM_SCORE
                                                                           : SW_PROGRAM_DECODE;
        if (run_program(e, kind, calls, err) != 0)
            return -1;
    }
}

/* ---- Scores ---- */

int sw_engine_score(struct sw_engine *e, const struct sw_text *texts, int64_t count,
                    float *const *logprobs, struct sw_error *err)
{
    int64_t longest = 0;
    for (int64_t i = 0; i < count; i++)
        longest = texts[i].token_count - 1 > longest ? texts[i].token_count - 1 : longest;
    if (count > e->slot_count || longest > e->max_tokens)
        return sw_fail(err, SW_ENVIRONMENT, "texts of %lld tokens do not fit the cache",
                       (long long)longest);
    const double begin = sw_clock_now();
    for (int64_t first = 0; first < longest; first += e->chunk) {
        for (int64_t i = 0; i < e->slot_count; i++) {
            const int64_t left = i < count ? texts[i].token_count - 1 - first : 0;
            const int64_t n = left < 0 ? 0 : left < e->chunk ? left : e->chunk;
            set_where(e, i, n > 0 ? first : 0, n);
            for (int64_t t = 0; t < e->chunk; t++) {
                e->tokens[i * e->chunk + t] = t < n ? texts[i].tokens[first + t] : 0;
                e->labels[i * e->chunk + t] = t < n ? texts[i].tokens[first + t + 1] : -1;
            }
        }
        if (call(e, SW_PROGRAM_SCORE, e->chunk, err) != 0)
            return -1;
        e->counts.prefills++;
        for (int64_t i = 0; i < count; i++)
            for (int64_t t = 0; t < e->where[i * SW_SLOT_FIELDS + 1]; t++) {
                logprobs[i][first + t] = (float)output(e, i * e->chunk + t);
                e->counts.prompt_tokens++;
            }
    }
    e->counts.prefill_seconds += sw_clock_now() - begin;
    return 0;
}
