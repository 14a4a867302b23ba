/* The folder of checkpoints when nothing fails; faults are test_store_faults.c's.
 *
 *   test_store FOLDER */
#include "core/checkpoint/store_internal.h"
#include "tests/unit/store_support.h"

#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <cmocka.h>

static char folder[2048];

static char *path_in(const char *name)
{
    char *path = sw_path_join(folder, name);
    assert_non_null(path);
    return path;
}

static int start_anew(void **state)
{
    (void)state;
    return sw_store_remove(folder, NULL);
}

static void save(int64_t step, int64_t generation, int64_t keep, int64_t keep_every)
{
    struct sw_error err = {0};
    char note[SW_STORE_NOTE_BYTES];
    if (small_save(folder, step, generation, keep, keep_every, note, &err) != 0)
        fail_msg("%s", err.message);
    assert_string_equal(note, "");
}

/* "10 20* 30!": *: latest, !: not good. */
static void expect_steps(const char *expected)
{
    struct sw_store_entry *entries;
    int32_t count;
    char text[512] = "";
    assert_int_equal(sw_store_list(folder, &entries, &count, NULL), 0);
    for (int32_t i = 0; i < count; i++) {
        char one[64];
        snprintf(one, sizeof one, "%s%" PRId64 "%s%s", i > 0 ? " " : "", entries[i].step,
                 entries[i].is_latest ? "*" : "", entries[i].good ? "" : "!");
        strcat(text, one);
    }
    free(entries);
    assert_string_equal(text, expected);
}

static void expect_newest(const char *name, const char *expected_note)
{
    char *path, note[SW_STORE_NOTE_BYTES];
    struct sw_error err = {0};
    assert_int_equal(sw_store_newest(folder, NULL, &path, note, &err), 0);
    assert_string_equal(note, expected_note);
    if (name == NULL)
        assert_null(path);
    else
        assert_string_equal(sw_path_name(path), name);
    free(path);
}

static void names(void **state)
{
    (void)state;
    static const char *const none[] = {"step-",
                                       "step-5",
                                       "step-0000005",
                                       "step-00000x",
                                       "latest",
                                       "step--00005",
                                       "step-99999999999999999999",
                                       ".step-000005",
                                       "step-000005.old",
                                       ""};
    char name[SW_STEP_NAME_BYTES];
    assert_string_equal(sw_store_step_name(500, name), "step-000500");
    assert_string_equal(sw_store_step_name(0, name), "step-000000");
    assert_string_equal(sw_store_step_name(INT64_MAX, name), "step-9223372036854775807");
    assert_int_equal(sw_store_step_of("step-000500"), 500);
    assert_int_equal(sw_store_step_of("step-1234567"), 1234567);
    assert_int_equal(sw_store_step_of(name), INT64_MAX);
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        assert_int_equal(sw_store_step_of(none[i]), -1);
    assert_int_equal(sw_store_hidden_step(".step-000005.old", ".old"), 5);
    assert_int_equal(sw_store_hidden_step(".step-000005.old", ".partial"), -1);
    assert_int_equal(sw_store_hidden_step("step-000005.old", ".old"), -1);
    assert_int_equal(sw_store_hidden_step(".old", ".old"), -1);
    assert_int_equal(sw_store_hidden_step("", ".old"), -1);
}

static void saves_one_after_another(void **state)
{
    (void)state;
    char *latest = path_in("latest"), target[64] = "";
    struct stat info;
    expect_steps("");
    expect_newest(NULL, "");
    assert_int_equal(sw_store_clean(folder, NULL), 0);
    save(10, 0, 2, 0);
    expect_steps("10*");
    assert_int_equal(readlink(latest, target, sizeof target - 1), 11); /* relative */
    assert_string_equal(target, "step-000010");
    save(20, 1, 2, 0);
    expect_steps("10 20*");
    save(30, 2, 2, 0);
    expect_steps("20 30*");
    expect_newest("step-000030", "");
    struct sw_store_entry *entries;
    int32_t count;
    assert_int_equal(sw_store_list(folder, &entries, &count, NULL), 0);
    char *manifest = path_in("step-000020/manifest.json");
    assert_int_equal(stat(manifest, &info), 0);
    assert_int_equal(entries[0].bytes, 70 + 900 + 1500 + 400 + info.st_size);
    assert_string_equal(entries[0].name, "step-000020");
    free(manifest);
    free(entries);
    free(latest);
}

