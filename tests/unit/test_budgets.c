/* Rest of accounts: lines of scontrol as 22.05 prints them, limits of sacctmgr, and what is
 * said of a job of four nodes. tests/cluster/test_budgets.sh holds the same against a controller.
 */
#include "planner/emit/budget.h"
#include "planner/scheduler/scheduler.h"
#include "planner/scheduler/slurm/budget.h"
#include "planner/search/run_cost.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* Lines of `scontrol -o show assoc_mgr flags=assoc,qos` of a site with accounts top > lab,
 * shortened to what comes before and behind the figures. */
static const char recorded[] =
    "Current Association Manager state\n"
    "Association Records\n"
    "ClusterName=c Account=root UserName= Partition= Priority=0 ID=1 "
    "SharesRaw/Norm/Level/Factor=1/0.00/1/0.00 ParentAccount= Lft=1 DefAssoc=No GrpJobs=N(1) "
    "GrpJobsAccrue=N(0) GrpSubmitJobs=N(1) GrpWall=N(99.00) GrpTRES=cpu=N(96) "
    "GrpTRESMins=cpu=N(5),mem=N(6),gres/gpu=N(7) GrpTRESRunMins=cpu=N(8) MaxJobs= MaxTRESPJ=\n"
    "ClusterName=c Account=top UserName= Partition= Priority=0 ID=3 ParentAccount=root(1) "
    "GrpWall=300(12.50) GrpTRES=cpu=N(0) "
    "GrpTRESMins=cpu=N(70),mem=N(0),node=N(3),gres/gpu=60000(6000),gres/gpu:h100=N(6000) "
    "GrpTRESRunMins=cpu=N(9600),mem=N(0),node=N(100),gres/gpu=N(800),gres/gpu:h100=N(800) "
    "MaxJobs= MaxWallPJ=\n"
    "ClusterName=c Account=lab UserName= Partition= Priority=0 ID=4 ParentAccount=top(3) "
    "GrpWall=N(0.00) GrpTRESMins=cpu=N(7),gres/gpu=N(5) GrpTRESRunMins=cpu=N(0),gres/gpu=N(0)\n"
    "ClusterName=c Account=lab UserName=me(1000) Partition= Priority=0 ID=5 ParentAccount= "
    "GrpWall=N(0.00) GrpTRESMins=cpu=N(2),gres/gpu=N(4) GrpTRESRunMins=cpu=N(0),gres/gpu=N(1)\n"
    "ClusterName=c Account=lab UserName=me2(1001) Partition= ID=6 GrpWall=N(0.00) "
    "GrpTRESMins=cpu=N(999),gres/gpu=N(999) GrpTRESRunMins=cpu=N(999),gres/gpu=N(999)\n"
    "QOS Records\n"
    "QOS=normal(1) UsageRaw=0.000000 GrpJobs=N(1) GrpWall=N(0.00) GrpTRESMins=cpu=N(0) "
    "GrpTRESRunMins=cpu=N(9600) MaxWallPJ= PreemptMode=OFF Account Limits=No Accounts\n"
    "QOS=long(2) UsageRaw=0.000000 GrpWall=77(0.00) GrpTRESMins=cpu=N(0),gres/gpu=99(98) "
    "GrpTRESRunMins=cpu=N(0),gres/gpu=N(0) MaxWallPJ=\n";

/* ---- Lines ---- */

static void read_site(struct sw_slurm_accounting *out, const char *qos, const char *user,
                      const char *accounts)
{
    struct sw_error err = {0};
    *out = (struct sw_slurm_accounting){.known = true, .default_account = "lab"};
    assert_int_equal(sw_slurm_accounting_read_qos(qos, out, &err), 0);
    assert_int_equal(sw_slurm_accounting_read_associations(user, false, out, &err), 0);
    assert_int_equal(sw_slurm_accounting_read_associations(accounts, true, out, &err), 0);
}

/* Account,Partition,QOS,MaxWall,MaxTRES,MaxTRESMins,GrpTRES,GrpTRESMins,DefaultQOS,User,ParentName,
 * MaxTRESPerNode,GrpTRESRunMins,GrpWall */
