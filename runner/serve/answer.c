/* Objects follow OpenAI's API reference: "completion", "chat.completion" and their chunks. */
#include "runner/serve/answer.h"

#include "runner/text/tokenizer/utf8.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *number(double value)
{
    json_t *real = json_real(value); /* NULL: not finite */
    return real != NULL ? real : json_null();
}

/* A token's text; "bytes:\xe2\x82" if it is not whole characters. */
static json_t *token_text(const struct sw_answerer *a, int32_t token)
{
    size_t bytes = 0;
    const char *text = sw_codec_bytes(a->codec, token, &bytes);
    struct sw_chars spelled = {0};
    char hex[8];
    if (text == NULL)
        text = "";
    if (sw_utf8_valid(text, bytes) == bytes)
        return json_stringn(text, bytes);
    (void)sw_chars_add(&spelled, "bytes:", 6);
    for (size_t i = 0; i < bytes; i++) {
        snprintf(hex, sizeof hex, "\\x%02x", (unsigned char)text[i]);
        (void)sw_chars_add(&spelled, hex, 4);
    }
    json_t *string = json_stringn(spelled.byte, spelled.count);
    sw_chars_free(&spelled);
    return string;
}

static int put(json_t *root, const char *before, const char *behind, struct sw_chars *out)
{
    char *text = root != NULL ? json_dumps(root, JSON_COMPACT) : NULL;
    const int status = text != NULL && sw_chars_add(out, before, strlen(before)) == 0 &&
                               sw_chars_add(out, text, strlen(text)) == 0 &&
                               sw_chars_add(out, behind, strlen(behind)) == 0
                           ? 0
                           : -1;
    free(text);
    json_decref(root);
    return status;
}

/* ---- Log-probabilities ---- */

/* A token of a sequence: of its prompt, at `index`, if the text repeats the prompt, or a new
 * one. */
struct token {
    int32_t id;
    double logprob;
    const int32_t *top; /* [request.logprobs]; padded with -1 */
    const double *top_logprob;
    bool known; /* true if it has a log-probability: all but a prompt's first */
    size_t begin;
};

/* Adds a token unless its text is already there: of two, the more probable one, which comes first,
 * stays. */
static void add_best(const struct sw_answerer *a, json_t *best, int32_t id, double logprob)
{
    json_t *text = token_text(a, id);
    const char *key = json_string_value(text);
    if (key != NULL && json_object_get(best, key) == NULL)
        (void)json_object_set_new(best, key, number(logprob));
    json_decref(text);
}

/* Most probable tokens, then the actual one if it is not among them. Its number equals that in the
 * list of log-probabilities: a prompt token's is from `score`, the others' from `decode`, which may
 * round differently. */
static json_t *list_of_best(const struct sw_answerer *a, const struct token *t, int32_t count)
{
    if (!t->known)
        return json_null();
    json_t *best = json_object();
    for (int32_t i = 0; i < count && t->top[i] >= 0; i++)
        add_best(a, best, t->top[i], t->top[i] == t->id ? t->logprob : t->top_logprob[i]);
    add_best(a, best, t->id, t->logprob);
    return best;
}

static size_t characters(const char *text, size_t bytes)
{
    size_t count = 0;
    for (size_t i = 0; i < bytes; i++)
        count += ((unsigned char)text[i] & 0xc0) != 0x80;
    return count;
}

struct legacy_lists {
    json_t *tokens, *logprobs, *best, *offsets;
    size_t bytes, characters; /* bytes and characters counted so far */
};

/* Position of a token in characters, counted incrementally, since tokens come in order. The
 * prompt's text begins the whole one. */
static size_t offset_of(struct legacy_lists *to, const char *text, size_t begin)
{
    to->characters += characters(text + to->bytes, begin - to->bytes);
    to->bytes = begin;
    return to->characters;
}

static void add_legacy(const struct sw_answerer *a, const struct sw_completion *completion,
                       const char *text, const struct token *t, struct legacy_lists *to)
{
    (void)json_array_append_new(to->tokens, token_text(a, t->id));
    (void)json_array_append_new(to->logprobs, t->known ? number(t->logprob) : json_null());
    if (completion->request.logprobs > 0)
        (void)json_array_append_new(to->best, list_of_best(a, t, completion->request.logprobs));
    (void)json_array_append_new(to->offsets,
                                json_integer((json_int_t)offset_of(to, text, t->begin)));
}

/* Adds the prompt's tokens, decoded again for their positions. */
static void add_prompt(const struct sw_answerer *a, const struct sw_completion *completion,
                       const struct sw_completion_sequence *sequence, struct legacy_lists *to)
{
    const struct sw_request_prompt *prompt = &completion->request.prompt[sequence->prompt];
    struct sw_detokenizer *detokenizer = NULL;
    if (sw_detokenizer_new(a->codec, false, &detokenizer, NULL) != 0)
        return;
    for (int64_t i = 0; i < prompt->count; i++) {
        struct token t = {.id = prompt->tokens[i]};
        const char *spelled = sw_detokenizer_text(detokenizer, &t.begin);
        if (i > 0) {
            t.known = true;
            t.logprob = sequence->prompt_logprobs[i];
        }
        if (sequence->top != NULL) {
            t.top = sequence->top + i * completion->request.logprobs;
            t.top_logprob = sequence->top_logprobs + i * completion->request.logprobs;
        }
        add_legacy(a, completion, spelled, &t, to);
        (void)sw_detokenizer_feed(detokenizer, prompt->tokens[i], NULL);
    }
    sw_detokenizer_free(detokenizer);
}

