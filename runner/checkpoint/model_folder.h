/* A Hugging Face model directory, whoever wrote it: config.json, model.safetensors or the files
 * that model.safetensors.index.json names, tokenizer files. Or an adapter of PEFT:
 * adapter_config.json, adapter_model.safetensors. A checkpoint of ours is one or the other, too;
 * whether it can be trusted to resume is the manifest's matter (manifest.h).
 *
 * One process reads it (rank 0) and tells the others. Owns what it read. */
#ifndef SW_MODEL_FOLDER_H
#define SW_MODEL_FOLDER_H

#include "core/base/model.h"
#include "core/checkpoint/placement.h"
#include "runner/checkpoint/adapter_config.h"
#include "runner/checkpoint/safetensors.h"

struct sw_folder_file {
    char *name; /* in the folder */
    enum sw_stored_group group;
    struct sw_safetensors header;
};

struct sw_model_folder {
    char *path;
    bool adapter;
    struct sw_adapter_config config; /* of an adapter */
    struct sw_model model;           /* of its config.json; all zero of an adapter */
    struct sw_folder_file
        *file; /* [count]: the model's files, then the optimizer's if there are any */
    int32_t count;
    char **other; /* [other_count] names of what is copied through: tokenizer*,
                     special_tokens_map.json, added_tokens.json, vocab.json, vocab.txt,
                     merges.txt, spiece.model, generation_config.json, chat_template.*,
                     additional_chat_templates/NAME.jinja */
    int32_t other_count;
};

/* A folder with adapter_config.json and no model's weights is an adapter's. One without either
 * config in which `latest` has one (a run's checkpoints) stands for that.
 * optimizer: read optimizer/exp_avg-*.safetensors and optimizer/exp_avg_sq-*.safetensors, too.
 * Errors (SW_BAD_INPUT, at the file): no folder, no config.json or one of a model that we do not
 * have (as `plan check` says it), an adapter_config.json that is refused, pytorch_model.bin or
 * adapter_model.bin only ("convert it to safetensors"), a file of
 * the index that is missing, a file that is not what its checkpoint's manifest says (what is small
 * is compared before it is believed), a tensor in two files or not in the file that the index says,
 * a header that is refused. SW_ENVIRONMENT: memory, a file that cannot be read. */
int sw_model_folder_open(const char *path, bool optimizer, struct sw_model_folder *out,
                         struct sw_error *err);
void sw_model_folder_free(struct sw_model_folder *folder);

/* The first setting in which two models differ so that the tensors of one are not the other's, or
 * mean another thing: "hidden_size is 64, not 128"; NULL: none. rope scaling, eps, window count;
 * max_position_embeddings and initializer_range do not. */
const char *sw_model_difference(const struct sw_model *stored, const struct sw_model *wanted,
                                char buffer[160]);

/* Gives a model the rotary positions of another, which change what weights mean and not which there
 * are. */
void sw_model_take_rope(struct sw_model *model, const struct sw_model *of);

/* Places of the tensors of the state in the folder's files: of a state with adapters, these in an
 * adapter's folder, all others in a model's. `out` has files and tensors, not yet
 * dealt. tied_copy (may be NULL): where the state has a tied head and the files hold lm_head.weight
 * as well, that tensor's entry, to be compared with the embedding's; tied_copy->file is -1 where
 * there is none. Tensors that the state does not have (rotary inv_freq buffers) are passed over
 * when they are known to be harmless. Errors (SW_BAD_INPUT, at the file): a tensor that is missing,
 * has another shape, or a dtype that is not F32, BF16, F16 or F64; one that no model of the family
 * has. */
int sw_model_folder_match(const struct sw_model_folder *folder, const struct sw_state *state,
                          bool optimizer, struct sw_placement *out,
                          struct sw_stored_tensor *tied_copy, struct sw_error *err);

/* config.json of a checkpoint, as `transformers` 4 and 5 read it: every key of the family, `dtype`
 * and `torch_dtype` of what the files hold ("float32", "bfloat16", "float16"). original (may be
 * NULL): the config.json that the run started from, or that of a checkpoint; its other keys are
 * kept, and its own dtype, where it was another, as "shardwright_original_dtype", for
 * sw_model_export. Given its own text as the original it makes the same text. malloc'ed text, with
 * a newline; what does not read back as the same model is never made. Errors: SW_ENVIRONMENT;
 * SW_BAD_INPUT: the original is no JSON object, or nested too deeply. */
int sw_model_config_json(const struct sw_model *model, enum sw_stored_dtype dtype,
                         const char *original, char **out, struct sw_error *err);

/* model.safetensors.index.json of a placement's model files. As above. */
int sw_model_index_json(const struct sw_placement *placement, char **out, struct sw_error *err);

struct sw_export_options {
    enum sw_stored_dtype dtype; /* SW_STORED_DTYPES: the dtype of what the run started from, where
                                   its checkpoint says so, else as they are */
    bool unmerged;              /* adapters stay by themselves, as PEFT has them */
    const char *base;           /* the model that adapters are merged into; NULL: as they name it */
};
/* `runner export`: a copy of the folder's model with numbers of that dtype, tokenizer files
 * included, optimizer and manifest not; complete or not at all (written aside, as .NAME.partial,
 * then renamed; what an export that was killed left there is written anew). Adapters are added to
 * the weights of their model (merge.h), whose files it has then.
 * Rounds to nearest even; what is no number of a model (an integer, a rotary buffer) is copied as
 * it is. Needs a few MiB, whatever the size of a tensor, and of adapters one projection's. A
 * checkpoint of ours is verified while it is read. Errors: SW_BAD_INPUT (FROM is no such folder; a
 * checksum that does not fit; TO exists; the adapters' model is not there, or another one);
 * SW_ENVIRONMENT (also: another process writes the same TO). */
int sw_model_export(const char *from, const char *to, const struct sw_export_options *options,
                    struct sw_error *err);

#endif
