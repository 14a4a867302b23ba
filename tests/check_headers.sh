#!/usr/bin/env bash
# Every public header compiles alone, strictly. A header that is about an optional package (CUDA, NCCL, Open MPI,
# libmicrohttpd, libslurm) is left out, by name, where that package's own headers are missing.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2

compile_alone() { # HEADER...
    local optional='cuda|cublas|cudnn|nccl|mpi\.h|microhttpd|slurm/' header log missing bad=0
    for header; do
        log=$(gcc -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -I. -fsyntax-only -x c "$header" 2>&1) && continue
        if missing=$(grep -oE "fatal error: ($optional)[^ ]*: No such file" <<<"$log" | grep -oE '[^ ]*: No'); then
            echo "left out: $header, there is no ${missing%: No} here"
        else
            printf '%s\n' "$log" >&2
            bad=1
        fi
    done
    return $bad
}
export -f compile_alone
mapfile -t headers < <(find core planner runner -name '*.h' ! -path '*/cuda/*' ! -path '*/slurm/*' | sort)
echo "check_headers: ${#headers[@]} headers"
[ ${#headers[@]} -gt 0 ] || exit 1
printf '%s\0' "${headers[@]}" | xargs -0 -n 16 -P "$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)" bash -c 'compile_alone "$@"' compile_alone
