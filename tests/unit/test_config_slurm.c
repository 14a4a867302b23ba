/* Slurm's settings: what each key takes and refuses, how a run's meet its cluster's, and the checks
 * between them. */
#include "config_support.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* Values of each key; a '|' before those that are refused. */
static const struct {
    const char *key;
    const char *fine[12], *wrong[16];
} keys[] = {
    {"slurm_version",
     {"'22.05'", "23.11", "'24.05.4'", "'23.11.10-1'", "26.05"},
     {"''", "'21.08'", "'23'", "'23.13'", "latest", "23.11rc1", "'23.11;x'", "'23.1'"}},
    {"partition",
     {"gpu", "a,b", "[a, b]", "[]"},
     {"''", "-x", "a b", "[a b]", "[a, [b]]", "{a: b}"}},
    {"time_min", {"90", "2-12"}, {"''", "1 h", "1-24", "1:60", "0:0:60", "1-99:99:99", "99999999"}},
    {"gres",
     {"gpu:1", "'gpu:a:1'", "gpu", "[gpu:1, nvme]", "'nvme:200G'", "'gpu:h100'"},
     {"''", "'gpu:'", "':1'", "'gpu::1'", "'gpu:a:b'", "'a:b:c:1'", "'gpu:a:1;x'", "1",
      "'gpu:1,'"}},
    {"nodelist",
     {"n1", "'n[1-4]'", "'n[1-4,7],m2'", "['n1', 'n[2-3]']", "'a-b.c[001-100]'"},
     {"''", "'n[1'", "'n1]'", "'n[[1]]'", "'n[a]'", "'-n'", "'n 1'", "'n1;x'", "'[1-2]'", "'n[]'"}},
    {"cpu_bind",
     {"none", "cores", "'verbose,ldoms'", "'map_cpu:0,1'", "'mask_cpu:0xff,0xff00'",
      "'quiet,rank'"},
     {"''", "core", "map_cpu", "'map_cpu:'", "'map_cpu:a b'", "'cores;x'", "'verbose'"}},
    {"gpu_bind", {"none"}, {"closest", "'single:1'", "'map_gpu:0,1'", "''"}},
    {"exclusive", {"true", "false", "user", "mcs", "auto"}, {"yes", "1", "'topo'", "''"}},
    {"switches",
     {"1", "'2@1:00:00'", "'1@30'"},
     {"0", "''", "'1@'", "a", "'1@UNLIMITED'", "'1;x'"}},
    {"segment", {"1", "18"}, {"0", "-1", "a", "1.5"}},
    {"topology", {"block", "tree", "flat", "unknown"}, {"''", "torus", "1", "[block]"}},
    {"block_nodes", {"null"}, {"0", "-1", "a", "1.5", "65537"}},
    {"leaf_nodes", {"null"}, {"0", "-1", "a", "1.5", "65537"}},
    {"max_switch_wait", {"null"}, {"0", "-1", "a", "'1:00:00'", "1e9"}},
    {"dependency",
     {"singleton", "'afterok:1'", "'afterany:1:2,after:3+10'", "'afterok:1?singleton'",
      "[afterok:1, singleton]", "'aftercorr:1_2'", "'afternotok:7_*'"},
     {"''", "1", "afterok", "'afterok:'", "'afterok:0'", "'afterok:x'", "'afterok:1,'",
      "'afterok:1?after:2,after:3'", "'expand:1'", "'afterok:1;x'", "'singleton:1'"}},
    {"begin",
     {"now", "'now+1'", "now+2hours", "tomorrow", "'20:30'", "'20:30:15'", "2026-01-31",
      "2026-01-31T20:30", "'2026-12-31T20:30:00'", "noon"},
     {"''", "later", "'now+'", "'now+x'", "'now+1fortnight'", "'25:00'", "'20:60'", "2026-13-01",
      "2026-1-1", "'now;x'", "2026-00-10"}},
    {"nice", {"1", "-100", "2147483645"}, {"2147483646", "a", "1.5"}},
    {"licenses", {"'scratch:1'", "['a:1', 'b@server:2']"}, {"''", "'a b'", "'a;b'"}},
    {"mail",
     {"{type: END, user: me}", "{type: [END, FAIL], user: a.b@c.org}",
      "{type: 'TIME_LIMIT_80,ALL'}"},
     {"END", "{type: end, user: me}", "{type: '', user: me}", "{type: END, user: 'a b'}",
      "{type: END, user: a@b@c}", "{type: END, user: -x}", "{to: me}"}},
    {"comment",
     {"a", "'a \"b\" \\ $(c)'", "'\xc3\xa9'"},
     {"''", "\"a\\nb\"", "\"a\\tb\"", "\"a\\x7f\"", "\"a\\u202eb\"", "\"a\\u200bb\"",
      "\"a\\u0085b\"", "\"a\\u2028b\"", "\"\\ufeffa\"", "\"a\\u2066b\""}},
    {"wckey", {"a"}, {"''", "'a b'"}},
    {"job_name", {"a", "a=b"}, {"''", "'a b'", "-a"}},
    {"log",
     {"'%j'", "'a b-%x-%8j.log'", "'%J%%'", "'%A_%a_%j'"},
     {"''", "a.log", "'../%j'", "'/%j'", "'a\\%j'", "'%j%'", "'%j-%q'", "'.%j'", "'\"%j'",
      "\"%j\\n\""}},
    {"signal",
     {"USR1", "USR1@300", "none"},
     {"''", "TERM", "USR1@", "USR1@0", "'USR1@65536'", "'B:USR1'", "USR1@5s"}},
    {"requeue", {"true", "false", "auto", "expedite"}, {"yes", "''", "1"}},
    {"mpi",
     {"pmix", "pmix_v4", "mpirun"},
     {"pmi2", "mpirun_v4", "none", "pmix_v", "pmix_v0", "'pmix;x'", "''"}},
    {"modules",
     {"[]", "a", "[a/1.2, b+c, 'd=e']"},
     {"[a b]", "-x", "[a, {b: c}]", "[$(x)]", "{a: b}"}},
    {"setup",
     {"[]", "ulimit -c 0", "[a, 'b \"c\"']", "\"if true; then\\n\\ta\\nfi\\n\"",
      "\"cat <<E\\nx\\nE\"", "''"},
     {"\"a '\"", "['a \"', b]", "'a `b'", "\"cat <<E\"", "'a \\'", "'a $(b'", "\"a\\rb\"",
      "\"a\\u202eb\"", "{a: b}", "[[a]]", "'a ${b'"}},
    {"environment",
     {"{}", "{A: b}", "{_a1: '', B: '=x $y'}", "{A: null}",
      "{SLURM_PMIX_FENCE: ring, PMIX_MCA_x: 1}"},
     {"a", "[A]", "{1A: b}", "{'A B': c}", "{A-B: c}", "{A: [b]}", "{A: \"b\\nc\"}",
      "{SLURM_JOB_ID: 1}", "{SBATCH_QOS: x}", "{PMI_RANK: 1}", "{PMIX_RANK: 1}", "{BASH_ENV: x}",
      "{UID: 1}", "{SRUN_CPUS_PER_TASK: 1}"}},
    {"fabric",
     {"{environment: {A: b}}", "{name: x, environment: {}}"},
     {"{}", "{environment: {1: b}}", "{environment: {A: b}, x: y}", "nowhere.yaml", "[a]",
      "{environment: []}"}},
    {"container",
     {"{image: a}", "{image: '/a/b.sif', type: apptainer, options: [--cleanenv]}", "{type: none}",
      "{image: 'docker://a/b:1', mounts: ['/a:/b', '/a b:/c:ro'], runner: /opt/r, options: [--x, "
      "'--y=z w']}"},
     {"a", "{image: ''}", "{image: 'a b'}", "{image: 'a,b'}", "{image: a, mounts: ['a:/b']}",
      "{image: a, mounts: ['/a:b']}", "{image: a, mounts: ['/a:/b,/c:/d']}",
      "{image: a, mounts: [/a]}", "{image: a, type: docker}", "{image: a, runner: opt}",
      "{image: a, options: [x]}", "{mounts: ['/a:/b']}",
      "{image: a, options: ['--container-image=b']}", "{image: a, mounts: ['/a:/b:']}",
      "{image: '$(x)'}"}},
    {"directives",
     {"[]", "[--hold]", "'--tmp=1G'", "['--x=a b', '--gres-flags=enforce-binding', --prefer=x]",
      "[--no-kill]"},
     {"[-p]", "[hold]", "['--a b']", "[--A]", "[--qos=x]", "[--nodes=3]", "[--part=x]",
      "[--gpus-per-task=1]", "[--array=1-3]", "[--export=ALL]", "[\"--x=a\\nb\"]", "[--wrap=x]",
      "[--n=3]", "[--]", "[--=x]"}},
    {"srun_options",
     {"[--unbuffered]", "[--slurmd-debug=verbose]"},
     {"[-n4]", "[--ntasks=3]", "[--gpu-bind=closest]", "[--multi-prog]", "[--mpi=pmi2]",
      "[--wait=1]", "[--container-image=x]"}},
};

