"""The control hierarchy of InterGroup (000 chapter 2, 003 section 8): who is near, who coordinates, what all say.

`process` is the engine. `hearing` takes messages in, `voice` says them, paced by `pacing`; `neighbourhood` is whom it
knows (`peers`, `home`). `maintenance` keeps the state and finds a coordinator (`searching`); `thinking` decides who
should be one, by the tables of `determination`. `estimates` and `distances` say how far it is, `aggregation` combines
what many say.
"""

from unisono.intergroup.hierarchy.aggregation import CUT as CUT
from unisono.intergroup.hierarchy.aggregation import STABILITY as STABILITY
from unisono.intergroup.hierarchy.context import control_number as control_number
from unisono.intergroup.hierarchy.determination import Thresholds as Thresholds
from unisono.intergroup.hierarchy.determination import thresholds as thresholds
from unisono.intergroup.hierarchy.process import ControlProcess as ControlProcess
from unisono.intergroup.hierarchy.states import State as State
