/* Signals become requests. Each case is a process of its own: what a signal ends is its exit
 * code. */
#include "core/base/clock.h"
#include "runner/rank/life.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

enum { WRONG = 99 };

static void nap(double seconds)
{
    const struct timespec time = {(time_t)seconds, (long)((seconds - (long)seconds) * 1e9)};
    (void)nanosleep(&time, NULL);
}

/* In a process of its own: fails with WRONG. */
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            _exit(WRONG);                                                                          \
        }                                                                                          \
    } while (0)

static struct sw_life *begin(void)
{
    struct sw_life *life = NULL;
    CHECK(sw_life_begin(&life, NULL) == 0);
    return life;
}

/* What is asked within a second. */
static enum sw_request await(const struct sw_life *life, enum sw_request wanted)
{
    for (int32_t i = 0; i < 100 && sw_life_requested(life) != wanted; i++)
        nap(0.01);
    return sw_life_requested(life);
}

static int run(void (*body)(void))
{
    int status;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);
        body();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void strongest(void)
{
    struct sw_life *life = begin();
    const struct sw_life_hooks none = {0};
    const double before = sw_clock_now();
    CHECK(sw_life_requested(life) == SW_REQUEST_NONE);
    CHECK(sw_life_requested_at(life) == 0);
    sw_life_arm(life, &none);
    CHECK(kill(getpid(), SIGUSR2) == 0); /* not the checkpoint signal */
    nap(0.1);
    CHECK(sw_life_requested(life) == SW_REQUEST_NONE);
    CHECK(kill(getpid(), SIGUSR1) == 0);
    CHECK(await(life, SW_REQUEST_REQUEUE) == SW_REQUEST_REQUEUE);
    CHECK(sw_life_requested_at(life) >= before && sw_life_requested_at(life) <= sw_clock_now());
    sw_life_set_checkpoint_signal(life, SIGUSR2); /* it came, too */
    CHECK(sw_life_requested(life) == SW_REQUEST_REQUEUE);
    CHECK(kill(getpid(), SIGINT) == 0);
    CHECK(await(life, SW_REQUEST_INTERRUPT) == SW_REQUEST_INTERRUPT);
    CHECK(kill(getpid(), SIGTERM) == 0);
    CHECK(await(life, SW_REQUEST_TERMINATE) == SW_REQUEST_TERMINATE);
    CHECK(kill(getpid(), SIGUSR1) == 0 && kill(getpid(), SIGINT) == 0);
    nap(0.1);
    CHECK(sw_life_requested(life) == SW_REQUEST_TERMINATE);
    CHECK(kill(getpid(), SIGPIPE) == 0);
    sw_life_end(life);
    sw_life_end(NULL);
}

static void passed_int(void)
{
    struct sw_life *life = begin();
    const struct sw_life_hooks none = {0};
    sw_life_arm(life, &none);
    CHECK(kill(getpid(), SW_LIFE_PASSED_INT) == 0);
    CHECK(await(life, SW_REQUEST_INTERRUPT) == SW_REQUEST_INTERRUPT);
    CHECK(kill(getpid(), SW_LIFE_PASSED_TERM) == 0);
    CHECK(await(life, SW_REQUEST_TERMINATE) == SW_REQUEST_TERMINATE);
    sw_life_end(life);
}

static void hang_up(void)
{
    struct sw_life *life = begin();
    const struct sw_life_hooks none = {0};
    sw_life_arm(life, &none);
    CHECK(kill(getpid(), SIGHUP) == 0);
    CHECK(await(life, SW_REQUEST_TERMINATE) == SW_REQUEST_TERMINATE);
}

static void no_hang_up(void)
{
    (void)signal(SIGHUP, SIG_IGN);
    struct sw_life *life = begin();
    const struct sw_life_hooks none = {0};
    sw_life_arm(life, &none);
    CHECK(kill(getpid(), SIGHUP) == 0);
    nap(0.1);
    CHECK(sw_life_requested(life) == SW_REQUEST_NONE);
}

