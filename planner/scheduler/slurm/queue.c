#include "planner/scheduler/slurm/queue.h"

#include "core/base/text.h"
#include "planner/scheduler/slurm/client.h"
#include "planner/scheduler/slurm/internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Columns end with a unit separator and lines with a record separator, since a job's name, comment
 * or folder may contain '|', spaces and newlines. */
#define UNIT "\x1f"
#define RECORD "\x1e"
enum { COLUMNS = 13, MOST_IDS_BYTES = 100 << 10 };

#define SQUEUE_COLUMNS                                                                             \
    "%i" UNIT "%T" UNIT "%r" UNIT "%D" UNIT "%S" UNIT "%e" UNIT "%V" UNIT "%M" UNIT "%l" UNIT      \
    "%N" UNIT "%k" UNIT "%o" UNIT "%Z"
static const char squeue_format[] = SQUEUE_COLUMNS RECORD;
/* The last column is the job's own number, on which another job may depend: a task of an array has
 * its own. */
static const char squeue_numbers[] = SQUEUE_COLUMNS UNIT "%A" RECORD;
/* sacct has a delimiter but no formats; none of these columns has a user's text. */
static const char sacct_format[] = "--format=JobID,State,NNodes,Start,End,Submit,Elapsed,"
                                   "Timelimit,NodeList";
enum { SACCT_COLUMNS = 9 };

/* ---- Reading ---- */

double sw_slurm_duration(const char *text)
{
    double part[3] = {0}, days = 0;
    int32_t parts = 0;
    if (strcmp(text, "UNLIMITED") == 0 || strcmp(text, "Partition_Limit") == 0)
        return INFINITY;
    const size_t length = strspn(text, "0123456789");
    if (length == 0 || length > 9)
        return -1;
    const bool has_days = text[length] == '-';
    if (has_days) {
        days = strtod(text, NULL);
        text += length + 1;
    }
    for (;;) {
        const size_t digits = strspn(text, "0123456789");
        if (digits == 0 || digits > 9 || parts == 3)
            return -1;
        part[parts++] = strtod(text, NULL);
        text += digits;
        if (*text == '.') /* sacct's fractions */
            text += 1 + strspn(text + 1, "0123456789");
        if (*text == '\0')
            break;
        if (*text++ != ':')
            return -1;
    }
    if (parts == 3 || has_days)
        return days * 86400 + part[0] * 3600 + part[1] * 60 + part[2];
    return parts == 2 ? part[0] * 60 + part[1] : part[0] * 60;
}

int64_t sw_slurm_moment(const char *text)
{
    struct tm tm = {.tm_isdst = -1};
    if (strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) == NULL)
        return 0;
    const time_t at = mktime(&tm);
    return at > 0 ? (int64_t)at : 0;
}

static bool is_one_of(const char *word, const char *const *words)
{
    for (; *words != NULL; words++)
        if (strcmp(word, *words) == 0)
            return true;
    return false;
}

void sw_slurm_judge_state(struct sw_queued_job *job)
{
    static const char *const over[] = {"COMPLETED",     "CANCELLED", "FAILED",    "TIMEOUT",
                                       "NODE_FAIL",     "PREEMPTED", "BOOT_FAIL", "DEADLINE",
                                       "OUT_OF_MEMORY", "REVOKED",   NULL};
    static const char *const runs[] = {"RUNNING",   "COMPLETING", "SUSPENDED", "SIGNALING",
                                       "STAGE_OUT", "STOPPED",    "RESIZING",  NULL};
    job->is_live = !is_one_of(job->state, over);
    job->is_running = is_one_of(job->state, runs);
}

/* Makes a text fit into one line; "(null)" and N/A are Slurm's words for nothing. */
static const char *told(char *text)
{
    sw_text_show(text);
    const char *const nothing[] = {"(null)", "N/A", "Unknown", "None assigned", "NONE", NULL};
    return is_one_of(text, nothing) ? "" : text;
}

static int32_t split(char *text, const char *separator, char **out, int32_t most)
{
    int32_t count = 0;
    for (;;) {
        char *end = strstr(text, separator);
        if (count == most)
            return most + 1;
        out[count++] = text;
        if (end == NULL)
            return count;
        *end = '\0';
        text = end + strlen(separator);
    }
}

/* "42", "42_3"; squeue also shows "42_[1-3]" for waiting tasks of an array, "42_[1,3,...]" if
 * long. */
