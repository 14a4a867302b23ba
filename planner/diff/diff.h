/* `plan diff`: what two runs or plans differ in, and what the difference costs.
 *
 * A side is a run, searched as `plan search` does, for training or for serving as its job is, or a
 * plan, priced as it was decided. A diff is a list of file pairs; it owns both sides of each.
 * command.c is the command, files.c pairs files, side.c reads and prices one, compare.c compares,
 * text.c, markdown.c and json.c print. */
#ifndef SW_DIFF_DIFF_H
#define SW_DIFF_DIFF_H

#include "core/cost/run_cost.h"
#include "core/cost/traffic.h"
#include "planner/emit/budget.h"
#include "planner/search/report.h"
#include "planner/diff/settings.h"
#include "planner/policy/fail_if.h"

enum { SW_DIFF_HEADLINE = 512, SW_DIFF_DIFFERS = 4 };

/* What became of one enumerated mesh. */
struct sw_diff_verdict {
    int32_t size[SW_AXIS_COUNT];
    enum sw_reject reason; /* SW_FITS: it fits */
    char detail[256];
};

struct sw_diff_side {
    const char *path; /* the caller's */
    const char *base; /* the folder that paths are seen from; the caller's */
    bool is_plan;
    struct sw_config *config;
    struct sw_plan plan; /* of a plan: owns its run */
    const struct sw_run_config *run;
    struct sw_run_config
        suited; /* the run, with the profile of its purpose; a plan's, with its job */
    enum sw_purpose purpose;
    struct sw_settings settings; /* of the description; of a plan, its decision too */
    int64_t parameters;          /* of the model; 0: not known */

    /* set by sw_diff_side_price */
    bool priced, fits;                  /* and keeps the goals of a run that serves */
    enum sw_fit_verdict memory_verdict; /* where it fits */
    char why_not[1024];                 /* detail and help of what came closest to fitting */
    struct sw_candidate chosen;
    struct sw_settings choices; /* decision.*: how the search, or the plan, decided */
    struct sw_run_cost cost;    /* of the whole run; terms.steps 0: not known */
    struct sw_measures measures;
    struct sw_traffics traffic; /* by kind and group */
    int32_t accelerators, mesh_count, fit_count;
    struct sw_diff_verdict *verdict; /* sorted by size */
};

/* Terms on which a file is read: the folder that paths are seen from, what --set changes of a run,
 * and which of its stages is meant. All are the caller's. */
struct sw_diff_reading {
    const char *base;
    const struct sw_override *override; /* [override_count] */
    int32_t override_count;
    const char *stage; /* NULL: the first */
};

/* Reads a run or plan file. *is_other (may be NULL) instead of an error: the file is none.
 * Mistakes are printed unless quiet. Returns an exit code; free with sw_diff_side_free. */
int sw_diff_side_read(const char *path, const struct sw_diff_reading *as, bool quiet,
                      bool *is_other, struct sw_diff_side *out);
/* Stages of the run that was read; 0: it is none, or has none. */
int32_t sw_diff_side_stages(const struct sw_diff_side *side);
/* Searches or prices it. Errors: SW_BAD_INPUT, SW_ENVIRONMENT. */
int sw_diff_side_price(struct sw_diff_side *side, struct sw_error *err);
void sw_diff_side_free(struct sw_diff_side *side);

enum sw_diff_status { SW_DIFF_SAME, SW_DIFF_CHANGED, SW_DIFF_ADDED, SW_DIFF_REMOVED };
const char *sw_diff_status_name(enum sw_diff_status status);

struct sw_diff_traffic_change {
    const struct sw_traffic *before, *after; /* NULL: none */
};
struct sw_diff_mesh_change {
    const struct sw_diff_verdict *before, *after; /* one of them fits, the other does not */
};
struct sw_diff_outcome {
    const struct sw_fail_if *condition;
    enum sw_fail_if_verdict verdict;
    char detail[160];
};

struct sw_diff_file {
    char *path; /* shown; relative to the folders compared */
    enum sw_diff_status status;
    bool same_plan; /* settings may differ, but not what is decided, nor what it costs */
    bool unmet;     /* it fits nowhere, and is judged for it: new, fitted before, or all are */
    struct sw_diff_side before, after; /* all zero when there is none */
    char headline[SW_DIFF_HEADLINE];
    struct sw_setting_change *setting, *choice;
    int32_t setting_count, choice_count;
    struct sw_diff_traffic_change *traffic;
    int32_t traffic_count;
    struct sw_diff_mesh_change *mesh; /* newly rejected first, then newly fitting */
    int32_t rejected_count, fitting_count;
    struct sw_diff_outcome *outcome;
    int32_t outcome_count, failed_count;
    struct sw_budgets budgets; /* of a job of the new side, where its scheduler can be asked */
    bool not_judged;           /* all outcomes are skipped, since the plan is the same */
};

/* Sum over the runs that differ and whose cost is known on each side that they have. */
struct sw_diff_total {
    int32_t runs, unpriced;
    struct sw_run_cost before, after;
    char currency[SW_CURRENCY_BYTES]; /* of the first; "": no run */
    bool mixes_currencies;            /* so that money has no sum */
};

