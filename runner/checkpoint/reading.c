#include "runner/checkpoint/reading.h"

#include "core/base/file.h"
#include "runner/checkpoint/part.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    BLOCK_BYTES = 2 << 20,  /* at least, if the part is large enough: threads work on a few */
    AHEAD_BYTES = 32 << 20, /* prefetch distance in a file */
    VISIT_BYTES = 1 << 20
};

struct sw_reading_block {
    int32_t file, extent; /* in the placement */
    int64_t at;           /* in the stream */
    int64_t position, bytes;
};

/* ---- Blocks ---- */

static int64_t end_of(const struct sw_reading_block *block)
{
    return block->position + block->bytes;
}

/* Divides an extent into blocks; out NULL: only counts them. */
static int64_t cut_extent(const struct sw_reading *r, int32_t e, struct sw_reading_block *out)
{
    const struct sw_placement *p = r->exchange->placement;
    const struct sw_extent *x = &p->extent[e];
    const int64_t slices = p->slice_bytes < BLOCK_BYTES ? BLOCK_BYTES / p->slice_bytes : 1;
    const int64_t step = slices * p->slice_bytes;
    int64_t count = 0;
    for (int64_t begin = x->begin, end; begin < x->end; begin = end, count++) {
        end = begin / step * step + step;
        end = end < x->end ? end : x->end;
        if (out != NULL)
            out[count] = (struct sw_reading_block){.file = x->file,
                                                   .extent = e,
                                                   .at = r->exchange->stream[e] + begin - x->begin,
                                                   .position = begin,
                                                   .bytes = end - begin};
    }
    return count;
}

int sw_reading_open(struct sw_reading *r, struct sw_error *err)
{
    const struct sw_placement *p = r->exchange->placement;
    const int32_t threads = sw_device_host_threads(r->device);
    r->block_count = r->most_bytes = r->bytes = r->reads = 0;
    r->by_blocks = true;
    for (int32_t e = p->first_extent[r->rank]; e < p->first_extent[r->rank + 1]; e++)
        r->block_count += cut_extent(r, e, NULL);
    r->block = calloc((size_t)r->block_count + 1, sizeof *r->block);
    r->fd = malloc((size_t)threads * sizeof *r->fd);
    r->file_of = malloc((size_t)threads * sizeof *r->file_of);
    r->stream = sw_checksum_begin();
    for (int32_t t = 0; r->fd != NULL && t < threads; t++)
        r->fd[t] = -1;
    if (r->block == NULL || r->fd == NULL || r->file_of == NULL || r->stream == NULL) {
        sw_reading_close(r);
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for reading a checkpoint");
    }
    int64_t count = 0;
    for (int32_t e = p->first_extent[r->rank]; e < p->first_extent[r->rank + 1]; e++)
        count += cut_extent(r, e, r->block + count);
    for (int64_t i = 0; i < count; i++) {
        const int64_t end = r->block[i].at + r->block[i].bytes;
        r->by_blocks = r->by_blocks && sw_exchange_whole(r->exchange, r->rank, end) == end;
        r->most_bytes = r->block[i].bytes > r->most_bytes ? r->block[i].bytes : r->most_bytes;
    }
    return 0;
}

void sw_reading_close(struct sw_reading *r)
{
    const int32_t threads = r->device == NULL ? 0 : sw_device_host_threads(r->device);
    for (int32_t t = 0; r->fd != NULL && t < threads; t++)
        if (r->fd[t] >= 0)
            (void)close(r->fd[t]);
    free(r->block);
    free(r->fd);
    free(r->file_of);
    sw_checksum_free(r->stream);
    r->block = NULL;
    r->fd = r->file_of = NULL;
    r->stream = NULL;
}

/* ---- Files ---- */

static const char *name_of(const struct sw_reading *r, const struct sw_reading_block *block)
{
    return r->exchange->placement->file[block->file].name;
}

