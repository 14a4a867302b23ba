/* Checkpoints of a folder. */
#include "core/base/file.h"
#include "core/base/lora.h"
#include "core/checkpoint/store_internal.h"

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

/* inside: true in a subfolder, whose own subfolders are not read. */
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

/* Writes "model.safetensors: it is missing", for the checkpoint at `path`. */
static void reason(const char *path, const struct sw_error *why, char *out, size_t bytes)
{
    static const char advice[] = SW_MANIFEST_ADVICE; /* advice that does not apply: another one
                                                        is taken */
    const size_t length = strlen(path), said = strlen(why->message), end = sizeof advice - 1;
    const char *file = why->file;
    const bool ends = said >= end && strcmp(why->message + said - end, advice) == 0;
    if (strncmp(file, path, length) == 0 && file[length] == '/')
        file += length + 1;
    snprintf(out, bytes, "%.90s%s%.*s", file, *file != '\0' ? ": " : "",
             (int)(ends ? said - end : said), why->message);
}

/* The chosen checkpoint, and the rejected ones. */
struct choice {
    const char *folder;
    const struct sw_store_damage *damage;
    struct sw_store_link latest;
    char *path;                           /* NULL: none good yet */
    char wrong[SW_STORE_NOTE_BYTES - 64]; /* "": none rejected */
};

