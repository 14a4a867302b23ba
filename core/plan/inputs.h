/* Files that a plan was written from: their paths relative to the plan, and digests of their bytes,
 * so that `plan check` can report changes. The plan itself is self-contained: it reads nothing from
 * them. */
#ifndef SW_PLAN_INPUTS_H
#define SW_PLAN_INPUTS_H

#include "core/config/config.h"
#include "core/plan/paths.h"

/* Lists the files of a run that was read from files, in the order run, model, cluster, accelerator,
 * each once. plan_directory: future folder of the plan; it need not exist. Errors: SW_ENVIRONMENT.
 * Free with sw_plan_inputs_free. */
int sw_plan_inputs_gather(const struct sw_run_config *run, const char *plan_directory,
                          struct sw_plan_inputs *out, struct sw_error *err);
void sw_plan_inputs_free(struct sw_plan_inputs *inputs);

enum sw_plan_input_state { SW_INPUT_SAME, SW_INPUT_CHANGED, SW_INPUT_MISSING };
/* Compares the file again. path: the path used, in memory that the caller frees; NULL: out of
 * memory. */
enum sw_plan_input_state sw_plan_input_check(const char *plan_path,
                                             const struct sw_plan_input *input, char **path);

#endif
