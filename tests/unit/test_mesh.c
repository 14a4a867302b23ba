#include "core/sharding/mesh.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static void ranks_and_coordinates_are_inverse(void **state)
{
    (void)state;
    struct sw_mesh mesh = {.size = {2, 3, 5, 4}, .order = {SW_SP, SW_DP, SW_TP, SW_FSDP}};
    assert_int_equal(sw_mesh_rank_count(&mesh), 120);
    for (int32_t rank = 0; rank < 120; rank++) {
        int32_t c[SW_AXIS_COUNT];
        sw_mesh_coordinate(&mesh, rank, c);
        /* outermost sp, then dp, tp; fsdp runs over neighbours */
        assert_int_equal(((c[SW_SP] * 2 + c[SW_DP]) * 5 + c[SW_TP]) * 3 + c[SW_FSDP], rank);
        assert_int_equal(sw_mesh_rank(&mesh, c), rank);
    }
}

static void default_order_puts_tp_on_neighbours(void **state)
{
    (void)state;
    struct sw_mesh mesh = sw_mesh_make(2, 3, 4, 5);
    char text[64];
    assert_string_equal(sw_mesh_format(&mesh, text, sizeof text), "2,3,4,5");
    assert_string_equal(sw_mesh_format_order(&mesh, text, sizeof text), "dp,fsdp,sp,tp");
    int32_t c[SW_AXIS_COUNT];
    sw_mesh_coordinate(&mesh, 1, c);
    assert_int_equal(c[SW_TP], 1);
    sw_mesh_coordinate(&mesh, 4, c);
    assert_int_equal(c[SW_SP], 1);
}

static void axes_lists(void **state)
{
    (void)state;
    struct sw_mesh mesh = sw_mesh_make(2, 3, 1, 4);
    struct sw_axes axes = {.count = 3, .axis = {SW_SP, SW_TP, SW_FSDP}};
    struct sw_axes short_axes = {.count = 2, .axis = {SW_SP, SW_FSDP}};
    struct sw_axes reversed = {.count = 2, .axis = {SW_FSDP, SW_SP}};
    struct sw_axes none = {0};
    char text[32], tiny[4];
    assert_int_equal(sw_axes_size(&mesh, axes), 12);
    assert_int_equal(sw_axes_size(&mesh, none), 1);
    assert_int_equal(sw_axes_set(axes), 1 << SW_SP | 1 << SW_TP | 1 << SW_FSDP);
    assert_true(sw_axes_equal(sw_axes_effective(&mesh, axes), short_axes));
    assert_false(sw_axes_equal(short_axes, reversed));
    assert_false(sw_axes_equal(short_axes, axes));
    assert_true(sw_axes_equal(sw_axes_from_set(sw_axes_set(short_axes)), reversed));
    assert_string_equal(sw_axes_format(axes, text, sizeof text), "sp,tp,fsdp");
    assert_string_equal(sw_axes_format(none, text, sizeof text), "none");
    assert_string_equal(sw_axes_format(axes, tiny, sizeof tiny), "sp,");
}

static void groups_are_indexed_major_to_minor(void **state)
{
    (void)state;
    struct sw_mesh mesh = {.size = {2, 3, 2, 2}, .order = {SW_FSDP, SW_SP, SW_DP, SW_TP}};
    struct sw_axes axes = {.count = 2, .axis = {SW_SP, SW_FSDP}};
    for (int32_t rank = 0; rank < 24; rank++) {
        int32_t c[SW_AXIS_COUNT];
        sw_mesh_coordinate(&mesh, rank, c);
        assert_int_equal(sw_axes_index(&mesh, axes, rank), c[SW_SP] * 3 + c[SW_FSDP]);
        assert_int_equal(sw_axes_member(&mesh, axes, rank, sw_axes_index(&mesh, axes, rank)), rank);
        for (int32_t i = 0; i < 6; i++) {
            int32_t member = sw_axes_member(&mesh, axes, rank, i), m[SW_AXIS_COUNT];
            sw_mesh_coordinate(&mesh, member, m);
            assert_int_equal(sw_axes_index(&mesh, axes, member), i);
            assert_int_equal(m[SW_DP], c[SW_DP]);
            assert_int_equal(m[SW_TP], c[SW_TP]);
        }
    }
}

struct accepted {
    const char *text;
    bool is_auto, keep_order;
    int32_t size[SW_AXIS_COUNT];
    const char *order;
};

