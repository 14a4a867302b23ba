#include "runner/calibrate/calibrate.h"

#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/number.h"
#include "core/config/config.h"
#include "core/cost/cost.h"
#include "runner/rank/accelerator.h"
#include "runner/calibrate/attention.h"
#include "runner/calibrate/sanity.h"
#include "runner/calibrate/skinny_gemm.h"
#include "runner/calibrate/gpu.h"
#include "runner/calibrate/gpu_links.h"
#include "runner/calibrate/products.h"
#include "runner/calibrate/step.h"
#include "runner/calibrate/write.h"
#include "runner/rank/gpu_kinds.h"
#include "runner/rank/version.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Shares of the time: kernels, skinny products, all levels of links; the rest is for starting and
 * compiling. */
static const double kernels_alone = 0.62, kernels_of_job = 0.36, links_of_job = 0.27;
static const double skinny_gemm_share = 0.19, products_share = 0.08, attention_share = 0.06;

struct calibrating {
    struct sw_rank *rank;
    const struct sw_calibrate_options *options;
    int32_t nodes, threads;
    struct sw_calibration calibration;
    struct sw_calibration_facts facts;
    struct sw_link_rates inside, across;
    double fair_share;                 /* a rank thread's possible share of a core; GPUs: 0 */
    struct sw_sanity sanity;           /* the latest measurement's */
    double step_s, predicted_s;        /* the final step's */
    struct sw_device_facts gpu;        /* a GPU's */
    const struct sw_data_sheet *sheet; /* the GPU's; NULL: not known */
    char versions[800], basis[600], noted[800], accelerator_name[64], cluster_name[64];
};

/* True if the device has a queue and a clock of its own, as GPUs do. */
static bool queues(const struct calibrating *c)
{
    return c->rank->device->vtable->mark != NULL;
}

/* ---- Set-up ---- */

/* Hash of 48 bits, exact in a double. */
static uint64_t number_of(const char *text)
{
    return sw_hash_text(text) >> 16;
}

/* Number of a machine: nodes with one kernel share its cores (containers, several slurmd on one
 * machine). */
static uint64_t machine_number(const char *host)
{
    char boot[64];
    sw_file_first_line("/proc/sys/kernel/random/boot_id", boot, sizeof boot);
    return number_of(boot[0] != '\0' ? boot : host);
}

/* Ranks wait while others measure, which takes longer on some machines. */
static const double longest_s = 150;

/* Checks that ranks fill equal nodes in order, as plans assume. Every rank gets the same result. */
static int check_placement(struct calibrating *c, struct sw_error *err)
{
    const int32_t size = c->rank->launch->size;
    const struct sw_mesh flat = sw_mesh_make(size, 1, 1, 1);
    struct sw_comm *comm = NULL;
    int status = -1;
    double *told = calloc((size_t)size * 2, sizeof *told);
    if (told == NULL) {
        (void)sw_fail(err, SW_ENVIRONMENT, "out of memory");
        sw_launch_abort(c->rank->launch, err,
                        (int)err->status); /* the others continue to a collective */
        return -1;
    }
    told[c->rank->launch->rank] = c->rank->launch->local_size;
    told[size + c->rank->launch->rank] = (double)number_of(c->rank->launch->host);
    if (sw_accelerator_host_comm(c->rank->launch, &flat, sw_launch_stall_seconds(longest_s), &comm,
                                 err) != 0 ||
        sw_calibrate_sum(comm, told, 2 * size, err) != 0)
        goto out;
    const int32_t local = (int32_t)told[0];
    for (int32_t r = 0; r < size; r++)
        if (told[r] != local || size % local != 0 ||
            told[size + r] != told[size + r / local * local]) {
            (void)sw_fail(err, SW_BAD_INPUT,
                          "rank %d is not where it should be: every node must have as many ranks, "
                          "filled one after the other; use srun --distribution=block, or mpirun "
                          "--map-by slot",
                          r);
            goto out;
        }
    c->nodes = size / local;
    status = 0;
out:
    free(told);
    if (comm != NULL)
        comm->vtable->destroy(comm);
    return status;
}

