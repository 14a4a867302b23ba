/* Figures of this process from the kernel (proc(5)). */
#ifndef SW_SELF_H
#define SW_SELF_H

#include <stdint.h>

/* Bytes of its memory: "VmRSS:" now or "VmHWM:" the maximum; -1: unknown. Unlike getrusage, without
 * the program before exec. */
int64_t sw_self_resident_bytes(const char *which);
/* Seconds since its start, by a clock that counts through suspension; 0: unknown. */
double sw_self_age_s(void);

#endif
