#include "runner/checkpoint/loader.h"

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/self.h"
#include "runner/checkpoint/model_folder.h"
#include "runner/checkpoint/move.h"
#include "runner/checkpoint/reading.h"
#include "runner/checkpoint/windows.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Size of a chunk: a MiB per rank, of which messages are parts. The minimum keeps rounds few while
 * a shared cache holds a chunk; the maximum bounds loading's memory. */
enum { CHUNK_RANK_BYTES = 1 << 20, CHUNK_LEAST_BYTES = 4 << 20, CHUNK_MOST_BYTES = 16 << 20 };

/* ---- Resident memory ---- */

/* Growth of resident memory besides `filled` bytes of the arena, whose pages were untouched. If the
 * process once had more than it needed now, a lower bound. */
static int64_t resident_growth(int64_t before, int64_t filled)
{
    const int64_t most = sw_self_resident_bytes("VmHWM:");
    return before < 0 || most < before + filled ? 0 : most - before - filled;
}

/* ---- What rank 0 looks at ---- */

static bool has_manifest(const char *folder)
{
    char *path = sw_path_join(folder, "manifest.json");
    const bool there = path != NULL && access(path, F_OK) == 0;
    free(path);
    return there;
}

static int read_manifest(const char *folder, bool needed, struct sw_manifest *out, char **text,
                         size_t *bytes, struct sw_error *err)
{
    *out = (struct sw_manifest){0};
    if (text != NULL)
        *text = NULL;
    if (!needed && !has_manifest(folder))
        return 0;
    return sw_manifest_read(folder, out, text, bytes, err);
}

int sw_loader_look(const char *folder, bool resume, struct sw_manifest *manifest,
                   struct sw_model_folder *opened, struct sw_error *err)
{
    *opened = (struct sw_model_folder){0};
    if (read_manifest(folder, resume, manifest, NULL, NULL, err) != 0)
        return -1;
    if (sw_model_folder_open(folder, resume, opened, err) == 0)
        return 0;
    sw_manifest_free(manifest);
    return -1;
}

int sw_loader_check(const struct sw_model_folder *opened, const struct sw_run_config *run,
                    enum sw_origin origin, bool other_rope, const char *advice,
                    struct sw_error *err)
{
    const struct sw_place at = {.file = opened->path};
    struct sw_model stored = opened->model;
    struct sw_lora lora;
    char buffer[240];
    if (sw_plan_lora(run, &lora, err) != 0)
        return -1;
    const bool adapters = origin == SW_ORIGIN_RUN && sw_lora_is_set(&lora);
    if (opened->adapter && !adapters && origin == SW_ORIGIN_BASE)
        return sw_fail_at(err, SW_BAD_INPUT, at,
                          "init.from names adapters; name the model that they stand on");
    if (opened->adapter && !adapters)
        return sw_fail_at(
            err, SW_BAD_INPUT, at,
            "holds adapters, and the plan has none; emit a plan with 'lora' as in its "
            "adapter_config.json and their model as init.from, or merge them with "
            "'runner export'");
    if (!opened->adapter && adapters)
        return sw_fail_at(err, SW_BAD_INPUT, at,
                          "holds a model, and the plan's 'lora' has adapters: it has no "
                          "adapter_config.json; name a folder of adapters");
    if (other_rope && run->stage.count + (run->stage.from != NULL) > 0)
        sw_model_take_rope(&stored, &run->model.shape);
    const char *other = adapters ? sw_adapter_config_difference(&opened->config, &lora,
                                                                run->model.shape.layers, buffer)
                                 : sw_model_difference(&stored, &run->model.shape, buffer);
    if (other == NULL)
        return 0;
    return adapters
               ? sw_fail_at(err, SW_BAD_INPUT, at,
                            "holds other adapters than the plan: %s; make them the same", other)
               : sw_fail_at(err, SW_BAD_INPUT, at, "holds another model than the plan: %s; %s",
                            other, advice);
}

