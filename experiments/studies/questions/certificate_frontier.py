"""Certificate frontier: how wide must a network be for the a-priori certificate to prove that it converges?

The data are n points of the sphere. The angle between the first two points is given, and determines the smallest
eigenvalue lambda of H_inf. A cell searches for the smallest width at which the certificate holds, as `ntkfl certify
--search` does. The step sizes are those for which the certificate has a closed form: eta_l K = lambda / (5 mu^2) and
eta_g = 1, where mu is the largest eigenvalue of H_inf.
"""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from bounds.fl_ntk.certificates.certificate import a_priori_certificate
from bounds.fl_ntk.theorem_requirements import requirements
from experiments.studies.answers import exponent, joined, upper
from experiments.studies.chart import Chart, Label, Panel, Series
from experiments.studies.study import SEED, Answer, Axis, Cells, Measured, Numbers, Point, Quantity, Study, seeds
from ntkfl import Problem, Setup, data, gram
from ntkfl.initialisation import draw, drawing_bytes
from verification.judging.boundary import boundary

STEPS, CLIENTS = 2, 2
SMALLEST, FIRST, LARGEST, RATIO = 16, 4096, 2**19, 1.1
# Width m >= 310 g^2 |X|^2 r_0^2 / lambda^4 suffices for data X and an initial residual of norm r_0, where g is the
# spectral norm of the matrix of all |G_ij|, and G = X X^T.
CLOSED_FORM = 310
SOURCE = "fl-ntk/B.3-certificate"


def problem_of(samples: int, features: int, degrees: float, seed: int) -> Problem:
    """Points of the sphere, of which the second is at this angle to the first and has the other label.

    The angle is in degrees.
    """
    drawn = data.sphere(samples, features, seed=seed, clients=CLIENTS)
    x, y, angle = drawn.x.copy(), drawn.y.copy(), np.deg2rad(degrees)
    across = x[1] - (x[1] @ x[0]) * x[0]
    x[1] = np.cos(angle) * x[0] + np.sin(angle) * across / np.linalg.norm(across)
    y[1] = -y[0]
    return replace(drawn, x=x, y=y, name=f"{drawn.name}, two points at {degrees:g} degrees").unit()


def measure(point: Point) -> Measured:
    """The smallest certified width (NaN if no width is certified), and the widths that theory requires."""
    problem = problem_of(point["n"], point["d"], point["angle"], point[SEED])
    values = np.linalg.eigvalsh(gram.infinite(problem.x))
    smallest, largest = float(values[0]), float(values[-1])
    setup = Setup(eta_local=smallest / (5 * largest**2 * STEPS), local_steps=STEPS, seed=point[SEED])

    def certifies(width: float) -> bool:
        chosen = replace(setup, width=round(width))
        return a_priori_certificate(problem, chosen, draw(chosen.width, problem.d, chosen.seed)).certified

    steps = {"harder": 0.5, "easiest": LARGEST, "hardest": SMALLEST, "ratio": RATIO}
    edge = boundary(certifies, FIRST, **steps)
    inner, x_norm = np.linalg.norm(np.abs(problem.x @ problem.x.T), 2), np.linalg.norm(problem.x, 2)
    residual = (problem.y**2).sum() + problem.n / 2  # the expectation of r_0^2
    theorem = requirements(problem)
    return {
        "width": np.nan if edge.value is None else float(round(edge.value)),
        "eigenvalue": smallest,
        "complexity": float(inner**2 * x_norm**2 * residual / smallest**4),
        "width_stated": theorem.width_stated,
        "width_proof": theorem.width,
    }


