/* Numbers of nodes compared (sw_frontier_find), over random trainings of 135M to 70B.
 *
 * Each row is, to the bit, what a search alone finds for a run whose file says that number of
 * nodes, above those of its cluster, too; of a run with stages their sums. Of drawn ends and hours,
 * ties and endless ones among them, the undominated are those that a sweep over sorted rows leaves;
 * the chosen one keeps all limits, and none that keeps them is better.
 *
 *     test_frontier [RUNS [SEED]]        the last line is the summary */
#include "planner/scheduler/scheduler.h"
#include "planner/search/frontier.h"
#include "planner/search/run_cost.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int runs = 10;
static uint64_t seed = 20261130;

static uint32_t draw(uint32_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % below;
}

#define DRAW(array) ((array)[draw((uint32_t)(sizeof(array) / sizeof(array)[0]))])

static const char *const models[] = {
    ("{vocab_size: 49152, hidden_size: 576, intermediate_size: 1536, num_hidden_layers: 30, "
     "num_attention_heads: 9, num_key_value_heads: 3, tie_word_embeddings: true}"),
    "configs/models/llama-3.2-1b.yaml", "configs/models/qwen2.5-7b.yaml",
    "configs/models/llama-8b.yaml", "configs/models/llama-3.1-70b.yaml"};
static const char *const clusters[] = {
    "configs/clusters/h100-8x8.yaml",      "configs/clusters/h100-64x8.yaml",
    "configs/clusters/dgx-a100-16x8.yaml", "configs/clusters/b200-efa-4x8.yaml",
    "configs/clusters/gh200-16x4.yaml",    "configs/clusters/mi300x-8x8.yaml",
    "configs/clusters/h100-pcie-4x4.yaml", "configs/clusters/p4d-efa-16x8.yaml"};
/* Slurm gives segments of two nodes here, which its blocks of three do not hold by themselves. */
static const char blocks[] =
    "{name: blocks, nodes: 12, accelerators_per_node: 4, accelerator: "
    "configs/accelerators/h100-sxm-80gb.yaml, links: [{name: nvlink, spans: node, bandwidth: 450 "
    "GB/s, latency: 3 us}, {name: leaf, spans: 12, bandwidth: 50 GB/s, latency: 5 us}, {name: "
    "spine, spans: all, bandwidth: 2 GB/s, latency: 9 us}], slurm: {topology: block, block_nodes: "
    "3, slurm_version: '25.05'}}";
static const char *const prefers[] = {"fsdp", "fsdp-strict", "time", "cost"};
static const char *const settings[] = {
    "", "optimizer: {total_steps: 5000}\n",
    "optimizer: {total_steps: 100000}\ncheckpoint: {every_steps: 50}\n"};

static void write_run(char text[2048])
{
    static const long sequences[] = {2048, 4096, 8192, 32768};
    static const long batches[] = {16, 60, 64, 128, 256, 1024};
    const long batch = DRAW(batches), sequence = DRAW(sequences);
    const char *model = DRAW(models), *cluster = draw(3) == 0 ? blocks : DRAW(clusters),
               *prefer = DRAW(prefers);
    const char *setting = DRAW(settings);
    snprintf(text, 2048,
             "name: random\nmodel: %s\ncluster: %s\nsequence_length: %ld\n"
             "global_batch_size: %ld\nprefer: %s\n%s%s",
             model, cluster, sequence, batch, prefer, setting, draw(3) == 0 ? "nodes: 1-2\n" : "");
}

/* The run as its file has it, and with so many nodes; 0: its own. */
static struct sw_config *read_run(const char *text, int32_t nodes, bool more)
{
    struct sw_error err = {0};
    char own[32], all[32];
    snprintf(own, sizeof own, "nodes=%d", (int)nodes);
    snprintf(all, sizeof all, "cluster.nodes=%d", (int)nodes);
    const struct sw_override over[] = {{own}, {all}};
    struct sw_config *config =
        sw_config_read_text("random.yaml", text, strlen(text), SW_CONFIG_RUN, &sw_launchers, over,
                            nodes == 0 ? 0
                            : more     ? 2
                                       : 1,
                            &err);
    if (config == NULL)
        fail_msg("%s", err.message);
    return config;
}

