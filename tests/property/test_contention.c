/* Links that two axes share, over drawn meshes, orders of axes, clusters and programs: no price
 * lets a link carry more than it can, whatever is under way at once; where messages are all that
 * counts a step takes the sum of them, of whichever axes; each is waited for once; and a slower
 * link makes no step shorter.
 *
 * What crosses a link is counted here rank by rank and group by group, from coordinates alone.
 *
 *     test_contention [DRAWS [SEED]] */
#include "core/cost/timeline.h"
#include "tests/unit/cost_support.h"

#include <stdlib.h>

static int draws = 60;
static uint64_t seed = 20261130;

static uint32_t draw(uint32_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % below;
}

#define DRAW(array) ((array)[draw((uint32_t)(sizeof(array) / sizeof(array)[0]))])

static const char *const shardings[] = {"",
                                        "",
                                        "zero: 1\n",
                                        "zero: 2\n",
                                        "reshard_after_forward: false\n",
                                        "rules: {embed: [fsdp], moment_embed: [fsdp, sp, dp]}\n"};

static struct sw_mesh draw_mesh(int32_t ranks)
{
    struct sw_mesh mesh = sw_mesh_make(1, 1, 1, 1);
    for (int32_t i = SW_AXIS_COUNT - 1; i > 0; i--) {
        const int32_t k = (int32_t)draw((uint32_t)i + 1);
        const uint8_t other = mesh.order[k];
        mesh.order[k] = mesh.order[i];
        mesh.order[i] = other;
    }
    for (; ranks > 1; ranks /= 2)
        mesh.size[draw(SW_AXIS_COUNT)] *= 2;
    return mesh;
}

struct drawn {
    char text[256];
    struct sw_config *config;
    const struct sw_run_config *run;
    struct sw_decision decision;
    struct sw_program_set *programs;
};

static void drawn_free(struct drawn *d)
{
    sw_program_set_free(d->programs);
    sw_config_free(d->config);
}

/* A run of eight sequences on the mesh. false: the model does not admit it. */
static bool compile(const struct sw_test_run *t, const struct sw_mesh *mesh, struct drawn *d)
{
    static const enum sw_attention_strategy strategies[] = {
        SW_ATTENTION_RING, SW_ATTENTION_RING, SW_ATTENTION_GATHER, SW_ATTENTION_ULYSSES};
    char size[64], order[64];
    struct sw_error err = {0};
    struct sw_program_options options;
    const int64_t micro = 1 + (int64_t)draw(2);
    *d = (struct drawn){.config = sw_test_read_run(t)};
    d->run = sw_config_run(d->config);
    assert_non_null(d->run);
    d->decision = (struct sw_decision){.mesh = *mesh,
                                       .train.micro_batch_size = micro,
                                       .train.recompute =
                                           draw(2) == 0 ? sw_recompute_full() : sw_recompute_none(),
                                       .train.strategy = DRAW(strategies),
                                       .train.layout = SW_ZIGZAG,
                                       .train.residual_seq_tp = draw(2) == 0};
    snprintf(d->text, sizeof d->text, "%d x %d, mesh %s, order %s, %s and %s, micro-batch %d, %s",
             t->nodes, t->per_node, sw_mesh_format(mesh, size, sizeof size),
             sw_mesh_format_order(mesh, order, sizeof order), t->inner, t->outer, (int)micro,
             t->more);
    if (sw_plan_program_options(d->run, &d->decision, &options, &err) != 0 ||
        sw_program_admits(&options, NULL, NULL) != SW_FITS ||
        sw_program_set_compile(&options, &d->programs, &err) != 0) {
        drawn_free(d);
        return false;
    }
    return true;
}

static struct sw_test_run draw_cluster(void)
{
    static const int nodes[] = {2, 4, 8}, per_node[] = {1, 2, 4, 8};
    static const char *const inner[] = {"450 GB/s", "90 GB/s", "50 GB/s"};
    static const char *const outer[] = {"50 GB/s", "5 GB/s", "500 MB/s"};
    struct sw_test_run t = sw_test_cost_run(3, 16, DRAW(inner), DRAW(outer));
    t.nodes = DRAW(nodes);
    t.per_node = DRAW(per_node);
    t.kv_heads = 8;
    t.more = DRAW(shardings);
    return t;
}

/* ---- What leaves a node ---- */

/* Whether two ranks are in one group over the axes. */
static bool is_group(const struct sw_mesh *mesh, sw_axis_set axes, int32_t a, int32_t b)
{
    int32_t at[SW_AXIS_COUNT], its[SW_AXIS_COUNT];
    sw_mesh_coordinate(mesh, a, at);
    sw_mesh_coordinate(mesh, b, its);
    for (int32_t i = 0; i < SW_AXIS_COUNT; i++)
        if (!(axes >> i & 1u) && at[i] != its[i])
            return false;
    return true;
}

