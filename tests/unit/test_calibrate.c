/* `runner calibrate`: what it makes of measurements, what it writes, and the tool itself.
 *
 *   test_calibrate RUNNER FOLDER MPIRUN|none [busy]
 *
 * busy: only what is made of a busy machine, which nobody need keep quiet for it. */
#include "core/config/config.h"
#include "runner/calibrate/attention.h"
#include "runner/calibrate/sanity.h"
#include "runner/calibrate/products.h"
#include "runner/calibrate/write.h"
#include "runner/collective/comm.h"
#include "planner/scheduler/scheduler.h"
#include "planner/scheduler/slurm/settings.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

static const char *runner, *mpirun;
static char folder[2048]; /* made for this run; the working directory */

static void close_to(double a, double b)
{
    if (!(a > b * (1 - 1e-9) && a < b * (1 + 1e-9)))
        fail_msg("%.12g is not %.12g", a, b);
}

/* ---- From sums to figures ---- */

static void a_bucket_is_a_power_of_two(void **state)
{
    (void)state;
    assert_int_equal(sw_rate_bucket_index(0), 0);
    assert_int_equal(sw_rate_bucket_index(1024), 0);
    assert_int_equal(sw_rate_bucket_index(2047), 0);
    assert_int_equal(sw_rate_bucket_index(2048), 1);
    assert_int_equal(sw_rate_bucket_index(1e300), SW_RATE_BUCKETS - 1);
}

static void add(struct sw_kernel_rates *rates, enum sw_rate_kind kind, double calls, double size,
                double seconds)
{
    struct sw_rate_bucket *bucket = &rates->bucket[kind][sw_rate_bucket_index(size)];
    bucket->calls += calls;
    bucket->size += calls * size;
    bucket->seconds += calls * seconds;
}

/* Two ranks that had a core half of the time; every op takes 1 us besides its work. */
static struct sw_kernel_rates example(void)
{
    struct sw_kernel_rates rates = {.wall_seconds = 8,
                                    .busy_seconds = 4,
                                    .fp32_seconds = 3,
                                    .bf16_seconds = 1.5,
                                    .least_seconds = 2 * 0.5e-6};
    add(&rates, SW_RATE_MATMUL, 10, 1e6, (1e6 / 10e9 + 1e-6) / 2);
    add(&rates, SW_RATE_MATMUL, 3, 1e9, (1e9 / 40e9 + 1e-6) / 2);
    add(&rates, SW_RATE_ATTENTION, 5, 1e7, (1e7 / 8e9 + 1e-6) / 2);
    add(&rates, SW_RATE_ATTENTION_BACKWARD, 5, 3e7, (3e7 / 6e9 + 1e-6) / 2);
    add(&rates, SW_RATE_MEMORY, 5, 1e5, (1e5 / 2e9 + 1e-6) / 2);
    add(&rates, SW_RATE_MEMORY, 5, 1e7, (1e7 / 4e9 + 1e-6) / 2);
    return rates;
}

static void figures_give_the_times_back(void **state)
{
    (void)state;
    struct sw_calibration c;
    struct sw_error err = {0};
    const struct sw_kernel_rates rates = example();
    assert_int_equal(sw_calibration_make(&rates, 2, &c, &err), 0);
    close_to(c.share, 0.5);
    close_to(c.launch_latency_s, 1e-6);
    close_to(c.fp32_flops, 40e9);
    close_to(c.bf16_flops, 80e9);
    close_to(c.memory_bandwidth, 4e9);
    assert_int_equal(c.curve[SW_RATE_MATMUL].count, 2);
    close_to(c.curve[SW_RATE_MATMUL].point[0].size, 1e6);
    close_to(c.curve[SW_RATE_MATMUL].point[0].fraction, 0.25);
    close_to(c.curve[SW_RATE_MATMUL].point[1].fraction, 1);
    assert_int_equal(c.curve[SW_RATE_ATTENTION].count, 1);
    close_to(c.curve[SW_RATE_ATTENTION].point[0].fraction, 0.2);    /* of the matmul peak */
    assert_int_equal(c.curve[SW_RATE_ATTENTION_BACKWARD].count, 1); /* its own rate */
    close_to(c.curve[SW_RATE_ATTENTION_BACKWARD].point[0].fraction, 0.15);
    close_to(c.curve[SW_RATE_MEMORY].point[0].fraction, 0.5);
}

