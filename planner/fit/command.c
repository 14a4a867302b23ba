/* `plan fit`: fits a profile to measured runs, and latency and curves of links to collectives;
 * prints YAML with the errors before and after as comments. */
#include "planner/command/command.h"

#include "planner/fit/fit.h"
#include "planner/fit/grid.h"
#include "planner/scheduler/scheduler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FEW_RUNS = 5, FEW_MODELS = 4 };
static const double most = 0.9995;  /* a share printed as 1.000 */
static const double least = 0.0505; /* a share printed as 0.050, the lower limit */

/* Contents of tables of kernels. */
struct kernels {
    struct sw_fit_products products;
    struct sw_fit_attention attention;
};

static bool ends(const char *text, const char *suffix)
{
    const size_t a = strlen(text), b = strlen(suffix);
    return a >= b && strcmp(text + a - b, suffix) == 0;
}

/* Reads a description; keeps it if a cluster, a model or a run. Returns an exit code; *is_plan is
 * set for a plan. */
static int read_description(struct sw_fit_set *set, const char *path, bool *is_plan)
{
    struct sw_error err = {0};
    struct sw_config *config =
        sw_config_read(path, SW_CONFIG_UNKNOWN, &sw_launchers, NULL, 0, &err);
    *is_plan = false;
    if (config == NULL)
        return sw_command_fail(&err);
    const enum sw_config_kind kind = sw_config_get_kind(config);
    if (sw_command_diagnose(config, SW_NOTES_HIDDEN) > 0) {
        sw_config_free(config);
        return SW_BAD_INPUT;
    }
    *is_plan = kind == SW_CONFIG_PLAN;
    const bool kept = kind == SW_CONFIG_CLUSTER || kind == SW_CONFIG_MODEL || kind == SW_CONFIG_RUN;
    if (!kept && !*is_plan)
        sw_fail_at(&err, SW_BAD_INPUT, (struct sw_place){.file = path},
                   "'plan fit' takes clusters, models, runs and plans beside measurements");
    else if (!*is_plan && sw_fit_add_config(set, config, &err) == 0)
        return SW_OK;
    sw_config_free(config);
    return err.status != SW_OK ? sw_command_fail(&err) : SW_OK;
}

static int read_measurements(const struct sw_options *options, const char *path, const char *plan,
                             struct sw_fit_set *set, struct sw_fit_links *links,
                             struct kernels *kernels, struct sw_error *err)
{
    if (ends(path, ".csv") && sw_fit_has_attention(path))
        return sw_fit_read_attention(&kernels->attention, path, err);
    if (ends(path, ".csv") && sw_fit_has_products(path))
        return sw_fit_read_products(&kernels->products, path, err);
    if (ends(path, ".jsonl") && plan == NULL)
        return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = path},
                          "give the run's plan file before its metrics");
    if (ends(path, ".jsonl"))
        return sw_fit_read_metrics(set, plan, path, err);
    if (ends(path, ".csv") && !sw_fit_has_collectives(path))
        return sw_fit_read_csv(set, path, err);
    const enum sw_collective named = (enum sw_collective)options->collective;
    return sw_fit_read_collectives(links, path, options->collective < 0 ? NULL : &named, err);
}

/* Prints the mistakes of a file's rows, of which its error is the first. */
static int tell_mistakes(struct sw_fit_mistakes *m, int32_t from, const struct sw_error *err)
{
    for (int32_t i = from; i < m->count; i++)
        sw_command_fail(&m->error[i]);
    return m->count > from ? SW_BAD_INPUT : sw_command_fail(err);
}

/* Reads descriptions first, so that the order of arguments does not matter; a plan belongs to the
 * metrics file behind it. Reports mistakes of all files, not only of the first. */
