/* Writes a checkpoint into its folder and commits it. */
#include "core/base/file.h"
#include "core/checkpoint/store_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void forget(struct sw_store_save *save)
{
    free(save->folder);
    free(save->aside);
    free(save->final);
    *save = (struct sw_store_save){0};
}

/* A new folder is durable once its parents are synced; one that cannot be read is left to the
 * system. */
static void sync_parents(const char *folder)
{
    char *at = strdup(folder);
    while (at != NULL && strcmp(at, ".") != 0 && strcmp(at, "/") != 0) {
        char *above = sw_path_folder(at);
        free(at);
        at = above;
        if (at != NULL)
            (void)sw_store_sync_folder(at, NULL);
    }
    free(at);
}

/* Removes what a killed save of the same step left. */
static int clear_aside(const struct sw_store_save *save, struct sw_error *err)
{
    if (!sw_store_exists(save->aside))
        return 0;
    return sw_store_settle(save->folder, err) != 0 ? -1 : sw_store_remove(save->aside, err);
}

int sw_store_begin(const char *folder, int64_t step, struct sw_store_save *out,
                   struct sw_error *err)
{
    const bool fresh = !sw_store_exists(folder);
    *out = (struct sw_store_save){.folder = strdup(folder),
                                  .aside = sw_store_path(folder, step, SW_STORE_PARTIAL),
                                  .final = sw_store_path(folder, step, ""),
                                  .step = step};
    char *optimizer = out->aside != NULL ? sw_path_join(out->aside, "optimizer") : NULL;
    int status = -1;
    if (out->folder == NULL || out->final == NULL || optimizer == NULL)
        sw_fail(err, SW_ENVIRONMENT, "out of memory for the path '%.60s'", folder);
    else if (sw_file_make_folder(folder, err) == 0 && clear_aside(out, err) == 0) {
        if (fresh)
            sync_parents(folder);
        if (mkdir(out->aside, 0777) != 0)
            sw_store_fail(err, "create the folder", out->aside);
        else if (mkdir(optimizer, 0777) != 0)
            sw_store_fail(err, "create the folder", optimizer);
        else
            status = 0;
    }
    free(optimizer);
    if (status != 0)
        sw_store_abandon(out);
    return status;
}

/* ---- Files ---- */

