/* The functions of runner/device/cuda/mma.cuh against the table at its top: on a GPU, whose
 * instructions they are, and on the emulator, whose C++ must lay matrices out alike. The matrices
 * have small integers, which bf16 and sums in f32 have exactly. And what codes of e4m3 become,
 * against the GPU's own instruction where it has one (compute 8.9), else NVIDIA's arithmetic. */
#include "core/base/number.h"
#include "core/base/quantize.h"
#include "runner/device/cuda/device.h"
#include "tests/unit/mma_kernel.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum { SIDE = 16, WARP = 32 };

static struct mma_lane lanes[WARP];

/* Every element of a differs from every other one (256 of them fit in 8 bits), of b most do. */
static int a_at(int row, int k)
{
    return 16 * row + k;
}

static int b_at(int k, int column)
{
    return (7 * k + 13 * column) % 101 - 50;
}

static cudaStream_t stream;

static void *on_device(const void *data, size_t bytes)
{
    void *memory = NULL;
    assert_int_equal(cudaMalloc(&memory, bytes), cudaSuccess);
    if (data != NULL) {
        assert_int_equal(cudaMemcpyAsync(memory, data, bytes, cudaMemcpyHostToDevice, stream),
                         cudaSuccess);
        assert_int_equal(cudaStreamSynchronize(stream), cudaSuccess);
    }
    return memory;
}

static int look(void **unused)
{
    (void)unused;
    uint16_t a[SIDE][SIDE], b[SIDE][SIDE], b_columns[SIDE][SIDE];
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++) {
            a[i][j] = sw_bf16_from_float((float)a_at(i, j));
            b[i][j] = sw_bf16_from_float((float)b_at(i, j));
            b_columns[j][i] = b[i][j];
        }
    assert_int_equal(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    void *of_a = on_device(a, sizeof a), *of_b = on_device(b, sizeof b);
    void *of_columns = on_device(b_columns, sizeof b_columns);
    void *made = on_device(NULL, sizeof lanes);
    assert_int_equal(mma_lanes(of_a, of_b, of_columns, made, stream), cudaSuccess);
    assert_int_equal(cudaMemcpyAsync(lanes, made, sizeof lanes, cudaMemcpyDeviceToHost, stream),
                     cudaSuccess);
    assert_int_equal(cudaStreamSynchronize(stream), cudaSuccess);
    (void)cudaFree(of_a);
    (void)cudaFree(of_b);
    (void)cudaFree(of_columns);
    (void)cudaFree(made);
    (void)cudaStreamDestroy(stream);
    return 0;
}

static void expect_two(uint32_t two, int first, int second)
{
    assert_true(sw_bf16_to_float((uint16_t)two) == (float)first);
    assert_true(sw_bf16_to_float((uint16_t)(two >> 16)) == (float)second);
}

static void test_a_lies_as_documented(void **unused)
{
    (void)unused;
    for (int lane = 0; lane < WARP; lane++) {
        const int g = lane / 4, t = lane % 4;
        expect_two(lanes[lane].a[0], a_at(g, 2 * t), a_at(g, 2 * t + 1));
        expect_two(lanes[lane].a[1], a_at(g + 8, 2 * t), a_at(g + 8, 2 * t + 1));
        expect_two(lanes[lane].a[2], a_at(g, 2 * t + 8), a_at(g, 2 * t + 9));
        expect_two(lanes[lane].a[3], a_at(g + 8, 2 * t + 8), a_at(g + 8, 2 * t + 9));
    }
}

/* Two matrices side by side, read by rows and by columns. */
static void test_b_lies_as_documented(void **unused)
{
    (void)unused;
    for (int lane = 0; lane < WARP; lane++)
        for (int i = 0; i < 2; i++) {
            const int column = lane / 4 + 8 * i, t = lane % 4;
            const uint32_t *both[2] = {lanes[lane].b + 2 * i, lanes[lane].b_columns + 2 * i};
            for (int way = 0; way < 2; way++) {
                expect_two(both[way][0], b_at(2 * t, column), b_at(2 * t + 1, column));
                expect_two(both[way][1], b_at(2 * t + 8, column), b_at(2 * t + 9, column));
            }
        }
}

static void test_products_are_exact(void **unused)
{
    (void)unused;
    for (int lane = 0; lane < WARP; lane++)
        for (int i = 0; i < 2; i++)
            for (int e = 0; e < 4; e++) {
                const int row = lane / 4 + e / 2 * 8, column = 2 * (lane % 4) + e % 2 + 8 * i;
                int sum = 1000 * lane + e;
                for (int k = 0; k < SIDE; k++)
                    sum += a_at(row, k) * b_at(k, column);
                assert_true(lanes[lane].c[i][e] == (float)sum);
            }
}

static void test_copies_end_in_zeros(void **unused)
{
    (void)unused;
    for (int lane = 0; lane < WARP; lane++) {
        const uint32_t *piece = lanes[lane].piece;
        expect_two(piece[0], a_at(0, 0), a_at(0, 1));
        expect_two(piece[1], a_at(0, 2), 0);
        assert_true(piece[2] == 0 && piece[3] == 0);
        expect_two(piece[4], a_at(0, 0), a_at(0, 1));
        assert_true(piece[5] == 0);
    }
}

/* To the bit, of all codes but 0x7f and 0xff, NaN, which are never made. */
static void test_codes_of_e4m3(void **unused)
{
    (void)unused;
    static struct e4m3_code codes[256];
    assert_int_equal(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    void *made = on_device(NULL, sizeof codes);
    assert_int_equal(e4m3_codes(made, stream), cudaSuccess);
    assert_int_equal(cudaMemcpyAsync(codes, made, sizeof codes, cudaMemcpyDeviceToHost, stream),
                     cudaSuccess);
    assert_int_equal(cudaStreamSynchronize(stream), cudaSuccess);
    for (int code = 0; code < 256; code++) {
        const float value = sw_e4m3_value((uint8_t)code);
        const float of_all[] = {value, value, value, value};
        if (isnan(value))
            assert_true(isnan(codes[code].nvidia));
        else
            assert_memory_equal(&codes[code], of_all, sizeof of_all);
    }
    (void)cudaFree(made);
    (void)cudaStreamDestroy(stream);
}

int main(void)
{
    struct sw_error err = {0};
    if (sw_cuda_device_count(&err) < 1) {
        printf("SKIP: no GPU: %s\n", err.message);
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_lies_as_documented), cmocka_unit_test(test_b_lies_as_documented),
        cmocka_unit_test(test_products_are_exact),   cmocka_unit_test(test_copies_end_in_zeros),
        cmocka_unit_test(test_codes_of_e4m3),
    };
    return cmocka_run_group_tests(tests, look, NULL);
}
