/* Shared by the parts of the model folder's module. */
#ifndef SW_CHECKPOINT_FOLDER_H
#define SW_CHECKPOINT_FOLDER_H

#include "runner/checkpoint/model_folder.h"

#define SW_MODEL_FILE "model.safetensors"
#define SW_MODEL_INDEX_FILE "model.safetensors.index.json"

/* Location of a tensor. Borrows its name from the folder. */
struct sw_folder_tensor {
    const char *name;
    int32_t file, tensor; /* indices in the folder, in the file's header */
};
/* All tensors in a group's files, by name; malloc'ed. Errors: SW_BAD_INPUT: a duplicate (at the
 * second file); SW_ENVIRONMENT: memory. */
int sw_folder_tensors(const struct sw_model_folder *folder, enum sw_stored_group group,
                      struct sw_folder_tensor **out, int32_t *count, struct sw_error *err);
/* NULL: no tensor with that name. */
const struct sw_folder_tensor *sw_folder_find(const struct sw_folder_tensor *tensor, int32_t count,
                                              const char *name);

/* True for a buffer that older programs saved with the parameters; it follows from config.json. */
bool sw_folder_is_buffer(const char *name);

/* "FOLDER/NAME"; malloc'ed, NULL: no memory (err filled). */
char *sw_folder_path(const struct sw_model_folder *folder, const char *name, struct sw_error *err);

/* config.json of a copy that is no checkpoint: sw_model_config_json without a note of the original
 * dtype. dtype SW_STORED_DTYPES: keeps `original`'s dtype keys. */
int sw_model_config_copy(const struct sw_model *model, enum sw_stored_dtype dtype,
                         const char *original, char **out, struct sw_error *err);
/* Original dtype of the model that the run started from, as noted in a checkpoint's config.json;
 * SW_STORED_DTYPES: absent or unknown. */
enum sw_stored_dtype sw_model_original_dtype(const char *config);

#endif
