/* Guesses that order what the search tries. They rest on the sizes of one program of the mesh and
 * on the times of its ops alone, without the two streams; what is reported is always priced. */
#include "planner/search_internal.h"

#include "planner/links.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Share of the full level's saving (memory) and price (time) that recomputing attention alone has:
 * attention's inputs are a few of the values a layer saves. */
static const double attention_memory_share = 0.15, attention_time_share = 0.15;

enum { MAX_TRAFFIC = 64 };

/* Collectives of one kind over one group. */
struct traffic {
    uint8_t kind;
    struct sw_axes axes;
    enum { BATCH, AGAIN, WEIGHT_FORWARD, WEIGHT_BACKWARD, ONCE, RING } what;
    double calls, bytes; /* in a step; bytes of all calls */
    double block;        /* ring: seconds of computing on one block */
};
struct traffics {
    struct traffic entry[MAX_TRAFFIC];
    int32_t count;
};

static bool has_batch(const struct sw_value *value)
{
    for (uint8_t d = 0; d < value->ndim; d++)
        if (value->axis[d] == SW_L_BATCH)
            return true;
    return false;
}

static bool is_ring(const struct sw_op *op)
{
    return op->kind == SW_OP_RING_ATTENTION || op->kind == SW_OP_RING_ATTENTION_GRAD;
}

static struct traffic *find_traffic(struct traffics *t, const struct traffic *like)
{
    for (int32_t i = 0; i < t->count; i++)
        if (t->entry[i].kind == like->kind && t->entry[i].what == like->what &&
            sw_axes_equal(t->entry[i].axes, like->axes))
            return &t->entry[i];
    if (t->count == MAX_TRAFFIC)
        return &t->entry[MAX_TRAFFIC - 1];
    t->entry[t->count] = *like;
    return &t->entry[t->count++];
}

/* Whether an op of this backward region repeats one of the forward pass: recomputation begins a
 * layer's backward region, and its collectives with it. */
static bool repeats(const struct sw_program *p, int32_t i, int32_t last_again)
{
    return p->ops[i].stage == SW_STAGE_RECOMPUTE || i < last_again;
}

static int32_t find_last_again(const struct sw_program *p, const struct sw_region *region)
{
    int32_t last = -1;
    for (int32_t i = region->first_op; i < region->first_op + region->op_count; i++)
        if (p->ops[i].stage == SW_STAGE_RECOMPUTE)
            last = i;
    return last;
}

static void collect_traffic(const struct sw_program *p, const struct sw_run_config *run,
                            struct traffics *out)
{
    out->count = 0;
    for (int32_t r = 0; r < p->region_count; r++) {
        const struct sw_region *region = &p->regions[r];
        const int32_t last_again = find_last_again(p, region);
        for (int32_t i = region->first_op; i < region->first_op + region->op_count; i++) {
            const struct sw_op *op = &p->ops[i];
            if (!sw_op_is_collective(op->kind) && !is_ring(op))
                continue;
            struct traffic like = {.kind = op->kind, .axes = sw_axes_effective(&p->mesh, op->axes)};
            if (like.axes.count == 0)
                continue;
            if (is_ring(op)) {
                like.what = RING;
                like.block = sw_cost_op_seconds(p, op, run) / sw_axes_size(&p->mesh, like.axes);
            } else if (region->phase == SW_PHASE_UPDATE || op->last_micro_step) {
                like.what = ONCE;
            } else if (!has_batch(&p->values[op->in[0].value])) {
                like.what = region->phase == SW_PHASE_FORWARD ? WEIGHT_FORWARD : WEIGHT_BACKWARD;
            } else {
                like.what = repeats(p, i, last_again) ? AGAIN : BATCH;
            }
            struct traffic *t = find_traffic(out, &like);
            const double times = sw_program_runs(p, region, op);
            t->calls += times;
            t->bytes += times * (double)sw_op_communication_bytes(p, op);
        }
    }
}

