/* Actions of each state for a training job. */
#include "planner/supervise/supervise_internal.h"

#include "core/base/clock.h"
#include "core/run/decide.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef enum sw_supervise_event event;

static event done(bool taken)
{
    return taken ? SW_SUPERVISE_DONE_EVENT : SW_SUPERVISE_REFUSED_EVENT;
}

/* ---- Decisions ---- */

/* false: no decision was possible. */
static bool decide(struct sw_supervisor *s, struct sw_decide_request *request, struct sw_next *next)
{
    const struct sw_supervise_settings *set = s->set;
    struct sw_error err = {0}, trouble;
    request->folder = s->folder;
    request->nodes_folder = set->folder;
    request->checkpoints = s->checkpoints;
    request->job = s->job.id;
    request->facts.restarts = s->job.restarts;
    request->facts.max_attempts = set->max_attempts;
    request->facts.how = set->how;
    request->facts.how_key = s->scheduler->continue_key;
    request->facts.link = set->link;
    if (sw_decide(request, next, s->excluded, &trouble, &err) != 0) {
        (void)sw_supervise_fail(&err);
        return false;
    }
    if (trouble.status != SW_OK)
        (void)sw_supervise_fail(&trouble);
    if (request->after && next->action != SW_NEXT_AGAIN)
        sw_supervise_end_time(s, next->code);
    if (next->reason[0] != '\0')
        fprintf(stderr, "%s\n", next->reason);
    sw_supervise_set_excluded(s);
    return true;
}

/* Ends after the stages of this job: those of the next script, if any, need a job of their own. */
static event move_on(struct sw_supervisor *s)
{
    s->code = s->set->next[0] != '\0' ? SW_ENVIRONMENT : 0; /* until that job is submitted */
    return s->set->next[0] != '\0' ? SW_SUPERVISE_MOVE_EVENT : SW_SUPERVISE_END_EVENT;
}

static event do_begin(struct sw_supervisor *s)
{
    struct sw_decide_request request = {.after = false};
    struct sw_next next;
    if (!sw_supervise_find_stage(s))
        return move_on(s);
    if (!decide(s, &request, &next) || next.action != SW_NEXT_END)
        return SW_SUPERVISE_GO_EVENT;
    s->code = next.code;
    return SW_SUPERVISE_END_EVENT;
}

static event do_decide(struct sw_supervisor *s)
{
    const char *dead[SW_ATTEMPT_NODES];
    struct sw_decide_request request = {.launcher = s->launcher,
                                        .launcher_before = s->launcher_before,
                                        .lines = s->scheduler->lines,
                                        .after = true};
    struct sw_next_facts *f = &request.facts;
    struct sw_next next;
    f->attempt_before = s->attempt_before;
    f->status = s->ranks.status;
    f->starts = s->starts;
    for (f->dead_count = 0; f->dead_count < s->dead.count && f->dead_count < SW_ATTEMPT_NODES;
         f->dead_count++)
        dead[f->dead_count] = s->dead.name[f->dead_count];
    f->dead = dead;
    f->hosts = (const char *const *)s->used.item;
    f->host_count = s->used.count;
    f->ranks_per_node = s->set->ranks_per_node;
    f->nodes = s->job.node_count - s->without.count;
    f->least = s->set->least;
    f->most = s->set->most;
    if (!decide(s, &request, &next)) {
        const struct sw_attempt attempt = sw_supervise_attempt(s);
        const bool told =
            attempt.attempt != s->attempt_before && attempt.verdict != SW_VERDICT_RUNNING;
        s->code = told ? attempt.verdict : s->ranks.status;
        return SW_SUPERVISE_END_EVENT;
    }
    s->code = next.code;
    switch (next.action) {
    case SW_NEXT_AGAIN:
        return SW_SUPERVISE_AGAIN_EVENT;
    case SW_NEXT_REQUEUE:
        return SW_SUPERVISE_ELSEWHERE_EVENT;
    default:
        if (next.code != SW_VERDICT_DONE || s->stages.count == 0)
            return SW_SUPERVISE_END_EVENT;
        return sw_supervise_next_stage(s) ? SW_SUPERVISE_AGAIN_EVENT : move_on(s);
    }
}

/* ---- Starts ---- */

