#include "runner/checkpoint/resume.h"

#include "core/base/file.h"
#include "core/base/words.h"
#include "runner/checkpoint/base_model.h"
#include "core/plan/data_file.h"
#include "runner/checkpoint/loader.h"
#include "runner/checkpoint/model_folder.h"
#include "core/checkpoint/store.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- What a checkpoint says of its run ---- */

#define MOMENTS "moments "

static void format_settings(const struct sw_run_config *run, char *out, size_t bytes)
{
    const struct sw_optimizer_config *o = &run->optimizer;
    snprintf(out, bytes,
             "learning_rate %g, betas %g and %g, eps %g, weight_decay %g, grad_clip %g, schedule "
             "%s, warmup_steps %" PRId64 ", min_learning_rate %g, precision.compute %s, "
             "precision.params %s, decay_steps %" PRId64 ", " MOMENTS "%s",
             o->learning_rate, o->beta1, o->beta2, o->eps, o->weight_decay, o->grad_clip,
             sw_schedule_words[o->schedule], o->warmup_steps, o->min_learning_rate,
             sw_word(sw_words_precision, run->compute), sw_word(sw_words_precision, run->params),
             o->decay_steps, sw_word(sw_words_moments, o->moments));
}

/* Formats "0.7:0.3", or the first of many and a digest of all; "none". */
static void format_weights(const struct sw_numbers *weights, char *out, size_t bytes)
{
    size_t used = (size_t)snprintf(out, bytes, "none");
    for (int32_t i = 0; i < weights->count; i++) {
        used = i == 0 ? 0 : used;
        if (used + 32 > bytes) {
            snprintf(out + used, bytes - used, ":%016" PRIx64,
                     sw_checksum_of(weights->item, (size_t)weights->count * sizeof(double)).low);
            return;
        }
        used +=
            (size_t)snprintf(out + used, bytes - used, "%s%g", i == 0 ? "" : ":", weights->item[i]);
    }
}

/* Adds the settings that determine the data's order and labels. */
static void format_data(const struct sw_run_config *run, char *out, size_t bytes)
{
    const size_t used = strlen(out);
    char weights[96], pack[32] = "false";
    format_weights(&run->data_weights, weights, sizeof weights);
    if (run->data_pack)
        snprintf(pack, sizeof pack, "blocks of %d", SW_DATA_PACK_BLOCK);
    snprintf(out + used, bytes - used,
             ", data.document_end %" PRId64 ", data.pack %s, data.weights %s",
             run->data_document_end, pack, weights);
}

void sw_resume_facts(const struct sw_plan *plan, int64_t attempt, int64_t step,
                     int64_t next_sequence, int64_t data_tokens, bool finished,
                     struct sw_manifest *out)
{
    const struct sw_run_config *run = plan->run;
    *out = (struct sw_manifest){.step = step,
                                .next_sequence = next_sequence,
                                .attempt = attempt,
                                .seed = run->data_seed,
                                .plan_digest = plan->digest,
                                .data_holdout = run->data_holdout,
                                .data_tokens = data_tokens,
                                .sequence_length = run->sequence_length,
                                .global_batch_size = run->global_batch_size,
                                .total_steps = run->optimizer.total_steps,
                                .finished = finished};
    snprintf(out->run, sizeof out->run, "%s", run->name);
    snprintf(out->optimizer, sizeof out->optimizer, "adamw");
    const int32_t more = run->data_paths.count - 1;
    if (run->data_path != NULL)
        snprintf(out->data_path, sizeof out->data_path, "%s", sw_path_name(run->data_path));
    if (more > 0)
        snprintf(out->data_path + strlen(out->data_path),
                 sizeof out->data_path - strlen(out->data_path), " and %d more", (int)more);
    format_settings(run, out->settings, sizeof out->settings);
    format_data(run, out->settings, sizeof out->settings);
    sw_mesh_format(&plan->decision.mesh, out->mesh, sizeof out->mesh);
}

/* ---- What differs ---- */

static void say_number(const char *what, int64_t then, int64_t now)
{
    if (then != now)
        fprintf(stderr, "note: %s is %" PRId64 " now, it was %" PRId64 " in the checkpoint\n", what,
                now, then);
}