struct spans {
    bool known[1 << SW_AXIS_COUNT];
    struct sw_span span[1 << SW_AXIS_COUNT];
};

/* Seconds of a step in which that traffic keeps the links busy or, in a ring, compute waiting. */
static double traffic_seconds(const struct traffic *t, const struct sw_run_config *run,
                              const struct sw_mesh *mesh, struct spans *spans)
{
    const sw_axis_set set = sw_axes_set(t->axes);
    struct sw_span *span = &spans->span[set];
    if (!spans->known[set])
        sw_links_span(&run->cluster, mesh, t->axes, span);
    spans->known[set] = true;
    if (t->calls == 0)
        return 0;
    if (t->what != RING)
        return t->calls * sw_links_seconds(&run->cluster, span, t->kind, t->bytes / t->calls);
    const double hops = span->ranks - (t->kind == SW_OP_RING_ATTENTION ? 1 : 0);
    const double hop = sw_links_hop_seconds(&run->cluster, span, t->bytes / t->calls / hops);
    return t->calls * (hop > t->block ? (hop - t->block) * (span->ranks - 1) : 0) +
           t->calls * (t->kind == SW_OP_RING_ATTENTION ? 0 : hop);
}

/* Of a phase: weights travel while activations are computed with; where both take as long, op by op
 * one waits for the other. The root of the squares follows the priced timeline within some percent
 * from all hidden to none. */
static double combine(double compute, double weight)
{
    return sqrt(compute * compute + weight * weight);
}

