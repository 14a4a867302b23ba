/* Locates a state's tensors in a folder's files. */
#include "core/base/text.h"
#include "core/config/config.h"
#include "runner/checkpoint/folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_BYTES = 100, SHAPE_BYTES = 200 };

struct matching {
    const struct sw_model_folder *folder;
    struct sw_placement *out;
    struct sw_stored_tensor *tied_copy;
    int32_t *out_file; /* [folder->count] index in the placement; -1: not in it */
    struct sw_error *err;
};

static int out_of_memory(struct matching *p)
{
    return sw_fail(p->err, SW_ENVIRONMENT, "out of memory for the tensors of '%s'",
                   p->folder->path);
}

/* Reports a mistake in a file of the folder. */
static int refuse(struct matching *p, int32_t file, const char *message)
{
    char *path = sw_folder_path(p->folder, p->folder->file[file].name, p->err);
    if (path != NULL)
        sw_fail_at(p->err, SW_BAD_INPUT, (struct sw_place){.file = path}, "%s", message);
    free(path);
    return -1;
}

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

bool sw_folder_is_buffer(const char *name)
{
    static const char *const ends[] = {".rotary_emb.inv_freq",   ".rotary_emb.cos_cached",
                                       ".rotary_emb.sin_cached", ".self_attn.bias",
                                       ".self_attn.masked_bias", ".attn.masked_bias",
                                       ".attention.masked_bias"};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (ends_with(name, ends[i]))
            return true;
    return false;
}

static const char *write_shape(const int64_t *size, int32_t ndim, char text[SHAPE_BYTES])
{
    int used = snprintf(text, SHAPE_BYTES, "[");
    for (int32_t i = 0; i < ndim; i++) /* at most 8 of 22 characters */
        used += snprintf(text + used, SHAPE_BYTES - (size_t)used, "%s%lld", i > 0 ? ", " : "",
                         (long long)size[i]);
    snprintf(text + used, SHAPE_BYTES - (size_t)used, "]");
    return text;
}

/* Sets the location of a state's tensor. */
static int match(struct matching *p, struct sw_stored_tensor *t,
                 const struct sw_folder_tensor *found)
{
    const struct sw_safetensor *is = &p->folder->file[found->file].header.tensor[found->tensor];
    char message[768], was[SHAPE_BYTES], wanted[SHAPE_BYTES];
    const bool codes = t->dtype == SW_STORED_U8;
    if (codes && strcmp(is->dtype_name, sw_stored_dtype_name(t->dtype)) != 0) {
        snprintf(message, sizeof message,
                 "tensor '%s' holds %s; moments of int8 are read from U8 alone", t->name,
                 is->dtype_name);
        return refuse(p, found->file, message);
    }
    if (!codes && is->dtype == SW_STORED_DTYPES) {
        snprintf(message, sizeof message,
                 "tensor '%s' holds %s; only F32, BF16, F16 and F64 can be read", t->name,
                 is->dtype_name);
        return refuse(p, found->file, message);
    }
    int64_t shape[SW_STORED_DIMS];
    const uint8_t ndim = sw_stored_shape(t, shape);
    const bool same = is->ndim == ndim && memcmp(is->size, shape, ndim * sizeof shape[0]) == 0;
    if (!same) {
        snprintf(message, sizeof message, "tensor '%s' has the shape %s, not %s", t->name,
                 write_shape(is->size, is->ndim, was), write_shape(shape, ndim, wanted));
        return refuse(p, found->file, message);
    }
    t->dtype = codes ? SW_STORED_U8 : is->dtype;
    t->file = p->out_file[found->file];
    t->offset = is->begin;
    t->bytes = is->bytes;
    if (t->fused_rows > 0) {
        t->bytes = is->bytes / t->fused_rows * t->size[0];
        t->offset += is->bytes / t->fused_rows * t->first_row;
    }
    return 0;
}

