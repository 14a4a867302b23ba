/* In which order programs run: prompts and tokens in turns, prompts in theirs, those that go ahead
 * before some of the others. A model of a slot stands in for the engine: prompts of so many chunks,
 * then so many tokens. */
#include "core/base/hash.h"
#include "runner/generate/batch_scheduler.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { SLOTS = 4, MOST_CALLS = 60 };

struct model {
    struct sw_batch_scheduler scheduler;
    int32_t chunks[SLOTS], tokens[SLOTS]; /* left */
    char said[MOST_CALLS + 1];            /* a letter each call: of a prompt's slot, or '.' */
    int32_t calls;
};

static void open_model(struct model *m)
{
    *m = (struct model){.calls = 0};
    assert_true(sw_batch_scheduler_create(SLOTS, 1, &m->scheduler));
}

static void begin(struct model *m, int64_t slot, int32_t chunks, int32_t tokens, bool ahead)
{
    assert_false(sw_batch_scheduler_is_busy(&m->scheduler, slot));
    sw_batch_scheduler_begin(&m->scheduler, slot, SW_PROGRAM_PREFILL, ahead);
    m->chunks[slot] = chunks;
    m->tokens[slot] = tokens;
}

static void take_token(struct model *m, int64_t slot)
{
    if (--m->tokens[slot] == 0)
        sw_batch_scheduler_end(&m->scheduler, slot);
}

/* One program, with rows for one chunk; whether any ran. */
static bool step(struct model *m)
{
    const enum sw_program_kind kind = sw_batch_scheduler_next(&m->scheduler);
    if (kind == SW_PROGRAM_KINDS)
        return false;
    assert_true(m->calls < MOST_CALLS);
    const int64_t slot = sw_batch_scheduler_first(&m->scheduler, kind, 0, -1);
    sw_batch_scheduler_run(&m->scheduler, kind);
    if (kind == SW_PROGRAM_DECODE) {
        m->said[m->calls++] = '.';
        for (int64_t i = 0; i < SLOTS; i++)
            if (m->scheduler.of[i].waits == SW_PROGRAM_DECODE)
                take_token(m, i);
    } else {
        assert_true(slot >= 0 && sw_batch_scheduler_reads(&m->scheduler, slot));
        m->said[m->calls++] = (char)('a' + slot);
        const bool gives =
            kind == SW_PROGRAM_READ || (m->scheduler.mixes && kind == SW_PROGRAM_PREFILL);
        for (int64_t i = 0; i < SLOTS; i++)
            if (gives && m->scheduler.of[i].waits == SW_PROGRAM_DECODE)
                take_token(m, i);
        if (--m->chunks[slot] == 0) { /* which gives the first token */
            sw_batch_scheduler_is_read(&m->scheduler, slot);
            take_token(m, slot);
        }
    }
    return true;
}

static void expect(struct model *m, const char *order)
{
    while (step(m))
        ;
    assert_string_equal(m->said, order);
    sw_batch_scheduler_free(&m->scheduler);
}

static void prompts_and_tokens_take_turns(void **state)
{
    struct model m;
    (void)state;
    open_model(&m);
    begin(&m, 2, 1, 4, false);
    begin(&m, 0, 3, 2, false); /* in the order in which they came, whatever their slots */
    begin(&m, 1, 1, 1, false);
    expect(&m, "c.a.a.a.b");
}

static void nobody_waits_where_no_token_is_made(void **state)
{
    struct model m;
    (void)state;
    open_model(&m);
    assert_int_equal(sw_batch_scheduler_next(&m.scheduler), SW_PROGRAM_KINDS);
    begin(&m, 3, 2, 1, false);
    begin(&m, 1, 2, 1, false);
    expect(&m, "ddbb");
    open_model(&m);
    begin(&m, 3, 1, 3, false);
    expect(&m, "d..");
}

static void who_goes_ahead_is_read_next(void **state)
{
    struct model m;
    (void)state;
    open_model(&m);
    begin(&m, 0, 5, 9, false);
    begin(&m, 1, 5, 9, false);
    begin(&m, 2, 5, 9, false);
    assert_true(step(&m)); /* this one runs when it comes */
    begin(&m, 3, 1, 1, true);
    assert_true(step(&m));
    assert_string_equal(m.said, "ad");
    sw_batch_scheduler_free(&m.scheduler);
    open_model(&m); /* behind a token of the others, where it is their turn */
    begin(&m, 0, 1, 20, false);
    begin(&m, 1, 5, 9, false);
    begin(&m, 2, 5, 9, false);
    assert_true(step(&m));
    begin(&m, 3, 2, 1, true);
    for (int32_t i = 0; i < 6; i++)
        assert_true(step(&m));
    assert_string_equal(m.said, "a.d.b.d");
    sw_batch_scheduler_free(&m.scheduler);
}

/* The end of a prompt that `read` has is read in its turn, with a token of every text that runs;
 * behind a chunk these get one first. */
static void a_prompts_end_has_tokens_with_it(void **state)
{
    struct model m;
    (void)state;
    open_model(&m);
    begin(&m, 0, 1, 5, false); /* a; then with a token of each call of b's end, of c's chunk none */
    assert_true(step(&m));
    begin(&m, 1, 2, 1, false);
    sw_batch_scheduler_goes_on(&m.scheduler, 1);
    begin(&m, 2, 1, 1, false);
    begin(&m, 3, 1, 1, false);
    sw_batch_scheduler_goes_on(&m.scheduler, 3);
    expect(&m, "a.bbc.d");
}

/* Whatever prompts come, a text that runs waits for one call that has no token of it, then gets one
 * in a call that reads nothing. */
