/* Chooses a cluster's profile; the default one if the cluster has none (core/base/device.c names
 * the software of defaults). */
#include "core/base/device.h"
#include "core/config/internal.h"

#include <string.h>
#include <unistd.h>

static const char default_name[] = "default", serving_name[] = "default-serving";

const struct sw_device_prices *sw_accelerator_prices(const struct sw_accelerator_config *a)
{
    return a->prices != NULL ? a->prices : &sw_device_row(a->device)->prices;
}

double sw_accelerator_message_seconds(const struct sw_accelerator_config *a,
                                      const double messages[SW_CARRIER_COUNT])
{
    return messages[sw_device_row(a->device)->transport] * sw_accelerator_prices(a)->message_s;
}

static struct sw_curve share(double fraction)
{
    return (struct sw_curve){1, {{1, fraction}}};
}

/* Attention's curve of such software. */
static struct sw_curve attention_of(const struct sw_usual_software *usual)
{
    struct sw_curve curve = {0};
    while (curve.count < SW_USUAL_ATTENTIONS && usual->attention[curve.count].flops > 0) {
        const struct sw_usual_attention *a = &usual->attention[curve.count];
        curve.point[curve.count++] = (struct sw_curve_point){a->flops, a->share};
    }
    return curve;
}

static struct sw_profile_config assume(const struct sw_accelerator_config *accelerator,
                                       const struct sw_usual_software *usual, const char *name)
{
    const struct sw_device_row *row = sw_device_row(accelerator->device);
    const double best = row->tiled ? sw_accelerator_best_share(accelerator) : 0;
    const bool trains = usual == &row->usual && accelerator->training_product > 0;
    return (struct sw_profile_config){.name = name,
                                      .matmul = share(trains     ? accelerator->training_product
                                                      : best > 0 ? usual->own * best
                                                                 : usual->matmul),
                                      .attention = attention_of(usual),
                                      .memory = share(usual->memory),
                                      .launch_latency_s = usual->launch_s,
                                      .band_low = usual->band_low,
                                      .band_high = usual->band_high,
                                      .source = row->tiled ? accelerator->product_source : NULL,
                                      .at.matmul = !row->tiled ? (struct sw_place){0}
                                                   : trains    ? accelerator->at.training_product
                                                               : accelerator->at.best_product,
                                      .assumed = true};
}

struct sw_profile_config sw_profile_default(const struct sw_accelerator_config *accelerator)
{
    return assume(accelerator, &sw_device_row(accelerator->device)->usual, default_name);
}

bool sw_profile_assumes_attention(const struct sw_profile_config *profile,
                                  const struct sw_accelerator_config *accelerator)
{
    const struct sw_curve usual = attention_of(&sw_device_row(accelerator->device)->usual);
    const struct sw_curve *curve = &profile->attention;
    bool same = curve->count == usual.count;
    for (int32_t i = 0; same && i < usual.count; i++)
        same = curve->point[i].size == usual.point[i].size &&
               curve->point[i].fraction == usual.point[i].fraction;
    return same;
}

static bool is_named(const struct sw_profile_config *profile, const char *name)
{
    return profile->name != NULL && strcmp(profile->name, name) == 0;
}

bool sw_profile_is_default(const struct sw_profile_config *profile)
{
    return profile->name == NULL || profile->assumed;
}

bool sw_profile_is_of_servers(const struct sw_profile_config *profile)
{
    return profile->assumed && is_named(profile, serving_name);
}

const char *sw_profile_note(const struct sw_profile_config *profile)
{
    return sw_profile_is_of_servers(profile) ? "the prediction is of vLLM and TensorRT-LLM; "
                                               "runner serve was never measured on GPUs"
                                             : "";
}

static bool has_serving(const struct sw_accelerator_config *a)
{
    return sw_device_row(a->device)->serving.matmul > 0;
}

/* Uses more than the general default only if the chip's own kernels were measured. */
static struct sw_profile_config assume_serving(const struct sw_cluster_config *cluster)
{
    const struct sw_accelerator_config *a = &cluster->accelerator;
    const struct sw_device_row *row = sw_device_row(a->device);
    struct sw_profile_config p = assume(a, &row->serving, serving_name);
    const bool measured =
        a->products != NULL && a->prefill_attention != NULL && a->decode_attention != NULL;
    if (p.source == NULL)
        p.source = measured ? row->serving.source : row->serving_elsewhere;
    p.band_low = measured ? row->serving.band_low : row->usual.band_low;
    p.band_high = measured ? row->serving.band_high : row->usual.band_high;
    p.peak_int8_flops = a->peak_int8_flops;
    p.joins_products = true;
    p.reduces_directly =
        measured && cluster->link_count > 0 && cluster->link[0].bandwidth > row->direct_bandwidth;
    return p;
}

