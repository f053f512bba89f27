# Logistic regression by glm(family = binomial()), one record per case. Run in this folder, by `sh make.sh`.

source("common.R")

birthwt_columns <- c("age", "lwt", "race_black", "race_other", "smoke", "ptl", "ht", "ui", "ftv")
pima_columns <- c("npreg", "glu", "bp", "skin", "bmi", "ped", "age")

cases <- list(
  glm_birthwt = list(
    data = "birthwt.csv", target = "low", classes = 0:1, columns = birthwt_columns
  ),
  # Whole-number weights are counts of rows; these are not whole, and the likelihood is the same sum.
  glm_birthwt_weights = list(
    data = "birthwt.csv", target = "low", classes = 0:1, columns = birthwt_columns, weights = "weight"
  ),
  glm_birthwt_offset = list(
    data = "birthwt.csv", target = "low", classes = 0:1,
    columns = c("age", "race_black", "race_other", "smoke", "ht", "ui"), offset = "half_log_lwt"
  ),
  glm_pima = list(
    data = "pima.csv", target = "type", classes = c("No", "Yes"), columns = pima_columns
  ),
  glm_biopsy = list(
    data = "biopsy.csv", target = "class", classes = c("benign", "malignant"), columns = paste0("V", 1:9)
  ),
  # Counts as weights; four of the weights are zero.
  glm_menarche = list(
    data = "menarche.csv", target = "reached", classes = 0:1, columns = "age", weights = "count"
  ),
  # Three factors as dummies, counts as weights, many of them zero.
  glm_esoph = list(
    data = "esoph.csv", target = "case", classes = 0:1, weights = "count",
    columns = c("age_35_44", "age_45_54", "age_55_64", "age_65_74", "age_75_up",
                "alcohol_40_79", "alcohol_80_119", "alcohol_120_up",
                "tobacco_10_19", "tobacco_20_29", "tobacco_30_up")
  ),
  glm_infert = list(
    data = "infert.csv", target = "case", classes = 0:1,
    columns = c("age", "parity", "education_6_11", "education_12_up", "spontaneous", "induced")
  ),
  glm_infert_offset = list(
    data = "infert.csv", target = "case", classes = 0:1, offset = "age_offset",
    columns = c("parity", "education_6_11", "education_12_up", "spontaneous", "induced")
  ),
  glm_diamonds = list(
    data = "diamonds.csv.gz", target = "ideal", classes = 0:1, columns = c("carat", "depth", "table", "log_price")
  ),
  # One column around 1e4 and one around 1e-4.
  glm_diamonds_scales = list(
    data = "diamonds.csv.gz", target = "ideal", classes = 0:1, columns = c("mass_kg", "depth", "table", "price")
  ),
  # race_other is 1 - race_white - race_black, and lwt_kg a multiple of lwt.
  glm_aliased = list(
    data = "birthwt.csv", target = "low", classes = 0:1,
    columns = c("age", "lwt", "race_white", "race_black", "race_other", "lwt_kg", "smoke")
  ),
  glm0_pima = list(
    data = "pima.csv", target = "type", classes = c("No", "Yes"), columns = pima_columns, intercept = FALSE
  )
)

fit_glm <- function(case, columns, epsilon = 1e-14, start = NULL) {
  table <- read_table(case$data)
  table[[case$target]] <- as.integer(table[[case$target]] == case$classes[2])
  case_weights <- if (is.null(case$weights)) rep(1, nrow(table)) else table[[case$weights]]
  case_offset <- if (is.null(case$offset)) rep(0, nrow(table)) else table[[case$offset]]
  has_intercept <- !isFALSE(case$intercept)
  formula <- if (length(columns) > 0) {
    reformulate(columns, case$target, intercept = has_intercept)
  } else {
    as.formula(paste(case$target, if (has_intercept) "~ 1" else "~ 0"))
  }
  environment(formula) <- environment()
  # Two warnings do not touch the estimate: weights that are not whole numbers, and (diamonds) a row whose
  # probability is below 1e-15 though the maximum is finite.
  withCallingHandlers(
    glm(formula, binomial(), table, weights = case_weights, offset = case_offset, start = start,
        control = glm.control(epsilon = epsilon, maxit = 100)),
    warning = function(w) {
      if (grepl("non-integer #successes|numerically 0 or 1", conditionMessage(w))) invokeRestart("muffleWarning")
    }
  )
}

# The sum over rows of weight * log p(class), without the binomial coefficients that logLik() adds for counts.
log_likelihood <- function(fit) {
  a <- fit$linear.predictors
  sum(fit$prior.weights * plogis(ifelse(fit$y == 1, a, -a), log.p = TRUE))
}

for (name in names(cases)) {
  case <- cases[[name]]
  # glm() derives the tolerance for aliasing from epsilon, and at 1e-14 rounding hides a collinear column.
  # So the aliased columns are found with the default epsilon, and the fit is made without them.
  first <- coef(fit_glm(case, case$columns, epsilon = 1e-8))
  aliased <- names(first)[is.na(first)]
  columns <- setdiff(case$columns, aliased)
  # The covariance that glm() returns belongs to the iterate before the last: a second fit, from the answer of the
  # first, brings the standard errors to the same number of digits as the estimates.
  fit <- fit_glm(case, columns, start = coef(fit_glm(case, columns)))
  value <- log_likelihood(fit)
  errors <- sqrt(diag(vcov(fit)))

  # One more Newton step, in units of the standard errors, is the distance to the maximum.
  gradient <- crossprod(model.matrix(fit), fit$prior.weights * (fit$y - fit$fitted.values))
  step <- vcov(fit) %*% gradient / errors
  stopifnot(fit$converged, abs(step) < 1e-9, abs(value + fit$deviance / 2) < 1e-9 * abs(value))

  coefficients <- standard_errors <- first
  coefficients[] <- coef(fit)[names(first)]
  standard_errors[] <- errors[names(first)]
  save_json(c(
    header(name, case),
    list(
      intercept = !isFALSE(case$intercept), aliased = I(aliased),
      coefficients = I(unname(coefficients)), std_errors = I(unname(standard_errors)),
      log_likelihood = value, null_log_likelihood = log_likelihood(fit_glm(case, character())),
      fitted = head(unname(fit$fitted.values), 20)
    ),
    versions("stats")
  ), paste0(name, ".json"))
}
