/* Contents of a training file, by its name and its first bytes. A text for a model with a
 * vocabulary of its own, or a packed file, would be trained on as meaningless numbers, and no
 * figure would show that.
 *
 * Owns nothing; reads the file if it can be seen, and the folder of init.from. */
#ifndef SW_DATA_FILE_H
#define SW_DATA_FILE_H

#include "core/config/config.h"

/* Documents packed together; rows depend on it, and checkpoints record it. */
enum { SW_DATA_PACK_BLOCK = 65536 };

/* True if a file's name means tokens: it ends in .bin. */
bool sw_data_names_tokens(const char *path);

/* True if each byte of run->data_path (not NULL) is a token: data.format says so, or its name does
 * not end in .bin. */
bool sw_data_is_bytes(const struct sw_run_config *run);

/* Checks that the files of run->data_paths and data_validation, as far as visible from here, are
 * usable. An invisible file is judged by its name. Errors: SW_BAD_INPUT, where the file is named:
 * files of two kinds; one with neither tokens nor a text whose bytes are the model's tokens; the
 * message has the command that makes tokens of it. SW_ENVIRONMENT: no memory. */
int sw_data_check(const struct sw_run_config *run, struct sw_error *err);

/* Checks that a file's first bytes (bytes > 0) can be a text to make tokens of. Errors
 * (SW_BAD_INPUT, at the path): it is packed or compressed, an array or a table, or has zero
 * bytes. */
int sw_data_check_text(const char *path, const char *text, size_t bytes, struct sw_error *err);

#endif