static int read_files(const struct sw_options *options, struct sw_fit_set *set,
                      struct sw_fit_links *links, struct kernels *kernels)
{
    const char *plan = NULL;
    int status = SW_OK;
    for (int32_t i = 0; i < options->file_count; i++) {
        bool is_plan = false;
        const char *path = options->files[i];
        if (!ends(path, ".yaml") && !ends(path, ".yml"))
            continue;
        const int one = read_description(set, path, &is_plan);
        status = one > status ? one : status;
    }
    for (int32_t i = 0; i < options->file_count; i++) {
        const char *path = options->files[i];
        const int32_t runs = set->mistakes.count, collectives = links->mistakes.count;
        struct sw_error err = {0};
        if (ends(path, ".yaml") || ends(path, ".yml")) {
            plan = path;
            continue;
        }
        if (read_measurements(options, path, plan, set, links, kernels, &err) == 0)
            continue;
        const int one = links->mistakes.count > collectives
                            ? tell_mistakes(&links->mistakes, collectives, &err)
                            : tell_mistakes(&set->mistakes, runs, &err);
        status = one > status ? one : status;
    }
    const int32_t more = set->mistakes.more + links->mistakes.more;
    struct sw_error err = {0};
    if (more > 0) {
        sw_fail(&err, SW_BAD_INPUT, "%d more rows are wrong", more);
        sw_command_fail(&err);
    }
    return status;
}

static bool is_priced(const struct sw_fit_run *r)
{
    return r->program != NULL && r->skipped[0] == '\0';
}

static const char *name_of(const struct sw_fit_run *r)
{
    return r->group;
}

static bool is_first(const struct sw_fit_set *set, int32_t index)
{
    if (!is_priced(&set->run[index]))
        return false;
    for (int32_t i = 0; i < index; i++)
        if (is_priced(&set->run[i]) &&
            strcmp(name_of(&set->run[i]), name_of(&set->run[index])) == 0)
            return false;
    return true;
}

static int print_error(struct sw_fit_set *set, const char *name, const char *what,
                       struct sw_fit_summary *s, struct sw_error *err)
{
    if (sw_fit_summarize(set, name, s, err) != 0)
        return -1;
    printf("#   %-22s mean error %5.1f %%, 90th percentile %5.1f %%, worst %5.1f %%\n", what,
           100 * s->mean, 100 * s->p90, 100 * s->worst);
    return 0;
}

static int32_t count_models(const struct sw_fit_set *set, const char *name)
{
    int32_t count = 0;
    for (int32_t i = 0; i < set->count; i++) {
        bool first = is_priced(&set->run[i]) && strcmp(name_of(&set->run[i]), name) == 0;
        for (int32_t k = 0; k < i && first; k++)
            first = !is_priced(&set->run[k]) || strcmp(name_of(&set->run[k]), name) != 0 ||
                    strcmp(set->run[k].model, set->run[i].model) != 0;
        count += first;
    }
    return count;
}

/* Prints the band from models left out of the fit. */
static void print_band(const struct sw_fit_summary *other)
{
    double low, high;
    if (other->models < 2 || other->count < FEW_RUNS) {
        printf("# too few runs or models for an error and a band: the default is kept\n");
        return;
    }
    printf("error: %.3f\nsigned_error: %.4f\n", other->mean, other->bias);
    if (other->models < FEW_MODELS) {
        printf("# %d models are too few for a band: the default's is kept\n", other->models);
        return;
    }
    sw_fit_band(other, &low, &high);
    printf("band_low: %.3f\nband_high: %.3f # of %d runs of %d models, worth %.0f that have "
           "nothing in "
           "common, and so %.2f times as wide\n",
           low, high, other->count, other->models, other->worth, sw_fit_widening(other->worth));
}

