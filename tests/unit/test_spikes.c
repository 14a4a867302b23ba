/* Spikes by mean and deviation of the steps before. */
#include "runner/train/spikes.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

enum { WINDOW = 8, STEPS = 200 };
static const struct sw_optimizer_config watching = {
    .on_spike = SW_SPIKE_SKIP, .spike_threshold = 3, .spike_window = WINDOW};

static double draw(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(*seed >> 11) * 0x1p-53;
}

/* The weighted sums by their definition: the first WINDOW steps alike, then each the share
 * 1 / WINDOW and the ones before it what that leaves. */
static void by_definition(const double *x, int count, double *mean, double *variance)
{
    double weight[STEPS], sum = 0, squares = 0;
    for (int i = 0; i < count; i++) {
        const double share = i < WINDOW ? 1.0 / (i + 1) : 1.0 / WINDOW;
        for (int j = 0; j < i; j++)
            weight[j] *= 1 - share;
        weight[i] = share;
    }
    for (int i = 0; i < count; i++)
        sum += weight[i] * x[i];
    for (int i = 0; i < count; i++)
        squares += weight[i] * (x[i] - sum) * (x[i] - sum);
    *mean = sum;
    *variance = squares;
}

static void figures_are_those_of_the_steps(void **state)
{
    (void)state;
    struct sw_spikes s = {0};
    double loss[STEPS], norm[STEPS], mean, variance, most[2];
    uint64_t seed = 7;
    for (int i = 0; i < STEPS; i++) {
        sw_spikes_limits(&watching, &s, &most[0], &most[1]);
        if (i < WINDOW)
            assert_true(most[0] == DBL_MAX && most[1] == DBL_MAX);
        else
            assert_true(fabs(most[1] - (mean + 3 * sqrt(variance))) <= 1e-12 * most[1]);
        loss[i] = 5 - 0.01 * i + draw(&seed);
        norm[i] = exp(draw(&seed));
        sw_spikes_add(&watching, &s, loss[i], norm[i]);
        by_definition(loss, i + 1, &mean, &variance);
        assert_true(fabs(s.loss_mean - mean) <= 1e-12 * mean);
        assert_true(fabs(s.loss_variance - variance) <= 1e-12 * mean * mean);
        by_definition(norm, i + 1, &mean, &variance);
        assert_true(fabs(s.norm_mean - mean) <= 1e-12 * mean);
        assert_true(fabs(s.norm_variance - variance) <= 1e-12 * mean * mean);
    }
    assert_int_equal(s.seen, WINDOW);
}

/* A loss that does not move is no spike for its last digits. */
static void small_changes_are_none(void **state)
{
    (void)state;
    struct sw_spikes s = {0};
    double loss, norm;
    char text[200];
    for (int i = 0; i < WINDOW; i++)
        sw_spikes_add(&watching, &s, 2, 1);
    sw_spikes_limits(&watching, &s, &loss, &norm);
    assert_true(fabs(loss - 2.006) < 1e-12 && fabs(norm - 1.003) < 1e-12);
    assert_string_equal(sw_spikes_describe(&watching, &s, 2, 1.5, text),
                        "the gradient norm is 1.5, more than 1.003, which is 3 standard deviations "
                        "above its mean of 8 steps");
    assert_string_equal(sw_spikes_describe(&watching, &s, NAN, 1.5, text),
                        "the loss is not finite");
}

/* Whatever it meets, a limit is a number that infinity is above. */
static void limits_are_finite(void **state)
{
    (void)state;
    struct sw_spikes s = {0};
    double loss, norm;
    for (int i = 0; i < 3 * WINDOW; i++)
        sw_spikes_add(&watching, &s, i % 2 ? 1e300 : -1e300, 1e200);
    sw_spikes_limits(&watching, &s, &loss, &norm);
    assert_true(isfinite(loss) && isfinite(norm) && isfinite(s.loss_variance));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_are_those_of_the_steps),
        cmocka_unit_test(small_changes_are_none),
        cmocka_unit_test(limits_are_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
