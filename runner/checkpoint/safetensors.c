/* Headers of safetensors files. */
#include "runner/checkpoint/safetensors.h"

#include "core/base/text.h"
#include "runner/checkpoint/json_text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DAMAGED "; it is damaged or no safetensors file"

enum { LENGTH_BYTES = 8, SHOWN_BYTES = 100 };

/* All dtypes of the format; files may contain those that we do not read. */
static const struct dtype {
    const char *name;
    uint8_t bits;
    enum sw_stored_dtype stored;
} dtypes[] = {
    {"F32", 32, SW_STORED_F32},       {"BF16", 16, SW_STORED_BF16},
    {"F16", 16, SW_STORED_F16},       {"F64", 64, SW_STORED_F64},
    {"I64", 64, SW_STORED_DTYPES},    {"I32", 32, SW_STORED_DTYPES},
    {"I16", 16, SW_STORED_DTYPES},    {"I8", 8, SW_STORED_DTYPES},
    {"U64", 64, SW_STORED_DTYPES},    {"U32", 32, SW_STORED_DTYPES},
    {"U16", 16, SW_STORED_DTYPES},    {"U8", 8, SW_STORED_DTYPES},
    {"BOOL", 8, SW_STORED_DTYPES},    {"C64", 64, SW_STORED_DTYPES},
    {"F8_E4M3", 8, SW_STORED_DTYPES}, {"F8_E5M2", 8, SW_STORED_DTYPES},
    {"F8_E8M0", 8, SW_STORED_DTYPES}, {"F6_E2M3", 6, SW_STORED_DTYPES},
    {"F6_E3M2", 6, SW_STORED_DTYPES}, {"F4", 4, SW_STORED_DTYPES},
};

struct parse {
    struct sw_place place;
    struct sw_safetensors *out;
    struct sw_error *err;
    int64_t data_bytes;
    char shown[SHOWN_BYTES + 4], other[SHOWN_BYTES + 4];
};

static const char *show(struct parse *p, const char *name)
{
    return sw_text_shown(name, SHOWN_BYTES, p->shown);
}

/* Reports a mistake in one tensor. */
#define REFUSE(p, name, format, ...)                                                               \
    sw_fail_at((p)->err, SW_BAD_INPUT, (p)->place, "tensor '%s' " format, show(p, name),           \
               __VA_ARGS__)

static int refuse_json(struct parse *p, const struct sw_json_mistake *why)
{
    if (why->what == NULL)
        return sw_fail(p->err, SW_ENVIRONMENT, "out of memory for the header of '%s'",
                       p->place.file);
    return sw_fail_at(p->err, SW_BAD_INPUT, p->place,
                      "its header is not JSON at byte %zu: %s" DAMAGED, why->byte, why->what);
}

static int read_dtype(struct parse *p, const json_t *info, struct sw_safetensor *t, uint8_t *bits)
{
    const char *name = json_string_value(json_object_get(info, "dtype"));
    if (name == NULL)
        return REFUSE(p, t->name, "has no dtype%s", DAMAGED);
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++)
        if (strcmp(name, dtypes[i].name) == 0) {
            strcpy(t->dtype_name, name);
            t->dtype = dtypes[i].stored;
            *bits = dtypes[i].bits;
            return 0;
        }
    return REFUSE(p, t->name, "has the unknown dtype '%s'", sw_text_shown(name, 20, p->other));
}

/* *bytes: size needed by shape and dtype. */
static int read_shape(struct parse *p, const json_t *info, struct sw_safetensor *t, uint8_t bits,
                      int64_t *bytes)
{
    const json_t *shape = json_object_get(info, "shape");
    if (!json_is_array(shape))
        return REFUSE(p, t->name, "has no shape%s", DAMAGED);
    if (json_array_size(shape) > SW_SAFETENSORS_MAX_DIMS)
        return REFUSE(p, t->name, "has %zu dimensions, of at most %d", json_array_size(shape),
                      (int)SW_SAFETENSORS_MAX_DIMS);
    int64_t total_bits = bits;
    bool fits = true;
    t->ndim = (uint8_t)json_array_size(shape);
    for (size_t i = 0; i < t->ndim; i++) {
        const json_t *size = json_array_get(shape, i);
        if (!json_is_integer(size) || json_integer_value(size) < 0)
            return REFUSE(p, t->name, "has a shape that is not made of sizes%s", DAMAGED);
        t->size[i] = json_integer_value(size);
        if (__builtin_mul_overflow(total_bits, t->size[i], &total_bits))
            fits = false; /* even if a 0 follows, as in the format's own reader */
    }
    if (!fits)
        return REFUSE(p, t->name, "has more elements than can be counted%s", DAMAGED);
    if (total_bits % 8 != 0)
        return REFUSE(p, t->name, "ends within a byte%s", DAMAGED);
    *bytes = total_bits / 8;
    return 0;
}

