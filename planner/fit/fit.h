/* Measured runs against their predicted times, and the three constants of an accelerator that bring
 * them closest.
 *
 * Owns the measured runs: each is a run description with every choice made, its compiled program
 * and what was measured. A prediction is sw_cost_price of that program and nothing else. */
#ifndef SW_FIT_FIT_H
#define SW_FIT_FIT_H

#include "core/plan/plan.h"
#include "core/cost/cost.h"
#include "core/cost/links.h"

/* Descriptions, and runs: each is a program that is priced some hundred times. */
enum { SW_FIT_MAX_CONFIGS = 64, SW_FIT_MOST_RUNS = 1000 };

/* What is fitted: shares of peak for large matrix products and attention, of the memory's bandwidth
 * for everything else. */
struct sw_efficiency {
    double matmul, attention, memory;
    double host_time_s; /* to issue one op */
};

/* All that is wrong with the rows of files, in their order. */
struct sw_fit_mistakes {
    struct sw_error *error; /* [count] */
    int32_t count, capacity;
    int32_t more; /* beyond SW_FIT_MOST_MISTAKES: only counted */
};
enum { SW_FIT_MOST_MISTAKES = 100 };
/* Keeps *err and clears it; when memory runs out it is lost, and that is told instead. */
void sw_fit_mistake(struct sw_fit_mistakes *mistakes, struct sw_error *err);

struct sw_fit_run {
    char model[48];           /* leave-one-out leaves out all runs of one */
    char software[72];        /* as a profile's name; "": not told */
    char group[144];          /* runs of one have one profile: "SOFTWARE on ACCELERATOR", or
                                 the accelerator alone; "": skipped */
    char label[96];           /* model, accelerators, options: for tables */
    char note[96];            /* where what is priced differs from what was run, or "" */
    char skipped[160];        /* why it is not priced; "": it is */
    struct sw_place place;    /* of what that is about, else of the row; a metrics file's: line 0 */
    int32_t accelerators;     /* as measured */
    struct sw_run_config run; /* its strings are the configs' */
    struct sw_decision decision;
    struct sw_program *program; /* NULL: skipped */
    int64_t memory_bytes;       /* arena + reserved */
    double measured, predicted; /* tokens/s per accelerator */
    double band_low, band_high; /* of measured / predicted time, as predicted last */
};

struct sw_fit_set {
    struct sw_fit_run *run;
    int32_t count, capacity;
    struct sw_config *config[SW_FIT_MAX_CONFIGS]; /* clusters and models; owned */
    int32_t config_count;
    struct sw_plan plan[SW_FIT_MAX_CONFIGS]; /* of metrics files; owned */
    int32_t plan_count;
    struct sw_fit_mistakes mistakes;
};

/* Adds a cluster, a model or a run, whose cluster and model count; the set then owns it. Errors
 * (SW_BAD_INPUT): too many. */
int sw_fit_add_config(struct sw_fit_set *set, struct sw_config *config, struct sw_error *err);
/* The cluster of a description, a run's own; NULL: it has none. */
const struct sw_cluster_config *sw_fit_cluster_of(const struct sw_config *config);

/* Adds the runs of a CSV file with the columns of `plan fit --help`: a row's `cluster` names its
 * cluster, else its `gpu` picks it by its accelerator's name; its `model` the model file of that
 * name where the row itself has no sizes. Rows that cannot be priced (fp8, pipelines) are kept with
 * the reason; what is wrong with others goes to the set's mistakes, all of them, and the first is
 * the error. Errors: SW_BAD_INPUT with file:line, also of more than SW_FIT_MOST_RUNS in all,
 * SW_ENVIRONMENT. */
int sw_fit_read_csv(struct sw_fit_set *set, const char *path, struct sw_error *err);
/* Whether the first line of a CSV file has a column of that name. */
bool sw_fit_has_column(const char *path, const char *column);
/* Adds the run of a plan file, measured by the metrics.jsonl that `runner train` wrote: the median
 * step after the first two. */
int sw_fit_read_metrics(struct sw_fit_set *set, const char *plan_path, const char *metrics_path,
                        struct sw_error *err);
void sw_fit_free(struct sw_fit_set *set);

/* Prices every run of a group (NULL: all) with its profile as described, or with *constants when
 * not NULL. */
int sw_fit_predict(struct sw_fit_set *set, const char *group, const struct sw_efficiency *constants,
                   struct sw_error *err);
/* predicted / measured - 1. */
double sw_fit_error(const struct sw_fit_run *run);

