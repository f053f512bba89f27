# Paths of the lasso, the elastic net and the grouped lasso of classes by glmnet. Run in this folder, by `sh make.sh`.
#
# glmnet minimises the mean of losses + lambda (alpha sum_j f_j |w_j| + (1 - alpha) / 2 sum_j f_j w_j^2), rows by their
# weights. A record holds the sum of losses instead: scale = 1 / (S lambda alpha), gaussian = 1 / sqrt(S lambda
# (1 - alpha)), S the sum of weights; and the factors f as glmnet scales them, to a mean of 1. glmnet's factors are of the
# squares, too, so factors and the elastic net do not meet here. Columns of a table are divided by powers of two, so that
# they are of one size and no digit is lost. Generated tables follow a rule in whole
# numbers, which the test computes again: see sparse_rule().

source("common.R")
suppressPackageStartupMessages(library(glmnet))
# Of its safeguards, those that end a path early or cut probabilities off are put out of the way.
glmnet.control(fdev = 0, devmax = 1, pmin = 1e-15, mxitnr = 50)

birthwt_columns <- c("age", "lwt", "race_black", "race_other", "smoke", "ptl", "ht", "ui", "ftv")
pima_columns <- c("npreg", "glu", "bp", "skin", "bmi", "ped", "age")
glass_columns <- c("RI", "Na", "Mg", "Al", "Si", "K", "Ca", "Ba", "Fe")
glass_classes <- c("WinF", "WinNF", "Veh", "Con", "Tabl", "Head")
iris_columns <- c("sepal_length", "sepal_width", "petal_length", "petal_width")
iris_classes <- c("setosa", "versicolor", "virginica")
penguin_columns <- c("bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g", "sex_male")

cases <- list(
  lasso_pima = list(data = "pima.csv", target = "type", classes = c("No", "Yes"), columns = pima_columns),
  lasso_biopsy = list(
    data = "biopsy.csv", target = "class", classes = c("benign", "malignant"), columns = paste0("V", 1:9)
  ),
  lasso_birthwt_weights = list(
    data = "birthwt.csv", target = "low", classes = 0:1, columns = birthwt_columns, weights = "weight"
  ),
  lasso_infert_offset = list(
    data = "infert.csv", target = "case", classes = 0:1, offset = "age_offset",
    columns = c("parity", "education_6_11", "education_12_up", "spontaneous", "induced")
  ),
  # The first two columns are free, the third costs half.
  lasso_pima_factors = list(
    data = "pima.csv", target = "type", classes = c("No", "Yes"), columns = pima_columns,
    factors = c(0, 0, 0.5, 1, 1, 2, 1)
  ),
  lasso_birthwt_elastic = list(
    data = "birthwt.csv", target = "low", classes = 0:1, columns = birthwt_columns, weights = "weight",
    alpha = 0.7
  ),
  lasso_infert_elastic = list(
    data = "infert.csv", target = "case", classes = 0:1, offset = "age_offset",
    columns = c("parity", "education_6_11", "education_12_up", "spontaneous", "induced"), alpha = 0.3
  ),
  lasso_wide = list(rule = list(rows = 40, columns = 120, seed = 11, kind = "plain", classes = 2), ratio = 0.05),
  lasso_wide_elastic = list(
    rule = list(rows = 40, columns = 120, seed = 11, kind = "plain", classes = 2), alpha = 0.5, ratio = 0.05
  ),
  lasso_correlated = list(rule = list(rows = 150, columns = 40, seed = 12, kind = "neighbours", classes = 2)),
  lasso_correlated_elastic = list(
    rule = list(rows = 150, columns = 40, seed = 12, kind = "neighbours", classes = 2), alpha = 0.5
  ),
  lasso_sparse = list(rule = list(rows = 200, columns = 150, seed = 13, kind = "sparse", classes = 2), ratio = 0.05),
  lasso_iris = list(
    data = "iris.csv", target = "species", classes = iris_classes, columns = iris_columns, ratio = 0.01
  ),
  lasso_iris_grouped = list(
    data = "iris.csv", target = "species", classes = iris_classes, columns = iris_columns, ratio = 0.01, grouped = TRUE
  ),
  lasso_glass = list(data = "glass.csv", target = "type", classes = glass_classes, columns = glass_columns),
  lasso_glass_grouped = list(
    data = "glass.csv", target = "type", classes = glass_classes, columns = glass_columns, grouped = TRUE
  ),
  lasso_penguins_elastic = list(
    data = "penguins.csv", target = "island", classes = c("Biscoe", "Dream", "Torgersen"), columns = penguin_columns,
    alpha = 0.5
  ),
  lasso_penguins_elastic_grouped = list(
    data = "penguins.csv", target = "island", classes = c("Biscoe", "Dream", "Torgersen"), columns = penguin_columns,
    alpha = 0.5, grouped = TRUE
  ),
  lasso_sparse_classes = list(
    rule = list(rows = 200, columns = 60, seed = 14, kind = "sparse", classes = 3), ratio = 0.1
  )
)

