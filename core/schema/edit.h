/* Changes single values in the text of a YAML file and leaves every other byte as it is: comments,
 * order, quotes and blank lines.
 *
 * A path is keys joined by dots: "nodes", "optimizer.total_steps". Pure functions; any thread. */
#ifndef SW_SCHEMA_EDIT_H
#define SW_SCHEMA_EDIT_H

#include "core/base/error.h"

/* The scalar at that path, without its quotes; malloc'ed. NULL without error: nothing, or no
 * scalar, is there. NULL with err filled: SW_BAD_INPUT: no YAML; SW_ENVIRONMENT: no memory. */
char *sw_yaml_get(const char *text, const char *path, struct sw_error *err);

/* The text with `value`, which must be valid YAML of one line, at that path: it replaces a scalar,
 * or becomes the last entry of its mapping, in that mapping's style. A missing mapping is created
 * ("data: {path: a}"). malloc'ed. NULL: err: SW_BAD_INPUT: no YAML, a list or a mapping at the
 * path, or a scalar on the way to it; SW_ENVIRONMENT: no memory. */
char *sw_yaml_set(const char *text, const char *path, const char *value, struct sw_error *err);

#endif
