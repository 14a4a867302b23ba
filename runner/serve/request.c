/* Keys are OpenAI's ("Completions", "Chat Completions" of its API reference), plus vLLM's top_k,
 * min_p, repetition_penalty, min_tokens, stop_token_ids and ignore_eos. */
#include "runner/serve/request_messages.h"
#include "runner/serve/request_tokens.h"

#include "core/base/text.h"
#include "runner/checkpoint/json_text.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { USUAL_TOKENS = 16, SHOWN_BYTES = 48 };

struct reading {
    const struct sw_request_rules *rules;
    struct sw_api_request *out;
    struct sw_refusal *refusal;
    const json_t *root;
    const char *param; /* current key */
    const struct key *key;
    int64_t best_of, top_logprobs;
    bool wants_logprobs, has_limit;
};

#define REFUSE(r, ...) refuse((r), sw_fail(&(r)->refusal->err, SW_BAD_INPUT, __VA_ARGS__))

static int refuse(struct reading *r, int failed)
{
    r->refusal->param = r->param;
    return failed;
}

static int out_of_memory(struct reading *r)
{
    return sw_fail(&r->refusal->err, SW_ENVIRONMENT, "out of memory for a request");
}

/* ---- Prompts ---- */

static int check_prompt(struct reading *r, const struct sw_request_prompt *prompt)
{
    const struct sw_prompt_limits *limits = &r->rules->limits;
    if (prompt->count == 0)
        return REFUSE(r, "the prompt is empty; give at least one token");
    for (int64_t i = 0; i < prompt->count; i++)
        if (prompt->tokens[i] < 0 || prompt->tokens[i] >= limits->vocab)
            return REFUSE(r, "token %" PRId32 " is none of the model's %" PRId64, prompt->tokens[i],
                          limits->vocab);
    return 0;
}

static int add_prompt(struct reading *r, int32_t *tokens, int64_t count)
{
    struct sw_api_request *out = r->out;
    struct sw_request_prompt *grown =
        realloc(out->prompt, ((size_t)out->prompt_count + 1) * sizeof *grown);
    if (grown == NULL) {
        free(tokens);
        return out_of_memory(r);
    }
    out->prompt = grown;
    grown[out->prompt_count++] = (struct sw_request_prompt){tokens, count};
    return check_prompt(r, &grown[out->prompt_count - 1]);
}

static int add_tokens(struct reading *r, const json_t *list)
{
    const size_t count = json_array_size(list);
    int32_t *tokens = malloc((count + 1) * sizeof *tokens);
    if (tokens == NULL)
        return out_of_memory(r);
    for (size_t i = 0; i < count; i++) {
        const json_t *token = json_array_get(list, i);
        const json_int_t id = json_is_integer(token) ? json_integer_value(token) : -1;
        if (id < 0 || id > INT32_MAX) {
            free(tokens);
            return REFUSE(r, "element %zu of the prompt is not a token: a whole number from 0", i);
        }
        tokens[i] = (int32_t)id;
    }
    return add_prompt(r, tokens, (int64_t)count);
}

/* Most bytes of a text that can fit. */
static size_t most_bytes(const struct reading *r)
{
    const size_t longest = sw_codec_longest(r->rules->codec);
    return longest == 0 ? SIZE_MAX : longest * (size_t)r->rules->limits.max_tokens;
}

/* Refuses surely too long texts before tokenizing, which is slow. */
static int check_bytes(struct reading *r, size_t bytes)
{
    const size_t most = most_bytes(r);
    if (bytes <= most)
        return 0;
    r->refusal->code = "context_length_exceeded";
    return REFUSE(r,
                  "the prompt has %zu bytes; with %" PRId64
                  " tokens for a sequence, of at most %zu byte%s each, it can have %zu",
                  bytes, r->rules->limits.max_tokens, sw_codec_longest(r->rules->codec),
                  sw_codec_longest(r->rules->codec) == 1 ? "" : "s", most);
}

