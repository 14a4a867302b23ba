/* The safetensors format (huggingface/safetensors): 8 bytes little-endian length n, n bytes of
 * JSON, data. Reads headers of files that anybody may have written: nothing in them is believed
 * unchecked. No pickle. */
#ifndef SW_SAFETENSORS_H
#define SW_SAFETENSORS_H

#include "core/checkpoint/tensors.h"

enum {
    SW_SAFETENSORS_MAX_DIMS = 8,
    SW_SAFETENSORS_MAX_HEADER = 100000000, /* as the format's own reader */
    SW_SAFETENSORS_NAME_BYTES = 256
};

/* A tensor as a header has it. */
struct sw_safetensor {
    char name[SW_SAFETENSORS_NAME_BYTES];
    char dtype_name[16]; /* "BF16", "I64", ... as written */
    enum sw_stored_dtype
        dtype; /* SW_STORED_DTYPES: one that we cannot read as numbers of a model */
    uint8_t ndim;
    int64_t size[SW_SAFETENSORS_MAX_DIMS];
    int64_t begin, bytes; /* in the file */
};

struct sw_safetensors {
    struct sw_safetensor *tensor; /* [count], by begin */
    int32_t count;
    int64_t data_begin, file_bytes;
};

/* The JSON text `header` [bytes] of a file that is data_begin + data_bytes long. `path` for
 * messages only. Errors (SW_BAD_INPUT, at the file): anything that the format's reader refuses: no
 * JSON, keys twice, a name or shape or dtype that is none, sizes that overflow, offsets out of
 * range, that overlap, leave gaps or are not what shape and dtype need; more than
 * SW_SAFETENSORS_MAX_DIMS dimensions or a name too long. SW_ENVIRONMENT: memory. */
int sw_safetensors_parse(const char *path, const char *header, size_t header_bytes,
                         int64_t file_bytes, struct sw_safetensors *out, struct sw_error *err);
/* Reads and parses the header of a file: 8 bytes, then the header, nothing else. raw (may be NULL):
 * the data_begin bytes as they are in the file, malloc'ed. */
int sw_safetensors_open(const char *path, struct sw_safetensors *out, char **raw,
                        struct sw_error *err);
void sw_safetensors_free(struct sw_safetensors *file);

#endif
