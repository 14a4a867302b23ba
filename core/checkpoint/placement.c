#include "core/checkpoint/placement.h"

#include "core/base/hash.h"
#include "core/base/json.h"
#include "core/base/lora.h"
#include "core/base/number.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Hugging Face's tools write files of at most 5 GB. With many ranks, more files spread over more
 * servers, down to a smallest size. */
#define FILE_BYTES 5000000000
enum { LENGTH_BYTES = 8, FEW_BYTES = 256 << 20, MANY_SLICES = 65536 };

static int no_memory(struct sw_error *err)
{
    return sw_fail(err, SW_ENVIRONMENT, "out of memory for the files of a checkpoint");
}

/* ---- Files ---- */

/* Bytes of all parts of the tensor that begins with this part; 0 for later parts. */
static int64_t whole_bytes(const struct sw_stored_tensor *t)
{
    return t->first_row > 0     ? 0
           : t->fused_rows == 0 ? t->bytes
                                : t->bytes / t->size[0] * t->fused_rows;
}

/* Number of files that the tensors need, in order, with none larger than the limit, except those of
 * one tensor. file (may be NULL): index of each tensor's file. */
static int32_t fill(const struct sw_stored_tensor *tensor, int32_t count, int64_t most_bytes,
                    int32_t *file)
{
    int32_t files = 0;
    int64_t bytes = 0;
    for (int32_t i = 0; i < count; i++) {
        if (files == 0 ||
            (tensor[i].first_row == 0 && bytes + whole_bytes(&tensor[i]) > most_bytes)) {
            files++;
            bytes = 0;
        }
        bytes += whole_bytes(&tensor[i]);
        if (file != NULL)
            file[i] = files - 1;
    }
    return files;
}

/* Smallest size of the largest file with at most that many files; larger tensors have a file
 * each. */
static int64_t least_bytes(const struct sw_stored_tensor *tensor, int32_t count, int32_t files)
{
    int64_t low = 0, high = 0; /* too few, enough */
    for (int32_t i = 0; i < count; i++)
        high += tensor[i].bytes;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (fill(tensor, count, middle, NULL) <= files)
            high = middle;
        else
            low = middle;
    }
    return high;
}

/* Sets `file` of a group's tensors, from 0 on; returns the number of files. */
static int32_t choose_files(struct sw_stored_tensor *tensor, int32_t count, int32_t ranks,
                            int32_t *scratch)
{
    int64_t bytes = 0;
    for (int32_t i = 0; i < count; i++)
        bytes += tensor[i].bytes;
    const int32_t least = fill(tensor, count, FILE_BYTES, NULL);
    const int64_t wanted = bytes / FEW_BYTES < ranks ? bytes / FEW_BYTES : ranks;
    const int32_t files = wanted > least ? (int32_t)wanted : least;
    const int32_t used = fill(tensor, count, least_bytes(tensor, count, files), scratch);
    for (int32_t i = 0; i < count; i++)
        tensor[i].file = scratch[i];
    return used;
}

static void name_file(struct sw_stored_file *file, int32_t number, int32_t of)
{
    static const char *const stems[SW_STORED_GROUPS] = {[SW_STORED_MODEL] = "model",
                                                        [SW_STORED_EXP_AVG] = "optimizer/exp_avg",
                                                        [SW_STORED_EXP_AVG_SQ] =
                                                            "optimizer/exp_avg_sq"};
    snprintf(file->name, sizeof file->name, "%s-%05" PRId32 "-of-%05" PRId32 ".safetensors",
             stems[file->group], number, of);
}

/* Joins adapters into one file of any size, as PEFT reads only one. */
static int32_t join_adapter(struct sw_stored_tensor *tensor, int32_t count)
{
    for (int32_t i = 0; i < count; i++)
        tensor[i].file = 0;
    return 1;
}

