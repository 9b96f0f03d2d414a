#ifndef KILN_COMPILER_SCHEDULE_TUNING_KEY_H_
#define KILN_COMPILER_SCHEDULE_TUNING_KEY_H_

#include <string>
#include <vector>

#include "compiler/config/target.h"
#include "compiler/schedule/nest_facts.h"

namespace kiln {

// How closely a key tells sizes of axes that are not reduced apart.
enum class OuterSizes : uint8_t { kClasses, kExact };

// The key that ConfigSpace::Key describes. Pure; equal in every process.
std::string TuningKey(const LoopNest& nest, const NestFacts& facts,
                      const std::vector<Buffer>& buffers,
                      const ShapeEnv& shapes, const Target& target,
                      OuterSizes outer_sizes);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_TUNING_KEY_H_
