/* Copies a model in another dtype, file by file, tensor by tensor, in pieces. */
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/number.h"
#include "runner/checkpoint/base_model.h"
#include "runner/checkpoint/checked.h"
#include "runner/checkpoint/folder.h"
#include "runner/checkpoint/merge.h"
#include "runner/checkpoint/model_index.h"
#include "runner/checkpoint/convert.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* The widest number is four times the narrowest. */
enum { PIECE_BYTES = 1 << 20, GROWTH = 4, LENGTH_BYTES = 8, CONFIG_MOST_BYTES = 1 << 24 };

struct export
{
    struct sw_model_folder from;
    struct sw_checked checked;      /* for `from` */
    struct sw_model_folder adapter; /* to merge into `from`; path NULL: none */
    struct sw_adapter_merge *merge; /* NULL: no adapter */
    double *wide;                   /* [PIECE_BYTES / 2] for merging; NULL: none */
    enum sw_stored_dtype dtype;     /* SW_STORED_DTYPES: unchanged */
    char *to, *aside;               /* folders */
    int claim;                      /* the temporary folder, locked; -1: not made */
    char *config;                   /* the original's */
    char *piece, *converted;        /* [PIECE_BYTES], [PIECE_BYTES * GROWTH] */
    struct sw_error *err;
};

static int out_of_memory(struct export *e)
{
    return sw_fail(e->err, SW_ENVIRONMENT, "out of memory for the copy '%s'", e->to);
}

static int cannot(struct export *e, const char *what, const char *path)
{
    return sw_fail(e->err, SW_ENVIRONMENT, "cannot %s '%s': %s", what, path, strerror(errno));
}

/* ---- Reading and writing ---- */

struct source {
    int handle;
    int64_t bytes;
    char *path;
};

