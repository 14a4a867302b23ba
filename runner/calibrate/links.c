#include "runner/calibrate/links.h"

#include "core/base/clock.h"
#include "core/base/number.h"
#include "core/cost/links.h"
#include "core/ir/workspace_collective.h"
#include "runner/collective/call.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    KINDS = SW_LINK_KINDS,
    BATCHES = 5,
    MAX_REPEATS = 200,
    FIRST_BYTES = 4 << 10, /* then GROWTH times more each */
    GROWTH = SW_LINK_GROWTH,
    ENOUGH = 4, /* sizes measured on any link, however slow */
    ATTEMPTS = 3,
    AHEAD = 4, /* concurrent calls when bandwidth is measured */
    LATENCY_BYTES = 64
};

/* Work of the compute thread before each call: about a small model's between two collectives. */
static const double work_seconds = 1e-3;

/* Resolution: smallest time added to the work that counts. */
static const double least_seconds = 1e-6;

static const struct sw_axes every_axis = {SW_AXIS_COUNT, {SW_DP, SW_FSDP, SW_TP, SW_SP}};

static void work(void)
{
    double end = 0, busy = 0;
    do {
        busy = sw_clock_busy();
        end = end > 0 ? end : busy + work_seconds;
    } while (busy < end);
}

static void *allocate(int64_t bytes, struct sw_error *err)
{
    const size_t rounded = ((size_t)bytes / SW_ARENA_ALIGNMENT + 1) * SW_ARENA_ALIGNMENT;
    void *memory = aligned_alloc(SW_ARENA_ALIGNMENT, rounded);
    if (memory == NULL)
        (void)sw_fail(err, SW_ENVIRONMENT, "out of memory for %lld bytes to send",
                      (long long)bytes);
    else
        memset(memory, 0, rounded); /* touch pages before timing */
    return memory;
}

int sw_calibrate_sum(struct sw_comm *comm, double *values, int32_t count, struct sw_error *err)
{
    if (comm->size <= 1)
        return 0;
    struct sw_collective_call call = {.axes = every_axis, .dtype = SW_F64};
    const int64_t shape[1] = {count};
    sw_collective_call_shape(&call, SW_ALL_REDUCE, 1, shape, 0, 0);
    call.in[0] = call.out[0] = values;
    const struct sw_collective_slots slots = sw_call_slots(&call, comm->size);
    call.workspace = allocate(slots.slots * slots.slot_bytes, err);
    if (call.workspace == NULL)
        return -1;
    uint64_t ticket;
    int status = comm->vtable->start(comm, &call, &ticket, err);
    if (status == 0)
        status = comm->vtable->wait(comm, ticket, err);
    free(call.workspace);
    return status;
}

/* ---- One kind of call at one size ---- */

struct probe {
    struct sw_comm *comm;
    struct sw_axes axes;
    int32_t group;
    enum sw_collective kind;
    struct sw_collective_call call;
    void *in, *out;
    int64_t bytes; /* bytes this rank sends, see sw_op_communication_bytes */
    int32_t ahead; /* calls in a row after each stretch of work */
};

/* A ring's hop is a message of theirs. */
const enum sw_collective sw_link_kinds[KINDS] = {SW_ALL_GATHER, SW_REDUCE_SCATTER, SW_ALL_REDUCE};

/* Returns a multiple of the group. */
int64_t sw_link_elems(enum sw_collective kind, int32_t group, int64_t bytes)
{
    const int64_t each = sw_link_bytes(kind, group, group), blocks = (bytes + each - 1) / each;
    return (blocks > 0 ? blocks : 1) * group;
}

int64_t sw_link_bytes(enum sw_collective kind, int32_t group, int64_t elems)
{
    const double array = (double)elems * (kind == SW_ALL_GATHER ? group : 1) * sizeof(float);
    return llround(sw_links_sent_share(kind, group) * array);
}

static void probe_free(struct probe *p)
{
    free(p->in);
    free(p->out);
    free(p->call.workspace);
}

