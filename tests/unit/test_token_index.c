/* Files of tokens with their index: what is written is read back, and what is damaged, stale or of
 * other data is refused in one line. Contents and damages are drawn.
 *
 *     test_token_index [DRAWS [SEED]] */
#include "core/base/token_index.h"

#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/token_file.h"
#include "core/base/token_writer.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define BIN "data.bin"
#define INDEX "data.bin.index"
enum { MOST_TOKENS = 5000 };

static int64_t draws = 30;
static uint64_t seed = 1;

static uint64_t draw(uint64_t *state, uint64_t below)
{
    *state += 0x9e3779b97f4a7c15u;
    return sw_hash_mix(*state) % below;
}

/* ---- contents ---- */

/* Documents as they are drawn, token by token. */
struct content {
    int64_t tokens, documents, counted, largest;
    bool masked;
    int32_t width;
    int32_t id[MOST_TOKENS];
    uint8_t counts[MOST_TOKENS], begins[MOST_TOKENS];
};

static void draw_content(uint64_t *state, struct content *c)
{
    memset(c, 0, sizeof *c);
    c->width = draw(state, 2) == 0 ? 2 : 4;
    c->largest = -1;
    const bool masks = draw(state, 2) == 0;
    const uint64_t documents = draw(state, 12);
    for (uint64_t d = 0; d < documents; d++) {
        const int64_t count = (int64_t)draw(state, draw(state, 4) == 0 ? 400 : 6);
        bool on = draw(state, 2) == 0;
        c->documents += count > 0;
        for (int64_t i = 0; i < count; i++) {
            const int64_t at = c->tokens++;
            c->id[at] = (int32_t)draw(state, c->width == 2 ? 65536 : 200000);
            on = draw(state, 5) == 0 ? !on : on;
            c->counts[at] = !masks || on;
            c->begins[at] = i == 0;
            c->masked = c->masked || c->counts[at] == 0;
            c->counted += c->counts[at] != 0 && i > 0;
            c->largest = c->id[at] > c->largest ? c->id[at] : c->largest;
        }
    }
}

/* In pieces, as an encoder hands them over. */
static void write_content(uint64_t *state, const struct content *c)
{
    struct sw_token_writer *w = NULL;
    struct sw_error err = {0};
    assert_int_equal(sw_token_writer_open(BIN, c->width, &w, &err), 0);
    for (int64_t at = 0; at < c->tokens;) {
        int64_t count = 1 + (int64_t)draw(state, 50);
        bool all = true;
        if (c->begins[at] != 0 && at > 0)
            assert_int_equal(sw_token_writer_end(w, &err), 0);
        for (int64_t i = 0; i < count; i++)
            if (at + i == c->tokens || (i > 0 && c->begins[at + i] != 0))
                count = i;
        for (int64_t i = 0; i < count; i++)
            all = all && c->counts[at + i] != 0;
        const uint8_t *counts = all && draw(state, 2) == 0 ? NULL : c->counts + at;
        assert_int_equal(sw_token_writer_add(w, c->id + at, counts, (size_t)count, &err), 0);
        at += count;
        if (draw(state, 9) == 0) /* a document without tokens is none */
            assert_int_equal(sw_token_writer_add(w, c->id, NULL, 0, &err), 0);
    }
    assert_int_equal(sw_token_writer_end(w, &err), 0);
    const struct sw_token_counts counts = sw_token_writer_counts(w);
    assert_true(counts.tokens == c->tokens && counts.documents == c->documents);
    assert_true(counts.counted == c->counted && counts.largest == c->largest);
    assert_int_equal(sw_token_writer_commit(w, "{\"inputs\":[\"a\"]}", &err), 0);
}

/* Compares an index, token by token. */
static void expect_content(const struct sw_token_index *index, const struct content *c)
{
    int64_t document = 0, span = 0;
    assert_true(index->tokens == c->tokens && index->documents == c->documents);
    assert_true(index->counted == c->counted && index->largest == c->largest);
    assert_int_equal(index->masked, c->masked);
    assert_string_equal(index->source, "{\"inputs\":[\"a\"]}");
    for (int64_t i = 0; i < c->tokens; i++) {
        const bool begins = i == 0 || (uint64_t)i == index->end[document];
        document += begins && i > 0;
        assert_int_equal(begins, c->begins[i]);
        while (span < index->spans && index->span[2 * span + 1] <= (uint64_t)i)
            span++;
        const bool counts =
            !index->masked || (span < index->spans && index->span[2 * span] <= (uint64_t)i);
        assert_int_equal(counts, c->counts[i] != 0);
    }
}

