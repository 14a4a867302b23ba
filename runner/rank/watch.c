#include "runner/rank/watch.h"

#include "core/base/clock.h"
#include "runner/rank/launch.h"
#include "runner/rank/life.h"
#include "runner/rank/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* Wait for the dead rank's own watcher, which knows more than the ranks that lost it. */
static const double peer_grace_s = 3;

struct watcher {
    struct sw_watch_board *board;
    pid_t launcher; /* parent of the watcher while that lives */
    pid_t child;
    int signals; /* signalfd; -1: none */
    int errors;  /* pipe of the child's standard error; -1: the child writes to the watcher's */
    struct sw_peer peer;
    double lost_at; /* time a peer was lost; 0: none */
};

/* True if the launcher is gone: MPI then ends the process silently with its own exit code. */
static bool is_orphan(const struct watcher *w)
{
    return getppid() != w->launcher;
}

/* Writes "ended by signal 9 (Killed) after step 12", as far as known. */
static void describe(const struct watcher *w, int status, char *text, size_t bytes)
{
    const struct sw_watch_board *board = w->board;
    char after[48] = "";
    if (board->running && board->step_done > board->attempt.first_step)
        snprintf(after, sizeof after, " after step %" PRId64, board->step_done);
    if (is_orphan(w)) {
        snprintf(text, bytes,
                 "ended%s because the launcher (mpirun or srun) that started it was killed; start "
                 "the run again to resume from its last checkpoint",
                 after);
        return;
    }
    if (!WIFSIGNALED(status)) {
        snprintf(text, bytes,
                 "ended with exit code %d%s without giving a reason; lines above from MPI or "
                 "another library may say why",
                 WEXITSTATUS(status), after);
        return;
    }
    const int number = WTERMSIG(status);
    snprintf(text, bytes, "ended by signal %d (%s)%s%s", number, strsignal(number), after,
             number == SIGKILL ? "; the kernel does so when memory runs out" : "");
}

static void say(int32_t rank, const char *host, const char *text)
{
    if (isatty(STDERR_FILENO) == 1)
        fputs("\r\033[K", stderr); /* overwrites the progress line */
    fprintf(stderr, "rank %d (host %s): error: %s\n", (int)rank, host, text);
}

/* Saves and prints the attempt's end, unless another rank was first. */
static int settle(struct sw_watch_board *board, int32_t verdict, const char *text, const char *node)
{
    struct sw_attempt *a = &board->attempt;
    struct sw_error err = {0};
    a->verdict = verdict;
    if (!sw_attempt_claim(board->folder, a->attempt)) {
        (void)sleep(1); /* the reporting rank exits first: launchers end the others */
        return a->verdict;
    }
    snprintf(a->cause, sizeof a->cause, "rank %d (host %.200s): %.250s", (int)board->rank,
             board->host, text);
    sw_attempt_add_node(a, node);
    const int written = sw_attempt_write(board->folder, a, &err);
    say(board->rank, board->host, text);
    if (written != 0)
        sw_launch_print_error(&err);
    return a->verdict;
}

/* Reports an end before the run has a folder. */
static int say_early(const char *text)
{
    struct sw_launch launch = {0};
    sw_launch_name(&launch);
    say(launch.rank, launch.host, text);
    return SW_ENVIRONMENT;
}

/* Exit code of the job after the rank ended abnormally. */
static int conclude(const struct watcher *w, int status)
{
    struct sw_watch_board *board = w->board;
    const int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    char text[400];
    if (board->settled) /* launchers end slow processes */
        return board->attempt.verdict >= 0 ? board->attempt.verdict : SW_ENVIRONMENT;
    describe(w, status, text, sizeof text);
    if (!board->running)
        return say_early(text);
    return settle(board, number == SIGBUS ? SW_VERDICT_BAD_NODE : SW_ENVIRONMENT, text,
                  is_orphan(w) ? NULL : board->host);
}

/* Concludes after a peer was lost: the rank would wait until its stall limit. */
static int conclude_lost(struct watcher *w)
{
    struct sw_watch_board *board = w->board;
    char text[400];
    (void)kill(w->child, SIGKILL);
    (void)waitpid(w->child, NULL, 0);
    if (board->settled)
        return board->attempt.verdict >= 0 ? board->attempt.verdict : SW_ENVIRONMENT;
    snprintf(
        text, sizeof text,
        "lost its connection to host %.200s: a rank there died, or the node or its network did",
        w->peer.host);
    return board->running ? settle(board, SW_ENVIRONMENT, text, w->peer.host) : say_early(text);
}

