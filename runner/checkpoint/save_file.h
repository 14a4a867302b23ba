/* A file of a save, which one rank writes in order from some offset. With direct I/O, if the file
 * system supports it, the disk reads the caller's memory, past the page cache: no copy, no pages,
 * and few of the cycles that training needs. Otherwise, and for pages only partly written here,
 * bytes go through the page cache, and the disk gets them after a few MiB. Owns the open file and a
 * buffer. Every error is SW_ENVIRONMENT. */
#ifndef SW_CHECKPOINT_SAVE_FILE_H
#define SW_CHECKPOINT_SAVE_FILE_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct sw_save_file {
    int fd;                      /* -1: no file is open */
    const char *name;            /* borrowed */
    int64_t at;                  /* file offset of the next byte, the buffer's first */
    int64_t align, memory_align; /* alignments of direct writes; 0: no direct writes */
    bool direct;                 /* true if O_DIRECT is set on fd */
    char *buffer;                /* for unaligned data; NULL until needed */
    int64_t buffer_bytes;        /* bytes in the buffer */
};

/* Opens or creates a file in a folder from sw_store_begin. *file: {.fd = -1}, or closed. */
int sw_save_file_open(struct sw_save_file *file, const char *aside, const char *name, int64_t at,
                      struct sw_error *err);

/* Writes the next bytes. sw_save_file_piece: bytes at `data` that suit one call: as many as the
 * core's own cache holds if a core copies them. */
int64_t sw_save_file_piece(const struct sw_save_file *file, const void *data);
int sw_save_file_write(struct sw_save_file *file, const void *data, int64_t bytes,
                       struct sw_error *err);

/* Writes the buffer, syncs and closes; closes the file in any case. */
int sw_save_file_close(struct sw_save_file *file, struct sw_error *err);
/* Closes the file, if open, without writing or syncing, and frees the buffer. */
void sw_save_file_give_up(struct sw_save_file *file);

#endif
