/* Memory of each rank that all others can read, if they share a machine. Owns its mappings. */
#ifndef SW_CHECKPOINT_WINDOWS_H
#define SW_CHECKPOINT_WINDOWS_H

#include "runner/rank/launch.h"

struct sw_windows {
    int32_t ranks;
    size_t bytes;   /* per rank */
    char **of_rank; /* [ranks]; NULL: no windows. A rank writes only its own */
};

/* Collective, with equal bytes. No rank has windows if one cannot read another's, as on two
 * machines or in some containers: the caller then sends messages. Errors (SW_ENVIRONMENT): memory
 * for the table, on any rank. */
int sw_windows_open(const struct sw_launch *launch, size_t bytes, struct sw_windows *out,
                    struct sw_error *err);
void sw_windows_close(struct sw_windows *windows); /* may be zeroed */

#endif
