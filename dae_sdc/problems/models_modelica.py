"""Models that are read from the Modelica files in ``problems/modelica``, registered by the file names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dae_sdc.problems._models import MODELS

if TYPE_CHECKING:
    from dae_sdc.model.model import Model

DIRECTORY: Final = Path(__file__).with_name("modelica")

_DESCRIBED = re.compile(r'^model\s+\w+\s+"([^"]*)"', re.MULTILINE)


class ModelicaFile:
    """A model of the library that is read from a file.

    Parameters
    ----------
    path : Path
        The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        described = _DESCRIBED.findall(path.read_text(encoding="utf-8"))
        # The description is that of the last class, the model.
        text = described[-1] if described else path.stem
        self.__doc__ = f"{text[:1].upper()}{text[1:]}."

    def __call__(self, **parameters: float) -> Model:
        """A new model; the arguments are values of parameters by their names."""
        from dae_sdc.modelica.reader import read_modelica

        model = read_modelica(self.path, parameters=parameters)
        model.name = self.path.stem
        return model


for _path in sorted(DIRECTORY.glob("*.mo")):
    MODELS.add(_path.stem, ModelicaFile(_path))
