/* `plan runs`: the runs in a folder, a line each. */
#include "core/base/json.h"
#include "core/base/text.h"
#include "planner/command/command.h"
#include "planner/command/format.h"
#include "planner/job/show.h"
#include "planner/job/target.h"
#include "planner/job/watch.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COLUMNS = 7, CELL_BYTES = 64 };

struct row {
    char cell[COLUMNS][CELL_BYTES];
};
static const char *const titles[COLUMNS] = {"run", "state", "job", "step", "loss", "left", "saved"};

static void fill(struct row *row, const struct sw_run_status *s)
{
    char number[SW_FORMAT_BYTES];
    *row = (struct row){0};
    sw_text_shown(sw_show_name(s), CELL_BYTES - 4, row->cell[0]);
    snprintf(row->cell[1], CELL_BYTES, "%s%s", sw_run_state_name(s->state),
             s->never_starts                           ? " (never starts)"
             : s->slower && s->state == SW_RUN_RUNNING ? " (slow)"
             : sw_show_is_early(s)                     ? " (as asked)"
                                                       : "");
    snprintf(row->cell[2], CELL_BYTES, "%s", s->job_id);
    if (s->step > 0 || s->steps > 0)
        snprintf(row->cell[3], CELL_BYTES, "%" PRId64, s->step);
    if (s->steps > 0)
        snprintf(row->cell[3] + strlen(row->cell[3]), 24, "/%" PRId64, s->steps);
    if (isfinite(s->progress.loss))
        snprintf(row->cell[4], CELL_BYTES, "%.4g", s->progress.loss);
    if (s->left_seconds >= 0 && s->state == SW_RUN_RUNNING)
        snprintf(row->cell[5], CELL_BYTES, "%s", sw_format_duration(s->left_seconds, number));
    if (s->checkpoint_step >= 0)
        snprintf(row->cell[6], CELL_BYTES, "%" PRId64, s->checkpoint_step);
}

static void print_row(const struct row *row, const size_t width[COLUMNS], const char *folder)
{
    for (size_t c = 0; c < COLUMNS; c++)
        printf("%-*s  ", (int)width[c], row->cell[c][0] != '\0' ? row->cell[c] : "-");
    char shown[PATH_MAX + 4];
    printf("%s\n", sw_text_shown(folder, PATH_MAX, shown));
}

/* Returns the number of lines. */
static int32_t print_table(const struct sw_statuses *all, const struct sw_folders *folders)
{
    size_t width[COLUMNS];
    struct row head = {0}, *rows = calloc((size_t)all->count + 1, sizeof *rows);
    if (rows == NULL)
        return 0;
    for (size_t c = 0; c < COLUMNS; c++) {
        snprintf(head.cell[c], CELL_BYTES, "%s", titles[c]);
        width[c] = strlen(titles[c]);
    }
    for (int32_t i = 0; i < all->count; i++) {
        fill(&rows[i], &all->run[i]);
        for (size_t c = 0; c < COLUMNS; c++)
            if (strlen(rows[i].cell[c]) > width[c])
                width[c] = strlen(rows[i].cell[c]);
    }
    print_row(&head, width, "folder");
    for (int32_t i = 0; i < all->count; i++)
        print_row(&rows[i], width, folders->path[i]);
    free(rows);
    return all->count + 1;
}

static void print_json(const struct sw_statuses *all, enum sw_json_style style)
{
    struct sw_json j = {.out = stdout, .style = style};
    sw_json_object(&j, NULL);
    sw_json_text(&j, "schema", "shardwright.runs/2");
    sw_json_array(&j, "runs");
    for (int32_t i = 0; i < all->count; i++)
        sw_show_json(&j, false, &all->run[i], "");
    sw_json_end(&j);
    sw_json_text(&j, "trouble", all->trouble.status != SW_OK ? all->trouble.message : NULL);
    sw_json_end(&j);
    putchar('\n');
}

static bool any_is_live(const struct sw_statuses *all)
{
    for (int32_t i = 0; i < all->count; i++)
        if (!sw_status_is_over(&all->run[i]))
            return true;
    return false;
}

/* Prints them repeatedly until none is live. */
static int watch(struct sw_statuses *all, const struct sw_folders *folders, bool json)
{
    const bool terminal = isatty(STDOUT_FILENO);
    struct sw_watch pace = {0};
    struct sw_error err = {0};
    double shown_at = -1;
    for (int32_t lines = 0;;) {
        if (sw_watch_look(&pace, all, &err) != 0)
            return sw_command_fail(&err);
        if (terminal && !json && lines > 0)
            printf("\033[%dA\033[J", (int)lines);
        if (json && pace.next != shown_at)
            print_json(all, SW_JSON_LINE);
        else if (!json && (terminal || pace.next != shown_at))
            lines = print_table(all, folders);
        shown_at = pace.next;
        if (fflush(stdout) != 0 || !any_is_live(all))
            return SW_OK;
        sw_watch_wait();
    }
}

int sw_command_runs(const struct sw_options *options)
{
    struct sw_folders folders = {0};
    struct sw_statuses all = {0};
    struct sw_error err = {0};
    int status = SW_OK;
    const char *root = options->file_count > 0 ? options->files[0] : ".";
    if (options->file_count > 1) {
        sw_fail(&err, SW_BAD_INPUT, "one folder at a time, as in 'plan runs runs'");
        return sw_command_fail(&err);
    }
    if (sw_folders_find(root, &folders, &err) != 0 ||
        sw_statuses_read((const char *const *)folders.path, folders.count, &all, &err) != 0) {
        status = sw_command_fail(&err);
        goto out;
    }
    if (folders.count == 0 && !options->json)
        fprintf(stderr, "no run in '%s' or below it\n", root);
    if (options->watch && folders.count > 0) {
        status = watch(&all, &folders, options->json);
        goto out;
    }
    if (sw_statuses_ask(&all, SW_WATCH_ASK_SECONDS, &err) != 0) {
        status = sw_command_fail(&err);
        goto out;
    }
    if (options->json)
        print_json(&all, SW_JSON_TABS);
    else if (folders.count > 0)
        (void)print_table(&all, &folders);
    if (all.trouble.status != SW_OK) {
        fflush(stdout);
        status = sw_command_fail(&all.trouble);
    }
out:
    sw_statuses_free(&all);
    sw_folders_free(&folders);
    return status;
}
