/* Numbers for people: short, with a unit. Each returns buffer. */
#ifndef SW_COMMAND_FORMAT_H
#define SW_COMMAND_FORMAT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { SW_FORMAT_BYTES = 32, SW_FORMAT_RATE = 64 };

char *sw_format_bytes(double bytes,
                      char buffer[SW_FORMAT_BYTES]); /* "13.4 GB", decimal as in YAML */
/* Rate of a link, in bytes and in bits: "50 GB/s = 400 Gb/s". */
char *sw_format_rate(double bytes_per_second, char buffer[SW_FORMAT_RATE]);
/* "1.23 s", "45 ms"; from 10,000 s as sw_format_duration. */
char *sw_format_seconds(double seconds, char buffer[SW_FORMAT_BYTES]);
/* For long times: "45.0 s", "12.4 min", "3.2 h", "32.9 days". */
char *sw_format_duration(double seconds, char buffer[SW_FORMAT_BYTES]);
/* A job's limit as in its settings, "24:00:00"; a bare number is "5 minutes". Returns buffer. */
char *sw_format_limit(const char *written, char *buffer, size_t bytes);
char *sw_format_count(double count, char buffer[SW_FORMAT_BYTES]); /* "12,345" */
/* Three digits and k, M, B or T: "8.03 B". */
char *sw_format_short(double count, char buffer[SW_FORMAT_BYTES]);
/* For rates and ratios of any size and sign: "0.2051", "87.3", "-12,345". */
char *sw_format_number(double number, char buffer[SW_FORMAT_BYTES]);
/* "2,797 accelerator-hours", or below a hundredth of one "12.0 s of accelerator time". */
char *sw_format_accelerator_hours(double hours, char buffer[SW_FORMAT_RATE]);
/* "1 node", "12,345 nodes". */
char *sw_format_counted(double count, const char *one, char buffer[SW_FORMAT_RATE]);
/* Columns of the terminal on stdout, or of COLUMNS, at least 60; INT32_MAX: no terminal. */
int32_t sw_format_columns(void);
/* "✓" and "✗", or "*" and "x" if LC_ALL, LC_CTYPE or LANG names another encoding than UTF-8. */
const char *sw_format_mark(bool good);
/* Writes a text in lines of at most `width` columns, and at most the terminal's, broken between
 * words; all but the first are indented by `indent`, and the first starts in column `at`. Ends the
 * last line. */
void sw_format_wrapped(FILE *out, const char *text, int32_t at, int32_t indent, int32_t width);

#endif
