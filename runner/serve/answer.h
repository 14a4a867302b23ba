/* Responses in the format of OpenAI's API: whole, as stream events, and errors. */
#ifndef SW_SERVE_ANSWER_H
#define SW_SERVE_ANSWER_H

#include "runner/serve/completion.h"

struct sw_answerer {
    const struct sw_codec *codec;
    const char *model;
};

/* Functions append to *out and return -1 if memory runs out. */

/* Writes the whole response of a completion whose sequences have ended. */
int sw_answer_whole(const struct sw_answerer *a, const struct sw_completion *completion,
                    struct sw_chars *out);
/* Writes a sequence's new text; nothing if there is none. */
int sw_answer_chunk(const struct sw_answerer *a, const struct sw_completion *completion,
                    struct sw_completion_sequence *sequence, struct sw_chars *out);
/* Writes the end of a stream whose sequences have ended. */
int sw_answer_done(const struct sw_answerer *a, const struct sw_completion *completion,
                   struct sw_chars *out);
/* Writes {"error": {...}}; stream: true for an event and the stream's end. */
int sw_answer_error(const struct sw_refusal *refusal, bool stream, struct sw_chars *out);
/* Writes /v1/models/NAME; below, /v1/models. created: seconds since 1970, max_tokens: longest
 * sequence. */
int sw_answer_model(const struct sw_answerer *a, int64_t created, int64_t max_tokens,
                    struct sw_chars *out);
int sw_answer_models(const struct sw_answerer *a, int64_t created, int64_t max_tokens,
                     struct sw_chars *out);

#endif
