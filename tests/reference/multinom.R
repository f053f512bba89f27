# Softmax regression by nnet::multinom, one record per case. Run in this folder, by `sh make.sh`.
#
# The optimiser of multinom is quasi-Newton and stops with six to eight right digits. So every record has two answers:
# that of multinom, and, with the suffix _polished, the same after Newton's method on the exact likelihood.

source("common.R")
suppressPackageStartupMessages(library(nnet))

cases <- list(
  # A table of counts: the weights are the counts, and the reference is the lowest satisfaction.
  multinom_housing = list(
    data = "housing.csv", target = "satisfaction", classes = c("Low", "Medium", "High"), weights = "count",
    columns = c("influence_medium", "influence_high", "type_apartment", "type_atrium", "type_terrace", "contact_high")
  ),
  multinom_infert = list(
    data = "infert.csv", target = "education", classes = c("0-5yrs", "6-11yrs", "12+ yrs"),
    columns = c("age", "parity", "induced", "spontaneous", "case")
  ),
  multinom_penguins = list(
    data = "penguins.csv", target = "island", classes = c("Biscoe", "Dream", "Torgersen"),
    columns = c("bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g", "sex_male")
  ),
  # Six classes, the smallest of 9 rows.
  multinom_glass = list(
    data = "glass.csv", target = "type", classes = c("WinF", "WinNF", "Veh", "Con", "Tabl", "Head"),
    columns = c("RI", "Na", "Al", "Si")
  ),
  # The shares of the oxides add up to nearly 100, so that the columns are nearly collinear.
  multinom_glass_windows = list(
    data = "glass_windows.csv", target = "type", classes = c("WinF", "WinNF", "Veh"),
    columns = c("RI", "Na", "Mg", "Al", "Si", "K", "Ca", "Ba", "Fe")
  ),
  multinom_diamonds = list(
    data = "diamonds.csv.gz", target = "cut", classes = c("Fair", "Good", "Very Good", "Premium", "Ideal"),
    columns = c("carat", "depth", "table", "log_price")
  ),
  # Two classes: the same answer as glm_pima.
  multinom_pima = list(
    data = "pima.csv", target = "type", classes = c("No", "Yes"),
    columns = c("npreg", "glu", "bp", "skin", "bmi", "ped", "age")
  )
)

# Class probabilities (in logarithms) at W, one column of weights per class other than the reference.
log_softmax <- function(Z, W) {
  A <- cbind(0, Z %*% W)
  A <- A - apply(A, 1, max)
  A - log(rowSums(exp(A)))
}

# Newton's method on sum_n s_n log p(t_n): value, W and covariance at the maximum.
newton <- function(Z, hot, s, W) {
  K1 <- ncol(W)
  M <- ncol(Z)
  for (iteration in 1:50) {
    logp <- log_softmax(Z, W)
    p <- exp(logp)[, -1, drop = FALSE]
    g <- as.vector(crossprod(Z, s * (hot[, -1, drop = FALSE] - p)))
    H <- matrix(0, K1 * M, K1 * M)
    for (j in 1:K1) for (k in 1:K1) {
      H[(j - 1) * M + 1:M, (k - 1) * M + 1:M] <- crossprod(Z, s * p[, j] * ((j == k) - p[, k]) * Z)
    }
    covariance <- chol2inv(chol(H))
    step <- covariance %*% g
    if (sum(g * step) < 1e-20) break  # twice the distance to the maximum of the log likelihood
    W <- W + matrix(step, M, K1)
  }
  stopifnot(sum(g * step) < 1e-20)
  list(W = W, covariance = covariance, value = sum(s * rowSums(hot * logp)), fitted = exp(logp))
}

for (name in names(cases)) {
  case <- cases[[name]]
  table <- read_table(case$data)
  target <- factor(table[[case$target]], levels = case$classes)
  s <- if (is.null(case$weights)) rep(1, nrow(table)) else table[[case$weights]]
  hot <- unname(outer(as.integer(target), seq_along(case$classes), "=="))

  # Both methods see standardised columns, so that no unit decides when they stop; T takes the weights back.
  X <- as.matrix(table[case$columns])
  centre <- colMeans(X)
  spread <- apply(X, 2, sd)
  Z <- sweep(sweep(X, 2, centre), 2, spread, "/")
  D <- ncol(X)
  T <- rbind(c(1, -centre / spread), cbind(0, diag(1 / spread, D)))
  K1 <- length(case$classes) - 1

  # Rows are the classes other than the reference, columns the intercept and the features.
  in_units <- function(W, covariance) {
    blocks <- kronecker(diag(K1), T)
    list(
      W = unname(t(T %*% W)),
      errors = matrix(sqrt(diag(blocks %*% covariance %*% t(blocks))), K1, byrow = TRUE)
    )
  }

  fit <- multinom(target ~ Z, weights = s, Hess = TRUE, trace = FALSE, maxit = 10000, reltol = 1e-15, abstol = 1e-15)
  stopifnot(fit$convergence == 0)
  W <- matrix(t(coef(fit)), ncol = K1)
  raw <- in_units(W, vcov(fit))
  best <- newton(cbind(1, Z), hot, s, W)
  polished <- in_units(best$W, best$covariance)
  fitted <- unname(exp(log_softmax(cbind(1, Z), W)))
  totals <- colSums(s * hot)

  save_json(c(
    header(name, case),
    list(
      intercept = TRUE,
      coefficients = raw$W, std_errors = raw$errors, log_likelihood = -fit$value,
      null_log_likelihood = sum(totals * log(totals / sum(totals))),
      fitted = head(fitted, 20),
      coefficients_polished = polished$W, std_errors_polished = polished$errors,
      log_likelihood_polished = best$value, fitted_polished = head(unname(best$fitted), 20)
    ),
    versions("nnet")
  ), paste0(name, ".json"))
  distance <- max(abs(raw$W - polished$W) / polished$errors)
  cat(sprintf("  multinom is %.1e standard errors from the maximum\n", distance))
}
