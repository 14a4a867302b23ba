/* Reads a plan file back: its values as for any description, then the digest of its text, then the
 * meaning of the values. Anyone can compute a digest, so every value is checked. */
#include "core/base/file.h"
#include "core/plan/internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PLAN_BYTES = 16 << 20 };

static int read_file(const char *path, char **text, size_t *bytes, struct sw_error *err)
{
    if (sw_file_read(path, false, MAX_PLAN_BYTES, text, bytes, NULL) == 0)
        return 0;
    const struct sw_place whole = {.file = path};
    if (errno == EFBIG)
        return sw_fail_at(err, SW_BAD_INPUT, whole, "too large for a plan");
    const bool named = errno == ENOENT || errno == ENOTDIR || errno == EISDIR;
    return sw_fail_at(err, errno == ENOMEM || errno == EIO ? SW_ENVIRONMENT : SW_BAD_INPUT, whole,
                      "cannot open the plan: %s%s", strerror(errno),
                      named ? "; name a NAME.plan.yaml that 'plan emit' wrote" : "");
}

/* The byte at a position, if all text before has the line breaks of sw_plan_write; else `bytes`. */
static size_t offset_of(const char *text, size_t bytes, const struct sw_place *at)
{
    size_t i = 0;
    for (int32_t line = 1; i < bytes && line < at->line; i++)
        line += text[i] == '\n';
    for (int32_t column = 1; i < bytes && column < at->column; column++)
        do
            i++;
        while (i < bytes && ((unsigned char)text[i] & 0xc0) == 0x80);
    return i;
}

static int first_mistake(const char *path, const struct sw_config *config, struct sw_error *err)
{
    for (int32_t i = 0; i < sw_config_diagnostic_count(config); i++) {
        const struct sw_diagnostic *d = sw_config_diagnostic(config, i);
        if (!d->is_note)
            return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){d->file, d->line, d->column},
                              "%s%s%s", d->message, d->help != NULL ? "; " : "",
                              d->help != NULL ? d->help : "");
    }
    return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){path, 1, 1}, "is not a plan");
}

/* Reports first that a file was changed, since a changed file may have many mistakes. */
static int verify(const char *path, const struct sw_config *config, const char *text, size_t bytes,
                  uint64_t *digest, struct sw_error *err)
{
    char expected[SW_PLAN_DIGEST_DIGITS + 1], found[SW_PLAN_DIGEST_DIGITS + 1] = "";
    const struct sw_place at = sw_config_digest_place(config);
    const size_t quote = at.file != NULL ? offset_of(text, bytes, &at) : bytes;
    const size_t first = quote + 1, last = first + SW_PLAN_DIGEST_DIGITS;
    if (last >= bytes || text[quote] != '\'' || text[last] != '\'')
        return first_mistake(path, config, err);
    *digest = sw_plan_text_digest(text, bytes, first);
    snprintf(expected, sizeof expected, "%016" PRIx64, *digest);
    memcpy(found, text + first, SW_PLAN_DIGEST_DIGITS);
    if (memcmp(found, expected, SW_PLAN_DIGEST_DIGITS) == 0)
        return 0;
    /* shown only if digits: other bytes may be anything */
    const bool digits = strspn(found, "0123456789abcdef") == SW_PLAN_DIGEST_DIGITS;
    return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){path, at.line, at.column + 1},
                      "the plan was changed after it was written: its digest is %s%s%s, its "
                      "content's is '%s'; edit the run file and emit again",
                      digits ? "'" : "", digits ? found : "not 16 hexadecimal digits",
                      digits ? "'" : "", expected);
}

static int read_sizes(const struct sw_plan_config *plan, struct sw_mesh *mesh, struct sw_error *err)
{
    const char *at = plan->mesh_dim;
    int64_t ranks = 1;
    bool good = true;
    for (int32_t i = 0; good && i < SW_AXIS_COUNT; i++) {
        char *stop = NULL;
        const long long size = *at >= '0' && *at <= '9' ? strtoll(at, &stop, 10) : 0;
        good =
            size >= 1 && size <= INT32_MAX / ranks && *stop == (i + 1 < SW_AXIS_COUNT ? ',' : '\0');
        if (good) {
            mesh->size[i] = (int32_t)size;
            ranks *= size;
            at = stop + 1;
        }
    }
    return good ? 0
                : sw_fail_at(err, SW_BAD_INPUT, plan->mesh_place,
                             "mesh_dim is not a mesh; write the plan again with 'plan emit'");
}

