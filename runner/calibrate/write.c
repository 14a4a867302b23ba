#include "runner/calibrate/write.h"

#include "core/base/file.h"
#include "core/base/number.h"
#include "core/cost/cost.h"
#include "runner/calibrate/attention.h"
#include "runner/calibrate/products.h"
#include "runner/calibrate/scale.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Figures ---- */

/* Size per second of a bucket's calls, without the launch time that `plan` adds to each op. */
static double rate_of(const struct sw_rate_bucket *bucket, double stretch, double launch)
{
    const double whole = bucket->seconds * stretch, net = whole - bucket->calls * launch;
    return bucket->size / (net > 0.1 * whole ? net : 0.1 * whole);
}

/* Fills the curve in units of its best rate and returns that; 0: nothing measured. */
static double make_curve(const struct sw_rate_bucket *buckets, double stretch, double launch,
                         struct sw_calibration_curve *curve)
{
    double best = 0;
    curve->count = 0;
    for (int32_t b = 0; b < SW_RATE_BUCKETS; b++) {
        if (buckets[b].calls <= 0 || buckets[b].seconds <= 0)
            continue;
        const double rate = rate_of(&buckets[b], stretch, launch);
        curve->point[curve->count++] = (struct sw_calibration_point){
            .size = buckets[b].size / buckets[b].calls, .fraction = rate};
        best = rate > best ? rate : best;
    }
    for (int32_t i = 0; i < curve->count; i++)
        curve->point[i].fraction /= best;
    return best;
}

static int compare_points(const void *a, const void *b)
{
    const struct sw_skinny_gemm_point *p = a, *q = b;
    if (p->rows != q->rows)
        return p->rows < q->rows ? -1 : 1;
    return p->bytes < q->bytes ? -1 : p->bytes > q->bytes;
}

_Static_assert((int)SW_SKINNY_GEMM_POINTS <= (int)SW_MAX_SKINNY_GEMM, "all that is measured");

/* Without launch time, like rate_of. */
static void make_skinny_gemm(const struct sw_skinny_gemm_bucket (*buckets)[SW_SKINNY_GEMM_SIZES],
                             double stretch, double launch, struct sw_skinny_gemm *skinny)
{
    for (int32_t i = 0; i < SW_SKINNY_GEMM_COUNTS * SW_SKINNY_GEMM_SIZES; i++) {
        const struct sw_skinny_gemm_bucket *b =
            &buckets[i / SW_SKINNY_GEMM_SIZES][i % SW_SKINNY_GEMM_SIZES];
        const struct sw_rate_bucket bucket = {b->calls, b->bytes, b->seconds};
        if (b->calls > 0 && b->seconds > 0)
            skinny->point[skinny->count++] =
                (struct sw_skinny_gemm_point){.rows = sw_skinny_gemm_rows(i / SW_SKINNY_GEMM_SIZES),
                                              .bytes = b->reads / b->calls,
                                              .bandwidth = rate_of(&bucket, stretch, launch)};
    }
    qsort(skinny->point, (size_t)skinny->count, sizeof skinny->point[0], compare_points);
}

static void make_all_skinny_gemm(const struct sw_skinny_gemm_rates *rates,
                                 struct sw_calibration *out)
{
    double stretch = rates->busy_seconds > 0 ? rates->wall_seconds / rates->busy_seconds : 1;
    stretch = stretch > 1 ? stretch : 1;
    out->share = 1 / stretch < out->share ? 1 / stretch : out->share;
    for (int32_t k = 0; k < SW_SKINNY_KINDS; k++)
        for (int32_t d = 0; d < SW_RATE_DTYPES; d++)
            make_skinny_gemm(rates->bucket[k][d], stretch, out->launch_latency_s,
                             &out->skinny_gemm[k][d]);
}

/* ---- Products ---- */

/* Slowdown by other threads on the cores. It varies from second to second: one value for programs
 * and all grids, so that no kernel is priced by a busier moment. */
