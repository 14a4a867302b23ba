/* The ranks of a job: starts their launcher, and waits for its end, a signal or a timer. */
#include "planner/supervise/supervise_internal.h"

#include "core/base/clock.h"
#include "planner/command/process.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A scheduler sends its signals to the script as well as to the ranks: ranks hear them themselves,
 * or from here (sw_supervise_pass), and they must not end this process. */
static const int signals[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};

static sigset_t heard(void)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaddset(&set, signals[i]);
    return set;
}

void sw_supervise_listen(void)
{
    const sigset_t set = heard();
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        (void)signal(signals[i], SIG_DFL); /* an ignored signal would not be heard, and ranks
                                              would inherit that */
    sigprocmask(SIG_BLOCK, &set, NULL);
}

static void add_words(struct sw_argv *out, const struct sw_arguments_words *words)
{
    for (int32_t i = 0; i < words->count; i++)
        sw_argv_add(out, "%s", words->word[i]);
}

void sw_supervise_start(struct sw_supervisor *s, const struct sw_argv *words, bool filtered)
{
    const struct sw_supervise_settings *set = s->set;
    struct sw_supervised_ranks *r = &s->ranks;
    struct sw_allocation_start start = {.nodes = s->job.node_count - s->without.count,
                                        .ranks_per_node = set->ranks_per_node,
                                        .mpi = set->mpi,
                                        .without = s->without_list != NULL ? s->without_list : "",
                                        .used = &s->used,
                                        .again = s->again};
    struct sw_argv argv = {0};
    struct sw_error err = {0};
    int out = -1;
    if (s->arranged) {
        snprintf(s->order, sizeof s->order, "%s/ranks-%s.hosts", set->folder, s->job.id);
        start.order = s->order;
    }
    *r = (struct sw_supervised_ranks){.status = 127, .timer = INFINITY, .look = INFINITY};
    s->scheduler->start(&start, &argv);
    add_words(&argv, &set->options);
    add_words(&argv, &set->container);
    sw_argv_add(&argv, "%s", s->runner);
    sw_argv_add_all(&argv, words);
    int status = sw_argv_check(&argv, &err);
    if (status == 0 && filtered) {
        r->output = sw_output_begin(s->launcher, s->scheduler->lines, &out, &err);
        status = r->output == NULL ? -1 : 0;
    }
    fflush(stdout); /* not all streams: the thread waits with its own locked */
    if (status == 0)
        status = sw_process_start((const char *const *)argv.item, out, &r->process, &err);
    if (out >= 0)
        close(out);
    if (status != 0) {
        r->process = 0;
        (void)sw_supervise_fail(&err);
    }
    sw_argv_free(&argv);
}

bool sw_supervise_pass(const struct sw_supervisor *s, int heard)
{
    const int signal = s->scheduler->passed(s->set->mpi, heard);
    return signal != 0 && s->ranks.process > 0 && kill(s->ranks.process, signal) == 0;
}

/* Ends the wait for ranks that are over. */
static enum sw_supervise_event end(struct sw_supervisor *s)
{
    struct sw_supervised_ranks *r = &s->ranks;
    if (s->order[0] != '\0')
        (void)unlink(s->order);
    s->order[0] = '\0';
    sw_output_end(r->output);
    r->output = NULL;
    r->process = 0;
    return r->status == 0 ? SW_SUPERVISE_WELL_EVENT : SW_SUPERVISE_BADLY_EVENT;
}

enum sw_supervise_event sw_supervise_wait(struct sw_supervisor *s)
{
    enum { MOST_SECONDS = 3600 };
    struct sw_supervised_ranks *r = &s->ranks;
    const sigset_t set = heard();
    while (r->process > 0) {
        int status = 0;
        const pid_t ended = waitpid(r->process, &status, WNOHANG);
        if (ended == r->process || (ended < 0 && errno != EINTR)) {
            r->status = ended > 0 ? sw_process_code(status) : 127;
            break;
        }
        const double now = sw_clock_now();
        if (r->timer <= now)
            return SW_SUPERVISE_TIMER_EVENT;
        if (r->look <= now)
            return SW_SUPERVISE_LOOK_EVENT;
        const double wait = fmin(fmin(r->timer, r->look) - now, MOST_SECONDS);
        const struct timespec time = {(time_t)wait, (long)((wait - floor(wait)) * 1e9)};
        const int heard_now = sigtimedwait(&set, NULL, &time);
        if (heard_now == SIGUSR1)
            return SW_SUPERVISE_LIMIT_EVENT;
        if (heard_now > 0 && heard_now != SIGCHLD) {
            (void)sw_supervise_pass(s, heard_now);
            return SW_SUPERVISE_NOTED_EVENT;
        }
    }
    return end(s);
}
