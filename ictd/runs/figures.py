"""Figures of a finished run and of a sweep, from the files in their folders.

Thin lines are seeds, thick ones medians over the seeds that did not diverge. With parameters for each layer, thin
lines are layers, each the median over seeds.
"""

import re

import numpy as np

from ictd import _checks, _files, plots
from ictd.runs.folder import TABLE, RunError, entries
from ictd.runs.saved import read
from ictd.runs.sweep import read_table

# Larger numbers are those of a seed that diverges; they would flatten all others.
_LARGEST = 1e6
_ROWS = 20  # of one overview
_WEIGHTS = {"$w_R$ (reward)": "estimate", "$w_T$ (target)": "bound", "$w_C$ (current)": "reference"}
_REFERENCES = {"constant": "reference", "certainty_equivalence": "bound", "constructed": "other"}


def write(folder, overwrite=False):
    """Draw the figures of a run, or of a sweep and its finished runs, into their folders.

    Parameters
    ----------
    folder : str or Path
    overwrite : bool
        Replace figures that exist.

    Returns
    -------
    written : list of Path
    kept : int
        Number of figures that exist and were left as they are.
    notes : list of str
        Runs that could not be drawn.

    Raises
    ------
    RunError
        There is no finished run, or a file is damaged.
    OSError
        A figure cannot be written.
    """
    folder, overwrite = _files.file_path("folder", folder), _checks.flag("overwrite", overwrite)
    finished, rows, notes = [], [], []
    if TABLE in entries(folder):
        for row in read_table(folder)["points"]:
            try:
                run = read(folder / row["folder"])
            except RunError as error:
                notes.append(str(error))
                continue
            finished.append(run)
            rows.append(row | run.numbers() | {"status": "finished"})
        if not rows:
            raise RunError(f"{folder} holds no finished run of its sweep")
    else:
        finished.append(read(folder))
    drawings = {run.folder / name: (function, run) for run in finished for name, function in OF_RUN.items()}
    for start in range(0, len(rows), _ROWS):
        drawings[folder / _overview_name(start)] = (_overview, rows[start : start + _ROWS])
    written = [path for path in drawings if overwrite or not path.exists()]
    for path in written:
        function, content = drawings[path]
        _files.write_bytes(path, _file(*function(content)))
    return written, len(drawings) - len(written), notes


# ------------------------------------------------------------------------------------------ one figure each


def weights(run):
    """The three value weights over the steps, with a description; as all functions below."""
    fig, ax = plots.new(3.0)
    history = run.history
    ends = []
    for i, (name, role) in enumerate(_WEIGHTS.items()):
        middle = _curves(ax, run, history["value_weights"][..., i], name, role)
        ends.append(f"{name.replace('$', '')} {_number(middle)}")
    ax.axhline(0, color="black", linewidth=0.8)
    ax.set(xlabel="optimiser step", ylabel=f"value weights ({_thin(run)})")
    plots.legend(ax)
    return fig, f"Value weights over the steps. Medians at the end: {', '.join(ends)}."


