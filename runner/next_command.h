/* `runner next`: what a job script does next. Prints; a part of the tool, not of a library. */
#ifndef SW_NEXT_COMMAND_H
#define SW_NEXT_COMMAND_H

#include "core/base/arguments.h"

extern const struct sw_argument sw_next_rows[];
/* argv [argc] is what stands behind the command. Prints "ACTION CODE [NODE,NODE...]" for the
 * script, and on standard error the one line for people. Returns the exit code of this command, or
 * -1 and *err: the command line is wrong, or asks for help, as of sw_arguments_parse. */
int sw_next_command(int argc, char **argv, struct sw_error *err);

#endif
