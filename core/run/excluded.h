/* excluded_nodes.jsonl in the run's folder: nodes that its jobs do not use, one JSON object a line,
 * oldest first. Removing a line readmits the node.
 *
 *     {"node": "n3", "attempt": 2, "job": "42", "date": "2026-11-22T11:36:13Z", "reason": "..."} */
#ifndef SW_EXCLUDED_H
#define SW_EXCLUDED_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum { SW_EXCLUDED_NODES = 64 };
struct sw_excluded_node {
    char node[256], job[64], date[32], reason[512];
    int64_t attempt;
};
struct sw_excluded {
    struct sw_excluded_node node[SW_EXCLUDED_NODES]; /* each once */
    int32_t count;
};

/* A missing file: none. Broken lines are skipped; the newest SW_EXCLUDED_NODES are kept. Errors:
 * SW_ENVIRONMENT. */
int sw_excluded_read(const char *folder, struct sw_excluded *out, struct sw_error *err);
/* Appends one line, durable when it returns 0; date is filled in. Errors: SW_ENVIRONMENT. */
int sw_excluded_add(const char *folder, struct sw_excluded_node *node, struct sw_error *err);
bool sw_excluded_has(const struct sw_excluded *excluded, const char *node);

/* True if a text may be a node's name: only letters, digits and . _ -, so that it can stand in a
 * command. */
bool sw_excluded_is_name(const char *text);

#endif
