/* Which file a job of a run prints to. */
#ifndef SW_JOB_LOG_FILE_H
#define SW_JOB_LOG_FILE_H

#include <limits.h>
#include <stdbool.h>

/* Stands in a path for the index of any task of an array; no path has it. */
enum { SW_LOG_ANY_TASK = '\x01' };

/* The path that the scheduler makes of its --output's pattern: %j and %A the job's number, %a the
 * task's of an array ("": any), %x its name, %% a %. Others, and "\\" at the beginning of one, stay
 * as they are.
 */
void sw_log_expand(const char *pattern, const char *job, const char *task, const char *name,
                   char out[PATH_MAX]);

/* The newest file of the job: the one named, or one beside it whose name goes on behind the stem
 * with no digit and has the same ending ("slurm-42.out", "slurm-42.2.out"); of any task the newest.
 * false: there is none yet. */
bool sw_log_find(const char *path, char out[PATH_MAX]);

#endif