static double stretch_of(const struct sw_kernel_rates *rates)
{
    double wall = rates->wall_seconds, busy = rates->busy_seconds;
    for (int32_t i = 0; i < (SW_PRODUCT_KINDS + SW_ATTENTION_PHASES) * SW_RATE_DTYPES; i++) {
        const int32_t attention = i - SW_PRODUCT_KINDS * SW_RATE_DTYPES;
        const struct sw_grid_rates *grid =
            attention < 0 ? &(&rates->products[0][0])[i] : &(&rates->attention[0][0])[attention];
        wall += grid->wall_seconds;
        busy += grid->busy_seconds;
    }
    return wall > busy ? wall / busy : 1; /* no thread works longer; clocks differ slightly */
}

/* Rate of a point without launch time, like rate_of. */
static double product_rate(double seconds, int32_t ranks, double size, double stretch,
                           double launch)
{
    const struct sw_rate_bucket bucket = {ranks, ranks * size, seconds};
    return rate_of(&bucket, stretch, launch);
}

/* Raises the peaks to the best of everything measured, products included; the curves' FLOP/s
 * stay. */
static void raise_peaks(struct sw_calibration *out, double by)
{
    if (by <= 1)
        return;
    out->fp32_flops *= by;
    out->bf16_flops *= by;
    for (int32_t k = SW_RATE_MATMUL; k <= SW_RATE_ATTENTION_BACKWARD; k++)
        for (int32_t i = 0; i < out->curve[k].count; i++)
            out->curve[k].point[i].fraction /= by;
}

static double *peak_of(struct sw_calibration *out, int32_t dtype)
{
    return dtype == SW_RATE_FP32 ? &out->fp32_flops : &out->bf16_flops;
}

/* True if all points took time by every rank's clock. Otherwise the grid has no rates. */
static bool is_timed(const struct sw_grid_rates *rates, const struct sw_products *grid)
{
    if (rates->missed > 0)
        return false;
    for (int32_t i = 0; i < sw_products_points(grid); i++)
        if (!(rates->seconds[i] > 0))
            return false;
    return true;
}

/* Fills the grid with rates, later turned into shares; empty if a point has no rate. */
static void make_rates(const struct sw_grid_rates *rates, int32_t ranks, enum sw_product_kind kind,
                       double stretch, double launch, struct sw_products *grid)
{
    sw_products_sizes(kind, (int32_t)(rates->levels / ranks + 0.5), grid);
    if (!is_timed(rates, grid))
        *grid = (struct sw_products){.rows = 0};
    for (int32_t i = 0; i < sw_products_points(grid); i++) {
        const struct sw_product s = sw_products_point(grid, i);
        grid->share[i] =
            product_rate(rates->seconds[i], ranks, 2 * s.m * s.n * s.k, stretch, launch);
    }
}

/* Turns rates into shares of the least time that peak and bandwidth allow. */
static void make_shares(const struct sw_calibration *c, double peak, double bytes_each,
                        struct sw_products *grid)
{
    for (int32_t i = 0; i < sw_products_points(grid); i++) {
        const struct sw_product s = sw_products_point(grid, i);
        const double flops = 2 * s.m * s.n * s.k, computing = flops / peak;
        const double moving =
            bytes_each * (s.m * s.k + s.k * s.n + s.m * s.n) / c->memory_bandwidth;
        const double share = (computing > moving ? computing : moving) * grid->share[i] / flops;
        grid->share[i] = share < 1 ? share : 1; /* a core's cache may be faster: not counted */
    }
}

/* Makes shares of the peak alone. Attention stays far below it and raises none. */
static void make_attention(const struct sw_kernel_rates *rates, int32_t ranks,
                           struct sw_calibration *out)
{
    for (int32_t i = 0; i < SW_ATTENTION_PHASES * SW_RATE_DTYPES; i++) {
        const enum sw_attention_phase phase = i / SW_RATE_DTYPES;
        const struct sw_grid_rates *measured = &rates->attention[phase][i % SW_RATE_DTYPES];
        struct sw_products *grid = &out->attention_by_size[phase][i % SW_RATE_DTYPES];
        if (measured->levels <= 0)
            continue;
        sw_attention_sizes(phase, (int32_t)(measured->levels / ranks + 0.5), grid);
        if (!is_timed(measured, grid))
            *grid = (struct sw_products){.rows = 0};
        for (int32_t p = 0; p < sw_products_points(grid); p++) {
            const struct sw_product s = sw_products_point(grid, p);
            const double share =
                product_rate(measured->seconds[p], ranks, sw_attention_flops(phase, &s),
                             1 / out->share, out->launch_latency_s) /
                *peak_of(out, i % SW_RATE_DTYPES);
            grid->share[p] = share < 1 ? share : 1;
        }
    }
    sw_attention_scale_find(rates, ranks, out);
}

