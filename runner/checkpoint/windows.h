/* Memory of each rank of a job that all the others read: one runs on the same machine as all.
 * Owns what is mapped. */
#ifndef SW_CHECKPOINT_WINDOWS_H
#define SW_CHECKPOINT_WINDOWS_H

#include "runner/rank/launch.h"

struct sw_windows {
    int32_t ranks;
    size_t bytes;   /* of each */
    char **of_rank; /* [ranks]; NULL: there are none. This rank writes to its own alone */
};

/* Collective, all with the same bytes. There are none, on any rank, where one rank cannot read
 * another's, as on two machines or in some containers: the caller sends messages then. Errors
 * (SW_ENVIRONMENT): memory for the table, here or on another rank. */
int sw_windows_open(const struct sw_launch *launch, size_t bytes, struct sw_windows *out,
                    struct sw_error *err);
void sw_windows_close(struct sw_windows *windows); /* also zeroed ones */

#endif
