#include "runner/calibrate/sanity.h"

#include "runner/collective/comm.h"

#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

/* Least fraction of its possible share that an undisturbed thread has: a test beside it takes half,
 * and threads waiting for each other a little more. */
static const double least_part = 0.4;

/* Multiple of a memory's rate that one kind of collective may reach: some messages stay in caches.
 * The mean over kinds and groups may not. */
static const double most_of_kind = 4;

/* Usual band of prices, as with the default profile; limits of a band. */
static const double usual_low = 0.7, usual_high = 1.3, least_low = 0.01, most_high = 100;

/* First of the nodes on this rank's machine. */
static int first_node(struct sw_comm *world, int32_t nodes, uint64_t machine, int32_t *node,
                      struct sw_error *err)
{
    const int32_t local = world->size / nodes;
    double *machines = calloc((size_t)nodes, sizeof *machines);
    if (machines == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory");
    if (world->rank % local == 0)
        machines[world->rank / local] = (double)machine;
    const int status = sw_calibrate_sum(world, machines, nodes, err);
    for (*node = 0; *node < world->rank / local && machines[*node] != (double)machine;)
        ++*node;
    free(machines);
    return status;
}

int sw_calibrate_fair_share(struct sw_comm *world, int32_t nodes, uint64_t machine, int32_t threads,
                            double *share, struct sw_error *err)
{
    enum { CORES = CPU_SETSIZE }; /* equal on every rank, whatever its node has */
    cpu_set_t usable;
    const int64_t online = sysconf(_SC_NPROCESSORS_CONF);
    double sum = 0;
    int32_t node = 0;
    if (first_node(world, nodes, machine, &node, err) != 0)
        return -1;
    double *ranks_on = calloc((size_t)nodes * CORES, sizeof *ranks_on);
    if (ranks_on == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory");
    double *here = ranks_on + (size_t)node * CORES;
    if (sched_getaffinity(0, sizeof usable, &usable) != 0) {
        CPU_ZERO(&usable);
        for (int32_t i = 0; i < online && i < CORES; i++)
            CPU_SET(i, &usable);
    }
    for (int32_t i = 0; i < CORES; i++)
        here[i] = CPU_ISSET(i, &usable) ? 1 : 0;
    int status = sw_calibrate_sum(world, ranks_on, nodes * CORES, err);
    for (int32_t i = 0; i < CORES && status == 0; i++)
        sum += CPU_ISSET(i, &usable) ? 1 / here[i] : 0;
    free(ranks_on);
    *share = sum < threads ? sum / threads : 1;
    if (status == 0)
        status = sw_calibrate_sum(world, share, 1, err);
    *share /= world->size;
    return status;
}

static void widen(struct sw_sanity *out, double low, double high)
{
    low = low > least_low ? low : least_low;
    high = high < most_high ? high : most_high;
    out->band_low = out->count == 1 || low < out->band_low ? low : out->band_low;
    out->band_high = out->count == 1 || high > out->band_high ? high : out->band_high;
}

/* Doubts the fastest kind's own rate, which lost times of others can raise. */
static void doubt_kind(const struct sw_calibration *c, const char *where,
                       const struct sw_link_rates *link, struct sw_sanity *out)
{
    const struct sw_link_curve *fastest = NULL;
    double best = 0;
    for (int32_t i = 0; i < link->curves; i++)
        for (int32_t k = 0; k < link->count; k++)
            if (link->curve[i].point[k].fraction > best) {
                best = link->curve[i].point[k].fraction;
                fastest = &link->curve[i];
            }
    const double reached = best * link->bandwidth;
    if (fastest == NULL || !(reached > most_of_kind * c->memory_bandwidth))
        return;
    snprintf(out->text[out->count++], sizeof out->text[0],
             "%.3g GB/s of %s over %d ranks %s, where a rank's memory does %.3g GB/s",
             reached / 1e9, sw_collective_name(fastest->kind), fastest->ranks, where,
             c->memory_bandwidth / 1e9);
    widen(out, usual_low, usual_high * reached / c->memory_bandwidth);
}

/* Doubts a mean above the memory's rate: bytes between ranks are written to a memory once and read
 * once. */
static void doubt_link(const struct sw_calibration *c, const char *where,
                       const struct sw_link_rates *link, struct sw_sanity *out)
{
    const double reached = link != NULL ? sw_link_reached(link) : 0;
    if (link != NULL && !(reached > c->memory_bandwidth))
        doubt_kind(c, where, link, out);
    if (!(reached > c->memory_bandwidth))
        return;
    snprintf(out->text[out->count++], sizeof out->text[0],
             "%.3g GB/s with %.3g us %s, where a rank's memory does %.3g GB/s", reached / 1e9,
             link->latency_s * 1e6, where, c->memory_bandwidth / 1e9);
    widen(out, usual_low, usual_high * reached / c->memory_bandwidth);
}

void sw_calibration_check(const struct sw_calibration *c, double fair,
                          const struct sw_link_rates *inside, const struct sw_link_rates *across,
                          struct sw_sanity *out)
{
    *out = (struct sw_sanity){.count = 0};
    if (c->share > 0 && c->share < least_part * fair) {
        snprintf(out->text[out->count++], sizeof out->text[0],
                 "other programs took the processors: a rank's thread ran for %.0f %% of its "
                 "time, where an idle machine lets it run for %.0f %%",
                 c->share * 100, fair * 100);
        widen(out, usual_low * c->share / fair, usual_high); /* undisturbed it is faster by this */
    }
    doubt_link(c, "inside a node", inside, out);
    doubt_link(c, "between nodes", across, out);
}

const char *sw_calibration_check_step(double predicted_s, double measured_s, char text[160])
{
    const double times = measured_s / predicted_s;
    text[0] = '\0';
    if (!(times >= usual_low && times <= usual_high))
        snprintf(text, 160,
                 "the step took %.2g times as long as predicted, where %g to %g is usual; measure "
                 "again when nothing else runs",
                 times, usual_low, usual_high);
    return text;
}
