"""The library of models, from equations to solutions that are checked."""

from benchmarks.studies.models.study import models as models
