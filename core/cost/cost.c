#include "core/cost/cost.h"

#include "core/cost/links.h"
#include "core/cost/ring.h"
#include "core/cost/traffic.h"
#include "core/ir/walk.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Iterations of a loop, or micro-steps, that are walked before the rest is extrapolated from the
 * last one. */
enum { WARM = 2, AXIS_SETS = 1 << SW_AXIS_COUNT, FEW_FLIGHTS = 64 };

/* Seconds of equal ops (sw_cost_step). */
struct timing {
    double compute;       /* on the compute stream */
    double communication; /* on the communication stream */
    double latency;       /* part of communication: seconds for zero bytes */
    double copying;       /* part of communication: work of cores that also compute */
    double inside;        /* communication that the op itself could not hide (ring attention),
                             part of compute */
    double block, hop;    /* ring attention over links: seconds of a block, of a hop */
    bool home;            /* true if its last hop has no compute beside it */
    bool talks;           /* true if any of these is set */
    sw_axis_set axes;     /* axes of more than one rank */
};

/* An issued collective. */
struct flight {
    double start, end;
    sw_axis_set axes;
};

struct clocks {
    double compute, communication; /* time at which each stream is free */
    double host;                   /* time at which the host has issued the current op */
    double busy, work[SW_WORKS];   /* busy seconds of the compute stream, by work */
    double copying; /* pending work of the communication stream on cores that also compute */
    double exposed[SW_AXIS_COUNT];
};

/* Links that the groups over a set of axes span. */
struct route {
    bool known;
    struct sw_span span;
    uint8_t idle_known;             /* one bit for each collective: */
    double idle[SW_ALL_TO_ALL + 1]; /* its seconds for zero bytes */
};

struct pricing {
    const struct sw_program *p;
    const struct sw_cluster_config *cluster;
    const struct sw_workload *workload;
    struct sw_cost_known *known;
    struct timing *timing; /* [op_count]: filled at the first of equal ops */
    double *done;          /* [known->ends]: end of the last collective that writes a value */
    /* [flights], in order; those that ended before compute arrived are dropped */
    struct flight *flight;
    int32_t flights, flight_capacity;
    bool failed; /* true once out of memory */
    struct clocks now;
    double contention;
    sw_axis_set splits;              /* axes of more than one rank */
    bool ahead[SW_COST_MAX_REGIONS]; /* true if some ops of the region are issued ahead */
    struct sw_cost *out;
    const struct sw_cost_observer *observer; /* NULL: none */
    struct route route[AXIS_SETS];           /* members from here on are rarely read */
    struct flight few[FEW_FLIGHTS];          /* used while sufficient */
};

/* Links that the groups over these axes span. */
static struct route *route_of(struct pricing *c, struct sw_axes axes)
{
    struct route *route = &c->route[sw_axes_set(axes)];
    if (!route->known)
        sw_links_span(c->cluster, &c->p->mesh, axes, &route->span);
    route->known = true;
    return route;
}

static const struct sw_span *span_of(struct pricing *c, struct sw_axes axes)
{
    return &route_of(c, axes)->span;
}

static void time_ring(struct pricing *c, const struct sw_op *op, double bytes, struct timing *t)
{
    struct sw_ring_timing ring;
    sw_ring_time_op(c->cluster, c->p, op, span_of(c, op->axes), t->compute, bytes, &ring);
    t->axes = sw_axes_set(op->axes);
    t->compute = ring.seconds;
    t->inside = ring.inside;
    t->block = ring.block;
    t->hop = ring.hop;
    t->home = ring.home;
}

/* Counts bytes by axis: a group over several axes is divided in proportion to size - 1 of each. */
static void count_bytes(struct pricing *c, sw_axis_set axes, double calls, double bytes)
{
    const int32_t *size = c->p->mesh.size;
    double parts = 0;
    for (int32_t a = 0; a < SW_AXIS_COUNT; a++)
        parts += axes >> a & 1 ? size[a] - 1 : 0;
    for (int32_t a = 0; a < SW_AXIS_COUNT; a++)
        if (axes >> a & 1)
            c->out->communication_bytes[a] += bytes * calls * (size[a] - 1) / parts;
}

