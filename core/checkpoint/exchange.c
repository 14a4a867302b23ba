#include "core/checkpoint/exchange.h"

#include "core/base/number.h"

#include <stdlib.h>
#include <string.h>

enum {
    CHUNK_PARTS = 16,
    CHUNK_MIN_BYTES = 64 << 10,
    CHUNK_RANK_BYTES = 1 << 20,
    CHUNK_USUAL_BYTES = 4 << 20,
    CHUNK_MAX_BYTES = 64 << 20,
    PAGE_BYTES = 4096
};
enum {
    MANY_CHUNKS = 1 << 17
};                         /* above that many, only some chunks are examined for the
                              busiest rank */
enum { WIDEST_BYTES = 8 }; /* bytes of the widest number, a multiple of every type's */

/* ---- Streams and chunks ---- */

/* Bytes of a state element in the file. */
static int64_t width_of(const struct sw_stored_tensor *t)
{
    return sw_stored_block_bytes(t);
}

/* State elements in a row of the file. */
static int64_t columns_of(const struct sw_stored_tensor *t)
{
    return t->size[1] / t->block;
}

static const struct sw_state_row *row_of(const struct sw_exchange *x,
                                         const struct sw_stored_tensor *t)
{
    return &x->state->row[t->row];
}

/* First tensor of a file that ends behind that byte; the index behind the last: none. */
static int32_t tensor_at(const struct sw_placement *p, int32_t file, int64_t at)
{
    int32_t low = p->file[file].first_tensor, high = low + p->file[file].tensor_count;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (p->tensor[middle].offset + p->tensor[middle].bytes > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static bool is_of(const struct sw_placement *p, int32_t tensor, int32_t file)
{
    return tensor < p->file[file].first_tensor + p->file[file].tensor_count;
}

/* First extent of an owner that ends behind that byte of its stream. */
static int32_t extent_at(const struct sw_exchange *x, int32_t owner, int64_t at)
{
    const struct sw_placement *p = x->placement;
    int32_t low = p->first_extent[owner], high = p->first_extent[owner + 1];
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (x->stream[middle] + p->extent[middle].end - p->extent[middle].begin > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static int64_t stream_bytes(const struct sw_exchange *x, int32_t owner)
{
    const struct sw_placement *p = x->placement;
    const int32_t last = p->first_extent[owner + 1] - 1;
    if (last < p->first_extent[owner])
        return 0;
    return x->stream[last] + p->extent[last].end - p->extent[last].begin;
}

int64_t sw_exchange_whole(const struct sw_exchange *x, int32_t owner, int64_t at)
{
    const struct sw_placement *p = x->placement;
    const int64_t all = stream_bytes(x, owner);
    if (at >= all)
        return all;
    const int32_t e = extent_at(x, owner, at);
    const struct sw_extent *extent = &p->extent[e];
    const int64_t in_file = extent->begin + at - x->stream[e];
    const int32_t tensor = tensor_at(p, extent->file, in_file);
    if (!is_of(p, tensor, extent->file) || p->tensor[tensor].offset >= in_file)
        return at;
    return at - (in_file - p->tensor[tensor].offset) % width_of(&p->tensor[tensor]);
}

/* Byte of the stream at which a round's chunk begins: a whole element. */
static int64_t cut(const struct sw_exchange *x, int32_t owner, int32_t round)
{
    return sw_exchange_whole(x, owner, round * x->step_bytes);
}

struct sw_stretch sw_exchange_stretch(const struct sw_exchange *exchange, int32_t owner,
                                      int32_t round)
{
    return (struct sw_stretch){owner, cut(exchange, owner, round), cut(exchange, owner, round + 1)};
}

/* A stretch, and the range of extents in which to look for its spans. */
struct chunk {
    int64_t begin, end;  /* bytes of the stream */
    int32_t first, last; /* extents of the owner, `last` exclusive */
};

static struct chunk chunk_of(const struct sw_exchange *x, const struct sw_stretch *s)
{
    struct chunk c = {s->begin, s->end, 0, x->placement->first_extent[s->owner + 1]};
    c.first = extent_at(x, s->owner, c.begin);
    return c;
}

static bool span_of(const struct sw_exchange *x, const struct chunk *c, int32_t i,
                    struct sw_span_of_file *out)
{
    const int32_t e = c->first + i;
    if (e >= c->last || x->stream[e] >= c->end || c->begin == c->end)
        return false;
    const struct sw_extent *extent = &x->placement->extent[e];
    const int64_t shift = extent->begin - x->stream[e]; /* offset from stream to file */
    const int64_t begin = c->begin > x->stream[e] ? c->begin + shift : extent->begin;
    const int64_t end = c->end + shift < extent->end ? c->end + shift : extent->end;
    *out = (struct sw_span_of_file){extent->file, begin, end, begin - shift - c->begin};
    return true;
}

bool sw_exchange_span(const struct sw_exchange *exchange, int32_t owner, int32_t round, int32_t i,
                      struct sw_span_of_file *out)
{
    const struct sw_stretch stretch = sw_exchange_stretch(exchange, owner, round);
    return sw_exchange_stretch_span(exchange, &stretch, i, out);
}

bool sw_exchange_stretch_span(const struct sw_exchange *exchange, const struct sw_stretch *stretch,
                              int32_t i, struct sw_span_of_file *out)
{
    const struct chunk c = chunk_of(exchange, stretch);
    return span_of(exchange, &c, i, out);
}

int64_t sw_exchange_chunk(const struct sw_exchange *exchange, int32_t owner, int32_t round)
{
    return cut(exchange, owner, round + 1) - cut(exchange, owner, round);
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

int64_t sw_exchange_chunk_bytes(const struct sw_placement *placement, int64_t room_bytes)
{
    const int64_t all = sw_align(sw_placement_most_bytes(placement), PAGE_BYTES);
    const int64_t part = sw_align(sw_placement_most_bytes(placement) / CHUNK_PARTS, PAGE_BYTES);
    const int64_t room = room_bytes / 2 / PAGE_BYTES * PAGE_BYTES;
    const int64_t wanted = larger(CHUNK_USUAL_BYTES, (int64_t)placement->ranks * CHUNK_RANK_BYTES);
    const int64_t most = larger(larger(part, CHUNK_MIN_BYTES), smaller(room, all));
    return smaller(smaller(wanted, most), CHUNK_MAX_BYTES);
}

/* Largest ratio of an element's bytes in messages to its bytes in a chunk. */
static int64_t most_growth(const struct sw_exchange *x)
{
    int64_t most = 1;
    for (int32_t i = 0; i < x->placement->tensor_count; i++) {
        const struct sw_stored_tensor *t = &x->placement->tensor[i];
        const int64_t growth = (int64_t)sw_dtype_bytes(row_of(x, t)->dtype) / width_of(t);
        most = growth > most ? growth : most;
    }
    return most;
}

/* Bytes of the widest element, a multiple of each tensor's. */
static int64_t widest(const struct sw_exchange *x)
{
    int64_t block = 1;
    for (int32_t i = 0; i < x->placement->tensor_count; i++)
        block = larger(block, x->placement->tensor[i].block);
    return block * WIDEST_BYTES;
}

/* True if a whole element begins at every multiple of the widest in every stream. */
static bool is_aligned(const struct sw_exchange *x)
{
    const struct sw_placement *p = x->placement;
    const int32_t extents = p->first_extent[p->ranks];
    for (int32_t e = 0; e < extents; e++) {
        const struct sw_extent *extent = &p->extent[e];
        for (int32_t i = tensor_at(p, extent->file, extent->begin);
             is_of(p, i, extent->file) && p->tensor[i].offset < extent->end; i++)
            if ((p->tensor[i].offset - extent->begin + x->stream[e]) % width_of(&p->tensor[i]) != 0)
                return false;
    }
    return true;
}

int sw_exchange_make(const struct sw_state *state, const struct sw_placement *placement,
                     const struct sw_mesh *mesh, bool loading, int64_t chunk_bytes,
                     struct sw_exchange *out, struct sw_error *err)
{
    struct sw_exchange x = {
        .state = state, .placement = placement, .mesh = *mesh, .loading = loading};
    x.chunk_bytes = chunk_bytes > 0 ? chunk_bytes : sw_exchange_chunk_bytes(placement, 0);
    x.stream = malloc(((size_t)placement->first_extent[placement->ranks] + 1) * sizeof *x.stream);
    if (x.stream == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the exchange of a checkpoint");
    int64_t most = 0;
    for (int32_t rank = 0; rank < placement->ranks; rank++) {
        int64_t at = 0;
        for (int32_t e = placement->first_extent[rank]; e < placement->first_extent[rank + 1];
             e++) {
            x.stream[e] = at;
            at += placement->extent[e].end - placement->extent[e].begin;
        }
        most = at > most ? at : most;
    }
    /* a cut that moves down to a whole element makes the next chunk longer by less than an
     * element */
    const int64_t each = widest(&x), fit = x.chunk_bytes / most_growth(&x) / each * each;
    x.step_bytes = is_aligned(&x) ? fit : fit - each;
    if (x.step_bytes < each)
        x.step_bytes = each;
    x.rounds = (int32_t)((most + x.step_bytes - 1) / x.step_bytes);
    *out = x;
    return 0;
}

void sw_exchange_free(struct sw_exchange *exchange)
{
    free(exchange->stream);
    *exchange = (struct sw_exchange){0};
}

/* ---- Pieces ---- */

struct box {
    int64_t start[2], size[2];
};

/* Cuts elements [first, end) of a tensor with `columns` in a row into at most three boxes. */
static int32_t cut_rows(int64_t columns, int64_t first, int64_t end, struct box out[3])
{
    int32_t count = 0;
    while (first < end) {
        const int64_t column = first % columns, left = end - first;
        struct box *box = &out[count++];
        *box = (struct box){{first / columns, column}, {1, columns - column}};
        if (column == 0 && left >= columns)
            box->size[0] = left / columns;
        else if (left < box->size[1])
            box->size[1] = left;
        first += box->size[0] * box->size[1];
    }
    return count;
}

/* A rank's part of a tensor, in the file's orientation, without padding; it may be empty. */
struct shard {
    struct box box;           /* part of each matrix */
    int64_t matrix, matrices; /* first matrix of the stack, and their number; 1 if no stack */
    int64_t rows;             /* rows of a matrix, in the orientation of the state */
};

static struct shard shard_of(const struct sw_exchange *x, const struct sw_stored_tensor *t,
                             int32_t rank)
{
    const struct sw_state_row *row = row_of(x, t);
    const uint8_t lead = sw_stored_is_of_stack(t, row) ? 1 : 0;
    struct shard shard = {{{0, 0}, {1, 1}}, 0, 1, row->local[lead]};
    for (uint8_t d = 0; d < row->ndim; d++) {
        const int64_t start =
            row->local[d] * sw_axes_index(&x->mesh, row->sharding.spec.dim[d], rank);
        const int64_t owned = sw_shard_owned(row->size[d], start, row->local[d]);
        const int32_t to = t->transposed ? 1 + lead - d : d - lead;
        *(d < lead ? &shard.matrix : &shard.box.start[to]) = start;
        *(d < lead ? &shard.matrices : &shard.box.size[to]) = owned;
    }
    return shard;
}

static bool intersect(const struct box *a, const struct box *b, struct box *out)
{
    for (int32_t d = 0; d < 2; d++) {
        const int64_t begin = a->start[d] > b->start[d] ? a->start[d] : b->start[d];
        const int64_t a_end = a->start[d] + a->size[d], b_end = b->start[d] + b->size[d];
        out->start[d] = begin;
        out->size[d] = (a_end < b_end ? a_end : b_end) - begin;
        if (out->size[d] <= 0)
            return false;
    }
    return true;
}

/* Two ranks of a message, and the pieces found so far. */
struct pair {
    const struct sw_exchange *x;
    int32_t owner, holder;
    sw_axis_set differ; /* axes along which the ranks' coordinates differ */
    sw_piece_visitor visit;
    void *context;
    int64_t bytes; /* bytes of the message */
};

/* True if this holder's copy of the tensor goes to this owner. */
static bool is_sender(const struct pair *pair, const struct sw_stored_tensor *t)
{
    return pair->x->loading ||
           (pair->differ & ~sw_spec_axes(&row_of(pair->x, t)->sharding.spec)) == 0;
}

/* Visits elements [first, end) of one matrix of a tensor; `at`: element 0 in the chunk; `before`:
 * matrices in the holder's shard before it. */
static int visit_matrix(struct pair *pair, int32_t tensor, const struct shard *shard,
                        int64_t before, int64_t first, int64_t end, int64_t at,
                        struct sw_error *err)
{
    const struct sw_stored_tensor *t = &pair->x->placement->tensor[tensor];
    const int64_t of_row = (int64_t)sw_dtype_bytes(row_of(pair->x, t)->dtype);
    struct box boxes[3], found;
    const int32_t count = cut_rows(columns_of(t), first, end, boxes);
    for (int32_t i = 0; i < count; i++) {
        if (!intersect(&boxes[i], &shard->box, &found))
            continue;
        const int64_t local[2] = {found.start[0] - shard->box.start[0],
                                  found.start[1] - shard->box.start[1]};
        const struct sw_piece piece = {
            .tensor = tensor,
            .start = {found.start[0], found.start[1]},
            .size = {found.size[0], found.size[1]},
            .at = at,
            .local = {local[t->transposed ? 1 : 0] + before * shard->rows,
                      local[t->transposed ? 0 : 1]},
            .message = pair->bytes};
        pair->bytes += found.size[0] * found.size[1] * of_row;
        if (pair->visit != NULL && pair->visit(pair->context, &piece, err) != 0)
            return -1;
    }
    return 0;
}

/* Visits the pieces of one tensor's part in a span. */
static int visit_tensor(struct pair *pair, int32_t tensor, const struct sw_span_of_file *span,
                        struct sw_error *err)
{
    const struct sw_stored_tensor *t = &pair->x->placement->tensor[tensor];
    if (!is_sender(pair, t))
        return 0;
    const int64_t width = width_of(t), elems = t->size[0] * columns_of(t);
    const int64_t begin = (span->begin > t->offset ? span->begin - t->offset : 0) / width;
    const int64_t end = smaller(span->end - t->offset, t->bytes) / width;
    const struct shard shard = shard_of(pair->x, t, pair->holder);
    for (int64_t m = begin / elems; m * elems < end; m++) {
        const int64_t before = t->first_matrix + m - shard.matrix;
        const int64_t first = larger(begin - m * elems, 0);
        if (before >= 0 && before < shard.matrices &&
            visit_matrix(pair, tensor, &shard, before, first, smaller(end - m * elems, elems),
                         span->at + t->offset - span->begin + m * elems * width, err) != 0)
            return -1;
    }
    return 0;
}

static sw_axis_set axes_that_differ(const struct sw_mesh *mesh, int32_t a, int32_t b)
{
    int32_t left[SW_AXIS_COUNT], right[SW_AXIS_COUNT];
    unsigned set = 0;
    sw_mesh_coordinate(mesh, a, left);
    sw_mesh_coordinate(mesh, b, right);
    for (unsigned axis = 0; axis < SW_AXIS_COUNT; axis++)
        set |= left[axis] != right[axis] ? 1u << axis : 0;
    return (sw_axis_set)set;
}

static int visit_chunk(struct pair *pair, const struct chunk *chunk, struct sw_error *err)
{
    const struct sw_placement *p = pair->x->placement;
    struct sw_span_of_file span;
    for (int32_t i = 0; span_of(pair->x, chunk, i, &span); i++)
        for (int32_t t = tensor_at(p, span.file, span.begin);
             is_of(p, t, span.file) && p->tensor[t].offset < span.end; t++)
            if (visit_tensor(pair, t, &span, err) != 0)
                return -1;
    return 0;
}

int sw_exchange_pieces(const struct sw_exchange *exchange, int32_t owner, int32_t holder,
                       int32_t round, sw_piece_visitor visit, void *context, int64_t *bytes,
                       struct sw_error *err)
{
    const struct sw_stretch stretch = sw_exchange_stretch(exchange, owner, round);
    return sw_exchange_stretch_pieces(exchange, &stretch, holder, visit, context, bytes, err);
}

int sw_exchange_stretch_pieces(const struct sw_exchange *exchange, const struct sw_stretch *stretch,
                               int32_t holder, sw_piece_visitor visit, void *context,
                               int64_t *bytes, struct sw_error *err)
{
    const int32_t owner = stretch->owner;
    struct pair pair = {exchange, owner,   holder, axes_that_differ(&exchange->mesh, owner, holder),
                        visit,    context, 0};
    const struct chunk chunk = chunk_of(exchange, stretch);
    const int rc = visit_chunk(&pair, &chunk, err);
    if (bytes != NULL)
        *bytes = pair.bytes;
    return rc;
}

struct sw_exchange_traffic sw_exchange_traffic(const struct sw_exchange *exchange, int32_t rank)
{
    struct sw_exchange_traffic traffic = {0, 0};
    for (int32_t peer = 0; peer < exchange->placement->ranks; peer++)
        for (int32_t round = 0; peer != rank && round < exchange->rounds; round++) {
            int64_t bytes = 0;
            sw_exchange_pieces(exchange, exchange->loading ? rank : peer,
                               exchange->loading ? peer : rank, round, NULL, NULL, &bytes, NULL);
            traffic.sent_bytes += bytes;
            traffic.messages += bytes > 0;
        }
    return traffic;
}

struct sw_exchange_traffic sw_exchange_most_traffic(const struct sw_exchange *exchange)
{
    const int64_t ranks = exchange->placement->ranks,
                  chunks = ranks * (exchange->rounds > 0 ? exchange->rounds : 1);
    const int64_t few = MANY_CHUNKS / chunks > 0 ? MANY_CHUNKS / chunks : 1,
                  looks = few < ranks ? few : ranks;
    struct sw_exchange_traffic most = {0, 0};
    for (int64_t i = 0; i < looks; i++) {
        const struct sw_exchange_traffic traffic =
            sw_exchange_traffic(exchange, (int32_t)(i * ranks / looks));
        most.sent_bytes =
            traffic.sent_bytes > most.sent_bytes ? traffic.sent_bytes : most.sent_bytes;
        most.messages = traffic.messages > most.messages ? traffic.messages : most.messages;
    }
    return most;
}
