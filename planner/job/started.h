/* Files of a job that does not train, written by its script in the run's folder: job.json, when it
 * starts or, for a server, when it listens; job.ended, a line for each task that ended. */
#ifndef SW_JOB_STARTED_H
#define SW_JOB_STARTED_H

#include "core/run/submission.h"

struct sw_started {
    char type[16]; /* "generate", "score" or "serve"; "": no such file */
    char job[SW_JOB_ID_BYTES];
    char output[PATH_MAX];                /* generate, score */
    int32_t shards;                       /* parts of the output */
    int64_t lines;                        /* lines of the input: at least so many will be written */
    int64_t written;                      /* lines written; -1: too many bytes to count */
    char host[256], token_file[PATH_MAX]; /* serve */
    int32_t port;
    int32_t ended;       /* tasks of the job with exit code 0 */
    int32_t failed_task; /* -1: none; else a task with another exit code, */
    int32_t failed_code;
};

/* Reads FOLDER/job.json and the files that it names; missing or broken: type "", with a note if
 * broken. */
void sw_started_read(const char *folder, struct sw_started *out, char note[256]);
/* Parses the file's text. Returns its mistake, NULL: none. */
const char *sw_started_parse(const char *text, size_t bytes, struct sw_started *out);
/* Parses job.ended for `out->job`: the last end of each task counts. */
void sw_started_parse_ends(const char *text, struct sw_started *out);

#endif
