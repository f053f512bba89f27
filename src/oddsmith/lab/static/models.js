// The models of a pane: titles for people, and what the server is asked for.

export const MODELS = {
  "Discriminative": {
    "logistic:logit": "Logistic, softmax", "logistic:probit": "Probit", "logistic:cloglog": "Complementary log-log",
    "logistic:loglog": "Log-log", "logistic:cauchit": "Cauchit", "logistic:log": "Log link", "logistic:identity": "Identity link",
  },
  "Discriminant functions": { least_squares: "Least squares", fisher: "Fisher", perceptron: "Perceptron" },
  "Generative": {
    "gaussian:shared": "Gaussian, one covariance", "gaussian:separate": "Gaussian, separate", "gaussian:diagonal": "Gaussian, diagonal",
    "gaussian:spherical": "Gaussian, spherical", "gaussian:tied": "Gaussian, first two tied", naive_bayes: "Naive Bayes",
  },
  "Several classes from two": {
    "one_vs_rest:logistic": "One versus rest: logistic", "one_vs_rest:least_squares": "One versus rest: least squares",
    "one_vs_rest:perceptron": "One versus rest: perceptron", "one_vs_one:logistic": "One versus one: logistic",
    "one_vs_one:perceptron": "One versus one: perceptron", "one_vs_one:fisher": "One versus one: Fisher",
  },
};

export const titleOf = (model) => Object.values(MODELS).map((group) => group[model]).find(Boolean) ?? model;

export const BASES = {
  none: "x as it is", standardize: "Standardised", polynomial: "Polynomial", radial: "Radial", kernel: "Kernel", spline: "Spline",
};
/** The number that goes with a basis: field, label, smallest, largest, default. */
export const BASIS_NUMBER = {
  polynomial: ["degree", "Degree", 1, 8, 2], kernel: ["landmarks", "Landmarks", 1, 100, 30], spline: ["knots", "Knots", 3, 12, 5],
  radial: ["width", "Width", 0.05, 20, 1],
};
export const PRIORS = { none: "No prior", gaussian: "Gaussian prior", jeffreys: "Firth (Jeffreys)" };

const SECOND = { logistic: "link", gaussian: "covariance", one_vs_rest: "inner", one_vs_one: "inner" };

export const isLogistic = (model) => model.startsWith("logistic:");
export const takesPrior = (model) => isLogistic(model) || model === "least_squares" || model.endsWith(":logistic");

/** Return the field "model" of a request. */
export function modelFields(pane) {
  const [kind, second] = pane.model.split(":");
  const fields = { kind, basis: pane.basis };
  if (second) fields[SECOND[kind]] = second;
  if (takesPrior(pane.model)) fields.prior = pane.model === "least_squares" && pane.prior.kind === "jeffreys" ? { kind: "none" } : pane.prior;
  return fields;
}
