#!/usr/bin/env bash
# The jobs of examples/review, with stand-ins for what a forge has: an unchanged tree passes, a slower plan fails and is
# commented, and the comment follows every push. The hooks, in a repository of their own.
#
#   tests/unit/test_review.sh PLAN SCRATCH      from the root of the tree
set -uo pipefail
plan=$(realpath "$1") && [ -x "$plan" ] || exit 2
# shellcheck source=tests/support/scratch.sh
. "$(dirname "$0")/../support/scratch.sh"
scratch=$(scratch_in "$2") || exit 2
root=$PWD
bad=0
complain() {
    echo "FAIL: $*"
    bad=$((bad + 1))
}

# Stand-ins. A forge's comment, when there is one, lies in the file $COMMENT.
mkdir "$scratch/bin"
cat >"$scratch/bin/gh" <<'END'
#!/usr/bin/env bash
[ -n "$GH_TOKEN" ] && [ "$GH_REPO" = an/example ] || exit 9
case "$*" in
    "api repos/an/example/issues/7/comments --paginate --jq "*"startswith(\"<!-- shardwright plan diff -->\")"*)
        if grep -qs '^<!-- shardwright plan diff -->' "$COMMENT"; then echo 42; fi ;;
    "api --method PATCH repos/an/example/issues/comments/42 --field body=@comment.md") cp comment.md "$COMMENT" ;;
    "pr comment 7 --body-file comment.md") [ ! -e "$COMMENT" ] && cp comment.md "$COMMENT" ;;
    *) echo "gh: $*" >&2; exit 9 ;;
esac
END
cat >"$scratch/bin/curl" <<'END'
#!/usr/bin/env bash
while [[ $1 == --fail || $1 == --silent || $1 == --show-error ]]; do shift; done
notes=https://forge.example/api/v4/projects/5/merge_requests/7/notes
case "$*" in
    "--header PRIVATE-TOKEN: secret $notes?per_page=100&sort=asc")
        python3 -c 'import json, os, sys
there = [{"id": 3, "body": "hello"}]
if os.path.exists(sys.argv[1]):
    there.append({"id": 42, "body": open(sys.argv[1]).read()})
print(json.dumps(there))' "$COMMENT" ;;
    "--header PRIVATE-TOKEN: secret --request PUT --data-urlencode body@plan-diff.md $notes/42") cp plan-diff.md "$COMMENT" ;;
    "--header PRIVATE-TOKEN: secret --request POST --data-urlencode body@plan-diff.md $notes")
        [ ! -e "$COMMENT" ] && cp plan-diff.md "$COMMENT" ;;
    *) echo "curl: $*" >&2; exit 9 ;;
esac
END
for name in apt-get cmake ninja; do printf '#!/bin/sh\n' >"$scratch/bin/$name"; done
if ! command -v jq >/dev/null; then
    cat >"$scratch/bin/jq" <<'END'
#!/usr/bin/env python3
import json, sys
found = [note["id"] for note in json.load(sys.stdin) if note["body"].startswith(sys.argv[sys.argv.index("mark") + 1])]
print(found[0] if found else "")
END
fi
chmod +x "$scratch"/bin/*

configs() { # FOLDER: a tree as the pull request has it
    rm -rf "$1/configs"
    mkdir -p "$1"
    cp -r "$root/configs" "$1"
}
# Changes, to the tree in $1.
slower() { sed -i 's/^micro_batch_size:.*//; $a recompute: full' "$1/configs/runs/llama-8b-64.yaml"; }
larger() { sed -i 's/^global_batch_size:.*/global_batch_size: 256/' "$1/configs/runs/llama-8b-64.yaml"; }
learns() { sed -i 's/learning_rate: [^,}]*/learning_rate: 1.0e-5/' "$1/configs/runs/llama-70b-512.yaml"; }
broken() { sed -i 's/^hidden_size/hiden_size/' "$1/configs/models/llama-8b.yaml"; }
unfit() { sed -i 's/^sequence_length:.*/sequence_length: 1048576/; s/^mesh_dim:.*/mesh_dim: 1,64,1,1/' "$1/configs/runs/llama-8b-64.yaml"; }
same() { :; }

