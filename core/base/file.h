/* Files as a whole: read at once, and written so that nobody ever finds half of one. */
#ifndef SW_FILE_H
#define SW_FILE_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>

/* Standard streams that a program was started without: their numbers are taken, so that no file
 * gets one and is written into by whoever prints. Reading and writing them fails as before (EBADF).
 * For the begin of main; other threads must not open files meanwhile. */
void sw_file_hold_streams(void);

/* Reads a whole file into malloc'ed memory, with a 0 behind it that *bytes does not count.
 * regular: refuse what is none (a pipe or a terminal would be waited for). status (may be NULL): of
 * the file that was read. Returns 0, or -1 and errno: why it cannot be opened or read; EISDIR;
 * ESPIPE: not regular; EFBIG: longer than most_bytes; ENOMEM. */
int sw_file_read(const char *path, bool regular, size_t most_bytes, char **text, size_t *bytes,
                 struct stat *status);

/* The first line of a file, without its end, cut to `bytes`; empty where it cannot be read. */
void sw_file_first_line(const char *path, char *out, size_t bytes);

/* A file that is being written beside its place, as ".NAME.PID". */
struct sw_new_file {
    FILE *out; /* to write to; no need to look at its errors */
    char *path, *aside;
};
/* Starts to write a file with this mode less the umask. Errors (SW_ENVIRONMENT): it cannot be
 * written there, or something stands there that is no regular file; errno tells why. */
int sw_file_begin(struct sw_new_file *file, const char *path, mode_t mode, struct sw_error *err);
/* Puts it on the disk and in its place, over what stood there. Errors (SW_ENVIRONMENT, and errno):
 * something could not be written; then it is gone, and what stood there still does. */
int sw_file_commit(struct sw_new_file *file, struct sw_error *err);
/* Forgets a file that was begun: nothing is left of it. */
void sw_file_abandon(struct sw_new_file *file);
/* All of it at once. */
int sw_file_write(const char *path, const void *data, size_t bytes, mode_t mode,
                  struct sw_error *err);

/* Puts on the disk what renames and removals did in a folder: without it they may be undone by a
 * crash. File systems that cannot do it alone are content. Returns 0, or -1 and errno. */
int sw_file_sync_folder(const char *path);

/* Makes a folder and those above it, unless they are there. Errors: SW_ENVIRONMENT, and errno. */
int sw_file_make_folder(const char *path, struct sw_error *err);
/* True if the disk of an existing path has no room left, but for some KiB. */
bool sw_file_disk_is_full(const char *path);

/* Whose fault it is that a path which a user named cannot be opened, by errno: SW_BAD_INPUT where
 * it is the name of nothing, or of something of another kind; else SW_ENVIRONMENT. writes: where
 * one may not write is no place to name, either. */
enum sw_status sw_path_status(int reason, bool writes);
/* Turns an error of the functions above, about a path that the user named, into one of theirs where
 * errno, `reason`, says so: its status, and "; HELP" behind its message. Returns -1. */
int sw_path_blame(struct sw_error *err, int reason, const char *help);

/* Whether both are there, and one file under two names or one. */
bool sw_path_same(const char *one, const char *other);

/* "folder/path"; malloc'ed, NULL: no memory. */
char *sw_path_join(const char *folder, const char *path);
/* The folder that a path names something in: "a" of "a/b", "/" of "/b", "." of "b". malloc'ed,
 * NULL: no memory. */
char *sw_path_folder(const char *path);
/* What follows the last '/', in `path` itself. */
const char *sw_path_name(const char *path);

#endif