static int fail_file(const struct sw_reading *r, const struct sw_reading_block *block,
                     enum sw_status status, const char *what, int64_t begin, int64_t end,
                     struct sw_error *err)
{
    char *path = sw_path_join(r->folder, name_of(r, block));
    sw_fail_at(err, status, (struct sw_place){.file = path != NULL ? path : name_of(r, block)},
               "bytes %" PRId64 " to %" PRId64 " %s", begin, end, what);
    free(path);
    return -1;
}

static int open_file(struct sw_reading *r, const struct sw_reading_block *block, int32_t thread,
                     struct sw_error *err)
{
    if (r->fd[thread] >= 0 && r->file_of[thread] == block->file)
        return 0;
    if (r->fd[thread] >= 0)
        (void)close(r->fd[thread]);
    char *path = sw_path_join(r->folder, name_of(r, block));
    r->fd[thread] = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    r->file_of[thread] = block->file;
    if (path == NULL)
        sw_fail(err, SW_ENVIRONMENT, "out of memory for a file's name");
    else if (r->fd[thread] < 0)
        sw_fail_at(err, errno == ENOENT ? SW_BAD_INPUT : SW_ENVIRONMENT,
                   (struct sw_place){.file = path}, "cannot be read: %s", strerror(errno));
    free(path);
    return r->fd[thread] < 0 ? -1 : 0;
}

/* Prefetches what comes AHEAD_BYTES later in the extent; at its start, everything up to there. */
static void ask_ahead(const struct sw_reading *r, const struct sw_reading_block *block, int fd)
{
    const struct sw_extent *x = &r->exchange->placement->extent[block->extent];
    const bool first = block->position == x->begin;
    const int64_t begin = block->position + (first ? 0 : AHEAD_BYTES);
    int64_t end = end_of(block) + AHEAD_BYTES;
    end = end < x->end ? end : x->end;
    if (begin < end)
        (void)posix_fadvise(fd, (off_t)begin, (off_t)(end - begin), POSIX_FADV_WILLNEED);
}

static int read_block(struct sw_reading *r, const struct sw_reading_block *block, char *to,
                      int32_t thread, struct sw_error *err)
{
    int64_t done = 0;
    if (open_file(r, block, thread, err) != 0)
        return -1;
    const int fd = r->fd[thread];
    ask_ahead(r, block, fd);
    while (done < block->bytes) {
        const ssize_t got =
            pread(fd, to + done, (size_t)(block->bytes - done), (off_t)(block->position + done));
        if (got < 0 && errno == EINTR)
            continue;
        __atomic_fetch_add(&r->reads, 1, __ATOMIC_RELAXED);
        if (got == 0)
            return fail_file(r, block, SW_BAD_INPUT, "are missing: the file is shorter than it was",
                             block->position + done, end_of(block), err);
        if (got < 0)
            return fail_file(r, block, SW_ENVIRONMENT, strerror(errno), block->position + done,
                             end_of(block), err);
        done += got;
    }
    __atomic_fetch_add(&r->bytes, done, __ATOMIC_RELAXED);
    return 0;
}

/* ---- Checksums ---- */

/* Formats "'lm_head.weight'", or "'lm_head.weight' and 3 more tensors": the tensors in these bytes
 * of a file. */
static void name_tensors(const struct sw_placement *p, int32_t f, int64_t begin, int64_t end,
                         char *out, size_t bytes)
{
    const char *first = NULL;
    int32_t count = 0;
    for (int32_t t = 0; t < p->tensor_count; t++)
        if (p->tensor[t].file == f && p->tensor[t].offset < end &&
            p->tensor[t].offset + p->tensor[t].bytes > begin && count++ == 0)
            first = p->tensor[t].name;
    snprintf(out, bytes, count == 0 ? "no tensor" : "'%.120s'", first);
    if (count > 1)
        snprintf(out + strlen(out), bytes - strlen(out), " and %" PRId32 " more tensor%s",
                 count - 1, count == 2 ? "" : "s");
}

