/* Mixture of sources by weight: chooses each training row's source.
 *
 * Every row comes from the source with the largest deficit (the first of equals): its weight times
 * the number of rows, this one included, minus its rows so far. Weights are rounded to multiples of
 * 2^-40 of their sum, so that all is exact and equal everywhere; every prefix of the sequence
 * matches the weights to within a row per source. Owns its arrays. One thread at a time. */
#ifndef SW_MIXTURE_H
#define SW_MIXTURE_H

#include "core/base/error.h"

#include <stdint.h>

struct sw_mixture;

/* weight [count], each finite and above 0; NULL: one source. Errors (SW_ENVIRONMENT): memory. */
int sw_mixture_create(const double *weight, int32_t count, struct sw_mixture **out,
                      struct sw_error *err);
void sw_mixture_free(struct sw_mixture *mixture);
/* Source of row `row` (>= 0); *inside: its number among that source's rows. Continues from the last
 * row asked for, the mark, or row 0. */
int32_t sw_mixture_find(struct sw_mixture *mixture, int64_t row, int64_t *inside);
/* Marks a row that later calls can return to. */
void sw_mixture_mark(struct sw_mixture *mixture, int64_t row);

#endif
