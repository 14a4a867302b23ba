#include "planner/serving.h"

#include "planner/format.h"
#include "planner/search/internal.h"

#include <string.h>

static const uint32_t all_kinds =
    1u << SW_PROGRAM_PREFILL | 1u << SW_PROGRAM_DECODE | 1u << SW_PROGRAM_SCORE;

static int64_t total_bytes(const struct sw_run_config *run, const struct sw_program_set *set)
{
    return set->arena_bytes + run->cluster.accelerator.reserved_memory_bytes;
}

/* Weights are streamed where they do not fit else; where they do not fit so either, whichever
 * needs less. *out: one of both, the other is freed. */
static void choose(const struct sw_run_config *run, struct sw_program_set *gathered,
                   struct sw_program_set *streamed, struct sw_program_set **out)
{
    const int64_t all = run->cluster.accelerator.memory_bytes;
    const int64_t limit = all - sw_headroom_bytes(run);
    const int64_t more = total_bytes(run, gathered), less = total_bytes(run, streamed);
    const bool stream = less < more && more > limit && (less <= limit || more > all);
    *out = stream ? streamed : gathered;
    sw_program_set_free(stream ? gathered : streamed);
}

/* *out NULL: the run says nothing of it. *streams (may be NULL): what was chosen. */
static int compile(const struct sw_run_config *run, const struct sw_decision *decision,
                   struct sw_program_set **out, bool *streams, struct sw_error *err)
{
    struct sw_program_options options;
    struct sw_program_set *gathered = NULL, *streamed = NULL;
    struct sw_serving serving;
    *out = NULL;
    if (!sw_plan_serving(run, &serving))
        return 0;
    if (sw_plan_program_options(run, decision, &options, err) != 0)
        return -1;
    if (sw_program_set_compile_serving(&options, &serving, all_kinds, &gathered, err) != 0)
        return sw_fail_context(err, "serve");
    *out = gathered;
    if (run->serve_stream_weights == SW_STREAM_AUTO && decision->mesh.size[SW_FSDP] > 1 &&
        total_bytes(run, gathered) >
            run->cluster.accelerator.memory_bytes - sw_headroom_bytes(run)) {
        serving.stream_weights = true;
        if (sw_program_set_compile_serving(&options, &serving, all_kinds, &streamed, err) != 0) {
            sw_program_set_free(gathered);
            *out = NULL;
            return sw_fail_context(err, "serve");
        }
        choose(run, gathered, streamed, out);
    }
    if (streams != NULL)
        *streams = serving.stream_weights && (streamed == NULL || *out == streamed);
    return 0;
}

/* ---- What a token waits for ---- */

enum sw_token_limit sw_serving_limit(const struct sw_cost_parts *t)
{
    enum sw_token_limit limit = t->weights >= t->cache ? SW_LIMIT_WEIGHTS : SW_LIMIT_CACHE;
    const double most = t->weights >= t->cache ? t->weights : t->cache;
    if (t->waiting > most && t->waiting >= t->rest)
        return t->gathers > t->reduces ? SW_LIMIT_GATHERS : SW_LIMIT_REDUCTIONS;
    if (t->rest > most)
        limit = SW_LIMIT_REST;
    return limit;
}

const char *sw_serving_limit_name(enum sw_token_limit limit)
{
    static const char *const names[] = {[SW_LIMIT_WEIGHTS] = "weights",
                                        [SW_LIMIT_CACHE] = "cache",
                                        [SW_LIMIT_REDUCTIONS] = "reductions",
                                        [SW_LIMIT_GATHERS] = "gathers",
                                        [SW_LIMIT_REST] = "rest"};
    return names[limit];
}

/* ---- The price ---- */

static int64_t row_bytes(const struct sw_state *state, const char *name)
{
    const struct sw_state_row *row = sw_state_find(state, name);
    return row != NULL ? row->instance_bytes * row->stack : 0;
}

/* With the order of axes that the programs' meshes have. */
static int price(const struct sw_run_config *run, struct sw_serving_price *out,
                 struct sw_error *err)
{
    const struct sw_program_set *set = out->programs;
    const struct sw_program *p = set->program[SW_PROGRAM_PREFILL];
    struct sw_cost prefill, decode;
    struct sw_serving serving;
    const struct sw_workload workload = sw_plan_workload(run);
    if (sw_cost_price(p, &run->cluster, &workload, &prefill, err) != 0 ||
        sw_cost_price(set->program[SW_PROGRAM_DECODE], &run->cluster, &workload, &decode, err) != 0)
        return -1;
    (void)sw_plan_serving(run, &serving);
    out->mesh = p->mesh;
    out->texts = p->micro_batch;
    out->chunk = p->sequence_length;
    out->max_tokens = sw_state_find(&set->state, "key cache")->size[1];
    out->prompt_tokens = workload.prompt_tokens;
    out->cache = serving.cache;
    out->token_seconds = decode.step_seconds;
    out->first_seconds =
        (double)((out->prompt_tokens + out->chunk - 1) / out->chunk) * prefill.step_seconds;
    out->tokens_per_second = decode.step_seconds > 0 ? (double)out->texts / decode.step_seconds : 0;
    out->decode_bytes = sw_program_sent_bytes(set->program[SW_PROGRAM_DECODE]);
    memcpy(out->chunk_bytes, set->chunk_bytes, sizeof out->chunk_bytes);
    out->passes = set->passes;
    out->arena_bytes = set->arena_bytes;
    out->weight_bytes = set->state.parameter_bytes;
    out->cache_bytes = set->state.cache_bytes;
    out->scale_bytes =
        row_bytes(&set->state, "key scales") + row_bytes(&set->state, "value scales");
    out->transient_bytes = set->arena_bytes - out->weight_bytes - out->cache_bytes;
    out->time = decode.parts;
    return 0;
}