# push FORGE CHANGE: the job's exit code is in $code, the forge's comment in $COMMENT.
export COMMENT="$scratch/comment" GITHUB_STEP_SUMMARY="$scratch/summary" GITHUB_OUTPUT="$scratch/output"
github() {
    local step status=0 failed=0
    rm -rf "$scratch/github"
    mkdir -p "$scratch/github/build"
    cp "$plan" "$scratch/github/build/plan"
    configs "$scratch/github/old"
    "${2:-same}" "$scratch/github/old"
    configs "$scratch/github/new"
    "${2:-same}" "$scratch/github/new"
    "$1" "$scratch/github/new"
    : >"$GITHUB_OUTPUT"
    for step in Check Diff Comment Verdict; do
        python3 "$root/tests/support/review_steps.py" "$root/examples/review/github-workflow.yaml" $step >"$scratch/$step.sh"
        [ -s "$scratch/$step.sh" ] || complain "no step $step"
        # after a failure only the comment is written, as its `if` says
        if [ $failed -ne 0 ] && [ $step != Comment ]; then continue; fi
        status=0
        (
            cd "$scratch/github" || exit 9
            if [ $step = Check ]; then cd new || exit 9; fi
            PATH="$scratch/bin:$PATH" GH_TOKEN=x GH_REPO=an/example NUMBER=7 \
                STATUS=$(sed -n 's/^status=//p' "$GITHUB_OUTPUT") bash -e "$scratch/$step.sh"
        ) >>"$scratch/log" 2>&1 || status=$?
        [ $status -eq 0 ] || failed=$status
    done
    code=$failed
}
gitlab() {
    rm -rf "$scratch/gitlab"
    mkdir -p "$scratch/gitlab/build"
    cp "$plan" "$scratch/gitlab/build/plan"
    configs "$scratch/gitlab/before"
    "${2:-same}" "$scratch/gitlab/before"
    configs "$scratch/gitlab"
    "${2:-same}" "$scratch/gitlab"
    "$1" "$scratch/gitlab"
    python3 "$root/tests/support/review_steps.py" "$root/examples/review/gitlab-job.yaml" >"$scratch/gitlab.sh"
    [ "$(wc -l <"$scratch/gitlab.sh")" -gt 20 ] || complain "no script in the job of GitLab"
    code=0
    (
        cd "$scratch/gitlab" || exit 9
        printf '#!/bin/sh\nmv before old\n' >"$scratch/bin/git"
        chmod +x "$scratch/bin/git"
        PATH="$scratch/bin:$PATH" PLAN_TOKEN=$token CI_API_V4_URL=https://forge.example/api/v4 CI_PROJECT_ID=5 \
            CI_MERGE_REQUEST_IID=7 CI_MERGE_REQUEST_DIFF_BASE_SHA=0 bash -eo pipefail "$scratch/gitlab.sh"
    ) >>"$scratch/log" 2>&1 || code=$?
    rm "$scratch/bin/git"
}
# after FORGE CODE WANTED-LINE CHANGE [OLD-CHANGE]: '' means that there is no comment.
after() {
    local forge=$1 wanted_code=$2 wanted=$3
    shift 3
    : >"$scratch/log"
    $forge "$@"
    [ "$code" -eq "$wanted_code" ] || complain "$forge $*: exit $code, not $wanted_code: $(cat "$scratch/log")"
    if [ -z "$wanted" ]; then
        [ ! -e "$COMMENT" ] || complain "$forge $*: a comment: $(cat "$COMMENT")"
    else
        grep -qE -- "$wanted" "$COMMENT" || complain "$forge $*: no '$wanted' in: $(head -c 2000 "$COMMENT")"
        [ "$(grep -c '^<!-- shardwright plan diff -->$' "$COMMENT")" -eq 1 ] || complain "$forge $*: not one comment"
    fi
}
token=secret
for forge in github gitlab; do
    rm -f "$COMMENT"
    after $forge 0 '' same
    after $forge 0 '' same unfit # what did not fit before is nobody's mistake
    after $forge 2 '' broken
    after $forge 1 '\*\*failed\*\* <code>slower</code>' slower
    # the next push
    after $forge 0 '^\*\*Plan:\*\* no plan changes.$' same
    after $forge 0 '^\| <code>runs/llama-8b-64.yaml</code> .* \| fits, \*\*2 x accelerator-hours\*\* \|$' larger
    after $forge 0 'Conditions not judged: the plan is the same' learns slower
    after $forge 2 '^\*\*Plan:\*\* not compared; the job says why.$' broken
    after $forge 1 '\| does not fit \| .*\*\*failed\*\* <code>slower</code>, <code>room</code>, <code>rejected</code> \|$' unfit
