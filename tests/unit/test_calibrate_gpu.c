/* What `runner calibrate --device cuda` makes of a GPU, with stand-ins: the figures are the
 * device's, shapes keep to the memory and the time there are, what is written is read and prices a
 * program that was not measured.
 *
 *   test_calibrate_gpu FOLDER */
#include "core/plan/plan.h"
#include "core/cost/cost.h"
#include "core/cost/links.h"
#include "core/programs/compile.h"
#include "runner/calibrate/gpu.h"
#include "runner/calibrate/gpu_links.h"
#include "runner/calibrate/kernels.h"
#include "runner/collective/comm.h"
#include "runner/rank/execute.h"
#include "planner/scheduler/scheduler.h"
#include "planner/scheduler/slurm/settings.h"
#include "tests/support/fake_gpu.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

enum { LONG = 600 /* seconds: every shape is measured */ };

static char root[2048], folder[2100]; /* the working directory, and one made for this run */

static void within(double value, double wanted, double share)
{
    if (!(fabs(value - wanted) <= share * fabs(wanted)))
        fail_msg("%.9g is not %.9g to %g", value, wanted, share);
}

/* ---- One rank ---- */

static void measure(struct sw_fake_gpu *gpu, double seconds, struct sw_kernel_rates *rates)
{
    struct sw_comm *alone = NULL;
    struct sw_error err = {0};
    int32_t count;
    const struct sw_gpu_shape *shapes = sw_gpu_shapes(&count);
    assert_int_equal(sw_comm_single_create(&alone, &err), 0);
    if (sw_gpu_kernels(&gpu->base, alone, seconds, shapes, count, rates, &err) != 0)
        fail_msg("%s", err.message);
    alone->vtable->destroy(alone);
    assert_int_equal(gpu->used_bytes, 0);
}

/* What the smallest ops do beside their launch: the median of them moves a few kB. */
static const double launch_tolerance = 0.02;

/* Peaks are of ops that take four launches and more, and of a launch the above may be left. */
static const double rate_tolerance = 0.01;

static void the_figures_are_the_devices(void **state)
{
    struct sw_fake_gpu gpu;
    struct sw_kernel_rates rates;
    struct sw_calibration c;
    struct sw_error err = {0};
    int32_t count;
    (void)state;
    (void)sw_gpu_shapes(&count);
    sw_fake_gpu_init(&gpu);
    measure(&gpu, LONG, &rates);
    assert_int_equal(rates.programs, count + 2); /* the first without marks, the second in fp32 */
    assert_int_equal(sw_gpu_calibration(&rates, 1, NULL, &c, &err), 0);
    within(c.launch_latency_s, gpu.launch_s, launch_tolerance);
    within(c.bf16_flops, gpu.bf16_flops, rate_tolerance);
    within(c.fp32_flops, gpu.fp32_flops, rate_tolerance);
    within(c.memory_bandwidth, gpu.bandwidth, rate_tolerance);
    assert_true(c.share == 1);
    /* from what a launch hides to what fills the machine */
    for (int32_t k = 0; k < SW_RATE_COUNT; k++) {
        const struct sw_calibration_curve *curve = &c.curve[k];
        const double per_s = k == SW_RATE_MEMORY ? gpu.bandwidth : gpu.bf16_flops;
        assert_true(curve->count >= 8);
        assert_true(curve->point[0].size / per_s < gpu.launch_s);
        assert_true(curve->point[curve->count - 1].size / per_s > 100 * gpu.launch_s);
        for (int32_t i = 1; i < curve->count; i++)
            assert_true(curve->point[i].size > curve->point[i - 1].size);
        within(curve->point[curve->count - 1].fraction, 1, rate_tolerance);
    }
}

static void what_marks_take_is_not_the_ops(void **state)
{
    struct sw_fake_gpu gpu;
    struct sw_kernel_rates cheap, dear;
    (void)state;
    sw_fake_gpu_init(&gpu);
    gpu.mark_s = 0;
    measure(&gpu, 0.01, &cheap);
    sw_fake_gpu_init(&gpu);
    gpu.mark_s = 5e-6; /* more than an op */
    measure(&gpu, 0.01, &dear);
    within(dear.least_seconds, cheap.least_seconds, 1e-6);
    within(dear.bf16_seconds, cheap.bf16_seconds, 1e-6);
}

