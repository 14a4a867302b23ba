/* Searching for serving: cost of generating sequences with the model on a mesh (`serve` of the
 * run), by its own programs `prefill`, `decode`, `score` and `read`, in the axis order with the
 * fastest token, with weights gathered or streamed as the mesh needs. */
#include "planner/search/purpose.h"

#include "planner/command/format.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const enum sw_program_kind all_kinds[] = {SW_PROGRAM_PREFILL, SW_PROGRAM_DECODE,
                                                 SW_PROGRAM_SCORE, SW_PROGRAM_READ};
enum { KINDS = sizeof all_kinds / sizeof all_kinds[0] };

/* ---- Programs ---- */

/* Programs of one mesh, owned by the searcher's cache. */
struct served {
    struct sw_sized prefill, decode, read; /* read: no program if it does not exist */
    struct sw_program_options options;     /* options of prefill */
    struct sw_program_options of_decode, of_read;
    enum sw_reject reason;
    char detail[256], help[256]; /* texts of a rejection */
    bool streams, interleaves;
    int64_t arena_bytes;            /* if calls interleave: without decode's transients at first */
    int64_t decode_arena_bytes;     /* decode alone, if calls interleave */
    enum sw_prefill_gather gathers; /* choice of prefill */
    int64_t chunk_bytes[SW_GATHER_KINDS];
};

static int size_passing(struct sw_searcher *s, const struct sw_program_options *training,
                        const struct sw_serving *want, enum sw_program_kind kind,
                        enum sw_prefill_gather gathers, struct sw_program_options *options,
                        struct sw_sized *out, struct sw_error *err)
{
    struct sw_serving one = *want;
    one.gathers = gathers;
    if (sw_serving_options(training, &one, kind, options, err) != 0 ||
        sw_searcher_program(s, options, out, err) != 0)
        return sw_fail_context(err, "serve");
    return 0;
}

/* Sizes the arena for a program of these options in each of its sizes: fewer rows may need more
 * bytes, since small messages are sent whole. */
static int size_fewer(struct sw_searcher *s, const struct sw_program_options *options,
                      int64_t *arena_bytes, struct sw_error *err)
{
    const int64_t reserved = s->run->cluster.accelerator.reserved_memory_bytes;
    struct sw_program_options one = *options;
    struct sw_sized sized;
    int64_t rows[SW_SERVING_SIZES];
    const int32_t count = sw_serving_sizes(options, rows);
    for (int32_t i = 0; i < count; i++) {
        sw_serving_resize(&one, rows[count - 1 - i]); /* all rows last */
        if (sw_searcher_program(s, &one, &sized, err) != 0)
            return -1;
        if (sized.most_bytes - reserved <= *arena_bytes)
            continue;
        sw_sized_place(&sized);
        if (sized.program->arena_bytes > *arena_bytes)
            *arena_bytes = sized.program->arena_bytes;
    }
    return 0;
}

/* Sizes the way that gathers fewer bytes, as sw_program_set_compile_serving does. */
static int size_kind(struct sw_searcher *s, const struct sw_program_options *training,
                     const struct sw_serving *want, enum sw_program_kind kind,
                     struct served *served, struct sw_sized *out, struct sw_error *err)
{
    struct sw_program_options options, other;
    struct sw_sized cache;
    int64_t bytes[SW_GATHER_KINDS] = {0};
    enum sw_prefill_gather gathers = SW_GATHER_QUERIES;
    if (size_passing(s, training, want, kind, SW_GATHER_QUERIES, &options, out, err) != 0)
        return -1;
    if (out->program == NULL) {
        served->reason = sw_searcher_admits(s, &options, served->detail, served->help);
        return 0;
    }
    bytes[SW_GATHER_QUERIES] = sw_program_sent_bytes(out->program);
    if (kind != SW_PROGRAM_DECODE && sw_serving_may_gather_kv(training, want)) {
        if (size_passing(s, training, want, kind, SW_GATHER_KV, &other, &cache, err) != 0)
            return -1;
        bytes[SW_GATHER_KV] = sw_program_sent_bytes(cache.program);
        if (bytes[SW_GATHER_KV] < bytes[SW_GATHER_QUERIES]) {
            gathers = SW_GATHER_KV;
            *out = cache;
        }
    }
    int64_t *arena_bytes = served->interleaves && kind == SW_PROGRAM_DECODE
                               ? &served->decode_arena_bytes
                               : &served->arena_bytes;
    if (size_fewer(s, gathers == SW_GATHER_KV ? &other : &options, arena_bytes, err) != 0)
        return -1;
    if (kind == SW_PROGRAM_DECODE)
        served->of_decode = options;
    if (kind == SW_PROGRAM_READ)
        served->of_read = options;
    if (kind != SW_PROGRAM_PREFILL)
        return 0;
    served->options = options;
    served->gathers = gathers;
    memcpy(served->chunk_bytes, bytes, sizeof bytes);
    return 0;
}

