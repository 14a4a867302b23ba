/* Shared by the store's sources: names, and steps of a save that leave the folder whole. All fail
 * with SW_ENVIRONMENT. */
#ifndef SW_CHECKPOINT_STORE_INTERNAL_H
#define SW_CHECKPOINT_STORE_INTERNAL_H

#include "core/checkpoint/store.h"

/* Hidden folders. */
#define SW_STORE_PARTIAL ".partial" /* being written */
#define SW_STORE_OLD ".old"         /* being replaced */
#define SW_STORE_DELETED ".deleted" /* being deleted */

/* FOLDER/.step-000500SUFFIX, or FOLDER/step-000500 without one (""). malloc'ed, NULL: no memory. */
char *sw_store_path(const char *folder, int64_t step, const char *suffix);
/* Step of ".step-000500SUFFIX"; -1: another name. */
int64_t sw_store_hidden_step(const char *name, const char *suffix);

/* Like sw_store_list, steps and names only. */
int sw_store_steps(const char *folder, struct sw_store_entry **out, int32_t *count,
                   struct sw_error *err);

/* Checks that a checkpoint is whole by its manifest, its sizes and its small files, and is not
 * known to be damaged. step (may be NULL): the manifest's. Errors: as sw_store_check. */
int sw_store_check_read(const char *checkpoint, const struct sw_store_damage *damage, int64_t *step,
                        struct sw_error *err);

struct sw_store_name {
    char text[96];
};
/* Renames FOLDER/NAME to the first free name of AS SUFFIX, AS SUFFIX-2, ... */
int sw_store_put_aside(const char *folder, const char *name, const char *as, const char *suffix,
                       struct sw_store_name *out, struct sw_error *err);
/* The same, to NAME.damaged. */
int sw_store_put_damaged_aside(const char *folder, const char *name, struct sw_store_name *out,
                               struct sw_error *err);
bool sw_store_is_aside(const char *name); /* names that these two give */
/* If `latest` is a real folder, makes room for a symlink: an empty one is removed, a whole
 * checkpoint gets its step's name or one aside, anything else one aside. *name: its new name; "":
 * removed or missing. */
int sw_store_move_latest(const char *folder, struct sw_store_name *name, struct sw_error *err);

/* Target of `latest` as stored; "": missing, or neither a symlink nor a file with a step's name,
 * which replaces one on file systems without symlinks. */
struct sw_store_link {
    char target[256];
};
bool sw_store_is_target(const char *name); /* valid target of `latest`: printable */
int sw_store_read_latest(const char *folder, struct sw_store_link *out, struct sw_error *err);
/* Makes `latest` name the last part of the path, durably. */
int sw_store_point_latest(const char *folder, const char *path, struct sw_error *err);

/* Syncs the entries of a folder. A file system that cannot do this is assumed not to need it. */
int sw_store_sync_folder(const char *path, struct sw_error *err);
/* rename(2) inside a folder, durably. */
int sw_store_rename(const char *folder, const char *from, const char *to, struct sw_error *err);
/* Removes a complete or incomplete checkpoint, its manifest first; a missing one is no error. */
int sw_store_remove(const char *path, struct sw_error *err);
bool sw_store_exists(const char *path); /* true for any kind of file */

/* Undoes an interrupted replacement: steps get their names back, and `latest` names no hidden
 * folder. Deletes nothing. */
int sw_store_settle(const char *folder, struct sw_error *err);

int sw_store_fail(struct sw_error *err, const char *what, const char *path);

#endif