/* Reports an item like "precision.params fp32" or "data.pack false"; false: it is an optimizer
 * setting. */
static bool say_section(const char *then, size_t then_bytes, const char *now, size_t now_bytes)
{
    const size_t key = strcspn(now, " ");
    const bool data = strncmp(now, "data.", 5) == 0;
    if ((!data && strncmp(now, "precision.", 10) != 0) || key >= now_bytes || key >= then_bytes)
        return false;
    fprintf(stderr, "note: %.*s is %.*s now, it was %.*s in the checkpoint%s\n", (int)key, now,
            (int)(now_bytes - key - 1), now + key + 1, (int)(then_bytes - key - 1), then + key + 1,
            !data                                         ? ""
            : strncmp(now, "data.document_end", key) == 0 ? ": other tokens see each other"
                                                          : ": the data comes in another order");
    return true;
}

/* Reports differences between two lists of settings, "a 1, b 2", with equal names; an older
 * version's list may be shorter. */
static void say_settings(const char *then, const char *now)
{
    char was[256] = "", is[256] = "";
    while (*then != '\0' && *now != '\0') {
        const size_t a = strcspn(then, ","), b = strcspn(now, ",");
        const bool differs = a != b || strncmp(then, now, a) != 0;
        if (differs && !say_section(then, a, now, b)) {
            const char *comma = *is != '\0' ? ", " : "";
            snprintf(was + strlen(was), sizeof was - strlen(was), "%s%.*s", comma, (int)a, then);
            snprintf(is + strlen(is), sizeof is - strlen(is), "%s%.*s", comma, (int)b, now);
        }
        then += a + strspn(then + a, ", ");
        now += b + strspn(now + b, ", ");
    }
    if (*is != '\0')
        fprintf(stderr, "note: the optimizer has %s now, it had %s in the checkpoint\n", is, was);
}

/* Checks the moments' dtypes: int8 moments are codes that convert to nothing else; others convert.
 * -1: incompatible. */
static int check_moments(struct sw_place at, const struct sw_manifest *then, enum sw_dtype now,
                         struct sw_error *err)
{
    const char *was = strstr(then->settings, MOMENTS);
    was = was != NULL ? was + strlen(MOMENTS) : "fp32"; /* from an older version */
    const int length = (int)strcspn(was, ",");
    const char *is = sw_word(sw_words_moments, now);
    const bool codes = strncmp(was, "int8", (size_t)length) == 0;
    if (codes == (now == SW_CODES))
        return 0;
    return sw_fail_at(err, SW_BAD_INPUT, at,
                      "its moments are %.*s, the plan's are %s (optimizer.moments); go on with "
                      "moments: %.*s, or begin with its weights alone: init.from",
                      length, was, is, length, was);
}

/* Reports that the data is another file, or that this one has changed. */
static void say_data(const struct sw_manifest *then, const struct sw_manifest *now)
{
    if (strcmp(then->data_path, now->data_path) != 0)
        fprintf(stderr,
                "note: data.path is '%s' now, it was '%s' in the checkpoint: the data comes in "
                "another order\n",
                now->data_path, then->data_path);
    else if (then->data_tokens != now->data_tokens)
        fprintf(stderr,
                "note: '%s' has %" PRId64 " tokens now, it had %" PRId64
                " in the checkpoint: the data comes in another order\n",
                now->data_path, now->data_tokens, then->data_tokens);
}

static void say_differences(const struct sw_manifest *then, const struct sw_manifest *now)
{
    say_number("global_batch_size", then->global_batch_size, now->global_batch_size);
    say_number("sequence_length", then->sequence_length, now->sequence_length);
    say_number("optimizer.total_steps", then->total_steps, now->total_steps);
    say_settings(then->settings, now->settings);
    say_data(then, now);
    if (then->seed != now->seed)
        fprintf(stderr,
                "note: data.seed is %" PRIu64 " now, it was %" PRIu64
                " in the checkpoint: the data comes in another order\n",
                now->seed, then->seed);
    if (then->data_holdout != now->data_holdout)
        fprintf(stderr,
                "note: data.holdout is %g now, it was %g in the checkpoint: the data comes in "
                "another order\n",
                now->data_holdout, then->data_holdout);
}