static void check_same(double a, double b, const char *what, int nodes, const char *text)
{
    if (memcmp(&a, &b, sizeof a) != 0 && !(isnan(a) && isnan(b)))
        fail_msg("%s on %d nodes: %.17g in the row, %.17g alone:\n%s", what, nodes, a, b, text);
}

static void check_row(const struct sw_frontier_row *row, const struct sw_run_config *alone,
                      const char *text)
{
    struct sw_search search;
    struct sw_error err = {0};
    struct sw_run_cost cost;
    assert_int_equal(alone->cluster.nodes, row->nodes);
    if (sw_search_choose(alone, SW_FOR_TRAIN, SW_EVERY_ROW, &search, &err) != 0)
        fail_msg("%s:\n%s", err.message, text);
    if ((search.feasible > 0) != row->fits)
        fail_msg("%d nodes %s alone:\n%s", (int)row->nodes, row->fits ? "do not fit" : "fit", text);
    if (row->fits) {
        const struct sw_candidate *c = &search.mesh[0];
        assert_memory_equal(&row->mesh, &c->decision.mesh, sizeof row->mesh);
        check_same(row->step_seconds, c->cost.step_seconds, "a step", row->nodes, text);
        assert_int_equal(sw_search_price_run(alone, c, NULL, &cost, &err), 0);
        if (alone->says_steps) {
            check_same(row->cost.wall_s.value, cost.wall_s.value, "the end", row->nodes, text);
            check_same(row->cost.wall_s.low, cost.wall_s.low, "the low end", row->nodes, text);
            check_same(row->hours, cost.accelerator_hours.value, "hours", row->nodes, text);
            check_same(row->cost.energy_joules.high, cost.energy_joules.high, "energy", row->nodes,
                       text);
        }
    }
    sw_search_free(&search);
}

/* The members of the frontier by a sweep: in the order of their ends, of equal ends of their hours,
 * a row is undominated that has fewer hours than all before it, or equals such a one. */
static int by_end(const void *a, const void *b)
{
    const struct sw_frontier_row *const x = *(const struct sw_frontier_row *const *)a;
    const struct sw_frontier_row *const y = *(const struct sw_frontier_row *const *)b;
    if (x->end_s != y->end_s)
        return x->end_s < y->end_s ? -1 : 1;
    return (x->hours > y->hours) - (x->hours < y->hours);
}

static void check_members(const struct sw_frontier *f)
{
    const struct sw_frontier_row *sorted[SW_MOST_NODE_COUNTS], *last = NULL;
    int32_t count = 0, undominated = 0, fitting = 0;
    for (int32_t i = 0; i < f->count; i++) {
        fitting += f->row[i].fits;
        assert_true(f->row[i].ends || !f->row[i].undominated);
        if (f->row[i].ends)
            sorted[count++] = &f->row[i];
    }
    qsort(sorted, (size_t)count, sizeof sorted[0], by_end);
    for (int32_t i = 0; i < count; i++) {
        const bool member = last == NULL || sorted[i]->hours < last->hours ||
                            (sorted[i]->hours == last->hours && sorted[i]->end_s == last->end_s);
        assert_int_equal(sorted[i]->undominated, member);
        assert_int_equal(sorted[i]->beaten_by == 0, member);
        if (member)
            last = sorted[i];
        undominated += member;
    }
    assert_int_equal(f->fitting, fitting);
    assert_int_equal(f->undominated, undominated);
    if (count == 0) {
        assert_true(f->best_end < 0 && f->best_hours < 0);
        return;
    }
    assert_int_equal(by_end(&(const void *){&f->row[f->best_end]}, &(const void *){sorted[0]}), 0);
    for (int32_t i = 0; i < count; i++)
        assert_true(f->row[f->best_hours].hours <= sorted[i]->hours);
    assert_true(f->row[f->best_hours].undominated);
}

