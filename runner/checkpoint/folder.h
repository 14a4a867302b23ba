/* What the parts of the model folder's module share. */
#ifndef SW_CHECKPOINT_FOLDER_H
#define SW_CHECKPOINT_FOLDER_H

#include "runner/checkpoint/model_folder.h"

#define SW_MODEL_FILE "model.safetensors"
#define SW_MODEL_INDEX_FILE "model.safetensors.index.json"

/* Where a tensor is. Borrows its name from the folder. */
struct sw_folder_tensor {
    const char *name;
    int32_t file, tensor; /* of the folder, of the file's header */
};
/* All tensors of the files of a group, by name; malloc'ed. Errors: SW_BAD_INPUT: one that is there
 * twice (at the second file); SW_ENVIRONMENT: memory. */
int sw_folder_tensors(const struct sw_model_folder *folder, enum sw_stored_group group,
                      struct sw_folder_tensor **out, int32_t *count, struct sw_error *err);
/* NULL: there is none of that name. */
const struct sw_folder_tensor *sw_folder_find(const struct sw_folder_tensor *tensor, int32_t count,
                                              const char *name);

/* A buffer that older programs saved along with the parameters; it follows from config.json. */
bool sw_folder_is_buffer(const char *name);

/* "FOLDER/NAME"; malloc'ed, NULL: no memory (err filled). */
char *sw_folder_path(const struct sw_model_folder *folder, const char *name, struct sw_error *err);

/* config.json of a copy that is no checkpoint: as sw_model_config_json, but what the run started
 * from is not noted. dtype SW_STORED_DTYPES: the keys for it stay as they are in `original`. */
int sw_model_config_copy(const struct sw_model *model, enum sw_stored_dtype dtype,
                         const char *original, char **out, struct sw_error *err);
/* How the numbers were stored that the run started from, as a checkpoint's config.json has it;
 * SW_STORED_DTYPES: it does not say, or another word than ours. */
enum sw_stored_dtype sw_model_original_dtype(const char *config);

#endif
