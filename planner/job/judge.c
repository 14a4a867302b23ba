#include "planner/job/judge.h"

#include "core/base/file.h"
#include "core/run/launcher.h"
#include "core/run/next.h"
#include "planner/command/format.h"
#include "planner/job/log_file.h"
#include "planner/job/owned.h"
#include "planner/job/show.h"
#include "planner/job/words.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Locks are renewed every 30 s, and stale after three missed renewals
 * (runner/checkpoint/lock.h). */
enum { STALE_SECONDS = 100, STEPS_TO_JUDGE = 3, SILENT_SECONDS = 20, SILENT_STEPS = 10 };
static const double band_unknown = 1.3; /* factor over a prediction without a band */

/* True if the process that holds the folder's lock lives, as far as visible from here. */
static bool lock_is_held(const char *folder)
{
    char *path = sw_path_join(folder, "lock"), *text = NULL, host[256];
    size_t bytes = 0;
    struct stat status;
    bool held = false;
    if (path != NULL && sw_file_read(path, true, 4096, &text, &bytes, &status) == 0 &&
        gethostname(host, sizeof host) == 0) {
        host[sizeof host - 1] = '\0';
        const char *there = strstr(text, "\nhost "), *pid = strstr(text, "\npid ");
        const size_t length = strlen(host);
        const bool here =
            there != NULL && strncmp(there + 6, host, length) == 0 && there[6 + length] == '\n';
        const long number = pid != NULL ? strtol(pid + 5, NULL, 10) : 0;
        held = time(NULL) - status.st_mtime < STALE_SECONDS &&
               !(here && number > 0 && kill((pid_t)number, 0) != 0 && errno == ESRCH);
    }
    free(text);
    free(path);
    return held;
}

