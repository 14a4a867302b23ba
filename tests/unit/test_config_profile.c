/* Profiles: where a cluster's comes from, which one wins, and what older files become. */
#include "tests/unit/config_support.h"

#include <math.h>
#include <unistd.h>

#define CHIP(device)                                                                               \
    "{name: h100, device: " device ", memory: 2 GB, peak: {fp32: 1 TFLOP/s}, memory_bandwidth: "   \
    "10 GB/s"
#define CLUSTER_OF(chip, more)                                                                     \
    "name: c\nnodes: 1\naccelerators_per_node: 1\naccelerator: " chip "}\n" more

static const struct sw_profile_config *profile_of(const struct sw_config *config)
{
    const struct sw_cluster_config *cluster = sw_config_get_kind(config) == SW_CONFIG_RUN
                                                  ? &sw_config_run(config)->cluster
                                                  : sw_config_cluster(config);
    assert_non_null(cluster);
    return &cluster->profile;
}

static void put(const char *path, const char *text)
{
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
}

/* The report, then name, attention, launch in us and band of the profile. */
static void expect_profile(struct sw_config *config, const char *said, const char *expected)
{
    char got[128] = "";
    char *text = report(config);
    assert_string_equal(text, said);
    free(text);
    if (expected != NULL) {
        const struct sw_profile_config *p = profile_of(config);
        snprintf(got, sizeof got, "%s %g %g %g..%g", p->name, p->attention.point[0].fraction,
                 p->launch_latency_s * 1e6, p->band_low, p->band_high);
        assert_string_equal(got, expected);
    } else {
        assert_int_equal(sw_config_error_count(config), 1);
    }
    sw_config_free(config);
}

static void expect_cluster(const char *text, const char *said, const char *expected)
{
    expect_profile(read_named("here.yaml", text, SW_CONFIG_CLUSTER, NULL), said, expected);
}

/* One for all chips of a kind of device: they rank as their data sheets do. */
static void the_default_is_of_the_device(void **state)
{
    (void)state;
    static const char *const autos[] = {"", "profile: auto\n"};
    for (size_t i = 0; i < 2; i++) {
        char text[512];
        snprintf(text, sizeof text, CLUSTER_OF(CHIP("cuda"), "%s"), autos[i]);
        expect_cluster(text, "", "default 0.25 3 0.7..1.3");
    }
    expect_cluster(CLUSTER_OF(CHIP("cpu"), ""), "", "default 0.3 0 0.7..1.3");
}

static void a_mapping_changes_what_it_names(void **state)
{
    (void)state;
    expect_cluster(CLUSTER_OF(CHIP("cuda"), "profile: {attention: 0.25}\n"), "",
                   "custom 0.25 3 0.7..1.3");
    expect_cluster(
        CLUSTER_OF(
            CHIP("cuda"),
            "profile: {name: me, attention: [[1e9, 0.2], [1e12, 0.6]], launch_latency: 1 us, "
            "band_low: 0.9, band_high: 1.1}\n"),
        "", "me 0.2 1 0.9..1.1");
    expect_cluster(CLUSTER_OF(CHIP("cuda"), "profile: {attention: 1.5}\n"),
                   "here.yaml:5:22: a fraction of 'attention' must be more than 0 and at most 1 | "
                   "for example: attention: 0.5\n",
                   NULL);
    expect_cluster(CLUSTER_OF(CHIP("cuda"), "profile: {products_scale: 0}\n"),
                   "here.yaml:5:27: a fraction of 'products_scale' must be more than 0 and at most "
                   "100 | leave it out, and its default is taken\n",
                   NULL);
    expect_cluster(CLUSTER_OF(CHIP("cuda"), "profile: {attenton: 0.5}\n"),
                   "here.yaml:5:11: unknown key 'attenton'; did you mean 'attention'?\n", NULL);
    expect_cluster(CLUSTER_OF(CHIP("cuda"), "profile: [0.5]\n"),
                   "here.yaml:5:10: 'profile' must be 'auto', a path or a mapping, not a list | "
                   "for example: profile: ../profiles/llm-foundry-2023-h100-sxm-80gb.yaml\n",
                   NULL);
    expect_cluster(CLUSTER_OF(CHIP("cuda"), "profile: nowhere.yaml\n"),
                   "here.yaml:5:10: cannot open 'nowhere.yaml': no such file | a path "
                   "is relative to the file that names it\n",
                   NULL);
}

