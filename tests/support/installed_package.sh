#!/usr/bin/env bash
# Run by tests/bare_root.sh --package in a root folder without sources: installs the packages beside this script, follows the
# documentation as a user, and purges them.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
export DEBIAN_FRONTEND=noninteractive
wrong=0
fail() { # WHAT [FILE]
    echo "FAIL: $1"
    [ $# -lt 2 ] || tail -n 20 "$2" | sed 's/^/    /'
    wrong=1
}
apt() { apt-get -y -q "$@" </dev/null; }

if ! { apt update && apt install --no-install-recommends man-db bash-completion adduser; } >/log 2>&1; then
    fail 'apt' /log
    exit 1
fi
files() { find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /home -o -path /packages \) -prune -o -print | sort; }
files >/before.files

# plan needs none of Slurm, MPI, oneDNN, CUDA: alone, it brings three small libraries.
apt install --no-install-recommends "$here"/shardwright-plan_*.deb >/log 2>&1 || fail 'apt install shardwright-plan' /log
dpkg-query -W -f '${Package}\n' | grep -E 'slurm|mpi|dnnl|cuda|shardwright-runner' && fail 'shardwright-plan brings the above'
plan --version --json | grep -q '"libslurm": null' || fail 'plan --version --json without libslurm'
# as users do: dpkg, which leaves it half installed, then apt, which adds the missing packages
dpkg -i "$here"/*.deb >/log 2>&1
apt --fix-broken --no-install-recommends install >/log 2>&1 || fail 'apt --fix-broken install' /log
for package in shardwright-plan shardwright-runner; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' $package)" = installed ] || fail "$package is not installed" /log
done
apt install --no-install-recommends libslurm38 >/log 2>&1 && ! plan --version | grep -q 'libslurm: 22' && fail 'libslurm is not found'

adduser --disabled-password --gecos '' someone >/log 2>&1 || fail adduser /log
touch /marker
cat >/home/someone/trial.sh <<'SH'
set -euo pipefail
cd
man -P cat plan | grep -q 'import-cluster'
man -P cat runner | grep -q 'tokenize'
man -P cat shardwright-quickstart | grep -q SW_QUICKSTART_STEPS
# completion as an interactive shell loads it, by the command's name
words=$(bash --norc -c '. /usr/share/bash-completion/bash_completion; _completion_loader plan || true
    COMP_WORDS=(plan se) COMP_CWORD=1; _shardwright plan se; echo "${COMPREPLY[@]}"')
[ "$words" = search ] || { echo "plan se<Tab>: '$words'" && exit 1; }
plan check /usr/share/shardwright/configs/*/*.yaml
plan search /usr/share/shardwright/configs/runs/quickstart.yaml
plan emit /usr/share/shardwright/configs/runs/quickstart.yaml -o job --set optimizer.total_steps=6 --set optimizer.warmup_steps=1
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none OMP_NUM_THREADS=1
if [ "$(id -u)" -eq 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
bash job/quickstart.sh
[ "$(grep -c '"loss"' runs/quickstart/metrics.jsonl)" = 6 ]
runner checkpoint verify runs/quickstart
SW_QUICKSTART_STEPS=40 shardwright-quickstart
SH
su - someone -c 'bash trial.sh' >/log 2>&1 || fail 'as a user' /log
# root could write into the installed folders, but must not
cp /home/someone/trial.sh /root/
bash /root/trial.sh >/log 2>&1 || fail 'as root' /log
find /usr /etc /opt -xdev -newer /marker -type f -print | grep . && fail 'the above was written beside what is installed'
rm -rf /root/trial.sh /root/job /root/runs

# Start-up time of the installed programs, which scripts start often, in processor time, independent of the load.
for program in plan runner; do
    for option in --version --help; do
        took=$({ TIMEFORMAT='%U %S' && time for _ in {1..20}; do $program $option >/dev/null; done; } 2>&1 |
            awk '{ printf "%.1f", ($1 + $2) * 1000 / 20 }')
        echo "$program $option: $took ms"
        awk -v took="$took" 'BEGIN { exit !(took > 0 && took <= 20) }' || fail "$program $option takes more than 20 ms"
    done
done

apt purge shardwright-plan shardwright-runner >/log 2>&1 || fail 'apt purge' /log
apt --purge autoremove >/log 2>&1 || fail 'apt autoremove' /log
rm -f /log /marker
# other packages may leave files, like man-db's cached pages
files | grep -v '^/var/cache/man/' | comm -13 /before.files - | grep -i shardwright && fail 'the above is left'
[ $wrong -eq 0 ] && echo 'installed, used and purged'
exit $wrong
