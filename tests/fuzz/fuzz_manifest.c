/* Any bytes as a manifest: as they are, and with the checksum that belongs to them, since anyone
 * can compute one. A refusal is one line; what is accepted names plain files inside the folder,
 * with slices that cover them, and is written and read back with the same result. */
#include "core/checkpoint/manifest.h"
#include "tests/fuzz/support.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check_file(const struct sw_manifest *m, const struct sw_manifest_file *f)
{
    const char *name = f->name;
    int64_t at = 0, begin, end;
    if (strncmp(name, "optimizer/", 10) == 0)
        name += 10;
    fuzz_require(*name != '\0' && *name != '.' && strchr(name, '/') == NULL,
                 "a name that leaves the folder", f->name);
    fuzz_require_plain(f->name);
    fuzz_require(sw_manifest_find(m, f->name) == f, "a name twice", f->name);
    for (int32_t i = 0; i < f->slice_count; i++) {
        sw_manifest_slice(f->bytes, f->data_begin, m->slice_bytes, i, &begin, &end);
        fuzz_require(begin == at && end >= begin && end <= f->bytes, "no slice", f->name);
        at = end;
    }
    fuzz_require(at == f->bytes, "slices that do not cover the file", f->name);
}

static void check_text(const char *text, size_t bytes)
{
    struct sw_manifest m, again;
    struct sw_error err = {0};
    char *written = NULL, *same = NULL;
    size_t written_bytes = 0, same_bytes = 0;
    if (sw_manifest_parse("m", text, bytes, &m, &err) != 0) {
        fuzz_require(err.status == SW_BAD_INPUT, "no mistake of the file", err.message);
        fuzz_require(strcmp(err.file, "m") == 0 && err.line == 0, "another place", err.file);
        fuzz_require(err.message[0] != '\0' && strlen(err.message) < 400, "no message",
                     err.message);
        fuzz_require_plain(err.message);
        fuzz_require(m.file == NULL, "something is left", "");
        return;
    }
    for (int32_t i = 0; i < m.file_count; i++)
        check_file(&m, &m.file[i]);
    if (sw_manifest_text(&m, &written, &written_bytes, &err) != 0 ||
        sw_manifest_parse("m", written, written_bytes, &again, &err) != 0 ||
        sw_manifest_text(&again, &same, &same_bytes, &err) != 0)
        fuzz_require(false, "what was written is not accepted", err.message);
    fuzz_require(written_bytes == same_bytes && memcmp(written, same, same_bytes) == 0,
                 "what was written reads back differently", written);
    sw_manifest_free(&m);
    sw_manifest_free(&again);
    free(written);
    free(same);
}

/* The text with another end: the checksum of what stands before it. */
static char *sign(const char *data, size_t bytes, size_t *signed_bytes)
{
    static const char before[] = ",\n  \"checksum\": \"";
    size_t head = bytes;
    for (size_t i = 0; i + sizeof before - 1 <= bytes; i++)
        if (memcmp(data + i, before, sizeof before - 1) == 0)
            head = i;
    const struct sw_checksum sum = sw_checksum_of(data, head);
    char *text = malloc(head + 80);
    fuzz_require(text != NULL, "no memory", "");
    if (head > 0)
        memcpy(text, data, head);
    *signed_bytes =
        head + (size_t)snprintf(text + head, 80, "%s%016" PRIx64 "%016" PRIx64 "\"\n}\n", before,
                                sum.high, sum.low);
    return text;
}

void fuzz_one(const uint8_t *data, size_t bytes)
{
    static const char nothing[1] = "";
    const char *text = bytes > 0 ? (const char *)data : nothing;
    size_t signed_bytes;
    check_text(text, bytes);
    char *own = sign(text, bytes, &signed_bytes);
    check_text(own, signed_bytes);
    free(own);
}
