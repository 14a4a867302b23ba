/* `plan import-cluster`: a cluster file read from the Slurm controller. */
#include "core/base/file.h"
#include "core/plan/paths.h"
#include "planner/command/command.h"
#include "planner/scheduler/slurm/import.h"
#include "planner/scheduler/slurm/row.h"
#include "planner/scheduler/scheduler.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_CLUSTER_BYTES = 1 << 20 };

/* The text of the written file: new, or merged; malloc'ed, NULL: err. */
static char *make_text(const struct sw_options *options, struct sw_import *import,
                       const char *folder, struct sw_error *err)
{
    char *text = NULL, *merged = NULL;
    size_t bytes = 0;
    if (options->into == NULL) {
        FILE *out = open_memstream(&text, &bytes);
        if (out != NULL) {
            sw_import_write(out, import, folder);
            if (fclose(out) == 0)
                return text;
        }
        free(text);
        sw_fail(err, SW_ENVIRONMENT, "out of memory while writing the cluster");
        return NULL;
    }
    if (sw_file_read(options->into, true, MAX_CLUSTER_BYTES, &text, &bytes, NULL) != 0) {
        sw_fail_at(err, errno == ENOMEM ? SW_ENVIRONMENT : SW_BAD_INPUT,
                   (struct sw_place){.file = options->into}, "cannot open it: %s", strerror(errno));
        return NULL;
    }
    merged = sw_import_merge(import, text, err);
    if (merged == NULL)
        sw_fail_place(err, (struct sw_place){.file = options->into});
    free(text);
    return merged;
}

/* Reads the written file as plan does. Returns an exit code. */
static int check(const struct sw_options *options, const char *name, const char *text,
                 struct sw_error *err)
{
    struct sw_config *config = sw_config_read_text(name, text, strlen(text), SW_CONFIG_CLUSTER,
                                                   options->launchers, NULL, 0, err);
    if (config == NULL)
        return sw_command_fail(err);
    const int32_t errors = sw_command_diagnose(config, SW_NOTES_SHORT);
    sw_config_free(config);
    return errors > 0 ? SW_BAD_INPUT : SW_OK;
}

static int write_text(const struct sw_options *options, const struct sw_import *import,
                      const char *text, struct sw_error *err)
{
    const char *path = options->output != NULL ? options->output : options->into;
    if (path == NULL) {
        fputs(text, stdout);
        return 0;
    }
    if (sw_file_write(path, text, strlen(text), 0666, err) != 0)
        return sw_path_blame(err, errno, "name another file with -o");
    printf("wrote %s: %d node%s of %d %s, partition %s\n", path, import->nodes,
           import->nodes == 1 ? "" : "s", import->per_node,
           import->sheet != NULL ? import->sheet->name : "accelerators", import->partition);
    return 0;
}

/* Prints notes that the file lacks: a merged one has no comments of ours. */
static void print_notes(const struct sw_options *options, const struct sw_import *import)
{
    const char *name = options->output != NULL ? options->output : options->into;
    if (name == NULL)
        return;
    for (int32_t i = 0; i < import->note_count; i++)
        fprintf(stderr, "%s: note: %s\n", name, import->note[i]);
}

/* Finds the accelerator of --accelerator, a shipped one or a file. *path: malloc'ed, the file as
 * named in a cluster file in `folder`. Returns an exit code. */