int sw_serving_price_make(const struct sw_run_config *run, const struct sw_decision *decision,
                          struct sw_serving_price *out, struct sw_error *err)
{
    memset(out, 0, sizeof *out);
    if (compile(run, decision, &out->programs, &out->streams, err) != 0)
        return -1;
    return out->programs == NULL ? 0 : price(run, out, err);
}

static void set_order(struct sw_program_set *set, const struct sw_mesh *mesh)
{
    for (int32_t k = 0; k < SW_PROGRAM_KINDS; k++)
        if (set->program[k] != NULL)
            set->program[k]->mesh = *mesh; /* no size follows the order */
}

int sw_serving_price_best_order(const struct sw_run_config *run, const struct sw_decision *decision,
                                struct sw_serving_price *out, struct sw_error *err)
{
    const int32_t *size = decision->mesh.size;
    const struct sw_mesh base = sw_mesh_make(size[SW_DP], size[SW_FSDP], size[SW_TP], size[SW_SP]);
    struct sw_decision first = *decision;
    struct sw_serving_price best;
    struct sw_mesh mesh;
    first.mesh = base;
    if (sw_serving_price_make(run, &first, out, err) != 0)
        return -1;
    best = *out;
    /* one link, or one rank: every order lies on it alike */
    for (int32_t k = 1;
         out->programs != NULL && run->cluster.link_count > 1 && sw_search_permute(&base, k, &mesh);
         k++) {
        set_order(out->programs, &mesh);
        if (price(run, out, err) != 0)
            return -1;
        if (out->token_seconds < best.token_seconds ||
            (out->token_seconds == best.token_seconds && out->first_seconds < best.first_seconds))
            best = *out;
    }
    *out = best;
    if (out->programs != NULL)
        set_order(out->programs, &out->mesh);
    return 0;
}

bool sw_serving_misses_token(const struct sw_run_config *run, const struct sw_serving_price *price)
{
    return run->serve_token_latency > 0 && price->token_seconds > run->serve_token_latency;
}

bool sw_serving_misses_first(const struct sw_run_config *run, const struct sw_serving_price *price)
{
    return run->serve_first_token_latency > 0 &&
           price->first_seconds > run->serve_first_token_latency;
}

int sw_serving_settle(struct sw_run_config *run, const struct sw_decision *decision,
                      struct sw_error *err)
{
    struct sw_program_set *set = NULL;
    bool streams = false;
    if (run->serve_stream_weights != SW_STREAM_AUTO)
        return 0;
    if (compile(run, decision, &set, &streams, err) != 0)
        return -1;
    if (set != NULL)
        run->serve_stream_weights = streams ? SW_STREAM_ALWAYS : SW_STREAM_NEVER;
    sw_program_set_free(set);
    return 0;
}

bool sw_serving_fits(const struct sw_run_config *run, const struct sw_program_set *programs)
{
    return total_bytes(run, programs) <= run->cluster.accelerator.memory_bytes;
}

void sw_serving_price_free(struct sw_serving_price *price)
{
    sw_program_set_free(price->programs);
    price->programs = NULL;
}

int sw_serving_digests(const struct sw_run_config *run, const struct sw_decision *decision,
                       uint64_t digest[SW_PROGRAM_KINDS], struct sw_error *err)
{
    struct sw_program_set *set = NULL;
    uint64_t all[SW_PROGRAM_KINDS];
    if (compile(run, decision, &set, NULL, err) != 0)
        return -1;
    if (set == NULL)
        return 0;
    if (!sw_serving_fits(run, set)) {
        char needed[SW_FORMAT_BYTES], there[SW_FORMAT_BYTES];
        const struct sw_accelerator_config *a = &run->cluster.accelerator;
        sw_fail(err, SW_UNMET,
                "serve: %s of %s per accelerator; use a smaller max_batch or max_tokens%s",
                sw_format_bytes((double)(set->arena_bytes + a->reserved_memory_bytes), needed),
                sw_format_bytes((double)a->memory_bytes, there),
                run->serve_stream_weights == SW_STREAM_NEVER ? ", or stream_weights: auto" : "");
        sw_program_set_free(set);
        return -1;
    }
    sw_program_set_digests(set, all);
    for (int32_t k = 0; k < SW_PROGRAM_KINDS; k++)
        if (set->program[k] != NULL)
            digest[k] = all[k];
    sw_program_set_free(set);
    return 0;
}