static void parse_accepts_every_form(void **state)
{
    (void)state;
    static const struct accepted cases[] = {
        {"auto", true, false, {0}, "dp,fsdp,tp,sp"},
        {"1,64,4,1", false, false, {1, 64, 4, 1}, "dp,fsdp,tp,sp"},
        {"1,-1,4,1", false, false, {1, -1, 4, 1}, "dp,fsdp,tp,sp"},
        {"!1,-1,4,2", false, true, {1, -1, 4, 2}, "dp,fsdp,tp,sp"},
        {"sp:2,tp:8,fsdp:-1,dp:1", false, true, {1, -1, 8, 2}, "sp,tp,fsdp,dp"},
        {"sp:2,tp:8,fsdp:-1", false, true, {1, -1, 8, 2}, "dp,sp,tp,fsdp"},
        {"tp:8,fsdp:-1", false, true, {1, -1, 8, 1}, "dp,sp,tp,fsdp"},
        {"fsdp:64", false, true, {1, 64, 1, 1}, "dp,tp,sp,fsdp"},
        {"!sp:2,tp:8,fsdp:3,dp:1", false, true, {1, 3, 8, 2}, "sp,tp,fsdp,dp"},
        {" 1 , 2,3 ,\t4 ", false, false, {1, 2, 3, 4}, "dp,fsdp,tp,sp"},
        {"dp : 1, fsdp: 2, tp:3, sp:4", false, true, {1, 2, 3, 4}, "dp,fsdp,tp,sp"},
        {"1,2147483647,1,1", false, false, {1, INT32_MAX, 1, 1}, "dp,fsdp,tp,sp"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sw_mesh_request request;
        struct sw_error err = {0};
        assert_int_equal(sw_mesh_request_parse(cases[i].text, &request, &err), 0);
        assert_int_equal(err.status, SW_OK);
        assert_int_equal(request.is_auto, cases[i].is_auto);
        assert_int_equal(request.keep_order, cases[i].keep_order);
        assert_memory_equal(request.size, cases[i].size, sizeof request.size);
        struct sw_mesh mesh = {0};
        char order[64];
        memcpy(mesh.order, request.order, sizeof mesh.order);
        assert_string_equal(sw_mesh_format_order(&mesh, order, sizeof order), cases[i].order);
    }
}

static void parse_refuses(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "mesh_dim is empty; write auto, or dp,fsdp,tp,sp as in '1,-1,4,1'"},
        {"  ", "mesh_dim is empty; write auto, or dp,fsdp,tp,sp as in '1,-1,4,1'"},
        {"1,\x1b[2J4,1,1", "mesh_dim '1,?[2J4,1,1': '?[2J4' is not a whole number; use sizes of at "
                           "least 1 and at most one -1"},
        {"8", "mesh_dim '8' has 1 size, not 4; write dp,fsdp,tp,sp as in '1,-1,4,1', or names as "
              "in 'tp:8,fsdp:-1'"},
        {"1,2,3", "mesh_dim '1,2,3' has 3 sizes, not 4; write dp,fsdp,tp,sp as in '1,-1,4,1', or "
                  "names as in 'tp:8,fsdp:-1'"},
        {"1,2,3,4,5",
         "mesh_dim '1,2,3,4,5' has 5 sizes, not 4; write dp,fsdp,tp,sp as in '1,-1,4,1'"},
        {"sp:2,tp:8,fsdp:1,dp:1,sp:1",
         "mesh_dim 'sp:2,tp:8,fsdp:1,dp:1,sp:1' has 5 sizes, not 4; write dp,fsdp,tp,sp as in "
         "'1,-1,4,1'"},
        {"sp:2,sp:8", "mesh_dim 'sp:2,sp:8': axis 'sp' appears twice; name each at most once"},
        {"tp:-1,fsdp:-1",
         "mesh_dim 'tp:-1,fsdp:-1' has 2 sizes of -1; at most one can be whatever is left"},
        {"sp:2,tp:8,pp:1,dp:1",
         "mesh_dim 'sp:2,tp:8,pp:1,dp:1': unknown axis 'pp'; the axes are dp, fsdp, tp and sp"},
        {"sp:2,:8,fsdp:1,dp:1",
         "mesh_dim 'sp:2,:8,fsdp:1,dp:1': unknown axis ''; the axes are dp, fsdp, tp and sp"},
        {"sp:2,tp:8,sp:1,dp:1",
         "mesh_dim 'sp:2,tp:8,sp:1,dp:1': axis 'sp' appears twice; name each at most once"},
        {"sp:2,8,fsdp:1,dp:1", "mesh_dim 'sp:2,8,fsdp:1,dp:1' names some axes and not others; "
                               "write four sizes, or a name "
                               "before each as in 'tp:8,fsdp:-1'"},
        {"1,0,4,1", "mesh_dim '1,0,4,1': size 0; an axis that is not used has size 1"},
        {"1,-2,4,1", "mesh_dim '1,-2,4,1': '-2' is negative; only -1 is (whatever is left)"},
        {"1,-99999999999999999999,4,1", "mesh_dim '1,-99999999999999999999,4,1': "
                                        "'-99999999999999999999' is negative; only -1 is "
                                        "(whatever is left)"},
        {"-1,-1,4,1",
         "mesh_dim '-1,-1,4,1' has 2 sizes of -1; at most one can be whatever is left"},
        {"1,,4,1", "mesh_dim '1,,4,1': a size is missing; write dp,fsdp,tp,sp as in '1,-1,4,1'"},
        {"sp:,tp:8,fsdp:1,dp:1", "mesh_dim 'sp:,tp:8,fsdp:1,dp:1': a size is missing; write "
                                 "dp,fsdp,tp,sp as in '1,-1,4,1'"},
        {"1,x,4,1", "mesh_dim '1,x,4,1': 'x' is not a whole number; use sizes of at least 1 and at "
                    "most one -1"},
        {"1,2.5,4,1", "mesh_dim '1,2.5,4,1': '2.5' is not a whole number; use sizes of at least 1 "
                      "and at most one -1"},
        {"1,-,4,1", "mesh_dim '1,-,4,1': '-' is not a whole number; use sizes of at least 1 and at "
                    "most one -1"},
        {"!!1,2,4,1", "mesh_dim '!!1,2,4,1': '!1' is not a whole number; use sizes of at least 1 "
                      "and at most one -1"},
        {"sp:2:3,tp:8,fsdp:1,dp:1", "mesh_dim 'sp:2:3,tp:8,fsdp:1,dp:1': '2:3' is not a whole "
                                    "number; use sizes of at least 1 and at most one -1"},
        {"1,2147483648,4,1", "mesh_dim '1,2147483648,4,1': '2147483648' is too large; no cluster "
                             "has so many accelerators"},
        {"1,99999999999999999999,4,1",
         "mesh_dim '1,99999999999999999999,4,1': '99999999999999999999' is too large; no cluster "
         "has so many accelerators"},
        {"65536,65536,1,1", "mesh_dim '65536,65536,1,1': the product of the sizes is too large; no "
                            "cluster has so many accelerators"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sw_mesh_request request;
        struct sw_error err = {0};
        assert_int_equal(sw_mesh_request_parse(cases[i].text, &request, &err), -1);
        assert_string_equal(err.message, cases[i].message);
        assert_int_equal(err.status, SW_BAD_INPUT);
        assert_int_equal(sw_mesh_request_parse(cases[i].text, &request, NULL), -1);
    }
}

