#include "core/checkpoint/manifest.h"

#include "core/base/file.h"
#include "core/base/json.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char schema[] = "shardwright.checkpoint/1";
/* The manifest's own checksum covers the text up to here; the rest has one form and one length. */
static const char tail_begin[] = ",\n  \"checksum\": \"", tail_end[] = "\"\n}\n";

enum {
    DIGITS = 32, /* hexadecimal digits of a checksum */
    TAIL_BYTES = sizeof tail_begin - 1 + DIGITS + sizeof tail_end - 1,
    MOST_BYTES = 64 << 20,
    NAME_BYTES = 255
};
static const int64_t most_file_bytes = INT64_C(1) << 60;

/* ---- Fields ---- */

enum kind { INTEGER /* not negative */, HEX, REAL, TEXT, FLAG };

struct field {
    const char *key;
    enum kind kind;
    size_t offset, bytes;
};
#define AT(kind, field)                                                                            \
    {                                                                                              \
#field, kind, offsetof(struct sw_manifest, field), sizeof((struct sw_manifest *)0)->field  \
    }
static const struct field fields[] = {
    AT(TEXT, run),
    AT(INTEGER, step),
    AT(INTEGER, next_sequence),
    AT(INTEGER, attempt),
    AT(HEX, seed),
    AT(HEX, plan_digest),
    AT(TEXT, optimizer),
    AT(TEXT, data_path),
    AT(REAL, data_holdout),
    AT(INTEGER, data_tokens),
    AT(INTEGER, sequence_length),
    AT(INTEGER, global_batch_size),
    AT(INTEGER, total_steps),
    AT(TEXT, settings),
    AT(TEXT, mesh),
    AT(FLAG, finished),
    AT(INTEGER, slice_bytes),
    AT(TEXT, base_path),
    AT(HEX, base_digest),
};
/* Members of the object "spikes", which only a run with spike detection has. */
#define SPIKES(kind, field)                                                                        \
    {                                                                                              \
#field, kind, offsetof(struct sw_spikes, field), sizeof((struct sw_spikes *)0)->field      \
    }
static const struct field spike_fields[] = {
    SPIKES(INTEGER, seen),           SPIKES(REAL, loss_mean),     SPIKES(REAL, loss_variance),
    SPIKES(REAL, norm_mean),         SPIKES(REAL, norm_variance), SPIKES(INTEGER, skips),
    SPIKES(INTEGER, skips_in_a_row), SPIKES(INTEGER, rewinds),
};
#undef SPIKES
#undef AT
/* Optional members, present together if base_path is not empty. */
enum {
    OPTIONAL_FIELDS = 2,
    FIELDS = sizeof fields / sizeof fields[0] - OPTIONAL_FIELDS,
    SPIKE_FIELDS = sizeof spike_fields / sizeof spike_fields[0],
    MEMBERS = FIELDS + 3
};

static void write_hex(char *out, uint64_t value)
{
    for (int i = 0; i < 16; i++)
        out[i] = "0123456789abcdef"[value >> (60 - 4 * i) & 15];
}

/* Reads lower case only, so that every value has one text. */
static bool read_hex(const char *text, uint64_t *value)
{
    static const char digits[] = "0123456789abcdef";
    *value = 0;
    for (int i = 0; i < 16; i++) {
        const char *digit = text[i] != '\0' ? strchr(digits, text[i]) : NULL;
        if (digit == NULL)
            return false;
        *value = *value << 4 | (uint64_t)(digit - digits);
    }
    return true;
}

static void write_checksum(char *out, struct sw_checksum sum)
{
    write_hex(out, sum.high); /* same digits as xxhsum's */
    write_hex(out + 16, sum.low);
}

static bool read_checksum(const char *text, struct sw_checksum *sum)
{
    return read_hex(text, &sum->high) && read_hex(text + 16, &sum->low);
}

/* ---- Slices and files ---- */

static int64_t count_slices(int64_t bytes, int64_t data_begin, int64_t slice_bytes)
{
    if (data_begin == 0)
        return 1;
    if (bytes == data_begin)
        return 1;
    return 1 + (bytes - 1) / slice_bytes - data_begin / slice_bytes + 1;
}

int32_t sw_manifest_slices(int64_t bytes, int64_t data_begin, int64_t slice_bytes)
{
    const int64_t count = count_slices(bytes, data_begin, slice_bytes);
    assert(count <= INT32_MAX);
    return (int32_t)count;
}

