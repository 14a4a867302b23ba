#include "planner/search/purpose.h"

#include "planner/search/report.h"

#include <string.h>

enum sw_purpose sw_run_purpose(const struct sw_run_config *run)
{
    return run->job.type == SW_JOB_TRAIN ? SW_FOR_TRAIN : SW_FOR_SERVE;
}

enum sw_purpose sw_run_suit(struct sw_run_config *run)
{
    const enum sw_purpose purpose = sw_run_purpose(run);
    if (purpose == SW_FOR_SERVE)
        sw_profile_for_serving(&run->cluster);
    else
        sw_profile_for_training(&run->cluster);
    return purpose;
}

enum sw_purpose sw_search_purpose(const struct sw_options *options, const struct sw_run_config *run)
{
    if (options->purpose == NULL)
        return sw_run_purpose(run);
    return strcmp(options->purpose, "serve") == 0 ? SW_FOR_SERVE : SW_FOR_TRAIN;
}

const struct sw_purpose_row *sw_purpose(enum sw_purpose purpose)
{
    static const struct sw_purpose_row rows[SW_PURPOSES] = {
        [SW_FOR_TRAIN] = {.purpose = SW_FOR_TRAIN,
                          .training = &rows[SW_FOR_TRAIN],
                          .schema = "shardwright.search/1",
                          .search_mesh = sw_search_mesh,
                          .rank = sw_rank_to_train,
                          .explain = sw_search_explain_with,
                          .tell_work = sw_train_tell_work,
                          .tell_missing = sw_train_tell_missing,
                          .tell_mesh = sw_train_tell_mesh,
                          .tell_table = sw_train_tell_table,
                          .write_head = sw_train_write_head,
                          .write_mesh = sw_candidate_write_json},
        [SW_FOR_SERVE] = {.purpose = SW_FOR_SERVE,
                          .training = &rows[SW_FOR_TRAIN],
                          .schema = "shardwright.search.serve/1",
                          .search_mesh = sw_search_mesh_to_serve,
                          .rank = sw_rank_to_serve,
                          .explain = sw_search_explain_to_serve,
                          .tell_work = sw_serve_tell_work,
                          .tell_missing = sw_serve_tell_missing,
                          .tell_mesh = sw_serve_tell_mesh,
                          .tell_table = sw_serve_tell_table,
                          .write_head = sw_serve_write_head,
                          .write_mesh = sw_serve_write_mesh}};
    return &rows[purpose];
}

int sw_search_evaluate_job(const struct sw_run_config *run, const struct sw_decision *decision,
                           struct sw_candidate *out, struct sw_error *err)
{
    return sw_run_purpose(run) == SW_FOR_SERVE
               ? sw_search_evaluate_serving(run, decision, out, err)
               : sw_search_evaluate(run, decision, 0, out, NULL, err);
}