static int fit_profile(struct sw_fit_set *set, const struct sw_fit_run *first, struct sw_error *err)
{
    const char *name = first->group;
    struct sw_efficiency c;
    struct sw_fit_summary before, after, other = {0};
    const int32_t models = count_models(set, name);
    if (sw_fit_predict(set, name, NULL, err) != 0 || sw_fit_summarize(set, name, &before, err) != 0)
        return -1;
    printf("# %s%s: %d runs of %d models\n", *first->software == '\0' ? "accelerator " : "", name,
           before.count, models);
    if (print_error(set, name, "as described:", &before, err) != 0 ||
        sw_fit_constants(set, name, NULL, &c, err) != 0 ||
        sw_fit_predict(set, name, &c, err) != 0 ||
        print_error(set, name, "fitted:", &after, err) != 0)
        return -1;
    if (models > 1 && (sw_fit_leave_one_out(set, name, err) != 0 ||
                       print_error(set, name, "leave one model out:", &other, err) != 0))
        return -1;
    printf("# A profile: write it to a file, and name that as 'profile' of a cluster or a run.\n");
    if (before.count < SW_FIT_ENOUGH)
        printf("# Fewer than %d runs do not tell three constants apart: one factor of all that is "
               "assumed was fitted.\n",
               SW_FIT_ENOUGH);
    printf("name: %s\naccelerator: %s\nmatmul: %.3f\nattention: %.3f\nmemory: %.3f\nhost_time: %g "
           "us\nruns: %d\n",
           *first->software != '\0' ? first->software : "custom",
           first->run.cluster.accelerator.name, c.matmul, c.attention, c.memory,
           c.host_time_s * 1e6, before.count);
    if (first->run.cluster.profile.gradient_copies > 0)
        printf("gradient_copies: %d # as described\n", first->run.cluster.profile.gradient_copies);
    print_band(&other);
    const struct sw_efficiency ceiling = sw_fit_ceilings(set, name);
    if (c.matmul >= most * ceiling.matmul && c.attention >= most * ceiling.attention &&
        c.memory >= most * ceiling.memory)
        printf("# Every share is at its most: raise 'peak' and 'memory_bandwidth' of %s, or the "
               "runs\n# were not made on it.\n",
               first->run.cluster.accelerator.name);
    else if (c.matmul >= most * ceiling.matmul)
        printf("# matmul is at its most, %.3f: no product that was measured on %s reaches more, so "
               "that\n# these runs, which do, are not all that the price is of.\n",
               c.matmul, first->run.cluster.accelerator.name);
    if (c.matmul < least && c.attention < least && c.memory < least)
        printf("# Every share is at its least: the runs took longer than any software does; check "
               "the units\n# of what was measured, and that they were made on %s.\n",
               first->run.cluster.accelerator.name);
    printf("source: fitted to %d runs of %d models\n", before.count, models);
    return 0;
}

static bool are_one_group(const struct sw_fit_link_point *a, const struct sw_fit_link_point *b)
{
    return a->kind == b->kind && a->ranks == b->ranks;
}

/* Interval of groups left out of a level: each omission is a fit of its own, which takes time
 * proportional to the points. *whole: true if groups, not points, are left out. */
static int32_t left_out_each(const struct sw_cluster_config *cluster, int32_t level,
                             const struct sw_fit_links *links, bool *whole)
{
    enum { AFFORD = 1 << 16 };
    int32_t all = 0, groups = 0, last = -1;
    for (int32_t i = 0; i < links->count; i++) {
        if (sw_fit_link_level(cluster, &links->point[i]) != level)
            continue;
        groups += last < 0 || !are_one_group(&links->point[last], &links->point[i]);
        last = i;
        all++;
    }
    *whole = all > SW_MAX_CURVE;
    return *whole ? (int32_t)(((int64_t)groups * all + AFFORD - 1) / AFFORD) : 1;
}

/* Mean |error| over the points of a level, -1: none; leave_out: true to predict each without
 * itself, by the one curve of all collectives, as for unmeasured ones. *bias: mean of measured /
 * predicted - 1. */
static double link_error(const struct sw_cluster_config *cluster, int32_t level,
                         const struct sw_fit_links *links, bool leave_out, double *bias)
{
    double sum = 0, signed_sum = 0;
    int32_t count = 0, group = -1, last = -1;
    bool whole = false, fits = true;
    const int32_t each = leave_out ? left_out_each(cluster, level, links, &whole) : 1;
    struct sw_cluster_config c = *cluster;
    for (int32_t i = 0; i < links->count; i++) {
        if (sw_fit_link_level(cluster, &links->point[i]) != level)
            continue;
        const bool same =
            last >= 0 && whole && are_one_group(&links->point[last], &links->point[i]);
        last = i;
        group += !same;
        if (group % each != 0)
            continue;
        if (leave_out && !same) {
            c = *cluster;
            fits = sw_fit_link(&c, level, links, i, NULL) > 0;
        }
        if (!fits)
            continue;
        const double error = sw_fit_link_error(&c, &links->point[i]);
        sum += fabs(error);
        signed_sum += 1 / (1 + error) - 1;
        count++;
    }
    *bias = count > 0 ? signed_sum / count : 0;
    return count > 0 ? sum / count : -1;
}