# Whole numbers b from -8 to 8 by Park and Miller's generator, row by row; each row has three more, for noise.
sparse_rule <- function(rows, columns, seed, kind, classes) {
  draws <- numeric(rows * (columns + 3))
  state <- seed
  for (i in seq_along(draws)) draws[i] <- state <- (16807 * state) %% 2147483647
  draws <- matrix(draws, rows, byrow = TRUE)
  b <- draws %% 17 - 8
  v <- switch(kind,
    plain = b[, seq_len(columns)],
    neighbours = b[, seq_len(columns)] + b[, 1 + seq_len(columns)] + b[, 2 + seq_len(columns)],
    sparse = ifelse((draws %/% 17) %% 16 == 0, b, 0)[, seq_len(columns)]
  )
  effect <- rep_len(c(3, -2, 0, 0, 2, -1, 0, 1), columns)
  if (kind != "sparse") effect[-(1:8)] <- 0
  score <- as.vector(v %*% effect) + draws[, columns + 3] %% 41 - 20
  y <- if (classes == 2) as.integer(score > 0) else (score > -10) + (score > 10)
  colnames(v) <- paste0("x", seq_len(columns))
  list(X = v / 8, y = y)
}

read_case <- function(case) {
  if (!is.null(case$rule)) {
    table <- do.call(sparse_rule, case$rule)
    return(list(X = table$X, t = table$y + 1, divisors = rep(1, ncol(table$X)), weights = NULL, offset = NULL,
                header = list(data = NULL, rule = case$rule, target = NULL, columns = I(colnames(table$X)), weights = NULL,
                              offset = NULL, classes = I(seq_len(case$rule$classes) - 1))))
  }
  table <- read_table(case$data)
  X <- as.matrix(table[case$columns])
  divisors <- unname(2^round(log2(apply(X, 2, sd))))
  list(X = sweep(X, 2, divisors, "/"), t = match(table[[case$target]], case$classes), divisors = divisors,
       weights = if (!is.null(case$weights)) table[[case$weights]],
       offset = if (!is.null(case$offset)) table[[case$offset]],
       header = header("", case)[-1])
}

# Sum of losses, and the prior's part, at weights with the intercept first, a column for each class (one for two).
objective <- function(read, W, scale, gaussian, factors, grouped, s) {
  a <- cbind(1, read$X) %*% W
  if (ncol(W) == 1) a <- cbind(0, a)
  if (!is.null(read$offset)) a[, 2] <- a[, 2] + read$offset
  top <- apply(a, 1, max)
  loss <- top + log(rowSums(exp(a - top))) - a[cbind(seq_along(read$t), read$t)]
  V <- W[-1, , drop = FALSE]
  size <- if (grouped) sqrt(rowSums(V^2)) else rowSums(abs(V))
  sum(s * loss) + sum(factors * size) / scale +
    if (is.null(gaussian)) 0 else sum(V^2) / (2 * gaussian^2)
}