static void a_token_waits_for_one_call(void **state)
{
    enum { CALLS = 4000 };
    struct model m;
    uint64_t chance = 7;
    int32_t waited = 0, chunks = 0, ends = 0;
    (void)state;
    open_model(&m);
    begin(&m, 0, 1, CALLS, false);
    assert_true(step(&m));
    for (int32_t call = 0; call < CALLS; call++) {
        for (int64_t i = 1; i < SLOTS; i++) {
            chance = sw_hash_mix(chance);
            if (sw_batch_scheduler_is_busy(&m.scheduler, i) || chance % 3 != 0)
                continue;
            begin(&m, i, 1 + (int32_t)(chance / 3 % 4), 1 + (int32_t)(chance / 12 % 3),
                  chance / 36 % 2 != 0);
            if (chance / 72 % 2 != 0)
                sw_batch_scheduler_goes_on(&m.scheduler, i);
        }
        const enum sw_program_kind kind = sw_batch_scheduler_next(&m.scheduler);
        const int32_t tokens = m.tokens[0];
        m.calls = 0;
        assert_true(step(&m));
        assert_true(waited == 0 || kind == SW_PROGRAM_DECODE);
        waited = m.tokens[0] < tokens ? 0 : waited + 1;
        chunks += kind == SW_PROGRAM_PREFILL;
        ends += kind == SW_PROGRAM_READ;
        for (int64_t i = 1; i < SLOTS; i++) /* the rest of some prompts is such an end */
            if (m.scheduler.of[i].waits == SW_PROGRAM_PREFILL && m.chunks[i] == 1)
                sw_batch_scheduler_goes_on(&m.scheduler, i);
    }
    assert_true(chunks > CALLS / 10 && ends > CALLS / 10);
    sw_batch_scheduler_free(&m.scheduler);
}

/* A call for prompts that mixes has a token of every text that runs; one for scores has none. */
static void no_token_waits_where_calls_mix(void **state)
{
    struct model m;
    (void)state;
    open_model(&m);
    m.scheduler.mixes = true;
    begin(&m, 2, 1, 4, false);
    begin(&m, 0, 3, 2, false);
    begin(&m, 1, 1, 1, false);
    assert_true(step(&m) && step(&m) && step(&m));
    assert_int_equal(m.tokens[2], 1);
    expect(&m, "caaab");
    open_model(&m);
    m.scheduler.mixes = true;
    begin(&m, 1, 1, 3, false);
    assert_true(step(&m));
    sw_batch_scheduler_begin(&m.scheduler, 3, SW_PROGRAM_SCORE, false);
    m.chunks[3] = 2;
    m.tokens[3] = 1;
    expect(&m, "bd.d.");
}

/* Others that go ahead come for ever: every second call is for those that do not. */
static void no_prompt_is_passed_for_ever(void **state)
{
    struct model m;
    (void)state;
    open_model(&m);
    begin(&m, 0, 1, 1, false);
    begin(&m, 1, 2, 1, false);
    while (sw_batch_scheduler_reads(&m.scheduler, 1)) {
        assert_true(m.calls < 10);
        if (!sw_batch_scheduler_is_busy(&m.scheduler, 2))
            begin(&m, 2, 1, 1, true);
        assert_true(step(&m));
    }
    assert_string_equal(m.said, "cacbcb");
    sw_batch_scheduler_free(&m.scheduler);
}

static void many_prompts_are_read_before_tokens(void **state)
{
    struct sw_batch_scheduler t;
    (void)state;
    assert_true(sw_batch_scheduler_create(SLOTS, 2, &t));
    assert_int_equal(sw_batch_scheduler_next_of_many(&t), SW_PROGRAM_KINDS);
    sw_batch_scheduler_begin(&t, 0, SW_PROGRAM_SCORE, false);
    sw_batch_scheduler_begin(&t, 1, SW_PROGRAM_PREFILL, false);
    sw_batch_scheduler_begin(&t, 2, SW_PROGRAM_PREFILL, false);
    sw_batch_scheduler_is_read(&t, 2);
    assert_int_equal(sw_batch_scheduler_next_of_many(&t), SW_PROGRAM_PREFILL);
    /* of a shard its own slots */
    assert_int_equal(sw_batch_scheduler_first(&t, SW_PROGRAM_PREFILL, 0, -1), 1);
    assert_int_equal(sw_batch_scheduler_first(&t, SW_PROGRAM_PREFILL, 0, 1), -1);
    assert_int_equal(sw_batch_scheduler_first(&t, SW_PROGRAM_PREFILL, 1, -1), -1);
    assert_int_equal(sw_batch_scheduler_first(&t, SW_PROGRAM_DECODE, 1, -1), 2);
    sw_batch_scheduler_is_read(&t, 1);
    assert_int_equal(sw_batch_scheduler_next_of_many(&t), SW_PROGRAM_SCORE);
    sw_batch_scheduler_end(&t, 0);
    assert_int_equal(sw_batch_scheduler_next_of_many(&t), SW_PROGRAM_DECODE);
    sw_batch_scheduler_free(&t);
    sw_batch_scheduler_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompts_and_tokens_take_turns),
        cmocka_unit_test(nobody_waits_where_no_token_is_made),
        cmocka_unit_test(a_prompts_end_has_tokens_with_it),
        cmocka_unit_test(a_token_waits_for_one_call),
        cmocka_unit_test(no_token_waits_where_calls_mix),
        cmocka_unit_test(who_goes_ahead_is_read_next),
        cmocka_unit_test(no_prompt_is_passed_for_ever),
        cmocka_unit_test(many_prompts_are_read_before_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
