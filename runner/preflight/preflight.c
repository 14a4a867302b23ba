#include "runner/preflight/preflight.h"

#include "core/run/attempt.h"
#include "runner/preflight/facts.h"
#include "runner/preflight/judge.h"
#include "runner/preflight/landing.h"
#include "runner/preflight/probe.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NODE_BYTES = 256, PAIR_ROUNDS = 3 };
static const double quick_s = 1, full_s = 8; /* time per test */

/* A rank's record for all others. */
struct card {
    char host[NODE_BYTES], block[NODE_BYTES]; /* block: or leaf switch; "": unknown */
    struct sw_node_facts facts;
    double compute_s, predicted_s, pair_rate, group_s[SW_PROBE_GROUPS];
};

struct preflight {
    struct sw_rank *rank;
    double budget_s;
    struct card mine, *all; /* [ranks] */
    int32_t *node;          /* [ranks]: each rank's node, numbered by first appearance */
    int32_t *first;         /* [nodes]: its first rank */
    int32_t nodes;
    double *rate;      /* [nodes], current test */
    bool *slow, *seen; /* [nodes]: in the current test, in any so far */
    struct sw_probe_group group[SW_PROBE_GROUPS];
    int32_t groups;
    struct sw_attempt found; /* slow nodes, and why */
    bool *suspect;           /* [nodes]: slow the first time; NULL: this is the first */
};

/* ---- Ranks and nodes ---- */

static void gather(struct preflight *p)
{
    sw_launch_gather(p->rank->launch, &p->mine, (int32_t)sizeof p->mine, p->all);
}

static int find_nodes(struct preflight *p)
{
    const size_t ranks = (size_t)p->rank->launch->size;
    p->all = calloc(ranks, sizeof *p->all);
    p->node = calloc(ranks, sizeof *p->node);
    p->first = calloc(ranks, sizeof *p->first);
    p->rate = calloc(ranks, sizeof *p->rate);
    p->slow = calloc(ranks, sizeof *p->slow);
    p->seen = calloc(ranks, sizeof *p->seen);
    if (p->all == NULL || p->node == NULL || p->first == NULL || p->rate == NULL ||
        p->slow == NULL || p->seen == NULL)
        return sw_fail(&p->rank->err, SW_ENVIRONMENT, "out of memory");
    snprintf(p->mine.host, sizeof p->mine.host, "%s", p->rank->launch->host);
    sw_landing_block(getenv("SLURM_TOPOLOGY_ADDR"), getenv("SLURM_TOPOLOGY_ADDR_PATTERN"),
                     p->mine.block, sizeof p->mine.block);
    p->mine.pair_rate = NAN;
    gather(p);
    for (int32_t r = 0; r < p->rank->launch->size; r++) {
        int32_t n = 0;
        while (n < p->nodes && strcmp(p->all[p->first[n]].host, p->all[r].host) != 0)
            n++;
        if (n == p->nodes)
            p->first[p->nodes++] = r;
        p->node[r] = n;
    }
    return 0;
}

static const char *name_of(const struct preflight *p, int32_t node)
{
    return p->all[p->first[node]].host;
}

static bool speaks(const struct preflight *p)
{
    return p->rank->launch->rank == 0;
}

/* Called alike on every rank. */
static void blame(struct preflight *p, int32_t node, const char *what)
{
    struct sw_attempt *a = &p->found;
    const size_t used = strlen(a->cause);
    if (p->suspect != NULL && !p->suspect[node])
        return;
    p->seen[node] = true;
    sw_attempt_add_node(a, name_of(p, node));
    snprintf(a->cause + used, sizeof a->cause - used, "%s%s: %s", used == 0 ? "preflight: " : "; ",
             name_of(p, node), what);
    if (speaks(p))
        fprintf(stderr, "preflight: error: node %s %s\n", name_of(p, node), what);
}

