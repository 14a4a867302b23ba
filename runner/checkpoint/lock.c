#include "runner/checkpoint/lock.h"

#include "core/base/clock.h"
#include "core/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { TEXT_BYTES = 1024, COUNT_DIGITS = 12, RENEWALS_UNTIL_STALE = 3, MOST_TRIES = 64 };
static const double default_renew_s = 30;

/* Holder of a lock. `pid_space`: the machine since its boot, and its pid namespace, in which a pid
 * is meaningful. */
struct record {
    char host[256], job[64], pid_space[128];
    int64_t pid, attempt;
    uint64_t start; /* start time of the process in kernel ticks; 0: unknown */
};

struct sw_lock {
    char *path, *aside, *taken; /* taken: name for a file taken away */
    char *takeover;             /* right to remove a dead holder's lock */
    struct record me;
    double renew_s;
    int handle; /* our file's, which only we write */
    off_t count_at;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    bool runs, ends; /* state of the thread; request to end */
    atomic_bool lost;
};

/* ---- Processes ---- */

/* Start time of a process; 0: none, or only remains: killed and freeing its memory, or blocked on a
 * disk. */
static uint64_t start_of(int64_t pid)
{
    enum { EXITING = 4 }; /* Linux's PF_EXITING */
    char path[64], line[1024], state = 'X';
    unsigned long long start = 0, flags = 0, pending = 0;
    snprintf(path, sizeof path, "/proc/%" PRId64 "/stat", pid);
    sw_file_first_line(path, line, sizeof line);
    const char *behind = strrchr(line, ')'); /* the process name may contain anything */
    if (behind == NULL || sscanf(behind + 1,
                                 " %c %*s %*s %*s %*s %*s %llu %*s %*s %*s %*s %*s %*s %*s %*s %*s "
                                 "%*s %*s %*s %llu %*s %*s %*s %*s %*s %*s %*s %*s %llu",
                                 &state, &flags, &start, &pending) != 4)
        return 0;
    const bool gone = state == 'Z' || state == 'X' || (flags & EXITING) != 0 ||
                      (pending & (1ULL << (SIGKILL - 1))) != 0;
    return gone ? 0 : start;
}

static void find_pid_space(char *out, size_t bytes)
{
    char boot[64], space[48];
    sw_file_first_line("/proc/sys/kernel/random/boot_id", boot, sizeof boot);
    const ssize_t length = readlink("/proc/self/ns/pid", space, sizeof space - 1);
    space[length > 0 ? length : 0] = '\0';
    snprintf(out, bytes, "%s %s", boot, space);
}

/* ---- The file ---- */

static int write_record(const struct record *r, char text[TEXT_BYTES])
{
    return snprintf(text, TEXT_BYTES,
                    "shardwright lock\nhost %s\nplace %s\npid %" PRId64 "\nstart %" PRIu64
                    "\njob %s\nattempt %" PRId64 "\nrenewals %0*d\n",
                    r->host, r->pid_space, r->pid, r->start, r->job, r->attempt, COUNT_DIGITS, 0);
}

static bool is_shown(const char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < 0x20 || (unsigned char)*text >= 0x7f)
            return false;
    return true;
}

/* Value of the line with `key`, truncated to `bytes`. */
static bool read_word(const char *text, const char *key, char *out, size_t bytes)
{
    const char *line = strstr(text, key);
    if (line == NULL)
        return false;
    line += strlen(key);
    snprintf(out, bytes, "%.*s", (int)strcspn(line, "\n"), line);
    return is_shown(out);
}

static bool read_record(const char *text, struct record *out)
{
    char number[3][24];
    *out = (struct record){{0}, {0}, {0}, 0, 0, 0};
    if (!read_word(text, "\nhost ", out->host, sizeof out->host) ||
        !read_word(text, "\nplace ", out->pid_space, sizeof out->pid_space) ||
        !read_word(text, "\njob ", out->job, sizeof out->job) ||
        !read_word(text, "\npid ", number[0], sizeof number[0]) ||
        !read_word(text, "\nstart ", number[1], sizeof number[1]) ||
        !read_word(text, "\nattempt ", number[2], sizeof number[2]))
        return false;
    out->pid = strtoll(number[0], NULL, 10);
    out->start = strtoull(number[1], NULL, 10);
    out->attempt = strtoll(number[2], NULL, 10);
    return out->pid > 0;
}

/* Reads a lock's text; -1 with errno. Opens it anew each time, so that NFS asks the server. */
static int read_text(const char *path, char text[TEXT_BYTES])
{
    const int handle = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (handle < 0)
        return -1;
    const ssize_t bytes = read(handle, text, TEXT_BYTES - 1);
    const int reason = errno;
    close(handle);
    text[bytes > 0 ? bytes : 0] = '\0';
    errno = reason;
    return bytes < 0 ? -1 : 0;
}

