#include "tests/support/fault_shim.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Calls the kernel directly, to avoid recursion. The state is per process: it represents the
 * process's disk. */
enum mode { PASS, FAIL, FAIL_ON, SHORT, TORN, BEFORE, AFTER };
static struct {
    char under[PATH_MAX], log[PATH_MAX];
    enum mode mode;
    long at;
    int reason;
    bool skips_sync;
} shim;
static atomic_int ready;
static atomic_long count;

static bool is_my_rank(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID"};
    const char *rank = getenv("SHIM_RANK");
    for (size_t i = 0; rank != NULL && i < sizeof names / sizeof names[0]; i++) {
        const char *mine = getenv(names[i]);
        if (mine != NULL)
            return strcmp(mine, rank) == 0;
    }
    return rank == NULL;
}

static void copy(char *out, const char *name)
{
    const char *value = getenv(name);
    snprintf(out, PATH_MAX, "%s", value != NULL ? value : "");
}

void fault_shim_restart(void)
{
    static const char *const modes[] = {"", "fail", "fail-on", "short", "torn", "before", "after"};
    const char *at = getenv("SHIM_AT"), *mode = getenv("SHIM_MODE"), *reason = getenv("SHIM_ERRNO"),
               *sync = getenv("SHIM_SYNC");
    copy(shim.under, "SHIM_UNDER");
    copy(shim.log, "SHIM_LOG");
    if (!is_my_rank())
        shim.under[0] = '\0';
    shim.at = at != NULL ? atol(at) : 0;
    shim.mode = PASS;
    for (int i = 1; mode != NULL && i < (int)(sizeof modes / sizeof modes[0]); i++)
        if (strcmp(mode, modes[i]) == 0)
            shim.mode = (enum mode)i;
    shim.reason = reason != NULL && strcmp(reason, "ENOSPC") == 0 ? ENOSPC : EIO;
    shim.skips_sync = sync != NULL && strcmp(sync, "skip") == 0;
    atomic_store(&count, 0);
    atomic_store(&ready, 1);
}

static void die(void)
{
    (void)syscall(SYS_kill, (long)getpid(), (long)SIGKILL);
    for (;;)
        (void)pause();
}

static void note(long number, const char *name, const char *path)
{
    char line[PATH_MAX + 64];
    const int bytes = snprintf(line, sizeof line, "%ld %s %s\n", number, name, path);
    const long handle =
        syscall(SYS_openat, AT_FDCWD, shim.log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (handle < 0)
        return;
    if (syscall(SYS_write, handle, line, (size_t)bytes) < 0)
        die(); /* a log with holes is worse than none */
    (void)syscall(SYS_close, handle);
}

/* Mode for this operation on `path`. Does not return if the process must die first. */
static enum mode decide(const char *name, const char *path)
{
    const size_t length = strlen(shim.under);
    if (strncmp(path, shim.under, length) != 0 || (path[length] != '/' && path[length] != '\0'))
        return PASS;
    const long number = atomic_fetch_add(&count, 1) + 1;
    if (shim.log[0] != '\0')
        note(number, name, path);
    if (number != shim.at && (shim.mode != FAIL_ON || number < shim.at))
        return PASS;
    if (shim.mode == BEFORE)
        die();
    return shim.mode == FAIL_ON ? FAIL : shim.mode;
}

static bool sleeps(void)
{
    if (!atomic_load(&ready))
        fault_shim_restart();
    return shim.under[0] == '\0';
}

static enum mode at_handle(const char *name, int handle)
{
    char link[64], path[PATH_MAX];
    if (sleeps())
        return PASS;
    snprintf(link, sizeof link, "/proc/self/fd/%d", handle);
    const long bytes = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1);
    path[bytes > 0 ? bytes : 0] = '\0';
    return decide(name, path);
}

static enum mode at_path(const char *name, int folder, const char *path)
{
    char link[64], full[2 * PATH_MAX];
    if (sleeps())
        return PASS;
    if (path[0] == '/') {
        snprintf(full, sizeof full, "%s", path);
        return decide(name, full);
    }
    snprintf(link, sizeof link, folder == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", folder);
    long bytes = syscall(SYS_readlinkat, AT_FDCWD, link, full, (size_t)PATH_MAX - 1);
    bytes = bytes > 0 ? bytes : 0;
    snprintf(full + bytes, sizeof full - (size_t)bytes, "/%s", path);
    return decide(name, full);
}

static long fail(void)
{
    errno = shim.reason;
    return -1;
}

static long finish(enum mode mode, long result)
{
    if (mode == AFTER)
        die();
    return result;
}

/* ---- Disks ---- */

int statvfs(const char *path, struct statvfs *out)
{
    const char *bytes = getenv("SHIM_FREE");
    const long folder = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0L);
    if (folder < 0)
        return -1;
    const int status = fstatvfs((int)folder, out);
    (void)syscall(SYS_close, folder);
    if (status == 0 && bytes != NULL)
        out->f_bavail = (fsblkcnt_t)(strtoull(bytes, NULL, 10) / out->f_frsize);
    return status;
}

