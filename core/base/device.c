#include "core/base/device.h"

#include <stddef.h>

/* GPUs: a collective takes multiprocessors, memory bandwidth and power from compute beside it,
 * which is 18.9 % slower on average over A100, H100, MI210 and MI250 (Lee et al. 2025,
 * arXiv:2507.03114). CPUs: a message inside a node is copied by a core that also runs a rank's
 * thread. Copies to the host: 25 of 32 GB/s of PCIe 4.0 x16 with pinned memory, an estimate; newer
 * ones have twice that.
 *
 * Further messages of a call: NCCL puts each peer once into a batch of its kernel, and batches run
 * one after another, so each costs 6 us, the time of a short message between two GPUs (its latency
 * in nccl-tests is 5 to 15 us); MPI in a node exchanges a short one in about 1 us. Both are
 * estimates, too small to matter if messages are few.
 *
 * Tiles of 256 x 128 results make up large bf16 products on A100 and H100 (CUTLASS' profiler,
 * cuBLAS kernel names); a step of their main loop is 32 to 64 deep, with three to four in flight.
 * FlashAttention: a head of 64 takes the exponentials of one of 128 for half of the products (Dao
 * 2023, figures 4 and 5: 0.8 to 0.85 of the speed).
 *
 * Attention over a cache: our kernels use the instructions of FlashAttention-2, which reaches 35 %
 * of an H100's peak where FlashAttention-3 reaches 75 % (Shah et al. 2024); ours were not measured.
 * GPUs of the generation before, on which FlashAttention-2 reaches 50 to 73 %, are priced too slow.
 *
 * Usual software on CUDA: PyTorch of 2023 and 2024, by its published training runs. The shares are
 * rounded from those that nearly minimize the mean error over 150 runs of eight families with a
 * bias near 0 (tests/bench/published/README.md). Attention's share rises with the work of a kernel
 * call: its points were fitted to the published runs of 64k tokens and more, which a single share
 * of 0.28 predicts 31 % too slow. Models below 1.6B parameters, of which few runs exist besides
 * llm-foundry's, have a wider band: those of other software take up to twice as long as predicted.
 * `runner` calls cuBLASLt and cuDNN, whose own rates may be higher. Time from one short kernel's
 * start to the next: an estimate between 1.3 us on an H100 in a CUDA graph (Hazy Research, "Look
 * Ma, No Bubbles!") and 5 to 20 us for a launch by a CPU (facebookresearch/HolisticTraceAnalysis,
 * cuda_kernel_launch_stats.rst). Usual software on CPUs: oneDNN's matrix products and our attention
 * on one core of several, an estimate.
 *
 * Serving: vLLM and TensorRT-LLM of 2025 and 2026. The chips' files contain their kernels, so they
 * get the whole rate. Kernels were timed with their starts, and most other work is part of a kernel
 * before it, so a further launch is 0.5 us: with 0, 0.25, 0.5 and 1 the mean errors over 282 rows
 * are 12.3, 11.5, 11.2 and 12.4 %. No other number was fitted to these rows, but joined products
 * and direct sums were added because tp 8 was too slow without (tests/bench/published/README.md);
 * the band contains their times. If a chip's kernels were not measured, the same relative to its
 * peak: products at 0.85, prompts' attention (0.47 of 0.85) at 0.40; this was not compared with
 * measurements, so the band is as wide as training's. Sums in two steps need NVLink: vLLM disables
 * its own between more than two GPUs over PCIe
 * (vllm/distributed/device_communicators/custom_all_reduce.py). PCIe up to 6.0 x16 has at most 128
 * GB/s one way, NVLink of A100 and later at least 300.
 *
 * Ceilings: attention, FlashAttention-3's forward on an H100 (Shah et al. 2024); memory, the share
 * of an H100's bandwidth that decode's attention reaches (ai-dynamo/aiconfigurator at 095f58a51,
 * table `generation`, more than 2 GB of cache).
 *
 * `untried` is removed once it has run on a GPU, with the README's section on CUDA. */
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
