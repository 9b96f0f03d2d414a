#ifndef KILN_PROTO_KEY_GRAPH_LIMITS_H_
#define KILN_PROTO_KEY_GRAPH_LIMITS_H_

#include <cstdint>

namespace kiln {

// What a graph may hold at most; more is TOO_LARGE. Far above real models.
inline constexpr int kMaxGraphNodes = 500'000;
inline constexpr int kMaxGraphInputs = 100'000;  // and outputs, and constants
inline constexpr int kMaxGraphSymbols = 10'000;
inline constexpr int kMaxTensorRank = 64;
inline constexpr int kMaxNodeArguments = 100'000;  // in all of its lists
inline constexpr int kMaxArgumentNesting = 16;
inline constexpr int64_t kMaxNameBytes = 4096;  // also of an operator
inline constexpr int64_t kMaxStackTraceBytes = 65'536;
inline constexpr int64_t kMaxConstantBytes = int64_t{1} << 20;
inline constexpr int64_t kMaxTensorElements = (int64_t{1} << 40) - 1;

}  // namespace kiln

#endif  // KILN_PROTO_KEY_GRAPH_LIMITS_H_