static int read_offsets(struct parse *p, const json_t *info, struct sw_safetensor *t)
{
    const json_t *offsets = json_object_get(info, "data_offsets");
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end))
        return REFUSE(p, t->name, "has no pair of data_offsets%s", DAMAGED);
    const int64_t from = json_integer_value(begin), to = json_integer_value(end);
    if (from < 0 || to < from)
        return REFUSE(p, t->name, "lies from byte %" PRId64 " to %" PRId64 "%s", from, to, DAMAGED);
    if (to > p->data_bytes)
        return REFUSE(p, t->name,
                      "ends at byte %" PRId64 " of %" PRId64 " bytes of data; the file is cut off "
                      "or damaged",
                      to, p->data_bytes);
    t->begin = p->out->data_begin + from;
    t->bytes = to - from;
    return 0;
}

static int read_tensor(struct parse *p, const char *name, const json_t *info)
{
    struct sw_safetensor *t = &p->out->tensor[p->out->count];
    uint8_t bits = 0;
    int64_t needed = 0;
    const size_t length = strlen(name);
    if (length == 0)
        return sw_fail_at(p->err, SW_BAD_INPUT, p->place, "a tensor without a name" DAMAGED);
    if (length >= sizeof t->name)
        return REFUSE(p, name, "has a name of %zu bytes, of at most %zu", length,
                      sizeof t->name - 1);
    memcpy(t->name, name, length + 1);
    if (!sw_json_is_object(info))
        return REFUSE(p, name, "is described by no mapping%s", DAMAGED);
    if (read_dtype(p, info, t, &bits) != 0 || read_shape(p, info, t, bits, &needed) != 0 ||
        read_offsets(p, info, t) != 0)
        return -1;
    if (t->bytes != needed)
        return REFUSE(p, name, "has %" PRId64 " bytes where its shape and dtype need %" PRId64 "%s",
                      t->bytes, needed, DAMAGED);
    p->out->count++;
    return 0;
}

static int check_metadata(struct parse *p, json_t *metadata)
{
    const char *key;
    json_t *value;
    bool texts = sw_json_is_object(metadata);
    if (texts)
        json_object_foreach(metadata, key, value) texts = texts && json_is_string(value);
    return texts ? 0
                 : sw_fail_at(p->err, SW_BAD_INPUT, p->place,
                              "'__metadata__' is not a mapping of texts to texts" DAMAGED);
}