static void make_products(const struct sw_kernel_rates *rates, int32_t ranks,
                          struct sw_calibration *out)
{
    double by = 1;
    for (int32_t i = 0; i < SW_PRODUCT_KINDS * SW_RATE_DTYPES; i++) {
        const int32_t kind = i / SW_RATE_DTYPES, dtype = i % SW_RATE_DTYPES;
        struct sw_products *grid = &out->products[kind][dtype];
        if (rates->products[kind][dtype].levels <= 0)
            continue;
        make_rates(&rates->products[kind][dtype], ranks, (enum sw_product_kind)kind, 1 / out->share,
                   out->launch_latency_s, grid);
        for (int32_t p = 0; p < sw_products_points(grid); p++) {
            const double over = grid->share[p] / *peak_of(out, dtype);
            by = over > by ? over : by;
        }
    }
    raise_peaks(out, by);
    for (int32_t i = 0; i < SW_PRODUCT_KINDS * SW_RATE_DTYPES; i++) {
        const int32_t dtype = i % SW_RATE_DTYPES;
        make_shares(out, *peak_of(out, dtype), dtype == SW_RATE_FP32 ? 4 : 2,
                    &out->products[i / SW_RATE_DTYPES][dtype]);
    }
    sw_products_scale_find(rates, ranks, out);
}

/* Seconds of rotary embeddings per angle besides memory; bandwidth: the curve's unit. */
static void make_angle_time(const struct sw_kernel_rates *rates, double stretch, double bandwidth,
                            struct sw_calibration *out)
{
    const struct sw_calibration_curve *memory = &out->curve[SW_RATE_MEMORY];
    struct sw_curve curve = {.count = memory->count};
    double seconds = 0;
    for (int32_t i = 0; i < memory->count; i++)
        curve.point[i] = (struct sw_curve_point){memory->point[i].size, memory->point[i].fraction};
    for (int32_t b = 0; b < SW_RATE_BUCKETS; b++) {
        const struct sw_rate_bucket *rope = &rates->rope[b];
        if (rope->calls > 0)
            seconds +=
                rope->seconds * stretch - rope->calls * out->launch_latency_s -
                rope->size / (bandwidth * sw_cost_efficiency(&curve, rope->size / rope->calls, 1));
    }
    out->angle_time_s = seconds > 0 && rates->angles > 0 ? seconds / rates->angles : 0;
}

int sw_calibration_make(const struct sw_kernel_rates *rates, int32_t ranks,
                        struct sw_calibration *out, struct sw_error *err)
{
    static const char *const names[SW_RATE_COUNT] = {"matmul", "attention", "attention_backward",
                                                     "memory"};
    *out = (struct sw_calibration){0};
    if (!(rates->busy_seconds > 0) || !(rates->wall_seconds > 0))
        return sw_fail(err, SW_ENVIRONMENT, "nothing was measured");
    const double stretch = stretch_of(rates);
    out->share = 1 / stretch;
    out->launch_latency_s = rates->least_seconds / ranks * stretch;
    double best[SW_RATE_COUNT];
    for (int32_t k = 0; k < SW_RATE_COUNT; k++) {
        best[k] = make_curve(rates->bucket[k], stretch, out->launch_latency_s, &out->curve[k]);
        if (!(best[k] > 0))
            return sw_fail(err, SW_ENVIRONMENT, "no %s was measured", names[k]);
    }
    out->fp32_flops = best[SW_RATE_MATMUL];
    out->memory_bandwidth = best[SW_RATE_MEMORY];
    out->bf16_flops = rates->bf16_seconds > 0
                          ? out->fp32_flops * rates->fp32_seconds / rates->bf16_seconds
                          : out->fp32_flops;
    /* attention is priced with the same peak as matrix products */
    for (int32_t k = SW_RATE_ATTENTION; k <= SW_RATE_ATTENTION_BACKWARD; k++)
        for (int32_t i = 0; i < out->curve[k].count; i++) {
            double *fraction = &out->curve[k].point[i].fraction;
            *fraction *= best[k] / best[SW_RATE_MATMUL];
            *fraction = *fraction < 1 ? *fraction : 1;
        }
    make_angle_time(rates, stretch, best[SW_RATE_MEMORY], out);
    make_products(rates, ranks, out);
    make_attention(rates, ranks, out);
    make_all_skinny_gemm(&rates->skinny_gemm, out);
    return 0;
}

