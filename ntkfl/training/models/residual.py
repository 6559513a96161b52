"""A residual block as a torch module."""

from torch import Tensor, nn


class Residual(nn.Sequential):
    """x + body(x), with the body given as the modules of a Sequential; `ntkfl.certify_network` reads it.

    Example:
        >>> from torch import nn
        >>> from ntkfl.training import Residual
        >>> block = Residual(nn.Linear(8, 8), nn.GELU())
        >>> net = nn.Sequential(nn.Linear(4, 8), nn.GELU(), block, nn.Linear(8, 1))
    """

    def forward(self, x: Tensor) -> Tensor:
        """x + body(x), in the shape of x.

        Args:
            x: the body's input, of the same shape as its output.
        """
        return x + super().forward(x)
