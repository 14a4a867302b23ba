/* Segments of nodes that a job asks its scheduler for (sw_links_segment), against the conditions
 * written out, and how groups lie on the links then, against a count of every rank.
 *
 *     test_segments [DRAWS [SEED]] */
#include "core/cost/links.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint64_t state = 1;
static int draws = 400;

static int32_t draw(int32_t least, int32_t most)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return least + (int32_t)((state >> 33) % (uint64_t)(most - least + 1));
}

/* Blocks of some nodes, whose accelerators share a link; perhaps one inside a node, and one that
 * joins two blocks. */
static struct sw_cluster_config draw_cluster(void)
{
    static const int32_t per_nodes[] = {1, 2, 4, 8}, counts[] = {4, 8, 12, 16, 32, 36, 64, 72};
    struct sw_cluster_config c = {.accelerators_per_node = per_nodes[draw(0, 3)],
                                  .nodes = counts[draw(0, 7)]};
    const int32_t block = draw(1, 20), all = c.nodes * c.accelerators_per_node;
    int32_t spans[4], count = 0;
    if (c.accelerators_per_node > 1 && draw(0, 1))
        spans[count++] = c.accelerators_per_node;
    if (block > 1 && block * c.accelerators_per_node < all)
        spans[count++] = block * c.accelerators_per_node;
    if (block > 1 && 2 * block * c.accelerators_per_node < all && draw(0, 1))
        spans[count++] = 2 * block * c.accelerators_per_node;
    spans[count++] = all;
    c.link_count = count;
    for (int32_t l = 0; l < count; l++)
        c.link[l] = (struct sw_link_config){.name = "l",
                                            .spans = spans[l],
                                            .bandwidth = 1e12 / (l + 1),
                                            .spans_all = l == count - 1};
    c.placement = (struct sw_placement_config){.group = block * c.accelerators_per_node,
                                               .segments = draw(0, 9) > 0};
    return c;
}

static struct sw_mesh draw_mesh(const struct sw_cluster_config *c)
{
    int32_t size[SW_AXIS_COUNT] = {1, 1, 1, 1}, left = c->nodes * c->accelerators_per_node;
    for (int32_t prime = 2; left > 1; prime++)
        for (; left % prime == 0; left /= prime)
            size[draw(0, SW_AXIS_COUNT - 1)] *= prime;
    struct sw_mesh mesh = sw_mesh_make(size[0], size[1], size[2], size[3]);
    for (int32_t i = SW_AXIS_COUNT - 1; i > 0; i--) {
        const int32_t k = draw(0, i);
        const uint8_t axis = mesh.order[i];
        mesh.order[i] = mesh.order[k];
        mesh.order[k] = axis;
    }
    return mesh;
}

/* Every product of inner axes, and every condition, one by one. */
static int32_t wanted_segment(const struct sw_cluster_config *c, const struct sw_mesh *mesh)
{
    int32_t best = 0;
    for (int32_t inner = 0; inner <= SW_AXIS_COUNT; inner++) {
        int64_t product = 1;
        for (int32_t i = 0; i < inner; i++)
            product *= mesh->size[mesh->order[SW_AXIS_COUNT - 1 - i]];
        if (product <= c->placement.group && product > best)
            best = (int32_t)product;
    }
    const int32_t nodes = best / c->accelerators_per_node;
    return c->placement.segments && nodes * c->accelerators_per_node == best && nodes > 1 &&
                   c->nodes % nodes == 0
               ? best
               : 0;
}

static void check_segment(const struct sw_cluster_config *c, const struct sw_mesh *mesh)
{
    struct sw_cluster_config asked = *c;
    const int32_t got = sw_links_segment(c, mesh), wanted = wanted_segment(c, mesh);
    if (got != wanted)
        fail_msg("a segment of %d ranks, not %d", (int)got, (int)wanted);
    asked.placement.asked = 2 * c->accelerators_per_node; /* by the settings, whatever the mesh */
    assert_int_equal(sw_links_segment(&asked, mesh), asked.placement.asked);
}

/* The most members of a group over the axes that one domain of so many neighbouring ranks has. */
static int32_t most_inside(const struct sw_mesh *mesh, struct sw_axes axes, int32_t domain)
{
    const int32_t ranks = sw_mesh_rank_count(mesh);
    int32_t most = 0;
    for (int32_t rank = 0; rank < ranks; rank++) {
        int32_t here = 0;
        for (int32_t i = 0; i < sw_axes_size(mesh, axes); i++)
            here += sw_axes_member(mesh, axes, rank, i) / domain == rank / domain;
        most = here > most ? here : most;
    }
    return most;
}

