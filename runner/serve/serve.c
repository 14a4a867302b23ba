/* Rank 0 has two threads: HTTP's, and this one, which puts waiting sequences into slots, tells the
 * other ranks, runs a program, and distributes its results. */
#include "runner/serve/serve.h"

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/hash.h"
#include "runner/generate/session.h"
#include "runner/serve/http.h"
#include "runner/serve/control.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const double look_s = 0.1; /* between checks of signals and clients */
static const double flush_s = 2;  /* for the last bytes to be sent */
enum { TOKEN_FILE_BYTES = 4096 };

/* Contents of a slot. */
struct slot {
    struct sw_completion *completion; /* NULL: empty */
    struct sw_completion_sequence *sequence;
};

struct server {
    struct sw_session *session;
    const struct sw_serve_options *options;
    struct sw_answerer answerer;
    struct sw_request_queue *queue;
    struct sw_http *http;
    struct sw_control control;
    struct sw_engine_calls calls;
    struct slot *slot;        /* [slots] */
    double looked_s, until_s; /* until_s: time to cut off unfinished work; 0: not closed */
    bool cut;
};

/* ---- What the engine tells ---- */

static void fail_completion(struct server *s, struct sw_completion *completion,
                            const struct sw_error *err)
{
    const struct sw_refusal refusal = {.status = 500, .type = "server_error", .err = *err};
    struct sw_chars out = {0};
    if (!completion->finished) {
        (void)sw_answer_error(&refusal, completion->request.stream, &out);
        sw_request_queue_write(s->queue, completion, &out, true, 500);
    }
    sw_chars_free(&out);
}

static void out_of_memory(struct server *s, struct sw_completion *completion)
{
    struct sw_error err = {0};
    sw_fail(&err, SW_ENVIRONMENT, "the server is out of memory for this sequence");
    fail_completion(s, completion, &err);
}

/* Sends a streaming sequence's new text. */
static void tell_news(struct server *s, struct sw_completion *completion,
                      struct sw_completion_sequence *sequence)
{
    struct sw_chars out = {0};
    if (sw_answer_chunk(&s->answerer, completion, sequence, &out) != 0)
        out_of_memory(s, completion);
    else if (out.count > 0)
        sw_request_queue_write(s->queue, completion, &out, false, 200);
    sw_chars_free(&out);
}

static void note_time(struct server *s, const struct slot *p)
{
    const double now = sw_clock_now();
    const bool first = p->completion->first_token_s <= 0;
    if (first)
        p->completion->first_token_s = now;
    if (first || p->sequence->token_s > 0)
        sw_request_queue_count_token(s->queue, p->completion, first, now - p->sequence->token_s);
    p->sequence->token_s = now;
}

static bool take_token(void *context, const struct sw_sequence *sequence, int64_t index,
                       int32_t token, double logprob, const struct sw_top *top)
{
    struct server *s = context;
    struct slot *p = &s->slot[sequence->number];
    struct sw_error err = {0};
    if (index < p->sequence->generation.count) /* it yielded its slot and started again */
        return !p->completion->finished;
    note_time(s, p);
    const bool more =
        sw_generation_take(&p->sequence->generation, s->session->codec, token, logprob, top, &err);
    if (err.status != SW_OK)
        fail_completion(s, p->completion, &err);
    if (more && p->completion->request.stream && !p->completion->finished)
        tell_news(s, p->completion, p->sequence);
    return more && !p->completion->finished;
}

static void take_score(void *context, const struct sw_sequence *sequence, int64_t index,
                       double logprob)
{
    const struct server *s = context;
    s->slot[sequence->number].sequence->prompt_logprobs[index] = logprob;
}

static void take_rank(void *context, const struct sw_sequence *sequence, int64_t index,
                      const struct sw_top *top)
{
    const struct server *s = context;
    const struct sw_completion_sequence *to = s->slot[sequence->number].sequence;
    for (int32_t i = 0; i < sequence->top; i++) {
        to->top[index * sequence->top + i] = i < top->count ? top->token[i] : -1;
        to->top_logprobs[index * sequence->top + i] = i < top->count ? top->logprob[i] : 0;
    }
}

