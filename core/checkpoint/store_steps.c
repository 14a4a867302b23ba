/* The steps of saving, replacing and deleting. */
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

static const char latest_aside[] = ".latest.partial";

int sw_store_fail(struct sw_error *err, const char *what, const char *path)
{
    const int reason = errno;
    const bool first = err != NULL && err->status == SW_OK;
    (void)sw_fail(err, SW_ENVIRONMENT, "cannot %s '%s': %s", what, path, strerror(reason));
    if (first)
        err->reason = reason;
    return -1;
}

bool sw_store_lacks_room(const struct sw_error *err)
{
    return err != NULL && err->status != SW_OK &&
           (err->reason == ENOSPC || err->reason == EDQUOT || err->reason == EFBIG);
}

static int out_of_memory(struct sw_error *err, const char *folder)
{
    return sw_fail(err, SW_ENVIRONMENT, "out of memory for the path '%.60s'", folder);
}

/* ---- Names ---- */

const char *sw_store_step_name(int64_t step, char name[SW_STEP_NAME_BYTES])
{
    snprintf(name, SW_STEP_NAME_BYTES, "step-%06" PRId64, step);
    return name;
}

int64_t sw_store_step_of(const char *name)
{
    static const char before[] = "step-";
    char again[SW_STEP_NAME_BYTES];
    if (strncmp(name, before, sizeof before - 1) != 0)
        return -1;
    errno = 0;
    const long long step = strtoll(name + sizeof before - 1, NULL, 10);
    if (errno != 0 || step < 0 || strcmp(sw_store_step_name(step, again), name) != 0)
        return -1;
    return step;
}

char *sw_store_path(const char *folder, int64_t step, const char *suffix)
{
    char name[SW_STEP_NAME_BYTES], hidden[SW_STEP_NAME_BYTES + 16];
    snprintf(hidden, sizeof hidden, "%s%s%s", *suffix != '\0' ? "." : "",
             sw_store_step_name(step, name), suffix);
    return sw_path_join(folder, hidden);
}

int64_t sw_store_hidden_step(const char *name, const char *suffix)
{
    char step[SW_STEP_NAME_BYTES];
    const size_t bytes = strlen(name), end = strlen(suffix);
    if (*name != '.' || bytes <= end + 1 || bytes - end - 1 >= sizeof step ||
        strcmp(name + bytes - end, suffix) != 0)
        return -1;
    snprintf(step, sizeof step, "%.*s", (int)(bytes - end - 1), name + 1);
    return sw_store_step_of(step);
}

bool sw_store_exists(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0;
}

/* ---- Folders ---- */

int sw_store_sync_folder(const char *path, struct sw_error *err)
{
    return sw_file_sync_folder(path) == 0 ? 0 : sw_store_fail(err, "sync the folder", path);
}

int sw_store_rename(const char *folder, const char *from, const char *to, struct sw_error *err)
{
    if (rename(from, to) != 0)
        return sw_fail(err, SW_ENVIRONMENT, "cannot rename '%s' to '%s': %s", from,
                       sw_path_name(to), strerror(errno));
    return sw_store_sync_folder(folder, err);
}

static int remove_tree(const char *path, int32_t depth, struct sw_error *err);

static int remove_entries(const char *path, int32_t depth, struct sw_error *err)
{
    int status = 0;
    DIR *listing = opendir(path);
    if (listing == NULL)
        return sw_store_fail(err, "delete", path);
    for (struct dirent *entry; status == 0 && (entry = readdir(listing)) != NULL;) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        char *inside = sw_path_join(path, entry->d_name);
        status = inside == NULL ? out_of_memory(err, path) : remove_tree(inside, depth + 1, err);
        free(inside);
    }
    closedir(listing);
    return status;
}

/* Removes any file or folder; symlinks are not followed. Entries that a file system skips during
 * deletions are met in another round. */
