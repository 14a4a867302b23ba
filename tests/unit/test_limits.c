/* Limits of Slurm sites and where they are set: stand-ins of Slurm's commands tell of a site, and
 * what plan says of a job before it is submitted is compared. Slurm itself says of all that it
 * starts, as `sbatch --test-only` does of jobs that limits hold for ever. */
#include "planner/scheduler/slurm/admit.h"
#include "planner/scheduler/slurm/import.h"

#include <pwd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#define FOR_EVER ": it would wait for ever"
#define HELD "the job cannot start: "

struct row {
    const char *what;
    const char *config;    /* lines of `scontrol show config` */
    const char *partition; /* keys of the partition's line; it has no MaxTime unless told */
    /* records of sacctmgr, "NAME FIELD=VALUE ...", a line each; fields as the format asks */
    const char *qos, *user, *accounts;
    const char *job; /* directives beside those of base_job, which they override */
    const char *why; /* NULL: it starts */
};

/* Four nodes of 64 processors, 512000 MB and eight h100 each. */
static const char base_job[] = "#!/bin/bash\n#SBATCH --nodes=4 --ntasks-per-node=8\n"
                               "#SBATCH --cpus-per-task=4 --gpus-per-node=h100:8 --exclusive\n"
                               "#SBATCH --mem=0 --time=24:00:00\n";

