/* `runner checkpoint ls|verify|diff`: lists checkpoints, verifies them, or compares two. Prints;
 * part of the tool, not of a library. */
#ifndef SW_CHECKPOINT_COMMAND_H
#define SW_CHECKPOINT_COMMAND_H

#include "core/base/error.h"
#include "core/base/arguments.h"

#include <stdio.h>

/* argv [argc]: arguments after the command. Returns the exit code, 4 if diff finds differences; -1
 * with *err: wrong command line, or help, as sw_arguments_parse. */
int sw_checkpoint_command(int argc, char **argv, struct sw_error *err);

/* Compares two model directories with their optimizer states, tensor by tensor: prints a line for
 * each that differs in any bit, and a summary; "equal" if none does. Memory does not grow with
 * tensors. Sets *differs if it returns 0. Errors: as sw_model_folder_open. */
int sw_checkpoint_diff(FILE *out, const char *a, const char *b, int *differs, struct sw_error *err);

#endif
