"""What a model makes of the descriptors of a whole molecule."""

from torch import nn

from edgewise.models.settings import PropertySettings, PropertySizes


def describer(sizes: PropertySizes, settings: PropertySettings) -> nn.Module | None:
    """From the descriptors of a molecule to a vector beside the learned one; None where there are none."""
    if not sizes.num_global_features:
        return None
    return nn.Sequential(
        nn.Dropout(settings.descriptor_dropout),
        nn.Linear(sizes.num_global_features, settings.model_dim),
        nn.SiLU(),
        nn.Dropout(2 * settings.descriptor_dropout),
    )
