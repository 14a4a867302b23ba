#include "runner/generate/generate.h"

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/json.h"
#include "runner/generate/lines.h"
#include "runner/generate/generation.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A sequence being generated, or waiting for earlier ones to be written. */
struct completion {
    const struct sw_prompt *prompt;
    int64_t sample;
    struct sw_generation text;
};

struct run {
    struct sw_session *session;
    const struct sw_generate_options *options;
    struct sw_prompts prompts;
    struct sw_biases biases; /* for every sequence: the model's end tokens */
    struct completion *text; /* [prompts.samples] */
    int64_t next_prompt, next_sample, started, written;
    int64_t end_prompt; /* after those of this part */
    struct sw_lines lines;
    int64_t done;          /* sequences already written when continuing */
    int64_t cut;           /* sequences cut short for want of cache */
    FILE *out;             /* rank 0's */
    int64_t ended, wanted; /* sequences of this run and part */
    double told;           /* time of the latest progress line */
    bool streams;          /* true to stream one text to stdout */
    size_t streamed;
};

/* ---- Asked by the engine ---- */

/* Advances to the next sequence. */
static void pass_text(struct run *r)
{
    if (++r->next_sample == r->prompts.at[r->next_prompt].params.n) {
        r->next_sample = 0;
        r->next_prompt++;
    }
}

static int next_sequence(void *context, struct sw_sequence *out, struct sw_error *err)
{
    struct run *r = context;
    if (r->next_prompt == r->end_prompt)
        return 0;
    const struct sw_prompt *prompt = &r->prompts.at[r->next_prompt];
    const struct sw_sampling_params *params = &prompt->params;
    struct completion *m = &r->text[r->started];
    *m = (struct completion){.prompt = prompt, .sample = r->next_sample};
    if (sw_generation_begin(&m->text, r->session->codec, &prompt->stops, r->options->top, NULL, 0,
                            err) != 0)
        return -1;
    m->text.min_tokens = params->min_new_tokens;
    *out = (struct sw_sequence){.number = r->started++,
                                .tokens = prompt->tokens,
                                .token_count = prompt->token_count,
                                .max_new_tokens = params->max_new_tokens,
                                .top = r->options->top,
                                .sampling = sw_sampling_params_sampling(params),
                                .min_tokens = params->min_new_tokens,
                                .biases = params->min_new_tokens > 0 ? &r->biases : NULL,
                                /* a sequence's own, independent of the file's other lines; equal
                                 * prompts differ by position */
                                .seed = sw_hash_mix((uint64_t)params->seed) +
                                        (uint64_t)r->next_prompt * 1000003u +
                                        (uint64_t)r->next_sample};
    pass_text(r);
    return 1;
}

/* Writes the text that no stop can remove any more. */
static void stream(struct run *r, const struct completion *m)
{
    size_t until;
    const char *text = sw_generation_text(&m->text, &until);
    if (until > r->streamed) {
        (void)fwrite(text + r->streamed, 1, until - r->streamed, r->out);
        (void)fflush(r->out);
        r->streamed = until;
    }
}

static bool take_token(void *context, const struct sw_sequence *sequence, int64_t index,
                       int32_t token, double logprob, const struct sw_top *top)
{
    struct run *r = context;
    struct completion *m = &r->text[sequence->number];
    const bool more = sw_generation_take(&m->text, r->session->codec, token, logprob, top,
                                         &r->session->rank->err);
    (void)index;
    if (r->streams && r->out != NULL)
        stream(r, m);
    return more && r->session->rank->err.status == SW_OK;
}

/* ---- Writing ---- */

/* [[{"token": 7, "logprob": -0.5}, ...], ...] */
static void write_top(const struct sw_generation *m, struct sw_json *j)
{
    sw_json_array(j, "top_logprobs");
    for (int64_t i = 0; i < m->count; i++) {
        sw_json_array(j, NULL);
        for (int64_t k = i * m->top; k < (i + 1) * m->top && m->top_tokens[k] >= 0; k++) {
            sw_json_object(j, NULL);
            sw_json_integer(j, "token", m->top_tokens[k]);
            sw_json_digits(j, "logprob", m->top_logprobs[k], 9);
            sw_json_end(j);
        }
        sw_json_end(j);
    }
    sw_json_end(j);
}

