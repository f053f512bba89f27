# The area under the ROC curve by pROC, close to 1 and not: DeLong's standard error and interval, and the same on the
# scale of log odds. Run in this folder, by `sh make.sh`. Needs pROC.

source("common.R")

areas <- function(name, case) {
  table <- read_table(case$data)
  t <- as.integer(table[[case$target]] == case$classes[2])
  # Fitted to every second row, and rounded, so that there are ties.
  half <- seq(1, nrow(table), 2)
  fit <- suppressWarnings(glm(reformulate(case$columns, "t"), binomial(), data = cbind(table, t = t)[half, ]))
  stated <- round(predict(fit, table, type = "response"), case$digits)
  roc <- pROC::roc(t, stated, quiet = TRUE, direction = "<")
  area <- as.numeric(pROC::auc(roc))
  error <- sqrt(pROC::var(roc, method = "delong"))
  save_json(c(header(name, case), list(
    stated = I(unname(stated)), auc = area, auc_std_error = error,
    delong = I(as.numeric(pROC::ci.auc(roc, method = "delong"))[c(1, 3)]),
    log_odds = I(plogis(qlogis(area) + c(-1, 1) * qnorm(0.975) * error / (area * (1 - area))))
  ), versions("pROC")), paste0(name, ".json"))
}

areas("auc_biopsy", list(
  data = "biopsy.csv", target = "class", classes = c("benign", "malignant"), columns = paste0("V", 1:9), digits = 2
))
areas("auc_birthwt", list(
  data = "birthwt.csv", target = "low", classes = 0:1, columns = c("age", "lwt", "smoke", "ht"), digits = 2
))
