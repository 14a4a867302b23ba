#include "runner/serve/request_tokens.h"

#include "core/base/text.h"
#include "runner/checkpoint/json_text.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_BYTES = 48, MOST_DIGITS = 9, MOST_BIAS = 100 };

json_int_t sw_request_whole(const json_t *value)
{
    const double number = json_is_real(value) ? json_real_value(value) : -1;
    if (json_is_integer(value))
        return json_integer_value(value) >= 0 ? json_integer_value(value) : -1;
    return number >= 0 && number <= 0x1p53 && number == floor(number) ? (json_int_t)number : -1;
}

int sw_request_read_stop_tokens(const struct sw_request_rules *rules, const json_t *value,
                                struct sw_api_request *out, struct sw_error *err)
{
    const size_t count = json_array_size(value);
    const int64_t vocab = rules->limits.vocab;
    if (!json_is_array(value) || count > SW_REQUEST_STOP_TOKENS)
        return sw_fail(err, SW_BAD_INPUT, "'stop_token_ids' is a list of at most %d tokens",
                       SW_REQUEST_STOP_TOKENS);
    for (size_t i = 0; i < count; i++) {
        const json_t *token = json_array_get(value, i);
        const json_int_t id = json_is_integer(token) ? json_integer_value(token) : -1;
        if (id < 0 || id >= vocab)
            return sw_fail(err, SW_BAD_INPUT,
                           "element %zu of 'stop_token_ids' is none of the model's %" PRId64
                           " tokens",
                           i, vocab);
        out->stop_token[i] = (int32_t)id;
    }
    out->stop_token_count = (int32_t)count;
    return 0;
}

/* Canonical decimal number, so that no token has two names; -1: not one. */
static int64_t token_of(const char *text)
{
    const size_t length = strlen(text);
    for (size_t i = 0; i < length; i++)
        if (!isdigit((unsigned char)text[i]))
            return -1;
    return length == 0 || length > MOST_DIGITS || (length > 1 && text[0] == '0') ? -1 : atoi(text);
}

int sw_request_read_biases(const struct sw_request_rules *rules, const json_t *value,
                           struct sw_biases *out, struct sw_error *err)
{
    const char *key;
    json_t *bias;
    char shown[SHOWN_BYTES + 4];
    if (!sw_json_is_object(value) || json_object_size(value) > SW_BIASED_TOKENS)
        return sw_fail(
            err, SW_BAD_INPUT,
            "'logit_bias' must be an object of at most %d tokens, as in {\"50256\": -100}",
            SW_BIASED_TOKENS);
    json_object_foreach((json_t *)value, key, bias)
    {
        const int64_t token = token_of(key);
        const double amount = json_number_value(bias);
        sw_text_shown(key, SHOWN_BYTES, shown);
        if (token < 0 || token >= rules->limits.vocab)
            return sw_fail(err, SW_BAD_INPUT,
                           "'logit_bias': '%s' is none of the model's %" PRId64 " tokens", shown,
                           rules->limits.vocab);
        if (!json_is_number(bias) || !(amount >= -MOST_BIAS && amount <= MOST_BIAS))
            return sw_fail(err, SW_BAD_INPUT,
                           "'logit_bias' of token '%s' must be a number from -%d to %d", shown,
                           MOST_BIAS, MOST_BIAS);
        out->token[out->count] = (int32_t)token;
        out->bias[out->count++] = (float)amount;
    }
    return 0;
}

/* New tokens that the longest prompt leaves room for. */
static int64_t room_of(const struct sw_request_rules *rules, const struct sw_api_request *request)
{
    int64_t room = request->params.max_new_tokens;
    for (int64_t i = 0; i < request->prompt_count; i++) {
        const int64_t left = rules->limits.max_tokens - request->prompt[i].count;
        room = left < room ? left : room;
    }
    return room;
}

int sw_request_ban_ends(const struct sw_request_rules *rules, struct sw_api_request *request,
                        struct sw_error *err)
{
    const int64_t wanted = request->params.min_new_tokens, room = room_of(rules, request);
    const int64_t vocab = rules->limits.vocab;
    struct sw_biases *biases = &request->biases;
    if (wanted == 0)
        return 0;
    if (wanted > room)
        return sw_fail(err, SW_BAD_INPUT,
                       "'min_tokens' is %" PRId64 ", but a sequence gets at most %" PRId64
                       " new tokens, by max_tokens and behind its prompt",
                       wanted, room);
    if (sw_biases_ban(biases, vocab, request->stop_token, (size_t)request->stop_token_count) &&
        (request->ignore_eos || (sw_biases_ban(biases, vocab, &request->end, 1) &&
                                 sw_biases_ban_ends(biases, vocab, rules->codec))))
        return 0;
    return sw_fail(err, SW_BAD_INPUT,
                   "'min_tokens' bans at most %d tokens, and more end a sequence here",
                   SW_BANNED_TOKENS);
}