/* "runs/my node.yaml" -> "my-node": a name that descriptions allow. */
static void name_of(const char *path, char name[64])
{
    size_t n = 0;
    for (const char *c = sw_path_name(path); *c != '\0' && n < 63; c++)
        name[n++] = isalnum((unsigned char)*c) || strchr("._-", *c) != NULL ? *c : '-';
    name[n] = '\0';
    char *dot = strrchr(name, '.');
    if (dot != NULL && dot > name)
        *dot = '\0';
    if (n == 0 || name[0] == '.' || name[0] == '-')
        snprintf(name, 64, "measured");
}

/* Checks the folder before measuring: a minute's work should not fail on it. */
static int check_writable(const char *path, struct sw_error *err)
{
    char folder[4096];
    struct stat there;
    if (stat(path, &there) == 0 && !S_ISREG(there.st_mode))
        return sw_fail(err, SW_BAD_INPUT, "'%s' is not a regular file; name a file to write", path);
    const size_t bytes = (size_t)(sw_path_name(path) - path);
    if (bytes >= sizeof folder)
        return sw_fail(err, SW_BAD_INPUT, "the path '%s' is too long", path);
    snprintf(folder, sizeof folder, "%.*s", (int)bytes, path);
    if (access(bytes == 0 ? "." : folder, W_OK | X_OK) == 0)
        return 0;
    const int reason = errno;
    sw_fail(err, SW_ENVIRONMENT, "cannot write in '%s': %s", bytes == 0 ? "." : folder,
            strerror(reason));
    return sw_path_blame(err, reason, "name a file in another folder");
}

static int check_paths(const struct sw_calibrate_options *o, struct sw_error *err)
{
    if (check_writable(o->profile_path, err) != 0)
        return -1;
    if (o->cluster_path == NULL)
        return 0;
    const size_t folder = (size_t)(sw_path_name(o->profile_path) - o->profile_path);
    if (folder != (size_t)(sw_path_name(o->cluster_path) - o->cluster_path) ||
        memcmp(o->profile_path, o->cluster_path, folder) != 0 ||
        strcmp(o->profile_path, o->cluster_path) == 0)
        return sw_fail(err, SW_BAD_INPUT,
                       "'%s' must be another file in the folder of '%s', which it names",
                       o->cluster_path, o->profile_path);
    return check_writable(o->cluster_path, err);
}

