from benchmarks.studies.models.study import models as models
