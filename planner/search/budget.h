/* Limits of a run's cost, --budget and --deadline, and the units of costs.
 *
 * BUDGET   := AMOUNT UNIT, or '$' AMOUNT: '2000 GPU-hours', '250 node-hours', '5000 USD', '300 kWh'
 * DEADLINE := DURATION or DATE: '36 h', '1 day 12 h', '1-12:00:00', '2026-12-24T08:00'
 *
 * Pure, except that a date without a time zone has the process's. Owns nothing. */
#ifndef SW_SEARCH_BUDGET_H
#define SW_SEARCH_BUDGET_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Kinds of cost, each with its unit in programs. */
enum sw_cost_kind {
    SW_COST_TIME,              /* seconds */
    SW_COST_ACCELERATOR_HOURS, /* hours of one accelerator */
    SW_COST_NODE_HOURS,        /* hours of a whole node */
    SW_COST_ENERGY,            /* joules */
    SW_COST_MONEY,             /* the cluster's own currency */
    SW_COST_KINDS
};

/* Factor from a unit to that of its kind: "min" is 60 of SW_COST_TIME. Time: s, min, h, days, weeks
 * and their long names; accelerator-hours, GPU-hours, TPU-hours and node-hours, and -minutes and
 * -days; J, Wh and multiples; money: `currency` (cluster.currency; NULL: any), a sign such as '$',
 * or three capitals such as USD. False: no unit. */
bool sw_cost_unit(const char *name, const char *currency, enum sw_cost_kind *kind, double *factor);

enum { SW_LIMIT_TEXT = 48 };

/* Upper limit of one kind of cost of a run. */
struct sw_cost_limit {
    enum sw_cost_kind kind;
    double most;              /* > 0, in the unit of the kind */
    bool is_date;             /* true for a deadline at a date: `most` is the time from `now`
                                 to `at` */
    int64_t at;               /* date in seconds since 1970 */
    char text[SW_LIMIT_TEXT]; /* original text, for messages */
};

/* currency: cluster.currency; NULL: any. Errors (SW_BAD_INPUT), one line without a position: no
 * amount, no unit, an unknown one or another currency, an amount that is not positive. */
int sw_budget_parse(const char *text, const char *currency, struct sw_cost_limit *out,
                    struct sw_error *err);
/* now: seconds since 1970. Errors likewise; a date that does not exist or has passed. A date
 * without a time is the begin of that day, as in Slurm's --deadline. */
int sw_deadline_parse(const char *text, int64_t now, struct sw_cost_limit *out,
                      struct sw_error *err);

/* "2026-12-24 08:00 +0100", in the process's time zone. Returns buffer. */
char *sw_date_format(int64_t at, char buffer[SW_LIMIT_TEXT]);

#endif