/* Replaces default `from` by `to`, keeping a given launch latency. */
static void replace(struct sw_profile_config *p, const struct sw_usual_software *from,
                    struct sw_profile_config to)
{
    if (p->launch_latency_s != from->launch_s) {
        to.launch_latency_s = p->launch_latency_s;
        to.at.launch_latency = p->at.launch_latency;
    }
    *p = to;
}

void sw_profile_for_serving(struct sw_cluster_config *cluster)
{
    const struct sw_accelerator_config *a = &cluster->accelerator;
    if (cluster->profile.assumed && is_named(&cluster->profile, default_name) && has_serving(a))
        replace(&cluster->profile, &sw_device_row(a->device)->usual, assume_serving(cluster));
}

void sw_profile_for_training(struct sw_cluster_config *cluster)
{
    const struct sw_accelerator_config *a = &cluster->accelerator;
    if (sw_profile_is_of_servers(&cluster->profile))
        replace(&cluster->profile, &sw_device_row(a->device)->serving, sw_profile_default(a));
}

bool sw_config_describe_profile(struct sw_config *c, struct node *root,
                                struct sw_profile_config *out)
{
    if (root->kind != NODE_MAPPING) {
        if (root->kind != NODE_BROKEN)
            sw_config_error_at(
                c, root,
                sw_config_format(c, "the description of a profile must be a mapping, not %s",
                                 sw_node_describe(c, root)),
                "write 'key: value' lines");
        return false;
    }
    out->path = root->source->file;
    out->launch_latency_s = -1; /* not given */
    return sw_config_read_section(c, root, sw_profile_fields, out, UNKNOWN_ERROR).bad == 0;
}

static bool is_auto(const struct node *value)
{
    return value->kind == NODE_SCALAR && strcmp(value->text, SW_PROFILE_AUTO) == 0;
}

static bool read_profile(struct sw_config *c, const struct field *field, struct node *value,
                         void *base)
{
    struct sw_profile_config *out =
        (struct sw_profile_config *)(void *)((char *)base + field->offset);
    c->keys->profile_at = value;
    memset(out, 0, sizeof *out);
    if (is_auto(value))
        return true;
    if (value->kind != NODE_MAPPING && (value->kind != NODE_SCALAR || value->text[0] == 0))
        return sw_config_wrong_type(c, field, value, "'auto', a path or a mapping");
    struct node *root = sw_config_follow(c, field, value);
    return root != NULL && c->hooks->is_kind(c, root, value, SW_CONFIG_PROFILE) &&
           sw_config_describe_profile(c, root, out);
}

static void write_profile(struct writer *w, const struct field *field, const void *base)
{
    w->open(w, field->key);
    sw_config_write_fields(w, sw_profile_fields, (const char *)base + field->offset);
    w->close(w);
}

static void schema_profile(struct sw_json *j, const struct field *field)
{
    (void)field;
    sw_json_array(j, "anyOf");
    sw_json_inline(j, NULL);
    sw_json_text(j, "type", "string");
    sw_json_end(j);
    sw_config_schema_object(j, NULL, false, sw_profile_fields);
    sw_json_end(j);
}

const struct field_type sw_type_profile = {read_profile, write_profile, schema_profile,
                                           INSIDE_DESCRIPTION, NULL};

/* "clusters/a.yaml" -> "clusters/a.profile.yaml", where `runner calibrate` should write; NULL: the
 * cluster has no file of its own. */
static const char *measured_path(struct sw_config *c, const char *cluster)
{
    const char *name = cluster != NULL ? strrchr(cluster, '/') : NULL;
    name = name != NULL ? name + 1 : cluster;
    const char *dot = name != NULL ? strrchr(name, '.') : NULL;
    if (dot == NULL || dot == name ||
        (strcmp(dot, ".yaml") != 0 && strcmp(dot, ".yml") != 0 && strcmp(dot, ".json") != 0))
        return NULL;
    const char *path = sw_config_format(c, "%.*s.profile.yaml", (int)(dot - cluster), cluster);
    return access(path, F_OK) == 0 ? path : NULL;
}

