#!/bin/sh
# Make the reference numbers again: `sh tests/reference/make.sh`, from anywhere.
# With the argument `data`, make the tables in data/ again first.
#
# Needs R with MASS and nnet (Debian: r-base-core, r-cran-mass, r-cran-nnet); `data` needs
# ggplot2 and palmerpenguins too (Debian: r-cran-ggplot2, r-cran-palmerpenguins). Nothing is installed here.
set -eu
cd "$(dirname "$0")"

need() {
    for package in "$@"; do
        Rscript --vanilla -e "quit(status = !requireNamespace('$package', quietly = TRUE))" || {
            echo "The R package $package is missing (Debian: r-cran-$package)." >&2
            exit 1
        }
    done
}

command -v Rscript >/dev/null || { echo "Rscript is missing (Debian: r-base-core)." >&2; exit 1; }
need MASS nnet
if [ "${1:-}" = data ]; then
    need ggplot2 palmerpenguins
    Rscript --vanilla data.R
fi
for script in glm.R multinom.R discriminant.R splines.R; do
    Rscript --vanilla "$script"
done