#define FEW(points) CLUSTER_OF(CHIP("cpu"), "profile: {few_rows: {linear_fp32: " points "}}\n")
#define FOR_EXAMPLE " | for example: linear_fp32: [[1, 1e8, 12e9], [4, 1e8, 7e9]]\n"

/* Products of few rows: what decoding is priced by. */
static void skinny_gemms_are_points(void **state)
{
    (void)state;
    struct sw_config *c =
        read_named("here.yaml", FEW("[[1, 1e6, 2e10], [1, 1e8, 1e10], [4, 5e5, 7e9]]"),
                   SW_CONFIG_CLUSTER, NULL);
    const struct sw_skinny_gemm *skinny =
        &sw_config_cluster(c)->profile.skinny_gemm[SW_SKINNY_LINEAR][SW_RATE_FP32];
    assert_int_equal(skinny->count, 3);
    assert_true(skinny->point[1].rows == 1 && skinny->point[1].bytes == 1e8);
    assert_true(skinny->point[2].bandwidth == 7e9);
    assert_int_equal(
        sw_config_cluster(c)->profile.skinny_gemm[SW_SKINNY_LINEAR_T][SW_RATE_FP32].count, 0);
    sw_config_free(c);
    expect_cluster(FEW("fast"),
                   "here.yaml:5:35: 'linear_fp32' must be a list of [rows, bytes, bytes per "
                   "second], not the string 'fast'" FOR_EXAMPLE,
                   NULL);
    expect_cluster(FEW("[[1, 1e6]]"),
                   "here.yaml:5:36: a point of 'linear_fp32' must be [rows, bytes, bytes per "
                   "second]" FOR_EXAMPLE,
                   NULL);
    expect_cluster(FEW("[[1, 1e6, 0]]"),
                   "here.yaml:5:36: the numbers of a point of 'linear_fp32' must be more than "
                   "0 and below 1e30" FOR_EXAMPLE,
                   NULL);
    expect_cluster(FEW("[[1, 1e6, 1e-310]]"), /* whose inverse is no number */
                   "here.yaml:5:36: the numbers of a point of 'linear_fp32' must be more than "
                   "0 and below 1e30" FOR_EXAMPLE,
                   NULL);
    expect_cluster(FEW("[[1, 1e6, 1e9], [1, 1e6, 2e9]]"),
                   "here.yaml:5:51: the points of 'linear_fp32' must be ascending in rows, then in "
                   "bytes" FOR_EXAMPLE,
                   NULL);
    expect_cluster(FEW("[[2, 1e6, 1e9], [1, 1e7, 2e9]]"),
                   "here.yaml:5:51: the points of 'linear_fp32' must be ascending in rows, then in "
                   "bytes" FOR_EXAMPLE,
                   NULL);
    char text[2048] = "", points[1600] = "[";
    for (int32_t i = 0; i < SW_MAX_SKINNY_GEMM + 1; i++)
        snprintf(points + strlen(points), sizeof points - strlen(points), "%s[%d, 1, 1]",
                 i > 0 ? ", " : "", i + 1);
    snprintf(text, sizeof text,
             CLUSTER_OF(CHIP("cpu"), "profile: {few_rows: {linear_fp32: %s]}}\n"), points);
    expect_cluster(
        text, "here.yaml:5:35: 'linear_fp32' has 33 points; at most 32 are allowed" FOR_EXAMPLE,
        NULL);
}

/* `runner calibrate -o here.profile.yaml`, and here.yaml rests on it. */
static void auto_takes_what_was_measured(void **state)
{
    (void)state;
    put("here.profile.yaml", "name: shardwright\nattention: 0.6\nsource: runner calibrate\n");
    expect_cluster(CLUSTER_OF(CHIP("cuda"), ""), "", "shardwright 0.6 3 0.7..1.3");
    expect_cluster(CLUSTER_OF(CHIP("cuda"), "profile: auto\n"), "", "shardwright 0.6 3 0.7..1.3");
    expect_cluster(CLUSTER_OF(CHIP("cuda"), "profile: {name: me, attention: 0.25}\n"), "",
                   "me 0.25 3 0.7..1.3");
    put("here.profile.yaml", "name: shardwright\nattention: much\n");
    expect_cluster(CLUSTER_OF(CHIP("cuda"), ""),
                   "here.profile.yaml:2:12: 'attention' must be a fraction or a list of [size, "
                   "fraction], not the string 'much' | for example: attention: 0.5\n",
                   NULL);
    unlink("here.profile.yaml");
}

