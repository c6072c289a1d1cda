"""jobs.py - the training jobs that are measured: built by name, frozen by
share, stepped.

Models come from torchvision and transformers with random weights and synthetic
data on the GPU, so nothing is downloaded and no input pipeline is measured.
Suffix -c: 32x32 inputs and 10 classes; -i: 224x224 and 1000 classes; bert-base
has sequences of 128, gpt-small of 256. A layer is a leaf module with
parameters, in order of definition; freezing the first k switches their
requires_grad off, so autograd stops at the first layer that still trains.
"""
import torch
import torch.nn.functional as F

IMAGE = {
    "resnet18": "resnet18", "resnet50": "resnet50", "vgg16": "vgg16_bn",
    "vgg19": "vgg19_bn", "mobilenetv2": "mobilenet_v2",
    "googlenet": "googlenet", "densenet121": "densenet121",
}


def build_image(name, classes):
    import torchvision.models as zoo
    kind = IMAGE[name]
    more = {"aux_logits": False, "init_weights": False} \
        if kind == "googlenet" else {}
    return getattr(zoo, kind)(weights=None, num_classes=classes, **more)


def build_bert():
    from transformers import BertConfig, BertForMaskedLM
    return BertForMaskedLM(BertConfig())


def build_gpt():
    from transformers import GPT2Config, GPT2LMHeadModel
    return GPT2LMHeadModel(GPT2Config(use_cache=False))


class Job:
    """One training job on the GPU: model, data, optimizer and a step."""

    def __init__(self, name, batch, frozen_share=0.0, device="cuda"):
        self.name, self.batch, self.device = name, batch, device
        self.is_text = name in ("bert-base", "gpt-small")
        if name == "bert-base":
            self.model, vocab, seq = build_bert(), 30522, 128
        elif name == "gpt-small":
            self.model, vocab, seq = build_gpt(), 50257, 256
        else:
            kind, suffix = name.rsplit("-", 1)
            side, classes = (32, 10) if suffix == "c" else (224, 1000)
            self.model = build_image(kind, classes)
        self.model.to(device).train()
        if self.is_text:
            self.x = torch.randint(0, vocab, (batch, seq), device=device)
            self.y = self.x
        else:
            self.x = torch.randn(batch, 3, side, side, device=device)
            self.y = torch.randint(0, classes, (batch,), device=device)
        self.layers = [m for m in self.model.modules()
                       if not list(m.children())
                       and any(True for _ in m.parameters(recurse=False))]
        self.freeze(round(frozen_share * len(self.layers)))

    def freeze(self, k):
        self.frozen = k
        for i, layer in enumerate(self.layers):
            for p in layer.parameters(recurse=False):
                p.requires_grad_(i >= k)
        for p in self.model.parameters():
            p.grad = None
        left = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.SGD(left, lr=1e-4, momentum=0.9)

    def loss(self):
        if self.is_text:
            return self.model(input_ids=self.x, labels=self.y).loss
        return F.cross_entropy(self.model(self.x), self.y)

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        self.loss().backward()
        self.optimizer.step()

    def flops_by_layer(self):
        """Multiply-adds x 2 of each layer for one batch, from one forward."""
        found = {}

        def hook(layer, _, out):
            out = out[0] if isinstance(out, tuple) else out
            n = out.numel()
            if isinstance(layer, torch.nn.Conv2d):
                k = layer.kernel_size[0] * layer.kernel_size[1]
                n *= 2 * k * layer.in_channels // layer.groups
            elif hasattr(layer, "in_features"):
                n *= 2 * layer.in_features
            elif type(layer).__name__ == "Conv1D":
                n *= 2 * layer.weight.shape[0]
            found[layer] = found.get(layer, 0) + n

        hooks = [m.register_forward_hook(hook) for m in self.layers]
        with torch.no_grad():
            self.loss()
        for h in hooks:
            h.remove()
        return [found.get(m, 0) for m in self.layers]

    def params_by_layer(self):
        return [sum(p.numel() for p in m.parameters(recurse=False))
                for m in self.layers]
