#include "core/cost/cost.h"

#include "core/cost/links.h"
#include "core/cost/traffic.h"
#include "core/program/walk.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Iterations of a loop or micro-steps walked one by one before the rest is extrapolated from the
 * last of them. */
enum { WARM = 2, AXIS_SETS = 1 << SW_AXIS_COUNT, FEW_FLIGHTS = 64 };

/* What the compute stream is at work on. */
enum work { WORK_WEIGHTS, WORK_CACHE, WORK_REST, WORKS };

enum part { PART_COMPUTE, PART_COLLECTIVE, PART_WAIT };
struct timing {
    double compute;       /* on the compute stream */
    double communication; /* on the communication stream */
    double latency;       /* of that, without a byte */
    double copying;       /* of that, what the cores that compute are at work on it */
    double inside;     /* communication that the op itself could not hide (ring attention), part of
                          compute */
    double block, hop; /* ring attention over links: seconds of each */
    bool home;         /* and its last hop, with nothing to compute beside it */
    int16_t ends;      /* in done[]: of what a collective writes first, or is waited for */
    uint8_t part, when, work; /* enum part, sw_when, work */
    sw_axis_set axes;         /* effective ones */
};

/* A collective that was issued. */
struct flight {
    double start, end;
    sw_axis_set axes;
};

struct clocks {
    double compute, communication; /* when each stream is free */
    double host;                   /* when the host has issued what it has come to */
    double busy, work[WORKS];      /* the compute stream at work */
    double copying; /* of what the communication stream has yet to do, work of the same cores */
    double exposed[SW_AXIS_COUNT];
};

/* How the groups over a set of axes lie on the links. */
struct spans {
    int32_t count; /* 0: not known */
    const struct sw_span *of;
    struct sw_span one;
};

struct pricing {
    const struct sw_program *p;
    const struct sw_cluster_config *cluster;
    const struct sw_workload *workload;
    struct sw_cost_known *known;
    struct timing *timing; /* [op_count] */
    int16_t *ends_of;      /* [value_count]: the place in done[], or -1 */
    double *done;          /* [done_count]: when the last collective that writes the value ends */
    int32_t done_count;
    struct spans spans[AXIS_SETS];
    struct flight
        *flight; /* [flights], in their order: what ended before compute came is dropped */
    int32_t flights, flight_capacity;
    const struct sw_cost_ideal *ideal; /* NULL: what it takes */
    struct sw_span *ideal_spans;       /* [AXIS_SETS, SW_MAX_SPANS] */
    bool failed;                       /* no memory for them */
    struct clocks now;
    double contention;
    bool once; /* some ops run in the last micro-step only */
    struct sw_cost *out;
    const struct sw_cost_observer *observer; /* NULL: none */
};

/* As it lies, or in an ideal step as it may. */
static const struct spans *spans_of(struct pricing *c, struct sw_axes axes)
{
    struct spans *spans = &c->spans[sw_axes_set(axes)];
    if (spans->count > 0)
        return spans;
    if (c->ideal == NULL) {
        sw_links_span(c->cluster, &c->p->mesh, axes, &spans->one);
        spans->count = 1;
        spans->of = &spans->one;
    } else {
        struct sw_span *list = c->ideal_spans + (size_t)sw_axes_set(axes) * SW_MAX_SPANS;
        spans->count = sw_links_spans(c->cluster, &c->p->mesh, axes, list);
        spans->of = list;
    }
    return spans;
}

static const struct sw_span *span_of(struct pricing *c, struct sw_axes axes)
{
    return spans_of(c, axes)->of;
}

/* Seconds of a collective, or (hop) of a ring's, on the best of its spans. */
static double link_seconds(struct pricing *c, struct sw_axes axes, bool hop,
                           enum sw_collective kind, double bytes)
{
    const struct spans *spans = spans_of(c, axes);
    double least = INFINITY;
    for (int32_t i = 0; i < spans->count; i++) {
        const struct sw_span *span = &spans->of[i];
        const double seconds = hop ? sw_links_hop_seconds(c->cluster, span, bytes)
                                   : sw_links_seconds(c->cluster, span, kind, bytes);
        least = seconds < least ? seconds : least;
    }
    return least;
}