static int add_text(struct reading *r, const json_t *text)
{
    int32_t *tokens = NULL;
    int64_t count = 0;
    if (check_bytes(r, json_string_length(text)) != 0)
        return -1;
    if (sw_codec_encode(r->rules->codec, json_string_value(text), json_string_length(text), true,
                        &tokens, &count, &r->refusal->err) != 0)
        return refuse(r, -1);
    return add_prompt(r, tokens, count);
}

static int read_prompt(struct reading *r, const json_t *value)
{
    const json_t *first = json_array_get(value, 0);
    if (json_is_string(value))
        return add_text(r, value);
    if (json_is_integer(first))
        return add_tokens(r, value);
    if (json_array_size(value) > SW_REQUEST_TEXTS)
        return REFUSE(r, "at most %d prompts at a time", SW_REQUEST_TEXTS);
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *one = json_array_get(value, i);
        if (!json_is_string(one) && !json_is_array(one))
            return REFUSE(r, "'prompt' must be a string, a list of tokens, or a list of either");
        if ((json_is_string(one) ? add_text(r, one) : add_tokens(r, one)) != 0)
            return -1;
    }
    return json_array_size(value) > 0
               ? 0
               : REFUSE(r, "'prompt' must be a string, a list of tokens, or a list of either");
}

/* ---- Conversations ---- */

/* Tools for the template; NULL: none. A model without them makes no calls. */
static const json_t *given_tools(const struct reading *r)
{
    const char *choice = json_string_value(json_object_get(r->root, "tool_choice"));
    const json_t *tools = json_object_get(r->root, "tools");
    const bool none = choice != NULL && strcmp(choice, "none") == 0;
    return none || json_array_size(tools) == 0 ? NULL : tools;
}

static int read_messages(struct reading *r, const json_t *value)
{
    size_t bytes = 0;
    json_t *messages = sw_request_read_messages(r->rules, value, &bytes, &r->refusal->err);
    const struct sw_chat_talk talk = {.messages = messages,
                                      .tools = given_tools(r),
                                      .variables = json_object_get(r->root, "chat_template_kwargs"),
                                      .answer = true};
    int32_t *tokens = NULL;
    int64_t count = 0;
    int status = -1;
    if (messages == NULL)
        return refuse(r, -1);
    /* first its contents, then the template's whole text */
    if (check_bytes(r, bytes) == 0)
        status =
            refuse(r, sw_codec_converse(r->rules->codec, r->rules->chat, &talk, most_bytes(r),
                                        &bytes, &tokens, &count, &r->out->end, &r->refusal->err));
    if (status == 0 && (status = check_bytes(r, bytes)) != 0)
        free(tokens);
    else if (status == 0)
        status = add_prompt(r, tokens, count);
    json_decref(messages);
    return status;
}

static int read_tools(struct reading *r, const json_t *value)
{
    return refuse(r, sw_request_check_tools(r->rules, value, &r->refusal->err));
}

static int read_variables(struct reading *r, const json_t *value)
{
    return refuse(r, sw_request_check_variables(r->rules, value, &r->refusal->err));
}

/* ---- The other keys ---- */

static int read_model(struct reading *r, const json_t *value)
{
    char shown[SHOWN_BYTES + 4];
    if (!json_is_string(value))
        return REFUSE(r, "'model' must be a string");
    if (strcmp(json_string_value(value), r->rules->model) == 0)
        return 0;
    r->refusal->status = 404;
    r->refusal->code = "model_not_found";
    return REFUSE(r, "the model '%s' is not served here; this server has '%s'",
                  sw_text_shown(json_string_value(value), SHOWN_BYTES, shown), r->rules->model);
}

