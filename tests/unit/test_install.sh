#!/usr/bin/env bash
# What `cmake --install` puts anywhere works there, without the sources and the build: a plan is made
# and trained, and the CUDA device is found where it was built: test_install.sh CMAKE BUILD_DIR
set -uo pipefail
cmake=$1 build=$2
out=$(mktemp -d) || exit 3
trap 'rm -rf "$out"' EXIT
wrong=0
fail() { # WHAT FILE
    echo "FAIL: $1:"
    sed 's/^/    /' "$2"
    wrong=1
}

"$cmake" --install "$build" --prefix "$out/there" >"$out/said" 2>&1 || {
    fail 'cmake --install' "$out/said"
    exit 1
}
cd "$out" || exit 3
bin=$out/there/bin
ln -s there/share/shardwright/configs mine # what runs begin from
for program in bin/plan bin/runner bin/shardwright-quickstart lib/shardwright/plan-slurm; do
    if [ -x "there/$program" ] || { [ ${program##*/} = plan-slurm ] && [ ! -x "$build/plan-slurm" ]; }; then continue; fi
    ls -R there >"$out/said"
    fail "$program is not installed" "$out/said"
done
# as built, but for the folder: the runner finds its CUDA device, plan its plan-slurm
for program in plan runner; do
    "$build/$program" --version >built 2>&1
    "$bin/$program" --version >installed 2>&1
    cmp -s built installed || fail "$program says something else than $(cat built)" installed
done

head -c 20000 /dev/zero | tr '\0' 'a' >text
cat >run.yaml <<'YAML'
name: small
model: mine/models/quickstart.yaml
cluster:
  name: here
  nodes: 1
  accelerators_per_node: 1
  accelerator: {name: core, device: cpu, memory: 4 GiB, peak: {fp32: 50 GFLOP/s}, memory_bandwidth: 10 GB/s}
  links: [{name: none, spans: 1, bandwidth: 1 GB/s, latency: 1 us}]
  launcher: mpirun
sequence_length: 64
global_batch_size: 1
mesh_dim: '1,1,1,1'
optimizer: {type: adamw, learning_rate: 1.0e-3, warmup_steps: 1, total_steps: 2}
data: {path: text}
directory: run
YAML
"$bin/plan" emit run.yaml -o job >said 2>&1 || fail 'plan emit' said
[ -s job/small.sh ] || fail 'no job script from the built-in template' said
"$bin/runner" train job/small.plan.yaml >said 2>&1 || fail 'runner train' said
[ "$(grep -c '"loss"' job/run/metrics.jsonl run/metrics.jsonl 2>/dev/null | awk -F: '{ n += $2 } END { print n }')" -ge 2 ] ||
    fail 'two steps were not trained' said

# ---- An installed run writes into the working directory, not beside its file; what is named is where it is named
mkdir work && cd work || exit 3
installed=$out/there/share/shardwright/configs/runs
for settings in '' 'directory=here' "directory=$out/there" 'checkpoint.directory=kept'; do
    "$bin/plan" emit "$installed/quickstart.yaml" -o job ${settings:+--set "$settings"} >said 2>&1 || fail "emit of an installed run, $settings" said
    case $settings in
        '') wanted='../runs/quickstart ../runs/quickstart/checkpoints' ;;
        directory=here) wanted='../here ../here/checkpoints' ;;
        directory=*) wanted="$out/there $out/there/checkpoints" ;;
        *) wanted='../runs/quickstart ../kept' ;;
    esac
    found=$(sed -nE "s/^ *directory: '?([^' ]*)'?.*/\\1/p" job/quickstart.plan.yaml | sort -u | paste -sd ' ')
    wanted=$(tr ' ' '\n' <<<"$wanted" | sort -u | paste -sd ' ')
    [ "$found" = "$wanted" ] || { echo "$found, not $wanted" >said && fail "directories of an installed run, $settings" said; }
done
# a copy of it is the user's
cp -r "$out/there/share/shardwright/configs" . && "$bin/plan" emit configs/runs/quickstart.yaml -o job >said 2>&1
grep -q "directory: '../runs/quickstart'\$" job/quickstart.plan.yaml || fail 'directory of a copied run' job/quickstart.plan.yaml
cd "$out" || exit 3

# ---- What comes with them
for file in share/doc/shardwright/{LICENSE,README.md,CHANGELOG.md,SKILL.md,docs/jobs.md,docs/reference/commands.md} share/shardwright/examples/data/text.txt \
    share/bash-completion/completions/{plan,runner}; do
    [ -s "there/$file" ] || echo "$file" >>missing
