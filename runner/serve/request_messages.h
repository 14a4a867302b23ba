/* What a request says of a conversation: messages as a chat template takes them, tools, variables.
 * Part of request.h's reading. Errors: SW_BAD_INPUT, what is wrong with the key; SW_ENVIRONMENT,
 * out of memory. */
#ifndef SW_SERVE_REQUEST_MESSAGES_H
#define SW_SERVE_REQUEST_MESSAGES_H

#include "runner/serve/request.h"

#include <jansson.h>

/* messages, a list of objects: each with what the template names of it, or one that it does not
 * name is refused. Returns a new list and the bytes of all contents, or NULL. */
json_t *sw_request_read_messages(const struct sw_request_rules *rules, const json_t *value,
                                 size_t *bytes, struct sw_error *err);
/* tools, a list of objects that the template names. */
int sw_request_check_tools(const struct sw_request_rules *rules, const json_t *value,
                           struct sw_error *err);
/* chat_template_kwargs, an object of more variables that the template names. */
int sw_request_check_variables(const struct sw_request_rules *rules, const json_t *value,
                               struct sw_error *err);

#endif
