"""Every threshold of the solvers and of the plan, each with the reason or the measurement that chose it.

Times in the remarks were measured on one machine with two cores, minimum of several runs; names refer to cases in
``benchmarks/``. "Work" refers to ``python -m benchmarks.policy``, which halves and doubles each threshold. A remark
applies to all constants above it that have none.
"""

from __future__ import annotations

from dataclasses import dataclass

from oddsmith.errors import InvalidInputError


@dataclass(frozen=True, kw_only=True)
class Policy:
    """The thresholds that choose between algorithms and end their stages.

    They affect speed, not the optimum; `largest_hessian` also determines which fits have standard errors.
    """

    # Storage and coordinates.
    large_elements: float = 1_500_000
    """Size from which a table counts as large: centre and scale come from a sample, and the fit starts on one."""
    coordinate_rows: int = 4000
    """Rows for centre and scale of large data; approximate values suffice (dense-100: 1 ms instead of 40)."""
    coordinate_elements: int = 400_000
    """Numbers of those rows; of 500 columns half the rows gave the same number of iterations."""
    shown_rows: int = 8
    """Rows that must differ from a column's commonest value for a sample to represent it: fewer misled 1 fit in 20."""
    one_thread_products: float = 2e7
    """Products for a Hessian that one thread sums as fast as two (growth-n, 4,000 × 40)."""
    one_thread_elements: float = 1e6
    """Numbers, times classes, that one thread reads as fast as two (4,000 × 160: 0.29 ms against 0.40)."""
    far_center: float = 1e4
    """Distance of a column's mean from zero, in standard deviations, from which it is centred before summing, sparse or
    not: its sums would lose eight digits."""
    small_slices: int = 4
    """Slices of a small table on several threads; eight were 5% slower at 70,000 × 20."""

    # Which solver.
    largest_hessian: int = 2500
    """Weights up to which a Hessian is formed: 50 MB and 1.3 s of Cholesky at the limit."""
    sparse_hessian: int = 800
    """Weights up to which a fit under a LaplacePrior forms the Hessian of all; beyond, that of a working set."""
    sparse_products: float = 3e7
    """Products of a Hessian (rows × weights²) up to which every proximal Newton step forms one: some milliseconds."""
    sparse_rows_per_weight: int = 20
    """Rows for each weight from which a sample is a start for a fit under a LaplacePrior."""
    sparse_stride: int = 8
    """Stride of a path whose passes are long: every eighth scale is fitted first, the others between two of them."""
    sparse_batch_bytes: float = 1e8
    """Memory for the Hessians of scales that advance together."""
    sparse_batch_rounds: int = 12
    """Passes after which a scale goes on alone."""
    fold_range_rows: int = 1000
    """Rows of a range that the same folds are trained and tested on, on average, so that all folds read it together."""
    fold_group: float = 1.0
    """How far the activations of neighbouring scales may be apart that share the Hessians of folds (50,000 × 200, and
    30,000 × 200 correlated, five folds: 1.24 and 1.10 CPU s with 0.15, 1.16 and 1.06 with 0.6, 1.07 and 0.94 with 1.2,
    1.03 and 0.98 with 2.4)."""
    fold_hessian_rounds: float = 4.0
    """Most that the Hessian of a group may cost, in gradients of all its points: it saves about as many (1.23 and 1.44
    CPU s with 1, 1.16 and 1.06 with 3, 1.07 and 1.02 with 6, 1.05 and 1.01 with 20)."""
    sparse_rounds: int = 40
    """Most times that a working set of columns grows."""
    sparse_tight: float = 4.0
    sparse_slow: float = 0.3
    sparse_last_steps: int = 4
    """When a descent ends whose duality gap is within the tolerance: the gap is at most ``sparse_tight`` times the gain
    that its model predicts, a step leaves more than ``sparse_slow`` of it, or ``sparse_last_steps`` more were taken."""
    sparse_refinements: int = 10
    """Most times that the minimum of a last model is refined, while that halves what is missed of its conditions."""
    sparse_accuracy: float = 1e-18
    """What the last step of a descent may have to gain, relative to the objective and to the size of the weights: these
    are the same on every engine (of a table of 900 rows, Dask's differed from those in memory by 1.2e-7 without a last
    step, by 2e-9 with it; of 15,000 × 50 by 2.4e-8 relative to the objective alone, by 1.5e-9 relative to both)."""
    dual_corrections: int = 4
    dual_products: int = 200
    """Times that residuals are moved until they meet the conditions of an optimum, and most products of each."""
    sparse_fallback: int = 600
    """Columns up to which their Hessian is formed where products in single precision do not tell them apart."""
    dual_always: float = 1e6
    """Numbers in the columns of a working set up to which residuals are corrected at every point: a millisecond. Paths
    over tables up to this size end with weights of nine digits."""
    sparse_polish: float = 1e7
    sparse_digits: float = 1e-8
    """Numbers of a table of two classes up to which paths by columns end with weights of nine digits too (1,500 ×
    1,000, 50 scales: 0.27 → 0.50 s, errors of the weights 2e-4 → 4e-11), and the tolerance from which on all do (2,000
    × 10,000: 0.55 → 1.57 s)."""
    sparse_curvature_change: float = 0.7
    """How far activations may be from those of the Hessian by which residuals are moved: curvatures within a factor of
    2."""
    dual_rows_per_weight: tuple[int, int] = (10, 100)
    dual_row_passes: float = 2.0
    """Rows for each weight, at least and at most, of a subsampled Hessian where the whole one is costly, and its cost
    in gradients of all rows."""
    eliminated_columns: int = 200
    eliminated_levels: int = 100
    """Columns of a table, and levels of its largest factor, from which that factor is eliminated from the Hessian."""
    eliminated_elements: float = 1e7
    """Numbers between the factor eliminated and all other weights: 80 MB for each thread."""
    eliminated_products: tuple[float, float] = (2e9, 2e10)
    """Products for an elimination, with a prior and without: beyond, truncated Newton is faster (200,000 rows with
    factors of 3,000 and 2,000 levels: 17 s → 0.4 s), but without a prior its certificate is an estimate."""
    far_factor: float = 1e3
    """Distance of a numeric column's mean from zero, in standard deviations, from which no factor is eliminated beside
    it: that would lose six digits."""
    table_sample: float = 1 / 12
    """Part of the rows of a table on which a fit with a prior starts (flights: a 40th takes another Hessian)."""
    exact_classes: int = 3
    """Most classes of which it is the exact Hessian, if there is room. Of more, rows share one that mixes the classes
    alike (4,000 levels with classes of their own: three classes 0.9 s, 1.3 s with the common one; five 2.4 s → 1.5 s;
    where they mix alike, five 2.1 s → 1.0 s, ten 13 s → 2.7 s)."""
    class_products: float = 2e10
    """Products that eliminating the largest factor of a table of several classes may take: half a second, two cores."""
    table_margin: float = 0.5
    """Share of the gap allowed at which the Hessian of all rows of a table at an earlier point is asked to certify."""
    table_near: tuple[float, float] = (0.1, 0.005)
    """Root mean square of the change of activations by a step, from which on a Hessian follows it; and the same for all
    digits, where the Hessian must contract the rest many times (flights: 17 ms with 0.03 … 0.15; 50,000 groups: Newton
    steps alone 184 ms, 160 ms)."""
    table_steps: int = 3
    """Gradient steps after which progress is so slow that a Hessian follows (flights with the aircraft: 2 take 63 ms, 3
    and 6 52 ms; 50,000 groups 315, 307 and 320 ms). Each keeps a pair of vectors."""
    table_room: float = 0.1
    """Share of a table's bytes that the sums of a Hessian in four slices may take; with more, there are two slices."""
    table_slice_rows: int = 1 << 16
    """Rows of a slice of a table in a pass for the Hessian, whose sums take 0.1 ms to make and merge (flights: 16
    slices 5.3 ms, 4 slices 3.7 ms)."""
    largest_summary: int = 5000
    """Weights up to which a summary forms the Hessian that the fit did without (3,201 weights: 10 s on one core)."""
    sparse_columns: int = 400
    """Columns of sparse rows with a prior from which products beat the Hessian (5,000 × 2,000: 5.2 s → 41 ms; with 800,
    a factor of 400 levels takes 2.4 times as long)."""
    gradient_weights: int = 40
    gradient_products: float = 1e7
    """Weights, and products for a Hessian, from which it costs several gradients (12,000 × 800: 703 → 90 ms; half the
    products: 4,000 × 40 0.74 of the work, correlated 1.25)."""
    kernel_gradient_weights: int = 20
    kernel_gradient_products: float = 2e6
    """The same of dense rows with a prior, of which a kernel runs L-BFGS (10,000 × 30: 4.1 → 2.5 ms; 300 × 100: 3.1 →
    1.6)."""
    kernel_gradient_elements: float = 3.5e6
    """Numbers of a large table of two classes with many weights up to which this holds as well; beyond, a copy in half
    precision is read faster (10,000 × 300: 22 → 13 ms; 20,000 × 200 33 → 35, 12,000 × 800 71 → 84)."""
    stalled_newton_products: float = 1.5e7
    """Products of a Hessian up to which Newton's method takes over where L-BFGS stalls (300 × 100, correlated)."""
    row_space_weights: int = 400
    row_space_columns: float = 4.0
    """Rows, times the contrasts of classes, up to which a fit with a prior is solved over combinations of the rows, and
    columns for each row from which (100 × 2,000: 530 → 6 ms; 300 × 1,000 takes 11.1 ms so and 4.6 ms by columns,
    correlated 11.7 and 12.5 ms)."""
    row_space_margin: float = 1e-4
    """Part of the tolerance to which a search over combinations of the rows goes on (with 1, weights of 250 × 500 have
    six digits; 300 × 1,000, correlated, by L-BFGS instead of Newton's method: 28.9 → 13.1 ms of CPU time)."""
    gradients_alone_products: float = 2e7
    """Products from which a fit with a prior ends by gradients, and forms one Hessian, for its standard errors
    (4,000 × 160: 9.8 → 7.2 ms; 300 × 300, correlated: 14.6 → 10.9)."""
    deferred_products: float = 2e8
    """Products from which the Hessian of a fit with a prior is formed only on demand: it would take longer than the fit
    (1,000 × 1,000: 160 → 40 ms)."""
    gradient_rows_per_weight: int = 4
    """Without a prior, fewer rows per weight are likely to be separated, which Newton's method detects best."""
    rows_per_weight: int = 60
    """Rows for each weight from which a large table begins on a subsample (dense-20: 101 → 54 ms)."""
    rows_per_weight_wide: int = 8
    """The same with a prior and many weights, where a Hessian of all rows is never formed (12,000 × 800:
    with 16 it takes 15 times the work)."""
    small_rows: tuple[int, int] = (60_000, 5000)
    small_rows_per_weight: int = 150
    """Rows from which a small table begins on a subsample, of two classes and of more (30,000 × 10 of five classes:
    23 → 15 ms; of two, 20,000 × 50 took 12 ms with a subsample, 7 without, and 100,000 × 10 10 and 12)."""
    drawn_rows_per_weight: int = 10
    """Rows for each weight of a sample that was drawn from files: with fewer it is the start only."""

    # Subsampled quasi-Newton.
    many_weights: int = 150
    """Weights from which a subsample is searched by gradients instead of Newton's method (dense-500: 137 → 120 ms;
    60,000 × 30 of ten classes with 300: 5 times the work)."""
    start_rows: int = 1000
    start_rows_per_weight: tuple[int, int] = (4, 2)
    """Rows of the smaller subsample, at least, and for each weight: four, of many weights two. Half the rows: 1.5 times
    the work with a rare class (400,000 × 20); half of those for each weight: 5 times at 12,000 × 800."""
    start_fraction: float = 1 / 16
    """Part of the rows that is a start, or is computed once by a basis: its search costs less than one pass (an eighth:
    40,000 × 500 0.88 of the work, 40,000 × 300 correlated 1.07)."""
    subsample_fraction: float = 1 / 8
    """The larger subsample is no more of the rows than this: reading it five times is less than a pass (a quarter:
    200,000 × 100 1.13 of the work; a sixteenth: maximum likelihood at 400,000 × 20 1.16)."""
    subsample_least_per_weight: int = 10
    """Rows for each weight that the larger subsample has in any case: below, its Hessian is mostly noise."""
    noisy_rows_per_weight: int = 40
    """With fewer rows per weight, correlations are shrunk by their noise."""
    sampling_error: float = 0.1
    """How far a search on a subsample goes, in units of the distance between its optimum and that of all rows (half or
    twice of it: 0.9 to 1.06 of the work)."""
    sample_iterations: int = 40
    """Most iterations of a search on a subsample: those that need more are ended on all rows."""
    subsample_elements: int = 1_000_000
    """Numbers of the larger subsample: it stays in the cache (dense-20, 48,000 rows of 10,000 … 200,000 tried)."""
    subsample_rows_per_weight: int = 400
    """Rows for each weight whose Hessian is within 5% of that of all rows: four passes instead of five (dense-100)."""
    lazy_elements: int = 4_000_000
    """Numbers of a subsample of rows that a basis computes: they are computed once for it, in every pass otherwise."""
    gradient_bytes_per_second: float = 30e9
    gradient_flops: float = 20e9
    hessian_flops: float = 55e9
    """Rates that size the larger subsample: its Hessian may cost two passes for the gradient."""
    full_iterations: int = 60
    """L-BFGS iterations on all rows; nearly separated classes take hundreds, and Newton's method ends those."""
    easy_iterations: tuple[int, int, int] = (7, 12, 20)
    """Iterations in which L-BFGS finds a subsample's optimum if columns hardly depend on each other: at once; in time,
    to the sampling error; in time, to a hundredth of it (softmax-10: 145 → 105 ms without a Hessian of all weights;
    half the iterations: 12,000 × 800 takes 6 times the work)."""
    own_optimum: float = 0.01
    independent_shrinkage: float = 0.6
    """Shrinkage of a subsample's correlations from which they count as noise (50,000 × 1,000: 198 → 140 ms)."""
    hessian_weights: int = 50
    """Weights from which a Hessian of all rows takes several gradients, so that one must do."""
    polish_tolerance: float = 0.1
    """Standard errors, in units of the tolerance, that a polished fit may be from the optimum."""
    polish_distance: tuple[float, float] = (1e-6, 1e-3)
    polish_margin: float = 0.7
    """Standard errors from the optimum at which the Hessian of the last step is formed, at least and at most; and the
    part of the distance allowed that a step is to stay within, so that no second Hessian is needed (1.4: 1.1 times the
    work at 30,000 × 30 and 100,000 × 10; 0.35: 1.17 times at 400,000 × 20)."""
    certificate_margin: float = 0.1
    """A certificate is tried once the preconditioner predicts a gap of the tolerance, times this over the subsample's
    fraction: it misses by no more than that."""
    misleading: float = 1.5
    """Growth of the objective that indicates rows not represented by the subsample (with 0.75 every subsample misleads:
    1.1 to 1.5 times the work)."""

    # Progressive batching.
    batch_start: int = 4
    """Size of the subsample that batches start from without a search, in units of the one for a search (with two, a
    rare class takes 1.5 times the work)."""
    batch_ratio: float = 2.0
    """Growth of the rows seen from batch to batch (1.6 … 4.5 tried on dense-20: 23.7 ms against 24.1 … 26)."""
    batch_last: float = 0.5
    """With more of the rows than this, all others are one batch."""
    batch_excess: float = 0.25
    """Factor by which batches may exceed the subsample that they replace: they are read in place, without a copy."""
    batch_gradient: float = 8.0
    """Factor by which a batch's squared gradient may exceed its expectation before it counts as different."""
    batch_curvature: tuple[float, float] = (0.25, 4.0)
    """Limits of a batch's curvature relative to the subsample's, in any direction; beyond, rows are repetitive."""
    whole_rows_per_weight: int = 28_000
    whole_fraction: float = 0.35
    whole_least: float = 0.15
    """Rows for each weight whose Hessian ends a fit with the second pass, if they are no more than the first fraction
    of the rows (and the second one, where that is cheap; 10,000,000 × 20: 192 → 144 ms; at 1,000,000 × 20 it costs as
    much as the third pass)."""
    whole_weights: float = 15.0
    whole_passes: tuple[float, float] = (0.25, 0.9)
    """Weights at which a row's Hessian costs as much as its gradient; what it may always cost, and at most, in
    passes."""

    # Mixed precision.
    half_columns: tuple[int, int] = (150, 16)
    """Columns from which half precision pays, of two classes and of more (dense-500: 120 → 111 ms)."""
    half_bytes: int = 1 << 28
    """Memory of a copy in half precision."""
    near_hessian: tuple[float, float] = (0.15, 1.0)
    """Standard errors per weight from the optimum at which the Hessian is nearly that of the optimum, of two classes
    and of more (softmax-10: 15 → 11 low-precision passes with 1.0 instead of 0.05)."""
    half_progress: float = 0.2
    """Share of the exact gradient that a low-precision search may leave."""
    half_iterations: int = 25
    half_rounding: float = 1e-7
    """Relative rounding of a sum over half-precision rows, with room to spare."""
    half_hessian_rounding: float = 5e-4
    """Relative error of their Hessian, times √(columns / rows)."""
    half_margin: float = 0.2
    """A search goes on to this part of the gradient that a certificate needs: it costs little there."""

    # On a device.
    device_rows_per_weight: tuple[tuple[int, int], tuple[int, int]] = ((50, 500), (24, 40))
    """Rows for each weight of the smallest subsample there, at least and at most a tenth of the largest, of few weights
    and of many: Newton steps on it leave about its sampling error, and the next one takes that off."""
    device_least_rows_per_weight: int = 8
    """Rows for each weight that a subsample has even if they are more than a quarter of all."""
    device_many_rows: int = 50_000
    device_share: tuple[float, float] = (0.262, 2200.0)
    """Rows for each weight of the largest subsample, at most; and the share of the rows whose Hessian costs less than
    the pass that it saves, of few weights, with the number of weights that halves it (H200, 20,000,000 × 100: two
    passes; 2,000,000 × 1,000: four)."""
    device_gain: float = 1.45
    device_passes: int = 4
    """What a step with the Hessian of a subsample leaves of the decrement, in units of ``√(P / n)``: 1.2 to 1.45 where
    it was measured; and how many passes at most follow on one another unseen."""
    device_sampling_error: float = 1.0
    device_known_error: float = 1.5
    device_contraction: float = 0.3
    """How far a search on a subsample there goes, in units of its sampling error, with a Hessian of its own and with
    that of a smaller one; and the decrement that a Newton step leaves, in units of its square."""
    device_certificate_rows: tuple[tuple[int, int], tuple[int, int]] = ((300, 4000), (20, 50))
    device_certificate_margin: float = 2.5
    """Rows for each weight, at least and at most, of few weights and of many, whose Hessian in float64 certifies; and
    how many times those that the expected decrement needs."""
    device_shifts: tuple[float, ...] = (0.25, 0.03, 4e-3, 5e-4, 6e-5, 8e-6, 1e-6, 1e-7, 1e-8)
    """Parts of its diagonal that are taken off that Hessian, one after the other, to bound its smallest eigenvalue."""
    device_least_rows: int = 20_000
    """Rows from which a fit on a device begins on a subsample; fewer are a few launches of kernels anyway."""
    softmax_rows: int = 65_536
    softmax_share: float = 0.5
    softmax_memory: int = 10
    softmax_overshoot: float = 0.5
    softmax_start_iterations: int = 12
    softmax_iterations: int = 40
    softmax_progress: tuple[float, float] = (0.005, 1e-4)
    softmax_goal: float = 0.3
    softmax_patience: int = 3
    softmax_enough: float = 0.7
    softmax_intercept_steps: int = 3
    """Softmax on a device: rows of a subsample, at least; share of the rows that the preconditioner is from; pairs that
    L-BFGS keeps; the slope at the end of a step, against that at its beginning, from which it is too long; iterations
    on a subsample, and between two gradients in float64; what such a search leaves of the gradient, uncorrected and
    corrected; the gradient, against that which the tolerance allows, to search for, evaluations without progress after
    which a search ends, and the gradient to end at; Newton steps of the intercepts at the end (H200, 1,281,167 × 768 of
    1,000 classes: about 50 passes)."""

    # L-BFGS and Newton.
    newton_digits: float = 0.01
    """Newton stops at this share of the tolerance, in standard errors, so that all digits that R prints are correct."""
    fused_weights: int = 64
    fused_steps: int = 8
    """Weights of a small table up to which a kernel takes Newton steps, and how many: fits that need more may be
    separated (4,000 × 40: 3.3 → 2.5 ms; of more weights LAPACK's factor is faster)."""
    fused_elements: float = 1e7
    fused_slice_elements: float = 8e4
    fused_slices: int = 8
    """Numbers of a table, times the contrasts of its classes, up to which a kernel runs L-BFGS (a larger one takes so
    long for a pass that the interpreter does not count), and from which it does in slices, for several threads."""
    kernel_hessians: int = 20
    kernel_hessian_rate: float = 10.0
    """Hessians in single precision, at most, that precondition L-BFGS in the kernel, and the products of one in the
    time in which a pass for the gradient reads a number (CPU time of 1,000 × 300: 8.2 → 6.2 ms, correlated 11.8 → 7.3;
    1,000 × 1,000, correlated: 135 → 56; 5 and 20 instead of 10: 6.7 and 7.8, 7.5 and 7.8, 50 and 129)."""
    rough_weights: int = 8
    """Weights above which the kernel, if there is a prior, sums the Hessians of its first steps in single precision
    (its steps on 3,000 × 30: 0.95 → 0.81 ms, on 3,000 × 10: 0.24 → 0.21)."""
    separated_ratios: tuple[float, float] = (0.15, 0.75)
    """Range of the ratio of squared decrements, four times in a row, that indicates separated classes: theory says
    1/e."""
    memory: int = 10
    halvings: int = 12
    """Total number of step halvings after which L-BFGS is given up, because its preconditioner is wrong."""
    armijo: float = 1e-4
    smallest_step: float = 2.0**-30
    same_activation: float = 1e-9
    """Change of activations up to which a step leaves the Hessian unchanged to nine digits, so that no pass checks
    it."""
    diagonal_iterations: int = 100
    column_stall: int = 10
    column_patience: tuple[int, float, int] = (60, 0.3, 150)
    diagonal_stall: int = 4
    diagonal_patience: tuple[int, float] = (30, 0.1)
    """Most iterations of diagonally preconditioned L-BFGS (1,000 × 1,000: 72 → 39 ms instead of 40 iterations and a
    Hessian); iterations from which its speed is known, later those of the last third; and what a Hessian costs, in
    passes for the gradient, at least, for each weight, and at most: a search goes on while its end is nearer than that.
    First where columns alone are the preconditioner (300 × 300: 7.1 → 4.2 ms, 300 × 1,000: 69 → 5), then with a Hessian
    (1,800 × 64 of ten classes: 49 → 14 ms; 300 × 300, correlated, with the values above: 8.9 → 16)."""
    diagonal_hessians: int = 6
    diagonal_near: float = 1e-5
    """Standard errors from the optimum where one Newton step gives all digits."""
    prior_margin: float = 1e-12
    """Part of the allowed gap to which gradients lead on before a certificate by the prior: weights have ten digits, on
    any storage (ten tables of 3 to 10 classes: at most 1.4e-11 from Newton's; at 1e-9, 1e-9, and a tenth faster)."""
    diagonal_trust: float = 0.1
    """A Hessian whose prediction is off by more than a factor of ten is not followed (cells of 1e6: 11 → 1.4 times)."""
    near_objective: float = 1e-2
    """Squared decrement, in units of the objective, from which truncated Newton tries certificates."""
    cg_products: int = 250
    """Maximum number of products for one step."""
    cg_tolerance: tuple[float, float] = (0.3, 0.01)
    """Residual to which truncated Newton solves for a step, far from the optimum and near it."""
    last_residual: float = 1e-3
    """Residual to which it solves for the steps after the certificate, which give all digits (three classes of 20,000
    to 100,000 rows with 4,000 levels, in memory and on Dask: 1e-3 to 6e-5 apart without them)."""
    last_margin: float = 1e-15
    """Part of the allowed gap at which they end."""
    value_rounding: float = 1e-13
    """Rise of the objective, as a share of it, that rounding may explain in those steps."""
    certificate_products: int = 20
    """Products that take less time than the Hessian of a subsample (50,000 × 1,000: 198 → 140 ms)."""
    bound_residual: float = 1e-3
    bound_products: int = 500
    """Residual, and most products, of an estimate of the decrement where nothing bounds the Hessian."""
    narrow_change: float = 0.2
    """Change of activations up to which most of the curvature remains, so that it is not computed exactly."""

    def __post_init__(self) -> None:
        if not self.batch_ratio > 1.0:
            raise InvalidInputError(f"batch_ratio must be above 1, or batches never end; found {self.batch_ratio!r}.")


POLICY = Policy()
"""The current policy."""