static struct token new_token(const struct sw_generation *m, int64_t i)
{
    return (struct token){.id = m->tokens[i],
                          .logprob = m->logprobs[i],
                          .top = m->top > 0 ? m->top_tokens + i * m->top : NULL,
                          .top_logprob = m->top > 0 ? m->top_logprobs + i * m->top : NULL,
                          .known = true,
                          .begin = m->begins[i]};
}

/* Log-probabilities of new tokens from `first`. */
static json_t *legacy_logprobs(const struct sw_answerer *a, const struct sw_completion *completion,
                               const struct sw_completion_sequence *sequence, int64_t first,
                               bool with_prompt)
{
    struct legacy_lists lists = {.tokens = json_array(),
                                 .logprobs = json_array(),
                                 .best = json_array(),
                                 .offsets = json_array()};
    size_t bytes;
    const char *spelled = sw_generation_text(&sequence->generation, &bytes);
    if (with_prompt)
        add_prompt(a, completion, sequence, &lists);
    for (int64_t i = first; i < sequence->generation.count; i++) {
        const struct token t = new_token(&sequence->generation, i);
        add_legacy(a, completion, spelled, &t, &lists);
    }
    if (completion->request.logprobs == 0) {
        json_decref(lists.best);
        lists.best = json_null();
    }
    return json_pack("{s:o, s:o, s:o, s:o}", "tokens", lists.tokens, "token_logprobs",
                     lists.logprobs, "top_logprobs", lists.best, "text_offset", lists.offsets);
}

static json_t *chat_token(const struct sw_answerer *a, int32_t id, double logprob)
{
    json_t *bytes = json_array();
    size_t count = 0;
    const char *text = sw_codec_bytes(a->codec, id, &count);
    for (size_t i = 0; text != NULL && i < count; i++)
        (void)json_array_append_new(bytes, json_integer((unsigned char)text[i]));
    return json_pack("{s:o, s:o, s:o}", "token", token_text(a, id), "logprob", number(logprob),
                     "bytes", bytes);
}

static json_t *chat_logprobs(const struct sw_answerer *a, const struct sw_completion *completion,
                             const struct sw_completion_sequence *sequence, int64_t first)
{
    json_t *content = json_array();
    for (int64_t i = first; i < sequence->generation.count; i++) {
        const struct token t = new_token(&sequence->generation, i);
        json_t *one = chat_token(a, t.id, t.logprob), *best = json_array();
        for (int32_t k = 0; k < completion->request.logprobs && t.top[k] >= 0; k++)
            (void)json_array_append_new(best, chat_token(a, t.top[k], t.top_logprob[k]));
        (void)json_object_set_new(one, "top_logprobs", best);
        (void)json_array_append_new(content, one);
    }
    return json_pack("{s:o, s:n}", "content", content, "refusal");
}

static json_t *logprobs_of(const struct sw_answerer *a, const struct sw_completion *completion,
                           const struct sw_completion_sequence *sequence, int64_t first,
                           bool with_prompt)
{
    if (completion->request.logprobs < 0)
        return json_null();
    return completion->request.endpoint == SW_CHAT_COMPLETIONS
               ? chat_logprobs(a, completion, sequence, first)
               : legacy_logprobs(a, completion, sequence, first, with_prompt);
}

/* ---- Whole answers ---- */

static json_t *usage_of(const struct sw_completion *completion)
{
    const int64_t samples = completion->request.params.n;
    json_int_t prompt = 0, cached = 0, made = 0;
    for (int64_t i = 0; i < completion->request.prompt_count; i++) {
        prompt += completion->request.prompt[i].count;
        cached += completion->sequence[i * samples].cached; /* once per prompt */
    }
    for (int64_t i = 0; i < completion->sequence_count; i++)
        made += completion->sequence[i].generation.count;
    return json_pack("{s:I, s:I, s:I, s:{s:I}}", "prompt_tokens", prompt, "completion_tokens", made,
                     "total_tokens", prompt + made, "prompt_tokens_details", "cached_tokens",
                     cached);
}

static json_t *frame(const struct sw_answerer *a, const struct sw_completion *completion,
                     bool chunk, json_t *choices)
{
    const bool chat = completion->request.endpoint == SW_CHAT_COMPLETIONS;
    return json_pack("{s:s, s:s, s:I, s:s, s:o}", "id", completion->id, "object",
                     !chat   ? "text_completion"
                     : chunk ? "chat.completion.chunk"
                             : "chat.completion",
                     "created", (json_int_t)completion->created, "model", a->model, "choices",
                     choices);
}