done
[ ! -e missing ] || fail 'not installed' missing
"$bin/plan" check mine/*/*.yaml >said 2>&1 || fail 'the configurations that are installed' said
for page in plan:submit runner:calibrate shardwright-quickstart:plans; do
    name=${page%%:*}
    [ -s "there/share/man/man1/$name.1.gz" ] || { echo "share/man/man1/$name.1.gz" >missing && fail 'not installed' missing; }
    gzip -dc "there/share/man/man1/$name.1.gz" | groff -man -Tutf8 -ww >page 2>said
    if command -v groff >/dev/null && { [ -s said ] || ! grep -q -- "$name.*${page#*:}" page; }; then
        fail "man $name" said
    fi
done
completes() { # WORDS WANTED: what is offered for the last of the words
    bash -c '. "$1" && shift && read -ra COMP_WORDS <<<"$1" && COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) &&
        _shardwright "${COMP_WORDS[0]}" "${COMP_WORDS[COMP_CWORD]}" && echo "${COMPREPLY[@]}"' \
        bash "there/share/bash-completion/completions/plan" "$bin/$1" >said 2>&1
    [ "$(cat said)" = "$2" ] || fail "$1 is completed otherwise than $2" said
}
completes 'plan se' search
completes 'plan search --re' --rejected
completes 'plan submit --s' '--set --soonest'
completes 'runner ch' checkpoint
completes 'runner generate --max' --max-new-tokens
completes 'runner train r' ''

# ---- Another oneDNN than the system's: one that is none, or whose threads are not OpenMP's, is refused
sources=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$build/CMakeCache.txt")
refuses() { # WORDS: what is said, wherever CMake breaks its lines
    "$cmake" -S "$sources" -B configured -G Ninja -DSW_CUDA=OFF "-DSW_ONEDNN_ROOT=$out/dnnl" >said 2>&1 && fail "not refused: $1" said
    tr -s ' \n' ' ' <said | grep -qF -- "$1" || fail "it is not said: $1" said
}
refuses "SW_ONEDNN_ROOT '$out/dnnl' has no oneDNN, an include/oneapi/dnnl/dnnl.h and a lib/libdnnl.so; 'tests/install.sh onednn' makes"
mkdir -p dnnl/include/oneapi/dnnl dnnl/lib
: >dnnl/lib/libdnnl.so
echo '#define DNNL_CPU_THREADING_RUNTIME DNNL_RUNTIME_TBB' >dnnl/include/oneapi/dnnl/dnnl_config.h
refuses "the oneDNN in SW_ONEDNN_ROOT '$out/dnnl' computes in threads of 'TBB'; take one that was built with -DONEDNN_CPU_RUNTIME=OMP"

# ---- A newer one is built of the sources of the first release of Debian's that gives any, with what was mended since
mkdir -p archive/tree/debian/patches archive/bin
printf '#define DNNL_VERSION_%s\n' 'MAJOR 9' 'MINOR 8' 'PATCH 0' >archive/tree/dnnl_version.h
cat >archive/tree/CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.13)
project(dnnl NONE)
if(NOT ONEDNN_CPU_RUNTIME STREQUAL OMP OR NOT ONEDNN_ENABLE_PRIMITIVE STREQUAL "MATMUL;REORDER")
  message(FATAL_ERROR "${ONEDNN_CPU_RUNTIME} ${ONEDNN_ENABLE_PRIMITIVE}")
endif()
install(FILES dnnl_version.h DESTINATION include/oneapi/dnnl)
END
printf '%s\n' '--- a/dnnl_version.h' '+++ b/dnnl_version.h' '@@ -3 +3 @@' '-#define DNNL_VERSION_PATCH 0' '+#define DNNL_VERSION_PATCH 1' \
    >archive/tree/debian/patches/upstream-9.8.1.patch
tar -cJf archive/onednn_9.8.0.orig.tar.xz -C archive --exclude debian tree
tar -cJf archive/onednn_9.8.0-1.debian.tar.xz -C archive/tree debian
cat >archive/bin/apt-get <<END
#!/usr/bin/env bash
case "\$*" in
    indextargets*) printf '%s\n' 'here-security http://other/' 'here http://archive/' ;;
    *update) grep -q ' http://archive/ stable main$' sources.list || { echo 'E: not there' && exit 100; } ;;
    *) cp '$out'/archive/*.tar.xz . ;;
esac
END
chmod +x archive/bin/apt-get
if PATH=$out/archive/bin:$PATH bash "$sources/tests/install.sh" onednn-sources "$out/newer" >said 2>&1; then
    grep -qF "install: oneDNN 9.8.1 in $out/newer: cmake -DSW_ONEDNN_ROOT=$out/newer" said || fail 'oneDNN from sources' said
elif ! grep -qE '^SKIP: onednn: no (cmake|ninja|c\+\+|xz|patch)$' said; then
    fail 'oneDNN from sources' said
fi
[ "$wrong" -eq 0 ] && echo 'test_install: all as it should be'
exit "$wrong"
