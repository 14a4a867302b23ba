/* The runner's verdicts in words that say what to do. Pure tables. */
#ifndef SW_JOB_WORDS_H
#define SW_JOB_WORDS_H

#include <stdbool.h>
#include <stdint.h>

/* What a verdict of attempt.json means. */
const char *sw_verdict_words(int32_t verdict);
/* What to do about it, "": nothing; queued: it was a job; exclude: the setting that names nodes
 * which a job must not have, NULL: there is none. Returns buffer. */
const char *sw_verdict_advice(int32_t verdict, bool queued, const char *exclude, char *buffer,
                              int32_t bytes);

#endif
