#include "runner/train/watch.h"

#include "runner/launch.h"
#include "runner/train/life.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* "rank 3 (host n2): killed by signal 9 (Killed) after step 12", or what is known of it. */
static void describe(const struct sw_watch_board *board, int status, char *text, size_t bytes)
{
    char after[48] = "";
    if (board->running && board->step_done > board->attempt.first_step)
        snprintf(after, sizeof after, " after step %" PRId64, board->step_done);
    if (!WIFSIGNALED(status)) {
        snprintf(text, bytes, "left with exit code %d and without a word%s", WEXITSTATUS(status),
                 after);
        return;
    }
    const int number = WTERMSIG(status);
    snprintf(text, bytes, "ended by signal %d (%s)%s%s", number, strsignal(number), after,
             number == SIGKILL ? "; the kernel does so when memory runs out" : "");
}

static void say(int32_t rank, const char *host, const char *text)
{
    if (isatty(STDERR_FILENO) == 1)
        fputs("\r\033[K", stderr); /* over the line of progress */
    fprintf(stderr, "rank %d (host %s): error: %s\n", (int)rank, host, text);
}

/* The exit code of the job, once the rank ended otherwise than by leaving. */
static int conclude(struct sw_watch_board *board, int status)
{
    const int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    struct sw_attempt *a = &board->attempt;
    struct sw_error err = {0};
    char text[400];
    if (board->settled) /* launchers end what takes long to leave */
        return a->verdict >= 0 ? a->verdict : SW_ENVIRONMENT;
    describe(board, status, text, sizeof text);
    if (!board->running) {
        struct sw_launch launch = {0};
        sw_launch_name(&launch);
        say(launch.rank, launch.host, text);
        return SW_ENVIRONMENT;
    }
    a->verdict = number == SIGBUS ? SW_VERDICT_BAD_NODE : SW_ENVIRONMENT;
    if (!sw_attempt_claim(board->folder, a->attempt)) {
        (void)sleep(1); /* the one that says it leaves first: launchers end the others */
        return a->verdict;
    }
    snprintf(a->cause, sizeof a->cause, "rank %d (host %.200s): %.250s", (int)board->rank,
             board->host, text);
    sw_attempt_add_node(a, board->host);
    const int written = sw_attempt_write(board->folder, a, &err);
    say(board->rank, board->host, text);
    if (written != 0)
        sw_launch_print_error(&err);
    return a->verdict;
}

static int watch(struct sw_watch_board *board, pid_t child, const sigset_t *waited)
{
    for (;;) {
        siginfo_t info;
        int status = 0;
        const int number = sigwaitinfo(waited, &info);
        if (waitpid(child, &status, WNOHANG) == child) {
            if (WIFEXITED(status) &&
                (!board->running || board->settled || WEXITSTATUS(status) == 0))
                return WEXITSTATUS(status);
            return conclude(board, status);
        }
        if (number > 0 && number != SIGCHLD)
            (void)kill(child, number);
    }
}

struct sw_watch_board *sw_watch_begin(void)
{
    int numbers[8];
    sigset_t waited;
    const int32_t count = sw_life_signals(numbers);
    struct sw_watch_board *board =
        mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED)
        return NULL;
    sigemptyset(&waited);
    for (int32_t i = 0; i < count; i++)
        sigaddset(&waited, numbers[i]);
    sigaddset(&waited, SW_LIFE_PASSED_TERM);
    sigaddset(&waited, SW_LIFE_PASSED_INT);
    sigaddset(&waited, SIGQUIT);
    sigaddset(&waited, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &waited, NULL);
    const pid_t parent = getpid(), child = fork();
    if (child > 0) {
        (void)signal(SIGPIPE, SIG_IGN);
        _exit(watch(board, child, &waited));
    }
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(SW_ENVIRONMENT);
    }
    /* what came in between stays pending for the life's thread, whose signals stay blocked */
    sigset_t others;
    sigemptyset(&others);
    sigaddset(&others, SIGQUIT);
    sigaddset(&others, SIGCHLD);
    (void)sigprocmask(SIG_UNBLOCK, &others, NULL);
    if (child == 0)
        return board;
    (void)munmap(board, sizeof *board);
    return NULL;
}
