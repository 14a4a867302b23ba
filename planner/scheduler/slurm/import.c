#include "planner/scheduler/slurm/import.h"

#include "core/base/text.h"
#include "planner/command/format.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

int sw_import_note(struct sw_import *import, struct sw_error *err, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    sw_text_show(text); /* it becomes a comment: one line */
    if (import->note_count == SW_IMPORT_NOTES)
        return 0;
    import->note[import->note_count] = strdup(text);
    if (import->note[import->note_count] == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while importing a cluster");
    import->note_count++;
    return 0;
}

void sw_import_free(struct sw_import *import)
{
    for (int32_t i = 0; i < import->note_count; i++)
        free(import->note[i]);
    import->note_count = 0;
}

/* ---- Choice of nodes ---- */

/* The most frequent kind of GPU of a node; slices count only without whole ones. */
static int32_t main_type(const struct sw_slurm_gpus *gpus)
{
    int32_t best = 0;
    for (int32_t i = 1; i < gpus->types; i++) {
        const bool slice = sw_catalog_is_slice(gpus->of[i].type);
        const bool other = sw_catalog_is_slice(gpus->of[best].type);
        if (slice != other ? other : gpus->of[i].count > gpus->of[best].count)
            best = i;
    }
    return best;
}

/* True if the node belongs to its cluster, whatever keeps jobs away today. */
static bool is_counted(const struct sw_slurm_nodes *n)
{
    return n->condition == NULL || n->condition->counted;
}

/* Accelerators of nodes. Any whole GPU outweighs all slices, any slice all cores. */
struct weight {
    int64_t whole, slices, cores;
};

static int64_t compare_weights(struct weight a, struct weight b)
{
    return a.whole != b.whole     ? a.whole - b.whole
           : a.slices != b.slices ? a.slices - b.slices
                                  : a.cores - b.cores;
}

/* GPUs of a partition. */
static struct weight gpus_of(const struct sw_slurm_facts *facts, const struct sw_slurm_partition *p)
{
    struct weight total = {0};
    for (int32_t i = 0; i < facts->nodes_count; i++) {
        const struct sw_slurm_gpus gpus = sw_slurm_parse_gpus(facts->nodes[i].gres);
        if (!is_counted(&facts->nodes[i]) || gpus.total == 0)
            continue;
        const int64_t nodes = sw_hosts_common(&facts->nodes[i].hosts, &p->hosts);
        for (int32_t k = 0; k < gpus.types; k++)
            *(sw_catalog_is_slice(gpus.of[k].type) ? &total.slices : &total.whole) +=
                nodes * gpus.of[k].count;
    }
    return total;
}

static const struct sw_slurm_partition *choose_partition(const struct sw_slurm_facts *facts)
{
    const struct sw_slurm_partition *best = sw_slurm_find_partition(facts, NULL);
    if (best != NULL && compare_weights(gpus_of(facts, best), (struct weight){0}) > 0)
        return best;
    for (int32_t i = 0; i < facts->partition_count; i++) {
        const struct sw_slurm_partition *p = &facts->partition[i];
        if (p->up && (best == NULL || compare_weights(gpus_of(facts, p), gpus_of(facts, best)) > 0))
            best = p;
    }
    return best;
}

/* Cores that jobs may have. */
static int32_t cores_of(const struct sw_slurm_nodes *n)
{
    const int32_t all = n->sockets * n->cores_per_socket;
    return all > 0 && all < n->cpus ? all : n->cpus;
}

/* True if the nodes' features mean the same accelerators: "a100" has 40 GB or 80 GB. */
static bool same_sheets(const char *type, const struct sw_slurm_nodes *a,
                        const struct sw_slurm_nodes *b)
{
    const struct sw_catalog_match x = sw_catalog_match(type, a->features);
    const struct sw_catalog_match y = sw_catalog_match(type, b->features);
    return x.assumed == y.assumed && strcmp(x.known, y.known) == 0;
}

/* True if both kinds of nodes can be one cluster: the same accelerators. */
static bool same_accelerators(const struct sw_slurm_nodes *a, const struct sw_slurm_nodes *b)
{
    const struct sw_slurm_gpus x = sw_slurm_parse_gpus(a->gres), y = sw_slurm_parse_gpus(b->gres);
    if (x.types == 0 || y.types == 0)
        return x.types == y.types && cores_of(a) == cores_of(b);
    const int32_t i = main_type(&x), k = main_type(&y);
    return x.of[i].count == y.of[k].count && strcmp(x.of[i].type, y.of[k].type) == 0 &&
           same_sheets(x.of[i].type, a, b);
}

/* True if a job that asks for the GPUs of `chosen` could get such a node, which has others. */
static bool is_mistaken(const struct sw_slurm_nodes *n, const struct sw_slurm_nodes *chosen)
{
    const struct sw_slurm_gpus has = sw_slurm_parse_gpus(n->gres);
    const struct sw_slurm_gpus wanted = sw_slurm_parse_gpus(chosen->gres);
    if (has.types == 0 || wanted.types == 0)
        return false;
    const int32_t main = main_type(&wanted);
    const bool typed = wanted.of[main].type[0] != '\0';
    for (int32_t i = 0; i < has.types; i++)
        if (has.of[i].count >= wanted.of[main].count &&
            (typed ? strcmp(has.of[i].type, wanted.of[main].type) == 0 &&
                         !same_sheets(has.of[i].type, n, chosen)
                   : has.of[i].type[0] != '\0' || !same_sheets("", n, chosen)))
            return true;
    return false;
}

/* Accelerators of all nodes of the partition that are like this one. */
static struct weight weight_of(const struct sw_slurm_facts *facts,
                               const struct sw_slurm_partition *p,
                               const struct sw_slurm_nodes *like)
{
    const struct sw_slurm_gpus gpus = sw_slurm_parse_gpus(like->gres);
    int64_t nodes = 0;
    for (int32_t i = 0; i < facts->nodes_count; i++)
        if (is_counted(&facts->nodes[i]) && same_accelerators(&facts->nodes[i], like))
            nodes += sw_hosts_common(&facts->nodes[i].hosts, &p->hosts);
    if (gpus.types == 0)
        return (struct weight){.cores = nodes * cores_of(like)};
    const int32_t main = main_type(&gpus);
    const int64_t count = nodes * gpus.of[main].count;
    return sw_catalog_is_slice(gpus.of[main].type) ? (struct weight){.slices = count}
                                                   : (struct weight){.whole = count};
}

static const struct sw_slurm_nodes *choose_nodes(const struct sw_slurm_facts *facts,
                                                 const struct sw_slurm_partition *p)
{
    const struct sw_slurm_nodes *best = NULL;
    for (int32_t i = 0; i < facts->nodes_count; i++) {
        const struct sw_slurm_nodes *n = &facts->nodes[i];
        if (is_counted(n) && sw_hosts_common(&n->hosts, &p->hosts) > 0 &&
            (best == NULL ||
             compare_weights(weight_of(facts, p, n), weight_of(facts, p, best)) > 0))
            best = n;
    }
    return best;
}

/* ---- Their properties ---- */

/* Short list of the partition's nodes that are (not) like the chosen ones; malloc'ed. Of the like
 * ones, those in the condition (NULL: in none). *count: their number. */
static char *names_of(const struct sw_slurm_facts *facts, const struct sw_slurm_partition *p,
                      const struct sw_slurm_nodes *like, bool same,
                      const struct sw_slurm_condition *condition, int32_t *count)
{
    struct sw_hosts all = {0};
    struct sw_error ignored = {0};
    *count = 0;
    for (int32_t i = 0; i < facts->nodes_count; i++) {
        const struct sw_slurm_nodes *n = &facts->nodes[i];
        if ((same && n->condition != condition) || same_accelerators(n, like) != same)
            continue;
        for (int32_t k = 0; k < n->hosts.count; k++)
            if (sw_hosts_contain(&p->hosts, n->hosts.name[k]))
                sw_hosts_add(&all, n->hosts.name[k], &ignored);
    }
    sw_hosts_sort(&all);
    *count = all.count;
    char *text = sw_hosts_compress(&all);
    sw_hosts_free(&all);
    return text;
}

static int note_other_nodes(const struct sw_slurm_facts *facts, const struct sw_slurm_partition *p,
                            const struct sw_slurm_nodes *chosen, struct sw_import *out,
                            struct sw_error *err)
{
    int32_t count = 0;
    char number[SW_FORMAT_RATE];
    int status = 0;
    for (const struct sw_slurm_condition *c = sw_slurm_conditions(); c->word != NULL; c++) {
        char *names = names_of(facts, p, chosen, true, c, &count);
        if (status == 0 && count > 0)
            status = sw_import_note(
                out, err, "%s %s, and %s: %.300s", sw_format_counted(count, "node", number),
                c->said, c->counted ? "counted" : "not counted", names != NULL ? names : "");
        free(names);
    }
    char *names = names_of(facts, p, chosen, false, NULL, &count);
    if (status == 0 && count > 0)
        status = sw_import_note(
            out, err, "%s of partition %s with other accelerators left out: %.300s",
            sw_format_counted(count, "node", number), p->name, names != NULL ? names : "");
    free(names);
    return status;
}

/* Takes cores and memory of the smallest node: a plan must fit all. */
static int take_least(const struct sw_slurm_facts *facts, const struct sw_slurm_partition *p,
                      const struct sw_slurm_nodes *chosen, struct sw_import *out,
                      struct sw_error *err)
{
    char number[SW_FORMAT_RATE];
    int32_t cpus = chosen->cpus;
    out->memory_mb = chosen->memory_mb;
    for (int32_t i = 0; i < facts->nodes_count; i++) {
        const struct sw_slurm_nodes *n = &facts->nodes[i];
        if (!is_counted(n) || !same_accelerators(n, chosen) ||
            sw_hosts_common(&n->hosts, &p->hosts) == 0)
            continue;
        cpus = n->cpus < cpus ? n->cpus : cpus;
        out->memory_mb = n->memory_mb < out->memory_mb ? n->memory_mb : out->memory_mb;
    }
    /* whole nodes have more than the partition gives: such a job would wait for ever */
    out->shared = p->max_cpus_per_node > 0 && p->max_cpus_per_node < cpus;
    const int32_t given = out->shared ? p->max_cpus_per_node : cpus;
    out->cpus_per_task = given / out->per_node;
    if (!out->shared)
        return 0;
    return sw_import_note(out, err,
                          "partition %s gives a job %s of a node's %d, so whole nodes never start: "
                          "exclusive is false",
                          p->name, sw_format_counted(given, "processor", number), (int)cpus);
}

/* Finds the sheet of the type's name, with the nodes' features if needed. */
static int find_sheet(const struct sw_slurm_nodes *chosen, struct sw_import *out,
                      struct sw_error *err)
{
    const struct sw_catalog_match match = sw_catalog_match(out->gpu_type, chosen->features);
    const bool typed = out->gpu_type[0] != '\0', slice = sw_catalog_is_slice(out->gpu_type);
    out->sheet = match.sheet;
    if (out->sheet == NULL && match.near != NULL &&
        sw_import_note(out, err,
                       "configs/accelerators/%s.yaml may be it: then --accelerator %s.yaml",
                       match.near, match.near) != 0)
        return -1;
    if (out->sheet == NULL)
        return sw_import_note(
            out, err,
            "no data sheet is shipped for %s%s%s%s: write its accelerator file ('plan schema "
            "accelerator') and name it with --accelerator FILE",
            typed ? "gres type '" : "GPUs without a type", out->gpu_type, typed ? "'" : "",
            slice ? ", a slice of an accelerator" : "");
    if (match.assumed != NULL)
        return sw_import_note(out, err, "accelerator: '%s' does not say which; assumed %s",
                              typed ? out->gpu_type : chosen->features, match.assumed);
    return 0;
}

/* True if a feature can be a constraint: without quotes, spaces and operators. */
static bool is_plain(const char *text)
{
    for (const char *p = text; *p != '\0'; p++)
        if (!isalnum((unsigned char)*p) && strchr("_.:=+@/%-", *p) == NULL)
            return false;
    return isalnum((unsigned char)text[0]) != 0 || text[0] == '_';
}

static bool has_feature(const struct sw_slurm_nodes *n, const char *feature)
{
    return n->features != NULL && sw_slurm_list_has(n->features, feature);
}

/* True if a feature distinguishes the chosen nodes of a partition from all others that a job could
 * get. */
static bool tells_apart(const struct sw_slurm_facts *facts, const struct sw_slurm_partition *p,
                        const struct sw_slurm_nodes *chosen, const char *feature)
{
    for (int32_t i = 0; i < facts->nodes_count; i++) {
        const struct sw_slurm_nodes *n = &facts->nodes[i];
        const bool same = same_accelerators(n, chosen);
        if (sw_hosts_common(&n->hosts, &p->hosts) > 0 && (same || is_mistaken(n, chosen)) &&
            has_feature(n, feature) != same)
            return false;
    }
    return true;
}

/* Takes the feature that a job must ask for to avoid other accelerators under the same gres. */
static int take_constraint(const struct sw_slurm_facts *facts, const struct sw_slurm_partition *p,
                           const struct sw_slurm_nodes *chosen, struct sw_import *out,
                           struct sw_error *err)
{
    int32_t others = 0;
    for (int32_t i = 0; i < facts->nodes_count; i++)
        if (is_mistaken(&facts->nodes[i], chosen))
            others += sw_hosts_common(&facts->nodes[i].hosts, &p->hosts);
    if (others == 0)
        return 0;
    for (const char *f = chosen->features; f != NULL && *f != '\0'; f += *f == ',') {
        const int length =
            snprintf(out->constraint, sizeof out->constraint, "%.*s", (int)strcspn(f, ","), f);
        if (length < (int)sizeof out->constraint && is_plain(out->constraint) &&
            tells_apart(facts, p, chosen, out->constraint))
            return 0;
        f += strcspn(f, ",");
    }
    out->constraint[0] = '\0';
    return sw_import_note(out, err,
                          "no feature tells these nodes from others of partition %s with the same "
                          "gres: set slurm.exclude, or a job may get those",
                          p->name);
}

static int take_accelerators(const struct sw_slurm_nodes *chosen, struct sw_import *out,
                             struct sw_error *err)
{
    const struct sw_slurm_gpus gpus = sw_slurm_parse_gpus(chosen->gres);
    out->has_gpus = gpus.types > 0;
    if (!out->has_gpus) {
        out->per_node = cores_of(chosen);
        if (out->named)
            return 0;
        out->sheet = sw_catalog_core();
        return sw_import_note(out, err,
                              "no GPUs: every core is an accelerator of its own, with "
                              "assumed speed; measure it with 'runner calibrate'");
    }
    const int32_t type = main_type(&gpus);
    out->per_node = gpus.of[type].count;
    snprintf(out->gpu_type, sizeof out->gpu_type, "%s", gpus.of[type].type);
    if (gpus.types > 1 &&
        sw_import_note(out, err, "its nodes have several types of GPU (%.200s); '%s' is taken",
                       chosen->gres, out->gpu_type) != 0)
        return -1;
    return out->named ? 0 : find_sheet(chosen, out, err);
}

/* ---- Import ---- */

/* Makes a name of letters that a cluster's name may have. */
static void make_name(struct sw_import *out)
{
    char text[300];
    size_t used = 0;
    snprintf(text, sizeof text, "%s-%s", out->slurm_cluster, out->partition);
    for (const char *p = text; *p != '\0' && used < sizeof out->name - 1; p++) {
        const bool fits =
            isalnum((unsigned char)*p) || *p == '_' || (used > 0 && (*p == '.' || *p == '-'));
        out->name[used++] = fits ? *p : '_';
    }
    out->name[used] = '\0';
}

/* Gathers the counted nodes of the partition that are like the chosen ones. */
static int gather_hosts(const struct sw_slurm_facts *facts, const struct sw_slurm_partition *p,
                        const struct sw_slurm_nodes *chosen, struct sw_hosts *out,
                        struct sw_error *err)
{
    for (int32_t i = 0; i < facts->nodes_count; i++) {
        const struct sw_slurm_nodes *n = &facts->nodes[i];
        if (!is_counted(n) || !same_accelerators(n, chosen))
            continue;
        for (int32_t k = 0; k < n->hosts.count; k++)
            if (sw_hosts_contain(&p->hosts, n->hosts.name[k]) &&
                sw_hosts_add(out, n->hosts.name[k], err) != 0)
                return -1;
    }
    sw_hosts_sort(out);
    return 0;
}

static int no_partition(const struct sw_slurm_facts *facts, const char *name, struct sw_error *err)
{
    char list[512] = "";
    size_t used = 0;
    for (int32_t i = 0; i < facts->partition_count && used < sizeof list - 1; i++) {
        const int wrote = snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "",
                                   facts->partition[i].name);
        used += wrote > 0 ? (size_t)wrote : 0;
    }
    if (name == NULL)
        return sw_fail(err, SW_UNMET, "the controller has no partition to import");
    return sw_fail(err, SW_BAD_INPUT, "the controller has no partition '%.100s'; it has %s", name,
                   list);
}

