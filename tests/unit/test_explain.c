/* What explain tells agrees with the program, its layout and its price. */
#include "planner/explain/data.h"
#include "tests/unit/plan_support.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct explained {
    struct sw_config *config;
    struct sw_run_config run;
    struct sw_search search;
    struct sw_explain x;
};

static void explain(const char *mesh_dim, struct explained *e)
{
    struct sw_error err = {0};
    e->config = sw_test_read_run(&sw_test_llama_7b);
    assert_non_null(e->config);
    e->run = *sw_config_run(e->config);
    e->run.mesh_dim = mesh_dim;
    assert_int_equal(sw_search_run(&e->run, &e->search, &err), 0);
    assert_int_equal(sw_explain_make(&e->run, &e->search.mesh[0], &e->search, false, &e->x, &err),
                     0);
}

static void done(struct explained *e)
{
    sw_explain_free(&e->x);
    sw_search_free(&e->search);
    sw_config_free(e->config);
}

static const char *const meshes[] = {"1,16,4,4", "1,16,1,16", "2,8,4,4", "1,8,8,4"};

/* Blocks that live at the same time do not touch, all end inside the arena, one at its end; the
 * sums by kind are those of the live bytes. */
static void memory_is_the_layout(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof meshes / sizeof meshes[0]; i++) {
        struct explained e;
        explain(meshes[i], &e);
        const struct sw_program *p = e.x.program;
        const struct sw_memory_profile *m = &e.x.memory;
        const int32_t count = sw_program_block_count(p);
        int64_t end = 0;
        assert_true(count > 0);
        for (int32_t a = 0; a < count; a++) {
            const struct sw_arena_block x = sw_program_block(p, a);
            end = x.offset + x.bytes > end ? x.offset + x.bytes : end;
            for (int32_t b = 0; b < a; b++) {
                const struct sw_arena_block y = sw_program_block(p, b);
                const bool together = x.first <= y.last && y.first <= x.last;
                const bool apart = x.offset + x.bytes <= y.offset || y.offset + y.bytes <= x.offset;
                assert_true(!together || apart || x.bytes == 0 || y.bytes == 0);
            }
        }
        assert_int_equal(end, p->arena_bytes);
        assert_int_equal(m->arena_bytes, p->arena_bytes);
        assert_true(m->peak_bytes > 0 && m->peak_bytes <= p->arena_bytes);
        assert_int_equal(m->peak_bytes + m->lost_bytes, p->arena_bytes);
        assert_int_equal(m->at_peak[SW_MEMORY_PARAMETERS], p->parameter_bytes);
        assert_int_equal(m->at_peak[SW_MEMORY_GRADIENTS], p->gradient_bytes);
        assert_int_equal(m->at_peak[SW_MEMORY_OPTIMIZER], p->optimizer_bytes);
        for (int32_t op = 0; op < p->op_count; op++) {
            int64_t sum = 0;
            for (int32_t k = 0; k < SW_MEMORY_KIND_COUNT; k++)
                sum += m->live[(int64_t)op * SW_MEMORY_KIND_COUNT + k];
            assert_int_equal(sum, m->live_total[op]);
            assert_true(sum <= m->peak_bytes);
        }
        assert_int_equal(m->layer.parameters * m->layers + m->outside.parameters,
                         p->parameter_bytes);
        assert_int_equal(m->layer.optimizer * m->layers + m->outside.optimizer, p->optimizer_bytes);
        done(&e);
    }
}

/* No stream does two things at once; the windows' sums are no longer than they are. The last event
 * of compute or of communication is the end of the step. */
static void timeline_is_the_price(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof meshes / sizeof meshes[0]; i++) {
        struct explained e;
        explain(meshes[i], &e);
        const struct sw_timeline *t = &e.x.timeline;
        double free_at[2] = {0, 0}, end = 0;
        assert_true(t->count > 0);
        for (int32_t k = 0; k < t->count; k++) {
            const struct sw_cost_event *event = &t->event[k];
            double *at = &free_at[event->stream == SW_STREAM_COMMUNICATION];
            assert_true(event->end >= event->start);
            /* a start is an end minus a duration: rounding of a double of the size of a step */
            assert_true(event->start >= *at - 4e-16 * (event->end + 1));
            *at = event->end;
            end = event->end > end ? event->end : end;
        }
        assert_true(fabs(end - e.x.c.cost.step_seconds) <= 1e-12 * end);
        const struct sw_window *windows[2] = {&e.x.forward, &e.x.backward};
        for (size_t w = 0; w < 2; w++) {
            const double seconds = windows[w]->end - windows[w]->start;
            assert_true(windows[w]->region >= 0 && seconds > 0);
            assert_true(windows[w]->communication_seconds <= seconds * (1 + 1e-9));
            assert_true(fabs(windows[w]->compute_seconds + windows[w]->waiting_seconds - seconds) <=
                        1e-9 * seconds);
        }
        done(&e);
    }
}

