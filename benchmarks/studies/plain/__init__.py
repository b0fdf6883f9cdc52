from benchmarks.studies.plain.study import plain as plain
