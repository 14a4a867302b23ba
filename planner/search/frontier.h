/* Numbers of nodes for a run: the whole run's cost on each, the undominated ones by end and
 * accelerator-hours, and the chosen one. A row has the result of a search for that number alone. */
#ifndef SW_SEARCH_FRONTIER_H
#define SW_SEARCH_FRONTIER_H

#include "core/cost/run_cost.h"
#include "planner/command/format.h"
#include "planner/command/options.h"
#include "planner/search/budget.h"
#include "planner/search/search.h"

/* ---- Numbers of nodes ---- */

enum { SW_MOST_NODE_COUNTS = 512 };
struct sw_node_list {
    int32_t count;
    int32_t nodes[SW_MOST_NODE_COUNTS]; /* ascending, each once */
};
/* Parses '4..64', '6,8,12', '4..64:4' (every fourth), and lists of these; '4-64' is '4..64'. Errors
 * (SW_BAD_INPUT), one line without a position. */
int sw_node_list_parse(const char *text, struct sw_node_list *out, struct sw_error *err);

/* The run on exactly that many nodes, possibly more than its cluster has: then a last link whose
 * span is a number joins them all. Errors (SW_BAD_INPUT): no link joins nodes. */
int sw_run_at_nodes(const struct sw_run_config *run, int32_t nodes, struct sw_run_config *out,
                    struct sw_error *err);

/* ---- Limits ---- */

struct sw_cost_limits {
    struct sw_cost_limit limit[SW_MAX_BUDGETS + 1]; /* the budgets, then the deadline */
    int32_t count;
    bool has_deadline;
    int64_t now; /* for a deadline that is a date: seconds since 1970 */
};
/* Checks that the run and its cluster have the settings that each limit needs. Errors
 * (SW_BAD_INPUT): the missing key. */
int sw_cost_limits_check(const struct sw_run_config *run, const struct sw_cost_limits *limits,
                         struct sw_error *err);
/* Cost of a limit's kind; NAN: the run or the cluster does not give it. */
double sw_cost_of_kind(const struct sw_run_config *run, const struct sw_run_cost *cost,
                       enum sw_cost_kind kind);

/* ---- The frontier ---- */

struct sw_frontier_row {
    int32_t nodes;
    bool fits;             /* true if a mesh fits; else: */
    int64_t lacking_bytes; /* memory that the closest mesh lacks on each accelerator; 0: another
                              reason */
    char why[160];         /* mistake that the search found at this number; "": none */
    /* if a mesh fits */
    struct sw_mesh mesh;
    double step_seconds;
    struct sw_run_cost cost; /* if the run gives its steps */
    /* Seconds and accelerator-hours for comparing rows: of the whole run, else of 1,000 steps. */
    bool ends; /* false if failures or limits leave the run no time; both are INFINITY then */
    double end_s, hours;
    bool undominated;
    int32_t beaten_by; /* number of nodes that ends no later and costs no more; 0: undominated */
    bool keeps;        /* true if it keeps all limits */
    double over[SW_MAX_BUDGETS + 1]; /* excess over each limit; <= 0: kept */
};

/* Rule that chose among the rows that keep the limits. */
enum sw_choice_rule { SW_CHOICE_BY_HOURS, SW_CHOICE_BY_END, SW_CHOICE_BY_RUN };

struct sw_frontier {
    struct sw_frontier_row *row; /* [count], by nodes */
    int32_t count, fitting, undominated;
    int32_t stages; /* stages of the run; 1 without stages */
    struct sw_cost_limits limits;
    int32_t own;                  /* index of the run's own number of nodes, -1: none */
    int32_t best_hours, best_end; /* indices of fewest accelerator-hours and first end, -1: none */
    enum sw_choice_rule by;
    int32_t chosen;  /* index, -1: none fits, or none keeps the limits */
    int32_t closest; /* index of the row closest to the limits if none keeps them; -1 */
    bool whole_run;  /* true if costs are of the whole run; false: the run does not give its
                        steps */
};

/* Searches each number of nodes. limits: may be NULL. Errors: as sw_search_run; SW_BAD_INPUT: a
 * limit on a cost that the run or its cluster does not give. Free with sw_frontier_free. */
int sw_frontier_find(const struct sw_run_config *run, const struct sw_node_list *nodes,
                     const struct sw_cost_limits *limits, struct sw_frontier *out,
                     struct sw_error *err);
/* The same for a run with stages, each on the row's nodes: a row's cost is their sum, its mesh and
 * step are the first stage's. */
int sw_frontier_find_stages(const struct sw_run_config *stage, int32_t stages,
                            const struct sw_node_list *nodes, const struct sw_cost_limits *limits,
                            struct sw_frontier *out, struct sw_error *err);
/* The same for the run's own nodes alone, where `search` found `chosen`. */
int sw_frontier_of_run(const struct sw_run_config *run, const struct sw_candidate *chosen,
                       const struct sw_cost_limits *limits, struct sw_frontier *out,
                       struct sw_error *err);
/* Marks the undominated rows, and sets `best_*`, by end_s and hours alone. */
void sw_frontier_mark(struct sw_frontier *frontier);
void sw_frontier_free(struct sw_frontier *frontier);

/* ---- frontier_report.c ---- */

/* "2,797 accelerator-hours", "36.0 h", "5,000 USD". Returns buffer. */
char *sw_cost_format(const struct sw_run_config *run, enum sw_cost_kind kind, double amount,
                     char buffer[SW_FORMAT_RATE]);
/* The rule that chose, for people. Returns buffer. */
const char *sw_frontier_why(const struct sw_run_config *run, const struct sw_frontier *frontier,
                            char *buffer, size_t bytes);
/* Note behind a row's figures: "fewest accelerator-hours; misses ...", "". Returns note. */
enum { SW_FRONTIER_NOTE = 256 };
const char *sw_frontier_note(const struct sw_run_config *run, const struct sw_frontier *frontier,
                             int32_t i, char note[SW_FRONTIER_NOTE]);
/* Prints the table of a search that took so many seconds; all: true to include dominated rows and
 * those without a mesh. */
void sw_frontier_tell(FILE *out, const struct sw_run_config *run,
                      const struct sw_frontier *frontier, double seconds, bool all);
/* Prints for each limit how a run on its own nodes compares. */
void sw_frontier_tell_limits(FILE *out, const struct sw_run_config *run,
                             const struct sw_frontier *frontier);
/* Reports why no number is chosen (SW_UNMET). */
void sw_frontier_unmet(const struct sw_run_config *run, const struct sw_frontier *frontier,
                       struct sw_error *err);
/* Gives a run that prefers costs the cheapest of its numbers of nodes, and reports it on stderr
 * (path NULL: silently). Other runs stay unchanged, as does one that fits on none. Errors: as
 * sw_frontier_find. */
int sw_frontier_settle(const char *path, struct sw_run_config *run, struct sw_error *err);
/* frontier_page.c: a page for a browser, with a chart. */
void sw_frontier_page(FILE *out, const struct sw_run_config *run,
                      const struct sw_frontier *frontier);
/* Writes the member `key` of the open object. */
struct sw_json;
void sw_frontier_write_json(struct sw_json *json, const char *key, const struct sw_run_config *run,
                            const struct sw_frontier *frontier);

#endif