static json_t *choice(const struct sw_completion *completion,
                      const struct sw_completion_sequence *sequence, const char *key,
                      json_t *content, json_t *logprobs, const char *reason)
{
    return json_pack("{s:I, s:o, s:o, s:s?}", "index",
                     (json_int_t)(sequence - completion->sequence), key, content, "logprobs",
                     logprobs, "finish_reason", reason);
}

int sw_answer_whole(const struct sw_answerer *a, const struct sw_completion *completion,
                    struct sw_chars *out)
{
    const bool chat = completion->request.endpoint == SW_CHAT_COMPLETIONS;
    json_t *choices = json_array();
    for (int64_t i = 0; i < completion->sequence_count; i++) {
        const struct sw_completion_sequence *sequence = &completion->sequence[i];
        size_t bytes;
        const char *spelled = sw_generation_text(&sequence->generation, &bytes);
        json_t *content = json_stringn(spelled, bytes);
        if (chat)
            content =
                json_pack("{s:s, s:o, s:n}", "role", "assistant", "content", content, "refusal");
        (void)json_array_append_new(
            choices, choice(completion, sequence, chat ? "message" : "text", content,
                            logprobs_of(a, completion, sequence, 0, completion->request.echo),
                            sequence->generation.reason));
    }
    json_t *root = frame(a, completion, false, choices);
    (void)json_object_set_new(root, "usage", usage_of(completion));
    return put(root, "", "\n", out);
}

/* ---- Streams ---- */

int sw_answer_chunk(const struct sw_answerer *a, const struct sw_completion *completion,
                    struct sw_completion_sequence *sequence, struct sw_chars *out)
{
    const bool chat = completion->request.endpoint == SW_CHAT_COMPLETIONS,
               first = !sequence->told_prompt;
    const char *reason = sequence->generation.reason;
    size_t bytes;
    const char *spelled = sw_generation_text(&sequence->generation, &bytes);
    const size_t told = sequence->told_bytes;
    if (bytes <= told && reason == NULL)
        return 0;
    json_t *content = json_stringn(spelled + told, bytes > told ? bytes - told : 0);
    json_t *logprobs = logprobs_of(a, completion, sequence, sequence->told_tokens,
                                   first && completion->request.echo);
    if (chat && first)
        content = json_pack("{s:s, s:o}", "role", "assistant", "content", content);
    else if (chat)
        content = json_pack("{s:o}", "content", content);
    sequence->told_bytes = bytes;
    sequence->told_tokens = sequence->generation.count;
    sequence->told_prompt = true;
    json_t *choices = json_array();
    (void)json_array_append_new(
        choices, choice(completion, sequence, chat ? "delta" : "text", content, logprobs, reason));
    json_t *root = frame(a, completion, true, choices);
    if (completion->request.include_usage) /* like OpenAI: null until the last chunk */
        (void)json_object_set_new(root, "usage", json_null());
    return put(root, "data: ", "\n\n", out);
}

int sw_answer_done(const struct sw_answerer *a, const struct sw_completion *completion,
                   struct sw_chars *out)
{
    static const char done[] = "data: [DONE]\n\n";
    if (completion->request.include_usage) {
        json_t *root = frame(a, completion, true, json_array());
        (void)json_object_set_new(root, "usage", usage_of(completion));
        if (put(root, "data: ", "\n\n", out) != 0)
            return -1;
    }
    return sw_chars_add(out, done, sizeof done - 1);
}

/* ---- Others ---- */

/* Messages may show an address of any bytes, or be cut within a character: repairs UTF-8. */
int sw_answer_error(const struct sw_refusal *refusal, bool stream, struct sw_chars *out)
{
    struct sw_chars message = {0};
    const char *text = refusal->err.message;
    const int status =
        sw_utf8_repair(text, strlen(text), &message) != 0
            ? -1
            : put(json_pack("{s:{s:s%, s:s, s:s?, s:s?}}", "error", "message",
                            message.byte != NULL ? message.byte : "", message.count, "type",
                            refusal->type, "param", refusal->param, "code", refusal->code),
                  stream ? "data: " : "", stream ? "\n\n" : "\n", out);
    sw_chars_free(&message);
    return status;
}

static json_t *model_object(const struct sw_answerer *a, int64_t created, int64_t max_tokens)
{
    return json_pack("{s:s, s:s, s:I, s:s, s:I}", "id", a->model, "object", "model", "created",
                     (json_int_t)created, "owned_by", "shardwright", "max_model_len",
                     (json_int_t)max_tokens);
}

int sw_answer_model(const struct sw_answerer *a, int64_t created, int64_t max_tokens,
                    struct sw_chars *out)
{
    return put(model_object(a, created, max_tokens), "", "\n", out);
}

int sw_answer_models(const struct sw_answerer *a, int64_t created, int64_t max_tokens,
                     struct sw_chars *out)
{
    return put(
        json_pack("{s:s, s:[o]}", "object", "list", "data", model_object(a, created, max_tokens)),
        "", "\n", out);
}
