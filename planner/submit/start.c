#include "planner/submit/start.h"

#include "planner/emit/budget.h"
#include "planner/emit/script.h"
#include "planner/scheduler/scheduler.h"
#include "planner/search/place.h"
#include "planner/search/report.h"
#include "planner/search/run_cost.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { COUNTS = 8, PARTITIONS = 16, CHOICES = (COUNTS + 1) * PARTITIONS };

/* Data gathered for the choices. */
struct gathering {
    const struct sw_scheduler *row;
    const struct sw_forecast_row *ask;
    struct sw_forecast *forecast;
    const struct sw_run_config *run;
    const struct sw_job_request *base;
    const struct sw_decision *only; /* a plan's; NULL: no plan yet */
    struct sw_quantiles ratio;      /* actual / estimated wait of our own jobs */
    bool limit_follows;             /* true if the limit follows from the steps: each choice
                                       has its own */
    char *partition[PARTITIONS];    /* named by the job; NULL: the default one */
    int32_t partitions;
    struct sw_job_request request[CHOICES]; /* request of the choice with the same index */
};

/* All nodes, three quarters, the half, three quarters of that ...: few numbers, close enough to
 * each other. */
static int32_t list_counts(const struct gathering *g, int32_t out[COUNTS])
{
    const struct sw_run_config *run = g->run;
    const int32_t most = run->cluster.nodes;
    int32_t count = 0;
    if (g->only != NULL) {
        out[0] = most;
        return 1;
    }
    if (run->nodes != NULL) { /* the run gives its numbers */
        for (int32_t n = run->nodes_most; n >= run->nodes_least && count < COUNTS; n--)
            out[count++] = n;
        return count;
    }
    for (int32_t half = most; half >= 1 && count < COUNTS; half /= 2) {
        out[count++] = half;
        if (half % 4 == 0 && count < COUNTS)
            out[count++] = half / 4 * 3;
    }
    return count;
}

/* Makes the job in one of its partitions, on that many nodes. time: its limit; NULL: the
 * script's. */
static int make_request(const struct gathering *g, int32_t nodes, const char *partition,
                        const char *time, struct sw_job_request *out, struct sw_error *err)
{
    char number[16];
    struct sw_job_request with_nodes = {0}, timed = {0};
    int status = -1;
    snprintf(number, sizeof number, "%d", nodes);
    if (sw_job_request_vary(g->base, "nodes", number, &with_nodes, err) == 0 &&
        (time == NULL || sw_job_request_vary(&with_nodes, "time", time, &timed, err) == 0))
        status = sw_job_request_vary(time != NULL ? &timed : &with_nodes, "partition", partition,
                                     out, err);
    sw_job_request_free(&with_nodes);
    sw_job_request_free(&timed);
    return status;
}

