/* Checks that measurements are plausible: a rank's share of the cores against the share possible,
 * and links against the memory behind them. Owns nothing. */
#ifndef SW_CALIBRATE_SANITY_H
#define SW_CALIBRATE_SANITY_H

#include "runner/calibrate/write.h"

enum { SW_SANITY_NOTES = 3 };

/* Doubts about figures, and the band of a step's time that rests on them: measured / predicted. No
 * doubts: count 0, both ends 0. */
struct sw_sanity {
    int32_t count;
    char text[SW_SANITY_NOTES][160];
    double band_low, band_high;
};

/* Collective: mean over ranks of the share of its time that a rank's thread can have a core: below
 * 1 if ranks of a machine have more threads than usable cores. nodes: equal ones, filled in order.
 * machine: 48 bits, equal on nodes that share cores (several slurmd on one machine), else
 * different. Errors: memory, the collectives'. */
int sw_calibrate_fair_share(struct sw_comm *world, int32_t nodes, uint64_t machine, int32_t threads,
                            double *share, struct sw_error *err);

/* fair: from sw_calibrate_fair_share; inside, across: measured links, NULL: none. A GPU
 * calibration, which has no share, skips that check. */
void sw_calibration_check(const struct sw_calibration *calibration, double fair,
                          const struct sw_link_rates *inside, const struct sw_link_rates *across,
                          struct sw_sanity *out);

/* Verdict of the final step on the figures, for people; "" if the difference is within prices'
 * usual error. Returns text. */
const char *sw_calibration_check_step(double predicted_s, double measured_s, char text[160]);

#endif
