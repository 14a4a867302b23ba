/* What the ranks do next. Rank 0 decides it, and before each program tells the others which slots
 * take which texts and which are free again; how texts go on follows from what all ranks know
 * (generate/engine.h). */
#ifndef SW_SERVE_ORDERS_H
#define SW_SERVE_ORDERS_H

#include "runner/generate/engine.h"
#include "runner/rank/launch.h"
#include "runner/text/tokenizer.h"

/* Since the last program; {0}: nothing. Rank 0's. */
struct sw_orders {
    struct sw_chars bytes;
};
int sw_orders_admit(struct sw_orders *orders, int64_t slot, const struct sw_text *text);
int sw_orders_drop(struct sw_orders *orders, int64_t slot);
void sw_orders_free(struct sw_orders *orders);

/* Rank 0 tells the others to do that and run a program, or, last, to end. Empties the orders. */
void sw_orders_send(const struct sw_launch *launch, struct sw_orders *orders, bool last);

/* Another rank obeys until the end comes; it sleeps while there is nothing to do. Errors: of the
 * engine; SW_ENVIRONMENT: no memory, orders that make no sense. */
int sw_orders_obey(const struct sw_launch *launch, struct sw_engine *engine, struct sw_error *err);

#endif
