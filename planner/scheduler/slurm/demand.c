#include "planner/scheduler/slurm/demand.h"

#include "planner/scheduler/slurm/accounting.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Product of two numbers that are not negative, or the largest number. */
static int64_t times(int64_t a, int64_t b)
{
    return b > 0 && a > INT64_MAX / b ? INT64_MAX : a * b;
}

/* ---- Options ---- */

static int64_t number_of(const struct sw_job_request *request, const char *name, int64_t fallback)
{
    const char *value = sw_job_request_get(request, name);
    const long long number = value != NULL ? strtoll(value, NULL, 10) : 0;
    return number > 0 && number < INT32_MAX ? number : fallback;
}

/* Megabytes of "16G". */
static int64_t megabytes(const char *value)
{
    enum { MOST_SHIFT = 20 };
    char *end = NULL;
    const int64_t given = strtoll(value, &end, 10), most = INT64_MAX >> MOST_SHIFT;
    const int64_t number = given > most ? most : given > 0 ? given : 0;
    switch (toupper((unsigned char)*end)) {
    case 'K':
        return (number + 1023) / 1024;
    case 'G':
        return number << 10;
    case 'T':
        return number << 20;
    default:
        return number;
    }
}

static void read_memory(const struct sw_job_request *request, struct sw_slurm_demand *out)
{
    static const struct {
        const char *name;
        enum sw_slurm_memory_by by;
    } rows[] = {
        {"mem", SW_MEMORY_NODE}, {"mem-per-cpu", SW_MEMORY_CPU}, {"mem-per-gpu", SW_MEMORY_GPU}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *value = sw_job_request_get(request, rows[i].name);
        if (value == NULL)
            continue;
        out->memory_by = rows[i].by;
        out->memory_mb = megabytes(value);
    }
}

/* Adds the entries of a list, "h100:8,a100:2" with before "gpu:", "gres/gpu:8" with "". */
static void add_gpus(char *text, size_t bytes, const char *before, const char *list)
{
    size_t used = strlen(text);
    for (const char *p = list; p != NULL && *p != '\0' && used < bytes;) {
        const size_t length = strcspn(p, ",");
        const char *entry = p;
        if (strncmp(entry, "gres", 4) == 0 && (entry[4] == '/' || entry[4] == ':'))
            entry += 5;
        const int wrote = snprintf(text + used, bytes - used, "%s%s%.*s", used > 0 ? "," : "",
                                   before, (int)(length - (size_t)(entry - p)), entry);
        used += wrote > 0 ? (size_t)wrote : 0;
        p += length + (p[length] == ',');
    }
}

static void read_gpus(const struct sw_job_request *request, int64_t tasks_per_node,
                      struct sw_slurm_demand *out)
{
    char text[1024] = "";
    const char *per_node = sw_job_request_get(request, "gpus-per-node");
    const char *gres = sw_job_request_get(request, "gres");
    const char *all = sw_job_request_get(request, "gpus");
    const char *of_task = sw_job_request_get(request, "gpus-per-task");
    add_gpus(text, sizeof text, "gpu:", per_node);
    if (sw_slurm_parse_gpus(text).types == 0)
        per_node = NULL; /* "0" */
    add_gpus(text, sizeof text, "", gres);
    out->gpus = sw_slurm_parse_gpus(text);
    if (out->gpus.types == 0 && of_task != NULL) {
        add_gpus(text, sizeof text, "gpu:", of_task);
        out->gpus = sw_slurm_parse_gpus(text);
        for (int32_t i = 0; i < out->gpus.types; i++)
            out->gpus.of[i].count =
                (int32_t)fmin(out->gpus.of[i].count * (double)tasks_per_node, 1e9);
        out->gpus.total = (int32_t)fmin(out->gpus.total * (double)tasks_per_node, 1e9);
    }
    if (all != NULL) {
        char of_job[256] = "";
        add_gpus(of_job, sizeof of_job, "gpu:", all);
        out->all_gpus = sw_slurm_parse_gpus(of_job).total;
    }
    if (out->gpus.types > 0)
        out->gpus_text = per_node != NULL ? per_node : gres != NULL ? gres : of_task;
}