int sw_import_gather(const struct sw_slurm *slurm, const struct sw_slurm_facts *facts,
                     const struct sw_slurm_accounting *accounting, const char *partition,
                     const struct sw_import_accelerator *accelerator, struct sw_import *out,
                     struct sw_error *err)
{
    struct sw_hosts hosts = {0};
    int status = -1;
    *out = (struct sw_import){.max_time = INFINITY};
    if (accelerator != NULL) {
        out->named = true;
        out->accelerator = accelerator->path;
        out->sheet = accelerator->sheet;
    }
    const struct sw_slurm_partition *p =
        partition != NULL ? sw_slurm_find_partition(facts, partition) : choose_partition(facts);
    if (p == NULL)
        return no_partition(facts, partition, err);
    const struct sw_slurm_nodes *chosen = choose_nodes(facts, p);
    if (chosen == NULL)
        return sw_fail(err, SW_UNMET, "no node of partition '%s' is up; see 'sinfo -R'", p->name);
    snprintf(out->slurm_cluster, sizeof out->slurm_cluster, "%s", sw_slurm_cluster(slurm));
    snprintf(out->version, sizeof out->version, "%s", sw_slurm_version(slurm));
    snprintf(out->partition, sizeof out->partition, "%s", p->name);
    make_name(out);
    if (gather_hosts(facts, p, chosen, &hosts, err) != 0 ||
        take_accelerators(chosen, out, err) != 0)
        goto out;
    out->nodes = hosts.count;
    if (take_least(facts, p, chosen, out, err) != 0 ||
        take_constraint(facts, p, chosen, out, err) != 0 ||
        note_other_nodes(facts, p, chosen, out, err) != 0 ||
        sw_import_take_limits(facts, p, accounting, out, err) != 0 ||
        sw_import_take_topology(facts, p, &hosts, out, err) != 0)
        goto out;
    status = 0;
out:
    sw_hosts_free(&hosts);
    return status;
}
