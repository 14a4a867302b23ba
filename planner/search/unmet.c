/* Reports why no mesh fits, or keeps the goals of a run. */
#include "planner/command/format.h"
#include "planner/search/report.h"

#include <string.h>

const char *sw_report_lacks(const struct sw_candidate *closest)
{
    return closest != NULL && sw_candidate_verdict(closest) == SW_VERDICT_NO_HEADROOM
               ? "leaves the memory_headroom of"
               : "fits";
}

char *sw_report_missed(const struct sw_run_config *run, const struct sw_candidate *c, char *buffer,
                       size_t bytes)
{
    const bool token = c->serve.misses_token;
    char goal[SW_FORMAT_BYTES], seconds[SW_FORMAT_BYTES], mesh[64];
    const double wanted = token ? run->serve_token_latency : run->serve_first_token_latency;
    const double taken = token ? c->cost.step_seconds : c->serve.first_beside_seconds;
    snprintf(buffer, bytes, "mesh_dim %s misses %s %s with %s",
             sw_mesh_format(&c->decision.mesh, mesh, sizeof mesh),
             token ? "serve.token_latency" : "serve.first_token_latency",
             sw_format_seconds(wanted, goal), sw_format_seconds(taken, seconds));
    return buffer;
}

static void fail_goals(const struct sw_run_config *run, const struct sw_search *s,
                       struct sw_error *err)
{
    char missed[160];
    sw_fail(err, SW_UNMET,
            "none of %d meshes keeps the latency goals of '%s': %s; allow more, serve fewer or "
            "shorter sequences, or use more accelerators",
            s->count, run->name, sw_report_missed(run, &s->mesh[0], missed, sizeof missed));
}

/* Prints the smallest change, and the others on lines of their own. */
static void print_help(const struct sw_search *search, const struct sw_candidate *closest)
{
    const char *said = search->help_count > 0 ? search->help[0].text : closest->help;
    if (said[0] != '\0')
        fprintf(stderr, "    help: %s\n", said);
    for (int32_t i = 1; i < search->help_count; i++)
        fprintf(stderr, "      or: %s\n", search->help[i].text);
}

int sw_report_unmet(const struct sw_run_config *run, const struct sw_search *search)
{
    const struct sw_candidate *closest = search->count > 0 ? &search->mesh[0] : NULL;
    const bool trains = search->purpose == SW_FOR_TRAIN;
    const struct sw_place at = run->mesh_dim_place;
    struct sw_error err = {0};
    char mesh[64];
    if (closest != NULL)
        sw_mesh_format(&closest->decision.mesh, mesh, sizeof mesh);
    if (closest == NULL)
        sw_fail(&err, SW_UNMET, "no mesh of %d accelerators; help: use mesh_dim: auto",
                search->accelerators);
    else if (search->feasible > 0)
        fail_goals(run, search, &err);
    else if (trains && closest->reason == SW_REJECT_PRODUCT)
        sw_fail(&err, SW_UNMET, "%s", closest->detail);
    else if (search->count == 1)
        sw_fail(&err, SW_UNMET, "mesh_dim %s %s '%s': %s", mesh,
                trains ? "does not fit" : "cannot serve", run->name, closest->detail);
    else
        sw_fail(&err, SW_UNMET, "none of %d meshes %s '%s'; the closest is mesh_dim %s: %s",
                search->count, trains ? sw_report_lacks(closest) : "can serve", run->name, mesh,
                closest->detail);
    /* --set and the command line are no files */
    if (trains && at.line > 0 && at.file != NULL && at.file[0] != '-')
        sw_fail_place(&err, at);
    sw_command_fail(&err);
    if (closest != NULL)
        print_help(search, closest);
    return SW_UNMET;
}
