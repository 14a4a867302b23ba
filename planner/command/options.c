#include "planner/command/options.h"

#include "core/base/arguments.h"
#include "core/base/text.h"
#include "core/program/program.h"
#include "planner/command/command.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* How a value is kept in struct sw_options: a bool, a text, one that is not empty. */
enum kept { IS_OTHER, IS_FLAG, IS_TEXT, IS_NAME };

static const struct option_info {
    const char *name, *other; /* other spelling, NULL: none */
    const char *value;        /* what the help calls it; NULL: takes none; [..]: may take one */
    uint32_t bit;
    const char *about;
    enum kept kept;
    size_t offset;
    const char *needs; /* IS_NAME: what an empty value is not */
} table[] = {
#define OTHER IS_OTHER, 0, NULL
#define FLAG(member) IS_FLAG, offsetof(struct sw_options, member), NULL
#define TEXT(member) IS_TEXT, offsetof(struct sw_options, member), NULL
#define NAME(member, needs) IS_NAME, offsetof(struct sw_options, member), needs
    {"--mesh_dim", "--mesh-dim", "M", SW_OPTION_MESH_DIM,
     "auto, or dp,fsdp,tp,sp as in 1,64,1,1 or 1,-1,8,1, or names as in tp:8,fsdp:-1",
     TEXT(mesh_dim)},
    {"--for", NULL, "train|serve", SW_OPTION_FOR,
     "what meshes are ranked for: training, or serving (decode latency) as 'serve' of the run "
     "says; default: as 'job'",
     OTHER},
    {"--prefer", NULL, "fsdp|fsdp-strict|time", SW_OPTION_PREFER,
     "largest fsdp that is nearly as fast as any (prefer_within of the run), largest that fits, or "
     "fastest",
     OTHER},
    {"--top", NULL, "N", SW_OPTION_TOP, "list the best N meshes", OTHER},
    {"--rejected", NULL, NULL, SW_OPTION_REJECTED, "list the meshes that do not fit, with reasons",
     FLAG(rejected)},
    {"--json", NULL, NULL, SW_OPTION_JSON, "JSON instead of text", FLAG(json)},
    {"--program", NULL, "[NAME]", SW_OPTION_PROGRAM,
     "the program that every rank runs: train, evaluate, save, prefill, decode or score", OTHER},
    {"--sources", NULL, NULL, SW_OPTION_SOURCES,
     "the constants that the time rests on: value, where it stands, share of the time, error",
     FLAG(sources)},
    {"--html", NULL, "FILE", SW_OPTION_HTML, "one page with pictures, for a browser",
     NAME(html, "a file")},
    {"--output", "-o", "PATH", SW_OPTION_OUTPUT, "folder for the files, default .",
     NAME(output, "a path")},
    {"--partition", NULL, "NAME", SW_OPTION_PARTITION, "another partition than the default one",
     NAME(partition, "a name")},
    {"--into", NULL, "FILE", SW_OPTION_INTO,
     "bring this cluster file up to date, and keep what was measured or written by hand",
     NAME(into, "a file")},
    {"--dry-run", NULL, NULL, SW_OPTION_DRY_RUN,
     "submit nothing: ask when and where the best plans would start, and when they would be done",
     FLAG(dry_run)},
    {"--soonest", NULL, NULL, SW_OPTION_SOONEST,
     "take the nodes, partition and mesh whose result is there first, waiting included",
     FLAG(soonest)},
    {"--force", NULL, NULL, SW_OPTION_FORCE,
     "submit though files that the job needs are not here: only the nodes see them", FLAG(force)},
    {"--template", NULL, "FILE", SW_OPTION_TEMPLATE, "another script template",
     TEXT(template_path)},
    {"--set", NULL, "KEY=VALUE", SW_OPTION_SET, "override a value of the run file; may be repeated",
     OTHER},
    {"--markdown", NULL, NULL, SW_OPTION_MARKDOWN,
     "Markdown, for a comment on a pull request or a page", FLAG(markdown)},
    {"--fail-if", NULL, "CONDITION", SW_OPTION_FAIL_IF,
     "exit 1 when it holds for a plan that changed: 'tokens_per_second < -5%'; may be repeated",
     OTHER},
    {"--fail-all", NULL, NULL, SW_OPTION_FAIL_ALL, "judge the plans that did not change, too",
     FLAG(fail_all)},
    {"--collective", NULL, "NAME", SW_OPTION_COLLECTIVE,
     "what nccl-tests ran, where neither its output nor the file's name tells: all_reduce, "
     "all_gather, reduce_scatter or alltoall",
     NAME(collective, "a name")},
    {"--format", NULL, "text|github", SW_OPTION_FORMAT, "github: annotations of a workflow", OTHER},
    {"--watch", NULL, NULL, SW_OPTION_WATCH, "tell it again whenever it changes, until it ends",
     FLAG(watch)},
    {"--follow", "-f", NULL, SW_OPTION_FOLLOW, "go on with what is written, until the run ends",
     FLAG(follow)},
    {"--lines", "-n", "N", SW_OPTION_LINES, "begin with the last N lines, default 20", OTHER},
    {"--now", NULL, NULL, SW_OPTION_NOW, "end it at once, without a checkpoint", FLAG(now)},
    {"--help", "-h", NULL, SW_OPTION_HELP, "this help", FLAG(help)},
#undef OTHER
#undef FLAG
#undef TEXT
#undef NAME
};
enum { OPTIONS = sizeof table / sizeof table[0] };