static struct sw_mesh_request parsed(const char *text)
{
    struct sw_mesh_request request;
    assert_int_equal(sw_mesh_request_parse(text, &request, NULL), 0);
    return request;
}

static void resolve_fills_what_is_left(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int32_t accelerators;
        const char *sizes, *order;
    } cases[] = {
        {"1,64,4,1", 256, "1,64,4,1", "dp,fsdp,sp,tp"},
        {"1,-1,4,1", 256, "1,64,4,1", "dp,fsdp,sp,tp"},
        {"!1,-1,4,1", 24, "1,6,4,1", "dp,fsdp,tp,sp"},
        {"sp:2,tp:8,fsdp:-1,dp:1", 64, "1,4,8,2", "sp,tp,fsdp,dp"},
        {"2,-1,4,1", 8, "2,1,4,1", "dp,fsdp,sp,tp"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sw_mesh_request request = parsed(cases[i].text);
        struct sw_mesh mesh;
        char text[64];
        assert_int_equal(sw_mesh_request_resolve(&request, cases[i].accelerators, &mesh, NULL), 0);
        assert_string_equal(sw_mesh_format(&mesh, text, sizeof text), cases[i].sizes);
        assert_string_equal(sw_mesh_format_order(&mesh, text, sizeof text), cases[i].order);
        assert_true(sw_mesh_request_admits(&request, &mesh));
    }
}

