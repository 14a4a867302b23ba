/* `runner tokenize`. */
#ifndef SW_TOKENIZE_COMMAND_H
#define SW_TOKENIZE_COMMAND_H

#include "core/base/arguments.h"

extern const struct sw_argument sw_tokenize_rows[];
/* argv [argc]: arguments after the command. Errors: as sw_arguments_parse; of the files. */
int sw_tokenize_command(int argc, char **argv, struct sw_error *err);

#endif
