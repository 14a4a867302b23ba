/* `runner export [--dtype bf16|fp16|fp32] CHECKPOINT OUT`. */
#ifndef SW_EXPORT_COMMAND_H
#define SW_EXPORT_COMMAND_H

#include "core/base/arguments.h"

extern const struct sw_argument sw_export_rows[];
/* argv [argc]: arguments after the command. Errors: as sw_arguments_parse, sw_model_export. */
int sw_export_command(int argc, char **argv, struct sw_error *err);

#endif