/* Counts collectives by content, each alone. */
static void count_alone(struct pricing *c, bool of_weights, double calls, const struct timing *t)
{
    struct sw_cost_parts *parts = &c->out->parts;
    if (of_weights) {
        parts->gathers += calls * t->communication;
        return;
    }
    parts->reduces += calls * t->communication;
    parts->latency += calls * t->latency;
    parts->messages += (int64_t)calls;
}

const char *sw_cost_warning(const struct sw_cost *cost, char *buffer, size_t buffer_bytes)
{
    buffer[0] = '\0';
    if (cost->ring_link[0] != '\0' && cost->ring_block_tokens < cost->ring_needs_tokens)
        snprintf(buffer, buffer_bytes,
                 "sp crosses '%s', where compute hides a ring step only for blocks of at least "
                 "%.0f tokens; its blocks have %.0f",
                 cost->ring_link, cost->ring_needs_tokens, cost->ring_block_tokens);
    return buffer;
}

/* Seconds of copying in a collective: all but its latency if it stays inside a node of a device
 * whose cores copy. */
static double copying_seconds(struct pricing *c, struct sw_axes axes, double seconds,
                              double latency)
{
    const struct sw_cluster_config *cluster = c->cluster;
    if (!sw_device_row(cluster->accelerator.device)->copies || cluster->link_count == 0 ||
        cluster->link[0].spans > cluster->accelerators_per_node ||
        sw_links_outermost(span_of(c, axes)) != 0)
        return 0;
    return seconds > latency ? seconds - latency : 0;
}

/* Times a collective over more than one rank. */
static void time_collective(struct pricing *c, const struct sw_op *op, struct sw_axes axes,
                            const struct sw_traffic_sent *sent, struct timing *t)
{
    const double messages =
        sw_accelerator_message_seconds(&c->cluster->accelerator, sent->messages);
    const enum sw_collective kind = sw_op_collective(op->kind);
    struct route *route = route_of(c, axes);
    t->communication = sw_links_seconds(c->cluster, &route->span, kind, sent->bytes) + messages;
    if (!(route->idle_known >> kind & 1u))
        route->idle[kind] = sw_links_seconds(c->cluster, &route->span, kind, 0);
    route->idle_known |= (uint8_t)(1u << kind);
    const double idle = route->idle[kind];
    t->latency = idle + messages;
    t->copying = copying_seconds(c, axes, t->communication, idle);
}

/* Times a collective; equal ones take as long. */
static void look_at_collective(struct pricing *c, int32_t i, const struct sw_region *region,
                               struct sw_traffic_walk *walk)
{
    const struct sw_cost_step *step = &c->known->step[i];
    struct timing *t = &c->timing[step->first_equal];
    t->axes = step->axes & c->splits;
    if (t->axes == 0)
        return;
    if (step->first_equal == i && sw_traffic_at(walk, region, &c->p->ops[i]))
        time_collective(c, &c->p->ops[i], walk->axes, &walk->sent, t);
    const double calls = sw_walk_count(c->p, region, &c->p->ops[i]);
    count_bytes(c, t->axes, calls, c->known->sent[step->first_equal].bytes);
    count_alone(c, step->of_weights, calls, t);
}

static void look_at_compute(struct pricing *c, int32_t i, const struct sw_region *region,
                            struct sw_traffic_walk *walk)
{
    const struct sw_cost_step *step = &c->known->step[i];
    const struct sw_op *op = &c->p->ops[i];
    struct timing *t = &c->timing[i];
    t->compute = sw_cost_known_seconds(c->known, c->p, i, c->cluster, c->workload);
    if (!step->talks || !sw_traffic_at(walk, region, op))
        return;
    if (sw_op_is_exchange(op->kind)) {
        t->axes = sw_axes_set(walk->axes);
        t->inside = sw_links_exchange_seconds(c->cluster, span_of(c, walk->axes), walk->sent.bytes,
                                              sw_op_info(op->kind)->messages(op));
        t->compute += t->inside;
    } else {
        time_ring(c, op, walk->sent.bytes, t);
        sw_ring_check(c->cluster, c->p, op, span_of(c, op->axes), c->out);
    }
    t->talks = t->inside > 0 || t->hop > 0;
    count_bytes(c, sw_axes_set(walk->axes), walk->calls, walk->sent.bytes);
}