/* The ring computes on one block while the next travels; the gradient's dk and dv also travel home
 * at the end, when nothing is left to compute. A rank's blocks take alike (zigzag) or the longest
 * is assumed (op.c). That is with the communication stream at rest; ring_delay has the rest. */
static struct timing ring_timing(struct pricing *c, const struct sw_op *op, double compute,
                                 double bytes)
{
    struct timing t = {.compute = compute, .axes = sw_axes_set(op->axes)};
    const struct sw_span *span = span_of(c, op->axes);
    if (span->ranks <= 1)
        return t;
    const bool home = sw_op_returns_to_owner(op->kind);
    const double ranks = span->ranks, hops = home ? ranks : ranks - 1, block = compute / ranks;
    const double hop = link_seconds(c, op->axes, true, 0, bytes / hops);
    t.compute = block + (ranks - 1) * (hop > block ? hop : block) + (home ? hop : 0);
    t.inside = t.compute - compute;
    t.block = block;
    t.hop = hop;
    t.home = home;
    return t;
}

/* The ring's messages are calls of the communication stream like any other: the first goes behind
 * what is under way, which it may find `backlog` seconds long. Seconds that this adds. */
static double ring_delay(const struct timing *t, double backlog)
{
    const double alone = t->hop > t->block ? t->hop : t->block, late = backlog + t->hop;
    return late > alone ? late - alone : 0;
}

/* Bytes by axis: a group over several axes is spread in proportion to what each adds, size - 1. */
static void count_bytes(struct pricing *c, const struct sw_traffic_walk *sent)
{
    const int32_t *size = c->p->mesh.size;
    double parts = 0;
    for (uint8_t i = 0; i < sent->axes.count; i++)
        parts += size[sent->axes.axis[i]] - 1;
    for (uint8_t i = 0; i < sent->axes.count; i++) {
        const uint8_t a = sent->axes.axis[i];
        c->out->communication_bytes[a] += sent->sent.bytes * sent->calls * (size[a] - 1) / parts;
    }
}

/* Collectives by what they carry, each alone. */
static void count_alone(struct pricing *c, const struct sw_op *op, double calls,
                        const struct timing *t)
{
    struct sw_cost_parts *parts = &c->out->parts;
    if (sw_op_reads(c->p, op, SW_ROLE_PARAMETER)) {
        parts->gathers += calls * t->communication;
        return;
    }
    parts->reduces += calls * t->communication;
    parts->latency += calls * t->latency;
    parts->messages += (int64_t)calls;
}

