/* A run's status as text and as JSON. */
#ifndef SW_JOB_SHOW_H
#define SW_JOB_SHOW_H

#include "planner/job/status.h"

#include <stdbool.h>
#include <stdio.h>

/* Its name: from the submission, else the folder's. */
const char *sw_show_name(const struct sw_run_status *status);
/* True if a training ended well before its last step, as with --steps. */
bool sw_show_is_early(const struct sw_run_status *status);
/* Writes a paragraph; returns the number of lines. */
int32_t sw_show_text(FILE *out, const struct sw_run_status *status);
/* "running, step 61 of 150, loss 2.413, 51 s left", without a newline. */
void sw_show_line(FILE *out, const struct sw_run_status *status);
/* Writes one object; trouble: why the scheduler could not be asked, "": it answered. key: NULL, or
 * a member's; the schema is included only if key is NULL and the object stands alone. */
struct sw_json;
void sw_show_json(struct sw_json *json, bool alone, const struct sw_run_status *status,
                  const char *trouble);

#endif
