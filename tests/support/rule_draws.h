/* Random `rules` with a mesh, a model, a precision and micro-steps, for tests of invariants. */
#ifndef SW_TEST_RULE_DRAWS_H
#define SW_TEST_RULE_DRAWS_H

#include "core/ir/serving.h"

enum { SW_RULE_ROWS = SW_L_MERGED_HEADS, SW_RULE_DRAW_BYTES = 2000 };

struct sw_rule_draw {
    struct sw_program_options options;
    int32_t rows;
    struct {
        const char *logical;
        struct sw_axes axes;
    } row[SW_RULE_ROWS];
    int32_t zero;    /* 1, 2, 3; other numbers: other shardings, or none */
    int64_t ignored; /* ignored labels, see struct sw_harness */
    bool serves;     /* true if it serves, false if it trains */
    struct sw_serving serving;
};

/* Pure function of seed and number. The rows are also in options.rules. */
void sw_rule_draw_make(uint64_t seed, int64_t number, struct sw_rule_draw *out);
/* Formats the draw for a message. Returns text. */
const char *sw_rule_draw_describe(const struct sw_rule_draw *d, char text[SW_RULE_DRAW_BYTES]);

#endif
