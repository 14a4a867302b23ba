/* A file of a save, which one rank writes in order from some offset on. Where the file system
 * supports direct I/O, the disk gets the bytes from the caller's memory, past the page cache: that
 * needs neither a copy nor pages, and few of the cores' cycles, which training wants. Elsewhere,
 * and where a page has bytes that are not written here, they go through the page cache, and the
 * disk gets them after a few MiB. Owns the open file and a buffer. Every error is SW_ENVIRONMENT.
 */
#ifndef SW_CHECKPOINT_SAVE_FILE_H
#define SW_CHECKPOINT_SAVE_FILE_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct sw_save_file {
    int fd;           /* -1: no file is open */
    const char *name; /* borrowed */
    int64_t at;       /* offset in the file of the next byte, the buffer's first */
    int64_t align,
        memory_align;     /* of direct writes, in the file and in memory; 0: there are none */
    bool direct;          /* true if O_DIRECT is set on fd */
    char *buffer;         /* for data that is not aligned; NULL until there is some */
    int64_t buffer_bytes; /* in use */
};

/* Opens a file in a folder that sw_store_begin made, or makes it. *file: {.fd = -1}, or closed. */
int sw_save_file_open(struct sw_save_file *file, const char *aside, const char *name, int64_t at,
                      struct sw_error *err);

/* Writes the next bytes. sw_save_file_piece: how many of those at `data` one call best takes: as
 * many as the core's own cache holds, if a core copies them. */
int64_t sw_save_file_piece(const struct sw_save_file *file, const void *data);
int sw_save_file_write(struct sw_save_file *file, const void *data, int64_t bytes,
                       struct sw_error *err);

/* Writes the buffer, syncs and closes; the file is closed in any case. */
int sw_save_file_close(struct sw_save_file *file, struct sw_error *err);
/* Closes the file, if one is open, without all that, and frees the buffer. */
void sw_save_file_give_up(struct sw_save_file *file);

#endif
