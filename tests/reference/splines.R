# Logistic regression on splines of the columns, by glm() with splines::ns and splines::bs. Run in this folder, by
# `sh make.sh`.

source("common.R")
library(splines)

cases <- list(
  spline_ns_pima = list(
    data = "pima.csv", target = "type", classes = c("No", "Yes"), columns = c("glu", "bmi", "age"), basis = "ns", df = 4
  ),
  spline_bs_pima = list(
    data = "pima.csv", target = "type", classes = c("No", "Yes"), columns = c("glu", "bmi"), basis = "bs", df = 6
  ),
  spline_ns_birthwt = list(
    data = "birthwt.csv", target = "low", classes = 0:1, columns = c("lwt", "age"), basis = "ns", df = 5
  ),
  # Degree 2, and knots that are given: both ends lie outside the data.
  spline_bs_birthwt = list(
    data = "birthwt.csv", target = "low", classes = 0:1, columns = "lwt", basis = "bs", degree = 2,
    knots = c(70, 110, 130, 160, 260)
  ),
  spline_ns_diamonds = list(
    data = "diamonds.csv.gz", target = "ideal", classes = 0:1, columns = c("carat", "log_price"), basis = "ns", df = 3
  )
)

for (name in names(cases)) {
  case <- cases[[name]]
  degree <- if (is.null(case$degree)) 3 else case$degree
  table <- read_table(case$data)
  y <- as.integer(table[[case$target]] == case$classes[2])
  make <- function(x) {
    if (!is.null(case$knots)) {
      n <- length(case$knots)
      return(bs(x, knots = case$knots[2:(n - 1)], Boundary.knots = case$knots[c(1, n)], degree = degree))
    }
    if (case$basis == "ns") ns(x, df = case$df) else bs(x, df = case$df, degree = degree)
  }
  bases <- lapply(table[case$columns], make)
  Phi <- cbind(1, do.call(cbind, lapply(bases, unclass)))
  fit <- suppressWarnings(glm.fit(Phi, y, family = binomial(), control = glm.control(epsilon = 1e-14, maxit = 100)))
  stopifnot(fit$converged, !is.na(fit$coefficients))
  a <- fit$linear.predictors

  # Natural splines are asked for values beyond both ends, too.
  beyond <- sapply(table[case$columns], function(x) {
    if (case$basis == "ns") c(min(x) - diff(range(x)) * c(1, 0.1), max(x) + diff(range(x)) * c(0.1, 1)) else x[1:4]
  })
  new <- cbind(1, do.call(cbind, lapply(seq_along(bases), function(j) unclass(predict(bases[[j]], beyond[, j])))))
  save_json(c(
    header(name, case),
    list(
      basis = case$basis, degree = degree,
      n_knots = if (is.null(case$knots)) length(attr(bases[[1]], "knots")) + 2 else NULL, knots = case$knots,
      interior = lapply(unname(bases), function(basis) I(unname(attr(basis, "knots")))),
      phi = unname(Phi[1:5, -1]),
      log_likelihood = sum(plogis(ifelse(y == 1, a, -a), log.p = TRUE)),
      fitted = head(unname(fit$fitted.values), 200),
      new = unname(beyond), predicted = drop(plogis(new %*% fit$coefficients))
    ),
    versions("stats", "splines")
  ), paste0(name, ".json"))
}