static int fail_slice(const struct sw_reading *r, const struct sw_reading_block *block,
                      int64_t begin, int64_t end, struct sw_error *err)
{
    char tensors[192], what[320];
    name_tensors(r->exchange->placement, block->file, begin, end, tensors, sizeof tensors);
    snprintf(what, sizeof what,
             "(%s) are not what was written: their checksum is wrong" SW_MANIFEST_ADVICE, tensors);
    return fail_file(r, block, SW_BAD_INPUT, what, begin, end, err);
}

/* Compares a block's slices: the whole ones, or those that continue in adjacent blocks, which one
 * thread takes in stream order. */
static int check_block(const struct sw_reading *r, const struct sw_reading_block *block,
                       const char *data, bool whole, struct sw_error *err)
{
    const struct sw_placement *p = r->exchange->placement;
    const struct sw_manifest_file *file =
        r->manifest == NULL ? NULL : sw_manifest_find(r->manifest, name_of(r, block));
    for (int64_t at = block->position; file != NULL && at < end_of(block);) {
        const int32_t slice = sw_part_slice_at(p, block->file, at);
        int64_t begin, end;
        sw_manifest_slice(p->file[block->file].bytes, p->file[block->file].data_begin,
                          p->slice_bytes, slice, &begin, &end);
        const int64_t until = end < end_of(block) ? end : end_of(block);
        const char *from = data + (at - block->position);
        struct sw_checksum sum = {0};
        if (whole && at == begin && until == end)
            sum = sw_checksum_of(from, (size_t)(end - begin));
        else if (!whole && (at != begin || until != end))
            sw_checksum_add(r->stream, from, (size_t)(until - at));
        if (!whole && at != begin && until == end)
            sum = sw_checksum_take(r->stream);
        const bool compared = until == end && (at == begin) == whole;
        if (compared && (slice >= file->slice_count || !sw_checksum_equal(sum, file->slice[slice])))
            return fail_slice(r, block, begin, end, err);
        at = until;
    }
    return 0;
}

/* ---- Threads ---- */

/* Work shared by threads, and the error with the lowest number. */
struct team {
    struct sw_reading *r;
    sw_stretch_visitor visit;
    void *context;
    const struct sw_reading_block *block; /* blocks being read */
    char *data;                           /* the chunk's; or [threads, most_bytes] */
    const struct sw_stretch *stretch;     /* stretch being visited */
    pthread_mutex_t lock;
    int64_t failed; /* INT64_MAX: none */
    struct sw_error err;
};

static bool goes_on(struct team *team, int64_t i)
{
    return i < __atomic_load_n(&team->failed, __ATOMIC_RELAXED);
}

static void note(struct team *team, int64_t i, const struct sw_error *err)
{
    (void)pthread_mutex_lock(&team->lock);
    if (i < team->failed) {
        team->err = *err;
        __atomic_store_n(&team->failed, i, __ATOMIC_RELAXED);
    }
    (void)pthread_mutex_unlock(&team->lock);
}

static int run_team(struct team *team, int64_t count,
                    void (*each)(void *context, int64_t i, int32_t thread), struct sw_error *err)
{
    team->failed = INT64_MAX;
    (void)pthread_mutex_init(&team->lock, NULL);
    sw_device_for_each(team->r->device, count, each, team);
    (void)pthread_mutex_destroy(&team->lock);
    return team->failed == INT64_MAX ? 0 : sw_fail_as(err, &team->err);
}

static void read_and_visit(void *context, int64_t i, int32_t thread)
{
    struct team *team = context;
    struct sw_reading *r = team->r;
    const struct sw_reading_block *block = &r->block[i];
    char *data = team->data + thread * r->most_bytes;
    struct sw_error err = {0};
    if (!goes_on(team, i))
        return;
    const struct sw_stretch stretch = {r->rank, block->at, block->at + block->bytes};
    if (read_block(r, block, data, thread, &err) != 0 ||
        check_block(r, block, data, true, &err) != 0 ||
        team->visit(team->context, &stretch, data, &err) != 0)
        note(team, i, &err);
}

