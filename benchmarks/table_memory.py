"""Peak memory of fits to tables: ``python -m benchmarks.table_memory [FORM …] [--variants V …] [--times N]``.

The aircraft table of `benchmarks.tables` (327,346 rows; four numbers, carrier, origin, destination and the aircraft
with 4,037 levels), in each form that a table may come in, fitted in each variant; ``--times`` repeats its rows. A fit
runs in a process of its own, twice: the first one also loads modules, pages of libraries and threads' stacks. A figure
is ``1 + (peak − held before) / bytes``, where bytes are the table's own: numbers, codes and their levels, or texts as
the library holds them (16 bytes each in polars, and long ones), and the weights or offsets that are given beside it,
not the labels. Of files, which hold nothing before, it is ``(peak − held before) / bytes``, the bytes being those of
the table with categoricals.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import warnings
from typing import Any

import numpy as np
import pandas as pd

from . import machine, store
from .tables import flights, generated, release

FORMS = (
    "pandas-categorical",
    "pandas-text",
    "pandas-object",
    "polars-categorical",
    "polars-enum",
    "polars-text",
    "arrow-dictionary",
    "arrow-string",
    "parquet",
    "csv",
)
VARIANTS = (
    "plain",
    "weight",
    "offset",
    "float32",
    "indicator",
    "drop",
    "softmax3",
    "softmax10",
    "products",
    "evidence",
    "no-prior",
)
BUDGET = 240  # processor seconds for the table and two fits
MISSING = 0.02  # share of missing values in a number and in a factor


def base(variant: str, times: int, case: str) -> tuple[pd.DataFrame, Any, dict[str, Any]]:
    """Return the table with categoricals, its labels, and what a fit is given besides."""
    if case == "aircraft":
        table = flights(None, aircraft=True, form="categoricals")
    else:
        table = generated(300_000, 6, (5, 60, 800, 6_000), tail=0.9, sigma=1.0)
    frame, y = table.frame, table.y
    if times > 1:
        codes = {name: frame[name].cat for name in table.factors}
        columns: dict[str, Any] = {name: np.tile(frame[name].to_numpy(), times) for name in table.numbers}
        for name, cat in codes.items():
            columns[name] = pd.Categorical.from_codes(np.tile(cat.codes.to_numpy(), times), cat.categories)
        frame, y = pd.DataFrame(columns, copy=False), np.tile(y, times)
    rng, n = np.random.default_rng(0), len(y)
    given: dict[str, Any] = {}
    if variant == "weight":
        given["sample_weight"] = rng.uniform(0.5, 2.0, n)
    if variant == "offset":
        given["offset"] = rng.normal(size=n) / 4
    if variant == "float32":
        frame = frame.astype(dict.fromkeys(table.numbers, np.float32))
    if variant in ("indicator", "drop"):
        for name in (table.numbers[0], table.factors[1]):
            frame.loc[rng.random(n) < MISSING, name] = np.nan if name in table.numbers else None
    if variant.startswith("softmax"):
        classes = int(variant.removeprefix("softmax"))
        late = y + frame[table.numbers[1]].to_numpy() / 2 + rng.logistic(size=n) / 2
        y = np.searchsorted(np.quantile(late, np.arange(1, classes) / classes), late)
    return frame, y, given


def as_form(frame: pd.DataFrame, form: str) -> tuple[Any, int]:
    """Return the table in a form, in buffers of its own, and its bytes."""
    factors = [name for name in frame.columns if isinstance(frame[name].dtype, pd.CategoricalDtype)]
    if form.startswith("pandas"):
        kind = {"text": "str", "object": object}.get(form.removeprefix("pandas-"))
        for name in factors if kind else ():
            frame[name] = frame[name].astype(kind)
        return frame, int(frame.memory_usage(index=False, deep=True).sum())
    import pyarrow as pa

    table = pa.Table.from_pandas(frame, preserve_index=False)
    if form.startswith("arrow"):
        columns = {}
        for name in frame.columns:
            column = table[name].combine_chunks()
            if name in factors and form == "arrow-string":
                column = column.cast(pa.string())
            columns[name] = pa.concat_arrays([column, column[:0]])  # a copy of its own
        table = pa.table(columns)
        return table, table.nbytes
    import polars as pl

    columns = {}
    for name in frame.columns:
        column = pl.Series(name, frame[name].to_numpy() if name not in factors else frame[name].astype("str"))
        if name not in factors:
            columns[name] = column.clone() if column.null_count() else pl.Series(name, column.to_numpy().copy())
        elif form == "polars-categorical":
            columns[name] = column.cast(pl.Categorical)
        elif form == "polars-enum":
            columns[name] = column.cast(pl.Enum(frame[name].cat.categories.to_list()))
        else:
            columns[name] = column
    size = 0
    for column in columns.values():
        size += int(column.estimated_size())
        if column.dtype == pl.String:  # which counts the texts, not where they are
            size += 16 * len(column) - int(column.filter(column.str.len_bytes() <= 12).str.len_bytes().sum())
    return pl.DataFrame(columns), size


def measure(form: str, variant: str, times: int, case: str) -> None:
    """Fit twice in this process, and print the figures."""
    from oddsmith import Design, GaussianPrior, LogisticRegression

    resource.setrlimit(resource.RLIMIT_CPU, (BUDGET, BUDGET))
    warnings.simplefilter("ignore")
    frame, y, given = base(variant, times, case)
    n = len(y)
    size = int(frame.memory_usage(index=False, deep=True).sum())
    options: dict[str, Any] = {"prior": 1.0}
    if variant in ("indicator", "drop"):
        options["design"] = Design(missing=variant)
    if variant == "products":
        names = list(frame.columns)
        a, b = [name for name in names if isinstance(frame[name].dtype, pd.CategoricalDtype)][:2]
        options["design"] = Design(f"{' + '.join(names)} + {a}:{b} + {a}:{names[0]}")
    if variant == "evidence":
        options["prior"] = GaussianPrior(scale="evidence")
    if variant == "no-prior":
        options["prior"] = None
    X: Any
    if form in ("parquet", "csv"):
        folder = tempfile.TemporaryDirectory()
        path = f"{folder.name}/table.{form}"
        names = dict(given)
        for name, values in names.items():
            frame[name], given[name] = values, name
        frame["label"] = np.where(y == 0, "no", "yes") if y.max() == 1 else np.char.add("c", y.astype(str))
        frame.to_parquet(path, index=False) if form == "parquet" else frame.to_csv(path, index=False)
        X, y = path, "label"
        del frame, names
    else:
        X, size = as_form(frame, form)
        del frame
        size += sum(values.nbytes for values in given.values())
    found = []
    for _ in range(2):
        release()
        held = machine.resident_bytes()
        machine.forget_peak()
        model = LogisticRegression(**options).fit(X, y, **given)
        found.append(machine.peak_bytes() - held)
        certified = bool(model.certificate_.converged or not model.certificate_.optimum_exists)
        del model
    record = {"rows": n, "bytes": size, "first": found[0], "second": found[1], "certified": certified}
    print(json.dumps(record), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("forms", nargs="*", default=FORMS, metavar="FORM")
    parser.add_argument("--variants", nargs="*", default=VARIANTS, choices=VARIANTS)
    parser.add_argument("--times", type=int, default=1, help="repeat the rows so many times")
    parser.add_argument("--case", choices=("aircraft", "generated"), default="aircraft")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        measure(given.forms[0], given.variants[0], given.times, given.case)
        return
    print("peak memory, as a multiple of the table's bytes: second fit (first fit)")
    for form in given.forms:
        for variant in given.variants:
            command = [sys.executable, "-m", "benchmarks.table_memory", form, "--variants", variant, "--measure"]
            command += ["--times", str(given.times), "--case", given.case]
            done = subprocess.run(command, capture_output=True, text=True, cwd=store.HERE.parent, check=False)
            if done.returncode:
                problem = done.stderr.strip().splitlines()[-1:] or [f"stopped after {BUDGET} s"]
                print(f"{form:20} {variant:10} {problem[0]}", flush=True)
                continue
            found = json.loads(done.stdout.splitlines()[-1])
            held = 0.0 if form in ("parquet", "csv") else 1.0
            first, second = (held + found[which] / found["bytes"] for which in ("first", "second"))
            more = "" if found["certified"] else " not certified"
            print(
                f"{form:20} {variant:10} {second:5.2f} ({first:5.2f})  {found['bytes'] / 1e6:7.1f} MB"
                f"  +{found['second'] / 1e6:7.1f} MB{more}",
                flush=True,
            )


if __name__ == "__main__":
    main()
