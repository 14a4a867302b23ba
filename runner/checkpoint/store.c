/* Which checkpoints a folder has. */
#include "core/base/file.h"
#include "runner/checkpoint/store_internal.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

int sw_store_check(const char *checkpoint, struct sw_manifest *out, struct sw_error *err)
{
    struct sw_manifest manifest;
    if (sw_manifest_read(checkpoint, &manifest, NULL, NULL, err) != 0)
        return -1;
    const int status = sw_manifest_check_sizes(&manifest, checkpoint, err);
    if (status == 0 && out != NULL)
        *out = manifest;
    else
        sw_manifest_free(&manifest);
    return status;
}

/* inside: in a subfolder, below which nothing is looked for. */
static int64_t folder_bytes(const char *path, bool inside)
{
    int64_t bytes = 0;
    struct stat info;
    DIR *listing = opendir(path);
    if (listing == NULL)
        return 0;
    for (struct dirent *entry; (entry = readdir(listing)) != NULL;) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        char *name = sw_path_join(path, entry->d_name);
        if (name != NULL && lstat(name, &info) == 0) {
            if (S_ISREG(info.st_mode))
                bytes += info.st_size;
            else if (S_ISDIR(info.st_mode) && !inside)
                bytes += folder_bytes(name, true);
        }
        free(name);
    }
    closedir(listing);
    return bytes;
}

int64_t sw_store_bytes(const char *checkpoint)
{
    return folder_bytes(checkpoint, false);
}

static int by_step(const void *left, const void *right)
{
    const struct sw_store_entry *a = left, *b = right;
    return (a->step > b->step) - (a->step < b->step);
}

int sw_store_steps(const char *folder, struct sw_store_entry **out, int32_t *count,
                   struct sw_error *err)
{
    int status = 0;
    size_t used = 0;
    struct sw_store_entry *entries = NULL;
    *out = NULL;
    *count = 0;
    DIR *listing = opendir(folder);
    if (listing == NULL)
        return errno == ENOENT ? 0 : sw_store_fail(err, "read the folder", folder);
    for (struct dirent *entry; status == 0 && (entry = readdir(listing)) != NULL;) {
        const int64_t step = sw_store_step_of(entry->d_name);
        if (step < 0)
            continue;
        if ((used & (used - 1)) == 0) { /* grows at powers of two */
            struct sw_store_entry *grown =
                realloc(entries, sizeof *grown * (used == 0 ? 1 : 2 * used));
            if (grown == NULL) {
                status = sw_fail(err, SW_ENVIRONMENT, "out of memory for the list of checkpoints");
                continue;
            }
            entries = grown;
        }
        entries[used] = (struct sw_store_entry){.step = step};
        sw_store_step_name(step, entries[used++].name);
    }
    closedir(listing);
    if (status != 0) {
        free(entries);
        return status;
    }
    if (used > 0)
        qsort(entries, used, sizeof *entries, by_step);
    *out = entries;
    *count = (int32_t)used;
    return 0;
}

int sw_store_list(const char *folder, struct sw_store_entry **out, int32_t *count,
                  struct sw_error *err)
{
    struct sw_store_link latest;
    if (sw_store_read_latest(folder, &latest, err) != 0 ||
        sw_store_steps(folder, out, count, err) != 0)
        return -1;
    for (int32_t i = 0; i < *count; i++) {
        struct sw_store_entry *entry = &(*out)[i];
        char *path = sw_path_join(folder, entry->name);
        if (path == NULL) {
            free(*out);
            *out = NULL;
            return sw_fail(err, SW_ENVIRONMENT, "out of memory for the list of checkpoints");
        }
        entry->is_latest = strcmp(entry->name, latest.target) == 0;
        entry->good = sw_store_check(path, NULL, NULL) == 0;
        entry->bytes = sw_store_bytes(path);
        free(path);
    }
    return 0;
}

/* ---- The newest ---- */

static bool is_simple(const char *target)
{
    return *target != '\0' && *target != '/' && strchr(target, '/') == NULL &&
           strcmp(target, "..") != 0;
}

/* A name that a save gives: one that may be printed. */
static bool is_ours(const char *target)
{
    return sw_store_step_of(target) >= 0 || sw_store_hidden_step(target, SW_STORE_OLD) >= 0 ||
           sw_store_hidden_step(target, SW_STORE_PARTIAL) >= 0;
}

/* "model.safetensors: it is missing", of the checkpoint at `path`. */
static void reason(const char *path, const struct sw_error *why, char *out, size_t bytes)
{
    const size_t length = strlen(path);
    const char *file = why->file;
    if (strncmp(file, path, length) == 0 && file[length] == '/')
        file += length + 1;
    snprintf(out, bytes, "%.90s%s%.150s", file, *file != '\0' ? ": " : "", why->message);
}

/* What `latest` leads to: a symlink, or a copy of a checkpoint where a copy of the folder has no
 * symlinks. NULL in *path: nothing good, and why in `wrong` ("": there is no latest). */
