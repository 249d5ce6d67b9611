#!/usr/bin/env bash
# A compiler wrapper of cargo that compiles the members of this workspace, and not their dependencies, with the code
# for systems other than Linux. Cargo keeps the results of a wrapper apart from the normal results.
#
#     RUSTC_WORKSPACE_WRAPPER=tests/portable.sh cargo nextest run --workspace --all-features --lib --bins
set -euo pipefail
exec "$@" --cfg redquorum_portable
