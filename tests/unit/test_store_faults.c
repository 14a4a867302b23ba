/* A series of saves with a fault at every file operation of it, and kills at every operation of
 * what comes after a kill: there is always a whole checkpoint, `latest` names one, and nothing
 * stays behind.
 *
 *   test_store_faults FOLDER EACH     at each EACH-th operation */
#include "core/checkpoint/store_internal.h"
#include "tests/support/fault_shim.h"
#include "tests/unit/store_support.h"

#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <cmocka.h>

enum { MOST_OPERATIONS = 4000, KEEP = 2 };

static char scratch[2048], run[2100], log_path[2100];

/* What is saved, in order: the number in the list is the generation. The last but one replaces. */
static const int64_t steps[] = {10, 20, 30, 30, 40};
enum { SAVES = sizeof steps / sizeof steps[0], LATER_STEP = 50, LATER_GENERATION = 77 };

/* How far a child came. */
static struct progress {
    int32_t begun, done; /* done: the last that succeeded, and all begun before it */
} * progress;

/* ---- One child ---- */

static void set_fault(const char *mode, long at, const char *reason)
{
    char number[24];
    snprintf(number, sizeof number, "%ld", at);
    setenv("SHIM_UNDER", scratch, 1);
    setenv("SHIM_SYNC", "skip", 1);
    setenv("SHIM_MODE", mode, 1);
    setenv("SHIM_AT", number, 1);
    setenv("SHIM_ERRNO", reason, 1);
    fault_shim_restart();
}

static void save_all(void)
{
    for (int32_t i = 0; i < SAVES; i++) {
        progress->begun = i + 1;
        if (small_save(run, steps[i], i, KEEP, 0, NULL, NULL) == 0)
            progress->done = i + 1;
    }
}

static void clean_up(void)
{
    if (sw_store_clean(run, NULL) != 0)
        _exit(1);
}

