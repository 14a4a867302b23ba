/* The reshards that programs have must come out as an expert would write them. */
#include "core/sharding/reshard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

/* "ds,t,-|f": dimensions, then the partial axes; d dp, f fsdp, t tp, s sp. */
static struct sw_sharding sharding(const char *text)
{
    struct sw_sharding out = {.spec.ndim = 1};
    bool partial = false;
    for (; *text != '\0'; text++) {
        const char *at = strchr("dfts", *text);
        struct sw_axes *dim = &out.spec.dim[out.spec.ndim - 1];
        if (*text == ',')
            out.spec.ndim++;
        else if (*text == '|')
            partial = true;
        else if (at != NULL && partial)
            out.partial |= (sw_axis_set)(1u << (at - "dfts"));
        else if (at != NULL)
            dim->axis[dim->count++] = (uint8_t)(at - "dfts");
    }
    return out;
}

static const int64_t shape[] = {256, 512, 1024, 64};

static void check(struct sw_mesh mesh, const char *from_text, const char *to_text, const char *want)
{
    struct sw_sharding from = sharding(from_text), to = sharding(to_text);
    struct sw_reshard_step steps[SW_RESHARD_MAX_STEPS];
    struct sw_error err = {0};
    int count = sw_reshard(&mesh, shape, NULL, &from, &to, steps, &err);
    char got[SW_ERROR_BYTES + 64] = "", names[32];
    size_t used = 0;
    for (int i = 0; i < count; i++) {
        used += (size_t)snprintf(got + used, sizeof got - used, "%s%s %s", i > 0 ? "; " : "",
                                 sw_collective_name(steps[i].kind),
                                 sw_axes_format(steps[i].axes, names, sizeof names));
        if (steps[i].kind != SW_ALL_REDUCE)
            used += (size_t)snprintf(got + used, sizeof got - used, " %d", steps[i].dim);
        if (steps[i].kind == SW_ALL_TO_ALL)
            used += (size_t)snprintf(got + used, sizeof got - used, "->%d", steps[i].dim_to);
    }
    if (count < 0)
        snprintf(got, sizeof got, "%s", err.message);
    assert_string_equal(got, want);
}

static void programs_get_one_collective(void **state)
{
    (void)state;
    struct sw_mesh mesh = sw_mesh_make(2, 4, 4, 2);
    check(mesh, "fs,t", "fs,t", "");
    check(mesh, "fs,t", "-,t", "all_gather fsdp,sp 0");
    check(mesh, "-,t|fsd", "fs,t|d", "reduce_scatter fsdp,sp 0");
    check(mesh, "df,s,-|t", "df,st,-", "reduce_scatter tp 1");
    check(mesh, "df,s,-|t", "df,s,-", "all_reduce tp");
    check(mesh, "df,st,-", "df,s,-", "all_gather tp 1");
    check(mesh, "df,s,t", "df,-,ts", "all_to_all sp 1->2");
    check(mesh, "df,-,ts", "df,s,t", "all_to_all sp 2->1");
    check(mesh, "df,-,-", "df,s,-", "slice sp 1");
    check(mesh, "fs,t|d", "fs,t", "all_reduce dp");
    check(mesh, "-|dfs", "-", "all_reduce dp,fsdp,sp");
    check(mesh, "t,-|fsd", "t,fs|d", "reduce_scatter fsdp,sp 1");
}

static void several_steps_go_in_the_cheap_order(void **state)
{
    (void)state;
    struct sw_mesh mesh = sw_mesh_make(2, 4, 8, 2);
    /* reduce before gather */
    check(mesh, "f,-|t", "-,-", "all_reduce tp; all_gather fsdp 0");
    /* the largest axis first */
    check(mesh, "-,-|ft", "f,t", "reduce_scatter tp 1; reduce_scatter fsdp 0");
    /* what is scattered is reduced on the smaller rest */
    check(mesh, "-,-|fd", "f,-", "reduce_scatter fsdp 0; all_reduce dp");
    /* slice before everything */
    check(mesh, "-,s|t", "f,s", "slice fsdp 0; all_reduce tp");
    /* axes that change places are exchanged, not gathered and sliced */
    check(mesh, "f,s", "s,f", "all_to_all sp 1->0; all_to_all fsdp,sp 0->1; all_to_all sp 1->0");
}

static void order_of_axes_within_a_dimension(void **state)
{
    (void)state;
    struct sw_mesh mesh = sw_mesh_make(1, 4, 1, 4);
    check(mesh, "fs,-", "sf,-",
          "all_to_all sp 0->1; all_to_all fsdp 0->1; all_to_all sp,fsdp 1->0");
    /* nowhere to move to */
    check(mesh, "fs", "sf", "all_gather fsdp,sp 0; slice sp,fsdp 0");
}

static void axes_of_size_one_are_ignored(void **state)
{
    (void)state;
    struct sw_mesh mesh = sw_mesh_make(1, 1, 4, 1);
    check(mesh, "fs,t|d", "-,t", "");
    check(mesh, "df,s,t", "df,-,ts", "");
    check(mesh, "d,s,-|tf", "d,st,-", "reduce_scatter tp 1");
}

static void refusals(void **state)
{
    (void)state;
    struct sw_mesh mesh = sw_mesh_make(2, 4, 3, 2);
    check(mesh, "-,-", "-,-|fd", "the value is not partial over dp,fsdp, so it cannot become so");
    check(mesh, "-,-", "t,-", "dimension 0 of size 256 is not divisible by tp 3");
    check(mesh, "t,-", "-,-", "dimension 0 of size 256 is not divisible by tp 3");
    check(mesh, "-,-", "-,-,-", "cannot reshard 2 dimensions to 3");
    check(mesh, "f,f", "-,-", "the given sharding uses axis fsdp twice");
    check(mesh, "f,-|f", "-,-", "the given sharding uses axis fsdp twice");
    check(mesh, "f,-|d", "d,-|d", "the wanted sharding uses axis dp twice");
}

/* Steps in between must keep units whole too: heads cannot take what is not theirs. */
static void units_stay_whole(void **state)
{
    (void)state;
    struct sw_mesh mesh = sw_mesh_make(1, 4, 1, 4);
    struct sw_sharding from = sharding("fs,-"), to = sharding("sf,-");
    const int64_t heads[] = {64, 64}, unit[] = {1, 16};
    struct sw_reshard_step steps[SW_RESHARD_MAX_STEPS];
    int count = sw_reshard(&mesh, heads, unit, &from, &to, steps, NULL);
    assert_true(count > 0);
    for (int i = 0; i < count; i++) {
        int64_t local[2];
        assert_int_equal(sw_local_shape(&mesh, &steps[i].after.spec, heads, unit, local, NULL), 0);
    }
    assert_true(sw_sharding_equal(&steps[count - 1].after, &to));
    struct sw_error err = {0};
    struct sw_sharding split = sharding("-,fs");
    assert_int_equal(sw_reshard(&mesh, heads, unit, &to, &split, steps, &err), -1);
    assert_string_equal(
        err.message, "dimension 1 of size 64 is not divisible by fsdp,sp 16 in whole units of 16");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_get_one_collective),
        cmocka_unit_test(several_steps_go_in_the_cheap_order),
        cmocka_unit_test(order_of_axes_within_a_dimension),
        cmocka_unit_test(axes_of_size_one_are_ignored),
        cmocka_unit_test(refusals),
        cmocka_unit_test(units_stay_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