static int fail_to_write(const struct sw_lock *lock, struct sw_error *err)
{
    const int reason = errno;
    (void)sw_fail(err, SW_ENVIRONMENT, "cannot write '%s': %s", lock->path, strerror(reason));
    if (reason != EACCES && reason != EPERM && reason != EROFS)
        return -1;
    return sw_path_blame(err, reason,
                         "make the folder writable, or name another in the run file, as directory "
                         "or checkpoint.directory");
}

/* Writes our record to a temporary file, synced. */
static int write_aside(struct sw_lock *lock, struct sw_error *err)
{
    char text[TEXT_BYTES];
    const int bytes = write_record(&lock->me, text);
    (void)unlink(lock->aside); /* left by a dead process with this pid */
    lock->handle = open(lock->aside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (lock->handle < 0)
        return fail_to_write(lock, err);
    errno = EIO;
    if (write(lock->handle, text, (size_t)bytes) != bytes || fsync(lock->handle) != 0)
        return fail_to_write(lock, err);
    lock->count_at = bytes - 1 - COUNT_DIGITS;
    return 0;
}

/* Removes a file if it still reads as `text`. A newer one is put back: the same file, unnoticed by
 * its holder. */
static int take_away(const struct sw_lock *lock, const char *path, const char *text,
                     struct sw_error *err)
{
    char found[TEXT_BYTES];
    if (rename(path, lock->taken) != 0)
        return errno == ENOENT ? 0 : fail_to_write(lock, err);
    if (read_text(lock->taken, found) == 0 && strcmp(found, text) != 0)
        (void)link(lock->taken, path) /* another file may be there first: then it is theirs */;
    (void)unlink(lock->taken);
    return 0;
}

/* ---- Who may have it ---- */

enum judgement { IS_HELD, IS_DEAD, IS_EARLIER, IS_UNKNOWN };

static enum judgement judge(const struct record *me, const struct record *other)
{
    if (me->job[0] != '\0' && strcmp(me->job, other->job) == 0 && other->attempt < me->attempt)
        return IS_EARLIER;
    if (strcmp(me->host, other->host) != 0 || strcmp(me->pid_space, other->pid_space) != 0)
        return IS_UNKNOWN;
    if (kill((pid_t)other->pid, 0) != 0 && errno == ESRCH)
        return IS_DEAD;
    return other->start == 0 || other->start == start_of(other->pid) ? IS_HELD : IS_DEAD;
}

/* Watches an unknown lock for as long as its holder may sleep. *same: true if it did not change. */
static void watch(const struct sw_lock *lock, const char *text, bool *same)
{
    const double until = sw_clock_now() + RENEWALS_UNTIL_STALE * lock->renew_s;
    const double pause = lock->renew_s / 8 < 1 ? lock->renew_s / 8 : 1;
    const struct timespec sleep = {.tv_sec = (time_t)pause,
                                   .tv_nsec = (long)((pause - (double)(time_t)pause) * 1e9)};
    char now[TEXT_BYTES];
    *same = true;
    while (*same && sw_clock_now() < until) {
        (void)nanosleep(&sleep, NULL);
        *same = read_text(lock->path, now) == 0 && strcmp(now, text) == 0;
    }
}

/* Creates `path` with our record if no file has the name. link(2) is atomic, on NFS too; the link
 * count tells if it succeeded, since its reply may be lost. File systems without link use O_EXCL,
 * equally safe if local; *handle (NULL: not wanted) is then the new file's. False, without an
 * error: the name is taken. */
static bool put_in_place(const struct sw_lock *lock, const char *path, int *handle,
                         struct sw_error *err)
{
    struct stat info;
    if (link(lock->aside, path) == 0)
        return true;
    const int reason = errno;
    if (stat(lock->aside, &info) == 0 && info.st_nlink == 2)
        return true;
    if (reason == EPERM || reason == ENOTSUP || reason == ENOSYS || reason == EMLINK) {
        const int made = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (made >= 0) {
            char text[TEXT_BYTES];
            const int bytes = write_record(&lock->me, text);
            const bool written = write(made, text, (size_t)bytes) == bytes && fsync(made) == 0;
            if (!written)
                fail_to_write(lock, err);
            if (handle == NULL) {
                close(made);
            } else {
                close(*handle);
                *handle = made;
            }
            return written;
        }
    }
    errno = errno == EEXIST ? EEXIST : reason;
    if (errno != EEXIST)
        fail_to_write(lock, err);
    return false;
}

/* Waits while another process removes a dead holder's lock, an instant; it may itself have died. */
static void wait_for_takeover(const struct sw_lock *lock, int32_t tries)
{
    const struct timespec sleep = {.tv_nsec = 1000000L * (tries + 1)};
    char text[TEXT_BYTES];
    struct record other;
    if (read_text(lock->takeover, text) == 0) {
        const bool known = read_record(text, &other);
        const enum judgement found = known ? judge(&lock->me, &other) : IS_UNKNOWN;
        if (found == IS_DEAD || (found != IS_HELD && tries > MOST_TRIES / 2))
            (void)take_away(lock, lock->takeover, text, NULL);
    }
    (void)nanosleep(&sleep, NULL);
}

/* Removes a dead holder's lock that reads as `text`. One process at a time checks and removes: a
 * slow one could remove a lock that another has put there since. */
static int remove_dead(const struct sw_lock *lock, const char *text, int32_t tries,
                       struct sw_error *err)
{
    char now[TEXT_BYTES];
    struct sw_error why = {0};
    if (!put_in_place(lock, lock->takeover, NULL, &why)) {
        if (why.status != SW_OK)
            return sw_fail_as(err, &why);
        wait_for_takeover(lock, tries);
        return 0;
    }
    int status = 0;
    if (read_text(lock->path, now) == 0 && strcmp(now, text) == 0 && unlink(lock->path) != 0 &&
        errno != ENOENT)
        status = fail_to_write(lock, err);
    (void)unlink(lock->takeover);
    return status;
}

/* Formats "pid 17 on host n3 (job 42, attempt 1)". */
static void describe(const struct record *r, char *out, size_t bytes)
{
    snprintf(out, bytes, "pid %" PRId64 " on host %.100s (%s%s%sattempt %" PRId64 ")", r->pid,
             r->host, r->job[0] != '\0' ? "job " : "", r->job, r->job[0] != '\0' ? ", " : "",
             r->attempt);
}

/* Removes an existing lock if its holder is gone; -1 if not. */
static int push_aside(const struct sw_lock *lock, const char *folder, int32_t tries,
                      char note[SW_LOCK_NOTE_BYTES], struct sw_error *err)
{
    char text[TEXT_BYTES], who[320] = "another job";
    struct record other;
    if (read_text(lock->path, text) != 0)
        return errno == ENOENT ? 0 : fail_to_write(lock, err);
    const bool known = read_record(text, &other);
    if (known)
        describe(&other, who, sizeof who);
    enum judgement found = known ? judge(&lock->me, &other) : IS_UNKNOWN;
    bool same = true;
    if (found == IS_UNKNOWN) {
        watch(lock, text, &same);
        if (!same && access(lock->path, F_OK) != 0)
            return 0; /* released meanwhile */
    }
    if (found == IS_HELD || !same)
        return sw_fail(err, SW_ENVIRONMENT, "'%.300s' is in use by %s; wait for it, or end it",
                       folder, who);
    if (note != NULL && found == IS_EARLIER)
        snprintf(note, SW_LOCK_NOTE_BYTES,
                 "took '%.1000s' over from an earlier attempt of this job: %s", folder, who);
    else if (note != NULL && found == IS_DEAD)
        snprintf(note, SW_LOCK_NOTE_BYTES, "took '%.1000s' over from %s, which is gone", folder,
                 who);
    else if (note != NULL)
        snprintf(note, SW_LOCK_NOTE_BYTES,
                 "took '%.1000s' over from %s, which gave no sign for %g s", folder, who,
                 RENEWALS_UNTIL_STALE * lock->renew_s);
    return remove_dead(lock, text, tries, err);
}

/* ---- Renewing ---- */

/* True if the file is ours; also if it cannot be read. */
static bool is_ours(const struct sw_lock *lock)
{
    struct stat own, there;
    const int handle = open(lock->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (handle < 0)
        return true;
    const bool ours = fstat(handle, &there) != 0 || fstat(lock->handle, &own) != 0 ||
                      (own.st_ino == there.st_ino && own.st_dev == there.st_dev);
    close(handle);
    return ours;
}

static void renew(const struct sw_lock *lock, int64_t count)
{
    char digits[32];
    snprintf(digits, sizeof digits, "%0*" PRId64, COUNT_DIGITS, count);
    if (pwrite(lock->handle, digits, COUNT_DIGITS, lock->count_at) == COUNT_DIGITS)
        (void)fsync(lock->handle); /* retried at the next renewal */
}

static void *keep_renewing(void *context)
{
    struct sw_lock *lock = context;
    pthread_mutex_lock(&lock->mutex);
    for (int64_t count = 1; !lock->ends && !atomic_load(&lock->lost); count++) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        const double at = (double)until.tv_nsec * 1e-9 + lock->renew_s;
        until.tv_sec += (time_t)at;
        until.tv_nsec = (long)((at - (double)(time_t)at) * 1e9);
        while (!lock->ends &&
               pthread_cond_timedwait(&lock->wake, &lock->mutex, &until) != ETIMEDOUT)
            ;
        if (lock->ends)
            break;
        pthread_mutex_unlock(&lock->mutex);
        renew(lock, count);
        if (!is_ours(lock))
            atomic_store(&lock->lost, true);
        pthread_mutex_lock(&lock->mutex);
    }
    pthread_mutex_unlock(&lock->mutex);
    return NULL;
}

/* Starts a thread that takes none of the process's signals. */
static int start_thread(struct sw_lock *lock, struct sw_error *err)
{
    pthread_condattr_t clock;
    sigset_t all, before;
    sigfillset(&all);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_destroy(&lock->wake);
    pthread_cond_init(&lock->wake, &clock);
    pthread_condattr_destroy(&clock);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failed = pthread_create(&lock->thread, NULL, keep_renewing, lock);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed != 0)
        return sw_fail(err, SW_ENVIRONMENT, "cannot start the thread that renews '%s': %s",
                       lock->path, strerror(failed));
    lock->runs = true;
    return 0;
}

