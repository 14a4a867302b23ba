#include "runner/text/chat_messages.h"

#include "core/base/text.h"
#include "runner/checkpoint/json_text.h"

#include <string.h>

enum { SHOWN_BYTES = 48 };

static int out_of_memory(struct sw_error *err)
{
    return sw_fail(err, SW_ENVIRONMENT, "out of memory for a conversation");
}

/* Checks that a part has only the keys of a text. */
static int check_part(size_t i, size_t p, const json_t *part, struct sw_error *err)
{
    const char *key;
    json_t *member;
    char shown[SHOWN_BYTES + 4];
    json_object_foreach((json_t *)part, key, member)
    {
        if (strcmp(key, "type") != 0 && strcmp(key, "text") != 0 && !json_is_null(member))
            return sw_fail(err, SW_BAD_INPUT, "message %zu: part %zu: '%s' is not supported", i + 1,
                           p + 1, sw_text_shown(key, SHOWN_BYTES, shown));
    }
    return 0;
}

/* Appends part p of message i to *text. */
static int read_part(size_t i, size_t p, const json_t *part, bool refuses, struct sw_chars *text,
                     struct sw_error *err)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    const json_t *content = json_object_get(part, "text");
    if (type == NULL || strcmp(type, "text") != 0 || !json_is_string(content))
        return sw_fail(err, SW_BAD_INPUT,
                       "message %zu: part %zu is not text; only text can be read", i + 1, p + 1);
    if (refuses && check_part(i, p, part, err) != 0)
        return -1;
    return sw_chars_add(text, json_string_value(content), json_string_length(content)) == 0
               ? 0
               : out_of_memory(err);
}

json_t *sw_chat_read_content(const struct sw_chat_template *chat, size_t i, const json_t *value,
                             bool refuses, size_t *bytes, struct sw_error *err)
{
    struct sw_chars text = {0};
    json_t *made = NULL;
    *bytes += json_string_length(value);
    if (json_is_string(value) ||
        (sw_chat_template_is_own(chat) && (value == NULL || json_is_null(value))))
        return value != NULL ? json_incref((json_t *)value) : json_null();
    if (!json_is_array(value))
        return sw_fail(err, SW_BAD_INPUT, "message %zu: 'content' must be a string", i + 1), NULL;
    int status = sw_chars_add(&text, "", 0) == 0 ? 0 : out_of_memory(err);
    for (size_t p = 0; status == 0 && p < json_array_size(value); p++)
        status = read_part(i, p, json_array_get(value, p), refuses, &text, err);
    if (status == 0) {
        *bytes += text.count;
        made = sw_chat_template_takes_parts(chat) ? json_incref((json_t *)value)
                                                  : json_stringn(text.byte, text.count);
        if (made == NULL)
            (void)out_of_memory(err);
    }
    sw_chars_free(&text);
    return made;
}

json_t *sw_chat_read_calls(const json_t *value)
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

static bool has_members(const json_t *value)
{
    return json_is_array(value) && json_array_size(value) > 0;
}

/* Converts message i for the template; other members are shared with `value`. */
static json_t *read_message(const struct sw_chat_template *chat, size_t i, const json_t *value,
                            size_t *bytes, struct sw_error *err)
{
    const json_t *content = json_object_get(value, "content");
    const json_t *calls = json_object_get(value, "tool_calls");
    const bool calls_tools = has_members(calls);
    if (!sw_json_is_object(value))
        return sw_fail(err, SW_BAD_INPUT,
                       "message %zu is no object; write {\"role\": ..., "
                       "\"content\": ...}",
                       i + 1),
               NULL;
    if (!json_is_string(json_object_get(value, "role")))
        return sw_fail(err, SW_BAD_INPUT, "message %zu has no 'role' that is a string", i + 1),
               NULL;
    if ((content == NULL || json_is_null(content)) && !calls_tools)
        return sw_fail(err, SW_BAD_INPUT, "message %zu has no 'content'", i + 1), NULL;
    json_t *message = json_copy((json_t *)value);
    json_t *read = message == NULL || content == NULL
                       ? NULL
                       : sw_chat_read_content(chat, i, content, false, bytes, err);
    int status = message == NULL ? out_of_memory(err) : content != NULL && read == NULL ? -1 : 0;
    if (read != NULL && json_object_set_new(message, "content", read) != 0)
        status = out_of_memory(err);
    if (status == 0 && calls_tools &&
        json_object_set_new(message, "tool_calls", sw_chat_read_calls(calls)) != 0)
        status = out_of_memory(err);
    if (status == 0)
        return message;
    json_decref(message);
    return NULL;
}

json_t *sw_chat_read_messages(const struct sw_chat_template *chat, const json_t *value,
                              size_t *bytes, struct sw_error *err)
{
    const size_t count = json_array_size(value);
    if (count == 0)
        return sw_fail(err, SW_BAD_INPUT, "'messages' must be a list of one or more messages"),
               NULL;
    json_t *messages = json_array();
    for (size_t i = 0; i < count; i++) {
        json_t *message = read_message(chat, i, json_array_get(value, i), bytes, err);
        if (message == NULL || json_array_append_new(messages, message) != 0) {
            if (message != NULL)
                (void)out_of_memory(err);
            json_decref(messages);
            return NULL;
        }
    }
    if (messages == NULL)
        (void)out_of_memory(err);
    return messages;
}

int sw_chat_read_tools(const struct sw_chat_template *chat, const json_t *value, json_t **tools,
                       struct sw_error *err)
{
    *tools = NULL;
    if (value == NULL || json_is_null(value) ||
        (json_is_string(value) && json_string_length(value) == 0))
        return 0;
    json_t *list = json_is_string(value)
                       ? sw_json_load(json_string_value(value), json_string_length(value), 0, NULL)
                       : json_incref((json_t *)value);
    bool objects = json_is_array(list);
    for (size_t i = 0; i < json_array_size(list); i++)
        objects = objects && sw_json_is_object(json_array_get(list, i));
    const bool any = has_members(list);
    if (objects && any && sw_chat_template_is_own(chat) && sw_chat_template_mentions(chat, "tools"))
        *tools = list;
    else
        json_decref(list);
    if (!objects)
        return sw_fail(err, SW_BAD_INPUT, "'tools' must be a list of objects");
    return !any || *tools != NULL
               ? 0
               : sw_fail(err, SW_BAD_INPUT, "the chat template writes no 'tools'; leave it out");
}

const char *sw_chat_template_by_tokens(const struct sw_tokenizer *t)
{
    static const char *const names[] = {"llama-3", "chatml"};
    static const char *const tokens[] = {"<|start_header_id|>", "<|im_start|>"};
    const char *found = NULL;
    for (size_t i = 0; t != NULL && i < sizeof names / sizeof names[0]; i++)
        if (sw_tokenizer_is_special(t, sw_tokenizer_id(t, tokens[i], strlen(tokens[i])))) {
            if (found != NULL)
                return NULL;
            found = names[i];
        }
    return found;
}
