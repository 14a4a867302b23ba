/* The CUDA device's marks, and what calibrate finds with them: on a GPU where there is one (else
 * skipped), or emulated, where whatever is queued takes a microsecond. */
#include "runner/calibrate/gpu.h"
#include "runner/collective/comm.h"
#include "runner/device/cuda/device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

static struct sw_device *device;

static void good(int status, const struct sw_error *err)
{
    if (status != 0)
        fail_msg("%s", err->message);
}

/* Between them a copy to the device: one piece of work. */
static void marks_tell_the_time_between_them(void **state)
{
    static char bytes[1 << 20];
    struct sw_error err = {0};
    void *memory = device->vtable->allocate(device, sizeof bytes);
    (void)state;
    assert_non_null(memory);
    for (int32_t round = 0; round < 2; round++) { /* again: as passed last */
        good(device->vtable->mark(device, 0, &err), &err);
        good(device->vtable->copy_in(device, memory, bytes, sizeof bytes), &err);
        good(device->vtable->mark(device, 1, &err), &err);
        good(device->vtable->synchronize(device, &err), &err);
        const double seconds = device->vtable->mark_seconds(device, 0, 1);
        assert_true(seconds > 0 && seconds < 0.1);
    }
    assert_true(device->vtable->mark_seconds(device, 0, 5) < 0); /* there is no such mark */
    device->vtable->release(device, memory);
}

static void a_recording_takes_no_new_marks(void **state)
{
    struct sw_error err = {0};
    (void)state;
    good(device->vtable->mark(device, 7, &err), &err);
    good(device->vtable->record_begin(device, &err), &err);
    good(device->vtable->mark(device, 7, &err), &err);
    assert_int_equal(device->vtable->mark(device, 8, &err), -1);
    assert_string_equal(err.message, "mark 8 is too many while a recording is made");
    err = (struct sw_error){0};
    good(device->vtable->record_end(device, NULL, &err), &err);
}

static void facts_are_those_of_a_device(void **state)
{
    struct sw_device_facts facts;
    struct sw_error err = {0};
    (void)state;
    good(device->vtable->facts(device, &facts, &err), &err);
    assert_true(facts.name[0] != '\0');
    assert_true(facts.memory_bytes >= device->vtable->free_bytes(device));
#ifndef SW_EMULATED
    assert_true(facts.major >= 5 && facts.units > 0);
#endif
}

static void find(double seconds, const struct sw_gpu_shape *shapes, int32_t count,
                 struct sw_kernel_rates *rates)
{
    struct sw_comm *alone = NULL;
    struct sw_error err = {0};
    good(sw_comm_single_create(&alone, &err), &err);
    good(sw_gpu_kernels(device, alone, seconds, shapes, count, rates, &err), &err);
    alone->vtable->destroy(alone);
}

#ifdef SW_EMULATED

/* Tiny: the emulator takes a host's second for what a GPU does in microseconds. */
static const struct sw_gpu_shape tiny[] = {{128, 32, 1, 16}, {256, 32, 1, 32}};

static void a_replay_is_timed_op_by_op(void **state)
{
    struct sw_kernel_rates rates;
    double calls = 0, seconds = 0;
    (void)state;
    find(0.01, tiny, 2, &rates);
    /* most ops are one kernel; times are floats of ms */
    assert_true(rates.least_seconds > 0.999e-6 && rates.least_seconds < 1.001e-6);
    assert_int_equal(rates.programs, 4);
    for (int32_t k = 0; k < SW_RATE_COUNT; k++)
        for (int32_t b = 0; b < SW_RATE_BUCKETS; b++) {
            calls += rates.bucket[k][b].calls;
            seconds += rates.bucket[k][b].seconds;
        }
    /* none is less than one, and the largest are some chunks and blocks */
    assert_true(calls > 100 && seconds >= calls * 0.5e-6 && seconds < calls * 10e-6);
}

#else

/* What a GPU session looks at first: shares of the data sheet, printed too. */
static void a_gpu_reaches_its_usual_shares(void **state)
{
    int32_t count;
    const struct sw_gpu_shape *shapes = sw_gpu_shapes(&count);
    struct sw_device_facts facts;
    struct sw_kernel_rates rates;
    struct sw_calibration c;
    struct sw_error err = {0};
    (void)state;
    good(device->vtable->facts(device, &facts, &err), &err);
    find(20, shapes, count, &rates);
    const struct sw_data_sheet *sheet = sw_data_sheet_find(facts.name);
    good(sw_gpu_calibration(&rates, 1, sheet, &c, &err), &err);
    printf("note: %.0f programs, a replayed op takes %.2f us at least, fp32 %.3g TFLOP/s of peak\n",
           rates.programs, c.launch_latency_s * 1e6, c.fp32_flops / 1e12);
    /* between the fastest launch that was ever published, and what the host takes for one */
    assert_true(c.launch_latency_s > 0.5e-6 && c.launch_latency_s < 20e-6);
    for (int32_t k = 0; k < SW_RATE_COUNT; k++) {
        const struct sw_calibration_curve *curve = &c.curve[k];
        for (int32_t i = 0; i < curve->count; i++)
            printf("note: curve %d: %.4g %.3f\n", (int)k, curve->point[i].size,
                   curve->point[i].fraction);
        assert_true(curve->count >= 6);
        /* large products are far from small ones, and none is slower than a fifth of the peak */
        assert_true(curve->point[0].fraction < curve->point[curve->count - 1].fraction);
        assert_true(curve->point[curve->count - 1].fraction > 0.2);
    }
}

#endif

int main(void)
{
    struct sw_error err = {0};
    device = sw_cuda_device_create(0, &err);
    if (device == NULL) {
        printf("SKIP: no GPU: %s\n", err.message);
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marks_tell_the_time_between_them),
        cmocka_unit_test(a_recording_takes_no_new_marks),
        cmocka_unit_test(facts_are_those_of_a_device),
#ifdef SW_EMULATED
        cmocka_unit_test(a_replay_is_timed_op_by_op),
#else
        cmocka_unit_test(a_gpu_reaches_its_usual_shares),
#endif
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    device->vtable->destroy(device);
    return failed == 0 ? 0 : 1;
}
