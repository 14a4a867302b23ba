/* The calibrate command: measures this machine, or the job's nodes, and writes the profile and
 * cluster file that `plan` reads. */
#ifndef SW_CALIBRATE_H
#define SW_CALIBRATE_H

#include "runner/rank/rank.h"

struct sw_calibrate_options {
    const char *profile_path;   /* -o; never NULL */
    const char *cluster_path;   /* --cluster; NULL: none; in the profile's folder */
    const char *plan_path;      /* --plan: the rank's, which gives the final step; NULL: none */
    double seconds;             /* time to measure, > 0 */
    bool quick;                 /* true if --quick was given */
    enum sw_device_kind device; /* the ranks': CPU cores or GPUs */
    bool force;                 /* true to write doubtful figures too, with a band that says so */
};

/* Default measuring times, the second with --quick; reading and writing take a little more. */
#define SW_CALIBRATE_SECONDS 55.0
#define SW_CALIBRATE_QUICK_SECONDS 8.0

/* Collective; the rank may have a plan or none. options: struct sw_calibrate_options. Prints
 * results and errors; returns the exit code. Writes nothing unless all was measured and is
 * plausible, possibly after a second attempt (sanity.h). */
int sw_calibrate(struct sw_rank *rank, const void *options);

#endif