static void time_ops(struct pricing *c)
{
    const struct sw_program *p = c->p;
    struct sw_traffic_walk walk = sw_traffic_begin(p);
    walk.known = c->known->sent;
    for (struct sw_walk w = sw_walk_begin(p); sw_walk_each(&w);) {
        const struct sw_region *region = &p->regions[w.region];
        const struct sw_cost_step *step = &c->known->step[w.op];
        const bool first = step->first_equal == w.op;
        c->ahead[w.region] |= (step->when & SW_WHEN_AHEAD) != 0;
        if (first)
            c->timing[w.op] = (struct timing){0};
        if (step->stream == SW_STREAM_COMMUNICATION)
            look_at_collective(c, w.op, region, &walk);
        else if (first && step->stream == SW_STREAM_COMPUTE)
            look_at_compute(c, w.op, region, &walk);
    }
}

static void expose(struct clocks *now, sw_axis_set axes, double seconds)
{
    static const uint8_t counts[AXIS_SETS] = {0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4};
    if (axes == 0)
        return;
    const double each = seconds / counts[axes];
    for (int32_t a = 0; a < SW_AXIS_COUNT; a++)
        if (axes & (1u << a))
            now->exposed[a] += each;
}
_Static_assert(AXIS_SETS == 16, "a count for every set");

/* Makes the compute stream wait from `now` to `until`, attributed to the communication stream's ops
 * in order. */
static void wait_until(struct pricing *c, double now, double until)
{
    double at = until;
    for (int32_t i = c->flights - 1; i >= 0 && at > now && c->flight[i].end > now; i--) {
        const struct flight *f = &c->flight[i];
        const double from = f->start > now ? f->start : now;
        if (f->end <= from || from >= at)
            continue;
        const double to = f->end < at ? f->end : at;
        if (to > from)
            expose(&c->now, f->axes, to - from);
        at = from;
    }
}

static double total_exposed(const struct clocks *now)
{
    double sum = 0;
    for (int32_t a = 0; a < SW_AXIS_COUNT; a++)
        sum += now->exposed[a];
    return sum;
}

/* Notes a collective issued at time `compute`; nothing asks about earlier times any more. */
static void add_flight(struct pricing *c, double compute, struct flight flight)
{
    if (c->flights == c->flight_capacity) {
        int32_t over = 0;
        while (over < c->flights && c->flight[over].end <= compute)
            over++;
        c->flights -= over;
        if (c->flights > 0)
            memmove(c->flight, c->flight + over, (size_t)c->flights * sizeof *c->flight);
        if (2 * c->flights >= c->flight_capacity) {
            const int32_t capacity = 2 * c->flight_capacity;
            struct flight *grown = malloc((size_t)capacity * sizeof *grown);
            c->failed = c->failed || grown == NULL;
            if (grown == NULL)
                return;
            memcpy(grown, c->flight, (size_t)c->flights * sizeof *grown);
            if (c->flight != c->few)
                free(c->flight);
            c->flight = grown;
            c->flight_capacity = capacity;
        }
    }
    c->flight[c->flights++] = flight;
}

/* Additional seconds of an op that computes while the communication stream is busy for `left` more
 * seconds. */
static inline double find_slower(struct pricing *c, const struct timing *t, double left)
{
    const double beside = left < 0 ? 0 : left < t->compute ? left : t->compute;
    double slower = beside * c->contention;
    if (c->now.copying > 0) { /* one core does both, in any order */
        slower += c->now.copying < left ? c->now.copying : left > 0 ? left : 0;
        c->now.copying = 0;
    }
    return slower;
}

/* Runs ops one after another, except those in `skip`. Executed many times: reads only steps and
 * timings, which are small, and keeps the clocks in registers. */
