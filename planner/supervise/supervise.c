#include "planner/supervise/supervise_internal.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { USUAL_PAUSE_SECONDS = 10 };

/* False if there is none here; a runner inside an image cannot be checked. */
static bool find_runner(struct sw_supervisor *s)
{
    const char *named = getenv("SHARDWRIGHT_RUNNER"), *inside = s->set->container_runner;
    if (named != NULL && named[0] != '\0')
        s->runner = named;
    else
        s->runner = inside[0] != '\0' ? inside : s->set->runner;
    if (strcmp(s->runner, inside) == 0 || access(s->runner, X_OK) == 0)
        return true;
    fprintf(stderr, "no runner at %s; set SHARDWRIGHT_RUNNER to its path on the nodes\n",
            s->runner);
    return false;
}

/* Seconds of a pause's second, so that tests need not wait. */
static double find_second(void)
{
    const char *text = getenv("SHARDWRIGHT_PAUSE_SECONDS");
    const double pause = text != NULL ? strtod(text, NULL) : 0;
    return pause > 0 && pause < 3600 ? pause / USUAL_PAUSE_SECONDS : 1;
}

static void rest(const struct sw_supervisor *s, int32_t seconds)
{
    const double wait = seconds * s->second;
    struct timespec left = {(time_t)wait, (long)((wait - floor(wait)) * 1e9)};
    while (nanosleep(&left, &left) != 0)
        ;
}

/* Ignores signals so that the last orders are carried out, whatever ends this job meanwhile: the
 * commands inherit it. Later states start no ranks. */
static void ignore_signals(enum sw_supervise_state state)
{
    static const int ignored[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};
    if (state != SW_SUPERVISE_ASK && state != SW_SUPERVISE_ASK_STAGE &&
        state != SW_SUPERVISE_FOLLOW && state != SW_SUPERVISE_CANCEL_LINK &&
        state != SW_SUPERVISE_ASK_TEXTS)
        return;
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        (void)signal(ignored[i], SIG_IGN);
}

static void live(struct sw_supervisor *s, const sw_supervise_do *doing)
{
    for (;;) {
        const enum sw_supervise_state state = s->machine.state;
        if (doing[state] == NULL)
            return;
        ignore_signals(state);
        const enum sw_supervise_event event = doing[state](s);
        if (sw_transitions_is_end(state))
            return;
        const int32_t pause = sw_transitions_step(&s->machine, event);
        if (pause > 0)
            rest(s, pause);
    }
}

int sw_supervise(const struct sw_supervise_settings *set, const struct sw_allocation_ops *scheduler)
{
    struct sw_error err = {0};
    int code = SW_ENVIRONMENT;
    struct sw_supervisor *s = calloc(1, sizeof *s);
    if (s == NULL || (s->excluded = calloc(1, sizeof *s->excluded)) == NULL) {
        sw_fail(&err, SW_ENVIRONMENT, "out of memory");
        code = sw_supervise_fail(&err);
        goto out;
    }
    s->set = set;
    s->scheduler = scheduler;
    s->second = find_second();
    const bool trains = strcmp(set->job, "train") == 0;
    s->machine = (struct sw_supervise_machine){
        .state = trains ? SW_SUPERVISE_BEGIN : SW_SUPERVISE_TEXTS,
        .facts = set->how == SW_CONTINUE_CHAIN ? SW_SUPERVISE_CHAINS : 0,
        .patience = SW_SUPERVISE_PATIENCE};
    if (scheduler->find(&s->job, &err) != 0) {
        code = sw_supervise_fail(&err);
        goto out;
    }
    if (!find_runner(s))
        goto out;
    if (!sw_supervise_begin_stages(s)) {
        code = s->code;
        goto out;
    }
    sw_supervise_listen();
    if (trains)
        sw_supervise_begin_time(s);
    if (trains || sw_supervise_begin_texts(s))
        live(s, trains ? sw_supervise_training : sw_supervise_texts);
    code = s->code;
    if (trains)
        sw_supervise_end_time(s, code);
out:
    if (s != NULL) {
        sw_allocation_free(&s->job);
        sw_hosts_free(&s->dead);
        sw_argv_free(&s->used);
        sw_argv_free(&s->without);
        sw_supervise_free_stages(s);
        free(s->without_list);
        free(s->leave_out);
        free(s->excluded);
    }
    free(s);
    return code;
}
