/* Measured runs against their predicted times, and the constants of an accelerator that bring them
 * closest.
 *
 * Owns the measured runs: each is a run description with every choice made, its compiled program
 * and its measurement. A prediction is sw_cost_price of that program and nothing else. */
#ifndef SW_FIT_FIT_H
#define SW_FIT_FIT_H

#include "core/plan/plan.h"
#include "core/cost/cost.h"
#include "core/cost/links.h"

/* Limits of descriptions, and of runs: each run is a program that is priced some hundred times. */
enum { SW_FIT_MAX_CONFIGS = 64, SW_FIT_MOST_RUNS = 1000 };

/* Fitted constants: shares of peak for large matrix products and attention, of the memory's
 * bandwidth for everything else. */
struct sw_efficiency {
    double matmul, attention, memory;
    double host_time_s; /* seconds to issue one op */
};

/* Mistakes in the rows of files, in order. */
struct sw_fit_mistakes {
    struct sw_error *error; /* [count] */
    int32_t count, capacity;
    int32_t more; /* number beyond SW_FIT_MOST_MISTAKES */
};
enum { SW_FIT_MOST_MISTAKES = 100 };
/* Stores *err and clears it; out of memory it is lost, and that is reported instead. */
void sw_fit_mistake(struct sw_fit_mistakes *mistakes, struct sw_error *err);

struct sw_fit_run {
    char model[48];           /* leave-one-out leaves out all runs of one model */
    char software[72];        /* name of a profile; "": not given */
    char group[144];          /* runs of a group share a profile: "SOFTWARE on ACCELERATOR", or
                                 the accelerator alone; "": skipped */
    char label[96];           /* model, accelerators, options: for tables */
    char note[96];            /* difference between the priced run and the measured one, or "" */
    char skipped[160];        /* reason why it is not priced; "": it is */
    struct sw_place place;    /* position of the skipped cell, else of the row; for a metrics
                                 file: line 0 */
    int32_t accelerators;     /* in the measured run */
    struct sw_run_config run; /* the configs own its strings */
    struct sw_decision decision;
    struct sw_program *program; /* NULL: skipped */
    int64_t memory_bytes;       /* arena + reserved */
    double measured, predicted; /* tokens/s per accelerator */
    double band_low, band_high; /* measured / predicted time, from the last prediction */
};

struct sw_fit_set {
    struct sw_fit_run *run;
    int32_t count, capacity;
    struct sw_config *config[SW_FIT_MAX_CONFIGS]; /* clusters and models; owned */
    int32_t config_count;
    struct sw_plan plan[SW_FIT_MAX_CONFIGS]; /* plans of metrics files; owned */
    int32_t plan_count;
    struct sw_fit_mistakes mistakes;
};

/* Adds a cluster, a model or a run, for its cluster and model; the set then owns it. Errors
 * (SW_BAD_INPUT): too many. */
int sw_fit_add_config(struct sw_fit_set *set, struct sw_config *config, struct sw_error *err);
/* The cluster of a description, or of its run; NULL: none. */
const struct sw_cluster_config *sw_fit_cluster_of(const struct sw_config *config);

/* Adds the runs of a CSV file with the columns of `plan fit --help`: a row's `cluster` names its
 * cluster, else its `gpu` picks it by the accelerator's name; its `model` names the model file if
 * the row has no sizes. Rows that cannot be priced (fp8, pipelines) are kept with the reason;
 * mistakes of others go to the set's mistakes, and the first is the error. Errors: SW_BAD_INPUT
 * with file:line, also for more than SW_FIT_MOST_RUNS in all, SW_ENVIRONMENT. */
int sw_fit_read_csv(struct sw_fit_set *set, const char *path, struct sw_error *err);
/* True if the first line of a CSV file has a column of that name. */
bool sw_fit_has_column(const char *path, const char *column);
/* Adds the run of a plan file, measured by the metrics.jsonl of `runner train`: the median step
 * after the first two. */
int sw_fit_read_metrics(struct sw_fit_set *set, const char *plan_path, const char *metrics_path,
                        struct sw_error *err);
void sw_fit_free(struct sw_fit_set *set);

/* Prices every run of a group (NULL: all) with its described profile, or with *constants if not
 * NULL. */
int sw_fit_predict(struct sw_fit_set *set, const char *group, const struct sw_efficiency *constants,
                   struct sw_error *err);
/* predicted / measured - 1. */
double sw_fit_error(const struct sw_fit_run *run);