static void run_ops(struct pricing *c, int32_t first, int32_t end, uint8_t skip)
{
    const struct timing *timing = c->timing;
    double compute = c->now.compute, communication = c->now.communication, busy = c->now.busy;
    double *work = c->now.work;
    const double issue = c->cluster->profile.host_time_s;
    for (const struct sw_cost_step *op = c->known->step + first, *behind = c->known->step + end;
         op < behind; op++) {
        const struct timing *t = &timing[op->first_equal];
        if (op->when & skip)
            continue;
        if (op->stream == SW_STREAM_WAIT) {
            const double until = c->done[op->ends];
            if (until > compute) {
                wait_until(c, compute, until);
                compute = until;
                const double left = communication - compute;
                c->now.copying = c->now.copying < left ? c->now.copying : left;
            }
            continue;
        }
        if (issue > 0 && (c->now.host += issue) > compute) {
            busy += c->now.host - compute; /* the device has caught up with the host */
            work[SW_WORK_REST] += c->now.host - compute;
            compute = c->now.host;
        }
        if (op->stream == SW_STREAM_COMPUTE) {
            const double slower = find_slower(c, t, communication - compute);
            if (!t->talks) {
                const double took = t->compute + slower;
                compute += took;
                busy += took;
                work[op->work] += took;
                continue;
            }
            if (t->hop > 0 && communication > compute) {
                const double delay = sw_ring_delay(t->block, t->hop, communication - compute);
                wait_until(c, compute, compute + delay);
                compute += delay;
            }
            compute += t->compute + slower;
            busy += t->compute - t->inside + slower;
            work[op->work] += t->compute - t->inside + slower;
            if (t->inside > 0)
                expose(&c->now, t->axes, t->inside);
            if (t->hop > 0) { /* until its last message arrives */
                const double arrived = t->home ? compute : compute - t->block;
                communication = arrived > communication ? arrived : communication;
            }
        } else {
            /* starts when the stream is free and earlier compute is done */
            const double start = communication < compute ? compute : communication;
            communication = start + t->communication;
            c->now.copying = (start > compute ? c->now.copying : 0) + t->copying;
            if (t->communication > 0)
                add_flight(c, compute, (struct flight){start, communication, t->axes});
            c->done[op->ends] = communication; /* waits name the first result */
        }
    }
    c->now.compute = compute;
    c->now.communication = communication;
    c->now.busy = busy;
}

static void observe_op(struct pricing *c, const struct sw_walk *w)
{
    const struct sw_cost_step *step = &c->known->step[w->op];
    const double issued = c->now.compute;
    run_ops(c, w->op, w->op + 1, 0);
    const bool collective = step->stream == SW_STREAM_COMMUNICATION;
    const double end = collective ? c->now.communication : c->now.compute;
    const double took = collective ? c->timing[step->first_equal].communication : 0;
    const struct sw_cost_event event = {.op = w->op,
                                        .region = w->region,
                                        .layer = w->layer,
                                        .micro_step = w->micro_step,
                                        .stream = step->stream,
                                        .issued = issued,
                                        .start = collective ? end - took : issued,
                                        .end = end};
    c->observer->event(c->observer->context, &event);
}

static void run_iteration(struct pricing *c, struct sw_walk *w)
{
    const struct sw_region *region = &c->p->regions[w->region];
    const bool whole = sw_walk_is_whole(w);
    if (c->observer == NULL && whole)
        run_ops(c, region->first_op, region->first_op + region->op_count, w->skip);
    while ((c->observer != NULL || !whole) && sw_walk_op(w)) {
        if (c->observer != NULL)
            observe_op(c, w);
        else
            run_ops(c, w->op, w->op + 1, 0);
    }
}

/* Repeats the time between `before` and now `times` more: moves the clocks, and the ends of
 * collectives in flight. */
static void extrapolate(struct pricing *c, const struct clocks *before, double times)
{
    struct clocks *now = &c->now;
    const double step = now->compute - before->compute, shift = step * times;
    for (int32_t i = 0; i < c->known->ends; i++)
        c->done[i] += shift;
    for (int32_t i = 0; i < c->flights; i++) {
        c->flight[i].start += shift;
        c->flight[i].end += shift;
    }
    now->communication += shift;
    now->compute += shift;
    now->host += (now->host - before->host) * times;
    now->busy += (now->busy - before->busy) * times;
    for (int32_t w = 0; w < SW_WORKS; w++)
        now->work[w] += (now->work[w] - before->work[w]) * times;
    for (int32_t a = 0; a < SW_AXIS_COUNT; a++)
        now->exposed[a] += (now->exposed[a] - before->exposed[a]) * times;
}