static void keeps_what_it_should(void **state)
{
    (void)state;
    for (int64_t step = 10; step <= 60; step += 10)
        save(step, step, 2, 30);
    expect_steps("30 50 60*");
    save(70, 0, 0, 0); /* at least the one that was written */
    expect_steps("70*");
}

/* Before a save is tried again: no more than it would delete, and never the last good one. */
static void makes_room_without_loss(void **state)
{
    (void)state;
    struct sw_error err = {0};
    int32_t deleted;
    for (int64_t step = 10; step <= 40; step += 10)
        save(step, step, 9, 0);
    assert_int_equal(sw_store_make_room(folder, 50, 5, 0, &deleted, &err), 0);
    assert_int_equal(deleted, 0);
    assert_int_equal(sw_store_make_room(folder, 50, 4, 0, &deleted, &err), 0);
    assert_int_equal(deleted, 1);
    expect_steps("20 30 40*");
    assert_int_equal(sw_store_make_room(folder, 50, 2, 20, &deleted, &err), 0);
    assert_int_equal(deleted, 1);
    expect_steps("20 40*"); /* one of keep_every */
    save(50, 0, 9, 0);
    char *last = path_in("step-000050/manifest.json");
    assert_int_equal(unlink(last), 0);
    free(last);
    assert_int_equal(sw_store_make_room(folder, 60, 1, 0, &deleted, &err), 0);
    assert_int_equal(deleted, 1);
    expect_steps("40 50*!"); /* what is not whole does not stand for one that is */
    assert_int_equal(sw_store_make_room(folder, 60, 1, 0, &deleted, &err), 0);
    assert_int_equal(deleted, 0);
    save(60, 0, 9, 0);
    assert_int_equal(sw_store_point_latest(folder, "step-000040", &err), 0);
    assert_int_equal(sw_store_make_room(folder, 70, 1, 0, &deleted, &err), 0);
    expect_steps("40* 50! 60"); /* nor what `latest` names */
}

/* A run that went back: what lies ahead does not count, and stays until it is replaced. */
static void keeps_what_lies_ahead(void **state)
{
    (void)state;
    save(10, 0, 3, 0);
    save(20, 0, 3, 0);
    save(30, 0, 3, 0);
    save(15, 1, 2, 0);
    expect_steps("10 15* 20 30");
    expect_newest("step-000015", "");
    save(20, 1, 2, 0);
    expect_steps("15 20* 30");
    int64_t step, generation;
    char *path = path_in("step-000020");
    assert_true(small_check(path, &step, &generation));
    assert_int_equal(generation, 1);
    free(path);
}

/* Nothing of others is deleted, whatever its name. */
static void leaves_others_alone(void **state)
{
    (void)state;
    static const char *const others[] = {
        "step-000010/config.json", "step-5/x", "notes/x", ".step-000001/x",
        ".step-000001.partials/x", ".hidden/x"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        char *path = path_in(others[i]), *above = sw_path_folder(path);
        assert_int_equal(sw_file_make_folder(above, NULL), 0);
        assert_int_equal(sw_file_write(path, "x", 1, 0666, NULL), 0);
        free(above);
        free(path);
    }
    save(20, 0, 1, 0);
    save(30, 0, 1, 0);
    assert_int_equal(sw_store_clean(folder, NULL), 0);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        char *path = path_in(others[i]);
        assert_true(sw_store_exists(path));
        free(path);
    }
    expect_steps("10! 30*");
    save(10, 0, 1, 0); /* but what stands where a checkpoint belongs makes room */
    expect_steps("10* 30");
    assert_int_equal(sw_store_clean(folder, NULL), 0);
    char *deleted = path_in(".step-000010.deleted");
    assert_false(sw_store_exists(deleted));
    free(deleted);
}

