#include "runner/generate/prompts.h"

#include "core/base/text.h"
#include "runner/checkpoint/json_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_COMPLAINTS = 100, SHOWN_BYTES = 48 };

const struct sw_sampling_params_field sw_sampling_params_fields[] = {
#define FIELD(name, real, least, most, above, shown, about)                                        \
    {#name, real, least, most, above, offsetof(struct sw_sampling_params, name)},
    SW_SAMPLING_PARAMS(FIELD)
#undef FIELD
        {.name = NULL},
};

struct sw_sampling_params sw_sampling_params_default(void)
{
    return (struct sw_sampling_params){
        .top_p = 1, .repetition_penalty = 1, .max_new_tokens = 128, .n = 1};
}

struct sw_sampling sw_sampling_params_sampling(const struct sw_sampling_params *params)
{
    return (struct sw_sampling){.temperature = params->temperature,
                                .top_p = params->top_p,
                                .min_p = params->min_p,
                                .penalty = params->repetition_penalty,
                                .top_k = params->top_k,
                                .presence = params->presence_penalty,
                                .frequency = params->frequency_penalty};
}

static int refuse_value(const struct sw_sampling_params_field *field, char text[160])
{
    const int64_t most = field->most < 0x1p63 ? (int64_t)field->most : INT64_MAX;
    if (field->real)
        snprintf(text, 160, "'%s' must be a number %s %.17g %s %.17g", field->name,
                 field->above ? "above" : "from", field->least, field->above ? "and at most" : "to",
                 field->most);
    else
        snprintf(text, 160, "'%s' must be a whole number from %" PRId64 " to %" PRId64, field->name,
                 (int64_t)field->least, most);
    return -1;
}

int sw_sampling_params_set(struct sw_sampling_params *params,
                           const struct sw_sampling_params_field *field, double value,
                           char text[160])
{
    char *at = (char *)params + field->offset;
    if (!field->real)
        return value == floor(value) && fabs(value) <= 0x1p53
                   ? sw_sampling_params_set_whole(params, field, (int64_t)value, text)
                   : refuse_value(field, text);
    if (!(value >= field->least && value <= field->most) || (field->above && value <= field->least))
        return refuse_value(field, text);
    *(double *)(void *)at = value;
    return 0;
}

int sw_sampling_params_set_whole(struct sw_sampling_params *params,
                                 const struct sw_sampling_params_field *field, int64_t value,
                                 char text[160])
{
    if (field->real)
        return sw_sampling_params_set(params, field, (double)value, text);
    if ((double)value < field->least || (double)value > field->most)
        return refuse_value(field, text);
    *(int64_t *)(void *)((char *)params + field->offset) = value;
    return 0;
}

int sw_sampling_params_read(struct sw_sampling_params *params,
                            const struct sw_sampling_params_field *field, const json_t *value,
                            char text[160])
{
    return json_is_integer(value)
               ? sw_sampling_params_set_whole(params, field, json_integer_value(value), text)
               : sw_sampling_params_set(params, field,
                                        json_is_real(value) ? json_real_value(value) : (double)NAN,
                                        text);
}

/* ---- Stops ---- */

int sw_stops_add(struct sw_stops *stops, const char *text)
{
    char **grown = realloc(stops->text, ((size_t)stops->count + 1) * sizeof *grown);
    if (grown == NULL)
        return -1;
    stops->text = grown;
    grown[stops->count] = strdup(text);
    return grown[stops->count] == NULL ? -1 : (stops->count++, 0);
}

void sw_stops_free(struct sw_stops *stops)
{
    for (int32_t i = 0; i < stops->count; i++)
        free(stops->text[i]);
    free(stops->text);
    *stops = (struct sw_stops){0};
}

static int copy_stops(struct sw_stops *to, const struct sw_stops *from)
{
    for (int32_t i = 0; i < from->count; i++)
        if (sw_stops_add(to, from->text[i]) != 0)
            return -1;
    return 0;
}

/* ---- One line ---- */

struct reading {
    struct sw_codec *codec;
    const struct sw_prompt_limits *limits;
    const struct sw_sampling_params *defaults;
    const struct sw_stops *stops;
};

static int out_of_memory(struct sw_error *err)
{
    return sw_fail(err, SW_ENVIRONMENT, "out of memory for the prompts");
}

static int check_tokens(const struct reading *r, const struct sw_prompt *prompt,
                        struct sw_error *err)
{
    const struct sw_prompt_limits *limits = r->limits;
    if (limits->scored && prompt->token_count < 2)
        return sw_fail(err, SW_BAD_INPUT,
                       "the text has %" PRId64 " token%s; what follows the first is scored",
                       prompt->token_count, prompt->token_count == 1 ? "" : "s");
    if (prompt->token_count == 0)
        return sw_fail(err, SW_BAD_INPUT, "the prompt is empty; give at least one token");
    if (!limits->scored && prompt->token_count >= limits->max_tokens)
        return sw_fail(err, SW_BAD_INPUT,
                       "the prompt has %" PRId64 " tokens; with %" PRId64
                       " for a sequence, at most %" PRId64
                       " leave room for a new one; shorten it, or emit the plan with a "
                       "larger serve.max_tokens",
                       prompt->token_count, limits->max_tokens, limits->max_tokens - 1);
    for (int64_t i = 0; i < prompt->token_count; i++)
        if (prompt->tokens[i] < 0 || prompt->tokens[i] >= limits->vocab)
            return sw_fail(err, SW_BAD_INPUT, "token %" PRId32 " is none of the model's %" PRId64,
                           prompt->tokens[i], limits->vocab);
    return 0;
}

static int check_lengths(const struct sw_sampling_params *params, struct sw_error *err)
{
    return params->min_new_tokens <= params->max_new_tokens
               ? 0
               : sw_fail(err, SW_BAD_INPUT,
                         "'min_new_tokens' is %" PRId64 ", above 'max_new_tokens', %" PRId64,
                         params->min_new_tokens, params->max_new_tokens);
}

static int read_tokens(const json_t *list, struct sw_prompt *prompt, struct sw_error *err)
{
    const size_t count = json_array_size(list);
    if (!json_is_array(list))
        return sw_fail(err, SW_BAD_INPUT, "'tokens' must be a list of numbers");
    prompt->tokens = malloc((count + 1) * sizeof *prompt->tokens);
    if (prompt->tokens == NULL)
        return out_of_memory(err);
    for (size_t i = 0; i < count; i++) {
        const json_t *token = json_array_get(list, i);
        const json_int_t id = json_is_integer(token) ? json_integer_value(token) : -1;
        if (id < 0 || id > INT32_MAX)
            return sw_fail(err, SW_BAD_INPUT,
                           "element %zu of 'tokens' is not a token: a whole number from 0", i);
        prompt->tokens[i] = (int32_t)id;
    }
    prompt->token_count = (int64_t)count;
    return 0;
}

static int read_stops(const json_t *value, struct sw_prompt *prompt, struct sw_error *err)
{
    const size_t count = json_is_array(value) ? json_array_size(value) : 1;
    sw_stops_free(&prompt->stops);
    for (size_t i = 0; i < count; i++) {
        const json_t *text = json_is_array(value) ? json_array_get(value, i) : value;
        if (!json_is_string(text) || json_string_length(text) == 0)
            return sw_fail(err, SW_BAD_INPUT,
                           "'stop' must be a string or a list of strings, none empty");
        if (strlen(json_string_value(text)) != json_string_length(text))
            return sw_fail(err, SW_BAD_INPUT,
                           "'stop' has a NUL character, which ends no text here");
        if (sw_stops_add(&prompt->stops, json_string_value(text)) != 0)
            return out_of_memory(err);
    }
    return 0;
}

static const char *text_key(const struct reading *r)
{
    return r->limits->scored ? "text" : "prompt";
}

static int unknown_key(const struct reading *r, const char *key, struct sw_error *err)
{
    static const char *const words[] = {"prompt",
                                        "tokens",
                                        "stop",
                                        "temperature",
                                        "top_k",
                                        "top_p",
                                        "min_p",
                                        "repetition_penalty",
                                        "presence_penalty",
                                        "frequency_penalty",
                                        "min_new_tokens",
                                        "max_new_tokens",
                                        "seed",
                                        "n"};
    char shown[SHOWN_BYTES + 4];
    const char *near = sw_text_nearest(key, words, sizeof words / sizeof words[0]);
    sw_text_shown(key, SHOWN_BYTES, shown);
    if (r->limits->scored)
        return sw_fail(err, SW_BAD_INPUT, "unknown key '%s'; a line has text or tokens", shown);
    return near != NULL
               ? sw_fail(err, SW_BAD_INPUT, "unknown key '%s'; did you mean '%s'?", shown, near)
               : sw_fail(err, SW_BAD_INPUT,
                         "unknown key '%s'; a line has prompt or tokens, and perhaps stop, "
                         "temperature, top_k, top_p, min_p, repetition_penalty, presence_penalty, "
                         "frequency_penalty, min_new_tokens, max_new_tokens, seed and n",
                         shown);
}

static int read_field(const struct reading *r, const char *key, const json_t *value,
                      struct sw_prompt *prompt, struct sw_error *err)
{
    char text[160];
    if (strcmp(key, "tokens") == 0)
        return read_tokens(value, prompt, err);
    if (strcmp(key, text_key(r)) == 0 && !json_is_string(value))
        return sw_fail(err, SW_BAD_INPUT, "'%s' must be a string", key);
    if (strcmp(key, text_key(r)) == 0)
        return sw_codec_encode(r->codec, json_string_value(value), json_string_length(value), true,
                               &prompt->tokens, &prompt->token_count, err);
    if (r->limits->scored)
        return unknown_key(r, key, err);
    if (strcmp(key, "stop") == 0)
        return read_stops(value, prompt, err);
    const struct sw_sampling_params_field *field = sw_sampling_params_fields;
    while (field->name != NULL && strcmp(field->name, key) != 0)
        field++;
    if (field->name == NULL)
        return unknown_key(r, key, err);
    if (sw_sampling_params_read(&prompt->params, field, value, text) != 0)
        return sw_fail(err, SW_BAD_INPUT, "%s", text);
    return 0;
}

static int read_line(const struct reading *r, const char *line, size_t bytes,
                     struct sw_prompt *prompt, struct sw_error *err)
{
    struct sw_json_mistake why;
    json_t *root = sw_json_load(line, bytes, SW_JSON_TWICE, &why), *value;
    const char *key;
    int status = -1;
    if (root == NULL)
        return why.what == NULL ? out_of_memory(err)
                                : sw_fail(err, SW_BAD_INPUT, "not valid JSON: %s", why.what);
    if (!sw_json_is_object(root)) {
        sw_fail(err, SW_BAD_INPUT, "a line must be an object, {\"%s\": ...}", text_key(r));
        goto out;
    }
    if ((json_object_get(root, text_key(r)) != NULL) == (json_object_get(root, "tokens") != NULL)) {
        sw_fail(err, SW_BAD_INPUT, "give '%s' or 'tokens', one of them", text_key(r));
        goto out;
    }
    json_object_foreach(root, key, value)
    {
        if (read_field(r, key, value, prompt, err) != 0)
            goto out;
    }
    status = check_tokens(r, prompt, err) == 0 ? check_lengths(&prompt->params, err) : -1;
out:
    json_decref(root);
    return status;
}

/* ---- All of them ---- */

static void forget(struct sw_prompt *prompt)
{
    free(prompt->tokens);
    sw_stops_free(&prompt->stops);
    *prompt = (struct sw_prompt){0};
}

void sw_prompts_free(struct sw_prompts *prompts)
{
    for (int64_t i = 0; i < prompts->count; i++)
        forget(&prompts->at[i]);
    free(prompts->at);
    *prompts = (struct sw_prompts){0};
}

static int add(struct sw_prompts *out, struct sw_prompt *prompt, struct sw_error *err)
{
    if ((out->count & (out->count - 1)) == 0) { /* sizes 0, 1, 2, 4, 8 ... */
        const size_t wanted = out->count == 0 ? 1 : (size_t)out->count * 2;
        struct sw_prompt *grown = realloc(out->at, wanted * sizeof *grown);
        if (grown == NULL) {
            forget(prompt);
            return out_of_memory(err);
        }
        out->at = grown;
    }
    out->samples += prompt->params.n;
    out->at[out->count++] = *prompt;
    return 0;
}

static bool is_blank(const char *line, size_t bytes)
{
    while (bytes > 0 && (*line == ' ' || *line == '\t' || *line == '\r')) {
        line++;
        bytes--;
    }
    return bytes == 0;
}

int sw_prompts_read(const char *path, const char *text, size_t bytes, struct sw_codec *codec,
                    const struct sw_prompt_limits *limits,
                    const struct sw_sampling_params *defaults, const struct sw_stops *stops,
                    FILE *complaints, struct sw_prompts *out, struct sw_error *err)
{
    const struct reading r = {codec, limits, defaults, stops};
    int64_t wrong = 0;
    int32_t line = 0;
    *out = (struct sw_prompts){0};
    for (size_t at = 0; at < bytes;) {
        const char *end = memchr(text + at, '\n', bytes - at);
        const size_t length = end != NULL ? (size_t)(end - text) - at : bytes - at;
        struct sw_prompt prompt = {.params = *defaults, .line = ++line};
        struct sw_error mistake = {0};
        if (is_blank(text + at, length)) {
            at += length + 1;
            continue;
        }
        if (copy_stops(&prompt.stops, stops) != 0)
            out_of_memory(&mistake);
        else if (read_line(&r, text + at, length, &prompt, &mistake) == 0)
            (void)add(out, &prompt, &mistake);
        if (mistake.status != SW_OK)
            forget(&prompt);
        if (mistake.status == SW_ENVIRONMENT)
            return sw_fail_as(err, &mistake);
        wrong += mistake.status != SW_OK;
        if (mistake.status != SW_OK && complaints != NULL && wrong <= MOST_COMPLAINTS)
            fprintf(complaints, "%s:%" PRId32 ": error: %s\n", path, line, mistake.message);
        at += length + 1;
    }
    if (wrong > 0)
        return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = path},
                          "%" PRId64 " of its lines cannot be used%s; nothing was %s", wrong,
                          wrong > MOST_COMPLAINTS ? ", of which the first 100 were named" : "",
                          limits->scored ? "scored" : "generated");
    if (out->count == 0)
        return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = path},
                          "no %s in it; give a line {\"%s\": ...} for each", text_key(&r),
                          text_key(&r));
    return 0;
}

int sw_prompts_single(const char *prompt, struct sw_codec *codec,
                      const struct sw_prompt_limits *limits,
                      const struct sw_sampling_params *params, const struct sw_stops *stops,
                      struct sw_prompts *out, struct sw_error *err)
{
    const struct reading r = {codec, limits, params, stops};
    struct sw_prompt one = {.params = *params};
    *out = (struct sw_prompts){0};
    if (copy_stops(&one.stops, stops) != 0) {
        forget(&one);
        return out_of_memory(err);
    }
    if (sw_codec_encode(codec, prompt, strlen(prompt), true, &one.tokens, &one.token_count, err) ==
            0 &&
        check_tokens(&r, &one, err) == 0 && check_lengths(params, err) == 0)
        return add(out, &one, err);
    forget(&one);
    return -1;
}
