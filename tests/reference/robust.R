# Robust standard errors by sandwich::vcovHC, corrected by leverages too. Run in this folder, by `sh make.sh`.

source("common.R")

robust <- function(name, case) {
  table <- read_table(case$data)
  t <- as.integer(table[[case$target]] == case$classes[2])
  # A row of weight 20 is twenty rows: that is what weights mean in the tests.
  count <- if (is.null(case$weights)) rep(1, nrow(table)) else table[[case$weights]]
  rows <- rep(seq_len(nrow(table)), count)
  fit <- glm(reformulate(case$columns, "t"), binomial(case$link), cbind(table, t = t)[rows, ],
             control = glm.control(epsilon = 1e-14, maxit = 100))
  errors <- sapply(paste0("HC", 0:3), function(type) {
    I(unname(sqrt(diag(sandwich::vcovHC(fit, type = type)))))
  }, simplify = FALSE)
  save_json(c(header(name, case), list(link = case$link, std_errors = errors), versions("sandwich")),
            paste0(name, ".json"))
}

robust("robust_birthwt", list(
  data = "birthwt.csv", target = "low", classes = 0:1, columns = c("age", "lwt", "smoke", "ht"), link = "logit"
))
robust("robust_probit_pima", list(
  data = "pima.csv", target = "type", classes = c("No", "Yes"), columns = c("glu", "bmi", "ped"), link = "probit"
))
robust("robust_budworm", list(
  data = "budworm.csv", target = "dead", classes = 0:1, columns = c("sex_male", "log2_dose"), weights = "count",
  link = "logit"
))