/* Reads the tasks of an array, "0-15%4", "1,3,5-9:2", and its last index. */
static void read_array(const char *text, struct sw_slurm_demand *out)
{
    for (const char *p = text; *p != '\0' && *p != '%'; p += *p == ',') {
        char *end = NULL;
        const int64_t first = strtoll(p, &end, 10);
        int64_t last = first, step = 1;
        if (*end == '-')
            last = strtoll(end + 1, &end, 10);
        if (*end == ':')
            step = strtoll(end + 1, &end, 10);
        const int64_t most = INT32_MAX;
        if (end == p || first < 0 || last < first || step < 1)
            return;
        last = last < most ? last : most;
        if (first > last)
            return;
        out->tasks += (last - first) / step + 1;
        out->last_index = last > out->last_index ? last : out->last_index;
        p = end;
    }
}

void sw_slurm_demand_read(const struct sw_job_request *request, struct sw_slurm_demand *out)
{
    struct sw_error ignored = {0};
    const char *exclusive = sw_job_request_get(request, "exclusive");
    const char *array = sw_job_request_get(request, "array");
    const int64_t nodes = number_of(request, "nodes", 1), all = number_of(request, "ntasks", 0);
    const int64_t of_node = number_of(request, "ntasks-per-node", (all + nodes - 1) / nodes);
    const int64_t tasks = of_node > 0 ? of_node : 1;
    *out = (struct sw_slurm_demand){.nodes = (int32_t)nodes,
                                    .last_index = -1,
                                    .licenses = sw_job_request_get(request, "licenses"),
                                    .constraint = sw_job_request_get(request, "constraint")};
    read_gpus(request, tasks, out);
    const int64_t of_gpu = number_of(request, "cpus-per-gpu", 0) * out->gpus.total;
    const int64_t each = number_of(request, "cpus-per-task", 1);
    out->cpus = times(tasks, each) > of_gpu ? times(tasks, each) : of_gpu;
    /* 3 tasks on 2 nodes */
    out->all_cpus =
        all > 0 && all < nodes * tasks && of_gpu == 0 ? times(all, each) : times(nodes, out->cpus);
    if (out->all_gpus < nodes * out->gpus.total)
        out->all_gpus = nodes * out->gpus.total;
    /* exclusive to users and labels is still shared */
    out->whole_nodes = exclusive != NULL && exclusive[0] == '\0';
    read_memory(request, out);
    if (array != NULL)
        read_array(array, out);
    if (out->tasks == 0)
        out->tasks = 1;
    (void)sw_hosts_expand(sw_job_request_get(request, "exclude"), &out->excluded, &ignored);
    sw_hosts_sort(&out->excluded);
}

void sw_slurm_demand_free(struct sw_slurm_demand *demand)
{
    sw_hosts_free(&demand->excluded);
}

/* ---- Memory of a partition ---- */

struct sw_slurm_memory sw_slurm_most_memory(const struct sw_slurm_facts *facts,
                                            const struct sw_slurm_partition *p)
{
    return p->most.mb > 0 ? p->most : facts->site.most;
}

/* The node by which slurmctld judges a partition: its first. */
static const struct sw_slurm_nodes *first_node(const struct sw_slurm_facts *facts,
                                               const struct sw_slurm_partition *p)
{
    for (int32_t i = 0; i < facts->nodes_count && p->hosts.count > 0; i++)
        if (sw_hosts_contain(&facts->nodes[i].hosts, p->hosts.name[0]))
            return &facts->nodes[i];
    return NULL;
}

int64_t sw_slurm_demand_settle(struct sw_slurm_demand *d, const struct sw_slurm_facts *facts,
                               const struct sw_slurm_partition *p)
{
    const struct sw_slurm_memory most = sw_slurm_most_memory(facts, p),
                                 given = p->given.mb > 0 ? p->given : facts->site.given;
    const struct sw_slurm_nodes *first = first_node(facts, p);
    d->whole_nodes = d->whole_nodes || p->whole_nodes || facts->site.whole_nodes;
    if (d->memory_by == SW_MEMORY_DEFAULT && given.mb > 0) {
        d->memory_by = given.per_cpu ? SW_MEMORY_CPU : SW_MEMORY_NODE;
        d->memory_mb = given.mb;
    }
    if (most.mb == 0 || first == NULL || d->memory_by == SW_MEMORY_GPU)
        return 0;
    if (d->memory_by == SW_MEMORY_CPU && most.per_cpu) {
        const int64_t ratio = d->memory_mb / most.mb + (d->memory_mb % most.mb != 0);
        if (ratio > 1) {
            d->by_memory = true;
            d->cpus = times(d->cpus, ratio);
            d->all_cpus = times(d->all_cpus, ratio);
            d->memory_mb = d->memory_mb / ratio + (d->memory_mb % ratio != 0);
        }
        return 0;
    }
    const int64_t of_node = d->memory_by == SW_MEMORY_CPU
                                ? times(d->memory_mb, d->whole_nodes ? first->cpus : d->cpus)
                            : d->memory_mb > 0 ? d->memory_mb
                                               : first->memory_mb;
    if (!most.per_cpu)
        return of_node > most.mb ? of_node : 0;
    const int64_t cpus = of_node / most.mb + (of_node % most.mb != 0);
    if (cpus > d->cpus) {
        d->by_memory = true;
        d->cpus = cpus;
        d->all_cpus = times(d->nodes, cpus);
    }
    return 0;
}

