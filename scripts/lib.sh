# Functions of the scripts here; to be sourced. The caller's name begins each message.
me=$(basename "$0")

fail() {
    printf "$me: %s\n" "$@" >&2
    exit 1
}

# Runs a command as root, where there is a way to.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
        sudo "$@"
    else
        return 1
    fi
}

apt_install() {
    command -v apt-get >/dev/null || return 1
    echo "$me: installing $*" >&2
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >&2 && return
    # The package lists of a fresh image are often empty.
    as_root apt-get update >&2 &&
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >&2
}

# A folder with one Python package in a fixed version, made once: venv_with FOLDER PACKAGE VERSION
venv_with() {
    local folder=$1 package=$2 version=$3
    [ "$("$folder/bin/pip" show "$package" 2>/dev/null | sed -n 's/^Version: //p')" = "$version" ] && return
    if ! python3 -c 'import venv, ensurepip' 2>/dev/null; then
        apt_install python3 python3-venv || true
        python3 -c 'import venv, ensurepip' 2>/dev/null || fail "Python with its venv module is needed." \
            "Install it (Debian: apt-get install python3-venv) and run this again."
    fi
    rm -rf "$folder"
    python3 -m venv "$folder"
    "$folder/bin/pip" install --quiet --disable-pip-version-check "$package==$version" ||
        fail "$package $version could not be installed: is there a network, or a mirror of PyPI?"
}

# Starts a server on any free port, with a folder below $work; sets `server` and `url`.
serve() {
    : >"$work/out"
    "$waypost" serve --listen 127.0.0.1:0 --data "$work/data" -o json "$@" >"$work/out" 2>"$work/err" &
    server=$!
    until grep -q listening "$work/out"; do
        kill -0 "$server" 2>/dev/null || fail "the server did not start:" "$(cat "$work/err")"
        sleep 0.1
    done
    url=$(sed -n 's/.*"listening": *"\([^"]*\)".*/\1/p' "$work/out")
}

stop() {
    [ -z "$server" ] || { kill "$server" 2>/dev/null && wait "$server" 2>/dev/null; } || true
    server=
}