/* Prepares a start: notes the attempts before it, and makes a file for launchers' output. */
static void prepare_start(struct sw_supervisor *s)
{
    s->attempt_before = sw_supervise_attempt(s).attempt;
    s->speed.began = time(NULL);
    memcpy(s->launcher_before, s->launcher, sizeof s->launcher);
    if (snprintf(s->launcher, sizeof s->launcher, "%s/launcher-%s.%" PRId64 ".%d.log",
                 s->set->folder, s->job.id, s->job.restarts + 1,
                 (int)++s->start_number) >= (int)sizeof s->launcher)
        s->launcher[0] = '\0';
}

static event do_choose(struct sw_supervisor *s)
{
    const bool there = sw_supervise_choose(s);
    if (there)
        prepare_start(s);
    return done(there);
}

static event do_choose_all(struct sw_supervisor *s)
{
    fprintf(
        stderr,
        "%s/excluded_nodes.jsonl names %s, and there is no plan for %d nodes: it continues with "
        "them\n",
        s->set->folder, s->without_list, (int)(s->job.node_count - s->without.count));
    s->excluded->count = 0;
    sw_supervise_set_excluded(s);
    return do_choose(s);
}

static event do_choose_again(struct sw_supervisor *s)
{
    const bool idle = sw_supervise_attempt(s).attempt == s->attempt_before;
    if (!sw_supervise_choose(s))
        return SW_SUPERVISE_REFUSED_EVENT;
    s->machine.facts &= ~(uint32_t)SW_SUPERVISE_IDLE;
    if (idle) {
        s->machine.facts |= SW_SUPERVISE_IDLE;
    } else {
        s->starts = 0;
        s->launcher[0] = '\0';
    }
    s->again = true;
    prepare_start(s);
    return SW_SUPERVISE_DONE_EVENT;
}

/* Adds the runner's arguments. --resume and --overwrite apply to a run's first attempt only: a
 * later one would delete its checkpoints, or go back behind it. */
static void add_arguments(const struct sw_supervisor *s, bool later, struct sw_argv *out)
{
    const struct sw_arguments_words *all = &s->set->arguments;
    for (int32_t i = 0; i < all->count; i++) {
        const char *word = all->word[i];
        if (later && sw_arguments_is(word, "--overwrite"))
            continue;
        if (later && sw_arguments_is(word, "--resume"))
            i += strchr(word, '=') == NULL; /* its value */
        else
            sw_argv_add(out, "%s", word);
    }
}

/* True if an attempt may have begun before this start. A requeued job or a link cannot know. */
static bool is_later(const struct sw_supervisor *s)
{
    return s->began || s->set->link || s->job.restarts > 0;
}

static void start(struct sw_supervisor *s, const char *word, const char *option)
{
    struct sw_argv words = {0};
    sw_argv_add(&words, "%s", word);
    sw_argv_add(&words, "%s", s->plan);
    sw_argv_add(&words, "--digest");
    sw_argv_add(&words, "%s", s->digest);
    if (option != NULL)
        sw_argv_add(&words, "%s", option);
    if (strcmp(word, "train") == 0)
        add_arguments(s, is_later(s), &words);
    sw_supervise_start(s, &words, true);
    sw_argv_free(&words);
}

/* Ends a start, successful or not. */
static void end_start(struct sw_supervisor *s)
{
    struct stat file;
    s->starts++;
    if (s->ranks.status == 0)
        (void)unlink(s->launcher);
    else if (stat(s->launcher, &file) == 0 && file.st_size > 0)
        fprintf(stderr, "what %s and Open MPI said of it is in %s\n",
                s->scheduler->starter(s->set->mpi), s->launcher);
}

static event do_preflight(struct sw_supervisor *s)
{
    if (s->ranks.process == 0)
        start(s, "preflight", strcmp(s->set->preflight, "full") == 0 ? "--full" : NULL);
    const event e = sw_supervise_wait(s);
    if (e == SW_SUPERVISE_WELL_EVENT)
        snprintf(s->tried, sizeof s->tried, "%d %s", (int)(s->job.node_count - s->without.count),
                 s->without_list != NULL ? s->without_list : "");
    else if (e == SW_SUPERVISE_BADLY_EVENT)
        end_start(s);
    return e == SW_SUPERVISE_LIMIT_EVENT ? SW_SUPERVISE_NOTED_EVENT : e;
}

