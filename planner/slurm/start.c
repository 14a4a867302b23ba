#include "planner/slurm/start.h"

#include "planner/emit/plans.h"
#include "planner/slurm/admit.h"
#include "planner/slurm/script.h"
#include "planner/slurm/waits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { COUNTS = 8, PARTITIONS = 16, CHOICES = (COUNTS + 1) * PARTITIONS };

/* Everything that is asked and known while the choices are made. */
struct gathering {
    struct sw_slurm *slurm;
    const struct sw_run_config *run;
    const struct sw_slurm_request *base;
    const struct sw_decision *only; /* of a plan; NULL: there is none yet */
    struct sw_slurm_facts facts;
    struct sw_slurm_accounting accounting;
    struct sw_waits waits;
    struct sw_quantiles log;
    struct sw_slurm_queued *queue;
    int32_t queued;
    double limit_s;
    struct sw_slurm_request request[CHOICES]; /* of the choice of the same number */
};

/* All of them, three quarters, the half, three quarters of that ...: few numbers, near enough to
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
    if (run->nodes != NULL) { /* the run says which it may have */
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

static int add_choice(struct gathering *g, struct sw_start_choices *out, int32_t nodes,
                      const char *partition, size_t length, struct sw_error *err)
{
    char number[16], name[128];
    struct sw_slurm_request vary = {0};
    if (out->count == CHOICES)
        return 0;
    struct sw_start_choice *c = &out->choice[out->count];
    struct sw_slurm_request *request = &g->request[out->count++];
    snprintf(number, sizeof number, "%d", nodes);
    snprintf(name, sizeof name, "%.*s", (int)length, partition != NULL ? partition : "");
    c->nodes = nodes;
    if (sw_slurm_request_vary(g->base, "nodes", number, &vary, err) != 0 ||
        sw_slurm_request_vary(&vary, "partition", partition != NULL ? name : NULL, request, err) !=
            0) {
        sw_slurm_request_free(&vary);
        return -1;
    }
    sw_slurm_request_free(&vary);
    const struct sw_slurm_partition *p =
        sw_slurm_find_partition(&g->facts, partition != NULL ? name : NULL);
    snprintf(c->partition, sizeof c->partition, "%s", p != NULL ? p->name : name);
    sw_slurm_admits(request, &g->facts, &g->accounting, g->queue, g->queued, c->why_not);
    return 0;
}

static int list_choices(struct gathering *g, struct sw_start_choices *out, struct sw_error *err)
{
    int32_t counts[COUNTS];
    const int32_t count = list_counts(g, counts);
    const char *partitions = sw_slurm_request_get(g->base, "partition");
    for (int32_t i = 0; i < count; i++) {
        if (partitions == NULL && add_choice(g, out, counts[i], NULL, 0, err) != 0)
            return -1;
        int32_t used = 0;
        for (const char *p = partitions; p != NULL && *p != '\0' && used < PARTITIONS; used++) {
            const size_t length = strcspn(p, ",");
            if (add_choice(g, out, counts[i], p, length, err) != 0)
                return -1;
            p += length;
            p += *p == ',';
        }
    }
    return 0;
}

/* Asks for all that may start, at once. */
static int ask_starts(struct gathering *g, struct sw_start_choices *out, struct sw_error *err)
{
    struct sw_slurm_request *asked = calloc((size_t)out->count + 1, sizeof *asked);
    struct sw_slurm_start *start = calloc((size_t)out->count + 1, sizeof *start);
    int32_t count = 0, status = -1;
    if (asked == NULL || start == NULL) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory while asking Slurm");
        goto out;
    }
    for (int32_t i = 0; i < out->count; i++)
        if (out->choice[i].why_not[0] == '\0')
            asked[count++] = g->request[i]; /* borrowed */
    if (sw_slurm_will_run(g->slurm, asked, count, start, err) != 0)
        goto out;
    count = 0;
    for (int32_t i = 0; i < out->count; i++) {
        struct sw_start_choice *c = &out->choice[i];
        if (c->why_not[0] != '\0')
            continue;
        struct sw_slurm_start *s = &start[count++];
        c->starts = s->starts;
        c->at = s->at;
        c->where = s->nodes;
        s->nodes = NULL;
        if (!s->starts)
            snprintf(c->why_not, sizeof c->why_not, "Slurm says: %.200s", s->refusal);
    }
    status = 0;
