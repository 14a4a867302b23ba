/* A file that two writers write piece by piece has the bytes that they were given, wherever the
 * writers meet, however the data lies in memory, and where direct I/O is refused, cut short or
 * fails.
 *
 *   test_save_file FOLDER [ROUNDS [SEED]] */
#include "runner/checkpoint/save_file.h"

#include "core/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cmocka.h>

enum { MOST_BYTES = 20 << 20, PATH_BYTES = 2048, PAGE = 4096 };

static uint64_t rng = 49;
static int rounds = 40;
static char folder[PATH_BYTES];
static char *data;

/* A disk's answers to direct writes. */
enum answer { ACCEPT, REFUSE, SHORTEN, NO_ROOM, ANSWERS };
static struct {
    enum answer answer;
    int64_t direct_bytes, direct_writes, other_bytes;
    int64_t after; /* direct writes that are accepted before */
} disk;

ssize_t pwrite(int fd, const void *from, size_t bytes, off_t at)
{
    const bool direct = (fcntl(fd, F_GETFL) & O_DIRECT) != 0;
    size_t now = bytes;
    if (direct && disk.direct_writes++ >= disk.after) {
        if (disk.answer == REFUSE || disk.answer == NO_ROOM) {
            errno = disk.answer == REFUSE ? EINVAL : ENOSPC;
            return -1;
        }
        if (disk.answer == SHORTEN) {
            (void)fcntl(fd, F_SETFL, 0);
            now = (bytes + 1) / 2 + 1; /* the kernel's own are whole blocks; a network's need not */
        }
    }
    const ssize_t done = syscall(SYS_pwrite64, fd, from, now, at);
    if (now != bytes)
        (void)fcntl(fd, F_SETFL, O_DIRECT);
    if (done > 0)
        *(direct ? &disk.direct_bytes : &disk.other_bytes) += done;
    return done;
}

ssize_t pwrite64(int fd, const void *from, size_t bytes, off_t at)
{
    return pwrite(fd, from, bytes, at);
}

static int64_t below(int64_t n)
{
    rng = rng * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((rng >> 33) % (uint64_t)n);
}

/* One writer's bytes of the file: `from` is the first; in calls of drawn sizes, or as many as one
 * call best takes. */
static int write_range(const char *from, int64_t begin, int64_t end, bool best,
                       struct sw_error *err)
{
    struct sw_save_file file = {.fd = -1};
    int status = sw_save_file_open(&file, folder, "file", begin, err);
    for (int64_t at = begin; at < end && status == 0;) {
        const int64_t most = end - at, piece = sw_save_file_piece(&file, from + (at - begin));
        const int64_t wanted = best ? piece : 1 + below(2 * piece);
        const int64_t now = wanted < most ? wanted : most;
        status = sw_save_file_write(&file, from + (at - begin), now, err);
        at += now;
    }
    if (status == 0)
        status = sw_save_file_close(&file, err);
    sw_save_file_give_up(&file);
    return status;
}

static int leave(void **state)
{
    char path[PATH_BYTES + 8];
    (void)state;
    snprintf(path, sizeof path, "%s/file", folder);
    (void)unlink(path);
    return 0;
}

static void compare(int64_t shift, int64_t bytes)
{
    char path[PATH_BYTES + 8], *text = NULL;
    size_t size = 0;
    snprintf(path, sizeof path, "%s/file", folder);
    assert_int_equal(sw_file_read(path, true, MOST_BYTES, &text, &size, NULL), 0);
    assert_int_equal(size, bytes);
    assert_memory_equal(text, data + shift, (size_t)bytes);
    free(text);
    assert_int_equal(unlink(path), 0);
}

static int64_t draw_cut(int64_t bytes)
{
    const int64_t at = below(bytes);
    return below(2) == 0 ? at / PAGE * PAGE : at;
}

static void test_draws(void **state)
{
    (void)state;
    for (int i = 0; i < rounds; i++) {
        struct sw_error err = {0};
        const int64_t bytes = 1 + below(below(4) == 0 ? MOST_BYTES / 2 : 64 * PAGE);
        const int64_t cut = draw_cut(bytes), shift = below(3) == 0 ? below(PAGE) : 512 * below(8);
        const bool best = below(2) == 0, backwards = below(2) == 0;
        disk.answer = (enum answer)below(ANSWERS);
        disk.direct_writes = disk.direct_bytes = disk.other_bytes = 0;
        disk.after = below(3);
        int status = 0;
        for (int writer = 0; writer < 2 && status == 0; writer++) {
            const int64_t begin = (writer == 1) != backwards ? cut : 0,
                          end = (writer == 1) != backwards ? bytes : cut;
            status = write_range(data + shift + begin, begin, end, best, &err);
        }
        if (disk.answer == NO_ROOM && disk.direct_writes > disk.after) {
            assert_int_equal(status, -1);
            assert_int_equal(err.status, SW_ENVIRONMENT);
            assert_int_equal(err.reason, ENOSPC);
            assert_non_null(strstr(err.message, "file"));
            (void)leave(NULL);
            continue;
        }
        assert_int_equal(status, 0);
        assert_int_equal(disk.direct_bytes + disk.other_bytes, bytes);
        compare(shift, bytes);
    }
}

/* Aligned data of whole pages takes the short way where there is one. */
static void test_direct(void **state)
{
    (void)state;
    const int64_t begin = PAGE, bytes = 9 << 20;
    struct sw_save_file file = {.fd = -1};
    assert_int_equal(sw_save_file_open(&file, folder, "file", begin, NULL), 0);
    const bool supported = file.align > 0 && file.align <= PAGE;
    sw_save_file_give_up(&file);
    disk.answer = ACCEPT;
    disk.direct_bytes = disk.other_bytes = 0;
    assert_int_equal(write_range(data, begin, begin + bytes + 10, true, NULL), 0);
    assert_int_equal(disk.direct_bytes, supported ? bytes : 0);
    assert_int_equal(disk.other_bytes, supported ? 10 : bytes + 10);
    printf("direct I/O in '%s': %s\n", folder, supported ? "yes" : "no");
}

int main(int argc, char **argv)
{
    assert_true(argc > 1);
    snprintf(folder, sizeof folder, "%s/save_file.XXXXXX", argv[1]);
    if (argc > 2)
        rounds = atoi(argv[2]);
    if (argc > 3)
        rng = strtoull(argv[3], NULL, 10);
    data = aligned_alloc(PAGE, MOST_BYTES);
    if (data == NULL || mkdtemp(folder) == NULL)
        return 1;
    for (int64_t i = 0; i < MOST_BYTES; i++)
        data[i] = (char)((uint64_t)i * UINT64_C(0x9e3779b97f4a7c15) >> 56);
    const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(test_draws, leave),
                                       cmocka_unit_test_teardown(test_direct, leave)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)rmdir(folder);
    free(data);
    return failed;
}
