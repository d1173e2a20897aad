"""The settings of a run over a table of texts."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from edgewise.choices import TOKEN_KINDS, TokenKind
from edgewise.learn.companions import COMPANIONS, WORD_COUNTS
from edgewise.learn.networks.text_settings import TextSettings, TransformerSettings
from edgewise.learn.settings import setting
from edgewise.learn.tables.columns import AUTO
from edgewise.learn.tasks.config import Sign, TaskSettings, Values
from edgewise.learn.tasks.pretrained import ENCODER_NAMES, check_vocabulary, choose_encoder
from edgewise.learn.tasks.table_settings import TableRunSettings, check_companions
from edgewise.learn.training.settings import TrainSettings, default_threads

MODEL = TransformerSettings(num_layers=1, hidden_dim=256, dropout=0.3, context=512)
RECIPE = TrainSettings(
    batch_size=64,
    learning_rate=5e-4,
    final_learning_rate=1e-6,
    weight_decay=0.2,
    ema_decay=0.0,
    threads=default_threads(2),
)
"""The default recipe for a table of texts."""
RECURRENT_RATE = 2e-3
"""The learning rate of a recurrent network, by default."""


@dataclass(frozen=True)
class TextRunSettings(TableRunSettings):
    """The settings of a run over a table of texts."""

    train: TrainSettings = RECIPE
    """The recipe."""
    text: TextSettings = field(default_factory=TextSettings)
    """The encoder of a text, and how its tokens become one vector."""
    model: TransformerSettings = MODEL
    """The architecture of the encoder."""
    tokens: TokenKind = setting("words", choices=TOKEN_KINDS)
    """How a text is split into tokens."""
    vocabulary_size: int = setting(32768, at_least=2, aliases=("vocab-size",))
    """Tokens of the vocabulary, at most."""
    lowercase: bool = setting(False, aliases=("do-lower-case",))
    """Whether texts are lowercased."""
    pretrained: str | None = setting(None, metavar="RUN", is_file=True)
    """The folder of a masked language model whose vocabulary and weights training starts from."""
    companions: tuple[str, ...] | None = setting(None, choices=("none", WORD_COUNTS, *COMPANIONS.added))
    """What predicts beside the network, with the weight that predicts the validation rows best: word-counts (default),
    a linear model over tokens, their stems and pairs of adjacent tokens; or none. Afterwards it is fitted again, to
    training and validation rows."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_companions(self.companions)


def encoder_settings_of(run: Values, groups: Mapping[str, Values]) -> Values:
    """The groups text, model and train; `--model` may name a recurrent network, or one of `CONFIGURATIONS`."""
    check_vocabulary(run, TextRunSettings)
    named, pretrained = run.get("model"), run.get("pretrained")
    text, model = choose_encoder(TextSettings, MODEL, named, groups["text"], groups["model"], pretrained)
    recipe = RECIPE if text.encoder == "transformer" else replace(RECIPE, learning_rate=RECURRENT_RATE)
    return {"text": text, "model": model, "train": replace(recipe, **groups["train"])}


SETTINGS = TaskSettings(
    name="texts",
    task="edgewise.learn.tasks.texts.task:TASK",
    run_type=TextRunSettings,
    format="edgewise text model",
    summary="classes or scores of texts, from a table",
    example="texts reviews.csv --text-columns text --target-columns label",
    signs=(Sign(strength=3, flag="text_columns"),),
    predict_flags=("coverage", "text_columns", "show_parts"),
    estimators=("TextClassifier", "TextRegressor"),
    defaults={"task_type": AUTO},
    required=("text_columns",),
    unused=dict.fromkeys(
        ("smiles_columns", "descriptors_columns", "node_column", "node_type_column", "category_columns", "missing"), ""
    ),
    presets=ENCODER_NAMES,
    derive=encoder_settings_of,
)
