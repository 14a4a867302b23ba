#include "runner/train/ending.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- The beginning ---- */

static void complain(const char *folder, const char *what, const char *consequence)
{
    fprintf(stderr, "note: %s/attempt.json: %s; %s\n", folder, what, consequence);
}

/* Number of the new attempt, on rank 0. */
static int64_t take_number(const char *folder)
{
    struct sw_attempt last;
    struct sw_error err = {0};
    char note[256];
    const int read = sw_attempt_read(folder, &last, note, &err);
    if (read != 0 || note[0] != '\0')
        complain(folder, read != 0 ? err.message : note, "this counts as the first attempt");
    sw_attempt_unclaim(folder, last.attempt);
    sw_attempt_unclaim(folder, last.attempt + 1);
    return last.attempt + 1;
}

static bool is_over(void *context)
{
    const struct sw_ending *e = context;
    return sw_attempt_is_claimed(e->board->folder, e->board->attempt.attempt);
}

/* First signal, on the signals' thread: reports it, since a step may take minutes. */
static void heard(void *context, enum sw_request request)
{
    const struct sw_ending *e = context;
    const char *name = request == SW_REQUEST_INTERRUPT ? "SIGINT"
                       : sw_life_hung_up(e->life)      ? "SIGHUP"
                                                       : "SIGTERM";
    if (e->launch->rank == 0)
        fprintf(stderr,
                "%s%s: stops after step %" PRId64 " and saves; a second one leaves at once\n",
                isatty(STDERR_FILENO) == 1 ? "\r\033[K" : "", name, e->board->step_done + 1);
}

/* Second signal, on the signals' thread: rank 0 exits first, the others if it does not. */
static void leave_at_once(void *context, enum sw_request request)
{
    const struct sw_ending *e = context;
    struct sw_watch_board *board = e->board;
    if (e->launch->rank != 0)
        (void)sleep(1);
    const bool first = sw_attempt_claim(board->folder, board->attempt.attempt);
    board->attempt.verdict = sw_request_exit_code(request);
    if (first) {
        snprintf(board->attempt.cause, sizeof board->attempt.cause,
                 "a second signal ended it at once, in step %" PRId64, board->step_done + 1);
        (void)sw_attempt_write(board->folder, &board->attempt, NULL);
        fprintf(stderr, "left at once on a second signal, in step %" PRId64 "\n",
                board->step_done + 1);
    } else {
        (void)sleep(1); /* the recording rank exits first */
    }
    board->settled = true;
}

/* Shares rank 0's attempt number and all ranks' hosts. */
static void share(struct sw_ending *e, int64_t *number)
{
    struct card {
        int64_t number;
        char host[SW_ENDING_HOST_BYTES];
    } mine = {.number = *number};
    const size_t size = (size_t)e->launch->size;
    struct card *all = calloc(size, sizeof *all);
    e->hosts = calloc(size, sizeof *e->hosts);
    if (all == NULL || e->hosts == NULL) { /* the others wait */
        struct sw_error err = {0};
        (void)sw_fail(&err, SW_ENVIRONMENT, "out of memory for the ranks' hosts");
        sw_launch_abort(e->launch, &err, SW_ENVIRONMENT);
    }
    snprintf(mine.host, sizeof mine.host, "%s", e->launch->host);
    sw_launch_gather(e->launch, &mine, (int32_t)sizeof mine, all);
    *number = all[0].number;
    for (size_t i = 0; i < size; i++)
        memcpy(e->hosts[i], all[i].host, sizeof e->hosts[i]);
    free(all);
}

void sw_ending_begin(struct sw_ending *e, const char *folder, int64_t first_step)
{
    struct sw_watch_board *board = e->board;
    struct sw_attempt *a = &board->attempt;
    struct sw_error err = {0};
    const int64_t number = e->launch->rank == 0 ? take_number(folder) : 0;
    *a = (struct sw_attempt){.attempt = number,
                             .verdict = SW_VERDICT_RUNNING,
                             .first_step = first_step,
                             .step = first_step};
    snprintf(a->job, sizeof a->job, "%s", sw_launch_job());
    if (e->launch->rank == 0 && sw_attempt_write(folder, a, &err) != 0)
        complain(folder, err.message, "how this attempt ends will not be recorded");
    share(e, &a->attempt);
    snprintf(board->folder, sizeof board->folder, "%s", folder);
    snprintf(board->host, sizeof board->host, "%s", e->launch->host);
    board->rank = e->launch->rank;
    board->size = e->launch->size;
    board->step_done = first_step;
    board->running = true;
    const struct sw_life_hooks hooks = {
        .is_over = is_over, .heard = heard, .leave = leave_at_once, .context = e};
    sw_life_arm(e->life, &hooks);
}