static void write_text(const struct run *r, const struct completion *m)
{
    struct sw_json j = {.out = r->out, .style = SW_JSON_LINE};
    size_t bytes;
    const char *text = sw_generation_text(&m->text, &bytes);
    sw_json_object(&j, NULL);
    sw_json_integer(&j, "index", m->prompt - r->prompts.at);
    sw_json_integer(&j, "sample", m->sample);
    /* jansson's, since a text may contain U+0000 */
    json_t *string = json_stringn(text, bytes);
    char *written = string != NULL ? json_dumps(string, JSON_ENCODE_ANY) : NULL;
    if (written == NULL)
        sw_fail(&r->session->rank->err, SW_ENVIRONMENT, "out of memory for a text");
    if (sw_codec_can_read(r->session->codec) && written != NULL)
        sw_json_raw(&j, "text", written, strlen(written));
    else
        sw_json_null(&j, "text");
    json_decref(string);
    free(written);
    sw_json_array(&j, "tokens");
    for (int64_t i = 0; i < m->text.count; i++)
        sw_json_integer(&j, NULL, m->text.tokens[i]);
    sw_json_end(&j);
    if (r->options->logprobs) {
        sw_json_array(&j, "logprobs");
        for (int64_t i = 0; i < m->text.count; i++)
            sw_json_digits(&j, NULL, m->text.logprobs[i], 9);
        sw_json_end(&j);
    }
    if (r->options->top > 0)
        write_top(&m->text, &j);
    sw_json_integer(&j, "prompt_tokens", m->prompt->token_count);
    sw_json_text(&j, "finish_reason", m->text.reason);
    sw_json_end(&j);
    fputc('\n', r->out);
}

/* ---- Going on with an output ---- */

static bool is_number(const json_t *line, const char *key, int64_t wanted)
{
    const json_t *value = json_object_get(line, key);
    return json_is_integer(value) && json_integer_value(value) == wanted;
}

/* Checks that a line in the file belongs to the next sequence, and skips that. */
static int check_line(void *context, int64_t number, const json_t *line, char text[160])
{
    struct run *r = context;
    (void)number;
    if (r->next_prompt >= r->end_prompt) {
        snprintf(text, 160, "there is no prompt for it: it was made from other prompts");
        return -1;
    }
    const struct sw_prompt *prompt = &r->prompts.at[r->next_prompt];
    const json_t *tokens = json_object_get(line, "tokens");
    if (!is_number(line, "index", r->next_prompt) || !is_number(line, "sample", r->next_sample) ||
        !is_number(line, "prompt_tokens", prompt->token_count) || !json_is_array(tokens) ||
        json_array_size(tokens) > (size_t)prompt->params.max_new_tokens) {
        snprintf(text, 160,
                 "it is not of prompt %" PRId64 ", sample %" PRId64
                 ": it was made from other prompts or with other options",
                 r->next_prompt, r->next_sample);
        return -1;
    }
    pass_text(r);
    return 0;
}

/* Skips on all ranks the sequences rank 0 found done. */
static enum sw_status go_on(struct run *r)
{
    struct sw_session *s = r->session;
    const bool first = s->rank->launch->rank == 0;
    if (first)
        (void)sw_lines_open(&r->lines, r->options->out_path, check_line, r, &s->rank->err);
    const enum sw_status status = sw_rank_agree(s->rank);
    if (status != SW_OK)
        return status;
    r->done = r->lines.done;
    sw_launch_broadcast(s->rank->launch, &r->done, sizeof r->done);
    for (int64_t i = 0; i < r->done && !first; i++)
        pass_text(r);
    r->started = r->written = r->done;
    return SW_OK;
}

/* Overwrites a line on rank 0's terminal if the texts go to a file. */
static void tell_progress(struct run *r)
{
    const double now = sw_clock_now();
    if (r->session->rank->launch->rank != 0 || r->options->out_path == NULL ||
        isatty(STDERR_FILENO) != 1 || (now - r->told < 0.1 && r->ended < r->wanted))
        return;
    r->told = now;
    fprintf(stderr, "\r\033[K");
    if (r->ended < r->wanted)
        fprintf(stderr, "%" PRId64 " of %" PRId64 " texts", r->ended, r->wanted);
    fflush(stderr);
}

/* Writes sequences in the order of their prompts; those that end early wait. */
static void sequence_ended(void *context, const struct sw_sequence *sequence, bool full)
{
    struct run *r = context;
    struct completion *m = &r->text[sequence->number];
    sw_generation_end(&m->text, &r->session->rank->err);
    r->cut += full && strcmp(m->text.reason, "length") == 0;
    if (r->streams && r->out != NULL) {
        stream(r, m);
        fputc('\n', r->out);
    }
    for (; r->written < r->started && r->text[r->written].text.reason != NULL; r->written++) {
        if (r->out != NULL && !r->streams)
            write_text(r, &r->text[r->written]);
        if (r->lines.out != NULL)
            sw_lines_flush(&r->lines);
        sw_generation_free(&r->text[r->written].text);
    }
    r->ended++;
    tell_progress(r);
}

/* ---- The command ---- */