static int probe_create(struct probe *p, struct sw_comm *comm, struct sw_axes axes,
                        enum sw_collective kind, int64_t bytes, int32_t ahead, struct sw_error *err)
{
    *p = (struct probe){.comm = comm,
                        .axes = axes,
                        .group = sw_axes_size(&comm->mesh, axes),
                        .kind = kind,
                        .ahead = ahead};
    const int64_t elems = sw_link_elems(kind, p->group, bytes);
    const int64_t grown = kind == SW_ALL_GATHER ? elems * p->group : elems;
    p->bytes = sw_link_bytes(kind, p->group, elems);
    p->in = allocate(elems * (int64_t)sizeof(float), err);
    p->out = allocate(grown * (int64_t)sizeof(float), err);
    if (p->in == NULL || p->out == NULL)
        return -1;
    sw_collective_call_shape(&p->call, kind, 1, &elems, 0, 0);
    p->call.axes = axes;
    p->call.dtype = SW_F32;
    p->call.in[0] = p->in;
    p->call.out[0] = kind == SW_ALL_REDUCE ? p->in : p->out; /* in place, as in programs */
    const struct sw_collective_slots slots = sw_call_slots(&p->call, p->group);
    p->call.workspace = allocate(slots.slots * slots.slot_bytes, err);
    return p->call.workspace == NULL ? -1 : 0;
}

static int run(const struct probe *p, bool only_work, int32_t repeats, struct sw_error *err)
{
    for (int32_t i = 0; i < repeats; i++) {
        uint64_t ticket = 0;
        work();
        if (only_work)
            continue;
        for (int32_t k = 0; k < p->ahead; k++)
            if (p->comm->vtable->start(p->comm, &p->call, &ticket, err) != 0)
                return -1;
        if (p->comm->vtable->wait(p->comm, ticket, err) != 0)
            return -1;
    }
    return 0;
}