static const struct row rows[] = {
    {"no limit", NULL, "", NULL, NULL, NULL, "", NULL},
    /* the time of a job */
    {"MaxTime of the partition", NULL, "MaxTime=12:00:00", NULL, NULL, NULL, "",
     HELD "its time limit, 24:00:00, is more than the 12.0 h of partition gpu" FOR_EVER},
    {"MaxTime, which a flag of the job's qos lifts", NULL, "MaxTime=12:00:00",
     "std Flags=PartitionTimeLimit", "lab QOS=std", NULL, "", NULL},
    {"MaxTime, lifted by the partition's own qos, which does not count", NULL,
     "MaxTime=12:00:00 QoS=own", "std\nown Flags=PartitionTimeLimit", "lab QOS=std", NULL, "",
     HELD "its time limit, 24:00:00, is more than the 12.0 h of partition gpu" FOR_EVER},
    {"MaxWall of the qos that the job names", NULL, "", "std MaxWall=20:00:00\ndev",
     "lab QOS=std,dev DefaultQOS=dev", NULL, "--qos=std",
     HELD "its time limit is more than the 20.0 h of qos std" FOR_EVER},
    {"MaxWall of the association's default qos", NULL, "", "std MaxWall=20:00:00\ndev",
     "lab QOS=std,dev DefaultQOS=std", NULL, "",
     HELD "its time limit is more than the 20.0 h of qos std" FOR_EVER},
    {"MaxWall of the only qos", NULL, "", "std MaxWall=20:00:00", "lab QOS=std", NULL, "",
     HELD "its time limit is more than the 20.0 h of qos std" FOR_EVER},
    {"MaxWall of the root's default qos", NULL, "", "std MaxWall=20:00:00\ndev\nnormal",
     "lab QOS=std,dev", "root QOS=normal DefaultQOS=std\nlab QOS=std,dev ParentName=root", "",
     HELD "its time limit is more than the 20.0 h of qos std" FOR_EVER},
    {"MaxWall of qos normal", NULL, "", "normal MaxWall=20:00:00\ndev", "lab QOS=dev,normal", NULL,
     "", HELD "its time limit is more than the 20.0 h of qos normal" FOR_EVER},
    {"MaxWall of the partition's qos", NULL, "QoS=own", "own MaxWall=10:00:00\nstd", "lab QOS=std",
     NULL, "", HELD "its time limit is more than the 10.0 h of qos own" FOR_EVER},
    {"MaxWall of the partition's qos comes first", NULL, "QoS=own",
     "own MaxWall=2-00:00:00\nstd MaxWall=01:00:00", "lab QOS=std", NULL, "", NULL},
    {"MaxWall of the job's qos comes first with OverPartQOS", NULL, "QoS=own",
     "own MaxWall=2-00:00:00\nstd MaxWall=01:00:00 Flags=OverPartQOS", "lab QOS=std", NULL, "",
     HELD "its time limit is more than the 1.0 h of qos std" FOR_EVER},
    {"MaxWall of the user", NULL, "", "std", "lab QOS=std MaxWall=06:00:00", NULL, "",
     HELD "its time limit is more than the 6.0 h of account lab" FOR_EVER},
    {"MaxWall of an account above", NULL, "", "std", "lab QOS=std MaxWall=06:00:00",
     "root QOS=std\nuni QOS=std MaxWall=06:00:00 ParentName=root\n"
     "lab QOS=std MaxWall=06:00:00 ParentName=uni",
     "", HELD "its time limit is more than the 6.0 h of account uni" FOR_EVER},
    {"MaxWall of an association, which that of a qos replaces", NULL, "", "std MaxWall=2-00:00:00",
     "lab QOS=std MaxWall=06:00:00", NULL, "", NULL},
    {"MaxWall of no time at all", NULL, "", "std MaxWall=00:00:00", "lab QOS=std", NULL, "",
     HELD "its time limit is more than the 0 s of qos std" FOR_EVER},
    {"MaxWall, refused by sbatch", NULL, "", "std MaxWall=20:00:00 Flags=DenyOnLimit",
     "lab QOS=std", NULL, "",
     HELD "its time limit is more than the 20.0 h of qos std: sbatch would refuse it"},
    {"MaxWall with UsageFactorSafe", NULL, "",
     "std MaxWall=1-06:00:00 Flags=UsageFactorSafe UsageFactor=2.000000", "lab QOS=std", NULL, "",
     HELD "its time limit is more than the 30.0 h of qos std" FOR_EVER},
    {"GrpWall with safe", "AccountingStorageEnforce=associations,limits,qos,safe", "",
     "std GrpWall=20:00:00", "lab QOS=std", NULL, "",
     HELD "its time limit is more than the 20.0 h of GrpWall of qos std" FOR_EVER},
    {"GrpWall without safe", "AccountingStorageEnforce=associations,limits,qos", "",
     "std GrpWall=20:00:00", "lab QOS=std", NULL, "", NULL},
    {"limits that nobody enforces", "AccountingStorageEnforce=none", "", "std MaxWall=20:00:00",
     "lab QOS=std MaxTRES=node=1", NULL, "", NULL},
    /* resources of a job, in every place */
    {"MaxTRES of GPUs of a type", NULL, "", "std MaxTRES=gres/gpu:h100=16", "lab QOS=std", NULL, "",
     HELD "32 gres/gpu:h100 asked for, but MaxTRES of qos std is 16" FOR_EVER},
    {"MaxTRES of GPUs, asked for by gres", NULL, "", "std MaxTRES=gres/gpu=16", "lab QOS=std", NULL,
     "--gpus-per-node=0 --gres=gpu:h100:8",
     HELD "32 GPUs asked for, but MaxTRES of qos std is 16" FOR_EVER},
    {"MaxTRES of a type, which whole nodes have though no type is asked for", NULL, "",
     "std MaxTRES=gres/gpu:h100=16", "lab QOS=std", NULL, "--gpus-per-node=8",
     HELD "32 gres/gpu:h100 asked for, but MaxTRES of qos std is 16" FOR_EVER},
    {"MaxTRES of a type that shared nodes do not count", NULL, "", "std MaxTRES=gres/gpu:h100=16",
     "lab QOS=std", NULL, "--gpus-per-node=8 --exclusive=user", NULL},
    {"MaxTRES of another type", NULL, "", "std MaxTRES=gres/gpu:a100=1", "lab QOS=std", NULL, "",
     NULL},
    {"MaxTRES of no GPUs at all", NULL, "", "std MaxTRES=gres/gpu=0", "lab QOS=std", NULL, "",
     HELD "32 GPUs asked for, but MaxTRES of qos std is 0" FOR_EVER},
    {"MaxTRES of nodes of the user", NULL, "", "std", "lab QOS=std MaxTRES=node=2", NULL, "",
     HELD "4 nodes asked for, but MaxTRES of account lab is 2" FOR_EVER},
    {"MaxTRES of processors, of which whole nodes have more than is asked for", NULL, "",
     "std MaxTRES=cpu=200", "lab QOS=std", NULL, "",
     HELD "256 processors of whole nodes asked for, but MaxTRES of qos std is 200" FOR_EVER},
    {"MaxTRES of processors of shared nodes", NULL, "", "std MaxTRES=cpu=200", "lab QOS=std", NULL,
     "--exclusive=user", NULL},
    {"MaxTRES of memory", NULL, "", "std MaxTRES=mem=1000G", "lab QOS=std", NULL, "",
     HELD "2048000 MB of memory asked for, but MaxTRES of qos std is 1024000" FOR_EVER},
    {"MaxTRES of billing, by processors", NULL, "", "std MaxTRES=billing=255", "lab QOS=std", NULL,
     "",
     HELD "256 of billing (TRESBillingWeights) asked for, but MaxTRES of qos std is 255" FOR_EVER},
    {"MaxTRES of billing, by weights", NULL, "TRESBillingWeights=CPU=0.5,GRES/gpu=10",
     "std MaxTRES=billing=447", "lab QOS=std", NULL, "",
     HELD "448 of billing (TRESBillingWeights) asked for, but MaxTRES of qos std is 447" FOR_EVER},
    {"MaxTRES of billing that is the largest", "PriorityFlags=MAX_TRES",
     "TRESBillingWeights=CPU=0.5,GRES/gpu=10", "std MaxTRES=billing=320", "lab QOS=std", NULL, "",
     NULL},
    {"MaxTRES of licenses", NULL, "", "std MaxTRES=license/scratch=2", "lab QOS=std", NULL,
     "--licenses=scratch:3",
     HELD "3 license/scratch asked for, but MaxTRES of qos std is 2" FOR_EVER},
    {"MaxTRES of a qos, before that of the user", NULL, "", "std MaxTRES=node=8",
     "lab QOS=std MaxTRES=node=2", NULL, "", NULL},
    {"MaxTRES of another resource leaves that of the user", NULL, "", "std MaxTRES=cpu=800",
     "lab QOS=std MaxTRES=node=2", NULL, "",
     HELD "4 nodes asked for, but MaxTRES of account lab is 2" FOR_EVER},
    {"MaxTRES of the user, times LimitFactor", NULL, "", "std LimitFactor=2.000000",
     "lab QOS=std MaxTRES=node=2", NULL, "", NULL},
    {"MaxTRES in percent of the cluster", NULL, "", "std Flags=Relative MaxTRES=node=50",
     "lab QOS=std", NULL, "", HELD "4 nodes asked for, but MaxTRES of qos std is 2" FOR_EVER},
    {"MaxTRESPerNode of GPUs", NULL, "", "std MaxTRESPerNode=gres/gpu=4", "lab QOS=std", NULL, "",
     HELD "8 GPUs of a node asked for, but MaxTRESPerNode of qos std is 4" FOR_EVER},
    {"MaxTRESPerNode of the user", NULL, "", "std", "lab QOS=std MaxTRESPerNode=cpu=32", NULL, "",
     HELD "64 processors of a node of whole nodes asked for, but MaxTRESPerNode of account lab is "
          "32" FOR_EVER},
    {"MinTRES of nodes", NULL, "", "std MinTRES=node=8", "lab QOS=std", NULL, "",
     HELD "4 nodes asked for, but MinTRES of qos std is 8" FOR_EVER},
    {"MinTRES of what the job has not at all", NULL, "", "std MinTRES=license/scratch=1",
     "lab QOS=std", NULL, "",
     HELD "0 license/scratch asked for, but MinTRES of qos std is 1" FOR_EVER},
    {"MaxTRESPU of the partition's qos", NULL, "QoS=own", "own MaxTRESPU=gres/gpu=16\nstd",
     "lab QOS=std", NULL, "", HELD "32 GPUs asked for, but MaxTRESPU of qos own is 16" FOR_EVER},
    {"MaxTRESPA of the default qos", NULL, "", "std MaxTRESPA=gres/gpu:h100=8", "lab QOS=std", NULL,
     "", HELD "32 gres/gpu:h100 asked for, but MaxTRESPA of qos std is 8" FOR_EVER},
    {"MaxTRESMins", NULL, "", "std MaxTRESMins=gres/gpu=46079", "lab QOS=std", NULL, "",
     HELD "46080 GPUs times minutes asked for, but MaxTRESMins of qos std is 46079" FOR_EVER},
    {"MaxTRESMins that are enough", NULL, "", "std MaxTRESMins=gres/gpu=46080", "lab QOS=std", NULL,
     "", NULL},
    {"GrpTRES of an account two above", NULL, "", "std", "lab QOS=std",
     "root QOS=std\nuni QOS=std ParentName=root GrpTRES=gres/gpu=24\n"
     "dep QOS=std ParentName=uni GrpTRES=gres/gpu=48\nlab QOS=std ParentName=dep",
     "", HELD "32 GPUs asked for, but GrpTRES of account uni is 24" FOR_EVER},
    {"GrpTRES of the root", NULL, "", "std", "lab QOS=std",
     "root QOS=std GrpTRES=node=3\nlab QOS=std ParentName=root", "",
     HELD "4 nodes asked for, but GrpTRES of account root is 3" FOR_EVER},
    {"GrpTRES of an account, which that of a qos replaces", NULL, "", "std GrpTRES=gres/gpu=32",
     "lab QOS=std", "root QOS=std\nlab QOS=std ParentName=root GrpTRES=gres/gpu=8", "", NULL},
    {"GrpTRESMins without safe", "AccountingStorageEnforce=limits", "", "std GrpTRESMins=cpu=10",
     "lab QOS=std", NULL, "", NULL},
    {"GrpTRESMins with safe", "AccountingStorageEnforce=safe", "", "std GrpTRESMins=node=5759",
     "lab QOS=std", NULL, "",
     HELD "5760 nodes times minutes asked for, but GrpTRESMins of qos std is 5759" FOR_EVER},
    {"GrpTRESMins of none, without safe", "AccountingStorageEnforce=limits", "",
     "std GrpTRESMins=cpu=0", "lab QOS=std", NULL, "",
     HELD "368640 processors of whole nodes times minutes asked for, but GrpTRESMins of qos std is "
          "0" FOR_EVER},
    {"GrpTRESRunMins of an account, without safe", "AccountingStorageEnforce=limits", "", "std",
     "lab QOS=std", "root QOS=std\nlab QOS=std ParentName=root GrpTRESRunMins=gres/gpu=46079", "",
     HELD
     "46080 GPUs times minutes asked for, but GrpTRESRunMins of account lab is 46079" FOR_EVER},
    {"MaxTRESRunMinsPU, which no release before 24.05 holds jobs to", NULL, "",
     "std MaxTRESRunMinsPU=cpu=1", "lab QOS=std", NULL, "", NULL},
    {"MaxTRESRunMinsPU", "SLURM_VERSION=24.11.3", "", "std MaxTRESRunMinsPU=node=5759",
     "lab QOS=std", NULL, "",
     HELD "5760 nodes times minutes asked for, but MaxTRESRunMinsPU of qos std is 5759" FOR_EVER},
    /* numbers of jobs */
    {"MaxJobsPU of none", NULL, "", "std MaxJobsPU=0", "lab QOS=std", NULL, "",
     HELD "MaxJobsPU of qos std is 0" FOR_EVER},
    {"MaxJobs of the user, which MaxJobsPA of a qos replaces", NULL, "", "std MaxJobsPA=3",
     "lab QOS=std MaxJobs=0", NULL, "", NULL},
    {"GrpJobs of an account", NULL, "", "std", "lab QOS=std",
     "root QOS=std\nlab QOS=std ParentName=root GrpJobs=0", "",
     HELD "GrpJobs of account lab is 0" FOR_EVER},
    {"MaxSubmit of the tasks of an array", NULL, "", "std MaxSubmitPU=3", "lab QOS=std", NULL,
     "--array=0-7:2", HELD "MaxSubmitPU of qos std is 3: sbatch would refuse it"},
    {"MaxArraySize", "MaxArraySize=8", "", NULL, NULL, NULL, "--array=1-8%2",
     HELD "its array has index 8, but MaxArraySize of the site is 8: indices are smaller"},
    {"max_array_tasks", "SchedulerParameters=bf_continue,max_array_tasks=4", "", NULL, NULL, NULL,
     "--array=0,2-5", HELD "its array has 5 tasks, but max_array_tasks of the site is 4"},
    /* nodes and memory of the partition */
    {"MaxNodes", NULL, "MaxNodes=2", NULL, NULL, NULL, "",
     HELD "4 nodes asked for, but partition gpu gives a job at most 2"},
    {"MaxNodes, lifted", NULL, "MaxNodes=2", "std Flags=PartitionMaxNodes", "lab QOS=std", NULL, "",
     NULL},
    {"MinNodes", NULL, "MinNodes=5", NULL, NULL, NULL, "",
     HELD "4 nodes asked for, but partition gpu gives a job at least 5"},
    {"MinNodes, lifted", NULL, "MinNodes=5", "std Flags=PartitionMinNodes", "lab QOS=std", NULL, "",
     NULL},
    {"MaxMemPerNode less than all of a node's", NULL, "MaxMemPerNode=400000", NULL, NULL, NULL, "",
     HELD "512000 MB of memory of a node asked for, but MaxMemPerNode of partition gpu is 400000: "
          "set slurm.mem"},
    {"MaxMemPerNode and memory of processors", NULL, "MaxMemPerNode=100000", NULL, NULL, NULL,
     "--exclusive=user --mem-per-cpu=4000",
     HELD "128000 MB of memory of a node asked for, but MaxMemPerNode of partition gpu is 100000: "
          "set slurm.mem"},
    {"MaxMemPerNode of the site", "MaxMemPerNode=400000", "MaxMemPerNode=UNLIMITED", NULL, NULL,
     NULL, "--mem=450G",
     HELD "460800 MB of memory of a node asked for, but MaxMemPerNode of the site is 400000: set "
          "slurm.mem"},
    {"MaxMemPerCPU makes more processors of memory than a node has", NULL, "MaxMemPerCPU=2000",
     NULL, NULL, NULL, "--mem=250G",
     HELD "4 nodes with 128 processors asked for (by its memory and MaxMemPerCPU), but partition "
          "gpu has 0"},
    {"MaxMemPerCPU, kept", NULL, "MaxMemPerCPU=8000", NULL, NULL, NULL, "--mem=250G", NULL},
    {"MaxCPUsPerNode and whole nodes", NULL, "MaxCPUsPerNode=32", NULL, NULL, NULL, "",
     HELD "whole nodes asked for, but partition gpu gives a job 32 processors of a node: set "
          "slurm.exclusive to false"},
    {"GPUs of a type that no node has, by gres", NULL, "", NULL, NULL, NULL,
     "--gpus-per-node=0 --gres=gpu:a100:8",
     HELD "4 nodes with GPUs 'gpu:a100:8' asked for, but partition gpu has 0"},
    {"nodes that are excluded", NULL, "", NULL, NULL, NULL, "--exclude=n[2-3]",
     HELD "4 nodes asked for, but partition gpu has 2 that have all of it and are not excluded"},
    {"a feature that no node has", NULL, "", NULL, NULL, NULL, "--constraint=ib",
     HELD "4 nodes with feature 'ib' asked for, but partition gpu has 0"},
    {"numbers beyond all", NULL, "", NULL, NULL, NULL,
     "--exclusive=user --mem-per-cpu=9223372036854775807T",
     HELD "4 nodes with 9223372036854775807 MB of memory asked for, but partition gpu has 0"},
    {"an array beyond all", "MaxArraySize=8", "", NULL, NULL, NULL,
     "--array=0-9223372036854775807,1-9223372036854775807",
     HELD "its array has index 2147483647, but MaxArraySize of the site is 8: indices are smaller"},
    {"processors beyond all", NULL, "MaxMemPerCPU=1", "std MaxTRES=cpu=9223372036854775807",
     "lab QOS=std", NULL,
     "--mem-per-cpu=9223372036854775807T --cpus-per-task=2147483646 --ntasks-per-node=2147483646",
     HELD "4 nodes with 9223372036854775807 processors asked for (by its memory and MaxMemPerCPU), "
          "but partition gpu has 0"},
    /* who may use the partition */
    {"ReqResv", NULL, "ReqResv=YES", NULL, NULL, NULL, "",
     HELD "partition gpu takes only jobs of a reservation: set slurm.reservation; see 'scontrol "
          "show reservation'"},
    {"ReqResv, and a reservation", NULL, "ReqResv=YES", NULL, NULL, NULL, "--reservation=x", NULL},
    {"RequiresReservation of the default qos", NULL, "", "std Flags=RequiresReservation",
     "lab QOS=std", NULL, "", HELD "qos 'std' is for jobs of a reservation: set slurm.reservation"},
    {"AllowQos without the default qos", NULL, "AllowQos=high", "std\nhigh",
     "lab QOS=high,std DefaultQOS=std", NULL, "",
     HELD "qos 'std' may not use partition gpu: high may"},
    {"AllowAccounts without the default account", NULL, "AllowAccounts=physics", "std",
     "lab QOS=std", NULL, "", HELD "account 'lab' may not use partition gpu: physics may"},
    {"DenyQos beside AllowQos says nothing", NULL, "AllowQos=std DenyQos=std", "std", "lab QOS=std",
     NULL, "", NULL},
    {"qos of which one is short", NULL, "", "std\nshort MaxWall=01:00:00", "lab QOS=std,short",
     NULL, "--qos=short,std", NULL},
    {"qos of which all are short", NULL, "", "brief MaxWall=02:00:00\nshort MaxWall=01:00:00",
     "lab QOS=brief,short", NULL, "--qos=short,brief",
     HELD "its time limit is more than the 2.0 h of qos brief" FOR_EVER},
    {"an association for the partition alone", NULL, "", "std\nshort MaxWall=01:00:00",
     "lab QOS=std\nlab Partition=gpu QOS=short", NULL, "",
     HELD "its time limit is more than the 1.0 h of qos short" FOR_EVER},
};