static int check_listed(const char *folder, const struct sw_manifest *m,
                        const struct sw_placement *p, struct sw_error *err)
{
    for (int32_t f = 0; f < p->file_count; f++) {
        const struct sw_manifest_file *file = sw_manifest_find(m, p->file[f].name);
        if (file == NULL || file->data_begin != p->file[f].data_begin)
            return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = folder},
                              "its manifest does not list '%s'; use another checkpoint",
                              p->file[f].name);
    }
    return 0;
}

/* Checks that a tied head stored beside the embedding equals it. */
static int check_tied(const char *folder, const struct sw_placement *p,
                      const struct sw_stored_tensor *copy, struct sw_error *err)
{
    enum { PIECE = 1 << 20 };
    const struct sw_stored_tensor *pair[2] = {NULL, copy};
    char *path[2] = {NULL, NULL}, *data[2] = {malloc(PIECE), malloc(PIECE)};
    int fd[2] = {-1, -1}, status = -1;
    if (copy->file < 0) {
        status = 0;
        goto out;
    }
    for (int32_t t = 0; t < p->tensor_count; t++)
        if (p->tensor[t].tied != NULL && strcmp(p->tensor[t].tied, copy->name) == 0)
            pair[0] = &p->tensor[t];
    bool equal = pair[0] != NULL && pair[0]->bytes == copy->bytes && pair[0]->dtype == copy->dtype;
    for (int32_t i = 0; i < 2 && equal; i++) {
        path[i] = sw_path_join(folder, p->file[pair[i]->file].name);
        fd[i] = path[i] == NULL ? -1 : open(path[i], O_RDONLY | O_CLOEXEC);
        if (fd[i] < 0 || data[i] == NULL) {
            sw_fail_at(err, SW_ENVIRONMENT, (struct sw_place){.file = folder},
                       "its tied head cannot be compared: %s", strerror(errno));
            goto out;
        }
    }
    for (int64_t at = 0; at < copy->bytes && equal; at += PIECE) {
        const size_t bytes = (size_t)(copy->bytes - at < PIECE ? copy->bytes - at : PIECE);
        for (int32_t i = 0; i < 2; i++)
            equal = equal &&
                    pread(fd[i], data[i], bytes, (off_t)(pair[i]->offset + at)) == (ssize_t)bytes;
        equal = equal && memcmp(data[0], data[1], bytes) == 0;
    }
    status = equal ? 0
                   : sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = folder},
                                "its config.json ties the head to the embedding, but "
                                "%s differs from %s; set tie_word_embeddings to false",
                                copy->name, pair[0] == NULL ? "it" : pair[0]->name);
out:
    for (int32_t i = 0; i < 2; i++) {
        if (fd[i] >= 0)
            (void)close(fd[i]);
        free(path[i]);
        free(data[i]);
    }
    return status;
}

/* Rank 0's findings, broadcast to the others. */
struct found {
    struct sw_placement placement; /* not dealt */
    struct sw_manifest manifest;
    char *text; /* the manifest's; NULL: none */
    size_t text_bytes;
};

/* Opens the folder; *damaged: true if it differs from what was written. */
static int open_folder(struct sw_loading *loading, struct found *f, struct sw_model_folder *out,
                       struct sw_error *err)
{
    struct sw_error why = {0};
    if (read_manifest(loading->folder, loading->resume, &f->manifest, &f->text, &f->text_bytes,
                      &why) != 0) {
        loading->damaged = why.status == SW_BAD_INPUT;
        return sw_fail_as(err, &why);
    }
    if (sw_model_folder_open(loading->folder, loading->resume, out, err) == 0)
        return 0;
    loading->damaged =
        f->text != NULL &&
        sw_manifest_check_small(&f->manifest, loading->folder, loading->resume, &why) != 0 &&
        why.status == SW_BAD_INPUT;
    return -1;
}

