/* Compares a checkpoint's files, read in order, with its manifest. A folder without manifest.json
 * is another program's: nothing is compared. */
#ifndef SW_CHECKED_H
#define SW_CHECKED_H

#include "core/checkpoint/manifest.h"

struct sw_checked {
    bool has_manifest;
    struct sw_manifest manifest;
    struct sw_checksum_stream *stream;
    /* current file; NULL: none, or not in the manifest */
    const struct sw_manifest_file *file;
    char *path; /* for messages */
    int32_t slice;
    int64_t at, slice_end;
};

/* Errors: see sw_manifest_read. */
int sw_checked_begin(struct sw_checked *checked, const char *folder, struct sw_error *err);
void sw_checked_end(struct sw_checked *checked); /* may be zeroed */

/* Starts file FOLDER/NAME of `bytes` bytes. needed: true if it must be in the manifest. */
int sw_checked_open(struct sw_checked *checked, const char *folder, const char *name, int64_t bytes,
                    bool needed, struct sw_error *err);
/* Takes the file's next bytes. Errors (SW_BAD_INPUT): a wrong checksum. */
int sw_checked_read(struct sw_checked *checked, const void *data, size_t bytes,
                    struct sw_error *err);
/* Ends a file that was read completely. */
int sw_checked_close(struct sw_checked *checked, struct sw_error *err);

#endif
