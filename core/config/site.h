/* A site's file of conditions on runs, each with a sentence of advice: a YAML list of mappings
 *
 *     - {warn_if: 'accelerator_hours > 10000', say: 'see https://...'}
 *     - {note_if: 'partition == debug', say: 'jobs there end after 30 minutes'}
 *
 * The reader of the list interprets conditions. Owns the texts. */
#ifndef SW_CONFIG_SITE_H
#define SW_CONFIG_SITE_H

#include "core/config/config.h"

struct sw_site_rule {
    const char *condition, *say;
    struct sw_place at; /* position of the condition's first character */
    bool warns;         /* true: a warning, false: a note */
};
struct sw_site {
    struct sw_config *config; /* owns the rest */
    const struct sw_site_rule *rule;
    int32_t count;
};

/* Reads the file. Errors: SW_BAD_INPUT, with the position of the first mistake: it cannot be
 * opened, or is no such list; SW_ENVIRONMENT: memory. Free with sw_site_free, also after an
 * error. */
int sw_site_read(const char *path, const struct sw_launchers *launchers, struct sw_site *out,
                 struct sw_error *err);
void sw_site_free(struct sw_site *site);

/* Writes the list's JSON Schema. */
void sw_site_schema(FILE *out);

#endif
