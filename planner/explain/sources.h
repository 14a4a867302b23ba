/* `plan explain --sources`: the constants behind a predicted time, each with its position, the
 * share of time that follows it and its error; and the most useful measurement. Owns only itself;
 * strings are the run's. */
#ifndef SW_EXPLAIN_SOURCES_H
#define SW_EXPLAIN_SOURCES_H

#include "core/cost/constants.h"
#include "planner/search/report.h"

struct sw_source {
    struct sw_constant constant;
    /* Relative change of the time over that of the constant, d ln(time) / d ln(constant), from
     * prices with 1 % more and 1 % less of it: -0.6 means that 1 % more saves 0.6 %. Its magnitude
     * is the share of the time that follows the constant. Two factors of one rate (a peak and the
     * share of it) have the same share, so shares may add up to more than 1. */
    double elasticity;
    double doubt; /* share x error: its own, else half of the profile's band */
};

struct sw_sources {
    const struct sw_run_config *run;
    enum sw_purpose purpose;
    struct sw_candidate c;                   /* the priced unit: a step, or a token */
    struct sw_source row[SW_MOST_CONSTANTS]; /* largest share first */
    int32_t count;
    int32_t idle;       /* number of constants without effect on the time */
    int32_t worst;      /* index in row of the largest doubt that can be measured; -1: none */
    char command[1024]; /* command that measures it; "": none */
};

/* The candidate comes from the search for that purpose. Errors: SW_UNMET, SW_ENVIRONMENT
 * (memory). */
int sw_sources_make(const struct sw_run_config *run, const struct sw_candidate *candidate,
                    enum sw_purpose purpose, struct sw_sources *out, struct sw_error *err);

/* "FILE:LINE", or the name of the default. Returns buffer. */
const char *sw_source_place(const struct sw_sources *s, const struct sw_constant *constant,
                            char *buffer, size_t bytes);

void sw_sources_text(FILE *out, const struct sw_sources *s);
/* Writes schema shardwright.explain.sources/1; one object and a newline. */
void sw_sources_print_json(FILE *out, const struct sw_sources *s);

#endif