/* Changes the request to the placement for the candidate's mesh, instead of the script's. */
static int place_request(const struct gathering *g, int32_t nodes,
                         const struct sw_candidate *candidate, struct sw_job_request *request,
                         struct sw_error *err)
{
    struct sw_placement_run *placed = malloc(sizeof *placed);
    if (placed == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while asking when jobs start");
    const struct sw_run_config run = sw_run_on_nodes(g->run, nodes);
    int status = sw_search_place(&run, candidate, placed, err);
    const struct sw_node_request *p = &placed->placement;
    if (status == 0 && p->name != NULL) {
        struct sw_job_request before = *request;
        status = sw_job_request_vary(&before, p->name, p->option[0] != '\0' ? p->option : NULL,
                                     request, err);
        sw_job_request_free(&before);
    }
    free(placed);
    return status;
}

/* A job to start on that many nodes. */
struct wanted {
    int32_t nodes;
    const struct sw_candidate *candidate; /* NULL: no mesh fits */
    const char *lacks, *why;
    bool fastest, own; /* own: true for the run's own preference, on all nodes */
};

/* Seconds before its limit at which the script asks for its signal; 0: it does not. */
static int64_t lead_of(const struct gathering *g)
{
    const char *signal = sw_job_request_get(g->base, "signal");
    const char *at = signal != NULL ? strchr(signal, '@') : NULL;
    return at != NULL ? strtoll(at + 1, NULL, 10) : 0;
}

static int add_choice(struct gathering *g, struct sw_start_choices *out,
                      const struct wanted *wanted, const char *partition, struct sw_error *err)
{
    char time[32];
    const char *limit = NULL;
    if (out->count == CHOICES)
        return 0;
    struct sw_start_choice *c = &out->choice[out->count];
    struct sw_job_request *request = &g->request[out->count++];
    if (g->limit_follows && wanted->candidate != NULL) {
        const struct sw_run_config run = sw_run_on_nodes(g->run, wanted->nodes);
        limit = sw_script_time_limit(sw_scheduler_of(&run.cluster), &run,
                                     sw_search_trained_step_s(&run, wanted->candidate), lead_of(g),
                                     time);
    }
    c->nodes = wanted->nodes;
    c->fastest = wanted->fastest;
    c->own = wanted->own;
    if (wanted->candidate != NULL)
        c->candidate = *wanted->candidate;
    if (make_request(g, wanted->nodes, partition, limit, request, err) != 0 ||
        (g->only == NULL && wanted->candidate != NULL &&
         place_request(g, wanted->nodes, wanted->candidate, request, err) != 0))
        return -1;
    c->limit_s = g->row->seconds(sw_job_request_get(request, "time"));
    const char *name = g->ask->partition(g->forecast, partition);
    snprintf(c->partition, sizeof c->partition, "%s",
             name != NULL ? name : (partition != NULL ? partition : ""));
    if (g->ask->admits(g->forecast, request, c->why_not) && wanted->candidate == NULL)
        snprintf(c->why_not, sizeof c->why_not, "no mesh %s%s%.200s", wanted->lacks,
                 wanted->why[0] != '\0' ? ": " : "", wanted->why);
    return 0;
}

/* Adds the choice in all partitions. */
static int add_choices(struct gathering *g, struct sw_start_choices *out,
                       const struct wanted *wanted, struct sw_error *err)
{
    for (int32_t i = 0; i < g->partitions; i++)
        if (add_choice(g, out, wanted, g->partition[i], err) != 0)
            return -1;
    return 0;
}

/* True if a search for a mesh on that many nodes can help. */
static int may_start(struct gathering *g, int32_t nodes, bool *may, struct sw_error *err)
{
    char why[sizeof((struct sw_start_choice *)0)->why_not];
    *may = false;
    for (int32_t i = 0; i < g->partitions && !*may; i++) {
        struct sw_job_request request = {0};
        /* its duration is unknown yet */
        if (make_request(g, nodes, g->partition[i], g->limit_follows ? "1" : NULL, &request, err) !=
            0)
            return -1;
        *may = g->ask->admits(g->forecast, &request, why);
        sw_job_request_free(&request);
    }
    return 0;
}

/* True if the script's limit follows from the run's steps, and so differs on other nodes. A site's
 * template may have any. step_seconds: of the script's mesh; 0: unknown yet. */
static bool limit_follows(const struct gathering *g, double step_seconds)
{
    char time[32];
    const struct sw_run_config *run = g->run;
    const char *limit = sw_job_request_get(g->base, "time");
    if (limit == NULL || g->only != NULL || !run->says_steps || run->job.type != SW_JOB_TRAIN ||
        (sw_job_terms(&run->cluster).time != NULL && !run->time_is_ceiling))
        return false;
    const char *follows = step_seconds > 0
                              ? sw_script_time_limit(sw_scheduler_of(&run->cluster), run,
                                                     step_seconds, lead_of(g), time)
                              : limit;
    return follows != NULL && strcmp(follows, limit) == 0;
}

/* Adds the fastest mesh on that many nodes and, on all nodes, the run's own preference. */
static int add_meshes(struct gathering *g, struct sw_start_choices *out, int32_t nodes,
                      struct sw_error *err)
{
    struct sw_search search = {0};
    struct wanted wanted = {.nodes = nodes, .lacks = "fits", .why = ""};
    char missed[160];
    bool may = false;
    if (may_start(g, nodes, &may, err) != 0)
        return -1;
    if (!may)
        return add_choices(g, out, &wanted, err);
    const struct sw_run_config run = sw_run_on_nodes(g->run, nodes);
    const bool all = nodes == g->run->cluster.nodes;
    if (sw_search_choose(&run, sw_run_purpose(&run), 1, &search, err) != 0)
        return -1;
    const bool settles = sw_search_settles(&search);
    if (all && settles)
        g->limit_follows = limit_follows(g, sw_search_trained_step_s(g->run, &search.mesh[0]));
    if (settles) {
        wanted.candidate = &search.mesh[search.fastest];
        wanted.fastest = true;
        wanted.own = all && search.fastest == 0;
    } else if (search.feasible > 0) {
        wanted.lacks = "keeps the latency goals";
        wanted.why = sw_report_missed(&run, &search.mesh[0], missed, sizeof missed);
    } else if (search.count > 0) {
        wanted.why = search.mesh[0].detail;
    }
    int status = add_choices(g, out, &wanted, err);
    if (status == 0 && all && settles && search.fastest > 0) {
        wanted = (struct wanted){.nodes = nodes, .candidate = &search.mesh[0], .own = true};
        status = add_choices(g, out, &wanted, err);
    }
    sw_search_free(&search);
    return status;
}

/* Lists the job's partitions; NULL: the default one. */
static int list_partitions(struct gathering *g, struct sw_error *err)
{
    const char *names = sw_job_request_get(g->base, "partition");
    if (names == NULL)
        g->partitions = 1;
    for (const char *p = names; p != NULL && *p != '\0' && g->partitions < PARTITIONS;) {
        const size_t length = strcspn(p, ",");
        g->partition[g->partitions] = strndup(p, length);
        if (g->partition[g->partitions++] == NULL)
            return sw_fail(err, SW_ENVIRONMENT, "out of memory while asking when jobs start");
        p += length;
        p += *p == ',';
    }
    return 0;
}

/* Adds the mesh of the plan. */
static int add_plan(struct gathering *g, struct sw_start_choices *out, struct sw_error *err)
{
    struct sw_candidate candidate;
    const struct wanted wanted = {
        .nodes = g->run->cluster.nodes, .candidate = &candidate, .fastest = true, .own = true};
    if (sw_search_evaluate_job(g->run, g->only, &candidate, err) != 0)
        return -1;
    return add_choices(g, out, &wanted, err);
}

static int list_choices(struct gathering *g, struct sw_start_choices *out, struct sw_error *err)
{
    int32_t counts[COUNTS];
    const int32_t count = list_counts(g, counts);
    if (list_partitions(g, err) != 0)
        return -1;
    g->limit_follows = limit_follows(g, 0);
    if (g->only != NULL)
        return add_plan(g, out, err);
    for (int32_t i = 0; i < count; i++)
        if (add_meshes(g, out, counts[i], err) != 0)
            return -1;
    return 0;
}

/* Asks for all possible starts in one call. */
static int ask_starts(struct gathering *g, struct sw_start_choices *out, struct sw_error *err)
{
    struct sw_job_request *asked = calloc((size_t)out->count + 1, sizeof *asked);
    struct sw_job_start *start = calloc((size_t)out->count + 1, sizeof *start);
    int32_t count = 0, status = -1;
    if (asked == NULL || start == NULL) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory while asking when jobs start");
        goto out;
    }
    for (int32_t i = 0; i < out->count; i++)
        if (out->choice[i].why_not[0] == '\0')
            asked[count++] = g->request[i]; /* borrowed */
    if (g->ask->starts(g->forecast, asked, count, start, err) != 0)
        goto out;
    count = 0;
    for (int32_t i = 0; i < out->count; i++) {
        struct sw_start_choice *c = &out->choice[i];
        if (c->why_not[0] != '\0')
            continue;
        struct sw_job_start *s = &start[count++];
        c->starts = s->starts;
        c->waits = s->waits;
        c->at = s->at;
        c->where = s->nodes;
        s->nodes = NULL;
        if (!s->starts)
            snprintf(c->why_not, sizeof c->why_not, "%s", s->refusal);
    }
    status = 0;
out:
    if (start != NULL)
        sw_job_starts_free(start, count);
    free(start);
    free(asked);
    return status;
}