/* What the ring's hops over its outermost link need to be hidden, of the forward op. */
static void check_ring(struct pricing *c, const struct sw_op *op)
{
    const struct sw_cluster_config *cluster = c->cluster;
    const struct sw_accelerator_config *a = &cluster->accelerator;
    const int32_t link = sw_links_outermost(span_of(c, op->axes));
    if (link < 1)
        return;
    const bool narrow = c->p->values[op->in[0].value].dtype == SW_BF16_T;
    const double peak = narrow ? a->peak_bf16_flops : a->peak_fp32_flops / 2;
    snprintf(c->out->ring_link, sizeof c->out->ring_link, "%.39s", cluster->link[link].name);
    c->out->ring_block_tokens = (double)c->p->values[op->in[1].value].local[1];
    c->out->ring_needs_tokens = 2 * sw_links_overlap_tokens(cluster, link, peak) /
                                (op->as.attention.group > 1 ? op->as.attention.group : 1);
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

static int16_t ends_of(struct pricing *c, int32_t value)
{
    if (c->ends_of[value] < 0)
        c->ends_of[value] = (int16_t)c->done_count++;
    return c->ends_of[value];
}

/* Of a collective of so many seconds: all but its latency, if it stays inside a node of a device
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

/* `sent`: what the op sends, NULL: nothing; `like`: the timing of an op that is
 * alike, NULL: none is known. */
static void time_collective(struct pricing *c, const struct sw_op *op,
                            const struct sw_traffic_walk *sent, const struct timing *like,
                            struct timing *t)
{
    t->ends = ends_of(c, op->out[0].value);
    if (sent == NULL)
        return;
    t->axes = sw_axes_set(sent->axes);
    if (c->ideal != NULL && c->ideal->batch_alone && t->axes & (1u << SW_DP | 1u << SW_FSDP))
        return;
    if (like != NULL) {
        t->communication = like->communication;
        t->latency = like->latency;
        t->copying = like->copying;
        return;
    }
    const double messages =
        sw_device_message_seconds(c->cluster->accelerator.device, sent->sent.messages);
    const enum sw_collective kind = sw_op_collective(op->kind);
    t->communication = link_seconds(c, sent->axes, false, kind, sent->sent.bytes) + messages;
    if (c->ideal != NULL) /* nobody asks for the rest */
        return;
    const double idle = link_seconds(c, sent->axes, false, kind, 0);
    t->latency = idle + messages;
    t->copying = copying_seconds(c, sent->axes, t->communication, idle);
}

static enum work work_of(const struct sw_program *p, const struct sw_op *op)
{
    /* weights that are streamed are read from where a gather put them */
    return sw_op_reads(p, op, SW_ROLE_CACHE)                     ? WORK_CACHE
           : sw_op_info(op->kind)->cost_class == SW_CLASS_MATMUL ? WORK_WEIGHTS
                                                                 : WORK_REST;
}

static void time_compute(struct pricing *c, const struct sw_op *op,
                         const struct sw_traffic_walk *sent, struct timing *t)
{
    if (c->ideal != NULL && c->ideal->batch_alone && !sw_traffic_op_of_batch(c->p, op))
        return;
    t->compute =
        sw_cost_known_seconds(c->known, c->p, (int32_t)(op - c->p->ops), c->cluster, c->workload);
    if (sent == NULL)
        return;
    if (sw_op_is_exchange(op->kind)) {
        t->axes = sw_axes_set(sent->axes);
        t->inside = sw_links_exchange_seconds(c->cluster, span_of(c, sent->axes), sent->sent.bytes,
                                              sw_op_info(op->kind)->messages(op));
        t->compute += t->inside;
        return;
    }
    *t = ring_timing(c, op, t->compute, sent->sent.bytes);
    if (c->ideal == NULL)
        check_ring(c, op);
}

static void time_ops(struct pricing *c)
{
    const struct sw_program *p = c->p;
    struct sw_traffic_walk walk = sw_traffic_begin(p);
    walk.known = c->known->sent;
    for (struct sw_walk w = sw_walk_begin(p); sw_walk_each(&w);) {
        const struct sw_op *op = &p->ops[w.op];
        const struct sw_traffic_walk *sent =
            op->axes.count > 0 && sw_traffic_at(&walk, &p->regions[w.region], op) ? &walk : NULL;
        const int32_t first = sw_program_alike(p, w.op);
        const struct timing *like = first < w.op ? &c->timing[first] : NULL;
        struct timing *t = &c->timing[w.op];
        *t = (struct timing){.part = PART_COMPUTE};
        if (sw_op_is_wait(op->kind)) {
            t->part = PART_WAIT;
            t->ends = ends_of(c, op->in[0].value);
        } else if (sw_op_is_collective(op->kind)) {
            t->part = PART_COLLECTIVE;
            time_collective(c, op, sent, like, t);
        } else {
            time_compute(c, op, sent, t);
            t->work = c->ideal == NULL ? (uint8_t)work_of(p, op) : WORK_REST;
        }
        t->when = sw_walk_when(op);
        c->once = c->once || op->last_micro_step;
        if (sent != NULL && c->ideal == NULL)
            count_bytes(c, sent);
        if (sent != NULL && t->part == PART_COLLECTIVE)
            count_alone(c, op, sent->calls, t);
    }
}

static void expose(struct clocks *now, sw_axis_set axes, double seconds)
{
    int32_t count = 0;
    for (int32_t a = 0; a < SW_AXIS_COUNT; a++)
        count += (axes >> a) & 1;
    if (count == 0)
        return;
    const double each = seconds / count;
    for (int32_t a = 0; a < SW_AXIS_COUNT; a++)
        if (axes & (1u << a))
            now->exposed[a] += each;
}

/* The compute stream waits from `now` until then: for what the communication stream does meanwhile,
 * in its order. */
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

/* A collective was issued while the compute stream stands at `compute`, before which nothing will
 * ask any more. */
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
            const int32_t capacity = c->flight_capacity == 0 ? FEW_FLIGHTS : 2 * c->flight_capacity;
            struct flight *grown = realloc(c->flight, (size_t)capacity * sizeof *grown);
            c->failed = c->failed || grown == NULL;
            if (grown == NULL)
                return;
            c->flight = grown;
            c->flight_capacity = capacity;
        }
    }
    c->flight[c->flights++] = flight;
}