static const char user_line[] = "lab||long,normal|||||%s|normal|me|lab|||\n";
static const char account_lines[] = "root||normal|||||||||||\n"
                                    "top||normal|||||%s|||root|||%s\n"
                                    "lab||normal||||||||top||\n";

static void usage_is_that_of_the_users_own_associations(void **state)
{
    (void)state;
    struct sw_slurm_accounting site;
    struct sw_error err = {0};
    read_site(&site, "normal|\nlong|\n", "lab||long,normal||||||normal|me||\n",
              "root||normal|||||||||\ntop||normal||||||||root\nlab||normal||||||||top\n");
    assert_int_equal(sw_slurm_usage_read(recorded, "me", &site, &err), 0);
    const struct sw_slurm_limits *own = &sw_slurm_find_association(&site, "lab", "gpu")->limits,
                                 *top = &sw_slurm_find_account(&site, "top")->limits,
                                 *lab = &sw_slurm_find_account(&site, "lab")->limits,
                                 *root = &sw_slurm_find_account(&site, "root")->limits,
                                 *qos = &sw_slurm_find_qos(&site, "long")->limits;
    assert_string_equal(own->used, "cpu=2,gres/gpu=4");
    assert_string_equal(own->running, "cpu=0,gres/gpu=1");
    assert_string_equal(lab->used, "cpu=7,gres/gpu=5");
    assert_string_equal(top->used, "cpu=70,mem=0,node=3,gres/gpu=6000,gres/gpu:h100=6000");
    assert_true(top->used_wall == 12.5);
    assert_string_equal(root->used, "cpu=5,mem=6,gres/gpu=7");
    assert_string_equal(qos->used, "cpu=0,gres/gpu=98");
    assert_int_equal(sw_slurm_limit_of(top->used, "gres/gpu:h100"), 6000);
    sw_slurm_accounting_free(&site);
}

/* Cut anywhere, and with any byte changed: nothing is read beyond the end, and nothing is lost. */
static void lines_that_are_broken(void **state)
{
    (void)state;
    uint64_t seed = 7;
    for (int i = 0; i < 4000; i++) {
        char *text = strdup(recorded);
        struct sw_slurm_accounting site;
        struct sw_slurm_licenses licenses = {0};
        struct sw_error err = {0};
        read_site(&site, "normal|\nlong|\n", "lab||long\n", "root\ntop\nlab\n");
        for (int k = 0; k < 3; k++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            text[(seed >> 33) % (sizeof recorded - 1)] =
                (char)("=(),|N \n-9\0x"[(seed >> 20) % 12]);
        }
        assert_int_equal(sw_slurm_usage_read(text, "me", &site, &err), 0);
        assert_int_equal(sw_slurm_licenses_read(text, &licenses, &err), 0);
        sw_slurm_licenses_free(&licenses);
        sw_slurm_accounting_free(&site);
        free(text);
    }
}

static void licenses_of_the_site(void **state)
{
    (void)state;
    struct sw_slurm_licenses all = {0};
    struct sw_error err = {0};
    assert_int_equal(sw_slurm_licenses_read(
                         "LicenseName=scratch Total=100 Used=2 Free=90 Reserved=8 Remote=no\n"
                         "LicenseName=nastran@flex Total=5 Used=5 Free=0 Remote=yes LastUpdate=x\n"
                         "No licenses configured in Slurm.\n",
                         &all, &err),
                     0);
    assert_int_equal(all.count, 2);
    assert_int_equal(sw_slurm_licenses_find(&all, "scratch")->reserved, 8);
    assert_int_equal(sw_slurm_licenses_find(&all, "nastran@flex")->free, 0);
    assert_null(sw_slurm_licenses_find(&all, "nastran"));
    sw_slurm_licenses_free(&all);
}

/* ---- What is said ---- */

struct row {
    const char *what, *enforced, *qos;
    const char *of_user, *of_top, *wall; /* GrpTRESMins, GrpWall */
    double half_life_s;
    const char *job[4][2]; /* options beside or instead of the usual */
    const char *said[4];
};