/* A scheduler sends the checkpoint signal once, and only to running ranks: between two starts it is
 * lost. So it is sent from here when due, by "USR1@30" or "B:USR1@30". */
static int signal_of(const char *text, long *lead_s)
{
    char *end;
    if (strncmp(text, "B:", 2) == 0)
        text += 2;
    const int number = strncmp(text, "USR1@", 5) == 0   ? SIGUSR1
                       : strncmp(text, "USR2@", 5) == 0 ? SIGUSR2
                                                        : 0;
    *lead_s = number != 0 ? strtol(text + 5, &end, 10) : 0;
    return number != 0 && end > text + 5 && *end == '\0' ? number : 0;
}

static event do_train(struct sw_supervisor *s)
{
    long lead_s;
    if (s->ranks.process == 0) {
        start(s, "train", NULL);
        s->end = 0;
        if (signal_of(s->set->signal, &lead_s) != 0)
            s->ranks.timer = sw_clock_now();
        sw_supervise_prepare_speed(s);
    }
    event e = sw_supervise_wait(s);
    if (e == SW_SUPERVISE_WELL_EVENT || e == SW_SUPERVISE_BADLY_EVENT) {
        end_start(s);
        if (sw_supervise_attempt(s).attempt != s->attempt_before)
            s->began = true;
        else
            e = SW_SUPERVISE_BADLY_EVENT; /* the launcher's code for ranks that it lost */
    }
    if (e == SW_SUPERVISE_LIMIT_EVENT)
        (void)sw_supervise_pass(s, SIGUSR1);
    return e == SW_SUPERVISE_LIMIT_EVENT ? SW_SUPERVISE_NOTED_EVENT : e;
}

/* The limit may have been changed, so it is asked for again when the signal is due; otherwise the
 * controller is not asked. */
static event do_tick(struct sw_supervisor *s)
{
    enum { SILENT_SECONDS = 60 };
    long lead_s;
    time_t end;
    (void)signal_of(s->set->signal, &lead_s);
    if (s->scheduler->ends_at(s->job.itself, &end)) {
        s->end = end;
        if (end == 0) {
            s->ranks.timer = INFINITY;
            return SW_SUPERVISE_REFUSED_EVENT;
        }
    }
    if (s->end == 0) {
        s->ranks.timer = sw_clock_now() + SILENT_SECONDS * s->second;
        return SW_SUPERVISE_SILENT_EVENT;
    }
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const double left = (double)(s->end - lead_s - now.tv_sec) - (double)now.tv_nsec / 1e9;
    s->ranks.timer = left > 0 ? sw_clock_now() + left : INFINITY;
    return done(left <= 0);
}

static event do_remind(struct sw_supervisor *s)
{
    long lead_s;
    (void)kill(s->ranks.process, signal_of(s->set->signal, &lead_s));
    return SW_SUPERVISE_DONE_EVENT;
}

static event do_probe(struct sw_supervisor *s)
{
    sw_hosts_free(&s->dead);
    sw_supervise_probe(s);
    return done(s->dead.count > 0);
}

static event do_drop(struct sw_supervisor *s)
{
    sw_hosts_free(&s->dead);
    return SW_SUPERVISE_DONE_EVENT;
}

/* ---- The scheduler ---- */

event sw_supervise_ask(struct sw_supervisor *s)
{
    switch (s->scheduler->ask(s->job.itself, s->word)) {
    case SW_ALLOCATION_SILENT:
        return SW_SUPERVISE_SILENT_EVENT;
    case SW_ALLOCATION_RUNS:
        return SW_SUPERVISE_RUNS_EVENT;
    default:
        return SW_SUPERVISE_OVER_EVENT;
    }
}

event sw_supervise_requeue(struct sw_supervisor *s)
{
    return done(s->scheduler->requeue(s->job.itself, false));
}

static event do_hold(struct sw_supervisor *s)
{
    return done(s->scheduler->requeue(s->job.itself, true));
}

static event do_exclude(struct sw_supervisor *s)
{
    const struct sw_supervise_settings *set = s->set;
    return done(s->scheduler->exclude(s->job.itself, s->leave_out,
                                      set->elastic ? set->least * set->ranks_per_node : 0));
}

