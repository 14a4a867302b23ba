/* The lock of a run's folder: who gets it, from whom it is taken over, and how its holder learns.
 *
 *   test_lock FOLDER */
#include "runner/checkpoint/lock.h"

#include "core/base/clock.h"
#include "core/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

static char folder[2048];
static size_t holder_bytes; /* that one in another process has in memory */

static struct sw_lock_owner owner(const char *job, int64_t attempt)
{
    struct sw_lock_owner me = {.host = "n3", .pid = getpid(), .attempt = attempt};
    snprintf(me.job, sizeof me.job, "%s", job);
    return me;
}

static char *lock_text(void)
{
    char path[2100], *text = NULL;
    size_t bytes;
    snprintf(path, sizeof path, "%s/lock", folder);
    return sw_file_read(path, true, 4096, &text, &bytes, NULL) == 0 ? text : NULL;
}

/* Files here, hidden ones too. */
static int files_here(void)
{
    int count = 0;
    DIR *listing = opendir(folder);
    assert_non_null(listing);
    for (struct dirent *entry; (entry = readdir(listing)) != NULL;)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(listing);
    return count;
}

static void write_lock(const char *text)
{
    char path[2100];
    snprintf(path, sizeof path, "%s/lock", folder);
    assert_int_equal(sw_file_make_folder(folder, NULL), 0);
    assert_int_equal(sw_file_write(path, text, strlen(text), 0666, NULL), 0);
}

/* A line of the lock that is there gets another value. */
static void change_line(const char *key, const char *value)
{
    char *text = lock_text(), changed[2048];
    assert_non_null(text);
    char *line = strstr(text, key);
    assert_non_null(line);
    snprintf(changed, sizeof changed, "%.*s%s %s%s", (int)(line - text), text, key, value,
             line + strcspn(line, "\n"));
    write_lock(changed);
    free(text);
}

