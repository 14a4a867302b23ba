#include "runner/checkpoint/loader.h"

#include "core/base/clock.h"
#include "core/base/file.h"
#include "runner/checkpoint/finite.h"
#include "runner/checkpoint/model_folder.h"
#include "runner/checkpoint/move.h"
#include "runner/checkpoint/part.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    READ_AHEAD = 4 << 20,  /* beside a chunk: what is read at once */
    CHUNK_BYTES = 16 << 20 /* the most: bounds what loading allocates */
};

/* ---- Resident memory ---- */

/* Of this process, "VmRSS:" now or "VmHWM:" the most it had; -1: not known. Not getrusage's, which
 * counts what ran before exec. */
static int64_t resident_bytes(const char *which)
{
    char line[128];
    long long kib = -1;
    FILE *status = fopen("/proc/self/status", "re");
    if (status == NULL)
        return -1;
    while (kib < 0 && fgets(line, sizeof line, status) != NULL)
        if (strncmp(line, which, strlen(which)) == 0)
            kib = strtoll(line + strlen(which), NULL, 10);
    fclose(status);
    return kib < 0 ? -1 : (int64_t)kib * 1024;
}

/* From what it was before. Where the process once had more than it needed now, at least the growth.
 */
static int64_t resident_growth(int64_t before)
{
    const int64_t most = resident_bytes("VmHWM:");
    return before < 0 || most < before ? 0 : most - before;
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
                    enum sw_origin origin, const char *advice, struct sw_error *err)
{
    const struct sw_place at = {.file = opened->path};
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
    const char *other = adapters ? sw_adapter_config_difference(&opened->config, &lora,
                                                                run->model.shape.layers, buffer)
                                 : sw_model_difference(&opened->model, &run->model.shape, buffer);
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

/* A tied head that is stored beside the embedding must be the embedding. */
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

/* What rank 0 finds, and the others are told. */
struct found {
    struct sw_placement placement; /* not dealt */
    struct sw_manifest manifest;
    char *text; /* of the manifest, NULL: there is none */
    size_t text_bytes;
};

/* Opens the folder; *damaged: what cannot be opened is not what was written. */
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
        sw_loader_check(&folder, rank->plan->run, origin,
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

/* Messages must fit the buffers that saving has; those of the model that adapters stand on do not,
 * since its tensors are so much larger. */
static int64_t chunk_bytes(const struct sw_program_set *set, enum sw_origin origin)
{
    const int64_t planned = set->save.chunk_bytes; /* 0: the set saves nothing */
    return origin == SW_ORIGIN_RUN && planned > 0 && planned < CHUNK_BYTES ? planned : CHUNK_BYTES;
}

/* Bytes of the stream that were read and not yet spread. */
struct window {
    char *data;
    int64_t used, filled, capacity;
};

static int provide(struct window *w, struct sw_part *part, const struct sw_manifest *manifest,
                   int64_t bytes, struct sw_loading *loading, struct sw_error *err)
{
    if (w->filled - w->used >= bytes)
        return 0;
    memmove(w->data, w->data + w->used, (size_t)(w->filled - w->used));
    w->filled -= w->used;
    w->used = 0;
    const int64_t left = part->bytes - part->at;
    const int64_t room = w->capacity - w->filled;
    const int64_t now = left < room ? left : room;
    struct sw_error why = {0};
    if (sw_part_read(part, manifest, w->data + w->filled, now, &loading->reads, &why) != 0) {
        loading->damaged = manifest != NULL && why.status == SW_BAD_INPUT;
        return sw_fail_as(err, &why);
    }
    w->filled += now;
    loading->bytes_read += now;
    return 0;
}

/* A rank whose files are bad goes on with what is in its memory: the others wait for its messages.
 * Nothing of it is used. */
static int spread(const struct sw_exchange *x, int32_t rank, struct sw_mover *mover,
                  struct sw_part *part, const struct sw_manifest *manifest,
                  struct sw_loading *loading, struct sw_error *err)
{
    struct window w = {.capacity = x->chunk_bytes + READ_AHEAD};
    int status = 0;
    w.data = calloc(1, (size_t)w.capacity);
    if (w.data == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for reading a checkpoint");
    for (int32_t r = 0; r < x->rounds; r++) {
        const int64_t bytes = sw_exchange_chunk(x, rank, r);
        struct sw_error moving = {0};
        if (status == 0)
            status = provide(&w, part, manifest, bytes, loading, err);
        if (status != 0)
            w.used = 0;
        if (sw_mover_spread(mover, r, w.data + w.used, &moving) != 0) {
            status = sw_fail_as(err, &moving);
            break;
        }
        w.used += bytes;
    }
    if (status == 0 && part->at < part->bytes) /* what no tensor of ours lies in */
        status =
            provide(&w, part, manifest, part->bytes - part->at + w.filled - w.used, loading, err);
    free(w.data);
    return status;
}

/* The scales of what is in 8 bits, from a reading of its own. Collective. */
static int measure(struct sw_rank *rank, const struct sw_exchange *x, struct sw_part *part,
                   const struct sw_manifest *manifest, struct sw_loading *loading,
                   struct sw_scales *scales)
{
    struct window w = {.capacity = x->chunk_bytes + READ_AHEAD};
    int status = 0;
    w.data = calloc(1, (size_t)w.capacity);
    if (w.data == NULL)
        status = sw_fail(&rank->err, SW_ENVIRONMENT, "out of memory for reading a checkpoint");
    sw_part_begin_reading(part, loading->folder);
    for (int32_t r = 0; r < x->rounds && status == 0; r++) {
        const int64_t bytes = sw_exchange_chunk(x, rank->launch->rank, r);
        status = provide(&w, part, manifest, bytes, loading, &rank->err);
        if (status == 0)
            sw_scales_meet(scales, x, rank->launch->rank, r, w.data + w.used);
        w.used += bytes;
    }
    free(w.data);
    if (sw_launch_max(rank->launch, status != 0) > 0)
        return -1;
    sw_launch_max_floats(rank->launch, scales->value, scales->count);
    sw_scales_settle(scales);
    status = sw_scales_store(scales, x, rank->executor, &rank->err);
    return sw_launch_max(rank->launch, status != 0) > 0 ? -1 : 0;
}

static int load(struct sw_rank *rank, enum sw_origin origin, struct found *f,
                struct sw_loading *loading)
{
    const struct sw_launch *launch = rank->launch;
    struct sw_error *err = &rank->err;
    struct sw_exchange x = {0};
    struct sw_part part = {.fd = -1};
    struct sw_mover *mover = NULL;
    struct sw_scales scales = {0};
    const struct sw_manifest *manifest = f->text != NULL ? &f->manifest : NULL;
    int status = -1;
    if (sw_placement_deal(&f->placement, launch->size, err) == 0 &&
        sw_exchange_make(&rank->programs->state, &f->placement, &rank->comm->mesh, true,
                         chunk_bytes(rank->programs, origin), &x, err) == 0 &&
        sw_part_open(&f->placement, launch->rank, &part, err) == 0 &&
        sw_scales_create(&rank->programs->state, &f->placement, &scales, err) == 0 &&
        sw_mover_create(&x, rank->executor, &mover, err) == 0)
        status = 0;
    /* the rounds need every rank */
    if (sw_launch_max(launch, status != 0) > 0) {
        status = -1;
    } else if (scales.count == 0 || measure(rank, &x, &part, manifest, loading, &scales) == 0) {
        sw_mover_quantize(mover, &scales);
        sw_part_begin_reading(&part, loading->folder);
        status = spread(&x, launch->rank, mover, &part, manifest, loading, err);
        /* what a rank holds came from all of them */
        if (sw_launch_max(launch, status != 0) == 0)
            status = sw_check_finite_loaded(rank->executor, &f->placement, loading->folder,
                                            loading->resume, err);
    } else {
        status = -1;
    }
    sw_mover_free(mover);
    sw_scales_free(&scales);
    sw_part_close(&part);
    sw_exchange_free(&x);
    return status;
}

static void forget_files(struct sw_manifest *m)
{
    struct sw_manifest files = {.file = m->file, .file_count = m->file_count};
    sw_manifest_free(&files);
    m->file = NULL;
    m->file_count = 0;
}

/* Collective. The rows of one origin. */
static int load_origin(struct sw_rank *rank, enum sw_origin origin, struct sw_loading *loading,
                       struct sw_manifest *manifest)
{
    const struct sw_launch *launch = rank->launch;
    const struct sw_run_config *run = rank->plan->run;
    struct sw_error *err = &rank->err;
    struct found f = {0};
    *manifest = (struct sw_manifest){0};
    if (loading->folder == NULL || *loading->folder == '\0')
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
    const int64_t resident = resident_bytes("VmRSS:");
    struct sw_loading base = {.folder = loading->base};
    struct sw_manifest of_base;
    loading->bytes_read = loading->reads = 0;
    loading->damaged = false;
    *manifest = (struct sw_manifest){0};
    int status = load_origin(rank, SW_ORIGIN_BASE, &base, &of_base);
    if (sw_launch_max(rank->launch, status != 0) == 0)
        status = load_origin(rank, SW_ORIGIN_RUN, loading, manifest);
    if (sw_launch_max(rank->launch, status != 0) == 0)
        status = sw_executor_settle_state(rank->executor, &rank->err);
    loading->bytes_read += base.bytes_read;
    loading->reads += base.reads;
    loading->seconds = sw_clock_now() - begin;
    loading->resident_growth_bytes = resident_growth(resident);
    return status;
}