static event do_release(struct sw_supervisor *s)
{
    return done(s->scheduler->release(s->job.itself));
}

/* Records a link where 'plan status' and its like look. */
static void record_link(const struct sw_supervisor *s, const char *number)
{
    char path[PATH_MAX];
    FILE *out = snprintf(path, sizeof path, "%s/submission.jobs", s->set->folder) < (int)sizeof path
                    ? fopen(path, "ae")
                    : NULL;
    bool kept = out != NULL && fprintf(out, "%s\n", number) > 0;
    if (out != NULL)
        kept = fclose(out) == 0 && kept;
    if (!kept)
        fprintf(stderr, "cannot write %s: %s\n", path, strerror(errno));
}

static bool submit(struct sw_supervisor *s, const char *script,
                   char number[SW_ALLOCATION_WORD_BYTES])
{
    struct sw_argv words = {0};
    add_arguments(s, true, &words);
    const struct sw_arguments_words arguments = {(const char *const *)words.item, words.count};
    const bool taken =
        !words.failed && s->scheduler->submit(script, &arguments, s->job.itself,
                                              s->leave_out != NULL ? s->leave_out : "", number);
    sw_argv_free(&words);
    return taken;
}

static event do_submit(struct sw_supervisor *s)
{
    char number[SW_ALLOCATION_WORD_BYTES];
    if (!submit(s, s->set->script, number))
        return SW_SUPERVISE_REFUSED_EVENT;
    record_link(s, number);
    return SW_SUPERVISE_DONE_EVENT;
}

static event do_submit_stage(struct sw_supervisor *s)
{
    char number[SW_ALLOCATION_WORD_BYTES];
    if (!submit(s, s->set->next, number))
        return SW_SUPERVISE_REFUSED_EVENT;
    record_link(s, number);
    fprintf(stderr, "job %s trains the next stage when this one is over\n", number);
    s->code = 0;
    return SW_SUPERVISE_DONE_EVENT;
}

static event do_queue_link(struct sw_supervisor *s)
{
    if (!submit(s, s->set->script, s->link)) {
        s->link[0] = '\0';
        return SW_SUPERVISE_REFUSED_EVENT;
    }
    record_link(s, s->link);
    s->machine.facts |= SW_SUPERVISE_LINKED;
    return SW_SUPERVISE_DONE_EVENT;
}

static event do_follow(struct sw_supervisor *s)
{
    char word[SW_ALLOCATION_WORD_BYTES];
    switch (s->scheduler->ask(s->link, word)) {
    case SW_ALLOCATION_SILENT:
        return SW_SUPERVISE_SILENT_EVENT;
    case SW_ALLOCATION_CANCELLED:
        return SW_SUPERVISE_OVER_EVENT;
    default:
        return SW_SUPERVISE_RUNS_EVENT;
    }
}

static event do_exclude_link(struct sw_supervisor *s)
{
    return done(s->scheduler->exclude(s->link, s->leave_out, 0));
}

static event do_cancel_link(struct sw_supervisor *s)
{
    return done(s->scheduler->cancel(s->link));
}

/* ---- Reports ---- */

static event do_link_stays(struct sw_supervisor *s)
{
    fprintf(stderr, "job %s, the next link of the chain, continues, but %s does not keep it off ",
            s->link, s->scheduler->title);
    for (int32_t i = 0; i < s->excluded->count; i++)
        fprintf(stderr, "%s%s", i > 0 ? "," : "", s->excluded->node[i].node);
    fputc('\n', stderr);
    return SW_SUPERVISE_DONE_EVENT;
}

/* A planned end: the site need not count it as a failure; attempt.json has 75. */
static event do_follows(struct sw_supervisor *s)
{
    if (s->set->how == SW_CONTINUE_CHAIN && s->code == SW_VERDICT_REQUEUE)
        s->code = 0;
    return SW_SUPERVISE_DONE_EVENT;
}

static event do_end(struct sw_supervisor *s)
{
    (void)s;
    return SW_SUPERVISE_DONE_EVENT;
}