/* Sizes all programs, with weights as in `want`. */
static int size_all(struct sw_searcher *s, const struct sw_program_options *training,
                    const struct sw_serving *want, struct served *out, struct sw_error *err)
{
    *out = (struct served){.reason = SW_FITS,
                           .streams = want->stream_weights,
                           .interleaves = sw_serving_interleaves(training, want)};
    for (int32_t i = 0; i < KINDS && out->reason == SW_FITS; i++) {
        struct sw_sized score;
        struct sw_sized *sized = all_kinds[i] == SW_PROGRAM_PREFILL  ? &out->prefill
                                 : all_kinds[i] == SW_PROGRAM_DECODE ? &out->decode
                                 : all_kinds[i] == SW_PROGRAM_READ   ? &out->read
                                                                     : &score;
        if (!sw_serving_has(training, want, all_kinds[i]))
            continue;
        if (size_kind(s, training, want, all_kinds[i], out, sized, err) != 0)
            return -1;
    }
    if (out->interleaves && out->reason == SW_FITS) {
        const struct sw_program *p = out->prefill.program;
        out->arena_bytes =
            out->decode_arena_bytes +
            sw_serving_decode_shift(out->arena_bytes, p->parameter_bytes + p->cache_bytes);
    }
    return 0;
}

/* True if weights should be streamed: they do not fit otherwise; if they fit neither way, whichever
 * needs less. */
static bool better_streamed(const struct sw_run_config *run, const struct served *gathered,
                            const struct served *streamed)
{
    const struct sw_accelerator_config *a = &run->cluster.accelerator;
    const int64_t all = a->memory_bytes, limit = all - sw_headroom_bytes(run);
    const int64_t more = gathered->arena_bytes + a->reserved_memory_bytes;
    const int64_t less = streamed->arena_bytes + a->reserved_memory_bytes;
    return streamed->reason == SW_FITS && less < more && more > limit &&
           (less <= limit || more > all);
}

static int64_t limit_of(const struct sw_searcher *s)
{
    const int64_t all = s->run->cluster.accelerator.memory_bytes;
    return s->asked ? all : all - sw_headroom_bytes(s->run);
}

/* The run's setting, or ALWAYS if the run leaves open how long a token beside prompts may take, the
 * mesh is one rank of a device that can pause, and memory has room or is not known yet. */
static enum sw_interleave decide_interleave(const struct sw_run_config *run,
                                            const struct sw_mesh *mesh)
{
    const bool open = run->serve_chunk == 0 && run->serve_token_budget == 0 &&
                      !(run->serve_token_latency > 0) && !(run->serve_first_token_latency > 0) &&
                      run->serve_max_batch != 1 && sw_mesh_rank_count(mesh) == 1;
    if (run->serve_interleave != SW_INTERLEAVE_AUTO)
        return run->serve_interleave;
    return open && sw_device_row(run->cluster.accelerator.device)->target.pauses
               ? SW_INTERLEAVE_ALWAYS
               : SW_INTERLEAVE_NEVER;
}

/* Decides serve.stream_weights, and serve.interleave with it, unless the decision or the run does.
 */
