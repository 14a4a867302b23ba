/* The calibrate command: measures what this machine, or the job's nodes, really do, and writes the
 * profile and the cluster file that `plan` reads. */
#ifndef SW_CALIBRATE_H
#define SW_CALIBRATE_H

#include "runner/rank/rank.h"

struct sw_calibrate_options {
    const char *profile_path;   /* -o; never NULL */
    const char *cluster_path;   /* --cluster; NULL: none; in the same folder */
    const char *plan_path;      /* --plan; the rank's, whose step it ends with; NULL: none */
    double seconds;             /* to measure for, > 0 */
    bool quick;                 /* the command line says to measure for less */
    enum sw_device_kind device; /* of the ranks: CPU cores or GPUs */
    bool force; /* figures that are not believed are written, with a band that tells of it */
};

/* What calibrate takes by default, and with --quick; reading and writing take a little more. */
#define SW_CALIBRATE_SECONDS 55.0
#define SW_CALIBRATE_QUICK_SECONDS 8.0

/* Collective, of a rank with or without a plan. options: struct sw_calibrate_options. Prints what
 * it found and its errors; returns the exit code. Nothing is written unless everything was measured
 * and, measured a second time if need be, can be (sanity.h). */
int sw_calibrate(struct sw_rank *rank, const void *options);

#endif
