/* `plan status`: the status of one run, once or until it ends. */
#include "core/base/clock.h"
#include "core/base/json.h"
#include "planner/command/command.h"
#include "planner/job/show.h"
#include "planner/job/target.h"
#include "planner/job/watch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Without a terminal a line is printed when the state changes, and one a minute. */
static const double line_every_seconds = 60;

/* Reads the parts of the run's time so far. The scheduler may know the current job's limit. */
static int read_efficiency(struct sw_run_status *s, struct sw_hours *out)
{
    struct sw_error err = {0};
    if (sw_hours_read(s->folder, NULL, sw_run_state_is_live(s->state), out, &err) != 0)
        return sw_command_fail(&err);
    if (s->job.id != NULL && strcmp(s->job.id, out->job) == 0 && s->job.limit_seconds > 0 &&
        isfinite(s->job.limit_seconds))
        out->job_limit_s = s->job.limit_seconds;
    s->efficiency = out;
    return SW_OK;
}

struct screen {
    bool terminal, json;
    int32_t lines; /* printed lines */
    enum sw_run_state state;
    char words[SW_STATUS_WORDS];
    int64_t step;
    double said_at;
    bool begun;
};

static void print_clock(void)
{
    char text[16];
    const time_t now = time(NULL);
    struct tm local;
    strftime(text, sizeof text, "%H:%M:%S", localtime_r(&now, &local));
    printf("%s ", text);
}

static void print_json(const struct sw_statuses *all, enum sw_json_style style)
{
    struct sw_json j = {.out = stdout, .style = style};
    sw_show_json(&j, true, &all->run[0], all->trouble.message);
    putchar('\n');
}

static bool is_news(const struct screen *screen, const struct sw_run_status *s)
{
    return !screen->begun || s->state != screen->state || strcmp(s->words, screen->words) != 0 ||
           (s->step != screen->step && sw_clock_now() - screen->said_at > line_every_seconds) ||
           (screen->terminal && !screen->json);
}

static void redraw(struct screen *screen, const struct sw_statuses *all)
{
    const struct sw_run_status *s = &all->run[0];
    if (!is_news(screen, s))
        return;
    if (screen->json) {
        print_json(all, SW_JSON_LINE);
    } else if (screen->terminal) {
        if (screen->lines > 0)
            printf("\033[%dA\033[J", (int)screen->lines);
        screen->lines = sw_show_text(stdout, s);
        if (all->trouble.status != SW_OK) {
            printf("  %-8s %.200s\n", "trouble", all->trouble.message);
            screen->lines++;
        }
    } else {
        print_clock();
        sw_show_line(stdout, s);
        putchar('\n');
    }
    fflush(stdout);
    screen->begun = true;
    screen->state = s->state;
    screen->step = s->step;
    screen->said_at = sw_clock_now();
    memcpy(screen->words, s->words, sizeof screen->words);
}

static int watch(struct sw_statuses *all, bool json)
{
    struct screen screen = {.terminal = isatty(STDOUT_FILENO), .json = json};
    struct sw_watch pace = {0};
    struct sw_error err = {0};
    for (;;) {
        if (sw_watch_look(&pace, all, &err) != 0)
            return sw_command_fail(&err);
        redraw(&screen, all);
        if (sw_status_is_over(&all->run[0]) || ferror(stdout))
            return sw_status_exit_code(&all->run[0]);
        sw_watch_wait();
    }
}

int sw_command_status(const struct sw_options *options)
{
    struct sw_target *target = calloc(1, sizeof *target);
    struct sw_statuses all = {0};
    struct sw_hours efficiency;
    struct sw_error err = {0};
    int status = target == NULL ? SW_ENVIRONMENT : sw_target_find(options, target);
    if (status != SW_OK)
        goto out;
    const char *folder = target->folder;
    if (sw_statuses_read(&folder, 1, &all, &err) != 0) {
        status = sw_command_fail(&err);
        goto out;
    }
    all.run[0].told_steps = target->steps;
    all.run[0].queueless = target->queueless;
    if (options->watch) {
        status = watch(&all, options->json);
        const int ended = status;
        if (options->report && !options->json &&
            (status = read_efficiency(&all.run[0], &efficiency)) == SW_OK) {
            sw_hours_write(stdout, &efficiency, "  ");
            status = ended;
        }
        goto out;
    }
    if (sw_statuses_ask(&all, SW_WATCH_ASK_SECONDS, &err) != 0) {
        status = sw_command_fail(&err);
        goto out;
    }
    if (options->report && (status = read_efficiency(&all.run[0], &efficiency)) != SW_OK)
        goto out;
    if (options->json)
        print_json(&all, SW_JSON_TABS);
    else
        sw_show_text(stdout, &all.run[0]);
    if (all.run[0].unreadable)
        status = SW_ENVIRONMENT; /* reported among the notes */
    if (all.trouble.status != SW_OK) {
        fflush(stdout);
        status = sw_command_fail(&all.trouble);
    }
out:
    sw_statuses_free(&all);
    free(target);
    return status;
}