/* A symlink to a checkpoint elsewhere is deleted as what it is. */
static void does_not_follow_links(void **state)
{
    (void)state;
    char *step = path_in("step-000010"), *archive = path_in("archive");
    int64_t number, generation;
    save(10, 0, 5, 0);
    assert_int_equal(rename(step, archive), 0);
    assert_int_equal(symlink("archive", step), 0);
    expect_steps("10*");
    save(20, 0, 1, 0);
    expect_steps("20*");
    assert_false(sw_store_exists(step));
    assert_true(small_check(archive, &number, &generation));
    assert_int_equal(symlink("archive", step), 0);
    save(10, 3, 1, 0);
    assert_true(small_check(archive, &number, &generation));
    assert_int_equal(generation, 0);
    assert_true(small_check(step, &number, &generation));
    assert_int_equal(generation, 3);
    free(step);
    free(archive);
}

static void truncate_file(const char *name)
{
    char *path = path_in(name);
    assert_int_equal(truncate(path, 3), 0);
    free(path);
}

static void passes_over_what_is_not_whole(void **state)
{
    (void)state;
    char expected[SW_STORE_NOTE_BYTES];
    save(10, 0, 3, 0);
    save(20, 0, 3, 0);
    save(30, 0, 3, 0);
    char *file = path_in("step-000030/model-00001-of-00002.safetensors"),
         *latest = path_in("latest");
    assert_int_equal(truncate(file, 100), 0);
    expect_steps("10 20 30*!");
    snprintf(expected, sizeof expected,
             "'%.1000s/latest' names step-000030, which is not a whole checkpoint "
             "(model-00001-of-00002.safetensors: it has 100 bytes, not 900); taking "
             "step-000020",
             folder);
    expect_newest("step-000020", expected);
    assert_int_equal(unlink(latest), 0);
    snprintf(
        expected, sizeof expected,
        "'%.1000s/step-000030' is not a whole checkpoint (model-00001-of-00002.safetensors: it has "
        "100 bytes, not 900); taking step-000020",
        folder);
    expect_newest("step-000020", expected);
    assert_int_equal(symlink("/nonexistent/\x1b", latest), 0);
    snprintf(
        expected, sizeof expected,
        "'%.1000s/latest' names another place, which is not a whole checkpoint (manifest.json: "
        "it is missing; a folder without it is not a checkpoint), nor is step-000030 "
        "(model-00001-of-00002.safetensors: it has 100 bytes, not 900); taking "
        "step-000020",
        folder);
    expect_newest("step-000020", expected);
    assert_int_equal(unlink(latest), 0);
    assert_int_equal(symlink("step-000010", latest), 0); /* an older one, on purpose */
    expect_newest("step-000010", "");
    free(file);
    file = path_in("step-000010/manifest.json");
    assert_int_equal(unlink(file), 0);
    free(file);
    file = path_in("step-000020/manifest.json");
    assert_int_equal(unlink(file), 0);
    snprintf(expected, sizeof expected,
             "'%.1000s/latest' names step-000010, which is not a whole checkpoint (manifest.json: "
             "it is missing; a folder without it is not a checkpoint), nor is step-000030 "
             "(model-00001-of-00002.safetensors: it has 100 bytes, not 900), nor is step-000020 "
             "(manifest.json: it is missing; a folder without it is not a checkpoint); there is no "
             "other",
             folder);
    expect_newest(NULL, expected);
    free(file);
    free(latest);
}

static void change_byte(const char *name, int64_t at)
{
    char *path = path_in(name), byte = 0;
    const int handle = open(path, O_RDWR);
    assert_true(handle >= 0 && pread(handle, &byte, 1, at) == 1);
    byte ^= 4;
    assert_int_equal(pwrite(handle, &byte, 1, at), 1);
    close(handle);
    free(path);
}