static int find(const struct sw_rank *rank, enum sw_origin origin, struct sw_loading *loading,
                struct found *f, struct sw_error *err)
{
    const struct sw_program_set *set = rank->programs;
    struct sw_model_folder folder = {0};
    struct sw_stored_tensor tied = {.file = -1};
    int status = -1;
    if (open_folder(loading, f, &folder, err) != 0 ||
        sw_loader_check(&folder, rank->plan->run, origin, true,
                        "emit a plan with its config.json as the model", err) != 0)
        goto out;
    if (sw_model_folder_match(&folder, &set->state, loading->resume, &f->placement, &tied, err) !=
            0 ||
        (f->text != NULL && check_listed(loading->folder, &f->manifest, &f->placement, err) != 0) ||
        check_tied(loading->folder, &f->placement, &tied, err) != 0)
        goto out;
    f->placement.slice_bytes = f->text != NULL ? f->manifest.slice_bytes : SW_SLICE_BYTES;
    status = 0;
out:
    sw_model_folder_free(&folder);
    return status;
}

/* ---- What the others are told ---- */

struct told {
    int32_t good, tensor_count, file_count;
    int64_t slice_bytes;
    uint64_t text_bytes;
};

static int tell(const struct sw_launch *launch, const char *folder, struct found *f, bool good,
                struct sw_error *err)
{
    struct sw_placement *p = &f->placement;
    struct told told = {good, p->tensor_count, p->file_count, p->slice_bytes, f->text_bytes};
    sw_launch_broadcast(launch, &told, sizeof told);
    if (!told.good || launch->size == 1)
        return told.good ? 0 : -1;
    int64_t failed = 0;
    if (launch->rank != 0) {
        p->tensor_count = told.tensor_count;
        p->file_count = told.file_count;
        p->slice_bytes = told.slice_bytes;
        f->text_bytes = told.text_bytes;
        p->tensor = calloc((size_t)told.tensor_count + 1, sizeof *p->tensor);
        p->file = calloc((size_t)told.file_count + 1, sizeof *p->file);
        f->text = told.text_bytes > 0 ? malloc(told.text_bytes + 1) : NULL;
        failed = p->tensor == NULL || p->file == NULL || (told.text_bytes > 0 && f->text == NULL);
    }
    if (sw_launch_max(launch, failed) > 0)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the tables of a checkpoint");
    sw_launch_broadcast(launch, p->tensor, (size_t)p->tensor_count * sizeof *p->tensor);
    sw_launch_broadcast(launch, p->file, (size_t)p->file_count * sizeof *p->file);
    if (told.text_bytes == 0)
        return 0;
    sw_launch_broadcast(launch, f->text, told.text_bytes);
    f->text[told.text_bytes] = '\0';
    return launch->rank == 0
               ? 0
               : sw_manifest_parse(folder, f->text, told.text_bytes, &f->manifest, err);
}

/* ---- Reading and spreading ---- */

/* Chunk size: messages must fit the buffers of saving, except for adapters' base model, whose
 * tensors are so much larger. */
static int64_t chunk_bytes(const struct sw_rank *rank, enum sw_origin origin)
{
    const int64_t planned = rank->programs->save.chunk_bytes; /* 0: the set saves nothing */
    int64_t bytes = (int64_t)rank->launch->size * CHUNK_RANK_BYTES;
    bytes = bytes < CHUNK_LEAST_BYTES ? CHUNK_LEAST_BYTES : bytes;
    bytes = bytes > CHUNK_MOST_BYTES ? CHUNK_MOST_BYTES : bytes;
    return origin == SW_ORIGIN_RUN && planned > 0 && planned < bytes ? planned : bytes;
}

/* State of loading one origin. */
struct load {
    struct sw_rank *rank;
    struct found *found;
    struct sw_loading *loading;
    struct sw_exchange exchange;
    struct sw_reading reading;
    struct sw_scales scales;
    struct sw_mover *mover;
};

