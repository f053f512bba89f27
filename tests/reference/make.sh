#!/bin/sh
# Make the reference numbers again: `sh tests/reference/make.sh`, from anywhere.
# With the argument `data`, make the tables in data/ again first; with `python`, run the Python scripts instead of R's.
#
# Needs R with MASS, nnet, sandwich, brglm2, glmnet and lme4 (Debian: r-base-core, r-cran-mass, r-cran-nnet,
# r-cran-sandwich, r-cran-brglm2, r-cran-glmnet, r-cran-lme4); `data` needs ggplot2 and palmerpenguins too (Debian: r-cran-ggplot2, r-cran-palmerpenguins).
# `python` needs statsmodels, laplace-torch and pyfixest for the interpreter in $PYTHON. Nothing is installed here.
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

if [ "${1:-}" = python ]; then
    for script in margins.py laplace_torch.py mcmc.py fixed_effects.py quadrature.py; do
        "${PYTHON:-python3}" -W ignore "$script"
    done
    exit
fi
command -v Rscript >/dev/null || { echo "Rscript is missing (Debian: r-base-core)." >&2; exit 1; }
need MASS nnet sandwich brglm2 survival pROC Matrix glmnet lme4
if [ "${1:-}" = data ]; then
    need ggplot2 palmerpenguins
    Rscript --vanilla data.R
fi
for script in glm.R multinom.R discriminant.R links.R inference.R firth.R splines.R calibration.R auc.R robust.R design.R factors.R lasso.R mixed.R; do
    Rscript --vanilla "$script"
done
