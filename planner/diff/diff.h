/* `plan diff`: differences between two runs or plans, and their cost.
 *
 * A side is a run, searched as by `plan search` for its job's purpose, or a plan, priced as
 * decided. A diff is a list of file pairs; it owns both sides of each. command.c is the command,
 * files.c pairs files, side.c reads and prices one, compare.c compares, text.c, markdown.c and
 * json.c print. */
#ifndef SW_DIFF_DIFF_H
#define SW_DIFF_DIFF_H

#include "core/cost/run_cost.h"
#include "core/cost/traffic.h"
#include "planner/emit/budget.h"
#include "planner/search/report.h"
#include "planner/diff/settings.h"
#include "planner/policy/fail_if.h"

enum { SW_DIFF_HEADLINE = 512, SW_DIFF_DIFFERS = 4 };

/* Verdict on one mesh. */
struct sw_diff_verdict {
    int32_t size[SW_AXIS_COUNT];
    enum sw_reject reason; /* SW_FITS: it fits */
    char detail[256];
};

struct sw_diff_side {
    const char *path; /* the caller's */
    const char *base; /* folder that paths are relative to; the caller's */
    bool is_plan;
    struct sw_config *config;
    struct sw_plan plan; /* a plan; owns its run */
    const struct sw_run_config *run;
    /* the run with the profile of its purpose, for a plan also with its job */
    struct sw_run_config suited;
    enum sw_purpose purpose;
    struct sw_settings settings; /* the description's; for a plan, its decision too */
    int64_t parameters;          /* the model's; 0: unknown */

    /* set by sw_diff_side_price */
    bool priced, fits;                  /* fits: true if it also keeps the goals of a serving run */
    enum sw_fit_verdict memory_verdict; /* if it fits */
    char why_not[1024];                 /* detail and help of the closest mesh */
    struct sw_candidate chosen;
    struct sw_settings choices; /* decision.*, of the search or the plan */
    struct sw_run_cost cost;    /* cost of the whole run; terms.steps 0: unknown */
    struct sw_measures measures;
    struct sw_traffics traffic; /* by kind and group */
    int32_t accelerators, mesh_count, fit_count;
    struct sw_diff_verdict *verdict; /* sorted by size */
};

/* Terms for reading a file: the folder that paths are relative to, --set overrides for a run, and
 * the stage to take. All are the caller's. */
struct sw_diff_reading {
    const char *base;
    const struct sw_override *override; /* [override_count] */
    int32_t override_count;
    const char *stage; /* NULL: the first */
};

/* Reads a run or plan file. *is_other (may be NULL) is set, instead of an error, for other files.
 * Prints mistakes unless quiet. Returns an exit code; free with sw_diff_side_free. */
int sw_diff_side_read(const char *path, const struct sw_diff_reading *as, bool quiet,
                      bool *is_other, struct sw_diff_side *out);
/* Number of stages of the run; 0: no run, or no stages. */
int32_t sw_diff_side_stages(const struct sw_diff_side *side);
/* Searches or prices the side. Errors: SW_BAD_INPUT, SW_ENVIRONMENT. */
int sw_diff_side_price(struct sw_diff_side *side, struct sw_error *err);
void sw_diff_side_free(struct sw_diff_side *side);

enum sw_diff_status { SW_DIFF_SAME, SW_DIFF_CHANGED, SW_DIFF_ADDED, SW_DIFF_REMOVED };
const char *sw_diff_status_name(enum sw_diff_status status);

struct sw_diff_traffic_change {
    const struct sw_traffic *before, *after; /* NULL: none */
};
struct sw_diff_mesh_change {
    const struct sw_diff_verdict *before, *after; /* exactly one of them fits */
};
struct sw_diff_outcome {
    const struct sw_fail_if *condition;
    enum sw_fail_if_verdict verdict;
    char detail[160];
};

struct sw_diff_file {
    char *path; /* shown path, relative to the compared folders */
    enum sw_diff_status status;
    bool same_plan; /* true if decisions and costs are equal, though settings may differ */
    bool unmet;     /* true if it fits nowhere, and that counts: it is new, fitted before, or
                       all are tested */
    struct sw_diff_side before, after; /* all zero if missing */
    char headline[SW_DIFF_HEADLINE];
    struct sw_setting_change *setting, *choice;
    int32_t setting_count, choice_count;
    struct sw_diff_traffic_change *traffic;
    int32_t traffic_count;
    struct sw_diff_mesh_change *mesh; /* newly rejected first, then newly fitting */
    int32_t rejected_count, fitting_count;
    struct sw_diff_outcome *outcome;
    int32_t outcome_count, failed_count;
    struct sw_budgets budgets; /* for a job of the new side, if its scheduler can be asked */
    bool not_judged;           /* true if no condition was tested, since the plan is the same */
};

/* Sum over the changed runs whose cost is known on all their sides. */
struct sw_diff_total {
    int32_t runs, unpriced;
    struct sw_run_cost before, after;
    char currency[SW_CURRENCY_BYTES]; /* currency of the first; "": no run */
    bool mixes_currencies;            /* true if money has no sum for that reason */
};

