/* Lists of numbers of nodes for --nodes, and the run on one of them. */
#include "planner/search/frontier.h"

#include "core/base/text.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_NODES = 1 << 20 /* limit of cluster.nodes */, SHOWN = 60 };

static const char node_help[] = "write numbers of nodes as in 4..64, 6,8,12 or 4..64:4";

/* Mistake of a list; shown: the list. */
static int mistake(const char *shown, const char *what, struct sw_error *err)
{
    return sw_fail(err, SW_BAD_INPUT, "--nodes '%s' %s; %s", shown, what, node_help);
}

/* Reads a number; moves *text behind it. -1: none. */
static int64_t read_number(const char **text)
{
    const size_t digits = strspn(*text, "0123456789");
    if (digits == 0)
        return -1;
    const int64_t number = digits > 9 ? (int64_t)1 << 40 : strtoll(*text, NULL, 10);
    *text += digits;
    return number;
}

static const char *skip_spaces(const char *p)
{
    return p + strspn(p, " \t");
}

/* One entry of a list: every `step`-th number from `least` to `most`. */
struct entry {
    int64_t least, most, step;
};

static int read_entry(const char **text, const char *shown, struct entry *out, struct sw_error *err)
{
    const char *p = skip_spaces(*text);
    *out = (struct entry){.step = 1};
    out->least = out->most = read_number(&p);
    if (out->least < 0)
        return mistake(shown, "is no list of numbers", err);
    const bool dots = strncmp(p, "..", 2) == 0;
    if (dots || *p == '-') {
        p += dots ? 2 : 1;
        out->most = read_number(&p);
        if (out->most < 0)
            return mistake(shown, "has a range without an end", err);
        if (*p == ':') {
            p++;
            out->step = read_number(&p);
            if (out->step < 1)
                return mistake(shown, "has a step that is not 1 or more", err);
        }
    }
    if (out->least == 0)
        return mistake(shown, "has 0 nodes, and a run needs 1 or more", err);
    if (out->most < out->least)
        return mistake(shown, "has a range that ends before it begins", err);
    if (out->most > MOST_NODES)
        return mistake(shown, "has more than 1,048,576 nodes, the most that a cluster has", err);
    *text = skip_spaces(p);
    return 0;
}

/* Inserts a number in order, unless present. False: the list is full. */
static bool add(struct sw_node_list *list, int32_t nodes)
{
    int32_t at = list->count;
    while (at > 0 && list->nodes[at - 1] > nodes)
        at--;
    if (at > 0 && list->nodes[at - 1] == nodes)
        return true;
    if (list->count == SW_MOST_NODE_COUNTS)
        return false;
    memmove(&list->nodes[at + 1], &list->nodes[at],
            (size_t)(list->count - at) * sizeof list->nodes[0]);
    list->nodes[at] = nodes;
    list->count++;
    return true;
}

int sw_node_list_parse(const char *text, struct sw_node_list *out, struct sw_error *err)
{
    char shown[SHOWN + 4];
    const char *p = text;
    out->count = 0;
    sw_text_shown(text, SHOWN, shown);
    for (;; p++) {
        struct entry entry;
        if (read_entry(&p, shown, &entry, err) != 0)
            return -1;
        for (int64_t n = entry.least; n <= entry.most; n += entry.step)
            if (!add(out, (int32_t)n))
                return mistake(shown, "has more than 512 numbers: take every fourth or so", err);
        if (*p == '\0')
            return 0;
        if (*p != ',')
            return mistake(shown, "is no list of numbers", err);
    }
}

int sw_run_at_nodes(const struct sw_run_config *run, int32_t nodes, struct sw_run_config *out,
                    struct sw_error *err)
{
    *out = *run;
    sw_run_config_resize(out, nodes);
    struct sw_cluster_config *cluster = &out->cluster;
    const int64_t all = (int64_t)nodes * cluster->accelerators_per_node;
    struct sw_link_config *last =
        cluster->link_count > 0 ? &cluster->link[cluster->link_count - 1] : NULL;
    if (nodes <= run->cluster_nodes || (last != NULL && last->spans >= all) || all == 1)
        return 0;
    if (last == NULL || last->spans <= cluster->accelerators_per_node)
        return sw_fail(
            err, SW_BAD_INPUT,
            "no link of cluster '%s' joins nodes; add one, as in {name: infiniband, spans: "
            "all, bandwidth: 400 Gb/s, latency: 6 us}",
            cluster->name);
    last->spans = (int32_t)all;
    last->spans_all = true;
    return 0;
}
