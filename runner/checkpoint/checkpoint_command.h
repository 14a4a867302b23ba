/* `runner checkpoint ls|verify|diff`: what checkpoints there are, whether they are whole, and how
 * far two are apart. Prints; a part of the tool, not of a library. */
#ifndef SW_CHECKPOINT_COMMAND_H
#define SW_CHECKPOINT_COMMAND_H

#include "core/base/error.h"
#include "core/base/arguments.h"

#include <stdio.h>

/* argv [argc] is what stands behind the command. Returns the exit code: 4: diff, and they differ;
 * or -1 and *err: the command line is wrong, or asks for help, as of sw_arguments_parse. */
int sw_checkpoint_command(int argc, char **argv, struct sw_error *err);

/* Two model directories with what optimizer they have, tensor by tensor: a line for each that is
 * not the same in both, bit by bit, and one for all; "equal" when all are. Memory does not grow
 * with the tensors. *differs is set when it returns 0. Errors: as sw_model_folder_open's. */
int sw_checkpoint_diff(FILE *out, const char *a, const char *b, int *differs, struct sw_error *err);

#endif