/* ---- Finding ---- */

#define MODEL_KINDS "a checkpoint, a run's folder or a Hugging Face model directory"

/* Checks a named folder. what: option or key with the name; kinds: things it may name. */
static int find_named(const char *from, const char *what, const char *kinds, char folder[4096],
                      struct sw_error *err)
{
    char *meant, note[SW_STORE_NOTE_BYTES];
    struct stat info;
    const bool there = stat(from, &info) == 0;
    if (there ? !S_ISDIR(info.st_mode) : errno == ENOENT || errno == ENOTDIR)
        return sw_fail_at(
            err, SW_BAD_INPUT, (struct sw_place){.file = from}, "%s names %s; name %s", what,
            there ? "this, which is not a folder" : "a folder that is not there", kinds);
    if (sw_store_resolve(from, &meant, note, err) != 0)
        return -1;
    if (note[0] != '\0')
        fprintf(stderr, "%s\n", note);
    snprintf(folder, 4096, "%s", meant);
    free(meant);
    return 0;
}

/* Refuses a model without optimizer state, unlike a checkpoint that lost its manifest. */
static int check_is_checkpoint(const char *folder, struct sw_error *err)
{
    static const char *const names[] = {"config.json", SW_ADAPTER_CONFIG, "manifest.json",
                                        "optimizer"};
    bool has[4];
    for (int32_t i = 0; i < 4; i++) {
        char *path = sw_path_join(folder, names[i]);
        has[i] = path != NULL && access(path, F_OK) == 0;
        free(path);
    }
    return (!has[0] && !has[1]) || has[2] || has[3]
               ? 0
               : sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = folder},
                            "--resume names %s without an optimizer's state; to start from "
                            "%s in the run file",
                            has[1] ? "adapters" : "a model",
                            has[1] ? "them, name them as init.adapter"
                                   : "it, name it as init.from");
}

/* ---- What adapters stand on ---- */

/* Makes the path absolute: a checkpoint may be read from another working directory. */
static void make_absolute(char path[4096])
{
    char *whole = realpath(path, NULL);
    if (whole != NULL && strlen(whole) < 4096)
        strcpy(path, whole);
    free(whole);
}

/* Finds the base model and its digest on rank 0; base "": none. */
static int find_base(const struct sw_run_config *run, char base[4096], uint64_t *digest,
                     struct sw_error *err)
{
    struct sw_model_folder folder;
    *base = '\0';
    *digest = 0;
    if (run->lora.rank == 0 || run->init_from == NULL)
        return 0;
    if (find_named(run->init_from, "init.from", MODEL_KINDS, base, err) != 0 ||
        sw_model_folder_open(base, false, &folder, err) != 0)
        return -1;
    make_absolute(base);
    int status = sw_loader_check(&folder, run, SW_ORIGIN_BASE, true,
                                 "emit a plan with its config.json as the model", err);
    if (status == 0)
        status = sw_base_model_digest(&folder, digest, err);
    sw_model_folder_free(&folder);
    return status;
}

/* Checks that our checkpoint's adapters use the base model they were trained on, wherever it is
 * now; others' adapters do not identify it. */
static int check_base(const struct sw_model_folder *opened, const struct sw_manifest *then,
                      const char *base, uint64_t digest, struct sw_error *err)
{
    const struct sw_place at = {.file = opened->path};
    const bool ours = then->slice_bytes > 0; /* true if it has a manifest */
    const char *was = ours ? then->base_path : opened->config.base;
    if (*base == '\0' && *was != '\0')
        return sw_fail_at(err, SW_BAD_INPUT, at,
                          "its adapters stand on the model '%.300s'; name that as init.from", was);
    if (ours && *base != '\0' && *was == '\0')
        return sw_fail_at(err, SW_BAD_INPUT, at,
                          "its adapters stand on random weights, not on '%.300s'; leave out "
                          "init.from",
                          base);
    if (ours && digest != then->base_digest)
        return sw_fail_at(err, SW_BAD_INPUT, at,
                          "its adapters stand on '%.300s', and the model in '%.300s' has other "
                          "weights; name the one that they were trained on as init.from",
                          was, base);
    return 0;
}