void sw_options_help(FILE *out, uint32_t accepted)
{
    for (size_t i = 0; i < OPTIONS; i++) {
        char spelling[48];
        if ((accepted & table[i].bit) == 0)
            continue;
        const bool is_short = table[i].other != NULL && table[i].other[1] != '-';
        snprintf(spelling, sizeof spelling, "%s%s%s%s%s", is_short ? table[i].other : "",
                 is_short ? ", " : "", table[i].name, table[i].value != NULL ? " " : "",
                 table[i].value != NULL ? table[i].value : "");
        /* of import-cluster it is a file */
        const bool file = table[i].bit == SW_OPTION_OUTPUT && (accepted & SW_OPTION_INTO) != 0;
        sw_arguments_help_line(out, spelling,
                               file ? "the file, default standard output" : table[i].about);
    }
}

/* The option that an argument spells, with its '=value' if there is one. */
static const struct option_info *find(const char *argument, const char **value)
{
    const size_t length = strcspn(argument, "=");
    *value = argument[length] == '=' ? argument + length + 1 : NULL;
    for (size_t i = 0; i < OPTIONS; i++) {
        const char *names[2] = {table[i].name, table[i].other};
        for (size_t k = 0; k < 2; k++)
            if (names[k] != NULL && strlen(names[k]) == length &&
                memcmp(names[k], argument, length) == 0)
                return &table[i];
    }
    return NULL;
}

static int fail_unknown(const char *command, const char *argument, uint32_t accepted,
                        struct sw_error *err)
{
    const char *names[OPTIONS];
    char name[64];
    int32_t count = 0;
    for (size_t i = 0; i < OPTIONS; i++)
        if (accepted & table[i].bit)
            names[count++] = table[i].name;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(argument, "="), argument);
    const char *near = sw_text_nearest(name, names, count);
    if (near != NULL)
        return sw_fail(err, SW_BAD_INPUT, "unknown option '%s'; did you mean '%s'?", name, near);
    return sw_fail(err, SW_BAD_INPUT, "unknown option '%s'; see 'plan %s --help'", name, command);
}

/* The value of an option that need not have one: a word, which no file is. */
static bool is_word(const char *argument)
{
    return argument[0] != '\0' && argument[0] != '-' && strpbrk(argument, "./") == NULL;
}

static int choose_program(const char *name, enum sw_program_kind *out, struct sw_error *err)
{
    const char *names[SW_PROGRAM_KINDS];
    for (int32_t k = 0; k < SW_PROGRAM_KINDS; k++) {
        names[k] = sw_program_kind_name((enum sw_program_kind)k);
        *out = (enum sw_program_kind)k;
        if (strcmp(name, names[k]) == 0)
            return 0;
    }
    const char *near = sw_text_nearest(name, names, SW_PROGRAM_KINDS);
    if (near != NULL)
        return sw_fail(err, SW_BAD_INPUT, "no program '%.40s'; did you mean '%s'?", name, near);
    return sw_fail(err, SW_BAD_INPUT,
                   "no program '%.40s'; use train, evaluate, save, prefill, decode or score", name);
}

static int read_number(const char *name, const char *value, int64_t least, int64_t *out,
                       struct sw_error *err)
{
    char *stop;
    errno = 0;
    *out = strtoll(value, &stop, 10);
    if (stop == value || *stop != '\0' || errno != 0 || *out < least)
        return sw_fail(err, SW_BAD_INPUT, "%s needs a number from %d, not '%.40s'", name,
                       (int)least, value);
    return 0;
}

