/* Tells measurements from nonsense: what a rank's thread could have had of the cores against what
 * it had, and links against the memory that they go through. Owns nothing. */
#ifndef SW_CALIBRATE_SANITY_H
#define SW_CALIBRATE_SANITY_H

#include "runner/calibrate/write.h"

enum { SW_SANITY_NOTES = 3 };

/* Why figures are not believed, and how far from the truth a step's time may be that rests on them:
 * measured / predicted. Without a doubt count is 0 and both ends are 0. */
struct sw_sanity {
    int32_t count;
    char text[SW_SANITY_NOTES][160];
    double band_low, band_high;
};

/* Collective: of its time that a rank's thread can have a core, the mean over ranks: 1, or less
 * where the ranks of a machine have more threads than cores that they may use. nodes: equal ones,
 * filled one after the other. machine: of 48 bits, the same on nodes that share cores, as several
 * slurmd of one machine do, and on no others. Errors: memory, the collectives'. */
int sw_calibrate_fair_share(struct sw_comm *world, int32_t nodes, uint64_t machine, int32_t threads,
                            double *share, struct sw_error *err);

/* fair: as sw_calibrate_fair_share tells; inside, across: links that were measured, NULL: none. A
 * calibration without a share, which is of GPUs, is not asked for it. */
void sw_calibration_check(const struct sw_calibration *calibration, double fair,
                          const struct sw_link_rates *inside, const struct sw_link_rates *across,
                          struct sw_sanity *out);

/* What the step at its end says against the figures, for people; text "": nothing, it took what
 * prices are off by at most without any doubt. Returns text. */
const char *sw_calibration_check_step(double predicted_s, double measured_s, char text[160]);

#endif
