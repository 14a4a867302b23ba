/* Meaning of a path in a file: relative to the file that names it; after --set, to the working
 * directory. */
#include "core/schema/internal.h"

#include "core/base/shell.h"

#include <string.h>
#include <sys/stat.h>

const char *sw_config_directory_of(struct sw_config *c, const char *file)
{
    const char *slash = strrchr(file, '/');
    if (slash == NULL)
        return ".";
    return sw_config_copy(c, file, slash == file ? 1 : (size_t)(slash - file));
}

/* a/./b//../c -> a/c, by text alone. */
static const char *shorten(struct sw_config *c, const char *path)
{
    size_t bytes = strlen(path);
    char *out = sw_config_alloc(c, bytes + 2);
    if (out == NULL)
        return "";
    bool rooted = path[0] == '/';
    size_t used = 0;
    if (rooted)
        out[used++] = '/';
    for (const char *p = path; *p != 0;) {
        size_t length = strcspn(p, "/");
        size_t start = used;
        while (start > 0 && out[start - 1] != '/')
            start--;
        bool after_up = used - start == 2 && memcmp(out + start, "..", 2) == 0;
        if (length == 0 || (length == 1 && p[0] == '.')) {
            /* nothing to add */
        } else if (length == 2 && memcmp(p, "..", 2) == 0 && used > (size_t)rooted && !after_up) {
            used = start > (size_t)rooted ? start - 1 : start;
        } else if (!(length == 2 && memcmp(p, "..", 2) == 0 && rooted)) {
            if (used > (size_t)rooted)
                out[used++] = '/';
            memcpy(out + used, p, length);
            used += length;
        }
        p += length + (p[length] == '/');
    }
    out[used] = 0;
    return used > 0 ? out : ".";
}

/* Bytes of a path up to its last '..', 0: none. */
static size_t last_up(const char *path)
{
    size_t found = 0;
    for (const char *p = path; *p != 0;) {
        const size_t length = strcspn(p, "/");
        if (length == 2 && memcmp(p, "..", 2) == 0)
            found = (size_t)(p - path) + length;
        p += length + (p[length] == '/');
    }
    return found;
}

bool sw_config_path_is_plain(struct sw_config *c, const struct node *value)
{
    const char *path = value->text;
    int length = path[0] == '~' ? (int)strcspn(path, "/") : 0;
    for (const char *p = path; length == 0 && *p != '\0'; p++) {
        length = (int)sw_shell_variable_length(p);
        path = length > 0 ? p : path;
    }
    if (length == 0 || c->generated)
        return true;
    sw_config_error_at(
        c, value,
        sw_config_format(c, "%s is not expanded in a path",
                         sw_config_quote(c, sw_config_copy(c, path, (size_t)length))),
        path[0] == '~'
            ? "write the folder's whole name, as in /home/you/runs; './~' is a folder of that name"
            : "write what it stands for; a path is relative to the file that names it");
    return false;
}

const char *sw_config_join(struct sw_config *c, const char *directory, const char *path)
{
    const char *joined = path[0] == '/' || strcmp(directory, ".") == 0
                             ? path
                             : sw_config_format(c, "%s/%s", directory, path);
    const char *shorter = shorten(c, joined);
    /* If a symbolic link makes the shorter spelling another file, the longer one is right. For a
     * plan the folder of the last '..' decides: its checkpoints may not exist yet, and must not be
     * made elsewhere. */
    const char *long_way = joined, *short_way = shorter;
    if (c->generated && last_up(joined) > 0) {
        long_way = sw_config_copy(c, joined, last_up(joined));
        short_way = shorten(c, long_way);
    }
    struct stat a, b;
    if (strcmp(long_way, short_way) != 0 && stat(long_way, &a) == 0 &&
        (stat(short_way, &b) != 0 || a.st_dev != b.st_dev || a.st_ino != b.st_ino))
        return joined;
    return shorter;
}

const char *sw_config_resolve(struct sw_config *c, const struct source *source, const char *path)
{
    if (source->is_override)
        return sw_config_join(c, ".", path);
    return sw_config_join(c, sw_config_directory_of(c, source->file), path);
}