static bool is_id(const char *text)
{
    const size_t digits = strspn(text, "0123456789");
    return text[0] >= '1' && text[0] <= '9' && digits <= SW_MOST_JOB_DIGITS &&
           strlen(text) < SW_SHOWN_JOB_BYTES && text[strspn(text, "0123456789_+[]-,:%.")] == '\0';
}

static bool is_number(const char *text)
{
    const size_t digits = strspn(text, "0123456789");
    return digits > 0 && digits <= SW_MOST_JOB_DIGITS && text[digits] == '\0';
}

static bool take_squeue(char *line, struct sw_queued_job *job)
{
    char *column[COLUMNS + 1];
    if (*line == '\n')
        line++;
    const int32_t columns = split(line, UNIT, column, COLUMNS + 1);
    if (columns < COLUMNS || columns > COLUMNS + 1 || !is_id(column[0]) ||
        (columns > COLUMNS && !is_number(column[COLUMNS])))
        return false;
    *job =
        (struct sw_queued_job){.id = column[0],
                               .number = strtoll(column[columns > COLUMNS ? COLUMNS : 0], NULL, 10),
                               .state = told(column[1]),
                               .reason = told(column[2]),
                               .node_count = strtoll(column[3], NULL, 10),
                               .starts_at = told(column[4]),
                               .ended_at = told(column[5]),
                               .submitted_at = told(column[6]),
                               .elapsed_seconds = sw_slurm_duration(column[7]),
                               .limit_seconds = sw_slurm_duration(column[8]),
                               .nodes = told(column[9]),
                               .comment = told(column[10]),
                               .command = told(column[11]),
                               .folder = told(column[12])};
    if (strcmp(job->reason, "None") == 0)
        job->reason = "";
    job->start = sw_slurm_moment(job->starts_at);
    sw_slurm_judge_state(job);
    return true;
}

static bool take_sacct(char *line, struct sw_queued_job *job)
{
    char *column[SACCT_COLUMNS];
    if (split(line, UNIT, column, SACCT_COLUMNS) != SACCT_COLUMNS || !is_id(column[0]))
        return false;
    column[1][strcspn(column[1], " ")] = '\0'; /* "CANCELLED by 1000" */
    *job = (struct sw_queued_job){.id = column[0],
                                  .number = strtoll(column[0], NULL, 10),
                                  .state = told(column[1]),
                                  .reason = "",
                                  .node_count = strtoll(column[2], NULL, 10),
                                  .starts_at = told(column[3]),
                                  .ended_at = told(column[4]),
                                  .submitted_at = told(column[5]),
                                  .elapsed_seconds = sw_slurm_duration(column[6]),
                                  .limit_seconds = sw_slurm_duration(column[7]),
                                  .nodes = told(column[8]),
                                  .comment = "",
                                  .command = "",
                                  .folder = ""};
    job->start = sw_slurm_moment(job->starts_at);
    sw_slurm_judge_state(job);
    return true;
}

static int parse(char *text, size_t bytes, const char *end_of_line,
                 bool (*take)(char *line, struct sw_queued_job *job), struct sw_queued_jobs *out,
                 struct sw_error *err)
{
    int32_t room = 0;
    *out = (struct sw_queued_jobs){.text = text};
    for (size_t i = 0; i < bytes; i++)
        if (text[i] == '\0')
            text[i] = '?';
    for (char *line = text, *end; (end = strstr(line, end_of_line)) != NULL;
         line = end + strlen(end_of_line)) {
        *end = '\0';
        if (out->count == room) {
            room = 2 * room + 16;
            struct sw_queued_job *grown = realloc(out->job, (size_t)room * sizeof *grown);
            if (grown == NULL)
                return sw_fail(err, SW_ENVIRONMENT, "out of memory for %d jobs", (int)room);
            out->job = grown;
        }
        if (take(line, &out->job[out->count]))
            out->count++;
    }
    return 0;
}

int sw_squeue_parse(char *text, size_t bytes, struct sw_queued_jobs *out, struct sw_error *err)
{
    return parse(text, bytes, RECORD, take_squeue, out, err);
}

int sw_sacct_parse(char *text, size_t bytes, struct sw_queued_jobs *out, struct sw_error *err)
{
    return parse(text, bytes, "\n", take_sacct, out, err);
}

/* ---- Asking ---- */

