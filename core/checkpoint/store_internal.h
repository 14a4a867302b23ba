/* What the store's sources share: names, and steps of a save that leave the folder whole. Each
 * fails with SW_ENVIRONMENT. */
#ifndef SW_CHECKPOINT_STORE_INTERNAL_H
#define SW_CHECKPOINT_STORE_INTERNAL_H

#include "core/checkpoint/store.h"

/* Hidden folders. */
#define SW_STORE_PARTIAL ".partial" /* being written */
#define SW_STORE_OLD ".old"         /* being replaced */
#define SW_STORE_DELETED ".deleted" /* being deleted */

/* FOLDER/.step-000500SUFFIX, or FOLDER/step-000500 without one (""). malloc'ed, NULL: no memory. */
char *sw_store_path(const char *folder, int64_t step, const char *suffix);
/* The step of ".step-000500SUFFIX"; -1: it is none. */
int64_t sw_store_hidden_step(const char *name, const char *suffix);

/* As sw_store_list, steps and names only. */
int sw_store_steps(const char *folder, struct sw_store_entry **out, int32_t *count,
                   struct sw_error *err);

/* Whether a checkpoint is whole as far as its manifest, its sizes and its small files tell, and it
 * is not known to be damaged. step (may be NULL): the manifest's. Errors: as sw_store_check. */
int sw_store_check_read(const char *checkpoint, const struct sw_store_damage *damage, int64_t *step,
                        struct sw_error *err);

struct sw_store_name {
    char text[96];
};
/* Renames FOLDER/NAME to the first of AS SUFFIX, AS SUFFIX-2, ... that is not there. */
int sw_store_put_aside(const char *folder, const char *name, const char *as, const char *suffix,
                       struct sw_store_name *out, struct sw_error *err);
/* The same, as NAME.damaged. */
int sw_store_put_damaged_aside(const char *folder, const char *name, struct sw_store_name *out,
                               struct sw_error *err);
bool sw_store_is_aside(const char *name); /* what these two give */
/* Where `latest` is a folder of its own, makes room for a symlink: an empty one is removed, a whole
 * checkpoint gets its step's name or one aside, anything else one aside. *name: its name from now
 * on; "": there is nothing any more. */
int sw_store_move_latest(const char *folder, struct sw_store_name *name, struct sw_error *err);

/* What `latest` names, as it is written there; "": it is not there, or neither a symlink nor a file
 * with a step's name, which stands for one where there are no symlinks. */
struct sw_store_link {
    char target[256];
};
bool sw_store_is_target(const char *name); /* that a save gives to `latest`: may be printed */
int sw_store_read_latest(const char *folder, struct sw_store_link *out, struct sw_error *err);
/* Makes `latest` name what ends the path, durable. */
int sw_store_point_latest(const char *folder, const char *path, struct sw_error *err);

/* The entries of a folder, durable. A file system that cannot do this is believed to need none. */
int sw_store_sync_folder(const char *path, struct sw_error *err);
/* rename(2) inside of a folder, durable. */
int sw_store_rename(const char *folder, const char *from, const char *to, struct sw_error *err);
/* A checkpoint or what was to become one, its manifest first; nothing there is fine. */
int sw_store_remove(const char *path, struct sw_error *err);
bool sw_store_exists(const char *path); /* whatever it is */

/* Undoes a replacement that was cut off: steps get their names back, and `latest` names no hidden
 * folder. Nothing is deleted. */
int sw_store_settle(const char *folder, struct sw_error *err);

int sw_store_fail(struct sw_error *err, const char *what, const char *path);

#endif
