/* `runner next`: tells a job script what to do next. Prints; part of the tool, not of a library. */
#ifndef SW_NEXT_COMMAND_H
#define SW_NEXT_COMMAND_H

#include "core/base/arguments.h"

extern const struct sw_argument sw_next_rows[];
/* argv [argc]: arguments after the command. Prints "ACTION CODE [NODE,NODE...]" for the script, and
 * one line for people to stderr. Returns this command's exit code; -1 with *err: wrong command
 * line, or help, as sw_arguments_parse. */
int sw_next_command(int argc, char **argv, struct sw_error *err);

#endif
