#include "planner/search/serve.h"

#include "core/base/clock.h"
#include "planner/format.h"
#include "planner/search/internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { EXPLAINED = 3 }; /* of the rejected, the nearest */

/* ---- The rule ---- */

static int compare_double(double a, double b)
{
    return (a > b) - (a < b);
}

static bool misses(const struct sw_serve_candidate *c)
{
    return c->misses_token || c->misses_first;
}

static int compare(const void *a, const void *b)
{
    const struct sw_serve_candidate *x = a, *y = b;
    const struct sw_serving_price *p = &x->price, *q = &y->price;
    if ((x->reason == SW_FITS) != (y->reason == SW_FITS))
        return x->reason == SW_FITS ? -1 : 1;
    const bool memory_x = x->reason == SW_REJECT_MEMORY, memory_y = y->reason == SW_REJECT_MEMORY;
    if (memory_x != memory_y)
        return memory_x ? -1 : 1;
    int order = 0;
    if (x->reason == SW_FITS) {
        order = (int)misses(x) - (int)misses(y);
        order = order != 0 ? order : compare_double(p->token_seconds, q->token_seconds);
        order = order != 0 ? order : compare_double(p->first_seconds, q->first_seconds);
        order = order != 0 ? order : compare_double(q->tokens_per_second, p->tokens_per_second);
    }
    order = order != 0 ? order : compare_double((double)x->memory.total, (double)y->memory.total);
    return order != 0 ? order : sw_rank_meshes(&x->decision.mesh, &y->decision.mesh);
}

bool sw_serve_better(const struct sw_serve_candidate *a, const struct sw_serve_candidate *b)
{
    return compare(a, b) < 0;
}

const char *sw_serve_why(const struct sw_run_config *run, char *buffer, size_t bytes)
{
    const bool goals = run->serve_token_latency > 0 || run->serve_first_token_latency > 0;
    struct sw_mesh_request request;
    if (sw_mesh_request_parse(run->mesh_dim, &request, NULL) == 0 && !request.is_auto)
        snprintf(buffer, bytes, "the only mesh that mesh_dim allows");
    else
        snprintf(buffer, bytes,
                 "of those that fit%s%s: the least time of a token, then the least time to the "
                 "first, then the most tokens/s per accelerator, then the least memory, then the "
                 "largest fsdp, dp and sp",
                 run->memory_headroom > 0 ? " with headroom" : "",
                 goals ? " and keep the latency goals" : "");
    return buffer;
}

/* ---- One mesh ---- */

static void fill_memory(const struct sw_run_config *run, const struct sw_candidate *training,
                        struct sw_serve_candidate *c)
{
    struct sw_serve_memory *m = &c->memory;
    m->limit = run->cluster.accelerator.memory_bytes;
    m->headroom = sw_headroom_bytes(run);
    m->reserved = run->cluster.accelerator.reserved_memory_bytes;
    m->total = c->price.arena_bytes + m->reserved;
    m->training = training->memory.total;
    m->trains = training->reason == SW_FITS;
}

enum sw_fit_verdict sw_serve_verdict(const struct sw_serve_candidate *c)
{
    const struct sw_memory memory = {
        .limit = c->memory.limit, .headroom = c->memory.headroom, .total = c->memory.total};
    return c->reason == SW_FITS || c->reason == SW_REJECT_MEMORY ? sw_memory_verdict(&memory)
                                                                 : SW_VERDICT_DOES_NOT_FIT;
}

/* What training would do there; where it cannot, what needs least of it. */
static struct sw_decision decide(const struct sw_run_config *run, const struct sw_candidate *c)
{
    if (c->reason == SW_FITS || c->reason == SW_REJECT_MEMORY)
        return c->decision;
    return (struct sw_decision){.mesh = c->decision.mesh,
                                .micro_batch_size = 1,
                                .accumulation_steps = 1,
                                .recompute = sw_recompute_full(),
                                .strategy = run->strategy == SW_ATTENTION_AUTO ? SW_ATTENTION_RING
                                                                               : run->strategy,
                                .layout = run->layout};
}

