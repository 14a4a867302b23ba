/* Guesses that order the search's options. Based on the sizes of one program of the mesh and on its
 * ops' times alone, without the two streams; reported figures are always priced. */
#include "planner/search/internal.h"

#include "core/cost/ring.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int sw_guess_traffic(const struct sw_sized *sized, struct sw_traffics *out, struct sw_error *err)
{
    *out = (struct sw_traffics){0};
    struct sw_traffic_walk sent = sw_traffic_begin(sized->program);
    sent.known = sized->counted->known.sent;
    while (sw_traffic_next(&sent))
        if (sw_traffics_add(out, &sent, sw_traffic_part(&sent), err) == NULL) {
            sw_traffics_free(out);
            return -1;
        }
    return 0;
}

/* Seconds of computing on a ring's block, and its messages; 0: no ring. */
struct ring {
    double block;
    struct sw_ring_blocks blocks;
};

static struct ring ring_of(const struct sw_program *p, const struct sw_traffic *t,
                           const struct sw_run_config *run)
{
    struct ring ring = {0};
    if (t->part != SW_TRAFFIC_RING)
        return ring;
    sw_ring_blocks_of(p, &p->ops[t->op], &ring.blocks);
    ring.block =
        sw_cost_op_seconds(p, &p->ops[t->op], &run->cluster, NULL) / sw_ring_hops(&ring.blocks);
    return ring;
}

/* Seconds of a step in which compute waits for one ring. */
static double ring_seconds(const struct sw_traffic *t, const struct ring *ring,
                           const struct sw_run_config *run, const struct sw_span *span)
{
    struct sw_ring_blocks one = ring->blocks;
    one.rings = 1;
    const struct sw_ring_sum sum = sw_ring_sum(&one);
    if (sum.sends == 0)
        return 0;
    const double hop = sw_links_hop_seconds(&run->cluster, span, t->bytes / t->calls / sum.sends);
    return t->calls * (hop > ring->block ? (hop - ring->block) * (sum.attends - 1) : 0) +
           t->calls * (sw_op_returns_to_owner(t->kind) ? hop : 0);
}

/* The same for inner rings. */
static double rings_seconds(const struct sw_traffic *t, const struct ring *ring, int32_t inner,
                            const struct sw_run_config *run, const struct sw_span *span)
{
    struct sw_ring_blocks blocks = ring->blocks;
    struct sw_ring_time time;
    const double compute = ring->block * blocks.ranks;
    blocks.rings = blocks.ranks / inner;
    sw_ring_time(&run->cluster, span, true, &blocks, compute, &time);
    return t->calls * (time.seconds - compute);
}

/* Seconds of a step in which that traffic keeps the links busy or, for a ring, compute waits.
 * inner: ranks of possible inner rings, 0: none. */
static double traffic_seconds(const struct sw_traffic *t, const struct ring *ring, int32_t inner,
                              const struct sw_run_config *run, const struct sw_span *span)
{
    if (t->calls == 0)
        return 0;
    if (t->part != SW_TRAFFIC_RING)
        return t->calls * sw_links_seconds(&run->cluster, span, sw_op_collective(t->kind),
                                           t->bytes / t->calls) +
               sw_accelerator_message_seconds(&run->cluster.accelerator, t->messages);
    return inner > 0 ? rings_seconds(t, ring, inner, run, span) : ring_seconds(t, ring, run, span);
}

/* The same for a micro-batch `times` the program's: longer messages, fewer of them. */
static double ring_seconds_of(const struct sw_guess_ring *r, const struct sw_run_config *run,
                              double times)
{
    struct sw_traffic traffic = r->traffic;
    struct ring ring = {r->block * times, r->blocks};
    traffic.calls /= times;
    ring.blocks.travel_bytes = (int64_t)((double)r->blocks.travel_bytes * times);
    ring.blocks.sum_bytes = (int64_t)((double)r->blocks.sum_bytes * times);
    return rings_seconds(&traffic, &ring, r->inner, run, &r->span);
}

/* Combines a phase's compute and traffic of weights: if both take as long, op by op one waits for
 * the other. The root of the sum of squares follows the priced timeline within some percent, from
 * all hidden to none. */
static double combine(double compute, double weight)
{
    return sqrt(compute * compute + weight * weight);
}

void sw_counted_free(struct sw_counted *counted)
{
    free(counted->value);
    free(counted->seconds);
    sw_cost_known_free(&counted->known);
    *counted = (struct sw_counted){0};
}