/* Prints the error of times for each collective over each number of ranks, which are adjacent. */
static void print_groups(const struct sw_cluster_config *cluster, int32_t level,
                         const struct sw_fit_links *links)
{
    double *error = malloc((size_t)links->count * sizeof *error);
    for (int32_t i = 0, next; error != NULL && i < links->count; i = next) {
        const struct sw_fit_link_point *first = &links->point[i];
        struct sw_fit_summary off;
        int32_t count = 0;
        for (next = i; next < links->count && are_one_group(first, &links->point[next]); next++)
            if (sw_fit_link_level(cluster, &links->point[next]) == level)
                error[count++] = sw_fit_link_error(cluster, &links->point[next]);
        if (count == 0)
            continue;
        sw_fit_errors_sum(error, count, &off);
        printf("  #   %s of %d: median error %.1f %%, 90th percentile %.1f %%, worst %.1f %%\n",
               sw_collective_name(first->kind), first->ranks, 100 * off.low, 100 * off.p90,
               100 * off.worst);
    }
    free(error);
}

/* Prints a curve on each line, one point after another. */
static void print_collectives(const struct sw_collective_curves *own)
{
    for (int32_t i = 0; i < own->count; i++)
        for (int32_t k = 0; k < own->of[i].curve.count; k++)
            printf("%s[%s, %d, %.4g, %.3g]",
                   i + k == 0   ? ",\n     collectives: ["
                   : k % 4 == 0 ? ",\n       "
                                : ", ",
                   sw_collective_name(own->of[i].kind), own->of[i].ranks,
                   own->of[i].curve.point[k].size, own->of[i].curve.point[k].fraction);
    printf("]");
}

/* Prints a link. A span given as a word stays a word, so that the cluster can be resized. A curve
 * without measurements is the default, and left out. */
static void print_link(const struct sw_cluster_config *c, const struct sw_link_config *link)
{
    const struct sw_curve *curve = &link->efficiency;
    bool all_most = curve->count > 0;
    char spans[16];
    snprintf(spans, sizeof spans, "%d", link->spans);
    printf("  - {name: %s, spans: %s, bandwidth: %.6g GB/s, launch: %.3g us, latency: %.3g us,\n"
           "     oversubscription: %g, rails: %s%s",
           link->name,
           link->spans_all                           ? "all"
           : link->spans == c->accelerators_per_node ? "node"
                                                     : spans,
           link->bandwidth / 1e9, link->launch_s * 1e6, link->latency_s * 1e6,
           link->oversubscription, link->rails ? "true" : "false",
           link->direct ? ", direct: true" : "");
    for (int32_t i = 0; i < curve->count; i++) {
        all_most = all_most && curve->point[i].fraction >= most;
        printf("%s[%.4g, %.3g]%s",
               i == 0       ? ", efficiency: ["
               : i % 6 == 0 ? ",\n       "
                            : ", ",
               curve->point[i].size, curve->point[i].fraction, i + 1 == curve->count ? "]" : "");
    }
    if (link->collectives != NULL)
        print_collectives(link->collectives);
    printf("}\n");
    if (all_most)
        printf("  # every share is at its most: raise the bandwidth of %s\n", link->name);
}

static bool has_measured_links(const struct sw_cluster_config *cluster,
                               const struct sw_fit_links *links)
{
    for (int32_t i = 0; i < links->count; i++)
        if (sw_fit_link_level(cluster, &links->point[i]) >= 0)
            return true;
    return false;
}

static void fit_cluster(const struct sw_cluster_config *described, const struct sw_fit_links *links)
{
    struct sw_cluster_config c = *described;
    struct sw_collective_curves own[SW_MAX_LINKS];
    printf("# cluster %s: put these 'links' in place of those in its file, %s\nlinks:\n", c.name,
           described->path);
    for (int32_t l = 0; l < c.link_count; l++) {
        struct sw_link_config *link = &c.link[l];
        double bias;
        const double before = link_error(&c, l, links, false, &bias);
        const int32_t count = sw_fit_link(&c, l, links, -1, &own[l]);
        if (count == 0)
            printf("  # %s: no measurements, as described\n", link->name);
        else {
            const double fitted = link_error(&c, l, links, false, &bias);
            const double other = link_error(&c, l, links, true, &bias);
            printf("  # %s: %d collectives, mean error %.1f %% as described, %.1f %% fitted\n",
                   link->name, count, 100 * before, 100 * fitted);
            if (other >= 0)
                printf("  # the one curve, of collectives that are left out: error: %.3f, "
                       "signed_error: %.3f\n",
                       other, bias);
            else
                printf("  # those of one size tell no error of others\n");
        }
        double error;
        if (count > 0 && sw_fit_collectives_error(&c, l, links, &error, &bias) > 0)
            printf("  # curves of single collectives, of sizes left out: collectives_error: %.3f, "
                   "collectives_signed_error: %.4f\n",
                   error, bias);
        print_groups(&c, l, links);
        print_link(&c, link);
    }
}