int sw_store_open_file(const char *aside, const char *name, struct sw_error *err)
{
    char *path = sw_path_join(aside, name);
    if (path == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the path '%.60s'", aside);
    const int handle = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (handle < 0)
        sw_store_fail(err, "write", path);
    free(path);
    return handle;
}

int sw_store_write_at(int fd, const char *name, const void *data, size_t bytes, int64_t at,
                      struct sw_error *err)
{
    for (const char *from = data; bytes > 0;) {
        const ssize_t done = pwrite(fd, from, bytes, (off_t)at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0) {
            errno = done == 0 ? EIO : errno;
            return sw_store_fail(err, "write", name);
        }
        from += done;
        bytes -= (size_t)done;
        at += done;
    }
    return 0;
}

void sw_store_start_writing(int fd, int64_t at, int64_t bytes)
{
    (void)sync_file_range(fd, at > 0 ? at : 0, at > 0 ? bytes : at + bytes, SYNC_FILE_RANGE_WRITE);
}

int sw_store_close_file(int fd, const char *name, struct sw_error *err)
{
    int status = 0;
    if (fsync(fd) != 0)
        status = sw_store_fail(err, "sync", name);
    if (close(fd) != 0 && errno != EINTR)
        status = sw_store_fail(err, "write", name);
    return status;
}

static int write_whole(const struct sw_store_save *save, const char *name, const void *data,
                       size_t bytes, struct sw_error *err)
{
    const int handle = sw_store_open_file(save->aside, name, err);
    if (handle < 0)
        return -1;
    int status = sw_store_write_at(handle, name, data, bytes, 0, err);
    if (sw_store_close_file(handle, name, err) != 0)
        status = -1;
    return status;
}

/* Writes a file in a subfolder, which is created and synced too. */
static int write_within(const struct sw_store_save *save, const char *name, const void *data,
                        size_t bytes, struct sw_error *err)
{
    char *path = sw_path_join(save->aside, name);
    char *folder = path != NULL ? sw_path_folder(path) : NULL;
    int status = folder == NULL ? sw_fail(err, SW_ENVIRONMENT, "out of memory for the path '%.60s'",
                                          save->aside)
                                : sw_file_make_folder(folder, err);
    if (status == 0)
        status = write_whole(save, name, data, bytes, err);
    if (status == 0)
        status = sw_store_sync_folder(folder, err);
    free(folder);
    free(path);
    return status;
}

int sw_store_write_file(struct sw_store_save *save, const char *name, const void *data,
                        size_t bytes, struct sw_manifest *manifest, struct sw_error *err)
{
    struct sw_manifest_file *file;
    if (sw_manifest_add(manifest, name, (int64_t)bytes, 0, &file, err) != 0)
        return -1;
    file->slice[0] = sw_checksum_of(data, bytes);
    return strchr(name, '/') == NULL ? write_whole(save, name, data, bytes, err)
                                     : write_within(save, name, data, bytes, err);
}

/* ---- Commit ---- */

/* Syncs everything, the manifest last. */
static int complete(const struct sw_store_save *save, const struct sw_manifest *manifest,
                    struct sw_error *err)
{
    char *text = NULL, *optimizer = sw_path_join(save->aside, "optimizer");
    size_t bytes = 0;
    int status = -1;
    if (optimizer == NULL)
        sw_fail(err, SW_ENVIRONMENT, "out of memory for the path '%.60s'", save->aside);
    else if (sw_manifest_check_sizes(manifest, save->aside, err) == 0 &&
             sw_manifest_text(manifest, &text, &bytes, err) == 0 &&
             sw_store_sync_folder(optimizer, err) == 0 &&
             sw_store_sync_folder(save->aside, err) == 0 &&
             write_whole(save, SW_MANIFEST_NAME, text, bytes, err) == 0)
        status = sw_store_sync_folder(save->aside, err);
    free(optimizer);
    free(text);
    return status;
}

/* Replaces a checkpoint of the same step; at every moment `latest` names a whole one by its
 * name. */
static int replace(const struct sw_store_save *save, const char *old, struct sw_error *err)
{
    if (sw_store_settle(save->folder, err) != 0 || sw_store_remove(old, err) != 0 ||
        sw_store_point_latest(save->folder, save->aside, err) != 0 ||
        sw_store_rename(save->folder, save->final, old, err) != 0 ||
        sw_store_point_latest(save->folder, old, err) != 0 ||
        sw_store_rename(save->folder, save->aside, save->final, err) != 0)
        return -1;
    return 0;
}

/* Makes room at the checkpoint's final path. *gone: new name of the checkpoint it replaces; NULL:
 * none. Keeps anything but a whole checkpoint aside. */
static int move_into_place(const struct sw_store_save *save, char **gone, struct sw_error *err)
{
    struct sw_store_name name;
    *gone = NULL;
    if (!sw_store_exists(save->final))
        return sw_store_rename(save->folder, save->aside, save->final, err);
    struct sw_error why = {0};
    const bool good = sw_store_check(save->final, NULL, &why) == 0;
    if (!good && why.status == SW_ENVIRONMENT) /* it may be whole */
        return sw_fail_as(err, &why);
    if (!good)
        return sw_store_put_damaged_aside(save->folder, sw_path_name(save->final), &name, err) != 0
                   ? -1
                   : sw_store_rename(save->folder, save->aside, save->final, err);
    *gone = sw_store_path(save->folder, save->step, SW_STORE_OLD);
    if (*gone == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the path '%.60s'", save->folder);
    return replace(save, *gone, err);
}

static int remove_checkpoint(const char *folder, int64_t step, struct sw_error *err)
{
    int status = -1;
    char *path = sw_store_path(folder, step, ""),
         *deleted = sw_store_path(folder, step, SW_STORE_DELETED);
    if (path == NULL || deleted == NULL)
        sw_fail(err, SW_ENVIRONMENT, "out of memory for the path '%.60s'", folder);
    else if (sw_store_remove(deleted, err) == 0 && sw_store_rename(folder, path, deleted, err) == 0)
        status = sw_store_remove(deleted, err);
    free(path);
    free(deleted);
    return status;
}

static bool is_good(const char *folder, int64_t step)
{
    char *path = sw_store_path(folder, step, "");
    const bool good = path != NULL && sw_store_check(path, NULL, NULL) == 0;
    free(path);
    return good;
}

/* True if entry i is the first good save at or after a multiple of keep_every. Such a one is never
 * deleted, so deleting others does not change this. */
static bool is_milestone(const char *folder, const struct sw_store_entry *entries, int32_t i,
                         int64_t keep_every)
{
    const int64_t multiple =
        keep_every > 0 ? entries[i].step / keep_every * keep_every : 0; /* 0: no milestone */
    for (int32_t k = i - 1; k >= 0 && entries[k].step >= multiple; k--)
        if (is_good(folder, entries[k].step))
            return false;
    return multiple > 0;
}

/* Deletes good checkpoints except the `keep` newest up to `step`, which counts as one, and `named`
 * (NULL: none). Touches nothing else. */
static int prune(const char *folder, int64_t step, int64_t keep, int64_t keep_every,
                 const char *named, int32_t *deleted, struct sw_error *err)
{
    struct sw_store_entry *entries;
    int32_t count;
    int64_t kept = 1;
    *deleted = 0;
    if (sw_store_steps(folder, &entries, &count, err) != 0)
        return -1;
    int status = 0;
    for (int32_t i = count - 1; i >= 0 && status == 0; i--) {
        const int64_t other = entries[i].step;
        const bool may_go = kept >= keep;
        if (other >= step || (may_go && is_milestone(folder, entries, i, keep_every)) ||
            !is_good(folder, other))
            continue;
        kept++;
        if (!may_go || (named != NULL && strcmp(named, entries[i].name) == 0))
            continue;
        status = remove_checkpoint(folder, other, err);
        *deleted += status == 0;
    }
    free(entries);
    return status;
}

int sw_store_make_room(const char *folder, int64_t step, int64_t keep, int64_t keep_every,
                       int32_t *deleted, struct sw_error *err)
{
    struct sw_store_link latest;
    *deleted = 0;
    if (sw_store_read_latest(folder, &latest, err) != 0)
        return -1;
    return prune(folder, step, keep > 2 ? keep : 2, keep_every, latest.target, deleted, err);
}

int sw_store_commit(struct sw_store_save *save, const struct sw_manifest *manifest, int64_t keep,
                    int64_t keep_every, char note[SW_STORE_NOTE_BYTES], struct sw_error *err)
{
    char *gone = NULL;
    struct sw_error later = {0};
    int32_t deleted;
    int status = -1;
    if (note != NULL)
        note[0] = '\0';
    if (complete(save, manifest, err) == 0 && move_into_place(save, &gone, err) == 0)
        status = sw_store_point_latest(save->folder, save->final, err);
    if (status == 0) {
        if ((gone != NULL && sw_store_remove(gone, &later) != 0) ||
            prune(save->folder, save->step, keep, keep_every, NULL, &deleted, &later) != 0)
            if (note != NULL)
                snprintf(note, SW_STORE_NOTE_BYTES,
                         "an old checkpoint cannot be deleted yet: %.1000s", later.message);
        forget(save);
    }
    free(gone);
    return status;
}

void sw_store_abandon(struct sw_store_save *save)
{
    struct sw_store_link latest;
    if (save == NULL)
        return;
    char *old = save->folder == NULL || save->final == NULL || save->aside == NULL
                    ? NULL
                    : sw_store_path(save->folder, save->step, SW_STORE_OLD);
    if (old != NULL && sw_store_settle(save->folder, NULL) == 0 &&
        sw_store_read_latest(save->folder, &latest, NULL) == 0) {
        /* sw_store_clean deletes later what cannot be deleted now */
        if (strcmp(latest.target, sw_path_name(save->aside)) != 0)
            (void)sw_store_remove(save->aside, NULL);
        if (strcmp(latest.target, sw_path_name(old)) != 0 && is_good(save->folder, save->step))
            (void)sw_store_remove(old, NULL);
    }
    free(old);
    forget(save);
}