/* The same where nodes n3 and n4 differ in some keys. */
static const struct {
    const char *keys;
    struct row row;
} mixed[] = {
    {"ThreadsPerCore=2",
     {"processors of cores of two threads", "SelectTypeParameters=CR_CORE_MEMORY", "",
      "std MaxTRES=cpu=21", "lab QOS=std", NULL,
      "--exclusive=user --nodes=2 --ntasks-per-node=7 --cpus-per-task=1 --mem=1G", NULL}},
    {"ThreadsPerCore=2",
     {"processors of cores of two threads, all nodes", "SelectTypeParameters=CR_CORE_MEMORY", "",
      "std MaxTRES=cpu=29", "lab QOS=std", NULL,
      "--exclusive=user --ntasks-per-node=7 --cpus-per-task=1 --mem=1G",
      HELD "30 processors asked for, but MaxTRES of qos std is 29" FOR_EVER}},
    {"CPUTot=128",
     {"whole nodes of which some have more", NULL, "", "std MaxTRES=cpu=255", "lab QOS=std", NULL,
      "--nodes=3",
      HELD "256 processors of whole nodes asked for, but MaxTRES of qos std is 255" FOR_EVER}},
    {"CPUTot=32",
     {"whole nodes that are enough, of which some have less", NULL, "", "std MaxTRES=cpu=128",
      "lab QOS=std", NULL, "--nodes=3", NULL}},
    {"RealMemory=1024000 Gres=gpu:a100:8",
     {"memory of some nodes and GPUs of others", NULL, "", NULL, NULL, NULL,
      "--nodes=2 --mem=600G --gpus-per-node=h100:8",
      HELD "2 nodes asked for, but partition gpu has 0 that have all of it"}},
};

