/* Facts of a controller, collected by its backings. */
#include "planner/scheduler/slurm/internal.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static int no_memory(struct sw_error *err)
{
    return sw_fail(err, SW_ENVIRONMENT, "out of memory for what Slurm says");
}

/* One more zeroed element of *array, which holds count; NULL: no memory. */
static void *grow(void **array, int32_t *count, size_t bytes, struct sw_error *err)
{
    /* room grows in powers of two */
    if ((*count & (*count - 1)) == 0) {
        void *grown = realloc(*array, (*count == 0 ? 1 : 2 * (size_t)*count) * bytes);
        if (grown == NULL) {
            no_memory(err);
            return NULL;
        }
        *array = grown;
    }
    return memset((char *)*array + (size_t)(*count)++ * bytes, 0, bytes);
}

int sw_slurm_copy(char **out, const char *text, const char *all, struct sw_error *err)
{
    *out = NULL;
    if (text == NULL || *text == '\0' || strcmp(text, "(null)") == 0 ||
        (all != NULL && strcasecmp(text, all) == 0))
        return 0;
    *out = strdup(text);
    return *out != NULL ? 0 : no_memory(err);
}

const struct sw_slurm_condition *sw_slurm_conditions(void)
{
    static const struct sw_slurm_condition rows[] = {
        {"DOWN", "down", false, false},
        {"ERROR", "in an error", false, false},
        {"FUTURE", "not there yet (FUTURE)", false, false},
        {"UNKNOWN", "of unknown state", false, false},
        {"FAIL", "about to fail", false, false},
        {"DRAIN", "drained", false, true},
        {"INVALID_REG", "registered with less than their configuration", true, true},
        {"MAINTENANCE", "in maintenance", true, true},
        {"NOT_RESPONDING", "not responding", true, true},
        {"REBOOT_ISSUED", "rebooting", true, true},
        {"RESERVED", "in a reservation", true, true},
        {NULL, NULL, true, true}};
    return rows;
}

/* The worst condition in a node's state; NULL: none. *drained: true if one is DRAIN. */
static const struct sw_slurm_condition *condition_of(const struct sw_slurm_node *node,
                                                     bool *drained)
{
    const struct sw_slurm_condition *worst = NULL, *rows = sw_slurm_conditions();
    *drained = false;
    for (size_t i = 0; i < node->state_length;) {
        const char *word = node->state + i;
        size_t letters = 0;
        while (i + letters < node->state_length &&
               (isalpha((unsigned char)word[letters]) || word[letters] == '_'))
            letters++;
        for (const struct sw_slurm_condition *row = rows; row->word != NULL; row++) {
            if (letters != strlen(row->word) || memcmp(word, row->word, letters) != 0)
                continue;
            *drained = *drained || strcmp(row->word, "DRAIN") == 0;
            worst = worst == NULL || row < worst ? row : worst;
        }
        i += letters + 1;
    }
    return worst;
}

static bool same_text(const char *kept, const char *text)
{
    const bool none = text == NULL || *text == '\0' || strcmp(text, "(null)") == 0;
    return kept == NULL ? none : !none && strcmp(kept, text) == 0;
}

static bool belongs(const struct sw_slurm_nodes *g, const struct sw_slurm_node *n)
{
    bool drained = false;
    const struct sw_slurm_condition *condition = condition_of(n, &drained);
    return g->cpus == n->cpus && g->sockets == n->sockets &&
           g->cores_per_socket == n->cores_per_socket &&
           g->threads_per_core == n->threads_per_core && g->memory_mb == n->memory_mb &&
           g->condition == condition && g->drained == drained && same_text(g->gres, n->gres) &&
           same_text(g->features, n->features);
}

int sw_slurm_add_node(struct sw_slurm_facts *facts, const struct sw_slurm_node *node,
                      struct sw_error *err)
{
    struct sw_slurm_nodes *group = NULL;
    /* neighbours are alike: try the last group first */
    for (int32_t i = facts->nodes_count - 1; i >= 0 && group == NULL; i--)
        if (belongs(&facts->nodes[i], node))
            group = &facts->nodes[i];
    if (group == NULL) {
        group = grow((void **)&facts->nodes, &facts->nodes_count, sizeof *group, err);
        if (group == NULL || sw_slurm_copy(&group->gres, node->gres, NULL, err) != 0 ||
            sw_slurm_copy(&group->features, node->features, NULL, err) != 0)
            return -1;
        group->cpus = node->cpus;
        group->sockets = node->sockets;
        group->cores_per_socket = node->cores_per_socket;
        group->threads_per_core = node->threads_per_core;
        group->memory_mb = node->memory_mb;
        group->condition = condition_of(node, &group->drained);
        group->usable = group->condition == NULL || group->condition->usable;
    }
    return sw_hosts_add(&group->hosts, node->name, err);
}

