/* Any template, and any value in it. A value that reaches a shell's line is one word there,
 * whatever it holds; a mistake has its place. */
#include "planner/command/template.h"
#include "planner/scheduler/slurm/job_script.h"
#include "tests/fuzz/support.h"

#include <stdlib.h>
#include <string.h>

/* The word that a POSIX shell makes of `text`, in its place; false: it would see more than a word.
 */
static bool read_word(char *text)
{
    char *to = text;
    for (const char *p = text; *p != '\0';) {
        if (*p == '\'') {
            const char *end = strchr(p + 1, '\'');
            if (end == NULL)
                return false;
            memmove(to, p + 1, (size_t)(end - p - 1));
            to += end - p - 1;
            p = end + 1;
        } else if (p[0] == '\\' && p[1] != '\0') {
            *to++ = p[1];
            p += 2;
        } else if (strchr(" \t\n\"\\$`*?[]#~&|;<>(){}!", *p) != NULL) {
            return false;
        } else {
            *to++ = *p++;
        }
    }
    *to = '\0';
    return true;
}

/* The option that sbatch reads: a value in double quotes, where a backslash takes the next
 * character as it is, or one without quotes, spaces and comments. */
static bool read_option(char *text)
{
    char *to = text;
    const char *p = text;
    if (*p != '"')
        return strpbrk(p, " \t\n#\"'\\") == NULL;
    for (p++; *p != '"'; p++) {
        if (*p == '\\')
            p++;
        if (*p == '\0')
            return false;
        *to++ = *p;
    }
    *to = '\0';
    return p[1] == '\0';
}

static void check_error(const struct sw_error *err)
{
    fuzz_require(err->status == SW_BAD_INPUT, "no mistake of the user", err->message);
    fuzz_require_place(err->file, err->line, err->column, err->message);
}

static void check_value(const char *value)
{
    const struct sw_template_value values[] = {{.name = "v", .value = value}, {.name = NULL}};
    struct sw_error err = {0};
    bool control = false;
    for (const unsigned char *p = (const unsigned char *)value; *p != 0; p++)
        control = control || *p < 0x20 || *p == 0x7f;
    char *shell = sw_template_fill("t", "v={{v}}", values, sw_slurm_script.dialect, &err);
    char *sbatch = sw_template_fill("t", "#SBATCH -v={{v}}", values, sw_slurm_script.dialect, &err);
    fuzz_require((shell == NULL) == control && (sbatch == NULL) == control, "a control character",
                 value);
    if (control) {
        check_error(&err);
        return;
    }
    fuzz_require(strncmp(shell, "v=", 2) == 0 && read_word(shell + 2) &&
                     strcmp(shell + 2, value) == 0,
                 "a shell would read another value", value);
    fuzz_require(strncmp(sbatch, "#SBATCH -v=", 11) == 0 && read_option(sbatch + 11) &&
                     strcmp(sbatch + 11, value) == 0,
                 "sbatch would read another value", value);
    free(shell);
    free(sbatch);
}

void fuzz_one(const uint8_t *data, size_t bytes)
{
    int32_t count;
    const struct fuzz_file *file = fuzz_files(data, bytes, &count);
    const struct sw_template_value values[] = {
        {.name = "name", .value = count > 1 ? file[1].text : "run"},
        {.name = "slurm.qos"},
        {.name = "nodes", .value = "4"},
        {.name = "setup", .value = "a\nb\n", .kind = SW_TEMPLATE_LINES},
        {.name = "directives", .value = "#SBATCH --x\n", .kind = SW_TEMPLATE_DIRECTIVES},
        {.name = "srun_options", .value = "--x", .kind = SW_TEMPLATE_WORDS},
        {.name = NULL}};
    struct sw_error err = {0};
    char *filled = sw_template_fill("main.yaml", file->text, values, sw_slurm_script.dialect, &err);
    if (filled == NULL)
        check_error(&err);
    free(filled);
    check_value(file[count - 1].text);
}
