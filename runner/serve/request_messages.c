#include "runner/serve/request_messages.h"

#include "core/base/text.h"
#include "runner/checkpoint/json_text.h"

#include <string.h>

enum { MOST_MESSAGES = 4096, SHOWN_BYTES = 48 };

/* A conversation that is read. */
struct talk {
    const struct sw_request_rules *rules;
    size_t bytes; /* of contents, so far */
    struct sw_error *err;
};

#define REFUSE(r, ...) sw_fail((r)->err, SW_BAD_INPUT, __VA_ARGS__)

static int out_of_memory(const struct talk *r)
{
    return sw_fail(r->err, SW_ENVIRONMENT, "out of memory for a request");
}

/* The keys of a part are those of a text. */
static int check_part(const struct talk *r, size_t i, size_t p, const json_t *part)
{
    const char *key;
    json_t *member;
    char shown[SHOWN_BYTES + 4];
    json_object_foreach((json_t *)part, key, member)
    {
        if (strcmp(key, "type") != 0 && strcmp(key, "text") != 0 && !json_is_null(member))
            return REFUSE(r, "message %zu: part %zu: '%s' is not supported", i + 1, p + 1,
                          sw_text_shown(key, SHOWN_BYTES, shown));
    }
    return 0;
}

/* A content is a text, or parts of it that are texts; as one text where the template takes no
 * parts. Returns a new value, NULL: refused. */
static json_t *read_content(struct talk *r, size_t i, json_t *value)
{
    struct sw_chars text = {0};
    const bool own = sw_chat_template_is_own(r->rules->chat);
    json_t *made = NULL;
    r->bytes += json_string_length(value);
    if (json_is_string(value) || (own && (value == NULL || json_is_null(value))))
        return value != NULL ? json_incref(value) : json_null();
    if (!json_is_array(value))
        return REFUSE(r, "message %zu: 'content' must be a string", i + 1), NULL;
    if (sw_chars_add(&text, "", 0) != 0)
        return out_of_memory(r), NULL;
    for (size_t p = 0; p < json_array_size(value); p++) {
        const json_t *part = json_array_get(value, p);
        const char *type = json_string_value(json_object_get(part, "type"));
        const json_t *content = json_object_get(part, "text");
        if (type == NULL || strcmp(type, "text") != 0 || !json_is_string(content)) {
            sw_chars_free(&text);
            return REFUSE(r, "message %zu: part %zu is not text; only text can be read", i + 1,
                          p + 1),
                   NULL;
        }
        if (check_part(r, i, p, part) != 0) {
            sw_chars_free(&text);
            return NULL;
        }
        if (sw_chars_add(&text, json_string_value(content), json_string_length(content)) != 0) {
            sw_chars_free(&text);
            return out_of_memory(r), NULL;
        }
    }
    r->bytes += text.count;
    made = sw_chat_template_takes_parts(r->rules->chat) ? json_incref(value)
                                                        : json_stringn(text.byte, text.count);
    sw_chars_free(&text);
    return made != NULL ? made : (out_of_memory(r), NULL);
}

/* The calls with their arguments as objects, which templates write; the API has them as texts. */
static json_t *read_calls(const json_t *value)
{
    json_t *calls = json_deep_copy(value);
    const json_t *call;
    size_t i;
    json_array_foreach(calls, i, call)
    {
        json_t *function = json_object_get(call, "function");
        const json_t *text = json_object_get(function, "arguments");
        json_t *arguments = json_is_string(text) ? sw_json_load(json_string_value(text),
                                                                json_string_length(text), 0, NULL)
                                                 : NULL;
        if (sw_json_is_object(arguments))
            (void)json_object_set(function, "arguments", arguments);
        json_decref(arguments);
    }
    return calls;
}

/* Whether a key of a message is passed over, or is the template's. lm-evaluation-harness writes
 * "type": "text" beside a content. */
static bool is_known(const struct talk *r, const char *key, const json_t *value)
{
    static const char *const asked[] = {"tool_calls", "tool_call_id", "reasoning_content",
                                        "reasoning",  "thinking",     "name"};
    const char *text = json_string_value(value);
    if (strcmp(key, "role") == 0 || strcmp(key, "content") == 0)
        return true;
    if (strcmp(key, "type") == 0)
        return text != NULL && (strcmp(text, "text") == 0 || strcmp(text, "message") == 0);
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++)
        if (strcmp(key, asked[i]) == 0)
            return sw_chat_template_is_own(r->rules->chat) &&
                   (sw_chat_template_mentions(r->rules->chat, key) ||
                    strcmp(key, "tool_call_id") == 0);
    return false;
}

/* What says nothing: null, and an empty list, as OpenAI's own answers have of "annotations". */
static bool is_nothing(const json_t *value)
{
    return json_is_null(value) || (json_is_array(value) && json_array_size(value) == 0);
}

