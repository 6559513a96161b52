"""How far labels may lie from the outputs of a network for it to be certified."""

from ntkfl import interruption
from ntkfl.any_order.certificate import AnyOrderCertificate
from ntkfl.any_order.held_pairs import Grown, grown

RATIO, MOST = 1.2, 100  # the factor between labels' distances that are tried, and the number of such factors


def reach(certificate: AnyOrderCertificate) -> Grown | None:
    """The certificate for labels moved towards the outputs, f + s (y - f), with the largest s at most 1 that certifies.

    s is known to a factor 1.2: the next larger factor that was tried fails, though still larger ones might certify. The
    certificate has the A and W* of s, and the distance of W* is the largest that certifies. None where no s above 1e-8
    would do, or where no W* exists.
    """
    if certificate._grown is None:
        return None
    neurons = certificate._grown.rows.neuron_pass

    def at(power: int) -> Grown:
        return grown(neurons, scale=RATIO**-power, **certificate._limits)

    low, high, best = -1, MOST, at(MOST)  # powers: too few, enough
    if best.why:
        return None
    while high - low > 1:
        interruption.check()
        middle = (low + high) // 2
        now = at(middle)
        if now.why:
            low = middle
        else:
            high, best = middle, now
    return best
