/* Times of collectives against the closed formulas of their makers. n ranks, g of them in a node, k
 * nodes, S bytes of the whole array, B bytes per second of a link, all of which is usable here; a
 * and A seconds of latency inside and between nodes. */
#include "core/cost/links.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const double inner = 450e9, outer = 50e9, a = 3e-6, A = 8e-6, S = 64e9;

#define ALL                                                                                        \
    {                                                                                              \
        .count = 1, .point = { {1, 1} }                                                            \
    }

/* 64 accelerators, g of them in a node. */
static struct sw_cluster_config cluster_of(int32_t g)
{
    return (struct sw_cluster_config){.nodes = 64 / g,
                                      .accelerators_per_node = g,
                                      .link_count = 2,
                                      .link = {{.name = "inner",
                                                .spans = g,
                                                .bandwidth = inner,
                                                .latency_s = a,
                                                .efficiency = ALL,
                                                .rails = true},
                                               {.name = "outer",
                                                .spans = 64,
                                                .bandwidth = outer,
                                                .latency_s = A,
                                                .efficiency = ALL,
                                                .rails = true}}};
}

/* Sums and products of a handful of doubles. */
static void close_to(double value, double wanted)
{
    if (!(fabs(value - wanted) <= 1e-12 * fabs(wanted)))
        fail_msg("%.17g, not %.17g", value, wanted);
}

/* Bytes that a rank sends for an array of so many: nccl-tests' bus factor times the array. */
static double sent(enum sw_collective kind, double n, double array)
{
    return (kind == SW_ALL_REDUCE ? 2 : 1) * (n - 1) / n * array;
}

/* Of the group over fsdp; tp lies inside of it, dp outside. */
static double seconds(const struct sw_cluster_config *c, struct sw_mesh mesh,
                      enum sw_collective kind, double array)
{
    struct sw_span span;
    sw_links_span(c, &mesh, (struct sw_axes){1, {SW_FSDP}}, &span);
    return sw_links_seconds(c, &span, kind, sent(kind, mesh.size[SW_FSDP], array));
}

/* nccl-tests, PERFORMANCE.md: all_gather, reduce_scatter and all_to_all (n-1)/n S/B, all_reduce
 * twice that. Latency as in NCCL's tuner (src/graph/tuning.cc): n-1 steps, of a ring's all_reduce
 * 2 (n-1); of an all_to_all, which that does not know, log2 n inside a node. */
static void one_level(void **state)
{
    (void)state;
    const struct sw_cluster_config c = cluster_of(64);
    for (int32_t n = 2; n <= 64; n *= 2) {
        const struct sw_mesh mesh = sw_mesh_make(64 / n, n, 1, 1);
        const double part = (n - 1.0) / n * S / inner, steps = (n - 1) * a;
        close_to(seconds(&c, mesh, SW_ALL_GATHER, S), part + steps);
        close_to(seconds(&c, mesh, SW_REDUCE_SCATTER, S), part + steps);
        close_to(seconds(&c, mesh, SW_ALL_TO_ALL, S), part + log2(n) * a);
        close_to(seconds(&c, mesh, SW_ALL_REDUCE, S), 2 * (part + steps));
    }
}

/* nccl-tests, PERFORMANCE.md: every link of a ring carries (n-1)/n S, twice that in an all_reduce,
 * those of a node's g ports together as much as one inside; the slower one counts, since pieces of
 * one pass while pieces of the other do. NCCL (src/graph/tuning.cc): a flat ring of n-1 steps, k-1
 * of them between nodes, for all_gather and reduce_scatter; a tree for all_reduce, 2 ((g-1) a +
 * log2(k) A). Of two nodes the two trees send the array once over a node's ports: S / g each. */
static void two_levels(void **state)
{
    (void)state;
    for (int32_t g = 4; g <= 16; g *= 2)
        for (int32_t k = 2; k <= 64 / g; k *= 2) {
            const struct sw_cluster_config c = cluster_of(g);
            const struct sw_mesh mesh = sw_mesh_make(64 / (g * k), g * k, 1, 1);
            const double n = g * k, part = (n - 1) / n * S;
            const double each = fmax(part / inner, part / g / outer);
            const double ring = (n - k) * a + (k - 1) * A;
            const double tree = k == 2 ? S / g / outer : 2 * part / g / outer;
            close_to(seconds(&c, mesh, SW_ALL_REDUCE, S),
                     fmax(2 * part / inner, tree) + 2 * ((g - 1) * a + log2(k) * A));
            close_to(seconds(&c, mesh, SW_ALL_GATHER, S), each + ring);
            close_to(seconds(&c, mesh, SW_REDUCE_SCATTER, S), each + ring);
        }
}

