/* model.safetensors.index.json: maps tensors to files. Owns its texts. */
#ifndef SW_MODEL_INDEX_H
#define SW_MODEL_INDEX_H

#include "core/base/error.h"

#include <stddef.h>
#include <stdint.h>

struct sw_indexed_tensor {
    char *name;
    int32_t file; /* index in struct sw_model_index */
};

struct sw_model_index {
    char **file;                      /* [file_count] names in the folder, sorted, unique */
    struct sw_indexed_tensor *tensor; /* [count], in the text's order */
    int32_t file_count, count;
};

/* Parses an index, untrusted text; `path` for messages. Errors (SW_BAD_INPUT, at the file): no
 * JSON, no weight_map, invalid names, files outside the folder or of another format.
 * SW_ENVIRONMENT: memory. */
int sw_model_index_parse(const char *path, const char *text, size_t bytes,
                         struct sw_model_index *out, struct sw_error *err);
void sw_model_index_free(struct sw_model_index *index); /* may be zeroed */

/* Entry of an index to write; borrows both names. */
struct sw_index_entry {
    const char *tensor, *file;
};
/* Makes the text, malloc'ed, with a newline; total_bytes: sum over tensors. Errors:
 * SW_ENVIRONMENT. */
int sw_model_index_write(const struct sw_index_entry *entry, int32_t count, int64_t total_bytes,
                         char **out, struct sw_error *err);

#endif