static int place(void *context, const struct sw_stretch *stretch, const char *data,
                 struct sw_error *err)
{
    const struct load *l = context;
    return sw_mover_place(l->mover, stretch, data, err);
}

/* Reads with threads that place or measure their own data: no messages. */
static int run_alone(struct load *l, sw_stretch_visitor visit, struct sw_error *err)
{
    struct sw_error why = {0};
    if (sw_reading_run(&l->reading, visit, l, &why) == 0)
        return 0;
    l->loading->damaged = l->reading.manifest != NULL && why.status == SW_BAD_INPUT;
    return sw_fail_as(err, &why);
}

static int read_chunk(struct load *l, int32_t round, char *data, struct sw_error *err)
{
    struct sw_error why = {0};
    if (sw_reading_chunk(&l->reading, round, data, &why) == 0)
        return 0;
    l->loading->damaged = l->reading.manifest != NULL && why.status == SW_BAD_INPUT;
    return sw_fail_as(err, &why);
}

/* Sends chunks. A rank with bad files sends whatever is in its memory: the others wait for its
 * messages, and discard everything. */
static int spread(struct load *l, struct sw_error *err)
{
    int status = 0;
    char *data = calloc(1, (size_t)l->exchange.chunk_bytes);
    if (data == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for reading a checkpoint");
    for (int32_t r = 0; r < l->exchange.rounds; r++) {
        struct sw_error moving = {0};
        if (status == 0)
            status = read_chunk(l, r, data, err);
        if (sw_mover_spread(l->mover, r, data, &moving) != 0) {
            status = sw_fail_as(err, &moving);
            break;
        }
    }
    free(data);
    return status;
}

/* Ranks of one machine read chunks into shared memory, and each places its elements of every chunk:
 * no messages. While one reads the next chunk others may place the previous; the barrier keeps them
 * within one chunk. */
static int spread_windows(struct load *l, const struct sw_windows *windows, struct sw_error *err)
{
    const struct sw_comm *comm = l->rank->comm;
    const int64_t bytes = l->exchange.chunk_bytes;
    int status = 0;
    for (int32_t r = 0; r < l->exchange.rounds; r++) {
        struct sw_error other = {0};
        const int64_t at = r % 2 * bytes;
        if (status == 0)
            status = read_chunk(l, r, windows->of_rank[comm->rank] + at, err);
        if (comm->vtable->barrier(l->rank->comm, &other) != 0)
            return sw_fail_as(err, &other);
        for (int32_t i = 0; i < comm->size; i++) {
            const int32_t owner = (comm->rank + i) % comm->size;
            const struct sw_stretch chunk = sw_exchange_stretch(&l->exchange, owner, r);
            if (sw_reading_visit(&l->reading, &chunk, windows->of_rank[owner] + at, place, l,
                                 &other) != 0 &&
                status == 0)
                status = sw_fail_as(err, &other);
        }
    }
    return status;
}

/* Collective, for several ranks. */
static int spread_among(struct load *l, struct sw_error *err)
{
    struct sw_windows windows = {0};
    if (l->rank->device->vtable->in_host_memory &&
        sw_windows_open(l->rank->launch, 2 * (size_t)l->exchange.chunk_bytes, &windows, err) != 0)
        return -1;
    const int status = windows.of_rank != NULL ? spread_windows(l, &windows, err) : spread(l, err);
    sw_windows_close(&windows);
    return status;
}

static bool is_alone(const struct load *l)
{
    return l->rank->launch->size == 1 && l->reading.by_blocks &&
           l->rank->device->vtable->in_host_memory;
}

/* ---- Scales ---- */

static int meet(void *context, const struct sw_stretch *stretch, const char *data,
                struct sw_error *err)
{
    struct load *l = context;
    (void)err;
    sw_scales_meet(&l->scales, &l->exchange, stretch, data);
    return 0;
}

static int meet_chunks(struct load *l, struct sw_error *err)
{
    int status = 0;
    char *data = malloc((size_t)l->exchange.chunk_bytes);
    if (data == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for reading a checkpoint");
    for (int32_t r = 0; r < l->exchange.rounds && status == 0; r++) {
        const struct sw_stretch chunk = sw_exchange_stretch(&l->exchange, l->rank->launch->rank, r);
        status = read_chunk(l, r, data, err) != 0 ||
                         sw_reading_visit(&l->reading, &chunk, data, meet, l, err) != 0
                     ? -1
                     : 0;
    }
    free(data);
    return status;
}

/* Measures the scales of 8-bit weights with a separate reading. Collective. */
static int measure(struct load *l)
{
    struct sw_rank *rank = l->rank;
    int status = l->reading.by_blocks ? run_alone(l, meet, &rank->err) : meet_chunks(l, &rank->err);
    if (sw_launch_max(rank->launch, status != 0) > 0)
        return -1;
    sw_launch_max_floats(rank->launch, l->scales.value, l->scales.count);
    sw_scales_settle(&l->scales);
    status = sw_scales_store(&l->scales, &l->exchange, rank->executor, &rank->err);
    return sw_launch_max(rank->launch, status != 0) > 0 ? -1 : 0;
}

/* ---- One origin ---- */

/* Checks for numbers that are not finite in this rank's tensors and in all scales. */
static int check_finite(const struct load *l, struct sw_error *err)
{
    static const char *const of[] = {[SW_STORED_MODEL] = "",
                                     [SW_STORED_EXP_AVG] = "the optimizer's exp_avg of ",
                                     [SW_STORED_EXP_AVG_SQ] = "the optimizer's exp_avg_sq of "};
    const struct sw_placement *p = &l->found->placement;
    int32_t first = sw_mover_not_finite(l->mover);
    for (int32_t t = 0; t < p->tensor_count && t < first; t++)
        if (sw_scales_show_nan(&l->scales, p, t))
            first = t;
    if (first == INT32_MAX)
        return 0;
    return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = l->loading->folder},
                      "%s'%s' has numbers that are not finite (NaN or infinity); use %s",
                      of[p->tensor[first].group], p->tensor[first].name,
                      l->loading->resume ? "an earlier checkpoint" : "other weights");
}

