/* Files that a run's data.path or data.validation names: each item of the list is a path, or a
 * shell pattern (* ? [...]) unless a file has that very name.
 *
 * Owns the names. Reads folders if visible. */
#ifndef SW_DATA_FILES_H
#define SW_DATA_FILES_H

#include "core/config/config.h"

struct sw_data_files {
    char **path;    /* [count]: item by item; matches of a pattern in the order of strcmp */
    int32_t *begin; /* [items + 1]: first path of each item */
    int32_t count, items;
};

/* A path need not exist; index files of tokens match only patterns with their ending. Errors:
 * SW_BAD_INPUT, at the item: a pattern without matches. SW_ENVIRONMENT: memory, an unreadable
 * folder. */
int sw_data_files_find(const struct sw_paths *paths, struct sw_data_files *out,
                       struct sw_error *err);
void sw_data_files_free(struct sw_data_files *files);

/* true if the path is a pattern and no file has that name. */
bool sw_data_is_pattern(const char *path);
/* The folder that contains all that the path or pattern can name; malloc'ed; NULL: no memory. */
char *sw_data_folder(const char *path);

#endif
