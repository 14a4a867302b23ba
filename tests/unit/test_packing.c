/* Packed rows of drawn documents against first-fit as its definition says, row by row.
 *
 *     test_packing [DRAWS] [SEED]
 */
#include "runner/train/order.h"
#include "runner/train/packing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static int32_t draws = 60;
static uint64_t seed = 1;

static uint64_t draw(uint64_t *state, uint64_t below)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (*state >> 33) % below;
}

struct documents {
    int64_t *length, count;
};

static int64_t length_of(const void *context, int64_t document)
{
    const struct documents *d = context;
    assert_in_range(document, 0, d->count - 1);
    return d->length[document];
}

/* Lengths of several kinds: short ones, empty ones, as long as a row, longer. */
static struct documents draw_documents(uint64_t *state, int64_t row_tokens)
{
    struct documents d = {.count = 1 + (int64_t)draw(state, 300)};
    const uint64_t kind = draw(state, 4);
    d.length = calloc((size_t)d.count, sizeof *d.length);
    assert_non_null(d.length);
    for (int64_t i = 0; i < d.count; i++)
        d.length[i] = kind == 0   ? (int64_t)draw(state, 4)
                      : kind == 1 ? (int64_t)draw(state, (uint64_t)row_tokens + 1)
                      : kind == 2 ? row_tokens - (int64_t)draw(state, 2)
                                  : (int64_t)draw(state, 3 * (uint64_t)row_tokens);
    d.length[draw(state, (uint64_t)d.count)] = 1 + (int64_t)draw(state, (uint64_t)row_tokens);
    return d;
}

/* Rows of all documents by the definition: whole blocks, each row open until its block ends. */
struct rows {
    int64_t *document; /* [rows, count] */
    int32_t *count;    /* [rows] */
    int64_t rows;
};

static struct rows pack_slowly(const struct documents *d, const struct sw_packing_options *o,
                               int64_t epoch)
{
    struct rows out = {0};
    const uint64_t key = sw_order_key(o->seed, epoch);
    int64_t *free_tokens = calloc((size_t)d->count, sizeof *free_tokens);
    out.document = calloc((size_t)(d->count * d->count), sizeof *out.document);
    out.count = calloc((size_t)d->count, sizeof *out.count);
    assert_true(free_tokens != NULL && out.document != NULL && out.count != NULL);
    for (int64_t from = 0; from < d->count; from += o->block) {
        const int64_t first = out.rows;
        for (int64_t i = from; i < from + o->block && i < d->count; i++) {
            const int64_t document = o->ordered ? i : sw_order_permute(key, d->count, i);
            int64_t length = d->length[document], row = first;
            if (length > o->row_tokens)
                length = o->row_tokens;
            if (length == 0)
                continue;
            while (row < out.rows && free_tokens[row] < length)
                row++;
            if (row == out.rows)
                free_tokens[out.rows++] = o->row_tokens;
            free_tokens[row] -= length;
            out.document[row * d->count + out.count[row]++] = document;
        }
    }
    free(free_tokens);
    return out;
}

static void free_rows(struct rows *r)
{
    free(r->document);
    free(r->count);
}

/* Each row found is one of those of the epoch, and each of these is found once. */
static void compare_epoch(struct sw_packing *p, const struct documents *d,
                          const struct rows *wanted, const struct sw_packing_options *o,
                          int64_t first)
{
    bool *found = calloc((size_t)wanted->rows, sizeof *found);
    assert_non_null(found);
    for (int64_t r = 0; r < wanted->rows; r++) {
        struct sw_packed_row row;
        int64_t same = -1;
        sw_packing_find(p, first + r, &row);
        assert_true(row.count > 0);
        for (int64_t w = o->ordered ? r : 0; w < (o->ordered ? r + 1 : wanted->rows); w++)
            if (!found[w] && row.count == wanted->count[w] &&
                memcmp(row.document, wanted->document + w * d->count,
                       (size_t)row.count * sizeof *row.document) == 0)
                same = w;
        assert_true(same >= 0);
        found[same] = true;
    }
    free(found);
}

