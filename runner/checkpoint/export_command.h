/* `runner export [--dtype bf16|fp16|fp32] CHECKPOINT OUT`. */
#ifndef SW_EXPORT_COMMAND_H
#define SW_EXPORT_COMMAND_H

#include "core/base/error.h"

/* argv[0] is the program, argv[1] the command. Errors: SW_BAD_INPUT: the command line; as
 * sw_model_export. */
int sw_export_command(int argc, char **argv, struct sw_error *err);

#endif
