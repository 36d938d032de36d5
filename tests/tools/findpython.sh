#!/bin/sh
# findpython.sh MODULE [SCRIPT ARGUMENT...]: runs the script with a Python of version 3.9 or later that has the module;
# without a script, prints the name of that Python. Where there is none, says in one line how to get it and exits with 1.
# Several Pythons may be installed, and the first on PATH need not be the one that the package manager gave pytest to.
# Where PYTHON is set, no other is tried.

module=$1
shift
test='import sys, importlib.util as u; sys.exit(sys.version_info < (3, 9) or not u.find_spec(sys.argv[1]))'

for python in ${PYTHON:-python3 /usr/bin/python3 python3.14 python3.13 python3.12 python3.11 python3.10 python3.9}; do
    if "$python" -c "$test" "$module" 2>/dev/null; then
        [ $# = 0 ] || exec "$python" "$@"
        echo "$python"
        exit 0
    fi
done

if [ -n "$PYTHON" ]; then
    [ "$module" = sys ] || without=" with $module"
    echo "PYTHON=$PYTHON is no Python 3.9 or later$without; unset it, and others are tried" >&2
elif [ "$module" = sys ]; then
    echo "Python 3.9 or later is missing: sudo apt-get install python3" >&2
else
    echo "$module for Python 3.9 or later is missing: sudo apt-get install python3-$module" >&2
fi
exit 1