static void a_profile_is_of_its_chip(void **state)
{
    (void)state;
    put("p.yaml", "name: foundry\naccelerator: h100\nattention: 0.2\nband_low: 0.95\nband_high: "
                  "1.1\nruns: 38\nerror: 0.048\n");
    put("q.yaml", "name: foundry\naccelerator: a100\nattention: 0.3\n");
    expect_cluster(CLUSTER_OF(CHIP("cuda"), "profile: p.yaml\n"), "", "foundry 0.2 3 0.95..1.1");
    expect_cluster(CLUSTER_OF(CHIP("cuda"), "profile: q.yaml\n"),
                   "here.yaml:5:10: note: the profile 'foundry' was measured on a100, not on h100: "
                   "the default profile is used\n",
                   "default 0.25 3 0.7..1.3");
}

/* One of the same design counts, with twice the band but no more than what is assumed of none. */
static void a_siblings_profile_has_a_wider_band(void **state)
{
    (void)state;
#define KIN "siblings: [h100-nvl, a100], "
#define NEAR(more)                                                                                 \
    "name: c\nnodes: 1\naccelerators_per_node: 1\naccelerator: {" KIN                              \
    "name: h100, device: cuda, memory: 2 GB, peak: {fp32: 1 TFLOP/s}, memory_bandwidth: 10 "       \
    "GB/s}\n" more
#define WIDER                                                                                      \
    "here.yaml:5:10: note: the profile 'foundry' was measured on a100, a sibling of h100: the "    \
    "band around its times "
    static const struct {
        const char *text, *said, *expected;
    } cases[] = {
        {"accelerator: a100\nattention: 0.2\nband_low: 0.95\nband_high: 1.1\n",
         WIDER "is twice as wide\n", "foundry 0.2 3 0.9..1.2"},
        {"accelerator: a100\nattention: 0.2\nband_low: 0.8\nband_high: 1.2\n",
         WIDER "is wider, 0.70 to 1.30 times them\n", "foundry 0.2 3 0.7..1.3"},
        {"accelerator: a100\nattention: 0.2\nband_low: 0.5\nband_high: 1.6\n",
         WIDER "stays as it is\n", "foundry 0.2 3 0.5..1.6"},
        {"accelerator: h100\nattention: 0.2\nband_low: 0.95\nband_high: 1.1\n", "",
         "foundry 0.2 3 0.95..1.1"},
        {"accelerator: h100-nv\nattention: 0.2\n",
         "here.yaml:5:10: note: the profile 'foundry' was measured on h100-nv, not on h100: the "
         "default profile is used\n",
         "default 0.25 3 0.7..1.3"},
    };
    char text[512];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(text, sizeof text, "name: foundry\n%s", cases[i].text);
        put("s.yaml", text);
        expect_cluster(NEAR("profile: s.yaml\n"), cases[i].said, cases[i].expected);
    }
    put("s.yaml",
        "name: foundry\naccelerator: a100\nattention: 0.2\nband_low: 0.95\nband_high: "
        "1.1\npeak: {bf16: 5 TFLOP/s, fp32: 4 TFLOP/s}\nmemory_bandwidth: 3 GB/s\nsource: 4 "
        "runs\n");
    struct sw_config *c =
        read_named("here.yaml", NEAR("profile: s.yaml\n"), SW_CONFIG_CLUSTER, NULL);
    const struct sw_profile_config *p = profile_of(c);
    assert_string_equal(p->accelerator, "h100"); /* a plan that holds it does not widen it again */
    assert_string_equal(p->source, "measured on a100: 4 runs");
    /* this chip's instead; fp32's is what the software makes of bf16's */
    assert_true(p->peak_bf16_flops == 0 && p->memory_bandwidth == 0);
    assert_true(fabs(p->peak_fp32_flops - 0.8e12) < 1);
    sw_config_free(c);
    static const char *const peaks[] = {"peak: {bf16: 5 TFLOP/s}\n", "peak: {fp32: 5 TFLOP/s}\n",
                                        "memory_bandwidth: 3 GB/s\n"};
    for (size_t i = 0; i < sizeof peaks / sizeof peaks[0]; i++) {
        snprintf(text, sizeof text, "name: foundry\naccelerator: a100\nattention: 0.2\n%s",
                 peaks[i]);
        put("s.yaml", text);
        expect_cluster(
            NEAR("profile: s.yaml\n"),
            "here.yaml:5:10: note: the profile 'foundry' was measured on a100, a sibling "
            "of h100: the band around its times stays as it is, and the peaks of h100 replace "
            "its own\n",
            "foundry 0.2 3 0.7..1.3");
    }
}

