/* Lock of a run's folder, for one writing job at a time: FOLDER/lock, held by rank 0's process from
 * start to end and renewed every 30 s by a thread.
 *
 * The file has host, pid, the pid's start time, job id, attempt and a count of renewals. It is
 * created with link(2), so it works on NFS. It is taken over if the same job has a lower attempt,
 * if its pid is dead on this host, or if it was not renewed for three periods (watching its content
 * by this host's clock, since clocks differ). */
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

/* Makes the folder. note (may be NULL): one line if taken over, else "". Errors: SW_ENVIRONMENT:
 * held ("runs/x is in use by pid 17 on host n3 (job 42, attempt 1); wait for it, or end it"), or
 * not writable. renew_s <= 0: 30. */
int sw_lock_take(const char *folder, const struct sw_lock_owner *me, double renew_s,
                 struct sw_lock **out, char note[SW_LOCK_NOTE_BYTES], struct sw_error *err);
/* True if the lock is still ours; false after another job believed this one dead and took it
 * over. */
bool sw_lock_held(const struct sw_lock *lock);
void sw_lock_release(struct sw_lock *lock); /* may be NULL */

#endif