/* Compute by op kind adds up to the compute of the step; what is exposed and hidden of an axis to
 * all of it, unless more was exposed than the axis itself took. */
static void sums_add_up(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof meshes / sizeof meshes[0]; i++) {
        struct explained e;
        explain(meshes[i], &e);
        double sum = e.x.slowed_seconds;
        for (int32_t k = 0; k < e.x.kind_count; k++)
            sum += e.x.kind[k].seconds;
        assert_true(fabs(sum - e.x.c.cost.compute_seconds) <= 1e-9 * sum);
        for (int32_t a = 0; a < SW_AXIS_COUNT; a++) {
            const struct sw_axis_time *t = &e.x.axis[a];
            assert_true(t->hidden_seconds >= 0 && t->hidden_seconds <= t->total_seconds);
            if (e.x.c.decision.mesh.size[a] == 1)
                assert_true(t->total_seconds == 0);
        }
        done(&e);
    }
}

/* By hand: 64 nodes of 4, order dp,fsdp,tp,sp: sp fills a node, tp strides 4, fsdp 16. */
static void axes_lie_where_ranks_do(void **state)
{
    (void)state;
    struct explained e;
    explain("!1,16,4,4", &e); /* order as written: dp,fsdp,tp,sp */
    const struct sw_placement *sp = &e.x.placement[SW_SP], *tp = &e.x.placement[SW_TP];
    const struct sw_placement *fsdp = &e.x.placement[SW_FSDP];
    assert_int_equal(sp->stride, 1);
    assert_int_equal(sp->per_node, 4);
    assert_int_equal(sp->nodes, 1);
    assert_int_equal(sp->link, 0);
    assert_int_equal(tp->stride, 4);
    assert_int_equal(tp->per_node, 1);
    assert_int_equal(tp->nodes, 4);
    assert_int_equal(tp->link, 1);
    assert_int_equal(fsdp->stride, 16);
    assert_int_equal(fsdp->nodes, 16);
    assert_int_equal(e.x.placement[SW_DP].link, -1);
    done(&e);
}

/* All programs lie in the arena of the plan over one state, and every one has a price. */
static void programs_share_the_state(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof meshes / sizeof meshes[0]; i++) {
        struct explained e;
        explain(meshes[i], &e);
        const struct sw_program_set *set = e.x.programs;
        const struct sw_program *evaluate = set->program[SW_PROGRAM_EVALUATE];
        struct sw_cost cost;
        assert_ptr_equal(e.x.program, set->program[SW_PROGRAM_TRAIN]);
        assert_int_equal(e.x.program->arena_bytes, e.x.c.memory.arena);
        assert_int_equal(set->state.bytes,
                         e.x.program->parameter_bytes + e.x.program->optimizer_bytes);
        assert_true(evaluate->arena_bytes > set->state.bytes);
        assert_true(evaluate->arena_bytes <= set->arena_bytes);
        assert_int_equal(sw_cost_price(evaluate, &e.run, &cost, NULL), 0);
        assert_true(e.x.program_seconds[SW_PROGRAM_EVALUATE] == cost.step_seconds);
        assert_true(e.x.program_seconds[SW_PROGRAM_TRAIN] == e.x.c.cost.step_seconds);
        /* forward alone is less than a step of forward, backward and update */
        assert_true(cost.step_seconds > 0 && cost.step_seconds < e.x.c.cost.step_seconds);
        done(&e);
    }
}

/* Every alternative says why it lost; a slower one is never called faster. */
static void runners_up_lost_for_a_reason(void **state)
{
    (void)state;
    struct explained e;
    explain("auto", &e);
    bool recompute = false, mesh = false;
    for (int32_t i = 0; i < e.x.choice_count; i++) {
        const struct sw_choice *c = &e.x.choice[i];
        assert_true(c->why[0] != '\0');
        assert_string_not_equal(c->chosen, c->other);
        if (c->reason == SW_FITS && c->step_seconds > e.x.c.cost.step_seconds)
            assert_null(strstr(c->why, "faster by"));
        if (c->reason == SW_REJECT_MEMORY) {
            assert_true(c->total_bytes > e.x.c.memory.limit);
            assert_non_null(strstr(c->why, "too much"));
        }
        recompute = recompute || strcmp(c->name, "recompute") == 0;
        mesh = mesh || strncmp(c->name, "mesh", 4) == 0;
    }
    assert_true(recompute && mesh);
    done(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_the_layout),
        cmocka_unit_test(timeline_is_the_price),
        cmocka_unit_test(sums_add_up),
        cmocka_unit_test(axes_lie_where_ranks_do),
        cmocka_unit_test(programs_share_the_state),
        cmocka_unit_test(runners_up_lost_for_a_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
