# glm(family = binomial(link)) for the links other than logit, one record per case. Run in this folder, by `sh make.sh`.
#
# R has no loglog: it is the cloglog of the exchanged classes, and its coefficients are the negated ones.

source("common.R")
source("likelihood.R")

tables <- list(
  birthwt = list(
    data = "birthwt.csv", target = "low", classes = 0:1,
    columns = c("age", "lwt", "race_black", "race_other", "smoke", "ptl", "ht", "ui", "ftv")
  ),
  pima = list(
    data = "pima.csv", target = "type", classes = c("No", "Yes"),
    columns = c("npreg", "glu", "bp", "skin", "bmi", "ped", "age")
  ),
  menarche = list(data = "menarche.csv", target = "reached", classes = 0:1, columns = "age", weights = "count"),
  budworm = list(
    data = "budworm.csv", target = "dead", classes = 0:1, columns = c("sex_male", "log2_dose"), weights = "count"
  )
)
# Relative risks and differences of risk; the columns are such that the best probabilities stay inside (0, 1).
relative <- list(
  birthwt = list(
    data = "birthwt.csv", target = "low", classes = 0:1,
    columns = c("age", "race_black", "race_other", "smoke", "ht", "ui")
  ),
  infert = list(data = "infert.csv", target = "case", classes = 0:1, columns = c("age", "spontaneous", "induced")),
  lizards = list(
    data = "lizards.csv", target = "grahami", classes = 1:0, weights = "count",
    columns = c("height_high", "diameter_thick", "light_shady", "time_midday", "time_late")
  )
)
differences <- relative
differences$birthwt$columns <- c("race_black", "race_other", "smoke", "ht", "ui")
differences$lizards$columns <- c("height_high", "diameter_thick", "time_late")

fit_link <- function(link, Z, t, s, start) {
  # The warnings are about steps that were halved to stay inside (0, 1).
  suppressWarnings(glm.fit(Z, t, s, family = binomial(link), start = start,
                           control = glm.control(epsilon = 1e-14, maxit = 200)))
}

save_link <- function(link, data_name, case) {
  table <- read_table(case$data)
  t <- as.integer(table[[case$target]] == case$classes[2])
  s <- if (is.null(case$weights)) rep(1, nrow(table)) else table[[case$weights]]
  Z <- cbind(1, as.matrix(table[case$columns]))
  mirrored <- link == "loglog"
  sign <- if (mirrored) -1 else 1
  if (mirrored) t <- 1 - t
  with <- if (mirrored) "cloglog" else link
  # log and identity start at the share of the second class, all slopes zero; cauchit and loglog, whose scoring
  # diverges from R's own start on menarche, where Newton's method leads from the coefficients of logit.
  start <- if (link %in% c("log", "identity")) {
    c(binomial(link)$linkfun(sum(s * t) / sum(s)), rep(0, ncol(Z) - 1))
  } else if (link %in% c("cauchit", "loglog")) {
    newton_link(with, Z, t, s, 0, coef(fit_link("logit", Z, t, s, NULL)))$w
  }
  fit <- fit_link(with, Z, t, s, start)
  for (again in 1:3) fit <- fit_link(with, Z, t, s, coef(fit))
  best <- newton_link(with, Z, t, s, 0, coef(fit))
  errors <- sqrt(diag(best$covariance_expected))
  distance <- max(abs(coef(fit) - best$w) / errors)
  stopifnot(distance < 1e-5)
  if (link == "cauchit") {  # not convex: no other start may lead higher
    set.seed(1)
    for (trial in 1:20) {
      from <- best$w + errors * rnorm(ncol(Z), sd = 3)
      other <- tryCatch(newton_link(with, Z, t, s, 0, from), error = function(e) list(value = -Inf))
      stopifnot(other$value < best$value + 1e-8)
    }
  }
  p <- exp(row_terms(with, best$activations)$l1)
  range <- range(p)
  total <- c(sum(s * t), sum(s * (1 - t)))
  name <- paste("link", link, data_name, sep = "_")
  save_json(c(
    header(name, case),
    list(
      link = link, intercept = TRUE,
      coefficients = I(unname(sign * coef(fit))), coefficients_polished = I(sign * best$w),
      std_errors = I(errors), std_errors_observed = I(sqrt(diag(best$covariance_observed))),
      log_likelihood = value_at(with, drop(Z %*% coef(fit)), t, s), log_likelihood_polished = best$value,
      null_log_likelihood = sum(total * log(total / sum(total))),
      fitted = head(if (mirrored) 1 - p else p, 20)
    ),
    versions("stats")
  ), paste0(name, ".json"))
  cat(sprintf("  glm is %.1e standard errors from the maximum; probabilities from %.3g to %.3g\n",
              distance, range[1], range[2]))
}

for (link in c("probit", "cauchit", "cloglog", "loglog")) {
  for (data_name in names(tables)) save_link(link, data_name, tables[[data_name]])
}
for (data_name in names(relative)) {
  save_link("log", data_name, relative[[data_name]])
  save_link("identity", data_name, differences[[data_name]])
}
