/* First lines of a script, for people who do not know this program: requested resources, reason for
 * the mesh, checkpoints, and the script's origin. */
#ifndef SW_EMIT_HEAD_H
#define SW_EMIT_HEAD_H

#include "planner/emit/script.h"

/* Sets the values of those lines; all others are set already. run_path: of the run file; commit: of
 * this program, "": unknown. Errors (SW_ENVIRONMENT): memory. */
int sw_script_set_head(struct sw_script *s, const struct sw_run_config *run, const char *run_path,
                       const char *commit, const struct sw_emit_plan *plan, int32_t count,
                       struct sw_error *err);

#endif
