#include "runner/checkpoint/checkpoint_command.h"

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/lora.h"
#include "core/base/text.h"
#include "core/checkpoint/store.h"
#include "core/checkpoint/store_internal.h"
#include "runner/rank/launch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { DIFFERS = 4, SIZE_BYTES = 32 };

/* Arguments of the command. */
struct request {
    char **folder; /* [count] */
    int32_t count;
    bool json;
};

static int fail_error(const struct sw_error *err)
{
    sw_launch_print_error(err);
    return (int)err->status;
}

static int finish_output(int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    fprintf(stderr, "runner: error: cannot write the output: %s\n", strerror(errno));
    return SW_ENVIRONMENT;
}

/* Formats "1.2 GB", decimal as in YAML. */
static char *size_text(int64_t bytes, char buffer[SIZE_BYTES])
{
    static const char *const units[] = {"kB", "MB", "GB", "TB", "PB"};
    double value = (double)bytes / 1000;
    size_t unit = 0;
    for (; value >= 999.95 && unit + 1 < sizeof units / sizeof units[0]; unit++)
        value /= 1000;
    if (bytes < 1000)
        snprintf(buffer, SIZE_BYTES, "%" PRId64 " B", bytes);
    else
        snprintf(buffer, SIZE_BYTES, "%.1f %s", value, units[unit]);
    return buffer;
}

/* ---- Which checkpoints are meant ---- */

/* Meaning of a DIR argument. */
struct meant {
    char *folder;                 /* folder of the checkpoints; NULL: only `one` */
    char *one;                    /* path of a single checkpoint */
    struct sw_store_entry *entry; /* [count] */
    int32_t count;
};

static void forget(struct meant *meant)
{
    free(meant->folder);
    free(meant->one);
    free(meant->entry);
    *meant = (struct meant){0};
}

static bool has(const char *folder, const char *name)
{
    struct stat info;
    char *path = sw_path_join(folder, name);
    const bool there = path != NULL && lstat(path, &info) == 0;
    free(path);
    return there;
}

static int out_of_memory(struct sw_error *err)
{
    return sw_fail(err, SW_ENVIRONMENT, "out of memory for a path");
}

/* Takes folder `path` if it has checkpoints. */
static int find_all(const char *path, struct meant *out, struct sw_error *err)
{
    if (sw_store_list(path, &out->entry, &out->count, err) != 0)
        return -1;
    if (out->count == 0 && !has(path, "latest"))
        return 0;
    out->folder = strdup(path);
    return out->folder != NULL ? 0 : out_of_memory(err);
}

/* Takes a checkpoint with any name. */
static int find_one(const char *path, struct meant *out, struct sw_error *err)
{
    struct sw_manifest manifest = {0};
    struct sw_store_link latest = {""};
    char *above = sw_path_folder(path);
    out->one = strdup(path);
    out->entry = calloc(1, sizeof *out->entry);
    if (out->one != NULL && out->entry != NULL && above != NULL &&
        sw_store_read_latest(above, &latest, err) == 0) {
        out->count = 1;
        out->entry->is_latest = strcmp(latest.target, sw_path_name(path)) == 0;
        out->entry->good = sw_store_check(path, &manifest, NULL) == 0;
        out->entry->bytes = sw_store_bytes(path);
        const int64_t named = sw_store_step_of(sw_path_name(path));
        out->entry->step = named >= 0 ? named : manifest.step;
        sw_manifest_free(&manifest);
    }
    free(above);
    return out->count == 1 ? 0 : out_of_memory(err);
}

/* Takes a checkpoint, a folder of them, or a run's folder that contains one. */
static int find_meant(const char *given, struct meant *out, struct sw_error *err)
{
    struct stat info;
    int status = -1;
    *out = (struct meant){0};
    char *path = strdup(given), *inside = NULL;
    if (path == NULL)
        return out_of_memory(err);
    for (size_t end = strlen(path); end > 1 && path[end - 1] == '/'; end--)
        path[end - 1] = '\0';
    const struct sw_place at = {.file = path};
    if (stat(path, &info) != 0)
        sw_fail_at(err, SW_BAD_INPUT, at, "cannot open it: %s", strerror(errno));
    else if (!S_ISDIR(info.st_mode))
        sw_fail_at(err, SW_BAD_INPUT, at, "it is not a folder");
    else if (sw_store_step_of(sw_path_name(path)) >= 0 || has(path, SW_MANIFEST_NAME))
        status = find_one(path, out, err);
    else
        status = find_all(path, out, err);
    if (status == 0 && out->folder == NULL && out->one == NULL) {
        inside = sw_path_join(path, "checkpoints");
        status = inside == NULL ? out_of_memory(err) : find_all(inside, out, err);
    }
    if (status == 0 && out->folder == NULL && out->one == NULL)
        status = sw_fail_at(err, SW_BAD_INPUT, at,
                            "there is no checkpoint in it; name a checkpoint, or a run's folder");
    if (status != 0)
        forget(out);
    free(inside);
    free(path);
    return status;
}

