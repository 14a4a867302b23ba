/* Missing files and settings of a run's job: a job without them fails only after it has waited in
 * the queue. */
#ifndef SW_LACKS_H
#define SW_LACKS_H

#include "core/config/config.h"

enum { SW_LACKS = 5 };

struct sw_lack {
    struct sw_place at;
    char message[SW_ERROR_BYTES / 2];
    char help[128];
    bool anywhere; /* true if missing on any machine: the run does not name it, or the runner
                      lacks it */
};

/* Looks at this machine's files. Skips those that jobs on which this one depends (a dependency of
 * its settings) may still make. Returns the number of findings. */
int32_t sw_lacks_find(const struct sw_run_config *run, struct sw_lack out[SW_LACKS]);

#endif
