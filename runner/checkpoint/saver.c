#include "runner/checkpoint/saver.h"

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/number.h"
#include "runner/checkpoint/model_folder.h"
#include "runner/checkpoint/move.h"
#include "runner/checkpoint/part.h"
#include "core/checkpoint/store.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MAX_SOURCE_FILE = 1 << 30, PATH_BYTES = 4096, PAGE_BYTES = 2 << 20 };

/* IDLE -> WRITING on every rank -> COMMITTING, by rank 0 -> IDLE */
enum phase { IDLE, WRITING, COMMITTING };

/* A file copied into every checkpoint. */
struct copied {
    char *name, *text;
    size_t bytes;
};

struct sw_saver {
    struct sw_rank *rank;
    const struct sw_launch *launch; /* the rank's, like set */
    const struct sw_program_set *set;
    struct sw_saver_options options; /* with its own copies of folder and source */
    char *folder, *config, *index;   /* config, index: rank 0's; index NULL for adapters */
    bool adapter;
    struct copied *copied; /* [copied_count], rank 0 */
    int32_t copied_count;
    struct sw_mover *mover;
    struct sw_part part; /* this rank's part of the files */
    char *memory;        /* snapshot [part.bytes], or a chunk */
    int64_t memory_bytes;
    struct sw_checksum *all; /* gathered on rank 0: [ranks * most_slices] */
    double *write_s;         /* gathered on rank 0: [ranks] */
    int32_t most_slices;
    enum phase phase;
    bool thread_started;
    pthread_t thread;
    atomic_bool thread_done;
    struct sw_error thread_err; /* read after thread_done */
    struct sw_error failure;    /* this rank's reason for giving up the last save */
    bool made_room;             /* true if room was made since, for another try */
    char note[SW_STORE_NOTE_BYTES];
    char aside[PATH_BYTES];
    struct sw_store_save save; /* on rank 0 */
    struct sw_manifest facts;
    struct sw_saver_times times;
};

/* ---- What goes into every checkpoint ---- */

static enum sw_stored_dtype parameter_dtype(const struct sw_program_set *set)
{
    const struct sw_placement *p = &set->placement;
    return p->tensor_count > 0 ? p->tensor[0].dtype : SW_STORED_F32;
}

static int copy_file(struct sw_saver *s, const char *folder, const char *name, struct sw_error *err)
{
    struct copied *grown = realloc(s->copied, ((size_t)s->copied_count + 1) * sizeof *grown);
    char *path = sw_path_join(folder, name);
    int status = -1;
    if (grown != NULL)
        s->copied = grown;
    if (grown == NULL || path == NULL) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory for the files of a checkpoint");
        goto out;
    }
    struct copied *c = &grown[s->copied_count];
    *c = (struct copied){.name = strdup(name)};
    status =
        c->name == NULL ? -1 : sw_file_read(path, true, MAX_SOURCE_FILE, &c->text, &c->bytes, NULL);
    if (status != 0) {
        free(c->name);
        sw_fail_at(err, SW_ENVIRONMENT, (struct sw_place){.file = path}, "cannot be read");
        goto out;
    }
    s->copied_count++;
out:
    free(path);
    return status;
}

/* Copies tokenizer files, except those already copied from another folder. */
static int copy_others(struct sw_saver *s, const char *folder, struct sw_error *err)
{
    struct sw_model_folder source = {0};
    int status = sw_model_folder_open(folder, false, &source, err);
    const int32_t before = s->copied_count;
    for (int32_t i = 0; i < source.other_count && status == 0; i++) {
        bool has = false;
        for (int32_t k = 0; k < before; k++)
            has = has || strcmp(s->copied[k].name, source.other[i]) == 0;
        if (!has)
            status = copy_file(s, source.path, source.other[i], err);
    }
    sw_model_folder_free(&source);
    return status;
}

/* Prepares adapter_config.json, and the tokenizer of the adapters' folder or their base model. */
static int prepare_adapter(struct sw_saver *s, struct sw_error *err)
{
    const struct sw_run_config *run = s->options.run;
    struct sw_adapter_facts facts = {
        .rank = run->lora.rank, .alpha = run->lora.alpha, .rslora = run->lora.rslora};
    int status = -1;
    memcpy(facts.alpha_of, run->lora.alpha_of, sizeof facts.alpha_of);
    facts.base = s->options.base;
    if (sw_plan_lora(run, &facts.lora, err) == 0 &&
        (s->options.source == NULL || copy_others(s, s->options.source, err) == 0) &&
        (s->options.base == NULL || copy_others(s, s->options.base, err) == 0))
        status = sw_adapter_config_json(&facts, &s->config, err);
    return status;
}

