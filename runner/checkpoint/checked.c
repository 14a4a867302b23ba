#include "runner/checkpoint/checked.h"

#include "core/base/file.h"

#include <inttypes.h>
#include <stdlib.h>

static int refuse(const struct sw_checked *checked, int64_t begin, int64_t end,
                  struct sw_error *err)
{
    return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = checked->path},
                      "bytes %" PRId64 " to %" PRId64
                      " are not what was written: their checksum is wrong",
                      begin, end);
}

int sw_checked_begin(struct sw_checked *checked, const char *folder, struct sw_error *err)
{
    struct stat status;
    *checked = (struct sw_checked){0};
    char *path = sw_path_join(folder, SW_MANIFEST_NAME);
    if (path == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for '%s'", folder);
    const bool there = lstat(path, &status) == 0;
    free(path);
    if (!there)
        return 0;
    if (sw_manifest_read(folder, &checked->manifest, NULL, NULL, err) != 0)
        return -1;
    checked->has_manifest = true;
    checked->stream = sw_checksum_begin();
    if (checked->stream != NULL)
        return 0;
    sw_checked_end(checked);
    return sw_fail(err, SW_ENVIRONMENT, "out of memory for reading '%s'", folder);
}

void sw_checked_end(struct sw_checked *checked)
{
    if (checked->has_manifest)
        sw_manifest_free(&checked->manifest);
    sw_checksum_free(checked->stream);
    free(checked->path);
    *checked = (struct sw_checked){0};
}

/* Finds the end of the current slice. */
static void begin_slice(struct sw_checked *checked)
{
    int64_t begin;
    if (checked->slice < checked->file->slice_count)
        sw_manifest_slice(checked->file->bytes, checked->file->data_begin,
                          checked->manifest.slice_bytes, checked->slice, &begin,
                          &checked->slice_end);
}

int sw_checked_open(struct sw_checked *checked, const char *folder, const char *name, int64_t bytes,
                    bool needed, struct sw_error *err)
{
    checked->file = NULL;
    if (!checked->has_manifest)
        return 0;
    free(checked->path);
    checked->path = sw_path_join(folder, name);
    if (checked->path == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for '%s'", folder);
    const struct sw_place place = {.file = checked->path};
    checked->file = sw_manifest_find(&checked->manifest, name);
    if (checked->file == NULL)
        return needed ? sw_fail_at(err, SW_BAD_INPUT, place, "it is not a file of this checkpoint")
                      : 0;
    if (checked->file->bytes != bytes)
        return sw_fail_at(err, SW_BAD_INPUT, place, "it has %" PRId64 " bytes, not %" PRId64, bytes,
                          checked->file->bytes);
    checked->slice = 0;
    checked->at = 0;
    begin_slice(checked);
    return 0;
}

int sw_checked_read(struct sw_checked *checked, const void *data, size_t bytes,
                    struct sw_error *err)
{
    const char *next = data;
    while (checked->file != NULL && bytes > 0 && checked->slice < checked->file->slice_count) {
        const int64_t left = checked->slice_end - checked->at;
        const size_t part = (int64_t)bytes < left ? bytes : (size_t)left;
        sw_checksum_add(checked->stream, next, part);
        checked->at += (int64_t)part;
        next += part;
        bytes -= part;
        if (checked->at < checked->slice_end)
            break;
        const struct sw_checksum sum = sw_checksum_take(checked->stream);
        if (!sw_checksum_equal(sum, checked->file->slice[checked->slice])) {
            int64_t begin, end;
            sw_manifest_slice(checked->file->bytes, checked->file->data_begin,
                              checked->manifest.slice_bytes, checked->slice, &begin, &end);
            return refuse(checked, begin, end, err);
        }
        checked->slice++;
        begin_slice(checked);
    }
    return 0;
}

int sw_checked_close(struct sw_checked *checked, struct sw_error *err)
{
    if (checked->file == NULL)
        return 0;
    const int64_t at = checked->at, bytes = checked->file->bytes;
    checked->file = NULL;
    return at == bytes ? 0 : refuse(checked, at, bytes, err);
}