static int size_decided(struct sw_searcher *s, struct sw_decision *decision, struct served *out,
                        struct sw_error *err)
{
    const struct sw_run_config *run = s->run;
    struct sw_program_options training;
    struct sw_serving want;
    struct served streamed;
    if (decision->serve.stream_weights == SW_STREAM_AUTO) {
        decision->serve.stream_weights = run->serve_stream_weights;
        decision->serve.interleave = decide_interleave(run, &decision->mesh);
    }
    (void)sw_plan_serving(run, decision, &want);
    if (sw_plan_program_options(run, decision, &training, err) != 0 ||
        size_all(s, &training, &want, out, err) != 0)
        return -1;
    if (out->interleaves && run->serve_interleave == SW_INTERLEAVE_AUTO &&
        out->arena_bytes + run->cluster.accelerator.reserved_memory_bytes > limit_of(s)) {
        want.interleave = false;
        decision->serve.interleave = SW_INTERLEAVE_NEVER;
        if (size_all(s, &training, &want, out, err) != 0)
            return -1;
    }
    if (out->reason != SW_FITS || decision->serve.stream_weights != SW_STREAM_AUTO)
        return 0;
    if (decision->mesh.size[SW_FSDP] > 1 &&
        out->arena_bytes + run->cluster.accelerator.reserved_memory_bytes >
            run->cluster.accelerator.memory_bytes - sw_headroom_bytes(run)) {
        want.stream_weights = true;
        if (size_all(s, &training, &want, &streamed, err) != 0)
            return -1;
        if (better_streamed(run, out, &streamed))
            *out = streamed;
    }
    decision->serve.stream_weights = out->streams ? SW_STREAM_ALWAYS : SW_STREAM_NEVER;
    return 0;
}

/* ---- The price ---- */

/* Bytes of all parts of the cache with that prefix, in all instances. */
static int64_t state_bytes(const struct sw_program *p, const char *name)
{
    int64_t bytes = 0;
    for (int32_t v = 0; v < p->value_count; v++)
        if (p->values[v].role == SW_ROLE_CACHE &&
            strncmp(p->values[v].name, name, strlen(name)) == 0)
            bytes += p->values[v].slot_bytes * p->values[v].stack;
    return bytes;
}

/* running: rows of a rank with tokens of running sequences, in a program that mixes. */
static int price_program(const struct sw_run_config *run, struct sw_sized *sized, int64_t running,
                         const struct sw_mesh *mesh, struct sw_cost *out, struct sw_error *err)
{
    sized->program->mesh = *mesh; /* no size depends on the order */
    struct sw_workload workload = sw_plan_workload(run);
    workload.running = running;
    return sw_cost_price_known(sized->program, &run->cluster, &workload, &sized->counted->known,
                               out, err);
}

/* Prices prefill, with all sequences running if it mixes. */
static int price_prompts(const struct sw_run_config *run, struct served *served,
                         const struct sw_mesh *mesh, struct sw_cost *out, struct sw_error *err)
{
    const struct sw_serving_shape *serving = &served->options.serving;
    return price_program(run, &served->prefill, serving->mixes ? serving->slots_per_rank : 0, mesh,
                         out, err);
}

/* Prices the program of these options in its size for that many rows on a rank of the batch,
 * `running` as above. All sizes share one program: afterwards it has all rows again. */
static int price_size(struct sw_searcher *s, const struct sw_program_options *options,
                      int64_t wanted, int64_t running, const struct sw_mesh *mesh,
                      struct sw_cost *out, struct sw_error *err)
{
    struct sw_program_options one = *options;
    struct sw_sized sized;
    int64_t rows[SW_SERVING_SIZES];
    const int32_t count = sw_serving_sizes(options, rows);
    sw_serving_resize(&one, rows[sw_serving_size(rows, count, wanted)]);
    if (sw_searcher_program(s, &one, &sized, err) != 0 ||
        price_program(s->run, &sized, running, mesh, out, err) != 0)
        return -1;
    return sw_searcher_program(s, options, &sized, err);
}

/* Prices the reading of a prompt that has the rows of its rank of the batch to itself, with no
 * sequence waiting, in the server's calls: of chunks, of `read`, or of prefill that mixes. */
static int price_reading(struct sw_searcher *s, const struct served *served,
                         const struct sw_mesh *mesh, const struct sw_cost *prefill,
                         int64_t prompt_tokens, double *seconds, struct sw_error *err)
{
    const struct sw_program_options *o = &served->options;
    const int64_t budget = o->micro_batch_per_rank * o->serving.chunk;
    const int64_t most =
        served->read.program != NULL ? served->of_read.micro_batch_per_rank : budget;
    int64_t left = o->serving.mixes               ? prompt_tokens
                   : served->read.program != NULL ? sw_serving_tail(prompt_tokens, o->serving.chunk)
                                                  : 0;
    *seconds = (double)((prompt_tokens - left + budget - 1) / budget) * prefill->step_seconds;
    for (int64_t calls; left > 0; left -= calls * most) {
        const bool reads =
            served->read.program != NULL && (!o->serving.mixes || sw_serving_widens(left, budget));
        struct sw_cost call;
        calls = left > most ? left / most : 1;
        if (price_size(s, reads ? &served->of_read : o, left, 0, mesh, &call, err) != 0)
            return -1;
        *seconds += (double)calls * call.step_seconds;
    }
    return 0;
}