/* ---- Text ---- */

/* Four digits: more than a measurement knows. */
static void write_rate(FILE *out, double value, const char *unit)
{
    static const char *const prefixes[] = {"", "k", "M", "G", "T"};
    int32_t p = 0;
    while (value >= 1000 && p < 4) {
        value /= 1000;
        p++;
    }
    fprintf(out, "%.4g %s%s", value, prefixes[p], unit);
}

static void write_seconds(FILE *out, double seconds)
{
    fprintf(out, "%.4g us", seconds * 1e6);
}

/* Never 0, which is not a fraction. */
static double shown(double fraction)
{
    return fraction > 1e-6 ? fraction : 1e-6;
}

static void write_points(FILE *out, const struct sw_calibration_point *point, int32_t count,
                         const char *indent)
{
    fputc('[', out);
    for (int32_t i = 0; i < count; i++) {
        if (i > 0)
            fprintf(out, i % 5 == 0 ? ",\n%s" : ", ", indent);
        fprintf(out, "[%.6g, %.4g]", point[i].size, shown(point[i].fraction));
    }
    fputc(']', out);
}

static const char *const dtypes[SW_RATE_DTYPES] = {"fp32", "bf16"};

static void write_skinny_gemm(FILE *out, const struct sw_skinny_gemm *skinny)
{
    for (int32_t i = 0; i < skinny->count; i++) {
        const struct sw_skinny_gemm_point *p = &skinny->point[i];
        const bool next = i > 0 && p->rows > skinny->point[i - 1].rows;
        fprintf(out, "%s[%g, %.6g, %.4g]",
                next    ? ",\n    "
                : i > 0 ? ", "
                        : "",
                p->rows, p->bytes, p->bandwidth);
    }
}

static void write_all_skinny_gemm(FILE *out, const struct sw_calibration *c)
{
    static const char *const kinds[SW_SKINNY_KINDS] = {"linear", "linear_t", "attention"};
    bool begun = false;
    for (int32_t k = 0; k < SW_SKINNY_KINDS; k++)
        for (int32_t d = 0; d < SW_RATE_DTYPES; d++) {
            if (c->skinny_gemm[k][d].count == 0)
                continue;
            fprintf(out, "%s  %s_%s:\n    [", begun ? "" : "few_rows:\n", kinds[k], dtypes[d]);
            begun = true;
            write_skinny_gemm(out, &c->skinny_gemm[k][d]);
            fputs("]\n", out);
        }
}

/* One line per column of a row. */
static void write_grid(FILE *out, const struct sw_products *grid)
{
    for (int32_t i = 0; i < sw_products_points(grid); i++) {
        const struct sw_product s = sw_products_point(grid, i);
        /* never 0, which is not a share */
        const double share = grid->share[i] > 1e-6 ? grid->share[i] : 1e-6;
        fprintf(out, "%s[%g, %g, %g, %.3g]",
                i == 0                  ? ""
                : i % grid->depths == 0 ? ",\n    "
                                        : ", ",
                s.m, s.n, s.k, share);
    }
}

/* Writes the measured grids by kind and precision. */
static void write_grids(FILE *out, const char *key, const char *const *kinds, int32_t count,
                        const struct sw_products (*grid)[SW_RATE_DTYPES])
{
    bool begun = false;
    for (int32_t k = 0; k < count; k++)
        for (int32_t d = 0; d < SW_RATE_DTYPES; d++) {
            if (grid[k][d].rows == 0)
                continue;
            if (!begun)
                fprintf(out, "%s:\n", key);
            begun = true;
            fprintf(out, "  %s_%s:\n    [", kinds[k], dtypes[d]);
            write_grid(out, &grid[k][d]);
            fputs("]\n", out);
        }
}

