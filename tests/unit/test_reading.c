/* Parts of files read by several threads: whatever files, slices, ranks and chunks are drawn, each
 * byte comes once, from where it stands, block by block or chunk by chunk; a byte that changed, or
 * a file that became shorter, is found, and the message names bytes around it. */
#include "core/checkpoint/manifest.h"
#include "runner/checkpoint/reading.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { FILES = 3, TENSORS = 4, MIB = 1 << 20 };

static uint64_t rng = 11;
static int trials = 12;

static int64_t below(int64_t n)
{
    rng = rng * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((rng >> 33) % (uint64_t)n);
}

struct job {
    char folder[64];
    bool aligned; /* no element lies across two slices */
    bool damaged; /* the files are not `data` */
    struct sw_state_row row;
    struct sw_state state;
    struct sw_stored_tensor tensor[FILES * TENSORS];
    struct sw_stored_file file[FILES];
    struct sw_placement placement;
    struct sw_manifest manifest;
    char *data[FILES];
    unsigned char *met[FILES]; /* how often each byte came */
};

static char *path_of(const struct job *job, int32_t file)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", job->folder, job->file[file].name);
    return path;
}

static void write_file(const struct job *job, int32_t file, int64_t bytes)
{
    FILE *out = fopen(path_of(job, file), "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(job->data[file], 1, (size_t)bytes, out), bytes);
    assert_int_equal(fclose(out), 0);
}

static void draw_file(struct job *job, int32_t f, bool aligned)
{
    struct sw_stored_file *file = &job->file[f];
    snprintf(file->name, sizeof file->name, "model-%d.safetensors", (int)f);
    file->first_tensor = f * TENSORS;
    file->tensor_count = TENSORS;
    file->data_begin = file->bytes = aligned ? 8 * (1 + below(900)) : 9 + below(5000);
    for (int32_t t = f * TENSORS; t < (f + 1) * TENSORS; t++) {
        struct sw_stored_tensor *tensor = &job->tensor[t];
        const int64_t elems = 1 + below(below(3) == 0 ? 900000 : 3000);
        *tensor = (struct sw_stored_tensor){.block = 1,
                                            .dtype = (enum sw_stored_dtype)below(SW_STORED_U8),
                                            .ndim = 1,
                                            .size = {elems, 1},
                                            .matrices = 1,
                                            .file = f};
        snprintf(tensor->name, sizeof tensor->name, "tensor.%d", (int)t);
        if (aligned)
            file->bytes = (file->bytes + 7) / 8 * 8;
        tensor->offset = file->bytes;
        tensor->bytes = elems * (int64_t)sw_stored_dtype_bytes(tensor->dtype);
        file->bytes += tensor->bytes;
    }
    job->data[f] = malloc((size_t)file->bytes);
    job->met[f] = calloc(1, (size_t)file->bytes);
    assert_true(job->data[f] != NULL && job->met[f] != NULL);
    for (int64_t i = 0; i < file->bytes; i++)
        job->data[f][i] =
            (char)(rng = rng * 6364136223846793005u + 1442695040888963407u, rng >> 56);
    write_file(job, f, file->bytes);
}

static void draw_job(struct job *job)
{
    static const int64_t slices[] = {4096, 65536, MIB, 4 * MIB};
    struct sw_error err = {0};
    memset(job, 0, sizeof *job);
    job->aligned = below(3) > 0;
    strcpy(job->folder, "/tmp/test_reading.XXXXXX");
    assert_non_null(mkdtemp(job->folder));
    job->row.dtype = SW_F32;
    job->state = (struct sw_state){.row = &job->row, .count = 1};
    for (int32_t f = 0; f < FILES; f++)
        draw_file(job, f, job->aligned);
    job->placement = (struct sw_placement){.tensor = job->tensor,
                                           .file = job->file,
                                           .tensor_count = FILES * TENSORS,
                                           .file_count = FILES,
                                           .slice_bytes = slices[below(4)]};
    job->manifest.slice_bytes = job->placement.slice_bytes;
    for (int32_t f = 0; f < FILES; f++) {
        struct sw_manifest_file *file;
        assert_int_equal(sw_manifest_add(&job->manifest, job->file[f].name, job->file[f].bytes,
                                         job->file[f].data_begin, &file, &err),
                         0);
        for (int32_t i = 0; i < file->slice_count; i++) {
            int64_t begin, end;
            sw_manifest_slice(file->bytes, file->data_begin, job->manifest.slice_bytes, i, &begin,
                              &end);
            file->slice[i] = sw_checksum_of(job->data[f] + begin, (size_t)(end - begin));
        }
    }
}

static void free_job(struct job *job)
{
    for (int32_t f = 0; f < FILES; f++) {
        assert_int_equal(unlink(path_of(job, f)), 0);
        free(job->data[f]);
        free(job->met[f]);
    }
    assert_int_equal(rmdir(job->folder), 0);
    sw_manifest_free(&job->manifest);
    free(job->placement.extent);
    free(job->placement.first_extent);
}

/* One rank's reading of the files. */
struct reader {
    struct job *job;
    bool damaged; /* whatever comes is no matter */
    struct sw_exchange *exchange;
};

static int meet(void *context, const struct sw_stretch *stretch, const char *data,
                struct sw_error *err)
{
    const struct reader *reader = context;
    struct sw_span_of_file span;
    for (int32_t i = 0; sw_exchange_stretch_span(reader->exchange, stretch, i, &span); i++) {
        const int64_t bytes = span.end - span.begin;
        if (!reader->damaged &&
            memcmp(reader->job->data[span.file] + span.begin, data + span.at, (size_t)bytes) != 0)
            return sw_fail(err, SW_UNMET, "other bytes");
        for (int64_t b = span.begin; b < span.end; b++)
            reader->job->met[span.file][b]++;
    }
    return 0;
}

static int read_part(struct job *job, struct sw_exchange *x, struct sw_device *device, int32_t rank,
                     bool checks, int64_t *read, struct sw_error *err)
{
    struct reader reader = {job, job->damaged, x};
    struct sw_reading reading = {.folder = job->folder,
                                 .exchange = x,
                                 .manifest = checks ? &job->manifest : NULL,
                                 .device = device,
                                 .rank = rank};
    char *data = malloc((size_t)x->chunk_bytes);
    assert_non_null(data);
    int status = sw_reading_open(&reading, err);
    if (status == 0 && reading.by_blocks && below(2))
        status = sw_reading_run(&reading, meet, &reader, err);
    else
        for (int32_t r = 0; r < x->rounds && status == 0; r++) {
            const struct sw_stretch chunk = sw_exchange_stretch(x, rank, r);
            status = sw_reading_chunk(&reading, r, data, err) != 0 ||
                             sw_reading_visit(&reading, &chunk, data, meet, &reader, err) != 0
                         ? -1
                         : 0;
        }
    *read += reading.bytes;
    sw_reading_close(&reading);
    free(data);
    return status;
}

static int read_all(struct job *job, int32_t ranks, bool checks, struct sw_error *err)
{
    static const int64_t chunks[] = {5000, 70000, 3 * MIB, 16 * MIB};
    const struct sw_mesh mesh = sw_mesh_make(ranks, 1, 1, 1);
    struct sw_exchange x;
    struct sw_device *device = sw_cpu_device_create(1 + (int32_t)below(4), err);
    int64_t read = 0, all = 0;
    int status = 0;
    assert_non_null(device);
    assert_int_equal(sw_placement_deal(&job->placement, ranks, err), 0);
    assert_int_equal(
        sw_exchange_make(&job->state, &job->placement, &mesh, true, chunks[below(4)], &x, err), 0);
    for (int32_t r = 0; r < ranks && status == 0; r++)
        status = read_part(job, &x, device, r, checks, &read, err);
    for (int32_t f = 0; f < FILES; f++)
        all += job->file[f].bytes - job->file[f].data_begin;
    assert_true(status != 0 || read == all);
    sw_exchange_free(&x);
    device->vtable->destroy(device);
    return status;
}

static void test_every_byte_once(void **state)
{
    (void)state;
    for (int trial = 0; trial < trials; trial++) {
        struct job job;
        struct sw_error err = {0};
        draw_job(&job);
        /* parts that end within a slice are of files that have no manifest */
        const int32_t ranks = 1 + (int32_t)below(4);
        if (read_all(&job, ranks, job.aligned || ranks == 1, &err) != 0)
            fail_msg("trial %d, %d ranks: %s", trial, (int)ranks, err.message);
        for (int32_t f = 0; f < FILES; f++)
            for (int64_t b = 0; b < job.file[f].bytes; b++)
                assert_int_equal(job.met[f][b], b >= job.file[f].data_begin);
        free_job(&job);
    }
}

static void test_damage_is_found(void **state)
{
    (void)state;
    for (int trial = 0; trial < trials; trial++) {
        struct job job;
        struct sw_error err = {0};
        draw_job(&job);
        const int32_t f = (int32_t)below(FILES);
        const int64_t begin = job.file[f].data_begin, bytes = job.file[f].bytes;
        const int64_t at = begin + below(bytes - begin);
        const bool shorter = below(2);
        const char was = job.data[f][at];
        long long from = -1, to = -1;
        job.data[f][at] = (char)(was ^ 1 << below(8));
        write_file(&job, f, shorter ? at : bytes);
        job.data[f][at] = was;
        job.damaged = true;
        assert_int_equal(read_all(&job, job.aligned ? 1 + (int32_t)below(4) : 1, true, &err), -1);
        assert_int_equal(err.status, SW_BAD_INPUT);
        const char *place = strstr(err.message, "bytes ");
        assert_non_null(place);
        assert_int_equal(sscanf(place, "bytes %lld to %lld", &from, &to), 2);
        if (from > at || to <= at || (shorter && strstr(err.message, "shorter") == NULL))
            fail_msg("trial %d, byte %lld: %s", trial, (long long)at, err.message);
        free_job(&job);
    }
}

int main(int argc, char **argv)
{
    trials = argc > 1 ? atoi(argv[1]) : trials;
    rng = argc > 2 ? strtoull(argv[2], NULL, 10) : rng;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_byte_once),
                                       cmocka_unit_test(test_damage_is_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