/* Fits the constants with the least mean of |ln(predicted / measured)| over the priced runs of a
 * group, without those of one model (NULL: all). A deterministic pattern search. Fewer than
 * SW_FIT_ENOUGH runs cannot separate three constants: then one factor of all defaults is fitted.
 * With twice as many, the host's time is fitted as well, from a few values. */
enum { SW_FIT_ENOUGH = 4 };
/* Upper limits of shares on a group's chip (NULL: all), from measured kernels as far as known: no
 * fit exceeds them. */
struct sw_efficiency sw_fit_ceilings(const struct sw_fit_set *set, const char *group);
int sw_fit_constants(struct sw_fit_set *set, const char *group, const char *without,
                     struct sw_efficiency *out, struct sw_error *err);

struct sw_fit_summary {
    int32_t count, models;   /* runs, and their models */
    double mean, p90, worst; /* statistics of |error| */
    double bias;             /* mean error: above 0 if predicted faster than measured */
    double inside;           /* share of runs whose time is in their profile's band */
    double low, high;        /* measured time / predicted time: 10th and 90th percentile */
    double worth;            /* effective number of runs: from models to count */
};
/* Factor by which a band for other models is wider than that of these runs, 1 for fewer than two:
 * the 10th and 90th percentile of Student's t with worth - 1 degrees of freedom over those of the
 * normal (Abramowitz & Stegun 26.7.5, three terms: 0.1 % off from four on, 4 % for two), for a mean
 * known to sqrt(1 + 1 / worth). Errors within a model are correlated: its runs are worth less than
 * as many of a model each. */
double sw_fit_widening(double worth);

/* Summarizes the priced runs of a group (NULL: all) by their last predictions. */
int sw_fit_summarize(const struct sw_fit_set *set, const char *group, struct sw_fit_summary *out,
                     struct sw_error *err);

/* The band around predictions from such runs, as a profile's band_low and band_high: widened for
 * small numbers, and including 1. */
void sw_fit_band(const struct sw_fit_summary *runs, double *low, double *high);

/* Share of a group's runs, by their last predictions, whose time is in the band of the runs of its
 * other models; after sw_fit_leave_one_out, the quality of a band for unseen models. 0: all are of
 * one model. */
int sw_fit_covered(const struct sw_fit_set *set, const char *group, double *share,
                   struct sw_error *err);

/* Predicts every run of a group with constants fitted to the other models. */
int sw_fit_leave_one_out(struct sw_fit_set *set, const char *group, struct sw_error *err);

/* products.c: one measured product [m, k] x [k, n] in bf16. */
struct sw_fit_product {
    struct sw_product size;
    double seconds;
    struct sw_place place; /* position of its time */
    char accelerator[48];  /* its name; "": not given */
};
struct sw_fit_products {
    struct sw_fit_product *point; /* [count] */
    int32_t count, capacity;
};
/* True if a CSV file has the columns m, n, k and latency_us. */
bool sw_fit_has_products(const char *path);
/* Adds a file's rows; a column accelerator has names. Errors: SW_BAD_INPUT with file:line,
 * SW_ENVIRONMENT. Free with sw_fit_products_free. */
int sw_fit_read_products(struct sw_fit_products *all, const char *path, struct sw_error *err);
void sw_fit_products_free(struct sw_fit_products *all);
/* Builds the grid of a chip, without its asymptote, from some measured sizes that are evenly spread
 * in their logarithms. out->rows is 0 if none was measured on it. Errors (SW_BAD_INPUT): more sizes
 * than a grid has, some not measured, or a time that the chip's peak does not allow. */
int sw_fit_products(const struct sw_accelerator_config *chip, const struct sw_fit_products *all,
                    struct sw_products *out, struct sw_error *err);
/* Errors over measured products that are no points of the grid: count, mean, p90 and worst of
 * |error|, its median as `low`. */
int sw_fit_products_errors(const struct sw_accelerator_config *chip,
                           const struct sw_fit_products *all, const struct sw_products *grid,
                           struct sw_fit_summary *out, struct sw_error *err);

/* attention.c: one measured kernel of attention over a cache in bf16. */
enum sw_fit_phase { SW_FIT_PREFILL, SW_FIT_DECODE, SW_FIT_ATTENTION_PHASES };
struct sw_fit_kernel {
    struct sw_product size; /* in its phase's grid: struct sw_accelerator_config */
    double kv_heads;        /* over all sequences */
    double seconds;
    struct sw_place place; /* position of its time */
    bool decodes;
    char accelerator[48]; /* its name; "": not given */
};
struct sw_fit_attention {
    struct sw_fit_kernel *point; /* [count] */
    int32_t count, capacity;
};
/* True if a CSV file has the columns phase, kv_heads, head_dim and latency_us; batch, tokens,
 * cached, heads and optionally accelerator are read as well. */
