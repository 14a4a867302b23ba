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

/* ---- Rings ---- */

enum { RING = 12, WINDOW = 5, LONGEST_RUN = RING - WINDOW + 1, LENGTH = 40, DRAWS = 20000 };

static uint32_t drawn(uint64_t *state, uint32_t below)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % below;
}

/* Position of the ring, and which text's beginning up to there was written. */
struct written {
    int64_t position;
    uint64_t beginning;
};

static uint64_t beginning_of(const int32_t *tokens, int64_t count)
{
    uint64_t hash = 14695981039346656037u;
    for (int64_t i = 0; i < count; i++)
        hash = (hash ^ (uint64_t)tokens[i]) * 1099511628211u;
    return hash;
}

static void write_position(struct written ring[RING], const int32_t *tokens, int64_t position)
{
    ring[position % RING] = (struct written){position, beginning_of(tokens, position + 1)};
}

static bool stands(const struct written ring[RING], const int32_t *tokens, int64_t found)
{
    for (int64_t p = found - WINDOW + 1 > 0 ? found - WINDOW + 1 : 0; p < found; p++)
        if (ring[p % RING].position != p || ring[p % RING].beginning != beginning_of(tokens, p + 1))
            return false;
    return true;
}

/* Texts that begin alike follow each other in a slot whose layers keep a ring: what is found has
 * all that the next position sees, as it was written; and nothing is given up while nothing was
 * written over. */
static void what_was_written_over_is_not_found(void **state)
{
    (void)state;
    struct sw_prefixes p;
    struct written ring[RING];
    uint64_t draws = 45;
    int64_t found_behind = 0, given_up = 0;
    assert_true(sw_prefixes_create(1, LENGTH, 1, &p));
    p.ring = RING;
    p.window = WINDOW;
    for (int64_t i = 0; i < RING; i++)
        ring[i] = (struct written){-1, 0};
    for (int32_t n = 0; n < DRAWS; n++) {
        int32_t tokens[LENGTH];
        for (int64_t i = 0; i < LENGTH; i++) /* most are alike for long */
            tokens[i] = drawn(&draws, 30) == 0;
        const int64_t count = 1 + drawn(&draws, LENGTH - 1), reached = p.reached[0];
        const bool chunks = drawn(&draws, 2) != 0;
        const int64_t found = sw_prefixes_found(&p, 0, tokens, count, chunks ? count : 0);
        assert_true(stands(ring, tokens, found));
        p.ring = 0;
        const int64_t any = sw_prefixes_found(&p, 0, tokens, count, chunks ? count : 0);
        p.ring = RING;
        assert_true(found == any || (found == 0 && reached > RING));
        assert_true(found == any || any < reached - (RING - WINDOW + 1));
        found_behind += found > 0 && reached > RING;
        given_up += found < any;
        sw_prefixes_take(&p, 0, tokens, count, chunks ? count : 0, found);
        const int64_t until = found + drawn(&draws, (uint32_t)(count - found + 1));
        int64_t at = found; /* some texts are dropped before their prompt is read */
        while (at < until) {
            const int64_t run = 1 + drawn(&draws, LONGEST_RUN);
            for (int64_t i = 0; i < run && at < until; i++)
                write_position(ring, tokens, at++);
            sw_prefixes_made(&p, 0, at);
        }
        for (int64_t more = drawn(&draws, 12); at == count && at < LENGTH && more > 0; more--) {
            write_position(ring, tokens, at);
            sw_prefixes_wrote(&p, 0, at + 1);
            if (!chunks)
                sw_prefixes_add(&p, 0, at, tokens[at]);
            at++;
        }
    }
    assert_true(found_behind > DRAWS / 100 && given_up > DRAWS / 100);
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
        cmocka_unit_test(what_was_written_over_is_not_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
