#include "runner/checkpoint/base_model.h"

#include "core/base/hash.h"
#include "runner/checkpoint/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK_BYTES = 4096 };

static int cannot_read(const char *path, struct sw_error *err)
{
    return sw_fail_at(err, SW_ENVIRONMENT, (struct sw_place){.file = path}, "cannot be read: %s",
                      strerror(errno));
}

/* Hashes a tensor; the block of numbers differs from tensor to tensor. */
static int hash_tensor(int handle, const char *path, const struct sw_safetensor *t, uint64_t *out,
                       struct sw_error *err)
{
    char block[BLOCK_BYTES];
    uint64_t hash = sw_hash_bytes(SW_HASH_START, t->name, strlen(t->name) + 1);
    const int64_t room = t->bytes > BLOCK_BYTES ? t->bytes - BLOCK_BYTES : 0;
    const int64_t begin = t->begin + (int64_t)(hash % (uint64_t)(room + 1));
    const size_t bytes = (size_t)(t->bytes < BLOCK_BYTES ? t->bytes : BLOCK_BYTES);
    hash = sw_hash_bytes(hash, t->dtype_name, strlen(t->dtype_name) + 1);
    hash = sw_hash_bytes(hash, t->size, t->ndim * sizeof t->size[0]);
    for (size_t done = 0; done < bytes;) {
        const ssize_t got = pread(handle, block + done, bytes - done, (off_t)begin + (off_t)done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            errno = got == 0 ? EIO : errno;
            return cannot_read(path, err);
        }
        done += (size_t)got;
    }
    *out = sw_hash_bytes(hash, block, bytes);
    return 0;
}

/* Hashes one file's tensors. */
static int hash_file(const struct sw_model_folder *folder, int32_t file,
                     const struct sw_folder_tensor *tensor, int32_t count, uint64_t *hash,
                     struct sw_error *err)
{
    char *path = sw_folder_path(folder, folder->file[file].name, err);
    int status = path == NULL ? -1 : 0;
    const int handle = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (path != NULL && handle < 0)
        status = cannot_read(path, err);
    for (int32_t i = 0; i < count && status == 0; i++)
        if (tensor[i].file == file)
            status = hash_tensor(handle, path, &folder->file[file].header.tensor[tensor[i].tensor],
                                 &hash[i], err);
    if (handle >= 0)
        close(handle);
    free(path);
    return status;
}

int sw_base_model_digest(const struct sw_model_folder *folder, uint64_t *out, struct sw_error *err)
{
    struct sw_folder_tensor *tensor = NULL;
    int32_t count = 0;
    int status = sw_folder_tensors(folder, SW_STORED_MODEL, &tensor, &count, err);
    if (status != 0)
        return -1;
    uint64_t *hash = calloc((size_t)count + 1, sizeof *hash);
    if (hash == NULL)
        status = sw_fail(err, SW_ENVIRONMENT, "out of memory for '%s'", folder->path);
    for (int32_t f = 0; f < folder->count && status == 0; f++)
        if (folder->file[f].group == SW_STORED_MODEL)
            status = hash_file(folder, f, tensor, count, hash, err);
    *out = SW_HASH_START;
    for (int32_t i = 0; i < count && status == 0; i++)
        if (!sw_folder_is_buffer(tensor[i].name))
            *out = sw_hash_bytes(*out, &hash[i], sizeof hash[i]);
    free(hash);
    free(tensor);
    return status;
}
