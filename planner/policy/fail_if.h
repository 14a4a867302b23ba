/* Conditions on what a plan is and costs, as in --fail-if 'memory > limit - headroom' or
 * 'tokens_per_second < -5%'.
 *
 *   CONDITION := [NAME ':'] (SIDE ('<' | '<=' | '>' | '>=' | '==' | '!=') SIDE
 *                            | ASPECT ('==' | '!=') (ASPECT | word) | 'rejected')
 *   SIDE      := numbers, measures, + - * / and parentheses; or a percentage with a sign, alone:
 *                'step > +5%' means that step is more than 5 % above its old value
 *   number    := 0.92, 70 GB, 1.5 s, 2 h, 450 GB/s, 12000 tokens/s, 2000 GPU-hours, 5000 USD, 300
 *                kWh; 40% is 0.40
 *   measure   := step, memory, ... of the new plan; old.step, old.memory, ... of the old one
 *   ASPECT    := mesh, recompute, verdict, partition; old.mesh, ...: 'mesh != old.mesh',
 *                'recompute == full'
 *   rejected  holds when the new run fits on no mesh
 *
 * Quantities carry their dimension, so 'memory > 1.5 s' is a mistake; a bare number fits them all.
 * Owns nothing: a condition is plain memory that points into the caller's text. */
#ifndef SW_POLICY_FAIL_IF_H
#define SW_POLICY_FAIL_IF_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sw_measure {
    SW_MEASURE_STEP,                /* seconds of one step */
    SW_MEASURE_MEMORY,              /* bytes in use on each accelerator */
    SW_MEASURE_LIMIT,               /* bytes of the accelerator */
    SW_MEASURE_TOKENS_PER_SECOND,   /* over all accelerators */
    SW_MEASURE_MFU,                 /* a fraction */
    SW_MEASURE_COMMUNICATION,       /* seconds of a step that compute waits for communication */
    SW_MEASURE_COMMUNICATION_BYTES, /* bytes that one rank sends in a step */
    SW_MEASURE_HEADROOM,            /* bytes of limit that memory_headroom keeps free */
    SW_MEASURE_ACCELERATORS,        /* number of accelerators */
    SW_MEASURE_DURATION, /* seconds of all steps; NAN: the run does not give their number */
    SW_MEASURE_ACCELERATOR_HOURS, /* all steps on all accelerators of the cluster; NAN likewise */
    SW_MEASURE_TOKEN,             /* serving: seconds of a token of every sequence */
    SW_MEASURE_FIRST,             /* until the first token behind a prompt */
    SW_MEASURE_BESIDE,            /* seconds of a token while prompts are read */
    SW_MEASURE_END,               /* seconds from the first job's start to the run's last save */
    SW_MEASURE_RUN_HOURS,         /* accelerator-hours of the whole run with saves, starts and
                                     repeated work; NAN likewise */
    SW_MEASURE_MONEY,      /* cost of the whole run, in the cluster's currency; NAN: no price */
    SW_MEASURE_ENERGY,     /* joules of the whole run; NAN: power is unknown */
    SW_MEASURE_NODES,      /* number of nodes */
    SW_MEASURE_TIME_LIMIT, /* seconds of the job's limit; INFINITY: none; NAN: no job */
    SW_MEASURE_COUNT
};
const char *sw_measure_name(enum sw_measure measure); /* "step" "memory" ... */

/* Properties of a plan that are words. */
enum sw_aspect {
    SW_ASPECT_MESH,      /* "1,64,1,1" */
    SW_ASPECT_RECOMPUTE, /* a word of `recompute` in run files */
    SW_ASPECT_VERDICT,   /* "fits" or "fits_without_headroom" */
    SW_ASPECT_PARTITION, /* the job's, "": none; for a list, any of it */
    SW_ASPECT_COUNT
};
const char *sw_aspect_name(enum sw_aspect aspect); /* "mesh" ... */

enum { SW_FAIL_IF_NODES = 64, SW_FAIL_IF_NAME = 64, SW_ASPECT_BYTES = 64, SW_CURRENCY_BYTES = 16 };

struct sw_measures {
    double value[SW_MEASURE_COUNT]; /* NAN: the run lacks it */
    char word[SW_ASPECT_COUNT][SW_ASPECT_BYTES];
    bool serves;
    char currency[SW_CURRENCY_BYTES]; /* currency of money; "": none */
};

/* bytes^bytes * seconds^seconds ...; bare: a number without a unit, which takes on any dimension.
 */
struct sw_dimension {
    int8_t bytes, seconds, money, joules;
    bool bare;
};

struct sw_fail_if_node { /* node of the expression tree; children stand before their parent */
    char kind;           /* '#' number, 'm' measure, 'o' old measure, '_' minus, '+' '-' '*' '/' */
    int8_t left, right;
    int32_t column; /* from 1 */
    double number;
    enum sw_measure measure;
    struct sw_dimension dimension;
};

struct sw_fail_if_word { /* side of a comparison of words */
    bool is_literal, is_old;
    enum sw_aspect aspect;
    char text[SW_ASPECT_BYTES]; /* text of a literal */
};

enum sw_fail_if_form { SW_FAIL_IF_NUMBERS, SW_FAIL_IF_WORDS, SW_FAIL_IF_REJECTED };

struct sw_fail_if {
    const char *text;           /* the whole argument; the caller's */
    struct sw_place at;         /* position of its first character; file NULL: --fail-if */
    char name[SW_FAIL_IF_NAME]; /* given name; otherwise the beginning of the condition */
    struct sw_fail_if_node node[SW_FAIL_IF_NODES];
    int32_t count;
    char comparison[3];
    int32_t side[2];                  /* roots */
    char currency[SW_CURRENCY_BYTES]; /* currency of its amounts; "": none */
    enum sw_fail_if_form form;
    struct sw_fail_if_word word[2]; /* sides of a comparison of words */
    bool is_change; /* for numbers: true if side[1] is a signed percentage: the change of
                       side[0] against OLD */
};

/* Errors (SW_BAD_INPUT) have the position --fail-if:1:COLUMN; text must stay alive. */
int sw_fail_if_parse(const char *text, struct sw_fail_if *out, struct sw_error *err);
/* The same for a condition in a file that is about one plan alone: `at` is the position of its
 * first character, and references to an old plan are errors. */
int sw_fail_if_parse_alone(const char *text, const struct sw_place *at, struct sw_fail_if *out,
                           struct sw_error *err);

enum sw_fail_if_verdict { SW_FAIL_IF_PASS, SW_FAIL_IF_FAIL, SW_FAIL_IF_SKIPPED };
const char *sw_fail_if_verdict_name(enum sw_fail_if_verdict verdict); /* "pass" "fail" "skipped" */

/* Tests the condition. old_measures may be NULL: no old plan; conditions on it are skipped, as are
 * those on measures that are NAN. detail: "77.1 GB > 73.6 GB", the comparison that holds; or the
 * reason for skipping. */
enum sw_fail_if_verdict sw_fail_if_test(const struct sw_fail_if *condition,
                                        const struct sw_measures *old_measures,
                                        const struct sw_measures *new_measures, char *detail,
                                        size_t detail_bytes);

#endif