def summarise(cells: Cells) -> Iterable[Answer]:
    """The smallest certified widths, compared with the closed form and with the widths of Theorem B.3.

    Another answer is about the power of the closed form with which the smallest certified width grows.
    """
    width, complexity, stated, proof = (
        cells[name].to_numpy().ravel() for name in ("width", "complexity", "width_stated", "width_proof")
    )
    measured = np.isfinite(complexity)
    never = measured & ~np.isfinite(width)
    none = f"no width up to {LARGEST} certifies {int(never.sum())} of {int(measured.sum())} cells"
    missing = none if never.any() else ""
    # `complexity` is the closed form of the width without its constant factor, at the expected r_0^2. A cell is chosen
    # if its complexity is below that of every cell without a certified width, not because its own width was certified.
    below = measured & (complexity < complexity[never].min(initial=np.inf))

    def at_most(claim: str, source: str, right: np.ndarray, note: str = missing) -> Answer:
        """The answer about a bound on the smallest certified width.

        If no width was certified, the smallest certified width is above the largest width tried.
        """
        left = np.where(never, LARGEST + 1.0, width)
        return upper(claim, source, left, right, np.where(never & (right >= left), np.inf, 0.0), note=note)

    claim = "smallest certified width <= 310 g^2 |X|^2 r_0^2 / lambda^4, r_0^2 = |y|^2 + n/2"
    yield at_most(claim, SOURCE, CLOSED_FORM * complexity, joined("the closed form", missing))
    claim = "smallest certified width ~ g^2 |X|^2 r_0^2 / lambda^4, to the power 1"
    note = joined(missing, "fitted to complexities below the least at which no width certifies" if never.any() else "")
    yield exponent(claim, SOURCE, 1.0, complexity[below], [np.array([value]) for value in width[below]], note=note)
    claim = "smallest certified width <= n^4 log(n/delta) / lambda^4"
    yield at_most(claim, "fl-ntk/B.3, as printed, O-constant 1", stated)
    yield at_most("smallest certified width <= 6.4e7 n^3 r_0^2 / lambda^4", "fl-ntk/B.3, its proof", proof)


def charts(cells: Cells) -> Iterable[Chart]:
    """The width against lambda for each n, and against the closed form, in which n, d and lambda are combined."""
    series = tuple(
        Series(f"n = {size}", "measured", *_ascending(at.eigenvalue, at.width))
        for size, at in ((size, cells.sel(n=size)) for size in cells.n.to_numpy())
    )
    collapsed = Series("every cell", "measured", *_ascending(cells.complexity, cells.width, infinite=True))
    suffices = [CLOSED_FORM * x for x in collapsed.x]
    theory = Series("310 times", "theory", collapsed.x, suffices, of="every cell")
    stated = Series("Theorem B.3's proof asks (dotted)", "bound", *_ascending(cells.complexity, cells.width_proof))
    width = Label("smallest certified width", "neurons", log=True)
    dims = ", ".join(str(d) for d in cells.d.to_numpy())
    yield Chart(
        "certificate-frontier",
        f"Smallest width whose network is certified before training; d = {dims}, {CLIENTS} clients, K = {STEPS}, "
        f"{cells.sizes[SEED]} seeds, every cell a point, known to a factor {RATIO:g}. Right: the "
        "width against g^2 |X|^2 r_0^2 / lambda^4. The points for all n, d and lambda lie on one line. The closed form "
        "asks for a width of 310 times this number.",
        "Certified width falls with the smallest eigenvalue; it lies on one line of slope 1, far below the bounds.",
        (
            Panel("against the smallest eigenvalue", Label("lambda_min(H_inf)", log=True), width, series),
            Panel(
                "against n, d and lambda together",
                Label("g^2 |X|^2 r_0^2 / lambda^4", log=True),
                width,
                (collapsed, theory, stated),
            ),
        ),
    )


def _ascending(x: Numbers, y: Numbers, infinite: bool = False) -> tuple[list[float], list[float]]:
    """A point for every cell that has an x and a y, ordered by x.

    With `infinite`, cells without a y have points too.
    """
    across, up = x.to_numpy().ravel(), y.to_numpy().ravel()
    there = np.flatnonzero(np.isfinite(across) & (infinite | np.isfinite(up)))
    order = there[np.argsort(across[there])]
    return across[order].tolist(), up[order].tolist()


STUDY = Study(
    name="certificate-frontier",
    question="How wide must a network be before the certificate says that it converges, by n, d and lambda?",
    source="repaired Theorem B.3 (docs/proofs/certificates.md#the-a-priori-certificate)",
    axes=(
        Axis("n", (4, 5, 6, 8), "samples", least=1),
        Axis("d", (8, 32), "features", least=1),
        Axis("angle", (40.0, 60.0, 90.0), "angle between the two closest points", "degrees", above=0, below=180),
        seeds(3, "of data and network"),
    ),
    quantities=(
        Quantity("width", f"smallest certified width, to a factor {RATIO:g}", "neurons"),
        Quantity("eigenvalue", "lambda_min(H_inf)"),
        Quantity("complexity", "g^2 |X|^2 r_0^2 / lambda^4"),
        Quantity("width_stated", "width that Theorem B.3 asks for, with an O-constant of 1", "neurons"),
        Quantity("width_proof", "width that the proof of Theorem B.3 needs", "neurons"),
    ),
    measure=measure,
    summarise=summarise,
    charts=charts,
    seconds=lambda point: 0.4 * point["n"],
    megabytes=lambda point: 450 + drawing_bytes(LARGEST, point["d"]) / 1e6,
)
