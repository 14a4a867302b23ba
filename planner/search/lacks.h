/* What a job of a run needs and is not there: a job that starts without it fails after it has
 * waited in the queue. */
#ifndef SW_LACKS_H
#define SW_LACKS_H

#include "core/config/config.h"

enum { SW_LACKS = 5 };

struct sw_lack {
    struct sw_place at;
    char message[SW_ERROR_BYTES / 2];
    char help[128];
    bool anywhere; /* no machine can have it: the run does not name it, or the runner lacks it */
};

/* Looks at this machine's files. Those that a job may still make on which this one depends
 * (a dependency of its settings) are not looked for. Returns how many are lacking. */
int32_t sw_lacks_find(const struct sw_run_config *run, struct sw_lack out[SW_LACKS]);

#endif
