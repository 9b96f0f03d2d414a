#ifndef KILN_COMPILER_SCHEDULE_TUNING_KEY_H_
#define KILN_COMPILER_SCHEDULE_TUNING_KEY_H_

#include <string>
#include <vector>

#include "compiler/config/target.h"
#include "compiler/schedule/candidate_limits.h"
#include "compiler/schedule/nest_facts.h"

namespace kiln {

// The key under which tuning decisions about `nest` are stored, without blanks:
// "reduce/f32/2^12x2^10/5f0c9a31d2b7/sm_90". The kind of work, the dtype of the first
// load, the numbers of outer and of reduced points as powers of two, and the target are
// there for people. The digest covers everything that the configurations and their order
// depend on: operators, dtypes, strides and alignment of addresses, sizes, limits.
//
// A size counts as its next power of two and the widest vector that divides it. It
// counts exactly along reduced axes, and along all axes of a reduction that has so few
// results that several blocks may share one. Symbols count at their hints.
//
// Pure; equal in every process.
std::string TuningKey(const LoopNest& nest, const NestFacts& facts,
                      const std::vector<Buffer>& buffers,
                      const ShapeEnv& shapes, const Target& target,
                      const CandidateLimits& limits);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_TUNING_KEY_H_
