/* A collective computed directly, element by element, from what every member holds, to compare
 * communicators with. Shared by the test of the thread communicator and the one of MPI. */
#ifndef SW_TESTS_COLLECTIVE_REFERENCE_H
#define SW_TESTS_COLLECTIVE_REFERENCE_H

#include "runner/collective/collective.h"

struct reference_random {
    uint64_t state;
};
/* 0 <= result < below. */
int32_t reference_random_below(struct reference_random *random, int32_t below);

struct reference_case {
    enum sw_collective kind;
    struct sw_axes axes;
    enum sw_dtype dtype;
    int32_t count; /* operands; each of local[] elements, the i-th with i more rows (dimension 0) */
    int ndim, dim, dim_to;
    int64_t local[SW_MAX_DIMS]; /* of the input, on one rank */
    int32_t stack;              /* > 1: the operands are whole stacks of this many such arrays */
    bool in_place;              /* all_reduce */
    int32_t node_ranks;         /* on each node; 0: all */
    bool waited_next;           /* as in the call; need not be the same on every rank */
    uint64_t seed;
};

/* A case that is valid on this mesh; the same for the same random state, so the same on every rank.
 * large: hundreds of kilobytes instead of hundreds of bytes. */
struct reference_case reference_case_random(struct reference_random *random,
                                            const struct sw_mesh *mesh, bool large);
void reference_case_format(const struct reference_case *c, char *buffer, size_t buffer_bytes);

/* One case under way on one rank. Its memory is exactly as large as it must be, fenced. */
struct reference_run {
    struct reference_case c;
    struct sw_collective_call call;
    unsigned char *in[SW_COLLECTIVE_MAX_OPERANDS], *out[SW_COLLECTIVE_MAX_OPERANDS], *workspace;
    int64_t out_elems[SW_COLLECTIVE_MAX_OPERANDS], workspace_bytes;
    uint64_t ticket;
};
int reference_begin(struct reference_run *run, struct sw_comm *comm, const struct reference_case *c,
                    struct sw_error *err);
/* Waits, compares bit for bit, frees. -1 and *err on a difference, too. */
int reference_end(struct reference_run *run, struct sw_comm *comm, struct sw_error *err);

/* Sends `bytes` bytes around every group over `axes`, once per member, and checks whose they are at
 * every hop. */
int reference_ring(struct sw_comm *comm, struct sw_axes axes, size_t bytes, struct sw_error *err);

/* Random permutations of the ranks: each sends its successor a message of a random length, often
 * none, sometimes up to `most` bytes; several of them and a collective are under way at a time. */
int reference_transfers(struct sw_comm *comm, uint64_t seed, int32_t most, struct sw_error *err);

#endif