/* Returns 1 for a tied head also present in the files, with the right shape. */
static int match_tied(struct matching *p, const struct sw_folder_tensor *found)
{
    for (int32_t i = 0; i < p->out->tensor_count; i++) {
        struct sw_stored_tensor copy = p->out->tensor[i];
        if (copy.tied == NULL || strcmp(copy.tied, found->name) != 0)
            continue;
        snprintf(copy.name, sizeof copy.name, "%s", copy.tied);
        if (match(p, &copy, found) != 0)
            return -1;
        if (p->tied_copy != NULL)
            *p->tied_copy = copy;
        return 1;
    }
    return 0;
}

static int compare_wanted(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* True if the state has that parameter; files may have moments from before it was frozen. */
static bool has_parameter(const struct matching *p, const char *name)
{
    for (int32_t i = 0; i < p->out->tensor_count; i++)
        if (p->out->tensor[i].group == SW_STORED_MODEL && strcmp(p->out->tensor[i].name, name) == 0)
            return true;
    return false;
}

/* Checks that every tensor of the group's files is in the state or may be skipped. */
static int check_others(struct matching *p, const struct sw_folder_tensor *found,
                        int32_t found_count, const char *const *wanted, int32_t wanted_count)
{
    static const char ending[] = "ForCausalLM";
    const char *architecture = sw_family_architectures[p->folder->model.family];
    char shown[SHOWN_BYTES + 4], message[512];
    for (int32_t i = 0; i < found_count; i++) {
        const char *name = found[i].name;
        if (bsearch(&name, wanted, (size_t)wanted_count, sizeof *wanted, compare_wanted) != NULL ||
            sw_folder_is_buffer(name))
            continue;
        if (p->folder->file[found[i].file].group == SW_STORED_MODEL) {
            const int tied = match_tied(p, &found[i]);
            if (tied < 0)
                return -1;
            if (tied > 0)
                continue;
        }
        if (p->folder->file[found[i].file].group != SW_STORED_MODEL && has_parameter(p, name))
            snprintf(message, sizeof message,
                     "tensor '%s' was trained, and 'freeze' names it now; use the 'freeze' that "
                     "the checkpoint was saved with",
                     sw_text_shown(name, SHOWN_BYTES, shown));
        else if (p->folder->adapter)
            snprintf(message, sizeof message,
                     "tensor '%s' is of no adapter of 'lora.targets' in this model",
                     sw_text_shown(name, SHOWN_BYTES, shown));
        else
            snprintf(message, sizeof message, "tensor '%s' is not part of this %.*s model",
                     sw_text_shown(name, SHOWN_BYTES, shown),
                     (int)(strlen(architecture) - strlen(ending)), architecture);
        return refuse(p, found[i].file, message);
    }
    return 0;
}

static int match_group(struct matching *p, enum sw_stored_group group)
{
    struct sw_folder_tensor *found = NULL;
    int32_t found_count = 0, wanted_count = 0;
    int status = -1;
    const char **wanted = calloc((size_t)p->out->tensor_count + 1, sizeof *wanted);
    if (wanted == NULL)
        return out_of_memory(p);
    for (int32_t i = 0; i < p->out->tensor_count; i++)
        if (p->out->tensor[i].group == group)
            wanted[wanted_count++] = p->out->tensor[i].name;
    qsort(wanted, (size_t)wanted_count, sizeof *wanted, compare_wanted);
    if (sw_folder_tensors(p->folder, group, &found, &found_count, p->err) != 0 ||
        check_others(p, found, found_count, wanted, wanted_count) != 0)
        goto out;
    for (int32_t i = 0; i < p->out->tensor_count; i++) {
        struct sw_stored_tensor *t = &p->out->tensor[i];
        if (t->group != group)
            continue;
        const struct sw_folder_tensor *at = sw_folder_find(found, found_count, t->name);
        if (at == NULL) {
            sw_fail_at(p->err, SW_BAD_INPUT, (struct sw_place){.file = p->folder->path},
                       "no file %sholds the tensor '%s'%s",
                       group == SW_STORED_EXP_AVG      ? "optimizer/exp_avg-* "
                       : group == SW_STORED_EXP_AVG_SQ ? "optimizer/exp_avg_sq-* "
                                                       : "",
                       t->name,
                       group == SW_STORED_MODEL ? "" : "; if it was frozen, freeze it again");
            goto out;
        }
        if (match(p, t, at) != 0)
            goto out;
    }
    status = 0;
out:
    free(found);
    free(wanted);
    return status;
}

/* Matches every file of the groups, even if the state needs none of its tensors. */
static int match_files(struct matching *p, bool optimizer)
{
    const struct sw_model_folder *folder = p->folder;
    p->out->file = calloc((size_t)folder->count + 1, sizeof *p->out->file);
    if (p->out->file == NULL)
        return out_of_memory(p);
    for (int32_t i = 0; i < folder->count; i++) {
        const struct sw_folder_file *from = &folder->file[i];
        p->out_file[i] = -1;
        if (from->group != SW_STORED_MODEL && !optimizer)
            continue;
        p->out_file[i] = p->out->file_count;
        struct sw_stored_file *to = &p->out->file[p->out->file_count++];
        if (strlen(from->name) >= sizeof to->name)
            return refuse(p, i, "has a name that is too long");
        strcpy(to->name, from->name);
        to->group = from->group;
        to->data_begin = from->header.data_begin;
        to->bytes = from->header.file_bytes;
    }
    return 0;
}

static int compare_offsets(const void *left, const void *right)
{
    const struct sw_stored_tensor *a = left, *b = right;
    if (a->file != b->file)
        return a->file < b->file ? -1 : 1;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

static void count_tensors(struct sw_placement *out)
{
    qsort(out->tensor, (size_t)out->tensor_count, sizeof *out->tensor, compare_offsets);
    for (int32_t i = 0; i < out->tensor_count; i++)
        out->file[out->tensor[i].file].tensor_count++;
    int32_t first = 0;
    for (int32_t i = 0; i < out->file_count; i++) {
        out->file[i].first_tensor = first;
        first += out->file[i].tensor_count;
    }
}

/* Drops the moments. */
static void keep_model(struct sw_placement *out)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < out->tensor_count; i++)
        if (out->tensor[i].group == SW_STORED_MODEL)
            out->tensor[kept++] = out->tensor[i];
    out->tensor_count = kept;
}