static void set_facts(struct calibrating *c)
{
    const struct sw_launch *launch = c->rank->launch;
    char versions[400];
    struct rusage usage;
    /* without --cluster it is still read, to predict a step */
    name_of(c->options->cluster_path != NULL ? c->options->cluster_path : c->options->profile_path,
            c->cluster_name);
    /* for a known GPU its file's name, so that the profile fits every cluster of it */
    name_of(c->sheet != NULL                   ? c->sheet->config
            : c->options->cluster_path != NULL ? c->options->cluster_path
                                               : c->options->profile_path,
            c->accelerator_name);
    snprintf(c->versions, sizeof c->versions, "%s", sw_version_json(versions, sizeof versions));
    c->facts = (struct sw_calibration_facts){.accelerator_name = c->accelerator_name,
                                             .cluster_name = c->cluster_name,
                                             .known = c->sheet != NULL,
                                             .versions = c->versions,
                                             .device = c->options->device,
                                             .nodes = c->nodes,
                                             .ranks_per_node = launch->size / c->nodes,
                                             .threads = c->threads};
    c->facts.profile_path = sw_path_name(c->options->profile_path);
    c->facts.memory_bytes =
        (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / c->facts.ranks_per_node;
    /* memory a rank holds before its arena: libraries, MPI, the device */
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        c->facts.reserved_bytes = (int64_t)usage.ru_maxrss * 1024;
    if (getenv("SLURM_JOB_ID") != NULL)
        c->facts.partition = getenv("SLURM_JOB_PARTITION");
}

/* After measuring, without arenas: memory still in use is used beside every arena. CUDA context,
 * libraries with workspaces, NCCL's buffers. */
static int set_gpu_facts(struct calibrating *c, struct sw_error *err)
{
    char kind[128], versions[256];
    const int64_t available = c->rank->device->vtable->free_bytes(c->rank->device);
    if (available < 0)
        return sw_fail(err, SW_ENVIRONMENT, "the GPU does not say how much memory is free");
    sw_gpu_name(&c->gpu, kind);
    snprintf(
        c->basis, sizeof c->basis,
        "# One accelerator is one rank with a GPU of its own: %s.\n# %s\n%s", kind,
        c->sheet != NULL
            ? "bf16's peak and the bandwidth are the data sheet's, fractions the measured "
              "shares of\n# them; with fp32's peak the same shares give the times that fp32 "
              "took."
            : "Peaks are the best rates that were measured, fractions are shares of them.",
        c->rank->launch->size > 1
            ? ""
            : "# reserved_memory is without NCCL's buffers, which a single rank does not have.\n");
    const size_t used = strlen(c->versions);
    snprintf(c->versions + used, sizeof c->versions - used, ", CUDA %s",
             sw_accelerator_versions(versions, sizeof versions));
    c->facts.basis = c->basis;
    c->facts.compute_units = c->gpu.units;
    c->facts.memory_bytes = c->gpu.memory_bytes;
    c->facts.reserved_bytes = c->gpu.memory_bytes - available;
    return 0;
}

/* Reports what a plan cannot do before measuring. */
static int open_device(struct calibrating *c, struct sw_error *err)
{
    const enum sw_device_kind kind = c->options->device;
    const struct sw_plan *plan = c->rank->plan;
    if (plan == NULL)
        return sw_rank_open_device(c->rank, kind);
    const enum sw_device_kind planned = plan->run->cluster.accelerator.device;
    if (planned != kind)
        return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = c->rank->plan_path},
                          "the plan is for %s and %s is measured; add --device %s",
                          sw_word(sw_words_device, (int32_t)planned),
                          sw_word(sw_words_device, (int32_t)kind),
                          sw_word(sw_words_device, (int32_t)planned));
    return sw_rank_compile_training(c->rank);
}

static int set_up(struct calibrating *c, struct sw_error *err)
{
    if (c->rank->launch->rank == 0 && check_paths(c->options, err) != 0)
        return -1;
    c->threads = sw_launch_threads(c->rank->launch);
    if (open_device(c, err) != 0)
        return -1;
    if (c->rank->device->vtable->facts == NULL)
        return 0;
    if (c->rank->device->vtable->facts(c->rank->device, &c->gpu, err) != 0)
        return -1;
    c->sheet = sw_data_sheet_find(c->gpu.name);
    return 0;
}

/* ---- Measuring ---- */

/* Tells people what is measured, and for how long. */
static void announce_part(const struct calibrating *c, double seconds, const char *what)
{
    if (c->rank->launch->rank == 0)
        fprintf(stderr, "measuring %s, about %.0f s\n", what, seconds > 1 ? seconds : 1);
}

/* Measures one grid of products or attention on its own device, which frees its kernels
 * afterwards. */
static int measure_grid(struct calibrating *c, int32_t kind, bool attention,
                        enum sw_rate_dtype dtype, struct sw_grid_rates *rates, struct sw_error *err)
{
    const double seconds =
        c->options->seconds / SW_RATE_DTYPES *
        (attention ? attention_share / SW_ATTENTION_PHASES : products_share / SW_PRODUCT_KINDS);
    struct sw_device *device =
        sw_accelerator_device(c->rank->launch, c->options->device, c->threads, err);
    if (device == NULL)
        return -1;
    const int status =
        attention ? sw_calibrate_attention(device, c->rank->comm, (enum sw_attention_phase)kind,
                                           dtype, seconds, rates, err)
                  : sw_calibrate_products(device, c->rank->comm, (enum sw_product_kind)kind, dtype,
                                          seconds, rates, err);
    device->vtable->destroy(device);
    return status;
}

static int measure_grids(struct calibrating *c, struct sw_kernel_rates *rates, struct sw_error *err)
{
    int status = 0;
    for (int32_t d = 0; d < SW_RATE_DTYPES; d++) {
        for (int32_t k = 0; k < SW_PRODUCT_KINDS && status == 0; k++)
            status = measure_grid(c, k, false, d, &rates->products[k][d], err);
        for (int32_t k = 0; k < SW_ATTENTION_PHASES && status == 0; k++)
            status = measure_grid(c, k, true, d, &rates->attention[k][d], err);
    }
    return status;
}

