#include "core/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

void sw_file_hold_streams(void)
{
    /* in this order the lowest free number is always the missing one */
    for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; stream++)
        if (fcntl(stream, F_GETFD) < 0 && errno == EBADF)
            (void)open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

/* Appends the rest of a descriptor's bytes. */
static int read_rest(int handle, size_t most_bytes, char **text, size_t *bytes)
{
    size_t capacity = 0;
    for (;;) {
        if (*bytes == capacity) {
            capacity = capacity == 0 ? 65536 : capacity * 2;
            char *grown = realloc(*text, capacity + 1);
            if (grown == NULL)
                return -1;
            *text = grown;
        }
        const ssize_t got = read(handle, *text + *bytes, capacity - *bytes);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got == 0 ? 0 : -1;
        *bytes += (size_t)got;
        if (*bytes > most_bytes) {
            errno = EFBIG;
            return -1;
        }
    }
}

int sw_file_read(const char *path, bool regular, size_t most_bytes, char **text, size_t *bytes,
                 struct stat *status)
{
    struct stat own;
    char *buffer = NULL;
    size_t used = 0;
    int result = -1;
    const int handle = open(path, O_RDONLY | O_CLOEXEC | (regular ? O_NONBLOCK : 0));
    if (handle < 0)
        return -1;
    status = status != NULL ? status : &own;
    if (fstat(handle, status) != 0)
        goto out;
    if (S_ISDIR(status->st_mode) || (regular && !S_ISREG(status->st_mode))) {
        errno = S_ISDIR(status->st_mode) ? EISDIR : ESPIPE;
        goto out;
    }
    if (read_rest(handle, most_bytes, &buffer, &used) != 0)
        goto out;
    buffer[used] = '\0';
    *text = buffer;
    *bytes = used;
    buffer = NULL;
    result = 0;
out:;
    const int reason = errno;
    free(buffer);
    close(handle);
    errno = reason;
    return result;
}

void sw_file_first_line(const char *path, char *out, size_t bytes)
{
    *out = '\0';
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return;
    if (fgets(out, (int)bytes, file) == NULL)
        *out = '\0';
    fclose(file);
    out[strcspn(out, "\n")] = '\0';
}

static int fail_to_write(const char *path, struct sw_error *err)
{
    const int reason = errno;
    sw_fail(err, SW_ENVIRONMENT, "cannot write '%s': %s", path, strerror(reason));
    errno = reason;
    return -1;
}

static void forget(struct sw_new_file *file)
{
    free(file->path);
    free(file->aside);
    *file = (struct sw_new_file){0};
}