/* What is small is read, what is large is what a reader said of it. */
static void passes_over_what_is_damaged(void **state)
{
    (void)state;
    char expected[SW_STORE_NOTE_BYTES], *path = NULL, note[SW_STORE_NOTE_BYTES];
    struct sw_store_damage *damage = NULL;
    for (int64_t step = 10; step <= 40; step += 10)
        save(step, 0, 4, 0);
    change_byte("step-000040/config.json", 7);
    change_byte("step-000030/model-00002-of-00002.safetensors", 90); /* its header */
    snprintf(
        expected, sizeof expected,
        "'%.1000s/latest' names step-000040, which is not a whole checkpoint (config.json: bytes "
        "0 to 70 are not what was written: their checksum is wrong), nor is step-000030 "
        "(model-00002-of-00002.safetensors: bytes 0 to 128 are not what was written: their "
        "checksum is wrong); taking step-000020",
        folder);
    expect_newest("step-000020", expected);
    struct sw_error why = {.status = SW_BAD_INPUT, .message = "bytes 1 to 2 are odd"};
    char *step = path_in("step-000020"), *file = path_in("step-000020/model-1");
    snprintf(why.file, sizeof why.file, "%s", file);
    assert_int_equal(sw_store_add_damage(&damage, step, &why, NULL), 0);
    assert_int_equal(sw_store_newest(folder, damage, &path, note, NULL), 0);
    assert_string_equal(sw_path_name(path), "step-000010");
    assert_non_null(strstr(note, ", nor is step-000020 (model-1: bytes 1 to 2 are odd); taking"));
    /* the one that proved whole is latest, the others are kept, and count no more */
    assert_int_equal(sw_store_keep_damaged(folder, path, damage, note, NULL), 0);
    snprintf(
        expected, sizeof expected,
        "note: what is not a whole checkpoint in '%.1000s' is kept as step-000020.damaged, "
        "step-000030.damaged, step-000040.damaged; it is not read again, and you may delete it",
        folder);
    assert_string_equal(note, expected);
    expect_steps("10*");
    expect_newest("step-000010", "");
    assert_int_equal(sw_store_keep_damaged(folder, path, damage, note, NULL), 0);
    assert_string_equal(note, "");
    free(path);
    sw_store_free_damage(damage);
    /* a second one of the same step, met by the save that replaces it; nothing prunes them */
    save(20, 0, 4, 0);
    truncate_file("step-000020/config.json");
    save(20, 1, 1, 0);
    expect_steps("20*");
    assert_int_equal(sw_store_clean(folder, NULL), 0);
    for (size_t i = 0; i < 4; i++) {
        static const char *const kept[] = {"step-000020.damaged", "step-000020.damaged-2",
                                           "step-000030.damaged", "step-000040.damaged"};
        char *one = path_in(kept[i]);
        assert_true(sw_store_exists(one));
        free(one);
    }
    /* where they are all that is left, that is said */
    char name[SW_STORE_NAME_BYTES];
    free(step);
    free(file);
    step = path_in("step-000020");
    file = path_in("latest");
    assert_int_equal(sw_store_remove(step, NULL), 0);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(sw_store_find_any(folder, name, NULL), 0);
    assert_non_null(strstr(name, ".damaged"));
    snprintf(expected, sizeof expected, "'%.1000s/%s' was kept aside; there is no other", folder,
             name);
    expect_newest(NULL, expected);
    assert_int_equal(sw_store_remove_all(folder, NULL), 0);
    expect_newest(NULL, "");
    assert_int_equal(rmdir(folder), 0);
    free(step);
    free(file);
}

static void expect_mended(const char *name, const char *newest)
{
    char expected[SW_STORE_NOTE_BYTES], note[SW_STORE_NOTE_BYTES];
    struct sw_error err = {0};
    if (sw_store_mend(folder, note, &err) != 0)
        fail_msg("%s", err.message);
    snprintf(expected, sizeof expected,
             "note: '%.1000s/latest' was a folder, not a symlink, as some ways to copy leave it; "
             "it is %s now, and latest names %s",
             folder, name, newest);
    assert_string_equal(note, expected);
    expect_newest(newest, "");
    assert_int_equal(sw_store_mend(folder, note, &err), 0);
    assert_string_equal(note, "");
}

static void copy_to_latest(const char *step)
{
    char command[8192], *latest = path_in("latest"), *from = path_in(step);
    snprintf(command, sizeof command, "rm -rf '%s' && cp -a '%s' '%s'", latest, from, latest);
    assert_int_equal(system(command), 0);
    free(latest);
    free(from);
}

