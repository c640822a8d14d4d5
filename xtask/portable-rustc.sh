#!/bin/sh
# Compiles a crate of this workspace without everything that only Linux has. Cargo runs this script in place of rustc for
# the crates of the workspace alone, so dependencies are not compiled again.
rustc=$1
shift
exec "$rustc" "$@" --cfg nuncio_portable