/* Prepares config.json, the index and the source's tokenizer, the same in every checkpoint of the
 * job. */
static int prepare_files(struct sw_saver *s, struct sw_error *err)
{
    char *original = NULL, *path = NULL;
    size_t bytes;
    int status = -1;
    if (s->adapter)
        return prepare_adapter(s, err);
    if (s->options.source != NULL) {
        path = sw_path_join(s->options.source, "config.json");
        if (path == NULL ||
            sw_file_read(path, true, MAX_SOURCE_FILE, &original, &bytes, NULL) != 0) {
            sw_fail_at(err, SW_ENVIRONMENT, (struct sw_place){.file = s->options.source},
                       "its config.json cannot be read");
            goto out;
        }
        if (copy_others(s, s->options.source, err) != 0)
            goto out;
    }
    if (sw_model_config_json(&s->options.run->model.shape, parameter_dtype(s->set), original,
                             &s->config, err) != 0 ||
        sw_model_index_json(&s->set->placement, &s->index, err) != 0)
        goto out;
    status = 0;
out:
    free(original);
    free(path);
    return status;
}

/* ---- Writing: on the thread, or in the pause ---- */

/* Writes the headers, on rank 0. */
static int write_headers(struct sw_saver *s, struct sw_error *err)
{
    const struct sw_placement *p = &s->set->placement;
    for (int32_t f = 0; f < p->file_count; f++) {
        char *header = NULL;
        if (sw_placement_header(p, f, &header, err) != 0)
            return -1;
        const int fd = sw_store_open_file(s->aside, p->file[f].name, err);
        int status = fd < 0 ? -1
                            : sw_store_write_at(fd, p->file[f].name, header,
                                                (size_t)p->file[f].data_begin, 0, err);
        if (fd >= 0 && sw_store_close_file(fd, p->file[f].name, status == 0 ? err : NULL) != 0)
            status = -1;
        free(header);
        if (status != 0)
            return -1;
    }
    return 0;
}

static int write_end(struct sw_saver *s, struct sw_error *err)
{
    if (sw_part_end_writing(&s->part, err) != 0)
        return -1;
    return s->launch->rank == 0 ? write_headers(s, err) : 0;
}

static void *write_all(void *context)
{
    struct sw_saver *s = context;
    const double begin = sw_clock_now();
    /* batch policy: this thread does not interrupt training when it returns from the disk. Normal
     * niceness: it needs few cycles, but would wait long for each on busy cores. On Linux the
     * policy holds for this thread only */
    const struct sched_param none = {0};
    (void)sched_setscheduler(0, SCHED_BATCH, &none);
    sw_part_begin_writing(&s->part, s->aside, s->options.bytes_per_second);
    if (sw_part_write(&s->part, s->memory, s->part.bytes, &s->thread_err) != 0)
        sw_part_give_up(&s->part);
    else
        (void)write_end(s, &s->thread_err);
    s->times.write_s = sw_clock_now() - begin;
    s->times.bytes = s->part.bytes;
    atomic_store(&s->thread_done, true);
    return NULL;
}

static int add_files(struct sw_saver *s, struct sw_manifest *m, struct sw_error *err)
{
    const struct sw_placement *p = &s->set->placement;
    for (int32_t f = 0; f < p->file_count; f++) {
        struct sw_manifest_file *file;
        char *header = NULL;
        if (sw_manifest_add(m, p->file[f].name, p->file[f].bytes, p->file[f].data_begin, &file,
                            err) != 0 ||
            sw_placement_header(p, f, &header, err) != 0)
            return -1;
        file->slice[0] = sw_checksum_of(header, (size_t)p->file[f].data_begin);
        free(header);
    }
    for (int32_t r = 0; r < p->ranks; r++) {
        const struct sw_checksum *next = s->all + (int64_t)r * s->most_slices;
        for (int32_t e = p->first_extent[r]; e < p->first_extent[r + 1]; e++) {
            struct sw_manifest_file *file = &m->file[p->extent[e].file];
            int32_t first, count;
            sw_part_slices(p, e, &first, &count);
            memcpy(file->slice + first, next, (size_t)count * sizeof *next);
            next += count;
        }
    }
    return 0;
}