int64_t sw_slurm_demand_memory(const struct sw_slurm_demand *d)
{
    return d->memory_by == SW_MEMORY_CPU   ? times(d->memory_mb, d->cpus)
           : d->memory_by == SW_MEMORY_GPU ? times(d->memory_mb, d->gpus.total)
                                           : d->memory_mb;
}

/* ---- Nodes ---- */

bool sw_slurm_node_has_gpus(const struct sw_slurm_nodes *node, const struct sw_slurm_gpus *gpus)
{
    const struct sw_slurm_gpus has = sw_slurm_parse_gpus(node->gres);
    for (int32_t i = 0; i < gpus->types; i++) {
        const char *type = gpus->of[i].type;
        int32_t found = type[0] == '\0' ? has.total : 0;
        for (int32_t k = 0; k < has.types && type[0] != '\0'; k++)
            if (strcasecmp(has.of[k].type, type) == 0)
                found += has.of[k].count;
        if (found < gpus->of[i].count)
            return false;
    }
    return true;
}

bool sw_slurm_node_has_feature(const struct sw_slurm_nodes *n, const char *constraint)
{
    return constraint == NULL || strpbrk(constraint, "&|*[](),") != NULL ||
           (n->features != NULL && sw_slurm_list_has(n->features, constraint));
}

bool sw_slurm_node_has(const struct sw_slurm_nodes *node, const struct sw_slurm_demand *d)
{
    return node->cpus >= d->cpus && node->memory_mb >= sw_slurm_demand_memory(d) &&
           sw_slurm_node_has_gpus(node, &d->gpus) && sw_slurm_node_has_feature(node, d->constraint);
}

int32_t sw_slurm_nodes_common(const struct sw_slurm_nodes *node, const struct sw_slurm_partition *p,
                              const struct sw_hosts *excluded)
{
    int32_t count = sw_hosts_common(&node->hosts, &p->hosts);
    for (int32_t i = 0; i < excluded->count; i++)
        count -= sw_hosts_contain(&node->hosts, excluded->name[i]) &&
                 sw_hosts_contain(&p->hosts, excluded->name[i]);
    return count;
}

/* ---- Resources given to a job ---- */

/* gres name of GPUs of a type, "gres/gpu:h100"; type "": all. */
static void name_gpus(const char *type, char out[80])
{
    snprintf(out, 80, "gres/gpu%s%s", type[0] != '\0' ? ":" : "", type);
}

static double gpus_of(const struct sw_slurm_gpus *gpus, const char *name)
{
    double count = 0;
    for (int32_t i = 0; i < gpus->types; i++) {
        char of_type[80];
        name_gpus(gpus->of[i].type, of_type);
        if (strcasecmp(name, "gres/gpu") == 0 || strcasecmp(name, of_type) == 0)
            count += gpus->of[i].count;
    }
    return count;
}

/* Processors rounded up to whole cores, where no two jobs share one. */
static int64_t whole_cores(int64_t cpus, const struct sw_slurm_nodes *n,
                           const struct sw_slurm_site *site)
{
    const int64_t threads =
        n != NULL && site->whole_cores && n->threads_per_core > 1 ? n->threads_per_core : 1;
    return threads > 1 && cpus < INT32_MAX ? (cpus + threads - 1) / threads * threads : cpus;
}

