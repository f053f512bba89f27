# Model matrices of tables with factors and interactions by model.matrix(), and their fits by glm(family = binomial()).
# Run in this folder, by `sh make.sh`. A record holds the columns of its table; `formulas` are R's and oddsmith's for the
# same design.

source("common.R")
library(splines)

# In the order of code points, whatever the locale.
as_factor <- function(x) factor(x, levels = sort(unique(x), method = "radix"))

birthwt <- read_table("birthwt.csv")
birthwt$race <- ifelse(birthwt$race_white == 1, "white", ifelse(birthwt$race_black == 1, "black", "other"))
birthwt <- birthwt[c("low", "age", "lwt", "race", "smoke", "ht", "ui", "ptl")]
gaps <- birthwt
gaps$age[c(3, 17, 100)] <- NA
gaps$race[c(5, 17, 60)] <- NA
infert <- read_table("infert.csv")[c("case", "age", "parity", "education", "spontaneous", "induced")]

cases <- list(
  design_birthwt = list(table = birthwt, target = "low", formulas = list(
    c("race + age + smoke", "race + age + smoke"),
    c("age + race * smoke + ns(lwt, df = 4)", "age + C(race) * smoke + spline(lwt)"),
    c("race + race:age + ht", "race + race:age + ht"),
    c("0 + race + smoke:race + poly(age, 2)", "0 + race + smoke:race + poly(age, 2)"),
    c("race:smoke + log(lwt) + I(age^2)", "race:smoke + log(lwt) + I(age ** 2)"),
    c("(age + race + smoke)^2", "(age + race + smoke)^2"),
    c("scale(age):race + bs(lwt, df = 5, degree = 2) + factor(smoke)", "scale(age):race + bs(lwt, 5, 2) + C(smoke)"),
    c("age * ns(lwt, 2):race", "age * ns(lwt, 2):race")
  )),
  design_birthwt_gaps = list(table = gaps, target = "low", formulas = list(
    # R places knots before it drops rows, oddsmith after: so none here.
    c("age + race * smoke + log(lwt)", "age + race * smoke + log(lwt)")
  )),
  design_infert = list(table = infert, target = "case", formulas = list(
    c("education + spontaneous + age + parity + induced", "education + spontaneous + age + parity + induced"),
    c("education * age + factor(induced) * spontaneous", "education * age + C(induced) * spontaneous"),
    c("factor(induced):factor(spontaneous) + parity - 1", "C(induced):C(spontaneous) + parity - 1"),
    c("relevel(education, '6-11yrs') + poly(parity, 3)", "C(education, reference='6-11yrs') + poly(parity, degree=3)"),
    c("(age + education) / spontaneous - age", "(age + education) / spontaneous - age"),
    c("sqrt(age) * exp(-parity / 2) + education:induced - 1", "sqrt(age) * exp(-parity / 2) + education:induced - 1")
  ))
)

fit_case <- function(table, target, right) {
  formula <- as.formula(paste(target, "~", right))
  fit <- glm(formula, binomial(), table, control = glm.control(epsilon = 1e-14, maxit = 100))
  # Aliased columns are for R and for us the later ones; they have no estimate.
  start <- coef(fit)
  start[is.na(start)] <- 0
  fit <- glm(formula, binomial(), table, start = start, control = glm.control(epsilon = 1e-14, maxit = 100))
  kept <- !is.na(coef(fit))
  gradient <- crossprod(model.matrix(fit)[, kept], fit$y - fit$fitted.values)
  errors <- sqrt(diag(vcov(fit)))[kept]
  stopifnot(fit$converged, abs(vcov(fit)[kept, kept] %*% gradient / errors) < 1e-9, max(errors) < 1e3)
  fit
}

for (name in names(cases)) {
  case <- cases[[name]]
  table <- case$table
  for (column in names(table)) if (is.character(table[[column]])) table[[column]] <- as_factor(table[[column]])
  fits <- lapply(case$formulas, function(both) {
    fit <- fit_case(table, case$target, both[1])
    X <- model.matrix(fit)
    inside <- colnames(X) != "(Intercept)"
    list(
      r = both[1], formula = both[2], names = I(gsub("\"", "'", colnames(X)[inside])), intercept = !all(inside),
      matrix = unname(X[, inside]), coefficients = I(unname(coef(fit))), log_likelihood = as.numeric(logLik(fit))
    )
  })
  save_json(c(
    list(name = name, target = case$target, table = lapply(as.list(case$table), I), fits = fits),
    versions("stats", "splines")
  ), paste0(name, ".json"))
}

# Which factors of which terms are coded by contrasts, and in which order: the names of the columns for all sets of up to
# four terms, with and without a constant, and for 200 random expressions.
set.seed(1)
table <- data.frame(
  x = round(runif(40), 3), z = round(runif(40), 3), f = rep(c("a", "b", "c"), length.out = 40),
  g = rep(c("u", "v"), each = 20), h = sample(c("p", "q", "r"), 40, TRUE), stringsAsFactors = TRUE
)
terms <- c("x", "f", "g", "x:f", "x:g", "f:g", "x:f:g")
sets <- unlist(lapply(1:4, function(k) combn(terms, k, paste, collapse = " + ")))
expression_of <- function(depth) {
  if (depth == 0 || runif(1) < 0.3) return(sample(names(table), 1))
  parts <- paste0("(", expression_of(depth - 1), sample(c(" + ", " + ", ":", "*", "/"), 1), expression_of(depth - 1), ")")
  if (runif(1) < 0.2) paste0(parts, "^2") else parts
}
random <- replicate(200, paste0(sample(c("", "0 + "), 1), expression_of(3), sample(c("", "", "", " - x", " - f"), 1)))
# What subtracts all that there is leaves nothing to compare.
random <- Filter(function(right) length(attr(terms(as.formula(paste("~", right))), "term.labels")) > 0, random)
formulas <- unique(c(sets, paste("0 +", sets), random))
columns <- lapply(formulas, function(right) {
  setdiff(colnames(model.matrix(as.formula(paste("~", right)), table)), "(Intercept)")
})
save_json(c(
  list(name = "contrasts", table = lapply(lapply(table, as.vector), I), formulas = I(formulas), names = lapply(columns, I)),
  versions("stats")
), "contrasts.json")
