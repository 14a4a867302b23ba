#include "runner/rank/version.h"

#include "core/base/json.h"
#include "runner/device/cpu/amx.h"
#include "runner/device/cpu/onednn.h"
#include "runner/rank/accelerator.h"
#include "runner/rank/launch.h"

#include <stdio.h>
#include <string.h>

static void onednn(char text[32])
{
    const dnnl_version_t *v = dnnl_version();
    snprintf(text, 32, "%d.%d.%d", v->major, v->minor, v->patch);
}

const char *sw_version_json(char *buffer, size_t buffer_bytes)
{
    char dnnl[32], mpi[128];
    onednn(dnnl);
    buffer[0] = '\0';
    FILE *out = fmemopen(buffer, buffer_bytes, "w");
    if (out == NULL)
        return buffer;
    struct sw_json j = {.out = out, .style = SW_JSON_LINE};
    sw_json_object(&j, NULL);
    sw_json_text(&j, "shardwright", SW_VERSION);
    sw_json_text(&j, "onednn", dnnl);
    sw_json_text(&j, "instruction_set", sw_onednn_isa());
    sw_json_text(&j, "kernel_instruction_set", sw_cpu_kernel_isa(sw_onednn_has_amx()));
    sw_json_text(&j, "mpi", sw_launch_mpi_version(mpi, sizeof mpi));
    sw_json_end(&j);
    fclose(out);
    return buffer;
}

const char *sw_version_document(const struct sw_version_parts *parts, char *buffer,
                                size_t buffer_bytes)
{
    char dnnl[32], mpi[128], cuda[512];
    onednn(dnnl);
    sw_accelerator_versions(cuda, sizeof cuda);
    const bool has_cuda = strncmp(cuda, "none", 4) != 0;
    buffer[0] = '\0';
    FILE *out = fmemopen(buffer, buffer_bytes, "w");
    if (out == NULL)
        return buffer;
    struct sw_json j = {.out = out, .style = SW_JSON_SPACES};
    sw_json_object(&j, NULL);
    sw_json_text(&j, "schema", "shardwright.version/1");
    sw_json_text(&j, "program", "runner");
    sw_json_text(&j, "version", SW_VERSION);
    sw_json_text(&j, "commit", parts->commit);
    sw_json_array(&j, "devices");
    sw_json_text(&j, NULL, "cpu");
    if (has_cuda)
        sw_json_text(&j, NULL, "cuda");
    sw_json_end(&j);
    sw_json_text(&j, "onednn", dnnl);
    sw_json_text(&j, "instruction_set", sw_onednn_isa());
    sw_json_text(&j, "kernel_instruction_set", sw_cpu_kernel_isa(sw_onednn_has_amx()));
    sw_json_text(&j, "mpi", sw_launch_mpi_version(mpi, sizeof mpi));
    sw_json_text(&j, "cuda", has_cuda ? cuda : NULL);
    sw_json_text(&j, "libmicrohttpd", parts->http);
    sw_json_end(&j);
    fputs("\n", out);
    fclose(out);
    return buffer;
}

const char *sw_version_text(const struct sw_version_parts *parts, char *buffer, size_t buffer_bytes)
{
    char dnnl[32], mpi[128], cuda[512], http[256];
    onednn(dnnl);
    if (parts->http != NULL)
        snprintf(http, sizeof http, "libmicrohttpd %.200s", parts->http);
    else
        snprintf(http, sizeof http, "none (%.200s)", parts->no_http);
    snprintf(buffer, buffer_bytes,
             "runner %s\n  devices: cpu (oneDNN %s, %s; own kernels, %s)\n  MPI: %s\n  CUDA: %s\n  "
             "HTTP: %s\n",
             SW_VERSION, dnnl, sw_onednn_isa(), sw_cpu_kernel_isa(sw_onednn_has_amx()),
             sw_launch_mpi_version(mpi, sizeof mpi), sw_accelerator_versions(cuda, sizeof cuda),
             http);
    return buffer;
}
