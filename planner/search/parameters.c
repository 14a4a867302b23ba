/* The number of a model's parameters, for people and as JSON. */
#include "planner/search/report.h"

#include "core/base/json.h"
#include "core/programs/compile.h"
#include "planner/command/format.h"

int sw_search_parameters(const struct sw_run_config *run, struct sw_parameter_count *out,
                         struct sw_error *err)
{
    const struct sw_decision one = {.mesh = sw_mesh_make(1, 1, 1, 1),
                                    .train.micro_batch_size = 1,
                                    .train.strategy = SW_ATTENTION_RING};
    struct sw_program_options options;
    if (sw_plan_program_options(run, &one, &options, err) != 0)
        return -1;
    return sw_program_count_parameters(&run->model.shape, options.freeze, &options.lora, out, err);
}

const char *sw_report_parameters(const struct sw_parameter_count *count, char *buffer, size_t bytes)
{
    char total[SW_FORMAT_BYTES], layer[SW_FORMAT_BYTES], trained[SW_FORMAT_BYTES + 16] = "";
    if (count->trained < count->total) {
        char number[SW_FORMAT_BYTES];
        snprintf(trained, sizeof trained, ", %s trained",
                 sw_format_short((double)count->trained, number));
    }
    snprintf(buffer, bytes, "%s parameters%s, %s in %s%d layer%s",
             sw_format_short((double)count->total, total), trained,
             sw_format_short((double)count->of_layer, layer), count->layers == 1 ? "" : "each of ",
             (int)count->layers, count->layers == 1 ? "" : "s");
    return buffer;
}

void sw_report_model_line(FILE *out, const struct sw_run_config *run)
{
    struct sw_parameter_count count;
    char text[160];
    if (sw_search_parameters(run, &count, NULL) == 0)
        fprintf(out, "model     %s\n", sw_report_parameters(&count, text, sizeof text));
}

void sw_parameters_write_json(struct sw_json *j, const struct sw_parameter_count *count)
{
    sw_json_number(j, "parameters", (double)count->total);
    sw_json_number(j, "active_parameters", (double)count->total); /* every token uses all of them */
    sw_json_number(j, "trained_parameters", (double)count->trained);
    sw_json_number(j, "layer_parameters", (double)count->of_layer);
}

void sw_run_parameters_write_json(struct sw_json *j, const struct sw_run_config *run)
{
    struct sw_parameter_count count;
    if (sw_search_parameters(run, &count, NULL) == 0)
        sw_parameters_write_json(j, &count);
}