struct sw_diff {
    struct sw_diff_file **file; /* allocated one by one: a file points into itself */
    int32_t count, changed, added, removed;
    bool is_directory;
    struct sw_diff_total total;
    struct sw_budget_source source;  /* source of the accounts' budgets */
    int32_t failed;                  /* failed conditions of all files */
    bool unmet;                      /* true if a file is unmet */
    char headline[SW_DIFF_HEADLINE]; /* headline of the whole diff */
};

/* Conditions to test; `all`: true to test runs with unchanged plans, too. */
struct sw_diff_conditions {
    const struct sw_fail_if *item;
    int32_t count;
    bool all;
};

/* Compares the two sides in the file (status ADDED or REMOVED: the only one) and tests the
 * conditions on it. Errors: SW_BAD_INPUT, SW_ENVIRONMENT. */
int sw_diff_file_compare(struct sw_diff_file *file, const struct sw_diff_conditions *conditions,
                         struct sw_error *err);
void sw_diff_file_free(struct sw_diff_file *file);

/* Pairs the YAML and JSON files of two folders by their path, sorted; skips hidden folders. out:
 * malloc'ed paths relative to both. Errors: SW_BAD_INPUT (no folder), SW_ENVIRONMENT. */
struct sw_diff_pair {
    char *path, *before, *after; /* before, after: NULL when there is none */
};
int sw_diff_pair_files(const char *before, const char *after, struct sw_diff_pair **out,
                       int32_t *count, struct sw_error *err);
void sw_diff_pairs_free(struct sw_diff_pair *pairs, int32_t count);

/* Print a diff without files of status SAME that have no failed condition. */
void sw_diff_print_text(FILE *out, const struct sw_diff *diff);
int sw_diff_print_markdown(FILE *out, const struct sw_diff *diff, size_t limit_bytes,
                           struct sw_error *err);
void sw_diff_print_json(FILE *out, const struct sw_diff *diff);

/* Basis of the times: "profile NAME, in 80 % of cases 1.2 s to 1.4 s", of the new side, or of both
 * if their profiles differ; "": nothing fits. Returns buffer. */
/* Cost of all steps: "all steps: 17.7 days, 217,360 accelerator-hours -> 9.7 days, 29,660
 * accelerator-hours (-86 %)", once if equal; if no side gives its steps, accelerator-hours for a
 * billion tokens; "": a side does not train. Returns buffer. */
enum { SW_DIFF_COST = 512 };
char *sw_diff_cost(const struct sw_diff_file *file, char buffer[SW_DIFF_COST]);
/* total.c: "whole run: ends after 2.7 days, 4,103 accelerator-hours, 10,257 USD -> ..."; "":
 * unknown. Returns buffer. */
char *sw_diff_run_text(const struct sw_diff_file *file, char buffer[SW_DIFF_COST]);
void sw_diff_add_total(struct sw_diff_total *total, const struct sw_diff_file *file);
/* "total of 3 runs: 4,103 accelerator-hours, 10,257 USD -> 3,900 accelerator-hours ... (-5 %)"; "":
 * no run has a known cost. Returns buffer. */
char *sw_diff_total_text(const struct sw_diff_total *total, char buffer[SW_DIFF_COST]);
/* Ratio of accelerator-hours, after / before, for all steps, else for a token; NAN unless both
 * sides train. */
double sw_diff_cost_ratio(const struct sw_diff_file *file);
enum { SW_DIFF_TRUST = 512 };
char *sw_diff_trust(const struct sw_diff_file *file, char buffer[SW_DIFF_TRUST]);
/* True if the two steps rest on profiles of different software: their difference is not only that
 * of the runs. */
bool sw_diff_mixes_profiles(const struct sw_diff_file *file);

#define SW_DIFF_NOT_JUDGED "not judged: the plan is the same (--fail-all judges it, too)"

/* True if a file is printed. */
bool sw_diff_is_shown(const struct sw_diff_file *file);
/* Timed unit of a side's work: "step", or "token" of every sequence for serving. */
const char *sw_diff_unit_of_work(const struct sw_diff_side *side);
/* True if both sides fit and have the same purpose, so that times and rates are comparable. */
bool sw_diff_compares(const struct sw_diff_file *file);
/* "+1.5 %"; "" if unchanged. Returns buffer. */
char *sw_diff_percent(double before, double after, char buffer[32]);
/* "80.9 -> 81.0 of 85.5 GB"; "": the run does not fit. Returns buffer. */
char *sw_diff_memory_text(const struct sw_diff_side *before, const struct sw_diff_side *after,
                          char buffer[96]);
/* Fit of a side's memory: "fits", "fits without headroom" or "does not fit". */
const char *sw_diff_verdict_text(const struct sw_diff_side *side);
/* A setting's key in the form of run files and --set. */
const char *sw_diff_key(const char *key);
/* Texts of one row: axes, calls and bytes, "old -> new" if changed. */
void sw_diff_traffic_text(const struct sw_diff_traffic_change *t, char axes[64], char calls[80],
                          char bytes[80]);

#endif
