"""Fused passes in Triton: rows are read once, and activation, probability, loss and gradient stay on the chip."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def row_products(z, v):
    """Return ``Σ_j z_nj v_j`` of a tile: threads, rows, loads and numbers of a load are its axes."""
    return tl.sum(tl.sum(tl.sum(z * v, axis=3), axis=2), axis=0)


@triton.jit
def curvature_ratio(a, change):
    """Return ``h(a − change) / h(a)`` with ``h = σ(a) σ(−a)``, in float32."""
    here, before = tl.abs(a.to(tl.float32)), tl.abs(a.to(tl.float32) - change)
    root = (1.0 + tl.exp(-here)) / (1.0 + tl.exp(-before))
    return tl.exp(here - before) * root * root


@triton.jit
def store_scaled(B, z, h, there, scale, row, columns, N, M, width, EXACT: tl.constexpr):
    """Write the rows ``√h (z · scale, 1)`` of a tile to ``B``, zeros behind them."""
    root = tl.sqrt(tl.where(there, h, 0.0))[None, :, None, None]
    scaled = tl.where(columns == M, root, root * z * scale)
    if not EXACT:
        scaled = tl.minimum(tl.maximum(scaled, -65000.0), 65000.0)
    kept = (row < N)[None, :, None, None] & (columns < width)
    tl.store(B + row[None, :, None, None] * width + columns, scaled.to(B.dtype.element_ty), mask=kept)


@triton.jit
def store_sums(
    out, loss, longest, residual, gradient, ratio, columns, L: tl.constexpr, S: tl.constexpr, V: tl.constexpr
):
    """Write what a program has summed, and its largest numbers, to its row of ``out``."""
    here = out + tl.program_id(0) * (S * L * V + 4)
    tl.store(here, tl.sum(loss, axis=0))
    tl.store(here + 1, tl.max(longest, axis=0).to(tl.float64))
    tl.store(here + 2, tl.sum(residual.to(tl.float64), axis=0))
    tl.store(here + 3 + tl.reshape(columns, [L, S, V]), tl.sum(gradient.to(tl.float64), axis=1))
    tl.store(here + 3 + S * L * V, tl.max(ratio, axis=0).to(tl.float64))


@triton.jit
def logistic_tiles(
    X, t, s, rows, at, moved, out, B, N,
    M: tl.constexpr, stride: tl.constexpr, BN: tl.constexpr, S: tl.constexpr, L: tl.constexpr, V: tl.constexpr,
    width: tl.constexpr, WEIGHTED: tl.constexpr, INDEXED: tl.constexpr, CENTRED: tl.constexpr, LONGEST: tl.constexpr,
    MOVED: tl.constexpr, EXACT: tl.constexpr, CURVATURE: tl.constexpr, PRODUCTS: tl.constexpr, AHEAD: tl.constexpr,
):  # fmt: skip
    """Sum loss, residual, gradient and longest row of every tile ``pid, pid + programs, …`` into a row of ``out``.

    ``at`` holds two intercepts (of centred rows, and of rows as they are), weights, centre and inverse scale.

    A tile has BN rows of S × L × V columns: V of them are one load, neighbouring L threads share a row, so that they
    read it without gaps, and S such loads follow on one another. The axis of the threads comes first: Triton spreads
    them over the axes in that order. M and the stride are constants of the compiler, which then knows how loads are
    aligned. With ``INDEXED`` the rows are those that ``rows`` names. With ``CURVATURE`` the rows
    ``√h (z · inverse, 1)`` are written to ``B``: their Gram matrix is the Hessian. With ``MOVED`` the largest
    `curvature_ratio` follows on the sums; ``moved`` is intercepts and weights less those before. With ``PRODUCTS``
    (rows without weights), the logarithms of losses are those of products; with ``AHEAD`` (rows without numbers), a
    tile is read before the one at hand is summed.
    """
    wide = tl.float64 if EXACT else tl.float32
    pid, programs = tl.program_id(0), tl.num_programs(0)
    along = (tl.arange(0, S) * (L * V))[None, None, :, None]
    columns = along + (tl.arange(0, L) * V)[:, None, None, None] + tl.arange(0, V)[None, None, None, :]
    inside = columns < M
    weights = tl.load(at + 2 + columns, mask=inside, other=0.0).to(wide)
    if CENTRED:
        middle = tl.load(at + 2 + M + columns, mask=inside, other=0.0).to(wide)
    if LONGEST or CURVATURE:
        scale = tl.load(at + 2 + 2 * M + columns, mask=inside, other=0.0).to(wide if CURVATURE else tl.float32)
    if MOVED:
        turn = tl.load(moved + 2 + columns, mask=inside, other=0.0).to(tl.float32)
        shift = tl.load(moved + (0 if CENTRED else 1)).to(tl.float32)
    gradient, residual = tl.zeros([L, BN, S, V], dtype=wide), tl.zeros([BN], dtype=wide)
    loss, longest = tl.zeros([BN], dtype=tl.float64), tl.zeros([BN], dtype=tl.float32)
    ratio = tl.zeros([BN], dtype=tl.float32)
    intercept = tl.load(at + (0 if CENTRED else 1)).to(wide)
    tiles = tl.cdiv(N, BN)
    source = (pid * BN + tl.arange(0, BN)).to(tl.int64)
    there = source < N
    if INDEXED:
        source = tl.load(rows + source, mask=there, other=0)
    if AHEAD:
        mask = there[None, :, None, None] & inside
        following = tl.load(X + source[None, :, None, None] * stride + columns, mask=mask, other=0.0)
    # A product of 512 factors 1 + e ≤ 2 stays in the range of float64, and needs one logarithm.
    span = programs * (512 if PRODUCTS else 1 << 16)
    for first in range(pid, tiles, span):
        product = tl.full([BN], 1.0, dtype=wide)
        for tile in range(first, min(first + span, tiles), programs):
            row = (tile * BN + tl.arange(0, BN)).to(tl.int64)
            there = row < N
            then = row + programs * BN
            if INDEXED:  # the numbers of the next rows are there when they are needed
                ahead = tl.load(rows + then, mask=then < N, other=0)
            else:
                source = row
            y = tl.load(t + source, mask=there, other=0).to(wide)
            if AHEAD:  # so are the rows
                x = following
                mask = (then < N)[None, :, None, None] & inside
                following = tl.load(X + then[None, :, None, None] * stride + columns, mask=mask, other=0.0)
            else:
                mask = there[None, :, None, None] & inside
                x = tl.load(X + source[None, :, None, None] * stride + columns, mask=mask, other=0.0)
            z = x.to(wide) - middle if CENTRED else x.to(wide)
            a = row_products(z, weights) + intercept
            e = tl.exp(-tl.abs(a))
            r = tl.where(a >= 0, 1.0, e) / (1.0 + e) - y
            value = tl.maximum(a, 0.0) - a * y
            if PRODUCTS:
                product *= tl.where(there, 1.0 + e, 1.0)
            else:
                value += tl.log(1.0 + e)
            h = e / ((1.0 + e) * (1.0 + e))
            if WEIGHTED:
                weight = tl.load(s + source, mask=there, other=0.0).to(wide)
                r, value, h = r * weight, value * weight, h * weight
                there = there & (weight > 0)
            r = tl.where(there, r, 0.0)
            gradient += r[None, :, None, None] * z
            residual += r
            loss += tl.where(there, value, 0.0).to(tl.float64)
            if LONGEST:
                short = z.to(tl.float32) * scale.to(tl.float32)
                longest = tl.maximum(longest, tl.where(there, row_products(short, short), 0.0))
            if MOVED:
                short = z.to(tl.float32) if CENTRED else x.to(tl.float32)
                change = row_products(short, turn) + shift
                ratio = tl.maximum(ratio, tl.where(there, curvature_ratio(a, change), 0.0))
            if CURVATURE:
                store_scaled(B, z, h, there, scale, row, columns, N, M, width, EXACT)
            if INDEXED:
                source = ahead
        if PRODUCTS:
            loss += tl.log(product).to(tl.float64)
    store_sums(out, loss, longest, residual, gradient, ratio, columns, L, S, V)


@triton.jit
def gram_tiles(
    X, t, s, rows, at, out, N,
    M: tl.constexpr, stride: tl.constexpr, BN: tl.constexpr, BM: tl.constexpr,
    WEIGHTED: tl.constexpr, INDEXED: tl.constexpr, AHEAD: tl.constexpr, KIND: tl.constexpr,
):  # fmt: skip
    """Sum the loss, and the Gram matrix of the rows ``(√h z · inverse, √h, r / √h)``, into a row of ``out``.

    As `logistic_tiles` with ``CURVATURE``, of few columns: the scaled rows, of the type ``KIND``, stay on the chip. The
    last column's products are the gradient, as precise as a subsample needs it.
    """
    pid, programs = tl.program_id(0), tl.num_programs(0)
    columns = tl.arange(0, BM)
    inside = columns < M
    weights = tl.load(at + 2 + columns, mask=inside, other=0.0).to(tl.float32)[None, :]
    middle = tl.load(at + 2 + M + columns, mask=inside, other=0.0).to(tl.float32)[None, :]
    scale = tl.load(at + 2 + 2 * M + columns, mask=inside, other=0.0).to(tl.float32)[None, :]
    intercept = tl.load(at).to(tl.float32)
    gram = tl.zeros([BM, BM], dtype=tl.float32)
    loss = tl.zeros([BN], dtype=tl.float64)
    row = (pid * BN + tl.arange(0, BN)).to(tl.int64)
    source = tl.load(rows + row, mask=row < N, other=0) if INDEXED else row
    if AHEAD:
        mask = (row < N)[:, None] & inside[None, :]
        following = tl.load(X + source[:, None] * stride + columns[None, :], mask=mask, other=0.0)
    for tile in range(pid, tl.cdiv(N, BN), programs):
        row = (tile * BN + tl.arange(0, BN)).to(tl.int64)
        there = row < N
        y = tl.load(t + source, mask=there, other=0).to(tl.float32)
        if WEIGHTED:
            weight = tl.load(s + source, mask=there, other=0.0).to(tl.float32)
        if not AHEAD:
            mask = there[:, None] & inside[None, :]
            following = tl.load(X + source[:, None] * stride + columns[None, :], mask=mask, other=0.0)
        z = following.to(tl.float32) - middle
        then = row + programs * BN
        source = tl.load(rows + then, mask=then < N, other=0) if INDEXED else then
        if AHEAD:
            mask = (then < N)[:, None] & inside[None, :]
            following = tl.load(X + source[:, None] * stride + columns[None, :], mask=mask, other=0.0)
        a = tl.sum(z * weights, axis=1) + intercept
        e = tl.exp(-tl.abs(a))
        r = tl.where(a >= 0, 1.0, e) / (1.0 + e) - y
        value = tl.maximum(a, 0.0) - a * y + tl.log(1.0 + e)
        h = e / ((1.0 + e) * (1.0 + e))
        if WEIGHTED:
            r, value, h = r * weight, value * weight, h * weight
        loss += tl.where(there, value, 0.0).to(tl.float64)
        root = tl.sqrt(tl.where(there, h, 0.0))
        quotient = tl.where(root > 0.0, r / root, 0.0)[:, None]
        root = root[:, None]
        scaled = tl.where(columns[None, :] == M, root, root * z * scale)
        scaled = tl.where(columns[None, :] == M + 1, quotient, scaled)
        scaled = tl.minimum(tl.maximum(scaled, -65000.0), 65000.0).to(KIND)
        gram = tl.dot(tl.trans(scaled), scaled, gram)
    here = out + pid.to(tl.int64) * (BM * BM + 1)
    tl.store(here + columns[:, None] * BM + columns[None, :], gram.to(tl.float64))
    tl.store(here + BM * BM, tl.sum(loss, axis=0))


@triton.jit
def label_tiles(y, t, out, N, BLOCK: tl.constexpr):
    """Write the last bit of each label to ``t``; the least, the largest and the sum of a program's to ``out``."""
    pid, programs = tl.program_id(0), tl.num_programs(0)
    first = tl.load(y).to(tl.int64)
    least, total = tl.zeros([BLOCK], dtype=tl.int64) + first, tl.zeros([BLOCK], dtype=tl.int64)
    most = least
    for tile in range(pid, tl.cdiv(N, BLOCK), programs):
        i = (tile * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
        label = tl.load(y + i, mask=i < N, other=0).to(tl.int64)
        tl.store(t + i, (label & 1).to(tl.uint8), mask=i < N)
        total += label
        label = tl.where(i < N, label, first)
        least, most = tl.minimum(least, label), tl.maximum(most, label)
    tl.store(out + pid * 3, tl.min(least, axis=0))
    tl.store(out + pid * 3 + 1, tl.max(most, axis=0))
    tl.store(out + pid * 3 + 2, tl.sum(total, axis=0))


@triton.jit
def spread_tiles(out, n, count, seed, BLOCK: tl.constexpr):
    """Write a row number at random from each of ``count`` equally long stretches of n rows."""
    i = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    start, stop = i * n // count, (i + 1) * n // count
    length = stop - start
    chosen = start + tl.minimum((tl.rand(seed, i.to(tl.int32)) * length.to(tl.float64)).to(tl.int64), length - 1)
    tl.store(out + i, chosen, mask=i < count)


@triton.jit
def packed_tiles(
    X, rows, center, inverse, Z, n, M, stride,
    COPIES: tl.constexpr, INDEXED: tl.constexpr, BN: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    """Write the rows ``(x − center) · inverse`` into ``Z``, in its type, each ``COPIES`` times.

    With ``INDEXED`` the rows are those that ``rows`` names.
    """
    row = (tl.program_id(0) * BN + tl.arange(0, BN)).to(tl.int64)
    columns = tl.program_id(1) * BM + tl.arange(0, BM)
    mask = (row < n)[:, None] & (columns < M)[None, :]
    wide = tl.float64 if Z.dtype.element_ty == tl.float64 else tl.float32
    middle = tl.load(center + columns, mask=columns < M, other=0.0).to(wide)
    scale = tl.load(inverse + columns, mask=columns < M, other=0.0).to(wide)
    source = tl.load(rows + row, mask=row < n, other=0) if INDEXED else row
    x = tl.load(X + source[:, None] * stride + columns[None, :], mask=mask, other=0.0).to(wide)
    z = ((x - middle[None, :]) * scale[None, :]).to(Z.dtype.element_ty)
    for copy in tl.static_range(COPIES):
        tl.store(Z + (row[:, None] * COPIES + copy) * M + columns[None, :], z, mask=mask)


@triton.jit
def softmax_tiles(A, b, t, s, R, out, n, K, factor, BK: tl.constexpr, WEIGHTED: tl.constexpr, PARTS: tl.constexpr):
    """Turn activations ``A`` without intercepts into residuals ``factor · s (p − t)``; sum losses and residuals.

    ``R`` has ``PARTS`` rows for each: the second holds what the first rounds away.
    """
    pid, programs = tl.program_id(0), tl.num_programs(0)
    classes = tl.arange(0, BK)
    inside = classes < K
    wide = A.dtype.element_ty
    intercepts = tl.load(b + classes, mask=inside, other=0.0).to(wide)
    total = tl.zeros([BK], dtype=tl.float64)
    loss = tl.zeros([1], dtype=tl.float64)
    for row in range(pid, n, programs):
        start = (row + tl.zeros([1], dtype=tl.int64)) * K
        y = tl.load(t + row).to(tl.int32)
        a = tl.load(A + start + classes, mask=inside, other=0.0) + intercepts
        a = tl.where(inside, a, float("-inf"))
        own = tl.sum(tl.where(classes == y, a, 0.0), axis=0)
        most = tl.max(a, axis=0)
        e = tl.exp(a - most)
        z = tl.sum(e, axis=0)
        r = e * (1.0 / z) - tl.where(classes == y, 1.0, 0.0).to(wide)
        value = (most - own) + tl.log(z)
        if WEIGHTED:
            weight = tl.load(s + row).to(wide)
            r *= weight
            value *= weight
        r = tl.where(inside, r, 0.0)
        total += r.to(tl.float64)
        loss += value.to(tl.float64)
        scaled = r * factor
        rounded = scaled.to(R.dtype.element_ty)
        tl.store(R + start * PARTS + classes, rounded, mask=inside)
        if PARTS > 1:
            rest = (scaled - rounded.to(wide)).to(R.dtype.element_ty)
            tl.store(R + start * PARTS + K + classes, rest, mask=inside)
    here = out + pid * (BK + 1)
    tl.store(here + tl.arange(0, 1), loss)
    tl.store(here + 1 + classes, total)


@triton.jit
def hessian_tiles(G, Q, slope, H, g, P, width, each, GRADIENT: tl.constexpr, BP: tl.constexpr):
    """Write a row of ``H = each · G + diag(Q)``, P × P in float64; G has rows of ``width``, and its first row last.

    With ``GRADIENT``, G's next column times ``each``, and ``slope``, is written to ``g``.
    """
    i = tl.program_id(0)
    j = tl.arange(0, BP)
    inside = j < P
    line = tl.where(i == 0, P - 1, i - 1) * width
    h = tl.load(G + line + tl.where(j == 0, P - 1, j - 1), mask=inside, other=0.0).to(tl.float64) * each
    h += tl.where(j == i, tl.load(Q + i), 0.0)
    tl.store(H + i * P + j, h, mask=inside)
    if GRADIENT:
        tl.store(g + i, tl.load(slope + i) + tl.load(G + line + P).to(tl.float64) * each)


@triton.jit
def step_tile(
    sums, p, g, info, at, known, before, log, each, P,
    PAIRED: tl.constexpr, FRESH: tl.constexpr, BP: tl.constexpr,
):  # fmt: skip
    """Take one step of L-BFGS with the pair of the last one; see `steps.take_step`."""
    i = tl.arange(0, BP)
    inside, behind = i < P, (i > 0) & (i < P)
    mean = tl.load(known + i, mask=inside, other=0.0)
    Q = tl.load(known + P + i, mask=inside, other=0.0)
    x = tl.load(before + i, mask=inside, other=0.0)
    slope = tl.load(g + i, mask=inside, other=0.0)
    solution = tl.load(p + i, mask=inside, other=0.0)
    direction, curvature = solution, tl.sum(solution * 0.0, axis=0) + 1.0
    if PAIRED:
        dx = x - tl.load(before + P + i, mask=inside, other=0.0)
        dg = slope - tl.load(before + 2 * P + i, mask=inside, other=0.0)
        dp = solution - tl.load(before + 3 * P + i, mask=inside, other=0.0)
        curvature = tl.sum(dx * dg, axis=0)
        alpha = tl.sum(dx * slope, axis=0) / curvature
        direction = (solution - alpha * dp) * (curvature / tl.sum(dg * dp, axis=0))
        direction += dx * (alpha - tl.sum(dg * direction, axis=0) / curvature)
    delta = x - mean
    tl.store(log, tl.load(sums) * each)
    tl.store(log + 1, 0.5 * tl.sum(Q * delta * delta, axis=0))
    tl.store(log + 2, tl.sum(slope * slope, axis=0))
    tl.store(log + 3, tl.sum(slope * solution, axis=0))
    tl.store(log + 4, curvature)
    tl.store(log + 5, tl.load(info).to(tl.float64))
    tl.store(before + P + i, x, mask=inside)
    tl.store(before + 2 * P + i, slope, mask=inside)
    tl.store(before + 3 * P + i, solution, mask=inside)
    if FRESH:
        curved = x
        tl.store(before + 4 * P + i, x, mask=inside)
    else:
        curved = tl.load(before + 4 * P + i, mask=inside, other=0.0)
    x -= direction
    tl.store(before + i, x, mask=inside)
    center = tl.load(at + P + i, mask=behind, other=0.0)
    inverse = tl.load(at + 2 * P - 1 + i, mask=behind, other=0.0)
    w, change = x * inverse, (x - curved) * inverse
    b = tl.sum(tl.where(i == 0, x, 0.0), axis=0)
    moved = tl.sum(tl.where(i == 0, x - curved, 0.0), axis=0)
    tl.store(at, b)
    tl.store(at + 1, b - tl.sum(w * center, axis=0))
    tl.store(at + 1 + i, w, mask=behind)
    tl.store(at + 3 * P - 1 + i, Q * (x - mean), mask=inside)
    tl.store(before + 5 * P, moved)
    tl.store(before + 5 * P + 1, moved - tl.sum(change * center, axis=0))
    tl.store(before + 5 * P + 1 + i, change, mask=behind)
