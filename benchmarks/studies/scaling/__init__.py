from benchmarks.studies.scaling.study import scaling as scaling