static int find_accelerator(const struct sw_options *options, const char *folder,
                            struct sw_import_accelerator *out, char **path, struct sw_error *err)
{
    const char *name = options->accelerator;
    *out = (struct sw_import_accelerator){.sheet = sw_catalog_find(name)};
    if (out->sheet != NULL)
        return SW_OK;
    if (access(name, R_OK) != 0) {
        char list[512] = "";
        size_t used = 0;
        for (const struct sw_catalog_entry *s = sw_catalog(); s->name != NULL && used < sizeof list;
             s++)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used > 0 ? ", " : "",
                                     s->name);
        sw_fail(err, SW_BAD_INPUT,
                "--accelerator: '%.200s' is none of %s, and no file that can be read: %s", name,
                list, strerror(errno));
        return sw_command_fail(err);
    }
    struct sw_config *config =
        sw_config_read(name, SW_CONFIG_ACCELERATOR, options->launchers, NULL, 0, err);
    if (config == NULL)
        return sw_command_fail(err);
    const int32_t errors = sw_command_diagnose(config, SW_NOTES_SHORT);
    if (errors == 0)
        out->sheet = sw_catalog_find(sw_config_accelerator(config)->name);
    sw_config_free(config);
    if (errors > 0)
        return SW_BAD_INPUT;
    *path = name[0] == '/' ? strdup(name) : sw_path_seen_from(folder, name);
    out->path = *path;
    if (*path != NULL)
        return SW_OK;
    sw_fail(err, SW_ENVIRONMENT, "out of memory while importing a cluster");
    return sw_command_fail(err);
}

static int import_cluster(const struct sw_options *options, struct sw_slurm *slurm,
                          struct sw_error *err)
{
    struct sw_slurm_facts facts = {0};
    struct sw_slurm_accounting accounting = {0};
    struct sw_import import = {0};
    const char *path = options->output != NULL ? options->output : options->into;
    char *folder = path != NULL ? sw_path_folder(path) : strdup("."), *text = NULL, *named = NULL;
    struct sw_import_accelerator accelerator = {0};
    int status = SW_OK;
    if (folder == NULL) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory while importing a cluster");
        status = sw_command_fail(err);
        goto out;
    }
    if (options->accelerator != NULL)
        status = find_accelerator(options, folder, &accelerator, &named, err);
    if (status != SW_OK)
        goto out;
    if (sw_slurm_load(slurm, &facts, err) != 0 ||
        sw_slurm_accounting_load(slurm, &accounting, err) != 0 ||
        sw_import_gather(slurm, &facts, &accounting, options->partition,
                         options->accelerator != NULL ? &accelerator : NULL, &import, err) != 0) {
        status = sw_command_fail(err);
        goto out;
    }
    text = make_text(options, &import, folder, err);
    if (text == NULL) {
        status = sw_command_fail(err);
        goto out;
    }
    /* an unknown accelerator's file has yet to be written */
    if (import.sheet != NULL || import.named || options->into != NULL)
        status = check(options, path != NULL ? path : "<imported>", text, err);
    if (status == SW_OK && write_text(options, &import, text, err) != 0)
        status = sw_command_fail(err);
    if (status == SW_OK)
        print_notes(options, &import);
out:
    free(named);
    free(text);
    free(folder);
    sw_import_free(&import);
    sw_slurm_accounting_free(&accounting);
    sw_slurm_facts_free(&facts);
    return status;
}

int sw_slurm_import_cluster(const struct sw_options *options)
{
    struct sw_error err = {0};
    struct stat there;
    if (options->file_count > 0) {
        sw_fail(&err, SW_BAD_INPUT,
                "import-cluster reads the controller, not a file: '%.60s'; did you mean '--into "
                "%.60s'?",
                options->files[0], options->files[0]);
        return sw_command_fail(&err);
    }
    if (options->output != NULL && options->into == NULL && stat(options->output, &there) == 0 &&
        S_ISREG(there.st_mode)) {
        sw_fail_at(&err, SW_BAD_INPUT, (struct sw_place){.file = options->output},
                   "already exists: --into %.200s merges, and keeps what was measured",
                   options->output);
        return sw_command_fail(&err);
    }
    struct sw_slurm *slurm = sw_slurm_open(SW_SLURM_AUTO, &err);
    if (slurm == NULL)
        return sw_command_fail(&err);
    const int status = import_cluster(options, slurm, &err);
    sw_slurm_close(slurm);
    return status;
}
