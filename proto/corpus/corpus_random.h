#ifndef KILN_PROTO_CORPUS_CORPUS_RANDOM_H_
#define KILN_PROTO_CORPUS_CORPUS_RANDOM_H_

#include <cstdint>
#include <vector>

#include "proto/corpus/corpus_case.h"

namespace kiln {

// Makes inputs for a case whose file has none: floats from a normal
// distribution, integers from their range (0 and 1 without one), bools.
//
// Pure: equal seeds give equal inputs on any host.
std::vector<CorpusValue> RandomInputs(const CorpusCase& test_case,
                                      uint64_t seed);

}  // namespace kiln

#endif  // KILN_PROTO_CORPUS_CORPUS_RANDOM_H_
