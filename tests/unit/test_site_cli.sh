#!/usr/bin/env bash
# A site's advice, SHARDWRIGHT_SITE: said by check and emit with its line, never an obstacle; files that are wrong.
#
#   tests/unit/test_site_cli.sh PLAN SCRATCH      from the root of the tree
set -uo pipefail
plan=$(realpath "$1") && [ -x "$plan" ] || exit 2
# shellcheck source=tests/support/scratch.sh
. "$(dirname "$0")/../support/scratch.sh"
scratch=$(scratch_in "$2") || exit 2
bad=0
export SHARDWRIGHT_SITE=$scratch/site.yaml
complain() {
    echo "FAIL: $*"
    bad=$((bad + 1))
}
# site LINES...: the file; says nothing of what the run itself has to say
site() { printf '%s\n' "$@" >"$SHARDWRIGHT_SITE"; }
# expect COMMAND LINE...: exit code 0, and these lines of the site's file, no others
expect() {
    local command=$1 wanted said
    shift
    wanted=$(printf '%s\n' "$@")
    # shellcheck disable=SC2086 # words
    "$plan" $command >"$scratch/stdout" 2>"$scratch/stderr" || complain "plan $command: exit code $?: $(cat "$scratch/stderr")"
    said=$(grep -F "$SHARDWRIGHT_SITE" "$scratch/stderr" | sed "s,^$SHARDWRIGHT_SITE,,")
    [ "$said" = "$wanted" ] || complain "plan $command: $(cat "$SHARDWRIGHT_SITE"): said '$said', not '$wanted'"
}
cp -r configs "$scratch/configs"
run=$scratch/configs/runs/llama-8b-64.yaml
sed -i 's/^nodes: 8/nodes: 8\nprice_per_accelerator_hour: 2.5/' "$scratch/configs/clusters/h100-8x8.yaml"
check="check $run --set optimizer.total_steps=2000"

# each kind of measure and word, both ways
site '# of the centre' \
    '- {warn_if: accelerator_hours > 70 GPU-hours, say: "hours: see https://hpc.example"}' \
    '- {warn_if: accelerator_hours > 7000 GPU-hours, say: no}' \
    '- {note_if: "nodes >= 8", say: nodes}' \
    "- note_if: 'partition == gpu'" \
    '  say: partition' \
    '- {note_if: partition == debug, say: no}' \
    '- {warn_if: time_limit > 1 h, say: limit}' \
    '- {warn_if: "end > 1 h", say: end}' \
    '- {warn_if: run_hours > 70, say: run}' \
    '- {warn_if: money > 100 USD, say: money}' \
    '- {warn_if: money > 100 EUR, say: no}' \
    '- {warn_if: energy > 100 MWh, say: no}' \
    '- {warn_if: token > 1 us, say: no}' \
    '- {warn_if: "mesh != 1,64,1,1", say: no}' \
    '- {warn_if: "memory > limit - headroom", say: no}'
advice=(':2:13: warning: hours: see https://hpc.example' ':4:14: note: nodes' ':5:13: note: partition' ':8:13: warning: limit'
    ':9:14: warning: end' ':10:13: warning: run' ':11:13: warning: money')
expect "$check" "${advice[@]}"
expect "emit $run --set optimizer.total_steps=2000 -o $scratch/out" "${advice[@]}"
# without a price and without steps nothing is said of money and ends
expect "check $scratch/configs/runs/llama-8b-64.yaml --set optimizer={}" ':4:14: note: nodes' ':5:13: note: partition' \
    ':8:13: warning: limit'
# for machines
"$plan" check "$run" --json >"$scratch/said" 2>/dev/null || complain "check --json: exit code $?"
python3 -c 'import json, sys
found = [m for f in json.load(open(sys.argv[1]))["files"] for m in f["messages"] if m["file"] == sys.argv[2]]
assert {"level": "note", "file": sys.argv[2], "line": 4, "column": 14, "message": "nodes", "help": None} in found, found' \
    "$scratch/said" "$SHARDWRIGHT_SITE" || complain "check --json"