/* One rank of a group in each node: the ring, or the tree, between nodes alone. */
static void between_nodes(void **state)
{
    (void)state;
    const struct sw_cluster_config c = cluster_of(8);
    for (int32_t k = 2; k <= 8; k *= 2) {
        const struct sw_mesh mesh = sw_mesh_make(8 / k, k, 8, 1);
        const double part = (k - 1.0) / k * S / outer;
        close_to(seconds(&c, mesh, SW_ALL_GATHER, S), part + (k - 1) * A);
        close_to(seconds(&c, mesh, SW_ALL_REDUCE, S), 2 * part + 2 * log2(k) * A);
    }
}

/* How to Scale Your Model, all_gather over a fat tree: S max_i 1 / (max(Y, S_i-1) W_i), S_i-1
 * accelerators in a domain, Y of tp inside the group, here with a ring's (n - 1) / n of it: all of
 * a node's groups share its egress, so that tp inside a node leaves FSDP's time between nodes as it
 * was. Only from where it leaves the node is there less to gather per node. */
static void shared_egress(void **state)
{
    (void)state;
    struct sw_cluster_config c = cluster_of(8);
    c.link[0].latency_s = c.link[1].latency_s = 0;
    for (int32_t tp = 1; tp <= 32; tp *= 2) {
        const int32_t fsdp = 64 / tp;
        const double part = (fsdp - 1.0) / fsdp * S;
        const double between = part / (fmax(tp, 8) * outer);
        const double within = tp < 8 ? part / (tp * inner) : 0;
        close_to(seconds(&c, sw_mesh_make(1, fsdp, tp, 1), SW_ALL_GATHER, S / tp),
                 fmax(between, within));
    }
    const double once = seconds(&c, sw_mesh_make(1, 64, 1, 1), SW_ALL_GATHER, S);
    const double eighth = seconds(&c, sw_mesh_make(1, 8, 8, 1), SW_ALL_GATHER, S / 8);
    close_to(eighth * 8 / 7, once * 64 / 63); /* but for what a rank has already */
    assert_true(seconds(&c, sw_mesh_make(1, 4, 16, 1), SW_ALL_GATHER, S / 16) < once / 2);
}

/* all_to_all: what is for other nodes leaves by a rank's own port, (n-g)/n S; nothing of it was
 * gathered or summed before. */
static void exchange(void **state)
{
    (void)state;
    const struct sw_cluster_config c = cluster_of(8);
    for (int32_t k = 2; k <= 8; k *= 2) {
        const double n = 8 * k;
        close_to(seconds(&c, sw_mesh_make(8 / k, 8 * k, 1, 1), SW_ALL_TO_ALL, S),
                 (n - 8) / n * S / outer + 3 * a + (k - 1) * A);
    }
}

/* Uplinks that are sold twice, and members that all talk at once to all (PCIe, TPU slices through a
 * switch): one step of latency whatever n. */
static void other_links(void **state)
{
    (void)state;
    struct sw_cluster_config c = cluster_of(8);
    c.link[1].oversubscription = 2;
    close_to(seconds(&c, sw_mesh_make(1, 8, 8, 1), SW_ALL_GATHER, S),
             7.0 / 8 * S / (outer / 2) + 7 * A);
    c.link[0].direct = true;
    for (int32_t n = 2; n <= 8; n *= 2) {
        const struct sw_mesh mesh = sw_mesh_make(64 / n, n, 1, 1);
        const double part = (n - 1.0) / n * S / inner;
        close_to(seconds(&c, mesh, SW_ALL_GATHER, S), part + a);
        close_to(seconds(&c, mesh, SW_ALL_REDUCE, S), 2 * part + 2 * a);
    }
}

/* The runner's own between nodes: a block goes once to each, to one of the group's members there;
 * all_to_all sends each its own; members that lie unevenly get each block themselves. */
