# Random intercepts of many groups by lme4's glmer(y ~ x + h + (1 | g)), one record per table. Run in this folder, by
# `sh make.sh`. The tables follow the rule of rule_table() in common.R.
#
# With nAGQ = 0 the slopes are estimated together with the intercepts of the groups, at the mode of all of them: the
# posterior mode under the prior N(0, sd^2) on the groups. With nAGQ = 1 the slopes maximise the Laplace approximation
# of the likelihood, in which the groups are integrated out.

source("common.R")
suppressPackageStartupMessages(library(lme4))

cases <- list(
  mixed_3000 = list(rows = 24000, levels = 3000, seed = 7, values = 97),
  mixed_400 = list(rows = 3000, levels = 400, seed = 5, values = 97)
)

for (name in names(cases)) {
  table <- do.call(rule_table, cases[[name]])
  fit <- function(n) {
    control <- glmerControl(tolPwrss = 1e-13, optimizer = "bobyqa", optCtrl = list(rhoend = 1e-9))
    glmer(y ~ x + h + (1 | g), table, binomial(), nAGQ = n, control = control)
  }
  mode <- fit(0)
  intercepts <- ranef(mode)$g[, 1]
  some <- seq(1, length(intercepts), by = 10)
  sd <- function(fit) attr(VarCorr(fit)$g, "stddev")[[1]]
  save_json(list(
    name = name, rule = cases[[name]], sd = sd(mode), sd_integrated = sd(fit(1)),
    fixed = as.list(setNames(fixef(mode), c("(intercept)", "x", "h[q]", "h[r]"))),
    groups = I(rownames(ranef(mode)$g)[some]), intercepts = I(intercepts[some])
  ), paste0(name, ".json"))
}
