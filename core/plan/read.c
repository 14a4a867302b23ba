/* Reads a plan file back. The digest is checked first, so what follows is what sw_plan_write wrote;
 * it is parsed strictly all the same, since anyone can compute a digest. */
#include "core/plan/internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PLAN_BYTES = 16 << 20, MAX_LINE = 128 };

struct reader {
    const char *path, *at, *end;
    int32_t line;
    struct sw_error *err;
};

static int fail_at(const struct reader *r, const char *what)
{
    return sw_fail_at(r->err, SW_BAD_INPUT, (struct sw_place){r->path, r->line, 1},
                      "%s; write the plan again with 'plan emit'", what);
}

static int read_file(const char *path, char **text, size_t *bytes, struct sw_error *err)
{
    int status = -1;
    char *buffer = NULL;
    size_t used = 0, capacity = 1 << 16;
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return sw_fail_at(err, errno == ENOMEM ? SW_ENVIRONMENT : SW_BAD_INPUT,
                          (struct sw_place){.file = path}, "cannot open the plan: %s",
                          strerror(errno));
    for (;;) {
        char *grown = realloc(buffer, capacity + 1);
        if (grown == NULL) {
            sw_fail_at(err, SW_ENVIRONMENT, (struct sw_place){.file = path},
                       "out of memory while reading the plan");
            goto out;
        }
        buffer = grown;
        errno = 0;
        used += fread(buffer + used, 1, capacity - used, file);
        if (ferror(file)) {
            sw_fail_at(err, errno == EISDIR ? SW_BAD_INPUT : SW_ENVIRONMENT,
                       (struct sw_place){.file = path}, "cannot read the plan: %s",
                       strerror(errno));
            goto out;
        }
        if (used < capacity)
            break;
        if (capacity >= MAX_PLAN_BYTES) {
            sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = path},
                       "larger than a plan ever is");
            goto out;
        }
        capacity *= 2;
    }
    buffer[used] = '\0';
    *text = buffer;
    *bytes = used;
    buffer = NULL;
    status = 0;
out:
    free(buffer);
    fclose(file);
    return status;
}

static int verify(const struct reader *r, const char *text, size_t bytes, uint64_t *digest)
{
    const size_t head = strlen(SW_PLAN_HEAD);
    if (bytes < head + SW_PLAN_DIGEST_DIGITS + 2 || memcmp(text, SW_PLAN_HEAD, head) != 0)
        return sw_fail_at(r->err, SW_BAD_INPUT, (struct sw_place){r->path, 1, 1},
                          "this is no plan of this version; write one with 'plan emit'");
    char expected[SW_PLAN_DIGEST_DIGITS + 1];
    *digest = sw_plan_text_digest(text, bytes);
    snprintf(expected, sizeof expected, "%016" PRIx64, *digest);
    if (memcmp(text + head, expected, SW_PLAN_DIGEST_DIGITS) == 0)
        return 0;
    char found[SW_PLAN_DIGEST_DIGITS + 1] = ""; /* only digits are shown: it may be any bytes */
    memcpy(found, text + head, SW_PLAN_DIGEST_DIGITS);
    const bool digits = strspn(found, "0123456789abcdef") == SW_PLAN_DIGEST_DIGITS;
    return sw_fail_at(r->err, SW_BAD_INPUT, (struct sw_place){r->path, 3, 10},
                      "the plan was changed after it was written: its digest is "
                      "%s%s%s, its content's is '%s'; edit the run file and write the plan again "
                      "with 'plan emit'",
                      digits ? "'" : "", digits ? found : "not 16 hexadecimal digits",
                      digits ? "'" : "", expected);
}

/* The rest of the next line if it starts with `key`; quotes around the value are taken off. */
static int next_value(struct reader *r, const char *key, char value[MAX_LINE])
{
    const char *stop = memchr(r->at, '\n', (size_t)(r->end - r->at));
    const size_t wanted = strlen(key);
    r->line++;
    if (stop == NULL || (size_t)(stop - r->at) < wanted || memcmp(r->at, key, wanted) != 0 ||
        (size_t)(stop - r->at) - wanted >= MAX_LINE) {
        char what[MAX_LINE];
        snprintf(what, sizeof what, "expected '%s'", key);
        return fail_at(r, what);
    }
    const char *from = r->at + wanted;
    size_t length = (size_t)(stop - from);
    if (length >= 2 && from[0] == '\'' && from[length - 1] == '\'') {
        from++;
        length -= 2;
    }
    memcpy(value, from, length);
    value[length] = '\0';
    r->at = stop + 1;
    return 0;
}