static int read_message(struct talk *r, size_t i, json_t *value, json_t *messages)
{
    json_t *message = json_object();
    const char *key;
    json_t *member;
    int status = -1;
    if (message == NULL || json_array_append_new(messages, message) != 0)
        return out_of_memory(r);
    if (!json_is_string(json_object_get(value, "role")))
        return REFUSE(r, "message %zu is an object with 'role' and 'content'", i + 1);
    json_object_foreach(value, key, member)
    {
        char shown[SHOWN_BYTES + 4];
        const bool known = is_known(r, key, member), nothing = is_nothing(member);
        if (strcmp(key, "name") == 0 && !known && !nothing)
            return REFUSE(r, "message %zu: 'name' is not supported; write it into 'content'",
                          i + 1);
        if (!known && !nothing)
            return REFUSE(r, "message %zu: '%s' is not supported", i + 1,
                          sw_text_shown(key, SHOWN_BYTES, shown));
        if (strcmp(key, "content") == 0 || json_is_null(member) || !known)
            continue;
        status = strcmp(key, "tool_calls") == 0
                     ? json_object_set_new(message, key, read_calls(member))
                     : json_object_set(message, key, member);
        if (status != 0)
            return out_of_memory(r);
    }
    json_t *content = read_content(r, i, json_object_get(value, "content"));
    if (content == NULL)
        return -1;
    return json_object_set_new(message, "content", content) == 0 ? 0 : out_of_memory(r);
}

/* Why no conversation can be written; 0: it can. */
static int check_template(const struct talk *r)
{
    if (r->rules->chat != NULL)
        return 0;
    return REFUSE(r, "the server knows no chat template for this model; start it with "
                     "--chat-template llama-3, chatml or mistral, or use /v1/completions");
}

json_t *sw_request_read_messages(const struct sw_request_rules *rules, const json_t *value,
                                 size_t *bytes, struct sw_error *err)
{
    const size_t count = json_array_size(value);
    struct talk talk = {rules, 0, err};
    if (check_template(&talk) != 0)
        return NULL;
    if (count == 0 || count > MOST_MESSAGES)
        return REFUSE(&talk, "'messages' must be a list of 1 to %d messages", MOST_MESSAGES), NULL;
    json_t *messages = json_array();
    if (messages == NULL)
        return out_of_memory(&talk), NULL;
    for (size_t i = 0; i < count; i++)
        if (read_message(&talk, i, json_array_get(value, i), messages) != 0) {
            json_decref(messages);
            return NULL;
        }
    *bytes = talk.bytes;
    return messages;
}

/* Tools are the template's to write; one that does not name them would pass them over. */
int sw_request_check_tools(const struct sw_request_rules *rules, const json_t *value,
                           struct sw_error *err)
{
    const struct talk talk = {rules, 0, err}, *r = &talk;
    if (check_template(r) != 0)
        return -1;
    bool objects = json_is_array(value);
    for (size_t i = 0; i < json_array_size(value); i++)
        objects = objects && sw_json_is_object(json_array_get(value, i));
    if (!objects)
        return REFUSE(r, "'tools' must be a list of objects");
    if (json_array_size(value) > 0 && (!sw_chat_template_is_own(r->rules->chat) ||
                                       !sw_chat_template_mentions(r->rules->chat, "tools")))
        return REFUSE(r, "the chat template writes no 'tools'; leave it out");
    return 0;
}

/* More variables of the template, as vLLM names the key. */
int sw_request_check_variables(const struct sw_request_rules *rules, const json_t *value,
                               struct sw_error *err)
{
    const struct talk talk = {rules, 0, err}, *r = &talk;
    const char *key;
    json_t *member;
    char shown[SHOWN_BYTES + 4];
    if (check_template(r) != 0)
        return -1;
    if (!sw_json_is_object(value))
        return REFUSE(r, "'chat_template_kwargs' must be an object");
    if (json_object_size(value) > SW_CHAT_VARIABLES)
        return REFUSE(r, "'chat_template_kwargs' has at most %d variables", SW_CHAT_VARIABLES);
    json_object_foreach((json_t *)value, key, member)
    {
        (void)member;
        if (sw_chat_template_sets(r->rules->chat, key))
            return REFUSE(r,
                          "'chat_template_kwargs' cannot set '%s': the server does; leave it out",
                          sw_text_shown(key, SHOWN_BYTES, shown));
        if (!sw_chat_template_is_own(r->rules->chat) ||
            !sw_chat_template_mentions(r->rules->chat, key))
            return REFUSE(r, "the chat template has no variable '%s'",
                          sw_text_shown(key, SHOWN_BYTES, shown));
    }
    return 0;
}