# Newton's method from glmnet's weights, on those that are not zero and the free ones: the same point, to all digits.
# Also whether curvature holds all of them, so that no other point is as good.
polish <- function(read, W, scale, gaussian, factors, grouped, s) {
  Z <- cbind(1, read$X)
  G <- ncol(W)
  free <- matrix(c(TRUE, factors == 0), nrow(W), G)
  active <- which(free | W != 0)
  for (step in 1:12) {
    a <- Z %*% W
    if (G == 1) a <- cbind(0, a)
    if (!is.null(read$offset)) a[, 2] <- a[, 2] + read$offset
    P <- exp(a - apply(a, 1, max))
    P <- P / rowSums(P)
    R <- P
    R[cbind(seq_along(read$t), read$t)] <- R[cbind(seq_along(read$t), read$t)] - 1
    if (G == 1) { P <- P[, 2, drop = FALSE]; R <- R[, 2, drop = FALSE] }
    H <- matrix(0, length(W), length(W))
    at <- function(k) (k - 1) * nrow(W) + seq_len(nrow(W))
    for (j in 1:G) for (k in 1:G) H[at(j), at(k)] <- crossprod(Z, s * P[, j] * ((j == k) - P[, k]) * Z)
    size <- if (grouped) sqrt(rowSums(W^2)) %o% rep(1, G) else abs(W)
    price <- c(0, factors) / scale
    g <- crossprod(Z, s * R) + ifelse(size > 0, price * W / size, 0)
    if (!is.null(gaussian)) {
      g[-1, ] <- g[-1, ] + W[-1, ] / gaussian^2
      diag(H) <- diag(H) + rep(c(0, rep(1 / gaussian^2, nrow(W) - 1)), G)
    }
    if (grouped) for (j in which(size[, 1] > 0)[-1]) {
      own <- j + (seq_len(G) - 1) * nrow(W)
      u <- W[j, ] / size[j, 1]
      H[own, own] <- H[own, own] + price[j] / size[j, 1] * (diag(G) - u %o% u)
    }
    H <- H[active, active, drop = FALSE]
    if (G > 1) {  # a shift common to all intercepts changes nothing
      first <- as.numeric(arrayInd(active, dim(W))[, 1] == 1)
      H <- H + max(H) * first %o% first
    }
    root <- sqrt(diag(H))
    e <- eigen(H / (root %o% root), symmetric = TRUE)
    W[active] <- W[active] - e$vectors %*% (crossprod(e$vectors, g[active] / root) / pmax(e$values, 1e-13)) / root
  }
  list(W = W, unique = min(e$values) > 1e-9)
}

only <- commandArgs(TRUE)
for (name in if (length(only)) only else names(cases)) {
  case <- cases[[name]]
  read <- read_case(case)
  alpha <- if (is.null(case$alpha)) 1 else case$alpha
  stopifnot(alpha == 1 || is.null(case$factors))
  grouped <- isTRUE(case$grouped)
  K <- length(read$header$classes)
  D <- ncol(read$X)
  factors <- if (is.null(case$factors)) rep(1, D) else case$factors * D / sum(case$factors)
  s <- if (is.null(read$weights)) rep(1, nrow(read$X)) else read$weights
  fit <- glmnet(
    read$X, if (K == 2) read$t - 1 else factor(read$t), family = if (K == 2) "binomial" else "multinomial",
    weights = s, offset = read$offset, alpha = alpha, penalty.factor = factors, standardize = FALSE, nlambda = 25,
    lambda.min.ratio = if (is.null(case$ratio)) 0.005 else case$ratio, thresh = 1e-14, maxit = 1e6,
    type.multinomial = if (grouped) "grouped" else "ungrouped"
  )
  stopifnot(length(fit$lambda) >= 15)  # the smallest penalties may not converge
  scale <- 1 / (sum(s) * fit$lambda * alpha)
  gaussian <- if (alpha < 1) 1 / sqrt(sum(s) * fit$lambda * (1 - alpha))
  weights <- lapply(seq_along(fit$lambda), function(i) {
    if (K == 2) matrix(c(fit$a0[i], fit$beta[, i])) else
      rbind(fit$a0[, i], sapply(fit$beta, function(b) b[, i]))
  })
  evaluate <- function(W, i) objective(read, W, scale[i], gaussian[i], factors, grouped, s)
  objectives <- sapply(seq_along(weights), function(i) evaluate(weights[[i]], i))
  polished <- lapply(seq_along(weights), function(i) {
    polish(read, weights[[i]], scale[i], gaussian[i], factors, grouped, s)
  })
  for (i in seq_along(weights)) {
    V <- polished[[i]]$W
    if (evaluate(V, i) > objectives[i] * (1 + 1e-15) || any(sign(V[-1, ]) != sign(weights[[i]][-1, ]))) {
      cat("  point", i, "is not polished\n")
      polished[[i]] <- list(W = weights[[i]], unique = FALSE)
    }
  }
  save_json(c(
    list(name = name), read$header,
    list(divisors = I(read$divisors), alpha = alpha, grouped = grouped, factors = I(factors), lambda = fit$lambda,
         scale = scale, gaussian = gaussian, objective = objectives,
         unique = sapply(polished, function(p) p$unique),
         # point by point: the intercept, then each column; class after class
         coefficients_polished = t(sapply(polished, function(p) as.vector(p$W)))),
    versions("glmnet")
  ), paste0(name, ".json"))
}
