#!/usr/bin/env bash
# The first lines of every script that plan writes: accelerator-hours of its own directives, the mesh, the memory and the
# checkpoints of plan's JSON, the commit of the run file, nothing of a clock, a user or a host; and how plan tells that
# what it wrote is not edited: in the same words everywhere.
#
#   tests/unit/test_script_head.sh PLAN SCRATCH      from the root of the tree
set -uo pipefail
plan=$(realpath "$1") && [ -x "$plan" ] || exit 2
# shellcheck source=tests/support/scratch.sh
. "$(dirname "$0")/../support/scratch.sh"
out=$(scratch_in "$2") || exit 2
bad=0
complain() {
    echo "FAIL: $*"
    bad=1
}
emit() { # RUN SETTING...: into $out/script, the lines on top into $head
    local setting=() one
    for one in "${@:2}"; do setting+=(--set "$one"); done
    rm -rf "$out/script"
    "$plan" emit "$1" -o "$out/script" --set directory="$out/run of it" "${setting[@]}" >"$out/said" 2>&1 ||
        complain "emit $*: $(cat "$out/said")"
    script=$(echo "$out"/script/*.s*)
    bash -n "$script" || complain "bash -n $script"
    head=$(sed -n '2,11p' "$script")
    [ "$(grep -c '^# [A-Z]' <<<"$head")" -eq 10 ] || complain "$*: not ten lines: $head"
}
says() { grep -qE -- "^# $1\$" <<<"$head" || complain "not said: '$1' in: $head"; }
of_json() { sed -nE "s/.*\"$1\":[[:space:]]*([0-9.e+-]+).*/\1/p" "$out/json" | head -n 1; }

# ---- Figures against the script's own directives, and plan's JSON
hours() { # as sbatch would read the directives
    awk -F = '/^#SBATCH --nodes/ { sub(/.*-/, "", $2); n = $2 } /^#SBATCH --ntasks-per-node/ { a = $2 }
        /^#SBATCH --time=/ { d = 0; t = $2; if (split(t, p, "-") == 2) { d = p[1]; t = p[2] }
            k = split(t, h, ":"); s = d * 86400 + (k == 3 ? h[1] * 3600 + h[2] * 60 + h[3] : h[1] * 60) }
        END { printf "%.6f\n", n * a * s / 3600 }' "$script"
}
for row in "llama-8b-64 24:00:00" "llama-8b-64 3-00:00:00" "llama-8b-64 90" "llama-70b-512 12:30:00" "quickstart-slurm 0:10:00"; do
    read -r name time <<<"$row"
    emit configs/runs/"$name".yaml slurm.time="'$time'"
    said=$(sed -nE 's/^# Asks for .* = ([0-9.,]+) accelerator-hours at most\.$/\1/p' <<<"$head" | tr -d ,)
    awk -v a="${said:-0}" -v b="$(hours)" 'BEGIN { d = a - b; exit !(a > 0 && d * d <= (0.03 * b) ^ 2) }' ||
        complain "$row: $said accelerator-hours, not $(hours)"
done
emit configs/runs/llama-8b-64.yaml slurm.time="'24:00:00'" checkpoint.every_steps=500
"$plan" explain configs/runs/llama-8b-64.yaml --json >"$out/json" 2>/dev/null
says 'Asks for     8 nodes x 8 accelerators x 24:00:00 = 1,536 accelerator-hours at most\.'
says 'Mesh         1,64,1,1 of dp,fsdp,tp,sp, ranks in the order dp,fsdp,sp,tp: the largest fsdp of .*'
says 'Checkpoints  every 500 steps \(1[0-9.]+ min\) and at the end: 96\.4 GB at 8\.0 GB/s \(assumed\); training pauses .*'
says 'At the limit [0-9]+ s before it the ranks save and end; the next submit resumes from there\.'
says 'A lost node  the job ends; the next submit resumes from the last checkpoint\.'
awk -v a="$(sed -nE 's/^# Memory +([0-9.]+) GB planned of ([0-9.]+) GB .*/\1/p' <<<"$head")" -v b="$(of_json total)" \
    'BEGIN { d = a * 1e9 - b; exit !(d * d < 1e18 && b > 0) }' || complain "memory is not $(of_json total): $head"
lead=$(sed -nE 's/^#SBATCH --signal=USR1@([0-9]+)$/\1/p' "$script")
says "At the limit $lead s before it .*"
says "Made from    llama-8b-64\.yaml.* by plan [0-9.]+.*; plan digest $(sed -nE "s/^digest: '([0-9a-f]+)'/\1/p" "$out"/script/*.plan.yaml)\."
says "To look      plan status '$out/run of it'; plan logs -f '$out/run of it'"
# what becomes of a run in each of its lives
emit configs/runs/llama-8b-64.yaml slurm.continue=requeue
says 'A lost node  Slurm requeues the job, which resumes from the last checkpoint, without that node\.'
emit configs/runs/llama-8b-64.yaml slurm.continue=chain checkpoint.every_steps=0
says 'A lost node  the next job of the chain resumes from the beginning, for no checkpoint is saved before the end.*'
emit configs/runs/llama-8b-64.yaml nodes=6-8 slurm.shrink_limit=true
says 'Asks for     6 to 8 nodes x 8 accelerators x .*'
says 'A lost node  the other nodes continue from the last checkpoint while 6 are left; .*'
says 'At the limit .*\. The job lowers its limit once its speed is known \(slurm\.shrink_limit\)\.'
grep -q -- '--shrink-limit yes' "$script" || complain "plan supervise is not told to lower the limit"
emit configs/runs/llama-8b-64.yaml slurm.signal=none
says 'At the limit no signal comes before it: .*'
emit configs/runs/quickstart-slurm.yaml job.type=generate job.input="$PWD/README.md" job.checkpoint="$out" serve.max_batch=2
says 'Does         generate with .*'
emit configs/runs/quickstart.yaml
says 'Asks for     1 node x 8 accelerators, with no time limit of its own\.'

# ---- Same input, same bytes; the run file's commit and no other's
cp -r configs "$out/configs" && git -C "$out" init -q . && git -C "$out" config user.email a@b && git -C "$out" config user.name someone
run=$out/configs/runs/quickstart-slurm.yaml
commit() { git -C "$out" add configs other && git -C "$out" commit -qm x; }
touch "$out/other"
emit "$run"
grep -q commit <<<"$(grep 'Made from' <<<"$head" | sed 's/ by plan.*//')" && complain "a commit of a file that was never committed: $head"
commit && first=$(git -C "$out" rev-parse --short=12 HEAD)
emit "$run"
says "Made from    quickstart-slurm\.yaml of commit $first by plan .*"
cp "$script" "$out/before"
echo >"$out/other" && commit
(cd "$out/configs" && GIT_DIR=/nowhere USER=somebody HOSTNAME=elsewhere TZ=Asia/Tokyo "$plan" emit runs/quickstart-slurm.yaml \
    -o "$out/script" --set directory="$out/run of it" >/dev/null 2>&1)
cmp -s "$script" "$out/before" || complain "another commit, folder, user or time zone gives other bytes: $(diff "$script" "$out/before")"
grep -qE "$(hostname)|$(date +%F)|$(date +%H:%M)" <<<"$head" && complain "a host or a clock: $head"
echo '# changed' >>"$run"
emit "$run"
says "Made from    quickstart-slurm\.yaml of commit $first, changed since, by plan .*"

# ---- Said once, in the same words
words='edit the run file and emit again'
sed -i 's/^  name: .*/  name: other/' "$out"/script/*.plan.yaml
"$plan" check "$out"/script/*.plan.yaml >"$out/refused" 2>&1
"$plan" emit --help | tr '\n' ' ' >"$out/help"
for file in templates/*.s* "$out"/script/*.s* "$out"/script/*.plan.yaml "$out/refused" "$out/help" docs/jobs.md docs/reference/plan.md docs/reference/plan-file.md; do
    [ "$(tr '\n' ' ' <"$file" | grep -o "$words" | wc -l)" -eq 1 ] || complain "$file does not say once: $words"
done
grep -rnE 'overwrites edits|do not edit|edit the script|not edited' templates docs planner core --include=*.md --include=*.c --include=*.h --include=*.s* &&
    complain "it is said in other words, too"
[ $bad -eq 0 ] && echo "the first lines of scripts are true"
exit $bad
