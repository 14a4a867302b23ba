/* Fills {{name}} placeholders of script templates. Owns nothing.
 *
 * How a value is written depends on its line, so that a template cannot quote wrongly:
 *   #SBATCH ...   quoted for sbatch where needed; a value that is not set removes the line
 *   # ...         as it is
 *   any other     as one word of the shell, in single quotes where needed; '' when not set */
#ifndef SW_PLANNER_TEMPLATE_H
#define SW_PLANNER_TEMPLATE_H

#include "core/base/error.h"

#include <stdio.h>

extern const char sw_template_slurm_sbatch[], sw_template_mpirun_sh[];

struct sw_template_value {
    const char *name;
    const char *value; /* NULL: not set */
};

/* The filled template in memory that the caller frees, or NULL. file: for messages; values end with
 * a NULL name. Errors (SW_BAD_INPUT): unknown placeholder (with did-you-mean), '{{' without '}}', a
 * control character in a value. */
char *sw_template_fill(const char *file, const char *text, const struct sw_template_value *values,
                       struct sw_error *err);

/* Writes a value as one word of a POSIX shell. */
void sw_template_write_word(FILE *out, const char *value);

#endif