/* The peak of 8 bits is the chip's as the others are: without one as much of bf16's as it was. */
static void a_siblings_int8_is_the_chips(void **state)
{
    (void)state;
    static const struct {
        const char *chip, *peaks;
        double expected;
    } cases[] = {{"fp32: 1 TFLOP/s, int8: 3 TFLOP/s", "int8: 8 TFLOP/s", 3e12},
                 {"fp32: 1 TFLOP/s, int8: 3 TFLOP/s", "bf16: 5 TFLOP/s", 0},
                 {"fp32: 1 TFLOP/s", "bf16: 5 TFLOP/s, int8: 10 TFLOP/s", 2e12}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[512];
        snprintf(text, sizeof text, "name: foundry\naccelerator: a100\npeak: {%s}\n",
                 cases[i].peaks);
        put("s.yaml", text);
        snprintf(text, sizeof text,
                 "name: c\nnodes: 1\naccelerators_per_node: 1\naccelerator: {" KIN
                 "name: h100, device: cuda, memory: 2 GB, peak: {%s}, memory_bandwidth: 10 "
                 "GB/s}\nprofile: s.yaml\n",
                 cases[i].chip);
        struct sw_config *c = read_named("here.yaml", text, SW_CONFIG_CLUSTER, NULL);
        char *said = report(c);
        assert_non_null(strstr(said, "and the peaks of h100 replace its own"));
        free(said);
        assert_true(fabs(profile_of(c)->peak_int8_flops - cases[i].expected) < 1);
        sw_config_free(c);
    }
}

/* A default is what nobody changed, not what has its name; that of serving fills what a file that
 * names it does not say, and is of GPUs. */
