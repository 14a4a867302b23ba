#!/usr/bin/env bash
# Leaf switches on a real Slurm cluster of four nodes: what import-cluster reads of them, that a job gets the leaf that it
# asks for, and that ranks land leaf by leaf where names do not say so, with srun and with mpirun.
#
#   tests/cluster/test_topology.sh [BUILD-FOLDER]       exit code 77: this machine cannot (said why)
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
build=$(cd "${1:-build}" && pwd) || exit 2
name=quickstart-slurm
out=$build/slurm-topology
job=

fail() {
    echo "FAIL: $*"
    [ -n "$job" ] && scontrol show job "$job" 2>/dev/null | head -n 30
    find "$out" -type f \( -name 'slurm-*.out' -o -name 'launcher-*.log' -o -name '*.ranks' \) -exec tail -n 40 {} +
    exit 1
}

# Neighbours in name lie under different switches.
line=$(SW_CLUSTER_LEAVES='n[1,3] n[2,4]' bash tests/cluster/slurm_cluster.sh up test)
status=$?
if [ $status -ne 0 ]; then
    echo "$line"
    exit $status
fi
trap 'bash tests/cluster/slurm_cluster.sh down test' EXIT
trap 'exit 3' INT TERM
export SLURM_CONF=${line#SLURM_CONF=}
while IFS= read -r variable; do
    unset "$variable"
done < <(compgen -e | grep -E '^(SBATCH|SLURM|PMI|PMIX|OMPI)_' | grep -vx SLURM_CONF)
bash examples/make_text.sh || fail "no text to learn"
rm -rf "$out"
mkdir -p "$out/runs"

"$build/plan" import-cluster >"$out/imported.yaml" 2>/dev/null || fail "plan import-cluster failed"
for part in '  topology: tree' '  leaf_nodes: 2' '  max_switch_wait: 300 s' 'name: leaf, spans: 4,'; do
    grep -qF -- "$part" "$out/imported.yaml" || fail "no '$part' in $(cat "$out/imported.yaml")"
done

# The playground with what was read, and a spine that is slower than its leaves.
{
    sed -E '/^slurm:|^launcher:|name: bridge/d; s|\.\./accelerators|'"$PWD"'/configs/accelerators|' configs/clusters/playground.yaml
    echo '  - {name: leaf, spans: 4, bandwidth: 150 MB/s, latency: 50 us}'
    echo '  - {name: spine, spans: all, bandwidth: 150 MB/s, latency: 50 us, oversubscription: 8}'
    echo 'launcher: slurm'
    echo "slurm: {partition: play, time: '0:30:00', cpus_per_task: 1, topology: tree, leaf_nodes: 2, max_switch_wait: 60 s}"
} >"$out/cluster.yaml"
sed -E "s|\.\./clusters/playground.yaml|$out/cluster.yaml|; s|\.\./models|$PWD/configs/models|; s|\.\./\.\./|$PWD/|; /^directory:/d" \
    configs/runs/$name.yaml >"$out/run.yaml"
# Writes down where each rank is, and becomes the runner.
cat >"$out/runner" <<END
#!/bin/sh
if [ "\$1" = train ]; then
    echo "\${OMPI_COMM_WORLD_RANK:-\$SLURM_PROCID} \$(hostname)" >>"\$RANKS"
fi
exec "$build/runner" "\$@"
END
chmod +x "$out/runner"

train() { # NAME SETTING...: emits, submits, and waits for the end
    local run=$out/runs/$1
    shift
    mkdir -p "$run"
    "$build/plan" emit "$out/run.yaml" -o "$run" --set directory="$run" --set optimizer.total_steps=6 \
        --set optimizer.warmup_steps=2 --set slurm.environment.SHARDWRIGHT_RUNNER="$out/runner" \
        --set slurm.environment.RANKS="$run/all.ranks" "$@" >"$run/said" 2>&1 || fail "plan emit: $(cat "$run/said")"
    job=$(sbatch --parsable "$run/$name.sbatch") || fail "sbatch refused the script"
    for ((i = 0; i < 300; i++)); do
        description=$(scontrol show job "$job")
        state=$(sed -nE 's/.*JobState=([A-Z_]+).*/\1/p' <<<"$description")
        case $state in PENDING | CONFIGURING | RUNNING | COMPLETING) sleep 0.5 ;; *) break ;; esac
    done
    [ "$state" = COMPLETED ] || fail "job $job is $state, not COMPLETED"
    [ ! -e "$run/ranks-$job.hosts" ] || fail "the file of hosts stays"
}

losses() { sed -nE 's/.*"step": *([0-9]+),.*"loss": *([0-9.e+-]+).*/\1 \2/p' "$out/runs/$1/metrics.jsonl"; }

# Four nodes: leaf by leaf, whatever starts the ranks.
for mpi in pmix mpirun; do
    train "four-$mpi" --set slurm.mpi=$mpi
    where=$(sort -n "$out/runs/four-$mpi/all.ranks" | cut -d ' ' -f 2 | paste -sd ' ')
    [ "$where" = "n1 n1 n3 n3 n2 n2 n4 n4" ] || fail "ranks of $mpi are on $where"
    grep -q 'ranks are started leaf switch by leaf switch: n1,n3,n2,n4' "$out/runs/four-$mpi/slurm-$job.out" ||
        fail "the log does not say the order"
done
[ "$(losses four-pmix)" = "$(losses four-mpirun)" ] || fail "other losses with mpirun"

# Two nodes: one leaf, which the job waits for.
train two --set nodes=2 --set mesh_dim='!1,1,2,2' --set optimizer.total_steps=6
grep -qE '^#SBATCH --switches=1@0:' "$out/runs/two/$name.sbatch" || fail "no --switches: $(cat "$out/runs/two/said")"
grep -qE '^# --switches=1@0:.* a step takes .* there, .* where the job starts anywhere' "$out/runs/two/$name.sbatch" ||
    fail "the script does not say why"
grep -q 'Switches=1@00:' <<<"$description" || fail "Slurm was not asked for one switch"
case $(sed -nE 's/^ *NodeList=(.*)/\1/p' <<<"$description") in
'n[1,3]' | 'n[2,4]') ;;
*) fail "the job's nodes are under two switches" ;;
esac
# Where the nodes are, by the preflight: as priced; and two that no leaf has together, after the wait for it.
train tried --set slurm.preflight=quick
grep -q 'preflight: nodes are where the price has them: 4 in 2 blocks or under as many leaf switches' "$out/runs/tried/slurm-$job.out" ||
    fail "the preflight does not say that nodes are as priced"
train apart --set nodes=2 --set mesh_dim='!1,1,2,2' --set slurm.nodelist='n[1-2]' --set slurm.preflight=quick
grep -qE 'preflight: note: the price assumes groups of 2 neighbouring nodes .* here groups of 1 are, in 2 blocks or switches: a step takes 1\.32 s, 0\.341 s as priced' \
    "$out/runs/apart/slurm-$job.out" || fail "the preflight does not say that nodes are under two leaves"
grep 'preflight: note: the price' "$out/runs/apart/slurm-$job.out"
echo "job $job: one leaf switch; eight ranks leaf by leaf with srun and mpirun"
