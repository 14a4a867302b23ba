/* `runner data RUN.yaml`: shows a run's training data: files, lengths of documents, filling of
 * rows, labels that count, the first rows as text. One process, no mesh. */
#ifndef SW_DATA_COMMAND_H
#define SW_DATA_COMMAND_H

#include "core/base/arguments.h"

extern const struct sw_argument sw_data_rows[];
/* argv [argc]: arguments after the command. Returns the exit code, 0: done; -1: an error in *err,
 * or no error: help is wanted. */
int sw_data_command(int argc, char **argv, struct sw_error *err);

#endif