static void a_default_is_unchanged(void **state)
{
    (void)state;
    static const struct {
        const char *profile, *name;
        double launch_us;
        bool assumed, serves;
    } cases[] = {
        {"", "default", 3, true, true},
        {"profile: {name: default}\n", "default", 3, true, true},
        {"profile: {name: default, launch_latency: 50 us}\n", "default", 50, true, true},
        {"profile: {name: default, matmul: 0.2}\n", "default", 3, false, false},
        {"profile: {name: default-serving}\n", "default-serving", 0.5, true, true},
        {"profile: {name: default-serving, matmul: 0.2}\n", "custom", 0.5, false, false},
        {"profile: {name: default-serving, joined_products: false}\n", "custom", 0.5, false, false},
        {"profile: {name: default-serving, band_high: 1.5}\n", "custom", 0.5, false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[512];
        snprintf(text, sizeof text, CLUSTER_OF(CHIP("cuda"), "%s"), cases[i].profile);
        struct sw_config *c = read_named("here.yaml", text, SW_CONFIG_CLUSTER, NULL);
        assert_int_equal(sw_config_error_count(c), 0);
        struct sw_cluster_config cluster = *sw_config_cluster(c);
        assert_string_equal(cluster.profile.name, cases[i].name);
        assert_true(fabs(cluster.profile.launch_latency_s * 1e6 - cases[i].launch_us) < 1e-9);
        assert_int_equal(cluster.profile.assumed, cases[i].assumed);
        const bool joins = cluster.profile.joins_products;
        assert_int_equal(joins, strstr(cases[i].profile, "serving") != NULL &&
                                    strstr(cases[i].profile, "joined") == NULL);
        sw_profile_for_serving(&cluster);
        assert_int_equal(sw_profile_is_of_servers(&cluster.profile), cases[i].serves);
        sw_config_free(c);
    }
    expect_cluster(CLUSTER_OF(CHIP("cpu"), "profile: {name: default-serving}\n"),
                   "here.yaml:5:10: the profile 'default-serving' is for servers on GPUs; device "
                   "cpu has none | leave 'profile' out, and the device's default counts\n",
                   NULL);
}

#define RUN(profile)                                                                               \
    "name: r\nmodel: " MODEL "\ncluster: {name: c, nodes: 1, accelerators_per_node: 1, profile: "  \
    "p.yaml, accelerator: " CHIP(                                                                  \
        "cuda") "}}\nsequence_length: 128\nglobal_batch_size: 8\n" profile

static void a_run_and_set_replace_it(void **state)
{
    (void)state;
    static const struct {
        const char *more, *set, *expected;
    } cases[] = {
        {"", NULL, "foundry 0.2 3 0.95..1.1"},
        {"profile: auto\n", NULL, "default 0.25 3 0.7..1.3"},
        {"profile: {name: me, attention: 0.4}\n", NULL, "me 0.4 3 0.7..1.3"},
        {"", "profile=auto", "default 0.25 3 0.7..1.3"},
        {"", "cluster.profile=auto", "default 0.25 3 0.7..1.3"},
        {"", "cluster.profile.attention=0.35", "foundry 0.35 3 0.95..1.1"},
        {"profile: auto\n", "profile.attention=0.45", "custom 0.45 3 0.7..1.3"},
        {"", "profile=p.yaml", "foundry 0.2 3 0.95..1.1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *const sets[] = {cases[i].set, NULL};
        char text[1024];
        snprintf(text, sizeof text, RUN("%s"), cases[i].more);
        expect_profile(read_named("here.yaml", text, SW_CONFIG_RUN, sets), "", cases[i].expected);
    }
}

#define NOTE(key, column)                                                                          \
    "here.yaml:4:" column ": note: '" key "' belongs in a profile, since it describes "            \
    "software; it is used only where the cluster has no profile: "
#define MOVE "move its keys to a file of their own and name that as the cluster's 'profile'\n"

/* A file that an older calibrate or fit wrote still counts, until there is a profile. */
static void older_accelerators_still_count(void **state)
{
    (void)state;
#define OLD CHIP("cuda") ", efficiency: {attention: 0.19, band_low: 0.9, source: me}"
    expect_cluster(CLUSTER_OF(OLD, ""), NOTE("efficiency", "107") MOVE, "h100 0.19 3 0.9..1.3");
    expect_cluster(CLUSTER_OF(OLD, "profile: {name: me, attention: 0.4}\n"),
                   NOTE("efficiency", "107") MOVE, "me 0.4 3 0.7..1.3");
    /* as every older file of configs/accelerators that nobody had fitted */
    expect_cluster(CLUSTER_OF(CHIP("cuda") ", efficiency: {}, launch_latency: 2 us", ""),
                   NOTE("efficiency", "107")
                       MOVE NOTE("launch_latency", "123") "move it there, or leave it out\n",
                   "default 0.25 2 0.7..1.3");
}

/* Clusters of one fabric share a file of points. */
static void links_share_a_curve(void **state)
{
    (void)state;
#define LINK(curve)                                                                                \
    "links: [{name: l, spans: 1, bandwidth: 1 GB/s, latency: 0, efficiency: " curve "}]\n"
    put("c.yaml", "points: [[1e6, 0.2], [1e9, 0.8]]\nsource: me\n");
    struct sw_config *c =
        read_named("here.yaml", CLUSTER_OF(CHIP("cuda"), LINK("c.yaml")), SW_CONFIG_CLUSTER, NULL);
    const struct sw_link_config *link = &sw_config_cluster(c)->link[0];
    assert_int_equal(link->efficiency.count, 2);
    assert_true(link->efficiency.point[1].size == 1e9 && link->efficiency.point[1].fraction == 0.8);
    assert_string_equal(link->efficiency_path, "c.yaml");
    sw_config_free(c);
    c = read_named("here.yaml", CLUSTER_OF(CHIP("cuda"), LINK("0.7")), SW_CONFIG_CLUSTER, NULL);
    assert_true(sw_config_cluster(c)->link[0].efficiency.point[0].fraction == 0.7);
    sw_config_free(c);
    expect_cluster(
        CLUSTER_OF(CHIP("cuda"), LINK("{a: 1}")),
        "here.yaml:5:72: 'efficiency' must be a fraction, a list of [size, fraction] or a "
        "file, not a mapping | for example: efficiency: ../curves/nccl-nvlink.yaml\n",
        NULL);
#define APART                                                                                      \
    " | for example: collectives: [[all_to_all, 8, 1e6, 0.2], [all_to_all, 8, 1e9, 0.8]]\n"
#define NO_ORDER                                                                                   \
    "the points of 'collectives' must be at most 16 curves of at most 32 points, those of a "      \
    "collective together, ascending in ranks, then in size" APART
    put("c.yaml",
        "points: 0.5\ncollectives: [[all_reduce, 8, 1e6, 0.1], [all_to_all, 2, 1e6, 0.2], "
        "[all_to_all, 2, 1e7, 0.3], [all_to_all, 8, 1, 0.4]]\n");
    c = read_named("here.yaml", CLUSTER_OF(CHIP("cuda"), LINK("c.yaml")), SW_CONFIG_CLUSTER, NULL);
    const struct sw_collective_curves *own = sw_config_cluster(c)->link[0].collectives;
    assert_int_equal(own->count, 3);
    assert_true(own->of[1].kind == SW_ALL_TO_ALL && own->of[1].ranks == 2 &&
                own->of[1].curve.count == 2 && own->of[1].curve.point[1].fraction == 0.3);
    assert_string_equal(sw_config_cluster(c)->link[0].at.collectives.file, "c.yaml");
    sw_config_free(c);
    static const struct {
        const char *points, *message;
    } bad[] = {{"7",
                "c.yaml:2:14: 'collectives' must be a list of [collective, ranks, size, fraction], "
                "not the number 7" APART},
               {"[[slice, 8, 1, 0.1]]", "c.yaml:2:15: a point of 'collectives' must be "
                                        "[collective, ranks, size, fraction], 2 ranks "
                                        "and more and a fraction of at most 1" APART},
               {"[[all_to_all, 8, 2, 0.1], [all_to_all, 8, 1, 0.1]]", "c.yaml:2:40: " NO_ORDER},
               {"[[all_to_all, 8, 2, 0.1], [all_to_all, 4, 1, 0.1]]", "c.yaml:2:40: " NO_ORDER},
               {"[[all_to_all, 8, 2, 0.1], [all_reduce, 4, 1, 0.1], [all_to_all, 9, 1, 0.1]]",
                "c.yaml:2:65: " NO_ORDER}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[256];
        snprintf(text, sizeof text, "points: 0.5\ncollectives: %s\n", bad[i].points);
        put("c.yaml", text);
        expect_cluster(CLUSTER_OF(CHIP("cuda"), LINK("c.yaml")), bad[i].message, NULL);
    }
    put("c.yaml", "points: here.yaml\n");
    expect_cluster(CLUSTER_OF(CHIP("cuda"), LINK("c.yaml")),
                   "c.yaml:1:9: 'points' must be a fraction or a list of [size, fraction], not the "
                   "string 'here.yaml' | for example: points: [[1e6, 0.2], [1e9, 0.8]]\n",
                   NULL);
    c = sw_config_read("c.yaml", SW_CONFIG_UNKNOWN, &sw_launchers, NULL, 0, NULL);
    assert_int_equal(sw_config_get_kind(c), SW_CONFIG_CURVE);
    sw_config_free(c);
    unlink("c.yaml");
}

static void products_are_a_grid(void **state)
{
    (void)state;
#define GRID "[[1, 8, 4, 0.1], [1, 8, 16, 0.2], [1, 64, 4, 0.3], [1, 64, 16, 0.4], "
#define EXAMPLE                                                                                    \
    " | for example: products: {linear_fp32: [[1, 1024, 1024, 0.2], [1, 1024, 4096, 0.5], [1, "    \
    "4096, 1024, 0.5], [1, 4096, 4096, 0.7]]}\n"
#define NO_GRID                                                                                    \
    "here.yaml:5:21: the points of 'products' must be a grid of at most 16 rows, 8 columns and 8 " \
    "depths, at least 2 of each, ascending" EXAMPLE
#define PRODUCTS(points) CLUSTER_OF(CHIP("cuda"), "profile: {products: " points "}\n")
    put("p.yaml", "name: mine\nproducts: " GRID "[9, 8, 4, 0.5], [9, 8, 16, 0.6], [9, 64, 4, "
                  "0.7], [9, 64, 16, 0.94]]\n");
    struct sw_config *c = sw_config_read("p.yaml", SW_CONFIG_PROFILE, NULL, NULL, 0, NULL);
    const struct sw_products *const(*all)[SW_RATE_DTYPES] = sw_config_profile(c)->products;
    const struct sw_products *p = all[SW_PRODUCT_LINEAR][SW_RATE_BF16];
    assert_non_null(p);
    assert_true(p->rows == 2 && p->columns == 2 && p->depths == 2);
    assert_true(p->row[1] == 9 && p->column[1] == 64 && p->depth[1] == 16);
    assert_true(p->share[3] == 0.4 && p->share[4] == 0.5);
    assert_true(p->asymptote == 1); /* none is large: the last, over what tiles leave */
    assert_true(all[SW_PRODUCT_LINEAR_T][SW_RATE_BF16] == p); /* a list is of every kind */
    assert_true(all[SW_PRODUCT_LINEAR_DW][SW_RATE_BF16] == p);
    assert_null(all[SW_PRODUCT_LINEAR][SW_RATE_FP32]);
    sw_config_free(c);
    expect_cluster(PRODUCTS("0.7"),
                   "here.yaml:5:21: 'products' must be a list of [rows, columns, depth, share] or "
                   "a mapping, not the number 0.7" EXAMPLE,
                   NULL);
    expect_cluster(PRODUCTS("[[1, 8, 4, 1.1]]"),
                   "here.yaml:5:22: a point of 'products' must be [rows, columns, depth, share], "
                   "sizes of 1 and more and a share of at most 1" EXAMPLE,
                   NULL);
    expect_cluster(PRODUCTS("{linear: []}"),
                   "here.yaml:5:22: unknown key 'linear' | known keys: linear_fp32, linear_bf16, "
                   "linear_t_fp32, linear_t_bf16, linear_dw_fp32, linear_dw_bf16\n",
                   NULL);
    expect_cluster(PRODUCTS("{linear_dw_fp32: 3}"),
                   "here.yaml:5:38: 'linear_dw_fp32' must be a list of [rows, columns, depth, "
                   "share], not the number 3 | for example: linear_dw_fp32: [[1, 1024, 1024, 0.2], "
                   "[1, 1024, 4096, 0.5], [1, 4096, 1024, 0.5], [1, 4096, 4096, 0.7]]\n",
                   NULL);
    expect_cluster(PRODUCTS(GRID "[9, 8, 4, 0.5]]"), NO_GRID, NULL);
    expect_cluster(PRODUCTS("[[1, 8, 4, 0.1]]"), NO_GRID, NULL);
    expect_cluster(PRODUCTS(GRID "[1, 8, 4, 0.5], [9, 8, 16, 0.6], [9, 64, 4, 0.7], [9, 64, 16, "
                                 "0.8]]"),
                   NO_GRID, NULL);
}

#define ATTENTION_EXAMPLE                                                                          \
    " | for example: forward_fp32: [[1, 128, 64, 0.3], [1, 128, 128, 0.4], [1, 512, 64, 0.4], "    \
    "[1, "                                                                                         \
    "512, 128, 0.5]]\n"
#define PROFILE(text) CLUSTER_OF(CHIP("cuda"), "profile: {" text "}\n")

/* The same form, under the names of what it is of; a grid for each phase and precision. */
static void attention_by_size(void **state)
{
    (void)state;
    put("p.yaml",
        "name: mine\nattention_scale: [[1e8, 1.25], [1e9, 0.9]]\nattention_error: 0.05\n"
        "attention_by_size:\n  backward_bf16: [[2, 64, 32, 0.1], [2, 64, 128, 0.2], [2, "
        "256, 32, 0.3], [2, 256, 128, 0.4], [8, 64, 32, 0.5], [8, 64, 128, 0.6], [8, 256, "
        "32, 0.7], [8, 256, 128, 0.8]]\n");
    struct sw_config *c = sw_config_read("p.yaml", SW_CONFIG_PROFILE, NULL, NULL, 0, NULL);
    const struct sw_profile_config *p = sw_config_profile(c);
    assert_non_null(p);
    for (int32_t i = 0; i < SW_ATTENTION_PHASES * SW_RATE_DTYPES; i++)
        assert_true(((&p->attention_by_size[0][0])[i] != NULL) ==
                    (i == SW_ATTENTION_BACKWARD * SW_RATE_DTYPES + SW_RATE_BF16));
    const struct sw_products *grid = p->attention_by_size[SW_ATTENTION_BACKWARD][SW_RATE_BF16];
    assert_true(grid->rows == 2 && grid->column[1] == 256 && grid->depth[1] == 128);
    assert_true(grid->share[5] == 0.6);
    assert_true(p->attention_scale.count == 2 && p->attention_scale.point[0].fraction == 1.25);
    assert_true(p->attention_scale.point[1].size == 1e9 && p->at.attention_scale.line == 2);
    assert_true(p->attention_error == 0.05);
    sw_config_free(c);
    expect_cluster(PROFILE("attention_by_size: {forward_fp32: 0.7}"),
                   "here.yaml:5:45: 'forward_fp32' must be a list of [heads or queries, length, "
                   "head_dim, share], not the number 0.7" ATTENTION_EXAMPLE,
                   NULL);
    expect_cluster(
        PROFILE("attention_by_size: {forward_fp32: [[1, 8, 4, 1.1]]}"),
        "here.yaml:5:46: a point of 'forward_fp32' must be [heads or queries, length, "
        "head_dim, share], sizes of 1 and more and a share of at most 1" ATTENTION_EXAMPLE,
        NULL);
    expect_cluster(
        PROFILE("attention_by_size: {forward_fp32: [[1, 8, 4, 0.1]]}"),
        "here.yaml:5:45: the points of 'forward_fp32' must be a grid of at most 16 heads "
        "or queries, 8 lengths and 8 head sizes, at least 2 of the first two, "
        "ascending" ATTENTION_EXAMPLE,
        NULL);
    expect_cluster(
        PROFILE("attention_scale: 101"),
        "here.yaml:5:28: a fraction of 'attention_scale' must be more than 0 and at most "
        "100 | for example: attention_scale: [[1e8, 1.2], [1e9, 1]]\n",
        NULL);
}

/* A grid for each kind of product and precision, and how much of them whole steps reach. */
static void products_by_kind(void **state)
{
    (void)state;
    put("p.yaml", "name: mine\nproducts_scale: 0.9\nproducts:\n"
                  "  linear_fp32: " GRID "[9, 8, 4, 0.5], [9, 8, 16, 0.6], [9, 64, 4, 0.7], [9, "
                  "64, 16, 0.94]]\n  linear_dw_bf16: [[1, 8, 4, 0.1], [1, 8, 16, 0.2], [1, 64, 4, "
                  "0.3], [1, 64, 16, 0.4], [8, 8, 4, 0.5], [8, 8, 16, 0.6], [8, 64, 4, 0.7], [8, "
                  "64, 16, 0.8]]\n");
    struct sw_config *c = sw_config_read("p.yaml", SW_CONFIG_PROFILE, NULL, NULL, 0, NULL);
    const struct sw_profile_config *p = sw_config_profile(c);
    assert_non_null(p);
    assert_true(p->products_scale.count == 1 && p->products_scale.point[0].fraction == 0.9 &&
                p->at.products_scale.line == 2);
    for (int32_t k = 0; k < SW_PRODUCT_KINDS; k++)
        for (int32_t d = 0; d < SW_RATE_DTYPES; d++)
            assert_true((p->products[k][d] != NULL) ==
                        ((k == SW_PRODUCT_LINEAR && d == SW_RATE_FP32) ||
                         (k == SW_PRODUCT_LINEAR_DW && d == SW_RATE_BF16)));
    assert_true(p->products[SW_PRODUCT_LINEAR][SW_RATE_FP32]->row[1] == 9);
    assert_true(p->products[SW_PRODUCT_LINEAR_DW][SW_RATE_BF16]->row[1] == 8);
    sw_config_free(c);
}

int main(void)
{
    char folder[] = "/tmp/shardwright-profile-XXXXXX";
    if (mkdtemp(folder) == NULL || chdir(folder) != 0)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_default_is_of_the_device),
        cmocka_unit_test(a_mapping_changes_what_it_names),
        cmocka_unit_test(skinny_gemms_are_points),
        cmocka_unit_test(auto_takes_what_was_measured),
        cmocka_unit_test(a_profile_is_of_its_chip),
        cmocka_unit_test(a_siblings_profile_has_a_wider_band),
        cmocka_unit_test(a_siblings_int8_is_the_chips),
        cmocka_unit_test(a_default_is_unchanged),
        cmocka_unit_test(a_run_and_set_replace_it),
        cmocka_unit_test(older_accelerators_still_count),
        cmocka_unit_test(links_share_a_curve),
        cmocka_unit_test(products_are_a_grid),
        cmocka_unit_test(products_by_kind),
        cmocka_unit_test(attention_by_size),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink("p.yaml");
    unlink("q.yaml");
    rmdir(folder);
    return failed;
}
