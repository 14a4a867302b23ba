/* Reading whole files, and writing them so that nobody finds half of one. */
#include "core/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static int32_t files_here(void)
{
    DIR *directory = opendir(".");
    assert_non_null(directory);
    int32_t count = 0;
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(directory);
    return count;
}

static void expect_content(const char *path, const char *wanted)
{
    char *text = NULL;
    size_t bytes = 0;
    assert_int_equal(sw_file_read(path, true, 1 << 20, &text, &bytes, NULL), 0);
    assert_int_equal(bytes, strlen(wanted));
    assert_string_equal(text, wanted);
    free(text);
}

static void expect_unread(const char *path, bool regular, size_t most, int reason)
{
    char *text = NULL;
    size_t bytes = 7;
    errno = 0;
    assert_int_equal(sw_file_read(path, regular, most, &text, &bytes, NULL), -1);
    assert_int_equal(errno, reason);
    assert_null(text);
    assert_int_equal(bytes, 7);
}

static void reads(void **state)
{
    (void)state;
    char *big = malloc(200001), *text = NULL;
    size_t bytes = 0;
    struct stat status, wanted;
    assert_non_null(big);
    memset(big, 'x', 200001);
    assert_int_equal(sw_file_write("big", big, 200000, 0666, NULL), 0);
    assert_int_equal(sw_file_read("big", true, 200000, &text, &bytes, &status), 0);
    assert_int_equal(bytes, 200000);
    assert_int_equal(text[200000], '\0');
    assert_memory_equal(text, big, 200000);
    free(text);
    assert_int_equal(stat("big", &wanted), 0);
    assert_true(status.st_ino == wanted.st_ino);
    expect_unread("big", true, 199999, EFBIG);
    assert_int_equal(sw_file_write("big", "", 0, 0666, NULL), 0);
    expect_content("big", "");
    assert_int_equal(unlink("big"), 0);
    free(big);

    expect_unread("absent", true, 10, ENOENT);
    expect_unread(".", true, 10, EISDIR);
    expect_unread(".", false, 10, EISDIR);
    assert_int_equal(mkfifo("pipe", 0600), 0);
    expect_unread("pipe", true, 10, ESPIPE);
    assert_int_equal(unlink("pipe"), 0);
    expect_unread("/dev/zero", false, 100000, EFBIG);
    assert_int_equal(sw_file_read("/dev/null", false, 10, &text, &bytes, NULL), 0);
    assert_int_equal(bytes, 0);
    free(text);
}

static void nobody_sees_half_a_file(void **state)
{
    (void)state;
    struct sw_new_file file;
    struct sw_error err = {0};
    struct stat info;
    assert_int_equal(sw_file_write("a", "old", 3, 0600, &err), 0);
    assert_int_equal(stat("a", &info), 0);
    assert_int_equal(info.st_mode & 07777, 0600);
    assert_int_equal(sw_file_begin(&file, "a", 0666, &err), 0);
    fputs("new", file.out);
    fflush(file.out);
    expect_content("a", "old");
    sw_file_abandon(&file);
    expect_content("a", "old");
    assert_int_equal(files_here(), 1);

    assert_int_equal(sw_file_begin(&file, "./a", 0666, &err), 0);
    fputs("xew", file.out);
    rewind(file.out);
    fputs("n", file.out);
    assert_int_equal(sw_file_commit(&file, &err), 0);
    expect_content("a", "new");
    assert_int_equal(files_here(), 1);
    sw_file_abandon(&file); /* nothing left to forget */
    expect_content("a", "new");
    assert_int_equal(unlink("a"), 0);
}

/* As on a full disk: with few bytes found out at the end, with many on the way. */
static void a_failed_write_leaves_the_old_file(void **state)
{
    (void)state;
    static const size_t sizes[] = {2000, 300000};
    char *data = calloc(1, 300000);
    struct rlimit before, limit;
    assert_non_null(data);
    assert_int_equal(sw_file_write("kept", "old", 3, 0666, NULL), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct sw_error err = {0};
        limit = before;
        limit.rlim_cur = 1024;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        const int status = sw_file_write("kept", data, sizes[i], 0666, &err);
        const int reason = errno;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_int_equal(status, -1);
        assert_int_equal(reason, EFBIG);
        assert_int_equal(err.status, SW_ENVIRONMENT);
        assert_string_equal(err.message, "cannot write 'kept': File too large");
        expect_content("kept", "old");
        assert_int_equal(files_here(), 1);
    }
    (void)signal(SIGXFSZ, handler);
    assert_int_equal(unlink("kept"), 0);
    free(data);
}

static void refuses_what_is_no_file(void **state)
{
    (void)state;
    struct sw_error err = {0};
    struct stat info;
    assert_int_equal(sw_file_write("none/a", "x", 1, 0666, &err), -1);
    assert_string_equal(err.message, "cannot write 'none/a': No such file or directory");
    assert_int_equal(err.status, SW_ENVIRONMENT);
    err = (struct sw_error){0};
    assert_int_equal(sw_file_write(".", "x", 1, 0666, &err), -1);
    assert_string_equal(err.message, "cannot write '.': Is a directory");
    err = (struct sw_error){0};
    assert_int_equal(mkfifo("pipe", 0600), 0);
    assert_int_equal(sw_file_write("pipe", "x", 1, 0666, &err), -1);
    assert_string_equal(err.message, "cannot write 'pipe': it is not a regular file");
    assert_int_equal(stat("pipe", &info), 0);
    assert_true(S_ISFIFO(info.st_mode));
    assert_int_equal(unlink("pipe"), 0);
    assert_int_equal(files_here(), 0);
}