static int read_order(const struct sw_plan_config *plan, struct sw_mesh *mesh, struct sw_error *err)
{
    uint32_t seen = 0;
    const char *at = plan->axis_order;
    int32_t i = 0;
    for (; i < SW_AXIS_COUNT; i++) {
        const size_t length = strcspn(at, ",");
        int32_t axis = 0;
        while (axis < SW_AXIS_COUNT && (strlen(sw_axis_name(axis)) != length ||
                                        memcmp(sw_axis_name(axis), at, length) != 0))
            axis++;
        if (axis == SW_AXIS_COUNT || (seen & (1u << axis)) != 0)
            break;
        seen |= 1u << axis;
        mesh->order[i] = (uint8_t)axis;
        at += length + (at[length] == ',');
    }
    return i == SW_AXIS_COUNT && *at == '\0'
               ? 0
               : sw_fail_at(err, SW_BAD_INPUT, plan->order_place,
                            "axis_order is not dp, fsdp, tp and sp in some order; write the plan "
                            "again with 'plan emit'");
}

static int read_recompute(const struct sw_plan_config *plan, struct sw_recompute *out,
                          struct sw_error *err)
{
    const struct sw_model *model = &plan->run.model.shape;
    struct sw_layer_values values;
    struct sw_lora lora;
    if (sw_plan_lora(&plan->run, &lora, err) != 0 ||
        sw_program_layer_values(model, &lora, &values, err) != 0 ||
        sw_plan_recompute(&plan->recompute, &values, out, err) != 0)
        return -1;
    *out = sw_recompute_normal(*out, model->layers);
    return 0;
}

int sw_plan_read(const char *path, const struct sw_launchers *launchers, struct sw_plan *out,
                 struct sw_error *err)
{
    int status = -1;
    char *text = NULL;
    size_t bytes = 0;
    memset(out, 0, sizeof *out);
    if (read_file(path, &text, &bytes, err) != 0)
        return -1;
    out->config = sw_config_read_text(path, text, bytes, SW_CONFIG_PLAN, launchers, NULL, 0, err);
    if (out->config == NULL || verify(path, out->config, text, bytes, &out->digest, err) != 0)
        goto out;
    const struct sw_plan_config *plan = sw_config_plan(out->config);
    if (plan == NULL) {
        first_mistake(path, out->config, err);
        goto out;
    }
    if (read_sizes(plan, &out->decision.mesh, err) != 0 ||
        read_order(plan, &out->decision.mesh, err) != 0)
        goto out;
    out->decision.train.micro_batch_size = plan->micro_batch_size;
    out->decision.train.accumulation_steps = plan->accumulation_steps;
    if (read_recompute(plan, &out->decision.train.recompute, err) != 0)
        goto out;
    out->decision.train.strategy = plan->strategy;
    out->decision.train.layout = plan->layout;
    out->decision.train.inner_ring = plan->inner_ring;
    out->decision.train.residual_seq_tp = plan->residual_seq == SW_RESIDUAL_SP_TP;
    out->decision.train.sharding =
        (struct sw_sharding_decision){.zero = (uint8_t)plan->zero,
                                      .embed_fsdp = plan->embed == SW_WEIGHTS_FSDP,
                                      .moments_over_dp = plan->moments_over_dp,
                                      .keep_gathered = !plan->reshard_after_forward};
    out->decision.serve.stream_weights = plan->run.serve_stream_weights;
    out->decision.serve.interleave = plan->run.serve_interleave;
    out->decision.serve.token_budget = plan->run.serve_token_budget;
    out->run = &plan->run;
    out->prediction = plan->prediction;
    memcpy(out->program_digest, plan->program, sizeof out->program_digest);
    out->inputs = plan->inputs;
    out->decision_place = plan->decision_place;
    memcpy(out->program_place, plan->program_place, sizeof out->program_place);
    status = 0;
out:
    free(text);
    if (status != 0)
        sw_plan_free(out);
    return status;
}

int sw_plan_refuse_program(const struct sw_plan *plan, enum sw_program_kind kind,
                           struct sw_error *err)
{
    const struct sw_place place = plan->program_place[kind];
    return sw_fail_at(err, SW_BAD_INPUT, place.file != NULL ? place : plan->decision_place,
                      "this version makes another '%s' program of the plan than the version that "
                      "wrote it, or numbers it otherwise; write it again with 'plan emit': its "
                      "checkpoints can be resumed",
                      sw_program_kind_name(kind));
}

void sw_plan_free(struct sw_plan *plan)
{
    if (plan == NULL)
        return;
    sw_config_free(plan->config);
    memset(plan, 0, sizeof *plan);
}