/* Sets the expected wait, and its uncertainty. */
static void expect_wait(const struct gathering *g, int64_t now, struct sw_start_choice *c)
{
    const double estimate = c->at > now ? (double)(c->at - now) : 0;
    const bool has_log = g->ratio.count >= SW_STARTS_ENOUGH;
    const struct sw_quantiles like = g->ask->waits(g->forecast, c->partition, c->nodes, c->limit_s);
    c->wait_s = has_log ? estimate * g->ratio.median : estimate;
    if (like.count >= SW_WAITS_ENOUGH) {
        c->has_band = true;
        c->like_jobs = like.count;
        /* the controller's estimate is as possible as earlier waits */
        c->wait_low_s = fmin(like.low, c->wait_s);
        c->wait_high_s = fmax(like.high, c->wait_s);
    } else if (has_log) {
        c->has_band = true;
        c->wait_low_s = estimate * g->ratio.low;
        c->wait_high_s = estimate * g->ratio.high;
    }
}

/* Time of a run that gives its steps, in jobs of the choice's limit; false: unknown. */
static bool expect_time(const struct gathering *g, const struct sw_start_choice *c,
                        struct sw_run_time *out)
{
    struct sw_run_cost cost;
    const struct sw_run_config run = sw_run_on_nodes(g->run, c->nodes);
    if (sw_search_price_run(&run, &c->candidate, NULL, &cost, NULL) != 0 || cost.terms.steps == 0)
        return false;
    cost.terms.start_s = SW_START_SETUP_SECONDS;
    cost.terms.queue_s = 0; /* the controller gives the wait */
    cost.terms.limit_s = c->limit_s;
    sw_run_time(&cost.terms, out);
    return isfinite(out->wall_s);
}