int sw_guess_count(const struct sw_program *p, struct sw_counted *out, struct sw_error *err)
{
    bool *written = calloc((size_t)p->value_count + 1, sizeof *written);
    out->count = 0;
    out->value = malloc(((size_t)p->value_count + 1) * sizeof *out->value);
    const size_t ops = (size_t)p->op_count + 1;
    out->seconds = malloc(ops * sizeof *out->seconds);
    if (sw_cost_known_make(p, &out->known, err) != 0) {
        free(written);
        return -1;
    }
    if (written == NULL || out->value == NULL || out->seconds == NULL) {
        free(written);
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while searching");
    }
    for (int32_t i = 0; i < p->op_count; i++) {
        const struct sw_op *op = &p->ops[i];
        for (uint16_t k = 0; k < op->n_out; k++)
            written[op->out[k].value] = true;
    }
    for (int32_t v = 0; v < p->value_count; v++) {
        const struct sw_value *value = &p->values[v];
        /* partition leaves values without a writer: they have no storage */
        if (value->role == SW_ROLE_ACTIVATION && value->alias < 0 && written[v])
            out->value[out->count++] =
                (struct sw_counted_value){v, !sw_traffic_of_batch(value) ? SW_COUNTED_FIXED
                                             : value->slots > 2          ? SW_COUNTED_STACKED
                                                                         : SW_COUNTED_MOVING};
    }
    free(written);
    return 0;
}

/* Guesses bytes from the shapes: those that grow with the micro-batch, and the others. */
static void guess_bytes(const struct sw_sized *sized, int64_t reserved_bytes, struct sw_guess *g)
{
    const struct sw_program *p = sized->program;
    double sum[] = {[SW_COUNTED_FIXED] = 1, [SW_COUNTED_STACKED] = 0, [SW_COUNTED_MOVING] = 0};
    for (int32_t i = 0; i < sized->counted->count; i++) {
        const struct sw_counted_value *counted = &sized->counted->value[i];
        const struct sw_value *value = &p->values[counted->value];
        sum[counted->as] += (double)(value->slot_bytes * value->slots);
    }
    const double fixed = sum[SW_COUNTED_FIXED], stacked = sum[SW_COUNTED_STACKED];
    const double moving = sum[SW_COUNTED_MOVING];
    const double state = (double)(p->parameter_bytes + p->gradient_bytes + p->optimizer_bytes);
    double rest = (double)(sized->least_bytes - reserved_bytes) - state - stacked;
    if (rest < 0)
        rest = 0;
    g->fixed_bytes = (double)reserved_bytes + state + rest * fixed / (fixed + moving);
    g->bytes_per_sequence = stacked + rest * moving / (fixed + moving);
}

void sw_guess_compute(const struct sw_sized *sized, const struct sw_run_config *run,
                      struct sw_compute *out)
{
    const struct sw_program *p = sized->program;
    *out = (struct sw_compute){0};
    for (struct sw_walk w = sw_walk_begin(p); sw_walk_each(&w);) {
        const struct sw_region *region = &p->regions[w.region];
        const struct sw_op *op = &p->ops[w.op];
        const struct sw_cost_step *step = &sized->counted->known.step[w.op];
        if (step->stream != SW_STREAM_COMPUTE)
            continue;
        const double once =
            sw_op_is_exchange(op->kind)
                ? sw_cost_op_seconds(p, op, &run->cluster, NULL)
                : sw_cost_known_seconds(&sized->counted->known, p, w.op, &run->cluster, NULL);
        const double seconds = sw_walk_count(p, region, op) * once;
        const int32_t phase = region->phase == SW_PHASE_FORWARD ? 0 : 1;
        sized->counted->seconds[w.op] = once;
        if (region->phase == SW_PHASE_UPDATE)
            out->update += seconds;
        else if (!step->of_batch)
            out->weights[phase] += seconds;
        else
            *(op->stage == SW_STAGE_RECOMPUTE ? &out->again : &out->phase[phase]) += seconds;
    }
}

