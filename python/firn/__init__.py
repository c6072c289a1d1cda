"""firn - elastic, freezable, switchable training on libfirn_train.

``firn.group``, ``firn.ckpt``, ``firn.fold``, ``firn.feed``, ``firn.report``
and ``firn.freezer`` are thin wrappers of the C library and need nothing but
Python. ``firn.torch`` is the layer for PyTorch.
"""

from firn._lib import EXIT_CHECKPOINT, FirnError

__all__ = ["EXIT_CHECKPOINT", "FirnError"]
__version__ = "0.1.0"