/* ---- Taking and releasing ---- */

static void destroy(struct sw_lock *lock)
{
    if (lock->handle >= 0)
        close(lock->handle);
    free(lock->path);
    free(lock->aside);
    free(lock->taken);
    free(lock->takeover);
    pthread_mutex_destroy(&lock->mutex);
    pthread_cond_destroy(&lock->wake);
    free(lock);
}

static struct sw_lock *create(const char *folder, const struct sw_lock_owner *me, double renew_s)
{
    char name[320];
    struct sw_lock *lock = calloc(1, sizeof *lock);
    if (lock == NULL)
        return NULL;
    lock->handle = -1;
    lock->renew_s = renew_s > 0 ? renew_s : default_renew_s;
    pthread_mutex_init(&lock->mutex, NULL);
    pthread_cond_init(&lock->wake, NULL);
    atomic_init(&lock->lost, false);
    snprintf(lock->me.host, sizeof lock->me.host, "%s", me->host);
    snprintf(lock->me.job, sizeof lock->me.job, "%s", me->job);
    find_pid_space(lock->me.pid_space, sizeof lock->me.pid_space);
    lock->me.pid = me->pid;
    lock->me.attempt = me->attempt;
    lock->me.start = start_of(me->pid);
    lock->path = sw_path_join(folder, "lock");
    snprintf(name, sizeof name, ".lock.%.200s.%" PRId64, me->host, me->pid);
    lock->aside = sw_path_join(folder, name);
    snprintf(name, sizeof name, ".lock.%.200s.%" PRId64 ".taken", me->host, me->pid);
    lock->taken = sw_path_join(folder, name);
    lock->takeover = sw_path_join(folder, ".lock.takeover");
    if (lock->path != NULL && lock->aside != NULL && lock->taken != NULL && lock->takeover != NULL)
        return lock;
    destroy(lock);
    return NULL;
}