#define HOUR "60"
static const struct row rows[] = {
    {"no limits", "limits", "normal|\nlong|\n", "", "", "", 0, {{0}}, {NULL}},
    {"enough, beside what runs",
     "limits",
     "normal|\nlong|\n",
     "",
     "gres/gpu=60000",
     "",
     0,
     {{0}},
     {"account top: 887 of 1,000 GPU-hours are left beside the 13.3 that running jobs may take "
      "(GrpTRESMins); the job may take 768"}},
    {"more than is left, without safe",
     "limits",
     "normal|\nlong|\n",
     "",
     "gres/gpu=12000",
     "",
     0,
     {{0}},
     {"account top: 86.7 of 200 GPU-hours are left beside the 13.3 that running jobs may take "
      "(GrpTRESMins); the job may take 768: it starts and is killed when they are used up, for "
      "AccountingStorageEnforce lacks 'safe'; with a time limit of 2:42:00 it has enough"}},
    {"more than is left, with safe",
     "safe",
     "normal|\nlong|\n",
     "",
     "gres/gpu=50000",
     "",
     604800,
     {{0}},
     {"account top: 720 of 833 GPU-hours are left beside the 13.3 that running jobs may take "
      "(GrpTRESMins); the job may take 768: it waits (AssocGrpGRESMinutes) until there are more; "
      "usage halves every 7.0 days; with a time limit of 22:30:00 it has enough"}},
    {"nothing left, without safe",
     "limits",
     "normal|\nlong|\n",
     "",
     "gres/gpu=6000",
     "",
     0,
     {{0}},
     {"account top: 0 of 100 GPU-hours are left beside the 13.3 that running jobs may take "
      "(GrpTRESMins); the job may take 768: it waits (AssocGrpGRESMinutes) until there are more; "
      "usage does not decay"}},
    {"a limit that nobody enforces",
     "none",
     "normal|\nlong|\n",
     "",
     "gres/gpu=6000",
     "",
     0,
     {{0}},
     {NULL}},
    {"the user's own and the account's",
     "limits",
     "normal|\nlong|\n",
     "gres/gpu=600000",
     "gres/gpu=600000",
     "",
     0,
     {{0}},
     {"your share of account lab: 10,000 of 10,000 GPU-hours are left beside the 0.02 that running "
      "jobs may take (GrpTRESMins); the job may take 768",
      "account top: 9,887 of 10,000 GPU-hours are left beside the 13.3 that running jobs may take "
      "(GrpTRESMins); the job may take 768"}},
    {"a qos in their place, which keeps its usage",
     "safe",
     "normal|\nlong|||||||gres/gpu=46000|NoDecay\n",
     "",
     "gres/gpu=6000",
     "",
     604800,
     {{"qos", "long"}},
     {"qos long: 765 of 767 GPU-hours are left (GrpTRESMins); the job may take 768: it waits "
      "(QOSGrpGRESMinutes) until there are more; usage does not decay (NoDecay); with a time limit "
      "of 23:54:00 it has enough"}},
    {"a qos that counts twice",
     "limits",
     "normal|\nlong|||||||gres/gpu=600000|||||||||||||||2.000000\n",
     "",
     "",
     "",
     0,
     {{"qos", "long"}},
     {"qos long: 9,998 of 10,000 GPU-hours are left (GrpTRESMins); the job may take 1,536"}},
    {"GrpWall",
     "limits",
     "normal|\nlong|\n",
     "",
     "",
     "05:00:00",
     0,
     {{0}},
     {"account top: 4.8 of 5 hours of jobs are left (GrpWall); the job may take 24: it starts and "
      "is killed when they are used up, for AccountingStorageEnforce lacks 'safe'; with a time "
      "limit of 4:47:00 it has enough"}},
    {"no time limit",
     "limits",
     "normal|\nlong|\n",
     "",
     "gres/gpu=600000",
     "",
     0,
     {{"time", "UNLIMITED"}},
     {"account top: 9,887 of 10,000 GPU-hours are left beside the 13.3 that running jobs may take "
      "(GrpTRESMins); the job may take any number: it starts and is killed when they are used up, "
      "for AccountingStorageEnforce lacks 'safe'"}},
    {"tasks of an array",
     "limits",
     "normal|\nlong|\n",
     "",
     "gres/gpu=600000",
     "",
     0,
     {{"array", "0-3"}, {"time", HOUR}},
     {"account top: 9,887 of 10,000 GPU-hours are left beside the 13.3 that running jobs may take "
      "(GrpTRESMins); the job may take 128"}},
    {"usage that is not told",
     "limits",
     "normal|\nlong|\n",
     "",
     "mem=600000,billing=6000000",
     "",
     0,
     {{0}},
     {"account top: 9.8 of 9.8 GiB-hours of memory are left (GrpTRESMins); the job may take "
      "48,000: "
      "it starts and is killed when they are used up, for AccountingStorageEnforce lacks 'safe'",
      "account top: at most 100,000 billing-hours (GrpTRESMins), and the controller does not tell "
      "what is used; the job may take 6,144"}},
    {"licenses",
     "none",
     "normal|\nlong|\n",
     "",
     "",
     "",
     0,
     {{"licenses", "scratch:4,nastran@flex,scratch2:1;big:200"}},
     {"licenses scratch: 90 of 100 are free, 8 are reserved; the job takes 4",
      "licenses nastran@flex: 0 of 5 are free; the job takes 1: it waits (Licenses) until they are "
      "free",
      "there is no license 'scratch2': sbatch refuses the job; see 'scontrol show licenses'",
      "licenses big: 100 of 100 are free; the job takes 200: sbatch refuses it"}},
    {"either license",
     "none",
     "normal|\nlong|\n",
     "",
     "",
     "",
     0,
     {{"licenses", "scratch|big"}},
     {NULL}},
    {"a partition that there is not",
     "limits",
     "normal|\nlong|\n",
     "",
     "gres/gpu=1",
     "",
     0,
     {{"partition", "none"}},
     {NULL}},
};