static void each_key(void **state)
{
    (void)state;
    char text[2048];
    int32_t bad = 0;
    for (size_t k = 0; k < COUNT(keys); k++)
        for (size_t i = 0; i < COUNT(keys[k].fine) + COUNT(keys[k].wrong); i++) {
            const bool fine = i < COUNT(keys[k].fine);
            const char *value = fine ? keys[k].fine[i] : keys[k].wrong[i - COUNT(keys[k].fine)];
            if (value == NULL)
                continue;
            snprintf(text, sizeof text, "%sslurm:\n  %s: %s\n", RUN_HEAD, keys[k].key, value);
            struct sw_config *c = read_named("t", text, SW_CONFIG_RUN, NULL);
            char *said = report(c);
            if ((sw_config_error_count(c) == 0) != fine && ++bad > 0)
                print_error("%s: %s: %s", keys[k].key, value, fine ? said : "accepted\n");
            free(said);
            sw_config_free(c);
        }
    assert_int_equal(bad, 0);
}

#define LINKS "links: [{name: l, spans: all, bandwidth: 1 GB/s, latency: 1 us}]"
#define GPUS(slurm)                                                                                \
    "name: r\nmodel: " MODEL                                                                       \
    "\nsequence_length: 128\nglobal_batch_size: 8\ncluster: {name: c, nodes: 1, "                  \
    "accelerators_per_node: 8, " LINKS                                                             \
    ", accelerator: {name: a, device: cuda, memory: 80 GB, peak: {fp32: 67 TFLOP/s}, "             \
    "memory_bandwidth: 3 TB/s}}\n" slurm