out:
    if (start != NULL)
        sw_slurm_starts_free(start, count);
    free(start);
    free(asked);
    return status;
}

/* The wait, and what is known of how sure it is. */
static void expect_wait(const struct gathering *g, int64_t now, struct sw_start_choice *c)
{
    const double estimate = c->at > now ? (double)(c->at - now) : 0;
    const bool has_log = g->log.count >= SW_STARTS_ENOUGH;
    const struct sw_quantiles like = sw_waits_like(&g->waits, c->partition, c->nodes, g->limit_s);
    c->wait_s = has_log ? estimate * g->log.median : estimate;
    if (like.count >= SW_WAITS_ENOUGH) {
        c->has_band = true;
        c->like_jobs = like.count;
        /* what the controller says of this queue is as possible as what was before */
        c->wait_low_s = fmin(like.low, c->wait_s);
        c->wait_high_s = fmax(like.high, c->wait_s);
    } else if (has_log) {
        c->has_band = true;
        c->wait_low_s = estimate * g->log.low;
        c->wait_high_s = estimate * g->log.high;
    }
}

/* How long it takes from now with this mesh. */
static void expect_result(const struct gathering *g, struct sw_start_choice *c)
{
    const double steps_s = (double)g->run->optimizer.total_steps * c->candidate.cost.step_seconds;
    const double usable = g->limit_s - SW_START_SETUP_SECONDS;
    if (usable <= c->candidate.cost.step_seconds) {
        c->starts = false;
        snprintf(c->why_not, sizeof c->why_not,
                 "no step ends within the time limit, after %.0f s that its start is taken to need",
                 SW_START_SETUP_SECONDS);
        return;
    }
    c->jobs = isinf(usable) ? 1 : (int32_t)fmin(ceil(steps_s / usable), 1e6);
    c->jobs = c->jobs > 0 ? c->jobs : 1;
    c->run_s = steps_s + c->jobs * SW_START_SETUP_SECONDS;
    c->result_s = c->jobs * c->wait_s + c->run_s;
}

/* Puts the candidate into all choices of that number of nodes that start. */
static void take_candidate(struct sw_start_choices *out, int32_t nodes,
                           const struct sw_candidate *candidate)
{
    for (int32_t i = 0; i < out->count; i++)
        if (out->choice[i].nodes == nodes && out->choice[i].starts)
            out->choice[i].candidate = *candidate;
}

static void take_none(struct sw_start_choices *out, int32_t nodes, const struct sw_search *search)
{
    for (int32_t i = 0; i < out->count; i++) {
        struct sw_start_choice *c = &out->choice[i];
        if (c->nodes != nodes || !c->starts)
            continue;
        c->starts = false;
        snprintf(c->why_not, sizeof c->why_not, "no mesh fits%s%.200s",
                 search->count > 0 ? ": " : "", search->count > 0 ? search->mesh[0].detail : "");
    }
}

/* The choice that starts first on so many nodes, or -1. */
static int32_t find_first(const struct sw_start_choices *all, int32_t nodes)
{
    int32_t first = -1;
    for (int32_t i = 0; i < all->count; i++)
        if (all->choice[i].nodes == nodes && all->choice[i].starts &&
            (first < 0 || all->choice[i].at < all->choice[first].at))
            first = i;
    return first;
}

/* The mesh of the plan, for all choices. */
static int take_plan(const struct gathering *g, struct sw_start_choices *out, struct sw_error *err)
{
    const int32_t nodes = g->run->cluster.nodes, first = find_first(out, nodes);
    struct sw_candidate candidate;
    if (sw_search_evaluate(g->run, g->only, 0, &candidate, NULL, err) != 0)
        return -1;
    take_candidate(out, nodes, &candidate);
    if (first >= 0)
        out->choice[first].submitted = true;
    return 0;
}

