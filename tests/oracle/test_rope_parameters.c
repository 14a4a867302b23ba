/* Angles of rotary positions and the factor of their cosines and sines, of drawn models in every
 * spelling of config.json, against transformers' ROPE_INIT_FUNCTIONS (rope_parameters.py; its
 * output may be another one's of more draws).
 *
 * Theirs are fp32: of base^x the exponent alone is off by eps ln(base) / 2 and the power by eps, as
 * are the quotients behind it: with eps = 6e-8 and ln(base) <= 14 some 6e-7 together. The ramp of
 * yarn is off by eps / (high - low), of which high - low may be 0.001, where ramps of whole pairs
 * have no part between, and else by less than 10 eps, of an angle before it is divided. */
#include "core/config/config.h"
#include "core/ir/op.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TOLERANCE 1e-6         /* of an angle */
#define RAMP_TOLERANCE 6e-7    /* of the angle that is not stretched */
#define FACTOR_TOLERANCE 1e-12 /* both double */

static const char *path = "tests/oracle/fixtures/rope_parameters.txt";

/* The angles of a list; `at` goes on behind theirs. */
static void check_angles(const struct sw_model *m, const float *divisors, int32_t pairs, char **at,
                         const char *text)
{
    const struct sw_rope_attributes as = {
        .rope = m->rope,
        .head_dim = m->head_dim,
        .rotated = m->partial_rotary_factor != 0 ? sw_model_rotated(m) : 0};
    for (int32_t j = 0; j < pairs; j++) {
        const double theirs = strtod(*at, at), ours = sw_rope_frequency(&as, divisors, j);
        const double plain = pow(m->rope.theta, -2.0 * j / sw_rope_rotated(&as));
        if (!(fabs(ours - theirs) <= TOLERANCE * theirs + RAMP_TOLERANCE * plain))
            fail_msg("pair %d is %.9g, not %.9g, of %s", (int)j, ours, theirs, text);
    }
}

static void angles_are_transformers(void **state)
{
    (void)state;
    char *text = NULL, *made = NULL;
    size_t text_bytes = 0, made_bytes = 0;
    int32_t count = 0, longropes = 0;
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    while (getline(&text, &text_bytes, in) > 0) {
        char kind[16];
        assert_true(getline(&made, &made_bytes, in) > 0);
        struct sw_config *config = sw_config_read_text("config.json", text, strlen(text),
                                                       SW_CONFIG_MODEL, NULL, NULL, 0, NULL);
        assert_non_null(config);
        if (sw_config_model(config) == NULL)
            fail_msg("%s of %s", sw_config_diagnostic(config, 0)->message, text);
        const struct sw_model *m = &sw_config_model(config)->shape;
        int32_t used = 0;
        assert_int_equal(sscanf(made, "%15s %n", kind, &used), 1);
        assert_string_equal(sw_rope_type_name(&m->rope), kind);
        char *at = made + used;
        const double factor = strtod(at, &at);
        const int32_t pairs = (int32_t)strtol(at, &at, 10);
        const struct sw_rope_attributes as = {.rope = m->rope};
        if (!(fabs(sw_rope_attention_factor(&as) - factor) <= FACTOR_TOLERANCE * factor))
            fail_msg("the factor is %.17g, not %.17g, of %s", sw_rope_attention_factor(&as), factor,
                     text);
        assert_int_equal(sw_model_rotated(m) / 2, pairs);
        const int64_t original = m->rope.original_positions;
        check_angles(m, sw_rope_divisors(m, original), pairs, &at, text);
        if (m->rope.scaling == SW_ROPE_LONGROPE) {
            check_angles(m, sw_rope_divisors(m, original + 1), pairs, &at, text);
            longropes++;
        }
        assert_string_equal(at, "\n");
        sw_config_free(config);
        count++;
    }
    free(text);
    free(made);
    fclose(in);
    assert_in_range(count, 60, 1000000);
    assert_in_range(longropes, 10, count);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        path = argv[1];
    const struct CMUnitTest tests[] = {cmocka_unit_test(angles_are_transformers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