static void by_node(void **state)
{
    (void)state;
    struct sw_cluster_config c = cluster_of(8);
    static const enum sw_collective kinds[] = {SW_ALL_GATHER, SW_REDUCE_SCATTER};
    c.link[0].direct = c.link[1].direct = true;
    for (int32_t m = 1; m <= 8; m *= 2) { /* of the group on each of eight nodes */
        const struct sw_mesh mesh = sw_mesh_make(1, 8 * m, 8 / m, 1);
        const double n = 8 * m, waits = m > 1 ? a + A : A;
        for (size_t k = 0; k < 2; k++)
            close_to(seconds(&c, mesh, kinds[k], S), (8 - 1) / n * S / outer + waits);
        close_to(seconds(&c, mesh, SW_ALL_REDUCE, S), 2 * (8 - 1) / n * S / outer + 2 * waits);
        close_to(seconds(&c, mesh, SW_ALL_TO_ALL, S), (n - m) / n * S / outer + waits);
    }
    /* where the network is as fast as a node, that is what a block of each node takes inside */
    c.link[1].bandwidth = 1e3 * inner;
    close_to(seconds(&c, sw_mesh_make(1, 64, 1, 1), SW_ALL_GATHER, S),
             8 * 7 / 64.0 * S / inner + a + A);
    c.link[1].bandwidth = outer;
    const struct sw_mesh uneven = sw_mesh_make(8, 6, 1, 1); /* 6 of 8, then 2 and 4, ... */
    close_to(seconds(&c, uneven, SW_ALL_GATHER, S), (6 - 2) / 6.0 * S / outer + a + A);
}

/* Software that sums inside a node without rings does so there, and sends as much; all else and all
 * that leaves the node is as it was. */
static void direct_sums(void **state)
{
    (void)state;
    const struct sw_cluster_config rings = cluster_of(8);
    struct sw_cluster_config c = rings;
    c.profile.reduces_directly = true;
    const struct sw_mesh inside = sw_mesh_make(8, 8, 1, 1), outside = sw_mesh_make(1, 64, 1, 1);
    close_to(seconds(&c, inside, SW_ALL_REDUCE, S), 2 * 7.0 / 8 * S / inner + 2 * a);
    close_to(seconds(&c, inside, SW_ALL_GATHER, S), seconds(&rings, inside, SW_ALL_GATHER, S));
    close_to(seconds(&c, outside, SW_ALL_REDUCE, S), seconds(&rings, outside, SW_ALL_REDUCE, S));
}

/* A hop of a ring: 4 c d bytes of bf16 keys and values over the slowest link that it crosses; the
 * latency of that link, not of those below it (Liu et al. 2023, section 3). Whoever crosses has its
 * own rail. */
static void hops(void **state)
{
    (void)state;
    const struct sw_cluster_config c = cluster_of(8);
    const double block = 4.0 * 4096 * 1024;
    for (int32_t sp = 2; sp <= 64; sp *= 2) {
        const struct sw_mesh mesh = sw_mesh_make(64 / sp, 1, 1, sp);
        struct sw_span span;
        sw_links_span(&c, &mesh, (struct sw_axes){1, {SW_SP}}, &span);
        close_to(sw_links_hop_seconds(&c, &span, block),
                 sp <= 8 ? block / inner + a : block / outer + A);
    }
}

/* A ring that leaves its nodes is one of rings where each holds as many consecutive members, more
 * than one. Between them every member sends at once: on its own rail, or with its share of what the
 * node has, the same. */
