/* `runner tokenize`. */
#ifndef SW_TOKENIZE_COMMAND_H
#define SW_TOKENIZE_COMMAND_H

#include "core/base/error.h"

/* argv[2] is the first argument. Returns 0, or -1 and *err. */
int sw_tokenize_command(int argc, char **argv, struct sw_error *err);

#endif