/* Largest of the ranks' values, on every rank. */
static int largest(struct sw_comm *comm, double *value, struct sw_error *err)
{
    double *told = calloc((size_t)comm->size, sizeof *told);
    if (told == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory");
    told[comm->rank] = *value;
    const int status = sw_calibrate_sum(comm, told, comm->size, err);
    for (int32_t r = 0; r < comm->size; r++)
        *value = told[r] > *value ? told[r] : *value;
    free(told);
    return status;
}

/* Mean seconds of a repeat over a batch, the slowest rank's: groups share a link unequally, the
 * first to finish leaves it to the others, and a step waits for those. */
static int run_batch(const struct probe *p, bool only_work, int32_t repeats, double *seconds,
                     struct sw_error *err)
{
    if (p->comm->vtable->barrier(p->comm, err) != 0)
        return -1;
    const double begin = sw_clock_now();
    if (run(p, only_work, repeats, err) != 0 || p->comm->vtable->barrier(p->comm, err) != 0)
        return -1;
    *seconds = (sw_clock_now() - begin) / repeats;
    return largest(p->comm, seconds, err);
}

/* Number of batches, and *repeats in each, that take about `slot` seconds together. */
static int32_t share_out(double slot, double once, int32_t *repeats)
{
    const double each = slot / (BATCHES * once);
    *repeats = each < 1 ? 1 : each < MAX_REPEATS ? (int32_t)each : MAX_REPEATS;
    if (each >= 1)
        return BATCHES;
    return slot > 3 * once ? 3 : 1; /* slow link: fewer batches of one */
}

/* Median time that a batch's calls add to the work; <= 0 if other programs disturbed one of the
 * two. */
static int time_batches(const struct probe *p, int32_t batches, int32_t repeats, double *added,
                        struct sw_error *err)
{
    double with[BATCHES], without[BATCHES];
    for (int32_t i = 0; i < batches; i++)
        if (run_batch(p, true, repeats, &without[i], err) != 0 ||
            run_batch(p, false, repeats, &with[i], err) != 0)
            return -1;
    qsort(with, (size_t)batches, sizeof *with, sw_compare_doubles);
    qsort(without, (size_t)batches, sizeof *without, sw_compare_doubles);
    *added = with[batches / 2] - without[batches / 2];
    return 0;
}

/* Time a call adds to the preceding work, from batches of about `slot` seconds together; repeated
 * if not positive; 0: never positive. *took: total time. */
static int time_probe(const struct probe *p, double slot, double *seconds, double *took,
                      struct sw_error *err)
{
    double with, without, added = 0;
    int32_t repeats;
    const double begin = sw_clock_now();
    if (run_batch(p, false, 1, &with, err) != 0 || run_batch(p, true, 1, &without, err) != 0 ||
        run_batch(p, false, 1, &with, err) != 0)
        return -1;
    const int32_t batches = share_out(slot, with + without, &repeats);
    for (int32_t i = 0; i < ATTEMPTS && added <= 0; i++)
        if (time_batches(p, batches, repeats, &added, err) != 0)
            return -1;
    added /= p->ahead;
    *seconds = added > 0 && added < least_seconds ? least_seconds : added > 0 ? added : 0;
    *took = sw_clock_now() - begin;
    if (sw_calibrate_sum(p->comm, took, 1, err) != 0)
        return -1;
    *took /= p->comm->size;
    return 0;
}

/* ---- All sizes ---- */

/* One call per kind, of one size. */
struct calls {
    struct sw_link_measured of[KINDS];
    double seconds; /* sum over kinds */
    double latency; /* mean seconds of a step if bytes took none */
    double spent;   /* spent on measuring */
};

static int measure_size(struct sw_comm *comm, const struct sw_link_group *group, int64_t bytes,
                        int32_t ahead, double slot, struct calls *out, struct sw_error *err)
{
    const struct sw_axes axes = group->axes;
    *out = (struct calls){.seconds = 0};
    for (int32_t k = 0; k < KINDS; k++) {
        const enum sw_collective op = sw_link_kinds[k];
        const double steps =
            sw_links_steps(true, op, false, sw_axes_size(&comm->mesh, axes), 0); /* MPI's */
        struct probe probe;
        double seconds = 0, spent = 0;
        int status = probe_create(&probe, comm, axes, sw_link_kinds[k], bytes, ahead, err);
        if (status == 0)
            status = time_probe(&probe, slot / KINDS, &seconds, &spent, err);
        const double sent = (double)probe.bytes;
        out->of[k] = (struct sw_link_measured){sent, sent * group->share, seconds, steps};
        out->seconds += seconds;
        out->latency += (seconds > 0 ? seconds : least_seconds) / steps / KINDS;
        out->spent += spent;
        probe_free(&probe);
        if (status != 0)
            return -1;
    }
    return 0;
}

/* Interpolates at `share` of the way from a to b: times grow about linearly with size, rates do
 * not. */
static struct sw_link_measured between(const struct sw_link_measured *a,
                                       const struct sw_link_measured *b, double share)
{
    return (struct sw_link_measured){.bytes = a->bytes + (b->bytes - a->bytes) * share,
                                     .crossing = a->crossing + (b->crossing - a->crossing) * share,
                                     .seconds = a->seconds + (b->seconds - a->seconds) * share,
                                     .latencies =
                                         a->latencies + (b->latencies - a->latencies) * share};
}

static void add_point(struct sw_link_rates *out, const struct sw_link_measured *m)
{
    /* latency is priced apart; bytes never move in no time */
    const double net = m->seconds - m->latencies * out->latency_s;
    const double rate = m->crossing / (net > 0.1 * m->seconds ? net : 0.1 * m->seconds);
    out->point[out->count++] = (struct sw_link_point){.bytes = m->crossing, .fraction = rate};
    out->bandwidth = rate > out->bandwidth ? rate : out->bandwidth;
}

/* Sizes are GROWTH apart; adds points between, since `plan` interpolates over the points. */
void sw_link_points(struct sw_link_rates *out, const struct sw_link_measured *measured,
                    int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        add_point(out, &measured[i]);
        for (int32_t k = 1; k < SW_LINK_BETWEEN && i + 1 < count; k++) {
            const double share = (pow(GROWTH, (double)k / SW_LINK_BETWEEN) - 1) / (GROWTH - 1);
            const struct sw_link_measured m = between(&measured[i], &measured[i + 1], share);
            add_point(out, &m);
        }
    }
    for (int32_t i = 0; i < out->count; i++)
        out->point[i].fraction /= out->bandwidth;
}