int sw_file_begin(struct sw_new_file *file, const char *path, mode_t mode, struct sw_error *err)
{
    struct stat there;
    *file = (struct sw_new_file){0};
    if (stat(path, &there) == 0 && !S_ISREG(there.st_mode)) {
        /* the final rename would replace a device or a pipe by a file */
        if (!S_ISDIR(there.st_mode))
            sw_fail(err, SW_ENVIRONMENT, "cannot write '%s': it is not a regular file", path);
        errno = S_ISDIR(there.st_mode) ? EISDIR : EEXIST;
        return fail_to_write(path, err);
    }
    const char *name = sw_path_name(path);
    const size_t room = strlen(path) + 32;
    file->path = strdup(path);
    file->aside = malloc(room);
    if (file->path == NULL || file->aside == NULL) {
        errno = ENOMEM;
        goto fail;
    }
    snprintf(file->aside, room, "%.*s.%s.%ld", (int)(name - path), path, name, (long)getpid());
    (void)unlink(file->aside); /* left by a process that died with this number */
    const int handle = open(file->aside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (handle < 0)
        goto fail;
    file->out = fdopen(handle, "wb");
    if (file->out != NULL)
        return 0;
    (void)close(handle);
    (void)unlink(file->aside);
    errno = ENOMEM;
fail:
    (void)fail_to_write(path, err);
    forget(file);
    return -1;
}

int sw_file_commit(struct sw_new_file *file, struct sw_error *err)
{
    int reason = !ferror(file->out) ? 0 : errno != 0 ? errno : EIO;
    if (fflush(file->out) != 0 || (reason == 0 && fsync(fileno(file->out)) != 0))
        reason = errno;
    if (fclose(file->out) != 0 && reason == 0)
        reason = errno;
    file->out = NULL;
    if (reason == 0 && rename(file->aside, file->path) != 0)
        reason = errno;
    if (reason != 0) {
        (void)unlink(file->aside);
        errno = reason;
        (void)fail_to_write(file->path, err);
    }
    forget(file);
    errno = reason;
    return reason == 0 ? 0 : -1;
}

void sw_file_abandon(struct sw_new_file *file)
{
    if (file->out != NULL)
        (void)fclose(file->out);
    if (file->aside != NULL)
        (void)unlink(file->aside);
    forget(file);
}

int sw_file_write(const char *path, const void *data, size_t bytes, mode_t mode,
                  struct sw_error *err)
{
    struct sw_new_file file;
    if (sw_file_begin(&file, path, mode, err) != 0)
        return -1;
    (void)fwrite(data, 1, bytes, file.out);
    return sw_file_commit(&file, err);
}

int sw_file_make_folder(const char *path, struct sw_error *err)
{
    struct stat info;
    int status = -1, reason = ENOTDIR;
    char *part = strdup(path);
    if (part == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the path '%.60s'", path);
    for (char *slash = part + (*part == '/');; slash++) {
        if (*slash != '/' && *slash != '\0')
            continue;
        const char kept = *slash;
        *slash = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST) {
            reason = errno;
            sw_fail(err, SW_ENVIRONMENT, "cannot create the folder '%s': %s", part,
                    strerror(reason));
            goto out;
        }
        *slash = kept;
        if (kept == '\0')
            break;
    }
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode))
        sw_fail(err, SW_ENVIRONMENT, "'%s' is not a folder", path);
    else
        status = 0;
out:
    free(part);
    if (status != 0)
        errno = reason;
    return status;
}

bool sw_path_same(const char *one, const char *other)
{
    struct stat a, b;
    return stat(one, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

enum sw_status sw_path_status(int reason, bool writes)
{
    static const int names[] = {ENOENT, ENOTDIR, EISDIR, ESPIPE, ELOOP, ENAMETOOLONG};
    static const int denials[] = {EACCES, EPERM, EROFS, EEXIST};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (reason == names[i])
            return SW_BAD_INPUT;
    for (size_t i = 0; writes && i < sizeof denials / sizeof denials[0]; i++)
        if (reason == denials[i])
            return SW_BAD_INPUT;
    return SW_ENVIRONMENT;
}

int sw_path_blame(struct sw_error *err, int reason, const char *help)
{
    if (err == NULL || sw_path_status(reason, true) != SW_BAD_INPUT)
        return -1;
    const size_t used = strlen(err->message);
    snprintf(err->message + used, sizeof err->message - used, "; %s", help);
    err->status = SW_BAD_INPUT;
    return -1;
}

int sw_file_sync_folder(const char *path)
{
    const int handle = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (handle < 0)
        return -1;
    const int status = fsync(handle), reason = errno;
    (void)close(handle);
    errno = reason;
    return status == 0 || reason == EINVAL || reason == ENOTSUP ? 0 : -1;
}

char *sw_path_join(const char *folder, const char *path)
{
    const size_t bytes = strlen(folder) + strlen(path) + 2;
    char *out = malloc(bytes);
    if (out != NULL)
        snprintf(out, bytes, "%s/%s", folder, path);
    return out;
}

char *sw_path_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? strdup(".") : strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

const char *sw_path_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

bool sw_file_disk_is_full(const char *path)
{
    enum { FULL_BYTES = 1 << 16 };
    struct statvfs disk;
    return statvfs(path, &disk) == 0 && disk.f_blocks > 0 &&
           disk.f_bavail * disk.f_frsize < FULL_BYTES;
}
