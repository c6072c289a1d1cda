"""firn for PyTorch: elastic threads, freezing, fine-tuning.

    from firn.torch import Elastic, fixed_order_hook
    from firn.torch import freeze, finetune, loader
"""

from firn.torch.elastic import Elastic
from firn.torch.hook import fixed_order_hook
from firn.torch.options import Options

__all__ = ["Elastic", "Options", "fixed_order_hook"]
