# Gaussian class densities: MASS::lda and MASS::qda with method = "mle". Run in this folder, by `sh make.sh`.
#
# Every posterior is checked against Bayes' theorem written out by hand, with the covariance divided by N (lda) or by
# the number of rows of the class (qda); dividing by N - K or n_k - 1 instead must not agree.

source("common.R")
suppressPackageStartupMessages(library(MASS))

cases <- list(
  iris = list(
    data = "iris.csv", target = "species", classes = c("setosa", "versicolor", "virginica"),
    columns = c("sepal_length", "sepal_width", "petal_length", "petal_width"), prior = c(0.2, 0.3, 0.5)
  ),
  pima = list(
    data = "pima.csv", target = "type", classes = c("No", "Yes"),
    columns = c("npreg", "glu", "bp", "skin", "bmi", "ped", "age"), prior = c(0.5, 0.5)
  ),
  crabs = list(
    data = "crabs.csv", target = "colour_sex", classes = c("BF", "BM", "OF", "OM"),
    columns = c("FL", "RW", "CL", "CW", "BD"), prior = c(0.1, 0.2, 0.3, 0.4)
  )
)

scatter <- function(X) crossprod(sweep(X, 2, colMeans(X)))

# p(k | x) from prior, means (rows) and one covariance per class.
posterior_by_hand <- function(X, prior, means, covariances) {
  score <- sapply(seq_along(prior), function(k) {
    U <- chol(covariances[[k]])
    z <- backsolve(U, t(X) - means[k, ], transpose = TRUE)
    log(prior[k]) - sum(log(diag(U))) - colSums(z^2) / 2
  })
  score <- exp(score - apply(score, 1, max))
  score / rowSums(score)
}

distance <- function(a, b) max(abs(unname(a) - unname(b)))

for (key in names(cases)) {
  case <- cases[[key]]
  table <- read_table(case$data)
  X <- unname(as.matrix(table[case$columns]))
  target <- factor(table[[case$target]], levels = case$classes)
  counts <- as.vector(table(target))
  N <- nrow(X)
  K <- length(counts)
  scatters <- lapply(case$classes, function(class) scatter(X[target == class, , drop = FALSE]))
  within <- Reduce(`+`, scatters)
  means <- unname(rowsum(X, target) / counts)
  shared <- rep(list(within / N), K)
  separate <- Map(`/`, scatters, counts)
  unbiased <- list(lda = rep(list(within / (N - K)), K), qda = Map(`/`, scatters, counts - 1))

  for (method in c("lda", "qda")) {
    covariances <- if (method == "lda") shared else separate
    fit_with <- function(prior) {
      fit <- get(method)(X, target, prior = prior, method = "mle")
      posterior <- unname(predict(fit, X, method = "plug-in")$posterior)
      stopifnot(
        distance(posterior, posterior_by_hand(X, prior, fit$means, covariances)) < 1e-10,
        distance(posterior, posterior_by_hand(X, prior, fit$means, unbiased[[method]])) > 1e-4,
        distance(fit$means, means) < 1e-12 * max(abs(means))
      )
      if (method == "lda") {
        stopifnot(distance(t(fit$scaling) %*% (within / N) %*% fit$scaling, diag(ncol(fit$scaling))) < 1e-10)
      }
      record <- list(prior = I(prior), posterior = posterior)
      if (method == "lda") c(record, list(scaling = unname(fit$scaling), singular_values = I(fit$svd))) else record
    }
    name <- paste(method, key, sep = "_")
    save_json(c(
      header(name, case),
      list(
        counts = counts, means = means,
        covariance = if (method == "lda") within / N else unname(separate),
        proportional = fit_with(counts / N), other = fit_with(case$prior)
      ),
      versions("MASS")
    ), paste0(name, ".json"))
  }
}
