#ifndef KILN_COMPILER_REFERENCE_POINTWISE_H_
#define KILN_COMPILER_REFERENCE_POINTWISE_H_

// What the pointwise families share: operands brought to one shape and one
// kind of number, and loops over them. A function is given as a template
// argument, so that a family reads as a table.

#include <vector>

#include "compiler/reference/ref_call.h"

namespace kiln {

// The named operands, broadcast against each other. When any of them or the
// result is floating all are; else all are integers.
//
// Numbers that are no tensors count as float32 unless the operator computes in
// float64, as PyTorch casts a scalar to the type it computes in.
std::vector<Elements> LoadTogether(RefCall& call,
                                   std::vector<absl::string_view> names);

// y = fn(x), in double.
template <auto fn>
RefResults UnaryFloat(RefCall& call) {
  Elements x = call.Load("self").AsFloats();
  for (double& v : x.f) v = fn(v);
  return {call.Make(0, x)};
}

// y = fn(x) for floats; integers stay as they are.
template <auto fn>
RefResults UnaryRounding(RefCall& call) {
  Elements x = call.Load("self");
  for (double& v : x.f) v = fn(v);
  return {call.Make(0, x)};
}

// y = fn(x) with fn for double and for int64.
template <auto fn>
RefResults Unary(RefCall& call) {
  Elements x = call.Load("self");
  for (double& v : x.f) v = fn(v);
  for (int64_t& v : x.i) v = fn(v);
  return {call.Make(0, x)};
}

// A question about each element; fn for double and for int64 gives bool.
template <auto fn>
RefResults UnaryTest(RefCall& call) {
  const Elements x = call.Load("self");
  Elements y = Elements::Ints(x.sizes);
  for (size_t k = 0; k < y.i.size(); ++k) {
    y.i[k] = x.floating ? fn(x.f[k]) : fn(x.i[k]);
  }
  return {call.Make(0, y)};
}

// y = fn(self, other), with fn for double and for int64.
template <auto fn>
RefResults Binary(RefCall& call) {
  std::vector<Elements> in = LoadTogether(call, {"self", "other"});
  Elements& x = in[0];
  for (size_t k = 0; k < x.f.size(); ++k) x.f[k] = fn(x.f[k], in[1].f[k]);
  for (size_t k = 0; k < x.i.size(); ++k) x.i[k] = fn(x.i[k], in[1].i[k]);
  return {call.Make(0, x)};
}

// y = fn(self, other) in double.
template <auto fn>
RefResults BinaryFloat(RefCall& call) {
  std::vector<Elements> in = LoadTogether(call, {"self", "other"});
  Elements x = in[0].AsFloats();
  for (size_t k = 0; k < x.f.size(); ++k) x.f[k] = fn(x.f[k], in[1].F(k));
  return {call.Make(0, x)};
}

// A question about two; fn for double and for int64 gives bool.
template <auto fn>
RefResults BinaryTest(RefCall& call) {
  const std::vector<Elements> in = LoadTogether(call, {"self", "other"});
  Elements y = Elements::Ints(in[0].sizes);
  for (size_t k = 0; k < y.i.size(); ++k) {
    y.i[k] = in[0].floating ? fn(in[0].f[k], in[1].f[k])
                            : fn(in[0].i[k], in[1].i[k]);
  }
  return {call.Make(0, y)};
}

// gx = fn(grad, saved), in double, with the names of the two operands.
template <auto fn>
RefResults Backward(RefCall& call, absl::string_view grad,
                    absl::string_view saved) {
  const std::vector<Elements> in = LoadTogether(call, {grad, saved});
  Elements g = Elements::Floats(in[0].sizes);
  for (size_t k = 0; k < g.f.size(); ++k) g.f[k] = fn(in[0].F(k), in[1].F(k));
  return {call.Make(0, g)};
}

}  // namespace kiln

#endif  // KILN_COMPILER_REFERENCE_POINTWISE_H_
