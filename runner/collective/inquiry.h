/* Finds the rank that a job waits for. A rank that waits long asks the one it waits for; one that
 * waits itself answers with the rank it waits for, which is asked next. The first rank that does
 * not answer hangs: every waiting rank finds the same one, and does not blame its neighbours.
 *
 * Used by one thread, between checks of its own messages. */
#ifndef SW_COLLECTIVE_INQUIRY_H
#define SW_COLLECTIVE_INQUIRY_H

#include <stdbool.h>
#include <stdint.h>

struct sw_inquiry;

/* mpi_comm: address of an MPI_Comm (this header does not include MPI's) whose tags SW_INQUIRY_TAG
 * and the next are unused; it outlives the inquiry. NULL: no memory. */
struct sw_inquiry *sw_inquiry_create(const void *mpi_comm, int32_t ranks);
enum { SW_INQUIRY_TAG = 100 };
/* Answers the ranks that ask; called repeatedly while this rank waits for waits_for. */
void sw_inquiry_answer(struct sw_inquiry *inquiry, int32_t waits_for);
/* Answers and asks; called until true, which takes `patience_s` without an answer. *culprit: the
 * rank that does not answer; -1: the ranks wait for each other in a circle. */
bool sw_inquiry_ask(struct sw_inquiry *inquiry, int32_t waits_for, double patience_s,
                    int32_t *culprit);
/* Ends the question: this rank got its message. */
void sw_inquiry_stop(struct sw_inquiry *inquiry);
void sw_inquiry_free(struct sw_inquiry *inquiry);

#endif