/* Considers the checkpoint that `latest` names. */
static int follow_latest(struct choice *c, struct sw_error *err)
{
    struct sw_error why = {0};
    char detail[300];
    if (sw_store_read_latest(c->folder, &c->latest, err) != 0)
        return -1;
    char *here = sw_path_join(c->folder, is_simple(c->latest.target) ? c->latest.target : "latest");
    if (here == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the path '%.60s'", c->folder);
    if (c->latest.target[0] == '\0') { /* a real folder has no priority */
        free(here);
        return 0;
    }
    if (sw_store_check_read(here, c->damage, NULL, &why) == 0) {
        c->path = here;
        return 0;
    }
    if (why.status == SW_ENVIRONMENT) { /* it may be whole, and newer than the readable ones */
        free(here);
        return sw_fail_as(err, &why);
    }
    reason(here, &why, detail, sizeof detail);
    snprintf(c->wrong, sizeof c->wrong,
             "'%.1000s/latest' names %.40s, which is not a whole checkpoint (%s)", c->folder,
             sw_store_is_target(c->latest.target) ? c->latest.target : "another place", detail);
    free(here);
    return 0;
}

static void pass_over(struct choice *c, const char *path, const struct sw_error *why)
{
    const size_t used = strlen(c->wrong);
    char detail[300];
    if (strcmp(c->latest.target, sw_path_name(path)) == 0)
        return; /* reported already */
    reason(path, why, detail, sizeof detail);
    if (used == 0)
        snprintf(c->wrong, sizeof c->wrong, "'%.1000s/%.40s' is not a whole checkpoint (%s)",
                 c->folder, sw_path_name(path), detail);
    else
        snprintf(c->wrong + used, sizeof c->wrong - used, ", nor is %.40s (%s)", sw_path_name(path),
                 detail);
}

/* Considers a checkpoint of the folder; `least`: smallest acceptable step. */
static int consider(struct choice *c, const char *name, int64_t least, struct sw_error *err)
{
    struct sw_error why = {0};
    int64_t step = 0;
    char *here = sw_path_join(c->folder, name);
    if (here == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the path '%.60s'", c->folder);
    if (sw_store_check_read(here, c->damage, &step, &why) != 0) {
        if (why.status == SW_ENVIRONMENT) {
            free(here);
            return sw_fail_as(err, &why);
        }
        pass_over(c, here, &why);
    } else if (step >= least) {
        free(c->path);
        c->path = here;
        return 0;
    }
    free(here);
    return 0;
}

/* True if `latest` is a real folder, not a link. */
static bool is_copied(const char *folder)
{
    struct stat info;
    char *latest = sw_path_join(folder, "latest");
    const bool is = latest != NULL && lstat(latest, &info) == 0 && S_ISDIR(info.st_mode);
    free(latest);
    return is;
}

/* Finds the good one of the highest step. */
static int find_highest(struct choice *c, struct sw_error *err)
{
    struct sw_store_entry *entries;
    int32_t count;
    int64_t step = -1;
    if (sw_store_steps(c->folder, &entries, &count, err) != 0)
        return -1;
    int status = 0;
    for (int32_t i = count - 1; i >= 0 && status == 0 && c->path == NULL; i--) {
        step = entries[i].step;
        status = consider(c, entries[i].name, 0, err);
    }
    free(entries);
    if (status == 0 && is_copied(c->folder))
        status = consider(c, "latest", c->path != NULL ? step + 1 : 0, err);
    return status;
}

int sw_store_newest(const char *folder, const struct sw_store_damage *damage, char **path,
                    char note[SW_STORE_NOTE_BYTES], struct sw_error *err)
{
    struct choice c = {.folder = folder, .damage = damage};
    char name[SW_STORE_NAME_BYTES];
    *path = NULL;
    if (note != NULL)
        note[0] = '\0';
    if (follow_latest(&c, err) != 0 || (c.path == NULL && find_highest(&c, err) != 0))
        return -1;
    *path = c.path;
    if (note == NULL)
        return 0;
    if (c.path == NULL && *c.wrong == '\0') {
        if (sw_store_find_any(folder, name, err) != 0)
            return -1;
        if (*name != '\0')
            snprintf(c.wrong, sizeof c.wrong, "'%.1000s/%s' was kept aside", folder, name);
    }
    if (*c.wrong != '\0')
        snprintf(note, SW_STORE_NOTE_BYTES, "%s; %s%.40s", c.wrong,
                 c.path != NULL ? "taking " : "there is no other",
                 c.path != NULL ? sw_path_name(c.path) : "");
    return 0;
}

/* 1 if a folder has the file, else 0. -1: no memory. */
static int has(const char *folder, const char *name, struct sw_error *err)
{
    char *path = sw_path_join(folder, name);
    if (path == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for a path in '%.60s'", folder);
    const bool there = sw_store_exists(path);
    free(path);
    return there;
}

const char *const sw_store_model_files[] = {"config.json", SW_ADAPTER_CONFIG, NULL};

/* 1 if a folder is a model's or an adapter's, else 0. -1: no memory. */
static int is_model(const char *folder, struct sw_error *err)
{
    int found = 0;
    for (int32_t i = 0; sw_store_model_files[i] != NULL && found == 0; i++)
        found = has(folder, sw_store_model_files[i], err);
    return found;
}

/* The newest of the checkpoints in a run's folder. */
static int newest_of_run(const char *run, char **path, char note[SW_STORE_NOTE_BYTES],
                         struct sw_error *err)
{
    char *inside = sw_path_join(run, "checkpoints");
    if (inside == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for a path in '%.60s'", run);
    const int status = sw_store_newest(inside, NULL, path, note, err);
    free(inside);
    return status;
}

int sw_store_resolve(const char *given, char **path, char note[SW_STORE_NOTE_BYTES],
                     struct sw_error *err)
{
    *path = NULL;
    note[0] = '\0';
    const int model = is_model(given, err);
    if (model < 0 || (model == 0 && sw_store_newest(given, NULL, path, note, err) != 0))
        return -1;
    if (model == 0 && *path == NULL && note[0] == '\0' &&
        newest_of_run(given, path, note, err) != 0)
        return -1;
    if (*path == NULL)
        *path = strdup(given);
    return *path != NULL ? 0 : sw_fail(err, SW_ENVIRONMENT, "out of memory for a path");
}

int sw_store_find_any(const char *folder, char name[SW_STORE_NAME_BYTES], struct sw_error *err)
{
    struct sw_store_entry *entries;
    int32_t count;
    *name = '\0';
    if (sw_store_steps(folder, &entries, &count, err) != 0)
        return -1;
    if (count > 0)
        snprintf(name, SW_STORE_NAME_BYTES, "%s", entries[count - 1].name);
    free(entries);
    DIR *listing = *name == '\0' ? opendir(folder) : NULL;
    if (listing == NULL)
        return 0;
    for (struct dirent *entry; *name == '\0' && (entry = readdir(listing)) != NULL;)
        if (sw_store_is_aside(entry->d_name))
            snprintf(name, SW_STORE_NAME_BYTES, "%s", entry->d_name);
    closedir(listing);
    return 0;
}

int sw_store_remove_all(const char *folder, struct sw_error *err)
{
    char name[SW_STORE_NAME_BYTES] = "latest";
    for (;;) {
        char *path = sw_path_join(folder, name);
        const int status = path == NULL
                               ? sw_fail(err, SW_ENVIRONMENT, "out of memory for the checkpoints")
                               : sw_store_remove(path, err);
        free(path);
        if (status != 0 || sw_store_find_any(folder, name, err) != 0)
            return -1;
        if (*name == '\0')
            return 0;
    }
}
