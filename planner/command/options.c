#include "planner/command/options.h"

#include "core/base/arguments.h"
#include "core/base/text.h"
#include "core/ir/program.h"
#include "planner/command/command.h"

#include <string.h>

static int take_program(const struct sw_argument *row, void *to, const char *name,
                        struct sw_error *err)
{
    struct sw_options *out = to;
    const char *names[SW_PROGRAM_KINDS];
    (void)row;
    out->program = true;
    for (int32_t k = 0; k < SW_PROGRAM_KINDS && name != NULL; k++) {
        names[k] = sw_program_kind_name((enum sw_program_kind)k);
        out->program_kind = (enum sw_program_kind)k;
        if (strcmp(name, names[k]) == 0)
            return 0;
    }
    if (name == NULL)
        return 0;
    const char *near = sw_text_nearest(name, names, SW_PROGRAM_KINDS);
    if (near != NULL)
        return sw_fail(err, SW_BAD_INPUT, "no program '%.40s'; did you mean '%s'?", name, near);
    return sw_fail(err, SW_BAD_INPUT,
                   "no program '%.40s'; use train, evaluate, save, prefill, decode, score or read",
                   name);
}

static int take_format(const struct sw_argument *row, void *to, const char *value,
                       struct sw_error *err)
{
    struct sw_options *out = to;
    (void)row;
    (void)err;
    out->github = strcmp(value, "github") == 0;
    return out->github || strcmp(value, "text") == 0 ? 0 : -1;
}

static int take_fail_if(const struct sw_argument *row, void *to, const char *value,
                        struct sw_error *err)
{
    struct sw_options *out = to;
    (void)row;
    if (out->fail_if_count == SW_MAX_FAIL_IF)
        return sw_fail(err, SW_BAD_INPUT, "more than %d times --fail-if", SW_MAX_FAIL_IF);
    out->fail_if[out->fail_if_count++] = value;
    return 0;
}

static int take_budget(const struct sw_argument *row, void *to, const char *value,
                       struct sw_error *err)
{
    struct sw_options *out = to;
    (void)row;
    if (out->budget_count == SW_MAX_BUDGETS)
        return sw_fail(err, SW_BAD_INPUT, "more than %d times --budget", SW_MAX_BUDGETS);
    out->budget[out->budget_count++] = value;
    return 0;
}

static int take_set(const struct sw_argument *row, void *to, const char *value,
                    struct sw_error *err)
{
    struct sw_options *out = to;
    (void)row;
    if (out->override_count == SW_MAX_OVERRIDES)
        return sw_fail(err, SW_BAD_INPUT, "more than %d times --set", SW_MAX_OVERRIDES);
    if (strchr(value, '=') == NULL)
        return sw_fail(err, SW_BAD_INPUT,
                       "--set needs KEY=VALUE, as in --set global_batch_size=64, not '%.60s'",
                       value);
    out->override[out->override_count++].text = value;
    return 0;
}

const struct sw_word sw_collective_words[] = {
    {"all_reduce", SW_ALL_REDUCE, NULL},
    {"all_gather", SW_ALL_GATHER, NULL},
    {"reduce_scatter", SW_REDUCE_SCATTER, NULL},
    {"alltoall", SW_ALL_TO_ALL, NULL},
    {"all_to_all", SW_ALL_TO_ALL, "as other benchmarks spell it"},
    {NULL, 0, NULL}};