/* True if that traffic is of a ring that will have inner rings. */
static bool is_of_rings(const struct sw_sized *sized, const struct sw_run_config *run,
                        const struct sw_traffic *t, struct sw_guess *out)
{
    if (t->part != SW_TRAFFIC_RING || t->calls == 0 || out->ring_count == SW_GUESS_RINGS)
        return false;
    const struct sw_mesh *mesh = &sized->decision.mesh;
    struct sw_guess_ring *r = &out->ring[out->ring_count];
    r->inner = sw_links_inner_ring(&run->cluster, mesh, t->axes);
    if (r->inner == 0)
        return false;
    const struct ring ring = ring_of(sized->program, t, run);
    r->traffic = *t;
    r->block = ring.block;
    r->blocks = ring.blocks;
    sw_links_span(&run->cluster, mesh, t->axes, &r->span);
    out->inner_ring = r->inner;
    out->ring_count++;
    return true;
}

void sw_guess_from(const struct sw_sized *sized, const struct sw_run_config *run,
                   const struct sw_traffics *traffics, const struct sw_compute *compute,
                   const struct sw_levels *levels, bool of_rings, struct sw_guess *out)
{
    bool known[1 << SW_AXIS_COUNT] = {false};
    struct sw_span spans[1 << SW_AXIS_COUNT];
    memset(out, 0, sizeof *out);
    out->run = run;
    for (int32_t i = 0; i < traffics->count; i++) {
        const struct sw_traffic *t = &traffics->entry[i];
        const sw_axis_set set = sw_axes_set(t->axes);
        if (of_rings && is_of_rings(sized, run, t, out))
            continue;
        if (!known[set])
            sw_links_span(&run->cluster, &sized->decision.mesh, t->axes, &spans[set]);
        known[set] = true;
        const struct ring ring = ring_of(sized->program, t, run);
        const double seconds = traffic_seconds(t, &ring, 0, run, &spans[set]);
        switch (t->part) {
        case SW_TRAFFIC_WEIGHT_FORWARD:
        case SW_TRAFFIC_WEIGHT_BACKWARD:
            out->weight_seconds[t->part - SW_TRAFFIC_WEIGHT_FORWARD] += seconds;
            break;
        case SW_TRAFFIC_ONCE:
            out->once_seconds += seconds;
            break;
        case SW_TRAFFIC_AGAIN:
            out->again_seconds += seconds;
            break;
        case SW_TRAFFIC_BATCH:
        case SW_TRAFFIC_RING:
        case SW_TRAFFIC_ANY:
            out->batch_seconds += seconds;
            break;
        }
    }
    out->compute = *compute;
    out->sequences = (double)sized->decision.train.micro_batch_size;
    out->padded = sized->program->padding_sequences > 0;
    out->rank_sequences = out->sequences * (double)sized->decision.train.accumulation_steps;
    out->levels = *levels;
    guess_bytes(sized, run->cluster.accelerator.reserved_memory_bytes, out);
}

double sw_guess_places(const struct sw_guess *g, int64_t micro_batch_size)
{
    const double micro = (double)micro_batch_size;
    return ceil(g->rank_sequences / micro) * micro;
}

double sw_guess_seconds(const struct sw_guess *g, int64_t micro_batch_size, int32_t level)
{
    const struct sw_compute *c = &g->compute;
    const double times = (double)micro_batch_size / g->sequences;
    /* micro-steps that are not full take as long as full ones */
    const double filled = sw_guess_places(g, micro_batch_size) / g->rank_sequences;
    const double again = g->levels.count == 0
                             ? 1
                             : sw_level_seconds(&g->levels, level) /
                                   sw_level_seconds(&g->levels, sw_levels_last(&g->levels));
    double rings = 0;
    for (int32_t i = 0; i < g->ring_count; i++)
        rings += ring_seconds_of(&g->ring[i], g->run, times);
    return filled * combine(c->phase[0] + c->weights[0] / times, g->weight_seconds[0] / times) +
           filled * combine(c->phase[1] + c->weights[1] / times + again * c->again,
                            g->weight_seconds[1] / times) +
           c->update + g->once_seconds + filled * (g->batch_seconds + rings) +
           filled * (again * g->again_seconds);
}

void sw_guess_option(const struct sw_guess *g, struct sw_option *o)
{
    const double times = (double)o->micro_batch_size / g->sequences;
    const double bytes = g->fixed_bytes + times * g->bytes_per_sequence;
    if (g->levels.count > 0)
        o->level = sw_level_keeping(&g->levels, ((double)g->limit_bytes - bytes) / times);
    o->bytes = bytes + times * sw_level_bytes(&g->levels, o->level);
    o->seconds = sw_guess_seconds(g, o->micro_batch_size, o->level);
}

