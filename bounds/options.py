"""The user's choices for a run of the verifier.

If the user leaves out an option, the statement's own default is used.
"""

from dataclasses import dataclass

from ntkfl.problem import Setup


@dataclass(frozen=True)
class Options:
    """Data and sizes of the cases on which statements are checked.

    An option that is not listed below has the name of a field of `Setup`, and replaces this field.

    Args:
        data: None (digits and sphere), a data set's name, or a .npz or .csv file.
        unit: whether the data's rows are normalised.
        clients: number of clients that samples are split over.
        partition: how samples are split.
        n: how many samples are drawn from a named data set.
        trials: number of seeds of each family of cases.
        until_decided: whether a share of the cases is checked first, and all cases only if the share does not decide
            the verdict; `trials` must then be None.
        seed: the first seed.
        device: torch's name of the device on which the training engine computes runs of Algorithm 1; None: the
            simulator computes them.
    """

    data: str | None = None
    unit: bool = False
    clients: int | None = None
    partition: str | None = None
    n: int | None = None
    width: int | None = None
    eta_local: float | None = None
    eta_global: float | None = None
    local_steps: int | None = None
    rounds: int | None = None
    sigma: float | None = None
    seed: int = 0
    trials: int | None = None
    until_decided: bool = False
    device: str | None = None

    def setup(self, **defaults) -> Setup:
        """The Setup with the user's choices, and with these defaults where the user chose nothing.

        Args:
            defaults: fields of `Setup`.
        """
        names = ("width", "eta_local", "eta_global", "local_steps", "rounds", "sigma")
        chosen = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        return Setup(**(defaults | chosen))
