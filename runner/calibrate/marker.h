/* A device that passes everything on to another and puts marks of the other's clock into the
 * recordings that are made of it: after each op, or only where a recording begins and ends.
 *
 * Owns the table of what lies between two marks; borrows device and program, which outlive it. */
#ifndef SW_MARKER_H
#define SW_MARKER_H

#include "runner/device/device.h"

/* Entries of the table that are no op. */
enum { SW_MARK_BEGINS = -1, SW_MARK_ENDS = -2 };

struct sw_marker {
    struct sw_device base; /* what the executor of one program is given */
    struct sw_device_vtable table;
    struct sw_device *inner;
    const struct sw_program *program;
    bool every, recording;
    int32_t count, capacity; /* marks so far, and at most */
    int32_t *what;           /* [capacity]: the program's op between mark i - 1 and mark i, or
                                SW_MARK_BEGINS or _ENDS: a recording does */
};

/* every: a mark after each op. `inner` must have marks and recordings. Errors (SW_ENVIRONMENT):
 * memory, the device's; sw_marker_free is due in any case. */
int sw_marker_init(struct sw_marker *marker, struct sw_device *inner,
                   const struct sw_program *program, bool every, struct sw_error *err);
void sw_marker_free(struct sw_marker *marker); /* one of zeros will do */

#endif
