/* `runner score --texts --against`: how far log-probabilities are from those that an earlier
 * command wrote, with --logprobs, of the same texts: what another precision, serve.weights or
 * serve.cache costs. Owns an open file; of rank 0. */
#ifndef SW_LOGPROB_DIFF_H
#define SW_LOGPROB_DIFF_H

#include "core/base/error.h"

#include <stdint.h>
#include <stdio.h>

struct sw_logprob_diff {
    const char *path;
    FILE *file;
    char *line;
    size_t room;
    int64_t number; /* of the line at hand, from 1 */
    /* of all log-probabilities so far */
    int64_t tokens;
    double sum, other_sum; /* ours, theirs */
    double apart;          /* sum of |ours - theirs| */
    double most;           /* the largest of these, and where */
    int64_t most_text, most_token;
};

/* Errors: SW_BAD_INPUT at the file, or SW_ENVIRONMENT: it cannot be read. */
int sw_logprob_diff_open(struct sw_logprob_diff *diff, const char *path, struct sw_error *err);
void sw_logprob_diff_close(struct sw_logprob_diff *diff); /* also a zeroed one */

/* The next text, in ascending order of `index`: logprobs [count], of tokens from the second on.
 * Errors: SW_BAD_INPUT at a line of the file that is no such text's; SW_ENVIRONMENT. */
int sw_logprob_diff_take(struct sw_logprob_diff *diff, int64_t index, const float *logprobs,
                         int64_t count, struct sw_error *err);

/* A line for people. */
void sw_logprob_diff_say(FILE *out, const struct sw_logprob_diff *diff);

#endif
