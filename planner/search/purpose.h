/* Differences between searching for training and for serving: the work on one mesh, the order of
 * meshes, and their columns. All else about a search is common. */
#ifndef SW_PLANNER_SEARCH_PURPOSE_H
#define SW_PLANNER_SEARCH_PURPOSE_H

#include "planner/search/internal.h"

struct sw_json;
struct sw_search_told; /* planner/command/command.h */

struct sw_purpose_row {
    enum sw_purpose purpose;
    const struct sw_purpose_row *training; /* row of SW_FOR_TRAIN, with which suggestions search */
    const char *schema;                    /* schema of `plan search --json` */
    /* Finds programs, options, order and price of one mesh, as sw_search_mesh. */
    int (*search_mesh)(struct sw_searcher *s, struct sw_preferences *preferences,
                       struct sw_candidate *out, struct sw_error *err);
    /* Sorts the meshes; sets feasible, keeping and fastest. */
    void (*rank)(struct sw_search *search, const struct sw_run_config *run);
    /* Like sw_search_explain. */
    int (*explain)(const struct sw_searcher *s, struct sw_search *search, int32_t first,
                   int32_t count, struct sw_error *err);

    /* For people: the run's work, the end of a line; the missed goal; a mesh; the table. */
    void (*tell_work)(FILE *out, const struct sw_run_config *run);
    void (*tell_missing)(FILE *out, const struct sw_search *search);
    void (*tell_mesh)(FILE *out, const struct sw_run_config *run, const struct sw_candidate *c,
                      const struct sw_run_cost *cost);
    void (*tell_table)(FILE *out, const struct sw_search *search, int64_t top);
    /* For machines: members before the candidates; a mesh, for a model whose layers have these
     * values (struct sw_search). */
    void (*write_head)(struct sw_json *json, const struct sw_run_config *run,
                       const struct sw_search *search, const struct sw_search_told *told);
    void (*write_mesh)(struct sw_json *json, const char *key, const struct sw_layer_values *values,
                       const struct sw_candidate *c);
};
/* For callers that begin a search: functions below get the row from the searcher or the search. */
const struct sw_purpose_row *sw_purpose(enum sw_purpose purpose);

/* Writes "... and 3 more (--top 13)" if fewer than fit are shown. */
void sw_report_more(FILE *out, const struct sw_search *search, int32_t shown);
void sw_report_bytes(FILE *out, const char *name, int64_t bytes);
/* Writes the line of the mesh's sizes and its ranks' order; that of its memory. */
void sw_report_mesh_line(FILE *out, const struct sw_mesh *mesh);
void sw_report_memory_line(FILE *out, const struct sw_candidate *c);

/* rank.c: sorts candidates first, in the order of `compare`; then the rejected, those closest to
 * fitting first. Sets feasible, and keeping and fastest as if nothing else counted. */
void sw_rank_sort(struct sw_search *search, int (*compare)(const void *, const void *));
/* First part of such an order: fitting before not fitting, and the rejected; 0: both fit. */
int sw_rank_fit(const struct sw_candidate *a, const struct sw_candidate *b);

/* rank.c, report.c, json.c: training. */
void sw_rank_to_train(struct sw_search *search, const struct sw_run_config *run);
void sw_train_tell_work(FILE *out, const struct sw_run_config *run);
void sw_train_tell_missing(FILE *out, const struct sw_search *search);
void sw_train_tell_mesh(FILE *out, const struct sw_run_config *run, const struct sw_candidate *c,
                        const struct sw_run_cost *cost);
void sw_train_tell_table(FILE *out, const struct sw_search *search, int64_t top);
void sw_train_write_head(struct sw_json *json, const struct sw_run_config *run,
                         const struct sw_search *search, const struct sw_search_told *told);

/* purpose_serve.c, serve_columns.c: serving. */
int sw_search_mesh_to_serve(struct sw_searcher *s, struct sw_preferences *preferences,
                            struct sw_candidate *out, struct sw_error *err);
int sw_search_explain_to_serve(const struct sw_searcher *s, struct sw_search *search, int32_t first,
                               int32_t count, struct sw_error *err);
void sw_rank_to_serve(struct sw_search *search, const struct sw_run_config *run);
void sw_serve_tell_work(FILE *out, const struct sw_run_config *run);
void sw_serve_tell_missing(FILE *out, const struct sw_search *search);
void sw_serve_tell_mesh(FILE *out, const struct sw_run_config *run, const struct sw_candidate *c,
                        const struct sw_run_cost *cost);
void sw_serve_tell_table(FILE *out, const struct sw_search *search, int64_t top);
void sw_serve_write_head(struct sw_json *json, const struct sw_run_config *run,
                         const struct sw_search *search, const struct sw_search_told *told);
/* Writes the times of a token with fewer sequences. */
void sw_serve_write_sizes(struct sw_json *json, const struct sw_serve_price *price);
void sw_serve_write_mesh(struct sw_json *json, const char *key,
                         const struct sw_layer_values *values, const struct sw_candidate *c);

#endif
