/* Changes single values in the text of a YAML file and leaves every other byte as it is: comments,
 * order, quotes and blank lines.
 *
 * A path is keys joined by dots: "nodes", "optimizer.total_steps". Pure functions; any thread. */
#ifndef SW_SCHEMA_EDIT_H
#define SW_SCHEMA_EDIT_H

#include "core/base/error.h"

/* The scalar at that path, without its quotes; malloc'ed. NULL: nothing, or no scalar, stands there
 * (no error), or err is filled: SW_BAD_INPUT: no YAML; SW_ENVIRONMENT: no memory. */
char *sw_yaml_get(const char *text, const char *path, struct sw_error *err);

/* The text with `value`, which must be valid YAML of one line, as the value at that path: in place
 * of the scalar that stands there, or as a new last entry of the mapping that it belongs to, in
 * that mapping's style. A mapping that is not there is made ("data: {path: a}"). malloc'ed. NULL:
 * err: SW_BAD_INPUT: no YAML, a list or a mapping stands at the path, or a scalar on the way to it;
 * SW_ENVIRONMENT: no memory. */
char *sw_yaml_set(const char *text, const char *path, const char *value, struct sw_error *err);

#endif
