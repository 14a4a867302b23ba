/* Mixture of sources by weight: which source each row of the training comes from.
 *
 * Row after row the source with the largest deficit is taken: weight times rows so far, this one
 * included, less rows taken; of equal ones the first. Weights are made whole numbers of 2^-40 of
 * their sum, so that all of it is exact and the same everywhere, and every beginning of the
 * sequence meets its weights to within a row for each source. Owns its arrays. One thread at a
 * time. */
#ifndef SW_MIXTURE_H
#define SW_MIXTURE_H

#include "core/base/error.h"

#include <stdint.h>

struct sw_mixture;

/* weight [count], each finite and above 0; NULL: one source. Errors (SW_ENVIRONMENT): memory. */
int sw_mixture_create(const double *weight, int32_t count, struct sw_mixture **out,
                      struct sw_error *err);
void sw_mixture_free(struct sw_mixture *mixture);
/* The source of row `row` (>= 0), and the row's number among those of that source. Goes on from the
 * last row asked for, or from the mark, or from row 0. */
int32_t sw_mixture_find(struct sw_mixture *mixture, int64_t row, int64_t *inside);
/* Marks a row to which later calls go back. */
void sw_mixture_mark(struct sw_mixture *mixture, int64_t row);

#endif