static void drawn_rows_are_divided(void **state)
{
    struct sw_frontier_row row[24];
    (void)state;
    for (int32_t k = 0; k < 20000; k++) {
        struct sw_frontier f = {.row = row, .count = 1 + (int32_t)draw(24)};
        const uint32_t kinds = 1 + draw(12); /* few kinds: many ties */
        for (int32_t i = 0; i < f.count; i++) {
            const bool fits = draw(5) > 0, ends = fits && draw(9) > 0;
            const uint32_t end = 1 + draw(kinds), hours = 1 + draw(kinds);
            row[i] = (struct sw_frontier_row){.nodes = i + 1,
                                              .fits = fits,
                                              .ends = ends,
                                              .end_s = ends ? end : INFINITY,
                                              .hours = ends ? hours : INFINITY};
        }
        sw_frontier_mark(&f);
        check_members(&f);
    }
}

/* Some numbers of nodes from 1 to more than the cluster has. */
static void draw_nodes(const struct sw_run_config *run, char text[64])
{
    const int32_t most = run->cluster_nodes + 5 + (int32_t)draw((uint32_t)run->cluster_nodes);
    snprintf(text, 64, "%d,%d..%d:%d,%d", (int)(1 + draw(2)), (int)(2 + draw(3)), (int)most,
             (int)(1 + most / 3 + (int32_t)draw(3)), (int)run->cluster_nodes);
}

static struct sw_cost_limits draw_limits(const struct sw_run_config *run)
{
    struct sw_cost_limits limits = {.count = 0};
    struct sw_error err = {0};
    char text[48];
    if (!run->says_steps)
        return limits;
    if (draw(2)) {
        snprintf(text, sizeof text, "%u GPU-hours", 1u << (4 + draw(16)));
        assert_int_equal(sw_budget_parse(text, "USD", &limits.limit[limits.count++], &err), 0);
    }
    limits.has_deadline = draw(2);
    if (limits.has_deadline) {
        snprintf(text, sizeof text, "%u h", 1u << draw(13));
        assert_int_equal(sw_deadline_parse(text, 0, &limits.limit[limits.count++], &err), 0);
    }
    return limits;
}

/* Chosen rows keep all limits, and no row that keeps them is better by the rule. */
static void check_choice(const struct sw_run_config *run, const struct sw_frontier *f)
{
    const bool cheap =
        run->prefer == SW_PREFER_COST || (f->limits.has_deadline && f->limits.count == 1);
    const bool free = !cheap && f->limits.count == 0 && f->own >= 0 && f->row[f->own].ends;
    assert_true(!free || f->chosen == f->own);
    bool any = false;
    for (int32_t i = 0; i < f->count; i++) {
        const struct sw_frontier_row *row = &f->row[i];
        bool keeps = row->ends;
        for (int32_t k = 0; k < f->limits.count && keeps; k++)
            keeps = (f->limits.limit[k].kind == SW_COST_TIME
                         ? row->cost.wall_s.value
                         : row->cost.accelerator_hours.value) <= f->limits.limit[k].most;
        assert_true(!row->ends || row->keeps == keeps);
        any = any || keeps;
        if (!keeps || free)
            continue;
        const struct sw_frontier_row *chosen = &f->row[f->chosen];
        assert_true(cheap ? chosen->hours <= row->hours : chosen->end_s <= row->end_s);
    }
    assert_int_equal(any, f->chosen >= 0);
    assert_true(!any || f->row[f->chosen].keeps);
    assert_int_equal(f->closest >= 0, !any && f->fitting > 0);
}

static int32_t rows, members;