/* Prints the points of a grid, one depth a row. */
static void print_grid(const struct sw_products *grid, const char *indent, const char *end)
{
    const int32_t count = grid->rows * grid->columns * grid->depths;
    for (int32_t i = 0; i < count; i++)
        printf("%s[%g, %g, %g, %.3g]%s", i % grid->depths == 0 ? indent : " ",
               grid->row[i / (grid->columns * grid->depths)],
               grid->column[i / grid->depths % grid->columns], grid->depth[i % grid->depths],
               grid->share[i],
               i + 1 == count                ? end
               : (i + 1) % grid->depths == 0 ? ",\n"
                                             : ",");
}

/* Prints the heading of the part for a cluster's accelerator. *fitted: counts printed parts. */
static void print_heading(const struct sw_accelerator_config *chip, const char *what,
                          int32_t *fitted)
{
    printf("%s# accelerator %s: put %s in its file, %s\n", *fitted > 0 ? "---\n" : "", chip->name,
           what, chip->path != NULL ? chip->path : "its cluster's");
    ++*fitted;
}

static void print_left_out(const struct sw_fit_summary *other, const char *indent)
{
    printf("%s# %d measured sizes that are none of these points: mean error %.1f %%, median "
           "%.1f %%, 90th percentile %.1f %%, worst %.1f %%\n",
           indent, other->count, 100 * other->mean, 100 * other->low, 100 * other->p90,
           100 * other->worst);
}

static int fit_products(const struct sw_accelerator_config *chip, const struct sw_fit_products *all,
                        int32_t *fitted, struct sw_error *err)
{
    struct sw_products grid;
    struct sw_fit_summary other;
    if (sw_fit_products(chip, all, &grid, err) != 0)
        return -1;
    if (grid.rows == 0)
        return 0;
    if (sw_fit_products_errors(chip, all, &grid, &other, err) != 0)
        return -1;
    print_heading(chip, "these 'products'", fitted);
    print_left_out(&other, "");
    printf("products_error: %.3f\nproducts_signed_error: %.4f\nproducts: [\n", other.low,
           other.bias);
    print_grid(&grid, "  ", "\n]\n");
    return 0;
}

static int fit_attention(const struct sw_accelerator_config *chip,
                         const struct sw_fit_attention *all, int32_t *fitted, struct sw_error *err)
{
    static const char *const names[SW_FIT_ATTENTION_PHASES] = {"prefill", "decode"};
    bool begun = false;
    for (int32_t phase = 0; phase < SW_FIT_ATTENTION_PHASES; phase++) {
        struct sw_products grid;
        struct sw_fit_summary other;
        if (sw_fit_attention(chip, (enum sw_fit_phase)phase, all, &grid, err) != 0)
            return -1;
        if (grid.rows == 0)
            continue;
        if (sw_fit_attention_errors(chip, (enum sw_fit_phase)phase, all, &grid, &other, err) != 0)
            return -1;
        if (!begun) {
            print_heading(chip, "this 'attention'", fitted);
            printf("attention:\n");
        }
        begun = true;
        print_left_out(&other, "  ");
        printf("  %s_error: %.3f\n  %s_signed_error: %.4f\n  %s: [\n", names[phase], other.low,
               names[phase], other.bias, names[phase]);
        print_grid(&grid, "    ", "\n  ]\n");
    }
    return 0;
}

static int fit_chips(const struct sw_fit_set *set, const struct kernels *kernels, int32_t *fitted,
                     struct sw_error *err)
{
    for (int32_t i = 0; i < set->config_count; i++) {
        const struct sw_cluster_config *cluster = sw_fit_cluster_of(set->config[i]);
        if (cluster == NULL)
            continue;
        const struct sw_accelerator_config *chip = &cluster->accelerator;
        if (fit_products(chip, &kernels->products, fitted, err) != 0 ||
            fit_attention(chip, &kernels->attention, fitted, err) != 0)
            return -1;
    }
    return 0;
}