struct sw_diff {
    struct sw_diff_file **file; /* each its own: a file points into itself */
    int32_t count, changed, added, removed;
    bool is_directory;
    struct sw_diff_total total;
    struct sw_budget_source source;  /* of what is left to accounts */
    int32_t failed;                  /* conditions that failed, over all files */
    bool unmet;                      /* of a file */
    char headline[SW_DIFF_HEADLINE]; /* of the whole */
};

/* What to test; `all`: of runs whose plan is the same, too. */
struct sw_diff_conditions {
    const struct sw_fail_if *item;
    int32_t count;
    bool all;
};

/* Compares the two sides that the file holds (status ADDED or REMOVED: the one it holds) and tests
 * the conditions on it. Errors: SW_BAD_INPUT, SW_ENVIRONMENT. */
int sw_diff_file_compare(struct sw_diff_file *file, const struct sw_diff_conditions *conditions,
                         struct sw_error *err);
void sw_diff_file_free(struct sw_diff_file *file);

/* Pairs the YAML and JSON files of two folders by their path, sorted; hidden folders are left out.
 * out: malloc'ed paths relative to both. Errors: SW_BAD_INPUT (no folder), SW_ENVIRONMENT. */
struct sw_diff_pair {
    char *path, *before, *after; /* before, after: NULL when there is none */
};
int sw_diff_pair_files(const char *before, const char *after, struct sw_diff_pair **out,
                       int32_t *count, struct sw_error *err);
void sw_diff_pairs_free(struct sw_diff_pair *pairs, int32_t count);

/* Printing. Files with status SAME and no failed condition are left out. */
void sw_diff_print_text(FILE *out, const struct sw_diff *diff);
int sw_diff_print_markdown(FILE *out, const struct sw_diff *diff, size_t limit_bytes,
                           struct sw_error *err);
void sw_diff_print_json(FILE *out, const struct sw_diff *diff);

/* What the times rest on: "profile NAME, in 80 % of cases 1.2 s to 1.4 s", of the new side, or of
 * both where they rest on different profiles; "": nothing fits. Returns buffer. */
/* Cost of all steps: "all steps: 17.7 days, 217,360 accelerator-hours -> 9.7 days, 29,660
 * accelerator-hours
 * (-86 %)", once where both are the same; where no side says how many steps it has,
 * accelerator-hours of a billion tokens; "": a side does not train. Returns buffer. */
enum { SW_DIFF_COST = 512 };
char *sw_diff_cost(const struct sw_diff_file *file, char buffer[SW_DIFF_COST]);
/* total.c: "whole run: ends after 2.7 days, 4,103 accelerator-hours, 10,257 USD -> ..."; "": not
 * known. Returns buffer. */
char *sw_diff_run_text(const struct sw_diff_file *file, char buffer[SW_DIFF_COST]);
void sw_diff_add_total(struct sw_diff_total *total, const struct sw_diff_file *file);
/* "total of 3 runs: 4,103 accelerator-hours, 10,257 USD -> 3,900 accelerator-hours ... (-5 %)"; "":
 * no run has a known cost. Returns buffer. */
char *sw_diff_total_text(const struct sw_diff_total *total, char buffer[SW_DIFF_COST]);
/* Accelerator-hours after / before, of all steps, else of a token; NAN unless both sides train. */
double sw_diff_cost_ratio(const struct sw_diff_file *file);
enum { SW_DIFF_TRUST = 512 };
char *sw_diff_trust(const struct sw_diff_file *file, char buffer[SW_DIFF_TRUST]);
/* Whether the two steps rest on profiles of different software: they must not be compared as if
 * only the runs differed. */
bool sw_diff_mixes_profiles(const struct sw_diff_file *file);

#define SW_DIFF_NOT_JUDGED "not judged: the plan is the same (--fail-all judges it, too)"

/* Whether a file is worth a word. */
bool sw_diff_is_shown(const struct sw_diff_file *file);
/* What a side takes the time of: "step", or "token" of every sequence where it serves. */
const char *sw_diff_unit_of_work(const struct sw_diff_side *side);
/* Whether both sides fit and do the same, so that their times and rates compare. */
bool sw_diff_compares(const struct sw_diff_file *file);
/* "+1.5 %"; "" where nothing changed. Returns buffer. */
char *sw_diff_percent(double before, double after, char buffer[32]);
/* "80.9 -> 81.0 of 85.5 GB". A run that does not fit has none: "". Returns buffer. */
char *sw_diff_memory_text(const struct sw_diff_side *before, const struct sw_diff_side *after,
                          char buffer[96]);
/* What the memory of a side came to: "fits", "fits without headroom" or "does not fit". */
const char *sw_diff_verdict_text(const struct sw_diff_side *side);
/* A setting's key as the run file and --set spell it. */
const char *sw_diff_key(const char *key);
/* The texts of one row: axes, calls and bytes, "old -> new" where they changed. */
void sw_diff_traffic_text(const struct sw_diff_traffic_change *t, char axes[64], char calls[80],
                          char bytes[80]);

#endif