done
token=
rm -f "$COMMENT"
after gitlab 1 '' slower
grep -q 'failed.*slower' "$scratch/gitlab/plan-diff.md" || complain "GitLab without a token: no report"

# The shipped runs pass their own conditions, the ones that did not change, too.
conditions=()
while read -r line; do conditions+=(--fail-if "$line"); done < <(grep -oE -- "--fail-if ('[^']*'|[a-z]+)" examples/review/github-workflow.yaml |
    sed -E "s/--fail-if '?([^']*)'?/\1/")
[ ${#conditions[@]} -eq 6 ] || complain "the conditions of the job: ${conditions[*]}"
"$plan" diff configs configs --fail-all "${conditions[@]}" || complain "the shipped runs fail the shipped job"

# The hooks, in a repository.
git() { command git -c user.name=a -c user.email=a@example.com -c init.defaultBranch=main "$@"; }
mkdir "$scratch/repository"
cd "$scratch/repository" || exit 2
unset GIT_DIR GIT_INDEX_FILE GIT_WORK_TREE
git init -q . && cp -r "$root/configs" . && git add . && git commit -qm first
hook() { # CODE
    PLAN=$plan "$root/examples/review/pre-commit" >"$scratch/hook" 2>&1
    local status=$?
    [ $status -eq "$1" ] || complain "pre-commit: exit $status, not $1: $(cat "$scratch/hook")"
}
hook 0
[ ! -s "$scratch/hook" ] || complain "pre-commit: nothing is staged, but it says $(cat "$scratch/hook")"
slower .
git add .
hook 0
grep -qE '^runs/llama-8b-64.yaml: [0-9,]+ -> [0-9,]+ tokens/s \(-' "$scratch/hook" || complain "pre-commit: $(cat "$scratch/hook")"
unfit .
git add .
hook 1
git commit -qm second && learns . && git add .
hook 0
broken .
hook 0 # not staged
git add .
hook 2
# As pre-commit calls them: the tool on the PATH, the files as arguments.
git reset -q --hard
mkdir "$scratch/tool" && ln -s "$plan" "$scratch/tool/plan"
entries=$(sed -n 's/^  entry: //p' "$root/.pre-commit-hooks.yaml")
[ "$(wc -l <<<"$entries")" -eq 2 ] || complain ".pre-commit-hooks.yaml: $entries"
for entry in $entries; do
    [ -x "$root/$entry" ] || complain ".pre-commit-hooks.yaml: no $entry"
    (unset PLAN && PATH="$scratch/tool:$PATH" "$root/$entry" configs/models/llama-8b.yaml) >"$scratch/hook" 2>&1 ||
        complain "$entry: $(cat "$scratch/hook")"
done
[ "$bad" -eq 0 ] || exit 1
echo "review: all as expected"