/* ---- The end ---- */

/* Saves the verdict, unless another rank, a watcher or the signals' thread was first. */
static bool settle(struct sw_ending *e, int32_t verdict, const char *cause)
{
    struct sw_watch_board *board = e->board;
    struct sw_error err = {0};
    sw_life_disarm(e->life);
    if (!sw_attempt_claim(board->folder, board->attempt.attempt))
        return false;
    board->attempt.verdict = verdict;
    snprintf(board->attempt.cause, sizeof board->attempt.cause, "%.500s", cause);
    if (sw_attempt_write(board->folder, &board->attempt, &err) != 0)
        fprintf(stderr, "note: %s; how this attempt ended is not recorded\n", err.message);
    return true;
}

static void finish(struct sw_ending *e, int32_t verdict)
{
    e->board->attempt.verdict = verdict;
    e->board->settled = true;
}

int sw_ending_leave(struct sw_ending *e, enum sw_verdict verdict, const char *cause)
{
    const struct sw_attempt *a = &e->board->attempt;
    if (verdict == SW_VERDICT_REQUEUE && a->step <= a->first_step) {
        verdict = SW_VERDICT_NO_PROGRESS;
        cause = "no step was gained since the attempt before";
    }
    sw_life_disarm(e->life);
    if (e->launch->rank == 0)
        (void)settle(e, (int32_t)verdict, cause);
    (void)sw_launch_agree(e->launch, NULL); /* no rank exits before it is saved */
    finish(e, (int32_t)verdict);
    if (e->launch->rank == 0)
        sw_attempt_unclaim(e->board->folder, a->attempt);
    return (int)verdict;
}

static void describe(const struct sw_launch *launch, const struct sw_error *err, char *text,
                     size_t bytes)
{
    char message[SW_ERROR_TEXT_BYTES];
    sw_error_format(err, NULL, message);
    snprintf(text, bytes, "rank %d (host %.200s): %.1000s", (int)launch->rank, launch->host,
             message);
}

int sw_ending_fail(struct sw_ending *e, const struct sw_error *err)
{
    const int32_t size = e->launch->size;
    int32_t verdict = err == NULL ? SW_VERDICT_DONE : sw_attempt_verdict(err);
    char cause[1600];
    int32_t *verdicts = calloc((size_t)size, sizeof *verdicts);
    if (verdicts == NULL) { /* the others wait */
        struct sw_error mine = {0};
        if (err != NULL)
            mine = *err;
        (void)sw_fail(&mine, SW_ENVIRONMENT, "out of memory");
        sw_ending_abort(e, &mine);
    }
    sw_launch_gather(e->launch, &verdict, (int32_t)sizeof verdict, verdicts);
    int32_t first = 0;
    while (first < size - 1 && verdicts[first] == SW_VERDICT_DONE)
        first++;
    if (first == e->launch->rank && err != NULL) {
        describe(e->launch, err, cause, sizeof cause);
        if (verdict == SW_ENVIRONMENT || verdict == SW_VERDICT_BAD_NODE)
            sw_attempt_add_node(&e->board->attempt, e->launch->host);
        (void)settle(e, verdict, cause);
    }
    sw_life_disarm(e->life);
    verdict = verdicts[first];
    free(verdicts);
    (void)sw_launch_agree(e->launch, err);
    finish(e, verdict);
    if (first == e->launch->rank)
        sw_attempt_unclaim(e->board->folder, e->board->attempt.attempt);
    return (int)verdict;
}

void sw_ending_abort(struct sw_ending *e, struct sw_error *err)
{
    const bool told = err->culprit > 0 && err->culprit <= e->launch->size;
    const char *host = told ? e->hosts[err->culprit - 1] : e->launch->host;
    const int32_t verdict = sw_attempt_verdict(err);
    char cause[1600];
    if (told)
        (void)sw_fail_context(err, "rank %d (host %.200s) does not answer", (int)err->culprit - 1,
                              host);
    describe(e->launch, err, cause, sizeof cause);
    sw_attempt_add_node(&e->board->attempt, host);
    const bool first = settle(e, verdict, cause);
    if (!first)
        (void)sleep(1); /* the reporting rank exits first: launchers end the others */
    finish(e, verdict);
    sw_launch_abort(e->launch, first ? err : NULL, (int)verdict);
}

void sw_ending_free(struct sw_ending *e)
{
    free(e->hosts);
    e->hosts = NULL;
}