/* Eight ranks on two cores have a quarter each: what is less than 0.4 of that is not believed. */
static void what_cannot_be_is_doubted(void **state)
{
    (void)state;
    const struct sw_calibration alone = {.share = 0.45, .memory_bandwidth = 14e9},
                                shared = {.share = 0.12, .memory_bandwidth = 14e9},
                                gpu = {.memory_bandwidth = 3.35e12};
    const struct sw_link_rates fast = {.latency_s = 99e-6, .bandwidth = 463e9},
                               slow = {.latency_s = 99e-6, .bandwidth = 13e9};
    struct sw_sanity d;
    sw_calibration_check(&alone, 1, &slow, NULL, &d);
    assert_int_equal(d.count, 0);
    sw_calibration_check(&shared, 0.25, NULL, &slow, &d);
    assert_int_equal(d.count, 0);
    sw_calibration_check(&gpu, 0, &fast, &slow, &d);
    assert_int_equal(d.count, 0);
    assert_true(d.band_low == 0 && d.band_high == 0);
    sw_calibration_check(&shared, 1, &slow, NULL, &d);
    assert_int_equal(d.count, 1);
    assert_string_equal(d.text[0],
                        "other programs took the processors: a rank's thread ran for 12 % "
                        "of its time, where an idle machine lets it run for 100 %");
    close_to(d.band_low, 0.7 * 0.12);
    close_to(d.band_high, 1.3);
    sw_calibration_check(&alone, 1, &fast, NULL, &d);
    assert_int_equal(d.count, 1);
    assert_string_equal(d.text[0],
                        "463 GB/s with 99 us inside a node, where a rank's memory does 14 GB/s");
    close_to(d.band_low, 0.7);
    close_to(d.band_high, 1.3 * 463 / 14);
    sw_calibration_check(&shared, 1, &fast, &fast, &d);
    assert_int_equal(d.count, 3);
    assert_string_equal(d.text[2],
                        "463 GB/s with 99 us between nodes, where a rank's memory does 14 GB/s");
    close_to(d.band_low, 0.7 * 0.12);
    close_to(d.band_high, 1.3 * 463 / 14);
    /* of one kind alone, which the mean hides */
    struct sw_link_rates one = {
        .latency_s = 99e-6,
        .bandwidth = 20970e9,
        .count = 1,
        .point = {{1e6, 6e-4}},
        .curves = 2,
        .curve = {{SW_ALL_GATHER, 2, {{1e6, 5e-4}}}, {SW_ALL_REDUCE, 4, {{1e6, 1}}}}};
    sw_calibration_check(&alone, 1, NULL, &one, &d);
    assert_int_equal(d.count, 1);
    assert_string_equal(d.text[0], "2.1e+04 GB/s of all_reduce over 4 ranks between nodes, where a "
                                   "rank's memory does 14 GB/s");
    close_to(d.band_high, 100);
    one.curve[1].point[0].fraction = 50.0 / 20970; /* messages in caches */
    sw_calibration_check(&alone, 1, NULL, &one, &d);
    assert_int_equal(d.count, 0);
    char text[160];
    assert_string_equal(sw_calibration_check_step(0.1, 0.129, text), "");
    assert_string_equal(sw_calibration_check_step(82e-3, 211e-3, text),
                        "the step took 2.6 times as long as predicted, where 0.7 to 1.3 is usual; "
                        "measure again when nothing else runs");
    assert_string_equal(sw_calibration_check_step(0.1, 0.06, text),
                        "the step took 0.6 times as long as predicted, where 0.7 to 1.3 is usual; "
                        "measure again when nothing else runs");
}

/* Two of the programs, as two ranks add them up: each product takes 1 us besides its work. */
static void few_rows_are_told_by_rows_and_bytes(void **state)
{
    (void)state;
    struct sw_calibration c;
    struct sw_error err = {0};
    struct sw_kernel_rates rates = example();
    assert_int_equal(sw_calibration_make(&rates, 2, &c, &err), 0);
    assert_int_equal(c.skinny_gemm[0][0].count, 0);
    rates.skinny_gemm = (struct sw_skinny_gemm_rates){.wall_seconds = 3, .busy_seconds = 1.5};
    /* 1 MB in each of 10 calls at 5 GB/s, one row, large; then at 10, small; 4 rows at 2 */
    rates.skinny_gemm.bucket[0][0][0][0] =
        (struct sw_skinny_gemm_bucket){10, 10e6, 10 * (1e6 / 5e9 + 1e-6) / 2, 10 * 3e8};
    rates.skinny_gemm.bucket[0][0][0][1] =
        (struct sw_skinny_gemm_bucket){10, 10e6, 10 * (1e6 / 10e9 + 1e-6) / 2, 10 * 2e6};
    rates.skinny_gemm.bucket[0][0][2][0] =
        (struct sw_skinny_gemm_bucket){10, 10e6, 10 * (1e6 / 2e9 + 1e-6) / 2, 10 * 3e8};
    assert_int_equal(sw_calibration_make(&rates, 2, &c, &err), 0);
    assert_int_equal(c.skinny_gemm[0][0].count, 3);
    assert_int_equal(c.skinny_gemm[1][0].count, 0);
    static const double wanted[3][3] = {{1, 2e6, 10e9}, {1, 3e8, 5e9}, {4, 3e8, 2e9}};
    for (int32_t i = 0; i < 3; i++) {
        close_to(c.skinny_gemm[0][0].point[i].rows, wanted[i][0]);
        close_to(c.skinny_gemm[0][0].point[i].bytes, wanted[i][1]);
        close_to(c.skinny_gemm[0][0].point[i].bandwidth, wanted[i][2]);
    }
}

