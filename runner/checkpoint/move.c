/* Messages have the state's orientation and dtype, so the device only copies boxes. The owner's
 * host transposes and converts, in place if device memory is the host's, else in a copy. */
#include "runner/checkpoint/move.h"

#include "core/base/int4.h"
#include "core/base/number.h"
#include "core/base/quantize.h"
#include "runner/checkpoint/box.h"
#include "runner/checkpoint/convert.h"

#include <stdlib.h>
#include <string.h>

struct sw_mover {
    const struct sw_exchange *exchange;
    struct sw_executor *executor;
    struct sw_device *device;
    struct sw_comm *comm;
    void *allocated;                /* on the device; NULL: none */
    char *send, *receive;           /* [chunk_bytes] in device memory */
    char *host_send, *host_receive; /* the same buffers if that is the host's; else malloc'ed */
    const struct sw_scales *scales; /* NULL: no weights in 8 bits */
    int32_t not_finite; /* first tensor with a number that is not finite; INT32_MAX: none */
};

/* Context of a visitor of pieces, one per thread. */
struct work {
    struct sw_mover *m;
    char *chunk; /* numbers as in files; read-only while loading */
};

/* ---- Places ---- */

/* A piece in its row's orientation: its location in message, shard and chunk. */
struct view {
    int64_t rows, columns;                /* in the state */
    int64_t width_bytes, shard_row_bytes; /* row of the piece; row of the shard */
    char *instance;                       /* start of the shard's row */
    char *shard;                          /* its first number, in device memory */
    char *chunk;                          /* the same in the chunk */
    int64_t chunk_row_bytes;              /* row of the file's tensor */
    int64_t chunk_bytes;                  /* bytes of the numbers in a state element */
    int64_t file_rows, file_columns;      /* shape of the file, in state elements */
    enum sw_stored_dtype in_file, in_state;
    bool transposed;
    const struct sw_state_row *row;
    int64_t begin[2];    /* first row and column of the piece in the shard */
    const float *scales; /* [file_rows] if the state is in 8 bits; else NULL */
};

static enum sw_stored_dtype stored(enum sw_dtype dtype)
{
    return dtype == SW_F64      ? SW_STORED_F64
           : dtype == SW_BF16_T ? SW_STORED_BF16
           : dtype == SW_CODES  ? SW_STORED_U8
                                : SW_STORED_F32;
}

static struct view view_of(const struct work *work, const struct sw_piece *piece)
{
    const struct sw_mover *m = work->m;
    const struct sw_stored_tensor *t = &m->exchange->placement->tensor[piece->tensor];
    const struct sw_state_row *row = &m->exchange->state->row[t->row];
    const int64_t in_file = sw_stored_block_bytes(t);
    const int64_t in_state = (int64_t)sw_dtype_bytes(row->dtype);
    const bool line = t->ndim == 1; /* contiguous: a row, not a column */
    const int64_t shard_columns = line ? 1 : row->local[row->ndim - 1];
    struct view v = {.in_file = t->dtype,
                     .in_state = stored(row->dtype),
                     .row = row,
                     .begin = {piece->local[0], piece->local[1]}};
    v.transposed = t->transposed && !line;
    v.file_rows = line ? 1 : piece->size[0];
    v.file_columns = line ? piece->size[0] : piece->size[1];
    v.rows = v.transposed ? v.file_columns : v.file_rows;
    v.columns = v.transposed ? v.file_rows : v.file_columns;
    v.width_bytes = v.columns * in_state;
    v.shard_row_bytes = line ? v.width_bytes : shard_columns * in_state;
    v.instance = sw_executor_state(m->executor, row, t->instance);
    v.shard = v.instance + (piece->local[0] * shard_columns + piece->local[1]) * in_state;
    v.chunk_bytes = in_file;
    v.chunk_row_bytes = t->size[1] / t->block * in_file;
    v.scales = sw_scales_of(m->scales, piece->tensor);
    if (v.scales != NULL)
        v.scales += piece->start[0];
    v.chunk =
        work->chunk + piece->at + piece->start[0] * v.chunk_row_bytes + piece->start[1] * in_file;
    return v;
}

