# Firth's bias reduction: brglm2 for two classes (type = "AS_mean") and for several (brmultinom). Run by `sh make.sh`.
#
# Its estimates maximise the log likelihood + log det I(w) / 2, with I the expected information. brglm2 stops early, so
# each record has, with the suffix _polished, the maximum of that objective to the last digits.
# The intervals are those of its profile; there is no package for them here, so they are roots of constrained fits.

source("common.R")
suppressPackageStartupMessages({
  library(nnet)
  library(brglm2)
})

two_classes <- list(
  # Quasi-completely separated by NV.
  brglm_endometrial = list(data = "endometrial.csv", target = "HG", classes = 0:1, columns = c("NV", "PI", "EH")),
  # Completely separated by x.
  brglm_separated = list(data = "separated.csv", target = "y", classes = 0:1, columns = c("x", "z")),
  brglm_birthwt = list(
    data = "birthwt.csv", target = "low", classes = 0:1,
    columns = c("age", "lwt", "race_black", "race_other", "smoke", "ptl", "ht", "ui", "ftv")
  ),
  brglm_lizards = list(
    data = "lizards.csv", target = "grahami", classes = 1:0, weights = "count",
    columns = c("height_high", "diameter_thick", "light_shady", "time_midday", "time_late")
  )
)
several_classes <- list(
  # Setosa is completely separated from the others; the profile then has several maxima, and no interval is given.
  brmultinom_iris = list(
    intervals = FALSE, data = "iris.csv", target = "species", classes = c("setosa", "versicolor", "virginica"),
    columns = c("sepal_length", "sepal_width", "petal_length")
  ),
  brmultinom_alligators = list(
    data = "alligators.csv", target = "food", weights = "count",
    classes = c("Fish", "Invertebrate", "Reptile", "Bird", "Other"),
    columns = c("lake_oklawaha", "lake_trafford", "lake_george", "gender_female", "size_large")
  ),
  brmultinom_housing = list(
    data = "housing.csv", target = "satisfaction", classes = c("Low", "Medium", "High"), weights = "count",
    columns = c("influence_medium", "influence_high", "type_apartment", "type_atrium", "type_terrace", "contact_high")
  ),
  brmultinom_infert = list(
    data = "infert.csv", target = "education", classes = c("0-5yrs", "6-11yrs", "12+ yrs"),
    columns = c("age", "parity", "induced", "spontaneous", "case")
  )
)

# Log likelihood, its penalised form, the gradient of that, and the information, at w: class after class without the
# reference, the intercept first. `hot` (N x K) marks the classes, the reference first.
penalised <- function(Z, hot, s, w) {
  M <- ncol(Z)
  K1 <- ncol(hot) - 1
  A <- cbind(0, Z %*% matrix(w, M))
  A <- A - apply(A, 1, max)
  logp <- A - log(rowSums(exp(A)))
  p <- exp(logp)[, -1, drop = FALSE]
  block <- function(k) (k - 1) * M + 1:M
  H <- matrix(0, K1 * M, K1 * M)
  for (j in 1:K1) for (k in 1:K1) H[block(j), block(k)] <- crossprod(Z, s * p[, j] * ((j == k) - p[, k]) * Z)
  L <- chol(H)
  C <- chol2inv(L)
  # Q[, j, k] = z' C_jk z, and the slope of log det H / 2 is sum_jk Q_jk dV_jk / da / 2 with V = diag(p) - p p'.
  Q <- array(0, c(nrow(Z), K1, K1))
  for (j in 1:K1) for (k in 1:K1) Q[, j, k] <- rowSums((Z %*% C[block(j), block(k)]) * Z)
  slope <- sapply(1:K1, function(l) {
    total <- 0
    for (j in 1:K1) for (k in 1:K1) {
      dj <- p[, j] * ((j == l) - p[, l])
      dk <- p[, k] * ((k == l) - p[, l])
      total <- total + Q[, j, k] * ((j == k) * dj - dj * p[, k] - p[, j] * dk)
    }
    s * total / 2
  })
  value <- sum((s * rowSums(hot * logp))[s > 0])
  list(value = value, penalised = value + sum(log(diag(L))), information = H, covariance = C,
       gradient = as.vector(crossprod(Z, s * (hot[, -1, drop = FALSE] - p) + matrix(slope, ncol = K1))))
}

# The Hessian of the penalised log likelihood (its negative) over the free weights, by differences of the gradient.
curvature <- function(Z, hot, s, w, free, h) {
  H <- sapply(free, function(j) {
    d <- replace(numeric(length(w)), j, h[j])
    (penalised(Z, hot, s, w - d)$gradient - penalised(Z, hot, s, w + d)$gradient)[free] / (2 * h[j])
  })
  H <- matrix(H, length(free))
  (H + t(H)) / 2
}

