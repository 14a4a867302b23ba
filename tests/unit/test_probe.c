/* What preflight holds a probe against: the runner's time, also in plans of serving. */
#include "runner/preflight/probe.h"
#include "tests/unit/serving_support.h"

/* Of a node of GPUs whose servers sum in two steps, the rings that the runner's NCCL makes. */
static void servers_are_not_the_runner(void **state)
{
    (void)state;
    static const struct sw_products grid = {.rows = 1};
    struct sw_run_config run = {.cluster = cluster_of()};
    struct sw_program_options o = options_of(SW_F32);
    struct sw_probe_group of_default[SW_PROBE_GROUPS], of_servers[SW_PROBE_GROUPS];
    struct sw_program *p = NULL;
    struct sw_error err = {0};
    struct sw_plan plan = {.run = &run};
    struct sw_accelerator_config *a = &run.cluster.accelerator;
    a->device = SW_DEVICE_CUDA;
    a->products = a->prefill_attention = a->decode_attention = &grid;
    run.cluster.link[0].bandwidth = 300e9;
    run.cluster.profile = sw_profile_default(a);
    if (sw_program_compile(&o, SW_LAID_OUT, &p, &err) != 0)
        fail_msg("%s", err.message);
    const int32_t count = sw_probe_groups(&plan, p, of_default);
    assert_true(count > 0 && of_default[0].kind == SW_ALL_REDUCE);
    sw_profile_for_serving(&run.cluster);
    assert_true(run.cluster.profile.reduces_directly);
    assert_int_equal(sw_probe_groups(&plan, p, of_servers), count);
    for (int32_t i = 0; i < count; i++)
        close_to(of_servers[i].predicted_s, of_default[i].predicted_s);
    assert_true(sw_profile_is_of_servers(&run.cluster.profile)); /* the plan is as it was */
    sw_program_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(servers_are_not_the_runner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
