#include "core/base/device.h"

#include <stddef.h>

/* GPUs: compute beside a collective, which takes multiprocessors, memory bandwidth and power from
 * it, is 18.9 % slower on average over A100, H100, MI210 and MI250 (Lee et al. 2025,
 * arXiv:2507.03114). CPUs: a message inside a node is copied by a core, and each has a rank's
 * thread at work. To the host: what pinned copies reach over PCIe 4.0 x16, 25 of 32 GB/s, an
 * estimate; newer ones have twice that.
 *
 * A message more in a call: NCCL takes each peer once into a batch of its kernel, one batch after
 * the other, so 6 us is what a short message takes on the way between two GPUs (its latency in
 * nccl-tests is 5 to 15 us); MPI in a node exchanges a short one in about 1 us. Both are
 * estimates, too small to matter where messages are few.
 *
 * Tiles of 256 x 128 results are what large bf16 products are cut into on A100 and H100 (CUTLASS'
 * profiler, cuBLAS kernel names); a step of their main loop is 32 to 64 deep and three to four are
 * in flight. FlashAttention: a head of 64 takes the exponentials of one of 128 for half of the
 * products (Dao 2023, figures 4 and 5: 0.8 to 0.85 of the speed).
 *
 * Attention over a cache: our kernels use the instructions of FlashAttention-2, which reaches 35 %
 * of an H100's peak where FlashAttention-3 reaches 75 % (Shah et al. 2024); neither is measured of
 * ours. GPUs of the generation before, where the former reaches 50 to 73 %, are priced too slow.
 *
 * What is usual: of CUDA, the PyTorch software of 2023 and 2024 whose published training runs are
 * at hand: rounded from what brings the mean error over 150 runs of eight families near its least
 * with its sign near 0 (tests/bench/published/README.md). Attention's share rises with the work of
 * a kernel call: its points were fitted to the published runs of 64k tokens and more that they are
 * judged by, which one share of 0.28 has 31 % too slow. Models below 1.6B parameters, of which few
 * runs are at hand besides llm-foundry's, have a wider band: those of other software take up to
 * twice as long as predicted. `runner` calls cuBLASLt and cuDNN, whose own rates may be higher.
 * From one short kernel's start to the next one's: an estimate between 1.3 us on an H100 in a CUDA
 * graph (Hazy Research, "Look Ma, No Bubbles!") and 5 to 20 us that a CPU takes to launch one
 * (facebookresearch/HolisticTraceAnalysis, cuda_kernel_launch_stats.rst). Of CPUs: oneDNN's matrix
 * products and our attention on one core of several, an estimate.
 *
 * Of serving, servers of models, vLLM and TensorRT-LLM of 2025 and 2026: their kernels are what the
 * chips' files hold, so all of their rate. Those were timed with their starts, and most of the rest
 * is part of a kernel before it, so that a launch more is 0.5 us: of 0, 0.25, 0.5 and 1 the mean
 * errors over 282 rows are 12.3, 11.5, 11.2 and 12.4 %. No other number was fitted to them, but
 * joined products and direct sums were taken in because tp 8 was too slow without
 * (tests/bench/published/README.md); the band holds their times. Where a chip's kernels were not
 * measured, the same in terms of its peak: products at 0.85, prompts' attention (0.47 of 0.85) at
 * 0.40; nothing was held against that, so the band is as wide as training's. Sums in two steps are
 * for NVLink: vLLM turns its own off between more than two GPUs over PCIe
 * (vllm/distributed/device_communicators/custom_all_reduce.py). No PCIe up to 6.0 x16 has more than
 * 128 GB/s one way, no NVLink of A100 and later less than 300.
 *
 * Ceilings: attention, what FlashAttention-3 reaches forward on an H100 (Shah et al. 2024); memory,
 * what decoding's attention reaches of an H100's bandwidth (ai-dynamo/aiconfigurator at 095f58a51,
 * table `generation`, more than 2 GB of cache).
 *
 * `untried` goes when it has run on a GPU, with the README's section on CUDA. */
static const struct sw_device_row rows[] = {
    [SW_DEVICE_CPU] = {.target = {.halos = true,
                                  .pauses = true,
                                  .weight_tiles = true,
                                  .invariant_rows = SW_CPU_INVARIANT_ROWS,
                                  .invariant_elems = SW_CPU_INVARIANT_ELEMS},
                       .copies = true,
                       .adds_apart = true,
                       .transport = SW_CARRIER_HOST,
                       .prices = {.message_s = 1e-6},
                       .usual = {0.70,
                                 {{1, 0.30}},
                                 0.60,
                                 0,
                                 0.70,
                                 "estimates for any CPU, not measured",
                                 0.7,
                                 1.3,
                                 0,
                                 0,
                                 0,
                                 NULL},
                       .ceilings = {1, 1, 1}},
    [SW_DEVICE_CUDA] = {.target = {.cudnn_attention = true,
                                   .cache_ranges = true,
                                   .quantized_panels = true,
                                   .lacks_whole_cache = true},
                        .prices = {.contention = 0.19,
                                   .message_s = 6e-6,
                                   .cache_share = 0.47,
                                   .middle_tile = 0.92,
                                   .small_tile = 0.65,
                                   .half_depth = 128,
                                   .half_head = 24,
                                   .diagonal_block = 128},
                        .host_bandwidth = 25e9,
                        .tiled = true,
                        .transport = SW_CARRIER_QUEUED,
                        .usual = {0.63,
                                  {{1e12, 0.25}, {1e13, 0.33}, {1e14, 0.50}},
                                  0.60,
                                  3e-6,
                                  0.74,
                                  "fitted to 155 published runs on A100 and H100",
                                  0.7,
                                  1.3,
                                  1.6e9,
                                  0.7,
                                  2,
                                  "wider below 1.6B parameters, where such predictions were 40 % "
                                  "off, most of them too fast"},
                        .serving = {0.85,
                                    {{1, 0.85}},
                                    0.80,
                                    0.5e-6,
                                    1,
                                    "kernels of vLLM and TensorRT-LLM, compared with 282 published "
                                    "measurements on H100, H200 and B200",
                                    0.85,
                                    1.18,
                                    0,
                                    0,
                                    0,
                                    NULL},
                        .ceilings = {1, 0.75, 0.93},
                        .serving_elsewhere = "what kernels of vLLM and TensorRT-LLM reach on other "
                                             "chips; not all were measured on this one",
                        .direct_bandwidth = 128e9,
                        .allocated = true,
                        .container_flag = "--nv",
                        .untried = true},
};
_Static_assert(sizeof rows / sizeof rows[0] == SW_DEVICE_COUNT, "a row for each kind of device");

const struct sw_device_row *sw_device_row(enum sw_device_kind kind)
{
    return &rows[kind];
}
