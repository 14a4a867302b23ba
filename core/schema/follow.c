/* Follows a reference to the mapping that it names. */
#include "core/schema/internal.h"

#include <sys/stat.h>

struct node *sw_config_follow(struct sw_config *c, const struct field *field, struct node *value)
{
    if (value->kind == NODE_MAPPING)
        return value;
    if (value->kind != NODE_SCALAR || value->text[0] == 0) {
        sw_config_wrong_type(c, field, value, "a path or a mapping");
        return NULL;
    }
    if (!sw_config_path_is_plain(c, value))
        return NULL;
    const char *path = sw_config_resolve(c, value->source, value->text);
    struct stat info;
    if (field->folder != NULL && path != NULL) {
        const char *inside = sw_config_format(c, "%s/%s", path, field->folder);
        path = stat(inside, &info) == 0 ? inside : path;
    }
    return sw_config_load(c, path, value);
}