static void shapes_keep_to_the_memory(void **state)
{
    struct sw_fake_gpu gpu;
    struct sw_kernel_rates rates;
    (void)state;
    sw_fake_gpu_init(&gpu);
    gpu.memory_bytes = 16LL << 30;
    measure(&gpu, LONG, &rates);
    assert_true(gpu.most_bytes <= gpu.memory_bytes / 8 * 7);
    assert_true(gpu.most_bytes > gpu.memory_bytes / 4);
    assert_true(rates.programs >= 8 && rates.programs == gpu.arenas);
    assert_true(sw_gpu_fits(7, 8) && !sw_gpu_fits(8, 8) && sw_gpu_fits(8, -1));
}

static void shapes_keep_to_the_time(void **state)
{
    const struct sw_gpu_pace pace = {.set_up_per_byte = 1e-9, .step_per_flop = 1e-15};
    struct sw_fake_gpu gpu;
    struct sw_kernel_rates rates;
    (void)state;
    within(sw_gpu_estimate(&pace, 2000000000, 1e15), 2 + 3, 1e-12);
    sw_fake_gpu_init(&gpu);
    measure(&gpu, 1e-6, &rates);
    assert_int_equal(rates.programs, 4); /* those that no figure can do without */
}

static void a_device_without_marks_is_refused(void **state)
{
    struct sw_fake_gpu gpu;
    struct sw_kernel_rates rates;
    struct sw_comm *alone = NULL;
    struct sw_error err = {0};
    int32_t count;
    const struct sw_gpu_shape *shapes = sw_gpu_shapes(&count);
    (void)state;
    sw_fake_gpu_init(&gpu);
    struct sw_device_vtable without = *gpu.base.vtable;
    without.mark = NULL;
    gpu.base.vtable = &without;
    assert_int_equal(sw_comm_single_create(&alone, &err), 0);
    assert_int_equal(sw_gpu_kernels(&gpu.base, alone, 1, shapes, count, &rates, &err), -1);
    assert_string_equal(err.message, "the cuda device cannot time what it queues");
    assert_int_equal(err.status, SW_ENVIRONMENT);
    alone->vtable->destroy(alone);
}

/* ---- Data sheets ---- */

static void data_sheets_are_those_of_the_configs(void **state)
{
    static const char *const names[] = {"NVIDIA A100-SXM4-40GB",
                                        "NVIDIA A100-SXM4-80GB",
                                        "NVIDIA H100 PCIe",
                                        "NVIDIA H100 80GB HBM3",
                                        "NVIDIA H200",
                                        "NVIDIA B200",
                                        "NVIDIA L40S"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const struct sw_data_sheet *sheet = sw_data_sheet_find(names[i]);
        char path[256];
        struct sw_error err = {0};
        assert_non_null(sheet);
        snprintf(path, sizeof path, "configs/accelerators/%s", sheet->config);
        struct sw_config *config =
            sw_config_read(path, SW_CONFIG_ACCELERATOR, &sw_launchers, NULL, 0, &err);
        const struct sw_accelerator_config *a = sw_config_accelerator(config);
        assert_non_null(a);
        within(sheet->bf16_flops, a->peak_bf16_flops, 1e-12);
        within(sheet->memory_bandwidth, a->memory_bandwidth, 1e-12);
        sw_config_free(config);
    }
    assert_null(sw_data_sheet_find("NVIDIA H100"));
}

