/* The files that a plan was written from: where they lie, seen from the plan, and a digest of their
 * bytes, so that `plan check` can say when one changed since. The plan itself stays self-contained:
 * nothing is read from them again. */
#ifndef SW_PLAN_INPUTS_H
#define SW_PLAN_INPUTS_H

#include "core/config/config.h"
#include "core/plan/paths.h"

/* The files of a run that was read from files, in the order run, model, cluster, accelerator, each
 * once. plan_directory: where the plan will lie; it need not exist. Errors: SW_ENVIRONMENT. Free
 * with sw_plan_inputs_free. */
int sw_plan_inputs_gather(const struct sw_run_config *run, const char *plan_directory,
                          struct sw_plan_inputs *out, struct sw_error *err);
void sw_plan_inputs_free(struct sw_plan_inputs *inputs);

enum sw_plan_input_state { SW_INPUT_SAME, SW_INPUT_CHANGED, SW_INPUT_MISSING };
/* Looks at the file again. path: where it was looked for, in memory that the caller frees; NULL
 * when memory ran out. */
enum sw_plan_input_state sw_plan_input_check(const char *plan_path,
                                             const struct sw_plan_input *input, char **path);

#endif