/* needed: true if the manifest must have the file. */
static int open_source(struct export *e, const char *name, bool needed, struct source *out)
{
    struct stat status;
    out->handle = -1;
    out->path = sw_folder_path(&e->from, name, e->err);
    if (out->path == NULL)
        return -1;
    out->handle = open(out->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (out->handle < 0 || fstat(out->handle, &status) != 0)
        return cannot(e, "read", out->path);
    out->bytes = status.st_size;
    return sw_checked_open(&e->checked, e->from.path, name, out->bytes, needed, e->err);
}

/* Reads exactly `bytes` bytes and compares them with the manifest. */
static int read_source(struct export *e, struct source *source, void *out, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        const ssize_t got = read(source->handle, (char *)out + done, bytes - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return cannot(e, "read", source->path);
        if (got == 0)
            return sw_fail_at(e->err, SW_BAD_INPUT, (struct sw_place){.file = source->path},
                              "became shorter while it was read");
        done += (size_t)got;
    }
    return sw_checked_read(&e->checked, out, bytes, e->err);
}

static void close_source(struct source *source)
{
    if (source->handle >= 0)
        close(source->handle);
    free(source->path);
}

static int create(struct export *e, const char *name, char **path)
{
    *path = sw_path_join(e->aside, name);
    if (*path == NULL)
        return out_of_memory(e);
    const int handle = open(*path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return handle >= 0 ? handle : cannot(e, "write", *path);
}

static int write_at(struct export *e, int handle, const char *path, const void *data, size_t bytes,
                    int64_t at)
{
    for (size_t done = 0; done < bytes;) {
        const ssize_t put =
            pwrite(handle, (const char *)data + done, bytes - done, at + (int64_t)done);
        if (put < 0 && errno != EINTR)
            return cannot(e, "write", path);
        done += put > 0 ? (size_t)put : 0;
    }
    return 0;
}

/* Closes a written file; makes it durable if `status` is 0. */
static int finish(struct export *e, int handle, const char *path, int status)
{
    if (handle < 0)
        return -1;
    if (status == 0 && fsync(handle) != 0)
        status = cannot(e, "write", path);
    if (close(handle) != 0 && status == 0)
        status = cannot(e, "write", path);
    return status;
}

static int sync_folder(struct export *e, const char *path)
{
    return sw_file_sync_folder(path) == 0 ? 0 : cannot(e, "write", path);
}

/* ---- Files of tensors ---- */

struct copied {
    const struct sw_safetensor *from;
    enum sw_stored_dtype to; /* SW_STORED_DTYPES: unchanged bytes */
    int64_t element_bytes;   /* width as written */
    int64_t bytes, at;       /* at: after the header */
};

static int64_t count_elements(const struct sw_safetensor *t)
{
    int64_t count = 1;
    for (uint8_t d = 0; d < t->ndim; d++)
        count *= t->size[d];
    return count;
}

static struct copied plan_tensor(const struct export *e, const struct sw_safetensor *from)
{
    struct copied c = {.from = from, .to = SW_STORED_DTYPES, .bytes = from->bytes};
    const int64_t count = count_elements(from);
    if (from->dtype != SW_STORED_DTYPES && e->dtype != SW_STORED_DTYPES &&
        !sw_folder_is_buffer(from->name)) {
        c.to = e->dtype;
        c.bytes = count * (int64_t)sw_stored_dtype_bytes(c.to);
    }
    c.element_bytes = count > 0 ? c.bytes / count : 0;
    return c;
}

/* Orders by width, widest first, so that numbers are aligned; else as before. */
static int compare_widths(const void *left, const void *right)
{
    const struct copied *a = *(struct copied *const *)left, *b = *(struct copied *const *)right;
    if (a->element_bytes != b->element_bytes)
        return a->element_bytes > b->element_bytes ? -1 : 1;
    return (a > b) - (a < b);
}

/* Text of the header without padding, malloc'ed; NULL: no memory. */
static char *header_text(struct copied *const *order, int32_t count, size_t *bytes)
{
    char *text = NULL;
    struct sw_json j = {.out = open_memstream(&text, bytes), .style = SW_JSON_LINE};
    if (j.out == NULL)
        return NULL;
    sw_json_object(&j, NULL);
    sw_json_object(&j, "__metadata__");
    sw_json_text(&j, "format", "pt");
    sw_json_end(&j);
    for (int32_t i = 0; i < count; i++) {
        const struct copied *c = order[i];
        sw_json_object(&j, c->from->name);
        sw_json_text(&j, "dtype",
                     c->to == SW_STORED_DTYPES ? c->from->dtype_name : sw_stored_dtype_name(c->to));
        sw_json_array(&j, "shape");
        for (uint8_t d = 0; d < c->from->ndim; d++)
            sw_json_integer(&j, NULL, c->from->size[d]);
        sw_json_end(&j);
        sw_json_array(&j, "data_offsets");
        sw_json_integer(&j, NULL, c->at);
        sw_json_integer(&j, NULL, c->at + c->bytes);
        sw_json_end(&j);
        sw_json_end(&j);
    }
    sw_json_end(&j);
    const bool failed = ferror(j.out) != 0;
    if (fclose(j.out) == 0 && !failed)
        return text;
    free(text);
    return NULL;
}

/* Places the tensors and writes the header; *data_begin: start of data. */
static int write_header(struct export *e, int handle, const char *path, struct copied *copied,
                        int32_t count, int64_t *data_begin)
{
    int status = -1;
    size_t text_bytes = 0;
    int64_t at = 0;
    char *text = NULL, *header = NULL;
    struct copied **order = calloc((size_t)count + 1, sizeof *order);
    if (order == NULL)
        return out_of_memory(e);
    for (int32_t i = 0; i < count; i++)
        order[i] = &copied[i];
    qsort(order, (size_t)count, sizeof *order, compare_widths);
    for (int32_t i = 0; i < count; at += order[i++]->bytes)
        order[i]->at = at;
    text = header_text(order, count, &text_bytes);
    *data_begin = sw_align(LENGTH_BYTES + (int64_t)text_bytes, SW_STORED_DATA_ALIGNMENT);
    header = text != NULL ? malloc((size_t)*data_begin) : NULL;
    if (header == NULL) {
        out_of_memory(e);
        goto out;
    }
    memset(header, ' ', (size_t)*data_begin);
    for (int32_t i = 0; i < LENGTH_BYTES; i++)
        header[i] = (char)((uint64_t)(*data_begin - LENGTH_BYTES) >> 8 * i & 0xff);
    memcpy(header + LENGTH_BYTES, text, text_bytes);
    status = write_at(e, handle, path, header, (size_t)*data_begin, 0);
out:
    free(header);
    free(text);
    free(order);
    return status;
}

/* Converts count numbers from e->piece to e->converted. */
static int convert(struct export *e, const struct source *source, const struct copied *c,
                   int64_t count)
{
    static const char *const why[SW_STORED_DTYPES] = {
        [SW_STORED_F16] = "beyond the range of fp16; take --dtype bf16 or fp32",
        [SW_STORED_BF16] = "beyond the range of bf16; take --dtype fp32",
        [SW_STORED_F32] = "beyond the range of fp32; export other weights"};
    const enum sw_stored_dtype from = c->from->dtype;
    double number;
    sw_convert_numbers(e->converted, c->to, e->piece, from, count);
    const int64_t beyond = sw_convert_find_overflow(e->converted, c->to, e->piece, from, count);
    if (beyond < 0)
        return 0;
    sw_convert_numbers(&number, SW_STORED_F64,
                       e->piece + beyond * (int64_t)sw_stored_dtype_bytes(from), from, 1);
    return sw_fail_at(e->err, SW_BAD_INPUT, (struct sw_place){.file = source->path},
                      "'%s' has %g, which is %s", c->from->name, number, why[c->to]);
}

/* Converts numbers [first, first + count) of a weight with an adapter, rounded once. */
static int merge_piece(struct export *e, const struct source *source, const struct copied *c,
                       int64_t first, int64_t count)
{
    struct copied wide = *c;
    struct sw_safetensor numbers = *c->from;
    char *piece = e->piece;
    sw_convert_numbers(e->wide, SW_STORED_F64, e->piece, c->from->dtype, count);
    sw_adapter_merge_add(e->merge, e->wide, first, count);
    numbers.dtype = SW_STORED_F64;
    wide.from = &numbers;
    wide.to = c->to == SW_STORED_DTYPES ? c->from->dtype : c->to;
    e->piece = (char *)e->wide;
    const int status = convert(e, source, &wide, count);
    e->piece = piece;
    return status;
}

static int copy_tensor(struct export *e, struct source *source, int handle, const char *path,
                       const struct copied *c, int64_t data_begin)
{
    bool merged = false;
    if (e->merge != NULL && sw_adapter_merge_begin(e->merge, c->from, &merged, e->err) != 0)
        return -1;
    int64_t to = data_begin + c->at;
    for (int64_t done = 0; done < c->from->bytes;) {
        const int64_t left = c->from->bytes - done;
        const size_t bytes = left < PIECE_BYTES ? (size_t)left : (size_t)PIECE_BYTES;
        size_t written = bytes;
        if (read_source(e, source, e->piece, bytes) != 0)
            return -1;
        const bool same = !merged && (c->to == SW_STORED_DTYPES || c->to == c->from->dtype);
        if (!same) {
            const size_t width = sw_stored_dtype_bytes(c->from->dtype), count = bytes / width;
            written = count * (size_t)c->element_bytes;
            if ((merged ? merge_piece(e, source, c, done / (int64_t)width, (int64_t)count)
                        : convert(e, source, c, (int64_t)count)) != 0)
                return -1;
        }
        if (write_at(e, handle, path, same ? e->piece : e->converted, written, to) != 0)
            return -1;
        done += (int64_t)bytes;
        to += (int64_t)written;
    }
    return 0;
}

/* Reads the header again for its checksum. */
static int skip_header(struct export *e, struct source *source, const struct sw_safetensors *header)
{
    if (source->bytes != header->file_bytes)
        return sw_fail_at(e->err, SW_BAD_INPUT, (struct sw_place){.file = source->path},
                          "changed while it was read");
    for (int64_t left = header->data_begin; left > 0;) {
        const size_t bytes = left < PIECE_BYTES ? (size_t)left : (size_t)PIECE_BYTES;
        if (read_source(e, source, e->piece, bytes) != 0)
            return -1;
        left -= (int64_t)bytes;
    }
    return 0;
}

/* Adds the tensors' bytes to *bytes. */
static int copy_model_file(struct export *e, const struct sw_folder_file *file, int64_t *bytes)
{
    const struct sw_safetensors *header = &file->header;
    struct source source;
    char *path = NULL;
    int64_t data_begin = 0;
    int status = -1, handle = -1;
    struct copied *copied = calloc((size_t)header->count + 1, sizeof *copied);
    if (copied == NULL)
        return out_of_memory(e);
    for (int32_t i = 0; i < header->count; i++) {
        copied[i] = plan_tensor(e, &header->tensor[i]);
        *bytes += copied[i].bytes;
    }
    if (open_source(e, file->name, true, &source) != 0 || skip_header(e, &source, header) != 0)
        goto out;
    handle = create(e, file->name, &path);
    if (handle < 0 || write_header(e, handle, path, copied, header->count, &data_begin) != 0)
        goto out;
    status = 0;
    for (int32_t i = 0; i < header->count && status == 0; i++)
        status = copy_tensor(e, &source, handle, path, &copied[i], data_begin);
    if (status == 0)
        status = sw_checked_close(&e->checked, e->err);
out:
    if (handle >= 0)
        status = finish(e, handle, path, status);
    close_source(&source);
    free(path);
    free(copied);
    return status;
}

/* ---- Other files ---- */

/* Makes the file's folder in the temporary one; again: true to sync it, once it has the file. */
static int make_within(struct export *e, const char *name, bool again)
{
    char *path = sw_path_join(e->aside, name);
    char *folder = path != NULL ? sw_path_folder(path) : NULL;
    int status = folder == NULL ? out_of_memory(e) : 0;
    if (status == 0 && again)
        status = sync_folder(e, folder);
    else if (status == 0 && mkdir(folder, 0777) != 0 && errno != EEXIST)
        status = cannot(e, "create the folder", folder);
    free(folder);
    free(path);
    return status;
}

/* write: false: only compares with the manifest. */
static int copy_other(struct export *e, const char *name, bool needed, bool write)
{
    struct source source;
    char *path = NULL;
    const bool within = write && strchr(name, '/') != NULL;
    int status = -1, handle = -1;
    if (open_source(e, name, needed, &source) != 0)
        goto out;
    if (write &&
        ((within && make_within(e, name, false) != 0) || (handle = create(e, name, &path)) < 0))
        goto out;
    status = 0;
    for (int64_t at = 0; at < source.bytes && status == 0;) {
        const int64_t left = source.bytes - at;
        const size_t bytes = left < PIECE_BYTES ? (size_t)left : (size_t)PIECE_BYTES;
        status = read_source(e, &source, e->piece, bytes);
        if (status == 0 && write)
            status = write_at(e, handle, path, e->piece, bytes, at);
        at += (int64_t)bytes;
    }
    if (status == 0)
        status = sw_checked_close(&e->checked, e->err);
out:
    if (handle >= 0)
        status = finish(e, handle, path, status);
    if (status == 0 && within)
        status = make_within(e, name, true);
    close_source(&source);
    free(path);
    return status;
}

static int write_text(struct export *e, const char *name, const char *text)
{
    char *path = NULL;
    const int handle = create(e, name, &path);
    int status = -1;
    if (handle >= 0)
        status = finish(e, handle, path, write_at(e, handle, path, text, strlen(text), 0));
    free(path);
    return status;
}

static int write_index(struct export *e, int64_t bytes)
{
    int32_t count = 0, n = 0;
    char *text = NULL;
    for (int32_t f = 0; f < e->from.count; f++)
        count += e->from.file[f].header.count;
    struct sw_index_entry *entry = calloc((size_t)count + 1, sizeof *entry);
    if (entry == NULL)
        return out_of_memory(e);
    for (int32_t f = 0; f < e->from.count; f++)
        for (int32_t t = 0; t < e->from.file[f].header.count; t++)
            entry[n++] = (struct sw_index_entry){e->from.file[f].header.tensor[t].name,
                                                 e->from.file[f].name};
    int status = sw_model_index_write(entry, count, bytes, &text, e->err);
    if (status == 0)
        status = write_text(e, SW_MODEL_INDEX_FILE, text);
    free(text);
    free(entry);
    return status;
}

/* ---- The copy ---- */

static int read_config(struct export *e)
{
    size_t bytes = 0;
    char *path = sw_folder_path(&e->from, "config.json", e->err);
    if (path == NULL)
        return -1;
    const int status = sw_file_read(path, true, CONFIG_MOST_BYTES, &e->config, &bytes, NULL);
    if (status != 0)
        cannot(e, "read", path);
    free(path);
    return status;
}

/* Copies tokenizer files, except those already copied from the adapters' folder. */
static int copy_others(struct export *e)
{
    for (int32_t i = 0; i < e->from.other_count; i++) {
        bool has = false;
        for (int32_t k = 0; k < e->adapter.other_count; k++)
            has = has || strcmp(e->adapter.other[k], e->from.other[i]) == 0;
        if (!has && copy_other(e, e->from.other[i], false, true) != 0)
            return -1;
    }
    return 0;
}

/* Writes adapters separately. */
static int write_adapter(struct export *e)
{
    int64_t bytes = 0;
    return copy_other(e, SW_ADAPTER_CONFIG, true, true) != 0 || copy_others(e) != 0 ||
                   copy_model_file(e, &e->from.file[0], &bytes) != 0
               ? -1
               : sync_folder(e, e->aside);
}

static int write_model(struct export *e)
{
    const bool single = strcmp(e->from.file[0].name, SW_MODEL_FILE) == 0;
    char *config = NULL;
    int64_t bytes = 0;
    if (sw_model_config_copy(&e->from.model, e->dtype, e->config, &config, e->err) != 0)
        return -1;
    int status = write_text(e, "config.json", config);
    free(config);
    if (status != 0 || copy_other(e, "config.json", true, false) != 0 ||
        (!single && copy_other(e, SW_MODEL_INDEX_FILE, true, false) != 0))
        return -1;
    if (copy_others(e) != 0)
        return -1;
    for (int32_t i = 0; i < e->from.count; i++)
        if (copy_model_file(e, &e->from.file[i], &bytes) != 0)
            return -1;
    if (!single && write_index(e, bytes) != 0)
        return -1;
    return sync_folder(e, e->aside);
}

/* Empties the temporary folder: files, and folders of files. */
static int empty(int folder, bool within)
{
    DIR *stream = folder >= 0 ? fdopendir(folder) : NULL;
    int status = 0;
    if (stream == NULL)
        return -1;
    for (struct dirent *entry; (entry = readdir(stream)) != NULL;) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
            unlinkat(dirfd(stream), name, 0) == 0)
            continue;
        const int inner =
            within ? -1
                   : openat(dirfd(stream), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (inner < 0 || empty(inner, true) != 0 ||
            unlinkat(dirfd(stream), name, AT_REMOVEDIR) != 0)
            status = -1;
    }
    closedir(stream);
    return status;
}

static int empty_aside(const struct export *e)
{
    return empty(open(e->aside, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), false);
}

static int refuse_existing(struct export *e)
{
    struct stat there;
    if (lstat(e->to, &there) != 0)
        return 0;
    return sw_fail_at(e->err, SW_BAD_INPUT, (struct sw_place){.file = e->to},
                      "already exists; give the copy another name, or remove it");
}

/* Derives both folders' names; does not touch TO. */
static int name_folders(struct export *e, const char *to)
{
    size_t length = strlen(to);
    while (length > 1 && to[length - 1] == '/')
        length--;
    const size_t room = length + 40;
    e->to = strndup(to, length);
    e->aside = malloc(room);
    if (e->to == NULL || e->aside == NULL)
        return sw_fail(e->err, SW_ENVIRONMENT, "out of memory for the copy '%s'", to);
    const char *name = sw_path_name(e->to);
    snprintf(e->aside, room, "%.*s.%s.partial", (int)(name - e->to), e->to, name);
    return refuse_existing(e);
}

/* Makes the temporary folder and locks it until the process ends: removes a killed export's
 * leftovers, refuses one that another process writes. */
static int make_aside(struct export *e)
{
    struct stat held, there;
    if (mkdir(e->aside, 0777) != 0 && errno != EEXIST) {
        const int reason = errno;
        (void)cannot(e, "create the folder", e->aside);
        return sw_path_blame(e->err, reason, "name another folder for the copy");
    }
    const int folder = open(e->aside, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0)
        return cannot(e, "open the folder", e->aside);
    const bool busy = flock(folder, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    /* another process may have renamed or removed it since it was opened */
    if (busy || fstat(folder, &held) != 0 || lstat(e->aside, &there) != 0 ||
        held.st_ino != there.st_ino || held.st_dev != there.st_dev) {
        close(folder);
        return sw_fail_at(e->err, SW_ENVIRONMENT, (struct sw_place){.file = e->to},
                          "is being written by another export; wait for it, or give the copy "
                          "another name");
    }
    e->claim = folder;
    return empty_aside(e) == 0 ? 0 : cannot(e, "empty the folder", e->aside);
}

static int put_in_place(struct export *e)
{
    if (refuse_existing(e) != 0)
        return -1;
    if (rename(e->aside, e->to) != 0)
        return cannot(e, "write", e->to);
    char *above = sw_path_folder(e->to);
    const int status = above != NULL ? sync_folder(e, above) : out_of_memory(e);
    free(above);
    return status;
}

/* ---- Adapters ---- */

/* Opens the adapters' base model. */
static int open_base(struct export *e, const char *path)
{
    const struct sw_manifest *then = &e->checked.manifest;
    const bool named = path != NULL;
    uint64_t digest;
    struct stat info;
    path = named                          ? path
           : e->checked.has_manifest      ? then->base_path
           : *e->from.config.base != '\0' ? e->from.config.base
                                          : "";
    if (*path == '\0')
        return sw_fail_at(e->err, SW_BAD_INPUT, (struct sw_place){.file = e->from.path},
                          "its adapters do not say which model they stand on; name its folder with "
                          "--base DIR, or take --unmerged");
    if (!named && (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)))
        return sw_fail_at(e->err, SW_BAD_INPUT, (struct sw_place){.file = e->from.path},
                          "its adapters stand on the model '%.300s', which is not a folder here; "
                          "name its folder with --base DIR",
                          path);
    struct sw_model_folder base;
    if (sw_model_folder_open(path, false, &base, e->err) != 0)
        return -1;
    int status = 0;
    if (base.adapter)
        status = sw_fail_at(e->err, SW_BAD_INPUT, (struct sw_place){.file = path},
                            "holds adapters; name the model that they stand on with --base DIR");
    else if (e->checked.has_manifest && *then->base_path != '\0')
        status = sw_base_model_digest(&base, &digest, e->err);
    if (status == 0 && !base.adapter && e->checked.has_manifest && *then->base_path != '\0' &&
        digest != then->base_digest)
        status = sw_fail_at(e->err, SW_BAD_INPUT, (struct sw_place){.file = path},
                            "has other weights than the model that the adapters in '%.300s' stand "
                            "on; name that with --base DIR",
                            e->from.path);
    e->adapter = e->from;
    e->from = base;
    return status;
}

/* Reads the adapters once for their checksums, and copies the files beside them. */
static int take_adapter(struct export *e)
{
    const struct sw_folder_file *file = &e->from.file[0];
    struct source source = {.handle = -1};
    int status = copy_others(e) != 0 || copy_other(e, SW_ADAPTER_CONFIG, true, false) != 0
                     ? -1
                     : open_source(e, file->name, true, &source);
    for (int64_t at = 0; at < source.bytes && status == 0;) {
        const int64_t left = source.bytes - at;
        const size_t bytes = left < PIECE_BYTES ? (size_t)left : (size_t)PIECE_BYTES;
        status = read_source(e, &source, e->piece, bytes);
        at += (int64_t)bytes;
    }
    if (status == 0)
        status = sw_checked_close(&e->checked, e->err);
    close_source(&source);
    return status;
}

/* Switches `from` to the model that the adapters are merged into. */
static int begin_merge(struct export *e, const char *base)
{
    e->wide = malloc((size_t)PIECE_BYTES * GROWTH);
    if (e->wide == NULL)
        return out_of_memory(e);
    if (take_adapter(e) != 0 || open_base(e, base) != 0)
        return -1;
    sw_checked_end(&e->checked);
    e->checked = (struct sw_checked){0};
    return sw_adapter_merge_create(&e->adapter, &e->from, &e->merge, e->err) != 0 ||
                   sw_checked_begin(&e->checked, e->from.path, e->err) != 0
               ? -1
               : 0;
}

static int write_all(struct export *e, const struct sw_export_options *options)
{
    if (e->from.adapter && options->unmerged)
        return write_adapter(e);
    if (e->from.adapter && begin_merge(e, options->base) != 0)
        return -1;
    if (read_config(e) != 0)
        return -1;
    if (e->dtype == SW_STORED_DTYPES)
        e->dtype = sw_model_original_dtype(e->config);
    return write_model(e);
}

int sw_model_export(const char *from, const char *to, const struct sw_export_options *options,
                    struct sw_error *err)
{
    struct export e = {.dtype = options->dtype, .claim = -1, .err = err};
    int status = -1;
    if (sw_model_folder_open(from, false, &e.from, err) != 0)
        return -1;
    if (!e.from.adapter && (options->unmerged || options->base != NULL)) {
        sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = e.from.path},
                   "holds a model; --base and --unmerged are of adapters");
        goto out;
    }
    if (name_folders(&e, to) != 0 || sw_checked_begin(&e.checked, e.from.path, err) != 0)
        goto out;
    e.piece = malloc(PIECE_BYTES);
    e.converted = malloc((size_t)PIECE_BYTES * GROWTH);
    if (e.piece == NULL || e.converted == NULL) {
        out_of_memory(&e);
        goto out;
    }
    if (make_aside(&e) == 0)
        status = write_all(&e, options) == 0 ? put_in_place(&e) : -1;
out:
    if (e.claim >= 0) {
        if (status != 0) {
            (void)empty_aside(&e);
            (void)rmdir(e.aside);
        }
        close(e.claim);
    }
    sw_checked_end(&e.checked);
    sw_adapter_merge_free(e.merge);
    free(e.wide);
    free(e.piece);
    free(e.converted);
    free(e.config);
    free(e.aside);
    free(e.to);
    sw_model_folder_free(&e.adapter);
    sw_model_folder_free(&e.from);
    return status;
}