static int remove_tree(const char *path, int32_t depth, struct sw_error *err)
{
    enum { MOST_DEPTH = 16, MOST_ROUNDS = 8 };
    if (unlink(path) == 0 || errno == ENOENT)
        return 0;
    if ((errno != EISDIR && errno != EPERM) || depth > MOST_DEPTH)
        return sw_store_fail(err, "delete", path);
    for (int round = 0;; round++) {
        if (remove_entries(path, depth, err) != 0)
            return -1;
        if (rmdir(path) == 0)
            return 0;
        if (errno != ENOTEMPTY || round == MOST_ROUNDS)
            return sw_store_fail(err, "delete", path);
    }
}

/* Removes the manifest, so that the rest is no checkpoint. */
static int remove_manifest(const char *path, struct sw_error *err)
{
    struct stat info;
    char *manifest = sw_path_join(path, SW_MANIFEST_NAME);
    if (manifest == NULL)
        return out_of_memory(err, path);
    int status = 0;
    if (lstat(path, &info) == 0 && S_ISDIR(info.st_mode)) { /* false for the target of a symlink */
        if (unlink(manifest) == 0)
            status = sw_store_sync_folder(path, err);
        else if (errno != ENOENT && errno != EISDIR && errno != EPERM) /* a folder is not a link */
            status = sw_store_fail(err, "delete", manifest);
    }
    free(manifest);
    return status;
}

int sw_store_remove(const char *path, struct sw_error *err)
{
    return remove_manifest(path, err) != 0 ? -1 : remove_tree(path, 0, err);
}

/* ---- latest ---- */

bool sw_store_is_target(const char *name)
{
    return sw_store_step_of(name) >= 0 || sw_store_hidden_step(name, SW_STORE_OLD) >= 0 ||
           sw_store_hidden_step(name, SW_STORE_PARTIAL) >= 0;
}

/* Reads a file that stands for the symlink. */
static void read_name(const char *path, struct sw_store_link *out)
{
    char *text = NULL;
    size_t bytes;
    if (sw_file_read(path, true, sizeof out->target - 1, &text, &bytes, NULL) != 0)
        return;
    text[strcspn(text, "\r\n")] = '\0';
    if (sw_store_is_target(text))
        snprintf(out->target, sizeof out->target, "%.250s", text);
    free(text);
}

int sw_store_read_latest(const char *folder, struct sw_store_link *out, struct sw_error *err)
{
    *out = (struct sw_store_link){""};
    char *path = sw_path_join(folder, "latest");
    if (path == NULL)
        return out_of_memory(err, folder);
    const ssize_t bytes = readlink(path, out->target, sizeof out->target - 1);
    out->target[bytes > 0 ? bytes : 0] = '\0';
    if (bytes < 0 && errno == EINVAL)
        read_name(path, out);
    free(path);
    return 0;
}

/* Writes a file with the name, where symlinks do not work. */
static int write_link(const char *name, const char *aside)
{
    char text[SW_STEP_NAME_BYTES + 8];
    if (symlink(name, aside) == 0)
        return 0;
    if (errno != EPERM && errno != ENOSYS && errno != EOPNOTSUPP)
        return -1;
    const int bytes = snprintf(text, sizeof text, "%s\n", name);
    return sw_file_write(aside, text, (size_t)bytes, 0666, NULL);
}

/* Renames, and once more if a folder was in the way. */
static int rename_latest(const char *folder, const char *aside, const char *latest,
                         struct sw_error *err)
{
    struct sw_store_name name;
    if (rename(aside, latest) == 0)
        return 0;
    if (errno != EISDIR && errno != ENOTEMPTY && errno != EEXIST)
        return sw_store_fail(err, "write", latest);
    if (sw_store_move_latest(folder, &name, err) != 0)
        return -1;
    return rename(aside, latest) == 0 ? 0 : sw_store_fail(err, "write", latest);
}

