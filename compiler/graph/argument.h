#ifndef KILN_COMPILER_GRAPH_ARGUMENT_H_
#define KILN_COMPILER_GRAPH_ARGUMENT_H_

#include <bit>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "compiler/sym/sym_expr.h"
#include "proto/base/dtype.h"

namespace kiln {

// A tensor value of a Graph: inputs first, then constants, then results in
// order of definition.
struct ValueId {
  uint32_t index;
  friend bool operator==(ValueId a, ValueId b) { return a.index == b.index; }
  friend bool operator!=(ValueId a, ValueId b) { return a.index != b.index; }
  friend bool operator<(ValueId a, ValueId b) { return a.index < b.index; }
  template <typename H>
  friend H AbslHashValue(H h, ValueId v) {
    return H::combine(std::move(h), v.index);
  }
};

enum class MemoryFormat : uint8_t {
  kContiguous = 1,
  kPreserve,
  kChannelsLast,
  kChannelsLast3d
};
enum class DeviceType : uint8_t { kCpu = 1, kCuda };

struct NoneArgument {
  friend bool operator==(NoneArgument, NoneArgument) { return true; }
};

// One argument of a node. Integers, symbolic or not, are SymExpr. An optional
// argument that is absent is NoneArgument.
struct Argument {
  using List = std::vector<Argument>;
  std::variant<NoneArgument, ValueId, SymExpr, double, bool, std::string, DType,
               MemoryFormat, DeviceType, List>
      v;

  Argument() = default;
  template <typename T>
  Argument(T value) : v(std::move(value)) {}  // NOLINT: arguments are values
  Argument(int value) : v(SymExpr(value)) {}  // NOLINT
  Argument(int64_t value) : v(SymExpr(value)) {}  // NOLINT

  bool is_none() const { return std::holds_alternative<NoneArgument>(v); }
  bool is_value() const { return std::holds_alternative<ValueId>(v); }
  bool is_list() const { return std::holds_alternative<List>(v); }
  // Each only when the argument holds that alternative.
  ValueId value() const { return std::get<ValueId>(v); }
  const SymExpr& sym() const { return std::get<SymExpr>(v); }
  const List& list() const { return std::get<List>(v); }
  // Floats are equal if their bits are: a NaN equals itself, and 0.0 is not -0.0.
  friend bool operator==(const Argument& a, const Argument& b) {
    const double* left = std::get_if<double>(&a.v);
    const double* right = std::get_if<double>(&b.v);
    if (left == nullptr || right == nullptr) return a.v == b.v;
    return std::bit_cast<uint64_t>(*left) == std::bit_cast<uint64_t>(*right);
  }
};

}  // namespace kiln

#endif  // KILN_COMPILER_GRAPH_ARGUMENT_H_