static void check_run(const char *text)
{
    char nodes[64];
    struct sw_config *config = read_run(text, 0, false);
    const struct sw_run_config *run = sw_config_run(config);
    struct sw_node_list list;
    struct sw_frontier f;
    struct sw_error err = {0};
    if (run == NULL)
        fail_msg("%s:\n%s", sw_config_diagnostic(config, 0)->message, text);
    draw_nodes(run, nodes);
    if (sw_node_list_parse(nodes, &list, &err) != 0)
        fail_msg("%s", err.message);
    const struct sw_cost_limits limits = draw_limits(run);
    if (sw_frontier_find(run, &list, &limits, &f, &err) != 0)
        fail_msg("%s:\n%s", err.message, text);
    for (int32_t i = 0; i < f.count; i++) {
        const bool more = f.row[i].nodes > run->cluster_nodes;
        assert_true(i == 0 || f.row[i].nodes > f.row[i - 1].nodes);
        struct sw_config *alone = read_run(text, f.row[i].nodes, more);
        if (sw_config_run(alone) == NULL)
            fail_msg("%s:\n%s", sw_config_diagnostic(alone, 0)->message, text);
        check_row(&f.row[i], sw_config_run(alone), text);
        sw_config_free(alone);
    }
    check_members(&f);
    check_choice(run, &f);
    rows += f.count;
    members += f.undominated;
    sw_frontier_free(&f);
    sw_config_free(config);
}

/* The ends and hours of two stages are the sums of theirs, and both fit. */
static void stages_are_added(void **state)
{
    const struct sw_node_list list = {4, {1, 2, 5, 9}};
    int32_t fitting = 0;
    (void)state;
    for (int32_t i = 0; i < runs / 2; i++) {
        char text[2048];
        struct sw_error err = {0};
        struct sw_frontier both, one[2];
        write_run(text);
        struct sw_config *config = read_run(text, 0, false);
        struct sw_run_config stage[2] = {*sw_config_run(config), *sw_config_run(config)};
        stage[1].sequence_length *= 4;
        if (sw_frontier_find_stages(stage, 2, &list, NULL, &both, &err) != 0 ||
            sw_frontier_find(&stage[0], &list, NULL, &one[0], &err) != 0 ||
            sw_frontier_find(&stage[1], &list, NULL, &one[1], &err) != 0)
            fail_msg("%s:\n%s", err.message, text);
        for (int32_t k = 0; k < list.count; k++) {
            const struct sw_frontier_row *row = &both.row[k], *a = &one[0].row[k],
                                         *b = &one[1].row[k];
            assert_int_equal(row->fits, a->fits && b->fits);
            fitting += row->fits;
            if (!row->fits)
                continue;
            check_same(row->end_s, a->end_s + b->end_s, "the end", row->nodes, text);
            check_same(row->hours, a->hours + b->hours, "hours", row->nodes, text);
            check_same(row->step_seconds, a->step_seconds, "a step", row->nodes, text);
            if (both.whole_run)
                check_same(row->cost.wall_s.high, a->cost.wall_s.high + b->cost.wall_s.high,
                           "the high end", row->nodes, text);
        }
        check_members(&both);
        sw_frontier_free(&both);
        sw_frontier_free(&one[0]);
        sw_frontier_free(&one[1]);
        sw_config_free(config);
    }
    assert_true(fitting > 0);
}

static void rows_are_their_searches_alone(void **state)
{
    (void)state;
    for (int32_t i = 0; i < runs; i++) {
        char text[2048];
        write_run(text);
        check_run(text);
    }
    print_message(
        "%d random runs on %d numbers of nodes, each as its search alone; %d undominated\n",
        (int)runs, (int)rows, (int)members);
}

int main(int argc, char **argv)
{
    runs = argc > 1 ? atoi(argv[1]) : runs;
    seed = argc > 2 ? strtoull(argv[2], NULL, 10) : seed;
    const struct CMUnitTest tests[] = {cmocka_unit_test(drawn_rows_are_divided),
                                       cmocka_unit_test(stages_are_added),
                                       cmocka_unit_test(rows_are_their_searches_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
