/* `plan logs`: the end of a job's output, and later lines, through requeues. */
#include "core/base/file.h"
#include "planner/command/command.h"
#include "planner/job/log_file.h"
#include "planner/job/owned.h"
#include "planner/job/show.h"
#include "planner/job/target.h"
#include "planner/job/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { DEFAULT_LINES = 20, BLOCK = 64 << 10 };

/* A log being printed. */
struct reader {
    char wanted[PATH_MAX], path[PATH_MAX]; /* path "": none yet */
    char task[16];                         /* task of an array; "": no array, or the newest */
    int file;
    int64_t lines; /* number of last lines to begin with */
};

/* Offset of the last lines. */
static off_t find_lines(int file, int64_t lines)
{
    char block[BLOCK];
    const off_t size = lseek(file, 0, SEEK_END);
    int64_t seen = 0;
    for (off_t end = size; end > 0 && size > 0;) {
        const off_t from = end > BLOCK ? end - BLOCK : 0;
        const ssize_t got = pread(file, block, (size_t)(end - from), from);
        if (got <= 0)
            return from;
        for (ssize_t i = got; i-- > 0;) {
            if (block[i] != '\n' || from + i == size - 1)
                continue;
            if (++seen == lines)
                return from + i + 1;
        }
        end = from;
    }
    return 0;
}

/* Stays with the log that was newest if several tasks print at the same time. */
static void stay_with_task(struct reader *r, const char *path)
{
    const char *any = strchr(r->wanted, SW_LOG_ANY_TASK);
    char pinned[PATH_MAX];
    if (any == NULL)
        return;
    const size_t before = (size_t)(any - r->wanted), digits = strspn(path + before, "0123456789");
    if (digits >= sizeof r->task ||
        snprintf(pinned, sizeof pinned, "%.*s%s", (int)(before + digits), path, any + 1) >=
            (int)sizeof pinned)
        return;
    memcpy(r->task, path + before, digits);
    r->task[digits] = '\0';
    memcpy(r->wanted, pinned, sizeof pinned);
    fprintf(stderr,
            "==> %s, the newest of an array; 'plan logs JOB_TASK' shows another task's <==\n",
            sw_path_name(path));
}

/* Opens the newest file, if it has changed. */
static int open_newest(struct reader *r, struct sw_error *err)
{
    char path[PATH_MAX];
    if (!sw_log_find(r->wanted, path) || strcmp(path, r->path) == 0)
        return 0;
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return sw_fail(err, SW_ENVIRONMENT, "cannot read %s: %s", path, strerror(errno));
    if (r->file >= 0) { /* an attempt with a log of its own */
        fprintf(stderr, "==> %s <==\n", sw_path_name(path));
        (void)close(r->file);
    } else {
        (void)lseek(file, r->lines > 0 ? find_lines(file, r->lines) : 0,
                    r->lines > 0 ? SEEK_SET : SEEK_END);
        stay_with_task(r, path);
    }
    r->file = file;
    memcpy(r->path, path, sizeof path);
    return 0;
}

/* Prints new text; true if there was any. */
static bool print_rest(struct reader *r)
{
    char block[BLOCK];
    ssize_t got;
    bool any = false;
    struct stat status;
    if (r->file < 0)
        return false;
    if (fstat(r->file, &status) == 0 && status.st_size < lseek(r->file, 0, SEEK_CUR))
        (void)lseek(r->file, 0, SEEK_SET); /* the file was rewritten */
    while ((got = read(r->file, block, sizeof block)) > 0) {
        any = true;
        if (fwrite(block, 1, (size_t)got, stdout) != (size_t)got)
            break;
    }
    fflush(stdout);
    return any;
}

static int follow(struct reader *r, struct sw_statuses *all, bool asked)
{
    struct sw_watch pace = {0};
    struct sw_error err = {0};
    enum sw_run_state told = SW_RUN_NONE;
    if (asked)
        sw_watch_begin_asked(&pace);
    for (;;) {
        if (sw_watch_look(&pace, all, &err) != 0 || open_newest(r, &err) != 0)
            return sw_command_fail(&err);
        const bool any = print_rest(r);
        const struct sw_run_status *s = &all->run[0];
        if (ferror(stdout))
            return SW_OK;
        if (!any && (sw_status_is_over(s) || (r->file < 0 && s->state != told))) {
            fputs("==> ", stderr);
            sw_show_line(stderr, s);
            fputs("\n", stderr);
            told = s->state;
        }
        if (!any && sw_status_is_over(s))
            return SW_OK;
        sw_watch_wait();
    }
}