static int measure_kernels(struct calibrating *c, double seconds, struct sw_error *err)
{
    struct sw_kernel_rates rates;
    const int32_t ranks = c->rank->launch->size;
    const double skinny_gemm_s = c->options->seconds * skinny_gemm_share;
    const double grids = c->options->seconds * (products_share + attention_share);
    if (!queues(c)) {
        announce_part(c, seconds, "training steps of small models");
        if (sw_calibrate_kernels(c->rank->device, c->rank->comm, seconds, &rates, err) != 0)
            return -1;
        announce_part(c, skinny_gemm_s, "products of few rows, as decoding has them");
        if (sw_calibrate_skinny_gemm(c->rank->device, c->rank->comm, skinny_gemm_s,
                                     &rates.skinny_gemm, err) != 0)
            return -1;
        announce_part(c, grids, "matrix products and attention by size");
        if (measure_grids(c, &rates, err) != 0)
            return -1;
        return sw_calibration_make(&rates, ranks, &c->calibration, err);
    }
    /* on GPUs programs get all the time */
    int32_t shapes;
    const struct sw_gpu_shape *shape = sw_gpu_shapes(&shapes);
    announce_part(c, seconds + skinny_gemm_s + grids, "training steps of small models");
    if (sw_gpu_kernels(c->rank->device, c->rank->comm, seconds + skinny_gemm_s + grids, shape,
                       shapes, &rates, err) != 0)
        return -1;
    return sw_gpu_calibration(&rates, ranks, c->sheet, &c->calibration, err);
}

static const char links_in_node[] = "collectives inside a node";
static const char links_across[] = "collectives across nodes";

static int measure_gpu_links(struct calibrating *c, double each, struct sw_error *err)
{
    const int32_t local = c->rank->launch->size / c->nodes;
    /* host memory means MPI: not queued, direct */
    struct sw_gpu_level level = {.parts = local, .direct = !c->rank->comm->queued};
    if (local > 1) {
        announce_part(c, each, links_in_node);
        if (sw_gpu_link(c->rank->device, c->rank->comm, &level, each, &c->inside, err) != 0)
            return -1;
        c->facts.inside = &c->inside;
    }
    level.parts = c->nodes;
    level.members = local;
    level.inner_latency_s = c->inside.latency_s;
    if (c->nodes > 1) {
        announce_part(c, each, links_across);
        if (sw_gpu_link(c->rank->device, c->rank->comm, &level, each, &c->across, err) != 0)
            return -1;
        c->facts.across = &c->across;
    }
    return 0;
}

static int measure(struct calibrating *c, struct sw_error *err)
{
    const int32_t ranks = c->rank->launch->size, local = ranks / c->nodes;
    const struct sw_link_group in_node = {.axes = {1, {SW_TP}}, .share = 1};
    /* one member per node; all ranks */
    const struct sw_link_group across[2] = {
        {.axes = {1, {SW_DP}}, .share = 1},
        {.axes = {2, {SW_DP, SW_TP}},
         .share = sw_links_crossing(true, SW_ALL_GATHER, ranks, ranks, local, local, c->nodes, 1)}};
    const double seconds = c->options->seconds;
    if (measure_kernels(c, seconds * (ranks > 1 ? kernels_of_job : kernels_alone), err) != 0)
        return -1;
    const double each = seconds * links_of_job / ((local > 1) + (c->nodes > 1) + 1e-9);
    if (queues(c))
        return measure_gpu_links(c, each, err);
    if (local > 1) {
        announce_part(c, each, links_in_node);
        if (sw_calibrate_link(c->rank->comm, &in_node, 1, each, &c->inside, err) != 0)
            return -1;
        c->facts.inside = &c->inside;
    }
    if (c->nodes > 1) {
        announce_part(c, each, links_across);
        if (sw_calibrate_link(c->rank->comm, across, local > 1 ? 2 : 1, each, &c->across, err) != 0)
            return -1;
        c->facts.across = &c->across;
    }
    return 0;
}