/* Bytes, from the shapes: what grows with the micro-batch, what recomputation saves. */
static int guess_bytes(const struct sw_sized *sized, struct sw_guess *g, struct sw_error *err)
{
    const struct sw_program *p = sized->program;
    double stacked = 0, moving = 0, fixed = 1, saved = 0;
    bool *written = calloc((size_t)p->value_count + 1, sizeof *written);
    if (written == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while searching");
    for (int32_t i = 0; i < p->op_count; i++) {
        const struct sw_op *op = &p->ops[i];
        for (uint8_t k = 0; k < op->n_out; k++) {
            const struct sw_value *value = &p->values[op->out[k].value];
            written[op->out[k].value] = true;
            if (op->stage == SW_STAGE_RECOMPUTE && has_batch(value))
                saved += (double)value->slot_bytes * p->layers;
        }
    }
    for (int32_t v = 0; v < p->value_count; v++) {
        const struct sw_value *value = &p->values[v];
        const double bytes = (double)(value->slot_bytes * value->slots);
        /* partition leaves values that nothing writes any more: they have no storage */
        if (value->role != SW_ROLE_ACTIVATION || value->alias >= 0 || !written[v])
            continue;
        if (!has_batch(value))
            fixed += bytes;
        else if (value->slots > 2)
            stacked += bytes;
        else
            moving += bytes;
    }
    free(written);
    const double state = (double)(p->parameter_bytes + p->gradient_bytes + p->optimizer_bytes);
    double rest = (double)p->arena_bytes - state - stacked;
    if (rest < 0)
        rest = 0;
    g->fixed_bytes =
        (double)(sized->least_bytes - p->arena_bytes) + state + rest * fixed / (fixed + moving);
    g->bytes_per_sequence = stacked + rest * moving / (fixed + moving);
    g->saved_bytes = saved;
    return 0;
}

static bool touches_batch(const struct sw_program *p, const struct sw_op *op)
{
    for (uint8_t k = 0; k < op->n_in; k++)
        if (has_batch(&p->values[op->in[k].value]))
            return true;
    for (uint8_t k = 0; k < op->n_out; k++)
        if (has_batch(&p->values[op->out[k].value]))
            return true;
    return false;
}

void sw_guess_compute(const struct sw_program *p, const struct sw_run_config *run,
                      struct sw_compute *out)
{
    *out = (struct sw_compute){0};
    for (int32_t r = 0; r < p->region_count; r++) {
        const struct sw_region *region = &p->regions[r];
        const bool update = region->phase == SW_PHASE_UPDATE;
        const int32_t phase = region->phase == SW_PHASE_FORWARD ? 0 : 1;
        const double times = (double)region->repeat * (update ? 1 : p->accumulation_steps);
        for (int32_t i = region->first_op; i < region->first_op + region->op_count; i++) {
            const struct sw_op *op = &p->ops[i];
            if (sw_op_is_collective(op->kind) || op->kind == SW_OP_WAIT)
                continue;
            const double seconds = times * sw_cost_op_seconds(p, op, run);
            if (update)
                out->update += seconds;
            else if (!touches_batch(p, op))
                out->weights[phase] += seconds;
            else
                *(op->stage == SW_STAGE_RECOMPUTE ? &out->again : &out->phase[phase]) += seconds;
        }
    }
}

int sw_guess_from(const struct sw_sized *sized, const struct sw_run_config *run,
                  const struct sw_compute *compute, struct sw_guess *out, struct sw_error *err)
{
    struct traffics traffics;
    struct spans spans;
    memset(&spans.known, 0, sizeof spans.known);
    memset(out, 0, sizeof *out);
    collect_traffic(sized->program, run, &traffics);
    for (int32_t i = 0; i < traffics.count; i++) {
        const struct traffic *t = &traffics.entry[i];
        const double seconds = traffic_seconds(t, run, &sized->decision.mesh, &spans);
        switch (t->what) {
        case WEIGHT_FORWARD:
        case WEIGHT_BACKWARD:
            out->weight_seconds[t->what - WEIGHT_FORWARD] += seconds;
            break;
        case ONCE:
            out->once_seconds += seconds;
            break;
        case AGAIN:
            out->again_seconds += seconds;
            break;
        case BATCH:
        case RING:
            out->batch_seconds += seconds;
            break;
        }
    }
    out->compute = *compute;
    out->sequences = (double)sized->decision.micro_batch_size;
    return guess_bytes(sized, out, err);
}

void sw_guess_option(const struct sw_guess *g, struct sw_option *o)
{
    double kept = 0, again = 1;
    if (o->recompute == SW_RECOMPUTE_NONE) {
        kept = 1;
        again = 0;
    } else if (o->recompute == SW_RECOMPUTE_ATTENTION) {
        kept = 1 - attention_memory_share;
        again = attention_time_share;
    }
    const double times = (double)o->micro_batch_size / g->sequences;
    o->bytes = g->fixed_bytes + times * (g->bytes_per_sequence + kept * g->saved_bytes);
    const struct sw_compute *c = &g->compute;
    o->seconds = combine(c->phase[0] + c->weights[0] / times, g->weight_seconds[0] / times) +
                 combine(c->phase[1] + c->weights[1] / times + again * c->again,
                         g->weight_seconds[1] / times) +
                 c->update + g->once_seconds + g->batch_seconds + again * g->again_seconds;
}

int sw_guess_compare(const void *a, const void *b)
{
    const struct sw_option *x = a, *y = b;
    if (x->seconds != y->seconds)
        return x->seconds < y->seconds ? -1 : 1;
    if (x->variant != y->variant)
        return x->variant < y->variant ? -1 : 1;
    if (x->recompute != y->recompute)
        return x->recompute < y->recompute ? -1 : 1;
    return (x->micro_batch_size < y->micro_batch_size) -
           (x->micro_batch_size > y->micro_batch_size);
}

/* Powers of two that divide, largest last, and all sequences at once. */
static int32_t micro_batches(const struct sw_run_config *run, int64_t per_rank,
                             int64_t out[SW_MAX_MICRO_BATCHES])
{
    int32_t count = 0;
    if (run->micro_batch_size > 0) {
        out[count++] = run->micro_batch_size;
        return count;
    }
    int64_t size = 1;
    for (; per_rank % size == 0 && count < SW_MAX_MICRO_BATCHES - 1; size *= 2)
        out[count++] = size;
    if (count > 0 && out[count - 1] != per_rank)
        out[count++] = per_rank;
    return count;
}

int32_t sw_guess_options(const struct sw_run_config *run, int64_t per_rank, int32_t variant,
                         struct sw_option out[3 * SW_MAX_MICRO_BATCHES])
{
    int64_t sizes[SW_MAX_MICRO_BATCHES];
    const int32_t n = micro_batches(run, per_rank, sizes);
    int32_t count = 0;
    for (int32_t level = SW_RECOMPUTE_NONE; level <= SW_RECOMPUTE_FULL; level++)
        for (int32_t i = n - 1; i >= 0; i--)
            if (run->recompute == SW_RECOMPUTE_AUTO || run->recompute == (enum sw_recompute)level)
                out[count++] =
                    (struct sw_option){(enum sw_recompute)level, sizes[i], variant, 0, 0};
    return count;
}

/* ---- Axis orders ---- */

/* The k-th permutation of the axes that split something, in the places that the default order gives
 * them; the others stay where they are. Returns false beyond the last. */
static bool permute(const struct sw_mesh *base, int32_t k, struct sw_mesh *out)
{
    int32_t place[SW_AXIS_COUNT], n = 0, radix = 1;
    uint8_t left[SW_AXIS_COUNT];
    for (int32_t i = 0; i < SW_AXIS_COUNT; i++)
        if (base->size[base->order[i]] > 1)
            place[n++] = i;
    for (int32_t i = 0; i < n; i++) {
        left[i] = base->order[place[i]];
        radix *= i + 1;
    }
    if (k >= radix)
        return false;
    *out = *base;
    for (int32_t i = 0; i < n; i++) {
        radix /= n - i;
        const int32_t pick = k / radix;
        k %= radix;
        out->order[place[i]] = left[pick];
        memmove(&left[pick], &left[pick + 1], (size_t)(n - i - 1 - pick));
    }
    return true;
}

int32_t sw_guess_orders(const struct sw_program *p, const struct sw_run_config *run,
                        const struct sw_compute *c, struct sw_mesh *out)
{
    double guess[SW_MAX_ORDERS];
    int32_t count = 0;
    struct traffics traffics;
    struct sw_mesh mesh;
    const struct sw_cluster_config *cluster = &run->cluster;
    out[0] = sw_mesh_make(p->mesh.size[SW_DP], p->mesh.size[SW_FSDP], p->mesh.size[SW_TP],
                          p->mesh.size[SW_SP]);
    const struct sw_mesh base = out[0];
    if (cluster->link_count <= 1 || !permute(&base, 1, &mesh))
        return 1; /* every order lies on the links alike */
    collect_traffic(p, run, &traffics);
    for (int32_t k = 0; permute(&base, k, &mesh); k++) {
        struct spans spans;
        double weight[2] = {0, 0}, rest = 0;
        memset(&spans.known, 0, sizeof spans.known);
        for (int32_t i = 0; i < traffics.count; i++) {
            const struct traffic *t = &traffics.entry[i];
            const double seconds = traffic_seconds(t, run, &mesh, &spans);
            if (t->what == WEIGHT_FORWARD || t->what == WEIGHT_BACKWARD)
                weight[t->what - WEIGHT_FORWARD] += seconds;
            else
                rest += seconds;
        }
        /* equals keep their turn, the default order first */
        const double seconds = combine(c->phase[0] + c->weights[0], weight[0]) +
                               combine(c->phase[1] + c->weights[1] + c->again, weight[1]) + rest;
        int32_t at = count++;
        for (; at > 0 && guess[at - 1] > seconds * (1 + 1e-9); at--) {
            guess[at] = guess[at - 1];
            out[at] = out[at - 1];
        }
        guess[at] = seconds;
        out[at] = mesh;
    }
    return count;
}