void sw_manifest_slice(int64_t bytes, int64_t data_begin, int64_t slice_bytes, int32_t i,
                       int64_t *begin, int64_t *end)
{
    if (i == 0) {
        *begin = 0;
        *end = data_begin == 0 ? bytes : data_begin;
        return;
    }
    const int64_t k = data_begin / slice_bytes + i - 1;
    *begin = k * slice_bytes > data_begin ? k * slice_bytes : data_begin;
    *end = bytes - k * slice_bytes > slice_bytes ? (k + 1) * slice_bytes : bytes;
}

/* True if it is UTF-8, which JSON requires. */
static bool is_text(const char *text)
{
    json_t *value = json_string(text);
    json_decref(value);
    return value != NULL;
}

const char *const sw_manifest_folders[] = {"optimizer", "additional_chat_templates", NULL};

bool sw_manifest_takes(const char *name)
{
    if (strlen(name) > NAME_BYTES || strcmp(name, SW_MANIFEST_NAME) == 0 || !is_text(name))
        return false;
    for (const char *const *below = sw_manifest_folders; *below != NULL; below++) {
        const size_t bytes = strlen(*below);
        if (strncmp(name, *below, bytes) == 0 && name[bytes] == '/') {
            name += bytes + 1;
            break;
        }
    }
    if (*name == '\0' || *name == '.')
        return false;
    for (const unsigned char *p = (const unsigned char *)name; *p != '\0'; p++)
        if (*p < 0x20 || *p == 0x7f || (*p == 0xc2 && p[1] < 0xa0) || *p == '/' || *p == '\\')
            return false;
    return true;
}

/* Does not check the name; the caller does. */
static struct sw_manifest_file *add(struct sw_manifest *manifest, const char *name, int64_t bytes,
                                    int64_t data_begin)
{
    const int32_t count = manifest->file_count;
    if ((count & (count - 1)) == 0) { /* grows at powers of two */
        struct sw_manifest_file *grown =
            realloc(manifest->file, sizeof *grown * (count == 0 ? 1 : 2 * (size_t)count));
        if (grown == NULL)
            return NULL;
        manifest->file = grown;
    }
    struct sw_manifest_file *file = &manifest->file[count];
    *file = (struct sw_manifest_file){
        .name = strdup(name),
        .bytes = bytes,
        .data_begin = data_begin,
        .slice_count = sw_manifest_slices(bytes, data_begin, manifest->slice_bytes)};
    file->slice = calloc((size_t)file->slice_count, sizeof *file->slice);
    if (file->name == NULL || file->slice == NULL) {
        free(file->name);
        free(file->slice);
        return NULL;
    }
    manifest->file_count++;
    return file;
}

static bool fits(const struct sw_manifest *manifest, int64_t bytes, int64_t data_begin)
{
    return bytes >= 0 && bytes <= most_file_bytes && data_begin >= 0 && data_begin <= bytes &&
           (data_begin == 0 || manifest->slice_bytes > 0) &&
           count_slices(bytes, data_begin, manifest->slice_bytes) <= INT32_MAX;
}

