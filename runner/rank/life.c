#include "runner/rank/life.h"

#include "core/base/clock.h"
#include "core/run/attempt.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { POLL_NS = 500000000, LEAVE_SECONDS = 3 };
static const double same_seconds = 1; /* signals within this time count as one */

enum phase { PHASE_STARTING, PHASE_ARMED, PHASE_SETTLED };

struct sw_life {
    pthread_t thread;
    sigset_t waited;
    pthread_mutex_t mutex; /* guards all below */
    bool stopping;
    enum phase phase;
    int checkpoint_signal;
    double user_at[2];   /* times of USR1 and USR2; 0: none */
    double interrupt_at; /* time of the first INT */
    double terminate_at; /* time of the first TERM or HUP */
    bool hung_up;        /* true if that was HUP */
    bool hurried;        /* true after a second one with hooks.finishes */
    struct sw_life_hooks hooks;
};

static const int user_signals[2] = {SIGUSR1, SIGUSR2};

int sw_request_exit_code(enum sw_request request)
{
    switch (request) {
    case SW_REQUEST_REQUEUE:
        return SW_VERDICT_REQUEUE;
    case SW_REQUEST_INTERRUPT:
        return SW_VERDICT_INTERRUPTED;
    case SW_REQUEST_TERMINATE:
        return SW_VERDICT_TERMINATED;
    case SW_REQUEST_NONE:
        break;
    }
    return SW_VERDICT_DONE;
}

