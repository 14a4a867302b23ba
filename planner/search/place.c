#include "planner/search/place.h"

#include <math.h>

/* Adds the link that a job in one block or under one leaf does not need, for placements elsewhere.
 * Placements as priced stay unaffected. */
static void add_beyond(struct sw_cluster_config *cluster)
{
    struct sw_link_config *link = &cluster->link[cluster->link_count];
    if (cluster->beyond.name == NULL || cluster->link_count == SW_MAX_LINKS ||
        cluster->link_count == 0 || link[-1].spans > INT32_MAX / 2)
        return;
    *link = cluster->beyond;
    link->spans = 2 * link[-1].spans;
    link->spans_all = false;
    cluster->link_count++;
    cluster->beyond = (struct sw_link_config){.name = NULL};
}

/* Prices the same decision with no two nodes of the job under one switch: it may start like that
 * after waiting. */
static int price_anywhere(const struct sw_run_config *run, const struct sw_candidate *c,
                          double *seconds, struct sw_error *err)
{
    struct sw_decision decision = c->decision;
    struct sw_candidate anywhere;
    struct sw_run_config wide = *run;
    add_beyond(&wide.cluster);
    decision.mesh.domain = run->cluster.accelerators_per_node;
    if (sw_search_evaluate(&wide, &decision, 0, &anywhere, NULL, err) != 0)
        return -1;
    *seconds = anywhere.cost.step_seconds;
    return 0;
}

/* Asks for no more groups than the price assumes, if nodes anywhere would make the step longer by
 * more than the margin. */
static int ask_for_groups(const struct sw_run_config *run, const struct sw_candidate *c,
                          struct sw_node_request *out, struct sw_error *err)
{
    const struct sw_cluster_config *cluster = &run->cluster;
    const int32_t nodes = cluster->placement.group / cluster->accelerators_per_node;
    if (!cluster->placement.groups || cluster->nodes < 2 || nodes < 2 ||
        run->job.type != SW_JOB_TRAIN)
        return 0;
    if (price_anywhere(run, c, &out->apart_seconds, err) != 0)
        return -1;
    if (out->apart_seconds > out->seconds * (1 + run->prefer_within))
        out->groups = (cluster->nodes - 1) / nodes + 1;
    return 0;
}

int sw_search_place(const struct sw_run_config *run, const struct sw_candidate *candidate,
                    struct sw_placement_run *out, struct sw_error *err)
{
    const struct sw_mesh *mesh = &candidate->decision.mesh;
    const struct sw_scheduler *row = sw_scheduler_of(&run->cluster);
    struct sw_node_request *p = &out->placement;
    out->run = *run;
    *p = (struct sw_node_request){.seconds = candidate->cost.step_seconds};
    if (mesh->domain > 0) {
        p->segment = mesh->domain / run->cluster.accelerators_per_node;
        p->apart_seconds = candidate->apart_seconds;
        sw_links_settle(&out->run.cluster, mesh);
    } else if (ask_for_groups(run, candidate, p, err) != 0) {
        return -1;
    }
    p->gain_s =
        run->says_steps ? (double)sw_run_steps(run) * (p->apart_seconds - p->seconds) : INFINITY;
    if (p->segment > 0 || p->groups > 0)
        add_beyond(&out->run.cluster);
    if (row->place != NULL)
        row->place(&out->run.cluster, p);
    return 0;
}
