/* What sw_box_copy makes of the bytes per second that memcpy has on this machine: a box of 64 MiB
 * as a checkpoint's messages have them, in both directions, straight and transposed.
 *
 *   bench_boxes [ROWS COLUMNS]
 *
 * A line for each pair of dtypes: GB/s of bytes written, and memcpy's of as many beside it. The
 * best of five. */
#include "core/base/clock.h"
#include "runner/checkpoint/box.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPEATS = 5 };

static double best_of(double best, double seconds)
{
    return seconds < best ? seconds : best;
}

static void measure(const char *name, struct sw_box box, size_t room, int64_t skew_bytes)
{
    const int64_t width = (int64_t)sw_stored_dtype_bytes(box.to_dtype);
    const int64_t from_width = (int64_t)sw_stored_dtype_bytes(box.from_dtype);
    const double bytes = (double)(box.rows * box.columns * width);
    double copy = 1e9, boxed = 1e9;
    box.to_stride_bytes = box.columns * width + skew_bytes;
    box.from_stride_bytes = (box.transposed ? box.rows : box.columns) * from_width + skew_bytes;
    memset(box.to, 1, room);
    for (int i = 0; i < REPEATS; i++) {
        double begin = sw_clock_now();
        memcpy(box.to, box.from, (size_t)bytes);
        copy = best_of(copy, sw_clock_now() - begin);
        begin = sw_clock_now();
        sw_box_copy(&box);
        boxed = best_of(boxed, sw_clock_now() - begin);
    }
    printf("%-4s -> %-4s %-10s rows %+3lld B  %6.2f GB/s  memcpy %6.2f  %.2f\n",
           sw_stored_dtype_name(box.from_dtype), sw_stored_dtype_name(box.to_dtype), name,
           (long long)skew_bytes, bytes / boxed * 1e-9, bytes / copy * 1e-9, copy / boxed);
}

int main(int argc, char **argv)
{
    static const enum sw_stored_dtype pairs[][2] = {
        {SW_STORED_F32, SW_STORED_F32}, {SW_STORED_BF16, SW_STORED_BF16},
        {SW_STORED_F64, SW_STORED_F64}, {SW_STORED_BF16, SW_STORED_F32},
        {SW_STORED_F16, SW_STORED_F32}, {SW_STORED_F32, SW_STORED_BF16}};
    const int64_t rows = argc > 2 ? atoll(argv[1]) : 4096,
                  columns = argc > 2 ? atoll(argv[2]) : 4096;
    const size_t room = ((size_t)rows + 1) * ((size_t)columns + 1) * 8 + 65536;
    void *from = aligned_alloc(4096, (room + 4095) / 4096 * 4096);
    void *to = aligned_alloc(4096, (room + 4095) / 4096 * 4096);
    if (rows < 1 || columns < 1 || from == NULL || to == NULL)
        return 1;
    memset(from, 1, room);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        for (int transposed = 0; transposed < 2; transposed++)
            for (int64_t skew = 0; skew <= 8; skew += 8) {
                if (skew > 0 && !transposed)
                    continue;
                const struct sw_box box = {.rows = rows,
                                           .columns = columns,
                                           .to = to,
                                           .from = from,
                                           .from_dtype = pairs[i][0],
                                           .to_dtype = pairs[i][1],
                                           .transposed = transposed};
                measure(transposed ? "transposed" : "straight", box, room, skew);
            }
    free(from);
    free(to);
    return 0;
}
