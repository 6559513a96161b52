"""Tests of learning rates and numbers of passes as functions of the round.

The functions are IMA's mild exploration, and the alternatives to it in the IMA paper and in its code.
"""

import numpy as np
import pytest
from tiny_federations import SIZES, on_classes

from ntkfl.training.config import checked
from ntkfl.training.engine.local_plan import FewerEpochs, LocalWork
from ntkfl.training.runs.training_run import assembled
from ntkfl.training.schedules import Cyclic, Exponential, MildExploration, ReleasedCycle, Switched


def test_mild_exploration_decays_faster_from_the_start_on():
    mild, base = MildExploration(0.1, 30), Exponential(0.1, 0.99)
    for t in range(60):
        expected = 0.1 * 0.99**t if t < 30 else 0.1 * 0.99**30 * 0.97 ** (t - 30)
        assert abs(mild(t) - expected) < 1e-16
    assert mild(30) == base(30) and mild(31) < base(31)


def test_with_the_same_decay_or_a_start_after_the_end_it_is_exponential():
    for mild in (MildExploration(0.1, 5, 0.9, 0.9), MildExploration(0.1, 50, 0.9, 0.5)):
        assert np.allclose([mild(t) for t in range(40)], [0.1 * 0.9**t for t in range(40)], rtol=1e-14)


def test_a_cycle_meets_both_of_its_ends_on_a_straight_line():
    cycle = Cyclic()
    rates = np.array([cycle(t) for t in range(60)])
    assert rates[0] == 1e-2 and abs(rates[19] - 5e-5) < 1e-17 and np.array_equal(rates[:20], rates[40:])
    assert np.allclose(np.diff(rates[:20]), (5e-5 - 1e-2) / 19)


def test_the_released_cycle_goes_from_the_rate_reached_down_and_up_to_near_twice_that():
    """The released cycle falls from the first rate and rises to nearly twice that rate.

    The expected rates are those of IMA's printed code for lr_max = .01 .99^300, lr_min = 5e-5 and ima_stage = 20. In
    the code the second half of a period begins at round 10.
    """
    high = 0.01 * 0.99**300
    cycle = ReleasedCycle(high, 5e-5, 20)
    rates = [cycle(t) for t in range(40)]
    assert rates[:10] == pytest.approx([high - t * (high - 5e-5) / 10 for t in range(10)])
    assert rates[10:20] == pytest.approx([5e-5 + t * (high - 5e-5) / 10 for t in range(10, 20)])
    assert rates[:20] == rates[20:] and rates[10] == pytest.approx(high)
    assert (min(rates), max(rates)) == (pytest.approx(9.4e-5, rel=0.01), pytest.approx(8.9e-4, rel=0.01))


def test_imas_schedules_as_released():
    """IMA's schedules are as in the released code.

    With the exploration "epochs", in which the number of local passes decreases, the rate returns to its first value
    when averaging starts. Cycles are those of the released code, and averaging begins one round later.
    """

    def of(exploration, released=True):
        keys = {"ima": True, "ima_exploration": exploration, "ima_released": released, "rounds": 40, "clients": 4}
        keys |= {"rate": 0.01, "rate_decay": 0.9, "samples": 80, "test": 20, "model": "mlp:4"}
        return assembled(checked(keys))

    decayed = [0.01 * 0.9**t for t in range(40)]
    assert [of("epochs").schedule(t) for t in range(40)] == pytest.approx(decayed[:30] + decayed[:10])
    assert [of("epochs", False).schedule(t) for t in range(40)] == pytest.approx(decayed)
    cycle = ReleasedCycle(decayed[30], 5e-5, 20)
    assert [of("cyclic").schedule(t) for t in (29, 30, 33, 39)] == pytest.approx(
        [decayed[29], cycle(0), cycle(3), cycle(9)]
    )
    for exploration in ("exponential", "constant", "none"):
        one, two = of(exploration), of(exploration, False)
        assert [one.schedule(t) for t in range(40)] == [two.schedule(t) for t in range(40)]
        assert (one.method.server.start, two.method.server.start) == (31, 30)


def test_a_switched_schedule_counts_the_later_rounds_from_the_switch():
    schedule = Switched(Exponential(0.5), Cyclic(), 7)
    assert [schedule(t) for t in (0, 6, 7, 8, 27)] == [0.5, 0.5, 1e-2, Cyclic()(1), 1e-2]
    constant = Switched(Exponential(0.1, 0.99), Exponential(5e-5), 3)
    assert [constant(t) for t in (2, 3, 90)] == [0.1 * 0.99**2, 5e-5, 5e-5]


def test_one_pass_fewer_every_so_many_rounds_down_to_one():
    work = FewerEpochs(epochs=3, batch_size=4, start=10, every=5)
    assert [work.at(t).epochs for t in (0, 9, 10, 14, 15, 19, 20, 99)] == [3, 3, 3, 3, 2, 2, 1, 1]
    assert LocalWork(epochs=3).at(99) == LocalWork(epochs=3)


def test_a_federation_does_the_work_of_the_round():
    run = on_classes(work=FewerEpochs(epochs=2, batch_size=3, every=1))
    first = run.round(run.start())
    second = run.round(first.state)
    a_pass = [-(-size // 3) for size in SIZES]
    assert first.steps.tolist() == [2 * steps for steps in a_pass] and second.steps.tolist() == a_pass


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Cyclic(1e-3, 1e-2), "the cycle goes from 0.001 to 0.01; it must fall, to 0 or more"),
        (lambda: Cyclic(period=1), "the period in rounds is 1; it must be an integer, 2 or more"),
        (lambda: MildExploration(0.1, -1), "the schedule switches is -1; it must be an integer, 0 or more"),
        (lambda: MildExploration(0.1, 3, late=1.5), "the decay of the learning rate is 1.5"),
        (lambda: FewerEpochs(steps=3), "steps is 3; passes are counted in epochs here"),
        (lambda: FewerEpochs(every=0), "start is 0 and every is 0; start must be 0 or more"),
        (lambda: FewerEpochs(epochs=0), "epochs is 0; it must be a positive integer"),
    ],
)
def test_what_makes_no_schedule_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