/* Assigns tensors to files, without offsets. */
static int make_files(const struct sw_state *state, struct sw_placement *p, int32_t ranks,
                      struct sw_error *err)
{
    const size_t most = (size_t)p->tensor_count + 1; /* one each, at most */
    int32_t *scratch = malloc(most * sizeof *scratch);
    p->file = calloc(most, sizeof *p->file);
    if (scratch == NULL || p->file == NULL) {
        free(scratch);
        return no_memory(err);
    }
    for (int32_t first = 0, end; first < p->tensor_count; first = end) {
        const enum sw_stored_group group = p->tensor[first].group;
        for (end = first; end < p->tensor_count && p->tensor[end].group == group;)
            end++;
        const bool adapter =
            group == SW_STORED_MODEL && state->row[p->tensor[first].row].parameter->adapter;
        const int32_t files = adapter
                                  ? join_adapter(p->tensor + first, end - first)
                                  : choose_files(p->tensor + first, end - first, ranks, scratch);
        for (int32_t i = first; i < end; i++) {
            const int32_t number = p->tensor[i].file;
            struct sw_stored_file *file = &p->file[p->file_count + number];
            if (file->tensor_count++ == 0) {
                file->group = group;
                file->first_tensor = i;
                if (adapter)
                    strcpy(file->name, SW_ADAPTER_FILE);
                else
                    name_file(file, number + 1, files);
            }
            p->tensor[i].file = p->file_count + number;
        }
        p->file_count += files;
    }
    free(scratch);
    return 0;
}

static void write_header(const struct sw_placement *p, int32_t file, FILE *out)
{
    const struct sw_stored_file *f = &p->file[file];
    struct sw_json j = {.out = out, .style = SW_JSON_LINE};
    sw_json_object(&j, NULL);
    sw_json_object(&j, "__metadata__");
    sw_json_text(&j, "format", "pt");
    sw_json_end(&j);
    for (int32_t i = f->first_tensor; i < f->first_tensor + f->tensor_count; i++) {
        const struct sw_stored_tensor *t = &p->tensor[i];
        if (t->first_row > 0)
            continue; /* counted with its first part */
        sw_json_object(&j, t->name);
        sw_json_text(&j, "dtype", sw_stored_dtype_name(t->dtype));
        sw_json_array(&j, "shape");
        int64_t shape[SW_STORED_DIMS];
        const uint8_t ndim = sw_stored_shape(t, shape);
        for (uint8_t d = 0; d < ndim; d++)
            sw_json_integer(&j, NULL, shape[d]);
        sw_json_end(&j);
        sw_json_array(&j, "data_offsets");
        sw_json_integer(&j, NULL, t->offset - f->data_begin);
        sw_json_integer(&j, NULL, t->offset - f->data_begin + whole_bytes(t));
        sw_json_end(&j);
        sw_json_end(&j);
    }
    sw_json_end(&j);
}

/* The JSON text alone; malloc'ed. */
static char *header_text(const struct sw_placement *p, int32_t file, size_t *bytes)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, bytes);
    if (out == NULL)
        return NULL;
    write_header(p, file, out);
    const bool failed = ferror(out) != 0;
    if (fclose(out) != 0 || failed) {
        free(text);
        return NULL;
    }
    return text;
}

/* Sets offsets; those in a header count from the start of data, so they are known before the
 * header's size. */
static int set_offsets(struct sw_placement *p, struct sw_error *err)
{
    for (int32_t i = 0; i < p->file_count; i++) {
        struct sw_stored_file *file = &p->file[i];
        struct sw_stored_tensor *tensor = &p->tensor[file->first_tensor];
        int64_t at = 0;
        size_t text_bytes = 0;
        for (int32_t t = 0; t < file->tensor_count; at += tensor[t++].bytes)
            tensor[t].offset = at;
        char *text = header_text(p, i, &text_bytes);
        if (text == NULL)
            return no_memory(err);
        free(text);
        file->data_begin = sw_align(LENGTH_BYTES + (int64_t)text_bytes, SW_STORED_DATA_ALIGNMENT);
        file->bytes = file->data_begin + at;
        for (int32_t t = 0; t < file->tensor_count; t++)
            tensor[t].offset += file->data_begin;
    }
    return 0;
}

