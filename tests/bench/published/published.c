/* Every published run beside its predicted throughput: the table of
 * tests/bench/published/README.md.
 *
 *   bench_published [--fit | --default] FILE...
 *   bench_published --collectives CLUSTER... NCCL.csv
 *
 * FILE: cluster and model YAML, then CSV measurements. Predictions rest on the constants that the
 * clusters' profiles have; with --fit, on constants fitted to all other models of the same software
 * and accelerator; with --default, on the profile that is assumed where nothing was measured. The
 * second form tells how far times of collectives by the clusters' links as they stand are off, each
 * collective over each number of ranks. */
#include "core/base/number.h"
#include "planner/fit/fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool ends(const char *text, const char *suffix)
{
    const size_t a = strlen(text), b = strlen(suffix);
    return a >= b && strcmp(text + a - b, suffix) == 0;
}

static int read_file(struct sw_fit_set *set, const char *path, struct sw_error *err)
{
    if (ends(path, ".csv"))
        return sw_fit_read_csv(set, path, err);
    struct sw_config *config = sw_config_read(path, SW_CONFIG_UNKNOWN, NULL, NULL, 0, err);
    if (config == NULL)
        return -1;
    for (int32_t i = 0; i < sw_config_diagnostic_count(config); i++)
        sw_diagnostic_print(stderr, sw_config_diagnostic(config, i), false);
    if (sw_fit_add_config(set, config, err) != 0) {
        sw_config_free(config);
        return -1;
    }
    return 0;
}

/* The group that run i is the first of, NULL: it is not. */
static const char *first_group(const struct sw_fit_set *set, int32_t i)
{
    if (set->run[i].program == NULL || set->run[i].skipped[0] != '\0')
        return NULL;
    const char *name = set->run[i].group;
    for (int32_t k = 0; k < i; k++)
        if (set->run[k].program != NULL && strcmp(set->run[k].group, name) == 0)
            return NULL;
    return name;
}

static void assume(struct sw_fit_set *set)
{
    for (int32_t i = 0; i < set->count; i++) {
        struct sw_cluster_config *c = &set->run[i].run.cluster;
        c->profile = sw_profile_default(&c->accelerator);
    }
}

static int predict(struct sw_fit_set *set, bool fit, struct sw_error *err)
{
    if (!fit)
        return sw_fit_predict(set, NULL, NULL, err);
    for (int32_t i = 0; i < set->count; i++) {
        struct sw_efficiency c;
        const char *name = first_group(set, i);
        if (name == NULL)
            continue;
        if (sw_fit_constants(set, name, NULL, &c, err) != 0)
            return -1;
        printf("%s: fitted to all: matmul %.3f, attention %.3f, memory %.3f, host time %g us\n\n",
               name, c.matmul, c.attention, c.memory, 1e6 * c.host_time_s);
        if (sw_fit_leave_one_out(set, name, err) != 0)
            return -1;
    }
    return 0;
}

/* Bands of fewer runs say little of how many they hold. */
enum { ENOUGH_RUNS = 10 };

/* banded: runs have the band of a profile that was there before; else each model's runs that of the
 * others'. */
static int print_summary(const struct sw_fit_set *set, const char *name, bool banded,
                         struct sw_error *err)
{
    struct sw_fit_summary s;
    double covered;
    if (sw_fit_summarize(set, name, &s, err) != 0)
        return -1;
    printf("| %s | %d | %.1f %% | %.1f %% | %.1f %% | %+.1f %% |", name != NULL ? name : "all",
           s.count, 100 * s.mean, 100 * s.p90, 100 * s.worst, 100 * s.bias);
    if (!banded && (name == NULL || s.count < ENOUGH_RUNS)) {
        printf(" |\n");
        return 0;
    }
    if (!banded && sw_fit_covered(set, name, &covered, err) != 0)
        return -1;
    printf(" %.0f %% |\n", 100 * (banded ? s.inside : covered));
    return 0;
}

/* Runs that are alike in what prices depend on: sequence length or parameters from `least` on and
 * below the next class's. */
struct class
{
    const char *name;
    double least;
};
static const struct class lengths[] = {{"at most 4k tokens", 0},
                                       {"more than 4k tokens", 4097},
                                       {"16k tokens and more", 16384},
                                       {"64k tokens and more", 65536},
                                       {NULL, INFINITY}};
static const struct class sizes[] = {{"models below 1.6B", 0},
                                     {"1.6B and more", 1.6e9},
                                     {"10B and more", 1e10},
                                     {"40B and more", 4e10},
                                     {NULL, INFINITY}};
enum { FEW_OF_CLASS = 20 }; /* fewer are listed one by one */

static bool is_inside(const struct sw_fit_run *r)
{
    const double ratio = r->predicted / r->measured;
    return ratio >= r->band_low && ratio <= r->band_high;
}

static bool is_of_class(const struct sw_fit_run *r, const struct class *class, bool by_length)
{
    if (r->skipped[0] != '\0' || r->program == NULL)
        return false;
    const double value =
        by_length ? (double)r->run.sequence_length : sw_cost_parameters(r->program);
    return value >= class[0].least && value < class[1].least;
}

static void print_class(const struct sw_fit_set *set, const struct class *class, bool by_length)
{
    int32_t count = 0, inside = 0;
    double mean = 0, sign = 0;
    for (int32_t i = 0; i < set->count; i++) {
        const struct sw_fit_run *r = &set->run[i];
        if (!is_of_class(r, class, by_length))
            continue;
        count++;
        inside += is_inside(r);
        mean += fabs(sw_fit_error(r));
        sign += sw_fit_error(r);
    }
    if (count == 0)
        return;
    printf("| %s | %d | %.1f %% | %+.1f %% | %.0f %% |\n", class->name, count, 100 * mean / count,
           100 * sign / count, 100.0 * inside / count);
    for (int32_t i = 0; i < set->count && count < FEW_OF_CLASS; i++)
        if (is_of_class(&set->run[i], class, by_length))
            printf("| - %s %s | | | %+.1f %% | %s |\n", set->run[i].software, set->run[i].label,
                   100 * sw_fit_error(&set->run[i]),
                   is_inside(&set->run[i]) ? "inside" : "outside");
}