static void write_scale(FILE *out, const char *of, const struct sw_curve *scale, double error,
                        double signed_error)
{
    if (scale->count == 0)
        return;
    fprintf(out, "%s_scale: [", of);
    for (int32_t i = 0; i < scale->count; i++)
        fprintf(out, "%s[%.6g, %.4g]",
                i == 0       ? ""
                : i % 5 == 0 ? ",\n  "
                             : ", ",
                scale->point[i].size, scale->point[i].fraction);
    fprintf(out, "]\n%s_error: %.3g\n%s_signed_error: %.3g\n", of, error, of, signed_error);
}

static void write_products(FILE *out, const struct sw_calibration *c)
{
    static const char *const kinds[SW_PRODUCT_KINDS] = {"linear", "linear_t", "linear_dw"};
    write_grids(out, "products", kinds, SW_PRODUCT_KINDS, c->products);
    write_scale(out, "products", &c->products_scale, c->products_error, c->products_signed_error);
}

static void write_attention(FILE *out, const struct sw_calibration *c)
{
    static const char *const phases[SW_ATTENTION_PHASES] = {"forward", "backward", "cached"};
    write_grids(out, "attention_by_size", phases, SW_ATTENTION_PHASES, c->attention_by_size);
    write_scale(out, "attention", &c->attention_scale, c->attention_error,
                c->attention_signed_error);
}

/* Writes quoted YAML text. */
static void write_quoted(FILE *out, const char *text)
{
    fputc('\'', out);
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            fputc('\'', out);
        fputc(*text, out);
    }
    fputs("'\n", out);
}

static void write_header(FILE *out, const struct sw_calibration_facts *f)
{
    fprintf(out, "# Measured by `runner calibrate` with %d rank%s of %d thread%s",
            f->nodes * f->ranks_per_node, f->nodes * f->ranks_per_node == 1 ? "" : "s", f->threads,
            f->threads == 1 ? "" : "s");
    if (f->nodes > 1)
        fprintf(out, " on %d nodes", f->nodes);
    fprintf(out, ", all at work at once.\n# %s\n", f->versions);
}

/* Peaks: the profile's are the unit of its shares, the accelerator's its data sheet. */
static void write_peaks(FILE *out, const struct sw_calibration *c, const char *indent)
{
    fprintf(out, "%speak: {bf16: ", indent);
    write_rate(out, c->bf16_flops, "FLOP/s");
    fputs(", fp32: ", out);
    write_rate(out, c->fp32_flops, "FLOP/s");
    fprintf(out, "}\n%smemory_bandwidth: ", indent);
    write_rate(out, c->memory_bandwidth, "B/s");
    fputc('\n', out);
}

static void write_basis(FILE *out, const struct sw_calibration *c,
                        const struct sw_calibration_facts *f)
{
    write_header(out, f);
    if (f->basis != NULL)
        fputs(f->basis, out);
    else
        fprintf(out,
                "# One accelerator is one rank; a rank's thread had a core for %.0f %% of its "
                "time.\n# Peaks are the best rates that were measured, fractions are shares of "
                "them.\n",
                c->share * 100);
    if (f->notes != NULL)
        fputs(f->notes, out);
}

void sw_calibration_write_profile(FILE *out, const struct sw_calibration *c,
                                  const struct sw_calibration_facts *f)
{
    static const char *const names[SW_RATE_COUNT] = {"matmul", "attention", "attention_backward",
                                                     "memory"};
    write_basis(out, c, f);
    fputs("name: shardwright\n", out);
    if (f->known)
        fprintf(out, "accelerator: %s\n", f->accelerator_name);
    fputs("source: runner calibrate\n", out);
    if (f->band_low > 0)
        fprintf(out, "band_low: %.3g\nband_high: %.3g\n", f->band_low, f->band_high);
    write_peaks(out, c, "");
    fputs("launch_latency: ", out);
    write_seconds(out, c->launch_latency_s);
    if (c->angle_time_s > 0) {
        fputs("\nangle_time: ", out);
        write_seconds(out, c->angle_time_s);
    }
    fputc('\n', out);
    for (int32_t k = 0; k < SW_RATE_COUNT; k++) {
        fprintf(out, "%s: ", names[k]);
        write_points(out, c->curve[k].point, c->curve[k].count, "  ");
        fputc('\n', out);
    }
    write_all_skinny_gemm(out, c);
    write_products(out, c);
    write_attention(out, c);
}

