/* Warnings of values that are allowed but hardly meant: sizes that do not fit each other. Each says
 * what was probably meant; none changes a value. */
#include "core/base/device.h"
#include "core/config/internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Limits above which a step's tokens are no training run: the largest published ones have about 16
 * million in all ("The Llama 3 Herd of Models", arXiv:2407.21783, section 3.4.1). */
static const double many_tokens = 1 << 30, many_tokens_each = 1 << 24;

/* ---- A cluster ---- */

static double share(const struct sw_link_config *link)
{
    return link->bandwidth / (link->oversubscription > 1 ? link->oversubscription : 1);
}

/* The mapping that a link was read from: links given in words may have been left out. */
static const struct node *item_of(const struct node *links, const char *name)
{
    const struct node *found = NULL;
    for (const struct node *item = links != NULL ? links->first : NULL; item != NULL;
         item = item->next) {
        const struct node *key = sw_node_find(item, "name");
        if (key != NULL && key->kind == NODE_SCALAR && strcmp(key->text, name) == 0)
            found = item;
    }
    return found;
}

static const struct node *place_in(const struct node *item, const char *key, const char *other,
                                   const struct node *root)
{
    const struct node *value = sw_node_find(item, key);
    if (value == NULL)
        value = sw_node_find(item, other);
    return value != NULL ? value : item != NULL ? item : root;
}

/* Warns of domains and nodes that do not nest. */
static void warn_of_spans(struct sw_config *c, const struct node *at,
                          const struct sw_link_config *link, int32_t per_node)
{
    if (link->spans > per_node && link->spans % per_node != 0)
        sw_config_warn_at(c, at,
                          sw_config_format(c,
                                           "a domain of '%s' spans %d accelerators, which is not a "
                                           "whole number of nodes of %d",
                                           link->name, (int)link->spans, (int)per_node),
                          sw_config_format(c, "did you mean 'spans: %d', %d nodes?",
                                           (int)(link->spans / per_node * per_node),
                                           (int)(link->spans / per_node)));
    if (link->spans > 0 && link->spans < per_node && per_node % link->spans != 0)
        sw_config_warn_at(
            c, at,
            sw_config_format(
                c, "a node of %d accelerators is no whole number of domains of '%s' of %d",
                (int)per_node, link->name, (int)link->spans),
            "did you mean 'spans: node'?");
}

/* True for links of accelerators, whose domains may exceed a node. */
static bool is_of_accelerators(const char *name)
{
    static const char *const words[] = {"nvl", "nvswitch", "ici", "xgmi", "infinity", "ualink"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcasestr(name, words[i]) != NULL)
            return true;
    return false;
}

/* Warns of bits given as bytes: links of accelerators are sold in bytes a second, network ports in
 * bits, the widest at 800 Gb/s (NVIDIA ConnectX-8). */
static void warn_of_bits(struct sw_config *c, const struct node *at,
                         const struct sw_link_config *link, bool is_network)
{
    const double widest = 100e9, beyond_any = 1e13; /* its row warns of those */
    if (at == NULL || at->kind != NODE_SCALAR || link->bandwidth > beyond_any)
        return;
    const char *text = sw_config_shown(c, at->text);
    const size_t length = strlen(at->text);
    const bool in_bits = length > 4 && strcmp(at->text + length - 3, "b/s") == 0;
    const bool in_bytes = length > 4 && strcmp(at->text + length - 3, "B/s") == 0;
    const char *other = in_bits || in_bytes ? sw_config_format(c, "%.*s%s", (int)(strlen(text) - 3),
                                                               text, in_bits ? "B/s" : "b/s")
                                            : "";
    if (in_bits && strcasestr(link->name, "nvlink") != NULL)
        sw_config_warn_at(c, at,
                          sw_config_format(c,
                                           "'%s' of '%s' is %.4g GB/s: NVLink is sold in bytes, "
                                           "both directions together",
                                           text, link->name, link->bandwidth / 1e9),
                          sw_config_format(c, "did you mean '%s'?", other));
    if (is_network && link->bandwidth > widest)
        sw_config_warn_at(c, at,
                          sw_config_format(c,
                                           "'%s' of '%s' is %.4g GB/s of each accelerator, more "
                                           "than a port of 800 Gb/s",
                                           text, link->name, link->bandwidth / 1e9),
                          in_bytes
                              ? sw_config_format(c,
                                                 "did you mean '%s', or the figure of a whole node "
                                                 "('bandwidth_per_node')?",
                                                 other)
                              : "is it the figure of a whole node ('bandwidth_per_node')?");
}