static void early(void)
{
    (void)begin();
    CHECK(kill(getpid(), SIGUSR1) == 0); /* is kept for later */
    nap(0.1);
    CHECK(kill(getpid(), SIGTERM) == 0);
    nap(5);
    _exit(WRONG);
}

static void say_left(void *context, enum sw_request request)
{
    (void)context;
    CHECK(request == SW_REQUEST_INTERRUPT);
    _exit(7);
}

static void second(void)
{
    struct sw_life *life = begin();
    const struct sw_life_hooks hooks = {.leave = say_left};
    sw_life_arm(life, &hooks);
    CHECK(kill(getpid(), SIGINT) == 0);
    nap(0.3);
    CHECK(kill(getpid(), SIGINT) == 0); /* the same one, once more */
    nap(0.9);
    CHECK(sw_life_requested(life) == SW_REQUEST_INTERRUPT);
    CHECK(kill(getpid(), SIGINT) == 0);
    nap(5);
    _exit(WRONG);
}

static void hang(void *context, enum sw_request request)
{
    (void)context;
    (void)request;
    nap(15);
    _exit(WRONG);
}

static void second_hangs(void)
{
    struct sw_life *life = begin();
    const struct sw_life_hooks hooks = {.leave = hang};
    sw_life_arm(life, &hooks);
    CHECK(kill(getpid(), SIGINT) == 0);
    nap(1.1);
    CHECK(kill(getpid(), SIGTERM) == 0);
    nap(10);
    _exit(WRONG);
}

/* Told at once, and ended where it does not end by itself. */
static void second_finishes(void)
{
    struct sw_life *life = begin();
    const struct sw_life_hooks hooks = {.finishes = true};
    sw_life_arm(life, &hooks);
    CHECK(kill(getpid(), SIGINT) == 0);
    nap(1.1);
    CHECK(!sw_life_hurried(life));
    CHECK(kill(getpid(), SIGTERM) == 0);
    for (int32_t i = 0; i < 100 && !sw_life_hurried(life); i++)
        nap(0.01);
    CHECK(sw_life_hurried(life));
    CHECK(kill(getpid(), SIGTERM) == 0); /* nothing more */
    nap(10);
    _exit(WRONG);
}

static void settled(void)
{
    struct sw_life *life = begin();
    const struct sw_life_hooks hooks = {.leave = hang};
    sw_life_arm(life, &hooks);
    sw_life_disarm(life);
    CHECK(kill(getpid(), SIGTERM) == 0);
    nap(1.2);
    CHECK(kill(getpid(), SIGTERM) == 0);
    nap(0.2);
}

static bool over_after_two(void *context)
{
    return atomic_fetch_add((atomic_int *)context, 1) == 2;
}

static void over(void)
{
    struct sw_life *life = begin();
    atomic_int asked = 0;
    const struct sw_life_hooks hooks = {.is_over = over_after_two, .context = &asked};
    sw_life_arm(life, &hooks);
    nap(0.7);
    CHECK(atomic_load(&asked) == 0); /* nobody asked for anything */
    CHECK(kill(getpid(), SIGTERM) == 0);
    nap(5);
    _exit(WRONG);
}

static void test_requests(void **state)
{
    (void)state;
    assert_int_equal(run(strongest), 0);
    assert_int_equal(run(passed_int), 0);
    assert_int_equal(run(hang_up), 0);
    assert_int_equal(run(no_hang_up), 0);
}

static void test_leaving(void **state)
{
    (void)state;
    assert_int_equal(run(early), 143);
    assert_int_equal(run(second), 7);
    assert_int_equal(run(second_hangs), 143);
    assert_int_equal(run(second_finishes), 143);
    assert_int_equal(run(settled), 0);
    assert_int_equal(run(over), 143);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_requests),
                                       cmocka_unit_test(test_leaving)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
