/* Device that forwards to another one and adds its clock's marks to recordings: after each op, or
 * only at their begin and end.
 *
 * Owns the table of ops between marks; borrows device and program, which outlive it. */
#ifndef SW_MARKER_H
#define SW_MARKER_H

#include "runner/device/device.h"

/* Table entries that are not ops. */
enum { SW_MARK_BEGINS = -1, SW_MARK_ENDS = -2 };

struct sw_marker {
    struct sw_device base; /* device for the executor of one program */
    struct sw_device_vtable table;
    struct sw_device *inner;
    const struct sw_program *program;
    bool every, recording;
    int32_t count, capacity; /* marks so far; maximum */
    int32_t *what;           /* [capacity]: op between marks i - 1 and i, or SW_MARK_... */
};

/* every: true for a mark after each op. `inner` must have marks and recordings. Errors
 * (SW_ENVIRONMENT): memory, the device's; call sw_marker_free in any case. */
int sw_marker_init(struct sw_marker *marker, struct sw_device *inner,
                   const struct sw_program *program, bool every, struct sw_error *err);
void sw_marker_free(struct sw_marker *marker); /* may be zeroed */

#endif