static int next_integer(struct reader *r, const char *key, int64_t minimum, int64_t *out)
{
    char value[MAX_LINE], *stop;
    if (next_value(r, key, value) != 0)
        return -1;
    errno = 0;
    *out = strtoll(value, &stop, 10);
    if (stop == value || *stop != '\0' || errno != 0 || *out < minimum)
        return fail_at(r, "a number is out of range");
    return 0;
}

static int next_word(struct reader *r, const char *key, const char *const *words, int32_t count,
                     int32_t *out)
{
    char value[MAX_LINE];
    if (next_value(r, key, value) != 0)
        return -1;
    for (*out = 0; *out < count; (*out)++)
        if (strcmp(value, words[*out]) == 0)
            return 0;
    return fail_at(r, "unknown word");
}

static int next_mesh(struct reader *r, struct sw_mesh *mesh)
{
    char sizes[MAX_LINE], order[MAX_LINE];
    if (next_value(r, "  mesh_dim: ", sizes) != 0)
        return -1;
    int consumed = 0;
    if (sscanf(sizes, "%9" SCNd32 ",%9" SCNd32 ",%9" SCNd32 ",%9" SCNd32 "%n", &mesh->size[0],
               &mesh->size[1], &mesh->size[2], &mesh->size[3], &consumed) != 4 ||
        sizes[consumed] != '\0')
        return fail_at(r, "mesh_dim is no mesh");
    int64_t ranks = 1;
    for (int32_t i = 0; i < SW_AXIS_COUNT; i++) {
        if (mesh->size[i] < 1)
            return fail_at(r, "mesh_dim is no mesh");
        ranks *= mesh->size[i];
        if (ranks > INT32_MAX)
            return fail_at(r, "mesh_dim is no mesh");
    }
    if (next_value(r, "  axis_order: ", order) != 0)
        return -1;
    uint32_t seen = 0;
    const char *at = order;
    for (int32_t i = 0; i < SW_AXIS_COUNT; i++) {
        const size_t length = strcspn(at, ",");
        int32_t axis = 0;
        while (axis < SW_AXIS_COUNT && (strlen(sw_axis_name(axis)) != length ||
                                        memcmp(sw_axis_name(axis), at, length) != 0))
            axis++;
        if (axis == SW_AXIS_COUNT || (seen & (1u << axis)) != 0)
            return fail_at(r, "axis_order is not dp, fsdp, tp and sp in some order");
        seen |= 1u << axis;
        mesh->order[i] = (uint8_t)axis;
        at += length + (at[length] == ',');
    }
    return *at == '\0' ? 0 : fail_at(r, "axis_order has more than four axes");
}

static int read_decision(struct reader *r, struct sw_decision *d)
{
    char value[MAX_LINE];
    int32_t word;
    if (next_value(r, "decision:", value) != 0 || next_mesh(r, &d->mesh) != 0 ||
        next_integer(r, "  micro_batch_size: ", 1, &d->micro_batch_size) != 0 ||
        next_integer(r, "  accumulation_steps: ", 1, &d->accumulation_steps) != 0)
        return -1;
    if (next_word(r, "  recompute: ", sw_plan_recompute_words, 3, &word) != 0)
        return -1;
    d->recompute = (enum sw_recompute)word;
    if (next_word(r, "  strategy: ", sw_plan_strategy_words, 3, &word) != 0)
        return -1;
    d->strategy = (enum sw_strategy)word;
    if (next_word(r, "  layout: ", sw_plan_layout_words, 2, &word) != 0)
        return -1;
    d->layout = (enum sw_layout_choice)word;
    if (next_word(r, "  residual_seq: ", sw_plan_residual_words, 2, &word) != 0)
        return -1;
    d->residual_seq_tp = word == 1;
    return 0;
}

/* The path up to the closing quote of its line, with its %XX undone. */
static int read_input_path(struct reader *r, struct sw_plan_input *input)
{
    static const char tail[] = "'}\n";
    const char *stop = memchr(r->at, '\n', (size_t)(r->end - r->at));
    if (stop == NULL || stop - r->at < 3 || memcmp(stop - 2, tail, 3) != 0)
        return fail_at(r, "an input has no path");
    char *out = input->path = malloc((size_t)(stop - r->at));
    if (out == NULL)
        return sw_fail_at(r->err, SW_ENVIRONMENT, (struct sw_place){.file = r->path},
                          "out of memory while reading the plan");
    for (const char *p = r->at; p < stop - 2;) {
        if (p[0] == '%' && stop - 2 - p >= 3) {
            const char digits[3] = {p[1], p[2], '\0'};
            *out++ = (char)strtoul(digits, NULL, 16);
            p += 3;
        } else {
            *out++ = *p++;
        }
    }
    *out = '\0';
    r->at = stop + 1;
    return 0;
}