int sw_reading_run(struct sw_reading *r, sw_stretch_visitor visit, void *context,
                   struct sw_error *err)
{
    struct team team = {.r = r, .visit = visit, .context = context};
    team.data = malloc((size_t)(r->most_bytes * sw_device_host_threads(r->device)) + 1);
    if (team.data == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for reading a checkpoint");
    const int status = run_team(&team, r->block_count, read_and_visit, err);
    free(team.data);
    return status;
}

/* ---- Chunks ---- */

/* First block that ends after that byte of the stream. */
static int64_t block_at(const struct sw_reading *r, int64_t at)
{
    int64_t low = 0, high = r->block_count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (r->block[middle].at + r->block[middle].bytes > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Part of a block within the stretch. */
static struct sw_reading_block clip(const struct sw_reading_block *block,
                                    const struct sw_stretch *s)
{
    struct sw_reading_block part = *block;
    const int64_t before = s->begin > block->at ? s->begin - block->at : 0;
    const int64_t end = block->at + block->bytes < s->end ? block->at + block->bytes : s->end;
    part.at += before;
    part.position += before;
    part.bytes = end - part.at;
    return part;
}

static void read_part(void *context, int64_t i, int32_t thread)
{
    struct team *team = context;
    const struct sw_reading_block block = clip(&team->block[i], team->stretch);
    char *data = team->data + (block.at - team->stretch->begin);
    struct sw_error err = {0};
    if (goes_on(team, i) && (read_block(team->r, &block, data, thread, &err) != 0 ||
                             check_block(team->r, &block, data, true, &err) != 0))
        note(team, i, &err);
}

int sw_reading_chunk(struct sw_reading *r, int32_t round, char *data, struct sw_error *err)
{
    const struct sw_stretch stretch = sw_exchange_stretch(r->exchange, r->rank, round);
    const int64_t first = block_at(r, stretch.begin);
    struct team team = {.r = r, .block = r->block + first, .data = data, .stretch = &stretch};
    int64_t count = 0;
    while (first + count < r->block_count && r->block[first + count].at < stretch.end)
        count++;
    int status = run_team(&team, count, read_part, err);
    for (int64_t i = 0; i < count && status == 0; i++) {
        const struct sw_reading_block block = clip(&team.block[i], &stretch);
        status = check_block(r, &block, data + (block.at - stretch.begin), false, err);
    }
    return status;
}

/* Stream position of piece i of the stretch. */
static int64_t piece_begin(const struct team *team, int64_t i)
{
    const struct sw_stretch *s = team->stretch;
    const int64_t at = s->begin + i * VISIT_BYTES;
    return at >= s->end ? s->end : sw_exchange_whole(team->r->exchange, s->owner, at);
}

static void visit_piece(void *context, int64_t i, int32_t thread)
{
    struct team *team = context;
    const struct sw_stretch *s = team->stretch;
    const struct sw_stretch piece = {s->owner, i == 0 ? s->begin : piece_begin(team, i),
                                     piece_begin(team, i + 1)};
    struct sw_error err = {0};
    (void)thread;
    if (goes_on(team, i) &&
        team->visit(team->context, &piece, team->data + (piece.begin - s->begin), &err) != 0)
        note(team, i, &err);
}

int sw_reading_visit(const struct sw_reading *r, const struct sw_stretch *stretch, const char *data,
                     sw_stretch_visitor visit, void *context, struct sw_error *err)
{
    struct team team = {.r = (struct sw_reading *)(uintptr_t)r,
                        .visit = visit,
                        .context = context,
                        .data = (char *)(uintptr_t)data,
                        .stretch = stretch};
    const int64_t bytes = stretch->end - stretch->begin;
    return run_team(&team, (bytes + VISIT_BYTES - 1) / VISIT_BYTES, visit_piece, err);
}
