/* What an executor is made of: execute_create.c makes it and frees it, execute.c runs it. */
#ifndef SW_RANK_EXECUTE_INTERNAL_H
#define SW_RANK_EXECUTE_INTERNAL_H

#include "core/ir/walk.h"
#include "runner/collective/call.h"
#include "runner/rank/execute.h"

enum { RING_TRANSFERS = 8, POISON_BYTES = 1 << 20 };

/* An operand with everything but the address, which depends on the layer. */
struct operand {
    struct sw_tensor tensor;
    int64_t offset, slot_bytes;
    int32_t slots, value;
    uint8_t mode;
    int32_t shift, period; /* its instance of a layer is (layer + shift) / period; or shift */
};

struct prepared {
    struct operand *in, *out;             /* [n_in], [n_out] of the op */
    struct sw_collective_call collective; /* all but the addresses */
};

/* What is known of one program of the set, a size of one of serving. A device that can record runs
 * the first step op by op (libraries choose their kernels then), later ones as recordings. */
struct running {
    const struct sw_program *program; /* NULL: the set has none of this kind */
    int64_t shift_bytes;              /* of what lies behind the state (decode_shift_bytes) */
    struct prepared *prepared;        /* [op_count] */
    struct operand *operands;         /* of all ops */
    uint64_t *ticket; /* [value_count]: of the newest collective that writes it; 0: none yet */
    bool records, warm;
    struct sw_recording *recording[SW_PASS_COUNT];
};

/* The transfers of the ring attention at hand, oldest first. */
struct transfers {
    struct sw_comm *comm;
    struct sw_axes axes;
    int32_t size, inner; /* as in struct sw_ring; one ring: all that is sent goes to the next */
    uint64_t ticket[RING_TRANSFERS];
    int32_t first, count;
};

struct sw_executor {
    const struct sw_program_set *set;
    struct running programs[SW_PROGRAM_KINDS][SW_SERVING_SIZES];
    struct running *now; /* the program at hand */
    struct pausing {
        sw_pause pause; /* NULL: it does not pause */
        void *context;
    } asked, pausing; /* of the next run; of the run at hand */
    struct sw_device *device;
    struct sw_comm *comm;
    char *arena;
    size_t arena_bytes;        /* as allocated */
    bool attached;             /* the communicator knows it */
    struct sw_tensor *tensors; /* of the op at hand: its operands, then its results */
    struct transfers transfers;
    uint64_t waited;               /* the newest ticket that was waited for */
    const struct sw_fetch *rounds; /* of the run at hand: who runs its exchange; NULL: nobody */
    char *rows;   /* of any input, those that this rank needs, whole and in natural order */
    char *part;   /* this rank's part of any input */
    void *poison; /* [POISON_BYTES]; NULL: the arena is not poisoned */
};

#endif