static int connect(struct calibrating *c, struct sw_error *err)
{
    const struct sw_mesh mesh = sw_mesh_make(c->nodes, 1, c->rank->launch->size / c->nodes, 1);
    if (sw_rank_connect(c->rank, &mesh, NULL, 0, longest_s) != 0)
        return -1;
    return queues(c) ? 0
                     : sw_calibrate_fair_share(c->rank->comm, c->nodes,
                                               machine_number(c->rank->launch->host), c->threads,
                                               &c->fair_share, err);
}

/* Repeats implausible measurements: other programs may have run. Every rank decides alike. */
enum { ATTEMPTS = 2 };
static int measure_believably(struct calibrating *c, struct sw_error *err)
{
    for (int32_t attempt = 1; attempt <= ATTEMPTS; attempt++) {
        if (measure(c, err) != 0)
            return -1;
        sw_calibration_check(&c->calibration, c->fair_share, c->facts.inside, c->facts.across,
                             &c->sanity);
        if (c->sanity.count == 0)
            return 0;
        if (c->rank->launch->rank == 0 && attempt < ATTEMPTS)
            fprintf(stderr, "measuring again: %s\n", c->sanity.text[0]);
    }
    return 0;
}

/* ---- Results ---- */

/* Records doubts about kept figures in the file. Errors (SW_ENVIRONMENT): doubtful figures must not
 * be kept. */
static int settle_sanity(struct calibrating *c, struct sw_error *err)
{
    if (c->sanity.count == 0)
        return 0;
    if (!c->options->force)
        return sw_fail(err, SW_ENVIRONMENT,
                       "measured %d times and not written: %s; stop other programs on this "
                       "machine, or add --force, which writes it with a band as wide as that",
                       ATTEMPTS, c->sanity.text[0]);
    size_t used = 0;
    for (int32_t i = 0; i < c->sanity.count; i++)
        used += (size_t)snprintf(c->noted + used, sizeof c->noted - used,
                                 "# Kept with --force, though measured %d times: %s.\n", ATTEMPTS,
                                 c->sanity.text[i]);
    c->facts.notes = c->noted;
    c->facts.band_low = c->sanity.band_low;
    c->facts.band_high = c->sanity.band_high;
    return 0;
}

static void write_profile(FILE *out, const void *context)
{
    const struct calibrating *c = context;
    sw_calibration_write_profile(out, &c->calibration, &c->facts);
}

static void write_cluster(FILE *out, const void *context)
{
    const struct calibrating *c = context;
    sw_calibration_write_cluster(out, &c->calibration, &c->facts);
}

/* Checks that the written file can be read: reported now, not at the next plan. */
static int check_file(const char *path, enum sw_config_kind kind, struct sw_error *err)
{
    struct sw_config *config = sw_config_read(path, kind, NULL, NULL, 0, err);
    if (config == NULL)
        return -1;
    int status = 0;
    for (int32_t i = 0; i < sw_config_diagnostic_count(config) && status == 0; i++)
        if (!sw_config_diagnostic(config, i)->is_note)
            status = sw_fail(err, SW_ENVIRONMENT, "'%s' does not read back: %s", path,
                             sw_config_diagnostic(config, i)->message);
    sw_config_free(config);
    return status;
}

static int save(const struct calibrating *c, struct sw_error *err)
{
    const struct sw_calibrate_options *o = c->options;
    if (sw_calibration_save(o->profile_path, write_profile, c, err) != 0 ||
        check_file(o->profile_path, SW_CONFIG_PROFILE, err) != 0)
        return -1;
    if (o->cluster_path == NULL)
        return 0;
    if (sw_calibration_save(o->cluster_path, write_cluster, c, err) != 0)
        return -1;
    return check_file(o->cluster_path, SW_CONFIG_CLUSTER, err);
}

