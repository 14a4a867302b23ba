/* Keeps incomplete checkpoints under names that are neither counted nor read, and handles a
 * `latest` that is a folder. */
#include "core/base/file.h"
#include "core/checkpoint/store_internal.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DAMAGED ".damaged"
#define COPY ".copy"

/* ---- Damage found while reading ---- */

int sw_store_add_damage(struct sw_store_damage **damage, const char *checkpoint,
                        const struct sw_error *why, struct sw_error *err)
{
    struct sw_store_damage *one = calloc(1, sizeof *one);
    if (one == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for a damaged checkpoint's name");
    snprintf(one->name, sizeof one->name, "%s", sw_path_name(checkpoint));
    one->why = *why;
    one->before = *damage;
    *damage = one;
    return 0;
}

void sw_store_free_damage(struct sw_store_damage *damage)
{
    while (damage != NULL) {
        struct sw_store_damage *before = damage->before;
        free(damage);
        damage = before;
    }
}

int sw_store_check_read(const char *checkpoint, const struct sw_store_damage *damage, int64_t *step,
                        struct sw_error *err)
{
    struct sw_manifest manifest;
    for (; damage != NULL; damage = damage->before)
        if (strcmp(damage->name, sw_path_name(checkpoint)) == 0)
            return sw_fail_as(err, &damage->why);
    if (sw_manifest_read(checkpoint, &manifest, NULL, NULL, err) != 0)
        return -1;
    if (step != NULL)
        *step = manifest.step;
    const int status = sw_manifest_check_small(&manifest, checkpoint, true, err);
    sw_manifest_free(&manifest);
    return status;
}

/* ---- Names ---- */

bool sw_store_is_aside(const char *name)
{
    static const char *const suffixes[] = {DAMAGED, COPY};
    char step[SW_STEP_NAME_BYTES];
    const size_t bytes = strcspn(name, ".");
    if (bytes == 0 || bytes >= sizeof step)
        return false;
    snprintf(step, sizeof step, "%.*s", (int)bytes, name);
    if (sw_store_step_of(step) < 0 && strcmp(step, "latest") != 0)
        return false;
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        const size_t length = strlen(suffixes[i]);
        if (strncmp(name + bytes, suffixes[i], length) == 0 &&
            (name[bytes + length] == '\0' || name[bytes + length] == '-'))
            return true;
    }
    return false;
}

int sw_store_put_aside(const char *folder, const char *name, const char *as, const char *suffix,
                       struct sw_store_name *out, struct sw_error *err)
{
    enum { MOST = 10000 };
    char *from = sw_path_join(folder, name), *to = NULL;
    int status = -1;
    for (int i = 1; from != NULL && i < MOST; i++) {
        snprintf(out->text, sizeof out->text, i == 1 ? "%.60s%s" : "%.60s%s-%d", as, suffix, i);
        free(to);
        to = sw_path_join(folder, out->text);
        if (to == NULL || !sw_store_exists(to))
            break;
    }
    if (from == NULL || to == NULL)
        sw_fail(err, SW_ENVIRONMENT, "out of memory for the path '%.60s'", folder);
    else
        status = sw_store_rename(folder, from, to, err);
    free(from);
    free(to);
    return status;
}

int sw_store_put_damaged_aside(const char *folder, const char *name, struct sw_store_name *out,
                               struct sw_error *err)
{
    return sw_store_put_aside(folder, name, name, DAMAGED, out, err);
}

/* ---- After a start ---- */

static void add_name(char *list, size_t bytes, const char *name)
{
    const size_t used = strlen(list);
    snprintf(list + used, bytes - used, "%s%s", used > 0 ? ", " : "", name);
}

/* True if known to be no whole checkpoint; one that is unreadable now may be whole. */
static bool is_damaged(const char *folder, const char *name, const struct sw_store_damage *damage)
{
    struct sw_error why = {0};
    char *path = sw_path_join(folder, name);
    const bool damaged = path != NULL && sw_store_exists(path) &&
                         sw_store_check_read(path, damage, NULL, &why) != 0 &&
                         why.status == SW_BAD_INPUT;
    free(path);
    return damaged;
}