bool sw_fit_has_attention(const char *path);
/* Like sw_fit_read_products. Free with sw_fit_attention_free. */
int sw_fit_read_attention(struct sw_fit_attention *all, const char *path, struct sw_error *err);
void sw_fit_attention_free(struct sw_fit_attention *all);
/* Like sw_fit_products, for lengths from 64 on, evenly spread in their logarithms. */
int sw_fit_attention(const struct sw_accelerator_config *chip, enum sw_fit_phase phase,
                     const struct sw_fit_attention *all, struct sw_products *out,
                     struct sw_error *err);
/* Like sw_fit_products_errors. */
int sw_fit_attention_errors(const struct sw_accelerator_config *chip, enum sw_fit_phase phase,
                            const struct sw_fit_attention *all, const struct sw_products *grid,
                            struct sw_fit_summary *out, struct sw_error *err);

/* links.c: one measured collective. */
struct sw_fit_link_point {
    double bytes, seconds; /* bytes sent by a rank; seconds of the whole */
    int32_t ranks;
    enum sw_collective kind;
    struct sw_place place; /* position of its time or rate */
    char accelerator[48];  /* name of the joined accelerators; "": not given */
};
struct sw_fit_links {
    struct sw_fit_link_point *point; /* [count] */
    int32_t count, capacity;
    struct sw_fit_mistakes mistakes;
};
/* Adds the measurements in nccl-tests' output (its header counts the ranks), or in a CSV with the
 * columns collective, payload_bytes, gpus, busbw_GBps, or op, message_bytes, accelerators,
 * latency_us, and optionally accelerator, a name. collective (may be NULL): collective of
 * nccl-tests, if neither its output nor the file's name gives it; an ambiguous one is a mistake.
 * Errors and mistakes as sw_fit_read_csv. Free with sw_fit_links_free. */
int sw_fit_read_collectives(struct sw_fit_links *links, const char *path,
                            const enum sw_collective *collective, struct sw_error *err);
void sw_fit_links_free(struct sw_fit_links *links);
/* True if a CSV file's columns are those of collectives. */
bool sw_fit_has_collectives(const char *path);
/* Outermost level that a point's collective crosses; -1: more ranks than the cluster has, or other
 * accelerators. */
int32_t sw_fit_link_level(const struct sw_cluster_config *cluster,
                          const struct sw_fit_link_point *point);
/* Checks that no collective is faster than the cluster's links. Errors: SW_BAD_INPUT with the
 * position of the first. */
int sw_fit_links_check(const struct sw_cluster_config *cluster, const struct sw_fit_links *links,
                       struct sw_error *err);
/* groups.c: sorts points so that those of a collective over as many ranks are adjacent. Above that
 * number, which is fitted in seconds, repeated points of one size become their median. Errors:
 * SW_BAD_INPUT if there are still more. */
enum { SW_FIT_MOST_COLLECTIVES = 2000 };
int sw_fit_links_gather(struct sw_fit_links *links, struct sw_error *err);
/* Sets launch, latency and efficiency of a level from the points that cross no level above it,
 * without point `without` (-1: none) and those that repeat its size. Call for inner levels first.
 * The launch stays as described if all have equally many steps. More points than a curve holds
 * become one that nearly minimizes the mean of |ln(predicted / measured)|; then all points with the
 * collective and ranks of `without` are left out, if others remain. Collectives over numbers of
 * ranks with 12 points or more get curves of their own, in `own` (NULL: none), which the cluster
 * then points to. Returns the number of points used; 0 leaves the cluster unchanged. */
int32_t sw_fit_link(struct sw_cluster_config *cluster, int32_t level,
                    const struct sw_fit_links *links, int32_t without,
                    struct sw_collective_curves *own);
/* Error of its curves of single collectives for sizes left out, all points of one size at a time
 * except a curve's first and last, launch and latency as fitted: mean |error|, and mean of measured
 * / predicted - 1. Returns the number of points; 0, with zeros: no such curve. */
int32_t sw_fit_collectives_error(const struct sw_cluster_config *fitted, int32_t level,
                                 const struct sw_fit_links *links, double *error, double *bias);
/* predicted time / measured time - 1. */
double sw_fit_link_error(const struct sw_cluster_config *cluster,
                         const struct sw_fit_link_point *point);

#endif