/* Predicts from the written files; without --cluster from the one that would be written. */
static int predict_step(struct calibrating *c, struct sw_error *err)
{
    char *text = NULL, name[4096];
    size_t bytes = 0;
    struct sw_cost cost;
    struct sw_config *config = NULL;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory");
    write_cluster(out, c);
    int status = fclose(out) == 0 ? 0 : sw_fail(err, SW_ENVIRONMENT, "out of memory");
    const char *path = c->options->profile_path;
    snprintf(name, sizeof name, "%.*scluster", (int)(sw_path_name(path) - path), path);
    if (status == 0) {
        config = sw_config_read_text(name, text, bytes, SW_CONFIG_CLUSTER, NULL, NULL, 0, err);
        status = config == NULL ? -1 : 0;
    }
    if (status == 0 && sw_config_cluster(config) == NULL)
        status = sw_fail(err, SW_ENVIRONMENT, "'%s' does not read back", path);
    if (status == 0)
        status = sw_cost_price(c->rank->programs->program[SW_PROGRAM_TRAIN],
                               sw_config_cluster(config), NULL, &cost, err);
    if (status == 0)
        c->predicted_s = cost.step_seconds;
    sw_config_free(config);
    free(text);
    return status;
}

static void report_step(const struct calibrating *c)
{
    const struct sw_plan *plan = c->rank->plan;
    char mesh[64], note[160];
    fprintf(stderr, "a step    %.3g ms predicted, %.3g ms measured, %+.0f %%, of ",
            c->predicted_s * 1e3, c->step_s * 1e3, 100 * (c->predicted_s / c->step_s - 1));
    if (plan == NULL)
        fprintf(stderr, "a small model over all ranks\n");
    else
        fprintf(stderr, "'%s' with mesh_dim %s\n", plan->run->name,
                sw_mesh_format(&plan->decision.mesh, mesh, sizeof mesh));
    if (*sw_calibration_check_step(c->predicted_s, c->step_s, note) != '\0')
        fprintf(stderr, "warning: %s\n", note);
}

static void report_link(const char *name, const struct sw_link_rates *r)
{
    fprintf(stderr, "%-9s %.3g MB/s per rank, %.3g us\n", name, sw_link_reached(r) / 1e6,
            r->latency_s * 1e6);
}

static void report_cores(const struct calibrating *c)
{
    const struct sw_calibration *found = &c->calibration;
    fprintf(stderr,
            "measured %d rank%s of %d thread%s on %d node%s, each with a core for %.0f %% of its "
            "time\nmatmul    %.3g GFLOP/s fp32, %.3g bf16, per rank at best\nmemory    %.3g GB/s "
            "per rank at best\nop        %.3g us at least\n",
            c->rank->launch->size, c->rank->launch->size == 1 ? "" : "s", c->threads,
            c->threads == 1 ? "" : "s", c->nodes, c->nodes == 1 ? "" : "s", found->share * 100,
            found->fp32_flops / 1e9, found->bf16_flops / 1e9, found->memory_bandwidth / 1e9,
            found->launch_latency_s * 1e6);
}

/* Largest size: small ops say little without their launch. */
static double largest(const struct sw_calibration_curve *curve)
{
    return curve->point[curve->count - 1].fraction;
}

static void report_gpus(const struct calibrating *c)
{
    const struct sw_calibration *found = &c->calibration;
    const double matmul = largest(&found->curve[SW_RATE_MATMUL]);
    fprintf(stderr,
            "measured %d GPU%s (%s) on %d node%s; of the largest ops\nmatmul    %.3g TFLOP/s bf16, "
            "%.3g fp32\nattention %.3g TFLOP/s bf16\nmemory    %.3g GB/s\nop        %.3g us at "
            "least, replayed\nreserved  %.3g GB\n",
            c->rank->launch->size, c->rank->launch->size == 1 ? "" : "s", c->gpu.name, c->nodes,
            c->nodes == 1 ? "" : "s", matmul * found->bf16_flops / 1e12,
            matmul * found->fp32_flops / 1e12,
            largest(&found->curve[SW_RATE_ATTENTION]) * found->bf16_flops / 1e12,
            largest(&found->curve[SW_RATE_MEMORY]) * found->memory_bandwidth / 1e9,
            found->launch_latency_s * 1e6, (double)c->facts.reserved_bytes / 1e9);
}