/* Reports the nodes' rates and the slow ones. unit: of the rates, for people. */
static void judge(struct preflight *p, const char *what, double predicted, double scale,
                  const char *unit)
{
    const double middle = sw_judge_middle(p->rate, p->nodes);
    char promised[48] = "";
    if (!isinf(predicted))
        snprintf(promised, sizeof promised, ", predicted %.3g", predicted / scale);
    if (speaks(p) && !isnan(middle))
        fprintf(stderr, "preflight: %s: %.3g %s in the middle of %d node%s%s\n", what,
                middle / scale, unit, (int)p->nodes, p->nodes == 1 ? "" : "s", promised);
    if (speaks(p) && middle * 2 < predicted && !isinf(predicted))
        fprintf(stderr,
                "preflight: note: that is less than half of it: the cluster's file promises more "
                "than its nodes hold\n");
    if (sw_judge(p->rate, p->nodes, predicted, p->slow) == 0)
        return;
    for (int32_t n = 0; n < p->nodes; n++) {
        char text[256];
        if (!p->slow[n])
            continue;
        snprintf(text, sizeof text, "is slow: %s %.3g %s, the others %.3g%s", what,
                 p->rate[n] / scale, unit, middle / scale, promised);
        blame(p, n, text);
    }
}

/* ---- What is tried ---- */

static void judge_facts(struct preflight *p)
{
    const struct sw_run_config *run = p->rank->plan->run;
    const int32_t per_node = run->cluster.accelerators_per_node;
    const bool gpu = sw_device_row(run->cluster.accelerator.device)->allocated;
    const int64_t needs = p->rank->plan->prediction.memory_total;
    for (int32_t n = 0; n < p->nodes; n++) {
        const struct sw_node_facts *f = &p->all[p->first[n]].facts;
        char text[256] = "";
        if (f->disk_bytes == 0)
            snprintf(text, sizeof text, "cannot write to %.180s", run->directory);
        else if (gpu && f->gpus >= 0 && f->gpus < per_node)
            snprintf(text, sizeof text, "has %d GPUs, the plan needs %d", (int)f->gpus,
                     (int)per_node);
        else if (gpu && f->gpu_memory_bytes >= 0 && f->gpu_memory_bytes < needs)
            snprintf(text, sizeof text, "has a GPU with %.1f GB free, the plan needs %.1f GB",
                     (double)f->gpu_memory_bytes / 1e9, (double)needs / 1e9);
        else if (!gpu && f->memory_bytes >= 0 && f->memory_bytes < needs * per_node)
            snprintf(text, sizeof text, "has %.1f GB free, %d ranks need %.1f GB",
                     (double)f->memory_bytes / 1e9, (int)per_node, (double)needs * per_node / 1e9);
        if (text[0] != '\0')
            blame(p, n, text);
        if (speaks(p) && strcmp(f->driver, p->all[0].facts.driver) != 0)
            fprintf(stderr, "preflight: note: node %s has driver %s, %s has %s\n", name_of(p, n),
                    f->driver, name_of(p, 0), p->all[0].facts.driver);
        p->rate[n] = f->gpu_clock_hz > 0 ? f->gpu_clock_hz : NAN;
    }
    if (!isnan(sw_judge_middle(p->rate, p->nodes)))
        judge(p, "largest clock", INFINITY, 1e6, "MHz");
}

static int try_compute(struct preflight *p)
{
    if (sw_probe_compute(p->rank->plan, p->rank->device, p->budget_s, &p->mine.compute_s,
                         &p->mine.predicted_s, &p->rank->err) != 0)
        return -1;
    gather(p);
    for (int32_t n = 0; n < p->nodes; n++)
        p->rate[n] = INFINITY;
    for (int32_t r = 0; r < p->rank->launch->size; r++) /* a node is as fast as its slowest rank */
        p->rate[p->node[r]] = fmin(p->rate[p->node[r]], 1 / p->all[r].compute_s);
    judge(p, "layers of the plan's shapes", 1 / p->mine.predicted_s, 1, "per second");
    return 0;
}

/* Pairs one rank of every node with one of another, in rounds: a node slow with all partners is
 * slow itself. */
static int try_pairs(struct preflight *p)
{
    const int32_t all = sw_judge_rounds(p->nodes), mine = p->node[p->rank->launch->rank];
    const int32_t rounds = all < PAIR_ROUNDS ? all : PAIR_ROUNDS;
    const struct sw_cluster_config *cluster = &p->rank->plan->run->cluster;
    if (rounds == 0)
        return 0;
    for (int32_t n = 0; n < p->nodes; n++)
        p->rate[n] = NAN;
    for (int32_t round = 0; round < rounds; round++) {
        const int32_t partner = sw_judge_partner(mine, round, p->nodes);
        const bool talks = p->first[mine] == p->rank->launch->rank && partner >= 0;
        if (sw_probe_pair(p->rank->comm, p->rank->device, talks ? p->first[partner] : -1,
                          p->budget_s / rounds, &p->mine.pair_rate, &p->rank->err) != 0)
            return -1;
        gather(p);
        for (int32_t n = 0; n < p->nodes; n++)
            p->rate[n] = fmax(p->rate[n], p->all[p->first[n]].pair_rate); /* NaN: keeps the other */
    }
    judge(p, "messages to another node", cluster->link[cluster->link_count - 1].bandwidth, 1e6,
          "MB/s");
    return 0;
}