/* Rows of single tokens in a call of `read` while other sequences run. */
static int64_t read_beside(const struct served *served)
{
    const int64_t rows = served->of_read.micro_batch_per_rank;
    return served->interleaves
               ? sw_serving_read_beside(served->of_read.serving.slots_per_rank, rows)
               : rows;
}

/* Seconds of a call of chunks between two tokens of the running sequences. */
static double slice_of(const struct served *served, double prompts_seconds, double token_seconds)
{
    const double slice = sw_serving_slice_seconds(token_seconds);
    return served->interleaves && slice < prompts_seconds ? slice : prompts_seconds;
}

/* Prices the longest time between two tokens of a sequence while prompts are read: a call with
 * both, as `read` has, or a call of chunks, or a part of it, followed by a token. */
static int price_beside(struct sw_searcher *s, const struct served *served,
                        const struct sw_mesh *mesh, const struct sw_cost *token,
                        const struct sw_cost *prompts, double *seconds, struct sw_error *err)
{
    const struct sw_program_options *read = &served->of_read;
    struct sw_cost call;
    *seconds = prompts->step_seconds;
    if (served->options.serving.mixes) /* `read` runs when no sequence waits */
        return 0;
    *seconds = slice_of(served, prompts->step_seconds, token->step_seconds) + token->step_seconds;
    if (served->read.program == NULL)
        return 0;
    if (price_size(s, read, read_beside(served), read->serving.slots_per_rank, mesh, &call, err) !=
        0)
        return -1;
    if (call.step_seconds > *seconds)
        *seconds = call.step_seconds;
    return 0;
}

/* Number of calls of at most `rows` rows for that many tokens. */
static int64_t calls_for(int64_t tokens, int64_t rows)
{
    return rows > 0 ? (tokens + rows - 1) / rows : tokens;
}

/* Longest time to a prompt's first token while every other sequence of its rank runs and no other
 * prompt waits: the prompt may arrive while a token is made. beside_seconds: time of each of its
 * calls or, of chunks that interleave, of each of their parts. */
static double price_first_beside(const struct served *served, int64_t prompt_tokens,
                                 double prompts_seconds, double token_seconds,
                                 double beside_seconds)
{
    const struct sw_program_options *o = &served->options;
    const int64_t others = o->serving.slots_per_rank - 1;
    const int64_t budget =
        o->micro_batch_per_rank * o->serving.chunk - (o->serving.mixes ? others : 0);
    const int64_t tail = served->read.program != NULL && !o->serving.mixes
                             ? sw_serving_tail(prompt_tokens, o->serving.chunk)
                             : 0;
    const int64_t rows = tail > 0 ? read_beside(served) - others : 1;
    const int64_t calls = calls_for(prompt_tokens - tail, budget);
    const double slice = slice_of(served, prompts_seconds, token_seconds);
    const double chunks =
        slice < prompts_seconds
            ? prompts_seconds + (floor(prompts_seconds / slice) + 1) * token_seconds
            : beside_seconds;
    return token_seconds + (double)calls * chunks + (double)calls_for(tail, rows) * beside_seconds;
}

/* Finds the order of the mesh's axes with the fastest token, of equals the fastest first token, and
 * the cost of both; the decision's own order if the user set it. */