static void peaks_are_the_data_sheets(void **state)
{
    const struct sw_data_sheet *sheet = sw_data_sheet_find("NVIDIA H200");
    struct sw_fake_gpu gpu;
    struct sw_kernel_rates rates;
    struct sw_calibration c, best;
    struct sw_error err = {0};
    (void)state;
    sw_fake_gpu_init(&gpu);
    measure(&gpu, 0.01, &rates);
    assert_int_equal(sw_gpu_calibration(&rates, 1, NULL, &best, &err), 0);
    assert_int_equal(sw_gpu_calibration(&rates, 1, sheet, &c, &err), 0);
    within(c.bf16_flops, 989e12, 1e-12);
    within(c.memory_bandwidth, 4.8e12, 1e-12);
    within(c.fp32_flops, 989e12 * gpu.fp32_flops / gpu.bf16_flops, rate_tolerance);
    for (int32_t k = 0; k < SW_RATE_COUNT; k++)
        for (int32_t i = 0; i < c.curve[k].count; i++) {
            const double of_sheet =
                k == SW_RATE_MEMORY ? best.memory_bandwidth / 4.8e12 : best.bf16_flops / 989e12;
            const double share = best.curve[k].point[i].fraction;
            if (share < 1)
                within(c.curve[k].point[i].fraction, share * of_sheet, 1e-12);
            else /* cut */
                assert_true(c.curve[k].point[i].fraction >= of_sheet * (1 - 1e-12));
        }
    /* from a cache, faster than the data sheet's memory: no share is over 1 */
    gpu.bandwidth = 6e12;
    measure(&gpu, 0.01, &rates);
    assert_int_equal(sw_gpu_calibration(&rates, 1, sheet, &c, &err), 0);
    const struct sw_calibration_curve *memory = &c.curve[SW_RATE_MEMORY];
    within(memory->point[memory->count - 1].fraction, 1, 1e-12);
}

/* ---- What is written ---- */

struct texts {
    struct sw_calibration calibration;
    struct sw_calibration_facts facts;
};

static void write_profile(FILE *out, const void *context)
{
    const struct texts *t = context;
    sw_calibration_write_profile(out, &t->calibration, &t->facts);
}

static void write_cluster(FILE *out, const void *context)
{
    const struct texts *t = context;
    sw_calibration_write_cluster(out, &t->calibration, &t->facts);
}

/* A run of a Llama of 3072 (no shape has that), on one GPU. */
static const char run_text[] =
    "name: other\n"
    "model: {vocab_size: 50304, hidden_size: 3072, intermediate_size: 8192,\n"
    "        num_hidden_layers: 3, num_attention_heads: 24, num_key_value_heads: 8}\n"
    "cluster: gpus.yaml\n"
    "sequence_length: 4096\n"
    "global_batch_size: 2\n"
    "mesh_dim: '1,1,1,1'\n";

/* Seconds of a replayed step of a run on the stand-in. */
static double step_seconds(struct sw_fake_gpu *gpu, struct sw_program *program)
{
    struct sw_comm *alone = NULL;
    struct sw_executor *executor = NULL;
    struct sw_error err = {0};
    const struct sw_program_set set = {.program[SW_PROGRAM_TRAIN] = program,
                                       .arena_bytes = program->arena_bytes};
    double begin = 0;
    assert_int_equal(sw_comm_single_create(&alone, &err), 0);
    assert_int_equal(sw_executor_create(&set, &gpu->base, alone, NULL, &executor, &err), 0);
    for (int64_t step = 1; step <= 3; step++) {
        begin = gpu->clock_s;
        assert_int_equal(sw_rate_step(executor, 1, step, &err), 0);
    }
    sw_executor_free(executor);
    alone->vtable->destroy(alone);
    return gpu->clock_s - begin;
}

/* The sum over its ops of what they are priced at by themselves. */
static double priced_seconds(const struct sw_program *program, const struct sw_run_config *run)
{
    double seconds = 0;
    for (int32_t r = 0; r < program->region_count; r++) {
        const struct sw_region *region = &program->regions[r];
        for (int32_t i = region->first_op; i < region->first_op + region->op_count; i++)
            seconds +=
                region->repeat * sw_cost_op_seconds(program, &program->ops[i], &run->cluster, NULL);
    }
    return seconds;
}