# Scoring on the penalised likelihood over the weights that are free, and Newton's method where that is slow.
maximise <- function(Z, hot, s, w, free = seq_along(w)) {
  at <- penalised(Z, hot, s, w)
  last <- Inf
  for (iteration in 1:500) {
    g <- at$gradient[free]
    scoring <- solve(at$information[free, free], g)
    decrement <- sum(g * scoring)
    if (decrement < 1e-23 || (decrement < 1e-18 && decrement > last / 4)) break
    slow <- decrement > 0.05 * last
    last <- decrement
    step <- if (!slow) scoring else tryCatch({
      L <- chol(curvature(Z, hot, s, w, free, 1e-4 * sqrt(diag(at$covariance))))
      backsolve(L, backsolve(L, g, transpose = TRUE))
    }, error = function(e) scoring)
    size <- 1
    repeat {
      trial <- w
      trial[free] <- w[free] + size * step
      there <- tryCatch(penalised(Z, hot, s, trial), error = function(e) list(penalised = -Inf))
      if (there$penalised >= at$penalised - 1e-11) break
      size <- size / 2
    }
    w <- trial
    at <- there
  }
  stopifnot(decrement < 1e-16)
  c(list(w = w), at)
}

# The ends of {b : 2 (best - profile(b)) <= qchisq(0.95, 1)} for weight j.
profile_interval <- function(Z, hot, s, best, j) {
  error <- sqrt(best$covariance[j, j])
  near <- best$w
  # Separated classes give the profile several maxima: climb from the last one, from the estimate, and from the point
  # on the ray through the estimate, and take the highest.
  excess <- function(b) {
    starts <- list(replace(near, j, b), replace(best$w, j, b), best$w * b / best$w[j])
    free <- setdiff(seq_along(near), j)
    there <- lapply(starts, function(w) tryCatch(maximise(Z, hot, s, w, free), error = function(e) NULL))
    there <- there[!sapply(there, is.null)]
    highest <- there[[which.max(sapply(there, function(x) x$penalised))]]
    near <<- highest$w
    2 * (best$penalised - highest$penalised) - qchisq(0.95, 1)
  }
  end <- function(sign) {
    near <<- best$w
    inner <- best$w[j]
    outer <- inner + sign * error
    while (excess(outer) < 0) {
      inner <- outer
      outer <- outer + sign * error
      stopifnot(abs(outer - best$w[j]) < 100 * error)
    }
    uniroot(excess, sort(c(inner, outer)), tol = 1e-13, maxiter = 1000)$root
  }
  c(end(-1), end(1))
}

answers <- function(case, fit_brglm) {
  table <- read_table(case$data)
  target <- factor(table[[case$target]], levels = case$classes)
  s <- if (is.null(case$weights)) rep(1, nrow(table)) else table[[case$weights]]
  hot <- unname(outer(as.integer(target), seq_along(case$classes), "=="))
  X <- as.matrix(table[case$columns])
  said <- fit_brglm(target, X, s)

  # Columns of unit spread for the iterations.
  spread <- apply(X, 2, sd)
  Z <- cbind(1, sweep(X, 2, spread, "/"))
  K1 <- length(case$classes) - 1
  units <- rep(c(1, spread), K1)
  best <- maximise(Z, hot, s, as.vector(t(said$coefficients)) * units)
  w <- best$w / units
  errors <- sqrt(diag(best$covariance)) / units
  by_class <- function(values) matrix(values, K1, byrow = TRUE)
  ends <- matrix(NA_real_, 2, length(w))
  if (!isFALSE(case$intervals)) {
    ends <- sapply(seq_along(w), function(j) profile_interval(Z, hot, s, best, j) / units[j])
  }
  distance <- max(abs(as.vector(t(said$coefficients)) - w) / errors)
  stopifnot(distance < 1e-4)
  list(
    intercept = TRUE, coefficients = said$coefficients, std_errors = said$std_errors,
    coefficients_polished = by_class(w), std_errors_polished = by_class(errors),
    log_likelihood_polished = best$value,
    # det I is that of the columns in their own units.
    penalised_log_likelihood_polished = best$penalised + sum(log(units)),
    profile_lower = by_class(ends[1, ]), profile_upper = by_class(ends[2, ]), distance = distance
  )
}

by_brglm <- function(target, X, s) {
  t <- as.integer(target) - 1
  fit <- glm(t ~ X, binomial(), weights = s, method = "brglmFit", type = "AS_mean", epsilon = 1e-13, maxit = 10000)
  stopifnot(fit$converged)
  list(coefficients = matrix(coef(fit), 1), std_errors = matrix(summary(fit)$coefficients[, 2], 1))
}

by_brmultinom <- function(target, X, s) {
  fit <- brmultinom(target ~ X, weights = s, ref = 1, type = "AS_mean", epsilon = 1e-12, maxit = 10000)
  stopifnot(fit$converged)
  said <- summary(fit)
  list(coefficients = unname(said$coefficients), std_errors = unname(said$standard.errors))
}

save_case <- function(name, case, fit_brglm) {
  result <- answers(case, fit_brglm)
  distance <- result$distance
  result$distance <- NULL
  if (length(case$classes) == 2) {  # one class beside the reference: vectors, as in glm_*
    result <- lapply(result, function(x) if (is.matrix(x)) I(as.vector(x)) else x)
  }
  save_json(c(header(name, case), result, versions("brglm2")), paste0(name, ".json"))
  cat(sprintf("  brglm2 is %.1e standard errors from the maximum\n", distance))
}

for (name in names(two_classes)) save_case(name, two_classes[[name]], by_brglm)
for (name in names(several_classes)) save_case(name, several_classes[[name]], by_brmultinom)