static void expect_tokens(const struct content *c)
{
    char *data = NULL;
    size_t bytes = 0;
    struct sw_token_form form;
    struct sw_error err = {0};
    assert_int_equal(sw_file_read(BIN, true, 1 << 24, &data, &bytes, NULL), 0);
    const unsigned char *head = (unsigned char *)data;
    assert_int_equal(
        sw_token_form(head, bytes, (int64_t)bytes, 7, (struct sw_place){.file = BIN}, &form, &err),
        0);
    assert_true(form.width == c->width && form.tokens == c->tokens);
    for (int64_t i = 0; i < c->tokens; i++)
        assert_int_equal(sw_token_at(head + form.begin_bytes, form.width, i), c->id[i]);
    free(data);
}

static void reads_what_was_written(void **state)
{
    (void)state;
    struct content *c = malloc(sizeof *c);
    assert_non_null(c);
    for (int64_t i = 0; i < draws; i++) {
        uint64_t numbers = seed * 1000003 + (uint64_t)i;
        struct sw_token_index index;
        struct sw_error err = {0};
        bool found = false;
        draw_content(&numbers, c);
        write_content(&numbers, c);
        expect_tokens(c);
        if (sw_token_index_open(BIN, &found, &index, &err) != 0)
            fail_msg("draw %d of seed %d: %s", (int)i, (int)seed, err.message);
        assert_true(found);
        expect_content(&index, c);
        sw_token_index_close(&index);
    }
    free(c);
}

/* ---- damages ---- */

static uint64_t own_digest(const unsigned char *data, size_t bytes)
{
    return sw_hash_bytes(sw_hash_bytes(SW_HASH_START, data, SW_TOKEN_INDEX_AT_DIGEST),
                         data + SW_TOKEN_INDEX_AT_DIGEST + 8, bytes - SW_TOKEN_INDEX_AT_DIGEST - 8);
}

/* An index that was accepted, whatever its file holds, is one. */
static void expect_sound(const struct sw_token_index *index)
{
    uint64_t before = 0, first = 0;
    int64_t counted = 0, document = 0;
    for (int64_t i = 0; i < index->documents; before = index->end[i], i++)
        assert_true(index->end[i] > before);
    assert_true(index->tokens >= 0 && before == (uint64_t)index->tokens);
    assert_true(index->masked || index->spans == 0);
    before = 0;
    for (int64_t i = 0; i < index->spans; i++) {
        const uint64_t *span = index->span + 2 * i;
        assert_true(span[0] >= before && span[0] < span[1]);
        for (; document < index->documents && index->end[document] <= span[0]; document++)
            first = index->end[document];
        assert_true(document < index->documents && span[1] <= index->end[document]);
        for (uint64_t at = span[0]; at < span[1]; at++)
            counted += at > first;
        before = span[1];
    }
    if (!index->masked)
        counted = index->tokens - index->documents;
    assert_true(counted == index->counted);
}

static void expect_refusal(const struct sw_error *err, const char *file)
{
    assert_int_equal(err->status, SW_BAD_INPUT);
    assert_string_equal(err->file, file);
    assert_true(err->message[0] != '\0' && strchr(err->message, '\n') == NULL);
    assert_true(strlen(err->message) < 400);
}

/* Changes a file in memory; *bytes may shrink. */
static void damage(uint64_t *state, unsigned char *data, size_t *bytes)
{
    static const uint64_t extremes[] = {0, 1, UINT64_MAX, INT64_MAX, UINT64_C(1) << 61, 1 << 16};
    const size_t at = (size_t)draw(state, *bytes);
    switch (draw(state, 4)) {
    case 0:
        data[at] ^= (unsigned char)(1u << draw(state, 8));
        break;
    case 1:
        *bytes = at;
        break;
    case 2: /* a number becomes another one */
        for (size_t b = 0, word = at / 8 * 8; b < 8 && word + b < *bytes; b++)
            data[word + b] = (unsigned char)(extremes[draw(state, 6)] >> (8 * b));
        break;
    default: /* two numbers change places */
        for (size_t b = 0, one = at / 8 * 8, other = (size_t)draw(state, *bytes) / 8 * 8;
             b < 8 && one + b < *bytes && other + b < *bytes; b++) {
            const unsigned char kept = data[one + b];
            data[one + b] = data[other + b];
            data[other + b] = kept;
        }
    }
}

/* `again` may be the same bytes: then it is accepted. With the digest mended, damages get behind
 * it; those that leave an index are accepted as what they are. */