void sw_link_add_curve(struct sw_link_rates *out, enum sw_collective kind, int32_t ranks,
                       const struct sw_link_measured *mean, const struct sw_link_measured *measured,
                       int32_t count)
{
    struct sw_link_rates own = {.latency_s = out->latency_s};
    struct sw_link_measured told[SW_LINK_SIZES];
    for (int32_t i = 0; i < count; i++) {
        const double waits = mean[i].latencies * out->latency_s;
        told[i] = measured[i];
        if (waits > mean[i].seconds / 2 || measured[i].seconds <= 0)
            told[i].seconds =
                measured[i].latencies * out->latency_s +
                measured[i].crossing / (out->point[SW_LINK_BETWEEN * i].fraction * out->bandwidth);
    }
    sw_link_points(&own, told, count);
    const double bandwidth = own.bandwidth > out->bandwidth ? own.bandwidth : out->bandwidth;
    const double before = out->bandwidth / bandwidth, its = own.bandwidth / bandwidth;
    struct sw_link_curve *curve = &out->curve[out->curves];
    curve->kind = kind;
    curve->ranks = ranks;
    for (int32_t i = 0; i < out->count; i++) {
        out->point[i].fraction *= before;
        for (int32_t c = 0; c < out->curves; c++)
            out->curve[c].point[i].fraction *= before;
        curve->point[i] = (struct sw_link_point){own.point[i].bytes, own.point[i].fraction * its};
    }
    out->curves++;
    out->bandwidth = bandwidth;
}

double sw_link_reached(const struct sw_link_rates *rates)
{
    double best = rates->count == 0 ? 1 : 0;
    for (int32_t i = 0; i < rates->count; i++)
        best = rates->point[i].fraction > best ? rates->point[i].fraction : best;
    return rates->bandwidth * best;
}

static void add(struct sw_link_measured *to, const struct sw_link_measured *one, double weight)
{
    to->bytes += one->bytes * weight;
    to->crossing += one->crossing * weight;
    to->seconds += one->seconds * weight;
    to->latencies += one->latencies * weight;
}

/* Mean of one size over kinds and groups with a valid time; seconds 0: none valid. */
static struct sw_link_measured
mean_of(struct sw_link_measured of[KINDS][SW_LINK_GROUPS][SW_LINK_SIZES], int32_t groups,
        int32_t size)
{
    struct sw_link_measured mean = {0};
    int32_t told = 0;
    for (int32_t i = 0; i < KINDS * groups; i++)
        told += of[i / groups][i % groups][size].seconds > 0;
    for (int32_t i = 0; i < KINDS * groups && told > 0; i++)
        if (of[i / groups][i % groups][size].seconds > 0)
            add(&mean, &of[i / groups][i % groups][size], 1.0 / told);
    return mean;
}

/* Measures bandwidth with calls in a row: an idle network passes its first bytes faster (buffers,
 * token buckets), unlike in a step that it limits. */
int sw_calibrate_link(struct sw_comm *comm, const struct sw_link_group *groups, int32_t count,
                      double seconds, struct sw_link_rates *out, struct sw_error *err)
{
    const double slot = seconds / (SW_LINK_SIZES * count + 1);
    struct sw_link_measured all[SW_LINK_SIZES] = {0}, of[KINDS][SW_LINK_GROUPS][SW_LINK_SIZES];
    double spent, last = 0;
    struct calls calls;
    int64_t bytes = FIRST_BYTES;
    int32_t sizes = 0; /* sizes with a valid time */
    *out = (struct sw_link_rates){0};
    if (measure_size(comm, &groups[0], LATENCY_BYTES, 1, slot, &calls, err) != 0)
        return -1;
    out->latency_s = calls.latency;
    spent = calls.spent;
    for (int32_t size = 0; size < SW_LINK_SIZES; size++, bytes *= GROWTH) {
        /* the next size takes GROWTH times longer and at least three calls; ranks see the same
         * means, so all stop at one size */
        if (size >= ENOUGH && spent + 3 * AHEAD * GROWTH * last > seconds)
            break;
        last = 0;
        for (int32_t g = 0; g < count; g++) {
            if (measure_size(comm, &groups[g], bytes, AHEAD, slot, &calls, err) != 0)
                return -1;
            for (int32_t k = 0; k < KINDS; k++)
                of[k][g][sizes] = calls.of[k];
            last += calls.seconds;
            spent += calls.spent;
        }
        all[sizes] = mean_of(of, count, sizes);
        sizes += all[sizes].seconds > 0;
    }
    if (sizes == 0)
        return sw_fail(err, SW_ENVIRONMENT,
                       "measured %d times, collectives took no longer than the work beside them; "
                       "stop other programs on this machine",
                       ATTEMPTS);
    sw_link_points(out, all, sizes);
    for (int32_t k = 0; k < KINDS; k++)
        for (int32_t g = 0; g < count; g++)
            sw_link_add_curve(out, sw_link_kinds[k], sw_axes_size(&comm->mesh, groups[g].axes), all,
                              of[k][g], sizes);
    return 0;
}
