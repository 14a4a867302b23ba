/* Pairs the files of two folders by their path. */
#include "planner/diff/diff.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_DEPTH = 32, MAX_FILES = 100000 };

struct listing {
    char **path; /* relative */
    int32_t count, capacity;
};

static char *join(const char *directory, const char *name)
{
    const size_t bytes = strlen(directory) + strlen(name) + 2;
    char *out = malloc(bytes);
    if (out != NULL)
        snprintf(out, bytes, "%s%s%s", directory, directory[0] != '\0' ? "/" : "", name);
    return out;
}

static bool is_described(const char *name)
{
    static const char *const ends[] = {".yaml", ".yml", ".json"};
    const size_t bytes = strlen(name);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (bytes > strlen(ends[i]) && strcmp(name + bytes - strlen(ends[i]), ends[i]) == 0)
            return true;
    return false;
}

/* Takes over path. */
static int add(struct listing *out, char *path, struct sw_error *err)
{
    if (out->count == out->capacity) {
        const int32_t capacity = out->capacity == 0 ? 64 : 2 * out->capacity;
        char **grown = realloc(out->path, (size_t)capacity * sizeof *grown);
        if (grown == NULL) {
            free(path);
            return sw_fail(err, SW_ENVIRONMENT, "out of memory while listing files");
        }
        out->path = grown;
        out->capacity = capacity;
    }
    if (out->count == MAX_FILES) {
        free(path);
        return sw_fail(err, SW_BAD_INPUT, "more than %d files; compare a smaller folder",
                       MAX_FILES);
    }
    out->path[out->count++] = path;
    return 0;
}

static int list(const char *root, const char *below, int32_t depth, struct listing *out,
                struct sw_error *err);

static int list_entry(const char *root, const char *below, const char *name, int32_t depth,
                      struct listing *out, struct sw_error *err)
{
    int status = -1;
    struct stat info;
    char *path = join(below, name);
    char *whole = path == NULL ? NULL : join(root, path);
    if (whole == NULL) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory while listing files");
        goto out;
    }
    status = 0;
    /* linked folders could form cycles; a vanished file does not count */
    if (lstat(whole, &info) != 0)
        goto out;
    if (S_ISDIR(info.st_mode)) {
        if (depth < MAX_DEPTH)
            status = list(root, path, depth + 1, out, err);
        goto out;
    }
    if (is_described(name) && stat(whole, &info) == 0 && S_ISREG(info.st_mode)) {
        status = add(out, path, err);
        path = NULL;
    }
out:
    free(path);
    free(whole);
    return status;
}

static int list(const char *root, const char *below, int32_t depth, struct listing *out,
                struct sw_error *err)
{
    int status = 0;
    char *whole = join(root, below);
    DIR *directory = whole == NULL ? NULL : opendir(below[0] != '\0' ? whole : root);
    if (directory == NULL) {
        status = sw_fail_at(err, whole == NULL ? SW_ENVIRONMENT : SW_BAD_INPUT,
                            (struct sw_place){.file = whole == NULL ? root : whole},
                            "cannot list the folder: %s", strerror(errno));
        free(whole);
        return status;
    }
    for (struct dirent *entry; status == 0 && (entry = readdir(directory)) != NULL;)
        if (entry->d_name[0] != '.')
            status = list_entry(root, below, entry->d_name, depth, out, err);
    closedir(directory);
    free(whole);
    return status;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void free_listing(struct listing *l)
{
    for (int32_t i = 0; i < l->count; i++)
        free(l->path[i]);
    free(l->path);
}

static int pair(const char *before, const char *after, struct listing *a, struct listing *b,
                struct sw_diff_pair *out, int32_t *count)
{
    for (int32_t i = 0, j = 0; i < a->count || j < b->count;) {
        const int order = i == a->count ? 1 : j == b->count ? -1 : strcmp(a->path[i], b->path[j]);
        struct sw_diff_pair *p = &out[(*count)++];
        p->path = strdup(order <= 0 ? a->path[i] : b->path[j]);
        if (order <= 0)
            p->before = join(before, a->path[i++]);
        if (order >= 0)
            p->after = join(after, b->path[j++]);
        if (p->path == NULL || (order <= 0 && p->before == NULL) ||
            (order >= 0 && p->after == NULL))
            return -1;
    }
    return 0;
}

int sw_diff_pair_files(const char *before, const char *after, struct sw_diff_pair **out,
                       int32_t *count, struct sw_error *err)
{
    int status = -1;
    struct listing a = {0}, b = {0};
    *out = NULL;
    *count = 0;
    if (list(before, "", 0, &a, err) != 0 || list(after, "", 0, &b, err) != 0)
        goto out;
    if (a.count > 0)
        qsort(a.path, (size_t)a.count, sizeof *a.path, by_path);
    if (b.count > 0)
        qsort(b.path, (size_t)b.count, sizeof *b.path, by_path);
    *out = calloc((size_t)a.count + (size_t)b.count + 1, sizeof **out);
    if (*out == NULL || pair(before, after, &a, &b, *out, count) != 0) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory while listing files");
        goto out;
    }
    status = 0;
out:
    if (status != 0) {
        sw_diff_pairs_free(*out, *count);
        *out = NULL;
        *count = 0;
    }
    free_listing(&a);
    free_listing(&b);
    return status;
}

void sw_diff_pairs_free(struct sw_diff_pair *pairs, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        free(pairs[i].path);
        free(pairs[i].before);
        free(pairs[i].after);
    }
    free(pairs);
}
