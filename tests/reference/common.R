# What the scripts of this folder share: reading a table, and writing a record as JSON with 17 significant digits,
# which is enough to give back every bit of a double.

read_table <- function(file) read.csv(file.path("data", file), check.names = FALSE, stringsAsFactors = FALSE)

# A vector of length one is written as a scalar, unless it is wrapped in I(); a matrix as the list of its rows;
# a named list as an object; NA and NULL as null.
to_json <- function(x, indent = "") {
  inner <- paste0(indent, "  ")
  array <- function(items) paste0("[", paste(items, collapse = ", "), "]")
  if (is.null(x)) return("null")
  if (is.list(x)) {
    items <- vapply(x, to_json, "", indent = inner)
    if (is.null(names(x))) return(array(items))
    lines <- paste0(inner, "\"", names(x), "\": ", items)
    return(paste0("{\n", paste(lines, collapse = ",\n"), "\n", indent, "}"))
  }
  if (is.matrix(x)) {
    rows <- vapply(seq_len(nrow(x)), function(i) paste0(inner, to_json(I(unname(x[i, ])))), "")
    return(paste0("[\n", paste(rows, collapse = ",\n"), "\n", indent, "]"))
  }
  items <- if (is.character(x)) {
    stopifnot(!grepl("[\"\\\\[:cntrl:]]", x))
    paste0("\"", x, "\"")
  } else if (is.logical(x)) {
    tolower(as.character(x))
  } else {
    sprintf("%.17g", x)
  }
  items[is.na(x)] <- "null"
  if (length(items) == 1 && !inherits(x, "AsIs")) items else array(items)
}

save_json <- function(record, file) {
  writeLines(to_json(record), file)
  cat(file, "\n")
}

versions <- function(...) {
  list(
    r_version = as.character(getRversion()),
    packages = sapply(c(...), function(package) packageDescription(package)$Version, simplify = FALSE)
  )
}

# The fields that every record begins with. The first class is the reference.
header <- function(name, case) {
  list(
    name = name, data = case$data, target = case$target, columns = I(case$columns),
    weights = case$weights, offset = case$offset, classes = I(case$classes)
  )
}

# Rows by a rule that any language computes exactly: the numbers of Park and Miller, four for a row.
rule_table <- function(rows, levels, seed, values) {
  draws <- numeric(4 * rows)
  state <- seed
  for (i in seq_along(draws)) draws[i] <- state <- (16807 * state) %% 2147483647
  d <- matrix(draws, 4)
  g <- d[1, ] %% levels
  h <- d[2, ] %% 3
  k <- d[3, ] %% values
  threshold <- 200 + (37 * g) %% 301 + 80 * h + (200 * k) %/% values
  data.frame(g = sprintf("g%04d", g), h = c("p", "q", "r")[1 + h], x = k / 8, y = as.integer(d[4, ] %% 1000 < threshold))
}
