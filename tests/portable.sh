#!/usr/bin/env bash
# Compiles the members of this workspace, and none of their dependencies, as for a system that is not Linux: cargo's
# wrapper for the crates of a workspace, whose results it keeps beside the others.
#
#     RUSTC_WORKSPACE_WRAPPER=tests/portable.sh cargo nextest run --workspace --all-features --lib --bins
set -euo pipefail
exec "$@" --cfg redquorum_portable