int sw_manifest_add(struct sw_manifest *manifest, const char *name, int64_t bytes,
                    int64_t data_begin, struct sw_manifest_file **out, struct sw_error *err)
{
    if (!sw_manifest_takes(name) || sw_manifest_find(manifest, name) != NULL)
        return sw_fail(err, SW_BAD_INPUT, "a checkpoint cannot have %s file '%.255s'",
                       sw_manifest_takes(name) ? "a second" : "a", name);
    if (!fits(manifest, bytes, data_begin))
        return sw_fail(err, SW_BAD_INPUT,
                       "the file '%s' of %" PRId64 " bytes, data from %" PRId64
                       ", does not fit slices of %" PRId64,
                       name, bytes, data_begin, manifest->slice_bytes);
    struct sw_manifest_file *file = add(manifest, name, bytes, data_begin);
    if (file == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the checkpoint's manifest");
    if (out != NULL)
        *out = file;
    return 0;
}

void sw_manifest_free(struct sw_manifest *manifest)
{
    if (manifest == NULL)
        return;
    for (int32_t i = 0; i < manifest->file_count; i++) {
        free(manifest->file[i].name);
        free(manifest->file[i].slice);
    }
    free(manifest->file);
    *manifest = (struct sw_manifest){0};
}

const struct sw_manifest_file *sw_manifest_find(const struct sw_manifest *manifest,
                                                const char *name)
{
    for (int32_t i = 0; i < manifest->file_count; i++)
        if (strcmp(manifest->file[i].name, name) == 0)
            return &manifest->file[i];
    return NULL;
}

/* ---- Writing ---- */

/* Writes a path for people, not to be followed: bytes that are no UTF-8 become '?'. */
static void write_text(struct sw_json *j, const char *key, const char *text)
{
    char shown[sizeof((struct sw_manifest *)0)->data_path];
    snprintf(shown, sizeof shown, "%s", text);
    if (!is_text(text))
        for (char *p = shown; *p != '\0'; p++)
            if ((unsigned char)*p >= 0x80)
                *p = '?';
    sw_json_text(j, key, shown);
}

static void write_field(struct sw_json *j, const struct field *field, const void *value)
{
    char digits[17] = "", number[32];
    switch (field->kind) {
    case INTEGER:
        sw_json_integer(j, field->key, *(const int64_t *)value);
        break;
    case HEX:
        write_hex(digits, *(const uint64_t *)value);
        sw_json_text(j, field->key, digits);
        break;
    case REAL: { /* enough digits to read back the same number */
        const double real = *(const double *)value;
        snprintf(number, sizeof number, "%.15g", real);
        sw_json_digits(j, field->key, real, strtod(number, NULL) == real ? 15 : 17);
        break;
    }
    case TEXT:
        write_text(j, field->key, value);
        break;
    case FLAG:
        sw_json_bool(j, field->key, *(const bool *)value);
        break;
    }
}

static void write_spikes(struct sw_json *j, const struct sw_spikes *spikes)
{
    if (!spikes->watched)
        return;
    sw_json_object(j, "spikes");
    for (int i = 0; i < SPIKE_FIELDS; i++)
        write_field(j, &spike_fields[i], (const char *)spikes + spike_fields[i].offset);
    sw_json_end(j);
}

/* False: no memory. */
static bool write_file(struct sw_json *j, const struct sw_manifest_file *file)
{
    char *digits = calloc((size_t)file->slice_count, DIGITS);
    if (digits == NULL)
        return false;
    for (int32_t i = 0; i < file->slice_count; i++)
        write_checksum(digits + (size_t)i * DIGITS, file->slice[i]);
    sw_json_object(j, NULL);
    sw_json_text(j, "name", file->name);
    sw_json_integer(j, "bytes", file->bytes);
    sw_json_integer(j, "data_begin", file->data_begin);
    sw_json_raw(j, "checksums", "\"", 1);
    fwrite(digits, DIGITS, (size_t)file->slice_count, j->out);
    fputc('"', j->out);
    sw_json_end(j);
    free(digits);
    return true;
}

int sw_manifest_text(const struct sw_manifest *manifest, char **text, size_t *bytes,
                     struct sw_error *err)
{
    char own[DIGITS + 1] = "";
    bool good = true;
    *text = NULL;
    FILE *out = open_memstream(text, bytes);
    if (out == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the checkpoint's manifest");
    struct sw_json j = {.out = out, .style = SW_JSON_SPACES};
    sw_json_object(&j, NULL);
    sw_json_text(&j, "schema", schema);
    for (int i = 0; i < FIELDS + (*manifest->base_path != '\0' ? OPTIONAL_FIELDS : 0); i++)
        write_field(&j, &fields[i], (const char *)manifest + fields[i].offset);
    if (manifest->idle_steps > 0)
        sw_json_integer(&j, "idle_steps", manifest->idle_steps);
    if (manifest->earlier_updates > 0)
        sw_json_integer(&j, "earlier_updates", manifest->earlier_updates);
    write_spikes(&j, &manifest->spikes);
    sw_json_array(&j, "files");
    for (int32_t i = 0; i < manifest->file_count; i++)
        good = good && write_file(&j, &manifest->file[i]);
    sw_json_end(&j);
    good = good && fflush(out) == 0;
    if (good)
        write_checksum(own, sw_checksum_of(*text, *bytes));
    sw_json_text(&j, "checksum", own);
    sw_json_end(&j);
    fputc('\n', out);
    good = good && !ferror(out);
    if (fclose(out) == 0 && good && *bytes <= MOST_BYTES)
        return 0;
    free(*text);
    *text = NULL;
    return good && *bytes > MOST_BYTES
               ? sw_fail(err, SW_BAD_INPUT,
                         "the checkpoint's manifest has %zu bytes, more than it can have", *bytes)
               : sw_fail(err, SW_ENVIRONMENT, "out of memory for the checkpoint's manifest");
}

/* ---- Reading ---- */

static bool read_integer(const json_t *json, int64_t *out)
{
    if (!json_is_integer(json) || json_integer_value(json) < 0)
        return false;
    *out = json_integer_value(json);
    return true;
}

static bool read_field(const struct field *field, const json_t *json, void *value)
{
    const char *text = json_string_value(json);
    switch (field->kind) {
    case INTEGER:
        return read_integer(json, value);
    case HEX:
        return text != NULL && strlen(text) == 16 && read_hex(text, value);
    case REAL:
        *(double *)value = json_number_value(json);
        return json_is_number(json);
    case TEXT:
        if (text == NULL || strlen(text) >= field->bytes)
            return false;
        memcpy(value, text, strlen(text) + 1);
        return true;
    case FLAG:
        *(bool *)value = json_is_true(json);
        return json_is_boolean(json);
    }
    return false;
}

/* Mistake in an entry of "files"; NULL: none. */
static const char *read_file(struct sw_manifest *manifest, const json_t *json)
{
    int64_t bytes, data_begin;
    const char *name = json_string_value(json_object_get(json, "name"));
    const char *sums = json_string_value(json_object_get(json, "checksums"));
    if (json_object_size(json) != 4 || name == NULL || sums == NULL ||
        !read_integer(json_object_get(json, "bytes"), &bytes) ||
        !read_integer(json_object_get(json, "data_begin"), &data_begin))
        return "is none";
    if (!sw_manifest_takes(name))
        return "has a name that is not that of a checkpoint's file";
    if (!fits(manifest, bytes, data_begin) ||
        strlen(sums) != DIGITS * (uint64_t)count_slices(bytes, data_begin, manifest->slice_bytes))
        return "has a size that does not fit its checksums";
    struct sw_manifest_file *file = add(manifest, name, bytes, data_begin);
    if (file == NULL)
        return "";
    for (int32_t i = 0; i < file->slice_count; i++)
        if (!read_checksum(sums + (size_t)i * DIGITS, &file->slice[i]))
            return "has an invalid checksum";
    return NULL;
}

static int by_name(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

/* A name that two files have; NULL: none. *good is set to false without memory. */
static const char *find_twice(const struct sw_manifest *manifest, bool *good)
{
    const char *twice = NULL;
    const size_t count = (size_t)manifest->file_count;
    const char **names = calloc(count + 1, sizeof *names);
    *good = names != NULL;
    if (names == NULL)
        return NULL;
    for (size_t i = 0; i < count; i++)
        names[i] = manifest->file[i].name;
    qsort(names, count, sizeof *names, by_name);
    for (size_t i = 1; i < count && twice == NULL; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            twice = names[i];
    free(names);
    return twice;
}

static int read_files(struct sw_place at, const json_t *files, struct sw_manifest *out,
                      struct sw_error *err)
{
    bool good;
    if (!json_is_array(files) || json_array_size(files) > INT32_MAX / 2)
        return sw_fail_at(err, SW_BAD_INPUT, at, "its 'files' are not a list");
    for (size_t i = 0; i < json_array_size(files); i++) {
        const char *wrong = read_file(out, json_array_get(files, i));
        if (wrong == NULL)
            continue;
        if (*wrong == '\0')
            return sw_fail(err, SW_ENVIRONMENT, "out of memory for the checkpoint's manifest");
        return sw_fail_at(err, SW_BAD_INPUT, at, "entry %zu of its 'files' %s", i, wrong);
    }
    const char *twice = find_twice(out, &good);
    if (!good)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the checkpoint's manifest");
    if (twice != NULL)
        return sw_fail_at(err, SW_BAD_INPUT, at, "its 'files' have '%s' twice", twice);
    return 0;
}

static bool read_spikes(const json_t *json, struct sw_spikes *out)
{
    for (int i = 0; i < SPIKE_FIELDS; i++)
        if (!read_field(&spike_fields[i], json_object_get(json, spike_fields[i].key),
                        (char *)out + spike_fields[i].offset))
            return false;
    out->watched = true;
    return json_object_size(json) == SPIKE_FIELDS && out->loss_variance >= 0 &&
           out->norm_variance >= 0;
}

static int read_members(struct sw_place at, const json_t *root, struct sw_manifest *out,
                        struct sw_error *err)
{
    const char *version = json_string_value(json_object_get(root, "schema"));
    if (version == NULL || strcmp(version, schema) != 0)
        return sw_fail_at(err, SW_BAD_INPUT, at,
                          "its schema is not '%s'; it was written by another version", schema);
    const int more = json_object_get(root, fields[FIELDS].key) != NULL ? OPTIONAL_FIELDS : 0;
    for (int i = 0; i < FIELDS + more; i++)
        if (!read_field(&fields[i], json_object_get(root, fields[i].key),
                        (char *)out + fields[i].offset))
            return sw_fail_at(err, SW_BAD_INPUT, at, "its '%s' is missing or invalid",
                              fields[i].key);
    if (more > 0 && *out->base_path == '\0')
        return sw_fail_at(err, SW_BAD_INPUT, at, "its '%s' is missing or invalid",
                          fields[FIELDS].key);
    if (out->slice_bytes == 0)
        return sw_fail_at(err, SW_BAD_INPUT, at, "its 'slice_bytes' is missing or invalid");
    const json_t *spikes = json_object_get(root, "spikes");
    if (spikes != NULL && !read_spikes(spikes, &out->spikes))
        return sw_fail_at(err, SW_BAD_INPUT, at, "its 'spikes' is invalid");
    const json_t *idle = json_object_get(root, "idle_steps");
    if (idle != NULL && (!read_integer(idle, &out->idle_steps) || out->idle_steps == 0 ||
                         out->idle_steps > out->step))
        return sw_fail_at(err, SW_BAD_INPUT, at, "its 'idle_steps' is invalid");
    const json_t *earlier = json_object_get(root, "earlier_updates");
    if (earlier != NULL &&
        (!read_integer(earlier, &out->earlier_updates) || out->earlier_updates == 0))
        return sw_fail_at(err, SW_BAD_INPUT, at, "its 'earlier_updates' is invalid");
    if (json_object_size(root) !=
        (size_t)(MEMBERS + more + (spikes != NULL) + (idle != NULL) + (earlier != NULL)))
        return sw_fail_at(err, SW_BAD_INPUT, at, "it has keys that a manifest does not have");
    return read_files(at, json_object_get(root, "files"), out, err);
}

int sw_manifest_parse(const char *path, const char *text, size_t bytes, struct sw_manifest *out,
                      struct sw_error *err)
{
    const struct sw_place at = {.file = path};
    const size_t begin = sizeof tail_begin - 1, end = sizeof tail_end - 1;
    struct sw_checksum own;
    *out = (struct sw_manifest){0};
    if (bytes > MOST_BYTES)
        return sw_fail_at(err, SW_BAD_INPUT, at, "it has %zu bytes, more than a manifest has",
                          bytes);
    const char *tail = bytes >= TAIL_BYTES ? text + bytes - TAIL_BYTES : NULL;
    if (tail == NULL || memcmp(tail, tail_begin, begin) != 0 ||
        memcmp(text + bytes - end, tail_end, end) != 0 || !read_checksum(tail + begin, &own))
        return sw_fail_at(err, SW_BAD_INPUT, at,
                          "no checksum at its end; it is not a manifest, or it was cut off");
    if (!sw_checksum_equal(own, sw_checksum_of(text, bytes - TAIL_BYTES)))
        return sw_fail_at(err, SW_BAD_INPUT, at,
                          "its own checksum is wrong; it was changed or damaged");
    json_error_t why;
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &why);
    if (root == NULL) {
        if (json_error_code(&why) == json_error_out_of_memory)
            return sw_fail(err, SW_ENVIRONMENT, "out of memory for the checkpoint's manifest");
        return sw_fail_at(err, SW_BAD_INPUT, at, "it is not JSON from line %d on", why.line);
    }
    const int status = read_members(at, root, out, err);
    json_decref(root);
    if (status != 0)
        sw_manifest_free(out);
    return status;
}

/* True if a failed read means that the file is no manifest; other failures may be temporary. */
static bool is_of_the_file(int code)
{
    static const int codes[] = {EISDIR, ELOOP, EFBIG, ESPIPE, ENXIO, ENODEV, EINVAL};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        if (code == codes[i])
            return true;
    return false;
}

int sw_manifest_read(const char *folder, struct sw_manifest *out, char **text, size_t *bytes,
                     struct sw_error *err)
{
    char *read = NULL;
    size_t length = 0;
    int status = -1;
    *out = (struct sw_manifest){0};
    char *path = sw_path_join(folder, SW_MANIFEST_NAME);
    if (path == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the path '%.60s'", folder);
    const struct sw_place at = {.file = path};
    if (sw_file_read(path, true, MOST_BYTES, &read, &length, NULL) == 0)
        status = sw_manifest_parse(path, read, length, out, err);
    else if (errno == ENOENT || errno == ENOTDIR)
        sw_fail_at(err, SW_BAD_INPUT, at, "it is missing; a folder without it is not a checkpoint");
    else
        sw_fail_at(err, is_of_the_file(errno) ? SW_BAD_INPUT : SW_ENVIRONMENT, at,
                   "cannot read it: %s", strerror(errno));
    free(path);
    if (status != 0 || text == NULL) {
        free(read);
        return status;
    }
    *text = read;
    *bytes = length;
    return 0;
}