/* Bytes that leave a node, the most of any, where each rank sends so many in its group: of a ring
 * over the group each message to a rank elsewhere; of an all_reduce, however it is made, the array
 * of each group that has ranks on both sides, once. */
static double bytes_out(const struct sw_mesh *mesh, sw_axis_set axes, enum sw_op_kind kind,
                        double bytes, int32_t per_node)
{
    const int32_t ranks = sw_mesh_rank_count(mesh);
    double most = 0;
    for (int32_t node = 0; node < ranks / per_node; node++) {
        double out = 0;
        for (int32_t r = node * per_node; r < (node + 1) * per_node; r++) {
            int32_t next = -1, first = -1, members = 0, inside = 0;
            for (int32_t k = 0; k < ranks; k++) {
                if (!is_group(mesh, axes, r, k))
                    continue;
                members++;
                inside += k / per_node == node;
                first = first < 0 ? k : first;
                next = next < 0 && k > r ? k : next;
            }
            next = next < 0 ? first : next;
            if (members == inside)
                continue;
            if (kind == SW_OP_ALL_REDUCE)
                out += bytes * members / (2 * (members - 1)) / inside;
            else if (kind == SW_OP_ALL_TO_ALL)
                out += bytes * (members - inside) / (members - 1);
            else
                out += next / per_node != node ? bytes : 0;
        }
        most = out > most ? out : most;
    }
    return most;
}

/* Of each op of a program: the least seconds that what it sends keeps the links of a node busy, at
 * their full rate. */
static double *link_seconds(const struct drawn *d, const struct sw_program *p)
{
    double *seconds = calloc((size_t)p->op_count + 1, sizeof *seconds);
    const struct sw_cluster_config *cluster = &d->run->cluster;
    const int32_t per_node = cluster->accelerators_per_node;
    assert_non_null(seconds);
    for (struct sw_traffic_walk w = sw_traffic_begin(p); sw_traffic_next(&w);)
        if (!sw_op_is_exchange(w.op->kind))
            seconds[w.op - p->ops] =
                bytes_out(&p->mesh, sw_axes_set(w.axes), w.op->kind, w.sent.bytes, per_node) /
                (per_node * cluster->link[1].bandwidth);
    return seconds;
}

/* Every window from the begin of one event to the end of another holds what is sent by those that
 * lie in it. Returns how many windows more than one axis fills. */
static int32_t check_windows(const struct drawn *d, const struct sw_program *p,
                             const struct sw_timeline *t, const double *links)
{
    int32_t shared = 0;
    for (int32_t i = 0; i < t->count; i++) {
        /* to whom an exchange sends is not told: nothing else is under way then */
        for (int32_t k = 0; sw_op_is_exchange(p->ops[t->event[i].op].kind) && k < i; k++)
            assert_true(links[t->event[k].op] == 0 || t->event[k].end <= t->event[i].start);
        if (links[t->event[i].op] == 0)
            continue;
        double sent = 0, end = 0;
        sw_axis_set axes = 0;
        /* in the order in which they were issued; later ones begin no earlier */
        for (int32_t k = i; k < t->count && k < i + 200; k++) {
            const struct sw_cost_event *e = &t->event[k];
            if (links[e->op] == 0 || e->start < t->event[i].start)
                continue;
            sent += links[e->op];
            end = e->end > end ? e->end : end;
            axes |= sw_axes_set(p->ops[e->op].axes);
            if (sent > (end - t->event[i].start) * (1 + 1e-9))
                fail_msg("%s: %.9g s of messages leave a node in %.9g s, from op %d to %d", d->text,
                         sent, end - t->event[i].start, (int)t->event[i].op, (int)e->op);
            shared += (axes & (axes - 1)) != 0;
        }
    }
    return shared;
}

static void no_link_carries_more_than_it_can(void **state)
{
    (void)state;
    int32_t tried = 0, shared = 0;
    for (int32_t i = 0; i < draws; i++) {
        const struct sw_test_run t = draw_cluster();
        const struct sw_mesh mesh = draw_mesh(t.nodes * t.per_node);
        struct sw_error err = {0};
        struct sw_timeline timeline;
        struct drawn d;
        if (!compile(&t, &mesh, &d))
            continue;
        for (int32_t k = 0; k < SW_PROGRAM_KINDS; k++) {
            const struct sw_program *p = d.programs->program[k];
            if (p == NULL)
                continue;
            if (sw_timeline_make(p, &d.run->cluster, NULL, &timeline, &err) != 0)
                fail_msg("%s: %s", d.text, err.message);
            double *links = link_seconds(&d, p);
            shared += check_windows(&d, p, &timeline, links);
            free(links);
            sw_timeline_free(&timeline);
        }
        tried++;
        drawn_free(&d);
    }
    print_message("%d of %d draws: %d stretches of messages of several axes\n", (int)tried, draws,
                  (int)shared);
    assert_true(tried > draws / 4 && shared > 0);
}