/* Reads all of stdin. */
static int read_stream(FILE *in, char **text, size_t *bytes)
{
    size_t capacity = 1 << 16, n;
    *bytes = 0;
    *text = malloc(capacity + 1);
    while (*text != NULL && (n = fread(*text + *bytes, 1, capacity - *bytes, in)) > 0) {
        *bytes += n;
        if (*bytes == capacity) {
            char *grown = realloc(*text, (capacity *= 2) + 1);
            if (grown == NULL)
                free(*text);
            *text = grown;
        }
    }
    return *text != NULL && !ferror(in) ? 0 : -1;
}

int sw_generate_read(const char *path, char **text, size_t *bytes, struct sw_error *err)
{
    const int status = strcmp(path, "-") == 0
                           ? read_stream(stdin, text, bytes)
                           : sw_file_read(path, false, (size_t)1 << 40, text, bytes, NULL);
    return status == 0
               ? 0
               : sw_fail_at(err, sw_path_status(errno, false), (struct sw_place){.file = path},
                            "cannot read it: %s; name a file that can be read", strerror(errno));
}

/* Rank 0 reads the prompts' text and shares it; every rank parses it. */
static enum sw_status read_prompts(struct run *r)
{
    struct sw_session *s = r->session;
    const struct sw_generate_options *o = r->options;
    const struct sw_prompt_limits limits = {.vocab = s->rank->plan->run->model.shape.vocab_size,
                                            .max_tokens = sw_engine_max_tokens(s->engine)};
    char *text = NULL;
    size_t bytes = 0;
    if (o->prompt != NULL) {
        (void)sw_prompts_single(o->prompt, s->codec, &limits, &o->params, &o->stops, &r->prompts,
                                &s->rank->err);
        return sw_rank_agree(s->rank);
    }
    if (s->rank->launch->rank == 0)
        (void)sw_generate_read(o->prompts_path, &text, &bytes, &s->rank->err);
    enum sw_status status = sw_rank_agree(s->rank);
    if (status == SW_OK && sw_session_share(s, &text, &bytes) == 0) {
        (void)sw_prompts_read(o->prompts_path, text, bytes, s->codec, &limits, &o->params,
                              &o->stops, s->rank->launch->rank == 0 ? stderr : NULL, &r->prompts,
                              &s->rank->err);
        status = sw_rank_agree(s->rank);
    } else if (status == SW_OK) {
        status = SW_ENVIRONMENT;
    }
    free(text);
    return status;
}

/* True if the last-level cache holds a rank's weights: reading them then does not measure
 * memory. */
static bool are_weights_cached(const struct sw_session *s)
{
    const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return s->rank->device->vtable->in_host_memory && cache > 0 &&
           s->rank->programs->state.parameter_bytes <= cache;
}

/* Reports work done to stderr, and the share of memory bandwidth used to read weights. */
static void say_counts(const struct run *r)
{
    const struct sw_session *s = r->session;
    const struct sw_engine_counts *c = sw_engine_counts(s->engine);
    if (r->cut > 0)
        fprintf(stderr,
                "note: %" PRId64
                " text%s cut off before max_new_tokens: with its prompt a text has "
                "room for %" PRId64 " tokens; set a larger serve.max_tokens in the run file, and "
                "emit the plan again\n",
                r->cut, r->cut == 1 ? " was" : "s were", sw_engine_max_tokens(s->engine));
    const struct sw_cluster_config *cluster = &s->rank->plan->run->cluster;
    const double bandwidth = cluster->profile.memory_bandwidth > 0
                                 ? cluster->profile.memory_bandwidth
                                 : cluster->accelerator.memory_bandwidth;
    const double read = c->decode_seconds > 0 ? (double)s->rank->programs->state.parameter_bytes *
                                                    (double)c->decodes / c->decode_seconds
                                              : 0;
    const int64_t made = r->started - r->done;
    if (r->done > 0)
        fprintf(stderr, "%" PRId64 " text%s there already; ", r->done,
                r->done == 1 ? " was" : "s were");
    fprintf(stderr,
            "%" PRId64 " text%s: %" PRId64 " prompt tokens, %.0f tokens/s; %" PRId64
            " new tokens, %.0f tokens/s",
            made, made == 1 ? "" : "s", c->prompt_tokens,
            c->prefill_seconds > 0 ? (double)c->prompt_tokens / c->prefill_seconds : 0,
            c->new_tokens,
            c->decode_seconds > 0 ? (double)(c->new_tokens - made) / c->decode_seconds : 0);
    if (read > bandwidth || are_weights_cached(s))
        fprintf(stderr, "; weights read at %.1f GB/s, from the processor's caches", read / 1e9);
    else if (read > 0)
        fprintf(stderr, "; weights read at %.1f GB/s of a rank's %.1f", read / 1e9,
                bandwidth / 1e9);
    fputc('\n', stderr);
}