static void checks_between_settings(void **state)
{
    (void)state;
    static const struct {
        const char *text, *report;
    } cases[] = {
        {RUN_HEAD "slurm: {slurm_version: 23.11, segment: 2}\n",
         "t:6:40: 'segment' needs Slurm 24.05, and 'slurm_version' is 23.11 | leave it out, or "
         "correct 'slurm_version' (sinfo --version)\n"},
        {RUN_HEAD "slurm: {slurm_version: 25.05, requeue: expedite}\n",
         "t:6:40: 'requeue: expedite' needs Slurm 25.11, and 'slurm_version' is 25.05 | leave it "
         "out, or correct 'slurm_version' (sinfo --version)\n"},
        {RUN_HEAD "slurm: {slurm_version: 25.11, requeue: expedite, segment: 2}\n", ""},
        {RUN_HEAD "slurm: {segment: 2, requeue: expedite}\n", ""},
        {RUN_HEAD "slurm: {topology: block, block_nodes: 18, segment: 18}\n", ""},
        {RUN_HEAD "slurm: {topology: block, segment: 19}\n", ""},
        {RUN_HEAD "slurm: {topology: tree, leaf_nodes: 32, max_switch_wait: 300}\n", ""},
        {RUN_HEAD "slurm: {topology: block, block_nodes: 18, segment: 19}\n",
         "t:6:52: 'segment' is 19 nodes, and a block has 18 ('block_nodes') | use a smaller one, "
         "or "
         "leave it out, and it follows from the plan\n"},
        {RUN_HEAD "slurm: {topology: tree, block_nodes: 18}\n",
         "t:6:38: 'block_nodes' is of 'topology: block' | set 'topology: block', or leave it "
         "out\n"},
        {RUN_HEAD "slurm: {leaf_nodes: 18, max_switch_wait: 300}\n",
         "t:6:21: 'leaf_nodes' is of 'topology: tree' | set 'topology: tree', or leave it out\n"
         "t:6:42: 'max_switch_wait' is of 'topology: tree' | set 'topology: tree', or leave it "
         "out\n"},
        {RUN_HEAD "slurm: {time: 60, time_min: 2:00:00}\n",
         "t:6:29: 'time_min' (2:00:00) is more than 'time' (60) | it is what the limit may be "
         "shortened to\n"},
        {RUN_HEAD "slurm: {time: 5, signal: USR1@300}\n",
         "t:6:26: 'signal' comes 300 s before a limit of 5: at once | leave the seconds out, and "
         "they follow from the plan\n"},
        {RUN_HEAD "slurm: {signal: USR2@300}\n",
         "t:6:17: 'signal' is USR2, but the ranks save at USR1 | use 'signal: USR1', or "
         "'checkpoint: {signal: USR2}'\n"},
        {RUN_HEAD "checkpoint: {signal: USR2}\nslurm: {signal: USR2}\n", ""},
        {RUN_HEAD "slurm: {directives: [--hold, --qos=a]}\n",
         "t:6:30: '--qos' has a key of its own | use 'slurm: {qos: ...}'\n"},
        {RUN_HEAD "slurm: {directives: [--gpus-per-task=1]}\n",
         "t:6:22: '--gpus-per-task' cannot be one of 'directives' | it would hide a rank's GPU "
         "from its peers, and NCCL falls back from NVLink\n"},
        {RUN_HEAD "slurm: {srun_options: [--ntasks-per-n=1]}\n",
         "t:6:24: '--ntasks-per-n' is short for '--ntasks-per-node', which cannot be one of "
         "'srun_options'; write it in full | the plan decides it: nodes, accelerators_per_node "
         "and the mesh\n"},
        {RUN_HEAD "slurm: {gpu_bind: closest}\n",
         "t:6:19: 'gpu_bind' must be none: any other binding hides a rank's GPU from its peers, "
         "and NCCL falls back from NVLink, not 'closest' | for example: gpu_bind: none\n"},
        /* a suggestion would be taken: neither 'quiet' nor 'type' is */
        {RUN_HEAD "slurm: {cpu_bind: quite}\n",
         "t:6:19: 'cpu_bind' must be none, rank, cores, threads, sockets, ldoms, or map_cpu:, "
         "mask_cpu:, map_ldom: or mask_ldom: and a list; 'quiet,' or 'verbose,' may stand before "
         "it, not 'quite' | for example: cpu_bind: cores\n"},
        {RUN_HEAD "slurm: {cpu_bind: core}\n",
         "t:6:19: 'cpu_bind' must be none, rank, cores, threads, sockets, ldoms, or map_cpu:, "
         "mask_cpu:, map_ldom: or mask_ldom: and a list; 'quiet,' or 'verbose,' may stand before "
         "it, not 'core'; did you mean 'cores'?\n"},
        {RUN_HEAD "slurm: {gpus_per_node: tpye}\n",
         "t:6:24: 'gpus_per_node' must be a number of GPUs or 'type:number', not 'tpye' | for "
         "example: gpus_per_node: 'h100:8'\n"},
        {RUN_HEAD "slurm: {container: {mounts: ['/a:/b']}}\n",
         "t:6:20: 'container' has no 'image' | for example: container: {image: "
         "/images/train.sqsh}\n"},
        {RUN_HEAD "slurm: {mail: {user: me}}\n",
         "t:6:22: warning: no mail is sent: 'mail' has a 'user' and no 'type' | for example: mail: "
         "{type: [END, FAIL], user: me@example.org}\n"},
        {RUN_HEAD "directory: 'a\\b'\n",
         "t:6:12: 'directory' has a backslash, which Slurm takes out of the log's path: 'a\\b' | "
         "use a folder without one\n"},
        {RUN_HEAD "slurm: {setup: \"echo 'a\"}\n",
         "t:6:16: 'setup' ends inside single quotes, which would continue in the script | close "
         "what "
         "is open\n"},
        {RUN_HEAD "slurm: {environment: {SLURM_JOB_ID: 1}}\n",
         "t:6:23: the variable 'SLURM_JOB_ID' belongs to Slurm | what Slurm does is set by the "
         "other "
         "keys of 'slurm'\n"},
        {GPUS("slurm: {gpus_per_node: 'h100:4'}\n"),
         "t:6:24: 'gpus_per_node' asks for 4 of a node, but 'accelerators_per_node' is 8 | each "
         "rank needs one: ask for 8, or use 'accelerators_per_node: 4'\n"},
        {GPUS("slurm: {gres: ['gpu:a:3', 'gpu:b:3']}\n"),
         "t:6:15: 'gres' asks for 6 of a node, but 'accelerators_per_node' is 8 | each rank needs "
         "one: ask for 8, or use 'accelerators_per_node: 6'\n"},
        {GPUS("slurm: {gres: gpu:8, gpus_per_node: 8}\n"),
         "t:6:15: 'gres' and 'gpus_per_node' both ask for GPUs | write them in one of the two\n"},
        {RUN_HEAD "slurm: {mpi: mpirun, cpu_bind: cores, container: {image: i}}\n",
         "t:6:32: 'cpu_bind' is for srun, and 'mpi' is mpirun | leave it out, or use 'mpi: pmix'\n"
         "t:6:50: 'container' is for srun, and 'mpi' is mpirun | leave it out, or use 'mpi: "
         "pmix'\n"},
        {RUN_HEAD "slurm: {mpi: mpirun, gpu_bind: none, srun_options: [--unbuffered]}\n",
         "t:6:32: 'gpu_bind' is for srun, and 'mpi' is mpirun | leave it out, or use 'mpi: pmix'\n"
         "t:6:52: 'srun_options' is for srun, and 'mpi' is mpirun | leave it out, or use 'mpi: "
         "pmix'\n"},
        {RUN_HEAD "slurm: {mpi: mpirun, container: {image: i, type: none}}\n", ""},
        {GPUS("slurm: {gres: nvme:1, gpus_per_node: 8}\n"), ""},
        {GPUS("slurm: {gres: gpu:8}\n"), ""},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        expect(SW_CONFIG_RUN, cases[i].text, cases[i].report);
}

#define WITH(slurm, more)                                                                          \
    "name: r\nmodel: " MODEL                                                                       \
    "\nsequence_length: 128\nglobal_batch_size: 8\ncluster: {name: c, nodes: 1, "                  \
    "accelerators_per_node: 1, accelerator: " ACCELERATOR ", slurm: " slurm "}\n" more
static void a_cluster_alone(void **state)
{
    (void)state;
    expect(SW_CONFIG_CLUSTER,
           "name: c\nnodes: 1\naccelerators_per_node: 1\naccelerator: " ACCELERATOR
           "\nslurm: {directives: [--qos=a], slurm_version: 23.02, segment: 2}\n",
           "t:5:22: '--qos' has a key of its own | use 'slurm: {qos: ...}'\n"
           "t:5:63: 'segment' needs Slurm 24.05, and 'slurm_version' is 23.02 | leave it out, or "
           "correct 'slurm_version' (sinfo --version)\n");
}

static void a_run_adds_and_replaces(void **state)
{
    (void)state;
    static const char *const sets[] = {"slurm.environment.D=4", "slurm.mail.user=you", NULL};
    struct sw_config *c = read_named(
        "t",
        WITH("{partition: [a, b], environment: {A: 1, B: 2, C: 3}, setup: [x, y], modules: [m], "
             "mail: {type: END, user: me}, container: {image: i, mounts: ['/a:/b']}, exclude: n1, "
             "fabric: {environment: {F: 1}}}",
             "slurm: {partition: c, environment: {B: two, A: null}, setup: [z], exclude: [], "
             "modules: [], container: {type: none}}\n"),
        SW_CONFIG_RUN, sets);
    assert_int_equal(sw_config_error_count(c), 0);
    const struct sw_slurm_config *s = sw_slurm_settings(&sw_config_run(c)->cluster);
    assert_string_equal(s->partition, "c");
    assert_null(s->exclude);
    assert_int_equal(s->environment.count, 3);
    assert_string_equal(s->environment.item[0].name, "B");
    assert_string_equal(s->environment.item[0].value, "two");
    assert_string_equal(s->environment.item[1].value, "3");
    assert_string_equal(s->environment.item[2].value, "4");
    assert_int_equal(s->setup.count, 1);
    assert_string_equal(s->setup.item[0], "z");
    assert_int_equal(s->modules.count, 0);
    assert_string_equal(s->mail_type, "END");
    assert_string_equal(s->mail_user, "you");
    assert_int_equal(s->container.kind, SW_CONTAINER_NONE);
    assert_string_equal(s->container.image, "i");
    assert_string_equal(s->fabric.name, "fabric");
    assert_string_equal(s->fabric.environment.item[0].name, "F");
    sw_config_free(c);
}

static void null_takes_away(void **state)
{
    (void)state;
    static const char *const sets[] = {"slurm.qos=null", NULL};
    struct sw_config *c = read_named(
        "t",
        WITH("{account: a, qos: q, partition: p, time: '1:00:00', cpus_per_task: 3, exclude: n1, "
             "exclusive: true, mail: {type: END, user: me}, environment: {A: 1}, setup: [x], "
             "container: {image: i, type: apptainer, mounts: ['/a:/b']}, fabric: {environment: {F: "
             "1}}, nice: 4}",
             "slurm: {account: null, time: null, cpus_per_task: ~, exclude: null, exclusive: null, "
             "mail: {type: null}, environment: null, setup: null, container: null, fabric: "
             "null}\n"),
        SW_CONFIG_RUN, sets);
    assert_int_equal(sw_config_error_count(c), 0);
    const struct sw_slurm_config *s = sw_slurm_settings(&sw_config_run(c)->cluster);
    assert_null(s->account);
    assert_null(s->qos);
    assert_null(s->exclude);
    assert_null(s->mail_type);
    assert_null(s->container.image);
    assert_int_equal(s->container.kind, SW_CONTAINER_PYXIS);
    assert_int_equal(s->container.mounts.count, 0);
    assert_int_equal(s->cpus_per_task, 0);
    assert_int_equal(s->exclusive, SW_EXCLUSIVE_AUTO);
    assert_int_equal(s->environment.count, 0);
    assert_int_equal(s->setup.count, 0);
    assert_null(s->fabric.name);
    /* what is not named stays, and so does the most that a job asks for */
    assert_string_equal(s->partition, "p");
    assert_string_equal(s->mail_user, "me");
    assert_string_equal(s->time, "1:00:00");
    assert_int_equal(s->nice, 4);
    assert_true(sw_config_run(c)->time_is_ceiling);
    sw_config_free(c);
}

static void lines_of_a_text(void **state)
{
    (void)state;
    struct sw_config *c =
        read_named("t", RUN_HEAD "slurm:\n  setup: |\n    if true; then\n    \ta\n\n    fi\n",
                   SW_CONFIG_RUN, NULL);
    assert_int_equal(sw_config_error_count(c), 0);
    const struct sw_texts *setup = &sw_slurm_settings(&sw_config_run(c)->cluster)->setup;
    assert_int_equal(setup->count, 4);
    assert_string_equal(setup->item[0], "if true; then");
    assert_string_equal(setup->item[1], "\ta");
    assert_string_equal(setup->item[2], "");
    assert_string_equal(setup->item[3], "fi");
    sw_config_free(c);
}

static void fabrics(void **state)
{
    (void)state;
    expect(SW_CONFIG_FABRIC, "name: x\nenvironment: {A: b}\nsource: a page\n", "");
    expect(SW_CONFIG_UNKNOWN, "environment: {A: b}\n", "");
    expect(SW_CONFIG_FABRIC, "[a]\n",
           "t:1:1: the description of a fabric must be a mapping, not a list | write 'environment: "
           "{NCCL_SOCKET_IFNAME: eth0}'\n");
    expect(SW_CONFIG_FABRIC, "name: x\n",
           "t:1:1: missing key 'environment' | for example: environment: {NCCL_SOCKET_IFNAME: "
           "'=ib0'}\n");
    expect(SW_CONFIG_RUN, RUN_HEAD "slurm: {fabric: " MODEL "}\n",
           "t:6:17: this is a model, not a fabric | a fabric has 'environment'\n");
}

static void gpus_of_settings(void **state)
{
    (void)state;
    static const struct {
        struct sw_slurm_config slurm;
        int64_t gpus;
    } cases[] = {
        {{.gres = NULL}, -1},
        {{.gres = "nvme:3"}, -1},
        {{.gres = "gpu"}, 1},
        {{.gres = "gpu:h100"}, 1},
        {{.gres = "gpu:4,nvme:1"}, 4},
        {{.gres = "nvme:1,gpu:h100:8"}, 8},
        {{.gres = "gpux:4"}, -1},
        {{.gpus_per_node = "8"}, 8},
        {{.gpus_per_node = "a:2,b:3", .gres = "gpu:9"}, 5},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_int_equal(sw_slurm_gpus(&cases[i].slurm), cases[i].gpus);
}

/* The runner starts no jobs: it names no launchers, and reads what anybody's settings say as far as
 * they are a mapping. */
static void sections_of_nobody(void **state)
{
    (void)state;
    static const char text[] = RUN_HEAD "slurm: {time: 5, nothing: 6}\nother: {queue: a}\n";
    static const char wrong[] = RUN_HEAD "other: 5\n";
    struct sw_error err = {0};
    struct sw_config *c =
        sw_config_read_text("t", text, strlen(text), SW_CONFIG_RUN, NULL, NULL, 0, &err);
    char *told = report(c);
    assert_string_equal(told, "");
    assert_non_null(sw_config_run(c));
    assert_null(sw_config_run(c)->cluster.launchers);
    free(told);
    sw_config_free(c);
    c = sw_config_read_text("t", wrong, strlen(wrong), SW_CONFIG_RUN, NULL, NULL, 0, &err);
    assert_int_equal(sw_config_error_count(c), 1);
    assert_string_equal(sw_config_diagnostic(c, 0)->message, "unknown key 'other'");
    sw_config_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_key),         cmocka_unit_test(checks_between_settings),
        cmocka_unit_test(a_cluster_alone),  cmocka_unit_test(a_run_adds_and_replaces),
        cmocka_unit_test(null_takes_away),  cmocka_unit_test(lines_of_a_text),
        cmocka_unit_test(fabrics),          cmocka_unit_test(sections_of_nobody),
        cmocka_unit_test(gpus_of_settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
