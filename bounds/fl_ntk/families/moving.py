"""Runs whose neurons move: small steps, and wedges, where the power of lambda in a bound matters."""

from bounds.fl_ntk.families.own import with_own
from bounds.fl_ntk.families.small_steps import small_step_runs
from bounds.fl_ntk.families.wedge import WEDGES

moving_families = with_own(small_step_runs, WEDGES)  # in wedges the bound's power of lambda matters