/* Warns of shared ports with less than their accelerators have together. Measured curves are
 * trusted. */
static void warn_of_shared(struct sw_config *c, const struct node *item,
                           const struct sw_link_config *link, int32_t per_node)
{
    const struct node *at = sw_node_find(item, "rails"), *one = sw_node_find(item, "bandwidth");
    if (at == NULL || one == NULL || link->rails || link->direct || link->spans <= per_node ||
        per_node == 1)
        return;
    sw_config_warn_at(c, at,
                      sw_config_format(c,
                                       "'rails: false' with 'bandwidth': the %d accelerators of a "
                                       "node share %d times that, %.4g GB/s",
                                       (int)per_node, (int)per_node,
                                       link->bandwidth * per_node / 1e9),
                      "for ports that they share write 'bandwidth_per_node', the sum of the ports");
}

static void warn_of_links(struct sw_config *c, const struct node *root,
                          const struct sw_cluster_config *cluster)
{
    const struct node *links = sw_node_find(root, "links");
    const int32_t per_node = cluster->accelerators_per_node;
    for (int32_t l = 0; l < cluster->link_count; l++) {
        const struct sw_link_config *link = &cluster->link[l], *inner = link - 1;
        const struct node *item = item_of(links, link->name);
        warn_of_spans(c, place_in(item, "spans", "spans", root), link, per_node);
        warn_of_bits(c, sw_node_find(item, "bandwidth"), link,
                     l > 0 && link->spans > per_node && !is_of_accelerators(link->name));
        warn_of_shared(c, item, link, per_node);
        if (l > 0 && share(link) > share(inner) * (1 + 1e-9))
            sw_config_warn_at(
                c, place_in(item, "bandwidth", "bandwidth_per_node", root),
                sw_config_format(
                    c, "'%s' is faster than '%s' inside it: %.4g against %.4g GB/s per accelerator",
                    link->name, inner->name, share(link) / 1e9, share(inner) / 1e9),
                "is one of them the figure of a whole node ('bandwidth_per_node'), or of bits "
                "(Gb/s)?");
    }
}

static void warn_of_settings(struct sw_config *c, const struct node *root,
                             const struct sw_cluster_config *cluster)
{
    for (int32_t i = 0; c->keys->launchers != NULL && c->keys->launchers->row[i] != NULL; i++)
        if (c->keys->launchers->row[i]->warn != NULL)
            c->keys->launchers->row[i]->warn(c, root, cluster);
}

void sw_config_warn_of_cluster(struct sw_config *c, const struct node *root,
                               const struct sw_cluster_config *cluster)
{
    warn_of_links(c, root, cluster);
    c->keys->cluster_root = root;
    if (c->keys->kind == SW_CONFIG_CLUSTER) /* a run may set it otherwise */
        warn_of_settings(c, root, cluster);
}

/* ---- A run ---- */

static void warn_of_batch(struct sw_config *c, const struct node *at,
                          const struct sw_run_config *run)
{
    const double tokens = (double)run->global_batch_size * (double)run->sequence_length;
    const double each = tokens / run->cluster.nodes / run->cluster.accelerators_per_node;
    if (at == NULL || tokens <= many_tokens || each <= many_tokens_each)
        return;
    const int64_t sequences = run->global_batch_size / run->sequence_length;
    sw_config_warn_at(c, at,
                      sw_config_format(c,
                                       "'global_batch_size: %" PRId64 "' sequences of %" PRId64
                                       " tokens are a step of %.3g tokens",
                                       run->global_batch_size, run->sequence_length, tokens),
                      sequences >= 1
                          ? sw_config_format(c,
                                             "it counts sequences; did you mean that many tokens, "
                                             "'global_batch_size: %" PRId64 "'?",
                                             sequences)
                          : "it counts sequences, of which a step has hundreds or thousands");
}

static void warn_of_sequence(struct sw_config *c, const struct node *at,
                             const struct sw_run_config *run)
{
    const int64_t longest = run->model.shape.max_position_embeddings;
    if (at == NULL)
        return;
    if (run->sequence_length == 1)
        sw_config_warn_at(c, at, "'sequence_length: 1' leaves nothing to attend to",
                          "it is the number of tokens of one sequence, for example: "
                          "sequence_length: 4096");
    if (c->keys->knows_longest && run->sequence_length > longest)
        sw_config_warn_at(
            c, at,
            sw_config_format(c,
                             "'sequence_length: %" PRId64
                             "' is beyond the model's 'max_position_embeddings: %" PRId64 "'",
                             run->sequence_length, longest),
            sw_config_format(
                c,
                "to make the model longer, say so in it (max_position_embeddings, and a "
                "larger rope_theta or rope_scaling); else use sequence_length: %" PRId64,
                longest));
}

