/* Answers as OpenAI's API writes them: whole, as events of a stream, and errors. */
#ifndef SW_SERVE_ANSWER_H
#define SW_SERVE_ANSWER_H

#include "runner/serve/completion.h"

struct sw_answerer {
    const struct sw_codec *codec;
    const char *model;
};

/* All add to *out, and return -1 when memory runs out. */

/* The whole answer of a completion whose texts have ended. */
int sw_answer_whole(const struct sw_answerer *a, const struct sw_completion *completion,
                    struct sw_chars *out);
/* What is new of a text; nothing, when nothing is. */
int sw_answer_chunk(const struct sw_answerer *a, const struct sw_completion *completion,
                    struct sw_completion_sequence *sequence, struct sw_chars *out);
/* The end of a stream whose texts have ended. */
int sw_answer_done(const struct sw_answerer *a, const struct sw_completion *completion,
                   struct sw_chars *out);
/* {"error": {...}}; stream: as an event, and the end of it. */
int sw_answer_error(const struct sw_refusal *refusal, bool stream, struct sw_chars *out);
/* /v1/models and, of the one model, /v1/models/NAME; created: seconds since 1970, max_tokens: how
 * long a text may get. */
int sw_answer_model(const struct sw_answerer *a, int64_t created, int64_t max_tokens,
                    struct sw_chars *out);
int sw_answer_models(const struct sw_answerer *a, int64_t created, int64_t max_tokens,
                     struct sw_chars *out);

#endif