static int open_load(struct load *l, enum sw_origin origin, struct sw_error *err)
{
    struct sw_rank *rank = l->rank;
    struct sw_placement *p = &l->found->placement;
    if (sw_placement_deal(p, rank->launch->size, err) != 0 ||
        sw_exchange_make(&rank->programs->state, p, &rank->comm->mesh, true,
                         chunk_bytes(rank, origin), &l->exchange, err) != 0)
        return -1;
    l->reading =
        (struct sw_reading){.folder = l->loading->folder,
                            .exchange = &l->exchange,
                            .manifest = l->found->text != NULL ? &l->found->manifest : NULL,
                            .device = rank->device,
                            .rank = rank->launch->rank};
    return sw_reading_open(&l->reading, err) != 0 ||
                   sw_scales_create(&rank->programs->state, p, &l->scales, err) != 0 ||
                   sw_mover_create(&l->exchange, rank->executor, &l->mover, err) != 0
               ? -1
               : 0;
}

/* Bytes of the arena, if in host memory, of rows found in the files. */
static int64_t filled_bytes(const struct load *l)
{
    const struct sw_state *state = &l->rank->programs->state;
    const struct sw_placement *p = &l->found->placement;
    int64_t bytes = 0;
    for (int32_t i = 0; i < state->count && l->rank->device->vtable->in_host_memory; i++) {
        bool found = false;
        for (int32_t t = 0; t < p->tensor_count && !found; t++)
            found = p->tensor[t].row == i;
        bytes += found ? state->row[i].instance_bytes * state->row[i].stack : 0;
    }
    return bytes;
}

