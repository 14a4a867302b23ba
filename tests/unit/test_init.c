/* The generator of initial parameters against values from an independent implementation (Python
 * integers, math.log and math.cos, from the formula in init.h). */
#include "runner/init.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

struct known {
    uint64_t seed;
    const char *name;
    uint64_t key;
    double value[3]; /* of elements 0, 1 and 12345678901 */
};

static void test_known_values(void **state)
{
    (void)state;
    static const struct known known[] = {
        {0, "", 0xc3817c016ba4ff30u, {-1.3755128194778081, 0.1636940236570777, 0.2829540404457851}},
        {1,
         "embedding",
         0x7eded2a8884b9140u,
         {-0.2674912957952652, 0.4425594657773878, 1.2594262619848067}},
        {42,
         "wq.0",
         0xc56ad53d32d3ebd0u,
         {0.09118309759453304, 0.10118294195328922, -0.4846307938163598}},
        {UINT64_MAX,
         "w_down.31",
         0xe775f5e82e75640du,
         {-0.7863448685068344, 0.9005724679359658, -0.5697778042351334}}};
    static const uint64_t index[3] = {0, 1, 12345678901u};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        const uint64_t key = sw_init_key(known[i].seed, known[i].name);
        assert_true(key == known[i].key);
        /* log, sqrt and cos may differ by an ulp each between libraries; near a zero of the cosine
         * its argument's rounding shows: 8 * 2^-52 of the largest factor, sqrt(-2 ln 2^-53) < 9 */
        for (int j = 0; j < 3; j++)
            assert_true(fabs(sw_init_normal(key, index[j]) - known[i].value[j]) <= 8 * 9 * 0x1p-52);
    }
}

/* Mean, variance and the correlation of neighbours, each within five standard errors. */
static void test_is_standard_normal(void **state)
{
    (void)state;
    enum { COUNT = 200000 };
    const uint64_t key = sw_init_key(7, "w_up.3");
    double sum = 0, squares = 0, neighbours = 0, last = 0;
    for (uint64_t i = 0; i < COUNT; i++) {
        const double x = sw_init_normal(key, i);
        assert_true(isfinite(x));
        sum += x;
        squares += x * x;
        neighbours += x * last;
        last = x;
    }
    assert_true(fabs(sum / COUNT) < 5 / sqrt(COUNT));
    assert_true(fabs(squares / COUNT - 1) < 5 * sqrt(2.0 / COUNT));
    assert_true(fabs(neighbours / COUNT) < 5 / sqrt(COUNT));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_values),
        cmocka_unit_test(test_is_standard_normal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