"$plan" check "$run" --format github >"$scratch/said" 2>/dev/null
grep -qxF "::notice file=$SHARDWRIGHT_SITE,line=4,col=14::nodes" "$scratch/said" || complain "annotations: $(cat "$scratch/said")"
# characters that steer a terminal are shown
site $'- {warn_if: nodes > 1, say: "a\\e[31m\\tb"}'
expect "$check" ':1:13: warning: a?[31m?b'

# what is no advice: one line, and the command goes on
left='; the site'"'"'s advice is left out, tell the site'"'"'s staff'
site ''
expect "$check" ''
site '# nothing yet' '' '# or later'
expect "$check" ''
rm "$SHARDWRIGHT_SITE"
expect "$check" ": warning: cannot open '$SHARDWRIGHT_SITE': no such file; a path is relative to the working directory$left"
mkdir "$SHARDWRIGHT_SITE"
"$plan" check "$run" >/dev/null 2>"$scratch/stderr" || complain "a folder: exit code $?"
grep -qF "$SHARDWRIGHT_SITE: warning: cannot open" "$scratch/stderr" || complain "a folder: $(cat "$scratch/stderr")"
rmdir "$SHARDWRIGHT_SITE"
while IFS='|' read -r text message; do
    site "- {warn_if: nodes > 1, say: fine}" "$text"
    expect "$check" ":2:$message$left"
done <<'END'
nodes: 3|1: warning: not valid YAML: did not find expected '-' indicator, while parsing a block collection that starts in line 1; check the quotes, brackets and indentation before this place
- 3|3: warning: expected a condition and its sentence, not the number 3; write it as in - {warn_if: 'nodes > 64', say: 'ask us first'}
- {say: c}|3: warning: a sentence without a condition; write 'warn_if' or 'note_if', and 'say'
- {warn_if: nodes > 1}|3: warning: a condition without a sentence; write 'warn_if' or 'note_if', and 'say'
- {warn_if: nodes > 1, note_if: nodes > 1, say: c}|3: warning: two conditions for one sentence; write 'warn_if' or 'note_if', and 'say'
- {warnif: nodes > 1, say: c}|4: warning: unknown key 'warnif'; did you mean 'warn_if'?
END
# a condition that cannot be read leaves out its rule alone
while IFS='|' read -r text message; do
    site "- {warn_if: nodes > 1, say: before}" "$text" "- {note_if: nodes > 1, say: behind}"
    expect "$check" ":2:$message; this rule is left out, tell the site's staff" ':1:13: warning: before' ':3:13: note: behind'
done <<'END'
- {warn_if: nodes > old.nodes, say: c}|21: warning: there is no old plan here; write what the plan itself must not be, as in 'nodes > 64'
- {warn_if: nodez > 1, say: c}|13: warning: unknown name 'nodez'; did you mean 'nodes'?
- {warn_if: "recompute == fuul", say: c}|27: warning: no recompute; use none, partial, full
- {warn_if: rejected, say: c}|13: warning: a run that fits nowhere is refused anyway; use another condition
- {warn_if: communication_bytes > 1 GB, say: c}|13: warning: bytes of communication are not known here; use communication, which is a time
END
# empty: none is read
SHARDWRIGHT_SITE='' "$plan" check "$run" >/dev/null 2>"$scratch/stderr" || complain "no file: exit code $?"
grep -q 'advice' "$scratch/stderr" && complain "no file: $(cat "$scratch/stderr")"
"$plan" schema site | python3 -c 'import json, sys
assert set(json.load(sys.stdin)["items"]["properties"]) == {"warn_if", "note_if", "say"}' || complain "plan schema site"
[ $bad -eq 0 ] && echo "site: all as expected"
exit $((bad > 0))