static int commit(struct sw_saver *s, struct sw_error *err)
{
    struct sw_manifest *m = &s->facts;
    m->slice_bytes = s->set->placement.slice_bytes;
    if (add_files(s, m, err) != 0)
        return -1;
    for (int32_t i = 0; i < s->copied_count; i++)
        if (sw_store_write_file(&s->save, s->copied[i].name, s->copied[i].text, s->copied[i].bytes,
                                m, err) != 0)
            return -1;
    if (sw_store_write_file(&s->save, s->adapter ? SW_ADAPTER_CONFIG : "config.json", s->config,
                            strlen(s->config), m, err) != 0 ||
        (s->index != NULL && sw_store_write_file(&s->save, "model.safetensors.index.json", s->index,
                                                 strlen(s->index), m, err) != 0))
        return -1;
    return sw_store_commit(&s->save, m, s->options.keep, s->options.keep_every, s->note, err);
}

static void *commit_all(void *context)
{
    struct sw_saver *s = context;
    (void)commit(s, &s->thread_err);
    atomic_store(&s->thread_done, true);
    return NULL;
}

/* Starts the work; without a thread does it at once. */
static void start(struct sw_saver *s, void *(*work)(void *))
{
    s->thread_err = (struct sw_error){0};
    atomic_store(&s->thread_done, false);
    s->thread_started = pthread_create(&s->thread, NULL, work, s) == 0;
    if (!s->thread_started)
        (void)work(s);
}

static void join(struct sw_saver *s)
{
    if (s->thread_started)
        (void)pthread_join(s->thread, NULL);
    s->thread_started = false;
}

/* ---- Life ---- */

/* Allocates large pages if there are any: a small one takes as long to get as to fill. */
static char *allocate(int64_t bytes)
{
    const size_t size = (size_t)sw_align(bytes + 1, PAGE_BYTES);
    char *memory = aligned_alloc(PAGE_BYTES, size);
    if (memory != NULL)
        (void)madvise(memory, size, MADV_HUGEPAGE);
    return memory;
}

/* Touches the snapshot's pages now, on all threads, not in the first pause on one. */
static void touch_page(void *context, int64_t i, int32_t thread)
{
    const struct sw_saver *s = context;
    const int64_t begin = i * PAGE_BYTES, left = s->memory_bytes - begin;
    (void)thread;
    memset(s->memory + begin, 0, (size_t)(left < PAGE_BYTES ? left : PAGE_BYTES));
}

int sw_saver_create(struct sw_rank *rank, const struct sw_saver_options *options,
                    struct sw_saver **out)
{
    const struct sw_launch *launch = rank->launch;
    const struct sw_program_set *set = rank->programs;
    struct sw_error *err = &rank->err;
    const struct sw_placement *p = &set->placement;
    struct sw_saver *s = calloc(1, sizeof *s);
    if (s == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for checkpoints");
    s->rank = rank;
    s->launch = launch;
    s->set = set;
    s->options = *options;
    s->adapter = options->run->lora.rank > 0;
    s->folder = strdup(options->folder);
    s->most_slices = sw_part_most_slices(p);
    atomic_init(&s->thread_done, true);
    if (s->folder == NULL || sw_part_open(p, launch->rank, &s->part, err) != 0) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory for checkpoints");
        goto failed;
    }
    s->options.folder = s->folder;
    s->memory_bytes = options->background ? s->part.bytes : set->save.chunk_bytes;
    s->memory = allocate(s->memory_bytes);
    s->all = calloc((size_t)p->ranks * (size_t)s->most_slices + 1, sizeof *s->all);
    s->write_s = calloc((size_t)p->ranks, sizeof *s->write_s);
    if (s->memory == NULL || s->all == NULL || s->write_s == NULL) {
        sw_fail(err, SW_ENVIRONMENT,
                "out of memory for the %.1f MB of this rank's part of a checkpoint",
                (double)s->memory_bytes / 1e6);
        goto failed;
    }
    sw_device_for_each(rank->device, (s->memory_bytes + PAGE_BYTES - 1) / PAGE_BYTES, touch_page,
                       s);
    if (sw_mover_create(&set->save, rank->executor, &s->mover, err) != 0 ||
        (launch->rank == 0 && prepare_files(s, err) != 0))
        goto failed;
    *out = s;
    return 0;
failed:
    sw_saver_free(s);
    return -1;
}