static bool take_measured(struct sw_config *c, struct sw_cluster_config *cluster)
{
    const char *path = measured_path(c, cluster->path);
    if (path == NULL)
        return true;
    struct node *root = sw_config_load(c, path, NULL);
    c->keys->profile_at = root;
    return root != NULL && sw_config_describe_profile(c, root, &cluster->profile);
}

static bool has_constants(const struct sw_profile_config *p)
{
    return p->matmul.count > 0 || p->attention.count > 0 || p->memory.count > 0;
}

static bool is_of_other(const struct sw_profile_config *p, const struct sw_accelerator_config *a)
{
    return p->accelerator != NULL && a->name != NULL && strcmp(p->accelerator, a->name) != 0;
}

/* True if a comma-separated list has the name. */
static bool has_name(const char *list, const char *name)
{
    const size_t bytes = strlen(name);
    for (const char *at = list; at != NULL && *at != '\0';) {
        at += strspn(at, ", ");
        const size_t here = strcspn(at, ", ");
        if (here == bytes && memcmp(at, name, bytes) == 0)
            return true;
        at += here;
    }
    return false;
}

/* Widening of the band for a sibling's profile. Errors are 1.2 to 1.4 times those with the chip's
 * own profile, with a bias of 2 to 5 %: A100 with 40 and with 80 GB, 61 runs of llm-foundry
 * (tests/bench/published/README.md). */
static const double sibling_widening = 2;

/* Makes shares refer to this chip's peaks. For a known chip `runner calibrate` writes the data
 * sheet's peaks, except fp32, where libraries use bf16 hardware: it stays the same part of bf16's,
 * as does that of 8 bits if this chip gives none. For other chips it writes measured peaks, so a
 * note says what was done. *told: true if there were any. */
static void take_own_peaks(struct sw_profile_config *p, const struct sw_accelerator_config *a,
                           bool *told)
{
    const double bf16 = p->peak_bf16_flops, fp32 = p->peak_fp32_flops;
    *told = bf16 > 0 || fp32 > 0 || p->memory_bandwidth > 0 || p->peak_int8_flops > 0;
    p->peak_bf16_flops = p->memory_bandwidth = 0;
    p->peak_fp32_flops = bf16 > 0 && fp32 > 0 ? a->peak_bf16_flops * (fp32 / bf16) : 0;
    if (p->peak_int8_flops > 0 && a->peak_int8_flops > 0)
        p->peak_int8_flops = a->peak_int8_flops;
    else if (p->peak_int8_flops > 0 && bf16 > 0)
        p->peak_int8_flops *= a->peak_bf16_flops / bf16;
}

/* Widens the band of times by a sibling's profile: twice its own or the default's, whichever is
 * narrower; *about: describes the result. */
static void widen_band(struct sw_config *c, struct sw_profile_config *p,
                       const struct sw_profile_config *assumed, const char **about)
{
    const double low = 1 - sibling_widening * (1 - p->band_low),
                 high = 1 + sibling_widening * (p->band_high - 1);
    const bool stays = p->band_low <= assumed->band_low && p->band_high >= assumed->band_high,
               doubles = low >= assumed->band_low && high <= assumed->band_high;
    if (p->band_low > assumed->band_low)
        p->band_low = low > assumed->band_low ? low : assumed->band_low;
    if (p->band_high < assumed->band_high)
        p->band_high = high < assumed->band_high ? high : assumed->band_high;
    *about = doubles ? "is twice as wide"
             : stays ? "stays as it is"
                     : sw_config_format(c, "is wider, %.2f to %.2f times them", p->band_low,
                                        p->band_high);
}

/* Turns a sibling's profile into this chip's: a plan that contains it does not widen it again. */
static void adopt(struct sw_config *c, struct sw_profile_config *p,
                  const struct sw_accelerator_config *a, const struct sw_profile_config *assumed)
{
    const double best = sw_accelerator_best_share(a);
    const char *about;
    bool told;
    take_own_peaks(p, a, &told);
    for (int32_t i = 0; i < p->matmul.count && best > 0; i++) /* no kernel of this chip reaches
                                                                 more */
        p->matmul.point[i].fraction =
            p->matmul.point[i].fraction < best ? p->matmul.point[i].fraction : best;
    widen_band(c, p, assumed, &about);
    if (c->keys->profile_at != NULL)
        sw_config_note_at(c, c->keys->profile_at,
                          sw_config_format(c,
                                           "the profile %s was measured on %s, a sibling of %s: "
                                           "the band around its times %s%s%s%s",
                                           sw_config_quote(c, p->name), p->accelerator, a->name,
                                           about, told ? ", and the peaks of " : "",
                                           told ? a->name : "", told ? " replace its own" : ""));
    p->source = sw_config_format(c, "measured on %s%s%s", p->accelerator,
                                 p->source != NULL ? ": " : "", p->source != NULL ? p->source : "");
    p->accelerator = a->name;
}

