# Sourced by the other scripts: find_python prints a Python that is new enough.

find_python() {
    local name
    for name in python3.11 python3.12 python3.13 python3 python; do
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$name"
            return
        fi
    done
    echo "error: Python 3.11 or newer is needed" >&2
    return 1
}
