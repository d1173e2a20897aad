"""Adam and AdamW: torch's own functions, called on lists that are made once."""

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.optim.adam import adam
from torch.optim.adamw import adamw

from edgewise.learn.training.checkpoint import damaged
from edgewise.learn.training.distributed import assign
from edgewise.learn.training.settings import TrainSettings

MOMENTS = ("step", "exp_avg", "exp_avg_sq")
"""The state of Adam for a parameter, by the names of torch."""


class Adam:
    """Adam or AdamW over all parameters that are trained; only matrices decay.

    It computes what `torch.optim.AdamW` computes, bit for bit. That class imports torch's compiler when it is made,
    which takes a second, and goes through all parameters in Python in every step.

    Args:
        model: its parameters, on the device where they stay.
        settings: which of the two, the decay, and how slowly the second moment follows.
    """

    def __init__(self, model: nn.Module, settings: TrainSettings):
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        matrices, vectors = ([p for p in trained if (p.ndim >= 2) is is_matrix] for is_matrix in (True, False))
        self.decays = [(group, decay) for group, decay in ((matrices, settings.weight_decay), (vectors, 0.0)) if group]
        self.parameters: list[Tensor] = [parameter for group, _ in self.decays for parameter in group]
        self.param_groups = [{"params": self.parameters}]  # a GradScaler reads them
        self.update = adam if settings.optimizer == "adam" else adamw
        self.betas = 0.9, settings.second_moment_decay
        self.is_fused = all(parameter.device.type in ("cpu", "cuda") for parameter in self.parameters)
        # A recorded step reads it from the memory of a tensor.
        self.learning_rate = torch.zeros((), device=self.parameters[0].device) if settings.cuda_graph else 0.0
        self.moments = {
            parameter: (
                torch.zeros((), device=parameter.device if self.is_fused else "cpu"),
                torch.zeros_like(parameter, memory_format=torch.preserve_format),
                torch.zeros_like(parameter, memory_format=torch.preserve_format),
            )
            for parameter in self.parameters
        }

    def set_learning_rate(self, value: float) -> None:
        """Sets the learning rate of the next steps."""
        if isinstance(self.learning_rate, Tensor):
            self.learning_rate.fill_(value)
        else:
            self.learning_rate = value

    def zero_grad(self) -> None:
        """Forgets all gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """w ← w − learning_rate · (m̂ / (√v̂ + ε) + decay · w), for all parameters that have a gradient."""
        for group, decay in self.decays:
            moved: list[Tensor] = [parameter for parameter in group if parameter.grad is not None]
            steps, means, squares = ([self.moments[p][moment] for p in moved] for moment in range(3))
            self.update(
                moved,
                [parameter.grad for parameter in moved if parameter.grad is not None],
                means,
                squares,
                [],
                steps,
                fused=self.is_fused,
                foreach=not self.is_fused,
                amsgrad=False,
                beta1=self.betas[0],
                beta2=self.betas[1],
                lr=self.learning_rate,
                weight_decay=decay,
                eps=1e-8,
                maximize=False,
            )

    def state(self) -> dict[int, dict[str, Tensor]]:
        """The moments of all parameters, by their numbers, as the state of torch's optimizers is."""
        return {number: dict(zip(MOMENTS, self.moments[p])) for number, p in enumerate(self.parameters)}

    @torch.no_grad()
    def restore(self, path: Path, state: object) -> None:
        """Takes moments over that were read from `path`.

        Raises:
            RunFolderError: they do not fit the parameters, or are not finite.
        """
        if not isinstance(state, dict):
            raise damaged(path, "the state of the optimizer is not that of Adam")
        for number, parameter in enumerate(self.parameters):
            moments = state.get(number)
            if not isinstance(moments, dict) or set(moments) != set(MOMENTS):
                raise damaged(path, "the state of the optimizer is not that of Adam")
            for name, moment in zip(MOMENTS, self.moments[parameter]):
                value = moments[name]
                if not isinstance(value, Tensor) or value.shape != moment.shape or not torch.isfinite(value).all():
                    raise damaged(path, f"{name} of the optimizer has another shape or is not finite")
                assign(moment, value)