static int compare_places(const void *left, const void *right)
{
    const struct sw_safetensor *a = left, *b = right;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    if (a->bytes != b->bytes) /* empty tensors precede the one that begins there */
        return a->bytes < b->bytes ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* Checks that the sorted tensors cover the data without gaps. */
static int check_cover(struct parse *p)
{
    int64_t at = p->out->data_begin;
    for (int32_t i = 0; i < p->out->count; i++) {
        const struct sw_safetensor *t = &p->out->tensor[i];
        if (t->begin < at)
            return REFUSE(p, t->name, "overlaps '%s'%s",
                          sw_text_shown(t[-1].name, SHOWN_BYTES, p->other), DAMAGED);
        if (t->begin > at)
            return REFUSE(p, t->name, "has %" PRId64 " bytes of no tensor before it%s",
                          t->begin - at, DAMAGED);
        at += t->bytes;
    }
    if (at < p->out->file_bytes)
        return sw_fail_at(p->err, SW_BAD_INPUT, p->place,
                          "%" PRId64 " bytes of no tensor at its end" DAMAGED,
                          p->out->file_bytes - at);
    return 0;
}

static int read_tensors(struct parse *p, json_t *root)
{
    const char *name;
    json_t *info;
    p->out->tensor = calloc(json_object_size(root) + 1, sizeof *p->out->tensor);
    if (p->out->tensor == NULL)
        return sw_fail(p->err, SW_ENVIRONMENT, "out of memory for the header of '%s'",
                       p->place.file);
    json_object_foreach(root, name, info)
    {
        const bool metadata = strcmp(name, "__metadata__") == 0;
        if ((metadata ? check_metadata(p, info) : read_tensor(p, name, info)) != 0)
            return -1;
    }
    qsort(p->out->tensor, (size_t)p->out->count, sizeof *p->out->tensor, compare_places);
    return check_cover(p);
}

int sw_safetensors_parse(const char *path, const char *header, size_t header_bytes,
                         int64_t file_bytes, struct sw_safetensors *out, struct sw_error *err)
{
    struct parse p = {.place = {.file = path}, .out = out, .err = err};
    struct sw_json_mistake why;
    *out = (struct sw_safetensors){.data_begin = LENGTH_BYTES + (int64_t)header_bytes,
                                   .file_bytes = file_bytes};
    p.data_bytes = file_bytes - out->data_begin;
    if (header_bytes == 0 || header[0] != '{')
        return sw_fail_at(err, SW_BAD_INPUT, p.place, "its header does not begin with '{'" DAMAGED);
    json_t *root = sw_json_load(header, header_bytes, SW_JSON_TWICE | SW_JSON_ODD, &why);
    if (root == NULL)
        return refuse_json(&p, &why);
    const int status = read_tensors(&p, root);
    json_decref(root);
    if (status != 0)
        sw_safetensors_free(out);
    return status;
}

void sw_safetensors_free(struct sw_safetensors *file)
{
    free(file->tensor);
    *file = (struct sw_safetensors){0};
}

/* ---- Files ---- */

/* Reads exactly `bytes` bytes. */
static int read_at(int handle, struct sw_place place, void *out, size_t bytes, int64_t at,
                   struct sw_error *err)
{
    for (size_t done = 0; done < bytes;) {
        const ssize_t got = pread(handle, (char *)out + done, bytes - done, at + (int64_t)done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return sw_fail_at(err, SW_ENVIRONMENT, place, "cannot be read: %s", strerror(errno));
        if (got == 0)
            return sw_fail_at(err, SW_BAD_INPUT, place, "became shorter while it was read");
        done += (size_t)got;
    }
    return 0;
}

/* Reads the length at the file's start. */
static int read_length(int handle, struct sw_place place, int64_t file_bytes, size_t *length,
                       struct sw_error *err)
{
    unsigned char bytes[LENGTH_BYTES];
    uint64_t value = 0;
    if (file_bytes < LENGTH_BYTES)
        return sw_fail_at(
            err, SW_BAD_INPUT, place,
            "has %" PRId64
            " bytes, and a safetensors file begins with 8; it is cut off or not a safetensors file",
            file_bytes);
    if (read_at(handle, place, bytes, sizeof bytes, 0, err) != 0)
        return -1;
    for (size_t i = 0; i < LENGTH_BYTES; i++)
        value |= (uint64_t)bytes[i] << (8 * i);
    if (value > SW_SAFETENSORS_MAX_HEADER)
        return sw_fail_at(err, SW_BAD_INPUT, place,
                          "has a header of %" PRIu64 " bytes, of at most %d" DAMAGED, value,
                          (int)SW_SAFETENSORS_MAX_HEADER);
    if ((int64_t)value > file_bytes - LENGTH_BYTES)
        return sw_fail_at(err, SW_BAD_INPUT, place,
                          "ends within its header, after %" PRId64 " of %" PRIu64
                          " bytes; it is cut off or damaged",
                          file_bytes - LENGTH_BYTES, value);
    *length = (size_t)value;
    return 0;
}

int sw_safetensors_open(const char *path, struct sw_safetensors *out, char **raw,
                        struct sw_error *err)
{
    const struct sw_place place = {.file = path};
    struct stat status;
    char *text = NULL;
    size_t length = 0;
    int result = -1;
    *out = (struct sw_safetensors){0};
    const int handle = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (handle < 0 || fstat(handle, &status) != 0) {
        sw_fail_at(err, errno == ENOENT ? SW_BAD_INPUT : SW_ENVIRONMENT, place,
                   "cannot be read: %s", strerror(errno));
        goto out;
    }
    if (!S_ISREG(status.st_mode)) {
        sw_fail_at(err, SW_BAD_INPUT, place, "is not a regular file");
        goto out;
    }
    if (read_length(handle, place, status.st_size, &length, err) != 0)
        goto out;
    text = malloc(LENGTH_BYTES + length);
    if (text == NULL) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory for the header of '%s'", path);
        goto out;
    }
    if (read_at(handle, place, text, LENGTH_BYTES + length, 0, err) != 0 ||
        sw_safetensors_parse(path, text + LENGTH_BYTES, length, status.st_size, out, err) != 0)
        goto out;
    if (raw != NULL) {
        *raw = text;
        text = NULL;
    }
    result = 0;
out:
    free(text);
    if (handle >= 0)
        close(handle);
    return result;
}
