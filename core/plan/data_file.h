/* What the file that a run trains on holds, by its name and by how it begins. A text for a model
 * with a vocabulary of its own, or a packed file, would be trained on as numbers that mean nothing,
 * and no figure would tell.
 *
 * Owns nothing; looks at the file where it can be seen, and into the folder of init.from. */
#ifndef SW_DATA_FILE_H
#define SW_DATA_FILE_H

#include "core/config/config.h"

/* Documents that are packed together: rows go by it, and a checkpoint tells it. */
enum { SW_DATA_PACK_BLOCK = 65536 };

/* Whether a file's name says that it holds tokens: it ends in .bin. */
bool sw_data_names_tokens(const char *path);

/* Whether each byte of run->data_path (not NULL) is a token: data.format says so, or its name does
 * not end in .bin. */
bool sw_data_is_bytes(const struct sw_run_config *run);

/* Checks that training on the files of run->data_paths and judging by those of data_validation, as
 * they can be opened from here, can be meant. A file that cannot be seen is judged by its name.
 * Errors: SW_BAD_INPUT, where the file is named: files of two kinds; one that holds neither tokens
 * nor a text whose bytes are the model's tokens; the message has the command that makes tokens of
 * it. SW_ENVIRONMENT: no memory. */
int sw_data_check(const struct sw_run_config *run, struct sw_error *err);

/* Whether what a file holds, bytes > 0, can be a text to make tokens of, by how it begins. Errors
 * (SW_BAD_INPUT, at the path): it is packed or compressed, an array or a table, or has zero bytes.
 */
int sw_data_check_text(const char *path, const char *text, size_t bytes, struct sw_error *err);

#endif
