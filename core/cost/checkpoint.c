#include "core/cost/checkpoint.h"

#include "core/cost/cost.h"

#include <math.h>

static const double day_s = 86400;

bool sw_checkpoint_background(const struct sw_cluster_config *cluster, int64_t memory_total,
                              int64_t snapshot_bytes)
{
    if (sw_device_row(cluster->accelerator.device)->host_bandwidth == 0)
        return memory_total + snapshot_bytes <= cluster->accelerator.memory_bytes;
    return cluster->host_memory_bytes == 0 ||
           snapshot_bytes <= cluster->host_memory_bytes / cluster->accelerators_per_node;
}

/* Seconds of copying to the host's memory over the bus, except for bytes that the exchange put
 * there. */
static double copy_seconds(const struct sw_accelerator_config *a, int64_t bytes)
{
    const struct sw_device_row *row = sw_device_row(a->device);
    return row->host_bandwidth > 0 ? (double)bytes / row->host_bandwidth : 0;
}

static void price_writing(const struct sw_cluster_config *cluster, double limit,
                          struct sw_checkpoint_cost *c)
{
    const double told = cluster->storage_bandwidth;
    c->rate = SW_WRITE_ASSUMED;
    c->bandwidth = SW_ASSUMED_WRITE_BANDWIDTH * cluster->nodes;
    if (told > 0) {
        c->rate = SW_WRITE_TOLD;
        c->bandwidth = told;
    }
    if (limit > 0 && (told <= 0 || limit <= told)) {
        c->rate = SW_WRITE_LIMITED;
        c->bandwidth = limit;
    }
    c->write_s = (double)c->bytes / c->bandwidth;
}

void sw_checkpoint_price(const struct sw_placement *placement,
                         const struct sw_cluster_config *cluster, const struct sw_saved_run *run,
                         double exchange_s, double link_s, struct sw_checkpoint_cost *out)
{
    const double failures = cluster->failures_per_1000_node_days / 1000 * cluster->nodes / day_s;
    *out = (struct sw_checkpoint_cost){.bytes = sw_placement_bytes(placement),
                                       .most_bytes = sw_placement_most_bytes(placement),
                                       .files = placement->file_count,
                                       .exchange_s = exchange_s,
                                       .link_s = link_s};
    price_writing(cluster, run->write_limit, out);
    out->background = sw_checkpoint_background(cluster, run->memory_total, out->most_bytes);
    if (out->background) {
        out->snapshot_bytes = out->most_bytes;
        out->copy_s = copy_seconds(&cluster->accelerator, out->most_bytes);
    }
    out->stall_s = exchange_s + (out->background ? out->copy_s : out->write_s);
    out->save_s = exchange_s + out->copy_s + out->write_s;
    out->failure_s = failures > 0 ? 1 / failures : INFINITY;
    out->interval_s = fmax(out->write_s, sqrt(2 * out->stall_s * out->failure_s));
    const double steps = fmax(1, ceil(out->interval_s / run->step_seconds));
    if (steps < (double)run->total_steps)
        out->interval_steps = (int64_t)steps;
}

int sw_checkpoint_price_set(const struct sw_program_set *set,
                            const struct sw_cluster_config *cluster, const struct sw_saved_run *run,
                            struct sw_checkpoint_cost *out, struct sw_error *err)
{
    double exchange_s, link_s;
    if (sw_cost_save_seconds(set, cluster, &exchange_s, &link_s, err) != 0)
        return -1;
    sw_checkpoint_price(&set->placement, cluster, run, exchange_s, link_s, out);
    return 0;
}

double sw_checkpoint_paused_share(const struct sw_checkpoint_cost *cost, double every_s)
{
    const double waits = cost->background ? fmax(0, cost->write_s - every_s) : 0;
    const double pause = cost->stall_s + waits;
    return pause / (every_s + pause);
}

double sw_checkpoint_repeated_share(const struct sw_checkpoint_cost *cost, double every_s)
{
    return isinf(cost->failure_s) ? 0 : fmin(1, every_s / 2 / cost->failure_s);
}
