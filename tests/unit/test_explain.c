/* What explain tells agrees with the program, its layout and its price. */
#include "planner/breakdown/data.h"
#include "planner/command/format.h"
#include "planner/scheduler/slurm/settings.h"
#include "planner/scheduler/scheduler.h"
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

static void explain_layers(const char *mesh_dim, int32_t layers, struct explained *e)
{
    struct sw_error err = {0};
    e->config = sw_test_read_run(&sw_test_llama_7b);
    assert_non_null(e->config);
    e->run = *sw_config_run(e->config);
    e->run.mesh_dim = mesh_dim;
    e->run.model.shape.layers = layers > 0 ? layers : e->run.model.shape.layers;
    assert_int_equal(sw_search_run(&e->run, SW_FOR_TRAIN, SW_EVERY_ROW, &e->search, &err), 0);
    assert_int_equal(sw_explain_make(&e->run, &e->search.mesh[0], &e->search, false, &e->x, &err),
                     0);
}

static void explain(const char *mesh_dim, struct explained *e)
{
    explain_layers(mesh_dim, 0, e);
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

/* A model's only layer has what each of two has. */
static void one_layer_has_its_memory(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof meshes / sizeof meshes[0]; i++) {
        struct explained one, two;
        explain_layers(meshes[i], 1, &one);
        explain_layers(meshes[i], 2, &two);
        const struct sw_layer_memory *a = &one.x.memory.layer, *b = &two.x.memory.layer;
        assert_true(a->parameters > 0);
        assert_int_equal(a->parameters, b->parameters);
        assert_int_equal(a->gradients, b->gradients);
        assert_int_equal(a->optimizer, b->optimizer);
        if (sw_layer_values_equal(one.x.c.decision.train.recompute.values,
                                  two.x.c.decision.train.recompute.values))
            assert_int_equal(a->saved, b->saved);
        done(&one);
        done(&two);
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
    const struct sw_axis_span *sp = &e.x.span[SW_SP], *tp = &e.x.span[SW_TP];
    const struct sw_axis_span *fsdp = &e.x.span[SW_FSDP];
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
    assert_int_equal(e.x.span[SW_DP].link, -1);
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
        assert_int_equal(sw_cost_price(evaluate, &e.run.cluster, NULL, &cost, NULL), 0);
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

/* The ring that another strategy is compared with is the faster of one and of inner rings. */
static void a_ring_has_its_inner_rings(void **state)
{
    (void)state;
    static const struct {
        const char *outer, *ring;
    } cases[] = {{"50 GB/s", "ring of rings of 8"}, {"900 GB/s", "ring"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sw_test_run t = sw_test_llama_7b;
        struct explained e;
        struct sw_error err = {0};
        bool found = false;
        t.nodes = 8;
        t.per_node = 8;
        t.layers = 2;
        t.sequence_length = 1 << 17;
        t.global_batch_size = 2;
        t.memory = "80 GB";
        t.inner = "450 GB/s";
        t.outer = cases[i].outer;
        t.more = "attention: {strategy: gather}\n";
        e.config = sw_test_read_run(&t);
        assert_non_null(e.config);
        e.run = *sw_config_run(e.config);
        e.run.mesh_dim = "1,1,1,64";
        e.run.cluster.link[1].rails = true;
        assert_int_equal(sw_search_run(&e.run, SW_FOR_TRAIN, SW_EVERY_ROW, &e.search, &err), 0);
        assert_int_equal(sw_explain_make(&e.run, &e.search.mesh[0], &e.search, false, &e.x, &err),
                         0);
        for (int32_t k = 0; k < e.x.choice_count; k++)
            found |= strcmp(e.x.choice[k].name, "attention") == 0 &&
                     strcmp(e.x.choice[k].other, cases[i].ring) == 0;
        assert_true(found);
        done(&e);
    }
}

static void long_times_are_short(void **state)
{
    (void)state;
    static const struct {
        double seconds;
        const char *text;
    } cases[] = {{0.5, "500 ms"},      {59.9, "59.9 s"},
                 {59.96, "1.0 min"},   {3590, "59.8 min"},
                 {3599, "1.0 h"},      {172000, "47.8 h"},
                 {172700, "2.0 days"}, {2.8e6, "32.4 days"},
                 {1e9, "11,574 days"}, {1e308, "1,000,000,000,000,000 days"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[SW_FORMAT_BYTES];
        assert_string_equal(sw_format_duration(cases[i].seconds, text), cases[i].text);
        if (cases[i].seconds < 59 || cases[i].seconds > 1e4)
            assert_string_equal(sw_format_seconds(cases[i].seconds, text), cases[i].text);
    }
}

static void expect_lines(const struct sw_explain *x, const char *const wanted[])
{
    struct sw_explain_lines lines;
    int32_t i = 0;
    sw_explain_checkpoint(x, &lines);
    for (; wanted[2 * i] != NULL; i++) {
        assert_true(i < lines.count);
        assert_string_equal(lines.line[i].name, wanted[2 * i]);
        assert_string_equal(lines.line[i].text, wanted[2 * i + 1]);
    }
    assert_int_equal(i, lines.count);
}

/* Every sentence about checkpoints. */
static void checkpoints_are_told(void **state)
{
    (void)state;
    struct sw_run_config run = {.checkpoint_every_steps = 500};
    struct sw_explain x = {.run = &run, .memory_total = 70000000000, .run_seconds = 7200};
    run.cluster.accelerator.device = SW_DEVICE_CUDA;
    run.cluster.accelerators_per_node = 8;
    run.cluster.failures_per_1000_node_days = 3.8;
    x.c.memory.limit = 80000000000;
    x.c.cost.step_seconds = 2;
    x.checkpoint = (struct sw_checkpoint_cost){.bytes = 96400000000,
                                               .most_bytes = 1500000000,
                                               .snapshot_bytes = 1500000000,
                                               .files = 150,
                                               .background = true,
                                               .rate = SW_WRITE_ASSUMED,
                                               .bandwidth = 8e9,
                                               .exchange_s = 0.04,
                                               .copy_s = 0.06,
                                               .write_s = 12.05,
                                               .stall_s = 0.1,
                                               .save_s = 12.15,
                                               .failure_s = 2842105,
                                               .interval_s = 754,
                                               .interval_steps = 377};
    expect_lines(
        &x, (const char *const[]){
                "checkpoint", "96.4 GB in 150 files, at most 1.5 GB of one rank", "snapshot",
                "12.0 GB a node; host_memory is unknown: assumed to fit", "pause",
                "100 ms: exchange 40.0 ms, copy 60.0 ms", "writing",
                "12.1 s at 8.0 GB/s (storage.bandwidth is unknown: 1 GB/s per node is assumed), "
                "while training continues",
                "failures", "one every 32.9 days (3.8 per 1000 node-days)", "proposed",
                "every_steps: 377, 12.6 min: paused 0.013 % of the time, 0.013 % computed again "
                "after failures",
                "set",
                "every_steps: 500, 16.7 min: paused 0.01 % of the time, 0.018 % computed again "
                "after failures",
                NULL});
    assert_int_equal(sw_explain_snapshot_bytes(&x), 0);
    run.cluster.host_memory_bytes = 2000000000000;
    run.checkpoint_every_steps = 0;
    x.checkpoint.rate = SW_WRITE_TOLD;
    x.checkpoint.files = 1;
    x.checkpoint.interval_steps = 0;
    x.checkpoint.interval_s = 7201;
    expect_lines(
        &x, (const char *const[]){
                "checkpoint", "96.4 GB in 1 file, at most 1.5 GB of one rank", "snapshot",
                "12.0 GB a node fit in host_memory, 2.0 TB", "pause",
                "100 ms: exchange 40.0 ms, copy 60.0 ms", "writing",
                "12.1 s at 8.0 GB/s (storage.bandwidth of the cluster), while training continues",
                "failures", "one every 32.9 days (3.8 per 1000 node-days)", "proposed",
                "every_steps: 0, at the end only: the run takes 2.0 h, the interval would be 2.0 h",
                "set", "every_steps: 0, at the end and when a signal asks for it", NULL});
    /* nothing fails; in the pause */
    run.cluster.host_memory_bytes = 10000000000;
    x.checkpoint.rate = SW_WRITE_LIMITED;
    x.checkpoint.background = false;
    x.checkpoint.snapshot_bytes = 0;
    x.checkpoint.copy_s = 0;
    x.checkpoint.write_s = 120;
    x.checkpoint.stall_s = 120.04;
    x.checkpoint.failure_s = x.checkpoint.interval_s = INFINITY;
    run.checkpoint_every_steps = 1;
    expect_lines(&x,
                 (const char *const[]){
                     "checkpoint", "96.4 GB in 1 file, at most 1.5 GB of one rank", "snapshot",
                     "12.0 GB a node are more than host_memory, 10.0 GB", "pause",
                     "2.0 min: exchange 40.0 ms, writing 2.0 min", "writing",
                     "2.0 min at 8.0 GB/s (checkpoint.bandwidth), in the pause", "failures",
                     "none (failures_per_1000_node_days is 0)", "proposed",
                     "every_steps: 0, at the end and when a signal asks for it", "set",
                     "every_steps: 1, 2.00 s: paused 98 % of the time, 0 % computed again after "
                     "failures",
                     NULL});
    /* on the CPU the snapshot lies beside everything else */
    run.cluster.accelerator.device = SW_DEVICE_CPU;
    x.memory_total = 79000000000;
    struct sw_explain_lines lines;
    sw_explain_checkpoint(&x, &lines);
    assert_string_equal(lines.line[1].text,
                        "1.5 GB a rank are more than the 1.0 GB beside 79.0 GB");
    x.memory_total = 81000000000; /* and does not fit itself */
    sw_explain_checkpoint(&x, &lines);
    assert_string_equal(lines.line[1].text, "1.5 GB a rank are more than the 0 B beside 81.0 GB");
    x.memory_total = 70000000000;
    x.checkpoint.background = true;
    x.checkpoint.snapshot_bytes = 1500000000;
    sw_explain_checkpoint(&x, &lines);
    assert_string_equal(lines.line[1].text, "1.5 GB a rank fit in the 10.0 GB beside 70.0 GB");
    x.checkpoint.stall_s = 0.04;
    sw_explain_checkpoint(&x, &lines);
    assert_string_equal(lines.line[2].text, "40.0 ms: exchange into the snapshot");
    assert_int_equal(sw_explain_snapshot_bytes(&x), 1500000000);
}

static void time_limits_are_told(void **state)
{
    (void)state;
    char text[256];
    struct sw_run_config run = {.cluster.launchers = &sw_launchers};
    struct sw_slurm_config *slurm = (struct sw_slurm_config *)(void *)run.cluster.settings.bytes;
    slurm->time = "1-2:30";
    assert_string_equal(sw_report_time_limit(&run, 95400, text, sizeof text), "");
    assert_string_equal(
        sw_report_time_limit(&run, 95401, text, sizeof text),
        "more than the job's time limit, 1-2:30: it saves a checkpoint before, and the next "
        "'plan submit' resumes it; with slurm.continue: requeue or chain it resumes by itself");
    slurm->signal = "none";
    assert_string_equal(sw_report_time_limit(&run, 95401, text, sizeof text),
                        "more than the job's time limit, 1-2:30, before which no signal tells it "
                        "to save (slurm.signal is none): steps since its last checkpoint may be "
                        "lost; slurm.continue: requeue or chain continues by itself");
    slurm->signal = NULL;
    slurm->time = "5:59";
    assert_string_equal(
        sw_report_time_limit(&run, 95401, text, sizeof text),
        "more than the job's time limit, 5:59, before which no signal tells it to save (it is too "
        "short for a signal before it): steps since its last checkpoint may be lost; "
        "slurm.continue: requeue or chain continues by itself");
    slurm->time = "5";
    assert_non_null(strstr(sw_report_time_limit(&run, 95401, text, sizeof text),
                           "time limit, 5 minutes, before which"));
    slurm->time = "6:00";
    assert_non_null(
        strstr(sw_report_time_limit(&run, 95401, text, sizeof text), "saves a checkpoint before"));
    slurm->time = "1-2:30";
    while (strcmp(sw_scheduler_of(&run.cluster)->name, "mpirun") != 0)
        run.cluster.launcher++;
    assert_string_equal(sw_report_time_limit(&run, 95401, text, sizeof text), "");
    run.cluster.launcher = 0;
    slurm->time = NULL;
    assert_string_equal(sw_report_time_limit(&run, 1e30, text, sizeof text), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_times_are_short),
        cmocka_unit_test(checkpoints_are_told),
        cmocka_unit_test(time_limits_are_told),
        cmocka_unit_test(memory_is_the_layout),
        cmocka_unit_test(one_layer_has_its_memory),
        cmocka_unit_test(timeline_is_the_price),
        cmocka_unit_test(sums_add_up),
        cmocka_unit_test(axes_lie_where_ranks_do),
        cmocka_unit_test(programs_share_the_state),
        cmocka_unit_test(runners_up_lost_for_a_reason),
        cmocka_unit_test(a_ring_has_its_inner_rings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