int sw_store_point_latest(const char *folder, const char *path, struct sw_error *err)
{
    int status = -1;
    char *aside = sw_path_join(folder, latest_aside), *latest = sw_path_join(folder, "latest");
    if (aside == NULL || latest == NULL)
        out_of_memory(err, folder);
    else if (unlink(aside) != 0 && errno != ENOENT)
        sw_store_fail(err, "delete", aside);
    else if (write_link(sw_path_name(path), aside) != 0)
        sw_store_fail(err, "write", latest);
    else if (rename_latest(folder, aside, latest, err) == 0)
        status = sw_store_sync_folder(folder, err);
    free(aside);
    free(latest);
    return status;
}

/* ---- After a kill ---- */

/* Restores the old checkpoint of a step that was being replaced. `latest` may name the old one
 * (then the new one is whole, too) or the new one. */
static int bring_back(const char *folder, int64_t step, const struct sw_store_link *latest,
                      struct sw_error *err)
{
    int status = 0;
    char *old = sw_store_path(folder, step, SW_STORE_OLD),
         *partial = sw_store_path(folder, step, SW_STORE_PARTIAL),
         *final = sw_store_path(folder, step, "");
    if (old == NULL || partial == NULL || final == NULL)
        status = out_of_memory(err, folder);
    else if (!sw_store_exists(final)) {
        if (strcmp(latest->target, sw_path_name(old)) == 0 &&
            sw_store_check(partial, NULL, NULL) == 0)
            status = sw_store_point_latest(folder, partial, err);
        if (status == 0)
            status = sw_store_rename(folder, old, final, err);
    }
    free(old);
    free(partial);
    free(final);
    return status;
}

static int unhide_latest(const char *folder, struct sw_error *err)
{
    struct sw_store_link latest;
    if (sw_store_read_latest(folder, &latest, err) != 0)
        return -1;
    int64_t step = sw_store_hidden_step(latest.target, SW_STORE_OLD);
    if (step < 0)
        step = sw_store_hidden_step(latest.target, SW_STORE_PARTIAL);
    if (step < 0)
        return 0;
    char *final = sw_store_path(folder, step, "");
    int status = 0;
    if (final == NULL)
        status = out_of_memory(err, folder);
    else if (sw_store_check(final, NULL, NULL) == 0)
        status = sw_store_point_latest(folder, final, err);
    free(final);
    return status;
}

int sw_store_settle(const char *folder, struct sw_error *err)
{
    struct sw_store_link latest;
    int status = 0;
    DIR *listing = opendir(folder);
    if (listing == NULL)
        return errno == ENOENT ? 0 : sw_store_fail(err, "read the folder", folder);
    for (struct dirent *entry; status == 0 && (entry = readdir(listing)) != NULL;) {
        const int64_t step = sw_store_hidden_step(entry->d_name, SW_STORE_OLD);
        if (step < 0)
            continue;
        status = sw_store_read_latest(folder, &latest, err);
        if (status == 0)
            status = bring_back(folder, step, &latest, err);
    }
    closedir(listing);
    return status != 0 ? status : unhide_latest(folder, err);
}

int sw_store_clean(const char *folder, struct sw_error *err)
{
    static const char *const suffixes[] = {SW_STORE_PARTIAL, SW_STORE_OLD, SW_STORE_DELETED};
    struct sw_store_link latest;
    int status = 0;
    if (sw_store_settle(folder, err) != 0 || sw_store_read_latest(folder, &latest, err) != 0)
        return -1;
    DIR *listing = opendir(folder);
    if (listing == NULL)
        return errno == ENOENT ? 0 : sw_store_fail(err, "read the folder", folder);
    for (struct dirent *entry; status == 0 && (entry = readdir(listing)) != NULL;) {
        bool ours = strcmp(entry->d_name, latest_aside) == 0;
        for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++)
            ours = ours || sw_store_hidden_step(entry->d_name, suffixes[i]) >= 0;
        if (!ours || strcmp(entry->d_name, latest.target) == 0)
            continue;
        char *path = sw_path_join(folder, entry->d_name);
        status = path == NULL ? out_of_memory(err, folder) : sw_store_remove(path, err);
        free(path);
    }
    closedir(listing);
    return status;
}
