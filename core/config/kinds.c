/* Properties of each kind of file: name, JSON Schema, writing. */
#include "core/config/internal.h"

const char *sw_config_kind_name(enum sw_config_kind kind)
{
    static const char *const names[] = {"model", "accelerator", "cluster", "run",
                                        "plan",  "profile",     "curve",   "fabric"};
    return kind < SW_CONFIG_UNKNOWN ? names[kind] : "description";
}

void sw_config_schema(FILE *out, enum sw_config_kind kind, const struct sw_launchers *launchers)
{
    struct tables tables;
    char title[64];
    struct sw_json json = {.out = out, .style = SW_JSON_SPACES}, *j = &json;
    sw_tables_make(&tables, launchers);
    snprintf(title, sizeof title, "Shardwright %s", sw_config_kind_name(kind));
    sw_json_object(j, NULL);
    sw_json_text(j, "$schema", "https://json-schema.org/draft/2020-12/schema");
    sw_json_text(j, "title", title);
    sw_json_array(j, "allOf");
    sw_config_schema_object(j, NULL, kind == SW_CONFIG_MODEL, sw_tables_of(&tables, kind));
    sw_json_end(j);
    sw_json_end(j);
    fputc('\n', out);
}

void sw_run_config_write(FILE *out, const struct sw_run_config *run, int32_t indent)
{
    struct tables tables;
    sw_tables_make(&tables, run->cluster.launchers);
    sw_config_write_yaml(out, indent, tables.run, run);
}

void sw_plan_config_write(FILE *out, const struct sw_plan_config *plan)
{
    struct tables tables;
    sw_tables_make(&tables, plan->run.cluster.launchers);
    sw_config_write_yaml(out, 0, tables.plan, plan);
}

void sw_run_config_visit(const struct sw_run_config *run, const char *prefix,
                         sw_config_visitor visit, void *context)
{
    struct tables tables;
    sw_tables_make(&tables, run->cluster.launchers);
    sw_config_visit_fields(prefix, tables.run, run, visit, context);
}

void sw_plan_config_visit(const struct sw_plan_config *plan, sw_config_visitor visit, void *context)
{
    struct tables tables;
    sw_tables_make(&tables, plan->run.cluster.launchers);
    sw_config_visit_fields("", tables.plan, plan, visit, context);
}
