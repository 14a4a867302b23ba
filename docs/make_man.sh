#!/usr/bin/env bash
# Writes a manual page from what a program says of itself.
#
#   docs/make_man.sh PROGRAM OUT.1 [NAME [VERSION]]     NAME: what it is called where it is installed; default: as its file.
#                                                       VERSION: default: what it says itself
set -euo pipefail
program=$1 name=${3:-${1##*/}}
version=${4:-$("$program" --version | sed -n '1s/.* //p')}

verbatim() { # as troff prints it letter by letter
    printf '.PP\n.nf\n'
    sed -e 's/\\/\\e/g; s/-/\\-/g; s/^\([.'\'']\)/\\\&\1/'
    printf '.fi\n'
}
case $name in
    plan) about='plans the training and the serving of a model on a cluster, and submits it' ;;
    runner) about='trains, scores, generates and serves what plan planned' ;;
    shardwright-quickstart) about='plans and trains a small model on this machine' ;;
esac
{
    printf '.TH %s 1 "" "%s"\n.SH NAME\n%s \\- %s\n.SH DESCRIPTION\n' "${name^^}" "shardwright $version" "$name" "$about"
    "$program" --help | verbatim
    "$program" --help | sed -nE "s/^ {2}$name ([a-z][a-z-]*) .*/\\1/p" | while read -r command; do
        printf '.SH %s\n' "${command^^}"
        "$program" "$command" --help | verbatim
    done
    printf '.SH SEE ALSO\n.BR plan (1),\n.BR runner (1);\nshare/doc/shardwright, where it is installed\n'
} >"$2"
