/* Numbers for people: short, with a unit. Each returns buffer. */
#ifndef SW_PLANNER_FORMAT_H
#define SW_PLANNER_FORMAT_H

#include <stdint.h>
#include <stdio.h>

enum { SW_FORMAT_BYTES = 32, SW_FORMAT_RATE = 64 };

char *sw_format_bytes(double bytes,
                      char buffer[SW_FORMAT_BYTES]); /* "13.4 GB", decimal as in YAML */
/* Of a link, in bytes and in bits: "50 GB/s = 400 Gb/s". */
char *sw_format_rate(double bytes_per_second, char buffer[SW_FORMAT_RATE]);
char *sw_format_seconds(double seconds, char buffer[SW_FORMAT_BYTES]); /* "1.23 s", "45 ms" */
/* For long times: "45.0 s", "12.4 min", "3.2 h", "32.9 days". */
char *sw_format_duration(double seconds, char buffer[SW_FORMAT_BYTES]);
char *sw_format_count(double count, char buffer[SW_FORMAT_BYTES]); /* "12,345" */
/* For rates and ratios of any size and sign: "0.2051", "87.3", "-12,345". */
char *sw_format_number(double number, char buffer[SW_FORMAT_BYTES]);
/* "1 node", "12,345 nodes". */
char *sw_format_counted(double count, const char *one, char buffer[SW_FORMAT_RATE]);
/* Writes a text in lines of at most `width` columns, broken between words; all but the first are
 * indented by `indent`, and the first starts in column `at`. Ends the last line. */
void sw_format_wrapped(FILE *out, const char *text, int32_t at, int32_t indent, int32_t width);

#endif