/* Amount of a resource that a job gets on a node of the group. */
static double given_on(const struct sw_slurm_demand *d, const struct sw_slurm_nodes *n,
                       const struct sw_slurm_site *site, const char *name)
{
    if (strcmp(name, "node") == 0)
        return 1;
    const int64_t cpus = d->whole_nodes ? n->cpus : whole_cores(d->cpus, n, site);
    if (strcmp(name, "cpu") == 0)
        return (double)cpus;
    if (strcmp(name, "mem") == 0)
        return (double)(d->memory_by == SW_MEMORY_CPU   ? times(d->memory_mb, cpus)
                        : sw_slurm_demand_memory(d) > 0 ? sw_slurm_demand_memory(d)
                                                        : n->memory_mb);
    const struct sw_slurm_gpus has = sw_slurm_parse_gpus(n->gres);
    return gpus_of(d->whole_nodes ? &has : &d->gpus, name);
}

struct given {
    double each;
    int32_t nodes;
};

static int compare_given(const void *a, const void *b)
{
    const double x = ((const struct given *)a)->each, y = ((const struct given *)b)->each;
    return x < y ? -1 : x > y;
}

/* Sum over the job's nodes: those with least, or most, of it. */
static double sum_given(const struct given *given, int32_t count, int32_t nodes, bool most)
{
    double sum = 0;
    for (int32_t i = 0; i < count && nodes > 0; i++) {
        const struct given *g = &given[most ? count - 1 - i : i];
        const int32_t taken = g->nodes < nodes ? g->nodes : nodes;
        sum += g->each * taken;
        nodes -= taken;
    }
    return sum;
}

static void add_use(struct sw_slurm_use *out, const char *name, double asked, double least,
                    double most)
{
    for (int32_t i = 0; i < out->count; i++)
        if (strcasecmp(out->of[i].name, name) == 0)
            return;
    if (out->count == SW_SLURM_USES)
        return;
    snprintf(out->of[out->count].name, sizeof out->of[0].name, "%s", name);
    out->of[out->count].asked = asked;
    out->of[out->count].least = least;
    out->of[out->count++].most = most;
}

/* Amount of a resource in sbatch's options. */
static double asked_of(const struct sw_slurm_demand *d, const struct sw_slurm_facts *facts,
                       const struct sw_slurm_partition *p, const char *name)
{
    const struct sw_slurm_nodes *first = first_node(facts, p);
    if (strcmp(name, "node") == 0)
        return d->nodes;
    if (strcmp(name, "cpu") == 0)
        return (double)d->all_cpus;
    if (strcmp(name, "mem") == 0)
        return (double)d->nodes * (double)(sw_slurm_demand_memory(d) > 0 ? sw_slurm_demand_memory(d)
                                           : first != NULL               ? first->memory_mb
                                                                         : 0);
    if (strcmp(name, "gres/gpu") == 0)
        return (double)d->all_gpus;
    return d->nodes * gpus_of(&d->gpus, name);
}

/* Adds a resource of nodes. */
static void add_given(const struct sw_slurm_demand *d, const struct sw_slurm_facts *facts,
                      const struct sw_slurm_partition *p, const char *name,
                      struct sw_slurm_use *out)
{
    struct given *given = calloc((size_t)facts->nodes_count + 1, sizeof *given);
    int32_t count = 0;
    if (given == NULL)
        return; /* then it is unknown */
    for (int32_t i = 0; i < facts->nodes_count; i++) {
        const struct sw_slurm_nodes *n = &facts->nodes[i];
        const int32_t nodes = sw_slurm_nodes_common(n, p, &d->excluded);
        if (nodes > 0 && sw_slurm_node_has(n, d))
            given[count++] =
                (struct given){.each = given_on(d, n, &facts->site, name), .nodes = nodes};
    }
    qsort(given, (size_t)count, sizeof *given, compare_given);
    const double asked = asked_of(d, facts, p, name);
    double least = sum_given(given, count, d->nodes, false),
           most = sum_given(given, count, d->nodes, true);
    /* 3 tasks on 2 nodes: at least all threads of the cores that they need together */
    if (!d->whole_nodes && strcmp(name, "cpu") == 0 && d->all_cpus < times(d->nodes, d->cpus))
        least = (double)whole_cores(d->all_cpus, first_node(facts, p), &facts->site);
    if (!d->whole_nodes && strcmp(name, "gres/gpu") == 0 && asked > least)
        least = most = asked;
    if (strcmp(name, "mem") == 0 && facts->site.no_memory)
        least = 0;
    add_use(out, name, asked, least, most);
    free(given);
}

