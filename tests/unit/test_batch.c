/* Feeds of batches, for programs that have them as inputs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/programs/compile.h"
#include "runner/rank/batch.h"
#include "tests/support/small_model.h"

#include <string.h>

enum { ROWS = 2, TOKENS = 8 };
static const int32_t rows[ROWS][TOKENS] = {{3, 5, 3, 3, 1, 2, 3, 9}, {1, 2, 4, 5, 6, 7, 8, 3}};

static int read_rows(void *context, const struct sw_ask *ask, void *to, struct sw_error *err)
{
    (void)context;
    (void)err;
    assert_true(ask->first_row + ask->rows <= ROWS && ask->row_elems == TOKENS);
    memcpy(to, rows[ask->first_row], (size_t)ask->rows * sizeof rows[0]);
    return 0;
}

static struct sw_program *compile(bool segments)
{
    struct sw_program_options o = sw_test_small_model(sw_mesh_make(1, 1, 1, 1));
    struct sw_program *p = NULL;
    struct sw_error err = {0};
    o.segments = segments;
    if (sw_program_compile(&o, SW_LAID_OUT, &p, &err) != 0)
        fail_msg("%s", err.message);
    return p;
}

static int32_t feeds_of(const struct sw_batch *batch, bool segments,
                        struct sw_feed feeds[SW_BATCH_FEEDS])
{
    struct sw_program *p = compile(segments);
    const int32_t count = sw_batch_feeds(batch, p, feeds);
    sw_program_free(p);
    return count;
}

static void programs_are_fed_what_they_have(void **state)
{
    (void)state;
    const struct sw_batch batch = {read_rows, NULL, true};
    struct sw_feed feeds[SW_BATCH_FEEDS];
    assert_int_equal(feeds_of(&batch, false, feeds), 3);
    assert_int_equal(feeds_of(&batch, true, feeds), 5);
    assert_string_equal(feeds[3].name, "segments");
    assert_string_equal(feeds[4].name, "key segments");
}

static void a_sequence_is_one_document_unless_told(void **state)
{
    (void)state;
    const struct sw_batch batch = {read_rows, NULL, false};
    struct sw_feed feeds[SW_BATCH_FEEDS];
    int32_t made[ROWS][TOKENS];
    struct sw_error err = {0};
    assert_int_equal(feeds_of(&batch, true, feeds), 5);
    for (int i = 2; i < 5; i++) {
        const struct sw_ask ask = {.name = feeds[i].name, .rows = ROWS, .row_elems = TOKENS};
        assert_int_equal(feeds[i].read(feeds[i].context, &ask, made, &err), 0);
        for (int t = 0; t < TOKENS; t++)
            assert_int_equal(made[1][t], i == 2 ? t : 0);
    }
}

static void whoever_knows_documents_is_asked(void **state)
{
    (void)state;
    const struct sw_batch batch = {read_rows, NULL, true};
    struct sw_feed feeds[SW_BATCH_FEEDS];
    assert_int_equal(feeds_of(&batch, true, feeds), 5);
    for (int i = 0; i < 5; i++)
        assert_true((feeds[i].read == read_rows) == (i != 2)); /* positions are all sequences' */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(programs_are_fed_what_they_have),
                                       cmocka_unit_test(a_sequence_is_one_document_unless_told),
                                       cmocka_unit_test(whoever_knows_documents_is_asked)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
