/* sw_mesh_request_parse on any text: no crash, and what it accepts it can resolve and print. */
#include "core/sharding/mesh.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void check_accepted(const struct sw_mesh_request *request)
{
    unsigned axes = 0;
    int64_t product = 1;
    bool open = false;
    for (int i = 0; i < SW_AXIS_COUNT; i++) {
        axes |= 1u << request->order[i];
        require(request->size[i] >= 1 || (request->size[i] == -1 && !open));
        open = open || request->size[i] == -1;
        product *= request->size[i] == -1 ? 1 : request->size[i];
    }
    require(axes == 15 && product <= INT32_MAX);
    struct sw_mesh mesh;
    char text[64];
    require(sw_mesh_request_resolve(request, (int32_t)product, &mesh, NULL) == 0);
    require(sw_mesh_rank_count(&mesh) == product && sw_mesh_request_admits(request, &mesh));
    struct sw_mesh_request again;
    sw_mesh_format(&mesh, text, sizeof text);
    require(sw_mesh_request_parse(text, &again, NULL) == 0);
    require(memcmp(again.size, mesh.size, sizeof mesh.size) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (text == NULL)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    struct sw_mesh_request request;
    struct sw_error err = {0};
    int result = sw_mesh_request_parse(text, &request, &err);
    require((result == 0) == (err.status == SW_OK));
    if (result != 0)
        require(err.status == SW_BAD_INPUT && err.message[0] != '\0');
    else if (!request.is_auto)
        check_accepted(&request);
    free(text);
    return 0;
}