/* Reports the median over grids of their median errors of left-out points. */
static void report_attention(const struct sw_calibration *found)
{
    double errors[SW_ATTENTION_PHASES * SW_RATE_DTYPES];
    int32_t count = 0, points = 0, all = 0;
    for (int32_t i = 0; i < SW_ATTENTION_PHASES * SW_RATE_DTYPES; i++) {
        const double error = sw_grid_left_out(&(&found->attention_by_size[0][0])[i], &points);
        if (points > 0)
            errors[count++] = error;
        all += points;
    }
    if (count == 0)
        return;
    qsort(errors, (size_t)count, sizeof *errors, sw_compare_doubles);
    fprintf(stderr, "attention by size: points left out are %.1f %% off (median of %d)",
            errors[count / 2] * 100, all);
    if (found->attention_tried > 0)
        fprintf(stderr, ", in steps %.1f %% (median of %d)", found->attention_error * 100,
                found->attention_tried);
    fputc('\n', stderr);
}

static void report(const struct calibrating *c)
{
    const struct sw_calibration *found = &c->calibration;
    if (queues(c))
        report_gpus(c);
    else
        report_cores(c);
    if (c->facts.inside != NULL)
        report_link("in node", c->facts.inside);
    if (c->facts.across != NULL)
        report_link("network", c->facts.across);
    if (found->products_scale.count > 0)
        fprintf(stderr,
                "products  in steps %.0f to %.0f %% of what they reach by themselves, less in "
                "larger ones, %.1f %% off (median of %d)\n",
                found->products_scale.point[found->products_scale.count - 1].fraction * 100,
                found->products_scale.point[0].fraction * 100, found->products_error * 100,
                found->products_tried);
    report_attention(found);
    report_step(c);
    if (c->sanity.count > 0)
        fprintf(stderr, "not reliable: %s\n", c->sanity.text[0]);
    fprintf(stderr, "wrote %s%s%s\n", c->options->profile_path,
            c->options->cluster_path == NULL ? "" : " and ",
            c->options->cluster_path == NULL ? "" : c->options->cluster_path);
    if (c->options->cluster_path == NULL)
        fprintf(stderr,
                "a cluster file CLUSTER.yaml takes it when it is CLUSTER.profile.yaml beside "
                "it, or says profile: FILE\n");
}

static void announce(double seconds)
{
    double load = 0;
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    fprintf(stderr,
            "measuring for about %.0f s; the machine should have nothing else to do: beside other "
            "programs it takes several times as long\n",
            seconds);
    if (getloadavg(&load, 1) == 1 && cores > 0 && load > 0.5 * (double)cores)
        fprintf(stderr,
                "warning: other programs are at work, %.1f at a time in the last minute on %ld "
                "processors; stop them first\n",
                load, cores);
}

int sw_calibrate(struct sw_rank *rank, const void *given)
{
    const struct sw_calibrate_options *options = given;
    struct calibrating c = {.rank = rank, .options = options, .nodes = 1};
    struct sw_error *err = &rank->err;
    (void)set_up(&c, err);
    enum sw_status status = sw_rank_agree(rank);
    if (status == SW_OK && rank->launch->size > 1)
        (void)check_placement(&c, err);
    if (status == SW_OK)
        status = sw_rank_meet(rank, NULL, 0);
    if (status != SW_OK)
        return (int)status;
    set_facts(&c);
    if (rank->launch->rank == 0)
        announce(options->seconds);
    if (connect(&c, err) != 0 || measure_believably(&c, err) != 0)
        sw_launch_abort(rank->launch, err, (int)err->status); /* the others wait in a collective */
    if (rank->launch->rank == 0 && settle_sanity(&c, err) == 0 &&
        (!queues(&c) || set_gpu_facts(&c, err) == 0))
        (void)save(&c, err);
    status = sw_rank_agree(rank);
    if (status != SW_OK)
        return (int)status;
    announce_part(&c, 1, "a training step, to try the figures on");
    if (sw_calibrate_step(rank, c.nodes, &c.step_s) != 0)
        sw_launch_abort(rank->launch, err, (int)err->status);
    if (rank->launch->rank == 0 && predict_step(&c, err) == 0)
        report(&c);
    return (int)sw_rank_agree(rank);
}