/* Reads a field of params with the same name. */
static int read_sampling(struct reading *r, const json_t *value)
{
    const struct sw_sampling_params_field *field = sw_sampling_params_fields;
    char text[160];
    while (field->name != NULL && strcmp(field->name, r->param) != 0)
        field++;
    if (field->name == NULL || sw_sampling_params_read(&r->out->params, field, value, text) != 0)
        return REFUSE(r, "%s", text);
    r->out->has_seed = r->out->has_seed || strcmp(r->param, "seed") == 0;
    return 0;
}

/* -1: all, as in vLLM. */
static int read_top_k(struct reading *r, const json_t *value)
{
    return json_is_integer(value) && json_integer_value(value) == -1 ? 0 : read_sampling(r, value);
}

static int read_max_tokens(struct reading *r, const json_t *value)
{
    const json_int_t count = sw_request_whole(value);
    if (count < 0)
        return REFUSE(r, "'%s' must be a whole number from 0", r->param);
    if (r->has_limit)
        return REFUSE(r, "give 'max_tokens' or 'max_completion_tokens', one of them");
    r->out->params.max_new_tokens = count < INT32_MAX ? (int64_t)count : INT32_MAX;
    r->has_limit = true;
    return 0;
}

static int read_stop(struct reading *r, const json_t *value)
{
    const size_t count = json_is_array(value) ? json_array_size(value) : 1;
    if (count > SW_REQUEST_STOPS)
        return REFUSE(r, "'stop' has at most %d strings", SW_REQUEST_STOPS);
    for (size_t i = 0; i < count; i++) {
        const json_t *text = json_is_array(value) ? json_array_get(value, i) : value;
        if (!json_is_string(text) || json_string_length(text) == 0)
            return REFUSE(r, "'stop' must be a string or a list of strings, none empty");
        if (strlen(json_string_value(text)) != json_string_length(text))
            return REFUSE(r, "'stop' has a NUL character, which ends no text here");
        if (sw_stops_add(&r->out->stops, json_string_value(text)) != 0)
            return out_of_memory(r);
    }
    return 0;
}

static int read_stop_token_ids(struct reading *r, const json_t *value)
{
    return refuse(r, sw_request_read_stop_tokens(r->rules, value, r->out, &r->refusal->err));
}

static int read_logit_bias(struct reading *r, const json_t *value)
{
    return refuse(r, sw_request_read_biases(r->rules, value, &r->out->biases, &r->refusal->err));
}

static int read_flag(struct reading *r, const json_t *value, bool *to)
{
    if (!json_is_boolean(value))
        return REFUSE(r, "'%s' must be true or false", r->param);
    *to = json_is_true(value);
    return 0;
}

static int read_stream(struct reading *r, const json_t *value)
{
    return read_flag(r, value, &r->out->stream);
}

static int read_ignore_eos(struct reading *r, const json_t *value)
{
    return read_flag(r, value, &r->out->ignore_eos);
}

static int read_echo(struct reading *r, const json_t *value)
{
    return read_flag(r, value, &r->out->echo);
}

static int read_stream_options(struct reading *r, const json_t *value)
{
    const json_t *usage = json_object_get(value, "include_usage");
    const char *key;
    json_t *member;
    char shown[SHOWN_BYTES + 4];
    if (!sw_json_is_object(value))
        return REFUSE(r, "'stream_options' must be an object");
    json_object_foreach((json_t *)value, key, member)
    {
        if (strcmp(key, "include_usage") != 0 && !json_is_null(member) && !json_is_false(member))
            return REFUSE(r, "'stream_options' has include_usage; '%s' is not supported",
                          sw_text_shown(key, SHOWN_BYTES, shown));
    }
    return usage == NULL || json_is_null(usage) ? 0 : read_flag(r, usage, &r->out->include_usage);
}

static int read_count(struct reading *r, const json_t *value, json_int_t most, int64_t *to)
{
    const json_int_t count = sw_request_whole(value);
    if (count < 0 || count > most)
        return REFUSE(r, "'%s' must be a whole number from 0 to %" PRId64, r->param, (int64_t)most);
    *to = (int64_t)count;
    return 0;
}

