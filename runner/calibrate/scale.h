/* How much of what a grid of products or attention says, those of whole steps reach, by how much
 * the step moves: caches hold what other ops left, most of it in small steps. Owns nothing. */
#ifndef SW_CALIBRATE_SCALE_H
#define SW_CALIBRATE_SCALE_H

#include "runner/calibrate/write.h"

/* From the products of the steps that were measured, which are none of the grid's points. Larger
 * steps reach no more, and those whose weights no cache holds no more than the products by
 * themselves, also where no step was as large. *out: of which the grids, peaks and bandwidth are
 * made; products_scale, products_error and products_tried are told, where there was such a product.
 */
void sw_products_scale_find(const struct sw_kernel_rates *rates, int32_t ranks,
                            struct sw_calibration *out);
/* The same of attention: attention_scale, attention_error and attention_tried. Shorter sequences
 * than the grid's tell nothing. */
void sw_attention_scale_find(const struct sw_kernel_rates *rates, int32_t ranks,
                             struct sw_calibration *out);

#endif
