/* Requests to Slurm about node placement: --segment of topology/block, --switches of
 * topology/tree. */
#include "planner/scheduler/slurm/place.h"

#include "planner/command/format.h"
#include "planner/scheduler/slurm/settings.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct sw_slurm_config *settings_of(struct sw_cluster_config *cluster)
{
    const size_t at = sw_launcher_offset(cluster->launchers, &sw_launcher_slurm);
    return (struct sw_slurm_config *)(void *)(cluster->settings.bytes + at);
}

/* "1:00:05" */
static void format_wait(double seconds, char *out, size_t bytes)
{
    const int64_t whole = (int64_t)ceil(seconds);
    snprintf(out, bytes, "%d:%02d:%02d", (int)(whole / 3600), (int)(whole / 60 % 60),
             (int)(whole % 60));
}

static void place_segments(struct sw_slurm_config *slurm, struct sw_node_request *p)
{
    char with[SW_FORMAT_BYTES], without[SW_FORMAT_BYTES];
    slurm->segment = p->segment;
    snprintf(p->option, sizeof p->option, "%d", (int)p->segment);
    snprintf(p->why, sizeof p->why,
             "--segment=%d keeps each %d nodes in one block of %d: a step takes %s with it, %s "
             "without",
             (int)p->segment, (int)p->segment, (int)slurm->block_nodes,
             sw_format_seconds(p->seconds, with), sw_format_seconds(p->apart_seconds, without));
}

/* Limits the wait for switches to the time that they save. */
static void place_switches(struct sw_slurm_config *slurm, struct sw_node_request *p)
{
    char wait[28], with[SW_FORMAT_BYTES], without[SW_FORMAT_BYTES], limit[SW_FORMAT_BYTES];
    const double most = slurm->max_switch_wait_s > 0 ? slurm->max_switch_wait_s : SW_SWITCH_WAIT_S;
    const double seconds = ceil(fmin(most, fmax(1, p->gain_s)));
    format_wait(seconds, wait, sizeof wait);
    snprintf(p->option, sizeof p->option, "%d@%s", (int)p->groups, wait);
    slurm->switches = p->option;
    snprintf(p->why, sizeof p->why,
             "--switches=%s waits %s at most for %d leaf switch%s of %d nodes: a step takes %s "
             "there, %s where the job starts anywhere after that",
             p->option, sw_format_duration(seconds, limit), (int)p->groups,
             p->groups == 1 ? "" : "es", (int)slurm->leaf_nodes,
             sw_format_seconds(p->seconds, with), sw_format_seconds(p->apart_seconds, without));
}

void sw_slurm_place(struct sw_cluster_config *cluster, struct sw_node_request *placement)
{
    struct sw_slurm_config *slurm = settings_of(cluster);
    if (cluster->placement.segments && slurm->segment == 0) {
        placement->name = "segment";
        if (placement->segment > 0)
            place_segments(slurm, placement);
    }
    if (cluster->placement.groups && slurm->switches == NULL) {
        placement->name = "switches";
        if (placement->groups > 0)
            place_switches(slurm, placement);
    }
}