/* Sets the time from now to the result with this mesh; for a job that generates an unknown number
 * of texts: to the first. */
static void expect_result(const struct gathering *g, struct sw_start_choice *c)
{
    const bool trains = sw_run_purpose(g->run) == SW_FOR_TRAIN;
    const double steps_s =
        trains ? (double)sw_run_steps(g->run) * c->candidate.cost.step_seconds : 0;
    const double usable = c->limit_s - SW_START_SETUP_SECONDS;
    if (usable <= c->candidate.cost.step_seconds) {
        c->starts = false;
        snprintf(c->why_not, sizeof c->why_not,
                 "no %s ends within the time limit; the start of the job is assumed to take %.0f s",
                 trains ? "step" : "token", SW_START_SETUP_SECONDS);
        return;
    }
    struct sw_run_time time;
    const bool known = trains && expect_time(g, c, &time);
    const double jobs = known ? time.jobs : isinf(usable) ? 1 : steps_s / usable;
    c->jobs = (int32_t)fmax(1, fmin(ceil(jobs - 1e-9), 1e6));
    c->run_s = known ? time.held_s : steps_s + c->jobs * SW_START_SETUP_SECONDS;
    c->result_s = c->jobs * c->wait_s + c->run_s;
}

/* Notes if the queue takes the run's own preference, on all nodes, in any partition, now or
 * later. */
static void judge_own(struct sw_start_choices *out, int32_t most)
{
    for (int32_t i = 0; i < out->count; i++) {
        const struct sw_start_choice *c = &out->choice[i];
        if (c->nodes != most)
            continue;
        out->taken = out->taken || (c->own && (c->starts || c->waits));
        if (out->refused[0] == '\0')
            snprintf(out->refused, sizeof out->refused, "%s", c->why_not);
    }
}

/* Marks the submitted choice: of the run's own preference, the one that starts first; drops the
 * same in other partitions. */
static void settle(struct sw_start_choices *out, int32_t most)
{
    struct sw_start_choice *first = NULL;
    int32_t kept = 0;
    for (int32_t i = 0; i < out->count; i++) {
        struct sw_start_choice *c = &out->choice[i];
        if (c->own && c->starts && (first == NULL || c->at < first->at))
            first = c;
    }
    if (first != NULL)
        first->submitted = true;
    judge_own(out, most);
    for (int32_t i = 0; i < out->count; i++) {
        struct sw_start_choice *c = &out->choice[i];
        if (c->own && !c->fastest && !c->submitted)
            free(c->where);
        else
            out->choice[kept++] = *c;
    }
    out->count = kept;
}

