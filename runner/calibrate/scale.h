/* Scale from grids of products or attention to whole steps, by the bytes a step moves: caches keep
 * other ops' data, most of it in small steps. Owns nothing. */
#ifndef SW_CALIBRATE_SCALE_H
#define SW_CALIBRATE_SCALE_H

#include "runner/calibrate/write.h"

/* Uses the products of measured steps, which are not grid points. The scale never rises with the
 * step's size; steps too large for any cache reach at most 1, even if no measured step was so
 * large. *out: grids, peaks and bandwidth are input; sets products_scale, products_error and
 * products_tried if there was such a product. */
void sw_products_scale_find(const struct sw_kernel_rates *rates, int32_t ranks,
                            struct sw_calibration *out);
/* The same for attention: sets attention_scale, attention_error and attention_tried. Ignores
 * sequences shorter than the grid's. */
void sw_attention_scale_find(const struct sw_kernel_rates *rates, int32_t ranks,
                             struct sw_calibration *out);

#endif
