/* Token options of a request: stop tokens, biases, and the ban of end tokens. Part of request.h's
 * parsing. Errors: SW_BAD_INPUT, a mistake in the key. */
#ifndef SW_SERVE_REQUEST_TOKENS_H
#define SW_SERVE_REQUEST_TOKENS_H

#include "runner/serve/request.h"

#include <jansson.h>

/* Whole number >= 0, also written 2.0; -1: not one. */
json_int_t sw_request_whole(const json_t *value);
/* Reads stop_token_ids, a list of tokens. */
int sw_request_read_stop_tokens(const struct sw_request_rules *rules, const json_t *value,
                                struct sw_api_request *out, struct sw_error *err);
/* Reads logit_bias, an object {"TOKEN": NUMBER, ...}. */
int sw_request_read_biases(const struct sw_request_rules *rules, const json_t *value,
                           struct sw_biases *out, struct sw_error *err);
/* With params.min_new_tokens, bans every end token until that length. Refuses a request whose
 * prompts leave too little room for that. */
int sw_request_ban_ends(const struct sw_request_rules *rules, struct sw_api_request *request,
                        struct sw_error *err);

#endif
