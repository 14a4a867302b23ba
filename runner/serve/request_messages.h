/* Conversations in a request: messages in the chat template's form, tools, variables. Part of
 * request.h's parsing. Errors: SW_BAD_INPUT, a mistake in the key; SW_ENVIRONMENT, out of
 * memory. */
#ifndef SW_SERVE_REQUEST_MESSAGES_H
#define SW_SERVE_REQUEST_MESSAGES_H

#include "runner/serve/request.h"

#include <jansson.h>

/* Reads messages, a list of objects; refuses members that the template does not name. Returns a new
 * list and the bytes of all contents, or NULL. */
json_t *sw_request_read_messages(const struct sw_request_rules *rules, const json_t *value,
                                 size_t *bytes, struct sw_error *err);
/* Checks tools, a list of objects; the template must name them. */
int sw_request_check_tools(const struct sw_request_rules *rules, const json_t *value,
                           struct sw_error *err);
/* Checks chat_template_kwargs, an object of further variables that the template names. */
int sw_request_check_variables(const struct sw_request_rules *rules, const json_t *value,
                               struct sw_error *err);

#endif
