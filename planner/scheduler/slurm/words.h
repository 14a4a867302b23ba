/* Slurm's codes in words, with advice. Pure tables. */
#ifndef SW_SCHEDULER_SLURM_WORDS_H
#define SW_SCHEDULER_SLURM_WORDS_H

#include <stdbool.h>
#include <stdint.h>

/* Reason why a job waits, from Slurm's code ("Priority", "ReqNodeNotAvail, UnavailableNodes:n1").
 * An unknown code is returned unchanged. job: its number, for commands. never (may be NULL): true
 * if it cannot start without a change. Returns buffer. */
const char *sw_slurm_reason_words(const char *reason, const char *job, char *buffer, int32_t bytes,
                                  bool *never);

/* Meaning of Slurm's state of a job that is over; "": none. */
const char *sw_slurm_end_words(const char *state);
/* Setting that lets such a job end otherwise; "": none. */
const char *sw_slurm_end_advice(const char *state);

#endif
