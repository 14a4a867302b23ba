/* Who keeps a job waiting. A rank that waits long asks the one it waits for; who waits, too,
 * answers for whom, and is asked no more. The first that does not answer is the one that hangs:
 * every rank that waits comes to the same one, while the neighbours of those that wait are
 * innocent.
 *
 * Used by one thread, between looks at messages of its own. */
#ifndef SW_COLLECTIVE_INQUIRY_H
#define SW_COLLECTIVE_INQUIRY_H

#include <stdbool.h>
#include <stdint.h>

struct sw_inquiry;

/* mpi_comm: the address of an MPI_Comm (this header stands without MPI's), with two tags,
 * SW_INQUIRY_TAG and the next, that nothing else uses; the communicator outlives it. NULL: no
 * memory.
 */
struct sw_inquiry *sw_inquiry_create(const void *mpi_comm, int32_t ranks);
enum { SW_INQUIRY_TAG = 100 };
/* To be called now and then while this rank waits for waits_for: answers those that ask. */
void sw_inquiry_answer(struct sw_inquiry *inquiry, int32_t waits_for);
/* The same, and asks: to be called until it is true, which takes a `patience_s` without an answer.
 * *culprit: the rank that does not answer; -1: the ranks wait for each other in a circle. */
bool sw_inquiry_ask(struct sw_inquiry *inquiry, int32_t waits_for, double patience_s,
                    int32_t *culprit);
/* This rank got what it waited for. */
void sw_inquiry_stop(struct sw_inquiry *inquiry);
void sw_inquiry_free(struct sw_inquiry *inquiry);

#endif
