#include "runner/collective/inquiry.h"

#include "core/base/clock.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

enum { ASK_TAG = SW_INQUIRY_TAG, ANSWER_TAG, SLOTS = 64 };

/* A message in transit; its memory is unchanged until sent. */
struct letter {
    int32_t words[2];
    MPI_Request request;
};

struct sw_inquiry {
    MPI_Comm comm;
    int32_t ranks;
    struct letter letters[SLOTS];
    int32_t asked;  /* rank asked last; -1: none */
    int32_t hops;   /* ranks asked in a row */
    int32_t number; /* the question's, to ignore late answers to older ones */
    double since;   /* time it was asked */
};

struct sw_inquiry *sw_inquiry_create(const void *mpi_comm, int32_t ranks)
{
    struct sw_inquiry *q = calloc(1, sizeof *q);
    if (q == NULL)
        return NULL;
    memcpy(&q->comm, mpi_comm, sizeof q->comm);
    q->ranks = ranks;
    q->asked = -1;
    for (int32_t i = 0; i < SLOTS; i++)
        q->letters[i].request = MPI_REQUEST_NULL;
    return q;
}

/* Drops the message if no slot is free: its receiver asks again. */
static void send(struct sw_inquiry *q, int32_t to, int tag, int32_t first, int32_t second)
{
    for (int32_t i = 0; i < SLOTS; i++) {
        struct letter *letter = &q->letters[i];
        int left = 1;
        if (letter->request != MPI_REQUEST_NULL &&
            (MPI_Test(&letter->request, &left, MPI_STATUS_IGNORE) != MPI_SUCCESS || !left))
            continue;
        letter->words[0] = first;
        letter->words[1] = second;
        if (MPI_Isend(letter->words, 2, MPI_INT32_T, to, tag, q->comm, &letter->request) !=
            MPI_SUCCESS)
            letter->request = MPI_REQUEST_NULL;
        return;
    }
}

static bool receive(struct sw_inquiry *q, int tag, int32_t words[2], int32_t *from)
{
    int there = 0;
    MPI_Status status;
    if (MPI_Iprobe(MPI_ANY_SOURCE, tag, q->comm, &there, &status) != MPI_SUCCESS || !there)
        return false;
    *from = status.MPI_SOURCE;
    return MPI_Recv(words, 2, MPI_INT32_T, *from, tag, q->comm, MPI_STATUS_IGNORE) == MPI_SUCCESS;
}

void sw_inquiry_answer(struct sw_inquiry *q, int32_t waits_for)
{
    int32_t words[2], from;
    while (receive(q, ASK_TAG, words, &from))
        send(q, from, ANSWER_TAG, words[0], waits_for);
}

static void ask(struct sw_inquiry *q, int32_t rank)
{
    q->asked = rank;
    q->since = sw_clock_now();
    send(q, rank, ASK_TAG, ++q->number, 0);
}

bool sw_inquiry_ask(struct sw_inquiry *q, int32_t waits_for, double patience_s, int32_t *culprit)
{
    int32_t words[2], from;
    sw_inquiry_answer(q, waits_for);
    if (q->asked < 0) {
        q->hops = 0;
        ask(q, waits_for);
        return false;
    }
    while (receive(q, ANSWER_TAG, words, &from)) {
        if (from != q->asked || words[0] != q->number || words[1] < 0 || words[1] >= q->ranks)
            continue;
        if (q->hops++ == q->ranks) {
            *culprit = -1;
            return true;
        }
        ask(q, words[1]);
    }
    *culprit = q->asked;
    return sw_clock_now() - q->since > patience_s;
}

void sw_inquiry_stop(struct sw_inquiry *q)
{
    q->asked = -1;
}

void sw_inquiry_free(struct sw_inquiry *q)
{
    for (int32_t i = 0; q != NULL && i < SLOTS; i++)
        if (q->letters[i].request != MPI_REQUEST_NULL)
            (void)MPI_Request_free(&q->letters[i].request);
    free(q);
}