static void try_damage(uint64_t *numbers, const char *good, size_t good_bytes, const char *tokens,
                       size_t token_bytes, bool mends)
{
    size_t bytes = good_bytes;
    unsigned char *data = malloc(good_bytes);
    struct sw_token_index index;
    struct sw_error err = {0};
    assert_non_null(data);
    memcpy(data, good, good_bytes);
    damage(numbers, data, &bytes);
    if (mends && bytes >= SW_TOKEN_INDEX_HEADER_BYTES) {
        const uint64_t digest = own_digest(data, bytes);
        memcpy(data + SW_TOKEN_INDEX_AT_DIGEST, &digest, 8);
    }
    const bool same = bytes == good_bytes && memcmp(data, good, bytes) == 0;
    const int status = sw_token_index_parse(INDEX, data, bytes, BIN, (const unsigned char *)tokens,
                                            token_bytes, &index, &err);
    if (status == 0) {
        assert_true(same || mends);
        expect_sound(&index);
    } else {
        assert_false(same);
        expect_refusal(&err, INDEX);
    }
    free(data);
}

static void refuses_damages(void **state)
{
    (void)state;
    struct content *c = malloc(sizeof *c);
    assert_non_null(c);
    for (int64_t i = 0; i < draws / 3 + 1; i++) {
        uint64_t numbers = seed * 2000003 + (uint64_t)i;
        char *index = NULL, *tokens = NULL;
        size_t bytes = 0, token_bytes = 0;
        draw_content(&numbers, c);
        write_content(&numbers, c);
        assert_int_equal(sw_file_read(INDEX, true, 1 << 24, &index, &bytes, NULL), 0);
        assert_int_equal(sw_file_read(BIN, true, 1 << 24, &tokens, &token_bytes, NULL), 0);
        for (int32_t n = 0; n < 40; n++)
            try_damage(&numbers, index, bytes, tokens, token_bytes, n % 2 != 0);
        free(index);
        free(tokens);
    }
    free(c);
}

static void refuses_other_data(void **state)
{
    (void)state;
    struct content *c = malloc(sizeof *c);
    assert_non_null(c);
    for (int64_t i = 0; i < draws / 3 + 1; i++) {
        uint64_t numbers = seed * 3000017 + (uint64_t)i;
        char *tokens = NULL;
        size_t bytes = 0, now;
        struct sw_token_index index;
        struct sw_error err = {0};
        bool found = false;
        draw_content(&numbers, c);
        write_content(&numbers, c);
        assert_int_equal(sw_file_read(BIN, true, 1 << 24, &tokens, &bytes, NULL), 0);
        now = bytes;
        char *other = malloc(bytes);
        assert_non_null(other);
        memcpy(other, tokens, bytes);
        damage(&numbers, (unsigned char *)other, &now);
        const bool same = now == bytes && memcmp(other, tokens, bytes) == 0;
        assert_int_equal(sw_file_write(BIN, other, now, 0666, &err), 0);
        const int status = sw_token_index_open(BIN, &found, &index, &err);
        assert_int_equal(status, same ? 0 : -1);
        assert_int_equal(found, same);
        if (same)
            sw_token_index_close(&index);
        else
            expect_refusal(&err, INDEX);
        free(other);
        free(tokens);
    }
    free(c);
}

/* ---- files ---- */

static int32_t files_here(void)
{
    DIR *directory = opendir(".");
    int32_t count = 0;
    assert_non_null(directory);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(directory);
    return count;
}

static void forget(void)
{
    (void)unlink(BIN);
    (void)unlink(INDEX);
}

static void write_numbers(int32_t from, bool masked, bool commits)
{
    const int32_t id[4] = {from, from + 1, from + 2, from + 3};
    const uint8_t counts[4] = {0, 1, 1, 0};
    struct sw_token_writer *w = NULL;
    struct sw_error err = {0};
    assert_int_equal(sw_token_writer_open(BIN, 2, &w, &err), 0);
    assert_int_equal(sw_token_writer_add(w, id, masked ? counts : NULL, 4, &err), 0);
    if (commits)
        assert_int_equal(sw_token_writer_commit(w, "{}", &err), 0);
    else
        sw_token_writer_abandon(w);
}