/* Runs it in a child, with a fault; the wait status. */
static int in_child(void (*what)(void), const char *mode, long at, const char *reason)
{
    int status;
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        set_fault(mode, at, reason);
        what();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

/* ---- What must hold ---- */

struct found {
    int32_t hidden, steps;
};
/* Counts what lies there; every step is whole. */
static bool look_around(struct found *out)
{
    bool good = true;
    *out = (struct found){0, 0};
    DIR *listing = opendir(run);
    for (struct dirent *entry; listing != NULL && (entry = readdir(listing)) != NULL;) {
        int64_t step, generation;
        if (sw_store_step_of(entry->d_name) < 0) {
            out->hidden += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
                           strcmp(entry->d_name, "latest") != 0;
            continue;
        }
        out->steps++;
        char *path = sw_path_join(run, entry->d_name);
        good = good && small_check(path, &step, &generation) &&
               step == sw_store_step_of(entry->d_name);
        free(path);
    }
    if (listing != NULL)
        closedir(listing);
    return good;
}

/* The newest is whole and one of the saves that it may be; *generation: -1: there is none. */
static bool newest_is_whole(int64_t *generation)
{
    char *path = NULL, *latest = sw_path_join(run, "latest"), note[SW_STORE_NOTE_BYTES];
    int64_t step = -1, latest_generation = -1;
    struct stat info;
    struct sw_error err = {0};
    *generation = -1;
    bool good = sw_store_newest(run, NULL, &path, note, &err) == 0 && note[0] == '\0';
    if (!good)
        fprintf(stderr, "newest: %s%s\n", err.message, note);
    if (good && path != NULL)
        good = small_check(path, &step, generation);
    if (good && lstat(latest, &info) == 0) /* a link that leads to the same */
        good = S_ISLNK(info.st_mode) && small_check(latest, &step, &latest_generation) &&
               latest_generation == *generation;
    else if (good && progress->done > 0) {
        fprintf(stderr, "no latest\n");
        good = false;
    }
    free(latest);
    free(path);
    return good;
}

static bool may_be_newest(int64_t generation)
{
    const int64_t last = progress->done - 1;
    return generation == last || (generation > last && generation < progress->begun);
}

/* After a run that ended in any way. */
static void check_everything(const char *mode, long at)
{
    int64_t generation, again;
    struct found found;
    struct sw_error err = {0};
    bool good = newest_is_whole(&generation) && look_around(&found);
    if (good && !may_be_newest(generation)) {
        fprintf(stderr, "generation %d of %d to %d\n", (int)generation, (int)progress->done,
                (int)progress->begun);
        good = false;
    }
    good = good && sw_store_clean(run, &err) == 0 && newest_is_whole(&again) &&
           may_be_newest(again) && look_around(&found) && found.hidden == 0;
    if (good) {
        good = small_save(run, LATER_STEP, LATER_GENERATION, KEEP, 0, NULL, &err) == 0 &&
               newest_is_whole(&again) && again == LATER_GENERATION && look_around(&found) &&
               found.hidden == 0 && found.steps == (generation < 0 ? 1 : KEEP);
    }
    if (!good)
        fail_msg("mode %s at operation %ld: %s", mode, at, err.message);
}

/* ---- Tests ---- */

static void start_anew(void)
{
    assert_int_equal(sw_store_remove(run, NULL), 0);
    *progress = (struct progress){0, 0};
}

static int32_t operation_count, each; /* each: of them gets a fault */
static bool is_write[MOST_OPERATIONS];

/* Without a fault: how many operations there are, and which of them write. */
static void counts(void **state)
{
    (void)state;
    start_anew();
    unlink(log_path);
    setenv("SHIM_LOG", log_path, 1);
    assert_int_equal(in_child(save_all, "", 0, "EIO"), 0);
    unsetenv("SHIM_LOG");
    assert_int_equal(progress->done, SAVES);
    check_everything("none", 0);
    FILE *log = fopen(log_path, "r");
    char line[PATH_MAX + 100], name[16];
    int number;
    assert_non_null(log);
    while (fgets(line, sizeof line, log) != NULL) {
        assert_int_equal(sscanf(line, "%d %15s", &number, name), 2);
        assert_int_equal(number, operation_count + 1);
        assert_true(number < MOST_OPERATIONS);
        is_write[number] = strcmp(name, "pwrite") == 0 || strcmp(name, "write") == 0;
        operation_count++;
    }
    fclose(log);
    assert_in_range(operation_count, 200, MOST_OPERATIONS);
    print_message("%d operations\n", (int)operation_count);
}

/* ---- What a loss of power would leave ---- */

struct order {
    char dirty[64][PATH_MAX]; /* written or changed, and not synced since */
    int32_t count;
    bool step_renamed, latest_renamed, manifest_unlinked; /* and the folder not synced since */
};

static void get_dirty(struct order *o, const char *path)
{
    for (int32_t i = 0; i < o->count; i++)
        if (strcmp(o->dirty[i], path) == 0)
            return;
    assert_true(o->count < 64);
    snprintf(o->dirty[o->count++], PATH_MAX, "%s", path);
}

static void get_clean(struct order *o, const char *path)
{
    for (int32_t i = 0; i < o->count; i++)
        if (strcmp(o->dirty[i], path) == 0)
            memcpy(o->dirty[i--], o->dirty[--o->count], PATH_MAX);
    if (strcmp(path, run) == 0)
        o->step_renamed = o->latest_renamed = false;
    if (strstr(path, ".deleted") != NULL || strstr(path, ".old") != NULL)
        o->manifest_unlinked = false;
}

static void get_dirty_above(struct order *o, const char *path)
{
    char *above = sw_path_folder(path);
    get_dirty(o, above);
    free(above);
}

static void follow(struct order *o, const char *what, const char *path)
{
    const char *name = sw_path_name(path);
    if (strstr(what, "sync") != NULL) {
        get_clean(o, path);
    } else if (strcmp(what, "pwrite") == 0) {
        if (strcmp(name, SW_MANIFEST_NAME) == 0) /* the last of all */
            for (int32_t i = 0; i < o->count; i++)
                assert_true(strstr(o->dirty[i], ".partial") == NULL ||
                            sw_store_hidden_step(sw_path_name(o->dirty[i]), ".partial") >= 0);
        get_dirty(o, path);
    } else if (strcmp(what, "open") == 0 && strstr(path, ".partial/") != NULL &&
               strcmp(name, "optimizer") != 0) {
        get_dirty_above(o, path);
    } else if (strcmp(what, "rename") == 0 && sw_store_step_of(name) >= 0) {
        for (int32_t i = 0; i < o->count; i++)
            assert_null(strstr(o->dirty[i], ".partial"));
        o->step_renamed = true;
    } else if (strcmp(what, "rename") == 0 && strcmp(name, "latest") == 0) {
        assert_false(o->step_renamed);
        o->latest_renamed = true;
    } else if (strcmp(what, "rename") == 0) { /* to be replaced or deleted */
        assert_false(o->step_renamed || o->latest_renamed);
    } else if (strcmp(what, "unlink") == 0 &&
               (strstr(path, ".deleted/") != NULL || strstr(path, ".old/") != NULL)) {
        assert_false(o->step_renamed || o->latest_renamed || o->manifest_unlinked);
        o->manifest_unlinked = strcmp(name, SW_MANIFEST_NAME) == 0;
    }
}

/* Every byte and every name is durable before what relies on it. */
static void syncs_before_it_goes_on(void **state)
{
    (void)state;
    struct order *order = calloc(1, sizeof *order);
    char line[PATH_MAX + 100], what[16], path[PATH_MAX];
    int number, manifests = 0;
    FILE *log = fopen(log_path, "r");
    assert_true(log != NULL && order != NULL);
    while (fgets(line, sizeof line, log) != NULL) {
        assert_int_equal(sscanf(line, "%d %15s %4095[^\n]", &number, what, path), 3);
        follow(order, what, path);
        manifests += strcmp(what, "pwrite") == 0 && strstr(path, SW_MANIFEST_NAME) != NULL;
    }
    assert_int_equal(manifests, SAVES);
    fclose(log);
    free(order);
}

static void at_every_operation(const char *mode, const char *reason, bool writes_only, bool kills)
{
    int32_t points = 0, writes = 0;
    for (int32_t at = 1; at <= operation_count; at++) {
        writes += is_write[at];
        if (writes_only ? !is_write[at] || writes % each != 0 : at % each != 0)
            continue;
        start_anew();
        const int status = in_child(save_all, mode, at, reason);
        if (kills ? !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL : status != 0)
            fail_msg("mode %s at operation %d: status %#x", mode, (int)at, (unsigned)status);
        check_everything(mode, at);
        points++;
    }
    assert_true(points * each >= 28);
}

static void killed_before(void **state)
{
    (void)state;
    at_every_operation("before", "EIO", false, true);
}

static void killed_after(void **state)
{
    (void)state;
    at_every_operation("after", "EIO", false, true);
}

static void killed_in_a_write(void **state)
{
    (void)state;
    at_every_operation("torn", "EIO", true, true);
}

static void one_fails(void **state)
{
    (void)state;
    at_every_operation("fail", "EIO", false, false);
}

static void the_disk_is_full_from_then_on(void **state)
{
    (void)state;
    at_every_operation("fail-on", "ENOSPC", false, false);
}

static void writes_are_short(void **state)
{
    (void)state;
    at_every_operation("short", "EIO", true, false);
    /* and no save failed by that */
    start_anew();
    for (int32_t at = 1; at <= operation_count; at++)
        if (is_write[at]) {
            assert_int_equal(in_child(save_all, "short", at, "EIO"), 0);
            assert_int_equal(progress->done, SAVES);
            break;
        }
}

/* What a kill left is cleaned up, and that is killed at each of its operations, too. */
static void killed_while_cleaning(void **state)
{
    (void)state;
    int32_t points = 0;
    for (int32_t at = each; at <= operation_count; at += each) {
        struct found found;
        start_anew();
        (void)in_child(save_all, "before", at, "EIO");
        if (progress->begun != SAVES - 1 || !look_around(&found) || found.hidden == 0)
            continue; /* the one that replaces another has every kind of state */
        for (long inside = 1;; inside++) {
            if (inside > 1) {
                start_anew();
                (void)in_child(save_all, "before", at, "EIO");
            }
            const int status = in_child(clean_up, "before", inside, "EIO");
            check_everything("cleaning after", at * 1000 + inside);
            points++;
            if (!WIFSIGNALED(status)) {
                assert_int_equal(status, 0);
                break;
            }
        }
    }
    print_message("%d points\n", (int)points);
    assert_true(points * each > 200);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts),
        cmocka_unit_test(syncs_before_it_goes_on),
        cmocka_unit_test(killed_before),
        cmocka_unit_test(killed_after),
        cmocka_unit_test(killed_in_a_write),
        cmocka_unit_test(one_fails),
        cmocka_unit_test(the_disk_is_full_from_then_on),
        cmocka_unit_test(writes_are_short),
        cmocka_unit_test(killed_while_cleaning),
    };
    if (argc != 3 || (each = atoi(argv[2])) < 1 || realpath(argv[1], scratch) == NULL)
        return 2;
    const size_t used = strlen(scratch);
    snprintf(scratch + used, sizeof scratch - used, "/store_faults.%s", argv[2]);
    snprintf(log_path, sizeof log_path, "%s.log", scratch);
    snprintf(run, sizeof run, "%s/checkpoints", scratch);
    progress =
        mmap(NULL, sizeof *progress, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (progress == MAP_FAILED || sw_file_make_folder(scratch, NULL) != 0)
        return 2;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