/* Where symlinks were followed in copying, `latest` is a folder. */
static void mends_a_copied_latest(void **state)
{
    (void)state;
    char *step = path_in("step-000020"), *latest = path_in("latest"), *inside = path_in("latest/x"),
         note[SW_STORE_NOTE_BYTES];
    assert_int_equal(sw_store_mend(folder, note, NULL), 0);
    save(10, 0, 5, 0);
    save(20, 0, 5, 0);
    copy_to_latest("step-000010"); /* of another day: no reason to go back */
    expect_newest("step-000020", "");
    expect_mended("step-000010.copy", "step-000020");
    assert_int_equal(unlink(latest), 0);
    assert_int_equal(rename(step, latest), 0); /* the only one of its step */
    expect_newest("latest", "");
    expect_mended("step-000020", "step-000020");
    copy_to_latest("step-000020");
    truncate_file("step-000020/config.json"); /* what is whole has the name */
    expect_mended("step-000020", "step-000020");
    copy_to_latest("step-000020");
    truncate_file("latest/config.json");
    expect_mended("latest.damaged", "step-000020");
    assert_int_equal(unlink(latest), 0);
    assert_int_equal(mkdir(latest, 0777), 0);
    expect_mended("a symlink", "step-000020");
    /* in the middle of a run */
    assert_int_equal(unlink(latest), 0);
    assert_int_equal(sw_file_make_folder(inside, NULL), 0);
    save(30, 0, 2, 0);
    expect_steps("20 30*");
    save(40, 0, 2, 0);
    expect_steps("30 40*");
    free(inside);
    free(step);
    free(latest);
}

static bool no_symlinks;
int symlink(const char *target, const char *path)
{
    if (no_symlinks) {
        errno = EPERM;
        return -1;
    }
    return symlinkat(target, AT_FDCWD, path);
}

/* A file system without symlinks has a file with the name. */
static void does_without_symlinks(void **state)
{
    (void)state;
    struct stat info;
    char *latest = path_in("latest");
    no_symlinks = true;
    save(10, 0, 3, 0);
    save(20, 0, 3, 0);
    save(15, 0, 3, 0); /* gone back */
    no_symlinks = false;
    assert_true(lstat(latest, &info) == 0 && S_ISREG(info.st_mode));
    expect_steps("10 15* 20");
    expect_newest("step-000015", "");
    assert_int_equal(sw_file_write(latest, "notes\n", 6, 0666, NULL), 0);
    expect_newest("step-000020", "");
    free(latest);
}

/* Saves that come late: of each multiple the first one at or behind it stays. */
static void keeps_milestones(void **state)
{
    (void)state;
    static const int64_t steps[] = {10, 74, 78, 134, 195, 199, 200, 252, 259};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
        save(steps[i], 0, 1, 20);
    expect_steps("74 134 195 200 252 259*");
    assert_int_equal(start_anew(NULL), 0);
    for (int64_t step = 3; step <= 45; step += 3)
        save(step, 0, 2, 20);
    expect_steps("21 42 45*");
    change_byte("step-000021/manifest.json", 5); /* not a whole one: the next is the first */
    save(24, 0, 1, 20);
    save(27, 0, 1, 20);
    expect_steps("21! 24 27* 42 45");
}

/* Whatever lies in the place of a manifest. */
static void deletes_what_is_odd(void **state)
{
    (void)state;
    char *manifest = path_in("step-000010/manifest.json"),
         *inside = path_in("step-000010/manifest.json/x"), *step = path_in("step-000010"),
         *deleted = path_in(".step-000010.deleted");
    save(10, 0, 3, 0);
    assert_int_equal(unlink(manifest), 0);
    assert_int_equal(sw_file_make_folder(inside, NULL), 0);
    assert_int_equal(rename(step, deleted), 0);
    assert_int_equal(sw_store_clean(folder, NULL), 0);
    assert_false(sw_store_exists(deleted));
    free(manifest);
    free(inside);
    free(step);
    free(deleted);
}

