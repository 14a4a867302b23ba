/* Slurm's codes in words that say what to do. Pure tables. */
#ifndef SW_SCHEDULER_SLURM_WORDS_H
#define SW_SCHEDULER_SLURM_WORDS_H

#include <stdbool.h>
#include <stdint.h>

/* Why a job waits, from Slurm's reason ("Priority", "ReqNodeNotAvail, UnavailableNodes:n1"). A
 * reason that is not known is shown as it is. never (may be NULL): it will not start unless
 * something is changed. Returns buffer. */
const char *sw_slurm_reason_words(const char *reason, char *buffer, int32_t bytes, bool *never);

/* What Slurm's state of a job that is over means; "" where it says nothing. */
const char *sw_slurm_end_words(const char *state);

#endif
