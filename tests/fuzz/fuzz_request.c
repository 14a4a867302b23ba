/* Any bytes as the body of a request, the first of them for which address. A refusal is one line
 * and an error object that is JSON; what is accepted is within every limit, whatever was written.
 * The same bytes as a line of training data, for two templates: a conversation, or one line, too.
 */
#include "runner/checkpoint/json_text.h"
#include "runner/serve/answer.h"
#include "runner/text/chat_messages.h"
#include "tests/fuzz/support.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes, and the two special tokens of chatml. */
static const char special[] =
    "{\"version\":\"1.0\",\"added_tokens\":[{\"id\":95,\"content\":\"<|im_start|>\",\"single_"
    "word\":"
    "false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":true},{\"id\":96,"
    "\"content\":\"<|im_end|>\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
    "\"normalized\":false,\"special\":true}],\"normalizer\":null,\"pre_tokenizer\":{\"type\":"
    "\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":true},"
    "\"post_processor\":null,\"decoder\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
    "\"trim_offsets\":true,\"use_regex\":true},\"model\":{\"type\":\"BPE\",\"dropout\":null,"
    "\"unk_token\":null,\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,"
    "\"fuse_unk\":false,\"byte_fallback\":false,\"merges\":[],\"vocab\":{";

enum { VOCAB = 100, MOST_TOKENS = 64 };

/* Letters from '!' on; what a prompt has besides is in no token, and refused. */
static char *write_tokenizer(void)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    fuzz_require(out != NULL, "no memory", "");
    fputs(special, out);
    for (int32_t c = '!'; c <= '~'; c++)
        fprintf(out, "%s\"%s%c\":%d", c == '!' ? "" : ",", c == '"' || c == '\\' ? "\\" : "", c,
                (int)(c - '!'));
    fputs(",\"\xc4\xa0\":94}}}", out);
    fclose(out);
    return text;
}

static void check_refusal(const struct sw_refusal *r)
{
    struct sw_chars out = {0};
    fuzz_require(r->status == 400 || r->status == 404, "another status", r->err.message);
    fuzz_require(r->err.message[0] != '\0' && strlen(r->err.message) < 400, "no message",
                 r->err.message);
    fuzz_require_plain(r->err.message);
    fuzz_require(sw_answer_error(r, false, &out) == 0, "no error object", r->err.message);
    json_t *root = json_loadb(out.byte, out.count, 0, NULL);
    fuzz_require(json_is_string(json_object_get(json_object_get(root, "error"), "message")),
                 "an error object without a message", out.byte);
    json_decref(root);
    sw_chars_free(&out);
}

static void check_biases(const struct sw_biases *b, bool bans)
{
    fuzz_require(b->count >= 0 && b->count <= SW_BIASED_TOKENS && b->banned_count >= 0 &&
                     b->banned_count <= (bans ? SW_BANNED_TOKENS : 0),
                 "biases", "");
    for (int32_t i = 0; i < b->count; i++) {
        fuzz_require(b->token[i] >= 0 && b->token[i] < VOCAB && fabsf(b->bias[i]) <= 100,
                     "a bias of nothing", "");
        for (int32_t j = 0; j < i; j++)
            fuzz_require(b->token[i] != b->token[j], "two biases of a token", "");
    }
    for (int32_t i = 0; i < b->banned_count; i++)
        fuzz_require(b->banned[i] >= 0 && b->banned[i] < VOCAB, "a ban of nothing", "");
}

static void check_request(const struct sw_api_request *r)
{
    const struct sw_sampling_params *w = &r->params;
    fuzz_require(r->prompt_count >= 1 && w->n >= 1 && w->n <= SW_REQUEST_TEXTS / r->prompt_count,
                 "too many texts", "");
    for (int64_t i = 0; i < r->prompt_count; i++) {
        fuzz_require(r->prompt[i].count >= 1 &&
                         r->prompt[i].count <= MOST_TOKENS - (w->max_new_tokens > 0),
                     "a prompt of another length", "");
        for (int64_t t = 0; t < r->prompt[i].count; t++)
            fuzz_require(r->prompt[i].tokens[t] >= 0 && r->prompt[i].tokens[t] < VOCAB,
                         "a token of nothing", "");
    }
    fuzz_require(w->max_new_tokens >= 0 && w->max_new_tokens <= INT32_MAX, "max_tokens", "");
    fuzz_require(w->temperature >= 0 && w->temperature <= 100, "temperature", "");
    fuzz_require(w->top_p > 0 && w->top_p <= 1 && w->min_p >= 0 && w->min_p <= 1, "top_p", "");
    fuzz_require(w->top_k >= 0 && w->repetition_penalty > 0, "top_k", "");
    fuzz_require(fabs(w->presence_penalty) <= 2 && fabs(w->frequency_penalty) <= 2, "penalties",
                 "");
    fuzz_require(w->min_new_tokens >= 0 && w->min_new_tokens <= w->max_new_tokens, "min_tokens",
                 "");
    check_biases(&r->biases, w->min_new_tokens > 0);
    const int32_t most = r->endpoint == SW_CHAT_COMPLETIONS ? SW_TOP_TOKENS : SW_REQUEST_TOP;
    fuzz_require(r->logprobs >= -1 && r->logprobs <= most, "logprobs", "");
    fuzz_require(r->stops.count <= SW_REQUEST_STOPS, "stops", "");
    fuzz_require(r->stop_token_count >= 0 && r->stop_token_count <= SW_REQUEST_STOP_TOKENS,
                 "stop_token_ids", "");
    for (int32_t i = 0; i < r->stop_token_count; i++)
        fuzz_require(r->stop_token[i] >= 0 && r->stop_token[i] < VOCAB, "a stop of nothing", "");
    for (int32_t i = 0; i < r->stops.count; i++)
        fuzz_require(r->stops.text[i][0] != '\0', "an empty stop", "");
}