static void write_accelerator(FILE *out, const struct sw_calibration *c,
                              const struct sw_calibration_facts *f)
{
    fprintf(out, "accelerator:\n  name: %s\n  device: %s\n", f->accelerator_name,
            sw_word(sw_words_device, (int32_t)f->device));
    fprintf(out, "  memory: %lld MB\n  reserved_memory: %lld MB\n",
            (long long)(f->memory_bytes / 1000000), (long long)(f->reserved_bytes / 1000000 + 1));
    write_peaks(out, c, "  ");
    if (f->compute_units > 0)
        fprintf(out, "  compute_units: %d\n", f->compute_units);
}

/* One line per kind and number of ranks. */
static void write_curves(FILE *out, const struct sw_link_rates *r)
{
    for (int32_t c = 0; c < r->curves; c++)
        for (int32_t i = 0; i < r->count; i++)
            fprintf(out, "%s[%s, %d, %.6g, %.4g]",
                    c + i == 0   ? "\n    collectives: ["
                    : i % 4 == 0 ? ",\n      "
                                 : ", ",
                    sw_word(sw_words_collective, (int32_t)r->curve[c].kind), r->curve[c].ranks,
                    r->curve[c].point[i].bytes, shown(r->curve[c].point[i].fraction));
    if (r->curves > 0)
        fputc(']', out);
}

static void write_link(FILE *out, const char *name, int32_t spans, const struct sw_link_rates *r)
{
    struct sw_calibration_point point[SW_LINK_POINTS];
    for (int32_t i = 0; i < r->count; i++)
        point[i] = (struct sw_calibration_point){r->point[i].bytes, r->point[i].fraction};
    fprintf(out, "  - name: %s\n    spans: %d\n    bandwidth: ", name, spans);
    write_rate(out, r->bandwidth, "B/s");
    fputs("\n    latency: ", out);
    write_seconds(out, r->latency_s);
    fputs("\n    efficiency: ", out);
    write_points(out, point, r->count, "      ");
    write_curves(out, r);
    fprintf(out, "\n    direct: %s\n    rails: %s\n    source: runner calibrate\n",
            r->rings ? "false" : "true", r->rails ? "true" : "false");
}

void sw_calibration_write_cluster(FILE *out, const struct sw_calibration *c,
                                  const struct sw_calibration_facts *f)
{
    const int32_t ranks = f->nodes * f->ranks_per_node;
    write_basis(out, c, f);
    fputs("# Bandwidths are those of one rank while every rank sends; efficiencies are by bytes "
          "that a\n# collective sends over a port.\n",
          out);
    fprintf(out, "name: %s\nnodes: %d\naccelerators_per_node: %d\n", f->cluster_name, f->nodes,
            f->ranks_per_node);
    write_accelerator(out, c, f);
    fputs("profile: ", out);
    write_quoted(out, f->profile_path);
    if (f->inside != NULL || f->across != NULL)
        fputs("links:\n", out);
    if (f->inside != NULL)
        write_link(out, "node", f->ranks_per_node, f->inside);
    if (f->across != NULL)
        write_link(out, "network", ranks, f->across);
    if (f->partition == NULL)
        fputs("launcher: mpirun\n", out);
    else if (sw_device_row(f->device)->allocated)
        fprintf(out,
                "launcher: slurm\nslurm: {partition: '%s', gpus_per_node: '%d', cpus_per_task: "
                "%d}\n",
                f->partition, f->ranks_per_node, f->threads);
    else
        fprintf(out, "launcher: slurm\nslurm: {partition: '%s', cpus_per_task: %d}\n", f->partition,
                f->threads);
}

int sw_calibration_save(const char *path, void (*write)(FILE *out, const void *context),
                        const void *context, struct sw_error *err)
{
    /* the rename would replace a device or pipe with a file */
    struct stat there;
    if (stat(path, &there) == 0 && !S_ISREG(there.st_mode))
        return sw_fail(err, SW_BAD_INPUT, "'%s' is not a regular file; name a file to write", path);
    struct sw_new_file file;
    if (sw_file_begin(&file, path, 0666, err) != 0)
        return -1;
    write(file.out, context);
    return sw_file_commit(&file, err);
}
