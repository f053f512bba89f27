# The likelihood of two classes under any link, and Newton's method on it with the observed Hessian: glm() scores with
# the expected one, which for a link other than logit is slow at the end and stops with some eight right digits.

# Logarithms of p = f(a) and 1 - p, their slopes and the slopes of those.
row_terms <- function(link, a) {
  switch(link,
    logit = {
      p <- plogis(a); q <- plogis(-a)
      list(l1 = plogis(a, log.p = TRUE), l0 = plogis(-a, log.p = TRUE), s1 = q, s0 = -p, d1 = -p * q, d0 = -p * q)
    },
    probit = {
      u <- exp(dnorm(a, log = TRUE) - pnorm(a, log.p = TRUE))
      v <- exp(dnorm(a, log = TRUE) - pnorm(-a, log.p = TRUE))
      list(l1 = pnorm(a, log.p = TRUE), l0 = pnorm(-a, log.p = TRUE),
           s1 = u, s0 = -v, d1 = -u * (u + a), d0 = -v * (v - a))
    },
    cauchit = {
      p <- pcauchy(a); q <- pcauchy(-a); f <- dcauchy(a); g <- -2 * a / (1 + a^2)
      list(l1 = log(p), l0 = log(q), s1 = f / p, s0 = -f / q, d1 = f / p * (g - f / p), d0 = -f / q * (g + f / q))
    },
    cloglog = {
      u <- exp(a); v <- u / expm1(u)
      list(l1 = log(-expm1(-u)), l0 = -u, s1 = v, s0 = -u, d1 = v * (1 + u / expm1(-u)), d0 = -u)
    },
    log = {
      a[a >= 0] <- NaN
      list(l1 = a, l0 = log(-expm1(a)), s1 = rep(1, length(a)), s0 = exp(a) / expm1(a),
           d1 = rep(0, length(a)), d0 = -exp(a) / expm1(a)^2)
    },
    identity = {
      a[a <= 0 | a >= 1] <- NaN
      list(l1 = log(a), l0 = log1p(-a), s1 = 1 / a, s0 = -1 / (1 - a), d1 = -1 / a^2, d0 = -1 / (1 - a)^2)
    }
  )
}

# The sum over rows of weight * log p(class); -Inf where a row is impossible.
value_at <- function(link, a, t, s) {
  terms <- suppressWarnings(row_terms(link, a))
  value <- sum((s * ifelse(t == 1, terms$l1, terms$l0))[s > 0])
  if (is.nan(value)) -Inf else value
}

# Gradient, observed Hessian and expected Hessian (of minus the log likelihood) in w, where a = Z w + offset.
slopes_at <- function(link, Z, t, s, a) {
  terms <- row_terms(link, a)
  p <- exp(terms$l1)
  expected <- p * terms$s1^2 + (1 - p) * terms$s0^2
  list(
    gradient = crossprod(Z, s * ifelse(t == 1, terms$s1, terms$s0)),
    observed = crossprod(Z, -s * ifelse(t == 1, terms$d1, terms$d0) * Z),
    expected = crossprod(Z, s * expected * Z)
  )
}

# Newton's method from w, in coordinates of unit scale: weights, value and both covariances at the maximum.
newton_link <- function(link, Z, t, s, offset = 0, w) {
  scale <- sqrt(colSums(Z^2))
  Z <- sweep(Z, 2, scale, "/")
  w <- w * scale
  value <- value_at(link, Z %*% w + offset, t, s)
  decrement <- Inf
  for (iteration in 1:200) {
    at <- slopes_at(link, Z, t, s, drop(Z %*% w + offset))
    L <- tryCatch(chol(at$observed), error = function(e) chol(at$expected))
    step <- drop(backsolve(L, backsolve(L, at$gradient, transpose = TRUE)))
    last <- decrement
    decrement <- sum(at$gradient * step)
    if (decrement < 1e-22 || (decrement < 1e-18 && decrement >= last / 4)) break
    size <- 1
    while (value_at(link, Z %*% (w + size * step) + offset, t, s) < value - 1e-12 * abs(value)) size <- size / 2
    w <- w + size * step
    value <- value_at(link, Z %*% w + offset, t, s)
  }
  stopifnot(decrement < 1e-18)
  in_units <- function(H) unname(chol2inv(chol(H)) / outer(scale, scale))
  list(w = unname(w / scale), value = value, activations = drop(Z %*% w + offset),
       covariance_expected = in_units(at$expected), covariance_observed = in_units(at$observed))
}