static void pause_s(double seconds)
{
    const struct timespec sleep = {.tv_sec = (time_t)seconds,
                                   .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    (void)nanosleep(&sleep, NULL);
}

/* What another process holds until it gets a byte (or is killed). */
struct holder {
    pid_t pid;
    int to, from;
};

static struct holder hold_elsewhere(const char *job, int64_t attempt, double renew_s)
{
    int to[2], from[2];
    char byte;
    assert_int_equal(pipe(to), 0);
    assert_int_equal(pipe(from), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct sw_lock *lock;
        const struct sw_lock_owner me = owner(job, attempt);
        close(to[1]);
        char *memory = holder_bytes > 0 ? malloc(holder_bytes) : NULL;
        if (memory != NULL)
            memset(memory, 1, holder_bytes);
        const int status = sw_lock_take(folder, &me, renew_s, &lock, NULL, NULL);
        byte = status == 0 ? 'y' : 'n';
        if (write(from[1], &byte, 1) != 1 || status != 0)
            _exit(1);
        while (read(to[0], &byte, 1) == 1 && byte == '?') { /* asked whether it is still its own */
            byte = sw_lock_held(lock) ? 'y' : 'n';
            if (write(from[1], &byte, 1) != 1)
                _exit(1);
        }
        sw_lock_release(lock);
        free(memory);
        _exit(0);
    }
    close(to[0]);
    close(from[1]);
    assert_int_equal(read(from[0], &byte, 1), 1);
    assert_int_equal(byte, 'y');
    return (struct holder){child, to[1], from[0]};
}

static bool still_holds(const struct holder *holder)
{
    char byte = '?';
    assert_int_equal(write(holder->to, &byte, 1), 1);
    assert_int_equal(read(holder->from, &byte, 1), 1);
    return byte == 'y';
}

static void let_go(struct holder *holder, int number)
{
    int status;
    if (number != 0)
        kill(holder->pid, number);
    close(holder->to);
    close(holder->from);
    assert_int_equal(waitpid(holder->pid, &status, 0), holder->pid);
    assert_int_equal(status, number);
}

static void take(const struct sw_lock_owner *me, double renew_s, struct sw_lock **out,
                 const char *expected_note)
{
    char note[SW_LOCK_NOTE_BYTES];
    struct sw_error err = {0};
    if (sw_lock_take(folder, me, renew_s, out, note, &err) != 0)
        fail_msg("%s", err.message);
    assert_string_equal(note, expected_note);
    assert_true(sw_lock_held(*out));
}

static void refused(const struct sw_lock_owner *me, double renew_s, const char *message)
{
    char note[SW_LOCK_NOTE_BYTES];
    struct sw_lock *lock;
    struct sw_error err = {0};
    assert_int_equal(sw_lock_take(folder, me, renew_s, &lock, note, &err), -1);
    assert_null(lock);
    assert_int_equal(err.status, SW_ENVIRONMENT);
    assert_string_equal(err.message, message);
    assert_string_equal(note, "");
}

static int start_anew(void **state)
{
    (void)state;
    char command[2100];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

/* ---- Tests ---- */

static void one_at_a_time(void **state)
{
    (void)state;
    char expected[4096];
    struct sw_lock *lock;
    const struct sw_lock_owner me = owner("43", 1);
    struct holder other = hold_elsewhere("42", 1, 0);
    snprintf(expected, sizeof expected,
             "'%s' is in use by pid %d on host n3 (job 42, attempt 1); wait for it, or end it",
             folder, (int)other.pid);
    refused(&me, 0, expected);
    assert_true(still_holds(&other));
    assert_int_equal(files_here(), 1);
    let_go(&other, 0);
    assert_int_equal(files_here(), 0);
    take(&me, 0, &lock, "");
    assert_int_equal(files_here(), 1);
    sw_lock_release(lock);
    assert_int_equal(files_here(), 0);
    sw_lock_release(NULL);

    other = hold_elsewhere("", 2, 0);
    const struct sw_lock_owner nobody = owner("", 3); /* no job is no job of another attempt */
    snprintf(expected, sizeof expected,
             "'%s' is in use by pid %d on host n3 (attempt 2); wait for it, or end it", folder,
             (int)other.pid);
    refused(&nobody, 0, expected);
    let_go(&other, 0);
}

static void after_a_kill(void **state)
{
    (void)state;
    char expected[4096];
    struct sw_lock *lock;
    const struct sw_lock_owner me = owner("43", 1);
    struct holder other = hold_elsewhere("42", 1, 0);
    let_go(&other, SIGKILL);
    snprintf(expected, sizeof expected,
             "took '%s' over from pid %d on host n3 (job 42, attempt 1), which is gone", folder,
             (int)other.pid);
    take(&me, 0, &lock, expected);
    sw_lock_release(lock);
    assert_int_equal(files_here(), 0);
}

/* What is left of a process that nobody waited for holds nothing. */
static void from_a_zombie(void **state)
{
    (void)state;
    int status;
    struct sw_lock *lock;
    char expected[4096];
    const struct sw_lock_owner me = owner("", 1);
    struct holder other = hold_elsewhere("", 1, 0);
    siginfo_t info;
    kill(other.pid, SIGKILL);
    assert_int_equal(waitid(P_PID, (id_t)other.pid, &info, WEXITED | WNOWAIT), 0);
    snprintf(expected, sizeof expected,
             "took '%s' over from pid %d on host n3 (attempt 1), which is gone", folder,
             (int)other.pid);
    take(&me, 0, &lock, expected);
    sw_lock_release(lock);
    close(other.to);
    close(other.from);
    assert_int_equal(waitpid(other.pid, &status, 0), other.pid);
}

/* A process that was killed may take long to end: in a call that waits for a disk, or giving back
 * its memory. It holds nothing any more. */
static void from_a_dying_one(void **state)
{
    (void)state;
    holder_bytes = (size_t)256 << 20;
    for (int i = 0; i < 4; i++) {
        int status;
        struct sw_lock *lock;
        char expected[4096];
        const struct sw_lock_owner me = owner("", 1);
        struct holder other = hold_elsewhere("", 1, 0);
        kill(other.pid, SIGKILL);
        snprintf(expected, sizeof expected,
                 "took '%s' over from pid %d on host n3 (attempt 1), which is gone", folder,
                 (int)other.pid);
        take(&me, 0, &lock, expected);
        sw_lock_release(lock);
        close(other.to);
        close(other.from);
        assert_int_equal(waitpid(other.pid, &status, 0), other.pid);
    }
    holder_bytes = 0;
}

/* The number of a dead process is another's now: it was started at another time. */
static void a_pid_comes_again(void **state)
{
    (void)state;
    char expected[4096];
    struct sw_lock *lock;
    const struct sw_lock_owner me = owner("43", 1);
    struct holder other = hold_elsewhere("42", 1, 0);
    change_line("\nstart", "17");
    snprintf(expected, sizeof expected,
             "took '%s' over from pid %d on host n3 (job 42, attempt 1), which is gone", folder,
             (int)other.pid);
    take(&me, 0, &lock, expected);
    sw_lock_release(lock);
    let_go(&other, 0);
}

static void from_an_earlier_attempt(void **state)
{
    (void)state;
    char expected[4096];
    struct sw_lock *lock;
    struct holder other = hold_elsewhere("42", 2, 0.05);
    const struct sw_lock_owner earlier = owner("42", 1), same = owner("42", 2),
                               later = owner("42", 3);
    snprintf(expected, sizeof expected,
             "'%s' is in use by pid %d on host n3 (job 42, attempt 2); wait for it, or end it",
             folder, (int)other.pid);
    refused(&earlier, 0, expected);
    refused(&same, 0, expected);
    assert_true(still_holds(&other));
    snprintf(expected, sizeof expected,
             "took '%s' over from an earlier attempt of this job: pid %d on host n3 (job 42, "
             "attempt 2)",
             folder, (int)other.pid);
    take(&later, 0, &lock, expected);
    assert_false(still_holds(&other));
    let_go(&other, 0); /* what it has lost it does not release */
    assert_true(sw_lock_held(lock));
    sw_lock_release(lock);
    assert_int_equal(files_here(), 0);
}

/* Of another machine only the renewals can be seen. */
static void from_another_host(void **state)
{
    (void)state;
    char expected[4096];
    struct sw_lock *lock;
    struct sw_lock_owner me = owner("43", 1);
    struct holder other = hold_elsewhere("42", 1, 0.05);
    snprintf(me.host, sizeof me.host, "n4");
    snprintf(expected, sizeof expected,
             "'%s' is in use by pid %d on host n3 (job 42, attempt 1); wait for it, or end it",
             folder, (int)other.pid);
    refused(&me, 20, expected); /* as soon as it is renewed, not after a minute */
    assert_true(still_holds(&other));
    int stopped;
    kill(other.pid, SIGSTOP);
    assert_int_equal(waitpid(other.pid, &stopped, WUNTRACED), other.pid); /* all its threads */
    const double from = sw_clock_now();
    snprintf(expected, sizeof expected,
             "took '%s' over from pid %d on host n3 (job 42, attempt 1), which gave no sign for "
             "0.6 s",
             folder, (int)other.pid);
    take(&me, 0.2, &lock, expected);
    assert_true(sw_clock_now() - from >= 0.6);
    kill(other.pid, SIGCONT); /* it was thought dead, and wakes up */
    pause_s(0.2);
    assert_false(still_holds(&other));
    assert_true(sw_lock_held(lock));
    let_go(&other, 0);
    assert_true(sw_lock_held(lock));
    sw_lock_release(lock);
    assert_int_equal(files_here(), 0);
}

static void from_a_broken_file(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "shardwright lock\n", "\nhost \x1b[2J\nplace \njob \n",
                                        "\nhost a\nplace b\njob c\npid -1\nstart 0\nattempt 1\n"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char expected[4096];
        struct sw_lock *lock;
        const struct sw_lock_owner me = owner("", 1);
        write_lock(texts[i]);
        snprintf(expected, sizeof expected,
                 "took '%s' over from another job, which gave no sign for 0.06 s", folder);
        take(&me, 0.02, &lock, expected);
        sw_lock_release(lock);
        assert_int_equal(files_here(), 0);
    }
}

static void it_is_renewed(void **state)
{
    (void)state;
    struct sw_lock *lock;
    const struct sw_lock_owner me = owner("42", 1);
    take(&me, 0.02, &lock, "");
    char *first = lock_text(), *now = NULL;
    assert_non_null(first);
    assert_non_null(strstr(first, "\nhost n3\nplace "));
    assert_non_null(strstr(first, "\njob 42\nattempt 1\nrenewals 0000000000"));
    for (int i = 0; i < 500; i++) {
        free(now);
        now = lock_text();
        if (now != NULL && strcmp(first, now) != 0)
            break;
        pause_s(0.02);
    }
    assert_string_not_equal(first, now);
    assert_int_equal(strlen(first), strlen(now)); /* in place */
    free(first);
    free(now);
    sw_lock_release(lock);
}

/* Many want it at once: one gets it. */
static void a_crowd(void **state)
{
    (void)state;
    enum { CROWD = 12 };
    pid_t child[CROWD];
    int start[2], end[2], winners = 0;
    char byte = 0;
    alarm(120); /* with two winners it would wait for ever */
    for (int round = 0; round < 20; round++) {
        struct holder dead = hold_elsewhere("42", 1, 0); /* to be taken over by all of them */
        let_go(&dead, SIGKILL);
        assert_int_equal(pipe(start), 0);
        assert_int_equal(pipe(end), 0);
        for (int i = 0; i < CROWD; i++) {
            child[i] = fork();
            assert_true(child[i] >= 0);
            if (child[i] == 0) {
                struct sw_lock *lock;
                const struct sw_lock_owner me = owner("", 1);
                close(start[1]);
                close(end[1]);
                if (read(start[0], &byte, 1) != 0)
                    _exit(2);
                const int status = sw_lock_take(folder, &me, 0, &lock, NULL, NULL);
                if (status == 0 && read(end[0], &byte, 1) == 0) { /* all have tried */
                    const bool mine = sw_lock_held(lock);
                    sw_lock_release(lock);
                    _exit(mine ? 0 : 1);
                }
                _exit(1);
            }
        }
        close(start[1]);
        int status, waited = 0;
        winners = 0;
        while (waited < CROWD - 1) {
            assert_true(waitpid(-1, &status, 0) > 0);
            winners += status == 0;
            waited++;
        }
        close(end[1]);
        assert_true(waitpid(-1, &status, 0) > 0);
        winners += status == 0;
        assert_int_equal(winners, 1);
        assert_int_equal(files_here(), 0);
        close(start[0]);
        close(end[0]);
    }
    alarm(0);
}

/* While one process removes the lock of one that is gone, no other does: it would remove the next
 * one's. */
static void one_takeover_at_a_time(void **state)
{
    (void)state;
    char from[2100], to[2100], expected[2300], *text;
    size_t bytes;
    struct sw_lock *lock;
    const struct sw_lock_owner me = owner("", 1);
    snprintf(from, sizeof from, "%s/lock", folder);
    snprintf(to, sizeof to, "%s/.lock.takeover", folder);
    assert_int_equal(sw_lock_take(folder, &me, 0, &lock, NULL, NULL), 0);
    assert_int_equal(sw_file_read(from, true, 4096, &text, &bytes, NULL), 0);
    sw_lock_release(lock);
    struct holder dead = hold_elsewhere("42", 1, 0);
    let_go(&dead, SIGKILL);
    assert_int_equal(sw_file_write(to, text, bytes, 0666, NULL), 0); /* of this process */
    snprintf(expected, sizeof expected, "'%.300s' is wanted by many jobs; try again", folder);
    refused(&me, 0, expected);
    assert_int_equal(files_here(), 2);
    assert_int_equal(unlink(to), 0);
    assert_int_equal(sw_lock_take(folder, &me, 0, &lock, NULL, NULL), 0);
    sw_lock_release(lock);
    free(text);
}

/* A process died while it removed the lock of one that was gone. */
static void from_a_cut_off_takeover(void **state)
{
    (void)state;
    char from[2100], to[2100], *text;
    size_t bytes;
    struct sw_lock *lock;
    struct holder dead = hold_elsewhere("42", 1, 0);
    let_go(&dead, SIGKILL);
    snprintf(from, sizeof from, "%s/lock", folder);
    snprintf(to, sizeof to, "%s/.lock.takeover", folder);
    assert_int_equal(sw_file_read(from, true, 4096, &text, &bytes, NULL), 0);
    assert_int_equal(sw_file_write(to, text, bytes, 0666, NULL), 0);
    const struct sw_lock_owner me = owner("", 1);
    assert_int_equal(sw_lock_take(folder, &me, 0, &lock, NULL, NULL), 0);
    assert_true(sw_lock_held(lock));
    assert_int_equal(files_here(), 1);
    sw_lock_release(lock);
    /* nothing is known of it */
    struct holder gone = hold_elsewhere("42", 1, 0);
    let_go(&gone, SIGKILL);
    assert_int_equal(sw_file_write(to, "?", 1, 0666, NULL), 0);
    assert_int_equal(sw_lock_take(folder, &me, 0, &lock, NULL, NULL), 0);
    sw_lock_release(lock);
    assert_int_equal(files_here(), 0);
    free(text);
}

static void cannot_be_written(void **state)
{
    (void)state;
    char path[2100], expected[4096];
    const struct sw_lock_owner me = owner("", 1);
    snprintf(path, sizeof path, "%s/lock/inside", folder);
    assert_int_equal(sw_file_make_folder(path, NULL), 0);
    snprintf(expected, sizeof expected, "cannot write '%s/lock': Is a directory", folder);
    refused(&me, 0, expected);
    assert_int_equal(files_here(), 1);
    start_anew(NULL);
    assert_int_equal(sw_file_write(folder, "", 0, 0666, NULL), 0);
    snprintf(expected, sizeof expected, "'%s' is not a folder", folder);
    refused(&me, 0, expected);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(one_at_a_time, start_anew),
        cmocka_unit_test_setup(after_a_kill, start_anew),
        cmocka_unit_test_setup(from_a_zombie, start_anew),
        cmocka_unit_test_setup(from_a_dying_one, start_anew),
        cmocka_unit_test_setup(a_pid_comes_again, start_anew),
        cmocka_unit_test_setup(from_an_earlier_attempt, start_anew),
        cmocka_unit_test_setup(from_another_host, start_anew),
        cmocka_unit_test_setup(from_a_broken_file, start_anew),
        cmocka_unit_test_setup(it_is_renewed, start_anew),
        cmocka_unit_test_setup(a_crowd, start_anew),
        cmocka_unit_test_setup(one_takeover_at_a_time, start_anew),
        cmocka_unit_test_setup(from_a_cut_off_takeover, start_anew),
        cmocka_unit_test_setup(cannot_be_written, start_anew),
    };
    if (argc != 2)
        return 2;
    snprintf(folder, sizeof folder, "%s/l", argv[1]); /* short: messages cut long ones */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