void sw_saver_free(struct sw_saver *s)
{
    if (s == NULL)
        return;
    join(s);
    if (s->phase != IDLE && s->launch->rank == 0)
        sw_store_abandon(&s->save);
    sw_mover_free(s->mover);
    sw_part_close(&s->part);
    sw_manifest_free(&s->facts);
    for (int32_t i = 0; i < s->copied_count; i++) {
        free(s->copied[i].name);
        free(s->copied[i].text);
    }
    free(s->copied);
    free(s->config);
    free(s->index);
    free(s->memory);
    free(s->all);
    free(s->write_s);
    free(s->folder);
    free(s);
}

bool sw_saver_busy(const struct sw_saver *s)
{
    return s->phase != IDLE;
}

struct sw_saver_times sw_saver_times(const struct sw_saver *s)
{
    return s->times;
}

const struct sw_error *sw_saver_failure(const struct sw_saver *s)
{
    return &s->failure;
}

bool sw_saver_made_room(const struct sw_saver *s)
{
    return s->made_room;
}

/* ---- A save ---- */

/* If the disk is full, deletes the old checkpoints that a complete save would delete. Collective:
 * every rank learns if some are gone. */
static void make_room(struct sw_saver *s, const struct sw_error *mine)
{
    const double full = sw_store_lacks_room(mine) ? 1 : 0;
    int32_t deleted = 0;
    sw_launch_gather(s->launch, &full, sizeof full, s->write_s); /* reuses its memory */
    for (int32_t r = 0; s->launch->rank == 0 && r < s->set->placement.ranks && deleted == 0; r++)
        if (s->write_s[r] > 0)
            (void)sw_store_make_room(s->options.folder, s->facts.step, s->options.keep,
                                     s->options.keep_every, &deleted, NULL);
    if (deleted > 0)
        fprintf(stderr,
                "note: the disk is full: deleted %" PRId32
                " old checkpoint%s of %s, which a save deletes "
                "after it (checkpoint.keep: %" PRId64 "); saving again\n",
                deleted, deleted == 1 ? "" : "s", s->options.folder, s->options.keep);
    sw_launch_broadcast(s->launch, &deleted, sizeof deleted);
    s->made_room = deleted > 0;
}

static int give_up(struct sw_saver *s, const struct sw_error *mine)
{
    struct sw_error said = {0};
    if (mine != NULL) {
        s->failure = *mine;
        said = *mine;
        sw_fail_context(&said, "the checkpoint of step %" PRId64 " is abandoned", s->facts.step);
    }
    (void)sw_launch_agree(s->launch, mine != NULL ? &said : NULL);
    if (s->launch->rank == 0)
        sw_store_abandon(&s->save);
    make_room(s, mine);
    s->phase = IDLE;
    return 0;
}

/* State during the pause, which fills the snapshot or, without one, writes each round's bytes at
 * once. A rank that cannot write still takes part in the rounds. */
struct rounds {
    struct sw_saver *saver;
    int64_t at; /* bytes of earlier rounds */
    bool writing;
};

static int collect_round(void *context, int32_t round, struct sw_error *err)
{
    struct rounds *r = context;
    struct sw_saver *s = r->saver;
    const int64_t bytes = sw_exchange_chunk(&s->set->save, s->launch->rank, round);
    if (sw_mover_collect(s->mover, round, s->options.background ? s->memory + r->at : s->memory,
                         err) != 0)
        return -1;
    r->at += bytes;
    if (r->writing && sw_part_write(&s->part, s->memory, bytes, &s->thread_err) != 0) {
        sw_part_give_up(&s->part);
        r->writing = false;
    }
    return 0;
}

