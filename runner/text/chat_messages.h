/* Converts messages to a chat template's input, for server requests and training data. Errors:
 * SW_BAD_INPUT, with the message's number; SW_ENVIRONMENT, out of memory. */
#ifndef SW_CHAT_MESSAGES_H
#define SW_CHAT_MESSAGES_H

#include "runner/text/chat.h"

/* Content of message i (from 0): a text, or text parts, joined if the template takes no parts.
 * value NULL: absent, null to a model's own template. refuses: true if a part may only have the
 * keys "type" and "text". Adds the text's bytes to *bytes. Returns a new value, NULL: refused. */
json_t *sw_chat_read_content(const struct sw_chat_template *chat, size_t i, const json_t *value,
                             bool refuses, size_t *bytes, struct sw_error *err);
/* Tool calls with arguments as objects, for templates; the API has them as texts. Returns a new
 * value; NULL: no memory. */
json_t *sw_chat_read_calls(const json_t *value);

/* Messages of a line of training data. Keys other than role, content and tool_calls reach the
 * template unchanged. A message has a content or tool_calls. Adds the bytes of all contents to
 * *bytes. Returns a new list, NULL: refused. */
json_t *sw_chat_read_messages(const struct sw_chat_template *chat, const json_t *value,
                              size_t *bytes, struct sw_error *err);
/* Tools of a line: a list of objects, or its text, if the template names tools; NULL, null and
 * empty: none. Returns a new list in *tools (NULL: none). */
int sw_chat_read_tools(const struct sw_chat_template *chat, const json_t *value, json_t **tools,
                       struct sw_error *err);

/* Name of our template whose special tokens the tokenizer (may be NULL) has; NULL: none or
 * several. */
const char *sw_chat_template_by_tokens(const struct sw_tokenizer *t);

#endif
