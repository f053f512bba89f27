# A path of glmnet, timed: `Rscript glmnet_path.R FOLDER THRESH REPEATS`, called by path_peers.py.
#
# FOLDER holds shape (rows, columns, stored numbers or 0, classes, whether folds are given), x (and i, p of CSC), y, lambda
# and fold as raw binary. Written there: b (classes × points), and W as CSC (i, p, x) of the columns class by class, point
# by point; seconds of each repeat. Reading and writing are not timed.
suppressPackageStartupMessages({ library(Matrix); library(glmnet) })
given <- commandArgs(TRUE)
folder <- given[1]; thresh <- as.numeric(given[2]); repeats <- as.integer(given[3])
read <- function(name, what, n) readBin(file.path(folder, name), what, n)
write <- function(values, name) writeBin(values, file.path(folder, name))
shape <- read("shape", "integer", 5)
n <- shape[1]; d <- shape[2]; stored <- shape[3]; classes <- shape[4]
X <- if (stored == 0) matrix(read("x", "double", n * d), n, d) else
  new("dgCMatrix", Dim = c(n, d), x = read("x", "double", stored), i = read("i", "integer", stored), p = read("p", "integer", d + 1))
y <- read("y", "integer", n)
lambda <- read("lambda", "double", 10000)
# Of its safeguards, those that end a path early or cut probabilities off are put out of the way.
glmnet.control(fdev = 0, devmax = 1, pmin = 1e-12, mxitnr = 1000)
family <- if (classes == 2) "binomial" else "multinomial"
options <- list(X, y, family = family, standardize = FALSE, lambda = lambda, thresh = thresh, maxit = 1e8)
method <- glmnet
if (shape[5] == 1) {
  method <- cv.glmnet
  options$foldid <- read("fold", "integer", n) + 1
}
seconds <- cpu <- numeric(0)
for (r in seq_len(repeats)) {
  taken <- system.time(fit <- do.call(method, options))
  seconds <- c(seconds, taken[["elapsed"]])
  cpu <- c(cpu, taken[["user.self"]] + taken[["sys.self"]])
}
if (shape[5] == 1) fit <- fit$glmnet.fit
if (length(fit$lambda) != length(lambda)) stop("glmnet ended its path at point ", length(fit$lambda))
write(seconds, "seconds"); write(cpu, "cpu")
if (classes == 2) {
  W <- fit$beta; b <- matrix(fit$a0, 1)
} else {
  W <- do.call(cbind, fit$beta); b <- fit$a0
}
write(as.double(b), "b"); write(W@i, "W_i"); write(W@p, "W_p"); write(W@x, "W_x")