/* Why a mesh cannot serve at all: what it does not divide. */
static int admit(const struct sw_run_config *run, struct sw_serve_candidate *c,
                 struct sw_error *err)
{
    static const enum sw_program_kind kinds[] = {SW_PROGRAM_PREFILL, SW_PROGRAM_DECODE};
    struct sw_program_options training, options;
    struct sw_serving serving;
    (void)sw_plan_serving(run, &serving);
    if (sw_plan_program_options(run, &c->decision, &training, err) != 0)
        return -1;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && c->reason == SW_FITS; i++) {
        if (sw_serving_options(&training, &serving, kinds[i], &options, err) != 0)
            return sw_fail_context(err, "serve");
        c->reason = sw_program_admits(&options, c->detail, c->help);
    }
    return 0;
}

static void tell_memory(struct sw_serve_candidate *c)
{
    char a[SW_FORMAT_BYTES], b[SW_FORMAT_BYTES], w[SW_FORMAT_BYTES], k[SW_FORMAT_BYTES];
    snprintf(
        c->detail, sizeof c->detail, "needs %s of %s: weights %s%s, cache %s%s",
        sw_format_bytes((double)c->memory.total, a), sw_format_bytes((double)c->memory.limit, b),
        sw_format_bytes((double)c->price.weight_bytes, w), c->price.streams ? " streamed" : "",
        sw_format_bytes((double)c->price.cache_bytes, k),
        c->memory.total <= c->memory.limit ? "; memory_headroom asks for more to stay free" : "");
    snprintf(c->help, sizeof c->help, "use more tp or sp, or more accelerators");
}

static int price(const struct sw_run_config *run, bool keep_order, struct sw_serve_candidate *c,
                 struct sw_error *err)
{
    const int status = keep_order ? sw_serving_price_make(run, &c->decision, &c->price, err)
                                  : sw_serving_price_best_order(run, &c->decision, &c->price, err);
    sw_serving_price_free(&c->price);
    if (status == 0)
        c->decision.mesh = c->price.mesh;
    return status;
}

static int64_t limit_of(const struct sw_serve_candidate *c, bool asked)
{
    return asked ? c->memory.limit : c->memory.limit - c->memory.headroom;
}

static int evaluate(const struct sw_run_config *run, const struct sw_mesh_request *request,
                    const struct sw_candidate *training, struct sw_serve_candidate *c,
                    struct sw_error *err)
{
    *c = (struct sw_serve_candidate){.decision = decide(run, training),
                                     .training_reason = training->reason};
    if (training->reason == SW_REJECT_PRODUCT) {
        c->reason = SW_REJECT_PRODUCT;
        snprintf(c->detail, sizeof c->detail, "%s", training->detail);
        snprintf(c->help, sizeof c->help, "%s", training->help);
        return 0;
    }
    if (admit(run, c, err) != 0)
        return -1;
    if (c->reason != SW_FITS)
        return 0;
    if (price(run, request->keep_order, c, err) != 0)
        return -1;
    fill_memory(run, training, c);
    c->misses_token = sw_serving_misses_token(run, &c->price);
    c->misses_first = sw_serving_misses_first(run, &c->price);
    if (c->memory.total > limit_of(c, !request->is_auto)) {
        c->reason = SW_REJECT_MEMORY;
        tell_memory(c);
    }
    return 0;
}

/* ---- All of them ---- */

static void rank(struct sw_serve_search *s)
{
    qsort(s->mesh, (size_t)s->count, sizeof *s->mesh, compare);
    s->feasible = s->keeping = 0;
    while (s->feasible < s->count && s->mesh[s->feasible].reason == SW_FITS)
        s->keeping += !misses(&s->mesh[s->feasible++]);
}