static void leaves_nothing_half_written(void **state)
{
    (void)state;
    struct sw_token_index index;
    struct sw_error err = {0};
    bool found = true;
    forget();
    const int32_t before = files_here();
    write_numbers(5, true, false);
    assert_int_equal(files_here(), before);
    write_numbers(5, true, true);
    assert_int_equal(files_here(), before + 2);
    write_numbers(9, false, false); /* the former files stay */
    assert_int_equal(sw_token_index_open(BIN, &found, &index, &err), 0);
    assert_true(found && index.masked && index.largest == 8 && index.counted == 2);
    sw_token_index_close(&index);
    write_numbers(9, false, true);
    assert_int_equal(sw_token_index_open(BIN, &found, &index, &err), 0);
    assert_true(found && !index.masked && index.largest == 12 && index.counted == 3);
    sw_token_index_close(&index);
    assert_int_equal(files_here(), before + 2);
    sw_token_writer_abandon(NULL);
    forget();
}

/* Tokens that were written to where no digest looks. */
static void knows_when_it_is_old(void **state)
{
    (void)state;
    struct sw_token_index index;
    struct sw_error err = {0};
    bool found;
    write_numbers(5, true, true);
    for (int32_t later = 0; later < 3; later++) {
        const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
                                          {.tv_sec = 1000000 + later / 2, .tv_nsec = later % 2}};
        const struct timespec written[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1000000}};
        assert_int_equal(utimensat(AT_FDCWD, INDEX, written, 0), 0);
        assert_int_equal(utimensat(AT_FDCWD, BIN, times, 0), 0);
        assert_int_equal(sw_token_index_open(BIN, &found, &index, &err), 0);
        assert_true(index.largest == (later > 0 ? UINT32_MAX : 8));
        sw_token_index_close(&index);
    }
    forget();
}

static void says_which_file(void **state)
{
    (void)state;
    struct sw_token_index index;
    struct sw_token_writer *w = NULL;
    struct sw_error err = {0};
    bool found = true;
    forget();
    assert_int_equal(sw_token_index_open(BIN, &found, &index, &err), 0);
    assert_false(found);
    assert_int_equal(mkdir(INDEX, 0777), 0);
    assert_int_equal(sw_token_index_open(BIN, &found, &index, &err), -1);
    expect_refusal(&err, INDEX);
    err = (struct sw_error){0};
    assert_int_equal(sw_token_writer_open(BIN, 2, &w, &err), -1);
    expect_refusal(&err, INDEX);
    assert_null(w);
    assert_int_equal(rmdir(INDEX), 0);
    err = (struct sw_error){0};
    assert_int_equal(sw_token_writer_open("none/data.bin", 2, &w, &err), -1);
    expect_refusal(&err, "none/data.bin");
    write_numbers(5, true, true);
    assert_int_equal(symlink(BIN, "link"), 0);
    assert_int_equal(sw_token_index_open("link", &found, &index, NULL), 0);
    assert_true(found && index.masked);
    sw_token_index_close(&index);
    assert_int_equal(unlink("link"), 0);
    assert_int_equal(unlink(BIN), 0);
    err = (struct sw_error){0};
    assert_int_equal(sw_token_index_open(BIN, &found, &index, &err), -1);
    assert_false(found);
    assert_string_equal(err.file, BIN);
    forget();
}

/* All of a small file and the first and last blocks of a large one. */
static void digests_what_it_says(void **state)
{
    (void)state;
    const size_t large = (size_t)40 << 20, small = 70000;
    unsigned char *data = calloc(1, large);
    assert_non_null(data);
    const uint64_t digest = sw_token_digest(data, large), less = sw_token_digest(data, small);
    assert_true(digest != less);
    for (size_t i = 0; i < 4; i++) {
        const size_t at = i == 0 ? 0 : i == 1 ? large - 1 : i == 2 ? large - 32768 : 32767;
        data[at] = 1;
        assert_true(sw_token_digest(data, large) != digest);
        data[at] = 0;
    }
    for (size_t at = 0; at < small; at += 997) {
        data[at] = 1;
        assert_true(sw_token_digest(data, small) != less);
        data[at] = 0;
    }
    free(data);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_was_written), cmocka_unit_test(refuses_damages),
        cmocka_unit_test(refuses_other_data),     cmocka_unit_test(leaves_nothing_half_written),
        cmocka_unit_test(says_which_file),        cmocka_unit_test(knows_when_it_is_old),
        cmocka_unit_test(digests_what_it_says),
    };
    char folder[] = "/tmp/sw_token_index_XXXXXX";
    draws = argc > 1 ? atoll(argv[1]) : draws;
    seed = argc > 2 ? strtoull(argv[2], NULL, 10) : seed;
    if (mkdtemp(folder) == NULL || chdir(folder) != 0)
        return 1;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    forget();
    return chdir("/") != 0 || rmdir(folder) != 0 || failed != 0;
}