int sw_guess_compare(const void *a, const void *b)
{
    const struct sw_option *x = a, *y = b;
    if (x->seconds != y->seconds)
        return x->seconds < y->seconds ? -1 : 1;
    if (x->variant != y->variant)
        return x->variant < y->variant ? -1 : 1;
    return (x->micro_batch_size < y->micro_batch_size) -
           (x->micro_batch_size > y->micro_batch_size);
}

/* Lists powers of two that divide, largest last, and all sequences at once. If there is padding
 * anyway, powers of two need not divide. */
static int32_t micro_batches(const struct sw_run_config *run, int64_t per_rank, bool padded,
                             int64_t out[SW_MAX_MICRO_BATCHES])
{
    int32_t count = 0;
    if (run->micro_batch_size > 0) {
        out[count++] = run->micro_batch_size;
        return count;
    }
    int64_t size = 1;
    for (;
         (per_rank % size == 0 || (padded && size < per_rank)) && count < SW_MAX_MICRO_BATCHES - 1;
         size *= 2)
        out[count++] = size;
    if (count > 0 && out[count - 1] != per_rank)
        out[count++] = per_rank;
    return count;
}

int32_t sw_guess_options(const struct sw_run_config *run, int64_t per_rank, bool padded,
                         int32_t variant, struct sw_option out[SW_MAX_MICRO_BATCHES])
{
    int64_t sizes[SW_MAX_MICRO_BATCHES];
    const int32_t n = micro_batches(run, per_rank, padded, sizes);
    for (int32_t i = 0; i < n; i++)
        out[i] = (struct sw_option){.micro_batch_size = sizes[n - 1 - i], .variant = variant};
    return n;
}

/* ---- Axis orders ---- */

/* The k-th permutation of the axes with more than one rank, in the positions of the default order;
 * the others stay. False: beyond the last. */
bool sw_search_permute(const struct sw_mesh *base, int32_t k, struct sw_mesh *out)
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

/* Finds the orders of a mesh's axes, unless it is the last mesh. */
static void find_orders(struct sw_orders *o, const struct sw_cluster_config *cluster,
                        const struct sw_mesh *base)
{
    if (o->cluster == cluster && o->count > 0 &&
        memcmp(o->mesh[0].size, base->size, sizeof base->size) == 0)
        return;
    o->cluster = cluster;
    o->count = 0;
    while (sw_search_permute(base, o->count, &o->mesh[o->count])) {
        o->mesh[o->count].domain = o->segments ? sw_links_segment(cluster, &o->mesh[o->count]) : 0;
        o->count++;
    }
    for (int32_t set = 0; set < 1 << SW_AXIS_COUNT; set++)
        o->of[set].count = 0;
}

/* Index in the list of the span of order k, which is appended if new. */
static int32_t list_span(const struct sw_orders *o, int32_t k, struct sw_axes axes,
                         struct sw_placements *p)
{
    struct sw_span *last = &p->span[p->count];
    int32_t i = 0;
    memset(last, 0, sizeof *last);
    sw_links_span(o->cluster, &o->mesh[k], axes, last);
    p->inner[p->count] = sw_links_inner_ring(o->cluster, &o->mesh[k], axes);
    while (p->inner[i] != p->inner[p->count] || memcmp(&p->span[i], last, sizeof *last) != 0)
        i++;
    p->count += i == p->count;
    return i;
}

/* Links that the groups over these axes span in each order. */
static const struct sw_placements *find_placements(struct sw_orders *o, struct sw_axes axes)
{
    const sw_axis_set set = sw_axes_set(axes);
    struct sw_placements *p = &o->of[set];
    uint16_t placement[SW_MAX_ORDERS];
    if (p->count > 0)
        return p;
    for (int32_t k = 0; k < o->count; k++) {
        int32_t known = 0;
        placement[k] = sw_links_placement(&o->mesh[k], set);
        while (placement[known] != placement[k] || o->mesh[known].domain != o->mesh[k].domain)
            known++;
        p->at[k] = known < k ? p->at[known] : (uint8_t)list_span(o, k, axes, p);
    }
    return p;
}

/* Seconds of one traffic in each placement, computed once. */
struct placed_traffic {
    const struct sw_placements *of;
    uint32_t known; /* a bit for each placement */
    struct ring ring;
    double seconds[SW_MAX_ORDERS];
};

struct order_guess {
    const struct sw_run_config *run;
    const struct sw_traffics *traffics;
    struct placed_traffic *placed; /* [traffics->count] */
    bool of_rings;                 /* true if rings that leave their nodes have inner rings */
};