static int price_orders(struct sw_searcher *s, struct served *served, struct sw_candidate *c,
                        struct sw_error *err)
{
    const int64_t prompt_tokens = sw_plan_workload(s->run).prompt_tokens;
    const int32_t *size = c->decision.mesh.size;
    const struct sw_mesh base =
        s->keep_order ? c->decision.mesh
                      : sw_mesh_make(size[SW_DP], size[SW_FSDP], size[SW_TP], size[SW_SP]);
    /* one link, or one rank: all orders are equal */
    const bool orders = !s->keep_order && s->run->cluster.link_count > 1;
    struct sw_mesh mesh = base;
    for (int32_t k = 0; k == 0 || (orders && sw_search_permute(&base, k, &mesh)); k++) {
        struct sw_cost token, prompts;
        double first_seconds, beside_seconds;
        if (price_program(s->run, &served->decode, 0, &mesh, &token, err) != 0)
            return -1;
        if (k > 0 && token.step_seconds > c->cost.step_seconds)
            continue;
        if (price_prompts(s->run, served, &mesh, &prompts, err) != 0 ||
            price_reading(s, served, &mesh, &prompts, prompt_tokens, &first_seconds, err) != 0 ||
            price_beside(s, served, &mesh, &token, &prompts, &beside_seconds, err) != 0)
            return -1;
        if (k > 0 && token.step_seconds == c->cost.step_seconds &&
            first_seconds >= c->serve.first_seconds)
            continue;
        c->decision.mesh = mesh;
        c->cost = token;
        c->serve.first_seconds = first_seconds;
        c->serve.beside_seconds = beside_seconds;
        c->serve.first_beside_seconds = price_first_beside(
            served, prompt_tokens, prompts.step_seconds, token.step_seconds, beside_seconds);
        c->serve.slice_share =
            slice_of(served, prompts.step_seconds, token.step_seconds) / prompts.step_seconds;
    }
    served->decode.program->mesh = served->prefill.program->mesh = c->decision.mesh;
    return 0;
}

static void fill_memory(const struct sw_run_config *run, const struct served *served,
                        struct sw_memory *m)
{
    const struct sw_program *p = served->prefill.program;
    *m = sw_memory_with_arena(run, served->arena_bytes);
    m->parameters = p->parameter_bytes;
    m->cache = p->cache_bytes;
    m->scales = state_bytes(p, "key scales") + state_bytes(p, "value scales");
    m->transients = m->arena - m->parameters - m->cache;
}

/* True if more accelerators for tp would need less: tp splits weights further; every rank has its
 * share of the cache already. */
static bool more_to_split(const struct sw_candidate *c)
{
    const struct sw_memory *m = &c->memory;
    return c->decision.mesh.size[SW_DP] * c->decision.mesh.size[SW_FSDP] > 1 &&
           m->cache + m->reserved <= m->limit;
}

static void tell_memory(struct sw_candidate *c)
{
    char a[SW_FORMAT_BYTES], b[SW_FORMAT_BYTES], w[SW_FORMAT_BYTES], k[SW_FORMAT_BYTES];
    const struct sw_memory *m = &c->memory;
    snprintf(c->detail, sizeof c->detail, "needs %s of %s: weights %s%s, cache %s%s",
             sw_format_bytes((double)m->total, a), sw_format_bytes((double)m->limit, b),
             sw_format_bytes((double)m->parameters, w),
             c->decision.serve.stream_weights == SW_STREAM_ALWAYS ? " streamed" : "",
             sw_format_bytes((double)m->cache, k),
             m->total <= m->limit ? "; memory_headroom asks for more to stay free" : "");
    snprintf(c->help, sizeof c->help, "use %s%s", more_to_split(c) ? "more tp or sp, or " : "",
             more_to_split(c) ? "more accelerators"
                              : "fewer or shorter sequences, or more accelerators");
}

/* Prices a token with fewer sequences; that with all has its price. */
static int price_sizes(struct sw_searcher *s, const struct served *served, struct sw_candidate *c,
                       struct sw_error *err)
{
    struct sw_serve_price *p = &c->serve;
    const struct sw_program_options *o = &served->of_decode;
    int64_t rows[SW_SERVING_SIZES];
    p->size_count = sw_serving_sizes(o, rows);
    for (int32_t i = 0; i < p->size_count; i++) {
        struct sw_cost cost = c->cost;
        if (i > 0 && price_size(s, o, rows[i], 0, &c->decision.mesh, &cost, err) != 0)
            return -1;
        p->size[i].texts = p->texts / o->micro_batch_per_rank * rows[i];
        p->size[i].seconds = cost.step_seconds;
    }
    return 0;
}