static void finish_completion(struct server *s, struct sw_completion *completion)
{
    struct sw_chars out = {0};
    const int written = completion->request.stream
                            ? sw_answer_done(&s->answerer, completion, &out)
                            : sw_answer_whole(&s->answerer, completion, &out);
    if (written != 0)
        out_of_memory(s, completion);
    else
        sw_request_queue_write(s->queue, completion, &out, true, 200);
    sw_chars_free(&out);
}

static void end_sequence(struct server *s, struct sw_completion *completion,
                         struct sw_completion_sequence *sequence)
{
    struct sw_error err = {0};
    sw_generation_end(&sequence->generation, &err);
    sw_request_queue_ended(s->queue, completion, sequence);
    if (err.status != SW_OK)
        fail_completion(s, completion, &err);
    if (completion->finished)
        return;
    if (completion->request.stream)
        tell_news(s, completion, sequence);
    if (completion->ended == completion->sequence_count && !completion->finished)
        finish_completion(s, completion);
}

static void sequence_ended(void *context, const struct sw_sequence *sequence, bool full)
{
    struct server *s = context;
    struct slot *p = &s->slot[sequence->number];
    const struct slot done = *p;
    (void)full;
    *p = (struct slot){0};
    /* the other ranks do not know the end tokens */
    if (sw_control_drop(&s->control, sequence->number) != 0)
        sw_fail(&s->session->rank->err, SW_ENVIRONMENT, "out of memory for commands");
    end_sequence(s, done.completion, done.sequence);
}

/* ---- Slots ---- */

static void drop(void *context, struct sw_completion_sequence *sequence)
{
    struct server *s = context;
    sw_engine_drop(s->session->engine, sequence->slot);
    s->slot[sequence->slot] = (struct slot){0};
    if (sw_control_drop(&s->control, sequence->slot) != 0)
        sw_fail(&s->session->rank->err, SW_ENVIRONMENT, "out of memory for commands");
}

static int32_t top_of(const struct sw_api_request *r)
{
    return r->logprobs > 0 ? r->logprobs : 0;
}

/* Prepares everything a sequence needs while generated. */
static int prepare(struct server *s, const struct sw_completion *completion,
                   struct sw_completion_sequence *sequence, struct sw_error *err)
{
    const struct sw_api_request *r = &completion->request;
    const struct sw_request_prompt *prompt = &r->prompt[sequence->prompt];
    const size_t count = (size_t)prompt->count;
    if (sw_generation_begin(&sequence->generation, s->session->codec, &r->stops, top_of(r),
                            r->echo ? prompt->tokens : NULL, r->echo ? prompt->count : 0, err) != 0)
        return -1;
    sequence->generation.end = r->end;
    sequence->generation.ignores_ends = r->ignore_eos;
    sequence->generation.stop_token = r->stop_token;
    sequence->generation.stop_token_count = r->stop_token_count;
    sequence->generation.min_tokens = r->params.min_new_tokens;
    if (!r->echo || r->logprobs < 0)
        return 0;
    sequence->prompt_logprobs = calloc(count, sizeof *sequence->prompt_logprobs);
    if (r->logprobs > 0) {
        const size_t all = count * (size_t)r->logprobs;
        sequence->top = calloc(all, sizeof *sequence->top);
        sequence->top_logprobs = calloc(all, sizeof *sequence->top_logprobs);
    }
    return sequence->prompt_logprobs != NULL &&
                   (r->logprobs == 0 || (sequence->top != NULL && sequence->top_logprobs != NULL))
               ? 0
               : sw_fail(err, SW_ENVIRONMENT, "the server is out of memory for this sequence");
}

/* The seed is that of `runner generate` for the same position in a file. */
static struct sw_sequence sequence_of(const struct sw_completion *completion,
                                      const struct sw_completion_sequence *sequence)
{
    const struct sw_api_request *r = &completion->request;
    const struct sw_sampling_params *params = &r->params;
    const int64_t sample = (sequence - completion->sequence) % params->n;
    return (struct sw_sequence){.tokens = r->prompt[sequence->prompt].tokens,
                                .token_count = r->prompt[sequence->prompt].count,
                                .max_new_tokens = params->max_new_tokens,
                                .sampling = sw_sampling_params_sampling(params),
                                .min_tokens = params->min_new_tokens,
                                .biases = r->biases.count + r->biases.banned_count > 0 ? &r->biases
                                                                                       : NULL,
                                .seed = sw_hash_mix((uint64_t)params->seed) +
                                        (uint64_t)sequence->prompt * 1000003u + (uint64_t)sample,
                                .ahead = sequence->ahead,
                                .scored = r->echo && r->logprobs >= 0,
                                .top = top_of(r)};
}

