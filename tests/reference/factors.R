# Logistic regression on tables with factors by glm(family = binomial()), one record per table. Run in this folder, by
# `sh make.sh`. Small tables stand in their records. Large ones follow a rule in whole numbers, which the test computes
# again: see rule_table().

source("common.R")

# Treatment contrasts also for ordered factors.
options(contrasts = c("contr.treatment", "contr.treatment"))

draw <- function(from, n, prob = NULL) sample(from, n, TRUE, prob)
label <- function(a) as.integer(runif(length(a)) < plogis(a))

set.seed(24)
n <- 320
crossed <- data.frame(
  colour = draw(c("blue", "green", "red"), n), size = draw(c("L", "M", "S", "XL"), n, c(4, 3, 2, 1)),
  x = round(rnorm(n), 3), z = round(rexp(n), 3)
)
crossed$y <- label(0.4 * (crossed$colour == "red") - 0.6 * (crossed$size == "S") + 0.5 * crossed$x *
                     (crossed$colour == "blue") + 0.3 * crossed$z - 0.3)

# Counties lie in one state each, so R leaves out the last county of every state but the first.
county <- draw(1:14, 420)
nested <- data.frame(
  state = c("Iowa", "Ohio", "Utah", "Maine")[1 + (county * 3) %/% 11], county = sprintf("county %02d", county),
  x = round(rnorm(420), 3)
)
nested$y <- label(0.2 * (county %% 5) - 0.5 + 0.7 * nested$x)

# Levels that are declared and never seen, and one that is seen only in a row with a missing value.
unused <- data.frame(
  grade = draw(c("a", "b", "d", "f"), 260), region = draw(c("east", "north", "west"), 260), x = round(runif(260), 3)
)
unused$grade[7] <- "c"
unused$x[7] <- NA
unused$y <- label(ifelse(unused$grade %in% c("d", "f"), 0.8, -0.4) + ifelse(is.na(unused$x), 0, unused$x))

ordered <- data.frame(dose = draw(c("none", "low", "middle", "high"), 300), sex = draw(c("f", "m"), 300),
                      age = draw(20:70, 300))
ordered$y <- label(-2 + 0.7 * match(ordered$dose, c("none", "low", "middle", "high")) + 0.01 * ordered$age *
                     (ordered$sex == "m"))

gaps <- data.frame(
  team = draw(c("A", "B", "C", "D", "E"), 300), place = draw(c("away", "home"), 300), x = round(rnorm(300), 3),
  z = draw(0:9, 300)
)
gaps$y <- label(0.5 * (gaps$place == "home") + 0.4 * gaps$x - 0.05 * gaps$z)
gaps$team[draw(1:300, 12)] <- NA
gaps$place[draw(1:300, 9)] <- NA
gaps$x[draw(1:300, 15)] <- NA

# Weights that are not whole, some of them 0: one level has rows of weight 0 only.
weighted <- data.frame(
  brand = draw(c("k", "l", "m", "n", "o", "p"), 360), shop = draw(c("s1", "s2", "s3"), 360), price = draw(1:40 / 4, 360)
)
weighted$weight <- draw(c(0, 0.5, 1, 1.25, 3), 360)
weighted$weight[weighted$brand == "o"] <- 0
weighted$exposure <- round(runif(360, 0.1, 3), 4)
weighted$y <- label(log(weighted$exposure) - 0.1 * weighted$price + 0.6 * (weighted$brand == "m"))
weighted$log_exposure <- round(log(weighted$exposure), 6)
weighted$exposure <- NULL

cases <- list(
  factors_crossed = list(table = crossed, target = "y", formulas = c(
    "colour * size + z",
    "colour * x + size",
    "colour:size + x:size - 1",
    "x + colour:x:size"
  )),
  factors_nested = list(table = nested, target = "y", formulas = c(
    "state + county + x",
    "county + state + x",
    "state / county + x:state"
  )),
  factors_unused = list(
    table = unused, target = "y", levels = list(grade = c("a", "b", "c", "d", "e", "f")),
    formulas = c("grade + region + x", "grade * region + x")
  ),
  factors_ordered = list(
    table = ordered, target = "y", ordered = TRUE, levels = list(dose = c("trace", "none", "low", "middle", "high", "toxic")),
    formulas = c("dose + sex + age", "dose * sex + dose:age")
  ),
  factors_missing = list(table = gaps, target = "y", formulas = c(
    "team + place + x + z", "team:place + x * team + z"
  )),
  factors_weights = list(table = weighted, target = "y", weights = "weight", offset = "log_exposure", formulas = c(
    "brand + shop + price", "brand * price + shop:price"
  )),
  factors_probit = list(table = crossed, target = "y", link = "probit", formulas = c(
    "colour * size + x:colour"
  )),
  factors_300 = list(rule = list(rows = 9000, levels = 300, seed = 9, values = 97), target = "y", formulas = c(
    "g + h * x"
  )),
  # More weights than a Hessian is formed for. Rows that are alike are counted, so that R can.
  factors_2600 = list(
    rule = list(rows = 62400, levels = 2600, seed = 5, values = 2), target = "y", counted = TRUE,
    formulas = c("g + x")
  )
)