/* True while a 'plan submit' works on the folder. */
static bool is_being_submitted(const char *folder)
{
    char *path = sw_path_join(folder, ".submission.lock");
    const int lock = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    const bool held = lock >= 0 && flock(lock, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (lock >= 0)
        (void)close(lock);
    free(path);
    return held;
}

/* ---- Phrases ---- */

static void say(struct sw_run_status *s, const char *words, const char *advice)
{
    snprintf(s->words, sizeof s->words, "%s", words);
    snprintf(s->advice, sizeof s->advice, "%s", advice);
}

static void say_of(struct sw_run_status *s, const char *advice, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void say_of(struct sw_run_status *s, const char *advice, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(s->words, sizeof s->words, format, arguments);
    va_end(arguments);
    snprintf(s->advice, sizeof s->advice, "%s", advice);
}

static void add_doubt(struct sw_run_status *s)
{
    const size_t used = strlen(s->words);
    snprintf(s->words + used, sizeof s->words - used, "; whether it continues %s does not say",
             s->scheduler->title);
}

bool sw_status_attempt_is_current(const struct sw_run_status *s)
{
    if (s->attempt.attempt == 0)
        return false;
    if (s->submission.token[0] == '\0')
        return true;
    if (s->submission.job_count > 0 && s->attempt.job[0] != '\0')
        for (int32_t i = 0; i < s->submission.job_count; i++)
            if (strcmp(s->submission.job[i], s->attempt.job) == 0)
                return true;
    return s->attempt.attempt >= s->submission.attempt;
}

/* True while its files are being written. */
static bool grows(const struct sw_run_status *s)
{
    const struct sw_progress *p = &s->progress;
    return p->steps_seen > 0 &&
           p->age_seconds < fmax(SILENT_SECONDS, SILENT_STEPS * p->step_seconds);
}

/* True if the script was killed, by the scheduler's state for a job whose script ended by a signal,
 * or whose log cannot be written. */
static bool script_was_killed(const struct sw_run_status *s)
{
    return s->job.id != NULL && !s->job.is_live && strcmp(s->job.reason, "JobLaunchFailure") == 0 &&
           strcmp(s->job.id, s->attempt.job) == 0 &&
           (s->attempt.verdict == SW_VERDICT_RUNNING ||
            s->attempt.verdict == SW_VERDICT_TERMINATED);
}

/* True if the script, or another job, may continue after this verdict. */
static bool may_go_on(const struct sw_statuses *all, const struct sw_run_status *s)
{
    return all->trouble.status != SW_OK && s->job.id == NULL && s->is_queued &&
           !sw_next_is_final(s->attempt.verdict);
}

/* Reason why the scheduler ended the ranks of its attempt, in words; "": not given. */
static const char *told_why(const struct sw_run_status *s)
{
    const bool says = s->job.id != NULL && !s->job.is_live &&
                      strcmp(s->job.id, s->attempt.job) == 0 && strcmp(s->job.state, "FAILED") != 0;
    return says ? s->scheduler->queue->end_words(s->job.state) : "";
}

/* Prepends the setting that would let the job end otherwise to the advice. */
static void add_end_advice(struct sw_run_status *s)
{
    const char *setting = s->job.id != NULL ? s->scheduler->queue->end_advice(s->job.state) : "";
    char advice[SW_STATUS_WORDS];
    if (setting[0] == '\0')
        return;
    snprintf(advice, sizeof advice, "%s%s%.500s", setting, s->advice[0] != '\0' ? "; " : "",
             s->advice);
    memcpy(s->advice, advice, sizeof advice);
}

static void judge_verdict(const struct sw_statuses *all, struct sw_run_status *s)
{
    const int32_t verdict = s->attempt.verdict;
    const bool stopped = verdict == SW_VERDICT_REQUEUE || verdict == SW_VERDICT_INTERRUPTED ||
                         verdict == SW_VERDICT_TERMINATED;
    s->state = verdict == SW_VERDICT_DONE ? SW_RUN_DONE : stopped ? SW_RUN_STOPPED : SW_RUN_FAILED;
    const bool told = verdict == SW_VERDICT_TERMINATED && told_why(s)[0] != '\0';
    const char *why = told ? told_why(s) : sw_verdict_words(verdict);
    if (verdict != SW_VERDICT_DONE)
        snprintf(s->words, sizeof s->words, "%s%s%.500s", why,
                 s->attempt.cause[0] != '\0' ? ": " : "", s->attempt.cause);
    if (may_go_on(all, s)) {
        s->state = SW_RUN_UNKNOWN;
        add_doubt(s);
        return;
    }
    sw_verdict_advice(verdict, s->is_queued, s->is_queued ? s->scheduler->queue->exclude : NULL,
                      s->advice, sizeof s->advice);
    if (told)
        add_end_advice(s);
    if (script_was_killed(s)) {
        s->state = SW_RUN_FAILED;
        snprintf(s->words, sizeof s->words,
                 "its job's script was killed, so that %s ended the ranks: %.500s",
                 s->scheduler->title, s->attempt.cause);
    }
}

bool sw_status_does_steps(const struct sw_run_status *s)
{
    return s->job.id != NULL && sw_status_attempt_is_current(s) &&
           s->attempt.verdict == SW_VERDICT_RUNNING && strcmp(s->attempt.job, s->job.id) == 0;
}

/* The smallest number of nodes with a plan beside that for `most`: STEM.3.plan.yaml beside
 * STEM.4.plan.yaml. `most`: not elastic. */
static int32_t fewest_nodes(const char *plan, int32_t most)
{
    char end[48], stem[PATH_MAX], path[PATH_MAX + 48];
    const int length = snprintf(end, sizeof end, ".%d.plan.yaml", (int)most);
    const size_t whole = strlen(plan);
    int32_t fewest = most;
    if (whole <= (size_t)length || strcmp(plan + whole - (size_t)length, end) != 0)
        return most;
    snprintf(stem, sizeof stem, "%.*s", (int)(whole - (size_t)length), plan);
    do
        snprintf(path, sizeof path, "%s.%d.plan.yaml", stem, (int)--fewest);
    while (fewest > 0 && access(path, F_OK) == 0);
    return fewest + 1;
}

/* Advises fewer tasks for a job that its scheduler requeued, as after its first node died: it may
 * ask for as many tasks as before, so an elastic run would wait for the node. */
static void advise_fewer(struct sw_run_status *s)
{
    const struct sw_submission *sub = &s->submission;
    char command[128];
    if (s->attempt.attempt == 0 || sub->nodes < 1)
        return;
    const int32_t fewest = fewest_nodes(sub->plan, sub->nodes);
    if (fewest < sub->nodes && s->job.node_count > fewest &&
        s->scheduler->queue->ask_fewer != NULL &&
        s->scheduler->queue->ask_fewer(&s->job, sub->ranks / sub->nodes * fewest, command,
                                       sizeof command))
        snprintf(s->advice, sizeof s->advice, "'%s' lets it continue with %d nodes", command,
                 (int)fewest);
}

/* Work of the run's job, by its record. */
static const char *work_of(const struct sw_run_status *s)
{
    return s->submission.token[0] != '\0' && s->submission.steps == 0 ? "make texts" : "train";
}

/* Seconds from the job's last start to the end of its last attempt; NAN: unknown. Clocks of files
 * and of the scheduler may differ a little. */
static double attempt_after_start(const struct sw_run_status *s)
{
    struct tm tm = {.tm_isdst = -1};
    if (s->job.id == NULL || s->attempt_at <= 0 || strcmp(s->attempt.job, s->job.id) != 0 ||
        strptime(s->job.starts_at, "%Y-%m-%dT%H:%M:%S", &tm) == NULL)
        return NAN;
    return difftime(s->attempt_at, mktime(&tm));
}

/* True if an attempt of this start of the job ended: its files are newer than the scheduler's
 * answer, or the scheduler is late to note the end. */
static bool attempt_ended(const struct sw_run_status *s)
{
    return strcmp(s->job.state, "RUNNING") == 0 && !sw_status_does_steps(s) &&
           (s->did_steps ||
            (sw_status_attempt_is_current(s) && s->attempt.verdict != SW_VERDICT_RUNNING &&
             attempt_after_start(s) >= 0));
}

/* A job may start its ranks again after any verdict that is not final. */
static void judge_ended_attempt(struct sw_run_status *s)
{
    const char *cause = s->attempt.cause;
    if (s->did_steps || sw_next_is_final(s->attempt.verdict) ||
        s->attempt.verdict == SW_VERDICT_REQUEUE) {
        s->state = SW_RUN_ENDING;
        say_of(s, "", "it has ended%s%.500s; its job is about to", cause[0] != '\0' ? ": " : "",
               cause);
    } else {
        s->state = SW_RUN_STARTING;
        say_of(s, "", "attempt %" PRId64 " ended%s%.500s; its job may start its ranks again",
               s->attempt.attempt, cause[0] != '\0' ? ": " : "", cause);
    }
}

static void judge_live_job(struct sw_run_status *s)
{
    const struct sw_queued_job *job = &s->job;
    char why[SW_STATUS_WORDS];
    const bool steps = sw_status_does_steps(s);
    const bool waits = strcmp(job->state, "PENDING") == 0;
    if (attempt_ended(s)) {
        judge_ended_attempt(s);
    } else if (strcmp(job->state, "RUNNING") == 0 || (waits && steps && !s->did_steps)) {
        s->state = steps ? SW_RUN_RUNNING : SW_RUN_STARTING;
        if (!steps)
            say_of(s, "", "its job has nodes, and has not begun to %s", work_of(s));
    } else if (strcmp(job->state, "COMPLETING") == 0) {
        s->state = SW_RUN_ENDING;
        say(s, "its job is releasing its nodes", "");
    } else if (strcmp(job->state, "SUSPENDED") == 0 || strcmp(job->state, "STOPPED") == 0) {
        s->state = SW_RUN_SUSPENDED;
        snprintf(s->words, sizeof s->words, "its job is suspended: '%s' lets it continue",
                 s->scheduler->queue->resume);
        s->advice[0] = '\0';
    } else if (strcmp(job->state, "CONFIGURING") == 0) {
        s->state = SW_RUN_STARTING;
        say(s, "its nodes are being prepared", "");
    } else {
        s->state = SW_RUN_PENDING;
        say(s,
            s->scheduler->queue->reason_words(job->reason, s->job_id, why, sizeof why,
                                              &s->never_starts),
            "");
        advise_fewer(s);
    }
}

/* The attempt ended without a verdict; the scheduler may know the cause. */
static void judge_lost(struct sw_run_status *s)
{
    const char *state = s->job.id != NULL ? s->job.state : "";
    const char *why = s->scheduler->queue->end_words(state);
    s->state = strcmp(state, "CANCELLED") == 0 ? SW_RUN_STOPPED
               : state[0] != '\0'              ? SW_RUN_FAILED
                                               : SW_RUN_LOST;
    if (script_was_killed(s))
        snprintf(s->words, sizeof s->words,
                 "its job's script was killed, so that %s ended the ranks", s->scheduler->title);
    else
        snprintf(s->words, sizeof s->words, "%s",
                 why[0] != '\0' ? why : "it ended abruptly, and no rank gave a reason");
    snprintf(s->advice, sizeof s->advice, "%s",
             s->is_queued ? "'plan submit' resumes from the last checkpoint"
                          : "starting it again resumes from the last checkpoint");
    add_end_advice(s);
}

/* Finds the newest launcher-JOB.*.log, which a supervised job keeps; "": none. */
static void find_launcher(const struct sw_run_status *s, char out[PATH_MAX + 300])
{
    char begin[64], path[PATH_MAX + 300];
    DIR *files = opendir(s->folder);
    const struct dirent *entry = NULL;
    struct stat status;
    time_t at = 0;
    const int length = snprintf(begin, sizeof begin, "launcher-%s.", s->job.id);
    out[0] = '\0';
    while (files != NULL && (entry = readdir(files)) != NULL) {
        snprintf(path, sizeof path, "%s/%s", s->folder, entry->d_name);
        if (strncmp(entry->d_name, begin, (size_t)length) != 0 || stat(path, &status) != 0 ||
            status.st_mtime < at)
            continue;
        at = status.st_mtime;
        memcpy(out, path, sizeof path);
    }
    if (files != NULL)
        (void)closedir(files);
}

/* Reads the launcher's word on the ranks' end: from that file or, if the job starts its ranks once,
 * from its log, if that is this job's alone. */
static void read_launcher(const struct sw_run_status *s, struct sw_launcher_word *out)
{
    const struct sw_allocation_ops *allocation = s->scheduler->allocation;
    const char *pattern = s->submission.log;
    char path[PATH_MAX + 300];
    find_launcher(s, path);
    if (path[0] == '\0' && strstr(pattern, "%j") != NULL)
        sw_log_expand(pattern, s->job.id, "", sw_show_name(s), path);
    sw_launcher_read(path, allocation != NULL ? allocation->lines : NULL, NULL, 0, out, NULL);
}

/* True if the job's last start is after the ranks' last verdict: they began no attempt. */
static bool ended_without_attempt(const struct sw_run_status *s)
{
    enum { CLOCKS_SECONDS = 5 };
    return s->job.id != NULL && !s->job.is_live && attempt_after_start(s) < -CLOCKS_SECONDS;
}

/* Checks the log's folder in the record, else in the run. */
static bool log_folder_is_good(const struct sw_run_status *s)
{
    char *folder = s->submission.log[0] != '\0' ? sw_path_folder(s->submission.log) : NULL;
    const bool good = access(folder != NULL ? folder : s->folder, W_OK | X_OK) == 0;
    free(folder);
    return good;
}

static void judge_job_without_attempt(struct sw_run_status *s)
{
    const char *end = s->scheduler->queue->end_words(s->job.state);
    s->state = strcmp(s->job.state, "CANCELLED") == 0 ? SW_RUN_STOPPED : SW_RUN_FAILED;
    if (strcmp(s->job.reason, "DependencyNeverSatisfied") == 0) {
        s->state = SW_RUN_FAILED;
        say(s, "it never began: the job that it depends on did not end as the dependency requires",
            "see how that one ended; 'plan submit' submits this one again");
        return;
    }
    if (strcmp(s->job.reason, "JobLaunchFailure") == 0 && log_folder_is_good(s)) {
        say_of(s, "'plan logs' may say why",
               "its job's script was killed, or %s could not start it", s->scheduler->title);
        return;
    }
    if (strcmp(s->job.reason, "JobLaunchFailure") == 0) {
        say_of(s, "make the folder writable, and submit again",
               "%s could not start it: the folder of its log is missing or cannot be written",
               s->scheduler->title);
        return;
    }
    struct sw_launcher_word word;
    read_launcher(s, &word);
    snprintf(s->words, sizeof s->words, "%s before %s%s%s", end[0] != '\0' ? end : "its job ended",
             s->attempt.attempt > 0 && strcmp(s->attempt.job, s->job_id) == 0 ? "it trained again"
                                                                              : "training began",
             word.text[0] != '\0' ? ": " : "", word.text);
    snprintf(s->advice, sizeof s->advice, "%s",
             s->state == SW_RUN_STOPPED ? "" : "'plan logs' says why");
    add_end_advice(s);
}

/* True if cancelled: ranks' reports about others that a cancel ended first are not the cause. */
static bool was_cancelled(const struct sw_run_status *s)
{
    return s->job.id != NULL && strcmp(s->job.state, "CANCELLED") == 0 &&
           strcmp(s->job.id, s->attempt.job) == 0 && s->attempt.verdict == SW_ENVIRONMENT;
}

static int32_t tasks_of(const struct sw_run_status *s)
{
    return strcmp(s->started.type, "serve") == 0 ? 1 : s->started.shards;
}

/* Judges a job that does not train, and is over. */
static void judge_ended_job(const struct sw_statuses *all, struct sw_run_status *s)
{
    const struct sw_started *st = &s->started;
    const bool serves = strcmp(st->type, "serve") == 0;
    const char *end = s->job.id != NULL ? s->scheduler->queue->end_words(s->job.state) : "";
    if (st->ended == tasks_of(s)) {
        s->state = SW_RUN_DONE;
        return;
    }
    s->state = SW_RUN_LOST;
    if (st->failed_task >= 0) {
        s->state = SW_RUN_FAILED;
        if (st->shards > 1)
            snprintf(s->words, sizeof s->words, "task %d of the array ended with exit code %d",
                     (int)st->failed_task, (int)st->failed_code);
        else
            snprintf(s->words, sizeof s->words, "it ended with exit code %d", (int)st->failed_code);
        if (all->trouble.status != SW_OK && s->job.id == NULL) {
            s->state = SW_RUN_UNKNOWN;
            add_doubt(s);
            return;
        }
    } else if (s->job.id != NULL) {
        s->state = strcmp(s->job.state, "CANCELLED") == 0 ? SW_RUN_STOPPED : SW_RUN_FAILED;
        snprintf(s->words, sizeof s->words, "%s", end[0] != '\0' ? end : "its job ended");
    } else if (all->trouble.status != SW_OK) {
        s->state = SW_RUN_UNKNOWN;
        say_of(s, "", "%s does not say whether its job still runs", s->scheduler->title);
        return;
    } else {
        say(s, "its job ended abruptly, or was cancelled", "");
    }
    snprintf(s->advice, sizeof s->advice, "%s",
             serves ? "'plan submit' starts it again; 'plan logs' says more"
                    : "'plan submit' resumes it and keeps the lines that are finished");
}

static void judge_started(const struct sw_statuses *all, struct sw_run_status *s)
{
    s->is_queued = true;
    if (s->job.id == NULL || !s->job.is_live) {
        judge_ended_job(all, s);
        return;
    }
    judge_live_job(s);
    if (strcmp(s->job.state, "RUNNING") == 0) {
        s->state = SW_RUN_RUNNING;
        say(s, "", "");
    }
}

/* Judges a submission whose job is unknown. */
static void judge_submitting(const struct sw_statuses *all, struct sw_run_status *s)
{
    const bool none = all->trouble.status == SW_OK && all->asked;
    s->state = SW_RUN_SUBMITTING;
    if (is_being_submitted(s->folder)) {
        say(s, "its submission is still running", "");
    } else if (none) {
        s->state = SW_RUN_NONE;
        say_of(s, "submit it again", "its submission did not finish, and %s has no job of it",
               s->scheduler->title);
    } else {
        say_of(s, "", "its submission did not finish, and %s does not say whether there is a job",
               s->scheduler->title);
    }
}

static void judge(const struct sw_statuses *all, struct sw_run_status *s)
{
    const bool current = sw_status_attempt_is_current(s);
    const bool ended = current && s->attempt.verdict != SW_VERDICT_RUNNING;
    say(s, "", "");
    s->never_starts = false;
    if (s->started.type[0] != '\0') {
        judge_started(all, s);
        return;
    }
    s->is_queued =
        s->job.id != NULL || (current ? s->attempt.job[0] != '\0' : s->submission.token[0] != '\0');
    if (s->job.id != NULL && s->job.is_live) {
        judge_live_job(s);
    } else if (s->submission.token[0] != '\0' && !s->submission.submitted && s->job.id == NULL &&
               !current) {
        judge_submitting(all, s);
    } else if (ended && ended_without_attempt(s)) {
        judge_job_without_attempt(s);
    } else if (ended && !was_cancelled(s)) {
        judge_verdict(all, s);
    } else if (s->is_queued && s->job.id != NULL) {
        if (current)
            judge_lost(s);
        else
            judge_job_without_attempt(s);
    } else if (s->is_queued && all->trouble.status != SW_OK) {
        s->state = current && grows(s) ? SW_RUN_RUNNING : SW_RUN_UNKNOWN;
        if (s->state == SW_RUN_UNKNOWN)
            say_of(s, "", "%s does not say whether its job still runs", s->scheduler->title);
    } else if (!s->is_queued && current && lock_is_held(s->inner)) {
        s->state = SW_RUN_RUNNING;
    } else if (current) {
        judge_lost(s);
    } else if (s->submission.job_count > 0) {
        s->state = SW_RUN_LOST;
        say_of(s, "'plan logs' may say why", "%s no longer knows its job, which never began to %s",
               s->scheduler->title, work_of(s));
    } else if (s->unreadable) {
        s->state = SW_RUN_UNKNOWN;
        say(s, "the record of its job cannot be read", "");
    } else if (all->trouble.status != SW_OK && all->count == 1) {
        s->state = SW_RUN_UNKNOWN;
        say_of(s, "", "there is no record of a job here, and %s does not say whether there is one",
               s->scheduler->title);
    } else {
        s->state = SW_RUN_NONE;
        say(s, "nothing was started here", "");
    }
}

static void judge_speed(struct sw_run_status *s)
{
    const struct sw_progress *p = &s->progress;
    const struct sw_submission *sub = &s->submission;
    const double planned =
        s->stages.count > 0 ? s->stages.stage[s->stage].step_seconds : sub->step_seconds;
    s->predicted = p->predicted_seconds > 0 ? p->predicted_seconds : planned;
    /* the band belongs to the submission's prediction */
    const bool same = sub->step_seconds > 0 && fabs(s->predicted / sub->step_seconds - 1) < 1e-3;
    s->low = same ? sub->low_seconds : 0;
    s->high = same ? sub->high_seconds : 0;
    const double most = s->high > 0 ? s->high : s->predicted * band_unknown;
    s->slower = s->predicted > 0 && p->steps_seen >= STEPS_TO_JUDGE && p->step_seconds > most;
}

/* Judges the time between two stages: one is done, the next has not begun, and no job will begin
 * it. */
static void judge_between(struct sw_run_status *s)
{
    if (s->stages.count == 0 || s->stage == 0 || s->attempt.attempt > 0 ||
        sw_run_state_is_live(s->state) || s->state == SW_RUN_UNKNOWN)
        return;
    char before[SW_STATUS_WORDS];
    snprintf(before, sizeof before, "%.500s", s->words);
    const bool told = before[0] != '\0' && s->state != SW_RUN_NONE;
    s->state = SW_RUN_STOPPED;
    say_of(s,
           s->is_queued ? "'plan submit' goes on with it"
                        : "starting the run again goes on with it",
           "stage '%s' is done, and '%s' was not begun%s%s", s->stages.stage[s->stage - 1].name,
           s->stages.stage[s->stage].name, told ? ": " : "", told ? before : "");
}

/* Predicted seconds of the stages after the current one. */
static double later_seconds(const struct sw_run_status *s)
{
    double sum = 0;
    for (int32_t i = s->stage + 1; i < s->stages.count; i++)
        sum += (double)(s->stages.stage[i].steps - s->stages.stage[i].first_step) *
               s->stages.stage[i].step_seconds;
    return sum;
}

/* Judges a run that stopped making progress: ranks find a node that does not answer, but only after
 * a while. */
static void judge_silence(struct sw_run_status *s)
{
    const struct sw_progress *p = &s->progress;
    char number[SW_FORMAT_BYTES];
    if (s->state != SW_RUN_RUNNING || p->steps_seen < STEPS_TO_JUDGE ||
        p->age_seconds < fmax(SILENT_SECONDS, SILENT_STEPS * p->step_seconds))
        return;
    snprintf(s->words, sizeof s->words, "it has finished no step for %s",
             sw_format_duration(p->age_seconds, number));
}

void sw_status_judge(const struct sw_statuses *all, struct sw_run_status *s)
{
    const struct sw_submission *sub = &s->submission;
    snprintf(s->job_id, sizeof s->job_id, "%.31s",
             s->job.id != NULL ? s->job.id : sw_owned_last(s));
    if (s->started.type[0] != '\0' || strchr(s->job_id, '[') != NULL)
        s->job_id[strcspn(s->job_id, "_")] = '\0'; /* an array is known by its number */
    judge(all, s);
    judge_between(s);
    judge_speed(s);
    judge_silence(s);
    s->attempt_number = s->attempt.attempt > 0 ? s->attempt.attempt : 0;
    if (!sw_status_attempt_is_current(s) && sub->token[0] != '\0')
        s->attempt_number = sub->attempt;
    s->step = s->progress.step > 0 ? s->progress.step : s->attempt.step;
    if (s->attempt.verdict != SW_VERDICT_RUNNING && s->attempt.attempt > 0)
        s->step = s->attempt.step; /* last known value */
    /* metrics.jsonl may have lost lines that a checkpoint is newer than */
    const int64_t kept = s->state == SW_RUN_RUNNING ? s->attempt.first_step : s->checkpoint_step;
    if (kept > s->step)
        s->step = kept;
    if (s->step != s->progress.step) /* the loss belongs to another step */
        s->progress.loss = NAN;
    s->steps = s->stages.count > 0 ? s->stages.stage[s->stage].steps
               : sub->steps > 0    ? sub->steps
                                   : s->told_steps;
    const double each = s->progress.step_seconds > 0 ? s->progress.step_seconds : s->predicted;
    s->left_seconds = s->steps > 0 && each > 0 && s->state != SW_RUN_DONE && s->step <= s->steps
                          ? (double)(s->steps - s->step) * each + later_seconds(s)
                          : -1;
}
