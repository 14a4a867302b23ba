/* Figures of this process that the kernel tells (proc(5)). */
#ifndef SW_SELF_H
#define SW_SELF_H

#include <stdint.h>

/* Bytes of its memory: "VmRSS:" now or "VmHWM:" the most it had; -1: not known. Not getrusage's,
 * which counts what ran before exec. */
int64_t sw_self_resident_bytes(const char *which);
/* Seconds since it was started, by a clock that counts on; 0: not known. */
double sw_self_age_s(void);

#endif