/* Segments hold whole blocks of inner ranks: each group lies in them alike, and exactly as counted.
 */
static void check_spans(const struct sw_cluster_config *c, struct sw_mesh mesh)
{
    struct sw_cluster_config settled = *c;
    mesh.domain = sw_links_segment(c, &mesh);
    if (mesh.domain == 0)
        return;
    sw_links_settle(&settled, &mesh);
    for (unsigned set = 1; set < 1u << SW_AXIS_COUNT; set++) {
        const struct sw_axes axes = sw_axes_effective(&mesh, sw_axes_from_set((sw_axis_set)set));
        struct sw_mesh apart = mesh;
        struct sw_span as_asked, as_settled, without;
        apart.domain = 0;
        sw_links_span(c, &mesh, axes, &as_asked);
        sw_links_span(&settled, &apart, axes, &as_settled);
        sw_links_span(c, &apart, axes, &without);
        for (int32_t l = 0; l < c->link_count - 1; l++) {
            const int32_t domain = sw_links_domain(c, &mesh, l);
            if (domain != mesh.domain)
                continue;
            const int32_t most = most_inside(&mesh, axes, domain);
            if (as_asked.inside[l] != most)
                fail_msg("%d members in a segment of %d, not %d", (int)as_asked.inside[l],
                         (int)domain, (int)most);
        }
        /* a plan file holds the settled links */
        assert_int_equal(as_asked.ranks, as_settled.ranks);
        for (enum sw_collective kind = SW_ALL_GATHER; kind <= SW_ALL_TO_ALL; kind++)
            if (as_asked.ranks > 1 && sw_links_seconds(c, &as_asked, kind, 1e9) !=
                                          sw_links_seconds(&settled, &as_settled, kind, 1e9))
                fail_msg("a collective over other links than the settled ones");
    }
    assert_true(settled.link[settled.link_count - 1].spans >= c->nodes * c->accelerators_per_node);
    for (int32_t l = 1; l < settled.link_count; l++)
        assert_true(settled.link[l].spans > settled.link[l - 1].spans);
}

static void drawn(void **unused)
{
    int32_t asked = 0;
    (void)unused;
    for (int i = 0; i < draws; i++) {
        const struct sw_cluster_config c = draw_cluster();
        const struct sw_mesh mesh = draw_mesh(&c);
        check_segment(&c, &mesh);
        check_spans(&c, mesh);
        asked += sw_links_segment(&c, &mesh) > 0;
    }
    printf("%d of %d meshes ask for segments\n", (int)asked, draws);
    assert_true(asked > draws / 20);
}

/* 18 trays of 4 in a rack: sixteen of them hold sp 64, which else is cut at 72, 144, ... */
static void racks(void **unused)
{
    (void)unused;
    struct sw_cluster_config c = {
        .nodes = 32,
        .accelerators_per_node = 4,
        .link_count = 2,
        .link = {{.name = "nvlink", .spans = 72, .bandwidth = 900e9},
                 {.name = "ib", .spans = 128, .bandwidth = 50e9, .spans_all = true}},
        .placement = {.group = 72, .segments = true}};
    const struct sw_axes sp = {1, {SW_SP}};
    struct sw_mesh mesh = sw_mesh_make(1, 2, 1, 64);
    struct sw_span span;
    assert_int_equal(sw_links_segment(&c, &mesh), 64);
    sw_links_span(&c, &mesh, sp, &span);
    assert_int_equal(sw_links_outermost(&span), 1);
    mesh.domain = 64;
    sw_links_span(&c, &mesh, sp, &span);
    assert_int_equal(sw_links_outermost(&span), 0);
    assert_int_equal(sw_links_inner_ring(&c, &mesh, sp), 0); /* all of it is one ring */
    c.placement.segments = false;                            /* Slurm 23.11, or an elastic run */
    assert_int_equal(sw_links_segment(&c, &mesh), 0);
}

int main(int argc, char **argv)
{
    draws = argc > 1 ? atoi(argv[1]) : draws;
    state = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(racks), cmocka_unit_test(drawn)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
