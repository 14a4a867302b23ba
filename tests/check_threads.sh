#!/usr/bin/env bash
# Every file of ours that starts a thread did so in the tests labelled `threads`, which run under the thread sanitizer.
#
#   tests/check_threads.sh STARTS      what tests/support/thread_starts.c wrote while they ran
set -uo pipefail
starts=$(realpath "${1:?the file that thread_starts.c wrote}") || exit 2
cd "$(dirname "$0")/.." || exit 2
# Begun by several ranks alone: the sanitizer does not see how Open MPI synchronises. stalled_rank and life_of_a_run
# judge what these two do.
others='runner/rank/launch.c runner/collective/pulse.c'

began=$(sort -u "$starts" | while read -r module offset; do
    case $module in
        *libmicrohttpd*) echo "runner/serve/http.c" ;; # its daemon's thread
        *) addr2line -e "$module" "$offset" 2>/dev/null ;;
    esac
done)
bad=0
count=0
while IFS= read -r file; do
    case " $others " in *" $file "*) continue ;; esac
    count=$((count + 1))
    grep -qF "$file" <<<"$began" && continue
    echo "$file starts a thread, and no test with the label 'threads' made it do so" >&2
    bad=1
done < <(grep -rlE '\<(pthread_create|MHD_start_daemon)\(' core planner runner --include='*.c' | sort)
echo "check_threads: $count files that start threads"
[ "$count" -gt 0 ] && exit "$bad"
