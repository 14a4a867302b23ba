/* Which node a preflight blames, who talks to whom, and what nvidia-smi's lines say. And what
 * Open MPI says of a peer that is gone. */
#include "runner/preflight/facts.h"
#include "runner/preflight/judge.h"
#include "runner/preflight/landing.h"
#include "runner/rank/peer.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static void test_slow(void **state)
{
    (void)state;
    bool slow[5];
    const double tenth[] = {100, 98, 10, 103};
    assert_int_equal(sw_judge(tenth, 4, INFINITY, slow), 1);
    assert_true(slow[2]);
    assert_int_equal(sw_judge(tenth, 4, 100, slow), 1);
    /* what was promised is enough */
    assert_int_equal(sw_judge(tenth, 4, 9, slow), 0);
    const double usual[] = {100, 60, 130, 45};
    assert_int_equal(sw_judge(usual, 4, INFINITY, slow), 0);
    const double dead[] = {100, 0, NAN, -1};
    assert_int_equal(sw_judge(dead, 4, INFINITY, slow), 2);
    assert_true(slow[1] && slow[3] && !slow[2]);
    const double two[] = {10, 100};
    assert_int_equal(sw_judge(two, 2, INFINITY, slow), 1);
    assert_true(slow[0]);
    const double nobody[] = {NAN, NAN};
    assert_int_equal(sw_judge(nobody, 2, INFINITY, slow), 0);
    assert_true(isnan(sw_judge_middle(nobody, 2)));
    const double alone[] = {1};
    assert_int_equal(sw_judge(alone, 1, 1000, slow), 0);
}

/* Every two meet once, each with one at a time. */
static void test_partners(void **state)
{
    (void)state;
    for (int32_t count = 0; count <= 17; count++) {
        bool met[17][17] = {{false}};
        for (int32_t round = 0; round < sw_judge_rounds(count); round++)
            for (int32_t i = 0; i < count; i++) {
                const int32_t partner = sw_judge_partner(i, round, count);
                if (partner < 0)
                    continue;
                assert_in_range(partner, 0, count - 1);
                assert_int_not_equal(partner, i);
                assert_int_equal(sw_judge_partner(partner, round, count), i);
                assert_false(met[i][partner]);
                met[i][partner] = true;
            }
        for (int32_t i = 0; i < count; i++)
            for (int32_t j = 0; j < count; j++)
                assert_int_equal(met[i][j], i != j);
    }
}

static void test_gpus(void **state)
{
    (void)state;
    struct sw_node_facts facts = {.gpus = -1, .gpu_memory_bytes = -1};
    sw_node_facts_parse("", &facts);
    assert_int_equal(facts.gpus, -1);
    sw_node_facts_parse("Failed to initialize NVML: Driver/library version mismatch\n", &facts);
    assert_int_equal(facts.gpus, -1);
    sw_node_facts_parse("143000, 1980, 570.86.15\n142000, 1755, 570.86.15\n", &facts);
    assert_int_equal(facts.gpus, 2);
    assert_true(facts.gpu_memory_bytes == (int64_t)142000 * 1048576);
    assert_true(facts.gpu_clock_hz == 1755e6);
    assert_string_equal(facts.driver, "570.86.15");
}

static void test_this_machine(void **state)
{
    (void)state;
    struct sw_node_facts facts;
    sw_node_facts_find("/", &facts);
    assert_true(facts.memory_bytes > 0);
    sw_node_facts_find("/nowhere/at/all", &facts);
    assert_int_equal(facts.disk_bytes, 0);
}

static const char hung_up[] =
    "step 7/30  loss 4.3296\n"
    "--------------------------------------------------------------------------\n"
    "An MPI communication peer process has unexpectedly disconnected.  This\n"
    "usually indicates a failure in the peer process (e.g., a crash or\n"
    "  Local host: n4\n"
    "  Local PID:  373\n"
    "  Peer host:  n3\n"
    "--------------------------------------------------------------------------\n";