static bool is_ignored(int number)
{
    struct sigaction action;
    return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

int32_t sw_life_signals(int numbers[8])
{
    int32_t count = 0;
    numbers[count++] = SIGINT;
    numbers[count++] = SIGTERM;
    numbers[count++] = SIGUSR1;
    numbers[count++] = SIGUSR2;
    if (!is_ignored(SIGHUP))
        numbers[count++] = SIGHUP;
    return count;
}

/* ---- What was asked; the mutex is held ---- */

static enum sw_request asked(const struct sw_life *life, double *at)
{
    const double user = life->user_at[life->checkpoint_signal == SIGUSR2];
    *at = life->terminate_at;
    if (*at > 0)
        return SW_REQUEST_TERMINATE;
    *at = life->interrupt_at;
    if (*at > 0)
        return SW_REQUEST_INTERRUPT;
    *at = user;
    return user > 0 ? SW_REQUEST_REQUEUE : SW_REQUEST_NONE;
}

/* Records a signal; true for a second INT or TERM. */
static bool note(struct sw_life *life, int number)
{
    const double now = sw_clock_now();
    for (int32_t i = 0; i < 2; i++)
        if (number == user_signals[i]) {
            if (life->user_at[i] <= 0)
                life->user_at[i] = now;
            return false;
        }
    const bool interrupt = number == SIGINT || number == SW_LIFE_PASSED_INT;
    double *at = interrupt ? &life->interrupt_at : &life->terminate_at;
    const double other = interrupt ? life->terminate_at : life->interrupt_at;
    const double first = *at > 0 && (other <= 0 || *at < other) ? *at : other;
    if (*at <= 0) {
        *at = now;
        life->hung_up = number == SIGHUP;
    }
    return first > 0 && now - first >= same_seconds;
}

/* ---- The thread ---- */

static void *leave_anyway(void *request)
{
    (void)sleep(LEAVE_SECONDS);
    _exit(sw_request_exit_code((enum sw_request)(intptr_t)request));
    return NULL;
}

/* Exits later in any case, even if a file system hangs or a client does not read. */
static bool leave_soon(enum sw_request request)
{
    pthread_t thread;
    return pthread_create(&thread, NULL, leave_anyway, (void *)(intptr_t)request) == 0 &&
           pthread_detach(thread) == 0;
}

static void leave_at_once(struct sw_life_hooks hooks, enum sw_request request)
{
    if (hooks.leave != NULL && leave_soon(request))
        hooks.leave(hooks.context, request);
    _exit(sw_request_exit_code(request));
}

/* Second signal with hooks.finishes: tells the process once. */
static void hurry(struct sw_life *life, enum sw_request request)
{
    pthread_mutex_lock(&life->mutex);
    const bool told = life->hurried;
    life->hurried = true;
    pthread_mutex_unlock(&life->mutex);
    if (!told && !leave_soon(request))
        _exit(sw_request_exit_code(request));
}

static void *wait_for_signals(void *argument)
{
    struct sw_life *life = argument;
    const struct timespec poll = {0, POLL_NS};
    for (;;) {
        double at;
        pthread_mutex_lock(&life->mutex);
        const bool pending = life->phase == PHASE_ARMED && asked(life, &at) > SW_REQUEST_REQUEUE;
        pthread_mutex_unlock(&life->mutex);
        siginfo_t info;
        const int number =
            pending ? sigtimedwait(&life->waited, &info, &poll) : sigwaitinfo(&life->waited, &info);
        pthread_mutex_lock(&life->mutex);
        const bool stopping = life->stopping;
        const enum sw_request before = asked(life, &at);
        const bool second = !stopping && number > 0 && note(life, number);
        const enum sw_request request = asked(life, &at);
        const enum phase phase = life->phase;
        const struct sw_life_hooks hooks = life->hooks;
        pthread_mutex_unlock(&life->mutex);
        if (stopping)
            return NULL;
        if (phase == PHASE_STARTING && request > SW_REQUEST_REQUEUE)
            _exit(sw_request_exit_code(request));
        if (phase == PHASE_ARMED && before <= SW_REQUEST_REQUEUE && request > SW_REQUEST_REQUEUE &&
            hooks.heard != NULL)
            hooks.heard(hooks.context, request);
        if (phase == PHASE_ARMED && second && hooks.finishes)
            hurry(life, request);
        else if (phase == PHASE_ARMED && second)
            leave_at_once(hooks, request);
        if (phase == PHASE_ARMED && request > SW_REQUEST_REQUEUE && hooks.is_over != NULL &&
            hooks.is_over(hooks.context))
            _exit(sw_request_exit_code(request));
    }
}

int sw_life_begin(struct sw_life **out, struct sw_error *err)
{
    int numbers[8];
    const int32_t count = sw_life_signals(numbers);
    struct sw_life *life = calloc(1, sizeof *life);
    if (life == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the signals' thread");
    life->checkpoint_signal = SIGUSR1;
    sigemptyset(&life->waited);
    for (int32_t i = 0; i < count; i++)
        sigaddset(&life->waited, numbers[i]);
    sigaddset(&life->waited, SW_LIFE_PASSED_TERM);
    sigaddset(&life->waited, SW_LIFE_PASSED_INT);
    (void)signal(SIGPIPE, SIG_IGN); /* a closed standard error must not end the run */
    int failure = pthread_sigmask(SIG_BLOCK, &life->waited, NULL);
    if (failure == 0)
        failure = pthread_mutex_init(&life->mutex, NULL);
    if (failure == 0) {
        failure = pthread_create(&life->thread, NULL, wait_for_signals, life);
        if (failure != 0)
            pthread_mutex_destroy(&life->mutex);
    }
    if (failure != 0) {
        free(life);
        return sw_fail(err, SW_ENVIRONMENT, "cannot start the signals' thread: %s",
                       strerror(failure));
    }
    *out = life;
    return 0;
}

void sw_life_set_checkpoint_signal(struct sw_life *life, int number)
{
    pthread_mutex_lock(&life->mutex);
    life->checkpoint_signal = number;
    pthread_mutex_unlock(&life->mutex);
}

static void set_phase(struct sw_life *life, enum phase phase, const struct sw_life_hooks *hooks)
{
    pthread_mutex_lock(&life->mutex);
    life->phase = phase;
    if (hooks != NULL)
        life->hooks = *hooks;
    pthread_mutex_unlock(&life->mutex);
}

void sw_life_arm(struct sw_life *life, const struct sw_life_hooks *hooks)
{
    set_phase(life, PHASE_ARMED, hooks);
}

void sw_life_disarm(struct sw_life *life)
{
    set_phase(life, PHASE_SETTLED, NULL);
}

static enum sw_request ask(const struct sw_life *life, double *at)
{
    pthread_mutex_t *mutex = (pthread_mutex_t *)&life->mutex;
    pthread_mutex_lock(mutex);
    const enum sw_request request = asked(life, at);
    pthread_mutex_unlock(mutex);
    return request;
}

enum sw_request sw_life_requested(const struct sw_life *life)
{
    double at;
    return ask(life, &at);
}

double sw_life_requested_at(const struct sw_life *life)
{
    double at;
    (void)ask(life, &at);
    return at;
}

bool sw_life_hung_up(const struct sw_life *life)
{
    pthread_mutex_t *mutex = (pthread_mutex_t *)&life->mutex;
    pthread_mutex_lock(mutex);
    const bool hung_up = life->hung_up;
    pthread_mutex_unlock(mutex);
    return hung_up;
}

bool sw_life_hurried(const struct sw_life *life)
{
    pthread_mutex_t *mutex = (pthread_mutex_t *)&life->mutex;
    pthread_mutex_lock(mutex);
    const bool hurried = life->hurried;
    pthread_mutex_unlock(mutex);
    return hurried;
}

void sw_life_end(struct sw_life *life)
{
    if (life == NULL)
        return;
    pthread_mutex_lock(&life->mutex);
    life->stopping = true;
    pthread_mutex_unlock(&life->mutex);
    (void)pthread_kill(life->thread, SW_LIFE_PASSED_INT); /* wakes the waiting thread */
    pthread_join(life->thread, NULL);
    pthread_mutex_destroy(&life->mutex);
    free(life);
}