/* Bands are to hold in every class, not only on the whole. */
static void print_classes(const struct sw_fit_set *set)
{
    printf("\n| class | runs | mean error | signed mean | inside the band |\n"
           "| --- | ---: | ---: | ---: | ---: |\n");
    for (const struct class *c = lengths; c->name != NULL; c++)
        print_class(set, c, true);
    for (const struct class *c = sizes; c->name != NULL; c++)
        print_class(set, c, false);
}

static int print_table(const struct sw_fit_set *set, bool banded, struct sw_error *err)
{
    int32_t over = 0;
    printf("| run | recompute | measured tok/s | predicted tok/s | error | memory GiB | |\n"
           "| --- | --- | ---: | ---: | ---: | ---: | --- |\n");
    for (int32_t i = 0; i < set->count; i++) {
        const struct sw_fit_run *r = &set->run[i];
        if (r->skipped[0] != '\0' || r->program == NULL) {
            printf("| %s | | %.0f | | | | not priced: %s |\n", r->label, r->measured, r->skipped);
            continue;
        }
        const bool out = r->memory_bytes > r->run.cluster.accelerator.memory_bytes;
        over += out;
        printf("| %s | %s | %.0f | %.0f | %+.1f %% | %.1f | %s%s |\n", r->label,
               sw_recompute_word(r->decision.train.recompute), r->measured, r->predicted,
               100 * sw_fit_error(r), (double)r->memory_bytes / (1 << 30),
               out ? "OUT OF MEMORY; " : "", r->note);
    }
    printf("\n| runs of | runs | mean error | 90th percentile | worst | signed mean | inside the "
           "band%s |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n",
           banded ? "" : " of other models");
    for (int32_t i = 0; i < set->count; i++)
        if (first_group(set, i) != NULL &&
            print_summary(set, first_group(set, i), banded, err) != 0)
            return -1;
    if (print_summary(set, NULL, banded, err) != 0)
        return -1;
    printf("\nruns called out of memory: %d\n", over);
    return 0;
}

/* Of the collectives of one kind over so many ranks that cross the cluster's innermost links. */
static void print_group(const struct sw_cluster_config *cluster, const struct sw_fit_links *links,
                        enum sw_collective kind, int32_t ranks, double *error)
{
    int32_t count = 0;
    for (int32_t i = 0; i < links->count; i++)
        if (links->point[i].kind == kind && links->point[i].ranks == ranks &&
            sw_fit_link_level(cluster, &links->point[i]) == 0)
            error[count++] = fabs(sw_fit_link_error(cluster, &links->point[i]));
    if (count == 0)
        return;
    qsort(error, (size_t)count, sizeof *error, sw_compare_doubles);
    printf("| %s | %s | %d | %d | %.1f %% | %.1f %% | %.1f %% |\n", cluster->name,
           sw_collective_name(kind), ranks, count, 100 * error[count / 2],
           100 * error[(count - 1) * 9 / 10], 100 * error[count - 1]);
}

static int print_collectives(const struct sw_fit_set *set, const char *path, struct sw_error *err)
{
    struct sw_fit_links links = {0};
    double *error = NULL;
    int status = sw_fit_read_collectives(&links, path, NULL, err);
    if (status == 0 && (error = malloc((size_t)links.count * sizeof *error)) == NULL)
        status = sw_fail(err, SW_ENVIRONMENT, "out of memory");
    if (status == 0)
        printf("| cluster | collective | ranks | sizes | median error | 90th percentile | worst |\n"
               "| --- | --- | ---: | ---: | ---: | ---: | ---: |\n");
    for (int32_t i = 0; i < set->config_count && status == 0; i++) {
        const struct sw_cluster_config *cluster = sw_config_cluster(set->config[i]);
        for (int32_t kind = SW_ALL_GATHER; cluster != NULL && kind <= SW_ALL_TO_ALL; kind++)
            for (int32_t ranks = 2; ranks <= cluster->link[0].spans; ranks++)
                print_group(cluster, &links, (enum sw_collective)kind, ranks, error);
    }
    free(error);
    sw_fit_links_free(&links);
    return status;
}

int main(int argc, char **argv)
{
    struct sw_fit_set set = {0};
    struct sw_error err = {0};
    const bool collectives = argc > 2 && strcmp(argv[1], "--collectives") == 0;
    const bool fit = argc > 1 && strcmp(argv[1], "--fit") == 0;
    const bool assumed = argc > 1 && strcmp(argv[1], "--default") == 0;
    int status = 0;
    const int last = collectives ? argc - 1 : argc;
    for (int i = fit || assumed || collectives ? 2 : 1; i < last && status == 0; i++)
        status = read_file(&set, argv[i], &err);
    if (status == 0 && collectives) {
        status = print_collectives(&set, argv[last], &err);
        goto out;
    }
    if (status == 0 && assumed)
        assume(&set);
    if (status == 0)
        status = predict(&set, fit, &err);
    if (status == 0)
        status = print_table(&set, !fit, &err);
    if (status == 0 && assumed)
        print_classes(&set);
out:
    if (status != 0)
        fprintf(stderr, "%s\n", err.message);
    sw_fit_free(&set);
    return status == 0 ? 0 : 2;
}
