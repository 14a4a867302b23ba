#include "core/plan/paths.h"

#include "core/base/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *sw_path_absolute(const char *path)
{
    char *here = path[0] == '/' ? NULL : getcwd(NULL, 0);
    if (path[0] != '/' && here == NULL)
        return NULL;
    char *whole = here != NULL ? sw_path_join(here, path) : strdup(path);
    free(here);
    if (whole == NULL)
        return NULL;
    size_t used = 0; /* writing never overtakes reading */
    for (const char *part = whole; *part != '\0';) {
        part += strspn(part, "/");
        const size_t length = strcspn(part, "/");
        if (length == 2 && part[0] == '.' && part[1] == '.') {
            while (used > 0 && whole[--used] != '/')
                continue;
        } else if (length > 0 && !(length == 1 && part[0] == '.')) {
            whole[used++] = '/';
            memmove(whole + used, part, length);
            used += length;
        }
        part += length;
    }
    if (used == 0)
        whole[used++] = '/';
    whole[used] = '\0';
    return whole;
}

/* The first part of a path and the slash after it. */
static size_t first_part(const char *path)
{
    const size_t length = strcspn(path, "/");
    return length + (path[length] == '/');
}

/* True if two paths start with the same part. */
static bool same_part(const char *a, const char *b)
{
    const size_t length = strcspn(a, "/");
    return length > 0 && strcspn(b, "/") == length && memcmp(a, b, length) == 0;
}

/* Path between two absolute paths without '.' or '..'. */
static char *relative(const char *base, const char *path)
{
    size_t up = 0, used = 0;
    const char *from = base + 1, *to = path + 1;
    while (same_part(from, to)) {
        from += first_part(from);
        to += first_part(to);
    }
    for (; *from != '\0'; from += first_part(from))
        up++;
    char *out = malloc(3 * up + strlen(to) + 2);
    if (out == NULL)
        return NULL;
    for (size_t i = 0; i < up; i++, used += 3)
        memcpy(out + used, "../", 3);
    strcpy(out + used, to);
    used += strlen(to);
    if (used > 0 && out[used - 1] == '/')
        out[used - 1] = '\0';
    return used > 0 ? out : strcpy(out, ".");
}

char *sw_path_relative(const char *base, const char *path)
{
    char *from = sw_path_absolute(base), *to = sw_path_absolute(path);
    char *out = from != NULL && to != NULL ? relative(from, to) : NULL;
    free(from);
    free(to);
    return out;
}

/* The path with every link followed, and missing folders assumed. */
static char *resolve_links(const char *path)
{
    size_t kept = strlen(path);
    char *head = strdup(path), *real = NULL, *whole = NULL, *out = NULL;
    if (head == NULL)
        return NULL;
    while ((real = realpath(head, NULL)) == NULL && kept > 0) {
        while (kept > 0 && head[kept - 1] == '/')
            kept--;
        while (kept > 0 && head[kept - 1] != '/')
            kept--;
        head[kept] = '\0';
    }
    whole = real == NULL ? strdup(path) : sw_path_join(real, path + kept);
    if (whole != NULL)
        out = sw_path_absolute(whole);
    free(head);
    free(real);
    free(whole);
    return out;
}

char *sw_path_seen_from(const char *base, const char *path)
{
    char *out = sw_path_relative(base, path);
    char *way = out == NULL ? NULL : sw_path_join(base, out);
    char *there = way == NULL ? NULL : resolve_links(way), *wanted = resolve_links(path);
    char *from = resolve_links(base);
    if (there == NULL || wanted == NULL || from == NULL) {
        free(out);
        out = NULL;
    } else if (strcmp(there, wanted) != 0) {
        free(out);
        out = relative(from, wanted);
    }
    free(way);
    free(there);
    free(wanted);
    free(from);
    return out;
}

static int fail_to_name(const char *path, struct sw_plan_run *out, struct sw_error *err)
{
    sw_fail(err, SW_ENVIRONMENT, "cannot name '%s' in the plan: %s", path, strerror(errno));
    sw_plan_run_free(out);
    return -1;
}

/* Paths relative to the plan; unchanged ones are copied, too. */
static struct sw_path *see_paths(const struct sw_paths *paths, const char *plan_directory)
{
    struct sw_path *item = calloc((size_t)paths->count + 1, sizeof *item); /* ends with NULL */
    for (int32_t i = 0; item != NULL && i < paths->count; i++) {
        const struct sw_path *from = &paths->item[i];
        item[i] = *from;
        item[i].text =
            from->is_absolute ? strdup(from->text) : sw_path_seen_from(plan_directory, from->text);
        if (item[i].text == NULL) {
            while (i-- > 0)
                free((char *)item[i].text);
            free(item);
            return NULL;
        }
    }
    return item;
}

int sw_plan_run_relocate(const struct sw_run_config *run, const char *plan_directory,
                         struct sw_plan_run *out, struct sw_error *err)
{
    *out = (struct sw_plan_run){.run = *run};
    const struct {
        const char **path;
        bool stays;
    } table[] = {{&out->run.init_from, run->init_from_is_absolute},
                 {&out->run.init_adapter, run->init_adapter_is_absolute},
                 {&out->run.stage.from, run->stage.from_is_absolute},
                 {&out->run.directory, run->directory_is_absolute},
                 {&out->run.checkpoint_directory, run->checkpoint_directory_is_absolute}};
    _Static_assert(sizeof table / sizeof table[0] == sizeof out->path / sizeof out->path[0],
                   "every path has its place");
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (*table[i].path == NULL || table[i].stays)
            continue;
        out->path[i] = sw_path_seen_from(plan_directory, *table[i].path);
        if (out->path[i] == NULL)
            return fail_to_name(*table[i].path, out, err);
        *table[i].path = out->path[i];
    }
    struct sw_paths *const data[2] = {&out->run.data_paths, &out->run.data_validation};
    for (int i = 0; i < 2; i++) {
        out->data[i] = see_paths(data[i], plan_directory);
        if (out->data[i] == NULL)
            return fail_to_name(data[i]->count > 0 ? data[i]->item[0].text : "data", out, err);
        data[i]->item = out->data[i];
    }
    out->run.data_path = out->run.data_paths.count > 0 ? out->data[0][0].text : NULL;
    return 0;
}

void sw_plan_run_free(struct sw_plan_run *relocated)
{
    for (size_t i = 0; i < sizeof relocated->path / sizeof relocated->path[0]; i++) {
        free(relocated->path[i]);
        relocated->path[i] = NULL;
    }
    for (int i = 0; i < 2; i++) {
        for (struct sw_path *p = relocated->data[i]; p != NULL && p->text != NULL; p++)
            free((char *)p->text);
        free(relocated->data[i]);
        relocated->data[i] = NULL;
    }
}