/* malloc'ed; NULL: no memory. */
static char *path_of(const struct meant *meant, int32_t i)
{
    return meant->one != NULL ? strdup(meant->one)
                              : sw_path_join(meant->folder, meant->entry[i].name);
}

static const char *name_of(const struct meant *meant, int32_t i)
{
    return meant->one != NULL ? sw_path_name(meant->one) : meant->entry[i].name;
}

/* ---- ls ---- */

/* Reason a checkpoint is damaged, without its folder's path: "model.safetensors: it is missing"; ""
 * if whole. */
static void describe_problem(const char *path, char *out, size_t bytes)
{
    struct sw_error why = {0};
    *out = '\0';
    if (sw_store_check(path, NULL, &why) == 0)
        return;
    const size_t length = strlen(path);
    const char *file = why.file;
    if (strncmp(file, path, length) == 0 && file[length] == '/')
        file += length + 1;
    snprintf(out, bytes, "%.200s%s%.200s", file, *file != '\0' ? ": " : "", why.message);
}

/* Date of the manifest, else of the folder. */
static char *date_of(const char *path, char buffer[32])
{
    struct stat info;
    struct tm parts;
    char *manifest = sw_path_join(path, SW_MANIFEST_NAME);
    const bool known = manifest != NULL && (stat(manifest, &info) == 0 || stat(path, &info) == 0);
    free(manifest);
    if (!known || localtime_r(&info.st_mtime, &parts) == NULL ||
        strftime(buffer, 32, "%Y-%m-%d %H:%M", &parts) == 0)
        snprintf(buffer, 32, "-");
    return buffer;
}

static void print_table(const struct meant *meant)
{
    int width = (int)strlen("step-000000");
    for (int32_t i = 0; i < meant->count; i++)
        if ((int)strlen(name_of(meant, i)) > width)
            width = (int)strlen(name_of(meant, i));
    printf("%-*s  %9s  %-16s\n", width, "checkpoint", "size", "written");
    for (int32_t i = 0; i < meant->count; i++) {
        const struct sw_store_entry *e = &meant->entry[i];
        char size[SIZE_BYTES], date[32], problem[448] = "no memory";
        char *path = path_of(meant, i);
        if (path != NULL)
            describe_problem(path, problem, sizeof problem);
        printf("%-*s  %9s  %-16s%s%s%s\n", width, name_of(meant, i), size_text(e->bytes, size),
               path != NULL ? date_of(path, date) : "-", e->is_latest ? "  latest" : "",
               *problem != '\0' ? "  not whole: " : "", problem);
        free(path);
    }
}

static void print_json(const struct meant *meant)
{
    struct sw_json j = {.out = stdout, .style = SW_JSON_SPACES};
    sw_json_object(&j, NULL);
    sw_json_text(&j, "schema", "shardwright.checkpoints/1");
    sw_json_array(&j, "checkpoints");
    for (int32_t i = 0; i < meant->count; i++) {
        const struct sw_store_entry *e = &meant->entry[i];
        char problem[448] = "no memory";
        char *path = path_of(meant, i);
        if (path != NULL)
            describe_problem(path, problem, sizeof problem);
        sw_json_object(&j, NULL);
        sw_json_text(&j, "path", path);
        sw_json_integer(&j, "step", e->step);
        sw_json_integer(&j, "bytes", e->bytes);
        sw_json_bool(&j, "latest", e->is_latest);
        sw_json_bool(&j, "good", *problem == '\0');
        sw_json_text(&j, "problem", *problem != '\0' ? problem : NULL);
        sw_json_end(&j);
        free(path);
    }
    sw_json_end(&j);
    sw_json_end(&j);
    putchar('\n');
}

/* Note about `latest`; "" if the folder is in order. */
static int look_at_latest(const struct meant *meant, char note[SW_STORE_NOTE_BYTES],
                          struct sw_error *err)
{
    char *path = NULL;
    note[0] = '\0';
    if (meant->folder != NULL && sw_store_newest(meant->folder, NULL, &path, note, err) != 0)
        return -1;
    free(path);
    return 0;
}

static int list(const struct request *r, struct sw_error *mistake)
{
    struct meant meant;
    struct sw_error err = {0};
    char note[SW_STORE_NOTE_BYTES];
    if (r->count > 1)
        return sw_fail(mistake, SW_BAD_INPUT, "one folder at a time, not also '%.200s'",
                       r->folder[1]);
    if (r->count == 0 || *r->folder[0] == '\0')
        return sw_fail(mistake, SW_BAD_INPUT, "checkpoint ls needs a folder");
    if (find_meant(r->folder[0], &meant, &err) != 0)
        return fail_error(&err);
    if (r->json)
        print_json(&meant);
    else
        print_table(&meant);
    const int status = finish_output(SW_OK);
    if (look_at_latest(&meant, note, &err) == 0 && *note != '\0')
        fprintf(stderr, "%s\n", note);
    forget(&meant);
    return status;
}

/* ---- verify ---- */

