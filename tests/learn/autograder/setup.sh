#!/bin/sh
# Makes Gradescope's container ready: a compiler, make, pytest.
set -e
export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get install -y --no-install-recommends gcc libc6-dev make python3 python3-pytest
