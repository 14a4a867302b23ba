/* Topology of an imported cluster: the levels of its links, and possible requests of jobs. */
#include "planner/scheduler/slurm/import.h"

#include "core/base/file.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MAX_TOPOLOGY_BYTES = 1 << 24 };

static int compare_counts(const void *a, const void *b)
{
    return *(const int32_t *)a - *(const int32_t *)b;
}

/* Most frequent number of the cluster's nodes below a switch of a level; *switches: number with any
 * nodes. 0: none. */
static int32_t usual_size(const struct sw_slurm_facts *facts, const struct sw_hosts *nodes,
                          int32_t level, int32_t *switches, bool *uneven)
{
    int32_t *counts = calloc((size_t)facts->switch_count + 1, sizeof *counts), used = 0, best = 0;
    if (counts == NULL)
        return 0;
    for (int32_t i = 0; i < facts->switch_count; i++) {
        const int32_t common = facts->switches[i].level == level
                                   ? sw_hosts_common(&facts->switches[i].hosts, nodes)
                                   : 0;
        if (common > 0)
            counts[used++] = common;
    }
    qsort(counts, (size_t)used, sizeof *counts, compare_counts);
    for (int32_t i = 0, most = 0; i < used;) {
        int32_t end = i;
        while (end < used && counts[end] == counts[i])
            end++;
        if (end - i >= most) {
            most = end - i;
            best = counts[i];
        }
        i = end;
    }
    /* the last one is often not full */
    *uneven = used > 0 && (counts[used - 1] != best || (used > 1 && counts[1] != best));
    *switches = used;
    free(counts);
    return best;
}

/* Finds the levels of switches or blocks that divide the nodes, for links. */
static int take_levels(const struct sw_slurm_facts *facts, const struct sw_hosts *nodes,
                       struct sw_import *out, struct sw_error *err)
{
    int32_t inner = 1, highest = 0;
    for (int32_t i = 0; i < facts->switch_count; i++)
        highest = facts->switches[i].level > highest ? facts->switches[i].level : highest;
    if (facts->switch_count == 0)
        return sw_import_note(out, err,
                              "the controller knows no topology: one network joins all "
                              "nodes, as far as is known");
    for (int32_t level = 0; level <= highest && out->levels < SW_IMPORT_LEVELS; level++) {
        int32_t switches = 0;
        bool uneven = false;
        const int32_t size = usual_size(facts, nodes, level, &switches, &uneven);
        if (switches < 2 || size <= inner || size >= out->nodes)
            continue;
        const bool blocks = facts->switches[0].block;
        snprintf(out->level[out->levels].name, sizeof out->level[0].name,
                 level > 0 ? "level-%d"
                 : blocks  ? "block"
                           : "leaf",
                 (int)level);
        out->level[out->levels].block = blocks;
        out->level[out->levels++].nodes = size;
        inner = size;
        if (uneven && sw_import_note(out, err,
                                     "not all of the %d %s of level %d have %d of these "
                                     "nodes: most do",
                                     (int)switches, blocks ? "blocks" : "switches", (int)level,
                                     (int)size) != 0)
            return -1;
    }
    return 0;
}

/* The first of BlockSizes in topology.conf, beside slurm.conf if readable: the size of a base
 * block, which `scontrol show topology` prints only from 24.11 on (topology.conf(5)). 0:
 * unknown. */
static int32_t configured_block(const char *conf)
{
    static const char key[] = "BlockSizes";
    char *folder = conf[0] != '\0' ? sw_path_folder(conf) : NULL;
    char *path = folder != NULL ? sw_path_join(folder, "topology.conf") : NULL;
    char *text = NULL, *saved = NULL;
    size_t bytes = 0;
    long size = 0;
    if (path != NULL && sw_file_read(path, true, MAX_TOPOLOGY_BYTES, &text, &bytes, NULL) == 0)
        for (char *line = strtok_r(text, "\n", &saved); line != NULL && size == 0;
             line = strtok_r(NULL, "\n", &saved)) {
            line[strcspn(line, "#")] = '\0';
            line += strspn(line, " \t");
            if (strncasecmp(line, key, strlen(key)) != 0)
                continue;
            line += strlen(key);
            line += strspn(line, " \t=");
            size = isdigit((unsigned char)*line) ? strtol(line, NULL, 10) : 0;
        }
    free(text);
    free(path);
    free(folder);
    return size > 0 && size <= UINT16_MAX ? (int32_t)size : 0;
}

/* Most nodes of a segment: at most a base block's, by Slurm's limit, and at most the cluster's. */
static int32_t block_nodes(const struct sw_slurm_facts *facts, int32_t usual)
{
    int32_t told = 0;
    for (int32_t i = 0; i < facts->switch_count && told == 0; i++)
        told = facts->switches[i].level == 0 ? facts->switches[i].size : 0;
    if (told == 0)
        told = configured_block(facts->site.conf);
    return told > 0 && told < usual ? told : usual;
}

/* True for a plugin that places jobs without topology: topology/none until 23.02, default until
 * 24.11, flat since (src/plugins/topology). */
static bool is_flat(const char *plugin)
{
    return strcmp(plugin, "topology/flat") == 0 || strcmp(plugin, "topology/default") == 0 ||
           strcmp(plugin, "topology/none") == 0;
}

/* Chooses slurm.topology. Listed blocks and switches count for more than the plugin of slurm.conf,
 * which a topology.yaml overrides. */
static void take_kind(const struct sw_slurm_facts *facts, const struct sw_hosts *nodes,
                      struct sw_import *out)
{
    int32_t switches = 0;
    bool uneven = false;
    const int32_t usual = usual_size(facts, nodes, 0, &switches, &uneven);
    if (facts->switch_count == 0)
        out->topology = is_flat(facts->site.topology) ? SW_TOPOLOGY_FLAT : SW_TOPOLOGY_UNKNOWN;
    else if (usual > 0 && facts->switches[0].block)
        out->topology = SW_TOPOLOGY_BLOCK;
    else if (usual > 0 && !facts->site.dragonfly)
        out->topology = SW_TOPOLOGY_TREE;
    if (out->topology == SW_TOPOLOGY_BLOCK)
        out->block_nodes = block_nodes(facts, usual);
    if (out->topology == SW_TOPOLOGY_TREE) {
        out->leaf_nodes = usual;
        out->switch_wait_s =
            facts->site.switch_wait_s > 0 ? facts->site.switch_wait_s : SW_SWITCH_WAIT_S;
    }
}

int sw_import_take_topology(const struct sw_slurm_facts *facts, const struct sw_slurm_partition *p,
                            const struct sw_hosts *nodes, struct sw_import *out,
                            struct sw_error *err)
{
    struct sw_slurm_facts own = {.site = facts->site};
    int status = 0;
    if (p->topology != NULL) {
        status = sw_slurm_load_topology(p->topology, &own, err);
        facts = &own;
    }
    if (status == 0) {
        take_kind(facts, nodes, out);
        status = take_levels(facts, nodes, out, err);
    }
    sw_slurm_facts_free(&own);
    return status;
}