static int verify_one(const char *path)
{
    struct sw_manifest manifest;
    struct sw_error err = {0};
    char size[SIZE_BYTES];
    int64_t bytes = 0;
    if (sw_checkpoint_verify(path, &manifest, &err) != 0)
        return fail_error(&err);
    for (int32_t i = 0; i < manifest.file_count; i++)
        bytes += manifest.file[i].bytes;
    printf("%s: good, %s, %" PRId32 " files\n", path, size_text(bytes, size), manifest.file_count);
    fflush(stdout); /* the next one may take minutes */
    sw_manifest_free(&manifest);
    return SW_OK;
}

/* Verifies all; returns the first mistake's exit code. */
static int verify(const struct request *r, struct sw_error *mistake)
{
    int status = SW_OK;
    bool named = r->count > 0;
    for (int32_t i = 0; i < r->count; i++)
        named = named && *r->folder[i] != '\0';
    if (!named)
        return sw_fail(mistake, SW_BAD_INPUT, "checkpoint verify needs a folder");
    for (int32_t i = 0; i < r->count; i++) {
        struct meant meant;
        struct sw_error err = {0};
        char note[SW_STORE_NOTE_BYTES];
        int one = SW_OK;
        if (find_meant(r->folder[i], &meant, &err) != 0) {
            one = fail_error(&err);
        } else {
            for (int32_t k = 0; k < meant.count; k++) {
                char *path = path_of(&meant, k);
                const int found = path != NULL ? verify_one(path) : SW_ENVIRONMENT;
                one = one == SW_OK ? found : one;
                free(path);
            }
            if (one == SW_OK && look_at_latest(&meant, note, &err) == 0 && *note != '\0') {
                fprintf(stderr, "%s\n", note);
                one = SW_BAD_INPUT;
            }
            forget(&meant);
        }
        status = status == SW_OK ? one : status;
    }
    return finish_output(status);
}

/* ---- diff ---- */

/* The model directory itself, or the newest checkpoint in it. */
static int find_model(const char *given, char **out, struct sw_error *err)
{
    struct meant meant;
    char note[SW_STORE_NOTE_BYTES];
    if (has(given, "config.json") || has(given, SW_ADAPTER_CONFIG)) {
        *out = strdup(given);
        return *out != NULL ? 0 : out_of_memory(err);
    }
    if (find_meant(given, &meant, err) != 0)
        return -1;
    int status = 0;
    if (meant.folder == NULL) {
        *out = strdup(meant.one);
    } else {
        status = sw_store_newest(meant.folder, NULL, out, note, err);
        if (status == 0 && *note != '\0')
            fprintf(stderr, "%s\n", note);
    }
    if (status == 0 && *out == NULL)
        status = sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = given},
                            "there is no whole checkpoint in it");
    forget(&meant);
    return status;
}

static int diff(const struct request *r, struct sw_error *mistake)
{
    struct sw_error err = {0};
    char *path[2] = {NULL, NULL};
    int differs = 0, status = SW_OK;
    if (r->count != 2 || *r->folder[0] == '\0' || *r->folder[1] == '\0')
        return sw_fail(mistake, SW_BAD_INPUT, "checkpoint diff takes two folders");
    if (find_model(r->folder[0], &path[0], &err) != 0 ||
        find_model(r->folder[1], &path[1], &err) != 0 ||
        sw_checkpoint_diff(stdout, path[0], path[1], &differs, &err) != 0)
        status = fail_error(&err);
    free(path[0]);
    free(path[1]);
    return finish_output(status != SW_OK ? status : differs ? DIFFERS : SW_OK);
}

static const struct sw_argument rows[] = {
    {.name = "--json", .bit = 1, SW_ARGUMENT_TO(struct request, json)}, {.name = NULL}};

int sw_checkpoint_command(int argc, char **argv, struct sw_error *err)
{
    static const struct {
        const char *name;
        int (*run)(const struct request *request, struct sw_error *mistake);
        uint32_t accepted; /* for the rows */
    } commands[] = {{"ls", list, 1}, {"verify", verify, 2}, {"diff", diff, 2}};
    if (argc > 0 && (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0))
        return -1;
    if (argc < 1)
        return sw_fail(err, SW_BAD_INPUT, "checkpoint needs ls, verify or diff");
    const char *near = NULL;
    int32_t distance;
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        struct request request = {0};
        struct sw_command_line line = {.tool = "runner",
                                       .command = "checkpoint",
                                       .options = rows,
                                       .accepted = commands[i].accepted,
                                       .to = &request,
                                       .most_files = INT32_MAX};
        if (sw_text_is_near(argv[0], commands[i].name, &distance))
            near = commands[i].name;
        if (strcmp(argv[0], commands[i].name) != 0)
            continue;
        if (sw_arguments_parse(argc - 1, argv + 1, &line, err) != 0)
            return -1;
        request.folder = line.files;
        request.count = line.file_count;
        return commands[i].run(&request, err);
    }
    if (near != NULL)
        return sw_fail(err, SW_BAD_INPUT,
                       "unknown command 'checkpoint %.60s'; did you mean 'checkpoint %s'?", argv[0],
                       near);
    return sw_fail(err, SW_BAD_INPUT, "unknown command 'checkpoint %.60s'", argv[0]);
}