def score_matrix(run):
    """The score matrix before and after, of the seed whose value error is the middle one."""
    matrices = run.history["score_matrix"][:, :, -1]
    errors = np.where(run.alive, run.history["value_error"][-1], np.inf)
    k = int(np.argsort(errors, kind="stable")[max(run.alive.sum() - 1, 0) // 2])
    pair = [_finite(matrices[i, k]) for i in (0, -1)]
    d = matrices.shape[-1]
    top = max([float(np.nanmax(np.abs(m))) for m in pair if np.isfinite(m).any()], default=1.0) or 1.0
    fig, axes = plots.new(2.7, columns=2)
    layer = ", last layer" if run.history["score_matrix"].shape[2] > 1 else ""
    for ax, m, when in zip(axes, pair, ("before", "after")):
        shown = m[: plots.MAX_CELLS, : plots.MAX_CELLS]
        if np.isfinite(shown).any():
            plots.matrix(ax, shown, rows="source feature", columns="query feature", limits=(-top, top), values=d <= 4)
        ax.set_title(f"{when} (seed {run.summary['seeds'][k]}{layer})", fontsize=10)
    return fig, f"Heat maps of the score matrix before and after training; largest entry {top:.3g} in size."


def diagonality(run):
    """Mean and smallest diagonal of the kernel over the steps."""
    fig, ax = plots.new(2.8)
    ends = []
    for name, role in (("mean", "estimate"), ("min", "other")):
        values = run.history[f"diagonality_{name}"]
        middle = _curves(ax, run, values, f"{name} over states", role)
        ends.append(f"{name} {_number(middle)}")
    ax.set(xlabel="optimiser step", ylabel=f"kernel diagonal ({_thin(run)})", ylim=(0, 1))
    plots.legend(ax)
    return fig, f"Diagonality of the kernel over the steps. Medians at the end: {', '.join(ends)}."


def value_error(run):
    """The value error over the steps beside those of the reference predictors."""
    fig, ax = plots.new(3.4)
    values = run.history["value_error"][:, :, None]
    middle = _curves(ax, run, values, "trained", "estimate")
    step = run.history["step"]
    texts = [f"trained {_number(middle)}"]
    seen = [_finite(values)]
    for name, role in _REFERENCES.items():
        level = run.summary[f"value_error_{name}"]
        if level is not None and level < _LARGEST:
            plots.line(ax, step[[0, -1]], [level, level], label=name.replace("_", " "), role=role, markers=False)
            texts.append(f"{name.replace('_', ' ')} {level:.3g}")
            seen.append(np.array(level))
    _scale(ax.set_yscale, ax.set_ylim, np.concatenate([np.ravel(v) for v in seen]))
    ax.set(xlabel="optimiser step", ylabel=f"value error ({_thin(run, layers=False)})")
    plots.legend(ax)
    return fig, f"Value error over the steps. At the end: {', '.join(texts)}."


def neu(run):
    """The NEU loss over the steps on a symmetric logarithmic axis, with the interval of a seed's estimate."""
    fig, ax = plots.new(3.0)
    step, alive = run.history["step"], run.alive
    values, errors = (_finite(run.history[name]) for name in ("neu", "neu_standard_error"))
    _thin_lines(ax, step, values, "estimate")
    middle = _median(values[:, alive])
    half = 1.96 * _median(errors[:, alive])
    inside = np.isfinite(middle) & np.isfinite(half)
    if inside.any():
        low, high = middle - half, middle + half
        plots.line(
            ax, step[inside], middle[inside], low=low[inside], high=high[inside], markers=False,
            label="median, 95 % interval",
        )  # fmt: skip
        plots.legend(ax)
    smallest = half[inside & (half > 0)]
    threshold = 10.0 ** np.ceil(np.log10(smallest.min())) if smallest.size else 1e-6
    ax.set_yscale("symlog", linthresh=threshold)
    ax.axhline(0, color="black", linewidth=0.8)
    ax.set(xlabel="optimiser step", ylabel=f"NEU loss ({_thin(run, layers=False)})")
    return (
        fig,
        f"NEU loss over the steps; median {_number(middle[0])} at the start and {_number(middle[-1])} at the end.",
    )


OF_RUN = {
    "figure-weights.svg": weights,
    "figure-score-matrix.svg": score_matrix,
    "figure-diagonality.svg": diagonality,
    "figure-value-error.svg": value_error,
    "figure-neu.svg": neu,
}


def _overview_name(start):
    return f"figure-overview{f'-{start // _ROWS + 1}' if start else ''}.svg"


def _overview(rows):
    fig, ax = plots.new(1.6 + 0.5 * len(rows))
    seen = []
    for name, role in {"median": "estimate", **_REFERENCES}.items():
        x = _finite([row[f"value_error_{name}"] for row in rows])
        label = "trained" if name == "median" else name.replace("_", " ")
        colour, marker = plots.COLOURS[role], {"estimate": "o", "reference": "s", "bound": "^", "other": "D"}[role]
        ax.plot(x, np.arange(len(rows)), linestyle="none", color=colour, marker=marker, markersize=5, label=label,
                zorder=3 if name == "median" else 2)  # fmt: skip
        seen.append(x)
    for y, row in enumerate(rows):
        ends = _finite([row["value_error_min"], row["value_error_max"]])
        ax.plot(ends, [y, y], color=plots.COLOURS["estimate"], linewidth=1.8)
        seen.append(ends)
        text = f"{row['folder']}: pattern in {row['pattern']} of {row['seeds']} seeds"
        note = ax.annotate(text, (0.01, y - 0.3), xycoords=("axes fraction", "data"), va="center")
        note.set_in_layout(False)
    _scale(ax.set_xscale, ax.set_xlim, np.concatenate(seen))
    ax.set(xlabel="value error", yticks=[], ylim=(len(rows) - 0.6, -0.6))
    plots.legend(ax)
    texts = [f"{row['folder']} {_number(row['value_error_median'])}" for row in rows]
    return fig, f"Value errors of the points of a sweep beside references. Medians: {', '.join(texts)}."


# ----------------------------------------------------------------------------------------------- parts


def _curves(ax, run, values, label, role):
    """Thin lines and the median of values (R, K, sets); returns the median at the end."""
    step, values = run.history["step"], _finite(values)
    alive = values[:, run.alive]
    several = values.shape[2] > 1
    thin = np.stack([_median(alive[..., i]) for i in range(values.shape[2])], axis=1) if several else values[..., 0]
    _thin_lines(ax, step, thin, role)
    middle = _median(alive.reshape(len(step), -1))
    there = np.isfinite(middle)
    if there.any():
        plots.line(ax, step[there], middle[there], label=label, role=role, markers=False)
    else:
        ax.plot([], [], color=plots.COLOURS[role], label=label)
    return middle[-1]


def _thin_lines(ax, step, values, role):
    if values.shape[1] > 1:
        ax.plot(step, values, color=plots.COLOURS[role], linewidth=0.6, alpha=0.45)


def _median(values):
    """Median of each row over its finite numbers; NaN where there is none."""
    return np.array([np.median(row[np.isfinite(row)]) if np.isfinite(row).any() else np.nan for row in values])


def _finite(values):
    """Numbers as floats, NaN for None and for what is too large to draw."""
    values = np.array(values, dtype=np.float64)
    return np.where(np.abs(values) < _LARGEST, values, np.nan)


def _scale(set_scale, set_limits, values):
    """A linear scale from 0, or a logarithmic one for numbers of different magnitude."""
    values = values[np.isfinite(values) & (values > 0)]
    if values.size and values.max() > 30 * values.min():
        set_scale("log")
    elif values.size:
        set_limits(0, 1.05 * values.max())


def _thin(run, layers=True):
    several = run.history["value_weights"].shape[2] > 1
    return "thin: layers" if several and layers else "thin: seeds" if len(run.alive) > 1 else "one seed"


def _number(value):
    return "unknown" if value is None or not np.isfinite(value) else f"{value:.3g}"


def _file(fig, alt):
    """A figure as a complete SVG file, black on white."""
    drawing = plots.svg(fig, alt=alt)
    width, height = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', drawing).groups()
    drawing = re.sub(r' width="100%" style="[^"]*"', f' width="{width}pt" height="{height}pt"', drawing, count=1)
    head = '<svg xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" style="background:#fff" '
    return drawing.replace("<svg ", head, 1).encode() + b"\n"