static int fail_no_log(const struct sw_statuses *all, const struct reader *r)
{
    const struct sw_run_status *s = &all->run[0];
    struct sw_error err = {0};
    if (s->job_id[0] == '\0' && all->trouble.status != SW_OK)
        sw_fail_as(&err, &all->trouble);
    else if (s->state == SW_RUN_NONE)
        sw_fail(&err, SW_UNMET, "no job of this run was submitted yet: 'plan submit' does");
    else if (!s->is_queued)
        sw_fail(&err, SW_UNMET,
                "a run that mpirun started prints where it was started; there is no log file");
    else if (strchr(r->wanted, SW_LOG_ANY_TASK) != NULL)
        sw_fail(&err, SW_UNMET,
                "job %s has printed nothing yet (%s%s%.300s); its tasks' logs will be in %s",
                s->job_id, sw_run_state_name(s->state), s->words[0] != '\0' ? ": " : "", s->words,
                s->folder);
    else
        sw_fail(&err, SW_UNMET, "job %s has printed nothing yet (%s%s%.300s); its log will be %s",
                s->job_id, sw_run_state_name(s->state), s->words[0] != '\0' ? ": " : "", s->words,
                r->wanted);
    return sw_command_fail(&err);
}

/* Sets the path of the log, for the job in the folder's files, else the scheduler's job. */
static void want(struct reader *r, const struct sw_run_status *s, const char *job)
{
    const struct sw_submission *sub = &s->submission;
    char pattern[PATH_MAX], number[SW_JOB_ID_BYTES];
    /* a script submitted by hand prints to its usual file */
    if (sub->log[0] != '\0')
        snprintf(pattern, sizeof pattern, "%s", sub->log);
    else
        snprintf(pattern, sizeof pattern, "%.4000s/%s", s->folder,
                 s->started.shards > 1 ? s->scheduler->queue->log_of_task
                                       : s->scheduler->queue->log);
    snprintf(number, sizeof number, "%.*s",
             (int)(strstr(pattern, "%a") != NULL ? strcspn(job, "_") : strlen(job)), job);
    sw_log_expand(pattern, number, r->task, sw_show_name(s), r->wanted);
}

static int show(const struct sw_options *options, const struct sw_target *target,
                struct sw_statuses *all, struct reader *r)
{
    struct sw_error err = {0};
    const char *folder = target->folder;
    if (sw_statuses_read(&folder, 1, all, &err) != 0)
        return sw_command_fail(&err);
    struct sw_run_status *s = &all->run[0];
    const char *job = sw_owned_last(s);
    bool asked = false;
    s->told_steps = target->steps;
    s->queueless = target->queueless;
    r->lines = options->lines >= 0 ? options->lines : DEFAULT_LINES;
    want(r, s, job);
    if (job[0] != '\0' && open_newest(r, &err) != 0)
        return sw_command_fail(&err);
    if (r->file < 0) {
        asked = true;
        if (sw_statuses_ask(all, SW_WATCH_ASK_SECONDS, &err) != 0)
            return sw_command_fail(&err);
        if (s->job.id != NULL && !sw_job_id_is_of(s->job.id, job)) { /* submitted by hand */
            job = s->job.id;
            want(r, s, job);
            if (open_newest(r, &err) != 0)
                return sw_command_fail(&err);
        }
    }
    if (options->follow && job[0] != '\0')
        return follow(r, all, asked);
    if (r->file < 0)
        return fail_no_log(all, r);
    (void)print_rest(r);
    return SW_OK;
}

int sw_command_logs(const struct sw_options *options)
{
    struct sw_target *target = calloc(1, sizeof *target);
    struct reader *reader = calloc(1, sizeof *reader);
    struct sw_statuses all = {0};
    int status = SW_ENVIRONMENT;
    if (target != NULL && reader != NULL) {
        reader->file = -1;
        status = sw_target_find(options, target);
    }
    const char *name = status == SW_OK && options->file_count == 1 ? options->files[0] : "";
    const char *task = sw_job_id_is_valid(name) ? strchr(name, '_') : NULL;
    if (task != NULL)
        snprintf(reader->task, sizeof reader->task, "%s", task + 1);
    if (status == SW_OK)
        status = show(options, target, &all, reader);
    if (reader != NULL && reader->file >= 0)
        (void)close(reader->file);
    sw_statuses_free(&all);
    free(reader);
    free(target);
    return status;
}