static void what_is_written_prices_another_program(void **state)
{
    const struct sw_link_rates inside = {.latency_s = 4e-6,
                                         .bandwidth = 360e9,
                                         .count = 2,
                                         .point = {{16384, 0.1}, {1e8, 1}},
                                         .rings = true,
                                         .rails = true};
    struct texts t = {.facts = {.accelerator_name = "gpu",
                                .known = true,
                                .cluster_name = "gpus",
                                .versions = "tests",
                                .device = SW_DEVICE_CUDA,
                                .basis = "# a comment\n",
                                .compute_units = 132,
                                .nodes = 1,
                                .ranks_per_node = 8,
                                .threads = 4,
                                .memory_bytes = 150000000000,
                                .reserved_bytes = 1999999999,
                                .profile_path = "gpu.yaml",
                                .partition = "gpu",
                                .inside = &inside}};
    struct sw_fake_gpu gpu;
    struct sw_kernel_rates rates;
    struct sw_error err = {0};
    (void)state;
    sw_fake_gpu_init(&gpu);
    measure(&gpu, LONG, &rates);
    assert_int_equal(
        sw_gpu_calibration(&rates, 1, sw_data_sheet_find("NVIDIA H200"), &t.calibration, &err), 0);
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(sw_calibration_save("gpu.yaml", write_profile, &t, &err), 0);
    assert_int_equal(sw_calibration_save("gpus.yaml", write_cluster, &t, &err), 0);
    struct sw_config *config = sw_config_read_text("run.yaml", run_text, sizeof run_text - 1,
                                                   SW_CONFIG_RUN, &sw_launchers, NULL, 0, &err);
    assert_int_equal(chdir(root), 0);
    if (sw_config_diagnostic_count(config) > 0)
        fail_msg("%s", sw_config_diagnostic(config, 0)->message);
    const struct sw_run_config *run = sw_config_run(config);
    const struct sw_accelerator_config *a = &run->cluster.accelerator;
    assert_int_equal(a->device, SW_DEVICE_CUDA);
    assert_int_equal(a->memory_bytes, 150000000000);
    assert_int_equal(a->reserved_memory_bytes, 2000000000);
    assert_int_equal(a->compute_units, 132);
    within(a->peak_bf16_flops, 989e12, 1e-12);
    assert_string_equal(run->cluster.profile.name, "shardwright");
    assert_string_equal(run->cluster.profile.accelerator, "gpu");
    assert_string_equal(sw_slurm_settings(&run->cluster)->gpus_per_node, "8");
    assert_int_equal(run->cluster.link_count, 1);
    assert_false(run->cluster.link[0].direct);
    assert_true(run->cluster.link[0].rails);

    struct sw_decision decision = {.mesh = sw_mesh_make(1, 1, 1, 1),
                                   .train.micro_batch_size = 2,
                                   .train.accumulation_steps = 1};
    struct sw_program_options options;
    struct sw_program *program = NULL;
    assert_int_equal(sw_plan_program_options(run, &decision, &options, &err), 0);
    assert_int_equal(sw_program_compile(&options, SW_LAID_OUT, &program, &err), 0);
    /* even rates: what is left are the curves' four digits and a little of the launch */
    within(priced_seconds(program, run), step_seconds(&gpu, program), 0.02);
    sw_program_free(program);
    sw_config_free(config);
}

/* ---- Ranks as threads ---- */

struct rank {
    struct sw_comm *comm;
    struct sw_fake_gpu gpu;
    struct sw_kernel_rates rates;
    struct sw_link_rates inside, across;
    int result;
    struct sw_error err;
    pthread_t thread;
};

static void *measure_kernels(void *argument)
{
    struct rank *r = argument;
    int32_t count;
    const struct sw_gpu_shape *shapes = sw_gpu_shapes(&count);
    r->result = sw_gpu_kernels(&r->gpu.base, r->comm, LONG, shapes, count, &r->rates, &r->err);
    r->comm->vtable->destroy(r->comm);
    return NULL;
}

static int64_t twenty_mib(struct sw_device *device)
{
    (void)device;
    return 20 << 20;
}

static int64_t one_gib(struct sw_device *device)
{
    (void)device;
    return 1 << 30;
}

static void *measure_links(void *argument)
{
    struct rank *r = argument;
    const struct sw_gpu_level in_node = {.parts = 2}, across = {.parts = 2, .members = 2};
    struct sw_device *cpu = sw_cpu_device_create(1, &r->err); /* memory that threads share */
    if (cpu != NULL) {
        const struct sw_device_vtable *before = cpu->vtable;
        struct sw_device_vtable table = *before;
        table.free_bytes = r->comm->rank == 3 ? twenty_mib : one_gib;
        cpu->vtable = &table;
        r->result = sw_gpu_link(cpu, r->comm, &in_node, 0.1, &r->inside, &r->err) != 0 ||
                            sw_gpu_link(cpu, r->comm, &across, 0.1, &r->across, &r->err) != 0
                        ? -1
                        : 0;
        cpu->vtable = before;
        cpu->vtable->destroy(cpu);
    }
    r->comm->vtable->destroy(r->comm);
    return NULL;
}