/* Ops one after the other, but for those that `skip` says. Walked many times: looks at the timings
 * alone, which are small, and keeps the clocks at hand. */
static void run_ops(struct pricing *c, const struct timing *t, const struct timing *end,
                    uint8_t skip)
{
    double compute = c->now.compute, communication = c->now.communication, busy = c->now.busy;
    double *work = c->now.work;
    const double issue = c->cluster->profile.host_time_s;
    for (; t < end; t++) {
        if (t->when & skip)
            continue;
        if (issue > 0 && t->part != PART_WAIT) {
            c->now.host += issue;
            if (c->now.host > compute) { /* the device has caught up with the host */
                busy += c->now.host - compute;
                work[WORK_REST] += c->now.host - compute;
                compute = c->now.host;
            }
        }
        if (t->part == PART_COMPUTE) {
            double beside = communication - compute;
            beside = beside < 0 ? 0 : beside < t->compute ? beside : t->compute;
            double slower = beside * c->contention;
            if (c->now.copying > 0) { /* one core does both, whichever comes first */
                const double left = communication - compute;
                slower += c->now.copying < left ? c->now.copying : left > 0 ? left : 0;
                c->now.copying = 0;
            }
            if (t->hop > 0 && communication > compute) {
                const double delay = ring_delay(t, communication - compute);
                wait_until(c, compute, compute + delay);
                compute += delay;
            }
            compute += t->compute + slower;
            busy += t->compute - t->inside + slower;
            work[t->work] += t->compute - t->inside + slower;
            if (t->inside > 0)
                expose(&c->now, t->axes, t->inside);
            if (t->hop > 0) { /* until its last message has arrived */
                const double arrived = t->home ? compute : compute - t->block;
                communication = arrived > communication ? arrived : communication;
            }
        } else if (t->part == PART_COLLECTIVE) {
            /* starts when the stream is free and what compute has issued before it is done */
            const double start = communication < compute ? compute : communication;
            communication = start + t->communication;
            c->now.copying = (start > compute ? c->now.copying : 0) + t->copying;
            add_flight(c, compute, (struct flight){start, communication, t->axes});
            c->done[t->ends] = communication; /* waits name the first result */
        } else {
            const double until = c->done[t->ends];
            if (until > compute) {
                wait_until(c, compute, until);
                compute = until;
                const double left = communication - compute;
                c->now.copying = c->now.copying < left ? c->now.copying : left;
            }
        }
    }
    c->now.compute = compute;
    c->now.communication = communication;
    c->now.busy = busy;
}

