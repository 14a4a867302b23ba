/* The learning rate of each step. */
#include "runner/train/learning_rate.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static const struct sw_optimizer_config base = {.learning_rate = 8e-4,
                                                .schedule = SW_SCHEDULE_COSINE,
                                                .warmup_steps = 4,
                                                .total_steps = 104,
                                                .min_learning_rate = 2e-4};

/* A handful of roundings in double. */
static void expect(const struct sw_optimizer_config *o, int64_t step, double rate)
{
    assert_true(fabs(sw_learning_rate(o, step) - rate) <= 8 * 0x1p-52 * base.learning_rate);
}

static void test_warmup(void **state)
{
    (void)state;
    expect(&base, 1, 2e-4);
    expect(&base, 2, 4e-4);
    expect(&base, 3, 6e-4);
    expect(&base, 4, 8e-4);
    struct sw_optimizer_config none = base;
    none.warmup_steps = 0;
    none.schedule = SW_SCHEDULE_CONSTANT;
    expect(&none, 1, 8e-4);
}

static void test_cosine(void **state)
{
    (void)state;
    expect(&base, 29, 2e-4 + 6e-4 * (1 + sqrt(0.5)) / 2); /* a quarter of the way */
    expect(&base, 54, 5e-4);                              /* half way */
    expect(&base, 104, 2e-4);
    expect(&base, 5000, 2e-4); /* --steps beyond the schedule */
    double last = sw_learning_rate(&base, 4);
    for (int64_t step = 5; step <= 104; step++) {
        const double rate = sw_learning_rate(&base, step);
        assert_true(rate < last);
        last = rate;
    }
}

static void test_linear(void **state)
{
    (void)state;
    struct sw_optimizer_config o = base;
    o.schedule = SW_SCHEDULE_LINEAR;
    expect(&o, 29, 6.5e-4);
    expect(&o, 54, 5e-4);
    expect(&o, 103, 2e-4 + 6e-6);
    expect(&o, 104, 2e-4);
    expect(&o, 105, 2e-4);
}

static void test_constant(void **state)
{
    (void)state;
    struct sw_optimizer_config o = base;
    o.schedule = SW_SCHEDULE_CONSTANT;
    expect(&o, 1, 2e-4); /* warms up all the same */
    expect(&o, 5, 8e-4);
    expect(&o, 104, 8e-4);
    expect(&o, 105, 8e-4);
}

/* The only step behind the warm-up, or of all, trains: it does not end a decay that had no way. */
static void test_one_step(void **state)
{
    (void)state;
    for (int32_t schedule = 0; schedule < 2; schedule++)
        for (int32_t warmup = 0; warmup < 5; warmup++) {
            struct sw_optimizer_config o = base;
            o.schedule = schedule == 0 ? SW_SCHEDULE_COSINE : SW_SCHEDULE_LINEAR;
            o.min_learning_rate = 0;
            o.warmup_steps = warmup;
            o.total_steps = warmup + 1;
            expect(&o, warmup + 1, 8e-4);
            expect(&o, warmup + 2, 0);
        }
}

/* Figures of transformers' get_wsd_schedule with decay_type="linear" for 4, 80 and 20 steps, and
 * min_lr_ratio 0.25. */
static void test_wsd(void **state)
{
    (void)state;
    struct sw_optimizer_config o = base;
    o.schedule = SW_SCHEDULE_WSD;
    o.decay_steps = 20;
    expect(&o, 1, 2e-4);
    expect(&o, 4, 8e-4);
    expect(&o, 5, 8e-4);
    expect(&o, 84, 8e-4);
    expect(&o, 85, 2e-4 + 6e-4 * 19 / 20);
    expect(&o, 94, 5e-4);
    expect(&o, 104, 2e-4);
    expect(&o, 105, 2e-4);
    o.decay_steps = 0; /* a tenth */
    expect(&o, 94, 8e-4);
    expect(&o, 99, 5e-4);
    expect(&o, 104, 2e-4);
    o.decay_steps = 100; /* all behind the warm-up: linear */
    expect(&o, 29, 6.5e-4);
    o.decay_steps = 0;
    o.total_steps = 1;
    o.warmup_steps = 0;
    o.min_learning_rate = 0;
    expect(&o, 1, 8e-4); /* it trains */
}

/* Figures of transformers' get_inverse_sqrt_schedule with a warm-up. */
static void test_inverse_sqrt(void **state)
{
    (void)state;
    struct sw_optimizer_config o = base;
    o.schedule = SW_SCHEDULE_INVERSE_SQRT;
    o.min_learning_rate = 0;
    expect(&o, 2, 4e-4);
    expect(&o, 4, 8e-4);
    expect(&o, 16, 4e-4);
    expect(&o, 64, 2e-4);
    expect(&o, 400, 8e-5); /* total_steps ends nothing */
    o.min_learning_rate = 3e-4;
    expect(&o, 16, 4e-4);
    expect(&o, 64, 3e-4);
}

/* Nothing but warm-up: no step is divided by a length of 0. */
static void test_only_warmup(void **state)
{
    (void)state;
    struct sw_optimizer_config o = base;
    o.warmup_steps = o.total_steps;
    expect(&o, 104, 8e-4);
    expect(&o, 105, 2e-4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_warmup),      cmocka_unit_test(test_cosine),
        cmocka_unit_test(test_linear),      cmocka_unit_test(test_constant),
        cmocka_unit_test(test_only_warmup), cmocka_unit_test(test_one_step),
        cmocka_unit_test(test_wsd),         cmocka_unit_test(test_inverse_sqrt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