static void place_traffics(struct order_guess *g, struct sw_orders *orders,
                           const struct sw_program *p)
{
    for (int32_t i = 0; i < g->traffics->count; i++) {
        const struct sw_traffic *t = &g->traffics->entry[i];
        g->placed[i].of = find_placements(orders, t->axes);
        g->placed[i].known = 0;
        g->placed[i].ring = ring_of(p, t, g->run);
    }
}

static double placed_seconds(struct order_guess *g, int32_t traffic, int32_t order)
{
    struct placed_traffic *t = &g->placed[traffic];
    const int32_t at = t->of->at[order];
    if (!(t->known >> at & 1u)) {
        t->known |= 1u << at;
        t->seconds[at] =
            traffic_seconds(&g->traffics->entry[traffic], &t->ring,
                            g->of_rings ? t->of->inner[at] : 0, g->run, &t->of->span[at]);
    }
    return t->seconds[at];
}

/* Seconds of a step in order k. */
static double guess_order(struct order_guess *g, const struct sw_compute *c, int32_t order)
{
    double weight[2] = {0, 0}, rest = 0;
    for (int32_t i = 0; i < g->traffics->count; i++) {
        const struct sw_traffic *t = &g->traffics->entry[i];
        const double seconds = placed_seconds(g, i, order);
        if (t->part == SW_TRAFFIC_WEIGHT_FORWARD || t->part == SW_TRAFFIC_WEIGHT_BACKWARD)
            weight[t->part - SW_TRAFFIC_WEIGHT_FORWARD] += seconds;
        else
            rest += seconds;
    }
    return combine(c->phase[0] + c->weights[0], weight[0]) +
           combine(c->phase[1] + c->weights[1] + c->again, weight[1]) + rest;
}

bool sw_search_tp_leaves(const struct sw_cluster_config *cluster, const struct sw_mesh *mesh)
{
    struct sw_span tp;
    sw_links_span(cluster, mesh, (struct sw_axes){1, {SW_TP}}, &tp);
    return sw_links_leave_fastest(cluster, &tp);
}

/* Keeps the orders with tp inside the fastest link domain; all if none has. Returns their
 * number. */
static int32_t keep_tp_inside(const struct sw_run_config *run, struct sw_mesh *order, double *guess,
                              int32_t count)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < count; i++) {
        if (sw_search_tp_leaves(&run->cluster, &order[i]))
            continue;
        order[kept] = order[i];
        guess[kept++] = guess[i];
    }
    return kept > 0 ? kept : count;
}

int32_t sw_guess_orders(const struct sw_program *p, const struct sw_run_config *run,
                        const struct sw_traffics *traffics, const struct sw_compute *c,
                        bool of_rings, bool tp_inside, struct sw_orders *orders,
                        struct sw_mesh out[SW_MAX_ORDERS], double *seconds, struct sw_error *err)
{
    const int32_t *like = p->mesh.size;
    double guess[SW_MAX_ORDERS];
    int32_t count = 0;
    struct sw_mesh mesh;
    struct sw_mesh base = sw_mesh_make(like[SW_DP], like[SW_FSDP], like[SW_TP], like[SW_SP]);
    base.domain = orders->segments ? sw_links_segment(&run->cluster, &base) : 0;
    out[0] = base;
    if (seconds != NULL)
        seconds[0] = 0;
    if (run->cluster.link_count <= 1 || !sw_search_permute(&base, 1, &mesh))
        return 1; /* all orders have the same placement */
    struct order_guess g = {.run = run, .traffics = traffics, .of_rings = of_rings};
    g.placed = malloc(((size_t)traffics->count + 1) * sizeof *g.placed);
    if (g.placed == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while searching");
    find_orders(orders, &run->cluster, &base);
    place_traffics(&g, orders, p);
    for (int32_t k = 0; k < orders->count; k++) {
        /* equals keep their sequence, the default order first */
        const double now = guess_order(&g, c, k);
        int32_t at = count++;
        for (; at > 0 && guess[at - 1] > now * (1 + 1e-9); at--) {
            guess[at] = guess[at - 1];
            out[at] = out[at - 1];
        }
        guess[at] = now;
        out[at] = orders->mesh[k];
    }
    free(g.placed);
    if (tp_inside)
        count = keep_tp_inside(run, out, guess, count);
    if (seconds != NULL)
        memcpy(seconds, guess, (size_t)count * sizeof *guess);
    return count;
}