int sw_placement_make(const struct sw_state *state, int32_t ranks, struct sw_placement *out,
                      struct sw_error *err)
{
    *out = (struct sw_placement){0};
    if (sw_stored_tensors(state, SW_STORED_SAVED, &out->tensor, &out->tensor_count, err) != 0 ||
        make_files(state, out, ranks, err) != 0 || set_offsets(out, err) != 0 ||
        sw_placement_deal(out, ranks, err) != 0) {
        sw_placement_free(out);
        return -1;
    }
    return 0;
}

int sw_placement_header(const struct sw_placement *placement, int32_t file, char **out,
                        struct sw_error *err)
{
    const int64_t data_begin = placement->file[file].data_begin;
    size_t text_bytes = 0;
    char *text = header_text(placement, file, &text_bytes), *header = NULL;
    if (text != NULL)
        header = malloc((size_t)data_begin);
    if (header == NULL) {
        free(text);
        return no_memory(err);
    }
    memset(header, ' ', (size_t)data_begin);
    for (int32_t i = 0; i < LENGTH_BYTES; i++)
        header[i] = (char)((uint64_t)(data_begin - LENGTH_BYTES) >> 8 * i & 0xff);
    memcpy(header + LENGTH_BYTES, text, text_bytes);
    free(text);
    *out = header;
    return 0;
}

/* ---- Dealing ---- */

struct cut {
    int32_t file;
    int64_t at; /* offset in the file; the file's size: all of it is before the cut */
};

/* The last byte up to `at` that is not inside an element of the file. */
static int64_t whole_element(const struct sw_placement *p, int32_t file, int64_t at)
{
    const struct sw_stored_file *f = &p->file[file];
    int32_t low = f->first_tensor, high = low + f->tensor_count; /* first tensor that begins
                                                                    behind it */
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (p->tensor[middle].offset > at)
            high = middle;
        else
            low = middle + 1;
    }
    if (low == f->first_tensor)
        return at;
    const struct sw_stored_tensor *t = &p->tensor[low - 1];
    return at < t->offset + t->bytes ? at - (at - t->offset) % sw_stored_block_bytes(t) : at;
}

/* The allowed cut nearest to `at`. */
static struct cut snap(const struct sw_placement *p, int32_t file, int64_t at)
{
    const struct sw_stored_file *f = &p->file[file];
    int64_t low = at / p->slice_bytes * p->slice_bytes, high = low + p->slice_bytes;
    low = low <= f->data_begin ? f->data_begin : whole_element(p, file, low);
    high = high >= f->bytes ? f->bytes : whole_element(p, file, high);
    return (struct cut){file, at - low <= high - at ? low : high};
}

static int64_t data_bytes(const struct sw_placement *p)
{
    int64_t bytes = 0;
    for (int32_t i = 0; i < p->file_count; i++)
        bytes += p->file[i].bytes - p->file[i].data_begin;
    return bytes;
}

/* Appends the extents between two cuts. */
static void add_extents(struct sw_placement *p, struct cut from, struct cut to, int32_t *count)
{
    for (int32_t i = from.file; i < p->file_count && i <= to.file; i++) {
        const int64_t begin = i == from.file ? from.at : p->file[i].data_begin;
        const int64_t end = i == to.file ? to.at : p->file[i].bytes;
        if (begin < end)
            p->extent[(*count)++] = (struct sw_extent){i, begin, end};
    }
}

