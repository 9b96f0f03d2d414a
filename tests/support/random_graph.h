#ifndef KILN_TESTS_SUPPORT_RANDOM_GRAPH_H_
#define KILN_TESTS_SUPPORT_RANDOM_GRAPH_H_

#include <cstdint>
#include <string>

namespace kiln {

// The text of a graph of `nodes` random operators over random inputs: pointwise
// ones with broadcasts, reductions, views, choices, scans, gathers and scatters,
// in one of three graphs with bf16, sizes behind a symbol. Whatever nobody reads
// is an output.
//
// How large each value can be is known while the graph is written. What is large
// is no operand, and steep functions take small ones alone, so that roundings in
// another order stay small: otherwise no tolerance would say anything of bf16.
// Comparisons are made
// of f32 inputs alone, where nothing can round.
//
// Equal arguments give equal texts; the graph of n nodes begins that of n + 1.
std::string RandomGraph(uint64_t seed, int nodes);

}  // namespace kiln

#endif  // KILN_TESTS_SUPPORT_RANDOM_GRAPH_H_
