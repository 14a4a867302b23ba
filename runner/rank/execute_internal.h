/* State of an executor: execute_create.c makes and frees it, execute.c runs it. */
#ifndef SW_RANK_EXECUTE_INTERNAL_H
#define SW_RANK_EXECUTE_INTERNAL_H

#include "core/ir/walk.h"
#include "runner/collective/call.h"
#include "runner/rank/execute.h"

enum { RING_TRANSFERS = 8, POISON_BYTES = 1 << 20 };

/* An operand without its address, which depends on the layer. */
struct operand {
    struct sw_tensor tensor;
    int64_t offset, slot_bytes;
    int32_t slots, value;
    uint8_t mode;
    int32_t shift, period; /* instance of a layer: (layer + shift) / period; or shift */
};

struct prepared {
    struct operand *in, *out;             /* the op's [n_in], [n_out] */
    struct sw_collective_call collective; /* without addresses */
};

/* State of one program, or one size of a serving program. A device that records runs the first step
 * op by op, while libraries choose kernels, then uses recordings. */
struct running {
    const struct sw_program *program; /* NULL: none of this kind */
    int64_t shift_bytes;              /* offset of everything after the state
                                       * (decode_shift_bytes) */
    struct prepared *prepared;        /* [op_count] */
    struct operand *operands;         /* memory of all ops' operands */
    uint64_t *ticket; /* [value_count]: latest collective that writes it; 0: none yet */
    bool records, warm;
    struct sw_recording *recording[SW_PASS_COUNT];
};

/* Transfers of the current ring attention, oldest first. */
struct transfers {
    struct sw_comm *comm;
    struct sw_axes axes;
    int32_t size, inner; /* see struct sw_ring; one ring: all sends go to the next */
    uint64_t ticket[RING_TRANSFERS];
    int32_t first, count;
};

struct sw_executor {
    const struct sw_program_set *set;
    struct running programs[SW_PROGRAM_KINDS][SW_SERVING_SIZES];
    struct running *now; /* the current program */
    struct pausing {
        sw_pause pause; /* NULL: no pauses */
        void *context;
    } asked, pausing; /* the next run's; the current run's */
    struct sw_device *device;
    struct sw_comm *comm;
    char *arena;
    size_t arena_bytes;        /* allocated size */
    bool attached;             /* true if the communicator knows it */
    struct sw_tensor *tensors; /* the current op's operands, then its results */
    struct transfers transfers;
    uint64_t waited;               /* latest ticket waited for */
    const struct sw_fetch *rounds; /* runs the current run's exchange; NULL: none */
    char *rows;                    /* this rank's rows of an input, whole and in natural order */
    char *part;                    /* this rank's part of an input */
    void *poison;                  /* [POISON_BYTES]; NULL: no poisoning */
};

#endif
