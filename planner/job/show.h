/* A run's status as text and as JSON. */
#ifndef SW_JOB_SHOW_H
#define SW_JOB_SHOW_H

#include "planner/job/status.h"

#include <stdbool.h>
#include <stdio.h>

/* Its name: as submitted, else that of its folder. */
const char *sw_show_name(const struct sw_run_status *status);
/* True if a training ended well before its last step: it was started with --steps. */
bool sw_show_is_early(const struct sw_run_status *status);
/* A paragraph; returns how many lines. */
int32_t sw_show_text(FILE *out, const struct sw_run_status *status);
/* "running, step 61 of 150, loss 2.413, 51 s left", without a newline. */
void sw_show_line(FILE *out, const struct sw_run_status *status);
/* One object; trouble: why the scheduler could not be asked, "" where it could. key: NULL, or that
 * of a member; with a schema only where key is NULL and the object stands alone. */
struct sw_json;
void sw_show_json(struct sw_json *json, bool alone, const struct sw_run_status *status,
                  const char *trouble);

#endif
