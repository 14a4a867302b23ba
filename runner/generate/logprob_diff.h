/* `runner score --texts --against`: differences of log-probabilities to an earlier command's
 * --logprobs of the same texts: the cost of another precision, serve.weights or serve.cache. Owns
 * an open file; on rank 0. */
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
    int64_t number; /* current line, from 1 */
    /* over all log-probabilities so far */
    int64_t tokens;
    double sum, other_sum; /* ours, theirs */
    double apart;          /* sum of |ours - theirs| */
    double most;           /* the largest difference, and its place */
    int64_t most_text, most_token;
};

/* Errors: SW_BAD_INPUT at the file, or SW_ENVIRONMENT: not readable. */
int sw_logprob_diff_open(struct sw_logprob_diff *diff, const char *path, struct sw_error *err);
void sw_logprob_diff_close(struct sw_logprob_diff *diff); /* may be zeroed */

/* Compares the next text, in ascending order of `index`: logprobs [count], from the second token.
 * Errors: SW_BAD_INPUT at a line that is not for this text; SW_ENVIRONMENT. */
int sw_logprob_diff_take(struct sw_logprob_diff *diff, int64_t index, const float *logprobs,
                         int64_t count, struct sw_error *err);

/* Prints a line for people. */
void sw_logprob_diff_say(FILE *out, const struct sw_logprob_diff *diff);

#endif