/* What a process that died left behind under the same number is not written through. */
static void a_stale_file_beside_is_no_matter(void **state)
{
    (void)state;
    char aside[64];
    snprintf(aside, sizeof aside, ".a.%ld", (long)getpid());
    assert_int_equal(sw_file_write("other", "other", 5, 0666, NULL), 0);
    assert_int_equal(link("other", aside), 0);
    assert_int_equal(sw_file_write("a", "a", 1, 0666, NULL), 0);
    expect_content("other", "other");
    expect_content("a", "a");
    assert_int_equal(files_here(), 2);
    assert_int_equal(unlink("a"), 0);
    assert_int_equal(unlink("other"), 0);
}

static void whose_fault_a_path_is(void **state)
{
    (void)state;
    struct sw_error err = {0};
    assert_int_equal(sw_path_status(ENOENT, false), SW_BAD_INPUT);
    assert_int_equal(sw_path_status(EISDIR, false), SW_BAD_INPUT);
    /* it is there, and may be readable elsewhere; to write there is no good idea anywhere */
    assert_int_equal(sw_path_status(EACCES, false), SW_ENVIRONMENT);
    assert_int_equal(sw_path_status(EACCES, true), SW_BAD_INPUT);
    assert_int_equal(sw_path_status(EROFS, true), SW_BAD_INPUT);
    assert_int_equal(sw_path_status(ENOSPC, true), SW_ENVIRONMENT);
    assert_int_equal(sw_path_status(EIO, true), SW_ENVIRONMENT);
    sw_fail(&err, SW_ENVIRONMENT, "cannot write");
    assert_int_equal(sw_path_blame(&err, ENOSPC, "name another"), -1);
    assert_string_equal(err.message, "cannot write");
    assert_int_equal(err.status, SW_ENVIRONMENT);
    assert_int_equal(sw_path_blame(NULL, ENOENT, "name another"), -1);
}

static void folders(void **state)
{
    (void)state;
    struct sw_error err = {0};
    struct stat info;
    assert_int_equal(sw_file_make_folder("one//two/three/", &err), 0);
    assert_int_equal(stat("one/two/three", &info), 0);
    assert_true(S_ISDIR(info.st_mode));
    assert_int_equal(sw_file_make_folder("one/two", &err), 0);
    assert_int_equal(sw_file_make_folder("/", &err), 0);
    assert_int_equal(sw_file_write("one/file", "x", 1, 0666, &err), 0);
    assert_int_equal(sw_file_make_folder("one/file/below", &err), -1);
    assert_int_equal(errno, ENOTDIR);
    assert_string_equal(err.message, "cannot create the folder 'one/file/below': Not a directory");
    assert_int_equal(err.status, SW_ENVIRONMENT);
    assert_int_equal(sw_path_blame(&err, errno, "name another"), -1);
    assert_string_equal(err.message,
                        "cannot create the folder 'one/file/below': Not a directory; name another");
    assert_int_equal(err.status, SW_BAD_INPUT);
    err = (struct sw_error){0};
    assert_int_equal(sw_file_make_folder("one/file", &err), -1);
    assert_string_equal(err.message, "'one/file' is not a folder");
    err = (struct sw_error){0};
    assert_int_equal(sw_file_make_folder("", &err), -1);
    assert_string_equal(err.message, "cannot create the folder '': No such file or directory");
    assert_int_equal(system("rm -r one"), 0);
}

static void paths(void **state)
{
    (void)state;
    static const struct {
        const char *path, *folder, *name;
    } cases[] = {{"a/b/c", "a/b", "c"}, {"/b", "/", "b"}, {"b", ".", "b"}, {"a/", "a", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *folder = sw_path_folder(cases[i].path);
        assert_string_equal(folder, cases[i].folder);
        assert_string_equal(sw_path_name(cases[i].path), cases[i].name);
        free(folder);
    }
    char *joined = sw_path_join("a/b", "c");
    assert_string_equal(joined, "a/b/c");
    free(joined);
}

/* In a process of its own: which of the three are closed. What it is told by its exit code. */
static int hold(int closed)
{
    char byte = 0;
    for (int stream = 0; stream < 3; stream++)
        if (closed >> stream & 1)
            close(stream);
    sw_file_hold_streams();
    const int file = open("held", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (file < 3)
        return 1;
    errno = 0;
    if ((closed & 1) && (read(0, &byte, 1) != -1 || errno != EBADF))
        return 2;
    errno = 0;
    if ((closed & 2) && (write(1, "x", 1) != -1 || errno != EBADF))
        return 3;
    errno = 0;
    if ((closed & 4) && (write(2, "x", 1) != -1 || errno != EBADF))
        return 4;
    return !(closed & 4) && fcntl(2, F_GETFL) < 0 ? 5 : 0;
}

static void closed_streams_are_held(void **state)
{
    (void)state;
    for (int closed = 0; closed < 8; closed++) {
        int status = -1;
        const pid_t child = fork();
        if (child == 0)
            _exit(hold(closed));
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    assert_int_equal(unlink("held"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads),
        cmocka_unit_test(closed_streams_are_held),
        cmocka_unit_test(nobody_sees_half_a_file),
        cmocka_unit_test(a_failed_write_leaves_the_old_file),
        cmocka_unit_test(refuses_what_is_no_file),
        cmocka_unit_test(a_stale_file_beside_is_no_matter),
        cmocka_unit_test(whose_fault_a_path_is),
        cmocka_unit_test(folders),
        cmocka_unit_test(paths),
    };
    char folder[] = "/tmp/sw_file.XXXXXX", command[64];
    if (mkdtemp(folder) == NULL || chdir(folder) != 0) {
        perror(folder);
        return 1;
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return chdir("/") != 0 || system(command) != 0 || failed != 0;
}
