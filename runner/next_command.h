/* `runner next`: what a job script does next. Prints; a part of the tool, not of a library. */
#ifndef SW_NEXT_COMMAND_H
#define SW_NEXT_COMMAND_H

#include "core/base/arguments.h"

/* argv[0] is the program, argv[1] "next". Prints "ACTION CODE [NODE,NODE...]" for the script, and
 * on standard error the one line for people. Returns the exit code of this command, or -1 and
 * *problem: the command line is wrong. */
int sw_next_command(int argc, char **argv, struct sw_problem *problem);

#endif
