/* Messages of a conversation as a chat template takes them: what requests to a server and lines of
 * training data share. Errors are SW_BAD_INPUT, which name the message by its number, and
 * SW_ENVIRONMENT, out of memory. */
#ifndef SW_CHAT_MESSAGES_H
#define SW_CHAT_MESSAGES_H

#include "runner/text/chat.h"

/* Content of message i (from 0): a text, or parts that are texts, as one text where the template
 * takes no parts. value may be NULL: there is none, which a model's own template sees as null.
 * refuses: a part may have no more keys than "type" and "text". Adds the bytes of the text to
 * *bytes. Returns a new value, NULL: refused. */
json_t *sw_chat_read_content(const struct sw_chat_template *chat, size_t i, const json_t *value,
                             bool refuses, size_t *bytes, struct sw_error *err);
/* The calls of tools with their arguments as objects, which templates write; the API has them as
 * texts. Returns a new value; NULL: no memory. */
json_t *sw_chat_read_calls(const json_t *value);

/* Messages of a line of training data. Keys other than role, content and tool_calls reach the
 * template as they are. A message has a content, or tool_calls. Adds the bytes of all contents to
 * *bytes. Returns a new list, NULL: refused. */
json_t *sw_chat_read_messages(const struct sw_chat_template *chat, const json_t *value,
                              size_t *bytes, struct sw_error *err);
/* Tools of a line: a list of objects that the template names, or a text of one; NULL, null and what
 * is empty: none. Returns a new list in *tools (NULL: none). */
int sw_chat_read_tools(const struct sw_chat_template *chat, const json_t *value, json_t **tools,
                       struct sw_error *err);

/* Name of the template of ours whose special tokens the tokenizer (may be NULL) has; NULL: of none
 * or several. */
const char *sw_chat_template_by_tokens(const struct sw_tokenizer *t);

#endif