/* Puts the sequence into a free slot. */
static void admit(struct server *s, struct sw_completion *completion,
                  struct sw_completion_sequence *sequence)
{
    struct sw_sequence made = sequence_of(completion, sequence);
    const int64_t slot = sw_engine_free_slot(s->session->engine, &made);
    const bool first = sequence->generation.detokenizer == NULL;
    struct sw_error err = {0};
    made.number = sequence->slot = slot;
    if (first && prepare(s, completion, sequence, &err) != 0) {
        sw_request_queue_ended(s->queue, completion, sequence);
        fail_completion(s, completion, &err);
    } else if (made.max_new_tokens == 0 && !made.scored) {
        end_sequence(s, completion, sequence);
    } else {
        if (sw_control_admit(&s->control, slot, &made) != 0) {
            sw_request_queue_ended(s->queue, completion, sequence);
            out_of_memory(s, completion);
            return;
        }
        s->slot[slot] = (struct slot){completion, sequence};
        /* a sequence that yielded finds its own prompt again: not reported */
        sw_engine_admit(s->session->engine, slot, &made, &s->calls,
                        first ? &sequence->cached : NULL);
    }
}

static void fill_slots(struct server *s)
{
    struct sw_completion *completion = NULL;
    for (;;) {
        const bool room = sw_engine_has_room(s->session->engine);
        struct sw_completion_sequence *sequence =
            room ? sw_request_queue_next(s->queue, &completion) : sw_request_queue_yield(s->queue);
        if (sequence == NULL)
            return;
        if (room)
            admit(s, completion, sequence);
        else
            drop(s, sequence);
    }
}

/* ---- The end ---- */

static void refuse_all(struct server *s, int32_t status, const char *code, const char *why)
{
    struct sw_refusal refusal = {.status = status, .type = "server_error", .code = code};
    sw_fail(&refusal.err, SW_ENVIRONMENT, "%s", why);
    sw_request_queue_close(s->queue, why);
    sw_request_queue_fail(s->queue, &refusal);
}

/* Checks signals and clients. False: time to exit. */
static bool look_round(struct server *s)
{
    const double now = sw_clock_now();
    if (now - s->looked_s < look_s)
        return true;
    s->looked_s = now;
    sw_http_sweep(s->http);
    if (s->options->deadline_s > 0)
        sw_request_queue_expire(s->queue, s->options->deadline_s);
    if (sw_life_requested(s->options->life) < SW_REQUEST_INTERRUPT)
        return true;
    if (s->until_s <= 0) {
        s->until_s = now + s->options->drain_s;
        sw_request_queue_close(s->queue, "the server is stopping");
        const struct sw_request_queue_counts c = sw_request_queue_counts(s->queue);
        fprintf(stderr, "stopping: %" PRId64 " sequences are being generated, %" PRId64 " wait\n",
                c.running, c.waiting);
    }
    if (sw_life_hurried(s->options->life) && now < s->until_s)
        s->until_s = now;
    if (now >= s->until_s && !s->cut) {
        s->cut = !sw_request_queue_is_empty(s->queue);
        refuse_all(s, 503, "draining", "the server is stopping");
    }
    return !sw_request_queue_is_empty(s->queue) && now < s->until_s + flush_s;
}

/* Tells the clients before the job ends. */
static void give_up(struct server *s)
{
    struct sw_session *session = s->session;
    const double until = sw_clock_now() + flush_s;
    refuse_all(s, 500, "engine_failed", "the model's ranks failed; the server ends");
    while (!sw_request_queue_is_empty(s->queue) && sw_clock_now() < until) {
        sw_request_queue_wait(s->queue, look_s);
        sw_request_queue_reap(s->queue, drop, s);
    }
    sw_launch_abort(session->rank->launch, &session->rank->err, (int)session->rank->err.status);
}

static void count_tokens(const struct server *s)
{
    const struct sw_engine_counts *c = sw_engine_counts(s->session->engine);
    int64_t cached = 0;
    for (int64_t i = 0; i < sw_engine_slots(s->session->engine); i++)
        if (s->slot[i].sequence != NULL)
            cached += s->slot[i].completion->request.prompt[s->slot[i].sequence->prompt].count +
                      s->slot[i].sequence->generation.count;
    sw_request_queue_count_tokens(s->queue, c->prompt_tokens, c->cached_tokens, c->new_tokens,
                                  cached);
}

