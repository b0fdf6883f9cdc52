from benchmarks.studies.peers.study import peers as peers
