/* What prices know of each kind of device: one row a kind, whose word is in core/base/words.c. The
 * running half of a kind is its row in runner/rank/accelerator.c. Owns nothing. */
#ifndef SW_COST_DEVICE_H
#define SW_COST_DEVICE_H

#include "core/program/program.h"

#include <stdbool.h>

struct sw_device_row {
    double contention;     /* how much slower compute is beside a collective: 0.19 is 19 % */
    bool tiled;            /* products fill it tile by tile: their shape decides the share */
    bool adds_apart;       /* an addend costs a pass of its own, not one inside the product */
    bool cache_in_fp32;    /* attention over a cache is arithmetic of fp32, without tensor cores */
    bool copies;           /* its cores carry messages inside a node: compute beside them waits */
    double host_bandwidth; /* bytes/s of copies to the host; 0: its memory is the host's */
    enum sw_carrier transport; /* of its collectives */
    double message_s;          /* of each message of a call but the first, whatever its length */
    bool allocated;            /* schedulers hand them out by number */
    bool untried;              /* never run on such hardware: whoever emits or submits is told */
};

/* Never NULL. */
const struct sw_device_row *sw_device_row(enum sw_device_kind kind);

/* Seconds of so many messages beyond the first of their calls, by who carries them. */
double sw_device_message_seconds(enum sw_device_kind kind, const double messages[SW_CARRIER_COUNT]);

#endif