/* Fills unset fields with defaults. */
static void complete(struct sw_profile_config *p, const struct sw_profile_config *assumed)
{
    p->name = p->name != NULL ? p->name : assumed->name;
    p->matmul = p->matmul.count > 0 ? p->matmul : assumed->matmul;
    p->attention = p->attention.count > 0 ? p->attention : assumed->attention;
    p->memory = p->memory.count > 0 ? p->memory : assumed->memory;
    p->launch_latency_s =
        p->launch_latency_s >= 0 ? p->launch_latency_s : assumed->launch_latency_s;
}

/* Completes a file that names the serving default and changes some of it. The result has no name of
 * its own: a plan that contains it writes all of it. */
static void complete_serving(struct sw_profile_config *p, const struct sw_profile_config *assumed)
{
    if (p->at.peak_int8.file == NULL)
        p->peak_int8_flops = assumed->peak_int8_flops;
    if (p->at.joined_products.file == NULL)
        p->joins_products = assumed->joins_products;
    if (p->at.direct_reductions.file == NULL)
        p->reduces_directly = assumed->reduces_directly;
    if (p->at.band.file == NULL) {
        p->band_low = assumed->band_low;
        p->band_high = assumed->band_high;
    }
    p->source = p->source != NULL ? p->source : assumed->source;
}

/* True if a file has an unchanged default, as plans do. */
static bool is_unchanged(const struct sw_profile_config *p, const struct sw_profile_config *assumed)
{
    struct sw_profile_config same = *assumed;
    same.launch_latency_s = p->launch_latency_s;
    same.accelerator = p->accelerator;
    return sw_config_same_fields(sw_profile_fields, p, &same);
}

/* Settles a profile that names the serving default. */
static bool settle_serving(struct sw_config *c, const struct sw_cluster_config *cluster,
                           struct sw_profile_config *p)
{
    if (!has_serving(&cluster->accelerator)) {
        sw_config_error_at(
            c, c->keys->profile_at,
            sw_config_format(c, "the profile '%s' is for servers on GPUs; device %s has none",
                             serving_name,
                             sw_word(sw_words_device, (int32_t)cluster->accelerator.device)),
            "leave 'profile' out, and the device's default counts");
        return false;
    }
    const struct sw_profile_config assumed = assume_serving(cluster);
    complete(p, &assumed);
    complete_serving(p, &assumed);
    p->assumed = is_unchanged(p, &assumed);
    if (!p->assumed)
        p->name = "custom";
    return true;
}

bool sw_config_settle_profile(struct sw_config *c, struct sw_cluster_config *cluster)
{
    struct sw_profile_config *p = &cluster->profile;
    const struct sw_accelerator_config *a = &cluster->accelerator;
    struct sw_profile_config assumed = sw_profile_default(a);
    if (p->name == NULL && !take_measured(c, cluster))
        return false;
    if (is_of_other(p, a) && has_name(a->siblings, p->accelerator)) {
        adopt(c, p, a, &assumed);
    } else if (is_of_other(p, a)) {
        if (c->keys->profile_at != NULL)
            sw_config_note_at(
                c, c->keys->profile_at,
                sw_config_format(
                    c, "the profile %s was measured on %s, not on %s: the default profile is used",
                    sw_config_quote(c, p->name), p->accelerator, a->name));
        *p = (struct sw_profile_config){.name = NULL};
    }
    if (p->name == NULL && has_constants(&a->older)) {
        *p = a->older;
        p->path = a->path;
        p->name = a->name;
    }
    if (p->name == NULL) {
        *p = assumed;
        if (a->older.launch_latency_s >= 0) {
            p->launch_latency_s = a->older.launch_latency_s;
            p->at.launch_latency = a->older.at.launch_latency;
        }
    }
    if (is_named(p, serving_name))
        return settle_serving(c, cluster, p);
    complete(p, &assumed);
    p->assumed = p->assumed || (is_named(p, default_name) && is_unchanged(p, &assumed));
    return true;
}