static void box_to_chunk(const struct view *v, const char *from, int64_t from_row_bytes)
{
    sw_box_copy(&(struct sw_box){.rows = v->file_rows,
                                 .columns = v->file_columns,
                                 .to = v->chunk,
                                 .to_stride_bytes = v->chunk_row_bytes,
                                 .to_dtype = v->in_file,
                                 .from = from,
                                 .from_stride_bytes = from_row_bytes,
                                 .from_dtype = v->in_state,
                                 .transposed = v->transposed});
}

static bool is_quantized(const struct view *v)
{
    return sw_is_quantized(v->row->dtype);
}

/* Converts elements of one file row to the state's dtype. */
static void convert_row(const struct view *v, int64_t row, int64_t column, int64_t count, char *to)
{
    enum { AT_ONCE = 256 };
    float numbers[AT_ONCE];
    const enum sw_dtype dtype = v->row->dtype;
    const int64_t group = sw_dtype_group(dtype), width = (int64_t)sw_dtype_bytes(dtype);
    const char *from = v->chunk + row * v->chunk_row_bytes + column * v->chunk_bytes;
    if (!is_quantized(v)) {
        sw_convert_numbers(to, v->in_state, from, v->in_file, count);
        return;
    }
    for (int64_t i = 0, n; i < count; i += n, to += n * width) {
        n = count - i < AT_ONCE / group ? count - i : AT_ONCE / group;
        sw_convert_numbers(numbers, SW_STORED_F32, from + i * v->chunk_bytes, v->in_file,
                           n * group);
        if (dtype == SW_I4)
            sw_int4_quantize_blocks(numbers, n, to);
        else
            sw_quantize(dtype, numbers, n, v->scales[row], to);
    }
}

/* Tile of the file's rows and columns: fits the first-level cache while transposed. */
enum { TILE_ROWS = 64, TILE_COLUMNS = 256, TILE_ROW_BYTES = 512 };

static int64_t tile_columns(const struct view *v, int64_t left)
{
    int64_t most = TILE_ROW_BYTES / (int64_t)sw_dtype_bytes(v->row->dtype);
    most = most < TILE_COLUMNS ? most : TILE_COLUMNS;
    return left < most ? left : most;
}

static void quantize_from_chunk(const struct view *v, char *to, int64_t to_row_bytes)
{
    char tile[TILE_ROWS][TILE_ROW_BYTES];
    const int64_t width = (int64_t)sw_dtype_bytes(v->row->dtype);
    for (int64_t i = 0; i < v->file_rows; i += TILE_ROWS)
        for (int64_t j = 0, columns; j < v->file_columns; j += columns) {
            const int64_t rows = v->file_rows - i < TILE_ROWS ? v->file_rows - i : TILE_ROWS;
            columns = tile_columns(v, v->file_columns - j);
            for (int64_t r = 0; r < rows; r++) {
                convert_row(v, i + r, j, columns, tile[r]);
                if (!v->transposed)
                    memcpy(to + (i + r) * to_row_bytes + j * width, tile[r],
                           (size_t)(columns * width));
            }
            for (int64_t c = 0; v->transposed && c < columns; c++)
                for (int64_t r = 0; r < rows; r++)
                    memcpy(to + (j + c) * to_row_bytes + (i + r) * width, tile[r] + c * width,
                           (size_t)width);
        }
}

static void box_from_chunk(const struct view *v, char *to, int64_t to_row_bytes)
{
    if (is_quantized(v)) {
        quantize_from_chunk(v, to, to_row_bytes);
        return;
    }
    sw_box_copy(&(struct sw_box){.rows = v->rows,
                                 .columns = v->columns,
                                 .to = to,
                                 .to_stride_bytes = to_row_bytes,
                                 .to_dtype = v->in_state,
                                 .from = v->chunk,
                                 .from_stride_bytes = v->chunk_row_bytes,
                                 .from_dtype = v->in_file,
                                 .transposed = v->transposed});
}