static int load(struct sw_rank *rank, enum sw_origin origin, struct found *f,
                struct sw_loading *loading)
{
    const struct sw_launch *launch = rank->launch;
    struct sw_error *err = &rank->err;
    struct load l = {.rank = rank, .found = f, .loading = loading};
    int status = open_load(&l, origin, err);
    /* the rounds need every rank */
    if (sw_launch_max(launch, status != 0) > 0) {
        status = -1;
    } else if (l.scales.count == 0 || measure(&l) == 0) {
        sw_mover_quantize(l.mover, &l.scales);
        status = is_alone(&l) ? run_alone(&l, place, err) : spread_among(&l, err);
        /* a rank's elements came from all ranks */
        if (sw_launch_max(launch, status != 0) == 0)
            status = check_finite(&l, err);
    } else {
        status = -1;
    }
    loading->filled_bytes += filled_bytes(&l);
    loading->bytes_read += l.reading.bytes;
    loading->reads += l.reading.reads;
    sw_mover_free(l.mover);
    sw_scales_free(&l.scales);
    sw_reading_close(&l.reading);
    sw_exchange_free(&l.exchange);
    return status;
}

static void forget_files(struct sw_manifest *m)
{
    struct sw_manifest files = {.file = m->file, .file_count = m->file_count};
    sw_manifest_free(&files);
    m->file = NULL;
    m->file_count = 0;
}

static bool is_named(const char *folder)
{
    return folder != NULL && *folder != '\0';
}

/* Collective. Loads the rows of one origin. */
static int load_origin(struct sw_rank *rank, enum sw_origin origin, struct sw_loading *loading,
                       struct sw_manifest *manifest)
{
    const struct sw_launch *launch = rank->launch;
    const struct sw_run_config *run = rank->plan->run;
    struct sw_error *err = &rank->err;
    struct found f = {0};
    *manifest = (struct sw_manifest){0};
    if (!is_named(loading->folder))
        return sw_executor_init_rows(rank->executor, run->data_seed,
                                     run->model.shape.initializer_range, (int32_t)origin, err);
    const bool good = launch->rank != 0 || find(rank, origin, loading, &f, err) == 0;
    int status = tell(launch, loading->folder, &f, good, err);
    if (sw_launch_max(launch, status != 0) == 0)
        status = load(rank, origin, &f, loading);
    *manifest = f.manifest;
    forget_files(manifest);
    sw_placement_free(&f.placement);
    free(f.text);
    return status;
}

int sw_loader_load(struct sw_rank *rank, struct sw_loading *loading, struct sw_manifest *manifest)
{
    const double begin = sw_clock_now();
    const int64_t resident = sw_self_resident_bytes("VmRSS:");
    struct sw_loading base = {.folder = loading->base};
    struct sw_manifest of_base;
    loading->bytes_read = loading->reads = loading->filled_bytes = 0;
    loading->damaged = false;
    *manifest = (struct sw_manifest){0};
    /* data is tiled while loading */
    const bool tiles = sw_mover_tiles(rank->device);
    const unsigned tiled = (tiles && is_named(base.folder) ? 1u << SW_ORIGIN_BASE : 0) |
                           (tiles && is_named(loading->folder) ? 1u << SW_ORIGIN_RUN : 0);
    int status = load_origin(rank, SW_ORIGIN_BASE, &base, &of_base);
    if (sw_launch_max(rank->launch, status != 0) == 0)
        status = load_origin(rank, SW_ORIGIN_RUN, loading, manifest);
    if (sw_launch_max(rank->launch, status != 0) == 0)
        status = sw_executor_settle_state(rank->executor, tiled, &rank->err);
    loading->bytes_read += base.bytes_read;
    loading->reads += base.reads;
    loading->seconds = sw_clock_now() - begin;
    loading->resident_growth_bytes =
        resident_growth(resident, base.filled_bytes + loading->filled_bytes);
    return status;
}