/* Forwards the child's output; false if there was none. */
static bool pass_errors(struct watcher *w)
{
    char bytes[4096];
    const ssize_t count = w->errors >= 0 ? read(w->errors, bytes, sizeof bytes) : -1;
    if (count == 0) {
        (void)close(w->errors);
        w->errors = -1;
    }
    if (count <= 0)
        return false;
    for (ssize_t at = 0; at < count;) {
        const ssize_t written = write(STDERR_FILENO, bytes + at, (size_t)(count - at));
        if (written < 0 && errno != EINTR)
            break; /* no reader is left */
        at += written > 0 ? written : 0;
    }
    if (sw_peer_hear(&w->peer, bytes, (size_t)count) && w->lost_at <= 0)
        w->lost_at = sw_clock_now();
    return true;
}

/* Waits for a signal, output, or the end of the grace time. */
static void wait_for_news(struct watcher *w)
{
    struct signalfd_siginfo info;
    struct pollfd from[2] = {{.fd = w->signals, .events = POLLIN},
                             {.fd = w->errors, .events = POLLIN}};
    const double left = w->lost_at + peer_grace_s - sw_clock_now();
    const int most_ms = w->lost_at <= 0 ? -1 : left > 0 ? (int)(left * 1000) + 1 : 0;
    if (poll(from, 2, most_ms) <= 0)
        return;
    if (from[1].revents != 0)
        (void)pass_errors(w);
    if (from[0].revents != 0 && read(w->signals, &info, sizeof info) == sizeof info &&
        info.ssi_signo != SIGCHLD)
        (void)kill(w->child, (int)info.ssi_signo);
}

static bool is_over(const struct sw_watch_board *board)
{
    return board->settled ||
           (board->running && sw_attempt_is_claimed(board->folder, board->attempt.attempt));
}

static int watch(struct watcher *w)
{
    for (;;) {
        int status = 0;
        wait_for_news(w);
        if (waitpid(w->child, &status, WNOHANG) == w->child) {
            while (pass_errors(w)) {
            }
            if (WIFEXITED(status) &&
                (!w->board->running || w->board->settled || WEXITSTATUS(status) == 0))
                return WEXITSTATUS(status);
            return conclude(w, status);
        }
        if (w->lost_at <= 0 || sw_clock_now() < w->lost_at + peer_grace_s)
            continue;
        if (!is_over(w->board))
            return conclude_lost(w);
        w->lost_at = 0; /* already reported: the launcher ends the child, or it exits */
    }
}

/* Makes a pipe only if no terminal shows the child's output live. */
static void make_pipe(int ends[2])
{
    ends[0] = ends[1] = -1;
    if ((getenv("PMIX_RANK") == NULL && getenv("OMPI_COMM_WORLD_SIZE") == NULL) ||
        isatty(STDERR_FILENO) == 1 || pipe2(ends, O_CLOEXEC) != 0)
        return;
    (void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
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
    int errors[2];
    make_pipe(errors);
    struct watcher w = {
        .board = board, .launcher = getppid(), .signals = signalfd(-1, &waited, SFD_CLOEXEC)};
    const pid_t parent = getpid(), child = w.signals < 0 ? -1 : fork();
    if (child > 0) {
        (void)signal(SIGPIPE, SIG_IGN);
        if (errors[1] >= 0)
            (void)close(errors[1]);
        w.errors = errors[0];
        w.child = child;
        _exit(watch(&w));
    }
    if (w.signals >= 0)
        (void)close(w.signals);
    if (errors[1] >= 0) {
        if (child == 0)
            (void)dup2(errors[1], STDERR_FILENO);
        (void)close(errors[0]);
        (void)close(errors[1]);
    }
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(SW_ENVIRONMENT);
    }
    /* signals that came meanwhile stay pending for the life's thread, where they stay blocked */
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

void sw_watch_end(const struct sw_watch_board *board)
{
    if (board != NULL)
        (void)kill(getppid(), SIGCONT);
}