static void make_facts(struct sw_slurm_facts *facts, struct sw_slurm_nodes *nodes,
                       struct sw_slurm_partition *p)
{
    static char name[] = "gpu", gres[] = "gpu:h100:8";
    struct sw_error err = {0};
    *nodes = (struct sw_slurm_nodes){.cpus = 64, .memory_mb = 512000, .gres = gres, .usable = true};
    *p = (struct sw_slurm_partition){
        .name = name, .is_default = true, .up = true, .max_time = INFINITY};
    assert_int_equal(sw_hosts_expand("n[1-4]", &nodes->hosts, &err), 0);
    assert_int_equal(sw_hosts_expand("n[1-4]", &p->hosts, &err), 0);
    *facts = (struct sw_slurm_facts){
        .nodes = nodes, .nodes_count = 1, .partition = p, .partition_count = 1};
}

/* True if plan says what the row wants. */
static bool says_right(const struct row *row, struct sw_slurm_facts *facts,
                       const struct sw_slurm_licenses *licenses)
{
    static const char *const usual[][2] = {
        {"nodes", "4"}, {"ntasks-per-node", "8"},    {"cpus-per-task", "4"}, {"exclusive", ""},
        {"mem", "0"},   {"gpus-per-node", "h100:8"}, {"time", "24:00:00"}};
    char user[256], accounts[512];
    struct sw_slurm_accounting site;
    struct sw_job_request request = {0};
    struct sw_budgets said = {0};
    struct sw_error err = {0};
    snprintf(user, sizeof user, user_line, row->of_user);
    snprintf(accounts, sizeof accounts, account_lines, row->of_top, row->wall);
    read_site(&site, row->qos, user, accounts);
    sw_slurm_accounting_enforce(row->enforced, &site);
    assert_int_equal(sw_slurm_usage_read(recorded, "me", &site, &err), 0);
    facts->site.half_life_s = row->half_life_s;
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++)
        assert_int_equal(sw_job_request_add(&request, usual[i][0], usual[i][1], &err), 0);
    for (int i = 0; i < 4 && row->job[i][0] != NULL; i++)
        assert_int_equal(sw_job_request_add(&request, row->job[i][0], row->job[i][1], &err), 0);
    assert_int_equal(sw_slurm_budgets_find(&request, facts, &site, licenses, &said, &err), 0);
    bool right = true;
    for (int i = 0; i < 4 || i < said.count; i++) {
        const char *wanted = i < 4 && row->said[i] != NULL ? row->said[i] : "nothing";
        const char *got = i < said.count ? said.of[i].message : "nothing";
        if (strcmp(wanted, got) == 0)
            continue;
        print_error("%s:\n  said   %s\n  wanted %s\n", row->what, got, wanted);
        right = false;
    }
    sw_budgets_free(&said);
    sw_job_request_free(&request);
    sw_slurm_accounting_free(&site);
    return right;
}