static void run_ranks(const struct sw_mesh *mesh, struct rank *ranks, int32_t count,
                      void *(*function)(void *))
{
    struct sw_comm *comms[4];
    struct sw_error err = {0};
    assert_int_equal(sw_comm_threads_create(mesh, comms, &err), 0);
    for (int32_t i = 0; i < count; i++) {
        ranks[i].comm = comms[i];
        assert_int_equal(pthread_create(&ranks[i].thread, NULL, function, &ranks[i]), 0);
    }
    for (int32_t i = 0; i < count; i++)
        pthread_join(ranks[i].thread, NULL);
    for (int32_t i = 0; i < count; i++)
        if (ranks[i].result != 0)
            fail_msg("%s", ranks[i].err.message);
}

static void ranks_measure_the_same_shapes(void **state)
{
    const struct sw_mesh mesh = sw_mesh_make(1, 1, 2, 1);
    struct rank *ranks = calloc(2, sizeof *ranks);
    struct sw_calibration c;
    struct sw_error err = {0};
    (void)state;
    assert_non_null(ranks);
    sw_fake_gpu_init(&ranks[0].gpu);
    sw_fake_gpu_init(&ranks[1].gpu);
    ranks[1].gpu.memory_bytes = 16LL << 30; /* somebody else has the rest */
    run_ranks(&mesh, ranks, 2, measure_kernels);
    assert_int_equal(ranks[0].gpu.arenas, ranks[1].gpu.arenas);
    assert_int_equal(ranks[0].rates.programs, 2 * ranks[0].gpu.arenas);
    assert_memory_equal(&ranks[0].rates, &ranks[1].rates, sizeof ranks[0].rates);
    assert_int_equal(sw_gpu_calibration(&ranks[0].rates, 2, NULL, &c, &err), 0);
    within(c.launch_latency_s, ranks[0].gpu.launch_s, launch_tolerance);
    within(c.bf16_flops, ranks[0].gpu.bf16_flops, rate_tolerance);
    free(ranks);
}

static void check_link(const struct sw_link_rates *r)
{
    double best = 0;
    assert_true(r->rings);
    assert_true(r->count >= 4 && r->latency_s > 0 && r->bandwidth > 1e6);
    for (int32_t i = 0; i < r->count; i++) {
        assert_true(r->point[i].fraction > 0 && r->point[i].fraction <= 1);
        assert_true(i == 0 || r->point[i].bytes > r->point[i - 1].bytes);
        best = r->point[i].fraction > best ? r->point[i].fraction : best;
    }
    within(best, 1, 1e-12);
}

static void every_rank_finds_the_same_links(void **state)
{
    const struct sw_mesh mesh = sw_mesh_make(2, 1, 2, 1);
    struct rank *ranks = calloc(4, sizeof *ranks);
    (void)state;
    assert_non_null(ranks);
    run_ranks(&mesh, ranks, 4, measure_links);
    for (int32_t i = 0; i < 4; i++) {
        assert_memory_equal(&ranks[i].inside, &ranks[0].inside, sizeof ranks[0].inside);
        assert_memory_equal(&ranks[i].across, &ranks[0].across, sizeof ranks[0].across);
    }
    check_link(&ranks[0].inside);
    check_link(&ranks[0].across);
    /* 1 MB, and what a size between two is: three times 8 MB are more than the last rank has */
    assert_true(ranks[0].inside.point[ranks[0].inside.count - 1].bytes < 2e6);
    assert_true(ranks[0].inside.rails);
    free(ranks);
}

/* Collectives over the ranks of a node, or (level 1) over everyone, with only that level's links
 * taking time. */