/* ---- The stand-ins ---- */

static char folder[] = "/tmp/shardwright-limits.XXXXXX";

static void write_file(const char *name, const char *text, mode_t mode)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs(text, out);
    assert_int_equal(fclose(out), 0);
    chmod(path, mode);
}

static const char *const names[] = {"scontrol", "sacctmgr", "sbatch",   "config", "partition",
                                    "node",     "qos",      "accounts", "user",   "default"};

static int make_commands(void **state)
{
    (void)state;
    char *path = NULL;
    size_t bytes;
    if (mkdtemp(folder) == NULL)
        return -1;
    FILE *out = open_memstream(&path, &bytes);
    fprintf(out, "%s:%s", folder, getenv("PATH"));
    fclose(out);
    setenv("PATH", path, 1);
    unsetenv("SLURM_CONF");
    free(path);
    write_file("scontrol",
               "#!/bin/sh\ncd \"${0%/*}\"\ncase \"$*\" in\n*config) exec cat config;;\n"
               "*node*) exec cat node;;\n*partition*) exec cat partition;;\nesac\n",
               0755);
    write_file("sacctmgr",
               "#!/bin/sh\ncd \"${0%/*}\"\ncase \"$*\" in\n*\\ qos\\ *) exec cat qos;;\n"
               "*user=\\ *|*accounts=*) exec cat accounts;;\n*\\ assoc\\ *) exec cat user;;\n"
               "*\\ user\\ *) exec cat default;;\nesac\n",
               0755);
    write_file("sbatch",
               "#!/bin/sh\necho 'sbatch: Job 8 to start at 2026-01-01T00:00:00 using 4 processors "
               "on nodes n1 in partition gpu' >&2\n",
               0755);
    write_file("default", "lab\n", 0644);
    return 0;
}