/* The constants that make the mean of |ln(predicted / measured)| smallest over the priced runs of
 * a group, without those of one model (NULL: all). A pattern search, deterministic. Fewer
 * than SW_FIT_ENOUGH runs do not tell three constants apart: then one factor of all that is assumed
 * is fitted. Of twice as many the host's time is fitted as well, one of a few. */
enum { SW_FIT_ENOUGH = 4 };
/* Shares that no kernel was measured to exceed on the chip of a group (NULL: all), as far as is
 * known: no fit goes above them. */
struct sw_efficiency sw_fit_ceilings(const struct sw_fit_set *set, const char *group);
int sw_fit_constants(struct sw_fit_set *set, const char *group, const char *without,
                     struct sw_efficiency *out, struct sw_error *err);

struct sw_fit_summary {
    int32_t count, models;   /* runs, and the models that they are of */
    double mean, p90, worst; /* of |error| */
    double bias;             /* mean error: above 0 when predicted faster than measured */
    double inside;           /* share of runs whose time lies in their profile's band */
    double low, high;        /* of measured time / predicted time: 10th and 90th percentile */
    double worth; /* runs of a model of their own that they are worth: from models to count */
};
/* How many times as wide as what runs show the band of another model's is, 1 of fewer than two: the
 * 10th and 90th percentile of Student's t with worth - 1 degrees of freedom over those of the
 * normal (Abramowitz & Stegun 26.7.5, three terms: 0.1 % off from four on, 4 % of two), for a mean
 * that is known no better than sqrt(1 + 1 / worth). Runs of a model are off together: they are
 * worth less than as many of a model each. */
double sw_fit_widening(double worth);

/* Of the priced runs of a group (NULL: all), as predicted last. */
int sw_fit_summarize(const struct sw_fit_set *set, const char *group, struct sw_fit_summary *out,
                     struct sw_error *err);

/* The band around predictions that such runs show, as a profile's band_low and band_high: widened
 * for how few they are, and 1 within it. */
void sw_fit_band(const struct sw_fit_summary *runs, double *low, double *high);

/* Share of a group's runs, as predicted last, whose time lies in the band of the runs of its other
 * models; of those that were predicted by constants of other models (sw_fit_leave_one_out) what a
 * band is worth for a model that it never saw. 0: all are of one model. */
int sw_fit_covered(const struct sw_fit_set *set, const char *group, double *share,
                   struct sw_error *err);

/* Predicts every run of a group with constants fitted to its other models. */
int sw_fit_leave_one_out(struct sw_fit_set *set, const char *group, struct sw_error *err);

/* products.c: one product [m, k] x [k, n] in bf16 as measured. */
struct sw_fit_product {
    struct sw_product size;
    double seconds;
    struct sw_place place; /* of its time */
    char accelerator[48];  /* its name; "": not told */
};
struct sw_fit_products {
    struct sw_fit_product *point; /* [count] */
    int32_t count, capacity;
};
/* Whether a CSV file has the columns m, n, k and latency_us. */
bool sw_fit_has_products(const char *path);
/* Adds the rows of one; a column accelerator holds names. Errors: SW_BAD_INPUT with file:line,
 * SW_ENVIRONMENT. Free with sw_fit_products_free. */
int sw_fit_read_products(struct sw_fit_products *all, const char *path, struct sw_error *err);
void sw_fit_products_free(struct sw_fit_products *all);
/* The grid of a chip, without its asymptote: of the measured sizes some that are spread evenly in
 * their logarithms. out->rows is 0 where none was measured on it. Errors (SW_BAD_INPUT): more sizes
 * than a grid has, some not measured, or a time that the chip's peak does not allow. */
int sw_fit_products(const struct sw_accelerator_config *chip, const struct sw_fit_products *all,
                    struct sw_products *out, struct sw_error *err);
/* Of the measured products that are no points of the grid: count, mean, p90 and worst of |error|,
 * its median as `low`. */
int sw_fit_products_errors(const struct sw_accelerator_config *chip,
                           const struct sw_fit_products *all, const struct sw_products *grid,
                           struct sw_fit_summary *out, struct sw_error *err);

/* attention.c: one kernel of attention over a cache in bf16 as measured. */
enum sw_fit_phase { SW_FIT_PREFILL, SW_FIT_DECODE, SW_FIT_ATTENTION_PHASES };
struct sw_fit_kernel {
    struct sw_product size; /* as in the grid of its phase: struct sw_accelerator_config */
    double kv_heads;        /* of all sequences */
    double seconds;
    struct sw_place place; /* of its time */
    bool decodes;
    char accelerator[48]; /* its name; "": not told */
};
struct sw_fit_attention {
    struct sw_fit_kernel *point; /* [count] */
    int32_t count, capacity;
};
/* Whether a CSV file has the columns phase, kv_heads, head_dim and latency_us; batch, tokens,
 * cached, heads and perhaps accelerator are read besides. */
