/* Compares a manifest with the folder. */
#include "core/base/file.h"
#include "core/checkpoint/manifest.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 20 };

struct reader {
    const char *path; /* path of the file */
    int handle;
    char *buffer;
    struct sw_checksum_stream *stream;
};

static int fail_to_read(const char *path, struct sw_error *err)
{
    return sw_fail_at(err, SW_ENVIRONMENT, (struct sw_place){.file = path}, "cannot read it: %s",
                      strerror(errno));
}

/* Checksum of the next `bytes` bytes of the file. */
static int sum_bytes(struct reader *reader, int64_t bytes, struct sw_checksum *out,
                     struct sw_error *err)
{
    while (bytes > 0) {
        const ssize_t got =
            read(reader->handle, reader->buffer,
                 bytes < (int64_t)BUFFER_BYTES ? (size_t)bytes : (size_t)BUFFER_BYTES);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_to_read(reader->path, err);
        if (got == 0)
            return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = reader->path},
                              "it became shorter while it was read");
        sw_checksum_add(reader->stream, reader->buffer, (size_t)got);
        bytes -= got;
    }
    *out = sw_checksum_take(reader->stream);
    return 0;
}

/* small: only the first slice: the header, or a whole file without one. Callers that set it are
 * about to use the file. */
static int verify_slices(struct reader *reader, const struct sw_manifest *manifest,
                         const struct sw_manifest_file *file, bool small, struct sw_error *err)
{
    for (int32_t i = 0; i < (small ? 1 : file->slice_count); i++) {
        int64_t begin, end;
        struct sw_checksum sum;
        sw_manifest_slice(file->bytes, file->data_begin, manifest->slice_bytes, i, &begin, &end);
        if (sum_bytes(reader, end - begin, &sum, err) != 0)
            return -1;
        if (!sw_checksum_equal(sum, file->slice[i]))
            return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = reader->path},
                              "bytes %" PRId64 " to %" PRId64
                              " are not what was written: their checksum is wrong%s",
                              begin, end, small ? SW_MANIFEST_ADVICE : "");
    }
    return 0;
}

/* Opens a file and compares its size: the handle, or -1. */
static int open_file(const char *path, const struct sw_manifest_file *file, struct sw_error *err)
{
    const struct sw_place at = {.file = path};
    struct stat info;
    const int handle = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (handle < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
        return sw_fail_at(err, SW_BAD_INPUT, at, "it is missing");
    if (handle < 0)
        return fail_to_read(path, err);
    if (fstat(handle, &info) != 0)
        fail_to_read(path, err);
    else if (!S_ISREG(info.st_mode))
        sw_fail_at(err, SW_BAD_INPUT, at, "it is not a regular file");
    else if (info.st_size != file->bytes)
        sw_fail_at(err, SW_BAD_INPUT, at, "it has %" PRId64 " bytes, not %" PRId64,
                   (int64_t)info.st_size, file->bytes);
    else
        return handle;
    close(handle);
    return -1;
}

int sw_manifest_check_sizes(const struct sw_manifest *manifest, const char *folder,
                            struct sw_error *err)
{
    for (int32_t i = 0; i < manifest->file_count; i++) {
        char *path = sw_path_join(folder, manifest->file[i].name);
        if (path == NULL)
            return sw_fail(err, SW_ENVIRONMENT, "out of memory for the path '%.60s'", folder);
        const int handle = open_file(path, &manifest->file[i], err);
        free(path);
        if (handle < 0)
            return -1;
        close(handle);
    }
    return 0;
}

static int verify_file(struct reader *reader, const struct sw_manifest *manifest,
                       const struct sw_manifest_file *file, const char *folder, bool small,
                       struct sw_error *err)
{
    int status = -1;
    char *path = sw_path_join(folder, file->name);
    if (path == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the path '%.60s'", folder);
    reader->path = path;
    reader->handle = open_file(path, file, err);
    if (reader->handle >= 0) {
        status = verify_slices(reader, manifest, file, small, err);
        close(reader->handle);
    }
    free(path);
    return status;
}

/* Verifies all requested files. */
static int verify_files(const struct sw_manifest *manifest, const char *folder, bool small,
                        bool optimizer, struct sw_error *err)
{
    struct reader reader = {.handle = -1, .buffer = malloc(BUFFER_BYTES)};
    int status = 0;
    reader.stream = sw_checksum_begin();
    if (reader.buffer == NULL || reader.stream == NULL)
        status = sw_fail(err, SW_ENVIRONMENT, "out of memory for reading a checkpoint");
    for (int32_t i = 0; status == 0 && i < manifest->file_count; i++)
        if (optimizer || strncmp(manifest->file[i].name, "optimizer/", 10) != 0)
            status = verify_file(&reader, manifest, &manifest->file[i], folder, small, err);
    free(reader.buffer);
    sw_checksum_free(reader.stream);
    return status;
}

int sw_manifest_check_small(const struct sw_manifest *manifest, const char *folder, bool optimizer,
                            struct sw_error *err)
{
    return verify_files(manifest, folder, true, optimizer, err);
}

static bool is_folder(const char *name)
{
    for (const char *const *below = sw_manifest_folders; *below != NULL; below++)
        if (strcmp(name, *below) == 0)
            return true;
    return false;
}

/* Fails if the folder, or its subfolder `below` (""), has other files. NFS's leftovers of files
 * deleted while open are ignored. */
static int find_more(const struct sw_manifest *manifest, const char *folder, const char *below,
                     struct sw_error *err)
{
    int status = 0;
    char *path = sw_path_join(folder, below);
    DIR *listing = path != NULL ? opendir(path) : NULL;
    if (listing == NULL && path != NULL && *below != '\0' && errno == ENOENT)
        goto out; /* it may be missing */
    if (listing == NULL) {
        status = fail_to_read(folder, err);
        goto out;
    }
    for (struct dirent *entry; status == 0 && (entry = readdir(listing)) != NULL;) {
        char name[sizeof entry->d_name + 32];
        snprintf(name, sizeof name, "%s%s%s", below, *below != '\0' ? "/" : "", entry->d_name);
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            strncmp(entry->d_name, ".nfs", 4) == 0 || strcmp(name, SW_MANIFEST_NAME) == 0 ||
            is_folder(name) || sw_manifest_find(manifest, name) != NULL)
            continue;
        char *more = sw_path_join(folder, name);
        status = sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = more},
                            "it is not a file of this checkpoint");
        free(more);
    }
    closedir(listing);
out:
    free(path);
    return status;
}

int sw_checkpoint_verify(const char *folder, struct sw_manifest *out, struct sw_error *err)
{
    if (sw_manifest_read(folder, out, NULL, NULL, err) != 0)
        return -1;
    int status = sw_manifest_check_sizes(out, folder, err) == 0 &&
                         verify_files(out, folder, false, true, err) == 0
                     ? find_more(out, folder, "", err)
                     : -1;
    for (const char *const *below = sw_manifest_folders; status == 0 && *below != NULL; below++)
        status = find_more(out, folder, *below, err);
    if (status == 0)
        return 0;
    sw_manifest_free(out);
    return -1;
}
