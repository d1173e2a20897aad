"""The Lightning side of training: one step, one validation, the optimizer, and the averaged weights."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from edgewise.errors import MissingExtraError
from edgewise.neighborhood.pairs import unchecked
from edgewise.records import Batch, NodeBatch
from edgewise.train.loader import seed_of
from edgewise.train.loss import RelativeLoss, TargetLoss, TokenLoss, loss_of
from edgewise.train.settings import TrainSettings

try:
    import lightning.pytorch as pl
except ModuleNotFoundError as error:
    raise MissingExtraError("lightning", "train") from error


class ModelTask(pl.LightningModule):
    """A model, its loss and its optimizer, in the words of Lightning.

    Nothing is logged per step: training consists of thousands of small steps, and each hook costs time.
    """

    def __init__(
        self, model: nn.Module, loss: TargetLoss | RelativeLoss | TokenLoss, settings: TrainSettings, num_steps: int
    ):
        super().__init__()
        self.model = model
        self.loss = loss
        self.settings = settings
        self.num_steps = num_steps
        # A function is compiled, not the model, whose tensors would get other names.
        self.loss_in_training = torch.compile(loss_of, dynamic=True) if settings.compile else loss_of
        self.averaged: list[Tensor] = []
        self.swapped = False
        self.sums: dict[str, Any] = {}
        self.train_loss = self.val_loss = float("nan")
        self.after_step: Callable[[int], None] = lambda batch_index: None
        self.within: dict[str, Any] | None = None

    def training_step(self, batch: Batch, index: int) -> Tensor:
        """The loss of one batch."""
        total, weight = self.loss_in_training(self.model, self.loss, batch)
        self.add("train", total, weight)
        return total / weight.where(weight > 0, 1.0)

    def validation_step(self, batch: Batch, index: int) -> None:
        """Adds one batch to the validation loss."""
        self.add("val", *loss_of(self.model, self.loss, batch))

    def add(self, part: str, total: Tensor, weight: Tensor) -> None:
        """Adds to the running sums of a part without waiting for the device."""
        past_total, past_weight = self.sums.get(part, (0.0, 0.0))
        self.sums[part] = (past_total + total.detach(), past_weight + weight.detach())

    def mean_loss(self, part: str) -> float:
        """The mean loss since the sums of the part were last read."""
        total, weight = self.sums.pop(part, (torch.tensor(float("nan")), torch.tensor(1.0)))
        return float(total / weight)

    def on_after_batch_transfer(self, batch: Batch, dataloader_idx: int) -> Batch:
        """Double precision: Lightning's own converter does not take frozen dataclasses."""
        return doubled(batch) if self.settings.precision == "64" else batch

    def on_train_epoch_start(self) -> None:
        """Seeds the epoch by its own number, so that a run continued here draws the same numbers."""
        loader: Any = self.trainer.train_dataloader
        loader.epoch = self.current_epoch
        torch.manual_seed(seed_of(self.settings.seed, self.current_epoch))

    def configure_optimizers(self) -> Any:
        """Adam or AdamW on all parameters; only matrices decay."""
        parameters = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        groups = [
            {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": self.settings.weight_decay},
            {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
        ]
        # In mixed precision gradients may have to be unscaled before clipping, which the fused step does not allow.
        fused = self.settings.precision in ("32", "64") and self.device.type in ("cpu", "cuda")
        betas = (0.9, self.settings.second_moment_decay)
        kind = torch.optim.Adam if self.settings.optimizer == "adam" else torch.optim.AdamW
        optimizer = kind([g for g in groups if g["params"]], lr=1.0, betas=betas, fused=fused)
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: self.settings.learning_rate_at(step, self.num_steps)
        )
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def on_train_start(self) -> None:
        """Starts the averaged weights, or takes them to the device after loading; goes on within an epoch."""
        if self.within is not None:
            loader: Any = self.trainer.train_dataloader
            loader.epoch, loader.first, loader.begin = self.current_epoch, self.within["batches"], self.go_on_within
        if not self.settings.ema_decay:
            return
        parameters = list(self.model.parameters())
        source = self.averaged or parameters
        self.averaged = [s.detach().clone().to(p) for s, p in zip(source, parameters, strict=True)]

    def go_on_within(self) -> None:
        """Takes the random numbers and the losses of an epoch up where its checkpoint was written."""
        assert self.within is not None
        torch.set_rng_state(self.within["random"])
        if self.within["random_on_device"] is not None:
            torch.cuda.set_rng_state(self.within["random_on_device"])
        self.sums = {name: tuple(each.to(self.device) for each in sums) for name, sums in self.within["sums"].items()}
        self.within = None

    def note_within(self, batches: int) -> None:
        """Notes how far the epoch is, for the next checkpoint."""
        on_device = torch.cuda.get_rng_state() if self.device.type == "cuda" else None
        random = {"random": torch.get_rng_state(), "random_on_device": on_device}
        self.within = {"batches": batches, **random, "sums": {name: tuple(sums) for name, sums in self.sums.items()}}

    def on_train_batch_end(self, outputs: Any, batch: Batch, batch_idx: int) -> None:
        """averaged ← decay · averaged + (1 − decay) · weights; the decay itself grows at the beginning."""
        if self.averaged:
            step = self.trainer.global_step
            decay = min(self.settings.ema_decay, (1 + step) / (10 + step))
            with torch.no_grad():
                torch._foreach_lerp_(self.averaged, list(self.model.parameters()), 1 - decay)
        self.after_step(batch_idx)

    def on_validation_start(self) -> None:
        """Validates the averaged weights."""
        self.swap(True)

    def on_validation_end(self) -> None:
        """Goes back to the weights that are being trained."""
        self.swap(False)

    def swap(self, averaged: bool) -> None:
        """Exchanges trained and averaged weights, unless they already are in that order."""
        if not self.averaged or self.swapped == averaged:
            return
        self.swapped = averaged
        with torch.no_grad():
            for average, parameter in zip(self.averaged, self.model.parameters(), strict=True):
                trained = parameter.clone()
                parameter.copy_(average)
                average.copy_(trained)

    def result(self) -> dict[str, Tensor]:
        """A copy of the model's tensors with the averaged weights in place, on the CPU."""
        self.swap(True)
        tensors = {name: value.detach().cpu().clone() for name, value in self.model.state_dict().items()}
        self.swap(False)
        return tensors

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """The averaged weights travel with the checkpoint, and how far an unfinished epoch is."""
        checkpoint["averaged"] = self.averaged
        checkpoint["within"] = self.within

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """The averaged weights come back, and how far an unfinished epoch is."""
        self.averaged = list(checkpoint["averaged"])
        self.within = checkpoint.get("within")


def doubled(record: Any) -> Any:
    """A copy of a batch in double precision; of a graph that it holds, too."""
    moved: dict[str, Any] = {}
    for name, value in vars(record).items():
        if isinstance(value, Tensor) and value.is_floating_point():
            moved[name] = value.double()
        elif isinstance(value, NodeBatch):
            moved[name] = doubled(value)
    return unchecked(record, **moved)
