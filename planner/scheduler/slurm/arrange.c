#include "planner/scheduler/slurm/arrange.h"

#include "planner/scheduler/slurm/internal.h"

#include <stdlib.h>
#include <string.h>

/* A node with its sort keys. */
struct place {
    char *name;
    int32_t group;  /* index of block or leaf switch; their number: none */
    int32_t common; /* nodes of the job in that group */
    int32_t at;     /* index in the job */
};

static int compare_places(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    const bool x_last = x->common == 0, y_last = y->common == 0;
    if (x_last != y_last)
        return x_last ? 1 : -1;
    if (x->common != y->common)
        return x->common > y->common ? -1 : 1;
    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    return x->at < y->at ? -1 : 1;
}

static bool has(const struct sw_hosts *hosts, const char *name)
{
    for (int32_t i = 0; i < hosts->count; i++)
        if (strcmp(hosts->name[i], name) == 0)
            return true;
    return false;
}

static int32_t group_of(const struct sw_slurm_facts *facts, const char *node)
{
    int32_t i = 0;
    while (i < facts->switch_count &&
           (facts->switches[i].level != 0 || !has(&facts->switches[i].hosts, node)))
        i++;
    return i;
}

bool sw_slurm_arrange_by(const struct sw_slurm_facts *facts, struct sw_argv *nodes)
{
    struct place *place = calloc((size_t)nodes->count + 1, sizeof *place);
    bool changed = false;
    if (place == NULL)
        return false;
    for (int32_t i = 0; i < nodes->count; i++)
        place[i] = (struct place){
            .name = nodes->item[i], .group = group_of(facts, nodes->item[i]), .at = i};
    for (int32_t i = 0; i < nodes->count; i++)
        for (int32_t k = 0; k < nodes->count && place[i].group < facts->switch_count; k++)
            place[i].common += place[k].group == place[i].group;
    qsort(place, (size_t)nodes->count, sizeof *place, compare_places);
    for (int32_t i = 0; i < nodes->count; i++) {
        changed = changed || place[i].at != i;
        nodes->item[i] = place[i].name;
    }
    free(place);
    return changed;
}

/* Loads a partition's own topology, since the cluster's may not contain its nodes. */
static int load(const struct sw_allocation *job, struct sw_slurm_facts *out, struct sw_error *err)
{
    const char *partition = getenv("SLURM_JOB_PARTITION");
    char own[128] = "";
    (void)job;
    if (partition != NULL && *partition != '\0')
        sw_slurm_commands_topology_of(partition, own, sizeof own);
    return sw_slurm_commands_load_switches(own[0] != '\0' ? own : NULL, out, err);
}

bool sw_slurm_arrange(const struct sw_allocation *job, struct sw_argv *nodes)
{
    struct sw_slurm_facts facts = {0};
    struct sw_error err = {0};
    const bool changed = load(job, &facts, &err) == 0 && sw_slurm_arrange_by(&facts, nodes);
    sw_slurm_facts_free(&facts);
    return changed;
}
