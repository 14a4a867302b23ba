#include "runner/collective/comm.h"

#include <math.h>
#include <stdlib.h>

static const double default_seconds = 600;

double sw_comm_stall_seconds(void)
{
    const char *set = getenv("SHARDWRIGHT_STALL_SECONDS");
    char *end = NULL;
    const double seconds = set == NULL ? 0 : strtod(set, &end);
    return set != NULL && end != set && *end == '\0' && isfinite(seconds) && seconds > 0
               ? seconds
               : default_seconds;
}