static void run_region(struct pricing *c, struct sw_walk *w)
{
    int32_t first, whole; /* iterations with all layers of a period and of the next iteration */
    sw_walk_whole(w, &first, &whole);
    const int32_t more = whole - WARM;
    struct clocks before;
    while (sw_walk_iteration(w)) {
        if (w->iteration < 0 && !c->ahead[w->region])
            continue; /* no op is issued */
        const bool repeats = w->iteration == first + WARM - 1 && more > 0;
        if (repeats)
            before = c->now;
        run_iteration(c, w);
        if (repeats) {
            extrapolate(c, &before, more);
            w->iteration += more;
        }
    }
}

static void run_pass(struct pricing *c, struct sw_walk *w)
{
    while (sw_walk_region(w)) {
        const struct clocks before = c->now;
        run_region(c, w);
        struct sw_region_cost *cost = &c->out->region[w->region];
        cost->seconds += c->now.compute - before.compute;
        cost->compute_seconds += c->now.busy - before.busy;
        cost->exposed_seconds += total_exposed(&c->now) - total_exposed(&before);
    }
}

static void extrapolate_regions(struct pricing *c, const struct sw_region_cost *before,
                                double times)
{
    for (int32_t r = 0; r < c->p->region_count; r++) {
        struct sw_region_cost *now = &c->out->region[r];
        now->seconds += (now->seconds - before[r].seconds) * times;
        now->compute_seconds += (now->compute_seconds - before[r].compute_seconds) * times;
        now->exposed_seconds += (now->exposed_seconds - before[r].exposed_seconds) * times;
    }
}

/* Walks a step; the last micro-step separately if it has ops that the others lack. */
static void run_step(struct pricing *c)
{
    const int32_t more = c->p->accumulation_steps - (c->known->once ? 1 : 0) - WARM;
    struct sw_region_cost region_before[SW_COST_MAX_REGIONS];
    struct clocks before;
    for (struct sw_walk w = sw_walk_begin(c->p); sw_walk_pass(&w);) {
        const bool repeats = w.micro_step == WARM - 1 && more > 0;
        if (repeats) {
            before = c->now;
            memcpy(region_before, c->out->region, sizeof region_before);
        }
        run_pass(c, &w);
        if (repeats) {
            extrapolate_regions(c, region_before, more);
            extrapolate(c, &before, more);
            w.micro_step += more;
        }
    }
    /* a step ends with the later stream */
    if (c->now.communication > c->now.compute) {
        wait_until(c, c->now.compute, c->now.communication);
        c->now.compute = c->now.communication;
    }
}

double sw_cost_parameters(const struct sw_program *program)
{
    double sum = 0;
    for (int32_t i = 0; i < program->value_count; i++) {
        const struct sw_value *v = &program->values[i];
        double elems = v->stack;
        if (v->role != SW_ROLE_PARAMETER || v->copy || v->scales || v->base != i)
            continue;
        for (uint8_t d = 0; d < v->ndim; d++)
            elems *= (double)v->size[d];
        sum += elems;
    }
    return sum;
}

/* Fills in the profile of the price and its errors. */
static void tell_profile(struct sw_cost *out, const struct sw_cluster_config *cluster,
                         const struct sw_program *program)
{
    const struct sw_profile_config *p = &cluster->profile;
    const struct sw_usual_software *usual = &sw_device_row(cluster->accelerator.device)->usual;
    double low = p->band_low > 0 ? p->band_low : usual->band_low,
           high = p->band_high > 0 ? p->band_high : usual->band_high;
    out->band_measured = p->error > 0 && (low != usual->band_low || high != usual->band_high);
    if (sw_profile_is_default(p) && !sw_profile_is_of_servers(p) &&
        sw_cost_parameters(program) < usual->small_parameters) {
        out->band_note = usual->small_source;
        low = usual->small_low;
        high = usual->small_high;
    }
    out->band_low_seconds = out->step_seconds * low;
    out->band_high_seconds = out->step_seconds * high;
    out->profile = p->name != NULL ? p->name : sw_profile_default(&cluster->accelerator).name;
    out->calibration = p->source != NULL          ? p->source
                       : sw_profile_is_default(p) ? usual->source
                                                  : "its file names no source";
    out->note = sw_profile_note(p);
    out->profile_runs = p->runs;
    out->profile_error = p->error;
}

int sw_cost_price(const struct sw_program *program, const struct sw_cluster_config *cluster,
                  const struct sw_workload *workload, struct sw_cost *out, struct sw_error *err)
{
    return sw_cost_trace(program, cluster, workload, NULL, out, err);
}

