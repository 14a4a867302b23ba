/* The safetensors format (huggingface/safetensors): 8 bytes little-endian length n, n bytes of
 * JSON, data. Reads headers of untrusted files and checks everything. No pickle. */
#ifndef SW_SAFETENSORS_H
#define SW_SAFETENSORS_H

#include "core/checkpoint/tensors.h"

enum {
    SW_SAFETENSORS_MAX_DIMS = 8,
    SW_SAFETENSORS_MAX_HEADER = 100000000, /* limit of the format's own reader */
    SW_SAFETENSORS_NAME_BYTES = 256
};

/* A tensor in a header. */
struct sw_safetensor {
    char name[SW_SAFETENSORS_NAME_BYTES];
    char dtype_name[16];        /* spelled "BF16", "I64", ... */
    enum sw_stored_dtype dtype; /* SW_STORED_DTYPES: not readable as model numbers */
    uint8_t ndim;
    int64_t size[SW_SAFETENSORS_MAX_DIMS];
    int64_t begin, bytes; /* in the file */
};

struct sw_safetensors {
    struct sw_safetensor *tensor; /* [count], ordered by begin */
    int32_t count;
    int64_t data_begin, file_bytes;
};

/* Parses the JSON `header` [bytes] of a file of file_bytes. `path`: for messages only. Errors
 * (SW_BAD_INPUT, at the file), everything the format's reader refuses: no JSON, duplicate keys,
 * invalid name, shape or dtype, overflowing sizes, offsets out of range, overlapping, with gaps, or
 * inconsistent with shape and dtype; more than SW_SAFETENSORS_MAX_DIMS dimensions or too long a
 * name. SW_ENVIRONMENT: memory. */
int sw_safetensors_parse(const char *path, const char *header, size_t header_bytes,
                         int64_t file_bytes, struct sw_safetensors *out, struct sw_error *err);
/* Reads and parses a file's header, nothing else. raw (may be NULL): the file's first data_begin
 * bytes, malloc'ed. */
int sw_safetensors_open(const char *path, struct sw_safetensors *out, char **raw,
                        struct sw_error *err);
void sw_safetensors_free(struct sw_safetensors *file);

#endif
