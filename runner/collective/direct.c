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
    direct->parts = calloc(count, sizeof *direct->parts);
    direct->topology.order = calloc(count, sizeof *direct->topology.order);
    direct->sources = calloc(count, sizeof *direct->sources);
    if (direct->sends == NULL || direct->receives == NULL || direct->parts == NULL ||
        direct->topology.order == NULL || direct->sources == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for a group of %d", (int)group_max);
    return 0;
}

void sw_direct_free(struct sw_direct *direct)
{
    free(direct->sends);
    free(direct->receives);
    free(direct->parts);
    free(direct->topology.order);
    free(direct->sources);
    direct->sends = direct->receives = direct->parts = NULL;
    direct->topology.order = NULL;
    direct->sources = NULL;
}

/* A call as seen by one member of its group. Members are addressed by position in the order, a
 * node's being adjacent. */
struct member {
    struct sw_direct *direct;
    const struct sw_collective_call *call;
    int32_t group, own, index; /* own: this member's index, index: its position */
    int32_t each;              /* positions per node; all if blocks go directly */
    int32_t on_node;           /* members on each node, summed first */
    int64_t element;
    int64_t share; /* all_reduce: elements that each member sums */
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

/* Position k further: each member starts with a different partner. */
static int32_t further(const struct member *m, int32_t k)
{
    return (m->index + k) % m->group;
}

static int32_t member_at(const struct member *m, int32_t position)
{
    return m->direct->topology.order[position].member;
}

static int32_t rank_at(const struct member *m, int32_t position)
{
    return sw_axes_member(&m->direct->mesh, m->call->axes, m->direct->rank, member_at(m, position));
}

static void add_send(struct member *m, int32_t position, const void *data, int64_t bytes)
{
    m->direct->sends[m->send_count++] = (struct sw_transfer){
        .peer = rank_at(m, position), .bytes = (size_t)bytes, .data.send = data};
}

static void add_receive(struct member *m, int32_t position, void *data, int64_t bytes)
{
    m->direct->receives[m->receive_count++] = (struct sw_transfer){
        .peer = rank_at(m, position), .bytes = (size_t)bytes, .data.receive = data};
}

static int run(struct member *m, struct sw_error *err)
{
    struct sw_direct *e = m->direct;
    const int32_t sends = m->send_count, receives = m->receive_count;
    m->send_count = m->receive_count = 0;
    return e->transport->vtable->exchange(e->transport, e->sends, sends, e->receives, receives,
                                          err);
}

/* ---- Places ---- */

static void find_topology(struct member *m)
{
    struct sw_direct *e = m->direct;
    m->each = m->group;
    m->on_node =
        sw_topology_find(&e->topology, &e->mesh, m->call->axes, e->rank, e->transport->node);
    for (m->index = 0; member_at(m, m->index) != m->own; m->index++)
        ;
}

/* Sends blocks by node if they are large enough. */
static void choose_way(struct member *m, int64_t block_bytes)
{
    if (block_bytes >= SW_BY_NODE_BYTES)
        m->each = m->on_node;
}

/* True if the member's block comes from itself: it is on this node, or at this one's position on
 * another. */
static bool is_first_hand(const struct member *m, int32_t from)
{
    return from / m->each == m->index / m->each || from % m->each == m->index % m->each;
}

/* Position k further on this node. */
static int32_t neighbour(const struct member *m, int32_t k)
{
    return m->index - m->index % m->each + (m->index + k) % m->each;
}

/* The same position `nodes` nodes before. */
static int32_t counterpart(const struct member *m, int32_t position, int32_t nodes)
{
    return (position + m->group - nodes * m->each) % m->group;
}

/* ---- What goes to all members ---- */

/* Expects `bytes` from a position, into `data`. */
static void expect(struct member *m, int32_t from, void *data, int64_t bytes)
{
    const int32_t giver =
        is_first_hand(m, from) ? from : neighbour(m, from + m->each - m->index % m->each);
    m->direct->parts[from] = (struct sw_transfer){
        .peer = rank_at(m, giver), .bytes = (size_t)bytes, .data.receive = data};
}

/* Expects bytes [first, first + bytes) of a block: scattered into the output if the transport can
 * and this rank does not pass them on, else into the slot. */
static void expect_scattered(struct member *m, int32_t from, int64_t first, int64_t bytes,
                             void *slot)
{
    const struct sw_transport *transport = m->direct->transport;
    const struct sw_block block = sw_call_receive_block(m->call, m->group, member_at(m, from));
    struct sw_transfer *part = &m->direct->parts[from];
    const bool is_handed_on = from / m->each != m->index / m->each && is_first_hand(m, from);
    expect(m, from, slot, bytes);
    if (is_handed_on || !transport->vtable->scatters(transport, part->peer, block.row_bytes))
        return;
    part->data.receive = m->call->out[0];
    part->block = block;
    part->first = first;
}

static void add_part(struct member *m, int32_t from)
{
    if (m->direct->parts[from].bytes > 0)
        m->direct->receives[m->receive_count++] = m->direct->parts[from];
}

/* Sends `bytes` of this rank to all others and receives the expected parts. At most one message
 * each way between two ranks. */
static int hand_out(struct member *m, const void *own, int64_t bytes, struct sw_error *err)
{
    for (int32_t k = 1; k < m->group; k++) {
        const int32_t to = further(m, k), from = further(m, m->group - k);
        if (bytes > 0 && is_first_hand(m, to))
            add_send(m, to, own, bytes);
        if (is_first_hand(m, from))
            add_part(m, from);
    }
    if (run(m, err) != 0)
        return -1;
    for (int32_t node = 1; node < m->group / m->each; node++) {
        const struct sw_transfer *part = &m->direct->parts[counterpart(m, m->index, node)];
        for (int32_t k = 1; k < m->each; k++) {
            const int32_t from = neighbour(m, m->each - k);
            if (part->bytes > 0)
                add_send(m, neighbour(m, k), part->data.receive, (int64_t)part->bytes);
            add_part(m, counterpart(m, from, node));
        }
        if (run(m, err) != 0)
            return -1;
    }
    return 0;
}

/* Sends each other member its part of bytes [first, first + bytes) of the blocks and receives the
 * expected parts. */
static int deal_out(struct member *m, bool pack, int32_t first_slot, int64_t first, int64_t bytes,
                    struct sw_error *err)
{
    const struct sw_collective_call *call = m->call;
    for (int32_t k = 1; k < m->group; k++) {
        const struct sw_block send =
            sw_call_send_block(call, m->group, member_at(m, further(m, k)));
        if (pack)
            sw_block_pack(slot(m, first_slot + k - 1), call->in[0], &send, first, bytes);
        add_send(m, further(m, k),
                 pack ? slot(m, first_slot + k - 1)
                      : (const unsigned char *)call->in[0] + send.offset_bytes + first,
                 bytes);
        add_part(m, further(m, m->group - k));
    }
    return run(m, err);
}

/* all_gather and all_to_all: move blocks without sums. */
static int move_blocks(struct member *m, struct sw_error *err)
{
    const struct sw_collective_call *call = m->call;
    const struct sw_block own_send = sw_call_send_block(call, m->group, m->own);
    const struct sw_block own_receive = sw_call_receive_block(call, m->group, m->own);
    const bool pack = !sw_block_contiguous(&own_send), unpack = !sw_block_contiguous(&own_receive);
    const int64_t block_bytes = sw_block_bytes(&own_send);
    int64_t piece = smaller(block_bytes, m->direct->message_bytes_max);
    if (pack || unpack)
        piece = smaller(piece, m->slots.slot_bytes);
    if (call->kind == SW_ALL_GATHER)
        choose_way(m, block_bytes);

    for (int64_t first = 0; first < block_bytes; first += piece) {
        const int64_t bytes = smaller(piece, block_bytes - first);
        for (int32_t k = 1; k < m->group; k++) {
            const int32_t from = further(m, m->group - k);
            const struct sw_block receive =
                sw_call_receive_block(call, m->group, member_at(m, from));
            if (unpack)
                expect_scattered(m, from, first, bytes, slot(m, k - 1));
            else
                expect(m, from, (unsigned char *)call->out[0] + receive.offset_bytes + first,
                       bytes);
        }
        const int status = call->kind == SW_ALL_GATHER
                               ? hand_out(m, (const unsigned char *)call->in[0] + first, bytes, err)
                               : deal_out(m, pack, unpack ? m->group - 1 : 0, first, bytes, err);
        if (status != 0)
            return -1;
        for (int32_t k = 1; unpack && k < m->group; k++) {
            const int32_t from = further(m, m->group - k);
            const struct sw_block receive =
                sw_call_receive_block(call, m->group, member_at(m, from));
            if (m->direct->parts[from].block.rows == 0)
                sw_block_unpack(call->out[0], &receive, first, bytes, slot(m, k - 1));
        }
    }
    sw_block_copy(call->out[0], &own_receive, call->in[0], &own_send);
    return 0;
}

/* ---- Sums ---- */

/* Elements [first, first + elems) of the inputs: in place, or packed into `spare`. */
static const void *read_range(const struct member *m, int64_t first, int64_t elems, void *spare)
{
    int64_t offset;
    const int32_t operand = sw_call_operand_find(m->call, first, elems, &offset);
    if (operand >= 0)
        return (const unsigned char *)m->call->in[operand] + offset;
    sw_call_operands_pack(m->call, spare, first, elems);
    return spare;
}

/* Memory for elements [first, first + elems) of the outputs: in place, or `spare`, from which
 * write_range copies them. */
static void *write_target(const struct member *m, int64_t first, int64_t elems, void *spare)
{
    int64_t offset;
    const int32_t operand = sw_call_operand_find(m->call, first, elems, &offset);
    return operand >= 0 ? (unsigned char *)m->call->out[operand] + offset : spare;
}

static void write_range(const struct member *m, int64_t first, int64_t elems, const void *from)
{
    if (from != write_target(m, first, elems, NULL))
        sw_call_operands_unpack(m->call, first, elems, from);
}

static void *spare_own_slot(const struct member *m)
{
    return m->call->count > 1 ? slot(m, 2 * (m->group - 1)) : NULL;
}

/* First element of a position's part in the concatenated operands of an all_reduce. */
static int64_t part_begin(const struct member *m, int32_t position)
{
    return member_at(m, position) * m->share;
}

/* Bytes of [first, first + bytes) within a position's part of the sum: an all_reduce's last parts
 * may be shorter. */
static int64_t part_bytes(const struct member *m, int32_t position, int64_t first, int64_t bytes)
{
    const int64_t all = sw_call_total_elems(m->call) - part_begin(m, position);
    const int64_t left = smaller(all, m->share) * m->element - first;
    if (m->call->kind == SW_REDUCE_SCATTER)
        return bytes;
    return left > 0 ? smaller(left, bytes) : 0;
}

/* This rank's bytes [first, first + bytes) of a position's part: in place, or packed into slot
 * `spare`. */
static const void *own_part(struct member *m, int32_t position, int64_t first, int64_t bytes,
                            int32_t spare)
{
    const struct sw_collective_call *call = m->call;
    if (call->kind == SW_ALL_REDUCE)
        return read_range(m, part_begin(m, position) + first / m->element, bytes / m->element,
                          call->count > 1 ? slot(m, spare) : NULL);
    const struct sw_block block = sw_call_send_block(call, m->group, member_at(m, position));
    if (sw_block_contiguous(&block))
        return (const unsigned char *)call->in[0] + block.offset_bytes + first;
    sw_block_pack(slot(m, spare), call->in[0], &block, first, bytes);
    return slot(m, spare);
}

/* Fills sources[] of a ring of `count`, except `position`: data from the k-th before it lies in
 * slot k - 1, after `done` bytes. */
static void find_sources(const struct member *m, int32_t count, int32_t position, int64_t done)
{
    for (int32_t k = 1; k < count; k++)
        m->direct->sources[(position + count - k) % count] = (unsigned char *)slot(m, k - 1) + done;
}

/* Sums sources[], first within each node; a node's sum overwrites a slot of another member. */
static void sum_sources(const struct member *m, void *to, int64_t elems)
{
    const void **sources = m->direct->sources;
    const int32_t nodes = m->each / m->on_node;
    for (int32_t node = 0; nodes > 1 && node < nodes; node++) {
        const int32_t first = node * m->on_node;
        const void *sum = sources[first == m->index ? first + 1 : first];
        sw_sum(m->call->dtype, (void *)sum, &sources[first], m->on_node, elems);
        sources[node] = sum;
    }
    sw_sum(m->call->dtype, to, sources, nodes > 1 ? nodes : m->each, elems);
}

/* Sums over this node bytes [first, first + bytes) of a position's part; the others' lie in the
 * first slots. Long rows are read in place. */
static void sum_inside(struct member *m, int32_t position, int64_t first, int64_t bytes, void *to)
{
    enum { ROW_BYTES_MIN = 256 };
    const int32_t here = m->index % m->each;
    const struct sw_block block =
        m->call->kind == SW_REDUCE_SCATTER
            ? sw_call_send_block(m->call, m->group, member_at(m, position))
            : (struct sw_block){.rows = 1};
    const bool in_rows = !sw_block_contiguous(&block) && block.row_bytes >= ROW_BYTES_MIN;
    const void *own = in_rows ? NULL : own_part(m, position, first, bytes, 2 * (m->group - 1));
    for (int64_t done = 0, run = bytes; done < bytes; done += run) {
        int64_t at = 0;
        if (in_rows)
            run = smaller(sw_block_run(&block, first + done, &at), bytes - done);
        find_sources(m, m->each, here, done);
        m->direct->sources[here] = in_rows ? (const unsigned char *)m->call->in[0] + at : own;
        sum_sources(m, (unsigned char *)to + done, run / m->element);
    }
}

/* Slots of a sum, for a group of 2 or more: 0 .. group-2 receive, the last of them hold one sum per
 * node; with packing group-1 .. 2*group-3 send and 2*group-2 holds this rank's own part. */
static void *node_sum_slot(const struct member *m, int32_t node)
{
    return slot(m, m->group - 1 - m->group / m->each + node);
}

/* Computes this node's sums of bytes [first, first + bytes) for the members at this position on
 * every node, into each one's node slot; with one node, into `to`. */
static int sum_on_node(struct member *m, int64_t first, int64_t bytes, void *to,
                       struct sw_error *err)
{
    const int32_t nodes = m->group / m->each, position = m->index % m->each;
    for (int32_t node = 0; node < nodes; node++) {
        const int32_t own = node * m->each + position;
        const int64_t own_bytes = part_bytes(m, own, first, bytes);
        for (int32_t k = 1; k < m->each; k++) {
            const int32_t receiver = node * m->each + (position + k) % m->each;
            const int64_t sent = part_bytes(m, receiver, first, bytes);
            if (sent > 0)
                add_send(m, neighbour(m, k), own_part(m, receiver, first, sent, m->group - 2 + k),
                         sent);
            if (own_bytes > 0)
                add_receive(m, neighbour(m, m->each - k), slot(m, k - 1), own_bytes);
        }
        if (run(m, err) != 0)
            return -1;
        if (own_bytes > 0)
            sum_inside(m, own, first, own_bytes, nodes > 1 ? node_sum_slot(m, node) : to);
    }
    return 0;
}

/* Sums bytes [first, first + bytes) of this rank's part over all members into `to`; fewer if the
 * part ends. */
static int sum_part(struct member *m, int64_t first, int64_t bytes, void *to, struct sw_error *err)
{
    const int32_t nodes = m->group / m->each, here = m->index / m->each;
    const int64_t own_bytes = part_bytes(m, m->index, first, bytes);
    if (sum_on_node(m, first, bytes, to, err) != 0)
        return -1;
    if (nodes == 1)
        return 0;
    for (int32_t k = 1; k < nodes; k++) {
        const int32_t receiver = (m->index + k * m->each) % m->group;
        const int64_t sent = part_bytes(m, receiver, first, bytes);
        if (sent > 0)
            add_send(m, receiver, node_sum_slot(m, receiver / m->each), sent);
        if (own_bytes > 0)
            add_receive(m, counterpart(m, m->index, k), slot(m, k - 1), own_bytes);
    }
    if (run(m, err) != 0)
        return -1;
    find_sources(m, nodes, here, 0);
    m->direct->sources[here] = node_sum_slot(m, here);
    if (own_bytes > 0)
        sw_sum(m->call->dtype, to, m->direct->sources, nodes, own_bytes / m->element);
    return 0;
}

static int reduce_scatter(struct member *m, struct sw_error *err)
{
    const struct sw_block own = sw_call_send_block(m->call, m->group, m->index);
    const int64_t block_bytes = sw_block_bytes(&own);
    const int64_t piece =
        smaller(smaller(block_bytes, m->direct->message_bytes_max), m->slots.slot_bytes);
    choose_way(m, block_bytes);
    for (int64_t first = 0; first < block_bytes; first += piece)
        if (sum_part(m, first, smaller(piece, block_bytes - first),
                     (unsigned char *)m->call->out[0] + first, err) != 0)
            return -1;
    return 0;
}

/* Every member gets everything and sums it: one exchange instead of two. */
static int all_reduce_small(struct member *m, int64_t elems, struct sw_error *err)
{
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
        void *target = write_target(m, first, length, spare_own_slot(m));
        sum_sources(m, target, length);
        write_range(m, first, length, target);
    }
    return 0;
}