static void what_is_left_to_a_job(void **state)
{
    (void)state;
    struct sw_slurm_facts facts;
    struct sw_slurm_nodes nodes;
    struct sw_slurm_partition partition;
    struct sw_slurm_licenses licenses = {.known = true};
    struct sw_error err = {0};
    int wrong = 0;
    make_facts(&facts, &nodes, &partition);
    assert_int_equal(
        sw_slurm_licenses_read("LicenseName=scratch Total=100 Used=2 Free=90 Reserved=8 Remote=no\n"
                               "LicenseName=nastran@flex Total=5 Used=5 Free=0 Remote=yes\n"
                               "LicenseName=big Total=100 Used=0 Free=100 Reserved=0 Remote=no\n",
                               &licenses, &err),
        0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        wrong += !says_right(&rows[i], &facts, &licenses);
    assert_int_equal(wrong, 0);
    sw_slurm_licenses_free(&licenses);
    sw_hosts_free(&nodes.hosts);
    sw_hosts_free(&partition.hosts);
}

/* The whole run beside what is left: jobs of an hour, of which 10, and then as many as it takes,
 * are left. */
static void jobs_of_a_whole_run(void **state)
{
    (void)state;
    struct sw_error err = {0};
    struct sw_search search = {0};
    struct sw_run_cost cost;
    struct sw_config *config = sw_config_read("configs/runs/llama-8b-64.yaml", SW_CONFIG_RUN,
                                              &sw_launchers, NULL, 0, &err);
    assert_non_null(config);
    const struct sw_run_config *run = sw_config_run(config);
    assert_int_equal(sw_search_choose(run, SW_FOR_TRAIN, 1, &search, &err), 0);
    assert_int_equal(sw_search_price_run(run, &search.mesh[0], NULL, &cost, &err), 0);
    const double asked = 3840, jobs = cost.time.held_s / 3600;
    struct sw_budget of[] = {{.most = 10 * asked, .asked = asked, .message = "few"},
                             {.most = (jobs + 1) * asked, .asked = asked, .message = "enough"},
                             {.most = 1, .asked = 1, .is_license = true, .message = "license"}};
    struct sw_budgets budgets = {.of = of, .count = 3};
    char wanted[128];
    assert_int_equal(sw_budgets_say_run(run, &search.mesh[0], 3600, &budgets, 0, &err), 0);
    snprintf(wanted, sizeof wanted,
             "few; the whole run takes as much as %.3g such jobs, 10 are left", jobs);
    assert_string_equal(of[0].message, wanted);
    assert_string_equal(of[1].message, "enough");
    assert_string_equal(of[2].message, "license");
    /* a job without a limit, and budgets that are told already */
    assert_int_equal(sw_budgets_say_run(run, &search.mesh[0], INFINITY, &budgets, 0, &err), 0);
    assert_int_equal(sw_budgets_say_run(run, &search.mesh[0], 3600, &budgets, 3, &err), 0);
    assert_string_equal(of[0].message, wanted);
    sw_search_free(&search);
    sw_config_free(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(usage_is_that_of_the_users_own_associations),
        cmocka_unit_test(lines_that_are_broken),
        cmocka_unit_test(licenses_of_the_site),
        cmocka_unit_test(what_is_left_to_a_job),
        cmocka_unit_test(jobs_of_a_whole_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
