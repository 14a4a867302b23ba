/* What is found in the help of `runner`, one text for all of its commands: the part that is about a
 * command, and the option of it that a wrong one was probably meant to be. Pure functions. */
#ifndef SW_USAGE_H
#define SW_USAGE_H

#include <stdbool.h>
#include <stddef.h>

/* Where a command's "usage: runner COMMAND" begins in the help; *bytes: up to the next one's. NULL:
 * it is no command. */
const char *sw_usage_section(const char *help, const char *command, size_t *bytes);

/* The option of that part that is meant by `wrong` ("--max_tokens"); false: none is like it. */
bool sw_usage_near_option(const char *section, size_t bytes, const char *wrong, char option[64]);

#endif