/* ---- What a step waits for ---- */

static struct sw_cost price(const struct drawn *d, const struct sw_cluster_config *cluster)
{
    struct sw_cost cost;
    struct sw_error err = {0};
    if (sw_cost_price(d->programs->program[SW_PROGRAM_TRAIN], cluster, NULL, &cost, &err) != 0)
        fail_msg("%s: %s", d->text, err.message);
    return cost;
}

/* Over one port a rank, so slow that computing counts for nothing: two axes take what each takes,
 * one after the other, for no byte is sent twice and none for nothing. */
static void messages_of_two_axes_take_their_sum(void **state)
{
    (void)state;
    int32_t tried = 0, several = 0;
    for (int32_t i = 0; i < draws; i++) {
        static const int nodes[] = {2, 4, 8};
        struct sw_test_run t = sw_test_cost_run(3, 16, "90 GB/s", "1 MB/s");
        t.nodes = DRAW(nodes);
        t.per_node = 1;
        t.kv_heads = 8;
        t.latency = "0";
        t.more = DRAW(shardings);
        const struct sw_mesh mesh = draw_mesh(t.nodes);
        struct drawn d;
        if (!compile(&t, &mesh, &d))
            continue;
        const struct sw_cost cost = price(&d, &d.run->cluster);
        double bytes = 0;
        int32_t axes = 0;
        for (int32_t a = 0; a < SW_AXIS_COUNT; a++) {
            bytes += cost.communication_bytes[a];
            axes += cost.communication_bytes[a] > 0;
        }
        /* an all_reduce of two is two messages of half; of more, trees send no less than a ring */
        const double sending = bytes / (sw_links_assumed_share(1) * 1e6);
        if (cost.step_seconds < sending * (1 - sw_test_tolerance) ||
            cost.step_seconds > sending * 1.05)
            fail_msg("%s: %.9g s, and messages take %.9g s", d.text, cost.step_seconds, sending);
        tried++;
        several += axes > 1;
        drawn_free(&d);
    }
    print_message("%d of %d draws, %d with several axes\n", (int)tried, draws, (int)several);
    assert_true(several > draws / 8);
}

/* Slower links, one at a time: no step is shorter, and none is longer by more than what its own
 * messages over that link take longer, with the compute that they slow. What stays inside nodes
 * costs no more because of what leaves them. */
static void each_is_waited_for_once(void **state)
{
    (void)state;
    int32_t tried = 0;
    for (int32_t i = 0; i < draws; i++) {
        const struct sw_test_run t = draw_cluster();
        const struct sw_mesh mesh = draw_mesh(t.nodes * t.per_node);
        struct drawn d;
        if (!compile(&t, &mesh, &d))
            continue;
        const struct sw_cost before = price(&d, &d.run->cluster);
        for (int32_t l = 0; l < 2; l++) {
            struct sw_cluster_config slower = d.run->cluster;
            slower.link[l].bandwidth /= 2;
            const struct sw_cost after = price(&d, &slower);
            const double more = after.parts.gathers + after.parts.reduces - before.parts.gathers -
                                before.parts.reduces;
            const bool rings = mesh.size[SW_SP] > 1; /* hops are not among these */
            const double longer = after.step_seconds - before.step_seconds;
            const double least = sw_test_tolerance * before.step_seconds;
            if (longer < -least || (!rings && longer > more * 1.25 + least))
                fail_msg(
                    "%s: link %d at half the rate makes a step %.9g s longer, and its messages "
                    "%.9g s",
                    d.text, (int)l, longer, more);
        }
        tried++;
        drawn_free(&d);
    }
    print_message("%d of %d draws\n", (int)tried, draws);
    assert_true(tried > draws / 4);
}

int main(int argc, char **argv)
{
    draws = argc > 1 ? atoi(argv[1]) : draws;
    seed = argc > 2 ? strtoull(argv[2], NULL, 10) : seed;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_link_carries_more_than_it_can),
        cmocka_unit_test(messages_of_two_axes_take_their_sum),
        cmocka_unit_test(each_is_waited_for_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