bool sw_fit_has_attention(const char *path);
/* As sw_fit_read_products. Free with sw_fit_attention_free. */
int sw_fit_read_attention(struct sw_fit_attention *all, const char *path, struct sw_error *err);
void sw_fit_attention_free(struct sw_fit_attention *all);
/* As sw_fit_products, of lengths from 64 on, which are spread evenly in their logarithms. */
int sw_fit_attention(const struct sw_accelerator_config *chip, enum sw_fit_phase phase,
                     const struct sw_fit_attention *all, struct sw_products *out,
                     struct sw_error *err);
/* As sw_fit_products_errors. */
int sw_fit_attention_errors(const struct sw_accelerator_config *chip, enum sw_fit_phase phase,
                            const struct sw_fit_attention *all, const struct sw_products *grid,
                            struct sw_fit_summary *out, struct sw_error *err);

/* links.c: one collective as measured. */
struct sw_fit_link_point {
    double bytes, seconds; /* sent by a rank; of the whole */
    int32_t ranks;
    enum sw_collective kind;
    struct sw_place place; /* of its time or rate */
    char accelerator[48];  /* name of those that it joined; "": not told */
};
struct sw_fit_links {
    struct sw_fit_link_point *point; /* [count] */
    int32_t count, capacity;
    struct sw_fit_mistakes mistakes;
};
/* Adds the measurements of nccl-tests' output (its ranks are counted in its header), or of a CSV
 * with the columns collective, payload_bytes, gpus, busbw_GBps, or op, message_bytes, accelerators,
 * latency_us, and perhaps accelerator, its name. collective (may be NULL): what
 * nccl-tests ran, where neither its output nor the file's name says; one that cannot be told from
 * others is a mistake. Errors and mistakes as sw_fit_read_csv. Free with sw_fit_links_free. */
int sw_fit_read_collectives(struct sw_fit_links *links, const char *path,
                            const enum sw_collective *collective, struct sw_error *err);
void sw_fit_links_free(struct sw_fit_links *links);
/* Whether a CSV file holds collectives by its columns. */
bool sw_fit_has_collectives(const char *path);
/* The level that the collectives of a point cross at most; -1: more ranks than the cluster has, or
 * other accelerators. */
int32_t sw_fit_link_level(const struct sw_cluster_config *cluster,
                          const struct sw_fit_link_point *point);
/* That no collective is faster than the links of the cluster are. Errors: SW_BAD_INPUT with the
 * place of the first. */
int sw_fit_links_check(const struct sw_cluster_config *cluster, const struct sw_fit_links *links,
                       struct sw_error *err);
/* groups.c: puts the points of a collective over as many ranks behind each other, as they come
 * otherwise. Of more than so many, which are fitted in seconds, repeated ones of one size become
 * their median. Errors: SW_BAD_INPUT where there are more of them still. */
enum { SW_FIT_MOST_COLLECTIVES = 2000 };
int sw_fit_links_gather(struct sw_fit_links *links, struct sw_error *err);
/* Sets launch, latency and efficiency of a level from the points that cross no other above it,
 * without point `without` (-1: none) and those of its size that repeat it. Inner levels come first.
 * The launch stays as described where all take as many steps. More points than a curve holds become
 * one that brings the mean of |ln(predicted / measured)| near its least; then all of the collective
 * and ranks of `without` are left out, where others remain. Collectives over numbers of ranks that
 * have 12 points or more get curves of their own beside it, in `own` (NULL: they do not), which the
 * cluster then points to. Returns how many points were used; 0 leaves the cluster as it is. */
int32_t sw_fit_link(struct sw_cluster_config *cluster, int32_t level,
                    const struct sw_fit_links *links, int32_t without,
                    struct sw_collective_curves *own);
/* How far off its curves of single collectives are for sizes that were left out, all points of one
 * size at a time but a curve's first and last, launch and latency as fitted: mean |error|, and mean
 * of measured / predicted - 1. Returns of how many points; 0, with zeros: there is no such curve.
 */
int32_t sw_fit_collectives_error(const struct sw_cluster_config *fitted, int32_t level,
                                 const struct sw_fit_links *links, double *error, double *bias);
/* predicted time / measured time - 1. */
double sw_fit_link_error(const struct sw_cluster_config *cluster,
                         const struct sw_fit_link_point *point);

#endif
