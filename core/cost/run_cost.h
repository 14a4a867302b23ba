/* Cost of a whole training run: its end, accelerator-hours, energy and money.
 *
 * A run is a series of attempts on the same accelerators. Each starts up, repeats what its last
 * durable checkpoint does not hold, and trains until the last step, a failure, or the time limit of
 * its job. Failures come at a constant rate while accelerators are held. Pure arithmetic; owns
 * nothing. Seconds unless a name says otherwise. */
#ifndef SW_COST_RUN_COST_H
#define SW_COST_RUN_COST_H

#include "core/config/config.h"
#include "core/cost/checkpoint.h"

/* Terms of a run, at one duration of a step. */
struct sw_run_terms {
    int64_t steps;             /* > 0 */
    double step_s;             /* steps from one save to the next; 0: only after the last step */
    int64_t interval;          /* pause of training for a save */
    double pause_s;            /* pause of training for a save */
    double durable_s;          /* steps from one evaluation to the next; 0: after the last step */
    int64_t evaluate_interval; /* steps from an evaluation to the next; 0: after the last step */
    double evaluate_s;         /* duration of one; 0: no evaluations */
    double start_s;            /* from an attempt's start to its first step */
    double load_s;             /* added if it resumes: reading a checkpoint */
    double failure_s;          /* mean time between failures; INFINITY: none */
    double restart_s;          /* from a failure to the next attempt, accelerators held */
    double queue_s;            /* between two attempts, accelerators not held */
    double limit_s;            /* from a job's start until it saves and ends; INFINITY: none */
};

/* Expected parts of a run's wall time; `wall_s` is their sum. */
struct sw_run_time {
    double steps_s;    /* each step once */
    double save_s;     /* pauses, and waits for saves at the ends of jobs */
    double evaluate_s; /* evaluations */
    double start_s;    /* starts of attempts, with reading checkpoints */
    double repeated_s; /* steps and saves that failures lost */
    double restart_s;  /* accelerators held after failures */
    double queue_s;    /* waits for accelerators between attempts */
    double wall_s;
    double held_s;   /* wall_s less queue_s */
    double failures; /* expected count */
    double jobs;     /* expected number of jobs, as the time limit divides the run */
};

/* Expected time of a run with random failures.
 *
 * Failures are exponential, of rate l. An attempt must run a = start + load + interval + durable_s
 * without one until its next checkpoint is durable: (exp(l a) - 1) / l in the mean, with
 * exp(l a) - 1 failures (Daly, "A higher order estimate of the optimum checkpoint interval for
 * restart dumps", Future Generation Computer Systems 22, 2006, eq. 13; the delay until a save is
 * durable is added). Ends at the time limit follow from a renewal equation. INFINITY where an
 * attempt reaches a checkpoint less than once in 10^12. */
void sw_run_time(const struct sw_run_terms *terms, struct sw_run_time *out);

/* A quantity of a run, with the 10th and 90th percentile of the step's band. NAN: the run or the
 * cluster lacks a setting for it. */
struct sw_run_estimate {
    double value, low, high;
};

struct sw_run_cost {
    struct sw_run_terms terms;
    struct sw_run_time time;                  /* parts, at the predicted step */
    struct sw_run_estimate wall_s;            /* from the first job's start to the last save */
    struct sw_run_estimate accelerator_hours; /* accelerators x held time */
    struct sw_run_estimate energy_joules;     /* accelerators at `power`, without hosts */
    struct sw_run_estimate money;             /* at cluster.price_per_accelerator_hour */
};

/* Step of a run and its interruptions. */
struct sw_run_step {
    int64_t steps;                /* > 0 */
    double step_s, low_s, high_s; /* predicted; 10th and 90th percentile */
    double evaluate_s;            /* duration of an evaluation; 0: none */
    double limit_s;               /* a job's, minus the lead of its signal; INFINITY: none */
};

/* Prices a run. Saves follow checkpoint.every_steps, else save's proposed interval. */
void sw_run_cost_price(const struct sw_run_config *run, const struct sw_checkpoint_cost *save,
                       const struct sw_run_step *step, struct sw_run_cost *out);

/* Adds the cost of a run that follows or stands beside; times, hours, energy and money are sums. */
void sw_run_cost_add(struct sw_run_cost *sum, const struct sw_run_cost *part);

#endif