static int collect(struct sw_saver *s, struct sw_error *err)
{
    struct rounds rounds = {.saver = s, .writing = !s->options.background};
    const struct sw_fetch fetch = {.round = collect_round, .context = &rounds};
    if (rounds.writing)
        sw_part_begin_writing(&s->part, s->aside, s->options.bytes_per_second);
    if (sw_executor_run(s->rank->executor, SW_PROGRAM_SAVE, NULL, NULL, 0, &fetch, 1, err) != 0)
        return -1;
    if (rounds.writing)
        (void)write_end(s, &s->thread_err);
    return 0;
}

int sw_saver_begin(struct sw_saver *s, const struct sw_manifest *facts, bool *begun,
                   double *pause_s, struct sw_error *err)
{
    const double begin = sw_clock_now();
    struct sw_error mine = {0};
    s->thread_err = s->failure = (struct sw_error){0};
    s->made_room = false;
    sw_manifest_free(&s->facts);
    s->facts = *facts;
    s->facts.file = NULL;
    s->facts.file_count = 0;
    s->aside[0] = '\0';
    if (s->launch->rank == 0 &&
        sw_store_begin(s->options.folder, facts->step, &s->save, &mine) == 0 &&
        snprintf(s->aside, sizeof s->aside, "%s", s->save.aside) >= (int)sizeof s->aside) {
        s->aside[0] = '\0';
        sw_fail(&mine, SW_ENVIRONMENT, "the path of the checkpoints is too long");
    }
    sw_launch_broadcast(s->launch, s->aside, sizeof s->aside);
    *begun = s->aside[0] != '\0';
    if (!*begun)
        return give_up(s, s->launch->rank == 0 ? &mine : NULL);
    if (collect(s, err) != 0)
        return -1;
    s->phase = WRITING;
    s->times.pause_s = sw_clock_now() - begin;
    s->times.write_s = 0;
    s->times.bytes = s->part.bytes;
    if (s->options.background)
        start(s, write_all);
    if (pause_s != NULL)
        *pause_s = s->times.pause_s;
    return 0;
}

void sw_saver_flags(struct sw_saver *s, float *flags)
{
    const bool done = atomic_load(&s->thread_done);
    flags[0] = s->phase == WRITING && !done ? 1.0f : 0.0f;
    flags[1] = s->phase != IDLE && done && s->thread_err.status != SW_OK ? 1.0f : 0.0f;
    flags[2] = s->phase == COMMITTING && !done ? 1.0f : 0.0f;
}

/* Gathers every rank's checksums on rank 0, which commits the checkpoint. */
static void hand_over(struct sw_saver *s)
{
    sw_launch_gather(s->launch, s->part.checksum,
                     (int32_t)((size_t)s->most_slices * sizeof *s->part.checksum), s->all);
    sw_launch_gather(s->launch, &s->times.write_s, sizeof s->times.write_s, s->write_s);
    for (int32_t r = 0; s->launch->rank == 0 && r < s->set->placement.ranks; r++)
        s->times.write_s = fmax(s->times.write_s, s->write_s[r]);
    s->phase = COMMITTING;
    s->note[0] = '\0';
    if (s->launch->rank == 0)
        start(s, commit_all);
}

int sw_saver_advance(struct sw_saver *s, const float *sums, int64_t *done, bool *failed,
                     struct sw_error *err)
{
    (void)err;
    *done = 0;
    *failed = false;
    if (s->phase == IDLE || sums[0] > 0 || sums[2] > 0)
        return 0;
    join(s);
    if (sums[1] > 0) {
        *failed = true;
        return give_up(s, s->thread_err.status != SW_OK ? &s->thread_err : NULL);
    }
    if (s->phase == WRITING) {
        hand_over(s);
        return 0;
    }
    if (s->note[0] != '\0')
        fprintf(stderr, "%s\n", s->note);
    s->phase = IDLE;
    *done = s->facts.step;
    return 0;
}

int sw_saver_finish(struct sw_saver *s, int64_t *done, bool *failed, struct sw_error *err)
{
    *done = 0;
    *failed = false;
    while (s->phase != IDLE) {
        float flags[SW_SAVER_FLAGS];
        join(s);
        sw_saver_flags(s, flags);
        if (sw_rank_vote(s->rank, flags, SW_SAVER_FLAGS, err) != 0 ||
            sw_saver_advance(s, flags, done, failed, err) != 0)
            return -1;
    }
    return 0;
}