/* "PREFIX1,2,3" in malloc'ed memory; NULL: no memory. */
static char *join_ids(const char *prefix, const char *const *ids, int32_t count)
{
    size_t room = strlen(prefix) + 2, used;
    for (int32_t i = 0; i < count; i++)
        room += strlen(ids[i]) + 1;
    char *out = malloc(room);
    if (out == NULL)
        return NULL;
    used = (size_t)snprintf(out, room, "%s", prefix);
    for (int32_t i = 0; i < count; i++)
        used += (size_t)snprintf(out + used, room - used, "%s%s", i > 0 ? "," : "", ids[i]);
    return out;
}

static int fail_asked(const char *program, struct sw_process_result *result, double limit_seconds,
                      struct sw_queued_jobs *out, struct sw_error *err)
{
    const char *why = sw_process_complaint(result);
    out->no_cluster = !result->timed_out && strstr(why, "a configuration source") != NULL;
    if (out->no_cluster)
        return sw_slurm_complain(result, limit_seconds, err);
    if (result->timed_out)
        return sw_fail(err, SW_ENVIRONMENT,
                       "Slurm does not answer: %s took longer than %.0f s%s%.300s", program,
                       limit_seconds, why[0] != '\0' ? ": " : "", why);
    if (why[0] != '\0')
        return sw_fail(err, SW_ENVIRONMENT, "Slurm does not answer: %.300s", why);
    return sw_fail(err, SW_ENVIRONMENT, "%s ended with exit code %d and no word", program,
                   result->exit_code);
}

/* Asks squeue. which: option that narrows squeue's jobs; NULL: none. -a: without it squeue leaves
 * out jobs in hidden partitions, and in those of other groups. */
static int ask(const char *format, const char *which, double limit_seconds,
               struct sw_queued_jobs *out, struct sw_error *err)
{
    struct sw_process_result result = {0};
    const char *argv[] = {"squeue", "--noheader", "-a", "--states=all", "-o", format, which, NULL};
    int status = sw_slurm_process(argv, NULL, limit_seconds, &result, err);
    if (status == 0 && !result.timed_out && result.exit_code == 0) {
        status = sw_squeue_parse(result.out, result.out_bytes, out, err);
        result.out = NULL;
    } else if (status == 0 && (result.timed_out || result.diagnostics == NULL ||
                               strstr(result.diagnostics, "Invalid job id") == NULL)) {
        status = fail_asked("squeue", &result, limit_seconds, out, err);
    } /* if not, the only requested job is unknown */
    sw_process_free(&result);
    return status;
}

int sw_slurm_ask(const char *const *ids, int32_t count, double limit_seconds,
                 struct sw_queued_jobs *out, struct sw_error *err)
{
    *out = (struct sw_queued_jobs){0};
    char *which = ids == NULL ? strdup("--me") : join_ids("--jobs=", ids, count);
    if (which == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while asking squeue");
    /* too long for a command line: ask for all jobs of all users */
    const bool some = strlen(which) < MOST_IDS_BYTES;
    const int status = ask(squeue_format, some ? which : NULL, limit_seconds, out, err);
    free(which);
    return status;
}

int sw_slurm_ask_all(double limit_seconds, struct sw_queued_jobs *out, struct sw_error *err)
{
    *out = (struct sw_queued_jobs){0};
    return ask(squeue_numbers, "--all", limit_seconds, out, err);
}

int sw_slurm_ask_history(const char *const *ids, int32_t count, double limit_seconds,
                         struct sw_queued_jobs *out, struct sw_error *err)
{
    struct sw_process_result result = {0};
    *out = (struct sw_queued_jobs){0};
    if (count == 0 || !sw_process_exists("sacct"))
        return 0;
    char *which = join_ids("--jobs=", ids, count);
    if (which == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while asking sacct");
    const char *argv[] = {
        "sacct",      "--noheader", "--parsable2", "--allocations", "--delimiter=" UNIT,
        sacct_format, which,        NULL};
    int status = strlen(which) < MOST_IDS_BYTES
                     ? sw_slurm_process(argv, NULL, limit_seconds, &result, err)
                     : 0;
    if (status == 0 && !result.timed_out && result.exit_code == 0 && result.out != NULL) {
        status = sw_sacct_parse(result.out, result.out_bytes, out, err);
        result.out = NULL;
    }
    sw_process_free(&result);
    free(which);
    return status;
}