/* Prices serving on the decision's mesh. */
static int price(struct sw_searcher *s, struct served *served, struct sw_candidate *c,
                 struct sw_error *err)
{
    const struct sw_run_config *run = s->run;
    struct sw_serve_price *p = &c->serve;
    if (price_orders(s, served, c, err) != 0)
        return -1;
    fill_memory(run, served, &c->memory);
    p->texts = served->decode.program->micro_batch;
    p->chunk = served->options.serving.chunk;
    p->interleaves = served->interleaves;
    p->token_budget = served->prefill.program->micro_batch * p->chunk;
    if (p->interleaves && p->slice_share < 1)
        p->token_budget = (int64_t)ceil((double)p->token_budget * p->slice_share);
    p->mixes = served->options.serving.mixes;
    p->max_tokens = served->options.serving.max_tokens;
    p->cache = served->options.serving.cache;
    p->weights = served->options.serving.matrices;
    p->prompt_tokens = sw_plan_workload(run).prompt_tokens;
    if (p->texts == 1)
        p->first_beside_seconds = p->first_seconds;
    c->tokens_per_second = c->cost.step_seconds > 0 ? (double)p->texts / c->cost.step_seconds : 0;
    p->decode_bytes = sw_program_sent_bytes(served->decode.program);
    if (price_sizes(s, served, c, err) != 0)
        return -1;
    p->gathers = served->gathers;
    memcpy(p->chunk_bytes, served->chunk_bytes, sizeof p->chunk_bytes);
    p->misses_token =
        run->serve_token_latency > 0 && c->cost.step_seconds > run->serve_token_latency;
    p->misses_first = run->serve_first_token_latency > 0 &&
                      p->first_beside_seconds > run->serve_first_token_latency;
    if (c->memory.total > limit_of(s)) {
        c->reason = SW_REJECT_MEMORY;
        tell_memory(c);
    }
    return 0;
}

/* Decides serve.token_budget if the run has a goal for a token and leaves budget and chunk open:
 * the largest, halving the default, with which a token beside prompts keeps the goal; if none does,
 * the default. The last ones tried mix, down to twice the slots. In the decision's order of
 * axes. */
static int decide_budget(struct sw_searcher *s, struct served *served, struct sw_candidate *c,
                         struct sw_error *err)
{
    enum { LEAST_CHUNK = 32 }; /* for calls that do not mix */
    const struct sw_run_config *run = s->run;
    struct sw_serve_decision *decision = &c->decision.serve;
    const int64_t ways = (int64_t)c->decision.mesh.size[SW_DP] * c->decision.mesh.size[SW_FSDP];
    if (run->serve_token_latency <= 0 || run->serve_token_budget > 0 || run->serve_chunk > 0 ||
        decision->token_budget > 0 || served->reason != SW_FITS)
        return 0;
    for (;;) {
        struct sw_cost token, prompts;
        double beside_seconds;
        const struct sw_program_options *o = &served->options;
        const int64_t half = o->micro_batch_per_rank * o->serving.chunk / 2;
        const int64_t least = o->serving.mixes ? 2 * o->serving.slots_per_rank : LEAST_CHUNK;
        if (price_program(run, &served->decode, 0, &c->decision.mesh, &token, err) != 0 ||
            price_prompts(run, served, &c->decision.mesh, &prompts, err) != 0 ||
            price_beside(s, served, &c->decision.mesh, &token, &prompts, &beside_seconds, err) != 0)
            return -1;
        if (beside_seconds <= run->serve_token_latency)
            return 0;
        const bool none = token.step_seconds > run->serve_token_latency || half < least;
        const bool usual = decision->token_budget == 0;
        decision->token_budget = none ? 0 : half * ways;
        if (none && usual)
            return 0;
        if (size_decided(s, &c->decision, served, err) != 0)
            return -1;
        if (none || served->reason != SW_FITS)
            return 0;
    }
}

/* Puts the first token's goal before a smaller budget: if only the default budget keeps it,
 * `usual`, not priced yet, becomes the candidate. */
static int prefer_first(struct sw_searcher *s, struct sw_candidate *usual, struct sw_candidate *c,
                        struct sw_error *err)
{
    struct served served;
    if (!c->serve.misses_first ||
        c->decision.serve.token_budget == usual->decision.serve.token_budget)
        return 0;
    if (size_decided(s, &usual->decision, &served, err) != 0)
        return -1;
    usual->reason = served.reason;
    if (usual->reason == SW_FITS && price(s, &served, usual, err) != 0)
        return -1;
    if (usual->reason == SW_FITS && !usual->serve.misses_first)
        *c = *usual;
    return 0;
}