int sw_cost_save_seconds(const struct sw_program_set *set, const struct sw_cluster_config *cluster,
                         double *seconds, double *links, struct sw_error *err)
{
    struct sw_cost cost;
    if (set->program[SW_PROGRAM_SAVE] == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "there is no program 'save'");
    if (sw_cost_price(set->program[SW_PROGRAM_SAVE], cluster, NULL, &cost, err) != 0)
        return -1;
    *seconds = cost.step_seconds;
    if (links != NULL)
        *links = cost.step_seconds - cost.compute_seconds;
    return 0;
}

/* Allocates all that a price needs, in one piece. NULL: no memory. */
static struct pricing *pricing_new(const struct sw_program *program, struct sw_cost_known *known)
{
    const size_t timings = ((size_t)program->op_count + 1) * sizeof(struct timing);
    const size_t done = ((size_t)known->ends + 1) * sizeof(double);
    struct pricing *c = malloc(sizeof *c + timings + done);
    if (c == NULL)
        return NULL;
    memset(c, 0, offsetof(struct pricing, route));
    for (int32_t i = 0; i < AXIS_SETS; i++) {
        c->route[i].known = false;
        c->route[i].idle_known = 0;
    }
    c->timing = (struct timing *)(void *)(c + 1);
    c->done = (double *)(void *)((char *)(c + 1) + timings);
    memset(c->done, 0, done);
    c->flight = c->few;
    c->flight_capacity = FEW_FLIGHTS;
    c->p = program;
    c->known = known;
    for (int32_t a = 0; a < SW_AXIS_COUNT; a++)
        c->splits |= (sw_axis_set)(program->mesh.size[a] > 1 ? 1u << a : 0);
    return c;
}

static int price(const struct sw_program *program, const struct sw_cluster_config *cluster,
                 const struct sw_workload *workload, struct sw_cost_known *known,
                 const struct sw_cost_observer *observer, struct sw_cost *out, struct sw_error *err)
{
    int status = -1;
    memset(out, 0, sizeof *out);
    if (program->region_count > SW_COST_MAX_REGIONS)
        return sw_fail(err, SW_ENVIRONMENT, "a program of %d regions cannot be priced",
                       program->region_count);
    struct pricing *c = pricing_new(program, known);
    if (c == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while pricing the program");
    c->cluster = cluster;
    c->workload = workload;
    c->out = out;
    c->observer = observer;
    c->contention = sw_accelerator_prices(&cluster->accelerator)->contention;
    out->region_count = program->region_count;
    for (int32_t r = 0; r < program->region_count; r++)
        memcpy(out->region[r].name, program->regions[r].name, SW_NAME_BYTES);
    time_ops(c);
    run_step(c);
    if (c->failed) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory while pricing the program");
        goto out;
    }
    out->step_seconds = c->now.compute;
    tell_profile(out, cluster, program);
    out->compute_seconds = c->now.busy;
    memcpy(out->exposed_seconds, c->now.exposed, sizeof out->exposed_seconds);
    out->parts.weights = c->now.work[SW_WORK_WEIGHTS];
    out->parts.cache = c->now.work[SW_WORK_CACHE];
    out->parts.rest = c->now.work[SW_WORK_REST];
    out->parts.waiting = total_exposed(&c->now);
    status = 0;
out:
    if (c->flight != c->few)
        free(c->flight);
    free(c);
    return status;
}

int sw_cost_price_known(const struct sw_program *program, const struct sw_cluster_config *cluster,
                        const struct sw_workload *workload, struct sw_cost_known *known,
                        struct sw_cost *out, struct sw_error *err)
{
    sw_cost_known_meets(known, workload);
    return price(program, cluster, workload, known, NULL, out, err);
}

int sw_cost_trace(const struct sw_program *program, const struct sw_cluster_config *cluster,
                  const struct sw_workload *workload, const struct sw_cost_observer *observer,
                  struct sw_cost *out, struct sw_error *err)
{
    struct sw_cost_known known;
    if (sw_cost_known_make(program, &known, err) != 0)
        return -1;
    const int status = price(program, cluster, workload, &known, observer, out, err);
    sw_cost_known_free(&known);
    return status;
}
