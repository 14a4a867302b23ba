#include "runner/generate/generation.h"

#include <stdlib.h>
#include <string.h>

int sw_generation_begin(struct sw_generation *m, struct sw_codec *codec,
                        const struct sw_stops *stops, int32_t top, const int32_t *prompt,
                        int64_t prompt_count, struct sw_error *err)
{
    *m = (struct sw_generation){.stops = stops, .end = -1, .top = top, .stop_at = SIZE_MAX};
    if (sw_detokenizer_new(codec, prompt_count == 0, &m->detokenizer, err) != 0)
        return -1;
    for (int64_t i = 0; i < prompt_count; i++)
        if (sw_detokenizer_feed(m->detokenizer, prompt[i], err) != 0)
            return -1;
    return 0;
}

static int grow(struct sw_generation *m)
{
    const int64_t wanted = m->capacity > 0 ? m->capacity * 2 : 64;
    int32_t *tokens = realloc(m->tokens, (size_t)wanted * sizeof *tokens);
    m->tokens = tokens != NULL ? tokens : m->tokens;
    double *logprobs = realloc(m->logprobs, (size_t)wanted * sizeof *logprobs);
    m->logprobs = logprobs != NULL ? logprobs : m->logprobs;
    size_t *begins = realloc(m->begins, (size_t)wanted * sizeof *begins);
    m->begins = begins != NULL ? begins : m->begins;
    if (tokens == NULL || logprobs == NULL || begins == NULL)
        return -1;
    if (m->top > 0) {
        const size_t all = (size_t)wanted * (size_t)m->top;
        int32_t *top_tokens = realloc(m->top_tokens, all * sizeof *top_tokens);
        m->top_tokens = top_tokens != NULL ? top_tokens : m->top_tokens;
        double *top_logprobs = realloc(m->top_logprobs, all * sizeof *top_logprobs);
        m->top_logprobs = top_logprobs != NULL ? top_logprobs : m->top_logprobs;
        if (top_tokens == NULL || top_logprobs == NULL)
            return -1;
    }
    m->capacity = wanted;
    return 0;
}

/* Position of the first stop text; SIZE_MAX: none. `before`: bytes already searched. */
static size_t find_stop(const struct sw_stops *stops, const char *text, size_t bytes, size_t before)
{
    size_t first = SIZE_MAX;
    for (int32_t i = 0; i < stops->count; i++) {
        const size_t length = strlen(stops->text[i]);
        const size_t from = before + 1 > length ? before + 1 - length : 0;
        const char *at =
            from < bytes ? memmem(text + from, bytes - from, stops->text[i], length) : NULL;
        if (at != NULL && (size_t)(at - text) < first)
            first = (size_t)(at - text);
    }
    return first;
}

static bool ends_here(const struct sw_generation *m, const struct sw_codec *codec, int32_t token)
{
    for (int32_t i = 0; i < m->stop_token_count; i++)
        if (m->stop_token[i] == token)
            return true;
    return !m->ignores_ends && (token == m->end || sw_codec_ends(codec, token));
}

bool sw_generation_take(struct sw_generation *m, const struct sw_codec *codec, int32_t token,
                        double logprob, const struct sw_top *top, struct sw_error *err)
{
    size_t before, bytes;
    if (m->count >= m->min_tokens && ends_here(m, codec, token)) {
        m->reason = "stop";
        return false;
    }
    (void)sw_detokenizer_text(m->detokenizer, &before);
    if (m->count == m->capacity && grow(m) != 0) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory for a text");
        return false;
    }
    m->tokens[m->count] = token;
    m->logprobs[m->count] = logprob;
    for (int32_t i = 0; i < m->top; i++) {
        m->top_tokens[m->count * m->top + i] = i < top->count ? top->token[i] : -1;
        m->top_logprobs[m->count * m->top + i] = i < top->count ? top->logprob[i] : 0;
    }
    m->begins[m->count++] = before;
    if (sw_detokenizer_feed(m->detokenizer, token, err) != 0)
        return false;
    const char *spelled = sw_detokenizer_text(m->detokenizer, &bytes);
    /* searches only new text: not the prompt, nor across its end */
    const size_t own = m->begins[0];
    if (m->count < m->min_tokens)
        return true;
    m->stop_at = find_stop(m->stops, spelled + own, bytes - own, before - own);
    if (m->stop_at != SIZE_MAX) {
        m->stop_at += own;
        m->reason = "stop";
    }
    return m->reason == NULL;
}

void sw_generation_end(struct sw_generation *m, struct sw_error *err)
{
    (void)sw_detokenizer_finish(m->detokenizer, err);
    if (m->reason == NULL)
        m->reason = "length";
}

const char *sw_generation_text(const struct sw_generation *m, size_t *bytes)
{
    size_t longest = 1, all;
    const char *text = sw_detokenizer_text(m->detokenizer, &all);
    size_t until = all;
    for (int32_t i = 0; i < m->stops->count; i++)
        if (strlen(m->stops->text[i]) > longest)
            longest = strlen(m->stops->text[i]);
    if (m->reason == NULL)
        until = all > longest - 1 ? all - (longest - 1) : 0;
    until = until > m->stop_at ? m->stop_at : until;
    while (m->reason == NULL && until > 0 && until < all &&
           ((unsigned char)text[until] & 0xc0) == 0x80)
        until--;
    *bytes = until;
    return text;
}

void sw_generation_free(struct sw_generation *m)
{
    free(m->tokens);
    free(m->logprobs);
    free(m->top_tokens);
    free(m->top_logprobs);
    free(m->begins);
    sw_detokenizer_free(m->detokenizer);
    *m = (struct sw_generation){0};
}
