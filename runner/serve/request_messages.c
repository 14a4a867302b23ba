#include "runner/serve/request_messages.h"

#include "core/base/text.h"
#include "runner/checkpoint/json_text.h"
#include "runner/text/chat_messages.h"

#include <string.h>

enum { MOST_MESSAGES = 4096, SHOWN_BYTES = 48 };

/* A conversation being read. */
struct talk {
    const struct sw_request_rules *rules;
    size_t bytes; /* contents' bytes so far */
    struct sw_error *err;
};

#define REFUSE(r, ...) sw_fail((r)->err, SW_BAD_INPUT, __VA_ARGS__)

static int out_of_memory(const struct talk *r)
{
    return sw_fail(r->err, SW_ENVIRONMENT, "out of memory for a request");
}

/* True if the message's key is ignored, or named by the template. lm-evaluation-harness writes
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

/* True for null and an empty list, like "annotations" in OpenAI's own responses. */
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
                     ? json_object_set_new(message, key, sw_chat_read_calls(member))
                     : json_object_set(message, key, member);
        if (status != 0)
            return out_of_memory(r);
    }
    json_t *content = sw_chat_read_content(r->rules->chat, i, json_object_get(value, "content"),
                                           true, &r->bytes, r->err);
    if (content == NULL)
        return -1;
    return json_object_set_new(message, "content", content) == 0 ? 0 : out_of_memory(r);
}

/* Checks that conversations can be rendered; 0 if so. */
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

/* Refuses tools that the template does not name: it would ignore them. */
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

/* Checks further template variables, under vLLM's key. */
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