/* Warns above a number of tokens where some programs compute the model's attention otherwise than
 * here. */
static void warn_of_chunks(struct sw_config *c, const struct node *at, const char *key,
                           int64_t tokens)
{
    if (at == NULL || c->keys->plain_tokens == 0 || tokens <= c->keys->plain_tokens)
        return;
    sw_config_warn_at(
        c, at,
        sw_config_format(c,
                         "'%s: %" PRId64 "' is beyond %" PRId64
                         " tokens, from where on the model's 'dual_chunk_attention_config' "
                         "changes attention; here it is computed as without",
                         key, tokens, c->keys->plain_tokens),
        sw_config_format(c,
                         "transformers passes that key over, too, and vLLM does not; use %s: "
                         "%" PRId64,
                         key, c->keys->plain_tokens));
}

/* Warns of generated sequences longer than trained ones. */
static void warn_of_served(struct sw_config *c, const struct node *at,
                           const struct sw_run_config *run)
{
    const int64_t longest = run->model.shape.max_position_embeddings;
    if (at == NULL || !c->keys->knows_longest || run->serve_max_tokens <= longest)
        return;
    sw_config_warn_at(c, at,
                      sw_config_format(c,
                                       "'max_tokens: %" PRId64
                                       "' is beyond the model's 'max_position_embeddings: %" PRId64
                                       "'",
                                       run->serve_max_tokens, longest),
                      sw_config_format(c, "use max_tokens: %" PRId64, longest));
}

/* Warns of a large learning rate: Adam moves every weight by about that much each step. */
static void warn_of_learning_rate(struct sw_config *c, const struct node *at,
                                  const struct sw_run_config *run)
{
    if (at != NULL && run->optimizer.learning_rate > 1)
        sw_config_warn_at(c, at,
                          sw_config_format(c, "'learning_rate: %g' is more than any known one",
                                           run->optimizer.learning_rate),
                          "look at the exponent: a usual figure is 'learning_rate: 3.0e-4'");
}

/* Warns of a margin written neither as a fraction nor with a percent sign. */
static void warn_of_margin(struct sw_config *c, const struct node *at,
                           const struct sw_run_config *run)
{
    if (at == NULL || run->prefer_within <= 1 || strchr(at->text, '%') != NULL)
        return;
    const char *text = sw_config_shown(c, at->text);
    sw_config_warn_at(c, at,
                      sw_config_format(c,
                                       "'prefer_within: %s' lets a step take %g times as long as "
                                       "that of the fastest mesh",
                                       text, 1 + run->prefer_within),
                      sw_config_format(c, "did you mean '%s %%'?", text));
}

static void warn_of_recompute(struct sw_config *c, const struct node *at,
                              const struct sw_run_config *run)
{
    const int32_t all = run->model.shape.layers;
    if (at != NULL && run->recompute.layers != SW_ALL_LAYERS && run->recompute.layers > all)
        sw_config_warn_at(c, at,
                          sw_config_format(c, "'layers: %d' of a model that has %d",
                                           (int)run->recompute.layers, (int)all),
                          sw_config_format(c, "use layers: %d, or 'all'", (int)all));
}

void sw_config_warn_of_run(struct sw_config *c, const struct node *root,
                           const struct sw_run_config *run)
{
    warn_of_settings(c, root, &run->cluster);
    warn_of_sequence(c, sw_node_find(root, "sequence_length"), run);
    warn_of_chunks(c, sw_node_find(root, "sequence_length"), "sequence_length",
                   run->sequence_length);
    warn_of_batch(c, sw_node_find(root, "global_batch_size"), run);
    warn_of_served(c, sw_node_find(sw_node_find(root, "serve"), "max_tokens"), run);
    warn_of_chunks(c, sw_node_find(sw_node_find(root, "serve"), "max_tokens"), "max_tokens",
                   run->serve_max_tokens);
    warn_of_learning_rate(c, sw_node_find(sw_node_find(root, "optimizer"), "learning_rate"), run);
    warn_of_margin(c, sw_node_find(root, "prefer_within"), run);
    warn_of_recompute(c, sw_node_find(sw_node_find(root, "recompute"), "layers"), run);
}
