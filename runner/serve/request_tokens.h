/* What a request says of single tokens: how many, those that end a text, those that it wants more
 * or less, and how long it is to have none that ends it. Part of request.h's reading. Errors:
 * SW_BAD_INPUT, what is wrong with the key. */
#ifndef SW_SERVE_REQUEST_TOKENS_H
#define SW_SERVE_REQUEST_TOKENS_H

#include "runner/serve/request.h"

#include <jansson.h>

/* A whole number from 0, 2.0 as well as 2; -1: it is none. */
json_int_t sw_request_whole(const json_t *value);
/* stop_token_ids, a list of tokens. */
int sw_request_read_stop_tokens(const struct sw_request_rules *rules, const json_t *value,
                                struct sw_api_request *out, struct sw_error *err);
/* logit_bias, an object: {"TOKEN": NUMBER, ...}. */
int sw_request_read_biases(const struct sw_request_rules *rules, const json_t *value,
                           struct sw_biases *out, struct sw_error *err);
/* Of a request that is read: with params.min_new_tokens every token that would end a text is banned
 * until it has so many. It has room for them behind each prompt, or is refused. */
int sw_request_ban_ends(const struct sw_request_rules *rules, struct sw_api_request *request,
                        struct sw_error *err);

#endif