static void inner_rings(void **state)
{
    (void)state;
    const struct sw_axes sp = {1, {SW_SP}}, both = {2, {SW_FSDP, SW_SP}};
    const struct {
        struct sw_mesh mesh;
        int32_t inner;
    } cases[] = {{sw_mesh_make(1, 1, 1, 64), 8}, {sw_mesh_make(2, 2, 1, 16), 8},
                 {sw_mesh_make(8, 1, 1, 8), 0},  {sw_mesh_make(1, 1, 2, 32), 4},
                 {sw_mesh_make(1, 2, 8, 4), 0},  {sw_mesh_make(1, 1, 1, 12), 0},
                 {sw_mesh_make(1, 1, 3, 16), 0}, {sw_mesh_make(1, 1, 1, 1), 0}};
    struct sw_cluster_config c = cluster_of(8);
    const double block = 4.0 * 4096 * 1024;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(sw_links_inner_ring(&c, &cases[i].mesh, sp), cases[i].inner);
    assert_int_equal(sw_links_inner_ring(&c, &cases[0].mesh, both), 8); /* fsdp splits nothing */
    assert_int_equal(sw_links_inner_ring(&c, &cases[1].mesh, both), 0);
    for (int rails = 0; rails < 2; rails++) {
        struct sw_span span;
        c.link[1].rails = rails == 1;
        sw_links_span(&c, &cases[0].mesh, sp, &span);
        close_to(sw_links_across_seconds(&c, &span, 8, block), block / outer + A);
    }
    /* ranks of sp in every second place: so many of a node, each with the share of two */
    struct sw_span span;
    c.link[1].rails = false;
    sw_links_span(&c, &cases[3].mesh, sp, &span);
    close_to(sw_links_across_seconds(&c, &span, 4, block), block / outer + A);
}

/* Whatever moves is launched once: as the link that it crosses says, or one inside that. */
static void launches(void **state)
{
    (void)state;
    const double launch = 4e-6, longer = 7e-6, bytes = 1e6;
    const enum sw_collective kinds[] = {SW_ALL_GATHER, SW_REDUCE_SCATTER, SW_ALL_REDUCE,
                                        SW_ALL_TO_ALL};
    const struct sw_cluster_config without = cluster_of(8);
    struct sw_cluster_config inside = without, both = without;
    inside.link[0].launch_s = both.link[0].launch_s = launch;
    both.link[1].launch_s = longer;
    for (int32_t tp = 1; tp <= 32; tp *= 2)
        for (int32_t fsdp = 2; fsdp * tp <= 64; fsdp *= 2) {
            const struct sw_mesh mesh = sw_mesh_make(64 / fsdp / tp, fsdp, tp, 1);
            const double more = fsdp * tp > 8 ? longer : launch;
            struct sw_span span;
            sw_links_span(&without, &mesh, (struct sw_axes){1, {SW_FSDP}}, &span);
            for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
                const double bare = sw_links_seconds(&without, &span, kinds[i], bytes);
                close_to(sw_links_seconds(&inside, &span, kinds[i], bytes), bare + launch);
                close_to(sw_links_seconds(&both, &span, kinds[i], bytes), bare + more);
            }
            close_to(sw_links_hop_seconds(&both, &span, bytes),
                     sw_links_hop_seconds(&without, &span, bytes) + more);
            close_to(sw_links_exchange_seconds(&both, &span, bytes, 5),
                     sw_links_exchange_seconds(&without, &span, bytes, 5) + more);
        }
    struct sw_span alone;
    const struct sw_mesh mesh = sw_mesh_make(64, 1, 1, 1);
    sw_links_span(&both, &mesh, (struct sw_axes){1, {SW_FSDP}}, &alone);
    close_to(sw_links_seconds(&both, &alone, SW_ALL_GATHER, bytes), 0);
}

/* Groups that divide no node, counted rank by rank: per level, the worst of all groups in all
 * domains. Groups over one axis, or axes that are neighbours, exactly; others are bounded, from
 * above. */