/* The choice that starts first on all nodes, with the mesh that the run itself prefers. */
static void add_submitted(const struct gathering *g, struct sw_start_choices *out,
                          const struct sw_search *search)
{
    const int32_t first = find_first(out, g->run->cluster.nodes);
    if (first < 0)
        return;
    struct sw_start_choice *c = &out->choice[first];
    /* the fastest has a row of its own */
    if (search->fastest > 0 && out->count < CHOICES) {
        struct sw_start_choice *other = &out->choice[out->count++];
        *other = *c;
        other->where = c->where != NULL ? strdup(c->where) : NULL;
        other->candidate = search->mesh[0];
        c = other;
    }
    c->submitted = true;
}

/* Searches once for each number of nodes that can start somewhere. */
static int find_meshes(const struct gathering *g, struct sw_start_choices *out,
                       struct sw_error *err)
{
    const int32_t listed = out->count;
    int32_t searched = 0;
    for (int32_t i = 0; i < listed; i++) {
        struct sw_search search = {0};
        const int32_t nodes = out->choice[i].nodes;
        if (nodes == searched || !out->choice[i].starts)
            continue;
        searched = nodes;
        const struct sw_run_config run = sw_run_on_nodes(g->run, nodes);
        if (sw_search_run(&run, &search, err) != 0)
            return -1;
        if (search.feasible == 0) {
            take_none(out, nodes, &search);
        } else {
            take_candidate(out, nodes, &search.mesh[search.fastest]);
            if (nodes == g->run->cluster.nodes)
                add_submitted(g, out, &search);
        }
        sw_search_free(&search);
    }
    return 0;
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

static int gather(struct gathering *g, struct sw_start_choices *out, struct sw_error *err)
{
    const char *limit = sw_slurm_request_get(g->base, "time");
    if (sw_slurm_load(g->slurm, &g->facts, err) != 0 ||
        sw_slurm_accounting_load(sw_slurm_cluster(g->slurm), &g->accounting, err) != 0 ||
        sw_waits_load(&g->waits, err) != 0 || sw_starts_ratio(g->slurm, &g->log, err) != 0)
        return -1;
    if (sw_slurm_request_get(g->base, "dependency") != NULL &&
        sw_slurm_queue(g->slurm, &g->queue, &g->queued, err) != 0)
        return -1;
    out->settled = g->only != NULL;
    g->limit_s = sw_slurm_time_seconds(limit);
    out->log_jobs = g->log.count;
    out->log_ratio = g->log.count >= SW_STARTS_ENOUGH ? g->log.median : 1;
    if (list_choices(g, out, err) != 0)
        return -1;
    out->now = (int64_t)time(NULL);
    if (ask_starts(g, out, err) != 0)
        return -1;
    for (int32_t i = 0; i < out->count; i++)
        if (out->choice[i].starts)
            expect_wait(g, out->now, &out->choice[i]);
    if ((g->only != NULL ? take_plan(g, out, err) : find_meshes(g, out, err)) != 0)
        return -1;
    for (int32_t i = 0; i < out->count; i++)
        if (out->choice[i].starts)
            expect_result(g, &out->choice[i]);
    qsort(out->choice, (size_t)out->count, sizeof *out->choice, compare_choices);
    return 0;
}

int sw_start_choices_gather(struct sw_slurm *slurm, const struct sw_run_config *run,
                            const struct sw_slurm_request *base, const struct sw_decision *only,
                            struct sw_start_choices *out, struct sw_error *err)
{
    int status = -1;
    *out = (struct sw_start_choices){.log_ratio = 1};
    struct gathering *g = calloc(1, sizeof *g);
    out->choice = calloc(CHOICES, sizeof *out->choice);
    if (g == NULL || out->choice == NULL) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory while asking Slurm");
        goto out;
    }
    g->slurm = slurm;
    g->run = run;
    g->base = base;
    g->only = only;
    status = gather(g, out, err);
    for (int32_t i = 0; i < CHOICES; i++)
        sw_slurm_request_free(&g->request[i]);
    free(g->queue);
    sw_waits_free(&g->waits);
    sw_slurm_accounting_free(&g->accounting);
    sw_slurm_facts_free(&g->facts);
out:
    free(g);
    return status;
}

void sw_start_choices_free(struct sw_start_choices *choices)
{
    for (int32_t i = 0; choices->choice != NULL && i < choices->count; i++)
        free(choices->choice[i].where);
    free(choices->choice);
    *choices = (struct sw_start_choices){0};
}