/* Tests a group: over several nodes it slows all of them; inside a node it blames that one. */
static int try_group(struct preflight *p, int32_t g)
{
    const struct sw_probe_group *group = &p->group[g];
    const struct sw_mesh *mesh = &p->rank->plan->decision.mesh;
    char axes[32], what[96];
    if (sw_probe_collective(p->rank->comm, p->rank->device, group, p->budget_s / p->groups,
                            &p->mine.group_s[g], &p->rank->err) != 0)
        return -1;
    gather(p);
    snprintf(what, sizeof what, "the plan's %s over %s", sw_collective_name(group->kind),
             sw_axes_format(group->axes, axes, sizeof axes));
    double worst = 0;
    bool inside = true;
    for (int32_t n = 0; n < p->nodes; n++)
        p->rate[n] = INFINITY;
    for (int32_t r = 0; r < p->rank->launch->size; r++) {
        worst = fmax(worst, p->all[r].group_s[g]);
        p->rate[p->node[r]] = fmin(p->rate[p->node[r]], 1 / p->all[r].group_s[g]);
        for (int32_t i = 0; i < sw_axes_size(mesh, group->axes); i++)
            inside = inside && p->node[sw_axes_member(mesh, group->axes, r, i)] == p->node[r];
    }
    if (inside)
        judge(p, what, 1 / group->predicted_s, 1, "per second");
    else if (speaks(p))
        fprintf(stderr, "preflight: %s: %.3g ms in the slowest group, predicted %.3g ms\n", what,
                worst * 1e3, group->predicted_s * 1e3);
    return 0;
}

static int try_everything(struct preflight *p)
{
    if (try_compute(p) != 0 || try_pairs(p) != 0)
        return -1;
    for (int32_t g = 0; g < p->groups; g++)
        if (try_group(p, g) != 0)
            return -1;
    return 0;
}

/* Repeats the tests: a slow result that does not recur was a coincidence. */
static int try_twice(struct preflight *p)
{
    bool *suspect = calloc((size_t)p->nodes, sizeof *suspect);
    int status = suspect != NULL ? 0 : sw_fail(&p->rank->err, SW_ENVIRONMENT, "out of memory");
    for (int32_t i = 0; i < 2 && status == 0; i++) {
        p->found = (struct sw_attempt){.attempt = 0};
        judge_facts(p);
        status = try_everything(p);
        if (p->found.node_count == 0)
            break;
        memcpy(suspect, p->seen, (size_t)p->nodes * sizeof *suspect);
        p->suspect = suspect;
    }
    p->suspect = NULL;
    free(suspect);
    return status;
}

/* ---- Where the nodes are ---- */

/* Numbers each node's block; returns the number of blocks, 0: some are unknown. */
static int32_t number_blocks(const struct preflight *p, int32_t *block)
{
    int32_t count = 0;
    for (int32_t n = 0; n < p->nodes; n++) {
        const char *name = p->all[p->first[n]].block;
        int32_t same = 0;
        while (same < n && strcmp(p->all[p->first[same]].block, name) != 0)
            same++;
        if (name[0] == '\0')
            return 0;
        block[n] = same < n ? block[same] : count++;
    }
    return count;
}

/* Reports if neighbouring nodes share a block or leaf switch as priced, and the cost if not. */
static int tell_landing(struct preflight *p)
{
    const struct sw_plan *plan = p->rank->plan;
    const struct sw_program *program = p->rank->programs->program[SW_PROGRAM_TRAIN];
    const struct sw_cluster_config *cluster = &plan->run->cluster;
    const int32_t priced = sw_landing_predicted(cluster);
    int32_t *block = speaks(p) && priced > 1 ? calloc((size_t)p->nodes, sizeof *block) : NULL;
    const int32_t blocks = block != NULL ? number_blocks(p, block) : 0;
    const int32_t found = blocks > 0 ? sw_landing_found(block, p->nodes, priced) : 0;
    double there = 0, as_priced = 0;
    int status = 0;
    free(block);
    if (blocks == 0)
        return 0;
    if (found == priced) {
        fprintf(stderr,
                "preflight: nodes are where the price has them: %d in %d block%s or under "
                "as many leaf switches\n",
                (int)p->nodes, (int)blocks, blocks == 1 ? "" : "s");
        return 0;
    }
    if (sw_landing_seconds(program, cluster, priced, found, &there, &p->rank->err) != 0 ||
        sw_landing_seconds(program, cluster, priced, priced, &as_priced, &p->rank->err) != 0)
        status = -1;
    else
        fprintf(stderr,
                "preflight: note: the price assumes groups of %d neighbouring nodes in one block "
                "or under one leaf switch; here groups of %d are, in %d blocks or switches: a step "
                "takes %.3g s, %.3g s as priced\n",
                (int)priced, (int)found, (int)blocks, there, as_priced);
    return status;
}

