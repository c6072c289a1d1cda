"""Which epoch, batch and sample a count of steps is at, when batches change.

An epoch has ``places`` samples for each thread. From a base on, batches have
``each`` samples. A change of the batch is a new base at the place where the last
step ended, in the middle of an epoch too: the samples of the epoch that were
not drawn yet follow, in the order of the epoch, in batches of the new size.

    places 12:   0 1 2 | 3 4 5 | 6 7 8 9 10 11 | 0 1 2 3 4 5 | ...
                   batches of 3      from here of 6

Invariants:
(1) every sample of an epoch is drawn once, whatever the changes, but for those
    that drop_last leaves out at the end of an epoch;
(2) a course follows from its base alone, six numbers that a checkpoint holds;
(3) batches are counted from 0 in each epoch and again from a base on.

Everything is arithmetic on integers: a few divisions for each call.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Course:
    """Batches of one size, from a base on."""

    places: int
    """Samples of a thread in an epoch."""
    each: int
    """Samples of a batch."""
    drop_last: bool = False
    """A last batch that is not full is left out."""
    count: int = 0
    """Steps at the base."""
    epoch: int = 0
    """Epochs that were over at the base."""
    used: int = 0
    """Samples of the epoch that were drawn before the base."""

    def batches_from(self, used: int) -> int:
        """Batches in an epoch after its first ``used`` samples."""
        left = self.places - used
        return left // self.each if self.drop_last else -(-left // self.each)

    @property
    def nbatches(self) -> int:
        """Batches of a whole epoch."""
        return self.batches_from(0)

    def batches_of(self, epoch: int) -> int:
        """Batches of an epoch, of the base's from the base on."""
        return self.batches_from(self.used if epoch == self.epoch else 0)

    def at(self, count: int) -> tuple[int, int, int]:
        """After ``count`` steps: epochs that are over, the next batch, and the
        samples of the epoch before it."""
        since, head = count - self.count, self.batches_from(self.used)
        if since < head:
            return self.epoch, since, self.used + since * self.each
        epochs, batch = divmod(since - head, self.nbatches)
        return self.epoch + 1 + epochs, batch, batch * self.each

    def epochs(self, count: int) -> float:
        """Epochs that are over, with the part of the one under way by steps."""
        epoch, batch, _ = self.at(count)
        begun = self.used / self.places if epoch == self.epoch else 0.0
        return epoch + begun + (1.0 - begun) * batch / self.batches_of(epoch)

    def left(self, count: int) -> int:
        """Batches that are left in the epoch under way."""
        epoch, batch, _ = self.at(count)
        return self.batches_of(epoch) - batch

    def reaches(self, epoch: int, used: int = 0) -> int:
        """The count of steps after which ``epoch`` epochs are over and ``used``
        samples of the next one are drawn, or more."""
        if (epoch, used) <= (self.epoch, self.used):
            return self.count
        begun = self.used if epoch == self.epoch else 0
        batches = min(-(-(used - begun) // self.each), self.batches_of(epoch))
        if epoch == self.epoch:
            return self.count + batches
        head = self.batches_from(self.used)
        return self.count + head + (epoch - self.epoch - 1) * self.nbatches + batches

    def changed(self, count: int, each: int) -> "Course":
        """From here on, batches of another size."""
        epoch, _, used = self.at(count)
        return Course(self.places, each, self.drop_last, count, epoch, used)
