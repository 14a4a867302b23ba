/* How fast a tokenizer reads a text, and what it makes of it.
 *
 *   bench_tokenizer TOKENIZER.json TEXT [IDS]
 *
 * One thread. Prints bytes, tokens, MB/s of the processor's time (so a loaded machine costs little)
 * and checks that the tokens decode. IDS: the tokens, little-endian int32. A text that lies under
 * 4 MiB is repeated until a second is over. tests/oracle/tokenizer_oracle.py compares IDS. */
#include "core/base/file.h"
#include "runner/text/tokenizer/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double processor_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int complain(const struct sw_error *err)
{
    char text[SW_ERROR_TEXT_BYTES];
    fprintf(stderr, "%s\n", sw_error_format(err, "bench_tokenizer", text));
    return err->status;
}

static int measure(const struct sw_tokenizer *t, const char *text, size_t bytes, struct sw_ids *ids,
                   struct sw_error *err)
{
    struct sw_text_scratch *scratch;
    double seconds = 0, best = 1e9;
    int64_t runs = 0;
    if (sw_text_scratch_new(t, &scratch, err) != 0)
        return -1;
    do {
        ids->count = 0;
        const double begin = processor_seconds();
        if (sw_tokenizer_encode(t, scratch, text, bytes, NULL, ids, err) != 0)
            break;
        const double took = processor_seconds() - begin;
        seconds += took;
        best = took < best ? took : best;
        runs++;
    } while (seconds < 1 && bytes < (size_t)4 << 20);
    sw_text_scratch_free(scratch);
    if (err->status != SW_OK)
        return -1;
    printf("%zu bytes, %zu tokens, %.2f bytes each, %.1f MB/s, best %.1f\n", bytes, ids->count,
           (double)bytes / (double)(ids->count > 0 ? ids->count : 1),
           (double)bytes * (double)runs / seconds * 1e-6, (double)bytes / best * 1e-6);
    struct sw_chars back = {0};
    const double begin = processor_seconds();
    const int status = sw_tokenizer_decode(t, ids->id, ids->count, NULL, &back, err);
    printf("decoded %zu bytes, %s, %.1f MB/s\n", back.count,
           back.count == bytes && memcmp(back.byte, text, bytes) == 0 ? "the same" : "others",
           (double)back.count / (processor_seconds() - begin) * 1e-6);
    sw_chars_free(&back);
    return status;
}

int main(int argc, char **argv)
{
    struct sw_error err = {0};
    struct sw_tokenizer *t;
    struct sw_ids ids = {0};
    char *text = NULL;
    size_t bytes;
    if (argc < 3) {
        fprintf(stderr, "usage: bench_tokenizer TOKENIZER.json TEXT [IDS]\n");
        return SW_BAD_INPUT;
    }
    const double begin = processor_seconds();
    if (sw_tokenizer_open(argv[1], &t, &err) != 0)
        return complain(&err);
    printf("%d tokens, read in %.3f s\n", (int)sw_tokenizer_size(t), processor_seconds() - begin);
    if (sw_file_read(argv[2], true, SIZE_MAX - 1, &text, &bytes, NULL) != 0)
        sw_fail(&err, SW_BAD_INPUT, "cannot read '%s'", argv[2]);
    else if (measure(t, text, bytes, &ids, &err) == 0 && argc > 3)
        (void)sw_file_write(argv[3], ids.id, ids.count * sizeof *ids.id, 0666, &err);
    free(text);
    sw_ids_free(&ids);
    sw_tokenizer_free(t);
    return err.status == SW_OK ? 0 : complain(&err);
}
