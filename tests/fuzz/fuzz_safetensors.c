/* Any text as the header of a safetensors file, with so many bytes of data behind it as the first
 * two bytes of the input say. A refusal is one line; what is accepted covers the data exactly. */
#include "runner/checkpoint/safetensors.h"
#include "tests/fuzz/support.h"

#include <string.h>

static void check_tensors(const struct sw_safetensors *f)
{
    int64_t at = f->data_begin;
    for (int32_t i = 0; i < f->count; i++) {
        const struct sw_safetensor *t = &f->tensor[i];
        fuzz_require(memchr(t->name, 0, sizeof t->name) != NULL && t->name[0] != '\0',
                     "a tensor without a name", "");
        fuzz_require(memchr(t->dtype_name, 0, sizeof t->dtype_name) != NULL, "no dtype", t->name);
        fuzz_require(t->begin == at && t->bytes >= 0, "a gap or an overlap", t->name);
        fuzz_require(t->ndim <= SW_SAFETENSORS_MAX_DIMS, "too many dimensions", t->name);
        fuzz_require(t->dtype >= SW_STORED_F32 && t->dtype <= SW_STORED_DTYPES, "no dtype",
                     t->name);
        int64_t elements = 1;
        for (uint8_t d = 0; d < t->ndim; d++)
            fuzz_require(t->size[d] >= 0 &&
                             !__builtin_mul_overflow(elements, t->size[d], &elements),
                         "more elements than can be counted", t->name);
        if (t->dtype != SW_STORED_DTYPES)
            fuzz_require(t->bytes == elements * (int64_t)sw_stored_dtype_bytes(t->dtype),
                         "another size than its shape has", t->name);
        for (int32_t other = 0; other < i && i < 64; other++)
            fuzz_require(strcmp(f->tensor[other].name, t->name) != 0, "a name twice", t->name);
        at += t->bytes;
    }
    fuzz_require(at == f->file_bytes, "bytes of no tensor", "");
}

void fuzz_one(const uint8_t *data, size_t bytes)
{
    struct sw_safetensors f;
    struct sw_error err = {0};
    if (bytes < 2)
        return;
    const size_t header = bytes - 2;
    const int64_t file_bytes = 8 + (int64_t)header + data[0] + 256 * data[1];
    if (sw_safetensors_parse("f", (const char *)data + 2, header, file_bytes, &f, &err) == 0) {
        fuzz_require(f.data_begin == 8 + (int64_t)header && f.file_bytes == file_bytes,
                     "another file", "");
        check_tensors(&f);
        sw_safetensors_free(&f);
        return;
    }
    fuzz_require(err.status == SW_BAD_INPUT, "no mistake of the file", err.message);
    fuzz_require(strcmp(err.file, "f") == 0 && err.line == 0, "another place", err.file);
    fuzz_require(err.message[0] != '\0' && strlen(err.message) < 400, "no message", err.message);
    fuzz_require_plain(err.message);
}
