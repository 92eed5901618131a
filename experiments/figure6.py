"""Figure 6: strict fidelity, the squared error of the predicted change of the score for 1 to 10 removed tokens."""

from typing import Any

import numpy as np

from experiments.classifiers import ARCHS, TITLES
from experiments.harness import Cell, Claim, Lab, Result, Table, mean
from experiments.real import CALLED, SHAP, Measured, measured
from slalom.render.figures.canvas import theme_of

NAMES = [("imdb", arch) for arch in ARCHS]
_LESS = 0.7  # "up to 70% less error"
_REMOVED = 5  # tokens at most, in the queries of SLALOM-fidel
_STYLES = {"joint": "-", "local": "-", "eff": "--", "fidel": "--"}


def run(lab: Lab) -> Result:
    """Measure all methods whose scores have a sign."""
    found = measured(lab, NAMES)
    methods = [name for name in found.methods if any(found.near(where, name) for where in NAMES)]
    tables = []
    series: dict[str, Any] = {}
    for data, arch in NAMES:
        profiles = {name: profile for name in methods if (profile := found.profile((data, arch), name))}
        numbers = sorted({k for profile in profiles.values() for k in profile})
        rows: list[tuple[Cell, ...]] = [
            (CALLED[name], *(profile.get(k) for k in numbers), mean(found.near((data, arch), name)))
            for name, profile in profiles.items()
        ]
        tables.append(
            Table(f"MSE by removed tokens, {TITLES[arch]}, {data}", ("method", *map(str, numbers), "mean"), tuple(rows))
        )
        series[arch] = {name: {str(k): v for k, v in profile.items()} for name, profile in profiles.items()}
    remark = (
        "The paper prints no numbers. Grad has no sign and predicts nothing; ridge on deletions, a linear surrogate fitted to"
    )
    remark += " the same queries as local, is not in the paper."
    return Result(tuple(tables), _claims(lab, found), (*found.remarks, remark), series)


def _claims(lab: Lab, found: Measured) -> tuple[Claim, ...]:
    error = {
        name: float(np.mean([mean(near)[0] for where in NAMES if (near := found.near(where, name))]))
        for name in found.methods
        if any(found.near(where, name) for where in NAMES)
    }
    said = ", ".join(f"{CALLED[name]} {value:.3g}" for name, value in error.items())
    peers = {name: error[name] for name in ("lime", *SHAP, "integrated-gradients", "attnlrp") if name in error}
    best = min(peers, key=lambda name: peers[name])
    claims = [Claim("local (ours) predicts removals better than every peer.", error["local"] < peers[best], said)]
    if lab.quick:
        return tuple(claims)
    less = 1 - error["fidel"] / peers[best]
    inside, other = _fitted(found, "fidel"), min((_fitted(found, name), CALLED[name]) for name in peers)
    return (
        Claim(
            "SLALOM-fidel predicts removals better than LIME, SHAP, IG and LRP.",
            less > 0,
            said,
            f"For the 1 to {_REMOVED} removed tokens that it is fitted on it has {inside:.3g}, the best of these, {other[1]},"
            f" {other[0]:.3g}. Beyond, nothing holds its values: the fit is not regularised.",
        ),
        Claim(
            "It has up to 70% less error than the second best.",
            less >= _LESS,
            f"{_less(error['fidel'], peers[best])} than {CALLED[best]} on average over the models, for 1 to {_REMOVED} removed"
            f" tokens {_less(inside, other[0])} than {other[1]}",
            f"Ours, which is regularised (local), has {_less(error['local'], peers[best])} than {CALLED[best]} with the same"
            " samples.",
        ),
        *claims,
        Claim("local (ours) predicts removals better than SLALOM-fidel.", error["local"] < error["fidel"], said),
        Claim("local (ours) is better than a linear surrogate of the same deletions.", error["local"] < error["ridge"], said),
    )


def _less(one: float, other: float) -> str:
    """Say how much less, or more, one error is than another."""
    return f"{abs(1 - one / other):.0%} {'less' if one < other else 'more'}"


def _fitted(found: Measured, name: str) -> float:
    """Return the error for as many removed tokens as the fit of SLALOM-fidel has seen, on average over the models."""
    profiles = [profile for where in NAMES if (profile := found.profile(where, name))]
    return float(np.mean([error for profile in profiles for k, (error, _) in profile.items() if k <= _REMOVED]))


def draw(result: Result, figure: Any) -> None:
    """Draw one panel an architecture, on a logarithmic scale."""
    figure.set_size_inches(11, 4.4)
    axes = figure.subplots(1, len(result.series), squeeze=False)[0]
    for ax, (arch, profiles) in zip(axes, result.series.items(), strict=True):
        for i, (name, profile) in enumerate(profiles.items()):
            if name == "random":
                continue
            numbers = [int(k) for k in profile]
            points = [point for point, _ in profile.values()]
            wide = 2.4 if name in _STYLES else 1.3
            ax.plot(numbers, points, _STYLES.get(name, ":"), color=f"C{i}", linewidth=wide, label=CALLED[name])
        ax.set_yscale("log")
        ax.set_title(TITLES[arch], fontsize=10)
        ax.set_xlabel("tokens removed")
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(axis="y", color=theme_of("light").line, linewidth=0.5)
    axes[0].set_ylabel("MSE of the change of the log odds")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False, fontsize=9)
