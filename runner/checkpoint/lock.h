/* One job at a time writes to a run's folder: FOLDER/lock, held by rank 0's process from start to
 * end, renewed every 30 s by a thread.
 *
 * The file holds host, pid, start time of the pid, job id, attempt and a count of renewals, made by
 * link(2) of a file aside, so it works on NFS. It is taken over when the same job has a lower
 * attempt, when its pid is dead on this host, or when it was not renewed for three renewals (by
 * this host's clock, watching the content change: clocks of hosts may differ). */
#ifndef SW_CHECKPOINT_LOCK_H
#define SW_CHECKPOINT_LOCK_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct sw_lock;

enum { SW_LOCK_NOTE_BYTES = 1536 };

struct sw_lock_owner {
    char host[256], job[64]; /* job: SLURM_JOB_ID or "" */
    int64_t pid, attempt;
};

/* Makes the folder. note (may be NULL): one line when it was taken over from another, else "".
 * Errors: SW_ENVIRONMENT: held ("runs/x is in use by pid 17 on host n3 (job 42, attempt 1); wait
 * for it, or end it"), or it cannot be written. renew_s <= 0: 30. */
int sw_lock_take(const char *folder, const struct sw_lock_owner *me, double renew_s,
                 struct sw_lock **out, char note[SW_LOCK_NOTE_BYTES], struct sw_error *err);
/* Whether it is still ours; false after another job took it over (this one was thought dead). */
bool sw_lock_held(const struct sw_lock *lock);
void sw_lock_release(struct sw_lock *lock); /* may be NULL */

#endif