/* Reads the number of most probable tokens; for conversations, a flag. */
static int read_logprobs(struct reading *r, const json_t *value)
{
    if (r->out->endpoint == SW_CHAT_COMPLETIONS)
        return read_flag(r, value, &r->wants_logprobs);
    r->wants_logprobs = true;
    return read_count(r, value, SW_REQUEST_TOP, &r->top_logprobs);
}

static int read_top_logprobs(struct reading *r, const json_t *value)
{
    return read_count(r, value, SW_TOP_TOKENS, &r->top_logprobs);
}

static int read_min_tokens(struct reading *r, const json_t *value)
{
    return read_count(r, value, INT32_MAX, &r->out->params.min_new_tokens);
}

static int read_best_of(struct reading *r, const json_t *value)
{
    return read_count(r, value, SW_REQUEST_TEXTS, &r->best_of);
}

enum { TEXT = 1u << SW_COMPLETIONS, CHAT = 1u << SW_CHAT_COMPLETIONS, BOTH = TEXT | CHAT };
enum { MOST_NEUTRAL = 2 };

struct key {
    const char *name;
    uint32_t of;
    int (*read)(struct reading *r, const json_t *value);
    const char *neutral[MOST_NEUTRAL]; /* texts equal to absence */
};

/* Accepts a known but unsupported key only with its neutral value. */
static int read_nothing(struct reading *r, const json_t *value)
{
    const json_t *only = json_array_size(value) == 1 ? json_array_get(value, 0)
                         : sw_json_is_object(value)  ? json_object_get(value, "type")
                                                     : value;
    const char *text = json_object_size(value) <= 1 ? json_string_value(only) : NULL;
    bool neutral = (json_is_number(value) && json_number_value(value) == 0) ||
                   json_is_false(value) || (json_is_array(value) && json_array_size(value) == 0) ||
                   (sw_json_is_object(value) && json_object_size(value) == 0);
    for (size_t i = 0; i < MOST_NEUTRAL && text != NULL; i++)
        neutral |= r->key->neutral[i] != NULL && strcmp(r->key->neutral[i], text) == 0;
    return neutral ? 0 : REFUSE(r, "'%s' is not supported; leave it out", r->param);
}

/* Accepts parallel calls, the only mode; without tools it has no meaning. */
static int read_parallel(struct reading *r, const json_t *value)
{
    bool parallel = true;
    if (read_flag(r, value, &parallel) != 0)
        return -1;
    return parallel || given_tools(r) == NULL
               ? 0
               : REFUSE(r, "'%s': false is not supported with tools; leave it out", r->param);
}

/* Ignores a label, which is for log readers and changes no response. */
static int read_label(struct reading *r, const json_t *value)
{
    return json_is_string(value) ? 0 : REFUSE(r, "'%s' must be a string", r->param);
}