static void what_was_not_measured_is_an_error(void **state)
{
    (void)state;
    struct sw_calibration c;
    struct sw_error err = {0};
    struct sw_kernel_rates rates = {0};
    assert_int_equal(sw_calibration_make(&rates, 1, &c, &err), -1);
    assert_string_equal(err.message, "nothing was measured");
    rates = example();
    memset(rates.bucket[SW_RATE_ATTENTION], 0, sizeof rates.bucket[0]);
    err = (struct sw_error){0};
    assert_int_equal(sw_calibration_make(&rates, 1, &c, &err), -1);
    assert_string_equal(err.message, "no attention was measured");
    assert_int_equal(err.status, SW_ENVIRONMENT);
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

static void expect_good(const struct sw_config *config)
{
    assert_non_null(config);
    if (sw_config_diagnostic_count(config) > 0)
        fail_msg("%s", sw_config_diagnostic(config, 0)->message);
}

static void fill_grids(struct sw_calibration *c)
{
    struct sw_products *products = &c->products[SW_PRODUCT_LINEAR_T][SW_RATE_FP32];
    sw_products_sizes(SW_PRODUCT_LINEAR_T, 3, products);
    for (int32_t i = 0; i < sw_products_points(products); i++)
        products->share[i] = 0.5;
    c->products_scale = (struct sw_curve){2, {{1e8, 1.25}, {1e9, 0.95}}};
    c->angle_time_s = 15e-9;
    struct sw_products *attention = &c->attention_by_size[SW_ATTENTION_CACHED][1];
    sw_attention_sizes(SW_ATTENTION_CACHED, 2, attention);
    for (int32_t i = 0; i < sw_products_points(attention); i++)
        attention->share[i] = 0.25;
    c->attention_scale = (struct sw_curve){2, {{1e8, 1.5}, {1e9, 0.875}}};
    c->attention_error = 0.03125;
    c->attention_signed_error = -0.015625;
    c->products_error = 0.0625;
    c->products_signed_error = 0.046875;
}

static void expect_grids(const struct sw_profile_config *p)
{
    const struct sw_products *grid = p->products[SW_PRODUCT_LINEAR_T][SW_RATE_FP32];
    assert_non_null(grid);
    assert_null(p->products[SW_PRODUCT_LINEAR][SW_RATE_FP32]);
    assert_true(grid->rows == 3 && grid->columns == SW_PRODUCT_WIDTHS && grid->row[2] == 512);
    close_to(grid->share[sw_products_points(grid) - 1], 0.5);
    assert_int_equal(p->products_scale.count, 2);
    close_to(p->products_scale.point[0].fraction, 1.25);
    close_to(p->products_scale.point[1].fraction, 0.95);
    close_to(p->angle_time_s, 15e-9);
    const struct sw_products *cached = p->attention_by_size[SW_ATTENTION_CACHED][SW_RATE_BF16];
    assert_null(p->attention_by_size[SW_ATTENTION_FORWARD][SW_RATE_BF16]);
    assert_true(cached != NULL && cached->columns == 2 && cached->row[0] == 1);
    close_to(cached->share[7], 0.25);
    close_to(p->attention_scale.point[1].fraction, 0.875);
    close_to(p->attention_error, 0.0312); /* three digits */
    close_to(p->products_error, 0.0625);
    close_to(-p->attention_signed_error.mean, 0.0156);
    close_to(p->products_signed_error.mean, 0.0469);
}

static void expect_four_nodes(const struct sw_cluster_config *cluster)
{
    assert_int_equal(cluster->nodes, 4);
    assert_int_equal(cluster->accelerators_per_node, 2);
    assert_string_equal(sw_scheduler_of(cluster)->name, "slurm");
    assert_string_equal(sw_slurm_settings(cluster)->partition, "play");
    assert_int_equal(sw_slurm_settings(cluster)->cpus_per_task, 3);
    assert_int_equal(cluster->link_count, 2);
    assert_int_equal(cluster->link[0].spans, 2);
    close_to(cluster->link[0].bandwidth, 4e9);
    close_to(cluster->link[0].latency_s, 2e-6);
    assert_int_equal(cluster->link[0].efficiency.count, 2);
    close_to(cluster->link[0].efficiency.point[0].fraction, 0.25);
    assert_int_equal(cluster->link[1].spans, 8);
    assert_true(cluster->link[1].direct);
    close_to(cluster->link[1].bandwidth, 25e6);
    const struct sw_collective_curves *own = cluster->link[1].collectives;
    assert_true(cluster->link[0].collectives == NULL && own != NULL);
    assert_int_equal(own->count, 3);
    assert_true(own->of[1].kind == SW_ALL_GATHER && own->of[1].ranks == 8);
    close_to(own->of[1].curve.point[0].size, 3584);
    close_to(own->of[1].curve.point[0].fraction, 0.625);
    assert_true(own->of[2].kind == SW_ALL_REDUCE && own->of[2].curve.count == 1);
    const struct sw_accelerator_config *a = &cluster->accelerator;
    assert_string_equal(a->name, "rank");
    assert_int_equal(a->memory_bytes, 2000000000);
    assert_int_equal(a->reserved_memory_bytes, 100000000);
    close_to(a->peak_fp32_flops, 40e9);
    close_to(a->peak_bf16_flops, 80e9);
}

static void plan_reads_what_is_written(void **state)
{
    (void)state;
    const struct sw_link_rates inside = {
        .latency_s = 2e-6, .bandwidth = 4e9, .count = 2, .point = {{4096, 0.25}, {1e6, 1}}};
    const struct sw_link_rates across = {.latency_s = 50e-6,
                                         .bandwidth = 25e6,
                                         .count = 1,
                                         .point = {{4096, 0.75}},
                                         .curves = 3,
                                         .curve = {{SW_ALL_GATHER, 4, {{4096, 0.5}}},
                                                   {SW_ALL_GATHER, 8, {{3584, 0.625}}},
                                                   {SW_ALL_REDUCE, 4, {{4096, 1}}}}};
    struct texts t = {.facts = {.accelerator_name = "rank",
                                .cluster_name = "four-nodes",
                                .versions = "tests",
                                .device = SW_DEVICE_CPU,
                                .nodes = 4,
                                .ranks_per_node = 2,
                                .threads = 3,
                                .memory_bytes = 2000000000,
                                .reserved_bytes = 99999999,
                                .profile_path = "o'rank: 1.yaml",
                                .partition = "play",
                                .inside = &inside,
                                .across = &across}};
    struct sw_error err = {0};
    struct sw_kernel_rates rates = example();
    rates.skinny_gemm.wall_seconds = rates.skinny_gemm.busy_seconds = 1;
    for (int32_t r = 0; r < SW_SKINNY_GEMM_COUNTS; r++)
        for (int32_t s = 0;
             s < (r + 1 < SW_SKINNY_GEMM_COUNTS ? SW_SKINNY_GEMM_SIZES : SW_SKINNY_GEMM_WIDE_SIZES);
             s++)
            rates.skinny_gemm.bucket[2][1][r][s] =
                (struct sw_skinny_gemm_bucket){1, 8e6, 1e-6 + 1e-3 * (r + 1), 1e6 * (1 << s)};
    assert_int_equal(sw_calibration_make(&rates, 2, &t.calibration, &err), 0);
    fill_grids(&t.calibration);
    assert_int_equal(sw_calibration_save("o'rank: 1.yaml", write_profile, &t, &err), 0);
    assert_int_equal(sw_calibration_save("four.yaml", write_cluster, &t, &err), 0);
    struct sw_config *config =
        sw_config_read("four.yaml", SW_CONFIG_CLUSTER, &sw_launchers, NULL, 0, &err);
    expect_good(config);
    const struct sw_cluster_config *cluster = sw_config_cluster(config);
    expect_four_nodes(cluster);
    const struct sw_accelerator_config *a = &cluster->accelerator;
    const struct sw_profile_config *p = &cluster->profile;
    assert_string_equal(p->name, "shardwright");
    assert_string_equal(p->source, "runner calibrate");
    assert_null(p->accelerator); /* of no accelerator that others know */
    close_to(p->peak_fp32_flops, 40e9);
    close_to(p->peak_bf16_flops, 80e9);
    close_to(p->memory_bandwidth, a->memory_bandwidth);
    close_to(p->launch_latency_s, 1e-6);
    assert_int_equal(p->matmul.count, 2);
    close_to(p->matmul.point[0].fraction, 0.25);
    expect_grids(p);
    assert_int_equal(p->attention_backward.count, 1);
    close_to(p->attention_backward.point[0].fraction, 0.15);
    assert_int_equal(p->skinny_gemm[0][0].count, 0);
    assert_int_equal(p->skinny_gemm[2][1].count, SW_SKINNY_GEMM_POINTS);
    close_to(p->skinny_gemm[2][1].point[SW_SKINNY_GEMM_POINTS - 1].rows, 128);
    close_to(p->skinny_gemm[2][1].point[7].rows, 2);
    close_to(p->skinny_gemm[2][1].point[7].bytes, 2e6);
    close_to(p->skinny_gemm[2][1].point[7].bandwidth, 4e9);
    sw_config_free(config);
}

static void write_badly(FILE *out, const void *context)
{
    (void)context;
    fputs("half", out);
    fflush(out);
    (void)close(fileno(out)); /* as when the disk is gone */
}

/* Those written aside, hidden ones, too. */
static int files_beside(const char *prefix)
{
    DIR *directory = opendir(".");
    assert_non_null(directory);
    int count = 0;
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
        count += strncmp(entry->d_name + (entry->d_name[0] == '.'), prefix, strlen(prefix)) == 0;
    closedir(directory);
    return count;
}

static void a_failed_write_leaves_the_old_file(void **state)
{
    (void)state;
    struct sw_error err = {0};
    FILE *old = fopen("kept.yaml", "w");
    assert_non_null(old);
    fputs("old\n", old);
    fclose(old);
    assert_int_equal(sw_calibration_save("kept.yaml", write_badly, NULL, &err), -1);
    assert_int_equal(err.status, SW_ENVIRONMENT);
    assert_string_equal(err.message, "cannot write 'kept.yaml': Bad file descriptor");
    assert_int_equal(files_beside("kept.yaml"), 1);
    char text[8] = "";
    old = fopen("kept.yaml", "r");
    assert_non_null(fgets(text, sizeof text, old));
    fclose(old);
    assert_string_equal(text, "old\n");
}

/* ---- Links, over ranks that are threads ---- */

struct rank {
    struct sw_comm *comm;
    struct sw_link_rates rates;
    double sum[2], share, half_share, quarter_share;
    int result;
    struct sw_error err;
    pthread_t thread;
};

static int32_t usable_cores(void)
{
    cpu_set_t usable;
    assert_int_equal(sched_getaffinity(0, sizeof usable, &usable), 0);
    return CPU_COUNT(&usable);
}

static void *rank_main(void *argument)
{
    struct rank *r = argument;
    const struct sw_link_group group = {.axes = {1, {SW_DP}}, .share = 1};
    r->sum[0] = r->comm->rank;
    r->sum[1] = 0.5;
    r->result = sw_calibrate_sum(r->comm, r->sum, 2, &r->err);
    const int32_t cores = usable_cores();
    if (r->result == 0)
        r->result = sw_calibrate_fair_share(r->comm, 1, 7, cores, &r->share, &r->err);
    if (r->result == 0) /* each alone on its node, with two threads for a core */
        r->result = sw_calibrate_fair_share(r->comm, 2, 7 + (uint64_t)r->comm->rank, 2 * cores,
                                            &r->half_share, &r->err);
    if (r->result == 0) /* two nodes of one machine */
        r->result = sw_calibrate_fair_share(r->comm, 2, 7, 2 * cores, &r->quarter_share, &r->err);
    if (r->result == 0)
        r->result = sw_calibrate_link(r->comm, &group, 1, 0.4, &r->rates, &r->err);
    r->comm->vtable->destroy(r->comm);
    return NULL;
}

static void every_rank_finds_the_same_link(void **state)
{
    (void)state;
    enum { RANKS = 2 };
    const struct sw_mesh mesh = sw_mesh_make(RANKS, 1, 1, 1);
    struct sw_comm *comms[RANKS];
    struct rank ranks[RANKS] = {0};
    struct sw_error err = {0};
    assert_int_equal(sw_comm_threads_create(&mesh, comms, &err), 0);
    for (int32_t i = 0; i < RANKS; i++) {
        ranks[i].comm = comms[i];
        assert_int_equal(pthread_create(&ranks[i].thread, NULL, rank_main, &ranks[i]), 0);
    }
    for (int32_t i = 0; i < RANKS; i++)
        pthread_join(ranks[i].thread, NULL);
    for (int32_t i = 0; i < RANKS; i++) {
        if (ranks[i].result != 0)
            fail_msg("%s", ranks[i].err.message);
        close_to(ranks[i].sum[0], 1);
        close_to(ranks[i].sum[1], 1);
        close_to(ranks[i].share, 0.5); /* of a core for each thread, if both have all cores */
        close_to(ranks[i].half_share, 0.5);
        close_to(ranks[i].quarter_share, 0.25);
        assert_memory_equal(&ranks[i].rates, &ranks[0].rates, sizeof ranks[0].rates);
    }
    const struct sw_link_rates *r = &ranks[0].rates;
    assert_true(r->count >= 4 && r->latency_s > 0 && r->bandwidth > 1e6);
    double best = 0;
    for (int32_t i = 0; i < r->count; i++) {
        assert_true(r->point[i].fraction > 0 && r->point[i].fraction <= 1);
        assert_true(i == 0 || r->point[i].bytes > r->point[i - 1].bytes);
        best = r->point[i].fraction > best ? r->point[i].fraction : best;
    }
    assert_int_equal(r->curves, SW_LINK_KINDS);
    for (int32_t c = 0; c < r->curves; c++) {
        assert_true(r->curve[c].kind == sw_link_kinds[c] && r->curve[c].ranks == RANKS);
        for (int32_t i = 0; i < r->count; i++)
            best = r->curve[c].point[i].fraction > best ? r->curve[c].point[i].fraction : best;
    }
    close_to(best, 1);
}

/* Kinds and groups that share a link do not get the same of it, which their mean would hide. */
static void kinds_have_rates_of_their_own(void **state)
{
    (void)state;
    const struct sw_link_measured mean = {1e6, 1e6, 0.101, 1}, fast = {1e6, 1e6, 0.052, 2},
                                  slow = {1e6, 1e6, 0.126, 1};
    struct sw_link_rates r = {.latency_s = 1e-3};
    sw_link_points(&r, &mean, 1);
    sw_link_add_curve(&r, SW_ALL_GATHER, 4, &mean, &slow, 1);
    close_to(r.bandwidth, 1e7);
    close_to(r.curve[0].point[0].fraction, 0.8);
    sw_link_add_curve(&r, SW_ALL_REDUCE, 4, &mean, &fast, 1);
    close_to(r.bandwidth, 2e7);
    close_to(r.point[0].fraction, 0.5);
    close_to(sw_link_reached(&r), 1e7); /* of which doubts are */
    close_to(r.curve[0].point[0].fraction, 0.4);
    close_to(r.curve[1].point[0].fraction, 1);
    assert_true(r.curves == 2 && r.curve[1].kind == SW_ALL_REDUCE && r.curve[1].ranks == 4);
    /* 1 ms of 1.5 is latency: what one kind took less of it is noise */
    const struct sw_link_measured small = {1e3, 1e3, 1.5e-3, 1}, noise = {2e3, 2e3, 1e-6, 1};
    struct sw_link_rates waits = {.latency_s = 1e-3};
    sw_link_points(&waits, &small, 1);
    sw_link_add_curve(&waits, SW_REDUCE_SCATTER, 8, &small, &noise, 1);
    close_to(waits.bandwidth, 2e6);
    close_to(waits.curve[0].point[0].fraction, 1);
    close_to(waits.curve[0].point[0].bytes, 2e3);
    /* a kind whose time told nothing has what all have in the mean */
    const struct sw_link_measured untold = {2e6, 2e6, 0, 1};
    sw_link_add_curve(&r, SW_REDUCE_SCATTER, 4, &mean, &untold, 1);
    close_to(r.bandwidth, 2e7);
    close_to(r.curve[2].point[0].fraction, r.point[0].fraction);
}

/* Two ranks of which one is a stand-in: calls take what 1 GB/s does, and the time between two
 * barriers without a call, which is work alone, is longer where another program ran then. */
struct noisy {
    struct sw_comm base;
    enum sw_collective kind; /* whose work is disturbed, or every kind's */
    bool every, called;
    bool disturbs; /* of the newest call */
};

static void pass_time(double seconds)
{
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((double)(now.tv_sec - begin.tv_sec) + 1e-9 * (double)(now.tv_nsec - begin.tv_nsec) <
           seconds);
}

static int noisy_start(struct sw_comm *comm, const struct sw_collective_call *call,
                       uint64_t *ticket, struct sw_error *err)
{
    struct noisy *n = (struct noisy *)comm;
    (void)err;
    *ticket = 1;
    if (call->dtype == SW_F64) /* ranks agree */
        return 0;
    n->called = true;
    n->disturbs = n->every || call->kind == n->kind;
    pass_time((double)call->elems[0] * 4e-9);
    return 0;
}

static int noisy_wait(struct sw_comm *comm, uint64_t ticket, struct sw_error *err)
{
    (void)comm;
    (void)ticket;
    (void)err;
    return 0;
}

static int noisy_barrier(struct sw_comm *comm, struct sw_error *err)
{
    struct noisy *n = (struct noisy *)comm;
    (void)err;
    if (!n->called && n->disturbs)
        (void)usleep(60000); /* longer than anything else that runs here lets the calls wait */
    n->called = false;
    return 0;
}

static void what_took_no_time_is_left_out(void **state)
{
    (void)state;
    static const struct sw_comm_vtable vtable = {
        .start = noisy_start, .wait = noisy_wait, .barrier = noisy_barrier};
    const struct sw_link_group group = {.axes = {1, {SW_DP}}, .share = 1};
    struct noisy n = {.base = {.vtable = &vtable, .mesh = sw_mesh_make(2, 1, 1, 1), .size = 2},
                      .kind = SW_ALL_REDUCE};
    struct sw_link_rates r;
    struct sw_error err = {0};
    assert_int_equal(sw_calibrate_link(&n.base, &group, 1, 0.05, &r, &err), 0);
    if (!(r.bandwidth > 1e6 && r.bandwidth < 5e11)) /* 2e12 where 2 MB took a microsecond */
        fail_msg("%g bytes/s of 1e9", r.bandwidth);
    assert_int_equal(r.curves, SW_LINK_KINDS);
    n.every = true;
    if (sw_calibrate_link(&n.base, &group, 1, 0.05, &r, &err) == 0) {
        assert_true(r.bandwidth < 5e11); /* calls were kept waiting even longer than the work */
        return;
    }
    assert_int_equal(err.status, SW_ENVIRONMENT);
    assert_string_equal(err.message,
                        "measured 3 times, collectives took no longer than the work beside them; "
                        "stop other programs on this machine");
}

/* ---- The tool ---- */

static int run(char *text, size_t text_bytes, const char *format, ...)
{
    char command[4096];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    const size_t bytes = fread(text, 1, text_bytes - 1, pipe);
    text[bytes] = '\0';
    const int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* A step that was measured and predicted: within what any machine's moods explain. */
static void expect_step(const char *text)
{
    const char *line = strstr(text, "\na step    ");
    double predicted = 0, measured = 0;
    if (line == NULL ||
        sscanf(line, " a step %lf ms predicted, %lf ms measured,", &predicted, &measured) != 2)
        fail_msg("no step: %s", text);
    /* beside others the one may have been alone and the other not, and that was said */
    const double factor = strstr(text, "\nnot reliable: ") != NULL ? 30 : 3;
    if (!(predicted > measured / factor && predicted < factor * measured))
        fail_msg("%s", line);
}

/* Two micro-steps of a model that was not measured. */
static void write_plan(void)
{
    char text[4000];
    FILE *file = fopen("own.yaml", "w");
    assert_non_null(file);
    fputs(
        "name: own\n"
        "model: {vocab_size: 320, hidden_size: 160, intermediate_size: 448, num_hidden_layers: 2, "
        "num_attention_heads: 5, num_key_value_heads: 5}\n"
        "cluster: {name: c, nodes: 1, accelerators_per_node: 1, accelerator: {name: a, device: "
        "cpu, memory: 2 GB, peak: {fp32: 100 GFLOP/s}, memory_bandwidth: 10 GB/s}, launcher: "
        "mpirun}\n"
        "sequence_length: 96\nglobal_batch_size: 4\nmicro_batch_size: 2\n"
        "precision: {compute: fp32}\n",
        file);
    fclose(file);
    if (run(text, sizeof text, "$(dirname %s)/plan emit own.yaml -o . 2>&1", runner) != 0)
        fail_msg("%s", text);
}

static void expect_measured_grids(const struct sw_profile_config *a, const char *text)
{
    /* of every kind and precision, and in steps about what they are by themselves */
    for (int32_t i = 0; i < SW_PRODUCT_KINDS * SW_RATE_DTYPES; i++) {
        const struct sw_products *grid = (&a->products[0][0])[i];
        assert_true(grid != NULL && grid->rows * grid->columns * grid->depths >= 50);
        assert_true(grid->share[0] < 1);
    }
    /* large steps are no faster than products by themselves */
    const struct sw_curve_point *scale = a->products_scale.point;
    const int32_t scales = a->products_scale.count;
    assert_true(scales >= 2 && scale[0].fraction > 0.3 && scale[0].fraction < 10);
    assert_true(scale[scales - 1].fraction > 0.3 && scale[scales - 1].fraction <= 1);
    for (int32_t i = 1; i < scales; i++)
        assert_true(scale[i].fraction <= scale[i - 1].fraction);
    /* a sine and a cosine in double; made by vectors they may be nothing beside what is moved */
    assert_true(a->angle_time_s >= 0 && a->angle_time_s < 1e-6);
    assert_non_null(strstr(text, "\nproducts  in steps "));
    /* of every phase and precision, and between its points as far off as other figures are */
    double left_out = 0;
    for (int32_t i = 0; i < SW_ATTENTION_PHASES * SW_RATE_DTYPES; i++) {
        const struct sw_products *grid = (&a->attention_by_size[0][0])[i];
        assert_true(grid != NULL && grid->rows * grid->columns * grid->depths >= 12);
        assert_true(grid->share[0] < 1);
    }
    const char *by_size = strstr(text, "\nattention by size: points left out are ");
    if (by_size == NULL ||
        sscanf(by_size, " attention by size: points left out are %lf", &left_out) != 1)
        fail_msg("no points left out: %s", text);
    /* 4 on an idle machine; beside others it is told and not to be believed */
    assert_true(left_out > 0 &&
                left_out < (strstr(text, "\nnot to be believed: ") != NULL ? 50 : 10));
}

/* Who waits sees what is measured, by one rank and in turn. */
static void expect_parts(const char *text, bool links)
{
    static const char *const parts[] = {
        "measuring training steps of small models, about ",
        "measuring products of few rows, as decoding has them, about ",
        "measuring matrix products and attention by size, about ",
        "measuring collectives inside a node, about ",
        "measuring a training step, to try the figures on, about ",
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const char *at = strstr(text, parts[i]);
        if (i == 3 && !links) {
            assert_null(at);
            continue;
        }
        if (at == NULL)
            fail_msg("no '%s' in: %s", parts[i], text);
        text = at;
    }
    assert_null(strstr(text + 1, parts[4]));
}

static void one_rank_calibrates(void **state)
{
    (void)state;
    char text[4000];
    struct sw_error err = {0};
    const time_t begin = time(NULL);
    write_plan();
    const int status = run(text, sizeof text,
                           "OMP_NUM_THREADS=1 %s calibrate -o 'one core.yaml' --plan own.plan.yaml "
                           "--quick --force 2>&1",
                           runner);
    if (status != 0)
        fail_msg("status %d: %s", status, text);
    assert_true(time(NULL) - begin <= 60); /* 10 s on an idle machine */
    expect_step(text);
    expect_parts(text, false);
    assert_non_null(strstr(text, " %, of 'own' with mesh_dim 1,1,1,1\n"));
    struct sw_config *config =
        sw_config_read("one core.yaml", SW_CONFIG_PROFILE, &sw_launchers, NULL, 0, &err);
    expect_good(config);
    const struct sw_profile_config *a = sw_config_profile(config);
    assert_string_equal(a->name, "shardwright");
    /* no core of the last decades is slower, none of the next faster */
    assert_true(a->peak_fp32_flops > 1e8 && a->peak_fp32_flops < 1e13);
    assert_true(a->memory_bandwidth > 1e7 && a->memory_bandwidth < 1e13);
    assert_true(a->matmul.count >= 3 && a->attention.count >= 3 &&
                a->attention_backward.count >= 3 && a->memory.count >= 3);
    /* products of one row at the least, in fp32 and in bf16 */
    assert_true(a->skinny_gemm[0][0].count > 0 && a->skinny_gemm[0][0].point[0].rows == 1);
    assert_true(a->skinny_gemm[0][0].point[0].bandwidth > 1e6);
    assert_true(a->skinny_gemm[0][0].point[0].bandwidth < 1e13);
    expect_measured_grids(a, text);
    /* a large product is nearer to the peak than the smallest */
    assert_true(a->matmul.point[0].fraction < 0.95);
    sw_config_free(config);
}

/* Beside four others on one core, of which it alone could have all. */
static void what_cannot_be_is_not_written(void **state)
{
    (void)state;
    static const char beside[] =
        "others=; for i in 1 2 3 4; do (ulimit -t 60; exec >/dev/null 2>&1; while :; do :; "
        "done) & others=\"$others $!\"; done; %s calibrate -o busy.yaml --quick %s 2>&1; "
        "status=$?; kill $others; exit $status";
    char text[4000], command[1200];
    struct sw_error err = {0};
    cpu_set_t usable;
    int32_t core = 0;
    assert_int_equal(sched_getaffinity(0, sizeof usable, &usable), 0);
    while (!CPU_ISSET(core, &usable))
        core++;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    snprintf(command, sizeof command, beside, runner, "");
    int status = run(text, sizeof text, "OMP_NUM_THREADS=1; export OMP_NUM_THREADS; %s", command);
    if (status != 3 ||
        strstr(text, "measuring again: other programs took the processors: ") == NULL ||
        strstr(text, "runner: error: measured 2 times and not written: other programs took the "
                     "processors: a rank's thread ran for ") == NULL)
        fail_msg("status %d: %s", status, text);
    assert_non_null(strstr(
        text,
        "% of its time, where an idle machine lets it run for 100 %; stop other "
        "programs on this machine, or add --force, which writes it with a band as wide as that\n"));
    assert_int_equal(files_beside("busy.yaml"), 0);
    snprintf(command, sizeof command, beside, runner, "--force");
    status = run(text, sizeof text, "OMP_NUM_THREADS=1; export OMP_NUM_THREADS; %s", command);
    assert_int_equal(sched_setaffinity(0, sizeof usable, &usable), 0);
    if (status != 0 || strstr(text, "\nnot reliable: other programs took the processors: ") == NULL)
        fail_msg("status %d: %s", status, text);
    struct sw_config *config = sw_config_read("busy.yaml", SW_CONFIG_PROFILE, NULL, NULL, 0, &err);
    expect_good(config);
    assert_true(sw_config_profile(config)->band_low < 0.7 * 0.4);
    close_to(sw_config_profile(config)->band_high, 1.3);
    sw_config_free(config);
}

static void ranks_calibrate_their_links(void **state)
{
    (void)state;
    char text[4000];
    struct sw_error err = {0};
    if (strcmp(mpirun, "none") == 0)
        skip();
    const int status = run(
        text, sizeof text,
        "OMP_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
        "OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_hwloc_base_binding_policy=none %s --oversubscribe "
        "-np 2 %s calibrate -o rank.yaml --cluster cluster.yaml --quick --force 2>&1",
        mpirun, runner);
    if (status != 0)
        fail_msg("status %d: %s", status, text);
    expect_step(text);
    expect_parts(text, true);
    struct sw_config *config =
        sw_config_read("cluster.yaml", SW_CONFIG_CLUSTER, &sw_launchers, NULL, 0, &err);
    expect_good(config);
    const struct sw_cluster_config *cluster = sw_config_cluster(config);
    assert_int_equal(cluster->nodes, 1);
    assert_int_equal(cluster->accelerators_per_node, 2);
    assert_int_equal(cluster->link_count, 1);
    assert_string_equal(sw_scheduler_of(cluster)->name, "mpirun");
    assert_true(cluster->link[0].bandwidth > 1e6 && cluster->link[0].bandwidth < 1e12);
    assert_true(cluster->link[0].latency_s > 1e-8 && cluster->link[0].latency_s < 1);
    sw_config_free(config);
}

static void mistakes_are_explained(void **state)
{
    (void)state;
    static const struct {
        const char *arguments;
        int status;
        const char *message;
    } cases[] = {
        {"", 2,
         "runner calibrate: error: calibrate needs -o PROFILE.yaml; see 'runner calibrate "
         "--help'\n"},
        {"-o", 2,
         "runner calibrate: error: -o needs a value: PROFILE.yaml; see 'runner calibrate "
         "--help'\n"},
        {"--device", 2,
         "runner calibrate: error: --device needs a value: cpu or cuda; see 'runner calibrate "
         "--help'\n"},
        {"-o a.yaml --device gpu", 2,
         "runner calibrate: error: --device must be cpu or cuda, not 'gpu'; see 'runner calibrate "
         "--help'\n"},
        {"--device cuda", 2,
         "runner calibrate: error: calibrate needs -o PROFILE.yaml; see 'runner calibrate "
         "--help'\n"},
        {"--device cuda -o nowhere/a.yaml", 2,
         "runner: error: cannot write in 'nowhere/': No such file or directory; name a file in "
         "another folder\n"},
        {"--fast -o a.yaml", 2,
         "runner calibrate: error: unknown option '--fast'; see 'runner calibrate --help'\n"},
        {"-o nowhere/a.yaml", 2,
         "runner: error: cannot write in 'nowhere/': No such file or directory; name a file in "
         "another folder\n"},
        {"-o a.yaml --cluster a.yaml", 2,
         "runner: error: 'a.yaml' must be another file in the folder of 'a.yaml', which it "
         "names\n"},
        {"-o a.yaml --cluster ../c.yaml", 2,
         "runner: error: '../c.yaml' must be another file in the folder of 'a.yaml', which it "
         "names\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[4000];
        assert_int_equal(run(text, sizeof text, "%s calibrate %s 2>&1", runner, cases[i].arguments),
                         cases[i].status);
        assert_string_equal(text, cases[i].message);
    }
    assert_int_equal(files_beside("a.yaml"), 0);
}

/* Every GPU is hidden: what is said depends on the driver and the build, not that it is one line.
 */
static void without_a_gpu_nothing_is_written(void **state)
{
    char text[4000], start[400] = "";
    (void)state;
    for (int32_t ranks = 1; ranks <= 2; ranks++) {
        if (ranks == 2 && strcmp(mpirun, "none") == 0)
            break;
        if (ranks == 2)
            snprintf(start, sizeof start,
                     "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 %s --quiet "
                     "--oversubscribe -np 2",
                     mpirun);
        const int status = run(
            text, sizeof text,
            "CUDA_VISIBLE_DEVICES= %s %s calibrate --device cuda -o g.yaml --cluster h.yaml 2>&1",
            start, runner);
        if (status != 3 || strncmp(text, "runner: error: ", 15) != 0 ||
            strchr(text, '\n') != text + strlen(text) - 1)
            fail_msg("%d ranks: status %d: %s", (int)ranks, status, text);
        if (strstr(text, "GPU") == NULL && strstr(text, "cuda") == NULL &&
            strstr(text, "NVIDIA") == NULL)
            fail_msg("%s", text);
        assert_int_equal(files_beside("g.yaml") + files_beside("h.yaml"), 0);
    }
}

static void stopped_it_leaves_nothing(void **state)
{
    (void)state;
    char text[4000];
    assert_int_equal(
        run(text, sizeof text, "timeout -s INT 1 %s calibrate -o cut.yaml 2>&1", runner), 124);
    assert_int_equal(files_beside("cut.yaml"), 0);
}

int main(int argc, char **argv)
{
    const bool busy = argc == 5 && strcmp(argv[4], "busy") == 0;
    if (argc != 4 && !busy) {
        fprintf(stderr, "usage: test_calibrate RUNNER FOLDER MPIRUN|none [busy]\n");
        return 2;
    }
    runner = argv[1];
    mpirun = argv[3];
    snprintf(folder, sizeof folder, "%s/calibrate.%d", argv[2], (int)getpid());
    if (mkdir(folder, 0755) != 0 || chdir(folder) != 0) {
        perror(folder);
        return 3;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bucket_is_a_power_of_two),
        cmocka_unit_test(figures_give_the_times_back),
        cmocka_unit_test(what_cannot_be_is_doubted),
        cmocka_unit_test(few_rows_are_told_by_rows_and_bytes),
        cmocka_unit_test(what_was_not_measured_is_an_error),
        cmocka_unit_test(plan_reads_what_is_written),
        cmocka_unit_test(a_failed_write_leaves_the_old_file),
        cmocka_unit_test(every_rank_finds_the_same_link),
        cmocka_unit_test(kinds_have_rates_of_their_own),
        cmocka_unit_test(what_took_no_time_is_left_out),
        cmocka_unit_test(mistakes_are_explained),
        cmocka_unit_test(without_a_gpu_nothing_is_written),
        cmocka_unit_test(stopped_it_leaves_nothing),
        cmocka_unit_test(one_rank_calibrates),
        cmocka_unit_test(ranks_calibrate_their_links),
    };
    const struct CMUnitTest busy_tests[] = {cmocka_unit_test(what_cannot_be_is_not_written)};
    const int failed = busy ? cmocka_run_group_tests(busy_tests, NULL, NULL)
                            : cmocka_run_group_tests(tests, NULL, NULL);
    char command[2200];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command) == 0 && failed == 0 ? 0 : 1;
}