/* Finds --checkpoint's folder and its base model on rank 0. */
static int find_weights(const struct sw_run_config *run, const char *from, char folder[4096],
                        char base[4096], struct sw_error *err)
{
    struct sw_manifest manifest;
    struct sw_model_folder opened;
    uint64_t digest;
    if (find_named(from, "--checkpoint", MODEL_KINDS, folder, err) != 0)
        return -1;
    if (run->lora.rank == 0)
        return 0;
    if (find_base(run, base, &digest, err) != 0 ||
        sw_loader_look(folder, false, &manifest, &opened, err) != 0)
        return -1;
    int status = sw_loader_check(&opened, run, SW_ORIGIN_RUN, false, "", err);
    if (status == 0)
        status = check_base(&opened, &manifest, base, digest, err);
    sw_model_folder_free(&opened);
    sw_manifest_free(&manifest);
    return status;
}

enum sw_status sw_resume_load(struct sw_rank *rank, const char *from, char folder[4096],
                              char base[4096], struct sw_manifest *manifest)
{
    struct sw_loading loading = {.folder = folder, .base = base};
    memset(folder, 0, 4096);
    memset(base, 0, 4096);
    if (rank->launch->rank == 0)
        (void)find_weights(rank->plan->run, from, folder, base, &rank->err);
    sw_launch_broadcast(rank->launch, folder, 4096);
    sw_launch_broadcast(rank->launch, base, 4096);
    const enum sw_status status = sw_rank_agree(rank);
    if (status != SW_OK)
        return status;
    (void)sw_loader_load(rank, &loading, manifest);
    return sw_rank_agree(rank);
}

static int start_over(const struct sw_run_config *run, const char *plan_path, bool overwrite,
                      struct sw_error *err)
{
    char name[SW_STORE_NAME_BYTES];
    if (sw_store_find_any(run->checkpoint_directory, name, err) != 0)
        return -1;
    if (*name == '\0')
        return 0;
    if (overwrite)
        return sw_store_remove_all(run->checkpoint_directory, err);
    return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = plan_path},
                      "'%s' has checkpoints up to %s; --resume none would start over beside them: "
                      "add --overwrite to delete them",
                      run->checkpoint_directory, name);
}

/* Finds the newest checkpoint. Fails if all are damaged, rather than overwriting what may be left
 * of the run. */
static int newest(const struct sw_run_config *run, const struct sw_store_damage *damage,
                  struct sw_resume *out, struct sw_error *err)
{
    char *path = NULL, note[SW_STORE_NOTE_BYTES] = "";
    if (sw_store_newest(run->checkpoint_directory, damage, &path, note, err) != 0)
        return -1;
    if (path == NULL && note[0] != '\0')
        return sw_fail(err, SW_BAD_INPUT,
                       "%.850s; --resume none --overwrite deletes what is there and starts over",
                       note);
    if (note[0] != '\0')
        fprintf(stderr, "%s\n", note);
    if (path != NULL) {
        out->start = SW_START_RESUME;
        snprintf(out->folder, sizeof out->folder, "%s", path);
    }
    free(path);
    return 0;
}

bool sw_resume_is_auto(const struct sw_resume_options *options)
{
    return options->from == NULL || strcmp(options->from, "auto") == 0;
}

/* Finds the previous stage's end. */
static int find_stage(const struct sw_run_config *run, const char *plan_path, char folder[4096],
                      struct sw_error *err)
{
    char name[SW_STORE_NAME_BYTES] = "";
    if (run->stage.count == 0) /* written by hand */
        return find_named(run->stage.from, "stage.from", "a run's folder or a checkpoint", folder,
                          err) == 0
                   ? check_is_checkpoint(folder, err)
                   : -1;
    if (access(run->stage.from, F_OK) == 0 && sw_store_find_any(run->stage.from, name, err) != 0)
        return -1;
    if (*name == '\0')
        return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = plan_path},
                          "stage '%s' begins where stage %d of %d ends, which has no checkpoint in "
                          "'%s'; train that first",
                          run->stage.name, (int)run->stage.number - 1, (int)run->stage.count,
                          run->stage.from);
    return find_named(run->stage.from, "stage.from", "a run's folder or a checkpoint", folder, err);
}