static const struct key keys[] = {
    {"model", BOTH, read_model, {NULL}},
    {"prompt", TEXT, read_prompt, {NULL}},
    {"messages", CHAT, read_messages, {NULL}},
    {"max_tokens", BOTH, read_max_tokens, {NULL}},
    {"max_completion_tokens", CHAT, read_max_tokens, {NULL}},
    {"temperature", BOTH, read_sampling, {NULL}},
    {"top_p", BOTH, read_sampling, {NULL}},
    {"top_k", BOTH, read_top_k, {NULL}},
    {"min_p", BOTH, read_sampling, {NULL}},
    {"repetition_penalty", BOTH, read_sampling, {NULL}},
    {"seed", BOTH, read_sampling, {NULL}},
    {"n", BOTH, read_sampling, {NULL}},
    {"stop", BOTH, read_stop, {NULL}},
    {"stop_token_ids", BOTH, read_stop_token_ids, {NULL}},
    {"ignore_eos", BOTH, read_ignore_eos, {NULL}},
    {"min_tokens", BOTH, read_min_tokens, {NULL}},
    {"stream", BOTH, read_stream, {NULL}},
    {"stream_options", BOTH, read_stream_options, {NULL}},
    {"echo", TEXT, read_echo, {NULL}},
    {"logprobs", BOTH, read_logprobs, {NULL}},
    {"top_logprobs", CHAT, read_top_logprobs, {NULL}},
    {"best_of", TEXT, read_best_of, {NULL}},
    {"suffix", TEXT, read_nothing, {""}},
    {"presence_penalty", BOTH, read_sampling, {NULL}},
    {"frequency_penalty", BOTH, read_sampling, {NULL}},
    {"logit_bias", BOTH, read_logit_bias, {NULL}},
    {"response_format", CHAT, read_nothing, {"text"}},
    {"tools", CHAT, read_tools, {NULL}},
    {"chat_template_kwargs", CHAT, read_variables, {NULL}},
    {"tool_choice", CHAT, read_nothing, {"auto", "none"}},
    {"parallel_tool_calls", CHAT, read_parallel, {NULL}},
    {"functions", CHAT, read_nothing, {NULL}},
    {"function_call", CHAT, read_nothing, {"auto", "none"}},
    {"modalities", CHAT, read_nothing, {"text"}},
    {"audio", CHAT, read_nothing, {NULL}},
    {"prediction", CHAT, read_nothing, {NULL}},
    {"reasoning_effort", CHAT, read_nothing, {"none"}},
    {"verbosity", CHAT, read_nothing, {"medium"}},
    {"service_tier", CHAT, read_nothing, {"auto", "default"}},
    {"web_search_options", CHAT, read_nothing, {NULL}},
    {"metadata", CHAT, read_nothing, {NULL}},
    {"store", CHAT, read_nothing, {NULL}},
    {"user", BOTH, read_label, {NULL}},
    {"safety_identifier", CHAT, read_label, {NULL}},
    {"prompt_cache_key", CHAT, read_label, {NULL}},
};
enum { KEYS = sizeof keys / sizeof keys[0] };

static int unknown_key(struct reading *r, const char *name)
{
    const char *names[KEYS];
    char shown[SHOWN_BYTES + 4];
    int32_t count = 0;
    for (size_t i = 0; i < KEYS; i++)
        if (keys[i].of >> r->out->endpoint & 1u)
            names[count++] = keys[i].name;
    const char *near = sw_text_nearest(name, names, count);
    sw_text_shown(name, SHOWN_BYTES, shown);
    return near != NULL ? REFUSE(r, "unknown key '%s'; did you mean '%s'?", shown, near)
                        : REFUSE(r, "unknown key '%s'", shown);
}

/* ---- All of it ---- */

static int check_room(struct reading *r)
{
    const int64_t most = r->rules->limits.max_tokens;
    const int64_t longest = r->out->params.max_new_tokens > 0 ? most - 1 : most;
    r->param = r->out->endpoint == SW_COMPLETIONS ? "prompt" : "messages";
    for (int64_t i = 0; i < r->out->prompt_count; i++)
        if (r->out->prompt[i].count > longest) {
            r->refusal->code = "context_length_exceeded";
            return longest == most
                       ? REFUSE(r, "the prompt has %" PRId64 " tokens; at most %" PRId64 " fit",
                                r->out->prompt[i].count, most)
                       : REFUSE(r,
                                "the prompt has %" PRId64 " tokens; with %" PRId64
                                " for a sequence, at most %" PRId64 " leave room for a new one",
                                r->out->prompt[i].count, most, longest);
        }
    return 0;
}

