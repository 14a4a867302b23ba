/* The folder of a run's checkpoints, and the order in which a checkpoint comes to be there so that
 * a kill at any moment leaves the last good one and `latest` pointing at a good one.
 *
 * sw_store_begin (one process): folder/.step-000500.partial, fresh, and its subfolder optimizer.
 *
 * Every writer: sw_store_open_file, sw_store_write_at for its ranges, sw_store_close_file, which
 * syncs. The caller makes sure that all writers are done and hands over the checksums.
 *
 * sw_store_commit (the process that began): sync of the folders, manifest.json last and synced,
 * rename to step-000500, sync of the parent, `latest` -> step-000500 by a symlink aside and rename,
 * sync; then old ones are pruned.
 *
 * sw_store_abandon: what was begun is deleted; the last good checkpoint is not touched.
 *
 * A step that is there already is replaced. When it is a checkpoint, `latest` names the new one
 * aside while the old one is renamed to .step-000500.old, then the old one while the new one gets
 * its name; sw_store_newest follows it, and sw_store_clean undoes what was cut off in the middle.
 * Deleting is the mirror image: renamed to .step-000500.deleted, then the manifest, then the rest.
 * So nothing but hidden folders is ever half there, and `latest` never names what is being deleted.
 *
 * All file operations go through libc by name, so that tests can interpose them. Works on NFS: no
 * flock, no O_TMPFILE, no RENAME_EXCHANGE. One process at a time writes to a folder (lock.h). */
#ifndef SW_CHECKPOINT_STORE_H
#define SW_CHECKPOINT_STORE_H

#include "core/checkpoint/manifest.h"

enum { SW_STEP_NAME_BYTES = 40, SW_STORE_NAME_BYTES = 256, SW_STORE_NOTE_BYTES = 2048 };
/* "step-000500"; more digits when there are more. */
const char *sw_store_step_name(int64_t step, char name[SW_STEP_NAME_BYTES]);
/* The step of such a name; -1: it is none. */
int64_t sw_store_step_of(const char *name);

/* Whether a folder is a checkpoint as far as can be said without reading it: a manifest, and files
 * of the right sizes. *out (may be NULL) is the manifest, the caller's when it returns 0. Errors:
 * SW_BAD_INPUT at the file, SW_ENVIRONMENT. */
int sw_store_check(const char *checkpoint, struct sw_manifest *out, struct sw_error *err);

/* Of the files that lie in it; what cannot be read counts nothing. */
int64_t sw_store_bytes(const char *checkpoint);

struct sw_store_entry {
    int64_t step;
    int64_t bytes; /* sw_store_bytes */
    bool good;     /* sw_store_check */
    bool is_latest;
    char name[SW_STEP_NAME_BYTES];
};
/* Checkpoints in a folder, by step; a folder that is not there has none. *out is malloc'ed (NULL
 * when there are none). */
int sw_store_list(const char *folder, struct sw_store_entry **out, int32_t *count,
                  struct sw_error *err);

/* Checkpoints of a folder that reading showed to be damaged, the one found last first; malloc'ed.
 */
struct sw_store_damage {
    char name[SW_STORE_NAME_BYTES]; /* any that `latest` may have */
    struct sw_error why;            /* at the file */
    struct sw_store_damage *before;
};
int sw_store_add_damage(struct sw_store_damage **damage, const char *checkpoint,
                        const struct sw_error *why, struct sw_error *err);
void sw_store_free_damage(struct sw_store_damage *damage);

/* Path of the newest checkpoint that can be resumed from: `latest` if it is good, else the good one
 * of the highest step; malloc'ed, NULL in *path: none. Good: by its manifest, its files' sizes and
 * what is small of them, and not of `damage` (NULL: nothing). A `latest` that is a folder of its
 * own counts where no other has its step or a higher one. note (may be NULL): a line to say when
 * something was passed over ("'.../latest' names step-000500, which is no whole checkpoint (...);
 * taking step-000400"), or when there is none but something that was meant to be one ("...;
 * there is no other"); else "". Called behind sw_store_clean by who has the lock. */
int sw_store_newest(const char *folder, const struct sw_store_damage *damage, char **path,
                    char note[SW_STORE_NOTE_BYTES], struct sw_error *err);

