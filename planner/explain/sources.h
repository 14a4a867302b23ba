/* `plan explain --sources`: the constants that a predicted time rests on, each with where it
 * stands, what share of the time goes with it and how far it has been off; and the measurement that
 * would tell most. Owns nothing beyond itself; strings are the run's. */
#ifndef SW_EXPLAIN_SOURCES_H
#define SW_EXPLAIN_SOURCES_H

#include "core/cost/constants.h"
#include "planner/search/report.h"

struct sw_source {
    struct sw_constant constant;
    /* Relative change of the time over that of the constant, d ln(time) / d ln(constant), from the
     * prices with 1 % more and 1 % less of it: -0.6 says that 1 % more takes 0.6 % off. Its
     * magnitude is the share of the time that goes with the constant. Two factors of one rate (a
     * peak and the share of it) have the same share, so shares may add up to more than 1. */
    double elasticity;
    double
        doubt; /* share x what it may be off by: its own error, else half of the profile's band */
};

struct sw_sources {
    const struct sw_run_config *run;
    enum sw_purpose purpose;
    struct sw_candidate c;                   /* what is priced: a step, or a token */
    struct sw_source row[SW_MOST_CONSTANTS]; /* the largest share first */
    int32_t count;
    int32_t idle;       /* further constants: the time does not change with them */
    int32_t worst;      /* of row, the largest doubt of those that can be measured; -1: none */
    char command[1024]; /* that measures it; "": none */
};

/* The candidate is one of the search for that purpose. Errors: SW_UNMET, SW_ENVIRONMENT (memory).
 */
int sw_sources_make(const struct sw_run_config *run, const struct sw_candidate *candidate,
                    enum sw_purpose purpose, struct sw_sources *out, struct sw_error *err);

/* "FILE:LINE", or which default it is. Returns buffer. */
const char *sw_source_place(const struct sw_sources *s, const struct sw_constant *constant,
                            char *buffer, size_t bytes);

void sw_sources_text(FILE *out, const struct sw_sources *s);
/* Schema shardwright.explain.sources/1; one object and a newline. */
void sw_sources_print_json(FILE *out, const struct sw_sources *s);

#endif
