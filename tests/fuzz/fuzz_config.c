/* Any bytes as any kind of description, with the files that they name, and as what stands behind
 * --set. Every mistake has a place and one line; what is accepted is written, read back and written
 * again, with the same result. */
#include "core/config/config.h"
#include "planner/scheduler/scheduler.h"
#include "tests/fuzz/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What is remarkable about a run (a sequence beyond what the model is for) is as remarkable in its
 * copy; the copy gives no cause of its own. */
static bool was_noted(const struct sw_config *config, const struct sw_diagnostic *note)
{
    for (int32_t i = 0; i < sw_config_diagnostic_count(config); i++)
        if (strcmp(sw_config_diagnostic(config, i)->message, note->message) == 0)
            return note->is_note;
    return false;
}

/* Written twice, once from what was read back. */
static void check_run(const struct sw_config *config)
{
    const struct sw_run_config *run = sw_config_run(config);
    char *texts[2] = {NULL, NULL};
    size_t sizes[2] = {0, 0};
    struct sw_config *again = NULL;
    for (int i = 0; i < 2; i++) {
        FILE *out = open_memstream(&texts[i], &sizes[i]);
        fuzz_require(out != NULL, "no memory", "");
        sw_run_config_write(out, i == 0 ? run : sw_config_run(again), 0);
        fclose(out);
        if (i == 0) {
            again = sw_config_read_text("run", texts[0], sizes[0], SW_CONFIG_RUN, &sw_launchers,
                                        NULL, 0, NULL);
            fuzz_require(again != NULL && sw_config_run(again) != NULL,
                         "what was written is not accepted", texts[0]);
            for (int32_t n = 0; n < sw_config_diagnostic_count(again); n++)
                fuzz_require(was_noted(config, sw_config_diagnostic(again, n)),
                             "what was written has notes of its own",
                             sw_config_diagnostic(again, n)->message);
        }
    }
    fuzz_require(sizes[0] == sizes[1] && memcmp(texts[0], texts[1], sizes[0]) == 0,
                 "what was written reads back differently", texts[0]);
    sw_config_free(again);
    free(texts[0]);
    free(texts[1]);
}

/* As it is printed: its place and what is wrong in the first line, indented lines below. */
static void check_diagnostic(const struct sw_diagnostic *d)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    fuzz_require(out != NULL, "no memory", "");
    sw_diagnostic_print(out, d, false);
    fclose(out);
    fuzz_require(bytes > 0 && text[bytes - 1] == '\n', "no end of line", text);
    for (char *line = text, *end; line < text + bytes; line = end + 1) {
        end = strchr(line, '\n');
        fuzz_require(end != NULL, "a NUL in a message", text);
        *end = '\0';
        fuzz_require_plain(line);
        if (line != text)
            fuzz_require(strncmp(line, "    ", 4) == 0, "more than one line", line);
        else if (!d->is_note)
            fuzz_require_positioned(line);
    }
    fuzz_require(d->is_note || d->help != NULL || strstr(d->message, "; did you mean '") != NULL,
                 "an error that does not say what to do", text);
    free(text);
}

/* `text` is what stands in "text.yaml", which no other file names. */
static void check_config(struct sw_config *config, const char *text, size_t bytes,
                         const struct sw_error *err)
{
    int32_t lines = 2;                 /* libyaml ends the last one itself and points behind it */
    for (size_t i = 0; i < bytes; i++) /* \n, \r, and the last bytes of U+0085, U+2028, U+2029 */
        lines += strchr("\n\r\x85\xa8\xa9", text[i]) != NULL;
    fuzz_require(config != NULL, "no memory", err->message);
    const struct sw_diagnostic *before = NULL;
    for (int32_t i = 0; i < sw_config_diagnostic_count(config); i++) {
        const struct sw_diagnostic *d = sw_config_diagnostic(config, i);
        check_diagnostic(d);
        if (strcmp(d->file, "text.yaml") != 0)
            continue;
        fuzz_require(before == NULL || before->line < d->line ||
                         (before->line == d->line && before->column <= d->column),
                     "mistakes are not sorted", d->message);
        fuzz_require(d->line <= lines && (size_t)d->column <= bytes + 1, "a place behind the end",
                     d->message);
        before = d;
    }
    const int described = (sw_config_run(config) != NULL) + (sw_config_model(config) != NULL) +
                          (sw_config_cluster(config) != NULL) +
                          (sw_config_accelerator(config) != NULL) +
                          (sw_config_profile(config) != NULL) + (sw_config_curve(config) != NULL) +
                          (sw_config_fabric(config) != NULL);
    fuzz_require(described == (sw_config_error_count(config) == 0),
                 "no description and no error, or both", "");
    if (sw_config_run(config) != NULL)
        check_run(config);
    sw_config_free(config);
}

static void check_overrides(const char *text)
{
    static const char run[] =
        "{name: r, sequence_length: 8, global_batch_size: 8, model: {vocab_size: 256, hidden_size: "
        "64, intermediate_size: 128, num_hidden_layers: 2, num_attention_heads: 4}, cluster: "
        "{name: c, nodes: 1, accelerators_per_node: 1, accelerator: {name: a, device: cpu, memory: "
        "2 GB, peak: {fp32: 1 TFLOP/s}, memory_bandwidth: 10 GB/s}}}";
    struct sw_error err = {0};
    const struct sw_override twice[] = {{text}, {text}};
    check_config(sw_config_read_text("fuzz.yaml", run, sizeof run - 1, SW_CONFIG_RUN, &sw_launchers,
                                     twice, 2, &err),
                 "", 0, &err);
}

static void check_quantities(const char *text)
{
    for (const char *dimension = "Bbsf"; *dimension != '\0'; dimension++) {
        struct sw_error err = {0};
        double value = NAN;
        if (sw_quantity_parse(text, *dimension, &value, &err) == 0) {
            fuzz_require(isfinite(value), "a quantity that is not finite", text);
        } else {
            fuzz_require(err.status == SW_BAD_INPUT, "no mistake of the user", err.message);
            fuzz_require_plain(err.message);
        }
    }
}

void fuzz_one(const uint8_t *data, size_t bytes)
{
    int32_t count;
    struct sw_error err = {0};
    const struct fuzz_file *file = fuzz_files(data, bytes, &count);
    check_config(sw_config_read(file->name, SW_CONFIG_UNKNOWN, &sw_launchers, NULL, 0, &err), "", 0,
                 &err);
    check_config(sw_config_read_text("text.yaml", file->text, file->bytes,
                                     (enum sw_config_kind)(bytes % SW_CONFIG_UNKNOWN),
                                     &sw_launchers, NULL, 0, &err),
                 file->text, file->bytes, &err);
    /* as a program that starts no jobs reads it */
    sw_config_free(sw_config_read_text("text.yaml", file->text, file->bytes, SW_CONFIG_UNKNOWN,
                                       NULL, NULL, 0, &err));
    if (file->bytes < 4096) {
        check_overrides(file->text);
        check_quantities(file->text);
    }
}
