# Completes commands and options of plan and runner in bash, by what their own --help says; else files.
_shardwright() { # PROGRAM WORD
    local words=''
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        words=$("$1" --help 2>/dev/null | sed -nE "s/^ *(usage: )?${1##*/} ([a-z][a-z-]*) .*/\\2/p")
    elif [[ $2 == -* ]]; then
        words=$("$1" "${COMP_WORDS[1]}" --help 2>/dev/null | grep -oE -- '--[a-z][a-z_-]+')
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$2" | sort -u)
}
complete -o default -F _shardwright plan runner