static void resolve_refuses(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int32_t accelerators;
        const char *message;
    } cases[] = {
        {"1,64,4,1", 128,
         "mesh_dim 1,64,4,1 needs 256 accelerators, but there are 128; write -1 for the axis that "
         "takes whatever is left"},
        {"1,1,1,1", 8,
         "mesh_dim 1,1,1,1 needs 1 accelerator, but there are 8; write -1 for the axis that takes "
         "whatever is left"},
        {"1,2,1,1", 1,
         "mesh_dim 1,2,1,1 needs 2 accelerators, but there is 1; write -1 for the axis that takes "
         "whatever is left"},
        {"1,-1,4,1", 6, "mesh_dim 1,-1,4,1 needs a multiple of 4 accelerators, but there are 6"},
        {"4,-1,4,1", 8, "mesh_dim 4,-1,4,1 needs a multiple of 16 accelerators, but there are 8"},
        {"1,-1,4,1", 0, "mesh_dim 1,-1,4,1 needs a multiple of 4 accelerators, but there are 0"},
        {"auto", 8, "mesh_dim auto has no sizes of its own; search for a mesh"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sw_mesh_request request = parsed(cases[i].text);
        struct sw_mesh mesh;
        struct sw_error err = {0};
        assert_int_equal(sw_mesh_request_resolve(&request, cases[i].accelerators, &mesh, &err), -1);
        assert_string_equal(err.message, cases[i].message);
        assert_int_equal(err.status, SW_UNMET);
    }
}

static void admits_compares_given_sizes(void **state)
{
    (void)state;
    struct sw_mesh mesh = sw_mesh_make(1, 16, 4, 1), other = sw_mesh_make(2, 8, 4, 1);
    struct sw_mesh_request open = parsed("1,-1,4,1"), any = parsed("auto");
    assert_true(sw_mesh_request_admits(&open, &mesh));
    assert_false(sw_mesh_request_admits(&open, &other));
    assert_true(sw_mesh_request_admits(&any, &other));
}

struct walk {
    int32_t accelerators, count, stop_at;
    struct sw_mesh last;
};

static int visit(const struct sw_mesh *mesh, void *context)
{
    struct walk *walk = context;
    assert_int_equal(sw_mesh_rank_count(mesh), walk->accelerators);
    if (walk->count == 0) {
        assert_int_equal(mesh->size[SW_FSDP], walk->accelerators);
    } else {
        /* fsdp falls; dp, then tp rise: a strict order, so no mesh comes twice */
        const int32_t *a = walk->last.size, *b = mesh->size;
        assert_true(a[SW_FSDP] > b[SW_FSDP] ||
                    (a[SW_FSDP] == b[SW_FSDP] &&
                     (a[SW_DP] < b[SW_DP] || (a[SW_DP] == b[SW_DP] && a[SW_TP] < b[SW_TP]))));
    }
    walk->last = *mesh;
    return ++walk->count == walk->stop_at ? 7 : 0;
}

/* The product over primes p^k of C(k+3, 3). */
static int32_t expected_count(int32_t n)
{
    int32_t count = 1;
    for (int32_t p = 2; n > 1; p++) {
        int32_t k = 0;
        for (; n % p == 0; n /= p)
            k++;
        count *= (k + 3) * (k + 2) * (k + 1) / 6;
    }
    return count;
}

static void enumerate_visits_every_factorization_once(void **state)
{
    (void)state;
    static const struct {
        int32_t accelerators, count;
    } known[] = {{1, 1}, {7, 4}, {64, 84}, {512, 220}, {4096, 455}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct walk walk = {.accelerators = known[i].accelerators};
        assert_int_equal(sw_mesh_enumerate(known[i].accelerators, visit, &walk), 0);
        assert_int_equal(walk.count, known[i].count);
    }
    for (int32_t n = 1; n <= 1500; n++) {
        struct walk walk = {.accelerators = n};
        assert_int_equal(sw_mesh_enumerate(n, visit, &walk), 0);
        assert_int_equal(walk.count, expected_count(n));
    }
    struct walk prime = {.accelerators = INT32_MAX};
    assert_int_equal(sw_mesh_enumerate(INT32_MAX, visit, &prime), 0);
    assert_int_equal(prime.count, 4);
}

static void enumerate_stops_when_asked(void **state)
{
    (void)state;
    struct walk walk = {.accelerators = 64, .stop_at = 5};
    assert_int_equal(sw_mesh_enumerate(64, visit, &walk), 7);
    assert_int_equal(walk.count, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_and_coordinates_are_inverse),
        cmocka_unit_test(default_order_puts_tp_on_neighbours),
        cmocka_unit_test(axes_lists),
        cmocka_unit_test(groups_are_indexed_major_to_minor),
        cmocka_unit_test(parse_accepts_every_form),
        cmocka_unit_test(parse_refuses),
        cmocka_unit_test(resolve_fills_what_is_left),
        cmocka_unit_test(resolve_refuses),
        cmocka_unit_test(admits_compares_given_sizes),
        cmocka_unit_test(enumerate_visits_every_factorization_once),
        cmocka_unit_test(enumerate_stops_when_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