static int compare_choices(const void *a, const void *b)
{
    const struct sw_start_choice *x = a, *y = b;
    if (x->starts != y->starts)
        return x->starts ? -1 : 1;
    if (x->starts && x->result_s != y->result_s)
        return x->result_s < y->result_s ? -1 : 1;
    if (x->submitted != y->submitted)
        return x->submitted ? -1 : 1;
    if (x->nodes != y->nodes)
        return x->nodes > y->nodes ? -1 : 1;
    return strcmp(x->partition, y->partition);
}

/* Asks for the budgets of the submitted job or, if none can start, of the one in the run's first
 * partition. */
static int find_budgets(const struct gathering *g, struct sw_start_choices *out,
                        struct sw_error *err)
{
    const char *partition = g->partition[0];
    struct sw_job_request request = {0};
    if (g->ask->budgets == NULL)
        return 0;
    for (int32_t i = 0; i < out->count; i++)
        if (out->choice[i].submitted && out->choice[i].partition[0] != '\0')
            partition = out->choice[i].partition;
    int status = make_request(g, g->run->cluster.nodes, partition, NULL, &request, err);
    if (status == 0)
        status = g->ask->budgets(g->forecast, &request, &out->budgets, err);
    for (int32_t i = 0; i < out->count && status == 0; i++) {
        const struct sw_start_choice *c = &out->choice[i];
        if (!c->own || c->nodes != g->run->cluster.nodes)
            continue;
        status = sw_budgets_say_run(g->run, &c->candidate,
                                    g->row->seconds(sw_job_request_get(&request, "time")),
                                    &out->budgets, 0, err);
        break;
    }
    sw_job_request_free(&request);
    return status;
}

static int gather(struct gathering *g, struct sw_start_choices *out, struct sw_error *err)
{
    if (g->ask->load(g->forecast, g->base, err) != 0)
        return -1;
    g->ratio = g->ask->ratio(g->forecast);
    out->settled = g->only != NULL;
    out->log_jobs = g->ratio.count;
    out->log_ratio = g->ratio.count >= SW_STARTS_ENOUGH ? g->ratio.median : 1;
    if (list_choices(g, out, err) != 0)
        return -1;
    out->now = (int64_t)time(NULL);
    if (ask_starts(g, out, err) != 0)
        return -1;
    settle(out, g->run->cluster.nodes);
    if (find_budgets(g, out, err) != 0)
        return -1;
    for (int32_t i = 0; i < out->count; i++)
        if (out->choice[i].starts) {
            expect_wait(g, out->now, &out->choice[i]);
            expect_result(g, &out->choice[i]);
        }
    qsort(out->choice, (size_t)out->count, sizeof *out->choice, compare_choices);
    return 0;
}

int sw_start_choices_gather(struct sw_forecast *forecast, const struct sw_run_config *run,
                            const struct sw_job_request *base, const struct sw_decision *only,
                            struct sw_start_choices *out, struct sw_error *err)
{
    int status = -1;
    *out = (struct sw_start_choices){.log_ratio = 1};
    struct gathering *g = calloc(1, sizeof *g);
    out->choice = calloc(CHOICES, sizeof *out->choice);
    if (g == NULL || out->choice == NULL) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory while asking when jobs start");
        goto out;
    }
    g->row = sw_scheduler_of(&run->cluster);
    g->ask = g->row->forecast;
    g->forecast = forecast;
    g->run = run;
    g->base = base;
    g->only = only;
    status = gather(g, out, err);
    for (int32_t i = 0; i < CHOICES; i++)
        sw_job_request_free(&g->request[i]);
    for (int32_t i = 0; i < g->partitions; i++)
        free(g->partition[i]);
out:
    free(g);
    return status;
}

void sw_start_choices_free(struct sw_start_choices *choices)
{
    for (int32_t i = 0; choices->choice != NULL && i < choices->count; i++)
        free(choices->choice[i].where);
    free(choices->choice);
    sw_budgets_free(&choices->budgets);
    *choices = (struct sw_start_choices){0};
}
