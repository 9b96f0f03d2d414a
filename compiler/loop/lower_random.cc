// Random numbers: Philox, indexed by the element's number, with a stream for each node.
// So results depend only on the run's seed. Nodes that draw from a seed in the graph
// may add a number to it.

#include <cmath>
#include <limits>
#include <string>

#include "compiler/graph/op_table.h"
#include "compiler/loop/lowering.h"
#include "proto/base/status.h"

namespace kiln {

namespace {

// The number of element `at`, uniform in [0, 1). `number` is a RandomNumber.
ScalarId Draw(NestWriter& nest, ScalarId seed, int64_t number,
              const DimVector& sizes, const DimVector& at) {
  BodyBuilder& b = nest.body;
  SymExpr linear = 0;
  for (size_t d = 0; d < sizes.size(); ++d) linear = linear * sizes[d] + at[d];
  ScalarNode random{ScalarOp::kRandom, DType::kFloat32};
  random.args = {seed, b.Index(linear)};
  random.number.i = number;
  return b.Add(std::move(random));
}

// A uniform number from a new stream of the run's seed.
ScalarId Uniform(NestWriter& nest, GraphLowering& g, const DimVector& sizes,
                 const DimVector& at) {
  const ScalarId seed =
      nest.body.Add(ScalarNode{ScalarOp::kSeed, DType::kInt64});
  return Draw(nest, seed, RandomNumber(g.random_streams++, 0), sizes, at);
}

// native_dropout(input, p, train) -> (output, mask of the elements that are kept).
absl::Status Dropout(NodeLowering& n, ScalarOp) {
  const TensorMeta& m = n.result_meta();
  const DType type = ComputeType(m.dtype);
  NestWriter nest = n.Write();
  BodyBuilder& b = nest.body;
  const DimVector at = nest.Iterate(m.sizes);
  const double p = n.Number(1);
  const bool train = n.arg(2).is_none() || BoolOf(n.arg(2));
  const ScalarId x = nest.LoadAs(n.tensor(0), at, type);
  ScalarId keep = b.Bool(true), out = x;
  if (train && p > 0) {
    keep = b.Bool(false);
    if (p < 1) {
      keep = b.Op(ScalarOp::kGe, Uniform(nest, n.g, m.sizes, at),
                  b.Float(DType::kFloat32, p));
    }
    const double scale = p < 1 ? 1 / (1 - p) : 0;
    out = b.Op(ScalarOp::kMul, b.Op(ScalarOp::kMul, x, b.Cast(type, keep)),
               b.Float(type, scale));
  }
  nest.Store(n.result(0), at, out);
  nest.Store(n.result(1), at, keep);
  nest.Finish();
  return absl::OkStatus();
}

absl::Status DropoutBackward(NodeLowering& n, ScalarOp) {
  const TensorMeta& m = n.result_meta();
  const DType type = ComputeType(m.dtype);
  NestWriter nest = n.Write();
  BodyBuilder& b = nest.body;
  const DimVector at = nest.Iterate(m.sizes);
  const ScalarId grad = nest.LoadAs(n.tensor(0), at, type);
  const ScalarId mask = nest.LoadAs(n.tensor(1), at, type);
  nest.Store(n.result(), at,
             b.Op(ScalarOp::kMul, b.Op(ScalarOp::kMul, grad, mask),
                  b.Float(type, n.Number(2))));
  nest.Finish();
  return absl::OkStatus();
}

absl::Status Rand(NodeLowering& n, ScalarOp) {
  NestWriter nest = n.Write();
  const DimVector& sizes = n.result_meta().sizes;
  const DimVector at = nest.Iterate(sizes);
  nest.Store(n.result(), at, Uniform(nest, n.g, sizes, at));
  nest.Finish();
  return absl::OkStatus();
}

// A normally distributed number from two uniform ones, by Box and Muller:
// sqrt(-2 log(1 - u)) * cos(2 pi v).
ScalarId Normal(BodyBuilder& b, ScalarId u, ScalarId v) {
  const DType f32 = DType::kFloat32;
  const ScalarId radius = b.Op(
      ScalarOp::kSqrt,
      b.Op(ScalarOp::kMul, b.Float(f32, -2),
           b.Op(ScalarOp::kLog, b.Op(ScalarOp::kSub, b.Float(f32, 1), u))));
  const ScalarId angle = b.Op(ScalarOp::kMul, b.Float(f32, 2 * M_PI), v);
  return b.Op(ScalarOp::kMul, radius, b.Op(ScalarOp::kCos, angle));
}

absl::Status Randn(NodeLowering& n, ScalarOp) {
  NestWriter nest = n.Write();
  const DimVector& sizes = n.result_meta().sizes;
  const DimVector at = nest.Iterate(sizes);
  const ScalarId u = Uniform(nest, n.g, sizes, at);
  const ScalarId v = Uniform(nest, n.g, sizes, at);
  nest.Store(n.result(), at, Normal(nest.body, u, v));
  nest.Finish();
  return absl::OkStatus();
}

// prims.inductor_seed(device): 48 bits drawn from the run's seed. From them another graph
// can draw the same numbers again.
absl::Status Seed(NodeLowering& n, ScalarOp) {
  NestWriter nest = n.Write();
  BodyBuilder& b = nest.body;
  const auto bits = [&] {
    return b.Cast(DType::kInt64,
                  b.Op(ScalarOp::kMul, Uniform(nest, n.g, {}, {}),
                       b.Float(DType::kFloat32, 1 << 24)));
  };
  const ScalarId high =
      b.Op(ScalarOp::kMul, bits(), b.Int(DType::kInt64, 1 << 24));
  nest.Store(n.result(), {}, b.Op(ScalarOp::kAdd, high, bits()));
  nest.Finish();
  return absl::OkStatus();
}

// A seed as a tensor and a number that is added to it.
struct NumberedSeed {
  ValueId seed;
  int64_t added = 0;
};

// The seed and the number of which `v` is the sum, if the number fits RandomNumber.
NumberedSeed TakeApart(const GraphLowering& g, ValueId v) {
  static const OpDef& kAdd = KnownOp("aten.add.Tensor");
  const uint32_t producer = g.graph.value(v).node;
  if (producer == Value::kNoNode) return {v};
  const Node& node = g.graph.nodes()[producer];
  if (node.op != &kAdd || !node.args[0].is_value() ||
      g.meta(node.args[0].value()).dtype != DType::kInt64 ||
      LiteralOf(node.args[2]) != 1) {
    return {v};
  }
  const auto* number = std::get_if<SymExpr>(&node.args[1].v);
  if (number == nullptr || !number->is_constant() || number->constant() < 0 ||
      number->constant() > std::numeric_limits<int32_t>::max()) {
    return {v};
  }
  return {node.args[0].value(), number->constant()};
}

// prims.inductor_random(size, seed, mode): numbers drawn from a seed, uniform ("rand",
// from its stream 0) or normal ("randn", from its streams 0 and 1).
absl::Status RandomOfSeed(NodeLowering& n, ScalarOp) {
  const bool normal = n.arg(2) == Argument(std::string("randn"));
  if (!normal && !(n.arg(2) == Argument(std::string("rand")))) {
    return MakeError(
        ErrorReason::kUnsupportedOp,
        "prims.inductor_random.default: a mode that is not rand or randn");
  }
  NestWriter nest = n.Write();
  const DimVector& sizes = n.result_meta().sizes;
  const DimVector at = nest.Iterate(sizes);
  // The number that the node adds is an argument, so that equal dropouts share a kernel.
  const NumberedSeed from = TakeApart(n.g, n.tensor(1));
  const ScalarId seed = nest.Load(from.seed, {});
  const auto draw = [&](int64_t stream) {
    return Draw(nest, seed, RandomNumber(stream, from.added), sizes, at);
  };
  ScalarId drawn = draw(0);
  if (normal) drawn = Normal(nest.body, drawn, draw(1));
  nest.Store(n.result(), at, drawn);
  nest.Finish();
  return absl::OkStatus();
}

constexpr LowerRow kRows[] = {
    {"prims.inductor_seed.default", Seed},
    {"prims.inductor_random.default", RandomOfSeed},
    {"aten.native_dropout.default", Dropout},
    {"aten.native_dropout_backward.default", DropoutBackward},
    {"aten.rand.default", Rand},
    {"aten.rand_like.default", Rand},
    {"aten.randn.default", Randn},
    {"aten.randn_like.default", Randn},
};

}  // namespace

absl::Span<const LowerRow> RandomLowerings() { return kRows; }

}  // namespace kiln
