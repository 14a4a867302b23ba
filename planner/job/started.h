/* What the script of a job that does not train tells in the run's folder: job.json, written when it
 * starts or, by a server, when it listens; job.ended, a line for each task that ended. */
#ifndef SW_JOB_STARTED_H
#define SW_JOB_STARTED_H

#include "core/run/submission.h"

struct sw_started {
    char type[16]; /* "generate", "score" or "serve"; "": there is no such file */
    char job[SW_JOB_ID_BYTES];
    char output[PATH_MAX];                /* generate, score */
    int32_t shards;                       /* parts of it */
    int64_t lines;                        /* that are to be written, at least; of the input */
    int64_t written;                      /* that are; -1: too many bytes to count */
    char host[256], token_file[PATH_MAX]; /* serve */
    int32_t port;
    int32_t ended;       /* tasks of the job that ended with exit code 0 */
    int32_t failed_task; /* -1: none; else one that ended with another one, */
    int32_t failed_code;
};

/* FOLDER/job.json and what it leads to; there is none, or it is broken: type "", with a note where
 * it is broken. */
void sw_started_read(const char *folder, struct sw_started *out, char note[256]);
/* What stands in the file, from memory. Returns what is wrong with it, NULL: nothing. */
const char *sw_started_parse(const char *text, size_t bytes, struct sw_started *out);
/* The ends of `out->job` in the text of job.ended: of a task, the last one counts. */
void sw_started_parse_ends(const char *text, struct sw_started *out);

#endif