/* ---- Tiles ---- */

/* True if the row's weights are tiled while loading. */
static bool is_tiled(const struct sw_mover *m, const struct view *v)
{
    return v->row->tiled && sw_mover_tiles(m->device) && sw_device_tiles(m->device, v->row->dtype);
}

/* Tiles the piece's numbers from (row, column) of the state, at the given strides. */
static void put_in_tiles(const struct sw_mover *m, const struct view *v, int64_t row,
                         int64_t column, int64_t rows, int64_t columns, const char *from,
                         int64_t row_apart, int64_t column_apart)
{
    const bool turned = sw_parameter_is_turned(v->row->parameter);
    struct sw_tile_box box = {.from = from,
                              .line = v->begin[0] + row,
                              .lines = rows,
                              .column = v->begin[1] + column,
                              .columns = columns,
                              .line_apart = row_apart,
                              .column_apart = column_apart};
    if (turned)
        box = (struct sw_tile_box){from, box.column,   columns,  box.line,
                                   rows, column_apart, row_apart};
    m->device->vtable->tile_box(m->device, v->row->dtype, v->instance, v->row->local[turned], &box);
}

/* Tiles numbers from (row, column) of the file, which lie at `from`. */
static void put_file_in_tiles(const struct sw_mover *m, const struct view *v, int64_t row,
                              int64_t column, int64_t rows, int64_t columns, const char *from,
                              int64_t row_apart)
{
    const int64_t width = (int64_t)sw_dtype_bytes(v->row->dtype);
    if (v->transposed)
        put_in_tiles(m, v, column, row, columns, rows, from, width, row_apart);
    else
        put_in_tiles(m, v, row, column, rows, columns, from, row_apart, width);
}

static void tile_from_chunk(const struct sw_mover *m, const struct view *v)
{
    char tile[TILE_ROWS * TILE_ROW_BYTES];
    if (v->in_file == v->in_state && !is_quantized(v)) {
        put_file_in_tiles(m, v, 0, 0, v->file_rows, v->file_columns, v->chunk, v->chunk_row_bytes);
        return;
    }
    const int64_t width = (int64_t)sw_dtype_bytes(v->row->dtype);
    for (int64_t i = 0; i < v->file_rows; i += TILE_ROWS)
        for (int64_t j = 0, columns; j < v->file_columns; j += columns) {
            const int64_t rows = v->file_rows - i < TILE_ROWS ? v->file_rows - i : TILE_ROWS;
            columns = tile_columns(v, v->file_columns - j);
            for (int64_t r = 0; r < rows; r++)
                convert_row(v, i + r, j, columns, tile + r * columns * width);
            put_file_in_tiles(m, v, i, j, rows, columns, tile, columns * width);
        }
}

/* ---- Numbers that are not finite ---- */