struct sw_slurm_partition *sw_slurm_add_partition(struct sw_slurm_facts *facts,
                                                  struct sw_error *err)
{
    struct sw_slurm_partition *p =
        grow((void **)&facts->partition, &facts->partition_count, sizeof *p, err);
    if (p != NULL)
        p->max_time = INFINITY;
    return p;
}

struct sw_slurm_switch *sw_slurm_add_switch(struct sw_slurm_facts *facts, struct sw_error *err)
{
    return grow((void **)&facts->switches, &facts->switch_count, sizeof *facts->switches, err);
}

void sw_slurm_free_switches(struct sw_slurm_facts *facts)
{
    for (int32_t i = 0; i < facts->switch_count; i++) {
        sw_hosts_free(&facts->switches[i].hosts);
        free(facts->switches[i].name);
    }
    free(facts->switches);
    facts->switches = NULL;
    facts->switch_count = 0;
}

void sw_slurm_facts_free(struct sw_slurm_facts *facts)
{
    for (int32_t i = 0; i < facts->nodes_count; i++) {
        sw_hosts_free(&facts->nodes[i].hosts);
        free(facts->nodes[i].gres);
        free(facts->nodes[i].features);
    }
    for (int32_t i = 0; i < facts->partition_count; i++) {
        struct sw_slurm_partition *p = &facts->partition[i];
        sw_hosts_free(&p->hosts);
        free(p->name);
        free(p->billing);
        free(p->own_qos);
        free(p->topology);
        free(p->accounts);
        free(p->denied_accounts);
        free(p->qos);
        free(p->denied_qos);
        free(p->groups);
    }
    sw_slurm_free_switches(facts);
    free(facts->nodes);
    free(facts->partition);
    *facts = (struct sw_slurm_facts){0};
}

const struct sw_slurm_partition *sw_slurm_find_partition(const struct sw_slurm_facts *facts,
                                                         const char *name)
{
    for (int32_t i = 0; i < facts->partition_count; i++) {
        const struct sw_slurm_partition *p = &facts->partition[i];
        if (name == NULL ? p->is_default : strcmp(p->name, name) == 0)
            return p;
    }
    return NULL;
}

/* Reads an entry "gpu:h100:8(S:0-1)" of a list: type and count, both optional (count 1). */
static void read_gpu(const char *entry, size_t length, struct sw_slurm_gpus *gpus)
{
    char text[160];
    snprintf(text, sizeof text, "%.*s", (int)length, entry);
    text[strcspn(text, "(")] = '\0';
    char *type = strchr(text, ':'), *number = NULL;
    if (type != NULL)
        *type++ = '\0';
    if (strcasecmp(text, "gpu") != 0 || gpus->types == SW_SLURM_GPU_TYPES)
        return;
    number = type != NULL ? strrchr(type, ':') : NULL;
    if (number != NULL)
        *number++ = '\0';
    else if (type != NULL && isdigit((unsigned char)type[0]) &&
             type[strspn(type, "0123456789")] == '\0')
        number = type, type = NULL;
    const long count = number != NULL ? strtol(number, NULL, 10) : 1;
    if (count < 1 || count > 1 << 16)
        return;
    snprintf(gpus->of[gpus->types].type, sizeof gpus->of[0].type, "%s", type != NULL ? type : "");
    gpus->of[gpus->types++].count = (int32_t)count;
    gpus->total += (int32_t)count;
}

struct sw_slurm_gpus sw_slurm_parse_gpus(const char *gres)
{
    struct sw_slurm_gpus gpus = {0};
    for (const char *p = gres; p != NULL && *p != '\0';) {
        size_t length = 0;
        for (int32_t depth = 0; p[length] != '\0' && (depth > 0 || p[length] != ','); length++)
            depth += (p[length] == '(') - (p[length] == ')');
        read_gpu(p, length, &gpus);
        p += length + (p[length] == ',');
    }
    return gpus;
}
