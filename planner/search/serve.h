/* The search for serving: every mesh of the cluster, ranked by what texts that are made with the
 * model take (`serve` of the run). Each mesh has the axis order in which a token takes least, and
 * weights gathered or streamed as it needs. Every number is that of the mesh's own programs. */
#ifndef SW_SEARCH_SERVE_H
#define SW_SEARCH_SERVE_H

#include "planner/search/search.h"
#include "planner/serving.h"

struct sw_serve_memory { /* bytes on each accelerator */
    int64_t limit, headroom, total, reserved;
    int64_t training; /* what training needs there, reserved included; 0: it cannot train */
    bool trains;      /* and that fits */
};

struct sw_serve_candidate {
    /* the mesh with its order; the rest is what training has there, or what needs least */
    struct sw_decision decision;
    struct sw_serving_price price; /* without programs */
    struct sw_serve_memory memory;
    bool misses_token, misses_first; /* goals of the run */
    enum sw_reject reason;
    enum sw_reject training_reason; /* SW_FITS, SW_REJECT_MEMORY: its training programs exist */
    char detail[256], help[256];    /* of a rejection */
    bool explained;                 /* help was tried */
};

struct sw_serve_search {
    int32_t accelerators, count;
    int32_t feasible; /* the first of `mesh`, best first; then the rejected, the nearest first */
    int32_t keeping;  /* of these, the first keep all goals */
    struct sw_serve_candidate *mesh;
    double seconds;
};

/* The run says something of serving (sw_plan_serving), else SW_BAD_INPUT. Errors: as sw_search_run.
 * That no mesh fits is none. Free with sw_serve_search_free. */
int sw_serve_search_run(const struct sw_run_config *run, struct sw_serve_search *out,
                        struct sw_error *err);
void sw_serve_search_free(struct sw_serve_search *search);
/* Completes `help` of `count` of the meshes from `first` that lack memory: a setting with which
 * they fit. */
int sw_serve_search_explain(const struct sw_run_config *run, struct sw_serve_search *search,
                            int32_t first, int32_t count, struct sw_error *err);

/* Whether a is better than b. */
bool sw_serve_better(const struct sw_serve_candidate *a, const struct sw_serve_candidate *b);
/* The rule that chose, every clause of it. Returns buffer. */
const char *sw_serve_why(const struct sw_run_config *run, char *buffer, size_t bytes);
enum sw_fit_verdict sw_serve_verdict(const struct sw_serve_candidate *candidate);

/* serve_report.c: text and JSON of the search and of one mesh. */
struct sw_options;
void sw_report_serve_search(FILE *out, const struct sw_run_config *run,
                            const struct sw_serve_search *search, const struct sw_options *options);
void sw_serve_search_print_json(FILE *out, const struct sw_run_config *run,
                                const struct sw_serve_search *search,
                                const struct sw_options *options);
void sw_report_serve_mesh(FILE *out, const struct sw_run_config *run,
                          const struct sw_serve_candidate *candidate);
/* The object `key` of a mesh. */
struct sw_json;
void sw_serve_write_json(struct sw_json *json, const char *key,
                         const struct sw_serve_candidate *candidate);
/* What no mesh does, on stderr; returns SW_UNMET. */
int sw_serve_unmet(const struct sw_run_config *run, const struct sw_serve_search *search);

#endif
