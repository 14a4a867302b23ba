/* The folder of a run's checkpoints, and the order of operations by which a kill at any moment
 * leaves the last good checkpoint, with `latest` naming a good one.
 *
 * sw_store_begin (one process): folder/.step-000500.partial, fresh, and its subfolder optimizer.
 *
 * Every writer: sw_store_open_file, sw_store_write_at for its ranges, sw_store_close_file, which
 * syncs. The caller waits for all writers and collects the checksums.
 *
 * sw_store_commit (the process that began): sync of the folders, manifest.json last and synced,
 * rename to step-000500, sync of the parent, `latest` -> step-000500 by a symlink aside and rename,
 * sync; then old ones are pruned.
 *
 * sw_store_abandon: deletes the begun save; the last good checkpoint is not touched.
 *
 * An existing step is replaced. If it is a checkpoint, `latest` names the new one aside while the
 * old one is renamed to .step-000500.old, then the old one while the new one gets its name;
 * sw_store_newest follows `latest`, and sw_store_clean undoes an interrupted replacement. Deleting
 * goes the other way: rename to .step-000500.deleted, then the manifest, then the rest. So only
 * hidden folders are ever incomplete, and `latest` never names one being deleted.
 *
 * All file operations go through libc by name, so that tests can interpose them. Works on NFS: no
 * flock, no O_TMPFILE, no RENAME_EXCHANGE. One process at a time writes to a folder (lock.h). */
#ifndef SW_CHECKPOINT_STORE_H
#define SW_CHECKPOINT_STORE_H

#include "core/checkpoint/manifest.h"

enum { SW_STEP_NAME_BYTES = 40, SW_STORE_NAME_BYTES = 256, SW_STORE_NOTE_BYTES = 2048 };
/* "step-000500"; more digits if needed. */
const char *sw_store_step_name(int64_t step, char name[SW_STEP_NAME_BYTES]);
/* Step of such a name; -1: another name. */
int64_t sw_store_step_of(const char *name);

/* Checks that a folder looks like a checkpoint: a manifest, and files of the right sizes, without
 * reading these. *out (may be NULL) is the manifest, the caller's when it returns 0. Errors:
 * SW_BAD_INPUT at the file, SW_ENVIRONMENT. */
int sw_store_check(const char *checkpoint, struct sw_manifest *out, struct sw_error *err);

/* Bytes of its files; unreadable ones count 0. */
int64_t sw_store_bytes(const char *checkpoint);

struct sw_store_entry {
    int64_t step;
    int64_t bytes; /* sw_store_bytes */
    bool good;     /* sw_store_check */
    bool is_latest;
    char name[SW_STEP_NAME_BYTES];
};
/* Checkpoints in a folder, by step; a missing folder has none. *out is malloc'ed (NULL: none). */
int sw_store_list(const char *folder, struct sw_store_entry **out, int32_t *count,
                  struct sw_error *err);

/* Checkpoints of a folder found damaged while reading, the latest find first; malloc'ed. */
struct sw_store_damage {
    char name[SW_STORE_NAME_BYTES]; /* any name that `latest` may have */
    struct sw_error why;            /* error, at the file */
    struct sw_store_damage *before;
};
int sw_store_add_damage(struct sw_store_damage **damage, const char *checkpoint,
                        const struct sw_error *why, struct sw_error *err);
void sw_store_free_damage(struct sw_store_damage *damage);

/* Path of the newest checkpoint to resume from: `latest` if it is good, else the good one of the
 * highest step; malloc'ed, NULL in *path: none. Good: by its manifest, its files' sizes and their
 * small parts, and not in `damage` (NULL: empty). A `latest` that is a real folder counts if no
 * other has its step or a higher one. note (may be NULL): a line if one was rejected ("'.../latest'
 * names step-000500, which is no whole checkpoint (...); taking step-000400"), or if all were
 * ("...; there is no other"); else "". Call after sw_store_clean, with the lock. */
int sw_store_newest(const char *folder, const struct sw_store_damage *damage, char **path,
                    char note[SW_STORE_NOTE_BYTES], struct sw_error *err);

/* Call once `chosen`, a checkpoint of the folder, was read and is whole: makes `latest` name it;
 * damaged checkpoints that `latest` named, or of higher steps, are renamed to
 * "step-000500.damaged", which is no checkpoint's name. Needs the lock. note: a line about it, else
 * "". */
