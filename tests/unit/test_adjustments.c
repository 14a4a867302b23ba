/* What a slot's list says after biases, bans and tokens that were made, against a whole vocabulary
 * of numbers. */
#include "runner/generate/adjustments.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

enum { VOCAB = 40, SLOTS = 3 };
static const double presence = 0.75, frequency = 0.125;

/* What it should say. */
struct whole {
    float bias[VOCAB];
    int32_t made[VOCAB];
};

static void compare(const struct sw_adjustments *a, int64_t slot, const struct whole *whole)
{
    const float *entry = sw_adjustments_of(a, slot), *end = entry + 3 * a->count[slot];
    for (int32_t token = 0, last = -1; token < VOCAB; token++) {
        const bool has = entry < end && entry[SW_ADJUSTMENT_TOKEN] == (float)token;
        const double off = whole->made[token] > 0 ? presence + frequency * whole->made[token] : 0;
        assert_true((has ? entry[SW_ADJUSTMENT_BIAS] : 0) == whole->bias[token]);
        assert_true((has ? entry[SW_ADJUSTMENT_PENALTY] : 0) == (float)off);
        assert_true(!has || token > last);
        last = has ? token : last;
        entry += has ? 3 : 0;
    }
    assert_ptr_equal(entry, end); /* in order, and no others */
}

static void a_list_says_what_a_vocabulary_would(void **state)
{
    (void)state;
    const struct sw_biases biases = {.count = 4,
                                     .banned_count = 3,
                                     .token = {39, 7, 0, 12},
                                     .bias = {-100, 3.5f, 0.5f, 100},
                                     .banned = {12, 30, 39}};
    struct sw_adjustments a;
    assert_true(sw_adjustments_create(SLOTS, VOCAB, &a));
    for (int32_t round = 0; round < 3; round++) {
        struct whole whole = {{0}, {0}};
        const bool bans = round < 2;
        for (int32_t i = 0; i < biases.count; i++)
            whole.bias[biases.token[i]] = biases.bias[i];
        for (int32_t i = 0; i < biases.banned_count && bans; i++)
            whole.bias[biases.banned[i]] = SW_BANNED_BIAS;
        sw_adjustments_begin(&a, 1, &biases, bans);
        compare(&a, 1, &whole);
        for (uint32_t n = 0, drawn = 5; n < 200; n++) {
            drawn = drawn * 1664525u + 1013904223u;
            const int32_t token = (int32_t)(drawn >> 16) % VOCAB;
            sw_adjustments_made(&a, 1, token, presence, frequency);
            whole.made[token]++;
            if (n == 50 && bans) {
                sw_adjustments_allow(&a, 1, &biases);
                for (int32_t i = 0; i < biases.banned_count; i++)
                    whole.bias[biases.banned[i]] = 0;
                for (int32_t i = 0; i < biases.count; i++)
                    whole.bias[biases.token[i]] = biases.bias[i];
            }
            compare(&a, 1, &whole);
        }
        assert_int_equal(a.count[1], VOCAB); /* every token, and none of the other slots' */
        assert_int_equal(a.count[0] + a.count[2], 0);
    }
    sw_adjustments_begin(&a, 1, NULL, false);
    assert_int_equal(a.count[1], 0);
    sw_adjustments_free(&a);
    sw_adjustments_free(&a);
}

static void a_row_has_room_for_all_that_a_text_may_ask(void **state)
{
    (void)state;
    assert_int_equal(sw_sampling_adjustments(32000, 100), 100 + 300 + 148);
    assert_int_equal(sw_sampling_adjustments(256, 100), 256);
    struct sw_biases biases = {0};
    int32_t token[SW_BANNED_TOKENS + 2];
    for (int32_t i = 0; i < SW_BANNED_TOKENS + 2; i++)
        token[i] = 1000 - i;
    assert_true(sw_biases_ban(&biases, 2000, token, SW_BANNED_TOKENS));
    assert_true(sw_biases_ban(&biases, 2000, token, SW_BANNED_TOKENS)); /* they are there */
    assert_int_equal(biases.banned_count, SW_BANNED_TOKENS);
    const int32_t none[2] = {-1, 2000};
    assert_true(sw_biases_ban(&biases, 2000, none, 2));
    assert_false(sw_biases_ban(&biases, 2000, token, SW_BANNED_TOKENS + 1));
    assert_int_equal(biases.banned_count, SW_BANNED_TOKENS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_says_what_a_vocabulary_would),
        cmocka_unit_test(a_row_has_room_for_all_that_a_text_may_ask),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
