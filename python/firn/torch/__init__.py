"""firn for PyTorch: elastic threads, freezing, fine-tuning.

    from firn.torch import Elastic, fixed_order_hook
    from firn.torch import freeze, finetune, loader
"""

from firn import early

early.listen()  # before torch is imported, which takes seconds

from firn.torch.elastic import Elastic  # noqa: E402
from firn.torch.hook import fixed_order_hook  # noqa: E402
from firn.torch.options import Options  # noqa: E402

__all__ = ["Elastic", "Options", "fixed_order_hook"]