#define INTO(member) SW_ARGUMENT_TO(struct sw_options, member)
static const struct sw_argument table[] = {
    {"--mesh_dim", NULL, "M",
     "auto, or dp,fsdp,tp,sp as in 1,64,1,1 or 1,-1,8,1, or names as in tp:8,fsdp:-1",
     INTO(mesh_dim), .empty = SW_EMPTY_TAKEN, .bit = SW_OPTION_MESH_DIM},
    {"--for", NULL, "train|serve",
     "rank meshes by training speed, or by decode latency with the 'serve' settings of the run; "
     "default: as 'job' in the run says",
     .is_choice = true, INTO(purpose), .bit = SW_OPTION_FOR},
    {"--prefer", NULL, "fsdp|fsdp-strict|time|cost",
     "fsdp (default): the largest fsdp within 5 % (prefer_within) of the fastest; fsdp-strict: the "
     "largest that fits; time: the fastest; cost: of the numbers of nodes that the run may have, "
     "the "
     "one with the fewest accelerator-hours",
     .is_choice = true, INTO(prefer), .bit = SW_OPTION_PREFER},
    {"--nodes", NULL, "LIST",
     "compare numbers of nodes: when the whole run would end on each, and what it would cost; "
     "4..64, 6,8,12 or 4..64:4",
     INTO(nodes), .bit = SW_OPTION_FRONTIER},
    {"--budget", NULL, "AMOUNT",
     "the most that the run may cost: '2000 GPU-hours', '5000 USD', '300 kWh'; may be repeated",
     .take = take_budget, .kind = SW_ARGUMENT_OTHER, .bit = SW_OPTION_FRONTIER},
    {"--deadline", NULL, "TIME",
     "when the run must have ended, if it starts now: '36 h', 1-12:00:00, 2026-12-24T08:00",
     INTO(deadline), .bit = SW_OPTION_FRONTIER},
    {"--stage", NULL, "NAME", "this one of the run's stages alone, default all", INTO(stage),
     .bit = SW_OPTION_STAGE},
    {"--top", NULL, "N", "list the best N meshes", .least = 1, INTO(top), .bit = SW_OPTION_TOP},
    {"--rejected", NULL, NULL, "list the meshes that do not fit, with reasons", INTO(rejected),
     .bit = SW_OPTION_REJECTED},
    {"--json", NULL, NULL, "JSON instead of text", INTO(json), .bit = SW_OPTION_JSON},
    {"--program", NULL, "[NAME]",
     "the program that every rank runs: train, evaluate, save, prefill, decode, score or read",
     .take = take_program, .empty = SW_EMPTY_TAKEN, .kind = SW_ARGUMENT_OTHER,
     .bit = SW_OPTION_PROGRAM},
    {"--sources", NULL, NULL,
     "the constants behind the predicted time: value, source, share of the time, error",
     INTO(sources), .bit = SW_OPTION_SOURCES},
    {"--html", NULL, "FILE", "one page with pictures, for a browser", INTO(html),
     .bit = SW_OPTION_HTML},
    {"--output", "-o", "PATH", "folder for the files, default .", INTO(output),
     .bit = SW_OPTION_OUTPUT},
    {"--output", "-o", "PATH", "the file, default standard output", INTO(output),
     .bit = SW_OPTION_OUTPUT_FILE},
    {"--partition", NULL, "NAME", "another partition than the default one", INTO(partition),
     .bit = SW_OPTION_PARTITION},
    {"--into", NULL, "FILE",
     "update this cluster file, and keep what was measured or written by hand", INTO(into),
     .bit = SW_OPTION_INTO},
    {"--accelerator", NULL, "NAME",
     "the accelerator, where the scheduler does not tell: a shipped one, or a file of one",
     INTO(accelerator), .bit = SW_OPTION_ACCELERATOR},
    {"--dry-run", NULL, NULL,
     "submit nothing: ask when and where the best plans would start, and when they would be done",
     INTO(dry_run), .bit = SW_OPTION_DRY_RUN},
    {"--soonest", NULL, NULL,
     "take the nodes, partition and mesh that finish first, queue time included", INTO(soonest),
     .bit = SW_OPTION_SOONEST},
    {"--force", NULL, NULL,
     "submit even where files that the job needs are not found here, since only the nodes see them",
     INTO(force), .bit = SW_OPTION_FORCE},
    {"--template", NULL, "FILE", "use this script template", INTO(template_path),
     .bit = SW_OPTION_TEMPLATE},
    {"--set", NULL, "KEY=VALUE", "override a value of the run file; may be repeated",
     .take = take_set, .kind = SW_ARGUMENT_OTHER, .bit = SW_OPTION_SET},
    {"--markdown", NULL, NULL, "Markdown, for a comment on a pull request or a page",
     INTO(markdown), .bit = SW_OPTION_MARKDOWN},
    {"--fail-if", NULL, "CONDITION",
     "exit 1 when it holds for a plan that changed: 'tokens_per_second < -5%'; may be repeated",
     .take = take_fail_if, .kind = SW_ARGUMENT_OTHER, .bit = SW_OPTION_FAIL_IF},
    {"--fail-all", NULL, NULL, "test the plans that did not change, too", INTO(fail_all),
     .bit = SW_OPTION_FAIL_ALL},
    {"--collective", NULL, "all_reduce|all_gather|reduce_scatter|alltoall",
     "what nccl-tests ran, where neither its output nor the file's name says",
     .words = sw_collective_words, INTO(collective), .bit = SW_OPTION_COLLECTIVE},
    {"--format", NULL, "text|github", "github: annotations of a workflow", .take = take_format,
     .kind = SW_ARGUMENT_OTHER, .bit = SW_OPTION_FORMAT},
    {"--report", NULL, NULL, "say where the run's accelerator-hours went", INTO(report),
     .bit = SW_OPTION_REPORT},
    {"--watch", NULL, NULL, "print the status again whenever it changes, until all has ended",
     INTO(watch), .bit = SW_OPTION_WATCH},
    {"--follow", "-f", NULL, "keep printing new lines, until the run ends", INTO(follow),
     .bit = SW_OPTION_FOLLOW},
    {"--lines", "-n", "N", "begin with the last N lines, default 20", INTO(lines),
     .bit = SW_OPTION_LINES},
    {"--now", NULL, NULL, "end it at once, without a checkpoint", INTO(now), .bit = SW_OPTION_NOW},
    {.name = NULL}};
#undef INTO

void sw_options_help(FILE *out, uint32_t accepted)
{
    sw_arguments_help(out, table, accepted);
    sw_arguments_help_line(out, "-h, --help", "this help");
}

int sw_options_parse(const char *command, int argc, char **argv, uint32_t accepted,
                     struct sw_options *out, struct sw_error *err)
{
    *out = (struct sw_options){.top = -1, .lines = -1, .collective = -1};
    struct sw_command_line line = {.tool = "plan",
                                   .command = command,
                                   .options = table,
                                   .accepted = accepted,
                                   .to = out,
                                   .most_files = INT32_MAX};
    const int status = sw_arguments_parse(argc, argv, &line, err);
    out->files = line.files;
    out->file_count = line.file_count;
    return status;
}
