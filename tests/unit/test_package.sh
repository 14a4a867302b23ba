#!/usr/bin/env bash
# Packages as cpack makes them of this build: their files, what they need, what lintian and rpm say; and the tarball of plan,
# which runs wherever it is unpacked, with an old glibc.
#
#   tests/unit/test_package.sh CPACK BUILD [--write]     --write: the blessed lists of files, tests/unit/golden/packages.txt
set -uo pipefail
cpack=$1 build=$(realpath "$2") sources=$(cd "$(dirname "$0")/../.." && pwd)
golden=$sources/tests/unit/golden/packages.txt
out=$(mktemp -d) || exit 3
trap 'rm -rf "$out"' EXIT
wrong=0
fail() { # WHAT [FILE]
    echo "FAIL: $1"
    [ $# -lt 2 ] || sed 's/^/    /' "$2"
    wrong=1
}
version=$(sed -nE 's/^project\(shardwright VERSION ([0-9.]+) .*/\1/p' "$sources/CMakeLists.txt")
cd "$out" || exit 3
pack() { # GENERATOR: CUDA's module, which is large, is no part of this test
    (cd "$build" && "$cpack" -G "$1" -B "$out" -D CPACK_SW_NATIVE=OFF -D 'CPACK_SW_PACKAGES=plan;runner' \
        -D CPACK_DEBIAN_COMPRESSION_TYPE=gzip -D CPACK_RPM_COMPRESSION_TYPE=gzip) >said 2>&1 || fail "cpack -G $1" said
    rm -rf _CPack_Packages
}
# One line a file, as blessed: configurations and documentation are compared with the tree instead, which has more each week.
contents() { # NAME: reads paths
    grep -v '/$' | sed -E 's#^(\./|/)##' | sort >"$1.files"
    grep -vE '/(configs|docs)/' "$1.files" | sed "s/^/$1: /; s/${version//./\\.}/VERSION/g" >>lists
    (cd "$sources" && git ls-files configs docs ':!docs/*.sh' ':!docs/*.bash' 2>/dev/null) | sort >tree
    [ ! -s tree ] || [ "${1##*-}" = runner ] || sed -nE 's#.*/(share/shardwright|shardwright)/((configs|docs)/.*\..*)#\2#p' "$1.files" |
        sort | diff tree - >said || fail "$1: configurations and documentation: left the tree's, right the package's" said
}
oldest_glibc() { # FILE: the oldest glibc that it runs with
    objdump -T "$1" 2>/dev/null | grep -oE 'GLIBC_[0-9.]+' | sed 's/GLIBC_//' | sort -Vu | tail -n 1
}
: >lists

# ---- The tarball
if [ -x "$build/plan-portable" ]; then
    pack TGZ
    archive=$(ls shardwright-plan-"$version"-linux-*.tar.gz)
    tar -tzf "$archive" | contents tarball
    tar -xzf "$archive" && mkdir 'another place' && mv "${archive%.tar.gz}" 'another place/unpacked'
    root="$out/another place/unpacked"
    # RHEL 8 has 2.28. The check sees more than that in a program that is built for this machine.
    needs=$(oldest_glibc "$root/bin/plan")
    here=$(ldd --version 2>&1 | sed -nE '1s/.* //p')
    if printf '2.38\n%s\n' "$here" | sort -VC; then
        echo "SKIP: made with glibc $here, whose headers have numbers read by functions of their own, the tarball needs $needs; make it on Debian 12"
    elif [ -z "$needs" ] || ! printf '%s\n2.28\n' "$needs" | sort -VC; then
        fail "the tarball's plan needs glibc $needs, not 2.28 or before"
    fi
    if printf '2.34\n%s\n' "$here" | sort -VC; then
        printf '2.29\n%s\n' "$(oldest_glibc "$build/plan")" | sort -VC || fail "build/plan needs no newer glibc: this test sees nothing"
    fi
    objdump -p "$root/bin/plan" | sed -nE 's/^ *NEEDED +//p' | grep -vE '^(libc|libm|libpthread|ld-linux-x86-64)\.so\.' >said &&
        fail "the tarball's plan needs a library" said
    objdump -p "$root/bin/plan" | grep -E 'R(UN)?PATH' >said && fail "the tarball's plan looks for libraries in a folder" said
    "$build/plan" explain "$root/share/shardwright/configs/runs/llama-8b-64.yaml" --json >built 2>&1
    "$root/bin/plan" explain "$root/share/shardwright/configs/runs/llama-8b-64.yaml" --json >moved 2>&1
    if ! cmp -s built moved || ! grep -q step_seconds moved; then fail "the tarball's plan plans otherwise" moved; fi
    "$root/bin/plan" emit "$root/share/shardwright/configs/runs/llama-8b-64.yaml" -o job >said 2>&1 || fail "the tarball's plan emit" said
    gzip -dc "$root/share/man/man1/plan.1.gz" | grep -q '^\.SH IMPORT' || fail "the tarball's manual"
    "$root/bin/plan" --version --json | grep -q '"libslurm": null' || fail "the tarball's plan finds another libslurm"
    if command -v modulecmd >/dev/null; then
        MODULEPATH=$root/share/modulefiles modulecmd bash load shardwright >loaded 2>said || fail 'module load' said
        # commands of a shell, which are run here
        # shellcheck disable=SC1091
        found=$(. ./loaded && command -v plan && echo "$MANPATH")
        [ "$(head -n 1 <<<"$found")" = "$root/bin/plan" ] || fail 'module load: plan is not found' loaded
        grep -qF "$root/share/man" <<<"$found" || fail 'module load: no manual' loaded
    else
        echo 'SKIP: modulecmd is not installed'
    fi
fi

# ---- Debian's packages
if command -v dpkg-shlibdeps >/dev/null; then
    pack DEB
    for package in plan runner; do
        file=$(ls shardwright-"$package"_"$version"-1_*.deb) || continue
        dpkg-deb --fsys-tarfile "$file" | tar -t | contents "deb-$package"
        dpkg-deb -f "$file" Depends >depends-$package
        [ "$(dpkg-deb -f "$file" Section)" = science ] || fail "$file: section"
        dpkg-deb --fsys-tarfile "$file" | tar -xO "./usr/share/doc/shardwright-$package/changelog.Debian.gz" | gzip -dc |
            grep -q "^shardwright ($version-1) " || fail "$file: the change log is of another version"
    done
    grep -qE '(^|, )libjansson4 ' depends-plan || fail 'plan depends on no library' depends-plan
    grep -E 'slurm|mpi|dnnl|cuda|gomp|microhttpd' depends-plan && fail 'plan depends on the above'
    grep -qF "shardwright-plan (= $version-1)" depends-runner || fail 'runner takes another plan' depends-runner
    for library in mpi dnnl; do grep -q "lib[a-z]*$library" depends-runner || fail "runner depends on no $library" depends-runner; done
    if command -v lintian >/dev/null; then
        lintian --allow-root ./*.deb >said 2>&1 || fail lintian said
        grep -E '^[EW]:' said && fail 'lintian says the above'
    else
        echo 'SKIP: lintian is not installed'
    fi
fi

# ---- Red Hat's
if command -v rpmbuild >/dev/null; then
    pack RPM
    for package in plan runner; do
        file=$(ls shardwright-"$package"-"$version"-1.*.rpm) || continue
        rpm -qp --qf '[%{FILEMODES:perms} %{FILENAMES}\n]' "$file" | sed -n 's/^-[^ ]* //p' | contents "rpm-$package"
        rpm -qpR "$file" >requires-$package
    done
    grep -q '^libjansson' requires-plan || fail 'plan requires no library' requires-plan
    grep -E 'slurm|mpi|dnnl|cuda|gomp|microhttpd' requires-plan && fail 'plan requires the above'
    grep -qx "shardwright-plan = $version" requires-runner || fail 'runner takes another plan' requires-runner
    grep -q '^libmpi' requires-runner || fail 'runner requires no MPI' requires-runner
    rpm -qp --qf '%{BUILDHOST}\n' ./*.rpm | grep -qvx localhost && fail 'a package names the machine that made it'
fi

# plan-slurm is there where libslurm is; CUDA is left out above
[ -x "$build/plan-slurm" ] || sed '/plan-slurm$/d' "$golden" >without
if [ "${3:-}" = --write ]; then
    cp lists "$golden"
else
    cut -d : -f 1 lists | sort -u >packages
    while read -r name; do
        diff <(grep "^$name: " "$([ -e without ] && echo without || echo "$golden")") <(grep "^$name: " lists) >said ||
            fail "$name holds other files than $golden says (tests/unit/test_package.sh CPACK BUILD --write)" said
    done <packages
fi
grep -q . lists || echo 'SKIP: nothing can be packed here'
[ $wrong -eq 0 ] && echo "test_package: $(cut -d : -f 1 lists | sort | uniq -c | awk '{ printf "%s %s files, ", $2, $1 } END { print "as they should be" }')"
exit $wrong