static int add_override(const char *value, struct sw_options *out, struct sw_error *err)
{
    if (out->override_count == SW_MAX_OVERRIDES)
        return sw_fail(err, SW_BAD_INPUT, "more than %d times --set", SW_MAX_OVERRIDES);
    if (strchr(value, '=') == NULL)
        return sw_fail(err, SW_BAD_INPUT,
                       "--set needs KEY=VALUE, as in --set global_batch_size=64, not '%.60s'",
                       value);
    out->override[out->override_count++].text = value;
    return 0;
}

static int store(const struct option_info *info, const char *value, struct sw_options *out,
                 struct sw_error *err)
{
    char *const to = (char *)out + info->offset;
    if (info->kept == IS_FLAG) {
        *(bool *)to = true;
        return 0;
    }
    if (info->kept != IS_OTHER) {
        *(const char **)to = value;
        return info->kept == IS_TEXT || *value != '\0'
                   ? 0
                   : sw_fail(err, SW_BAD_INPUT, "%s needs %s", info->name, info->needs);
    }
    switch (info->bit) {
    case SW_OPTION_PROGRAM:
        out->program = true;
        return value == NULL ? 0 : choose_program(value, &out->program_kind, err);
    case SW_OPTION_FORMAT:
        out->github = strcmp(value, "github") == 0;
        if (out->github || strcmp(value, "text") == 0)
            return 0;
        return sw_fail(err, SW_BAD_INPUT, "--format is text or github, not '%.40s'", value);
    case SW_OPTION_FAIL_IF:
        if (out->fail_if_count == SW_MAX_FAIL_IF)
            return sw_fail(err, SW_BAD_INPUT, "more than %d times --fail-if", SW_MAX_FAIL_IF);
        out->fail_if[out->fail_if_count++] = value;
        return 0;
    case SW_OPTION_PREFER:
        out->prefer = value;
        for (int32_t i = 0; sw_prefer_words[i] != NULL; i++)
            if (strcmp(value, sw_prefer_words[i]) == 0)
                return 0;
        return sw_fail(err, SW_BAD_INPUT, "--prefer is fsdp, fsdp-strict or time, not '%.40s'",
                       value);
    case SW_OPTION_FOR:
        out->purpose = value;
        if (strcmp(value, "serve") == 0 || strcmp(value, "train") == 0)
            return 0;
        return sw_fail(err, SW_BAD_INPUT, "--for is train or serve, not '%.40s'", value);
    case SW_OPTION_TOP:
        return read_number("--top", value, 1, &out->top, err);
    case SW_OPTION_LINES:
        return read_number("--lines", value, 0, &out->lines, err);
    default: /* --set */
        return add_override(value, out, err);
    }
}

int sw_options_parse(const char *command, int argc, char **argv, uint32_t accepted,
                     struct sw_options *out, struct sw_error *err)
{
    bool only_files = false;
    memset(out, 0, sizeof *out);
    out->top = -1;
    out->lines = -1;
    out->files = argv;
    for (int i = 0; i < argc; i++) {
        const char *argument = argv[i], *value;
        if (only_files || argument[0] != '-' || argument[1] == '\0') {
            argv[out->file_count++] = argv[i];
            continue;
        }
        if (strcmp(argument, "--") == 0) {
            only_files = true;
            continue;
        }
        const struct option_info *info = find(argument, &value);
        if (info == NULL)
            return fail_unknown(command, argument, accepted, err);
        if ((accepted & info->bit) == 0)
            return sw_fail(err, SW_BAD_INPUT, "'plan %s' has no option '%s'; see 'plan %s --help'",
                           command, info->name, command);
        if (info->value == NULL && value != NULL)
            return sw_fail(err, SW_BAD_INPUT, "option '%s' takes no value", info->name);
        if (info->value != NULL && value == NULL) {
            const bool may = info->value[0] == '[';
            if (!may && i + 1 >= argc)
                return sw_fail(err, SW_BAD_INPUT, "option '%s' needs a value: %s", info->name,
                               info->value);
            if (!may || (i + 1 < argc && is_word(argv[i + 1])))
                value = argv[++i];
        }
        if (store(info, value, out, err) != 0)
            return -1;
    }
    return 0;
}