/* Uses the form of a description's notes. */
static void tell_skipped(const struct sw_fit_run *r)
{
    fprintf(stderr, "%s", r->place.file);
    if (r->place.line > 0)
        fprintf(stderr, ":%d:%d", r->place.line, r->place.column);
    fprintf(stderr, ": note: not used: %s\n", r->skipped);
}

static int fit_runs(struct sw_fit_set *set, int32_t *fitted, int32_t *skipped, struct sw_error *err)
{
    for (int32_t i = 0; i < set->count; i++) {
        const struct sw_fit_run *r = &set->run[i];
        if (!is_priced(r))
            tell_skipped(r);
        *skipped += !is_priced(r);
        if (!is_first(set, i))
            continue;
        if ((*fitted)++ > 0)
            printf("---\n");
        if (fit_profile(set, r, err) != 0)
            return -1;
    }
    return 0;
}

/* Reports rows of a table without accelerator names that would be fitted if a cluster had so
 * many. */
static void tell_unused(const struct sw_fit_set *set, const struct sw_fit_links *links)
{
    int32_t unused = 0, first = -1;
    for (int32_t i = 0; i < links->count; i++) {
        bool used = *links->point[i].accelerator != '\0';
        for (int32_t k = 0; k < set->config_count && !used; k++) {
            const struct sw_cluster_config *cluster = sw_fit_cluster_of(set->config[k]);
            used = cluster != NULL && sw_fit_link_level(cluster, &links->point[i]) >= 0;
        }
        first = used || first >= 0 ? first : i;
        unused += !used;
    }
    if (unused == 0 || unused == links->count)
        return; /* none is used: an error */
    const struct sw_place at = links->point[first].place;
    fprintf(stderr,
            "%s:%d:%d: note: not used: %d collectives over more ranks than a given cluster has\n",
            at.file, at.line, at.column, unused);
}

/* The first mistake is reported at its position, so before sorting. */
static int fit_links(const struct sw_fit_set *set, struct sw_fit_links *links, int32_t *fitted,
                     struct sw_error *err)
{
    const int32_t all = links->count;
    for (int32_t i = 0; i < set->config_count; i++) {
        const struct sw_cluster_config *cluster = sw_fit_cluster_of(set->config[i]);
        if (cluster != NULL && sw_fit_links_check(cluster, links, err) != 0)
            return -1;
    }
    tell_unused(set, links);
    if (sw_fit_links_gather(links, err) != 0)
        return -1;
    if (links->count < all)
        fprintf(stderr,
                "plan: note: of %d collectives many repeat a size: the medians of %d count\n", all,
                links->count);
    for (int32_t i = 0; i < set->config_count; i++) {
        const struct sw_cluster_config *cluster = sw_fit_cluster_of(set->config[i]);
        if (cluster == NULL || !has_measured_links(cluster, links))
            continue;
        if ((*fitted)++ > 0)
            printf("---\n");
        fit_cluster(cluster, links);
    }
    return 0;
}

int sw_command_fit(const struct sw_options *options)
{
    struct kernels kernels = {0};
    struct sw_fit_set set = {0};
    struct sw_fit_links links = {0};
    struct sw_error err = {0};
    int status = read_files(options, &set, &links, &kernels);
    if (status != SW_OK)
        goto out;
    int32_t fitted = 0, skipped = 0;
    if (fit_runs(&set, &fitted, &skipped, &err) != 0 ||
        fit_links(&set, &links, &fitted, &err) != 0 ||
        fit_chips(&set, &kernels, &fitted, &err) != 0) {
        status = sw_command_fail(&err);
        goto out;
    }
    if (fitted == 0) {
        if (skipped > 0)
            sw_fail(&err, SW_UNMET, "none of the %d runs could be priced; the reasons are above",
                    skipped);
        else if (links.count > 0)
            sw_fail_at(&err, SW_UNMET, links.point[0].place,
                       "none of the %d collectives is one of a given cluster, on its accelerator "
                       "and over no more ranks than it has; name the cluster that was measured",
                       links.count);
        else
            sw_fail(&err, SW_BAD_INPUT,
                    "name the measurements, as in 'plan fit runs.csv clusters/*.yaml' or 'plan fit "
                    "run.plan.yaml metrics.jsonl'");
        status = sw_command_fail(&err);
    }
out:
    sw_fit_products_free(&kernels.products);
    sw_fit_attention_free(&kernels.attention);
    sw_fit_links_free(&links);
    sw_fit_free(&set);
    return status;
}