static void check_span(const struct sw_cluster_config *c, const struct sw_mesh *mesh,
                       struct sw_axes axes)
{
    const int32_t ranks = sw_mesh_rank_count(mesh), size = sw_axes_size(mesh, axes);
    struct sw_span span;
    sw_links_span(c, mesh, axes, &span);
    assert_int_equal(span.ranks, size);
    for (int32_t l = 0; l < c->link_count; l++) {
        const int32_t domain = c->link[l].spans, part = l > 0 ? c->link[l - 1].spans : 1;
        int32_t inside = 0, parts = 0, members = size;
        for (int32_t r = 0; r < ranks; r++) {
            int32_t coordinates[SW_AXIS_COUNT], group[SW_AXIS_COUNT];
            int32_t in_domain = 0, in_part = 0, last = -1, count = 0;
            sw_mesh_coordinate(mesh, r, group);
            for (int32_t other = 0; other < ranks; other++) {
                bool same = true;
                sw_mesh_coordinate(mesh, other, coordinates);
                for (int32_t a = 0; a < SW_AXIS_COUNT; a++)
                    same = same && (sw_axes_set(axes) >> a & 1u || coordinates[a] == group[a]);
                if (!same || other / domain != r / domain)
                    continue;
                in_domain++;
                in_part += other / part == r / part;
                count += other / part != last;
                last = other / part;
            }
            inside = in_domain > inside ? in_domain : inside;
            parts = count > parts ? count : parts;
            members = in_part < members ? in_part : members;
        }
        const bool one = axes.count == 1;
        if (one ? span.inside[l] != inside : span.inside[l] < inside)
            fail_msg("inside %d, not %d", span.inside[l], inside);
        if (one ? span.parts[l] != parts : span.parts[l] < parts)
            fail_msg("parts %d, not %d", span.parts[l], parts);
        if (one ? span.members[l] != members : span.members[l] > members)
            fail_msg("members %d, not %d", span.members[l], members);
    }
}