static int follow_latest(const char *folder, char **path, char *wrong, size_t bytes,
                         struct sw_error *err)
{
    struct sw_store_link latest;
    struct sw_error why = {0};
    char detail[256];
    *wrong = '\0';
    if (sw_store_read_latest(folder, &latest, err) != 0)
        return -1;
    char *here = sw_path_join(folder, is_simple(latest.target) ? latest.target : "latest");
    if (here == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the path '%.60s'", folder);
    if (latest.target[0] == '\0' && !sw_store_exists(here)) {
        free(here);
        return 0;
    }
    if (sw_store_check(here, NULL, &why) == 0) {
        *path = here;
        return 0;
    }
    reason(here, &why, detail, sizeof detail);
    snprintf(wrong, bytes, "'%.1000s/latest' names %.40s, which is no whole checkpoint (%s)",
             folder, is_ours(latest.target) ? latest.target : "another place", detail);
    free(here);
    return 0;
}

/* The good one of the highest step; and, where there is none but something that looks like one,
 * what is wrong with the highest (unless `wrong` says something already). */
static int find_highest(const char *folder, char **path, char *wrong, size_t bytes,
                        struct sw_error *err)
{
    struct sw_store_entry *entries;
    int32_t count;
    char detail[256];
    if (sw_store_steps(folder, &entries, &count, err) != 0)
        return -1;
    int status = 0;
    for (int32_t i = count - 1; i >= 0 && status == 0 && *path == NULL; i--) {
        struct sw_error why = {0};
        char *here = sw_path_join(folder, entries[i].name);
        if (here == NULL) {
            status = sw_fail(err, SW_ENVIRONMENT, "out of memory for the path '%.60s'", folder);
        } else if (sw_store_check(here, NULL, &why) == 0) {
            *path = here;
            here = NULL;
        } else if (*wrong == '\0') {
            reason(here, &why, detail, sizeof detail);
            snprintf(wrong, bytes, "'%.1000s/%s' is no whole checkpoint (%s)", folder,
                     entries[i].name, detail);
        }
        free(here);
    }
    free(entries);
    return status;
}

int sw_store_newest(const char *folder, char **path, char note[SW_STORE_NOTE_BYTES],
                    struct sw_error *err)
{
    char wrong[SW_STORE_NOTE_BYTES - 64];
    *path = NULL;
    if (note != NULL)
        note[0] = '\0';
    if (follow_latest(folder, path, wrong, sizeof wrong, err) != 0)
        return -1;
    if (*path == NULL && find_highest(folder, path, wrong, sizeof wrong, err) != 0)
        return -1;
    if (*wrong == '\0' || note == NULL)
        return 0;
    if (*path != NULL)
        snprintf(note, SW_STORE_NOTE_BYTES, "%s; going on from %.40s", wrong, sw_path_name(*path));
    else
        snprintf(note, SW_STORE_NOTE_BYTES, "%s; there is no other", wrong);
    return 0;
}

/* Whether a folder has the file. -1: no memory. */
static int has(const char *folder, const char *name, struct sw_error *err)
{
    char *path = sw_path_join(folder, name);
    if (path == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for a path in '%.60s'", folder);
    const bool there = sw_store_exists(path);
    free(path);
    return there;
}

/* The newest of the checkpoints in a run's folder. */
static int newest_of_run(const char *run, char **path, char note[SW_STORE_NOTE_BYTES],
                         struct sw_error *err)
{
    char *inside = sw_path_join(run, "checkpoints");
    if (inside == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for a path in '%.60s'", run);
    const int status = sw_store_newest(inside, path, note, err);
    free(inside);
    return status;
}

int sw_store_resolve(const char *given, char **path, char note[SW_STORE_NOTE_BYTES],
                     struct sw_error *err)
{
    *path = NULL;
    note[0] = '\0';
    const int model = has(given, "config.json", err);
    if (model < 0 || (model == 0 && sw_store_newest(given, path, note, err) != 0))
        return -1;
    if (model == 0 && *path == NULL && note[0] == '\0' &&
        newest_of_run(given, path, note, err) != 0)
        return -1;
    if (*path == NULL)
        *path = strdup(given);
    return *path != NULL ? 0 : sw_fail(err, SW_ENVIRONMENT, "out of memory for a path");
}

int sw_store_remove_all(const char *folder, struct sw_error *err)
{
    struct sw_store_entry *entry = NULL;
    int32_t count = 0;
    char *latest = sw_path_join(folder, "latest");
    int status = latest == NULL ? sw_fail(err, SW_ENVIRONMENT, "out of memory for the checkpoints")
                                : sw_store_list(folder, &entry, &count, err);
    if (status == 0 && unlink(latest) != 0 && errno != ENOENT)
        status = sw_store_fail(err, "delete", latest);
    for (int32_t i = 0; i < count && status == 0; i++) {
        char *path = sw_path_join(folder, entry[i].name);
        status = path == NULL ? sw_fail(err, SW_ENVIRONMENT, "out of memory for the checkpoints")
                              : sw_store_remove(path, err);
        free(path);
    }
    free(entry);
    free(latest);
    return status;
}
