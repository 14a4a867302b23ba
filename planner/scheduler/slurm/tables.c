/* The keys of Slurm's settings, and the options of sbatch and srun that have one. */
#include "planner/scheduler/slurm/internal_settings.h"

#include <stddef.h>
#include <string.h>

static const char *const exclusive_words[] = {"auto", "true", "false", "user", "mcs", NULL};
static const char *const topology_words[] = {"unknown", "flat", "tree", "block", NULL};
static const char *const requeue_words[] = {"auto", "true", "false", "expedite", NULL};
static const char *const container_words[] = {"pyxis", "apptainer", "singularity", "none", NULL};

#define WORD_EXPECTS "letters, digits and any of _ . , : = + @ / % - without spaces"
#define TIME_EXPECTS                                                                               \
    "a time limit of Slurm (minutes, minutes:seconds, hours:minutes:seconds, "                     \
    "days-hours, days-hours:minutes, days-hours:minutes:seconds or UNLIMITED)"
#define NODES_EXPECTS "names of nodes as Slurm writes them, as in n[1-4,7]"
#define LINE_EXPECTS "one line of text without hidden characters"

#define AT(member) .offset = offsetof(struct sw_container_config, member)
static const struct field container_fields[] = {
    {.key = "image",
     .type = FIELD_TEXT,
     AT(image),
     .accept = sw_text_is_image,
     .expects = "an image's file, path or name in a registry, without spaces, quotes and commas",
     .example = "/images/train.sqsh",
     .about = "image that the ranks run in, as the container's program knows it: seen from the "
              "nodes, never from this file"},
    {.key = "type",
     .type = FIELD_WORD,
     AT(kind),
     .brief = true,
     .words = container_words,
     .example = "pyxis",
     .about = "pyxis: srun's options of enroot's plugin; apptainer, singularity: the program in "
              "front of the runner; none: no container, whatever the cluster says; default: pyxis"},
    {.key = "mounts",
     .type = FIELD_CUSTOM,
     AT(mounts),
     .custom = &sw_type_texts,
     .accept = sw_text_is_mount,
     .expects = "'/from:/to' or '/from:/to:flags', absolute paths without commas and quotes",
     .example = "[/data:/data:ro]",
     .about = "folders of the node that the image sees, besides those that the run needs: the "
              "plan's, the run's directory, its checkpoints, data and initial weights, and the "
              "runner's"},
    {.key = "runner",
     .type = FIELD_TEXT,
     AT(runner),
     .accept = sw_text_is_absolute_path,
     .expects = "an absolute path",
     .example = "/opt/shardwright/bin/runner",
     .about = "the runner in the image; default: the one beside this plan, mounted"},
    {.key = "options",
     .type = FIELD_CUSTOM,
     AT(options),
     .custom = &sw_type_texts,
     .accept = sw_text_is_option,
     .expects = "options '--name' or '--name=value'",
     .example = "[--no-container-remap-root]",
     .about = "more options of srun (pyxis), or of the program's exec"},
    {.key = NULL},
};
#undef AT

#define AT(member) .offset = offsetof(struct sw_slurm_config, member)
/* The rows have offsets in the settings themselves. */
static const struct field mail_fields[] = {
    {.key = "type",
     .type = FIELD_TEXT,
     .commas = true,
     AT(mail_type),
     .accept = sw_text_is_slurm_mail,
     .expects = "NONE, BEGIN, END, FAIL, REQUEUE, ALL, INVALID_DEPEND, STAGE_OUT, TIME_LIMIT, "
                "TIME_LIMIT_90, TIME_LIMIT_80 or TIME_LIMIT_50, or several",
     .example = "[END, FAIL]",
     .about = "sbatch --mail-type: what mail is sent about; default: nothing"},
    {.key = "user",
     .type = FIELD_TEXT,
     AT(mail_user),
     .accept = sw_text_is_mail_address,
     .expects = "a user or a mail address",
     .example = "me@example.org",
     .about = "sbatch --mail-user: who gets it; default: whoever submits"},
    {.key = NULL},
};

#define TEXT(name, member, check, wants, shown, text)                                              \
    {                                                                                              \
        .key = name, .type = FIELD_TEXT, AT(member), .accept = check, .expects = wants,            \
        .example = shown, .about = text                                                            \
    }
#define COMMAS(name, member, check, wants, shown, text)                                            \
    {                                                                                              \
        .key = name, .type = FIELD_TEXT, .commas = true, AT(member), .accept = check,              \
        .expects = wants, .example = shown, .about = text                                          \
    }
