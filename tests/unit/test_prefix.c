/* Which positions of an earlier text a prompt finds in a slot. */
#include "runner/generate/prefix.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

enum { SLOTS = 2, CAPACITY = 20, CHUNK = 4 };

static const int32_t text[CAPACITY] = {5, 4, 3, 2, 1, 9, 8, 7, 6, 5, 4, 3};

static void open_with(struct sw_prefixes *p, int64_t count, int64_t made)
{
    assert_true(sw_prefixes_create(SLOTS, CAPACITY, CHUNK, p));
    sw_prefixes_take(p, 1, text, count, count, 0);
    sw_prefixes_made(p, 1, made);
}

static void whole_chunks_are_found(void **state)
{
    (void)state;
    struct sw_prefixes p;
    open_with(&p, 11, 11);
    assert_int_equal(sw_prefixes_found(&p, 1, text, 12, 12),
                     8); /* of ten that a third chunk began */
    assert_int_equal(sw_prefixes_found(&p, 0, text, 12, 12), 0);
    int32_t other[CAPACITY];
    for (int64_t differs = 0; differs < 12; differs++) {
        for (int i = 0; i < CAPACITY; i++)
            other[i] = text[i] + (i == differs);
        const int64_t same = differs < 8 ? differs : 8;
        assert_int_equal(sw_prefixes_found(&p, 1, other, 12, 12), same / CHUNK * CHUNK);
    }
    sw_prefixes_free(&p);
}

/* Behind the last token the next one is sampled: it is read in any case. */
static void the_last_token_is_read(void **state)
{
    (void)state;
    struct sw_prefixes p;
    open_with(&p, 12, 12);
    assert_int_equal(sw_prefixes_found(&p, 1, text, 13, 13), 12);
    assert_int_equal(sw_prefixes_found(&p, 1, text, 12, 12), 8);
    assert_int_equal(sw_prefixes_found(&p, 1, text, 9, 9), 8);
    assert_int_equal(sw_prefixes_found(&p, 1, text, 8, 8), 4);
    assert_int_equal(sw_prefixes_found(&p, 1, text, 1, 1), 0);
    sw_prefixes_free(&p);
}

static void what_was_not_made_is_not_found(void **state)
{
    (void)state;
    struct sw_prefixes p;
    open_with(&p, 12, 4);
    assert_int_equal(sw_prefixes_found(&p, 1, text, 12, 12), 4);
    sw_prefixes_take(&p, 1, text, 12, 12, 4); /* a text that is ended before it was read */
    assert_int_equal(sw_prefixes_found(&p, 1, text, 12, 12), 4);
    sw_prefixes_take(&p, 1, text, 12, 12, 0);
    assert_int_equal(sw_prefixes_found(&p, 1, text, 12, 12), 0);
    sw_prefixes_free(&p);
}

static void a_longer_text_is_not_given_up_for_less(void **state)
{
    (void)state;
    struct sw_prefixes p;
    open_with(&p, 12, 12);
    assert_false(sw_prefixes_pays(&p, 1, 0));
    assert_false(sw_prefixes_pays(&p, 1, 4));
    assert_true(sw_prefixes_pays(&p, 1, 8));
    assert_int_equal(p.used[0], 0);
    assert_int_equal(p.used[1], 1);
    sw_prefixes_free(&p);
}

/* Tokens that the text was given are found behind its prompt, and as one beginning with it. */
static void what_was_given_is_found(void **state)
{
    (void)state;
    struct sw_prefixes p;
    assert_true(sw_prefixes_create(SLOTS, CAPACITY, 1, &p));
    sw_prefixes_take(&p, 1, text, 5, 0, 0);
    sw_prefixes_made(&p, 1, 5);
    for (int64_t at = 5; at < 9; at++)
        sw_prefixes_add(&p, 1, at, text[at]);
    assert_int_equal(sw_prefixes_found(&p, 1, text, 12, 0), 9);
    assert_int_equal(sw_prefixes_found(&p, 1, text, 7, 0), 6);
    assert_int_equal(sw_prefixes_found(&p, 0, text, 12, 0), 0);
    assert_false(sw_prefixes_pays(&p, 1, 2)); /* half of the prompt's 5, whatever was given */
    assert_true(sw_prefixes_pays(&p, 1, 3));
    sw_prefixes_add(&p, 1, 10, text[10]); /* behind a gap nothing stands */
    assert_int_equal(sw_prefixes_found(&p, 1, text, 12, 0), 9);
    sw_prefixes_take(&p, 1, text, 12, 0, 7);
    assert_int_equal(sw_prefixes_found(&p, 1, text, 12, 0), 7);
    sw_prefixes_free(&p);
}

/* What is behind the chunks of a prompt is found by one that has as many of them; else it is made
 * otherwise, and whole chunks are found that both have. */
static void a_tail_is_found_behind_the_same_chunks(void **state)
{
    (void)state;
    struct sw_prefixes p;
    assert_true(sw_prefixes_create(SLOTS, CAPACITY, CHUNK, &p));
    sw_prefixes_take(&p, 1, text, 9, 8, 0);
    sw_prefixes_made(&p, 1, 9);
    assert_int_equal(sw_prefixes_found(&p, 1, text, 12, 8), 9);
    sw_prefixes_add(&p, 1, 9, text[9]); /* as it was given */
    assert_int_equal(sw_prefixes_found(&p, 1, text, 12, 8), 10);
    assert_int_equal(sw_prefixes_found(&p, 1, text, 9, 8), 8);
    assert_int_equal(sw_prefixes_found(&p, 1, text, 12, 12), 8);
    assert_int_equal(sw_prefixes_found(&p, 1, text, 7, 7), 4); /* a part of a chunk, to be read */
    assert_int_equal(sw_prefixes_found(&p, 1, text, 5, 4), 4);
    assert_int_equal(sw_prefixes_found(&p, 1, text, 5, 0), 0);
    int32_t other[CAPACITY];
    memcpy(other, text, sizeof other);
    other[5]++;
    assert_int_equal(sw_prefixes_found(&p, 1, other, 12, 8), 4);
    sw_prefixes_take(&p, 1, text, 3, 0, 0); /* without any chunk */
    sw_prefixes_made(&p, 1, 3);
    assert_int_equal(sw_prefixes_found(&p, 1, text, 5, 0), 3);
    assert_int_equal(sw_prefixes_found(&p, 1, text, 5, 4), 0);
    sw_prefixes_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_chunks_are_found),
        cmocka_unit_test(the_last_token_is_read),
        cmocka_unit_test(what_was_not_made_is_not_found),
        cmocka_unit_test(a_longer_text_is_not_given_up_for_less),
        cmocka_unit_test(what_was_given_is_found),
        cmocka_unit_test(a_tail_is_found_behind_the_same_chunks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