static void observe_op(struct pricing *c, const struct sw_walk *w)
{
    static const enum sw_cost_stream streams[] = {[PART_COMPUTE] = SW_STREAM_COMPUTE,
                                                  [PART_COLLECTIVE] = SW_STREAM_COMMUNICATION,
                                                  [PART_WAIT] = SW_STREAM_WAIT};
    const struct timing *t = &c->timing[w->op];
    const double issued = c->now.compute;
    run_ops(c, t, t + 1, 0);
    const bool collective = t->part == PART_COLLECTIVE;
    const double end = collective ? c->now.communication : c->now.compute;
    const struct sw_cost_event event = {.op = w->op,
                                        .region = w->region,
                                        .layer = w->layer,
                                        .micro_step = w->micro_step,
                                        .stream = streams[t->part],
                                        .issued = issued,
                                        .start = collective ? end - t->communication : issued,
                                        .end = end};
    c->observer->event(c->observer->context, &event);
}

static void run_iteration(struct pricing *c, struct sw_walk *w)
{
    const struct sw_region *region = &c->p->regions[w->region];
    const struct timing *first = &c->timing[region->first_op];
    if (c->observer == NULL)
        run_ops(c, first, first + region->op_count, w->skip);
    while (c->observer != NULL && sw_walk_op(w))
        observe_op(c, w);
}

/* Everything `times` more as between `before` and now: the clocks move on, and with them what is in
 * flight. */
static void extrapolate(struct pricing *c, const struct clocks *before, double times)
{
    struct clocks *now = &c->now;
    const double step = now->compute - before->compute, shift = step * times;
    for (int32_t i = 0; i < c->done_count; i++)
        c->done[i] += shift;
    for (int32_t i = 0; i < c->flights; i++) {
        c->flight[i].start += shift;
        c->flight[i].end += shift;
    }
    now->communication += shift;
    now->compute += shift;
    now->host += (now->host - before->host) * times;
    now->busy += (now->busy - before->busy) * times;
    for (int32_t w = 0; w < WORKS; w++)
        now->work[w] += (now->work[w] - before->work[w]) * times;
    for (int32_t a = 0; a < SW_AXIS_COUNT; a++)
        now->exposed[a] += (now->exposed[a] - before->exposed[a]) * times;
}

