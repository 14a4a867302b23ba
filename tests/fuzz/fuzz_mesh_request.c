/* sw_mesh_request_parse on any text: no crash, a mistake is told in one line, and what it accepts
 * it can resolve and print. */
#include "core/sharding/mesh.h"
#include "tests/fuzz/support.h"

#include <string.h>

static void check_accepted(const struct sw_mesh_request *request, const char *from)
{
    unsigned axes = 0;
    int64_t product = 1;
    bool open = false;
    for (int i = 0; i < SW_AXIS_COUNT; i++) {
        axes |= 1u << request->order[i];
        fuzz_require(request->size[i] >= 1 || (request->size[i] == -1 && !open), "no size", from);
        open = open || request->size[i] == -1;
        product *= request->size[i] == -1 ? 1 : request->size[i];
    }
    fuzz_require(axes == 15 && product <= INT32_MAX, "no mesh", from);
    struct sw_mesh mesh;
    char text[64];
    fuzz_require(sw_mesh_request_resolve(request, (int32_t)product, &mesh, NULL) == 0,
                 "not resolved", from);
    fuzz_require(sw_mesh_rank_count(&mesh) == product && sw_mesh_request_admits(request, &mesh),
                 "resolved to another mesh", from);
    struct sw_mesh_request again;
    sw_mesh_format(&mesh, text, sizeof text);
    fuzz_require(sw_mesh_request_parse(text, &again, NULL) == 0 &&
                     memcmp(again.size, mesh.size, sizeof mesh.size) == 0,
                 "printed as another mesh", text);
}

void fuzz_one(const uint8_t *data, size_t bytes)
{
    int32_t count;
    const char *text = fuzz_files(data, bytes, &count)->text;
    struct sw_mesh_request request;
    struct sw_error err = {0};
    const int result = sw_mesh_request_parse(text, &request, &err);
    fuzz_require((result == 0) == (err.status == SW_OK), "no error and no mesh, or both", text);
    if (result != 0) {
        fuzz_require(err.status == SW_BAD_INPUT && err.message[0] != '\0', "no message", text);
        fuzz_require_plain(err.message);
    } else if (!request.is_auto) {
        check_accepted(&request, text);
    }
}
