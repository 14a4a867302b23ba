/* Losses and gradient norms that end a training. */
#include "runner/train/check_finite.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static void expect_at(int64_t step, double loss, double grad_norm, const char *message)
{
    struct sw_error err = {0};
    assert_int_equal(sw_check_finite(step, loss, grad_norm, &err), message == NULL ? 0 : -1);
    assert_string_equal(err.message, message == NULL ? "" : message);
    assert_int_equal(err.status, message == NULL ? SW_OK : SW_UNMET);
}

static void expect(double loss, double grad_norm, const char *message)
{
    expect_at(7, loss, grad_norm, message);
}

static void test_check_finite(void **state)
{
    (void)state;
    static const char loss[] = "the loss of step 7 is not finite; use a lower learning_rate or "
                               "more warmup_steps",
                      norm[] = "the gradient norm of step 7 is not finite; use a lower "
                               "learning_rate or more warmup_steps",
                      zero[] = "the gradient norm of step 7 is zero, so nothing is learned any "
                               "more; use a lower learning_rate or more warmup_steps";
    expect(5, 1, NULL);
    expect(0, 1e-300, NULL);
    expect((double)NAN, 1, loss);
    expect((double)INFINITY, 0, loss);
    expect(5, (double)NAN, norm);
    expect(5, (double)INFINITY, norm);
    expect(5, 0, zero);
    expect(5, -0.0, zero);
    /* before the first update no learning rate had a part in it */
    expect_at(1, 5, 1, NULL);
    expect_at(1, (double)NAN, 1,
              "the loss of step 1 is not finite; begin with other weights: another init.from or "
              "initializer_range");
    expect_at(1, 5, 0,
              "the gradient norm of step 1 is zero, so nothing is learned any more; begin with "
              "other weights: another init.from or initializer_range");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_check_finite)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