static void check_level(int32_t nodes, int32_t local, int32_t level, bool direct)
{
    static const enum sw_collective kinds[] = {SW_ALL_GATHER, SW_REDUCE_SCATTER, SW_ALL_REDUCE};
    const double bytes = 1e9, latency = 1e-3, bandwidth = 1e10;
    struct sw_cluster_config cluster = {
        .nodes = nodes, .accelerators_per_node = local, .link_count = 2};
    for (int32_t l = 0; l < 2; l++)
        cluster.link[l] = (struct sw_link_config){.spans = l == 0 ? local : nodes * local,
                                                  .bandwidth = l == level ? bandwidth : 1e30,
                                                  .latency_s = l == level ? latency : 0,
                                                  .efficiency = {.count = 1, .point = {{1, 1}}},
                                                  .direct = direct};
    const struct sw_gpu_level here = {
        .parts = level == 0 ? local : nodes, .members = level == 0 ? 0 : local, .direct = direct};
    const struct sw_axes axes =
        level == 0 ? (struct sw_axes){1, {SW_TP}} : (struct sw_axes){2, {SW_DP, SW_TP}};
    const struct sw_mesh mesh = sw_mesh_make(nodes, 1, local, 1);
    struct sw_span span;
    sw_links_span(&cluster, &mesh, axes, &span);
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        const double share = level == 0 ? 1 : sw_gpu_link_share(&here, kinds[k]);
        within(sw_gpu_link_steps(&here, kinds[k]) * latency + bytes * share / bandwidth,
               sw_links_seconds(&cluster, &span, kinds[k], bytes), 1e-9);
    }
}

/* The same steps and shares as core/cost/links.c prices with. */
static void links_are_counted_as_they_are_priced(void **state)
{
    (void)state;
    for (int32_t nodes = 1; nodes <= 5; nodes++)
        for (int32_t local = 2; local <= 8; local *= 2)
            for (int32_t level = 0; level < (nodes > 1 ? 2 : 1); level++) {
                check_level(nodes, local, level, false);
                check_level(nodes, local, level, true);
            }
}

/* No fewer bytes than asked for, and with one block less for each member, fewer. */
static void elements_send_what_was_asked(void **state)
{
    (void)state;
    for (int32_t group = 2; group <= 12; group++)
        for (int32_t k = 0; k < SW_LINK_KINDS; k++)
            for (int64_t bytes = 64; bytes < 1 << 30; bytes = bytes * 8 + 1) {
                const enum sw_collective kind = sw_link_kinds[k];
                const int64_t elems = sw_link_elems(kind, group, bytes);
                assert_int_equal(elems % group, 0);
                assert_true(sw_link_bytes(kind, group, elems) >= bytes);
                assert_true(elems == group || sw_link_bytes(kind, group, elems - group) < bytes);
            }
}

static void rails_are_told_by_a_lone_sender(void **state)
{
    const struct sw_gpu_level eight = {.parts = 4, .members = 8}, one = {.parts = 4, .members = 1};
    (void)state;
    assert_true(sw_gpu_link_rails(&eight, 1.1));  /* its own port only */
    assert_false(sw_gpu_link_rails(&eight, 7.5)); /* the whole node's */
    assert_true(sw_gpu_link_rails(&one, 1.0));
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: test_calibrate_gpu FOLDER\n");
        return 2;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_figures_are_the_devices),
        cmocka_unit_test(what_marks_take_is_not_the_ops),
        cmocka_unit_test(shapes_keep_to_the_memory),
        cmocka_unit_test(shapes_keep_to_the_time),
        cmocka_unit_test(a_device_without_marks_is_refused),
        cmocka_unit_test(data_sheets_are_those_of_the_configs),
        cmocka_unit_test(peaks_are_the_data_sheets),
        cmocka_unit_test(what_is_written_prices_another_program),
        cmocka_unit_test(ranks_measure_the_same_shapes),
        cmocka_unit_test(every_rank_finds_the_same_links),
        cmocka_unit_test(links_are_counted_as_they_are_priced),
        cmocka_unit_test(elements_send_what_was_asked),
        cmocka_unit_test(rails_are_told_by_a_lone_sender),
    };
    char command[2200];
    snprintf(folder, sizeof folder, "%s/calibrate_gpu.%d", argv[1], (int)getpid());
    if (getcwd(root, sizeof root) == NULL || mkdir(folder, 0755) != 0) {
        perror(folder);
        return 3;
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command) == 0 && failed == 0 ? 0 : 1;
}