int sw_serve_search_run(const struct sw_run_config *run, struct sw_serve_search *out,
                        struct sw_error *err)
{
    const double start = sw_clock_now();
    struct sw_search training = {0};
    struct sw_mesh_request request;
    struct sw_serving serving;
    memset(out, 0, sizeof *out);
    if (!sw_plan_serving(run, &serving))
        return sw_fail(err, SW_BAD_INPUT,
                       "the run says nothing of serving; add serve: {max_batch: 8}, or "
                       "--set serve.max_batch=8");
    /* its meshes, and what training needs on each */
    if (sw_search_run(run, &training, err) != 0)
        return -1;
    int status = sw_mesh_request_parse(run->mesh_dim, &request, err);
    out->accelerators = training.accelerators;
    out->mesh = calloc((size_t)training.count + 1, sizeof *out->mesh);
    if (status == 0 && out->mesh == NULL)
        status = sw_fail(err, SW_ENVIRONMENT, "out of memory while searching");
    for (; status == 0 && out->count < training.count; out->count++)
        status = evaluate(run, &request, &training.mesh[out->count], &out->mesh[out->count], err);
    sw_search_free(&training);
    if (status == 0) {
        rank(out);
        status = sw_serve_search_explain(run, out, out->feasible, EXPLAINED, err);
    }
    if (status != 0)
        sw_serve_search_free(out);
    out->seconds = sw_clock_now() - start;
    return status;
}

void sw_serve_search_free(struct sw_serve_search *search)
{
    free(search->mesh);
    *search = (struct sw_serve_search){.count = 0};
}

/* ---- What would make it fit ---- */

/* Whether the mesh would fit with these. */
static int fits_with(const struct sw_run_config *run, const struct sw_serve_candidate *c,
                     int64_t texts, int64_t tokens, bool *fits, struct sw_error *err)
{
    struct sw_run_config other = *run;
    struct sw_serving_price price;
    struct sw_mesh_request request;
    other.serve_max_batch = texts;
    other.serve_max_tokens = tokens;
    *fits = false;
    const bool asked =
        sw_mesh_request_parse(run->mesh_dim, &request, NULL) == 0 && !request.is_auto;
    const int status = sw_serving_price_make(&other, &c->decision, &price, err);
    sw_serving_price_free(&price);
    if (status == 0)
        *fits = price.arena_bytes + c->memory.reserved <= limit_of(c, asked);
    return status;
}

/* Fewer texts, as far as the mesh has fewer; else shorter ones, as long as prompts are. */
static int explain(const struct sw_run_config *run, struct sw_serve_candidate *c,
                   struct sw_error *err)
{
    struct sw_serving serving;
    bool fits = false;
    c->explained = true;
    (void)sw_plan_serving(run, &serving);
    const int64_t rows = (int64_t)c->decision.mesh.size[SW_DP] * c->decision.mesh.size[SW_FSDP];
    const int64_t prompt = sw_plan_workload(run).prompt_tokens;
    int64_t texts = serving.max_batch, tokens = serving.max_tokens;
    while (!fits && texts > rows) {
        texts = texts / 2 > rows ? texts / 2 : rows;
        if (fits_with(run, c, texts, tokens, &fits, err) != 0)
            return -1;
    }
    if (fits) {
        snprintf(c->help, sizeof c->help, "use serve.max_batch: %" PRId64 ", or more tp or sp",
                 texts);
        return 0;
    }
    while (!fits && tokens / 2 > prompt) {
        tokens /= 2;
        if (fits_with(run, c, serving.max_batch, tokens, &fits, err) != 0)
            return -1;
    }
    if (fits)
        snprintf(c->help, sizeof c->help, "use serve.max_tokens: %" PRId64 ", or more tp or sp",
                 tokens);
    return 0;
}

int sw_serve_search_explain(const struct sw_run_config *run, struct sw_serve_search *search,
                            int32_t first, int32_t count, struct sw_error *err)
{
    for (int32_t i = first; i < search->count && i - first < count; i++)
        if (search->mesh[i].reason == SW_REJECT_MEMORY && !search->mesh[i].explained &&
            explain(run, &search->mesh[i], err) != 0)
            return -1;
    return 0;
}
