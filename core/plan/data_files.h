/* The files that a run's data.path or data.validation names: each item of the list is a path, or a
 * pattern as the shell has them (* ? [...]) where no file has that very name.
 *
 * Owns the names. Looks at folders where they can be seen. */
#ifndef SW_DATA_FILES_H
#define SW_DATA_FILES_H

#include "core/config/config.h"

struct sw_data_files {
    char **path;    /* [count]: item by item; those of a pattern in the order of strcmp */
    int32_t *begin; /* [items + 1]: where those of an item begin */
    int32_t count, items;
};

/* A path need not exist; indexes of files of tokens match no pattern that does not end as they do.
 * Errors: SW_BAD_INPUT, where the item stands: a pattern that nothing matches. SW_ENVIRONMENT:
 * memory, a folder that cannot be read. */
int sw_data_files_find(const struct sw_paths *paths, struct sw_data_files *out,
                       struct sw_error *err);
void sw_data_files_free(struct sw_data_files *files);

/* true if the path is a pattern and no file has that name. */
bool sw_data_is_pattern(const char *path);
/* The folder that has everything that the path or pattern can name; malloc'ed; NULL: no memory. */
char *sw_data_folder(const char *path);

#endif
