# What R says beside the estimate: errors, intervals, tests, robust covariances, residuals. Run by `sh make.sh`.

source("common.R")
source("likelihood.R")
suppressPackageStartupMessages({
  library(MASS)  # confint of a glm
  library(sandwich)
})

birthwt_columns <- c("age", "lwt", "race_black", "race_other", "smoke", "ptl", "ht", "ui", "ftv")

# `small` are the columns of the nested model that the full one is tested against.
cases <- list(
  inference_birthwt = list(
    data = "birthwt.csv", target = "low", classes = 0:1, columns = birthwt_columns, link = "logit",
    small = c("age", "lwt", "smoke", "ht"), cluster = "age"
  ),
  inference_pima = list(
    data = "pima.csv", target = "type", classes = c("No", "Yes"), link = "logit",
    columns = c("npreg", "glu", "bp", "skin", "bmi", "ped", "age"), small = c("glu", "bmi", "ped"), cluster = "npreg"
  ),
  # Counts as weights. The additive model of Venables and Ripley (2002), section 7.2.
  inference_budworm = list(
    data = "budworm.csv", target = "dead", classes = 0:1, columns = c("sex_male", "log2_dose"), weights = "count",
    link = "logit", small = "log2_dose", cluster = "log2_dose"
  ),
  inference_lizards = list(
    data = "lizards.csv", target = "grahami", classes = 1:0, weights = "count", link = "logit",
    columns = c("height_high", "diameter_thick", "light_shady", "time_midday", "time_late"),
    small = c("height_high", "diameter_thick"), cluster = "time_late"
  ),
  inference_probit_birthwt = list(
    data = "birthwt.csv", target = "low", classes = 0:1, columns = birthwt_columns, link = "probit",
    small = c("age", "lwt", "smoke", "ht"), cluster = "age"
  ),
  inference_probit_pima = list(
    data = "pima.csv", target = "type", classes = c("No", "Yes"), link = "probit",
    columns = c("npreg", "glu", "bp", "skin", "bmi", "ped", "age"), small = c("glu", "bmi", "ped"), cluster = "npreg"
  )
)

# The fit, made again from its own answer, so that the covariance belongs to the last iterate.
fit_glm <- function(table, columns, link, start = NULL) {
  form <- reformulate(columns, "t_")
  once <- function(start) {
    eval(bquote(glm(.(form), binomial(.(link)), table, weights = s_, start = .(start),
                    control = glm.control(epsilon = 1e-14, maxit = 200))))
  }
  fit <- once(start)
  for (again in 1:4) fit <- once(coef(fit))
  fit
}

# The ends of the interval {b : 2 (best - profile(b)) <= qchisq(0.95, 1)} of coefficient j, each the root of the
# likelihood ratio of exact constrained fits: confint() interpolates by a spline, and is right to four digits or so.
profile_interval <- function(link, Z, t, s, best, errors, j) {
  rest <- Z[, -j, drop = FALSE]
  excess <- function(b) {
    constrained <- newton_link(link, rest, t, s, Z[, j] * b, best$w[-j])
    2 * (best$value - constrained$value) - qchisq(0.95, 1)
  }
  end <- function(sign) {
    inner <- best$w[j] + sign * errors[j]
    outer <- best$w[j] + sign * 4 * errors[j]
    while (excess(outer) < 0) outer <- outer + sign * 2 * errors[j]
    uniroot(excess, sort(c(inner, outer)), tol = 1e-14, maxiter = 1000)$root
  }
  c(end(-1), end(1))
}

# hatvalues() and cooks.distance() leave out the rows of weight zero: they become null.
per_row <- function(values, table) unname(values[rownames(table)])

flat <- function(x) unname(as.matrix(x))