static void rows_are_first_fit(void **state)
{
    (void)state;
    for (int32_t i = 0; i < draws; i++) {
        uint64_t s = seed * 1000003 + (uint64_t)i;
        struct sw_packing_options o = {.row_tokens = 1 + (int32_t)draw(&s, 40),
                                       .length = length_of};
        struct documents d = draw_documents(&s, o.row_tokens);
        struct sw_packing *p = NULL;
        struct sw_error err = {0};
        o.context = &d;
        o.documents = d.count;
        o.block = 1 + (int32_t)draw(&s, 120);
        o.seed = draw(&s, 5);
        o.ordered = draw(&s, 4) == 0;
        assert_int_equal(sw_packing_create(&o, &p, &err), 0);
        int64_t first = 0;
        for (int64_t epoch = 0; epoch < (o.ordered ? 1 : 3); epoch++) {
            struct rows wanted = pack_slowly(&d, &o, epoch);
            assert_int_equal(sw_packing_rows(p, epoch), wanted.rows);
            compare_epoch(p, &d, &wanted, &o, first);
            first += wanted.rows;
            free_rows(&wanted);
        }
        struct sw_packed_row behind;
        sw_packing_find(p, first, &behind);
        assert_true(o.ordered ? behind.count == 0 : behind.count > 0);
        sw_packing_free(p);
        free(d.length);
    }
}

/* A run that begins anywhere, and asks in any order, has the rows of one that began at 0. */
static void rows_depend_on_their_number_alone(void **state)
{
    (void)state;
    enum { ROWS = 200 };
    for (int32_t i = 0; i < draws / 4 + 1; i++) {
        uint64_t s = seed * 7919 + (uint64_t)i;
        struct sw_packing_options o = {
            .row_tokens = 20, .length = length_of, .block = 50, .seed = 3};
        struct documents d = draw_documents(&s, o.row_tokens);
        struct sw_packing *p = NULL, *q = NULL;
        struct sw_error err = {0};
        int64_t first[ROWS];
        int32_t count[ROWS];
        o.context = &d;
        o.documents = d.count;
        assert_int_equal(sw_packing_create(&o, &p, &err), 0);
        assert_int_equal(sw_packing_create(&o, &q, &err), 0);
        for (int64_t r = 0; r < ROWS; r++) {
            struct sw_packed_row row;
            sw_packing_find(p, r, &row);
            first[r] = row.document[0];
            count[r] = row.count;
        }
        for (int32_t n = 0; n < ROWS; n++) {
            const int64_t r = (int64_t)draw(&s, ROWS);
            struct sw_packed_row row;
            sw_packing_find(q, r, &row);
            assert_int_equal(row.count, count[r]);
            assert_int_equal(row.document[0], first[r]);
        }
        sw_packing_free(p);
        sw_packing_free(q);
        free(d.length);
    }
}

static void what_is_cut_is_counted(void **state)
{
    (void)state;
    int64_t length[] = {3, 0, 10, 25, 11};
    struct documents d = {length, 5};
    const struct sw_packing_options o = {
        .documents = 5, .length = length_of, .context = &d, .row_tokens = 10, .block = 5};
    struct sw_packing *p = NULL;
    struct sw_error err = {0};
    assert_int_equal(sw_packing_create(&o, &p, &err), 0);
    const struct sw_packing_sums sums = sw_packing_sums(p);
    assert_int_equal(sums.documents, 4);
    assert_int_equal(sums.tokens, 33);
    assert_int_equal(sums.cut_documents, 2);
    assert_int_equal(sums.cut_tokens, 16);
    assert_int_equal(sw_packing_rows(p, 0), 4);
    sw_packing_free(p);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_are_first_fit),
                                       cmocka_unit_test(rows_depend_on_their_number_alone),
                                       cmocka_unit_test(what_is_cut_is_counted)};
    if (argc > 1)
        draws = atoi(argv[1]);
    if (argc > 2)
        seed = strtoull(argv[2], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