#define WORD(name, shown, text) TEXT(#name, name, sw_text_is_word, WORD_EXPECTS, shown, text)
#define TEXTS(name, check, wants, shown, text)                                                     \
    {                                                                                              \
        .key = #name, .type = FIELD_CUSTOM, AT(name), .custom = &sw_type_texts, .accept = check,   \
        .expects = wants, .example = shown, .about = text                                          \
    }
const struct field sw_slurm_fields[] = {
    TEXT("slurm_version", version, sw_text_is_slurm_version,
         "a version of Slurm from 22.05 on, as in '23.11'", "'23.11'",
         "version of the cluster's Slurm (sinfo --version): what only newer ones have is refused; "
         "default: unknown, and nothing is refused"),
    COMMAS("partition", partition, sw_text_is_word, WORD_EXPECTS, "gpu",
           "sbatch --partition: where the job queues, one or several; default: Slurm's own"),
    WORD(account, "research",
         "sbatch --account: whom the job is charged to; default: the user's own"),
    WORD(qos, "normal", "sbatch --qos: quality of service; default: Slurm's own"),
    TEXT("time", time, sw_text_is_slurm_time, TIME_EXPECTS, "'24:00:00'",
         "sbatch --time. The run's value if set; else 1.5 x the predicted time of all steps + 10 "
         "minutes, at most the cluster's value. Default, where the run gives no number of steps: "
         "the partition's limit"),
    TEXT("time_min", time_min, sw_text_is_slurm_time, TIME_EXPECTS, "'4:00:00'",
         "sbatch --time-min: what the limit may be shortened to so that the job starts earlier"),
    TEXT("gpus_per_node", gpus_per_node, sw_text_is_slurm_gpus, "a number of GPUs or 'type:number'",
         "'h100:8'",
         "sbatch --gpus-per-node; default: accelerators_per_node where the device is cuda and gres "
         "names no gpu. There is no key for GPUs of a task: every rank must see those of its node, "
         "or NCCL loses the links between them"),
    COMMAS("gres", gres, sw_text_is_slurm_gres,
           "'name', 'name:count' or 'name:type:count', or several", "'gpu:h100:8'",
           "sbatch --gres: generic resources of a node; GPUs here or in gpus_per_node, not in "
           "both"),
    COMMAS("constraint", constraint, sw_text_is_slurm_constraint,
           "letters, digits and any of _ . , : = + @ / % - & | * [ ] ( ) without spaces",
           "'a100&nvme'", "sbatch --constraint: features that the nodes must have"),
    WORD(reservation, "maintenance", "sbatch --reservation: name of a reservation to use"),
    COMMAS("nodelist", nodelist, sw_text_is_slurm_nodes, NODES_EXPECTS, "'n[1-4]'",
           "sbatch --nodelist: nodes that the job must have"),
    COMMAS("exclude", exclude, sw_text_is_slurm_nodes, NODES_EXPECTS, "'n[7,12]'",
           "sbatch --exclude: nodes that the job must not have"),
    {.key = "cpus_per_task",
     .type = FIELD_INTEGER32,
     AT(cpus_per_task),
     .min = 1,
     .max = 65536,
     .example = "12",
     .about = "sbatch --cpus-per-task: CPU cores of one rank; default: Slurm's own"},
    TEXT("cpu_bind", cpu_bind, sw_text_is_slurm_cpu_bind,
         "none, rank, cores, threads, sockets, ldoms, or map_cpu:, mask_cpu:, map_ldom: or "
         "mask_ldom: and a list; 'quiet,' or 'verbose,' may stand before it",
         "cores", "srun --cpu-bind: what a rank is bound to; default: the cluster's own"),
    TEXT("gpu_bind", gpu_bind, sw_text_is_slurm_gpu_bind,
         "none: any other binding hides a rank's GPU from its peers, and NCCL falls back from "
         "NVLink",
         "none", "srun --gpu-bind, where the cluster binds by itself; only none"),
    TEXT("mem", mem, sw_text_is_slurm_memory,
         "a whole number of megabytes, or a number with K, M, G or T", "'0'",
         "sbatch --mem: memory of one node; 0: all of it, the default of an exclusive job"),
    TEXT("mem_per_cpu", mem_per_cpu, sw_text_is_slurm_memory,
         "a whole number of megabytes, or a number with K, M, G or T", "4G",
         "sbatch --mem-per-cpu, in place of mem: memory of one processor"),
    TEXT("mem_per_gpu", mem_per_gpu, sw_text_is_slurm_memory,
         "a whole number of megabytes, or a number with K, M, G or T", "64G",
         "sbatch --mem-per-gpu, in place of mem: memory for one GPU of those that are asked for"),
    {.key = "exclusive",
     .type = FIELD_WORD,
     AT(exclusive),
     .brief = true,
     .words = exclusive_words,
     .example = "true",
     .about = "sbatch --exclusive: whole nodes for this job, or shared with jobs of the same user "
              "or label; default: auto, whole nodes where the device is cuda, whose plans use all "
              "GPUs of a node"},
    TEXT("switches", switches, sw_text_is_slurm_switches,
         "a number of leaf switches, perhaps with the longest wait, as in '1@2:00:00'", "1",
         "sbatch --switches: leaf switches that the nodes may be spread over"),
    {.key = "segment",
     .type = FIELD_INTEGER32,
     AT(segment),
     .min = 1,
     .max = 65536,
     .example = "16",
     .about = "sbatch --segment: nodes that must lie in one block of topology/block; from Slurm "
              "24.05"},
    {.key = "topology",
     .type = FIELD_WORD,
     AT(topology),
     .brief = true,
     .words = topology_words,
     .example = "block",
     .about = "topology by which the cluster's Slurm places jobs, as 'plan import-cluster' finds "
              "it: block, tree or flat; default: unknown, and nothing is asked for"},
    {.key = "block_nodes",
     .type = FIELD_INTEGER32,
     AT(block_nodes),
     .min = 1,
     .max = 65536,
     .example = "18",
     .about = "nodes of a base block of topology/block; default: unknown"},
    {.key = "leaf_nodes",
     .type = FIELD_INTEGER32,
     AT(leaf_nodes),
     .min = 1,
     .max = 65536,
     .example = "32",
     .about = "nodes under a leaf switch of topology/tree; default: unknown"},
    {.key = "max_switch_wait",
     .type = FIELD_SECONDS,
     AT(max_switch_wait_s),
     .min = 1,
     .max = 1e8,
     .brief = true,
     .example = "300 s",
     .about =
         "the most that a job may wait for few switches (SchedulerParameters=max_switch_wait); "
         "default: Slurm's own, 300 s"},
    COMMAS("dependency", dependency, sw_text_is_slurm_dependency,
           "singleton, or after, afterany, afterok, afternotok, aftercorr or afterburstbuffer "
           "with job ids, as in afterok:1234",
           "'afterok:1234'",
           "sbatch --dependency: jobs that this one waits for; one that can no longer come true "
           "ends it"),
    TEXT("begin", begin, sw_text_is_slurm_begin,
         "now, today, tomorrow, midnight or noon, perhaps '+2hours', a time as in 20:30, a date as "
         "in 2026-01-31, or both with a T between",
         "'now+2hours'", "sbatch --begin: not before that time"),
    {.key = "nice",
     .type = FIELD_INTEGER32,
     AT(nice),
     .min = -2147483645,
     .max = 2147483645,
     .example = "100",
     .about = "sbatch --nice: how far behind others the job stands; negative ones need rights"},
    COMMAS("licenses", licenses, sw_text_is_word, WORD_EXPECTS, "'scratch:1'",
           "sbatch --licenses: licenses that the job takes"),
    {.key = "mail",
     .type = FIELD_SECTION,
     .brief = true,
     .offset = 0,
     .fields = mail_fields,
     .example = "{type: [END, FAIL], user: me@example.org}",
     .about = "mail about the job"},
    TEXT("comment", comment, sw_text_is_line, LINE_EXPECTS, "'ablation 3'",
         "sbatch --comment: kept with the job"),
    WORD(wckey, "ablations", "sbatch --wckey: what the job is accounted under"),
    WORD(job_name, "llama-7b", "sbatch --job-name; default: the run's name"),
    TEXT("log", log, sw_text_is_slurm_log,
         "a name without slashes, backslashes and quotes that has the job's number, %j, and of "
         "Slurm's other patterns only those of sbatch",
         "'%x-%j.out'",
         "name of the job's log in the run's directory; default: slurm-%j.out, to which a requeued "
         "job appends"),
    TEXT("signal", signal, sw_text_is_slurm_signal,
         "USR1 or USR2, perhaps with seconds as in USR1@300, or none", "USR1@300",
         "sbatch --signal: the signal on which the ranks save and end, and how many seconds before "
         "the limit; default: checkpoint.signal, twice the time of a step and a checkpoint before, "
         "at least 30 s; without continue only if the limit is at least four times (that + a "
         "minute)"),
    {.key = "requeue",
     .type = FIELD_WORD,
     AT(requeue),
     .brief = true,
     .words = requeue_words,
     .example = "false",
     .about = "sbatch --requeue: whether Slurm may start the job again when a node fails or an "
              "administrator says so; expedite: first in the queue, from Slurm 25.11; default: "
              "auto, only with continue: requeue"},
    TEXT("mpi", mpi, sw_text_is_slurm_mpi, "pmix, pmix_v and a number, or mpirun", "pmix_v4",
         "srun --mpi: how ranks find each other; mpirun: Open MPI's starts them instead of srun, "
         "for a Slurm without PMIx; default: pmix"),
    TEXTS(modules, sw_text_is_module, "names of modules", "[cuda/12.4, openmpi/4.1]",
          "environment modules that the job loads, in their order"),
    {.key = "setup",
     .type = FIELD_CUSTOM,
     AT(setup),
     .custom = &sw_type_lines,
     .expects = "lines of bash without hidden characters",
     .example = "[ulimit -l unlimited]",
     .about = "lines of bash that the job runs once, on its first node, before the ranks start; "
              "one that fails ends the job"},
    {.key = "setup_node",
     .type = FIELD_CUSTOM,
     AT(setup_node),
     .custom = &sw_type_lines,
     .expects = "lines of bash without hidden characters",
     .example = "[mkdir -p /local/data, cp -r /shared/data /local]",
     .about =
         "lines of bash that the job runs on every one of its nodes, once each and after setup, "
         "before the ranks start; what they export is theirs alone, and one that fails ends the "
         "job"},
    {.key = "environment",
     .type = FIELD_CUSTOM,
     AT(environment),
     .custom = &sw_type_environment,
     .expects = "mapping of variables to texts",
     .example = "{NCCL_SOCKET_IFNAME: '=eth0'}",
     .about = "variables that the ranks get; $NAME and ${NAME} in them stand for the job's own "
              "variables, nothing else is expanded; a run's "
              "are added to the cluster's, null takes one of these away"},
    {.key = "fabric",
     .type = FIELD_CUSTOM,
     AT(fabric),
     .custom = &sw_type_fabric,
     .kind = SW_CONFIG_FABRIC,
     .described = sw_fabric_fields,
     .example = "../fabrics/infiniband.yaml",
     .about = "variables that the network wants; those of environment come after them"},
    {.key = "container",
     .type = FIELD_SECTION,
     AT(container),
     .brief = true,
     .fields = container_fields,
     .example = "{image: /images/train.sqsh, mounts: ['/data:/data:ro']}",
     .about = "image that the ranks run in"},
    TEXTS(directives, sw_text_is_option, "options '--name' or '--name=value'",
          "[--hold, '--gres-flags=enforce-binding']",
          "more options of sbatch, each as one #SBATCH line; those that have their own key, or "
          "that the plan decides, are refused"),
    TEXTS(srun_options, sw_text_is_option, "options '--name' or '--name=value'",
          "[--slurmd-debug=verbose]",
          "more options of the srun that starts the ranks; refused as in directives"),
    {.key = "continue",
     .type = FIELD_WORD,
     AT(continues),
     .vocabulary = sw_words_continue,
     .brief = true,
     .example = "requeue",
     .about = "how a run continues when its job ends first: requeue: the job is requeued; chain: a "
              "new job follows, for sites that forbid requeues; none: a person submits again; "
              "default: none"},
    {.key = "preflight",
     .type = FIELD_WORD,
     AT(preflight),
     .vocabulary = sw_words_preflight,
     .brief = true,
     .example = "quick",
     .about = "tests of every node before the job trains on it: quick takes ten seconds, full "
              "about a minute; a node that is slow beside the others is left out; default: off"},
    {.key = "max_attempts",
     .type = FIELD_INTEGER32,
     AT(max_attempts),
     .brief = true,
     .min = 1,
     .max = 65536,
     .example = "100",
     .about = "jobs and attempts inside of jobs after which a run no longer continues by itself; "
              "default: 100"},
    {.key = "shrink_limit",
     .type = FIELD_BOOL,
     AT(shrink_limit),
     .brief = true,
     .example = "true",
     .about = "true: a job that trains lowers its own time limit when its speed is known, to the "
              "remaining time and a margin, so that Slurm can plan other jobs behind it; only for "
              "jobs that are not started again (continue: none, requeue not true); default: false, "
              "since a user cannot raise the limit again"},
    {.key = NULL},
};
_Static_assert(sizeof sw_slurm_fields / sizeof *sw_slurm_fields <= 65,
               "struct section has 64 bits");