/* However the bytes are cut. */
static void test_peer(void **state)
{
    (void)state;
    const size_t length = sizeof hung_up - 1;
    for (size_t piece = 1; piece <= length; piece += piece < 20 ? 1 : 37) {
        struct sw_peer peer = {.used = 0};
        int32_t told = 0;
        for (size_t at = 0; at < length; at += piece)
            told += sw_peer_hear(&peer, hung_up + at, length - at < piece ? length - at : piece);
        assert_int_equal(told, 1);
        assert_string_equal(peer.host, "n3");
    }
}

static void test_no_peer(void **state)
{
    (void)state;
    static const char other[] =
        "  Peer host:  n3\nAn MPI communication peer process is well\n\n\0\n";
    char longest[1000];
    struct sw_peer peer = {.used = 0};
    assert_false(sw_peer_hear(&peer, other, sizeof other - 1));
    memset(longest, 'x', sizeof longest);
    assert_false(sw_peer_hear(&peer, longest, sizeof longest));
    assert_false(sw_peer_hear(&peer, "\n  Peer host:\n", 14));
    assert_string_equal(peer.host, "");
    /* of a line that is too long the beginning counts */
    assert_true(sw_peer_hear(&peer, hung_up, sizeof hung_up - 1));
}

/* Drawn blocks of drawn jobs, against every stretch one by one. */
static void test_landing(void **state)
{
    (void)state;
    uint64_t random = 1;
    int32_t whole = 0, cut = 0;
    for (int32_t i = 0; i < 3000; i++) {
        int32_t block[40], nodes = 1 + i % 40, priced = 1 + i % 19;
        for (int32_t n = 0; n < nodes; n++) {
            random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            const bool next = (random >> 33) % 7 == 0;
            block[n] = n > 0 && !next ? block[n - 1] : n;
        }
        int32_t wanted = 0;
        for (int32_t size = 1; size <= priced; size++) {
            bool together = priced % size == 0;
            for (int32_t a = 0; a < nodes; a++)
                for (int32_t b = a; b < nodes; b++)
                    together = together && (a / size != b / size || block[a] == block[b]);
            wanted = together ? size : wanted;
        }
        assert_int_equal(sw_landing_found(block, nodes, priced), wanted);
        whole += wanted == priced;
        cut += wanted < priced;
    }
    assert_true(whole > 100 && cut > 100);
}

static void test_priced_blocks(void **state)
{
    (void)state;
    struct sw_cluster_config c = {
        .accelerators_per_node = 4, .link_count = 2, .link = {{.spans = 64}, {.spans = 128}}};
    assert_int_equal(sw_landing_predicted(&c), 16);
    c.link[0].spans = 4; /* a node; the next joins all */
    assert_int_equal(sw_landing_predicted(&c), 0);
    c.link_count = 3;
    c.link[1].spans = 32;
    assert_int_equal(sw_landing_predicted(&c), 8);
    c.link[1].spans = 33;
    assert_int_equal(sw_landing_predicted(&c), 0);
    c.link_count = 0;
    assert_int_equal(sw_landing_predicted(&c), 0);
}

/* What slurmstepd sets (src/slurmd/slurmstepd/slurmstepd.c of 22.05 to 25.11). */
static void test_block_of_a_node(void **state)
{
    (void)state;
    static const struct {
        const char *address, *pattern, *block;
    } cases[] = {{"b03.n7", "block.node", "b03"},
                 {"spine.leaf0.n1", "switch.switch.node", "spine.leaf0"},
                 {"b03.n7.site.org", "block.node", "b03"},
                 {"n7", "node", ""},
                 {"n7.site.org", "node", ""},
                 {"n7", "block.node", ""},
                 {"", "block.node", ""},
                 {NULL, "block.node", ""},
                 {"b03.n7", NULL, ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char block[32];
        assert_string_equal(
            sw_landing_block(cases[i].address, cases[i].pattern, block, sizeof block),
            cases[i].block);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slow),
        cmocka_unit_test(test_partners),
        cmocka_unit_test(test_gpus),
        cmocka_unit_test(test_this_machine),
        cmocka_unit_test(test_peer),
        cmocka_unit_test(test_no_peer),
        cmocka_unit_test(test_landing),
        cmocka_unit_test(test_priced_blocks),
        cmocka_unit_test(test_block_of_a_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
