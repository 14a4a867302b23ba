/* Whole files: read at once, and written so that no reader ever finds half of one. */
#ifndef SW_FILE_H
#define SW_FILE_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>

/* Opens standard streams that were closed at the program's start, so that no other file gets their
 * numbers and receives output. Reading and writing them fails as before (EBADF). Call at the begin
 * of main; other threads must not open files meanwhile. */
void sw_file_hold_streams(void);

/* Reads a whole file into malloc'ed memory, with a 0 behind it that *bytes does not count. regular:
 * true to refuse other files (reading a pipe or a terminal might wait). status (may be NULL): of
 * the file. Returns 0, or -1 and errno: why it cannot be opened or read; EISDIR; ESPIPE: not
 * regular; EFBIG: longer than most_bytes; ENOMEM. */
int sw_file_read(const char *path, bool regular, size_t most_bytes, char **text, size_t *bytes,
                 struct stat *status);

/* The first line of a file, without its end, cut to `bytes`; empty if unreadable. */
void sw_file_first_line(const char *path, char *out, size_t bytes);

/* A file that is being written beside its final name, as ".NAME.PID". */
struct sw_new_file {
    FILE *out; /* stream to write to; its errors are checked at commit */
    char *path, *aside;
};
/* Starts to write a file with this mode less the umask. Errors (SW_ENVIRONMENT): it cannot be
 * written there, or the name belongs to something that is no regular file; see errno. */
int sw_file_begin(struct sw_new_file *file, const char *path, mode_t mode, struct sw_error *err);
/* Syncs it and renames it to its final name, replacing an old file. Errors (SW_ENVIRONMENT, and
 * errno): a write failed; then it is removed, and the old file stays. */
int sw_file_commit(struct sw_new_file *file, struct sw_error *err);
/* Removes a file that was begun. */
void sw_file_abandon(struct sw_new_file *file);
/* Writes a whole file at once. */
int sw_file_write(const char *path, const void *data, size_t bytes, mode_t mode,
                  struct sw_error *err);

/* Syncs a folder's renames and removals, which a crash could otherwise undo. File systems that
 * cannot do it count as success. Returns 0, or -1 and errno. */
int sw_file_sync_folder(const char *path);

/* Makes a folder and those above it, unless they exist. Errors: SW_ENVIRONMENT, and errno. */
int sw_file_make_folder(const char *path, struct sw_error *err);
/* True if the disk of an existing path has no room left, except a few KiB. */
bool sw_file_disk_is_full(const char *path);

/* Status for a path named by a user that cannot be opened, by errno: SW_BAD_INPUT if it does not
 * exist or is of another kind; else SW_ENVIRONMENT. writes: true if missing permission is bad
 * input, too. */
enum sw_status sw_path_status(int reason, bool writes);
/* Turns an error of the functions above, about a path named by the user, into bad input if errno,
 * `reason`, says so: its status, and "; HELP" behind its message. Returns -1. */
int sw_path_blame(struct sw_error *err, int reason, const char *help);

/* True if both exist and are the same file. */
bool sw_path_same(const char *one, const char *other);

/* "folder/path"; malloc'ed, NULL: no memory. */
char *sw_path_join(const char *folder, const char *path);
/* The folder part of a path: "a" of "a/b", "/" of "/b", "." of "b". malloc'ed, NULL: no memory. */
char *sw_path_folder(const char *path);
/* The part behind the last '/', in `path` itself. */
const char *sw_path_name(const char *path);

#endif