int sw_lock_take(const char *folder, const struct sw_lock_owner *me, double renew_s,
                 struct sw_lock **out, char note[SW_LOCK_NOTE_BYTES], struct sw_error *err)
{
    struct sw_error why = {0};
    int status = 0;
    bool ours = false;
    *out = NULL;
    if (note != NULL)
        note[0] = '\0';
    if (sw_file_make_folder(folder, err) != 0)
        return -1;
    struct sw_lock *lock = create(folder, me, renew_s);
    if (lock == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the lock of '%.60s'", folder);
    status = write_aside(lock, &why);
    for (int32_t tries = 0; status == 0 && !ours; tries++) {
        ours = put_in_place(lock, lock->path, &lock->handle, &why);
        if (!ours && why.status == SW_OK && tries == MOST_TRIES)
            sw_fail(&why, SW_ENVIRONMENT, "'%.300s' is wanted by many jobs; try again", folder);
        if (!ours)
            status = why.status != SW_OK ? -1 : push_aside(lock, folder, tries, note, &why);
    }
    (void)unlink(lock->aside);
    if (status == 0)
        status = start_thread(lock, &why);
    if (status == 0) {
        *out = lock;
        return 0;
    }
    if (ours)
        (void)unlink(lock->path);
    if (note != NULL)
        note[0] = '\0';
    destroy(lock);
    return sw_fail_as(err, &why);
}

bool sw_lock_held(const struct sw_lock *lock)
{
    return !atomic_load(&lock->lost) && is_ours(lock);
}

void sw_lock_release(struct sw_lock *lock)
{
    char text[TEXT_BYTES];
    if (lock == NULL)
        return;
    pthread_mutex_lock(&lock->mutex);
    lock->ends = true;
    pthread_cond_signal(&lock->wake);
    pthread_mutex_unlock(&lock->mutex);
    if (lock->runs)
        pthread_join(lock->thread, NULL);
    if (sw_lock_held(lock) && read_text(lock->path, text) == 0)
        (void)take_away(lock, lock->path, text, NULL);
    destroy(lock);
}