/* Weight of a resource in "CPU=1.0,Mem=0.25G,GRES/gpu=2.0", for memory of a megabyte. */
static double weight_of(const char *weights, const char *name)
{
    const size_t length = strlen(name);
    for (const char *p = weights; *p != '\0'; p += strcspn(p, ","), p += *p == ',') {
        if (strncasecmp(p, name, length) != 0 || p[length] != '=')
            continue;
        char *end = NULL;
        const double weight = strtod(p + length + 1, &end);
        const int unit = toupper((unsigned char)*end);
        if (strcmp(name, "mem") != 0)
            return weight;
        return unit == 'K'   ? weight * 1024
               : unit == 'G' ? weight / 1024
               : unit == 'T' ? weight / (1024 * 1024)
                             : weight;
    }
    return 0;
}

/* Adds billing: the sum of the other resources, or the largest of those of nodes. */
static void add_billing(const struct sw_slurm_facts *facts, const struct sw_slurm_partition *p,
                        struct sw_slurm_use *out)
{
    double sum[3] = {0}, largest[3] = {0};
    for (int32_t i = 0; i < out->count; i++) {
        const bool of_node = strncmp(out->of[i].name, "license/", 8) != 0;
        const double each[3] = {out->of[i].asked, out->of[i].least, out->of[i].most};
        const double weight = p->billing != NULL ? weight_of(p->billing, out->of[i].name)
                                                 : strcmp(out->of[i].name, "cpu") == 0;
        for (int32_t k = 0; k < 3; k++) {
            if (facts->site.billing_is_max && of_node && p->billing != NULL)
                largest[k] = fmax(largest[k], weight * each[k]);
            else
                sum[k] += weight * each[k];
        }
    }
    add_use(out, "billing", floor(sum[0] + largest[0]), floor(sum[1] + largest[1]),
            floor(sum[2] + largest[2]));
}

static void add_licenses(const char *text, struct sw_slurm_use *out)
{
    for (const char *p = text; p != NULL && *p != '\0'; p += strspn(p, ",;")) {
        const size_t length = strcspn(p, ",;"), name = strcspn(p, ":,;");
        const double count = p[name] == ':' ? strtod(p + name + 1, NULL) : 1;
        char of_license[80];
        snprintf(of_license, sizeof of_license, "license/%.*s", (int)name, p);
        add_use(out, of_license, count, count, count);
        p += length;
    }
}

void sw_slurm_use_find(const struct sw_slurm_demand *d, const struct sw_slurm_facts *facts,
                       const struct sw_slurm_partition *p, struct sw_slurm_use *out)
{
    char name[80];
    *out = (struct sw_slurm_use){.whole_nodes = d->whole_nodes};
    add_given(d, facts, p, "node", out);
    add_given(d, facts, p, "cpu", out);
    add_given(d, facts, p, "mem", out);
    add_given(d, facts, p, "gres/gpu", out);
    for (int32_t i = 0; i < d->gpus.types; i++) {
        name_gpus(d->gpus.of[i].type, name);
        add_given(d, facts, p, name, out);
    }
    /* whole nodes give all resources */
    for (int32_t i = 0; i < facts->nodes_count && d->whole_nodes; i++) {
        if (sw_slurm_nodes_common(&facts->nodes[i], p, &d->excluded) == 0)
            continue;
        const struct sw_slurm_gpus has = sw_slurm_parse_gpus(facts->nodes[i].gres);
        for (int32_t k = 0; k < has.types; k++) {
            name_gpus(has.of[k].type, name);
            add_given(d, facts, p, name, out);
        }
    }
    add_licenses(d->licenses, out);
    add_billing(facts, p, out);
}

double sw_slurm_total(const struct sw_slurm_facts *facts, const struct sw_slurm_partition *p,
                      const char *tres)
{
    double sum = 0;
    for (int32_t i = 0; i < facts->nodes_count; i++) {
        const struct sw_slurm_nodes *n = &facts->nodes[i];
        const struct sw_slurm_gpus has = sw_slurm_parse_gpus(n->gres);
        const double each = strcmp(tres, "node") == 0  ? 1
                            : strcmp(tres, "cpu") == 0 ? n->cpus
                            : strcmp(tres, "mem") == 0 ? (double)n->memory_mb
                                                       : gpus_of(&has, tres);
        sum += each * (p != NULL ? sw_hosts_common(&n->hosts, &p->hosts) : n->hosts.count);
    }
    return sum;
}