static void note_not_finite(struct sw_mover *m, int32_t tensor)
{
    int32_t was = __atomic_load_n(&m->not_finite, __ATOMIC_RELAXED);
    while (tensor < was && !__atomic_compare_exchange_n(&m->not_finite, &was, tensor, true,
                                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

/* Checks for numbers that are not finite: for codes their factors; for 8-bit weights the scales are
 * checked elsewhere. */
static void look_at(struct sw_mover *m, const struct view *v, int32_t tensor)
{
    bool finite = true;
    if (v->in_file == SW_STORED_U8 || v->scales != NULL)
        return;
    for (int64_t r = 0; r < v->file_rows && finite; r++)
        finite = sw_convert_is_finite(v->chunk + r * v->chunk_row_bytes, v->in_file, v->in_state,
                                      v->file_columns * sw_dtype_group(v->row->dtype));
    if (!finite)
        note_not_finite(m, tensor);
}

/* ---- What is done with a piece ---- */

static int fail_copy(const struct sw_mover *m, struct sw_error *err)
{
    return sw_fail(err, SW_ENVIRONMENT, "rank %d: cannot copy a part of the state on device %s",
                   (int)m->comm->rank, m->device->vtable->name);
}

/* Copies from the shard to the message to send. */
static int pack(void *context, const struct sw_piece *piece, struct sw_error *err)
{
    const struct work *work = context;
    const struct sw_mover *m = work->m;
    const struct view v = view_of(work, piece);
    return m->device->vtable->copy_box(m->device, m->send + piece->message, (size_t)v.width_bytes,
                                       v.shard, (size_t)v.shard_row_bytes, (size_t)v.width_bytes,
                                       (size_t)v.rows) == 0
               ? 0
               : fail_copy(m, err);
}

/* Copies from the received message to the shard. */
static int unpack(void *context, const struct sw_piece *piece, struct sw_error *err)
{
    const struct work *work = context;
    const struct sw_mover *m = work->m;
    const struct view v = view_of(work, piece);
    if (is_tiled(m, &v)) {
        put_in_tiles(m, &v, 0, 0, v.rows, v.columns, m->receive + piece->message, v.width_bytes,
                     (int64_t)sw_dtype_bytes(v.row->dtype));
        return 0;
    }
    return m->device->vtable->copy_box(m->device, v.shard, (size_t)v.shard_row_bytes,
                                       m->receive + piece->message, (size_t)v.width_bytes,
                                       (size_t)v.width_bytes, (size_t)v.rows) == 0
               ? 0
               : fail_copy(m, err);
}

static int from_message(void *context, const struct sw_piece *piece, struct sw_error *err)
{
    const struct work *work = context;
    const struct view v = view_of(work, piece);
    (void)err;
    box_to_chunk(&v, work->m->host_receive + piece->message, v.width_bytes);
    return 0;
}

static int fill(void *context, const struct sw_piece *piece, struct sw_error *err)
{
    const struct work *work = context;
    const struct view v = view_of(work, piece);
    (void)err;
    look_at(work->m, &v, piece->tensor);
    box_from_chunk(&v, work->m->host_send + piece->message, v.width_bytes);
    return 0;
}

/* Copies between the chunk and this rank's own shard, if the host can access it. */
static int from_own(void *context, const struct sw_piece *piece, struct sw_error *err)
{
    const struct view v = view_of(context, piece);
    (void)err;
    box_to_chunk(&v, v.shard, v.shard_row_bytes);
    return 0;
}

static int fill_own(void *context, const struct sw_piece *piece, struct sw_error *err)
{
    const struct work *work = context;
    const struct view v = view_of(work, piece);
    (void)err;
    look_at(work->m, &v, piece->tensor);
    if (is_tiled(work->m, &v))
        tile_from_chunk(work->m, &v);
    else
        box_from_chunk(&v, v.shard, v.shard_row_bytes);
    return 0;
}

/* ---- Messages ---- */

/* Copies a buffer to the host, or back; nothing if they are the same. */
static int to_host(struct sw_mover *m, char *host, const char *from, int64_t bytes,
                   struct sw_error *err)
{
    if (host == from || bytes == 0)
        return 0;
    return m->device->vtable->copy_out(m->device, host, from, (size_t)bytes) == 0
               ? 0
               : fail_copy(m, err);
}

static int to_device(struct sw_mover *m, char *to, const char *host, int64_t bytes,
                     struct sw_error *err)
{
    if (host == to || bytes == 0)
        return 0;
    return m->device->vtable->copy_in(m->device, to, host, (size_t)bytes) == 0 ? 0
                                                                               : fail_copy(m, err);
}

/* A queuing communicator sends device memory, others host memory. With queuing, the host waits in
 * `settle`, which notices failed ranks; a copy would wait forever. */
static int transfer(struct sw_mover *m, int32_t to, int64_t sent, int32_t from, int64_t received,
                    bool settle, struct sw_error *err)
{
    uint64_t ticket;
    if (sent == 0 && received == 0)
        return 0;
    const bool queued = m->comm->queued;
    if (m->comm->vtable->transfer(m->comm, to, queued ? m->send : m->host_send, (size_t)sent, from,
                                  queued ? m->receive : m->host_receive, (size_t)received, &ticket,
                                  err) != 0 ||
        m->comm->vtable->wait(m->comm, ticket, err) != 0)
        return -1;
    return settle && m->comm->vtable->settle != NULL ? m->comm->vtable->settle(m->comm, err) : 0;
}

/* Moves this rank's pieces of its own chunk, without messages. */
static int move_own(struct work *work, int32_t round, struct sw_error *err)
{
    struct sw_mover *m = work->m;
    const struct sw_exchange *x = m->exchange;
    const int32_t me = m->comm->rank;
    int64_t bytes = 0;
    if (m->device->vtable->in_host_memory)
        return sw_exchange_pieces(x, me, me, round, x->loading ? fill_own : from_own, work, NULL,
                                  err);
    if (sw_exchange_pieces(x, me, me, round, x->loading ? fill : pack, work, &bytes, err) != 0)
        return -1;
    if (x->loading)
        return to_device(m, m->receive, m->host_send, bytes, err) != 0
                   ? -1
                   : sw_exchange_pieces(x, me, me, round, unpack, work, NULL, err);
    return to_host(m, m->host_receive, m->send, bytes, err) != 0
               ? -1
               : sw_exchange_pieces(x, me, me, round, from_message, work, NULL, err);
}

int sw_mover_collect(struct sw_mover *m, int32_t round, void *chunk, struct sw_error *err)
{
    const struct sw_exchange *x = m->exchange;
    const int32_t me = m->comm->rank, ranks = m->comm->size;
    struct work work = {m, chunk};
    if (move_own(&work, round, err) != 0)
        return -1;
    for (int32_t s = 1; s < ranks; s++) {
        const int32_t to = (me + s) % ranks, from = (me + ranks - s) % ranks;
        int64_t sent = 0, received = 0;
        if (sw_exchange_pieces(x, to, me, round, pack, &work, &sent, err) != 0 ||
            sw_exchange_pieces(x, me, from, round, NULL, NULL, &received, err) != 0)
            return -1;
        if ((!m->comm->queued && to_host(m, m->host_send, m->send, sent, err) != 0) ||
            transfer(m, to, sent, from, received, true, err) != 0 ||
            (m->comm->queued && to_host(m, m->host_receive, m->receive, received, err) != 0) ||
            sw_exchange_pieces(x, me, from, round, from_message, &work, NULL, err) != 0)
            return -1;
    }
    return 0;
}

int sw_mover_spread(struct sw_mover *m, int32_t round, const void *chunk, struct sw_error *err)
{
    const struct sw_exchange *x = m->exchange;
    const int32_t me = m->comm->rank, ranks = m->comm->size;
    struct work work = {m, (char *)(uintptr_t)chunk};
    if (move_own(&work, round, err) != 0)
        return -1;
    for (int32_t s = 1; s < ranks; s++) {
        const int32_t to = (me + s) % ranks, from = (me + ranks - s) % ranks;
        int64_t sent = 0, received = 0;
        if (sw_exchange_pieces(x, me, to, round, fill, &work, &sent, err) != 0 ||
            sw_exchange_pieces(x, from, me, round, NULL, NULL, &received, err) != 0)
            return -1;
        if ((m->comm->queued && to_device(m, m->send, m->host_send, sent, err) != 0) ||
            transfer(m, to, sent, from, received, s == ranks - 1, err) != 0 ||
            (!m->comm->queued && to_device(m, m->receive, m->host_receive, received, err) != 0) ||
            sw_exchange_pieces(x, from, me, round, unpack, &work, NULL, err) != 0)
            return -1;
    }
    return m->device->vtable->synchronize(m->device, err);
}

int sw_mover_place(struct sw_mover *m, const struct sw_stretch *stretch, const void *data,
                   struct sw_error *err)
{
    struct work work = {m, (char *)(uintptr_t)data};
    return sw_exchange_stretch_pieces(m->exchange, stretch, m->comm->rank, fill_own, &work, NULL,
                                      err);
}

int32_t sw_mover_not_finite(const struct sw_mover *m)
{
    return m->not_finite;
}

/* ---- The mover ---- */

static int check(const struct sw_exchange *x, const struct sw_comm *comm, struct sw_error *err)
{
    const struct sw_placement *p = x->placement;
    if (comm->size != p->ranks || comm->size != sw_mesh_rank_count(&x->mesh))
        return sw_fail(err, SW_BAD_INPUT, "an exchange between %d ranks on %d", (int)p->ranks,
                       (int)comm->size);
    for (int32_t i = 0; i < p->tensor_count && !x->loading; i++)
        if (p->tensor[i].dtype != stored(x->state->row[p->tensor[i].row].dtype))
            return sw_fail(err, SW_BAD_INPUT, "%s is %s in the state, not %s", p->tensor[i].name,
                           sw_dtype_name(x->state->row[p->tensor[i].row].dtype),
                           sw_stored_dtype_name(p->tensor[i].dtype));
    return 0;
}

static int find_buffers(struct sw_mover *m, struct sw_error *err)
{
    const int64_t wanted = m->exchange->chunk_bytes;
    const int64_t planned = sw_executor_set(m->executor)->save.chunk_bytes;
    const int64_t bytes = sw_align(wanted, SW_ARENA_ALIGNMENT);
    const bool fits = wanted <= planned || !m->exchange->loading;
    m->send = fits ? sw_executor_workspace(m->executor) : NULL;
    if (m->send != NULL && wanted > planned)
        return sw_fail(err, SW_BAD_INPUT,
                       "messages of %lld bytes between a checkpoint and its state, `save` has room "
                       "for %lld",
                       (long long)wanted, (long long)planned);
    if (m->send == NULL)
        m->send = m->allocated = m->device->vtable->allocate(m->device, 2 * (size_t)bytes);
    if (m->send == NULL)
        goto none;
    m->receive = m->send + bytes;
    if (m->device->vtable->in_host_memory) {
        m->host_send = m->send;
        m->host_receive = m->receive;
        return 0;
    }
    m->host_send = malloc((size_t)bytes);
    m->host_receive = malloc((size_t)bytes);
    if (m->host_send != NULL && m->host_receive != NULL)
        return 0;
none:
    return sw_fail(
        err, SW_ENVIRONMENT,
        "out of memory for two messages of %lld bytes between a checkpoint and its state",
        (long long)bytes);
}

int sw_mover_create(const struct sw_exchange *exchange, struct sw_executor *executor,
                    struct sw_mover **out, struct sw_error *err)
{
    struct sw_mover *m = calloc(1, sizeof *m);
    if (m == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for moving a checkpoint");
    m->not_finite = INT32_MAX;
    m->exchange = exchange;
    m->executor = executor;
    m->device = sw_executor_device(executor);
    m->comm = sw_executor_comm(executor);
    if (check(exchange, m->comm, err) != 0 || find_buffers(m, err) != 0) {
        sw_mover_free(m);
        return -1;
    }
    *out = m;
    return 0;
}

void sw_mover_quantize(struct sw_mover *m, const struct sw_scales *scales)
{
    m->scales = scales;
}

void sw_mover_free(struct sw_mover *m)
{
    if (m == NULL)
        return;
    if (!m->device->vtable->in_host_memory) {
        free(m->host_send);
        free(m->host_receive);
    }
    if (m->allocated != NULL)
        m->device->vtable->release(m->device, m->allocated);
    free(m);
}