/* Fills in a candidate that has a decision. */
static int serve(struct sw_searcher *s, struct sw_candidate *c, struct sw_error *err)
{
    struct served served;
    struct sw_candidate usual = *c;
    if (size_decided(s, &c->decision, &served, err) != 0 || decide_budget(s, &served, c, err) != 0)
        return -1;
    c->reason = served.reason;
    if (served.reason == SW_FITS)
        return price(s, &served, c, err) != 0 ? -1 : prefer_first(s, &usual, c, err);
    snprintf(c->detail, sizeof c->detail, "%s", served.detail);
    snprintf(c->help, sizeof c->help, "%s", served.help);
    return 0;
}

/* Searches training as well, since the plan and the report contain it. */
int sw_search_mesh_to_serve(struct sw_searcher *s, struct sw_preferences *preferences,
                            struct sw_candidate *out, struct sw_error *err)
{
    struct sw_candidate training = *out;
    if (sw_search_mesh(s, preferences, &training, err) != 0)
        return -1;
    const bool trains = training.reason == SW_FITS || training.reason == SW_REJECT_MEMORY;
    *out = (struct sw_candidate){.decision.mesh = training.decision.mesh,
                                 .serve.training_bytes = training.memory.total,
                                 .serve.trains = training.reason == SW_FITS};
    if (trains)
        out->decision.train = training.decision.train;
    return serve(s, out, err);
}

/* ---- The order of meshes ---- */

static int compare_double(double a, double b)
{
    return (a > b) - (a < b);
}

static bool misses(const struct sw_candidate *c)
{
    return c->serve.misses_token || c->serve.misses_first;
}

static int compare(const void *a, const void *b)
{
    const struct sw_candidate *x = a, *y = b;
    int order = sw_rank_fit(x, y);
    if (order == 0)
        order = (int)misses(x) - (int)misses(y);
    if (order == 0)
        order = compare_double(x->cost.step_seconds, y->cost.step_seconds);
    if (order == 0)
        order = compare_double(x->serve.first_seconds, y->serve.first_seconds);
    if (order == 0)
        order = compare_double(y->tokens_per_second, x->tokens_per_second);
    if (order == 0)
        order = compare_double((double)x->memory.total, (double)y->memory.total);
    return order != 0 ? order : sw_rank_meshes(&x->decision.mesh, &y->decision.mesh);
}

void sw_rank_to_serve(struct sw_search *search, const struct sw_run_config *run)
{
    (void)run;
    sw_rank_sort(search, compare);
    while (search->keeping > 0 && misses(&search->mesh[search->keeping - 1]))
        search->keeping--;
}

/* ---- Changes that make it fit ---- */

/* True if the mesh would fit with these. */
static int fits_with(const struct sw_searcher *s, const struct sw_candidate *c, int64_t texts,
                     int64_t tokens, bool *fits, struct sw_error *err)
{
    struct sw_run_config run = *s->run;
    struct sw_searcher other = *s;
    struct sw_decision decision = c->decision;
    struct served served;
    run.serve_max_batch = texts;
    run.serve_max_tokens = tokens;
    other.run = &run;
    decision.serve.stream_weights = SW_STREAM_AUTO;
    if (size_decided(&other, &decision, &served, err) != 0)
        return -1;
    *fits = served.reason == SW_FITS && served.arena_bytes + c->memory.reserved <= limit_of(s);
    return 0;
}

/* Suggests fewer sequences, as far as the mesh has fewer; else shorter ones, down to the length of
 * prompts. */
static int explain_memory(const struct sw_searcher *s, struct sw_candidate *c, struct sw_error *err)
{
    struct sw_serving serving;
    bool fits = false;
    (void)sw_plan_serving(s->run, &c->decision, &serving);
    const int64_t rows = (int64_t)c->decision.mesh.size[SW_DP] * c->decision.mesh.size[SW_FSDP];
    const int64_t prompt = sw_plan_workload(s->run).prompt_tokens;
    int64_t texts = serving.max_batch, tokens = serving.max_tokens;
    while (!fits && texts > rows) {
        texts = texts / 2 > rows ? texts / 2 : rows;
        if (fits_with(s, c, texts, tokens, &fits, err) != 0)
            return -1;
    }
    if (fits) {
        snprintf(c->help, sizeof c->help, "use serve.max_batch: %" PRId64 ", or more %s", texts,
                 more_to_split(c) ? "tp or sp" : "accelerators");
        return 0;
    }
    while (!fits && tokens / 2 > prompt) {
        tokens /= 2;
        if (fits_with(s, c, serving.max_batch, tokens, &fits, err) != 0)
            return -1;
    }
    if (fits)
        snprintf(c->help, sizeof c->help, "use serve.max_tokens: %" PRId64 ", or more %s", tokens,
                 more_to_split(c) ? "tp or sp" : "accelerators");
    return 0;
}