/* Bans end tokens for sequences with min_new_tokens. */
static void ban_ends(struct run *r)
{
    const int64_t vocab = r->session->rank->plan->run->model.shape.vocab_size;
    bool asked = false;
    for (int64_t i = 0; i < r->prompts.count; i++)
        asked |= r->prompts.at[i].params.min_new_tokens > 0;
    if (asked && !sw_biases_ban_ends(&r->biases, vocab, r->session->codec))
        sw_fail(&r->session->rank->err, SW_BAD_INPUT,
                "'min_new_tokens' bans at most %d tokens, and more end a text of this model",
                SW_BANNED_TOKENS);
}

static enum sw_status make_texts(struct run *r)
{
    struct sw_session *s = r->session;
    const struct sw_engine_calls calls = {
        .next = next_sequence, .token = take_token, .ended = sequence_ended, .context = r};
    r->text = calloc((size_t)r->prompts.samples + 1, sizeof *r->text);
    if (r->text == NULL)
        sw_fail(&s->rank->err, SW_ENVIRONMENT, "out of memory for %" PRId64 " texts",
                r->prompts.samples);
    ban_ends(r);
    r->wanted = -r->next_sample; /* already done of the first prompt */
    for (int64_t i = r->next_prompt; i < r->end_prompt; i++)
        r->wanted += r->prompts.at[i].params.n;
    tell_progress(r);
    const enum sw_status status = sw_rank_agree(s->rank);
    if (status != SW_OK)
        return status;
    const int failed = sw_engine_run(s->engine, &calls, &s->rank->err);
    r->wanted = r->ended; /* erases the progress line */
    tell_progress(r);
    if (failed) /* the others wait for this rank */
        sw_launch_abort(s->rank->launch, &s->rank->err, (int)s->rank->err.status);
    return sw_rank_agree(s->rank);
}

static enum sw_status generate(struct run *r)
{
    struct sw_session *s = r->session;
    const bool first = s->rank->launch->rank == 0;
    const char *path = r->options->out_path;
    struct sw_new_file file = {0};
    enum sw_status status = read_prompts(r);
    if (status != SW_OK)
        return status;
    r->streams = path == NULL && r->options->prompt != NULL && r->prompts.samples == 1 &&
                 !r->options->logprobs && r->options->top == 0 && sw_codec_can_read(s->codec);
    r->next_prompt = sw_lines_part(r->prompts.count, r->options->part[0], r->options->part[1]);
    r->end_prompt = sw_lines_part(r->prompts.count, r->options->part[0] + 1, r->options->part[1]);
    if (r->options->resume)
        status = go_on(r);
    else if (first && path != NULL)
        (void)sw_lines_begin(&file, path, r->options->prompts_path, NULL, &s->rank->err);
    status = status == SW_OK ? sw_rank_agree(s->rank) : status;
    if (status != SW_OK)
        return status;
    r->out = !first ? NULL : r->options->resume ? r->lines.out : path != NULL ? file.out : stdout;
    status = make_texts(r);
    if (r->options->resume) {
        if (first && status == SW_OK)
            (void)sw_lines_close(&r->lines, path, &s->rank->err);
        sw_lines_abandon(&r->lines);
    } else if (first && path != NULL && status == SW_OK) {
        (void)sw_file_commit(&file, &s->rank->err);
    } else if (first && path != NULL) {
        sw_file_abandon(&file);
    } else if (first && (ferror(stdout) || fflush(stdout) != 0)) {
        sw_fail(&s->rank->err, SW_ENVIRONMENT, "cannot write the output: %s", strerror(errno));
    }
    if (status == SW_OK)
        status = sw_rank_agree(s->rank);
    if (first && status == SW_OK)
        say_counts(r);
    return status;
}

/* Number of sequences; a file's lines are unknown before the model is loaded, but the number of
 * slots is needed. */
static int64_t texts_wanted(const struct sw_generate_options *o)
{
    return o->prompt != NULL ? o->params.n : 0;
}

int sw_generate(struct sw_rank *rank, const void *given)
{
    const struct sw_generate_options *options = given;
    const uint32_t kinds =
        1u << SW_PROGRAM_PREFILL | 1u << SW_PROGRAM_DECODE | 1u << SW_PROGRAM_READ;
    struct sw_session session = {
        .rank = rank, .checkpoint = options->checkpoint, .wants_bytes = options->bytes};
    struct run run = {.session = &session, .options = options};
    enum sw_status status = sw_session_open(&session, kinds, texts_wanted(options));
    if (status == SW_OK)
        status = generate(&run);
    for (int64_t i = 0; run.text != NULL && i < run.started; i++)
        sw_generation_free(&run.text[i].text);
    free(run.text);
    sw_prompts_free(&run.prompts);
    sw_session_close(&session);
    return (int)status;
}