/* ---- The command ---- */

const struct sw_argument sw_preflight_rows[] = {
    {.name = "--full",
     .about = "for about a minute instead of ten seconds",
     SW_ARGUMENT_TO(struct sw_preflight_options, full)},
    SW_ARGUMENT_DIGEST(struct sw_preflight_options, meant),
    {.name = NULL}};

int sw_preflight_arguments(int argc, char **argv, struct sw_preflight_options *out,
                           struct sw_error *err)
{
    struct sw_command_line line = {.tool = "runner",
                                   .command = "preflight",
                                   .options = sw_preflight_rows,
                                   .to = out,
                                   .plan = &out->plan_path};
    return sw_arguments_parse(argc, argv, &line, err);
}

static enum sw_status set_up(struct preflight *p)
{
    struct sw_rank *rank = p->rank;
    const struct sw_axes every = {SW_AXIS_COUNT, {SW_DP, SW_FSDP, SW_TP, SW_SP}};
    struct sw_axes groups[SW_PROBE_GROUPS + 1] = {every}; /* `every`: for the ranks' messages */
    if (sw_rank_compile(rank, 0, 0) == 0)
        sw_node_facts_find(rank->plan->run->directory, &p->mine.facts);
    enum sw_status status = sw_rank_meet(rank, NULL, 0);
    if (status != SW_OK)
        return status;
    (void)find_nodes(p);
    status = sw_rank_agree(rank);
    if (status != SW_OK)
        return status;
    p->groups = sw_probe_groups(rank->plan, rank->programs->program[SW_PROGRAM_TRAIN], p->group);
    for (int32_t g = 0; g < p->groups; g++)
        groups[g + 1] = p->group[g].axes;
    (void)sw_rank_connect(rank, &rank->plan->decision.mesh, groups, p->groups + 1, 0);
    return sw_rank_agree(rank);
}

/* Saves the result, so that a next job can avoid the nodes. */
static void write_down(struct preflight *p)
{
    struct sw_attempt before;
    struct sw_error err = {0};
    char note[256];
    if (sw_attempt_read(p->rank->plan->run->directory, &before, note, &err) == 0) {
        p->found.attempt = before.attempt + 1;
        p->found.verdict = SW_VERDICT_BAD_NODE;
        p->found.step = p->found.first_step = before.step;
        snprintf(p->found.job, sizeof p->found.job, "%s", sw_launch_job());
        if (sw_attempt_write(p->rank->plan->run->directory, &p->found, &err) == 0)
            return;
    }
    sw_launch_print_error(&err);
}

static void tear_down(struct preflight *p)
{
    free(p->all);
    free(p->node);
    free(p->first);
    free(p->rate);
    free(p->slow);
    free(p->seen);
}

int sw_preflight(struct sw_rank *rank, const void *given)
{
    const struct sw_preflight_options *options = given;
    struct preflight p = {.rank = rank, .budget_s = options->full ? full_s : quick_s};
    int code = (int)set_up(&p);
    if (code != SW_OK)
        goto out;
    if (tell_landing(&p) != 0 || try_twice(&p) != 0)
        sw_launch_abort(rank->launch, &rank->err, (int)rank->err.status);
    code = p.found.node_count > 0 ? SW_VERDICT_BAD_NODE : SW_OK;
    if (code != SW_OK && rank->launch->rank == 0)
        write_down(&p);
    (void)sw_launch_agree(rank->launch, NULL); /* no rank exits before it is saved */
    if (code == SW_OK && rank->launch->rank == 0)
        fprintf(stderr, "preflight: %d node%s passed\n", (int)p.nodes,
                p.nodes == 1 ? " is" : "s are");
out:
    tear_down(&p);
    return code;
}