/* Reads a line like `runner tokenize`. */
static void check_line(const struct sw_chat_template *chat, const char *line, size_t bytes)
{
    json_t *object = sw_json_load(line, bytes, 0, NULL), *tools = NULL;
    struct sw_chars text = {0};
    struct sw_error err = {0};
    size_t contents = 0;
    json_t *messages =
        sw_chat_read_messages(chat, json_object_get(object, "messages"), &contents, &err);
    int status = messages == NULL ? -1 : 0;
    if (status == 0)
        status = sw_chat_read_tools(chat, json_object_get(object, "tools"), &tools, &err);
    const struct sw_chat_talk talk = {.messages = messages, .tools = tools};
    if (status == 0)
        status = sw_chat_render(chat, &talk, &text, NULL, NULL, &err);
    fuzz_require((status == 0) == (err.message[0] == '\0'), "no message, or one too many",
                 err.message);
    fuzz_require_plain(err.message);
    sw_chars_free(&text);
    json_decref(tools);
    json_decref(messages);
    json_decref(object);
}

static void check_own(const char *line, size_t bytes)
{
    static const char own[] =
        "{{ tools }}{% for m in messages %}{{ m.role }}{{ m.content }}{{ m|tojson }}"
        "{% for c in m.tool_calls or [] %}{{ c.function.arguments|tojson }}{% endfor %}{% endfor "
        "%}";
    struct sw_chat_template *chat = NULL;
    fuzz_add_file("m/chat_template.jinja", own, strlen(own));
    fuzz_require(sw_chat_template_of_folder("m", &chat, NULL) == 0 && chat != NULL,
                 "no template of its own", "");
    check_line(chat, line, bytes);
    sw_chat_template_free(chat);
}

void fuzz_one(const uint8_t *data, size_t bytes)
{
    static const char nothing[1] = "";
    char *tokenizer = write_tokenizer();
    struct sw_codec *codec = NULL;
    struct sw_chat_template *chat = NULL;
    struct sw_api_request request;
    struct sw_refusal refusal;
    struct sw_error err = {0};
    fuzz_add_file("m/tokenizer.json", tokenizer, strlen(tokenizer));
    const struct sw_codec_model model = {.folder = "m", .vocab_size = VOCAB};
    fuzz_require(sw_codec_open(&model, &codec, &err) == 0, "no codec", err.message);
    fuzz_require(sw_codec_can_read(codec), "the tokenizer is not read",
                 sw_codec_why(codec)->message);
    fuzz_require(sw_chat_template_named(sw_codec_template(codec), &chat, &err) == 0, "no template",
                 err.message);
    const struct sw_request_rules rules = {.codec = codec,
                                           .limits = {.vocab = VOCAB, .max_tokens = MOST_TOKENS},
                                           .model = "m",
                                           .chat = chat};
    const enum sw_endpoint endpoint =
        bytes > 0 && data[0] % 2 == 1 ? SW_CHAT_COMPLETIONS : SW_COMPLETIONS;
    const char *body = bytes > 1 ? (const char *)data + 1 : nothing;
    const size_t body_bytes = bytes > 1 ? bytes - 1 : 0;
    check_line(chat, body, body_bytes);
    check_own(body, body_bytes);
    if (sw_api_request_read(&rules, endpoint, body, body_bytes, &request, &refusal) == 0)
        check_request(&request);
    else
        check_refusal(&refusal);
    sw_api_request_free(&request);
    sw_chat_template_free(chat);
    sw_codec_free(codec);
    free(tokenizer);
}