static event do_no_plan(struct sw_supervisor *s)
{
    char planned[32];
    const int32_t least = s->set->least, most = s->set->most;
    if (least == most)
        snprintf(planned, sizeof planned, "%d", (int)most);
    else
        snprintf(planned, sizeof planned, "%d-%d", (int)least, (int)most);
    fprintf(stderr, "there is no plan for %d nodes: '%s' was written for %s\n",
            (int)s->job.node_count, s->set->script, planned);
    s->code = SW_BAD_INPUT;
    return SW_SUPERVISE_DONE_EVENT;
}

static event do_not_asked(struct sw_supervisor *s)
{
    fprintf(stderr, "no other job is asked for: this one is %s, by a cancel or by %s itself\n",
            s->word, s->scheduler->title);
    return SW_SUPERVISE_DONE_EVENT;
}

static event do_not_answered(struct sw_supervisor *s)
{
    fprintf(stderr, "no other job follows: %s does not answer; 'plan submit' resumes it\n",
            s->scheduler->title);
    return SW_SUPERVISE_DONE_EVENT;
}

static event do_not_taken(struct sw_supervisor *s)
{
    fprintf(stderr,
            "no other job follows: %s takes neither a requeue nor a new one; 'plan submit' resumes "
            "it\n",
            s->scheduler->title);
    return SW_SUPERVISE_DONE_EVENT;
}

static event do_link_gone(struct sw_supervisor *s)
{
    fprintf(
        stderr,
        "no other job follows: the next link, job %s, was cancelled; 'plan submit' resumes it\n",
        s->link);
    return SW_SUPERVISE_DONE_EVENT;
}

const sw_supervise_do sw_supervise_training[SW_SUPERVISE_STATE_COUNT] = {
    [SW_SUPERVISE_BEGIN] = do_begin,
    [SW_SUPERVISE_QUEUE_LINK] = do_queue_link,
    [SW_SUPERVISE_CHOOSE] = do_choose,
    [SW_SUPERVISE_CHOOSE_ALL] = do_choose_all,
    [SW_SUPERVISE_PREFLIGHT] = do_preflight,
    [SW_SUPERVISE_TRAIN] = do_train,
    [SW_SUPERVISE_TICK] = do_tick,
    [SW_SUPERVISE_REMIND] = do_remind,
    [SW_SUPERVISE_SHRINK] = sw_supervise_shrink,
    [SW_SUPERVISE_PROBE] = do_probe,
    [SW_SUPERVISE_CONFIRM] = sw_supervise_ask,
    [SW_SUPERVISE_DROP] = do_drop,
    [SW_SUPERVISE_DECIDE] = do_decide,
    [SW_SUPERVISE_STAY] = sw_supervise_ask,
    [SW_SUPERVISE_CHOOSE_AGAIN] = do_choose_again,
    [SW_SUPERVISE_ASK] = sw_supervise_ask,
    [SW_SUPERVISE_REQUEUE] = sw_supervise_requeue,
    [SW_SUPERVISE_HOLD] = do_hold,
    [SW_SUPERVISE_EXCLUDE] = do_exclude,
    [SW_SUPERVISE_RELEASE] = do_release,
    [SW_SUPERVISE_ASK_ANEW] = sw_supervise_ask,
    [SW_SUPERVISE_SUBMIT] = do_submit,
    [SW_SUPERVISE_ASK_STAGE] = sw_supervise_ask,
    [SW_SUPERVISE_SUBMIT_STAGE] = do_submit_stage,
    [SW_SUPERVISE_FOLLOW] = do_follow,
    [SW_SUPERVISE_EXCLUDE_LINK] = do_exclude_link,
    [SW_SUPERVISE_CANCEL_LINK] = do_cancel_link,
    [SW_SUPERVISE_LINK_STAYS] = do_link_stays,
    [SW_SUPERVISE_FOLLOWS] = do_follows,
    [SW_SUPERVISE_ENDS] = do_end,
    [SW_SUPERVISE_NO_PLAN] = do_no_plan,
    [SW_SUPERVISE_NOT_ASKED] = do_not_asked,
    [SW_SUPERVISE_NOT_ANSWERED] = do_not_answered,
    [SW_SUPERVISE_NOT_TAKEN] = do_not_taken,
    [SW_SUPERVISE_LINK_GONE] = do_link_gone,
};
