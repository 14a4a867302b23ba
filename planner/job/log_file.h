/* The log file of a run's job. */
#ifndef SW_JOB_LOG_FILE_H
#define SW_JOB_LOG_FILE_H

#include <limits.h>
#include <stdbool.h>

/* Stands in a path for the index of any task of an array; paths never contain it. */
enum { SW_LOG_ANY_TASK = '\x01' };

/* The path for a pattern of the scheduler's --output: %j and %A the job's number, %a the task's in
 * an array ("": any), %x its name, %% a %. Other letters, and "\\" at the beginning, stay
 * unchanged. */
void sw_log_expand(const char *pattern, const char *job, const char *task, const char *name,
                   char out[PATH_MAX]);

/* The newest file of the job: the one named, or one beside it whose name continues the stem with
 * something other than a digit and has the same ending ("slurm-42.out", "slurm-42.2.out"); for any
 * task the newest. false: none yet. */
bool sw_log_find(const char *path, char out[PATH_MAX]);

#endif
