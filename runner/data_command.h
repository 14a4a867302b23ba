/* `runner data RUN.yaml`: what a step of a run sees: the files, how long documents are, how full
 * rows are, which labels count, the first rows as text. One process, no mesh. */
#ifndef SW_DATA_COMMAND_H
#define SW_DATA_COMMAND_H

#include "core/base/arguments.h"

extern const struct sw_argument sw_data_rows[];
/* argv [argc] is what stands behind the command. Returns the exit code, 0: done; -1: *err says why,
 * or nothing: the help is wanted. */
int sw_data_command(int argc, char **argv, struct sw_error *err);

#endif