fit_matrix <- function(X, y, weights, offset, link, start) {
  withCallingHandlers(
    glm(y ~ 0 + X, binomial(link), weights = weights, offset = offset, start = start,
        control = glm.control(epsilon = 1e-14, maxit = 100)),
    warning = function(w) if (grepl("non-integer #successes", conditionMessage(w))) invokeRestart("muffleWarning")
  )
}

# The sum over rows of weight * log p(class), without the binomial coefficients that logLik() adds for counts.
log_likelihood <- function(fit) {
  p <- fit$fitted.values
  sum(fit$prior.weights * (ifelse(fit$y > 0, fit$y * log(p), 0) + ifelse(fit$y < 1, (1 - fit$y) * log1p(-p), 0)))
}

fit_case <- function(case, table, right) {
  formula <- as.formula(paste(case$target, "~", right))
  link <- if (is.null(case$link)) "logit" else case$link
  # A row of weight 0 is no row: with it, R would keep a column of zeros for a level that has no other.
  present <- if (is.null(case$weights)) TRUE else table[[case$weights]] > 0
  frame <- model.frame(formula, table[present, ], na.action = na.omit, drop.unused.levels = TRUE)
  kept_rows <- as.integer(rownames(frame))
  X <- model.matrix(formula, frame)
  y <- model.response(frame)
  weights <- if (is.null(case$weights)) rep(1, length(y)) else table[[case$weights]][kept_rows]
  offset <- if (is.null(case$offset)) rep(0, length(y)) else table[[case$offset]][kept_rows]
  if (!is.null(case$counted)) return(fit_counts(X, y))
  # glm() derives the tolerance for aliasing from epsilon, and at 1e-14 rounding hides a collinear column. So the
  # aliased columns are found with the default epsilon, and the fit is made without them, as in glm.R.
  first <- suppressWarnings(coef(glm.fit(X, y, weights, offset = offset, family = binomial(link))))
  kept <- !is.na(first)
  one <- fit_matrix(X[, kept], y, weights, offset, link, first[kept])
  fit <- fit_matrix(X[, kept], y, weights, offset, link, coef(one))
  list(fit = fit, first = first, kept = kept)
}

# Sums of rows that are alike; Newton's method on sparse columns gives the start from which glm() goes on.
fit_counts <- function(X, y) {
  columns <- Matrix::Matrix(X, sparse = TRUE)
  key <- as.vector(columns %*% (seq_len(ncol(X)) * sqrt(2)))
  alike <- match(key, unique(key))
  Z <- columns[!duplicated(alike), ]
  m <- as.vector(table(alike))
  s <- as.vector(tapply(y, alike, sum))
  w <- numeric(ncol(Z))
  for (i in 1:30) {
    p <- plogis(as.vector(Z %*% w))
    step <- Matrix::solve(Matrix::crossprod(Z, Z * (m * p * (1 - p))), Matrix::crossprod(Z, s - m * p))
    w <- w + as.vector(step)
    if (max(abs(step)) < 1e-11) break
  }
  Z <- as.matrix(Z)
  fit <- fit_matrix(Z, s / m, m, rep(0, length(m)), "logit", w)
  list(fit = fit, first = setNames(w, colnames(X)), kept = rep(TRUE, ncol(X)))
}

# `Rscript factors.R factors_300` makes one record only.
wanted <- commandArgs(TRUE)
for (name in if (length(wanted) > 0) wanted else names(cases)) {
  case <- cases[[name]]
  data <- if (is.null(case$rule)) case$table else do.call(rule_table, case$rule)
  table <- data
  for (column in names(table)) if (is.character(table[[column]])) {
    declared <- case$levels[[column]]
    # Without declared levels: in the order of code points, whatever the locale.
    if (is.null(declared)) declared <- sort(unique(table[[column]]), method = "radix")
    table[[column]] <- factor(table[[column]], declared, ordered = !is.null(case$ordered))
  }
  fits <- lapply(unname(case$formulas), function(formula) {
    found <- fit_case(case, table, formula)
    fit <- found$fit
    errors <- sqrt(diag(vcov(fit)))
    if (is.null(case$link)) {
      gradient <- crossprod(model.matrix(fit), fit$prior.weights * (fit$y - fit$fitted.values))
      stopifnot(abs(vcov(fit) %*% gradient / errors) < 1e-9)
    }
    stopifnot(fit$converged, max(errors) < 1e2)
    coefficients <- standard_errors <- found$first
    coefficients[found$kept] <- coef(fit)
    standard_errors[found$kept] <- errors
    inside <- names(coefficients) != "(Intercept)"
    list(
      formula = formula, intercept = !all(inside), names = if (sum(inside) < 1000) I(names(coefficients)[inside]),
      n_rows = sum(fit$prior.weights > 0), coefficients = I(unname(coefficients)), std_errors = I(unname(standard_errors)),
      log_likelihood = log_likelihood(fit)
    )
  })
  save_json(c(
    list(name = name, target = case$target, weights = case$weights, offset = case$offset, link = case$link,
         levels = case$levels, ordered = !is.null(case$ordered), rule = case$rule,
         table = if (is.null(case$rule)) lapply(as.list(case$table), I)),
    list(fits = fits), versions("stats")
  ), paste0(name, ".json"))
}