/* Member i sums part i of the concatenated operands and sends it to the others. */
static int all_reduce_large(struct member *m, int64_t elems, struct sw_error *err)
{
    const int64_t most = smaller(m->slots.slot_bytes, m->direct->message_bytes_max) / m->element;
    m->share = (elems + m->group - 1) / m->group;
    choose_way(m, m->share * m->element);
    for (int64_t at = 0; at < m->share; at += most) {
        /* This round's range of member i, [i * share + at, + length), clipped to its part and to
         * the total. */
        const int64_t first = at * m->element;
        const int64_t bytes = smaller(most, m->share - at) * m->element;
        const int64_t own_first = part_begin(m, m->index) + at;
        const int64_t own_length = part_bytes(m, m->index, first, bytes) / m->element;
        void *own = NULL;
        if (own_length > 0)
            own = write_target(m, own_first, own_length, spare_own_slot(m));
        if (sum_part(m, first, bytes, own, err) != 0)
            return -1;
        for (int32_t k = 1; k < m->group; k++) {
            const int32_t from = further(m, m->group - k);
            const int64_t length = part_bytes(m, from, first, bytes) / m->element;
            expect(m, from,
                   length > 0 ? write_target(m, part_begin(m, from) + at, length, slot(m, k - 1))
                              : NULL,
                   length * m->element);
        }
        if (hand_out(m, own, own_length * m->element, err) != 0)
            return -1;
        for (int32_t k = 1; k < m->group; k++) {
            const int32_t from = further(m, m->group - k);
            const int64_t length = part_bytes(m, from, first, bytes) / m->element;
            if (length > 0)
                write_range(m, part_begin(m, from) + at, length,
                            write_target(m, part_begin(m, from) + at, length, slot(m, k - 1)));
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
    m.own = sw_axes_index(&direct->mesh, call->axes, direct->rank);
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
    find_topology(&m);
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

/* All ranks send piece k in round k: different lengths cannot form a circle of waiting ranks. */
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
    /* Dissemination (Hensgen, Finkel, Manber 1988): after round i each rank knows 2^(i+1)
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
