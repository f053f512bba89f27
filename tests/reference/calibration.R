# Logistic recalibration, and the area under the ROC curve, of probabilities that are wrong in a known way. Run in this
# folder, by `sh make.sh`. Needs survival and pROC.

source("common.R")
suppressPackageStartupMessages(library(survival))  # clogit() looks for coxph() and strata() by name

# Two classes: glm(t ~ logit(p)); DeLong's standard error of the AUC.
two_classes <- function(name, case) {
  table <- read_table(case$data)
  t <- as.integer(table[[case$target]] == case$classes[2])
  # Fitted to every second row, so that the answer is not known beforehand.
  half <- seq(1, nrow(table), 2)
  first <- glm(reformulate(case$columns, "t"), binomial(), data = cbind(table, t = t)[half, ])
  stated <- plogis(case$slope * predict(first, table) + case$shift)
  logit <- qlogis(stated)
  fit <- glm(t ~ logit, family = binomial(), control = glm.control(epsilon = 1e-14, maxit = 100))
  roc <- pROC::roc(t, stated, quiet = TRUE, direction = "<")
  save_json(c(header(name, case), list(
    stated = I(unname(stated)),
    slope = unname(coef(fit)[2]), intercept = unname(coef(fit)[1]),
    std_errors = I(unname(sqrt(diag(vcov(fit))))),
    auc = as.numeric(pROC::auc(roc)), auc_std_error = sqrt(pROC::var(roc, method = "delong"))
  ), versions("stats", "pROC")), paste0(name, ".json"))
}

# Several classes: one slope for the log probabilities and a constant for each class is a conditional logit, in which
# every row chooses among the classes.
several_classes <- function(name, case) {
  table <- read_table(case$data)
  posterior <- predict(MASS::lda(table[case$columns], table[[case$target]]))$posterior[, case$classes]
  stated <- posterior^case$slope * rep(exp(case$shift), each = nrow(posterior))
  stated <- stated / rowSums(stated)
  K <- length(case$classes)
  long <- expand.grid(row = seq_len(nrow(stated)), k = seq_len(K))
  long$x <- log(stated[cbind(long$row, long$k)])
  long$chosen <- as.integer(table[[case$target]][long$row] == case$classes[long$k])
  for (k in 2:K) long[[paste0("class", k)]] <- as.integer(long$k == k)
  formula <- reformulate(c("x", paste0("class", 2:K), "strata(row)"), "chosen")
  fit <- clogit(formula, long, method = "exact",
                control = coxph.control(eps = 1e-14, toler.chol = 1e-15, iter.max = 100))
  save_json(c(header(name, case), list(
    stated = unname(stated), slope = unname(coef(fit)[1]), shifts = I(c(0, unname(coef(fit)[-1]))),
    std_errors = I(unname(sqrt(diag(vcov(fit)))))
  ), versions("MASS", "survival")), paste0(name, ".json"))
}

two_classes("calibration_pima", list(
  data = "pima.csv", target = "type", classes = c("No", "Yes"), columns = c("glu", "bmi"), slope = 1.6, shift = 0.4
))
two_classes("calibration_birthwt", list(
  data = "birthwt.csv", target = "low", classes = 0:1, columns = c("age", "lwt", "smoke"), slope = 0.5, shift = -1
))
several_classes("calibration_iris", list(
  data = "iris.csv", target = "species", classes = c("setosa", "versicolor", "virginica"),
  columns = c("sepal_length", "sepal_width"), slope = 2, shift = c(0.5, -0.2, 0)
))
