/* Our reader of safetensors against the files that make_safetensors_attacks.py writes: attacks are
 * refused in one line that names the file, at no great cost; odd but sound files are read. */
#include "runner/checkpoint/safetensors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <cmocka.h>

/* A header may have 100 MB; the files here that are not refused for their header's length have
 * less than 2 MB of it, and a parsed one is some 20 times as large. */
enum { MAX_GROWTH_KB = 64 * 1024 };

static const char *list = "tests/oracle/fixtures/safetensors_attacks.txt";
static const char *folder = "build/tests/safetensors_attacks";

static long resident_kb(void)
{
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_maxrss;
}

static void expect_refused(const char *name, const char *path, int result,
                           const struct sw_error *err)
{
    if (result == 0)
        fail_msg("%s: accepted", name);
    if (err->status != SW_BAD_INPUT)
        fail_msg("%s: status %d: %s", name, (int)err->status, err->message);
    if (strcmp(err->file, path) != 0)
        fail_msg("%s: the error is at '%s': %s", name, err->file, err->message);
    if (err->message[0] == '\0')
        fail_msg("%s: no message", name);
    for (const char *c = err->message; *c != '\0'; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            fail_msg("%s: byte 0x%02x in the message", name, (unsigned)*c);
}

static void expect_read(const char *name, int result, const struct sw_error *err,
                        const struct sw_safetensors *file)
{
    if (result != 0)
        fail_msg("%s: %s", name, err->message);
    int64_t at = file->data_begin;
    for (int32_t i = 0; i < file->count; i++) {
        const struct sw_safetensor *t = &file->tensor[i];
        if (t->begin != at)
            fail_msg("%s: '%s' begins at %lld", name, t->name, (long long)t->begin);
        at += t->bytes;
    }
    if (at != file->file_bytes)
        fail_msg("%s: ends at %lld", name, (long long)at);
}

static void files_of_the_list(void **state)
{
    (void)state;
    FILE *in = fopen(list, "r");
    if (in == NULL)
        fail_msg("cannot open '%s'", list);
    char line[512], name[64], ours[16];
    int refused = 0, read = 0;
    while (fgets(line, sizeof line, in) != NULL) {
        assert_int_equal(sscanf(line, "%63s %15s", name, ours), 2);
        char path[512];
        snprintf(path, sizeof path, "%s/%s.safetensors", folder, name);
        struct sw_safetensors file = {0};
        struct sw_error err = {0};
        char *raw = NULL;
        const long before_kb = resident_kb();
        const int result = sw_safetensors_open(path, &file, &raw, &err);
        if (resident_kb() - before_kb > MAX_GROWTH_KB)
            fail_msg("%s: took %ld KB", name, resident_kb() - before_kb);
        if (strcmp(ours, "refuse") == 0) {
            expect_refused(name, path, result, &err);
            print_message("%s: %s\n", name, err.message);
            refused++;
        } else {
            expect_read(name, result, &err, &file);
            read++;
        }
        sw_safetensors_free(&file);
        free(raw);
    }
    fclose(in);
    assert_in_range(refused, 100, 1000);
    assert_in_range(read, 10, 1000);
}

int main(int argc, char **argv)
{
    if (argc > 2) {
        list = argv[1];
        folder = argv[2];
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(files_of_the_list)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