/* ---- Files ---- */

static int open_at(int folder, const char *path, int flags, mode_t mode)
{
    const enum mode what = at_path("open", folder, path);
    if (what == FAIL)
        return (int)fail();
    return (int)finish(what, syscall(SYS_openat, folder, path, flags, (long)mode));
}

#define MODE(flags, mode)                                                                          \
    mode_t mode = 0;                                                                               \
    if (((flags)&O_CREAT) != 0) {                                                                  \
        va_list args;                                                                              \
        va_start(args, flags);                                                                     \
        mode = (mode_t)va_arg(args, int);                                                          \
        va_end(args);                                                                              \
    }

int open(const char *path, int flags, ...)
{
    MODE(flags, mode)
    return open_at(AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    MODE(flags, mode)
    return open_at(AT_FDCWD, path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...)
{
    MODE(flags, mode)
    return open_at(folder, path, flags, mode);
}

int openat64(int folder, const char *path, int flags, ...)
{
    MODE(flags, mode)
    return open_at(folder, path, flags, mode);
}

int creat(const char *path, mode_t mode)
{
    return open_at(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, mode);
}

/* Number of bytes that a write writes; -1: it fails. */
static ssize_t shorten(enum mode what, size_t bytes)
{
    if (what == FAIL)
        return fail();
    return what == SHORT || what == TORN ? (ssize_t)((bytes + 1) / 2) : (ssize_t)bytes;
}

ssize_t write(int handle, const void *data, size_t bytes)
{
    const enum mode what = at_handle("write", handle);
    const ssize_t length = shorten(what, bytes);
    return length < 0 ? length
                      : finish(what == TORN ? AFTER : what,
                               syscall(SYS_write, handle, data, (size_t)length));
}

ssize_t pwrite(int handle, const void *data, size_t bytes, off_t at)
{
    const enum mode what = at_handle("pwrite", handle);
    const ssize_t length = shorten(what, bytes);
    return length < 0 ? length
                      : finish(what == TORN ? AFTER : what,
                               syscall(SYS_pwrite64, handle, data, (size_t)length, at));
}

ssize_t pwrite64(int handle, const void *data, size_t bytes, off_t at)
{
    return pwrite(handle, data, bytes, at);
}

static int sync_file(const char *name, long number, int handle)
{
    const enum mode what = at_handle(name, handle);
    if (what == FAIL)
        return (int)fail();
    return (int)finish(what, shim.skips_sync ? 0 : syscall(number, handle));
}

int fsync(int handle)
{
    return sync_file("fsync", SYS_fsync, handle);
}

int fdatasync(int handle)
{
    return sync_file("fdatasync", SYS_fdatasync, handle);
}

int ftruncate(int handle, off_t bytes)
{
    const enum mode what = at_handle("ftruncate", handle);
    return (int)(what == FAIL ? fail() : finish(what, syscall(SYS_ftruncate, handle, bytes)));
}

int ftruncate64(int handle, off_t bytes)
{
    return ftruncate(handle, bytes);
}

/* A failing close has closed the file, as in Linux. */
int close(int handle)
{
    const enum mode what = at_handle("close", handle);
    const long result = syscall(SYS_close, handle);
    return (int)(what == FAIL ? fail() : finish(what, result));
}

/* ---- Names ---- */

int renameat(int from_folder, const char *from, int to_folder, const char *to)
{
    const enum mode what = at_path("rename", to_folder, to);
    return (int)(what == FAIL
                     ? fail()
                     : finish(what, syscall(SYS_renameat2, from_folder, from, to_folder, to, 0)));
}

int rename(const char *from, const char *to)
{
    return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags)
{
    const enum mode what = at_path("link", to_folder, to);
    return (int)(what == FAIL
                     ? fail()
                     : finish(what, syscall(SYS_linkat, from_folder, from, to_folder, to, flags)));
}

int link(const char *from, const char *to)
{
    return linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
}

int symlinkat(const char *target, int folder, const char *path)
{
    const enum mode what = at_path("symlink", folder, path);
    return (int)(what == FAIL ? fail()
                              : finish(what, syscall(SYS_symlinkat, target, folder, path)));
}

int symlink(const char *target, const char *path)
{
    return symlinkat(target, AT_FDCWD, path);
}

int unlinkat(int folder, const char *path, int flags)
{
    const enum mode what = at_path((flags & AT_REMOVEDIR) != 0 ? "rmdir" : "unlink", folder, path);
    return (int)(what == FAIL ? fail() : finish(what, syscall(SYS_unlinkat, folder, path, flags)));
}

int unlink(const char *path)
{
    return unlinkat(AT_FDCWD, path, 0);
}

int rmdir(const char *path)
{
    return unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

int mkdirat(int folder, const char *path, mode_t mode)
{
    const enum mode what = at_path("mkdir", folder, path);
    return (int)(what == FAIL ? fail() : finish(what, syscall(SYS_mkdirat, folder, path, mode)));
}

int mkdir(const char *path, mode_t mode)
{
    return mkdirat(AT_FDCWD, path, mode);
}
