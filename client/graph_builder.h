#ifndef KILN_CLIENT_GRAPH_BUILDER_H_
#define KILN_CLIENT_GRAPH_BUILDER_H_

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/base/dtype.h"
#include "proto/graph.pb.h"

// Builds wire Graphs in C++:
//
//   GraphBuilder g("bias_relu");
//   const SizeExpr n = g.Symbol("N", {.hint = 64});
//   const Value x = g.Input("x", {DType::kFloat32, {n, 256}});
//   const Value b = g.Input("b", {DType::kFloat32, {256}});
//   const Value s = g.Node("aten.add.Tensor", {x, b},
//                          {DType::kFloat32, {n, 256}});
//   g.Output(g.Node("aten.relu.default", {s}, {DType::kFloat32, {n, 256}}));
//   absl::StatusOr<wire::Graph> graph = g.Build();

namespace kiln {

// A size, stride or offset: an integer, or an expression over symbols.
class SizeExpr {
 public:
  SizeExpr(int64_t value) { expr_.set_value(value); }
  explicit SizeExpr(wire::SymExpr expr) : expr_(std::move(expr)) {}

  const wire::SymExpr& wire() const { return expr_; }
  // The integer, if the expression has no symbols.
  std::optional<int64_t> constant() const;

  friend SizeExpr operator+(const SizeExpr& a, const SizeExpr& b);
  friend SizeExpr operator*(const SizeExpr& a, const SizeExpr& b);
  friend SizeExpr operator-(const SizeExpr& a, const SizeExpr& b);
  // Rounds towards minus infinity.
  friend SizeExpr FloorDiv(const SizeExpr& a, const SizeExpr& b);

 private:
  wire::SymExpr expr_;
};

// A tensor in a graph under construction. Only a GraphBuilder makes one.
class Value {
 public:
  uint32_t number() const { return number_; }

 private:
  friend class GraphBuilder;
  explicit Value(uint32_t number) : number_(number) {}
  uint32_t number_;
};

// The meta of a tensor. A tensor without strides is contiguous.
struct TensorSpec {
  DType dtype = DType::kFloat32;
  std::vector<SizeExpr> sizes;
  std::vector<SizeExpr> strides;
  SizeExpr storage_offset = 0;
};

// One argument of an operator, as PyTorch's schema types it.
class Arg {
 public:
  Arg(Value value) { wire_.set_value(value.number()); }
  Arg(int value) { wire_.set_int_value(value); }
  Arg(int64_t value) { wire_.set_int_value(value); }
  Arg(double value) { wire_.set_float_value(value); }
  Arg(bool value) { wire_.set_bool_value(value); }
  Arg(const char* value) { wire_.set_string_value(value); }
  Arg(const SizeExpr& size);
  Arg(DType dtype) { wire_.set_dtype(ToWire(dtype)); }
  static Arg None();
  static Arg List(const std::vector<Arg>& items);

  const wire::Argument& wire() const { return wire_; }

 private:
  Arg() = default;
  wire::Argument wire_;
};

struct NamedArg {
  std::string name;
  Arg value;
};

struct SymbolSpec {
  int64_t hint = 0;  // its value in the first call; 0: not known
  // Inclusive bounds that the caller guarantees. Both zero: [0, 2^62).
  int64_t min = 0;
  int64_t max = 0;
};

// Builds one graph. Inputs and constants come before the first Node. Build returns the
// first mistake; calls after it have no effect. Not thread-safe.
class GraphBuilder {
 public:
  explicit GraphBuilder(absl::string_view name,
                        wire::DeviceType device = wire::DEVICE_TYPE_CPU);

  SizeExpr Symbol(absl::string_view name, const SymbolSpec& spec = {});

  // `alignment_bytes`: the alignment of the address that the caller promises in each
  // call, a power of two from 1 to 16. 0: 16 on CUDA, where kernels load that much at
  // once, and the alignment of one element on a CPU. A call with a less aligned tensor
  // gets an artifact of its own.
  Value Input(absl::string_view name, const TensorSpec& spec,
              uint32_t alignment_bytes = 0);
  // `data`: the elements, row-major. For more than 1 MiB see large_constants.h.
  Value Constant(absl::string_view name, const TensorSpec& spec,
                 absl::string_view data);

  // A use of an operator with one result.
  Value Node(absl::string_view op, std::initializer_list<Arg> args,
             const TensorSpec& result,
             std::initializer_list<NamedArg> named = {});
  // The same with any number of results.
  std::vector<Value> Nodes(absl::string_view op,
                           std::initializer_list<Arg> args,
                           const std::vector<TensorSpec>& results,
                           std::initializer_list<NamedArg> named = {});

  void Output(Value value);

  // INVALID_ARGUMENT MALFORMED_GRAPH: an input after a node; a spec with a different
  // number of strides than sizes; a constant whose data has the wrong length.
  absl::StatusOr<wire::Graph> Build() const;

 private:
  Value NextValue(bool leads);
  wire::TensorMeta Meta(const TensorSpec& spec);
  void Fail(absl::string_view message);

  const wire::DeviceType device_;
  wire::Graph graph_;
  uint32_t next_value_ = 0;
  absl::Status status_;
};

}  // namespace kiln

#endif  // KILN_CLIENT_GRAPH_BUILDER_H_