static int remove_commands(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        (void)remove(path);
    }
    return rmdir(folder);
}

/* Value of a field of a record, "NAME FIELD=VALUE ..."; first: what the name's is called. */
static void write_field(FILE *out, const char *record, size_t length, const char *first,
                        const char *field)
{
    const size_t name = strcspn(record, " \n"), bytes = strlen(field);
    if (strcmp(field, first) == 0) {
        fprintf(out, "%.*s", (int)name, record);
        return;
    }
    for (size_t i = name; i + bytes < length; i++)
        if (record[i] == ' ' && strncmp(record + i + 1, field, bytes) == 0 &&
            record[i + 1 + bytes] == '=') {
            const char *value = record + i + bytes + 2;
            fprintf(out, "%.*s", (int)strcspn(value, " \n"), value);
            return;
        }
}

/* Records as `sacctmgr -nP` shows them in a format. */
static void write_records(const char *name, const char *records, const char *format,
                          const char *user)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    for (const char *r = records; *r != '\0'; r += strcspn(r, "\n"), r += *r != '\0') {
        for (const char *f = format; *f != '\0'; f += *f == ',') {
            char field[64];
            const size_t length = strcspn(f, ",");
            snprintf(field, sizeof field, "%.*s", (int)length, f);
            if (f != format)
                fputc('|', out);
            if (strcmp(field, "User") == 0)
                fputs(user, out);
            else
                write_field(out, r, strcspn(r, "\n"), *format == 'N' ? "Name" : "Account", field);
            f += length;
        }
        fputc('\n', out);
    }
    fclose(out);
    write_file(name, text, 0644);
    free(text);
}