static int read_inputs(struct reader *r, struct sw_plan_inputs *inputs)
{
    static const char head[] = "  - {digest: '", middle[] = "', path: '";
    const size_t bytes = strlen(head) + SW_PLAN_DIGEST_DIGITS + strlen(middle);
    char value[MAX_LINE], digits[SW_PLAN_DIGEST_DIGITS + 1] = "";
    if (next_value(r, "inputs:", value) != 0)
        return -1;
    while ((size_t)(r->end - r->at) > bytes && memcmp(r->at, head, strlen(head)) == 0) {
        r->line++;
        memcpy(digits, r->at + strlen(head), SW_PLAN_DIGEST_DIGITS);
        if (inputs->count == SW_PLAN_MAX_INPUTS ||
            strspn(digits, "0123456789abcdef") != SW_PLAN_DIGEST_DIGITS ||
            memcmp(r->at + bytes - strlen(middle), middle, strlen(middle)) != 0)
            return fail_at(r, "an input is not a digest and a path");
        inputs->input[inputs->count].digest = strtoull(digits, NULL, 16);
        r->at += bytes;
        if (read_input_path(r, &inputs->input[inputs->count]) != 0)
            return -1;
        inputs->count++;
    }
    return 0;
}

static int read_rest(struct reader *r, struct sw_plan *plan)
{
    char value[MAX_LINE], *stop;
    if (next_value(r, "prediction:", value) != 0 || next_value(r, "  step_seconds: ", value) != 0)
        return -1;
    plan->prediction.step_seconds = strtod(value, &stop);
    if (stop == value || *stop != '\0' || !(plan->prediction.step_seconds >= 0))
        return fail_at(r, "step_seconds is no number");
    if (next_integer(r, "  memory_total: ", 0, &plan->prediction.memory_total) != 0 ||
        next_integer(r, "  arena_bytes: ", 0, &plan->prediction.arena_bytes) != 0 ||
        next_value(r, "program: ", value) != 0)
        return -1;
    if (strlen(value) != SW_PLAN_DIGEST_DIGITS ||
        strspn(value, "0123456789abcdef") != SW_PLAN_DIGEST_DIGITS)
        return fail_at(r, "the program's digest is not 16 hexadecimal digits");
    plan->program_digest = strtoull(value, NULL, 16);
    if (read_inputs(r, &plan->inputs) != 0)
        return -1;
    return next_value(r, "run:", value);
}

static int first_mistake(const struct reader *r, const struct sw_config *config)
{
    for (int32_t i = 0; i < sw_config_diagnostic_count(config); i++) {
        const struct sw_diagnostic *d = sw_config_diagnostic(config, i);
        if (!d->is_note)
            return sw_fail_at(r->err, SW_BAD_INPUT, (struct sw_place){d->file, d->line, d->column},
                              "%s", d->message);
    }
    return sw_fail_at(r->err, SW_BAD_INPUT, (struct sw_place){.file = r->path}, "holds no run");
}

int sw_plan_read(const char *path, struct sw_plan *out, struct sw_error *err)
{
    int status = -1;
    char *text = NULL;
    size_t bytes = 0;
    memset(out, 0, sizeof *out);
    if (read_file(path, &text, &bytes, err) != 0)
        return -1;
    struct reader r = {path, text, text + bytes, 0, err};
    if (verify(&r, text, bytes, &out->digest) != 0)
        goto out;
    r.at = text + strlen(SW_PLAN_HEAD) + SW_PLAN_DIGEST_DIGITS;
    r.line = 3;
    if (memcmp(r.at, "'\n", 2) != 0) {
        fail_at(&r, "the digest's line goes on");
        goto out;
    }
    r.at += 2;
    if (read_decision(&r, &out->decision) != 0 || read_rest(&r, out) != 0)
        goto out;
    out->config = sw_config_read_text(path, text, bytes, SW_CONFIG_PLAN, NULL, 0, err);
    if (out->config == NULL)
        goto out;
    out->run = sw_config_error_count(out->config) == 0 ? sw_config_run(out->config) : NULL;
    if (out->run == NULL) {
        first_mistake(&r, out->config);
        goto out;
    }
    status = 0;
out:
    free(text);
    if (status != 0)
        sw_plan_free(out);
    return status;
}

void sw_plan_free(struct sw_plan *plan)
{
    if (plan == NULL)
        return;
    sw_config_free(plan->config);
    sw_plan_inputs_free(&plan->inputs);
    memset(plan, 0, sizeof *plan);
}
