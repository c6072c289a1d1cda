"""When front layers freeze (see firn/freezer.h): decisions, log, steps owed."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Callable, Sequence

from firn._lib import FREEZER_USER, Decision, FreezeOut, FreezerAsk, FreezerConfig
from firn._lib import FirnError, Tuner, c_double, c_size, c_u64, c_void_p, call, lib

RULES = ("off", "penalty", "freezeout", "user")
FROZEN, PASSES, LAYOUT, BATCH, RATE = 1, 2, 3, 4, 5
_KINDS = {
    FROZEN: "frozen",
    PASSES: "passes",
    LAYOUT: "layout",
    BATCH: "batch",
    RATE: "rate",
}


@dataclass(frozen=True)
class Known:
    """The argument of a user's rule, at a boundary."""

    step: int
    epoch: int
    progress: float
    nlayers: int
    nfrozen: int
    variance: tuple[float, ...]


@dataclass(frozen=True)
class Decided:
    """One line of the decision log."""

    step: int
    epoch: int
    kind: str
    value: int
    psi: float


@dataclass
class Options:
    """How a job freezes its front layers."""

    rule: "str | Callable[[Known], int]" = "off"
    """"off", "penalty" (IceFrog's tuner), "freezeout", or a function from
    firn.freezer.Known to the number of frozen layers."""
    warmup_epochs: int = 3
    """"penalty": epochs that are done before a layer may freeze."""
    max_share: float = 0.9
    """"penalty": the largest share of layers that it freezes."""
    frozen_max: float = 0.0
    """The largest share of layers that any rule or order freezes; 0: no limit.
    Where FIRN_FREEZE_MAX is set too, both limits hold."""
    hysteresis: float = 0.0
    """"penalty": the relative gain that a change must bring; 0: any gain."""
    first: float = 0.8
    """"freezeout": the part of the training, above 0 and up to 1, after which the
    first layer freezes; 1: it never does."""
    cubic: bool = True
    """"freezeout": the times at which layers freeze are cubed."""
    scaled: bool = True
    """"freezeout": a layer that freezes early begins with a higher learning rate,
    so that the sum of its rates over the training is that of the others."""
    flops: Sequence[float] | None = None
    """The work of each layer in the backward pass, in any unit; None: equal."""
    measure_every: int = 4
    """Steps from one measurement of variances (and, on CUDA, of times) to the
    next."""


class Freezer:
    """The C freezer; the arguments are the parameters of each layer."""

    def __init__(self, options: Options, nelements: Sequence[int]) -> None:
        n = len(nelements)
        own = callable(options.rule)
        rule = "user" if own else options.rule
        if rule not in RULES:
            raise FirnError(f"'{rule}' is not a freezing rule: {', '.join(RULES)}")
        self.rule, self.nlayers = rule, n
        self._user = FREEZER_USER(self._asked) if own else FREEZER_USER()
        self._rule, self._failed = options.rule, None
        config = FreezerConfig(
            nlayers=n,
            nelements=(c_u64 * n)(*nelements),
            rule=RULES.index(rule),
            tuner=Tuner(options.max_share, 0.0, options.hysteresis, 1),
            warmup_epochs=options.warmup_epochs,
            freezeout=FreezeOut(options.first, options.cubic, options.scaled),
            user=self._user,
            frozen_max=options.frozen_max,
        )
        if options.flops is not None:
            config.flops = (c_double * n)(*options.flops)
        self._handle = c_void_p()
        call("firn_freezer_new", ctypes.byref(self._handle), ctypes.byref(config))

    def _asked(self, _: int, ask: "ctypes._Pointer", freeze: "ctypes._Pointer") -> int:
        """The user's rule; what it raises is kept for decide()."""
        a, f = ask.contents, freeze.contents
        seen = tuple(a.variance[: self.nlayers]) if a.variance else ()
        known = Known(a.step, a.epoch, a.progress, f.nlayers, f.nfrozen, seen)
        try:
            return int(self._rule(known))
        except Exception as error:  # raised again after the C call
            self._failed = error
            return f.nfrozen

    def decide(
        self,
        *,
        step: int,
        epoch: int,
        progress: float,
        variance: Sequence[float] | None,
        forward_s: float = 0.0,
        backward_s: float = 0.0,
        rest_s: float = 0.0,
    ) -> int:
        """Decides and logs; the frozen layers from now on."""
        ask = FreezerAsk(step, epoch, progress, None, forward_s, backward_s, rest_s)
        if variance is not None:
            ask.variance = (c_double * self.nlayers)(*variance)
        out = c_size()
        self._failed = None
        call("firn_freezer_decide", self._handle, ctypes.byref(ask), ctypes.byref(out))
        if self._failed is not None:
            raise self._failed
        return out.value

    def set(self, step: int, epoch: int, kind: int, value: int, psi: float = 0) -> None:
        """Takes a decision made elsewhere."""
        decision = Decision(step, epoch, kind, value, psi)
        call("firn_freezer_set", self._handle, ctypes.byref(decision))

    def step(self) -> int:
        """A step is done; extra steps to be done now."""
        return lib().firn_freezer_step(self._handle, None)

    @property
    def nfrozen(self) -> int:
        """Frozen layers."""
        return lib().firn_freezer_frozen(self._handle)

    @property
    def most(self) -> int:
        """The most layers that may be frozen."""
        return lib().firn_freezer_most(self._handle)

    @property
    def psi(self) -> float:
        """What a step is worth, in (0, 1]."""
        return lib().firn_freezer_psi(self._handle)

    @property
    def passes(self) -> int:
        """Sub-batches as last decided; 0: not decided."""
        return lib().firn_freezer_passes(self._handle)

    @property
    def batch(self) -> int:
        """Samples of a step as last decided; 0: not decided."""
        return lib().firn_freezer_batch(self._handle)

    @property
    def rate(self) -> float:
        """The factor on the learning rate as last decided; 1: not decided."""
        return lib().firn_freezer_rate(self._handle)

    def raw_log(self) -> list[tuple[int, int, int, int, float]]:
        """The log as plain numbers."""
        at = ctypes.POINTER(Decision)()
        n = lib().firn_freezer_log(self._handle, ctypes.byref(at))
        return [(d.step, d.epoch, d.kind, d.value, d.psi) for d in at[:n]]

    def log(self) -> list[Decided]:
        """All decisions so far."""
        return [Decided(s, e, _KINDS[k], v, p) for s, e, k, v, p in self.raw_log()]

    def replay(self, log: Sequence[Decided]) -> None:
        """From now on decisions come from this log."""
        numbers = {word: number for number, word in _KINDS.items()}
        rows = [Decision(d.step, d.epoch, numbers[d.kind], d.value, d.psi) for d in log]
        array = (Decision * len(rows))(*rows)
        call("firn_freezer_replay", self._handle, array, len(rows))

    def follow(self, step: int) -> None:
        """Takes what a replayed log has up to this step."""
        call("firn_freezer_follow", self._handle, step)

    def replaying(self, step: int) -> bool:
        """A replay decides at this step."""
        return lib().firn_freezer_replaying(self._handle, step)

    def save(self) -> bytes:
        """All of it but a replay."""
        size = lib().firn_freezer_saved(self._handle)
        out = ctypes.create_string_buffer(size)
        lib().firn_freezer_save(self._handle, out)
        return out.raw

    def load(self, data: bytes) -> None:
        """What save() gave."""
        call("firn_freezer_load", self._handle, data, len(data))

    def close(self) -> None:
        """Frees it."""
        if self._handle:
            lib().firn_freezer_free(self._handle)
            self._handle = c_void_p()
