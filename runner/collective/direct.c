#include "runner/collective/direct.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int sw_direct_init(struct sw_direct *direct, struct sw_transport *transport,
                   const struct sw_mesh *mesh, int32_t rank, int32_t group_max,
                   struct sw_error *err)
{
    *direct = (struct sw_direct){.transport = transport,
                                 .mesh = *mesh,
                                 .rank = rank,
                                 .group_max = group_max,
                                 .message_bytes_max = SW_MESSAGE_BYTES_MAX,
                                 .shift_bytes_max = SW_SHIFT_BYTES_MAX};
    const size_t count = (size_t)group_max;
    direct->sends = calloc(count, sizeof *direct->sends);
    direct->receives = calloc(count, sizeof *direct->receives);
    direct->sources = calloc(count, sizeof *direct->sources);
    if (direct->sends == NULL || direct->receives == NULL || direct->sources == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for a group of %d", (int)group_max);
    return 0;
}

void sw_direct_free(struct sw_direct *direct)
{
    free(direct->sends);
    free(direct->receives);
    free(direct->sources);
    direct->sends = direct->receives = NULL;
    direct->sources = NULL;
}

/* One call as one member of its group sees it. */
struct member {
    struct sw_direct *direct;
    const struct sw_collective_call *call;
    int32_t group, index;
    int64_t element;
    struct sw_collective_slots slots;
    int32_t send_count, receive_count;
};

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void *slot(const struct member *m, int32_t index)
{
    return (unsigned char *)m->call->workspace + index * m->slots.slot_bytes;
}

/* The member that is k places further: everyone starts with another partner. */
static int32_t further(const struct member *m, int32_t k)
{
    return (m->index + k) % m->group;
}

static void add_send(struct member *m, int32_t member, const void *data, int64_t bytes)
{
    struct sw_direct *e = m->direct;
    e->sends[m->send_count++] =
        (struct sw_transfer){.peer = sw_axes_member(&e->mesh, m->call->axes, e->rank, member),
                             .bytes = (size_t)bytes,
                             .data.send = data};
}

static void add_receive(struct member *m, int32_t member, void *data, int64_t bytes)
{
    struct sw_direct *e = m->direct;
    e->receives[m->receive_count++] =
        (struct sw_transfer){.peer = sw_axes_member(&e->mesh, m->call->axes, e->rank, member),
                             .bytes = (size_t)bytes,
                             .data.receive = data};
}

/* Bytes [first, first + bytes) of what comes from a member: to where they belong if the transport
 * brings them there, else into the slot. */
static void add_scattered(struct member *m, int32_t from, int64_t first, int64_t bytes, void *slot)
{
    const struct sw_transport *transport = m->direct->transport;
    const struct sw_block block = sw_call_receive_block(m->call, m->group, from);
    add_receive(m, from, slot, bytes);
    struct sw_transfer *receive = &m->direct->receives[m->receive_count - 1];
    if (!transport->vtable->scatters(transport, receive->peer, block.row_bytes))
        return;
    receive->data.receive = m->call->out[0];
    receive->block = block;
    receive->first = first;
}

static int run(struct member *m, struct sw_error *err)
{
    struct sw_direct *e = m->direct;
    const int32_t sends = m->send_count, receives = m->receive_count;
    m->send_count = m->receive_count = 0;
    return e->transport->vtable->exchange(e->transport, e->sends, sends, e->receives, receives,
                                          err);
}

/* all_gather and all_to_all: blocks move, nothing is summed. */
static int move_blocks(struct member *m, struct sw_error *err)
{
    const struct sw_collective_call *call = m->call;
    const struct sw_block own_send = sw_call_send_block(call, m->group, m->index);
    const struct sw_block own_receive = sw_call_receive_block(call, m->group, m->index);
    const bool pack = !sw_block_contiguous(&own_send), unpack = !sw_block_contiguous(&own_receive);
    const int32_t first_send_slot = unpack ? m->group - 1 : 0;
    const int64_t block_bytes = sw_block_bytes(&own_send);
    int64_t piece = smaller(block_bytes, m->direct->message_bytes_max);
    if (pack || unpack)
        piece = smaller(piece, m->slots.slot_bytes);

    for (int64_t first = 0; first < block_bytes; first += piece) {
        const int64_t bytes = smaller(piece, block_bytes - first);
        for (int32_t k = 1; k < m->group; k++) {
            const int32_t to = further(m, k), from = further(m, m->group - k);
            const struct sw_block receive = sw_call_receive_block(call, m->group, from);
            if (unpack)
                add_scattered(m, from, first, bytes, slot(m, k - 1));
            else
                add_receive(m, from, (unsigned char *)call->out[0] + receive.offset_bytes + first,
                            bytes);
            const struct sw_block send = sw_call_send_block(call, m->group, to);
            if (pack)
                sw_block_pack(slot(m, first_send_slot + k - 1), call->in[0], &send, first, bytes);
            add_send(m, to,
                     pack ? slot(m, first_send_slot + k - 1)
                          : (const unsigned char *)call->in[0] + send.offset_bytes + first,
                     bytes);
        }
        if (run(m, err) != 0)
            return -1;
        for (int32_t k = 1; unpack && k < m->group; k++) {
            const struct sw_block receive =
                sw_call_receive_block(call, m->group, further(m, m->group - k));
            if (m->direct->receives[k - 1].block.rows == 0)
                sw_block_unpack(call->out[0], &receive, first, bytes, slot(m, k - 1));
        }
    }
    sw_block_copy(call->out[0], &own_receive, call->in[0], &own_send);
    return 0;
}

/* Bytes [first, first + bytes) of the own block and what the others sent of it, in their slots.
 * Rows that are worth a sum each are read where they lie. */
static void sum_block(const struct member *m, const struct sw_block *own, int64_t first,
                      int64_t bytes)
{
    enum { ROW_BYTES_MIN = 256 };
    const struct sw_collective_call *call = m->call;
    const unsigned char *in = call->in[0];
    const void **sources = m->direct->sources;
    const bool packed = !sw_block_contiguous(own) && own->row_bytes < ROW_BYTES_MIN;
    void *own_slot = slot(m, 2 * (m->group - 1));
    if (packed)
        sw_block_pack(own_slot, call->in[0], own, first, bytes);
    for (int64_t done = 0, run; done < bytes; done += run) {
        int64_t place;
        const int64_t together = sw_block_run(own, first + done, &place);
        run = packed ? bytes : smaller(together, bytes - done);
        sources[m->index] = packed ? own_slot : in + place;
        for (int32_t k = 1; k < m->group; k++)
            sources[further(m, m->group - k)] = (unsigned char *)slot(m, k - 1) + done;
        sw_sum(call->dtype, (unsigned char *)call->out[0] + first + done, sources, m->group,
               run / m->element);
    }
}

static int reduce_scatter(struct member *m, struct sw_error *err)
{
    const struct sw_collective_call *call = m->call;
    const struct sw_block own = sw_call_send_block(call, m->group, m->index);
    const bool pack = !sw_block_contiguous(&own);
    const int32_t first_send_slot = m->group - 1;
    const int64_t block_bytes = sw_block_bytes(&own);
    const int64_t piece =
        smaller(smaller(block_bytes, m->direct->message_bytes_max), m->slots.slot_bytes);

    for (int64_t first = 0; first < block_bytes; first += piece) {
        const int64_t bytes = smaller(piece, block_bytes - first);
        for (int32_t k = 1; k < m->group; k++) {
            const int32_t to = further(m, k), from = further(m, m->group - k);
            add_receive(m, from, slot(m, k - 1), bytes);
            const struct sw_block send = sw_call_send_block(call, m->group, to);
            if (pack)
                sw_block_pack(slot(m, first_send_slot + k - 1), call->in[0], &send, first, bytes);
            add_send(m, to,
                     pack ? slot(m, first_send_slot + k - 1)
                          : (const unsigned char *)call->in[0] + send.offset_bytes + first,
                     bytes);
        }
        if (run(m, err) != 0)
            return -1;
        sum_block(m, &own, first, bytes);
    }
    return 0;
}

/* Where elements [first, first + elems) of the inputs can be read: in place, or packed into
 * `spare`. */
static const void *read_range(const struct member *m, int64_t first, int64_t elems, void *spare)
{
    int64_t offset;
    const int32_t operand = sw_call_operand_find(m->call, first, elems, &offset);
    if (operand >= 0)
        return (const unsigned char *)m->call->in[operand] + offset;
    sw_call_operands_pack(m->call, spare, first, elems);
    return spare;
}

/* Where elements [first, first + elems) of the outputs can be written: in place, or in `spare`,
 * from where write_range brings them to their place. */
static void *write_place(const struct member *m, int64_t first, int64_t elems, void *spare)
{
    int64_t offset;
    const int32_t operand = sw_call_operand_find(m->call, first, elems, &offset);
    return operand >= 0 ? (unsigned char *)m->call->out[operand] + offset : spare;
}

static void write_range(const struct member *m, int64_t first, int64_t elems, const void *place)
{
    if (place != write_place(m, first, elems, NULL))
        sw_call_operands_unpack(m->call, first, elems, place);
}

/* Slots of an all_reduce: receive 0 .. group-2; with several operands also send group-1 ..
 * 2*group-3, own 2*group-2. */
static void *spare_send_slot(const struct member *m, int32_t k)
{
    return m->call->count > 1 ? slot(m, m->group - 2 + k) : NULL;
}

static void *spare_own_slot(const struct member *m)
{
    return m->call->count > 1 ? slot(m, 2 * (m->group - 1)) : NULL;
}

/* Everyone gets everything and sums it: one exchange where a scattered sum takes two. */
static int all_reduce_small(struct member *m, int64_t elems, struct sw_error *err)
{
    const struct sw_collective_call *call = m->call;
    const void **sources = m->direct->sources;
    const int64_t most = smaller(m->slots.slot_bytes, m->direct->message_bytes_max) / m->element;
    for (int64_t first = 0; first < elems; first += most) {
        const int64_t length = smaller(most, elems - first);
        const void *own = read_range(m, first, length, spare_own_slot(m));
        sources[m->index] = own;
        for (int32_t k = 1; k < m->group; k++) {
            const int32_t from = further(m, m->group - k);
            sources[from] = slot(m, k - 1);
            add_receive(m, from, slot(m, k - 1), length * m->element);
            add_send(m, further(m, k), own, length * m->element);
        }
        if (run(m, err) != 0)
            return -1;
        void *place = write_place(m, first, length, spare_own_slot(m));
        sw_sum(call->dtype, place, sources, m->group, length);
        write_range(m, first, length, place);
    }
    return 0;
}

/* Member i sums the i-th part of all operands laid one behind the other, and hands it to the
 * others. */
static int all_reduce_large(struct member *m, int64_t elems, struct sw_error *err)
{
    const int64_t share = (elems + m->group - 1) / m->group;
    const int64_t most = smaller(m->slots.slot_bytes, m->direct->message_bytes_max) / m->element;
    const void **sources = m->direct->sources;
    for (int64_t at = 0; at < share; at += most) {
        /* This round's range of member i: [i * share + at, + length), cut off at the end of its
         * part and of all. */
        const int64_t wanted = smaller(most, share - at);
        const int64_t own_first = m->index * share + at;
        const int64_t own_length = smaller(wanted, elems - own_first);
        for (int32_t k = 1; k < m->group; k++) {
            const int32_t to = further(m, k), from = further(m, m->group - k);
            const int64_t first = to * share + at, length = smaller(wanted, elems - first);
            if (length > 0)
                add_send(m, to, read_range(m, first, length, spare_send_slot(m, k)),
                         length * m->element);
            if (own_length > 0) {
                sources[from] = slot(m, k - 1);
                add_receive(m, from, slot(m, k - 1), own_length * m->element);
            }
        }
        if (run(m, err) != 0)
            return -1;
        void *own = NULL;
        if (own_length > 0) {
            sources[m->index] = read_range(m, own_first, own_length, spare_own_slot(m));
            own = write_place(m, own_first, own_length, spare_own_slot(m));
            sw_sum(m->call->dtype, own, sources, m->group, own_length);
        }

        for (int32_t k = 1; k < m->group; k++) {
            const int32_t to = further(m, k), from = further(m, m->group - k);
            const int64_t first = from * share + at, length = smaller(wanted, elems - first);
            if (length > 0)
                add_receive(m, from, write_place(m, first, length, slot(m, k - 1)),
                            length * m->element);
            if (own_length > 0)
                add_send(m, to, own, own_length * m->element);
        }
        if (run(m, err) != 0)
            return -1;
        for (int32_t k = 1; k < m->group; k++) {
            const int64_t first = further(m, m->group - k) * share + at;
            const int64_t length = smaller(wanted, elems - first);
            if (length > 0)
                write_range(m, first, length, write_place(m, first, length, slot(m, k - 1)));
        }
        if (own_length > 0)
            write_range(m, own_first, own_length, own);
    }
    return 0;
}

static int find_group(const struct sw_direct *direct, struct sw_axes axes, int32_t *group,
                      struct sw_error *err)
{
    *group = sw_axes_size(&direct->mesh, axes);
    if (*group > direct->group_max)
        return sw_fail(err, SW_BAD_INPUT, "a group of %d, but no group over %d was declared",
                       (int)*group, (int)direct->group_max);
    return 0;
}

int sw_direct_collective(struct sw_direct *direct, const struct sw_collective_call *call,
                         struct sw_error *err)
{
    struct member m = {.direct = direct, .call = call};
    if (find_group(direct, call->axes, &m.group, err) != 0 ||
        sw_collective_call_check(call, m.group, err) != 0)
        return -1;
    m.index = sw_axes_index(&direct->mesh, call->axes, direct->rank);
    m.element = (int64_t)sw_dtype_bytes(call->dtype);
    m.slots = sw_call_slots(call, m.group);
    const int64_t elems = sw_call_total_elems(call);
    if (elems == 0)
        return 0;
    if (m.group == 1) {
        for (int32_t i = 0; i < call->count; i++)
            if (call->out[i] != call->in[i])
                memcpy(call->out[i], call->in[i], (size_t)(call->elems[i] * m.element));
        return 0;
    }
    if (m.slots.slots > 0 && call->workspace == NULL)
        return sw_fail(err, SW_BAD_INPUT, "no workspace, it needs %lld bytes",
                       (long long)(m.slots.slots * m.slots.slot_bytes));
    switch (call->kind) {
    case SW_REDUCE_SCATTER:
        return reduce_scatter(&m, err);
    case SW_ALL_REDUCE:
        return elems * m.element * m.group <= SW_ALL_REDUCE_SMALL
                   ? all_reduce_small(&m, elems, err)
                   : all_reduce_large(&m, elems, err);
    default:
        return move_blocks(&m, err);
    }
}

int sw_direct_shift(struct sw_direct *direct, struct sw_axes axes, const void *send, void *receive,
                    size_t bytes, struct sw_error *err)
{
    int32_t group;
    if (find_group(direct, axes, &group, err) != 0)
        return -1;
    if (group == 1) {
        if (bytes > 0)
            memcpy(receive, send, bytes);
        return 0;
    }
    const struct sw_transport_vtable *vtable = direct->transport->vtable;
    const int32_t index = sw_axes_index(&direct->mesh, axes, direct->rank);
    const int32_t next = sw_axes_member(&direct->mesh, axes, direct->rank, (index + 1) % group);
    const int32_t previous =
        sw_axes_member(&direct->mesh, axes, direct->rank, (index + group - 1) % group);
    const size_t most = (size_t)direct->shift_bytes_max;
    for (size_t first = 0; first < bytes; first += most) {
        const size_t piece = bytes - first < most ? bytes - first : most;
        const struct sw_transfer out = {
            .peer = next, .bytes = piece, .data.send = (const unsigned char *)send + first};
        const struct sw_transfer in = {
            .peer = previous, .bytes = piece, .data.receive = (unsigned char *)receive + first};
        if (vtable->exchange(direct->transport, &out, 1, &in, 1, err) != 0)
            return -1;
    }
    return 0;
}

int sw_direct_transfer_check(const struct sw_mesh *mesh, int32_t rank, int32_t to,
                             size_t send_bytes, int32_t from, size_t receive_bytes,
                             struct sw_error *err)
{
    const int32_t ranks = sw_mesh_rank_count(mesh);
    const int32_t peer[2] = {to, from};
    const size_t bytes[2] = {send_bytes, receive_bytes};
    for (int i = 0; i < 2; i++)
        if (bytes[i] > 0 && (peer[i] < 0 || peer[i] >= ranks))
            return sw_fail(err, SW_BAD_INPUT, "there is no rank %d, there are %d", (int)peer[i],
                           (int)ranks);
    const size_t sent = to == rank ? send_bytes : 0, received = from == rank ? receive_bytes : 0;
    if (sent != received)
        return sw_fail(err, SW_BAD_INPUT, "%zu bytes go to itself and %zu come from itself", sent,
                       received);
    return 0;
}

char *sw_direct_transfer_format(int32_t to, size_t send_bytes, int32_t from, size_t receive_bytes,
                                char *buffer, size_t buffer_bytes)
{
    int length = snprintf(buffer, buffer_bytes, "transfer");
    if (send_bytes > 0 && length > 0 && (size_t)length < buffer_bytes)
        length += snprintf(buffer + length, buffer_bytes - (size_t)length, " to rank %d%s", (int)to,
                           receive_bytes > 0 ? "," : "");
    if (receive_bytes > 0 && length > 0 && (size_t)length < buffer_bytes)
        (void)snprintf(buffer + length, buffer_bytes - (size_t)length, " from rank %d", (int)from);
    return buffer;
}

/* Everyone's piece k travels in everyone's round k, so no order of lengths can make a ring of ranks
 * that wait for each other. */
int sw_direct_transfer(struct sw_direct *direct, int32_t to, const void *send, size_t send_bytes,
                       int32_t from, void *receive, size_t receive_bytes, struct sw_error *err)
{
    const size_t most = (size_t)direct->shift_bytes_max;
    const size_t bytes = send_bytes > receive_bytes ? send_bytes : receive_bytes;
    if (sw_direct_transfer_check(&direct->mesh, direct->rank, to, send_bytes, from, receive_bytes,
                                 err) != 0)
        return -1;
    if (bytes > 0 && (send_bytes == 0 || to == direct->rank) &&
        (receive_bytes == 0 || from == direct->rank)) {
        memmove(receive, send, bytes);
        return 0;
    }
    for (size_t first = 0; first < bytes; first += most) {
        const size_t sends = first < send_bytes ? send_bytes - first : 0;
        const size_t receives = first < receive_bytes ? receive_bytes - first : 0;
        const struct sw_transfer out = {.peer = to,
                                        .bytes = sends < most ? sends : most,
                                        .data.send = sends > 0 ? (const char *)send + first : NULL};
        const struct sw_transfer in = {.peer = from,
                                       .bytes = receives < most ? receives : most,
                                       .data.receive =
                                           receives > 0 ? (char *)receive + first : NULL};
        if (direct->transport->vtable->exchange(direct->transport, &out, sends > 0, &in,
                                                receives > 0, err) != 0)
            return -1;
    }
    return 0;
}

int sw_direct_barrier(struct sw_direct *direct, struct sw_error *err)
{
    const struct sw_transport_vtable *vtable = direct->transport->vtable;
    const int32_t ranks = sw_mesh_rank_count(&direct->mesh);
    /* Dissemination (Hensgen, Finkel, Manber 1988): after round i each rank has heard of 2^(i+1)
     * others. */
    for (int32_t distance = 1; distance < ranks; distance *= 2) {
        const unsigned char token = 1;
        unsigned char heard = 0;
        const struct sw_transfer out = {
            .peer = (direct->rank + distance) % ranks, .bytes = 1, .data.send = &token};
        const struct sw_transfer in = {
            .peer = (direct->rank + ranks - distance) % ranks, .bytes = 1, .data.receive = &heard};
        if (vtable->exchange(direct->transport, &out, 1, &in, 1, err) != 0)
            return -1;
    }
    return 0;
}