#undef AT

/* Options that the plan decides have no key, and a reason. An option of both sbatch and srun means
 * the same. */
#define PLAN "the plan decides it: nodes, accelerators_per_node and the mesh"
#define PEERS "it would hide a rank's GPU from its peers, and NCCL falls back from NVLink"
#define COMMAND "it belongs on sbatch's command line"
const struct sw_option_row sw_option_rows[] = {
    {"account", "account", NULL},
    {"array", NULL,
     "its tasks would train the same run side by side; a chain is slurm: {continue: chain}"},
    {"begin", "begin", NULL},
    {"bell", NULL, COMMAND},
    {"chdir", NULL, "the job runs in the run's directory"},
    {"cluster-constraint", NULL, "plan follows jobs of the cluster that it is asked on"},
    {"clusters", NULL, "plan follows jobs of the cluster that it is asked on: submit there"},
    {"comment", "comment", NULL},
    {"constraint", "constraint", NULL},
    {"container", NULL, NULL}, /* for OCI: not ours, but begins like ours */
    {"container-id", NULL, NULL},
    {"container-image", "container", NULL},
    {"container-mounts", "container", NULL},
    {"container-workdir", NULL, NULL},
    {"cpu-bind", "cpu_bind", NULL},
    {"cpus-per-gpu", "cpus_per_task", NULL},
    {"cpus-per-task", "cpus_per_task", NULL},
    {"dependency", "dependency", NULL},
    {"distribution", NULL, "the plan decides it: neighbouring ranks share a node"},
    {"error", "log", NULL},
    {"exclude", "exclude", NULL},
    {"exclusive", "exclusive", NULL},
    {"export", "environment", NULL},
    {"export-file", "environment", NULL},
    {"gpu-bind", "gpu_bind", NULL},
    {"gpus", "gpus_per_node", NULL},
    {"gpus-per-node", "gpus_per_node", NULL},
    {"gpus-per-socket", NULL, PEERS},
    {"gpus-per-task", NULL, PEERS},
    {"gres", "gres", NULL},
    {"gres-flags", NULL, NULL},
    {"help", NULL, COMMAND},
    {"input", NULL, "the ranks read nothing"},
    {"job-name", "job_name", NULL},
    {"kill-on-bad-exit", NULL, "a rank that is gone ends the job"},
    {"kill-on-invalid-dep", NULL, "a dependency that cannot come true ends the job"},
    {"licenses", "licenses", NULL},
    {"mail-type", "mail", NULL},
    {"mail-user", "mail", NULL},
    {"mem", "mem", NULL},
    {"mem-bind", NULL, NULL},
    {"mem-per-cpu", "mem_per_cpu", NULL},
    {"mem-per-gpu", "mem_per_gpu", NULL},
    {"mpi", "mpi", NULL},
    {"multi-prog", NULL, PLAN},
    {"network", NULL, NULL},
    {"nice", "nice", NULL},
    {"no-kill", NULL, NULL},
    {"no-requeue", "requeue", NULL},
    {"nodefile", "nodelist", NULL},
    {"nodelist", "nodelist", NULL},
    {"nodes", NULL, PLAN},
    {"ntasks", NULL, PLAN},
    {"ntasks-per-core", NULL, PLAN},
    {"ntasks-per-gpu", NULL, PLAN},
    {"ntasks-per-node", NULL, PLAN},
    {"ntasks-per-socket", NULL, PLAN},
    {"open-mode", NULL, "a requeued job appends to its log"},
    {"output", "log", NULL},
    {"parsable", NULL, COMMAND},
    {"partition", "partition", NULL},
    {"prefer", NULL, NULL},
    {"priority", NULL, NULL},
    {"profile", NULL, NULL},
    {"pty", NULL, "the ranks have no terminal"},
    {"qos", "qos", NULL},
    {"quiet", NULL, NULL},
    {"relative", NULL, PLAN},
    {"requeue", "requeue", NULL},
    {"reservation", "reservation", NULL},
    {"segment", "segment", NULL},
    {"signal", "signal", NULL},
    {"switches", "switches", NULL},
    {"test-only", NULL, COMMAND},
    {"time", "time", NULL},
    {"time-min", "time_min", NULL},
    {"tres-per-task", NULL, PEERS},
    {"usage", NULL, COMMAND},
    {"version", NULL, COMMAND},
    {"wait", NULL, COMMAND},
    {"wait-all-nodes", NULL, NULL},
    {"wckey", "wckey", NULL},
    {"wrap", NULL, COMMAND},
    {NULL, NULL, NULL},
};
