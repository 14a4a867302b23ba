/* The model of a fixture, from its config.json: a user's way of reading one. */
#ifndef SW_TEST_ORACLE_FIXTURE_MODEL_H
#define SW_TEST_ORACLE_FIXTURE_MODEL_H

#include "core/config/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

/* FOLDER/NAME.json. */
static inline void read_model(const char *folder, const char *name, struct sw_model *model)
{
    char path[512];
    struct sw_error err = {0};
    snprintf(path, sizeof path, "%s/%s.json", folder, name);
    struct sw_config *config = sw_config_read(path, SW_CONFIG_MODEL, NULL, NULL, 0, &err);
    assert_non_null(config);
    if (sw_config_model(config) == NULL)
        fail_msg("'%s': %s", path, sw_config_diagnostic(config, 0)->message);
    *model = sw_config_model(config)->shape;
    sw_config_free(config);
}

#endif
