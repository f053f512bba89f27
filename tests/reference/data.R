# Write the tables in data/ from the R packages that carry them. Run in this folder, by `sh make.sh data`.
#
# Every table is complete (no missing values) and every feature is numeric: a factor becomes one 0/1 column per
# level other than the first. Derived columns are rounded, so that the text in the file is the number that is meant.

suppressPackageStartupMessages(library(MASS))

save_table <- function(table, file) {
  stopifnot(!anyNA(table))
  path <- file.path("data", file)
  connection <- if (grepl("\\.gz$", file)) gzfile(path, "wb", compression = 9) else file(path, "wb")
  on.exit(close(connection))
  write.csv(table, connection, row.names = FALSE, quote = FALSE)
}

# One 0/1 column per level of a factor, named prefix_level; the first level is left out unless all = TRUE.
dummies <- function(values, prefix, all = FALSE) {
  kept <- levels(values)
  if (!all) kept <- kept[-1]
  columns <- lapply(kept, function(level) as.integer(values == level))
  names(columns) <- paste(prefix, tolower(kept), sep = "_")
  as.data.frame(columns, check.names = FALSE, optional = TRUE)
}

# Counts of successes and failures become two rows each, with the counts as weights (zeros are kept).
two_rows <- function(features, target, successes, failures) {
  n <- nrow(features)
  rows <- rep(seq_len(n), each = 2)
  table <- features[rows, , drop = FALSE]
  table[[target]] <- rep(c(0L, 1L), n)
  table$count <- as.vector(rbind(failures, successes))
  table
}

# birthwt: three dummies for race (all of them, for the aliased case), the mother's weight in kilograms as an exact
# multiple, an offset, and weights that are not whole numbers.
race <- factor(birthwt$race, labels = c("white", "black", "other"))
save_table(data.frame(
  birthwt[c("low", "age", "lwt")], dummies(race, "race", all = TRUE), birthwt[c("smoke", "ptl", "ht", "ui", "ftv")],
  lwt_kg = birthwt$lwt * 0.45359237, half_log_lwt = round(0.5 * log(birthwt$lwt), 6),
  weight = rep(c(0.5, 1.25, 2), length.out = nrow(birthwt))
), "birthwt.csv")

save_table(Pima.tr, "pima.csv")

save_table(na.omit(biopsy)[c(paste0("V", 1:9), "class")], "biopsy.csv")

save_table(two_rows(data.frame(age = menarche$Age), "reached", menarche$Menarche, menarche$Total - menarche$Menarche),
           "menarche.csv")

levels(esoph$agegp) <- sub("\\+", "_up", sub("-", "_", levels(esoph$agegp)))
levels(esoph$alcgp) <- c("0_39", "40_79", "80_119", "120_up")
levels(esoph$tobgp) <- c("0_9", "10_19", "20_29", "30_up")
save_table(two_rows(data.frame(dummies(esoph$agegp, "age"), dummies(esoph$alcgp, "alcohol"),
                               dummies(esoph$tobgp, "tobacco")),
                    "case", esoph$ncases, esoph$ncontrols), "esoph.csv")

education <- factor(infert$education, labels = c("0_5", "6_11", "12_up"))
save_table(data.frame(
  infert[c("case", "age", "parity", "induced", "spontaneous")], dummies(education, "education"),
  education = infert$education, age_offset = round(0.05 * (infert$age - 30), 6)
), "infert.csv")

save_table(data.frame(
  dummies(housing$Infl, "influence"), dummies(housing$Type, "type"), dummies(housing$Cont, "contact"),
  satisfaction = housing$Sat, count = housing$Freq
), "housing.csv")

fgl$RI <- round(fgl$RI, 2)  # two decimals are meant; the package holds 3.00999999999999 for 3.01
save_table(fgl[c("RI", "Na", "Mg", "Al", "Si", "K", "Ca", "Ba", "Fe", "type")], "glass.csv")
save_table(fgl[fgl$type %in% c("WinF", "WinNF", "Veh"), names(fgl)], "glass_windows.csv")

penguins <- na.omit(as.data.frame(palmerpenguins::penguins))
save_table(data.frame(
  penguins[c("species", "island", "bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g")],
  sex_male = as.integer(penguins$sex == "male")
), "penguins.csv")

save_table(data.frame(colour_sex = paste0(crabs$sp, crabs$sex), crabs[c("FL", "RW", "CL", "CW", "BD")]), "crabs.csv")

names(iris) <- c("sepal_length", "sepal_width", "petal_length", "petal_width", "species")
save_table(iris, "iris.csv")

# diamonds: a carat is 2e-4 kg, so that mass_kg and price differ by a factor of about 1e8.
diamonds <- as.data.frame(ggplot2::diamonds)
save_table(data.frame(
  diamonds[c("carat", "depth", "table", "price")], log_price = round(log(diamonds$price), 4),
  mass_kg = diamonds$carat * 2e-4, cut = diamonds$cut, ideal = as.integer(diamonds$cut == "Ideal")
), "diamonds.csv.gz")

# budworm: six doses of cypermethrin for each sex, twenty moths each; log2_dose is the column of Venables and Ripley.
dead <- c(1, 4, 9, 13, 18, 20, 0, 2, 6, 10, 12, 16)
save_table(two_rows(data.frame(sex_male = rep(c(1L, 0L), each = 6), log2_dose = rep(0:5, 2)),
                    "dead", dead, 20 - dead), "budworm.csv")

# Every patient with neovasculation (NV) has a high grade (HG): the classes are quasi-completely separated.
data("endometrial", package = "brglm2")
save_table(endometrial, "endometrial.csv")

data("lizards", package = "brglm2")
levels(lizards$height) <- c("low", "high")
levels(lizards$diameter) <- c("thin", "thick")
save_table(two_rows(data.frame(dummies(lizards$height, "height"), dummies(lizards$diameter, "diameter"),
                               dummies(lizards$light, "light"), dummies(lizards$time, "time")),
                    "grahami", lizards$grahami, lizards$opalinus), "lizards.csv")

# alligators: combinations that were not seen are rows of weight zero.
data("alligators", package = "brglm2")
levels(alligators$size) <- c("small", "large")
save_table(data.frame(
  dummies(alligators$lake, "lake"), dummies(alligators$gender, "gender"), dummies(alligators$size, "size"),
  food = alligators$foodchoice, count = alligators$freq
), "alligators.csv")

# Constructed: x separates the classes completely, z does not.
save_table(data.frame(
  x = c(1, 2, 2.5, 3, 4, 5, 6, 6.5, 7, 8), z = c(1, 0, 1, 1, 0, 0, 1, 0, 1, 0), y = rep(0:1, each = 5)
), "separated.csv")
