#!/bin/sh
# Makes the environment that `make` uses: a virtual environment with the pinned versions of constraints.txt.
#   PYTHON  the interpreter (3.11 or newer)      TORCH  cpu, or cuda for PyPI's build with CUDA      VENV  where
set -eu

"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "groupwise needs Python 3.11 or newer; $PYTHON is $("$PYTHON" --version 2>&1). Try: make PYTHON=python3.12" >&2
    exit 1
}

if ! "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null; then
    packages="python3-venv python3-pip"
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get update -q && apt-get install -qy $packages
    else
        echo "Python's venv module is missing. Install it, then try again: sudo apt-get install $packages" >&2
        exit 1
    fi
fi

# The code sandbox runs programs under bubblewrap. Everything else works without it, so a user who can't install it is
# told and goes on.
if ! command -v bwrap >/dev/null; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get update -q && apt-get install -qy --no-install-recommends bubblewrap
    else
        echo "The reward 'code' and its tests need bubblewrap: sudo apt-get install bubblewrap" >&2
    fi
fi

# The tests of the report open it in a browser; nothing else needs one.
if ! command -v chromium >/dev/null && ! command -v chromium-browser >/dev/null && ! command -v google-chrome >/dev/null; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get update -q && apt-get install -qy --no-install-recommends chromium
    else
        echo "The report's tests in a browser need Chromium: sudo apt-get install chromium" >&2
    fi
fi

[ -x "$VENV/bin/python" ] || "$PYTHON" -m venv "$VENV"
pip="$VENV/bin/python -m pip install --quiet --disable-pip-version-check"

if [ "$TORCH" = cuda ]; then
    $pip --constraint constraints.txt torch
elif ! "$VENV/bin/python" -c 'import torch, sys; sys.exit("+cpu" not in torch.__version__)' 2>/dev/null; then
    # PyPI's wheels for Linux bring CUDA, several gigabytes; torch's own index has the build for CPUs. A pip that is
    # configured to find a CPU build elsewhere is left to it.
    $pip --quiet --retries 1 --timeout 20 --constraint constraints.txt --no-deps \
        --extra-index-url https://download.pytorch.org/whl/cpu torch
fi
$pip --constraint constraints.txt --editable ".[lora,reasoning-gym,dev]"
"$VENV/bin/groupwise" --version