static void worst_of_all_groups(void **state)
{
    (void)state;
    static const struct {
        int32_t spans[3], mesh[4];
    } cases[] = {
        {{8, 16, 48}, {8, 6, 1, 1}},  {{8, 16, 48}, {16, 3, 1, 1}}, {{8, 16, 48}, {1, 12, 4, 1}},
        {{8, 16, 48}, {2, 4, 3, 2}},  {{8, 16, 48}, {1, 4, 12, 1}}, {{8, 24, 72}, {4, 18, 1, 1}},
        {{8, 16, 64}, {4, 4, 2, 2}},  {{4, 16, 64}, {1, 16, 1, 4}}, {{8, 16, 48}, {3, 16, 1, 1}},
        {{8, 16, 24}, {2, 12, 1, 1}}, {{8, 16, 40}, {2, 20, 1, 1}}, {{8, 16, 14}, {1, 14, 1, 1}},
        {{8, 16, 48}, {1, 3, 1, 16}}, {{8, 32, 96}, {3, 2, 4, 4}},  {{8, 16, 48}, {4, 2, 6, 1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int32_t *m = cases[i].mesh;
        struct sw_cluster_config c = cluster_of(8);
        c.link_count = 3;
        for (int32_t l = 0; l < 3; l++)
            c.link[l].spans = cases[i].spans[l];
        struct sw_mesh mesh = sw_mesh_make(m[0], m[1], m[2], m[3]);
        for (int turn = 0; turn < 4; turn++) { /* and other axis orders */
            const uint8_t first = mesh.order[0];
            memmove(mesh.order, mesh.order + 1, SW_AXIS_COUNT - 1);
            mesh.order[SW_AXIS_COUNT - 1] = first;
            for (unsigned set = 1; set < 1u << SW_AXIS_COUNT; set++) {
                struct sw_axes axes = {0};
                for (uint8_t a = 0; a < SW_AXIS_COUNT; a++)
                    if (set >> a & 1u && m[a] > 1)
                        axes.axis[axes.count++] = a;
                if (axes.count > 0)
                    check_span(&c, &mesh, axes);
            }
        }
    }
}

/* Of groups of 6 over nodes of 8 the second lies as 2 and 4: the ring's 5/6 leave the two over two
 * ports, in an all_reduce the array, and it has at least 3 domains of two. The group of rank 0
 * alone never leaves its node. */
static void groups_of_six(void **state)
{
    (void)state;
    struct sw_cluster_config c = cluster_of(8);
    const struct sw_mesh mesh = sw_mesh_make(8, 6, 1, 1);
    close_to(seconds(&c, mesh, SW_ALL_GATHER, S), S * 5 / 6 / 2 / outer + 3 * a + 2 * A);
    close_to(seconds(&c, mesh, SW_ALL_REDUCE, S), S / 2 / outer + 2 * (5 * a + A));
    close_to(seconds(&c, mesh, SW_ALL_TO_ALL, S), S * 4 / 6 / outer + 3 * a + A);
    struct sw_span span;
    sw_links_span(&c, &mesh, (struct sw_axes){1, {SW_FSDP}}, &span);
    assert_true(sw_links_leave_fastest(&c, &span));
    /* tp innermost or outermost */
    sw_links_span(&c,
                  &(struct sw_mesh){.size = {1, 1, 8, 8}, .order = {SW_DP, SW_FSDP, SW_SP, SW_TP}},
                  (struct sw_axes){1, {SW_TP}}, &span);
    assert_false(sw_links_leave_fastest(&c, &span));
    sw_links_span(&c,
                  &(struct sw_mesh){.size = {1, 1, 8, 8}, .order = {SW_TP, SW_DP, SW_FSDP, SW_SP}},
                  (struct sw_axes){1, {SW_TP}}, &span);
    assert_true(sw_links_leave_fastest(&c, &span));
    c.link_count = 1; /* one network for all hosts, as TPUs have */
    c.link[0].spans = 64;
    sw_links_span(&c, &mesh, (struct sw_axes){1, {SW_FSDP}}, &span);
    assert_false(sw_links_leave_fastest(&c, &span));
}

/* A collective that was measured apart: over so many ranks, between two numbers of them (in the
 * logarithm), over more, and over fewer, where the link's own share counts, as for all others. */
static void measured_apart(void **state)
{
    (void)state;
    static const struct sw_collective_curves own = {
        .count = 3,
        .of = {{.kind = SW_ALL_REDUCE, .ranks = 8, .curve = {1, {{1, 0.9}}}},
               {.kind = SW_ALL_TO_ALL, .ranks = 4, .curve = {2, {{1e6, 0.1}, {1e8, 0.3}}}},
               {.kind = SW_ALL_TO_ALL, .ranks = 16, .curve = {1, {{1, 0.4}}}}}};
    static const struct {
        enum sw_collective kind;
        int32_t ranks;
        double bytes, share;
    } cases[] = {{SW_ALL_TO_ALL, 4, 1e7, 0.2},    {SW_ALL_TO_ALL, 8, 1e7, 0.3},
                 {SW_ALL_TO_ALL, 16, 1e7, 0.4},   {SW_ALL_TO_ALL, 32, 1e7, 0.4},
                 {SW_ALL_TO_ALL, 2, 1e7, 0.5},    {SW_ALL_REDUCE, 8, 1e7, 0.9},
                 {SW_ALL_REDUCE, 4, 1e7, 0.5},    {SW_ALL_GATHER, 8, 1e7, 0.5},
                 {SW_REDUCE_SCATTER, 4, 1e7, 0.5}};
    struct sw_cluster_config c = cluster_of(32);
    c.link[0].efficiency = (struct sw_curve){1, {{1, 0.5}}};
    c.link[0].collectives = &own;
    c.link[0].latency_s = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int32_t n = cases[i].ranks;
        const struct sw_mesh mesh = sw_mesh_make(1, n, 1, 1);
        struct sw_span span;
        sw_links_span(&c, &mesh, (struct sw_axes){1, {SW_FSDP}}, &span);
        close_to(sw_links_seconds(&c, &span, cases[i].kind, cases[i].bytes),
                 cases[i].bytes / (inner * cases[i].share));
    }
    c.profile.reduces_directly = true; /* its own sums, which are no collective of the link's */
    close_to(seconds(&c, sw_mesh_make(1, 8, 1, 1), SW_ALL_REDUCE, 8e6), 14e6 / (inner * 0.5));
    c.link[0].direct = true; /* of the runner on CPUs, as it was measured */
    close_to(seconds(&c, sw_mesh_make(1, 8, 1, 1), SW_ALL_REDUCE, 8e6), 14e6 / (inner * 0.9));
    close_to(seconds(&c, sw_mesh_make(1, 16, 1, 1), SW_ALL_TO_ALL, 4e7), 3.75e7 / (inner * 0.4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_level),
        cmocka_unit_test(two_levels),
        cmocka_unit_test(between_nodes),
        cmocka_unit_test(shared_egress),
        cmocka_unit_test(exchange),
        cmocka_unit_test(other_links),
        cmocka_unit_test(by_node),
        cmocka_unit_test(direct_sums),
        cmocka_unit_test(hops),
        cmocka_unit_test(inner_rings),
        cmocka_unit_test(launches),
        cmocka_unit_test(measured_apart),
        cmocka_unit_test(worst_of_all_groups),
        cmocka_unit_test(groups_of_six),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