int sw_placement_deal(struct sw_placement *p, int32_t ranks, struct sw_error *err)
{
    const int64_t all = data_bytes(p);
    const int64_t slices = ranks > MANY_SLICES / 2 ? 2 * (int64_t)ranks : MANY_SLICES;
    if (p->slice_bytes == 0)
        for (p->slice_bytes = SW_SLICE_BYTES; all / p->slice_bytes > slices;)
            p->slice_bytes *= 2;
    free(p->extent);
    free(p->first_extent);
    p->ranks = ranks;
    p->extent = malloc(((size_t)ranks + (size_t)p->file_count + 1) * sizeof *p->extent);
    p->first_extent = malloc(((size_t)ranks + 1) * sizeof *p->first_extent);
    if (p->extent == NULL || p->first_extent == NULL)
        return no_memory(err);
    struct cut from = {0, p->file_count > 0 ? p->file[0].data_begin : 0};
    int32_t count = 0, file = 0;
    int64_t before = 0; /* data of the files before `file` */
    for (int32_t rank = 0; rank < ranks; rank++) {
        const int64_t share = all / ranks, more = all % ranks; /* without overflow */
        const int64_t ideal = share * (rank + 1) + more * (rank + 1) / ranks;
        struct cut to = {p->file_count, 0};
        while (file < p->file_count &&
               ideal >= before + p->file[file].bytes - p->file[file].data_begin) {
            before += p->file[file].bytes - p->file[file].data_begin;
            file++;
        }
        if (file < p->file_count && rank + 1 < ranks)
            to = snap(p, file, p->file[file].data_begin + ideal - before);
        p->first_extent[rank] = count;
        add_extents(p, from, to, &count);
        from = to;
    }
    p->first_extent[ranks] = count;
    return 0;
}

void sw_placement_free(struct sw_placement *placement)
{
    free(placement->tensor);
    free(placement->file);
    free(placement->extent);
    free(placement->first_extent);
    *placement = (struct sw_placement){0};
}

int64_t sw_placement_bytes(const struct sw_placement *placement)
{
    int64_t bytes = 0;
    for (int32_t i = 0; i < placement->file_count; i++)
        bytes += placement->file[i].bytes;
    return bytes;
}

int64_t sw_placement_rank_bytes(const struct sw_placement *placement, int32_t rank)
{
    int64_t bytes = 0;
    for (int32_t i = placement->first_extent[rank]; i < placement->first_extent[rank + 1]; i++)
        bytes += placement->extent[i].end - placement->extent[i].begin;
    return bytes;
}

int64_t sw_placement_most_bytes(const struct sw_placement *placement)
{
    int64_t most = 0;
    for (int32_t rank = 0; rank < placement->ranks; rank++) {
        const int64_t bytes = sw_placement_rank_bytes(placement, rank);
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* ---- Digest: field by field (structs have padding) ---- */

static void mix_int(uint64_t *hash, int64_t value)
{
    *hash = sw_hash_bytes(*hash, &value, sizeof value);
}

uint64_t sw_placement_digest(const struct sw_placement *p)
{
    uint64_t hash = SW_HASH_START;
    mix_int(&hash, p->slice_bytes);
    for (int32_t i = 0; i < p->file_count; i++) {
        hash = sw_hash_bytes(hash, p->file[i].name, strlen(p->file[i].name) + 1);
        mix_int(&hash, p->file[i].data_begin);
        mix_int(&hash, p->file[i].bytes);
    }
    for (int32_t i = 0; i < p->tensor_count; i++) {
        const struct sw_stored_tensor *t = &p->tensor[i];
        hash = sw_hash_bytes(hash, t->name, strlen(t->name) + 1);
        mix_int(&hash, t->row);
        mix_int(&hash, t->instance);
        mix_int(&hash, t->dtype);
        mix_int(&hash, t->transposed);
        mix_int(&hash, t->size[0]);
        mix_int(&hash, t->size[1]);
        if (t->fused_rows > 0)
            mix_int(&hash, t->first_row);
        if (t->ndim == SW_STORED_DIMS)
            mix_int(&hash, t->matrices);
        mix_int(&hash, t->file);
        mix_int(&hash, t->offset);
    }
    for (int32_t rank = 0; rank < p->ranks; rank++) {
        mix_int(&hash, p->first_extent[rank + 1]);
        for (int32_t e = p->first_extent[rank]; e < p->first_extent[rank + 1]; e++) {
            mix_int(&hash, p->extent[e].file);
            mix_int(&hash, p->extent[e].begin);
            mix_int(&hash, p->extent[e].end);
        }
    }
    return hash;
}
