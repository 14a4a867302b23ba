# shellcheck shell=bash disable=SC2154
# A slurmdbd on a database of its own, for tests that source this file and have `skip` and $scratch. Slurm's processes trust
# one another by user id here; the database asks for a password.
#
#   database_up              starts both; lines for slurm.conf are in $scratch/more.conf
#   database_pids            the processes to end
#   until_true SECONDS COMMAND...
for tool in slurmdbd sacctmgr sacct mariadbd mariadb-install-db mariadb python3; do
    command -v $tool >/dev/null 2>&1 || skip "'$tool' is not installed (Debian: slurmdbd mariadb-server-core mariadb-client-core)"
done
database_pids=()
free_port() {
    python3 -c 'import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])'
}
until_true() { # SECONDS COMMAND...
    local i seconds=$1
    shift
    for ((i = 0; i < seconds * 5; i++)); do
        "$@" >/dev/null 2>&1 && return
        sleep 0.2
    done
    return 1
}
query() { mariadb --no-defaults --socket="$scratch/db.sock" --user=root -e "$1"; }
database_up() {
    local db_port dbd_port
    db_port=$(free_port)
    dbd_port=$(free_port)
    mkdir -p "$scratch/db"
    mariadb-install-db --no-defaults --user="$(id -un)" --datadir="$scratch/db" --skip-test-db \
        --auth-root-authentication-method=normal >"$scratch/install.log" 2>&1 ||
        skip "no database: $(tail -n 1 "$scratch/install.log")"
    mariadbd --no-defaults --innodb-flush-log-at-trx-commit=0 --innodb-doublewrite=0 --innodb-flush-method=nosync --user="$(id -un)" --datadir="$scratch/db" --socket="$scratch/db.sock" --bind-address=127.0.0.1 \
        --port="$db_port" --pid-file="$scratch/db.pid" >"$scratch/mariadbd.log" 2>&1 &
    database_pids+=($!)
    until_true 60 query 'select 1' || skip "the database does not start: $(tail -n 1 "$scratch/mariadbd.log")"
    query "create user slurm@127.0.0.1 identified by 'word'; grant all on *.* to slurm@127.0.0.1" || skip "no user of the database"
    cat >"$scratch/slurmdbd.conf" <<END
AuthType=auth/none
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort=$dbd_port
SlurmUser=$(id -un)
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=$db_port
StorageUser=slurm
StoragePass=word
PidFile=$scratch/slurmdbd.pid
LogFile=$scratch/slurmdbd.log
END
    chmod 600 "$scratch/slurmdbd.conf"
    SLURM_CONF=$scratch/slurmdbd.conf slurmdbd -D >"$scratch/slurmdbd.out" 2>&1 &
    dbd=$!
    database_pids+=("$dbd")
    cat >"$scratch/more.conf" <<END
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort=$dbd_port
MinJobAge=2
SuspendTimeout=2
END
    until_true 30 grep -q 'slurmdbd version .* started' "$scratch/slurmdbd.log" ||
        skip "slurmdbd does not start: $(tail -n 2 "$scratch/slurmdbd.log")"
}