/* Once `chosen`, a checkpoint of the folder, was read and is whole: `latest` names it, and what
 * `latest` named, or is of a higher step, and is damaged is kept as "step-000500.damaged", which is
 * no checkpoint's name. Needs the lock. note: a line that says so, else "". */
int sw_store_keep_damaged(const char *folder, const char *chosen,
                          const struct sw_store_damage *damage, char note[SW_STORE_NOTE_BYTES],
                          struct sw_error *err);
/* Makes `latest` a symlink where a way to copy that followed it has left a folder: the folder gets
 * its step's name or is kept aside (a step that is there, "step-000500.copy"; no whole checkpoint,
 * "latest.damaged"), and `latest` names the good one of the highest step. Needs the lock. note: a
 * line that says so, else "". */
int sw_store_mend(const char *folder, char note[SW_STORE_NOTE_BYTES], struct sw_error *err);

/* A folder with one of these files is a model's or an adapter's; NULL behind the last. */
extern const char *const sw_store_model_files[];

/* The model's folder that a path means: itself; the newest of a folder of checkpoints, or of the
 * `checkpoints` in a run's folder; malloc'ed. A path that is none of these is returned as it is:
 * reading it says what it lacks. note: as of sw_store_newest. */
int sw_store_resolve(const char *given, char **path, char note[SW_STORE_NOTE_BYTES],
                     struct sw_error *err);

/* Undoes a replacement that was cut off, and removes what killed jobs left: hidden folders of saves
 * and of deletions. Needs the lock. A folder that is not there is clean. */
int sw_store_clean(const char *folder, struct sw_error *err);

/* The name of something in a folder that is, or was, a checkpoint of the run: the highest step's,
 * else one that was kept aside; "": there is none. */
int sw_store_find_any(const char *folder, char name[SW_STORE_NAME_BYTES], struct sw_error *err);

/* Deletes every checkpoint of a folder, `latest` first, and what was kept aside. Needs the lock. */
int sw_store_remove_all(const char *folder, struct sw_error *err);

struct sw_store_save {
    char *folder, *aside, *final; /* final: of the checkpoint */
    int64_t step;
};
/* Makes the folder, too. Errors (here and below SW_ENVIRONMENT): something cannot be written. */
int sw_store_begin(const char *folder, int64_t step, struct sw_store_save *out,
                   struct sw_error *err);
/* A small whole file of the checkpoint, written and synced; its manifest entry is added. */
int sw_store_write_file(struct sw_store_save *save, const char *name, const void *data,
                        size_t bytes, struct sw_manifest *manifest, struct sw_error *err);
/* Opens FILE of a save that another process began, for writing at offsets, and makes it if it is
 * not there: the handle, or -1 and err filled. */
int sw_store_open_file(const char *aside, const char *name, struct sw_error *err);
/* pwrite of all of it / fsync and close (closed in any case). Errors name the file and the reason.
 */
int sw_store_write_at(int fd, const char *name, const void *data, size_t bytes, int64_t at,
                      struct sw_error *err);
/* The disk gets those bytes now; nothing waits for it. A hint. */
void sw_store_start_writing(int fd, int64_t at, int64_t bytes);
int sw_store_close_file(int fd, const char *name, struct sw_error *err);

/* keep: newest that stay (at least 1); keep_every: of each multiple of it the first save at or
 * behind it stays, too; 0: none. Checkpoints of higher steps, from which this run went back, stay
 * until they are replaced, and do not count. Deleting that fails is told in note (may be NULL) and
 * is no error. Errors: as above, and a file of the manifest that is not there in its size
 * (SW_BAD_INPUT). When it returns 0, *save is empty again; else the caller abandons it. */
int sw_store_commit(struct sw_store_save *save, const struct sw_manifest *manifest, int64_t keep,
                    int64_t keep_every, char note[SW_STORE_NOTE_BYTES], struct sw_error *err);
void sw_store_abandon(struct sw_store_save *save); /* also a zeroed one */

/* Before a save of `step` that the disk had no room for is tried again: deletes what it would
 * delete once it is whole, but never what `latest` names nor the last good one below `step`.
 * *deleted: how many. Errors: as above; what was deleted counts all the same. */
int sw_store_make_room(const char *folder, int64_t step, int64_t keep, int64_t keep_every,
                       int32_t *deleted, struct sw_error *err);
/* Whether it was the disk that had no room, or a quota. */
bool sw_store_lacks_room(const struct sw_error *err);

#endif
