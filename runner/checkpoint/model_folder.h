/* A Hugging Face model directory: config.json, model.safetensors or the files named in
 * model.safetensors.index.json, tokenizer files. Or a PEFT adapter: adapter_config.json,
 * adapter_model.safetensors. Our checkpoints are one or the other; the manifest (manifest.h) tells
 * if one can be resumed.
 *
 * One process (rank 0) reads it and tells the others. Owns what it reads. */
#ifndef SW_MODEL_FOLDER_H
#define SW_MODEL_FOLDER_H

#include "core/base/model.h"
#include "core/checkpoint/placement.h"
#include "runner/checkpoint/adapter_config.h"
#include "runner/checkpoint/safetensors.h"

struct sw_folder_file {
    char *name; /* relative to the folder */
    enum sw_stored_group group;
    struct sw_safetensors header;
};

struct sw_model_folder {
    char *path;
    bool adapter;
    struct sw_adapter_config config; /* an adapter's */
    struct sw_model model;           /* from config.json; all zero for an adapter */
    struct sw_folder_file *file;     /* [count]: the model's files, then the optimizer's */
    int32_t count;
    char **other; /* [other_count] files to copy: tokenizer*, special_tokens_map.json,
                   * added_tokens.json, vocab.json, vocab.txt, merges.txt, spiece.model,
                   * generation_config.json, chat_template.*,
                   * additional_chat_templates/NAME.jinja */
    int32_t other_count;
};

/* Opens a folder. With adapter_config.json and without model weights it is an adapter's. If it has
 * neither config but `latest` leads to one (a run's checkpoints), opens that. optimizer: also reads
 * optimizer/exp_avg-*.safetensors and optimizer/exp_avg_sq-*.safetensors. Errors (SW_BAD_INPUT, at
 * the file): no folder; no config.json or an unsupported model (as `plan check` says); a refused
 * adapter_config.json; only pytorch_model.bin or adapter_model.bin ("convert it to safetensors"); a
 * missing file of the index; a small file that differs from its checkpoint's manifest; a tensor in
 * two files or not in the index's; a refused header. SW_ENVIRONMENT: memory, unreadable file. */
int sw_model_folder_open(const char *path, bool optimizer, struct sw_model_folder *out,
                         struct sw_error *err);
void sw_model_folder_free(struct sw_model_folder *folder);

/* First setting in which two models' tensors differ in shape or meaning: "hidden_size is 64, not
 * 128"; NULL: none. Includes rope scaling, eps and window; excludes max_position_embeddings and
 * initializer_range. */
const char *sw_model_difference(const struct sw_model *stored, const struct sw_model *wanted,
                                char buffer[160]);

/* Gives a model another one's rotary positions, which change the meaning of weights but not their
 * shapes. */
void sw_model_take_rope(struct sw_model *model, const struct sw_model *of);

/* Locates the state's tensors in the folder's files; with adapters in the state, those in an
 * adapter's folder, all others in a model's. `out` has files and tensors, not yet dealt. tied_copy
 * (may be NULL): if the state's head is tied and the files also have lm_head.weight, that tensor,
 * to be compared with the embedding; else tied_copy->file is -1. Skips tensors known to be harmless
 * (rotary inv_freq buffers). Errors (SW_BAD_INPUT, at the file): a tensor that is missing, has
 * another shape, or a dtype other than F32, BF16, F16 or F64; a tensor unknown to the family. */
int sw_model_folder_match(const struct sw_model_folder *folder, const struct sw_state *state,
                          bool optimizer, struct sw_placement *out,
                          struct sw_stored_tensor *tied_copy, struct sw_error *err);

/* Makes a checkpoint's config.json, readable by `transformers` 4 and 5: every key of the family,
 * `dtype` and `torch_dtype` of the files ("float32", "bfloat16", "float16"). original (may be
 * NULL): config.json that the run started from, or a checkpoint's; keeps its other keys, and a
 * different dtype as "shardwright_original_dtype" for sw_model_export. Its own output as the
 * original gives the same text. malloc'ed, with a newline; fails unless it reads back as the same
 * model. Errors: SW_ENVIRONMENT; SW_BAD_INPUT: the original is no JSON object, or nested too
 * deeply. */
int sw_model_config_json(const struct sw_model *model, enum sw_stored_dtype dtype,
                         const char *original, char **out, struct sw_error *err);

/* Makes model.safetensors.index.json of a placement's model files. As above. */
int sw_model_index_json(const struct sw_placement *placement, char **out, struct sw_error *err);

struct sw_export_options {
    enum sw_stored_dtype dtype; /* SW_STORED_DTYPES: a checkpoint's noted original dtype, else
                                 * unchanged */
    bool unmerged;              /* true to keep adapters separate, as in PEFT */
    const char *base;           /* base model to merge into; NULL: the one the adapters name */
};
/* `runner export`: copies a folder's model in that dtype, with tokenizer files, without optimizer
 * and manifest; complete or not at all (written as .NAME.partial, then renamed; a killed export's
 * leftovers are overwritten). Adapters are merged into their base model (merge.h) and take its
 * files. Rounds to nearest even; tensors that are not parameters (integers, rotary buffers) are
 * copied unchanged. Needs a few MiB whatever the tensor sizes, for adapters one projection's.
 * Verifies our checkpoints while reading. Errors: SW_BAD_INPUT (FROM is no such folder; a wrong
 * checksum; TO exists; the base model is absent or differs); SW_ENVIRONMENT (also: another process
 * writes TO). */
int sw_model_export(const char *from, const char *to, const struct sw_export_options *options,
                    struct sw_error *err);

#endif