static void serve_requests(struct server *s)
{
    struct sw_session *session = s->session;
    while (look_round(s)) {
        sw_request_queue_reap(s->queue, drop, s);
        fill_slots(s);
        count_tokens(s);
        if (!sw_engine_is_busy(session->engine)) {
            sw_request_queue_wait(s->queue, look_s);
            continue;
        }
        sw_control_send(session->rank->launch, &s->control, false);
        if (session->rank->err.status != SW_OK ||
            sw_engine_step(session->engine, &s->calls, &session->rank->err) != 0)
            give_up(s);
        sw_request_queue_count_call(s->queue);
    }
    sw_control_send(session->rank->launch, &s->control, true);
}

/* ---- The beginning ---- */

/* First line of the file without trailing blanks. */
static int read_token(const char *path, char **out, struct sw_error *err)
{
    const struct sw_place place = {.file = path};
    size_t bytes, length;
    char *text = NULL;
    if (sw_file_read(path, false, TOKEN_FILE_BYTES, &text, &bytes, NULL) != 0)
        return sw_fail_at(err, sw_path_status(errno, false), place,
                          "cannot read it: %s; --token-file names a file of one line",
                          strerror(errno));
    const bool is_text = strlen(text) == bytes; /* false: a NUL would shorten the token */
    text[strcspn(text, "\r\n")] = '\0';
    for (length = strlen(text); length > 0 && isspace((unsigned char)text[length - 1]);)
        text[--length] = '\0';
    for (size_t i = 0; i < length; i++)
        if (!isgraph((unsigned char)text[i]))
            length = 0;
    if (length == 0 || !is_text) {
        free(text);
        return sw_fail_at(err, SW_BAD_INPUT, place,
                          "its first line is not a token; write letters and digits there");
    }
    *out = text;
    return 0;
}

static const char no_template[] = "none";

static int find_template(const struct sw_serve_options *o, struct sw_chat_template **chat,
                         struct sw_error *err)
{
    *chat = NULL;
    return o->chat_template != NULL && strcmp(o->chat_template, no_template) != 0
               ? sw_chat_template_named(o->chat_template, chat, err)
               : 0;
}

/* Checks the options on rank 0 before the model is loaded. */
static int bind_listener(const struct sw_serve_options *o, struct sw_listener *listener,
                         char **token, struct sw_chat_template **chat, struct sw_error *err)
{
    if (!sw_http_is_there(err) || find_template(o, chat, err) != 0 ||
        (o->token_file != NULL && read_token(o->token_file, token, err) != 0) ||
        sw_listener_bind(o->listen, listener, err) != 0)
        return -1;
    if (!listener->is_local && *token == NULL)
        return sw_fail(err, SW_BAD_INPUT,
                       "'%.200s' can be reached from other machines; give --token-file FILE, or "
                       "listen at 127.0.0.1",
                       o->listen);
    return 0;
}

/* Reports the chat format in one line unless it is the model's own. *chat: the requested one, or
 * NULL. */
static int choose_chat(struct server *s, struct sw_chat_template **chat,
                       struct sw_request_rules *rules, struct sw_error *err)
{
    const struct sw_session *session = s->session;
    struct sw_error why = {0};
    const char *name = NULL;
    if (s->options->chat_template == NULL &&
        sw_chat_template_of_folder(session->texts, chat, &why) != 0) {
        if (why.status != SW_BAD_INPUT)
            return sw_fail_as(err, &why);
        return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){why.file, why.line, why.column},
                          "%s; to serve all the same, give --chat-template llama-3, chatml or "
                          "mistral, or none for no conversations",
                          why.message);
    }
    if (s->options->chat_template == NULL && *chat == NULL &&
        (name = sw_codec_template(session->codec)) != NULL) {
        if (sw_chat_template_named(name, chat, err) != 0)
            return -1;
        fprintf(stderr,
                "%s: note: the model has no chat_template; conversations are written as '%s', "
                "by its special tokens; --chat-template NAME takes another\n",
                session->texts, name);
    }
    if (*chat != NULL && sw_chat_template_of_processor(*chat))
        fprintf(stderr,
                "%s: note: the chat template is that of chat_template.json; there is no "
                "other\n",
                session->texts);
    rules->chat = *chat;
    return 0;
}

