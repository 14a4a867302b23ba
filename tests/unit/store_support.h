/* Small checkpoints whose every byte says which one it is of. For tests of the store. */
#ifndef SW_TEST_STORE_SUPPORT_H
#define SW_TEST_STORE_SUPPORT_H

#include "core/base/file.h"
#include "core/checkpoint/store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Files of checkpoints here: header, data, and the last of several writers' ranges. */
static const struct small_file {
    const char *name;
    int64_t bytes, data_begin, cut; /* two writers: up to cut and from there */
} small_files[] = {
    {"config.json", 70, 0, 0},
    {"model-00001-of-00002.safetensors", 900, 96, 0},
    {"model-00002-of-00002.safetensors", 1500, 128, 512},
    {"optimizer/exp_avg-00001-of-00001.safetensors", 400, 128, 0},
};
enum { SMALL_FILES = 4, SMALL_SLICE_BYTES = 256, SMALL_MOST_BYTES = 1500 };

static inline void small_fill(char *out, int32_t file, int64_t step, int64_t generation)
{
    for (int64_t i = 0; i < small_files[file].bytes; i++)
        out[i] = (char)(i * 7 + i / 251 + file * 31 + step * 3 + generation * 101 + 1);
}

static inline int small_write(struct sw_store_save *save, int32_t i, const char *data,
                              struct sw_manifest *manifest, struct sw_error *err)
{
    const struct small_file *f = &small_files[i];
    struct sw_manifest_file *entry;
    if (f->data_begin == 0)
        return sw_store_write_file(save, f->name, data, (size_t)f->bytes, manifest, err);
    if (sw_manifest_add(manifest, f->name, f->bytes, f->data_begin, &entry, err) != 0)
        return -1;
    for (int32_t k = 0; k < entry->slice_count; k++) {
        int64_t begin, end;
        sw_manifest_slice(f->bytes, f->data_begin, manifest->slice_bytes, k, &begin, &end);
        entry->slice[k] = sw_checksum_of(data + begin, (size_t)(end - begin));
    }
    int status = 0;
    for (int writer = 0; writer < (f->cut > 0 ? 2 : 1) && status == 0; writer++) {
        const int64_t begin = writer == 0 ? 0 : f->cut,
                      end = writer == 0 && f->cut > 0 ? f->cut : f->bytes;
        const int handle = sw_store_open_file(save->aside, f->name, err);
        if (handle < 0)
            return -1;
        status =
            sw_store_write_at(handle, f->name, data + begin, (size_t)(end - begin), begin, err);
        if (sw_store_close_file(handle, f->name, err) != 0)
            status = -1;
    }
    return status;
}

/* Saves one; a save that fails is abandoned. `attempt` of the manifest is the generation. */
static inline int small_save(const char *folder, int64_t step, int64_t generation, int64_t keep,
                             int64_t keep_every, char note[SW_STORE_NOTE_BYTES],
                             struct sw_error *err)
{
    struct sw_store_save save;
    struct sw_manifest manifest = {.step = step,
                                   .attempt = generation,
                                   .slice_bytes = SMALL_SLICE_BYTES,
                                   .run = "small",
                                   .optimizer = "adamw"};
    char data[SMALL_MOST_BYTES];
    if (sw_store_begin(folder, step, &save, err) != 0)
        return -1;
    int status = 0;
    for (int32_t i = 0; i < SMALL_FILES && status == 0; i++) {
        small_fill(data, i, step, generation);
        status = small_write(&save, i, data, &manifest, err);
    }
    if (status == 0)
        status = sw_store_commit(&save, &manifest, keep, keep_every, note, err);
    if (status != 0)
        sw_store_abandon(&save);
    sw_manifest_free(&manifest);
    return status;
}

/* Reads all of a checkpoint: it verifies, and every byte is of the same one. Says what is wrong. */
static inline bool small_check(const char *path, int64_t *step, int64_t *generation)
{
    struct sw_manifest manifest;
    struct sw_error err = {0};
    char said[SW_ERROR_TEXT_BYTES], data[SMALL_MOST_BYTES];
    if (sw_checkpoint_verify(path, &manifest, &err) != 0) {
        fprintf(stderr, "%s\n", sw_error_format(&err, NULL, said));
        return false;
    }
    *step = manifest.step;
    *generation = manifest.attempt;
    sw_manifest_free(&manifest);
    for (int32_t i = 0; i < SMALL_FILES; i++) {
        char *file = sw_path_join(path, small_files[i].name), *text = NULL;
        size_t bytes = 0;
        const bool there = sw_file_read(file, true, SMALL_MOST_BYTES, &text, &bytes, NULL) == 0 &&
                           (int64_t)bytes == small_files[i].bytes;
        small_fill(data, i, *step, *generation);
        const bool same = there && memcmp(text, data, bytes) == 0;
        if (!same)
            fprintf(stderr, "%s is not of step %d, generation %d\n", file, (int)*step,
                    (int)*generation);
        free(file);
        free(text);
        if (!same)
            return false;
    }
    return true;
}

#endif
