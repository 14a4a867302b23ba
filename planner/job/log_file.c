#include "planner/job/log_file.h"

#include "core/base/file.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void sw_log_expand(const char *pattern, const char *job, const char *task, const char *name,
                   char out[PATH_MAX])
{
    static const char any_task[] = {SW_LOG_ANY_TASK, '\0'};
    const char *index = task[0] != '\0' ? task : any_task;
    size_t used = 0;
    for (const char *p = pattern; *p != '\0' && used < PATH_MAX - 1; p++) {
        const char *text = NULL;
        if (*p == '%')
            text = p[1] == 'j' || p[1] == 'A' ? job
                   : p[1] == 'a'              ? index
                   : p[1] == 'x'              ? name
                   : p[1] == '%'              ? "%"
                                              : NULL;
        if (text == NULL) {
            out[used++] = *p;
            continue;
        }
        for (; *text != '\0' && used < PATH_MAX - 1; text++)
            out[used++] = *text;
        p++;
    }
    out[used] = '\0';
}

static bool is_log(const char *name, const char *base)
{
    const char *any = strchr(base, SW_LOG_ANY_TASK);
    if (any != NULL) {
        if (strncmp(name, base, (size_t)(any - base)) != 0 ||
            !isdigit((unsigned char)name[any - base]))
            return false;
        name += any - base;
        name += strspn(name, "0123456789");
        base = any + 1;
    }
    const char *end = strrchr(base, '.');
    const size_t stem =
        end != NULL && (end != base || any != NULL) ? (size_t)(end - base) : strlen(base);
    const size_t length = strlen(name), tail = strlen(base + stem);
    return strncmp(name, base, stem) == 0 && !isdigit((unsigned char)name[stem]) &&
           length >= stem + tail && strcmp(name + length - tail, base + stem) == 0;
}

bool sw_log_find(const char *path, char out[PATH_MAX])
{
    char *folder = sw_path_folder(path);
    const char *base = sw_path_name(path);
    DIR *open_folder = folder != NULL ? opendir(folder) : NULL;
    struct timespec newest = {0};
    bool found = false;
    const struct dirent *entry;
    while (open_folder != NULL && (entry = readdir(open_folder)) != NULL) {
        const char *name = entry->d_name;
        char candidate[PATH_MAX];
        struct stat status;
        if (!is_log(name, base) ||
            snprintf(candidate, sizeof candidate, "%s/%s", folder, name) >= (int)sizeof candidate ||
            stat(candidate, &status) != 0 || !S_ISREG(status.st_mode))
            continue;
        if (found &&
            (status.st_mtim.tv_sec < newest.tv_sec ||
             (status.st_mtim.tv_sec == newest.tv_sec && status.st_mtim.tv_nsec <= newest.tv_nsec)))
            continue;
        newest = status.st_mtim;
        found = true;
        memcpy(out, candidate, sizeof candidate);
    }
    if (open_folder != NULL)
        closedir(open_folder);
    free(folder);
    return found;
}