static enum sw_origin origin_of(const struct sw_model_folder *folder, const struct sw_state *state)
{
    bool stands_on_base = false;
    for (int32_t i = 0; i < state->count; i++)
        stands_on_base = stands_on_base || state->row[i].origin == SW_ORIGIN_BASE;
    return stands_on_base && !folder->adapter ? SW_ORIGIN_BASE : SW_ORIGIN_RUN;
}

int sw_model_folder_match(const struct sw_model_folder *folder, const struct sw_state *state,
                          bool optimizer, struct sw_placement *out,
                          struct sw_stored_tensor *tied_copy, struct sw_error *err)
{
    struct matching p = {.folder = folder, .out = out, .tied_copy = tied_copy, .err = err};
    int status = -1;
    *out = (struct sw_placement){0};
    if (tied_copy != NULL)
        *tied_copy = (struct sw_stored_tensor){.file = -1};
    p.out_file = calloc((size_t)folder->count + 1, sizeof *p.out_file);
    if (p.out_file == NULL)
        return out_of_memory(&p);
    if (sw_stored_tensors(state, SW_STORED_FROM + origin_of(folder, state), &out->tensor,
                          &out->tensor_count, err) != 0)
        goto out;
    if (!optimizer)
        keep_model(out);
    if (match_files(&p, optimizer) != 0 || match_group(&p, SW_STORED_MODEL) != 0 ||
        (optimizer &&
         (match_group(&p, SW_STORED_EXP_AVG) != 0 || match_group(&p, SW_STORED_EXP_AVG_SQ) != 0)))
        goto out;
    count_tensors(out);
    status = 0;
out:
    free(p.out_file);
    if (status != 0)
        sw_placement_free(out);
    return status;
}