static int start(struct server *s, struct sw_listener *listener, const char *token,
                 struct sw_chat_template **chat)
{
    struct sw_session *session = s->session;
    const struct sw_serve_options *o = s->options;
    const char *model = o->model != NULL ? o->model : session->rank->plan->run->name;
    const int64_t slots = sw_engine_slots(session->engine);
    struct sw_http_options http = {
        .listener = listener,
        .token = token,
        .connections = (int32_t)o->connections,
        .client_timeout_s = o->client_timeout_s,
        .slots = slots,
        .rules = {.codec = session->codec,
                  .limits = {.vocab = session->rank->plan->run->model.shape.vocab_size,
                             .max_tokens = sw_engine_max_tokens(session->engine)},
                  .model = model}};
    if (!sw_codec_can_read(session->codec))
        return sw_fail_as(&session->rank->err, sw_codec_why(session->codec));
    if (choose_chat(s, chat, &http.rules, &session->rank->err) != 0)
        return -1;
    s->answerer = (struct sw_answerer){session->codec, model};
    s->calls = (struct sw_engine_calls){.token = take_token,
                                        .ended = sequence_ended,
                                        .scored = take_score,
                                        .ranked = take_rank,
                                        .context = s};
    s->slot = calloc((size_t)slots, sizeof *s->slot);
    if (s->slot == NULL)
        return sw_fail(&session->rank->err, SW_ENVIRONMENT, "out of memory for the server");
    if (sw_request_queue_create(slots, (int64_t)o->queue, sw_http_wake, &s->queue,
                                &session->rank->err) != 0 ||
        sw_http_start(&http, s->queue, &s->http, &session->rank->err) != 0)
        return -1;
    fprintf(stderr,
            "serving %s at %s: %" PRId64 " sequences at a time, of up to %" PRId64 " tokens\n",
            model, listener->text, slots, http.rules.limits.max_tokens);
    return 0;
}

static enum sw_status serve(struct server *s, struct sw_listener *listener, const char *token,
                            struct sw_chat_template **chat)
{
    struct sw_session *session = s->session;
    const bool first = session->rank->launch->rank == 0;
    const struct sw_life_hooks hooks = {.finishes = true};
    if (first)
        (void)start(s, listener, token, chat);
    enum sw_status status = sw_rank_agree(session->rank);
    if (status != SW_OK)
        return status;
    sw_life_arm(s->options->life, &hooks);
    if (first)
        serve_requests(s);
    else if (sw_control_obey(session->rank->launch, session->engine, &session->rank->err) != 0)
        sw_launch_abort(session->rank->launch, &session->rank->err, (int)session->rank->err.status);
    sw_life_disarm(s->options->life);
    return sw_rank_agree(session->rank);
}

int sw_serve(struct sw_rank *rank, const void *given)
{
    const struct sw_serve_options *options = given;
    const uint32_t kinds = 1u << SW_PROGRAM_PREFILL | 1u << SW_PROGRAM_DECODE |
                           1u << SW_PROGRAM_SCORE | 1u << SW_PROGRAM_READ;
    struct sw_session session = {
        .rank = rank, .checkpoint = options->checkpoint, .wants_bytes = options->bytes};
    struct server s = {.session = &session, .options = options};
    struct sw_listener listener = {.fd = -1};
    struct sw_chat_template *chat = NULL;
    char *token = NULL;
    if (rank->launch->rank == 0)
        (void)bind_listener(options, &listener, &token, &chat, &rank->err);
    int status = (int)sw_rank_agree(rank);
    if (status == SW_OK)
        status = (int)sw_session_open(&session, kinds, 0);
    if (status == SW_OK)
        status = (int)serve(&s, &listener, token, &chat);
    sw_http_stop(s.http);
    sw_request_queue_free(s.queue);
    sw_control_free(&s.control);
    sw_chat_template_free(chat);
    free(s.slot);
    free(token);
    sw_listener_close(&listener);
    sw_session_close(&session);
    const int64_t cut = sw_launch_max(rank->launch, s.cut);
    return status == SW_OK && cut > 0 ? sw_request_exit_code(sw_life_requested(options->life))
                                      : status;
}