int sw_store_keep_damaged(const char *folder, const char *chosen,
                          const struct sw_store_damage *damage, char note[SW_STORE_NOTE_BYTES],
                          struct sw_error *err)
{
    const int64_t step = sw_store_step_of(sw_path_name(chosen));
    struct sw_store_entry *entries = NULL;
    struct sw_store_link latest;
    struct sw_store_name name;
    int32_t count = 0;
    char list[SW_STORE_NOTE_BYTES / 4] = "";
    note[0] = '\0';
    if (step < 0)
        return 0;
    if (sw_store_read_latest(folder, &latest, err) != 0 ||
        sw_store_steps(folder, &entries, &count, err) != 0)
        return -1;
    const bool moved = strcmp(latest.target, sw_path_name(chosen)) != 0;
    int status = 0;
    for (int32_t i = 0; i < count && status == 0; i++) {
        const char *other = entries[i].name;
        if ((entries[i].step <= step && strcmp(other, latest.target) != 0) ||
            strcmp(other, sw_path_name(chosen)) == 0 || !is_damaged(folder, other, damage))
            continue;
        if (moved && *list == '\0') /* before the checkpoint it names is moved */
            status = sw_store_point_latest(folder, chosen, err);
        if (status == 0)
            status = sw_store_put_damaged_aside(folder, other, &name, err);
        if (status == 0)
            add_name(list, sizeof list, name.text);
    }
    free(entries);
    if (*list != '\0')
        snprintf(note, SW_STORE_NOTE_BYTES,
                 "note: what is not a whole checkpoint in '%.1000s' is kept as %s; it is not read "
                 "again, and you may delete it",
                 folder, list);
    return status;
}

/* ---- latest as a folder ---- */

/* Gives a copy of a checkpoint its step's name or, if taken, one aside. */
static int name_copy(const char *folder, int64_t step, struct sw_store_name *name,
                     struct sw_error *err)
{
    struct sw_store_name gone;
    struct sw_error why = {0};
    char *latest = sw_path_join(folder, "latest"), *final = sw_store_path(folder, step, "");
    int status = -1;
    if (latest == NULL || final == NULL) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory for the path '%.60s'", folder);
        goto out;
    }
    const bool there = sw_store_exists(final);
    const bool whole = there && (sw_store_check_read(final, NULL, NULL, &why) == 0 ||
                                 why.status == SW_ENVIRONMENT);
    if (whole) {
        status = sw_store_put_aside(folder, "latest", sw_path_name(final), COPY, name, err);
    } else if (!there || sw_store_put_damaged_aside(folder, sw_path_name(final), &gone, err) == 0) {
        snprintf(name->text, sizeof name->text, "%.90s", sw_path_name(final));
        status = sw_store_rename(folder, latest, final, err);
    }
out:
    free(latest);
    free(final);
    return status;
}

int sw_store_move_latest(const char *folder, struct sw_store_name *name, struct sw_error *err)
{
    struct stat info;
    struct sw_error why = {0};
    int64_t step;
    char *latest = sw_path_join(folder, "latest");
    int status = 0;
    name->text[0] = '\0';
    if (latest == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the path '%.60s'", folder);
    if (lstat(latest, &info) != 0 || !S_ISDIR(info.st_mode) || rmdir(latest) == 0)
        goto out;
    if (sw_store_check_read(latest, NULL, &step, &why) == 0)
        status = name_copy(folder, step, name, err);
    else if (why.status == SW_ENVIRONMENT) /* it may be whole */
        status = sw_fail_as(err, &why);
    else
        status = sw_store_put_damaged_aside(folder, "latest", name, err);
out:
    free(latest);
    return status;
}

int sw_store_mend(const char *folder, char note[SW_STORE_NOTE_BYTES], struct sw_error *err)
{
    struct stat info;
    struct sw_store_name name;
    char *latest = sw_path_join(folder, "latest"), *newest = NULL;
    const bool folder_there = latest != NULL && lstat(latest, &info) == 0 && S_ISDIR(info.st_mode);
    int status = latest != NULL
                     ? 0
                     : sw_fail(err, SW_ENVIRONMENT, "out of memory for the path '%.60s'", folder);
    note[0] = '\0';
    if (folder_there)
        status = sw_store_move_latest(folder, &name, err);
    if (folder_there && status == 0)
        status = sw_store_newest(folder, NULL, &newest, NULL, err);
    if (newest != NULL && status == 0)
        status = sw_store_point_latest(folder, newest, err);
    if (folder_there && status == 0)
        snprintf(note, SW_STORE_NOTE_BYTES,
                 "note: '%.1000s/latest' was a folder, not a symlink, as some ways to copy leave "
                 "it; it is %s now%s%s",
                 folder, *name.text != '\0' ? name.text : "a symlink",
                 newest != NULL ? ", and latest names " : "",
                 newest != NULL ? sw_path_name(newest) : "");
    free(newest);
    free(latest);
    return status;
}
