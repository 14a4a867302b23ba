/* Slurm's codes in words that say what to do. Pure tables. */
#ifndef SW_SCHEDULER_SLURM_WORDS_H
#define SW_SCHEDULER_SLURM_WORDS_H

#include <stdbool.h>
#include <stdint.h>

/* Why a job waits, from Slurm's reason ("Priority", "ReqNodeNotAvail, UnavailableNodes:n1"). A
 * reason that is not known is shown as it is. job: its number, for commands. never (may be NULL):
 * true if it will not start unless something is changed. Returns buffer. */
const char *sw_slurm_reason_words(const char *reason, const char *job, char *buffer, int32_t bytes,
                                  bool *never);

/* What Slurm's state of a job that is over means; "" where it says nothing. */
const char *sw_slurm_end_words(const char *state);
/* The setting that lets such a job end otherwise; "": none does. */
const char *sw_slurm_end_advice(const char *state);

#endif