/* A model, a folder of checkpoints, a run's folder. */
static void knows_what_a_path_means(void **state)
{
    (void)state;
    char *step = path_in("step-000020"), *other = path_in("step-000010"),
         *config = path_in("step-000010/config.json"), *run = path_in("run"),
         *inside = path_in("run/checkpoints"), *moved = path_in("run/checkpoints/step-000020"),
         *found, note[SW_STORE_NOTE_BYTES];
    save(10, 0, 3, 0);
    save(20, 0, 3, 0);
    FILE *file = fopen(config, "w");
    assert_non_null(file);
    fclose(file);
    assert_int_equal(mkdir(run, 0777), 0);
    assert_int_equal(mkdir(inside, 0777), 0);
    const struct {
        const char *given, *means;
    } cases[] = {
        {folder, step}, {other, other}, {run, run}, {run, moved}, {"/nonexistent", "/nonexistent"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (cases[i].means == moved)
            assert_int_equal(rename(step, moved), 0);
        assert_int_equal(sw_store_resolve(cases[i].given, &found, note, NULL), 0);
        assert_string_equal(found, cases[i].means);
        assert_string_equal(note, "");
        free(found);
    }
    free(moved);
    free(inside);
    free(run);
    free(config);
    free(other);
    free(step);
}

/* A template with a name of its own lies in a folder within the checkpoint. */
static void has_files_in_folders(void **state)
{
    (void)state;
    static const char name[] = "additional_chat_templates/rag.jinja";
    struct sw_store_save save;
    struct sw_error err = {0};
    struct sw_manifest manifest = {.step = 10,
                                   .slice_bytes = 256,
                                   .run = "r",
                                   .optimizer = "adamw"},
                       found;
    assert_int_equal(sw_store_begin(folder, 10, &save, &err), 0);
    assert_int_equal(sw_store_write_file(&save, name, "abcdefghi", 9, &manifest, &err), 0);
    assert_int_equal(sw_store_write_file(&save, "config.json", "{}", 2, &manifest, &err), 0);
    assert_int_equal(sw_store_commit(&save, &manifest, 1, 0, NULL, &err), 0);
    char *path = sw_store_path(folder, 10, ""), *file = sw_path_join(path, name);
    if (sw_checkpoint_verify(path, &found, &err) != 0)
        fail_msg("%s: %s", err.file, err.message);
    assert_int_equal(found.file_count, 2);
    sw_manifest_free(&found);
    assert_int_equal(truncate(file, 8), 0);
    assert_int_equal(sw_checkpoint_verify(path, &found, &err), -1);
    assert_string_equal(err.file, file);
    assert_int_equal(sw_store_remove(path, NULL), 0);
    assert_false(sw_store_exists(path));
    sw_manifest_free(&manifest);
    free(path);
    free(file);
}

static void fails_with_a_reason(void **state)
{
    (void)state;
    char expected[4096], *aside;
    struct sw_store_save one;
    struct sw_error err = {0};
    struct sw_manifest manifest = {.slice_bytes = 8};
    assert_int_equal(sw_store_begin(folder, 10, &one, &err), 0);
    assert_int_equal(sw_store_write_file(&one, "a", "abc", 3, &manifest, &err), 0);
    aside = strdup(one.aside);
    char *file = sw_path_join(aside, "a");
    assert_int_equal(truncate(file, 2), 0);
    assert_int_equal(sw_store_commit(&one, &manifest, 1, 0, NULL, &err), -1);
    assert_string_equal(err.message, "it has 2 bytes, not 3");
    assert_string_equal(err.file, file);
    sw_store_abandon(&one);
    assert_false(sw_store_exists(aside));
    assert_null(one.folder);
    sw_store_abandon(&one);
    sw_store_abandon(NULL);

    err = (struct sw_error){0};
    assert_int_equal(sw_store_open_file(aside, "a", &err), -1);
    snprintf(expected, sizeof expected, "cannot write '%s': No such file or directory", file);
    assert_string_equal(err.message, expected);
    err = (struct sw_error){0};
    assert_int_equal(sw_store_write_at(-1, "f", "x", 1, 0, &err), -1);
    assert_string_equal(err.message, "cannot write 'f': Bad file descriptor");
    assert_int_equal(err.status, SW_ENVIRONMENT);
    err = (struct sw_error){0};
    assert_int_equal(sw_store_close_file(-1, "f", &err), -1);
    assert_string_equal(err.message, "cannot sync 'f': Bad file descriptor");

    assert_int_equal(start_anew(NULL), 0);
    err = (struct sw_error){0};
    assert_int_equal(sw_file_write(folder, "", 0, 0666, NULL), 0);
    assert_int_equal(small_save(folder, 10, 0, 1, 0, NULL, &err), -1);
    snprintf(expected, sizeof expected, "'%s' is not a folder", folder);
    assert_string_equal(err.message, expected);
    err = (struct sw_error){0};
    assert_int_equal(sw_store_clean(folder, &err), -1);
    snprintf(expected, sizeof expected, "cannot read the folder '%s': Not a directory", folder);
    assert_string_equal(err.message, expected);
    sw_manifest_free(&manifest);
    free(aside);
    free(file);
}

/* What cannot be read now may be whole: nothing is gone on with, nothing is moved. */
static void waits_for_what_cannot_be_read(void **state)
{
    (void)state;
    struct rlimit was, none;
    struct sw_error err = {0};
    char *path = NULL, note[SW_STORE_NOTE_BYTES];
    save(10, 0, 2, 0);
    save(20, 0, 2, 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    none = was;
    none.rlim_cur = 0; /* no file can be opened: EMFILE */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    const int status = sw_store_newest(folder, NULL, &path, note, &err);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
    assert_int_equal(status, -1);
    assert_int_equal(err.status, SW_ENVIRONMENT);
    assert_non_null(strstr(err.message, "cannot read it: Too many open files"));
    assert_null(path);
    expect_newest("step-000020", "");
    expect_steps("10 20*");
}

/* `latest` may lead to a folder of any name. */
static void remembers_damage_of_long_names(void **state)
{
    (void)state;
    static const char name[] =
        "the-checkpoint-that-somebody-gave-a-name-of-more-than-forty-letters";
    struct sw_store_damage *damage = NULL;
    char *path, note[SW_STORE_NOTE_BYTES];
    save(10, 0, 2, 0);
    save(20, 0, 2, 0);
    char *old = path_in("step-000020"), *renamed = path_in(name), *latest = path_in("latest");
    assert_int_equal(rename(old, renamed), 0);
    assert_int_equal(unlink(latest), 0);
    assert_int_equal(symlink(name, latest), 0);
    expect_newest(name, "");
    const struct sw_error why = {.status = SW_BAD_INPUT, .message = "its checksum is wrong"};
    assert_int_equal(sw_store_add_damage(&damage, renamed, &why, NULL), 0);
    assert_int_equal(sw_store_newest(folder, damage, &path, note, NULL), 0);
    assert_string_equal(sw_path_name(path), "step-000010");
    sw_store_free_damage(damage);
    free(path);
    free(old);
    free(renamed);
    free(latest);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test_setup(saves_one_after_another, start_anew),
        cmocka_unit_test_setup(keeps_what_it_should, start_anew),
        cmocka_unit_test_setup(makes_room_without_loss, start_anew),
        cmocka_unit_test_setup(keeps_what_lies_ahead, start_anew),
        cmocka_unit_test_setup(leaves_others_alone, start_anew),
        cmocka_unit_test_setup(does_not_follow_links, start_anew),
        cmocka_unit_test_setup(passes_over_what_is_not_whole, start_anew),
        cmocka_unit_test_setup(passes_over_what_is_damaged, start_anew),
        cmocka_unit_test_setup(waits_for_what_cannot_be_read, start_anew),
        cmocka_unit_test_setup(remembers_damage_of_long_names, start_anew),
        cmocka_unit_test_setup(mends_a_copied_latest, start_anew),
        cmocka_unit_test_setup(does_without_symlinks, start_anew),
        cmocka_unit_test_setup(keeps_milestones, start_anew),
        cmocka_unit_test_setup(deletes_what_is_odd, start_anew),
        cmocka_unit_test_setup(knows_what_a_path_means, start_anew),
        cmocka_unit_test_setup(has_files_in_folders, start_anew),
        cmocka_unit_test_setup(fails_with_a_reason, start_anew),
    };
    if (argc != 2)
        return 2;
    snprintf(folder, sizeof folder,
             "%s/a-folder-of-checkpoints-whose-path-no-message-may-cut-short", argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
