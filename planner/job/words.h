/* The runner's verdicts in words, with advice. Pure tables. */
#ifndef SW_JOB_WORDS_H
#define SW_JOB_WORDS_H

#include <stdbool.h>
#include <stdint.h>

/* Meaning of a verdict in attempt.json. */
const char *sw_verdict_words(int32_t verdict);
/* Advice for it, "": none; queued: true for a job; exclude: the setting that names nodes to avoid,
 * NULL: none. Returns buffer. */
const char *sw_verdict_advice(int32_t verdict, bool queued, const char *exclude, char *buffer,
                              int32_t bytes);

#endif