static void write_site(const struct row *row, const char *other)
{
    char text[1024];
    const char *config = row->config != NULL ? row->config : "";
    const char *equals = strchr(config, '=');
    /* keys of the row come first, and of a key the first line counts */
    snprintf(text, sizeof text, "%.*s %s\nClusterName = standin\nSLURM_VERSION = 22.05.8\n",
             equals != NULL ? (int)(equals - config) : 0, config, equals != NULL ? equals : "");
    write_file("config", text, 0644);
    snprintf(text, sizeof text,
             "NodeName=n1 CPUTot=64 RealMemory=512000 Gres=gpu:h100:8 State=IDLE \n"
             "NodeName=n2 CPUTot=64 RealMemory=512000 Gres=gpu:h100:8 State=IDLE \n"
             "NodeName=n3 %s CPUTot=64 RealMemory=512000 Gres=gpu:h100:8 State=IDLE \n"
             "NodeName=n4 %s CPUTot=64 RealMemory=512000 Gres=gpu:h100:8 State=IDLE \n",
             other, other);
    write_file("node", text, 0644);
    snprintf(text, sizeof text,
             "PartitionName=gpu %s Default=YES State=UP Nodes=n[1-4] MaxTime=UNLIMITED "
             "DefaultTime=NONE MaxNodes=UNLIMITED MinNodes=0 MaxCPUsPerNode=UNLIMITED QoS=N/A "
             "AllowAccounts=ALL AllowQos=ALL AllowGroups=ALL ReqResv=NO OverSubscribe=NO\n",
             row->partition);
    write_file("partition", text, 0644);
    write_records("qos", row->qos != NULL ? row->qos : "normal", SW_SACCTMGR_QOS, "");
    write_records("user", row->user != NULL ? row->user : "lab QOS=normal", SW_SACCTMGR_ASSOC,
                  "me");
    write_records("accounts", row->accounts != NULL ? row->accounts : "root QOS=normal",
                  SW_SACCTMGR_ASSOC, "");
}

/* ---- The tests ---- */

/* True if plan says what the row wants. */
static bool says_right(const struct row *row, const char *other)
{
    struct sw_admission admission = {0};
    struct sw_error err = {0};
    char script[1024];
    write_site(row, other);
    snprintf(script, sizeof script, "%s#SBATCH %s\ntrue\n", base_job, row->job);
    const int status = sw_slurm_admit_script(script, &admission, &err);
    sw_budgets_free(&admission.budgets);
    const char *why = row->why != NULL ? row->why : "";
    if (status == 0 ? why[0] == '\0' : strcmp(err.message, why) == 0)
        return true;
    print_error("%s:\n  said   %s\n  wanted %s\n", row->what,
                status == 0 ? "it starts" : err.message, why[0] != '\0' ? why : "it starts");
    return false;
}

static void jobs_that_limits_hold_for_ever(void **state)
{
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        wrong += !says_right(&rows[i], "");
    for (size_t i = 0; i < sizeof mixed / sizeof *mixed; i++)
        wrong += !says_right(&mixed[i].row, mixed[i].keys);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(jobs_that_limits_hold_for_ever)};
    return cmocka_run_group_tests(tests, make_commands, remove_commands);
}
