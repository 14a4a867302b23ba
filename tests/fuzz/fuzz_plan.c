/* Any bytes as a plan file: as they are, and with the digest that belongs to them, since anyone can
 * compute one. What is accepted is written, read back and written again, with the same result. */
#include "core/plan/internal.h"
#include "core/programs/compile.h"
#include "tests/fuzz/support.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static char *write_plan(const struct sw_plan *plan, size_t *bytes)
{
    char *text = NULL;
    struct sw_error err = {0};
    FILE *out = open_memstream(&text, bytes);
    fuzz_require(out != NULL, "no memory", "");
    fuzz_require(sw_plan_write(out, plan->run, &plan->inputs, &plan->decision, &plan->prediction,
                               plan->program_digest, NULL, &err) == 0,
                 "what was read cannot be written", err.message);
    fclose(out);
    return text;
}

static void check_error(const struct sw_error *err)
{
    fuzz_require(err->status == SW_BAD_INPUT, "no mistake of the user", err->message);
    fuzz_require_place(err->file, err->line, err->column, err->message);
}

/* What every user of a plan does next. */
static void check_use(const struct sw_plan *plan)
{
    struct sw_error err = {0};
    struct sw_program_options options;
    char detail[256] = "", help[256] = "";
    for (int32_t i = 0; i < plan->inputs.count; i++) {
        char *path = NULL;
        sw_plan_input_check("main.yaml", &plan->inputs.input[i], &path);
        free(path);
    }
    if (sw_plan_program_options(plan->run, &plan->decision, &options, &err) != 0) {
        check_error(&err);
        return;
    }
    const bool fits = sw_program_admits(&options, detail, help) == SW_FITS;
    fuzz_require(fits == (detail[0] == '\0'), "a refusal without a reason", detail);
    fuzz_require_plain(detail);
    fuzz_require_plain(help);
    struct sw_program *program = NULL;
    if (!fits)
        return;
    if (sw_program_compile(&options, SW_LAID_OUT, &program, &err) == 0)
        fuzz_require(program->arena_bytes > 0, "a program without memory", "");
    else
        fuzz_require(err.status == SW_BAD_INPUT || err.status == SW_UNMET, "no mistake of the user",
                     err.message);
    fuzz_require_plain(err.message);
    sw_program_free(program);
}

static void check_plan(const char *name)
{
    struct sw_plan plan, again;
    struct sw_error err = {0};
    if (sw_plan_read(name, NULL, &plan, &err) != 0) {
        check_error(&err);
        return;
    }
    size_t bytes = 0, same_bytes = 0;
    char *text = write_plan(&plan, &bytes);
    fuzz_add_file("again.yaml", text, bytes);
    if (sw_plan_read("again.yaml", NULL, &again, &err) != 0)
        fuzz_require(false, "what was written is not accepted", err.message);
    char *same = write_plan(&again, &same_bytes);
    fuzz_require(bytes == same_bytes && memcmp(text, same, bytes) == 0,
                 "what was written reads back differently", text);
    check_use(&plan);
    sw_plan_free(&plan);
    sw_plan_free(&again);
    free(text);
    free(same);
}

/* Puts the digest of what follows into a text that starts like a plan. */
static void sign(struct fuzz_file *file)
{
    const size_t at = strlen(SW_PLAN_HEAD), head = at + SW_PLAN_DIGEST_DIGITS;
    char digits[SW_PLAN_DIGEST_DIGITS + 1];
    if (file->bytes < head || memcmp(file->text, SW_PLAN_HEAD, strlen(SW_PLAN_HEAD)) != 0)
        return;
    snprintf(digits, sizeof digits, "%016" PRIx64,
             sw_plan_text_digest(file->text, file->bytes, at));
    memcpy(file->text + strlen(SW_PLAN_HEAD), digits, SW_PLAN_DIGEST_DIGITS);
}

void fuzz_one(const uint8_t *data, size_t bytes)
{
    int32_t count;
    struct fuzz_file *file = fuzz_files(data, bytes, &count);
    struct sw_plan plan;
    struct sw_error err = {0};
    if (sw_plan_read(file->name, NULL, &plan, &err) != 0)
        check_error(&err);
    else
        sw_plan_free(&plan);
    sign(file);
    check_plan(file->name);
}