static int check_together(struct reading *r)
{
    struct sw_api_request *out = r->out;
    r->param = out->endpoint == SW_COMPLETIONS ? "prompt" : "messages";
    if (out->prompt_count == 0)
        return REFUSE(r, "'%s' is missing", r->param);
    r->param = "n";
    if (out->params.n > SW_REQUEST_TEXTS / out->prompt_count)
        return REFUSE(r, "at most %d sequences at a time, of all prompts", SW_REQUEST_TEXTS);
    r->param = "best_of";
    if (r->best_of > 1 && r->best_of != out->params.n)
        return REFUSE(r, "'best_of' other than n is not supported; leave it out");
    r->param = "top_logprobs";
    if (r->top_logprobs > 0 && !r->wants_logprobs)
        return REFUSE(r, "'top_logprobs' needs logprobs: true");
    /* a response that is not streamed is held in memory */
    r->param = out->endpoint == SW_COMPLETIONS ? "logprobs" : "top_logprobs";
    if (!out->stream && r->top_logprobs * out->prompt_count * out->params.n > SW_REQUEST_TEXTS)
        return REFUSE(r, "the most probable tokens of so many sequences need stream: true");
    out->logprobs = r->wants_logprobs ? (int32_t)r->top_logprobs : -1;
    r->param = "stream_options";
    if (out->include_usage && !out->stream)
        return REFUSE(r, "'stream_options' needs stream: true");
    if (check_room(r) != 0)
        return -1;
    r->param = "min_tokens";
    return refuse(r, sw_request_ban_ends(r->rules, out, &r->refusal->err));
}

static int read_key(struct reading *r, const struct key *key, const json_t *value)
{
    r->param = key->name;
    r->key = key;
    return json_is_null(value) ? 0 : key->read(r, value);
}

/* Reads the keys, messages last: their template needs the others. */
static int read_keys(struct reading *r)
{
    const struct key *last = NULL;
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)r->root, name, value)
    {
        size_t k = 0;
        while (k < KEYS &&
               (strcmp(keys[k].name, name) != 0 || !(keys[k].of >> r->out->endpoint & 1u)))
            k++;
        r->param = NULL;
        if (k == KEYS)
            return unknown_key(r, name);
        if (keys[k].read == read_messages)
            last = &keys[k];
        else if (read_key(r, &keys[k], value) != 0)
            return -1;
    }
    return last == NULL ? 0 : read_key(r, last, json_object_get(r->root, last->name));
}

int sw_api_request_read(const struct sw_request_rules *rules, enum sw_endpoint endpoint,
                        const char *body, size_t bytes, struct sw_api_request *out,
                        struct sw_refusal *refusal)
{
    struct sw_json_mistake why;
    json_t *root = sw_json_load(body, bytes, SW_JSON_TWICE, &why);
    struct reading r = {.rules = rules, .out = out, .refusal = refusal, .root = root};
    int status = -1;
    *refusal = (struct sw_refusal){.status = 400, .type = "invalid_request_error"};
    *out = (struct sw_api_request){
        .endpoint = endpoint, .params = sw_sampling_params_default(), .end = -1};
    out->params.temperature = 1;
    out->params.max_new_tokens = endpoint == SW_COMPLETIONS ? USUAL_TOKENS : INT32_MAX;
    out->logprobs = -1;
    if (root == NULL) {
        if (why.what == NULL)
            out_of_memory(&r);
        else
            REFUSE(&r, "not valid JSON: %s", why.what);
    } else if (!sw_json_is_object(root)) {
        REFUSE(&r, "the body must be an object, {\"%s\": ...}",
               endpoint == SW_COMPLETIONS ? "prompt" : "messages");
    } else if (read_keys(&r) == 0) {
        status = check_together(&r);
    }
    json_decref(root);
    if (status != 0 && refusal->err.status == SW_ENVIRONMENT) {
        refusal->status = 500;
        refusal->type = "server_error";
    }
    return status;
}

void sw_api_request_free(struct sw_api_request *request)
{
    for (int64_t i = 0; i < request->prompt_count; i++)
        free(request->prompt[i].tokens);
    free(request->prompt);
    sw_stops_free(&request->stops);
    *request = (struct sw_api_request){0};
}