static void run_region(struct pricing *c, struct sw_walk *w)
{
    const int32_t more = c->p->regions[w->region].repeat - WARM - 1; /* all but the last */
    struct clocks before;
    while (sw_walk_iteration(w)) {
        const bool repeats = w->iteration == WARM - 1 && more > 0;
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

/* The last micro-step is walked by itself where it has ops that the others do not have. */
static void run_step(struct pricing *c)
{
    const int32_t more = c->p->accumulation_steps - (c->once ? 1 : 0) - WARM;
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
    /* a step ends when both streams have */
    if (c->now.communication > c->now.compute) {
        wait_until(c, c->now.compute, c->now.communication);
        c->now.compute = c->now.communication;
    }
}

/* What the price rests on, and how far such prices have been off. */
static void tell_profile(struct sw_cost *out, const struct sw_cluster_config *cluster)
{
    const struct sw_profile_config assumed = sw_profile_default(&cluster->accelerator);
    const bool is_default = sw_profile_is_default(&cluster->profile);
    const struct sw_profile_config *p = is_default ? &assumed : &cluster->profile;
    out->band_low_seconds = out->step_seconds * p->band_low;
    out->band_high_seconds = out->step_seconds * p->band_high;
    out->profile = p->name;
    out->calibration = is_default ? sw_device_row(cluster->accelerator.device)->usual.source
                       : p->source != NULL ? p->source
                                           : "its file names no source";
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

static int price(const struct sw_program *program, const struct sw_cluster_config *cluster,
                 const struct sw_workload *workload, struct sw_cost_known *known,
                 const struct sw_cost_ideal *ideal, const struct sw_cost_observer *observer,
                 struct sw_cost *out, struct sw_error *err)
{
    int status = -1;
    memset(out, 0, sizeof *out);
    if (program->region_count > SW_COST_MAX_REGIONS)
        return sw_fail(err, SW_ENVIRONMENT, "a program of %d regions cannot be priced",
                       program->region_count);
    struct pricing *c = calloc(1, sizeof *c);
    if (c == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while pricing the program");
    c->p = program;
    c->cluster = cluster;
    c->workload = workload;
    c->out = out;
    c->known = known;
    c->ideal = ideal;
    if (ideal != NULL)
        c->ideal_spans = malloc((size_t)AXIS_SETS * SW_MAX_SPANS * sizeof *c->ideal_spans);
    c->observer = observer;
    c->contention = sw_device_row(cluster->accelerator.device)->contention;
    c->timing = malloc(((size_t)program->op_count + 1) * sizeof *c->timing);
    c->ends_of = malloc(((size_t)program->value_count + 1) * sizeof *c->ends_of);
    c->done = calloc((size_t)program->value_count + 1, sizeof *c->done);
    if (c->timing == NULL || c->ends_of == NULL || c->done == NULL ||
        (ideal != NULL && c->ideal_spans == NULL)) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory while pricing the program");
        goto out;
    }
    out->region_count = program->region_count;
    for (int32_t r = 0; r < program->region_count; r++)
        memcpy(out->region[r].name, program->regions[r].name, SW_NAME_BYTES);
    memset(c->ends_of, -1, (size_t)program->value_count * sizeof *c->ends_of);
    time_ops(c);
    run_step(c);
    if (c->failed) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory while pricing the program");
        goto out;
    }
    out->step_seconds = c->now.compute;
    if (ideal == NULL)
        tell_profile(out, cluster);
    out->compute_seconds = c->now.busy;
    memcpy(out->exposed_seconds, c->now.exposed, sizeof out->exposed_seconds);
    out->parts.weights = c->now.work[WORK_WEIGHTS];
    out->parts.cache = c->now.work[WORK_CACHE];
    out->parts.rest = c->now.work[WORK_REST];
    out->parts.waiting = total_exposed(&c->now);
    status = 0;
out:
    free(c->timing);
    free(c->ends_of);
    free(c->done);
    free(c->flight);
    free(c->ideal_spans);
    free(c);
    return status;
}

int sw_cost_price_known(const struct sw_program *program, const struct sw_cluster_config *cluster,
                        const struct sw_workload *workload, struct sw_cost_known *known,
                        struct sw_cost *out, struct sw_error *err)
{
    return price(program, cluster, workload, known, NULL, NULL, out, err);
}

int sw_cost_price_ideal(const struct sw_program *program, const struct sw_cluster_config *cluster,
                        const struct sw_cost_ideal *ideal, struct sw_cost_known *known,
                        struct sw_cost *out, struct sw_error *err)
{
    return price(program, cluster, NULL, known, ideal, NULL, out, err);
}

int sw_cost_trace(const struct sw_program *program, const struct sw_cluster_config *cluster,
                  const struct sw_workload *workload, const struct sw_cost_observer *observer,
                  struct sw_cost *out, struct sw_error *err)
{
    const size_t ops = (size_t)program->op_count + 1;
    struct sw_cost_known known = {.compute_seconds = malloc(ops * sizeof *known.compute_seconds),
                                  .sent = malloc(ops * sizeof *known.sent)};
    int status = -1;
    if (known.compute_seconds == NULL || known.sent == NULL) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory while pricing the program");
    } else {
        sw_cost_known_reset(&known, program->op_count);
        status = price(program, cluster, workload, &known, NULL, observer, out, err);
    }
    free(known.compute_seconds);
    free(known.sent);
    return status;
}