for (name in names(cases)) {
  case <- cases[[name]]
  link <- case$link
  table <- read_table(case$data)
  table$t_ <- as.integer(table[[case$target]] == case$classes[2])
  table$s_ <- if (is.null(case$weights)) 1 else table[[case$weights]]
  fit <- fit_glm(table, case$columns, link)
  small <- fit_glm(table, case$small, link)
  Z <- unname(model.matrix(fit))
  best <- newton_link(link, Z, table$t_, table$s_, 0, unname(coef(fit)))
  stopifnot(abs(coef(fit) - best$w) < 1e-8 * sqrt(diag(vcov(fit))))
  said <- summary(fit)$coefficients
  profile <- suppressMessages(confint(fit))
  roots <- t(sapply(seq_along(best$w), function(j) {
    profile_interval(link, Z, table$t_, table$s_, best, sqrt(diag(best$covariance_expected)), j)
  }))
  fine <- suppressMessages(confint(profile(fit, alpha = 0.04, maxsteps = 400, del = 0.02)))
  stopifnot(abs(fine - roots) < 2e-6 * sqrt(diag(vcov(fit))))  # a finer grid brings confint to the roots
  ratio <- anova(small, fit, test = "Chisq")
  rao <- anova(small, fit, test = "Rao")
  dropped <- drop1(fit, test = "Chisq")[-1, ]
  dropped_rao <- drop1(fit, test = "Rao")[-1, ]
  stopifnot(rownames(dropped) == case$columns)

  # A weight is a count, so a robust covariance is that of the rows written out.
  rows <- table[rep(seq_len(nrow(table)), table$s_), ]
  rows$s_ <- 1
  long <- fit_glm(rows, case$columns, link, coef(fit))
  ids <- rows[[case$cluster]]
  first <- seq_len(min(nrow(table), 50))

  save_json(c(
    header(name, case),
    list(
      link = link, intercept = TRUE, small = I(case$small), cluster = case$cluster,
      estimate = I(unname(said[, 1])), std_error = I(unname(said[, 2])), z = I(unname(said[, 3])),
      p_value = I(unname(said[, 4])), std_error_observed = I(sqrt(diag(best$covariance_observed))),
      covariance = flat(vcov(fit)), wald_interval = flat(confint.default(fit)),
      profile_interval_confint = flat(profile), profile_interval = roots,
      log_likelihood = best$value, deviance = fit$deviance, null_deviance = fit$null.deviance,
      aic = AIC(fit), bic = BIC(fit), n_rows_bic = nobs(fit), bic_rows_written_out = BIC(long), n_rows = nrow(rows),
      likelihood_ratio_test = list(statistic = ratio$Deviance[2], df = ratio$Df[2], p_value = ratio[["Pr(>Chi)"]][2]),
      score_test = list(statistic = rao$Rao[2], df = rao$Df[2], p_value = rao[["Pr(>Chi)"]][2]),
      drop_one = list(
        term = I(case$columns), likelihood_ratio = I(dropped$LRT), p_value = I(dropped[["Pr(>Chi)"]]),
        score = I(dropped_rao[["Rao score"]]), score_p_value = I(dropped_rao[["Pr(>Chi)"]]), aic = I(dropped$AIC)
      ),
      hc0 = flat(vcovHC(long, type = "HC0")), hc1 = flat(vcovHC(long, type = "HC1")),
      cluster_hc0 = flat(vcovCL(long, ids, type = "HC0", cadjust = FALSE)),
      cluster_hc0_adjusted = flat(vcovCL(long, ids, type = "HC0", cadjust = TRUE)),
      cluster_hc1_adjusted = flat(vcovCL(long, ids, type = "HC1", cadjust = TRUE)),
      cluster_default = flat(vcovCL(long, ids)), n_clusters = length(unique(ids)),
      residuals_pearson = I(unname(residuals(fit, "pearson"))[first]),
      residuals_deviance = I(unname(residuals(fit, "deviance"))[first]),
      leverage = I(per_row(hatvalues(fit), table)[first]),
      cooks_distance = I(per_row(cooks.distance(fit), table)[first])
    ),
    versions("stats", "MASS", "sandwich")
  ), paste0(name, ".json"))
  cat(sprintf("  confint is %.1e from the roots, on a fine grid %.1e\n", max(abs(profile - roots)), max(abs(fine - roots))))
}