int sw_store_keep_damaged(const char *folder, const char *chosen,
                          const struct sw_store_damage *damage, char note[SW_STORE_NOTE_BYTES],
                          struct sw_error *err);
/* Makes `latest` a symlink again if a copy that followed it has left a folder: the folder gets its
 * step's name or is kept aside (an existing step as "step-000500.copy", an incomplete checkpoint as
 * "latest.damaged"), and `latest` names the good one of the highest step. Needs the lock. note: a
 * line about it, else "". */
int sw_store_mend(const char *folder, char note[SW_STORE_NOTE_BYTES], struct sw_error *err);

/* Files of which a model's or adapter's folder has one; ends with NULL. */
extern const char *const sw_store_model_files[];

/* The model's folder for a path: itself; the newest of a folder of checkpoints, or of the
 * `checkpoints` in a run's folder; malloc'ed. Any other path is returned unchanged: reading it
 * reports what it lacks. note: as in sw_store_newest. */
int sw_store_resolve(const char *given, char **path, char note[SW_STORE_NOTE_BYTES],
                     struct sw_error *err);

/* Undoes an interrupted replacement, and removes leftovers of killed jobs: hidden folders of saves
 * and of deletions. Needs the lock. A missing folder is clean. */
int sw_store_clean(const char *folder, struct sw_error *err);

/* Name of an entry in a folder that is, or was, a checkpoint of the run: the highest step's, else
 * one kept aside; "": none. */
int sw_store_find_any(const char *folder, char name[SW_STORE_NAME_BYTES], struct sw_error *err);

/* Deletes every checkpoint of a folder, `latest` first, and those kept aside. Needs the lock. */
int sw_store_remove_all(const char *folder, struct sw_error *err);

struct sw_store_save {
    char *folder, *aside, *final; /* final: path of the checkpoint */
    int64_t step;
};
/* Makes the folder, too. Errors (here and below SW_ENVIRONMENT): it cannot be written. */
int sw_store_begin(const char *folder, int64_t step, struct sw_store_save *out,
                   struct sw_error *err);
/* Writes a small whole file of the checkpoint, syncs it, and adds its manifest entry. */
int sw_store_write_file(struct sw_store_save *save, const char *name, const void *data,
                        size_t bytes, struct sw_manifest *manifest, struct sw_error *err);
/* Opens FILE of a save that another process began, for writing at offsets, creating it if missing:
 * the handle, or -1 and err filled. */
int sw_store_open_file(const char *aside, const char *name, struct sw_error *err);
/* pwrite of all bytes / fsync and close (closed in any case). Errors name the file and the
 * reason. */
int sw_store_write_at(int fd, const char *name, const void *data, size_t bytes, int64_t at,
                      struct sw_error *err);
/* Starts writing those bytes to disk without waiting. A hint. */
void sw_store_start_writing(int fd, int64_t at, int64_t bytes);
int sw_store_close_file(int fd, const char *name, struct sw_error *err);

/* keep: newest ones that stay (at least 1); keep_every: the first save at or after each multiple
 * stays, too; 0: none. Checkpoints of higher steps, from which this run went back, stay until they
 * are replaced, and do not count. A failed deletion is noted in note (may be NULL) and is no error.
 * Errors: as above, and a file of the manifest that is missing or has another size (SW_BAD_INPUT).
 * When it returns 0, *save is empty again; else the caller abandons it. */
int sw_store_commit(struct sw_store_save *save, const struct sw_manifest *manifest, int64_t keep,
                    int64_t keep_every, char note[SW_STORE_NOTE_BYTES], struct sw_error *err);
void sw_store_abandon(struct sw_store_save *save); /* also a zeroed one */

/* Call before a save of `step` that found the disk full is tried again: deletes the checkpoints
 * that the save would delete once whole, but not the one that `latest` names nor the last good one
 * below `step`. *deleted: their number. Errors: as above, with *deleted counted. */
int sw_store_make_room(const char *folder, int64_t step, int64_t keep, int64_t keep_every,
                       int32_t *deleted, struct sw_error *err);
/* True if the disk, or a quota, was full. */
bool sw_store_lacks_room(const struct sw_error *err);

#endif