/* Starts a stage: its own steps, unless it continues the schedule; moments keep their age, for
 * AdamW's bias correction (like PyTorch's optimizer state). */
static int begin_stage(const struct sw_run_config *run, const struct sw_manifest *then,
                       const struct sw_manifest *now, struct sw_resume *out, struct sw_error *err)
{
    const struct sw_stage_config *stage = &run->stage;
    if (stage->count > 0 && !then->finished)
        return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = out->folder},
                          "stage '%s' begins where stage %d of %d ends, and this is its step "
                          "%" PRId64 " of %" PRId64 "; train that to its end first",
                          stage->name, (int)stage->number - 1, (int)stage->count, then->step,
                          then->total_steps);
    const int64_t updates = then->step - then->idle_steps;
    const bool same_data =
        strcmp(then->data_path, now->data_path) == 0 && then->data_tokens == now->data_tokens;
    char what[64] = "";
    if (stage->name != NULL)
        snprintf(what, sizeof what, "stage %.40s: ", stage->name);
    if (!stage->continue_schedule) {
        out->earlier_updates = then->earlier_updates + updates;
        fprintf(stderr,
                "%sbeginning with the weights and moments of %s, after %" PRId64
                " updates; steps and data begin anew\n",
                what, out->folder, out->earlier_updates);
        return 0;
    }
    out->step = then->step;
    out->idle_steps = then->idle_steps;
    out->earlier_updates = then->earlier_updates;
    out->spikes = then->spikes;
    if (same_data) /* after the same tokens */
        out->next_sequence =
            (then->next_sequence * then->sequence_length + run->sequence_length - 1) /
            run->sequence_length;
    fprintf(stderr,
            "%scontinuing with the weights and moments of %s, after step %" PRId64
            "; the data %s\n",
            what, out->folder, then->step,
            same_data ? "continues behind the tokens that were trained on"
                      : "is another, and begins anew");
    return 0;
}

static int find(const struct sw_plan *plan, const char *plan_path,
                const struct sw_resume_options *options, struct sw_resume *out,
                struct sw_error *err)
{
    const struct sw_run_config *run = plan->run;
    const char *from = options->from;
    if (!sw_resume_is_auto(options) && strcmp(from, "none") == 0) {
        if (start_over(run, plan_path, options->overwrite, err) != 0)
            return -1;
    } else if (sw_resume_is_auto(options)) {
        if (newest(run, options->damage, out, err) != 0)
            return -1;
    } else {
        out->start = SW_START_RESUME;
        if (find_named(from, "--resume", "a checkpoint or a run's folder", out->folder, err) != 0 ||
            check_is_checkpoint(out->folder, err) != 0)
            return -1;
    }
    if (out->start == SW_START_FRESH && run->stage.from != NULL) {
        out->start = SW_START_STAGE;
        if (find_stage(run, plan_path, out->folder, err) != 0)
            return -1;
    }
    const bool adapters = run->lora.rank > 0;
    const char *model = adapters ? run->init_adapter : run->init_from;
    if (out->start == SW_START_FRESH && model != NULL) {
        out->start = SW_START_MODEL;
        if (find_named(model, adapters ? "init.adapter" : "init.from",
                       adapters ? "a checkpoint or a folder as PEFT writes it" : MODEL_KINDS,
                       out->folder, err) != 0)
            return -1;
    }
    return find_base(run, out->base, &out->base_digest, err);
}