int sw_search_explain_to_serve(const struct sw_searcher *s, struct sw_search *search, int32_t first,
                               int32_t count, struct sw_error *err)
{
    for (int32_t i = first; i < search->count && i - first < count; i++) {
        struct sw_candidate *c = &search->mesh[i];
        if (c->reason == SW_REJECT_PRODUCT && /* the same for both purposes */
            sw_search_explain_with(s, search, i, 1, err) != 0)
            return -1;
        if (c->reason == SW_REJECT_MEMORY && !c->explained && explain_memory(s, c, err) != 0)
            return -1;
        c->explained = true;
    }
    return 0;
}

/* ---- One decision ---- */

int sw_search_evaluate_serving(const struct sw_run_config *run, const struct sw_decision *decision,
                               struct sw_candidate *out, struct sw_error *err)
{
    struct sw_run_config served = *run;
    struct sw_searcher s = {.run = &served, .keep_order = true, .asked = true};
    sw_profile_for_serving(&served.cluster);
    s.cache = sw_program_cache_new(1);
    if (s.cache == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while searching");
    *out = (struct sw_candidate){.decision = *decision};
    const int status = serve(&s, out, err);
    sw_program_cache_free(s.cache);
    return status;
}

int sw_search_serving_programs(const struct sw_run_config *run, struct sw_decision *decision,
                               struct sw_program_set **out, struct sw_error *err)
{
    struct sw_program_options options;
    struct sw_serving want;
    uint32_t kinds = 0;
    *out = NULL;
    if (!sw_plan_serving(run, decision, &want))
        return 0;
    if (decision->serve.stream_weights == SW_STREAM_AUTO) {
        struct sw_candidate c;
        if (sw_search_evaluate_serving(run, decision, &c, err) != 0)
            return -1;
        decision->serve = c.decision.serve;
        (void)sw_plan_serving(run, decision, &want);
    }
    for (int32_t i = 0; i < KINDS; i++)
        kinds |= 1u << all_kinds[i];
    if (sw_plan_program_options(run, decision, &options, err) != 0)
        return -1;
    if (sw_program_set_compile_serving(&options, &want, kinds, out, err) != 0)
        return sw_fail_context(err, "serve");
    return 0;
}

bool sw_search_serving_fits(const struct sw_run_config *run, const struct sw_program_set *programs)
{
    const struct sw_memory memory = sw_memory_with_arena(run, programs->arena_bytes);
    return sw_memory_verdict(&memory) != SW_VERDICT_DOES_NOT_FIT;
}

int sw_search_serving_digests(const struct sw_run_config *run, struct sw_decision *decision,
                              uint64_t digest[SW_PROGRAM_KINDS], struct sw_error *err)
{
    struct sw_program_set *set = NULL;
    uint64_t all[SW_PROGRAM_KINDS];
    int status = sw_search_serving_programs(run, decision, &set, err);
    if (status != 0 || set == NULL)
        return status;
    if (sw_search_serving_fits(run, set)) {
        sw_program_set_digests(set, all);
        for (int32_t i = 0; i < KINDS; i++)
            digest[all_kinds[i]] = all[all_kinds[i]];
    } else {
        char needed[SW_FORMAT_BYTES], there[SW_FORMAT_BYTES];
        const struct sw_memory memory = sw_memory_with_arena(run, set->arena_bytes);
        status = sw_fail(err, SW_UNMET,
                         "serve: %s of %s per accelerator; use a smaller max_batch or max_tokens%s",
                         sw_format_bytes((double)memory.total, needed),
                         sw_format_bytes((double)memory.limit, there),
                         run->serve_stream_weights == SW_STREAM_NEVER ? ", or stream_weights: auto"
                                                                      : "");
    }
    sw_program_set_free(set);
    return status;
}