/* Checks that the checkpoint can be continued. own: true if in the run's folder. */
static int look(const struct sw_plan *plan, bool own, int64_t data_tokens, int64_t last,
                struct sw_resume *out, struct sw_error *err)
{
    const struct sw_place at = {.file = out->folder};
    struct sw_manifest then = {0}, now;
    struct sw_model_folder opened;
    const bool stage = out->start == SW_START_STAGE,
               resume = out->start == SW_START_RESUME || stage;
    if (sw_loader_look(out->folder, resume, &then, &opened, err) != 0)
        return -1;
    int status = sw_loader_check(&opened, plan->run, SW_ORIGIN_RUN, !own,
                                 own ? "give the run another directory, or start over with "
                                       "--resume none --overwrite"
                                     : "emit a plan with its config.json as the model",
                                 err);
    if (status == 0 && opened.adapter)
        status = check_base(&opened, &then, out->base, out->base_digest, err);
    sw_resume_facts(plan, 0, 0, 0, data_tokens, false, &now);
    if (status == 0 && resume && strcmp(then.optimizer, now.optimizer) != 0)
        status = sw_fail_at(err, SW_BAD_INPUT, at, "was trained with %s, the plan has %s",
                            then.optimizer, now.optimizer);
    if (status == 0 && resume)
        status = check_moments(at, &then, plan->run->optimizer.moments, err);
    if (status == 0 && stage) {
        status = begin_stage(plan->run, &then, &now, out, err);
    } else if (status == 0 && resume) {
        out->step = then.step;
        out->next_sequence = then.next_sequence;
        out->spikes = then.spikes;
        out->idle_steps = then.idle_steps;
        out->earlier_updates = then.earlier_updates;
        if (own && strcmp(then.run, now.run) != 0)
            fprintf(stderr,
                    "note: %s is of run '%s', and this one is '%s'; if it is another run, give it "
                    "a checkpoint.directory of its own\n",
                    out->folder, then.run, now.run);
        if (then.step < last) {
            fprintf(stderr, "resuming from %s, after step %" PRId64 "\n", out->folder, then.step);
            say_differences(&then, &now);
        }
    } else if (status == 0) {
        fprintf(stderr, "starting from the %s in %s\n", opened.adapter ? "adapters" : "model",
                out->folder);
    }
    sw_model_folder_free(&opened);
    sw_manifest_free(&then);
    return status;
}

int sw_resume_find(const struct sw_launch *launch, const struct sw_plan *plan,
                   const char *plan_path, const struct sw_resume_options *options,
                   int64_t data_tokens, int64_t last, struct sw_resume *out, struct sw_error *err)
{
    int status = 0;
    *out = (struct sw_resume){0};
    if (launch->rank == 0) {
        status = find(plan, plan_path, options, out, err);
        if (status == 0 && out->start != SW_START_FRESH)
            status = look(plan, sw_resume_is_auto(options) && out->start == SW_START_RESUME,
                          data_tokens, last, out, err);
        if (status == 0 && out->base[0] != '\0' &&
            (out->start != SW_START_RESUME || out->step < last))
            fprintf(stderr, "%s stand on the model in %s\n",
                    out->start == SW_START_FRESH ? "new adapters" : "they", out->base);
    }
    sw_launch_broadcast(launch, out, sizeof *out);
    return status;
}

bool sw_resume_again(const struct sw_launch *launch, const struct sw_resume *from,
                     const struct sw_loading *loading, struct sw_resume_options *options,
                     struct sw_error *err)
{
    enum { FINE, DAMAGED, FAILED };
    struct card {
        int32_t outcome;
        struct sw_error err;
    } mine = {.outcome = err->status == SW_OK ? FINE
                         : loading->damaged   ? DAMAGED
                                              : FAILED,
              .err = *err},
      *all;
    if (!sw_resume_is_auto(options) || from->start != SW_START_RESUME ||
        sw_launch_max(launch, mine.outcome) != DAMAGED)
        return false;
    all = calloc((size_t)launch->size, sizeof *all);
    if (sw_launch_max(launch, all == NULL) == 0)
        sw_launch_gather(launch, &mine, (int32_t)sizeof mine, all);
    int64_t failed = all == NULL;
    for (int32_t r = 0; launch->rank == 0 && all != NULL && r < launch->size; r++)
        if (all[r].outcome == DAMAGED) {
            failed = sw_store_add_damage(&options->damage, from->folder, &all[r].err, NULL) != 0;
            break;
        }
    free(all);
    if (sw_launch_max(launch, failed) != 0)
        return false;
    *err = (struct sw_error){0};
    return true;
}
